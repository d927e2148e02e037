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
from course_lib.cost import (
    conv_cost,
    encodings,
    least_seconds,
    linear_cost,
    model_cost,
    nonzero_macs,
    product_work,
    transformer_macs,
)
from course_lib.experiments import lab00
from course_lib.show import plots, tables
from course_lib.show.drawings import box, canvas, row, write
from course_lib.show.style import BLUE, ORANGE, SKY
from course_lib.show.words import say

# isort: split
import numpy as np
import pandas as pd
import torch
from torchvision.models import vgg16

torch.set_num_threads(1)

# %% [markdown] slideshow={"slide_type": "slide"}
# # Why prune? Counting cost, storing zeros
#
# Neural-network pruning · lecture to lab 00
#
# *What does a network cost, which part of it does a zero save, and what must be written
# down so that the zero is not stored?*

# %% [markdown] slideshow={"slide_type": "notes"}
# Seventy minutes: costs (25), zeros in the arithmetic (15), zeros in memory (20), does it pay
# (10). Students write the formulas as code in lab 00.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Two costs
#
# | | counted in | paid as |
# |---|---|---|
# | **running cost** | multiply–accumulates (MACs) | time, energy |
# | **storage** | bits of weights and activations | memory, and the traffic to it |
#
# Weights are stored as long as the model is loaded, activations only until they are used.

# %% [markdown] slideshow={"slide_type": "fragment"}
# > A zero weight saves a product only if the hardware **skips** it, and memory only if
# the format **does not store it**.
# > This lecture is about these two *ifs*.

# %% slideshow={"slide_type": "slide"}
say("## A convolution is six loops")
fig, ax = canvas("A convolution: a window of the input times a filter is one output", 21, 7.9)
for channel in (2, 1, 0):  # the last one is in front
    back = 0.45 * channel
    for r, c in np.ndindex(5, 5):
        inside = 1 <= r < 4 and 2 <= c < 5 and not channel
        box(ax, 1.2 + c + back, 1.0 + r - back, fill=BLUE if inside else "white")
    for r, c in np.ndindex(3, 3):
        box(ax, 9 + c + back, 2.0 + r - back, fill="white" if channel else ORANGE)
for r, c in np.ndindex(3, 3):
    box(ax, 15.4 + c, 2.0 + r, fill="k" if (r, c) == (1, 2) else "white")
for x, text in (
    (3.7, "input\nC × 5 × 5"),
    (10.6, "one of M filters\nC × 3 × 3"),
    (16.9, "one of M outputs\n3 × 3"),
):
    write(ax, x, 7.0, text)
write(ax, 8.15, 3.6, "∗", 32)
write(ax, 14.1, 3.6, "=", 32)
plots.show(fig)

# %% [markdown]
# Each of the $M\cdot E\cdot F$ outputs is a sum of $C\cdot R\cdot S$ products:
# $$\text{MACs} = M\,C\,R\,S\,E\,F$$

# %% [markdown] slideshow={"slide_type": "notes"}
# Let them find the six loops: over m, e, f for where an output is; over c, r, s for
# what it reads. With stride U and padding P, E = (H + 2P − R) / U + 1, rounded down.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## The cost of one convolution
#
# $$\text{MACs} = MCRSEF$$
#
# $$\text{bits} = 32\,(\underbrace{MCRS}_{\textstyle\text{weights}} + \underbrace{CHW}_{\textstyle\text{input}} + \underbrace{MEF}_{\textstyle\text{output}})$$

# %%
cost = conv_cost(M=64, C=64, R=3, S=3, H=56, W=56, padding=1)
kb = {name: bits / 8e3 for name, bits in cost.items()}
say(
    "A layer of ResNet's first stage, 64 → 64 channels, 3 × 3, on 56 × 56:"
    f" **{cost['macs'] / 1e6:.0f} million MACs** with {kb['weight_bits']:.0f} kB of weights,"
    f" {kb['input_bits']:.0f} kB of input and {kb['output_bits']:.0f} kB of output.\n\nEach"
    f" weight is used **{cost['macs'] // (cost['weight_bits'] // 32):,} times**."
)

# %% [markdown] slideshow={"slide_type": "fragment"}
# Input and output are **transient**: they are discarded once they have been read. So
# peak memory is the *maximum* over the layers, not the *sum*.

