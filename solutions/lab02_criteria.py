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
# # Lab 02 · What the loss says: gradients, curvature, inputs, L1
#
# **You can predict the cost of removing a single weight almost exactly. Is the order of
# these predictions the best order for removing many weights?**
#
# In lab 01 the smallest weights were pruned first. But the *loss* may depend strongly
# on a small weight, and not at all on a large one. With Taylor's series you write down
# a forecast of the change of the loss. You compare the forecast with the measured
# change, weight by weight, and then prune a whole network by it.
#
# | part | you write | you find out |
# |---|---|---|
# | A · One weight | 2.1 the forecast, 2.2 curvature from gradients | how good the forecast of one removal is |
# | B · Fifty thousand | (your 2.2 scores the network in rounds) | which of its assumptions fails for many weights |
# | C · One ladder | 2.3 an input-aware mask, 2.4 one row, exactly | how magnitude, Wanda and OBS are related |
# | D · Zeros by training | 2.5 the proximal step | whether a penalty finds better zeros than magnitude |
# | E · What was it worth? | 2.6 two short answers | which differences the runs permit |
#
# 14 points; about 3 hours. If you are stuck, write `skip("2.2")` in a cell: the lab
# continues with the course's version.
#
# **Prerequisites.** Lab 01 (masks, one-shot and iterative pruning, intervals); gradients
# with `torch.autograd.grad`; second derivatives; the inverse of a matrix.
#
# Symbols, terms and the meaning of ±: [one page for all labs](../docs/notation.md).
#
# **After this lab you can**
#
# - predict the change of the loss when one weight is removed, to second order, and name
#   the three assumptions of Optimal Brain Damage;
# - compute the empirical Fisher and the Gauss–Newton diagonal, and say how they differ;
# - derive magnitude, Wanda and Optimal Brain Surgeon from one problem;
# - train exact zeros with a proximal step, and compare them with their strongest rival.
#
# `check("2.1")` works as in lab 01. The same rules hold: guess first; choose on
# validation data and look at the test data once; no claim without a random baseline and
# three seeds.

# %%
from course_lib.grading import check, skip  # noqa: F401  (skip is yours to use)

# isort: split
import copy  # noqa: F401  (yours to use)

import numpy as np  # noqa: F401  (yours to use)
import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional as F

from course_lib import devices, experiments, intervals, ledger, parallel
from course_lib.data.images import load
from course_lib.experiments import common, lab02
from course_lib.models import build
from course_lib.modes import evaluating as in_evaluation_mode
from course_lib.pruning.weights import geometric, prune_lowest, prune_rescored
from course_lib.show import drawings, plots, tables, words

# %% [markdown]
# This picture shows the idea of the lab. At the trained weight $w$ you compute the
# gradient $g$ and the second derivative $h$ of the loss. From these two numbers you
# forecast the loss at 0.

# %%
drawings.forecast()

# %% [markdown]
# ## Settings
#
# The default data are scikit-learn's digits, 1,797 *real* 8×8 images. For MNIST change
# one word (this takes much longer). The network is LeNet-300-100 **without** batch
# norm, so that no stale statistics influence the comparison.

# %%
DATA = "digits"  # or "mnist"
DEVICE = devices.use("cpu")  # or "cuda"
SEEDS = 3
SETTINGS = {"digits": lab02.DIGITS, "mnist": lab02.MNIST}[DATA]
SAMPLES = SETTINGS["samples"]  # training images that the scores are computed from

data = load(DATA).subset(SETTINGS["images"])
dense = lab02.dense_networks(data, SEEDS, SETTINGS["epochs"])
dense_rows = lab02.dense_rows(dense, data)
x, y = lab02.sample_of(data.train, SAMPLES)
words.say(
    f"**{data.name}**: {len(data.train.labels)} training, {len(data.validation.labels)} validation"
    f" and {len(data.test.labels)} test images of shape {tuple(data.shape)}."
    f" {sum(w.numel() for w in dense[0].parameters() if w.ndim >= 2):,} weights in three layers."
    f" Validation accuracy of the dense networks: {words.pm(dense_rows.accuracy)} %."
)

