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
# # Lab 05 · Between: N:M, combined columns, activations, gates
#
# **Zeros at any position cost little accuracy and save no time on most hardware; removing
# whole filters saves time and costs accuracy. Is there a method in between?**
#
# You will build four such methods. What does each cost in accuracy, against which rival at
# equal cost, and which hardware can use it?
#
# **Prerequisites.** Lab 00 (formats, MACs), lab 01 (magnitude, recalibration), lab 04
# (channels, scales α, equal MACs).
#
# Symbols, terms and the meaning of ±: [one page for all labs](../docs/notation.md).
#
# **After this lab you can**
#
# - prune N:M along any dimension, and compare patterns at equal products;
# - pack sparse columns, and judge a greedy rule with a random baseline;
# - prune activations, and train gates with a straight-through gradient;
# - bound the number of products left when weights and activations are pruned;
# - choose the baselines for a dynamic network.
#
# | part | you write | question |
# |---|---|---|
# | A · N of every M | 5.1 the mask | what does a pattern cost at equal products? |
# | B · Packed columns | 5.2 combining | does the greedy order help? |
# | C · Zeros in the activations | 5.3 top-k and N:M | (part E measures N:M) |
# | D · Gates | 5.4 a gate per image | static or dynamic? |
# | E · Weights and activations | 5.5 both factors | which zeros can training compensate for? |
# | F · What was it worth? | 5.6 a short answer | what each method costs |
#
# 15 points; about 3 hours. After each exercise `check("5.1")` tests about half of the
# points; the grader tests the rest of what the docstring says.
# `skip("5.1")` gives up a question: it scores 0, and the lab continues with the course's
# version.
#
# The rules are those of lab 01: guess first; choose on validation data and use the test
# data once, at the end; no claim without a random baseline and three seeds. A
# difference is *distinguishable* if its 95 % paired t-interval excludes 0. The whole
# lab has one rule for ties: *of equal sizes the first is pruned first.*
# `prune_lowest(scores, k, dim)` follows it: it returns the mask (True = kept) that prunes the
# `k` lowest scores of every line along `dim`; the scores may be $|w|$.

# %%
from course_lib.grading import check, skip  # noqa: F401  (skip is yours to use)

# isort: split
import numpy as np  # noqa: F401  (yours to use)
import torch
from torch import Tensor, nn

from course_lib import devices, ledger, training
from course_lib.data.images import load
from course_lib.experiments import common, lab05
from course_lib.pruning.weights import prune_lowest
from course_lib.show import drawings, plots, tables
from course_lib.show.words import minus, pm, say

# %% [markdown]
# Two of the four methods. The first is 1:4: in each block of four weights the largest
# is kept and stored with its place in the block. The second packs sparse columns into
# dense ones; where two weights need the same cell, the smaller one is pruned (crossed
# out).

# %%
weights = [[9, -2, 5, 1, 0, 3, -7, 7], [1, 2, -1, -3, 6, -8, 2, 5], [0, 0, 4, 0, -2, 6, -6, 1]]
plots.show(drawings.nm_blocks(torch.tensor(weights), 1, 4))
columns = [[5, 0, 0, -2, 0, 7], [0, 4, 0, 0, -6, 0], [-3, 0, 8, 0, 0, 0], [0, 0, 9, 1, 0, -5]]
plots.show(drawings.columns_packed(torch.tensor(columns), [[0, 1, 3], [2, 4, 5]]))

# %% [markdown]
# ## Settings
#
# Data and network are those of labs 01 and 04 (scikit-learn's digits, a small conv
# net). We prune `conv2` to `conv4` along their inputs; `conv1` has only one input
# channel. Each figure shows the stored runs, on the digits and on MNIST. Your own run
# (one seed) is the black cross in the panel of its data. The experiments are short
# functions in [lab05.py](../course_lib/experiments/lab05.py). For a live run on MNIST
# change one word (much longer).

# %%
DATA = "digits"  # or "mnist"
DEVICE = devices.use("cpu")  # or "cuda"
SEEDS = 3
SETTINGS = {"digits": lab05.DIGITS, "mnist": lab05.MNIST}[DATA]
PANEL = ["digits", "mnist"].index(DATA)  # of the figures

