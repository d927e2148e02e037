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
# removed without any training, and how must the kept weights change?**
#
# In the other labs pruning was followed by training. A model of billions of weights is seldom
# trained again by those who use it: they have the weights and a few texts. So a method can use
# the inputs of a layer, and solve for the weights that are kept.
#
# **Prerequisites.** Lab 02 (2.3 Wanda, 2.4 one step of Optimal Brain Surgeon), lab 00 (bits per
# weight), lab 05 (N:M); the cross-entropy of a language model. Four facts:
#
# - *Causal mask.* In a decoder a token attends to itself and to the tokens before it, never to
#   later ones. So one pass over $L$ tokens predicts $L - 1$ of them, each from those before it.
# - *Least squares.* Let $x_1, \dots, x_T$ be inputs, $w$ a row and $H = \sum_t x_t x_t^\top$. With
#   another row $v$ the outputs change by $\sum_t (v^\top x_t - w^\top x_t)^2 = (v - w)^\top H\,(v -
#   w)$. If some entries of $v$ must be 0, least squares on the other entries gives the best $v$.
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
# 20 points; about 4 hours, without the optional exercises 12.8 and 12.9 (part D: experts, a
# bug hunt; 3 bonus points). The live runs take about two minutes in all. `check("12.1")`
# after each exercise shows what is right. If you are stuck, write `skip("12.1")` in a cell:
# that question scores 0, and the lab continues with the course's version. Write every
# function yourself, without `course_lib.pruning` (but with the given `prune_lowest`).

# %%
from course_lib.grading import check, skip  # noqa: F401  (skip is yours to use)

# isort: split
import math
from collections.abc import Iterable, Sequence

import numpy as np  # noqa: F401  (yours to use)
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from course_lib import experiments, ledger
from course_lib.experiments import lab12
from course_lib.pruning.weights import prune_lowest
from course_lib.show import plots, tables
from course_lib.show.words import say, versus

# %% [markdown]
# ## The model
#
# SmolLM2-135M-Instruct is a decoder with 30 layers of width 576 and 9 query heads on 3 key/value
# heads. 106 of its 135 million weights are in the matrices of the layers. The other weights are
# the embedding, which is also the head; they are never changed here.
#
# **The file is already quantised**: the layers have 4 bits per weight, in groups of 32 that
# share a scale and a minimum of 16 bits each. This is 5 bits per weight. (The embedding has 8
# bits, 8.5 with its scales.) To store the layers in int4 *in these groups* therefore loses
# nothing, and "dense" below means this model. Another grid does lose something: our groups
# have 64 weights, which is 4.5 bits. The fair question is how to save more: *int3 for all
# weights, or int4 for half of them*? In groups of 64 both need 3.5 bits per weight.
#
# Text is an excerpt of WikiText-2: 64 windows of 256 tokens to test, and other articles to
# *calibrate*, that is, to observe the inputs of the layers. Stored runs calibrate on 32 windows
# of WikiText-2's validation part, drawn three times. There rare words are replaced by `<unk>`,
# in the test text they are not. A loss is compared as the difference of *log* perplexity:
# +0.10 is 10 % more perplexity, +0.69 is twice as much. ± is half of the 95 % interval over
# the 64 windows, paired; the draws of calibration windows are dots. In a table, *low* and
# *high* are the perplexities of the best and of the worst draw.
#
# Two tasks with known answers accompany perplexity, 100 questions each: close two or three
# *brackets* after six examples, and repeat the *name* of the person who lives in a town. With
# so few questions, differences of up to about 14 points may be luck.
#
# Live runs use your functions on the real model, with 8 windows. If the model is not installed,
# they print what to run, and the lab continues with the stored runs.

# %%
MODEL = None  # SmolLM2-135M; or the name of any decoder that from_pretrained finds

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
# **What is tested**: places and tokens; padding on either side (ids at padding are tokens,
# too); windows and batches of different lengths; logits of any dtype (make them float64
# first); batches that can be read only once; the arguments do not change.


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
# logits and the first of the tokens: <code>logits[:, :-1]</code>, <code>ids[:,
# 1:]</code>.</details>
# <details><summary>Hint 2: one number per token</summary><code>log_softmax(-1)</code>, then
# <code>gather(-1, ids[:, 1:, None])</code>.</details>
# <details><summary>Hint 3: the whole text</summary>Add up two numbers over all batches, and divide
# once.</details>

