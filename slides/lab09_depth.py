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
from course_lib.experiments import lab09
from course_lib.pruning.layers import layers_to_keep, overlap
from course_lib.show import plots, tables
from course_lib.show.words import minus, say

LAYERS, HEADS = lab09.LAYERS, lab09.HEADS
depths, real = (experiments.read(f"lab09_depth{name}/depths") for name in ("", "_sst2"))
glue = experiments.read("lab09_subnetworks_glue/scores")
shares, heads = lab09.shares_of_lead(), experiments.read("lab09_subnetworks/heads")
of_heads = lab09.masks(heads)
SEEDS = len(of_heads)

# %% [markdown] slideshow={"slide_type": "slide"}
# # How little of a transformer does it take?
#
# Neural-network pruning · lecture to lab 09
#
# *Can whole layers and whole feed-forward blocks be removed? And is the removable part
# the same for every task, and every seed?*

# %% slideshow={"slide_type": "notes"}
say(
    f"Reviews: three small BERTs ({LAYERS} layers of {HEADS} heads) on generated reviews; depth"
    " on reviews with at most one filler, subnetworks on labels of the full reviews. Real"
    " sentences: MiniLM, six layers of twelve heads, on SST-2 and STS-B. Importance and choices"
    " use validation texts, scores test texts (of GLUE its development sets). Three seeds each."
)

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Larger things
#
# | removed | lab | is it faster? |
# |---|---|---|
# | weights | 01, 06 | no |
# | heads | 07, 08 | a little |
# | **feed-forward blocks, layers** | **09** | **in proportion** |
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
# - Afterwards: remove layers, evenly spaced. **One training, several depths.**

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
say("Evenly spaced: number $1 + \\lfloor i\\,n/d \\rfloor$ for $i = 0 \\dots d - 1$.")
kept = {d: ", ".join(str(1 + i) for i in layers_to_keep(12, d)) for d in (9, 6, 4, 3, 1)}
tables.show(tables.plain(pd.DataFrame(kept.items(), columns=["of 12 layers", "kept"])))
say("Each of these rows is possible if *every* layer was missing in some steps of the training.")

# %% [markdown] slideshow={"slide_type": "notes"}
# Why evenly? The idea is that neighbouring layers do similar work; we did not measure this. On
# SST-2, after LayerDrop, it is better than the first three layers; on the reviews we could not
# detect a difference from the first two.

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
both = {"reviews, 4 layers": depths, "SST-2, 6 layers": real}
plots.show(lab09.draw_depths(both), inches=(8, 3.7))

# %% slideshow={"slide_type": "slide"}
say("## Half the depth, in numbers")
rows = []
for name, table in both.items():
    half = table.query("depth == depth.max() // 2")
    even = half[half["kept"] == "evenly spaced"]
    means = even.groupby("method")["test"].mean().round(1)
    rows.append({"accuracy (%)": name, **means})
tables.show(tables.plain(pd.DataFrame(rows), 1))
even = depths.query("depth == 2 and kept == 'evenly spaced'")
say(f"Reviews, LayerDrop 0.2 minus plain: {minus(even, 'test', 'LayerDrop 0.2', 'plain')}.")

# %% [markdown]
# - Training with missing layers makes a network robust to their removal.
# - A network *trained* at half the depth is ahead, on both. (The paper, with 12 to 16
#   layers: about equal, or behind.) LayerDrop buys one training for many devices.

# %% [markdown] slideshow={"slide_type": "notes"}
# {{claim 09.1}}
#
# {{claim 09.2}}
#
# On SST-2 p = 0.2 has the higher mean of the two, but we could not detect the difference
# (9.0 ± 12.2). Trained at that depth is 5.5 ± 2.8 points ahead of p = 0.2.