data = load(DATA).subset(SETTINGS["images"], validation=lab05.VALIDATION)
dense = lab05.dense_nets(data, SEEDS, SETTINGS["epochs"])
runs = lab05.read_both("dense").groupby("images", sort=False)["validation"]
say(
    f"**{data.name}**: {len(data.train.labels)} training, {len(data.validation.labels)} validation"
    f" and {len(data.test.labels)} test images. Validation accuracy of your dense networks:"
    f" {pm([training.evaluate(net, data.validation) for net in dense])} %. Stored:"
    f" {', '.join(f'{name} {pm(of)} % ({len(of)} seeds)' for name, of in runs)}."
)

# %% [markdown]
# ## Part A · N of every M
#
# ### 5.1 The mask
# **20 minutes · 3 points**
#
# Cut a row of weights into blocks of $m$ neighbours, and keep exactly the $n$ largest
# $|w|$ in each block. This is N:M sparsity. The hardware needs no search: every block
# starts at a known address and holds $n$ numbers. But in a 1:4 block of four large
# weights three are pruned, and in one of four tiny weights one is kept.
#
# **How it is stored.** Each block stores $n$ values. So stored value number $k$ belongs to block
# $\lfloor k/n \rfloor$, and only its place *inside the block* is stored, ⌈log₂ m⌉ bits. An R × C matrix with values of $b$
# bits needs
#
# $$R\,C\;\frac{n}{m}\;\bigl(b + \lceil\log_2 m\rceil\bigr)\ \text{bits.}$$
#
# *With pen and paper:* how many bits does a block need at 2:4 and at 1:8, with values of
# 8 bits? How many does a bitmap (lab 00) need for the same blocks?
#
# **What is tested**: the largest |w| along any `dim`, also negative, for tensors of one
# or more dimensions; ties; n = m; a bool result.


# %%
def nm_mask(weight: Tensor, n: int, m: int, dim: int) -> Tensor:
    """Keep exactly the n largest |w| in every block of m neighbours along ``dim``.

    Write it yourself: not with ``torch.nn.utils.prune``, ``torch.ao.pruning`` or
    ``course_lib.pruning`` (but ``prune_lowest`` is allowed).

    Args:
        weight: any number of dimensions ≥ 1.
        n, m: 1 ≤ n ≤ m; m divides ``weight.shape[dim]``. A block: the entries km …
            km + m − 1 along ``dim``, with equal other indices.
        dim: may be negative (from the end).

    Returns:
        Bool like ``weight``, True = kept. Of equal |w| the lower index is pruned first.

    >>> nm_mask(torch.tensor([0.5, -3.0, 2.0, 1.0]), 2, 4, 0)
    tensor([False,  True,  True, False])
    """
    ### BEGIN SOLUTION
    turned = weight.abs().movedim(dim, -1)  # (…, size)
    blocks = turned.reshape(-1, m)  # (blocks, m)
    kept = prune_lowest(blocks, m - n, dim=1)
    return kept.view(turned.shape).movedim(-1, dim)
    ### END SOLUTION


# %%
check("5.1")

# %% [markdown]
# <details><summary>Hint 1: bring the blocks into rows</summary><code>movedim(dim,
# -1)</code>, then <code>reshape(-1, m)</code>: each row is a block. Undo both at the
# end.</details>
# <details><summary>Hint 2: how many are pruned?</summary>m − n. (At 2:4 this equals n;
# try your function at 1:4.)</details>
# <details><summary>Pen and paper</summary>2:4: 2 · (8 + 2) = 20 bits, a bitmap 2 · 8 + 4 =
# 20, too. 1:8: 8 + 3 = 11 bits, a bitmap 8 + 8 = 16. Two bits per value are enough for
# any place in a block of four.</details>

# %% [markdown]
# ### Experiment 1: what does a pattern cost at equal products?
#
# Six patterns: single weights (*element* in the figure), N:M (1:4, 1:8, 1:16), rows of a
# kernel, kernels, filters, and N:M with randomly kept weights; then five epochs of training (MNIST: three).
#
# **Equal weights are not equal products.** If seven in eight filters of each layer are
# pruned, an eighth of the weights is left. But `conv3` and `conv4` lose seven in eight
# *inputs* as well, so only 1/64 of their products is left. Compared at equal weights,
# filters would look much worse than they are. So we keep more filters, until the
# products of `conv2` to `conv4` are as many as those of the other patterns (within 3 %).
#
# *Before you look:* with 12.5 % of the products, what accuracy, in %, will N:M have after
# training?

