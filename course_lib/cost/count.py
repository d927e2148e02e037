"""What a whole model costs: run it once on an example, and count every product it
computes on the way.

How many products an operation computes is torch's own formula, from
``torch.utils.flop_counter``. Here they are assigned to layers and weights, so that those
with a zero weight can be left out.

Source: for what counts as a MAC, Sze, Chen, Yang and Emer 2020, "Efficient Processing
of Deep Neural Networks", section 2.2.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import prod
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry

from course_lib.modes import evaluating
from course_lib.wrapped import hold_hooks, refuse_wrapped


@dataclass(frozen=True)
class LayerCost:
    """What one call of one layer costs, on the inputs it was given.

    Biases, the scales of normalisation layers and other vectors are not counted, as in
    :mod:`course_lib.cost.formulas`.
    """

    name: str  # of the module; of nn.MultiheadAttention with one of its projections, ".q_proj"
    kind: str  # of operation: "conv2d", "linear", "matmul", "embedding", ...
    macs: int  # dense; products with padding included
    nonzero_macs: int  # with a weight that is not zero
    weights: int
    nonzero_weights: int
    repeated: bool = False  # an earlier row has its weights: called twice, or tied
    counted: bool = True  # False: there are weights whose MACs are not known (macs is 0)


def model_cost(
    model: nn.Module, inputs: Tensor | Sequence[Any] | Mapping[str, Any]
) -> list[LayerCost]:
    """Run ``model`` once on ``inputs`` and count every product with a weight, and every
    product of two activations.

    Counted are convolutions and transposed convolutions, linear layers,
    ``nn.MultiheadAttention``, ``scaled_dot_product_attention``, matrix products and
    ``einsum``, whether in the modules of torch.nn or written with functions. A
    parameter of two or more dimensions that none of these used (an LSTM's, a positional
    embedding, a layer that was never called) has a row with ``counted=False``.

    Args:
        model: any module. It runs in eval mode without gradients. Modes, hooks and
            parameters are afterwards as they were before, also after an exception.
        inputs: the one argument of ``model``, a sequence of its positional arguments,
            or a mapping of its keyword arguments.

    Returns:
        One ``LayerCost`` per call, in the order of the calls; rows with
        ``counted=False`` come last.
    """
    refuse_wrapped(model, "compile", "prune")
    if isinstance(inputs, Mapping):
        args, kwargs = (), dict(inputs)
    else:
        args, kwargs = tuple(inputs) if isinstance(inputs, tuple | list) else (inputs,), {}
    recorder = _Recorder(model)
    with (
        evaluating(model),
        torch.no_grad(),
        recorder.watching(model),
        sdpa_kernel(SDPBackend.MATH),  # the counter does not know the CPU's fused kernel
        recorder.flops,
        recorder,
    ):
        model(*args, **kwargs)
    return recorder.rows + recorder.uncounted(model)


def totals(costs: Sequence[LayerCost]) -> dict[str, Any]:
    """Sum a ``model_cost``: ``macs``, ``nonzero_macs``, ``weights``,
    ``nonzero_weights`` (weights that are used twice are stored once), and
    ``uncounted``, the names of the rows of which the MACs are not known.
    """
    stored = [cost for cost in costs if not cost.repeated]
    return {
        "macs": sum(cost.macs for cost in costs),
        "nonzero_macs": sum(cost.nonzero_macs for cost in costs),
        "weights": sum(cost.weights for cost in stored),
        "nonzero_weights": sum(cost.nonzero_weights for cost in stored),
        "uncounted": [cost.name for cost in costs if not cost.counted],
    }


# ---------------------------------------------------------- counting while a model runs
# The functions whose second argument, ``weight``, is a layer's weight, known or computed.
_LAYERS = (
    *(F.linear, F.conv1d, F.conv2d, F.conv3d, F.embedding, F.embedding_bag),
    *(F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d),
)
_NORMS = (nn.modules.batchnorm._NormBase, nn.LayerNorm, nn.GroupNorm, nn.RMSNorm)
_MHA_ARGUMENTS = tuple(inspect.signature(F.multi_head_attention_forward).parameters)


# FLOPs by operation: torch's formulas, and the products that they leave out
_FLOPS: dict[Any, Callable[..., int]] = {
    **flop_registry,
    torch.ops.aten.mv: lambda a, b, **_: 2 * a.numel(),
    torch.ops.aten.dot: lambda a, b, **_: 2 * a.numel(),
    torch.ops.aten.addmv: lambda _, a, b, **__: 2 * a.numel(),
    torch.ops.aten.addbmm: lambda _, a, b, **__: 2 * a.numel() * b.shape[-1],
}


class _Flops(TorchDispatchMode):
    """FLOPs of all operations so far. (``FlopCounterMode`` would follow modules, too,
    and fails on views of parameters that are made without gradients.)
    """

    total = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        formula = _FLOPS.get(func.overloadpacket)
        if formula is None:
            with self:  # tensors of inference mode come here before operations are taken apart
                result = func.decompose(*args, **kwargs)
            return func(*args, **kwargs) if result is NotImplemented else result
        result = func(*args, **kwargs)
        self.total += formula(*args, **kwargs, out_val=result)
        return result


class _Recorder(TorchFunctionMode):
    """Sees every torch function that the model calls, and makes a row for each that
    multiplies.

    A forward hook on each layer would miss what a module does by functions. So the
    functions are counted, and hooks only record in which module the call happens.
    """

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        # one name where weights are tied
        self.known = {id(p): n for n, p in model.named_parameters(remove_duplicate=False)}
        self.flops = _Flops()
        self.rows: list[LayerCost] = []
        # parameters that have a row, and where in them; of a computed weight (parametrised,
        # torch.nn.utils.prune) the module
        self.seen: set[tuple[str, int]] = set()
        self.stack: list[str] = []  # modules that are running, the innermost last

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        before = self.flops.total
        # The mode is off inside func, so nothing is counted twice. (It also keeps torch
        # from running an encoder layer as one fused function: as long as any mode is
        # on, torch calls the layer's parts.)
        result = func(*args, **kwargs)
        macs = (self.flops.total - before) // 2
        kind = getattr(func, "__name__", "").strip("_")
        if func in _LAYERS:
            self.add(kind, macs, kwargs["weight"] if "weight" in kwargs else args[1])
        elif func is F.multi_head_attention_forward:
            self.add_attention(macs, dict(zip(_MHA_ARGUMENTS, args, strict=False)) | kwargs)
        elif macs:
            operands = [t for t in tree_leaves((args, kwargs)) if isinstance(t, Tensor)]
            weights = [t for t in operands if t.ndim >= 2 and self.parameter_of(t) is not None]
            if len(weights) < 2:  # else the parameters are listed as not counted
                self.add(kind, macs, weights[0] if weights else None)
        return result

    @contextmanager
    def watching(self, model: nn.Module) -> Iterator[None]:
        """Keep ``stack`` up to date by hooks on all modules."""
        with hold_hooks() as hooks:
            for name, module in model.named_modules():
                name = name or type(model).__name__

                def enter(module, args, name=name):
                    self.stack.append(name)

                def leave(module, args, output):
                    self.stack.pop()

                hooks.callback(module.register_forward_pre_hook(enter, prepend=True).remove)
                hooks.callback(module.register_forward_hook(leave, always_call=True).remove)
            yield

    def add(self, kind: str, macs: int, weight: Tensor | None = None, part: str = "") -> None:
        """A row of the running module, or of a part of it. Every weight takes part in
        equally many of the products.
        """
        here = self.stack[-1] if self.stack else ""
        if weight is None:
            self.rows.append(LayerCost(here + part, kind, macs, macs, 0, 0))
            return
        size, nonzero = weight.numel(), int(weight.count_nonzero())
        # query, key and value share one parameter
        stored = self.parameter_of(weight) or here, int(weight.storage_offset())
        nonzero_macs = macs // max(size, 1) * nonzero
        repeated = stored in self.seen
        self.seen.add(stored)
        self.rows.append(LayerCost(here + part, kind, macs, nonzero_macs, size, nonzero, repeated))

    def add_attention(self, macs: int, given: dict[str, Any]) -> None:
        """Rows for the projections inside one function, and one for the products of
        activations.
        """
        if given.get("use_separate_proj_weight"):
            weights = [given[f"{name}_proj_weight"] for name in "qkv"]
        else:
            weights = list(given["in_proj_weight"].chunk(3))
        inputs = [given["query"], given["key"], given["value"], given["query"]]
        weights.append(given["out_proj_weight"])
        for name, x, weight in zip(("q", "k", "v", "out"), inputs, weights, strict=True):
            products = prod(x.shape[:-1]) * weight.numel()
            self.add("linear", products, weight, f".{name}_proj")
            macs -= products
        self.add("scaled_dot_product_attention", macs)

    def parameter_of(self, tensor: Tensor) -> str | None:
        """Name of the parameter that ``tensor`` is, or is a view of (transposed, one of
        three chunks).
        """
        return self.known.get(id(tensor if tensor._base is None else tensor._base))

    def uncounted(self, model: nn.Module) -> list[LayerCost]:
        """A row for every module with matrices that no counted function used: better
        listed than silently left out.
        """
        used = {name for name, _ in self.seen}
        rows = []
        for path, module in model.named_modules():
            name = path or type(model).__name__
            # a computed weight was seen where it was used; a norm's scales are elementwise
            if isinstance(module, _NORMS) or "parametrizations" in path.split(".") or name in used:
                continue
            own = module.parameters(recurse=False)
            unused = [p for p in own if p.ndim >= 2 and self.known[id(p)] not in used]
            if weights := sum(p.numel() for p in unused):  # some are pruned to nothing
                nonzero = sum(int(p.count_nonzero()) for p in unused)
                kind = type(module).__name__
                rows.append(LayerCost(name, kind, 0, 0, weights, nonzero, counted=False))
        return rows
