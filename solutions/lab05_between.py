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
# **Zeros at any position cost little accuracy and save no time; removing whole filters
# saves time and costs accuracy. Is there a method in between with both advantages?**
#
# You will build four such methods. For each: how much accuracy does it cost, and on
# which hardware does it save time?
#
# **Prerequisites.** Lab 00 (formats, MACs), lab 01 (magnitude, recalibration), lab 04
# (channels, scales α).
#
# Symbols, terms and the meaning of ±: [one page for all labs](../docs/notation.md).
#
# **After this lab you can**
#
# - prune, store and multiply N:M matrices, and say which hardware gains;
# - pack sparse columns, and judge a greedy rule with a random baseline;
# - prune activations, and train gates with a straight-through gradient;
# - bound the number of products left when weights and activations are pruned;
# - choose the baselines for a dynamic network.
#
# | part | you write | question |
# |---|---|---|
# | A · N of every M | 5.1 the mask, 5.2 storing it, 5.3 multiplying it | where is N:M between single weights and filters? |
# | B · Packed columns | 5.4 grouping (optional), 5.5 combining (optional) | what makes a packing good? |
# | C · Zeros in the activations | 5.6 top-k and N:M | what does the selection cost? |
# | D · Gates | 5.7 a gate per image, and its cost | static or dynamic? |
# | E · Weights and activations | 5.8 both factors | which zeros can training compensate for? |
# | F · What was it worth? | 5.9 two short answers, 5.10 a bug hunt (optional) | cost and test accuracy |
#
# 15 points; about 3½ hours without the optional exercises 5.4, 5.5 and 5.10. Their
# 5 bonus points can replace points that you lose elsewhere in the lab. After each
# exercise `check("5.1")` tells you what is right. `skip("5.1")` gives up a question: it
# scores 0, and the lab continues with the course's version.
#
# The rules are those of lab 01: guess first; choose on validation data and use the test
# data once, at the end; no claim without a random baseline and three seeds. A
# difference is *distinguishable* if its 95 % paired t-interval excludes 0. The whole
# lab has one rule for ties: *of equal sizes the first is pruned first.*

# %%
from functools import partial

from course_lib.grading import check, skip  # noqa: F401  (skip is yours to use)

# isort: split
import copy
import math
from collections.abc import Callable

import numpy as np  # noqa: F401  (yours to use)
import torch
from torch import Tensor, nn

from course_lib import devices, experiments, ledger, training
from course_lib.data.images import load
from course_lib.experiments import lab05
from course_lib.parallel import sweep
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
# channel. Change one word for MNIST (much longer; the conclusions and question 5.9 are
# about the digits). The experiments are short functions in
# [lab05.py](../course_lib/experiments/lab05.py); the stored results repeat them with
# more seeds.

# %%
DATA = "digits"  # or "mnist"
DEVICE = devices.use("cpu")  # or "cuda"
SEEDS = 3
SETTINGS = {"digits": lab05.DIGITS, "mnist": lab05.MNIST}[DATA]

data = load(DATA).subset(SETTINGS["images"], validation=lab05.VALIDATION)
dense = lab05.dense_nets(data, SEEDS, SETTINGS["epochs"])
names = ("patterns", "packed", "joint", "gates")
stored = {name: experiments.read(f"lab05_between_{DATA}/{name}") for name in names}
say(
    f"**{data.name}**: {len(data.train.labels)} training, {len(data.validation.labels)} validation"
    f" and {len(data.test.labels)} test images. Validation accuracy of the dense networks:"
    f" {pm([training.evaluate(net, data.validation) for net in dense])} %. The stored result has"
    f" {stored['patterns']['seed'].nunique()} seeds."
)

# %% [markdown]
# ## Part A · N of every M
#
# ### 5.1 The mask
# **15 minutes · 3 points**
#
# Cut a row of weights into blocks of $m$ neighbours, and keep exactly the $n$ largest
# $|w|$ in each block. This is N:M sparsity. Since the A100 (compute capability 8.0),
# NVIDIA's GPUs multiply 2:4 at up to twice the rate. The hardware needs no search:
# every block starts at a known address and holds $n$ numbers. But in a 1:4 block of
# four large weights three are pruned, and in one of four tiny weights one is kept.
#
# **What is tested**: the largest |w| along any `dim`, also negative, for tensors of one
# or more dimensions; ties; n = m; a bool result; ValueError.


# %%
def nm_mask(weight: Tensor, n: int, m: int, dim: int) -> Tensor:
    """Keep exactly the n largest |w| in every block of m neighbours along ``dim``.

    Write it yourself: not with ``torch.nn.utils.prune``, ``torch.ao.pruning`` or
    ``course_lib.pruning``.

    Args:
        weight: any number of dimensions ≥ 1. Not changed.
        n, m: 1 ≤ n ≤ m. A block: the entries km … km + m − 1 along ``dim``, with equal
            other indices.
        dim: may be negative (from the end).

    Returns:
        Bool like ``weight``, True = kept. Of equal |w| the lower index is pruned first.

    Raises:
        ValueError: if n is not in 1 … m, or m does not divide ``weight.shape[dim]``.

    >>> nm_mask(torch.tensor([0.5, -3.0, 2.0, 1.0]), 2, 4, 0)
    tensor([False,  True,  True, False])
    """
    ### BEGIN SOLUTION
    if not 1 <= n <= m or weight.shape[dim] % m:
        raise ValueError(f"m must divide {weight.shape[dim]} and n lie in 1 … m, got {n}:{m}")
    turned = weight.abs().movedim(dim, -1)  # (…, size)
    blocks = turned.reshape(-1, m)  # (blocks, m)
    lowest = blocks.argsort(dim=1, stable=True)[:, : m - n]
    kept = torch.ones_like(blocks, dtype=torch.bool)
    kept.scatter_(1, lowest, False)
    return kept.view(turned.shape).movedim(-1, dim)
    ### END SOLUTION


# %%
check("5.1")

