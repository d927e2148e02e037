"""Lab 06, BERT's weights: what is claimed of each answer, and its likely mistakes, each
written once as a wrong function.

New inputs are drawn for every grading: scores of both signs with equal ones among
them, weights and gradients that change from step to step, gates at 0, at 1 and between,
matrices of different shapes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from course_lib.grading import (
    Draw,
    Proxy,
    Submission,
    expect_close,
    expect_equal,
    expect_gradient,
    expect_length,
    expect_raises,
    expect_tensor,
    fail,
    question,
)
from course_lib.grading.claims.mistakes import (
    Case,
    Exercises,
    apply_each,
    draw_case,
    draw_discriminating_case,
    expect_form,
    near,
    recognise,
    same,
)
from course_lib.grading.claims.typed import expect_choice
from course_lib.labs import lab06 as reference

Named = dict[str, Tensor]
close = partial(near, tolerance=2e-5)
WRONG: dict[str, dict[str, Callable[..., Any]]] = {}
exercises = Exercises(reference, WRONG)


# --- 6.1 prune_then_finetune ----------------------------------------------------------


class Run:
    """A call of the student's prune_then_finetune: the model before and after, and the
    weights during fine-tuning.
    """

    def __init__(self, submission: Submission, draw: Draw, hold: bool, **finetune: Any) -> None:
        self.net = nn.Sequential(nn.Linear(5, 7), nn.ReLU(), nn.Linear(7, 4))
        with torch.no_grad():
            for p in self.net.parameters():
                p.copy_(draw.normal(*p.shape))
        self.start = {name: p.detach().clone() for name, p in self.net.named_parameters()}
        self.masks = {"0.weight": draw.mask(7, 5), "2.weight": draw.mask(4, 7)}
        for mask in self.masks.values():
            mask[0, 0], mask[0, 1] = True, False
        model = submission.put(self.net)
        helper = submission.helper(
            "finetune", model=model, x=draw.normal(16, 5), y=draw.labels(16, 4), **finetune
        )
        _, (masks,) = submission.call(
            "prune_then_finetune", model, self.masks, helper, hold, returning=(1,)
        )
        if not same(masks, self.masks):
            fail("your function changed the given masks. Read them, but leave them unchanged")
        self.log = submission.get(helper, "log")
        self.after: Named = submission.get(model).state
        self.mode = submission.get(model, "training")
        if len(self.log) != 1:
            fail(f"finetune was called {len(self.log)} times. Call it exactly once")
        self.steps: list[Named] = self.log[0]["after"]
        replaced = self.log[0]["replaced"]
        if replaced:
            fail(
                f"{replaced[0]!r} is a new parameter, so the optimizer of fine-tuning cannot update it: it still holds the "
                "old parameter. Change the values in place; do not create an nn.Parameter"
            )

    def zeros(self, state: Named) -> bool:
        """Whether every masked weight is 0."""
        return all(bool((state[name][~mask] == 0).all()) for name, mask in self.masks.items())

    def expect_zero_at_first(self) -> None:
        before = self.log[0]["before"]
        if all(not before[name][mask].any() for name, mask in self.masks.items()):
            fail("the masks are inverted. True means kept, False means set to 0")
        if not self.zeros(before):
            fail(
                "when fine-tuning began, some weights were not 0 where the mask is False, so the first gradient is that of the dense network. Set them to 0 before calling finetune"
            )
        for name, w in before.items():
            kept = w[self.masks[name]] if name in self.masks else w
            was = self.start[name][self.masks[name]] if name in self.masks else self.start[name]
            if not torch.equal(kept, was):
                fail(
                    f"{name!r} was changed before fine-tuning began, in entries to keep. Change only entries where the mask is False"
                )
        if all(torch.equal(before[name], self.steps[-1][name]) for name in before):
            fail(
                "fine-tuning changed no weight, because its optimizer holds the old parameters. Change the values in place; do not create an nn.Parameter"
            )

    def expect_held(self) -> None:
        if not self.log[0]["post_step"]:
            fail(
                "finetune got no function post_step. Pass the function itself, finetune(model, post_step), without calling it"
            )
        for state in self.steps:
            if any(bool(state[name][~mask].isnan().any()) for name, mask in self.masks.items()):
                fail(
                    "a pruned weight is not 0 after a step in which its gradient was NaN. Assign 0 instead of multiplying: NaN · 0 is NaN"
                )
            if not self.zeros(state):
                fail(
                    "after a step some weights are not 0 where the mask is False. With hold=True, post_step must set them to 0 again"
                )
        if not self.zeros(self.after):
            fail(
                "at the end some weights are not 0 where the mask is False. finetune can change weights after its last post_step, so set them to 0 once more after finetune"
            )


@question(
    "6.1",
    points=0.5,
    claim="hold=True: masked weights are 0 before the first gradient, after every step, and at the end",
)
def test_held(submission: Submission, draw: Draw) -> None:
    run = Run(submission, draw, True, more=True)
    run.expect_zero_at_first()
    run.expect_held()


@question(
    "6.1",
    points=0.5,
    claim="hold=False: they are 0 before fine-tuning alone, and what it makes of them stays",
)
def test_let_go(submission: Submission, draw: Draw) -> None:
    run = Run(submission, draw, False)
    run.expect_zero_at_first()
    if any(map(run.zeros, run.steps)):
        fail(
            "with hold=False post_step sets weights to 0. Leave the weights as fine-tuning changes them"
        )
    if not same(run.after, {**run.after, **run.steps[-1]}):
        fail(
            "with hold=False the model was changed after fine-tuning. Leave the weights as fine-tuning changes them"
        )


@question(
    "6.1",
    points=0.5,
    claim="arguments: a mask that does not fit raises ValueError, before anything changes",
)
def test_masks_that_do_not_fit(submission: Submission, draw: Draw) -> None:
    Run(submission, draw, True)  # right for what fits
    net = nn.Sequential(nn.Linear(5, 3))
    start = {name: p.detach().clone() for name, p in net.named_parameters()}
    good = {"0.weight": torch.zeros(3, 5, dtype=torch.bool)}
    model = submission.put(net)
    helper = submission.helper("finetune", model=model, x=draw.normal(4, 5), y=draw.labels(4, 3))
    for when, bad in (
        ("a name that the model does not have", {"1.weight": torch.zeros(3, 5, dtype=torch.bool)}),
        ("a mask of another shape", {"0.bias": torch.zeros(4, dtype=torch.bool)}),
    ):
        expect_raises(
            ValueError,
            partial(submission.prune_then_finetune, model, {**good, **bad}, helper, True),
            when,
        )
        if not same({**start, **submission.get(model).state}, start):
            fail(
                f"{when} raised ValueError, but the model was already pruned. Check all masks before changing any weight"
            )


# --- 6.2 TopV -------------------------------------------------------------------------

BY_SIZE = "scores were ranked by absolute value. They are signed: a weight with a very negative score should be pruned"
SMALLEST_KEPT = "the smallest scores are kept. Keep the largest"
SPARSITY = "keep was used as the fraction to prune. It is the fraction to keep"
LATER_KEPT = "of equal scores the later ones were kept. Keep the lower row-major index first"
ALL_EQUAL = "all scores equal to the last one kept are kept, too. Keep exactly round(keep · n)"
BY_ROW = "each row keeps the same fraction. All entries of the matrix compete together"
ROUNDED_DOWN = "The number was rounded down. It is round(keep · n)"


def top(scores: Tensor, count: int) -> Tensor:
    flat = scores.flatten()
    mask = torch.zeros_like(flat)
    mask[flat.argsort(descending=True, stable=True)[:count]] = 1
    return mask.view(scores.shape)


def _all_equal(scores: Tensor, keep: float) -> Tensor:
    count = round(keep * scores.numel())
    return (scores >= scores.flatten().sort(descending=True).values[count - 1]).to(scores.dtype)


TOP: dict[str, Callable[[Tensor, float], Tensor]] = {
    BY_SIZE: lambda s, keep: top(s.abs(), round(keep * s.numel())),
    SMALLEST_KEPT: lambda s, keep: top(-s, round(keep * s.numel())),
    SPARSITY: lambda s, keep: top(s, round((1 - keep) * s.numel())),
    LATER_KEPT: lambda s, keep: top(s.flip(0, 1), round(keep * s.numel())).flip(0, 1),
    ALL_EQUAL: _all_equal,
    BY_ROW: lambda s, keep: torch.stack([top(row, round(keep * len(row))) for row in s]),
}


def apply_top(submission: Submission, scores: Tensor, keep: float) -> tuple[Any, Any, Tensor]:
    """The scores given, the mask returned, and its value."""
    given = submission.put(scores, requires_grad=True)
    out = submission.call("TopV.apply", given, keep, keep=True)
    value = expect_tensor(
        submission.get(out), shape=scores.shape, what=f"TopV.apply(scores, {keep:g})"
    )
    if value.dtype != scores.dtype:
        fail(
            f"the mask is {value.dtype}, the scores are {scores.dtype}. Return 0 and 1 in the scores' dtype (a bool has no gradient)"
        )
    return given, out, value


def expect_top(value: Tensor, scores: Tensor, keep: float, mistakes: dict[str, Any]) -> None:
    right = top(scores, round(keep * scores.numel()))
    recognise(value, right, mistakes)
    if int(value.sum()) != int(right.sum()):
        fail(
            f"{int(value.sum())} of {scores.numel()} are kept at keep = {keep:g}. The number to keep is round(keep · n) = {int(right.sum())}"
        )
    expect_equal(
        value, right, message=_why_not(scores, value > 0) or "the values are not exactly 0 and 1"
    )


def _why_not(scores: Tensor, kept: Tensor) -> str:
    """The number is right: the mistake in the choice."""

    def chosen_by(worth: Tensor) -> bool:
        return bool(worth[kept].min() >= worth[~kept].max())

    if kept.all() or not kept.any():
        return ""
    if chosen_by(scores):
        return LATER_KEPT
    return (
        BY_SIZE
        if chosen_by(scores.abs())
        else "the number of kept scores is right, but they are not the largest"
    )


@question("6.2", points=1, claim="ones at the largest scores, of equal ones the first")
def test_top(submission: Submission, draw: Draw) -> None:
    n = 12 * 32

    def scored() -> tuple[Tensor, float]:  # share · n is a whole number, also per row
        scores = draw.normal(12, 32)
        scores[draw.mask(12, 32, kept=0.6)] = draw.number(-0.2, 0.2)  # many equal ones
        return scores, draw.integer(4, 7) / 16

    (scores, keep), _, mistakes = draw_case(scored, lambda s, keep: top(s, round(keep * n)), TOP)
    _, _, value = apply_top(submission, scores, keep)
    expect_top(value, scores, keep, mistakes)


@question("6.2", points=0.5, claim="the number of ones is round(keep · n)")
def test_number_of_ones(submission: Submission, draw: Draw) -> None:
    for share, right in ((10.3, 10), (13.7, 14)):
        _, _, value = apply_top(submission, draw.normal(5, 7), share / 35)
        if int(value.sum()) != right:
            fail(
                f"keep · n is {share}, and {int(value.sum())} of 35 scores are kept. "
                + (ROUNDED_DOWN if int(value.sum()) == int(share) else "Keep round(keep · n)")
            )


MASKED = "the gradient is 0 where the mask is 0. Straight-through means that all scores get the gradient, so that pruned weights can come back"
SIGMOID = "the gradient contains the derivative of a sigmoid. Pass the gradient on unchanged"
ARGUMENTS = {
    "number of gradients": "backward must return one gradient for each argument of forward: the gradient of scores, and None for keep"
}
LOST_GRADIENT = "no gradient comes back to the scores. Inherit from torch.autograd.Function and return the gradient from backward"


@question("6.2", points=1, claim="backwards the gradient is unchanged, at all entries")
def test_straight_through(submission: Submission, draw: Draw) -> None:
    scores, g = draw.normal(4, 6), draw.normal(4, 6)
    given, out, value = apply_top(submission, scores, 0.4)
    found = expect_gradient(submission, out, given, g, LOST_GRADIENT, ARGUMENTS)
    soft = scores.sigmoid()
    mistakes = {
        MASKED: g * value,
        SIGMOID: g * soft * (1 - soft),
        "the gradient was multiplied by the scores. Pass it on unchanged. The factor W of the formula comes from W ∘ M, outside of TopV": g
        * scores,
        "the gradient is always 1, whatever came in. Pass on the incoming gradient": torch.ones_like(
            g
        ),
    }
    recognise(found, g, mistakes, equal=close)
    expect_close(found, g, "the gradient of scores")


# --- 6.3 movement ---------------------------------------------------------------------

PLUS = "the sign is wrong. SGD steps against the gradient, so S = −lr · Σ g ∘ w"
SALIENCY = "|g·w| was summed. This is the saliency of lab 02, which ignores the direction. Sum g ∘ w with its sign"
LAST_GRADIENT = "only the last step was used. Sum over all steps"
LAST_WEIGHT = (
    "the last weight was used for all steps. Multiply each gradient by the weight of its own step"
)
DISPLACEMENT = "this is the distance that the weight moved. The score sums g ∘ w"
NO_RATE = "the learning rate lr is missing"
MEAN_STEP = "the mean over steps was returned. Return the sum"

History = list[tuple[Tensor, Tensor]]


def _steps(history: History) -> tuple[Tensor, Tensor]:
    """(steps, …) weights and gradients, float64."""
    return torch.stack([w.double() for w, _ in history]), torch.stack(
        [g.double() for _, g in history]
    )


def _of_steps(rule: Callable[[Tensor, Tensor], Tensor]) -> Callable[[History, float], Tensor]:
    return lambda history, lr: -lr * rule(*_steps(history))


WRONG["movement"] = {
    PLUS: _of_steps(lambda w, g: -(g * w).sum(0)),
    SALIENCY: _of_steps(lambda w, g: -(g * w).abs().sum(0)),
    LAST_GRADIENT: _of_steps(lambda w, g: g[-1] * w[-1]),
    LAST_WEIGHT: _of_steps(lambda w, g: (g * w[-1]).sum(0)),
    DISPLACEMENT: _of_steps(lambda w, g: g.sum(0)),
    NO_RATE: lambda history, lr: reference.movement(history, 1.0),
    MEAN_STEP: _of_steps(lambda w, g: (g * w).mean(0)),
}


def expect_movement(
    submission: Submission, draw: Draw, steps: int, *shape: int, dtype: torch.dtype = torch.float32
) -> None:
    def moved() -> tuple[History, float]:
        history = [
            (draw.normal(*shape, dtype=dtype), draw.normal(*shape, dtype=dtype))
            for _ in range(steps)
        ]
        return history, draw.number(0.2, 0.5)

    wrong = WRONG["movement"] if steps > 1 else {}
    given, right, mistakes = draw_case(moved, reference.movement, wrong, close)
    value = expect_tensor(submission.movement(*given), shape=shape, what="S")
    recognise(value, right, mistakes, equal=close)
    if value.dtype != torch.float64:
        fail(f"S is {value.dtype}. Sum in float64, because there are many small steps")
    expect_close(value, right, "S = −lr · Σ g ∘ w")


@question("6.3", points=0.5, claim="movement: −lr · Σ g ∘ w, each step's own")
def test_movement(submission: Submission, draw: Draw) -> None:
    expect_movement(submission, draw, draw.integer(3, 5), 3, 4)


# --- 6.4 soft_mask, soft_penalty ------------------------------------------------------

ON_SCORES = "S was compared with the threshold. Compare σ(S)"
GRADED = "the values of the mask lie between 0 and 1. They must be exactly 0 or 1"
BELOW = "entries below tau were kept. Keep the entries above tau"

WRONG["soft_mask"] = {
    ON_SCORES: lambda s, tau: (s > tau).to(s.dtype),
    GRADED: lambda s, tau: s.sigmoid(),
    BELOW: lambda s, tau: (s.sigmoid() <= tau).to(s.dtype),
}


def right_soft(s: Tensor, tau: float) -> Tensor:
    return (s.sigmoid() > tau).to(s.dtype)


@question("6.4", points=0.5, claim="soft_mask: exactly 1 where σ(S) > tau, else exactly 0")
def test_soft_mask(submission: Submission, draw: Draw) -> None:
    (scores, tau), right, mistakes = draw_case(
        lambda: (draw.normal(5, 6, scale=2.0), draw.number(0.2, 0.4)),
        right_soft,
        WRONG["soft_mask"],
    )
    value = expect_tensor(submission.soft_mask(scores, tau), shape=scores.shape, what="the mask")
    recognise(value, right, mistakes)
    if not bool(((value == 0) | (value == 1)).all()):
        fail(
            "the mask holds values other than exactly 0 and 1. In mask + S − S the first sum is rounded. Which two terms must be subtracted first?"
        )
    expect_equal(value, right, "the mask")
    at_tau = submission.soft_mask(torch.zeros(2, 2), 0.5)
    expect_equal(at_tau, torch.zeros(2, 2), message="σ(0) = ½ is not above tau = ½. Use >, not ≥")


@question("6.4", points=0.5, claim="soft_mask: the gradient is unchanged, at all entries")
def test_soft_mask_gradient(submission: Submission, draw: Draw) -> None:
    scores, g = draw.normal(4, 5, scale=1.7), draw.normal(4, 5)
    given = submission.put(scores, requires_grad=True)
    out = submission.call("soft_mask", given, 0.5, keep=True)
    lost = "no gradient comes back to the scores, because a comparison has none. Use the straight-through gradient"
    found = expect_gradient(submission, out, given, g, lost)
    soft = scores.sigmoid()
    wrong = {
        "the gradient is 0 where the mask is 0. All scores must get the gradient unchanged": g
        * right_soft(scores, 0.5),
        "the gradient is that of σ. Pass the gradient on unchanged": g * soft * (1 - soft),
    }
    recognise(found, g, wrong, equal=near)
    expect_close(found, g, "the gradient of scores")


MEAN_OF_MEANS = "the means of the matrices were averaged, so small matrices have too much weight. Divide by the number of all entries together"
NOT_DIVIDED = "the sum is not divided by the number of entries"
LAM_LOST = "lam is missing"
OF_SCORES = "the scores S were summed. Sum σ(S)"
COUNTED = "the entries with σ(S) > ½ were counted. A count has no gradient, so sum σ(S)"

WRONG["soft_penalty"] = {
    MEAN_OF_MEANS: lambda scores, lam: (
        lam * torch.stack([s.sigmoid().mean() for s in scores]).mean()
    ),
    NOT_DIVIDED: lambda scores, lam: lam * torch.stack([s.sigmoid().sum() for s in scores]).sum(),
    LAM_LOST: lambda scores, lam: reference.soft_penalty(scores, 1.0),
    COUNTED: lambda scores, lam: (
        lam * (torch.cat([s.flatten() for s in scores]) > 0).float().mean()
    ),
    OF_SCORES: lambda scores, lam: lam * torch.cat([s.flatten() for s in scores]).mean(),
    "the sum was divided by the number of matrices. Divide by the number of entries": lambda scores, lam: (
        lam * torch.stack([s.sigmoid().sum() for s in scores]).mean()
    ),
}


@question(
    "6.4", points=0.5, claim="soft_penalty: λ times the mean of σ(S) over all entries together"
)
def test_soft_penalty(submission: Submission, draw: Draw) -> None:
    def scores() -> tuple[list[Tensor], float]:
        scores = [draw.normal(2, 3) - 2, draw.normal(7, 5) + 1, draw.normal(4)]
        return scores, draw.number(0.1, 3)

    what = "soft_penalty(scores, lam)"
    exercises.expect_answer(submission, "soft_penalty", scores, close, what=what)


# --- 6.5 proximal_after ---------------------------------------------------------------


def shrunk(w: Tensor, t: Tensor | float) -> Tensor:
    return w.sign() * (w.abs() - t).clamp(min=0)


Weights = list[Tensor]


def _reweighted(before: Weights, after: Weights, eps: float) -> Weights:
    return [1 / (w.abs() + eps) for w in after]


def rehearsed(
    moved: list[Weights], rates: Sequence[float], lam: float, eps: float, every: int, *,
    threshold: Callable[[float, float], float] = lambda lr, lam: lr * lam,
    rate: Callable[[Sequence[float], int], float] = lambda rates, t: rates[t],
    due: Callable[[int, int], bool] = lambda call, every: call % every == 0,
    renewed: Callable[[Weights, Weights, float], Weights] = _reweighted,
    early: bool = False,
) -> list[Weights]:  # fmt: skip
    """The weights after each call; parts of the rule may be wrong.

    Args:
        moved: for each call the weights that the optimizer's step left.
        due: whether α is renewed after this call, counted from 1.
        early: α is renewed before the threshold.
    """
    alphas = [torch.ones_like(w) for w in moved[0]]
    found = []
    for t, before in enumerate(moved):
        if early and due(t + 1, every):
            alphas = renewed(before, before, eps)
        after = [
            shrunk(w, threshold(rate(rates, t), lam) * a)
            for w, a in zip(before, alphas, strict=True)
        ]
        found.append(after)
        if due(t + 1, every) and not early:
            alphas = renewed(before, after, eps)
    return found


def _normed(before: Weights, after: Weights, eps: float) -> Weights:
    alphas = [1 / (w.abs() + eps) for w in after]
    mean = torch.cat([a.flatten() for a in alphas]).mean()
    return [a / mean for a in alphas]


def _shared(before: Weights, after: Weights, eps: float) -> Weights:
    alpha = torch.cat([1 / (w.abs() + eps).flatten() for w in after]).mean()
    return [alpha.expand(w.shape) for w in after]


LAM_ALONE = "the threshold is λ·α, so the rate is missing. It should be lr · lam · α"
BEFORE = "α was computed from the weights before the threshold. Compute it from the weights after the threshold"
EARLY = "α is renewed before the threshold of the same call. First apply the threshold with the old α, then compute α from the new weights"
EVERY_STEP = (
    "α is renewed at every call. Renew it only when the number of calls is a multiple of `every`"
)
AT_ONCE = "α is renewed at the first call already. Keep it at ones until the number of calls is a multiple of `every`"
NEVER = "α is never renewed. After every `every`-th call, set it to 1 / (|w| + eps)"
ONCE = "α is renewed only once. Renew it again at 2·every, 3·every, …"
SIGNED = "α was computed without the absolute value. It is 1 / (|w| + eps)"
NORMED = "α was scaled to mean 1. It is 1 / (|w| + eps), without scaling"
SHARED = "all weights have one α. Each weight must have its own"
FIRST_RATE = "the rate was read once. A schedule changes it, so read it at each call"

WRONG_PROXIMAL: dict[str, Callable[..., list[Weights]]] = {
    LAM_ALONE: partial(rehearsed, threshold=lambda lr, lam: lam),
    BEFORE: partial(
        rehearsed, renewed=lambda before, after, eps: [1 / (w.abs() + eps) for w in before]
    ),
    EARLY: partial(rehearsed, early=True),
    EVERY_STEP: partial(rehearsed, due=lambda call, every: True),
    AT_ONCE: partial(rehearsed, due=lambda call, every: (call - 1) % every == 0),
    NEVER: partial(rehearsed, due=lambda call, every: False),
    ONCE: partial(rehearsed, due=lambda call, every: call == every),
    SIGNED: partial(rehearsed, renewed=lambda before, after, eps: [1 / (w + eps) for w in after]),
    NORMED: partial(rehearsed, renewed=_normed),
    SHARED: partial(rehearsed, renewed=_shared),
    FIRST_RATE: partial(rehearsed, rate=lambda rates, t: rates[0]),
}


class Trained:
    """The student's post_step between steps of an optimizer that the grader simulates."""

    def __init__(
        self, submission: Submission, start: Weights, lr: Any, lam: float, eps: float, every: int
    ) -> None:
        self.submission = submission
        self.params = [submission.put(w, requires_grad=True) for w in start]
        self.post_step = submission.call(
            "proximal_after", self.params, lr, lam, eps, every, keep=True
        )
        if submission.get(self.post_step) is None:
            fail(
                "proximal_after returned None. Return the function post_step that is defined inside it"
            )

    def after(self, moved: Weights) -> Weights:
        """The optimizer leaves these; post_step is called."""
        for param, w in zip(self.params, moved, strict=True):
            self.submission.call("data.copy_", w, on=param, keep=True)
        self.submission.call("", on=self.post_step)
        return [
            expect_tensor(self.submission.get(p), shape=w.shape, what="a param")
            for p, w in zip(self.params, moved, strict=True)
        ]


