"""Network slimming: let training itself choose the channels, by an L1 term on the
scales of batch norm.

::

    from course_lib.pruning.channels import slimming
    from course_lib.training import fit

    fit(model, data.train, epochs=5, penalty=lambda: slimming.penalty(model, 1e-2))
    keep = slimming.select_channels(model, 0.7)  # batch norm -> bool (C,), True = kept

The scale is α, a parameter of batch norm (torch's ``weight``, γ in the paper), not
p = α/√(σ² + ε): an L1 term on p could be lowered by larger weights in the layer before.

Source: Liu et al. 2017, "Learning Efficient Convolutional Networks through Network
Slimming".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.conv import _ConvTransposeNd

from course_lib.checks import check_mask, check_names
from course_lib.pruning.channels.folding import layers_before
from course_lib.pruning.channels.trace import batch_norms
from course_lib.pruning.weights.granularity import count_pruned
from course_lib.pruning.weights.scores import Scores
from course_lib.ranking import flat, prune_smallest


def penalty(model: nn.Module, lam: float) -> Tensor:
    """λ·Σ|α| over every scale of every batch norm: a scalar to be added to the loss,
    with its gradient λ·sign(α).

    Unlike weight decay, which pulls at α in proportion to its size, it pulls at small
    scales as hard as at large ones.

    Args:
        lam: λ >= 0. Liu et al. use 1e-4 to 1e-5, over 160 epochs of CIFAR-10; small
            data in few epochs need more.
    """
    if not 0 <= lam < math.inf:
        raise ValueError(f"lam weighs the penalty, a number of 0 or more; got {lam}")
    alphas = {id(bn.weight): bn.weight for bn in batch_norms(model).values()}
    alphas.pop(id(None), None)  # batch norms without a scale
    if not alphas:
        raise ValueError("model should have a batch norm with a scale (affine=True); it has none")
    sizes = [alpha.abs().sum() for alpha in alphas.values()]
    return lam * torch.stack([size.to(sizes[0].device) for size in sizes]).sum()


def scales(model: nn.Module) -> Scores:
    """|α| of every channel, (C,), by the name of its batch norm: the score of network
    slimming. Batch norms without α have none.
    """
    return {
        name: bn.weight.detach().abs()
        for name, bn in batch_norms(model).items()
        if bn.weight is not None
    }


def filter_norms(model: nn.Module) -> Scores:
    """The L1 norm of the filter that makes each channel, (C,) in float64, by the name
    of the batch norm after it: the alternative to :func:`scales` that needs no special
    training. Batch norms that no single layer feeds (see ``fold_model``) have no score.

    Source: Li et al. 2017, "Pruning Filters for Efficient ConvNets", section 3.1.
    """
    return {
        name: filter_sizes(model.get_submodule(layer)).sum(1)
        for name, (layer, _) in layers_before(model).items()
        if layer
    }


def select_channels(
    model: nn.Module,
    fraction: float,
    score: Callable[[nn.Module], Scores] = scales,
    names: Iterable[str] | None = None,
) -> dict[str, Tensor]:
    """Which channels to keep, when those of all layers compete: batch norm name -> bool
    (C,), True = kept.

    Of the n channels the ``round(fraction * n)`` with the smallest scores are removed,
    among equal ones the first in order. But each layer's largest is always kept. A larger
    fraction keeps a subset of what a smaller one keeps.

    Every batch norm decides by itself, which fits chains of layers: for residual networks
    score the groups of ``channel_groups``, with ``l1_filters`` for example.

    Args:
        fraction: of the channels to remove, in [0, 1].
        score: makes one score per channel, by batch norm: :func:`scales` or
            :func:`filter_norms`.
        names: the batch norms that take part. None: all that have a score.

    Source: Liu et al. 2017, section 3, "a global threshold across all layers".
    """
    scored = score(model)
    if names is not None:
        names = [names] if isinstance(names, str) else list(names)
        check_names(names, scored, "names")
        scored = {name: s for name, s in scored.items() if name in names}
    if not scored:
        raise ValueError("model should have a batch norm with a scale (affine=True); it has none")
    parts = [flat(s, name) for name, s in scored.items()]
    kept = prune_smallest(parts, count_pruned(fraction, sum(map(len, parts)), "fraction"))
    for part, k in zip(parts, kept, strict=True):
        if not k.any():
            # of equal ones the last, which was the last to go
            k[len(part) - 1 - int(np.argmax(part[::-1]))] = True
    return {
        name: torch.from_numpy(k).to(s.device)
        for (name, s), k in zip(scored.items(), kept, strict=True)
    }


@torch.no_grad()
def absorb_removed(
    layer: nn.Module, bn: _BatchNorm, next_layer: nn.Module, keep: Tensor | Sequence[int]
) -> Tensor:
    """What to add to the bias of the next layer, (M,), so that channels with α = 0 can be
    removed without any loss.

    Such a channel is the same number everywhere, relu(β) (not relu(q): with α = 0, q is β).
    A convolution makes a constant of it again, the sum of its kernel times relu(β). At a
    border padded with zeros the channel gave less than that; elsewhere it is exact. What
    lies between may pool (max, or average without zero padding) or flatten.

    Args:
        next_layer: Conv1d/2d/3d with C input channels, or a Linear with C·k inputs, k per
            channel, as flattening (C, H, W) leaves them.
        keep: bool (C,), True = kept, or the indices of those kept, strictly increasing.

    Source: Ye et al. 2018, "Rethinking the Smaller-Norm-Less-Informative Assumption in
    Channel Pruning of Convolution Layers".
    """
    made, (_, inputs) = bn.num_features, channels_of(next_layer)
    kept, flat_maps = as_mask(keep, made), isinstance(next_layer, nn.Linear)
    if not flat_maps and not isinstance(next_layer, nn.Conv1d | nn.Conv2d | nn.Conv3d):
        raise TypeError(
            f"next_layer should be a Conv1d/2d/3d or a Linear, got {type(next_layer).__name__}:"
            " only there a constant input makes a constant output"
        )
    if channels_of(layer)[0] != made or inputs % made or (inputs != made and not flat_maps):
        raise ValueError(
            f"layer should make, and next_layer read, the {made} channels of the batch norm, got"
            f" {channels_of(layer)[0]} and {inputs}"
        )
    constant = torch.zeros(made) if bn.bias is None else F.relu(bn.bias)
    kept, constant = (x.repeat_interleave(inputs // made) for x in (kept, constant))
    return cascade(kept, next_layer.weight, constant)[1]  # type: ignore[arg-type]


@torch.no_grad()
def cascade(
    keep: Tensor, next_weight: Tensor, constant: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Removed channels make weights of the next layer useless: which ones, bool as
    ``next_weight``, True = useful; and the shift (M,) that they leave to its bias.

    A weight that only meets a removed channel meets a constant, so its product is always
    the same, and goes into the bias: exactly but for zero-padded borders.

    Args:
        keep: bool (C,), True = kept.
        next_weight: (M, C, ...), for example (M, C, R, S), of a convolution or a linear layer.
        constant: (C,), what removed channels give, *after* the activation: relu(β).
            None: zero.
    """
    kept = check_mask(keep, "keep", next_weight.shape[1:2]).cpu()
    constant = torch.zeros(len(kept)) if constant is None else constant
    if constant.shape != kept.shape:
        raise ValueError(f"constant has {constant.numel()} numbers for {len(kept)} channels")
    useful = kept.to(next_weight.device).view(1, -1, *[1] * (next_weight.ndim - 2))
    # filled, not multiplied: inf of a kept channel does not count
    gone = constant.detach().cpu().double().masked_fill(kept, 0.0)
    return useful.expand_as(next_weight).clone(), shift_of(next_weight, gone).to(next_weight)