# %%
say(f"At 2:4 a block has {math.comb(4, 2)} masks; without the pattern, four weights have {2**4}.")

# %% [markdown]
# <details><summary>Hint 1: bring the blocks into rows</summary><code>movedim(dim,
# -1)</code>, then <code>reshape(-1, m)</code>: each row is a block. Undo both at the
# end.</details>
# <details><summary>Hint 2: how many are pruned?</summary>m − n. (At 2:4 this equals n;
# try your function at 1:4.)</details>
# <details><summary>Hint 3: ties</summary>A stable argsort keeps equal entries in order;
# <code>topk</code> does not guarantee an order.</details>

# %% [markdown]
# ### 5.2 Storing it
# **25 minutes · 2 points**
#
# Lab 00's formats store the position of each value in the whole matrix. Here the
# position of a value in the list determines its block, so we store only its place *in
# the block*: $\lceil\log_2 m\rceil$ bits. At 2:4 these are 4 bits per block, as many as
# in a bitmap.
#
# **What is tested**: places in rising order, unused places filled as described;
# decompression with places in any order; a whole number of bits, also for m = 1 and m
# no power of two; NaN, ±inf, −0.0, half precision; ValueError.


# %%
def nm_compress(weight: Tensor, n: int, m: int) -> tuple[Tensor, Tensor]:
    """Compress a matrix with at most n non-zeros per block of m neighbours in a row.

    Write these three yourself: not with ``to_sparse_semi_structured`` or
    ``course_lib.cost``.

    Args:
        weight: (R, C), C a multiple of m.

    Returns:
        ``values`` and ``index`` (int64), both (R, C·n/m): n entries per block, sorted by
        place in the block, 0 … m − 1. These are all non-zeros of the block. If there are
        fewer than n, add the lowest other places, with their zeros. −0.0 is a zero; NaN
        and ±inf are not.

    Raises:
        ValueError: if a block has more than n non-zeros.

    >>> nm_compress(torch.tensor([[0, 0, 0, 7, 5, 0, 6, 0]]), 2, 4)
    (tensor([[0, 7, 5, 6]]), tensor([[0, 3, 0, 2]]))
    """
    if weight.ndim != 2 or not 1 <= n <= m or weight.shape[1] % m:
        raise ValueError(f"weight must be (R, C), C a multiple of m, and 1 ≤ n ≤ m; got {n}:{m}")
    ### BEGIN SOLUTION
    rows, columns = weight.shape
    blocks = weight.reshape(rows, columns // m, m)
    there = blocks != 0
    if bool((there.sum(-1) > n).any()):
        raise ValueError(f"weight must have at most {n} non-zeros per block of {m}")
    # non-zeros first, then the lowest
    index = (~there).int().argsort(dim=-1, stable=True)[..., :n].sort(dim=-1).values
    return blocks.gather(-1, index).reshape(rows, -1), index.reshape(rows, -1)
    ### END SOLUTION


def nm_decompress(values: Tensor, index: Tensor, n: int, m: int) -> Tensor:
    """Rebuild the matrix (R, C), in the dtype of ``values``. The places of a block may
    have any order.

    >>> nm_decompress(torch.tensor([[5, 7]]), torch.tensor([[3, 0]]), 2, 4)
    tensor([[7, 0, 0, 5]])
    """
    ### BEGIN SOLUTION
    rows = len(values)
    blocks = values.new_zeros(rows, values.shape[1] // n, m)
    return blocks.scatter(-1, index.view(rows, -1, n), values.view(rows, -1, n)).flatten(1)
    ### END SOLUTION


def nm_bits(rows: int, columns: int, n: int, m: int, bits: int = 32) -> int:
    """Count the bits of a stored matrix: per block n values of ``bits`` bits and n places
    of ⌈log₂ m⌉ bits (0 for m = 1).

    >>> nm_bits(rows=2, columns=8, n=2, m=4)
    272
    """
    if not 1 <= n <= m or columns % m:
        raise ValueError(f"m must divide {columns} columns and n lie in 1 … m, got {n}:{m}")
    ### BEGIN SOLUTION
    return rows * (columns // m) * n * (bits + math.ceil(math.log2(m)))
    ### END SOLUTION


# %%
check("5.2")

# %% [markdown]
# <details><summary>Hint 1: non-zeros first</summary>Sort the places of a block by "is
# it zero?" with a stable sort: the non-zeros come first in order, then the zeros in
# order. Take the first n, and sort these by place.</details>
# <details><summary>Hint 2: and back</summary><code>scatter</code> into zeros of shape
# (R, blocks, m).</details>

# %%
# (M, 9·C): C weights per place of the kernel, one place after the other
w = dense[0].conv3.weight.detach().flatten(2).movedim(1, 2).flatten(1)


def size_of(pattern: str) -> dict[str, float]:
    n, m = map(int, pattern.split(":"))
    pruned = w * nm_mask(w, n, m, 1)
    assert torch.equal(nm_decompress(*nm_compress(pruned, n, m), n, m), pruned)
    kb, bitmap = nm_bits(*w.shape, n, m) / 8e3, lab05.bitmap_kb(pruned)
    return {"N:M (kB)": kb, "bitmap (kB)": bitmap, "N:M, % of dense": 8e5 * kb / (32 * w.numel())}


tables.plain(sweep(size_of, pattern=lab05.SIZES), 2)

# %% [markdown]
# ### 5.3 Multiplying it
# **15 minutes · 2 points**
#
# Now the product, without building the matrix. Output $r$ needs only the entries of $x$
# at which row $r$ stores a value: $K = C\,n/m$ products for *every* output.
#
# **What is tested**: the values, any leading dimensions of x, places in any order; a
# NaN in x has no effect where nothing is stored, but has an effect where 0 is stored.


# %%
def nm_linear(x: Tensor, values: Tensor, index: Tensor, n: int, m: int) -> Tensor:
    """Compute x·Wᵀ for the W stored in ``values`` and ``index``, without building W.

    Args:
        x: (…, C), any leading dimensions, also none.
        values, index: (R, K) each; the places of a block may have any order.

    Returns:
        (…, R). Entries of x (NaN, for example) at which row r stores nothing do not
        affect output r. (A place in ``index`` counts as stored, also if its value is 0.)

    Raises:
        ValueError: if C does not fit.

    >>> values, index = torch.tensor([[5.0, 6.0]]), torch.tensor([[1, 0]])
    >>> nm_linear(torch.tensor([1.0, 2.0, 3.0, 4.0]), values, index, 1, 2)  # 2 · 5 + 3 · 6
    tensor([28.])
    """
    if x.shape[-1] * n != values.shape[1] * m:
        raise ValueError(
            f"x must have {values.shape[1] * m // n} entries per row, got {x.shape[-1]}"
        )
    ### BEGIN SOLUTION
    block = torch.arange(values.shape[1], device=values.device) // n  # (K,) of each stored value
    column = index + block * m  # (R, K)
    return (x[..., column] * values).sum(-1)  # (…, R, K) -> (…, R)
    ### END SOLUTION


# %%
check("5.3")

# %% [markdown]
# <details><summary>Hint</summary>Compute the column from the place in the block: to
# which block does the k-th stored value of a row belong, and where does this block
# begin? <code>x[..., column]</code> gathers (…, R, K) numbers.</details>

# %%
generator = torch.Generator().manual_seed(0)
W, batch = torch.randn(256, 256, generator=generator), torch.randn(64, 256, generator=generator)
kernels: dict[str, Callable[[], Tensor]] = {"dense": lambda: batch @ W.T}
for n, m in ((2, 4), (1, 8)):
    zeros = W * nm_mask(W, n, m, 1)
    packed = nm_compress(zeros, n, m)
    kernels[f"{n}:{m}, dense\nwith zeros"] = lambda w=zeros: batch @ w.T
    kernels[f"{n}:{m},\ncompressed"] = lambda p=packed, n=n, m=m: nm_linear(batch, *p, n, m)
title = "A product of (64, 256) with (256, 256), processor time"
plots.bars(lab05.timed(kernels), x="what", y="time", ylabel="time, dense = 1", title=title)

# %% [markdown]
# The compressed form computes only half or an eighth of the products, but is much
# slower: gathering numbers costs more than multiplying them. The pattern saves time
# only on hardware with a unit for it.

# %% [markdown]
# #### Experiment: where between element and filter?
#
# The same number of weights is pruned in six patterns
# ([details](../course_lib/experiments/lab05.py)): single weights, N:M, rows of a
# kernel, kernels, filters, and N:M with randomly kept weights. First only batch norm is
# recalibrated (lab 01); then the networks are trained for five epochs.
#
# *Before you look:* at 87.5 %, what accuracy, in %, will N:M have after five epochs of
# training?

# %%
### BEGIN SOLUTION
prediction_5_3 = 96
### END SOLUTION

# %%
live = sweep(lambda seed: lab05.patterns(dense[seed], data, seed), seed=range(SEEDS))
title = "Not trained, batch norm recalibrated: 2:4, 1:4, 1:8, 1:16"
plots.curves(
    live, x="sparsity", y="recalibrated", control="N:M at random", xaxis="sparsity", title=title
)

# %% [markdown]
# Stored result (more seeds): 87.5 % removed, then training for five epochs.

# %%
at_1_8 = stored["patterns"].query("sparsity == 0.875")
steps = {"recalibrated": "not trained (%)", "finetuned": "fine-tuned (%)"}
long = at_1_8.rename(columns=steps).melt(["seed", "method"], steps.values(), "step", "accuracy")
plots.show(
    plots.bars(
        long,
        x="method",
        y="accuracy",
        by="step",
        title="87.5 % of the weights pruned",
        guess=("N:M", prediction_5_3),
    )
)
tables.show(tables.compare(at_1_8, steps, against="N:M"))

# %% [markdown]
# {{claim 05.1}}
#
# {{claim 05.2}}
#
# {{claim 05.3}}
#
# Without training, N:M with randomly kept weights is far below N:M by size. After five
# epochs only whole filters are still worse on the digits. But the patterns are compared
# at equal *weights*: filters then have fewer products than N:M (lab 04 compares at equal
# MACs). So the conclusion is: *on the digits we could not detect a cost of the pattern
# after training, except for whole filters.* Mishra et al.
# (2021) report a similar result for 2:4 on large networks.

# %% [markdown]
# ## Part B · Packed columns
#
# ### 5.4 Which columns may share a place?
# **30 minutes · 2 points · optional**
#
# A systolic array (a grid of multipliers) has a cell for each weight, and a sparse
# matrix leaves most cells empty. Kung, McDanel and Zhang (2019) pack several sparse
# *columns* into one, if these seldom have a non-zero in the same row. Each cell then
# holds one weight, and a multiplexer (a switch) selects the channel of this weight. If
# two weights need the same cell (a **conflict**), one is pruned.
#
# Their rule is greedy. It takes the densest column first. Each column joins the group
# whose combined column becomes *fullest*, within two limits per group: at most `size`
# columns, and at most `gamma`·R conflicts (R rows).
#
# **What is tested**: this rule, with ties, γ = 0, γ infinite, size 1, an empty matrix;
# plain lists of ints.


# %%
def group_columns(weight: Tensor, size: int, gamma: float) -> list[list[int]]:
    """Group columns greedily, dense columns first.

    Write it yourself: not with ``course_lib.pruning``.

    Args:
        weight: (R, C). size: at least 1. gamma: at least 0, may be ``math.inf``.

    Returns:
        Groups in order of opening, columns in order of joining, plain ints. Columns
        without a non-zero are in no group. conflicts(group) = its non-zeros − its
        occupied rows. The rule:

        for each other column, most non-zeros first (ties: lower index first):
            candidates = groups with fewer than ``size`` columns that, *with this
                column*, have at most gamma·R conflicts
            if there are candidates: join the one whose combined column then has the
                most occupied rows (ties: the group opened first)
            else: open a new group

    Raises:
        ValueError: if size < 1 or gamma < 0.

    >>> weight = torch.tensor([[1.0, 1.0, 0.0], [1.0, 0.0, 0.0]])
    >>> group_columns(weight, 2, gamma=0.0), group_columns(weight, 2, gamma=0.5)
    ([[0], [1]], [[0, 1]])
    """
    if size < 1 or not gamma >= 0:
        raise ValueError(f"size must be at least 1 and gamma at least 0, got {size} and {gamma}")
    ### BEGIN SOLUTION
    there = weight != 0
    counts = there.sum(0).tolist()
    groups: list[list[int]] = []
    for column in sorted((c for c in range(len(counts)) if counts[c]), key=lambda c: -counts[c]):
        best, most = None, -1
        for group in groups:
            joined = [*group, column]
            occupied = int(there[:, joined].any(1).sum())
            conflicts = sum(counts[c] for c in joined) - occupied
            if len(group) < size and conflicts <= gamma * len(weight) and occupied > most:
                best, most = group, occupied
        if best is None:
            groups.append([column])
        else:
            best.append(column)
    return groups
    ### END SOLUTION


# %%
check("5.4")

# %% [markdown]
# <details><summary>Hint 1: an order</summary>Python's <code>sorted</code> is stable:
# sort the columns that are not all zero by minus their number of non-zeros.</details>
# <details><summary>Hint 2: would it fit?</summary>For each open group, compute the
# occupied rows with the new column (<code>any(1)</code>), and conflicts = all non-zeros
# − occupied rows.</details>

# %% [markdown]
# ### 5.5 Combining
# **20 minutes · 2 points · optional**
#
# In each row of a group the largest $|w|$ is kept; the others are pruned. The result is
# the packed matrix and, for each cell, its channel.
#
# **What is tested**: the three results with ties, negative weights, columns in no
# group, empty rows, no groups at all.


# %%
def combine_columns(weight: Tensor, groups: list[list[int]]) -> tuple[Tensor, Tensor, Tensor]:
    """Pack groups of columns; in each row of a group the largest |w| is kept, with its
    sign.

    Write it yourself: not with ``course_lib.pruning``.

    Args:
        weight: (R, C). groups: lists of columns; there may be none.

    Returns:
        ``packed`` (R, G), dtype of ``weight``. ``channel`` (R, G), int64: the column of
        each packed weight; −1 (and packed 0) where the group has only zeros in this row.
        ``mask`` (R, C), bool: True exactly where a non-zero is kept (of equal |w| the
        lower column is pruned).

    Raises:
        ValueError: if a column is in two groups, twice in one, or outside 0 … C − 1.

    >>> packed, channel, mask = combine_columns(torch.tensor([[3.0, -4.0], [0.0, 0.0]]), [[0, 1]])
    >>> packed.tolist(), channel.tolist(), mask.tolist()
    ([[-4.0], [0.0]], [[1], [-1]], [[False, True], [False, False]])
    """
    listed = [c for group in groups for c in group]
    if len(set(listed)) < len(listed) or any(not 0 <= c < weight.shape[1] for c in listed):
        raise ValueError(f"groups must list columns 0 … {weight.shape[1] - 1}, each at most once")
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
check("5.5")

# %% [markdown]
# <details><summary>Hint 1: a tournament</summary>Go through a group's columns from left
# to right. If |w| of the new column is at least as large as |w| in the cell, the new
# weight and its column replace the cell: of equals the higher column is kept.</details>
# <details><summary>Hint 2: empty cells</summary>A zero never wins, not even against an
# empty cell: the channel remains −1.</details>

# %% [markdown]
# #### Experiment: what makes a packing good?
#
# The network is pruned to 85 % by magnitude and then trained, so its columns are
# sparse. **Utilisation** is the share of the packed cells that hold a weight (15 %
# without packing). The cost is the share of the weights lost to conflicts. We compare
# the paper's greedy rule with random groups.


# %%
sparse = lab05.sparse_nets(dense, data, SETTINGS["finetune"])


def pack(seed: int) -> list[dict]:
    return lab05.packings(sparse[seed], data, seed, group_columns)


live = lab05.in_percent(sweep(pack, seed=range(SEEDS)))

# %%
packed = lab05.in_percent(stored["packed"]).query("packing != 'size 16, γ 0.5'")
axes = {"x": "utilisation", "control": None, "along": "packing"}
lost = "weights lost to conflicts (%)"
title = "Weights lost against utilisation"
plots.show(plots.curves(packed, y="lost", ylabel=lost, title=title, **axes))
plots.curves(packed, y="accuracy", title="Accuracy right after packing, not trained", **axes)

# %% [markdown]
# (Stored result. Greedy: groups of at most 8, γ from 0 to 0.5. Random: groups of 2 to
# 8.) Next we compare your `group_columns` with columns in random order, each joining
# the first group that the same limits allow:

# %%
limited, unlimited = live.query("limit != 'none'"), live.query("limit == 'none'")
title = "The same limits, γ 0 to 0.5: your order and random order"
axes = {"x": "utilisation", "control": None, "along": "limit"}
plots.show(plots.curves(limited, y="lost", ylabel=lost, title=title, **axes))
tables.show(tables.compare(limited, "utilisation", against="random order", columns="limit"))
free = limited.query("method == 'greedy' and limit == 'γ 0'")["utilisation"].mean()
after = packed.groupby("packing")["finetuned"].mean()
say(
    "Weights lost without a limit, your grouping minus random groups of 8:"
    f" {minus(unlimited, 'lost', 'greedy', 'random groups')}. With γ = 0 no weight is lost, at a"
    f" utilisation of {free:.0f} %. After five epochs of training"
    f" (stored result): from {after.min():.1f} % ({after.idxmin()}) to {after.max():.1f} %"
    f" ({after.idxmax()})."
)

# %% [markdown]
# Three times the utilisation costs *no weight* (γ = 0). But the greedy rule without its
# limit is worse than random groups, since it joins full columns with full groups.
#
# {{claim 05.4}}
#
# With small limits (0.05 and 0.25) random order fills a few per cent fewer cells than
# your grouping. With γ = 0 this advantage is less certain; with γ = 0.5 the greedy order
# is worse. After five epochs of
# training all packings have similar accuracy. Kung et al. report about eight times the
# utilisation (their [preprint](https://arxiv.org/abs/1811.04770): four), on larger and
# sparser networks.

# %% [markdown]
# ## Part C · Zeros in the activations
#
# ### 5.6 The k largest of each image
# **20 minutes · 2 points**
#
# A product is 0 if *either* factor is 0. ReLU already produces many zeros, and we can
# produce more. But activations are known only after the image is known, so they must be
# selected for each input.
#
# **What is tested**: selection per sample over all its entries; ties, k = 0, k too
# large, other numbers of dimensions; the gradient, 1 where kept and 0 elsewhere.


# %%
def topk_activation(x: Tensor, k: int) -> Tensor:
    """Keep the k largest |x| of each sample, over all its entries; set the others to 0.

    Write both yourself: not with ``course_lib.pruning``.

    Args:
        x: (B, …). Not changed.
        k: not negative; if k is at least the number of entries, all are kept.

    Returns:
        Like ``x``. Of equal |x| the lower index is dropped first. The gradient is 1
        where kept, 0 elsewhere.

    Raises:
        ValueError: if k < 0.

    >>> topk_activation(torch.tensor([[3.0, -4.0, 1.0]]), 2)
    tensor([[ 3., -4.,  0.]])
    """
    if k < 0:
        raise ValueError(f"k is the number of activations to keep and must be at least 0, got {k}")
    ### BEGIN SOLUTION
    size = x.abs().flatten(1)  # (B, entries)
    lowest = size.argsort(dim=1, stable=True)[:, : max(0, size.shape[1] - k)]
    kept = torch.ones_like(size, dtype=torch.bool).scatter(1, lowest, False)
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
check("5.6")

# %% [markdown]
# <details><summary>Hint 1: each sample separately</summary><code>flatten(1)</code>, and
# sort along dimension 1.</details>
# <details><summary>Hint 2: the gradient</summary>Select by a mask (which has no
# gradient), and multiply or use <code>masked_fill</code>: autograd then gives the right
# gradient.</details>

# %% [markdown]
# #### Experiment: what does the selection cost?
#
# The maps have the shape of `conv2`'s input for 64 images. ReLU compares each number
# with 0; our functions must *rank* the numbers. The reference is `conv2` itself.
#
# *Before you look:* how long will the top-k selection of half of the inputs take, if
# `conv2` itself takes 1?

# %%
### BEGIN SOLUTION
prediction_5_6 = 0.1
### END SOLUTION

# %%
conv2 = copy.deepcopy(dense[0].conv2).cpu()
maps = torch.randn(64, conv2.in_channels, 8, 8, generator=generator)
work: dict[str, Callable[[], Tensor]] = {
    "conv2": lambda: conv2(maps),
    "ReLU": maps.relu,
    "N:M, 2:4": lambda: nm_activation(maps, 2, 4),
    "top-k, half": lambda: topk_activation(maps, maps[0].numel() // 2),
}
title = "Processor time of conv2, and of the selection of its inputs"
look = {"ylabel": "time, conv2 = 1", "guess": ("top-k, half", prediction_5_6)}
plots.bars(lab05.timed(work), x="what", y="time", title=title, **look)

# %% [markdown]
# The selection takes several times as long as the convolution that it would save. A
# comparison with 0 is nearly free. Therefore ReLU's zeros are the zeros used in
# practice.

# %% [markdown]
# ## Part D · Gates
#
# ### 5.7 A gate for each image
# **30 minutes · 3 points**
#
# Now the network itself decides, image by image, which *channels* it computes. A
# **gate**, a small layer, computes a score per outgoing channel from the mean of each
# incoming map; a channel with a score above 0 is open. The decision must be hard (0 or
# 1), or nothing is saved; but a step function has gradient 0. The **straight-through**
# estimator (Bengio et al. 2013) uses the hard decision in the forward pass and a soft
# one in the backward pass. We use a common variant: the gradient of
# $\sigma(\text{score})$ (sigmoid).
#
# The cost of an image: a layer's products are proportional to its own open share $s_l$
# *and* to that of the layer before, so the sum is
# $\sum_l \text{dense}_l \cdot s_l \cdot s_{l-1}$.
#
# **What is tested**: exactly 0 and 1 in both modes, a channel with score 0 is closed,
# dtype of x; the gradient of σ(score) for the parameters and for x; the MACs per image,
# with a gradient.


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
        """x (B, C, H, W) -> (B, M) in x's dtype: 1 where score(mean of each map) > 0,
        else 0, in both training and evaluation mode.

        The gradient, for the parameters and for x, is that of σ(score).
        """
        ### BEGIN SOLUTION
        score = self.score(x.mean((2, 3)))  # (B, M)
        soft = score.sigmoid()
        # the bracket is 0, and has a gradient
        return (score > 0).to(x.dtype) + (soft - soft.detach())
        ### END SOLUTION


def gated_macs(gates: list[Tensor], dense: list[float]) -> Tensor:
    """Compute the MACs of each image (B,): Σ_l dense[l] · open share of layer l · open share of
    layer l − 1 (1 before the first).

    Args:
        gates: (B, M_l) for each layer. The result is differentiable in them.
        dense: the MACs of each layer with everything open.

    Raises:
        ValueError: if there is no layer or the lengths differ.

    >>> gates = [torch.tensor([[1.0, 0.0]]), torch.tensor([[1.0, 1.0, 1.0, 0.0]])]
    >>> gated_macs(gates, [100.0, 200.0])  # 100 · ½ + 200 · ¾ · ½
    tensor([125.])
    """
    if not gates or len(gates) != len(dense):
        raise ValueError(
            f"gates and dense need one entry per layer, got {len(gates)}, {len(dense)}"
        )
    ### BEGIN SOLUTION
    total, before = 0.0, 1.0
    for gate, macs in zip(gates, dense, strict=True):
        share = gate.mean(1)  # (B,)
        total = total + macs * share * before
        before = share
    return total
    ### END SOLUTION


# %%
check("5.7")

# %% [markdown]
# <details><summary>Hint 1: different forward and backward</summary><code>hard + (soft -
# soft.detach())</code>: what is its value, and what is its derivative?</details>
# <details><summary>Hint 2: per image</summary>Shares are means over channels (dimension
# 1), not over the batch: the mean of products is not the product of means.</details>

# %% [markdown]
# #### Experiment: static or dynamic?
#
# The weights of the network are **frozen**; only the gates are trained, for ten epochs,
# with a penalty $(\text{mean MACs}/\text{target} - 1)^2$. The target falls from 100 %
# to 30 % of the MACs, since a strong penalty from the start would close whole layers.
# The baselines ([details](../course_lib/experiments/lab05.py)): the same gates *with
# another image's decisions*; gates whose weights are held at 0, so that every image has
# the same channels; and the channels with batch norm's largest |α| (lab 04) or random
# channels, with and without recalibrated statistics.
#
# *Before you look:* at 30 % of the MACs, what accuracy, in %, will the gates have that
# decide per image (*dynamic*)?

# %%
### BEGIN SOLUTION
prediction_5_7 = 90
### END SOLUTION


# %%
def learn(seed: int) -> list[dict]:
    """Gates at 30 % of the products, and their baselines."""
    return lab05.gates_on_a_frozen_net(dense[seed], data, seed, 0.3, SETTINGS["gates"])


live = sweep(learn, seed=range(SEEDS))
frozen = stored["gates"].query("network == 'frozen' and share == 0.3")
live["computed"] = 100 * live["macs"]
tables.means(live, {"accuracy": "accuracy (%), live", "computed": "share of the MACs (%)"})

# %%
lines = frozen.assign(method=frozen["method"].str.replace(" ", "\n"))
title = f"A frozen network at 30 % of its products, {frozen['seed'].nunique()} seeds"
look = {"fmt": "{:.0f}", "guess": ("dynamic", prediction_5_7), "constant": 10}
plots.show(plots.bars(lines, x="method", y="accuracy", title=title, **look))
tables.show(tables.compare(frozen, "accuracy", against="dynamic"))

# %% [markdown]
# The gates do depend on their image: with another image's decisions the accuracy falls.
# Gates per image are far better than fixed channels of largest |α|, *if these channels
# are not recalibrated*. Recalibrating batch norm, without any training, removes nearly
# all of this advantage. We could not detect a difference between gates per image and
# fixed channels that were *learned* in the same way. So an unrepaired static network as
# the only baseline would mislead.
#
# What if the network is trained, too? Twenty epochs with the gates, against static
# channels whose network is trained as long (stored result; columns: share of the MACs):

# %%
trained = stored["gates"].query("network == 'trained'")
tables.show(tables.means(trained, "accuracy", columns="share"))
tables.compare(trained, "accuracy", against="random", columns="share")

# %% [markdown]
# {{claim 05.5}}
#
# With another image's decisions the network is nearly as good: once its
# weights are trained, too, the gates hardly depend on the image. *Here the selection
# per image adds nothing detectable to what training recovers.* A twentieth of this network still
# recognises 98 of 100 digits, so there is little to gain. We also tried two drawing
# styles, noise on half of the images, and the k channels of highest score per image
# (Gao et al. 2019). Two seeds each are too few for a proof, but static channels were
# never worse. Gao et al. report a gain on CIFAR and ImageNet, in networks trained
# together with their gates; we did not repeat this experiment.

# %% [markdown]
# ## Part E · Weights and activations at once
#
# ### 5.8 Both at once
# **15 minutes · 2 points**
#
# With a share $p$ of zero weights and a share $q$ of zero activations one expects
# $(1-p)(1-q)$ of the products to be left. That is an *expectation*. Blocks give bounds
# that hold for **every** input: of a block's $m$ products at most $\min(n_x, n_w)$ are
# left, and at least $\max(0, n_x + n_w - m)$ if no kept number is 0. Hardware is built
# for such bounds (joint N:M: Zhang et al. 2024).
#
# **What is tested**: both factors pruned along C, ties; only products with two non-zero
# factors count (an int); arguments unchanged.


# %%
def joint_nm(x: Tensor, weight: Tensor, n_x: int, n_w: int, m: int) -> tuple[Tensor, int]:
    """Compute a linear layer with weights n_w:m and inputs n_x:m, both along C.

    Args:
        x: (B, C). weight: (R, C). Not changed.

    Returns:
        y (B, R) = x̂·ŵᵀ (the pruned x and weight), and the number of products (b, r, c)
        whose factors are both non-zero after pruning (an int).

    Raises:
        ValueError: as 5.1.

    >>> joint_nm(torch.tensor([[1.0, 2.0]]), torch.tensor([[5.0, 3.0], [0.0, 4.0]]), 1, 1, 2)
    (tensor([[0., 8.]]), 1)
    """
    ### BEGIN SOLUTION
    sparse_x, sparse_w = (
        nm_activation(x, n_x, m, 1),
        weight.masked_fill(~nm_mask(weight, n_w, m, 1), 0),
    )
    # by column: samples times outputs
    products = int(((sparse_x != 0).sum(0) * (sparse_w != 0).sum(0)).sum())
    return sparse_x @ sparse_w.T, products
    ### END SOLUTION


# %%
check("5.8")

# %% [markdown]
# <details><summary>Hint</summary>In column c, each non-zero input meets each non-zero
# weight: (number of samples) × (number of outputs). Sum over c.</details>

# %% [markdown]
# #### Experiment: can training compensate?
#
# Weights and activations are 1:4 in `conv2` to `conv4`, with five epochs of training.
# They are selected in three ways: by size; at random, the activations drawn again in
# every pass; and at random, but *drawn once*, so that all images lose the same places.
#
# *Before you look:* at 1:4 × 1:4, what accuracy, in %, has random selection if it is
# drawn again in every pass?

# %%
### BEGIN SOLUTION
prediction_5_8 = 90
### END SOLUTION


# %%
def train_jointly(method: str, seed: int) -> dict:
    """Weights and activations 1:4."""
    return lab05.joint(dense[seed], data, seed, 1, 1, 4, SETTINGS["finetune"], method)


live = sweep(train_jointly, method=lab05.CHOOSING, seed=range(SEEDS))
live["kept"] = 100 * live["products"]
tables.means(live, {"accuracy": "1:4 × 1:4, live (%)", "kept": "products kept (%)"})

# %%
joint = stored["joint"]
title = "Weights and activations N:M, fine-tuned"
look = {"fmt": "{:.0f}", "guess": ("W 1:4 × A 1:4", prediction_5_8)}
plots.show(plots.bars(joint, x="pattern", y="accuracy", by="method", title=title, **look))
tables.show(tables.compare(joint, "accuracy", against="drawn once", columns="pattern"))
quarter = joint.query("pattern == 'W 1:4 × A 1:4'")
half = joint.query("pattern == 'W 2:4 × A 2:4' and method == 'by size'")
say(
    f"1:4 × 1:4, by size minus random: {minus(quarter, 'accuracy', 'by size', 'random')}."
    f"\n\nW 2:4 × A 2:4, by size: fraction of the products that are"
    f" kept **{half['products'].mean():.3f}** (stored result)."
)

# %% [markdown]
# {{claim 05.6}}
#
# Training can compensate for inputs that are always missing, weights or activations,
# even if they were chosen at random. Random activations drawn once come within a
# point of those chosen by size at 1:4, with half as many products. Selection by size
# helps little (most at 1:8). Training cannot compensate for *noise*: if different
# places are lost in every pass, no weight can adapt. (Selection by size also loses
# different places for every image, but the image determines these places.)
#
# Why are 4.5 % of the products left, and not 1/16 = 6.25 %? A kept activation is hardly
# ever one of ReLU's zeros, but some blocks contain only zeros, and products with
# padding are 0 as well.

# %% [markdown]
# #### Real data: MNIST
#
# The same network on MNIST, 2,000 training images, three seeds (`course remake
# lab05_between_mnist`): which conclusions hold?

# %%
mnist = experiments.read("lab05_between_mnist/patterns").query("sparsity == 0.875")
tables.show(tables.means(mnist, steps))
say(f"(Dense: {pm(experiments.read('lab05_between_mnist/dense')['validation'])} %.)")

# %% [markdown]
# The claims above print what MNIST says of each. Also, on MNIST static channels of a frozen network with recalibrated
# statistics are far worse than the gates (with a wide interval): on MNIST recalibration
# is not enough, but training is.
#
# ## Part F · What was it worth?
#
# ### Experiment: what each method costs
#
# We compare 2:4 and 1:8 weights, trained after pruning, and combined columns (γ = 0).
# The size is that of the *whole model*, each tensor in the cheapest general format
# (dense, bitmap, COO or CSR), with biases and norms. The next column is the size of
# `conv2` to `conv4` as *this* lab stores them. Now we use the **test images, once**.


# %%
def pruned_to(n: int, m: int) -> list[nn.Module]:
    epochs = SETTINGS["finetune"]
    return [lab05.pruned_to(net, data, seed, n, m, epochs) for seed, net in enumerate(dense)]


models = {"dense": dense, "2:4": pruned_to(2, 4), "1:8": pruned_to(1, 8), "columns, γ 0": sparse}
# the only use of the test images
found = lab05.costs(models, data, nm_bits, group_columns)
for method, rows in found.groupby("method", sort=False):
    cost = rows.iloc[0][["bits", "macs", "ms"]]
    ledger.add("convnet", method, lab="05", **cost, accuracy=rows["test"])
tables.show(tables.means(found, ["kb", "stored_kb", "kmacs", "ms", "test"]))
tables.show(tables.compare(found, "test", against="dense"))
ledger.table()

# %% [markdown]
# All four rows take the same time (first network), since all compute the same dense
# products: on this processor the patterns save *memory*, not time. With 1:8 a seventh
# of the bits is left, and about a seventh of the products on hardware that skips zeros.
# We could not detect a loss of accuracy. Combined columns store their empty cells, too,
# so a bitmap would be smaller; in return they are dense, and no weight was lost.
#
# ### 5.9 Two short answers
# **5 minutes · 1 point**
#
# **a.** Weights 1:4 and activations 1:4, both chosen by size, kept nearly all of the
# accuracy after training, with about 4.5 % of the products. Someone concludes that "the
# layer needs 4.5 % of the time". What is wrong?
#
# - **A.** 1:4 times 1:4 leaves 1/16, which is 6.25 %; 4.5 % must be a mistake.
# - **B.** The accuracy will fall on new images.
# - **C.** Padding has been counted as pruned.
# - **D.** Fewer products do not mean less time: selecting activations and matching the
#   factors costs more here than it saves; only hardware built for N:M gains.
#
# **b.** Differences of this lab, with their 95 % intervals, on both kinds of data:
#
# {{difference 05.2}}
# {{difference 05.3}}
#
# Which of these sentences do the intervals permit?
#
# - **A.** After training, the pattern costs no accuracy.
# - **B.** On MNIST it matters after training which weights of a block are kept.
# - **C.** On the digits, N:M at random is exactly as good as N:M by size after
#   training.
# - **D.** The choice of weights matters more on MNIST than on the digits.

# %%
### BEGIN SOLUTION
answer_5_9a = "D"
answer_5_9b = "B"
### END SOLUTION

# %%
check("5.9")

# %% [markdown]
# ### 5.10 Bug hunt
# **20 minutes · 1 point · optional**
#
# A version of `nm_mask`, and a test that it passes:


# %%
def suspicious_nm_mask(weight: Tensor, n: int, m: int, dim: int) -> Tensor:
    sizes = weight.abs().movedim(dim, -1).unflatten(-1, (-1, m))
    lowest = sizes.argsort(dim=-1, stable=True)[..., :n]
    return torch.ones_like(sizes).bool().scatter(-1, lowest, False).flatten(-2).movedim(-1, dim)


def naive_test(f: Callable) -> None:
    weight = torch.randn(8, 8, generator=torch.Generator().manual_seed(0))
    blocks, kept = weight.abs().view(-1, 4), f(weight, 2, 4, 1).reshape(-1, 4)
    assert (kept.sum(1) == 2).all()
    assert (torch.where(kept, blocks, 9.0).amin(1) >= torch.where(kept, 0.0, blocks).amax(1)).all()


naive_test(suspicious_nm_mask)
print("suspicious_nm_mask passes the naive test.")

# %% [markdown]
# This version prunes $n$ instead of keeping $n$; the test uses only 2:4 and cannot
# detect that. Write `find_bug(f)`. Its argument is a function `f(weight, n, m, dim)`,
# called by position. `find_bug` raises `AssertionError` if `f` breaks the contract of
# **5.1**, and returns otherwise. The contract, as a checklist: a bool result of the
# weight's shape; blocks along `dim`, which may be negative; in each block the n largest
# |w|; of equal |w| the lower index pruned first.
#
# **What is tested**: your verdicts on right and wrong versions; you must judge both
# kinds correctly. All take finite weights with one to four dimensions and an m that
# divides the dimension. Wrong arguments are not tested. Use small inputs: a call with
# more than eight million numbers is refused, and `find_bug` has ten seconds per
# version.


# %%
def find_bug(f: Callable[[Tensor, int, int, int], Tensor]) -> None:
    """Raise AssertionError if ``f(weight, n, m, dim)`` breaks the contract of
    ``nm_mask`` (5.1); else return.
    """
    ### BEGIN SOLUTION
    generator = torch.Generator().manual_seed(2)
    cases = [
        (torch.randn(8, 8, generator=generator), 2, 4, 1),
        (torch.randn(8, 6, generator=generator), 1, 4, 0),
        (torch.randn(4, 6, 3, generator=generator), 1, 3, 1),
        (torch.randn(2, 4, 4, 4, generator=generator), 3, 4, -2),
        (torch.randint(-2, 3, (6, 12), generator=generator).float(), 2, 6, 1),
        (torch.randint(-2, 3, (12,), generator=generator).float(), 1, 4, 0),
        (torch.randn(4, 4, generator=generator), 4, 4, 0),
    ]
    for weight, n, m, dim in cases:
        kept = f(weight.clone(), n, m, dim)
        assert kept.shape == weight.shape and kept.dtype == torch.bool, (
            "not a bool mask of the weight's shape"
        )
        sizes = weight.abs().movedim(dim, -1).reshape(-1, m).tolist()
        for block, mask in zip(sizes, kept.movedim(dim, -1).reshape(-1, m).tolist(), strict=True):
            lowest = sorted(range(m), key=lambda i, block=block: (block[i], i))[: m - n]
            assert [i not in lowest for i in range(m)] == mask, (
                f"{n}:{m} along {dim}: {block} has the mask {mask}"
            )
    ### END SOLUTION


# %%
for f in (nm_mask, suspicious_nm_mask):
    try:
        find_bug(f)
        print(f"{f.__name__}: no bug found")
    except AssertionError as reason:
        print(f"{f.__name__}: caught ({reason})")

# %%
check("5.10")

# %% [markdown]
# <details><summary>Hint 1: choose n and m</summary>Use n ≠ m − n, so that keeping and
# pruning differ, and an m other than 4.</details>
# <details><summary>Hint 2: choose weights</summary>Use both signs, many equal sizes,
# and a dim that is not the last, on a shape where the last would also fit.</details>

# %% [markdown]
# ## Play
#
# ### Between element and filter
#
# Choose a pattern and its size. You see the stored accuracy right after pruning,
# recalibrated and trained, and the mask of `conv3` at one place of its kernels. How
# much does each step restore? (Tab selects a control, the space bar presses a button.)

# %%
play = partial(lab05.draw_pattern, dense[0], stored["patterns"])
plots.explore(play, arm=list(lab05.ARMS), size=list(lab05.SIZES))

# %% [markdown]
# ## What you take with you
#
# - Patterns between single weights and filters cost accuracy *before* training. After
#   training, on the digits only whole filters show a cost; on MNIST random N:M does, too.
# - Without hardware for it, N:M is only a storage format.
# - A greedy rule can be worse than random groups; here a limit on conflicts did most of
#   the work.
# - Training compensates for inputs that are always missing. It cannot compensate for
#   noise.
# - Compare gates per image with static choices *that were repaired*, or the gates will
#   look better than they are.
#
# ## Recap
#
# **1.** How many bits does a place need at 1:4, and why are there no row pointers?
# <details><summary>Answer</summary>Two. Every block holds one value, so the position in
# the list gives the block.</details>
#
# **2.** Why is a compressed 1:8 product slower than a dense one on a CPU?
# <details><summary>Answer</summary>Gathering entries of x costs more than the
# multiplications that it saves.</details>
#
# **3.** Why can the greedy rule without a limit on conflicts be worse than random
# groups?
# <details><summary>Answer</summary>It joins full columns with full groups, where most
# conflicts arise.</details>
#
# **4.** Which experiment separates "the right activations" from "always the same
# activations"?
# <details><summary>Answer</summary>Random activations drawn once, compared with random
# activations drawn again in every pass.</details>
#
# **5.** A dynamic network beats its static version at equal MACs. Which baselines are
# missing?
# <details><summary>Answer</summary>Static channels, recalibrated or trained as long;
# learned fixed channels; another image's decisions; random channels.</details>
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
