# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% slideshow={"slide_type": "skip"}
import inspect
import math

import numpy as np
import pandas as pd
import torch
from IPython.display import Markdown, display

from course_lib import experiments
from course_lib.cost import encodings
from course_lib.cost.block_formats import joint_products, nm_bits
from course_lib.data.images import load
from course_lib.experiments import lab05
from course_lib.parallel import sweep
from course_lib.pruning.activations import (
    gated_macs,
    nm_activation,
    pruned_inputs,
    random_activation,
    topk_activation,
)
from course_lib.pruning.weights import combine_columns, group_columns, local_masks, nm_mask
from course_lib.show import drawings, plots, tables
from course_lib.show.words import minus, pm
from course_lib.training import evaluate

plots.use_style()
torch.set_num_threads(1)
names = ("dense", "patterns", "packed", "joint")
stored = {name: experiments.read(f"lab05_between_digits/{name}") for name in names}
dense, patterns = stored["dense"]["validation"], stored["patterns"]
at_1_8 = patterns.query("sparsity == 0.875")
packed = lab05.in_percent(stored["packed"]).query("packing != 'size 16, γ 0.5'")
SEEDS = len(dense)
data = load("digits").subset(lab05.DIGITS["images"])
nets = lab05.dense_nets(data, 3, lab05.DIGITS["epochs"])


def percent(value, digits=0):
    return f"{100 * value:.{digits}f} %"


# %% [markdown] slideshow={"slide_type": "slide"}
# # Between a weight and a filter
#
# Neural-network pruning · lecture to lab 05
#
# *Zeros anywhere cost little accuracy and save no time. Removing whole filters saves
# time and costs accuracy. Is there something in between?*

# %% slideshow={"slide_type": "notes"}
display(
    Markdown(
        "All figures, unless stated otherwise: the conv net of labs 01 and 04 on scikit-learn's"
        f" digits, conv2 to conv4 pruned along their inputs, {SEEDS} seeds, validation accuracy;"
        f" dense {pm(dense)} %. The result file is remade by `course remake lab05_between_digits`."
        ' "Left open" marks what the lab asks students to predict: let them write their guesses'
        " down."
    )
)

# %% slideshow={"slide_type": "slide"}
ends = {"element": "single weights", "filter": "whole filters"}
faster = {"element": "no (lab\u00a001)", "filter": "yes (lab\u00a004)"}
table = at_1_8[at_1_8["method"].isin(ends)].assign(
    pattern=lambda t: t["method"].map(ends), faster=lambda t: t["method"].map(faster)
)
heads = {"recalibrated": "not trained (%)", "finetuned": "five epochs on (%)"}
display(
    Markdown(
        f"## Two ends\n\nconv2 to conv4, seven in eight weights pruned, dense {pm(dense)} %:\n\n"
        + tables.means(table, heads, rows=["pattern", "faster"]).markdown()
        + "\n\nFor a dense kernel a zero is a number like any other. Removing a filter makes the"
        " tensor smaller."
    )
)

# %% [markdown] slideshow={"slide_type": "notes"}
# "Not trained": only batch norm is recalibrated (lab 01), or one would measure stale
# statistics.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Four things in between
#
# | | fixed before | chosen | when |
# |---|---|---|---|
# | **N:M** | n of every m are kept | which n | once |
# | **columns combined** | a cell holds one weight | which columns share cells | once |
# | **activations** | how many are kept | which | at every input |
# | **gates** | nothing | whole channels | at every input |
#
# Two questions: what does it cost in accuracy? On *which* hardware does it save time?

# %% slideshow={"slide_type": "slide"}
display(Markdown("## N of every M"))
weight = torch.tensor(
    [[9, -2, 5, 1, 0, 3, -7, 7], [1, 2, -1, -3, 6, -8, 2, 5], [0, 0, 4, 0, -2, 6, -6, 1.0]]
)
plots.show(drawings.nm_blocks(weight, 1, 4))

# %% [markdown]
# In each block of $m$ neighbours along the inputs exactly the $n$ largest $|w|$ are
# kept. Of four large ones three are pruned; of four tiny ones one is kept.

# %% [markdown] slideshow={"slide_type": "notes"}
# Two common mistakes in code. One keeps m − n instead of n: 2:4 cannot reveal it, so
# test 1:4. (Wanda's `prune_n` counts zeros, NVIDIA's 2:4 kept weights.) The other
# flattens a convolution (M, C, R, S), so blocks run across the kernel: they belong
# along C. Source: Mishra et al. 2021. Kung, McDanel & Zhang 2019 is sometimes cited for
# N:M, but that paper is about columns (later today). Row 1's last block has two of size
# 7: of equal sizes the first is pruned.

