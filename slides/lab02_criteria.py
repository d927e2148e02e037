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
import pandas as pd

from course_lib import experiments
from course_lib.data.images import load
from course_lib.experiments import lab02
from course_lib.show import plots, tables
from course_lib.show.words import minus, pm, say

pruned = experiments.read("lab02_criteria_digits/pruned")
forecasts = experiments.read("lab02_criteria_digits/forecasts")
penalties = experiments.read("lab02_criteria_digits/penalties")
dense, at_once, in_rounds, trained = (
    pruned[pruned.procedure == name] for name in ("dense", "at once", "in rounds", "with training")
)
SEEDS = dense.seed.nunique()
FIVE = ("OBD", "Fisher", "Taylor", "magnitude", "random")
data = load("digits")
(net,) = lab02.dense_networks(data, 1, 30)
x, y = lab02.sample_of(data.train, 512)
single = pd.DataFrame(lab02.single_weights(net, x, y, 240, 0)).assign(seed=0)

# %% [markdown] slideshow={"slide_type": "slide"}
# # What the loss says about a weight
#
# Neural-network pruning · lecture to lab 02
#
# *Magnitude ignores what a weight does. The loss can predict what its removal costs. If
# the prediction is right for every weight, does it give the right order for all?*

# %% slideshow={"slide_type": "notes"}
say(
    "All figures, where nothing else is said: LeNet-300-100 without batch norm on"
    f" scikit-learn's digits, 50,200 weights, {SEEDS} seeds, validation accuracy; dense"
    f" {pm(dense.accuracy)} %. The result file is remade by `course remake lab02_criteria_digits`."
)

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Four ways to score a weight
#
# | score by | criterion | cost |
# |---|---|---|
# | size | magnitude (lab 01) | nothing |
# | change of the loss without it | **this lecture** | gradients, curvature |
# | size and input | Wanda | one forward pass |
# | penalty in the loss | L1, in training | a training |
#
# The first three rank a trained network. With the last one, training chooses.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## One weight, one step
#
# Setting $w$ to 0 is a step of $-w$. Taylor:
#
# $$L(0) - L(w) \;\approx\; -g\,w + \tfrac12\, h\, w^2$$
#
# $g$: the gradient at $w$; $h$: the second derivative.
#
# - **Optimal Brain Damage** (LeCun, Denker & Solla 1990): at a minimum $g = 0$; use
#   $\tfrac12 h w^2$.
# - **Taylor score**: use $|g\,w|$ (Molchanov et al. 2017: with activations for $w$).
# - The whole formula has a **sign**: without some weights the loss is lower.

# %% slideshow={"slide_type": "slide"}
say("## The step, in a picture")
lab02.draw_forecast()

# %% [markdown] slideshow={"slide_type": "notes"}
# A common error: w − w' instead of w' − w. The weight goes from w to 0. On a
# parabola (w − 1)² at w = 0.5 the change is +0.75: try the signs.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Where do second derivatives come from?
#
# All of them: $50{,}200^2 = 2.5$ billion numbers. The diagonal alone, exactly: a
# backward pass for every output class.
#
# **Empirical Fisher**: gradients of the loss, squared for *each sample*, then averaged:
#
# $$F_j = \frac1N \sum_i \Big(\frac{\partial}{\partial w_j} \big(-\log p(y_i \mid x_i)\big)\Big)^2$$
#
# **Gauss–Newton**: not the label's class alone, but every class with its probability:
#
# $$\hat h_j = \frac1N \sum_i \sum_c p_c \Big(\frac{\partial \log p_c}{\partial w_j}\Big)^2$$

# %% [markdown] slideshow={"slide_type": "notes"}
# Square first, average later: after training the mean gradient is nearly 0. Kunstner et
# al. (2019) show that the empirical Fisher is not a curvature. As an order it does as
# well here.

# %% slideshow={"slide_type": "slide"}
say("## Is the forecast right?")
plots.show(lab02.forecast_and_truth(single), inches=(8, 3.2))
rho = lab02.rank_correlations(single).set_index("method").signed["signed forecast"]
say(f"240 weights set to 0, one at a time. Sign included: ρ = **{rho:.3f}**.")

# %% slideshow={"slide_type": "slide"}
say("## How much does each criterion predict?")
tables.show(tables.means(forecasts, {"size": "ρ with the size of the measured change"}, digits=2))
score = single.pivot(index="weight", columns="method", values="score")
say(
    f"The first term is larger than the second for **{(score.Taylor > score.OBD).mean():.0%}** of"
    " the weights (one seed): a network that was stopped early enough to be useful is not at"
    " a minimum."
)

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Two minutes: an order
#
# The forecast is almost exact for single weights. You rank all weights by it, lowest
# first: those whose removal **lowers** the loss come first. You prune half of them.
#
# **1.** What will the loss be: lower, about the same, or higher?
#
# **2.** And what will *random* removal of half of the weights do?

