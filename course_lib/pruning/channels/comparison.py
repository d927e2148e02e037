"""Two runs on random samples: what removed channels still say, and whether the smaller
model computes the same without them.

A filter of zeros gives its bias everywhere, and a batch norm with scale α = 0 gives its
shift β, not zero; after ReLU it is relu(β). The model with zeroed filters is run once, and
what the next layers read of the removed channels is noted: a constant can move into a
bias. Then the smaller model is run on the same samples. Every layer and the outputs must
agree.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd, _ConvTransposeNd
from torch.utils import _pytree

from course_lib.pruning.channels.slimming import shift_of
from course_lib.pruning.channels.trace import copied

TOLERANCE = {torch.float64: 1e-7}  # relative; other types only if float64 fails
COARSE = 1e-3
VARIES = (
    "some of the removed channels were not constant (they met others that are kept, or each of"
    " their places has another constant), and are dropped"
)


class Comparison:
    """One comparison of ``model`` with a smaller one.

    Args:
        made: layer -> bool (M,), the channels that it still makes; in all layers that are
            compared.
        gone: layer that reads removed channels -> bool (C,), which ones.
        absorbing: such layers whose constants can move into a bias.
    """

    def __init__(
        self,
        model: nn.Module,
        made: Mapping[str, Tensor],
        gone: Mapping[str, Tensor],
        absorbing: set[str],
    ) -> None:
        self.model = model
        self.made, self.gone, self.absorbing = made, gone, absorbing
        self.last = ""  # the layer that was compared last

    def prepared(self, model: nn.Module) -> nn.Module:
        """A copy of ``model`` in the mode and the type of the comparison."""

        def convert(tensor: Tensor) -> Tensor:
            dtype = self.dtype if tensor.is_floating_point() else tensor.dtype
            device = "cpu" if tensor.device.type == "mps" else tensor.device  # no float64 there
            return tensor.detach().to(device, dtype, copy=True)

        return copied(model, convert).eval()

    def run_whole(self, example: Tensor, crop: int) -> tuple[dict[str, Tensor], dict[str, str]]:
        """Run the model with zeroed filters, on images of ``crop`` pixels if it can (0: on
        those of the example's size).

        Returns:
            Layer -> what the constants that it read add to each output that it still
            makes, float64; and layer -> why it is not exactly as with zeroed filters.

        Raises:
            ValueError: if it does not run, or gives numbers that are not finite.
        """
        reason = ""
        ways = [(torch.float64, 0), (torch.promote_types(example.dtype, torch.float32), 0)]
        if 0 < crop < max(example.shape[2:], default=0):
            ways.insert(0, (torch.float64, crop))
        for self.dtype, pixels in ways:
            self.samples = random_samples(example, pixels, self.dtype)
            self.shifts: dict[str, Tensor] = {}
            self.inexact: dict[str, str] = {}
            self.expected: dict[str, list[Tensor]] = {name: [] for name in self.made}
            masked = self.prepared(self.model)
            for name, made in self.made.items():
                layer: Any = masked.get_submodule(name)
                if not isinstance(layer, nn.PReLU) and layer.weight is not None:
                    dim = int(isinstance(layer, _ConvTransposeNd))  # (C, M, ...)
                    gone = (~made).nonzero().flatten().to(layer.weight.device)
                    layer.weight.detach().index_fill_(dim, gone, 0)
            try:
                self.outputs = self._run(masked, self._read_constants, self._note)
                if all(bool(t.isfinite().all()) for t in self.outputs):
                    kept = {n: self.made[n].to(shift.device) for n, shift in self.shifts.items()}
                    return {n: s[kept[n]] for n, s in self.shifts.items()}, self.inexact
                reason = "its outputs are not finite"
            except Exception as error:  # any, in the model's own code
                reason = str(error).strip().partition("\n")[0]
        raise ValueError(
            f"{type(self.model).__name__} cannot be compared with a smaller one on two random"
            f" samples like the example: {reason}"
        )

    def run_smaller(self, smaller: nn.Module, moved: set[str]) -> None:
        """Run the smaller model, as ``prepared`` makes it. Of layers in ``moved`` the
        constants went into the batch norm after them, and only its outputs are compared.

        Raises:
            ValueError: if it does not run, or computes something else, with the layer
                where they part.
        """
        parted: list[str] = []

        def check(name: str, module: nn.Module, args: Any, out: Tensor) -> None:
            found, reads = out.movedim(_dim(module), 0), float(args[0].abs().max()) if args else 0.0
            expected = self.expected[name].pop(0) if self.expected[name] else found[:0]
            problem = "" if name in moved else self._difference(found, expected, reads)
            if problem:
                parted.append(f"{name!r} ({type(module).__name__}) has {problem}")
                raise StopIteration
            self.last = name

        try:
            outputs = self._run(smaller, None, check)
            for found, expected in zip(outputs, self.outputs, strict=True):
                problem = self._difference(found, expected)
                if problem:
                    parted.append(f"the model's output, after {self.last!r}, has {problem}")
        except Exception as error:  # any, in the model's own code
            reason = str(error).strip().partition("\n")[0]
            parted = parted or [f"the model does not run, after {self.last!r}: {reason}"]
        if parted:
            raise ValueError(
                f"these channels cannot be removed: without them {parted[0]}. Does the forward pass"
                " compute with a number of channels, written into it or taken from a shape, or"
                " read the tensors of a layer?"
            )

    def _difference(self, found: Tensor, expected: Tensor, reads: float = 0.0) -> str:
        """How both differ by more than rounding: relative to the largest output, or far
        below ``reads``, the largest number that the layer reads.
        """
        if found.shape != expected.shape:
            return "another shape"
        if not found.numel() or torch.equal(found, expected):
            return ""
        scale = float(expected.abs().max())
        tolerance = TOLERANCE.get(self.dtype, COARSE)
        difference = float((found.double() - expected.double()).abs().max())
        if difference <= tolerance * scale + 1e-5 * tolerance * reads:
            return ""
        return f"other numbers (a relative difference of {difference / (scale or 1):.1g})"

    # ------------------------------------------------------------------- the two hooks
    def _run(self, model: nn.Module, before: Callable[..., Any] | None, after: Any) -> list[Tensor]:
        with ExitStack() as hooks, torch.no_grad():
            for name in self.made:
                module: nn.Module = model.get_submodule(name)
                if before is not None and name in self.gone:
                    handle = module.register_forward_pre_hook(partial(before, name))
                    hooks.callback(handle.remove)
                hooks.callback(module.register_forward_hook(partial(after, name)).remove)
            outputs = _pytree.tree_leaves(model(self.samples.clone()))
        return [t for t in outputs if isinstance(t, Tensor)]

    def _read_constants(self, name: str, module: Any, args: tuple[Tensor, ...]) -> Any:
        """What the removed channels give to ``module``. Where that is not the same at all
        places, the layer gets zeros, as the smaller one does.
        """
        if not args:
            return None
        x, dim = args[0], _dim(module)
        gone = self.gone[name].to(x.device)
        read = middle = x.movedim(dim, 0)[gone]  # (k, B, ...)
        while middle.ndim > 2:  # (k, B)
            middle = middle.select(-1, middle.shape[-1] // 2)
        close = 0.01 * TOLERANCE.get(self.dtype, COARSE) * float(x.abs().max())
        same = (read.flatten(1) - middle[:, :1]).abs() <= close
        # padding before this layer leaves another number at the border alone
        inside = ((middle - middle[:, :1]).abs() <= close).all(1) & (same.double().mean(1) > 0.25)
        constants = torch.zeros(len(gone), dtype=x.dtype, device=x.device)
        constants[gone] = middle[:, 0].where(inside, 0.0)
        if not constants.any() and same.all():
            return None
        if not inside.all():
            self.inexact[name] = VARIES
        elif not same.all() or _has_zero_padding(module):
            self.inexact[name] = "zeros are put round the maps, so borders differ"
        if constants.any() and name not in self.absorbing:
            self.inexact[name] = "the constants of the removed channels are dropped"
        elif constants.any():
            shift = shift_of(module.weight, constants.cpu(), getattr(module, "groups", 1))
            self.shifts[name] = shift.to(x.device)
        if name not in self.inexact:
            return None
        return x.masked_fill(gone.view([-1 if d == dim % x.ndim else 1 for d in range(x.ndim)]), 0)

    def _note(self, name: str, module: nn.Module, args: Any, out: Tensor) -> Tensor:
        dim = _dim(module)
        if name in self.shifts and name in self.inexact:  # it did not read the constants
            shift = self.shifts[name].to(out.dtype)
            out = out + shift.view([-1 if d == dim % out.ndim else 1 for d in range(out.ndim)])
        self.expected[name].append(out.movedim(dim, 0)[self.made[name].to(out.device)])
        return out


def random_samples(example: Tensor, crop: int, dtype: torch.dtype) -> Tensor:
    """Two random samples of the range of the example, always the same."""
    sizes = [min(size, crop or size) for size in example.shape[2:]]
    shape = [2, *example.shape[1:2], *sizes]
    random = torch.rand(shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    low, high = (float(end) for end in example.detach().cpu().double().aminmax())
    where = "cpu" if example.device.type == "mps" else example.device
    if not example.is_floating_point():
        whole = (low + random * (high - low + 1)).floor().clamp(max=high)
        return whole.to(where, example.dtype)
    if not -float("inf") < low < high < float("inf"):
        low, high = -1.0, 1.0
    return (low + random * (high - low)).to(where, dtype)


def _dim(module: nn.Module) -> int:
    """Along which dimension a layer reads and makes channels."""
    return -1 if isinstance(module, nn.Linear) else 1


def _has_zero_padding(module: nn.Module) -> bool:
    """Whether outputs at the border see zeros instead of the constant."""
    if not isinstance(module, _ConvNd) or module.padding_mode != "zeros":
        return False
    if isinstance(module.padding, str):
        return module.padding == "same" and any(k > 1 for k in module.kernel_size)
    return any(p > 0 for p in module.padding)
