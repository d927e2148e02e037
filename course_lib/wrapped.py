"""Models that ``torch.compile``, ``torch.jit``, ``nn.DataParallel`` or
``torch.nn.utils.prune`` have wrapped: hooks that take effect there, and a refusal that
says which model to pass instead.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch

_lock = threading.Lock()
_open = 0  # blocks of hold_hooks that are open, in all threads
_stance: Any = None  # while one is open: what sets torch.compile's stance back


@contextmanager
def hold_hooks() -> Iterator[ExitStack]:
    """A stack for the hooks of one block: they are removed when the block ends.

    Inside the block all code runs without ``torch.compile``. Compiled code does not
    check whether hooks were added since, so they would do nothing.
    ``torch.compiler.set_stance`` is one setting for the whole process: the first block
    sets it, the last one sets it back.
    """
    global _open, _stance
    with _lock:
        _open += 1
        # before dynamo is imported, which takes a second, nothing is compiled
        if _stance is None and "torch._dynamo" in sys.modules:
            _stance = torch.compiler.set_stance("force_eager")
    try:
        with ExitStack() as hooks:
            yield hooks
    finally:
        with _lock:
            _open -= 1
            if not _open and _stance is not None:
                _stance.__exit__(None, None, None)
                _stance = None
