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

# %% [markdown]
# # Lab 00 · Why prune? Counting cost, storing zeros
#
# A network has three costs: **arithmetic**, **memory** and **time**. Pruning sets
# weights to zero in order to reduce all three. When does it reduce them?
#
# > **From which sparsity on does a zero pay? In arithmetic? In bits? In milliseconds,
# on the machine in front of you?**
#
# *Sparsity* is the fraction of zeros. A zero *pays* where the pruned network costs less
# than the dense one. You write the functions that count, most of them a few lines of
# PyTorch. You apply them to a network that is trained here, and to your own machine.
#
# | part | you write | you find out |
# |---|---|---|
# | 1 · The conflict | – | what 90 % zeros do to the time of a layer |
# | 2 · What a layer costs | 0.1 – 0.3 | which layers cost most, and what a zero saves |
# | 3 · Storing zeros | 0.4, 0.5 | which format suits which sparsity |
# | 4 · Does a zero pay? | 0.6, 0.7 | what products and bytes allow, and what a kernel reaches |
# | 5 · More formats | 0.8 (optional) | how many bits run lengths, CSR and CSC take |
#
# 17 points; about 3½ hours without the optional exercise 0.8. Its 3 bonus points can
# replace points that you lose elsewhere in the lab. To leave it out, write
# `skip("0.8")` in a cell.
#
# **Prerequisites.** PyTorch tensors and convolutions; no earlier lab.
#
# Symbols, terms and the meaning of ±: [one page for all labs](../docs/notation.md).
#
# **After this lab you can**
#
# - compute the MACs and the memory of a convolution, a linear and a transformer layer;
# - count exactly how many products the zeros save;
# - store a sparse tensor, count its bits, and say which of five formats suits it;
# - predict from bytes and products how fast a layer can be at best, and measure how fast
#   it is.
#
# **How a lab works.** Before some experiments you write down a *prediction*, a number. It
# is not marked; the figure shows it as a star beside what came out. Then you write a
# function and run `check("0.1")`. Hints are folded; open them one by one. If you are
# stuck, `skip("0.1")` uses the library's function instead of yours: the question scores
# 0, and the rest of the lab runs. Counts and bits are Python `int`s, and no function
# changes its arguments. Arguments that make no sense and NaN are not tested in this lab.
#
# Write the functions yourself. Each question names the library functions that would
# solve it for you, and the checker detects calls to them. This is a deterrent;
# instructors also compare submissions for similarity.

# %%
import math

import numpy as np  # noqa: F401  (yours to use)
import torch
from torch import Tensor, nn

from course_lib import ledger, training
from course_lib.cost import encodings, latency, storage
from course_lib.data import images
from course_lib.experiments import common, lab00
from course_lib.grading import check, skip  # noqa: F401  (skip is yours to use)
from course_lib.show import drawings, plots

DATA = "digits"  # or "mnist", "fashion_mnist", "cifar10": the whole lab on other images

# %%
EPOCHS = {"digits": 8, "cifar10": 3}.get(DATA, 1)
SEEDS = (0, 1, 2, 3, 4) if DATA == "digits" else (0, 1, 2)
torch.set_num_threads(1)  # small layers gain nothing from a second core

# %% [markdown]
# ## Part 1 · The conflict
#
# The labs on convolutions use one small network with batch norm: four 3×3 convolutions
# and a linear layer. It is trained here, once per seed, because the result of a single
# network may be due to chance.

# %%
data = images.load(DATA)
nets = [lab00.network(data, EPOCHS, seed) for seed in SEEDS]
accuracy = [training.evaluate(net, data.test) for net in nets]
print(f"{len(nets)} networks on {data.name}, test accuracy in %: {accuracy}")
print(nets[0])

# %% [markdown]
# ### Experiment 1: is a layer with 90 % zeros ten times faster?
#
# The largest layer is `conv4`. As a matrix product it multiplies $M$ rows of weights,
# one per filter, with all patches of 64 images. We set its smallest weights to zero
# (*magnitude pruning*). Then two *sparse kernels* (routines that read only the kept
# weights, here those of PyTorch and of scipy) compete with the dense product on one
# core. The baseline *random* has as many zeros at random places. And **whole filters**
# (rows of the matrix) can be removed instead, which leaves a smaller dense matrix.
#
# By arithmetic alone, 90 % zeros would make the layer ten times faster (line *by MACs*).
#
# *Before you look:* from which sparsity on is the better of the two sparse kernels
# faster than the dense product? (A fraction, such as 0.5.)

# %%
prediction_kernels = ...  # yours, in place of the dots

# %%
batch_of = data.test.images[:64]
weights = [net.get_submodule("conv4").weight.detach() for net in nets]  # (M, C, 3, 3) per seed
inputs = [common.layer_inputs(net, batch_of)["conv4"] for net in nets]  # (64, C, H, W) per seed
levels = (0, 0.3, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99)
speeds = lab00.convolution(weights[:3], inputs[:3], levels)
SPEED = {"x": "sparsity", "y": "faster", "xaxis": "sparsity", "log": True}
TITLE = "conv4 on 64 images: which kernel is faster than dense?"
plots.curves(speeds, title=TITLE, guess=(prediction_kernels, 1), **SPEED)

# %% [markdown]
# **Zeros at single places pay late or never; whole filters pay at once.** But they, too,
# gain less than their MACs promise. Where single zeros lie (magnitude or random) changes
# little. So the question of this lab is open: the products are gone, but the time is
# not. What is a layer's cost, then? Part 2 counts arithmetic, Part 3 bits. Part 4
# returns to this figure with a model of time.

