"""Lab 11, the capstone: the claims about each answer, and its likely mistakes, each
written once as a wrong function.

States are drawn so that each format is the cheapest for some tensor. Rows are drawn so
that some are equal, and some are worse in only one number.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import torch
from torch import Tensor

from course_lib.capstone import (
    LEVELS,
    Measured,
    Refused,
    Saved,
    measure,
    of_bytes,
    unmet_requirements,
)
from course_lib.capstone.handing import NAMES, number_of
from course_lib.grading import (
    Draw,
    Submission,
    describe,
    expect_int,
    expect_refused,
    fail,
    question,
)
from course_lib.grading.claims.expect import Fault
from course_lib.grading.claims.mistakes import Exercises, recognise
from course_lib.grading.claims.typed import expect_choice, expect_typed, student_of
from course_lib.labs import lab11 as reference

State = dict[str, Tensor]
Row = dict[str, Any]
WRONG: dict[str, dict[str, Callable[..., Any]]] = {}
exercises = Exercises(reference, WRONG)

# --- 11.1 model_bits ------------------------------------------------------------------

NO_CHOICE = "the two bits for the format of each tensor are missing: add 2 bits per tensor"
MATRICES_ALONE = "only tensors with two or more dimensions were counted: count biases, norms and running statistics, too"
ONE_FORMAT = "one format was used for all tensors: choose the cheapest format for each tensor"
DENSE_ALONE = (
    "all tensors were counted as dense: other formats are cheaper for a tensor with many zeros"
)
NO_PLACES = "only the non-zeros were counted: their positions must be stored, too"
COUNTERS = "integer and bool tensors were counted: skip them, since they are counters and masks, which are not stored"
ALWAYS_32 = "`bits` had no effect: it is the number of bits per stored value"
TIED_TWICE = "`tied` had no effect: count a shared tensor only once"
NO_CSR = (
    "CSR is missing: for a sparse matrix with many non-zeros per row it can be the cheapest format"
)
NO_COO = "COO is missing: for a very sparse tensor it can be the cheapest format"
NO_BITMAP = (
    "the bitmap is missing: for a tensor with half of its entries 0 it is the cheapest format"
)


def _width(k: int) -> int:
    return max(k - 1, 0).bit_length()


def formats(x: Tensor, bits: int) -> dict[str, int]:
    """Bits of one tensor in each format that it can have."""
    there = int((x != 0).sum())
    found = {
        "dense": x.numel() * bits,
        "bitmap": there * bits + x.numel(),
        "COO": there * (bits + _width(x.numel())),
    }
    if x.ndim >= 2:
        rows, columns = x.shape[0], x[0].numel()
        found["CSR"] = there * (bits + _width(columns)) + (rows + 1) * _width(there + 1)
    return found


def _bits(
    each: Callable[[Tensor, int], int] = lambda x, bits: min(formats(x, bits).values()),
    counted: Callable[[Tensor], bool] = Tensor.is_floating_point,
    choice: int = 2,
    use_tied: bool = True,
    width: int | None = None,
) -> Callable[..., int]:
    def count(state: State, tied: Mapping[str, str] | None = None, bits: int = 32) -> int:
        gone = set(tied or ()) if use_tied else set()
        return sum(
            each(x, width or bits) + choice
            for name, x in state.items()
            if counted(x) and name not in gone
        )

    return count


def _one_for_all(state: State, tied: Mapping[str, str] | None = None, bits: int = 32) -> int:
    kept = [x for name, x in state.items() if x.is_floating_point() and name not in (tied or {})]
    totals = [sum(formats(x, bits)[how] for x in kept) for how in ("dense", "bitmap", "COO")]
    return min(totals) + 2 * len(kept)


def _without(how: str) -> Callable[..., int]:
    return _bits(
        lambda x, bits: min(cost for name, cost in formats(x, bits).items() if name != how)
    )


WRONG["model_bits"] = {
    NO_CHOICE: _bits(choice=0),
    MATRICES_ALONE: _bits(counted=lambda x: x.is_floating_point() and x.ndim >= 2),
    ONE_FORMAT: _one_for_all,
    DENSE_ALONE: _bits(lambda x, bits: x.numel() * bits),
    NO_PLACES: _bits(lambda x, bits: int((x != 0).sum()) * bits),
    COUNTERS: _bits(counted=lambda x: True),
    ALWAYS_32: _bits(width=32),
    TIED_TWICE: _bits(use_tied=False),
    NO_CSR: _without("CSR"),
    NO_COO: _without("COO"),
    NO_BITMAP: _without("bitmap"),
}


def drawn_state(draw: Draw) -> State:
    """Tensors for which each of the four formats is the cheapest, vectors and counters
    among them.
    """
    shapes: list[tuple[tuple[int, ...], float]] = [
        ((draw.integer(3, 5), 7), 0.0),
        ((6, 3, 3, 3), 0.5),
        ((draw.integer(150, 190), 8), 0.98),  # COO
        ((4, 300), 0.92),  # CSR
        ((3, draw.integer(18, 24), 3, 3), 0.93),  # CSR, of (first, all others)
        ((8,), 0.0),
        ((draw.integer(9, 15),), 0.5),
    ]
    state: State = {
        f"layer{i}.weight": draw.sparse(*shape, sparsity=s) for i, (shape, s) in enumerate(shapes)
    }
    state["bn.num_batches_tracked"] = torch.tensor(draw.integer(1, 99))
    state["mask"] = draw.mask(5, 6)
    state["tied.weight"] = state["layer1.weight"]
    return state


def expect_bits(
    submission: Submission, *given: Any, mistakes: Mapping[str, Any], what: str
) -> None:
    right = reference.model_bits(*given)
    value = expect_int(submission.model_bits(*given), what)
    recognise(value, right, mistakes)
    if value != right:
        fail(f"{what} is {value:,}, but should be {right:,}")


@question(
    "11.1",
    points=0.75,
    claim="the bits of a state: each tensor in its cheapest format, and 2 bits that say which",
)
def test_model_bits(submission: Submission, draw: Draw) -> None:
    given, _, mistakes = exercises.draw_case(
        "model_bits",
        lambda: (drawn_state(draw), {"tied.weight": "layer1.weight"}, draw.choice([8, 16])),
    )
    expect_bits(submission, *given, mistakes=mistakes, what="model_bits(state, tied, bits)")


@question(
    "11.1",
    points=0.25,
    claim="arguments: an unknown name in `tied`, or one tied to a tied one, raises ValueError",
)
def test_tied_wrongly(submission: Submission, draw: Draw) -> None:
    state = {name: draw.normal(3, 4) for name in ("a", "b", "c")}
    good = (state, {"b": "a", "c": "a"})
    bad = {
        "a name that is not in the state": (state, {"d": "a"}),
        "tied to a name that is not in the state": (state, {"b": "d"}),
        "c tied to b, which is tied to a": (state, {"c": "b", "b": "a"}),
    }
    expect_refused(submission.model_bits, good, reference.model_bits(*good), bad)


# --- 11.2 frontier --------------------------------------------------------------------

BEST_IN_ONE = "only rows that are best in some column were kept: a row that is best in no column can also be on the frontier"
BETTER_IN_ALL = "your code requires a row to be better in *all* four columns to dominate: it must be no worse in all columns, and better in at least one"
EQUALS_GONE = "equal rows were removed: equal rows do not dominate each other, since neither is better in any column"
AS_COST = "a lower accuracy was treated as better: a higher accuracy is better"
TWO_COLUMNS = "only size and accuracy were compared: compare macs and ms, too"
DOMINATED = "your code returned the dominated rows: return the rows that no other row dominates"

_KEYS = ("bits", "macs", "ms")


def _costs(
    rows: Sequence[Row], sign: int = -1, keys: Sequence[str] = _KEYS
) -> list[tuple[float, ...]]:
    return [(*(row[key] for key in keys), sign * row["accuracy"]) for row in rows]


def _left(
    costs: Sequence[tuple[float, ...]],
    beats: Callable[[tuple[float, ...], tuple[float, ...]], bool],
) -> list[int]:
    return [
        i
        for i, own in enumerate(costs)
        if not any(beats(other, own) for j, other in enumerate(costs) if j != i)
    ]


def _no_worse(a: tuple[float, ...], b: tuple[float, ...]) -> bool:
    return all(x <= y for x, y in zip(a, b, strict=True))


def _dominates(a: tuple[float, ...], b: tuple[float, ...]) -> bool:
    return a != b and _no_worse(a, b)


WRONG["frontier"] = {
    BEST_IN_ONE: lambda rows: [
        i
        for i, own in enumerate(_costs(rows))
        if any(own[k] == min(c[k] for c in _costs(rows)) for k in range(4))
    ],
    BETTER_IN_ALL: lambda rows: _left(
        _costs(rows), lambda a, b: all(x < y for x, y in zip(a, b, strict=True))
    ),
    EQUALS_GONE: lambda rows: _left(_costs(rows), _no_worse),
    AS_COST: lambda rows: _left(_costs(rows, sign=1), _dominates),
    TWO_COLUMNS: lambda rows: _left(_costs(rows, keys=("bits",)), _dominates),
    DOMINATED: lambda rows: [i for i in range(len(rows)) if i not in reference.frontier(rows)],
}


def drawn_rows(draw: Draw, count: int = 14) -> list[Row]:
    """Few different numbers, so that there are ties; one row twice; further keys that
    do not count.
    """
    rows: list[Row] = [
        {
            "method": f"method {i}",
            "bits": draw.integer(1, 6) * 1000,
            "macs": draw.integer(1, 6) * 100,
            "ms": draw.integer(1, 6) / 4,
            "accuracy": 90.0 + draw.integer(1, 6),
            "seeds": draw.integer(1, 9),
        }
        for i in range(count)
    ]
    best = reference.frontier(rows)[0]
    return [*rows, {**rows[best], "method": "the same again", "seeds": 0}]


def expect_rows(
    submission: Submission, rows: Sequence[Row], mistakes: Mapping[str, Any], what: str
) -> None:
    right = reference.frontier(rows)
    value = submission.frontier(rows)
    if not isinstance(value, list) or not all(isinstance(i, int) for i in value):
        fail(f"{what} is {describe(value)}, but should be a list of indices")
    recognise(value, right, mistakes)
    if value != right:
        if sorted(value) == right:
            fail(f"{what} is {value}: the rows are right, but their indices should rise")
        fail(f"{what} is {value}, but should be {right}")


@question("11.2", points=1, claim="the rows that no other dominates, in order")
def test_frontier(submission: Submission, draw: Draw) -> None:
    (rows,), _, mistakes = exercises.draw_case("frontier", lambda: (drawn_rows(draw),))
    expect_rows(submission, rows, mistakes, "frontier(rows)")


# --- 11.3 pick ------------------------------------------------------------------------

BY_TEST = "the candidate with the largest *test* accuracy was picked: choose by validation accuracy, never by test data"
LUCKIEST = "the candidate with the best single seed was picked: compare the means over seeds"
BELOW = "a candidate exactly at a limit was rejected: it meets the limit"
ANY_LIMIT = "a candidate that meets only some of the limits was picked: it must meet all limits"
FASTER_AS_COST = "`faster` was used as an upper limit: it is a lower limit, the minimum speed-up"
NO_BUDGET = "the budget had no effect: pick only among candidates that meet all its limits"
SMALLEST = "the smallest candidate was picked: pick the candidate with the largest mean validation accuracy"
MORE_MACS = "two candidates have equal accuracy: pick the candidate with fewer macs, and if macs are equal, the first"


def _fits(
    c: Row,
    budget: Mapping[str, Any],
    strict: bool = False,
    some: bool = False,
    upside: bool = False,
) -> bool:
    met = []
    for key, limit in budget.items():
        if limit is None:
            continue
        most = key != "faster" or upside
        value, bound = (c[key], limit) if most else (-c[key], -limit)
        met.append(value < bound if strict else value <= bound)
    return (any(met) or not met) if some else all(met)


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def _picked(
    key: Callable[[Row], Any] = lambda c: (-_mean(c["validation"]), c["macs"]), **how: bool
) -> Callable[..., int | None]:
    def choose(candidates: Sequence[Row], budget: Mapping[str, Any]) -> int | None:
        fitting = [i for i, c in enumerate(candidates) if _fits(c, budget, **how)]
        return min(fitting, key=lambda i: key(candidates[i]), default=None)

    return choose


WRONG["pick"] = {
    BY_TEST: _picked(lambda c: (-_mean(c["test"]), c["macs"])),
    LUCKIEST: _picked(lambda c: (-max(c["validation"]), c["macs"])),
    BELOW: _picked(strict=True),
    ANY_LIMIT: _picked(some=True),
    FASTER_AS_COST: _picked(upside=True),
    NO_BUDGET: lambda candidates, budget: reference.pick(candidates, {}),
    SMALLEST: _picked(lambda c: (c["bits"], c["macs"])),
    MORE_MACS: _picked(lambda c: -_mean(c["validation"])),
}


def drawn_candidates(draw: Draw) -> tuple[list[Row], dict[str, Any]]:
    """Candidates of which each mistake picks another: the right one lies exactly at two
    limits, and has a twin with more macs.
    """
    bits, macs, faster = (
        draw.integer(20, 60) * 1000,
        draw.integer(20, 60) * 100,
        draw.integer(6, 9) / 4,
    )

    def candidate(mean: float, luck: float = 1.0, test: float = 0.0, **other: float) -> Row:
        return {
            "bits": bits - 1000 * draw.integer(2, 9),
            "macs": macs - 100 * draw.integer(2, 9),
            "faster": faster + draw.integer(1, 4) / 4,
            "validation": [
                mean + step for step in draw.choice([(-luck, 0.0, luck), (luck, -luck, 0.0)])
            ],
            "test": [mean + test + step for step in (-0.25, 0.0, 0.25)],
            **other,
        }

    right = draw.integer(380, 384) / 4
    exact = {"bits": bits, "faster": faster}
    few = [
        candidate(right - 0.5),  # strictly within
        candidate(right - 2, luck=7.0),
        candidate(right - 3, test=9.0),
        candidate(right - 1, bits=bits - 12000),
        candidate(right + 0.5, faster=faster - 0.25),
        candidate(right + 1, bits=bits + 1000, macs=macs + 100),  # fast alone
        candidate(right + 1.5, bits=bits + 1000, macs=macs + 100, faster=faster - 0.25),
        *(candidate(right - 4 - n) for n in range(draw.integer(2, 5))),
    ]
    candidates = [few[i] for i in draw.permutation(len(few)).tolist()]
    best = candidate(right, **exact, macs=macs - 300)
    at = draw.integer(0, len(candidates))
    candidates.insert(at, {**best, "macs": macs - 200})  # its twin comes first
    candidates.insert(draw.integer(at + 1, len(candidates)), best)
    return [{**c, "name": f"candidate {i}"} for i, c in enumerate(candidates)], {
        "bits": bits,
        "macs": macs,
        "faster": faster,
    }


def expect_picked(
    submission: Submission,
    candidates: Sequence[Row],
    budget: Mapping[str, Any],
    mistakes: Mapping[str, Any],
    what: str,
) -> None:
    right = reference.pick(candidates, budget)
    value = submission.pick(candidates, budget)
    if value is not None:
        value = expect_int(value, what)
    recognise(value, right, mistakes)
    if value != right:
        fail(f"{what} is {value}, but should be {right}")


@question("11.3", points=1, claim="within the budget, the largest mean validation accuracy")
def test_pick(submission: Submission, draw: Draw) -> None:
    given, _, mistakes = exercises.draw_case("pick", lambda: drawn_candidates(draw))
    expect_picked(submission, *given, mistakes, "pick(candidates, budget)")


# --- 11.4, 11.5 the files -------------------------------------------------------------


def handed(submission: Submission, kind: str) -> bytes:
    """The file of that kind."""
    name = NAMES[kind]
    data = submission.handed_in.get(name, "")
    if isinstance(data, bytes):
        return data
    fail(
        data
        or f'{name} is missing in the folder of the notebook: submit(model, "{kind}", …) writes it. Hand it in together with the notebook'
    )


@cache
def _measured(data: bytes, kind: str, number: int, seed: int, split: str) -> Measured | str:
    try:
        saved: Saved = of_bytes(data, NAMES[kind])
        return measure(kind, saved, number, seed, split)
    except Refused as error:
        return str(error)
    except Exception as error:  # the file can be read: whatever fails now is not its fault
        raise Fault(
            f"{NAMES[kind]} could not be measured ({type(error).__name__}: {error})"[:400]
        ) from error


def measured(submission: Submission, kind: str, seed: int, split: str) -> Measured:
    """The handed-in model's measurement; it is made once for all levels."""
    found = _measured(
        handed(submission, kind), kind, number_of(student_of(submission)), seed, split
    )
    if isinstance(found, str):
        fail(found)
    return found


