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
from course_lib.intervals import differences
from course_lib.show import drawings, plots, tables
from course_lib.show.words import minus, pm, say

both = lab02.read_both("pruned")
pruned = experiments.read("lab02_criteria_digits/pruned")
together = experiments.read("lab02_criteria_digits/together")
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
drawings.forecast()

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
# al. (2019) show that the empirical Fisher is not a curvature. As an order it is sometimes
# better here, sometimes worse.

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

# %% slideshow={"slide_type": "slide"}
say("## Why? Test the diagonal assumption")
plots.show(lab02.draw_sums(together), inches=(8, 3.2))

# %% [markdown]
# Sum: *diagonal*; all cross terms: *quadratic* only. Removals that each lower the loss move
# the logits in the **same direction**.

# %% [markdown] slideshow={"slide_type": "notes"}
# OBD names three assumptions: extremal (g = 0), diagonal, quadratic. LeCun, Denker and
# Solla (figure 1) show that the summed forecast holds up to about 30 % there. In the order
# of magnitude the three agree for longer: small weights make a small step.

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
scored = pd.concat([at_once.assign(scored="once"), in_rounds.assign(scored="12 times")])
scored = scored[(scored.sparsity == 0.9) & scored.method.isin(FIVE)]
bars = plots.bars(
    scored,
    x="method",
    y="accuracy",
    by="scored",
    fmt="{:.0f}",
    title="90 % pruned, nothing trained",
)
plots.show(bars, inches=(8, 3.2))
at_90 = scored[scored.scored == "12 times"]
say(
    f"In rounds against magnitude: OBD {minus(at_90, 'accuracy', 'OBD', 'magnitude')}; Fisher"
    f" {minus(at_90, 'accuracy', 'Fisher', 'magnitude')}."
)

# %% slideshow={"slide_type": "slide"}
say("## With training in between")
with_training = both.query("procedure == 'with training' and method != 'random'")
ahead = differences(with_training, "accuracy", against="magnitude", within=["images", "sparsity"])
fig = plots.curves(
    ahead.assign(remaining=1 - ahead.sparsity),
    x="remaining",
    y="accuracy",
    ylabel="ahead by (points)",
    xaxis="remaining",
    panels="images",
    difference=True,
    control=None,
    title="Trained between rounds: which score is ahead of magnitude?",
)
plots.show(fig, inches=(8, 3.2))

# %% [markdown]
# The rival is **magnitude with OBD's share of each layer**: OBD's order *within* a layer is
# worth about five points at 98 %, on both.

# %% [markdown] slideshow={"slide_type": "notes"}
# {{claim 02.4}}
#
# A paper that stops at 90 % would report that magnitude is ahead, one that shows 98 %
# alone that it is behind. On the digits both would be right. At 80 % OBD's order within a
# layer costs the digits one or two points.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## One ladder
#
# Minimise the error of a layer's output, $E\,\lVert (W - W')\,a \rVert^2$, with
# $M = E[a\,a^\top]$ taken as
#
# | $M$ | score of $w_{ij}$ | kept weights | |
# |---|---|---|---|
# | identity | $w^2$ | stay | magnitude |
# | its diagonal | $w^2\,E[a_j^2]$ | stay | **Wanda** (Sun et al. 2023), per row |
# | full | $w^2 / [M^{-1}]_{jj}$ | move | **OBS** (Hassibi & Stork 1993), layer by layer |
#
# No gradient. LLaMA-7B, 50 % removed, perplexity: dense 5.68 · magnitude 17.29 · Wanda 7.26.

# %% slideshow={"slide_type": "slide"}
say("## And on our small network, per row?")
fig = plots.curves(
    both[both.procedure.isin(["per row", "dense"])],
    x="sparsity",
    y="accuracy",
    xaxis="sparsity",
    panels="images",
    title="Per row, not trained: how much of E[a·aᵀ] does it take?",
)
plots.show(fig, inches=(8, 4))

# %% [markdown] slideshow={"slide_type": "notes"}
# {{claim 02.5}}
#
# Discuss the negative result of the diagonal: the same formula, another distribution of
# inputs. In language models a few features are a hundred times larger than the rest.

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

# %% slideshow={"slide_type": "slide"}
say("## Better zeros than magnitude's?")
found = lab02.read_both("penalties")
fig = plots.curves(
    found[found.method.isin(["proximal", "magnitude", "random"])],
    x="zeros",
    y="accuracy",
    along="strength",
    xlabel="exact zeros (%)",
    panels="images",
    title="Zeros by a penalty, and by magnitude with as many epochs",
)
plots.show(fig, inches=(8, 3.2))

# %% [markdown]
# As many epochs for all. The proximal step also shrinks every weight that is kept. Lab 06
# gives each weight its own penalty.

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
# ## What to take along
#
# - $-gw + \tfrac12 hw^2$ predicts the removal of **one** weight almost exactly, with its
#   sign.
# - As an order for half of the weights it is the worst of all.
# - **Compute scores again**; a procedure can matter more than a score.
# - With training in between, magnitude is hard to beat until few weights are kept.
# - A proximal step makes exact zeros, a subgradient does not.
# - Magnitude, Wanda and OBS: one error, more and more of $E[a\,a^\top]$.

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
