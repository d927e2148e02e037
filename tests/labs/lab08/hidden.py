"""Lab 08: the claims that only the grader sees."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from course_lib.grading import (
    Draw,
    Submission,
    expect_close,
    expect_equal,
    expect_gradient,
    expect_number,
    expect_raises,
    expect_tensor,
    fail,
    question,
    unchanged,
)
from course_lib.grading.claims.hunt import expect_verdicts
from course_lib.grading.claims.typed import expect_choice
from course_lib.labs import lab08 as reference

from .visible import (
    EVERY_KEY,
    LAST_OF_EQUAL,
    PADDED_QUERIES,
    PROMISE,
    RIGHT,
    TRANSPOSED,
    GateCase,
    GateRun,
    arcs,
    as_places,
    curve_of,
    disabling,
    expect_baseline,
    expect_classes,
    expect_formula,
    expect_frozen,
    expect_kinds,
    expect_run,
    freezing,
    kinds_of,
    log_alphas,
    noise,
    of_table,
    pointing,
    rare_case,
    two_maps,
)

# --- 8.1 gates ------------------------------------------------------------------------


@question(
    "8.1",
    points=1,
    claim="all three are differentiable with respect to log_alpha, also where nothing is clipped",
)
def test_gradients(submission: Submission, draw: Draw) -> None:
    alpha, u = log_alphas(draw, 6, dtype=torch.float64), noise(draw, 6, dtype=torch.float64)
    for name, extra in (("sample_gate", (u,)), ("expected_l0", ()), ("gate_at_test", ())):
        own = alpha.clone().requires_grad_()
        (right,) = torch.autograd.grad(getattr(reference, name)(own, *extra).sum(), own)
        given = submission.put(alpha, requires_grad=True)
        out = submission.call(name, given, *extra, keep=True)
        lost = f"no gradient comes back through {name}. Do not use .data, .detach(), .item(), numpy or comparisons"
        found = expect_gradient(submission, out, given, torch.ones_like(alpha), lost)
        expect_close(found, right, f"the gradient of {name}")


@question(
    "8.1",
    points=1,
    claim="other constants, shapes and dtypes; the share of zeros matches expected_l0",
)
def test_other_gates(submission: Submission, draw: Draw) -> None:
    beta, gamma, zeta = draw.number(0.3, 0.9), draw.number(-0.4, -0.2), draw.number(1.2, 1.5)
    for shape in ((), (2, 3), (2, 1, 4)):
        for dtype in (torch.float32, torch.float64):
            alpha, u = log_alphas(draw, *shape, dtype=dtype), noise(draw, *shape, dtype=dtype)
            for name, given in (
                ("sample_gate", (alpha, u, beta, gamma, zeta)),
                ("expected_l0", (alpha, beta, gamma, zeta)),
                ("gate_at_test", (alpha, gamma, zeta)),
            ):
                expect_formula(submission, name, lambda given=given: given, name_mistakes=False)  # type: ignore[misc]
    alpha = torch.full((50_000,), draw.number(-1, 1))
    u = torch.rand(50_000, generator=draw.generator).clamp(1e-6, 1 - 1e-6)
    zeros = float((submission.sample_gate(alpha, u) == 0).double().mean())
    expected = float(submission.expected_l0(alpha[:1])[0])
    if abs(zeros - (1 - expected)) > 0.02:
        fail(
            f"at log α = {float(alpha[0]):.2f} {zeros:.1%} of the samples are exactly 0, but {1 - expected:.1%} are expected from expected_l0"
        )


# --- 8.2 train_with_gates -------------------------------------------------------------


@question(
    "8.2",
    points=0.5,
    claim="a stream of batches; training mode during training and the old mode after it; an empty list for no batch",
)
def test_streams_and_modes(submission: Submission, draw: Draw) -> None:
    for mode in (False, True):
        case = GateCase(draw, 3)
        run = GateRun(submission, case, stream=True, training=mode)
        if not all(entry["training"] for entry in run.log):
            fail("the model was not in training mode during training. Call model.train()")
        if submission.get(run.model, "training") is not mode:
            fail(
                f"the model was in {'training' if mode else 'evaluation'} mode before the call, but is in the other mode afterwards. Restore its mode"
            )
        expect_run(run, case, name_mistakes=False)
    run = GateRun(submission, GateCase(draw, 0))
    if len(run.said):
        fail("without a batch the list should be empty")


@question(
    "8.2", points=0.5, claim="penalties of 0 and of more than the loss, gates of other shapes"
)
def test_prices(submission: Submission, draw: Draw) -> None:
    for lam, shape in ((0.0, (2, 3)), (5.0, (4, 2)), (0.3, (3,))):
        case = GateCase(draw, 3, shape, lam)
        expect_run(GateRun(submission, case), case, name_mistakes=False)


@question("8.2", points=0.5, claim="the given optimizer trains the model's weights, too")
def test_weights_learn(submission: Submission, draw: Draw) -> None:
    case = GateCase(draw, 4)
    run = GateRun(submission, case)
    right = case.follow()
    for name in right:
        if name.startswith("weight"):
            expect_close(
                run.found[name], right[name], f"after four steps the {name}", tolerance=1e-4
            )


# --- 8.3 roles ------------------------------------------------------------------------


@question(
    "8.3",
    points=1,
    claim="points_to: one head, one sentence, masks inside, other dtypes; the attention is not changed; without a target that is real it raises",
)
def test_pointing_at_the_edges(submission: Submission, draw: Draw) -> None:
    for B, M, L in ((1, 1, 3), (6, 2, 5), (2, 4, 9)):
        attn, target, mask = pointing(draw, B, M, L)
        for dtype in (torch.float64, torch.float32):
            value, (after,) = submission.call(
                "points_to", attn.to(dtype), target, mask, returning=(0,)
            )
            value = expect_tensor(value, shape=(M,), what="points_to(…)")
            right = reference.points_to(attn.to(dtype), target, mask)
            expect_close(value.double(), right, f"points_to of {B} sentences, {M} heads")
            unchanged(attn.to(dtype), after, "the attention")
    zero = torch.zeros(1, 1, 3, 3)
    mask = torch.tensor([[False, True, True]])
    found = submission.points_to(zero, torch.tensor([[-1, 1, 1]]), mask)
    expect_close(
        found.double(),
        torch.ones(1, dtype=torch.float64),
        "where all attention is 0, of which the lowest real key is the first,",
    )
    expect_raises(
        ValueError,
        lambda: submission.points_to(zero, torch.full((1, 3), -1), mask),
        "no query has a target",
    )
    expect_raises(
        ValueError,
        lambda: submission.points_to(zero, torch.tensor([[-1, 0, 1]]), mask),
        "a target is no real token",
    )


@question(
    "8.3",
    points=0.5,
    claim="rarest: counts that are floats, sentences without a real token, of one word",
)
def test_rarest_at_the_edges(submission: Submission, draw: Draw) -> None:
    tokens, counts, mask = rare_case(draw, 4, 6)
    mask[1] = False
    given = tokens, counts.double() / 7, mask
    expect_equal(
        as_places(submission.rarest(*given), tokens.shape),
        reference.rarest(*given),
        "rarest of float counts",
    )
    one = torch.tensor([[3]]), counts, torch.tensor([[True]])
    expect_equal(
        as_places(submission.rarest(*one), (1, 1)), torch.tensor([[0]]), "the rarest of one word"
    )


@question(
    "8.3",
    points=0.5,
    claim="arc_baseline: ties go to the smaller distance, then to the negative one; no other target raises",
)
def test_baseline_at_the_edges(submission: Submission, draw: Draw) -> None:
    mask = torch.ones(1, 6, dtype=torch.bool)
    for target, why in (
        ([[1, 0, -1, -1, -1, -1]], "+1 and −1 once each"),
        ([[2, -1, 3, -1, -1, -1]], "+2 and +1 once each"),
        ([[0, 1, 0, -1, -1, -1]], "two words that target themselves, and one at −2"),
    ):
        given = torch.tensor(target), mask
        right = reference.arc_baseline(*given)
        expect_baseline(submission.arc_baseline(*given), right, f"for {why}, ")
    for _ in range(4):
        given = arcs(draw)
        expect_baseline(submission.arc_baseline(*given), reference.arc_baseline(*given))
    expect_raises(
        ValueError,
        lambda: submission.arc_baseline(torch.tensor([[0, 1, -1, -1, -1, -1]]), mask),
        "every word targets itself",
    )


# --- 8.4 patterns ---------------------------------------------------------------------


@question(
    "8.4",
    points=0.5,
    claim="attention_pattern: without segments or with one, maps of one and two words",
)
def test_classes_at_the_edges(submission: Submission, draw: Draw) -> None:
    expect_classes(submission, draw, 24)
    plain = torch.zeros(4, dtype=torch.bool)
    block = torch.block_diag(torch.full((2, 2), 0.5), torch.full((2, 2), 0.5))
    block = block * torch.tensor([0.2]) + torch.eye(4) * 0.8
    for attn, special, segment in (
        (block, plain, torch.tensor([0, 0, 1, 1])),
        (block, plain, torch.tensor([0, 0, 0, 0])),
        (block, plain, None),
        (torch.ones(1, 1), torch.tensor([True]), None),
        (torch.ones(1, 1), torch.tensor([False]), torch.tensor([0])),
        (draw.normal(2, 2).softmax(-1), torch.tensor([True, False]), None),
    ):
        right = reference.attention_pattern(attn, special, segment, 0.5)
        expect_equal(
            submission.attention_pattern(attn, special, segment, 0.5),
            right,
            f"the class of a map of {len(attn)}",
        )


@question(
    "8.4",
    points=0.5,
    claim="disable: no head off, all heads off, float64; values at padding have no effect; no argument is changed",
)
def test_disable_at_the_edges(submission: Submission, draw: Draw) -> None:
    for how in (False, True):
        context, values, mask, off = disabling(draw, 2, 5, 3, 2)
        values[~mask] = math.nan
        off[:] = how
        given = context.double(), values.double(), mask, off
        value, (after, values_after) = submission.call("disable", *given, returning=(0, 1))
        value = expect_tensor(value, shape=context.shape, what="disable(…)")
        if not value.isfinite().all():
            fail(
                "the values at padded positions changed the mean. Do not multiply them by 0, because NaN · 0 is NaN"
            )
        expect_close(value, reference.disable(*given), f"with {'all' if how else 'no'} heads off")
        unchanged(given[0], after, "the contexts")
        unchanged(given[1], values_after, "the values")


@question("8.4", points=0.5, claim="attention_change: equal maps, one sentence, one head")
def test_change_at_the_edges(submission: Submission, draw: Draw) -> None:
    for shape in ((1, 1, 2), (4, 2, 8)):
        before, after, mask = two_maps(draw, *shape)
        for one, other in ((before, before), (before, after), (before.double(), after.double())):
            value = expect_tensor(
                submission.attention_change(one, other, mask),
                shape=(shape[0],),
                what="attention_change(…)",
            )
            expect_close(value.double(), reference.attention_change(one, other, mask), "the change")


# --- 8.5 fixed patterns ---------------------------------------------------------------


@question("8.5", points=0.5, claim="fixed_patterns of one, two and many words")
def test_patterns_of_any_length(submission: Submission, draw: Draw) -> None:
    for n in (1, 2, 3, 40):
        value = expect_tensor(
            submission.fixed_patterns(n),
            shape=(7, n, n),
            dtype=torch.float32,
            what=f"fixed_patterns({n})",
        )
        expect_close(value, reference.fixed_patterns(n), f"the patterns of {n} words")


@question(
    "8.5",
    points=0.5,
    claim="frozen_attention: two heads and eight, sentences as long as the batch, float64, the learned map as it was",
)
def test_frozen_at_the_edges(submission: Submission, draw: Draw) -> None:
    for B, M, L in ((2, 2, 4), (1, 8, 6), (3, 1, 5)):
        learned, lengths = freezing(draw, B, M, L)
        lengths[0] = L
        for given in ((learned, lengths), (learned.double(), lengths)):
            expect_frozen(submission, given, f"with {M} heads")


# --- 8.6 by kind ----------------------------------------------------------------------


@question(
    "8.6",
    points=0.5,
    claim='prune_by_kind: "all", none, every head, +inf, kinds of other shapes; the scores are not changed',
)
def test_kinds_at_the_edges(submission: Submission, draw: Draw) -> None:
    for fraction in (0.0, 0.35, 0.5, 1.0):
        for kind in ("all", "cross", "encoder"):
            given = kinds_of(draw), kind, fraction
            expect_kinds(submission, given, reference.prune_by_kind(*given), {})
    odd: dict[str, Tensor] = {
        "encoder": torch.tensor([[math.inf, 1.0, math.nan]]),
        "decoder": torch.tensor([[1.0, 1.0], [0.0, math.inf]]),
        "cross": torch.full((1, 2), math.nan),
    }
    for kind in ("all", "encoder", "decoder", "cross"):
        given = odd, kind, 0.5
        expect_kinds(submission, given, reference.prune_by_kind(*given), {})
    _, (after,) = submission.call("prune_by_kind", odd, "all", 0.5, returning=(0,))
    unchanged(odd, after, "the scores")


@question(
    "8.6",
    points=0.5,
    claim="prunable_share: exactly the tolerance below, a curve of one point, a curve that falls at once",
)
def test_shares_at_the_edges(submission: Submission, draw: Draw) -> None:
    for curve, tolerance in (
        ([(0, 80.0)], 0.1),
        ([(0.0, 64.0), (0.5, 48.0), (1.0, 47.0)], 0.25),
        ([(0.0, 80.0), (0.1, 10.0), (0.2, 79.0)], 0.1),
        ([(0.0, 80.0), (0.3, 80.0), (1, 90.0)], 0.0),
        curve_of(draw),
    ):
        value = expect_number(submission.prunable_share(curve, tolerance), "prunable_share(…)")
        right = reference.prunable_share(curve, tolerance)
        expect_close(
            torch.tensor(value),
            torch.tensor(right),
            f"of {curve}, tolerance {tolerance:g}, the share",
        )


# --- 8.7, 8.8 -------------------------------------------------------------------------


@question("8.7", points=0.5, claim="a: the conclusion from the gates and their two controls")
def test_what_the_controls_say(submission: Submission, draw: Draw) -> None:
    expect_choice(
        submission,
        "answer_8_7a",
        4,
        {
            0: "then applying the mask of the open gates to the checkpoint without training would cost nothing",
            2: "then random heads would be no better with training than without training",
            3: "look at the row of 8.6 in which all of the encoder's heads are removed",
        },
    )


@question("8.7", points=0.5, claim="b: what the intervals permit")
def test_what_intervals_permit(submission: Submission, draw: Draw) -> None:
    misread = {
        0: "one run has no interval: it is an example",
        2: "the two intervals overlap, and the two differences were not compared in pairs",
        3: "three checkpoints of one small network were measured. What do the intervals say of others?",
    }
    expect_choice(submission, "answer_8_7b", 4, misread)


@question(
    "8.8", points=0.5, claim="four more wrong versions are found, and no right version is accused"
)
def test_hunt_more(submission: Submission, draw: Draw) -> None:
    wrong = of_table(EVERY_KEY, TRANSPOSED, LAST_OF_EQUAL, PADDED_QUERIES)
    expect_verdicts(submission, draw, "points_to", RIGHT, wrong, PROMISE)
