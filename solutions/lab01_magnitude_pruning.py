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
# # Lab 01 · Magnitude pruning
#
# **How many weights of a trained network can you set to zero before its accuracy falls?
# And when it falls, what exactly has broken?**
#
# The oldest and simplest rule removes the smallest weights. You write the usual forms
# of this rule. Then you test which of the usual claims about it hold on your own
# network:
#
# | part | you write | you find out |
# |---|---|---|
# | A · Which weights are pruned? | 1.1 magnitude, 1.2 threshold, 1.3 groups, 1.4 all layers together | how far one-shot pruning gets, and what breaks |
# | B · Training the kept weights | 1.5 the masked gradient | how gradients pass through a pruned layer |
# | C · Which layers are sensitive? | 1.6 sensitivity | which layer can lose most of its weights |
# | D · A little at a time | 1.7 schedule and iterative pruning | whether fine-tuning and iterating pay |
# | E · What was it worth? | 1.8 two short answers, 1.9 a bug hunt | bits, MACs and milliseconds |
#
# 20 points; about 4½ hours.
#
# **Prerequisites.** Lab 00 (bits, MACs, latency); training a network in PyTorch.
#
# Symbols, terms and the meaning of ±: [one page for all labs](../docs/notation.md).
#
# **After this lab you can**
#
# - prune weights, groups of weights and whole networks to an exact sparsity;
# - write the backward pass of a pruned layer, and keep pruned weights at zero;
# - find out whether accuracy collapses because of lost weights or of batch norm;
# - compare pruning methods at equal budget, with a random baseline and intervals.
#
# After each exercise, `check("1.1")` tests your function for about half of the points
# and lists which claims hold. The grader also tests the rest of the docstring. If you
# are stuck, write `skip("1.1")` in a cell: that question scores 0 and the rest of the
# lab uses the course's version.
#
# Three rules hold in the whole course:
#
# - **Guess first.** Before an experiment, write your prediction down, a number. It is
#   not marked; the figure shows it as a star.
# - **Choose on validation data, look at the test data once**, at the end.
# - **No claim without a random baseline and three seeds.** Bands and ± are 95 %
#   intervals over seeds. If an interval leaves the possible range, such as 31 ± 56 %,
#   the three seeds differ too much for a conclusion. A difference is *statistically
#   distinguishable* if its 95 % paired interval excludes 0.

# %%
from course_lib.grading import check, skip  # noqa: F401  (skip is yours to use)

# isort: split
from collections.abc import Callable
from functools import partial

import numpy as np  # noqa: F401  (yours to use)
import pandas as pd
import torch
from torch import Tensor, nn

from course_lib import devices, experiments, ledger
from course_lib.data.images import load
from course_lib.experiments import lab01
from course_lib.show import plots, tables
from course_lib.show.words import pm, say

# %%
plots.show(
    plots.grid(lab01.example_masks(), title="Half of a small convolution, pruned in four ways"),
)

# %% [markdown]
# The lab in one picture: dark weights are kept, light weights are pruned. A row of
# squares is a filter, and a square is a 3×3 kernel.
#
# ## Settings
#
# The default data are scikit-learn's handwritten digits: 1,797 *real* 8×8 images. To
# use MNIST (28×28), change one word; the lab then takes about seven minutes instead of
# one.
#
# All labs run on the processor. With a GPU you can say `"cuda"`; `devices.use()` chooses
# by itself. Data and models are then on the GPU, so your functions must create new
# tensors there, too: `torch.zeros_like(w)`, or `device=w.device`. The checks and the
# grader use the processor, and milliseconds are always measured there.

# %%
DATA = "digits"  # or "mnist"
DEVICE = devices.use("cpu")  # or "cuda"
SEEDS = range(3)
SETTINGS = lab01.SETTINGS[DATA]  # training images; epochs of dense networks and of fine-tuning
data = load(DATA).subset(SETTINGS["train"], validation=lab01.VALIDATION)
against_sparsity = partial(plots.curves, x="sparsity", y="accuracy", xaxis="sparsity")

sizes = ", ".join(f"{len(getattr(data, s).labels)} {s}" for s in ("train", "validation", "test"))
say(f"{sizes} images. One validation image is {100 / len(data.validation.labels):.2f} points.")

# %% [markdown]
# ### The network
#
# The network has four 3×3 convolutions (32, 32, 64, 64 filters), each followed by
# **batch norm** and ReLU, then a global average and one linear layer. We train it from
# three seeds, with SGD, momentum and weight decay; every experiment uses all three
# networks. ([What each experiment does](../course_lib/experiments/lab01.py), in a few
# lines each.)

# %%
dense = lab01.train_dense(data, SEEDS, SETTINGS["dense_epochs"])
weights = lab01.prunable(dense.network[0])  # name -> parameter, those with two or more dimensions
say(f"Validation accuracy of the dense networks: **{pm(dense.accuracy)} %**.")
tables.plain(lab01.count_weights(weights))

# %% [markdown]
# ## Part A · Which weights are pruned?
#
# If you remove a weight $w_i$, the layer's output changes by $w_i a_i$, where $a_i$ is
# the input that this weight multiplies. If you know only that the inputs are of similar
# size, you keep the change small by removing the weights with the smallest $|w_i|$.
# This is the whole theory of magnitude pruning. (It ignores $a_i$: see lab 02.)
#
# A **mask** records which weights are kept: a boolean tensor with the shape of the
# weight, `True` = kept. Masks are stored outside the model, in a dict keyed by
# parameter name. The *sparsity* $s$ is the fraction of weights that are pruned.

# %% [markdown]
# ### 1.1 Prune the smallest weights
# **12 minutes · 3 points**
#
# Write `magnitude_mask`. "Prune 30 % of 15 weights" fixes a *number*: exactly
# `round(0.3 * 15)` weights are pruned, also where several weights have the same size
# $|w|$.
#
# Write it yourself, without `torch.nn.utils.prune` and `course_lib.pruning`.
#
# **What is tested**: the exact number; ties (the first in row-major order is pruned
# first) and nearly equal sizes; sparsity 0 and 1; `ValueError` for a sparsity outside
# [0, 1] or a NaN; the weight is not changed, and calls do not depend on each other.
#
# *Before you look:* the trained network is pruned layer by layer with this rule, all at
# once and with no training afterwards. Up to which sparsity does it stay within one
# point of its dense accuracy? (A fraction, such as 0.3.)

# %%
### BEGIN SOLUTION
prediction_1_1 = 0.5  # a guess; the experiment below says how good
### END SOLUTION


# %%
def magnitude_mask(weight: Tensor, sparsity: float) -> Tensor:
    """Compute a mask that keeps the weights with the largest absolute values.

    Args:
        weight: any shape. It is not changed.
        sparsity: the fraction s to prune, in [0, 1].

    Returns:
        A bool tensor like ``weight``, True = kept. With n weights exactly
        ``round(s * n)`` are False (Python's ``round``): those with the smallest |w|.
        Among equal sizes, the first in row-major order is pruned first.

    Raises:
        ValueError: if ``sparsity`` is outside [0, 1], or a weight is NaN.

    >>> magnitude_mask(torch.tensor([3.0, -1.0, 2.0, 0.5]), 0.5)
    tensor([ True, False,  True, False])
    """
    ### BEGIN SOLUTION
    if not 0 <= sparsity <= 1:
        raise ValueError(f"sparsity is a fraction and must lie in [0, 1], got {sparsity}")
    size = weight.detach().abs().flatten()  # (n,)
    if size.isnan().any():
        raise ValueError("weight must not contain NaN: NaN cannot be ranked by size")
    # smallest first; stable, so equal sizes stay in row-major order
    order = size.argsort(stable=True)
    mask = torch.ones_like(size, dtype=torch.bool)
    mask[order[: round(sparsity * len(size))]] = False
    return mask.view(weight.shape)
    ### END SOLUTION


