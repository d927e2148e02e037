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

A zero costs a dense kernel as much time as any other number; a filter that is not there
costs none. When filter i of a layer goes, so does entry i of the batch norm behind it
(all four vectors), filter i of a depthwise convolution that reads it, and input channel
i of every layer that does; where two layers' channels are added, filter i of both.

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

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, fx, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.conv import _ConvNd, _ConvTransposeNd

from course_lib.checks import check_mask, check_names
from course_lib.pruning.channels.constants import Constants, shift_of, taps_hit_padding
from course_lib.pruning.channels.groups import (
    MAKERS,
    Call,
    Channels,
    Group,
    layer_kind,
    tensor_of,
)
from course_lib.pruning.channels.slimming import as_mask, filter_sizes
from course_lib.pruning.channels.trace import copies_of_computed, skeleton
from course_lib.pruning.weights.masks import Masks
from course_lib.pruning.weights.scores import Scores
from course_lib.wrapped import refuse_wrapped


@dataclass(frozen=True)
class Report:
    """What :func:`remove_filters` did. ``str(report)`` is a table.

    - ``outputs``: layer -> channels it made before and after; batch norms and depthwise
      convolutions included.
    - ``inputs``: layer -> channels (or features, for a linear layer) it read before and
      after.
    - ``parameters``: of the whole model before and after.
    - ``absorbed``: layer -> where the constant of the channels that it no longer reads
      went.
    - ``inexact``: layer -> why its outputs are not what they would be with zeroed
      filters. Empty: they are the same.
    """

    outputs: Mapping[str, tuple[int, int]]
    inputs: Mapping[str, tuple[int, int]]
    parameters: tuple[int, int]
    absorbed: Mapping[str, str] = field(default_factory=dict)
    inexact: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        names = list(dict.fromkeys([*self.outputs, *self.inputs]))
        width = max([len(name) for name in names], default=0)
        lines = []
        for name in names:
            parts = [f"{name:{width}}"]
            for what, sizes in (("makes", self.outputs), ("reads", self.inputs)):
                parts.append(
                    f"{what} {sizes[name][0]} -> {sizes[name][1]}" if name in sizes else ""
                )
            lines.append(f"{parts[0]}  {parts[1]:20}  {parts[2]:20}".rstrip())
        lines += [
            f"the constants that {name} read are now in {where}"
            for name, where in self.absorbed.items()
        ]
        lines += [
            f"not as with zeroed filters: {name}: {why}" for name, why in self.inexact.items()
        ]
        before, after = self.parameters
        return "\n".join([*lines, f"{before:,} parameters -> {after:,}"])


def remove_filters(
    model: nn.Module, keep: Mapping[str, Tensor], example: Tensor, absorb: bool = True
) -> tuple[nn.Module, Report]:
    """A copy of ``model`` without the filters that are not kept, and a report of what
    changed.

    Channels are followed through convolutions, linear layers, batch and instance norms,
    activations, pooling, dropout, flatten (a channel becomes H·W features), residual
    additions, products (squeeze and excitation), concatenation and splitting, views of
    units as maps, and parameters with one number per channel. Layers
    whose channels meet in an addition take the same mask, every one of them
    (:func:`~course_lib.pruning.channels.channel_groups` lists them). Depthwise
    convolutions follow what they read. A grouped convolution stays one: its groups must
    go whole, inputs and outputs, or lose equally many channels each. The smaller model
    is traced again to see that every layer reads the very channels that it read before;
    so a ``view`` with sizes written into the code is noticed, and refused.

    Args:
        model: any module that torch.fx can follow. It is not changed, and shares no
            tensor with the result. No other thread may run a model meanwhile: torch.fx
            changes how every module of the process is called.
        keep: layer name -> bool (C,), True = kept. The layer is a convolution or a
            linear layer, or the batch norm or depthwise convolution behind it, which
            stands for it. Layers that are not named keep everything.
        example: a batch as the model takes it; only its shape and dtype matter.
        absorb: move the constant of removed channels into the bias of the layer that
            read them, or where that layer has none and a batch norm follows, out of the
            batch norm's running mean; else the layer gets a bias. (A batch norm in
            training mode takes any such shift out again.) With False the constants are
            dropped.

    Returns:
        The smaller model, of the same classes, in the same modes and on the same
        devices; and a :class:`Report`, whose ``inexact`` says where the outputs are not
        exactly those of the model with zeroed filters.

    Raises:
        ValueError: if a mask does not fit its layer, or leaves nothing of it; if layers
            disagree whose channels are added or shared, naming them; if channels are
            the model's input or output or are read by something unknown, naming it; if
            a grouped convolution would lose its groups; or if the model cannot be
            followed.
    """
    plan = _Plan(model, keep, example)
    smaller = plan.cut(model)
    absorbed, inexact = _absorb(plan, model, smaller, absorb)
    plan.verify(smaller, example)
    return smaller, Report(
        outputs={name: (len(k), int(k.sum())) for name, k in plan.outputs.items() if not k.all()},
        inputs={name: (len(k), int(k.sum())) for name, k in plan.inputs.items() if not k.all()},
        parameters=(_count(model), _count(smaller)),
        absorbed=absorbed,
        inexact=inexact,
    )


