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
# **A zero costs a dense kernel as much time as any other number. What if the filter is
# not there at all? Which ones can go, what do they leave behind, and what is really
# lost when a network "collapses"?**
#
# In lab 01 you set weights to zero and nothing ran faster. Here you take whole filters
# *out*: the network that is left is smaller, dense and ordinary. For that you first
# have to understand the layer that stands between two convolutions, batch norm; it will
# turn out to be behind most of what happens in this lab.
#
# | part | you write | you find out |
# |---|---|---|
# | A · Batch norm is a line | 4.1 scale and shift, 4.2 folding | the same outputs: to how many digits, and how much faster? |
# | B · Taking filters out | 4.3 the surgery, 4.4 what stays behind | a removed channel is not zero |
# | C · Which channels? | 4.5 network slimming | the famous collapse, cause by cause, and the architecture alone |
# | D · The next layer | 4.6 the cascade | equal MACs with and without structure: accuracy and milliseconds |
# | E · What was it worth? | 4.7 two short answers, 4.8 a bug hunt | the bill, and the test images once |
#
# 20 points; about three hours. After each exercise `check("4.1")` tells you at once
# what is right. If you are stuck, write `skip("4.1")` in a cell: that question scores 0
# and the rest of the lab goes on with the course's version.
#
# The rules are those of lab 01: guess first; choose on validation data and look at the
# test data once, at the end; no claim without a random control and three seeds.

# %%
from course_lib.grading import check, choose, skip  # noqa: F401  (skip is yours to use)

# isort: split
import copy
from collections.abc import Callable

import numpy as np  # noqa: F401  (yours to use)
import torch
from torch import Tensor, nn
from torchvision.models import mobilenet_v2, resnet18

from course_lib import ledger, pruning
from course_lib.data.images import load
from course_lib.experiments import lab04
from course_lib.show import drawings, plots, tables, widgets
from course_lib.show.words import pm, say, you_wrote

STUDENT = ""  # your name or number: your letters are yours alone

# %%
plots.show(drawings.filter_cascade(5, 3, 4, removed=(1,)))

# %% [markdown]
# Filter 2 of five is removed: its row of this layer, its entries of batch norm, its map,
# and its column of the next layer.

# %% [markdown]
# ## Settings
#
# The default data are scikit-learn's handwritten digits, 1,797 *real* 8×8 images.
# Change one word for the real MNIST or CIFAR-10; what takes a few minutes now then
# takes several times as long. (CIFAR-10 is what the paper of this lab used. On so few
# images and epochs a network this small reaches about half of the paper's accuracy:
# look at the differences.)
#
# `SETTINGS` holds the number of training images, the epochs from scratch and of
# fine-tuning, and the weight λ of the slimming penalty. (The penalty pulls once per
# step, so more steps need a smaller λ.)

# %%
DATA = "digits"  # or "mnist", or "cifar10"
SEEDS = 3
SETTINGS = {
    "digits": {"train": 1097, "epochs": 20, "finetune": 5, "lam": 2e-2},
    "mnist": {"train": 3000, "epochs": 8, "finetune": 3, "lam": 2e-2},
    "cifar10": {"train": 5000, "epochs": 12, "finetune": 4, "lam": 1e-2},
}[DATA]
FRACTION = 0.7  # of all channels, to be removed
data = load(DATA).subset(SETTINGS["train"], validation=1000)
images = data.validation.images
say(
    f"**{data.name}**: {len(data.train.labels)} training, {len(images)} validation and"
    f" {len(data.test.labels)} test images of shape {data.shape}. One validation image is"
    f" {100 / len(images):.2f} points of accuracy."
)

# %% [markdown]
# ### The patient
#
# The network of lab 01: four 3×3 convolutions (32, 32, 64, 64 filters), each followed
# by **batch norm** and ReLU, then a global average and one linear layer. In code:
# `conv1`, `bn1`, `conv2`, `bn2`, …, `fc`. We train it from three seeds. (The code of
# all experiments is in [lab04.py](../course_lib/experiments/lab04.py). It gets your own
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
# Batch norm takes each channel $c$ of its input and makes
#
# $$y_c = \alpha_c\,\frac{x_c-\mu_c}{\sqrt{\sigma_c^2+\varepsilon}}+\beta_c .$$
#
# While it trains, $\mu_c$ and $\sigma_c^2$ are the mean and variance of the batch at
# hand. For inference they are *fixed*: running averages collected during training. Then
# everything but $x_c$ is a constant, and what looks like statistics is a line,
# $y_c = p_c x_c + q_c$.
#
# (Two letters for one thing: $\alpha$ is what torch calls `weight` and many papers
# $\gamma$. torch stores $\sigma^2$, not $\sigma$, in `running_var`.)

# %% [markdown]
# ### 4.1 Scale and shift
# **8 minutes · 2 points**
#
# Multiply out: which $p_c$ and which $q_c$? A form often seen divides by $\sigma$,
# which stands for the whole root. Do not forget the $\varepsilon$ under the root: it
# prevents a division by 0 in a channel with variance 0.
#
# Write it yourself: not `torch.nn.utils.fusion`, `torch.ao.quantization`,
# `torch.fx.experimental.optimization` or `torch.jit`'s versions, and nothing of
# `course_lib.pruning`.
#
# *Before you write anything:* a common slip is to divide by $\sigma^2+\varepsilon$
# without the root. Someone tests such a version on a fresh `nn.BatchNorm2d(8)` with
# random inputs. Will the test notice, `"yes"` or `"no"`?

# %%
### BEGIN SOLUTION
prediction_4_1 = "yes"
### END SOLUTION


# %%
def bn_scale_shift(bn: nn.BatchNorm2d) -> tuple[Tensor, Tensor]:
    """The p and q with which a batch norm in evaluation mode computes p · x + q,
    channel by channel.

    Args:
        bn: with running statistics μ (``running_mean``) and σ² (``running_var``), a
            scale α (``weight``), a shift β (``bias``) and ε (``eps``). It is not
            changed.

    Returns:
        p and q, both (C,), without gradient: p · x + q is what ``bn(x)`` gives in
        evaluation mode.
    """
    ### BEGIN SOLUTION
    p = bn.weight.detach() / torch.sqrt(bn.running_var + bn.eps)  # (C,)
    return p, bn.bias.detach() - p * bn.running_mean
    ### END SOLUTION


# %%
check("4.1")

