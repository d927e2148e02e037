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
# of this rule, you decide how much each layer loses, and you test which of the usual
# claims hold on your own network:
#
# | part | you write | you find out |
# |---|---|---|
# | A · Which weights are pruned? | 1.1 magnitude, 1.2 groups, 1.3 all layers together | what breaks when all are pruned at once |
# | B · How much of each layer? | 1.4 a sparsity per layer | which layers can lose most |
# | C · Training the kept weights | 1.5 the masked gradient, 1.6 iterative pruning | whether fine-tuning and iterating pay |
# | D · What was it worth? | 1.7 two short answers, 1.8 a bug hunt (optional) | bits, MACs and milliseconds |
#
# 19 points; about 4 hours without the optional exercise 1.8. Its 1 bonus point can
# make up for a point lost elsewhere.
#
# **Prerequisites.** Lab 00 (bits, MACs, latency); training a network in PyTorch.
#
# Symbols, terms and the meaning of ±: [one page for all labs](../docs/notation.md).
#
# **After this lab you can**
#
# - prune weights, groups of weights and whole networks to an exact sparsity;
# - choose a sparsity for each layer from a sensitivity scan;
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
# - **Guess first.** Before some experiments, write your prediction down, a number. It
#   is not marked; most figures show it as a star.
# - **Choose on validation data, look at the test data once**, at the end.
# - **No claim without a random baseline and three seeds.** ± is a 95 % interval over
#   seeds. A difference is *statistically distinguishable* if its 95 % paired interval
#   excludes 0.

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
from course_lib.experiments import common, lab01
from course_lib.pruning import weights as library
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
# use MNIST (28×28), change one word; the lab then takes several minutes longer.
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
BUDGET = SETTINGS["budget"]

sizes = ", ".join(f"{len(getattr(data, s).labels)} {s}" for s in ("train", "validation", "test"))
say(f"{sizes} images. One validation image is {100 / len(data.validation.labels):.2f} points.")

# %% [markdown]

# ### The network
#
# The network has four 3×3 convolutions (32, 32, 64, 64 filters), each followed by
# **batch norm** and ReLU, then a global average and one linear layer. We train it from
# three seeds, with SGD, momentum and weight decay; some of your runs use the first network
# alone. ([What each experiment does](../course_lib/experiments/lab01.py), in a few
# lines each.)

# %%
dense = lab01.train_dense(data, SEEDS, SETTINGS["dense_epochs"])
weights = lab01.prunable(dense.network[0])  # name -> parameter, those with two or more dimensions
say(f"Validation accuracy of the dense networks: **{pm(dense.accuracy)} %**.")
tables.plain(lab01.count_weights(weights))

# %% [markdown]
# Each experiment has one figure. Its lines are the library's runs with **five seeds**
# (`course remake lab01_pruning_digits` repeats them). You add one run of your own code.
#
# ## Part A · Which weights are pruned?
#
# Which $k$ weights should one output $y = \sum_i w_i a_i$ lose? Without the weights in
# the set $P$ it changes by $\Delta y = -\sum_{i \in P} w_i a_i$. If the inputs are
# uncorrelated with mean 0 and the *same* size $\mathbb E\,a_i^2 = \sigma^2$, all cross terms
# vanish:
#
# $$\mathbb E\,(\Delta y)^2 = \sum_{i \in P}\sum_{j \in P} w_i w_j\,\mathbb E\,a_i a_j
# = \sigma^2 \sum_{i \in P} w_i^2 .$$
#
# A sum of $k$ terms is smallest for the $k$ smallest $w_i^2$, so **the smallest $|w_i|$
# are the ones to prune**. Each assumption is also a way to fail: after a ReLU the means
# are not 0, inputs differ in size, and the loss does not depend on every $y$ equally
# (lab 02). With pen and paper: for $w = (0.3, 2)$ and inputs of size 5 and 0.2, which
# weight does magnitude prune, and which one should go?
#
# A **mask** records which weights are kept: a boolean tensor with the shape of the
# weight, `True` = kept. Masks are stored outside the model, in a dict keyed by
# parameter name. The *sparsity* $s$ is the fraction of weights that are pruned.

