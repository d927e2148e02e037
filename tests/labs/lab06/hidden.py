"""Lab 06: the claims that only the grader sees."""

from __future__ import annotations

import torch
from torch import Tensor

from course_lib.grading import (
    Draw,
    Submission,
    expect_close,
    expect_equal,
    expect_gradient,
    fail,
    question,
)
from course_lib.grading.claims.hunt import expect_verdicts
from course_lib.grading.claims.mistakes import near, recognise
from course_lib.grading.claims.typed import expect_choice
from course_lib.labs import lab06 as reference

from .visible import (
    ABOVE_HALF,
    ARGUMENTS,
    FIRST_K,
    FORGOTTEN,
    NOTHING_GONE,
    PROMISE,
    REVERSED,
    RIGHT,
    TWICE,
    Run,
    apply_top,
    as_compact,
    as_counts,
    as_regimes,
    expect_dual,
    expect_factors,
    expect_movement,
    expect_proximal,
    expect_straight_through,
    expect_top,
    layers,
    of_table,
    small_product,
)


@question(
    "6.1",
    points=0.5,
    claim="pruned weights stay +0.0, also after a NaN gradient and with momentum",
)
def test_held_whatever_happens(submission: Submission, draw: Draw) -> None:
    run = Run(submission, draw, True, optimizer="adamw", settings={"lr": 0.1}, poison="2.weight")
    for state in (*run.steps, run.after):
        if not run.zeros(state):
            fail(
                "a pruned weight is not 0 after a step in which its gradient was NaN. Assign 0 instead of multiplying: NaN · 0 is NaN"
            )
    before = run.log[0]["before"]
    for name, mask in run.masks.items():
        if bool(torch.signbit(before[name][~mask]).any()):
            fail("a pruned weight is −0.0. Assign 0 instead of multiplying by the mask")
    if run.mode is not True:
        fail("the model is in another mode (train or eval) than before the call. Restore its mode")


@question(
    "6.2",
    points=0.5,
    claim="a value exactly the tolerance below counts as equal; empty lists give an empty list",
)
def test_regime_at_the_edges(submission: Submission, draw: Draw) -> None:
    dense = float(draw.integer(80, 95))
    given = (
        dense,
        [dense - 2, dense + 8, dense - 8, dense - 8, dense - 2.5],
        [dense, dense, dense - 6, dense - 5.5, dense - 9],
        2.0,
    )
    value = as_regimes(submission.regime(*given), 5)
    for h, d, said, name in zip(given[1], given[2], value, reference.regime(*given), strict=True):
        if said != name:
            fail(
                f"dense {dense:g}, held {h:g}, deleted {d:g}, tolerance 2: the regime is {name!r}, not {said!r} (a value exactly the tolerance below is equal)"
            )
    expect_equal(submission.regime(dense, [], [], 0.0), [], "the regimes of no sparsity")
    expect_equal(
        submission.regime(dense, [dense], [dense], 0.0),
        ["free"],
        "the regime of a model as good as the dense one, tolerance 0",
    )


@question(
    "6.3",
    points=1,
    claim="none, all, half a weight, ties; other shapes and dtypes; the scores are not changed",
)
def test_top_at_the_edges(submission: Submission, draw: Draw) -> None:
    equal = torch.full((4, 6), draw.number(-2, 2))  # ties alone: drawn ones may fall otherwise
    _, _, value = apply_top(submission, equal, 0.4)
    expect_top(value, equal, 0.4, {})
    for shape, keep, dtype in (
        ((3, 4), 0.0, torch.float32),
        ((3, 4), 1.0, torch.float32),
        ((7,), 0.5, torch.float64),
        ((2, 3, 5), 0.77, torch.float32),
        ((5, 1), 0.49, torch.float64),
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


@question("6.4", points=0.5, claim="one step, many steps, half precision")
def test_movement_at_the_edges(submission: Submission, draw: Draw) -> None:
    expect_movement(submission, draw, 1, 4)
    expect_movement(submission, draw, 40, 2, 3)
    expect_movement(submission, draw, 6, 3, 3, dtype=torch.float16)


@question(
    "6.4",
    points=0.5,
    claim="zero before or after is no flip; if nothing is kept, nothing is counted",
)
def test_quadrants_at_the_edges(submission: Submission, draw: Draw) -> None:
    before = torch.tensor([0.0, 0.0, 2.0, -2.0, 1.0, -1.0])
    after = torch.tensor([1.0, 0.0, 0.0, 2.0, -3.0, -1.0])
    kept = torch.tensor([True, True, True, True, True, True])
    value = as_counts(submission.quadrants(before, after, kept))
    expect_equal(
        value,
        reference.quadrants(before, after, kept),
        f"the counts for {before.tolist()} -> {after.tolist()}",
    )
    none = as_counts(submission.quadrants(before, after, ~kept))
    expect_equal(none, {"toward": 0, "away": 0, "flipped": 0}, "the counts where nothing is kept")


@question("6.5", points=0.5, claim="soft_mask's gradient is unchanged; exactly tau is not kept")
def test_soft_mask_gradient(submission: Submission, draw: Draw) -> None:
    expect_straight_through(submission, draw)
    at_tau = submission.soft_mask(torch.zeros(2, 2), 0.5)
    expect_equal(at_tau, torch.zeros(2, 2), message="σ(0) = ½ is not above tau = ½. Use >, not ≥")


@question("6.5", points=0.5, claim="soft_penalty has a gradient, through σ and not through a mask")
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
    "6.6", points=1, claim="a constant rate and a changing rate; each param has its own α; float64"
)
def test_scheduled(submission: Submission, draw: Draw) -> None:
    expect_proximal(submission, draw, 5, 2, False)
    expect_proximal(submission, draw, 6, 3, True)
    expect_proximal(submission, draw, 4, 1, False, dtype=torch.float64)


