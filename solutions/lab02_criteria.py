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
# **You can forecast what the removal of a single weight costs, almost exactly. Surely,
# then, removing weights in the order of that forecast is the best order there is?**
#
# In lab 01 the smallest weights went first. But nobody asked the *loss*. A small weight
# may stand in a place where everything depends on it, and a large one where nothing
# does. The loss knows, and Taylor's series tells. In this lab you write down the
# forecast, check it against the truth, weight by weight, and then use it on a whole
# network. What happens then is the reason why this lab exists.
#
# | part | you write | you find out |
# |---|---|---|
# | A · One weight | 2.1 the forecast, 2.2 the empirical Fisher, 2.3 the curvature | how good a forecast is, and how bad an order |
# | B · Fifty thousand | 2.4 prune, ask again, prune on | what repairs the order |
# | C · The input | 2.5 a mask that sees the input | when is a small weight the important one? |
# | D · Zeros by training | 2.6 the proximal step, 2.7 reweighted | why a subgradient never gives a zero |
# | E · What was it worth? | 2.8 two short answers, 2.9 a bug hunt | the bill, and the test images once |
#
# 20 points; about three hours. After each exercise `check("2.1")` tells you at once
# what is right. If you are stuck, write `skip("2.1")` in a cell: that question scores 0
# and the rest of the lab goes on with the course's version.
#
# The rules are those of lab 01: guess first; choose on validation data and look at the
# test data once, at the end; no claim without a random control and three seeds.

# %%
from course_lib.grading import check, choose, skip  # noqa: F401  (skip is yours to use)

# isort: split
import copy  # noqa: F401  (yours to use)
from collections.abc import Callable

import numpy as np  # noqa: F401  (yours to use)
import pandas as pd
import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional as F

from course_lib import experiments, intervals, ledger, parallel
from course_lib.data.images import load
from course_lib.experiments import lab02
from course_lib.modes import evaluating as in_evaluation_mode
from course_lib.show import drawings, plots, real_data, tables, widgets, words

STUDENT = ""  # your name or number: the letters of your questions are yours alone

# %% [markdown]
# The idea of this lab in one picture. At the trained weight $w$ you compute the gradient
# $g$ and the second derivative $h$ of the loss. From these two numbers you forecast the
# loss at 0.

# %%
drawings.forecast_step()

# %% [markdown]
# ## Settings
#
# The default data are scikit-learn's handwritten digits, 1,797 *real* 8×8 images;
# change one word for MNIST (much longer). The network is LeNet-300-100, **without**
# batch norm, so that nothing but the criterion is compared: no statistics that go
# stale, as they did in lab 01.

# %%
DATA = "digits"  # or "mnist"

SEEDS = 3
SETTINGS = {"digits": lab02.DIGITS, "mnist": lab02.MNIST}[DATA]
SAMPLES = SETTINGS["samples"]  # training images that the scores are computed from
FEW = min(SAMPLES, lab02.ROUND_SAMPLES)  # the same, where scores are computed often

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
# Take one weight $w$ and set it to $w' = 0$. That is a step of $w' - w = -w$, so
# Taylor's series says of the loss
#
# $$L(0) - L(w) \;\approx\; g\,(0 - w) + \tfrac12\,h\,(0 - w)^2 \;=\; -g\,w + \tfrac12\,h\,w^2,$$
#
# where $g$ is the loss's gradient and $h$ its second derivative at $w$. Mind the sign
# of the first term: the step goes from $w$ *to* 0. (The lecture notes write $w - w'$
# there, which has it the wrong way round.)
#
# Two famous criteria are halves of this line. *Optimal Brain Damage* (LeCun, Denker and
# Solla 1990) says that at a minimum $g = 0$ and keeps $\frac12 h w^2$. The *Taylor*
# score keeps $|g\,w|$, the size of the first term. (Molchanov et al. (2017) score feature
# maps this way, with activations in place of weights.)
#
# *Before you write anything:* you train until the training images are all right. Which
# of the two terms will then be the larger one for most weights, `"first"` or
# `"second"`?

# %%
### BEGIN SOLUTION
# the loss is not quite at its minimum, and h is tiny, too, where all samples are right
prediction_2_1 = "first"
### END SOLUTION


