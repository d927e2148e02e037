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
from dataclasses import replace

import numpy as np
import torch
from IPython.display import display
from matplotlib.figure import Figure
from torch import Tensor, nn
from torchvision.models import mobilenet_v2, resnet18

from course_lib import experiments, ledger
from course_lib.cost import encodings, latency, model_cost, totals
from course_lib.data.images import Split, load
from course_lib.experiments import lab04
from course_lib.models import SmallConvNet, build
from course_lib.parallel import side_by_side
from course_lib.pruning.channels import channel_groups, recalibrate, removal, slimming
from course_lib.pruning.channels.folding import fold_model
from course_lib.pruning.weights import apply as apply_masks
from course_lib.pruning.weights import local_masks, magnitude, prunable
from course_lib.show import plots, widgets
from course_lib.show.words import ends, pm, say, versus, you_wrote
from course_lib.training import evaluate, fit

STUDENT = ""  # your name or number: your letters are yours alone

# %% [markdown]
# ## Settings
#
# The default data are scikit-learn's handwritten digits, 1,797 *real* 8×8 images.
# Change one word for the real MNIST or CIFAR-10; what takes a few minutes now then
# takes several times as long. (CIFAR-10 is what the paper of this lab used. On so few
# images and epochs a network this small reaches about half of the paper's accuracy:
# look at the differences.)

# %%
DATA = "digits"  # or "mnist", or "cifar10"

SEEDS = 3
SETTINGS = {
    # images used for training; epochs from scratch, and of fine-tuning; weight of the
    # slimming penalty. The penalty pulls once per step, so more steps need less of it
    "digits": {"train": 1097, "epochs": 20, "finetune": 5, "lam": 2e-2},
    "mnist": {"train": 3000, "epochs": 8, "finetune": 3, "lam": 2e-2},
    "cifar10": {"train": 5000, "epochs": 12, "finetune": 4, "lam": 1e-2},
}[DATA]
FRACTION = 0.7  # of all channels, to be removed
plots.use_style()

data = load(DATA)
data = replace(
    data.subset(SETTINGS["train"]),
    # of 5,000 in the large sets; enough, and quick
    validation=Split(*(part[:1000] for part in data.validation)),
)


def accuracy(model: nn.Module, split: str = "validation") -> float:
    """Accuracy in % on "train", "validation" or "test"."""
    return evaluate(model, getattr(data, split), batch_size=256)


def macs(model: nn.Module) -> int:
    """Multiply-accumulates for one image."""
    return totals(model_cost(model, data.validation.images[:1]))["macs"]


say(
    f"**{data.name}**: {len(data.train.labels)} training, {len(data.validation.labels)} validation"
    f" and {len(data.test.labels)} test images of shape {tuple(data.shape)}. One validation image"
    f" is {100 / len(data.validation.labels):.2f} points of accuracy."
)

# %% [markdown]
# ### The patient
#
# The network of lab 01: four 3×3 convolutions (32, 32, 64, 64 filters), each followed
# by **batch norm** and ReLU, then a global average and one linear layer. In code:
# `conv1`, `bn1`, `conv2`, `bn2`, …, `fc`. We train it from three seeds.


# %%
def train(
    model: nn.Module,
    seed: int,
    penalty: Callable | None = None,
    epochs: int | None = None,
    lr: float = 0.2,
) -> nn.Module:
    """Train in place, from scratch unless ``epochs`` is given; ``penalty(model)`` is
    added to the loss.
    """
    fit(
        model,
        data.train,
        epochs=epochs or SETTINGS["epochs"],
        lr=lr,
        seed=seed,
        penalty=None if penalty is None else lambda: penalty(model),
        progress=False,
        **lab04.RECIPE,  # SGD with momentum, a weight decay of 1e-4, a rate that falls as a cosine
    )
    return model


