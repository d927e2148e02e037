"""Storage, products, speed and accuracy of a handed-in model, against the given model, in the
same way for everyone.

Speed is processor time of one thread, the two models in turns, medians: wall-clock time of short
calls on a busy machine is off by factors.
"""

from __future__ import annotations

import getpass
import math
import tempfile
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import torch
from filelock import FileLock
from torch import Tensor, nn

from course_lib import paths
from course_lib.capstone.files import Saved, of_bytes
from course_lib.capstone.rebuilt import KINDS
from course_lib.cost import latency, model_cost, totals
from course_lib.cost.storage import model_bits
from course_lib.data import images, pieces, reviews
from course_lib.models import checkpoints
from course_lib.pruning import tokens as dropping
from course_lib.training import Batch

COPIES, TEXTS, COUNTED = 5, 1500, 40  # of each image; texts; texts whose products are counted
CLOSE = 0.9  # a speed counts as reached from this share of the budget on: clocks are not exact


@dataclass(frozen=True)
class Level:
    """Limits, all at once: shares of storage and products, times faster, points lost."""

    points: float
    storage: float
    macs: float
    faster: float
    drop: float


#: The levels of each model ("cnn", "bert"), from the easiest on.
LEVELS = {
    "cnn": (
        Level(1, 0.25, 0.25, 1.5, 1.0),
        Level(1.5, 0.05, 0.05, 1.5, 1.0),
        Level(1.5, 0.03, 0.03, 2.0, 1.0),
    ),
    "bert": (
        Level(1, 0.60, 0.60, 1.5, 2.0),
        Level(1.5, 0.30, 0.25, 1.5, 2.0),
        Level(1.5, 0.20, 0.15, 2.0, 2.0),
    ),
}


@dataclass(frozen=True)
class Measured:
    """One model, compared with the given one.

    Attributes:
        bits, macs: of storage, and products of one input; storage, macs_share: the same, as
            shares of the given model's. ms: processor time of a batch (64 images, 32 texts).
        faster: times faster. right, given_right: of each hidden input, was it classified right?
    """

    bits: int
    storage: float
    macs: float
    macs_share: float
    ms: float
    faster: float
    right: tuple[bool, ...] = field(repr=False)
    given_right: tuple[bool, ...] = field(repr=False)

    @property
    def accuracy(self) -> float:
        return 100 * fmean(self.right)

    @property
    def given_accuracy(self) -> float:
        return 100 * fmean(self.given_right)

    @property
    def drop(self) -> float:
        return self.given_accuracy - self.accuracy


def unmet_requirements(level: Level, found: Measured) -> list[str]:
    """The limits that the model does not meet."""
    missed = []
    if found.storage > level.storage:
        missed.append(f"storage {found.storage:.1%}, at most {level.storage:.0%}")
    if found.macs_share > level.macs:
        missed.append(f"products {found.macs_share:.1%}, at most {level.macs:.0%}")
    if found.faster < CLOSE * level.faster:
        missed.append(f"{found.faster:.2f} times faster, at least {level.faster:g}")
    if found.drop > level.drop:
        missed.append(f"{found.drop:.1f} points of accuracy lost, at most {level.drop:g}")
    return missed


def given(kind: str, number: int = 0) -> nn.Module:
    """The model that was to be compressed: "cnn" or "bert", 0 to 2."""
    if kind == "bert":
        return checkpoints.load(f"reviews-bert-{number}").model
    return KINDS["cnn"](of_bytes(given_file(number).read_bytes(), "the given net"))


def given_file(number: int) -> Path:
    """Where the given convolutional net lies."""
    return paths.data_dir() / "checkpoints" / f"digits-convnet-{number}" / "model.safetensors"


def measure(kind: str, saved: Saved, number: int, seed: int, split: str = "test") -> Measured:
    """Measure a model against the given one of that number, on the data of a seed: newly drawn
    texts, or distorted images of a ``split``, "validation" while you choose, "test" in grading.

    Raises:
        Refused: if the tensors are no such model.
    """
    model, start = KINDS[kind](saved), given(kind, number)
    hidden = _distorted(seed, split) if kind == "cnn" else _reviews(seed)
    work = {"given": partial(_logits, start, hidden.timed)}
    given_macs, given_right = hidden.products(start), hidden.right(start)
    given_bits, bits = (model_bits(each.state_dict()) for each in (start, model))
    with dropping.dropping(model, saved.tokens) if saved.tokens else nullcontext():
        work["model"] = partial(_logits, model, hidden.timed)
        ms, faster = _speed(work, LEVELS[kind][-1].faster)
        macs, right = hidden.products(model), hidden.right(model)
    sizes = (bits, bits / given_bits, macs, macs / given_macs)
    return Measured(*sizes, ms, faster, right, given_right)


def _speed(work: Mapping[str, Callable[[], object]], enough: float) -> tuple[float, float]:
    """Milliseconds of the model, and times faster than the given one: the best of three
    tries, fewer if an earlier one is enough. One process of this machine at a time.
    """
    best = (math.inf, 0.0)
    with FileLock(Path(tempfile.gettempdir()) / f"course-capstone-{getpass.getuser()}.lock"):
        for _ in range(3):
            times = latency.compare(work, warmup=2, repeats=25, threads=1)
            faster = times["given"].median / times["model"].median
            if faster > best[1]:
                best = 1000 * times["model"].median, faster
            if best[1] >= enough:
                break
    return best


@torch.no_grad()
def _logits(model: nn.Module, inputs: Batch) -> Tensor:
    found = model(**inputs)
    return found if isinstance(found, Tensor) else found.logits


class _Hidden(NamedTuple):
    """The data of a measurement: ``batches`` of inputs and labels, single inputs whose products
    are ``counted``, and the batch that is ``timed``.
    """

    batches: list[tuple[Batch, Tensor]]
    counted: list[Batch]
    timed: Batch

    def right(self, model: nn.Module) -> tuple[bool, ...]:
        return tuple(
            hit for x, y in self.batches for hit in (_logits(model, x).argmax(1) == y).tolist()
        )

    def products(self, model: nn.Module) -> float:
        return fmean(totals(model_cost(model, x))["nonzero_macs"] for x in self.counted)


@cache
def digits() -> images.ImageData:
    """The plain digits."""
    return images.load("digits")


def _distorted(seed: int, split: str) -> _Hidden:
    drawn = images.distorted(getattr(digits(), split), torch.Generator().manual_seed(seed), COPIES)
    pairs = zip(drawn.images.split(500), drawn.labels.split(500), strict=True)
    batches = [({"x": x}, labels) for x, labels in pairs]
    return _Hidden(batches, [{"x": drawn.images[:1]}], {"x": drawn.images[:64]})


def _reviews(seed: int) -> _Hidden:
    tokenizer = checkpoints.load("reviews-bert-0").tokenizer
    drawn = reviews.load(train=0, validation=0, test=TEXTS, seed=seed)
    data = pieces.encode(drawn, tokenizer)["test"]

    def pairs(some: Any, size: int) -> list[tuple[Batch, Tensor]]:
        return [(batch, batch.pop("labels")) for batch in pieces.batches(some, "sentiment", size)]

    batches = pairs(data, 50)
    timed = {name: part[:32] for name, part in batches[len(batches) // 2][0].items()}
    return _Hidden(batches, [x for x, _ in pairs(data.select(range(COUNTED)), 1)], timed)