def filter_masks(model: nn.Module, keep: Mapping[str, Tensor], example: Tensor) -> Masks:
    """What :func:`remove_filters` would remove, as masks on parameters: the same model
    with zeros, at full size.

    For ``apply`` and ``masked``, to see the accuracy before anything is cut, or to
    fine-tune with the zeros held. The filters and the scales α are masked, biases and
    shifts β are not: they are the constants.

    Args and raises as in :func:`remove_filters`.

    Returns:
        Masks (True = kept) of the weights that lose something, by parameter name.
    """
    plan = _Plan(model, keep, example)
    masks, seen = {}, set()
    for name, kept in plan.outputs.items():
        call = plan.calls[name]
        weight = tensor_of(model, call)
        if (
            kept.all()
            or weight is None
            or call.kind in ("prelu", "parameter")
            or id(weight) in seen
        ):
            continue
        seen.add(id(weight))
        kept = kept.to(weight.device)
        layer = model.get_submodule(name)
        if isinstance(layer, _ConvTransposeNd):  # (C, M / groups, ...)
            rows = kept.view(layer.groups, 1, -1).expand(-1, len(weight) // layer.groups, -1)
            kept = rows.reshape(weight.shape[:2])
        shape = [*kept.shape, *[1] * (weight.ndim - kept.ndim)]
        masks[f"{name}.weight"] = kept.view(shape).expand(weight.shape).contiguous()
    return masks


def l1_filters(model: nn.Module, groups: Sequence[Group] | None = None) -> Scores:
    """The L1 norm of every filter: Σ|w| over all that makes one output channel.

    Args:
        model: its convolutions and linear layers are scored; biases do not count.
        groups: from :func:`~course_lib.pruning.channels.channel_groups`. Channels that
            go together then get one score, the sum over the layers that make them;
            groups that cannot be removed are left out.

    Returns:
        Without groups: layer name -> (M,). With: name of the group's first
        producer -> (channels,). float64, and larger = more important, so
        ``local_masks(scores, 0.5)`` keeps the larger half of each. Those are masks of
        groups; ``group.masks(mask)`` makes of one what ``remove_filters`` takes.

    Source: Li et al. 2017, "Pruning Filters for Efficient ConvNets", sections 3.1 and,
    for groups, 3.3 (there the first layer of a group alone decides).
    """
    refuse_wrapped(model, "parallel", "compile", "prune")
    norms = {}
    for name, layer in model.named_modules():
        if isinstance(layer, _ConvNd | nn.Linear):
            norms[name] = filter_sizes(layer).sum(1)
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
        bn: the batch norm behind it, or None.
        next_conv: reads the M channels, one group; or a linear layer behind a flatten,
            which reads M·H·W features.
        keep: channel indices, strictly increasing, at least one; or bool (M,),
            True = kept.

    Returns:
        New modules; the given ones are unchanged. Nothing is absorbed.

    Raises:
        ValueError: if ``keep`` is not as described, or the layers do not fit together.
    """
    kinds = {"conv": layer_kind(conv), "next_conv": layer_kind(next_conv)}
    for name, kind in kinds.items():
        if kind not in ("conv", "linear"):
            raise ValueError(
                f"{name} should be a convolution with one group or a linear layer, got"
                f" {locals()[name]}"
            )
    M = _made(conv)
    kept = as_mask(keep, M)
    if not kept.any():
        raise ValueError("keep names the channels that stay, at least one; got none")
    if bn is not None and (layer_kind(bn) != "norm" or bn.num_features != M):
        raise ValueError(f"bn should normalise the {M} channels that conv makes, got {bn}")
    read = _read(next_conv)
    if read != M and (kinds["next_conv"] != "linear" or read % M):
        raise ValueError(f"next_conv reads {read} channels, but conv makes {M}")
    everything = torch.ones(_read(conv), dtype=torch.bool)
    return (
        _cut_layer(conv, everything, kept),
        None if bn is None else _cut_layer(bn, kept, kept),
        _cut_layer(
            next_conv,
            kept.repeat_interleave(read // M),
            torch.ones(_made(next_conv), dtype=torch.bool),
        ),
    )


# ---------------------------------------------------------------- what goes, what stays
class _Plan:
    """Which channels every layer keeps, after all checks that need no second look at
    the model.
    """

    def __init__(self, model: nn.Module, keep: Mapping[str, Tensor], example: Tensor) -> None:
        self.skeleton = skeleton(model)
        self.channels = Channels(self.skeleton, example)
        self.roots = self.channels.roots()
        self.calls: dict[str, Call] = {}
        for call in self.channels.calls:
            self.calls.setdefault(call.name, call)
        self.removed = self._agreed(self._votes(keep))  # (labels,)
        self.outputs = {
            name: ~torch.from_numpy(self.removed[c.outputs.numpy()])
            for name, c in self.calls.items()
        }
        self.inputs = {
            name: ~torch.from_numpy(self.removed[c.inputs.numpy()])
            for name, c in self.calls.items()
            if c.kind in (*MAKERS, "depthwise")
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

    def _votes(self, keep: Mapping[str, Tensor]) -> np.ndarray[Any, Any]:
        """Label -> 1 where a mask keeps the channel, 2 where one removes it, 0 where
        none says anything.
        """
        votes = np.zeros(self.channels.count, np.int8)
        voters: dict[int, str] = {}
        for name, mask in keep.items():
            if name not in self.calls:
                self._refuse(name)
            labels = self.calls[name].outputs.numpy()
            check_mask(mask, f"keep[{name!r}]", (len(labels),))
            for vote, part in ((1, labels[mask.cpu().numpy()]), (2, labels[~mask.cpu().numpy()])):
                part = part[part > 0]
                against = part[(votes[part] != 0) & (votes[part] != vote)]
                if len(against):
                    other = voters[int(against[0])]
                    raise ValueError(
                        f"keep[{name!r}] and keep[{other!r}] are about the same channels and differ"
                        if other != name
                        else (
                            f"keep[{name!r}] keeps and removes what is one channel of its input: a"
                            " depthwise convolution follows what it reads"
                        )
                    )
                votes[part] = vote
                voters.update(dict.fromkeys(part.tolist(), name))
        return votes

    def _refuse(self, name: str) -> None:
        """Raises ValueError: this is no layer with channels that can be followed."""
        check_names([name], self.channels.modules, "keep")
        module = self.channels.modules[name]
        reason = "it has none of its own: name the convolution, linear layer or batch norm"
        if layer_kind(module):
            reason = self.channels.unread.get(name, "the model's forward does not call it")
        raise ValueError(
            f"keep[{name!r}] names a {type(module).__name__} whose channels cannot be followed:"
            f" {reason}"
        )

    def _agreed(self, votes: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Label -> whether its channel goes, if all that are tied to it say so."""
        gone = np.zeros(self.channels.count, bool)
        gone[self.roots[votes == 2]] = True
        for root, reason in self.channels.pinned(self.roots).items():
            if gone[root]:
                name = self._makers(np.flatnonzero((self.roots == root) & (votes == 2)))[0]
                channels = self._numbers(name, gone)
                raise ValueError(f"{name!r}: channels {channels} cannot be removed: {reason}")
        for call in self.calls.values():
            if call.kind == "parameter":  # it follows, and needs no mask of its own
                labels = call.outputs.numpy()
                votes[labels[gone[self.roots[labels]] & (votes[labels] == 0)]] = 2
        removed = gone[self.roots]
        split = np.flatnonzero(removed & (votes != 2))
        if len(split):
            root = self.roots[split[0]]
            together = np.flatnonzero(self.roots == root)
            leave = self._makers(together[votes[together] == 2])
            stay = self._makers(together[votes[together] != 2])
            places = [w for a, b, w in self.channels.ties if (self.roots[a.numpy()] == root).any()]
            every = [n for n, c in self.calls.items() if c.kind in MAKERS and n in (*leave, *stay)]
            goes = np.isin(self.calls[leave[0]].outputs, together[votes[together] == 2])
            number = int(np.flatnonzero(goes)[0])
            if leave == stay:
                units = np.flatnonzero(np.isin(self.calls[leave[0]].outputs, together))
                raise ValueError(
                    f"channel {number} of {leave[0]!r} is to be removed, but in"
                    f" {_names(list(dict.fromkeys(places))[:2], quote=False)} it is one channel"
                    f" with others of {leave[0]!r}: remove all of {units[:20].tolist()} or none"
                )
            raise ValueError(
                f"channel {number} of {_names(leave)} is to be removed, but {_names(stay)}"
                f" {'keeps' if len(stay) == 1 else 'keep'} the channel that it meets in"
                f" {_names(list(dict.fromkeys(places))[:2], quote=False)}. Channels that meet are"
                f" removed in all or in none: give the same mask to each of {_names(every)}"
            )
        return removed

    def _makers(self, labels: np.ndarray[Any, Any]) -> list[str]:
        """The layers that make these channels."""
        wanted = set(labels.tolist())
        return [
            n
            for n, c in self.calls.items()
            if c.kind in MAKERS and wanted & set(c.outputs.tolist())
        ] or ["the input"]

    def _numbers(self, name: str, gone: np.ndarray[Any, Any]) -> str:
        numbers = np.flatnonzero(gone[self.roots[self.calls[name].outputs.numpy()]]).tolist()
        return ", ".join(map(str, numbers[:5])) + (", …" if len(numbers) > 5 else "")

    def cut(self, model: nn.Module) -> nn.Module:
        """A copy of ``model`` in which every tensor that loses something is made at its
        new size at once.
        """
        memo = copies_of_computed(model)
        for name in self._changed():
            memo.update(_slices(model.get_submodule(name), self._reads(name), self.outputs[name]))
        for name in self._parameters():
            tensor = tensor_of(model, self.calls[name])
            assert tensor is not None
            dim = max(range(tensor.ndim), key=lambda d: tensor.shape[d])
            memo[id(tensor)] = _like(tensor, _take(tensor, dim, self.outputs[name]))
        smaller = copy.deepcopy(model, memo)
        for name in self._changed():
            _resize(smaller.get_submodule(name), self._reads(name), self.outputs[name])
        return smaller

    def _changed(self) -> list[str]:
        return [
            n
            for n, call in self.calls.items()
            if call.kind != "parameter" and not (self.outputs[n].all() and self._reads(n).all())
        ]

    def _parameters(self) -> list[str]:
        return [
            n
            for n, call in self.calls.items()
            if call.kind == "parameter" and not self.outputs[n].all()
        ]

    def _reads(self, name: str) -> Tensor:
        return self.inputs.get(name, self.outputs[name])

    def verify(self, smaller: nn.Module, example: Tensor) -> None:
        """Make sure that every layer of the smaller model reads the very channels that
        it read before.
        """

        def left(labels: Tensor) -> Tensor:
            labels = labels[~torch.from_numpy(self.removed[labels.numpy()])]
            return torch.from_numpy(self.roots[labels.numpy()]).long()

        made = {name: left(labels) for name, labels in self.channels.labels.items()}
        made.update({n: left(c.outputs) for n, c in self.calls.items() if c.kind == "depthwise"})
        # the skeleton has served; cut it too, which is faster than making another
        for name in self._changed():
            layer, cut = self.skeleton.get_submodule(name), smaller.get_submodule(name)
            for key, parameter in cut._parameters.items():
                layer._parameters[key] = (
                    None
                    if parameter is None
                    else nn.Parameter(parameter.detach().to("meta"), False)
                )
            for key, buffer in cut._buffers.items():
                layer._buffers[key] = None if buffer is None else buffer.to("meta")
            _resize(layer, self._reads(name), self.outputs[name])
        for name in self._parameters():
            path, _, attribute = name.rpartition(".")
            tensor = getattr(smaller.get_submodule(path), attribute).detach().to("meta")
            owner = self.skeleton.get_submodule(path)
            setattr(owner, attribute, _like(getattr(owner, attribute), tensor))
        try:
            after = Channels(self.skeleton, example, made)
        except ValueError as error:
            raise ValueError(
                "these channels cannot be removed, since the model does not run without them:"
                f" {error}. Is a number of channels or features written into its forward? Take it"
                " from the tensor's shape, or use flatten"
            ) from error
        trouble = [
            where for a, _, where in after.ties if len(a)
        ]  # what is tied has one root, and that is its label now
        # a PReLU that is left with one slope is no layer of channels any more
        was, now = (
            [c for c in calls if c.kind != "prelu"] for calls in (self.channels.calls, after.calls)
        )
        if [c.name for c in was] != [c.name for c in now]:
            trouble.append("the model's forward, which takes another way with fewer channels")
        for old, new in zip(was, now, strict=False):
            if not torch.equal(left(old.inputs), new.inputs):
                trouble.append(f"the inputs of {new.name!r}")
        if trouble:
            raise ValueError(
                "these channels cannot be removed: the channels that are left would fall on other"
                f" places in {trouble[0]}. Is a number of channels or features written into the"
                " model's forward?"
            )


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
            f" from {len(reads) // groups}. A group can go as a whole, or all groups lose equally"
            f" many channels; here they would read {ins.tolist()} and make {outs.tolist()}"
        )
    return int(alive.sum())