# %% [markdown]
# <details><summary>Hint 1: two terms</summary>Write the fraction as a difference of two
# fractions. One has x in it; the other, together with β, is q.</details>
# <details><summary>Hint 2: which vector is which</summary><code>bn.weight</code> is α,
# <code>bn.bias</code> is β,
# <code>bn.running_mean</code> is μ, <code>bn.running_var</code> is σ² (a variance
# already), <code>bn.eps</code> is ε.</details>
# <details><summary>Hint 3: without gradient</summary><code>.detach()</code> gives the
# numbers of a parameter without its history.</details>

# %%
norms = {"fresh": nn.BatchNorm2d(32), "bn2, trained": dense[0].bn2}
tables.show(tables.plain(lab04.line_errors(bn_scale_shift, norms), ".0e"))
say(you_wrote(prediction_4_1))

# %% [markdown]
# A fresh batch norm has $\sigma^2 = 1$, and 1 is its own root: the slip changes nothing
# there that a usual tolerance would see. *Test with numbers that differ from each
# other*, on a trained layer for example. (That is also how `check` does it.)

# %% [markdown]
# ### 4.2 Folding
# **20 minutes · 4 points · needs 4.1**
#
# In front of the line there is a convolution, which is linear too. Channel $m$ of its
# output is $\langle w_m, \cdot\rangle + b_m$ at every position, so
#
# $$p_m\big(\langle w_m,\cdot\rangle + b_m\big) + q_m = \langle\, p_m w_m,\cdot\rangle + (p_m b_m + q_m) .$$
#
# The batch norm is gone: it lives in the filter and the bias. That costs nothing and
# loses nothing. Convolutions in front of a batch norm usually have no bias, since
# $\beta$ does its job; the folded one needs one.
#
# This works only *behind* a convolution, and only with fixed statistics: in training
# mode $\mu$ and $\sigma$ change with every batch, and no fixed filter can stand for
# them. So refuse in that case, as torch's own version does
# (`torch.nn.utils.fusion.fuse_conv_bn_eval`, with an AssertionError; yours raises a
# RuntimeError). With groups the weight is $(M, C/\text{groups}, R, S)$. Which of these
# dimensions does $p$ belong to?
#
# Write it yourself: nothing of what 4.1 excludes.
#
# *Before you write anything:* batch norm does one multiplication and one addition for
# each activation; the convolutions of our patient do hundreds for each. By which factor
# will the *time* for 64 images fall when all four are folded (1 = not at all)?

# %%
### BEGIN SOLUTION
prediction_4_2 = 1.1
### END SOLUTION


# %%
def fold_bn(conv: nn.Conv2d, bn: nn.BatchNorm2d) -> nn.Conv2d:
    """One convolution that computes ``bn(conv(x))`` in evaluation mode.

    Args:
        conv: (M, C/groups, R, S), with or without a bias, any stride, padding, dilation
            and groups. Not changed.
        bn: of M channels. Not changed.

    Returns:
        A new convolution, in evaluation mode, with a bias, and otherwise with the
        settings of ``conv``.

    Raises:
        RuntimeError: if ``conv`` or ``bn`` is in training mode.
    """
    ### BEGIN SOLUTION
    if conv.training or bn.training:
        raise RuntimeError(
            "in training mode a batch norm uses each batch's own statistics: call .eval() first"
        )
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
# <details><summary>Hint 1: the axis</summary>p has one number for each <i>output</i>
# channel. In torch's convolution weight that is the first dimension, whatever the
# groups: give p the shape (M, 1, 1, 1).</details>
# <details><summary>Hint 2: the old bias</summary>It goes through the batch norm, too:
# it is multiplied by p before q is added.</details>
# <details><summary>Hint 3: all the other settings</summary>Stride, padding, dilation,
# groups, padding mode: a
# <code>copy.deepcopy</code> of the convolution has them all. Then give it a new weight
# and a new bias.</details>

# %% [markdown]
# #### Experiment: the same network, and faster?
#
# Equal "up to rounding" is a claim with a number in it: with 24 bits of mantissa
# (float32) sums of some hundred products agree to about six digits. If the difference
# is *only* rounding, it must shrink by a factor of $10^8$ or so in float64. That is a
# good test for any two formulas that should be the same: a real mistake does not care
# about the precision.


# %%
def fold_all(model: nn.Module) -> nn.Module:
    """A copy of a patient without batch norms."""
    return lab04.fold_all(model, fold_bn)


errors = lab04.folding_errors(dense[0], fold_all, images)
tables.plain(errors, {"largest difference": ".1e", "relative": ".0e"})

# %% [markdown]
# And the time, all networks taking turns on one core. The clock is the processor's: it
# counts how long the processor worked for us, and stands still while it works for
# others. For the ResNet-18 of torchvision (with random weights: time does not depend on
# them) the library's `fold_model` finds out by itself which batch norm follows which
# convolution.

# %%
resnet = resnet18(weights=None).eval()
folded, report = pruning.channels.fold_model(resnet)
pairs = {
    "patient, 1 image": (dense[0], fold_all(dense[0]), images[:1]),
    "patient, 64 images": (dense[0], fold_all(dense[0]), images[:64]),
    "ResNet-18, 1 image of 96×96": (resnet, folded, torch.rand(1, 3, 96, 96)),
}
tables.show(tables.plain(lab04.folding_times(pairs), 2))
say(f"{len(report.folded)} batch norms of ResNet-18 are folded. {you_wrote(prediction_4_2)}")

# %% [markdown]
# (All numbers are medians. *Times faster* is the median of the ratios, round by round,
# with their quartiles; it need not be the ratio of the two medians.)
#
# Counted in MACs batch norm is next to nothing; in milliseconds one sees it, most of
# all where the convolutions are small. It reads every activation from memory and writes
# it back, to do two operations with it. *Arithmetic* is cheap, *passes over the data*
# are not: remember it when we compare MACs with time below. That is why inference
# engines fold first. (Quantised training folds as well, so that the weights that are
# rounded in training are the weights that inference uses: Jacob et al. 2018, section
# 3.2.)
#
# **Only behind.** A batch norm *in front of* a convolution (as in pre-activation
# ResNets or DenseNet) cannot be folded into it exactly: its shift $q$ would have to
# pass through the convolution, and at a border padded with zeros a part of the kernel
# sees no $q$. Keep that border in mind: we meet it again in 4.4.

# %% [markdown]
# ## Part B · Taking filters out
#
# Filter $i$ of a convolution makes channel $i$ of its output. When the filter goes,
# everything that belongs to its channel must go with it: entry $i$ of the batch norm
# behind it, and *input* channel $i$ of the convolution that reads it. (In lab 00's
# terms: row $i$ of this weight, column $i$ of the next.)