# %%
def loss_change(weight: Tensor, gradient: Tensor, curvature: Tensor | None = None) -> Tensor:
    """What the loss would change by if each weight, alone, became 0.

    Args:
        weight: any shape. Not changed, like all others here.
        gradient: of the loss by it, of the same shape.
        curvature: second derivatives of the loss by each weight, of the same shape.
            None: first order only.

    Returns:
        The forecast, signed (negative where the loss would fall), with the shape and
        dtype of ``weight``.

    Raises:
        ValueError: if shapes differ.
    """
    for other in (gradient, curvature):
        if other is not None and other.shape != weight.shape:
            raise ValueError(
                f"one number a weight: {tuple(other.shape)} does not fit {tuple(weight.shape)}"
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
# ### 2.2 Where from? The empirical Fisher
# **25 minutes · 3 points**
#
# The gradient costs one backward pass. Second derivatives are dearer: 50,000 weights
# have 2.5 billion of them, and even the diagonal alone needs more than one backward
# pass. The popular way out is the **empirical Fisher information**: for each sample
# take the gradient of *its own* loss, square it, and only then average,
#
# $$F_j = \frac1N \sum_{i=1}^N \Big(\frac{\partial}{\partial w_j}\big(-\log p(y_i \mid x_i)\big)\Big)^2.$$
#
# It is the diagonal of the notes' $\frac1N \sum_i g_i g_i^\top$. The order matters:
# square first, mean later. The mean gradient is nearly 0 after training (that is what
# training does); its square says nothing. The *spread* of the gradients is what is
# measured here.
#
# For a batch, `loss.backward()` gives you only the mean. So one sample at a time; or
# many at once with `torch.func.vmap`. Two things for your code to be careful with:
# dropout and batch norm must not play a part (evaluation mode, and every module back in
# its own mode afterwards: `with in_evaluation_mode(model):`, imported above, does that),
# and nobody wants to find foreign gradients in `.grad`: `torch.autograd.grad` returns
# them instead.
#
# `functional_call(model, parameters, (x,))` runs a model with *your* tensors in the
# place of its parameters. Your tensors can require gradients where the model's own are
# frozen:

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
    """The mean over samples of the square of each sample's gradient of its cross
    entropy.

    Write it yourself: not with ``course_lib.pruning``.

    Args:
        model: x (B, …) -> logits (B, classes). Its modes and its parameters' ``.grad``
            are as before when you return.
        x: (N, …), N ≥ 1. y: (N,) int64.

    Returns:
        Name -> float64 like the parameter, for every one of
        ``model.named_parameters()``, frozen ones too. Derivatives in the model's dtype,
        sums in float64.

    Raises:
        ValueError: if there is no sample.
    """
    if len(x) == 0:
        raise ValueError("a mean over no samples is undefined")
    ### BEGIN SOLUTION
    parameters = {name: p.detach().clone().requires_grad_() for name, p in model.named_parameters()}
    total = {name: torch.zeros(p.shape, dtype=torch.float64) for name, p in parameters.items()}
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
# <code>vmap(grad(loss_of_one), in_dims=(None, 0, 0))(parameters, x, y)</code>, a chunk
# of samples at a time, squares and sums up the first dimension.</details>

# %% [markdown]
# ### 2.3 The curvature itself
# **25 minutes · 3 points**
#
# The Fisher is called a curvature, and it is one only if the model is right about the
# labels' probabilities. Nothing forces it to be (Kunstner, Balles and Hennig 2019 show
# how wrong it can get). What *is* the second derivative?
#
# Call the logits $z$. For cross entropy the Hessian by the logits is
# $\operatorname{diag}(p) - p\,p^\top$, whatever the label. And a network of ReLUs is
# *piecewise linear in each single weight*: while the others stay, moving one weight
# moves the logits along a line, until some unit switches. Second derivatives of the
# logits are 0, so by the chain rule
#
# $$h_j = \frac{\partial z}{\partial w_j}^{\!\top}\! \big(\operatorname{diag}(p) - p\,p^\top\big) \frac{\partial z}{\partial w_j}
# \;=\; \sum_c p_c \Big(\frac{\partial \log p_c}{\partial w_j}\Big)^2 .$$
#
# The right-hand side is the *true* Fisher information, the Gauss–Newton diagonal: like 2.2, but over all classes, each
# with its probability, instead of the one that happens to be the label. **No labels needed.** $p_c$ in front is a
# weight: hold it constant. Average over samples as before.
#
# This is exact where each weight is used in one layer and every non-linearity is piecewise linear. It is not for tied
# weights, GELU, softmax attention, or batch norm in training mode.


# %%
def curvature(model: nn.Module, x: Tensor) -> dict[str, Tensor]:
    """Mean over samples of Σ_c p_c(x)·(∂ log p_c(x)/∂w)², p the softmax of the logits,
    held constant.

    Write it yourself: not with ``course_lib.pruning`` or ``torch.func.hessian``.

    Args:
        model: x (B, …) -> logits (B, classes). Its modes and ``.grad`` are as before
            when you return.
        x: (N, …), N ≥ 1.

    Returns:
        As in 2.2.

    Raises:
        ValueError: if there is no sample.
    """
    if len(x) == 0:
        raise ValueError("a mean over no samples is undefined")
    ### BEGIN SOLUTION
    parameters = {name: p.detach().clone().requires_grad_() for name, p in model.named_parameters()}
    total = {name: torch.zeros(p.shape, dtype=torch.float64) for name, p in parameters.items()}
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
# <details><summary>Hint 1: it is 2.2 with one loop more</summary>Over the classes; and
# <code>-log p[label]</code> becomes
# <code>log p[c]</code> (the sign goes with the square).</details>
# <details><summary>Hint 2: several gradients from one forward
# pass</summary><code>torch.autograd.grad(…, retain_graph=True)</code>.</details>
# <details><summary>Hint 3: everything is 0?</summary>Σ_c p_c ∂ log p_c is 0 always
# (probabilities sum to 1). Square each class's gradient before you add.</details>

# %% [markdown]
# #### Experiment: the forecast and the truth
#
# The criteria of this lab, each a score by which the lowest go first ($F$ is 2.2, $h$
# is 2.3, $x$ the weight's input):
#
# | signed forecast | OBD | Fisher | Taylor | input-aware | magnitude | random |
# |---|---|---|---|---|---|---|
# | $-gw + \frac12hw^2$ | $\frac12hw^2$ | $\frac12Fw^2$ | $\lvert gw\rvert$ | $\lvert w\rvert\cdot\lVert x\rVert$ | $\lvert w\rvert$ | chance |
#
# Now the moment of truth. 300 weights are drawn, a hundred of each layer. Each weight
# alone is set to zero, and we measure how much the mean loss on the same images really
# changes ([how](../course_lib/experiments/lab02.py): `single_weights`). The figure shows
# one seed.
#
# *Before you run it:* rank correlation (Spearman's ρ, 1 = the same order) between
# |forecast| and |true change|. What will magnitude get?

# %%
### BEGIN SOLUTION
prediction_2_3 = 0.8
### END SOLUTION

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
    f" {words.you_wrote(prediction_2_3)}"
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
    f" these weights. (2.1) {words.you_wrote(prediction_2_1)}"
)