# %% [markdown]
# ## Part A · One weight
#
# ### 2.1 The forecast
# **10 minutes · 2 points**
#
# Set one weight $w$ to $w' = 0$. The weight changes by $w' - w = -w$, so by Taylor's
# series
#
# $$L(0) - L(w) \;\approx\; g\,(0 - w) + \tfrac12\,h\,(0 - w)^2 \;=\; -g\,w + \tfrac12\,h\,w^2,$$
#
# where $g$ is the gradient and $h$ the second derivative of the loss, both at $w$. Note
# the sign of the first term: the step goes from $w$ *to* 0, not from 0 to $w$.
#
# *Optimal Brain Damage* ([LeCun, Denker and Solla
# 1990](https://papers.neurips.cc/paper/1989/hash/6c9882bbac1c7093bd25041881277658-Abstract.html))
# removes many weights by the sum of $\frac12 h w^2$. It names its three assumptions:
#
# - *extremal*: training has ended in a minimum, so $g = 0$;
# - *diagonal*: the change by many removals is the sum of the changes by each alone;
# - *quadratic*: terms of third and higher order are small.
#
# The *Taylor* score uses the other term, $|g\,w|$. ([Molchanov et al.
# 2017](https://arxiv.org/abs/1611.06440) score feature maps this way, with activations
# instead of weights.)
#
# *With pen and paper:* $L = (w_1 + w_2 - 1)^2$ at $w = (1, 1)$. What does the forecast
# say for removing $w_1$ alone, $w_2$ alone, and for both by the sum? What is the truth?
# Which assumption fails?
#
# **What is tested**: first and second order, with their signs; any shape; the dtype of
# the weight, also if the curvature is float64.


# %%
def loss_change(weight: Tensor, gradient: Tensor, curvature: Tensor | None = None) -> Tensor:
    """Predict the change of the loss if each weight, alone, became 0.

    Args:
        weight: any shape. No argument is changed.
        gradient: of the loss with respect to ``weight``; the same shape.
        curvature: second derivatives of the loss with respect to each weight; the same
            shape. None: first order only.

    Returns:
        The forecast, signed (negative where the loss would fall), with the shape and
        dtype of ``weight``.

    >>> loss_change(torch.tensor([2.0]), torch.tensor([0.5]), torch.tensor([3.0]))
    tensor([5.])
    """
    ### BEGIN SOLUTION
    change = -gradient * weight
    if curvature is not None:
        change = change + curvature * weight**2 / 2
    return change.to(weight.dtype)
    ### END SOLUTION


# %%
check("2.1")

# %% [markdown]
# <details><summary>Hint 1: which sign?</summary>Try it on a parabola: L(w) = (w − 1)²,
# w = 0.5. Setting w to 0 moves it away from the minimum, so the loss grows. What are g
# and h there? Does your forecast give +0.75?</details>
# <details><summary>Hint 2: the dtype</summary>A curvature in double precision makes the
# sum double: <code>.to(weight.dtype)</code>.</details>
# <details><summary>Pen and paper</summary>g = 2 and h = 2 for both, so each alone: −2 + 1 =
# −1, which is exact. The sum says −2; the truth is 1 − 1 = 0. The mixed derivative is 2,
# and the diagonal assumption leaves out its term, 2 · w₁ · w₂ = 2.</details>

# %% [markdown]
# ### 2.2 Curvature from gradients
# **30 minutes · 4 points**
#
# The gradient costs one backward pass. Second derivatives are more expensive: for
# 50,000 weights the Hessian has 2.5 billion entries. But for cross entropy its diagonal
# can be made of *squared gradients*. Call the logits $z$ and $p = \text{softmax}(z)$.
# The Hessian with respect to the logits is $\operatorname{diag}(p) - p\,p^\top$, for
# any label. A network of ReLUs is piecewise linear in each single weight, so the second
# derivatives of the logits are 0, and by the chain rule
#
# $$h_j = \frac{\partial z}{\partial w_j}^{\!\top}\! \big(\operatorname{diag}(p) - p\,p^\top\big) \frac{\partial z}{\partial w_j}
# \;=\; \sum_c p_c \Big(\frac{\partial \log p_c}{\partial w_j}\Big)^2 ,$$
#
# since $\partial \log p_c = \partial z_c - \sum_k p_k\, \partial z_k$: both sides are
# the variance of $\partial z_c$ under $p$. So one function computes two quantities,
#
# $$\frac1N \sum_{i=1}^N \sum_c q_{ic} \Big(\frac{\partial \log p_c(x_i)}{\partial w_j}\Big)^2 .$$
#
# - $q$ = the softmax of the model itself: the **Gauss–Newton diagonal**, which is $h$,
#   exactly, where non-linearities are piecewise linear and no weight is tied. No labels
#   are needed.
# - $q$ = the labels, one-hot: the **empirical Fisher**. It is popular, because it needs
#   one gradient per sample instead of one per class. It equals a curvature only if the
#   model predicts the right probabilities of the labels ([Kunstner, Balles and Hennig
#   2019](https://arxiv.org/abs/1905.12558) show how wrong it can be).
#
# Square each gradient before you add: $\sum_c p_c\,\partial\log p_c = 0$, and after
# training the mean gradient of the labels is nearly 0, too. $q$ is a constant: do not
# differentiate it. Use evaluation mode, and restore every module's own mode afterwards:
# `with in_evaluation_mode(model):`, imported above, does both. Do not leave gradients in
# `.grad`: `torch.autograd.grad` returns them instead.
#
# **What is tested**: the formula for labels, for the softmax and for other $q$, and for
# any number of samples; classes with $q = 0$; float64 results; dropout, batch norm and
# frozen parameters; modes and `.grad` are unchanged.
#
# `functional_call(model, parameters, (x,))` runs a model with *your* tensors instead of
# its parameters. You can set `requires_grad=True` on these tensors even if the model's own
# parameters are frozen:

