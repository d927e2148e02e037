"""Lab 12, language models: what is claimed of each answer, and its likely mistakes, each written
once as a wrong function.

Inputs are drawn for every grading: windows of different lengths with padding on either side,
layers of unequal sizes whose inputs differ in scale, inputs that are correlated.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from course_lib.grading import (
    Draw,
    Submission,
    expect_close,
    expect_length,
    expect_number,
    expect_tensor,
    fail,
    question,
    unchanged,
)
from course_lib.grading.claims.mistakes import Exercises, draw_case, near, recognise
from course_lib.grading.claims.typed import expect_choice
from course_lib.labs import lab12 as reference
from course_lib.pruning.weights import prune_lowest

Wrong = dict[str, Callable[..., Any]]
WRONG: dict[str, Wrong] = {}
exercises = Exercises(reference, WRONG)
close = partial(near, tolerance=1e-4, least=1e-3)

# --- 12.1 perplexity ------------------------------------------------------------------

Batches = list[tuple[Tensor, Tensor, Tensor]]


def losses(logits: Tensor, ids: Tensor, places: int = 1, axis: int = -1) -> Tensor:
    """−ln p of each token by the logits ``places`` before it (−1: one after it), (B, L − |places|)."""
    L = logits.shape[1]
    log_p = logits[:, max(0, -places) : L - max(0, places)].log_softmax(axis).double()
    return -log_p.gather(-1, ids[:, max(0, places) : L - max(0, -places), None])[..., 0]


def perplexity_by(
    counts: Callable[[Tensor], Tensor] = lambda mask: mask[:, 1:] & mask[:, :-1],
    places: int = 1,
    axis: int = -1,
    divide: Callable[[Tensor, Tensor], float] | None = None,
    each: str = "window",
    first: bool = False,
    as_is: bool = False,
) -> Callable[[Batches], float]:
    """A version of perplexity of which one thing may be wrong.

    Args:
        counts: the tokens that count, of a mask. axis: of the softmax. divide: Σ nll and numbers
            of tokens, per window or batch (``each``) -> the result. first: the first batch only.
        as_is: the softmax is computed in the dtype of the logits.
    """

    def version(batches: Batches) -> float:
        sums, numbers = [], []
        for logits, ids, mask in batches[:1] if first else batches:
            counted = counts(mask)
            nll = losses(logits if as_is else logits.double(), ids, places, axis)
            of = [row[c].sum() for row, c in zip(nll, counted, strict=True)]
            n_of = [c.sum() for c in counted]
            sums += of if each == "window" else [torch.stack(of).sum()]
            numbers += n_of if each == "window" else [torch.stack(n_of).sum()]
        nll_of, n = torch.stack(sums), torch.stack(numbers)
        return divide(nll_of, n) if divide else math.exp(float(nll_of.sum() / n.sum()))

    return version


NEXT = "the logits at a place were compared with the token at the same place: they predict the next one"
WRONG["perplexity"] = {
    NEXT: perplexity_by(counts=lambda mask: mask, places=0),
    f"{NEXT}, so the last place has no token": lambda batches: perplexity_by(
        counts=lambda mask: mask, places=0
    )(
        [(logits[:, 1:], ids[:, 1:], mask[:, 1:] & mask[:, :-1]) for logits, ids, mask in batches]
    ),
    "padding was counted: a token counts if it and the token before it are real": perplexity_by(
        counts=lambda mask: torch.ones_like(mask[:, 1:])
    ),
    "the first real token after padding was counted, which is predicted from padding: the token before must be real, too": (
        perplexity_by(counts=lambda mask: mask[:, 1:])
    ),
    "padding after the text was counted, which is predicted from a real token: the predicted token must be real, too": (
        perplexity_by(counts=lambda mask: mask[:, :-1])
    ),
    "this is the mean over windows of their mean losses, then exp: a short window counts as much as a long one. Divide once, by all tokens": (
        perplexity_by(divide=lambda nll, n: math.exp(float((nll / n).mean())))
    ),
    "this is a mean of the windows' perplexities: first add up the losses of the whole text, then exp": perplexity_by(
        divide=lambda nll, n: float((nll / n).exp().mean())
    ),
    "this is the mean over batches of their mean losses, then exp: a small batch counts as much as a large one. Divide once, by all tokens": (
        perplexity_by(divide=lambda nll, n: math.exp(float((nll / n).mean())), each="batch")
    ),
    "this is a mean of the batches' perplexities: first add up the losses of the whole text, then exp": perplexity_by(
        divide=lambda nll, n: float((nll / n).exp().mean()), each="batch"
    ),
    "only the first batch was counted: return after the loop over all batches": perplexity_by(
        first=True
    ),
    "the logits at a place were compared with the token before it: they predict the next one": (
        perplexity_by(places=-1)
    ),
    "the softmax was taken over the places of a window: the last axis is that of the vocabulary": (
        perplexity_by(axis=1)
    ),
    "this is the mean loss: exp is missing": perplexity_by(
        divide=lambda nll, n: float(nll.sum() / n.sum())
    ),
    "this is 2 to the power of the mean loss: ln p needs exp": perplexity_by(
        divide=lambda nll, n: 2 ** float(nll.sum() / n.sum())
    ),
    "the sum was divided by all tokens, also by the first of each window, which is not predicted": perplexity_by(
        divide=lambda nll, n: math.exp(float(nll.sum() / (n + 1).sum()))
    ),
}  # fmt: skip


def text(draw: Draw, dtype: torch.dtype = torch.float32) -> Batches:
    """Two batches of windows of different lengths; padding on both sides."""
    vocabulary = draw.integer(5, 8)
    batches = []
    for B, L in ((3, draw.integer(9, 12)), (2, draw.integer(5, 7))):
        starts = torch.tensor([0, 2, 1][:B])[:, None]
        ends = torch.tensor([L, L, L - draw.integer(1, 2)][:B])[:, None]
        mask = (torch.arange(L) >= starts) & (torch.arange(L) < ends)
        logits = draw.normal(B, L, vocabulary, scale=2.0, dtype=dtype)
        batches.append((logits, draw.labels(B * L, vocabulary).view(B, L), mask))
    return batches


DIVIDED_BY_PLACES = (
    "the sum was divided by all places, padding included: divide by the number of tokens that count"
)


def over_all_places(batches: Batches) -> float:
    counted = [mask[:, 1:] & mask[:, :-1] for _, _, mask in batches]
    nll = [
        losses(logits.double(), ids)[c].sum()
        for (logits, ids, _), c in zip(batches, counted, strict=True)
    ]
    return math.exp(float(torch.stack(nll).sum()) / sum(c.numel() for c in counted))


WRONG["perplexity"][DIVIDED_BY_PLACES] = over_all_places


def expect_perplexity(submission: Submission, draw: Draw, **how: Any) -> None:
    equal = partial(near, tolerance=1e-4)
    (batches,), right, mistakes = draw_case(
        lambda: (text(draw, **how),), perplexity_by(), WRONG["perplexity"], equal
    )
    value, (after,) = submission.call("perplexity", batches, returning=(0,))
    value = expect_number(value, "perplexity(…)")
    for before, now in zip(batches, after, strict=True):
        for one, other, what in zip(before, now, ("the logits", "ids", "mask"), strict=True):
            unchanged(one, other, what)
    recognise(value, right, mistakes, equal=equal)
    expect_close(value, right, "perplexity(…)", tolerance=1e-4)


@question("12.1", points=1, claim="exp(Σ −ln p / T) over all tokens of all windows")
def test_perplexity(submission: Submission, draw: Draw) -> None:
    expect_perplexity(submission, draw)


# --- 12.2 influence -------------------------------------------------------------------


def influence_by(
    change: Callable[[Tensor, Tensor, Tensor], Tensor],
    first: bool = False,
    last: bool = False,
    as_is: bool = False,
) -> Callable[[Sequence[Tensor], Tensor], Tensor]:
    """A version of influence: ``change`` of x, y (B, L, E) and the mask; ``first``: x is the
    input of the first layer for every layer; ``last``: y is the output of the last layer;
    ``as_is``: computed in the dtype of the states.
    """

    def version(states: Sequence[Tensor], mask: Tensor) -> Tensor:
        if not as_is:
            states = [state.double() for state in states]
        x_of = [states[0]] * len(states) if first else states
        y_of = [states[-1]] * (len(states) - 1) if last else states[1:]
        return torch.stack([change(x, y, mask) for x, y in zip(x_of, y_of, strict=False)]).double()

    return version


def cosines(x: Tensor, y: Tensor) -> Tensor:
    return F.cosine_similarity(x, y, dim=-1)


def of_tokens(x: Tensor, y: Tensor, mask: Tensor) -> Tensor:
    return 1 - cosines(x, y)[mask].mean()


WRONG["influence"] = {
    "this is the cosine: influence is 1 − cos, 0 for a layer that changes no direction": influence_by(
        lambda x, y, mask: cosines(x, y)[mask].mean()
    ),
    "padding was counted: take the mean over real tokens": influence_by(
        lambda x, y, mask: 1 - cosines(x, y).mean()
    ),
    "the cosine of mean vectors was taken: take the cosine of every token first, then the mean": influence_by(
        lambda x, y, mask: 1 - cosines(x[mask].mean(0), y[mask].mean(0))
    ),
    "each layer's output was compared with the input of the first layer: compare it with this layer's own input": (
        influence_by(of_tokens, first=True)
    ),
    "the cosine of all tokens as one long vector was taken: take the cosine of every token, then the mean": influence_by(
        lambda x, y, mask: 1 - cosines(x[mask].flatten(), y[mask].flatten())
    ),
    "texts were averaged first: a short text counts as much as a long one. Take the mean over all real tokens": influence_by(
        lambda x, y, mask: 1 - ((cosines(x, y) * mask).sum(1) / mask.sum(1)).mean()
    ),
    "the cosine was taken over tokens, not over features: the last axis is that of the features": influence_by(
        lambda x, y, mask: 1 - F.cosine_similarity(x[mask], y[mask], dim=0).mean()
    ),
    "the cosine was taken over the positions of a text (dim=1 is the default): the last axis is that of the features": (
        influence_by(lambda x, y, mask: 1 - F.cosine_similarity(x * mask[..., None], y * mask[..., None]).mean())
    ),
    "each layer's input was compared with the output of the last layer: compare it with this layer's own output": (
        influence_by(of_tokens, last=True)
    ),
    "padding was counted as a token with cosine 0: divide by the number of real tokens": influence_by(
        lambda x, y, mask: 1 - (cosines(x, y) * mask).mean()
    ),
    "the sign of the cosine was lost: an output that points backwards has influence 2": influence_by(
        lambda x, y, mask: 1 - cosines(x, y)[mask].abs().mean()
    ),
    "the dot product was used: the cosine divides it by both norms": influence_by(
        lambda x, y, mask: 1 - (x * y).sum(-1)[mask].mean()
    ),
    "the input was compared with what the layer adds, y − x: compare it with the output y": influence_by(
        lambda x, y, mask: 1 - cosines(x, y - x)[mask].mean()
    ),
}  # fmt: skip


def passed_on(draw: Draw, dtype: torch.dtype = torch.float32) -> tuple[list[Tensor], Tensor]:
    """States of three to five layers, each a small change of the one before; rows differ in
    size; three texts of different lengths, one padded on the left.
    """
    L, E = draw.integer(6, 9), draw.integer(4, 6)
    lengths = torch.tensor([L, L - 3, 2])
    mask = torch.arange(L) < lengths[:, None]
    mask[1] = mask[1].flip(0)
    size = draw.sizes(3 * L, 0.2, 5.0).view(3, L, 1)
    states = [draw.normal(3, L, E) * size]
    for _ in range(draw.integer(3, 5)):
        states.append(states[-1] + draw.normal(3, L, E, scale=draw.number(0.3, 1.5)) * size)
    return [state.to(dtype) for state in states], mask


@question("12.2", points=1, claim="1 − cos of each layer's own input and output, mean over tokens")
def test_influence(submission: Submission, draw: Draw) -> None:
    expect_influence(submission, draw)


def expect_influence(
    submission: Submission, draw: Draw, more: Wrong | None = None, **how: Any
) -> None:
    """``more``: other mistakes. Computed in float16 the result differs by about 1e-4."""
    equal = partial(near, tolerance=2e-5) if more else close
    given, right, mistakes = draw_case(
        lambda: passed_on(draw, **how),
        influence_by(of_tokens),
        WRONG["influence"] | (more or {}),
        equal,
    )
    value, (states, mask) = submission.call("influence", *given, returning=(0, 1))
    value = expect_tensor(value, shape=right.shape, dtype=torch.float64, what="influence(…)")
    unchanged(given[0], list(states), "the states")
    unchanged(given[1], mask, "mask")
    recognise(value, right, mistakes, equal=equal)
    if more and near(value, right, tolerance=5e-3) and not near(value, right, tolerance=1e-6):
        fail(next(iter(more)))
    expect_close(value, right, "influence(…)", tolerance=1e-6 if more else 1e-4)


# --- 12.3 wanda_walk ------------------------------------------------------------------

Score = Callable[[Tensor, Tensor], Tensor]  # |w| (outputs, inputs), x (rows, inputs)


def by_norm(w: Tensor, x: Tensor) -> Tensor:
    return w * x.square().sum(0).sqrt()


def walk_by(
    score: Score = by_norm,
    choose: Callable[[Tensor, float], Tensor] = lambda scores, s: prune_lowest(
        scores, round(s * scores.shape[1]), dim=1
    ),
    size: Callable[[Tensor], Tensor] = torch.abs,
    look: Callable[[Tensor], Tensor] = lambda x: x.flatten(0, -2),
    dense: bool = False,
    in_turn: bool = False,
    returned: str = "pruned",
) -> Callable[[Sequence[nn.Module], Tensor, float], Tensor]:
    """A version of wanda_walk of which one thing may be wrong.

    Args:
        score: of |w| (``size``) and the inputs. choose: the mask, of scores and sparsity. look:
            the rows of the inputs that are used. dense: layers get what the unpruned ones pass on. in_turn: a matrix sees what the pruned ones before it
            in its layer put out. returned: "dense" or "input": what the last layer put out before
            it was pruned, or its input.
    """

    @torch.no_grad()
    def version(layers: Sequence[nn.Module], x: Tensor, sparsity: float) -> Tensor:
        def prune(module: nn.Module, inputs: tuple[Tensor, ...]) -> None:
            seen[module] = look(inputs[0])
            if in_turn:
                cut(module)

        def cut(module: Any) -> None:
            module.weight *= choose(score(size(module.weight), seen[module]), sparsity)

        out = x
        for layer in layers:
            seen: dict[nn.Module, Tensor] = {}
            linear = [m for m in layer.modules() if isinstance(m, nn.Linear)]
            hooks = [m.register_forward_pre_hook(prune) for m in linear]
            before, whole = x, layer(x)
            for hook in hooks:
                hook.remove()
            for module in [] if in_turn else linear:
                cut(module)
            out = layer(x)
            x = whole if dense else out
        return {"pruned": out, "dense": whole, "input": before}[returned]

    return version


OF_CHOICE: Wrong = {
    "the sizes of the inputs made no difference: the score is |w| times the norm of the input that it multiplies": (
        walk_by(lambda w, x: w)
    ),
    "Σ|x| was used instead of the norm: square, add up, take the root": walk_by(lambda w, x: w * x.abs().sum(0)),
    "‖x‖² was used instead of ‖x‖: the root is missing": walk_by(lambda w, x: w * x.square().sum(0)),
    "all weights of a matrix were ranked together: prune the same number in every output (dim=1)": walk_by(
        choose=lambda scores, s: prune_lowest(scores, round(s * scores.shape[1]) * len(scores))
    ),
    "the weights of an input were ranked against each other: compare those of an output, a row (dim=1)": walk_by(
        choose=lambda scores, s: prune_lowest(scores, round(s * len(scores)), dim=0)
    ),
    "the weights with the largest scores were pruned: prune the smallest": walk_by(
        choose=lambda scores, s: prune_lowest(-scores, round(s * scores.shape[1]), dim=1)
    ),
    "only the last position of the texts was used: the norm is over all texts and positions": walk_by(
        look=lambda x: x[:, -1]
    ),
    "only the first text was used: the norm is over all texts and positions": walk_by(look=lambda x: x[0]),
    "only the last text was used: the norm is over all texts and positions": walk_by(look=lambda x: x[-1]),
    "the sign of the weights counted: the score is |w| times the norm": walk_by(size=lambda w: w),
    "the number of pruned weights was rounded down: it is round(sparsity · inputs)": walk_by(
        choose=lambda scores, s: prune_lowest(scores, int(s * scores.shape[1]), dim=1)
    ),
    "the mask is upside down: prune_lowest is True where a weight is kept": walk_by(
        choose=lambda scores, s: ~prune_lowest(scores, round(s * scores.shape[1]), dim=1)
    ),
}  # fmt: skip
OF_THE_WALK: Wrong = {
    "a layer was scored by what the unpruned layers before it pass on: run the pruned layer, and give its output to the next": (
        walk_by(dense=True)
    ),
    "a matrix was scored by what the pruned matrices before it in its layer put out: score all matrices of a layer from one pass, then prune": (
        walk_by(in_turn=True)
    ),
}  # fmt: skip
OF_THE_RESULT: Wrong = {
    "the returned states are those of the unpruned last layer: run the layer again, once it is pruned": walk_by(returned="dense"),
    "the returned states are the input of the last layer: return what it puts out": walk_by(returned="input"),
}  # fmt: skip
WRONG["wanda_walk"] = OF_CHOICE | OF_THE_WALK | OF_THE_RESULT


def stack(draw: Draw, layers: int, E: int, bias: bool = True) -> nn.ModuleList:
    """Layers (B, L, E) -> (B, L, E) of two matrices each, one of them deeper inside."""
    every = nn.ModuleList()
    for _ in range(layers):
        wide = E + draw.integer(2, 4)
        inner = nn.Sequential(nn.Tanh(), nn.Linear(wide, E, bias=bias))
        every.append(nn.Sequential(nn.LayerNorm(E), nn.Linear(E, wide, bias=bias), inner))
    with torch.no_grad():
        for name, p in every.named_parameters():
            scale = 2.5 if ".0." in name and p.ndim == 1 else 1.0
            p.copy_(draw.normal(*p.shape, scale=scale))
    return every


def inputs(draw: Draw, E: int) -> Tensor:
    """(B, L, E), the features of different sizes."""
    B, L = draw.integer(2, 3), draw.integer(4, 6)
    return draw.normal(B, L, E) * draw.sizes(E, 0.2, 5.0).float()


Walked = tuple[dict[str, Tensor], Tensor]


def walked(
    walk: Callable[..., Tensor], layers: nn.ModuleList, x: Tensor, sparsity: float
) -> Walked:
    """The parameters and the result, of a copy."""
    layers = copy.deepcopy(layers)
    result = walk(layers, x.clone(), sparsity)
    return {name: p.detach() for name, p in layers.named_parameters()}, result


TIES = "where scores are equal, other weights were pruned: of equal ones those that come first, by prune_lowest"


def expect_walked(
    submission: Submission,
    layers: nn.ModuleList,
    x: Tensor,
    sparsity: float,
    wrong: Wrong,
    tied: str = "",
) -> None:
    """Same weights and result as the right walk's; no hook, and x as it was. ``tied``: the matrix
    whose scores are all equal.
    """
    right, out = walked(walk_by(), layers, x, sparsity)
    there = submission.put(layers)
    hooks = submission.helper("hooks", model=there)
    result, (after,) = submission.call("wanda_walk", there, x, sparsity, returning=(1,))
    value = submission.get(there).state
    for said, function in wrong.items():
        mistaken, _ = walked(function, layers, x, sparsity)
        if all(close(value[name], mistaken[name]) for name in right):
            if not all(close(right[name], mistaken[name]) for name in right):
                fail(said)
    for name, w in right.items():
        if not close(value[name], w):
            if w.ndim < 2:
                fail(
                    f"{name!r} of the layers changed, a bias or a norm: prune only weights of nn.Linear"
                )
            fail(TIES if name == tied else explain_mask(name, value[name] == 0, w == 0, sparsity))
        if not torch.equal(value[name] == 0, w == 0):
            fail(f"pruned weights of {name!r} are not exactly 0")
    unchanged(x, after, "x")
    if submission.get(hooks, "count"):
        fail("a hook is left behind: remove every hook when the inputs are seen")
    result = expect_tensor(result, shape=out.shape, what="the result")
    of_result = {said: walked(f, layers, x, sparsity)[1] for said, f in OF_THE_RESULT.items()}
    recognise(result, out, of_result, equal=close)
    expect_close(result, out, "the result", tolerance=1e-4)


def explain_mask(name: str, value: Tensor, right: Tensor, sparsity: float) -> str:
    """How the zeros (outputs, inputs) of a matrix differ from the right ones."""
    counts, k = sorted(set(value.sum(1).tolist())), int(right[0].sum())
    if counts == [0] and k:
        return f"{name!r} was not pruned: prune every nn.Linear in layer.modules(), in place"
    if len(counts) > 1:
        return (
            f"the outputs of {name!r} lost different numbers of weights, from {counts[0]} to"
            f" {counts[-1]}: each output loses the same number, round(sparsity · inputs)"
        )
    if counts != [k]:
        return (
            f"each output of {name!r} lost {counts[0]} of {value.shape[1]} weights, expected:"
            f" round(sparsity · inputs) with sparsity {sparsity:g}"
        )
    return (
        f"each output of {name!r} lost the right number of weights, but other ones: the score is |w|"
        " times the norm of what this matrix gets, over all texts and positions"
    )


def draw_stack(
    draw: Draw, sparsity: float, layers: int = 3, wrong: Wrong | None = None
) -> tuple[nn.ModuleList, Tensor]:
    """Layers in which every mistake (of ``wrong``) gives other weights."""

    def case() -> tuple[nn.ModuleList, Tensor, float]:
        E = draw.integer(5, 7)
        return stack(draw, layers, E), inputs(draw, E), sparsity

    def weights_of(walk: Callable[..., Tensor]) -> Callable[..., Any]:
        return lambda *given: walked(walk, *given)[0]

    versions = {said: weights_of(f) for said, f in (wrong or OF_CHOICE | OF_THE_WALK).items()}
    (every, x, _), *_ = draw_case(case, weights_of(walk_by()), versions, close)
    return every, x


@question("12.3", points=1, claim="one layer: in every output the smallest |w|·‖x‖ become 0")
def test_one_layer(submission: Submission, draw: Draw) -> None:
    wrong = OF_CHOICE | {k: v for k, v in OF_THE_WALK.items() if "matrices" in k}
    layers, x = draw_stack(draw, 0.4, layers=1, wrong=wrong)
    expect_walked(submission, layers, x, 0.4, wrong)


@question(
    "12.3", points=1, claim="each layer is scored by what the pruned layers before it pass on"
)
def test_layer_by_layer(submission: Submission, draw: Draw) -> None:
    layers, x = draw_stack(draw, 0.5)
    expect_walked(submission, layers, x, 0.5, OF_CHOICE | OF_THE_WALK)


# --- 12.4 remove_in_turn --------------------------------------------------------------


def remove_by(
    step: Callable[[Tensor, Tensor, int], Tensor] = lambda row, inverse, j: (
        row - row[j] / inverse[j, j] * inverse[:, j]
    ),
    start: Callable[[Tensor], Tensor] = torch.inverse,
    eliminates: bool = True,
    original: bool = False,
    views: bool = False,
    zeros: bool = True,
) -> Callable[[Tensor, Tensor, Sequence[int]], Tensor]:
    """A version of remove_in_turn of which one thing may be wrong.

    Args:
        step: the row after weight j is removed. start: the matrix that is used, of H.
        eliminates: the inverse is updated. original: each step moves by the weight's first value.
        views: the inverse is updated row by row, with a view of its column. zeros: removed
            weights are set to 0 at the end, too.
    """

    def version(row: Tensor, H: Tensor, gone: Sequence[int]) -> Tensor:
        first, row, inverse = row, row.clone(), start(H).clone()
        for j in gone:
            if original:
                row = row - first[j] / inverse[j, j] * inverse[:, j]
            else:
                row = step(row, inverse, j)
            if views:
                column, d = inverse[:, j], float(inverse[j, j])
                for a in range(len(row)):
                    inverse[a] -= column[a] * column / d
            elif eliminates:
                inverse = inverse - torch.outer(inverse[:, j], inverse[j]) / inverse[j, j]
            if eliminates:
                inverse[j], inverse[:, j] = 0, 0
            row[j] = 0
        if zeros:
            row[list(gone)] = 0
        return row

    return version


NOT_ELIMINATED = "the inverse was not updated: after each removal, subtract H⁻¹e_j e_jᵀH⁻¹ / [H⁻¹]_jj, so that removed weights no longer move"
OF_THE_STEP: Wrong = {
    "the other weights did not move: they make up for the removed one. Is the row updated before the inverse? Afterwards column j of the inverse is 0": (
        remove_by(lambda row, inverse, j: row.clone())
    ),
    "H was used where its inverse belongs: the step is along column j of H⁻¹": remove_by(
        start=torch.clone
    ),
    "the others moved the wrong way: subtract w_j / [H⁻¹]_jj times column j of H⁻¹": remove_by(
        lambda row, inverse, j: row + row[j] / inverse[j, j] * inverse[:, j]
    ),
    "the step is not divided by [H⁻¹]_jj": remove_by(
        lambda row, inverse, j: row - row[j] * inverse[:, j]
    ),
    "only the weights to the right of the removed one moved: here all others make up for it": remove_by(
        lambda row, inverse, j: row - row[j] / inverse[j, j] * inverse[:, j] * (torch.arange(len(row)) > j)
    ),
}  # fmt: skip
OF_SEVERAL: Wrong = {
    NOT_ELIMINATED: remove_by(eliminates=False),
    "a removed weight moved again in a later step: the inverse was not updated after each removal": remove_by(
        eliminates=False, zeros=False
    ),
    "the first values of the removed weights were used: use the value that the earlier steps have left": (
        remove_by(original=True)
    ),
    "each weight was removed from the first row on its own, and the steps were added up: remove one after the other": (
        remove_by(original=True, eliminates=False)
    ),
    "the inverse changed while it was read: a row or column of it is a view, copy it first": remove_by(
        views=True
    ),
}
WRONG["remove_in_turn"] = OF_THE_STEP | OF_SEVERAL


def correlated(draw: Draw, n: int, tokens: int = 0) -> Tensor:
    """Σ xxᵀ of correlated inputs, float64, well conditioned."""
    mix = torch.eye(n).double() + 0.5 * draw.normal(n, n, dtype=torch.float64) / n**0.5
    x = draw.normal(tokens or 6 * n, n, dtype=torch.float64) @ mix
    return x.T @ x


def expect_removed(submission: Submission, draw: Draw, count: int) -> None:
    def case() -> tuple[Tensor, Tensor, list[int]]:
        n = draw.integer(7, 10)
        gone = draw.distinct(count, 0, n - 1)
        gone[:2] = sorted(gone[:2])  # a deleted row and column shift the later indices
        return draw.normal(n, dtype=torch.float64), correlated(draw, n), gone

    wrong = OF_THE_STEP | OF_SEVERAL if count > 1 else OF_THE_STEP
    given, right, mistakes = draw_case(case, remove_by(), wrong, close)
    row, H, gone = given
    result, after = submission.call("remove_in_turn", row, H, gone, returning=(0, 1))
    unchanged(row, after[0], "the row")
    unchanged(H, after[1], "H")
    compare_rows(result, right, given, mistakes)


def compare_rows(
    value: Any, right: Tensor, given: tuple[Tensor, Tensor, list[int]], mistakes: dict[str, Any]
) -> None:
    """The row is the right one, to the digits of float64."""
    row, H, gone = given
    value = expect_tensor(value, shape=row.shape, dtype=torch.float64, what="the row")
    if value.isnan().any():
        fail("the row has nan: is the row updated before the inverse? Afterwards [H⁻¹]_jj is 0")
    recognise(value, right, mistakes, equal=close)
    # rounding is 0 or not by chance: expect_exact_zeros looks at many rows
    if (value[gone].abs() > 1e-12).any():
        fail(f"removed weights are {value[gone].tolist()}: they must be exactly 0")
    if near(value, right, tolerance=2e-6) and not near(value, right, tolerance=1e-9):
        fail("the row has the accuracy of float32: compute in float64, as the arguments are")
    if not near(value, right, tolerance=1e-9):
        error, least = (float((v - row) @ H @ (v - row)) for v in (value, right))
        fail(
            f"without {gone} the row is not the least-squares solution: its error (v − w)ᵀH(v − w)"
            f" is {error:.6g}, the smallest is {least:.6g}"
        )


def expect_exact_zeros(submission: Submission, draw: Draw) -> None:
    """Removed weights are exactly 0, in so many rows that rounding shows."""
    for _ in range(12):
        row, H = draw.normal(9, dtype=torch.float64), correlated(draw, 9)
        gone = draw.distinct(5, 0, 8)
        value = submission.remove_in_turn(row, H, gone)
        value = expect_tensor(value, shape=row.shape, dtype=torch.float64, what="the row")
        if (value[gone] != 0).any():
            fail(f"removed weights are {value[gone].tolist()}: they must be exactly 0")


@question("12.4", points=1, claim="one weight: the others make up for it, by column j of H⁻¹")
def test_one_weight(submission: Submission, draw: Draw) -> None:
    expect_removed(submission, draw, 1)


@question("12.4", points=1, claim="several weights: the kept ones are the least-squares solution")
def test_several_weights(submission: Submission, draw: Draw) -> None:
    expect_removed(submission, draw, 3)
    expect_exact_zeros(submission, draw)


# --- 12.5 column_loop -----------------------------------------------------------------


def loop_by(
    score: Callable[[Tensor, Tensor], Tensor] = lambda part, d: (part / d) ** 2,
    update: Callable[[Tensor, Tensor, int], Tensor] = lambda error, U, i: torch.outer(
        error / U[i, i], U[i, i + 1 :]
    ),
    diagonal: Callable[[Tensor, int, int], Tensor] = lambda U, a, width: U.diagonal()[
        a : a + width
    ],
    at_once: bool = False,
    again: bool = False,
    ranked: str = "asked",
    reach: str = "all",
    rounding: str = "right",
    choose: Callable[[Tensor, int, int | None], Tensor] = prune_lowest,
) -> Callable[..., Tensor]:
    """A version of column_loop of which one thing may be wrong.

    Args:
        score: of a block (outputs, width) and the ``diagonal`` of its columns. update: what is
            taken from the columns to the right, of the column's error. at_once: all is ranked
            before the loop begins. again: a block is ranked at each of its columns. ranked: "block"
            or "row", whatever dim says, or "few": dim is not passed on. reach: "block" or
            "not last": the columns that are updated. rounding: "no error" of kept weights,
            "rounded": the error is that of the rounded column, "none": kept weights are not
            rounded. choose: the mask.
    """

    def version(
        W: Tensor, U: Tensor, width: int, count: int, dim: int | None = None,
        bits: int | None = None, group: int = 64,
    ) -> Tensor:  # fmt: skip
        first, W = W, W.clone()
        for i in range(W.shape[1]):
            value = W[:, i]
            if bits is not None:
                if i % group == 0:
                    low, step = reference.grid(W[:, i : i + group], bits)
                value = reference.nearest(value, low, step, bits)
            if i % width == 0 or again:
                a = i - i % width
                part = (first if at_once else W)[:, a : a + width]
                scores = score(part, diagonal(U, a, width))
                how = {"asked": dim, "block": None, "row": 1, "few": None}[ranked]
                k = count if how == dim else (count * len(W) if how is None else count // len(W))
                keep = choose(scores, count if ranked == "few" else k, how)
            kept = keep[:, i % width]
            q = torch.where(kept, W[:, i] if rounding == "none" else value, 0)
            error = (value if rounding == "rounded" else W[:, i]) - q
            if rounding == "no error":
                error = error.where(~kept, 0)
            end = {"all": W.shape[1], "block": i - i % width + width, "not last": W.shape[1] - 1}[
                reach
            ]
            change = update(error, U, i).expand(len(W), W.shape[1] - i - 1)
            W[:, i + 1 : max(end, i + 1)] -= change[:, : max(end - i - 1, 0)]
            W[:, i] = q
        return W

    return version


OF_SCORES: Wrong = {
    "weights were ranked by their size: the error of removing one is w² / U_jj²": loop_by(lambda part, d: part**2),
    "the weights with the largest errors were pruned: prune the smallest": loop_by(lambda part, d: -((part / d) ** 2)),
    "U_jj was multiplied, not divided: the error of removing a weight is w² / U_jj²": loop_by(lambda part, d: (part * d) ** 2),
    "w² was divided by U_jj: the error of removing a weight is w² / U_jj², with both squared": loop_by(lambda part, d: part**2 / d),
    "the sign of the weights counted: the error of removing a weight is w² / U_jj²": loop_by(lambda part, d: part / d),
    "every block was scored with the first entries of U's diagonal: use those of its own columns": loop_by(
        diagonal=lambda U, a, width: U.diagonal()[:width]
    ),
}  # fmt: skip
OF_ORDER: Wrong = {
    "all blocks were ranked before the loop began: rank a block when the loop comes to it, by the updated weights": loop_by(at_once=True),
    "a block was ranked again at each of its columns: decide once, when the loop comes to its first column": loop_by(again=True),
    "the diagonal of H⁻¹ was used: once the columns before j are eliminated, it is U_jj²": loop_by(
        diagonal=lambda U, a, width: (U.T @ U).diagonal()[a : a + width].sqrt()
    ),
}  # fmt: skip
OF_MASKS = OF_SCORES | OF_ORDER
OF_UPDATES: Wrong = {
    "the columns to the right did not change: they make up for the error. Is e computed before q is written into W?": loop_by(update=lambda error, U, i: torch.zeros(())),
    "the update is not divided by U_ii: e = (column − q) / U_ii": loop_by(update=lambda error, U, i: torch.outer(error, U[i, i + 1 :])),
    "the update was divided by U_ii twice: e = (column − q) / U_ii, times row i of U": loop_by(
        update=lambda error, U, i: torch.outer(error / U[i, i] ** 2, U[i, i + 1 :])
    ),
    "the columns to the right moved the wrong way: subtract e times row i of U": loop_by(
        update=lambda error, U, i: -torch.outer(error / U[i, i], U[i, i + 1 :])
    ),
    "the whole of UᵀU was used, not U: after the columns before i, row i of U has what is needed": loop_by(
        update=lambda error, U, i: torch.outer(error, (U.T @ U)[i, i + 1 :] / (U.T @ U)[i, i])
    ),
    "only the columns of the same block changed: all columns to the right make up for the error, also those of later blocks": (
        loop_by(reach="block")
    ),
    "the last column did not change: all columns to the right make up for the error": loop_by(reach="not last"),
}  # fmt: skip
PER_BLOCK: Wrong = {
    "each row lost the same number: with dim=None all weights of the block are ranked together": loop_by(ranked="row")
}  # fmt: skip
PER_ROW: Wrong = {
    "the rows lost different numbers: pass dim on to prune_lowest": loop_by(ranked="block"),
    "count weights of the whole block were pruned, not of each row: pass dim on to prune_lowest": loop_by(ranked="few"),
}  # fmt: skip
WRONG["column_loop"] = OF_MASKS | OF_UPDATES


def factor(H: Tensor) -> Tensor:
    """U, H⁻¹ = UᵀU."""
    return torch.linalg.cholesky(H.inverse(), upper=True)


def expect_loop(
    submission: Submission, draw: Draw, wrong: Wrong, dim: int | None, **how: Any
) -> None:
    rows, width = 6, 8 if dim is None else 4
    columns = 24
    count = rows * width // 2 if dim is None else 2

    def case() -> tuple[Any, ...]:
        size = draw.sizes(columns, 0.3, 3.0)
        W = draw.normal(rows, columns, dtype=torch.float64)
        return W, factor(correlated(draw, columns) * size[:, None] * size), width, count, dim

    given, right, mistakes = draw_case(
        case, partial(loop_by(), **how), {k: partial(f, **how) for k, f in wrong.items()}, close
    )
    result, after = submission.call("column_loop", *given, returning=(0, 1), **how)
    value = expect_tensor(result, shape=right.shape, dtype=torch.float64, what="the matrix")
    for before, now, what in zip(given, after, ("W", "U"), strict=False):
        unchanged(before, now, what)
    recognise(value, right, mistakes, equal=close)
    if how.get("bits") is None:
        expect_zeros(value == 0, right == 0, width, dim)
    expect_close(value, right, "the matrix", tolerance=1e-6)


def expect_zeros(value: Tensor, right: Tensor, width: int, dim: int | None) -> None:
    """The same weights are pruned, in each block of ``width`` columns."""
    for a in range(0, right.shape[1], width):
        mine, other = value[:, a : a + width], right[:, a : a + width]
        where = f"columns {a} to {a + width - 1}"
        if dim is None and mine.sum() != other.sum():
            fail(
                f"{int(mine.sum())} weights of {where} are exactly 0, expected: {int(other.sum())}"
            )
        if dim is not None and not torch.equal(mine.sum(dim), other.sum(dim)):
            found = mine.sum(dim).tolist()
            fail(
                f"in {where} the rows have {found} weights that are exactly 0, expected: {int(other[0].sum())} in each row"
            )
        if not torch.equal(mine, other):
            fail(
                f"in {where} the number of zeros is right, but other weights were pruned"
                + (", earlier columns are right" if a else "")
            )


@question("12.5", points=1, claim="one block: which weights go, and what the others become")
def test_one_ranking(submission: Submission, draw: Draw) -> None:
    expect_loop(submission, draw, OF_MASKS | OF_UPDATES | PER_BLOCK, None)


@question("12.5", points=1, claim="2:4: in every row two of four")
def test_two_of_four(submission: Submission, draw: Draw) -> None:
    expect_loop(submission, draw, OF_MASKS | OF_UPDATES | PER_ROW, 1)


# --- 12.6 grid, nearest, bits_per_weight ----------------------------------------------


def grid_by(
    ends: Callable[[Tensor], tuple[Tensor, Tensor]] = lambda part: (
        part.amin(1).clamp(max=0), part.amax(1).clamp(min=0)
    ),
    values: Callable[[int], int] = lambda bits: 2**bits - 1,
) -> Callable[[Tensor, int], tuple[Tensor, Tensor]]:  # fmt: skip
    """A version of grid: the smallest and the largest value, and how many steps lie between."""

    def version(part: Tensor, bits: int) -> tuple[Tensor, Tensor]:
        low, high = ends(part)
        step = (high - low) / values(bits)
        return low, torch.where(step > 0, step, 1)

    return version


WRONG["grid"] = {
    "2ᵇ steps were made: 2ᵇ values have 2ᵇ − 1 steps between them": grid_by(values=lambda bits: 2**bits),
    "0 is not on the grid where all weights have one sign: the smallest value is the smallest weight or 0": grid_by(
        lambda part: (part.amin(1), part.amax(1))
    ),
    "0 is not on the grid where all weights are positive: the smallest value is the smallest weight or 0": grid_by(
        lambda part: (part.amin(1), part.amax(1).clamp(min=0))
    ),
    "0 is not on the grid where all weights are negative: the largest value is the largest weight or 0": grid_by(
        lambda part: (part.amin(1).clamp(max=0), part.amax(1))
    ),
    "the grid is symmetric: it reaches from the smallest to the largest weight": grid_by(
        lambda part: (-part.abs().amax(1), part.abs().amax(1))
    ),
    "all rows share one grid: each row has its own": grid_by(
        lambda part: (part.amin().clamp(max=0).expand(len(part)), part.amax().clamp(min=0).expand(len(part)))
    ),
}  # fmt: skip
WRONG["nearest"] = {
    "values were rounded down: take the nearest": lambda w, low, step, bits: (
        low + step * ((w - low) / step).floor().clamp(0, 2**bits - 1)
    ),
    "a value lies outside the grid: k goes from 0 to 2ᵇ − 1": lambda w, low, step, bits: (
        low + step * ((w - low) / step).round()
    ),
    "low was left out: the values are low + k · step": lambda w, low, step, bits: (
        step * (w / step).round().clamp(0, 2**bits - 1)
    ),
    "low was not subtracted: k counts the steps from low, (column − low) / step": lambda w, low, step, bits: (
        low + step * (w / step).round().clamp(0, 2**bits - 1)
    ),
    "low was not added again: the values are low + k · step": lambda w, low, step, bits: (
        step * ((w - low) / step).round().clamp(0, 2**bits - 1)
    ),
    "this is k, the number of the value: return low + k · step": lambda w, low, step, bits: (
        ((w - low) / step).round().clamp(0, 2**bits - 1)
    ),
    "k reaches 2ᵇ: the largest is 2ᵇ − 1": lambda w, low, step, bits: (
        low + step * ((w - low) / step).round().clamp(0, 2**bits)
    ),
    "a value lies below the grid: k goes from 0 to 2ᵇ − 1": lambda w, low, step, bits: (
        low + step * ((w - low) / step).round().clamp(max=2**bits - 1)
    ),
    "a value lies above the grid: k goes from 0 to 2ᵇ − 1": lambda w, low, step, bits: (
        low + step * ((w - low) / step).round().clamp(min=0)
    ),
    "values were rounded up: take the nearest": lambda w, low, step, bits: (
        low + step * ((w - low) / step).ceil().clamp(0, 2**bits - 1)
    ),
}
WRONG["bits_per_weight"] = {
    "the places of the zeros cost nothing: if there are zeros, each weight needs one bit more": lambda bits, kept=1.0, group=None: (
        kept * bits + (32 / group if group else 0)
    ),
    "a matrix without zeros pays for places: only if kept < 1": lambda bits, kept=1.0, group=None: (
        kept * bits + 1 + (32 / group if group else 0)
    ),
    "low and step are missing, or only one of them: 16 bits each for a group": lambda bits, kept=1.0, group=None: (
        kept * bits + (kept < 1) + (16 / group if group else 0)
    ),
    "only the kept weights pay for low and step, and for the places: both are stored for all": lambda bits, kept=1.0, group=None: (
        kept * (bits + (kept < 1) + (32 / group if group else 0))
    ),
    "only the kept weights have a bit for their place: the bitmap has one for every weight": lambda bits, kept=1.0, group=None: (
        kept * (bits + (kept < 1)) + (32 / group if group else 0)
    ),
    "only the kept weights pay for low and step: all weights of the group share the 32 bits": lambda bits, kept=1.0, group=None: (
        kept * (bits + (32 / group if group else 0)) + (kept < 1)
    ),
    "low and step are shared by the kept weights of a group: all weights of the group share them": lambda bits, kept=1.0, group=None: (
        kept * bits + (kept < 1) + (32 / (group * kept) if group else 0)
    ),
    "these are the bits per kept weight: count them per weight, kept or not": lambda bits, kept=1.0, group=None: (
        (kept * bits + (kept < 1) + (32 / group if group else 0)) / kept
    ),
    "the values of the zeros were counted: kept is the share of the weights that are kept": lambda bits, kept=1.0, group=None: (
        (1 - kept if kept < 1 else 1) * bits + (kept < 1) + (32 / group if group else 0)
    ),
    "kept made no difference to the values: only kept weights are stored": lambda bits, kept=1.0, group=None: (
        bits + (kept < 1) + (32 / group if group else 0)
    ),
}


def groups(draw: Draw) -> tuple[Tensor, int]:
    """(outputs, group) weights: rows of both signs, of one sign, and of another scale."""
    part = draw.normal(4, draw.integer(6, 9), dtype=torch.float64)
    part[1], part[2] = part[1].abs() + 1, -part[2].abs() - 1
    return part * draw.sizes(4, 0.5, 3.0)[:, None], draw.integer(2, 4)


@question("12.6", points=0.5, claim="the grid of each row, and the nearest value on it")
def test_grid_and_nearest(submission: Submission, draw: Draw) -> None:
    given, right, mistakes = draw_case(lambda: groups(draw), grid_by(), WRONG["grid"], close)
    value, (part,) = submission.call("grid", *given, returning=(0,))
    expect_length(value, 2, "grid(…)")
    unchanged(given[0], part, "part")
    value = tuple(expect_tensor(v, shape=(len(given[0]),), what="grid(…)") for v in value)
    recognise(value, right, mistakes, equal=close)
    for v, r, what in zip(value, right, ("low", "step"), strict=True):
        expect_close(v, r, f"{what} of grid(…)", tolerance=1e-6)

    def column() -> tuple[Tensor, Tensor, Tensor, int]:
        n = draw.integer(7, 11)
        low, step = -draw.sizes(n, 0.5, 2.0), draw.sizes(n, 0.2, 0.6)
        return draw.normal(n, scale=2.5, dtype=torch.float64), low, step, draw.integer(2, 3)

    given, right, mistakes = exercises.draw_case("nearest", column, close)
    rounded, after = submission.call("nearest", *given, returning=(0, 1, 2))
    rounded = expect_tensor(rounded, shape=right.shape, what="nearest(…)")
    for before, now, what in zip(given, after, ("the column", "low", "step"), strict=False):
        unchanged(before, now, what)
    recognise(rounded, right, mistakes, equal=close)
    expect_close(rounded, right, "nearest(…)", tolerance=1e-6)


@question("12.6", points=0.5, claim="bits per weight: values, places, low and step")
def test_bits(submission: Submission, draw: Draw) -> None:
    def right_bits(bits: int, kept: float, group: int | None) -> float:
        return kept * bits + (kept < 1) + (32 / group if group else 0)

    def case() -> tuple[int, float, int]:
        kept = draw.choice([0.75, 0.25, 0.625, 0.375])
        return draw.integer(3, 8), kept, draw.choice([16, 32, 128])

    with_zeros = {k: f for k, f in WRONG["bits_per_weight"].items() if "without zeros" not in k}
    drawn, *_ = draw_case(case, right_bits, with_zeros, near)
    for given in (drawn, (4, 1.0, 64), (16, 1.0, None), (16, 0.5, None)):
        value = expect_number(submission.bits_per_weight(*given), f"bits_per_weight{given}")
        right = right_bits(*given)
        wrong = {k: f(*given) for k, f in WRONG["bits_per_weight"].items()}
        recognise(value, right, wrong, equal=near)
        expect_close(value, right, f"bits_per_weight{given}", tolerance=1e-9)


# --- 12.7 answers ---------------------------------------------------------------------


@question(
    "12.7",
    points=0,
    claim="a and b are letters (which ones are right is looked at when they are handed in)",
)
def test_form_of_the_answers(submission: Submission, draw: Draw) -> None:
    for name in ("answer_12_7a", "answer_12_7b"):
        expect_choice(submission, name, 4, {})


# --- 12.8 expert_importance, route ----------------------------------------------------


def importance_by(change: Callable[[Tensor, Tensor], Tensor]) -> Callable[..., Tensor]:
    """A version of expert_importance: ``change`` of the gates (T, X) and the norms (T, X)."""
    return lambda gates, outputs: change(gates, outputs.norm(dim=-1).T)


def tokens_of(gates: Tensor) -> Tensor:
    return (gates > 0).sum(0).clamp(min=1)


right_importance = importance_by(lambda g, norms: (g * norms).sum(0) / tokens_of(g))

WRONG["expert_importance"] = {
    "the sum was divided by all tokens: divide by the number of tokens routed to the expert": importance_by(
        lambda g, norms: (g * norms).mean(0)
    ),
    "this is the sum over an expert's tokens: take their mean": importance_by(
        lambda g, norms: (g * norms).sum(0)
    ),
    "the gates are missing: weight each norm by the gate of its token": importance_by(
        lambda g, norms: ((g > 0) * norms).sum(0) / tokens_of(g)
    ),
    "the norms of the outputs are missing: multiply each gate by the norm of the expert's output": importance_by(
        lambda g, norms: g.sum(0) / tokens_of(g)
    ),
    "mean gate and mean norm were multiplied: multiply for each token first, then take the mean": importance_by(
        lambda g, norms: g.sum(0) * ((g > 0) * norms).sum(0) / tokens_of(g) ** 2
    ),
    "the norms of tokens that are not routed to the expert were counted": importance_by(
        lambda g, norms: g.sum(0) / tokens_of(g) * norms.mean(0)
    ),
    "the norm was squared: gate · ‖output‖, without a square": importance_by(
        lambda g, norms: (g * norms**2).sum(0) / tokens_of(g)
    ),
    "the norm of the mean output was taken: take the norm for each token first, then the mean": lambda g, outputs: (
        torch.einsum("tx,xte->xe", g, outputs).norm(dim=-1) / tokens_of(g)
    ),
}  # fmt: skip


def route_by(
    removed: float = -math.inf,
    late: bool = False,
    scale: str = "chosen",
    sign: int = 1,
    axis: int = 1,
) -> Callable[[Tensor, Tensor, int], Tensor]:
    """A version of route: ``removed`` is the logit of removed experts; late: they are removed after
    the choice; scale: "chosen", "kept" or "all", what the softmax is over; sign −1: the smallest.
    """

    def version(logits: Tensor, kept: Tensor, top: int) -> Tensor:
        masked = torch.where(kept, logits, removed)
        ranked = logits if late else masked
        if sign < 0:
            ranked = (-logits).where(kept, -math.inf)
        chosen = torch.zeros_like(logits).scatter(axis, ranked.topk(top, dim=axis).indices, 1) > 0
        if late:
            chosen &= kept
        of = {"chosen": masked.where(chosen, -math.inf), "kept": masked, "all": logits}[scale]
        return (of.softmax(1).nan_to_num() * chosen).to(logits.dtype)

    return version


WRONG["route"] = {
    "the gates of a token do not sum to 1: the softmax is over the chosen logits only, not over all kept ones": route_by(scale="kept"),
    "the softmax was taken over all experts, removed ones, too: take it over the chosen logits": route_by(scale="all"),
    "experts were removed after the choice, so some tokens have too few: choose among the kept ones": route_by(late=True),
    "removed experts got the logit 0, which can be among the largest: −∞ is never chosen": route_by(removed=0.0),
    "the experts with the smallest logits were chosen: choose the largest": route_by(sign=-1),
    "tokens were chosen for each expert (dim=0): choose experts for each token": route_by(axis=0),
    "all kept experts have a gate: only the `top` largest of a token have one": lambda logits, kept, top: (
        logits.masked_fill(~kept, -math.inf).softmax(1)
    ),
    "the gates of removed experts were set to 0: then choose among the kept ones, with gates that sum to 1": lambda logits, kept, top: (
        route_by()(logits, kept | True, top) * kept
    ),
    "removed experts still have a gate": lambda logits, kept, top: route_by()(logits, kept | True, top),
}  # fmt: skip


def routed(draw: Draw) -> tuple[Tensor, Tensor, int]:
    """Logits, some negative, kept experts and ``top``; the largest logits are often removed."""
    X = draw.integer(6, 8)
    kept = torch.ones(X) > 0
    kept[draw.distinct(2, 0, X - 1)] = False
    return draw.normal(23, X, scale=1.5) - 0.5 + 1.0 * ~kept, kept, draw.integer(2, 3)


def expect_importance(submission: Submission, draw: Draw, unseen: bool = False) -> None:
    def case() -> tuple[Tensor, Tensor]:
        logits, kept, top = routed(draw)
        gates = route_by()(logits, kept if unseen else kept | True, top)
        return gates, draw.normal(kept.numel(), 23, 5) * draw.sizes(kept.numel(), 0.5, 3.0).float()[
            :, None, None
        ]

    wrong = WRONG["expert_importance"]
    (gates, outputs), right, mistakes = draw_case(case, right_importance, wrong, close)
    value, after = submission.call("expert_importance", gates, outputs, returning=(0, 1))
    value = expect_tensor(value, shape=right.shape, what="expert_importance(…)")
    unchanged(gates, after[0], "the gates")
    unchanged(outputs, after[1], "the outputs")
    recognise(value, right, mistakes, equal=close)
    unused = (gates > 0).sum(0) == 0
    if bool((value[unused] != 0).any()):
        fail("an expert to which no token is routed must have importance 0: do not divide by 0")
    expect_close(value, right, "expert_importance(…)", tolerance=1e-5)


def expect_routed(submission: Submission, draw: Draw) -> None:
    given, right, mistakes = draw_case(lambda: routed(draw), route_by(), WRONG["route"], close)
    value, after = submission.call("route", *given, returning=(0, 1))
    value = expect_tensor(value, shape=right.shape, what="route(…)")
    unchanged(given[0], after[0], "the logits")
    unchanged(given[1], after[1], "kept")
    recognise(value, right, mistakes, equal=close)
    expect_close(value, right, "route(…)", tolerance=1e-5)


@question("12.8", points=0.5, claim="mean of gate · norm over the tokens of each expert")
def test_expert_importance(submission: Submission, draw: Draw) -> None:
    expect_importance(submission, draw)


@question("12.8", points=0.5, claim="the router chooses among the kept experts")
def test_route(submission: Submission, draw: Draw) -> None:
    expect_routed(submission, draw)


# --- 12.9 witness, repaired -----------------------------------------------------------

Windows = Sequence[tuple[Tensor, Tensor]]
MOST = 8  # tokens of a witness


def text_by(times: int | None, by: int) -> Callable[[Windows], float]:
    """Σ mean · (L − times) / Σ (L − by), exp; (0, 0) is what was published, (1, 1) is right. None:
    Σ mean.
    """

    def version(windows: Windows) -> float:
        means = [float(losses(x[None].double(), ids[None]).mean()) for x, ids in windows]
        counts = [1 if times is None else len(ids) - times for _, ids in windows]
        total = sum(m * n for m, n in zip(means, counts, strict=True))
        return math.exp(total / sum(len(ids) - by for _, ids in windows))

    return version


def right_text(windows: Windows) -> float:
    return text_by(1, 1)([(x, ids) for x, ids in windows if len(ids) > 1])


WRONG["repaired"] = {
    "this is what was published: how many losses is each mean taken over?": text_by(0, 0),
    "the sum is right, its divisor is not: it counts predicted tokens, too": text_by(1, 0),
    "the divisor is right, the sum is not: a window's mean is over L − 1 losses": text_by(0, 1),
    "the mean loss of each window was added up: add the sum of its losses": text_by(None, 1),
    "the mean loss of each window was added up, and divided by all tokens: add the sum of its losses, and count predicted tokens": text_by(None, 0),
    "each window counts the same: the sum of all losses is divided once, by all predicted tokens": lambda windows: (
        math.exp(sum(math.log(right_text([w])) for w in windows) / len(windows))
    ),
}  # fmt: skip


def windows_of(draw: Draw, *lengths: int) -> list[tuple[Tensor, Tensor]]:
    V = draw.integer(4, 6)
    return [(draw.normal(L, V, scale=2.0), draw.labels(L, V)) for L in lengths]


def expect_repaired(submission: Submission, draw: Draw, last: bool = False) -> None:
    """``last``: a window of one token comes last."""
    lengths = [2, draw.integer(3, 5), draw.integer(7, 9)]
    equal = partial(near, tolerance=1e-4)
    case = lambda: (windows_of(draw, *lengths),)  # noqa: E731
    (windows,), right, mistakes = draw_case(case, right_text, WRONG["repaired"], equal)
    end = [(windows[0][0][:1].clone(), windows[0][1][:1].clone())] if last else []
    value = expect_number(submission.repaired([*windows, *end]), "repaired(…)")
    if last and (not math.isfinite(value) or not equal(value, right)):
        fail(
            "a window of one token changed the result: nothing is predicted in it, and the mean of no losses is nan"
        )
    recognise(value, right, mistakes, equal=equal)
    expect_close(value, right, "repaired(…)", tolerance=1e-5)


@question("12.9", points=0.5, claim="the witness shows the bug, in at most eight tokens")
def test_witness(submission: Submission, draw: Draw) -> None:
    windows = submission.witness()
    what = "witness()"
    if not isinstance(windows, list | tuple) or not windows:
        fail(f"{what} must return a list of windows (logits, ids)")
    for i, window in enumerate(windows):
        expect_length(window, 2, f"window {i + 1} of {what}")
        logits, ids = (expect_tensor(part, what=f"window {i + 1} of {what}") for part in window)
        if logits.ndim != 2 or ids.shape != logits.shape[:1] or not len(ids):
            fail(f"window {i + 1} must have logits (L, V) and ids (L,), L ≥ 1")
        if ids.dtype != torch.int64 or not bool(((ids >= 0) & (ids < logits.shape[1])).all()):
            fail(f"the ids of window {i + 1} must be int64 from 0 to V − 1")
    lengths = [len(ids) for _, ids in windows]
    if sum(lengths) > MOST:
        fail(f"the witness has {sum(lengths)} tokens: find one with at most {MOST} in all")
    if max(lengths) == 1:
        fail(
            "no token of the witness is predicted, so it has no perplexity: `published` breaks no promise"
        )
    wrong, right = text_by(0, 0)(windows), right_text(windows)
    if near(wrong, right, tolerance=1e-3 * right, relative=False):
        if len(set(lengths)) == 1:
            fail(
                "all windows have the same length: then every mean has the same weight, and `published` is right"
            )
        fail(
            "`published` is right for this witness: the windows differ in length, but not enough in their mean loss"
        )


@question("12.9", points=0.25, claim="repaired: windows of different lengths")
def test_repaired(submission: Submission, draw: Draw) -> None:
    expect_repaired(submission, draw)