def as_named(calls: list[Weights]) -> Named:
    return {f"{t}.{i}": w for t, weights in enumerate(calls) for i, w in enumerate(weights)}


def expect_proximal(
    submission: Submission,
    draw: Draw,
    calls: int,
    every: int,
    scheduled: bool,
    dtype: torch.dtype = torch.float32,
) -> None:
    def case() -> Case:
        moved = [
            [draw.normal(3, 4, dtype=dtype), draw.normal(5, 2, scale=0.3, dtype=dtype)]
            for _ in range(calls)
        ]
        rates = (
            [draw.number(0.05, 0.3) for _ in range(calls)]
            if scheduled
            else [draw.number(0.05, 0.3)] * calls
        )
        lam, eps = draw.number(0.5, 1.5), draw.number(0.2, 0.5)
        given = moved, rates, lam, eps, every
        wrong = {said: as_named(rule(*given)) for said, rule in WRONG_PROXIMAL.items()}
        right = as_named(rehearsed(*given))
        return given, right, {said: r for said, r in wrong.items() if not close(r, right)}

    (moved, rates, lam, eps, _), right, mistakes = (
        draw_discriminating_case(case, close) if calls > every else case()
    )
    asked: list[float] = []

    def rate_now() -> float:
        asked.append(rates[min(len(asked), calls - 1)])
        return asked[-1]

    lr = Proxy(rate_now, "lr") if scheduled else rates[0]
    trained = Trained(submission, moved[0], lr, lam, eps, every)
    value = as_named([trained.after(w) for w in moved])
    if len(asked) > calls:
        fail(
            f"the rate was read {len(asked)} times in {calls} calls. Read it once in each, for all params"
        )
    if all(
        torch.equal(value[f"{t}.{i}"], w) for t, ws in enumerate(moved) for i, w in enumerate(ws)
    ):
        fail(
            "post_step did not change the params. They are as the optimizer left them; change them in place (p.copy_ under torch.no_grad())"
        )
    recognise(value, right, mistakes, equal=close)
    for key, w in right.items():
        expect_close(value[key], w, f"param {key[-1]} after call {int(key.split('.')[0]) + 1}")


