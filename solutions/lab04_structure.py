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
#
# **In a dense product a zero takes as much time as any other number. What happens if we
# remove whole filters instead? Which filters can be removed, what do they leave behind,
# and what is lost when a pruned network "collapses"?**
#
# In lab 01 zeros saved no time. In this lab you *remove* whole filters, so the
# remaining network is smaller and dense. To do that you need to understand batch norm,
# the layer between two convolutions. Batch norm explains most of the results of this
# lab.
#
# **Prerequisites.** Labs 00 (MACs) and 01 (magnitude, random baselines, recalibration).
# Lab 02 (L1 and the proximal step) helps. You should know convolutions and batch norm
# in PyTorch.
#
# Symbols, terms and the meaning of ±: [one page for all labs](../docs/notation.md).
#
# **After this lab you can**
#
# - write batch norm as a line and fold it into the convolution before it;
# - remove filters with everything that belongs to them, and say what the removed
#   channels leave behind;
# - train with the penalty of network slimming and select channels;
# - separate the causes of a pruning result, with baselines for each;
# - compare structured with unstructured pruning at equal MACs and in measured latency.
#
# | part | you write | question |
# |---|---|---|
# | A · Batch norm is a line | 4.1 scale and shift, 4.2 folding | are the outputs the same, and how much faster is the network? |
# | B · Removing filters | 4.3 the surgery, 4.4 constants | what does a removed channel leave behind? |
# | C · Which channels? | 4.5 network slimming | why does a slimmed network collapse? |
# | D · The next layer | 4.6 the cascade | structured or unstructured, at equal MACs? |
# | E · What was it worth? | 4.7 two short answers, 4.8 a bug hunt | cost and test accuracy |
#
# 20 points; about 4 hours. After each exercise `check("4.1")` tells you what is
# right. If you are stuck, write `skip("4.1")` in a cell: that question scores 0, and
# the lab continues with the course's version.
#
# The rules are those of lab 01: guess first; choose on validation data and use the test
# data once, at the end; no claim without a random baseline and three seeds. A
# difference is *distinguishable* if its 95 % paired t-interval excludes 0.

# %%
from course_lib.grading import check, skip  # noqa: F401  (skip is yours to use)

# isort: split
import copy
from collections.abc import Callable

import numpy as np  # noqa: F401  (yours to use)
import torch
from torch import Tensor, nn
from torchvision.models import mobilenet_v2, resnet18

from course_lib import devices, ledger, pruning
from course_lib.data.images import load
from course_lib.experiments import lab04
from course_lib.show import plots, tables
from course_lib.show.words import pm, say

# %%
lab04.cascade(5, 3, 4, removed=(1,))

# %% [markdown]
# Filter 2 of five is removed. This removes its row of this layer, its entries of batch
# norm, its map, and its column of the next layer.

# %% [markdown]
# ## Settings
#
# The default data are scikit-learn's handwritten digits, 1,797 *real* 8×8 images.
# Change one word for MNIST or CIFAR-10; the lab then takes several times as long. (The
# paper of this lab used CIFAR-10. There our small network, with few images, has about
# half of the paper's accuracy: look at the differences.)
#
# `SETTINGS` holds the number of training images, the epochs from scratch and of
# fine-tuning, and the weight λ of the penalty of network slimming (part C). The penalty
# acts once per step, so more steps need a smaller λ.

# %%
DATA = "digits"  # or "mnist", or "cifar10"
DEVICE = devices.use("cpu")  # or "cuda"
SEEDS = 3
SETTINGS = {
    "digits": {"train": 1097, "epochs": 20, "finetune": 5, "lam": 2e-2},
    "mnist": {"train": 3000, "epochs": 8, "finetune": 3, "lam": 2e-2},
    "cifar10": {"train": 5000, "epochs": 12, "finetune": 4, "lam": 1e-2},
}[DATA]
data = load(DATA).subset(SETTINGS["train"], validation=1000)
images = data.validation.images
say(
    f"**{data.name}**: {len(data.train.labels)} training, {len(images)} validation and"
    f" {len(data.test.labels)} test images of shape {data.shape}. One validation image is"
    f" {100 / len(images):.2f} points of accuracy."
)

# %% [markdown]
# ### The network
#
# The network of lab 01: four 3×3 convolutions (32, 32, 64, 64 filters), each followed
# by **batch norm** and ReLU, then a global average and one linear layer. Its layers are
# named `conv1`, `bn1`, `conv2`, `bn2`, …, `fc`. We train it from three seeds. (The
# experiments are in [lab04.py](../course_lib/experiments/lab04.py) and take your
# functions as arguments.)

# %%
dense = lab04.trained(data, SEEDS, SETTINGS["epochs"])
dense_accuracy = lab04.accuracies({"dense": dense}, data)
say(
    f"{lab04.parameters(dense[0]):,} parameters, {lab04.macs(dense[0], images[:1]):,} MACs per"
    f" image. Validation accuracy of the dense networks: **{pm(dense_accuracy['accuracy'])} %**."
)

# %% [markdown]
# ## Part A · Batch norm is a line
#
# Batch norm computes, for each channel $c$ of its input,
#
# $$y_c = \alpha_c\,\frac{x_c-\mu_c}{\sqrt{\sigma_c^2+\varepsilon}}+\beta_c .$$
#
# In training, $\mu_c$ and $\sigma_c^2$ are the mean and variance of the current batch.
# For inference they are *fixed*: running averages collected during training. Then
# everything except $x_c$ is a constant, and batch norm is a line,
# $y_c = p_c x_c + q_c$.
#
# (torch calls $\alpha$ `weight`; many papers call it $\gamma$. torch stores $\sigma^2$,
# not $\sigma$, in `running_var`.)

# %% [markdown]
# ### 4.1 Scale and shift
# **8 minutes · 2 points**
#
# Multiply out the fraction: what are $p_c$ and $q_c$? A common form divides by
# $\sigma$, which stands for the whole root. Do not forget the $\varepsilon$ under the
# root: it prevents a division by 0 in a channel with variance 0.
#
# Not allowed: `torch.nn.utils.fusion`, `torch.ao.quantization`,
# `torch.fx.experimental.optimization`, `torch.jit`'s versions and `course_lib.pruning`.
#
# **What is tested**: the values, also with another ε and a variance of 0; no gradient;
# `bn` unchanged.


# %%
def bn_scale_shift(bn: nn.BatchNorm2d) -> tuple[Tensor, Tensor]:
    """Compute p and q such that a batch norm in evaluation mode gives p · x + q per channel.

    Args:
        bn: has running statistics μ (``running_mean``) and σ² (``running_var``), a
            scale α (``weight``), a shift β (``bias``) and ε (``eps``). Not changed.

    Returns:
        p and q, both (C,), without gradient: p · x + q equals ``bn(x)`` in evaluation
        mode.

    >>> bn = nn.BatchNorm2d(1, eps=1.0)
    >>> bn.running_mean, bn.running_var = torch.tensor([2.0]), torch.tensor([3.0])
    >>> bn_scale_shift(bn)
    (tensor([0.5000]), tensor([-1.]))
    """
    ### BEGIN SOLUTION
    p = bn.weight.detach() / torch.sqrt(bn.running_var + bn.eps)  # (C,)
    return p, bn.bias.detach() - p * bn.running_mean
    ### END SOLUTION


# %%
check("4.1")

