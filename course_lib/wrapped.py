"""Models that ``torch.compile``, ``torch.jit``, ``nn.DataParallel``, ``torch.ao`` or
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
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.nn.utils.prune import BasePruningMethod

_lock = threading.Lock()
_open = 0  # blocks of hold_hooks that are open, in all threads
_stance: Any = None  # while one is open: what sets torch.compile's stance back


@contextmanager
def hold_hooks() -> Iterator[ExitStack]:
    """A stack for the hooks of one block: they are removed when the block ends.

    Inside the block all code runs without ``torch.compile``: compiled code does not check
    whether hooks were added since. ``torch.compiler.set_stance`` is one setting for the
    whole process: the first block sets it, the last one sets it back.
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


def refuse_wrapped(model: nn.Module, *allowed: str) -> None:
    """Make sure that ``model`` is the module itself, and say what to pass instead.

    Args:
        allowed: wrappers that the caller can work with, of "parallel", "compile",
            "script" and "prune".

    Raises:
        ValueError: if the model, or a part of it, is wrapped in another way.
    """
    for path, module in model.named_modules():
        hooks = [h for h in module._forward_pre_hooks.values() if isinstance(h, BasePruningMethod)]
        kinds = {
            "parallel": isinstance(module, nn.DataParallel | DistributedDataParallel)
            and "wrapped in DataParallel: pass its .module",
            "compile": "_orig_mod" in module._modules
            and "what torch.compile returned: pass the model that it was given, its ._orig_mod",
            "script": isinstance(module, torch.jit.ScriptModule)
            and "scripted or traced by torch.jit: pass the model that it was made from",
            "quantised": type(module).__module__.startswith("torch.ao.nn.quantized")
            and "quantised, without weights to prune: pass the model as it was, and quantise the"
            " pruned one",
            "prune": hooks
            and "under torch.nn.utils.prune: call prune.remove(module,"
            f" {hooks[0]._tensor_name!r}) first, which makes the weight a plain parameter",
        }
        for kind, what in kinds.items():
            if what and kind not in allowed:
                where = f"{path!r} of model" if path else "model"
                raise ValueError(f"{where} is {what}")
