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
from course_lib.cost import token_macs
from course_lib.experiments import lab07
from course_lib.show import drawings, plots, tables
from course_lib.show.words import minus, pm, say

changes = lab07.stored_grids("ablations", "change")
importance = lab07.stored_grids("importance", "importance")
removed = experiments.read("lab07_heads/removal")
tuned = lab07.fine_tuning()


def show_orders(title, *methods, inches=None):
    table = removed[removed["method"].isin(["dense", "random", *methods])]
    look = {"xaxis": "sparsity", "xlabel": "heads pruned", "constant": 50}
    figure = plots.curves(table, x="removed", y="test", title=title, **look)
    plots.show(figure, inches=inches)


# %% [markdown] slideshow={"slide_type": "slide"}
# # Are sixteen heads really better than one?
#
# Neural-network pruning · lecture to lab 07
#
# *Every layer of a transformer reads its input with several heads. Which heads can be
# removed, how do you find out, and what does it save?*

# %% [markdown] slideshow={"slide_type": "notes"}
# All figures: three small BERTs (4 layers of 8 heads) on generated reviews, scores on
# validation texts, accuracies on 2,000 test texts. SST-2 at the end: a real encoder of
# 6 layers of 12 heads.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## A new unit to remove
#
# | removed | lab | result |
# |---|---|---|
# | single weights | 01 | a matrix with zeros |
# | filters, channels | 04 | a smaller dense network |
# | **attention heads** | **07** | **smaller dense matrices** |
# | tokens | 10 | shorter texts, layer by layer |

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Multi-head attention, in shapes
#
# $B$ texts of $L$ tokens, width $E$, $H$ heads of size $D = E/H$:
#
# | | shape |
# |---|---|
# | $Q = xW_Q$, also $K$ and $V$ | $(B, L, E) \to (B, H, L, D)$ |
# | scores $QK^\top/\sqrt D$, softmax over keys | $(B, H, L, L)$ |
# | times $V$ | $(B, H, L, D)$ |
# | side by side again, times $W_O$ | $(B, L, E)$ |
#
# Everything between the first and the last line happens **for each head on its own**.

# %% [markdown] slideshow={"slide_type": "notes"}
# A common mistake scales by the root of the whole width. Right is √(E / H), that of one
# head. "Heads do not change the cost" is true for MACs; the softmax and the memory
# traffic grow with H (lab 00).

# %% slideshow={"slide_type": "slide"}
say("## Side by side, or a sum?")
plots.show(drawings.heads_as_a_sum(4))

# %% [markdown]
# $$[A_1, \dots, A_H]\,W_O = \sum_{h=1}^{H} A_h\,W_O^{(h)}$$
#
# $W_O^{(h)}$: the $D$ rows of $W_O$ that multiply head $h$. The bias $b_O$ belongs to
# no head and is added once.

# %% slideshow={"slide_type": "slide"}
say("## A gate on each head")
plots.show(drawings.heads_as_a_sum(4, gated=(1,)))

# %% [markdown]
# $$\text{MHAtt}(x) = \sum_h \xi_h\, A_h\,W_O^{(h)} + b_O$$
#
# $\xi_h = 1$: unchanged; $\xi_h = 0$: switched off.

# %% [markdown] slideshow={"slide_type": "notes"}
# In code the gate multiplies the input of the output projection, D features per head.
# Do not mask keys instead: a head with equal attention weights still outputs the mean
# of its values.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## A warning about software
#
# Most published code on this subject passes `head_mask=` to a transformers model.
# **transformers 5 accepts the argument and ignores it**, without a warning;
# `prune_heads` no longer exists.
#
# An experiment that "finds" that heads do not matter may not have switched any off. So:
#
# - gate by a hook on the output projection (`course_lib.pruning.heads.gated`);
# - check that *all* gates at 0 changes the output, and all at 1 does not.

# %% slideshow={"slide_type": "slide"}
say("## First idea: switch off one head")
title = "Change of validation accuracy (points) with one head off, first model"
figure = plots.grid(lab07.by_layer(changes[:1]), title=title, centre=0)
plots.show(figure, inches=(8, 2.8))

