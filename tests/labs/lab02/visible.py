"""Lab 02, what the loss says: what is claimed of each answer, and its likely mistakes,
each written once as a wrong function.

Inputs are drawn for every grading, so that the mistakes give other results
than the right answer: gradients and curvatures of both signs, scores that grow for what
is pruned already, rows and inputs of unlike scales.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad
from torch.nn import functional as F

from course_lib.grading import (
    Draw,
    Mistake,
    Proxy,
    Submission,
    expect_close,
    expect_equal,
    expect_keys,
    expect_length,
    expect_refused,
    expect_tensor,
    fail,
    question,
    unchanged,
)
from course_lib.grading.claims.hunt import Version, expect_verdicts
from course_lib.grading.claims.mistakes import (
    Exercises,
    apply_each,
    draw_case,
    near,
    recognise,
)
from course_lib.grading.claims.student import StudentError
from course_lib.grading.claims.typed import expect_choice
from course_lib.labs import lab02 as reference
from course_lib.student_code import plain_data

Named = dict[str, Tensor]
close = partial(near, tolerance=2e-5)


def expect_near(value: Tensor, right: Tensor, what: str, hint: str) -> None:
    """Equal up to rounding; else where it is off, and a hint."""
    try:
        expect_close(value, right, what, tolerance=2e-5)
    except Mistake as mistake:
        fail(f"{mistake}; {hint}")


def as_named(
    value: Any,
    like: Mapping[str, Tensor],
    dtype: torch.dtype | None = None,
    what: str = "the result",
) -> Named:
    """The value, if it is a dict of tensors like these."""
    expect_keys(value, like, what)
    return {
        name: expect_tensor(
            value[name], shape=w.shape, dtype=dtype or w.dtype, what=f"{name!r} of {what}"
        )
        for name, w in like.items()
    }


# --- 2.1 loss_change ------------------------------------------------------------------

PLUS = "the first term has the wrong sign: pruning changes the weight from w to 0, a step of -w, so the first term is -g·w"
SIZE = "the result has lost its sign: the forecast is signed. It is negative where the loss would decrease"
NO_HALF = "the second term is h·w²: the second term of Taylor's series has a factor ½"
MINUS_SECOND = "the second term has the wrong sign: add ½·h·w²"
BOTH_HALVED = "the first term has a factor ½: only the second term has this factor"
NOT_SQUARED = "the second term has w instead of w²: it is quadratic in the step"
BOTH_FROM_G = "the second term was computed from g²: use `curvature`, the second derivatives"
SECOND_ONLY = "with a curvature the first term is missing: g is 0 at a minimum, but the weights may not be at a minimum"
CURVATURE_LOST = "curvature made no difference: the second term, ½·h·w², is missing"


def _first(w: Tensor, g: Tensor, h: Tensor | None, second: Callable[[Tensor], Tensor]) -> Tensor:
    return -g * w if h is None else -g * w + second(h)


WRONG: dict[str, dict[str, Callable[..., Any]]] = {
    "loss_change": {
        PLUS: lambda w, g, h=None: reference.loss_change(w, -g, h),
        SIZE: lambda w, g, h=None: reference.loss_change(w, g, h).abs(),
        NO_HALF: lambda w, g, h=None: _first(w, g, h, lambda h: h * w**2),
        MINUS_SECOND: lambda w, g, h=None: _first(w, g, h, lambda h: -h * w**2 / 2),
        BOTH_HALVED: lambda w, g, h=None: -g * w if h is None else (h * w**2 - g * w) / 2,
        NOT_SQUARED: lambda w, g, h=None: _first(w, g, h, lambda h: h * w / 2),
        BOTH_FROM_G: lambda w, g, h=None: _first(w, g, h, lambda h: g**2 * w**2 / 2),
        SECOND_ONLY: lambda w, g, h=None: -g * w if h is None else h * w**2 / 2,
        CURVATURE_LOST: lambda w, g, h=None: -g * w,
    }
}
exercises = Exercises(reference, WRONG)


@question("2.1", points=1, claim="first order: −g·w, signed")
def test_first_order(submission: Submission, draw: Draw) -> None:
    shape = (draw.integer(3, 6), draw.integer(3, 6))
    w, g = draw.normal(*shape), draw.normal(*shape)
    result, after = submission.call("loss_change", w, g, returning=(0, 1))
    _left_alone((w, g), after)
    value = expect_tensor(result, shape=shape, dtype=w.dtype)
    first = {said: WRONG["loss_change"][said] for said in (PLUS, SIZE)}
    recognise(value, -g * w, apply_each(first, w, g), equal=close)
    expect_near(value, -g * w, "without curvature", "the forecast is −g·w, entry by entry")


def _left_alone(given: tuple[Tensor, ...], after: list[Tensor]) -> None:
    names = ("the weight", "the gradient", "the curvature")
    for what, before, now in zip(names, given, after, strict=False):
        unchanged(before, now, what)


@question("2.1", points=0.5, claim="second order: + ½·h·w²")
def test_second_order(submission: Submission, draw: Draw) -> None:
    expect_second_order(submission, draw, draw.integer(3, 6), draw.integer(3, 6))


def expect_second_order(
    submission: Submission, draw: Draw, *shape: int, dtype: torch.dtype = torch.float32
) -> None:
    def weights() -> tuple[Tensor, Tensor, Tensor]:
        curvature = partial(draw.normal, *shape, scale=2.0, dtype=dtype)
        return draw.normal(*shape), draw.normal(*shape), curvature()

    given, right, mistakes = exercises.draw_case("loss_change", weights, close)
    result, after = submission.call("loss_change", *given, returning=(0, 1, 2))
    _left_alone(given, after)
    value = expect_tensor(result, shape=shape, dtype=given[0].dtype)
    recognise(value, right, mistakes, equal=close)
    expect_near(value, right, "with curvature", "the forecast is −g·w + ½·h·w², entry by entry")


# --- 2.2 empirical_fisher -------------------------------------------------------------

OF_THE_MEAN = "this is the square of the mean gradient, and the mean gradient is nearly 0 after training: square each sample's gradient first"
OF_THE_MEAN_BY_N = "this is the square of the mean gradient, divided by the number of samples: square each sample's gradient, then take the mean"
SUMMED = "the squares were summed: divide the sum by the number of samples to get the mean"
MEAN_INSIDE = (
    "this is the Fisher divided by the number of samples: the loss of each sample was divided by the number of samples "
    "before the gradient was squared"
)
ABSOLUTE = "this is the mean of |g|: the Fisher is the mean of g²"
PREDICTED = "the gradient was taken of the loss of the predicted class: the empirical Fisher uses the given label"
ROOT = "this is the square root of the Fisher: take the mean of the squares, without a root"


def parameters_of(model: nn.Module) -> Named:
    return {name: p.detach() for name, p in model.named_parameters()}


def per_sample(model: nn.Module, x: Tensor, loss: Callable[[Tensor, int], Tensor]) -> list[Named]:
    """The gradient of each sample's own number;
    ``loss(logits (1, classes), which)``.
    """
    copied = copy.deepcopy(model).eval()
    with torch.enable_grad():
        return [
            grad(lambda p, i=i: loss(functional_call(copied, p, (x[i : i + 1],)), i))(
                parameters_of(copied)
            )
            for i in range(len(x))
        ]


def mean_of(
    found: list[Named], what: Callable[[Tensor], Tensor] = lambda g: g.double().square()
) -> Named:
    """The mean over samples of ``what`` of each gradient, float64."""
    return {name: torch.stack([what(g[name]) for g in found]).double().mean(0) for name in found[0]}


def scaled(values: Named, by: float) -> Named:
    return {name: by * value for name, value in values.items()}


def _losses(model: nn.Module, x: Tensor, y: Tensor) -> list[Named]:
    return per_sample(model, x, lambda z, i: F.cross_entropy(z, y[i : i + 1]))


def _predicted(model: nn.Module, x: Tensor, y: Tensor) -> Named:
    return mean_of(per_sample(model, x, lambda z, i: F.cross_entropy(z, z.detach().argmax(1))))


def _each(values: Named, what: Callable[[Tensor], Tensor]) -> Named:
    return {name: what(value) for name, value in values.items()}


WRONG["empirical_fisher"] = {
    OF_THE_MEAN: lambda m, x, y: _each(mean_of(_losses(m, x, y), Tensor.double), Tensor.square),
    OF_THE_MEAN_BY_N: lambda m, x, y: _each(
        mean_of(_losses(m, x, y), Tensor.double), lambda g: g.square() / len(x)
    ),
    SUMMED: lambda m, x, y: scaled(reference.empirical_fisher(m, x, y), len(x)),
    MEAN_INSIDE: lambda m, x, y: scaled(reference.empirical_fisher(m, x, y), 1 / len(x)),
    ABSOLUTE: lambda m, x, y: mean_of(_losses(m, x, y), Tensor.abs),
    PREDICTED: _predicted,
    ROOT: lambda m, x, y: _each(reference.empirical_fisher(m, x, y), Tensor.sqrt),
}


def small_net(draw: Draw, bend: type[nn.Module] = nn.ReLU, classes: int = 3) -> nn.Sequential:
    """Two layers with a dropout between, in training mode but for the last layer, which
    is in evaluation mode.
    """
    features, hidden = draw.integer(3, 5), draw.integer(4, 6)
    net = nn.Sequential(
        nn.Linear(features, hidden), bend(), nn.Dropout(0.5), nn.Linear(hidden, classes)
    )
    fill(net, draw)
    net[3].eval()
    return net


def fill(net: nn.Module, draw: Draw) -> None:
    with torch.no_grad():
        for p in net.parameters():
            p.copy_(draw.normal(*p.shape, scale=0.8))


def samples(draw: Draw, net: nn.Sequential, count: int, classes: int = 3) -> tuple[Tensor, Tensor]:
    return draw.normal(count, net[0].in_features), draw.labels(count, classes)


class Looked:
    """A call of the student's function with a model that has a gradient already: the
    result, and that nothing else changed.
    """

    def __init__(
        self,
        submission: Submission,
        name: str,
        net: nn.Module,
        *data: Tensor,
        frozen: str | None = None,
    ) -> None:
        model = submission.put(net)
        if frozen is not None:
            held = submission.call("get_parameter", frozen, on=model, keep=True)
            submission.call("requires_grad_", False, on=held, keep=True)
        weight = submission.call(
            "get_parameter", next(iter(parameters_of(net))), on=model, keep=True
        )
        before = plain_data.describe(net)
        result = submission.call(name, model, *data)
        self.value = as_named(result, parameters_of(net), torch.float64)
        after = submission.get(model)
        unchanged(before.state, after.state, "the model's state")
        modes = [[m.training for m in module.build().modules()] for module in (before, after)]
        if modes[0] != modes[1]:
            fail(
                "the mode of some modules changed: some modules were in evaluation mode and some in training mode, and each must "
                "return to its own mode. `with in_evaluation_mode(model):` restores the modes"
            )
        if submission.grad(weight) is not None:
            fail(
                ".grad of a parameter was filled: use torch.autograd.grad, which returns gradients and does not write to .grad"
            )


DROPPED = "a second call returned another result: dropout was active. Use evaluation mode, which turns it off (`with in_evaluation_mode(model):`)"


def expect_named(
    value: Named, right: Named, mistakes: Mapping[str, Any], again: Callable[[], Named], hint: str
) -> None:
    """Right, entry by entry; else which mistake it is, or, where ``again`` gives
    something else, that chance has a part in it.
    """
    recognise(value, right, mistakes, equal=close)
    if not close(value, right) and not close(value, again()):
        fail(DROPPED)
    for name, r in right.items():
        expect_near(value[name], r, repr(name), hint)


@question("2.2", points=1.5, claim="the mean over samples of each one's squared gradient")
def test_fisher(submission: Submission, draw: Draw) -> None:
    expect_fisher(submission, draw, draw.integer(5, 9))


def expect_fisher(submission: Submission, draw: Draw, count: int) -> None:
    def model() -> tuple[nn.Module, Tensor, Tensor]:
        net = small_net(draw)
        return net, *samples(draw, net, count)

    given, right, mistakes = exercises.draw_case("empirical_fisher", model, close)

    def answer() -> Named:
        return Looked(submission, "empirical_fisher", *given).value

    expect_named(
        answer(),
        right,
        mistakes,
        answer,
        "square the gradient of each sample, then take the mean over samples",
    )


# --- 2.3 curvature --------------------------------------------------------------------

ONE_CLASS = "only the most likely class was used: use all classes, each weighted by its probability"
NO_P = "all classes have the same weight: multiply the square of each class by its probability p_c"
NO_P_SUM = "p_c is missing: the squares of the classes were added without weights. Multiply each square by p_c"
OF_P = "this is the gradient of p_c: take the gradient of log p_c, which is 1/p_c times as large"
SQUARED_AFTER = (
    "every entry is 0: were the gradients of the classes added up before the square? Σ p_c·∂log p_c is always 0. Or "
    "was the softmax computed over samples? It is over classes"
)
P_MOVES = "p_c was differentiated, too: p_c is a constant weight (detach)"
P_INSIDE = "p_c was squared, too: p_c must be outside the square, p_c·(∂ log p_c)²"
P_LOG_P = (
    "this is the square of the gradient of p_c·log p_c: p_c is a constant factor outside the square"
)
OF_LOGITS = "these are gradients of the logits: take the gradients of log p_c, the log softmax of the logits"
MEAN_FIRST = (
    "samples were averaged before the square: square the gradient of log p_c of each sample first"
)
SAMPLES_SUMMED = "the samples were summed: divide the sum by the number of samples to get the mean"
NO_SQUARE = "this is Σ p_c·|∂ log p_c|: the square is missing"


def by_class(
    model: nn.Module,
    x: Tensor,
    of: Callable[[Tensor], Tensor],
    weigh: Callable[[Tensor], Tensor],
    what: Callable[[Tensor], Tensor] = Tensor.square,
) -> Named:
    """Mean over samples of Σ_c weigh(p)_c · what(∂ of(logits)_c)."""
    copied = copy.deepcopy(model).eval()
    with torch.no_grad():
        p = copied(x).double().softmax(1)  # (N, classes)
    total: list[Named] = []
    for c in range(p.shape[1]):
        found = per_sample(model, x, lambda z, i, c=c: of(z)[0, c])
        total.append(
            {
                n: sum(float(weigh(p[i])[c]) * what(g[n].double()) for i, g in enumerate(found))
                / len(x)
                for n in found[0]
            }  # type: ignore[misc]
        )
    return {name: torch.stack([t[name] for t in total]).sum(0) for name in total[0]}


def _p(z: Tensor) -> Tensor:
    return z.softmax(1)


def _log_p(z: Tensor) -> Tensor:
    return z.log_softmax(1)


def _mean_first(model: nn.Module, x: Tensor) -> Named:
    """Σ_c p_c·(∂ log p_c)², p_c and log p_c being means over the samples."""
    with torch.no_grad():
        p = copy.deepcopy(model).eval()(x).double().softmax(1).mean(0)
    means = [
        mean_of(per_sample(model, x, lambda z, i, c=c: _log_p(z)[0, c]), Tensor.double)
        for c in range(len(p))
    ]
    return {
        name: torch.stack([p_c * m[name].square() for p_c, m in zip(p, means, strict=True)]).sum(0)
        for name in means[0]
    }


WRONG["curvature"] = {
    ONE_CLASS: lambda m, x: _predicted(m, x, x),
    NO_P: lambda m, x: by_class(m, x, _log_p, lambda p: torch.ones_like(p) / len(p)),
    NO_P_SUM: lambda m, x: by_class(m, x, _log_p, torch.ones_like),
    OF_P: lambda m, x: by_class(m, x, _p, lambda p: p),
    SQUARED_AFTER: lambda m, x: scaled(reference.curvature(m, x), 0.0),
    P_MOVES: lambda m, x: by_class(m, x, lambda z: _p(z).sqrt() * _log_p(z), torch.ones_like),
    P_INSIDE: lambda m, x: by_class(m, x, _log_p, Tensor.square),
    P_LOG_P: lambda m, x: by_class(m, x, lambda z: _p(z) * _log_p(z), torch.ones_like),
    OF_LOGITS: lambda m, x: by_class(m, x, lambda z: z, lambda p: p),
    MEAN_FIRST: _mean_first,
    SAMPLES_SUMMED: lambda m, x: scaled(reference.curvature(m, x), len(x)),
    NO_SQUARE: lambda m, x: by_class(m, x, _log_p, lambda p: p, Tensor.abs),
}


@question("2.3", points=1.5, claim="the mean over samples of Σ_c p_c·(∂ log p_c)²")
def test_curvature(submission: Submission, draw: Draw) -> None:
    def model() -> tuple[nn.Module, Tensor]:
        net = small_net(draw)
        return net, samples(draw, net, draw.integer(3, 5))[0]

    given, right, mistakes = exercises.draw_case("curvature", model, close)

    def answer() -> Named:
        return Looked(submission, "curvature", *given).value

    expect_named(
        answer(),
        right,
        mistakes,
        answer,
        "square the gradient of log p_c of each class, multiply it by p_c, sum over classes; then take the mean over samples",
    )


# --- 2.4 prune_rescored ---------------------------------------------------------------

ONCE = "the scores of the first target were used for all targets: call score(model) again before each target"
BACK = "weights that an earlier target had pruned are kept later, because their new scores are high: a pruned weight must stay pruned"
EACH_LAYER = "each layer was pruned to the target separately: a target is the pruned fraction of all weights together"
OF_THE_LEFT = (
    "the target was taken of the remaining weights: a target is the pruned fraction of all weights"
)
ROUNDED_DOWN = "the number of pruned weights was rounded down: after a target t, round(t · n) weights are pruned"
ZEROS_RANK = (
    "pruned weights were ranked with a score of 0, above remaining weights with negative scores, and were kept: rank "
    "only the weights that are not yet pruned"
)
BY_SIZE = "weights were ranked by the absolute value of the score: scores are signed, and the lowest score is pruned first"
HIGHEST = (
    "the weights with the highest scores were pruned: a higher score means a more important weight"
)
WITH_BIASES = "biases were counted or pruned: use only parameters with two or more dimensions"


Score = Callable[[nn.Module], Named]


def rounds(
    model: nn.Module,
    score: Score,
    targets: list[float],
    rank: Callable[[Tensor, Tensor], Tensor] = lambda s, alive: s.masked_fill(~alive, -torch.inf),
    often: int | None = None,
    goes: Callable[[float, int, int], int] = lambda t, n, alive: round(t * n),
    fewest: int = 2,
    apart: bool = False,
) -> Named:
    """Pruning in rounds, with a part that may be wrong: how scores are ``rank``ed, how
    ``often`` they are asked for, how many ``goes``.
    """
    weights = {name: p for name, p in model.named_parameters() if p.ndim >= fewest}
    masks = {name: torch.ones_like(p, dtype=torch.bool) for name, p in weights.items()}
    found: Named = {}
    for i, target in enumerate(targets):
        if often is None or i < often:
            found = {name: score_.double() for name, score_ in score(model).items()}
        lists = [[name] for name in weights] if apart else [list(weights)]
        for names in lists:
            flat = torch.cat([found[name].flatten() for name in names])
            alive = torch.cat([masks[name].flatten() for name in names])
            order = rank(flat, alive).argsort(stable=True)
            kept = torch.ones_like(alive)
            kept[order[: goes(target, len(flat), int(alive.sum()))]] = False
            for name, part in zip(
                names, kept.split([weights[name].numel() for name in names]), strict=True
            ):
                masks[name] = part.view(weights[name].shape)
        with torch.no_grad():
            for name, p in weights.items():
                p[~masks[name]] = 0
    return {name: mask for name, mask in masks.items() if mask.ndim >= 2}


def _left(t: float, n: int, alive: int) -> int:
    return n - alive + round(t * alive)


WRONG["prune_rescored"] = {
    ONCE: partial(rounds, often=1),
    BACK: partial(rounds, rank=lambda s, alive: s),
    EACH_LAYER: partial(rounds, apart=True),
    OF_THE_LEFT: partial(rounds, goes=_left),
    ROUNDED_DOWN: partial(rounds, goes=lambda t, n, alive: int(t * n)),
    ZEROS_RANK: partial(rounds, rank=lambda s, alive: s * alive),
    BY_SIZE: partial(rounds, rank=lambda s, alive: s.abs().masked_fill(~alive, -torch.inf)),
    HIGHEST: partial(rounds, rank=lambda s, alive: (-s).masked_fill(~alive, -torch.inf)),
    WITH_BIASES: partial(rounds, fewest=1),
}


class Scripted:
    """``score(model)``: says what it was told, one after the other, and notes the model
    it was shown.
    """

    def __init__(self, script: list[Named]) -> None:
        self.script, self.seen = script, list[Named]()

    def __call__(self, model: nn.Module | plain_data.Model) -> Named:
        state = model.state if isinstance(model, plain_data.Model) else model.state_dict()
        self.seen.append({name: value.clone() for name, value in state.items()})
        return {
            name: value.clone()
            for name, value in self.script[min(len(self.seen), len(self.script)) - 1].items()
        }


def layers(draw: Draw) -> nn.Sequential:
    """Two matrices and a convolution of unlike sizes, and biases; a multiple of 4 of
    weights, so that for a target of 0.25 nothing has to be rounded.
    """
    net = nn.Sequential(
        nn.Conv2d(1, 3, 2), nn.Flatten(), nn.Linear(12, draw.integer(4, 6)), nn.Linear(5, 4)
    )
    fill(net, draw)
    return net


def drawn_scores(draw: Draw, net: nn.Module, tied: bool = False) -> Named:
    """A score for every parameter, biases too; of unlike scales by layer, and of both
    signs.
    """
    return {
        name: (draw.tied(*p.shape) if tied else draw.normal(*p.shape, scale=1.0 + i) + 0.3 * i)
        for i, (name, p) in enumerate(net.named_parameters())
    }


class Rescored:
    """A call of the student's prune_rescored."""

    def __init__(
        self, submission: Submission, net: nn.Module, script: list[Named], targets: list[float]
    ) -> None:
        self.before = {name: p.detach().clone() for name, p in net.named_parameters()}
        self.weights = {name: p for name, p in self.before.items() if p.ndim >= 2}
        self.score = Scripted(script)
        self.model = submission.put(net)
        result = submission.prune_rescored(self.model, Proxy(self.score, "score"), targets)
        self.masks = as_named(result, self.weights, torch.bool)
        self.after = submission.get(self.model).state

    def gone(self, i: int) -> dict[str, Tensor]:
        """What was pruned when the scores for target i were asked for."""
        seen = self.score.seen[i]
        return {name: (seen[name] == 0) & (w != 0) for name, w in self.weights.items()}


