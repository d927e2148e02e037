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
import torch

from course_lib import experiments
from course_lib.experiments import lab09
from course_lib.pruning.layers import fleiss_kappa, layers_to_keep, overlap, survival, take_layers
from course_lib.show import plots, tables
from course_lib.show.words import minus, say

torch.set_num_threads(1)
LAYERS, HEADS, TASKS = lab09.LAYERS, lab09.HEADS, lab09.TASKS
depths = experiments.read("lab09_depth/depths")
evenly = depths[depths["kept"] == "evenly spaced"]
scores, rounds, heads = (
    experiments.read(f"lab09_subnetworks/{name}") for name in ("scores", "rounds", "heads")
)
of_heads = lab09.masks(heads)
SEEDS = len(of_heads)

# %% [markdown] slideshow={"slide_type": "slide"}
# # How little of a transformer does it take?
#
# Neural-network pruning · lecture to lab 09
#
# *Can whole layers and whole feed-forward parts be removed? And is the removable part
# the same for every task, and every seed?*

# %% slideshow={"slide_type": "notes"}
say(
    f"All figures: three small BERTs ({LAYERS} layers of {HEADS} heads) on generated reviews; depth"
    " on reviews with at most one filler, subnetworks on four labels of the full reviews"
    f" ({', '.join(TASKS)}). Importance and choices use validation texts, accuracies test texts."
)

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Larger things
#
# | removed | lab | is it faster? |
# |---|---|---|
# | weights | 01, 06 | no |
# | heads | 07, 08 | a little |
# | **feed-forward parts, layers** | **09** | **in proportion** |
# | tokens | 10 | yes |
#
# A layer of a transformer *adds* something: $x + f(x)$. Without it, $x$ is passed on
# unchanged: the shapes still fit, only the learned function is lost.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## LayerDrop
#
# Fan, Grave & Joulin (2020): in each training step every layer is skipped with
# probability $p$.
#
# $$x \;\to\; \begin{cases} x & \text{with probability } p \\ x + f(x) & \text{else} \end{cases}$$
#
# - Nothing is rescaled. (Dropout divides by $1 - p$; stochastic depth, Huang et al.
#   2016, scales $f$ at test time.)
# - One draw for the **whole batch**, so training is faster, too.
# - Afterwards: remove layers, evenly spaced. **One training, any depth.**

# %% [markdown] slideshow={"slide_type": "notes"}
# With p = 1/2 and four layers all four run in 6 of 100 steps. The paper: 16 to 8
# layers, 246.9 to 146.2 million parameters.

# %% slideshow={"slide_type": "slide"}
say("## Two steps of training, and the cut")
plots.show(lab09.draw_layerdrop(), inches=(8, 2.2))

# %% [markdown]
# - Each layer draws its own number in every step. A skipped layer passes its input on.
# - So the other layers learn to work without it.
# - In the end every second layer is kept: half of the depth, without further training.

# %% slideshow={"slide_type": "slide"}
say("## Which layers are kept?")
say(
    "Evenly spaced, the first included: number $\\lfloor i\\,n/d \\rfloor$ for $i = 0 \\dots d - 1$."
)
rows = [(depth, ", ".join(map(str, layers_to_keep(12, depth)))) for depth in (9, 6, 4, 3, 1)]
tables.show(tables.plain(pd.DataFrame(rows, columns=["of 12 layers", "kept"])))
say("Each of these rows is possible if *every* layer was missing in some steps of the training.")

# %% [markdown] slideshow={"slide_type": "notes"}
# Why evenly? Neighbours do similar work, so one of two neighbours can replace the other.
# With four layers there is little to choose: the table two slides later cannot distinguish
# it from the first two layers.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Two minutes: what is the right comparison?
#
# A model trained with LayerDrop, cut to half its depth, keeps 85 %. The same model
# trained without it and cut in the same way keeps 75 %.
#
# **1.** Which claim do these two numbers support?
#
# **2.** A user needs a model of half the depth, and no other. Which third number
# would you show?

# %% [markdown] slideshow={"slide_type": "notes"}
# 1: that a model trained with missing layers loses less when it is cut. Not that it is a
# good model of half the depth. 2: that of a model *trained* at half the depth: the next
# slides. Many papers leave this comparison out; users need it.

# %% slideshow={"slide_type": "slide"}
say("## Any depth from one training?")
title = "Cut after the training; a constant answer is right in 50 %"
show = {"x": "depth", "y": "test", "control": None, "xlabel": "layers left"}
plots.show(plots.curves(evenly, title=title, ylabel="accuracy (%)", **show), inches=(8, 4.0))