# %% slideshow={"slide_type": "fragment"}
every = torch.stack(changes)
say(
    f"{(every.abs() <= 0.5).double().mean():.0%} of the heads of the three models change at most"
    f" half a point; none gains more than {every.max():.1f} when removed. Michel et al.: of 96"
    " encoder heads of a translation model 8 matter significantly, and 4 of those by raising BLEU."
)

# %% slideshow={"slide_type": "slide"}
say("## All but one")
say(
    "Points of test accuracy with **one** head left in a layer, the other layers complete;"
    " that head is chosen on validation texts."
)
alone = experiments.read("lab07_heads/all_but_one")
tables.plain(lab07.by_model(alone, "change", rows="layer"))

# %% [markdown]
# Michel et al.: for most layers one head is enough. BERT's worst layer loses 0.96
# points; but the last encoder–decoder layer of the translation model loses **13.56
# BLEU**. "One head is enough" is a statement about layers, not about models.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Two minutes: add it up
#
# You have switched off each of the 32 heads alone. Now you remove the 16 heads that
# cost least.
#
# **1.** The sixteen single changes add up to −0.9 to +0.7 points. What will the sixteen cost
# together: about nothing, or more? And 26 of 32?
#
# **2.** How many forward passes over the validation set did your list cost? How many
# would an exact answer cost?

# %% [markdown] slideshow={"slide_type": "notes"}
# 1: 1 to 2 points; for 26 of 32 it is 32 to 46 points, see the next curves. 2: 33 passes for
# the list; an exact answer needs all subsets of 16 out of 32, 6 × 10⁸ of them.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Second idea: use the gradient
#
# A gate of 1 that becomes 0 changes the loss of a text $x$ by
#
# $$\mathcal L(x; \xi_h = 0) - \mathcal L(x; \xi_h = 1) \approx -\frac{\partial \mathcal L(x)}{\partial \xi_h}$$
#
# How much a head matters, on average over texts:
#
# $$I_h = \mathbb E_x \left|\frac{\partial \mathcal L(x)}{\partial \xi_h}\right|$$
#
# All heads of all layers come out of **one backward pass** for each batch.

# %% [markdown] slideshow={"slide_type": "fragment"}
# > The absolute value stands **inside** the mean. A head that helps half of the texts
# and hurts the others has a mean gradient
# > near 0, and is far from useless.

# %% [markdown] slideshow={"slide_type": "notes"}
# The paper writes it also as |A_hᵀ ∂L/∂A_h|: by the chain rule the same number. Public code
# also takes the absolute value per token, and per batch, which depends on the batch size.

# %% slideshow={"slide_type": "slide"}
say("## Importance from the gradient")
first = lab07.by_layer([importance[0] / importance[0].max()])
title = "Importance $I_h$ of each head, first model; largest = 1"
plots.show(plots.grid(first, title=title, fmt="{:.2f}"), inches=(8, 2.3))

# %% slideshow={"slide_type": "fragment"}
sums = torch.stack(importance).sum(2)  # (models, layers)
share = pd.DataFrame(100 * sums / sums.sum(1, keepdim=True), columns=range(1, 5)).add_prefix(
    "layer "
)
share.insert(0, "share of all importance (%)", [f"model {m}" for m in (1, 2, 3)])
tables.show(tables.plain(share, digits=0))

# %% slideshow={"slide_type": "slide"}
say("## Accuracy against heads removed")
show_orders(
    "Three models (dots), nothing trained", "I_h", "single ablation", "most important first"
)

# %% [markdown] slideshow={"slide_type": "notes"}
# "Most important first" tests whether the order has any information.
#
# {{claim 07.1}}
#
# {{claim 07.2}}

# %% slideshow={"slide_type": "slide"}
say("## Score again after every step")
show_orders("Michel et al.: a tenth at a time", "I_h", "I_h, iterative", inches=(5.2, 4.05))

# %% [markdown]
# Score, prune three heads, score those that are left.
#
# At 80 % and beyond the two lines separate (in one model already at 70 %). Why?

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Two minutes: three explanations
#
# With 80 % of the heads removed, $I_h$ computed once and single ablations fail, and the loop
# does not. Three explanations:
#
# 1. **Heads replace each other**: a score must be computed again.
# 2. The bad orders **empty whole layers**.
# 3. Accuracy is **too coarse** a measure of one head.
#
# Which runs would you add to separate them?

