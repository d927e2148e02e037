"""Lab 11: the claims that only the grader uses."""

from __future__ import annotations

from functools import partial

import torch

from course_lib.grading import Draw, Submission, question
from course_lib.grading.claims.mistakes import apply_each
from course_lib.grading.claims.typed import expect_choice, expect_figure, expect_typed
from course_lib.labs import lab11 as reference

from .visible import WRONG as SEEN
from .visible import (
    drawn_candidates,
    drawn_rows,
    drawn_state,
    expect_bits,
    expect_level,
    expect_picked,
    expect_rows,
)


@question(
    "11.1",
    points=1,
    claim="−0.0 is a zero and NaN is not; no tensors, tensors of zeros, single numbers; 32 bits by default",
)
def test_model_bits_at_the_edges(submission: Submission, draw: Draw) -> None:
    odd = draw.normal(6, 9)
    odd[draw.mask(6, 9)] = -0.0
    expect_bits(submission, {"w": odd}, mistakes={}, what="with −0.0, model_bits(state)")
    odd = draw.sparse(7, 9, sparsity=0.6)
    odd[0, :3] = torch.tensor([torch.nan, torch.inf, -torch.inf])
    expect_bits(submission, {"w": odd}, mistakes={}, what="with NaN and ±inf, model_bits(state)")
    expect_bits(submission, {}, mistakes={}, what="of no tensor, model_bits({})")
    small = {
        "scalar": torch.tensor(2.5),
        "zero": torch.zeros(5, 4),
        "one": torch.ones(1, 1),
        "half": draw.normal(3, 3).half(),
    }
    expect_bits(
        submission,
        small,
        mistakes={},
        what="with tensors of one number and of zeros, model_bits(state)",
    )
    state = drawn_state(draw)
    expect_bits(submission, state, None, 1, mistakes={}, what="with bits=1, model_bits(state)")
    many = {
        "a": draw.sparse(2, 257, sparsity=0.9),
        "b": draw.sparse(256, 2, sparsity=0.97),
        "c": draw.sparse(1, 64, sparsity=0.98),
    }
    expect_bits(submission, many, mistakes={}, what="model_bits(state)")


@question(
    "11.2",
    points=1,
    claim="one row, no row, equal rows; integers and floats; any order of rows and keys",
)
def test_frontier_at_the_edges(submission: Submission, draw: Draw) -> None:
    expect_rows(submission, [], {}, "frontier([])")
    rows = drawn_rows(draw, 3)
    expect_rows(submission, rows[:1], {}, "of one row, frontier(rows)")
    expect_rows(submission, [rows[0]] * 4, {}, "of four equal rows, frontier(rows)")
    for count in (5, 30):
        rows = drawn_rows(draw, count)
        order = draw.permutation(len(rows)).tolist()
        shuffled = [dict(sorted(rows[i].items(), reverse=True)) for i in order]
        expect_rows(submission, shuffled, apply_each(SEEN["frontier"], shuffled), "frontier(rows)")


@question(
    "11.3",
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
    twins = [{**candidates[0], "name": str(i)} for i in range(3)]
    expect(twins, {}, {}, "of equal candidates, pick(candidates, {})")


@question(
    "11.4",
    points=1,
    claim="level 1, one lab's method: size, products, speed and accuracy at once, on hidden images",
)
def test_convnet_level_1(submission: Submission, draw: Draw) -> None:
    expect_level(submission, "cnn", 1, draw.common, "test")


@question(
    "11.4",
    points=1.5,
    claim="level 2, two methods combined: size, products, speed and accuracy at once, on hidden images",
)
def test_convnet_level_2(submission: Submission, draw: Draw) -> None:
    expect_level(submission, "cnn", 2, draw.common, "test")


@question(
    "11.4",
    points=1.5,
    claim="level 3, a smaller and faster model: size, products, speed and accuracy at once, on hidden images",
)
def test_convnet_level_3(submission: Submission, draw: Draw) -> None:
    expect_level(submission, "cnn", 3, draw.common, "test")


@question(
    "11.5",
    points=1,
    claim="level 1, one lab's method: size, products, speed and accuracy at once, on hidden texts",
)
def test_bert_level_1(submission: Submission, draw: Draw) -> None:
    expect_level(submission, "bert", 1, draw.common, "test")


@question(
    "11.5",
    points=1.5,
    claim="level 2, two methods combined: size, products, speed and accuracy at once, on hidden texts",
)
def test_bert_level_2(submission: Submission, draw: Draw) -> None:
    expect_level(submission, "bert", 2, draw.common, "test")


@question(
    "11.5",
    points=1.5,
    claim="level 3, a smaller and faster model: size, products, speed and accuracy at once, on hidden texts",
)
def test_bert_level_3(submission: Submission, draw: Draw) -> None:
    expect_level(submission, "bert", 3, draw.common, "test")


@question("11.6", points=0.5, claim="a: why three rows of the survey have no figures")
def test_why(submission: Submission, draw: Draw) -> None:
    expect_choice(
        submission,
        "answer_11_6a",
        4,
        {
            0: "all three papers report sizes and accuracies",
            2: "all three papers use the same hardware as the other papers of the survey",
            3: "two of the three papers are older than other papers whose rows have figures",
        },
    )


SHARE = (0.141, 0.161)


@question("11.6", points=0.5, claim="b: the share of the embeddings in the model's numbers")
def test_share(submission: Submission, draw: Draw) -> None:
    value = expect_typed(
        submission, "answer_11_6b", (0, 1), "no share between 0 and 1: is it in per cent?"
    )
    others = (
        (
            0.114,
            0.124,
            "the share of the word embeddings alone, without position and type embeddings",
        ),
        (0.839, 0.859, "the share of all other numbers"),
    )
    what = "the share of the embeddings in reviews-bert's own numbers"
    expect_figure(
        value,
        SHARE,
        what,
        others,
        "Divide the number of word, position and type embeddings by the number of all numbers in the state.",
    )
