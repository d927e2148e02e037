"""Lab 09, layers and subnetworks: what is claimed of each answer, and its likely
mistakes, each written once as a wrong function.

Inputs are drawn anew for every grading: layers that change when they run, feed-forward
blocks with biases, importance that turns round on the way, scores that do not agree with
what survived.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from course_lib.grading import (
    Draw,
    Proxy,
    Submission,
    describe,
    expect_close,
    expect_equal,
    expect_int,
    expect_keys,
    expect_length,
    expect_number,
    expect_tensor,
    fail,
    question,
    unchanged,
)
from course_lib.grading.claims.expect import ask
from course_lib.grading.claims.mistakes import Exercises, draw_case, expect_form, near, recognise
from course_lib.grading.claims.student import Ref
from course_lib.grading.claims.typed import expect_choice
from course_lib.labs import lab09 as reference
from course_lib.models.mlps import mlp_outputs
from course_lib.pruning.heads import gated
from course_lib.pruning.weights import prune_lowest

Batch = dict[str, Tensor]
Masks = tuple[Tensor, Tensor]
close = partial(near, tolerance=1e-4)
WRONG: dict[str, dict[str, Callable[..., Any]]] = {}
exercises = Exercises(reference, WRONG)

# --- 9.1 layerdrop --------------------------------------------------------------------

WITH = (
    "If the `with` statement itself failed: keep @contextmanager above {}, and yield exactly once"
)
FURTHER = "A layer can be called with further arguments (positional and by keyword): pass all of them to the layer"


@contextmanager
def within(submission: Submission, name: str, *arguments: Any) -> Iterator[None]:
    """Inside the student's ``with name(…):``."""
    context = submission.call(name, *arguments, keep=True)
    block = submission.within(context)
    ask(block.__enter__, f"at the beginning of `with {name}(…):`", WITH.format(name))
    yield
    block.__exit__(None, None, None)


def drawn_calls(draw: Draw, p: float, order: Sequence[int]) -> tuple[int, list[bool]]:
    """A generator's seed, and which of these calls its numbers skip: where p is neither 0 nor
    1, layer 0 is both skipped and run.
    """
    while True:
        seed = draw.integer(0, 10**6)
        numbers = torch.rand(len(order), generator=torch.Generator().manual_seed(seed))
        skipped = [u < p for u in numbers.tolist()]
        if p in (0, 1) or len({s for i, s in zip(order, skipped, strict=True) if i == 0}) == 2:
            return seed, skipped


