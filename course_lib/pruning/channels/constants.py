"""What a removed channel still says: without its weights it is a constant, and the next
layer was used to hearing it.

A filter of zeros gives its bias everywhere, and a batch norm with scale α = 0 gives its
shift β, not zero; after ReLU it is relu(β). This constant is followed through the model
to the layers that read it, where it can move into a bias.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, fx, nn
from torch.nn.modules.batchnorm import _BatchNorm

from course_lib.pruning.channels.groups import (
    Channels,
    cut_like,
    describe,
    function_name,
    in_place,
    move,
    operation,
    run,
    tensor_of,
    varying,
)


class Constants:
    """The constants of the removed channels, wherever they go: NaN for channels that
    stay, or that are no constant.

    Args:
        channels: as the model is before anything is removed.
        model: the model itself, with its numbers.
        removed: label -> whether its channel is removed.
    """

    def __init__(self, channels: Channels, model: nn.Module, removed: np.ndarray[Any, Any]) -> None:
        self.channels = channels
        self.removed = torch.from_numpy(removed)
        self.real = dict(model.named_modules())
        self.state: dict[fx.Node, Any] = {}  # node -> float64, compact as the labels are
        self.borders: dict[int, str] = {}  # label -> where zeros were put round its constant
        self.calls = {call.node: call for call in channels.calls}
        with torch.no_grad():
            for node in channels.graph.nodes:
                module = channels.module(node)
                self.state[node] = self._follow(node, module)
                if node.all_input_nodes and in_place(node, module):
                    self.state[node.all_input_nodes[0]] = self.state[node]

    def at(self, node: fx.Node, dim: int, size: int) -> Tensor:
        """The constants (C,) of the channels of the tensor that ``node`` gives, along
        ``dim``.
        """
        state = self.state[node]
        for d in varying(state):
            if d != dim % state.ndim:  # no constant, but one where it is the same everywhere
                first = state.narrow(d, 0, 1)
                state = first.where((state == first).all(d, keepdim=True), torch.nan)
        return state.flatten().expand(size)

    def _follow(self, node: fx.Node, module: nn.Module | None) -> Any:
        labels, word = self.channels.state[node], operation(node, module)
        if word == "item":
            return self.state[node.all_input_nodes[0]][node.args[1]]
        if not isinstance(labels, Tensor):
            if word == "moving" and isinstance(labels, tuple):
                moved = move(node, module, self.state)
                return tuple(cut_like(m, part) for m, part in zip(moved, labels, strict=True))
            if isinstance(labels, list):
                return [
                    None if part is None else torch.full_like(part, torch.nan) for part in labels
                ]
            return None
        if not labels.any():
            return torch.full_like(labels, torch.nan)
        rules = {
            "identity": self._same,
            "layer": self._layer,
            "get_attr": self._parameter,
            "pointwise": self._pointwise,
            "spatial": self._spatial,
            "pad": self._pad,
            "moving": self._moved,
            "reducing": self._moved,
        }
        return rules[word](node, module) if word in rules else torch.full_like(labels, torch.nan)

    def _parameter(self, node: fx.Node, module: nn.Module | None) -> Tensor:
        value = tensor_of(self.real[""], self.calls[node])
        assert value is not None
        gone = self.removed[self.channels.state[node].long()]
        return value.double().cpu().where(gone, torch.nan)

    def _same(self, node: fx.Node, module: nn.Module | None) -> Tensor:
        return self.state[node.all_input_nodes[0]]

    def _layer(self, node: fx.Node, module: nn.Module | None) -> Tensor:
        call, labels = self.calls[node], self.channels.state[node]
        real = self.real[call.name]
        if call.kind == "prelu":
            x = self.state[node.all_input_nodes[0]]
            slope = real.weight.double().cpu().view([-1 if d == 1 else 1 for d in range(x.ndim)])
            return torch.where(x < 0, slope * x, x)
        if (
            call.kind == "norm"
            and real.weight is None
            and isinstance(real, _BatchNorm)
            and real.track_running_stats
        ):
            # no α that could be 0: it normalises the constant
            x = self.state[node.all_input_nodes[0]]
            assert real.running_mean is not None and real.running_var is not None
            mean, variance = (
                t.double().cpu().view([-1] + [1] * (x.ndim - 2))
                for t in (real.running_mean, real.running_var)
            )
            return cut_like((x - mean) / (variance + real.eps).sqrt(), labels)
        shift = (
            real.bias.double().cpu()
            if real.bias is not None
            else torch.zeros(len(call.outputs)).double()
        )
        shift = torch.where(self.removed[call.outputs], shift, torch.nan)  # (M,)
        return (
            shift.view(labels.shape)
            if shift.numel() == labels.numel()
            else shift[:1].view(labels.shape)
        )

    def _pointwise(self, node: fx.Node, module: nn.Module | None) -> Tensor:
        parts = [self.state[n] for n in node.all_input_nodes]
        if isinstance(module, nn.PReLU):
            result = F.prelu(parts[0], self.real[str(node.target)].weight.double().cpu())
        else:
            # cloned, for it may work in place
            result = run(node, module, lambda n: self.state[n].clone())
        if function_name(node) in ("mul", "multiply", "imul"):
            for part in parts:
                # zero times anything, NaN here stands for "varies"
                result = torch.where(part == 0, 0.0, result)
        return result

    def _spatial(self, node: fx.Node, module: nn.Module | None) -> Tensor:
        """Pooling and resizing leave a constant as it is, unless zeros are put round it
        and averaged in.
        """
        (x,) = node.all_input_nodes
        name = (
            type(module).__name__.lower()
            if module is not None
            else function_name(node).replace("_", "")
        )
        if name.startswith("avgpool"):
            padding: Any
            counted: Any
            if module is not None:
                padding, counted = module.padding, getattr(module, "count_include_pad", True)
            else:
                padding = node.kwargs.get("padding", node.args[3] if len(node.args) > 3 else 0)
                counted = node.kwargs.get(
                    "count_include_pad", node.args[5] if len(node.args) > 5 else True
                )
            if counted and padding not in (0, (0,), (0, 0), (0, 0, 0), [0], [0, 0], [0, 0, 0]):
                self._mark(x, describe(node, module), 0.0)
        return self.state[x]

    def _pad(self, node: fx.Node, module: nn.Module | None) -> Tensor:
        x = node.all_input_nodes[0]
        before, after = x.meta["value"].shape, node.meta["value"].shape
        if before[1] != after[1] and len(self.state[x].shape) > 1:  # new channels, of zeros
            return cut_like(move(node, module, self.state), self.channels.state[node])
        if module is not None:
            mode = type(module).__name__
            value = (
                float(getattr(module, "value", 0.0))
                if mode.startswith(("Zero", "Constant"))
                else None
            )
        else:
            mode = str(node.kwargs.get("mode", node.args[2] if len(node.args) > 2 else "constant"))
            given: Any = node.kwargs.get("value", node.args[3] if len(node.args) > 3 else None)
            value = float(given or 0) if mode == "constant" else None
        if value is not None:
            self._mark(x, describe(node, module), value)
        return self.state[x]

    def _moved(self, node: fx.Node, module: nn.Module | None) -> Tensor:
        return cut_like(move(node, module, self.state), self.channels.state[node])

    def _mark(self, node: fx.Node, where: str, value: float) -> None:
        constants = self.state[node]
        uneven = self.channels.state[node][~constants.isnan() & (constants != value)].long()
        for label in uneven.flatten().tolist():
            self.borders.setdefault(label, where)


def shift_of(weight: Tensor, constants: Tensor, groups: int = 1) -> Tensor:
    """What the constants add to every output of a convolution or linear layer: (M,),
    float64.

    Args:
        weight: (M, C // groups, ...).
        constants: (C,), zero for channels that add nothing.
    """
    weight = weight.detach().cpu()
    if groups == 1:  # most of the weights meet a zero: leave them out before anything is widened
        some = constants.nonzero().flatten()
        weight, constants = weight.index_select(1, some), constants[some]
    # (M, C/G, R, S) -> (M, C/G)
    maps = weight.flatten(2).sum(2, dtype=torch.float64) if weight.ndim > 2 else weight.double()
    per_group = constants.view(groups, 1, -1)  # (G, 1, C/G)
    # (G, M/G, C/G) -> (M,)
    return (maps.view(groups, len(maps) // groups, -1) * per_group).sum(2).flatten()


def taps_hit_padding(module: nn.Module) -> bool:
    """Whether outputs at the border see zeros instead of the constant."""
    if not isinstance(module, nn.modules.conv._ConvNd) or module.padding_mode != "zeros":
        return False
    if isinstance(module.padding, str):
        return module.padding == "same" and any(k > 1 for k in module.kernel_size)
    return any(p > 0 for p in module.padding)