@question(
    "6.5",
    points=1,
    claim="each call: every param becomes soft_threshold(param, lr · lam · α), in place; α is 1 at first",
)
def test_proximal(submission: Submission, draw: Draw) -> None:
    expect_proximal(submission, draw, 2, 10, False)


@question(
    "6.5",
    points=1,
    claim="after every `every`-th call α = 1 / (|param| + eps); the rate is asked for at each",
)
def test_reweighted(submission: Submission, draw: Draw) -> None:
    expect_proximal(submission, draw, 5, 2, True)


# --- 6.6 factorise --------------------------------------------------------------------

ON_BOTH = "both factors contain σ, so the product contains σ². Multiply each factor by √σ"
ON_ONE = "the product is right, but PᵀP is not QQᵀ. Multiply each factor by √σ"
V_FOR_VT = "V and Vᵀ were confused. torch.linalg.svd returns Vᵀ; the old torch.svd returns V"
SMALLEST_ONES = "the smallest singular values were kept. Keep the largest"
NO_SIGMA = "the singular values are missing"


def _svd(
    w: Tensor, rank: int, left: float, right: float, turned: bool = False, last: bool = False
) -> tuple[Tensor, Tensor]:
    u, sigma, v = torch.linalg.svd(w.double(), full_matrices=False)
    v = v.T if turned else v
    part = slice(-rank, None) if last else slice(0, rank)
    return (u[:, part] * sigma[part] ** left).to(w.dtype), (
        sigma[part, None] ** right * v[part]
    ).to(w.dtype)


