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
# # Lab 12 · A language model, pruned without training
#
# **A language model costs more to train than you can pay. Which of its layers and weights can be
# removed without any training, and what do the kept weights have to do with it?**
#
# In labs 01 to 11 pruning was followed by training. A model of billions of weights is seldom
# trained again by those who use it: they have the weights and a few texts. So a method may look
# at what passes through a layer, and solve for the weights that are kept.
#
# **Prerequisites.** Lab 02 (2.3 Wanda, 2.4 one step of Optimal Brain Surgeon), lab 00 (bits per
# weight), lab 05 (N:M); the cross-entropy of a language model. Three facts of linear algebra:
#
# - *Least squares.* Inputs $x_1, \dots, x_T$ and one row $w$: the row $v$ that minimises
#   $\sum_t (v^\top x_t - w^\top x_t)^2 = (v - w)^\top H\,(v - w)$, $H = \sum_t x_t x_t^\top$.
# - *Elimination.* If $H^{-1}$ is known, the inverse of $H$ without row and column $j$ is
#   $H^{-1} - H^{-1}e_j\,e_j^\top H^{-1} / [H^{-1}]_{jj}$, without row and column $j$.
# - *Cholesky.* A positive definite matrix is $U^\top U$, $U$ upper triangular. For $H^{-1}$, row
#   $i$ of $U$ has what is needed of the inverse once the columns before $i$ are eliminated.
#
# Symbols, terms and the meaning of ±: [one page for all labs](../docs/notation.md).
#
# **After this lab you can**
#
# - measure a language model by perplexity, and say what perplexity hides,
# - choose layers to remove by their influence, and test the choice,
# - prune a decoder layer by layer with Wanda,
# - derive SparseGPT and GPTQ from one row of Optimal Brain Surgeon, and write both as one loop,
# - compare sparse and quantised weights at equal bits.
#
# | part | you write | question |
# |---|---|---|
# | A · Layers | 12.1 perplexity, 12.2 influence | which layers does a language model need? |
# | B · Weights | 12.3 Wanda, layer by layer, 12.4 one row, 12.5 the column loop | which weights, and what do the kept ones repair? |
# | C · Bits | 12.6 the same loop rounds, 12.7 two short answers | zeros or fewer bits? |
#
# 20 points; about 4 hours. `check("12.1")` after each exercise shows what is right. If you are
# stuck, write `skip("12.1")` in a cell: that question scores 0, and the lab continues with the
# course's version. Write every function yourself, without `course_lib.pruning` (but with the
# given `prune_lowest`).

# %%
from course_lib.grading import check, skip  # noqa: F401  (skip is yours to use)

# isort: split
import math
from collections.abc import Iterable, Sequence

import numpy as np  # noqa: F401  (yours to use)
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from course_lib.pruning.weights import prune_lowest

# %% [markdown]
# ## Part A · Layers
#
# ### 12.1 Perplexity
# **10 minutes · 2 points**
#
# A language model predicts each token from those before it. Its *perplexity* on a text is
#
# $$\exp\Big(\tfrac1T \sum_t -\ln p(x_t \mid x_{<t})\Big) ,$$
#
# where $T$ counts the predicted tokens of the **whole** text. A model that chooses evenly among 37
# tokens has perplexity 37. The text is cut into windows. Three mistakes raise no error:
#
# - The logits at place $t$ predict the token at $t + 1$. The first token of a window is not
#   predicted.
# - Padding is not text. A token counts if it *and* the token before it are real.
# - Windows differ in length. The mean of their means weights a short window as much as a long one.
#
# **What is tested**: places and tokens; padding on either side; windows and batches of different
# lengths; logits of any dtype (make them float64 first); batches that can be read only once; the
# arguments do not change.


