"""Filters that are removed for good: a smaller model, not one with zeros in it
(``docs/own_models.md`` shows how, from groups and scores to masks).

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

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd, _ConvTransposeNd

from course_lib.checks import check_mask, check_names
from course_lib.pruning.channels.comparison import Comparison
from course_lib.pruning.channels.groups import MAKERS, Channels, Group, layer_kind
from course_lib.pruning.channels.slimming import as_mask, channels_of, filter_sizes
from course_lib.pruning.channels.trace import copied
from course_lib.pruning.weights.masks import Masks
from course_lib.pruning.weights.scores import Scores
from course_lib.wrapped import refuse_wrapped


@dataclass(frozen=True)
class Report:
    """What :func:`remove_filters` did, before and after."""

    outputs: Mapping[str, tuple[int, int]]  # layer -> channels that it makes; norms, too
    inputs: Mapping[str, tuple[int, int]]  # layer -> channels, or features, that it reads
    parameters: tuple[int, int]  # of the whole model
    # layer -> where the constants of the channels that it no longer reads are now
    absorbed: Mapping[str, str] = field(default_factory=dict)
    # layer -> why its outputs are not what they would be with zeroed filters
    inexact: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        sizes = {"makes": self.outputs, "reads": self.inputs}
        lines = [
            f"{name} {what} {before} -> {after}"
            for what, layers in sizes.items()
            for name, (before, after) in layers.items()
        ]
        lines += [f"the constants that {n} read are now in {to}" for n, to in self.absorbed.items()]
        lines += [f"not as with zeroed filters: {n}: {why}" for n, why in self.inexact.items()]
        return "\n".join([*lines, "{:,} parameters -> {:,}".format(*self.parameters)])


@torch.no_grad()
def remove_filters(
    model: nn.Module, keep: Mapping[str, Tensor], example: Tensor, absorb: bool = True
) -> tuple[nn.Module, Report]:
    """A copy of ``model`` without the filters that are not kept, and what changed.

    Layers whose channels meet in an addition take the same mask, every one of them
    (:func:`~course_lib.pruning.channels.channel_groups` lists them). The groups of a
    grouped convolution are removed whole, or lose equally many channels each.

    The smaller model is run beside ``model`` with the removed channels silenced, on two
    random samples in float64 and in evaluation mode. Every layer and the outputs must
    agree, relative to their size. So a ``view`` with sizes written into the code, or a
    forward pass that computes with the number of channels, is refused.

    Args:
        model: any module that torch.fx can follow. It is not changed, and shares no
            tensor with the result. No other thread may run a model meanwhile, because of
            torch.fx.
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
            disagree; if channels cannot be removed; if the model cannot be followed; or if
            the smaller model computes something else, naming the layer where they part.
    """
    plan = _Plan(model, keep, example)
    smaller = _cut(model, plan.reads, plan.makes)
    absorbed: dict[str, str] = {}
    inexact: dict[str, str] = {}
    cut = [{n: k for n, k in kept.items() if not k.all()} for kept in (plan.makes, plan.reads)]
    if any(cut):
        comparison = Comparison(plan.channels, plan.makes, plan.reads, absorb)
        inexact = comparison.run_whole(model, example)
        absorbed = comparison.run_smaller(smaller)
    outputs, inputs = ({n: (len(k), int(k.sum())) for n, k in kept.items()} for kept in cut)
    before, after = (sum(p.numel() for p in m.parameters()) for m in (model, smaller))
    return smaller, Report(outputs, inputs, (before, after), absorbed, inexact)


def filter_masks(model: nn.Module, keep: Mapping[str, Tensor], example: Tensor) -> Masks:
    """What :func:`remove_filters` would remove as masks on parameters, True = kept: the
    same model with zeros, at full size, to see its accuracy or to fine-tune it.

    The filters and the scales α are masked, biases and shifts β are not: they are the
    constants.
    """
    plan, masks = _Plan(model, keep, example), {}
    for name, kept in plan.makes.items():
        layer: Any = model.get_submodule(name)
        weight = layer.weight
        if plan.channels.calls[name].kind != "prelu" and weight is not None and not kept.all():
            dim = int(_is_transposed(layer))  # (M, C / groups, ...), or (C, M, ...)
            sizes = [-1 if d == dim else 1 for d in range(weight.ndim)]
            masks[f"{name}.weight"] = kept.to(weight.device).view(sizes).expand_as(weight).clone()
    return masks


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
    """Three smaller new layers: ``conv`` with the filters ``keep`` alone, ``bn`` with their
    entries, ``next_conv`` reading them. Nothing is absorbed.

    Args:
        conv: makes M channels, (M, C, R, S), one group.
        next_conv: reads the M channels, one group; or a linear layer after a flatten,
            which reads M·H·W features.
        keep: channel indices, strictly increasing, at least one; or bool (M,).
    """
    makers = ("conv", "linear")
    for name, layer, kinds in (
        ("conv", conv, makers),
        ("bn", bn, ("norm",)),
        ("next_conv", next_conv, makers),
    ):
        if layer is not None and layer_kind(layer) not in kinds:
            wanted = "a batch norm" if name == "bn" else "a convolution with one group or linear"
            raise ValueError(f"{name} should be {wanted}, got {layer}")
    (made, reads), (makes, read) = channels_of(conv), channels_of(next_conv)
    kept = as_mask(keep, made)
    if not kept.any():
        raise ValueError("keep names the channels that stay, at least one; got none")
    read_on = kept.repeat_interleave(read // made if isinstance(next_conv, nn.Linear) else 1)
    all_read, all_made = (torch.ones(n, dtype=torch.bool) for n in (reads, makes))
    return (
        _cut(conv, {"": all_read}, {"": kept}),
        None if bn is None else _cut(bn, {}, {"": kept}),
        _cut(next_conv, {"": read_on}, {"": all_made}),
    )


# ---------------------------------------------------------- what is removed, what is kept
class _Plan:
    """Which channels every layer keeps, of those that it ``makes`` and ``reads``."""

    def __init__(self, model: nn.Module, keep: Mapping[str, Tensor], example: Tensor) -> None:
        self.channels = Channels(model, example)
        calls = self.channels.calls
        removed = self._removed(keep)  # (labels,)
        self.makes = {name: ~removed[call.outputs] for name, call in calls.items()}
        self.reads = {
            name: ~removed[call.inputs]
            for name, call in calls.items()
            if call.kind in (*MAKERS, "depthwise")
        }
        for name, kept in (*self.makes.items(), *self.reads.items()):
            if not kept.any():
                raise ValueError(f"keep leaves {name!r} none of {len(kept)} channels: keep one")

    def _removed(self, keep: Mapping[str, Tensor]) -> Tensor:
        """Label -> whether its channel is removed, if the masks of all layers that make it
        or another that it is tied to say so.
        """
        channels, calls = self.channels, self.channels.calls
        gone, stays = (torch.zeros(channels.count, dtype=torch.bool) for _ in range(2))
        for name, mask in keep.items():
            if name not in calls or bool(calls[name].outputs.eq(0).any()):
                check_names([name], channels.modules, "keep")
                raise ValueError(
                    f"keep[{name!r}] names a {type(channels.modules[name]).__name__} whose channels"
                    " cannot be followed: name a convolution or linear layer that the forward pass"
                    " calls on a batch, or a batch norm that reads the channels of one"
                )
            kept = check_mask(mask, f"keep[{name!r}]", (len(calls[name].outputs),)).cpu()
            gone[calls[name].outputs[~kept]] = True
            stays[calls[name].outputs[kept]] = True
        roots = channels.roots(channels.ties)
        removed = torch.isin(roots, roots[gone])
        makers = {name: call.outputs for name, call in calls.items() if call.kind in MAKERS}

        def where(root: int, which: Tensor) -> list[tuple[str, int]]:
            """The first channel of each layer that has some of the root among ``which``."""
            found = {n: ((roots == root) & which)[labels] for n, labels in makers.items()}
            return [(n, int(those.nonzero()[0])) for n, those in found.items() if those.any()]

        going, reasons = set(roots[gone].tolist()), channels.pinned(roots)
        for root in sorted(going & reasons.keys()):
            for name, number in where(root, gone)[:1]:
                raise ValueError(f"{name!r}: channel {number} cannot be removed: {reasons[root]}")
        kept = removed & (stays | ~gone)
        for root in roots[torch.cat([o[kept[o]] for o in makers.values()])].tolist():
            leaving, staying = where(root, gone), where(root, kept)
            (name, number), others = leaving[0], [repr(n) for n, _ in staying]
            meet = dict.fromkeys(w for a, _, w in channels.ties if (roots[a] == root).any())
            every = ", ".join(repr(n) for n, _ in where(root, removed))
            raise ValueError(
                f"keep removes channel {number} of {name!r}, but not the channel of"
                f" {' and '.join(others)} that it meets in {' and '.join([*meet][:2])}."
                f" Channels that meet are removed in all layers or in none: give the same mask to"
                f" each of {every}, and to the batch norms after them that have one"
            )
        return removed


# ------------------------------------------------------------------------------- cutting
def _cut(model: nn.Module, reads: Mapping[str, Tensor], makes: Mapping[str, Tensor]) -> nn.Module:
    """A copy of ``model`` whose layers make the channels ``makes``, and read ``reads`` or
    the same. Tensors that lose something are made at their new size at once.
    """
    cuts: dict[int, Tensor] = {}
    left: dict[str, int] = {}  # layer -> groups
    changed = [n for n, made in makes.items() if not (made.all() and reads.get(n, made).all())]
    for name in changed:
        layer: Any = model.get_submodule(name)
        made, read = makes[name], reads.get(name, makes[name])
        kind, groups = layer_kind(layer), getattr(layer, "groups", 1)
        if kind == "grouped":
            sizes = [(int(r.sum()), int(m.sum())) for r, m in _chunks(groups, read, made)]
            alive = [pair for pair in sizes if any(pair)]
            if len(set(alive)) > 1 or 0 in alive[0]:
                ins, outs = (list(some) for some in zip(*sizes, strict=True))
                raise ValueError(
                    f"{name!r} has {groups} groups: one can be removed as a whole, or all lose"
                    f" equally many channels; here they would read {ins} and make {outs}"
                )
            left[name] = len(alive)
        for key, tensor in (*layer._parameters.items(), *layer._buffers.items()):
            if tensor is None or tensor.ndim == 0:
                continue
            if key != "weight" or kind in ("depthwise", "norm", "prelu"):
                cut = _take(tensor, 0, made)
            else:  # (M, C / groups, ...), or (C, M, ...)
                rows, columns = (read, made) if _is_transposed(layer) else (made, read)
                parts = _chunks(groups, tensor, rows, columns)
                pieces = [_take(_take(w, 0, a), 1, b) for w, a, b in parts if a.any()]
                cut = torch.cat(pieces) if groups > 1 else pieces[0]
            if tensor.ndim == 4 and not tensor.is_contiguous():
                cut = cut.contiguous(memory_format=torch.channels_last)
            cuts[id(tensor)] = cut
    smaller = copied(model, lambda t: cuts[id(t)] if id(t) in cuts else t.detach().clone())
    for name in changed:
        layer = smaller.get_submodule(name)
        m, r = int(makes[name].sum()), int(reads.get(name, makes[name]).sum())
        numbers = {"in_channels": r, "in_features": r, "out_channels": m, "out_features": m}
        numbers |= {"num_features": m, "num_parameters": m}
        numbers |= {"groups": r if layer_kind(layer) == "depthwise" else left.get(name, 1)}
        for key, number in numbers.items():
            if hasattr(layer, key):
                setattr(layer, key, number)
    return smaller


def _chunks(groups: int, *tensors: Tensor) -> Iterator[tuple[Tensor, ...]]:
    return zip(*(x.chunk(groups) for x in tensors), strict=True)


def _take(tensor: Tensor, dim: int, kept: Tensor) -> Tensor:
    if len(kept) != tensor.shape[dim]:
        raise ValueError(f"a layer of {tensor.shape[dim]} channels cannot keep some of {len(kept)}")
    if kept.all():
        return tensor.detach()
    return tensor.detach().index_select(dim, kept.nonzero().flatten().to(tensor.device))


def _is_transposed(layer: nn.Module) -> bool:
    return isinstance(layer, _ConvTransposeNd)
