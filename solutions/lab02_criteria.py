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
# | A · One weight | 2.1 the forecast, 2.2 the empirical Fisher, 2.3 the curvature | how good the forecast of one removal is |
# | B · Fifty thousand | 2.4 prune and rescore | how well the forecast ranks many weights |
# | C · The input | 2.5 an input-aware mask | when a small weight is the important one |
# | D · Zeros by training | 2.6 the proximal step, 2.7 reweighted (optional) | which training gives exact zeros |
# | E · What was it worth? | 2.8 two short answers, 2.9 a bug hunt (optional) | the costs, and the test images once |
#
# 17 points; about 3½ hours without the optional exercises 2.7 and 2.9. Their
# 3 bonus points can replace points that you lose elsewhere in the lab. To leave one
# out, write `skip("2.7")` in a cell: the lab continues with the course's version.
#
# **Prerequisites.** Lab 01 (masks, one-shot and iterative pruning, intervals); gradients
# with `torch.autograd.grad`; second derivatives.
#
# Symbols, terms and the meaning of ±: [one page for all labs](../docs/notation.md).
#
# **After this lab you can**
#
# - predict the change of the loss when one weight is removed, to second order;
# - compute the empirical Fisher and the Gauss–Newton diagonal, and say how they differ;
# - prune with scores that are computed again after each step;
# - train exact zeros with a proximal step.
#
# `check("2.1")` and `skip("2.1")` work as in lab 01. The same rules hold: guess first;
# choose on validation data and look at the test data once; no claim without a random
# baseline and three seeds.

# %%
from functools import partial

from course_lib.grading import check, skip  # noqa: F401  (skip is yours to use)

# isort: split
import copy  # noqa: F401  (yours to use)
from collections.abc import Callable

import numpy as np  # noqa: F401  (yours to use)
import pandas as pd
import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional as F

from course_lib import devices, experiments, intervals, ledger, parallel
from course_lib.data.images import load
from course_lib.experiments import lab02
from course_lib.modes import evaluating as in_evaluation_mode
from course_lib.show import plots, tables, words

# %% [markdown]
# This picture shows the idea of the lab. At the trained weight $w$ you compute the
# gradient $g$ and the second derivative $h$ of the loss. From these two numbers you
# forecast the loss at 0.

