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
# **Zeros anywhere cost no accuracy and save no time; whole filters save time and cost
# accuracy. Is there something in between that has both?**
#
# Lab 01 put zeros wherever the weights were small; no kernel ran faster. Lab 04 took
# whole filters out; the clock moved, and so did the accuracy. The lecture lists what
# lies between: patterns that hardware can plan for, zeros in the *activations*, and
# networks that decide for every image anew. You will build each of them and ask two
# questions: what does it cost in accuracy, and who, exactly, gains time by it?
#
# | part | you write | you find out |
# |---|---|---|
# | A · N of every M | 5.1 the mask, 5.2 storing it, 5.3 multiplying it | where N:M stands between single weights and filters |
# | B · Columns on top of each other | 5.4 grouping, 5.5 combining | what makes a packing good: order, or a limit? |
# | C · Zeros in the activations | 5.6 top-k and N:M | what the choosing costs |
# | D · Gates | 5.7 a gate by image, and its price | static or dynamic? |
# | E · Weights and activations at once | 5.8 both factors | which zeros can be trained away, and which cannot |
# | F · What was it worth? | 5.9 two short answers, 5.10 a bug hunt | the bill, and the test images once |
#
# 20 points; about three hours. After each exercise `check("5.1")` tells you at once
# what is right. If you are stuck, write `skip("5.1")` in a cell: that question scores 0
# and the rest of the lab goes on with the course's version.
#
# The rules are those of lab 01: guess first; choose on validation data and look at the
# test data once, at the end; no claim without a random control and three seeds. And one
# rule for ties in the whole lab, weights and activations alike: *of equal sizes the one
# that comes first is pruned first.*

# %%
from course_lib.grading import check, choose, skip  # noqa: F401  (skip is yours to use)

# isort: split
import math
from collections.abc import Callable

import numpy as np
import torch
from IPython.display import display
from matplotlib.figure import Figure
from torch import Tensor, nn

from course_lib import experiments, ledger
from course_lib.cost import encodings, latency, model_cost, totals
from course_lib.data.images import load
from course_lib.experiments import lab05
from course_lib.models import build
from course_lib.parallel import side_by_side
from course_lib.pruning.weights import prunable
from course_lib.show import plots, real_data, widgets
from course_lib.show.words import ends, pm, say, versus, you_wrote
from course_lib.training import evaluate

STUDENT = ""  # your name or number: the letters of your questions are yours alone

# %% [markdown]
# ## Settings
#
# The data are scikit-learn's handwritten digits, the network the small conv net of labs
# 01 and 04. We prune `conv2` to `conv4` along their inputs; `conv1` has a single input
# channel. Change one word for MNIST (much longer; the sentences after the experiments,
# and question 5.9, are about the digits).

# %%
DATA = "digits"  # or "mnist"

SEEDS = 3
SETTINGS = {"digits": lab05.DIGITS, "mnist": lab05.MNIST}[DATA]
plots.use_style()

data = load(DATA).subset(SETTINGS["images"], validation=lab05.VALIDATION)
fresh = [build("convnet", data, seed=seed) for seed in range(SEEDS)]
dense = side_by_side(
    lab05.trained, [(model, data, seed, SETTINGS["epochs"]) for seed, model in enumerate(fresh)]
)
dense_accuracy = [evaluate(model, data.validation) for model in dense]
# all of this lab, with more seeds, or images, than there is time for
shipped = experiments.read(f"lab05_between_{DATA}")["seeds"]
say(
    f"**{data.name}**: {len(data.train.labels)} training, {len(data.validation.labels)} validation"
    f" and {len(data.test.labels)} test images. Validation accuracy of the dense networks:"
    f" {pm(dense_accuracy)} %. The result file holds {len(shipped)} seeds."
)

# %% [markdown]
# ## Part A · N of every M
#
# ### 5.1 The mask
# **15 minutes · 3 points**
#
# Cut a row of weights into blocks of $m$ neighbours. In each block exactly $n$ stay,
# the largest in size. That is N:M sparsity; 2:4 is what NVIDIA's GPUs multiply with at
# up to twice the rate since the A100 (compute capability 8.0; not the V100, as one
# sometimes reads). Hardware likes it because nothing has to be searched: every block
# begins where arithmetic says and holds $n$ numbers.
#
# 1:4 has the sparsity of 75 %, but neither the freedom of unstructured pruning, nor the
# bluntness of a filter: in a block of four large weights three go, in a block of four
# tiny ones one stays.
#
# *Before you write anything:* how many masks does a block have at 2:4? And how many
# would four weights have if any of them could go?

# %%
### BEGIN SOLUTION
prediction_5_1 = "6 of 16"
### END SOLUTION


# %%
def nm_mask(weight: Tensor, n: int, m: int, dim: int) -> Tensor:
    """In every block of m neighbours along ``dim`` exactly the n largest |w| stay.

    Write it yourself: not with ``torch.nn.utils.prune``, ``torch.ao.pruning`` or
    ``course_lib.pruning``.

    Args:
        weight: any number of dimensions ≥ 1. Not changed.
        n, m: 1 ≤ n ≤ m. A block: the indices km … km + m − 1 along ``dim``, all other
            indices the same.
        dim: may be negative (from the end).

    Returns:
        Bool like ``weight``, True = kept. Of equal |w| the lower index is pruned first.

    Raises:
        ValueError: if n is not in 1 … m, or m does not divide ``weight.shape[dim]``.
    """
    ### BEGIN SOLUTION
    if not 1 <= n <= m or weight.shape[dim] % m:
        raise ValueError(f"{n}:{m} does not fit {weight.shape[dim]} entries")
    turned = weight.abs().movedim(dim, -1)  # (…, size)
    blocks = turned.reshape(-1, m)  # (blocks, m)
    goes = blocks.argsort(dim=1, stable=True)[:, : m - n]
    kept = torch.ones_like(blocks, dtype=torch.bool)
    kept.scatter_(1, goes, False)
    return kept.view(turned.shape).movedim(-1, dim)
    ### END SOLUTION


# %%
check("5.1")

# %%
say(
    f"At 2:4 a block has {math.comb(4, 2)} masks; if any weight could go, four weights would have"
    f" {2**4}. {you_wrote(prediction_5_1)}"
)

# %% [markdown]
# <details><summary>Hint 1: bring the blocks into rows</summary><code>movedim(dim,
# -1)</code>, then <code>reshape(-1, m)</code>: each row is a block. Take the same way
# back.</details>
# <details><summary>Hint 2: how many go?</summary>m − n. (At 2:4 that is n as well; try
# yours at 1:4.)</details>
# <details><summary>Hint 3: ties</summary>A stable argsort keeps equal ones in order;
# <code>topk</code> promises none.</details>