# %%
live = lab12.Live(perplexity, MODEL)
live.measure({})
stored = experiments.read("lab12_weights/windows").query("method == 'dense'").nll
eight, every = math.exp(stored[:8].mean()), math.exp(stored.mean())
say(f"Stored, dense: {eight:.2f} on the same 8 windows, {every:.2f} on all 64.")

# %% [markdown]
# ### 12.2 Influence
# **15 minutes · 3 points**
#
# A layer adds to its input: $y = x + f(x)$. If $y$ points nearly where $x$ points, the layers
# after it see nearly the same without it. Men et al.
# ([2024](https://arxiv.org/abs/2403.03853), *ShortGPT*) call
#
# $$\text{influence} = 1 - \mathbb E\,\cos(x, y)$$
#
# the mean over tokens, of the cosine between a layer's input and its output.
#
# Beware: the *last hidden state* that a library returns is the one **after** the model's
# final norm. It is not the output of the last layer. The given states are read at the layers.
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
# ### Experiment 1: which layers can be removed?
#
# Four rules choose two or four of the 30 layers:
#
# - *influence*: the smallest values of your 12.2;
# - *single ablation*: each layer is removed alone, and those after which the loss of the model
#   rises least are chosen (30 more forward passes);
# - *last before the end*: the last layers, except for the very last one;
# - *last*: the last layers.
#
# The baseline is *random*: 20 draws of two layers, three of four. The black line is the dense
# model. Influence is measured on 32 windows, drawn three times, single ablation on 8. The right
# panel shows four layers removed, and then 40 steps of fine-tuning of all weights on other
# articles of WikiText-2 (4 × 256 tokens per step): three trainings, each with other texts and
# other random layers (those by influence are 14, 15, 18 and 26 in all three). The dense model
# gets the same steps.
#
# *Before you look:* the dense model has perplexity 37. What is it without the two layers of least
# influence?

# %%
prediction_depth = 100  # replace it by yours

# %%
yours = live.measure({"influence": lambda: live.without(influence, 2)})

# %%
plots.show(lab12.draw_depth(yours, prediction_depth))

# %%
two = lab12.by_run(experiments.read("lab12_depth/windows"), ["method", "count"])
two = two[two["count"] == 2].set_index("method").perplexity
chosen, drawn = two["influence"], two["random"]
say(
    f"Influence {chosen.min():.1f} to {chosen.max():.1f}, single ablation"
    f" {two['single ablation']:.1f}. Of the {len(drawn)} random pairs {(drawn < chosen.max()).sum()}"
    f" are better; their median is {drawn.median():.1f}, the worst {drawn.max():,.0f}."
)

# %%
healing = experiments.read("lab12_healing/windows").query("steps == 40")
lab12.folded(healing, ["method"])

# %%
tasks = experiments.read("lab12_depth/tasks")
tasks = tasks.assign(method=tasks.method + ", " + tasks["count"].astype(str) + " removed")
tables.means(tasks, {"right": "right answers (%)"}, columns="task")