# -------------------------------------------------------------------- cutting one layer
def _made(layer: nn.Module) -> int:
    return int(layer.out_features if isinstance(layer, nn.Linear) else layer.out_channels)  # type: ignore[arg-type]


def _read(layer: nn.Module) -> int:
    return int(layer.in_features if isinstance(layer, nn.Linear) else layer.in_channels)  # type: ignore[arg-type]


def _cut_layer(layer: nn.Module, reads: Tensor, makes: Tensor) -> nn.Module:
    """A new layer that reads and makes only these channels, masks (C,) and (M,)."""
    smaller = copy.deepcopy(layer, _slices(layer, reads, makes))
    _resize(smaller, reads, makes)
    return smaller


def _slices(layer: nn.Module, reads: Tensor, makes: Tensor) -> dict[int, Any]:
    """id of each tensor of ``layer`` that loses something -> the tensor that takes its
    place (a memo for deepcopy).
    """
    new: dict[int, Any] = {}
    kind = layer_kind(layer)
    for name, tensor in (*layer._parameters.items(), *layer._buffers.items()):
        if tensor is None or tensor.ndim == 0:  # num_batches_tracked
            continue
        with torch.no_grad():
            if name != "weight" or kind in ("depthwise", "norm", "prelu"):
                cut = _take(tensor, 0, makes)
            else:
                first, second = makes, reads  # (M, C / groups, ...)
                if isinstance(layer, _ConvTransposeNd):
                    first, second = reads, makes  # (C, M / groups, ...)
                groups = int(getattr(layer, "groups", 1))
                parts = zip(*(part.chunk(groups) for part in (tensor, first, second)), strict=True)
                cuts = [_take(_take(w, 0, a), 1, b) for w, a, b in parts if a.any()]
                cut = torch.cat(cuts) if groups > 1 else cuts[0]
            if cut is tensor:
                continue
            if tensor.ndim == 4 and not tensor.is_contiguous():  # channels_last stays channels_last
                if tensor.is_contiguous(memory_format=torch.channels_last):
                    cut = cut.contiguous(memory_format=torch.channels_last)
        new[id(tensor)] = _like(tensor, cut)
    return new