WRONG["factorise"] = {
    ON_BOTH: lambda w, rank: _svd(w, rank, 1, 1),
    ON_ONE: lambda w, rank: _svd(w, rank, 1, 0),
    "the product is right, but PᵀP is not QQᵀ. Only Q contains the singular values": lambda w, rank: (
        _svd(w, rank, 0, 1)
    ),
    SMALLEST_ONES: lambda w, rank: _svd(w, rank, 0.5, 0.5, last=True),
    NO_SIGMA: lambda w, rank: _svd(w, rank, 0, 0),
    V_FOR_VT: lambda w, rank: (
        _svd(w, rank, 0.5, 0.5, turned=True)
        if w.shape[0] == w.shape[1]
        else _svd(w, rank, 0.5, 0.5)
    ),
}


def products(stored: tuple[Tensor, Tensor]) -> Named:
    """The quantities that do not depend on the signs of singular vectors."""
    p, q = stored[0].double(), stored[1].double()
    return {"product": p @ q, "PᵀP": (p.T @ p).diagonal(), "QQᵀ": (q @ q.T).diagonal()}


def as_factors(
    value: Any, rows: int, rank: int, columns: int, dtype: torch.dtype, what: str
) -> tuple[Tensor, Tensor]:
    expect_length(value, 2, what)
    p = expect_tensor(value[0], shape=(rows, rank), dtype=dtype, what="P")
    return p, expect_tensor(value[1], shape=(rank, columns), dtype=dtype, what="Q")