# %%
def perplexity(batches: Iterable[tuple[Tensor, Tensor, Tensor]]) -> float:
    """Compute the perplexity of a text, given as batches of windows.

    Args:
        batches: (logits, ids, mask) each: logits (B, L, V), of which place t predicts token
            t + 1; ids (B, L), the tokens; mask bool (B, L), True = a token, False = padding. They
            may come from a generator, so one loop has to do.

    Returns:
        exp(Σ −ln p / T) over the T predicted tokens of all batches together.

    >>> round(perplexity([(torch.zeros(1, 3, 5), torch.ones(1, 3).long(), torch.ones(1, 3) > 0)]), 4)
    5.0
    """
    ### BEGIN SOLUTION
    total, tokens = 0.0, 0
    for logits, ids, mask in batches:
        log_p = logits[:, :-1].double().log_softmax(-1)  # (B, L − 1, V)
        nll = -log_p.gather(-1, ids[:, 1:, None])[..., 0]  # (B, L − 1)
        counted = mask[:, 1:] & mask[:, :-1]
        total += float(nll[counted].sum())
        tokens += int(counted.sum())
    return math.exp(total / tokens)
    ### END SOLUTION


# %%
check("12.1")

# %% [markdown]
# <details><summary>Hint 1: which place predicts which token?</summary>Drop the last place of the
# logits and the first of the tokens: <code>logits[:, :-1]</code>, <code>ids[:, 1:]</code>.</details>
# <details><summary>Hint 2: one number per token</summary><code>log_softmax(-1)</code>, then
# <code>gather(-1, ids[:, 1:, None])</code>.</details>
# <details><summary>Hint 3: the whole text</summary>Add up two numbers over all batches, and divide
# once.</details>

# %% [markdown]
# ### 12.2 Influence
# **15 minutes · 3 points**
#
# A layer adds to its input: $y = x + f(x)$. If $y$ points nearly where $x$ points, the layers after
# it see nearly the same without it. Men et al. ([2024](https://arxiv.org/abs/2403.03853), *ShortGPT*)
# call
#
# $$\text{influence} = 1 - \mathbb E\,\cos(x, y)$$
#
# the mean over tokens, of the cosine between a layer's input and its output.
#
# Beware: the *last hidden state* that a library returns is the one **after** the model's final norm.
# It is not what the last layer puts out. The given states are read at the layers.
#
# **What is tested**: each layer's own input and output; the mean over real tokens only; also for
# float16 (compute in float64); the arguments do not change.


# %%
def influence(states: Sequence[Tensor], mask: Tensor) -> Tensor:
    """Compute 1 − cos(x, y) of the input x and the output y of every layer.

    Args:
        states: layers + 1 tensors (B, L, E): the input of layer 1, the output of layer 1 (which
            is the input of layer 2), …, the output of the last layer.
        mask: bool (B, L), True = a token, False = padding.

    Returns:
        (layers,), float64: the mean over all real tokens.

    >>> states = [torch.tensor([[[1.0, 0.0]]]), torch.tensor([[[2.0, 0.0]]]), torch.tensor([[[0.0, 1.0]]])]
    >>> influence(states, torch.ones(1, 1).bool())
    tensor([0., 1.], dtype=torch.float64)
    """
    ### BEGIN SOLUTION
    rows = [state[mask].double() for state in states]  # (tokens, E) each
    pairs = zip(rows, rows[1:], strict=False)
    return torch.stack([1 - F.cosine_similarity(x, y).mean() for x, y in pairs])
    ### END SOLUTION


# %%
check("12.2")

# %% [markdown]
# <details><summary>Hint 1: real tokens</summary><code>state[mask]</code> is (tokens, E).</details>
# <details><summary>Hint 2: the order</summary>The cosine of each token first, then the mean. The
# cosine of mean vectors is another number.</details>

# %% [markdown]
# ## Part B · Weights
#
# ### 12.3 Wanda, layer by layer
# **25 minutes · 4 points**
#
# In lab 02 Wanda scored a weight by $|w_{ij}|\,\lVert x_j\rVert$: its size times the norm of the
# input that it multiplies, and pruned the same share of every output. Sun et al.
# ([2023](https://arxiv.org/abs/2306.11695)) apply this to a language model *in the order of its
# layers*. The norms of a layer are those of the inputs that the layers before it pass on **after
# they were pruned**. So a batch of texts passes through each layer twice: once to see the inputs of
# its matrices, and once, when they are pruned, to make the next layer's input. Only one layer's
# inputs are in memory.
#
# Inside a layer, all matrices are scored from the same pass, before any of them is pruned.
#
# **What is tested**: the masks of every layer; per output, `round(sparsity · inputs)` weights; ties
# by `prune_lowest`; what the next layer gets; layers with several `nn.Linear` of different sizes,
# also inside submodules; biases and other parameters unchanged; no hook left behind.