@question("6.7", points=0.5, claim="factorise: wide and tall matrices, one component and all")
def test_factors_of_other_shapes(submission: Submission, draw: Draw) -> None:
    for shape, rank, dtype in (
        ((3, 8), 3, torch.float32),
        ((8, 3), 1, torch.float32),
        ((5, 7), 4, torch.float64),
    ):
        w = draw.normal(*shape, dtype=dtype)
        expect_factors(submission, w, rank, {})


@question(
    "6.7", points=0.5, claim="compact: none open, one, all, gates above 1, components in order"
)
def test_compact_at_the_edges(submission: Submission, draw: Draw) -> None:
    for z in (
        torch.zeros(4),
        torch.ones(4),
        torch.tensor([0.0, 1.6, 0.01, 0.0]),
        torch.tensor([0.0, 0.0, 0.7, 0.0]),
    ):
        P, Q = draw.normal(3, 4), draw.normal(4, 5)
        p, q = as_compact(submission.compact(P, z, Q), P, Q)
        value, right = small_product((p, q)), small_product(reference.compact(P, z, Q))
        recognise(value, right, {}, equal=near)
        expect_equal(
            int(value["count"]),
            int(right["count"]),
            f"the number of components for z = {z.tolist()}",
        )
        expect_close(value["product"], right["product"], f"P'·Q' for z = {z.tolist()}")
        for k, component in enumerate((z != 0).nonzero().flatten().tolist()):
            one: Tensor = z[component] * P[:, [component]] @ Q[[component]]
            if not near(p[:, [k]] @ q[[k]], one, tolerance=1e-4):
                fail(
                    f"component {k} of the small layer is not open component number {k + 1} of the large layer. Keep the components in order"
                )


@question("6.8", points=0.5, claim="size_left is differentiable, and can exceed 1")
def test_size_gradient(submission: Submission, draw: Draw) -> None:
    p_open, shapes = layers(draw)
    given = [submission.put(p, requires_grad=True) for p in p_open]
    out = submission.call("size_left", given, shapes, keep=True)
    lost = "size_left has no gradient with respect to the probabilities. Do not use .item(), .detach() or float() on the way"
    total = sum(o * i for o, i in shapes)
    found = [
        expect_gradient(submission, out, given[0], None, lost),
        *(submission.grad(p) for p in given[1:]),
    ]
    for g, p, (o, i) in zip(found, p_open, shapes, strict=True):
        if g is None:
            fail(lost)
        expect_close(g, torch.full_like(p, (o + i) / total), "the gradient of size_left")
    square = [(6, 6)]
    expect_close(
        submission.size_left([torch.ones(6)], square),
        torch.tensor(2.0),
        "the size of a square layer with all components",
    )


@question(
    "6.8",
    points=0.5,
    claim="the Lagrangian's gradient with respect to the size; both multipliers from both sides",
)
def test_lagrangian_from_both_sides(submission: Submission, draw: Draw) -> None:
    size = torch.tensor(draw.number(0.5, 0.9))
    given = submission.put(size, requires_grad=True)
    out = submission.call("lagrangian", given, 0.3, 0.4, 0.7, keep=True)
    found = expect_gradient(
        submission,
        out,
        given,
        None,
        "the Lagrangian has no gradient with respect to the size. Is it detached?",
    )
    expect_close(found, 0.4 + 2 * 0.7 * (size - 0.3), "the gradient with respect to the size")
    expect_dual(submission, draw, draw.number(0.01, 0.1), draw.number(0.4, 0.6))
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


@question("6.10", points=0.5, claim="right versions pass, and six wrong ones are found")
def test_hunt_more(submission: Submission, draw: Draw) -> None:
    wrong = of_table(FORGOTTEN, NOTHING_GONE, TWICE, ABOVE_HALF, FIRST_K, REVERSED)
    expect_verdicts(submission, draw, "compact", RIGHT, wrong, PROMISE)