def expect_rescored(
    run: Rescored, right: Named, mistakes: dict[str, Any], targets: list[float]
) -> None:
    """The masks are right; else what is wrong with them."""
    if all(torch.equal(run.masks[name], ~mask) for name, mask in right.items()):
        fail("the masks are upside down: True means kept")
    recognise(run.masks, right, mistakes)
    n = sum(mask.numel() for mask in right.values())
    after = [(t, run.gone(i)) for i, t in enumerate(targets[: len(run.score.seen) - 1], 1)]
    pruned = [(t, gone) for t, gone in after if any(g.any() for g in gone.values())]
    countable = all((w != 0).all() for w in run.weights.values())
    last = [(t, {name: ~mask for name, mask in run.masks.items()}) for t in targets[-1:]]
    for target, gone in [*(pruned if countable else []), *last]:
        if (count := sum(int(g.sum()) for g in gone.values())) != round(target * n):
            fail(
                f"after the target {target}, {count} of {n} weights are pruned instead of round({target} · {n}) = {round(target * n)}"
            )
        if any((gone[name] & mask).any() for name, mask in run.masks.items()):
            fail(RETURNED)
    for name, mask in right.items():
        expect_equal(
            run.masks[name],
            mask,
            message=f"the number of pruned weights is right, but the pruned weights are not the ones with the lowest scores: the mask of {name!r} differs",
        )


