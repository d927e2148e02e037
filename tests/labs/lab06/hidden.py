"""Lab 06: the claims that only the grader sees."""

from __future__ import annotations

import torch

from course_lib.grading import (
    Draw,
    Submission,
    expect_close,
    expect_equal,
    expect_gradient,
    fail,
    question,
)
from course_lib.grading.claims.typed import expect_choice
from course_lib.labs import lab06 as reference

from .visible import (
    ARGUMENTS,
    Run,
    apply_top,
    constants,
    expect_factors,
    expect_gates,
    expect_movement,
    expect_proximal,
    expect_top,
    log_alphas,
    noise,
    separated,
)


@question(
    "6.1",
    points=0.5,
    claim="pruned weights stay 0 also with momentum and after a NaN gradient; the mode is kept",
)
def test_held_whatever_happens(submission: Submission, draw: Draw) -> None:
    run = Run(submission, draw, True, optimizer="adamw", settings={"lr": 0.1}, poison="2.weight")
    run.expect_held()
    if run.mode is not True:
        fail("the model is in another mode (train or eval) than before the call. Restore its mode")


@question(
    "6.2",
    points=0.5,
    claim="none and all; ties; other shapes and dtypes; the scores are not changed",
)
def test_top_at_the_edges(submission: Submission, draw: Draw) -> None:
    for shape, keep, dtype in (  # share · n is a whole number
        ((3, 4), 0.0, torch.float32),
        ((3, 4), 1.0, torch.float32),
        ((192,), 0.5, torch.float64),
        ((4, 6, 16), 13 / 16, torch.float32),
        ((96, 1), 7 / 16, torch.float64),
    ):
        scores = draw.tied(*shape, levels=2).to(dtype)
        given, out, value = apply_top(submission, scores, keep)
        expect_top(value, scores, keep, {})
        g = draw.normal(*shape, dtype=dtype)
        lost = f"no gradient comes back at keep = {keep:g}"
        found = expect_gradient(submission, out, given, g, lost, ARGUMENTS)
        expect_close(found, g, f"the gradient at keep = {keep:g}")
        expect_equal(
            submission.get(given), scores, message="the scores are changed. Work on a copy"
        )


@question("6.3", points=0.5, claim="one step, many steps, half precision")
def test_movement_at_the_edges(submission: Submission, draw: Draw) -> None:
    expect_movement(submission, draw, 1, 4)
    expect_movement(submission, draw, 40, 2, 3)
    expect_movement(submission, draw, 6, 4, 5, dtype=torch.float16)


@question("6.4", points=0.5, claim="soft_penalty has a gradient, through σ and not through a mask")
def test_soft_penalty_gradient(submission: Submission, draw: Draw) -> None:
    scores = [draw.normal(2, 3), draw.normal(4, 5)]
    given = [submission.put(s, requires_grad=True) for s in scores]
    out = submission.call("soft_penalty", given, 1.5, keep=True)
    ours = [s.clone().requires_grad_() for s in scores]
    reference.soft_penalty(ours, 1.5).backward()
    lost = "the penalty has no gradient with respect to the scores. Do not use .item(), .detach() or a mask on the way"
    first = expect_gradient(submission, out, given[0], None, lost)
    expect_close(first, ours[0].grad, "the gradient with respect to the first tensor")
    expect_close(
        submission.grad(given[1]), ours[1].grad, "the gradient with respect to the second tensor"
    )


@question(
    "6.5", points=1, claim="a constant rate and a changing rate; each param has its own α; float64"
)
def test_scheduled(submission: Submission, draw: Draw) -> None:
    expect_proximal(submission, draw, 5, 2, False)
    expect_proximal(submission, draw, 6, 3, True)
    expect_proximal(submission, draw, 4, 1, False, dtype=torch.float64)


@question("6.6", points=1, claim="wide and tall matrices, one component and all, float64")
def test_factors_of_other_shapes(submission: Submission, draw: Draw) -> None:
    expect_factors(submission, separated(draw, 3, 8), 3, {})
    expect_factors(submission, separated(draw, 8, 3), 1, {})
    expect_factors(submission, separated(draw, 5, 7, torch.float64), 4, {})


@question("6.7", points=0.5, claim="other constants, shapes and dtypes")
def test_other_gates(submission: Submission, draw: Draw) -> None:
    beta, gamma, zeta = constants(draw)
    for shape in ((), (2, 3), (2, 1, 4)):
        for dtype in (torch.float32, torch.float64):
            alpha, u = log_alphas(draw, *shape, dtype=dtype), noise(draw, *shape, dtype=dtype)
            for name, given in (
                ("sample_gate", (alpha, u, beta, gamma, zeta)),
                ("expected_l0", (alpha, beta, gamma, zeta)),
                ("gate_at_test", (alpha, gamma, zeta)),
            ):
                expect_gates(submission, name, lambda given=given: given, {})


@question("6.7", points=0.5, claim="all three are differentiable with respect to log_alpha")
def test_gradients_of_gates(submission: Submission, draw: Draw) -> None:
    alpha, u = log_alphas(draw, 12, dtype=torch.float64), noise(draw, 12, dtype=torch.float64)
    for name, extra in (("sample_gate", (u,)), ("expected_l0", ()), ("gate_at_test", ())):
        own = alpha.clone().requires_grad_()
        (right,) = torch.autograd.grad(getattr(reference, name)(own, *extra).sum(), own)
        given = submission.put(alpha, requires_grad=True)
        out = submission.call(name, given, *extra, keep=True)
        lost = f"no gradient comes back through {name}. Do not use .data, .detach(), .item(), numpy or comparisons"
        found = expect_gradient(submission, out, given, torch.ones_like(alpha), lost)
        expect_close(found, right, f"the gradient of {name}")


@question(
    "6.8",
    points=0.5,
    claim="the Lagrangian's gradient with respect to the size; multipliers of a model too large",
)
def test_lagrangian_from_both_sides(submission: Submission, draw: Draw) -> None:
    size = torch.tensor(draw.number(0.5, 0.9))
    given = submission.put(size, requires_grad=True)
    out = submission.call("lagrangian", given, 0.3, 0.4, 0.7, keep=True)
    lost = "the Lagrangian has no gradient with respect to the size. Is it detached?"
    found = expect_gradient(submission, out, given, None, lost)
    expect_close(found, 0.4 + 2 * 0.7 * (size - 0.3), "the gradient with respect to the size")
    over = submission.dual_step(1.5, 1.0, -0.25, 0.5, 0.5)
    expect_close(over, (0.0, 0.625), "λ₁ and λ₂ of a model too large")


@question("6.9", points=0.5, claim="a: why the old task lost accuracy and the new one did not")
def test_why(submission: Submission, draw: Draw) -> None:
    expect_choice(
        submission,
        "answer_6_9a",
        4,
        {
            0: "without the small weights the old task fell by more than 20 points. Could that happen if they contained no knowledge?",
            1: "the pruned weights are held at 0 during fine-tuning",
            3: "the accuracies are measured on validation texts, and none of them is trained on",
        },
    )


@question("6.9", points=0.5, claim="b: what the intervals permit")
def test_what_intervals_permit(submission: Submission, draw: Draw) -> None:
    misread = {
        0: "the interval contains 0, but also a loss of 3 points. Does it show that there is none?",
        1: "one run has no interval: it is an example",
        2: "one run has no interval, so the two cannot be compared",
    }
    expect_choice(submission, "answer_6_9b", 4, misread)
