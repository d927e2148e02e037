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
from course_lib.show import drawings, plots, tables
from course_lib.show.words import pm, say

plots.use_style()
names = ("starts", "regimes", "learned", "l1", "ranks", "components")
stored = {name: experiments.read(f"lab06_weights/{name}") for name in names}
starts = {name: rows["accuracy"] for name, rows in stored["starts"].groupby("method")}
constant = starts["majority"].mean()
learned = stored["learned"].assign(gain=stored["learned"]["accuracy"] - constant)
learned["setting"] = learned["rate"] + (100 * learned["keep"]).map(", {:.0f} %".format)
drawn = stored["regimes"].query("method == 'random'")
drawn = drawn.assign(zeros=drawn["sparsity"], strength=drawn["sparsity"])


# %% [markdown] slideshow={"slide_type": "slide"}
# # Which weights does fine-tuning need?
#
# Neural-network pruning · lecture to lab 06
#
# *A model was pre-trained for weeks, and is now fine-tuned for minutes. Nine tenths of
# its weights must be removed. Should pre-training or fine-tuning decide which?*

# %% slideshow={"slide_type": "notes"}
say(
    "All figures, unless stated otherwise: three small BERTs, trained on the sentiment of"
    " generated reviews (pre-trained), fine-tuned with 1,000 texts to another label of the same"
    " grammar: is the main clause negated? The result files are remade by `course remake"
    " lab06_weights`. 'Left open' marks what the lab asks students to predict: let them write"
    " their guesses down."
)

# %% slideshow={"slide_type": "slide"}
say(
    "## The set-up\n\n"
    "| | BERT in the papers | here |\n|---|---|---|\n"
    "| pre-training | a masked language model, weeks | sentiment of generated reviews |\n"
    "| task | MNLI, SQuAD, SST-2 | is the main clause negated? |\n"
    "| pruned | encoder matrices (Gordon: word embeddings, too) | encoder matrices |\n\n"
    f"Fine-tuned **{pm(starts['pre-trained'])} %**; the same network from scratch"
    f' {pm(starts["from scratch"])} %; always "no" {constant:.1f} %.'
)

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Two ways to lose
#
# **Information**: the knowledge from pre-training in these weights is lost.
#
# **Capacity**: too few weights are left to fit the new task.
#
# | arm (Gordon, Duh & Andrews 2020) | before fine-tuning | while fine-tuning |
# |---|---|---|
# | zeros **held** | smallest set to 0 | remain 0 |
# | zeros **let go** | smallest set to 0 | may become anything |
#
# In both the information is lost. The second keeps the capacity.
#
# - let go − held: what more capacity wins back;
# - dense − let go: information that this fine-tuning did not relearn.

# %% slideshow={"slide_type": "slide"}
say("## One line is missing")
arms = stored["regimes"].query("method != 'let go'")
plots.show(
    plots.curves(arms, x="sparsity", y="accuracy", xaxis="sparsity", title="Three models"),
    inches=(8, 3.3),
)

# %% [markdown]
# > **Left open.** Where does the line "let go" run?

# %% slideshow={"slide_type": "slide"}
say("## At 90 % most of the loss is capacity")
real = experiments.read("lab06_sst2/regimes").assign(data="SST-2, one run each")
both = pd.concat([real, stored["regimes"].assign(data="reviews, three models")])
look = {"xaxis": "sparsity", "panels": "data", "title": "Pruned by size: what was lost?"}
plots.show(plots.curves(both, x="sparsity", y="accuracy", **look), inches=(8, 3.3))

# %% [markdown]
# On the reviews, up to 70 % no loss could be detected. On real sentences nothing is free.

# %% [markdown] slideshow={"slide_type": "notes"}
# {{claim 06.1}}
#
# {{claim 06.2}}
#
# {{claim 06.3}}
#
# MiniLM, 6 layers of width 384, 4,000 sentences: an example. Gordon et al. on BERT-base: 30–40 %
# free, then information, then capacity. Ours ends later, perhaps because the task is easier. Around 80 % the three models differ in what they lose.

# %% slideshow={"slide_type": "slide"}
say("## The old task does not predict the new one")
held = stored["regimes"].query("method == 'zeros held' and sparsity in [0.5, 0.7, 0.8, 0.9]")
old = held.assign(method="old task, right after pruning", accuracy=held["old"])
rows = pd.concat([old, held.assign(method="new task, after fine-tuning")])
tables.show(tables.means(rows, "accuracy", columns="sparsity"))

# %% [markdown]
# The new task did not need the lost knowledge, or relearned it in 200 steps.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Two minutes: which criterion?
#
# You fine-tune a pre-trained model and may keep 10 % of its weights.
#
# **1.** Magnitude uses the weights *before* fine-tuning. Which task do they reflect?
#
# **2.** Fine-tuning moves a small weight away from 0 in every step, and a large one
# towards 0. Which would you keep, and which does magnitude keep?