def describe_measured(found: Measured) -> str:
    """A sentence with all measured numbers."""
    return (
        f"storage {found.storage:.1%}, products {found.macs_share:.1%}, {found.faster:.2f} times faster, accuracy {found.accuracy:.1f} % "
        f"(given model: {found.given_accuracy:.1f} %)"
    )


def expect_level(submission: Submission, kind: str, level: int, seed: int, split: str) -> None:
    found = measured(submission, kind, seed, split)
    missed = unmet_requirements(LEVELS[kind][level - 1], found)
    if missed:
        fail(
            f"level {level} is not met: {'; '.join(missed)} (measured: {describe_measured(found)})"
        )


@question(
    "11.4",
    points=0,
    claim="the file can be read, and on distorted validation images meets level 1 (graded: test images, three levels)",
)
def test_convnet_file(submission: Submission, draw: Draw) -> None:
    expect_level(submission, "cnn", 1, draw.seed, "validation")


@question(
    "11.5",
    points=0,
    claim="the file can be read, and on texts drawn now meets level 1 (graded: other texts, three levels)",
)
def test_bert_file(submission: Submission, draw: Draw) -> None:
    expect_level(submission, "bert", 1, draw.seed, "validation")


# --- 11.6 two short answers -----------------------------------------------------------


@question(
    "11.6",
    points=0,
    claim="a is one of the letters, b a share between 0 and 1 (which ones are right is looked at when they are handed in)",
)
def test_form_of_the_answers(submission: Submission, draw: Draw) -> None:
    expect_choice(submission, "answer_11_6a", 4, {})
    expect_typed(submission, "answer_11_6b", (0, 1), "no share between 0 and 1: is it in per cent?")
