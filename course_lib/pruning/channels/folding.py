"""Folding: in evaluation mode a batch norm is y = p·x + q per channel, and the layer
before it can do that itself.

The layer's weights are multiplied by p, its bias b becomes p·b + q, and the batch norm
is gone: one pass less over the activations. Nothing is approximated, but sums are
rounded differently: see TOLERANCE.

::

    folded, report = fold_model(model.eval())
    print(report)    # which batch norms are gone, which are left and why

Only a batch norm *behind* a layer is folded. One before it would have to pass its shift
q through the layer: at borders that are padded with zeros the shift is missing, and no
bias can say so.

Source: Jacob et al. 2018, "Quantization and Training of Neural Networks for Efficient
Integer-Arithmetic-Only Inference", section 3.2; batch norm itself: Ioffe and Szegedy
2015, algorithm 2.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import TypeVar

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.conv import _ConvTransposeNd
from torch.nn.utils.parametrize import is_parametrized

from course_lib.pruning.channels.trace import LAYERS, batch_norms, copies_of_computed, wiring

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
    the dtype of the statistics; no gradient flows back.

    Raises:
        TypeError: if ``bn`` is not a batch norm.
        ValueError: if it keeps no running statistics, or is lazy and has not seen data
            yet.

    Source: Ioffe & Szegedy 2015, "Batch Normalization", algorithm 2, whose √(Var + ε) is
    often written σ.
    """
    _check_statistics(bn)
    p, q = _scale_shift(bn)
    return p.to(bn.running_mean), q.to(bn.running_mean)


@torch.no_grad()
def fold_bn(layer: AnyModule, bn: _BatchNorm) -> AnyModule:
    """A new layer that computes ``bn(layer(x))`` by itself.

    Args:
        layer: Conv1d/2d/3d, ConvTranspose1d/2d/3d or Linear, with or without bias;
            groups, stride, dilation and every kind of padding do not matter, since they
            come before the batch norm. Of a Linear, the outputs are taken to be (B, C):
            behind (B, L, C) a batch norm works on L, and is not to be folded.
        bn: the batch norm its outputs go to, with the statistics it has now. Neither is
            changed.

    Returns:
        A layer of the same type, mode, dtype and device; it has a bias, and is
        trainable where ``layer`` is.

    Raises:
        RuntimeError: if either is in training mode.
        TypeError: if ``layer`` is of another kind, or either has a ``forward`` of its
            own.
        ValueError: if the numbers of channels differ, the batch norm has no running
            statistics, a module is lazy, or hooks or parametrizations have a say in
            what either computes.
    """
    _check_pair(layer, bn)
    return _fold(layer, bn)


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


@torch.no_grad()
def fold_model(model: AnyModule) -> tuple[AnyModule, FoldReport]:
    """A copy of ``model`` without the batch norms that the layers before them can take
    in.

    Which batch norm follows which layer is not guessed from names: torch.fx traces the
    forward pass. A batch norm is folded if all its inputs come from one layer, and the
    outputs of that layer go nowhere else. In the copy, which is of the same class, the
    layer has its new weights, and an ``nn.Identity`` stands where the batch norm was.

    All others stay, and the report says why: a batch norm after a sum, an activation or
    a concatenation; a layer whose outputs, weights or self are used elsewhere too;
    hooks and parametrizations; training mode; no running statistics.

    Args:
        model: any module that torch.fx can trace, in evaluation mode. Not changed.
            Where the forward pass has several ways to go (a flag, an optional
            argument), only the one that is traced counts, and that is the one it goes
            with its flags as they are, and with every optional argument given. No other
            thread may run a model meanwhile: torch.fx changes how every module of the
            process is called.

    Returns:
        The folded copy, and a :class:`FoldReport`.

    Raises:
        TypeError: if ``model`` is not a module.
        ValueError: if torch.fx cannot trace it, naming the submodule, torch's reason,
            and what can be done.

    Source: ``torch.fx.experimental.optimization.fuse`` does the same for convolutions
    and returns a graph; here the model stays what it is.
    """
    wired = wiring(model)
    report = FoldReport()
    # deepcopy looks here before it copies an object. So wherever the model refers to a
    # folded layer (by a second name, in a list), the copy refers to the new one, and
    # the old weights are never copied.
    instead = copies_of_computed(model)
    for name, bn in batch_norms(model).items():
        layer_name, why = wired.layer_before(name)
        if why:
            report.left[name] = why
            continue
        layer = model.get_submodule(layer_name)
        try:
            _check_pair(layer, bn)
        except (TypeError, ValueError, RuntimeError) as error:
            report.left[name] = str(error)
            continue
        instead[id(layer)] = _fold(layer, bn)
        instead[id(bn)] = nn.Identity().eval()
        report.folded[name] = layer_name
    return copy.deepcopy(model, instead), report


