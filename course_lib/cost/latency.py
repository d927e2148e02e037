"""How long something takes, measured so that the figure can be believed: warm-up,
median, spread, and fair turns.

MACs and bits say what a method could save; only a clock says what it does save on this
machine. The first calls fill caches and compile kernels, and other work disturbs some of
the rest. So the first calls are not counted, the median stands for the rest, and the
quartiles say how far to trust it. Two things that are to be compared take turns in one
run.

The clock is that of the processor: how long it worked for this thread, with torch and
BLAS held to one. A clock on the wall counts other processes, too: a long call is
interrupted and a short one slips through between, and one and the same network seems 3
times faster now and 5 times then. Wall time is what a user waits, and the only one there
is where an accelerator works or several threads do: it is measured where it is asked
for, and by itself where an accelerator has been used.

Source: Hoefler and Belli 2015, "Scientific Benchmarking of Parallel Computing Systems",
rules 5-7 and 9.
"""

from __future__ import annotations

import gc
import random
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median, quantiles
from typing import Any

import torch
from threadpoolctl import threadpool_limits
from torch import Tensor, nn

from course_lib.checks import check_count


@dataclass(frozen=True)
class Latency:
    """Seconds that one call took: the median, the lower and upper quartile, and every
    sample in the order it was taken; by the clock on the wall, or by the processor's.
    """

    median: float
    low: float
    high: float
    samples: tuple[float, ...]
    wall: bool = False

    @classmethod
    def of(cls, samples: tuple[float, ...], wall: bool = False) -> Latency:
        if len(samples) == 1:
            return cls(samples[0], samples[0], samples[0], samples, wall)
        low, middle, high = quantiles(samples, n=4, method="inclusive")
        return cls(middle, low, high, samples, wall)

    def times_slower_than(self, other: Latency) -> float:
        """Median over the rounds of this time over the other's in the same round, so
        that a slow spell hits both alike. Both must come from one ``compare``.
        """
        if len(self.samples) != len(other.samples) or self.wall != other.wall:
            raise ValueError("the two times are not from one compare")
        return median(a / b for a, b in zip(self.samples, other.samples, strict=True))

    def __str__(self) -> str:
        unit, scale = next(
            ((u, s) for u, s in (("s", 1), ("ms", 1e3)) if self.median * s >= 1), ("µs", 1e6)
        )
        return (
            f"{self.median * scale:.3g} {unit}{'' if self.wall else ' of the processor'} "
            f"({self.low * scale:.3g} to {self.high * scale:.3g})"
        )


def measure(fn: Callable[[], object], **options: Any) -> Latency:
    """Time ``fn()`` alone, with the options of :func:`compare`."""
    return compare({"": fn}, **options)[""]


def compare(
    functions: Mapping[str, Callable[[], object]],
    *,
    warmup: int = 3,
    repeats: int = 20,
    threads: int | None = None,
    wall: bool | None = None,
) -> dict[str, Latency]:
    """Time several functions in one run, taking turns: each round calls every one of
    them once.

    The order is drawn anew for every round (always the same draw): in a fixed order
    each of them would always find the caches and the free memory as its neighbour
    leaves them, and with large tensors that alone can make a factor of 1.5.

    Args:
        functions: they take nothing; what they return is dropped, and freeing it is part
            of the time.
        warmup: calls that are made first and not timed.
        repeats: timed calls.
        threads: how many threads torch and BLAS may use meanwhile. None: one by the
            processor's clock; by that on the wall as many as they have.
        wall: measure wall time; work that is queued on an accelerator is waited for.
            False: the time that the processor worked for this thread, which other
            processes do not lengthen. None: processor time, but wall time where an
            accelerator has been used, whose work the processor's clock does not see
            (and on Windows, whose clock of threads ticks 64 times a second).

    Returns:
        In the order given; the i-th samples of all come from the same round.

    Raises:
        ValueError: if a number is too small, or if several threads are to be timed by
            the processor's clock.
    """
    check_count(repeats, "repeats", 1)
    check_count(warmup, "warmup")
    if wall is None:
        wall = torch.cuda.is_initialized() or sys.platform == "win32"
    if threads is None and not wall:
        threads = 1
    if threads is not None and check_count(threads, "threads", 1) > 1 and not wall:
        raise ValueError(
            f"the processor's clock is that of one thread: to time {threads} threads pass wall=True"
        )
    time_once = _wall_time if wall else _processor_time
    names = list(functions)
    samples: dict[str, list[float]] = {name: [] for name in names}
    shuffle = random.Random(0).shuffle
    with _undisturbed(threads):
        for turn in range(warmup + repeats):
            shuffle(names)
            for name in names:
                seconds = time_once(functions[name])
                if turn >= warmup:
                    samples[name].append(seconds)
    return {name: Latency.of(tuple(times), wall) for name, times in samples.items()}


def forward(model: nn.Module, batch: Tensor) -> Callable[[], object]:
    """One forward pass of ``model`` on ``batch``, without gradients, as ``compare``
    takes it; the model is put into evaluation mode.
    """
    model.eval()

    def once() -> object:
        with torch.inference_mode():
            return model(batch)

    return once


def _processor_time(fn: Callable[[], object]) -> float:
    begin = time.thread_time()
    fn()
    return time.thread_time() - begin


def _wall_time(fn: Callable[[], object]) -> float:
    # an accelerator returns from a call before it has done the work
    wait = torch.cuda.synchronize if torch.cuda.is_initialized() else int
    wait()
    begin = time.perf_counter()
    fn()
    wait()
    return time.perf_counter() - begin


@contextmanager
def _undisturbed(threads: int | None) -> Iterator[None]:
    """So many threads for torch, and for the BLAS of numpy and scipy; and no garbage
    collection in the middle of a call (timeit does the same).
    """
    before, collected = torch.get_num_threads(), gc.isenabled()
    gc.disable()
    try:
        with threadpool_limits(threads):
            torch.set_num_threads(threads or before)
            yield
    finally:
        torch.set_num_threads(before)
        if collected:
            gc.enable()