# %%
prediction_nm = 90  # replace it by yours

# %%
live = lab05.patterns(
    dense[0], data, 0, SETTINGS["finetune"], arms=["N:M"], targets=[0.125], nm_mask=nm_mask
)

# %%
patterns = lab05.read_both("patterns")
fig = plots.curves(
    patterns,
    x="target",
    y="finetuned",
    xaxis="remaining",
    xlabel="products left",
    ylabel="validation accuracy (%)",
    panels="images",
    control="N:M at random",
    title="Patterns at equal products, after training",
)
lab05.add_live(fig, PANEL, live, "target", "finetuned", guess=prediction_nm)

# %% [markdown]
# {{claim 05.1}}
#
# {{claim 05.2}}
#
# {{claim 05.3}}
#
# Whole filters are behind N:M: with an eighth of the products by one or two points, with a
# sixteenth by five or six, and with a quarter on MNIST only, by half a point. On the digits we
# could not detect any other difference to N:M. On MNIST we can: single weights and rows are 0.3
# and 0.4 points ahead with a quarter; random N:M and kernels are a point behind with an eighth;
# with a sixteenth, random N:M, kernels and rows are one to two points behind. So on MNIST it
# matters which weights are kept, but every pattern finer than filters stays within two points.
# Compare the pattern that your hardware supports on your own data. Mishra et al. (2021) report
# that 2:4 keeps the accuracy of large networks.
#
# <details><summary>Every pattern against N:M</summary>The next cell prints all
# differences.</details>

# %%
after = {"finetuned": "validation accuracy after training (%)"}
for images, of in patterns.groupby("images", sort=False):
    say(f"{images}, by the share of the products left:")
    tables.show(tables.compare(of, after, against="N:M", columns="target"))

# %% [markdown]
# ## Part B · Packed columns
#
# ### 5.2 Combining
# **25 minutes · 3 points**
#
# A systolic array (a grid of multipliers) has a cell for each weight, and a sparse
# matrix leaves most cells empty. Kung, McDanel and Zhang (2019) pack several sparse
# *columns* into one, if these seldom have a non-zero in the same row. Each cell then
# holds one weight, and a multiplexer (a switch) selects the channel of this weight. If
# two weights need the same cell (a **conflict**), the one with the largest $|w|$ is kept
# and the others are pruned.
#
# We flatten a convolution to a matrix with a row per filter: a column is one place of the
# kernel in one channel. Which columns share a group? The paper's rule is greedy and is given:
# `group_columns(weight, size, gamma)` of the library takes the densest column first.
# Each column joins the group whose combined column then is *fullest*, within two limits
# per group: at most `size` columns, and on average over the rows at most γ conflicts (three
# non-zeros for one cell are two conflicts).
#
# You write the step after it.
#
# **What is tested**: the three results, with negative weights, ties, columns in no
# group, rows of zeros and no groups at all; the weight is not changed.


# %%
def combine_columns(weight: Tensor, groups: list[list[int]]) -> tuple[Tensor, Tensor, Tensor]:
    """Pack groups of columns; in each row of a group the largest |w| is kept, with its
    sign.

    Write it yourself: not with ``course_lib.pruning``.

    Args:
        weight: (rows, columns). Not changed.
        groups: lists of columns, each column at most once; there may be none.

    Returns:
        ``packed`` (rows, G), dtype of ``weight``. ``channel`` (rows, G), int64: the column
        of each packed weight; −1 (and packed 0) where the group has only zeros in this row.
        ``mask`` (rows, columns), bool: True exactly where a non-zero is kept (of equal |w| the
        lower column is pruned).

    >>> packed, channel, mask = combine_columns(torch.tensor([[3.0, -4.0], [0.0, 0.0]]), [[0, 1]])
    >>> packed.tolist(), channel.tolist(), mask.tolist()
    ([[-4.0], [0.0]], [[1], [-1]], [[False, True], [False, False]])
    """
    ### BEGIN SOLUTION
    rows = len(weight)
    packed = weight.new_zeros(rows, len(groups))
    channel = torch.full_like(packed, -1, dtype=torch.int64)
    mask = torch.zeros_like(weight, dtype=torch.bool)
    for g, group in enumerate(groups):
        for column in sorted(group):
            wins = (weight[:, column] != 0) & (weight[:, column].abs() >= packed[:, g].abs())
            packed[wins, g] = weight[wins, column]
            channel[wins, g] = column
        full = (channel[:, g] >= 0).nonzero().flatten()
        mask[full, channel[full, g]] = True
    return packed, channel, mask
    ### END SOLUTION