dense = side_by_side(train, [(build("convnet", data, seed=seed), seed) for seed in range(SEEDS)])
dense_accuracy = [accuracy(model) for model in dense]
LAYERS = range(1, dense[0].depth + 1)  # 1, 2, 3, 4: the numbers in conv1, bn1, …
say(
    f"{sum(p.numel() for p in dense[0].parameters()):,} parameters, {macs(dense[0]):,} MACs an"
    f" image. Validation accuracy of the dense networks: **{pm(dense_accuracy)} %**."
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
# Multiply out: which $p_c$ and which $q_c$? The lecture's slide divides by $\sigma$,
# which stands for the whole root; do not forget the $\varepsilon$ under it. It keeps a
# channel with variance 0 from dividing by nothing.
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
lines = [
    "| batch norm | y = p·x + q, largest error | without the root, largest error |",
    "|---|---|---|",
]
for name, bn in (("fresh", nn.BatchNorm2d(32).eval()), ("bn2, trained", dense[0].bn2.eval())):
    x = torch.randn(64, 32, 8, 8, generator=torch.Generator().manual_seed(0))  # (B, C, H, W)
    p, q = (v[:, None, None] for v in bn_scale_shift(bn))  # (C, 1, 1)
    slip = (bn.weight / (bn.running_var + bn.eps))[:, None, None]
    with torch.no_grad():
        y = bn(x)
        wrong = slip * x + bn.bias[:, None, None] - slip * bn.running_mean[:, None, None]
        lines.append(
            f"| {name} | {(p * x + q - y).abs().max():.0e} | {(wrong - y).abs().max():.1g} |"
        )
say("\n".join(lines) + f"\n\n{you_wrote(prediction_4_1)}")

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
    model = copy.deepcopy(model).eval()
    for i in LAYERS:
        setattr(
            model,
            f"conv{i}",
            fold_bn(model.get_submodule(f"conv{i}"), model.get_submodule(f"bn{i}")),
        )
        setattr(model, f"bn{i}", nn.Identity())
    return model


lines = [
    "| numbers | largest output | largest difference, folded against not | relative |",
    "|---" * 4 + "|",
]
for dtype in (torch.float32, torch.float64):
    model = copy.deepcopy(dense[0]).to(dtype).eval()
    x = data.validation.images.to(dtype)
    with torch.no_grad():
        before, after = model(x), fold_all(model)(x)
    apart = (after - before).abs().max().item()
    largest = before.abs().max().item()
    lines.append(
        f"| {str(dtype).removeprefix('torch.')} | {largest:.1f} | {apart:.1e} |"
        f" {apart / largest:.0e} |"
    )
say("\n".join(lines))

# %% [markdown]
# And the time, all networks taking turns on one core. The clock is the processor's: it
# counts how long the processor worked for us, and stands still while it works for
# others. For the ResNet-18 of torchvision (with random weights: time does not depend on
# them) the library's `fold_model` finds out by itself which batch norm follows which
# convolution.

# %%
resnet = resnet18(weights=None).eval()
folded_resnet, report = fold_model(resnet)
timed = {
    "patient, 1 image": (dense[0], fold_all(dense[0]), data.validation.images[:1]),
    "patient, 64 images": (dense[0], fold_all(dense[0]), data.validation.images[:64]),
    "ResNet-18, 1 image of 96×96": (resnet, folded_resnet, torch.rand(1, 3, 96, 96)),
}
lines = ["| | as trained (ms) | folded (ms) | times faster |", "|---|---|---|---|"]
for name, (model, folded, x) in timed.items():
    times = latency.compare(
        {"as trained": latency.forward(model, x), "folded": latency.forward(folded, x)},
        repeats=20 if "ResNet" in name else 60,
        threads=1,
    )
    faster = times["as trained"].times_slower_than(times["folded"])
    milliseconds = " | ".join(
        f"{1e3 * t.median:.2f} ({1e3 * t.low:.2f} to {1e3 * t.high:.2f})" for t in times.values()
    )
    lines.append(f"| {name} | {milliseconds} | **{faster:.2f}** |")
say(
    "\n".join(lines)
    + "\n\n(Median and quartiles. *Times faster* is the median of the ratios, round by round, so"
    f" it need not be the ratio of the two medians.) {you_wrote(prediction_4_2)}"
)
print(str(report).splitlines()[0])

# %% [markdown]
# Counted in MACs batch norm is next to nothing; in milliseconds one sees it, most of
# all where the convolutions are small. It reads every activation from memory and writes
# it back, to do two operations with it. *Arithmetic* is cheap, *passes over the data*
# are not: remember it when we compare MACs with time below. That is why every inference
# engine folds first (Jacob et al. 2018, section 3.2, where folding is also what makes
# 8-bit arithmetic possible).
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
def as_conv(fc: nn.Linear) -> nn.Conv2d:
    """A linear layer as the 1×1 convolution that it is."""
    conv = nn.Conv2d(fc.in_features, fc.out_features, 1)
    conv.weight = nn.Parameter(fc.weight.detach()[:, :, None, None])
    conv.bias = nn.Parameter(fc.bias.detach().clone())
    return conv


def as_linear(conv: nn.Conv2d) -> nn.Linear:
    fc = nn.Linear(conv.in_channels, conv.out_channels)
    fc.weight, fc.bias = (
        nn.Parameter(conv.weight.detach()[:, :, 0, 0]),
        nn.Parameter(conv.bias.detach()),
    )
    return fc


def cut(model: nn.Module, keep: dict[str, Tensor], absorb: bool = False) -> nn.Module:
    """A smaller copy of a patient: ``keep`` says for "bn1", "bn2", … which channels
    stay (``absorb`` is for 4.4).
    """
    model = copy.deepcopy(model)
    for i in LAYERS:
        last = i == LAYERS[-1]
        behind = as_conv(model.fc) if last else model.get_submodule(f"conv{i + 1}")
        layers = model.get_submodule(f"conv{i}"), model.get_submodule(f"bn{i}"), behind
        stay = keep[f"bn{i}"].nonzero().flatten().tolist()
        conv, bn, smaller = remove_filters(*layers, stay)
        if absorb and last:
            smaller.bias.data += absorb_removed(*layers, stay)
        # the next convolution has no bias, but the batch norm behind it subtracts a
        # mean
        elif absorb:
            model.get_submodule(f"bn{i + 1}").running_mean -= absorb_removed(*layers, stay)
        setattr(model, f"conv{i}", conv)
        setattr(model, f"bn{i}", bn)
        setattr(model, "fc" if last else f"conv{i + 1}", as_linear(smaller) if last else smaller)
    return model


def widths(keep: dict[str, Tensor]) -> list[int]:
    return [int(kept.sum()) for kept in keep.values()]


half = {
    f"bn{i}": torch.arange(dense[0].get_submodule(f"bn{i}").num_features) % 2 == 0 for i in LAYERS
}
halved = cut(dense[0], half)
cost = {
    how: {c.name: c.macs / 1e3 for c in model_cost(model, data.validation.images[:1])}
    for how, model in (("dense", dense[0]), ("every second filter out", halved))
}
plots.show(
    plots.bars(
        cost,
        ylabel="MACs for one image (thousands)",
        title="Half of the filters out: what is left?",
        fmt="{:.1f}",
    ),
    alt="Bars of thousand MACs per layer, dense and with every second filter out. "
    + ", ".join(
        f"{layer} {cost['dense'][layer]:.1f} and {after:.1f}"
        for layer, after in cost["every second filter out"].items()
    )
    + ".",
)
say(
    f"Half of the filters, **{macs(halved) / macs(dense[0]):.0%}** of the MACs and"
    f" {sum(p.numel() for p in halved.parameters()) / sum(p.numel() for p in dense[0].parameters()):.0%}"
    f" of the parameters. {you_wrote(prediction_4_3)}"
)

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
layers = [copy.deepcopy(dense[0].get_submodule(name)).eval() for name in ("conv1", "bn1", "conv2")]
by_size = layers[1].weight.detach().abs().argsort()
stay = sorted(by_size[len(by_size) // 2 :].tolist())  # the half with the larger |α|
with torch.no_grad():
    zeroed = copy.deepcopy(layers)
    zeroed[1].weight[by_size[: len(by_size) // 2]] = 0
    smaller = remove_filters(*layers, stay)
    shift = absorb_removed(*layers, stay)  # (M,)

    def second_layer(conv, bn, next_conv) -> Tensor:
        return next_conv(torch.relu(bn(conv(data.validation.images[:64]))))  # (B, M, E, F)

    should = second_layer(*zeroed)
    errors = {
        "removed": second_layer(*smaller) - should,
        "removed, constant absorbed": second_layer(*smaller) + shift[:, None, None] - should,
    }
maps = {how: error.abs().mean((0, 1)).numpy() for how, error in errors.items()}  # (E, F)
fig = Figure(figsize=(8, 4.1), layout="constrained")
top = max(m.max() for m in maps.values())
for ax, (how, picture) in zip(fig.subplots(1, 2), maps.items(), strict=True):
    image = ax.imshow(picture, vmin=0, vmax=top, cmap="cividis")
    if picture.size <= 64:
        for (i, j), value in np.ndenumerate(picture):
            ax.text(
                j,
                i,
                f"{value:.2f}",
                ha="center",
                va="center",
                fontsize=8,
                color="k" if value > top / 2 else "w",
            )
    ax.set(xlabel="column", ylabel="row", title=how)
    ax.grid(visible=False)
fig.colorbar(image, ax=fig.axes, label="mean |error| of conv2's output", shrink=0.75)
exact = maps["removed, constant absorbed"] < 1e-5
plots.show(
    fig,
    alt=(
        "Two maps of the mean error of conv2 at each position. Channels removed: an error"
        f" everywhere, {maps['removed'].mean():.2f} on average. Removed with their constants"
        f" absorbed: zero at the {exact.sum()} positions inside, and an error only along the"
        " border."
    ),
)
say(
    f"Exact at **{exact.sum()} of {exact.size}** positions. Removed channels with β > 0, which"
    f" leave something behind: {int((layers[1].bias[by_size[: len(by_size) // 2]] > 0).sum())} of"
    f" {len(by_size) // 2}. {you_wrote(prediction_4_4)}"
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
# **Why α, and not p?** The slide of the lecture penalises $p_i$. With the $p$ of 4.1
# that would not work, and it is worth seeing why. Multiply a filter by 10: $\mu$ and
# $\sigma$ follow, the output stays.

# %%
louder = copy.deepcopy(dense[0])
with torch.no_grad():
    for i in LAYERS:
        conv, bn = louder.get_submodule(f"conv{i}"), louder.get_submodule(f"bn{i}")
        conv.weight.mul_(10)
        bn.running_mean.mul_(10)
        bn.running_var.mul_(100)


@torch.no_grad()
def apart(one: nn.Module, other: nn.Module) -> float:
    """The largest difference of two networks' outputs."""
    return (
        (one.eval()(data.validation.images) - other.eval()(data.validation.images))
        .abs()
        .max()
        .item()
    )


def sum_of(model: nn.Module, which: str) -> float:
    norms = [model.get_submodule(f"bn{i}") for i in LAYERS]
    return sum(
        (bn.weight if which == "α" else bn_scale_shift(bn)[0]).abs().sum().item() for bn in norms
    )


same_eps = copy.deepcopy(louder)
for i in LAYERS:
    louder.get_submodule(f"bn{i}").eps *= 100
say(
    f"| | Σ\\|α\\| | Σ\\|p\\| |\n|---|---|---|\n| as trained | {sum_of(dense[0], 'α'):.1f} |"
    f" {sum_of(dense[0], 'p'):.1f} |\n| all filters × 10 | {sum_of(louder, 'α'):.1f} |"
    f" {sum_of(louder, 'p'):.1f} |\n\nLargest difference of the outputs:"
    f" {apart(louder, dense[0]):.0e}, if ε is scaled as σ² is; with the old ε"
    f" {apart(same_eps, dense[0]):.0e}."
)

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
def l1(model: nn.Module) -> Tensor:
    return slimming_penalty(model, SETTINGS["lam"])


def l2(model: nn.Module) -> Tensor:
    return (
        SETTINGS["lam"]
        / 2
        * sum((m.weight**2).sum() for m in model.modules() if isinstance(m, nn.BatchNorm2d))
    )


jobs = [
    (build("convnet", data, seed=seed), seed, penalty)
    for penalty in (l1, l2)
    for seed in range(SEEDS)
]
trained = side_by_side(train, jobs)
sparse, with_l2 = trained[:SEEDS], trained[SEEDS:]


def scales(models: list[nn.Module]) -> list[Tensor]:
    """All |α| of each model, (n,)."""
    return [
        torch.cat([m.get_submodule(f"bn{i}").weight.detach().abs() for i in LAYERS]) for m in models
    ]


fig = plots.histogram_before_after(
    torch.cat(scales(with_l2)),
    torch.cat(scales(sparse)),
    title="Equal pull at α = 1: who reaches zero, L1 or L2?",
    xlabel="|α| (all channels of three networks)",
    labels=("L2: ½λΣα²", "L1: λΣ|α|"),
    bins=120,
)
for ax in fig.axes:
    ax.set_xlim(left=0)
    ax.set_ylabel("channels per bin")
    ax.texts[0].set_x(0.3)
near = {
    how: [100 * (a < 0.02).float().mean().item() for a in scales(m)]
    for how, m in (("L1", sparse), ("L2", with_l2))
}
plots.show(
    fig,
    alt=(
        f"Two histograms of |α|. With L2 {np.mean(near['L2']):.0f} per cent are below 0.02 and the"
        f" others lie close together at small values. With L1 {np.mean(near['L1']):.0f} per cent"
        " are below 0.02, in a tall spike, and the rest reach far to the right."
    ),
)
sparse_accuracy = [accuracy(model) for model in sparse]
say(
    f"Channels with |α| < 0.02: L1 **{pm(near['L1'])} %**, L2 {pm(near['L2'])} %. Validation"
    f" accuracy: dense {pm(dense_accuracy)} %, L1 {pm(sparse_accuracy)} %, L2"
    f" {pm([accuracy(m) for m in with_l2])} %.\n\nThe largest |α| that is left: L1"
    f" {np.mean([a.max() for a in scales(sparse)]):.2f}, L2"
    f" {np.mean([a.max() for a in scales(with_l2)]):.2f}."
)

# %% [markdown]
# L2 pulls hardest at what is large, so none of its scales stays large, and at what is
# small it hardly pulls any more: few arrive. L1 makes a *decision*: most channels stand
# in one spike at 0, and those that the network pays for (λ, not more, for each bit of
# α) keep what they need, from a twentieth up to nearly 1. Between the two there are few
# channels: a threshold is then easy to find.

# %%
keeps = [select_channels(model, FRACTION) for model in sparse]
left = {
    f"layer {i}": [100 * keep[f"bn{i}"].float().mean().item() for keep in keeps] for i in LAYERS
}
plots.show(
    plots.bars(
        {"kept": {layer: float(np.mean(share)) for layer, share in left.items()}},
        errors={"kept": {layer: ends(share) for layer, share in left.items()}},
        ylabel="channels kept (%)",
        title=f"Who pays when {FRACTION:.0%} of all channels go?",
        fmt="{:.0f}",
    ),
    alt=(
        f"Bars: share of channels kept in each layer when {FRACTION:.0%} of all go, means of three"
        " seeds. "
    )
    + ", ".join(f"{layer} {np.mean(share):.0f}" for layer, share in left.items())
    + ".",
)
worst = min(left, key=lambda layer: np.mean(left[layer]))
say(
    "Widths that are left: "
    + "; ".join(", ".join(map(str, widths(keep))) for keep in keeps)
    + f". The smallest share survives in **{worst}**. {you_wrote(prediction_4_5)}"
)

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
def largest_filters(model: nn.Module, keep: dict[str, Tensor]) -> dict[str, Tensor]:
    """As many channels of each layer as ``keep`` keeps: those made by the filters with
    the largest L1 norms.
    """
    chosen = {}
    for i, (name, kept) in zip(LAYERS, keep.items(), strict=True):
        norm = model.get_submodule(f"conv{i}").weight.detach().abs().sum((1, 2, 3))  # (M,)
        chosen[name] = torch.zeros_like(kept)
        chosen[name][norm.argsort(descending=True)[: kept.sum()]] = True
    return chosen


def random_channels(keep: dict[str, Tensor], seed: int) -> dict[str, Tensor]:
    """As many channels of each layer, chosen at random."""
    generator = torch.Generator().manual_seed(seed)
    return {
        name: kept[torch.randperm(len(kept), generator=generator)] for name, kept in keep.items()
    }


def repaired(model: nn.Module) -> nn.Module:
    """A copy with batch norm's statistics measured again."""
    model = copy.deepcopy(model)
    recalibrate(model, data.train.images[:512])
    return model


def finetuned(model: nn.Module, seed: int) -> nn.Module:
    return train(copy.deepcopy(model), 100 + seed, epochs=SETTINGS["finetune"], lr=0.1)


def from_scratch(widths: list[int], seed: int) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1000 + seed)
        fresh = SmallConvNet(data.shape[0], data.classes, widths)
    return train(fresh, seed)


chosen = {
    "slimming": keeps,
    "filter L1": [largest_filters(model, keep) for model, keep in zip(sparse, keeps, strict=True)],
    "random": [random_channels(keep, seed) for seed, keep in enumerate(keeps)],
}
STEPS = ["pruned", "+ absorbed", "BN recalibrated", "fine-tuned"]
table = {how: {} for how in chosen}
final = {}  # fine-tuned networks, by seed
for how, by_seed in chosen.items():
    absorbed = [cut(model, keep, absorb=True) for model, keep in zip(sparse, by_seed, strict=True)]
    final[how] = side_by_side(
        finetuned, [(repaired(model), seed) for seed, model in enumerate(absorbed)]
    )
    for step, models in {
        "pruned": [cut(model, keep) for model, keep in zip(sparse, by_seed, strict=True)],
        "+ absorbed": absorbed,
        "BN recalibrated": [repaired(model) for model in absorbed],
        "fine-tuned": final[how],
    }.items():
        table[how][step] = [accuracy(model) for model in models]
scratch = side_by_side(from_scratch, [(widths(keep), seed) for seed, keep in enumerate(keeps)])
scratch_accuracy = [accuracy(model) for model in scratch]


# %%
def slimming_rows(dense, sparse, table, scratch) -> list[str]:
    """The table of seven columns, in Markdown."""
    rows = [
        "| | dense | sparse-trained | " + " | ".join(STEPS) + " | from scratch |",
        "|---" * 8 + "|",
    ]
    for how, steps in table.items():
        start = [pm(dense), pm(sparse)] if how == "slimming" else ["", ""]
        end = pm(scratch) if how == "slimming" else ""
        between = [pm(steps[step]) if step in steps else "" for step in STEPS]
        rows.append(f"| {how} | " + " | ".join([*start, *between, end]) + " |")
    return rows


LIU = "| *Liu et al. 2017, VGG, CIFAR-10* | 93.77 | 93.30 | 32.54 | | | 93.78 | |"
say(
    f"Validation accuracy in %, {FRACTION:.0%} of the channels removed, three seeds:\n\n"
    + "\n".join([*slimming_rows(dense_accuracy, sparse_accuracy, table, scratch_accuracy), LIU])
)
fig = plots.bars(
    {
        how: {step: float(np.mean(values)) for step, values in steps.items()}
        for how, steps in table.items()
    },
    errors={
        how: {step: ends(values) for step, values in steps.items()} for how, steps in table.items()
    },
    ylabel="validation accuracy (%)",
    title=f"{FRACTION:.0%} of the channels out: what is broken, what repairs it?",
    fmt="{:.0f}",
)
for bars in fig.axes[0].containers:  # in the colours of the curves below
    for bar in bars:
        bar.set_facecolor(plots.COLOURS[bars.get_label()])
fig.axes[0].legend(loc="upper right", ncols=len(table), borderaxespad=0.1)
for number in fig.axes[0].texts:  # the line does not strike it out
    number.set_bbox({"facecolor": "white", "edgecolor": "none", "pad": 0.3})
fig.axes[0].axhline(np.mean(sparse_accuracy), color="k", linewidth=1.2)
fig.axes[0].set_yticks(range(0, 101, 20))
fig.axes[0].set_xlim(right=fig.axes[0].get_xlim()[1] + 0.35)
fig.axes[0].text(
    1,
    np.mean(sparse_accuracy) - 1,
    "before\npruning",
    transform=fig.axes[0].get_yaxis_transform(),
    ha="right",
    va="top",
)
plots.show(
    fig,
    alt="Bars of validation accuracy after each step, means of three seeds. "
    + " ".join(
        f"{how}: " + ", ".join(f"{step} {np.mean(v):.0f}" for step, v in steps.items()) + "."
        for how, steps in table.items()
    ),
)


# %%
@torch.no_grad()
def silenced(model: nn.Module, keep: dict[str, Tensor]) -> nn.Module:
    """A copy in which the scales of the channels that go are 0: nothing is removed,
    their constants are still there.
    """
    model = copy.deepcopy(model)
    for name, kept in keep.items():
        model.get_submodule(name).weight[~kept] = 0
    return model


def constants_in(i: int) -> str:
    """Of layer i: how many of the channels removed have β > 0, in all three networks
    together.
    """
    shifts = [
        model.get_submodule(f"bn{i}").bias[~keep[f"bn{i}"]]
        for model, keep in zip(sparse, keeps, strict=True)
    ]
    return f"layer {i} {sum(int((b > 0).sum()) for b in shifts)} of {sum(map(len, shifts))}"


only_silenced = [accuracy(silenced(model, keep)) for model, keep in zip(sparse, keeps, strict=True)]
lost = np.subtract(sparse_accuracy, table["slimming"]["pruned"])
gained = {
    step: np.subtract(table["slimming"][step], table["slimming"]["pruned"]) for step in STEPS[1:]
}
say(
    f"Scales set to 0, *nothing removed* (the constants are still there): {pm(only_silenced)} %."
    f" Pruned: {pm(table['slimming']['pruned'])} %. Channels removed that leave a constant, β > 0:"
    f" {', '.join(map(constants_in, LAYERS))}.\n\nPruning cost {pm(lost)} points. Of these came"
    " back, on average over the seeds:\n\n"
    + "\n".join(
        f"- **{np.mean(gain) / np.mean(lost):.2f}** with *{step}*" for step, gain in gained.items()
    )
    + f"\n\n{you_wrote(prediction_4_5b)}\n\n- fine-tuned against recalibrated:"
    f" {versus(table['slimming']['fine-tuned'], table['slimming']['BN recalibrated'])};\n-"
    " fine-tuned against from scratch:"
    f" {versus(table['slimming']['fine-tuned'], scratch_accuracy)};\n- slimming against random"
    " channels, fine-tuned:"
    f" {versus(table['slimming']['fine-tuned'], table['random']['fine-tuned'])};\n- slimming"
    " against filter L1, recalibrated:"
    f" {versus(table['slimming']['BN recalibrated'], table['filter L1']['BN recalibrated'])}."
)

# %% [markdown]
# Read the first row from left to right. *Not a single weight has been trained* between
# *pruned* and *BN recalibrated*. Silence the channels without removing them, and see
# how little their signals had mattered. What the removal took on top of that are
# constants: each channel with $\beta>0$ handed one to the next layer. Behind layers 1
# to 3 a batch norm stands there, and subtracts a mean in which these constants are
# still contained; behind layer 4 it is the linear layer, whose sums now lack them.
# Absorb them, and much of the network is back at once (the rest is the borders of 4.4,
# and on 4×4 maps most positions are border); measure the means again, too, and nearly
# all of it is. Fine-tuning gets the credit in the paper because its first steps do the
# same, silently.
#
# The collapse also depends on how far one goes. As long as only channels with
# $\alpha\approx0$ *and* a small $\beta$ go, nothing happens at all: the explorer at the
# end shows how suddenly it begins.
#
# Then compare with the control. Random channels of the same networks cannot be repaired
# in this way: they carried something, and what was kept in their place is mostly
# silent. (A kinder control, random channels of the *dense* networks, comes in part D.)
#
# And the last column. A network with these *widths* and no inherited weight at all does
# as well as the pruned and fine-tuned one, within what three seeds can show. **The
# architecture matters, not the inherited weights**, as Liu et al. (2019, "Rethinking
# the Value of Network Pruning", another Liu) found on ImageNet. What slimming did here
# was to find widths. (It is not free of charge: *from scratch* trained for all the
# epochs again, fine-tuning for a third.)
#
# **More seeds, and MNIST.** Three seeds leave wide intervals where networks fall from a
# cliff. So here are six seeds of the same experiment, and three on MNIST (6,000 images,
# eight epochs, fine-tuning three), both made by the library's version of what you
# wrote. That takes longer than a lab should, so the results come with the course;
# `course remake lab04_slimming_digits` and `course remake lab04_slimming_mnist` make
# them again. *Before you look:* MNIST's maps are larger, with relatively less border.
# Which column should profit?

# %%
NAMES = dict(
    zip(STEPS, ("pruned", "pruned + absorbed", "BN recalibrated", "fine-tuned"), strict=True)
)


def shipped(name: str) -> None:
    """Show a result file as the table of seven columns."""
    result = experiments.read(f"lab04_slimming_{name}")

    def of(column: str, part: str = "validation") -> list[float]:
        return [run[part][column] for run in result["seeds"]]

    rows = {"slimming": {step: of(column) for step, column in NAMES.items()}}
    for how in ("filter L1", "random"):
        rows[how] = {
            step: of(f"{how}, {column}")
            for step, column in NAMES.items()
            if f"{how}, {column}" in result["seeds"][0]["validation"]
        }
    scratch = of("same architecture from scratch")
    back = (
        np.subtract(of("pruned + absorbed"), of("pruned")).mean()
        / np.subtract(of("sparse-trained"), of("pruned")).mean()
    )
    say(
        f"**{name}**, {len(result['seeds'])} seeds, {result['settings']['fraction']:.0%} of the"
        " channels removed,"
        f" {np.mean([run['slim']['macs'] / run['dense']['macs'] for run in result['seeds']]):.0%}"
        " of the MACs left; validation accuracy in %:\n\n"
        + "\n".join(slimming_rows(of("dense"), of("sparse-trained"), rows, scratch))
        + f"\n\n- Of the points lost by pruning, absorbing gives back {back:.2f}, against *pruned*"
        f" {versus(of('pruned + absorbed'), of('pruned'))};\n- recalibrated against"
        f" sparse-trained: {versus(of('BN recalibrated'), of('sparse-trained'))};\n- fine-tuned"
        f" against from scratch: {versus(of('fine-tuned'), scratch)}; against random channels"
        f" fine-tuned: {versus(of('fine-tuned'), of('random, fine-tuned'))};\n- on the **test**"
        f" images: dense {pm(of('dense', 'test'))}, fine-tuned {pm(of('fine-tuned', 'test'))},"
        f" from scratch {pm(of('same architecture from scratch', 'test'))}, random channels"
        f" fine-tuned {pm(of('random, fine-tuned', 'test'))} %."
    )


shipped("digits")
shipped("mnist")

# %% [markdown]
# In the first row of both tables the network collapses and comes back in the same
# steps, and both lists now show that absorbing helps: the constants alone bring most of
# the network back, without looking at a single image. On MNIST they bring back no
# larger share, although the border is smaller, so the border is not all. There 70 %
# took channels that still had something to say: *BN recalibrated* stays below
# *sparse-trained*, and fine-tuning has something left to do.
#
# And the architecture? On neither is a difference between *from scratch* and
# *fine-tuned* shown. Random channels of these networks end eight and more points lower
# even when fine-tuned (on the digits that is shown, on MNIST three seeds leave it
# open), but do not read too much into that: most of what they keep is silent, and has
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


def within_layers(scores: dict[str, Tensor], fraction: float) -> dict[str, Tensor]:
    """Each layer keeps the same share, those with the largest scores."""
    keep = {}
    for name, score in scores.items():
        keep[name] = torch.ones(len(score), dtype=torch.bool)
        keep[name][score.argsort()[: round(fraction * len(score))]] = False
    return keep


def by_filter(model: nn.Module, fraction: float, seed: int) -> dict[str, Tensor]:
    return within_layers(slimming.filter_norms(model), fraction)


def by_chance(model: nn.Module, fraction: float, seed: int) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    names = {f"bn{i}": model.get_submodule(f"bn{i}").num_features for i in LAYERS}
    return within_layers(
        {name: torch.rand(n, generator=generator) for name, n in names.items()}, fraction
    )


def by_scale(model: nn.Module, fraction: float, seed: int) -> dict[str, Tensor]:
    return select_channels(model, fraction)


def after_choice(model: nn.Module, keep: dict[str, Tensor]) -> float:
    return accuracy(repaired(cut(model, keep, absorb=True)))


arms = {
    "slimming": (sparse, by_scale),
    "α, dense": (dense, by_scale),
    "filter L1": (dense, by_filter),
    "random": (dense, by_chance),
}
by_score = {}
for how, (models, pick) in arms.items():
    jobs = [(model, pick(model, f, seed)) for seed, model in enumerate(models) for f in FRACTIONS]
    by_score[how] = np.reshape(side_by_side(after_choice, jobs), (SEEDS, -1))
plots.show(
    plots.method_curves(
        FRACTIONS,
        by_score,
        dense=dense_accuracy,
        xlabel="channels removed (recalibrated, not fine-tuned)",
        ylabel="validation accuracy (%)",
        title="Is it the score, or the training for it?",
        xaxis="sparsity",
        ylim=(0, 102),
    ),
    alt=(
        "Validation accuracy against channels removed, recalibrated, three seeds with intervals. At"
        " 50 per cent: "
    )
    + ", ".join(f"{how} {np.mean(v[:, FRACTIONS.index(0.5)]):.0f}" for how, v in by_score.items())
    + f". At {FRACTION:.0%}: "
    + ", ".join(
        f"{how} {np.mean(v[:, FRACTIONS.index(FRACTION)]):.0f}" for how, v in by_score.items()
    )
    + ".",
)
at_half = {how: v[:, FRACTIONS.index(0.5)] for how, v in by_score.items()}
say(
    "At 50 %, on the dense networks:\n\n"
    f"- α against random: {versus(at_half['α, dense'], at_half['random'])};\n"
    f"- filter L1 against random: {versus(at_half['filter L1'], at_half['random'])};\n"
    f"- α against filter L1: {versus(at_half['α, dense'], at_half['filter L1'])}.\n\n"
    f"Slimming against α without its training: {versus(at_half['slimming'], at_half['α, dense'])}."
)

# %% [markdown]
# The large gap is not between scores, it is between a network that was *trained to
# spare channels* and one that was not. A dense network uses all its channels a little;
# any score then has to choose what to hurt. Neither score is shown to beat a draw at
# half of the channels, and the $\alpha$ of a network that was not trained for it is the
# worse of the two: Liu et al.'s score is worth something *with* their training. (Li et
# al. fine-tune after theirs, and find L1 norms good enough for that; so may you, in the
# table above.)

# %% [markdown]
# ## Part D · The next layer

# %% [markdown]
# ### 4.6 The cascade
# **10 minutes · 2 points · needs 4.4**
#
# Pruning filters of layer $i$ also prunes layer $i+1$: weights that read a removed
# channel have nothing to do any more. The lecture calls this the *cascade effect* and
# adds: "assume the bias of the batch normalization is zero". You know what happens when
# it is not.
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
taken = {"own filter out": {}, "cascade alone": {}, "left": {}}
spread = {how: {} for how in taken}  # ends of the intervals over seeds
for i in LAYERS:
    shares = []
    for model, keep in zip(sparse, keeps, strict=True):
        weight = model.get_submodule(f"conv{i}").weight.detach()  # (M, C, R, S)
        inputs = keep[f"bn{i - 1}"] if i > 1 else torch.ones(weight.shape[1], dtype=torch.bool)
        useful, _ = cascade(inputs, weight)
        stays = keep[f"bn{i}"][:, None, None, None].expand_as(weight)
        shares.append(
            [
                (~stays).float().mean(),
                (stays & ~useful).float().mean(),
                (stays & useful).float().mean(),
            ]
        )
    for how, share in zip(taken, 100 * np.array(shares).T, strict=True):
        taken[how][f"conv{i}"], spread[how][f"conv{i}"] = float(share.mean()), ends(share)
plots.show(
    plots.bars(
        taken,
        errors=spread,
        ylabel="weights of the layer (%)",
        title=f"{FRACTION:.0%} of the channels out: who takes the weights?",
        fmt="{:.0f}",
    ),
    alt=(
        "Bars per layer: weights that go with their own filter, by the cascade alone, and those"
        " left. "
    )
    + ", ".join(
        f"conv{i}: " + " ".join(f"{taken[how][f'conv{i}']:.0f}" for how in taken) for i in LAYERS
    )
    + " per cent.",
)
sizes = {f"conv{i}": dense[0].get_submodule(f"conv{i}").weight.numel() for i in LAYERS}
sums = {
    how: sum(share * sizes[layer] for layer, share in by.items()) / sum(sizes.values())
    for how, by in taken.items()
}
say(
    f"Over all layers: {sums['own filter out']:.0f} % go with their filter,"
    f" {sums['cascade alone']:.0f} % by the cascade alone, **{sums['left']:.0f} %** are left. Of"
    " all that go, the cascade alone takes"
    f" **{100 * sums['cascade alone'] / (sums['own filter out'] + sums['cascade alone']):.0f} %**."
    f" {you_wrote(prediction_4_6)}"
)

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
def as_many_as(slim: nn.Module, model: nn.Module) -> dict[str, Tensor]:
    """Masks of the largest weights of ``model``: in every layer as many as ``slim``
    has, so that MACs are equal, too.
    """
    sizes = {name: w.numel() for name, w in prunable(slim).items()}
    weights = prunable(model)
    return local_masks(
        magnitude(weights), {name: 1 - sizes[name] / w.numel() for name, w in weights.items()}
    )


def finetuned_with_zeros(model: nn.Module, seed: int, masks: dict[str, Tensor]) -> nn.Module:
    model = copy.deepcopy(model)
    apply_masks(model, masks)
    recalibrate(model, data.train.images[:512])
    fit(
        model,
        data.train,
        epochs=SETTINGS["finetune"],
        lr=0.1,
        seed=100 + seed,
        masks=masks,
        progress=False,
        **lab04.RECIPE,
    )
    return model


CUTS = [0.5, FRACTION, 0.8]
networks = {"structured": {FRACTION: final["slimming"]}, "random": {}, "unstructured": {}}
for fraction in CUTS:
    chosen_here = [select_channels(model, fraction) for model in sparse]
    if fraction != FRACTION:
        slim = [repaired(cut(model, keep)) for model, keep in zip(sparse, chosen_here, strict=True)]
        networks["structured"][fraction] = side_by_side(
            finetuned, [(m, seed) for seed, m in enumerate(slim)]
        )
    other = [
        repaired(cut(m, random_channels(chosen_here[seed], seed))) for seed, m in enumerate(dense)
    ]
    networks["random"][fraction] = side_by_side(
        finetuned, [(m, seed) for seed, m in enumerate(other)]
    )
    jobs = [
        (m, seed, as_many_as(networks["structured"][fraction][seed], m))
        for seed, m in enumerate(dense)
    ]
    networks["unstructured"][fraction] = side_by_side(finetuned_with_zeros, jobs)

# %%
at_macs = {
    how: np.array([[accuracy(m) for m in by[f]] for f in CUTS]).T for how, by in networks.items()
}  # (seeds, cuts)
mac_share = [np.mean([macs(m) for m in networks["structured"][f]]) / macs(dense[0]) for f in CUTS]
plots.show(
    plots.method_curves(
        mac_share,
        at_macs,
        dense=dense_accuracy,
        xlabel="MACs left, in % of the dense network's (random: random channels)",
        ylabel="validation accuracy (%)",
        title="Equal MACs, with and without structure",
        xaxis="remaining",
    ),
    alt="Validation accuracy against MACs left, fine-tuned, three seeds with intervals. "
    + " ".join(
        f"At {share:.0%} of the MACs: "
        + ", ".join(f"{how} {np.mean(v[:, k]):.1f}" for how, v in at_macs.items())
        + "."
        for k, share in enumerate(mac_share)
    ),
)
say(
    "Structured against unstructured, at equal MACs:\n\n"
    + "\n".join(
        f"- {share:.0%} of the MACs:"
        f" {versus(at_macs['structured'][:, k], at_macs['unstructured'][:, k])}; against random"
        f" channels: {versus(at_macs['structured'][:, k], at_macs['random'][:, k])}"
        for k, share in enumerate(mac_share)
    )
)

# %% [markdown]
# Two things to read here. First, "unstructured pruning has a better accuracy than
# structured pruning" (the lecture) is a sentence about equal *sparsity*. At equal MACs
# little is left of it: see whether the list shows a difference to *unstructured* at
# all. Second, every method has its end. The penalty had made room for about 70 % of the
# channels; beyond that slimming takes channels that the network had decided to keep,
# and its choice need not be better than a draw. And the control is embarrassingly good
# again (lab 01). Where much is left, it can even be shown ahead, by half a point: it
# was cut out of the *dense* networks, which had not paid for the penalty. What slimming
# is worth shows before *fine-tuning*, in the last figure of part C.
#
# Now the clock, the processor's again. 64 images, one core, all networks taking turns:
# *times faster* is again the median of the ratios, round by round.

# %%
batch = data.validation.images[:64]
rows = {"dense": dense[0]}
for fraction in CUTS:
    rows[f"unstructured, MACs of {fraction:.0%} slim"] = networks["unstructured"][fraction][0]
    rows[f"slim, {fraction:.0%} of the channels out"] = networks["structured"][fraction][0]
rows[f"slim {FRACTION:.0%}, folded"] = fold_all(networks["structured"][FRACTION][0])
times = latency.compare(
    {name: latency.forward(model, batch) for name, model in rows.items()}, repeats=80, threads=1
)
faster, fewer = {}, {}
lines = ["| | MACs (k) | times fewer | ms for 64 images | times faster |", "|---" * 5 + "|"]
for name, model in rows.items():
    products = totals(model_cost(model, batch[:1]))["nonzero_macs"]
    fewer[name] = macs(dense[0]) / products
    faster[name] = times["dense"].times_slower_than(times[name])
    lines.append(
        f"| {name} | {products / 1e3:.0f} | {fewer[name]:.1f} | {1e3 * times[name].median:.2f} |"
        f" **{faster[name]:.2f}** |"
    )
say("\n".join(lines) + f"\n\n{you_wrote(prediction_4_6b)}")

powers = [2**k for k in range(int(np.ceil(np.log2(max(fewer.values())))) + 1)]
fig = plots.curves(
    powers,
    {"as MACs": powers},
    points={
        "unstructured": tuple(
            map(
                list,
                zip(*[(fewer[n], faster[n]) for n in rows if n.startswith("unstr")], strict=True),
            )
        ),
        "structured": tuple(
            map(
                list,
                zip(*[(fewer[n], faster[n]) for n in rows if n.startswith("slim,")], strict=True),
            )
        ),
    },
    key=("if MACs were time", "measured"),
    xlabel="times fewer MACs",
    ylabel="times faster, measured",
    title="Fewer MACs: when do they become time?",
    log=True,
)
fig.axes[0].set_xscale("log")
fig.axes[0].set_xticks(powers, powers)
fig.axes[0].set_yticks(powers, powers)
fig.axes[0].minorticks_off()
plots.show(
    fig,
    alt=(
        "Times faster, measured, against times fewer MACs, both axes logarithmic, with the diagonal"
        " where they are equal. "
    )
    + ", ".join(
        f"{name}: {fewer[name]:.1f} fewer, {faster[name]:.1f} faster"
        for name in rows
        if name != "dense"
    )
    + ".",
)

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
    removal.remove_filters(resnet, {"layer1.0.conv2": torch.arange(64) % 2 == 0}, image)
except ValueError as refusal:
    print(refusal)

# %% [markdown]
# It names the layers, and the addition where their channels meet. `channel_groups`
# finds such groups by following every channel through the model; a mask for a group
# goes to all its layers. Inside a block (`conv1`) a group is one layer, and free. Half
# of every group, by the summed L1 norms of their filters:

# %%
groups = channel_groups(resnet, image)
free = [group for group in groups if group.pinned is None]
tied = max(free, key=lambda group: len(group.producers))
norms = removal.l1_filters(resnet, free)
keep = {}
for group in free:
    order = norms[group.producers[0]].argsort(descending=True)
    kept = torch.zeros(group.channels, dtype=torch.bool)
    kept[order[: group.channels // 2]] = True
    keep |= group.masks(kept)
half_resnet, report = removal.remove_filters(resnet, keep, image)
times = latency.compare(
    {"whole": latency.forward(resnet, image), "half": latency.forward(half_resnet.eval(), image)},
    repeats=15,
    threads=1,
)
products = [totals(model_cost(model, image))["macs"] for model in (resnet, half_resnet)]
say(
    f"{len(free)} groups can be cut; the largest ties {len(tied.producers)} convolutions together"
    f" ({', '.join(f'`{name}`' for name in tied.producers)}). With half of each:"
    f" {report.parameters[0] / report.parameters[1]:.1f} times fewer parameters,"
    f" {products[0] / products[1]:.1f} times fewer MACs,"
    f" **{times['whole'].times_slower_than(times['half']):.1f} times** faster (one image, one"
    " core)."
)

# %% [markdown]
# A **depthwise** convolution has one kernel for each channel and mixes none: it does
# not make channels, it follows those it gets. So nothing is chosen there; in
# MobileNetV2 the 1×1 convolution in front decides, and the depthwise one is cut along,
# like a batch norm.

# %%
mobile = mobilenet_v2(weights=None).eval()
group = next(
    g for g in channel_groups(mobile, image) if any(".1.0" in name for name in g.followers)
)
print("decides: ", ", ".join(group.producers))
print("follows: ", ", ".join(group.followers))
print("is read by:", ", ".join(group.consumers))

# %% [markdown]
# ## Part E · What was it worth?

# %% [markdown]
# ### 4.7 Two short answers
# **10 minutes · 1 point**
#
# #### Experiment: the bill, and the test images once
#
# Only now the **test images**, once, for the networks at 70 % and for those of equal
# MACs. Bits as in lab 01: for single weights the cheapest of three encodings, layer by
# layer; a network without holes has 32 for each weight.


# %%
bill = {
    "dense": dense,
    f"slimming {FRACTION:.0%}, fine-tuned": final["slimming"],
    f"slimming {FRACTION:.0%}, folded": [fold_all(model) for model in final["slimming"]],
    "the same widths from scratch": scratch,
    "random channels, fine-tuned": networks["random"][FRACTION],
    "unstructured, equal MACs": networks["unstructured"][FRACTION],
}
times = latency.compare(
    {row: latency.forward(models[0], batch) for row, models in bill.items()}, repeats=80, threads=1
)
lines = [
    "| | kB | MACs (k) | ms for 64 images | times faster | test accuracy (%) |",
    "|---" * 6 + "|",
]
for row, models in bill.items():
    bits = sum(encodings.cheapest_bits(w.detach()) for w in prunable(models[0]).values())
    products = totals(model_cost(models[0], batch[:1]))["nonzero_macs"]
    milliseconds = 1e3 * times[row].median
    # the only time that the test images are used
    test = [accuracy(model, "test") for model in models]
    ledger.add("convnet", row, lab="04", bits=bits, macs=products, ms=milliseconds, accuracy=test)
    costs = (
        f"{bits / 8e3:.1f} | {products / 1e3:.0f} | {milliseconds:.2f} |"
        f" {times['dense'].times_slower_than(times[row]):.2f}"
    )
    lines.append(f"| {row} | {costs} | {pm(test)} |")
say("\n".join(lines))

# %% [markdown]
# The ledger so far (in `ledger.json`, beside this notebook; with the rows of earlier
# labs if you worked in the same folder):

# %%
display(ledger.table())

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
REPAIRS = {
    "nothing": "pruned",
    "absorb the constants": "absorbed",
    "absorb and recalibrate": "recalibrated",
}
GRID = [round(0.05 * k, 2) for k in range(20)]


def slimmed(fraction: float, repair: str) -> tuple[float, float]:
    """MACs left in % and validation accuracy of the first network."""
    model = cut(sparse[0], select_channels(sparse[0], fraction), absorb=repair != "pruned")
    model = repaired(model) if repair == "recalibrated" else model
    return 100 * macs(model) / macs(sparse[0]), accuracy(model)


paths = {repair: [slimmed(f, repair) for f in GRID] for repair in REPAIRS.values()}


def explore(fraction: float, repair: str) -> tuple[str, Figure]:
    keep = select_channels(sparse[0], fraction)
    left_macs, score = slimmed(fraction, repair)
    fig = Figure(figsize=(8, 4.2), layout="constrained")
    left, right = fig.subplots(1, 2, width_ratios=[1.25, 1])
    start, ticks = 0, []
    everything = scales(sparse[:1])[0].sort().values
    removed = round(fraction * len(everything))
    for name, kept in keep.items():
        alpha = sparse[0].get_submodule(name).weight.detach().abs()
        order = alpha.argsort()
        x = torch.arange(len(alpha)) + start
        stays = kept[order]
        left.scatter(x[stays], alpha[order][stays], s=14, color=plots.COLOURS["magnitude"])
        left.scatter(
            x[~stays],
            alpha[order][~stays],
            s=14,
            marker="x",
            linewidth=1,
            color=plots.COLOURS["random"],
        )
        ticks.append((start + len(alpha) / 2, f"{name}\n{int(kept.sum())}/{len(kept)}"))
        start += len(alpha) + 10
    if removed:
        left.axhline(everything[removed - 1].item(), color="k", linewidth=1)
    left.set_xticks([at for at, _ in ticks], [name for _, name in ticks])
    left.set(ylabel="|α|", title="kept (dots), removed (crosses)")
    left.grid(visible=False, axis="x")
    right.plot(*zip(*paths[repair], strict=True), color=plots.COLOURS["dense"], linewidth=1.2)
    right.plot([left_macs], [score], "o", color=plots.COLOURS["magnitude"], markersize=11)
    right.set(
        xlabel="MACs left (%)", ylabel="validation accuracy (%)", xlim=(102, -2), ylim=(0, 102)
    )
    done = {
        "pruned": "not repaired",
        "absorbed": "absorbed",
        "recalibrated": "absorbed, recalibrated",
    }[repair]
    right.set_title(done)
    plots.alt(
        fig,
        f"Left: the scale of every channel, with a line below which {fraction:.0%} of all go."
        " Kept: "
        + ", ".join(f"{int(kept.sum())} of {len(kept)} in {name}" for name, kept in keep.items())
        + f". Right: accuracy against MACs left, {done}; marked: {score:.1f} per cent with"
        f" {left_macs:.0f} per cent of the MACs.",
    )
    return (
        (
            f"Validation accuracy {score:.1f} % with {left_macs:.0f} % of the MACs (before pruning:"
            f" {sparse_accuracy[0]:.1f} %)"
        ),
        fig,
    )


widgets.explorer(
    explore,
    fraction=widgets.slider(0.0, 0.95, 0.05, 0.7, "channels removed"),
    repair=widgets.choice(REPAIRS, label="repair"),
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
# - **Read.** Z. Liu et al., *Learning Efficient Convolutional Networks through Network
#   Slimming*, 2017. H. Li et al., *Pruning Filters for Efficient ConvNets*, 2017. J. Ye
#   et al., *Rethinking the Smaller-Norm-Less-Informative Assumption*, 2018 (constants
#   absorbed). Z. Liu et al., *Rethinking the Value of Network Pruning*, 2019 (from
#   scratch). B. Jacob et al., *Quantization and Training of Neural Networks for
#   Efficient Integer-Arithmetic-Only Inference*, 2018 (folding). G. Fang et al.,
#   *DepGraph*, 2023 (groups).
# - **Next.** Zeros are flexible and slow, structure is fast and coarse. Lab 05 looks
#   for something in between.