# %% slideshow={"slide_type": "slide"}
say("## The price at full depth, and the choice of layers")
full = real.query("depth == 6")
for p in ("LayerDrop 0.2", "LayerDrop 0.5"):
    say(f"SST-2, all six layers, {p} minus plain: {minus(full, 'test', p, 'plain')}.")
for name, table in both.items():
    cut = table.query("depth == depth.max() // 2 and method == 'LayerDrop 0.5'")
    gain = minus(cut, "test", "evenly spaced", "first", by="kept")
    say(f"{name}: evenly spaced minus the first half, LayerDrop 0.5: {gain}.")

# %% [markdown]
# On the reviews LayerDrop costs at most 0.2 points at full depth. On SST-2 it costs four
# or eight. There the first three layers give every sentence the same label.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Heads and feed-forward blocks
#
# $$y = x + \sum_h \xi_h\,\text{head}_h(x), \qquad x' = y + \nu\,\text{MLP}(y)$$
#
# Prasanna, Rogers & Rumshisky (2020): one backward pass scores both,
#
# $$I = \mathbb E_x \left|\frac{\partial L(x)}{\partial \xi}\right|,\qquad \mathbb E_x \left|\frac{\partial L(x)}{\partial \nu}\right|$$
#
# $\nu$ multiplies what the block *adds*. Before $W_2$ it would miss the bias; after the
# sum it would also scale the input.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Good, random, bad
#
# **Search**: a tenth of the heads and of the blocks per round, the least
# important first, while at least 90 % of the full model's validation score is left. The survivors
# are the *good* subnetwork.
#
# **Random**: as many heads and blocks, drawn at random.
#
# **Bad**: as many, first from those that did *not* survive, least important first; if these are too
# few, also the least important survivors (on GLUE 16 of 44 heads).
#
# Then all three are **retrained**, for the same steps, with only the subnetwork switched on; the
# encoder's layers start from the pre-trained weights.

# %% [markdown] slideshow={"slide_type": "notes"}
# "When BERT plays the lottery, all tickets are winning": a pun on the lottery ticket
# hypothesis (lab 03). The paper removes one block per round, and fills up "bad" with a
# random sample of the survivors.
# The good one is the ticket; the other two are its baselines. Embeddings, pooler and classifier
# keep their fine-tuned values.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Two minutes: predict
#
# The good subnetwork keeps 90 % of the validation score as it is. After retraining it nearly
# reaches the full model.
#
# **1.** How far behind will the *random* one be, retrained just as long?
#
# **2.** Which runs do you need before you call the good one special?

# %% [markdown] slideshow={"slide_type": "notes"}
# 1: let them write a number for a task; ours are on the next slides. 2: random subnetworks
# of the same size, retrained as long, with several draws, on a task that is not at its
# ceiling.

# %% slideshow={"slide_type": "slide"}
say("## Before retraining")
show = {"x": "task", "y": "share", "by": "subnetwork", "fmt": "{:.0f}"}
show |= {"title": "0 is a constant answer, 100 the full model", "ylabel": "% of the lead"}
pruned, retrained = (shares[shares["when"] == when] for when in ("pruned", "retrained"))
plots.show(plots.bars(pruned, **show), inches=(8, 3.5))

# %% slideshow={"slide_type": "slide"}
say("## After retraining")
plots.show(plots.bars(retrained, **show), inches=(8, 3.5))

# %% [markdown] slideshow={"slide_type": "notes"}
# {{claim 09.3}}
#
# {{claim 09.4}}
#
# {{claim 09.5}}

# %% slideshow={"slide_type": "slide"}
say("## Two seeds, or three?")
stsb = glue[(glue["task"] == "stsb") & (glue["when"] == "retrained")]
wide = stsb.pivot(index="seed", columns="subnetwork", values="score").round(0).reset_index()
tables.show(tables.plain(wide[["seed", "good", "random", "bad"]], 0))
say(f"STS-B, good minus random: {minus(stsb, 'score', 'good', 'random', by='subnetwork')}.")

