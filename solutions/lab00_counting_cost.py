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
# | 1 · What a layer costs | 0.1 – 0.3 | which layers cost most, and what a zero saves |
# | 2 · Storing zeros | 0.4 – 0.7 | four ways to store the positions of values |
# | 3 · Does a zero pay? | 0.8 | sizes, encoding times and kernels, measured |
# | 4 · Two more values | 0.9, 0.10 (optional) | peak memory; costs that pruning weights cannot reduce |
#
# 19 points; about 5 hours without the optional exercise 0.10. Its 1 bonus point can
# replace a point that you lose elsewhere in the lab. To leave it out, write
# `skip("0.10")` in a cell.
#
# **Prerequisites.** PyTorch tensors and convolutions; no earlier lab.
#
# Symbols, terms and the meaning of ±: [one page for all labs](../docs/notation.md).
#
# **After this lab you can**
#
# - compute the MACs and the memory of a convolution, a linear and a transformer layer;
# - count exactly how many products the zeros save;
# - store a sparse tensor in four formats and compute the bits of each;
# - measure from which sparsity on a sparse *kernel* (the routine that multiplies) is
#   faster than a dense one.
#
# **How a lab works.** Before some experiments you write down a *prediction*, a number. It
# is not marked; the figure shows it as a star beside what came out. Then you write a
# function and run `check("0.1")`. Hints are folded; open them one by one. If you are
# stuck, `skip("0.1")` uses the library's function instead of yours: the question scores
# 0, and the rest of the lab runs. Every function returns counts and bits as Python
# `int`s and does not change its arguments. **Invalid arguments raise `ValueError`**.
# Most of these checks are given; in 0.1 and 0.2 you write one yourself.
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
from course_lib.experiments import lab00
from course_lib.grading import check, skip  # noqa: F401  (skip is yours to use)
from course_lib.show import drawings, plots, tables
from course_lib.show.words import say

DATA = "digits"  # or "mnist", "fashion_mnist", "cifar10": the whole lab on other images

# %%
EPOCHS = {"digits": 8, "cifar10": 3}.get(DATA, 1)
SEEDS = (0, 1, 2, 3, 4) if DATA == "digits" else (0, 1, 2)
torch.set_num_threads(1)  # small layers gain nothing from a second core


def require(condition: bool, message: str) -> None:
    """Raise a ValueError with this message unless the condition holds."""
    if not condition:
        raise ValueError(message)


# %% [markdown]
# **The idea of the lab in one picture.** A row with many zeros can be stored without
# them. But then the positions of the values (grey) must be stored, too. Part 2 counts
# the bits of both.

# %%
plots.show(drawings.stored_row(torch.tensor([0, 0, 5, 0, 0, 0, 0, 0, 7, 2, 0, 0.0])))

# %% [markdown]
# ## Part 1 · What a layer costs
#
# The whole course uses one small convolutional network with batch norm: four 3×3
# convolutions and a linear layer. It is trained here, once per seed, because the result
# of a single network may be due to chance.

# %%
data = images.load(DATA)
nets = [lab00.network(data, EPOCHS, seed) for seed in SEEDS]
accuracy = [training.evaluate(net, data.test) for net in nets]
print(f"{len(nets)} networks on {data.name}, test accuracy in %: {accuracy}")
print(nets[0])

# %% [markdown]
# ### 0.1 The cost of a layer
# **12 minutes · 2 points**
#
# A convolution slides $M$ filters of size $C\times R\times S$ over an input of size
# $C\times H\times W$. Its output is $M\times E\times F$. With stride $u$ and padding
# $\pi$ on each side
#
# $$E=\Big\lfloor\frac{H+2\pi-R}{u}\Big\rfloor+1,\qquad F=\Big\lfloor\frac{W+2\pi-S}{u}\Big\rfloor+1 .$$
#
# (Note that $E$, $L$ and $R$ have other meanings in later sections.) Each of the
# $M\,E\,F$ output numbers is a sum of $C\,R\,S$ products. A product and its addition
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
# key names; the default arguments; `int`s of any size; a kernel as large as its input;
# `ValueError` for a kernel that does not fit.


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

    Raises:
        ValueError: if a size, the stride or bits is below 1, padding is negative, or
            the kernel is larger than the padded input.

    >>> conv_cost(M=2, C=1, R=3, S=3, H=4, W=4)["macs"]
    72
    """
    require(min(M, C, R, S, H, W, stride, bits) >= 1, "sizes, stride and bits must be at least 1")
    require(padding >= 0, f"padding must be at least 0, got {padding}")
    ### BEGIN SOLUTION
    E = (H + 2 * padding - R) // stride + 1
    F = (W + 2 * padding - S) // stride + 1
    require(
        min(E, F) >= 1,
        f"R, S: a {R}x{S} kernel must fit into the {H}x{W} input with padding {padding}",
    )
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

    Raises:
        ValueError: if an argument is below 1.

    >>> cost = linear_cost(batch=2, d_in=3, d_out=5)
    >>> cost["weight_bits"], cost["input_bits"]  # 15 and 6 numbers of 32 bits
    (480, 192)
    """
    require(min(batch, d_in, d_out, bits) >= 1, "batch, d_in, d_out, bits must be at least 1")
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
# #### Experiment: where are the work and the weights?
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
# arithmetic everywhere**. To save MACs you prune other weights than to save bits. (Not
# counted, as in most papers: batch norm, biases, ReLU, pooling.)
#
# Now the transient memory. While a layer works, its input and its output must both be
# in memory. The bars below are in the order in which the layers run.

# %%
kb = costs["kb_alive"]
print(
    f"Largest bar: {kb.max():.1f} kB. Sum: {kb.sum():.1f} kB, {kb.sum() / kb.max():.1f} times that."
)
TITLE = "How much memory do activations need at the same time?"
plots.bars(costs, x="layer", y="kb_alive", title=TITLE, xlabel="time →", fmt="{:.1f}")