RETURNED = "some weights that an earlier target had pruned are kept at the end: a pruned weight must stay pruned"


@question(
    "2.4",
    points=1,
    claim="to each target, of all weights together, by the scores of the model as it is",
)
def test_rescored(submission: Submission, draw: Draw) -> None:
    targets = draw.choice([[0.3, 0.5, 0.8], [0.25, 0.6, 0.7], [0.2, 0.45, 0.75]])

    def model() -> tuple[nn.Module, list[Named]]:
        net = layers(draw)
        return net, [drawn_scores(draw, net) for _ in targets]

    def on_a_copy(prune: Callable[..., Any]) -> Callable[..., Any]:
        return lambda net, script: prune(copy.deepcopy(net), Scripted(script), targets)

    wrong = {said: on_a_copy(prune) for said, prune in WRONG["prune_rescored"].items()}
    (net, script), right, mistakes = draw_case(model, on_a_copy(rounds), wrong)
    expect_rescored(Rescored(submission, net, script, targets), right, mistakes, targets)


@question(
    "2.4",
    points=0.5,
    claim="in place: score sees what was pruned before, once for each target; nothing else changes",
)
def test_rescored_in_place(submission: Submission, draw: Draw) -> None:
    net, targets = layers(draw), [0.0, 0.25, 0.75]
    script = [drawn_scores(draw, net) for _ in targets]
    run = Rescored(submission, net, script, targets)
    if len(run.score.seen) != len(targets):
        fail(
            f"score was called {len(run.score.seen)} times for {len(targets)} targets: call it once per target, also for a target of 0"
        )
    for name, value in run.score.seen[0].items():
        if not torch.equal(value, run.before[name]):
            fail(f"{name!r} was changed before the first call of score")
    for i in range(1, len(targets)):
        now = rounds(copy.deepcopy(net), Scripted(script), targets[:i])
        for name, mask in now.items():
            expect_equal(
                run.score.seen[i][name],
                run.before[name].masked_fill(~mask, 0),
                message=(
                    f"when score was called for target {targets[i]}, {name!r} was not pruned to {targets[i - 1]} in the model: set the "
                    "pruned weights to 0 in place before the next call, and do not change the kept weights"
                ),
            )
    if all(torch.equal(run.after[name], value) for name, value in run.before.items()):
        fail(
            "the model has not changed: change its parameters in place, not the parameters of a copy"
        )
    for name, value in run.before.items():
        kept = run.masks.get(name, torch.ones_like(value, dtype=torch.bool))
        now = run.after[name]
        if torch.equal(now, value.masked_fill(~kept, 0)):
            continue
        if (kept & (now == 0) & (value != 0)).any():
            fail(f"{RETURNED}; here the mask keeps entries of {name!r} that are already 0")
        if (now[~kept] != 0).any():
            fail(f"the mask prunes entries of {name!r} that are not 0 in the model at the end")
        fail(f"kept weights of {name!r} have changed: this function prunes and does not train")