# %%
check("1.1")

# %% [markdown]
# <details><summary>Hint 1: ranks, not thresholds</summary>A threshold prunes all equal
# weights or none of them, so it cannot give the exact number. An <i>order</i> of the
# weights can. Which positions come first?</details>
# <details><summary>Hint 2: which function</summary>Look up <code>argsort</code>, and
# read what its argument
# <code>stable</code> does. Without it, equal values may come in any order.</details>
# <details><summary>Hint 3: back to the shape</summary>Build a flat mask, set the pruned
# positions to False by index, and give it the shape of the weight at the end.</details>

# %% [markdown]
# #### Before and after
#
# We prune 70 per cent of the third convolution's weights. Afterwards the middle of the
# histogram is missing. The number of zeros is given in words, since their bar would hide
# everything else.

# %%
w = weights["conv3.weight"].detach()
cut = w.masked_fill(~magnitude_mask(w, 0.7), 0)
plots.histograms(
    {"dense": w, "pruned": cut}, title="Weights of conv3 before and after pruning 70 %"
)

# %% [markdown]
# #### Experiment: all at once, with no repair
#
# Pruning all at once is called *one-shot* (or post-training) pruning; some authors call
# it zero-shot. The random baseline prunes the same number of weights in each layer: for
# a method whose name begins with "random", `lab01.prune_once` passes random numbers
# instead of the weights. Both methods start from the same three dense networks.


# %%
def by_layer(weights: dict[str, Tensor], sparsity: float) -> dict[str, Tensor]:
    return {name: magnitude_mask(w, sparsity) for name, w in weights.items()}


GRID = [0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9]
one_shot = lab01.prune_once(dense, data, {"one-shot": by_layer, "random": by_layer}, GRID)
title = "One-shot pruning: accuracy by sparsity"
against_sparsity(one_shot, title=title, guess=(prediction_1_1, None), constant=10)

# %%
good = lab01.within_a_point(one_shot, "one-shot")
say(f"Within one point of dense up to **{100 * good:.0f} %** sparsity.")
tables.means(one_shot.dropna(), "accuracy", columns="sparsity")

# %% [markdown]
# **What the paper found.** [Han et al. (2015)](https://arxiv.org/abs/1506.02626) report
# two results on AlexNet. About half of the weights can be pruned without loss even
# without retraining. Beyond that, accuracy falls much sooner than *with* retraining.
# How many weights could be pruned here, and was magnitude better than random? See the
# table.

# %% [markdown]
# ### 1.2 A threshold instead of a number
# **4 minutes · 1 point**
#
# You will often see a threshold $a$ instead of a number:
#
# $$m_i = \begin{cases}1 & \text{if } |w_i| \ge a\\ 0 & \text{if } |w_i| < a\end{cases}$$
#
# **What is tested**: both signs; $|w| = a$ is kept; $a$ equal to 0, above every $|w|$,
# and near 1e-30.
#
# Write it yourself, without `torch.nn.utils.prune`, `hardshrink` and
# `course_lib.pruning`.

# %%
TABLE = torch.tensor(
    [
        [0.1, 3, 0.2, 1, 0.4, 0.2, -1, 3, 0.4, 0.6],
        [0.2, 1.2, 0.2, -1, 0.2, -3, 0.5, -3, 3, -1],
        [-8, -1, 0.6, 1.4, 0.1, 0.1, -2, 0.1, -7, -1],
    ]
)


# %%
def threshold_mask(weight: Tensor, a: float) -> Tensor:
    """Keep the weights with |w| >= a: a bool tensor like ``weight``, True = kept.

    Raises:
        ValueError: if ``a`` is negative.

    >>> threshold_mask(torch.tensor([0.5, -1.0, -0.25]), 0.5)
    tensor([ True,  True, False])
    """
    if not a >= 0:
        raise ValueError(f"a is a threshold on |w| and must be at least 0, got {a}")
    ### BEGIN SOLUTION
    return weight.detach().abs() >= a
    ### END SOLUTION


# %%
check("1.2")

# %%
kept = threshold_mask(TABLE, 1)
print(TABLE.where(kept, 0))
say(f"{int(kept.sum())} of {kept.numel()} are kept.")

# %% [markdown]
# The weights 1 and −1 are kept, because the threshold itself is *not* pruned. With `>`
# instead of `>=` they would be pruned, too. A threshold fixes which size is small; a
# sparsity fixes how many weights are pruned. Han et al. use a threshold per layer (a
# chosen factor times the standard deviation of its weights). To compare methods *at
# equal sparsity*, we fix the number.

# %% [markdown]
# ### 1.3 Whole groups
# **20 minutes · 4 points · needs 1.1**
#
# Scattered zeros do not help a processor or a memory that loads whole lines. So we
# prune larger groups. A convolution's weight has the shape $(M, C, R, S)$: $M$ filters,
# each of $C$ kernels, each of $R$ rows with $S$ weights.
#
# | granularity | one group is | how many groups | size of a group |
# |---|---|---|---|
# | `"element"` | one weight | $M C R S$ | 1 |
# | `"row"` | a row of a kernel | $M C R$ | $S$ |
# | `"kernel"` | a kernel | $M C$ | $R S$ |
# | `"filter"` | a filter | $M$ | $C R S$ |
#
# A matrix (out, in) has only two granularities: `"element"` and `"filter"`. Its filters
# are its rows, the weights of one output unit each.
#
# The score of a group is the *sum of the absolute values* in it (its L1 norm). Prune
# the groups with the smallest scores, `round(s · groups)` of them.
#
# Write it yourself, without `torch.nn.utils.prune` and `course_lib.pruning`.
#
# **What is tested**: every granularity, also of a matrix; the exact number of groups;
# ties; norms in float64; the weight is not changed.


# %%
def grouped_mask(weight: Tensor, sparsity: float, granularity: str) -> Tensor:
    """Prune whole groups, those with the smallest L1 norm.

    Args:
        weight: a convolution's (M, C, R, S), or a matrix (out, in).
        sparsity: the fraction of *groups* to prune, in [0, 1].
        granularity: "element", "row" (over S), "kernel" (over R, S) or "filter" (over
            C, R, S); for a matrix "element" or "filter" (over in).

    Returns:
        A bool tensor like ``weight``, True = kept, the same within a group. Exactly
        ``round(sparsity * groups)`` groups are pruned; among equal norms the first group
        is pruned first. Norms are summed in float64.

    Raises:
        ValueError: as 1.1 does; if ``weight`` has neither 4 nor 2 dimensions; if it has
            no such granularity.

    >>> grouped_mask(torch.tensor([[3.0, 0.0], [-2.0, 2.0]]), 0.5, "filter").tolist()  # norms 3, 4
    [[False, False], [True, True]]
    """
    known = {4: ["element", "row", "kernel", "filter"], 2: ["element", "filter"]}
    if weight.ndim not in known:
        raise ValueError(
            f"weight must have 4 dimensions (M, C, R, S) or 2 (out, in), got {weight.ndim}"
        )
    if granularity not in known[weight.ndim]:
        raise ValueError(
            f"granularity must be one of {known[weight.ndim]} for {weight.ndim} dimensions, got"
            f" {granularity!r}"
        )
    ### BEGIN SOLUTION
    if weight.ndim == 4:
        dims = {"element": (), "row": (3,), "kernel": (2, 3), "filter": (1, 2, 3)}
    else:
        dims = {"element": (), "filter": (1,)}
    norm = weight.detach().abs().double()
    for dim in dims[granularity]:
        norm = norm.sum(dim, keepdim=True)  # finally (M, C, R, S) with 1 where we summed
    return magnitude_mask(norm, sparsity).expand_as(weight).clone()
    ### END SOLUTION