# %% slideshow={"slide_type": "slide"}
w3 = [net.conv3.weight.detach() for net in nets]


def size_kept(name, mask_of, masks="", bits=""):
    """Σ|w| kept of conv3, in %, one row for each network."""
    head = {"pattern": name, "masks of 16 neighbours": masks, "bits per place": bits}
    shares = [float((w.abs() * mask_of(w)).sum() / w.abs().sum()) for w in w3]
    return [{**head, "seed": seed, "kept": 100 * share} for seed, share in enumerate(shares)]


generator = torch.Generator().manual_seed(0)
rows = size_kept("filters", lambda w: local_masks({"w": w.abs()}, 0.75, "filter")["w"], bits="none")
for n, m in ((1, 4), (2, 8), (4, 16)):
    masks = f"{math.comb(m, n) ** (16 // m):,}"
    rows += size_kept(f"{n}:{m}", lambda w: nm_mask(w, n, m, 1), masks, encodings.index_width(m))  # noqa: B023
rows += size_kept("anywhere", lambda w: local_masks({"w": w.abs()}, 0.75)["w"])
drawn = lambda w: nm_mask(torch.rand(w.shape, generator=generator), 1, 4, 1)  # noqa: E731
rows += size_kept("1:4, drawn", drawn, bits=2)
columns = ["pattern", "masks of 16 neighbours", "bits per place"]
kept = tables.means(pd.DataFrame(rows), {"kept": "Σ|w| kept (%)"}, rows=columns)
display(
    Markdown(
        "## Freedom, counted in masks\n\nThree in four pruned:\n\n"
        + kept.markdown()
        + "\n\nconv3, by size; the last row at random. A larger block leaves more choice, and needs"
        " more bits per place and a wider selector."
    )
)

# %% [markdown] slideshow={"slide_type": "notes"}
# Three networks, trained while the deck is built. The sum of sizes is not accuracy; it
# is all that magnitude measures. The lab asks for the number of masks at 2:4: do not
# give it away.

# %% slideshow={"slide_type": "slide"}
display(Markdown("## One line is missing"))
classic = patterns.query("method != 'N:M'")
fig = plots.curves(
    classic,
    x="sparsity",
    y="recalibrated",
    control="N:M at random",
    xaxis="sparsity",
    title="Not trained, batch norm recalibrated",
)
plots.show(fig, inches=(5.6, 4.05))

# %% [markdown]
# Single weights, rows of a kernel, kernels, filters; and N:M with *randomly* kept
# weights.
#
# > **Left open.** Where does N:M run, chosen by size? Mark it at 87.5 %. The lab draws
# > the line.

# %% [markdown] slideshow={"slide_type": "notes"}
# 2:4, 1:4, 1:8, 1:16 and as many zeros in the other patterns. Let the students draw the
# line; ask two or three for a reason. The slide before gives one.

# %% slideshow={"slide_type": "slide"}
pruned = patterns.query("method != 'dense'")
itself = pruned.query("method == 'N:M'").groupby("sparsity")["finetuned"].mean()
display(
    Markdown(
        "## And trained on?\n\n"
        + tables.compare(pruned, "finetuned", against="N:M", columns="sparsity").markdown()
        + f"\n\nPoints, after five epochs; N:M itself: {', '.join(f'{v:.1f}' for v in itself)} %."
        " Only whole filters are still worse. Even *random* N:M recovers: training repairs a bad"
        " choice."
    )
)

# %% [markdown] slideshow={"slide_type": "notes"}
# Do not conclude "N:M keeps more than rows", but: after training we could not detect a
# cost of the pattern on this task, except for filters; use the pattern that your
# hardware supports. Mishra et al. report similarly for 2:4 on large networks.

# %% [markdown] slideshow={"slide_type": "notes"}
# {{claim 05.2}}
#
# {{claim 05.3}}

# %% slideshow={"slide_type": "slide"}
display(Markdown("## Storing it"))
plots.show(drawings.nm_blocks(weight, 2, 4))

# %% [markdown]
# $$R\,C\;\frac{n}{m}\;\bigl(b + \lceil \log_2 m \rceil\bigr)\ \text{bits}$$
#
# A value's *block* follows from its position in the list; only its place *in the block*
# is stored. No row pointers, no search.

