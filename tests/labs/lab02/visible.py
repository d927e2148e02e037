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
    Submission,
    expect_close,
    expect_keys,
    expect_tensor,
    fail,
    question,
    unchanged,
)
from course_lib.grading.claims.mistakes import (
    Exercises,
    apply_each,
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


# --- 2.2 mean_squared_gradients -------------------------------------------------------

OF_THE_MEAN = "samples were averaged before the square: square each sample's gradient first, then take the mean"
SUMMED = "the samples were summed: divide the sum by the number of samples to get the mean"
MEAN_INSIDE = (
    "this is the right result divided by the number of samples: was each sample's loss divided by it before the gradient "
    "was squared?"
)
NO_SQUARE = "this is the mean of |gradient|: the square is missing"
ROOT = "this is the square root of the right result: take the mean of the squares, without a root"
ONE_CLASS = "only the class with the largest q was used: use all classes, each weighted by its q"
NO_Q = "q made no difference, all classes have the same weight: multiply the square of each class by its q_c"
OF_P = "this is the gradient of p_c: take the gradient of log p_c, which is 1/p_c times as large"
CLASSES_FIRST = "the gradients of the classes were added up before the square: square each class's gradient first"
Q_INSIDE = "q_c was squared, too: q_c must be outside the square, q_c·(∂ log p_c)²"
OF_LOGITS = "these are gradients of the logits: take the gradients of log p_c, the log softmax of the logits"
P_FOR_Q = "the softmax of the model was used instead of q: the caller chooses q"


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


def by_class(
    model: nn.Module,
    x: Tensor,
    q: Tensor,
    of: Callable[[Tensor], Tensor] = lambda z: z.log_softmax(1),
    what: Callable[[Tensor], Tensor] = Tensor.square,
) -> Named:
    """Mean over samples of Σ_c q_c · what(∂ of(logits)_c)."""
    found: Named = {}
    for c in range(q.shape[1]):
        for i, g in enumerate(per_sample(model, x, lambda z, i, c=c: of(z)[0, c])):
            for name, value in g.items():
                part = float(q[i, c]) * what(value.double()) / len(x)
                found[name] = found.get(name, torch.zeros_like(part)) + part
    return found


def of_mean(model: nn.Module, x: Tensor, q: Tensor) -> Named:
    """Σ_c q_c·(∂ log p_c)², q and log p_c being means over the samples."""
    means = [
        mean_of(per_sample(model, x, lambda z, i, c=c: z.log_softmax(1)[0, c]), Tensor.double)
        for c in range(q.shape[1])
    ]
    return {
        name: sum(
            share * m[name].square() for share, m in zip(q.double().mean(0), means, strict=True)
        )
        for name in means[0]
    }


def softmax_of(model: nn.Module, x: Tensor) -> Tensor:
    with torch.no_grad():
        return copy.deepcopy(model).eval()(x).softmax(1)


def _each(values: Named, what: Callable[[Tensor], Tensor]) -> Named:
    return {name: what(value) for name, value in values.items()}


right_of = reference.mean_squared_gradients
WRONG["mean_squared_gradients"] = {
    OF_THE_MEAN: of_mean,
    SUMMED: lambda m, x, q: scaled(right_of(m, x, q), len(x)),
    MEAN_INSIDE: lambda m, x, q: scaled(right_of(m, x, q), 1 / len(x)),
    NO_SQUARE: lambda m, x, q: by_class(m, x, q, what=Tensor.abs),
    ROOT: lambda m, x, q: _each(right_of(m, x, q), Tensor.sqrt),
    ONE_CLASS: lambda m, x, q: right_of(m, x, F.one_hot(q.argmax(1), q.shape[1])),
    NO_Q: lambda m, x, q: right_of(m, x, torch.full_like(q, 1 / q.shape[1])),
    OF_P: lambda m, x, q: by_class(m, x, q, lambda z: z.softmax(1)),
    CLASSES_FIRST: lambda m, x, q: mean_of(
        per_sample(m, x, lambda z, i: (q[i] * z.log_softmax(1)[0]).sum())
    ),
    Q_INSIDE: lambda m, x, q: right_of(m, x, q**2),
    OF_LOGITS: lambda m, x, q: by_class(m, x, q, lambda z: z),
    P_FOR_Q: lambda m, x, q: right_of(m, x, softmax_of(m, x)),
}
HINT = "square the gradient of log p_c of each class, multiply it by q_c, sum over classes; then take the mean over samples"


@question("2.2", points=1, claim="the mean over samples of Σ_c q_c·(∂ log p_c)², for any q")
def test_squared_gradients(submission: Submission, draw: Draw) -> None:
    def model() -> tuple[nn.Module, Tensor, Tensor]:
        net, count = small_net(draw), draw.integer(3, 5)
        return net, samples(draw, net, count)[0], draw.normal(count, 3, scale=1.5).softmax(1)

    given, right, mistakes = exercises.draw_case("mean_squared_gradients", model, close)

    def answer() -> Named:
        return Looked(submission, "mean_squared_gradients", *given).value

    expect_named(answer(), right, mistakes, answer, HINT)


ZERO = "every entry is 0: were the gradients of the classes added up before the square? Σ p_c·∂log p_c is always 0. Or was the softmax computed over samples? It is over classes"


@question("2.2", points=1, claim="labels give the empirical Fisher, the softmax Gauss–Newton")
def test_fisher_and_gauss_newton(submission: Submission, draw: Draw) -> None:
    net = small_net(draw)
    x, y = samples(draw, net, draw.integer(4, 7))
    for q, said in (
        (F.one_hot(y, 3).float(), "for one-hot labels: "),
        (softmax_of(net, x), "for the softmax of the model: "),
    ):
        value = Looked(submission, "mean_squared_gradients", net, x, q).value
        right = right_of(net, x, q)
        mistakes = {OF_THE_MEAN: of_mean(net, x, q), ZERO: scaled(right, 0.0)}
        recognise(value, right, mistakes, said, equal=close)
        for name, r in right.items():
            expect_near(value[name], r, f"{said}{name!r}", HINT)


# --- 2.3 input_aware_mask ------------------- -----------------------------------------

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


@question("2.3", points=1, claim="in each row exactly round(s·in) of the smallest |w|·‖x‖ go")
def test_input_aware(submission: Submission, draw: Draw) -> None:
    sparsity = draw.choice([0.2, 0.3, 0.65])  # of 9: to be rounded up

    def weights() -> tuple[Tensor, Tensor, float]:
        w, width = draw.normal(draw.integer(4, 6), 9), 9
        x = draw.normal(draw.integer(6, 9), width) * draw.sizes(width, 0.2, 5.0).float()
        return w, x, sparsity

    given, _, mistakes = exercises.draw_case("input_aware_mask", weights)
    expect_row_mask(submission, *given, mistakes)


# --- 2.4 obs_scores, obs_remove -------------------------------------------------------

NOT_INVERTED = (
    "the diagonal of M was used, not of its inverse: this is the error if no other weight moves"
)
INVERSE_OF_DIAGONAL = (
    "1/M_jj was used for [M⁻¹]_jj: invert the matrix first, then take its diagonal"
)
TIMES = "the square was multiplied by [M⁻¹]_jj: divide by it"
UNSQUARED = "w_j is not squared"
HALF = "there is a factor ½, as in OBD: the error here is δᵀMδ"
STAYS = "the other weights did not move: they repair what the removed weight did"
OTHER_WAY = "the other weights moved in the wrong direction: look at the sign of δ"
COLUMN_OF_M = "column j of M was used: use column j of its inverse"
NOT_DIVIDED = "the column was not divided by [M⁻¹]_jj"


def moment(draw: Draw, size: int, diagonal: bool = False) -> Tensor:
    """E[a·aᵀ] of drawn inputs, well conditioned, float64."""
    a = draw.normal(4 * size, size, dtype=torch.float64) * draw.sizes(size, 0.5, 2.0)
    M = a.T @ a / len(a)  # (size, size)
    return M.diagonal().diag() if diagonal else M


def scores_of(row: Tensor, M: Tensor) -> Tensor:
    """The error that each removal leaves, by solving for the other weights."""
    found = torch.zeros_like(row)
    for j in range(len(row)):
        step = removed_from(row, M, j) - row
        found[j] = step @ M @ step
    return found


def removed_from(row: Tensor, M: Tensor, j: int) -> Tensor:
    """By least squares: the other weights do what weight j did, as well as they can."""
    others = torch.arange(len(row)) != j
    new = row.clone()
    new[others] += torch.linalg.solve(M[others][:, others], M[others, j] * row[j])
    new[j] = 0
    return new


def _but(row: Tensor, j: int, step: Tensor) -> Tensor:
    new = row + step
    new[j] = 0
    return new


WRONG["obs_scores"] = {
    NOT_INVERTED: lambda row, M: row**2 * M.diagonal(),
    INVERSE_OF_DIAGONAL: lambda row, M: row**2 / M.diagonal(),
    TIMES: lambda row, M: row**2 * M.inverse().diagonal(),
    UNSQUARED: lambda row, M: row / M.inverse().diagonal(),
    HALF: lambda row, M: scores_of(row, M) / 2,
}
WRONG["obs_remove"] = {
    STAYS: lambda row, M, j: _but(row, j, torch.zeros_like(row)),
    OTHER_WAY: lambda row, M, j: _but(row, j, row - removed_from(row, M, j)),
    COLUMN_OF_M: lambda row, M, j: _but(row, j, -row[j] / M[j, j] * M[:, j]),
    NOT_DIVIDED: lambda row, M, j: _but(row, j, -row[j] * M.inverse()[:, j]),
}


def expect_obs(submission: Submission, name: str, right: Tensor, *given: Any) -> None:
    value = expect_tensor(submission.call(name, *given), shape=right.shape, dtype=torch.float64)
    recognise(value, right, apply_each(WRONG[name], *given), equal=close)
    expect_near(value, right, name, "M⁻¹ = M.inverse(): its diagonal and its column j")


@question("2.4", points=1, claim="obs_scores: w_j² / [M⁻¹]_jj of every weight")
def test_obs_scores(submission: Submission, draw: Draw) -> None:
    size = draw.integer(4, 7)
    row, M = draw.normal(size, dtype=torch.float64), moment(draw, size)
    expect_obs(submission, "obs_scores", scores_of(row, M), row, M)


@question("2.4", points=1, claim="obs_remove: weight j is 0, the others move by the formula")
def test_obs_remove(submission: Submission, draw: Draw) -> None:
    size = draw.integer(4, 7)
    row, M, j = (
        draw.normal(size, dtype=torch.float64),
        moment(draw, size),
        draw.integer(0, size - 1),
    )
    expect_obs(submission, "obs_remove", removed_from(row, M, j), row, M, j)
    if float(submission.obs_remove(row, M, j)[j]) != 0:
        fail("the removed weight must be exactly 0, not only small")


# --- 2.5 soft_threshold, proximal_step ------------------------------------------------

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
YOURS = "the step itself is right, but it calls your soft_threshold, which is wrong: correct that function first (see above)"


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
    "2.5", points=0.5, claim="soft_threshold: exact zeros up to t, all others nearer to 0 by t"
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
    submission: Submission, weights: Named, gradients: Named, lr: float, lam: float
) -> Named | None:
    """The right step with the student's own functions in it; None where they fail."""
    try:
        return _steps(
            weights,
            gradients,
            lr,
            lambda w, g, moved: submission.soft_threshold(moved, lr * lam),
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
        fail(YOURS)
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
    "2.5",
    points=1,
    claim="proximal_step: the gradient step, then the threshold lr·lam; biases as always",
)
def test_proximal_step(submission: Submission, draw: Draw) -> None:
    expect_stepped(
        submission, draw, "proximal_step", lambda: (draw.number(0.2, 0.4), draw.number(0.5, 1.5))
    )


# --- 2.6 two short answers ------------------------------------------------------------


@question(
    "2.6",
    points=0,
    claim="a and b are letters (which ones are right is looked at when they are handed in)",
)
def test_form_of_the_answers(submission: Submission, draw: Draw) -> None:
    expect_choice(submission, "answer_2_6a", 4, {})
    expect_choice(submission, "answer_2_6b", 4, {})
