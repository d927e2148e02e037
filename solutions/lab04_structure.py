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
# remove whole filters instead? What do they leave behind, and what is lost when a pruned
# network "collapses"?**
#
# In lab 01 zeros saved no time. In this lab you *remove* whole filters, so the
# remaining network is smaller and dense. To do that you need to understand batch norm,
# the layer between two convolutions.
#
# | part | you write | you find out |
# |---|---|---|
# | A · Batch norm is a line | 4.1 folding | how much faster the same network becomes |
# | B · Removing filters | 4.2 the surgery, 4.3 what is left behind | where absorbing a constant is exact |
# | C · Which channels? | 4.4 the penalty | whether L1 is needed, and what a collapse is |
# | D · At equal MACs | 4.5 a short answer | whether slimming is better than its rivals, and how fast it is |
#
# 16 points; about 3 hours. If you are stuck, write `skip("4.1")` in a cell: the lab
# continues with the course's version.
#
# **Prerequisites.** Labs 00 (MACs) and 01 (magnitude, random baselines, recalibration);
# convolutions and batch norm in PyTorch.
#
# Symbols, terms and the meaning of ±: [one page for all labs](../docs/notation.md).
#
# **After this lab you can**
#
# - write batch norm as a line and fold it into the convolution before it;
# - remove filters with everything that belongs to them, and say what the removed
#   channels leave behind;
# - train with the penalty of network slimming, and find the cause of its collapse;
# - compare structured with unstructured pruning at equal MACs and in measured latency.
#
# `check("4.1")` works as in lab 01. The same rules hold: guess first; choose on
# validation data and look at the test data once; no claim without a random baseline and
# three seeds.

# %%
from course_lib.grading import check, skip  # noqa: F401  (skip is yours to use)

# isort: split
import copy

import numpy as np  # noqa: F401  (yours to use)
import torch
from torch import Tensor, nn
from torchvision.models import resnet18

from course_lib import devices, ledger, pruning
from course_lib.data.images import load
from course_lib.experiments import common, lab04
from course_lib.pruning.channels import select_channels
from course_lib.show import plots, tables, words
from course_lib.training import evaluate

# %%
lab04.removed_filters(5, 3, 4, removed=(1,))

# %% [markdown]
# Filter 2 of five is removed. This removes its row of this layer, its entries of batch
# norm, its map, and its column of the next layer.

# %% [markdown]
# ## Settings
#
# The default data are scikit-learn's handwritten digits, 1,797 *real* 8×8 images.
# Change one word for MNIST; the lab then takes many times as long. The network is that
# of lab 01: four 3×3 convolutions (32, 32, 64, 64 filters), each followed by **batch
# norm** and ReLU, then a global average and one linear layer. Its layers are named
# `conv1`, `bn1`, `conv2`, `bn2`, …, `fc`. (The experiments are in
# [lab04.py](../course_lib/experiments/lab04.py) and take your functions as arguments;
# the stored results repeat them with more seeds, and on MNIST.)

# %%
DATA = "digits"  # or "mnist"
DEVICE = devices.use("cpu")  # or "cuda"
SEEDS = 3
SETTINGS = {"digits": lab04.DIGITS, "mnist": lab04.MNIST}[DATA]

