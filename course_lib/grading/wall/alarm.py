"""Ends what runs too long in the notebook's own process, where there is no worker to end."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

AGAIN = 0.25  # seconds


class TookTooLong(BaseException):
    """Raised wherever the code is; no ``except Exception`` of a student's holds it up."""


@contextmanager
def alarm(seconds: float) -> Iterator[Callable[[], bool]]:
    """After ``seconds`` raise :class:`TookTooLong` in the block, and again and again until it ends.

    Code that catches everything is left as soon as one of them meets it outside its ``try``.

    Yields:
        Has it rung? Never, where a process has no alarm (Windows) or the block does not run in the main thread.
    """
    if not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return
    rung = False

    def ring(*_: Any) -> None:
        nonlocal rung
        rung = True
        raise TookTooLong

    before = signal.signal(signal.SIGALRM, ring)
    try:
        with suppress(TookTooLong):  # one that comes after the code has ended
            signal.setitimer(signal.ITIMER_REAL, seconds, AGAIN)
            try:
                yield lambda: rung
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
    finally:
        signal.signal(signal.SIGALRM, before)