@question(
    "2.4",
    points=0.5,
    claim="arguments: targets that do not rise, or leave [0, 1], raise ValueError before anything happens",
)
def test_rescored_refuses(submission: Submission, draw: Draw) -> None:
    net = layers(draw)
    script = [drawn_scores(draw, net)] * 3
    right = rounds(copy.deepcopy(net), Scripted(script), [0.5])
    calls: list[int] = []
    model = submission.put(net)

    def ask(targets: list[float]) -> Any:
        score = Scripted(script)
        try:
            return submission.prune_rescored(
                model if targets != [0.5] else submission.put(net), Proxy(score, "score"), targets
            )
        finally:
            calls.append(len(score.seen))

    bad = [0.2, 0.5, draw.choice([0.3, 0.4])], [0.3, 0.3], [-0.1, 0.5], [0.5, 1.5]
    expect_refused(ask, ([0.5],), right, {f"targets {targets}": (targets,) for targets in bad})
    if any(calls[1:]):
        fail("score was called before the targets were checked: check all targets first")
    unchanged(plain_data.describe(net).state, submission.get(model).state, "the model")


# --- 2.5 input_aware_mask, magnitude_is_wrong -----------------------------------------

GLOBAL = "all rows were ranked in one list: prune the same number of weights in each row"
MEAN = "‖x‖ was replaced by |mean of x|: in a mean, positive and negative inputs cancel, but not in a norm"
L1_NORM = "the absolute values of the inputs were summed, ‖x‖₁: the norm is the root of the sum of squares"
MAGNITUDE = "the input made no difference: your score is the magnitude"
SIGNED = "the signed weight was used: the score is |w| times the norm"
SQUARED_NORM = "‖x‖² was used instead of ‖x‖: the norm is the *root* of the sum of squares"
INPUT_ONLY = "the weight made no difference: whole columns with small inputs were pruned"
UPSIDE_DOWN = "the mask is upside down: True means kept"
LARGEST = "the weights with the largest scores were pruned: prune the smallest scores"