# %% [markdown] slideshow={"slide_type": "notes"}
# 1: far higher: the next slide. 2: random is far better than that. Let them vote before
# you show it. "Lower" is right for one weight; ask what thousands of small improvements
# in the same direction add up to.

# %% slideshow={"slide_type": "slide"}
say("## The best forecast is the worst order")
plots.curves(
    pd.concat([dense, at_once[at_once.method != "input-aware"]]),
    x="sparsity",
    y="accuracy",
    xaxis="sparsity",
    title="All at once, nothing trained",
)

# %% slideshow={"slide_type": "notes"}
half = at_once[at_once.sparsity == 0.5].groupby("method").accuracy
forecast, random, magnitude = (
    pm(half.get_group(name)) for name in ("signed forecast", "random", "magnitude")
)
say(
    f"At 50 %: signed forecast {forecast}, random {random}, magnitude {magnitude}. The forecast is"
    " not wrong; it holds for one weight."
)

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Why?
#
# A derivative is **local**: it holds while all other weights are kept.
#
# - Thousands of removals that each lower the loss a little all move the logits in the
#   *same direction*, far past the point where that was an improvement.
# - Unsigned scores choose weights that matter little: the sum stays small for longer.
# - Removing small weights makes a **small step**, for which every forecast is still
#   good.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## The repair: compute the scores again
#
# ```
# for target in 0.17, 0.32, …, 0.90:
#     scores = criterion(model as it is now)
#     remove the lowest, up to the target
# ```
#
# Twelve rounds. Nothing is trained; only the scores are new.
#
# Molchanov et al. (2017) remove feature maps **one at a time**, with training in
# between. LeCun, Denker and Solla (1990) remove a part at a time.

# %% slideshow={"slide_type": "slide"}
say("## Scored once, or 12 times")
both = pd.concat([at_once.assign(scored="once"), in_rounds.assign(scored="12 times")])
both = both[(both.sparsity == 0.9) & both.method.isin(FIVE)]
bars = plots.bars(
    both,
    x="method",
    y="accuracy",
    by="scored",
    fmt="{:.0f}",
    title="90 % pruned, nothing trained",
)
plots.show(bars, inches=(8, 3.2))
at_90 = both[both.scored == "12 times"]
say(
    f"In rounds against magnitude: OBD {minus(at_90, 'accuracy', 'OBD', 'magnitude')}; Fisher"
    f" {minus(at_90, 'accuracy', 'Fisher', 'magnitude')}."
)

# %% slideshow={"slide_type": "slide"}
say("## With training in between")
figure = plots.curves(
    pd.concat([dense, trained[trained.method != "input-aware"]]),
    x="sparsity",
    y="accuracy",
    xaxis="sparsity",
    title="Six targets, five epochs after each",
)
plots.show(figure, inches=(5.2, 4.05))

# %% [markdown]
# At 80 and 90 % **magnitude is a point or two ahead**: training repairs most of
# the damage, but it repairs the removal of large weights least. From 95 % on the order changes.

# %% slideshow={"slide_type": "slide"}
say("## In numbers")
at_four = trained[trained.sparsity.isin([0.8, 0.9, 0.95, 0.98]) & (trained.method != "random")]
tables.show(tables.compare(at_four, "accuracy", against="magnitude", columns="sparsity"))
say(
    "A paper that stops at 90 % would report the first two columns, one that shows 98 % alone the"
    " last. Both would be right."
)

# %% [markdown] slideshow={"slide_type": "notes"}
# {{claim 02.4}}
#
# {{claim 02.5}}

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Using the input
#
# A weight of 0.01 on an input of 1,000 does more than a weight of 1 on one of 0.1.
# **Wanda** (Sun et al. 2023):
#
# $$|w_{ij}| \cdot \lVert x_j \rVert_2, \qquad \text{compared within each row}$$
#
# No gradient, no training: one forward pass, affordable for a language model.
#
# LLaMA-7B, 50 % removed, perplexity: dense 5.68 · magnitude 17.29 · **Wanda 7.26**.

# %% slideshow={"slide_type": "slide"}
say("## And on our small network?")
pair = at_once[at_once.method.isin(["input-aware", "magnitude"]) & (at_once.sparsity < 0.95)]
tables.show(tables.compare(pair, "accuracy", against="magnitude", columns="sparsity"))
blank = (x.flatten(1) == 0).all(0).double().mean()
say(
    f"It prunes the weights of the pixels that are blank in every image ({blank:.0%}). But ranked"
    " over all layers together, it is behind here. Wanda ranks within each row, in networks in"
    " which a few features are a hundred times larger than the rest."
)

