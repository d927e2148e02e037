# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#       format_version: '1.3'
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Lab 04 · Structure: filters, batch-norm folding, network slimming

# %%
from course_lib.grading import check, skip  # noqa: F401  (skip is yours to use)

# isort: split
import copy
from collections.abc import Callable

import torch
from torch import Tensor, nn

# %% [markdown]
# ### 4.1 Batch norm is a line
# **8 minutes · 2 points**

# %%
### BEGIN SOLUTION
prediction_4_1 = "none"
### END SOLUTION


# %%
def bn_scale_shift(bn: nn.BatchNorm2d) -> tuple[Tensor, Tensor]:
    """The p and q with which a batch norm in evaluation mode computes p · x + q, channel by channel.

    Args:
        bn: with running statistics μ (``running_mean``) and σ² (``running_var``), a scale α (``weight``), a shift β
            (``bias``) and ε (``eps``). It is not changed.

    Returns:
        p and q, both (C,), without gradient: p = α / √(σ² + ε) and q = β − p · μ.
    """
    ### BEGIN SOLUTION
    p = bn.weight.detach() / torch.sqrt(bn.running_var + bn.eps)  # (C,)
    return p, bn.bias.detach() - p * bn.running_mean
    ### END SOLUTION


# %%
check("4.1")


# %%
def fold_bn(conv: nn.Conv2d, bn: nn.BatchNorm2d) -> nn.Conv2d:
    """One convolution that computes ``bn(conv(x))`` in evaluation mode.

    Args:
        conv: (M, C/groups, R, S), with or without a bias, any stride, padding, dilation and groups. Not changed.
        bn: of M channels. Not changed.

    Returns:
        A new convolution, in evaluation mode, with a bias, and otherwise with the settings of ``conv``.

    Raises:
        RuntimeError: if ``conv`` or ``bn`` is in training mode.
    """
    ### BEGIN SOLUTION
    if conv.training or bn.training:
        raise RuntimeError("in training mode a batch norm uses each batch's own statistics: call .eval() first")
    p, q = bn_scale_shift(bn)  # (M,), (M,)
    folded = copy.deepcopy(conv)
    weight = conv.weight.detach() * p[:, None, None, None]  # (M, C/groups, R, S): filter m times p of channel m
    bias = q if conv.bias is None else q + p * conv.bias.detach()
    folded.weight, folded.bias = nn.Parameter(weight), nn.Parameter(bias)
    return folded
    ### END SOLUTION


# %%
check("4.2")


# %%
def remove_filters(
    conv: nn.Conv2d, bn: nn.BatchNorm2d, next_conv: nn.Conv2d, keep: list[int]
) -> tuple[nn.Conv2d, nn.BatchNorm2d, nn.Conv2d]:
    """Keep only some filters of a convolution, and cut what belongs to the others.

    Args:
        conv: makes C channels: (C, C_in, R, S), with or without a bias, groups = 1. Not changed.
        bn: the batch norm behind it, of C channels. Not changed.
        next_conv: reads the C channels: (M, C, R', S'), with or without a bias, groups = 1. Not changed.
        keep: the channels to keep: indices from 0 to C − 1, strictly increasing, at least one.

    Returns:
        Three new modules in the modes (training or evaluation) of the given ones: ``conv`` with len(keep) filters,
        ``bn`` with len(keep) channels, ``next_conv`` reading len(keep) channels and making M as before. What is kept
        keeps its values and its order, and all other settings stay.

    Raises:
        ValueError: if ``keep`` is empty, not strictly increasing, or has an index outside 0 to C − 1.
    """
    ### BEGIN SOLUTION
    channels = conv.out_channels
    rising = all(a < b for a, b in zip(keep, keep[1:], strict=False))
    if len(keep) == 0 or not rising or keep[0] < 0 or keep[-1] >= channels:
        raise ValueError(f"keep: strictly increasing indices from 0 to {channels - 1}, at least one; got {keep}")
    index = torch.tensor(keep)
    conv, bn, next_conv = (copy.deepcopy(layer) for layer in (conv, bn, next_conv))
    conv.weight = nn.Parameter(conv.weight.detach()[index])  # (kept, C_in, R, S)
    if conv.bias is not None:
        conv.bias = nn.Parameter(conv.bias.detach()[index])
    bn.weight = nn.Parameter(bn.weight.detach()[index])
    bn.bias = nn.Parameter(bn.bias.detach()[index])
    bn.running_mean, bn.running_var = bn.running_mean[index], bn.running_var[index]
    next_conv.weight = nn.Parameter(next_conv.weight.detach()[:, index])  # (M, kept, R', S')
    conv.out_channels = bn.num_features = next_conv.in_channels = len(keep)
    return conv, bn, next_conv
    ### END SOLUTION