# %% [markdown]
# <details><summary>Hint 1: two terms</summary>Write the fraction as a difference of two
# fractions. One contains x; the other, together with β, is q.</details>
# <details><summary>Hint 2: which vector is which</summary><code>bn.weight</code> is α,
# <code>bn.bias</code> is β, <code>bn.running_mean</code> is μ,
# <code>bn.running_var</code> is σ² (already a variance), <code>bn.eps</code> is
# ε.</details>
# <details><summary>Hint 3: without gradient</summary><code>.detach()</code> gives the
# numbers of a parameter without its history.</details>

# %%
norms = {"fresh": nn.BatchNorm2d(32), "bn2, trained": dense[0].bn2}
tables.show(tables.plain(lab04.line_errors(bn_scale_shift, norms), ".0e"))

# %% [markdown]
# A fresh batch norm has $\sigma^2 = 1$, and the root of 1 is 1. So the mistake changes
# nothing that a usual tolerance would detect. *Test with numbers that differ from each
# other*, for example on a trained layer. (`check` does so, too.)

# %% [markdown]
# ### 4.2 Folding
# **20 minutes · 4 points · needs 4.1**
#
# The convolution before the batch norm is linear, too. Channel $m$ of its output is
# $\langle w_m, \cdot\rangle + b_m$ at every position, so
#
# $$p_m\big(\langle w_m,\cdot\rangle + b_m\big) + q_m = \langle\, p_m w_m,\cdot\rangle + (p_m b_m + q_m) .$$
#
# The batch norm becomes part of the filter and of the bias, without any loss.
# Convolutions before a batch norm usually have no bias, since $\beta$ has the same
# effect. The folded convolution needs a bias.
#
# Folding works only for a batch norm *after* a convolution, and only with fixed
# statistics: in training mode $\mu$ and $\sigma$ change with every batch. So your
# function must raise a RuntimeError in training mode. With groups the weight is
# $(M, C/\text{groups}, R, S)$. Which of these dimensions does $p$ belong to?
#
# Not allowed: the same as in 4.1.
#
# **What is tested**: outputs with and without a bias, with groups, depthwise, with
# dimensions of equal size; that stride, padding, dilation, padding mode and dtype are
# kept; evaluation mode of the result; RuntimeError; `conv` and `bn` unchanged.


# %%
def fold_bn(conv: nn.Conv2d, bn: nn.BatchNorm2d) -> nn.Conv2d:
    """Build one convolution that computes ``bn(conv(x))`` in evaluation mode.

    Args:
        conv: (M, C/groups, R, S), with or without a bias, any stride, padding, dilation
            and groups. Not changed.
        bn: of M channels. Not changed.

    Returns:
        A new convolution in evaluation mode, with a bias. All other settings are those
        of ``conv``.

    Raises:
        RuntimeError: if ``conv`` or ``bn`` is in training mode.

    >>> conv, bn = nn.Conv2d(1, 1, 1, bias=False).eval(), nn.BatchNorm2d(1, eps=3.0).eval()
    >>> folded = fold_bn(conv, bn)  # p is ½, q is 0
    >>> torch.equal(folded.weight, conv.weight / 2), folded.bias.tolist()
    (True, [0.0])
    """
    ### BEGIN SOLUTION
    if conv.training or bn.training:
        raise RuntimeError("conv and bn must be in evaluation mode: call .eval() first")
    p, q = bn_scale_shift(bn)  # (M,), (M,)
    folded = copy.deepcopy(conv)
    # (M, C/groups, R, S): filter m times p of channel m
    weight = conv.weight.detach() * p[:, None, None, None]
    bias = q if conv.bias is None else q + p * conv.bias.detach()
    folded.weight, folded.bias = nn.Parameter(weight), nn.Parameter(bias)
    return folded
    ### END SOLUTION


# %%
check("4.2")

# %% [markdown]
# <details><summary>Hint 1: the axis</summary>p has one number per <i>output</i>
# channel. In torch's convolution weight that is the first dimension, for any number of
# groups. Give p the shape (M, 1, 1, 1).</details>
# <details><summary>Hint 2: the old bias</summary>The old bias passes through the batch
# norm, too: multiply it by p before you add q.</details>
# <details><summary>Hint 3: all the other settings</summary>A <code>copy.deepcopy</code>
# of the convolution has the stride, padding, dilation, groups and padding mode. Then
# give the copy a new weight and a new bias.</details>

# %% [markdown]
# #### Experiment: the same network, and faster?
#
# "Equal up to rounding" is a claim about numbers. Float32 has 24 bits of mantissa, so
# two sums of some hundred products agree to about six digits. If the difference is
# *only* rounding, float64 makes it smaller by a factor of about $10^8$. This is a good
# test for any two formulas that should be equal: the error of a real mistake does not
# depend on the precision.


# %%
def fold_all(model: nn.Module) -> nn.Module:
    """Copy the network without batch norms."""
    return lab04.fold_all(model, fold_bn)


errors = lab04.folding_errors(dense[0], fold_all, images)
tables.plain(errors, {"largest difference": ".1e", "relative": ".0e"})

# %% [markdown]
# Now we measure processor time on one core, so other programs do not count. The
# networks take turns. For torchvision's ResNet-18 (with random weights, since time does
# not depend on the weights) the library's `fold_model` finds out which batch norm
# follows which convolution.

# %%
resnet = resnet18(weights=None).eval()
folded, report = pruning.channels.fold_model(resnet)
pairs = {
    "our network, 1 image": (dense[0], fold_all(dense[0]), images[:1]),
    "our network, 64 images": (dense[0], fold_all(dense[0]), images[:64]),
    "ResNet-18, 1 image of 96×96": (resnet, folded, torch.rand(1, 3, 96, 96)),
}
tables.show(tables.plain(lab04.folding_times(pairs), 2))
say(f"{len(report.folded)} batch norms of ResNet-18 are folded.")

# %% [markdown]
# (Times are medians. *Times faster* is the median of the ratios, one ratio per round,
# with their quartiles.)
#
# In MACs batch norm is negligible; in milliseconds it is visible, most of all where the
# convolutions are small. Batch norm reads every activation from memory and writes it
# back, for only two operations. *Arithmetic* is cheap, *passes over the data* are not.
# So inference engines fold first. (Quantised training folds as well: then the weights
# that are rounded in training are the weights that inference uses. See Jacob et al.
# 2018, section 3.2.)
#
# A batch norm *before* a convolution (as in pre-activation ResNets or DenseNet) cannot
# be folded into it exactly. The shift $q$ would have to pass through the convolution,
# and at a border padded with zeros a part of the kernel receives no $q$. The same
# border matters in 4.4.

# %% [markdown]
# ## Part B · Removing filters
#
# Filter $i$ of a convolution computes channel $i$ of its output. If you remove the
# filter, you must remove everything that belongs to its channel: entry $i$ of the
# following batch norm, and *input* channel $i$ of the next convolution. (In lab 00's
# terms: row $i$ of this weight, column $i$ of the next.)

# %% [markdown]
# ### 4.3 The surgery
# **20 minutes · 3 points**
#
# Batch norm has four vectors with one number per channel: two parameters and two
# buffers. Cut all four. If a kept channel gets the statistics of another channel, no
# error is raised, but the outputs are wrong.
#
# Not allowed: `torch.nn.utils.prune`, `torch.ao.pruning`, `torch_pruning` and
# `course_lib.pruning`.
#
# **What is tested**: values and order of what is kept; the four vectors; biases of
# `conv` and `next_conv`; settings, modes and the numbers of channels that the layers
# store; new modules that share no memory with the given ones; ValueError.