# %% [markdown]
# {{claim 12.1}}
#
# Do not read the size of this difference: a few pairs make the mean, and the four worst
# contain layer 1 or 2. The ± is over windows and not over pairs. The *median* pair has
# perplexity 63, which is 0.20 to 0.27 above influence. None of the 20 is better than a pair
# chosen by influence, but we could not detect a difference between the best (52.2) and layers
# 15 and 26 (51.7). Two draws of windows choose these two, one chooses 14 and 15 (48.1): the
# lowest three scores are almost equal. Single ablation takes 30 more passes, and on average we
# could not detect that it differs from influence (+0.002 ± 0.020).
#
# **Perplexity hides what is broken.** Open the table of right answers, which has the first
# draw only (layers 14, 15, 18 and 26). After four layers are removed by influence, brackets
# are closed about as often as before, although perplexity is much higher. Single ablation has
# a similar perplexity, closes half as many (42 against 82), and repeats more names (69
# against 54, just above what may be luck). After the last two layers are removed, no name is
# repeated.
#
# *The papers.* Men et al. (2024) remove layers of models with 7 and 13 billion weights by
# influence. Gromov et al. ([2024](https://arxiv.org/abs/2403.17887)) remove a block of deeper
# layers, up to half of all layers, and *heal* the model by a small amount of fine-tuning;
# then question answering changes little. Lu et al. ([2024](https://arxiv.org/abs/2411.15558))
# prune the last layers and tune the remaining last ones. Do the last layers win after tuning?
# Not here, and not after 40 steps: *last before the end* falls from 27,718 to 60, influence
# from 67 to 33. Compare with the dense model after the same steps (23): it gains from the text,
# not from healing. Three trainings of the same layers hardly differ. The three random draws
# begin at 110 to 1.7 million, and end at 41, 71 and 442. So the choice still matters after 40
# steps: influence is better than all three, *last before the end* than two of them.
# A model of 30 layers of width 576 has less to spare, and 40 steps are few: this lab cannot say
# what long tuning would do.
#
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
# `prune_lowest(scores, k, dim=1)` is given: it is True where a weight is kept, and of equal scores
# the first are pruned.
#
# **What is tested**: the masks of every layer; per output, `round(sparsity · inputs)`
# weights, which are exactly 0; ties by `prune_lowest`; what the next layer gets; layers with
# several `nn.Linear` of different sizes, also inside submodules; `x`, biases and other
# parameters unchanged; no hook left behind.


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
# all its matrices (in
# <code>torch.no_grad()</code>), remove the hooks, then <code>x = layer(x)</code>.</details>
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
# To remove a second weight $k$, the first must stay 0. So the problem has one weight less:
# delete row and column $j$ of $H$. Its inverse need not be computed again:
#
# $$H^{-1} \leftarrow H^{-1} - \frac{H^{-1}e_j\,e_j^\top H^{-1}}{[H^{-1}]_{jj}} .$$
#
# Row and column $j$ of the result are 0, so weight $j$ no longer moves. This is one step of
# Gaussian elimination. After all steps the kept weights are the *least-squares* solution: of
# all rows with zeros at these places, the one whose outputs differ least from those of $w$.
# The order of the steps does not matter.
#
# *With pen and paper:* $w = (1, 1)$, $H = \begin{pmatrix}2 & 1\\ 1 & 2\end{pmatrix}$. Remove weight
# 1. What becomes of weight 2, and what of the error $(v - w)^\top H (v - w)$? And if the inputs were
# uncorrelated, $H = 2I$?
# <details><summary>Answer</summary>H⁻¹ = ⅓ (2 −1; −1 2). The step is −1 / (2/3) · (2/3, −1/3) = (−1,
# +½), so v = (0, 1.5): the second weight takes over half of the first. The error is 1 / (2/3)
# = 1.5; without the update it is 2, which is Wanda's score, squared. With H = 2I nothing moves
# and the error is 2: the update gains nothing.</details>
#
# **What is tested**: one weight and several; removed weights exactly 0; the same result in
# any order; equality with least squares, in float64; the arguments do not change.


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
# A matrix has hundreds of rows, and each row would need its own $H^{-1}$, since each removes
# other weights. SparseGPT (Frantar and Alistarh [2023](https://arxiv.org/abs/2301.00774),
# section 3) has one idea against this: go through the *columns* from left to right, in all
# rows at once. At column $i$ a row either keeps its weight or sets it to 0; then column $i$
# is *frozen*: eliminated in every row, whether the weight was pruned or not. So all rows
# eliminate the same columns and share one $H^{-1}$. The cost: only the weights to the
# **right** make up for an error.
#
# The rows of the inverses, after 0, 1, 2, … columns are eliminated, are the rows of one
# triangular matrix $U$, $H^{-1} = U^\top U$: after the columns before $i$, $[H^{-1}]_{ii} =
# U_{ii}^2$ and row $i$ from $i$ on is $U_{ii}\,U_{i,i:}$. So one step for all rows (column
# $W_{:,i}$, its new value $q$) is
#
# $$e = \frac{W_{:,i} - q}{U_{ii}}, \qquad W_{:,j} \leftarrow W_{:,j} - e\,U_{ij} \quad (j > i).$$
#
# Which weights are pruned is decided for `width` columns at a time, when the loop comes to
# the first of them: those with the smallest error $w^2 / U_{jj}^2$ (2.4's score). With 128
# columns and one ranking of all rows the rows may differ in their number of zeros; with 4
# columns, two in each row, it is 2:4.
#
# The loop is given, with the lines for 12.6, where kept weights are rounded; with `bits=None`
# they do nothing. You write the step.
#
# **What is tested**: which weights are pruned, with one ranking per block (`dim=None`) and
# per row (`dim=1`); ties by `prune_lowest`; that later blocks are ranked by their *updated*
# weights; values of the kept weights, also with `bits` (a rounded weight has an error, too; the
# grader brings its own `grid` and `nearest`, and you write yours in 12.6); the arguments do not
# change.


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
# <details><summary>Hint 2: pruned and kept</summary><code>torch.where(condition, a, b)</code> with the
# condition of column i alone. Compute the error of all rows in the same way: where a weight keeps
# its value, it is 0.</details>
# <details><summary>Hint 3: all rows at once</summary><code>torch.outer(a, b)</code> is (len(a),
# len(b)): the errors of all rows, and row i of U from i + 1 on.</details>