# %%
def wanda_walk(layers: Sequence[nn.Module], x: Tensor, sparsity: float) -> Tensor:
    """Prune all ``nn.Linear`` of the layers in place, one layer after the other.

    Args:
        layers: each maps (B, L, E) to (B, L, E). The weights (outputs, inputs) of the
            ``nn.Linear`` inside (``layer.modules()``) are pruned; nothing else changes.
        x: (B, L, E), the input of the first layer; no padding.
        sparsity: of every output of every matrix, the round(sparsity · inputs) weights with the
            smallest |w_ij| · ‖x_j‖₂ become 0; x_j are all values of input j in this layer's pass.

    Returns:
        What the last layer puts out, with all layers pruned: (B, L, E). No hook is left.

    >>> layer = nn.Linear(2, 2, bias=False)
    >>> layer.weight.data = torch.tensor([[3.0, 1.0], [1.0, 1.0]])
    >>> wanda_walk([layer], torch.tensor([[[1.0, 2.0]]]), sparsity=0.5)
    tensor([[[3., 2.]]])
    """
    ### BEGIN SOLUTION

    @torch.no_grad()
    def squares_of(layer: nn.Module, x: Tensor) -> dict[nn.Linear, Tensor]:
        seen: dict[nn.Linear, Tensor] = {}

        def note(module: nn.Linear, inputs: tuple[Tensor, ...]) -> None:
            seen[module] = inputs[0].flatten(0, -2).square().sum(0)  # (inputs,)

        linear = [m for m in layer.modules() if isinstance(m, nn.Linear)]
        hooks = [m.register_forward_pre_hook(note) for m in linear]
        layer(x)
        for hook in hooks:
            hook.remove()
        return seen

    with torch.no_grad():
        for layer in layers:
            for module, squares in squares_of(layer, x).items():
                scores = module.weight.abs() * squares.sqrt()  # (outputs, inputs)
                k = round(sparsity * scores.shape[1])
                module.weight *= prune_lowest(scores, k, dim=1)
            x = layer(x)
    return x
    ### END SOLUTION


# %%
check("12.3")

# %% [markdown]
# <details><summary>Hint 1: the inputs of a matrix</summary>A forward pre-hook on every
# <code>nn.Linear</code> of the layer gets its inputs as a tuple; keep Σ x² over all but the last
# axis.</details>
# <details><summary>Hint 2: two passes</summary>First <code>layer(x)</code> with hooks, then prune
# all its matrices, remove the hooks, then <code>x = layer(x)</code>.</details>
# <details><summary>Hint 3: per output</summary><code>prune_lowest(scores, k, dim=1)</code> is True
# where a weight is kept. Do not change x: it is the caller's.</details>

# %% [markdown]
# ### 12.4 One row, one weight after the other
# **25 minutes · 4 points**
#
# Wanda deletes weights and leaves the others as they are. In 2.4 the other weights of a row made up
# for *one* removed weight:
#
# $$w \leftarrow w - \frac{w_j}{[H^{-1}]_{jj}}\,H^{-1}e_j .$$
#
# To remove a second weight $k$, the first must stay 0. So the problem has one weight less: delete row
# and column $j$ of $H$. Its inverse need not be computed again:
#
# $$H^{-1} \leftarrow H^{-1} - \frac{H^{-1}e_j\,e_j^\top H^{-1}}{[H^{-1}]_{jj}} .$$
#
# Row and column $j$ of the result are 0, so weight $j$ no longer moves. This is one step of Gaussian
# elimination. After all steps the kept weights are the *least-squares* solution: of all rows with
# zeros at these places, the one whose outputs differ least from those of $w$. The order of the steps
# does not matter.
#
# *With pen and paper:* $w = (1, 1)$, $H = \begin{pmatrix}2 & 1\\ 1 & 2\end{pmatrix}$. Remove weight
# 1. What becomes of weight 2, and what of the error $(v - w)^\top H (v - w)$? And if the inputs were
# uncorrelated, $H = 2I$?
# <details><summary>Answer</summary>H⁻¹ = ⅓ (2 −1; −1 2). The step is −1 / (2/3) · (2/3, −1/3) = (−1,
# +½), so v = (0, 1.5): the second weight takes over half of the first. The error is 1 / (2/3) = 1.5;
# without the update it is 2. With H = 2I nothing moves and the error is 2: then Wanda's score,
# squared, is the exact error.</details>
#
# **What is tested**: one weight and several; removed weights exactly 0; the same result in any order;
# equality with least squares, in float64; the arguments do not change.