# %%
def remove_filters(
    conv: nn.Conv2d, bn: nn.BatchNorm2d, next_conv: nn.Conv2d, keep: list[int]
) -> tuple[nn.Conv2d, nn.BatchNorm2d, nn.Conv2d]:
    """Keep some filters of a convolution; remove the others with all their parameters.

    Args:
        conv: computes C channels: weight (C, C_in, R, S), with or without a bias,
            groups = 1. Not changed.
        bn: the batch norm after it, of C channels. Not changed.
        next_conv: reads the C channels: weight (M, C, R', S'), with or without a bias,
            groups = 1. Not changed.
        keep: the channels to keep: indices from 0 to C − 1, strictly increasing, at
            least one.

    Returns:
        Three new modules, each in the mode (training or evaluation) of the given one:
        ``conv`` with len(keep) filters, ``bn`` with len(keep) channels, and
        ``next_conv``, which reads len(keep) channels and computes M as before. Kept
        entries have their values and order; all other settings are unchanged.

    Raises:
        ValueError: if ``keep`` is empty, not strictly increasing, or has an index
            outside 0 to C − 1.

    >>> layers = nn.Conv2d(1, 3, 1), nn.BatchNorm2d(3), nn.Conv2d(3, 5, 1)
    >>> conv, bn, next_conv = remove_filters(*layers, keep=[0, 2])
    >>> conv.out_channels, bn.num_features, tuple(next_conv.weight.shape)
    (2, 2, (5, 2, 1, 1))
    """
    ### BEGIN SOLUTION
    channels = conv.out_channels
    rising = all(a < b for a, b in zip(keep, keep[1:], strict=False))
    if len(keep) == 0 or not rising or keep[0] < 0 or keep[-1] >= channels:
        raise ValueError(
            f"keep must be strictly increasing indices from 0 to {channels - 1}, got {keep}"
        )
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

# %% [markdown]
# <details><summary>Hint 1: indexing</summary><code>weight[keep]</code> selects filters,
# <code>weight[:, keep]</code> selects input channels, both in the order of
# <code>keep</code>.</details>
# <details><summary>Hint 2: six places, or seven</summary>conv: weight, and bias if it
# has one. bn: weight, bias, running mean, running variance. next_conv: the second
# dimension of its weight; its bias belongs to its own filters.</details>
# <details><summary>Hint 3: numbers that the layers
# store</summary><code>out_channels</code>, <code>num_features</code> and
# <code>in_channels</code> are plain numbers: set them. Copies
# (<code>copy.deepcopy</code>) leave the given layers unchanged.</details>

# %% [markdown]
# #### How much is removed?
#
# Now we cut all layers, one after the other. The linear layer after the global average
# is a 1×1 convolution on a 1×1 map, so your function cuts it as well.


# %%
def cut(model: nn.Module, keep: dict[str, Tensor], absorb: bool = False) -> nn.Module:
    """Copy the network with only these channels of "bn1", "bn2", … (``absorb``: for 4.4)."""
    return lab04.cut(model, keep, remove_filters, absorb_removed if absorb else None)


half = {f"bn{i}": torch.arange(width) % 2 == 0 for i, width in enumerate((32, 32, 64, 64), 1)}
halved = cut(dense[0], half)

# %%
of_layers = lab04.macs_by_layer({"dense": dense[0], "every second filter": halved}, images[:1])
title, ylabel = "Half of the filters removed", "MACs for one image (thousands)"
plots.bars(of_layers, x="layer", y="macs", by="network", title=title, ylabel=ylabel, fmt="{:.1f}")

# %%
left = lab04.share_left(halved, dense[0], images[:1])
say(f"With half of the filters, {left} remain.")

# %% [markdown]
# A convolution's MACs are proportional to its outputs *times* its inputs, and every
# layer in the middle loses half of both. The first layer keeps all its inputs (the
# image), the last layer all its outputs (the classes). Part D counts this exactly.

# %% [markdown]
# ### 4.4 What a removed channel leaves behind
# **15 minutes · 3 points · needs 4.3**
#
# You removed a channel because it did not matter. In network slimming (4.5) this means
# that its scale $\alpha$ is nearly zero. Put $\alpha = 0$ into the formula of batch
# norm:
#
# $$y = 0\cdot\frac{x-\mu}{\sqrt{\sigma^2+\varepsilon}}+\beta = \beta .$$
#
# After the ReLU the channel is $\max(\beta, 0)$, *everywhere and for every image*. This
# constant carries no information, but the next convolution was trained with it. If you
# remove the channel, each sum of the next layer changes by
#
# $$\Delta_m = \sum_{c\ \text{removed}}\ \sum_{r,s} w_{mcrs}\,\max(\beta_c, 0),$$
#
# always the same number. So you can **absorb** this number: add it to the next bias.
#
# Two mistakes are common. One is to use the $q$ of 4.1. The constant is $\beta$;
# $q = \beta - p\mu$ is the shift as long as $\alpha$ is not 0. The other is to forget
# that the sum over $r, s$ assumes the *whole* kernel on the map.
#
# Not allowed: `torch.nn.utils.prune`, `torch.ao.pruning`, `torch_pruning` and
# `course_lib.pruning`.
#
# **What is tested**: the values, also where `next_conv` has stride, padding or
# dilation; 0 if no β is positive or all channels are kept; no gradient; the modules
# unchanged.


# %%
def absorb_removed(
    conv: nn.Conv2d, bn: nn.BatchNorm2d, next_conv: nn.Conv2d, keep: list[int]
) -> Tensor:
    """Compute the amount to add to the next convolution's bias for the removed channels.

    A removed channel has scale α = 0. Between ``bn`` and ``next_conv`` there is a ReLU.

    Args:
        conv, bn, next_conv, keep: as in 4.3, which has checked ``keep``; none is
            changed.

    Returns:
        (M,), without gradient: for each output of ``next_conv`` the sum that it receives
        from all removed channels where its whole kernel lies on the map (so not at a
        border padded with zeros).

    >>> conv, bn, next_conv = nn.Conv2d(1, 2, 1), nn.BatchNorm2d(2), nn.Conv2d(2, 1, 3)
    >>> bn.weight.data, bn.bias.data = torch.zeros(2), torch.tensor([1.0, 2.0])
    >>> next_conv.weight.data = torch.ones(1, 2, 3, 3)
    >>> absorb_removed(conv, bn, next_conv, keep=[0])  # 9 weights read the constant 2
    tensor([18.])
    """
    ### BEGIN SOLUTION
    # (C,): with α = 0 a batch norm gives β for any input
    constant = torch.relu(bn.bias.detach())
    constant[torch.tensor(keep)] = 0  # kept channels still compute their output
    return next_conv.weight.detach().sum((2, 3)) @ constant  # (M, C) @ (C,)
    ### END SOLUTION


# %%
check("4.4")

# %% [markdown]
# <details><summary>Hint 1: one number per kernel</summary>A kernel over a constant map
# gives (sum of the kernel) × (constant). There is one such sum for each output m and
# each channel c.</details>
# <details><summary>Hint 2: only removed channels</summary>The kept channels still pass
# on their values and must not be counted twice. Which constant would add
# nothing?</details>
# <details><summary>Hint 3: which constant</summary>relu(β) of <i>this</i> batch norm.
# Neither μ nor σ matters.</details>

# %% [markdown]
# #### Experiment: exact, but where?
#
# We compare three versions of the first two layers. In the first (the reference) the
# scales of half of the channels are 0. In the second these channels are removed; in the
# third their constants are absorbed, too. We compare the outputs of `conv2` at every
# position, averaged over filters and 64 images.