# %% [markdown]
# ## Part 2 · What a layer costs
#
# ### 0.1 The cost of a layer
# **12 minutes · 2 points**
#
# A convolution slides $M$ filters of size $C\times R\times S$ over an input of size
# $C\times H\times W$. Its output is $M\times E\times F$. With stride $u$ and padding
# $\pi$ on each side
#
# $$E=\Big\lfloor\frac{H+2\pi-R}{u}\Big\rfloor+1,\qquad F=\Big\lfloor\frac{W+2\pi-S}{u}\Big\rfloor+1 .$$
#
# Each of the $M\,E\,F$ output numbers is a sum of $C\,R\,S$ products. A product and its addition
# are one *multiply-accumulate* (MAC). So
#
# $$\text{MACs}=M\,C\,R\,S\;E\,F,\qquad
#   \text{bits}= n\,(\underbrace{MCRS}_{\text{weights}}+\underbrace{CHW}_{\text{input}}+\underbrace{MEF}_{\text{output}})$$
#
# with $n$ bits per number. (Products with padding count here, since a dense kernel
# computes them. In 0.3 they do not count.) A linear layer does not slide: it multiplies
# `batch` input rows by $d_\text{in}\cdot d_\text{out}$ weights.
#
# Weights stay in memory. Inputs and outputs are *transient*: when a layer is done, its
# input can be discarded. The experiment after the exercise shows the effect.
#
# **What is tested**: stride, padding and inputs that are not square; the unit that each
# key names; the default arguments; `int`s of any size; a kernel as large as its input.


# %%
def conv_cost(
    M: int,
    C: int,
    R: int,
    S: int,
    H: int,
    W: int,
    stride: int = 1,
    padding: int = 0,
    bits: int = 32,
) -> dict[str, int]:
    """Compute the costs of one convolution for one image (batch 1, no bias).

    Write both yourself: not with ``course_lib.cost``.

    Args:
        M, C, R, S: filters, input channels, height and width of the kernel.
        H, W: height and width of the input.
        stride, padding: the same in both directions; padding is added on every side.
        bits: bits per number.

    Returns:
        dict with the keys macs, weight_bits, input_bits, output_bits.

    >>> conv_cost(M=2, C=1, R=3, S=3, H=4, W=4)["macs"]
    72
    """
    ### BEGIN SOLUTION
    E = (H + 2 * padding - R) // stride + 1
    F = (W + 2 * padding - S) // stride + 1
    return {
        "macs": M * C * R * S * E * F,
        "weight_bits": bits * M * C * R * S,
        "input_bits": bits * C * H * W,
        "output_bits": bits * M * E * F,
    }
    ### END SOLUTION


def linear_cost(batch: int, d_in: int, d_out: int, bits: int = 32) -> dict[str, int]:
    """Compute the costs of one linear layer for ``batch`` rows (no bias).

    Returns: a dict with the same keys as ``conv_cost``.

    >>> cost = linear_cost(batch=2, d_in=3, d_out=5)
    >>> cost["weight_bits"], cost["input_bits"]  # 15 and 6 numbers of 32 bits
    (480, 192)
    """
    ### BEGIN SOLUTION
    return {
        "macs": batch * d_in * d_out,
        "weight_bits": bits * d_in * d_out,
        "input_bits": bits * batch * d_in,
        "output_bits": bits * batch * d_out,
    }
    ### END SOLUTION


# %%
check("0.1")

# %% [markdown]
# <details><summary>Hint 1: a case to do in your head</summary>One filter of 1×3×3 on a
# 1×5×7 picture, stride 1, no padding: the filter fits in 3 places vertically and 5
# horizontally. What are your E and F? Which of the two belongs to H?</details>
# <details><summary>Hint 2: stride</summary>With stride 2 the same filter fits
# vertically at 0 and 2, so E = 2. The floor is Python's <code>//</code>, and the + 1
# comes after it.</details>
# <details><summary>Hint 3: bits or bytes?</summary>The names of the keys contain the
# unit, and an argument is the number of bits per value.</details>

# %% [markdown]
# #### Experiment 2: where are the work and the weights?
#
# A hook records the shape of each layer's input in the trained network, and your
# functions compute the costs. (The experiments of this lab are short functions in
# [one file](../course_lib/experiments/lab00.py), which take your functions as arguments.)

# %%
costs = lab00.layer_costs(nets[0], data.test.images[:1], conv_cost, linear_cost)
print(f"{costs['macs'].sum():,} MACs, {costs['weight_bits'].sum() / 8e3:,.0f} kB of weights.")
TITLE = "Where are the MACs, and where are the weights?"
plots.bars(lab00.shares(costs), x="layer", y="percent", by="of", title=TITLE, fmt="{:.0f}")

# %% [markdown]
# A weight in an early layer is used once per position of a large picture. A weight in a
# late layer is used for few positions. So **one pruned weight does not save the same
# arithmetic everywhere**: to save MACs you prune other weights than to save bits. (Not
# counted, as in most papers: batch norm, biases, ReLU, pooling.)
#
# And the transient memory? While a layer works, its input and its output must both be
# in memory.

# %%
kb = costs["kb_alive"]
print(dict(zip(costs["layer"], kb.round(1), strict=True)), f"kB; the largest: {kb.max():.1f} kB.")

# %% [markdown]
# At inference, later layers reuse the memory of earlier layers. So the **maximum** over
# the layers counts, not the sum. (In *training* the backward pass needs every layer's
# input, so the sum counts.) Pruning activations lowers peak memory only if it lowers
# the largest of these numbers. Every pruned weight saves storage. 0.7 uses this.

# %% [markdown]
# ### 0.2 The cost of a transformer layer
# **12 minutes · 2 points**
#
# $B$ sentences have $L$ tokens each, and a token is an embedding of $d$ numbers. One
# encoder layer computes:
#
# 1. **projections**: queries, keys, values, and the output: four $d\times d$ matrices,
#    each applied to all $B L$ tokens;
# 2. **attention**: $QK^\top$ compares each token with each token of its sentence, at
#    $d$ MACs per pair; the weighted sum of the values costs the same again;
# 3. **feed-forward network** (FFN): $d\to 4d$ and $4d\to d$, for every token.
#
# With `heads` heads the $d$ columns are cut into slices of $D=d/\text{heads}$. Each
# head compares all pairs within its slice, at $D$ MACs per pair. How do more heads
# change the count of item 2, and the number of attention **scores**, which go through
# the softmax?
#
# **What is tested**: each part and their sum; one head by default; as many heads as
# columns.