# %% [markdown]
# ### 1.1 Prune the smallest weights
# **14 minutes · 3 points**
#
# Write `magnitude_mask`. "Prune 30 % of 15 weights" fixes a *number*: exactly
# `round(0.3 * 15)` weights are pruned, also where several weights have the same size
# $|w|$.
#
# Write it yourself, without `torch.nn.utils.prune` and the course's library.
#
# **What is tested**: the exact number; ties (the first in row-major order is pruned
# first); sparsity 0 and 1; also transposed weights (`reshape`, not `view`); the weight is not
# changed, and calls do not depend on each other.


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

    >>> magnitude_mask(torch.tensor([3.0, -1.0, 2.0, 0.5]), 0.5)
    tensor([ True, False,  True, False])
    """
    ### BEGIN SOLUTION
    size = weight.detach().abs().flatten()  # (n,)
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
# #### A threshold instead of a number
#
# You will often see a threshold $a$: a weight is kept if $|w_i| \ge a$.

# %%
TABLE = torch.tensor(
    [
        [0.1, 3, 0.2, 1, 0.4, 0.2, -1, 3, 0.4, 0.6],
        [0.2, 1.2, 0.2, -1, 0.2, -3, 0.5, -3, 3, -1],
        [-8, -1, 0.6, 1.4, 0.1, 0.1, -2, 0.1, -7, -1],
    ]
)
kept = TABLE.abs() >= 1
print(TABLE.where(kept, 0))
say(f"{int(kept.sum())} of {kept.numel()} are kept.")

# %% [markdown]
# The weights 1 and −1 are kept, because the threshold itself is *not* pruned. A
# threshold fixes which size is small; a sparsity fixes how many weights are pruned. Han
# et al. (2015) use a threshold per layer: a chosen factor times the standard deviation
# of its weights. To compare methods *at equal sparsity*, we fix the number.
#
# #### `prune_lowest`, from now on
#
# Your order with its rule for ties is in the library, too. `prune_lowest(scores, k)`
# prunes exactly the `k` lowest scores, and of equal scores the first. You may use it
# in every later exercise: what remains is the *score*, and what competes with what.

# %%
from course_lib.pruning.weights import prune_lowest  # noqa: E402

print(prune_lowest(torch.tensor([3.0, 1.0, 2.0, 1.0]), 2))

# %% [markdown]
# ### 1.2 Whole groups
# **15 minutes · 3 points**
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
# Write it yourself, without `torch.nn.utils.prune`. Of the course's library, use only
# `prune_lowest`.
#
# **What is tested**: every granularity, also of a matrix; the exact number of groups;
# ties; the weight is not changed.


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
        is pruned first.

    >>> grouped_mask(torch.tensor([[3.0, 0.0], [-2.0, 2.0]]), 0.5, "filter").tolist()  # norms 3, 4
    [[False, False], [True, True]]
    """
    ### BEGIN SOLUTION
    if weight.ndim == 4:
        dims = {"element": (), "row": (3,), "kernel": (2, 3), "filter": (1, 2, 3)}
    else:
        dims = {"element": (), "filter": (1,)}
    norm = weight.detach().abs()
    for dim in dims[granularity]:
        norm = norm.sum(dim, keepdim=True)  # finally (M, C, R, S) with 1 where we summed
    return prune_lowest(norm, round(sparsity * norm.numel())).expand_as(weight).clone()
    ### END SOLUTION


# %%
check("1.2")

# %% [markdown]
# <details><summary>Hint 1: what is different from 1.1?</summary>Only the ranked numbers
# are different. Make a smaller tensor that holds one number per group, prune
# <i>that</i>, and copy each result to all members of the group.</details>
# <details><summary>Hint 2: keepdim</summary>A sum with <code>keepdim=True</code> leaves
# a dimension of length 1, which
# <code>expand_as</code> stretches again.</details>
# <details><summary>Hint 3: a trap</summary><code>x.sum(dim=())</code> sums over
# <i>all</i> dimensions, not over none.</details>

# %% [markdown]
# #### Experiment: what broke?
#
# Pruning all at once is called *one-shot* pruning; here nothing is trained afterwards. After
# every convolution here, batch norm computes
# $\alpha\,\frac{x-\mu}{\sqrt{\sigma^2+\varepsilon}}+\beta$ for each channel. Its $\mu$ and
# $\sigma$ were **measured on the dense network** during training. Pruning changes the
# mean and the size of a layer's sums, but $\mu$ and $\sigma$ are still the old ones
# (*stale*).
#
# *Recalibration* measures $\mu$ and $\sigma$ again. It sends 512 training images once
# through the pruned network, and every batch norm averages the means and variances of
# its inputs. It uses no labels and no gradients, and no weight changes. In the figure,
# the random baseline is recalibrated, too.
#
# *Before you run it:* all layers lose 70 %. What accuracy, in %, does a network have
# after recalibration alone?

