"""How long something takes, measured so that the figure can be believed: warm-up, median, spread, and fair turns.

MACs and bits say what a method could save; only a clock says what it does save on this machine. A single timing says
little: the first calls fill caches and compile kernels, and other work disturbs some of the rest. So the first calls are
thrown away, the median stands for the rest, and the quartiles say how far to trust it. Two things that are to be compared
take turns in one run, since the machine of a minute ago was another machine.

Source: Hoefler and Belli 2015, "Scientific Benchmarking of Parallel Computing Systems", rules 5-7 and 9.
"""

from __future__ import annotations

import gc
import random
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median, quantiles

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class Latency:
    """Seconds that one call took: the median, the lower and upper quartile, and every sample in the order it was taken."""

    median: float
    low: float
    high: float
    samples: tuple[float, ...]

    @classmethod
    def of(cls, samples: tuple[float, ...]) -> Latency:
        if len(samples) == 1:
            return cls(samples[0], samples[0], samples[0], samples)
        low, middle, high = quantiles(samples, n=4, method="inclusive")
        return cls(middle, low, high, samples)

    def times_slower_than(self, other: Latency) -> float:
        """Median over the rounds of this time over the other's in the same round, so that a slow spell hits both alike.

        Both must come from one ``compare``.
        """
        if len(self.samples) != len(other.samples):
            raise ValueError(f"not from one compare: {len(self.samples)} and {len(other.samples)} samples")
        return median(mine / theirs for mine, theirs in zip(self.samples, other.samples, strict=True))

    def __str__(self) -> str:
        unit, scale = next(((u, s) for u, s in (("s", 1), ("ms", 1e3)) if self.median * s >= 1), ("µs", 1e6))
        return f"{self.median * scale:.3g} {unit} ({self.low * scale:.3g} to {self.high * scale:.3g})"


def measure(fn: Callable[[], object], *, warmup: int = 3, repeats: int = 20, threads: int | None = None) -> Latency:
    """Time ``fn()``.

    Args:
        fn: takes nothing; what it returns is dropped, and freeing it is part of the time.
        warmup: calls that are made first and not timed.
        repeats: timed calls.
        threads: how many threads torch may use meanwhile; None leaves it as it is.

    Returns:
        Median and quartiles in seconds. Work that is queued on an accelerator is waited for.

    Raises:
        ValueError: if ``repeats`` or ``threads`` is below 1, or ``warmup`` below 0.
    """
    return compare({"": fn}, warmup=warmup, repeats=repeats, threads=threads)[""]


def compare(
    functions: Mapping[str, Callable[[], object]], *, warmup: int = 3, repeats: int = 20, threads: int | None = None
) -> dict[str, Latency]:
    """Time several functions in one run, taking turns: each round calls every one of them once.

    The order is drawn anew for every round (always the same draw): in a fixed order each of them would always find the
    caches and the free memory as its neighbour leaves them, and with large tensors that alone can make a factor of 1.5.

    Args:
        functions: name -> function without arguments.
        warmup, repeats, threads: as in ``measure``.

    Returns:
        name -> Latency, in the order given; the i-th samples of all come from the same round.

    Raises:
        ValueError: as ``measure``.
    """
    if repeats < 1 or warmup < 0:
        raise ValueError(f"repeats must be at least 1 and warmup at least 0, got {repeats} and {warmup}")
    names = list(functions)
    samples: dict[str, list[float]] = {name: [] for name in names}
    shuffle = random.Random(0).shuffle
    with _torch_threads(threads), _no_garbage_collection():
        for turn in range(warmup + repeats):
            shuffle(names)
            for name in names:
                seconds = _time_once(functions[name])
                if turn >= warmup:
                    samples[name].append(seconds)
    return {name: Latency.of(tuple(times)) for name, times in samples.items()}


def forward(model: nn.Module, batch: Tensor) -> Callable[[], object]:
    """One forward pass of ``model`` on ``batch``, without gradients, as ``compare`` takes it; the model is put into evaluation mode."""
    model.eval()

    def once() -> object:
        with torch.inference_mode():
            return model(batch)

    return once


def _time_once(fn: Callable[[], object]) -> float:
    _synchronize()
    begin = time.perf_counter()
    fn()
    _synchronize()
    return time.perf_counter() - begin


def _synchronize() -> None:
    """Wait for accelerators, which return from a call before they have done the work."""
    if torch.cuda.is_initialized():
        torch.cuda.synchronize()
    if torch.backends.mps.is_available():
        torch.mps.synchronize()


@contextmanager
def _torch_threads(threads: int | None) -> Iterator[None]:
    if threads is None:
        yield
        return
    if threads < 1:
        raise ValueError(f"threads must be at least 1, got {threads}")
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """A collection in the middle of one call would be charged to that call alone (timeit does the same)."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