# %%
parameters = {name: p.detach().clone().requires_grad_() for name, p in dense[0].named_parameters()}
log_p = functional_call(dense[0], parameters, (x[:1],)).log_softmax(1)[0]  # (classes,)
first = torch.autograd.grad(log_p[y[0]], list(parameters.values()))
words.say(
    "One sample, one class:"
    f" {', '.join(f'{name} {tuple(g.shape)}' for name, g in zip(parameters, first, strict=True))}."
)


# %%
def mean_squared_gradients(model: nn.Module, x: Tensor, q: Tensor) -> dict[str, Tensor]:
    """Average Σ_c q_c·(∂ log p_c(x)/∂w)² over the samples x; p is the softmax of the logits.

    Write it yourself: not with ``course_lib.pruning`` or ``torch.func.hessian``.

    Args:
        model: x (B, …) -> logits (B, classes). The modes of its modules and the ``.grad``
            of its parameters must be the same after the call as before.
        x: (N, …), N ≥ 1.
        q: (N, classes), the weight of each class, at least 0; a constant.

    Returns:
        Name -> float64 tensor with the parameter's shape, for all of
        ``model.named_parameters()``, frozen ones too. Gradients have the model's dtype;
        convert them to float64 before you square and add.

    >>> mean_squared_gradients(nn.LayerNorm(2), torch.ones(2, 2), torch.eye(2))["bias"]  # ±½
    tensor([0.2500, 0.2500], dtype=torch.float64)
    """
    ### BEGIN SOLUTION
    parameters = {name: p.detach().clone().requires_grad_() for name, p in model.named_parameters()}
    total = {name: torch.zeros_like(p, dtype=torch.float64) for name, p in parameters.items()}
    with in_evaluation_mode(model):
        for i in range(len(x)):
            log_p = F.log_softmax(functional_call(model, parameters, (x[i : i + 1],)), dim=1)[0]
            for share, one in zip(q[i].double(), log_p, strict=True):  # (classes,)
                if share == 0:
                    continue
                gradients = torch.autograd.grad(one, list(parameters.values()), retain_graph=True)
                for name, g in zip(parameters, gradients, strict=True):
                    total[name] += share * g.double() ** 2
    return {name: t / len(x) for name, t in total.items()}
    ### END SOLUTION


# %%
check("2.2")

# %% [markdown]
# <details><summary>Hint 1: two loops</summary>One over samples, one over classes.
# <code>x[i : i + 1]</code> keeps the batch dimension. Several gradients of one forward
# pass need <code>torch.autograd.grad(…, retain_graph=True)</code>.</details>
# <details><summary>Hint 2: in which order?</summary>Gradient of one log p<sub>c</sub> →
# double → square → times q<sub>c</sub> → add up → in the end divide by N.</details>
# <details><summary>Hint 3: faster</summary>Leave out classes with q = 0: for one-hot
# labels one gradient per sample is left.</details>

# %% [markdown]
# #### Experiment 1: is the forecast of one removal right?
#
# We draw 300 weights, a hundred per layer, set one at a time to zero, and measure the
# change of the mean loss on the same images
# ([code](../course_lib/experiments/lab02.py): `single_weights`). Each criterion is a
# score; weights with the lowest scores are pruned first ($F$ is the empirical Fisher,
# $h$ the Gauss–Newton diagonal, $x$ the weight's input):
#
# | signed forecast | OBD | Fisher | Taylor | input-aware | magnitude | random |
# |---|---|---|---|---|---|---|
# | $-gw + \frac12hw^2$ | $\frac12hw^2$ | $\frac12Fw^2$ | $\lvert gw\rvert$ | $\lvert w\rvert\cdot\lVert x\rVert$ | $\lvert w\rvert$ | random numbers |

# %%
mine = mean_squared_gradients(dense[0], x[:20], dense[0](x[:20]).detach().softmax(1))
words.say(f"Your largest h, of 20 images: {max(float(h.max()) for h in mine.values()):.3f}.")
single = parallel.sweep(
    lambda seed: lab02.single_weights(dense[seed], x, y, 300, seed), seed=range(SEEDS)
)
lab02.forecast_and_truth(single[single.seed == 0])