# %% [markdown]
# The forecast is almost the truth. Even its sign is right: the loss falls without the
# weights to the left of 0, about three in ten. Two in ten do nothing: their pixel is
# blank, or their unit is never on. Magnitude's ρ is much lower, and random's is about 0.
#
# Which half of the formula does the work? The first term is the larger one for most
# weights: a net that has stopped early enough to be useful is not at a minimum, so
# LeCun's $g = 0$ does not hold; and where all samples are right, $h$ is tiny as well.
# Yet *alone* either half gives almost the same order: both grow with $w$ and with how
# much the weight's input and output are in use. Assuming $g = 0$ hardly changes the
# ranking, but it makes the predicted size and sign of the change wrong.

# %% [markdown]
# #### Experiment: fifty thousand weights, all at once
#
# The forecast says what each weight costs. So rank all weights by it, cheapest first,
# and remove half of them: those whose removal *lowers* the loss go first of all.
#
# *Before you run it:* which criterion will be best at 80 %? And worst?

# %%
### BEGIN SOLUTION
prediction_2_4 = "best: the signed forecast; worst: random"
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
    bars=True,
    title="All at once: which forecast is the best order?",
)

# %%
words.say(words.you_wrote(prediction_2_4))
tables.compare(at_once[at_once.sparsity == 0.8], {"accuracy": "at 80 % (points)"})

# %% [markdown]
# The almost perfect forecast destroys the network at 50 %, where even a random choice
# leaves much of it. And the crude magnitude is among the best. Nothing is wrong with
# the forecast: you have just seen that it is true, of **one** weight.
#
# A derivative is taken *here*. Each forecast holds with all the other weights in place.
# Thousands of weights whose removals each lower the loss a little all pull in the same
# direction; together they push the logits far past the point where that was an
# improvement. Unsigned scores (OBD, Fisher, Taylor) at least choose what matters little
# either way, so the sum stays small for longer (Taylor only up to about 50 %: where $g$
# happens to be near 0, it takes a weight for nothing, however strongly the loss curves
# there). Magnitude has a virtue that no derivative has: small weights make a small
# *step*, and for a small step all forecasts are still good.

# %% [markdown]
# ## Part B · Fifty thousand weights
#
# ### 2.4 Ask again on the way
# **25 minutes · 3 points**
#
# If a score holds only near where it was taken: take fewer steps at a time, and ask
# again after each. This is the general form of lab 01's iterative pruning: there the
# weights were *trained* between two steps; here nothing is, and only the question is
# asked again.


# %%
def prune_rescored(
    model: nn.Module, score: Callable[[nn.Module], dict[str, Tensor]], targets: list[float]
) -> dict[str, Tensor]:
    """Prune to each target in turn; before each, ask for the scores of the model as it
    is now.

    Args:
        model: changed in place: pruned weights become 0. Nothing is trained.
        score: ``score(model)`` gives scores by name, at least for every parameter with
            two or more dimensions (others are not looked at); larger = more important.
            It is called once for each target. Scores are compared in float64; those of
            pruned weights may be anything, also NaN.
        targets: cumulative shares of *all* those weights together, rising, each in [0,
            1].

    Returns:
        Bool masks by name (True = kept). After each target t exactly ``round(t * n)``
        weights are pruned: of those still there (a weight that is 0 by itself is still
        there) the lowest scores went, among equal scores the lower index (layers in the
        order of ``named_parameters()``, row-major inside). A pruned weight never
        returns. For no targets: all True.

    Raises:
        ValueError: before anything is asked or changed, if a target is outside [0, 1]
            or not above the one before.
    """
    ### BEGIN SOLUTION
    if any(not 0 <= t <= 1 for t in targets) or any(
        b <= a for a, b in zip(targets, targets[1:], strict=False)
    ):
        raise ValueError(f"targets rise, each in [0, 1]; got {targets}")
    weights = {name: p for name, p in model.named_parameters() if p.ndim >= 2}
    # (n,), all layers in a row
    alive = torch.ones(sum(p.numel() for p in weights.values()), dtype=torch.bool)
    masks = {name: torch.ones_like(p, dtype=torch.bool) for name, p in weights.items()}
    for target in targets:
        scores = score(model)
        flat = torch.cat([scores[name].detach().double().flatten() for name in weights])
        flat = flat.masked_fill(~alive, -torch.inf)  # what is gone goes first: it stays gone
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
# <details><summary>Hint 2: who competes?</summary>Only those still there. How many go
# at this target? As many as are missing to <code>round(t · n)</code>; those that went
# before are counted already.</details>
# <details><summary>Hint 3: a pruned weight scores high now</summary>It may (its
# gradient is not 0). Set what is pruned to −inf, or take it out of the list, before you
# sort.</details>