# %% [markdown] slideshow={"slide_type": "notes"}
# b: bits of a value. Row 3 has a block with one non-zero: it is filled up with the
# lowest free place and a zero, so that the next block begins at a known position. The
# most common mistake is to omit such zeros: then all later values move.

# %% slideshow={"slide_type": "slide"}
display(Markdown("## How much memory does it save?"))
BITS = 8
matrix = w3[0].flatten(2).movedim(1, 2).flatten(1)  # (M, 9·C): C neighbours in a row
rows = []
for n, m in lab05.PATTERNS:
    pruned = matrix * nm_mask(matrix, n, m, 1)
    sizes = {
        "CSR": encodings.csr_bits(pruned, BITS),
        "bitmap": encodings.bitmap_bits(pruned, BITS),
        "N:M": nm_bits(*matrix.shape, n, m, BITS),
    }
    dense_bits = BITS * matrix.numel()
    rows += [
        {"sparsity": 1 - n / m, "format": name, "size": 100 * bits / dense_bits}
        for name, bits in sizes.items()
    ]
formats = pd.DataFrame(rows)
fig = plots.curves(
    formats,
    x="sparsity",
    y="size",
    by="format",
    ylabel="share of the dense bits (%)",
    ylim=(0, 110),
    title=f"conv3, values of {BITS} bits",
    xaxis="sparsity",
)
plots.show(fig, inches=(5.2, 4.05))
at = formats.query("sparsity == 0.875").set_index("format")["size"]
display(
    Markdown(
        f"2:4, 1:4, 1:8, 1:16. At 1:8 N:M needs **{at['N:M']:.0f} %** of the dense bits, a bitmap"
        f" {at['bitmap']:.0f} %, CSR {at['CSR']:.0f} %.\n\nThe same zeros, three ways to store their"
        " places (lab 00). A known pattern need not be stored."
    )
)

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Two minutes: a data sheet
#
# > "Our unit multiplies 2:4 with half of the products. 1:4 and 3:4 are planned."
#
# **1.** Values of 8 bits. How many bits is a block of four, stored as 1:4, 2:4, 3:4,
# and dense? And with values of 4 bits?
#
# **2.** Your network has as many zeros as 1:4, but *anywhere*. Why can the unit not use
# it?

# %% slideshow={"slide_type": "notes"}
sizes = {b: [nm_bits(1, 4, n, 4, b) for n in (1, 2, 3)] for b in (8, 4)}
free = [local_masks({"w": w.abs()}, 0.75)["w"] for w in w3]
# (blocks, 4)
blocks = [mask.movedim(1, -1).reshape(-1, 4).sum(1) for mask in free]
over = [100 * float((b > 1).double().mean()) for b in blocks]
lost = [100 * float(1 - b.clamp(max=1).sum() / b.sum()) for b in blocks]
display(
    Markdown(
        f"1: {', '.join(map(str, sizes[8]))} and 32 bits; with 4-bit values"
        f" {', '.join(map(str, sizes[4]))} and 16: 3:4 is then *larger* than dense. 2: of conv3's"
        f" blocks {pm(over)} % hold more than one weight if zeros may be anywhere; a unit with one"
        f" multiplier per block would have to drop {pm(lost)} % of the weights, or wait for the"
        " fullest block each time. Exactly n holds for every block, not on average."
    )
)

# %% slideshow={"slide_type": "slide"}
fullest = [
    float(mask.flatten(1).sum(1).max() / mask.flatten(1).sum(1).double().mean()) for mask in free
]
display(
    Markdown(
        "## Multiplying it\n\n"
        "$$y_r = \\sum_{k=0}^{K-1} v_{rk}\\; x_{\\,m\\lfloor k/n \\rfloor + i_{rk}},"
        "\\qquad K = C\\,\\frac{n}{m}$$\n\n"
        "$v$: values, $i$: places. $K$ products for **every** output, $n$ numbers from every block"
        " of $x$: the schedule is known before the weights.\n\n"
        f"The same share of zeros anywhere in conv3: the fullest row holds **{np.mean(fullest):.1f}"
        " times** the mean. If rows are computed in parallel, all wait for it."
    )
)

# %% [markdown] slideshow={"slide_type": "notes"}
# The matrix is never built. For output r only the entries of x are read at which row r
# stores something: NaN elsewhere in x has no effect. The lab tests this.

