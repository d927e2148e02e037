"""Two runs on random samples: what removed channels still say, and whether the smaller
model computes the same without them.

A filter of zeros gives its bias everywhere, and a batch norm with scale α = 0 gives its
shift β, not zero; after ReLU it is relu(β). The model is run once with the removed
channels silenced like that, and what the next layers read of them is noted: a constant can
move into a bias. Then the smaller model is run on the same samples. Every layer and the
outputs must agree.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.conv import _ConvNd, _ConvTransposeNd
from torch.utils import _pytree

from course_lib.pruning.channels.groups import MAKERS, Channels
from course_lib.pruning.channels.slimming import shift_of
from course_lib.pruning.channels.trace import computing_as

TOLERANCE = {torch.float64: 1e-7}  # relative; other types only if float64 fails
COARSE = 1e-3
Kept = Mapping[str, Tensor]  # layer -> bool, True = kept
VARIES = "some of the removed channels were not constant (they met others, or vary by place)"


class Comparison:
    """One comparison of a model with a smaller one.

    Args:
        makes, reads: the channels that each layer still makes and reads.
        absorb: whether constants are to move into a bias.
    """

    def __init__(self, channels: Channels, makes: Kept, reads: Kept, absorb: bool) -> None:
        self.channels, self.makes, self.absorb = channels, makes, absorb
        self.twin = channels.trace.module
        kinds = {name: call.kind for name, call in channels.calls.items()}
        self.gone = {n: ~k for n, k in reads.items() if kinds[n] in MAKERS and not k.all()}

    def run_whole(self, model: nn.Module, example: Tensor) -> dict[str, str]:
        """Run the model with silenced channels, and note what their constants add.

        Returns:
            Layer -> why it is not exactly as with zeroed filters.

        Raises:
            ValueError: if it does not run, or gives numbers that are not finite.
        """
        coarse = torch.promote_types(example.dtype, torch.float32)
        crop = 0 if self.channels.borders else 32
        for self.dtype, pixels in (torch.float64, crop), (torch.float64, 0), (coarse, 0):
            self.shifts: dict[str, Tensor] = {}  # layer -> what is added, float64
            self.inexact: dict[str, str] = {}
            self.expected: dict[str, list[Tensor]] = {name: [] for name in self.makes}
            try:
                self.samples = random_samples(example, pixels, self.dtype)
                with computing_as(self.twin, model, self._convert):
                    for name in self.makes:
                        module = self.twin.get_submodule(name)
                        module.register_forward_pre_hook(partial(self._before, name))
                    self.outputs = self._run(self._silence)
                if all(bool(t.isfinite().all()) for t in self.outputs):
                    return self.inexact
                reason = "its outputs are not finite"
            except Exception as error:  # any, in the model's own code
                reason = _first_line(error)
        raise ValueError(
            f"{type(model).__name__} cannot be compared with a smaller one on two random samples"
            f" like the example: {reason}"
        )

    def run_smaller(self, smaller: nn.Module) -> dict[str, str]:
        """Add the constants to ``smaller``, and compare.

        Returns:
            Layer -> where its constants are now.

        Raises:
            ValueError: if it does not run, or computes something else, with the layer
                where they part.
        """
        parted, last, absorbed = [], "", dict[str, str]()

        def check(name: str, module: nn.Module, args: Any, out: Tensor) -> None:
            nonlocal last
            found, expected, last = out.movedim(_dim(module), 0), self.expected[name], name
            problem = self._difference(found, expected.pop(0) if expected else found[:0], args[0])
            if problem and "mean" not in absorbed.get(name, ""):  # the batch norm is compared
                parted.append(f"{name!r} ({type(module).__name__}) has {problem}")

        try:
            with computing_as(self.twin, smaller, self._convert):
                absorbed |= {name: self._add(self.twin, name) for name in self.shifts}
                for found, expected in zip(self._run(check), self.outputs, strict=True):
                    if problem := self._difference(found, expected, torch.zeros(1)):
                        parted.append(f"the model's output, after {last!r}, has {problem}")
        except Exception as error:  # any, in the model's own code
            parted.append(f"the model does not run, after {last!r}: {_first_line(error)}")
        if parted:
            raise ValueError(
                f"these channels cannot be removed: without them {parted[0]}. Does the forward pass"
                " compute with a number of channels, written into it or taken from a shape, or"
                " read the tensors of a layer, or do two layers share theirs?"
            )
        return {name: self._add(smaller, name) for name in self.shifts}

    def _add(self, model: nn.Module, name: str) -> str:
        """Add a shift to all that a layer makes, in the cheapest place: returns where."""
        layer: Any = model.get_submodule(name)
        shift = self.shifts[name]
        if (bias := layer.bias) is not None:
            layer.bias = nn.Parameter((bias.to(shift) + shift).to(bias), bias.requires_grad)
            return "its bias"
        users = list(self.channels.calls[name].node.users)
        behind = str(users[0].target) if users[0].op == "call_module" else ""
        norm: Any = model.get_submodule(behind)
        alone = len(users) == self.channels.times[behind] == 1
        if alone and isinstance(norm, _BatchNorm) and (mean := norm.running_mean) is not None:
            norm.running_mean = (mean.to(shift) - shift).to(mean)
            return f"the running mean of {behind!r}"
        weight = layer._parameters.get("weight")
        layer.bias = nn.Parameter(shift.to(layer.weight), weight.requires_grad)
        return "a bias that it did not have"

    def _convert(self, tensor: Tensor) -> Tensor:
        return tensor.to(self.dtype if tensor.is_floating_point() else tensor.dtype, copy=True)

    def _difference(self, found: Tensor, expected: Tensor, read: Tensor) -> str:
        """How both differ by more than rounding: relative to the largest output, or far
        below the largest number that the layer read.
        """
        if found.shape != expected.shape:
            return "another shape"
        if not found.numel() or torch.equal(found, expected):
            return ""
        tolerance, scale = TOLERANCE.get(self.dtype, COARSE), float(expected.abs().max())
        difference = float((found.double() - expected.double()).abs().max())
        if difference <= tolerance * (scale + 1e-5 * float(read.abs().max())):
            return ""
        return f"other numbers (a relative difference of {difference / (scale or 1):.1g})"

    def _run(self, after: Any) -> list[Tensor]:
        for name in self.makes:
            self.twin.get_submodule(name).register_forward_hook(partial(after, name))
        with torch.no_grad():
            outputs = _pytree.tree_leaves(self.twin(self.samples.clone()))
        return [t for t in outputs if isinstance(t, Tensor)]

    # ------------------------------------------------------- hooks of the run of the whole
    def _before(self, name: str, module: Any, args: tuple[Tensor, ...]) -> Any:
        """Note what the removed channels give to a layer. Where that is not the same at all
        places, it gets zeros, as the smaller one does.
        """
        x, dim, kept = args[0], _dim(module), self.makes[name]
        if _is_plain(module) and not kept.all():
            # silent filters need not be computed
            module._parameters.rows = kept.nonzero().flatten().to(x.device)
        if name not in self.gone:
            return None
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
        # a transposed convolution makes different numbers of one constant
        once = self.channels.times[name] == 1 and not isinstance(module, _ConvTransposeNd)
        if constants.any() and not (self.absorb and once):
            self.inexact[name] = "the constants of the removed channels are dropped"
        elif constants.any():
            shift = shift_of(module.weight, constants.cpu(), getattr(module, "groups", 1))
            self.shifts[name] = (shift if len(shift) < len(kept) else shift[kept]).to(x.device)
        if name in self.inexact:
            return x.masked_fill(_along(gone, x, dim), 0), *args[1:]
        return None

    def _silence(self, name: str, module: Any, args: Any, out: Tensor) -> Tensor:
        """Put the bias, or β, in the place of what removed channels give."""
        dim, made = _dim(module), self.makes[name].to(out.device)
        values = out.movedim(dim, 0)
        if len(values) < len(made):  # silent filters were not computed
            module._parameters.rows = None
            found, sizes = values, list(out.shape)
            sizes[dim] = len(made)
            out = out.new_zeros(sizes)
            values = out.movedim(dim, 0)
        else:
            found = values[made]
        if name in self.shifts and name in self.inexact:  # it did not read the constants
            found = found + _along(self.shifts[name].to(out.dtype), found, 0)
        self.expected[name].append(found)
        values[made] = found
        if not isinstance(module, nn.PReLU) and module._parameters.get("weight") is not None:
            values[~made] = 0 if module.bias is None else _along(module.bias[~made], values, 0)
        return out


def random_samples(example: Tensor, crop: int, dtype: torch.dtype) -> Tensor:
    """Two random samples of the range of the example, always the same."""
    sizes = [min(size, crop or size) for size in example.shape[2:]]
    shape = [2, *example.shape[1:2], *sizes]
    random = torch.rand(shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    low, high = (float(end) for end in example.detach().cpu().double().aminmax())
    if not example.is_floating_point():
        whole = (low + random * (high - low + 1)).floor().clamp(max=high)
        return whole.to(example.device, example.dtype)
    if not -float("inf") < low < high < float("inf"):
        low, high = -1.0, 1.0
    return (low + random * (high - low)).to(example.device, dtype)


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]


def _dim(module: nn.Module) -> int:
    """Along which dimension a layer reads and makes channels."""
    return -1 if isinstance(module, nn.Linear) else 1


def _along(values: Tensor, x: Tensor, dim: int) -> Tensor:
    """``values`` in the shape that broadcasts them along dimension ``dim`` of ``x``."""
    return values.view([-1 if d == dim % x.ndim else 1 for d in range(x.ndim)])


def _is_plain(module: nn.Module) -> bool:
    """Whether all filters of a layer read all channels, and are the rows of its weight."""
    if isinstance(module, _ConvNd):
        return module.groups == 1 and not module.transposed
    return isinstance(module, nn.Linear)


def _has_zero_padding(module: nn.Module) -> bool:
    """Whether outputs at the border see zeros instead of the constant."""
    if not isinstance(module, _ConvNd) or module.padding_mode != "zeros":
        return False
    return (
        any(k > 1 for k in module.kernel_size)
        if module.padding == "same"
        else (module.padding != "valid" and any(module.padding))
    )