# %% [markdown]
# #### Experiment: a dozen questions
#
# To 90 % in twelve steps, each of which removes the same share of the weights that are
# left; the scores come from 256 images. The steps are made by *your* function; the
# criteria are the library's, which are faster.
#
# *Before you run it:* which criterion gains most, and which gains nothing at all?

# %%
### BEGIN SOLUTION
prediction_2_4b = "OBD gains most; magnitude nothing"
### END SOLUTION

# %%
RESCORED = ("OBD", "Fisher", "Taylor", "magnitude", "random")


def rescored(seed: int, method: str) -> list[dict[str, float]]:
    """Accuracy at 90 %; your function computes the scores again in each round."""
    return lab02.in_rounds(prune_rescored, dense[seed], data, method, [0.9], FEW, seed)


in_rounds = parallel.sweep(rescored, seed=range(SEEDS), method=RESCORED).assign(scored="12 times")
once = at_once[(at_once.sparsity == 0.9) & at_once.method.isin(RESCORED)].assign(scored="once")
plots.bars(
    pd.concat([once, in_rounds]),
    x="method",
    y="accuracy",
    by="scored",
    fmt="{:.0f}",
    title="At 90 %, nothing trained: scores computed once, or 12 times",
)

# %%
pruned = experiments.read(f"lab02_criteria_{DATA}/pruned")
six = pruned[(pruned.procedure == "in rounds") & (pruned.sparsity == 0.9)]
first = lab02.first_round(dense[0], x[:FEW], y[:FEW])
words.say(
    f"With {six.seed.nunique()} seeds, in rounds at 90 %, against magnitude: Fisher"
    f" {words.minus(six, 'accuracy', 'Fisher', 'magnitude')}, OBD"
    f" {words.minus(six, 'accuracy', 'OBD', 'magnitude')}. The signed forecast, in rounds:"
    f" {words.pm(six[six.method == 'signed forecast'].accuracy)} %."
    f" {words.you_wrote(prediction_2_4b)}\n\nThe first round by the signed forecast, one seed:"
    f" {first['weights']:,} weights, whose forecasts add up to {first['forecast']:+.2f}; the loss"
    f" was {first['before']:.2f} and is {first['after']:.1f}."
)

# %% [markdown]
# Taylor, which kept least when asked once, gains most, and Fisher and OBD about 50 points.
# OBD and Fisher were far behind magnitude and are now far ahead of it; Taylor has
# caught up. (Magnitude differs much from seed to seed here. With three seeds we could not
# detect the lead; with six we can.) Magnitude gains nothing: nothing was trained, so the
# weights that are left are as large as before, and the scores are the same in each round.
#
# And the signed forecast, the best of all for one weight? It is lost in the very first
# round. The weights with the largest predicted gains are removed all at once. Their
# predicted gains add up to many times the current loss, which cannot fall below 0. A sum
# of forecasts is no forecast, and the weights with the largest predicted gains take the
# largest steps. Twelve rounds do not help after that.
#
# And with training in between, as in practice? Six targets, five epochs after each,
# from the result file (six seeds).

# %%
trained = pruned[pruned.procedure.isin(["dense", "with training"])]
plots.curves(
    trained.assign(remaining=1 - trained.sparsity),
    x="remaining",
    y="accuracy",
    xaxis="remaining",
    title="Scores computed again, and training in between",
)

# %% [markdown]
# And how far is each criterion ahead of magnitude? Differences are paired by seed. Where
# an interval excludes 0, the two criteria are distinguishable.

# %%
shown = trained[~trained.method.isin(["dense", "random"])]
ahead = intervals.differences(shown, "accuracy", against="magnitude", within=["sparsity"])
plots.curves(
    ahead.assign(remaining=1 - ahead.sparsity),
    x="remaining",
    y="accuracy",
    ylabel="accuracy minus that of magnitude (points)",
    xaxis="remaining",
    bars=True,
    control=None,
    title="With training in between: how far ahead of magnitude?",
)