# %%
border = lab04.border_errors(dense[0], remove_filters, absorb_removed, images[:64])
plots.show(lab04.draw_border(border))
absorbed = border[border["method"] == "removed, constant absorbed"]["error"]
beta = dense[0].bn1.bias[~lab04.larger_half(dense[0].bn1)]  # of the removed channels
say(
    f"Exact at **{(absorbed < 1e-5).sum()} of {len(absorbed)}** positions. Removed channels with"
    f" β > 0, whose constant is not 0: {(beta > 0).sum()} of {len(beta)}."
)

# %% [markdown]
# Inside the map the result is exact. At the border a removed channel had contributed
# less than the full $\Delta_m$, because part of the kernel lay on padding; there the
# bias now adds too much. In deeper layers the map is smaller and has relatively more
# border: on a 4×4 map 12 of 16 positions are border.
#
# **A mistake that no test of your function can find** is to absorb and then continue
# training. Our convolutions have no bias, so `cut` subtracts $\Delta_m$ from the
# running mean of the next batch norm, which has the same effect. But a batch norm in
# training mode subtracts the mean of the batch, and this mean contains every constant:
# $(x+\Delta) - \overline{(x+\Delta)} = x - \bar x$. After the first training steps, or
# a recalibration, an absorbed constant before a batch norm has no effect, and is no
# longer needed. Absorbing helps a network that will not be trained again.

# %% [markdown]
# ## Part C · Which channels?
#
# Lab 01 ranked filters by the sum of their $|w|$. But batch norm cancels the size of a
# filter: if you multiply a filter by ten, the output of the network does not change.
# After batch norm the amplitude of a channel is its $\alpha$. So Liu et al. (2017) let
# *training* decide. They add the L1 norm of all $\alpha$ to the loss,
#
# $$L = \sum_{(x,y)} l\big(f(x, W), y\big) + \lambda\sum_c|\alpha_c| ,$$
#
# and remove the channels whose $\alpha$ has become nearly 0. This is **network
# slimming**.
#
# **Why L1?** The gradient of $\lambda\alpha^2$ is $2\lambda\alpha$: it becomes weak as
# $\alpha$ becomes small, so $\alpha$ does not reach 0. The gradient of
# $\lambda|\alpha|$ is $\lambda\,\mathrm{sign}(\alpha)$, as strong at 0.01 as at 1. A
# channel whose $\alpha$ lowers the loss by less than $\lambda$ per unit is pushed down
# to 0. (Not to exactly 0: a step of fixed length jumps over 0. Exact zeros need the
# proximal step of lab 02.)
#
# **Why α, and not p?** A common form penalises $p$. With the $p$ of 4.1 that would not
# work. Multiply a filter by 10: $\mu$ and $\sigma$ grow by the same factor, and the
# output does not change.

# %%
tables.plain(lab04.penalties(dense[0], bn_scale_shift, images), {"difference": ".0e"})

# %% [markdown]
# The network is the same (except for the ε under the root), but the penalty on $p$ is a
# tenth. Training could lower this penalty by *making weights larger*, without switching
# off any channel. The penalty on $\alpha$ cannot be lowered in this way, since the
# outputs depend on $\alpha$ directly.

# %% [markdown]
# ### 4.5 The penalty, and the choice
# **25 minutes · 4 points**
#
# `slimming_penalty` is the term that training adds to its loss. It contains all
# $\alpha$ and nothing else, and is differentiable. (Weight decay in the optimizer is no
# substitute: it is L2, on all parameters.)
#
# `select_channels` ranks the channels of *all* layers together by $|\alpha|$. A layer
# without channels would cut the network in two, so in each layer the channel with the
# largest $|\alpha|$ is always kept. If this protects a channel, no other channel is
# removed instead.
#
# Not allowed: `torch.nn.utils.prune`, `torch.ao.pruning`, `torch_pruning` and
# `course_lib.pruning`.
#
# **What is tested**: the value of the penalty and its gradient, λ·sign(α) for each α
# and nothing for other parameters; batch norms in nested modules and no other norms;
# exactly round(fraction · n) channels removed before protection; ties, protected
# layers, fractions 0 and 1; the model unchanged.
#
# *Before you look:* if 70 % of all channels are removed, what share of layer 4's
# channels will be kept, in %?

# %%
### BEGIN SOLUTION
prediction_4_5 = 20
### END SOLUTION


# %%
def slimming_penalty(model: nn.Module, lam: float) -> Tensor:
    """Compute λ · Σ|α| over all scales of all ``nn.BatchNorm2d``: a differentiable scalar.

    Raises:
        ValueError: if ``lam`` is negative.

    >>> slimming_penalty(nn.BatchNorm2d(3), 0.5).item()  # each α is 1 at first
    1.5
    """
    if not lam >= 0:
        raise ValueError(f"lam must be at least 0, got {lam}")
    ### BEGIN SOLUTION
    return lam * sum(
        bn.weight.abs().sum() for bn in model.modules() if isinstance(bn, nn.BatchNorm2d)
    )
    ### END SOLUTION


def select_channels(model: nn.Module, fraction: float) -> dict[str, Tensor]:
    """Select channels to keep; the channels of all layers are ranked together by |α|.

    Args:
        model: with one ``nn.BatchNorm2d`` or more. Not changed.
        fraction: share of all n channels to remove, in [0, 1].

    Returns:
        Name of each ``nn.BatchNorm2d``, in the order of ``model.named_modules()``
        -> bool (C,), True = kept.
        1. The ``round(fraction * n)`` channels with the smallest |α| are removed. Ties:
           the first is removed first (layers in order, then channels).
        2. In each layer the channel with the largest |α| (ties: the last) is always
           kept. No other channel is removed instead, so fewer may be removed.

    Raises:
        ValueError: if ``fraction`` is outside [0, 1].

    >>> model = nn.Sequential(nn.BatchNorm2d(2), nn.BatchNorm2d(1))
    >>> select_channels(model, 1.0)
    {'0': tensor([False,  True]), '1': tensor([True])}
    """
    if not 0 <= fraction <= 1:
        raise ValueError(f"fraction of channels to remove: must lie in [0, 1], got {fraction}")
    ### BEGIN SOLUTION
    sizes = {
        name: m.weight.detach().abs()
        for name, m in model.named_modules()
        if isinstance(m, nn.BatchNorm2d)
    }
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

# %% [markdown]
# <details><summary>Hint 1: finding batch
# norms</summary><code>model.named_modules()</code> gives every module with its name, at
# any depth; <code>isinstance(m, nn.BatchNorm2d)</code> selects.</details>
# <details><summary>Hint 2: a differentiable sum</summary>Add up
# <code>bn.weight.abs().sum()</code> without <code>.item()</code>,
# <code>.detach()</code> or <code>.data</code>: each of them removes the
# gradient.</details>
# <details><summary>Hint 3: all layers together</summary><code>torch.cat</code>, one
# stable <code>argsort</code>, <code>split</code> back, as in 1.4. Then set the last
# channel in the order of each layer back to True.</details>

# %% [markdown]
# #### Experiment: L1 or L2?
#
# We train the same network with the same seeds and epochs, with your penalty or with
# $\frac{\lambda}{2}\sum\alpha^2$ instead. With this factor both gradients are equal at
# $\alpha=1$, where all scales start.


# %%
lam, epochs = SETTINGS["lam"], SETTINGS["epochs"]
sparse = lab04.trained(data, SEEDS, epochs, lambda model: slimming_penalty(model, lam))
with_l2 = lab04.trained(data, SEEDS, epochs, lambda model: lab04.l2_penalty(model, lam))

# %%
title = "Scales |α| trained with L1 and with L2"
plots.show(lab04.draw_scales({"L2: ½λΣα²": with_l2, "L1: λΣ|α|": sparse}, title))
of_scales = lab04.scale_table({"dense": dense, "L1": sparse, "L2": with_l2}, data)
tables.means(of_scales, ["near zero (%)", "largest |α|", "accuracy"], digits=2)

