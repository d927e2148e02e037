"""How long something takes, measured so that the figure can be believed: warm-up,
median, spread, and fair turns.

MACs and bits say what a method could save; only a clock says what it does save on this
machine. A single timing says little: the first calls fill caches and compile kernels,
and other work disturbs some of the rest. So the first calls are thrown away, the median
stands for the rest, and the quartiles say how far to trust it. Two things that are to
be compared take turns in one run, since the machine of a minute ago was another
machine.

The clock is that of the processor: how long it worked for this thread, with torch and
BLAS held to one. A clock on the wall counts the others, too. Where two processes want
one core, a long call is interrupted and a short one slips through between, and one and
the same network seems 3 times faster now and 5 times then. Wall time is what a user
waits, and the only one there is where an accelerator works or several threads do: it is
measured where it is asked for, and by itself where an accelerator has been used.

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

import torch
from threadpoolctl import threadpool_limits
from torch import Tensor, nn


@dataclass(frozen=True)
class Latency:
    """Seconds that one call took: the median, the lower and upper quartile, and every
    sample in the order it was taken.
    """

    median: float
    low: float
    high: float
    samples: tuple[float, ...]
    wall: bool = False  # by the clock on the wall, or by the processor's

    @classmethod
    def of(cls, samples: tuple[float, ...], wall: bool = False) -> Latency:
        if len(samples) == 1:
            return cls(samples[0], samples[0], samples[0], samples, wall)
        low, middle, high = quantiles(samples, n=4, method="inclusive")
        return cls(middle, low, high, samples, wall)

    def times_slower_than(self, other: Latency) -> float:
        """Median over the rounds of this time over the other's in the same round, so
        that a slow spell hits both alike.

        Both must come from one ``compare``.

        Raises:
            ValueError: if they do not.
        """
        if len(self.samples) != len(other.samples) or self.wall != other.wall:
            raise ValueError(
                f"not from one compare: {len(self.samples)} and {len(other.samples)} samples"
            )
        return median(
            mine / theirs for mine, theirs in zip(self.samples, other.samples, strict=True)
        )

    def __str__(self) -> str:
        unit, scale = next(
            ((u, s) for u, s in (("s", 1), ("ms", 1e3)) if self.median * s >= 1), ("µs", 1e6)
        )
        return (
            f"{self.median * scale:.3g} {unit}{'' if self.wall else ' of the processor'} "
            f"({self.low * scale:.3g} to {self.high * scale:.3g})"
        )


def measure(
    fn: Callable[[], object],
    *,
    warmup: int = 3,
    repeats: int = 20,
    threads: int | None = None,
    wall: bool | None = None,
) -> Latency:
    """Time ``fn()``.

    Args:
        fn: takes nothing; what it returns is dropped, and freeing it is part of the
            time.
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
        Median and quartiles in seconds.

    Raises:
        ValueError: if ``repeats`` or ``threads`` is below 1, or ``warmup`` below 0, or
            if several threads are to be timed by the processor's clock.
    """
    return compare({"": fn}, warmup=warmup, repeats=repeats, threads=threads, wall=wall)[""]


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
        functions: name -> function without arguments.
        warmup, repeats, threads, wall: as in ``measure``.

    Returns:
        name -> Latency, in the order given; the i-th samples of all come from the same
        round.

    Raises:
        ValueError: as ``measure``.
    """
    if repeats < 1 or warmup < 0:
        raise ValueError(
            f"repeats must be at least 1 and warmup at least 0, got {repeats} and {warmup}"
        )
    if wall is None:
        wall = _accelerator_used() or sys.platform == "win32"
    if threads is None and not wall:
        threads = 1
    if threads is not None and threads > 1 and not wall:
        raise ValueError(
            f"the processor's clock is that of one thread: to time {threads} threads pass wall=True"
        )
    time_once = _wall_time if wall else _processor_time
    names = list(functions)
    samples: dict[str, list[float]] = {name: [] for name in names}
    shuffle = random.Random(0).shuffle
    with _threads(threads), _no_garbage_collection():
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
    _synchronize()
    begin = time.perf_counter()
    fn()
    _synchronize()
    return time.perf_counter() - begin


def _accelerator_used() -> bool:
    return torch.cuda.is_initialized() or (
        torch.backends.mps.is_available() and torch.mps.driver_allocated_memory() > 0
    )


def _synchronize() -> None:
    """Wait for accelerators, which return from a call before they have done the
    work.
    """
    if torch.cuda.is_initialized():
        torch.cuda.synchronize()
    if torch.backends.mps.is_available():
        torch.mps.synchronize()


@contextmanager
def _threads(threads: int | None) -> Iterator[None]:
    """So many for torch, and for the BLAS of numpy and scipy."""
    if threads is None:
        yield
        return
    if threads < 1:
        raise ValueError(f"threads must be at least 1, got {threads}")
    before = torch.get_num_threads()
    try:
        with threadpool_limits(threads):
            torch.set_num_threads(threads)
            yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """A collection in the middle of one call would be charged to that call alone
    (timeit does the same).
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