# %%
### BEGIN SOLUTION
prediction_1_2 = 60
### END SOLUTION


# %%
def layer_masks(weights: dict, sparsity: float, granularity: str = "element") -> dict:
    pieces = {4: granularity, 2: "element"}  # the matrix (its rows are classes): by weight
    return {name: grouped_mask(w, sparsity, pieces[w.ndim]) for name, w in weights.items()}


mine = [
    lab01.prune_once(dense[:1], data, {"yours": layer_masks}, [0.7], repair=on).iloc[-1]
    for on in (False, True)
]
lines = lab01.read_both("untrained").query("method != 'global'")
lines = lines.assign(method=lines.method + ", " + lines.batch_norm)
lines = lines[lines.method != "random, as pruned"]
title = "Every layer pruned, not trained: is it the weights or batch norm?"
look = {"x": "sparsity", "y": "accuracy", "xaxis": "sparsity", "panels": "images"}
chance = "random, recalibrated"
plots.curves(lines, title=title, guess=(0.7, prediction_1_2), control=chance, **look)

# %%
before, after = mine
same = all(map(torch.equal, before.network.parameters(), after.network.parameters()))
say(
    f"Your network at 70 %: {before.accuracy:.1f} % as pruned, **{after.accuracy:.1f} %**"
    f" recalibrated. All parameters are the same, bit for bit: **{same}**."
)

# %% [markdown]
# {{claim 01.1}}
#
# So *a pruned network at the accuracy of guessing has not always lost what it learned.*
# At 80 % of every layer, recalibration leaves a gap of two or three points on the digits, and
# a larger one on MNIST; at 90 % it restores only a part, and the rest needs training. If a
# paper reports that pruning destroyed a network with batch norm, ask whether the statistics
# were measured again. Li et al. ([2020, "EagleEye"](https://arxiv.org/abs/2007.02491))
# found that pruning candidates can be ranked properly only after such a measurement.
# Han et al. ([2015](https://arxiv.org/abs/1506.02626)) prune about half of AlexNet's
# weights without loss and without retraining; AlexNet has no batch norm.

