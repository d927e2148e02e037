"""Lab 11, the capstone: the claims about each answer, and its likely mistakes, each
written once as a wrong function.

States are drawn so that each format is the cheapest for some tensor, candidates so that
each mistake picks another one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from statistics import fmean
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
from course_lib.cost.encodings import bitmap_bits, coo_bits, csr_bits
from course_lib.grading import (
    Draw,
    Submission,
    describe,
    expect_int,
    expect_number,
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
DENSE_ALONE = "all tensors were counted as dense: other formats are cheaper if many entries are 0"
NO_PLACES = "only the non-zeros were counted: their positions must be stored, too"
COUNTERS = "integer and bool tensors were counted: skip them, since they are counters and masks, which are not stored"
ALWAYS_32 = "`bits` had no effect: it is the number of bits per stored value"
TIED_TWICE = "`tied` had no effect: count a shared tensor only once"
NO_CSR = "CSR is missing: it can be the cheapest for a matrix with many non-zeros per row"
NO_COO = "COO is missing: for a very sparse tensor it can be the cheapest format"
NO_BITMAP = "the bitmap is missing: it is the cheapest if half of the entries are 0"


def formats(x: Tensor, bits: int) -> dict[str, int]:
    """Bits of one tensor in each format that it can have."""
    found = {"dense": x.numel() * bits, "bitmap": bitmap_bits(x, bits), "COO": coo_bits(x, bits)}
    return found if x.ndim < 2 else {**found, "CSR": csr_bits(x.flatten(1), bits)}


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
    submission: Submission, state: State, *more: Any, mistakes: Mapping[str, Any], what: str
) -> None:
    right = reference.model_bits(state, *more)
    value = expect_int(submission.model_bits(state, *more), what)
    recognise(value, right, mistakes)
    if value == right:
        return
    where = ""
    for x in filter(Tensor.is_floating_point, state.values()):
        alone = ({"x": x}, None, *more[1:])
        if (yours := submission.model_bits(*alone)) != (best := reference.model_bits(*alone)):
            which = f"of shape {tuple(x.shape)} with {int((x != 0).sum())} non-zeros"
            where = f": alone, a tensor {which} has {yours} bits instead of {best}"
            break
    fail(f"{what} is {value:,}, but should be {right:,}{where}")


@question(
    "11.1",
    points=1,
    claim="the bits of a state: each tensor in its cheapest format, and 2 bits that say which",
)
def test_model_bits(submission: Submission, draw: Draw) -> None:
    given, _, mistakes = exercises.draw_case(
        "model_bits",
        lambda: (drawn_state(draw), {"tied.weight": "layer1.weight"}, draw.choice([8, 16])),
    )
    expect_bits(submission, *given, mistakes=mistakes, what="model_bits(state, tied, bits)")


# --- 11.2 pick ------------------------------------------------------------------------

BY_TEST = "the candidate with the largest *test* accuracy was picked: choose by validation accuracy, never by test data"
ONE_SEED = "the candidate with the best single seed was picked: compare the means over seeds"
BELOW = "a candidate exactly at a limit was rejected: it meets the limit"
ANY_LIMIT = "a candidate that meets only some of the limits was picked: it must meet all limits"
TOO_SLOW = (
    "a candidate that is too slow was picked: `faster` is a lower limit, the minimum speed-up"
)
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


def _picked(
    key: Callable[[Row], Any] = lambda c: (-fmean(c["validation"]), c["macs"]), **how: bool
) -> Callable[..., int | None]:
    def choose(candidates: Sequence[Row], budget: Mapping[str, Any]) -> int | None:
        fitting = [i for i, c in enumerate(candidates) if _fits(c, budget, **how)]
        return min(fitting, key=lambda i: key(candidates[i]), default=None)

    return choose


WRONG["pick"] = {
    BY_TEST: _picked(lambda c: (-fmean(c["test"]), c["macs"])),
    ONE_SEED: _picked(lambda c: (-max(c["validation"]), c["macs"])),
    BELOW: _picked(strict=True),
    ANY_LIMIT: _picked(some=True),
    TOO_SLOW: _picked(upside=True),
    NO_BUDGET: lambda candidates, budget: reference.pick(candidates, {}),
    SMALLEST: _picked(lambda c: (c["bits"], c["macs"])),
    MORE_MACS: _picked(lambda c: -fmean(c["validation"])),
}


def drawn_candidates(draw: Draw) -> tuple[list[Row], dict[str, Any]]:
    """Candidates of which each mistake picks another: the right one lies exactly at two
    limits, and has a twin with more macs. Single seeds, worst seeds and medians mislead, too.
    """
    bits, macs = draw.integer(20, 60) * 1000, draw.integer(20, 60) * 100
    faster = draw.integer(6, 9) / 4
    even, lucky, one_failed = (1, -1, 0), (7, -7, 0), (-8, 4, 4)

    def candidate(
        mean: float, seeds: Sequence[int] = even, test: float = 0.0, **other: float
    ) -> Row:
        return {
            "bits": bits - 1000 * draw.integer(2, 9),
            "macs": macs - 100 * draw.integer(2, 9),
            "faster": faster + draw.integer(1, 4) / 4,
            "validation": [mean + step for step in seeds],
            "test": [mean + test + step for step in (-0.25, 0.0, 0.25)],
            **other,
        }

    right = draw.integer(380, 384) / 4
    few = [
        candidate(right - 0.5),  # strictly within
        candidate(right - 0.75, (0, 0, 0)),  # the best worst seed
        candidate(right - 2, lucky),
        candidate(right - 3, one_failed),
        candidate(right - 3, test=9.0),
        candidate(right - 1, bits=bits - 12000),
        candidate(right + 0.5, faster=faster - 0.25),
        candidate(right + 1, bits=bits + 1000),
        candidate(right + 1.25, macs=macs + 100),
        candidate(right + 1.5, bits=bits + 1000, macs=macs + 100, faster=faster - 0.25),
        *(candidate(right - 4 - n) for n in range(draw.integer(2, 5))),
    ]
    candidates = [few[i] for i in draw.permutation(len(few)).tolist()]
    best = candidate(right, bits=bits, faster=faster, macs=macs - 300)
    at = draw.integer(0, len(candidates))
    candidates.insert(at, {**best, "macs": macs - 200})  # its twin comes first
    candidates.insert(draw.integer(at + 1, len(candidates)), best)
    return candidates, {"bits": bits, "macs": macs, "faster": faster}


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


@question("11.2", points=1, claim="within the budget, the largest mean validation accuracy")
def test_pick(submission: Submission, draw: Draw) -> None:
    (candidates, budget), _, mistakes = exercises.draw_case("pick", lambda: drawn_candidates(draw))
    expect_picked(submission, candidates, budget, mistakes, "pick(candidates, budget)")


# --- 11.3 a published table -----------------------------------------------------------


def typed_range(submission: Submission) -> tuple[float, float]:
    """Answer a, if it is two shares in %, the smaller one first."""
    value = submission.value("answer_11_3a")
    if value is ... or value is None:
        fail("a is not answered yet")
    if not isinstance(value, list | tuple) or len(value) != 2:
        fail(f"a is {describe(value)}, but should be a tuple of two numbers")
    low, high = (expect_number(share, "a share in a") for share in value)
    if not 1 < low < high <= 100:
        fail(f"a is ({low:g}, {high:g}): write two shares in %, the smaller one first")
    return low, high


def typed_share(submission: Submission) -> float:
    """Answer e, if it can be a share."""
    form = "no share between 0 and 1: is it in per cent?"
    return expect_typed(submission, "answer_11_3e", (0, 1), form)


@question(
    "11.3",
    points=0,
    claim="a is a range in %, b to d are letters, e is a share between 0 and 1 (which ones are right is looked at when they are handed in)",
)
def test_form_of_the_answers(submission: Submission, draw: Draw) -> None:
    typed_range(submission)
    for part in "bcd":
        expect_choice(submission, f"answer_11_3{part}", 4, {})
    typed_share(submission)


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
    number = number_of(student_of(submission))
    found = _measured(handed(submission, kind), kind, number, seed, split)
    if isinstance(found, str):
        fail(found)
    return found


def expect_level(submission: Submission, kind: str, level: int, seed: int, split: str) -> None:
    found = measured(submission, kind, seed, split)
    missed = unmet_requirements(LEVELS[kind][level - 1], found)
    if missed:
        fail(
            f"level {level} is not met: {'; '.join(missed)} (measured: storage {found.storage:.1%}, products"
            f" {found.macs_share:.1%}, {found.faster:.2f} times faster, accuracy {found.accuracy:.1f} %"
            f" (given model: {found.given_accuracy:.1f} %))"
        )


@question(
    "11.4",
    points=0,
    claim="the file can be read, and on texts drawn now meets level 1 (graded: other texts, three levels)",
)
def test_bert_file(submission: Submission, draw: Draw) -> None:
    expect_level(submission, "bert", 1, draw.seed, "validation")


@question(
    "11.5",
    points=0,
    claim="the file can be read, and on distorted validation images meets level 1 (graded: test images, three levels)",
)
def test_convnet_file(submission: Submission, draw: Draw) -> None:
    expect_level(submission, "cnn", 1, draw.seed, "validation")