# %%
check("1.3")

# %% [markdown]
# <details><summary>Hint 1: what is different from 1.1?</summary>Only the ranked numbers
# are different. Make a smaller tensor that holds one number per group, prune
# <i>that</i> with 1.1, and copy each result to all members of the group.</details>
# <details><summary>Hint 2: keepdim</summary>A sum with <code>keepdim=True</code> leaves
# a dimension of length 1, which
# <code>expand_as</code> stretches again.</details>
# <details><summary>Hint 3: a trap</summary><code>x.sum(dim=())</code> sums over
# <i>all</i> dimensions, not over none.</details>

# %% [markdown]
# #### What the masks look like
#
# We prune the second convolution at 70 %. Each row of the picture is a filter, each
# column is an input channel, and each little square is a 3×3 kernel. All four masks
# prune 70 % of the layer, as nearly as whole groups can. You see 12 of the 32 filters
# and channels. The share above each picture is that of this corner.

# %%
w = weights["conv2.weight"]
corners = {g: grouped_mask(w, 0.7, g)[:12, :12] for g in lab01.GRANULARITIES}
plots.show(
    plots.grid(corners, title="Equal sparsity, four patterns (a corner of conv2)"),
)

# %% [markdown]
# #### Experiment: what broke?
#
# Look again at the collapse of accuracy in 1.1. After every convolution here, batch
# norm computes $\alpha\,\frac{x-\mu}{\sqrt{\sigma^2+\varepsilon}}+\beta$ for each
# channel. Its $\mu$ and $\sigma$ were **measured on the dense network** during
# training. Pruning makes a layer's sums smaller and changes their mean, but $\mu$ and
# $\sigma$ are still the old ones (*stale*).
#
# `recalibrate` measures $\mu$ and $\sigma$ again. It sends 512 training images once
# through the pruned network, and every batch norm averages the means and variances of
# its inputs. It uses no labels and no gradients, and no weight changes.
#
# *Before you run it:* look up in 1.1 the accuracy of the one-shot networks at 70 %
# sparsity. What will it be after recalibration alone, in %?

# %%
### BEGIN SOLUTION
prediction_1_3b = 60
### END SOLUTION


# %%
def layer_masks(weights: dict, sparsity: float, granularity: str = "element") -> dict:
    pieces = {4: granularity, 2: "element"}  # the matrix (its rows are classes): by weight
    return {name: grouped_mask(w, sparsity, pieces[w.ndim]) for name, w in weights.items()}


both = {"recalibrated": layer_masks, "random": layer_masks}
recalibrated = lab01.prune_once(dense, data, both, GRID, repair=True)
with_one_shot = pd.concat([recalibrated, one_shot[one_shot.method == "one-shot"]])
title = "Accuracy by sparsity, with and without recalibration"
against_sparsity(with_one_shot, title=title, guess=(0.7, prediction_1_3b))

# %%
at_70 = with_one_shot.query("sparsity == 0.7 and method != 'random'")
after, before = at_70[at_70.seed == 0].network
same = all(map(torch.equal, before.parameters(), after.parameters()))
say(f"Are all parameters of the two networks at 70 % the same, bit for bit? **{same}.**")
tables.means(at_70, "accuracy", columns="sparsity")

# %% [markdown]
# Now the same comparison for each granularity. If an accuracy recovers, stale
# statistics had caused its collapse. If it does not, the network has lost something
# that new statistics cannot restore.

# %%
broken = lab01.find_what_broke(dense, data, layer_masks, sparsity=0.5)
title = "One-shot at 50 %: accuracy by granularity and repair"
look = {"by": "method", "fmt": "{:.0f}", "constant": 10}
plots.bars(broken, x="granularity", y="accuracy", title=title, **look)

# %%
say("Where intervals overlap, three seeds may not rank them.")
tables.means(broken, "accuracy", rows="granularity", columns="method")

# %% [markdown]
# So *a pruned network at chance accuracy (that of guessing) has not always lost what it
# learned.* If a paper reports that one-shot pruning destroyed a network with batch
# norm, ask whether the statistics were measured again. Li et al. ([2020,
# "EagleEye"](https://arxiv.org/abs/2007.02491)) found that pruning candidates can be
# ranked properly only after such a measurement. Fine-tuning also updates the
# statistics. This explains a part of its effect in the first epoch.
#
# {{claim 01.1}}
#
# Look at the random baseline, too. Do random *kernels* do less harm in your figure than
# random *weights*? A filter that loses whole kernels still receives undamaged signals
# from the channels that it keeps. A filter that loses single weights receives damaged
# signals from all channels. So the harm does not depend only on the size of the groups.

# %% [markdown]
# ### 1.4 One threshold for all layers
# **10 minutes · 2 points · needs 1.1**
#
# So far the same share of each layer was pruned. But some layers have more small
# weights than others. Now rank the weights of *all* layers in one list, and prune the
# smallest $|w|$ of this list.
#
# Write it yourself, without `torch.nn.utils.prune` and `course_lib.pruning`.
#
# **What is tested**: the exact number over all layers; ties in the order of the dict;
# biases and batch-norm parameters are not pruned; sparsity 0 and 1; the weights are not
# changed.


# %%
def global_masks(weights: dict[str, Tensor], sparsity: float) -> dict[str, Tensor]:
    """Prune the smallest weights of all layers together.

    Args:
        weights: name -> tensor, such as ``dict(model.named_parameters())``. Tensors
            with fewer than two dimensions (biases, norms) take no part.
        sparsity: fraction of the n weights that take part, in [0, 1].

    Returns:
        name -> bool mask (True = kept), for the names with two or more dimensions and
        in their order. Together exactly ``round(sparsity * n)`` are False; among equal
        |w| the first is pruned first (tensors in the dict's order, then row-major).

    Raises:
        ValueError: as 1.1 does.

    >>> layers = {"a": torch.tensor([[1, 2.0]]), "bias": torch.zeros(1), "b": torch.tensor([[3.0]])}
    >>> global_masks(layers, 0.5)  # round(1.5) is 2
    {'a': tensor([[False, False]]), 'b': tensor([[True]])}
    """
    ### BEGIN SOLUTION
    layers = {name: w for name, w in weights.items() if w.ndim >= 2}
    together = torch.cat([w.detach().flatten() for w in layers.values()])  # (n,)
    pieces = magnitude_mask(together, sparsity).split([w.numel() for w in layers.values()])
    return {
        name: piece.view(w.shape) for (name, w), piece in zip(layers.items(), pieces, strict=True)
    }
    ### END SOLUTION


# %%
check("1.4")

# %% [markdown]
# <details><summary>Hint 1: where to start</summary>Put all weights into one long
# vector. Pruning its smallest weights is the problem that you solved in 1.1.</details>
# <details><summary>Hint 2: back to layers</summary><code>torch.split</code> undoes
# <code>torch.cat</code>.</details>

# %% [markdown]
# #### Experiment: which layers lose most?