def _ranked(score: Tensor, sparsity: float) -> Tensor:
    """In each row the lowest go."""
    goes = score.argsort(dim=1, stable=True)[:, : round(sparsity * score.shape[1])]
    return torch.ones_like(score, dtype=torch.bool).scatter(1, goes, False)


def norms(x: Tensor, width: int) -> Tensor:
    return x.double().reshape(-1, width).square().sum(0).sqrt()


def _scored(w: Tensor, x: Tensor) -> Tensor:
    return w.double().abs() * norms(x, w.shape[1])


def _global(w: Tensor, x: Tensor, s: float) -> Tensor:
    return _ranked(_scored(w, x).flatten()[None], s).view(w.shape)


WRONG["input_aware_mask"] = {
    GLOBAL: _global,
    MEAN: lambda w, x, s: _ranked((w * x.reshape(-1, w.shape[1]).mean(0)).abs(), s),
    SQUARED_NORM: lambda w, x, s: _ranked(w.double().abs() * norms(x, w.shape[1]) ** 2, s),
    L1_NORM: lambda w, x, s: _ranked(w.abs() * x.reshape(-1, w.shape[1]).abs().sum(0), s),
    MAGNITUDE: lambda w, x, s: _ranked(w.abs(), s),
    SIGNED: lambda w, x, s: _ranked(w.double() * norms(x, w.shape[1]), s),
    INPUT_ONLY: lambda w, x, s: _ranked(norms(x, w.shape[1]).expand(w.shape), s),
    UPSIDE_DOWN: lambda w, x, s: ~reference.input_aware_mask(w, x, s),
    LARGEST: lambda w, x, s: _ranked(-_scored(w, x), s),
}


