"""Lab 07, attention heads: the claims that only the grader uses. The claims that the
notebook shows, and the sentences for both, are in visible.py.
"""

from __future__ import annotations

import torch
from torch import Tensor

from course_lib.grading import (
    Draw,
    Submission,
    ask,
    describe,
    expect_close,
    expect_tensor,
    fail,
    question,
    unchanged,
)
from course_lib.grading.claims.hunt import expect_verdicts
from course_lib.grading.claims.typed import expect_choice
from course_lib.labs import lab07 as reference
from course_lib.student_code.helpers import sample_losses

from .visible import (
    ALL_ALIKE,
    IN_TURN,
    OF_LEAST,
    OF_STEPS,
    OF_TIES,
    OVER_QUERIES,
    PROMISE,
    SWAPPED,
    TIMES_W,
    Evaluate,
    altered,
    as_importance,
    attention_case,
    by_loops,
    expect_as_before,
    expect_changes,
    expect_importance,
    expect_logits,
    expect_pairs,
    expect_parts,
    expect_pruned,
    expect_sliced,
    forward,
    gates,
    importance,
    inputs,
    linears,
    splits,
    within,
)
from .visible import WRONG as SEEN

# --- 7.1 attention_as_sum -------------------------------------------------------------

PROJECTIONS = ("Wq", "Wk", "Wv", "Wo")


@question("7.1", points=0.5, claim="one head, one feature, equal sizes, float64; nothing changes")
def test_attention_of_odd_sizes(submission: Submission, draw: Draw) -> None:
    n = draw.integer(3, 4)
    for (B, L, E), heads, when in (
        ((2, 3, 5), 1, "with one head, "),
        ((2, 3, 4), 4, "with as many heads as features, "),
        ((n, n, n * n), n, "with as many samples as positions, heads and features of a head, "),
    ):
        expect_parts(submission, attention_case(draw, B, L, E), heads, when)
    expect_parts(submission, attention_case(draw, 2, 3, 6, torch.float64), 3, "in float64, ")
    given = attention_case(draw, 2, 3, 6)
    _, after = submission.call("attention_as_sum", *given, 3, returning=(0, 1, 2, 3, 4))
    for value, now, name in zip(given, after, ("x", *PROJECTIONS), strict=True):
        unchanged(value, now, name)


# --- 7.2 gated ------------------------------------------------------------------------


@question("7.2", points=0.5, claim="gradients flow to ξ")
def test_gradients_of_the_gates(submission: Submission, draw: Draw) -> None:
    model, batch = draw.bert(2, 4), draw.texts(3, 5)
    for shape in ((2, 4), (2, 3, 4)):
        xi, weight = gates(draw, *shape), draw.normal(3, 3)
        own = xi.clone().requires_grad_()
        with reference.gated(model, own):
            (right,) = torch.autograd.grad((model(**inputs(batch)).logits * weight).sum(), own)
        there, leaf = submission.put(model), submission.put(xi, requires_grad=True)
        with within(submission, there, leaf):
            when = f"with gates {shape}, when the model was called,"
            out = forward(submission, there, batch, when)
            submission.backward(submission.call("logits.clone", on=out, keep=True), weight)
        gradient = submission.grad(leaf)
        if gradient is None:
            fail(
                "no gradient reaches ξ: use ξ itself, without .detach(), .data, .tolist() or no_grad"
            )
        gradient = expect_tensor(gradient, shape=shape, what="the gradient of ξ")
        expect_close(gradient, right, f"the gradient of gates {shape}", tolerance=1e-4)


@question("7.2", points=0.5, claim="other numbers of heads; equal sizes")
def test_gates_of_other_models(submission: Submission, draw: Draw) -> None:
    model, n = draw.bert(3, 6, 2), 3
    batch, there = draw.texts(n, n), submission.put(model)
    for xi, when in (
        (gates(draw, 3, 6), "for a model of 6 heads (num_attention_heads), "),
        (gates(draw, 3, n, 6), "with as many samples as positions and layers, "),
    ):
        expect_logits(submission, model, there, batch, xi, when)


# --- 7.3 head_importance --------------------------------------------------------------