# %% [markdown]
# ### 1.3 One threshold for all layers
# **10 minutes · 2 points**
#
# So far the same share of each layer was pruned. But some layers have more small
# weights than others. Now rank the weights of *all* layers in one list, and prune the
# smallest $|w|$ of this list.
#
# Write it yourself, without `torch.nn.utils.prune`. Of the course's library, use only
# `prune_lowest`.
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

    >>> layers = {"a": torch.tensor([[1, 2.0]]), "bias": torch.zeros(1), "b": torch.tensor([[3.0]])}
    >>> global_masks(layers, 0.5)  # round(1.5) is 2
    {'a': tensor([[False, False]]), 'b': tensor([[True]])}
    """
    ### BEGIN SOLUTION
    layers = {name: w for name, w in weights.items() if w.ndim >= 2}
    together = torch.cat([w.detach().abs().flatten() for w in layers.values()])  # (n,)
    kept = prune_lowest(together, round(sparsity * len(together)))
    pieces = kept.split([w.numel() for w in layers.values()])
    return {
        name: piece.view(w.shape) for (name, w), piece in zip(layers.items(), pieces, strict=True)
    }
    ### END SOLUTION


# %%
check("1.3")

# %% [markdown]
# <details><summary>Hint 1: where to start</summary>Put all weights into one long
# vector. Which scores does <code>prune_lowest</code> rank?</details>
# <details><summary>Hint 2: back to layers</summary><code>torch.split</code> undoes
# <code>torch.cat</code>.</details>

# %% [markdown]
# {{claim 01.2}}
#
# The rule compares sizes across layers, so it depends on each layer's *scale*. But
# batch norm removes this scale. If you multiply all weights of `conv3` by 0.1 and
# recalibrate, you have the same function. The global rule prunes this function
# differently:

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
# If a layer has been rescaled, one threshold for all layers can empty it. Always check
# the share that each layer loses.
#
# ## Part B · How much of each layer?
#
# Before you prune all layers, test each layer: prune *one* layer to each sparsity, keep
# all other layers dense, recalibrate, measure, and restore the layer. This is a
# **sensitivity scan**. It uses **validation** data, because you choose by it. The
# library's `sensitivity` does this.
#
# ### Experiment: which layers can lose most?

# %%
scan = lab01.map_sensitivity(dense, data, library.sensitivity, [0.5, 0.8, 0.9, 0.95, 0.98])
shares = lab01.prune_each_layer(dense, global_masks, 0.95)
table = scan.pivot_table(index="layer", columns="sparsity", values="accuracy")
plots.show(
    plots.grid(table, title="Accuracy (%), one layer pruned", xlabel="sparsity of this layer")
)
title = "What the global rule prunes at 95 % in all"
bars = plots.bars(shares, x="layer", y="pruned (%)", by="method", fmt="{:.0f}", title=title)
plots.show(bars)

# %% [markdown]
# Large layers may lose most: compare the map with the number of weights in the table at
# the top. Han et al. (2015) found the first convolution of AlexNet, whose input is the
# image, the most sensitive. A scan changes one layer at a time, and its losses need not
# add up when all layers are pruned. So it is a guide, and you must measure the network
# that you chose.

# %% [markdown]
# ### 1.4 You decide: a sparsity per layer
# **20 minutes · 4 points**
#
# Prune at least **95 %** of the weights of this network, and stay **within one point**
# of dense on validation data. You choose the sparsity of each layer.
#
# `choose_sparsities` returns your five numbers. They are applied by magnitude, layer by
# layer, to three trained networks of this kind that are not yours
# (`data/checkpoints/digits-convnet-0` to `-2`). Each pruned network is recalibrated and
# fine-tuned for 10 epochs, and the dense networks are trained on for as long. The
# mean over the three networks counts. `lab01.try_sparsities` does the same with your
# own networks: try, look at the map again, and improve. Try the uniform choice, too.
#
# **What is tested**: one number in [0, 1] for each of `conv1` to `conv4` and `fc`; at
# least 95 % of all weights pruned; the the shares differ by 0.02 or more, and `conv1`
# loses less than the largest; the target.


# %%
def choose_sparsities() -> dict[str, float]:
    """Choose the sparsity of each layer: ``conv1``, ``conv2``, ``conv3``, ``conv4``, ``fc``.

    >>> sorted(choose_sparsities())
    ['conv1', 'conv2', 'conv3', 'conv4', 'fc']
    """
    ### BEGIN SOLUTION
    return {"conv1": 0.5, "conv2": 0.9, "conv3": 0.94, "conv4": 0.98, "fc": 0.5}
    ### END SOLUTION


# %%
choices = {"dense": dict.fromkeys(("conv1", "conv2", "conv3", "conv4", "fc"), 0.0)}
choices |= {"uniform": dict.fromkeys(choices["dense"], 0.95), "yours": choose_sparsities()}
tables.plain(lab01.try_sparsities(dense, data, choices))

# %%
check("1.4")

# %% [markdown]
# <details><summary>Hint 1: where are the weights?</summary>Compute what each layer
# contributes: its sparsity times its number of weights. `conv1` and `fc` have 1.4 % of
# all weights together. What does it cost you to keep half of them?</details>
# <details><summary>Hint 2: a first choice</summary>The bars show the share that each
# layer loses under the global rule. Start there, and move a little sparsity from the
# layers that the map calls sensitive to those that it calls insensitive.</details>

# %% [markdown]
# ## Part C · Training the kept weights
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
# (If you used the dense $W$ in the first formula, there would be no error message. For a
# random mask the wrong $\partial L/\partial a$ has a cosine of about $\sqrt{1-s}$ with the
# right one.)
#
# **What is tested**: $y$ and both gradients; any number of leading dimensions, in memory in
# any order (`reshape`, not `view`); two layers in one network; another mask on the same $W$.


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
        """Compute y and save the tensors that ``backward`` needs."""
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
# ### 1.6 Iterative pruning
# **30 minutes · 3 points**
#
# *Prune a little, train, prune a little more*: each step prunes the network after it
# has adapted to the step before. You write two functions. **The schedule** ([Zhu & Gupta
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
# A masked gradient is not enough: momentum and Adam still apply *old* gradients, so a
# pruned weight would move on. Therefore `finetune(model, post_step)` calls your function
# `post_step()` after each optimizer step, and that sets the pruned weights to zero again.
#
# Write it yourself, without `torch.nn.utils.prune`. Of the course's library, use only
# `prune_lowest`.
#
# **What is tested**: the formula, without rounding the targets; one, several and repeated
# targets; `finetune` once per target; parameters stay the same objects; pruned weights
# stay zero with momentum and Adam.
#
# The optimizer inside `finetune` holds the parameter *objects*. So change the numbers in a
# parameter, and never replace it by a new `nn.Parameter`: the optimizer would continue to
# train the old one.


# %%
def cubic_schedule(final: float, steps: int) -> list[float]:
    """Compute the ``steps`` cumulative targets final · (1 − (1 − t/steps)³), t = 1 … steps.

    >>> cubic_schedule(0.5, 2)
    [0.4375, 0.5]
    """
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
        are 0.

    >>> model, finetune = nn.Linear(4, 1), lambda model, post_step: post_step()
    >>> int(iterative_prune(model, [0.5, 0.75], finetune)["weight"].sum())  # 3 of 4 are pruned
    1
    """
    ### BEGIN SOLUTION
    layers = {name: p for name, p in model.named_parameters() if p.ndim >= 2}
    masks = {name: torch.ones_like(p, dtype=torch.bool) for name, p in layers.items()}

    @torch.no_grad()
    def post_step() -> None:
        for name, p in layers.items():
            p.masked_fill_(~masks[name], 0)  # in place

    for target in targets:
        for name, p in layers.items():
            alive = masks[name]
            # (kept,): only these are ranked, so no pruned weight returns
            kept = p.detach()[alive]
            more = round(target * p.numel()) - (p.numel() - len(kept))
            shrunk = alive.clone()
            shrunk[alive] = prune_lowest(kept.abs(), more)
            masks[name] = shrunk
        post_step()
        finetune(model, post_step)
    return masks
    ### END SOLUTION