class Dropped:
    """Calls of layers inside the student's block, beside what should come of them.

    Each layer is a linear one, then a batch norm, whose statistics show whether it ran.
    """

    def __init__(
        self,
        submission: Submission,
        draw: Draw,
        p: float,
        order: Sequence[int],
        training: bool = True,
    ) -> None:
        width = 4
        layers = nn.ModuleList(
            nn.Sequential(nn.Linear(width, width), nn.BatchNorm1d(width, momentum=None))
            for _ in range(max(order) + 1)
        )
        with torch.no_grad():
            for q in layers.parameters():
                q.copy_(draw.normal(*q.shape))
        seed, drawn = drawn_calls(draw, p, order)
        self.there = submission.put(layers.train(training))
        self.hooks = submission.helper("hooks", model=self.there)
        self.names = list(layers.state_dict())
        self.skipped = [training and skip for skip in drawn]
        self.inputs = [draw.normal(6, width) for _ in order]
        self.outputs: list[Tensor] = []
        self.right: list[Tensor] = []
        self.last: list[Tensor] = []  # where every call runs the last layer
        last = copy.deepcopy(layers[-1])
        generator = submission.helper("generator", seed=seed)
        with within(submission, "layerdrop", self.there, p, generator):
            for i, x in zip(order, self.inputs, strict=True):
                value = ask(
                    partial(submission.call, str(i), x, on=self.there),
                    "inside the block, when a layer was called,",
                    FURTHER,
                )
                self.outputs.append(
                    expect_tensor(value, shape=x.shape, what="what a layer returns")
                )
            self.inside = list(submission.get(self.there).state)
        untouched = torch.Generator().manual_seed(seed).get_state()
        self.drawn = not torch.equal(submission.call("get_state", on=generator), untouched)
        for i, x, skip in zip(order, self.inputs, self.skipped, strict=True):
            with torch.no_grad():
                self.right.append(x if skip else layers[i](x))
                self.last.append(x if skip else last(x))
        self.should_run = [int(layer[1].num_batches_tracked) for layer in layers]  # type: ignore[index]
        state = submission.get(self.there).state
        self.after = list(state)
        self.ran = [int(state[f"{i}.1.num_batches_tracked"]) for i in range(len(layers))]

    def is_right(self) -> bool:
        return close(self.outputs, self.right)

    def expect(self, p: float) -> None:
        """Each call returned what it should."""
        if self.is_right():
            return
        self.expect_own_layers()
        calls = list(zip(self.outputs, self.inputs, self.right, strict=True))
        if not all(out.isfinite().all() for out in self.outputs) or any(
            not close(out, right) and (close(out, x / (1 - p)) or close(out, right / (1 - p)))
            for out, x, right in calls
            if 0 < p < 1
        ):
            fail("a result was divided by 1 − p: LayerDrop rescales nothing")
        if any((out == x).all(1).any() and not (out == x).all() for out, x, _ in calls):
            fail(
                "some samples of a batch skipped the layer and others did not: draw one number per call, for the whole batch"
            )
        skipped = [near(out, x, tolerance=1e-6) for out, x, _ in calls]
        if 0 < p < 1 and (all(skipped) or not any(skipped)):
            fail(
                f"with p = {p:g}, {'all' if all(skipped) else 'none'} of {len(skipped)} calls skipped the layer: draw a new number for *each* call of each layer"
            )
        if skipped == [not s for s in self.skipped]:
            fail(
                "each layer runs with probability p, but p is the probability that it is *skipped*"
            )
        if skipped != self.skipped:
            fail(
                f"calls {[i for i, s in enumerate(skipped) if s]} were skipped, but the numbers of `generator` skip calls {[i for i, s in enumerate(self.skipped) if s]}: draw one "
                "torch.rand((), generator=generator) per call, in the order of the calls, and skip the call if it is < p"
            )
        for call, (out, _, right) in enumerate(calls):
            expect_close(out, right, f"what call {call} returns", tolerance=1e-4)

    def expect_own_layers(self) -> None:
        """Not every call ran the last layer."""
        if close(self.outputs, self.last) and not self.is_right():
            fail(
                "every call runs the last layer: a function defined in a loop reads the loop's variables when it is *called*, and then they are those of "
                "the last layer. Define it inside another function that gets the layer as an argument"
            )


@question(
    "9.1",
    points=1,
    claim="in training mode each call is skipped with probability p, by one number of the generator",
)
def test_layers_are_dropped(submission: Submission, draw: Draw) -> None:
    p = draw.choice([0.3, 0.6])
    run = Dropped(submission, draw, p, 2 * [0, 1, 2, 3, 0, 1, 2, 3, 2, 0, 3, 1])
    run.expect(p)
    if run.ran != run.should_run:
        fail(
            "a skipped layer still ran (its batch norm statistics changed): decide before you call the layer, and do not call it if it is skipped"
        )


@question("9.1", points=0.5, claim="in evaluation mode nothing is drawn or skipped")
def test_nothing_is_dropped_in_evaluation(submission: Submission, draw: Draw) -> None:
    run = Dropped(submission, draw, 1.0, [0, 1, 0], training=False)
    run.expect_own_layers()
    if any(near(out, x) for out, x in zip(run.outputs, run.inputs, strict=True)):
        fail("a layer in evaluation mode was skipped: skip only layers in training mode")
    if not run.is_right():
        fail(
            "a layer in evaluation mode returned another result than outside the block: in evaluation mode draw nothing, skip nothing and rescale nothing"
        )
    if run.drawn:
        fail(
            "a number was drawn for a layer in evaluation mode: test `layer.training` first, and draw only if it is True"
        )


# --- 9.2 layers_to_keep ---------------------------------------------------------------