# %% slideshow={"slide_type": "slide"}
W = torch.randn(256, 256, generator=torch.Generator().manual_seed(0))
x = torch.randn(64, 256, generator=torch.Generator().manual_seed(1))
products = {"dense": len(x) * W.numel()}
kernels = {"dense": lambda: x @ W.T}
for n, m in ((2, 4), (1, 8)):
    zeros = W * nm_mask(W, n, m, 1)
    name = f"{n}:{m}, as a dense tensor with zeros"
    kernels[name] = lambda zeros=zeros: x @ zeros.T
    products[name] = joint_products(x, zeros)
times = lab05.timed(kernels)
times["products that count (%)"] = 100 * times["what"].map(products) / products["dense"]
times = times.rename(columns={"what": "(64, 256) · (256, 256)", "time": "time, dense = 1"})
display(
    Markdown(
        "## Which hardware saves time?\n\n"
        + tables.plain(times, {"time, dense = 1": 2}).markdown()
        + "\n\n- A unit made for it: 2:4 in NVIDIA's tensor cores from compute capability 8.0 on"
        " (A100; **not** V100).\n- Every machine saves memory and memory traffic.\n\n> **Left"
        " open.** And *your* processor, from the stored form? The lab measures it."
    )
)

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Columns on top of each other
#
# A systolic array has a cell per weight: with sparse columns most cells hold a 0.
#
# Kung, McDanel & Zhang (2019): pack several sparse columns **into one**, if they seldom
# have a weight in the same row. Each cell then holds one weight, and a multiplexer
# selects its channel.
#
# - Where two weights need one cell, a **conflict**, the smaller is pruned.
# - A convolution is the matrix (M, C·R·S): a column is one place of the kernel in one
#   channel.
# - Afterwards the network is trained on.

# %% slideshow={"slide_type": "slide"}
display(Markdown("## Eight columns in three"))
sparse = torch.zeros(6, 8)
for r, c, value in (
    (0, 0, 5), (0, 3, -2), (0, 6, 7), (1, 1, 4), (1, 4, -6), (2, 0, -3), (2, 5, 8), (3, 2, 9),
    (3, 4, 1), (3, 7, -5), (4, 1, -4), (4, 3, 6), (5, 2, 2), (5, 5, -7), (5, 0, 3),
):  # fmt: skip
    sparse[r, c] = value
GAMMA = 1 / 6
grouped = group_columns(sparse, 3, GAMMA)
_, _, stays = combine_columns(sparse, grouped)
plots.show(drawings.columns_packed(sparse, grouped))
gone = int((sparse != 0).sum() - stays.sum())
display(
    Markdown(
        f"At most 3 columns and {round(GAMMA * 6)} conflict per group: {gone} weight{'s' * (gone != 1)}"
        f" lost, and **{percent(float(stays.sum()) / (6 * len(grouped)))}** of the cells in use instead"
        f" of {percent(float((sparse != 0).double().mean()))}."
    )
)

# %% [markdown] slideshow={"slide_type": "notes"}
# Crossed out: a weight that loses its cell. The packed array stores the channel of each
# cell, as N:M stores a place in the block: the same idea, with chosen blocks.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## The rule, and its two limits
#
# $$\text{conflicts}(G) = \underbrace{\textstyle\sum_{c \in G} \operatorname{nnz}(c)}_{\text{weights}} - \underbrace{\bigl|\{r : \text{some } w_{rc} \ne 0\}\bigr|}_{\text{rows in use}}$$
#
# 1. Take the columns in order, the fullest first.
# 2. Each joins, among the groups that may take it, the one whose combined column
#    becomes **fullest**.
# 3. A group may take it if it has fewer than $\alpha$ columns and, *with it*, at most
#    $\gamma R$ conflicts in all.
# 4. If there is none, it opens a group.

# %% [markdown] slideshow={"slide_type": "notes"}
# Three weights in one row are two conflicts. α and γ are the paper's letters; the lab
# calls them size and gamma. γ = 0: nothing is lost at all.