# %%
def remove_in_turn(row: Tensor, H: Tensor, gone: Sequence[int]) -> Tensor:
    """Remove weights of a row one after the other; the kept ones make up for each.

    Args:
        row: (inputs,), float64. H: (inputs, inputs), Σ xxᵀ, positive definite, float64.
        gone: different indices, in the order of removal.

    Returns:
        A new row (inputs,): exactly 0 at ``gone``; the others are the least-squares solution.

    >>> H = torch.tensor([[2.0, 1.0], [1.0, 2.0]]).double()
    >>> remove_in_turn(torch.ones(2).double(), H, [0])
    tensor([0.0000, 1.5000], dtype=torch.float64)
    """
    ### BEGIN SOLUTION
    row, inverse = row.clone(), H.inverse()
    for j in gone:
        row -= row[j] / inverse[j, j] * inverse[:, j]
        inverse -= torch.outer(inverse[:, j], inverse[j]) / inverse[j, j]
        row[j], inverse[j], inverse[:, j] = 0, 0, 0
    return row
    ### END SOLUTION


# %%
check("12.4")

# %% [markdown]
# <details><summary>Hint 1: two updates</summary>First the row (with the old inverse), then the
# inverse.</details>
# <details><summary>Hint 2: exactly 0</summary>Rounding leaves 1e-17: set the entry of the row, and
# the row and column of the inverse, to 0.</details>
# <details><summary>Hint 3: copies</summary><code>row.clone()</code>; <code>H.inverse()</code> is new
# already, and <code>inverse[:, j]</code> is a view of it: the outer product must be computed before
# the subtraction changes it.</details>

# %% [markdown]
# ### 12.5 The column loop
# **30 minutes · 4 points**
#
# A matrix has hundreds of rows, and each row would need its own $H^{-1}$, since each removes other
# weights. SparseGPT (Frantar and Alistarh [2023](https://arxiv.org/abs/2301.00774), section 3) has
# one idea against this: go through the *columns* from left to right, in all rows at once. At column
# $i$ a row either keeps its weight or sets it to 0; then column $i$ is *frozen*: eliminated in every
# row, whether the weight was pruned or not. So all rows eliminate the same columns and share one
# $H^{-1}$. The price: only the weights to the **right** make up for an error.
#
# The rows of the inverses, after 0, 1, 2, … columns are eliminated, are the rows of one triangular
# matrix $U$, $H^{-1} = U^\top U$: after the columns before $i$, $[H^{-1}]_{ii} = U_{ii}^2$ and row $i$
# from $i$ on is $U_{ii}\,U_{i,i:}$. So one step for all rows (column $W_{:,i}$, its new value $q$) is
#
# $$e = \frac{W_{:,i} - q}{U_{ii}}, \qquad W_{:,j} \leftarrow W_{:,j} - e\,U_{ij} \quad (j > i).$$
#
# Which weights are pruned is decided for `width` columns at a time, when the loop comes to the first
# of them: those with the smallest error $w^2 / U_{jj}^2$ (2.4's score). With 128 columns and one
# ranking of all rows the rows may differ in their number of zeros; with 4 columns, two in each row, it
# is 2:4.
#
# The loop is given, with the lines for 12.6, where kept weights are rounded; with `bits=None` they do
# nothing. You write the step.
#
# **What is tested**: which weights are pruned, with one ranking per block (`dim=None`) and per row
# (`dim=1`); ties by `prune_lowest`; that later blocks are ranked by their *updated* weights; values of
# the kept weights, also with `bits` (a rounded weight has an error, too); the arguments do not change.