# %% [markdown]
# {{claim 02.1}}
#
# The forecast almost equals the measured change, also in its sign. About 30 % of the
# points lie below 0: removing one of these weights lowers the loss.
#
# <details><summary>Rank correlation of every criterion</summary>The next cell prints it.
# Alone, the two terms give almost the same order, since both grow with w and with the
# use of the weight's input and output.</details>

# %%
rho = lab02.rank_correlations(single)
tables.show(tables.means(rho, {"size": "ρ with the size of the change"}, digits=2))

# %% [markdown]
# ## Part B · Fifty thousand weights
#
# ### Experiment 2: which assumption fails?
#
# Rank all weights by the signed forecast, lowest first, and remove many at once,
# beginning with those whose removal *lowers* the loss.
#
# {{claim 02.2}}
#
# At 50 % the order of the almost perfect forecast destroys the network. To see why, add
# up three predictions, for the weights that are removed together (their vector is
# $\delta = -w$):
#
# - the **sum of the forecasts**, each of which assumes that all others are kept: the
#   *diagonal* assumption;
# - $g^\top\delta + \frac12\,\delta^\top G\,\delta$ **with all cross terms**, where $G$ is
#   the whole Gauss–Newton matrix (nearly the Hessian, where the loss is small): *quadratic*
#   only. It needs no matrix: $\delta^\top G\,\delta$ is the mean variance, under $p$, of the
#   change of the logits in direction $\delta$;
# - the **true** change of the loss.
#
# *Before you look:* the loss is about 0.02. By how much do the forecasts of the 10 % best
# removals, added up, lower it? (A number.)

# %%
prediction_sum = 0.01  # replace it by yours
few = min(SAMPLES, lab02.ROUND_SAMPLES)
live = lab02.add_up(dense[0], x[:few], y[:few], [0.001, 0.01, 0.1, 0.3, 0.5])
lab02.draw_sums(experiments.read(f"lab02_criteria_{DATA}/together"), live)

# %%
at_10 = next(row["change"] for row in live if row["sparsity"] == 0.1)
words.say(f"Sum of the forecasts, 10 % removed: {at_10:+.2f} (your guess: {-prediction_sum}).")

# %% [markdown]
# In the order of the forecast, the sum says that the loss falls below 0, which is
# impossible. On the digits, with the cross terms the sign is right from the first tenth of a
# per cent on: removals that each lower the loss move the logits in the *same* direction, and
# the *diagonal* assumption does not see that. But on average the quadratic form gives only
# a fifth to four fifths of the true change: the *quadratic* assumption fails, too. In the
# order of magnitude all three stay close to 0 and to each other up to 50 %, because small
# weights make a small step.
#
# LeCun, Denker and Solla (1990, figure 1) show the same: the summed forecast holds up to
# about 30 % removed weights, and OBD's order is *better* than magnitude without
# retraining. Their measure is the training loss of a network in a minimum, ours the
# accuracy of one that is not. Their well-known factor of four was reached interactively
# (a whole layer was cut out); automatic deletion gave a factor of more than two.
#
# ### Experiment 3: does it help to compute the scores again?
#
# If a score holds only near the point where it was computed, prune fewer weights at a
# time and compute the scores again after each round: the library's `prune_rescored(model,
# score, targets)` does so. The score below is OBD's $\frac12 h w^2$, with *your* function
# of 2.2.


# %%
def obd(model: nn.Module) -> dict[str, Tensor]:
    """OBD's score of every weight of the model as it is now, from 32 images."""
    h = mean_squared_gradients(model, x[:32], model(x[:32]).detach().softmax(1))
    weights = {name: w.detach() for name, w in model.named_parameters() if w.ndim >= 2}
    return {name: h[name] * w**2 / 2 for name, w in weights.items()}


dense_again = copy.deepcopy(dense[0])
prune_rescored(dense_again, geometric(0.9, 4), obd)
live = lab02.dense_rows([dense_again], data).accuracy.item()
words.say(f"Your OBD, 90 % in four rounds, 32 images, one seed: {live:.0f} %.")

# %% [markdown]
# {{claim 02.3}}
#
# Without training, OBD, Fisher and Taylor gain more than 50 points at 90 % by rescoring,
# on the digits. (Magnitude gains nothing: its scores of kept weights do not change.)
# With five epochs (MNIST: one) of training after each of six rounds, the figure shows
# how far each is ahead of magnitude. Differences are paired by seed. The decisive rival
# is **magnitude with OBD's share per layer**: it takes from OBD only *how many* weights
# each layer loses.

# %%
found = lab02.read_both("pruned").query("procedure == 'with training' and method != 'random'")
ahead = intervals.differences(found, "accuracy", against="magnitude", within=["images", "sparsity"])
AHEAD = {"x": "remaining", "y": "accuracy", "xaxis": "remaining", "panels": "images"}
plots.curves(
    ahead.assign(remaining=1 - ahead.sparsity),
    ylabel="accuracy minus that of magnitude (points)",
    title="Trained between rounds: which score is ahead of magnitude?",
    difference=True,
    control=None,
    **AHEAD,
)