# %% [markdown]
# With training in between, magnitude is a point or two *ahead* at 80 and 90 %: training
# repairs most of the damage of a choice, and least of all the loss of large weights. At
# 95 % the order begins to turn (OBD is ahead), and at 98 %, with a thousand weights left,
# the criteria that use the loss are about 20 points ahead.
#
# **What the papers found.** LeCun, Denker and Solla (1990) took a reader of digits down
# to a quarter of its parameters by ½hw², a part at a time with training in between;
# without it the error rose soon. Hassibi and Stork (1993) went on to the whole Hessian
# (*Optimal Brain Surgeon*). Molchanov et al. (2017) prune feature maps one (!) at a
# time by |gradient · activation|, with training in between: rescoring to the extreme. None of them ranks
# by the signed forecast; now you know why.

# %% [markdown]
# ## Part C · The input
#
# ### 2.5 A mask that sees the input
# **20 minutes · 3 points**
#
# The lecture's drawback of magnitude: it does not see the input. A layer computes
# $\sum_j w_{ij} x_j$, and a weight of 0.01 on an input of 1,000 does more than a weight
# of 1 on one of 0.1. The remedy is almost embarrassingly simple (Sun et al. 2023,
# *Wanda*): score each weight by
#
# $$|w_{ij}| \cdot \lVert x_j \rVert_2, \qquad \lVert x_j \rVert_2 = \sqrt{\textstyle\sum_b x_{bj}^2}\,,$$
#
# the norm of its input over all samples (for texts: and positions), and compare
# **within each row**, that is, among the weights of one output. No gradient, no
# training: one forward pass. For large language models that is what one can afford.


# %%
def input_aware_mask(weight: Tensor, x: Tensor, sparsity: float) -> Tensor:
    """In each row, the smallest |w_ij|·‖x_j‖₂ go.

    Args:
        weight: (out, in). x: (…, in), any leading dimensions, also none: samples,
            positions. Neither is changed.
        sparsity: in [0, 1].

    Returns:
        Bool (out, in), True = kept; in each row exactly ``round(sparsity * in)`` are
        False, among equal scores the lower index first. Norms are taken over all
        leading dimensions and summed in float64.

    Raises:
        ValueError: if ``sparsity`` is outside [0, 1].
    """
    if not 0 <= sparsity <= 1:
        raise ValueError(f"sparsity is a share between 0 and 1, got {sparsity}")
    ### BEGIN SOLUTION
    norm = x.double().reshape(-1, weight.shape[1]).square().sum(0).sqrt()  # (in,)
    score = weight.double().abs() * norm  # (out, in)
    mask = torch.ones_like(weight, dtype=torch.bool)
    goes = score.argsort(dim=1, stable=True)[:, : round(sparsity * weight.shape[1])]
    mask.scatter_(1, goes, False)
    return mask
    ### END SOLUTION


# %% [markdown]
# And the example for the lecture: a row of two weights and a few inputs where magnitude
# takes the wrong one. The smaller $|w|$ must contribute at least **ten times** what the
# larger one does, in $\sum_b |w_j\,x_{bj}|$.


# %%
def magnitude_is_wrong() -> tuple[Tensor, Tensor]:
    """Your example: weight (1, 2) with two different |w|, and x (B, 2) with B ≥ 2; both
    finite.
    """
    ### BEGIN SOLUTION
    return torch.tensor([[0.01, 1.0]]), torch.tensor([[1000.0, 0.1], [-800.0, 0.2], [900.0, -0.1]])
    ### END SOLUTION


# %%
check("2.5")

# %% [markdown]
# <details><summary>Hint 1: the norm</summary>Bring x to two dimensions with
# <code>reshape(-1, in)</code>; square, sum over the first, root. One number for each
# input.</details>
# <details><summary>Hint 2: each row for itself</summary><code>argsort(dim=1,
# stable=True)</code>; the first columns of it are the places that go.</details>

# %%
mask = input_aware_mask(dense[0].get_parameter("fc1.weight").detach(), x.flatten(1), 0.5)
blank = (x.flatten(1) == 0).all(0)  # pixels without ink in any of the sample's images
words.say(
    f"Of the weights on the {int(blank.sum())} pixels that are blank in all these images, your mask"
    f" keeps **{100 * mask[:, blank].float().mean():.0f} %** at a sparsity of 50 %. Magnitude"
    " cannot know that they do nothing. On the whole net, all layers together, removed at once:"
)
pair = pruned[(pruned.procedure == "at once") & pruned.method.isin(["input-aware", "magnitude"])]
pair = pair[pair.sparsity.isin([0.8, 0.9])]
tables.compare(pair, {"accuracy": "points"}, against="magnitude", columns="sparsity")

# %% [markdown]
# An honest result: on this small network, whose inputs are all of one kind, seeing the
# input does not help where much is removed at once and nothing trained: it is behind.
# (Asked again and trained in between it was far ahead of magnitude at 98 %, in Part B,
# as all that ask the loss or the data were.) Wanda was made for large language models,
# where a few features are a hundred times larger than the rest (that is the example
# that you have just made); there magnitude triples the perplexity at 50 % and Wanda raises
# it by a quarter (Sun et al. 2023, LLaMA-7B at 50 %: 17.29 for magnitude, 7.26 for Wanda,
# 5.68 dense).