# %%
def column_loop(
    W: Tensor, U: Tensor, width: int, count: int, dim: int | None = None,
    bits: int | None = None, group: int = 64,
) -> Tensor:  # fmt: skip
    """Prune a matrix column by column; the columns to the right make up for each error.

    Args:
        W: (outputs, inputs). U: (inputs, inputs), upper triangular, H⁻¹ = UᵀU.
        width: divides the inputs. When the loop comes to column a, a multiple of ``width``, it
            decides for the columns a … a + width − 1 of the current W: the ``count`` smallest
            (w / U_jj)² are pruned, by ``prune_lowest(scores, count, dim)``.
        dim: None: ``count`` in the block of all rows; 1: ``count`` in each row.
        bits, group: of 12.6. None: a kept weight keeps its value.

    Returns:
        The new matrix (outputs, inputs), 0 where pruned.

    >>> U = torch.linalg.cholesky(torch.tensor([[2.0, 1.0], [1.0, 2.0]]).inverse(), upper=True)
    >>> column_loop(torch.tensor([[1.0, 3.0]]), U, width=2, count=1)  # 3 + ½ · 1
    tensor([[0.0000, 3.5000]])
    """
    W = W.clone()
    for i in range(W.shape[1]):
        value = W[:, i]  # (outputs,): what column i becomes where its weights are kept
        if bits is not None:
            if i % group == 0:
                low, step = grid(W[:, i : i + group], bits)
            value = nearest(value, low, step, bits)
        ### BEGIN SOLUTION
        if i % width == 0:
            scores = (W[:, i : i + width] / U.diagonal()[i : i + width]) ** 2  # (outputs, width)
            keep = prune_lowest(scores, count, dim)
        q = torch.where(keep[:, i % width], value, 0)
        error = (W[:, i] - q) / U[i, i]  # (outputs,)
        W[:, i + 1 :] -= torch.outer(error, U[i, i + 1 :])
        W[:, i] = q
        ### END SOLUTION
    return W


# %%
check("12.5")

# %% [markdown]
# <details><summary>Hint 1: the order of one step</summary>Decide (only at the first column of a
# block) → new value q → error, from the *old* column → update the columns to the right → write
# q.</details>
# <details><summary>Hint 2: pruned and kept</summary><code>torch.where(keep[:, i % width], value,
# 0)</code>. Compute the error of all rows in the same way: where a weight keeps its value, it is
# 0.</details>
# <details><summary>Hint 3: all rows at once</summary><code>torch.outer(error, U[i, i + 1:])</code> is
# (outputs, columns to the right).</details>

# %% [markdown]
# (SparseGPT updates the columns of later blocks once per block, which gives the same result faster.
# The library's `prune_and_round` does so, too.)
#
# ## Part C · Bits
#
# ### 12.6 The same loop rounds
# **20 minutes · 2 points**
#
# In the loop $q$ need not be 0. Frantar et al. ([2022](https://arxiv.org/abs/2210.17323), *GPTQ*) set
# $q$ to the nearest of $2^b$ values, and the columns to the right make up for the rounding, too. The
# values of `group` neighbours of a row are evenly spaced from the smallest to the largest weight, 0 included
# (so that a pruned weight is a value of its own): $\text{low} + k \cdot \text{step}$, $k = 0 \dots 2^b - 1$.
#
# Each group stores `low` and `step`, 16 bits each. What does a weight cost?
#
# - its $b$ bits, if it is kept;
# - if a matrix has zeros anywhere: one bit per weight, kept or not, for the bitmap (lab 00). 2:4 stores
#   two bits for the place of each kept weight, half of the weights: also one bit per weight;
# - 32 bits per group, shared by all weights of the group.
#
# **What is tested**: the grid, also of a group that is all positive, all negative or all 0 (step 1);
# rounding to the nearest, never outside the grid; the bits per weight; the arguments do not change.