LAST_IN = "the last layer is always kept here: keep the layers ⌊i · layers / depth⌋, of which the first is always one"
WRONG["layers_to_keep"] = {
    "these are the first layers: they are to be evenly spaced": lambda layers, depth: list(
        range(depth)
    ),
    "a fixed step of layers // depth was taken: the layers are ⌊i · layers / depth⌋": lambda layers, depth: (
        list(range(0, layers, layers // depth))
    ),
    "i · layers / depth was rounded to the nearest: round it down, ⌊i · layers / depth⌋": lambda layers, depth: [
        math.floor(i * layers / depth + 0.5) for i in range(depth)
    ],
    "i · layers / depth was rounded up: round it down, ⌊i · layers / depth⌋": lambda layers, depth: [
        -(-i * layers // depth) for i in range(depth)
    ],
    LAST_IN: lambda layers, depth: [
        math.floor(i * (layers - 1) / max(1, depth - 1)) for i in range(depth)
    ],
    "i runs from 1: let it run from 0, so that the first layer is kept": lambda layers, depth: [
        min(layers - 1, i * layers // depth) for i in range(1, depth + 1)
    ],
}


def as_places(value: Any) -> list[int]:
    if not isinstance(value, list | tuple):
        fail(f"the layers to keep are a list of ints, it is {describe(value)}")
    return [expect_int(i, "a layer") for i in value]


@question("9.2", points=0.5, claim="⌊i · layers / depth⌋ for i = 0 … depth − 1")
def test_layers_to_keep(submission: Submission, draw: Draw) -> None:
    def depths() -> tuple[int, int]:
        layers = draw.integer(9, 20)
        return layers, draw.integer(4, layers - 2)

    given, right, mistakes = exercises.draw_case("layers_to_keep", depths)
    value = as_places(submission.layers_to_keep(*given))
    recognise(value, right, mistakes)
    if value and value[-1] == given[0] - 1:
        fail(LAST_IN)
    expect_equal(value, right, f"layers_to_keep{given}")


# --- 9.3 gated_mlps, joint_importance -------------------------------------------------


def bert(draw: Draw, layers: int, heads: int) -> Any:
    """One whose feed-forward blocks have biases: a gate on the wrong side does not
    pass.
    """
    model = draw.bert(layers, heads)
    with torch.no_grad():
        for out in mlp_outputs(model):
            out.bias.copy_(draw.normal(len(out.bias)))  # type: ignore[arg-type, operator]
    return model


def inputs(batch: Batch) -> dict[str, Any]:
    return {name: part for name, part in batch.items() if name != "labels"}


@torch.no_grad()
def logits(
    model: Any, batch: Batch, place: Callable[[Any, int, Tensor], Any], nu: Tensor
) -> Tensor:
    """With a gate in some place of each layer: ``place(model, layer, gate)`` gives a
    hook's handle.
    """
    hooks = [place(model, i, gate) for i, gate in enumerate(nu)]
    try:
        return model(**inputs(batch)).logits
    finally:
        for hook in hooks:
            hook.remove()


def wide(gate: Tensor) -> Tensor:
    return gate.view(-1, 1, 1)


def on_output(model: Any, i: int, gate: Tensor) -> Any:
    return mlp_outputs(model)[i].register_forward_hook(lambda m, args, out: out * wide(gate))


def on_input(model: Any, i: int, gate: Tensor) -> Any:
    return mlp_outputs(model)[i].register_forward_pre_hook(lambda m, args: (args[0] * wide(gate),))


def on_layer(model: Any, i: int, gate: Tensor) -> Any:
    return model.bert.encoder.layer[i].output.register_forward_hook(
        lambda m, args, out: out * wide(gate)
    )


def on_first(model: Any, i: int, gate: Tensor) -> Any:
    return model.bert.encoder.layer[i].intermediate.dense.register_forward_hook(
        lambda m, args, out: out * wide(gate)
    )


def wrong_gates(model: Any, batch: Batch, nu: Tensor) -> dict[str, Tensor]:
    run = partial(logits, model, batch)
    wrong = {
        "the gate multiplies the input of each block's last linear layer, so the layer's bias is not gated: multiply the output, MLP(x)": run(
            on_input, nu
        ),
        "the gate is after the residual sum, so it also scales the input x: multiply the outputs of the layers that mlp_outputs lists": run(
            on_layer, nu
        ),
        "the gate multiplies the first linear layer of each block: multiply MLP(x), the output of the last one": run(
            on_first, nu
        ),
        "every layer uses the gate of the first layer: layer i needs nu[i]": run(
            on_output, nu[:1].expand_as(nu)
        ),
        "every layer uses the gate of the last layer. A hook that is defined in a loop reads the loop's variables when it is *called*: give it the gate as an argument": run(
            on_output, nu[-1:].expand_as(nu)
        ),
        "each block's output is multiplied by 1 − ν: multiply it by ν (1 is open, 0 is closed)": run(
            on_output, 1 - nu
        ),
        "the gates have no effect: does your hook return the product, on the model that is given?": run(
            on_output, torch.ones_like(nu)
        ),
    }
    if nu.ndim == 2:
        wrong["every sample uses the mean of all samples' gates: sample b needs nu[:, b]"] = run(
            on_output, nu.mean(1, keepdim=True)
        )
        wrong["every sample uses the gates of the first sample: sample b needs nu[:, b]"] = run(
            on_output, nu[:, :1]
        )
    return wrong


def expect_gated(submission: Submission, draw: Draw, *shape: int) -> None:
    layers = shape[0]
    batch = draw.texts(3, 5)
    model = bert(draw, layers, 2)
    nu = 0.2 + torch.rand(*shape, generator=draw.generator)
    there = submission.put(model)
    hooks = submission.helper("hooks", model=there)
    with within(submission, "gated_mlps", there, nu):
        out = ask(
            lambda: submission.call("__call__", on=there, keep=True, **inputs(batch)),
            "when the model was called inside the block,",
            "The gate of a layer has shape () or (B,), one number per sample: view(-1, 1, 1) broadcasts it over (B, L, E)",
        )
        value = expect_tensor(submission.get(out, "logits"), what="the model's output")
    right = logits(model, batch, on_output, nu)
    recognise(value, right, wrong_gates(model, batch, nu), equal=close)
    expect_close(value, right, "the model's output", tolerance=1e-4)
    if submission.get(hooks, "count"):
        fail(
            "after the block a hook is still registered: keep the handle that register_forward_hook returns, and call its remove()"
        )


@question(
    "9.3",
    points=1,
    claim="gated_mlps: what each block adds is multiplied by its gate, its bias included",
)
def test_gated(submission: Submission, draw: Draw) -> None:
    expect_gated(submission, draw, 3)


def sample_losses(model: Any, batch: Batch) -> Tensor:
    return nn.functional.cross_entropy(
        model(**inputs(batch)).logits, batch["labels"], reduction="none"
    )


def sample_gradients(
    model: Any, batches: Sequence[Batch], place: Any = on_output
) -> tuple[Tensor, Tensor]:
    """∂L(x)/∂ξ and ∂L(x)/∂ν of every sample, signed: (N, layers, heads) and (N,
    layers).
    """
    layers, heads = len(model.bert.encoder.layer), model.config.num_attention_heads
    found_heads, found_mlps = [], []
    for batch in batches:
        size = len(batch["labels"])
        xi, nu = (
            torch.ones(layers, size, heads, requires_grad=True),
            torch.ones(layers, size, requires_grad=True),
        )
        hooks = [place(model, i, gate) for i, gate in enumerate(nu)]
        with gated(model, xi):
            losses = sample_losses(model, batch)
        for hook in hooks:
            hook.remove()
        of_xi, of_nu = torch.autograd.grad(losses.sum(), [xi, nu])
        found_heads.append(of_xi.transpose(0, 1).double())
        found_mlps.append(of_nu.T.double())
    return torch.cat(found_heads), torch.cat(found_mlps)


def both(heads: Tensor, mlps: Tensor) -> dict[str, Tensor]:
    return {"heads": heads, "blocks": mlps}


def wrong_importance(model: Any, batches: Sequence[Batch]) -> dict[str, dict[str, Tensor]]:
    h, m = sample_gradients(model, batches)
    _, before_bias = sample_gradients(model, batches, on_input)
    _, behind_sum = sample_gradients(model, batches, on_layer)
    sizes = [len(batch["labels"]) for batch in batches]
    by_batch = [
        both(a.abs().sum(0), b.abs().sum(0))
        for a, b in zip(h.split(sizes), m.split(sizes), strict=True)
    ]

    def mean(parts: list[dict[str, Tensor]], weights: Sequence[float]) -> dict[str, Tensor]:
        return {
            k: torch.stack([p[k] * w for p, w in zip(parts, weights, strict=True)]).sum(0)
            for k in ("heads", "blocks")
        }

    summed = [
        both(a.sum(0).abs(), b.sum(0).abs())
        for a, b in zip(h.split(sizes), m.split(sizes), strict=True)
    ]
    n, batches_ = sum(sizes), len(sizes)
    return {
        "the gate multiplies the input of a block's last linear layer: it must multiply MLP(x), bias included": both(
            h.abs().mean(0), before_bias.abs().mean(0)
        ),
        "the gate of a block is after the residual sum: it must multiply only MLP(x)": both(
            h.abs().mean(0), behind_sum.abs().mean(0)
        ),
        "you took the absolute value of a batch's sum: take the absolute value of each sample's gradient first, then the sum": mean(
            summed, [1 / n] * batches_
        ),
        "the gradients still have their signs: take |∂L/∂ξ| and |∂L/∂ν|": both(
            h.mean(0), m.mean(0)
        ),
        "this is the sum over samples: divide by their number to return the mean": both(
            h.abs().sum(0), m.abs().sum(0)
        ),
        "you took the gradient of a batch's *mean* loss, so each batch is divided by its size twice: sum the losses": mean(
            by_batch, [1 / (n * s) for s in sizes]
        ),
        "you averaged the means of batches: every *sample* has the same weight, so add over all samples and divide once": mean(
            by_batch, [1 / (batches_ * s) for s in sizes]
        ),
        "you squared the gradients: take absolute values": both(
            h.square().mean(0), m.square().mean(0)
        ),
    }


def expect_joint(submission: Submission, draw: Draw, sizes: Sequence[int], training: bool) -> None:
    model = bert(draw, 2, 4)
    batches = [draw.texts(size, 5) for size in sizes]
    model.train(training)
    there = submission.put(model)
    model.eval()
    losses = submission.helper("losses")
    value = ask(
        partial(submission.call, "joint_importance", there, batches, losses),
        "for batches of " + " and ".join(map(str, sizes)) + " samples",
        f"Make gates for the samples of *this* batch and for the layers and heads of *this* model, which has {len(model.bert.encoder.layer)} "
        f"layers of {model.config.num_attention_heads} heads. If ν is not used in the graph, look at gated_mlps",
    )
    log = submission.get(losses, "log")
    if len(log) != len(batches):
        fail(
            f"loss_fn was called {len(log)} times for {len(batches)} batches: call it once per batch, with the gates of heads and blocks together"
        )
    if any(entry["dropout"] for entry in log):
        fail("loss_fn ran with dropout: set the model to evaluation mode first")
    if submission.get(there, "training") is not training:
        before, after = ("training", "evaluation") if training else ("evaluation", "training")
        fail(
            f"the model was in {before} mode before the call and is in {after} mode after it: restore the mode"
        )
    expect_length(value, 2, "joint_importance(…)")
    h, m = sample_gradients(model, batches)
    right = both(h.abs().mean(0), m.abs().mean(0))
    found = both(
        expect_tensor(value[0], shape=right["heads"].shape, what="the heads' importance").double(),
        expect_tensor(
            value[1], shape=right["blocks"].shape, what="the blocks' importance"
        ).double(),
    )
    relative = partial(near, tolerance=1e-4, least=0.0)
    recognise(found, right, wrong_importance(model, batches), equal=relative)
    for name in ("heads", "blocks"):
        what = f"with your gated_mlps, the importance of {name}"
        expect_close(found[name], right[name], what, tolerance=1e-4)


@question(
    "9.3",
    points=1,
    claim="joint_importance: the mean over samples of |∂L/∂ξ| and |∂L/∂ν|, from one backward pass per batch",
)
def test_joint(submission: Submission, draw: Draw) -> None:
    expect_joint(submission, draw, (3, 2), False)


# --- 9.4 prune_while ------------------------------------------------------------------


def distinct(draw: Draw, *shape: int) -> Tensor:
    """Numbers from 0 to 1, no two equal."""
    n = math.prod(shape)
    return ((draw.permutation(n) + 1.0) / (n + 1)).view(shape)


class Scripted:
    """``evaluate`` and ``importance`` as the grader plays them. Importance is a fixed number
    for each head and block, and another one from ``turn`` heads on; that of pruned ones means
    nothing, and is above or below all others.
    """

    def __init__(self, draw: Draw, layers: int, heads: int, turn: int = 0) -> None:
        shapes: tuple[tuple[int, ...], ...] = (layers, heads), (layers,)
        self.values = [[distinct(draw, *shape) for shape in shapes] for _ in range(2)]
        self.of_pruned = [9.0 * draw.signs(math.prod(shape)).view(shape) for shape in shapes]
        self.worth = [distinct(draw, *shape) for shape in shapes]
        self.turn, self.asked, self.evaluated = turn, 0, 0

    def importance(self, xi: Tensor, nu: Tensor) -> tuple[Tensor, ...]:
        self.asked += 1
        values = self.values[int(xi.sum()) <= self.turn]
        return tuple(
            torch.where(mask, value, of_pruned)
            for mask, value, of_pruned in zip((xi, nu), values, self.of_pruned, strict=True)
        )

    def evaluate(self, xi: Tensor, nu: Tensor) -> float:
        self.evaluated += 1
        if self.evaluated > 40:
            return -1.0  # so that a search without an end ends here
        kept = float((self.worth[0] * xi).sum() + (self.worth[1] * nu).sum())
        kept /= float(self.worth[0].sum() + self.worth[1].sum())
        # the end is steep: there one round loses much of the score of the round before
        return min(50 + 50 * kept, 250 * kept)


Steps = list[tuple[Tensor, Tensor, float]]

FULL_ALWAYS = "the importance of the full model was used throughout: ask for that of the current masks in every round"
FAILING_KEPT = "the round that fell below the share is in the list: it is dropped"
OF_LEFT = "each round prunes a share of the heads that are *left*: after round r, r · k are pruned"
BARE = "the score was compared with share itself: compare it with share times the full score"
OF_PREVIOUS = "the score was compared with the round before: compare it with the full score"
ONE_A_ROUND = "one block is pruned in every round: after round r, round(r · step · layers) are pruned, so that blocks last as long as the heads do"
BACK = "what an earlier round pruned is kept again: the importance of pruned elements means nothing, so make sure that they stay pruned"
AGAIN = "what an earlier round pruned was pruned again, and counted: choose among those that are still kept"
SEARCHES = (FULL_ALWAYS, FAILING_KEPT, OF_LEFT, BARE, OF_PREVIOUS, ONE_A_ROUND, BACK, AGAIN)


def searched(
    script: Scripted, layers: int, heads: int, share: float, step: float, wrong: str = ""
) -> Steps:
    """The rule, or what is ``wrong`` about it."""
    xi, nu = torch.ones(layers, heads, dtype=torch.bool), torch.ones(layers, dtype=torch.bool)
    full, first = script.evaluate(xi, nu), script.importance(xi, nu)
    found: Steps = [(xi, nu, full)]
    k, r = max(1, round(step * layers * heads)), 0

    def without(kept: Tensor, scores: Tensor, pruned: int) -> Tensor:
        if wrong == AGAIN:
            return kept & prune_lowest(scores, round(step * kept.numel()))
        if wrong != BACK:
            scores = scores.masked_fill(~kept, -torch.inf)
        return prune_lowest(scores, min(kept.numel(), pruned))

    while xi.any() or nu.any():
        r += 1
        scores = first if wrong == FULL_ALWAYS else script.importance(xi, nu)
        left = int(xi.sum())
        some = xi.numel() - left + max(1, round(step * left)) if wrong == OF_LEFT else r * k
        xi = without(xi, scores[0], some)
        nu = without(nu, scores[1], r if wrong == ONE_A_ROUND else round(r * step * layers))
        score = script.evaluate(xi, nu)
        least = share * {OF_PREVIOUS: found[-1][2], BARE: 1.0}.get(wrong, full)
        if score >= least or wrong == FAILING_KEPT:
            found.append((xi, nu, score))
        if score < least:
            break
    return found


def as_steps(value: Any, layers: int, heads: int) -> Steps:
    if not isinstance(value, list | tuple) or not value:
        fail(
            f"prune_while returns a list of (xi, nu, score), at least one; it returned {describe(value)}"
        )
    found = []
    for step in value:
        expect_length(step, 3, "an entry (xi, nu, score)")
        xi = expect_tensor(step[0], shape=(layers, heads), dtype=torch.bool, what="xi")
        nu = expect_tensor(step[1], shape=(layers,), dtype=torch.bool, what="nu")
        found.append((xi, nu, expect_number(step[2], "a score")))
    return found


def search(
    submission: Submission,
    evaluate: Callable[..., Any] | Ref,
    importance: Callable[..., Any] | Ref,
    *rest: Any,
) -> Steps:
    """What the student's prune_while returns."""
    functions = (
        function if isinstance(function, Ref) else Proxy(function, name)
        for function, name in ((evaluate, "evaluate"), (importance, "importance"))
    )
    return as_steps(submission.prune_while(*functions, *rest), *rest[:2])


def flat(steps: Steps) -> dict[str, Tensor]:
    found = {"rounds": torch.tensor(len(steps))}
    for r, (xi, nu, score) in enumerate(steps):
        found |= {f"xi {r}": xi, f"nu {r}": nu, f"score {r}": torch.tensor(score)}
    return found


def expect_rounds(value: Steps, right: Steps, said: str = "", hint: str = "") -> None:
    """The student's rounds are these; ``hint`` is said where other elements are pruned."""
    for r, (one, other) in enumerate(zip(value, right, strict=False)):
        for mask, want, what in zip(one[:2], other[:2], ("heads", "blocks"), strict=True):
            if int(mask.sum()) != int(want.sum()):
                fail(
                    f"{said}after round {r}, {int((~mask).sum())} {what} are pruned in all instead of {int((~want).sum())}"
                )
            if not torch.equal(mask, want):
                fail(
                    f"{said}in round {r} as many {what} are pruned as should be, but not those of lowest importance among the kept ones{hint}"
                )
        expect_close(one[2], other[2], f"the score of round {r}", tolerance=1e-4)
    if len(value) != len(right):
        fail(
            f"{said}the list has {len(value)} entries and should have {len(right)}: the full model, and every round with at least share · full, until nothing is kept"
        )


@question(
    "9.4",
    points=1,
    claim="each round prunes the least important kept ones, while the share of the full score is left",
)
def test_search(submission: Submission, draw: Draw) -> None:
    sizes, share = (16, 4), draw.number(0.72, 0.8)
    # an eighth of 64 heads and of 16 blocks: no count is rounded
    how = (*sizes, share, 1 / 8)

    def run(script: Scripted, wrong: str = "") -> Steps:
        return searched(copy.deepcopy(script), *how, wrong)

    (script,), right, mistakes = draw_case(
        lambda: (Scripted(draw, *sizes, turn=50),),
        run,
        {said: partial(run, wrong=said) for said in SEARCHES},
        close,
        flat,
    )
    value = search(submission, script.evaluate, script.importance, *how)
    recognise(flat(value), right, mistakes, equal=close)
    expect_rounds(value, steps := run(script))
    if script.evaluated > len(steps) + 1 or script.asked > len(steps):
        fail(
            f"evaluate was called {script.evaluated} times and importance {script.asked} times: call each once per round, and evaluate once for the full model"
        )


# --- 9.5 subnetworks ------------------------------------------------------------------

KINDS = ("good", "random", "bad")
Three = dict[str, Masks]


def right_three(xi: Tensor, nu: Tensor, I_h: Tensor, I_mlp: Tensor, seed: int) -> Three:
    return reference.subnetworks(xi, nu, I_h, I_mlp, torch.Generator().manual_seed(seed))


def _first(order: Tensor, mask: Tensor) -> Tensor:
    """True at as many of the first places of ``order`` as are True in ``mask``."""
    return torch.zeros(mask.numel()).index_fill(0, order[: int(mask.sum())], 1).bool().view_as(mask)


def _bad(rule: Callable[[Tensor, Tensor], Tensor]) -> Callable[..., Three]:
    def make(xi: Tensor, nu: Tensor, I_h: Tensor, I_mlp: Tensor, seed: int) -> Three:
        return {**right_three(xi, nu, I_h, I_mlp, seed), "bad": (rule(xi, I_h), rule(nu, I_mlp))}

    return make


def _ordered(order: Callable[[Tensor, Tensor], Tensor]) -> Callable[..., Three]:
    return _bad(lambda mask, score: _first(order(mask.flatten(), score.flatten()).argsort(), mask))


def _of_gone(xi: Tensor, nu: Tensor, I_h: Tensor, I_mlp: Tensor, seed: int) -> Three:
    numbers = torch.Generator().manual_seed(seed)

    def drawn(mask: Tensor) -> Tensor:
        gone, kept = (m.flatten().nonzero()[:, 0] for m in (~mask, mask))
        gone = gone[torch.randperm(len(gone), generator=numbers)]
        return _first(torch.cat([gone, kept]), mask)

    return {**right_three(xi, nu, I_h, I_mlp, seed), "random": (drawn(xi), drawn(nu))}


def _blocks_first(xi: Tensor, nu: Tensor, I_h: Tensor, I_mlp: Tensor, seed: int) -> Three:
    of_blocks, of_heads = right_three(nu, xi, I_mlp, I_h, seed)["random"]
    return {**right_three(xi, nu, I_h, I_mlp, seed), "random": (of_heads, of_blocks)}


def _one_list(xi: Tensor, nu: Tensor, I_h: Tensor, I_mlp: Tensor, seed: int) -> Three:
    survived, score = torch.cat([xi.flatten(), nu]), torch.cat([I_h.flatten(), I_mlp])
    bad = _first((score + 1e3 * survived).argsort(), survived)
    both = bad[: xi.numel()].view_as(xi), bad[xi.numel() :]
    return {**right_three(xi, nu, I_h, I_mlp, seed), "bad": both}


WRONG_THREE: dict[str, Callable[..., Three]] = {
    "bad holds the lowest scores wherever they are: first what did *not* survive, and survivors only if that is too little": (
        _ordered(lambda survived, score: score)
    ),
    "bad is all that did not survive, whatever its size: take as many as survived": _bad(
        lambda mask, score: ~mask
    ),
    "bad takes the highest scores of what did not survive: take the lowest": _ordered(
        lambda survived, score: 1e3 * survived - score
    ),
    "bad are the most important: take the least important of what did not survive": _ordered(
        lambda survived, score: -score
    ),
    "bad has another number of heads, and of blocks, than survived: rank heads and blocks in two lists": _one_list,
    "random was drawn from what did not survive: draw it from all elements": _of_gone,
    "random: the blocks were drawn before the heads, so the numbers of `generator` are used for other elements": _blocks_first,
}
FILLED_UP = "all that did not survive is in it, and too few; but the survivors that fill it up are not those of lowest score"


def three(value: Any) -> dict[str, Tensor]:
    return {
        f"{name} {what}": value[name][i]
        for name in KINDS
        for i, what in enumerate(("heads", "blocks"))
    }


def as_three(value: Any, *masks: Tensor) -> dict[str, Tensor]:
    expect_keys(value, KINDS, "subnetworks(…)")
    for name in KINDS:
        expect_length(value[name], 2, f"{name!r}")
        for part, mask, what in zip(value[name], masks, ("heads", "blocks"), strict=True):
            said = f"the {what} of {name!r}"
            expect_tensor(part, shape=mask.shape, dtype=torch.bool, what=said)
    return three(value)


def expect_three(submission: Submission, draw: Draw, heads: int, blocks: int) -> None:
    """Of 28 heads and 7 blocks, so many survived."""
    seed = draw.integer(0, 10**6)

    def scored() -> tuple[Tensor, Tensor, Tensor, Tensor, int]:
        xi, nu = (draw.permutation(28) < heads).view(7, 4), draw.permutation(7) < blocks
        return xi, nu, distinct(draw, 7, 4), distinct(draw, 7), seed

    (*given, _), right, mistakes = draw_case(scored, right_three, WRONG_THREE, view=three)
    result, after = submission.call(
        "subnetworks", *given, submission.helper("generator", seed=seed), returning=(0, 1, 2, 3)
    )
    unchanged(given, after, "the masks and the importance")
    value = as_three(result, *given[:2])
    recognise(value, right, mistakes)
    for name, mask in right.items():
        if int(value[name].sum()) != int(mask.sum()):
            fail(
                f"{name}: {int(value[name].sum())} are kept, and as many as survived should be, {int(mask.sum())}"
            )
        if name.startswith("bad"):
            survived = given[0] if "heads" in name else given[1]
            if torch.equal(value[name] & ~survived, mask & ~survived):
                expect_equal(value[name], mask, message=f"{name}: {FILLED_UP}")
        numbers = ": which numbers of `generator` choose them?" if "random" in name else ""
        expect_equal(
            value[name], mask, message=f"{name}: as many as should be, but other ones{numbers}"
        )


@question(
    "9.5",
    points=1,
    claim="good, random and bad have the same two sizes; bad is made of what did not survive",
)
def test_three(submission: Submission, draw: Draw) -> None:
    expect_three(submission, draw, 11, 3)


# --- 9.6 overlap ----------------------------------------------------------------------


def _expected(
    expected: Callable[[float, float, Tensor], float],
) -> Callable[..., tuple[int, float]]:
    """Right, but for the expected number, of |a|, |b| and a mask."""
    return lambda a, b: (int((a & b).sum()), expected(float(a.sum()), float(b.sum()), a))


WRONG["overlap"] = {
    "the share of the union was returned (Jaccard): return the number shared": lambda a, b: (
        int((a & b).sum()) / int((a | b).sum()),
        reference.overlap(a, b)[1],
    ),
    "elements that neither mask keeps were counted, too": lambda a, b: (
        int((a == b).sum()),
        reference.overlap(a, b)[1],
    ),
    "the expectation is the product of the two sizes: how likely is it that b keeps one given element?": _expected(
        lambda a, b, mask: a * b
    ),
    "the expectation is a share of the elements: return their number": _expected(
        lambda a, b, mask: a * b / mask.numel() ** 2
    ),
    "the smaller of the two sizes was returned: that is the largest possible number, not the expected number": _expected(
        lambda a, b, mask: min(a, b)
    ),
    "the expectation was divided by the number of rows: n is that of all elements": _expected(
        lambda a, b, mask: a * b / len(mask)
    ),
}


@question("9.6", points=0.5, claim="how many both keep, and how many random masks would share")
def test_overlap(submission: Submission, draw: Draw) -> None:
    exercises.expect_answer(
        submission,
        "overlap",
        lambda: (draw.mask(4, 6, kept=0.6), draw.mask(4, 6, kept=0.3)),
        close,
        read=partial(expect_form, right=(0.0, 0.0), what="overlap(a, b)"),
        what="overlap(a, b)",
    )


# --- 9.7 two short answers ------------------------------------------------------------


@question(
    "9.7",
    points=0,
    claim="a and b are letters (which ones are right is looked at when they are handed in)",
)
def test_form_of_the_answers(submission: Submission, draw: Draw) -> None:
    expect_choice(submission, "answer_9_7a", 4, {})
    expect_choice(submission, "answer_9_7b", 4, {})