@question("7.3", points=0.5, claim="no parameter's .grad changes; the model stays as it was")
def test_importance_leaves_the_model(submission: Submission, draw: Draw) -> None:
    model, batches = draw.bert(2, 4), [draw.texts(3, 5)]
    there = submission.put(model)
    hooks = submission.helper("hooks", model=there)
    looked_at = ("classifier.weight", "bert.encoder.layer.0.attention.output.dense.weight")
    for when in ("where no parameter has a .grad", "where every parameter has a .grad"):
        before = [submission.get(there, f"{name}.grad") for name in looked_at]
        importance(submission, there, batches, when)
        for name, was in zip(looked_at, before, strict=True):
            now = submission.get(there, f"{name}.grad")
            same = now is None if was is None else now is not None and torch.equal(was, now)
            if not same:
                fail(f"{when}, the .grad of {name} has changed: .backward() changes the .grad of all parameters. Use torch.autograd.grad(…, xi)")  # fmt: skip
            if submission.get(there, f"{name}.requires_grad") is not True:
                fail(f"{when}, {name} has requires_grad = False after the call: restore it")
        expect_as_before(submission, model, there, hooks, "afterwards")
        out = submission.call("__call__", on=there, keep=True, **inputs(batches[0]))
        submission.backward(submission.call("logits.sum", on=out, keep=True))


@question("7.3", points=0.5, claim="batches may be an iterator; the result has no gradient")
def test_importance_of_a_stream(submission: Submission, draw: Draw) -> None:
    model, batches = draw.bert(2, 4), [draw.texts(3, 5), draw.texts(2, 4)]
    when = "where batches is an iterator, which can be read only once and has no length,"
    stream = submission.helper("stream", values=batches)
    losses = submission.helper("losses")
    thought = "Iterate over the batches once, and count the samples at the same time"
    there = submission.put(model)
    kept = ask(
        lambda: submission.call("head_importance", there, stream, losses, keep=True), when, thought
    )
    value = as_importance(submission.get(kept), model)
    right = reference.head_importance(model, batches, sample_losses)
    if not value.isfinite().all() or not value.any():
        fail(f"{when} the result is {describe(value)}. {thought}")
    expect_close(value, right, f"{when} the importance", tolerance=1e-4)
    if submission.get(kept, "requires_grad") is not False:
        fail("the result requires a gradient: return it without one (.detach(), no create_graph)")


@question("7.3", points=0.5, claim="other numbers of layers and heads, batches of one sample")
def test_importance_of_other_models(submission: Submission, draw: Draw) -> None:
    when = "with as many samples as layers and heads"
    expect_importance(submission, draw.bert(3, 3, 2), [draw.texts(3, 3)], when)
    singles = [draw.texts(1, 4) for _ in range(3)]
    expect_importance(submission, draw.bert(1, 2, 4), singles, "for batches of one sample")


# --- 7.4 ablate_each, all_but_one -----------------------------------------------------


@question("7.4", points=0.5, claim="single ablations of one layer, of one head, of scores below 0")
def test_ablations_of_odd_sizes(submission: Submission, draw: Draw) -> None:
    for layers, heads, base, when in (
        (1, 5, 3.0, "for one layer, "),
        (4, 1, 3.0, "for layers of one head, "),
        (3, 3, -200.0, "for scores below 0, "),
    ):
        expect_changes(submission, draw, layers, heads, base, when)


@question("7.4", points=0.5, claim="equally good heads, scores below 0, one layer, one head")
def test_all_but_one_of_odd_scores(submission: Submission, draw: Draw) -> None:
    expect_pairs(submission, *splits(draw, 3, 4, -200.0), "where all scores are below 0, ")
    val, test = splits(draw, 3, 4, 50.0)
    first, second = sorted(draw.distinct(2, 0, 3))
    for layer in range(3):  # two equal heads, better than the others
        val.single[layer * 4 + first] = val.single[layer * 4 + second] = 100.0
    val.pairs.zero_()
    expect_pairs(submission, val, test, "where two heads of a layer are equally good, ")
    one, other = (Evaluate(draw, 1, 1, 3.0, f"eval_{name}") for name in ("val", "test"))
    expect_pairs(submission, one, other, "for a single head, ")


# --- 7.5 prune_by_importance ----------------------------------------------------------