def expect_row_mask(
    submission: Submission, w: Tensor, x: Tensor, s: float, mistakes: dict[str, Any], said: str = ""
) -> None:
    right = reference.input_aware_mask(w, x, s)
    value = expect_tensor(submission.input_aware_mask(w, x, s), shape=w.shape, dtype=torch.bool)
    recognise(value, right, mistakes, said)
    goes = round(s * w.shape[1])
    for i, row in enumerate(value):
        if int((~row).sum()) != goes:
            fail(
                f"{said}in row {i}, {int((~row).sum())} weights were pruned instead of round({s:.3g} · {w.shape[1]}) = {goes}"
            )
        if not torch.equal(row, right[i]):
            fail(
                f"{said}in row {i} the number of pruned weights is right, but the weights with the smallest |w|·‖x‖ should be "
                "pruned (among equal scores, the first)"
            )


@question("2.5", points=1, claim="in each row exactly round(s·in) of the smallest |w|·‖x‖ go")
def test_input_aware(submission: Submission, draw: Draw) -> None:
    sparsity = draw.choice([0.2, 0.3, 0.65])  # of 9: to be rounded up

    def weights() -> tuple[Tensor, Tensor, float]:
        w, width = draw.normal(draw.integer(4, 6), 9), 9
        x = draw.normal(draw.integer(6, 9), width) * draw.sizes(width, 0.2, 5.0).float()
        return w, x, sparsity

    given, _, mistakes = exercises.draw_case("input_aware_mask", weights)
    expect_row_mask(submission, *given, mistakes)


@question(
    "2.5", points=1, claim="an example in which the smaller weight contributes ten times as much"
)
def test_magnitude_is_wrong(submission: Submission, draw: Draw) -> None:
    value = submission.magnitude_is_wrong()
    expect_length(value, 2, "magnitude_is_wrong()")
    w = expect_tensor(value[0], shape=(1, 2), what="the weight of your example").double()
    if (
        not isinstance(value[1], Tensor)
        or value[1].ndim != 2
        or value[1].shape[1] != 2
        or len(value[1]) < 2
    ):
        fail("the input of your example must have the shape (B, 2), with B at least 2")
    x = value[1].double()
    if not (w.isfinite().all() and x.isfinite().all()):
        fail("your example holds numbers that are not finite")
    sizes, contributions = w[0].abs(), (w * x).abs().sum(0)
    if sizes[0] == sizes[1]:
        fail(
            "both weights of your example have the same size: which weight would magnitude pruning remove?"
        )
    small = int(sizes.argmin())
    if contributions[small] == 0:
        fail("the smaller weight of your example contributes nothing")
    if contributions[small] < 10 * contributions[1 - small]:
        fail(
            f"the smaller weight contributes {float(contributions[small]):.3g}, the larger one "
            f"{float(contributions[1 - small]):.3g}: the smaller weight must contribute at least ten times as much. Which input "
            "does each weight multiply?"
        )


# --- 2.6 soft_threshold, proximal_step ------------------------------------------------

PAST_ZERO = "small weights moved past 0 and changed sign: where |w| ≤ t, the result is 0"
HARD = "the remaining weights were not shrunk: this is the hard threshold. |w| must become |w| − t"
SIGN_LOST = "negative weights became positive: multiply by the sign at the end"
NEGATIVE_GONE = "negative weights are all 0: treat positive and negative weights alike"
INVERTED = "large weights are 0 and small weights were kept: set the weights with |w| ≤ t to 0"
AWAY = "t was subtracted from negative weights, too, and moved them away from 0: every weight must move towards 0"
TWICE = "the remaining weights were shrunk by 2t: shrink them by t"