# %%
check("5.2")

# %% [markdown]
# <details><summary>Hint 1: a tournament</summary>Go through a group's columns from left
# to right. If |w| of the new column is at least as large as |w| in the cell, the new
# weight and its column replace the cell: of equals the higher column is kept.</details>
# <details><summary>Hint 2: empty cells</summary>A zero never wins, not even against an
# empty cell: the channel remains −1.</details>

# %% [markdown]
# ### Experiment 2: does the greedy order help?
#
# The network is pruned to 85 % by magnitude and then trained, so its columns are
# sparse. **Cells in use** is the share of the packed cells that hold a weight (15 %
# without packing). The cost is the share of the weights lost to conflicts. The rival:
# columns in *random order*, each joining the first group that the same two limits allow.

# %%
finetune = SETTINGS["finetune"]
sparse = [lab05.sparse_start(net, data, seed, finetune) for seed, net in enumerate(dense)]
live = lab05.packings(sparse[0], combine_columns)
packed = lab05.read_both("packed")
fig = plots.curves(
    packed,
    x="utilisation",
    y="lost",
    along="limit",
    panels="images",
    control="random order",
    ylabel="weights lost to conflicts (%)",
    title="Groups of at most 8 columns: γ = 0, 0.05, 0.25, 0.5, no limit",
)
lab05.add_live(fig, PANEL, live, "utilisation", "lost")

# %% [markdown]
# {{claim 05.4}}
#
# Nearly three times the utilisation costs *no weight* (γ = 0), and random order already reaches
# most of it. Up to γ = 0.25 the greedy order fills one to five points more cells. With γ = 0.5 it
# fills *fewer* cells and loses fewer weights; without a limit it fills fewer and loses more. (A
# possible reason: it joins full columns with full groups, where most conflicts arise.) So the
# limit on conflicts does most of the work, on both kinds of data.

# %%
tables.compare(
    packed[packed.images == "digits"], "utilisation", against="random order", columns="limit"
)

# %% [markdown]
# ## Part C · Zeros in the activations
#
# ### 5.3 The k largest of each image
# **15 minutes · 2 points**
#
# A product is 0 if *either* factor is 0. ReLU already produces many zeros, and we can
# produce more. But activations are known only after the image is known, so they must be
# selected for each input, in every pass.
#
# Your functions use PyTorch's general sort, in every pass. That is a slow way to select, and
# says nothing about a selection in hardware; we do not time it here.
#
# **What is tested**: selection per sample over all its entries, or per block along any
# `dim`; ties; k = 0 and k = all; any number of dimensions; the gradient, 1 where kept and
# 0 elsewhere; x is not changed.


# %%
def topk_activation(x: Tensor, k: int) -> Tensor:
    """Keep the k largest |x| of each sample, over all its entries; set the others to 0.

    Write both yourself: not with ``course_lib.pruning`` (but ``prune_lowest`` is allowed).

    Args:
        x: (B, …). Not changed.
        k: from 0 to the number of entries of a sample.

    Returns:
        Like ``x``. Of equal |x| the lower index is dropped first. The gradient is 1
        where kept, 0 elsewhere.

    >>> topk_activation(torch.tensor([[3.0, -4.0, 1.0]]), 2)
    tensor([[ 3., -4.,  0.]])
    """
    ### BEGIN SOLUTION
    size = x.abs().flatten(1)  # (B, entries)
    kept = prune_lowest(size, size.shape[1] - k, dim=1)
    return x.masked_fill(~kept.view(x.shape), 0)
    ### END SOLUTION


