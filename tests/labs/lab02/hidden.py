"""Lab 02: the claims that only the grader sees."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from course_claims_lab02.visible import (
    HINT,
    L1_NORM,
    MAGNITUDE,
    MEAN,
    SQUARED_NORM,
    Looked,
    close,
    expect_near,
    expect_row_mask,
    expect_second_order,
    expect_soft,
    fill,
    moment,
    removed_from,
    samples,
    scores_of,
    small_net,
    softmax_of,
)
from course_claims_lab02.visible import WRONG as SEEN
from torch import Tensor, nn
from torch.nn import functional as F

from course_lib.grading import Draw, Submission, question, unchanged
from course_lib.grading.claims.mistakes import apply_each, draw_case, recognise
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


WRONG: dict[str, dict[str, Callable[..., Any]]] = {
    "mean_squared_gradients": {HESSIAN: lambda m, x, q: _hessian(m, x)}
}


@question("2.2", points=1, claim="a smooth network, frozen layers, classes with q = 0")
def test_squared_gradients_of_a_smooth_net(submission: Submission, draw: Draw) -> None:
    net = small_net(draw, nn.Tanh, classes=4)
    x, _ = samples(draw, net, draw.integer(5, 8))
    for q in (softmax_of(net, x), draw.mask(len(x), 4, kept=0.6).float()):
        value = Looked(submission, "mean_squared_gradients", net, x, q, frozen="0.weight").value
        right = reference.mean_squared_gradients(net, x, q)
        wrong = WRONG["mean_squared_gradients"] | SEEN["mean_squared_gradients"]
        recognise(value, right, apply_each(wrong, net, x, q), equal=close)
        for name, r in right.items():
            expect_near(value[name], r, repr(name), HINT)


@question("2.2", points=1, claim="any number of samples, batch norm, double precision")
def test_squared_gradients_of_any_model(submission: Submission, draw: Draw) -> None:
    net = nn.Sequential(
        nn.Conv2d(1, 3, 2), nn.BatchNorm2d(3), nn.Tanh(), nn.Flatten(), nn.Linear(12, 4)
    ).double()
    fill(net, draw)
    net[1].running_mean.copy_(draw.normal(3))
    net[1].running_var.copy_(draw.sizes(3, 0.5, 2.0))
    x = draw.normal(draw.integer(18, 23), 1, 3, 3, dtype=torch.float64)
    for q in (F.one_hot(draw.labels(len(x), 4), 4).double(), softmax_of(net, x)):
        value = Looked(submission, "mean_squared_gradients", net, x, q).value
        for name, r in reference.mean_squared_gradients(net, x, q).items():
            expect_near(
                value[name],
                r,
                f"{name!r} of a net with batch norm, {len(x)} samples",
                "in evaluation mode the samples are independent: chunks and their order must make no difference",
            )


# --- 2.3 ---

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


@question("2.3", points=1, claim="texts (B, L, in), a single input (in,), all and none")
def test_input_aware_any_shape(submission: Submission, draw: Draw) -> None:
    def texts() -> tuple[Tensor, Tensor, float]:
        w, sizes = draw.normal(5, 8), draw.sizes(8, 0.2, 5.0).float()
        x = (
            draw.normal(3, 4, 8)
            * sizes
            * draw.sizes(4, 0.2, 5.0).float()[:, None]
            * draw.sizes(3, 0.2, 5.0).float()[:, None, None]
        )
        return w, x, 0.5

    said = (MEAN, L1_NORM, SQUARED_NORM, MAGNITUDE)
    wrong = WRONG["input_aware_mask"] | {s: SEEN["input_aware_mask"][s] for s in said}
    (w, x, s), _, mistakes = draw_case(texts, reference.input_aware_mask, wrong)
    expect_row_mask(submission, w, x, s, mistakes, "for x (B, L, in): ")
    expect_row_mask(submission, w, draw.normal(8), 0.4, {}, "for x (in,): ")
    for sparsity in (0.0, 1.0):
        expect_row_mask(submission, w, x, sparsity, {}, f"for sparsity {sparsity:g}: ")


# --- 2.4 ---


@question("2.4", points=1, claim="a diagonal M, every j; one weight is left to repair")
def test_obs_of_other_matrices(submission: Submission, draw: Draw) -> None:
    for size, diagonal in ((draw.integer(3, 5), True), (2, False), (draw.integer(8, 12), False)):
        row, M = draw.normal(size, dtype=torch.float64), moment(draw, size, diagonal)
        expect_near(
            submission.obs_scores(row, M),
            scores_of(row, M),
            f"obs_scores of {size} weights",
            "w_j² / [M⁻¹]_jj",
        )
        for j in range(size):
            new, (after,) = submission.call("obs_remove", row, M, j, returning=(0,))
            unchanged(row, after, "the row")
            right = removed_from(row, M, j)
            expect_near(new, right, f"obs_remove of weight {j} of {size}", "column j of M⁻¹")


# --- 2.5 ---

FIRST_T = "one threshold was used for all entries: t may be a tensor with one threshold per entry"
WRONG["soft_threshold"] = {
    FIRST_T: lambda w, t: reference.soft_threshold(
        w, t.flatten()[0] if isinstance(t, Tensor) else t
    ),
}


@question("2.5", points=0.5, claim="one threshold per entry, any shape, |w| = t, double precision")
def test_soft_threshold_any(submission: Submission, draw: Draw) -> None:
    w = draw.normal(3, 2, 2, 2, dtype=torch.float64)
    t = draw.sizes(w.numel(), 0.2, 1.5).view(w.shape)
    t[0, 0, 0, 0] = w[0, 0, 0, 0].abs()  # exactly at the threshold
    w[1] = 0
    expect_soft(
        submission, w, t, apply_each(WRONG["soft_threshold"] | SEEN["soft_threshold"], w, t)
    )
    expect_soft(submission, w, 0.0, {})


# --- 2.6 ---


@question("2.6", points=0.5, claim="a: why pruning in the order of the forecasts destroys the net")
def test_why(submission: Submission, draw: Draw) -> None:
    expect_choice(
        submission,
        "answer_2_6a",
        4,
        {
            1: "the experiment of part A also prunes small weights, and for small weights the forecast is right",
            2: "the accuracy drop is as large on the training images, and a random order, measured on the same images, keeps a higher accuracy",
            3: "equal forecasts are those that are exactly 0, and the loss explodes long before they are reached",
        },
    )


@question("2.6", points=0.5, claim="b: what the intervals permit")
def test_what_intervals_permit(submission: Submission, draw: Draw) -> None:
    misread = {
        0: "an interval that contains 0 also contains a gain of 10 points. Does it show that they are equal?",
        1: "the interval on MNIST contains 0, and its centre is not negative",
        2: "does the interval on MNIST exclude 0?",
    }
    expect_choice(submission, "answer_2_6b", 4, misread)