# %% [markdown]
# {{claim 02.4}}

# %%
last = found.query("sparsity == 0.98")
tables.compare(last, "accuracy", against="magnitude, OBD's shares", columns="images")

# %% [markdown]
# At 98 % magnitude, ranked over all layers together, divides the thousand weights that the
# digits' network keeps badly: with OBD's shares it makes up most of the distance (its
# accuracy differs so much between seeds that the interval still contains 0). On MNIST the
# shares alone show no gain. On both, OBD is about five points ahead of magnitude with OBD's
# shares, so its order *within* a layer counts, too. On the digits OBD is also three to four
# points ahead of the input-aware score, which does not use the loss; on MNIST that score
# does as well. At 80 and 90 % magnitude is a point or two ahead of OBD, Fisher, Taylor and
# the input-aware score on the digits, and none is ahead of it on MNIST.
#
# ## Part C · One ladder
#
# Where does a layer's own output stay the same? Let $a$ be the input of a layer,
# $M = E[a\,a^\top]$, and minimise the error of its output,
#
# $$E\,\lVert (W - W')\,a \rVert^2 = \sum_i (w_i - w_i')\, M\, (w_i - w_i')^\top ,$$
#
# row by row ($w_i$: the weights of output $i$). If the removed weights of a row become 0
# and nothing else changes:
#
# - with $M$ = **identity** the error is $\sum w_{ij}^2$: remove the smallest $|w_{ij}|$,
#   **magnitude**;
# - with the **diagonal** of $M$ it is $\sum w_{ij}^2\, E[a_j^2]$: remove the smallest
#   $|w_{ij}|\cdot\lVert a_j\rVert$, **Wanda** ([Sun et al.
#   2023](https://arxiv.org/abs/2306.11695));
# - with the **full** matrix the kept weights can *repair* what the removed did: **OBS**,
#   *Optimal Brain Surgeon*, here for a layer's output instead of the loss ([Hassibi and Stork
#   1993](https://proceedings.neurips.cc/paper_files/paper/1992/hash/303ed4c69846ab36c2904d3ba8573050-Abstract.html)).
#
# ### 2.3 An input-aware mask
# **10 minutes · 2 points**
#
# The second rung. Compare scores **within each row**, as Wanda does: $\lVert x_j
# \rVert_2 = \sqrt{\sum_b x_{bj}^2}$ is over all samples (for texts, also over all
# positions). This needs one forward pass and no gradients, which is affordable for large
# language models. `prune_lowest(scores, k, dim=1)` prunes `k` in every row.
#
# **What is tested**: the exact number per row, `round(sparsity * in)`; inputs with any
# leading dimensions or none; sparsity 0 and 1.


# %%
def input_aware_mask(weight: Tensor, x: Tensor, sparsity: float) -> Tensor:
    """Compute a mask that prunes the smallest |w_ij|·‖x_j‖₂ in each row.

    Args:
        weight: (out, in). Not changed.
        x: (…, in), any leading dimensions (samples, positions), also none. Not changed.
        sparsity: the share to prune per row, in [0, 1].

    Returns:
        Bool (out, in), True = kept; in each row exactly ``round(sparsity * in)`` are
        False.

    >>> input_aware_mask(torch.tensor([[1.0, 2.0], [30.0, 40.0]]), torch.ones(2), 0.5).tolist()
    [[False, True], [False, True]]
    """
    ### BEGIN SOLUTION
    norm = x.reshape(-1, weight.shape[1]).square().sum(0).sqrt()  # (in,)
    return prune_lowest(weight.abs() * norm, round(sparsity * weight.shape[1]), dim=1)
    ### END SOLUTION


# %%
check("2.3")

# %% [markdown]
# <details><summary>Hint: the norm</summary>Bring x to two dimensions with
# <code>reshape(-1, in)</code>; square, sum over the first dimension, take the root. You
# get one number per input.</details>

# %% [markdown]
# ### 2.4 One row, exactly
# **20 minutes · 3 points**
#
# The third rung, for one row $w$ and one removed weight $j$. Minimise $\delta^\top M
# \delta$ subject to $\delta_j = -w_j$ ($\delta$: the change of the whole row). Lagrange:
# $2M\delta = \lambda e_j$, so $\delta$ is a multiple of $M^{-1}e_j$, and the condition
# fixes which:
#
# $$\delta = -\frac{w_j}{[M^{-1}]_{jj}}\,M^{-1}e_j, \qquad
# \text{error } \delta^\top M\delta = \frac{w_j^2}{[M^{-1}]_{jj}} .$$
#
# ($e_j$: 1 at $j$, else 0, so $M^{-1}e_j$ is column $j$.) If $M$ is diagonal, the error
# is Wanda's score, squared (divided by the number of samples), and no other weight moves.
#
# **What is tested**: the score of every weight; the removed weight is exactly 0 and the
# others move by the formula; $M$ with and without entries beside the diagonal.