# %% [markdown]
# ### 5.2 Storing it
# **25 minutes · 2 points**
#
# Lab 00's formats have to say where each value belongs, in the whole matrix. Here a
# value's block is known from its place in the list, and only its place *in the block*
# has to be said: $\lceil\log_2 m\rceil$ bits. At 2:4 that is 2 bits for each of two
# values, 4 a block: as much as a bitmap of the block. (A block has 6 masks, of the 16
# that four weights could have if any could go: 3 bits would do; nobody bothers.)


# %%
def nm_compress(weight: Tensor, n: int, m: int) -> tuple[Tensor, Tensor]:
    """Values and places of a matrix of which every block of m neighbours in a row has
    at most n non-zeros.

    Write these three yourself: not with ``to_sparse_semi_structured`` or
    ``course_lib.cost``.

    Args:
        weight: (R, C), C a multiple of m.

    Returns:
        ``values`` and ``index`` (int64), both (R, C·n/m): for each block n entries, by
        rising place in the block, 0 … m − 1. They are its non-zeros and, where there
        are fewer, the lowest of its other places with their zeros. −0.0 is a zero; NaN
        and ±inf are not.

    Raises:
        ValueError: if a block has more than n non-zeros.
    """
    if weight.ndim != 2 or not 1 <= n <= m or weight.shape[1] % m:
        raise ValueError(f"{n}:{m} does not fit the shape {tuple(weight.shape)}")
    ### BEGIN SOLUTION
    rows, columns = weight.shape
    blocks = weight.reshape(rows, columns // m, m)
    there = blocks != 0
    if bool((there.sum(-1) > n).any()):
        raise ValueError(f"a block has more than {n} non-zeros: they would be lost")
    # non-zeros first, then the lowest
    index = (~there).int().argsort(dim=-1, stable=True)[..., :n].sort(dim=-1).values
    return blocks.gather(-1, index).reshape(rows, -1), index.reshape(rows, -1)
    ### END SOLUTION


def nm_decompress(values: Tensor, index: Tensor, n: int, m: int) -> Tensor:
    """The matrix (R, C) again, with the dtype of ``values``. Places in a block may come
    in any order.
    """
    ### BEGIN SOLUTION
    rows = len(values)
    blocks = torch.zeros(rows, values.shape[1] // n, m, dtype=values.dtype)
    return blocks.scatter(-1, index.view(rows, -1, n), values.view(rows, -1, n)).flatten(1)
    ### END SOLUTION


def nm_bits(rows: int, columns: int, n: int, m: int, bits: int = 32) -> int:
    """Bits of a stored matrix: n values of ``bits`` and n places of ⌈log₂ m⌉ for each
    block (none for m = 1).
    """
    if not 1 <= n <= m or columns % m:
        raise ValueError(f"{n}:{m} does not fit {columns} columns")
    ### BEGIN SOLUTION
    return rows * (columns // m) * n * (bits + math.ceil(math.log2(m)))
    ### END SOLUTION


# %%
check("5.2")

# %% [markdown]
# <details><summary>Hint 1: non-zeros first</summary>Sort the blocks' places by "is it
# zero?", stably: the non-zeros come first in order, the zeros behind them in order.
# Take n, and sort those by place.</details>
# <details><summary>Hint 2: and back</summary><code>scatter</code> into zeros of shape
# (R, blocks, m).</details>

# %%
# (M, 9·C): a kernel's place after the other
w = dense[0].conv3.weight.detach().flatten(2).movedim(1, 2).flatten(1)
rows = ["| | N:M (kB) | bitmap (kB) | N:M, share of dense |", "|---|---|---|---|"]
for n, m in lab05.PATTERNS:
    pruned = w * nm_mask(w, n, m, 1)
    stored = nm_bits(*w.shape, n, m)
    rows.append(
        f"| {n}:{m} | {stored / 8e3:.2f} | {encodings.bitmap_bits(pruned) / 8e3:.2f} |"
        f" {100 * stored / (32 * w.numel()):.1f} % |"
    )
    assert torch.equal(nm_decompress(*nm_compress(pruned, n, m), n, m), pruned)
say("\n".join(rows))

# %% [markdown]
# ### 5.3 Multiplying it
# **15 minutes · 2 points**
#
# Now the product, without ever building the matrix: output $r$ needs only those entries
# of $x$ at which row $r$ stores something; $K = C\,n/m$ products for *every* output.
# That is what a unit made for N:M does. Whether *your* processor likes it is the next
# experiment.


# %%
def nm_linear(x: Tensor, values: Tensor, index: Tensor, n: int, m: int) -> Tensor:
    """x·Wᵀ, W the matrix that ``values`` and ``index`` (R, K) stand for, without
    building it.

    Args:
        x: (…, C), any leading dimensions, also none. Places in a block of ``index`` may
            come in any order.

    Returns:
        (…, R). What is in x where row r stores nothing (NaN, say) makes no difference
        to output r. (A place that ``index`` names counts as stored, also if its value
        is 0.)

    Raises:
        ValueError: if C does not fit.
    """
    if x.shape[-1] * n != values.shape[1] * m:
        raise ValueError(
            f"x has {x.shape[-1]} entries, the matrix {values.shape[1] * m // n} columns"
        )
    ### BEGIN SOLUTION
    block = torch.arange(values.shape[1]) // n  # (K,) of each stored value
    column = index + block * m  # (R, K)
    return (x[..., column] * values).sum(-1)  # (…, R, K) -> (…, R)
    ### END SOLUTION


# %%
check("5.3")

# %% [markdown]
# <details><summary>Hint</summary>From the place in the block to the column: which block
# is the k-th stored value of a row in, and where does that block begin? Then
# <code>x[..., column]</code> gathers (…, R, K) numbers at once.</details>

# %%
generator = torch.Generator().manual_seed(0)
W, batch = torch.randn(256, 256, generator=generator), torch.randn(64, 256, generator=generator)
kernels: dict[str, Callable[[], Tensor]] = {"dense": lambda: batch @ W.T}
for n, m in ((2, 4), (1, 8)):
    half = W * nm_mask(W, n, m, 1)
    packed_values, places = nm_compress(half, n, m)
    kernels[f"{n}:{m}, dense with zeros"] = lambda half=half: batch @ half.T
    kernels[f"{n}:{m}, compressed"] = lambda v=packed_values, i=places, n=n, m=m: nm_linear(
        batch, v, i, n, m
    )
clock = latency.compare(kernels, repeats=10, threads=1)
fastest = clock["dense"].median
say(
    "Processor time of a product of (64, 256) with (256, 256), dense = 1: "
    + ", ".join(f"{name} {t.median / fastest:.1f}" for name, t in clock.items())
    + "."
)

# %% [markdown]
# Half or an eighth of the products, and the compressed form is slower by far: gathering
# numbers costs more than multiplying them. The pattern helps those who have a unit for
# it. On this machine N:M is a format, not a speed-up.

# %% [markdown]
# #### Experiment: where between element and filter?
#
# The same number of weights, in six patterns: single ones, N:M, rows of a kernel,
# kernels, filters, and N:M with the survivors drawn at random. First without any
# training, only with batch norm's statistics taken anew (lab 01: without that you would
# measure stale statistics); then after five epochs.
#
# *Before you run it:* which pattern will N:M be closest to at 87.5 %?

# %%
### BEGIN SOLUTION
prediction_5_3 = "single weights"
### END SOLUTION

# %%
found = side_by_side(lab05.patterns, [(dense[seed], data, seed) for seed in range(SEEDS)])
SPARSITY = [1 - n / m for n, m in lab05.PATTERNS]
recalibrated = {arm: np.array([f[arm]["recalibrated"] for f in found]) for arm in lab05.ARMS}
plots.show(
    plots.method_curves(
        SPARSITY,
        recalibrated,
        control="N:M at random",
        dense=dense_accuracy,
        xlabel="weights removed (%)",
        ylabel="validation accuracy (%)",
        title="Not trained, batch norm recalibrated: 2:4, 1:4, 1:8, 1:16",
        xaxis="sparsity",
    ),
    alt=(
        "Validation accuracy against weights removed, recalibrated, three seeds with intervals. At"
        " 87.5 per cent: "
    )
    + ", ".join(f"{arm} {v[:, 2].mean():.0f}" for arm, v in recalibrated.items())
    + ".",
)
untrained, tuned = (
    {arm: np.array([s["patterns"][arm][how] for s in shipped])[:, 2] for arm in lab05.ARMS}
    for how in ("recalibrated", "fine-tuned")
)
rows = [
    (
        f"| 87.5 % | not trained, live | {len(shipped)} seeds | N:M against it | trained on | N:M"
        " against it |"
    ),
    "|---" * 6 + "|",
]
for arm in lab05.ARMS:
    rows.append(
        f"| {arm} | {pm(recalibrated[arm][:, 2])} | {pm(untrained[arm])} | "
        + ("" if arm == "N:M" else versus(untrained["N:M"], untrained[arm], cell=True))
        + f" | {pm(tuned[arm])} | "
        + ("" if arm == "N:M" else versus(tuned["N:M"], tuned[arm], cell=True))
        + " |"
    )
say(
    "\n".join(rows)
    + f"\n\n(Live: {SEEDS} seeds; the other columns, from the result file, {len(shipped)}. Bold:"
    " the interval leaves 0 out, so a difference is shown.)"
)
say(you_wrote(prediction_5_3))

# %% [markdown]
# Without training N:M stands within a point of single weights, and clearly above rows,
# kernels and filters; N:M drawn at random is far below, so the choice counts for more
# than the pattern. **After five epochs no difference is shown any more**, N:M *at
# random* included; only whole filters stay behind. So the honest sentence is not "N:M
# keeps more than rows", but: *on this task no cost of the pattern is left once you
# train on, filters aside; then take the one that your hardware likes.* Mishra et al.
# (2021) say much the same for 2:4 on large networks: accuracy is kept, by training on.

# %% [markdown]
# ## Part B · Columns on top of each other
#
# ### 5.4 Which columns may share a place?
# **30 minutes · 2 points**
#
# A systolic array has a cell for each weight, and a sparse matrix fills few of them.
# Kung, McDanel and Zhang (2019): lay several sparse *columns* on top of each other,
# into one, as long as they seldom have a non-zero in the same row. Each cell then holds
# one weight, and a multiplexer that picks its channel. Where two meet, a **conflict**,
# one must go.
#
# Their rule is greedy: the densest column first; each joins the group whose combined
# column becomes *fullest*, if two limits allow it: at most `size` columns in a group,
# and at most `gamma` · R conflicts in all.


# %%
def group_columns(weight: Tensor, size: int, gamma: float) -> list[list[int]]:
    """Greedy groups of columns, dense columns first.

    Write it yourself: not with ``course_lib.pruning``.

    Args:
        weight: (R, C). size: at least 1. gamma: at least 0, may be ``math.inf``.

    Returns:
        Groups in order of opening, columns in order of joining, plain ints. Columns
        without a non-zero are in none. The others come one after the other, most
        non-zeros first (equal: lower index first); each joins, of the groups with fewer
        than ``size`` columns and, *with it*, at most gamma·R conflicts in all, that
        whose combined column has most occupied rows then (equal: the group opened
        first). Where there is none it opens a group. Conflicts of a group = its
        non-zeros − its occupied rows.

    Raises:
        ValueError: if size < 1 or gamma < 0.
    """
    if size < 1 or not gamma >= 0:
        raise ValueError(f"size is at least 1 and gamma not negative, got {size} and {gamma}")
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
# sort the columns that hold anything by minus their number of non-zeros.</details>
# <details><summary>Hint 2: would it fit?</summary>For each open group, pretend:
# occupied rows with the new column (<code>any(1)</code>), and conflicts = non-zeros
# together − occupied.</details>

# %% [markdown]
# ### 5.5 Combining
# **20 minutes · 2 points**
#
# In each row of a group the largest $|w|$ stays; the others are pruned. What comes out
# is the packed matrix and, for each cell, which channel it belongs to.


# %%
def combine_columns(weight: Tensor, groups: list[list[int]]) -> tuple[Tensor, Tensor, Tensor]:
    """Pack groups of columns; in each row of a group the largest |w| stays, with its
    sign.

    Write it yourself: not with ``course_lib.pruning``.

    Args:
        weight: (R, C). groups: lists of columns; there may be none.

    Returns:
        ``packed`` (R, G) like ``weight``; ``channel`` (R, G) int64: the column that it
        came from, −1 (and packed 0) where the group has nothing in this row; ``mask``
        (R, C) bool, True exactly where a non-zero stays (of equal |w| the lower column
        is pruned).

    Raises:
        ValueError: if a column is in two groups, twice in one, or outside 0 … C − 1.
    """
    listed = [c for group in groups for c in group]
    if len(set(listed)) < len(listed) or any(not 0 <= c < weight.shape[1] for c in listed):
        raise ValueError(f"each of the columns 0 … {weight.shape[1] - 1} has one place at most")
    ### BEGIN SOLUTION
    rows = len(weight)
    packed = torch.zeros(rows, len(groups), dtype=weight.dtype)
    channel = torch.full((rows, len(groups)), -1)
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
# to right; wherever the new one is at least as large in size as what the cell holds, it
# takes the cell, and the channel: of equals the higher column stays.</details>
# <details><summary>Hint 2: nobody there</summary>A zero never wins, not even against an
# empty cell: −1 stays.</details>

# %% [markdown]
# #### Experiment: what makes a packing good?
#
# The network is pruned to 85 % by magnitude and trained on, so that its columns are
# sparse. **Utilisation** is the share of the packed cells that hold a weight
# (uncombined: 15 %); the price is the share of the weights that conflicts cost. The
# paper's greedy rule against random groups.
#
# *Before you run it:* without a limit on conflicts, is the greedy rule better than
# random groups?

# %%
### BEGIN SOLUTION
prediction_5_5 = "yes, since it looks at the columns"
### END SOLUTION

# %%
greedy = [name for name in shipped[0]["packed"] if name.startswith("size 8")]
random_sizes = [name for name in shipped[0]["packed"] if name.startswith("random")]
sparse = side_by_side(
    lab05.sparse_start, [(dense[seed], data, seed, SETTINGS["finetune"]) for seed in range(SEEDS)]
)


def packing(seed: int, size: int, gamma: float) -> dict[str, float]:
    """One packing by *your* grouping."""
    return lab05.packed(sparse[seed], data, lambda matrix: group_columns(matrix, size, gamma), seed)


LIMITS = (0.0, 0.05, 0.25, 0.5)
live = {gamma: [packing(seed, 8, gamma) for seed in range(SEEDS)] for gamma in (*LIMITS, math.inf)}
unordered = {
    gamma: [
        lab05.packed(
            sparse[seed],
            data,
            lambda matrix, g=gamma, s=seed: lab05.in_drawn_order(matrix, 8, g, s),
            seed,
        )
        for seed in range(SEEDS)
    ]
    for gamma in LIMITS
}
fig = plots.new_figure(4.4)
axes = fig.subplots(1, 2)
for names, label, marker in (
    (greedy, "greedy, size 8, γ 0 to 0.5", "o"),
    (random_sizes, "random groups of 2 to 8", "s"),
):
    use = np.array([[s["packed"][name]["utilisation"] for name in names] for s in shipped])
    for ax, key, scale in ((axes[0], "lost", 100), (axes[1], "accuracy", 1)):
        values = scale * np.array([[s["packed"][name][key] for name in names] for s in shipped])
        ax.errorbar(
            100 * use.mean(0),
            values.mean(0),
            yerr=plots.interval(values)[1],
            marker=marker,
            capsize=3,
            label=label,
        )
axes[0].set(xlabel="utilisation (%)", ylabel="weights lost to conflicts (%)", title="the price")
axes[1].set(
    xlabel="utilisation (%)", ylabel="validation accuracy (%)", title="right after, not trained"
)
axes[0].legend(loc="upper left", fontsize=9)
plots.show(
    fig,
    alt="Weights lost, and accuracy, against utilisation of the packed array. "
    + " ".join(
        f"{name}: {100 * np.mean([s['packed'][name]['utilisation'] for s in shipped]):.0f} % used, "
        f"{100 * np.mean([s['packed'][name]['lost'] for s in shipped]):.0f} % lost."
        for name in [*greedy, *random_sizes]
    ),
)
rows = [
    "| size 8, live | " + " | ".join(f"γ {gamma:g}" for gamma in LIMITS) + " |",
    "|---" * (len(LIMITS) + 1) + "|",
]
for how, by_gamma in (
    ("yours", live),
    ("the same limits, random order, first group that fits", unordered),
):
    for key, what in (("utilisation", "cells used (%)"), ("lost", "weights lost (%)")):
        cells = (f"{100 * np.mean([r[key] for r in by_gamma[gamma]]):.0f}" for gamma in LIMITS)
        rows.append(f"| {what}, {how} | " + " | ".join(cells) + " |")
apart = (
    versus(
        *(100 * np.array([r["utilisation"] for r in way[g]]) for way in (live, unordered)),
        cell=True,
    )
    for g in LIMITS
)
rows.append("| cells used, yours against random order (points) | " + " | ".join(apart) + " |")
say("\n".join(rows) + "\n\n(Bold: shown by three seeds.)")
no_limit = [r["lost"] for r in live[math.inf]]
by_chance = [
    r["lost"]
    for r in side_by_side(lab05.packed_at_random, [(sparse[s], data, 8, s) for s in range(SEEDS)])
]
say(
    f"Your grouping, size 8, no limit: {100 * np.mean(no_limit):.0f} % of the weights lost; random"
    f" groups of 8: {100 * np.mean(by_chance):.0f} %"
    f", {versus(100 * np.array(no_limit), 100 * np.array(by_chance))}. With γ = 0 nothing is lost,"
    f" at a utilisation of {100 * np.mean([r['utilisation'] for r in live[0.0]]):.0f} %."
    f" {you_wrote(prediction_5_5)}"
)
after = {
    name: np.mean([s["packed"][name]["fine-tuned"] for s in shipped])
    for name in [*greedy, *random_sizes]
}
say(
    f"After five epochs of training (result file): from {min(after.values()):.1f} %"
    f" ({min(after, key=after.__getitem__)}) to {max(after.values()):.1f} %"
    f" ({max(after, key=after.__getitem__)})."
)

# %% [markdown]
# Three times the utilisation is *free* (γ = 0), and a little more costs little. But
# look at the greedy rule without its limit: it is worse than chance, since "join the
# fullest" packs full columns on full ones. **γ does most of the work; the order helps a
# little**: with small limits (0.05 and 0.25), columns in random order that join the first
# group that lets them in fill a few cells in a hundred fewer; with none and with a large
# one no such lead is shown. After five epochs of training even the difference in accuracy is gone:
# all packings of the result file end close together. The paper reports about four to
# eight times the utilisation, on larger and sparser networks.

# %% [markdown]
# ## Part C · Zeros in the activations
#
# ### 5.6 The k largest of each image
# **20 minutes · 2 points**
#
# A product is 0 if *either* factor is. ReLU leaves many zeros by itself; more can be
# made. But activations are not known before the image is: what stays has to be chosen
# anew for each input, and the choosing costs time (the lecture: "online pruning …
# additional overhead for sorting").


# %%
def topk_activation(x: Tensor, k: int) -> Tensor:
    """Of each sample the k largest |x| stay, all its entries together; the others
    become 0.

    Write both yourself: not with ``course_lib.pruning``.

    Args:
        x: (B, …). Not changed. k: not negative; at least all entries: all stay.

    Returns:
        Like ``x``; of equal |x| the lower index is dropped first. The gradient is 1
        where kept, 0 elsewhere.

    Raises:
        ValueError: if k < 0.
    """
    if k < 0:
        raise ValueError(f"k activations stay: k is not negative, got {k}")
    ### BEGIN SOLUTION
    size = x.abs().flatten(1)  # (B, entries)
    goes = size.argsort(dim=1, stable=True)[:, : max(0, size.shape[1] - k)]
    kept = torch.ones_like(size, dtype=torch.bool).scatter(1, goes, False)
    return x.masked_fill(~kept.view(x.shape), 0)
    ### END SOLUTION


def nm_activation(x: Tensor, n: int, m: int, dim: int = 1) -> Tensor:
    """In every block of m neighbours along ``dim`` the n largest |x| stay, as in 5.1;
    the gradient as above.
    """
    ### BEGIN SOLUTION
    return x.masked_fill(~nm_mask(x, n, m, dim), 0)
    ### END SOLUTION


# %%
check("5.6")

# %% [markdown]
# <details><summary>Hint 1: each sample for itself</summary><code>flatten(1)</code>, and
# sort along dimension 1.</details>
# <details><summary>Hint 2: the gradient</summary>Choose by a mask (which has no
# gradient) and multiply, or <code>masked_fill</code>: then it comes by
# itself.</details>

# %% [markdown]
# #### Experiment: what does choosing cost?
#
# 64 images' maps on their way into `conv2`: ReLU makes its zeros by comparing each
# number with 0; ours have to be *ranked*. Beside them the convolution whose products
# the zeros are to spare.
#
# *Before you run it:* which takes longer, choosing the inputs of `conv2`, or `conv2`?

# %%
### BEGIN SOLUTION
prediction_5_6 = "conv2"
### END SOLUTION

# %%
conv2 = dense[0].conv2
maps = torch.randn(64, conv2.in_channels, 8, 8, generator=generator)
work: dict[str, Callable[[], Tensor]] = {
    "conv2": lambda: conv2(maps),
    "ReLU": maps.relu,
    "N:M, 2:4": lambda: nm_activation(maps, 2, 4),
    "top-k, half": lambda: topk_activation(maps, maps[0].numel() // 2),
}
with torch.no_grad():
    clock = latency.compare(work, repeats=10, threads=1)
one = clock["conv2"].median
say(
    "Processor time, conv2 = 1: "
    + ", ".join(f"{name} {t.median / one:.2g}" for name, t in clock.items())
    + f". {you_wrote(prediction_5_6)}"
)

# %% [markdown]
# The lecture's "additional overhead for sorting" is a multiple of the work that it
# saves. A comparison with 0 is nearly free; that is why the zeros that are really used
# today are ReLU's.

# %% [markdown]
# ## Part D · Gates
#
# ### 5.7 A gate for each image
# **30 minutes · 3 points**
#
# A further step away from fixed zeros: let the network itself decide, image by image,
# which *channels* it computes. A small layer looks at the mean of each incoming map and
# gives each outgoing channel a score; above 0 it is open. The decision must be hard, or
# nothing is saved; but a step has no gradient. The trick (Bengio et al. 2013) is called
# **straight-through**: forwards the hard decision, backwards the gradient of
# $\sigma(\text{score})$, as if it had been soft.
#
# The price of an image: a layer's products fall with its own open share *and* with that
# of the layer before, $\sum_l \text{dense}_l \cdot s_l \cdot s_{l-1}$.


# %%
class ChannelGate(nn.Module):
    """Which channels are open, image by image.

    Write it yourself: not with ``course_lib.pruning``.

    Args:
        channels_in: C of the maps that come in. channels_out: M of the channels that
            are opened or closed.

    Its only parameters are those of ``self.score``, an
    ``nn.Linear(channels_in, channels_out)``, with any values at first.
    """

    def __init__(self, channels_in: int, channels_out: int) -> None:
        super().__init__()
        ### BEGIN SOLUTION
        self.score = nn.Linear(channels_in, channels_out)  # shown elsewhere
        ### END SOLUTION

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, H, W) -> (B, M) in x's dtype: 1 where score(mean of each map) > 0,
        else 0, in training and evaluation alike.

        Backwards, to the parameters and to x, it is the gradient of σ(score).
        """
        ### BEGIN SOLUTION
        score = self.score(x.mean((2, 3)))  # (B, M)
        soft = score.sigmoid()
        # the bracket is 0, and has a gradient
        return (score > 0).to(x.dtype) + (soft - soft.detach())
        ### END SOLUTION


def gated_macs(gates: list[Tensor], dense: list[float]) -> Tensor:
    """The MACs of each image (B,): Σ_l dense[l] · open share of layer l · open share of
    layer l − 1 (1 before the first).

    Args:
        gates: (B, M_l) for each layer. dense: the layers' MACs with everything open.
            Differentiable.

    Raises:
        ValueError: if there is no layer or the lengths differ.
    """
    if not gates or len(gates) != len(dense):
        raise ValueError(f"{len(gates)} gates and {len(dense)} layers")
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
# <details><summary>Hint 1: forwards one thing, backwards
# another</summary><code>hard + (soft - soft.detach())</code>: what is its value, and
# what is its derivative?</details>
# <details><summary>Hint 2: per image</summary>Shares are means over channels (dimension
# 1), not over the batch: the mean of products is not the product of means.</details>

# %% [markdown]
# #### Experiment: static or dynamic?
#
# The network is **frozen**; only the gates learn, ten epochs, with a penalty
# $(\text{mean MACs}/\text{target} - 1)^2$ towards 30 % of the multiply-accumulates (the
# target falls from 100 % to there: a pull that is strong from the start closes whole
# layers before the loss has a say). The controls: the same gates *with another image's
# decisions*; gates with their weights held at 0, so that every image has the same
# channels; and channels chosen by batch norm's largest |α| (lab 04), without and with
# statistics taken anew.
#
# *Before you run it:* does deciding by image help at equal MACs?

# %%
### BEGIN SOLUTION
prediction_5_7 = "yes"
### END SOLUTION

# %%
TARGET = 0.3
ARMS = {
    "dynamic": ("dynamic", "accuracy"),
    "another image's gates": ("another image's gates", "accuracy"),
    "static, learned": ("static, learned", "accuracy"),
    "largest |α|": ("static, largest scale", "as it is"),
    "largest |α|, recalibrated": ("static, largest scale", "recalibrated"),
    "random, recalibrated": ("static, random", "recalibrated"),
}
live = side_by_side(
    lab05.gates_on_a_frozen_net,
    [(dense[seed], data, seed, TARGET, SETTINGS["gates"]) for seed in range(SEEDS)],
)
frozen = {
    name: [s["gates"][f"{TARGET:g}"][arm][key] for s in shipped]
    for name, (arm, key) in ARMS.items()
}
plots.show(
    plots.bars(
        {"": {name.replace(" ", "\n"): float(np.mean(values)) for name, values in frozen.items()}},
        errors={"": {name.replace(" ", "\n"): ends(values) for name, values in frozen.items()}},
        ylabel="validation accuracy (%)",
        title=f"A frozen network at 30 % of its products, {len(shipped)} seeds",
        fmt="{:.0f}",
    ),
    alt="Bars of validation accuracy at 30 per cent of the MACs: "
    + ", ".join(f"{name} {np.mean(values):.0f}" for name, values in frozen.items())
    + ".",
)
rows = [
    f"| | live ({SEEDS} seeds) | all {len(shipped)} seeds | dynamic against it |",
    "|---" * 4 + "|",
]
for name, (arm, key) in ARMS.items():
    rows.append(
        f"| {name} | {pm([g[arm][key] for g in live])} | {pm(frozen[name])} | ".replace(
            "|α|", "\\|α\\|"
        )
        + ("" if name == "dynamic" else versus(frozen["dynamic"], frozen[name], cell=True))
        + " |"
    )
say("\n".join(rows) + "\n\n(Bold: shown.)")
say(
    f"Share of the MACs, dynamic: {pm([100 * g['dynamic']['macs'] for g in live])} %."
    f" {you_wrote(prediction_5_7)}"
)

# %% [markdown]
# The gates do look at their image: with another image's decisions the accuracy falls.
# And deciding by image beats far the fixed channels of largest
# |α|, *if nothing else is done to these*. Now look at the other controls. The cheapest repair there is, batch norm's statistics taken anew
# without any training, makes up for nearly all of the lead; fixed channels that were
# *learned* as the gates were leave so little of it that these seeds cannot show it. A
# paper that compares its dynamic network with an unrepaired static one would have had a
# splendid figure.
#
# And if the network may train, too? Twenty epochs with the gates, against static
# channels whose network trains just as long (from the result file; the lab does not run
# it live):

# %%
rows = [
    "| MACs | dynamic | another image's gates | static, largest |α| | static, random | dynamic"
    " against random |".replace("|α|", "\\|α\\|"),
    "|---" * 6 + "|",
]
for share in lab05.SMALL_SHARES:
    found = {
        name: [s["gates, trained"][f"{share:g}"][name]["accuracy"] for s in shipped]
        for name in shipped[0]["gates, trained"][f"{share:g}"]
    }
    rows.append(
        f"| {100 * share:.0f} % | "
        + " | ".join(pm(values) for values in found.values())
        + f" | {versus(found['dynamic'], found['static, random'], cell=True)} |"
    )
say("\n".join(rows))

# %% [markdown]
# **Dynamic gates do not beat static channels here, neither the largest nor random
# ones**, and with another image's decisions the network is nearly as good: once its
# weights may train, the gates hardly choose by image any more. *Choosing by image
# replaces what training would repair.* Why not here? A twentieth of this network still
# reads 98 digits of 100, so there is little for dynamics to gain, and 1,097 images have
# to train the gates besides. We looked elsewhere, too: two drawing styles
# in one data set, half of the images under noise, and the k channels of highest score
# for each image (Gao et al. 2019), two seeds each, so no proof: static channels were
# ahead or level in all of them. The gain that Gao et al. report is on CIFAR and
# ImageNet, in networks trained together with their gates; it is told here, not shown.

# %% [markdown]
# ## Part E · Weights and activations at once
#
# ### 5.8 Both at once
# **15 minutes · 2 points**
#
# With a share $p$ of zero weights and $q$ of zero activations the lecture expects
# $(1-p)(1-q)$ of the products to be left. That is an *expectation*. With blocks there
# are bounds that hold for **every** input: of a block's $m$ products at most
# $\min(n_x, n_w)$ are left, and, where nothing that is kept is 0, at least
# $\max(0, n_x + n_w - m)$. Hardware is built for bounds (joint N:M: Zhang et al. 2024).


# %%
def joint_nm(x: Tensor, weight: Tensor, n_x: int, n_w: int, m: int) -> tuple[Tensor, int]:
    """A linear layer with weights n_w:m and inputs n_x:m, both along C.

    Args:
        x: (B, C). weight: (R, C). Not changed.

    Returns:
        y (B, R) = x̂·ŵᵀ, and how many products (b, r, c) have both factors other than 0
        after pruning (an int).

    Raises:
        ValueError: as 5.1.
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
# #### Experiment: can it be trained away?
#
# Weights 1:4 and activations 1:4 in `conv2` to `conv4`, trained on together for five
# epochs: chosen by size; at random, the activations drawn anew in every pass; and at
# random, but *drawn once*, so that all images lose the same places. In part A even
# random N:M *weights* came back after training.
#
# *Before you run it:* accuracy with everything at random, drawn anew? And drawn once?

# %%
### BEGIN SOLUTION
prediction_5_8 = "90 and 95"
### END SOLUTION

# %%
jobs = [
    (dense[s], data, s, 1, 1, 4, SETTINGS["finetune"], how)
    for how in lab05.CHOOSING
    for s in range(SEEDS)
]
results = iter(side_by_side(lab05.joint, jobs))
arms = {how: [next(results) for _ in range(SEEDS)] for how in lab05.CHOOSING}
names = list(shipped[0]["joint"])
trained = {
    how: {name: [s["joint"][name][how]["accuracy"] for s in shipped] for name in names}
    for how in arms
}
plots.show(
    plots.bars(
        {
            how: {name: float(np.mean(values)) for name, values in by_name.items()}
            for how, by_name in trained.items()
        },
        errors={
            how: {name: ends(values) for name, values in by_name.items()}
            for how, by_name in trained.items()
        },
        ylabel="validation accuracy (%)",
        title="Weights and activations N:M, trained on",
        fmt="{:.0f}",
    ),
    alt="Bars of validation accuracy after training on. "
    + " ".join(
        f"{name}: " + ", ".join(f"{how} {np.mean(trained[how][name]):.0f}" for how in arms) + "."
        for name in names
    ),
)
for how, r in arms.items():
    say(
        f"1:4 × 1:4, {how}: {pm([v['accuracy'] for v in r])} % with"
        f" {100 * np.mean([v['products'] for v in r]):.1f} % of the products (live, three seeds)."
    )
against = {
    how: versus(trained["by size"]["W 1:4 × A 1:4"], trained[how]["W 1:4 × A 1:4"])
    for how in ("random", "drawn once")
}
half = [s["joint"]["W 2:4 × A 2:4"]["by size"]["products"] for s in shipped]
say(
    f"1:4 × 1:4, all {len(shipped)} seeds: by size against random {against['random']}; against"
    f" drawn once {against['drawn once']}. {you_wrote(prediction_5_8)}"
)
rows = ["| by size against drawn once | trained on |", "|---|---|"]
rows += [
    f"| {name} | {versus(trained['by size'][name], trained['drawn once'][name], cell=True)} |"
    for name in names
]
say("\n".join(rows))
say(
    f"W 2:4 × A 2:4, by size: share of the products that are left **{np.mean(half):.3f}** (result"
    " file)."
)

# %% [markdown]
# What is always missing can be trained away, **whether it is a weight or an activation,
# and even if chance chose it**: drawn once, random activations come back to within a
# point of those chosen by size at 1:4, with half of the products; choosing helps
# little, and most where next to nothing is left (1:8). What cannot be trained away is
# *noise*: if other places are lost in every pass, no weight can make up for what it
# cannot foresee. By size, too, other places are lost for every image; but those follow
# from the image, and are no noise.
#
# (The comparison of "by size" with "random" alone, which papers like to show, would
# have suggested that *which* activations stay matters. The third arm says that it is
# not which, but whether they are the same.)
#
# Why 4.5 % of the products, and not 1/16 = 6.25 %? By size a kept activation is hardly
# ever one of ReLU's zeros, but some blocks hold nothing but zeros, and products with
# padding are 0 as well.
#
# And time? You saw what choosing costs. As with 5.3: a unit built for it, or nothing.

# %% [markdown]
# #### Real data: MNIST
#
# The same network on MNIST, 2,000 training images, three seeds
# (`course remake lab05_between_mnist`). Maps of 28×28: which of your sentences hold?

# %%
mnist = experiments.read("lab05_between_mnist")["seeds"]
rows = ["| MNIST, 87.5 % removed | recalibrated | trained on |", "|---" * 3 + "|"]
for arm in lab05.ARMS:
    cells = (
        pm([run["patterns"][arm][how][2] for run in mnist])
        for how in ("recalibrated", "fine-tuned")
    )
    rows.append(f"| {arm} | {' | '.join(cells)} |")
say("\n".join(rows) + f"\n\n(Dense: {pm([run['dense'][0] for run in mnist])} %.)")
say(real_data.table("05"))

# %% [markdown]
# What the pattern costs before training, and that training repairs it, holds; so does
# the last sentence, the one that matters for gates: trained as long, static channels are
# not behind, and dynamics gain nothing on these images either. Two sentences do not
# hold. N:M *at random* is a point or two behind N:M by size even after training: larger
# pictures leave less to spare, so it matters a little which weights of a block survive.
# And static channels of a frozen network, statistics repaired, are far behind the gates
# (by an interval as wide as the three networks differ): repairing statistics is not
# enough where more is lost. Training is.
#
# ## Part F · What was it worth?
#
# ### Experiment: the bill
#
# 2:4 and 1:8 weights, trained on, and combined columns (γ = 0), stored as this lab
# stores them. Now the **test images, once**.


# %%
def of_pattern(seed: int, n: int, m: int) -> nn.Module:
    pruned = lab05.pattern_masks(dense[seed], "N:M", n, m, seed)
    return lab05.tuned(dense[seed], data, pruned, SETTINGS["finetune"], seed)


def stored(model: nn.Module, n: int = 0, m: int = 0) -> int:
    """Bits: pruned layers as N:M, the others in the cheapest format of lab 00."""
    return sum(
        (
            nm_bits(p.shape[0] * p[0, 0].numel(), p.shape[1], n, m)
            if n and name in lab05.WEIGHTS
            else encodings.cheapest_bits(p.detach())
        )
        for name, p in prunable(model).items()
    )


def packed_bits(model: nn.Module) -> int:
    """Bits: in each cell of the packed arrays a value and which of its group's eight
    columns that is, and the list of the groups.
    """
    total = 0
    for name, p in prunable(model).items():
        matrix = p.detach().flatten(1)
        groups = group_columns(matrix, 8, 0.0) if name in lab05.WEIGHTS else []
        listed = sum(map(len, groups)) * math.ceil(math.log2(matrix.shape[1]))
        total += (
            len(matrix) * len(groups) * (32 + 3) + listed
            if groups
            else encodings.cheapest_bits(p.detach())
        )
    return total


bill = {
    "dense": (dense, [stored(m) for m in dense]),
    "2:4": (
        two_four := [of_pattern(s, 2, 4) for s in range(SEEDS)],
        [stored(m, 2, 4) for m in two_four],
    ),
    "1:8": (
        one_eight := [of_pattern(s, 1, 8) for s in range(SEEDS)],
        [stored(m, 1, 8) for m in one_eight],
    ),
    "columns combined, γ 0": (sparse, [packed_bits(m) for m in sparse]),
}
times = latency.compare(
    {
        row: latency.forward(models[0], data.validation.images[:64])
        for row, (models, _) in bill.items()
    },
    repeats=20,
    threads=1,
)
lines = [
    "| | kB | MACs (k) | ms for 64 images | test accuracy (%) | against dense |",
    "|---" * 6 + "|",
]
tested = {}
for row, (models, bits) in bill.items():
    products = totals(model_cost(models[0], data.test.images[:1]))["nonzero_macs"]
    # the only look at the test images
    test = tested[row] = [evaluate(model, data.test) for model in models]
    milliseconds = 1e3 * times[row].median
    ledger.add(
        "convnet", row, lab="05", bits=bits[0], macs=products, ms=milliseconds, accuracy=test
    )
    lines.append(
        f"| {row} | {bits[0] / 8e3:.1f} | {products / 1e3:.0f} | {milliseconds:.2f} | {pm(test)} |"
        f" {'' if row == 'dense' else versus(test, tested['dense'], cell=True)} |"
    )
say("\n".join(lines) + "\n\n(Bold: shown.)")
display(ledger.table())

# %% [markdown]
# (Sizes, products and times are those of the first seed, accuracies of all three.) All
# four rows take the same time, since all four compute the same dense products: on this
# processor the patterns save *room*, and no product. With 1:8 a seventh of the bits is
# left, and a seventh of the products for whoever can skip the others, and no loss of
# accuracy that these seeds could show. Combined columns store more weights for it, but
# none was lost on the way.
#
# ### 5.9 Two short answers
# **5 minutes · 1 point**
#
# **a.** Weights 1:4 and activations 1:4, both chosen by size, kept nearly all of the
# accuracy after training, with about 4.5 % of the products. Someone concludes: "so the
# layer needs 4.5 % of the time". What is wrong?

# %%
choose(
    "5.9a",
    "1:4 times 1:4 leaves 1/16, which is 6.25 %; 4.5 % must be a mistake.",
    "The accuracy will fall on new images.",
    "Padding has been counted as pruned.",
    "Products are not time: choosing activations and finding partners costs more here than it"
    " saves; only a unit built for N:M gains.",
)

# %% [markdown]
# **b.** Which share of all products of `conv2` to `conv4` was left with weights 2:4 and
# activations 2:4, by size, on the digits (a number between 0 and 1, from the experiment
# of 5.8; within 0.01 of ours)?

# %%
### BEGIN SOLUTION
answer_5_9a = "D"
answer_5_9b = 0.155
### END SOLUTION

# %%
check("5.9")

# %% [markdown]
# ### 5.10 Bug hunt
# **20 minutes · 1 point**
#
# A version of `nm_mask`, and the test that it passes:


# %%
def suspicious_nm_mask(weight: Tensor, n: int, m: int, dim: int) -> Tensor:
    turned = weight.abs().movedim(dim, -1)
    blocks = turned.reshape(-1, m)
    goes = blocks.argsort(dim=1, stable=True)[:, :n]
    return (
        torch.ones_like(blocks, dtype=torch.bool)
        .scatter(1, goes, False)
        .view(turned.shape)
        .movedim(-1, dim)
    )


def naive_test(f: Callable) -> None:
    weight = torch.randn(8, 8, generator=torch.Generator().manual_seed(0))
    blocks, kept = weight.abs().view(-1, 4), f(weight, 2, 4, 1).reshape(-1, 4)
    assert (kept.sum(1) == 2).all()
    assert (torch.where(kept, blocks, 9.0).amin(1) >= torch.where(kept, 0.0, blocks).amax(1)).all()


naive_test(suspicious_nm_mask)
print("suspicious_nm_mask passes the naive test.")

# %% [markdown]
# It prunes $n$ instead of keeping $n$; at 2:4 nobody sees that. Write `find_bug(f)`: it
# gets a function `f(weight, n, m, dim)`, called by position, and raises
# `AssertionError` if `f` breaks the contract of **5.1**, and returns if it does not. A
# point is earned only for verdicts on both right and wrong versions. All take finite
# weights with one to four dimensions and an m that divides; what they do with wrong
# arguments does not count. Try it on something small: the versions refuse more than
# eight million numbers in one call, and calls that take long.


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
        assert kept.shape == weight.shape and kept.dtype == torch.bool, "no mask like the weight"
        sizes = weight.abs().movedim(dim, -1).reshape(-1, m).tolist()
        for block, stays in zip(sizes, kept.movedim(dim, -1).reshape(-1, m).tolist(), strict=True):
            goes = sorted(range(m), key=lambda i, block=block: (block[i], i))[: m - n]
            assert [i not in goes for i in range(m)] == stays, (
                f"{n}:{m} along {dim}: {block} kept {stays}"
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
# <details><summary>Hint 1: choose n and m</summary>n ≠ m − n, so that keeping and
# pruning differ; m that is not 4.</details>
# <details><summary>Hint 2: choose weights</summary>Both signs; many equal sizes; a dim
# that is not the last, on a shape where the last would also fit.</details>

# %% [markdown]
# ## Play
#
# ### Between element and filter
#
# A pattern and its size, from the result file: accuracy right after, recalibrated, and
# trained on. And the mask of `conv3` at one place of its kernels. Which step brings back
# how much? (Tab goes to a control, the space bar presses a button.)


# %%
SIZES = [f"{n}:{m}" for n, m in lab05.PATTERNS]


def explore(arm: str, size: str) -> tuple[str, Figure]:
    """The three accuracies of a pattern, and its mask at one place of the kernels."""
    pattern = SIZES.index(size)
    n, m = lab05.PATTERNS[pattern]
    values = {
        how: np.array([s["patterns"][arm][how][pattern] for s in shipped])
        for how in ("one-shot", "recalibrated", "fine-tuned")
    }
    fig = plots.new_figure(4.4)
    left, right = fig.subplots(1, 2)
    mask = lab05.pattern_masks(dense[0], arm, n, m, 0)["conv3.weight"]
    left.imshow(
        mask[:, :, 0, 0],
        cmap="Blues",
        vmin=-0.2,
        vmax=1.2,
        aspect="auto",
        interpolation="nearest",
    )
    left.set(
        xticks=[],
        yticks=[],
        title="conv3: kept (dark)",
        xlabel=f"{mask.shape[1]} channels, one place of the kernel",
        ylabel=f"{len(mask)} filters",
    )
    left.grid(visible=False)
    means = [float(v.mean()) for v in values.values()]
    right.bar(
        range(3),
        means,
        yerr=[float(plots.interval(v)[1]) for v in values.values()],
        capsize=4,
        color="C0",
    )
    right.set(
        xticks=range(3),
        xticklabels=list(values),
        ylim=(0, 105),
        ylabel="validation accuracy (%)",
        title=f"{arm}, {100 - 100 * n / m:g} % removed",
    )
    text = f"{arm}, {n}:{m}: " + ", ".join(
        f"{how} {v:.0f} %" for how, v in zip(values, means, strict=True)
    )
    plots.alt(fig, f"The mask of conv3 at one place of its kernels, and bars. {text}.")
    return text, fig


widgets.explorer(
    explore,
    arm=widgets.choice(list(lab05.ARMS), label="pattern"),
    size=widgets.choice(SIZES, label="as many as"),
)

# %% [markdown]
# ## What you take with you
#
# - Between single weights and filters the pattern costs accuracy *before* training;
#   afterwards only whole filters show a cost. Take what your hardware likes.
# - N:M is a promise to hardware: so many numbers a block, wherever they are. Without a
#   unit for it, it is a format.
# - A greedy rule can be worse than chance; a limit on the damage did the work.
# - What is always missing can be trained away, weights and activations alike. Noise
#   cannot.
# - Deciding by image replaces repair. Compare it with static choices *that were
#   repaired*, or it will look better than it is.
#
# ## Going further
#
# - **Real data.** `DATA = "mnist"` above; what takes longest is read. · **On a GPU of the right kind**:
#   `torch.sparse.to_sparse_semi_structured` stores and multiplies 2:4.
# - **Better patterns.** Transposable N:M (the backward pass wants blocks along the
#   other dimension, too); permuting channels before pruning, so that large weights do
#   not share a block; another n in each layer.
# - **Read.** A. Mishra et al., *Accelerating Sparse Deep Neural Networks*, 2021. H. T.
#   Kung, B. McDanel, S. Zhang, *Packing Sparse Convolutional Neural Networks for
#   Efficient Systolic Array Implementations*, 2019. Y. Bengio, N. Léonard, A.
#   Courville, *Estimating or Propagating Gradients Through Stochastic Neurons for
#   Conditional Computation*, 2013. X. Gao et al., *Dynamic Channel Pruning: Feature
#   Boosting and Suppression*, 2019. S. Q. Zhang et al., *JointNF: Enhancing DNN
#   Performance through Adaptive N:M Pruning across both Weight and Activation*, 2024.
# - **Next.** From images to texts: the weights, heads and tokens of transformers.