# %%
def grid(part: Tensor, bits: int) -> tuple[Tensor, Tensor]:
    """Find low and step, (outputs,) each, of the 2ᵇ values for every row of ``part``.

    Args:
        part: (outputs, group): the smallest value is the smallest weight or 0, the largest value
            the largest weight or 0. Where all weights are 0, step is 1.

    >>> grid(torch.tensor([[1.0, 3.0]]), bits=2)
    (tensor([0.]), tensor([1.]))
    """
    ### BEGIN SOLUTION
    low, high = part.amin(1).clamp(max=0), part.amax(1).clamp(min=0)
    step = (high - low) / (2**bits - 1)
    return low, torch.where(step > 0, step, 1)
    ### END SOLUTION


def nearest(column: Tensor, low: Tensor, step: Tensor, bits: int) -> Tensor:
    """Return the nearest of the 2ᵇ values low + k · step to each weight, (outputs,).

    >>> nearest(torch.tensor([1.4, 9.0]), torch.zeros(2), torch.ones(2), bits=2)
    tensor([1., 3.])
    """
    ### BEGIN SOLUTION
    return low + step * ((column - low) / step).round().clamp(0, 2**bits - 1)
    ### END SOLUTION


def bits_per_weight(bits: int, kept: float = 1.0, group: int | None = None) -> float:
    """Count the bits that are stored per weight, kept or not.

    Args:
        bits: of a kept weight. kept: share of the weights that are kept; 1 needs no bitmap.
        group: weights that share low and step; None: nothing is shared.

    >>> bits_per_weight(16, kept=0.5), bits_per_weight(4, group=64)
    (9.0, 4.5)
    """
    ### BEGIN SOLUTION
    return kept * bits + (kept < 1) + (32 / group if group else 0)
    ### END SOLUTION


# %%
check("12.6")

# %% [markdown]
# <details><summary>Hint 1: the ends</summary><code>part.amin(1).clamp(max=0)</code> is the smallest
# weight of each row, or 0.</details>
# <details><summary>Hint 2: nearest</summary>k = (column − low) / step, rounded, then clamped to 0 …
# 2ᵇ − 1.</details>
# <details><summary>Hint 3: who pays?</summary>Only kept weights store b bits. Places and groups are
# paid for by all weights.</details>

# %% [markdown]
# ### 12.7 Two short answers
# **10 minutes · 1 point**
#
# **a.** What does Experiment 3 permit you to say about SparseGPT's lead over Wanda at 50 %?
#
# - **A.** Its mask makes the lead: the same mask without the update is as good.
# - **B.** Its update makes the lead: Wanda's mask with the same kind of update is about as good, and
#   SparseGPT's mask alone is no better than Wanda's.
# - **C.** Mask and update contribute equally.
# - **D.** Neither: the two methods are equally good.
#
# **b.** You may store 3.5 bits per weight. What does Experiment 4 permit you to say of this model?
#
# - **A.** Half of the weights as zeros and 4 bits for the others are better than 3 bits for all.
# - **B.** 3 bits for all weights are better than zeros.
# - **C.** Zeros and bits cannot be compared.
# - **D.** Pruned weights at 3.5 bits are as good as all weights at 4.5 bits.

# %%
### BEGIN SOLUTION
answer_12_7a = "B"
answer_12_7b = "A"
### END SOLUTION

# %%
check("12.7")

# %% [markdown]
# ## Part D · Optional
#
# ### 12.8 Remove experts
# **15 minutes · 2 points · optional**
#
# In a *mixture of experts* a router sends each token to the `top` experts (MLPs) with the largest
# logits. Their gates are a softmax over these logits. The output is the sum of gate · expert output.
# All experts are in memory, also those seldom chosen. Lasby et al.
# ([2025](https://arxiv.org/abs/2510.13999), *REAP*) remove experts without training: those with the
# smallest mean of gate · ‖expert output‖, **over the tokens that are routed to the expert**, however
# few. (`kept` below is `prune_lowest(importance, k)`.) The router then chooses among the kept ones.
#
# **What is tested**: the mean over an expert's own tokens; an expert without a token; `top` gates
# that sum to 1 for every token, also if its experts were removed; the arguments do not change.