# %% [markdown]
# (SparseGPT updates the columns of later blocks once per block, which gives the same result faster.
# The library's `prune_and_round` does so, too.)

# %% [markdown]
# ### Experiment 2: how much do magnitude, Wanda and SparseGPT lose?
#
# All matrices of the 30 layers are pruned by 30 % or 50 %, or 2:4. Magnitude also compares
# the weights of one output. SparseGPT is your column loop with blocks of 128 columns (64 in
# the live run, where the width must divide the number of inputs), with 1 % of the mean of the
# diagonal added to $H$, so that it has an inverse. Diamonds are the figures of the Wanda
# paper for LLaMA-7B, also on WikiText-2. Black circles are your functions, on the *first six*
# of the 30 layers, with 8 windows of the excerpt to calibrate and 8 to test. The last group
# is calibrated on another text: the docstrings of Python's standard library.

# %%
yours = live.measure(
    {
        "Wanda": lambda: live.walked(lambda layers, x: wanda_walk(layers, x, 0.5)),
        "SparseGPT": lambda: live.by_columns(column_loop, sparsity=0.5),
    }
)

# %%
weights = experiments.read("lab12_weights/windows")
runs = lab12.by_run(weights, ["method", "pattern", "text"])
main = runs[runs.method.isin(["magnitude", "Wanda", "SparseGPT"])]
other = main.text == "docstrings"
main = main.assign(group=main.pattern.where(~other, main.pattern + ",\ndocstrings"))
look = {"x": "group", "y": "lost", "by": "method", "fmt": "{:.2f}"}
title = "What three methods lose, without any training"
fig = plots.bars(main, title=title, ylabel="log perplexity above dense", **look)
lab12.draw_paper(fig, main.group.unique(), yours)
plots.show(fig)

# %%
exchanged = weights.method.str.contains("mask")  # for Experiment 3
lab12.folded(weights[~exchanged], ["method", "pattern", "text"])

# %% [markdown]
# {{claim 12.3}}
#
# {{claim 12.2}}
#
# SparseGPT does not only score weights by the calibration text: it *fits* the kept weights to it.
# On docstrings it loses 0.41 more than on WikiText-2, and Wanda, with its one norm per input,
# 0.15 more. In your run SparseGPT is probably no better than Wanda (we got 49.8 and 48.7). It has
# 2,048 tokens instead of 8,192, for matrices of up to 1,536 inputs, so its $H$ is poorly known.
# This may be the reason, but number of layers, width of blocks and test windows differ, too.
#
# *The paper* (7 billion weights): 5.68 dense; 50 %: magnitude 17.29, Wanda 7.26, SparseGPT 7.22;
# 2:4: 42.13, 11.53 and 11.00. The order is the same. But there Wanda is nearly as good as
# SparseGPT at 50 %, and both lose much less than here. There the model is 50 times larger; the
# text (C4), the number of calibration tokens and the length of the windows differ, too. We
# cannot say which of these makes the lead small.
#
# ### Experiment 3: is it the mask or the update?
#
# SparseGPT differs from Wanda twice: it chooses other weights, and it updates the kept ones.
# Masks and updates can be exchanged. *SparseGPT's mask alone* keeps its zeros, and the other
# weights as they were. *Wanda's mask, updated* goes through the column loop with Wanda's
# zeros. All prune 50 %. (SparseGPT ranks the weights of all outputs of a block together, Wanda
# those of each output: this is a part of the mask.)
#
# *Before you look:* the figure above shows what Wanda and SparseGPT lose at 50 %. What does Wanda's
# mask lose with the update?

# %%
prediction_updated = 0.7  # replace it by yours

