"""A device that no machine lacks: its tensors are the processor's, but say that they are
on an accelerator named "pretend".

As on CUDA, an operation on tensors of both devices raises, and so does ``numpy()``;
:data:`moves` counts what is carried over, by the line that asked for it. Autograd,
``torch.func``, copies and modules work. What it cannot show: CUDA's own numbers, its
kernels without a float64 or a deterministic form, and time.

As a script it runs labs on it: ``python tests/pretended_device.py 02 07``.
"""

from __future__ import annotations

import collections
import contextlib
import linecache
import os
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils import backend_registration
from torch.utils._python_dispatch import TorchDispatchMode, return_and_correct_aliasing
from torch.utils._pytree import tree_any, tree_flatten, tree_map, tree_unflatten

ROOT = Path(__file__).resolve().parent.parent
NAME = "pretend"
moves: collections.Counter[str] = collections.Counter()
aten = torch.ops.aten
_COPIES = (aten.copy_.default, aten._to_copy.default)
# CUDA, too, takes places from the processor
_INDEXED = (
    aten.index.Tensor,
    aten.index_put.default,
    aten.index_put_.default,
    aten._index_put_impl_.default,
)


class _Module(backend_registration._DummyBackendModule):
    """What torch asks of the module of a device."""

    def get_rng_state(self, device: Any = None) -> Tensor:
        return torch.get_rng_state()

    def set_rng_state(self, state: Tensor, device: Any = None) -> None:
        pass

    def manual_seed(self, seed: int) -> None:
        pass

    manual_seed_all = manual_seed