# %% [markdown] slideshow={"slide_type": "notes"}
# Discuss the negative result: the same formula, another distribution of inputs. In the
# lab students build the two-weight example in which magnitude prunes the wrong one.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Another way: a penalty in the loss
#
# $$L + \lambda \sum |w|$$
#
# "L1 gives zeros, L2 does not." But SGD with $\lambda\,\operatorname{sign}(w)$ gives **not
# one exact zero**: each weight jumps back and forth over 0, by $\eta\lambda$.
#
# **Proximal step**: minimise penalty *and* distance to the result of the gradient step,
#
# $$\operatorname{prox}(v) = \arg\min_w \tfrac12 (w - v)^2 + t\,|w| = \operatorname{sign}(v)\,\max(|v| - t,\, 0)$$
#
# with $t = \eta\lambda$. Values within $t$ of 0 become **exactly** 0.

# %% slideshow={"slide_type": "slide"}
say("## Which method makes zeros?")
at_one = penalties[penalties.strength == 3e-4]
columns = {"zeros": "exact zeros (%)", "small": "below 0.001 (%)", "accuracy": "accuracy (%)"}
tables.means(at_one, columns)

# %% [markdown]
# The subgradient brings as many weights *near* 0 as the proximal step. With the latter
# more than half of these *are* 0, already during training, so the others can adapt.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## A penalty per weight, not by size
#
# L1 takes the same $\lambda$ off every weight, also off those that the network needs.
# **Reweighting** (Candès, Wakin & Boyd 2008):
#
# $$\lambda_j = \frac{\lambda}{|w_j| + \varepsilon}$$
#
# Small weights pay much, large ones almost nothing. Repeated every few epochs this nearly
# counts the non-zero weights. (Lab 06: reweighted proximal pruning of a BERT.)

# %% slideshow={"slide_type": "slide"}
say("## What reweighting gains")
figure = plots.curves(
    penalties[penalties.method.isin(["proximal", "reweighted"])],
    x="zeros",
    y="accuracy",
    control=None,
    along="strength",
    xlabel="weights that are exactly 0 (%)",
    title="Five strengths of the penalty each",
)
plots.show(figure, inches=(5.2, 4.05))

# %% [markdown]
# Few zeros: no difference detected. Many: plain L1 has shrunk weights that are needed.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Two minutes: read a claim
#
# > "Our score uses second-order information and is therefore more accurate than
# magnitude. At 90 % sparsity, pruned in one step and without fine-tuning, it keeps 12
# points more."
#
# **1.** Which curve of today would you show the authors?
#
# **2.** Name two changes of the *procedure*, none of the score, that could reverse the
# result.

# %% [markdown] slideshow={"slide_type": "notes"}
# 1: all at once, where second order is behind magnitude here; on their network it may
# not be. 2: rounds instead of one step; training in between; the share (80 or 98 %);
# the random control; seeds.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## What does scoring cost?
#
# | criterion | passes for one set of scores |
# |---|---|
# | magnitude | none |
# | input-aware | one forward |
# | Taylor | one backward |
# | empirical Fisher | a gradient for **each sample** |
# | Gauss–Newton diagonal | one for each sample **and class** |
#
# Times twelve with twelve rounds. `torch.func.vmap` makes per-sample gradients faster;
# chunks keep them in a laptop's memory.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## What to take along
#
# - $-gw + \tfrac12 hw^2$ predicts the removal of **one** weight almost exactly, with its
#   sign.
# - As an order for many it is the worst of all: small gains in the same direction.
# - **Compute scores again**; a procedure can matter more than a score.
# - With training in between, magnitude is hard to beat until few weights are kept.
# - A proximal step makes exact zeros, a subgradient does not. Reweighted, each non-zero
#   weight pays about the same.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Lab 02, and where to read on
#
# - LeCun, Denker & Solla (1990). [Optimal brain
#   damage](https://papers.neurips.cc/paper/1989/hash/6c9882bbac1c7093bd25041881277658-Abstract.html).
#   *NeurIPS*.
# - Hassibi & Stork (1993). [Second order derivatives for network pruning: optimal brain
#   surgeon](https://proceedings.neurips.cc/paper_files/paper/1992/hash/303ed4c69846ab36c2904d3ba8573050-Abstract.html).
#   *NeurIPS*.
# - Molchanov, Tyree, Karras, Aila & Kautz (2017). [Pruning convolutional neural networks
#   for resource efficient inference](https://arxiv.org/abs/1611.06440). *ICLR*.
# - Kunstner, Balles & Hennig (2019). [Limitations of the empirical Fisher
#   approximation](https://arxiv.org/abs/1905.12558). *NeurIPS*.
# - Sun, Liu, Bair & Kolter (2023). [A simple and effective pruning approach for large
#   language models](https://arxiv.org/abs/2306.11695).
# - Candès, Wakin & Boyd (2008). [Enhancing sparsity by reweighted ℓ1
#   minimization](https://doi.org/10.1007/s00041-008-9045-x).