# %%
half = runs[(runs.pattern == "50 %") & (runs.text == "calibration")]
updated = half.method.isin(["SparseGPT", "Wanda's mask, updated"])
half = half.assign(
    mask=half.method.str.extract("(Wanda|SparseGPT)", expand=False) + "'s mask",
    weights=updated.map({True: "updated", False: "as they were"}),
).dropna(subset="mask")
look = {"x": "mask", "y": "lost", "by": "weights", "fmt": "{:.3f}"}
title = "Mask or update? 50 % of the weights pruned"
guess = ("Wanda's mask", prediction_updated)
plots.bars(half, title=title, ylabel="log perplexity above dense", guess=guess, **look)

# %%
nll = weights[(weights.pattern == "50 %") & (weights.text == "calibration")]
nll = nll.pivot_table("nll", "window", "method")
for one, minus_other in (
    ("SparseGPT's mask alone", "Wanda"),
    ("Wanda's mask, updated", "SparseGPT"),
):
    difference = versus(nll[one], nll[minus_other], "in log perplexity", 3)
    say(f"{one} minus {minus_other}: {difference}.")

# %%
lab12.folded(weights[exchanged | weights.method.eq("dense")], ["method"])

# %%
tasks = experiments.read("lab12_weights/tasks")
tasks = tasks[tasks.pattern.eq("50 %") | tasks.method.eq("dense")]
tables.means(tasks, {"right": "right answers (%)"}, columns="task")

# %% [markdown]
# {{claim 12.4}}
#
# {{claim 12.5}}
#
# So the lead of SparseGPT is mostly its *update*. Its mask is chosen for weights that are updated
# afterwards; alone it is slightly worse than Wanda's (+0.024). The Wanda paper asks the same
# question, and finds that for its 7 billion weights an update after Wanda's mask changes little.
#
# Compare the tasks, of the first draw, with Experiment 1. SparseGPT at 50 % and the model
# without four layers have about the same perplexity (66 and 67). The first closes 21 of the
# brackets, the second 82; names are 61 and 54, which may be luck. Two models with equal
# perplexity can have lost different abilities.
#
# ## Part C · Bits
#
# ### 12.6 The same loop rounds
# **20 minutes · 2 points**
#
# In the loop $q$ need not be 0. Frantar et al. ([2022](https://arxiv.org/abs/2210.17323),
# *GPTQ*) set $q$ to the nearest of $2^b$ values, and the columns to the right make up for the
# rounding, too. In each row, `group` neighbouring weights share a *grid* of $2^b$ evenly spaced
# values, $\text{low} + k \cdot \text{step}$, $k = 0 \dots 2^b - 1$. It reaches from the smallest to
# the largest of these weights; if all have one sign, it begins or ends at 0.
#
# Each group stores `low` and `step`, 16 bits each. What does a weight cost?
#
# - its $b$ bits, if it is kept;
# - if a matrix has zeros at any place: one bit per weight, kept or not, for the bitmap (lab 00). 2:4 stores
#   two bits for the place of each kept weight, half of the weights: also one bit per weight;
# - 32 bits per group, shared by all weights of the group.
#
# **What is tested**: the grid, also of a group that is all positive, all negative or all 0
# (step 1); rounding to the nearest, never outside the grid; the bits per weight; the
# arguments do not change.


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
# ### Experiment 4: zeros or fewer bits?
#
# The loop rounds all weights to int8, int4 or int3, in groups of 64; or it prunes and rounds
# the kept weights in the same pass. *To the nearest* rounds without an update. Half of 16-bit
# weights is SparseGPT from Experiment 2, at 9 bits.
#
# *Before you look:* at 3.5 bits, half of the int4 weights lose about 0.7. What does int3 for all
# weights lose?

# %%
prediction_int3 = 0.5  # replace it by yours

# %%
yours = live.measure(
    {
        "50 % of int4": lambda: live.by_columns(column_loop, sparsity=0.5, bits=4),
    }
)

# %%
bits = experiments.read("lab12_bits/windows")
runs = lab12.by_run(bits, ["method", "format", "bits"])
points = lab12.by_bits(runs, main, bits_per_weight(16, kept=0.5))
title = "Bits per weight against what is lost"
look = {"x": "bits", "y": "lost", "control": None, "xaxis": "log", "xlabel": "bits per weight"}
guess = (bits_per_weight(3, group=64), prediction_int3)
fig = plots.curves(points, title=title, ylabel="log perplexity above dense", guess=guess, **look)
lab12.mark(fig.axes[0], [3.5] * len(yours), [math.log(times) for times in yours.values()])
plots.show(fig)