# %% [markdown]
# (*Near zero*: $|\alpha| < 0.02$.)
#
# L2 acts most on large scales, so none remains large. It hardly acts on small scales,
# so few reach 0. L1 *separates* the channels: most are in one peak at 0, and the
# channels that lower the loss enough keep a scale from a twentieth up to nearly 1.
# There are few channels in between, so a threshold is easy to choose.

# %%
FRACTION = 0.7  # of all channels, to be removed
keeps = [select_channels(model, FRACTION) for model in sparse]
kept = lab04.kept_by_layer(keeps)
title = f"Channels kept per layer, {FRACTION:.0%} of all removed"
look = {"ylabel": "channels kept (%)", "guess": ("layer 4", prediction_4_5)}
plots.show(plots.bars(kept, x="layer", y="kept", title=title, **look))
worst = kept.groupby("layer")["kept"].mean().idxmin()
say(f"The smallest share is kept in **{worst}**.")
tables.plain(kept.pivot(index="seed", columns="layer", values="filters").reset_index())

# %% [markdown]
# This network and these data determine which layer loses most; the method does not.
#
# #### Experiment: the collapse, cause by cause
#
# The code of the paper gives these accuracies for a VGG on CIFAR-10: 93.77 % dense,
# 93.30 % after training with the penalty, **32.54 %** after 70 % of the channels are
# removed, and 93.78 % after fine-tuning. The usual explanation is that pruning destroys
# the network and fine-tuning repairs it. But the removed channels had $\alpha\approx 0$
# and *carried no signal*. So what was destroyed? We look at each step:
#
# | column | meaning |
# |---|---|
# | dense | trained without the penalty |
# | sparse-trained | trained with the penalty |
# | silenced | scales α of the selected channels set to 0; nothing removed |
# | pruned | your `select_channels`, your `remove_filters` |
# | + absorbed | constants of the removed channels absorbed: your `absorb_removed` |
# | BN recalibrated | μ and σ² measured again on training images; no weight changes (lab 01) |
# | fine-tuned | a few epochs of training |
# | from scratch | a *fresh* network of the same widths, trained as long as the dense one: no weight inherited |
#
# Two baselines remove as many channels from each layer of the same networks: the
# channels with the smallest filters by L1 norm, or random channels.
#
# *Before you look:* what accuracy, in %, will slimming have in the column *BN
# recalibrated*?

# %%
### BEGIN SOLUTION
prediction_4_5b = 70
### END SOLUTION

# %%
chosen = {
    "slimming": keeps,
    "filter L1": [lab04.largest_filters(sparse[s], keep) for s, keep in enumerate(keeps)],
    "random": [lab04.random_channels(keep, s) for s, keep in enumerate(keeps)],
}
networks = lab04.slimming_steps(dense, sparse, chosen, cut, data, SETTINGS)
results = lab04.measured(networks, data)
tables.means(results, "accuracy", columns="step")

# %%
after = results[results["step"].isin(lab04.STEPS)]
title = f"{FRACTION:.0%} of the channels removed, step by step"
look = {"fmt": "{:.0f}", "guess": ("BN recalibrated", prediction_4_5b), "constant": 10}
plots.bars(after, x="step", y="accuracy", by="method", title=title, **look)

# %%
tables.show(tables.compare(results, "accuracy", against="slimming", columns="step"))
slim = results[results["method"] == "slimming"]
tables.show(tables.compare(slim, "accuracy", by="step", against="fine-tuned"))
tables.show(tables.plain(lab04.given_back(results), 2))

# %% [markdown]
# In which layers do removed channels leave a constant, β > 0?

# %%
tables.plain(lab04.constants_left(sparse, keeps), 2)

# %% [markdown]
# Read the first row of the table from left to right. *No weight was trained* between
# *pruned* and *BN recalibrated*. With the channels *silenced* but not removed, the
# network loses little: their signals did not matter. The removal also deletes
# constants: each channel with $\beta>0$ passed one to the next layer. After layers 1 to
# 3 a batch norm subtracts a mean that still contains these constants; after layer 4 the
# sums of the linear layer lack them. Absorbing the constants restores much of the
# accuracy (not all, because of the borders of 4.4; on 4×4 maps most positions are
# border). Measuring the means again restores nearly all of the accuracy. The paper
# credits fine-tuning, but the first steps of fine-tuning update these means, too.
#
# The collapse also depends on the share of channels removed. As long as only channels
# with $\alpha\approx0$ *and* a small $\beta$ are removed, there is no collapse. The
# explorer at the end shows how suddenly the collapse begins.
#
# Now the baseline. After random channels of the same networks are removed, this repair
# fails: the removed channels carried signals, and most kept channels are silent. (A
# fairer baseline, random channels of the *dense* networks, follows in part D.)
#
# The last column shows networks with these *widths* (channels per layer) and no
# inherited weight. We could not detect a difference between these networks and the
# pruned and fine-tuned ones. Three seeds cannot show that the two are equal, but
# nothing here shows that the inherited weights are needed. Liu et al. (2019, with the
# same first author as network slimming) found on CIFAR and ImageNet that for structured
# pruning the architecture matters more than the inherited weights. So slimming may
# be read as a search for widths. (*From scratch* costs more: all the epochs again;
# fine-tuning takes a third or a quarter of them.)
#
# **More seeds, and MNIST.** Three seeds give wide intervals near a collapse. The course
# therefore stores the same experiment with six seeds, and with three on MNIST (6,000
# images, eight epochs, three of fine-tuning). `course remake lab04_slimming_digits` and
# `course remake lab04_slimming_mnist` repeat it. *Before you look:* MNIST's maps are
# larger, with relatively less border. Which column should improve?

# %%
shipped = lab04.stored()
tables.means(shipped, "accuracy", rows=["data", "method"], columns="step")

# %%
tables.show(tables.plain(lab04.given_back(shipped), 2))
slim = shipped[shipped["method"] == "slimming"]
pairs = {"+ absorbed": "pruned", "BN recalibrated": "sparse-trained", "fine-tuned": "from scratch"}
for step, before in pairs.items():
    both = slim[slim["step"].isin([step, before])]
    tables.show(tables.compare(both, "accuracy", by="step", against=before, columns="data"))
end = shipped[shipped["step"] == "fine-tuned"]
tables.compare(end, "accuracy", against="slimming", columns="data")

# %% [markdown]
# And on the **test** images:

# %%
tested = shipped[shipped["test"].notna()]
tables.means(tested, "test", rows=["method", "step"], columns="data")

# %% [markdown]
# {{claim 04.1}}
#
# {{claim 04.2}}
#
# In the *slimming* rows the network collapses and recovers in the same steps on both
# data sets, and on both absorbing helps by a distinguishable difference. Absorbing
# alone restores most of the accuracy, and needs no image. On MNIST it restores no
# larger share, although the border is smaller, so the border is not the only cause of
# the remaining drop. On MNIST channels that still carried signals were removed: *BN
# recalibrated* is below *sparse-trained*, and fine-tuning adds some accuracy.
#
# {{claim 04.3}}
#
# {{claim 04.4}}
#
# Random channels of these networks are a weak baseline: most channels that they keep
# are silent, and training has to reactivate them. Part D has a stronger baseline.