# %%
check("1.6")

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
# #### Experiment: does it pay to prune in steps?
#
# All arms train for the **same number of epochs** in total, at the same sparsity:
#
# - **fine-tuned**: prune once, layer by layer, then train the kept weights;
# - **iterative**: prune in three cubic steps, and train after each;
# - **random**: like fine-tuned, but the pruned weights are chosen at random.
#
# You add, with one network, your iterative pruning and three more rivals: **restarts**
# (prune once, but begin the learning rate's decay three times, as *iterative* does),
# **global** (one threshold for all layers) and **dense, trained on**.
#
# *Before you run it:* what accuracy, in %, will *iterative* reach at 98 %?

# %%
### BEGIN SOLUTION
prediction_1_6 = 80
### END SOLUTION

# %%
rival = partial(lab01.prune_once, dense[:1], data, sparsities=[0.98], epochs=BUDGET)
nothing = {"dense, trained on": lambda weights, sparsity: layer_masks(weights, 0)}
steps = {"iterative": 3}
mine = [
    lab01.prune_in_steps(dense[:1], data, iterative_prune, cubic_schedule, [0.98], BUDGET, steps),
    rival({"restarts": layer_masks}, restarts=3),
    rival({"global": global_masks} | nothing),
]
mine = pd.concat(mine).dropna()
both = lab01.read_both("trained")
title = "Once or in steps? The same epochs for every arm"
plots.curves(both, title=title, guess=(0.98, prediction_1_6), **look)

# %%
say("Your runs at 98 %, one network (a single run shows no difference):")
tables.plain(mine[["method", "accuracy"]])

# %%
trained = both[both.images == DATA]
tables.compare(trained.dropna(), "accuracy", against="fine-tuned", columns="sparsity")

# %% [markdown]
# {{claim 01.3}}
#
# {{claim 01.4}}
#
# {{claim 01.5}}
#
# At 95 % iterating even loses on the digits, since the last of three steps gets only a third
# of the training. (*Global* leads at 95 %; at 98 % the digits do not tell it from random.) But
# with more epochs? And each step begins the learning rate again: a fair rival has as many
# restarts. A longer run on the digits prunes 98 % with 6 to 60 epochs, beside one step with as many restarts.

# %%
tables.compare(
    experiments.read("lab01_long_run_digits/accuracy"),
    "accuracy",
    against="fine-tuned, 3 restarts",
    columns="epochs",
)