# %% slideshow={"slide_type": "slide"}
say("## Work and weights are in different places")
costs = pd.DataFrame(model_cost(vgg16(weights=None), torch.zeros(1, 3, 224, 224)))
costs["weight_bits"] = 32 * costs["weights"]
costs = costs[costs["weights"] > 0].reset_index(drop=True)
PARTS = {"conv 1–4": 4, "conv 5–10": 6, "conv 11–13": 3, "fully connected": 3}
costs["layer"] = np.repeat(list(PARTS), list(PARTS.values()))
title = f"VGG-16: {costs['macs'].sum() / 1e9:.1f} billion MACs, {costs['weights'].sum() / 1e6:.0f} million weights"
shares = lab00.shares(costs.groupby("layer", sort=False, as_index=False).sum(numeric_only=True))
fig = plots.bars(shares, x="layer", y="percent", by="of", title=title, fmt="{:.0f}")
plots.show(fig, inches=(8, 3.3))

# %% [markdown]
# Prune where the weights are and you save storage; prune where the MACs are and you
# save time.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## A linear layer, and a transformer made of them
#
# A linear layer on $B$ vectors takes $B\,D_{in} D_{out}$ MACs. A transformer layer on $B$
# texts of $L$ tokens, width $d$:
#
# | | MACs |
# |---|---|
# | Q, K, V and output projections | $4\,B L d^2$ |
# | $QK^\top$ and scores times $V$ | $2\,B L^2 d$ |
# | feed-forward, $d \to 4d \to d$ | $8\,B L d^2$ |
# | **total** | $12\,B L d^2 + 2\,B L^2 d$ |

# %% [markdown] slideshow={"slide_type": "notes"}
# The formula does not contain the number of heads, H. Heads of width d / H cost together what
# one head of width d costs. That heads are not entirely free is measured in lab 07.

# %% slideshow={"slide_type": "fragment"}
shares = {L: transformer_macs(1, L, 768) for L in (128, 512, 2048, 6 * 768)}
said = ", ".join(
    f"{100 * macs['attention'] / macs['total']:.0f} % at {L:,}" for L, macs in shares.items()
)
say(f"Attention's share is $L/(6d+L)$. For $d = 768$ and L tokens: **{said}**.")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Two minutes: guess, then count
#
# A camera runs a 3 × 3 convolution, 3 → 32 channels, on a 224 × 224 picture, padding 1,
# stride 1. Then a linear layer from 1,024 to 1,000 numbers.
#
# **1.** Which has more weights? **2.** Which has more MACs? **3.** You may set 90 % of
# the weights of *one* of them to zero. Which one, if memory is short? Which one, if the
# battery is?

# %% slideshow={"slide_type": "notes"}
first, last = conv_cost(32, 3, 3, 3, 224, 224, padding=1), linear_cost(1, 1024, 1000)
say(
    f"Convolution: {first['weight_bits'] // 32:,} weights, {first['macs'] / 1e6:.0f} million MACs."
    f" Linear: {last['weight_bits'] // 32:,} weights, {last['macs'] / 1e6:.1f} million MACs."
)

# %% [markdown] slideshow={"slide_type": "slide"}
# ## What a zero weight saves
#
# A share $p$ of the weights is zero. A product with a zero weight need not be computed:
#
# $$\text{nonzero MACs} = (1-p)\,MCRSEF$$
#
# This is exact, wherever the zeros lie, as long as every weight is used equally often
# (a linear layer; a convolution without padding).

# %% [markdown] slideshow={"slide_type": "fragment"}
# Inputs have zeros, too: after a ReLU about half. A product counts if **neither**
# factor is zero. For a share $q$ of zero inputs one often reads
#
# $$\text{nonzero MACs} \ge (1-p)(1-q)\cdot\text{MACs}$$
#
# Is it a bound?

# %% slideshow={"slide_type": "slide"}
say("## It is an expectation, not a bound")
half = (torch.arange(1000) < 500).float()[None]  # (1, 1000) half of the inputs is there
generator = torch.Generator().manual_seed(0)
draws = [
    nonzero_macs((torch.rand(1, 1000, generator=generator) < 0.5).float(), half) / 10
    for _ in range(1000)
]
left = {
    f"at random, {len(draws):,} draws": f"{np.mean(draws):.1f} % on average, {min(draws):.0f} to"
    f" {max(draws):.0f} %",
    "where the inputs' zeros are": f"**{nonzero_macs(half, half) / 10:.0f} %**",
    "where the inputs' zeros are not": f"**{nonzero_macs(1 - half, half) / 10:.0f} %**",
}
say("One output, 1,000 inputs, half of the weights and half of the inputs zero, $p = q = 0.5$:")
tables.show(tables.Table(["where the weights' zeros lie", "products left"], left.items()))
say(
    "Anything from $\\max(0,\\,1-p-q)$ to $\\min(1-p,\\,1-q)$ can happen. $(1-p)(1-q)$ is the"
    " mean over random places."
)