# %% [markdown] slideshow={"slide_type": "notes"}
# 1: the task of pre-training. 2: magnitude keeps the large one, which fine-tuning
# reduces. Movement keeps the small one: the next two slides. Is that always right? A
# few steps predict little about the final weight; the recipe decides.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Movement: a mask with a gradient
#
# Sanh, Wolf & Rush (2020): a score $S$ for each weight, the network computes with
#
# $$W' = W \odot M, \qquad M = \text{1 for the largest scores}$$
#
# and $S$ is **learned by gradient**. $M$ is a step function of $S$; the
# *straight-through* gradient treats $M$ as $S$:
#
# $$\frac{\partial L}{\partial S} = \frac{\partial L}{\partial W'} \odot W \qquad\text{at every entry, also where } M = 0$$
#
# A pruned weight's score still changes, and the weight can return.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## What a score accumulates
#
# SGD at rate $\eta$, scores from 0:
#
# $$S = -\eta \sum_t g_t \odot w_t$$
#
# - $g\,w < 0$: SGD moves the weight **away from zero**; the score rises.
# - $g\,w > 0$: towards zero; it falls.
#
# Each term is lab 02's first-order change of the loss if the weight is set to 0. Movement
# adds it up over fine-tuning.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Soft movement
#
# A weight is kept while $\sigma(S) > \tau$. A penalty $\lambda \cdot \text{mean}\,\sigma(S)$ pushes
# all scores down. So nobody chooses the share of a matrix; it is learned.
#
# > **Left open.** The penalty pushes all scores. Can it change *which* weights are kept?

# %% slideshow={"slide_type": "slide"}
say("## Movement or size? The recipe decides")
hard = learned.query("method in ['movement', 'magnitude', 'random']")
look = {"y": "gain", "fmt": "{:.0f}", "ylabel": "points gained"}
fig = plots.bars(hard, x="setting", by="method", title="Above the constant answer", **look)
plots.show(fig, inches=(8, 3.3))

# %% [markdown]
# At a careful rate the sizes still reflect pre-training. At a bold one they adapt.

# %% [markdown] slideshow={"slide_type": "notes"}
# {{claim 06.4}}
#
# Careful: 5·10⁻⁵, 400 steps of 16 texts; bold: 3·10⁻⁴, 200 steps of 32. Random places reach the
# constant answer, in every setting. Sanh et al., MNLI, with distillation: hard 80.1, size 78.3 at
# 10 %; 76.5, 69.4 at 3 %.

# %% slideshow={"slide_type": "slide"}
say("## The penalty makes most of the gain")
careful = learned.query("setting == 'careful, 10 %'").replace("movement + penalty", "with penalty")
fig = plots.bars(
    careful, x="method", title="Careful rate, 10 % kept: above the constant answer", **look
)
plots.show(fig, inches=(8, 3.1))

# %% [markdown]
# The weights that soft movement keeps were 2.1 times the median before training (size: 2.9).

# %% [markdown] slideshow={"slide_type": "notes"}
# "Movement + penalty" has a fixed share, one threshold and the cubic schedule; it keeps as
# many weights as soft movement. A likely reason: Adam divides the penalty's gradient p, too,
# −(m + p)/√v, so scores with small gradients fall at the full rate. No arm with SGD was run. In the paper the lead of soft movement is smaller: 81.2 against
# 80.1 at 10 %, 79.5 against 76.5 at 3 %.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## After Adam's step
#
# L1 in the loss, with Adam: the penalty's gradient is divided by $\sqrt v$ like all
# others, so its strength loses its meaning.
#
# Guo et al. (2019), **reweighted proximal pruning**: take it *out* of the loss,
#
# $$w_i \leftarrow \operatorname{soft}(w_i,\; \eta\,\lambda\,\alpha_i) \quad\text{after Adam's step},\qquad \alpha_i = \frac{1}{|w_i| + \varepsilon}$$
#
# Small weights are penalised more, large ones hardly. (Lab 02 has the proximal step,
# and why a subgradient makes no zeros.)

# %% slideshow={"slide_type": "slide"}
say("## Which baseline is missing?")
shown = pd.concat([stored["l1"].query("method != 'magnitude'"), drawn])
curve = {"x": "zeros", "y": "accuracy", "along": "strength", "xaxis": "sparsity"}
fig = plots.curves(shown, title="A penalty under Adam, three strengths", **curve)
plots.show(fig, inches=(8, 3.3))

# %% [markdown]
# > **Left open.** Where does plain pruning by size run, at the same zeros?

# %% slideshow={"slide_type": "slide"}
say("## Magnitude is better")
shown = pd.concat([stored["l1"], drawn])
plots.show(plots.curves(shown, title="The same, with pruning by size", **curve), inches=(8, 3.3))