def nm_activation(x: Tensor, n: int, m: int, dim: int = 1) -> Tensor:
    """Keep the n largest |x| in every block of m neighbours along ``dim``, as in 5.1;
    the gradient is as above.

    >>> nm_activation(torch.tensor([[3.0, -4.0, 1.0, 2.0]]), 1, 2)
    tensor([[ 0., -4.,  0.,  2.]])
    """
    ### BEGIN SOLUTION
    return x.masked_fill(~nm_mask(x, n, m, dim), 0)
    ### END SOLUTION


# %%
check("5.3")

# %% [markdown]
# <details><summary>Hint 1: each sample separately</summary><code>flatten(1)</code>, and
# rank along dimension 1.</details>
# <details><summary>Hint 2: the gradient</summary>Select by a mask (which has no
# gradient), and multiply or use <code>masked_fill</code> without underscore: autograd then
# gives the right gradient.</details>

# %% [markdown]
# ## Part D · Gates
#
# ### 5.4 A gate for each image
# **30 minutes · 4 points**
#
# Now the network itself decides, image by image, which *channels* it computes. A
# **gate**, a small layer, computes a score per outgoing channel from the mean of each
# incoming map; a channel with a score above 0 is open. The decision must be hard (0 or
# 1), or nothing is saved. But a step function has gradient 0.
#
# The **straight-through** estimator (Bengio et al. 2013) uses the hard decision, 0 or 1,
# in the forward pass. In the backward pass we use the gradient of $\sigma(\text{score})$
# (sigmoid), as if the decision were soft. To write this down, find an expression whose
# *value* is the hard decision and whose *derivative* is that of σ.
#
# What an image costs is given: a layer's products are proportional to its own open share
# $o_l$ *and* to that of the layer before, so `gated_macs` of the library adds up
# $\text{dense}_l \cdot o_l \cdot o_{l-1}$.
#
# **What is tested**: exactly 0 and 1 in both modes, a channel with score 0 is closed;
# the gradient of σ(score) for the parameters and for x.