# %%
check("4.3")


# %%
def absorb_removed(conv: nn.Conv2d, bn: nn.BatchNorm2d, next_conv: nn.Conv2d, keep: list[int]) -> Tensor:
    """What the bias of the next convolution must gain, so that removed channels are not missed.

    A channel is removed by setting its scale α to 0. Between ``bn`` and ``next_conv`` there is a ReLU.

    Args:
        conv, bn, next_conv, keep: as in 4.3; none is changed.

    Returns:
        (M,), without gradient: for each output of ``next_conv`` what it receives from all removed channels together,
        where its whole kernel lies on the map (so not at a border padded with zeros).

    Raises:
        ValueError: as 4.3 does.
    """
    ### BEGIN SOLUTION
    channels = conv.out_channels
    rising = all(a < b for a, b in zip(keep, keep[1:], strict=False))
    if len(keep) == 0 or not rising or keep[0] < 0 or keep[-1] >= channels:
        raise ValueError(f"keep: strictly increasing indices from 0 to {channels - 1}, at least one; got {keep}")
    constant = torch.relu(bn.bias.detach())  # (C,): with α = 0 a batch norm gives β, whatever comes in
    constant[torch.tensor(keep)] = 0  # what is kept is still there, and does not go into a bias
    return next_conv.weight.detach().sum((2, 3)) @ constant  # (M, C) @ (C,)
    ### END SOLUTION


# %%
check("4.4")


# %%
def slimming_penalty(model: nn.Module, lam: float) -> Tensor:
    """λ · Σ|α| over all scales of all ``nn.BatchNorm2d`` in ``model``: a scalar that can be differentiated.

    Raises:
        ValueError: if ``lam`` is negative.
    """
    ### BEGIN SOLUTION
    if not lam >= 0:
        raise ValueError(f"lam weighs a penalty, so at least 0, got {lam}")
    return lam * sum(bn.weight.abs().sum() for bn in model.modules() if isinstance(bn, nn.BatchNorm2d))
    ### END SOLUTION


def select_channels(model: nn.Module, fraction: float) -> dict[str, Tensor]:
    """Which channels stay when those of all layers compete by |α|.

    Args:
        model: with one ``nn.BatchNorm2d`` or more. Not changed.
        fraction: of all n channels together, to remove, in [0, 1].

    Returns:
        Name of each ``nn.BatchNorm2d``, in the order of ``model.named_modules()`` -> bool (C,), True = kept. The
        ``round(fraction * n)`` channels with the smallest |α| go; among equal ones the first goes first (layers in
        order, then channels). But of each layer the channel that would go last always stays, its largest |α| (of equal
        ones the last): so fewer may go, and none goes in its place.

    Raises:
        ValueError: if ``fraction`` is outside [0, 1].
    """
    ### BEGIN SOLUTION
    if not 0 <= fraction <= 1:
        raise ValueError(f"fraction of the channels to remove, between 0 and 1, got {fraction}")
    sizes = {name: m.weight.detach().abs() for name, m in model.named_modules() if isinstance(m, nn.BatchNorm2d)}
    together = torch.cat(list(sizes.values()))  # (n,)
    order = together.argsort(stable=True)  # smallest first
    kept = torch.ones_like(together, dtype=torch.bool)
    kept[order[: round(fraction * len(together))]] = False
    keep = dict(zip(sizes, kept.split([len(size) for size in sizes.values()]), strict=True))
    for name, size in sizes.items():
        keep[name][size.argsort(stable=True)[-1]] = True
    return keep
    ### END SOLUTION