# %%
lab12.folded(bits, ["method", "format", "bits"])

# %% [markdown]
# {{claim 12.6}}
#
# Read the figure from right to left. At about 9 bits zeros lose 0.58 and int8 loses 0.00.
# int4 loses 0.20 with half of these bits, and the file's own int4 loses nothing at 5 bits. So
# for this model fewer bits come first. At 3.5 bits the order is another: half of int4 loses
# 0.73, int3 for all weights 1.11. int3 has 8 values per group for all weights; half of int4
# has 16 values for the kept half. 2:4 at the same bits loses more than int3 (1.21, see the
# table). We measured no pruned model between 3.5 and 9 bits. Beware: the file has 4 bits
# already, so int8 must be almost free, and int4 may look better than it would for a 16-bit
# model.
#
# *The papers.* SparseGPT's authors compare 50 % of 4-bit weights with 3 bits, too, on OPT with up
# to 175 billion weights, and favour the joint compression. For LLaMA-7B (dense 5.68) zeros
# probably lose: GPTQ's code reports 6.61 with int3 in groups of 128, and half of the *16-bit*
# weights have 7.22 already (SparseGPT). So the answer depends on the model: measure it. The
# circle is again six layers with 8 windows.
#
# ### Experiment 5: what does it save?
#
# A removed layer saves bytes and time on any machine. Zeros save bytes only in a format that does
# not store them (a bitmap, 2:4), and time only where the kernel skips them.
#
# *Before you look:* with four of 30 layers removed, how much is a generated token's time, in % of
# the dense model's?

# %%
prediction_time = 80  # replace it by yours

# %%
speed = experiments.read("lab12_speed/speed").drop(columns="seed")
share = (100 * speed / speed.iloc[0]).assign(removed=speed.removed.astype(str) + " removed")
names = {"MB": "weights", "generation (ms)": "generation", "prompt (ms)": "prompt"}
share = share.rename(columns=names)[["removed", *names.values()]]
share = share.melt("removed", var_name="what", value_name="share (%)")
title = "Layers removed: bytes, and time per token (one thread)"
look = {"x": "removed", "y": "share (%)", "by": "what", "fmt": "{:.0f}", "ylabel": "% of dense"}
plots.bars(share, title=title, guess=("4 removed", prediction_time), **look)

# %% [markdown]
# Now all that we measured, in stored bytes. *bits*: per weight of the layers, by your function.
# *MB*: with the embedding at 8.5 bits. *perplexity*: the mean of the draws.

# %%
menu = lab12.menu(bits_per_weight)
tables.plain(menu)

# %% [markdown]
# The ledger gets three rows. Accuracy is the share of right answers, of 200 questions, and
# milliseconds are those of a prompt of 128 tokens.

# %%
depth, pruned = (experiments.read(f"lab12_{name}/tasks") for name in ("depth", "weights"))
mb, ms = menu.set_index("")["MB"], 128 * speed.set_index("removed")["prompt (ms)"]
four = depth.query("method == 'influence' and count == 4")
rows = {
    "dense": ("the file's int4", ms[0], depth.query("method == 'dense'")),
    "4 layers removed": ("4 layers removed", ms[4], four),
    "SparseGPT, 50 %": ("50 % of 16 bits", None, pruned.query("method == 'SparseGPT'")),
}
for name, (plan, time, answers) in rows.items():
    cost = {"bits": round(8e6 * mb[plan]), "macs": None, "ms": time}
    ledger.add("smollm2-135m", name, lab="12", accuracy=[answers.right.mean()], **cost)
ledger.table()

