"""How far trainings are, in one line that ends with them, and how they are interrupted.

In a notebook the line is text that is replaced, not a widget: a widget of a finished bar would
be missing when the notebook is opened again.
"""

from __future__ import annotations

import io
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tqdm import tqdm


class Interrupted(KeyboardInterrupt):
    """What :kbd:`Ctrl+C` and "Interrupt Kernel" make of a training: one line in a notebook."""

    def _render_traceback_(self) -> list[str]:
        return [str(self)]


@contextmanager
def raising_interrupted(message: str) -> Iterator[None]:
    """Make :class:`Interrupted`, with a message, of an interrupt in the block."""
    try:
        yield
    except Interrupted:
        raise
    except KeyboardInterrupt:
        raise Interrupted(message) from None


class Run:
    """One of several runs side by side, whose trainings count their steps here."""

    def __init__(self) -> None:
        self.steps = 0  # made until now
        self.total = 0  # that the trainings begun until now will make
        self.ended = False
        self.stopped = False  # should it end at its next step?

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Trainings of this thread count their steps here."""
        _here.run = self
        try:
            yield
        finally:
            self.ended, _here.run = True, None

    def count_step(self) -> None:
        """Count a training step, or end the run that was stopped."""
        if self.stopped:
            raise Interrupted("stopped")
        self.steps += 1


_here = threading.local()


def current_run() -> Run | None:
    """The run that this thread works on, if it is one of several side by side."""
    return getattr(_here, "run", None)


def count_done(runs: Sequence[Run]) -> float:
    """How many of the runs are done, with the share of those that are at work.

    A run is taken to make as many steps as those that have ended made on average; before one
    has ended, as the largest has begun.
    """
    ended = [run.steps for run in runs if run.ended]
    usual = sum(ended) / len(ended) if ended else max((run.total for run in runs), default=0)
    working = [run.steps for run in runs if run.steps and not run.ended]
    return len(ended) + sum(min(steps / usual, 0.99) for steps in working if usual)


def open_bar(
    total: float, what: str, *, shown: bool = True, unit: str = "", delay: float = 1
) -> Any:
    """A bar that appears after ``delay`` seconds and leaves nothing when it is closed.

    Args:
        total: of what ``bar.update`` counts.
        what: is done; stands before the bar. unit: of whole things; "" of runs.
    """
    count = "{n:.0f}" if unit else "{n:.1f}"  # of runs, those at work are counted in part
    return tqdm(
        total=total,
        desc=what,
        disable=not shown,
        leave=False,
        delay=delay,
        mininterval=0.5,
        miniters=0,
        smoothing=0,
        file=_Line() if _in_notebook() else None,
        bar_format=f"{{desc}}: {{percentage:.0f}} %|{{bar:20}}| {count} of {{total}}{unit}"
        ", {remaining} left{postfix}",
    )


_bars_of_others = threading.RLock()  # one switch for all threads


@contextmanager
def without_bars() -> Iterator[None]:
    """No bars of transformers and datasets inside, which are widgets in a notebook; then as it
    was. One thread at a time.
    """
    from transformers.utils import logging

    with _bars_of_others:
        enable = [logging.enable_progress_bar] if logging.is_progress_bar_enabled() else []
        logging.disable_progress_bar()
        if "datasets" in sys.modules:  # the library alone does without it
            import datasets  # waits where another thread is importing it

            if not datasets.are_progress_bars_disabled():
                enable.append(datasets.enable_progress_bars)
            datasets.disable_progress_bars()
        try:
            yield
        finally:
            for function in enable:
                function()


class _Line(io.TextIOBase):
    """A place in a notebook's output that shows what was written to it last."""

    _handle: Any = None

    def write(self, text: str) -> int:
        from IPython.display import display

        shown = {"text/plain": text.strip("\r\n ")}
        if self._handle is not None:
            self._handle.update(shown, raw=True)
        elif shown["text/plain"]:
            self._handle = display(shown, raw=True, display_id=True)
        return len(text)


def _in_notebook() -> bool:
    shell = sys.modules.get("IPython")
    return shell is not None and hasattr(shell.get_ipython(), "kernel")