def shift_of(weight: Tensor, constants: Tensor, groups: int = 1) -> Tensor:
    """What ``constants`` (C,) add to every output of a layer with ``weight`` (M, C //
    groups, ...): (M,), float64.
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


def channels_of(layer: nn.Module) -> tuple[int, int]:
    """How many channels or features a layer makes and reads; 0 where it says none."""
    made: Any = getattr(layer, "out_channels", getattr(layer, "out_features", 0))
    read: Any = getattr(layer, "in_channels", getattr(layer, "in_features", 0))
    return made, read


def as_mask(keep: Tensor | Sequence[int], channels: int) -> Tensor:
    """``keep``, a mask or strictly increasing indices, as a bool mask (channels,) on the
    CPU.
    """
    given = torch.as_tensor(keep).detach().cpu()
    if given.dtype == torch.bool:
        return check_mask(given, "keep", (channels,))
    increasing = (given.diff() > 0).all() and bool(((given >= 0) & (given < channels)).all())
    if given.ndim != 1 or not increasing or (given.numel() and given.is_floating_point()):
        raise ValueError(
            f"keep is a bool mask of the {channels} channels, or their strictly increasing"
            f" indices from 0 to {channels - 1}; got {keep}"
        )
    return torch.zeros(channels, dtype=torch.bool).scatter_(0, given.long(), True)


def filter_sizes(layer: nn.Module) -> Tensor:
    """|w| of all weights that make one output channel, (M, weights of a filter),
    float64 on the CPU.
    """
    weight: Any = layer.weight  # no parameter of its own under torch.nn.utils.prune
    sizes: Tensor = weight.detach().cpu().double().abs()
    if isinstance(layer, _ConvTransposeNd):  # (C, M/G, ...): M of them, group by group
        sizes = sizes.unflatten(0, (layer.groups, -1)).transpose(1, 2).flatten(0, 1)
    return sizes.flatten(1)