# %% [markdown] slideshow={"slide_type": "notes"}
# "≥" is a common error. Pruning by magnitude does not place zeros independently of the
# inputs, so the real number can lie on either side. Padding is a second problem:
# products with padding are always zero, but MCRSEF counts them.
#
# Why are inputs not pruned as weights are? Weights are pruned once, offline; activations
# differ for every image, must be searched while the network runs, and encoded on the way.
# ReLU's zeros are free. Dynamic pruning is lab 05, tokens are lab 10.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Bitmap: one bit for every place
#
# A share $p$ of $L$ numbers of $n$ bits is zero. What must be stored so that all $L$ can
# be decoded? First answer: the non-zero values, and for each of the $L$ places one bit: is
# there a value?
#
# $$\text{bits} = (1-p)\,L\,n + L$$
#
# It pays as soon as $p > 1/n$: for 32-bit values from 3 % zeros on; for 4-bit values
# from 25 % on. Encoding is cheap, and a hardware unit can find its operands by counting
# bits.

# %% slideshow={"slide_type": "slide"}
say("## Run lengths: count the zeros in between")
numbers = torch.tensor([0, 0, 3, 0, 0, 0, 0, 0, 7, 1, 0, 0.0])
runs, values, _ = encodings.rle_encode(numbers, 2)
fig, ax = canvas("Numbers, and the pairs of their run-length code", 17, 4.9)
row(ax, 4.4, 0.2, "12 numbers", numbers, grey=True)
row(ax, 4.4, 2.3, "zeros before", runs, "#dddddd")
row(ax, 4.4, 3.6, "value", values)
write(ax, 10.0, 3.4, "a run has 2 bits: up to 3 zeros\n(3, 0) is a filler: 4 zeros", ha="left")
plots.show(fig, inches=(8, 3.0))

# %% [markdown]
# A run of $k$ bits counts up to $2^k - 1$ zeros. A longer one needs a **filler**: a full
# run, and a value 0. Zeros at the end take a pair, too.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## How many pairs? A geometric series
#
# Zeros at random, with probability $p$: one pair per value, and one more for every $2^k$
# zeros before it:
#
# $$\frac{\text{pairs}}{\text{element}} = (1-p)\,\bigl(1 + p^{2^k} + p^{2\cdot 2^k} + \dots\bigr) = \frac{1-p}{1-p^{2^k}}$$

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Coordinates: write the address
#
# Each value with its index among $L$ places:
#
# $$\text{bits} = (1-p)\,L\,\bigl(n + \lceil \log_2 L\rceil\bigr)$$

# %%
address = encodings.index_width(2**20)
widths = ", ".join(f"{encodings.index_width(L)} bits for {L:,} places" for L in (1024, 2**20))
say(
    f"An address grows with the tensor: {widths}. So COO pays only where values are very few: $p >"
    " \\lceil\\log_2 L\\rceil / (n + \\lceil\\log_2 L\\rceil)$, from"
    f" {100 * address / (32 + address):.0f} % zeros on for 2²⁰ 32-bit values, from"
    f" {100 * address / (8 + address):.0f} % on for 8-bit ones."
)

# %% slideshow={"slide_type": "slide"}
say("## CSR: row by row")
rows = [[10, 20, 0, 0, 0, 0], [0, 30, 0, 40, 0, 0], [0, 0, 50, 60, 70, 0], [0, 0, 0, 0, 0, 80]]
v, columns, pointers = encodings.csr_encode(torch.tensor(rows, dtype=torch.float))
fig, ax = canvas("A matrix and its three arrays in CSR", 20, 5)
for r, c in np.ndindex(4, 6):
    look = {"fill": SKY if r == 2 else "white"} if rows[r][c] else {"ink": "0.5"}
    box(ax, 0.2 + c, 0.6 + r, rows[r][c], **look)
for y, name, array in ((0.1, "v", v), (1.7, "COL_INDEX", columns), (3.3, "ROW_INDEX", pointers)):
    row(ax, 11, y, name, array)
for y, at, many in ((0.1, 3, 3), (1.7, 3, 3), (3.3, 2, 2)):  # row 2, in all of them
    box(ax, 11 + at, y, size=(many, 1), fill="none", edge=BLUE if y < 3 else ORANGE, linewidth=4)
plots.show(fig)

# %% [markdown]
# $$\text{bits} = (1-p)\,L\,\bigl(n + \lceil\log_2 C\rceil\bigr) + (R+1)\,\lceil\log_2(\text{nnz}+1)\rceil$$
#
# Row $r$ is `v[ROW_INDEX[r]:ROW_INDEX[r+1]]`. CSC is the same, column by column: choose
# by the order in which you read.

