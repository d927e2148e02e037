"""Lab 02: the claims that only the grader sees."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from course_claims_lab02.visible import (
    HARD,
    INVERTED,
    L1_NORM,
    MAGNITUDE,
    MEAN,
    NEGATIVE_GONE,
    PAST_ZERO,
    PROMISE,
    RIGHT,
    SIGN_LOST,
    SQUARED_NORM,
    Looked,
    Rescored,
    Scripted,
    close,
    drawn_scores,
    expect_near,
    expect_rescored,
    expect_row_mask,
    expect_second_order,
    expect_soft,
    fill,
    layers,
    of_table,
    rounds,
    samples,
    small_net,
)
from course_claims_lab02.visible import WRONG as SEEN
from torch import Tensor, nn

from course_lib.grading import Draw, Submission, fail, question
from course_lib.grading.claims.hunt import expect_verdicts
from course_lib.grading.claims.mistakes import apply_each, recognise
from course_lib.grading.claims.typed import expect_choice
from course_lib.labs import lab02 as reference

Named = dict[str, Tensor]


# --- 2.1 ---


@question(
    "2.1", points=0.5, claim="any shape, and the weight's dtype where the curvature is float64"
)
def test_loss_change_any_shape(submission: Submission, draw: Draw) -> None:
    expect_second_order(submission, draw, 2, 3, 2, 2, dtype=torch.float64)


# --- 2.2 ---


@question(
    "2.2", points=1.5, claim="any number of samples, batch norm, frozen layers, double precision"
)
def test_fisher_of_any_model(submission: Submission, draw: Draw) -> None:
    net = nn.Sequential(
        nn.Conv2d(1, 3, 2), nn.BatchNorm2d(3), nn.Tanh(), nn.Flatten(), nn.Linear(12, 4)
    ).double()
    fill(net, draw)
    net[1].running_mean.copy_(draw.normal(3))
    net[1].running_var.copy_(draw.sizes(3, 0.5, 2.0))
    x, y = draw.normal(draw.integer(18, 23), 1, 3, 3, dtype=torch.float64), draw.labels(23, 4)
    y = y[: len(x)]
    value = Looked(submission, "empirical_fisher", net, x, y, frozen="0.weight").value
    right = reference.empirical_fisher(net, x, y)
    recognise(value, right, apply_each(SEEN["empirical_fisher"], net, x, y), equal=close)
    for name, r in right.items():
        expect_near(
            value[name],
            r,
            f"{name!r} of a net with batch norm, {len(x)} samples",
            "in evaluation mode the samples are independent: chunks and their order must make no difference",
        )


# --- 2.3 ---

HESSIAN = (
    "this is the Hessian's diagonal: it equals the Fisher for ReLU networks, but for a smooth network it has a second "
    "part, with second derivatives of the logits. Σ p_c·(∂ log p_c)² does not contain that part"
)


def _hessian(model: nn.Module, x: Tensor) -> Named:
    """Of the loss with the class that is predicted: mean over samples, the diagonal
    entry by entry.
    """
    copied = copy.deepcopy(model).eval().requires_grad_()
    found: Named = {
        name: torch.zeros(p.shape, dtype=torch.float64) for name, p in copied.named_parameters()
    }
    for name, p in copied.named_parameters():
        for sample in x:
            with torch.enable_grad():
                z = copied(sample[None])
                loss = -z.log_softmax(1).max()
                (g,) = torch.autograd.grad(loss, p, create_graph=True)
                for i in range(p.numel()):
                    (second,) = torch.autograd.grad(g.flatten()[i], p, retain_graph=True)
                    found[name].view(-1)[i] += float(second.flatten()[i]) / len(x)
    return found


WRONG: dict[str, dict[str, Callable[..., Any]]] = {"curvature": {HESSIAN: _hessian}}


@question(
    "2.3", points=1.5, claim="the same for a smooth network, frozen layers, any number of samples"
)
def test_curvature_of_a_smooth_net(submission: Submission, draw: Draw) -> None:
    net = small_net(draw, nn.Tanh, classes=4)
    x, _ = samples(draw, net, draw.integer(5, 8))
    value = Looked(submission, "curvature", net, x, frozen="0.weight").value
    right = reference.curvature(net, x)
    recognise(value, right, apply_each(WRONG["curvature"] | SEEN["curvature"], net, x), equal=close)
    for name, r in right.items():
        expect_near(
            value[name],
            r,
            f"{name!r} of a net with tanh",
            "Σ_c p_c·(∂ log p_c)², averaged over samples",
        )


# --- 2.4 ---


@question(
    "2.4",
    points=1,
    claim="ties, zeros that are not pruned, NaN scores of pruned weights, a target of 1, no target",
)
def test_rescored_at_the_edges(submission: Submission, draw: Draw) -> None:
    net = layers(draw)
    with torch.no_grad():
        net[2].weight[:, ::2] = 0  # still there, and worth as much as its score says
    script = [drawn_scores(draw, net, tied=True), drawn_scores(draw, net, tied=True)]
    n = sum(p.numel() for p in net.parameters() if p.ndim > 1)
    # that round and floor agree: how to round is asked elsewhere
    targets = [(round(t * n) + 0.1) / n for t in (0.35, 0.7)]
    first = rounds(copy.deepcopy(net), lambda model: script[0], targets[:1])
    script[1] = {
        name: s.masked_fill(~first[name], torch.nan) if name in first else s
        for name, s in script[1].items()
    }
    run = Rescored(submission, net, script, targets)
    right = rounds(copy.deepcopy(net), Scripted(script), targets)
    expect_rescored(run, right, {}, targets)
    net = layers(draw)
    run = Rescored(submission, net, [], [])
    if not all(mask.all() for mask in run.masks.values()) or run.score.seen:
        fail("for an empty list of targets, score must not be called and all masks must be True")
    net = layers(draw)
    script = [drawn_scores(draw, net)]
    run = Rescored(submission, net, script, [1.0])
    if any(mask.any() for mask in run.masks.values()):
        fail("a target of 1 must prune every weight")


# --- 2.5 ---

LAST_POSITION = "only the last position was used: take the norm over all samples and positions"
ONE_SAMPLE = "only the first sample was used: take the norm over all samples and positions"
POSITIONS_MEANT = "positions were averaged before the norm: square each position first"
WRONG["input_aware_mask"] = {
    LAST_POSITION: lambda w, x, s: reference.input_aware_mask(
        w, x[..., -1, :] if x.ndim > 2 else x, s
    ),
    ONE_SAMPLE: lambda w, x, s: reference.input_aware_mask(w, x[0] if x.ndim > 2 else x, s),
    POSITIONS_MEANT: lambda w, x, s: reference.input_aware_mask(
        w, x.mean(1) if x.ndim > 2 else x, s
    ),
}


@question("2.5", points=1, claim="texts (B, L, in), a single input (in,), ties, all and none")
def test_input_aware_any_shape(submission: Submission, draw: Draw) -> None:
    w, sizes = draw.normal(5, 8), draw.sizes(8, 0.2, 5.0).float()
    x = (
        draw.normal(3, 4, 8)
        * sizes
        * draw.sizes(4, 0.2, 5.0).float()[:, None]
        * draw.sizes(3, 0.2, 5.0).float()[:, None, None]
    )
    seen = {
        said: SEEN["input_aware_mask"][said] for said in (MEAN, L1_NORM, SQUARED_NORM, MAGNITUDE)
    }
    expect_row_mask(
        submission,
        w,
        x,
        0.5,
        apply_each(WRONG["input_aware_mask"] | seen, w, x, 0.5),
        "for x (B, L, in): ",
    )
    expect_row_mask(submission, w, draw.normal(8), 0.4, {}, "for x (in,): ")
    expect_row_mask(submission, draw.tied(5, 8), torch.ones(2, 8), 0.4, {}, "with ties: ")
    huge = 1e25 * draw.normal(6, 8) * sizes
    expect_row_mask(submission, w, huge, 0.4, {}, "for inputs whose squares overflow in float32: ")
    for sparsity in (0.0, 1.0):
        expect_row_mask(submission, w, x, sparsity, {}, f"for sparsity {sparsity:g}: ")


# --- 2.6, 2.7 ---

FIRST_T = "one threshold was used for all entries: t may be a tensor with one threshold per entry"
WRONG["soft_threshold"] = {
    FIRST_T: lambda w, t: reference.soft_threshold(
        w, t.flatten()[0] if isinstance(t, Tensor) else t
    ),
}


@question("2.6", points=0.5, claim="one threshold per entry, any shape, |w| = t, double precision")
def test_soft_threshold_any(submission: Submission, draw: Draw) -> None:
    w = draw.normal(3, 2, 2, 2, dtype=torch.float64)
    t = draw.sizes(w.numel(), 0.2, 1.5).view(w.shape)
    t[0, 0, 0, 0] = w[0, 0, 0, 0].abs()  # exactly at the threshold
    w[1] = 0
    expect_soft(
        submission, w, t, apply_each(WRONG["soft_threshold"] | SEEN["soft_threshold"], w, t)
    )
    expect_soft(submission, w, 0.0, {})


# --- 2.8 ---


@question("2.8", points=0.5, claim="a: why pruning in the order of the forecasts destroys the net")
def test_why(submission: Submission, draw: Draw) -> None:
    expect_choice(
        submission,
        "answer_2_8a",
        4,
        {
            1: "the experiment of part A also prunes small weights, and for small weights the forecast is right",
            2: "the accuracy drop is as large on the training images, and a random order, measured on the same images, keeps a higher accuracy",
            3: "forecasts are real numbers, and two of them are hardly ever equal",
        },
    )


@question("2.8", points=0.5, claim="b: what the intervals permit")
def test_what_intervals_permit(submission: Submission, draw: Draw) -> None:
    misread = {
        0: "an interval that contains 0 also contains a gain of 10 points. Does it show that they are equal?",
        1: "look at the sign of the difference on MNIST",
        2: "the two intervals overlap, and the two data sets were not compared in pairs",
    }
    expect_choice(submission, "answer_2_8b", 4, misread)


# --- 2.9 ---


@question("2.9", points=0.5, claim="right versions pass, and six wrong ones are found")
def test_hunt_more(submission: Submission, draw: Draw) -> None:
    wrong = of_table(PAST_ZERO, HARD, SIGN_LOST, NEGATIVE_GONE, INVERTED)
    wrong |= {
        "uses the first threshold for all entries": WRONG["soft_threshold"][FIRST_T],
        "rounds to whole multiples of t": _rounds,
    }
    right = RIGHT | {"one that loops": _loop}
    expect_verdicts(submission, draw, "soft_threshold", right, wrong, PROMISE)


def _rounds(w: Tensor, t: Any) -> Tensor:
    """|w| down to a whole number of t."""
    t = torch.as_tensor(t, dtype=w.dtype).expand(w.shape)
    return torch.where(t > 0, (w / t.clamp(min=1e-9)).trunc() * t, w)


def _loop(w: Tensor, t: Any) -> Tensor:
    thresholds = torch.as_tensor(t, dtype=w.dtype).expand(w.shape).flatten().tolist()
    values = [
        max(abs(v) - s, 0.0) * (1 if v > 0 else -1)
        for v, s in zip(w.flatten().tolist(), thresholds, strict=True)
    ]
    return torch.tensor(values, dtype=w.dtype).view(w.shape)