def _like(tensor: Tensor, cut: Tensor) -> Tensor:
    """``cut`` as a parameter where ``tensor`` is one."""
    return nn.Parameter(cut, tensor.requires_grad) if isinstance(tensor, nn.Parameter) else cut


def _take(tensor: Tensor, dim: int, kept: Tensor) -> Tensor:
    if kept.all():
        return tensor
    return tensor.detach().index_select(dim, kept.nonzero().flatten().to(tensor.device))


def _resize(layer: nn.Module, reads: Tensor, makes: Tensor) -> None:
    """Write the new numbers of channels into a layer whose tensors are cut already."""
    kind, n_in, n_out = layer_kind(layer), int(reads.sum()), int(makes.sum())
    if isinstance(layer, _ConvNd):
        if kind == "depthwise":
            layer.groups = n_in
        elif kind == "grouped":
            layer.groups = _groups_left("", layer, reads, makes)
        layer.in_channels, layer.out_channels = n_in, n_out
    elif isinstance(layer, nn.Linear):
        layer.in_features, layer.out_features = n_in, n_out
    elif isinstance(layer, nn.PReLU):
        layer.num_parameters = n_out
    else:
        layer.num_features = n_out  # type: ignore[assignment]


def _count(model: nn.Module) -> int:
    return sum(p.numel() for p in model.parameters())