# %% slideshow={"slide_type": "slide"}
say("## Which format at which sparsity?")
ROWS, COLUMNS = 512, 4608
FORMULA = {"x": "sparsity", "control": None, "xaxis": "sparsity", "xlabel": "sparsity"}
sizes = pd.DataFrame(
    {
        "sparsity": p,
        "format": name.partition(" ")[0],
        "bits_per_weight": lab00.formula_bits(name, p, ROWS * COLUMNS, n=8, rows=ROWS)
        / (ROWS * COLUMNS),
    }
    for name in ("dense", "bitmap", "RLE k=4", "COO", "CSR")
    for p in lab00.FINE
)
title = f"8-bit weights of a {ROWS} × {COLUMNS} layer"
fig = plots.curves(sizes, y="bits_per_weight", by="format", title=title, ylim=(0, 16), **FORMULA)
plots.show(fig, inches=(5.3, 4.05))
sparse = sizes[sizes["format"] != "dense"]
smallest = sparse.loc[sparse.groupby("sparsity")["bits_per_weight"].idxmin()]
last = smallest.groupby("format", sort=False)["sparsity"].max()
said = ", ".join(f"{name} up to {100 * p:.0f} %" for name, p in last.items())
say(f"Smallest of the four: {said}.")

# %% [markdown] slideshow={"slide_type": "notes"}
# With 32-bit values all curves are nearly parallel, since the values are most of the
# bits; with 8 bits the bookkeeping decides. The lab measures the same on a trained
# layer.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Trained zeros meet other inputs: digits, MNIST, CIFAR-10
#
# {{claim 00.1}}

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Trained zeros lie in clusters
#
# {{claim 00.2}}

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Two minutes: the smallest format
#
# A layer has a million weights of **4 bits**. You prune 50 %, 90 %, 99 % of them.
#
# For each: dense, bitmap, RLE (4-bit runs) or COO? Guess the order first, then compute
# bits per weight.

# %% slideshow={"slide_type": "notes"}
bits = pd.DataFrame(
    {
        "pruned": f"{p:.0%}",
        **{
            f.partition(" ")[0]: lab00.formula_bits(f, p, 10**6, n=4) / 10**6
            for f in ("dense", "bitmap", "RLE k=4", "COO")
        },
    }
    for p in (0.5, 0.9, 0.99)
)
say("Bits per weight:")
tables.plain(bits, digits=2)

# %% slideshow={"slide_type": "slide"}
say("## Does a zero pay? A roofline predicts it")
reached = lab00.predicted_and_measured(product_work, least_seconds, *lab00.machine(), repeats=10)
fig = plots.curves(
    reached[reached["method"] != "copy the dense matrix"],
    y="faster",
    marks="measured",
    panels="times",
    title="1024 × 1024, one thread: bound (lines), measured (marks)",
    log=True,
    **FORMULA,
)
for ax in fig.axes:
    ax.get_legend().remove()
plots.show(fig, inches=(8, 3.4))

# %% [markdown] slideshow={"slide_type": "fragment"}
# $$\text{time} \ge \max(\text{MACs}/\text{peak},\ \text{bytes}/\text{bandwidth})$$

# %% [markdown] slideshow={"slide_type": "notes"}
# One vector: bytes decide, and an index is as large as its weight, or twice as large.
# Many vectors: products decide, and a kernel that follows indices stays far below its
# bound. Whole rows leave a smaller **dense** matrix: lab 04.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## What to take along
#
# - **Two costs.** MACs are in early, large maps; weights in late, wide layers.
# - **A zero weight saves $(1-p)$ of the products**; with zero inputs $(1-p)(1-q)$ only
#   on average.
# - **Activations**: the peak counts, not the sum.
# - **Formats**: bitmap for few zeros, RLE or CSR for many, COO if almost all are zero.
#   The formulas are exact; RLE's is a mean over independent zeros.
# - **Time is not MACs.** It is at least MACs over peak and bytes over bandwidth; measure it.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Lab 00, and where to read on
#
# *Lab 00*: every formula of today as code, checked by brute force; a real layer in
# every format; kernels on your machine.
#
# - Sze, Chen, Yang & Emer (2017). [Efficient processing of deep neural networks: a
#   tutorial and survey](https://arxiv.org/abs/1703.09039). *Proc. IEEE* 105.
# - Han, Mao & Dally (2016). [Deep compression](https://arxiv.org/abs/1510.00149). *ICLR*.
# - Parashar et al. (2017). [SCNN: an accelerator for compressed-sparse convolutional
#   neural networks](https://arxiv.org/abs/1708.04485). *ISCA*.
# - Vaswani et al. (2017). [Attention is all you
#   need](https://arxiv.org/abs/1706.03762). *NeurIPS*.
# - Williams, Waterman & Patterson (2009).
#   [Roofline](https://doi.org/10.1145/1498765.1498785). *Communications of the ACM* 52.