# %%
shares = lab01.prune_each_layer(dense, global_masks, 0.9)
title = "Share of each layer that is pruned, at 90 % in all"
plots.bars(shares, x="layer", y="pruned (%)", by="method", fmt="{:.0f}", title=title)

# %%
conv1 = shares.query("layer == 'conv1' and method == 'global'")["pruned (%)"]
say(f"Pruned in `conv1`: **{pm(conv1)} %** of its weights.")

# %% [markdown]
# Is the global rule better? We compare both, recalibrated and without training:

# %%
scope = {"global": global_masks, "each layer": layer_masks, "random": global_masks}
scopes = lab01.prune_once(dense, data, scope, [0.6, 0.7, 0.8, 0.9, 0.95], repair=True)
against_sparsity(scopes, title="One threshold for all layers, or one per layer? (recalibrated)")

# %%
tables.compare(scopes.dropna(), "accuracy", against="each layer", columns="sparsity")

# %% [markdown]
# {{claim 01.2}}
#
# The global rule prunes mostly the large layers and keeps more of the small first and
# last layers. Is that always better? The rule compares sizes across layers, so it
# depends on each layer's *scale*. But batch norm removes this scale. If you multiply
# all weights of `conv3` by 0.1 and recalibrate, you have the same function. The global
# rule prunes this function differently:

# %%
scaled = lab01.scale_layer(dense[:1], data, "conv3.weight", 0.1)
cut = lab01.prune_once(scaled, data, {"global": global_masks}, [0.9], repair=True)
removed = (cut.network.iloc[-1].conv3.weight == 0).double().mean()
say(
    f"`conv3` × 0.1, recalibrated, not pruned: {cut.accuracy.iloc[0]:.1f} % (before:"
    f" {dense.accuracy[0]:.1f} %). Global pruning at 90 % now prunes **{100 * removed:.1f} %** of"
    f" `conv3`, and the network scores **{cut.accuracy.iloc[-1]:.1f} %** after recalibration."
)

# %% [markdown]
# One threshold for all layers is a good rule if all layers were trained with the same
# weight decay. It is a bad rule if a layer has been rescaled. Check the share that each
# layer loses.

# %% [markdown]
# ## Part B · Training the kept weights
#
# The recipe of Han et al. is *train, prune, train again*: the kept weights learn to do
# the work of the pruned weights. This training needs gradients through a pruned layer.

# %% [markdown]
# ### 1.5 The backward pass of a pruned layer
# **25 minutes · 3 points**
#
# Let $W' = W \circ m$ (elementwise) and, for one input $a$, $y = W' a$. The layer
# computes with $W'$, so the chain rule goes through $W'$:
#
# $$\frac{\partial L}{\partial a} = W'^{\top}\frac{\partial L}{\partial y},\qquad
# \frac{\partial L}{\partial W} = \frac{\partial L}{\partial W'}\circ\frac{\partial W'}{\partial W}
# = \Big(\frac{\partial L}{\partial y}\,a^{\top}\Big)\circ m .$$
#
# The last factor is 0 where $W$ is pruned, otherwise 1. Autograd would compute both
# gradients from a product with `w * m`. Here you write them by hand, because two
# mistakes are common: to use the dense $W$ in the first formula, and not to mask the
# second.
#
# In PyTorch a function with its own backward pass looks like this. It computes
# $y = x^2$ and is called as `Square.apply(x)`:
#
# ```python
# class Square(torch.autograd.Function):
#     @staticmethod
#     def forward(ctx, x):
#         ctx.save_for_backward(x)  # ctx is new for every call; backward gets the same one
#         return x**2
#
#     @staticmethod
#     def backward(ctx, grad_y):  # dL/dy comes from the loss, in the shape of y
#         (x,) = ctx.saved_tensors
#         return grad_y * 2 * x  # dL/dx
# ```
#
# `backward` returns one value for each argument of `forward` after `ctx`, in their
# order: a gradient in the shape of the argument, or `None` where there is no gradient.
#
# (For 1.7: a layer that *multiplies* by the mask does not remove a pruned weight that
# has become NaN, since 0 × NaN is NaN. Filling in zeros removes it. In 1.5 both ways
# are right.)
#
# **What is tested**: $y$ and both gradients; any number of leading dimensions; two
# layers in one network; another mask on the same $W$.


# %%
class PrunedLinear(torch.autograd.Function):
    """``PrunedLinear.apply(x, w, m)``: the linear layer y = x (w ∘ m)ᵀ.

    x: (..., d_in), any number of leading dimensions, also none. w: (d_out, d_in).
    m: bool like w, True = kept. Returns y: (..., d_out).
    Gradients: of x through the pruned weight; of w masked, so exactly 0 where m is False;
    none of m.

    >>> w, m = torch.tensor([[2.0, 3.0]], requires_grad=True), torch.tensor([[True, False]])
    >>> PrunedLinear.apply(torch.ones(1, 2), w, m).sum().backward()
    >>> w.grad
    tensor([[1., 0.]])
    """

    @staticmethod
    def forward(ctx, x: Tensor, w: Tensor, m: Tensor) -> Tensor:
        """Compute y and save the tensors that ``backward`` needs.

        Raises:
            ValueError: if ``m`` is not a bool tensor of the shape of ``w``.
        """
        if m.dtype != torch.bool or m.shape != w.shape:
            raise ValueError(
                f"m must be bool with w's shape {tuple(w.shape)}, got {m.dtype} {tuple(m.shape)}"
            )
        ### BEGIN SOLUTION
        w_pruned = w.masked_fill(~m, 0)  # filled, not multiplied: 0 * NaN would be NaN
        ctx.save_for_backward(x, w_pruned, m)
        return x @ w_pruned.T
        ### END SOLUTION

    @staticmethod
    def backward(ctx, grad_y: Tensor):
        """Return dL/dx, dL/dw and None (a mask has no gradient); ``grad_y``: (..., d_out),
        dL/dy.
        """
        ### BEGIN SOLUTION
        x, w_pruned, m = ctx.saved_tensors
        grad_x = grad_y @ w_pruned  # (..., d_in)
        # (rows, d_out): one row per combination of leading indices
        rows_y = grad_y.reshape(-1, grad_y.shape[-1])
        rows_x = x.reshape(-1, x.shape[-1])  # (rows, d_in)
        return grad_x, (rows_y.T @ rows_x).masked_fill(~m, 0), None
        ### END SOLUTION


# %%
check("1.5")

# %% [markdown]
# <details><summary>Hint 1: shapes decide</summary>dL/dx must have the shape of x: only
# one product of dL/dy (…, d_out) and a (d_out, d_in) matrix gives that. No transpose is
# needed for row vectors.</details>
# <details><summary>Hint 2: leading dimensions</summary>The gradient of w sums over
# everything that is not d_in or d_out. Flatten all leading dimensions to one before the
# product.</details>
# <details><summary>Hint 3: three arguments</summary><code>forward</code> takes x, w and
# m, so <code>backward</code> returns three values. Which saved tensors does each formula
# need?</details>

# %% [markdown]
# #### How wrong is the gradient through the dense $W$?

# %%
cosines = lab01.compare_gradients(dense, PrunedLinear, magnitude_mask, [0.5, 0.9, 0.95])
say("Cosine between the right ∂L/∂a and that through the dense W.")
tables.means(cosines, "cosine", columns="sparsity", digits=2)

