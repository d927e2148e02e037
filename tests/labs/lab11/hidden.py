"""Lab 11: the claims that only the grader uses."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from course_lib.grading import Draw, Submission, fail, question
from course_lib.grading.claims.typed import expect_choice, expect_figure
from course_lib.labs import lab11 as reference

from .visible import (
    drawn_candidates,
    drawn_state,
    expect_bits,
    expect_level,
    expect_picked,
    typed_range,
    typed_share,
)


@question(
    "11.1",
    points=1,
    claim="−0.0 is a zero; no tensors, tensors of zeros, single numbers, half precision; other `bits`",
)
def test_model_bits_at_the_edges(submission: Submission, draw: Draw) -> None:
    def expect(state: dict[str, Tensor], what: str, *more: int | None) -> None:
        expect_bits(submission, state, *more, mistakes={}, what=what)

    odd = draw.normal(6, 9)
    odd[draw.mask(6, 9)] = -0.0
    expect({"w": odd}, "with −0.0, model_bits(state)")
    expect({}, "of no tensor, model_bits({})")
    small = {
        "scalar": torch.tensor(2.5),
        "zero": torch.zeros(5, 4),
        "one": torch.ones(1, 1),
        "half": draw.normal(3, 3).half(),
    }
    expect(small, "with tensors of one number and of zeros, model_bits(state)")
    expect(drawn_state(draw), "with bits=1, model_bits(state, None, 1)", None, 1)
    csr = torch.zeros(2, 3000)
    csr.view(-1)[draw.permutation(6000)[:64]] = 1.5  # one more pointer than six bits can tell
    many = {
        "a": csr,
        "b": draw.sparse(256, 2, sparsity=0.97),
        "c": draw.sparse(1, 64, sparsity=0.98),
    }
    expect(many, "model_bits(state)")


@question(
    "11.2",
    points=1,
    claim="limits that are missing or None, no candidate that fits, no test accuracies, other numbers of seeds",
)
def test_pick_at_the_edges(submission: Submission, draw: Draw) -> None:
    candidates, budget = drawn_candidates(draw)
    expect = partial(expect_picked, submission)
    expect(candidates, {}, {}, "without a budget, pick(candidates, {})")
    expect(candidates, dict.fromkeys(budget), {}, "with limits of None, pick(candidates, budget)")
    for key, limit in budget.items():
        expect(candidates, {key: limit}, {}, f"with {key} alone, pick(candidates, budget)")
    expect(candidates, {"bits": 1}, {}, "where none fits, pick(candidates, budget)")
    expect([], budget, {}, "pick([], budget)")
    plain = [{key: value for key, value in c.items() if key != "test"} for c in candidates]
    right = reference.pick(plain, budget)
    assert right is not None
    plain[right]["validation"] = [sum(plain[right]["validation"]) / 3 + 0.25]
    expect(plain, budget, {}, "without test accuracies, pick(candidates, budget)")
    expect([candidates[0]] * 3, {}, {}, "of equal candidates, pick(candidates, {})")


# --- 11.3 a published table -----------------------------------------------------------


@question("11.3", points=0.75, claim="a: the share of the memory that Gordon et al. keep")
def test_kept(submission: Submission, draw: Draw) -> None:
    low, high = typed_range(submission)
    if (low, high) == (30, 40):
        fail("30 and 40 % are pruned: the column *Memory* contains the share that is kept")
    if (low, high) != (60, 70):
        fail(f"({low:g}, {high:g}) does not follow from the abstract: which shares are pruned?")


MISREAD = {
    "b": {
        0: "the README calls what is pruned smaller than layers and heads",
        1: "the README says which modules are frozen: frozen modules are not pruned",
        3: "the README counts remaining weights, not neurons, and does not name the feed-forward blocks alone",
    },
    "c": {
        0: "the quotation reports no loss at one of these sizes: subtract the sparsity from 100 %",
        2: "the quotation reports no loss at this size: subtract the sparsity from 100 %",
        3: "the quotation covers only one of these sizes",
    },
    "d": {
        0: "the quoted abstract gives a figure",
        2: "the quoted abstract does not mention hardware. What is compressed there?",
        3: "the survey contains them, and other rows of the same years have figures",
    },
}


@question("11.3", points=0.5, claim="b: what Sanh et al. remove")
def test_removed(submission: Submission, draw: Draw) -> None:
    expect_choice(submission, "answer_11_3b", 4, MISREAD["b"])


@question("11.3", points=0.5, claim="c: to which sizes Guo's *worse* can refer")
def test_worse(submission: Submission, draw: Draw) -> None:
    expect_choice(submission, "answer_11_3c", 4, MISREAD["c"])


@question("11.3", points=0.5, claim="d: why three rows of the survey have no figures")
def test_no_figures(submission: Submission, draw: Draw) -> None:
    expect_choice(submission, "answer_11_3d", 4, MISREAD["d"])


@question("11.3", points=0.75, claim="e: the share of the embeddings in the model's numbers")
def test_share(submission: Submission, draw: Draw) -> None:
    others = (
        (0.114, 0.124, "the share of the word embeddings alone"),
        (0.173, 0.189, "the ratio of the embeddings to the other numbers, or to the encoder's"),
        (0.839, 0.859, "the share of all other numbers"),
    )
    expect_figure(
        typed_share(submission),
        (0.141, 0.161),
        "the share of the embeddings in reviews-bert's own numbers",
        others,
        "Divide the number of word, position and type embeddings by the number of all numbers in the state.",
    )


# --- 11.4, 11.5 the files -------------------------------------------------------------


@question(
    "11.4",
    points=1,
    claim="level 1, one lab's method: size, products, speed and accuracy at once, on hidden texts",
)
def test_bert_level_1(submission: Submission, draw: Draw) -> None:
    expect_level(submission, "bert", 1, draw.common, "test")


@question(
    "11.4",
    points=1.5,
    claim="level 2, two methods combined: size, products, speed and accuracy at once, on hidden texts",
)
def test_bert_level_2(submission: Submission, draw: Draw) -> None:
    expect_level(submission, "bert", 2, draw.common, "test")


@question(
    "11.4",
    points=1.5,
    claim="level 3, a smaller and faster model: size, products, speed and accuracy at once, on hidden texts",
)
def test_bert_level_3(submission: Submission, draw: Draw) -> None:
    expect_level(submission, "bert", 3, draw.common, "test")


@question(
    "11.5",
    points=1,
    claim="level 1, one lab's method: size, products, speed and accuracy at once, on hidden images",
)
def test_convnet_level_1(submission: Submission, draw: Draw) -> None:
    expect_level(submission, "cnn", 1, draw.common, "test")


@question(
    "11.5",
    points=1.5,
    claim="level 2, two methods combined: size, products, speed and accuracy at once, on hidden images",
)
def test_convnet_level_2(submission: Submission, draw: Draw) -> None:
    expect_level(submission, "cnn", 2, draw.common, "test")


@question(
    "11.5",
    points=1.5,
    claim="level 3, a smaller and faster model: size, products, speed and accuracy at once, on hidden images",
)
def test_convnet_level_3(submission: Submission, draw: Draw) -> None:
    expect_level(submission, "cnn", 3, draw.common, "test")