# %% [markdown]
# ## Part D · Zeros by training
#
# ### 2.6 The proximal step
# **15 minutes · 2 points**
#
# Another way to ask the loss: put the price of a weight *into* it,
# $L + \lambda \sum |w|$, and let training choose. The lecture says that L1 gives zeros
# and L2 does not. But try SGD with the subgradient $\lambda \operatorname{sign}(w)$: it
# pushes every weight towards zero, over it, and back again. No weight ever *is* zero.
#
# The proximal step asks another question: which $v$ minimises
# $\frac12 (v - w)^2 + t\,|v|$? Set the derivative to zero for $v > 0$: $v = w - t$,
# which is only allowed for $w > t$. For $v < 0$ alike. In between the minimum sits in
# the kink:
#
# $$\operatorname{prox}_t(w) = \operatorname{sign}(w)\,\max(|w| - t,\, 0),$$
#
# an *exact* zero for every $|w| \le t$. One step of training is then: an ordinary
# gradient step with rate $\eta$, and the proximal operator with $t = \eta\lambda$
# behind it (Parikh and Boyd 2014).
#
# *Before you write anything:* with λ = 3·10⁻⁴, 40 epochs, what share of the weights
# will be exactly 0 by the subgradient?

# %%
### BEGIN SOLUTION
prediction_2_6 = 0
### END SOLUTION


# %%
def soft_threshold(w: Tensor, t: float | Tensor) -> Tensor:
    """The proximal operator of t·|·|. Write it yourself: not with ``F.softshrink``.

    Args:
        w: any shape; not changed. t: a number ≥ 0, or one for each entry (a tensor like
            ``w``).

    Returns:
        Like ``w``, its dtype kept; exactly 0 (or −0) where |w| ≤ t.

    Raises:
        ValueError: if a threshold is negative or NaN.
    """
    if not bool((torch.as_tensor(t) >= 0).all()):
        raise ValueError("a threshold is not negative")
    ### BEGIN SOLUTION
    t = torch.as_tensor(t).to(w.dtype)
    return w.sign() * (w.abs() - t).clamp(min=0)
    ### END SOLUTION


def proximal_step(
    weights: dict[str, Tensor], gradients: dict[str, Tensor], lr: float, lam: float
) -> dict[str, Tensor]:
    """A step of gradient descent on the loss, and the proximal step of lam·Σ|w| behind
    it.

    Args:
        weights: by name; not changed. gradients: of the loss without the penalty, with
            the same keys.
        lr: η ≥ 0. lam: λ ≥ 0.

    Returns:
        New tensors with the keys of ``weights`` in their order. Only what has two or
        more dimensions is penalised: biases make the gradient step alone.
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
# <details><summary>Hint 1: which threshold?</summary>A step is η long, so the penalty
# of this step is η·λ.</details>
# <details><summary>Hint 2: in which order?</summary>First the gradient step, then the
# threshold, so that what ends below it is exactly 0 when the step is over.</details>

# %% [markdown]
# ### 2.7 Reweighted
# **15 minutes · 2 points**
#
# L1 has a flaw: it takes the same from all. A weight of 1 that the network needs is
# pulled down as hard as one of 0.001 that it does not. What one would like to count is
# *how many* weights there are, not how large they are. Candès, Wakin and Boyd (2008):
# give each weight a penalty of its own, by its present size,
#
# $$\lambda_j = \frac{\lambda}{|w_j| + \varepsilon}\,.$$
#
# Then $\lambda_j |w_j| \approx \lambda$ for every weight that is clearly not zero: the
# price of *being there*. The "reweighted" in reweighted proximal pruning (Guo et al.
# 2019; lab 06) is this line.


# %%
def reweighted(weight: Tensor, lam: float, eps: float) -> Tensor:
    """A penalty for each weight: lam / (|w| + eps), like ``weight``. ValueError if
    eps ≤ 0.
    """
    if not eps > 0:
        raise ValueError(f"eps keeps the penalty of a weight of 0 finite: it is above 0, got {eps}")
    ### BEGIN SOLUTION
    return lam / (weight.abs() + eps)
    ### END SOLUTION


def reweighted_step(
    weights: dict[str, Tensor], gradients: dict[str, Tensor], lr: float, lam: float, eps: float
) -> dict[str, Tensor]:
    """As ``proximal_step``, but each weight has the penalty ``reweighted`` of its value
    *before* the step.

    So the threshold of a weight is lr·lam/(|w| + eps), w as it was given.
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
# <details><summary>Hint</summary>Compute the thresholds from the weights that came in,
# before anything moves them; <code>soft_threshold</code> takes a tensor of
# thresholds.</details>

# %% [markdown]
# #### Experiment: who makes zeros?
#
# The same network from the same start, SGD (η = 0.1), 40 epochs. Live: the subgradient,
# the proximal step (both λ = 0.0003) and L2 (λ = 0.001). From the result file: the
# proximal step for five λ, plain and with penalties reweighted every five epochs
# (ε = 0.01).