def expect_factors(submission: Submission, w: Tensor, rank: int, mistakes: dict[str, Any]) -> None:
    stored = as_factors(
        submission.factorise(w, rank), len(w), rank, w.shape[1], w.dtype, "factorise(weight, rank)"
    )
    value, right = products(stored), products(reference.factorise(w, rank))
    equal = partial(near, tolerance=1e-4)
    if len(w) == w.shape[1] and not equal(value, right):
        turned = _svd(w, rank, 0.5, 0.5, turned=True)[1]
        if equal(stored[1].abs(), turned.abs()):  # the product depends on the signs of the svd
            fail(V_FOR_VT)
    recognise(value, right, mistakes, equal=equal)
    expect_close(value["product"], right["product"], "P·Q (the best of this rank)", tolerance=1e-4)
    p, q = stored[0].double(), stored[1].double()
    expect_close(p.T @ p, q @ q.T, "PᵀP, which is to be QQᵀ", tolerance=1e-3)


def separated(draw: Draw, rows: int, columns: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """A matrix whose singular values are far apart, so that rounding does not change the
    best approximation.
    """
    k = min(rows, columns)
    u, v = (torch.linalg.qr(draw.normal(n, k, dtype=torch.float64)).Q for n in (rows, columns))
    sigma = draw.number(3, 4) * 0.7 ** torch.arange(k, dtype=torch.float64)
    return ((u * sigma) @ v.T).to(dtype)


@question("6.6", points=1, claim="the best P·Q of this rank, √σ on both sides")
def test_factorise(submission: Submission, draw: Draw) -> None:
    w, rank = separated(draw, 6, 6), draw.integer(2, 4)
    wrong = apply_each(WRONG["factorise"], w, rank)
    expect_factors(submission, w, rank, {said: products(r) for said, r in wrong.items()})


# --- 6.7 sample_gate, expected_l0, gate_at_test ---------------------------------------

BETA, GAMMA, ZETA = 2 / 3, -0.1, 1.1


def stretched(s: Tensor, gamma: float = GAMMA, zeta: float = ZETA) -> Tensor:
    return s * (zeta - gamma) + gamma


def _sampled(x: Callable[[Tensor, Tensor, float], Tensor]) -> Callable[..., Tensor]:
    """sample_gate with s = σ(x)."""
    return lambda a, u, beta=BETA, gamma=GAMMA, zeta=ZETA: stretched(
        x(a, u, beta).sigmoid(), gamma, zeta
    ).clamp(0, 1)


def _opened(x: Callable[[Tensor, float, float, float], Tensor]) -> Callable[..., Tensor]:
    """expected_l0 as σ(x)."""
    return lambda a, beta=BETA, gamma=GAMMA, zeta=ZETA: x(a, beta, gamma, zeta).sigmoid()


def _at_one(a: Tensor, beta: float = BETA, gamma: float = GAMMA, zeta: float = ZETA) -> Tensor:
    """P(g = 1)."""
    return (a - beta * math.log((1 - gamma) / (zeta - 1))).sigmoid()


WRONG["sample_gate"] = {
    "the gate is not stretched, so it is never 0 and never 1": lambda a, u, beta=BETA, gamma=GAMMA, zeta=ZETA: (
        ((u.logit() + a) / beta).sigmoid()
    ),
    "the gate was clipped before it was stretched. Stretch it first, then clip it to [0, 1]": lambda a, u, beta=BETA, gamma=GAMMA, zeta=ZETA: (
        stretched(((u.logit() + a) / beta).sigmoid().clamp(0, 1), gamma, zeta)
    ),
    "the gate was rounded to 0 or 1. Keep values between 0 and 1 unchanged": lambda *given: (
        reference.sample_gate(*given).round()
    ),
    "the sum was multiplied by β. Divide it by β": _sampled(lambda a, u, b: (u.logit() + a) * b),
    "log α is not divided by β. Divide the whole sum, including log α": _sampled(
        lambda a, u, b: u.logit() / b + a
    ),
    "only log α is divided by β. Divide the whole sum": _sampled(lambda a, u, b: u.logit() + a / b),
    "the noise is ln u − ln(1 − u), not ln u + ln(1 − u)": _sampled(
        lambda a, u, b: (u.log() + (1 - u).log() + a) / b
    ),
    "the sign of the noise is wrong. It is ln u − ln(1 − u)": _sampled(
        lambda a, u, b: (a - u.logit()) / b
    ),
}
WRONG["expected_l0"] = {
    "γ and ζ are missing: this is P(s > ½). Which inequality must s fulfil if the stretched s is above 0?": _opened(
        lambda a, beta, gamma, zeta: a
    ),
    "the sign of the shift is wrong. A gate is 0 only if s is below a threshold that is less than ½, so P(g ≠ 0) is larger than σ(log α)": _opened(
        lambda a, beta, gamma, zeta: a + beta * math.log(-gamma / zeta)
    ),
    "β is missing. In the inequality for s, the noise and log α are divided by β": _opened(
        lambda a, beta, gamma, zeta: a - math.log(-gamma / zeta)
    ),
    "log α was divided by β, too. Solve the inequality for the noise: log α then stands alone": _opened(
        lambda a, beta, gamma, zeta: a / beta - math.log(-gamma / zeta)
    ),
    "the inequality s > t was solved with ln t. The inverse of σ is ln t − ln(1 − t)": _opened(
        lambda a, beta, gamma, zeta: a - beta * math.log(-gamma / (zeta - gamma))
    ),
    "this is P(g = 0). Return P(g ≠ 0)": _opened(
        lambda a, beta, gamma, zeta: beta * math.log(-gamma / zeta) - a
    ),
    "this is P(0 < g < 1). A gate of exactly 1 is open, too": lambda *given: (
        reference.expected_l0(*given) - _at_one(*given)
    ),
    "this is P(g = 1). A gate between 0 and 1 is open, too": _at_one,
    "the probabilities were summed. Return one number for each gate": lambda *given: (
        reference.expected_l0(*given).sum()
    ),
}
WRONG["gate_at_test"] = {
    "β was used. The gate at test has no temperature": lambda a, gamma=GAMMA, zeta=ZETA: stretched(
        (a / BETA).sigmoid(), gamma, zeta
    ).clamp(0, 1),
    "the gate was rounded, or compared with a threshold. Keep values between 0 and 1 unchanged": lambda a, gamma=GAMMA, zeta=ZETA: (
        (a > 0).to(a.dtype)
    ),
    "the gate is not stretched": lambda a, gamma=GAMMA, zeta=ZETA: a.sigmoid(),
    "the gate is not clipped to [0, 1]": lambda a, gamma=GAMMA, zeta=ZETA: stretched(
        a.sigmoid(), gamma, zeta
    ),
}


def log_alphas(draw: Draw, *shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return draw.normal(*shape, scale=2.5, dtype=dtype)


def noise(draw: Draw, *shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.rand(shape, generator=draw.generator, dtype=dtype).clamp(0.01, 0.99)


def constants(draw: Draw) -> tuple[float, float, float]:
    """β, γ, ζ."""
    return draw.number(0.3, 0.5), draw.number(-0.4, -0.2), draw.number(1.2, 1.5)


def expect_gates(
    submission: Submission, name: str, arguments: Callable[[], tuple[Any, ...]], wrong: Any
) -> None:
    """A function of tensors, like the library's, on drawn arguments."""
    given, right, mistakes = draw_case(arguments, getattr(reference, name), wrong, close)
    value = submission.call(name, *given)
    if isinstance(value, Tensor):  # before its form: a sum has another shape
        recognise(value, right, mistakes, equal=close)
    value = expect_tensor(value, shape=right.shape, dtype=right.dtype, what=f"{name}(…)")
    expect_close(value, right, f"{name}(…)", tolerance=2e-5)


@question("6.7", points=0.5, claim="sample_gate: noise, temperature, stretched, then clipped")
def test_sample(submission: Submission, draw: Draw) -> None:
    wrong = WRONG["sample_gate"]
    expect_gates(submission, "sample_gate", lambda: (log_alphas(draw, 40), noise(draw, 40)), wrong)


@question("6.7", points=1, claim="expected_l0: each gate's probability of not being 0")
def test_expected(submission: Submission, draw: Draw) -> None:
    def given() -> tuple[Any, ...]:  # with the default γ and ζ, P(g = 1) has the wrong sign's value
        return log_alphas(draw, 3, 4), *constants(draw)

    expect_gates(submission, "expected_l0", given, WRONG["expected_l0"])


@question("6.7", points=0.5, claim="gate_at_test: no noise, no temperature")
def test_at_test(submission: Submission, draw: Draw) -> None:
    wrong = WRONG["gate_at_test"]
    expect_gates(submission, "gate_at_test", lambda: (log_alphas(draw, 30),), wrong)


# --- 6.8 lagrangian, dual_step --------------------------------------------------------

SQUARED_ONLY = "the term of λ₁ is squared, too. Return λ₁ · (size − target) + λ₂ · (size − target)²"
REVERSED_GAP = "the sign of the difference is wrong. It is size − target, which is negative if the model is too small"
DESCENT = "the multipliers descend. They must ascend, so add lr times the gradient"
CLAMPED = "λ₁ was limited to at least 0. It can become negative, and then it makes a model larger that is too small"
LAM2_LINEAR = "λ₂ changes by the difference. Its gradient is the square of the difference"

WRONG["lagrangian"] = {
    SQUARED_ONLY: lambda size, target, a, b: (a + b) * (size - target) ** 2,
    REVERSED_GAP: lambda size, target, a, b: a * (target - size) + b * (size - target) ** 2,
    "the term of λ₂ is not squared": lambda size, target, a, b: (a + b) * (size - target),
}
WRONG["dual_step"] = {
    DESCENT: lambda size, target, a, b, lr: (
        a - lr * (size - target),
        b - lr * (size - target) ** 2,
    ),
    "the sign of the difference was lost. If the model is too small, λ₁ must decrease": lambda size, target, a, b, lr: (
        a + lr * abs(size - target),
        b + lr * (size - target) ** 2,
    ),
    CLAMPED: lambda size, target, a, b, lr: (
        max(0.0, a + lr * (size - target)),
        b + lr * (size - target) ** 2,
    ),
    LAM2_LINEAR: lambda size, target, a, b, lr: (
        a + lr * (size - target),
        b + lr * (size - target),
    ),
    "the gradient was multiplied by the multiplier. The derivative with respect to λ₁ is size − target alone": lambda size, target, a, b, lr: (
        a + lr * a * (size - target),
        b + lr * b * (size - target) ** 2,
    ),
}


def expect_dual(submission: Submission, draw: Draw, size: float, target: float) -> None:
    def case() -> Case:
        given = size, target, draw.number(0, 0.02), draw.number(0.1, 1), draw.number(0.1, 0.9)
        right, wrong = reference.dual_step(*given), apply_each(WRONG["dual_step"], *given)
        return given, right, {said: w for said, w in wrong.items() if not close(w, right)}

    given, right, mistakes = draw_discriminating_case(case, close)
    value = expect_form(submission.dual_step(*given), right, "dual_step(…)")
    recognise(value, right, mistakes, equal=close)
    expect_close(value, right, "λ₁ and λ₂")


@question(
    "6.8", points=0.5, claim="the Lagrangian of a size and its target, and one step of ascent"
)
def test_lagrangian(submission: Submission, draw: Draw) -> None:
    def model() -> tuple[Tensor, float, float, float]:
        size, target = torch.tensor(draw.number(0.05, 0.2)), draw.number(0.3, 0.5)
        return size, target, draw.number(0.2, 1), draw.number(0.2, 1)

    what = "lagrangian(size, target, lam1, lam2)"
    exercises.expect_answer(submission, "lagrangian", model, close, what=what)
    expect_dual(submission, draw, draw.number(0.05, 0.2), draw.number(0.3, 0.5))


# --- 6.9 ------------------------------------------------------------------------------


@question(
    "6.9",
    points=0,
    claim="a and b are letters (which ones are right is looked at when they are handed in)",
)
def test_form_of_the_answers(submission: Submission, draw: Draw) -> None:
    expect_choice(submission, "answer_6_9a", 4, {})
    expect_choice(submission, "answer_6_9b", 4, {})