# %% [markdown]
# ### 4.3 The surgery
# **20 minutes · 3 points**
#
# Batch norm has four vectors of one number per channel. Two are parameters, two are
# buffers, and all four must be cut: if the statistics of another channel are left in a
# place, nothing crashes and everything is wrong.
#
# Write it yourself: not `torch.nn.utils.prune`, `torch.ao.pruning` or `torch_pruning`,
# and nothing of `course_lib.pruning`.
#
# *Before you write anything:* from every layer of the patient half of the filters go.
# What share of its MACs, in %, will be left?

# %%
### BEGIN SOLUTION
prediction_4_3 = 50
### END SOLUTION


# %%
def remove_filters(
    conv: nn.Conv2d, bn: nn.BatchNorm2d, next_conv: nn.Conv2d, keep: list[int]
) -> tuple[nn.Conv2d, nn.BatchNorm2d, nn.Conv2d]:
    """Keep only some filters of a convolution, and cut what belongs to the others.

    Args:
        conv: makes C channels: (C, C_in, R, S), with or without a bias, groups = 1. Not
            changed.
        bn: the batch norm behind it, of C channels. Not changed.
        next_conv: reads the C channels: (M, C, R', S'), with or without a bias,
            groups = 1. Not changed.
        keep: the channels to keep: indices from 0 to C − 1, strictly increasing, at
            least one.

    Returns:
        Three new modules in the modes (training or evaluation) of the given ones:
        ``conv`` with len(keep) filters, ``bn`` with len(keep) channels, ``next_conv``
        reading len(keep) channels and making M as before. What is kept keeps its values
        and its order, and all other settings stay.

    Raises:
        ValueError: if ``keep`` is empty, not strictly increasing, or has an index
            outside 0 to C − 1.
    """
    ### BEGIN SOLUTION
    channels = conv.out_channels
    rising = all(a < b for a, b in zip(keep, keep[1:], strict=False))
    if len(keep) == 0 or not rising or keep[0] < 0 or keep[-1] >= channels:
        raise ValueError(
            f"keep: strictly increasing indices from 0 to {channels - 1}, at least one; got {keep}"
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
# <details><summary>Hint 1: indexing</summary><code>weight[keep]</code> picks filters,
# <code>weight[:, keep]</code> picks input channels, both in the order of
# <code>keep</code>.</details>
# <details><summary>Hint 2: six places, or seven</summary>conv: weight, and bias if it
# has one. bn: weight, bias, running mean, running variance. next_conv: weight, second
# dimension; its own bias belongs to its own filters.</details>
# <details><summary>Hint 3: what the layers say of
# themselves</summary><code>out_channels</code>,
# <code>num_features</code> and <code>in_channels</code> are plain numbers that the
# layers remember. Copies (<code>copy.deepcopy</code>) leave the given layers
# unchanged.</details>

# %% [markdown]
# #### How much goes?
#
# Now from all layers of the patient at once, one after the other. The linear layer
# behind the global average is a 1×1 convolution on a 1×1 map, so your function cuts it
# as well.


# %%
def cut(model: nn.Module, keep: dict[str, Tensor], absorb: bool = False) -> nn.Module:
    """A smaller copy of a patient that keeps these channels of "bn1", "bn2", …
    (``absorb`` is for 4.4).
    """
    return lab04.cut(model, keep, remove_filters, absorb_removed if absorb else None)


half = {f"bn{i}": torch.arange(width) % 2 == 0 for i, width in enumerate((32, 32, 64, 64), 1)}
halved = cut(dense[0], half)

# %%
of_layers = lab04.macs_by_layer({"dense": dense[0], "every second filter out": halved}, images[:1])
title, ylabel = "Half of the filters out: what is left?", "MACs for one image (thousands)"
plots.bars(of_layers, x="layer", y="macs", by="network", title=title, ylabel=ylabel, fmt="{:.1f}")

# %%
left = lab04.share_left(halved, dense[0], images[:1])
say(f"Half of the filters: {left} are left. {you_wrote(prediction_4_3)}")

# %% [markdown]
# A convolution's MACs are proportional to its outputs *times* its inputs, and every
# layer in the middle loses half of both. Only the ends, whose inputs are the image or
# whose outputs are the classes, fall by a half. Part D counts this exactly.

# %% [markdown]
# ### 4.4 What stays behind
# **15 minutes · 3 points · needs 4.3**
#
# You took a channel out because it did not matter. What does a channel give that "does
# not matter"? In network slimming (4.5) it is one whose scale $\alpha$ is nearly zero.
# Put $\alpha = 0$ into the formula of batch norm: the input drops out, and
#
# $$y = 0\cdot\frac{x-\mu}{\sqrt{\sigma^2+\varepsilon}}+\beta = \beta .$$
#
# After the ReLU the channel is $\max(\beta, 0)$ *everywhere and for every image*. That
# carries no information, but it is not nothing: the next convolution was trained with
# it. Take the channel away and each of its sums changes by
#
# $$\Delta_m = \sum_{c\ \text{removed}}\ \sum_{r,s} w_{mcrs}\,\max(\beta_c, 0),$$
#
# always the same number. A bias can hold a number. So **absorb** it there, and nothing
# is lost.
#
# Two traps. It is $\beta$, not the $q$ of 4.1: $q = \beta - p\mu$ is what batch norm
# adds while $\alpha$ is still there. And look at the sum over $r, s$: it assumes that
# the *whole* kernel lies on the map.
#
# Write it yourself: not `torch.nn.utils.prune`, `torch.ao.pruning` or `torch_pruning`,
# and nothing of `course_lib.pruning`.
#
# *Before you write anything:* our convolutions pad with zeros. On an 8×8 map, at how
# many of the 64 positions will the absorbed bias be exact?

# %%
### BEGIN SOLUTION
prediction_4_4 = 64
### END SOLUTION


# %%
def absorb_removed(
    conv: nn.Conv2d, bn: nn.BatchNorm2d, next_conv: nn.Conv2d, keep: list[int]
) -> Tensor:
    """What the bias of the next convolution must gain, so that removed channels are not
    missed.

    A channel is removed by setting its scale α to 0. Between ``bn`` and ``next_conv``
    there is a ReLU.

    Args:
        conv, bn, next_conv, keep: as in 4.3, which has checked ``keep``; none is
            changed.

    Returns:
        (M,), without gradient: for each output of ``next_conv`` what it receives from
        all removed channels together, where its whole kernel lies on the map (so not at
        a border padded with zeros).
    """
    ### BEGIN SOLUTION
    # (C,): with α = 0 a batch norm gives β, whatever comes in
    constant = torch.relu(bn.bias.detach())
    constant[torch.tensor(keep)] = 0  # what is kept is still there, and does not go into a bias
    return next_conv.weight.detach().sum((2, 3)) @ constant  # (M, C) @ (C,)
    ### END SOLUTION


# %%
check("4.4")

# %% [markdown]
# <details><summary>Hint 1: one number per kernel</summary>A kernel over a constant map
# gives (sum of the kernel) × (constant). There is one such sum for each output m and
# each channel c.</details>
# <details><summary>Hint 2: only what is gone</summary>What is kept is still there and
# must not be counted twice. What would its constant have to be, so that it adds
# nothing?</details>
# <details><summary>Hint 3: which constant</summary>relu(β), of <i>this</i> batch norm.
# Neither μ nor σ has anything to do with it.</details>

# %% [markdown]
# #### Experiment: exact, but where?
#
# Three versions of the first two layers: the scale of half of the channels set to 0
# (nothing removed: this is what the others should equal), the channels removed, and
# removed with their constants absorbed. We look at what `conv2` gives, at every
# position, averaged over its filters and 64 images.

# %%
border = lab04.border_errors(dense[0], remove_filters, absorb_removed, images[:64])
plots.show(lab04.draw_border(border))
absorbed = border[border["method"] == "removed, constant absorbed"]["error"]
beta = dense[0].bn1.bias[~lab04.larger_half(dense[0].bn1)]  # of the removed channels
say(
    f"Exact at **{(absorbed < 1e-5).sum()} of {len(absorbed)}** positions. Removed channels with"
    f" β > 0, which leave something behind: {(beta > 0).sum()} of {len(beta)}."
    f" {you_wrote(prediction_4_4)}"
)

# %% [markdown]
# Inside, exact; at the border the channel had given less than the full $\Delta_m$,
# because part of the kernel lay on padding, and the bias now gives too much. The deeper
# the layer, the smaller the map and the larger its border: on a 4×4 map 12 of 16
# positions are border. (Padding that repeats the map, `padding_mode="replicate"`, would
# make it exact everywhere; a larger image makes the border matter less.)
#
# **A trap that no test of your function can show.** The patient's convolutions have no
# bias, so `cut` above moves the running mean of the next batch norm by $-\Delta_m$,
# which does the same: it is subtracted. But now go on *training*. In training mode a
# batch norm subtracts the mean of the batch, and a constant that was added to every
# value is in that mean: $(x+\Delta) - \overline{(x+\Delta)} = x - \bar x$. Whatever you
# absorbed in front of a batch norm is gone after its first training steps, or its first
# recalibration; it is not needed any more either. Absorbing is a repair for a network
# that will not be trained again.

# %% [markdown]
# ## Part C · Which channels?
#
# Lab 01 ranked filters by the sum of their $|w|$. But batch norm divides a filter's
# scale out again: multiply a filter by ten, and the output of the network does not
# change. What does say how loud a channel is behind batch norm is its $\alpha$. So let
# *training* decide, say Liu et al. (2017): add the L1 norm of all the $\alpha$ to the
# loss,
#
# $$L = \sum_{(x,y)} l\big(f(x, W), y\big) + \lambda\sum_c|\alpha_c| ,$$
#
# and remove the channels whose $\alpha$ has come down to nothing. This is **network
# slimming**.
#
# **Why L1?** With $\lambda\sum\alpha^2$ the pull on one scale is $2\lambda\alpha$: the
# smaller it is, the weaker the pull, and it never arrives. The pull of
# $\lambda|\alpha|$ is $\lambda\,\mathrm{sign}(\alpha)$: at 0.01 as strong as at 1. A
# channel that gives the loss less than $\lambda$ per unit of $\alpha$ goes all the way
# down. (Not to exact zero: a step of fixed length jumps over it and back. For exact
# zeros one needs the proximal step of lab 02.)
#
# **Why α, and not p?** A form often seen penalises $p$. With the $p$ of 4.1 that would
# not work: Multiply a filter by 10: $\mu$ and $\sigma$ follow, the output stays.

# %%
tables.plain(lab04.penalties(dense[0], bn_scale_shift, images), {"difference": ".0e"})

# %% [markdown]
# The same network (the ε under the root aside), and a tenth of the penalty on $p$:
# training would lower it by *growing weights*, without silencing a single channel. With
# $\alpha$ there is no such way out, since the outputs depend on it directly.

# %% [markdown]
# ### 4.5 The penalty, and the choice
# **25 minutes · 4 points**
#
# Two functions. `slimming_penalty` is what training adds to its loss: every $\alpha$,
# nothing else, and something that autograd can differentiate. (Weight decay in the
# optimizer is no substitute: that is L2, on all parameters.)
#
# `select_channels` ranks the channels of *all* layers together by $|\alpha|$. A layer
# that loses its last channel cuts the network in two, so each layer's largest always
# stays. If that saves a channel, then fewer go: nothing is removed in its place.
#
# Write it yourself: not `torch.nn.utils.prune`, `torch.ao.pruning` or `torch_pruning`,
# and nothing of `course_lib.pruning`.
#
# *Before you write anything:* in which layer do you expect the *smallest* share of
# channels to survive, when 70 % of all go: 1, 2, 3 or 4?

# %%
### BEGIN SOLUTION
prediction_4_5 = 4
### END SOLUTION


# %%
def slimming_penalty(model: nn.Module, lam: float) -> Tensor:
    """λ · Σ|α| over all scales of all ``nn.BatchNorm2d`` in ``model``: a scalar that
    can be differentiated.

    Raises:
        ValueError: if ``lam`` is negative.
    """
    if not lam >= 0:
        raise ValueError(f"lam weighs a penalty, so at least 0, got {lam}")
    ### BEGIN SOLUTION
    return lam * sum(
        bn.weight.abs().sum() for bn in model.modules() if isinstance(bn, nn.BatchNorm2d)
    )
    ### END SOLUTION


def select_channels(model: nn.Module, fraction: float) -> dict[str, Tensor]:
    """Which channels stay when those of all layers compete by |α|.

    Args:
        model: with one ``nn.BatchNorm2d`` or more. Not changed.
        fraction: of all n channels together, to remove, in [0, 1].

    Returns:
        Name of each ``nn.BatchNorm2d``, in the order of
        ``model.named_modules()`` -> bool (C,), True = kept. The ``round(fraction * n)``
        channels with the smallest |α| go; among equal ones the first goes first (layers
        in order, then channels). But of each layer the channel that would go last
        always stays, its largest |α| (of equal ones the last): so fewer may go, and
        none goes in its place.

    Raises:
        ValueError: if ``fraction`` is outside [0, 1].
    """
    if not 0 <= fraction <= 1:
        raise ValueError(f"fraction of the channels to remove, between 0 and 1, got {fraction}")
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
# any depth; <code>isinstance(m, nn.BatchNorm2d)</code> tells which.</details>
# <details><summary>Hint 2: a sum that can be differentiated</summary>Add up
# <code>bn.weight.abs().sum()</code> without
# <code>.item()</code>, <code>.detach()</code> or <code>.data</code>: any of them cuts
# the way back.</details>
# <details><summary>Hint 3: all layers together</summary><code>torch.cat</code>, one
# stable <code>argsort</code>,
# <code>split</code> back, as in 1.4. Then put each layer's last in the order back to
# True.</details>

# %% [markdown]
# #### Experiment: does L1 do what L2 does not?
#
# The patient again, from the same seeds and for the same epochs, with your penalty, and
# with $\frac{\lambda}{2}\sum\alpha^2$ in its place: the half makes both pull equally
# hard at $\alpha=1$, where all scales start.


# %%
lam, epochs = SETTINGS["lam"], SETTINGS["epochs"]
sparse = lab04.trained(data, SEEDS, epochs, lambda model: slimming_penalty(model, lam))
with_l2 = lab04.trained(data, SEEDS, epochs, lambda model: lab04.l2_penalty(model, lam))

# %%
title = "Equal pull at α = 1: who reaches zero, L1 or L2?"
plots.show(lab04.draw_scales({"L2: ½λΣα²": with_l2, "L1: λΣ|α|": sparse}, title))
of_scales = lab04.scale_table({"dense": dense, "L1": sparse, "L2": with_l2}, data)
tables.means(of_scales, ["near zero (%)", "largest |α|", "accuracy"], digits=2)

# %% [markdown]
# (*Near zero*: $|\alpha| < 0.02$.)
#
# L2 pulls hardest at what is large, so none of its scales stays large, and at what is
# small it hardly pulls any more: few arrive. L1 makes a *decision*: most channels stand
# in one spike at 0, and those that the network pays for (λ, not more, for each bit of
# α) keep what they need, from a twentieth up to nearly 1. Between the two there are few
# channels: a threshold is then easy to find.

# %%
keeps = [select_channels(model, FRACTION) for model in sparse]
kept = lab04.kept_by_layer(keeps)
title = f"Who pays when {FRACTION:.0%} of all channels go?"
plots.show(plots.bars(kept, x="layer", y="kept", ylabel="channels kept (%)", title=title))
worst = kept.groupby("layer")["kept"].mean().idxmin()
say(f"The smallest share survives in **{worst}**. {you_wrote(prediction_4_5)}")
tables.plain(kept.pivot(index="seed", columns="layer", values="filters").reset_index())

# %% [markdown]
# Which layer pays most is a matter of this network and these data; nothing in the
# method says which.
#
# #### Experiment: the collapse, cause by cause
#
# In the code of the paper a VGG on CIFAR-10 has 93.77 % dense and 93.30 % after
# training with the penalty. 70 % of the channels go: **32.54 %**. After fine-tuning:
# 93.78 %. It is a famous sequence, and it is usually told like this: pruning destroys
# the network, and fine-tuning repairs it. But channels with $\alpha\approx 0$ were
# removed, which *carried nothing*. So what was destroyed? We take the steps apart:
#
# | column | what is done |
# |---|---|
# | dense | trained without the penalty |
# | sparse-trained | trained with it |
# | silenced | the scales α of the channels to be removed set to 0; nothing removed |
# | pruned | your `select_channels`, your `remove_filters` |
# | + absorbed | the constants of the removed channels absorbed: your `absorb_removed` |
# | BN recalibrated | μ and σ² measured again on training images; no weight changes (lab 01) |
# | fine-tuned | a few epochs of training |
# | from scratch | a *fresh* network of the same widths, trained as long as the dense one: no weight inherited |
#
# Two controls take as many channels from each layer of the same networks: those with
# the smallest filters by their L1 norm, and random ones.
#
# *Before you run it:* what will the columns *pruned*, *+ absorbed* and *BN
# recalibrated* say, in %?

# %%
# three numbers: [pruned, + absorbed, BN recalibrated]
### BEGIN SOLUTION
prediction_4_5b = [30, 50, 70]
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
title = f"{FRACTION:.0%} of the channels out: what is broken, what repairs it?"
plots.bars(after, x="step", y="accuracy", by="method", title=title, fmt="{:.0f}")

# %%
tables.show(tables.compare(results, "accuracy", against="slimming", columns="step"))
slim = results[results["method"] == "slimming"]
tables.show(tables.compare(slim, "accuracy", by="step", against="fine-tuned"))
tables.show(tables.plain(lab04.given_back(results), 2))
say(you_wrote(prediction_4_5b))

# %% [markdown]
# In which layers do removed channels leave a constant, β > 0?

# %%
tables.plain(lab04.constants_left(sparse, keeps), 2)

# %% [markdown]
# Read the first row of the table from left to right. *No weight has been trained*
# between *pruned* and *BN recalibrated*. With the channels *silenced* but not removed,
# the network loses little: their signals did not matter. The removal took constants on
# top of that: each channel with $\beta>0$ passed one to the next layer. After layers 1
# to 3 there is a batch norm, which subtracts a mean that still contains these
# constants; after layer 4 there is the linear layer, whose sums now lack them. Absorb
# them, and much of the network is back at once (the rest is the borders of 4.4, and on
# 4×4 maps most positions are border); measure the means again, too, and nearly all of
# it is. Fine-tuning gets the credit in the paper because its first steps do the same,
# silently.
#
# The collapse also depends on how far one goes. As long as only channels with
# $\alpha\approx0$ *and* a small $\beta$ go, nothing happens at all: the explorer at the
# end shows how suddenly it begins.
#
# Then compare with the control. Random channels of the same networks cannot be repaired
# in this way: they carried something, and what was kept in their place is mostly
# silent. (A kinder control, random channels of the *dense* networks, comes in part D.)
#
# The last column is a network with these *widths* and no inherited weight. Between this
# network and the pruned and fine-tuned one we could not detect a difference. Three
# seeds cannot show that the two are equal, but nothing here says that the inherited
# weights are needed. Liu et al. (2019, with the same first author as network slimming)
# found on CIFAR and ImageNet that for structured pruning **the architecture matters
# more than the inherited weights**. So slimming may be read as a search for widths.
# (*From scratch* costs more: it trains for all the epochs again, fine-tuning for a
# third or a quarter of them.)
#
# **More seeds, and MNIST.** Three seeds leave wide intervals where networks fall from a
# cliff. So here are six seeds of the same experiment, and three on MNIST (6,000 images,
# eight epochs, fine-tuning three), both made by the library's version of what you
# wrote. That takes longer than a lab should, so the results come with the course;
# `course remake lab04_slimming_digits` and `course remake lab04_slimming_mnist` make
# them again. *Before you look:* MNIST's maps are larger, with relatively less border.
# Which column should profit?

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
# In the first row of both tables the network collapses and comes back in the same
# steps, and on both, absorbing helps by a distinguishable difference: the constants
# alone bring most of the network back, without looking at a single image. On MNIST they bring back no
# larger share, although the border is smaller, so the border is not all. There 70 %
# took channels that still had something to say: *BN recalibrated* stays below
# *sparse-trained*, and fine-tuning has something left to do.
#
# And the architecture? On neither could we detect a difference between *from scratch*
# and *fine-tuned*. Random channels of these networks end eight and more points lower
# even when fine-tuned (on the digits this is distinguishable, with three seeds on MNIST
# it is not), but do not read too much into that: most of what they keep is silent, and has
# to be woken first. Part D has the harder control.

# %% [markdown]
# #### Experiment: which score?
#
# Slimming is more than a score: it trains for it. What if there was no such training?
# On the *dense* networks we can rank channels by $|\alpha|$ as it happens to be, by the
# L1 norm of their filters (Li et al. 2017), or at random. With $\alpha$ all layers
# compete. Norms of filters cannot be compared across layers, since batch norm divides
# each layer's scale out; so they compete within their layer, as in the paper, and each
# layer loses the same share, as with random channels. Everything is absorbed and
# recalibrated; nothing is fine-tuned, since fine-tuning covers differences up (lab 01).

# %%
FRACTIONS = [0.2, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9]
by_score = lab04.which_score(dense, sparse, select_channels, cut, data, FRACTIONS)
title = "Is it the score, or the training for it?"
label = "channels removed (recalibrated, not fine-tuned)"
plots.curves(by_score, x="removed", y="accuracy", title=title, xlabel=label, xaxis="sparsity")

# %%
at_half = by_score[by_score["removed"] == 0.5]
tables.show(tables.compare(at_half, "accuracy", against="random"))
tables.compare(at_half, "accuracy", against="α, dense")

# %% [markdown]
# The large gap is not between scores, it is between a network that was *trained to
# spare channels* and one that was not. A dense network uses all its channels a little;
# any score then has to choose what to hurt. At half of the channels we could not detect
# that either score is better than a random choice, and $\alpha$ of a network that was not
# trained for it has the lower mean of the two: Liu et al.'s score is worth something
# *with* their training. (Li et
# al. fine-tune after theirs, and find L1 norms good enough for that; so may you, in the
# table above.)

# %% [markdown]
# ## Part D · The next layer

# %% [markdown]
# ### 4.6 The cascade
# **10 minutes · 2 points · needs 4.4**
#
# Pruning filters of layer $i$ also prunes layer $i+1$: weights that read a removed
# channel have nothing to do any more. This is called the *cascade effect*, and often
# described under the assumption that the shift β of the batch norm is zero. You know
# what happens when it is not.
#
# Write `cascade` for one layer: which weights are still *useful*, and what the useless
# ones leave behind. Useless does not mean harmless: as long as the constant is not
# zero, someone has to add their shift.
#
# Write it yourself: not `torch.nn.utils.prune`, `torch.ao.pruning` or `torch_pruning`,
# and nothing of `course_lib.pruning`.
#
# *Before you write anything:* of the weights that slimming at 70 % takes away, which
# share goes because of the cascade *alone*, that is, belongs to a filter that stays? In
# %.

# %%
### BEGIN SOLUTION
prediction_4_6 = 50
### END SOLUTION


# %%
def cascade(
    keep: Tensor, next_weight: Tensor, constant: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """What removed channels make of the next layer's weights.

    Args:
        keep: bool (C,), True = kept.
        next_weight: (M, C, R, S), a convolution's weight. Not changed.
        constant: (C,), what a channel gives once it is removed, *after* batch norm and
            ReLU: relu(β). The entries of kept channels have no meaning, and may be NaN.
            None: 0 for all.

    Returns:
        A bool tensor like ``next_weight``, True = useful: it reads a kept channel. And
        the shift (M,): what the weights that are not useful give together, where the
        whole kernel lies on the map; in the dtype of ``next_weight``.

    Raises:
        ValueError: if ``keep`` is not a bool (C,) or ``constant`` is not (C,).
    """
    ### BEGIN SOLUTION
    channels = next_weight.shape[1]
    if keep.dtype != torch.bool or keep.shape != (channels,):
        raise ValueError(
            f"keep must be bool of shape ({channels},), got {keep.dtype} {tuple(keep.shape)}"
        )
    if constant is None:
        constant = torch.zeros(channels)
    if constant.shape != (channels,):
        raise ValueError(f"constant must have shape ({channels},), got {tuple(constant.shape)}")
    useful = keep[:, None, None].expand_as(next_weight).clone()  # (M, C, R, S)
    # (C,): only what is gone counts
    left_behind = constant.masked_fill(keep, 0).to(next_weight.dtype)
    return useful, next_weight.sum((2, 3)) @ left_behind  # (M, C) @ (C,)
    ### END SOLUTION


# %%
check("4.6")

# %% [markdown]
# <details><summary>Hint 1: broadcasting</summary>Which of the four dimensions does
# <code>keep</code> belong to? Give it the length 1 in the others, and stretch
# it.</details>
# <details><summary>Hint 2: numbers without meaning</summary>The constant of a kept
# channel may be anything, also NaN, and 0 × NaN is NaN. So it must be out before
# anything is multiplied.</details>

# %% [markdown]
# #### Who took the weights?
#
# Each weight $w_{mcrs}$ of a layer goes if its filter $m$ goes, or if its input $c$ is
# gone, or both.

# %%
taken = lab04.who_takes(sparse, keeps, cascade)
title = f"{FRACTION:.0%} of the channels out: who takes the weights?"
label = "weights of the layer (%)"
fig = plots.bars(taken, x="layer", y="share", by="reason", title=title, ylabel=label, fmt="{:.0f}")
plots.show(fig)
own, alone, _ = taken[taken["layer"] == "all"].groupby("reason", sort=False)["share"].mean()
share = alone / (own + alone)
say(f"Of all that go, the cascade alone takes **{share:.0%}**. {you_wrote(prediction_4_6)}")

# %% [markdown]
# #### Experiment: with and without structure, at equal MACs
#
# In lab 01 single weights beat filters at equal *sparsity*. You have just seen why that
# was not fair: with 70 % of the channels far more than 70 % of the products go. So now
# at equal **MACs**. *Unstructured* prunes the smallest weights of the dense network,
# until every layer has as many left as in the slim network, and so as many products.
# The control takes random channels out of the dense network, to the same widths.
# Everything is recalibrated and fine-tuned for the same epochs.
#
# *Before you run it:* at equal MACs, which one has the better accuracy? And how many
# times faster than the dense network will each be?

# %%
# a text: which one, by how much; times faster unstructured, times faster slim
### BEGIN SOLUTION
prediction_4_6b = "unstructured a little better; 2 times faster, slim 8 times faster"
### END SOLUTION

# %%
CUTS = [0.5, FRACTION, 0.8]
tuned = lab04.pick(networks, method="slimming", step="fine-tuned")
equal = lab04.at_equal_macs(
    dense, sparse, {FRACTION: tuned}, select_channels, cut, CUTS, data, SETTINGS["finetune"]
)
at_macs = lab04.measured(equal, data)
lines = lab04.joined(at_macs, dense_accuracy)
title, label = "Equal MACs, with and without structure", "MACs left (%; random: random channels)"
plots.curves(lines, x="remaining", y="accuracy", title=title, xlabel=label, xaxis="remaining")

# %%
tables.compare(at_macs, "accuracy", against="structured", columns="removed")

# %% [markdown]
# Two things to read here. First, the common sentence "unstructured pruning is more
# accurate than structured pruning" is about equal *sparsity*. At equal MACs little is
# left of it: see in the table whether a difference to *unstructured* is
# distinguishable. Second, every method has its end. The penalty had made room for about
# 70 % of the channels; beyond that slimming takes channels that the network had decided
# to keep, and its choice need not be better than a draw. And the control is
# embarrassingly good again (lab 01). It may even be ahead: it was cut out of the
# *dense* networks, which had not paid for the penalty. The advantage of slimming is
# visible before *fine-tuning*, in the last figure of part C.
#
# Now the clock, the processor's again. 64 images, one core, all networks taking turns:
# *times faster* is again the median of the ratios, round by round.

# %%
rows = {"dense": dense[0]}
for fraction in CUTS:
    for method in ("unstructured", "structured"):
        (first, *_) = lab04.pick(equal, method=method, removed=fraction)
        rows[f"{method}, {fraction:.0%}"] = first
rows[f"structured, {FRACTION:.0%}, folded"] = fold_all(tuned[0])
costs = lab04.costs(rows, images[:64])
tables.show(tables.plain(costs[["method", "macs", "fewer", "ms", "faster"]], 2))
say(you_wrote(prediction_4_6b))

# %%
lab04.draw_times(costs[:-1], "Fewer MACs: when do they become time?")

# %% [markdown]
# The zeros are multiplied like all other numbers: no gain, however few products are
# left. What is *not there* saves time, though less than the MACs promise: small
# matrices fill the processor's vector units badly, and what is not a product (batch
# norm, ReLU, pooling, the calls themselves) hardly shrinks. Folding takes one of these
# away. Report both ratios, the counted and the measured one; a paper that gives you
# only the first has not told you about speed.

# %% [markdown]
# #### Residual networks and depthwise convolutions
#
# The patient is a chain. In a ResNet the output of a block is *added* to its input:
# channel 7 of one is added to channel 7 of the other, and to take it out of one alone
# leaves nothing to add to. What does the library's `remove_filters` say?

# %%
image = torch.rand(1, 3, 96, 96)
try:
    pruning.channels.remove_filters(resnet, {"layer1.0.conv2": torch.arange(64) % 2 == 0}, image)
except ValueError as refusal:
    print(refusal)

# %% [markdown]
# It names the layers, and the addition where their channels meet. `channel_groups`
# finds such groups by following every channel through the model; a mask for a group
# goes to all its layers. Inside a block (`conv1`) a group is one layer, and free. Half
# of every group, by the summed L1 norms of their filters:

# %%
groups = [group for group in pruning.channels.channel_groups(resnet, image) if group.pinned is None]
tied = max((group.producers for group in groups), key=len)
half_resnet, _ = lab04.halved(resnet, groups, image)
both = lab04.costs({"whole": resnet, "half of each group": half_resnet}, image, repeats=15)
say(f"{len(groups)} groups can be cut; the largest ties {', '.join(tied)} together.")
tables.plain(both[["method", "kb", "fewer", "faster"]])

# %% [markdown]
# A **depthwise** convolution has one kernel for each channel and mixes none: it does
# not make channels, it follows those it gets. So nothing is chosen there; in
# MobileNetV2 the 1×1 convolution in front decides, and the depthwise one is cut along,
# like a batch norm.

# %%
mobile = mobilenet_v2(weights=None).eval()
of_mobile = pruning.channels.channel_groups(mobile, image)
group = next(g for g in of_mobile if any(".1.0" in name for name in g.followers))
print(f"decides: {group.producers}; follows: {group.followers}; reads it: {group.consumers}")

# %% [markdown]
# ## Part E · What was it worth?

# %% [markdown]
# ### 4.7 Two short answers
# **10 minutes · 1 point**
#
# #### Experiment: the bill, and the test images once
#

#
# Only now the **test images**, once, for the networks at 70 % and for those of equal
# MACs. The size is that of the whole model, with biases and batch norms: each tensor is
# stored in its cheapest format.

# %%
bill = {
    "dense": dense,
    f"slimming {FRACTION:.0%}, fine-tuned": tuned,
    f"slimming {FRACTION:.0%}, folded": [fold_all(model) for model in tuned],
    "the same widths from scratch": lab04.pick(networks, step="from scratch"),
    "random channels, fine-tuned": lab04.pick(equal, method="random", removed=FRACTION),
    "unstructured, equal MACs": lab04.pick(equal, method="unstructured", removed=FRACTION),
}
costs = lab04.costs({name: models[0] for name, models in bill.items()}, images[:64])
tested = lab04.accuracies(bill, data, "test")  # the only time that the test images are used

# %%
for row in costs.itertuples():
    scores = tested[tested["method"] == row.method]["test"]
    cost = {"bits": row.bits, "macs": row.macs, "ms": row.ms}
    ledger.add("convnet", row.method, lab="04", accuracy=scores, **cost)
tables.plain(costs[["method", "kb", "macs", "ms", "faster"]], 2)

# %% [markdown]
# The ledger so far (in `ledger.json`, beside this notebook; with the rows of earlier
# labs if you worked in the same folder):

# %%
ledger.table()

# %% [markdown]
# #### The two answers
#
# **a.** Right after `remove_filters` the sparse-trained networks were far down,
# although the channels that went had $\alpha\approx0$. What had been broken?

# %%
choose(
    "4.7a",
    "The removed channels gave constants. Without them the sums of the next layer lie elsewhere,"
    " and batch norm there still subtracts the old mean.",
    "The removed channels held features that the network needed; recalibration learned them again.",
    "The weights that stayed had to adapt to their smaller network, which takes training.",
    "Nothing: three seeds differ so much after pruning that the accuracies agree with those"
    " before.",
)

# %% [markdown]
# **b.** Look at the figure of 4.6 again, *who takes the weights?*: which share of the
# weights of **conv3** did the cascade *alone* take, in %, on *your* machine? Type the
# number in (within 3.5 of what these networks give on the digits counts).

# %%
# a: "A", "B", "C" or "D"; b: a number, in %
### BEGIN SOLUTION
answer_4_7a = "A"
answer_4_7b = 14
### END SOLUTION

# %%
check("4.7")

# %% [markdown]
# <details><summary>Hint for a</summary>Which of the four can be true, if no weight
# changed between <i>pruned</i> and <i>BN recalibrated</i>? And what was the accuracy
# with the scales at 0 and nothing removed?</details>
# <details><summary>Hint for b</summary>Three bars stand over conv3, with their numbers:
# own filter out, cascade alone, left. They add up to 100.</details>

# %% [markdown]
# ### 4.8 Bug hunt
# **25 minutes · 1 point**
#
# Here is a test of `cascade` that looks reasonable, and a version that someone really
# wrote. It computes the constants of all channels and multiplies:


# %%
def naive_test(f: Callable) -> None:
    generator = torch.Generator().manual_seed(0)
    weight = torch.randn(6, 8, 3, 3, generator=generator)
    keep = torch.arange(8) % 2 == 0
    constant = torch.randn(8, generator=generator).relu()
    constant[keep] = 0
    useful, shift = f(keep, weight, constant)
    assert useful.shape == weight.shape and not useful[:, ~keep].any() and useful[:, keep].all()
    maps = constant[:, None, None].expand(8, 3, 3)  # what the removed channels give
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
# Now call both as one does in practice: the constant is relu(β) of a trained batch
# norm, for *all* its channels.

# %%
constant = sparse[0].bn3.bias.detach().relu()
weight = sparse[0].conv4.weight.detach()
right, wrong = (f(keeps[0]["bn3"], weight, constant)[1] for f in (cascade, suspicious_cascade))
print(
    f"The shift is {right.abs().mean():.3f} in the mean; suspicious_cascade is off by"
    f" {(wrong - right).abs().mean():.3f}."
)

# %% [markdown]
# The contract says "the entries of kept channels have no meaning", and the test had
# kindly set them to zero. A test that prepares its input so nicely does the function's
# work.
#
# Write `find_bug(f)`: it gets a function `f(keep, next_weight, constant)` (three
# arguments by position; `constant` may be `None`) and raises `AssertionError` if `f`
# breaks the contract of **4.6**, and returns if it does not. The grader calls it with
# several versions of `cascade`, some right (written in other ways than yours), some
# wrong, each with a mistake that people make. A test that fails right versions is worth
# nothing either. All versions take finite weights of any shape (M, C, R, S) in float32
# or float64, and constants that are finite where a channel is removed (where it is
# kept, the right ones take NaN, too); what they do with wrong arguments does not count.
# Try it on something small: the versions refuse more than eight million numbers in one
# call, and calls that take long.
#
# You could compare `f` with your own `cascade`. Try to do without: a convolution over
# constant maps knows the shift.


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
                    f"no mask like the weight: {case}"
                )
                for i in range(c):
                    assert (useful[:, i] == keep[i]).all(), f"weights of channel {i}: {case}"
                # the shift is what one position of the map gets from maps that are
                # constant, and zero where kept
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
# <details><summary>Hint 1: read the contract as a list</summary>Type and shape of the
# mask; which weights are useful; the shift's shape; what is in it; what None
# means.</details>
# <details><summary>Hint 2: sizes that tell versions apart</summary>If M = C, a mask
# over the wrong axis has the right shape. If R = S = 1, it does not matter whether a
# kernel is summed or only its centre taken.</details>
# <details><summary>Hint 3: numbers without meaning</summary>Give the kept channels
# large constants. A right version does not look at them.</details>

# %% [markdown]
# ## Play
#
# Drag the share of channels that go (or use the keyboard: Tab goes to a control, the
# arrow keys move the slider, the space bar presses a button). On the left every dot is
# a channel of the first sparse-trained network: what lies below the line is removed (a
# layer's largest stays). On the right MACs and accuracy follow. Which repair lets you
# go furthest? Where does the accuracy stop being a matter of repair?

# %%
widgets.explorer(
    lab04.slimming_explorer(sparse[0], select_channels, cut, data),
    fraction=widgets.slider(0.0, 0.95, 0.05, 0.7, "channels removed"),
    repair=widgets.choice(lab04.REPAIRS, label="repair"),
)

# %% [markdown]
# ## What you take with you
#
# - In evaluation mode batch norm is a line, and a convolution can take it in: the same
#   outputs, one pass over the data less.
# - A removed channel is not zero but a constant, relu(β). It belongs into the next
#   bias; at zero-padded borders it does not quite fit.
# - L1 on α makes channels that can go; L2 does not. Penalise α, which the network
#   cannot talk its way out of, not p.
# - A collapse after slimming is mostly a missing constant in a batch norm's mean. Ask
#   what was lost before you train.
# - What slimming finds is widths. Always train the same widths from scratch, too.
# - Structure turns MACs into milliseconds, not all of them; zeros turn none.
#
# ## Going further
#
# - **Real data.** `DATA = "mnist"` or `"cifar10"` above. On which of them does *from
#   scratch* fall behind?
# - **The weight of the penalty.** Train with λ three times smaller and larger. When do
#   no channels come free, when does the accuracy go? At which λ do *pruned* and
#   *sparse-trained* agree?
# - **Layer by layer.** Layer 4 leaves by far the most constants. Absorb those of one
#   layer alone, then those of all others: which were missed most, and why?
# - **Replicate padding.** Give the convolutions `padding_mode="replicate"` before
#   training. Is *+ absorbed* now as good as *sparse-trained*?
# - **Real architectures.** `remove_filters` of the library works on most of
#   torchvision. Compare with [Torch-Pruning](https://github.com/VainF/Torch-Pruning),
#   which finds the same groups from autograd's graph: `make bench` in the course folder
#   does, on a ResNet-50.
# - **On a GPU.** Does structure pay sooner or later there? Try the latency table with 1
#   and with 1,024 images.
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
# - **Next.** Zeros are flexible and slow, structure is fast and coarse. Lab 05 looks
#   for something in between.