# %%
def obs_scores(row: Tensor, M: Tensor) -> Tensor:
    """For each weight of the row, the error if it is removed and the others repair it.

    Write both yourself: not with ``course_lib.pruning``.

    Args:
        row: (in,), float64. M: (in, in), symmetric, positive definite, float64.

    Returns:
        (in,): w_j² / [M⁻¹]_jj.

    >>> obs_scores(torch.tensor([1.0, 2.0]).double(), torch.eye(2).double())
    tensor([1., 4.], dtype=torch.float64)
    """
    ### BEGIN SOLUTION
    return row**2 / M.inverse().diagonal()
    ### END SOLUTION


def obs_remove(row: Tensor, M: Tensor, j: int) -> Tensor:
    """Return a new row: weight j is exactly 0, the others have moved as the formula says.

    >>> M = torch.tensor([[2.0, 1.0], [1.0, 2.0]]).double()
    >>> obs_remove(torch.tensor([1.0, 2.0]).double(), M, 1)  # half of 2 moves to the other
    tensor([2., 0.], dtype=torch.float64)
    """
    ### BEGIN SOLUTION
    inverse = M.inverse()
    new = row - row[j] / inverse[j, j] * inverse[:, j]
    new[j] = 0
    return new
    ### END SOLUTION


# %%
check("2.4")

# %% [markdown]
# <details><summary>Hint 1: one inverse</summary><code>M.inverse()</code> has everything:
# its diagonal, and its columns.</details>
# <details><summary>Hint 2: exactly 0</summary>By the formula the new weight j is 0 up to
# rounding. Set it to 0.</details>

# %% [markdown]
# #### Experiment 4: how much does each rung add?
#
# Every row of every layer loses the same share, without training. For the full matrix,
# the lowest scores of a row are removed together, and its kept weights are solved for
# again.

# %%
rungs = parallel.sweep(
    lambda seed, method: lab02.on_the_ladder(dense[seed], data, method, [0.8], SAMPLES, seed),
    seed=range(1),
    method=lab02.LADDER,
)
words.say(", ".join(f"{row.method}: {row.accuracy:.0f} %" for row in rungs.itertuples()))
found = lab02.read_both("pruned")
PER_ROW = {"x": "sparsity", "y": "accuracy", "xaxis": "sparsity", "panels": "images"}
TITLE = "Per row, not trained: how much of E[a·aᵀ] does it take?"
plots.curves(found[found.procedure.isin(["per row", "dense"])], title=TITLE, **PER_ROW)

# %% [markdown]
# {{claim 02.5}}
#
# The diagonal alone does not help here: at 80 % of each row Wanda is far behind magnitude
# on both kinds of data. What helps is the third rung, which also moves the kept weights.
#
# Wanda was made for large language models, where a few features are a hundred times
# larger than the rest. For them magnitude triples the perplexity at 50 %, and Wanda
# raises it by about a quarter (Sun et al., LLaMA-7B: 17.29 for magnitude, 7.26 for Wanda,
# 5.68 dense).

# %% [markdown]
# ## Part D · Zeros by training
#
# ### 2.5 The proximal step
# **15 minutes · 2 points**
#
# Another method adds a penalty on the weights to the loss, $L + \lambda \sum |w|$
# (*L1*), and training chooses the zeros. SGD can use the subgradient
# $\lambda \operatorname{sign}(w)$, which pushes every weight towards zero.
#
# The proximal step solves another problem: which $v$ minimises
# $\frac12 (v - w)^2 + t\,|v|$? For $v > 0$ the derivative is zero at $v = w - t$, which
# is allowed only for $w > t$. The case $v < 0$ is symmetric. In between, the minimum is
# at the kink, $v = 0$:
#
# $$\operatorname{prox}_t(w) = \operatorname{sign}(w)\,\max(|w| - t,\, 0),$$
#
# which is *exactly* zero for every $|w| \le t$. One training step is an ordinary
# gradient step with rate $\eta$, followed by the proximal operator with
# $t = \eta\lambda$ ([Parikh and Boyd 2014](https://doi.org/10.1561/2400000003)). (For L2,
# $\frac12(v-w)^2 + t\,v^2$, the minimum is $w/(1+2t)$: smaller, but never 0.)
#
# **What is tested**: exact zeros, also at $|w| = t$; a number or a tensor of thresholds;
# the order of the two steps; biases are not penalised; shapes and dtypes.
#
# *Before you write anything:* after 40 epochs with the subgradient and λ = 3·10⁻⁴, what
# share of the weights, in %, will be exactly 0?