# %% slideshow={"slide_type": "slide"}
display(Markdown("## What does utilisation cost?"))
SPARSE = inspect.signature(lab05.sparse_start).parameters["sparsity"].default
UNPACKED = 100 * (1 - SPARSE)  # % of the cells, a column each
fig = plots.curves(
    packed,
    x="utilisation",
    y="lost",
    ylabel="weights lost to conflicts (%)",
    control=None,
    along="packing",
    title="greedy: γ 0 to 0.5; random: 2 to 8",
)
fig.axes[0].axvline(UNPACKED, color="0.6", ls=":")
plots.show(fig, inches=(5.6, 4.05))
free_use = packed.query("packing == 'size 8, γ 0'")["utilisation"].mean()
display(
    Markdown(
        f"Pruned to {percent(SPARSE)} and trained on, then packed. Dotted: not packed."
        f"\n\n**{free_use / UNPACKED:.1f} times** the utilisation is free: γ = 0.\n\n> **Left open.**"
        " *Without* a limit on conflicts: is the rule better than random groups?"
    )
)

# %% [markdown] slideshow={"slide_type": "notes"}
# The intervals are smaller than the marks nearly everywhere. Write the votes on the
# board: the lab has the answer, and it depends on what "fullest" rewards. Kung et al.
# report about eight times the utilisation (preprint: four), on larger and sparser
# networks.

# %% slideshow={"slide_type": "slide"}
NAMED = {f"size 8, γ {gamma:g}": f"γ {gamma:g}" for gamma in (0, 0.05, 0.25, 0.5)}
NAMED["random, size 5"] = "random groups of 5"
table = packed[packed["packing"].isin(NAMED)].assign(packing=lambda t: t["packing"].map(NAMED))
heads = {
    "utilisation": "cells in use (%)",
    "lost": "weights lost (%)",
    "accuracy": "right after (%)",
    "finetuned": "five epochs on (%)",
}
difference = minus(table, "accuracy", "γ 0.05", "random groups of 5", by="packing")
display(
    Markdown(
        "## And what does that cost?\n\nAt most α = 8 columns per group:\n\n"
        + tables.means(table, heads, rows="packing").markdown()
        + f"\n\nAt the same use, γ = 0.05 minus random groups, right after: {difference}. Trained on,"
        " all of them end close together."
    )
)

# %% [markdown] slideshow={"slide_type": "notes"}
# Again five epochs remove the gain of a choice. This is no surprise for a network
# larger than its task; for your own, test it with one random baseline.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Two minutes: pack by hand
#
# $$\begin{array}{c|rrrrr} & \text{A} & \text{B} & \text{C} & \text{D} & \text{E} \\ \hline
# \text{row 0} & 3 & & 1 & & \\ \text{row 1} & -2 & & & 4 & \\
# \text{row 2} & & 5 & & & 6 \\ \text{row 3} & 1 & -7 & & & \end{array}$$
#
# At most three columns per group.
#
# **1.** Follow the rule with $\gamma = 0$. **2.** And with $\gamma = \tfrac14$? Which
# weights are lost?

# %% slideshow={"slide_type": "notes"}
small = torch.tensor([[3, 0, 1, 0, 0], [-2, 0, 0, 4, 0], [0, 5, 0, 0, 6], [1, -7, 0, 0, 0.0]])
answers = []
for gamma in (0.0, 0.25):
    groups = group_columns(small, 3, gamma)
    stays = combine_columns(small, groups)[2]
    gone = small[(small != 0) & ~stays].int().tolist()
    answers.append(
        f"γ = {gamma:g}: groups "
        + " and ".join("".join("ABCDE"[column] for column in group) for group in groups)
        + (f", lost {', '.join(map(str, gone))}" if gone else ", nothing is lost")
        + f", {int(stays.sum())} of {4 * len(groups)} cells in use"
    )
display(
    Markdown(
        "; ".join(answers)
        + ". The stricter limit loses nothing, and here it even fills more cells: the rule looks"
        " only one column ahead."
    )
)

# %% slideshow={"slide_type": "slide"}
display(Markdown("## Zeros in the activations"))


def relu_zeros(net):
    """The share of zeros at the inputs of the three layers, over validation images."""
    shares = []

    def note(x):
        shares.append(100 * float((x == 0).double().mean()))
        return x

    with pruned_inputs(net, note, lab05.LAYERS), torch.no_grad():
        net(data.validation.images)
    return shares


zeros = pd.DataFrame(
    [
        {"seed": seed, "layer": layer, "zeros": share}
        for seed, net in enumerate(nets)
        for layer, share in zip(lab05.LAYERS, relu_zeros(net), strict=True)
    ]
)
title = "Made by ReLU, three networks"
fig = plots.bars(
    zeros, x="layer", y="zeros", ylabel="zeros at its inputs (%)", title=title, fmt="{:.0f}"
)
plots.show(fig, inches=(5, 4.05))

