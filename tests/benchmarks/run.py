"""``make bench``: our functions beside the best known peers, as one table.

Every row compares the results first. Then the contestants take turns in one run, in an
order that is drawn again for every round, and the ratio is the median of (theirs / ours)
over the rounds, with its quartiles: above 1, ours is faster. Peers are called as their own
documentation says. ``python tests/benchmarks/run.py CSR heads`` makes the rows whose name
has one of these words.
"""

from __future__ import annotations

import random
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from threadpoolctl import threadpool_limits

import course_lib  # noqa: F401  before torchvision, which may need its operators declared

LINE = "{:44} {:>10} {:24} {:>10} {:>7}  {}"


@dataclass
class Row:
    """``check(ours, theirs)`` raises AssertionError where a peer gives something else. What
    ``prepare`` gives is the argument of all, made again before each call and not timed.
    """

    name: str
    ours: Callable[..., Any]
    peers: dict[str, Callable[..., Any]]
    check: Callable[[Any, Any], object]
    prepare: Callable[[], tuple[Any, ...]] = tuple
    rounds: int = 7
    threads: list[int] = field(default_factory=lambda: [1])


def seconds(row: Row, threads: int) -> dict[str, list[float]]:
    ways = {"ours": row.ours, **row.peers}
    names, shuffle = list(ways), random.Random(0).shuffle
    taken: dict[str, list[float]] = {name: [] for name in names}
    # processor time, which other work does not lengthen, is that of one thread
    clock = time.perf_counter if threads > 1 else time.thread_time
    with threadpool_limits(threads):
        torch.set_num_threads(threads)
        for turn in range(row.rounds + 1):  # the first warms up
            shuffle(names)
            for name in names:
                given = row.prepare()
                begin = clock()
                result = ways[name](*given)
                end = clock()
                del result
                if turn:
                    taken[name].append(end - begin)
    return taken


def lines(row: Row) -> Iterator[str]:
    expected = row.ours(*row.prepare())
    for peer in row.peers.values():
        row.check(expected, peer(*row.prepare()))
    for threads in dict.fromkeys(row.threads):
        taken = seconds(row, threads)
        ours = taken.pop("ours")
        name = row.name + f", {threads} threads" * (threads > 1)
        for peer, theirs in taken.items():
            ratios = [their / our for their, our in zip(theirs, ours, strict=True)]
            low, middle, high = statistics.quantiles(ratios, n=4)
            times = [f"{1000 * statistics.median(times):.2f} ms" for times in (ours, theirs)]
            spread = f"({low:.2f} to {high:.2f})" + " <1" * (middle < 1)
            yield LINE.format(name, times[0], peer, times[1], f"{middle:.2f}x", spread)


def main(words: list[str]) -> None:
    import of_channels
    import of_encodings
    import of_language_models
    import of_transformers
    import of_weights

    warnings.filterwarnings("ignore", "Sparse CS[RC] tensor support is in beta")
    print(f"torch {torch.__version__}")
    print(LINE.format("", "ours", "peer", "theirs", "ratio", "(quartiles)"))
    for of in (of_encodings, of_weights, of_channels, of_transformers, of_language_models):
        for name, make in of.ROWS.items():
            if not words or any(word.lower() in name.lower() for word in words):
                torch.manual_seed(0)
                for line in lines(make(name)):
                    print(line, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
