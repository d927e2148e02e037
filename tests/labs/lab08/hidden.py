"""Lab 08: the claims that only the grader sees."""

from __future__ import annotations

import torch

from course_lib.grading import (
    Draw,
    Submission,
    expect_close,
    expect_equal,
    expect_tensor,
    fail,
    question,
    unchanged,
)
from course_lib.grading.claims.rounding import expect_rounded
from course_lib.grading.claims.typed import expect_choice
from course_lib.labs import lab08 as reference

from .visible import (
    GateCase,
    GateRun,
    arcs,
    as_kinds,
    disabling,
    expect_baseline,
    expect_formula,
    expect_frozen,
    expect_patterns,
    expect_run,
    freezing,
    pointing,
)


@question(
    "8.1",
    points=0.5,
    claim="a stream of batches, λ of 0 and of more than the loss; the mode is restored",
)
def test_streams_and_modes(submission: Submission, draw: Draw) -> None:
    for mode, lam, shape in ((False, 0.0, (3, 2)), (True, 5.0, (7,))):
        case = GateCase(draw, 3, shape, lam)
        run = GateRun(submission, case, stream=True, training=mode)
        if not all(entry["training"] for entry in run.log):
            fail("the model was not in training mode during training. Call model.train()")
        if submission.get(run.model, "training") is not mode:
            fail(
                f"the model was in {'training' if mode else 'evaluation'} mode before the call, but is in the other mode afterwards. Restore its mode"
            )
        expect_run(run, case)


@question(
    "8.2",
    points=1,
    claim="points_to: one head, one sentence, float32; the attention is not changed",
)
def test_pointing_at_the_edges(submission: Submission, draw: Draw) -> None:
    expect_formula(submission, "points_to", lambda: pointing(draw, 6, 2, 5))
    for B, M, L in ((1, 1, 3), (2, 4, 9)):
        attn, target, mask = pointing(draw, B, M, L)
        attn = attn.float()
        value, (after,) = submission.call("points_to", attn, target, mask, returning=(0,))
        value = expect_tensor(value, shape=(M,), dtype=torch.float64, what="points_to(…)")
        right = reference.points_to(attn, target, mask)
        expect_close(value, right, f"points_to of {B} sentences, {M} heads")
        unchanged(attn, after, "the attention")


@question(
    "8.2",
    points=0.5,
    claim="arc_baseline: ties go to the smaller distance, then to the negative one",
)
def test_baseline_at_the_edges(submission: Submission, draw: Draw) -> None:
    mask = torch.ones(1, 6, dtype=torch.bool)
    for target, why in (
        ([[1, 0, -1, -1, -1, -1]], "+1 and −1 once each"),
        ([[2, -1, 3, -1, -1, -1]], "+2 and +1 once each"),
        ([[0, 1, 0, -1, -1, -1]], "two words that target themselves, and one at −2"),
    ):
        given = torch.tensor(target), mask
        expect_baseline(
            submission.arc_baseline(*given), reference.arc_baseline(*given), f"for {why}, "
        )
    given = arcs(draw)
    expect_baseline(submission.arc_baseline(*given), reference.arc_baseline(*given))


@question(
    "8.3", points=0.5, claim="no head off, all heads off, float64; neither argument is changed"
)
def test_disable_at_the_edges(submission: Submission, draw: Draw) -> None:
    for how in (False, True):
        context, values, mask, off = disabling(draw, 2, 5, 3, 4)
        off[:] = how
        given = context.double(), values.double(), mask, off
        value, (after, values_after) = submission.call("disable", *given, returning=(0, 1))
        value = expect_tensor(value, shape=context.shape, what="disable(…)")
        expect_close(value, reference.disable(*given), f"with {'all' if how else 'no'} heads off")
        unchanged(given[0], after, "the contexts")
        unchanged(given[1], values_after, "the values")


@question("8.4", points=0.5, claim="fixed_patterns of one, two and many words")
def test_patterns_of_any_length(submission: Submission, draw: Draw) -> None:
    for n in (1, 2, 3, 40):
        expect_patterns(submission, n)


@question(
    "8.4",
    points=0.5,
    claim="frozen_attention: one head to eight, sentences as long as the batch, float64",
)
def test_frozen_at_the_edges(submission: Submission, draw: Draw) -> None:
    for B, M, L in ((2, 2, 4), (1, 8, 6), (3, 1, 5)):
        learned, lengths = freezing(draw, B, M, L)
        lengths[0] = L
        expect_frozen(submission, (learned.double(), lengths), f"with {M} heads")


@question(
    "8.5",
    points=0.5,
    claim="round(fraction · n) heads are pruned, also none and all; the scores are not changed",
)
def test_number_of_heads(submission: Submission, draw: Draw) -> None:
    scores = {
        "encoder": draw.normal(5, 3) + 10,  # the highest, so that pruning others shows
        "decoder": draw.normal(2, 3),
        "cross": draw.normal(3, 2),
    }
    counts, cases = [], [(0.5, 15), (0.3, 15), (0.25, 15), (0.35, 15), (0.0, 15), (1.0, 15)]
    for fraction, _ in cases:
        value, (after,) = submission.call(
            "prune_by_kind", scores, "encoder", fraction, returning=(0,)
        )
        counts.append(int((~as_kinds(value, scores)["encoder"]).sum()))
        unchanged(scores, after, "the scores")
    expect_rounded(counts, cases, "fraction", "heads were pruned")
    for fraction in (0.0, 1.0):
        right = reference.prune_by_kind(scores, "all", fraction)
        value = as_kinds(submission.prune_by_kind(scores, "all", fraction), scores)
        expect_equal(value, right, message=f"'all' at {fraction:g}: the wrong heads are kept")


@question("8.6", points=0.5, claim="a: what the gates and their baselines show")
def test_what_the_baselines_show(submission: Submission, draw: Draw) -> None:
    expect_choice(
        submission,
        "answer_8_6a",
        4,
        {
            0: "then applying the mask of the open gates to the checkpoint without training would cost nothing",
            2: "then random heads would be no better with training than without training",
            3: "look at the row of 8.5 in which all of the encoder's heads are removed",
        },
    )


@question("8.6", points=0.5, claim="b: what the intervals permit")
def test_what_intervals_permit(submission: Submission, draw: Draw) -> None:
    misread = {
        0: "one run has no interval: it is an example",
        2: "the two intervals overlap, and the two differences were not compared in pairs",
        3: "three checkpoints of one small network were measured. What do the intervals say of others?",
    }
    expect_choice(submission, "answer_8_6b", 4, misread)