# %% [markdown]
# A product is 0 if **either** factor is.
#
# "ReLU leaves half of them" is a rule of thumb: after pooling there are few zeros,
# since a maximum is 0 only if all are.
#
# They cost one comparison each, and their places differ from image to image.

# %% slideshow={"slide_type": "slide"}
conv2 = nets[0].conv2
entries = conv2.in_channels * 8 * 8
uses = conv2.out_channels * conv2.kernel_size[0] * conv2.kernel_size[1]
display(
    Markdown(
        "## What does the selection cost? Count first\n\n"
        "| for each number at the input of conv2 | |\n|---|---|\n"
        f"| products that it takes part in | {conv2.out_channels} · 3 · 3 = **{uses}** |\n"
        "| ReLU | 1 comparison |\n"
        f"| 2:4, every pair of a block | 6 comparisons for 4: **1.5** |\n"
        f"| top-k of {entries:,} by sorting | about log₂ {entries:,} = **{math.log2(entries):.0f}**"
        " comparisons |\n\n"
        "Weights are selected once. Activations are selected at **every** input.\n\n> **Left"
        " open.** By this count the selection is cheap. Which takes longer on your machine,"
        " the selection of conv2's inputs, or conv2?"
    )
)

# %% [markdown] slideshow={"slide_type": "notes"}
# (At the border a number takes part in fewer products: padding.) The literature warns
# of "additional overhead for sorting" in online pruning; the count suggests almost
# none. The lab measures it.

# %% slideshow={"slide_type": "slide"}
display(Markdown("## Which activations?"))
KEPT = ((3, 4), (1, 2), (1, 4), (1, 8))


RULES = {
    "dense": lambda x, n, m, draws: x,
    "top-k": lambda x, n, m, draws: topk_activation(x, round(x[0].numel() * n / m)),
    "N:M": lambda x, n, m, draws: nm_activation(x, n, m),
    "random": lambda x, n, m, draws: random_activation(x, n / m, draws),
}


def with_inputs(method, seed):
    """Accuracy with the inputs of the three layers pruned."""
    draws, rows = torch.Generator().manual_seed(seed), []
    for n, m in KEPT if method != "dense" else [(math.nan, 1)]:
        rule = lambda x, n=n, m=m: RULES[method](x, n, m, draws)  # noqa: E731
        with pruned_inputs(nets[seed], rule, lab05.LAYERS):
            rows.append({"sparsity": 1 - n / m, "accuracy": evaluate(nets[seed], data.validation)})
    return rows


# one at a time: they share the networks
by_rule = sweep(with_inputs, workers=1, method=RULES, seed=range(3))
fig = plots.curves(
    by_rule,
    x="sparsity",
    y="accuracy",
    xlabel="activations pruned (%)",
    title="Nothing trained, three networks",
    xaxis="sparsity",
)
plots.show(fig, inches=(5.6, 4.05))

# %% [markdown]
# *Top-k*: the largest of all entries of an **image**. *N:M*: the largest of every
# block; a block of large entries loses some of them.
#
# Selected by a mask; the gradient is like ReLU's: 1 where kept, 0 elsewhere.

# %% [markdown] slideshow={"slide_type": "notes"}
# Per image, not per batch: otherwise one image's large activations remove another's.
# Unlike activations, half of the *weights* at random cost almost nothing after
# recalibration ("One line is missing", at 50 %). The lab asks what training changes.

# %% slideshow={"slide_type": "slide"}
display(Markdown("## Both at once"))
one_input = torch.tensor([3, 0, 7, 1, 0, 6, 2, 0, 2, 5, 4, 1.0])
one_row = torch.tensor([-1, 6, 4, 2, 5, 8, -3, 2, 7, -2, 1, 3.0])
kept = [row * nm_mask(row, 2, 4, 0) for row in (one_input, one_row)]
rows = {"input": one_input, "2:4": kept[0], "weights": one_row, "2:4 ": kept[1]}
rows["products"] = kept[0] * kept[1]
texts = [[name, *(f"{v:g}" if v else "·" for v in row.tolist())] for name, row in rows.items()]
tables.show(tables.Table([""] * 13, texts))