# %% [markdown]
# At inference, later layers reuse the memory of earlier layers. So the **maximum** over
# the layers counts, not the sum. (In *training* the backward pass needs every layer's
# input, so the sum counts. A skip connection keeps its input in memory over several
# layers.) So pruning activations saves memory only in the layer with the highest bar.
# Every pruned weight saves storage. 0.9 uses this.

# %% [markdown]
# ### 0.2 The cost of a transformer layer
# **12 minutes · 2 points**
#
# $B$ sentences have $L$ tokens each, and a token is an embedding of $E$ numbers. One
# encoder layer computes:
#
# 1. **projections**: queries, keys, values, and the output: four $E\times E$ matrices,
#    each applied to all $B L$ tokens;
# 2. **attention**: $QK^\top$ compares each token with each token of its sentence, at
#    $E$ MACs per pair; the weighted sum of the values costs the same again;
# 3. **feed-forward network** (FFN): $E\to 4E$ and $4E\to E$, for every token.
#
# With `heads` heads the $E$ columns are cut into slices of $D=E/\text{heads}$. Each
# head compares all pairs within its slice, at $D$ MACs per pair. How do more heads
# change the count of item 2, and the number of attention **scores**, which go through
# the softmax?
#
# **What is tested**: each part and their sum; one head by default; as many heads as
# columns; `ValueError` if `heads` does not divide `E`.
#
# *Before you look:* BERT-base has $E=768$ and reads up to $L=512$ tokens. If the same
# layer used 32 heads instead of 1, by which factor would its *time* grow? (A number; 1
# = not at all.)

# %%
### BEGIN SOLUTION
prediction_0_2 = 1
### END SOLUTION