# %%
### BEGIN SOLUTION
prediction_2_5 = 0
### END SOLUTION


# %%
def soft_threshold(w: Tensor, t: float | Tensor) -> Tensor:
    """Apply the proximal operator of t·|·|. Write it yourself: not with ``F.softshrink``.

    Args:
        w: any shape; not changed.
        t: a number ≥ 0, or one per entry (a tensor like ``w``).

    Returns:
        A tensor like ``w``, with its dtype; exactly 0 (or −0) where |w| ≤ t.

    >>> soft_threshold(torch.tensor([-2.0, 0.25, 1.0]), 0.5)
    tensor([-1.5000,  0.0000,  0.5000])
    """
    ### BEGIN SOLUTION
    t = torch.as_tensor(t).to(w.dtype)
    return w.sign() * (w.abs() - t).clamp(min=0)
    ### END SOLUTION


def proximal_step(
    weights: dict[str, Tensor], gradients: dict[str, Tensor], lr: float, lam: float
) -> dict[str, Tensor]:
    """Make a gradient step on the loss, then the proximal step of lam·Σ|w|.

    Args:
        weights: by name; not changed.
        gradients: of the loss without the penalty, with the same keys.
        lr, lam: η and λ, at least 0.

    Returns:
        New tensors with the keys of ``weights`` in their order. Only tensors with two or
        more dimensions are penalised: biases get the gradient step alone.

    >>> proximal_step({"w": torch.tensor([[0.5]])}, {"w": torch.tensor([[0.25]])}, lr=0.5, lam=1.0)
    {'w': tensor([[0.]])}
    """
    ### BEGIN SOLUTION
    new = {}
    for name, w in weights.items():
        moved = w - lr * gradients[name]
        new[name] = soft_threshold(moved, lr * lam) if w.ndim >= 2 else moved
    return new
    ### END SOLUTION


# %%
check("2.5")

# %% [markdown]
# <details><summary>Hint 1: which threshold?</summary>A step has length η, so the penalty
# of this step is η·λ.</details>
# <details><summary>Hint 2: in which order?</summary>First the gradient step, then the
# threshold, so that weights below it are exactly 0 after the step.</details>

# %% [markdown]
# #### Experiment 5: does a penalty find better zeros than magnitude?
#
# The same network and initial weights, SGD (η = 0.1), 40 epochs for all (MNIST: 10). Live: the
# subgradient, the proximal step (both λ = 0.0003) and L2 (λ = 0.001). In the figure: the
# proximal step for five λ; and its rival with as many epochs, **magnitude** (half of the
# epochs dense, then the smallest weights are pruned and the rest is trained on), with
# *random* masks as the baseline.

# %%
strengths = {"proximal": 3e-4, "subgradient": 3e-4, "L2": 1e-3}
fresh = {how: build("lenet300", data, seed=0) for how in strengths}
found = parallel.sweep(
    lambda seed, method: lab02.with_l1(
        fresh[method], data, seed, method, strengths[method], SETTINGS["l1_epochs"]
    ),
    seed=range(1),
    method=strengths,
)
columns = {"zeros": "exact zeros (%)", "small": "below 0.001 (%)"}
tables.show(tables.means(found, columns | {"accuracy": "validation accuracy (%)"}))
words.say(f"Your guess for the subgradient: {prediction_2_5} % exact zeros.")

# %%
found = lab02.read_both("penalties")
plots.curves(
    found[found.method.isin(["proximal", "magnitude", "random"])],
    x="zeros",
    y="accuracy",
    along="strength",
    xlabel="weights that are exactly 0 (%)",
    panels="images",
    title="Zeros by a penalty, and by magnitude with as many epochs",
)

# %% [markdown]
# {{claim 02.6}}
#
# With the subgradient as many weights end *near* zero, but none is *exactly* zero: each
# oscillates around zero in steps of ηλ. The proximal step makes exact zeros, but it also
# shrinks every weight that is kept. With few zeros we detect no difference; with many,
# magnitude is ahead on the digits, and on MNIST the sign is the same, but three seeds cannot
# decide. Look at the grey line, too: up to 60 % zeros we detect no difference between the
# penalty and *random* masks that are trained on. Lab 06 gives each weight its own penalty.

# %% [markdown]
# ## Part E · What was it worth?
#
# We prune 95 % of the weights by Fisher and by magnitude, rescored at four targets with
# training after each, and use the **test images, once**, for the ledger.

# %%
TARGETS = (0.5, 0.8, 0.9, 0.95)


def finish(method: str, seed: int) -> nn.Module:
    epochs, criterion = SETTINGS["retrain"], lab02.CRITERIA[method]
    return lab02.trained_between(dense[seed], data, criterion, TARGETS, few, epochs, seed)[0]