# %% [markdown]
# A share $p$ of zero weights and $q$ of zero inputs leave $(1-p)(1-q)$ of the products
# **on average**. Blocks give bounds for *every* input:
#
# $$\max(0,\; n_x + n_w - m)\;\le\;\text{products of a block}\;\le\;\min(n_x, n_w)$$

# %% [markdown] slideshow={"slide_type": "notes"}
# The lower bound holds where no kept number is 0. A form often seen has ≥ before
# (1−p)(1−q), but that is an expectation over random places; a linear layer as a whole
# lies anywhere from max(0, 1−p−q) to min(1−p, 1−q). Hardware is built for bounds. N:M
# on activations as well: Zhang et al. 2024 (JointNF).

# %% slideshow={"slide_type": "slide"}
table = stored["joint"].query("method == 'by size' and pattern != 'W 2:4 × A 2:4'").copy()
n_w, m, n_x = table["pattern"].str.extract(r"(\d):(\d) × A (\d)").astype(int).to_numpy().T
table["expected (%)"] = np.round(100 * n_w * n_x / m**2, 2)
table["at most (%)"] = np.round(100 * np.minimum(n_w, n_x) / m, 2)
table["left"] = 100 * table["products"]
heads = {"left": "left (%)", "accuracy": "accuracy (%)"}
measured = tables.means(table, heads, rows=["pattern", "expected (%)", "at most (%)"])
display(
    Markdown(
        "## Measured\n\nProducts of conv2 to conv4 (W: weights, A: inputs), trained on:\n\n"
        + measured.markdown()
        + f"\n\nBoth chosen by size; dense {pm(dense)} %. At 1:4 × 1:4 a twentieth of the products,"
        " and nearly all of the accuracy. Why **fewer** than expected?"
    )
)

# %% [markdown] slideshow={"slide_type": "notes"}
# By size a kept activation is hardly ever one of ReLU's zeros, but some blocks contain
# only zeros, and products with padding are 0 as well; they count in the denominator.
# The lab asks for 2:4 × 2:4, so it is not on the slide.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## The right ones, or always the same ones?
#
# Weights 1:4 and inputs 1:4, three ways to select the kept inputs:
#
# | | follows from the image | the same for every image |
# |---|---|---|
# | by size | yes | no |
# | at random, drawn again in every pass | no | no |
# | at random, **drawn once** | no | yes |
#
# If only the second arm fails, what would you conclude? And if the last two fail?
#
# > **Left open.** Five epochs of training each. Write down two accuracies.

# %% [markdown] slideshow={"slide_type": "notes"}
# Papers often have two arms, by size and drawn again. These differ in two properties,
# so they cannot show which one matters. If only the second fails: the noise matters. If
# the last two fail: the choice matters. Do not tell which.

# %% [markdown] slideshow={"slide_type": "notes"}
# {{claim 05.6}}

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Let the network decide
#
# **Static**: selected once, removed. **Dynamic**: the whole network is kept; each image
# uses a part.
#
# A small layer reads the mean of each incoming map and scores each outgoing channel:
#
# $$g_c(x) = \begin{cases} 1 & \text{if } s_c(x) > 0 \\ 0 & \text{else}\end{cases}
# \qquad s(x) = W \begin{pmatrix} \text{mean of map } 1 \\ \vdots \\ \text{mean of map } C \end{pmatrix} + b$$
#
# A closed channel is not computed, nor read by the next layer: one image at a time,
# this saves time on any machine.

# %% [markdown] slideshow={"slide_type": "notes"}
# In a batch every image needs other channels, and a dense kernel computes them all. No
# memory is saved: the whole network is kept.

# %% slideshow={"slide_type": "slide"}
display(Markdown("## Hard forward, soft backward"))
score = torch.linspace(-5, 5, 401, requires_grad=True)
soft = score.sigmoid()
gate = (score > 0).float() + (soft - soft.detach())
(slope,) = torch.autograd.grad(gate.sum(), score)
fig = plots.new_figure(4.05)
upper, lower = fig.subplots(2, 1, sharex=True)
upper.plot(score.detach(), gate.detach(), color="C0")
upper.plot(score.detach(), soft.detach(), color="0.6", ls="--")
upper.set_title("the gate (dashed: σ)")
lower.plot(score.detach(), slope, color="C1")
lower.set_title("its gradient, as autograd has it")
lower.set(xlabel="score s", yticks=[0, 0.25], ylim=(-0.02, 0.3))
upper.set(yticks=[0, 1])
plots.show(
    fig,
    inches=(4.4, 4.05),
)