# %% [markdown]
# #### Experiment: which score?
#
# Slimming is a score *and* a training for it. On the *dense* networks (no penalty) we
# rank channels by $|\alpha|$, by the L1 norm of their filters (Li et al. 2017), or at
# random. With $\alpha$ all layers compete. Norms of filters cannot be compared across
# layers, since batch norm cancels each layer's scale. So filters compete within their
# layer, as in the paper, and each layer loses the same share, as with random channels.
# All networks are absorbed and recalibrated but not fine-tuned, since fine-tuning hides
# differences (lab 01).

# %%
FRACTIONS = [0.2, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9]
by_score = lab04.which_score(dense, sparse, select_channels, cut, data, FRACTIONS)
title = "Accuracy by channels removed, for each score and training"
label = "channels removed (recalibrated, not fine-tuned)"
plots.curves(by_score, x="removed", y="accuracy", title=title, xlabel=label, xaxis="sparsity")

# %%
at_half = by_score[by_score["removed"] == 0.5]
tables.show(tables.compare(at_half, "accuracy", against="random"))
tables.compare(at_half, "accuracy", against="α, dense")

# %% [markdown]
# The large gap is not between scores but between a network that was *trained for
# removal* and one that was not. A dense network uses all its channels a little, so
# every score removes something useful. With half of the channels removed we could not
# detect that either score is better than a random choice, and $\alpha$ has the lower
# mean of the two. The score of Liu et al. is useful *with* their training. (Li et al.
# also fine-tune, and then find L1 norms good enough.)

# %% [markdown]
# ## Part D · The next layer

# %% [markdown]
# ### 4.6 The cascade
# **10 minutes · 2 points · needs 4.4**
#
# Pruning filters of layer $i$ also prunes layer $i+1$: weights that read a removed
# channel have no input any more. This is the *cascade effect*. It is often described
# under the assumption that the shift β of the batch norm is zero. From 4.4 you know
# what happens if β is not zero.
#
# Write `cascade` for one layer. It finds the weights that are still *useful*, and the
# shift that the useless weights leave behind. Useless does not mean harmless: if the
# constant is not zero, you must add this shift to the next layer's bias.
#
# Not allowed: `torch.nn.utils.prune`, `torch.ao.pruning`, `torch_pruning` and
# `course_lib.pruning`.
#
# **What is tested**: mask and shift, also with NaN constants of kept channels, without
# constants, with all or no channels kept, 1×1 kernels, dimensions of equal size, zero
# weights, float64; arguments unchanged; ValueError.