# %%
class ChannelGate(nn.Module):
    """Decide per image which channels are open.

    Write it yourself: not with ``course_lib.pruning``.

    Args:
        channels_in: C, the number of incoming maps.
        channels_out: M, the number of channels to open or close.

    The only parameters are those of ``self.score``, an
    ``nn.Linear(channels_in, channels_out)``, with any initial values.

    >>> gate = ChannelGate(3, 2)
    >>> gate.score.bias.data = torch.tensor([1.0, 0.0])
    >>> gate(torch.zeros(1, 3, 4, 4)).tolist()
    [[1.0, 0.0]]
    """

    def __init__(self, channels_in: int, channels_out: int) -> None:
        super().__init__()
        ### BEGIN SOLUTION
        self.score = nn.Linear(channels_in, channels_out)  # shown elsewhere
        ### END SOLUTION

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, H, W) -> (B, M): 1 where score(mean of each map) > 0, else 0, in both
        training and evaluation mode.

        The gradient, for the parameters and for x, is that of σ(score).
        """
        ### BEGIN SOLUTION
        score = self.score(x.mean((2, 3)))  # (B, M)
        soft = score.sigmoid()
        hard = (score > 0).to(soft.dtype)
        # the bracket is 0, and has a gradient
        return hard + (soft - soft.detach())
        ### END SOLUTION


# %%
check("5.4")

# %% [markdown]
# <details><summary>Hint 1: a value of 0 with a derivative</summary><code>soft -
# soft.detach()</code>: what is its value, and what is its derivative? Mind the order: a sum
# that adds <code>soft</code> first is rounded, and no longer exactly 0 or 1.</details>
# <details><summary>Hint 2: the mean of each map</summary><code>x.mean((2, 3))</code> has the
# shape (B, C).</details>

# %% [markdown]
# ### Experiment 3: static or dynamic?
#
# Network and gates are trained together, with a penalty $(\text{mean MACs}/\text{target} -
# 1)^2$. The target falls from 100 % to 30, 15 or 5 % of the MACs, since a strong penalty
# from the start would close whole layers. (So the gated network trains with its final budget for
# the last 30 % of the steps, static channels for all of them. The gates' own products are not
# counted; on the digits they are a tenth of the 5 % budget.) Three rivals have the same products:
#
# - the same network, but every image gets *another image's gates*;
# - **static** channels, the same for all images: batch norm's largest |α| (lab 04), the
#   same share of each layer, with the network trained as long;
# - static *random channels*, trained as long.
#
# *Before you look:* at 5 % of the MACs, what accuracy, in %, will the gates reach on the
# data of your run?

# %%
prediction_gates = 70  # replace it by yours

# %%
gated = lab05.learn_gates(dense[0], data, 0, 0.05, SETTINGS["gates"], ChannelGate)
live = lab05.measure_gates(gated, data)
gates = lab05.read_both("gates")
fig = plots.curves(
    gates,
    x="share",
    y="accuracy",
    xaxis="remaining",
    xlabel="products left",
    panels="images",
    control="random channels",
    title="Gates per image, and static channels trained as long",
)
lab05.add_live(fig, PANEL, [{"share": 0.05, **live}], "share", "accuracy", prediction_gates)

# %% [markdown]
# {{claim 05.5}}
#
# (*dynamic* in the figure: gates per image.) Nowhere could we detect that a decision per image
# is better than static channels that are trained as long. Channels of largest |α| are ahead with
# 5 % of the products on the digits and with 15 % on MNIST, random channels with 15 % on the
# digits. With 5 % on MNIST the mean of the gates is nine points lower, but their
# accuracy differs so much between seeds that the interval just contains 0. The next tables print
# all differences. With another image's gates we could not detect a loss. (A possible reason: gates
# that are trained together with the weights hardly depend on the image.) These are two whole
# procedures: the gates also choose their share of each layer.
#
# Gao et al. (2019) report a gain on CIFAR and ImageNet. Their gates also *amplify* channels, and
# a fixed number of channels is open; we did not repeat this.

# %%
for images, of in gates.groupby("images", sort=False):
    say(f"{images}:")
    tables.show(tables.compare(of, "accuracy", against="dynamic", columns="share"))

# %% [markdown]
# ## Part E · Weights and activations at once
#
# ### 5.5 Both at once
# **15 minutes · 2 points**
#
# With a share $p$ of zero weights and a share $q$ of zero activations one expects
# $(1-p)(1-q)$ of the products to be left, if the zeros are independent. That is an
# *expectation*. Blocks give bounds that hold for **every** input. A product is non-zero only if
# its weight and its activation are kept. So of a block's $m$ products at most
# $\min(n_x, n_w)$ are left, and at least $\max(0, n_x + n_w - m)$ if no kept number is 0. Hardware is built
# for such bounds.
#
# Zhang et al. (2024, JointNF) prune weights and activations N:M together. Their N:M is
# *adaptive*. Ours is fixed and the same in every layer, so we test the idea, not their
# method.
#
# **What is tested**: both factors pruned along C; ties; only products with two non-zero
# factors count (an int); arguments unchanged.


# %%
def joint_nm(x: Tensor, weight: Tensor, n_x: int, n_w: int, m: int) -> tuple[Tensor, int]:
    """Compute a linear layer with weights n_w:m and inputs n_x:m, both along C.

    Args:
        x: (B, C). weight: (R, C). Not changed.

    Returns:
        y (B, R) = x̂·ŵᵀ (the pruned x and weight), and the number of products (b, r, c)
        whose factors are both non-zero after pruning (an int).

    >>> joint_nm(torch.tensor([[1.0, 2.0]]), torch.tensor([[5.0, 3.0], [0.0, 4.0]]), 1, 1, 2)
    (tensor([[0., 8.]]), 1)
    """
    ### BEGIN SOLUTION
    sparse_x = nm_activation(x, n_x, m, 1)
    sparse_w = weight.masked_fill(~nm_mask(weight, n_w, m, 1), 0)
    # by column: samples times outputs
    products = int(((sparse_x != 0).sum(0) * (sparse_w != 0).sum(0)).sum())
    return sparse_x @ sparse_w.T, products
    ### END SOLUTION


# %%
check("5.5")

# %% [markdown]
# <details><summary>Hint</summary>In column c, each non-zero input meets each non-zero
# weight: (number of samples) × (number of outputs). Sum over c.</details>

# %% [markdown]
# ### Experiment 4: which zeros can training compensate for?
#
# Weights and activations of `conv2` to `conv4` are 1:4 or 1:8, with five epochs of
# training (MNIST: three). They are selected in three ways:
#
# | | depends on the image | the same for every image |
# |---|---|---|
# | by size | yes | no |
# | at random, drawn again in every pass (*random*) | no | no |
# | at random, *drawn once* | no | yes |
#
# In both random arms the weights are random, too, and fixed; only the inputs differ.
#
# *Before you look:* on the digits at 1:4 × 1:4, what accuracy, in %, does the selection
# reach that is *drawn again* in every pass?

# %%
prediction_joint = 80  # replace it by yours

# %%
mine = lab05.joint(dense[0], data, 0, 4, finetune, "by size", nm_activation)
joint = lab05.read_both("joint")
joint["where"] = joint["images"] + "\n" + joint["pattern"]
fig = plots.bars(
    joint,
    x="where",
    y="accuracy",
    by="method",
    fmt="{:.0f}",
    constant=10,
    guess=("digits\n1:4 × 1:4", prediction_joint),
    title="Weights and activations N:M, trained: how they were selected",
)
live = [{"at": 2 * PANEL - 0.28, **mine}]  # on the bar of "by size"
lab05.add_live(fig, 0, live, "at", "accuracy")

# %% [markdown]
# {{claim 05.6}}
#
# Training compensates for most of what is always missing, even if it was chosen at random. At
# 1:4, places drawn once cost two points against the dense network (MNIST: four), at 1:8 six
# (MNIST: ten). At 1:4, places drawn once come within a point (MNIST: two) of a choice of weights and inputs by
# size, with about half as many products; at 1:8 that choice is two points ahead (MNIST: four).
# With three in four inputs lost at other places in every pass, training does not reach a useful
# accuracy: no weight can adapt to them.
#
# Why are 4.5 % of the products left by size at 1:4, and not 1/16 = 6.25 %? On the digits mostly
# because of padding: a quarter of the products meet it, which leaves 4.7 %. Blocks that contain
# only zeros are the rest (on MNIST, half).

# %%
left = joint.assign(left=100 * joint["products"], where=joint["where"].str.replace("\n", " "))
tables.show(tables.means(left, {"left": "products left (%)"}, rows=["where", "method"]))

# %% [markdown]
# ## Part F · What was it worth?
#
# ### Experiment 5: what does each method cost?
#
# 1:8 and filters with an eighth of the products in `conv2` to `conv4`, trained after
# pruning, and the network whose columns were combined with γ = 0 (15 % of the weights). The
# filters are really removed (lab 04). The size is that of the *whole model*, each tensor in
# the cheapest general format. MACs count where the weight is not 0. Now we use the **test
# images, once**.


# %%
names = {"1:8": "N:M", "filters": "filter"}
trained = {name: lab05.pruned_nets(dense, data, arm, finetune) for name, arm in names.items()}
models = {"dense": dense, **trained, "columns": sparse}
found = common.costs_and_tests(models, data)  # the only use of the test images
for method, rows in found.groupby("method", sort=False):
    cost = rows.iloc[0][["bits", "macs", "ms"]]
    ledger.add("convnet", method, lab="05", **cost, accuracy=rows["test"])
found["kmacs"] = found["macs"] / 1e3
tables.show(tables.means(found, ["kb", "kmacs", "ms", "test"]))
say(f"Test accuracy, 1:8 minus filters: {minus(found, 'test', '1:8', 'filters')}.")

# %% [markdown]
# 1:8 and the filters have about the same number of products, the columns about a fifth more. The
# filters are the only faster network here, and the smallest: they are removed (lab 04). The other
# two are timed with dense kernels; here they save *memory*. (Combined columns also need an array
# that is built for them.)
#
# **What would hardware change?** Since the A100, NVIDIA's GPUs multiply 2:4 at up to twice the
# dense math rate (Mishra et al. 2021). A published timing, *not ours*: an MLP of ViT-L, forward
# and backward, in half precision on an A100, takes 11.5 ms dense and 9.2 ms with 2:4 weights
# ([torchao](https://github.com/pytorch/ao/blob/02446fa5b14a33dff8a344b19cc3bd229fc5ebf5/torchao/sparsity/training/README.md)).
# So half of the weights saved a fifth of the time, their selection included. With 2:4
# *activations* instead it takes 11.9 ms, longer than dense.
#
# ### 5.6 A short answer
# **5 minutes · 1 point**
#
# Two differences of this lab with their 95 % intervals, on both kinds of data:
#
# {{difference 05.1}}
# {{difference 05.3}}
#
# Which one of these sentences do the intervals permit?
#
# - **A.** After training it makes no difference which weights of a block are kept.
# - **B.** With an eighth of the products, N:M is ahead of whole filters on both kinds of data.
#   Which weights of a block are kept matters on MNIST; on the digits the runs do not decide it.
# - **C.** On the digits, whole filters are as good as N:M with an eighth of the products.
# - **D.** On the digits, N:M at random is exactly as good as N:M by size.
#
# **What is tested**: the letter.

# %%
### BEGIN SOLUTION
answer_5_6 = "B"
### END SOLUTION

# %%
check("5.6")

# %% [markdown]
# ## What you take with you
#
# - Compare patterns at equal *products*: equal weights make filters look much worse than they
#   are.
# - With an eighth of the products N:M is ahead of whole filters, and single weights are not
#   detectably ahead of N:M.
# - Without hardware for it, N:M is a storage format: ⌈log₂ m⌉ bits per place, no search.
# - Columns can be packed without losing a weight; beyond that the *limit* on conflicts does
#   most of the work, not the greedy order.
# - Training compensates for most of what is always missing. Inputs lost at other places in
#   every pass cost most of the accuracy.
# - Compare gates per image with static channels that are *trained as long*.
#
# ### Five questions to recap
#
# 1. How many bits does a place need at 1:4, and why are there no row pointers?
#    <details><summary>Answer</summary>Two. Every block holds one value, so the position in
#    the list gives the block.</details>
# 2. Why is a comparison of patterns at equal *weights* unfair to filters?
#    <details><summary>Answer</summary>A removed filter also removes an input of the next
#    layer, so filters have fewer products.</details>
# 3. Why can the greedy rule without a limit be worse than random groups?
#    <details><summary>Answer</summary>A possible reason: it joins full columns with full
#    groups, where most conflicts arise.</details>
# 4. Which experiment separates "the right activations" from "always the same
#    activations"?
#    <details><summary>Answer</summary>Random activations drawn once, compared with random
#    activations drawn again in every pass.</details>
# 5. A dynamic network beats its static version at equal MACs. Which baselines are
#    missing?
#    <details><summary>Answer</summary>Static channels, trained as long; another image's
#    decisions; random channels.</details>
#
# ## Going further
#
# - **Real data.** `DATA = "mnist"` above. **On a suitable GPU**,
#   `torch.sparse.to_sparse_semi_structured` stores and multiplies 2:4.
# - **Other patterns.** Transposable N:M (for the backward pass); permuted channels, so
#   that large weights do not share a block; a different n in each layer.
# - **Read.** A. Mishra et al., [Accelerating Sparse Deep Neural
#   Networks](https://arxiv.org/abs/2104.08378), 2021. H. T. Kung, B. McDanel, S. Q.
#   Zhang, [Packing Sparse Convolutional Neural Networks for Efficient Systolic Array
#   Implementations](https://doi.org/10.1145/3297858.3304028), 2019. Y. Bengio, N.
#   Léonard, A. Courville, [Estimating or Propagating Gradients Through Stochastic
#   Neurons for Conditional Computation](https://arxiv.org/abs/1308.3432), 2013. X. Gao
#   et al., [Dynamic Channel Pruning: Feature Boosting and
#   Suppression](https://arxiv.org/abs/1810.05331), 2019. S. Q. Zhang et al., [JointNF:
#   Enhancing DNN Performance through Adaptive N:M Pruning across both Weight and
#   Activation](https://doi.org/10.1145/3665314.3670813), 2024.
# - **Next.** From images to texts: the weights, heads and tokens of transformers.
