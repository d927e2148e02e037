"""How a student's code is ended: with its process, or in the notebook's own, where there is
no worker to end.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")

AGAIN = 0.25  # seconds


class WorkerLost(Exception):
    """The student's code ended or hung its process; ``str()`` says which, for the
    student.
    """


class TookTooLong(BaseException):
    """Raised wherever the code is; no ``except Exception`` of a student's holds it
    up.
    """


def limited(seconds: float, function: Callable[[], T]) -> tuple[T | None, bool]:
    """``function()``, in which :class:`TookTooLong` is raised after ``seconds``, and
    again and again until it ends.

    Code that catches everything is left as soon as one of them meets it outside its
    ``try``. It is no context manager: what a block leaves behind may take long to be
    freed, and the alarm would ring where the block is over and its end has not begun.

    Returns:
        What it returned, None where it was ended; and whether it rang. It never does
        where a process has no alarm (Windows) or outside the main thread.
    """
    if (
        not hasattr(signal, "setitimer")
        or threading.current_thread() is not threading.main_thread()
    ):
        return function(), False
    rung, over = False, False

    def ring(*_: Any) -> None:
        nonlocal rung
        if not over:
            rung = True
            raise TookTooLong

    before = signal.signal(signal.SIGALRM, ring)
    result = None
    try:
        try:
            signal.setitimer(signal.ITIMER_REAL, seconds, AGAIN)
            result = function()
        except TookTooLong:
            pass
    finally:
        while True:
            try:
                over = True
                signal.setitimer(signal.ITIMER_REAL, 0)
                signal.signal(signal.SIGALRM, before)
                break
            except TookTooLong:  # one that came before it was over
                continue
    return result, rung