# %% [markdown]
# The direction is not completely wrong: training would continue with worse gradients,
# and no error message would warn you. (For random masks the cosine is about
# $\sqrt{1-s}$, the root of the share of squared weights that is kept. Magnitude pruning
# keeps a larger share.)

# %% [markdown]
# ## Part C · Which layers are sensitive?

# %% [markdown]
# ### 1.6 Sensitivity, one layer at a time
# **10 minutes · 2 points · needs 1.1**
#
# Before you prune all layers, test each layer. Prune *one* layer to each sparsity, keep
# all other layers dense, measure, and restore the layer. Measure on **validation**
# data, since the results are used to make choices.
#
# Write it yourself, without `torch.nn.utils.prune` and `course_lib.pruning`.
#
# **What is tested**: one layer at a time, each from its dense weights; validation data;
# one call of `evaluate` per layer and sparsity, its values unchanged and in order;
# weights, training mode and parameter objects are the same as before the call.


# %%
def sensitivity(
    model: nn.Module, evaluate: Callable, sparsities: list[float]
) -> dict[str, list[float]]:
    """Prune one layer at a time by magnitude, and evaluate the network each time.

    Args:
        model: it is the same after the call as before.
        evaluate: called as ``evaluate(model, "validation")``, once per layer and
            sparsity.
        sparsities: fractions to prune, each from the *unpruned* layer.

    Returns:
        name -> list of what ``evaluate`` returned, unchanged, one value per sparsity;
        for every parameter with two or more dimensions.

    Raises:
        ValueError: as 1.1 does.

    >>> count_zeros = lambda model, split: int((model.weight == 0).sum())
    >>> sensitivity(nn.Linear(4, 1), count_zeros, [0.5, 0.25])
    {'weight': [2, 1]}
    """
    ### BEGIN SOLUTION
    measured = {}
    for name, parameter in model.named_parameters():
        if parameter.ndim < 2:
            continue
        original = parameter.detach().clone()
        measured[name] = []
        try:
            for sparsity in sparsities:
                mask = magnitude_mask(original, sparsity)
                with torch.no_grad():
                    parameter.copy_(original.masked_fill(~mask, 0))
                measured[name].append(evaluate(model, "validation"))
        finally:  # also if evaluate raises, or you interrupt the cell
            with torch.no_grad():
                parameter.copy_(original)
    return measured
    ### END SOLUTION


# %%
check("1.6")

# %% [markdown]
# <details><summary>Hint 1: two loops and a copy</summary>Outer loop over layers, inner
# loop over sparsities; keep a clone of the layer's weights and start from it each
# time.</details>
# <details><summary>Hint 2: in place</summary><code>parameter.copy_(…)</code> under
# <code>torch.no_grad()</code> changes the numbers and keeps the parameter
# object.</details>

# %% [markdown]
# #### Experiment: two maps
#
# `lab01.map_sensitivity` calls your function with two versions of `evaluate`: one
# measures the pruned network as it is, the other recalibrates a copy first. From left
# to right one layer becomes sparser; all other layers are dense. (The maps have
# different colour scales.)

# %%
maps = lab01.map_sensitivity(dense, data, sensitivity, [0.5, 0.8, 0.9, 0.95])
for how, scan in maps.groupby("batch_norm"):
    table = scan.pivot_table(index="layer", columns="sparsity", values="accuracy")
    title = f"Which layer is sensitive? (accuracy in %, {how})"
    plots.show(plots.grid(table, title=title, xlabel="sparsity of this layer alone"))

# %% [markdown]
# **What the paper found.** Han et al. report that convolutions are more sensitive than
# the (huge) fully connected layers of AlexNet. They found the first convolution, whose
# input is the image, the most sensitive. Compare with your first map at a sparsity
# where at most one layer has dropped to chance accuracy; layers at chance accuracy
# cannot be ranked. Then look at the second map. Recalibration changes how sensitive a
# layer *seems*, and may change the ranking. Our last layer is small and comes after an
# average, so it cannot be compared with AlexNet's.

# %% [markdown]
# ## Part D · A little at a time
#
# *Prune a little, train, prune a little more*: each step prunes the network after it
# has adapted to the step before.

# %% [markdown]
# ### 1.7 Iterative pruning
# **30 minutes · 3 points · needs 1.1**
#
# You write two functions. **The schedule** ([Zhu & Gupta
# 2017](https://arxiv.org/abs/1710.01878)) prunes fast at first and slowly at the end.
# After step $t$ of $T$ the sparsity is
#
# $$s_t = s_{\text{final}}\,\Big(1-\big(1-\tfrac{t}{T}\big)^3\Big),\qquad t = 1,\dots,T .$$
#
# These targets are *cumulative*. A target of 0.8 after a target of 0.5 means that 80 %
# of **all** weights are then pruned, not 80 % of the kept weights (that would be 90 %).
#
# **The loop**: for each target, prune every layer by magnitude to this sparsity, then
# fine-tune. *Zeros stay zero*, and *masks only shrink*: no pruned weight is kept later.
#
# Write it yourself, without `torch.nn.utils.prune` and `course_lib.pruning`.
#
# **What is tested**: the formula, without rounding the targets; one, several and repeated
# targets; `finetune` once per target; parameters stay the same objects; pruned weights
# stay zero with momentum and Adam, also after NaN; `ValueError` before anything is pruned.


# %%
tables.plain(lab01.train_with_masked_gradients(magnitude_mask))

# %% [markdown]
# An optimizer with momentum still applies old gradients; a mask removes only the *new*
# gradients. For every optimizer it helps to set the pruned weights to zero again
# **after every optimizer step**. So `finetune(model, post_step)` calls your function
# `post_step()` after each step.
#
# The optimizer inside `finetune` holds the parameter *objects*. So change the numbers in a
# parameter, and never replace it by a new `nn.Parameter`: the optimizer would continue to
# train the old one.


# %%
def cubic_schedule(final: float, steps: int) -> list[float]:
    """Compute the ``steps`` cumulative targets final · (1 − (1 − t/steps)³), t = 1 … steps.

    Raises:
        ValueError: if ``final`` is outside [0, 1] or ``steps`` is below 1.

    >>> cubic_schedule(0.5, 2)
    [0.4375, 0.5]
    """
    if not 0 <= final <= 1:
        raise ValueError(f"final is a sparsity and must lie in [0, 1], got {final}")
    if steps < 1:
        raise ValueError(f"steps must be at least 1, got {steps}")
    ### BEGIN SOLUTION
    return [final * (1 - (1 - t / steps) ** 3) for t in range(1, steps + 1)]
    ### END SOLUTION