# %%
def expert_importance(gates: Tensor, outputs: Tensor) -> Tensor:
    """Compute REAP's importance of each expert.

    Args:
        gates: (T, X), tokens × experts; 0 = the token is not routed to the expert.
        outputs: (X, T, E), the output of every expert for every token, routed or not.

    Returns:
        (X,): mean of gate · ‖output‖₂ over the tokens routed to the expert; 0 if there is none.

    >>> expert_importance(torch.tensor([[0.5], [0.0]]), torch.tensor([[[3.0, 4.0], [9.0, 9.0]]]))
    tensor([2.5000])
    """
    ### BEGIN SOLUTION
    weighted = gates.T * outputs.norm(dim=-1)  # (X, T), 0 where not routed
    return weighted.sum(1) / (gates > 0).sum(0).clamp(min=1)
    ### END SOLUTION


def route(logits: Tensor, kept: Tensor, top: int) -> Tensor:
    """Compute the gates of a router that chooses among the kept experts.

    Args:
        logits: (T, X). kept: bool (X,), False = removed; at least ``top`` experts are kept.

    Returns:
        (T, X): a softmax over the ``top`` largest logits of kept experts; 0 for all other experts.

    >>> route(torch.tensor([[9.0, 1.0, 1.0, 0.0]]), torch.tensor([False, True, True, True]), top=2)
    tensor([[0.0000, 0.5000, 0.5000, 0.0000]])
    """
    ### BEGIN SOLUTION
    logits = logits.masked_fill(~kept, -torch.inf)
    values, experts = logits.topk(top, dim=1)  # (T, top)
    return torch.zeros_like(logits).scatter(1, experts, values.softmax(1))
    ### END SOLUTION


# %%
check("12.8")

# %% [markdown]
# <details><summary>Hint</summary><code>outputs.norm(dim=-1)</code> and <code>gates.T</code> are
# (X, T). Give removed experts the logit −∞ before you choose the largest logits.</details>
#
# ### 12.9 A bug hunt
# **20 minutes · 1 point · optional**
#
# `published` is our code, but its bug stood in an example of the documentation of `transformers`
# ([issue 22348](https://github.com/huggingface/transformers/issues/22348), March 2023). The
# evaluation in SparseGPT's repository does the same, and there it is harmless. Find out when it is
# not: write `witness()`, a smallest input for which `published` breaks its docstring, and
# `repaired(windows)`, which does what that docstring says.
#
# **What is tested**: the witness has at most eight tokens in all, and `published` is wrong for it by
# more than 0.1 %; `repaired` is right for windows of any length (think of a text's last window).


# %%
def published(windows: Sequence[tuple[Tensor, Tensor]]) -> float:
    """Compute the perplexity exp(Σ −ln p / T) of a text; T counts the predicted tokens.

    Args:
        windows: (logits (L, V), ids (L,)) each; no padding. Place t of the logits predicts token
            t + 1. L may differ, and may be 1. At least one token of the text is predicted.
    """
    total, tokens = 0.0, 0
    for logits, ids in windows:
        total += float(F.cross_entropy(logits[:-1].double(), ids[1:])) * len(ids)
        tokens += len(ids)
    return math.exp(total / tokens)


# %%
def witness() -> list[tuple[Tensor, Tensor]]:
    """Return windows, at most eight tokens in all, for which ``published`` is wrong."""
    ### BEGIN SOLUTION
    sure = torch.tensor([[9.0, 0.0], [9.0, 0.0]]), torch.tensor([0, 0])  # 1 predicted token of 2
    unsure = torch.zeros(3, 2), torch.tensor([0, 0, 0])  # 2 of 3
    return [sure, unsure]
    ### END SOLUTION


def repaired(windows: Sequence[tuple[Tensor, Tensor]]) -> float:
    """Compute what the docstring of ``published`` says."""
    ### BEGIN SOLUTION
    total, tokens = 0.0, 0
    for logits, ids in windows:
        total += float(F.cross_entropy(logits[:-1].double(), ids[1:], reduction="sum"))
        tokens += len(ids) - 1
    return math.exp(total / tokens)
    ### END SOLUTION


# %%
check("12.9")

# %% [markdown]
# <details><summary>Hint 1: how many losses does a window have?</summary>L − 1. For which windows
# does it matter that their mean is multiplied by L?</details>
# <details><summary>Hint 2: the last window</summary>257 tokens in windows of 256 leave one token.
# What is the mean of no losses?</details>