class PretendedTensor(Tensor):
    """``held`` is its data, on the processor."""

    held: Tensor

    @staticmethod
    def __new__(cls, real: Tensor) -> PretendedTensor:
        made = Tensor._make_wrapper_subclass(
            cls,
            real.size(),
            strides=real.stride(),
            storage_offset=real.storage_offset(),
            dtype=real.dtype,
            device=torch.device(NAME, 0),
        )
        made.held = real
        return made

    __torch_function__ = torch._C._disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(
        cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        return _run(func, args, kwargs or {})

    @property
    def data(self) -> Tensor:
        return self.detach()

    @data.setter
    def data(self, new: PretendedTensor) -> None:
        Tensor.data.__set__(self, new)
        self.held = new.held

    def __format__(self, spec: str) -> str:
        return format(self.item() if self.dim() == 0 else object.__str__(self), spec)

    def __repr__(self, **_: Any) -> str:
        return f"{NAME}({self.held!r})"

    def tolist(self) -> Any:
        _count("tolist")
        return self.held.tolist()

    def numpy(self, **_: Any) -> Any:
        raise TypeError(
            f"can't convert {NAME} device type tensor to numpy: use Tensor.cpu() first ({_line()})"
        )

    def __array__(self, *_: Any, **__: Any) -> Any:
        return self.numpy()


def _line() -> str:
    """The line of the course that is being run."""
    frame = sys._getframe(1)
    while frame.f_back is not None:
        file = frame.f_code.co_filename
        if file != __file__ and not any(part in file for part in ("/torch/", "/lib/python")):
            code = linecache.getline(file, frame.f_lineno).strip()
            return f"{Path(file).name}:{frame.f_lineno} {code}"
        frame = frame.f_back
    return "?"


def _count(what: str) -> None:
    moves[f"{what} {_line()}"] += 1


def _check_devices(func: Any, args: tuple[Any, ...], flat: list[Any]) -> None:
    others = [t for t in flat if isinstance(t, Tensor) and not isinstance(t, PretendedTensor)]
    if func in _INDEXED and isinstance(args[0], PretendedTensor):
        places = [place for place in args[1] if place is not None]
        others = [t for t in others if not any(t is place for place in places)]
    if func not in _COPIES and any(t.dim() for t in others):
        raise RuntimeError(f"{func}: expected all tensors to be on the same device ({_line()})")
    if any(isinstance(each, torch.Generator) for each in flat):
        raise RuntimeError(f"{func}: expected a {NAME!r} device type for generator ({_line()})")


def _run(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """An operation on the data of its tensors; what comes out is on the device that it
    would be on.
    """
    flat, spec = tree_flatten((args, kwargs))
    ours = [each for each in flat if isinstance(each, PretendedTensor)]
    asked = kwargs.get("device")
    here = bool(ours) if asked is None else torch.device(asked).type == NAME
    if ours or here:
        _check_devices(func, args, flat)
    if func is aten.copy_.default:
        here = isinstance(args[0], PretendedTensor)
    if func in _COPIES:
        source = args[1] if func is aten.copy_.default else args[0]
        if here != isinstance(source, PretendedTensor):
            _count("to the device" if here else "to the processor")
    if ours and func is aten._local_scalar_dense.default:
        _count("item")

    def real(each: Any) -> Any:
        if isinstance(each, torch.device) and each.type == NAME:
            return torch.device("cpu")
        return each.held if isinstance(each, PretendedTensor) else each

    real_args, real_kwargs = tree_unflatten([real(each) for each in flat], spec)
    if asked is not None:
        real_kwargs["device"] = torch.device("cpu")
    same = {id(tensor.held): tensor for tensor in ours}  # where an operation works in place

    def wrap(each: Any) -> Any:
        if not isinstance(each, Tensor) or not here:
            return each
        return same[id(each)] if id(each) in same else PretendedTensor(each)

    out = tree_map(wrap, func(*real_args, **real_kwargs))
    if (func._schema.is_mutable or func.is_view) and tree_any(
        lambda each: isinstance(each, PretendedTensor), out
    ):
        return return_and_correct_aliasing(func, args, kwargs, out)
    return out


class Pretending(TorchDispatchMode):
    """Inside the block new tensors may be put on the device; in threads it is always open
    (:func:`register`).
    """

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        return _run(func, args, kwargs or {})


def _copy_from(source: Tensor, target: Tensor, non_blocking: bool = False) -> Tensor:
    real = [t.held if isinstance(t, PretendedTensor) else t for t in (source, target)]
    real[1].copy_(real[0])
    return target


def register() -> None:
    """Make the device known to torch: for good, so do it in a process of its own."""
    backend_registration._setup_privateuseone_for_python_backend(NAME, _Module())
    library = torch.library.Library("aten", "IMPL")
    _kept.append(library)
    library.impl(
        "empty_strided",
        lambda size, stride, dtype=None, **_: PretendedTensor(
            torch.empty_strided(size, stride, dtype=dtype)
        ),
        "PrivateUse1",
    )
    library.impl(
        "empty.memory_format",
        lambda size, dtype=None, **_: PretendedTensor(torch.empty(size, dtype=dtype)),
        "PrivateUse1",
    )
    library.impl("_copy_from", _copy_from, "PrivateUse1")
    # a view of such a tensor does not come out of inference mode
    torch.inference_mode = torch.no_grad
    run: Callable[..., None] = threading.Thread.run

    def run_pretending(thread: threading.Thread) -> None:
        with Pretending():
            run(thread)

    threading.Thread.run = run_pretending


_kept: list[Any] = []


def run_lab(number: str) -> list[str]:
    """Run a walkthrough, shortened, with its data and models on the device: what failed."""
    import jupytext
    from IPython.core.interactiveshell import InteractiveShell
    from IPython.utils.io import capture_output
    from shortened import EVERY_CELL, shortened

    (source,) = (ROOT / "solutions").glob(f"lab{number}_*.py")
    notebook = shortened(jupytext.read(source), EVERY_CELL[f"lab{number}"])
    shell = InteractiveShell()
    failed = []
    for cell in notebook.cells:
        if cell.cell_type != "code":
            continue
        code = cell.source.replace('devices.use("cpu")', f'devices.use("{NAME}")')
        with Pretending(), capture_output():
            result = shell.run_cell(code)
        if error := result.error_before_exec or result.error_in_exec:
            failed.append(f"{code.splitlines()[0]}: {type(error).__name__}: {error}")
    return failed


def main(numbers: list[str]) -> int:
    """0 if every cell of these labs ran."""
    register()
    os.environ["COURSE_ROOT"] = str(ROOT)
    sys.path[:0] = [str(ROOT), str(ROOT / "tests"), str(ROOT / "solutions")]
    failed = 0
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):  # for the ledger
        for number in numbers:
            moves.clear()
            found = run_lab(number)
            failed += bool(found)
            print(f"lab {number}: {len(found)} cells failed", *found, sep="\n  ")
            for line, times in moves.most_common(8):
                print(f"    {times:6} times {line}")
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