# %%
def transformer_macs(B: int, L: int, d: int, heads: int = 1) -> dict[str, int]:
    """Count the MACs of one transformer encoder layer with a feed-forward network of
    width 4d (no biases, norms or softmax).

    Write it yourself: not with ``course_lib.cost``.

    Args:
        B, L, d: batch, tokens per sentence, embedding size.
        heads: the number of attention heads; it divides d.

    Returns:
        dict with the keys projections, attention (both products), ffn, total (all in
        MACs), and scores, the number of attention scores that go through the softmax.

    >>> macs = transformer_macs(2, 3, 4)
    >>> macs["attention"], macs["scores"]  # 2 · 9 pairs of tokens
    (144, 18)
    """
    ### BEGIN SOLUTION
    projections = 4 * B * L * d**2
    # each head computes QK^T and AV on slices of width D = d / heads
    attention = 2 * heads * (B * L * L * (d // heads))
    ffn = 2 * (B * L * d * 4 * d)
    return {
        "projections": projections,
        "attention": attention,
        "ffn": ffn,
        "total": projections + attention + ffn,
        "scores": B * heads * L**2,
    }
    ### END SOLUTION


# %%
check("0.2")

# %% [markdown]
# <details><summary>Hint 1: one matrix at a time</summary>A matrix product
# (a × b)·(b × c) takes a·b·c MACs. For one projection: a = B·L tokens,
# b = c = d.</details>
# <details><summary>Hint 2: the pairs</summary>Pairs are formed within a sentence. So
# there are B·L² of them, not (B·L)².</details>
# <details><summary>Hint 3: heads</summary>Write the attention term for one head of size
# d/heads, then multiply by the number of heads. Do the same for the scores. The number
# of heads cancels in only one of the two.</details>

# %% [markdown]
# Per token, projections and FFN take $12d^2$ MACs and attention $2Ld$. So attention has
# the share $L/(6d+L)$ of all MACs. For BERT-base ($d=768$):

# %%
for L in (128, 512, 2048, 6 * 768):
    macs = transformer_macs(1, L, 768)
    print(f"{L} tokens: attention has {100 * macs['attention'] / macs['total']:.0f} % of the MACs")

# %% [markdown]
# Up to 512 tokens at least 90 % of the work is in the matrices, so pruning weights or
# heads saves most. At $L=6d$ it is half, and far above it the number of tokens dominates: lab
# 10 prunes tokens. The number of heads does not change the MACs. It does change the
# number of scores that the softmax reads and writes, and the width of the products; lab
# 07 measures what that costs. **A MAC count is a simplified cost model.**

# %% [markdown]
# ### 0.3 What a zero saves
# **18 minutes · 3 points**
#
# If a share $p$ of the weights is zero and the hardware skips products with zero,
# $(1-p)$ of the MACs remain. If a share $q$ of the *inputs* is zero as well (ReLU
# produces many zeros), a product remains only where **both** operands are non-zero. How
# many such products are there? A formula that you will often see is
#
# $$\text{nonzero MACs}\;\ge\;(1-p)(1-q)\cdot\text{MACs}.$$
#
# Try it on two weights and two inputs, with one zero in each. With $w=(1,0)$ no product
# remains for $x=(0,1)$, and one of two remains for $x=(1,0)$. The formula gives a
# quarter of two, and the first count is *below* it. So the formula is not a bound. If
# zeros lie at random, independent places, $(1-p)(1-q)$ is the **expectation** of the
# remaining share. For a linear layer this share lies between $\max(0,\,1-p-q)$ and
# $\min(1-p,\,1-q)$.
#
# The actual number must be counted. At the border of the picture a weight meets
# *padding*, whose products are always zero. Here, unlike in 0.1, products with padding
# do not count.
#
# **What is tested**: linear layers and convolutions, whole batches, stride and padding
# (a linear layer ignores both); counts above 2²⁴ are exact; arguments are not changed.


# %%
def nonzero_macs(weight: Tensor, x: Tensor, stride: int = 1, padding: int = 0) -> int:
    """Count exactly the products of the whole batch whose weight and input are both non-zero.

    Write it yourself: not with ``course_lib.cost``.

    Args:
        weight: (M, C, R, S) of a convolution, or (d_out, d_in) of a linear layer.
        x: its input, (B, C, H, W) or (B, d_in). Padding holds zeros, so products with
            padding do not count.
        stride, padding: of the convolution, the same in both directions; a linear layer
            ignores them.

    Returns:
        an int, exact for any size (a float32 cannot hold every whole number above 2²⁴).

    >>> nonzero_macs(torch.ones(1, 1, 3, 3), torch.ones(1, 1, 2, 2), padding=1)  # not 36
    16
    """
    ### BEGIN SOLUTION
    if weight.ndim == 2:
        # (d_in,) the number of samples in which each input is not zero
        met = (x != 0).sum(0)
    else:
        R, S = weight.shape[2:]
        # (B, C·R·S, E·F)
        patches = nn.functional.unfold((x != 0).double(), (R, S), stride=stride, padding=padding)
        met = patches.sum((0, 2)).long()  # (C·R·S,) float64 is exact up to 2⁵³
    users = (weight != 0).flatten(1).sum(0)  # the number of filters with a non-zero here
    return int((users * met).sum())
    ### END SOLUTION


# %%
check("0.3")

# %% [markdown]
# <details><summary>Hint 1: forget the values</summary>Replace each element by 1 if it
# is non-zero, else by 0. What does the same layer compute then?</details>
# <details><summary>Hint 2: exactly</summary>A convolution of ones and zeros adds up
# counts. In float32, 2²⁴ + 1 is 2²⁴. Which dtype can hold larger counts?</details>
# <details><summary>Hint 3: with less work</summary>All filters see the same input. So
# for each place (c, r, s) of the kernel you need two numbers: how many filters are
# non-zero there, and how many non-zero inputs meet it.
# <code>torch.nn.functional.unfold</code> lists the inputs that each place
# meets.</details>

# %% [markdown]
# #### Experiment 3: how far from the expectation can it be?
#
# In a linear layer a share $p$ of the weights is zero, and the same share of the
# inputs. For each $p$ we draw three layouts at random and build two on purpose: zero
# inputs meet exactly the zero weights (*most* products are left), or as few of them as
# possible (*least*). Lines are formulas, marks are your function's counts.

# %%
placed = lab00.placed_zeros(nonzero_macs, [p / 20 for p in range(20)])
POINTS = {"marks": "counted", "control": None, "xaxis": "sparsity"}
TITLE = "How many products remain, by placement of the zeros?"
plots.curves(placed, x="both_zero", y="products_left", by="zeros", title=TITLE, **POINTS)

# %% [markdown]
# **$(1-p)(1-q)$ is a mean over random places; for given places anything between the
# outer lines can happen.** A real layer is not at random either. In `conv4` of the
# trained networks about half of the inputs are zero after ReLU, and:
#
# {{claim 00.1}}
#
# The random zeros are not at the expectation themselves: a pixel at the border takes
# part in fewer products, and zeros of the input are not spread evenly. If your
# hardware's speed depends on the count, count.

# %% [markdown]
# ## Part 3 · Storing zeros
#
# A pruned weight still takes 32 bits if it is stored as a zero. If it is not stored,
# you must store the positions of the other weights. The formats differ in how they
# store these positions. A share $p$ of the $L$ elements is zero. The other elements are
# the *values*, of $n$ bits each. Dense storage takes $L\,n$ bits. The picture shows three
# formats; each is explained below.

# %%
plots.show(drawings.stored_row(torch.tensor([0, 0, 5, 0, 0, 0, 0, 0, 7, 2, 0, 0.0])))

# %% [markdown]
# Not allowed in 0.4 and 0.5, because they solve the exercise: `Tensor.to_sparse*`,
# `torch.sparse_*_tensor`, `Tensor.to_dense`, `scipy.sparse`.
#
# **What is tested** in both: any dtype (dtypes are kept) and shape, all zeros, no
# elements; arguments are not changed.

# %% [markdown]
# ### 0.4 Bitmap: one bit for every place
# **8 minutes · 2 points**
#
# One bit per element marks whether it is a value. The values follow in row-major order.
#
# $$\text{bits}=(1-p)\,L\,n+L$$
#
# **What is tested** also: row-major order; $n$ bits per value.
#
# The map costs $L$ bits, however sparse the tensor is.


# %%
def bitmap_encode(x: Tensor) -> tuple[Tensor, Tensor]:
    """Encode x, of any shape and dtype, as (bitmap, values).

    bitmap: bool, x's shape, True where x is not zero. values: 1-D, row-major, x's dtype.

    Write all three yourself: not with the sparse formats of torch or scipy, nor with
    ``course_lib.cost``.

    >>> bitmap, values = bitmap_encode(torch.tensor([[0, 5], [7, 0]]))
    >>> bitmap.tolist(), values.tolist()
    ([[False, True], [True, False]], [5, 7])
    """
    ### BEGIN SOLUTION
    bitmap = x != 0
    return bitmap, x[bitmap]
    ### END SOLUTION


def bitmap_decode(bitmap: Tensor, values: Tensor) -> Tensor:
    """Decode to a tensor with the shape of ``bitmap`` and the dtype of ``values``.

    >>> bitmap_decode(torch.eye(2).bool(), torch.tensor([5, 7])).tolist()
    [[5, 0], [0, 7]]
    """
    ### BEGIN SOLUTION
    x = values.new_zeros(bitmap.shape)
    x[bitmap] = values
    return x
    ### END SOLUTION


def bitmap_bits(x: Tensor, n: int = 32) -> int:
    """Count the bits of the encoding, values and map, with n bits per value.

    >>> bitmap_bits(torch.tensor([0, 5, 0, 7]), n=8)  # 2 values, and a map of 4 bits
    20
    """
    ### BEGIN SOLUTION
    return int((x != 0).sum()) * n + x.numel()
    ### END SOLUTION


# %%
check("0.4")

# %% [markdown]
# <details><summary>Hint 1: one question for all</summary>The map answers the same
# question for every element. Look up "boolean indexing": in which order do the elements
# come?</details>
# <details><summary>Hint 2: decode</summary>Most elements of the result are zeros. Which
# dtype should they have, the map's or the values'? An index that reads elements can
# also stand on the left of <code>=</code>; there it writes them.</details>

# %% [markdown]
# ### 0.5 Coordinates: write the address
# **10 minutes · 2 points**
#
# COO (*coordinates*) stores each value with its *address*, its position in the
# flattened tensor. An address among $L$ places takes $\lceil\log_2 L\rceil$ bits,
# rounded **up**:
#
# $$\text{bits}=(1-p)\,L\,\big(n+\lceil\log_2 L\rceil\big)$$
#
# Compute this width as `(L - 1).bit_length()`, the number of bits of the largest
# address. This has no rounding errors and is right for $L=1$: a tensor with one place
# needs *no* address.
#
# **What is tested** also: flat row-major positions; the width at powers of two, next to
# them, and for $L=1$.


# %%
def coo_encode(x: Tensor) -> tuple[Tensor, Tensor, tuple[int, ...]]:
    """Encode x, of any shape and dtype, as (index, values, shape); shape: a tuple of ints.

    index: increasing row-major positions of the non-zeros, int64. values: 1-D, x's dtype.

    Write all three yourself: not with the sparse formats of torch or scipy, nor with
    ``course_lib.cost``.

    >>> coo_encode(torch.tensor([[0, 5], [7, 0]]))
    (tensor([1, 2]), tensor([5, 7]), (2, 2))
    """
    ### BEGIN SOLUTION
    flat = x.flatten()
    index = (flat != 0).nonzero().flatten()
    return index, flat[index], tuple(x.shape)
    ### END SOLUTION


def coo_decode(index: Tensor, values: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Decode to a tensor of this shape, with the dtype of ``values``.

    >>> coo_decode(torch.tensor([2]), torch.tensor([7]), (2, 2)).tolist()
    [[0, 0], [7, 0]]
    """
    ### BEGIN SOLUTION
    x = values.new_zeros(math.prod(shape))
    x[index] = values
    return x.view(shape)
    ### END SOLUTION


def coo_bits(x: Tensor, n: int = 32) -> int:
    """Count the bits of the encoding: n bits and an address of (L - 1).bit_length() bits
    per non-zero.

    >>> coo_bits(torch.tensor([0, 5, 0, 7, 0]), n=8)  # the addresses 0 … 4 have 3 bits
    22
    """
    ### BEGIN SOLUTION
    address = (x.numel() - 1).bit_length()
    return int((x != 0).sum()) * (n + address)
    ### END SOLUTION


# %%
check("0.5")

# %% [markdown]
# <details><summary>Hint 1: positions</summary><code>nonzero()</code> of a 1-D tensor
# gives a column of positions: flatten it.</details>
# <details><summary>Hint 2: check the width</summary>L = 1, 2, 3, 4, 5 need 0, 1, 2, 2,
# 3 bits.</details>

# %% [markdown]
# ### Three more formats, to read
#
# **Run lengths (RLE)** store the number of zeros (the *run*) before each value. Each
# **pair** (run, value) means: *this many zeros, then this value*. A run is stored in a
# field of $k$ bits, so it lies between 0 and $2^k-1$. With $k=2$:
#
# | x | 0 0 5 | 0 0 0 0 | 0 7 | 0 |
# |---|---|---|---|---|
# | pair | (2, 5) | (3, 0) | (1, 7) | (0, 0) |
#
# Before the 7 there are five zeros, but a run can be at most 3. So a **filler** pair
# (3, 0) comes first: three zeros, then the value 0, four zeros in all. At the end, where
# no value follows, the last zero is written as the value. How many pairs do we expect
# for zeros at random places? A pair covers at most $2^k$ elements. It covers more than
# $j$ elements only if the first $j$ elements are all zero, with probability $p^j$. So
# its mean length is $\sum_{j=0}^{2^k-1}p^j=\frac{1-p^{2^k}}{1-p}$, and
#
# $$\frac{\text{pairs}}{L}=\frac{1-p}{1-p^{2^k}},\qquad \text{bits}=\text{pairs}\cdot(n+k).$$
#
# **Compressed sparse row (CSR)** stores three arrays for a matrix of $R$ rows and $C$
# columns: the values row by row, the **column** of each value, and per row the number of
# values *before* this row:
#
# $$\begin{pmatrix} 10 & 20 & 0 & 0 & 0 & 0 \\ 0 & 30 & 0 & 40 & 0 & 0 \\ 0 & 0 & 50 & 60 & 70 & 0 \\ 0 & 0 & 0 & 0 & 0 & 80 \end{pmatrix}
# \quad\begin{aligned}v&=[10\;20\;30\;40\;50\;60\;70\;80]\\
# \text{COL\_INDEX}&=[0\;1\;1\;3\;2\;3\;4\;5]\\
# \text{ROW\_INDEX}&=[0\;2\;4\;7\;8]\end{aligned}$$
#
# The values of row $i$ are `v[ROW_INDEX[i]:ROW_INDEX[i+1]]`. A column is one of $C$
# numbers, an entry of ROW_INDEX one of $\mathit{nnz}+1$ counts ($\mathit{nnz}$ is the
# *number of non-zeros*):
#
# $$\text{bits}=\mathit{nnz}\,\big(n+\lceil\log_2 C\rceil\big)+(R+1)\,\lceil\log_2(\mathit{nnz}+1)\rceil$$
#
# **Compressed sparse column (CSC)** is CSR of the transpose: the values column by column
# with their rows. A product $\boldsymbol w\boldsymbol x$ with a sparse *input* reads
# only the columns where $\boldsymbol x$ is not zero, so accelerators such as EIE store
# the weights in CSC ([Han et al. 2016](https://arxiv.org/abs/1602.01528)).
#
# #### Experiment 4: which format suits which sparsity?
#
# We set the smallest weights of the trained `conv4` to zero and encode it, with your
# bitmap and COO and with the library's run lengths and CSR (each filter is a row). At 32
# bits per value the values dominate and all curves look similar. The formats differ in
# the **bookkeeping**: all bits that are not bits of a kept value. The figure shows it
# with a lower limit, the *entropy floor*: no code can store randomly placed zeros in
# fewer bits per place than $-p\log_2 p-(1-p)\log_2(1-p)$
# ([Shannon 1948](https://doi.org/10.1002/j.1538-7305.1948.tb01338.x)).

# %%
formats = {
    "bitmap": bitmap_bits,
    "RLE k=2": lambda x: encodings.rle_bits(x, run_bits=2),
    "RLE k=5": lambda x: encodings.rle_bits(x, run_bits=5),
    "COO": coo_bits,
    "CSR": lambda x: encodings.csr_bits(x.flatten(1)),
}
sizes = lab00.bookkeeping(formats, weights)
TITLE = "conv4: how many bits store the positions of the values?"
BITS = {"x": "sparsity", "y": "bits_per_weight", "by": "format", **POINTS}
fig = plots.curves(sizes, title=TITLE, log=True, ylim=(0.05, 20), **BITS)
fig.axes[0].set_xticks([p / 10 for p in range(11)])
fig.axes[0].set_xticks([p / 100 for p in range(80, 100)], minor=True)  # where lines are steep
fig.axes[0].grid(visible=True, axis="x", which="minor", alpha=0.4)
plots.show(fig)

# %% [markdown]
# A common rule of thumb is *bitmap for low and moderate sparsity, run lengths for
# moderate, CSR for high, COO for extremely high*. Your figure agrees, with two
# corrections. Run lengths need a field that suits the sparsity. COO is smaller than CSR
# only if the number of kept values is close to the number of rows. The trained layer's
# run lengths (marks) lie above the formula:
#
# {{claim 00.2}}
#
# Long runs need filler pairs, and values inside a cluster have short runs, each of which
# still costs $k$ bits. In the literature the fields are wider: Eyeriss stores
# activations with 5-bit runs and 16-bit values ([Chen et al.
# 2017](https://doi.org/10.1109/JSSC.2016.2616357)), Deep Compression weights with 8 bits
# in convolutions and 5 in linear layers ([Han et al.
# 2016](https://arxiv.org/abs/1510.00149)); entropy coding then saves the bits above the
# floor.
#
# Find where the curves cross for other value widths, sizes and run fields. (Tab goes to
# a slider, arrow keys move it by one step.)

# %%
plots.explore(lab00.explore, sparsity=(0, 99), bits=(1, 32), log2_size=(4, 24), k=(1, 10))

# %% [markdown]
# ## Part 4 · Does a zero pay?
#
# ### 0.6 The roofline: products or bytes
# **15 minutes · 3 points**
#
# A processor can do two things at once: multiply, at most `peak` MACs per second, and
# move numbers, at most `bandwidth` bytes per second. A product of matrices needs both.
# Whichever takes longer is a lower bound for its time
# ([Williams et al. 2009](https://doi.org/10.1145/1498765.1498785)):
#
# $$\text{time}\;\ge\;\max\Big(\frac{\text{MACs}}{\text{peak}},\;\frac{\text{bytes}}{\text{bandwidth}}\Big)$$
#
# Take a matrix of $R\times C$ weights of which `kept` are not zero, times $V$ vectors.
# Every kept weight is multiplied once per vector. What must be moved, once at least, are
# all kept weights with their indices, all $C\,V$ inputs and all $R\,V$ outputs. A number
# has 4 bytes. An index has `index_bits` *bits*: 0 in a dense matrix, 32 in scipy's CSR,
# 64 in PyTorch's. (The few row counts are left out.)
#
# With pen and paper: $R=C=1024$, one vector, dense. How many bytes per MAC? And with 64
# vectors? Which of the two products is limited by bytes, if your machine can do ten
# MACs in the time in which it moves one byte?
#
# **What is tested**: MACs and bytes of dense and sparse matrices, one and many vectors;
# indices of any width; the bound on both sides of the corner.


# %%
def product_work(
    rows: int, columns: int, vectors: int, kept: int, index_bits: int = 0
) -> dict[str, int]:
    """Count the work of a (rows, columns) matrix with ``kept`` weights times ``vectors`` vectors.

    Write both yourself: not with ``course_lib.cost``.

    Args:
        kept: how many weights are stored and multiplied; rows · columns of a dense matrix.
        index_bits: bits that are stored beside each kept weight; a multiple of 8.

    Returns:
        dict with the keys macs and bytes (moved at least once; 4 bytes per number).

    >>> product_work(rows=2, columns=3, vectors=1, kept=4, index_bits=32)
    {'macs': 4, 'bytes': 52}
    """
    ### BEGIN SOLUTION
    stored = kept * (4 + index_bits // 8)
    return {"macs": kept * vectors, "bytes": stored + 4 * vectors * (columns + rows)}
    ### END SOLUTION


def least_seconds(work: dict[str, int], peak: float, bandwidth: float) -> float:
    """Bound the time from below: multiplying and moving overlap, and the longer one decides.

    Args:
        work: as ``product_work`` returns it.
        peak: MACs per second, at most. bandwidth: bytes per second, at most.

    >>> least_seconds({"macs": 600, "bytes": 100}, peak=200, bandwidth=50)
    3.0
    """
    ### BEGIN SOLUTION
    return max(work["macs"] / peak, work["bytes"] / bandwidth)
    ### END SOLUTION


# %%
check("0.6")

# %% [markdown]
# <details><summary>Hint 1: which numbers move?</summary>Three tensors: the stored
# weights, the inputs, the outputs. Only one of them depends on
# <code>kept</code>.</details>
# <details><summary>Hint 2: does a weight move once per vector?</summary>At best it is
# read once and then used for all vectors. So the weights' bytes do not depend on
# <code>vectors</code>.</details>
# <details><summary>Pen and paper</summary>4.01 bytes per MAC, and 0.07 with 64 vectors. In
# the time of one byte the machine does ten MACs, so it needs at least 0.1 bytes per MAC for
# the bytes to decide: they decide for one vector, the products for 64.</details>

# %% [markdown]
# #### Experiment 5: what does the roofline predict, and what does a kernel reach?
#
# Peak and bandwidth are measured, with one large multiplication and one copy, on one
# core. Then your functions predict how many times faster than the dense product each
# kernel can be at best (lines), for the *same* 1024 × 1024 matrix with zeros at random
# places, times 1 vector and times 64. Marks are measured. One more kernel only *copies
# the dense matrix*: what takes longer than this copy is not limited by moving weights.
#
# *Before you look:* times one vector, how many times faster than dense can PyTorch's CSR
# be at 90 % zeros, by your bound? (A number.)

# %%
### BEGIN SOLUTION
prediction_0_6 = 3
### END SOLUTION

# %%
peak, bandwidth = lab00.machine()
print(f"At most {peak / 1e9:.0f} billion MACs and {bandwidth / 1e9:.0f} billion bytes per second.")
reached = lab00.predicted_and_measured(product_work, least_seconds, peak, bandwidth)
LOOK = {"panels": "times", "marks": "measured", "control": None, "guess": (0.9, prediction_0_6)}
TITLE = "How fast can a sparse kernel be (lines), and how fast is it (marks)?"
plots.curves(reached, title=TITLE, **LOOK, **SPEED)

# %% [markdown]
# With one vector every weight is used once. The bytes decide: CSR moves 8 or 12 bytes per
# kept weight instead of 4, so it can pay from 50 % (scipy) or 67 % (PyTorch) on, and at 90 %
# it can be about five or three times faster, not ten. With 64 vectors every weight is used 64
# times, the dense product is limited by its products, and at 90 % the bound of CSR is higher.
# **Sparse kernels stay far below their bounds; whole rows come closest, most clearly with 64
# vectors.** A dense kernel multiplies eight or sixteen neighbouring weights at once, and a
# sparse kernel follows every index. (A line compares two bounds. So a mark can lie a little
# above it, where the dense product stays below its own.) The copy reads and writes the
# matrix. Times one vector, the dense product takes about half as long, the time of reading
# it: fewer bytes could help. Times 64, it takes longer than the copy: fewer bytes alone help
# little.
#
# In which units do zeros pay, then? In MACs at once. In *stored* bits of `conv4` CSR
# pays from 24 % on, by the formula of Part 3 with 10 bits for a column; the kernels above
# *move* indices of 32 or 64 bits. In time a kernel pays from where its curve of Experiment 1
# crosses 1: at a higher sparsity still, or never. The literature agrees.
# [Gale et al. (2020)](https://arxiv.org/abs/2006.10901) write about GPUs that the
# moderate sparsity of neural networks is "not sufficient for existing sparse kernels to
# outperform their dense counterparts"; with kernels written for this purpose they make
# whole networks 1.2 to 2.1 times faster. And a format that is unpacked on the way need
# not be slow: [Flash-LLM](https://arxiv.org/abs/2309.10285) loads sparse weights, unpacks
# them on the chip and multiplies densely, which pays where bytes decide, as they do for
# language models. Check that a comparison does not use a slow dense product: against a
# faster one every crossing moves to the right.

# %% [markdown]
# ### 0.7 Three answers
# **15 minutes · 3 points · needs 0.1, 0.2, 0.3**
#
# **a.** A linear layer has half of its weights pruned ($p=0.5$), and half of its inputs
# are zero ($q=0.5$). What can be said about its nonzero MACs?
#
# - **A.** At least a quarter of all MACs, since (1 − p)(1 − q) is a lower bound.
# - **B.** Exactly a quarter of all MACs.
# - **C.** A quarter on average over random places of the zeros; for given places
#   anything from none to half.
# - **D.** At most a quarter, since a zero in either operand is enough.
# - **E.** Half: zeros in the inputs save nothing that pruned weights did not save
#   already.
#
# **b. A device to buy.** A camera runs the convolutions below one after the other, with
# batch 1 and 16-bit activations. Each input is discarded as soon as its layer is done.
# How many **bits** of memory must the device have *for activations* (inputs and
# outputs, no weights)?
#
# **c. What weights cannot save.** You prune 90 % of all weights of a BERT-base layer
# ($d=768$, projections and FFN) and your hardware skips every product with a pruned
# weight. Sentences are $L=512$ tokens long. How many times fewer MACs does the
# layer then compute? (Dense MACs divided by remaining MACs, with two decimals.)
#
# Compute with your functions in a new cell, then type the results as plain numbers.
#
# **What is tested**: the letter of **a**; **b** exactly, **c** within 0.05.

# %%
CAMERA = [  # of each convolution: M, C, R, S, H, W, stride, padding; 16 bits per number
    (16, 3, 3, 3, 96, 128, 2, 1),
    (32, 16, 3, 3, 48, 64, 1, 1),
    (48, 32, 3, 3, 48, 64, 2, 1),
    (96, 48, 3, 3, 24, 32, 1, 1),
    (128, 96, 3, 3, 24, 32, 2, 1),
]

# %%
### BEGIN SOLUTION
answer_0_7a = "C"  # w = (1, 0) with x = (0, 1) refutes a lower bound, with x = (1, 0) an upper one
# b: the largest input + output of the five layers, not their sum (and not the largest
# tensor)
answer_0_7b = 2359296
# c: attention has no weights: a tenth of projections and FFN remains, and all of
# attention
answer_0_7c = 5.26
### END SOLUTION

# %%
check("0.7")

# %% [markdown]
# <details><summary>Hint for a</summary>Each wrong sentence can be refuted with a layer of
# one output and two inputs, as in 0.3.</details>
# <details><summary>Hint 1 for b</summary>Which tensors are in memory while layer i
# works? Which of them are still there while layer i + 1 works?</details>
# <details><summary>Hint 2 for b</summary><code>conv_cost(*layer, bits=16)</code> gives
# both terms. How do you combine five numbers into one? Experiment 2 asked the
# same.</details>
# <details><summary>Hint for c</summary>What are the two factors of each
# product?</details>

# %% [markdown]
# Ten times fewer weights are not ten times fewer MACs: attention multiplies activations
# with activations, and no pruned weight changes that. The longer the text, the larger
# the share of attention. At $L=6d$ it is half of all MACs. Even a network without any
# weights would keep this half.

# %% [markdown]
# ## Part 5 · More formats
#
# ### 0.8 The bits of run lengths, CSR and CSC
# **20 minutes · 3 points · optional**
#
# The formulas of Part 3 are right on average (run lengths) or for a given number of
# values (CSR, CSC). Count the bits of a given tensor. For run lengths this means
# counting its pairs, fillers and the pair at the end included: think of the gaps
# between neighbouring values. Compute the width of a number that is at most $m$ as
# `m.bit_length()`.
#
# **What is tested**: bits of every pair, fillers included; runs of exactly $2^k$ zeros,
# between values and at the end; rows and columns of different number; 0 bits in CSR and
# CSC for a matrix of zeros.


# %%
def rle_bits(x: Tensor, n: int = 32, run_bits: int = 2) -> int:
    """Count the bits of the run-length code of x in row-major order: n + run_bits per pair.

    Write all three yourself: not with the sparse formats of torch or scipy, nor with
    ``course_lib.cost``.

    >>> rle_bits(torch.tensor([0, 0, 0, 0, 5]), n=8)  # 2 pairs of 8 + 2 bits; one is a filler
    20
    """
    ### BEGIN SOLUTION
    flat = x.flatten()
    stops = (flat != 0).nonzero().flatten()  # where a pair ends: at every non-zero ...
    if len(flat) and flat[-1] == 0:
        stops = torch.cat([stops, stops.new_tensor([len(flat) - 1])])  # ... and at the end
    gaps = stops.diff(prepend=stops.new_tensor([-1])) - 1  # zeros before each stop
    pairs = int((gaps // 2**run_bits + 1).sum())  # a filler stands for 2^k zeros
    return pairs * (n + run_bits)
    ### END SOLUTION


def csr_bits(x2d: Tensor, n: int = 32) -> int:
    """Count the bits of CSR: a value and a column per non-zero, and R + 1 counts from 0 to nnz.

    >>> csr_bits(torch.tensor([[0, 5, 0], [7, 0, 0]]), n=8)  # 2 · (8 + 2) + 3 · 2
    26
    """
    ### BEGIN SOLUTION
    R, C = x2d.shape
    nnz = int((x2d != 0).sum())
    return nnz * (n + (C - 1).bit_length()) + (R + 1) * nnz.bit_length()
    ### END SOLUTION


def csc_bits(x2d: Tensor, n: int = 32) -> int:
    """Count the bits of CSC: a value and a row per non-zero, and C + 1 counts from 0 to nnz.

    >>> csc_bits(torch.tensor([[0, 5, 0], [7, 0, 0]]), n=8)  # 2 · (8 + 1) + 4 · 2
    26
    """
    ### BEGIN SOLUTION
    return csr_bits(x2d.T, n)
    ### END SOLUTION


# %%
check("0.8")

# %% [markdown]
# <details><summary>Hint 1: gaps</summary>A gap of g zeros before a value takes one pair
# for the value, and one filler for every full 2^k zeros.</details>
# <details><summary>Hint 2: the end</summary>If the last element is a zero, treat it like
# a value.</details>
# <details><summary>Hint 3: widths</summary>⌈log₂(m + 1)⌉ of an int m ≥ 0 is
# <code>m.bit_length()</code>. Which m is it for a column, and which for a
# count?</details>

# %% [markdown]
# ## The ledger
#
# Every lab continues one table with the results of its methods on the same small network.
# Today's row is the network before pruning: bits of the whole model (with biases and batch
# norm), MACs for one image, milliseconds for 64 images on one core of this machine, and test
# accuracy over the seeds, with its 95 % interval.

# %%
bits, macs = storage.model_bits(nets[0].state_dict()), int(costs["macs"].sum())
ms = 1e3 * latency.measure(latency.forward(nets[0], batch_of), repeats=30).median
ledger.add("convnet", "dense", lab="00", bits=bits, macs=macs, ms=ms, accuracy=accuracy)
ledger.table()

# %% [markdown]
# ## What you take with you
#
# - Arithmetic, memory and time are three different costs. Weights and MACs are in
#   different layers; peak activation memory is a maximum over layers.
# - $(1-p)(1-q)$ is an expectation. If you need the exact number, count.
# - Every format stores positions. A bitmap costs the same at any sparsity. Coordinates
#   cost bits per value. Run lengths cost bits per value and per filler.
# - Time is at least products over peak, and at least bytes over bandwidth. A zero at a
#   single place saves MACs at once, bits at higher sparsity, and milliseconds at much
#   higher sparsity or never; zeros that a dense kernel can leave out save all three.
#
# ### Five questions to recap
#
# 1. Which layers of a convolutional network have the most MACs, which the most weights?
#    <details><summary>Answer</summary>MACs: layers with large maps. Weights: late, wide
#    layers.</details>
# 2. A product with one vector: why does half of the weights not halve the bytes of CSR?
#    <details><summary>Answer</summary>Every kept weight brings an index with
#    it.</details>
# 3. When does a bitmap pay?
#    <details><summary>Answer</summary>If p > 1/n.</details>
# 4. What is a filler in a run-length code?
#    <details><summary>Answer</summary>A pair with the longest run and the value 0: it
#    stands for 2^k zeros.</details>
# 5. Why is a layer with 90 % zeros not ten times faster?
#    <details><summary>Answer</summary>Dense kernels multiply zeros, too. Sparse kernels
#    follow an index per value.</details>
#
# ## Going further
#
# 1. **Real data, larger pictures.** Set `DATA = "mnist"` (or `"fashion_mnist"`,
#    `"cifar10"`) and run everything again. Why do MACs and peak memory change, but not
#    the bookkeeping figure?
# 2. **When bytes decide.** Set `size=4096` (and fewer `repeats`) in Experiment 5, so that
#    the weights come from memory. Do the marks move towards the lines? Does PyTorch's CSR
#    gain from int32 indices (`row.int()`, `column.int()`)?
# 3. **A GPU.** Move matrix and vectors to `cuda` in Experiment 5 (`latency` waits for the
#    device). In which direction does each crossing move?
# 4. **Read**: Sze et al. 2017, [Efficient Processing of Deep Neural
#    Networks](https://arxiv.org/abs/1703.09039) (counting, dataflows); Hoefler et al.
#    2021, [Sparsity in Deep Learning](https://arxiv.org/abs/2102.00554); and the papers
#    linked above.