arms = ("Fisher", "magnitude", "random")
finished = parallel.sweep(finish, measure="model", method=arms, seed=range(SEEDS))
models = {f"{method} 95 %": list(of.model) for method, of in finished.groupby("method", sort=False)}

# %%
costs = common.costs_and_tests({"dense": dense, **models}, data)  # the only use of the test images
for method, of in costs.groupby("method", sort=False):
    bits, macs, ms = (of[column].iloc[0] for column in ("bits", "macs", "ms"))
    ledger.add("lenet300", method, lab="02", bits=bits, macs=macs, ms=ms, accuracy=of.test)
words.say(
    "Fisher against magnitude, test accuracy:"
    f" {words.minus(costs, 'test', 'Fisher 95 %', 'magnitude 95 %')}."
)
ledger.table()

# %% [markdown]
# Zeros save bits, but no milliseconds: the kernels are dense, as in lab 01. The table
# does not contain the cost of *scoring*: Fisher takes one backward pass per sample, the
# Gauss–Newton diagonal ten, magnitude none.
#
# ### 2.6 Two short answers
# **5 minutes · 1 point**
#
# **What is tested**: the letters of **a** and **b**.
#
# **a.** The signed forecast predicts the removal of single weights almost exactly.
# Pruned in its order at 50 %, the network is no better than random guessing. Why?
#
# - **A.** Each forecast assumes that all other weights are kept: thousands of removals
#   that would each lower the loss alone need not lower it together.
# - **B.** The forecast is wrong for small weights, and most weights are small.
# - **C.** The forecast is made on training images, and the accuracy is measured on
#   others.
# - **D.** Many forecasts are equal, and ties are broken by position, so a layer's first
#   rows are emptied.
#
# **b.** One difference of this lab with its 95 % intervals, on both kinds of data:
#
# {{difference 02.3}}
#
# Which of these sentences do the intervals permit?
#
# - **A.** On MNIST, Fisher in twelve rounds and magnitude are equally good at 90 %.
# - **B.** On MNIST, magnitude is ahead of Fisher in twelve rounds at 90 %.
# - **C.** Fisher in twelve rounds is ahead of magnitude at 90 % on both kinds of data.
# - **D.** On the digits Fisher in twelve rounds is ahead of magnitude at 90 %; on MNIST
#   no difference is detected.

# %%
### BEGIN SOLUTION
answer_2_6a = "A"
answer_2_6b = "D"
### END SOLUTION

# %%
check("2.6")

# %% [markdown]
# ## What you take with you
#
# - The forecast predicts the removal of *one* weight almost exactly, with its sign.
# - For many weights both the diagonal and the quadratic assumption fail, from the first
#   tenth of a per cent on. As an order for many weights the signed forecast destroys the network.
# - Compute scores again after each step. At 90 % on the digits OBD and Fisher, scored once,
#   are far worse than magnitude, and in twelve rounds better (not detected on MNIST).
# - At 98 % with training, two things count: how many weights each *layer* keeps, and which
#   ones. A rival with OBD's shares separates them.
# - Magnitude, Wanda and OBS minimise the same error of a layer's output, with more and
#   more of E[a·aᵀ].
# - A proximal step produces exact zeros, a subgradient does not.
#
# ### Five questions to recap
#
# 1. Why is the first-order term $-g\,w$ and not $+g\,w$?
#    <details><summary>Answer</summary>The step goes from w to 0, so it is −w.</details>
# 2. Why must you square before you average in the empirical Fisher?
#    <details><summary>Answer</summary>After training the mean gradient is nearly 0; the
#    Fisher measures the spread.</details>
# 3. When is the Gauss–Newton diagonal the exact second derivative?
#    <details><summary>Answer</summary>If non-linearities are piecewise linear and no
#    weight is tied.</details>
# 4. Why does magnitude gain nothing from rescoring without training?
#    <details><summary>Answer</summary>The kept weights, and so their scores, do not
#    change.</details>
# 5. What does OBS do that no mask can?
#    <details><summary>Answer</summary>It moves the kept weights, so that they do what the
#    removed weight did.</details>
#
# ## Going further
#
# - **Real data.** `DATA = "mnist"` runs the lab on MNIST: the longest parts are read from
#   the result file, the rest is live, with three seeds.
# - **One removal after the other.** `obs_remove` for the weight with the lowest score,
#   then the next: how far is that from removing a row's lowest scores together?
#   [OBC](https://arxiv.org/abs/2208.11580) and
#   [SparseGPT](https://arxiv.org/abs/2301.00774) do so layer by layer.
# - **Read** the papers linked above.
# - **Next.** In lab 03 you ask whether the small network existed from the beginning.