# %% [markdown]
# After the first two seeds we would have reported "30 points ahead". The third random draw is
# nearly as good as the surviving subnetwork. A random baseline is a distribution: one
# draw is one sample of it.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Are all tickets winning?
#
# | Prasanna et al. (BERT-base, GLUE) | here |
# |---|---|
# | good subnetworks reach the full model | yes, nearly |
# | subnetworks from the rest perform worse | yes: bad below good |
# | even the worst "remain highly trainable" | SST-2: 87 % of the lead; sentiment, *negated*: half; STS-B: 30 % |
#
# On *contrast* and *domain* every subnetwork, also the bad one, has 99 to 100 % after
# retraining: tasks at the ceiling are no evidence.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## The same every time?
#
# How many elements do two masks share? Compare with random masks of these sizes. With
# $X_i = 1$ if the second mask keeps element $i$:
#
# $$\mathbb E \sum_{i \in a} X_i = \sum_{i \in a} P(X_i = 1) = |a|\,\frac{|b|}{n}$$
#
# The $X_i$ depend on each other, but the mean of a sum is always the sum of the means.
#
# **Pen and paper:** 14 and 11 of 32 heads. How many do random masks share?

# %% [markdown] slideshow={"slide_type": "notes"}
# 14 · 11/32 = 4.8. For more than two masks there is Fleiss' κ: 1 if all agree, 0 if they
# agree as often as random masks.

# %% slideshow={"slide_type": "slide"}
say("## Task or seed?")
shared = lab09.overlaps(of_heads, overlap)
look = {"x": "pair", "y": "heads", "by": "method", "fmt": "{:.1f}"}
plots.show(
    plots.bars(shared, title="Number of heads that two masks share", **look), inches=(8, 2.4)
)
say(f"κ over {SEEDS} seeds: {lab09.kappas(of_heads)}.")

# %% [markdown]
# Two fine-tunings that differ only in the order of texts and in the classifier keep
# different heads. Do not claim "this head matters for the domain" (κ = 0.13) before κ is
# high.

# %% [markdown] slideshow={"slide_type": "notes"}
# {{claim 09.6}}
#
# Two tasks with one seed share 1.4 more heads than random masks on the reviews and 0.2 more on
# GLUE; two seeds of one task 3.2 and 9.0 more. Whether task or seed matters more remains open: pairs of the same three seeds are not
# independent. BERT-base: 86 % of the heads and 57 % of the feed-forward blocks survive in
# fewer than seven of nine tasks. All tasks start from the same checkpoint, so what they
# share is partly the checkpoint.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Is it faster?
#
# | 64 reviews, one core, one machine | parameters of the layers | time |
# |---|---|---|
# | full model | 529,920 | 1 |
# | half of the layers | 264,960 | about 1/2 |
# | good subnetwork (14 heads, 2 blocks) | 249,760 | about 1/2 |
#
# No index, no stored zeros: time follows what is left of the layers. The right baseline for the cut
# is a smaller network *trained at that depth*.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## On a model of your own
#
# ```
# with layers.layerdrop(blocks, 0.5, generator):
#     train(model)      # your loop
# half = layers.take_layers(model, path, 6)
#
# heads, blocks = layers.joint_importance(…)
# layers.remove_mlps(model, blocks > 0.1)
# ```
#
# Any `nn.ModuleList` of residual layers; feed-forward blocks of BERT, ViT, Marian, T5,
# GPT-2 and torch's own.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## What to take along
#
# - A residual layer can be **removed**; trained with missing layers, a network loses less when it
#   is cut, but very small depths still fail.
# - The comparison that matters: a network *trained* at that depth.
# - One backward pass scores heads and feed-forward blocks.
# - Good subnetworks nearly reach the full model after retraining. Most random ones come close, too:
#   **without a random baseline, every good subnetwork looks special**.
# - A random baseline needs several draws, on a task that is not at its ceiling.
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