# %%
strengths = {"proximal": 3e-4, "subgradient": 3e-4, "L2": 1e-3}
found = lab02.zeros_by_training(data, SEEDS, strengths, SETTINGS["l1_epochs"])
columns = {"zeros": "exact zeros (%)", "small": "below 0.001 (%)"}
tables.show(tables.means(found, columns | {"accuracy": "validation accuracy (%)"}))
words.say(
    f"Zeros by the subgradient: {found[found.method == 'subgradient'].zeros.mean():.1f} %."
    f" {words.you_wrote(prediction_2_6)}"
)

# %%
penalties = experiments.read(f"lab02_criteria_{DATA}/penalties")
l1 = penalties[penalties.method.isin(["proximal", "reweighted"])]
plots.frontier(
    l1,
    x="zeros",
    y="accuracy",
    along="strength",
    xlabel="weights that are exactly 0 (%)",
    title="The price of zeros, λ from 0.0001 to 0.003",
)

# %%
tables.compare(
    lab02.at_equal_zeros(l1, (20, 40, 60, 80, 90)),
    {"accuracy": "points"},
    against="proximal",
    columns="zeros",
)

# %% [markdown]
# By the subgradient, just as many weights end *near* zero, and not one of them *at* it:
# each oscillates around zero in steps of ηλ. A threshold afterwards would make them
# zeros; the proximal step needs no such afterthought, and its zeros are there while it
# trains, so that the other weights can make up for them.
#
# The table compares plain and reweighted at equal numbers of zeros, from the result file
# (between two strengths of the penalty on a straight line). Reweighting takes little from
# the weights that are kept: in the middle it is about a point ahead, and more where nearly
# all are zeros. At few zeros we could not detect a difference.

# %% [markdown]
# #### Real data: MNIST
#
# The same on MNIST's 28×28 pixels: 266,200 weights, 6,000 training images, three seeds
# (`course remake lab02_criteria_mnist`). The first table is validation accuracy (%) at
# 90 %. Before you look: five times as many weights, most of them on pixels that are
# hardly ever inked. Which of your conclusions will change?

# %%
mnist = experiments.read("lab02_criteria_mnist/pruned")
tables.show(tables.means(mnist[mnist.sparsity == 0.9], "accuracy", columns="procedure"))
words.say(real_data.table("02"))

# %% [markdown]
# The forecast is as good of one weight, and as bad an order of many, with five times as
# many weights. With training in between the picture is the same, too, but flatter: at 98
# % asking the loss pays by three points instead of twenty, since 5,000 weights are left
# and not a thousand. One sentence is not shown: that asking a dozen times beats size
# where nothing is trained. At 90 % magnitude still reads five digits of six here, all
# criteria stand close together, and three networks cannot tell them apart. What a
# criterion is worth depends on how much there is to lose.
#
# ## Part E · What was it worth?
#
# ### Experiment: the bill
#
# 95 % of the weights, rescored by Fisher and by magnitude at four targets with training
# after each; chosen by what you have seen on the validation images. Now the **test
# images, once**. The size is that of the whole model, biases too, each tensor in the
# cheapest format of lab 00; milliseconds of the processor are for 64 images.

# %%
TARGETS = (0.5, 0.8, 0.9, 0.95)


def finish(method: str, seed: int) -> nn.Module:
    few, epochs = FEW, SETTINGS["retrain"]
    return lab02.trained_between(dense[seed], data, method, TARGETS, few, epochs, seed)[0]


arms = ("Fisher", "magnitude", "random")
finished = parallel.sweep(finish, measure="model", method=arms, seed=range(SEEDS))
models = {f"{method} 95 %": list(of.model) for method, of in finished.groupby("method", sort=False)}

# %%
costs = lab02.costs({"dense": dense, **models}, data)  # the only look at the test images
for method, of in costs.groupby("method", sort=False):
    bits, macs, ms = (of[column].iloc[0] for column in ("bits", "macs", "ms"))
    ledger.add("lenet300", method, lab="02", bits=bits, macs=macs, ms=ms, accuracy=of.test)
words.say(
    "Fisher against magnitude, test accuracy:"
    f" {words.minus(costs, 'test', 'Fisher 95 %', 'magnitude 95 %')}."
)
ledger.table()

# %% [markdown]
# At 95 %, where the order turns, Fisher's mean is above that of magnitude on the test
# images. Whether three seeds can tell the two apart differs from machine to machine (one
# run found +3.3 ± 1.8 points, another one +5.2 ± 9.3); on the validation images of Part B
# six seeds could not. Zeros save bits, and no milliseconds: the kernels are dense, as in lab 01.
# The cost of *asking* stands in no column: a Fisher is one backward pass a sample, a
# curvature ten; magnitude is free.
#
# ### 2.8 Two short answers
# **5 minutes · 1 point**
#
# **a.** The signed forecast says of single weights almost exactly what their removal
# does; removed in its order, the net is at chance at 50 %. Why?

# %%
choose(
    "2.8a",
    "Each forecast holds with all the others in place: thousands that would each help alone do not"
    " help together.",
    "The forecast is wrong for small weights, and most weights are small.",
    "The forecast is made on training images, and the accuracy is measured on others.",
    "Many forecasts are equal, and ties are broken by position, so a layer's first rows are"
    " emptied.",
)