@question("7.5", points=1, claim="ties; one layer, one head; no head is left")
def test_pruning_of_equal_scores(submission: Submission, draw: Draw) -> None:
    expect_pruned(submission, draw, 6, 16, 48, 16, 0, 2, OF_STEPS | OF_TIES)
    expect_pruned(submission, draw, 16, 6, 64, 16, 2, 2, OF_STEPS | OF_TIES | OF_LEAST)
    for layers, heads, count, step in ((1, 6, 4, 2), (5, 1, 3, 1), (3, 4, 12, 4)):
        expect_pruned(submission, draw, layers, heads, count, step)


# --- 7.6 slice_heads ------------------------------------------------------------------


@question("7.6", points=0.5, claim="inputs of other widths; no head or all of them; float64")
def test_slices_of_odd_layers(submission: Submission, draw: Draw) -> None:
    for keep in ([], [0, 1, 2, 3], [2]):
        expect_sliced(submission, linears(draw, 4, 2, (8, 8, 8, 8)), keep, 2)
    when = "where q, k and v read different widths, "
    expect_sliced(submission, linears(draw, 4, 3, (5, 7, 9, 6)), [0, 2], 3, when)
    given = linears(draw, 3, 4, (12,) * 4, dtype=torch.float64)
    expect_sliced(submission, given, [1, 2], 4, "in float64, ")


# --- 7.7 two short answers ------------------------------------------------------------

OPTIONS = 4
MISREAD = {  # by position, from 0
    0: "the table has I_h computed once and computed again, both with a head kept in each layer. Can you tell them apart?",
    1: "single ablations are measured costs. How well do they order the heads at 80 %?",
    3: "the interval of this difference contains 0. What can you not conclude from it?",
}


@question("7.7", points=0.5, claim="a: what the controls permit")
def test_what_the_controls_support(submission: Submission, draw: Draw) -> None:
    expect_choice(submission, "answer_7_7a", OPTIONS, MISREAD)


@question("7.7", points=0.5, claim="b: what the intervals permit")
def test_what_intervals_permit(submission: Submission, draw: Draw) -> None:
    misread = {
        1: "an interval that contains 0 also contains a loss of 15 points. Does it show that they are equal?",
        2: "two families of models were measured. What do the intervals say of others?",
        3: "the two intervals overlap, and one of them contains 0",
    }
    expect_choice(submission, "answer_7_7b", 4, misread)


# --- 7.8 find_bug ---------------------------------------------------------------------


def by_einsum(x: Tensor, Wq: Tensor, Wk: Tensor, Wv: Tensor, Wo: Tensor, heads: int) -> Tensor:
    """A right version in three sums, which relies on its arguments."""
    q, k, v = (torch.einsum("ble,hde->hbld", x, W.unflatten(0, (heads, -1))) for W in (Wq, Wk, Wv))
    scores = torch.einsum("hbld,hbmd->hblm", q, k) * q.shape[-1] ** -0.5
    return torch.einsum("hblm,hbmd,ehd->hble", scores.softmax(-1), v, Wo.unflatten(1, (heads, -1)))


def last_two_exchanged(parts: Tensor) -> Tensor:
    """The parts of the last two heads in each other's place: the sum is the same."""
    return torch.cat([parts[:-2], parts[-2:].flip(0)])


def samples_mixed(parts: Tensor) -> Tensor:
    """From the second sample on, the samples are in another order."""
    return (
        torch.cat([parts[:, :1], parts[:, 1:].flip(1)], 1) if parts.shape[1] > 2 else parts.flip(1)
    )


@question("7.8", points=0.5, claim="seven subtle bugs are found, and no right version is accused")
def test_hunt_subtle_bugs(submission: Submission, draw: Draw) -> None:
    expect_verdicts(
        submission,
        draw,
        "attention_as_sum",
        right={
            "the library's": reference.attention_as_sum,
            "one that loops": by_loops,
            "one of three sums (einsum)": by_einsum,
        },
        wrong={
            "gives every head the same part, so that only the sum is right": SEEN[
                "attention_as_sum"
            ][ALL_ALIKE],
            "exchanges the parts of the last two heads": altered(last_two_exchanged),
            "changes the order of the samples of a batch": altered(samples_mixed),
            "gives each head every heads-th feature": SEEN["attention_as_sum"][IN_TURN],
            "takes the softmax over the queries": SEEN["attention_as_sum"][OVER_QUERIES],
            "multiplies by W instead of its transpose": SEEN["attention_as_sum"][TIMES_W],
            "exchanges queries and keys": SEEN["attention_as_sum"][SWAPPED],
        },
        promise=PROMISE,
    )