# %% [markdown]
# Restarts alone show no gain (see the row *fine-tuned*). With 60 epochs three steps are ahead
# of one step with three restarts. Six steps are behind three with 6 epochs and ahead of them
# with 30: each step needs its epochs.

# %% [markdown]
# **What the papers found.** Han et al. (2015) report 9× fewer weights on AlexNet, 13×
# on VGG-16 and 12× on LeNet-300-100 without loss of accuracy. Iterating took AlexNet from
# 5× to 9×, with *long* retraining after each step. Zhu & Gupta (2017) prune gradually with the
# cubic schedule. Their InceptionV3 on ImageNet has 78.1 % top-1 accuracy dense, 78.0 at
# 50 %, 76.1 at 75 %, 74.6 at 87.5 %: this network on ImageNet loses accuracy earlier than
# ours.
#
# #### After fine-tuning: the two humps

# %%
cut = lab01.prune_once(dense[:1], data, {"fine-tuned": layer_masks}, [0.9], epochs=BUDGET)
first, tuned = (net.conv3.weight.detach() for net in cut.network)
humps = {"dense": first, "pruned at 90 %, trained": tuned[tuned != 0]}
plots.histograms(humps, title="Weights of conv3: dense, and the kept ones after training")

# %% [markdown]
# Han et al. show this pair for AlexNet: one peak at zero before pruning, two humps
# after retraining. Some kept weights have moved towards zero and would be pruned first
# in the next step. This is the argument *for* iterating.
#
# #### Experiment: what does structure cost?
#
# Each granularity is pruned once and fine-tuned. The figure has five seeds. Your own
# run has one network at 80 %, and gives each granularity **its own random baseline**:
# as many random groups of the same size.
#
# *Before you run it:* what accuracy, in %, will filter pruning at 90 % have?

# %%
### BEGIN SOLUTION
prediction_1_6b = 90
### END SOLUTION

# %%
filters = partial(layer_masks, granularity="filter")
mine = []
for piece in lab01.GRANULARITIES:
    masks = partial(layer_masks, granularity=piece)
    arms = {"magnitude": masks, "random": masks}
    cut = lab01.prune_once(dense[:1], data, arms, [0.8], epochs=BUDGET).dropna()
    mine.append(cut.assign(granularity=piece))
title = "Accuracy after fine-tuning, by the size of the groups"
pieces = experiments.read(f"lab01_pruning_{DATA}/structured")
plots.curves(pieces, title=title, **look | {"panels": "granularity", "xlabel": "pruned (%)"})

# %%
say("Your runs at 80 %, one network:")
wide = pd.concat(mine).pivot(index="granularity", columns="method", values="accuracy")
tables.plain(wide.reset_index())

# %%
whole = pieces.query("granularity == 'filter'")
at_90 = whole.query("sparsity == 0.9 and method == 'magnitude'").accuracy
say(f"Filters at 90 %: {pm(at_90)} %; your guess: {prediction_1_6b}. Smallest minus random:")
tables.compare(whole, "accuracy", columns="sparsity")

# %% [markdown]
# {{claim 01.6}}
#
# At *equal sparsity*, from 90 % on, filters lose far more accuracy than single weights; for
# rows we detect no difference at 90 %. But equal sparsity is not equal cost. Each scattered weight
# needs an address; filters need hardly any. If 90 % of the filters of two layers with 32 each are pruned, three are kept in each, and each
# filter of the second has three inputs left. So about 1 % of the next layer's products remain
# useful, not 10 %. Lab 04 compares at equal MACs. (On ImageNet, [Mittal et al.
# 2018](https://arxiv.org/abs/1801.10447) found that fine-tuning recovers from random
# filter pruning.)
#
# ## Part D · What was it worth?

# %% [markdown]
# ### 1.7 Two short answers
# **10 minutes · 1 point**
#
# **What is tested**: the letters of **a** and **b**.
#
# #### Experiment: costs, and the test images once
#
# Four networks: dense, and three ways of pruning with the **same epochs** of
# fine-tuning. Each is pruned as far as the five stored networks allow within one point
# of dense *on validation images*. Only now are the **test images** used, once. We
# compute three costs (lab 00):
#
# - **bits** of the whole model, with biases and batch norm: each tensor in the cheapest
#   of a few formats (dense, bitmap, coordinates, CSR).
# - **MACs**: products with a non-zero weight, for one image.
# - **time**: processor time for 64 images on one core. The networks run in turn, and
#   the median ratio per round is shown. The dense network is timed **twice**, as two
#   networks: the distance of their ratio from 1 is what chance does.