# %% [markdown] slideshow={"slide_type": "notes"}
# Keep a head in every layer, with all orders; single ablations measured by the change of
# the logits.

# %% slideshow={"slide_type": "slide"}
say("## The controls: empty layers, and the measure")
table = experiments.read("lab07_heads/one_kept").query("removed == 0.8")
table = table[table["method"] != "most important first"]
tables.show(tables.means(table, "test", columns="layers", digits=0))

# %% [markdown]
# 80 % removed, nothing trained. With a head in every layer, we could not detect that
# scoring again helps. Ablations by accuracy remain more than 20 points behind in two of three
# models; for those by logits we could not detect a difference from $I_h$.

# %% [markdown] slideshow={"slide_type": "notes"}
# {{claim 07.3}}
#
# {{claim 07.6}}

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Do rules about places help?
#
# Budhraja et al. (2020) remove heads from the top, the bottom or the middle, or never from
# two adjacent layers, and **fine-tune**. They find no advantage of location, and little
# damage by random removal.
#
# *Guess:* half of the heads of our models are removed, 200 steps of training follow. Random
# heads, or whole layers?

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Two minutes: read a paper's table
#
# > "We remove 50 % of the heads with method X and fine-tune for one epoch: 97.0 %.
# Random removal gives 95.0 %, the full model
# > 97.4 %. Method X finds the important heads."
#
# **1.** Which three numbers would you ask for? **2.** What would you expect at 80 %,
# and why does the paper stop at 50?

# %% [markdown] slideshow={"slide_type": "notes"}
# Accuracy before fine-tuning; the number of seeds and draws; the full model with the
# same fine-tuning. The next slide has the last two; before fine-tuning, half of the heads
# removed, $I_h$ has 96.8 % and random 85.6 % (mean of four draws).

# %% slideshow={"slide_type": "slide"}
say("## With fine-tuning")
after = tuned[tuned["when"] == "fine-tuned"]
arms = after[~after["method"].isin(["dense", "bottom"])]
say(f"Test accuracy (%), 200 steps; full model {pm(after[after['method'] == 'dense']['test'])}.")
tables.means(arms, "test", columns="removed", digits=1)

# %% [markdown] slideshow={"slide_type": "notes"}
# {{claim 07.4}}
#
# Training restores no head: at 80 % the rules by place and I_h, computed once, have emptied
# layers, a likely reason for their loss. By layer and iterative are 13 points ahead of random.
# "Bottom" (not shown) is 80 % at one half, and removes the same heads as "middle" at 80 %.

# %% slideshow={"slide_type": "slide"}
say("## Is a head important everywhere?")
say(
    "Importance from reviews of films, of phones, of restaurants: does the ranking transfer?"
    " Pearson's $r$ over heads, mean over pairs of domains, and its **ceiling**, two samples of the"
    " *same* domain:"
)
r = lab07.domain_correlations(experiments.read("lab07_heads/domains"))
tables.plain(lab07.by_model(r, "r", rows="texts"), digits=2)

# %% [markdown]
# Michel et al. report 0.56 (translation) and 0.68 (BERT), but of *scores with one head
# removed*, on two domains. Without a ceiling one cannot tell domain from sample.