WRONG["soft_threshold"] = {
    PAST_ZERO: lambda w, t: w - t * w.sign(),
    HARD: lambda w, t: torch.where(w.abs() > t, w, torch.zeros_like(w)),
    SIGN_LOST: lambda w, t: (w.abs() - t).clamp(min=0),
    NEGATIVE_GONE: lambda w, t: (w - t).clamp(min=0),
    INVERTED: lambda w, t: torch.where(w.abs() > t, torch.zeros_like(w), w),
    AWAY: lambda w, t: torch.where(w.abs() > t, w - t, torch.zeros_like(w)),
    TWICE: lambda w, t: reference.soft_threshold(w, 2 * t),
}

LAM_ALONE = "the threshold is lam: it must be lr·lam for a step of size lr"
THRESHOLD_FIRST = "the threshold was applied before the gradient step, so hardly any weight is 0 after the step: take the gradient step first"
BIASES_SHRUNK = "biases were shrunk, too: penalise only parameters with two or more dimensions"
SUBGRADIENT = (
    "this is a step along the subgradient lam·sign(w): after such a step no weight is exactly 0"
)
UPHILL = "the gradient was added: subtract it, w − lr·g"
NO_GRADIENT = "the gradient made no difference"
YOURS = "the step itself is right, but it calls your {}, which is wrong: correct that function first (see above)"


def _steps(
    weights: Named,
    gradients: Named,
    lr: float,
    each: Callable[[Tensor, Tensor, Tensor], Tensor],
    biases: bool = False,
) -> Named:
    """``each(w, g, moved)`` of what is penalised; a plain gradient step of all else."""
    return {
        name: each(w, gradients[name], w - lr * gradients[name])
        if biases or w.ndim >= 2
        else w - lr * gradients[name]
        for name, w in weights.items()
    }


soft = reference.soft_threshold
WRONG["proximal_step"] = {
    LAM_ALONE: lambda ws, gs, lr, lam: _steps(ws, gs, lr, lambda w, g, moved: soft(moved, lam)),
    THRESHOLD_FIRST: lambda ws, gs, lr, lam: _steps(
        ws, gs, lr, lambda w, g, moved: soft(w, lr * lam) - lr * g
    ),
    BIASES_SHRUNK: lambda ws, gs, lr, lam: _steps(
        ws, gs, lr, lambda w, g, moved: soft(moved, lr * lam), True
    ),
    SUBGRADIENT: lambda ws, gs, lr, lam: _steps(
        ws, gs, lr, lambda w, g, moved: moved - lr * lam * w.sign()
    ),
    UPHILL: lambda ws, gs, lr, lam: reference.proximal_step(ws, _each(gs, Tensor.neg), lr, lam),
    NO_GRADIENT: lambda ws, gs, lr, lam: reference.proximal_step(
        ws, _each(gs, torch.zeros_like), lr, lam
    ),
}


def expect_soft(submission: Submission, w: Tensor, t: Any, mistakes: Mapping[str, Any]) -> None:
    right = reference.soft_threshold(w, t)
    result, after = submission.call("soft_threshold", w, t, returning=(0,))
    value = expect_tensor(result, shape=w.shape, dtype=w.dtype)
    recognise(value, right, mistakes, equal=close)
    if not torch.equal(after[0], w):
        fail("soft_threshold changed w: return a new tensor")
    if w.dtype == torch.float64 and close(value, right) and not near(value, right, 1e-12):
        fail("w is float64, but the result has only the precision of float32")
    small = w.abs() <= t
    if bool((value[small] != 0).any()):
        fail("where |w| ≤ t the result must be exactly 0, not only small")
    expect_near(
        value, right, "soft_threshold(w, t)", "expected sign(w)·max(|w| − t, 0), entry by entry"
    )


@question(
    "2.6", points=0.5, claim="soft_threshold: exact zeros up to t, all others nearer to 0 by t"
)
def test_soft_threshold(submission: Submission, draw: Draw) -> None:
    given, _, mistakes = exercises.draw_case(
        "soft_threshold",
        lambda: (draw.normal(draw.integer(4, 6), 5), draw.number(0.4, 0.8)),
        close,
    )
    expect_soft(submission, *given, mistakes)


def stepped(draw: Draw) -> tuple[Named, Named]:
    """Weights and gradients of two layers with biases, of unlike shapes."""
    shapes = {
        "conv": (3, 2, 2, 2),
        "conv.bias": (3,),
        "fc": (4, draw.integer(3, 6)),
        "fc.bias": (4,),
    }
    return (
        {name: draw.normal(*shape, scale=0.5) for name, shape in shapes.items()},
        {name: draw.normal(*shape) for name, shape in shapes.items()},
    )


def own_step(
    submission: Submission, weights: Named, gradients: Named, lr: float, lam: float, *eps: float
) -> Named | None:
    """The right step with the student's own functions in it; None where they fail."""
    try:
        return _steps(
            weights,
            gradients,
            lr,
            lambda w, g, moved: submission.soft_threshold(
                moved, lr * (submission.reweighted(w, lam, *eps) if eps else lam)
            ),
        )
    except (StudentError, TypeError, RuntimeError):
        return None


def expect_stepped(
    submission: Submission, draw: Draw, name: str, extra: Callable[[], tuple[float, ...]]
) -> None:
    """The student's step does what the library's does, for drawn weights and
    settings.
    """
    given, right, mistakes = exercises.draw_case(name, lambda: (*stepped(draw), *extra()), close)
    result, after = submission.call(name, *given, returning=(0, 1))
    unchanged(given[0], after[0], "the weights")
    unchanged(given[1], after[1], "the gradients")
    value = as_named(result, given[0])
    if not close(value, right) and close(value, own_step(submission, *given)):
        fail(YOURS.format("soft_threshold" if name == "proximal_step" else "reweighted"))
    recognise(value, right, mistakes, equal=close)
    if list(value) != list(right) or list(result) != list(right):
        fail(
            f"the keys are in the wrong order: {', '.join(result)}; the order of the input is {', '.join(right)}"
        )
    for key, r in right.items():
        zero = int(((r == 0) != (value[key] == 0)).sum())
        expect_near(value[key], r, repr(key), "take a gradient step, then apply the threshold")
        if zero:
            fail(
                f"{key!r}: {zero} entries are 0 and should not be, or should be exactly 0 and are not"
            )