def iterative_prune(
    model: nn.Module, targets: list[float], finetune: Callable
) -> dict[str, Tensor]:
    """Prune to each target in turn, by magnitude and layer by layer, and fine-tune
    after each.

    Args:
        model: changed in place. Every parameter with two or more dimensions is pruned;
            all stay the same objects.
        targets: cumulative sparsities in [0, 1], none smaller than the one before. A
            single target is one-shot pruning.
        finetune: called as ``finetune(model, post_step)`` after every target; it calls
            ``post_step()`` after each optimizer step.

    Returns:
        name -> bool mask (True = kept). After the last target exactly
        ``round(target * n)`` of the n weights of each layer are pruned; each target
        prunes the smallest |w| among the kept weights. Masks only shrink. Pruned weights
        are 0, also if an optimizer step has made them NaN.

    Raises:
        ValueError: if a target is outside [0, 1] or smaller than the one before; the
            model is then unchanged.

    >>> model, finetune = nn.Linear(4, 1), lambda model, post_step: post_step()
    >>> int(iterative_prune(model, [0.5, 0.75], finetune)["weight"].sum())  # 3 of 4 are pruned
    1
    """
    ### BEGIN SOLUTION
    for previous, target in zip([0, *targets], targets, strict=False):
        if not previous <= target <= 1:
            raise ValueError(
                f"targets are cumulative: they must lie in [0, 1] and never fall, got {targets}"
            )
    layers = {name: p for name, p in model.named_parameters() if p.ndim >= 2}
    masks = {name: torch.ones_like(p, dtype=torch.bool) for name, p in layers.items()}

    @torch.no_grad()
    def post_step() -> None:
        for name, p in layers.items():
            p.masked_fill_(~masks[name], 0)  # in place; and filled, since NaN * 0 is NaN

    for target in targets:
        for name, p in layers.items():
            alive = masks[name]
            # (kept,): only these are ranked, so no pruned weight returns
            kept = p.detach()[alive]
            more = round(target * p.numel()) - (p.numel() - len(kept))
            shrunk = alive.clone()
            shrunk[alive] = magnitude_mask(kept, more / max(len(kept), 1))
            masks[name] = shrunk
        post_step()
        finetune(model, post_step)
    return masks
    ### END SOLUTION


# %%
check("1.7")

# %% [markdown]
# <details><summary>Hint 1: which weights are ranked?</summary>Rank only the kept
# weights. If you rank all weights, a kept weight that happens to be 0 may be pruned
# instead of a pruned weight, and the pruned weight is kept again.</details>
# <details><summary>Hint 2: how many are pruned now?</summary>The target gives the
# number that is pruned <i>in total</i>. Subtract the number that is already
# pruned.</details>
# <details><summary>Hint 3: post_step</summary>A function defined inside
# <code>iterative_prune</code> can read its variables: let it read the masks and write
# zeros into the parameters, in place and without gradients.</details>
# <details><summary>Hint 4: selecting and writing back</summary>With a bool mask
# <code>alive</code>, <code>p[alive]</code> is the 1-D list of kept weights in row-major
# order; <code>shrunk[alive] = kept</code> writes one boolean to the place of
# each.</details>

# %% [markdown]
# #### Experiment: five methods
#
# We compare four ways to reach a sparsity $s$ with the random baseline:
#
# - **one-shot**: prune, nothing else;
# - **recalibrated**: prune, then measure batch norm's statistics again;
# - **fine-tuned**: prune once, then train the kept weights;
# - **iterative**: prune in three cubic steps, and train after each;
# - **random**: like fine-tuned, but the pruned weights are chosen at random.
#
# The comparison is fair only at an **equal budget**: *fine-tuned*, *iterative* and
# *random* each get the same number of epochs in total. So *iterative* trains for only a
# third of its epochs at the final sparsity.
#
# *Before you look:* at 98 % sparsity, what accuracy, in %, will *iterative* reach?

# %%
### BEGIN SOLUTION
prediction_1_7b = 80
### END SOLUTION

# %%
steps = lab01.list_targets(cubic_schedule, 0.9, 10)
title = "Cumulative targets of the cubic schedule"
plots.curves(steps, x="step", y="pruned (%)", control=None, title=title)

# %%
SPARSITIES, BUDGET = [0.8, 0.9, 0.95, 0.98], SETTINGS["budget"]
in_steps = lab01.prune_in_steps(dense, data, iterative_prune, cubic_schedule, SPARSITIES, BUDGET)
at_random = lab01.prune_once(dense, data, {"random": layer_masks}, SPARSITIES, epochs=BUDGET)
trained = pd.concat([in_steps, at_random])

# %%
repaired = lab01.prune_once(dense, data, {"recalibrated": layer_masks}, SPARSITIES, repair=True)
cut = lab01.prune_once(dense, data, {"one-shot": layer_masks}, SPARSITIES)
classic = pd.concat([trained, repaired, cut])
classic["remaining"] = 1 - classic.sparsity
title = f"Accuracy by share of weights kept ({BUDGET} epochs where trained)"
look = {"xaxis": "remaining", "paper": lab01.HAN, "guess": (0.02, prediction_1_7b)}
plots.curves(classic, x="remaining", y="accuracy", title=title, **look)

# %%
tables.show(tables.means(classic.dropna(), "accuracy", columns="sparsity"))
tables.compare(trained.dropna(), "accuracy", against="fine-tuned", columns="sparsity")

# %% [markdown]
# {{claim 01.3}}
#
# {{claim 01.4}}
#
# On the digits, random masks are good too, after training. The network is much larger
# than these digits need: after some epochs of training almost *any* tenth of it is
# enough. Magnitude helps where training cannot repair the choice: before any training
# (compare *recalibrated* with the random curve of 1.3), and perhaps where very few
# weights are kept. Can three seeds detect a difference at 98 %?
#
# {{claim 01.5}}
#
# The last step of iterative pruning gets only a third of the training. Han et al. report that iterating took AlexNet from 5× to 9× fewer weights
# without loss of accuracy, but with *long* retraining after each step. So does the
# result depend on the budget? Here is a longer run of the same experiment, on the
# digits with five seeds (`course remake lab01_long_run_digits` repeats it in about ten
# minutes). *Before you look:* from how many epochs in total do you expect six steps to
# be better than one?

# %%
long_run = experiments.read("lab01_long_run_digits/accuracy")
plots.curves(long_run, x="epochs", y="accuracy", xaxis="log", title="98 %: one-shot or iterative?")

# %%
tables.compare(long_run, "accuracy", against="fine-tuned", columns="epochs")

# %% [markdown]
# Iterating is neither better nor worse than pruning once: it needs *more epochs*. Six
# steps with one epoch each are much worse; with five epochs each they are much better.
# A paper that compares the two at one budget shows one column of this table.
#
# **What the papers found.** Han et al. (2015) report 9× fewer weights on AlexNet, 13×
# on VGG-16 and 12× on LeNet-300-100 (the diamond above: 267k → 22k weights, error 1.64 →
# 1.59 %) without loss of accuracy. Zhu & Gupta (2017) prune gradually with the cubic
# schedule. Their InceptionV3 on ImageNet has 78.1 % top-1 accuracy dense, 78.0 at 50 %,
# 76.1 at 75 %, 74.6 at 87.5 %. An ImageNet network can lose fewer weights than ours, so
# its curve falls earlier. The *shape*, a plateau and then a fall, is the same.

# %% [markdown]
# #### After fine-tuning: the two humps
#
# How do the kept weights change? Here is `conv3` at 90 %, before and after fine-tuning.

# %%
at_90 = classic.query("seed == 0 and sparsity == 0.9").set_index("method").network
cut, tuned = (at_90[how].conv3.weight.detach() for how in ("one-shot", "fine-tuned"))
cut, tuned = cut[cut != 0], tuned[tuned != 0]
humps = {"pruned at 90 %": cut, "then trained": tuned}
plots.histograms(humps, title="Weights of conv3 kept at 90 %, then trained")
say(f"Mean |w| of the kept weights: {cut.abs().mean():.3f}, then **{tuned.abs().mean():.3f}**.")

# %% [markdown]
# Han et al. show the same picture for AlexNet: two humps (peaks) after pruning, and
# after retraining the kept weights spread. Some have moved towards zero and would be
# pruned first in the next step. This is the argument *for* iterating.

# %% [markdown]
# #### Experiment: what does structure cost?
#
# Now we fine-tune each granularity, with half of the budget above. The baseline prunes
# random *filters*.
#
# *Before you run it:* what accuracy, in %, will filter pruning at 90 % have after
# fine-tuning?