# %% [markdown] slideshow={"slide_type": "notes"}
# {{claim 06.5}}
#
# Guo et al. prune while pre-training, and report no loss at 59.3 % of BERT. We prune while
# fine-tuning, so this is no repetition of their experiment.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Two minutes: how small is a factored layer?
#
# A matrix is a sum of components: $W = \sum_k p_k q_k^\top = PQ$ with $P$ out × r and
# $Q$ r × in. Each removed component makes the layer smaller on any hardware.
#
# **1.** From which rank on is a factored 128×128 layer *larger* than the dense one?
#
# **2.** "We removed 35 % by low rank, and nothing was lost." Which baseline would you
# ask for first?

# %% [markdown] slideshow={"slide_type": "notes"}
# 1: out·in/(out+in) = 64. With all components the factored layer is twice as large. 2: the
# largest singular values, nothing trained: see the next slide.

# %% slideshow={"slide_type": "slide"}
say("## How low-rank is it already?")
fig = plots.curves(
    stored["ranks"], x="sparsity", y="accuracy", xaxis="sparsity", title="Old task, nothing trained"
)
plots.show(fig, inches=(8, 3.3))

# %% [markdown]
# Two thirds of the encoder can be removed without any training, for a point.

# %% slideshow={"slide_type": "slide"}
say("## A gate that is exactly 0, with a gradient")
plots.show(drawings.stretched_and_cut(1.0), inches=(8, 2.5))

# %% [markdown]
# *Hard concrete* (Louizos et al. 2018). The **count** of open gates has no gradient. Its
# **expectation** has one.
#
# > **Left open.** $g \ne 0$ if $s > -\gamma/(\zeta-\gamma)$. How probable is that?

# %% [markdown] slideshow={"slide_type": "notes"}
# The noise ln u − ln(1−u) has the distribution function σ. With σ⁻¹(−γ/(ζ−γ)) = ln(−γ/ζ):
# P(g ≠ 0) = σ(log α − β ln(−γ/ζ)). A check: β = 1, α = 1, γ = −½, ζ = 3/2: s is uniform, P = ¾.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## A target size
#
# Which λ gives the size that you want? Wang, Wohlwend & Lei (2020) **learn** it,
#
# $$\min_{W, z}\;\max_{\lambda_1, \lambda_2}\quad L + \lambda_1 (s - t) + \lambda_2 (s - t)^2$$
#
# $s$: size, $t$: target. Too large: both λ grow. Too small: $\lambda_1$ falls, may
# become negative, and makes the model larger again.

# %% slideshow={"slide_type": "slide"}
say("## Gates, or singular values, trained as long?")
kinds = stored["components"].assign(gain=stored["components"]["accuracy"] - constant)
kinds = kinds.replace({"largest": "largest singular values", "gates": "learned gates"})
fig = plots.bars(kinds, x="method", title="10 % of the encoder: above the constant answer", **look)
plots.show(fig, inches=(8, 3.1))
met = 100 * stored["components"].query("method == 'gates'")["share"]
say(f"The multiplier leaves {pm(met)} %. No difference was detected.")

# %% [markdown] slideshow={"slide_type": "notes"}
# {{claim 06.6}}

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Zeros, or thinner matrices?
#
# | 90 % of the encoder removed | weights stored | products of a dense kernel |
# |---|---|---|
# | single zeros, by any rule | 10 %, and their places | **100 %** |
# | low rank | 10 % | **10 %** |
#
# > **Left open.** The lab measures milliseconds.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## What to take along
#
# - Two ways to lose, and an experiment that separates them: **hold the zeros, or let
#   them go**, and compare both with dense.
# - Movement measures fine-tuning, size measures pre-training. Which is ahead **depends
#   on the recipe**; the penalty mattered more than either.
# - Apply penalties *after* Adam's step, and compare them with magnitude at equal zeros.
# - Low rank is structure, so it saves time. Its first baseline is the SVD, trained as
#   long.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Lab 06, and where to read on
#
# - Gordon, Duh & Andrews (2020). [Compressing BERT: studying the effects of weight
#   pruning on transfer learning](https://arxiv.org/abs/2002.08307). *RepL4NLP*.
# - Sanh, Wolf & Rush (2020). [Movement pruning: adaptive sparsity by
#   fine-tuning](https://arxiv.org/abs/2005.07683). *NeurIPS*.
# - Guo, Liu, Mungall, Lin & Wang (2019). [Reweighted proximal pruning for large-scale
#   language representation](https://arxiv.org/abs/1909.12486).
# - Wang, Wohlwend & Lei (2020). [Structured pruning of large language
#   models](https://aclanthology.org/2020.emnlp-main.496). *EMNLP*.
# - Louizos, Welling & Kingma (2018). [Learning sparse neural networks through L0
#   regularization](https://arxiv.org/abs/1712.01312). *ICLR*.