# %% slideshow={"slide_type": "slide"}
say("## Half the depth, in numbers")
half = depths[depths["depth"] == LAYERS // 2]
tables.show(tables.means(half, "test", columns="kept"))
half_evenly = half[half["kept"] == "evenly spaced"]
say(f"LayerDrop 0.5 minus plain: {minus(half_evenly, 'test', 'LayerDrop 0.5', 'plain')}.")

# %% [markdown]
# LayerDrop keeps more than plain training. But a network *trained* at half the depth is
# far better. (The paper, with 12 to 16 layers: about equal or worse.) LayerDrop buys one
# training for many devices.

# %% [markdown] slideshow={"slide_type": "notes"}
# {{claim 09.1}}
#
# {{claim 09.2}}
#
# {{claim 09.3}}

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Heads and feed-forward parts
#
# $$\text{layer}(x) = x + \sum_h \xi_h\,\text{head}_h(x), \qquad x' = x + \nu\,\text{MLP}(x)$$
#
# Prasanna, Rogers & Rumshisky (2020): one backward pass scores both,
#
# $$I = \mathbb E_x \left|\frac{\partial L(x)}{\partial \xi}\right|,\qquad \mathbb E_x \left|\frac{\partial L(x)}{\partial \nu}\right|$$
#
# $\nu$ multiplies what the part *adds*. Before $W_2$ it would miss the bias; after the
# sum it would also scale the input.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Good, random, bad
#
# **Search**: a tenth of the heads and of the feed-forward parts per round, the least
# important first, while at least 90 % of the full accuracy is left. The survivors are the
# *good* subnetwork.
#
# **Random**: as many heads and parts, drawn at random.
#
# **Bad**: as many, from those that did *not* survive, least important first.
#
# Then all three are **retrained**: from the pre-trained weights, for the same steps,
# with only the subnetwork switched on.

# %% [markdown] slideshow={"slide_type": "notes"}
# "When BERT plays the lottery, all tickets are winning": a pun on the lottery ticket
# hypothesis (lab 03). The paper removes one part per round, and fills up "bad" with a
# random sample of the survivors.
# The good one is the ticket; the other two are its baselines.

# %% slideshow={"slide_type": "slide"}
say("## How far does the search go?")
runs = rounds.groupby("task", sort=False)
common = runs["round"].transform(lambda r: r.value_counts()[lambda n: n == SEEDS].index.max())
every = rounds[rounds["round"] <= common]
means = every.groupby(["task", "round"], sort=False)[["heads", "validation"]].mean().reset_index()
means["removed"] = LAYERS * HEADS - means["heads"]
plots.show(
    plots.curves(
        means,
        x="removed",
        y="validation",
        by="task",
        control=None,
        title="While at least 90 % of the score is left",
        xlabel="heads pruned",
        ylabel="accuracy (%)",
    ),
    inches=(5.4, 4.05),
)

# %% [markdown]
# Rounds that all seeds reached, mean of three. Each round computes importance again (lab
# 02), without training: *this* fine-tuned model needs the surviving part.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Two minutes: predict
#
# The good subnetwork keeps 90 % as it is. After retraining it reaches the full model.
#
# **1.** How far behind will the *random* one be, retrained just as long?
#
# **2.** If it is not behind at all: what can you still claim about the good one?

# %% [markdown] slideshow={"slide_type": "notes"}
# 1: let them write a number; ours are two slides later, by task. 2: that it works *as it
# is*, without retraining, and the random one does not. Not that retraining needed these
# heads: then the good one would be ahead after retraining.

# %% slideshow={"slide_type": "slide"}
say("## Are all tickets winning?")
pruned, retrained = (scores[scores["when"] == when] for when in ("pruned", "retrained"))
show = {"x": "task", "y": "score", "by": "subnetwork", "fmt": "{:.0f}", "ylabel": "accuracy (%)"}
plots.show(plots.bars(retrained, title="Retrained", **show), inches=(8, 3.6))

# %% slideshow={"slide_type": "slide"}
say("## As they are, and retrained")
by = {"by": "subnetwork", "against": "good", "columns": "task"}
points = tables.compare(pruned[pruned["subnetwork"] != "bad"], "score", **by)
again = tables.compare(retrained, "score", **by)
points.rows = [
    [f"{name}, {when}", *cells]
    for when, table in (("pruned", points), ("retrained", again))
    for name, *cells in table.rows
]
tables.show(points)

# %% [markdown]
# As they are, the good ones are far ahead (on *contrast* the random ones vary too much to
# detect it).
# *Retrained*, no difference between good and random could be detected, and on two of
# four tasks even the bad one reaches the full model. So "it reaches the full model" does
# not distinguish *this* subnetwork (as in lab 03).

# %% [markdown] slideshow={"slide_type": "notes"}
# {{claim 09.4}}
#
# {{claim 09.5}}

# %% [markdown] slideshow={"slide_type": "slide"}
# ## The same every time?
#
# Two random masks share $|a|\,|b| / n$ elements on average. For more than two masks,
# **Fleiss' κ**:
#
# $$P_i = \frac{k_i(k_i - 1) + (R - k_i)(R - k_i - 1)}{R(R - 1)},\qquad \bar P_e = q^2 + (1 - q)^2$$
#
# $$\kappa = \frac{\bar P - \bar P_e}{1 - \bar P_e}$$
#
# $R$ masks, $k_i$ of them keep element $i$, $q$: the share of all entries that are
# kept. 1: perfect. 0: chance.

# %% slideshow={"slide_type": "slide"}
say("## Task or seed?")
shared = lab09.overlaps(of_heads, overlap)
tables.show(tables.means(shared, {"heads": "heads shared"}, rows="pair", columns="method"))
kappas = ", ".join(
    f"{task} {fleiss_kappa(torch.stack([of_seed[t].flatten() for of_seed in of_heads])):.2f}"
    for t, task in enumerate(TASKS)
)
say(f"κ over seeds: {kappas}.")

# %% [markdown]
# Both are above chance, but the *difference* between them is not distinguishable. Two
# fine-tunings that differ only in the order of texts keep different heads. BERT-base: 86 %
# of heads and 57 % of feed-forward parts survive in fewer than seven of nine tasks.
#
# Do not claim "this head matters for negation" before κ is high.

# %% slideshow={"slide_type": "slide"}
say("## Which heads survive?")
counts, _ = survival(of_heads)
title = f"In how many of {len(TASKS)} tasks, mean of {SEEDS} seeds"
plots.show(plots.grid(lab09.by_head(counts), title=title), inches=(8, 2.8))
say(
    f"**{float((counts < len(TASKS) - 1).double().mean()):.0%}** of the heads survive in fewer than"
    f" {len(TASKS) - 1} of {len(TASKS)} tasks. Few are needed for everything."
)

# %% [markdown] slideshow={"slide_type": "notes"}
# All tasks of one seed start from the same checkpoint, so what they share is partly the
# checkpoint. The lab's overlap compares both ways.

# %% slideshow={"slide_type": "slide"}
say("## Is it faster?")
whole = lab09.pretrained(0)
first = rounds[(rounds["task"] == "sentiment") & (rounds["seed"] == 0)].iloc[-1]
nets = {
    "full": whole,
    "half of the layers": take_layers(whole, lab09.PATH, LAYERS // 2),
    f"{first['heads']} of {LAYERS * HEADS} heads, {first['parts']} of {LAYERS} parts": (
        lab09.good_subnetwork()
    ),
}
costs = lab09.measure_costs(nets)
costs["times faster"] = costs["ms"][0] / costs["ms"]
shown = costs[["model", "parameters", "times faster"]]
tables.show(tables.plain(shown.rename(columns={"model": "64 texts, one thread"}), 2))

# %% [markdown]
# No index, no stored zeros: every machine is faster without whole layers.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## On a model of your own
#
# ```
# with layers.layerdrop(blocks, 0.5, generator):
#     train(model)      # your loop
# half = layers.take_layers(model, path, 6)
#
# heads, parts = layers.joint_importance(…)
# layers.remove_mlps(model, parts > 0.1)
# ```
#
# Any `nn.ModuleList` of residual layers; feed-forward parts of BERT, ViT, Marian, T5,
# GPT-2 and torch's own.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## What to take along
#
# - A residual layer can be **removed**; trained with missing layers, a network can be
#   cut to any depth.
# - The comparison that matters: a network *trained* at that depth.
# - One backward pass scores heads and feed-forward parts.
# - Retrained, good and random subnetworks are not distinguishable: **without a baseline,
#   every ticket wins**.
# - What survives differs from seed to seed. Compute κ before you interpret.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Lab 09, and where to read on
#
# - Fan, Grave & Joulin (2020). Reducing transformer depth on demand with structured
#   dropout. *ICLR*.
# - Huang et al. (2016). Deep networks with stochastic depth. *ECCV*.
# - Prasanna, Rogers & Rumshisky (2020). When BERT plays the lottery, all tickets are
#   winning. *EMNLP*.
# - Michel, Levy & Neubig (2019). Are sixteen heads really better than one? *NeurIPS*.
# - Fleiss (1971). Measuring nominal scale agreement among many raters. *Psychological
#   Bulletin*.