# ---------------------------------------------------------------------------- constants
def _absorb(
    plan: _Plan, model: nn.Module, smaller: nn.Module, wanted: bool
) -> tuple[dict[str, str], dict[str, str]]:
    """Move the constants of removed channels into ``smaller``, in place. Returns
    Report's ``absorbed`` and ``inexact``.
    """
    absorbed: dict[str, str] = {}
    inexact: dict[str, str] = {}
    if not plan.removed.any():
        return absorbed, inexact
    constants = Constants(plan.channels, model, plan.removed)
    shifts: dict[str, Tensor] = {}
    for call in plan.channels.calls:
        if call.kind not in MAKERS or plan.inputs[call.name].all():
            continue
        name, layer = call.name, model.get_submodule(call.name)
        gone = ~plan.inputs[name]  # (C,)
        seen = constants.at(
            call.node.all_input_nodes[0], 1 if isinstance(layer, _ConvNd) else -1, len(gone)
        )
        constant = torch.where(gone, seen, 0.0)  # (C,)
        if constant.isnan().any():
            inexact[name] = (
                "some of the removed channels were not constant (they met others that are kept,"
                " or each of their places has another constant), and are dropped"
            )
            constant = constant.nan_to_num(0.0)
        if name in shifts:
            if not torch.equal(shifts[name], constant):
                inexact[name] = (
                    "it is called more than once, with other constants each time, and they are"
                    " dropped"
                )
                absorbed.pop(name, None)
            continue
        shifts[name] = constant
        if not constant.any():
            continue
        if not wanted:
            inexact[name] = "the constants of the removed channels are dropped"
        elif isinstance(layer, _ConvTransposeNd):
            inexact[name] = (
                "a transposed convolution makes different numbers of one constant, and it is"
                " dropped"
            )
        else:
            absorbed[name] = ""
            labels = call.inputs[gone & (constant != 0)].tolist()
            border = next(
                (constants.borders[label] for label in labels if label in constants.borders), None
            )
            if border or taps_hit_padding(layer):
                inexact[name] = (
                    f"zeros are put round the maps{f' in {border}' if border else ''}, so borders"
                    " differ"
                )
    for name in absorbed:
        layer, target = model.get_submodule(name), smaller.get_submodule(name)
        assert isinstance(layer.weight, Tensor)
        # (M kept,)
        shift = shift_of(layer.weight, shifts[name], getattr(layer, "groups", 1))[
            plan.outputs[name]
        ]
        absorbed[name] = _add(plan, smaller, target, plan.calls[name].node, shift)
    return absorbed, inexact