# %%
check("4.5")


# %%
def cascade(keep: Tensor, next_weight: Tensor, constant: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """What removed channels make of the next layer's weights.

    Args:
        keep: bool (C,), True = kept.
        next_weight: (M, C, R, S), a convolution's weight. Not changed.
        constant: (C,), what a channel gives once it is removed, *after* batch norm and ReLU: relu(β). The entries of
            kept channels have no meaning. None: 0 for all.

    Returns:
        A bool tensor like ``next_weight``, True = useful: it reads a kept channel. And the shift (M,): what the weights
        that are not useful give together, where the whole kernel lies on the map; in the dtype of ``next_weight``.

    Raises:
        ValueError: if ``keep`` is not a bool (C,) or ``constant`` is not (C,).
    """
    ### BEGIN SOLUTION
    channels = next_weight.shape[1]
    if keep.dtype != torch.bool or keep.shape != (channels,):
        raise ValueError(f"keep must be bool of shape ({channels},), got {keep.dtype} {tuple(keep.shape)}")
    if constant is None:
        constant = torch.zeros(channels)
    if constant.shape != (channels,):
        raise ValueError(f"constant must have shape ({channels},), got {tuple(constant.shape)}")
    useful = keep[:, None, None].expand_as(next_weight).clone()  # (M, C, R, S)
    left_behind = constant.masked_fill(keep, 0).to(next_weight.dtype)  # (C,): only what is gone counts
    return useful, next_weight.sum((2, 3)) @ left_behind  # (M, C) @ (C,)
    ### END SOLUTION


# %%
check("4.6")

# %%
### BEGIN SOLUTION
answer_4_7a = "C"
answer_4_7b = 1.0
### END SOLUTION

# %%
check("4.7")


# %%
def find_bug(f: Callable) -> None:
    """Raise AssertionError if ``f(keep, next_weight, constant)`` breaks the contract of ``cascade`` (4.6); else return.

    ``f`` takes its three arguments by position.
    """
    ### BEGIN SOLUTION
    generator = torch.Generator().manual_seed(1)

    def draw(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    for m, c, r, s in ((4, 3, 3, 3), (3, 3, 1, 1), (2, 5, 3, 2), (5, 2, 1, 3), (1, 4, 2, 2)):
        for keep in (torch.arange(c) % 2 == 0, torch.arange(c) == c - 1, torch.ones(c) > 0, torch.ones(c) < 0):
            for constant in (draw(c).abs() + 0.5, torch.zeros(c, dtype=torch.float64), None):
                weight = draw(m, c, r, s) + 0.3
                useful, shift = f(keep, weight, constant)
                case = f"weight {(m, c, r, s)}, keep {keep.tolist()}, constant {constant}"
                assert useful.dtype == torch.bool and useful.shape == weight.shape, f"no mask like the weight: {case}"
                for i in range(c):
                    assert (useful[:, i] == keep[i]).all(), f"weights of channel {i}: {case}"
                # the shift is what one position of the map gets from maps that are constant, and zero where kept
                given = torch.zeros(c, dtype=torch.float64) if constant is None else constant
                maps = given.masked_fill(keep, 0).view(1, c, 1, 1).expand(1, c, r, s)
                assert shift.shape == (m,), f"one shift for each output: {case}"
                assert torch.allclose(shift, nn.functional.conv2d(maps, weight)[0, :, 0, 0]), f"wrong shift: {case}"
    ### END SOLUTION


# %%
check("4.8")