# ---- one layer and its batch norm


def _fold(layer: AnyModule, bn: _BatchNorm) -> AnyModule:
    p, q = _scale_shift(bn)
    weight, bias = layer.weight, layer.bias
    assert isinstance(weight, Tensor) and (bias is None or isinstance(bias, Tensor))
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
    new_bias = nn.Parameter(shift.to(like.device, like.dtype), like.requires_grad)
    # so that the old weight is not copied in vain
    new = copy.deepcopy(layer, {id(weight): new_weight})
    new.bias = new_bias
    return new


def _scale_shift(bn: _BatchNorm) -> tuple[Tensor, Tensor]:
    """p and q in float64 (on the CPU, where the device knows no float64)."""
    assert bn.running_mean is not None and bn.running_var is not None
    p = _double(bn.running_var).add(bn.eps).rsqrt()  # (C,)
    if bn.weight is not None:
        p = p * _double(bn.weight)
    q = -p * _double(bn.running_mean)
    return p, q if bn.bias is None else q + _double(bn.bias)


def _double(x: Tensor) -> Tensor:
    return (x.cpu() if x.device.type == "mps" else x).double()


def _check_statistics(bn: nn.Module) -> None:
    """Raises the exception of :func:`scale_shift` if there are no fixed p and q."""
    if not isinstance(bn, _BatchNorm):
        raise TypeError(
            "expected a batch norm (nn.BatchNorm1d/2d/3d, nn.SyncBatchNorm), got"
            f" {type(bn).__name__}"
        )
    if bn.running_mean is None or bn.running_var is None:
        raise ValueError(
            "this batch norm has no running statistics (track_running_stats=False): even in"
            " evaluation mode it uses those of each batch. Build it with running statistics, and"
            " train it or use recalibrate(model, images)"
        )
    if nn.parameter.is_lazy(bn.running_mean):
        raise ValueError(
            "this batch norm is lazy and has no channels yet: run one batch through the model first"
        )


def _check_pair(layer: nn.Module, bn: nn.Module) -> None:
    """Raises the exception of :func:`fold_bn` if ``bn`` cannot be folded into ``layer``."""
    if not isinstance(layer, LAYERS):
        kinds = ", ".join(kind.__name__ for kind in LAYERS)
        raise TypeError(f"a batch norm can be folded into {kinds}; got {type(layer).__name__}")
    _check_statistics(bn)
    assert isinstance(bn, _BatchNorm)
    if nn.parameter.is_lazy(layer.weight):
        raise ValueError(
            "the layer is lazy and has no weights yet: run one batch through the model first"
        )
    for module, what in ((layer, "layer"), (bn, "batch norm")):
        if _has_own_forward(module):
            raise TypeError(
                f"the {what}, a {type(module).__name__}, has a forward of its own, so what it"
                " computes is not known: fold it by hand, with scale_shift(bn)"
            )
        if module._forward_hooks or module._forward_pre_hooks or is_parametrized(module):
            raise ValueError(
                f"the {what} has forward hooks or a parametrization (as pruning, weight norm and"
                " taps leave them), which would work on something else after folding: remove them"
                " first, e.g. with prune.remove or parametrize.remove_parametrizations"
            )
    if layer.training or bn.training:
        who = (
            "the layer and the batch norm are"
            if layer.training and bn.training
            else "one of the two is"
        )
        raise RuntimeError(
            f"{who} in training mode, where a batch norm uses the statistics of each batch, and no"
            " fixed weight can stand for them: call model.eval() first"
        )
    channels = layer.out_features if isinstance(layer, nn.Linear) else layer.out_channels
    if channels != bn.num_features:
        raise ValueError(
            f"the layer has {channels} output channels and the batch norm {bn.num_features}: give"
            " the batch norm that the layer's outputs go to"
        )


def _has_own_forward(module: nn.Module) -> bool:
    """Is it a subclass, or an instance, that computes something else than the torch
    class it comes from?
    """
    known = next(c for c in (*LAYERS, nn.SyncBatchNorm, _BatchNorm) if isinstance(module, c))
    names = ("forward", "_conv_forward", "_output_padding")
    return any(
        name in vars(module) or getattr(type(module), name, None) is not getattr(known, name, None)
        for name in names
    )