# %%
lab02.draw_forecast()

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
# Two well-known criteria each use one term of this formula. *Optimal Brain Damage*
# ([LeCun, Denker and Solla
# 1990](https://papers.neurips.cc/paper/1989/hash/6c9882bbac1c7093bd25041881277658-Abstract.html))
# assumes $g = 0$, as at a minimum, and uses $\frac12 h w^2$. The *Taylor* score uses
# $|g\,w|$, the size of the first term. ([Molchanov et al.
# 2017](https://arxiv.org/abs/1611.06440) score feature maps this way, with activations
# instead of weights.)
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

    Raises:
        ValueError: if shapes differ.

    >>> loss_change(torch.tensor([2.0]), torch.tensor([0.5]), torch.tensor([3.0]))
    tensor([5.])
    """
    for other in (gradient, curvature):
        if other is not None and other.shape != weight.shape:
            raise ValueError(
                f"gradient and curvature must have weight's shape {tuple(weight.shape)}, got"
                f" {tuple(other.shape)}"
            )
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

# %% [markdown]
# ### 2.2 The empirical Fisher
# **25 minutes · 3 points**
#
# The gradient costs one backward pass. Second derivatives are more expensive: for
# 50,000 weights the Hessian matrix has 2.5 billion entries, and even its diagonal needs
# more than one backward pass. A popular replacement is the **empirical Fisher
# information**: for each sample take the gradient of *its own* loss, square it, and
# only then average,
#
# $$F_j = \frac1N \sum_{i=1}^N \Big(\frac{\partial}{\partial w_j}\big(-\log p(y_i \mid x_i)\big)\Big)^2.$$
#
# $F$ is the diagonal of $\frac1N \sum_i g_i g_i^\top$. It measures the *spread* of the
# gradients. Square before you average: after training the mean gradient is nearly 0.
#
# For a batch, `loss.backward()` gives only the mean gradient. So use one sample at a
# time, or compute many gradients at once with `torch.func.vmap`. Use evaluation mode,
# and restore every module's own mode afterwards: `with in_evaluation_mode(model):`,
# imported above, does both. Do not leave gradients in `.grad`: `torch.autograd.grad`
# returns them instead.
#
# **What is tested**: the formula, for any number of samples; float64 results; dropout,
# batch norm and frozen parameters; modes and `.grad` are unchanged.
#
# `functional_call(model, parameters, (x,))` runs a model with *your* tensors instead of
# its parameters. You can set `requires_grad=True` on these tensors even if the model's own
# parameters are frozen:

# %%
parameters = {name: p.detach().clone().requires_grad_() for name, p in dense[0].named_parameters()}
logits = functional_call(dense[0], parameters, (x[:1],))
first = torch.autograd.grad(F.cross_entropy(logits, y[:1]), list(parameters.values()))
words.say(
    "One sample:"
    f" {', '.join(f'{name} {tuple(g.shape)}' for name, g in zip(parameters, first, strict=True))}."
)


# %%
def empirical_fisher(model: nn.Module, x: Tensor, y: Tensor) -> dict[str, Tensor]:
    """Average the squared gradient of each sample's cross entropy over the samples.

    Write it yourself: not with ``course_lib.pruning``.

    Args:
        model: x (B, …) -> logits (B, classes). The modes of its modules and the ``.grad``
            of its parameters must be the same after the call as before.
        x, y: (N, …) and (N,) int64, the labels; N ≥ 1.

    Returns:
        Name -> float64 tensor with the parameter's shape, for all of
        ``model.named_parameters()``, frozen ones too. Gradients have the model's dtype;
        convert them to float64 before you square and add.

    Raises:
        ValueError: if there is no sample.

    >>> empirical_fisher(nn.LayerNorm(2), torch.ones(2, 2), torch.arange(2))["bias"]  # gradients ±½
    tensor([0.2500, 0.2500], dtype=torch.float64)
    """
    if len(x) == 0:
        raise ValueError("x must have at least one sample")
    ### BEGIN SOLUTION
    parameters = {name: p.detach().clone().requires_grad_() for name, p in model.named_parameters()}
    total = {name: torch.zeros_like(p, dtype=torch.float64) for name, p in parameters.items()}
    with in_evaluation_mode(model):
        for i in range(len(x)):
            loss = F.cross_entropy(
                functional_call(model, parameters, (x[i : i + 1],)), y[i : i + 1]
            )
            gradients = torch.autograd.grad(loss, list(parameters.values()))
            for name, g in zip(parameters, gradients, strict=True):
                total[name] += g.double() ** 2
    return {name: t / len(x) for name, t in total.items()}
    ### END SOLUTION


# %%
check("2.2")

# %% [markdown]
# <details><summary>Hint 1: a batch of one</summary><code>x[i : i + 1]</code> keeps the
# batch dimension. With a batch of one the mean of cross_entropy is the sample's own
# loss.</details>
# <details><summary>Hint 2: in which order?</summary>Gradient of one
# sample → double → square → add up → in the end divide by N.</details>
# <details><summary>Hint 3: faster</summary>With <code>torch.func</code>:
# <code>vmap(grad(loss_of_one), in_dims=(None, 0, 0))(parameters, x, y)</code>, for a chunk
# of samples at a time; square and sum over the first dimension.</details>

# %% [markdown]
# ### 2.3 The curvature itself
# **25 minutes · 3 points**
#
# The empirical Fisher equals a curvature only if the model predicts the right
# probabilities of the labels. [Kunstner, Balles and Hennig
# 2019](https://arxiv.org/abs/1905.12558) show how wrong the Fisher can be. What *is*
# the second derivative?
#
# Call the logits $z$. For cross entropy the Hessian with respect to the logits is
# $\operatorname{diag}(p) - p\,p^\top$, for any label. A network of ReLUs is *piecewise
# linear in each single weight*: if one weight changes and the others are fixed, the
# logits move along a line until some unit becomes active or inactive. So the second
# derivatives of the logits are 0, and by the chain rule
#
# $$h_j = \frac{\partial z}{\partial w_j}^{\!\top}\! \big(\operatorname{diag}(p) - p\,p^\top\big) \frac{\partial z}{\partial w_j}
# \;=\; \sum_c p_c \Big(\frac{\partial \log p_c}{\partial w_j}\Big)^2 .$$
#
# The last step holds because $\partial \log p_c = \partial z_c - \sum_k p_k\, \partial z_k$:
# both sides are the variance of $\partial z_c$ under $p$.
#
# The right-hand side is the *true* Fisher information, or Gauss–Newton diagonal. It is
# computed as in 2.2, but over all classes, weighted by their probabilities, instead of
# for the label's class only. **No labels are needed.** Do not differentiate the factor
# $p_c$: it is a constant. Average over samples as before.
#
# This formula is exact if each weight is used in one layer and every non-linearity is
# piecewise linear. It is not exact for tied weights, GELU, softmax attention, or batch
# norm in training mode.
#
# **What is tested**: the right-hand side, also for a smooth network (where it is not
# the Hessian); the rest as in 2.2.


# %%
def curvature(model: nn.Module, x: Tensor) -> dict[str, Tensor]:
    """Average Σ_c p_c(x)·(∂ log p_c(x)/∂w)² over the samples x.

    p is the softmax of the logits; the factor p_c is not differentiated.

    Write it yourself: not with ``course_lib.pruning`` or ``torch.func.hessian``.

    Args:
        model, x: as in 2.2.

    Returns:
        Name -> float64 tensor, as in 2.2.

    Raises:
        ValueError: if there is no sample.

    >>> curvature(nn.LayerNorm(2), torch.ones(3, 2))["bias"]  # both p are ½
    tensor([0.2500, 0.2500], dtype=torch.float64)
    """
    if len(x) == 0:
        raise ValueError("x must have at least one sample")
    ### BEGIN SOLUTION
    parameters = {name: p.detach().clone().requires_grad_() for name, p in model.named_parameters()}
    total = {name: torch.zeros_like(p, dtype=torch.float64) for name, p in parameters.items()}
    with in_evaluation_mode(model):
        for i in range(len(x)):
            # (classes,)
            log_p = F.log_softmax(functional_call(model, parameters, (x[i : i + 1],)), dim=1)[0]
            for share, one in zip(log_p.detach().double().exp(), log_p, strict=True):
                gradients = torch.autograd.grad(one, list(parameters.values()), retain_graph=True)
                for name, g in zip(parameters, gradients, strict=True):
                    total[name] += share * g.double() ** 2
    return {name: t / len(x) for name, t in total.items()}
    ### END SOLUTION


# %%
check("2.3")

# %% [markdown]
# <details><summary>Hint 1: it is 2.2 with one loop more</summary>Loop over the classes,
# and replace <code>-log p[label]</code> by <code>log p[c]</code> (squaring removes the
# sign).</details>
# <details><summary>Hint 2: several gradients from one forward
# pass</summary><code>torch.autograd.grad(…, retain_graph=True)</code>.</details>
# <details><summary>Hint 3: everything is 0?</summary>Σ_c p_c ∂ log p_c is always 0
# (probabilities sum to 1). Square each class's gradient before you add.</details>

# %% [markdown]
# #### Experiment: forecast and measured change
#
# Each criterion is a score; weights with the lowest scores are pruned first ($F$ is
# from 2.2, $h$ from 2.3; $x$ is the weight's input):
#
# | signed forecast | OBD | Fisher | Taylor | input-aware | magnitude | random |
# |---|---|---|---|---|---|---|
# | $-gw + \frac12hw^2$ | $\frac12hw^2$ | $\frac12Fw^2$ | $\lvert gw\rvert$ | $\lvert w\rvert\cdot\lVert x\rVert$ | $\lvert w\rvert$ | random numbers |
#
# We draw 300 weights, a hundred per layer. We set one weight at a time to zero, and
# measure the change of the mean loss on the same images
# ([code](../course_lib/experiments/lab02.py): `single_weights`). The figure shows one
# seed.


# %%
single = parallel.sweep(
    lambda seed: lab02.single_weights(dense[seed], x, y, 300, seed), seed=range(SEEDS)
)
lab02.forecast_and_truth(single[single.seed == 0])

# %%
rho = lab02.rank_correlations(single)
tables.show(tables.means(rho, {"size": "ρ with the size of the change"}, digits=2))
words.say(
    "The signed forecast against the *signed* change: ρ ="
    f" **{words.pm(rho[rho.method == 'signed forecast'].signed, 3)}**."
)

# %%
change = single[single.method == "random"].set_index("seed").change  # each weight once
score = single.pivot(index=["seed", "weight"], columns="method", values="score")
falls, stays, first_larger = (
    words.pm(100 * found.groupby("seed").mean(), 0)
    for found in (change < 0, change == 0, score["Taylor"] > score["OBD"])
)
words.say(
    f"The loss *falls* when one of {falls} % of these weights is removed, and does not change for"
    f" {stays} %. The first term, |gw|, is larger than the second, ½hw², for {first_larger} % of"
    f" these weights."
)

# %% [markdown]
# {{claim 02.1}}
#
# The forecast almost equals the measured change, also in its sign. The loss falls if a
# weight to the left of 0 is removed, about three weights in ten. Two in ten change
# nothing, because their pixel is blank or their unit is never active. The ρ of
# magnitude is much lower, and that of random scores is about 0.
#
# The first term is larger for most weights. A network that was stopped early enough to
# be useful is not at a minimum, so $g = 0$ does not hold. And where all samples are
# classified correctly, $h$ is small, too. But *alone* the two terms give almost the
# same order, since both grow with $w$ and with the use of the weight's input and
# output. Assuming $g = 0$ hardly changes the ranking, but it makes the predicted size
# and sign of the change wrong.

# %% [markdown]
# #### Experiment: fifty thousand weights, all at once
#
# Rank all weights by their forecast, lowest first, and remove half of them, beginning
# with those whose removal *lowers* the loss.
#
# *Before you look:* which accuracy, in %, will the network have after 80 % of the
# weights are removed by the *signed forecast*?

# %%
### BEGIN SOLUTION
prediction_2_4 = 97
### END SOLUTION

# %%
SHARES = (0.3, 0.5, 0.7, 0.8, 0.9)
at_once = parallel.sweep(
    lambda seed, method: lab02.at_once(dense[seed], data, method, SHARES, SAMPLES, seed),
    seed=range(SEEDS),
    method=lab02.CRITERIA,
)
plots.curves(
    pd.concat([dense_rows, at_once]),
    x="sparsity",
    y="accuracy",
    xaxis="sparsity",
    title="All at once: which score gives the best order?",
    guess=(0.8, prediction_2_4),
    constant=10,
)

# %%
tables.compare(at_once[at_once.sparsity == 0.8], {"accuracy": "at 80 % (points)"})

# %% [markdown]
# {{claim 02.2}}
#
# At 50 % the order of the almost perfect forecast destroys the network, while a random
# choice keeps much of the accuracy. Simple magnitude is among the best. The forecast is
# not wrong: it holds for **one** weight.
#
# A derivative is local: each forecast holds while all other weights are kept. Thousands
# of removals, each of which lowers the loss a little, change the logits in the same
# direction. Together they go far past the point where the change was an improvement.
# Unsigned scores (OBD, Fisher, Taylor) at least choose weights that change the loss
# little in either direction, so the sum stays small for longer. (Taylor only up to
# about 50 %: if $g$ happens to be near 0, Taylor prunes the weight however strongly the
# loss curves there.) Removing small weights makes a small *step*, for which all
# forecasts are still good.

# %% [markdown]
# ## Part B · Fifty thousand weights
#
# ### 2.4 Compute the scores again
# **25 minutes · 3 points**
#
# If a score holds only near the point where it was computed, prune fewer weights at a time
# and compute the scores again after each step. In lab 01's iterative pruning the weights
# were *trained* between two steps; here nothing is trained.
#
# **What is tested**: all weights in one ranking; one call of `score` per target, on the
# model as already pruned; ties; kept weights that are 0; NaN scores of pruned weights;
# a target of 1, no targets; `ValueError` before anything is changed; nothing else
# changes.


# %%
def prune_rescored(
    model: nn.Module, score: Callable[[nn.Module], dict[str, Tensor]], targets: list[float]
) -> dict[str, Tensor]:
    """Prune to each target in turn; before each, compute the scores of the current model.

    For each target t:
    1. Call ``score(model)`` once.
    2. Prune the lowest scores among the kept weights of all layers together, until
       exactly ``round(t * n)`` of the n weights are pruned. Pruned weights stay pruned.
    3. Set the pruned weights to 0.

    Among equal scores the lower index is pruned first (layers in the order of
    ``named_parameters()``, row-major inside). A weight of 0 that was not pruned counts as kept.

    Args:
        model: changed in place. Nothing is trained.
        score: gives scores by name, at least for every parameter with two or more
            dimensions (others are ignored); larger = more important. Scores are compared
            in float64; those of pruned weights may be anything, also NaN.
        targets: cumulative shares of the n weights to prune, rising, each in [0, 1].

    Returns:
        Bool masks by name (True = kept). For no targets: all True.

    Raises:
        ValueError: before ``score`` is called or anything changes, if a target is outside
            [0, 1] or not above the one before.

    >>> score = lambda model: {"weight": torch.tensor([[3.0, 1.0, 2.0, 4.0]])}
    >>> prune_rescored(nn.Linear(4, 1), score, [0.25, 0.5])["weight"]
    tensor([[ True, False, False,  True]])
    """
    ### BEGIN SOLUTION
    if any(not 0 <= t <= 1 for t in targets) or any(
        b <= a for a, b in zip(targets, targets[1:], strict=False)
    ):
        raise ValueError(f"targets must rise and lie in [0, 1], got {targets}")
    weights = {name: p for name, p in model.named_parameters() if p.ndim >= 2}
    masks = {name: torch.ones_like(p, dtype=torch.bool) for name, p in weights.items()}
    alive = torch.cat([mask.flatten() for mask in masks.values()])  # (n,), all layers in a row
    for target in targets:
        scores = score(model)
        flat = torch.cat([scores[name].detach().double().flatten() for name in weights])
        flat = flat.masked_fill(~alive, -torch.inf)  # pruned weights come first: they stay pruned
        order = flat.argsort(stable=True)
        gone = torch.cat([order[~alive[order]], order[alive[order]]])[: round(target * len(flat))]
        alive = torch.ones_like(alive)
        alive[gone] = False
        parts = alive.split([p.numel() for p in weights.values()])
        masks = {
            name: part.view(p.shape) for (name, p), part in zip(weights.items(), parts, strict=True)
        }
        with torch.no_grad():
            for name, p in weights.items():
                p[~masks[name]] = 0
    return masks
    ### END SOLUTION


# %%
check("2.4")

# %% [markdown]
# <details><summary>Hint 1: one list</summary>Flatten all scores into one vector;
# <code>split</code> brings it back to the layers.</details>
# <details><summary>Hint 2: how many?</summary>Rank only the kept weights. Weights
# pruned before count towards <code>round(t · n)</code>, so prune only as many as are
# still missing.</details>
# <details><summary>Hint 3: a pruned weight scores high now</summary>This is possible:
# its gradient is not 0. Set the scores of pruned weights to −inf, or remove them from
# the list, before you sort.</details>

# %% [markdown]
# #### Experiment: twelve rounds
#
# We prune to 90 % in twelve rounds. Each round prunes the same share of the kept
# weights, with scores from 256 images. *Your* function runs the rounds. The criteria
# are the library's, which are faster.
#
# *Before you look:* which accuracy, in %, will OBD have at 90 %, with scores computed
# 12 times? (Once, it has about 30 %.)

# %%
### BEGIN SOLUTION
prediction_2_4b = 80
### END SOLUTION

# %%
RESCORED = ("OBD", "Fisher", "Taylor", "magnitude", "random")
FEW = min(SAMPLES, lab02.ROUND_SAMPLES)  # training images, where scores are computed often


def rescored(seed: int, method: str) -> list[dict[str, float]]:
    """Accuracy at 90 %; your function computes the scores again in each round."""
    return lab02.in_rounds(prune_rescored, dense[seed], data, method, [0.9], FEW, seed)


in_rounds = parallel.sweep(rescored, seed=range(SEEDS), method=RESCORED).assign(scored="12 times")
once = at_once[(at_once.sparsity == 0.9) & at_once.method.isin(RESCORED)].assign(scored="once")
both = pd.concat([once, in_rounds])
title = "At 90 %, not trained: scores computed once, or 12 times"
look = {"fmt": "{:.0f}", "guess": ("OBD", prediction_2_4b), "constant": 10}
plots.bars(both, x="method", y="accuracy", by="scored", title=title, **look)

# %%
pruned = experiments.read(f"lab02_criteria_{DATA}/pruned")
six = pruned[(pruned.procedure == "in rounds") & (pruned.sparsity == 0.9)]
first = lab02.first_round(dense[0], x[:FEW], y[:FEW])
words.say(
    f"With {six.seed.nunique()} seeds, in rounds at 90 %, against magnitude: Fisher"
    f" {words.minus(six, 'accuracy', 'Fisher', 'magnitude')}, OBD"
    f" {words.minus(six, 'accuracy', 'OBD', 'magnitude')}. The signed forecast, in rounds:"
    f" {words.pm(six[six.method == 'signed forecast'].accuracy)} %."
    f"\n\nThe first round by the signed forecast, one seed:"
    f" {first['weights']:,} weights, whose forecasts add up to {first['forecast']:+.2f}; the loss"
    f" was {first['before']:.2f} and is {first['after']:.1f}."
)

# %% [markdown]
# {{claim 02.3}}
#
# Taylor, Fisher and OBD each gain more than 50 points by scoring again; we could not
# detect which of them gains most. OBD and Fisher were far behind magnitude and are now
# ahead of it; Taylor has caught up with it. (Magnitude differs much between seeds. With three seeds
# we could not detect the lead of OBD and Fisher; with six we can.) Magnitude gains
# nothing: without training its scores are the same in each round.
#
# The signed forecast fails in the very first round. The weights with the largest predicted
# gains are removed all at once. Their predicted gains add up to many times the current
# loss, which is impossible because the loss cannot fall below 0. Twelve rounds do not help
# after that.
#
# Does rescoring also help with training in between, as in practice? The result file
# contains six targets, with five epochs after each (six seeds).

# %%
trained = pruned[pruned.procedure.isin(["dense", "with training"])]
plots.curves(
    trained.assign(remaining=1 - trained.sparsity),
    x="remaining",
    y="accuracy",
    xaxis="remaining",
    title="Accuracy by share of weights kept, trained between rounds",
)

# %% [markdown]
# How far is each criterion ahead of magnitude? Differences are paired by seed. If an
# interval excludes 0, the two criteria are statistically distinguishable.

# %%
shown = trained[~trained.method.isin(["dense", "random"])]
ahead = intervals.differences(shown, "accuracy", against="magnitude", within=["sparsity"])
plots.curves(
    ahead.assign(remaining=1 - ahead.sparsity),
    x="remaining",
    y="accuracy",
    ylabel="accuracy minus that of magnitude (points)",
    xaxis="remaining",
    difference=True,
    control=None,
    title="Difference from magnitude, trained between rounds",
)

# %% [markdown]
# {{claim 02.4}}
#
# At 98 %, with a thousand weights kept, the criteria that use the loss are about 20
# points ahead of magnitude. But the input-aware score, which does not use the loss, is
# ahead of magnitude by nearly as much. So it is not the loss alone that helps; magnitude
# may divide the weights badly among the layers.
#
# {{claim 02.5}}
#
# **What the papers found.** LeCun, Denker and Solla (1990) pruned a network for
# handwritten digits to a quarter of its parameters by ½hw², a part at a time with
# training in between. Without this training the error rose soon. Hassibi and Stork
# ([1993](https://proceedings.neurips.cc/paper_files/paper/1992/hash/303ed4c69846ab36c2904d3ba8573050-Abstract.html))
# use the whole Hessian (*Optimal Brain Surgeon*). Molchanov et al. (2017) prune feature
# maps one at a time by |gradient · activation|, with training in between. None of them
# ranks by the signed forecast.

# %% [markdown]
# ## Part C · The input
#
# ### 2.5 An input-aware mask
# **20 minutes · 3 points**
#
# Magnitude ignores the input. A layer computes $\sum_j w_{ij} x_j$, and a weight of
# 0.01 on an input of 1,000 contributes more than a weight of 1 on an input of 0.1.
# [Sun et al. (2023)](https://arxiv.org/abs/2306.11695), *Wanda*, score each weight by
#
# $$|w_{ij}| \cdot \lVert x_j \rVert_2, \qquad \lVert x_j \rVert_2 = \sqrt{\textstyle\sum_b x_{bj}^2}\,,$$
#
# where the norm is over all samples (for texts, also over all positions). They compare
# scores **within each row**, that is, among the weights of one output. This needs one
# forward pass and no gradients, which is affordable for large language models.
#
# **What is tested**: the exact number per row; ties; inputs with any leading dimensions or
# none; sparsity 0 and 1; and your example below.


# %%
def input_aware_mask(weight: Tensor, x: Tensor, sparsity: float) -> Tensor:
    """Compute a mask that prunes the smallest |w_ij|·‖x_j‖₂ in each row.

    Args:
        weight: (out, in). Not changed.
        x: (…, in), any leading dimensions (samples, positions), also none. Not changed.
        sparsity: the share to prune per row, in [0, 1].

    Returns:
        Bool (out, in), True = kept; in each row exactly ``round(sparsity * in)`` are
        False. Among equal scores the lower index is pruned first. Norms are taken over
        all leading dimensions and summed in float64.

    Raises:
        ValueError: if ``sparsity`` is outside [0, 1].

    >>> input_aware_mask(torch.tensor([[1.0, 2.0], [30.0, 40.0]]), torch.ones(2), 0.5).tolist()
    [[False, True], [False, True]]
    """
    if not 0 <= sparsity <= 1:
        raise ValueError(f"sparsity is a share and must lie in [0, 1], got {sparsity}")
    ### BEGIN SOLUTION
    norm = x.double().reshape(-1, weight.shape[1]).square().sum(0).sqrt()  # (in,)
    score = weight.double().abs() * norm  # (out, in)
    mask = torch.ones_like(weight, dtype=torch.bool)
    lowest = score.argsort(dim=1, stable=True)[:, : round(sparsity * weight.shape[1])]
    mask.scatter_(1, lowest, False)
    return mask
    ### END SOLUTION


# %% [markdown]
# Then write an example in which magnitude prunes the wrong one of two weights. The
# weight with the smaller $|w|$ must contribute at least **ten times** as much as the
# other, in $\sum_b |w_j\,x_{bj}|$.


# %%
def magnitude_is_wrong() -> tuple[Tensor, Tensor]:
    """Return your example: weight (1, 2) with two different |w|, and x (B, 2), B ≥ 2.

    All numbers are finite.
    """
    ### BEGIN SOLUTION
    return torch.tensor([[0.01, 1.0]]), torch.tensor([[1000.0, 0.1], [-800.0, 0.2], [900.0, -0.1]])
    ### END SOLUTION


# %%
check("2.5")

# %% [markdown]
# <details><summary>Hint 1: the norm</summary>Bring x to two dimensions with
# <code>reshape(-1, in)</code>; square, sum over the first dimension, take the root. You
# get one number per input.</details>
# <details><summary>Hint 2: each row separately</summary><code>argsort(dim=1,
# stable=True)</code>; its first columns are the places to prune.</details>

# %%
mask = input_aware_mask(dense[0].get_parameter("fc1.weight").detach(), x.flatten(1), 0.5)
blank = (x.flatten(1) == 0).all(0)  # pixels without ink in all of these images
words.say(
    f"Of the weights on the {int(blank.sum())} pixels that are blank in all these images, your mask"
    f" keeps **{100 * mask[:, blank].float().mean():.0f} %** at a sparsity of 50 %. Magnitude"
    " does not depend on the input. On the whole network, all layers ranked together, no training:"
)
pair = pruned[(pruned.procedure == "at once") & pruned.method.isin(["input-aware", "magnitude"])]
pair = pair[pair.sparsity.isin([0.8, 0.9])]
tables.compare(pair, {"accuracy": "points"}, against="magnitude", columns="sparsity")

# %% [markdown]
# On the digits, ranked over all layers together, the input-aware score is behind
# magnitude if much is removed at once without training. (With rescoring and
# training in between it was far ahead at 98 %, in Part B.) Wanda was made for large
# language models, where a few features are a hundred times larger than the rest, as in
# your example. For them magnitude triples the perplexity at 50 %, and Wanda raises it
# by about a quarter (Sun et al., LLaMA-7B: 17.29 for magnitude, 7.26 for Wanda, 5.68
# dense).

# %% [markdown]
# ## Part D · Zeros by training
#
# ### 2.6 The proximal step
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
# $t = \eta\lambda$ ([Parikh and Boyd 2014](https://doi.org/10.1561/2400000003)).
#
# **What is tested**: exact zeros, also at $|w| = t$; a number or a tensor of thresholds;
# the order of the two steps; biases are not penalised; shapes and dtypes.
#
# *Before you write anything:* after 40 epochs with the subgradient and λ = 3·10⁻⁴, what
# share of the weights, in %, will be exactly 0?

# %%
### BEGIN SOLUTION
prediction_2_6 = 0
### END SOLUTION


# %%
def soft_threshold(w: Tensor, t: float | Tensor) -> Tensor:
    """Apply the proximal operator of t·|·|. Write it yourself: not with ``F.softshrink``.

    Args:
        w: any shape; not changed.
        t: a number ≥ 0, or one per entry (a tensor like ``w``).

    Returns:
        A tensor like ``w``, with its dtype; exactly 0 (or −0) where |w| ≤ t.

    Raises:
        ValueError: if a threshold is negative or NaN.

    >>> soft_threshold(torch.tensor([-2.0, 0.25, 1.0]), 0.5)
    tensor([-1.5000,  0.0000,  0.5000])
    """
    if not bool((torch.as_tensor(t) >= 0).all()):
        raise ValueError("t must be at least 0 at each entry, and not NaN")
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
check("2.6")

# %% [markdown]
# <details><summary>Hint 1: which threshold?</summary>A step has length η, so the penalty
# of this step is η·λ.</details>
# <details><summary>Hint 2: in which order?</summary>First the gradient step, then the
# threshold, so that weights below it are exactly 0 after the step.</details>

# %% [markdown]
# ### 2.7 Reweighted
# **15 minutes · 2 points · optional**
#
# The L1 penalty shrinks every weight by the same amount, also large weights that the
# network needs. We would prefer to penalise the *number* of weights, not their size.
# [Candès, Wakin and Boyd (2008)](https://doi.org/10.1007/s00041-008-9045-x) give each
# weight its own penalty, which depends on its current size,
#
# $$\lambda_j = \frac{\lambda}{|w_j| + \varepsilon}\,.$$
#
# Then $\lambda_j |w_j| \approx \lambda$ for every weight that is clearly not zero: all
# such weights cost the same. Reweighted proximal pruning ([Guo et al.
# 2019](https://arxiv.org/abs/1909.12486); lab 06) uses this formula.
#
# **What is tested**: each threshold is computed from the weight *before* the step.


# %%
def reweighted(weight: Tensor, lam: float, eps: float) -> Tensor:
    """Compute a penalty per weight: lam / (|w| + eps), like ``weight``.

    Raises ValueError if eps ≤ 0.

    >>> reweighted(torch.tensor([0.5, -1.5]), lam=1.0, eps=0.5)
    tensor([1.0000, 0.5000])
    """
    if not eps > 0:
        raise ValueError(
            f"eps must be above 0 to keep the penalty of a zero weight finite, got {eps}"
        )
    ### BEGIN SOLUTION
    return lam / (weight.abs() + eps)
    ### END SOLUTION


def reweighted_step(
    weights: dict[str, Tensor], gradients: dict[str, Tensor], lr: float, lam: float, eps: float
) -> dict[str, Tensor]:
    """Make ``proximal_step``, but with one penalty per weight, from its value *before* the step.

    So the threshold of a weight is lr·lam/(|w| + eps), with w from ``weights``.

    >>> reweighted_step({"w": torch.ones(1, 1)}, {"w": -torch.ones(1, 1)}, lr=1.0, lam=1.0, eps=1.0)
    {'w': tensor([[1.5000]])}
    """
    ### BEGIN SOLUTION
    new = {}
    for name, w in weights.items():
        moved = w - lr * gradients[name]
        new[name] = soft_threshold(moved, lr * reweighted(w, lam, eps)) if w.ndim >= 2 else moved
    return new
    ### END SOLUTION


# %%
check("2.7")

# %% [markdown]
# <details><summary>Hint</summary>Compute the thresholds from the given weights, before the
# gradient step; <code>soft_threshold</code> takes a tensor of
# thresholds.</details>

# %% [markdown]
# #### Experiment: which method makes zeros?
#
# The same network and initial weights, SGD (η = 0.1), 40 epochs. Live: the subgradient,
# the proximal step (both λ = 0.0003) and L2 (λ = 0.001). From the result file: the
# proximal step for five λ, with plain penalties and with penalties reweighted every
# five epochs (ε = 0.01).

# %%
strengths = {"proximal": 3e-4, "subgradient": 3e-4, "L2": 1e-3}
found = lab02.zeros_by_training(data, SEEDS, strengths, SETTINGS["l1_epochs"])
columns = {"zeros": "exact zeros (%)", "small": "below 0.001 (%)"}
tables.show(tables.means(found, columns | {"accuracy": "validation accuracy (%)"}))
words.say(f"Zeros by the subgradient: {found[found.method == 'subgradient'].zeros.mean():.1f} %.")

# %%
penalties = experiments.read(f"lab02_criteria_{DATA}/penalties")
l1 = penalties[penalties.method.isin(["proximal", "reweighted"])]
plots.curves(
    l1,
    x="zeros",
    y="accuracy",
    along="strength",
    xlabel="weights that are exactly 0 (%)",
    title="Zeros and accuracy, λ from 0.0001 to 0.003",
    control=None,
    guess=(prediction_2_6, None),
)

# %%
tables.compare(
    lab02.at_equal_zeros(l1, (20, 40, 60, 80, 90)),
    {"accuracy": "points"},
    against="proximal",
    columns="zeros",
)

# %% [markdown]
# {{claim 02.6}}
#
# With the subgradient as many weights end *near* zero, but none is *exactly* zero: each
# oscillates around zero in steps of ηλ. You would need a threshold afterwards. The
# zeros of the proximal step exist during training, so the other weights can adapt to
# them.
#
# The table compares plain and reweighted penalties at equal numbers of zeros
# (interpolated between two values of λ). Reweighting shrinks the kept weights little.
# It is about a point ahead at medium numbers of zeros, and more where nearly all
# weights are zero. At few zeros we could not detect a difference.

# %% [markdown]
# #### Real data: MNIST
#
# The same experiments with MNIST's 28×28 pixels: 266,200 weights, 6,000 training
# images, three seeds (`course remake lab02_criteria_mnist`). The first table is
# validation accuracy (%) at 90 %. Before you look: most weights belong to pixels that
# are blank in nearly all images. Which of your conclusions will change?

# %%
mnist = experiments.read("lab02_criteria_mnist/pruned")
tables.means(mnist[mnist.sparsity == 0.9], "accuracy", columns="procedure")

# %% [markdown]
# The claims above print what MNIST says of each. With five times as many weights, too,
# the forecast is good for one weight and bad as an order for many. With training in
# between the result is smaller: at 98 % Fisher gains three points instead of twenty. It
# is not confirmed that twelve rescoring rounds beat magnitude without training. At 90 % magnitude still classifies five digits
# of six correctly, and with three networks the criteria are not statistically
# distinguishable. So the value of a criterion depends on how much accuracy can be lost.
#
# ## Part E · What was it worth?
#
# ### Experiment: the costs
#
# We prune 95 % of the weights by Fisher and by magnitude, rescored at four targets with
# training after each. Now use the **test images, once**. The size is that of the whole
# model with biases, each tensor in the cheapest format of lab 00; milliseconds are for
# 64 images.

# %%
TARGETS = (0.5, 0.8, 0.9, 0.95)


def finish(method: str, seed: int) -> nn.Module:
    few, epochs = FEW, SETTINGS["retrain"]
    return lab02.trained_between(dense[seed], data, method, TARGETS, few, epochs, seed)[0]


arms = ("Fisher", "magnitude", "random")
finished = parallel.sweep(finish, measure="model", method=arms, seed=range(SEEDS))
models = {f"{method} 95 %": list(of.model) for method, of in finished.groupby("method", sort=False)}

# %%
costs = lab02.costs({"dense": dense, **models}, data)  # the only use of the test images
for method, of in costs.groupby("method", sort=False):
    bits, macs, ms = (of[column].iloc[0] for column in ("bits", "macs", "ms"))
    ledger.add("lenet300", method, lab="02", bits=bits, macs=macs, ms=ms, accuracy=of.test)
words.say(
    "Fisher against magnitude, test accuracy:"
    f" {words.minus(costs, 'test', 'Fisher 95 %', 'magnitude 95 %')}."
)
ledger.table()

# %% [markdown]
# At 95 % the mean test accuracy of Fisher is above that of magnitude. Whether the two
# are statistically distinguishable with three seeds differs from machine to machine
# (one run found +3.3 ± 1.8 points, another one +5.2 ± 9.3). On the validation images of
# Part B they were not, with six seeds. Zeros save bits, but no milliseconds: the
# kernels are dense, as in lab 01. The table does not contain the cost of *scoring*:
# Fisher takes one backward pass per sample, the curvature ten, magnitude none.
#
# ### 2.8 Two short answers
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
# **b.** Differences of this lab, with their 95 % intervals, on both kinds of data:
#
# {{difference 02.3}}
# {{difference 02.5}}
#
# Which of these sentences do the intervals permit?
#
# - **A.** In twelve rounds, Fisher and magnitude are equally accurate on MNIST.
# - **B.** At 98 %, a score that uses the loss is better than one that does not, on both
#   data sets.
# - **C.** In twelve rounds, Fisher gains more on the digits than on MNIST.
# - **D.** At 98 %, Fisher is better than the input-aware score on the digits, and worse
#   on MNIST.

# %%
### BEGIN SOLUTION
answer_2_8a = "A"
answer_2_8b = "D"
### END SOLUTION

# %%
check("2.8")

# %% [markdown]
# ### 2.9 Bug hunt
# **20 minutes · 1 point · optional**
#
# Here is a simplified version of `soft_threshold`, and the test that it passes.


# %%
def suspicious_soft_threshold(w: Tensor, t: float | Tensor) -> Tensor:
    return torch.where(w.abs() > t, w, torch.zeros_like(w))


def naive_test(f: Callable) -> None:
    w = torch.tensor([-2.0, -0.05, 0.0, 0.02, 3.0])
    after = f(w, 0.1)
    # small entries are zero, large ones are not
    assert (after[1:4] == 0).all() and (after[[0, 4]] != 0).all()
    assert (after.sign() == torch.tensor([-1.0, 0, 0, 0, 1])).all()


naive_test(suspicious_soft_threshold)
print("suspicious_soft_threshold passes the naive test.")

# %% [markdown]
# It passes, but it is the *hard* threshold: kept weights are not shrunk.
#
# Write `find_bug(f)`. It gets a function `f(w, t)`, raises `AssertionError` if `f` breaks
# the contract of **2.6**'s `soft_threshold`, and returns otherwise. The contract in short:
#
# - shape and dtype of w;
# - exactly 0 (or −0) where |w| ≤ t;
# - elsewhere |w| − t with the sign of w.
#
# **What is tested**: versions with two plain mistakes (half a point) and with six other
# mistakes (the other half). For each half, all correct versions must pass, however they
# are written. All versions accept finite float tensors of any shape and t ≥ 0, a number
# or a tensor like w. Use small inputs: a call with more than eight million numbers is
# refused, and `find_bug` has ten seconds per version.


# %%
def find_bug(f: Callable[[Tensor, float | Tensor], Tensor]) -> None:
    """Raise AssertionError if ``f(w, t)`` breaks the contract of ``soft_threshold``
    (2.6); else return.
    """
    ### BEGIN SOLUTION
    w = torch.tensor([[-2.0, -0.75, -0.5, -0.25], [0.0, 0.25, 0.5, 2.125]])
    thresholds = torch.tensor([[0.25, 1.0, 0.5, 0.0], [0.5, 0.125, 0.25, 0.75]])
    for t in (0.0, 0.5, 0.3, 5.0, thresholds):
        for dtype in (torch.float32, torch.float64):
            before = w.to(dtype)
            after = f(before.clone(), t.to(dtype) if isinstance(t, Tensor) else t)
            each = torch.as_tensor(t).to(dtype).expand(w.shape)
            assert after.shape == w.shape and after.dtype == dtype, "not w's shape and dtype"
            small = before.abs() <= each
            assert (after[small] == 0).all(), "not 0 within the threshold"
            shrunk = before.abs() - each
            assert torch.allclose(after.abs()[~small], shrunk[~small]), "not shrunk by t"
            assert (after.sign()[~small] == before.sign()[~small]).all(), "sign lost"
    ### END SOLUTION


# %%
for f in (soft_threshold, suspicious_soft_threshold):
    try:
        find_bug(f)
        print(f"{f.__name__}: no bug found")
    except AssertionError as reason:
        print(f"{f.__name__}: caught ({reason})")

# %%
check("2.9")

# %% [markdown]
# <details><summary>Hint: choose inputs</summary>Both signs; |w| = t exactly; t = 0; t
# larger than everything; t a tensor whose entries differ; more than one
# dimension.</details>

# %% [markdown]
# ## Play
#
# ### One forecast, many removals
#
# Choose a criterion and how many weights are removed at once. Left: the measured change
# of single weights. Right: the accuracy, with the scores computed once, and in twelve
# rounds (six seeds, from the result file). Which criterion changes its rank most? (Tab
# goes to a control, the space bar presses a button.)

# %%
play = partial(lab02.explore, single, pruned)
plots.explore(play, criterion=list(lab02.CRITERIA), sparsity=list(lab02.SPARSITIES))

# %% [markdown]
# ## What you take with you
#
# - The forecast predicts the removal of *one* weight almost exactly, with its sign.
# - As an order for many weights the signed forecast destroys the network. Unsigned
#   scores are better, and magnitude is good because it makes small steps.
# - Compute scores again after each step: scored once, OBD and Fisher are far worse than
#   magnitude; in twelve rounds they are better on the digits (not detected on MNIST). Rounds do not save the signed forecast.
# - With training in between, magnitude is a little ahead at 90 % on the digits; where
#   few weights are kept, magnitude is behind, also behind a score that does not use the loss.
# - A proximal step produces exact zeros, a subgradient does not. With reweighting,
#   every non-zero weight has roughly the same penalty, whatever its size.
#
# ### Five questions to recap
#
# 1. Why is the first-order term $-g\,w$ and not $+g\,w$?
#    <details><summary>Answer</summary>The step goes from w to 0, so it is −w.</details>
# 2. Why must you square before you average in the empirical Fisher?
#    <details><summary>Answer</summary>After training the mean gradient is nearly 0; the
#    Fisher measures the spread.</details>
# 3. When is the curvature of 2.3 the exact second derivative?
#    <details><summary>Answer</summary>If non-linearities are piecewise linear and no
#    weight is tied.</details>
# 4. Why does magnitude gain nothing from rescoring without training?
#    <details><summary>Answer</summary>The kept weights, and so their scores, do not
#    change.</details>
# 5. Why does Wanda help language models more than our network?
#    <details><summary>Answer</summary>Some of their inputs are a hundred times larger than
#    others.</details>
#
# ## Going further
#
# - **Real data.** `DATA = "mnist"` runs the lab on MNIST: the longest parts are read from
#   the result file, the rest is live, with three seeds.
# - **The conv net with batch norm.** `curvature` takes any module. There the linear
#   term is even larger.
# - **The whole Hessian.** *Optimal Brain Surgeon* also computes how the *other* weights
#   should move; [OBC](https://arxiv.org/abs/2208.11580) and
#   [SparseGPT](https://arxiv.org/abs/2301.00774) do so layer by layer.
# - **Read** the papers linked above.
# - **Next.** In lab 03 you ask whether the small network existed from the beginning.