@question(
    "2.6",
    points=1,
    claim="proximal_step: the gradient step, then the threshold lr·lam; biases as always",
)
def test_proximal_step(submission: Submission, draw: Draw) -> None:
    expect_stepped(
        submission, draw, "proximal_step", lambda: (draw.number(0.2, 0.4), draw.number(0.5, 1.5))
    )


# --- 2.7 reweighted, reweighted_step --------------------------------------------------

SQUARED = "w² is in the denominator: use |w|"
OUTSIDE = "eps was added to the fraction: add it to |w|, in the denominator"
NORMALISED = "the penalties were divided by their mean: return lam/(|w| + eps) unchanged"
SAME = "every weight has the same penalty"
SIGN_IN = "the denominator contains w with its sign: use |w| + eps"
GROWS = (
    "large weights have a larger penalty: their penalty must be smaller, lam *divided* by |w| + eps"
)

WRONG["reweighted"] = {
    SQUARED: lambda w, lam, eps: lam / (w**2 + eps),
    OUTSIDE: lambda w, lam, eps: lam / w.abs() + eps,
    NORMALISED: lambda w, lam, eps: lam / (w.abs() + eps) / (1 / (w.abs() + eps)).mean(),
    SAME: lambda w, lam, eps: torch.full_like(w, lam),
    SIGN_IN: lambda w, lam, eps: lam / (w + eps),
    GROWS: lambda w, lam, eps: lam * (w.abs() + eps),
}

AFTER = "the thresholds were computed from the weights after the gradient step: use the weights before the step"
NO_LR = "the threshold is lam/(|w| + eps): it must be multiplied by lr"
LAM_TWICE = "lam was multiplied twice: the penalty of each weight already contains lam"
PLAIN = "every weight has the same threshold: each weight has its own threshold, lr·lam/(|w| + eps)"
BIASES_TOO = (
    "biases were shrunk, too: penalise only parameters with two or more dimensions here, too"
)

_re = reference.reweighted
WRONG["reweighted_step"] = {
    AFTER: lambda ws, gs, lr, lam, eps: _steps(
        ws, gs, lr, lambda w, g, moved: soft(moved, lr * _re(moved, lam, eps))
    ),
    NO_LR: lambda ws, gs, lr, lam, eps: _steps(
        ws, gs, lr, lambda w, g, moved: soft(moved, _re(w, lam, eps))
    ),
    LAM_TWICE: lambda ws, gs, lr, lam, eps: _steps(
        ws, gs, lr, lambda w, g, moved: soft(moved, lr * lam * _re(w, lam, eps))
    ),
    PLAIN: lambda ws, gs, lr, lam, eps: reference.proximal_step(ws, gs, lr, lam),
    BIASES_TOO: lambda ws, gs, lr, lam, eps: _steps(
        ws, gs, lr, lambda w, g, moved: soft(moved, lr * _re(w, lam, eps)), True
    ),
}


@question("2.7", points=0.5, claim="reweighted: lam / (|w| + eps) for each weight")
def test_reweighted(submission: Submission, draw: Draw) -> None:
    given, right, mistakes = exercises.draw_case(
        "reweighted",
        lambda: (draw.normal(4, draw.integer(3, 6)), draw.number(0.1, 0.5), draw.number(0.02, 0.2)),
        close,
    )
    value = expect_tensor(submission.reweighted(*given), shape=given[0].shape)
    recognise(value, right, mistakes, equal=close)
    expect_near(
        value, right, "reweighted(weight, lam, eps)", "expected lam / (|w| + eps), entry by entry"
    )


@question(
    "2.7",
    points=1.5,
    claim="reweighted_step: each weight has the threshold of its value before the step",
)
def test_reweighted_step(submission: Submission, draw: Draw) -> None:
    expect_stepped(
        submission,
        draw,
        "reweighted_step",
        lambda: (draw.number(0.2, 0.4), draw.number(0.1, 0.3), draw.number(0.05, 0.2)),
    )


# --- 2.8 two short answers ------------------------------------------------------------


@question(
    "2.8",
    points=0,
    claim="a and b are letters (which ones are right is looked at when they are handed in)",
)
def test_form_of_the_answers(submission: Submission, draw: Draw) -> None:
    expect_choice(submission, "answer_2_8a", 4, {})
    expect_choice(submission, "answer_2_8b", 4, {})


# --- 2.9 the bug hunt -----------------------------------------------------------------

RIGHT: dict[str, Version] = {
    "one with sign and clamp": reference.soft_threshold,
    "one with two relus": lambda w, t: F.relu(w - t) - F.relu(-w - t),
    "one with torch.where": lambda w, t: torch.where(
        w.abs() <= t, torch.zeros_like(w), w - t * w.sign()
    ),
}
PROMISE = "2.6 guarantees for finite weights and t ≥ 0"


def of_table(*sentences: str) -> dict[str, Version]:
    names = {
        PAST_ZERO: "moves small weights past 0",
        HARD: "does not shrink the remaining weights",
        SIGN_LOST: "loses the sign",
        NEGATIVE_GONE: "sets all negative weights to 0",
        INVERTED: "keeps the small weights and prunes the large ones",
    }
    return {names[sentence]: WRONG["soft_threshold"][sentence] for sentence in sentences}


@question("2.9", points=0.5, claim="right versions pass, and two wrong ones are found")
def test_hunt(submission: Submission, draw: Draw) -> None:
    expect_verdicts(submission, draw, "soft_threshold", RIGHT, of_table(PAST_ZERO, HARD), PROMISE)