# %% [markdown]
# A step has no gradient. **Straight-through** (Bengio et al. 2013), here with σ':
#
# ```
# soft = s.sigmoid()
# hard = (s > 0).float()
# gate = hard + (soft -
#        soft.detach())
# ```
#
# The bracket is 0, but has a derivative.

# %% slideshow={"slide_type": "slide"}
# two images and two layers: one opens everything, the other half of each layer
two = [torch.tensor([[1.0, 1, 1, 1], [1, 1, 0, 0]]), torch.tensor([[1.0, 1, 1, 1], [1, 0, 1, 0]])]
macs = [100.0, 400.0]
each = gated_macs(two, macs)
shares = [float(layer.mean()) for layer in two]
wrong = macs[0] * shares[0] + macs[1] * shares[1] * shares[0]
display(
    Markdown(
        "## The cost of an image\n\n"
        "$$\\text{MACs}(x) = \\sum_l \\text{dense}_l \\cdot o_l(x) \\cdot o_{l-1}(x)$$\n\n"
        f"$o_l$: the open share of layer $l$. Two layers of {macs[0]:.0f} and {macs[1]:.0f} MACs; image A opens everything, image B half"
        f" of each layer: {each[0]:.0f} and {each[1]:.0f}, on average **{each.mean():.0f}**. From the"
        f" *mean* shares, {percent(shares[0])}, one would get {wrong:.0f}.\n\n"
        "Penalty towards a target $t$:\n\n"
        "$$\\lambda \\left(\\frac{\\text{mean MACs}}{t \\cdot \\text{dense MACs}} - 1\\right)^2$$"
    )
)

# %% [markdown] slideshow={"slide_type": "notes"}
# The mean of products is not the product of means; code that uses the latter reports
# fewer MACs than it uses. In training the target falls from 100 % to t over the first
# 70 % of the steps: a strong penalty from the start closes whole layers.

# %% [markdown] slideshow={"slide_type": "notes"}
# {{claim 05.5}}

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Two minutes: read a claim
#
# > "We freeze the network and train gates for ten epochs. At 30 % of the products it
# > keeps 95 %; the same network with its least important channels removed, as many
# > products, keeps 40 %. Deciding by image is worth 55 points."
#
# **1.** Name three baselines that you would ask for.
#
# **2.** The network is trained together with its gates. Which training does the static
# one need?

# %% [markdown] slideshow={"slide_type": "notes"}
# (The numbers are made up.) 1: the gates with *another image's* decisions: do they
# depend on the image? Static channels *learned* in the same way: same loss, same steps,
# weights of the score held at 0. The static net with recalibrated batch norm (labs 01,
# 04). Also: random channels; MACs as a mean over images; the cost of the decision. 2:
# as many epochs. The lab has the result and asks for a guess: does a decision per image
# help at equal MACs?

# %% [markdown] slideshow={"slide_type": "slide"}
# ## What to take along
#
# - N:M is **fixed for the hardware**: n numbers in every block. A place costs
#   $\lceil\log_2 m\rceil$ bits per value, and there is no search.
# - After training only whole filters were worse; even *random* N:M was not. Use the
#   pattern that your hardware supports.
# - Columns can be packed without losing a weight; beyond that, the method needs a
#   **limit on conflicts**.
# - Activations must be selected at every input. Count *and* measure.
# - Blocks give bounds, $(1-p)(1-q)$ is a mean.
# - A dynamic network is compared with a static one **that was repaired**.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Lab 05, and where to read on
#
# - Mishra et al. (2021). [Accelerating sparse deep neural
#   networks](https://arxiv.org/abs/2104.08378).
# - Kung, McDanel & Zhang (2019). [Packing sparse convolutional neural networks for
#   efficient systolic array implementations](https://doi.org/10.1145/3297858.3304028).
#   *ASPLOS*.
# - Zhang et al. (2024). [JointNF: enhancing DNN performance through adaptive N:M
#   pruning across both weight and activation](https://doi.org/10.1145/3665314.3670813).
#   *ISLPED*.
# - Bengio, Léonard & Courville (2013). [Estimating or propagating gradients through
#   stochastic neurons for conditional computation](https://arxiv.org/abs/1308.3432).
# - Gao et al. (2019). [Dynamic channel pruning: feature boosting and
#   suppression](https://arxiv.org/abs/1810.05331). *ICLR*.