data = load(DATA).subset(SETTINGS["images"])
images = data.validation.images
dense = lab04.trained(data, SEEDS, SETTINGS["epochs"])
words.say(
    f"**{data.name}**: {len(data.train.labels)} training, {len(images)} validation and"
    f" {len(data.test.labels)} test images of shape {data.shape}. The dense network has"
    f" {lab04.macs(dense[0], images[:1]):,} MACs per image. Its validation accuracy:"
    f" {words.pm([evaluate(model, data.validation) for model in dense])} %."
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
#
# $$y_c = p_c\,x_c + q_c,\qquad p_c = \frac{\alpha_c}{\sqrt{\sigma_c^2+\varepsilon}},\qquad
# q_c = \beta_c - p_c\,\mu_c .$$
#
# (torch calls $\alpha$ `weight`; many papers call it $\gamma$. torch stores $\sigma^2$,
# not $\sigma$, in `running_var`.)
#
# ### 4.1 Folding
# **25 minutes · 5 points**
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
# We fold a batch norm *after* a convolution. That works only with fixed
# statistics: in training mode $\mu$ and $\sigma$ change with every batch. So your
# function must raise a RuntimeError in training mode. With groups the weight is
# $(M, C/\text{groups}, R, S)$. Which of these dimensions does $p$ belong to?
#
# *With pen and paper:* $\alpha = 2$, $\beta = 1$, $\mu = 3$, $\sigma^2 + \varepsilon = 4$, one
# weight 5 and bias 3. What are the folded weight and bias?
#
# **What is tested**: outputs with and without a bias, with groups, depthwise, with
# dimensions of equal size, another ε, a variance of 0; that stride, padding, dilation,
# padding mode and dtype are kept; evaluation mode of the result; RuntimeError; `conv`
# and `bn` unchanged. Not allowed: `torch.nn.utils.fusion`, `torch.ao.quantization`,
# `torch.fx.experimental.optimization`, `torch.jit`'s versions and `course_lib.pruning`.


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
    p = bn.weight.detach() / torch.sqrt(bn.running_var + bn.eps)  # (M,)
    q = bn.bias.detach() - p * bn.running_mean  # (M,)
    folded = copy.deepcopy(conv)
    # (M, C/groups, R, S): filter m times p of channel m
    weight = conv.weight.detach() * p[:, None, None, None]
    bias = q if conv.bias is None else q + p * conv.bias.detach()
    folded.weight, folded.bias = nn.Parameter(weight), nn.Parameter(bias)
    return folded
    ### END SOLUTION


# %%
check("4.1")

# %% [markdown]
# <details><summary>Hint 1: the axis</summary>p has one number per <i>output</i>
# channel. In torch's convolution weight that is the first dimension, for any number of
# groups. Give p the shape (M, 1, 1, 1).</details>
# <details><summary>Hint 2: the old bias</summary>The old bias passes through the batch
# norm, too: multiply it by p before you add q.</details>
# <details><summary>Hint 3: all the other settings</summary>A <code>copy.deepcopy</code>
# of the convolution has the stride, padding, dilation, groups and padding mode. Then
# give the copy a new weight and a new bias, without the gradient's history
# (<code>.detach()</code>).</details>
# <details><summary>Pen and paper</summary>p = 2/2 = 1 and q = 1 − 3 = −2, so the weight
# stays 5 and the bias is 1 · 3 − 2 = 1.</details>

# %% [markdown]
# #### Experiment 1: the same network, and faster?
#
# "Equal up to rounding" is a claim about numbers. If the difference is *only* rounding,
# float64 makes it smaller by a factor of about $10^8$; a wrong formula is as wrong in
# float64 as in float32.


# %%
def fold_all(model: nn.Module) -> nn.Module:
    """Copy the network without batch norms."""
    return lab04.fold_all(model, fold_bn)


lab04.rounding(dense[0], fold_all, images)

# %% [markdown]
# Now we measure processor time on one core; the networks take turns. For torchvision's
# ResNet-18 (with random weights, since time does not depend on them) the library's
# `fold_model` finds out which batch norm follows which convolution. *Before you look:*
# how many times faster is the folded ResNet-18?

# %%
### BEGIN SOLUTION
prediction_folding = 1.2
### END SOLUTION

# %%
resnet = resnet18(weights=None).eval()
folded, report = pruning.channels.fold_model(resnet)
pairs = {
    "our network, 1 image": (dense[0], fold_all(dense[0]), images[:1]),
    "our network, 64 images": (dense[0], fold_all(dense[0]), images[:64]),
    "ResNet-18, 1 image of 96×96": (resnet, folded, torch.rand(1, 3, 96, 96)),
}
tables.show(tables.plain(lab04.folding_times(pairs), 2))
words.say(f"{len(report.folded)} batch norms are folded. Your guess: {prediction_folding} times.")

# %% [markdown]
# (*Times faster* is the median of the ratios, one per round, with their quartiles.)
#
# In MACs batch norm is negligible. In milliseconds folding helps one small image by a fifth;
# for 64 images and for ResNet-18 we measured a few per cent or nothing. (A possible reason:
# for one small image calling functions takes most of the time, and folding saves a quarter of
# the calls.) Inference engines fold first. Training with rounded weights folds, too: it must
# round the weights that inference uses (Jacob et al. 2018, section 3.2).
#
# A batch norm directly *before* a convolution can be folded exactly only without zero padding:
# at a padded border, a part of the kernel reads 0 instead of $q$. (In pre-activation ResNets a
# ReLU lies between the two, so folding is impossible.) The same border matters in 4.3.

# %% [markdown]
# ## Part B · Removing filters
#
# Filter $i$ of a convolution computes channel $i$ of its output. If you remove the
# filter, you must remove everything that belongs to its channel: entry $i$ of the
# following batch norm, and *input* channel $i$ of the next convolution. If half of the
# filters of every layer are removed, a middle layer keeps a *quarter* of its MACs: half
# of its outputs times half of its inputs.
#
# ### 4.2 The surgery
# **20 minutes · 4 points**
#
# Batch norm has four vectors with one number per channel: two parameters and two
# buffers. Cut all four. If a kept channel gets the statistics of another channel, no
# error is raised, but the outputs are wrong.
#
# **What is tested**: values and order of what is kept; the four vectors; biases of
# `conv` and `next_conv`; settings, modes and the numbers of channels that the layers
# store; new modules that share no memory with the given ones. Not allowed here and in
# 4.3: `torch.nn.utils.prune`, `torch.ao.pruning`, `torch_pruning` and
# `course_lib.pruning`.


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
    channels = conv.out_channels
    rising = all(a < b for a, b in zip(keep, keep[1:], strict=False))
    if len(keep) == 0 or not rising or keep[0] < 0 or keep[-1] >= channels:
        raise ValueError(
            f"keep must be strictly increasing indices from 0 to {channels - 1}, got {keep}"
        )
    ### BEGIN SOLUTION
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
check("4.2")

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
# ### 4.3 What a removed channel leaves behind
# **20 minutes · 4 points**
#
# Removing filters of layer $i$ also prunes layer $i+1$: weights that read a removed channel
# have no input any more. This is the *cascade effect*. If each layer keeps a share $k_i$ of
# its channels, a share $k_{i+1}$ of the next layer's filters stays, and each of them loses
# the share $1 - k_i$ of its weights: the cascade removes $k_{i+1}(1 - k_i)$ of the layer's
# weights, beyond those of the removed filters. But a removed channel need not have been zero.
# You remove it because its scale $\alpha$ is nearly zero. Put $\alpha = 0$ into the formula
# of batch norm:
#
# $$y = 0\cdot\frac{x-\mu}{\sqrt{\sigma^2+\varepsilon}}+\beta = \beta .$$
#
# After the ReLU the channel is $\max(\beta, 0)$, *everywhere and for every image*. This
# constant carries no information, but the next layer was trained with it. If you remove
# the channel, each sum of the next layer loses
#
# $$\Delta_m = \sum_{c\ \text{removed}}\ \sum_{r,s} w_{mcrs}\,\max(\beta_c, 0),$$
#
# always the same number. So you can **absorb** this number: add it to the next bias. Two
# mistakes are common. One is to compute $q = \beta - p\mu$ with the old, small $\alpha$: here
# $\alpha$ counts as 0, so the constant is $\beta$ itself. The other is to forget that the sum
# over $r, s$ assumes the *whole* kernel on the map.
#
# Write `cascade` for one layer: the weights that are still *useful*, and the shift that the
# others leave behind.
#
# **What is tested**: both results; also with negative $\beta$, with all or no channels kept,
# with kernels that are not square; arguments unchanged; no gradient.


# %%
def cascade(keep: Tensor, next_weight: Tensor, beta: Tensor) -> tuple[Tensor, Tensor]:
    """Find the next layer's useful weights, and the shift that the others leave behind.

    Args:
        keep: bool (C,), True = kept.
        next_weight: (M, C, R, S), the next convolution's weight. Not changed.
        beta: (C,), the shift β of the batch norm between; then comes a ReLU. A removed
            channel has scale α = 0. β of kept channels must not enter.

    Returns:
        ``useful``, bool like ``next_weight``: True where the weight reads a kept channel.
        ``shift`` (M,), without gradient: for each output the sum that it receives from
        all removed channels where its whole kernel lies on the map.

    >>> weight = torch.tensor([5.0, 7.0]).view(1, 2, 1, 1)
    >>> useful, shift = cascade(torch.tensor([True, False]), weight, torch.tensor([1.0, 2.0]))
    >>> useful.flatten().tolist(), shift  # the weight 7 reads the constant 2
    ([True, False], tensor([14.]))
    """
    ### BEGIN SOLUTION
    useful = keep[:, None, None].expand_as(next_weight).clone()  # (M, C, R, S)
    constant = torch.relu(beta.detach()).masked_fill(keep, 0)  # (C,): only removed channels
    return useful, next_weight.detach().sum((2, 3)) @ constant  # (M, C) @ (C,)
    ### END SOLUTION


# %%
check("4.3")

# %% [markdown]
# <details><summary>Hint 1: broadcasting</summary>Which of the four dimensions does
# <code>keep</code> belong to? Give it length 1 in the others, and expand.</details>
# <details><summary>Hint 2: one number per kernel</summary>A kernel over a constant map
# gives (sum of the kernel) × (constant). There is one such sum for each output m and
# each channel c.</details>
# <details><summary>Hint 3: only removed channels</summary>The kept channels still pass
# on their values and must not be counted twice. Which constant would add
# nothing?</details>

# %% [markdown]
# #### Experiment 2: exact, but where?
#
# We compare three versions of the first two layers. In the first (the reference) the
# scales of half of the channels are 0. In the second these channels are removed; in the
# third their constants are absorbed, too. We compare the outputs of `conv2` at every
# position, averaged over filters and 64 images.

# %%
border = lab04.border_errors(dense[0], remove_filters, cascade, images[:64])
plots.show(lab04.draw_border(border))

# %% [markdown]
# Inside the map the result is exact. At the border a removed channel had contributed
# less than the full $\Delta_m$, because part of the kernel lay on padding; there the
# bias now adds too much. In deeper layers the map is smaller and has relatively more
# border: on a 4×4 map 12 of 16 positions are border.
#
# Our convolutions have no bias, so `cut` (below) subtracts $\Delta_m$ from the running mean
# of the next batch norm, which has the same effect. In training mode batch norm subtracts
# the mean of the batch, which contains every constant: $(x+\Delta) - \overline{(x+\Delta)} =
# x - \bar x$. So after training or recalibration an absorbed constant before a batch norm
# has no effect, and is no longer needed. After layer 4 comes the *linear* layer, and no
# batch norm.

# %% [markdown]
# ## Part C · Which channels?
#
# Lab 01 ranked filters by the sum of their $|w|$. But batch norm cancels the size of a
# filter: multiply a filter by ten, and $\mu$ and $\sigma$ grow by the same factor, so the
# output does not change. After batch norm the amplitude of a channel is its $\alpha$. So
# Liu et al. (2017) let *training* decide. They add the L1 norm of all $\alpha$ to the loss,
#
# $$L = \sum_{(x,y)} l\big(f(x, W), y\big) + \lambda\sum_c|\alpha_c| ,$$
#
# and remove the channels whose $\alpha$ has become nearly 0. This is **network
# slimming**. (We use the mean of $l$ over a batch.)
#
# **Why α, and not p?** One could also penalise $p = \alpha/\sigma$. But filters that are ten
# times larger make this penalty ten times smaller, without switching off any channel.
#
# **Why L1?** The gradient of $\frac\lambda2\alpha^2$ is $\lambda\alpha$: it becomes weak as
# $\alpha$ becomes small. The gradient of $\lambda|\alpha|$ is
# $\lambda\,\mathrm{sign}(\alpha)$, as strong at 0.01 as at 1. If increasing $\alpha$ by 1
# would lower the loss by less than $\lambda$, the penalty wins, and $\alpha$ shrinks to 0.
# (Not to exactly 0: a step of fixed length jumps over 0. Exact zeros need the proximal step
# of lab 02.)
#
# ### 4.4 The penalty
# **10 minutes · 2 points**
#
# `slimming_penalty` is the term that training adds to its loss. It contains all
# $\alpha$ and nothing else, and is differentiable. (Weight decay in the optimizer is no
# substitute: it is L2, on all parameters.)
#
# **What is tested**: the value of the penalty and its gradient, λ·sign(α) for each α
# and nothing for other parameters; batch norms in nested modules and no other norms. Not
# allowed: `course_lib.pruning`.


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


# %%
check("4.4")

# %% [markdown]
# <details><summary>Hint 1: finding batch norms</summary><code>model.modules()</code> gives
# every module, at any depth; <code>isinstance(m, nn.BatchNorm2d)</code> selects.</details>
# <details><summary>Hint 2: a differentiable sum</summary>Add up
# <code>bn.weight.abs().sum()</code> without <code>.item()</code>,
# <code>.detach()</code> or <code>.data</code>: each of them removes the
# gradient.</details>

# %% [markdown]
# #### Experiment 3: L1 or L2?
#
# We train the same network with the same seeds and epochs, with your penalty or with
# $\frac{\lambda}{2}\sum\alpha^2$ instead. With this factor both gradients are equal at
# $\alpha=1$, where all scales start.

# %%
lam, epochs = SETTINGS["lam"], SETTINGS["epochs"]
sparse = lab04.trained(data, SEEDS, epochs, lambda model: slimming_penalty(model, lam))
with_l2 = lab04.trained(data, 1, epochs, lambda model: lab04.l2_penalty(model, lam))
lab04.draw_scales({"L2: ½λΣα²": with_l2, "L1: λΣ|α|": sparse[:1]}, "Scales |α| after training")

# %% [markdown]
# L2 acts most on large scales, so none remains large. It hardly acts on small scales,
# so fewer reach 0. L1 *separates* the channels: most are in one peak at 0, and the
# others keep a scale of up to 0.8. (λ is so large that about 70 % of the scales end below
# 0.02. "α = 0" is an approximation for the last of them.)
#
# Does this help? The library's `select_channels(model, fraction)` ranks the channels of
# *all* layers together by $|\alpha|$, as lab 01 ranked weights, and keeps at least one
# channel per layer. We remove 70 % of all channels and repair what can be repaired without
# training (stored result; you will see how below). Ranked over all layers, L2 leaves a
# single channel in some layer, which cuts the network (*fewest* in the table). The fair
# rival keeps as many channels in each layer as L1 does, those with its own largest
# $|\alpha|$:
#
# {{claim 04.1}}
#
# (In the table, *none* is training without a penalty; the last two columns are after both repairs
# of the next experiment.)

# %%
columns = {"accuracy": "before (%)", "near_zero": "|α| < 0.02 (%)", "fewest": "fewest channels"}
columns |= {"repaired": "70 % removed (%)", "same_widths": "with L1's widths (%)"}
tables.means(lab04.stored("penalties"), columns, rows=["data", "method"])

# %% [markdown]
# #### Experiment 4: what collapses?
#
# The code of the paper gives these accuracies for a VGG on CIFAR-10: 93.77 % dense,
# 93.30 % after training with the penalty, **32.54 %** after 70 % of the channels are
# removed, and 93.78 % after fine-tuning. The usual explanation is that pruning destroys
# the network and fine-tuning repairs it. But if the $\alpha$ of the removed channels was nearly
# 0, they *carried no signal*. In our network we can test this: *silenced* sets their $\alpha$ to
# 0 and removes nothing.
#
# Your functions cut all layers, one after the other. (The linear layer after the global
# average is a 1×1 convolution on a 1×1 map.) Which constants do the removed channels leave?


# %%
def cut(model: nn.Module, keep: dict[str, Tensor], absorb: tuple[int, ...] = ()) -> nn.Module:
    """Copy the network with only these channels of "bn1", "bn2", …; constants of the layers
    ``absorb`` are absorbed.
    """
    return lab04.cut(model, keep, remove_filters, cascade, absorb)


keep = select_channels(sparse[0], lab04.FRACTION)
tables.plain(lab04.constants_left(sparse[0], keep, cascade), 2)

# %% [markdown]
# Most constants are in layer 4. Their shift goes into the linear layer. The few others give
# smaller shifts, but the sums that they shift are small, too: the last column divides each
# shift by the standard deviation of the sum. *Before you look:* which accuracy, in %, has
# the network if batch norm is recalibrated (lab 01) and *nothing* is absorbed?

# %%
### BEGIN SOLUTION
prediction_recalibrated = 70
### END SOLUTION

# %%
collapse = lab04.stored("collapse")
for how in ("only removed", "recalibrated", "both repairs"):
    live = lab04.repair(sparse[0], keep, cut, data, how)
    words.say(f"Your network, seed 0, {how}: {evaluate(live, data.validation):.0f} %.")
look = {"fmt": "{:.0f}", "guess": ("recalibrated", prediction_recalibrated), "constant": 10}
title = "70 % of the channels removed, no weight trained"
shown = collapse[~collapse["repair"].str.contains("layer 4 absorbed, ")]
shown = shown.assign(repair=shown["repair"].str.replace(" ", "\n").str.replace("-", "-\n"))
fig = plots.bars(shown, x="repair", y="accuracy", by="data", title=title, **look)
plots.show(fig, inches=(10, 5))

# %% [markdown]
# {{claim 04.2}}
#
# {{claim 04.3}}

# %%
tables.show(lab04.two_by_two(collapse))
for repair, before in {"layer 4 absorbed": "only removed", "both repairs": "recalibrated"}.items():
    both = collapse[collapse["repair"].isin([repair, before])]
    tables.show(tables.compare(both, "accuracy", by="repair", against=before, columns="data"))

# %% [markdown]
# In this table **no weight was trained**. With the channels *silenced* but not
# removed we could not detect a loss: their signals did not matter. What the removal deletes
# is constants. Batch norms still subtract means that contain them, and recalibration repairs
# that. The linear layer has no batch norm, so its bias needs absorbing: this adds half a
# point on the digits (on MNIST the mean is four points, and the interval contains 0). With
# the old statistics we could not detect a gain from absorbing only layer 4, although most
# constants are there. Absorbing in all layers repairs most of the loss without any image; it
# is exact only inside the maps. (After recalibration it makes no difference whether layers 1
# to 3 were absorbed.)
#
# {{claim 04.4}}
#
# The paper's collapse on CIFAR-10 was not taken apart in this way; fine-tuning's first steps
# update these statistics, too.
#
# ## Part D · At equal MACs
#
# ### Experiment 5: is slimming better than its rivals?
#
# In lab 01 pruning single weights was better than pruning filters at equal *sparsity*. That
# was not fair: without 70 % of the channels a tenth of the *products* is left on the digits, an
# eighth on MNIST. So we compare networks with as many MACs as the slimmed one, all recalibrated
# and fine-tuned equally long:
#
# - *uniform widths*: each layer keeps the same share of its channels, those with the
#   largest $|\alpha|$ of the same sparse-trained network;
# - *random channels* of the dense network, in slimming's widths;
# - *single weights*: the smallest weights of all layers of the dense network together are
#   pruned, so this method, too, chooses how much each layer keeps.
#
# Liu et al. (2019, with the same first author as network slimming) ask a harder question.
# Do the inherited weights matter, or only the widths? Two more rivals are trained *from
# scratch*, in slimming's widths and in uniform ones, with as many products as the training of
# the dense network: about ten times as many epochs on the digits, seven to nine on MNIST.

# %%
equal = lab04.stored("equal")
lab04.draw_rivals(equal)

# %%
slim = [cut(model, select_channels(model, lab04.FRACTION)) for model in sparse]
tuned = [lab04.tune(net, data, seed, SETTINGS["finetune"]) for seed, net in enumerate(slim)]

# %% [markdown]
# {{claim 04.5}}
#
# {{claim 04.6}}
#
# At 70 % we could not detect that any pruned rival is better or worse than slimming, on
# either kind of data: not even random channels. Yet before fine-tuning slimming is more than
# 50 points ahead of random channels (next table): what slimming gives is a network that works
# as soon as batch norm is recalibrated, and training makes up for the rest.
#
# From scratch, both networks are ahead of the slimmed one on MNIST, and on the digits we
# detect no difference. (On MNIST the penalty alone had cost almost a point, and three epochs
# of fine-tuning did not bring it back.) So nothing here shows that slimming's widths or the
# inherited weights are needed for the final accuracy. Slimming's widths from scratch cost two
# trainings, since the first finds the widths. Uniform widths cost one, and the larger network
# is never trained. Liu et al. found on CIFAR and ImageNet that for structured pruning the
# architecture matters more than the inherited weights.

# %%
pruned = equal[equal["removed"] == lab04.FRACTION].dropna(subset="recalibrated")
tables.compare(pruned, {"recalibrated": "before tuning (%)"}, against="slimming", columns="data")

# %% [markdown]
# <details><summary>Half and four fifths of the channels</summary>The next cell prints the
# differences. With half of the channels' MACs single weights are half a point ahead of slimming
# on both kinds of data. With those of a fifth of the channels they fail on both, probably because
# the largest weights of all layers together leave <code>conv4</code> about five of its 36,864
# weights. A method that chooses how much each layer keeps can also choose
# badly.</details>

# %%
for removed in (0.5, 0.8):
    at = equal[equal["removed"] == removed]
    after = {"accuracy": f"{removed:.0%} removed, accuracy after fine-tuning (%)"}
    tables.show(tables.compare(at, after, against="slimming", columns="data"))

# %% [markdown]
# Now the measured latency (processor time) for 64 images on one core; the networks take
# turns. *Before you look:* how many times faster than the dense network is the slimmed one
# (70 % of the channels removed)?

# %%
prediction_times = 8  # replace it by yours

# %%
times = lab04.costs(lab04.at_three_sizes(dense[0], sparse[0], cut, images[:1]), images[:64])
at_70 = times.set_index("method")["fewer"][f"slimming, {lab04.FRACTION:.0%}"]
lab04.draw_times(times, "Measured speed-up against MACs", guess=(at_70, prediction_times))

# %% [markdown]
# Zeros are multiplied like all other numbers, so they save no time, even if few
# non-zero products are left. Removed filters save time, but less than the MACs suggest.
# Batch norm, ReLU and pooling shrink only with the channels (about three times), and the number
# of calls does not shrink. (Small matrices that use the vector units badly are another possible
# reason.) Report both ratios, the counted and the measured one.
#
# #### Cost, and the test images once


# %%
def single_weights(seed: int) -> nn.Module:
    """As many MACs as the slimmed network, fine-tuned equally long."""
    masks = lab04.weights_at_macs(dense[seed], lab04.macs(tuned[seed], images[:1]), images[:1])
    return lab04.tune(dense[seed], data, seed, SETTINGS["finetune"], masks)


finals = {
    "dense": dense,
    "slimming 70%, fine-tuned": tuned,
    "slimming 70%, folded": [fold_all(model) for model in tuned],
    "single weights, equal MACs": [single_weights(seed) for seed in range(SEEDS)],
}

# %%
costs = common.costs_and_tests(finals, data)  # the only use of the test images
for method, of in costs.groupby("method", sort=False):
    bits, macs, ms = (of[column].iloc[0] for column in ("bits", "macs", "ms"))
    ledger.add("convnet", method, lab="04", bits=bits, macs=macs, ms=ms, accuracy=of["test"])
ledger.table()

# %% [markdown]
# #### Real networks: additions and depthwise convolutions (reading)
#
# Our network is a chain. In a ResNet the output of a block is *added* to its input,
# channel by channel. If you remove channel 7 from only one of the two, they no longer
# match. The library's `remove_filters` refuses, and names the layers and the addition;
# `channel_groups` finds all layers that must lose the same channels. In MobileNetV2 a
# **depthwise** convolution has one kernel per channel and mixes no channels, so it is cut
# to match the 1×1 convolution before it, like a batch norm.

# %%
image = torch.rand(1, 3, 96, 96)
try:
    pruning.channels.remove_filters(resnet, {"layer1.0.conv2": torch.arange(64) % 2 == 0}, image)
except ValueError as refusal:
    print(refusal)
half, _ = lab04.halved(resnet, image)
both = lab04.costs({"whole": resnet, "half of each group": half}, image, repeats=15)
tables.show(tables.plain(both[["method", "kb", "fewer", "faster"]]))

# %% [markdown]
# ### 4.5 A short answer
# **5 minutes · 1 point**
#
# **What is tested**: the letter.
#
# Right after `remove_filters` the accuracy of the sparse-trained networks was far lower,
# although the removed channels had $\alpha\approx0$. What had been broken?
#
# - **A.** The removed channels held features that the network needed; recalibration
#   learned them again.
# - **B.** The kept weights had to adapt to the smaller network, which takes training.
# - **C.** The removed channels had constant outputs. Without them the next layers' sums are
#   shifted, and batch norm still subtracts means that contain them.
# - **D.** Most constants are in layer 4, so only the bias of the linear layer was wrong.

# %%
### BEGIN SOLUTION
answer_4_5 = "C"
### END SOLUTION

# %%
check("4.5")

# %% [markdown]
# <details><summary>Hint</summary>Which of the four can be true, if no weight changed between
# <i>only removed</i> and <i>recalibrated</i>? What did absorbing layer 4 alone do?</details>
#
# ## Play
#
# Move the share of removed channels (keyboard: Tab selects a control, the arrow keys
# move the slider, the space bar presses a button). On the left every dot is a channel
# of the first sparse-trained network. On the right you see MACs and accuracy. Which repair
# allows the largest share? From which share on does no repair help?

# %%
play = lab04.slimming_explorer(sparse[0], cut, data)
plots.explore(play, fraction=(0, 0.95, 0.05), how=list(lab04.REPAIRS))

# %% [markdown]
# ## What you take with you
#
# - In evaluation mode batch norm is a line and can be folded into the convolution
#   before it: the same outputs, fewer calls.
# - A removed channel is not zero but a constant, relu(β). Add its effect to the next
#   bias; at zero-padded borders this is not exact.
# - L1 on α produces channels that can be removed; L2 with the same λ does not. A penalty on p
#   can also be lowered by larger weights.
# - Our collapse after slimming was removed constants: shifts in front of batch norms with old
#   statistics, and the bias of the linear layer. Find out what was lost before you train.
# - At equal MACs we could not detect that slimming's widths are better than uniform ones.
#   Training from scratch was better on MNIST; on the digits we detected no difference.
#   Always run both rivals.
# - With removed filters a part of the saved MACs saves time; with zeros none does.
#
# ### Five questions to recap
#
# 1. Why does folding not work in training mode?
#    <details><summary>Answer</summary>The mean and variance then change with every batch,
#    so batch norm is no fixed line.</details>
# 2. A channel has α = 0 and β = 0.5. What does the next layer lose if you remove it?
#    <details><summary>Answer</summary>The constant 0.5 at every position, times the sum of
#    each kernel that reads the channel (less at a zero-padded border).</details>
# 3. Why does an L1 penalty on α lead to channels that can be removed, and an L2 penalty
#    not?
#    <details><summary>Answer</summary>The gradient of |α| does not become weaker near 0;
#    the gradient of α² does.</details>
# 4. Half of the filters of every layer are removed. Which share of the MACs of a middle
#    layer is left?
#    <details><summary>Answer</summary>A quarter: half of its outputs times half of its
#    inputs.</details>
# 5. Fine-tuning restores a pruned network. Which baselines show whether the inherited
#    weights or the choice of channels mattered?
#    <details><summary>Answer</summary>The same widths and uniform widths from scratch, with
#    equal products; random channels, fine-tuned as long; recalibration without
#    training.</details>
#
# ## Going further
#
# - **Real data.** `DATA = "mnist"` above; the stored results have both.
# - **The weight of the penalty.** Train with λ three times smaller and larger. When can
#   no channel be removed? When does the accuracy fall?
# - **Replicate padding.** With `padding_mode="replicate"`, which repeats the edge of
#   the map, absorbing is exact everywhere. Set it in each convolution before training: is
#   *all absorbed* now as good as *sparse-trained*?
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
