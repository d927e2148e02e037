"""Folding: in evaluation mode a batch norm is y = p·x + q per channel, and the layer
before it can do that itself.

The layer's weights are multiplied by p, its bias b becomes p·b + q, and the batch norm
is removed. Nothing is approximated, but sums are rounded differently: see TOLERANCE.

::

    folded, report = fold_model(model.eval())
    print(report)    # which batch norms are folded, which are left and why

Only a batch norm *after* a layer is folded. One before it would have to pass its shift
q through the layer: at borders that are padded with zeros the shift is missing.

Source: Jacob et al. 2018, "Quantization and Training of Neural Networks for Efficient
Integer-Arithmetic-Only Inference", section 3.2; batch norm itself: Ioffe and Szegedy
2015, algorithm 2.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any, TypeVar

import torch
from torch import Tensor, fx, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.conv import _ConvNd, _ConvTransposeNd
from torch.nn.utils.parametrize import is_parametrized

from course_lib.pruning.channels.trace import Trace, batch_norms

AnyModule = TypeVar("AnyModule", bound=nn.Module)

TOLERANCE = {torch.float64: 1e-10, torch.float32: 1e-5}
"""How far the outputs of a folded model may be from the unfolded one's, relative to the
largest output. Measured for nine models of torchvision (8 to 53 batch norms) in float32:
2e-7 to 1e-6; in float64: 3e-16 to 5e-15."""


@torch.no_grad()
def scale_shift(bn: _BatchNorm) -> tuple[Tensor, Tensor]:
    """The p and q, both (C,), with which ``bn`` computes y = p·x + q in evaluation
    mode.

    p = α/√(σ² + ε) and q = β − p·μ, with α = 1 and β = 0 where it has no affine part (α
    is torch's ``weight``, γ in many papers). Computed in float64 and rounded once, to
    the dtype of the statistics.

    Raises ValueError if it keeps no running statistics.
    """
    p, q = _scale_shift(bn)
    return p.to(bn.running_mean), q.to(bn.running_mean)


@torch.no_grad()
def fold_bn(layer: AnyModule, bn: _BatchNorm) -> AnyModule:
    """A new layer of the same type that computes ``bn(layer(x))`` by itself.

    Args:
        layer: Conv1d/2d/3d, ConvTranspose1d/2d/3d or Linear, with any groups, stride and
            padding, since they come before the batch norm. Of a Linear, the outputs are
            taken to be (B, C): after (B, L, C) a batch norm works on L, and is not to be
            folded.
        bn: the batch norm its outputs go to, with the statistics it has now.

    Raises:
        RuntimeError: if either is in training mode.
        TypeError: if either is of another kind, or has a ``forward`` of its own.
        ValueError: if the numbers of channels differ, the batch norm has no running
            statistics, or hooks or parametrizations change what either computes.
    """
    _check_pair(layer, bn)
    p, q = _scale_shift(bn)
    weight: Any = layer.weight
    bias: Any = layer.bias
    shift = q if bias is None else q + p * _double(bias)
    # half precision is computed in float32, and rounded once at the end
    scale = p.to(weight.device, torch.promote_types(weight.dtype, torch.float32))
    # (C, M/groups, ...): output channel m of a group lies at m in every row
    if isinstance(layer, _ConvTransposeNd):
        rows = weight.unflatten(0, (layer.groups, -1))  # (groups, C/groups, M/groups, ...)
        folded = (rows * scale.view(layer.groups, 1, -1, *[1] * (weight.ndim - 2))).flatten(0, 1)
    else:  # (M, C/groups, ...)
        folded = weight * scale.view(-1, *[1] * (weight.ndim - 1))
    new_weight = nn.Parameter(folded.to(weight.dtype), weight.requires_grad)
    like = weight if bias is None else bias
    # so that the old weight is not copied in vain
    new = copy.deepcopy(layer, {id(weight): new_weight})
    new.bias = nn.Parameter(shift.to(like), like.requires_grad)
    return new


@dataclass
class FoldReport:
    """What :func:`fold_model` did. Every batch norm of the model is in one of the two,
    by its name.
    """

    folded: dict[str, str] = field(default_factory=dict)  # batch norm -> the layer that took it in
    left: dict[str, str] = field(default_factory=dict)  # batch norm -> why it is still there

    def __str__(self) -> str:
        lines = [f"{len(self.folded)} of {len(self.folded) + len(self.left)} batch norms folded"]
        lines += [f"  {bn} -> {layer}" for bn, layer in self.folded.items()]
        lines += [f"  {bn} stays: {why}" for bn, why in self.left.items()]
        return "\n".join(lines)


def fold_model(model: AnyModule) -> tuple[AnyModule, FoldReport]:
    """A copy of ``model`` without the batch norms that the layers before them can take
    in, and a report.

    A batch norm is folded if all its inputs come from one layer, and the outputs of that
    layer go nowhere else. In the copy, which is of the same class, the layer has its new
    weights, and an ``nn.Identity`` stands where the batch norm was.

    Args:
        model: any module that torch.fx can trace, in evaluation mode. Not changed.
            Of several ways that the forward pass can go only the one that is traced
            counts: with its flags as they are, and with every optional argument given.
            No other thread may run a model meanwhile, because of torch.fx.

    Source: ``torch.fx.experimental.optimization.fuse`` does the same for convolutions
    and returns a graph; here the model stays what it is.
    """
    report = FoldReport()
    # deepcopy looks here before it copies an object. So wherever the model refers to a
    # folded layer (by a second name, in a list), the copy refers to the new one.
    instead: dict[int, nn.Module] = {}
    for name, (layer_name, why) in layers_before(model).items():
        bn, layer = model.get_submodule(name), model.get_submodule(layer_name)
        if not why:
            try:
                instead[id(layer)] = fold_bn(layer, bn)  # type: ignore[arg-type]
                instead[id(bn)] = nn.Identity().eval()
                report.folded[name] = layer_name
            except (TypeError, ValueError, RuntimeError) as error:
                why = str(error)
        if why:
            report.left[name] = why
    return copy.deepcopy(model, instead), report


def layers_before(model: nn.Module) -> dict[str, tuple[str, str]]:
    """Batch norm -> the name of the one layer that feeds it and nothing else, or "" and
    why there is none.
    """
    modules, calls, read = dict(model.named_modules()), dict[str, list[fx.Node]](), set()
    for node in Trace(model).graph.nodes:
        if node.op == "call_module":
            calls.setdefault(str(node.target), []).append(node)
        elif node.op == "get_attr":  # of a module, without calling it
            read.add(str(node.target).rpartition(".")[0])
    owners: dict[int, set[str]] = {}  # id of a parameter -> the modules that have it
    for name, module in modules.items():
        for parameter in module.parameters(recurse=False):
            owners.setdefault(id(parameter), set()).add(name)

    def say(node: fx.Node) -> str:
        if node.op == "call_module":
            return f"{node.target} ({type(modules[str(node.target)]).__name__})"
        return f"{getattr(node.target, '__name__', node.target)}()"

    def find(name: str) -> tuple[str, str]:
        before = [call.all_input_nodes[0] for call in calls.get(name, ())]
        sources = {str(node.target): node for node in before}
        if len(sources) != 1:
            shared = f"it is shared by {' and '.join(sources)}: each would need one of its own"
            return "", shared if sources else "the traced forward pass does not call it"
        ((layer, node),) = sources.items()
        if node.op != "call_module" or not isinstance(modules[layer], _ConvNd | nn.Linear):
            return "", f"its input comes from {say(node)}, not from a layer"
        users = [u for call in calls[layer] for u in call.users if u not in calls[name]]
        if users:
            return "", f"the output of {layer} goes to {say(users[0])} too"
        ties = {n for p in modules[layer].parameters() for n in owners[id(p)]} - {layer}
        if ties or {layer, name} & read:
            others = " and ".join(sorted(ties)) or "the forward pass itself"
            return "", f"the tensors of {layer} or {name} are also read by {others}"
        return layer, ""

    return {name: find(name) for name in batch_norms(model)}


def _scale_shift(bn: _BatchNorm) -> tuple[Tensor, Tensor]:
    """p and q in float64 (on the CPU, where the device knows no float64)."""
    if not isinstance(bn, _BatchNorm):
        raise TypeError(f"bn should be a batch norm, got {type(bn).__name__}")
    if bn.running_mean is None or bn.running_var is None:
        raise ValueError(
            "bn has no running statistics (track_running_stats=False): even in evaluation mode it"
            " uses those of each batch. Build it with running statistics, and train it or use"
            " recalibrate(model, images)"
        )
    p = _double(bn.running_var).add(bn.eps).rsqrt()  # (C,)
    if bn.weight is not None:
        p = p * _double(bn.weight)
    q = -p * _double(bn.running_mean)
    return p, q if bn.bias is None else q + _double(bn.bias)


def _double(x: Tensor) -> Tensor:
    return (x.cpu() if x.device.type == "mps" else x).double()


def _check_pair(layer: nn.Module, bn: nn.Module) -> None:
    """Raises the exception of :func:`fold_bn` if ``bn`` cannot be folded into ``layer``."""
    kinds: dict[str, Any] = {"layer": _ConvNd | nn.Linear, "bn": _BatchNorm}
    for (what, kind), module in zip(kinds.items(), (layer, bn), strict=True):
        own = not type(module).forward.__module__.startswith("torch.nn.modules.")
        if not isinstance(module, kind) or own or "forward" in vars(module):
            raise TypeError(
                f"{what} should be a {'batch norm' if what == 'bn' else 'convolution or a linear'}"
                f" layer without a forward of its own, got {type(module).__name__}"
            )
        if module._forward_hooks or module._forward_pre_hooks or is_parametrized(module):
            raise ValueError(
                f"{what} has forward hooks or a parametrization (as pruning and weight norm leave"
                " them), which would work on something else after folding: remove them first, e.g."
                " with prune.remove or parametrize.remove_parametrizations"
            )
        if module.training:
            raise RuntimeError(
                f"{what} is in training mode, where a batch norm uses the statistics of each batch:"
                " call model.eval() first"
            )
    made: Any = layer.out_features if isinstance(layer, nn.Linear) else layer.out_channels
    if made != bn.num_features:
        raise ValueError(
            f"the layer has {made} output channels and the batch norm {bn.num_features}: give the"
            " batch norm that the layer's outputs go to"
        )
