"""Filters that are removed for good: a smaller model, not one with zeros in it.

::

    from course_lib.pruning import channels, weights

    groups = channels.channel_groups(model, images)  # which layers' channels belong together
    scores = channels.l1_filters(model, groups)      # one score per channel of each group
    masks = weights.local_masks(scores, 0.5)         # select
    keep = {}
    for g in groups:
        if g.producers[0] in masks:
            keep |= g.masks(masks[g.producers[0]])
    smaller, report = channels.remove_filters(model, keep, images)  # apply

When filter i of a layer is removed, so is entry i of the batch norm after it (all four
vectors), filter i of a depthwise convolution that reads it, and input channel i of every
layer that does; where two layers' channels are added, filter i of both.

*Removed* means: all that multiplies the channel is zero, its filter and the scale α of
its batch norm. What is left is a constant, relu(β) after batch norm and ReLU, which
``absorb`` moves into the bias of the next layer. ``filter_masks`` makes the same thing
with zeros; both models give the same outputs, but for zero-padded borders: padding puts
zeros round the map, where the constant was not zero.

Source: Li et al. 2017, "Pruning Filters for Efficient ConvNets", section 3; Ye et al.
2018, "Rethinking the Smaller-Norm-Less-Informative Assumption in Channel Pruning of
Convolution Layers", section 4, absorbs the constants.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.conv import _ConvNd, _ConvTransposeNd

from course_lib.checks import check_mask, check_names
from course_lib.pruning.channels.comparison import Comparison
from course_lib.pruning.channels.groups import (
    MAKERS,
    Channels,
    Group,
    layer_kind,
)
from course_lib.pruning.channels.slimming import as_mask, channels_of, filter_sizes
from course_lib.pruning.channels.trace import copied
from course_lib.pruning.weights.masks import Masks
from course_lib.pruning.weights.scores import Scores
from course_lib.wrapped import refuse_wrapped


@dataclass(frozen=True)
class Report:
    """What :func:`remove_filters` did, before and after. ``str(report)`` is a table."""

    outputs: Mapping[str, tuple[int, int]]  # layer -> channels that it makes; norms, too
    inputs: Mapping[str, tuple[int, int]]  # layer -> channels, or features, that it reads
    parameters: tuple[int, int]  # of the whole model
    # layer -> where the constants of the channels that it no longer reads are now
    absorbed: Mapping[str, str] = field(default_factory=dict)
    # layer -> why its outputs are not what they would be with zeroed filters
    inexact: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        names = list(dict.fromkeys([*self.outputs, *self.inputs]))
        width = max(map(len, names), default=0)
        lines = []
        for name in names:
            line = f"{name:{width}}"
            for what, sizes in (("makes", self.outputs), ("reads", self.inputs)):
                before, after = sizes.get(name, (0, 0))
                line += f"  {f'{what} {before} -> {after}' if before else '':20}"
            lines.append(line.rstrip())
        lines += [f"the constants that {n} read are now in {to}" for n, to in self.absorbed.items()]
        lines += [f"not as with zeroed filters: {n}: {why}" for n, why in self.inexact.items()]
        before, after = self.parameters
        return "\n".join([*lines, f"{before:,} parameters -> {after:,}"])


@torch.no_grad()
def remove_filters(
    model: nn.Module, keep: Mapping[str, Tensor], example: Tensor, absorb: bool = True
) -> tuple[nn.Module, Report]:
    """A copy of ``model`` without the filters that are not kept, and a report of what
    changed.

    Layers whose channels meet in an addition take the same mask, every one of them
    (:func:`~course_lib.pruning.channels.channel_groups` lists them). Depthwise
    convolutions follow what they read. The groups of a grouped convolution are removed
    whole, inputs and outputs, or lose equally many channels each.

    The smaller model is run beside ``model`` with the removed channels silenced, on two
    random samples in float64 and in evaluation mode. Every layer and the outputs must
    agree, relative to their size. So a ``view`` with sizes written into the code, or a
    forward pass that computes with the number of channels, is refused.

    Args:
        model: any module that torch.fx can follow. It is not changed, and shares no
            tensor with the result. No other thread may run a model meanwhile: torch.fx
            changes how every module of the process is called.
        keep: layer name -> bool (C,), True = kept. The layer is a convolution or a
            linear layer, or the batch norm or depthwise convolution after it. Layers that
            are not named keep everything.
        example: a batch as the model takes it. Images larger than 32x32 are cropped for
            the comparison where the model takes smaller ones.
        absorb: move the constant of removed channels into the bias of the layer that
            read them, or where that layer has none and a batch norm follows, out of the
            batch norm's running mean; else the layer gets a bias. (A batch norm in
            training mode takes any such shift out again.) With False the constants are
            dropped.

    Raises:
        ValueError: if a mask does not fit its layer, or leaves nothing of it; if masks
            disagree; if channels are the model's input or output or are read by something
            unknown; if a grouped convolution would lose its groups; if the model cannot
            be followed; or if the smaller model computes something else, naming the layer
            where they part.
    """
    plan = _Plan(model, keep, example)
    smaller = plan.cut(model)
    absorbed: dict[str, str] = {}
    inexact: dict[str, str] = {}
    if plan.removed.any():
        comparison = plan.comparison(model, absorb)
        shifts, inexact = comparison.run_whole(example, 0 if plan.channels.borders else 32)
        twin = comparison.prepared(smaller)
        for name, shift in shifts.items():
            plan.add(twin, name, shift)
            absorbed[name] = plan.add(smaller, name, shift)
        comparison.run_smaller(twin, {n for n, where in absorbed.items() if "mean" in where})
    counts = [sum(p.numel() for p in m.parameters()) for m in (model, smaller)]
    return smaller, Report(
        outputs={name: (len(k), int(k.sum())) for name, k in plan.outputs.items() if not k.all()},
        inputs={name: (len(k), int(k.sum())) for name, k in plan.inputs.items() if not k.all()},
        parameters=(counts[0], counts[1]),
        absorbed=absorbed,
        inexact=inexact,
    )


def filter_masks(model: nn.Module, keep: Mapping[str, Tensor], example: Tensor) -> Masks:
    """What :func:`remove_filters` would remove as masks on parameters, True = kept: the
    same model with zeros, at full size, to see its accuracy or to fine-tune it.

    The filters and the scales α are masked, biases and shifts β are not: they are the
    constants.
    """
    return _Plan(model, keep, example).filter_masks(model)


def l1_filters(model: nn.Module, groups: Sequence[Group] | None = None) -> Scores:
    """The L1 norm Σ|w| of every filter, (M,) in float64, by layer name.

    With ``groups``, as :func:`~course_lib.pruning.channels.channel_groups` makes them, one
    score for each channel of each group that can be removed, the sum over its producers,
    by the name of the first one. ``local_masks`` makes masks of groups of them, and
    ``group.masks(mask)`` what ``remove_filters`` takes.

    Source: Li et al. 2017, "Pruning Filters for Efficient ConvNets", sections 3.1 and,
    for groups, 3.3 (there the first layer of a group alone decides).
    """
    refuse_wrapped(model, "parallel", "compile", "prune")
    norms = {
        name: filter_sizes(layer).sum(1)
        for name, layer in model.named_modules()
        if isinstance(layer, _ConvNd | nn.Linear)
    }
    if groups is None:
        return norms
    scores = {}
    for group in groups:
        if group.pinned is None:
            score = torch.zeros(group.channels, dtype=torch.float64)
            for name, index in group.index.items():
                score.index_add_(0, index, norms[name].cpu())
            scores[group.producers[0]] = score
    return scores


def slice_pair(
    conv: _ConvNd | nn.Linear,
    bn: nn.Module | None,
    next_conv: _ConvNd | nn.Linear,
    keep: Sequence[int] | Tensor,
) -> tuple[nn.Module, nn.Module | None, nn.Module]:
    """Three smaller layers: ``conv`` with the filters ``keep`` alone, ``bn`` with their
    entries, ``next_conv`` reading them.

    Args:
        conv: makes M channels, (M, C, R, S), one group.
        bn: the batch norm after it, or None.
        next_conv: reads the M channels, one group; or a linear layer after a flatten,
            which reads M·H·W features.
        keep: channel indices, strictly increasing, at least one; or bool (M,).

    Returns:
        New modules. Nothing is absorbed.
    """
    for name, layer in (("conv", conv), ("next_conv", next_conv)):
        if layer_kind(layer) not in ("conv", "linear"):
            raise ValueError(
                f"{name} should be a convolution with one group or a linear layer, got {layer}"
            )
    (made, reads), (makes, read) = channels_of(conv), channels_of(next_conv)
    kept = as_mask(keep, made)
    if not kept.any():
        raise ValueError("keep names the channels that stay, at least one; got none")
    if bn is not None and (layer_kind(bn) != "norm" or bn.num_features != made):
        raise ValueError(f"bn should normalise the {made} channels that conv makes, got {bn}")
    if read != made and (not isinstance(next_conv, nn.Linear) or read % made):
        raise ValueError(f"next_conv reads {read} channels, but conv makes {made}")
    everything = torch.ones(max(reads, makes), dtype=torch.bool)
    return (
        _smaller(conv, everything[:reads], kept),
        None if bn is None else _smaller(bn, kept, kept),
        _smaller(next_conv, kept.repeat_interleave(read // made), everything[:makes]),
    )


# ---------------------------------------------------------- what is removed, what is kept
class _Plan:
    """Which channels every layer keeps."""

    def __init__(self, model: nn.Module, keep: Mapping[str, Tensor], example: Tensor) -> None:
        self.channels = Channels(model, example)
        self.calls = self.channels.calls
        self.removed = self._agreed(keep)  # (labels,)
        self.outputs = {name: self._kept(call.outputs) for name, call in self.calls.items()}
        self.inputs = {
            name: self._kept(call.inputs)
            for name, call in self.calls.items()
            if call.kind in (*MAKERS, "depthwise")
        }
        for what, layers in (("of", self.outputs), ("read by", self.inputs)):
            for name, kept in layers.items():
                if not kept.any():
                    raise ValueError(
                        f"keep removes all {len(kept)} channels {what} {name!r}: keep at least one"
                    )
        for name, call in self.calls.items():
            if call.kind == "grouped":
                _groups_left(name, model.get_submodule(name), self.inputs[name], self.outputs[name])

    def _kept(self, labels: Tensor) -> Tensor:
        return ~torch.from_numpy(self.removed[labels.numpy()])

    def _agreed(self, keep: Mapping[str, Tensor]) -> np.ndarray[Any, Any]:
        """Label -> whether its channel is removed, if the masks of all layers that make it
        or another that it is tied to say so.
        """
        channels = self.channels
        gone, stays = (np.zeros(channels.count, bool) for _ in range(2))
        for name, mask in keep.items():
            if name not in self.calls:
                self._refuse(name)
            labels = self.calls[name].outputs.numpy()
            check_mask(mask, f"keep[{name!r}]", (len(labels),))
            kept = mask.cpu().numpy()
            gone[labels[~kept]], stays[labels[kept]] = True, True
            if gone[0]:
                self._refuse(name)
        roots = channels.roots(channels.ties)
        removed = np.zeros(channels.count, bool)
        removed[roots[gone]] = True
        removed = removed[roots]
        reasons = {r: why for r, why in channels.pinned(roots).items() if removed[r]}
        makers = {n: c.outputs.numpy() for n, c in self.calls.items() if c.kind in MAKERS}
        for root, why in reasons.items():
            for name, labels in makers.items():
                pinned = np.flatnonzero((roots[labels] == root) & gone[labels])
                if len(pinned):
                    raise ValueError(f"{name!r}: channel {pinned[0]} cannot be removed: {why}")
            raise ValueError(f"keep: channels of the input cannot be removed: {why}")
        for labels in makers.values():
            odd = np.flatnonzero(removed[labels] & (stays[labels] | ~gone[labels]))
            if len(odd):
                self._disagree(makers, roots, int(roots[labels[odd[0]]]), gone, stays)
        return removed

    def _disagree(self, makers: Any, roots: Any, root: int, gone: Any, stays: Any) -> None:
        """Raises ValueError: some masks remove the channels of ``root``, others do not."""
        here = {n: labels[roots[labels] == root] for n, labels in makers.items()}
        leave = [n for n, labels in here.items() if gone[labels].any()]
        stay = [n for n, labels in here.items() if (stays[labels] | ~gone[labels]).any()]
        number = np.flatnonzero(np.isin(makers[leave[0]], here[leave[0]]))[0]
        if stay == leave:
            raise ValueError(
                f"keep has two masks that differ about channel {number} of {_names(leave)}: that of"
                " a batch norm or depthwise convolution is one for the layer before it"
            )
        every = [n for n, labels in here.items() if len(labels)]
        ties = [w for a, _, w in self.channels.ties if (roots[a.numpy()] == root).any()]
        raise ValueError(
            f"channel {number} of {_names(leave)} is to be removed, but {_names(stay)}"
            f" {'keeps' if len(stay) == 1 else 'keep'} the channel that it meets in"
            f" {' and '.join(list(dict.fromkeys(ties))[:2])}. Channels that meet are removed in all"
            f" or in none: give the same mask to each of {_names(every)}"
        )

    def _refuse(self, name: str) -> None:
        """Raises ValueError: this is no layer with channels that can be followed."""
        check_names([name], self.channels.modules, "keep")
        module = self.channels.modules[name]
        reason = "it has none of its own: name the convolution, linear layer or batch norm"
        if layer_kind(module):
            called = "the model's forward does not call it"
            reason = "what it reads comes from no layer" if name in self.calls else called
        raise ValueError(
            f"keep[{name!r}] names a {type(module).__name__} whose channels cannot be followed:"
            f" {self.channels.unread.get(name, reason)}"
        )

    def cut(self, model: nn.Module) -> nn.Module:
        """A copy of ``model`` without the removed channels. Tensors that lose something are
        made at their new size at once.
        """
        sides = {n: (self.inputs.get(n, kept), kept) for n, kept in self.outputs.items()}
        cuts: dict[int, Tensor] = {}
        for name, (reads, makes) in sides.items():
            cuts |= _cuts(model.get_submodule(name), reads, makes)
        smaller = copied(model, lambda t: cuts[id(t)] if id(t) in cuts else t.detach().clone())
        for name, (reads, makes) in sides.items():
            _resize(smaller.get_submodule(name), reads, makes)
        return smaller

    def filter_masks(self, model: nn.Module) -> Masks:
        masks = {}
        for name, kept in self.outputs.items():
            layer: Any = model.get_submodule(name)
            if self.calls[name].kind != "prelu" and layer.weight is not None and not kept.all():
                weight = layer.weight  # (M, C / groups, ...), or (C, M, ...)
                kept = kept[None] if isinstance(layer, _ConvTransposeNd) else kept
                kept = kept.to(weight.device).view(*kept.shape, *[1] * (weight.ndim - kept.ndim))
                masks[f"{name}.weight"] = kept.expand(weight.shape).contiguous()
        return masks

    def comparison(self, model: nn.Module, absorb: bool) -> Comparison:
        gone = {
            name: ~self.inputs[name]
            for name, call in self.calls.items()
            if call.kind in MAKERS and not self.inputs[name].all()
        }
        absorbing = {
            name
            for name in gone
            # a transposed convolution makes different numbers of one constant
            if absorb
            and self.channels.times[name] == 1
            and not isinstance(model.get_submodule(name), _ConvTransposeNd)
        }
        return Comparison(model, self.outputs, gone, absorbing)

    def add(self, smaller: nn.Module, name: str, shift: Tensor) -> str:
        """Add ``shift`` (M,) to all that a layer of ``smaller`` makes, in the cheapest
        place. Returns where that is.
        """
        layer: Any = smaller.get_submodule(name)
        if isinstance(layer.bias, Tensor):
            layer.bias.copy_(layer.bias.to(shift) + shift)
            return "its bias"
        users = list(self.calls[name].node.users)
        behind = str(users[0].target) if users[0].op == "call_module" else ""
        norm: Any = smaller.get_submodule(behind)
        alone = len(users) == self.channels.times[behind] == 1
        if alone and isinstance(norm, _BatchNorm):
            if norm.running_mean is not None:
                norm.running_mean.copy_(norm.running_mean.to(shift) - shift)
                return f"the running mean of {behind!r}"
        trained = layer.weight.requires_grad
        layer.bias = nn.Parameter(shift.to(layer.weight), requires_grad=trained)
        return "a bias that it did not have"


def _names(names: Sequence[str]) -> str:
    shown = [repr(name) for name in names]
    return " and ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown)


def _groups_left(name: str, conv: nn.Module, reads: Tensor, makes: Tensor) -> int:
    """How many groups a grouped convolution is left with.

    Raises:
        ValueError: if what is left cannot be one grouped convolution.
    """
    groups = int(conv.groups)  # type: ignore[arg-type]
    ins, outs = (kept.view(groups, -1).sum(1) for kept in (reads, makes))
    alive = (ins > 0) | (outs > 0)
    if (
        len(ins[alive].unique()) > 1
        or len(outs[alive].unique()) > 1
        or (ins[alive] == 0).any()
        or (outs[alive] == 0).any()
    ):
        raise ValueError(
            f"{name!r} has {groups} groups, each of which makes {len(makes) // groups} channels"
            f" from {len(reads) // groups}. A group can be removed as a whole, or all groups lose"
            f" equally many channels; here they would read {ins.tolist()} and make {outs.tolist()}"
        )
    return int(alive.sum())


# -------------------------------------------------------------------- cutting one layer
def _cuts(layer: nn.Module, reads: Tensor, makes: Tensor) -> dict[int, Tensor]:
    """id of each tensor of ``layer`` that loses something -> what is left of it."""
    cuts: dict[int, Tensor] = {}
    kind, groups = layer_kind(layer), int(getattr(layer, "groups", 1))
    rows, columns = makes, reads  # (M, C / groups, ...)
    if isinstance(layer, _ConvTransposeNd):
        rows, columns = reads, makes  # (C, M, ...)
    for name, tensor in (*layer._parameters.items(), *layer._buffers.items()):
        if tensor is None or tensor.ndim == 0 or (reads.all() and makes.all()):
            continue
        if name != "weight" or kind in ("depthwise", "norm", "prelu"):
            cut = _take(tensor, 0, makes)
        else:
            parts = zip(*(x.chunk(groups) for x in (tensor, rows, columns)), strict=True)
            pieces = [_take(_take(w, 0, a), 1, b) for w, a, b in parts if a.any()]
            cut = torch.cat(pieces) if groups > 1 else pieces[0]
        if cut.shape == tensor.shape:
            continue
        if tensor.ndim == 4 and not tensor.is_contiguous():
            cut = cut.contiguous(memory_format=torch.channels_last)
        cuts[id(tensor)] = cut
    return cuts


def _smaller(layer: nn.Module, reads: Tensor, makes: Tensor) -> nn.Module:
    cuts = _cuts(layer, reads, makes)
    smaller = copied(layer, lambda t: cuts[id(t)] if id(t) in cuts else t.detach().clone())
    _resize(smaller, reads, makes)
    return smaller


def _resize(layer: Any, reads: Tensor, makes: Tensor) -> None:
    """Write the new numbers of channels into a layer whose tensors are cut already."""
    kind, read, made = layer_kind(layer), int(reads.sum()), int(makes.sum())
    if isinstance(layer, _ConvNd):
        if kind == "depthwise":
            layer.groups = read
        elif kind == "grouped":
            layer.groups = _groups_left("", layer, reads, makes)
        layer.in_channels, layer.out_channels = read, made
    elif isinstance(layer, nn.Linear):
        layer.in_features, layer.out_features = read, made
    elif isinstance(layer, nn.PReLU):
        layer.num_parameters = made
    else:
        layer.num_features = made


def _take(tensor: Tensor, dim: int, kept: Tensor) -> Tensor:
    if kept.all():
        return tensor.detach()
    return tensor.detach().index_select(dim, kept.nonzero().flatten().to(tensor.device))