# %%
ways = {
    "global, fine-tuned": (trained, global_masks),
    "fine-tuned": (trained, layer_masks),
    "filter": (pieces.query("granularity == 'filter'").replace("magnitude", "filter"), filters),
}
level = trained[trained.method == "dense"].accuracy.mean()
chosen = [dense, dense.assign(method=lab01.AGAIN)]
for way, (table, masks) in ways.items():
    far = max(lab01.within_a_point(table[table.method == way], level), 0.7)
    cut = lab01.prune_once(dense, data, {way: masks}, [far], epochs=BUDGET).dropna()
    chosen.append(cut.assign(method=f"{way} {100 * far:.0f} %"))

# %%
chosen = dict(pd.concat(chosen).groupby("method", sort=False).network.agg(list))
costs = common.costs_and_tests(chosen, data)  # the only time that the test images are used
again = costs.groupby("method").faster.first().pop(lab01.AGAIN)
costs = costs[costs.method != lab01.AGAIN]
for method, rows in costs.groupby("method", sort=False):
    ledger.add("convnet", method, lab="01", accuracy=rows.test, **rows[lab01.COSTS].iloc[0])
left = lab01.share_of_dense(costs)
plots.bars(left, x="method", y="% of dense", by="measure", fmt="{:.0f}", title="Relative costs")

# %%
faster = costs.groupby("method").faster.first()
say(
    f"The fastest is {faster.idxmax()}: {faster.max():.2f} times. The dense network against"
    f" itself: {again:.2f} times."
)
ledger.table()

# %% [markdown]
# Pruning leaves a fraction of the products. One twin shows only roughly what chance does: do
# not read a few per cent as a gain. A dense kernel multiplies by
# zero as fast as by any other number, and filters of zeros are multiplied as long as
# they are stored. To save time you must *remove* the filters (lab 04), use a pattern
# that the hardware supports (lab 05), or use a kernel that skips zeros (lab 00: that
# pays only at very high sparsity). Unstructured pruning saves bits at once.
#
# #### The two answers
#
# **a.** In 1.2 the untrained one-shot networks at 70 % had lost much accuracy on average. After
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
# - **D.** On the next network, magnitude will gain at least 7 points at 98 % on the
#   digits.

# %%
# "A", "B", "C" or "D"
### BEGIN SOLUTION
answer_1_7a = "D"
answer_1_7b = "C"
### END SOLUTION

# %%
check("1.7")

# %% [markdown]
# <details><summary>Hint for a</summary>Which of the four can be true, if all parameters
# of the two networks are the same, bit for bit?</details>
# <details><summary>Hint for b</summary>Which intervals contain 0? What can you not
# conclude from an interval that contains 0, or from one run?</details>

# %% [markdown]
# ### 1.8 Bug hunt
# **20 minutes · 1 point · optional**
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
# It would pass with a thousand other random matrices, too. But a layer that is *already*
# pruned has ties, its zeros, and this version prunes all of them. Quantised and shared
# weights have ties, too.
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
check("1.8")

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
# setting at which recalibration changes the accuracy by more than 70 points. Then find
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
# - The causes of a collapse can be separated. Up to about 80 % of every layer the main cause
#   was stale batch-norm statistics; beyond that, recalibration was not enough.
# - Not every layer can lose the same share. A scan is a guide; measure what you chose.
# - Set pruned weights to zero after every optimizer step; masked gradients are not
#   enough.
# - Compare at equal budget and equal restarts, with a random baseline, at best one of each
#   method's own.
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
#    <details><summary>Answer</summary>The total number of epochs, and how often the
#    learning rate begins again.</details>
#
# ## Going further
#
# - **Real data.** Set `DATA = "mnist"` and run everything with your own functions (some
#   minutes). Do your figures agree with the result file?
# - **Read** the papers linked above, and H. Mao et al., [Exploring the Regularity of Sparse
#   Structure in Convolutional Neural Networks](https://arxiv.org/abs/1705.08922), 2017.
# - **Next.** Magnitude ignores the input that a weight multiplies. It also ignores the
#   weight's effect on the loss. Lab 02 uses the loss.