@torch.no_grad()
def _add(plan: _Plan, smaller: nn.Module, layer: nn.Module, node: fx.Node, shift: Tensor) -> str:
    """Add ``shift`` (M,) to all that ``layer`` makes, in the cheapest place. Returns
    where that is.
    """
    weight = layer.weight
    assert isinstance(weight, Tensor)
    if isinstance(layer.bias, Tensor):
        layer.bias.copy_(layer.bias.cpu().double() + shift)
        return "its bias"
    norm = _only_norm_behind(plan, smaller, node)
    if norm is not None:
        name, bn = norm
        assert isinstance(bn.running_mean, Tensor)
        bn.running_mean.copy_(bn.running_mean.cpu().double() - shift)
        return f"the running mean of {name!r}"
    layer.bias = nn.Parameter(shift.to(weight), requires_grad=weight.requires_grad)
    return "a bias that it did not have"


def _only_norm_behind(
    plan: _Plan, smaller: nn.Module, node: fx.Node
) -> tuple[str, _BatchNorm] | None:
    """The batch norm that is all that reads what ``node`` makes, if there is one and it
    is used nowhere else.
    """
    users = list(node.users)
    if len(users) != 1 or users[0].op != "call_module":
        return None
    name = str(users[0].target)
    module = smaller.get_submodule(name)
    calls = sum(call.name == name for call in plan.channels.calls)
    if isinstance(module, _BatchNorm) and module.running_mean is not None and calls == 1:
        return name, module
    return None


def _names(names: Sequence[str], quote: bool = True) -> str:
    shown = [repr(n) if quote and n != "the input" else n for n in names]
    return " and ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown)