# %% slideshow={"slide_type": "slide"}
say("## Removing heads")
rows = (torch.arange(16) // 4 != 1)[:, None].expand(-1, 16)
masks = {"$W_Q$, $W_K$, $W_V$": rows, "$W_O$": rows.T}
title = "Head 2 of 4 (D = 4) is removed: light rows, light columns"
plots.show(plots.grid(masks, title=title, columns=2), inches=(5.6, 3.4))

# %% [markdown]
# Head $h$ owns $D$ **rows** of $W_Q$, $W_K$, $W_V$ (with biases) and $D$ **columns** of
# $W_O$ as torch stores it. Gates of 0 save nothing; smaller matrices save time
# anywhere.

# %% slideshow={"slide_type": "slide"}
say("## How much can be saved?")
macs = [token_macs([128] * 12, 768, attention_width=64 * n) / 1e9 for n in (12, 6)]
weights = [12 * (4 * 768 * 64 * n + 8 * 768**2) / 1e6 for n in (12, 6)]
say(
    f"BERT-base, L = 128, half of the heads removed: {macs[0]:.1f} → {macs[1]:.1f} billion MACs,"
    f" **{macs[0] / macs[1]:.2f}× fewer**; {weights[0]:.0f} → {weights[1]:.0f} million weights of the"
    f" encoder. One head is 1/12 of **one attention layer**, and {4 * 768 * 64 / 110e6:.2%} of the"
    " model's parameters. (A common summary calls the former its share of all parameters.)"
)

# %% [markdown] slideshow={"slide_type": "fragment"}
# Two thirds of the encoder are feed-forward: heads cannot save those.

# %% slideshow={"slide_type": "slide"}
say("## Measured latency")
times = lab07.seconds().rename(columns={"model": "more texts per second (%)"})
name = "more texts per second (%)"
wide = times.pivot_table("gain", name, "batch", sort=False).add_prefix("batch ")
tables.show(tables.plain(wide.reset_index(), digits=0))

# %% [markdown]
# Half of the heads; if MACs were time: 36 % for the small BERT, 20 % for BERT-base (32
# tokens). Ours: one thread, processor time, three runs. On a GPU with one text, starting
# kernels costs more than computing. **Fewer MACs save time where MACs take most of it.**

# %% slideshow={"slide_type": "slide"}
say("## On real sentences")
real = experiments.read("lab07_sst2/removal")
dense = real[real["method"] == "dense"]["test"]
most = real[real["removed"] == 0.58]
say(
    "A real encoder of 6 layers of 12 heads, three fine-tunings on"
    f" {experiments.settings('lab07_sst2')['sentences']:,} sentences: {pm(dense)} % dense."
)
orders = real[real["method"].isin(["I_h", "random", "most important first"])]
tables.show(tables.means(orders, "test", columns="removed"))
say(f"$I_h$ minus random at 58 %: {minus(most, 'test', 'I_h', 'random')}.")

# %% [markdown]
# At 39 % these runs do not show that $I_h$ is better than random. Michel et al. prune about
# 60 % of BERT's heads on SST-2 and 40 % on MNLI without noticeable loss.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## What do the remaining heads do?
#
# - Voita et al. (2019) let training choose: a gate drawn from a distribution that can
#   be exactly 0, and an L0 penalty. Of 48 encoder heads **10 are left at −0.15 BLEU**,
#   4 at −0.25 (another corpus). Many have functions: the next word, a syntactic arc,
#   rare words.
# - [Kovaleva et al. (2019)](https://arxiv.org/abs/1908.08593): five patterns of attention
#   recur; making a head uniform can *raise* accuracy.
# - [Raganato et al. (2020)](https://arxiv.org/abs/2002.10260): all but one head of each
#   encoder layer replaced by fixed patterns, with similar BLEU.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## What to take along
#
# - Attention is a **sum over heads**; a gate on each makes removal differentiable.
# - $I_h$: absolute value for each text, then the mean. One backward pass per batch; good for half
#   of the heads.
# - **Costs do not add up**, and accuracy orders single heads badly in two of our models.
# - **Scores computed once can empty whole layers**: keep a head in each, or score again.
# - Baselines: random draws, the reversed order, the full model with the same training,
#   a resampling ceiling.
# - Heads are a third of the encoder: half of them is 1.2× fewer MACs, not 2×.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Lab 07, and where to read on
#
# - Michel, Levy & Neubig (2019). [Are sixteen heads really better than
#   one?](https://arxiv.org/abs/1905.10650) *NeurIPS*.
# - Voita, Talbot, Moiseev, Sennrich & Titov (2019). [Analyzing multi-head
#   self-attention](https://arxiv.org/abs/1905.09418). *ACL*.
# - Budhraja, Pande, Nema, Kumar & Khapra (2020). [On the weak link between importance
#   and prunability of attention heads](https://aclanthology.org/2020.emnlp-main.260).
#   *EMNLP*.
# - Prasanna, Rogers & Rumshisky (2020). [When BERT plays the lottery, all tickets are
#   winning](https://arxiv.org/abs/2005.00561). *EMNLP*.