# %%
def cascade(
    keep: Tensor, next_weight: Tensor, constant: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Find the next layer's weights that removed channels make useless, and their shift.

    Args:
        keep: bool (C,), True = kept.
        next_weight: (M, C, R, S), a convolution's weight. Not changed.
        constant: (C,), the output of a removed channel *after* batch norm and ReLU:
            relu(β). The entries of kept channels have no meaning, and may be NaN.
            None: 0 for all.

    Returns:
        A bool tensor like ``next_weight``, True = useful: the weight reads a kept
        channel. And the shift (M,), in the dtype of ``next_weight``: the sum that the
        other weights give where the whole kernel lies on the map.

    Raises:
        ValueError: if ``keep`` is not a bool (C,) or ``constant`` is not (C,).

    >>> weight = torch.tensor([5.0, 7.0]).view(1, 2, 1, 1)
    >>> cascade(torch.tensor([True, False]), weight, torch.tensor([1.0, 2.0]))[1]
    tensor([14.])
    """
    ### BEGIN SOLUTION
    channels = next_weight.shape[1]
    if keep.dtype != torch.bool or keep.shape != (channels,):
        raise ValueError(
            f"keep must be bool of shape ({channels},), got {keep.dtype} {tuple(keep.shape)}"
        )
    if constant is None:
        constant = next_weight.new_zeros(channels)
    if constant.shape != (channels,):
        raise ValueError(f"constant must have shape ({channels},), got {tuple(constant.shape)}")
    useful = keep[:, None, None].expand_as(next_weight).clone()  # (M, C, R, S)
    # (C,): only removed channels count
    left_behind = constant.masked_fill(keep, 0).to(next_weight.dtype)
    return useful, next_weight.sum((2, 3)) @ left_behind  # (M, C) @ (C,)
    ### END SOLUTION


# %%
check("4.6")

# %% [markdown]
# <details><summary>Hint 1: broadcasting</summary>Which of the four dimensions does
# <code>keep</code> belong to? Give it length 1 in the others, and expand.</details>
# <details><summary>Hint 2: numbers without meaning</summary>The constant of a kept
# channel may be NaN, and 0 × NaN is NaN. So replace the NaN before you
# multiply.</details>

# %% [markdown]
# #### Which step removed the weights?
#
# A weight $w_{mcrs}$ is removed if its filter $m$ is removed, if its input $c$ is
# removed, or both.

# %%
taken = lab04.who_takes(sparse, keeps, cascade)
title = f"{FRACTION:.0%} of the channels removed: which step removes the weights?"
label = "weights of the layer (%)"
fig = plots.bars(taken, x="layer", y="share", by="reason", title=title, ylabel=label, fmt="{:.0f}")
plots.show(fig)
own, alone, _ = taken[taken["layer"] == "all"].groupby("reason", sort=False)["share"].mean()
share = alone / (own + alone)
say(f"The cascade alone removes **{share:.0%}** of them.")

# %% [markdown]
# #### Experiment: with and without structure, at equal MACs
#
# In lab 01 pruning single weights was better than pruning filters at equal *sparsity*.
# That was not fair: removing 70 % of the channels removes far more than 70 % of the
# products. Now we compare at equal **MACs**. *Unstructured* prunes the smallest weights
# of the dense network until every layer has as many weights, and so as many products,
# as in the slimmed network. The baseline removes random channels of the dense network,
# down to the same widths. All networks are recalibrated and fine-tuned equally long.
#
# *Before you look:* how many times faster than the dense network will the slimmed one
# be (70 % of the channels removed)?

# %%
### BEGIN SOLUTION
prediction_4_6b = 8
### END SOLUTION

# %%
CUTS = [0.5, FRACTION, 0.8]
tuned = lab04.pick(networks, method="slimming", step="fine-tuned")
equal = lab04.at_equal_macs(
    dense, sparse, {FRACTION: tuned}, select_channels, cut, CUTS, data, SETTINGS["finetune"]
)
at_macs = lab04.measured(equal, data)
lines = lab04.joined(at_macs, dense_accuracy)
title, label = "Accuracy at equal MACs", "MACs (% of dense); random: random channels"
plots.curves(lines, x="remaining", y="accuracy", title=title, xlabel=label, xaxis="remaining")

# %%
tables.compare(at_macs, "accuracy", against="structured", columns="removed")

# %% [markdown]
# First, the common sentence "unstructured pruning is more accurate than structured
# pruning" is about equal *sparsity*. At equal MACs little of this advantage is left:
# see in the table whether a difference to *unstructured* is distinguishable.
#
# Second, every method has a limit. The penalty had prepared about 70 % of the channels
# for removal. Beyond 70 %, slimming removes channels that training had kept, and its
# choice need not be better than a random one. The random baseline may even be better:
# it comes from the *dense* networks, which had no penalty. The advantage of slimming is
# visible before *fine-tuning*, in the last figure of part C.
#
# Now the measured latency (processor time) for 64 images on one core; the networks take
# turns. *Times faster* is again the median of the ratios, one ratio per round.

# %%
rows = {"dense": dense[0]}
for fraction in CUTS:
    for method in ("unstructured", "structured"):
        (first, *_) = lab04.pick(equal, method=method, removed=fraction)
        rows[f"{method}, {fraction:.0%}"] = first
rows[f"structured, {FRACTION:.0%}, folded"] = fold_all(tuned[0])
costs = lab04.costs(rows, images[:64])
tables.show(tables.plain(costs[["method", "macs", "fewer", "ms", "faster"]], 2))

# %%
lab04.draw_times(costs[:-1], "Measured speed-up against MACs", guess=(None, prediction_4_6b))

# %% [markdown]
# Zeros are multiplied like all other numbers, so they save no time, even if few
# non-zero products are left. Removed filters save time, but less than the MACs suggest.
# Small matrices use the processor's vector units badly, and all other operations (batch
# norm, ReLU, pooling, function calls) become hardly cheaper. Folding removes batch
# norm. Report both ratios, the counted and the measured one.

# %% [markdown]
# #### Residual networks and depthwise convolutions
#
# Our network is a chain. In a ResNet the output of a block is *added* to its input,
# channel by channel. If you remove channel 7 from only one of the two, they no longer
# match. What does the library's `remove_filters` do?

# %%
image = torch.rand(1, 3, 96, 96)
try:
    pruning.channels.remove_filters(resnet, {"layer1.0.conv2": torch.arange(64) % 2 == 0}, image)
except ValueError as refusal:
    print(refusal)

# %% [markdown]
# The error names the layers, and the addition where their channels meet.
# `channel_groups` finds such groups by following every channel through the model; a
# mask for a group applies to all its layers. Inside a block (`conv1`) a group is one
# layer. We remove half of the channels of every group, by the summed L1 norms of their
# filters:

# %%
groups = [group for group in pruning.channels.channel_groups(resnet, image) if group.pinned is None]
tied = max((group.producers for group in groups), key=len)
half_resnet, _ = lab04.halved(resnet, groups, image)
both = lab04.costs({"whole": resnet, "half of each group": half_resnet}, image, repeats=15)
say(f"{len(groups)} groups can be pruned; the largest joins {', '.join(tied)}.")
tables.plain(both[["method", "kb", "fewer", "faster"]])

# %% [markdown]
# A **depthwise** convolution has one kernel per channel and mixes no channels. So we
# select nothing there: in MobileNetV2 we select channels of the 1×1 convolution before
# it, and the depthwise convolution is cut to match, like a batch norm.

# %%
mobile = mobilenet_v2(weights=None).eval()
of_mobile = pruning.channels.channel_groups(mobile, image)
group = next(g for g in of_mobile if any(".1.0" in name for name in g.followers))
print(f"computed by {group.producers}, passed by {group.followers}, read by {group.consumers}")

# %% [markdown]
# ## Part E · What was it worth?

# %% [markdown]
# ### 4.7 Two short answers
# **10 minutes · 1 point**
#
# #### Experiment: costs, and the test images once
#
# Only now we use the **test images**, once, for the networks at 70 % and for those of
# equal MACs. The size is that of the whole model, with biases and batch norms; each
# tensor is stored in its cheapest format.

# %%
finals = {
    "dense": dense,
    f"slimming {FRACTION:.0%}, fine-tuned": tuned,
    f"slimming {FRACTION:.0%}, folded": [fold_all(model) for model in tuned],
    "the same widths from scratch": lab04.pick(networks, step="from scratch"),
    "random channels, fine-tuned": lab04.pick(equal, method="random", removed=FRACTION),
    "unstructured, equal MACs": lab04.pick(equal, method="unstructured", removed=FRACTION),
}
costs = lab04.costs({name: models[0] for name, models in finals.items()}, images[:64])
tested = lab04.accuracies(finals, data, "test")  # the only use of the test images

# %%
for row in costs.itertuples():
    scores = tested[tested["method"] == row.method]["test"]
    cost = {"bits": row.bits, "macs": row.macs, "ms": row.ms}
    ledger.add("convnet", row.method, lab="04", accuracy=scores, **cost)
tables.plain(costs[["method", "kb", "macs", "ms", "faster"]], 2)

# %% [markdown]
# The ledger so far (`ledger.json`, in the folder of this notebook):

# %%
ledger.table()

# %% [markdown]
# #### The two answers
#
# **a.** Right after `remove_filters` the accuracy of the sparse-trained networks was
# far lower, although the removed channels had $\alpha\approx0$. What had been broken?
#
# - **A.** The removed channels had constant outputs. Without them the sums of the next
#   layer are shifted, and its batch norm still subtracts the old mean.
# - **B.** The removed channels held features that the network needed; recalibration
#   learned them again.
# - **C.** The kept weights had to adapt to the smaller network, which takes training.
# - **D.** Nothing: three seeds differ so much after pruning that the accuracies agree
#   with those before.
#
# **b.** Differences of this lab, with their 95 % intervals, on both kinds of data:
#
# {{difference 04.2}}
# {{difference 04.3}}
#
# Which of these sentences do the intervals permit?
#
# - **A.** On the digits, the recalibrated network is better than before pruning.
# - **B.** Inherited weights are worth nothing: training from scratch is exactly as
#   good.
# - **C.** On MNIST, recalibration does not bring back all of the accuracy.
# - **D.** Fine-tuned networks are better than networks from scratch, since both means
#   are above 0.

# %%
# "A", "B", "C" or "D"
### BEGIN SOLUTION
answer_4_7a = "A"
answer_4_7b = "C"
### END SOLUTION

# %%
check("4.7")

# %% [markdown]
# <details><summary>Hint for a</summary>Which of the four can be true, if no weight
# changed between <i>pruned</i> and <i>BN recalibrated</i>? And what was the accuracy
# with the scales at 0 and nothing removed?</details>
# <details><summary>Hint for b</summary>Which intervals contain 0? What can you not
# conclude from an interval that contains 0, or from one run?</details>

# %% [markdown]
# ### 4.8 Bug hunt
# **25 minutes · 1 point**
#
# Here are a test of `cascade` that looks reasonable, and a version that passes this
# test. The version takes the constants of all channels and multiplies:


# %%
def naive_test(f: Callable) -> None:
    generator = torch.Generator().manual_seed(0)
    weight = torch.randn(6, 8, 3, 3, generator=generator)
    keep = torch.arange(8) % 2 == 0
    constant = torch.randn(8, generator=generator).relu()
    constant[keep] = 0
    useful, shift = f(keep, weight, constant)
    assert useful.shape == weight.shape and not useful[:, ~keep].any() and useful[:, keep].all()
    maps = constant[:, None, None].expand(8, 3, 3)  # the output of the removed channels
    assert torch.allclose(shift, nn.functional.conv2d(maps[None], weight)[0, :, 0, 0], atol=1e-5)


# %%
def suspicious_cascade(
    keep: Tensor, next_weight: Tensor, constant: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    useful = keep.view(1, -1, 1, 1).repeat(len(next_weight), 1, *next_weight.shape[2:])
    if constant is None:
        return useful, next_weight.new_zeros(len(next_weight))
    return useful, (next_weight * constant.to(next_weight.dtype).view(1, -1, 1, 1)).sum((1, 2, 3))


naive_test(suspicious_cascade)
print("suspicious_cascade passes the naive test.")

# %% [markdown]
# Now call both versions as in practice: the constant is relu(β) of a trained batch
# norm, for *all* its channels.

# %%
constant = sparse[0].bn3.bias.detach().relu()
weight = sparse[0].conv4.weight.detach()
right, wrong = (f(keeps[0]["bn3"], weight, constant)[1] for f in (cascade, suspicious_cascade))
print(
    f"The mean |shift| is {right.abs().mean():.3f}; suspicious_cascade is off by"
    f" {(wrong - right).abs().mean():.3f}."
)

# %% [markdown]
# By the contract "the entries of kept channels have no meaning", but the test had set
# them to zero. A test that prepares its input in this way does the function's work.
#
# Write `find_bug(f)`. Its argument is a function `f(keep, next_weight, constant)`,
# called by position; `constant` may be `None`. `find_bug` raises `AssertionError` if
# `f` breaks the contract of **4.6**, and returns otherwise. The contract of 4.6, as a
# checklist:
#
# - the mask: bool, the shape of the weight, True exactly where the weight reads a kept
#   channel;
# - the shift: shape (M,); the sum over removed channels of (sum of the kernel) ×
#   constant; 0 if `constant` is `None`; constants of kept channels, also NaN, have no
#   effect.
#
# **What is tested**: your verdicts on several versions of `cascade`, right ones
# (written in other ways than yours) and wrong ones. You must judge both kinds
# correctly. All versions take finite weights of any shape (M, C, R, S) in float32 or
# float64, and finite constants where a channel is removed. Wrong arguments are not
# tested. Use small inputs: a call with more than eight million numbers is refused, and
# `find_bug` has ten seconds per version.
#
# Try not to use your own `cascade`: a convolution over constant maps computes the
# shift.


# %%
def find_bug(f: Callable) -> None:
    """Raise AssertionError if ``f(keep, next_weight, constant)`` breaks the contract of
    ``cascade`` (4.6); else return.

    ``f`` takes its three arguments by position.
    """
    ### BEGIN SOLUTION
    generator = torch.Generator().manual_seed(1)

    def draw(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    for m, c, r, s in ((4, 3, 3, 3), (3, 3, 1, 1), (2, 5, 3, 2), (5, 2, 1, 3), (1, 4, 2, 2)):
        for keep in (
            torch.arange(c) % 2 == 0,
            torch.arange(c) == c - 1,
            torch.ones(c) > 0,
            torch.ones(c) < 0,
        ):
            for constant in (draw(c).abs() + 0.5, torch.zeros(c, dtype=torch.float64), None):
                weight = draw(m, c, r, s) + 0.3
                useful, shift = f(keep, weight, constant)
                case = f"weight {(m, c, r, s)}, keep {keep.tolist()}, constant {constant}"
                assert useful.dtype == torch.bool and useful.shape == weight.shape, (
                    f"not a bool mask of the weight's shape: {case}"
                )
                for i in range(c):
                    assert (useful[:, i] == keep[i]).all(), f"weights of channel {i}: {case}"
                # the shift is the output at one position for constant maps, which are
                # zero where kept
                given = torch.zeros(c, dtype=torch.float64) if constant is None else constant
                maps = given.masked_fill(keep, 0).view(1, c, 1, 1).expand(1, c, r, s)
                assert shift.shape == (m,), f"one shift for each output: {case}"
                assert torch.allclose(shift, nn.functional.conv2d(maps, weight)[0, :, 0, 0]), (
                    f"wrong shift: {case}"
                )
    ### END SOLUTION


# %%
for f in (cascade, suspicious_cascade):
    try:
        find_bug(f)
        print(f"{f.__name__}: no bug found")
    except AssertionError as reason:
        print(f"{f.__name__}: caught ({str(reason)[:40]}…)")

# %%
check("4.8")

# %% [markdown]
# <details><summary>Hint 1: the checklist</summary>One assertion per line of the
# checklist.</details>
# <details><summary>Hint 2: sizes that tell versions apart</summary>If M = C, a mask
# over the wrong axis has the right shape. If R = S = 1, summing a kernel and taking its
# centre give the same.</details>
# <details><summary>Hint 3: numbers without meaning</summary>Give the kept channels
# large constants. A right version ignores them.</details>

# %% [markdown]
# ## Play
#
# Move the share of removed channels (keyboard: Tab selects a control, the arrow keys
# move the slider, the space bar presses a button). On the left every dot is a channel
# of the first sparse-trained network; channels below the line are removed (the largest
# of each layer is kept). On the right you see MACs and accuracy. Which repair allows
# the largest share? From which share on does no repair help?

# %%
play = lab04.slimming_explorer(sparse[0], select_channels, cut, data)
plots.explore(play, fraction=(0, 0.95, 0.05), repair=lab04.REPAIRS)

# %% [markdown]
# ## Summary
#
# - In evaluation mode batch norm is a line and can be folded into the convolution
#   before it: the same outputs, one pass over the data less.
# - A removed channel is not zero but a constant, relu(β). Add its effect to the next
#   bias; at zero-padded borders this is not exact.
# - L1 on α produces channels that can be removed; L2 does not. Penalise α, not p:
#   larger weights can lower a penalty on p.
# - A collapse after slimming is mostly a removed constant that is still in batch norm's
#   mean. Find out what was lost before you train.
# - Slimming finds widths. Always train the same widths from scratch, too.
# - With removed filters a part of the saved MACs saves time; with zeros none does.
#
# ## Recap
#
# **1.** Why does folding not work in training mode?
# <details><summary>Answer</summary>The mean and variance then change with every batch,
# so batch norm is no fixed line.</details>
#
# **2.** A channel has α = 0 and β = 0.5. What does the next layer lose if you remove
# it?
# <details><summary>Answer</summary>The constant 0.5 at every position, times the sum of
# each kernel that reads the channel (less at a zero-padded border).</details>
#
# **3.** Why does an L1 penalty on α lead to channels that can be removed, and an L2
# penalty not?
# <details><summary>Answer</summary>The gradient of |α| does not become weaker near 0;
# the gradient of α² does.</details>
#
# **4.** Half of the filters of every layer are removed. Which share of the MACs of a
# middle layer is left?
# <details><summary>Answer</summary>A quarter: half of its outputs times half of its
# inputs.</details>
#
# **5.** Fine-tuning restores a pruned network. Which baselines show whether the
# inherited weights or the choice of channels mattered?
# <details><summary>Answer</summary>The same widths from scratch; random channels,
# fine-tuned as long; and recalibration without training.</details>
#
# ## Going further
#
# - **Real data.** `DATA = "mnist"` or `"cifar10"` above. On which data is *from
#   scratch* worse?
# - **The weight of the penalty.** Train with λ three times smaller and larger. When can
#   no channel be removed? When does the accuracy fall?
# - **Replicate padding.** With `padding_mode="replicate"`, which repeats the edge of
#   the map, absorbing is exact everywhere. Train with it: is *+ absorbed* now as good
#   as *sparse-trained*?
# - **Real architectures.** The library's `remove_filters` works on most models of
#   torchvision. Compare with [Torch-Pruning](https://github.com/VainF/Torch-Pruning),
#   as `make bench` in the course folder does on a ResNet-50.
# - **Read.** Z. Liu et al., [Learning Efficient Convolutional Networks through Network
#   Slimming](https://arxiv.org/abs/1708.06519), 2017. H. Li et al., [Pruning Filters
#   for Efficient ConvNets](https://arxiv.org/abs/1608.08710), 2017. J. Ye et al.,
#   [Rethinking the Smaller-Norm-Less-Informative Assumption in Channel
#   Pruning](https://arxiv.org/abs/1802.00124), 2018 (constants absorbed). Z. Liu et
#   al., [Rethinking the Value of Network Pruning](https://arxiv.org/abs/1810.05270),
#   2019 (from scratch). B. Jacob et al., [Quantization and Training of Neural Networks
#   for Efficient Integer-Arithmetic-Only Inference](https://arxiv.org/abs/1712.05877),
#   2018 (folding). G. Fang et al., [DepGraph: Towards Any Structural
#   Pruning](https://arxiv.org/abs/2301.12900), 2023 (groups).
# - **Next.** Zeros are flexible but save no time; structure saves time but is coarse.
#   Lab 05 looks for methods in between.