# %% [markdown]
# In bytes, int4 in groups of 64 (90 MB, 45.1) is better than two layers removed (92 MB, 50.4), but
# removed layers also save time. Four of 30 layers are 13 % of the layers, but less of the bytes
# and of the time of a generated token: the head (49,152 tokens × 576) stays. A prompt token saves
# 15 %. This is more than the 13 % of layers, so these times, medians of 7 runs in one session, are
# uncertain by a few points. A token that is generated alone reads all weights once, so its time
# follows the *bytes*. Here the weights are 32-bit numbers. A format with fewer bits saves time
# only with a kernel that multiplies it directly, and zeros at any place save none on this machine.
#
# **How the story of 2:4 ended.** GPUs of compute capability 8 (2020) and later multiply 2:4
# matrices up to twice as fast; they do not skip zeros that lie anywhere. In March 2026 the
# serving engine vLLM removed its 2:4 kernels, because such models "are not widely used"
# ([pull request 36799](https://github.com/vllm-project/vllm/pull/36799), merged on 23 March).
# LLM Compressor, the tool that made such models, removed 2:4 in its [version
# 0.11](https://github.com/vllm-project/llm-compressor/releases/tag/0.11.0) "based upon lack
# of community interest". Its documentation adds the lack of hardware support. Our results
# fit, for one small model: 2:4 of 16-bit weights (9 bits) loses 1.07, and int4 (4.5 bits) 0.20.
#
# What *is* deployed in 2026 removes larger pieces: depth and width, followed by distillation
# on billions of tokens (Minitron, Muralidharan et al.
# [2024](https://arxiv.org/abs/2407.14679): up to 40 times fewer training tokens than training
# from scratch); and whole *experts* of mixtures (REAP, Lasby et al.
# [2025](https://arxiv.org/abs/2510.13999)), which LLM Compressor offers since summer
# 2026. Both leave dense matrices, which every kernel multiplies.

# %% [markdown]
# ### 12.7 Two short answers
# **10 minutes · 1 point**
#
# **a.** What does Experiment 3 permit you to say about SparseGPT's lead over Wanda at 50 %?
#
# - **A.** Its mask makes the lead: the same mask without the update is as good.
# - **B.** Its update makes most of the lead: Wanda's mask with the same update closes most of the
#   gap, and SparseGPT's mask alone is no better than Wanda's.
# - **C.** Mask and update contribute equally.
# - **D.** Neither: the two methods are equally good.
#
# **b.** You may store 3.5 bits per weight. What does Experiment 4 permit you to say of this model?
#
# - **A.** Half of the weights as zeros, anywhere, and 4 bits for the others are better than 3 bits for all.
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
# In a *mixture of experts* a router sends each token to the `top` experts (MLPs) with the
# largest logits. Their gates are a softmax over these logits. The output is the sum of gate ·
# expert output. All experts are in memory, also those seldom chosen. Lasby et al.
# ([2025](https://arxiv.org/abs/2510.13999), *REAP*) remove experts without training: those
# with the smallest mean of gate · ‖expert output‖, **over the tokens that are routed to the
# expert**, however few. (`kept` below is `prune_lowest(importance, k)`.) The router then
# chooses among the kept ones.
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
# **What is tested**: the witness has at most eight tokens in all, and `published` is wrong
# for it by more than 0.1 %; `repaired` is right for windows of any length (think of a text's
# last window).


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

# %% [markdown]
# ## What you take with you
#
# - With one forward pass, influence finds layers whose removal loses less than that of random
#   ones; the last layers are not among them. Compare healed models with a dense model that was tuned as long.
# - Wanda looks at inputs, SparseGPT also repairs. Most of SparseGPT's lead is the repair, which fits the
#   calibration text: calibrate on the text that the model will see.
# - Pruning and rounding are one loop. Compare zeros and bits at equal bits, on your own model. Here
#   fewer bits came first, then zeros.
# - Equal perplexity is not equal ability: measure a task of your own.
# - Zeros save time only where a kernel skips them, and removed layers save it everywhere.
#
# ### Five questions to recap
#
# 1. Why must Wanda's norms come from the *pruned* layers before?
#    <details><summary>Answer</summary>The pruned model passes on other inputs. Norms of the dense
#    model describe inputs that the layer never gets.</details>
# 2. When is Wanda's squared score the exact error of removing one weight?
#    <details><summary>Answer</summary>Always, if the other weights stay as they are: w² H_jj. With the
#    best update only if input j is uncorrelated with the others; otherwise the error is
#    smaller, w² / [H⁻¹]_jj.</details>
# 3. Why does the column loop repair only to the right?
#    <details><summary>Answer</summary>All rows share one inverse, so all must eliminate the same
#    columns in the same order.</details>
# 4. "After healing, our pruned model is better than the original." What is missing?
#    <details><summary>Answer</summary>The original, tuned with the same steps on the same
#    text.</details>
# 5. You may use 100 MB for this model. What would you deploy, and at how many bytes?
#    <details><summary>Answer</summary>The file as it is: layers 66 MB, embedding 30 MB (8.5 bits with
#    its scales), 96 MB, and nothing is lost. int4 in groups of 64 (90 MB) loses 0.20. Measure your own task, too.</details>