# %%
### BEGIN SOLUTION
prediction_1_7c = 90
### END SOLUTION

# %%
pieces = {g: partial(layer_masks, granularity=g) for g in lab01.GRANULARITIES}
pieces["random"] = pieces["filter"]
structured = lab01.prune_once(dense, data, pieces, [0.7, 0.9, 0.95], epochs=BUDGET // 2)
title = "Accuracy by granularity, after fine-tuning"
against_sparsity(structured, title=title, guess=(0.9, prediction_1_7c))

# %%
say("Each minus random filters:")
tables.show(tables.means(structured.dropna(), "accuracy", columns="sparsity"))
tables.compare(structured.dropna(), "accuracy", columns="sparsity")

# %% [markdown]
# At *equal sparsity* unstructured pruning (of single weights) is more accurate than
# structured pruning (of groups). But does it matter *which* filters are pruned?
#
# {{claim 01.6}}
#
# ([Mittal et al.
# 2018](https://arxiv.org/abs/1801.10447) found on ImageNet that fine-tuning recovers
# from random filter pruning.) Also, equal sparsity is not equal cost. Each scattered
# weight needs an address; filters need hardly any. If 90 % of the 32 filters of every
# layer are pruned, three are kept, and each filter of the next layer has three inputs
# left. So about 1 % of the next layer's products remain useful, not 10 %. Lab 04
# compares at equal MACs.

# %% [markdown]
# #### Real data: MNIST
#
# The library ran the same experiments with five seeds, on 3,000 images of MNIST
# (`course remake lab01_pruning_mnist`) and on the digits. Before you look: on the
# digits a random mask was surprisingly good. Will it be good on MNIST?

# %%
both = lab01.read_both("trained")
against_sparsity(both, panels="images", title="Digits and MNIST: accuracy by sparsity (5 seeds)")

# %% [markdown]
# The claims above print what MNIST says of each. Images of 28×28 pixels leave fewer weights to
# spare, and five seeds can detect the difference. So random masks are as good as above
# on a task that is easy for its network, not in general. Run the baseline on the data
# that your claim is about. At these budgets we could not detect on either data set
# whether iterating pays.
#
# ## Part E · What was it worth?

# %% [markdown]
# ### 1.8 Two short answers
# **10 minutes · 1 point**
#
# **What is tested**: the letters of **a** and **b**.
#
# #### Experiment: costs, and the test images once
#
# For each way of pruning we take the sparsest setting whose *mean validation accuracy*
# is within one point of the dense networks'. Only then are the chosen networks
# measured on the **test images, once**.
#
# We compute three costs of each network (lab 00):
#
# - **bits** of the whole model, with biases and batch norm: each tensor in the cheapest
#   of a few formats (dense, bitmap, coordinates, CSR).
# - **MACs**: products with a non-zero weight, for one image.
# - **milliseconds**: processor time for 64 images on one core. The networks run in
#   turn. Time relative to the dense network is computed per round, so that a slow
#   moment of the machine affects both times. The median of these ratios is shown.


# %%
chosen = [
    dense,
    lab01.sparsest(scopes, "global", "global {}, recalibrated"),
    lab01.sparsest(trained, "fine-tuned", "magnitude {}, fine-tuned"),
    lab01.sparsest(trained, "random", "random {}, fine-tuned", like="fine-tuned"),
    lab01.sparsest(trained, "iterative", "iterative {}"),
    *[lab01.sparsest(structured, g, g + "s {}, fine-tuned") for g in ("row", "kernel", "filter")],
]
costs = lab01.add_up(pd.concat(chosen), data)  # the only time that the test images are used
for method, rows in costs.groupby("method", sort=False):
    ledger.add("convnet", method, lab="01", accuracy=rows.test, **rows[lab01.COSTS].iloc[0])

# %%
left = lab01.share_of_dense(costs)
plots.bars(left, x="method", y="% of dense", by="measure", fmt="{:.0f}", title="Relative costs")

# %%
faster = costs.groupby("method").faster.first()
say(f"The fastest is {faster.idxmax()}: {faster.max():.2f} times.")
ledger.table()

# %% [markdown]
# Pruning leaves a fraction of the products, but saves hardly any time. A dense kernel multiplies
# by zero as fast as by any other number. Filters of zeros change little as long as the
# zeros are stored. To save time you must *remove* the filters (lab 04), use a pattern
# that the hardware supports (lab 05), or use a kernel that skips zeros (lab 00: that
# pays only at very high sparsity). Unstructured pruning saves bits at once.
#
# Compare two rows of the ledger (kept in `ledger.json`, in this notebook's folder):
# *magnitude …, fine-tuned* and *random …, fine-tuned*, at the same sparsity. What would
# you have concluded without the second row? Also, *global …, recalibrated* was not
# trained at all after pruning.
#
# #### The two answers
#
# **a.** In 1.3 the one-shot networks at 70 % had lost much accuracy on average. After
# recalibration they were near the dense accuracy, with the same weights, mask and zeros.
# What had been broken?
#
# - **A.** The pruned weights stored what the network had learned; recalibration
#   restored them.
# - **B.** The kept weights had to adapt; the pass over the training images was a short
#   fine-tuning.
# - **C.** Nothing: at 70 % sparsity the seeds differ so much that the two accuracies
#   agree.
# - **D.** Each channel's sums had another mean and size than in the dense network, and
#   batch norm still shifted and scaled them by the old ones.
#
# **b.** Differences of this lab, with their 95 % intervals, on both kinds of data:
#
# {{difference 01.3}}
# {{difference 01.4}}
#
# Which of these sentences do the intervals permit?
#
# - **A.** On the digits, magnitude and a random mask are equally accurate at 90 %.
# - **B.** On MNIST the choice of weights does not matter at 98 %.
# - **C.** On MNIST magnitude is better than a random mask at 90 %; on the digits these
#   runs detect no difference.
# - **D.** On the next network, magnitude will gain at least 14 points at 98 % on the
#   digits.

# %%
# "A", "B", "C" or "D"
### BEGIN SOLUTION
answer_1_8a = "D"
answer_1_8b = "C"
### END SOLUTION

# %%
check("1.8")

# %% [markdown]
# <details><summary>Hint for a</summary>Which of the four can be true, if all parameters
# of the two networks are the same, bit for bit?</details>
# <details><summary>Hint for b</summary>Which intervals contain 0? What can you not
# conclude from an interval that contains 0, or from one run?</details>

# %% [markdown]
# ### 1.9 Bug hunt
# **20 minutes · 1 point**
#
# How good is a test? Here is a test that looks reasonable, and a version of
# `magnitude_mask` that someone really wrote. It finds the threshold and keeps the
# larger weights.


# %%
def naive_test(f: Callable) -> None:
    weight = torch.randn(40, 25, generator=torch.Generator().manual_seed(0))
    mask = f(weight, 0.5)
    assert mask.sum() == 500
    assert weight[mask].abs().min() >= weight[~mask].abs().max()


def suspicious_mask(weight: Tensor, sparsity: float) -> Tensor:
    count = round(sparsity * weight.numel())
    if count == 0:
        return torch.ones_like(weight, dtype=torch.bool)
    sizes, _ = weight.abs().reshape(-1).sort()
    threshold = sizes[count - 1]  # the largest size to prune
    return weight.abs() > threshold


naive_test(suspicious_mask)
print("suspicious_mask passes the naive test.")

# %% [markdown]
# This function would pass with a thousand other random matrices, too. Now take a layer
# that is *already* pruned to 80 %, as in every later step of iterative pruning, and
# prune 50 %:

# %%
layer = weights["conv3.weight"] * magnitude_mask(weights["conv3.weight"], 0.8)
for f in (magnitude_mask, suspicious_mask):
    print(f"{f.__name__} with sparsity 0.5 prunes {1 - f(layer, 0.5).float().mean():.0%}")

# %% [markdown]
# Real weights have ties: zeros, quantised values, weights that share an initial value.
# Random normal numbers have none.
#
# Write `find_bug(f)`. It gets a function `f(weight, sparsity)`, raises `AssertionError`
# if `f` breaks the contract (the docstring) of **1.1**, and returns otherwise. The
# contract in short:
#
# - a bool mask with the weight's shape, True = kept;
# - exactly `round(s * n)` weights are pruned;
# - no pruned $|w|$ is larger than a kept one;
# - among equal $|w|$ the first in row-major order is pruned first.
#
# **What is tested**: two versions of `magnitude_mask` with an obvious mistake (half a
# point) and five versions with a subtle mistake (the other half). For either half all
# right versions, written in other ways than yours, must pass. All versions accept
# finite weights of any shape and any sparsity in [0, 1]; other arguments do not count.
# Use small inputs: a call with more than eight million numbers is refused, and
# `find_bug` has ten seconds per version.
#
# Try not to compare `f` with your own `magnitude_mask`. Test the properties that every
# right mask must have. Such a test also finds a mistake in your own function.


# %%
def find_bug(f: Callable[[Tensor, float], Tensor]) -> None:
    """Raise AssertionError if ``f(weight, sparsity)`` breaks the contract of
    ``magnitude_mask`` (1.1); else return.
    """
    ### BEGIN SOLUTION
    generator = torch.Generator().manual_seed(1)
    examples = [
        torch.randn(5, generator=generator),  # half of 5 is 2.5, and round(2.5) is 2
        torch.randn(7, generator=generator),
        torch.randn(4, 3, 3, 2, generator=generator) - 0.5,  # more negative than positive
        torch.randint(-2, 3, (6, 9), generator=generator).float(),  # many ties
        torch.tensor([[0.0, 0.0, 0.0], [0.0, -3.0, 0.0]]),
        torch.ones(100),
    ]
    for weight in examples:
        for sparsity in (0.0, 0.1, 0.25, 0.3, 0.5, 0.77, 0.9, 1.0):
            mask = f(weight, sparsity)
            case = f"shape {tuple(weight.shape)}, sparsity {sparsity}"
            assert mask.dtype == torch.bool and mask.shape == weight.shape, (
                f"not a bool mask of the weight's shape: {case}"
            )
            pruned, size = ~mask.flatten(), weight.abs().flatten()
            assert int(pruned.sum()) == round(sparsity * len(size)), f"wrong number: {case}"
            if pruned.any() and mask.any():
                largest = size[pruned].max()
                assert largest <= size[~pruned].min(), f"a larger weight was pruned: {case}"
                # ties: all that are pruned must come before all that are kept
                ties = pruned[size == largest]
                assert not (ties[1:] & ~ties[:-1]).any(), f"ties out of order: {case}"
    ### END SOLUTION


# %%
for f in (magnitude_mask, suspicious_mask):
    try:
        find_bug(f)
        print(f"{f.__name__}: no bug found")
    except AssertionError as reason:
        print(f"{f.__name__}: caught ({reason})")

# %%
check("1.9")

# %% [markdown]
# <details><summary>Hint 1: choose inputs that tell versions apart</summary>For each
# line of the contract: which weight and which sparsity would show that <code>f</code>
# breaks it? Think of odd counts, of sparsity 0 and 1, of more than two dimensions, of
# negative weights, of equal sizes.</details>
# <details><summary>Hint 2: the order among equals</summary>Take the weights whose size
# is the largest pruned size. Among them, every pruned weight must come before every
# kept weight.</details>

# %% [markdown]
# ## Play
#
# Choose the sparsity, the granularity, and whether batch norm is recalibrated. The
# number is the validation accuracy of the first network, pruned in one shot. Find a
# setting at which recalibration changes the accuracy by more than 80 points. Then find
# one at which it changes nothing. (By keyboard: Tab goes from control to control, the
# arrow keys move a slider, the space bar presses a button.)


# %%
def explore(sparsity: float = 0.7, granularity: str = "element", recalibrate: bool = False):
    one_shot = {"one-shot": partial(layer_masks, granularity=granularity)}
    cut = lab01.prune_once(dense[:1], data, one_shot, [sparsity], repair=recalibrate).iloc[-1]
    kept = {n: (w != 0)[:16, :16] for n, w in lab01.prunable(cut.network).items() if "conv" in n}
    title = f"Validation accuracy {cut.accuracy:.1f} % (dense: {dense.accuracy[0]:.1f} %)"
    return plots.grid(kept, title=f"{title}; kept is dark, 16 × 16 kernels at most")


plots.explore(explore, sparsity=(0, 0.98, 0.02), granularity=list(lab01.GRANULARITIES))

# %% [markdown]
# ## What you take with you
#
# - Masks are data: boolean tensors stored next to the model. All static pruning is
#   *score → select → mask → apply*.
# - The causes of a collapse can be separated. Here the main cause was stale batch-norm
#   statistics, not the lost weights.
# - Set pruned weights to zero after every optimizer step; masked gradients are not
#   enough.
# - Compare at equal budget, with a random baseline: after training, the baseline is
#   good.
# - Sparsity is not speed. Sparsity saves bits at once, but time only with suitable
#   shapes or hardware.
#
# ### Five questions to recap
#
# 1. Why does a threshold not give an exact sparsity?
#    <details><summary>Answer</summary>It prunes all equal weights or none; an exact
#    number may need only some.</details>
# 2. What does recalibration change?
#    <details><summary>Answer</summary>Only batch norm's means and variances, measured on
#    the pruned network.</details>
# 3. When does one threshold for all layers fail?
#    <details><summary>Answer</summary>If a layer has another scale, for example before a
#    batch norm.</details>
# 4. Why do pruned weights move under momentum, although their gradient is 0?
#    <details><summary>Answer</summary>The optimizer still applies old
#    gradients.</details>
# 5. What must a fair comparison of one-shot and iterative pruning fix?
#    <details><summary>Answer</summary>The total number of epochs.</details>
#
# ## Going further
#
# - **Real data.** Set `DATA = "mnist"` and run everything with your own functions (some
#   minutes). Do your figures agree with the result file?
# - **A longer run.** In `data/results/make/lab01_results.py` replace cubic steps by equal
#   ones, and repeat the run. How much of the effect of *iterative* comes from the
#   schedule?
# - **A sparsity per layer.** Use the second map of 1.6 to choose a sparsity for each layer
#   at the same total, and compare with `global_masks`, recalibrated and fine-tuned.
# - **On a GPU.** Choose `DATA = "mnist"` and `DEVICE = devices.use("cuda")`, and train on
#   all 55,000 images. By how much is a large batch faster, and by how much a small one?
# - **Read** the papers linked above, and H. Mao et al., [Exploring the Regularity of Sparse
#   Structure in Convolutional Neural Networks](https://arxiv.org/abs/1705.08922), 2017.
# - **Next.** Magnitude ignores the input that a weight multiplies. It also ignores the
#   weight's effect on the loss. Lab 02 uses the loss.