# %%
def transformer_macs(B: int, L: int, E: int, heads: int = 1) -> dict[str, int]:
    """Count the MACs of one transformer encoder layer with a feed-forward network of
    width 4E (no biases, norms or softmax).

    Write it yourself: not with ``course_lib.cost``.

    Args:
        B, L, E: batch, tokens per sentence, embedding size.
        heads: H, the number of attention heads; must divide E.

    Returns:
        dict with the keys projections, attention (both products), ffn, total (all in
        MACs), and scores, the number of attention scores that go through the softmax.

    Raises:
        ValueError: if an argument is below 1, or ``heads`` does not divide ``E``.

    >>> macs = transformer_macs(B=2, L=3, E=4)
    >>> macs["attention"], macs["scores"]  # 2 · 9 pairs of tokens
    (144, 18)
    """
    require(min(B, L, E, heads) >= 1, "B, L, E and heads must be at least 1")
    ### BEGIN SOLUTION
    require(E % heads == 0, f"heads must divide E; got {heads} heads and E = {E}")
    projections = 4 * B * L * E**2
    # each head computes QK^T and AV on slices of width D = E / H
    attention = 2 * heads * (B * L * L * (E // heads))
    ffn = 2 * (B * L * E * 4 * E)
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
# b = c = E.</details>
# <details><summary>Hint 2: the pairs</summary>Pairs are formed within a sentence. So
# there are B·L² of them, not (B·L)².</details>
# <details><summary>Hint 3: heads</summary>Write the attention term for one head of size
# E/heads, then multiply by the number of heads. Do the same for the scores. The number
# of heads cancels in only one of the two.</details>

# %% [markdown]
# #### Experiment: when does attention overtake the rest?
#
# The MACs of projections and FFN grow with $L$, the MACs of attention with $L^2$. Per
# token they are $12E^2$ and $2LE$, equal at $L=6E$.

# %%
at_512 = transformer_macs(1, 512, 768)
print(f"Attention at 512 tokens: {100 * at_512['attention'] / at_512['total']:.0f} % of the MACs.")
cost = lab00.macs_per_token(transformer_macs, 768, [2**k for k in range(4, 15)])
LOG = {"control": None, "xaxis": "log2", "log": True}
TITLE = "MACs per token of one layer, by number of tokens (E = 768)"
plots.curves(cost, x="tokens", y="million_macs_per_token", by="part", title=TITLE, **LOG)

# %% [markdown]
# Below a few thousand tokens nearly all work is in the matrices, so pruning weights or
# heads saves most. Far above, the number of tokens dominates: lab 10 prunes tokens.
#
# #### Experiment: are heads free?
#
# Your function counts as many MACs for 32 heads as for one. It is often said that
# multiple heads do not change the computational cost. Measure it with the same queries,
# keys and values, cut into more and more heads. One version computes attention step by
# step. The other is PyTorch's *fused* kernel (one routine for all steps), which
# computes the scores in small blocks and never stores them all.


# %%
cost = lab00.many_heads(transformer_macs, heads=(1, 2, 4, 8, 16, 32), L=256, E=256)
TITLE = "What grows with the number of heads?"
GUESS = (32, prediction_0_2)
plots.curves(cost, x="heads", y="times_one_head", by="what", title=TITLE, guess=GUESS, **LOG)

# %% [markdown]
# The claim holds for MACs, with $D=E/\text{heads}$. It does not hold for time. The
# softmax works on $B\cdot\text{heads}\cdot L^2$ scores, and each score is written to
# memory and read back. Thin slices also use the arithmetic units less well. The fused
# kernel avoids most of this memory traffic. **A MAC count is a simplified cost model:
# it ignores memory traffic, softmax and kernel launches.** (Each time is the fastest of
# 25 rounds.)

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
# are left out of both the count and the MACs with which it is compared.
#
# **What is tested**: linear layers and convolutions, whole batches, stride and padding
# (a linear layer ignores both); NaN, infinity and 1e-30 are non-zero, −0.0 is zero; counts
# above 2²⁴ are exact; arguments are not changed.
#
# *Before you look:* in a trained, pruned network, by how many per cent is the real
# count above $(1-p)(1-q)\cdot$MACs? (A number; negative = below.)

# %%
### BEGIN SOLUTION
prediction_0_3 = 5
### END SOLUTION


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
        NaN counts as non-zero; -0.0 counts as zero.

    Raises:
        ValueError: if the shapes do not fit together.

    >>> nonzero_macs(torch.ones(1, 1, 3, 3), torch.ones(1, 1, 2, 2), padding=1)  # not 36
    16
    """
    require(
        weight.ndim in (2, 4) and x.ndim == weight.ndim,
        "x must be (B, C, H, W) for a weight (M, C, R, S), and (B, d_in) for (d_out, d_in)",
    )
    require(x.shape[1] == weight.shape[1], f"x must have {weight.shape[1]} input channels")
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
# #### Experiment: how far from the expectation can it be?
#
# In a linear layer a share $p$ of the weights is zero, and the same share of the
# inputs. For each $p$ we draw three layouts at random and build two on purpose. In
# these, zero inputs meet exactly the zero weights (*aligned*), or as few of them as
# possible (*opposed*).

# %%
placed = lab00.placed_zeros(nonzero_macs, [p / 20 for p in range(20)])
POINTS = {"marks": "counted", "control": None, "xaxis": "sparsity"}
TITLE = "How many products remain, by placement of the zeros?"
plots.curves(placed, x="both_zero", y="products_left", by="zeros", title=TITLE, **POINTS)

# %% [markdown]
# Lines are formulas, marks are your function's counts. Now a real layer: `conv4` of the
# trained networks, with inputs from test images. Its smallest weights are set to zero
# (*magnitude pruning*). The baseline has as many zeros at *random* places of the same
# weights.


# %%
weights = [net.get_submodule("conv4").weight.detach() for net in nets]  # (M, C, 3, 3) per seed
batch_of = data.test.images[:64]
inputs = [lab00.layer_inputs(net, batch_of)["conv4"] for net in nets]  # (64, C, H, W) per seed
products = lab00.trained_and_random(
    weights,
    (0, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95),
    beyond=lambda seed, w: lab00.beyond(w, inputs[seed], nonzero_macs),
)
print(f"Zeros in the inputs (%): {[round(100 * float((x == 0).float().mean())) for x in inputs]}")
TITLE = "conv4: how many products are there beyond (1−p)(1−q)?"
GUESS = (None, prediction_0_3)
plots.curves(products, x="sparsity", y="beyond", title=TITLE, xaxis="sparsity", guess=GUESS)

# %% [markdown]
# The random baseline is not at 0. The zeros of the *input* are not spread evenly, and a
# pixel at the border takes part in fewer products than a pixel in the middle. Magnitude
# pruning of a trained layer deviates more, in the same direction for every network. So
# the size of a weight is related to how active its inputs are. The expectation is a
# reasonable first estimate. **If your hardware's speed depends on the count, count.**
# (ReLU makes about half of these activations zero, as the printed share shows.)
#
# {{claim 00.1}}

# %% [markdown]
# ## Part 2 · Storing zeros
#
# A pruned weight still takes 32 bits if it is stored as a zero. If it is not stored,
# you must store the positions of the other weights. The formats below differ in how
# they store these positions. A share $p$ of the $L$ elements is zero. The other
# elements are the *values*, of $n$ bits each. Dense storage takes $L\,n$ bits.
#
# One rule holds for all formats: **a zero is an element that equals zero**. So NaN and
# ±∞ are values, and `-0.0` is a zero (and is decoded as `+0.0`). A `-0.0` is common:
# `-0.3 * 0` *is* `-0.0`, so every multiplication with a mask of zeros and ones produces
# thousands.
#
# Not allowed in 0.4 – 0.7, because they solve the exercise: `Tensor.to_sparse*`,
# `torch.sparse_*_tensor`, `Tensor.to_dense`, `scipy.sparse`.
#
# **What is tested** in all four: any dtype (dtypes are kept) and shape, tensors that are
# not contiguous, all zeros, no elements (not in 0.7), −0.0, NaN, ±∞ and 1e-30; arguments
# are not changed.

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

    Raises:
        ValueError: if there are not as many values as True bits.

    >>> bitmap_decode(torch.eye(2).bool(), torch.tensor([5, 7])).tolist()
    [[5, 0], [0, 7]]
    """
    require(int(bitmap.sum()) == len(values), f"values must have {int(bitmap.sum())} entries")
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
# ### 0.5 Run lengths: count the zeros in between
# **30 minutes · 4 points**
#
# *Run-length encoding* (RLE) stores the number of zeros (the *run*) before each value.
# Each **pair** (run, value) means: *this many zeros, then this value*. A run is stored
# in a field of $k$ bits, so it lies between 0 and $2^k-1$. With $k=2$:
#
# | x | 0 0 5 | 0 0 0 0 | 0 7 | 0 |
# |---|---|---|---|---|
# | pair | (2, 5) | (3, 0) | (1, 7) | (0, 0) |
#
# - Before the 7 there are five zeros, but a run can be at most 3. So a **filler** pair
#   (3, 0) comes first: three zeros, then the value 0, four zeros in all. In general
#   $(2^k-1,\,0)$ stands for $2^k$ zeros.
# - At the end there may be $r>0$ zeros with no value after them. The last of these
#   zeros is written as the value: $(r-1,\,0)$. (Fillers come first, if $r>2^k$.)
# - A filler is a pair like any other. It takes $n+k$ bits.
#
# How many pairs do we expect for zeros at random places? Read the tensor pair by pair.
# A pair ends at the first non-zero, or at the $2^k$-th zero at the latest. For $j<2^k$,
# it is longer than $j$ elements if its first $j$ elements are zeros. The probability of
# this is $p^j$. So its mean length is $\sum_{j=0}^{2^k-1}p^j=\frac{1-p^{2^k}}{1-p}$,
# and
#
# $$\frac{\text{pairs}}{L}=\frac{1-p}{1-p^{2^k}},\qquad \text{bits}=\text{pairs}\cdot(n+k).$$
#
# **What is tested** also: exactly these pairs and no others; $k$ from 1 on; exactly
# $2^k$ zeros between values and at the end; bits of every pair, fillers included.


# %%
def rle_encode(x: Tensor, run_bits: int = 2) -> tuple[Tensor, Tensor, tuple[int, ...]]:
    """Encode x, read in row-major order, as run lengths.

    Write all three yourself: not with the sparse formats of torch or scipy, nor with
    ``course_lib.cost``.

    Returns:
        runs (int64, each from 0 to 2**run_bits - 1) and values (x's dtype), 1-D, one
        entry per pair; and x's shape as a tuple of ints.

    Raises:
        ValueError: if ``run_bits`` is below 1.

    >>> rle_encode(torch.tensor([0, 0, 5, 0, 0, 0, 0, 0, 7]))
    (tensor([2, 3, 1]), tensor([5, 0, 7]), (9,))
    """
    require(run_bits >= 1, f"run_bits must be at least 1, got {run_bits}")
    ### BEGIN SOLUTION
    full = 2**run_bits  # zeros in a filler pair
    flat = x.flatten()
    # -0.0 becomes +0.0: the last element may be written as a value
    flat = flat.masked_fill(flat == 0, 0)
    stops = (flat != 0).nonzero().flatten()  # where a pair ends: at every non-zero ...
    if len(flat) and flat[-1] == 0:
        stops = torch.cat([stops, stops.new_tensor([len(flat) - 1])])  # ... and at the end
    gaps = stops.diff(prepend=stops.new_tensor([-1])) - 1  # zeros before each stop
    fillers = gaps // full
    place = (fillers + 1).cumsum(0) - 1  # of each stop's own pair, after its fillers
    pairs = int((fillers + 1).sum())
    runs = torch.full((pairs,), full - 1)
    values = flat.new_zeros(pairs)
    runs[place] = gaps % full
    values[place] = flat[stops]
    return runs, values, tuple(x.shape)
    ### END SOLUTION


def rle_decode(runs: Tensor, values: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Decode to a tensor of this shape, with the dtype of ``values``.

    The pairs that you get fill the shape exactly.

    Raises:
        ValueError: if there are not as many runs as values.

    >>> rle_decode(torch.tensor([3, 0]), torch.tensor([0, 5]), (5,))  # 3 zeros and the value 0, 5
    tensor([0, 0, 0, 0, 5])
    """
    require(len(runs) == len(values), f"values must have {len(runs)} entries, got {len(values)}")
    ### BEGIN SOLUTION
    x = values.new_zeros(math.prod(shape))
    x[(runs + 1).cumsum(0) - 1] = values
    return x.view(shape)
    ### END SOLUTION


def rle_bits(x: Tensor, n: int = 32, run_bits: int = 2) -> int:
    """Count the bits of the encoding: n + run_bits per pair, fillers included.

    >>> rle_bits(torch.tensor([0, 0, 0, 0, 5]), n=8)  # 2 pairs of 8 + 2 bits; one is a filler
    20
    """
    ### BEGIN SOLUTION
    runs, _, _ = rle_encode(x, run_bits)
    return len(runs) * (n + run_bits)
    ### END SOLUTION


# %%
check("0.5")

# %% [markdown]
# <details><summary>Hint 1: a loop will do</summary>Walk through
# <code>x.flatten().tolist()</code> with a counter of zeros. Three things can happen: a
# non-zero comes; a zero comes and the counter is already full; the end comes. The
# grader's inputs are small enough for a loop.</details>
# <details><summary>Hint 2: the full counter</summary>The filler's own value is a zero
# of the tensor. So if the counter is 2^k − 1 and one more zero comes, that zero is the
# filler's value, and the counter starts again at 0. Try exactly 2^k zeros before a
# value, and exactly 2^k zeros at the end.</details>
# <details><summary>Hint 3: without a loop over elements</summary>Take the positions of
# the non-zeros (and the last position, if a zero is there). Divide the gaps between
# neighbours by 2^k: the quotient is the number of fillers, the remainder is the
# run. <code>cumsum</code> gives the place of each pair.</details>
# <details><summary>Hint 4: decode</summary>Pair i ends at element
# (run₀ + 1) + … + (runᵢ + 1) − 1.</details>

# %% [markdown]
# #### Experiment: pairs per element, formula and measurement

# %%
runs = lab00.run_lengths(rle_encode, weights, widths=(1, 2, 3, 5))
TITLE = "How many pairs per element are needed, by bits per run?"
plots.curves(runs, x="sparsity", y="pairs_per_element", by="run", title=TITLE, **POINTS)

# %% [markdown]
# The marks (trained `conv4`, magnitude pruning, mean over the networks) lie close to
# the lines (formula). The next figure shows the deviation from the formula, with random
# zeros as the baseline. The table shows how many 3×3 kernels are *empty* (contain only
# zeros).

# %%
pairs = lab00.trained_and_random(
    weights,
    lab00.SPARSITIES,
    more_pairs=lambda seed, w: lab00.pairs_beyond(w, rle_encode, k=4),
    empty=lambda seed, w: lab00.empty_kernels(w),
)
TITLE = "conv4: how many pairs are there beyond the formula for k = 4?"
plots.show(plots.curves(pairs, x="sparsity", y="more_pairs", title=TITLE, xaxis="sparsity"))
tables.means(pairs.query("sparsity == 0.9"), {"empty": "empty 3×3 kernels at 90 % (%)"})

# %% [markdown]
# The random baseline lies on the formula, which confirms the derivation. The trained
# layer needs a few per cent more pairs, because whole kernels are pruned together.
# Clusters of zeros do not *help* RLE. A run that does not fit into the field needs
# fillers of $n+k$ bits each. The remaining values are close together and spend $k$ bits
# each on short runs.
#
# {{claim 00.2}}
#
# In the literature the field is wider than our $k=2$. Eyeriss stores activations with
# 5-bit runs and 16-bit values ([Chen et al.
# 2017](https://doi.org/10.1109/JSSC.2016.2616357)). Deep Compression ([Han et al.
# 2016](https://arxiv.org/abs/1510.00149)) stores weights with runs of 8 bits in
# convolutions and 5 bits in fully connected layers, with fillers as here. With $k=2$,
# at least 3 bits per value, and zeros at random places, RLE is *never* smaller than the
# bitmap: compare the two formulas.

# %% [markdown]
# ### 0.6 Coordinates: write the address
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

    Raises:
        ValueError: if there are not as many positions as values, or a position lies
            outside the shape.

    >>> coo_decode(torch.tensor([2]), torch.tensor([7]), (2, 2)).tolist()
    [[0, 0], [7, 0]]
    """
    length = math.prod(shape)
    require(len(index) == len(values), f"values must have {len(index)} entries, got {len(values)}")
    require(bool(((index >= 0) & (index < length)).all()), f"index must lie in 0 … {length - 1}")
    ### BEGIN SOLUTION
    x = values.new_zeros(length)
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
check("0.6")

# %% [markdown]
# <details><summary>Hint 1: positions</summary><code>nonzero()</code> of a 1-D tensor
# gives a column of positions: flatten it.</details>
# <details><summary>Hint 2: check the width</summary>L = 1, 2, 3, 4, 5 need 0, 1, 2, 2,
# 3 bits.</details>

# %% [markdown]
# ### 0.7 CSR: row by row
# **24 minutes · 2 points**
#
# COO stores the row again for every value in that row. *Compressed sparse row* (CSR)
# stores three arrays for a matrix of $R$ rows and $C$ columns: the values row by row,
# the **column** of each value, and per row the number of values *before* this row. An
# example:
#
# $$\begin{pmatrix} 10 & 20 & 0 & 0 & 0 & 0 \\ 0 & 30 & 0 & 40 & 0 & 0 \\ 0 & 0 & 50 & 60 & 70 & 0 \\ 0 & 0 & 0 & 0 & 0 & 80 \end{pmatrix}
# \quad\begin{aligned}v&=[10\;20\;30\;40\;50\;60\;70\;80]\\ \text{COL\_INDEX}&=[0\;1\;1\;3\;2\;3\;4\;5]\\ \text{ROW\_INDEX}&=[0\;2\;4\;7\;8]\end{aligned}$$
#
# The values of row $i$ are `v[ROW_INDEX[i]:ROW_INDEX[i+1]]`. So ROW_INDEX has $R+1$
# cumulative entries, from 0 to the number of values. For an empty row, two neighbouring
# entries are equal. The width of an entry follows from the number of its possible
# values. A column is one of $C$ numbers. An entry of ROW_INDEX is one of
# $\mathit{nnz}+1$ counts ($\mathit{nnz}$ is the *number of non-zeros*):
#
# $$\text{bits}=\mathit{nnz}\,\big(n+\lceil\log_2 C\rceil\big)+(R+1)\,\lceil\log_2(\mathit{nnz}+1)\rceil$$
#
# **What is tested** also: the matrix above; empty rows and columns; the last row and
# column; 0 bits for a matrix of zeros.


# %%
def csr_encode(x2d: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Encode a matrix (R, C) as three 1-D tensors (v, COL_INDEX, ROW_INDEX).

    v: values row by row. COL_INDEX: column of each, int64. ROW_INDEX: R + 1 counts, int64.

    Write all three yourself: not with the sparse formats of torch or scipy, nor with
    ``course_lib.cost``.

    Raises:
        ValueError: if ``x2d`` is not two-dimensional.

    >>> csr_encode(torch.tensor([[0, 5], [7, 0]]))
    (tensor([5, 7]), tensor([1, 0]), tensor([0, 1, 2]))
    """
    require(x2d.ndim == 2, f"x2d must have 2 dimensions, got {x2d.ndim}")
    ### BEGIN SOLUTION
    rows, columns = (x2d != 0).nonzero(as_tuple=True)  # in row-major order
    per_row = (x2d != 0).sum(1)  # (R,)
    return x2d[rows, columns], columns, torch.cat([per_row.new_zeros(1), per_row.cumsum(0)])
    ### END SOLUTION


def csr_decode(v: Tensor, COL_INDEX: Tensor, ROW_INDEX: Tensor, shape: tuple[int, int]) -> Tensor:
    """Decode to the (R, C) matrix, with the dtype of ``v``.

    Raises:
        ValueError: if the arrays do not fit together, or do not fit the shape.

    >>> csr_decode(torch.tensor([5]), torch.tensor([1]), torch.tensor([0, 0, 1]), (2, 2)).tolist()
    [[0, 0], [0, 5]]
    """
    R, C = shape
    require(
        len(ROW_INDEX) == R + 1 and ROW_INDEX[0] == 0,
        f"ROW_INDEX must have {R + 1} counts, the first 0",
    )
    require(
        ROW_INDEX[-1] == len(v) == len(COL_INDEX),
        "v and COL_INDEX must have as many entries as the last count of ROW_INDEX",
    )
    require(bool(((COL_INDEX >= 0) & (COL_INDEX < C)).all()), f"COL_INDEX must lie in 0 … {C - 1}")
    ### BEGIN SOLUTION
    x = v.new_zeros(R, C)
    x[torch.arange(R).repeat_interleave(ROW_INDEX.diff()), COL_INDEX] = v
    return x
    ### END SOLUTION


def csr_bits(x2d: Tensor, n: int = 32) -> int:
    """Count the bits of the CSR encoding: a value and a column per non-zero, and R + 1
    counts between 0 and nnz.

    Raises:
        ValueError: if ``x2d`` is not two-dimensional.

    >>> csr_bits(torch.tensor([[0, 5, 0], [7, 0, 0]]), n=8)  # 2 · (8 + 2) + 3 · 2
    26
    """
    require(x2d.ndim == 2, f"x2d must have 2 dimensions, got {x2d.ndim}")
    ### BEGIN SOLUTION
    R, C = x2d.shape
    nnz = int((x2d != 0).sum())
    return nnz * (n + (C - 1).bit_length()) + (R + 1) * nnz.bit_length()
    ### END SOLUTION


# %%
check("0.7")

# %% [markdown]
# <details><summary>Hint 1: ROW_INDEX</summary>First count the non-zeros in each row.
# "How many before row i" is a running sum of these counts. It begins with 0.</details>
# <details><summary>Hint 2: back again</summary>The differences of ROW_INDEX are the
# counts per row.
# <code>repeat_interleave</code> turns counts into "row of each value".</details>
# <details><summary>Hint 3: widths</summary>⌈log₂(m + 1)⌉ of an int m ≥ 0 is
# <code>m.bit_length()</code>. Which m is it for a column, and which for a
# count?</details>

# %% [markdown]
# ## Part 3 · Does a zero pay?
#
# ### 0.8 Two answers from your own run
# **40 minutes · 1 point · needs 0.3, 0.4, 0.5, 0.6, 0.7**
#
# First come three experiments, then two questions.
#
# **What is tested**: the letters of **a** and **b**.
#
# #### Experiment 1: a real layer in every format
#
# We set the smallest weights of `conv4` to zero; values have 32 bits. For CSR each
# filter is one row of a matrix with $M$ rows and $C\cdot R\cdot S$ columns.


# %%
matrix = lab00.pruned(weights[0], 0.9).flatten(1)  # (M, C·R·S)
decoded = {
    "bitmap (0.4)": bitmap_decode(*bitmap_encode(matrix)),
    "RLE (0.5)": rle_decode(*rle_encode(matrix)),
    "COO (0.6)": coo_decode(*coo_encode(matrix)),
    "CSR (0.7)": csr_decode(*csr_encode(matrix), matrix.shape),
}
print("Is the decoded layer equal?", {name: torch.equal(x, matrix) for name, x in decoded.items()})

# %%
formats = {
    "bitmap": bitmap_bits,
    "RLE k=2": lambda x: rle_bits(x, run_bits=2),
    "RLE k=5": lambda x: rle_bits(x, run_bits=5),
    "COO": coo_bits,
    "CSR": lambda x: csr_bits(x.flatten(1)),
}
sizes = lab00.sizes(formats, weights)
BITS = {"x": "sparsity", "y": "bits_per_weight", "by": "format", **POINTS}
plots.curves(sizes, title="conv4: bits per weight, by format", **BITS)

# %% [markdown]
# From which sparsity on is each format smaller than dense storage?

# %%
in_bits = lab00.smaller_from(formats, weights[0])
tables.plain(in_bits)

# %% [markdown]
# The formulas for bitmap, COO and CSR are exact, since they depend only on the *number*
# of zeros. At 32 bits the values dominate, so all curves look similar. The formats
# differ in the **bookkeeping**: all bits that are not bits of a kept value. The next
# figure shows it on a log scale, with a lower limit, the *entropy floor*. No code can
# store randomly placed zeros in fewer bits per place than the entropy
# $-p\log_2 p-(1-p)\log_2(1-p)$ ([Shannon
# 1948](https://doi.org/10.1002/j.1538-7305.1948.tb01338.x)).

# %%
TITLE = "conv4: how many bits store the positions of the values?"
fig = plots.curves(lab00.bookkeeping(sizes), title=TITLE, log=True, ylim=(0.05, 20), **BITS)
fig.axes[0].set_xticks([p / 10 for p in range(11)])
fig.axes[0].set_xticks([p / 100 for p in range(80, 100)], minor=True)  # where lines are steep
fig.axes[0].grid(visible=True, axis="x", which="minor", alpha=0.4)
plots.show(fig)

# %% [markdown]
# A common rule of thumb is *bitmap for low and moderate sparsity, run lengths for
# moderate, CSR for high, COO for extremely high*. Your figure agrees, with two
# corrections. Run lengths need a field that suits the sparsity. COO is smaller than CSR
# only where hardly more values remain than there are rows. The trained layer's run
# lengths (marks) lie above the formula, with $k=2$ from about 50 % on, with $k=5$
# around 90 %, because of the clusters of 0.5. Entropy coding can save the bits above
# the floor. Deep Compression ends with a Huffman code for this reason.
#
# Find where the curves cross for other value widths, sizes and run fields. (Tab goes to
# a slider, arrow keys move it by one step.)


# %%
plots.explore(lab00.explore, sparsity=(0, 99), bits=(1, 32), log2_size=(4, 24), k=(1, 10))

# %% [markdown]
# #### Experiment 2: what does encoding cost?
#
# Weights are encoded once, before the network is used. **Activations** are new for
# every input, so they must be encoded *online*, while the user waits. We encode the
# input of `conv4` for 64 images with your functions. We compare with the time of the
# layer itself, and of the library's bitmap, which is written for speed. The last bar is
# the time to *create* more zeros by keeping only the largest tenth.


# %%
x, layer = inputs[0], nets[0].get_submodule("conv4")
calls = {
    "conv4\nitself": lambda: layer(x),
    "x ≠ 0": lambda: x != 0,
    "bitmap": lambda: bitmap_encode(x),
    "bitmap\n(library)": lambda: encodings.bitmap_encode(x),
    "RLE k=5": lambda: rle_encode(x, 5),
    "COO": lambda: coo_encode(x),
    "CSR": lambda: csr_encode(x.flatten(1)),
    "keep\ntop 10 %": lambda: x.flatten().topk(x.numel() // 10),
}
TITLE = "How long does it take to encode the input of conv4 for 64 images?"
plots.bars(lab00.timed(calls), x="call", y="ms", title=TITLE, fmt="{:.2g}", log=True)

# %% [markdown]
# How many bits does the encoded input take, as a share of the dense bits?

# %%
print({name: round(bits(x) / (32 * x.numel()), 2) for name, bits in formats.items()})

# %% [markdown]
# With half of the activations zero, a bitmap halves the bits that must be moved. But
# encoding takes time. Where this lab was written, the two lines of PyTorch took most of
# the time of the layer itself. The library's tuned version took a fifth of it or less.
# Choosing the largest tenth took longer than the layer. (Compare with your bars.) An
# accelerator compares in hardware, next to the data path. There run lengths for
# activations pay (Eyeriss). On an ordinary processor the sparse kernel must first save
# the time that the encoding took. Experiment 3 tests whether it can.
#
# #### Experiment 3: kernels, on this machine
#
# By MACs alone, 90 % zeros would make a layer ten times faster. We measure the product
# of 1024 × 1024 weights, with zeros at random places, and one input vector. The
# candidates are: the dense product; CSR in PyTorch and in scipy; scipy's COO; your
# bitmap, unpacked before a dense product; and **whole rows** removed (lab 04), which
# leaves a smaller dense matrix. NumPy's dense product is drawn for comparison. (All use
# one core.)
#
# Memory traffic gives another prediction. Real CSR does not use $\lceil\log_2 C\rceil$
# bits for a column: PyTorch's indices have 64 bits, scipy's 32. If time depended only
# on the bytes moved, CSR would pay where $(1-p)(32+\text{index bits})<32$: from 67 % on
# (PyTorch) and 50 % on (scipy).
#
# *Before you look:* from which sparsity on is CSR in PyTorch faster than the dense
# product here? (A fraction, such as 0.5.)

# %%
### BEGIN SOLUTION
prediction_0_8_kernels = 0.7
### END SOLUTION


# %%
levels = (0, 0.3, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99)
one_vector = lab00.one_vector(csr_encode, bitmap_encode, bitmap_decode, levels, size=1024)
SPEED = {"x": "sparsity", "y": "faster", "xaxis": "sparsity", "log": True}
TITLE = "1024 × 1024 weights times one vector: which kernel is faster than dense?"
plots.curves(one_vector, title=TITLE, control=None, guess=(prediction_0_8_kernels, 1), **SPEED)

# %% [markdown]
# With one vector, every weight is used for a single product. A convolution uses each
# weight for many positions of the picture, so each index is read once for many
# products. So we also measure the trained `conv4` as a matrix product: $M$ rows and
# $C R S$ columns, times all patches of 64 images. The baseline "random" is PyTorch's
# CSR with as many zeros at random places.

# %%
convolution = lab00.convolution(weights[:3], inputs[:3], csr_encode, levels)
plots.curves(convolution, title="conv4 on 64 images: which kernel is faster than dense?", **SPEED)

# %%
say("From which sparsity on do zeros save memory or time?")
tables.plain(lab00.when_a_zero_pays(in_bits, one_vector, convolution))

# %% [markdown]
# Read the table from left to right. The same zeros pay at once in MACs, at higher
# sparsity in bits, at still higher sparsity in time, and never in time where a format
# must be unpacked first. A dense kernel loads neighbouring weights together and
# multiplies eight or sixteen of them at once. A sparse kernel follows every index.
# Counting bytes explains a part of the difference, best where the weights come from
# memory. A layer that fits into the cache, as here, favours the dense kernel further.
# Using each weight many times need not lower the crossing (compare the last two
# columns), since the dense product gains, too. No sparse kernel reaches the line "by
# MACs". *Which* weights are zero makes no difference to a sparse kernel (the random
# baseline lies on the curve of magnitude). Only **whole rows** of zeros are different:
# they pay at once, close to the MACs. This is the argument for structured pruning, lab
# 04.
#
# The literature agrees. [Gale et al. (2020)](https://arxiv.org/abs/2006.10901) write
# about GPUs that the moderate sparsity of neural networks is "not sufficient for
# existing sparse kernels to outperform their dense counterparts". With kernels written
# for this purpose, they make whole networks 1.2 to 2.1 times faster. Check that a
# comparison does not use a slow dense product. Against a faster dense product (perhaps
# NumPy's, or two cores) every crossing moves to the right.
#
# #### The two questions
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
# **b.** Differences of this lab, with their 95 % intervals, on both kinds of data:
#
# {{difference 00.1}}
# {{difference 00.2}}
#
# Which of these sentences do the intervals permit?
#
# - **A.** On CIFAR-10 the first difference may be 0.
# - **B.** On each of the three data sets, zeros by magnitude need more pairs than
#   random zeros.
# - **C.** On MNIST the first difference is larger than on the digits.
# - **D.** In every trained layer, magnitude leaves clustered zeros.

# %%
### BEGIN SOLUTION
answer_0_8a = "C"  # w = (1, 0) with x = (0, 1) refutes a lower bound, with x = (1, 0) an upper one
answer_0_8b = "B"
### END SOLUTION

# %%
check("0.8")

# %% [markdown]
# <details><summary>Hint for a</summary>Two of the five can be refuted with a layer of
# one output and two inputs, as in 0.3.</details>
# <details><summary>Hint for b</summary>Which intervals contain 0? What can you not
# conclude from an interval that contains 0, or from one run?</details>

# %% [markdown]
# ## Part 4 · Two more values
#
# ### 0.9 A device to buy, and what weights cannot save
# **12 minutes · 1 point · needs 0.1, 0.2**
#
# **a. A device to buy.** A camera runs the convolutions below one after the other, with
# batch 1 and 16-bit activations. Each input is discarded as soon as its layer is done.
# How many **bits** of memory must the device have *for activations* (inputs and
# outputs, no weights)?
#
# **b. What weights cannot save.** You prune 90 % of all weights of a BERT-base layer
# ($E=768$, projections and FFN) and your hardware skips every product with a pruned
# weight. Sentences are $L=512$ tokens long. How many times fewer MACs does the
# layer then compute? (Dense MACs divided by remaining MACs, with two decimals.)
#
# Compute with your functions in a new cell, then type the results as plain numbers.
#
# **What is tested**: **a** exactly, **b** within 0.05.

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
# a: the largest input + output of the five layers, not their sum (and not the largest
# tensor)
answer_0_9a = 2359296
# b: attention has no weights: a tenth of projections and FFN remains, and all of
# attention
answer_0_9b = 5.26
### END SOLUTION

# %%
check("0.9")

# %% [markdown]
# <details><summary>Hint 1 for a</summary>Which tensors are in memory while layer i
# works? Which of them are still there while layer i + 1 works?</details>
# <details><summary>Hint 2 for a</summary><code>conv_cost(*layer, bits=16)</code> gives
# both terms. How do you combine five numbers into one? Look at the
# second figure of this lab.</details>
# <details><summary>Hint for b</summary>What are the two factors of each
# product?</details>

# %% [markdown]
# Ten times fewer weights are not ten times fewer MACs: attention multiplies activations
# with activations, and no pruned weight changes that. The longer the text, the larger
# the share of attention. At $L=6E$ it is half of all MACs. Even a network without any
# weights would keep this half.

# %% [markdown]
# #### Real data: larger pictures
#
# The library was used to train and count the same network on MNIST (28×28) and on
# CIFAR-10 (32×32, in colour) (`course remake lab00_counting_mnist`,
# `lab00_counting_cifar10`). Before you look: which of the numbers below depend on the
# *pictures*, and which on the *trained weights*?

# %%
layers = lab00.on_larger_images("layers")
plots.bars(layers, x="layer", y="kb_alive", by="images", title="Memory, one image", fmt="{:.0f}")

# %%
tables.means(lab00.on_larger_images("networks"), ["test", "zeros_in"], rows="images")

# %%
at_90 = lab00.on_larger_images("conv4").query("sparsity == 0.9")  # conv4 with 90 % zeros
tables.means(at_90, ["beyond", "more_pairs", "empty"], rows=["images", "method"])

# %% [markdown]
# The costs depend on the *pictures*: MACs and memory grow with the pixels. (The network
# halves larger pictures once more. So the largest bar moves to `conv1`, whose output is
# the last in full size.) Two findings about the trained *weights* are not special to
# the digits. On all three sets the kept weights meet fewer non-zero inputs than
# randomly chosen weights. Also, zeros cluster, on CIFAR-10 most of all, so RLE needs
# more fillers there. Bitmap, COO and CSR do not change, since they depend only on the
# number of zeros.

# %% [markdown]
# ### 0.10 CSC: column by column
# **8 minutes · 1 point · needs 0.7 · optional**
#
# *Compressed sparse column* (CSC) exchanges rows and columns. It stores the values
# column by column, the **row** of each value, and a COL_POINTER of $C+1$ cumulative
# counts. A product $\boldsymbol w\boldsymbol x$ with a sparse *input* reads only the columns where
# $\boldsymbol x$ is not zero, so accelerators such as EIE store the weights in CSC
# ([Han et al. 2016](https://arxiv.org/abs/1602.01528)).
#
# **What is tested** also: empty rows and columns; the last row and column; any dtype.


# %%
def csc_encode(x2d: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Encode a matrix (R, C) as three 1-D tensors (v, ROW_INDEX, COL_POINTER).

    v: values column by column. ROW_INDEX: row of each, int64. COL_POINTER: C + 1, int64.

    Raises:
        ValueError: if ``x2d`` is not two-dimensional.

    >>> csc_encode(torch.tensor([[0, 5, 0], [7, 0, 0]]))
    (tensor([7, 5]), tensor([1, 0]), tensor([0, 1, 2, 2]))
    """
    require(x2d.ndim == 2, f"x2d must have 2 dimensions, got {x2d.ndim}")
    ### BEGIN SOLUTION
    return csr_encode(x2d.T)
    ### END SOLUTION


def csc_decode(v: Tensor, ROW_INDEX: Tensor, COL_POINTER: Tensor, shape: tuple[int, int]) -> Tensor:
    """Decode to the (R, C) matrix, with the dtype of ``v``; ``shape`` is (R, C).

    The arrays that you get fit together and fit the shape.

    >>> v, row, pointer = torch.tensor([7]), torch.tensor([1]), torch.tensor([0, 0, 0, 1])
    >>> csc_decode(v, row, pointer, (2, 3)).tolist()
    [[0, 0, 0], [0, 0, 7]]
    """
    ### BEGIN SOLUTION
    R, C = shape
    return csr_decode(v, ROW_INDEX, COL_POINTER, (C, R)).T.contiguous()
    ### END SOLUTION


# %%
check("0.10")

# %% [markdown]
# <details><summary>Hint: the transpose</summary>The columns of x are the rows of its
# transpose. For decoding, check which shape you pass and which you
# return.</details>

# %% [markdown]
# ## The ledger
#
# Every lab continues one table with the results of its methods on the same small
# network. Half of your report in lab 11 comes from this table. Today's row is the
# network before pruning: bits of the whole model (with biases and batch norm), MACs for
# one image, milliseconds for 64 images on one core of this machine, and test accuracy
# over the seeds, with its 95 % interval.

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
# - A zero saves MACs at once, bits at higher sparsity, and milliseconds at much higher
#   sparsity or never, unless zeros come in shapes that a dense kernel can leave out.
#
# ### Five questions to recap
#
# 1. Which layers of a convolutional network have the most MACs, which the most weights?
#    <details><summary>Answer</summary>MACs: layers with large maps. Weights: late, wide
#    layers.</details>
# 2. Why do 32 heads take more time than one, with as many MACs?
#    <details><summary>Answer</summary>They have 32 times as many scores, which must be
#    written and read.</details>
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
# 2. **Runs depend on the order.** Encode `conv4` with its dimensions permuted
#    (`weight.permute(...)`) before `rle_bits`. Which order gives the fewest pairs at
#    90 %, and why?
# 3. **A field for every sparsity.** Find the best $k$ for each sparsity by formula, and
#    add "RLE, best k" to the bookkeeping figure. How close is it to the entropy floor?
# 4. **When bytes decide.** Set `size=4096` (and fewer `repeats`), so that the weights
#    come from memory. Do the measured crossings move towards "by bytes moved"? Does
#    PyTorch's CSR gain from int32 indices (`row.int()`, `column.int()`)?
# 5. **A GPU.** Move matrix and vector to `cuda` in Experiment 3 (`latency` waits for the
#    device). In which direction does each crossing move? And with 64 input vectors?
# 6. **Read**: Sze et al. 2017, [Efficient Processing of Deep Neural
#    Networks](https://arxiv.org/abs/1703.09039) (counting, dataflows); Hoefler et al.
#    2021, [Sparsity in Deep Learning](https://arxiv.org/abs/2102.00554); and the papers
#    linked above.