# %% [markdown]
# **b.** Read off the experiment of part A, on the digits: Spearman's ρ between the
# *input-aware* score and the size of the true change, the mean of the three seeds, with
# two decimals. (Within 0.04 of our value counts: training is not the same to the last bit
# everywhere.)

# %%
### BEGIN SOLUTION
answer_2_8a = "A"
answer_2_8b = 0.86
### END SOLUTION

# %%
check("2.8")

# %% [markdown]
# ### 2.9 Bug hunt
# **20 minutes · 1 point**
#
# Here is a version of `soft_threshold` that a colleague has simplified, and the test
# that it passes.


# %%
def suspicious_soft_threshold(w: Tensor, t: float | Tensor) -> Tensor:
    return torch.where(w.abs() > t, w, torch.zeros_like(w))


def naive_test(f: Callable) -> None:
    w = torch.tensor([-2.0, -0.05, 0.0, 0.02, 3.0])
    after = f(w, 0.1)
    # small ones are zero, large ones are not
    assert (after[1:4] == 0).all() and (after[[0, 4]] != 0).all()
    assert (after.sign() == torch.tensor([-1.0, 0, 0, 0, 1])).all()


naive_test(suspicious_soft_threshold)
print("suspicious_soft_threshold passes the naive test.")

# %% [markdown]
# It passes, and it is the *hard* threshold: what stays is not shrunk.
#
# Write `find_bug(f)`: it gets a function `f(w, t)` and raises `AssertionError` if `f`
# breaks the contract of **2.6**'s `soft_threshold`, and returns if it does not. The
# grader calls it with several versions, some right (written in other ways than yours),
# some wrong, each with a mistake that people make. A point is earned only for verdicts
# on both kinds. All versions take finite float tensors of any shape and t ≥ 0, a number
# or a tensor like w, without an error. Try it on something small: the versions refuse
# more than eight million numbers in one call, and calls that take long.


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
            assert after.shape == w.shape and after.dtype == dtype, "not like w"
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
# <details><summary>Hint 1: read the contract as a list</summary>Shape and dtype; exact
# zeros within; shrunk by exactly t outside; the sign.</details>
# <details><summary>Hint 2: choose inputs</summary>Both signs; |w| = t exactly; t = 0; t
# larger than everything; t a tensor whose entries differ; more than one
# dimension.</details>

# %% [markdown]
# ## Play
#
# ### One forecast, many removals
#
# Choose a criterion and how many weights are removed at once (those with the largest
# scores are kept). Left: the truth about single weights. Right: the accuracy, with the
# scores computed once, and in a dozen rounds (six seeds, from the result file). Which
# criterion changes place most? (Tab goes to a control, the space bar presses a button.)

# %%
widgets.explorer(
    lambda criterion, removed: lab02.explore(single, pruned, criterion, removed),
    criterion=widgets.choice(list(lab02.CRITERIA), label="criterion"),
    removed=widgets.choice(
        {f"{100 * s:.0f} %": s for s in lab02.SPARSITIES}, value=0.9, label="removed"
    ),
)

# %% [markdown]
# ## What you take with you
#
# - The loss forecasts the removal of *one* weight almost exactly, sign included. The
#   forecast holds where it was made.
# - An order for many weights is another thing. Removing what "helps when it goes"
#   destroys the net; unsigned scores last longer; magnitude lasts because it makes
#   small steps.
# - Ask again on the way: a dozen questions turn OBD and Fisher from far worse than
#   magnitude to far better. They do not save the signed forecast.
# - With training in between, magnitude is a little ahead up to 90 %; where little is
#   left, it pays to ask the loss.
# - A subgradient never makes a zero; a proximal step does; reweighted, it charges for
#   being there, not for being large.
#
# ## Going further
#
# - **Real data.** `DATA = "mnist"` above runs the lab on MNIST: what takes longest is
#   read from its result file, the rest is live, with three seeds.
# - **The conv net with batch norm.** `library.curvature` takes any module in evaluation
#   mode. There the linear term dominates even more.
# - **The whole Hessian.** *Optimal Brain Surgeon* (Hassibi and Stork 1993) also says
#   how the *other* weights should move; its descendants (OBC, SparseGPT) do so layer by
#   layer in language models.
# - **Read.** Y. LeCun, J. Denker, S. Solla, *Optimal Brain Damage*, 1990. P. Molchanov
#   et al., *Pruning Convolutional Neural Networks for Resource Efficient Inference*, 2017.
#   F. Kunstner, L. Balles, P. Hennig, *Limitations of the Empirical Fisher
#   Approximation*, 2019. M. Sun et al., *A Simple and Effective Pruning Approach for
#   Large Language Models*, 2023. N. Parikh, S. Boyd, *Proximal Algorithms*, 2014. E.
#   Candès, M. Wakin, S. Boyd, *Enhancing Sparsity by Reweighted ℓ1 Minimization*, 2008.
# - **Next.** Lab 03 asks whether the small network was there from the beginning.
