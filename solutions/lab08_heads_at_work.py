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
# # Lab 08 · Which heads do the work, and what is their work?
#
# **Lab 07 removed heads and counted what was lost. It did not ask what the heads that
# stay are doing. Can a head have a job?**
#
# Voita et al. (2019) gave every head of a translation model a gate that it could close,
# and looked at those that stayed open: some look at the neighbour, some at the subject
# of a verb, one at the rarest word. Hence the title of their paper: *Specialized Heads
# Do the Heavy Lifting, the Rest Can Be Pruned*. In English nobody knows for sure what a word *needs*. Here we do: the
# sentences come from our grammar, and for every word it is known which word it
# depends on, and which word decides how an ambiguous one is translated.
#
# | part | you write | you find out |
# |---|---|---|
# | A · Heads that may close | 8.1 hard concrete gates, 8.2 training with a price | how few heads of the encoder are enough, and does it matter which? |
# | B · Roles | 8.3 what a head points to | do heads have jobs, beyond a fixed offset? |
# | C · Patterns | 8.4 classes, disabling, change; 8.5 fixed attention | does attention have to be learned at all? |
# | D · Kinds of attention | 8.6 pruning by kind | encoder, decoder, or between them: where do heads matter? |
# | E · What was it worth? | 8.7 two short answers, 8.8 a bug hunt | the bill |
#
# 20 points; about three and a half hours. After each exercise `check("8.1")` tells you
# at once what is right. If you are stuck, write `skip("8.1")` in a cell: that question
# scores 0 and the rest of the lab goes on with the course's version.
#
# The rules are those of lab 01: guess first; choose on validation data and look at the
# test data once; no claim without a random control and three seeds.

# %%
from course_lib.grading import check, choose, skip  # noqa: F401  (skip is yours to use)

# isort: split
import math
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np  # noqa: F401  (for your answers)
import pandas as pd
import torch
from torch import Tensor, nn

from course_lib import experiments, ledger
from course_lib.experiments import lab08
from course_lib.show import drawings, plots, tables, widgets
from course_lib.show.words import minus, pm, say, you_wrote

STUDENT = ""  # your name or number: the letters of your questions are yours alone

# %% [markdown]
# ## Settings
#
# The models are three small Marian transformers (three encoder layers of six heads, one
# decoder layer) that come with the course. They translate the grammar's English into
# simple German. Results that take minutes are read from tables
# (`course remake lab08_heads`). The functions `lab08.…` that run and summarise the
# experiments are short: [what they do](../course_lib/experiments/lab08.py).

# %%
QUICK = {"steps": 25}  # steps at each price, in the live training
torch.set_num_threads(1)

for pair in lab08.data()["test"].select(range(3)):
    print(f"{pair['source']}\n    {pair['target']}")
kinds = experiments.read("lab08_heads/kinds")
full = kinds.query("kind == 'all' and method == 'I_h' and pruned == 0")["bleu"]
say(f"BLEU of the three checkpoints on validation sentences: {pm(full)}.")

# %% [markdown]
# Look at the examples. The article in front of a German noun depends on the noun's
# gender, on its number (the piece `-s`), and on its place beside the verb; the verb's
# ending on a subject that may stand far away; and *bank* is *Bank* or *Ufer*, as the
# rarest noun of the sentence has it.
#
# ## Part A · Heads that may close
#
# The idea of this part in one picture: draw a number, stretch it, cut it. The gate of a
# head is then exactly 0 for some draws (the head is closed) and exactly 1 for others.

# %%
plots.show(drawings.stretched_and_cut(1.0))

# %% [markdown]
# ### 8.1 A gate that can be exactly 0, and has a gradient
# **35 minutes · 4 points**
#
# We want the network itself to say which heads it can do without: a gate on each head,
# and a price for every gate that is not 0. The number of open gates is a count, and has
# no gradient. Louizos, Welling and Kingma (2018) make the gate random instead. Draw $u$
# between 0 and 1 and let
#
# $$s = \sigma\!\left(\frac{\ln u - \ln(1-u) + \log\alpha}{\beta}\right),\qquad g = \min\bigl(1, \max(0,\; s\,(\zeta-\gamma)+\gamma)\bigr),$$
#
# with $\beta = \frac23$, $\gamma = -0.1$, $\zeta = 1.1$. Because $s$ is stretched
# beyond both ends and then cut, $g$ is *exactly* 0 with some probability and exactly 1
# with another. And that probability is a smooth function of $\log\alpha$:
#
# $$P(g \ne 0) = \sigma\!\left(\log\alpha - \beta \ln\frac{-\gamma}{\zeta}\right).$$
#
# (Why? $g > 0$ where $s > -\gamma/(\zeta-\gamma)$; solve for $\ln u - \ln(1-u)$, whose
# distribution function is $\sigma$.) Its sum over gates is the expected number of open
# ones: that has a gradient, and is the price.
#
# When training is over, the noise goes:
# $\hat g = \min(1, \max(0, \sigma(\log\alpha)(\zeta-\gamma)+\gamma))$, without $\beta$.
#
# *Before you write anything:* at $\log\alpha = 0$, which share of the samples is
# exactly 0?

# %%
### BEGIN SOLUTION
prediction_8_1 = "about a sixth"
### END SOLUTION


# %%
def sample_gate(
    log_alpha: Tensor, u: Tensor, beta: float = 2 / 3, gamma: float = -0.1, zeta: float = 1.1
) -> Tensor:
    """A sampled gate in [0, 1], like ``log_alpha`` (any shape), with a gradient by it.

    Write all three yourself: not with ``course_lib.pruning``.

    Args:
        u: of the same shape, strictly between 0 and 1.
    """
    if beta <= 0 or gamma >= 0 or zeta <= 1:
        raise ValueError(f"beta > 0, gamma < 0, zeta > 1: got {beta}, {gamma}, {zeta}")
    if (u <= 0).any() or (u >= 1).any():
        raise ValueError("u is strictly between 0 and 1")
    ### BEGIN SOLUTION
    s = ((u.log() - (1 - u).log() + log_alpha) / beta).sigmoid()
    return (s * (zeta - gamma) + gamma).clamp(0, 1)
    ### END SOLUTION


def expected_l0(
    log_alpha: Tensor, beta: float = 2 / 3, gamma: float = -0.1, zeta: float = 1.1
) -> Tensor:
    """P(gate ≠ 0) of each gate, like ``log_alpha``."""
    if beta <= 0 or gamma >= 0 or zeta <= 1:
        raise ValueError(f"beta > 0, gamma < 0, zeta > 1: got {beta}, {gamma}, {zeta}")
    ### BEGIN SOLUTION
    return (log_alpha - beta * math.log(-gamma / zeta)).sigmoid()
    ### END SOLUTION


def gate_at_test(log_alpha: Tensor, gamma: float = -0.1, zeta: float = 1.1) -> Tensor:
    """The gate of the trained model: no noise, no β."""
    if gamma >= 0 or zeta <= 1:
        raise ValueError(f"gamma < 0, zeta > 1: got {gamma}, {zeta}")
    ### BEGIN SOLUTION
    return (log_alpha.sigmoid() * (zeta - gamma) + gamma).clamp(0, 1)
    ### END SOLUTION


# %%
check("8.1")

# %% [markdown]
# <details><summary>Hint 1</summary>The formulas line by line;
# <code>Tensor.sigmoid()</code> and <code>Tensor.clamp(0, 1)</code> keep the
# gradient.</details>
# <details><summary>Hint 2: the sign</summary>With the default constants −γ/ζ = 1/11 is
# below 1, so its logarithm is negative and P is larger than σ(log α).</details>

# %%
draws = torch.rand(100_000, generator=torch.Generator().manual_seed(0)).clamp(1e-6, 1 - 1e-6)
rows = []
for log_alpha in torch.tensor([-3.0, 0.0, 2.0]):
    gates = sample_gate(log_alpha.expand_as(draws), draws)
    zero, one = (gates == 0).double().mean(), (gates == 1).double().mean()
    rows.append([log_alpha, zero, one, 1 - expected_l0(log_alpha), gate_at_test(log_alpha)])
say(you_wrote(prediction_8_1))
columns = ["log α", "exactly 0", "exactly 1", "1 − P(g ≠ 0)", "gate at test"]
tables.plain(pd.DataFrame(rows, columns=columns).astype(float), dict.fromkeys(columns[1:], 3))

# %% [markdown]
# ### 8.2 Training with a price
# **25 minutes · 3 points**
#
# From a model that is trained already: in every step fresh noise, the loss of the
# translation with the sampled gates on the heads, plus $\lambda$ for each gate that is
# expected to be open.


# %%
def train_with_gates(
    model: nn.Module,
    log_alpha: Tensor,
    batches: Iterable[Any],
    loss_fn: Callable[[nn.Module, Any, Tensor], Tensor],
    lam: float,
    optimizer: torch.optim.Optimizer,
    generator: torch.Generator,
) -> list[float]:
    """One step for each batch; returns for each batch the sum of
    ``expected_l0(log_alpha)`` *before* its step.

    Write it yourself: not with ``course_lib.pruning``.

    Args:
        model: in training mode meanwhile, and as a whole back in its mode after.
        log_alpha: a leaf; only the optimizer changes it, in place.
        loss_fn: ``loss_fn(model, batch, gates)``, a scalar.
        lam: the price λ of an open gate: λ times the *sum* is added to the loss.
        optimizer: holds the model's parameters and log_alpha; one step a batch, from
            this batch's gradient alone. Nothing is clipped.
        generator: for each batch once
            ``torch.rand(log_alpha.shape, generator=generator)``, clamped to [1e-6,
            1 − 1e-6].
    """
    if lam < 0:
        raise ValueError(f"lam is a price, 0 or more; got {lam}")
    ### BEGIN SOLUTION
    mode, found = model.training, []
    model.train()
    try:
        for batch in batches:
            u = torch.rand(log_alpha.shape, generator=generator).clamp(1e-6, 1 - 1e-6)
            expected = expected_l0(log_alpha).sum()
            found.append(expected.item())
            optimizer.zero_grad()
            loss = loss_fn(model, batch, sample_gate(log_alpha, u)) + lam * expected
            loss.backward()
            optimizer.step()
    finally:
        model.train(mode)
    return found
    ### END SOLUTION


# %%
check("8.2")

# %% [markdown]
# <details><summary>Hint: the order in a step</summary>Noise, price, loss, clear old
# gradients, <code>backward()</code>, step.</details>

# %% [markdown]
# #### Experiment: how few heads are enough?
#
# The price rises in eight steps, or fewer if four of the encoder's 18 heads or less are
# left before (the decoder keeps all of its own). Three controls with as many heads:
# *random* heads with the same training, the survivors' mask put on the checkpoint
# *without* training, and the most important heads by lab 07's $I_h$, without training
# (result file, three seeds; three random draws each).
#
# *Before you look:* three to six of 18 heads are left in the end. How many points of
# BLEU will the gated model lose, and how many the random one?

# %%
### BEGIN SOLUTION
prediction_8_2 = "one, and ten"
### END SOLUTION

# %%
closing = experiments.read("lab08_heads/closing")
title, xlabel = "How few heads are enough?", "encoder heads closed, of 18"
plots.frontier(closing, x="closed", y="bleu", along="price", title=title, xlabel=xlabel)

# %% [markdown]
# The right end of these lines in numbers, with 6, 3 and 4 heads left in the three
# checkpoints. *Random, untrained* are four heads drawn, from the runs of 8.6.

# %%
ends = lab08.last_prices(closing, kinds)
say(f"Dense: {pm(full)}. {you_wrote(prediction_8_2)}")
tables.show(tables.means(ends, "bleu"))
tables.show(tables.compare(ends, "bleu", against="gates"))
tables.compare(ends, "bleu", against="random, untrained")

# %% [markdown]
# And *your* gates with *your* training, on checkpoint 0, a few steps at each of three
# prices. *Expected* is the number of open gates by the formula, *open* the number at
# test, and *between* the number of open gates that are below 1.

# %%
path = lab08.gate_path(0, (0.005, 0.02, 0.1), QUICK["steps"], train_with_gates, gate_at_test)
tables.plain(pd.DataFrame(row for *_, row in path), {"price": 3})

# %% [markdown]
# A handful of heads is left, and most of the translation is still right. That is the
# paper's headline, and something like it holds here, if dearer: there 10 of 48 encoder
# heads cost 0.15 BLEU, here three to six of 18 cost some seven points.
#
# Now the controls. With *random* heads and the same training the result is worse on
# average, but look at the interval: three checkpoints do not show it. *Without*
# training it is another world: random heads leave little more than half of BLEU, and
# there the choice matters. The survivors' mask is far above them, and that is shown;
# the largest $I_h$ are, too, on each of the three checkpoints, if by an interval that
# just contains 0. And the survivors' own mask is worse untrained than trained in all
# three checkpoints, but the interval just contains 0: that the gates' training *moves*
# work into the heads that stay is likely, and three checkpoints do not show it. They do
# show that training makes up for missing heads: random heads with it are far above random
# heads without it. Voita et al. compared with
# training the small model *from scratch*, which is yet another control. At the first
# prices, where most gates are open, nothing is gained by training at all.
#
# A gate that is open but below 1, as some are in your table, leaves a head that is
# neither removed nor whole.
#
# ## Part B · Roles
#
# ### 8.3 What does a head point to?
# **40 minutes · 4 points**
#
# Voita et al. read a head's role off its *largest* attention: a positional head has it
# on the next word in at least nine of ten cases; a syntactic head has it on the subject
# of a verb, say, more often than the best *fixed offset* would. That baseline is the
# point. Subjects stand close to their verbs; a head that looks two words back finds
# many of them and knows nothing of grammar.


# %%
def points_to(attn: Tensor, target: Tensor, token_mask: Tensor) -> Tensor:
    """The share of all queries with a target whose largest attention is at it, for each
    head.

    Write all four yourself: not with ``course_lib.pruning``.

    Args:
        attn: (B, M, L, L), query by key, not negative, any floating dtype.
        target: (B, L) int64: the key that a query should look at; −1: none, the query
            does not count.
        token_mask: (B, L) bool; False (padding, the end mark): not counted as a query,
            and *not looked at as a key*.

    Returns:
        (M,) float64: over all counted queries of the batch together. Of equal maxima
        the lowest key counts.

    Raises:
        ValueError: if no query counts, or the target of one is no real token.
    """
    counted = (target >= 0) & token_mask
    inside = target.clamp(0, token_mask.shape[1] - 1)
    if (
        not counted.any()
        or (target != inside)[counted].any()
        or not token_mask.gather(1, inside)[counted].all()
    ):
        raise ValueError("some query needs a target, and targets are real tokens")
    ### BEGIN SOLUTION
    found = attn.masked_fill(~token_mask[:, None, None, :], -1.0).argmax(-1)  # (B, M, L)
    right = (found == target[:, None, :]) & counted[:, None, :]
    return right.sum((0, 2)).double() / counted.sum()
    ### END SOLUTION


def neighbour(token_mask: Tensor, offset: int) -> Tensor:
    """(B, L) int64: i + offset where both i and i + offset are real tokens, else −1."""
    if offset == 0:
        raise ValueError("a neighbour is elsewhere: offset 0 is the word itself")
    ### BEGIN SOLUTION
    out = torch.full(token_mask.shape, -1)
    for b, i in token_mask.nonzero().tolist():
        if 0 <= i + offset < token_mask.shape[1] and token_mask[b, i + offset]:
            out[b, i] = i + offset
    return out
    ### END SOLUTION


def rarest(tokens: Tensor, counts: Tensor, token_mask: Tensor) -> Tensor:
    """(B, L) int64: for every real query the place of the real token with the smallest
    ``counts[token]`` (the first of equal ones); −1 for the others.

    Args:
        tokens: (B, L) int64. counts: (V,), ints or floats.
    """
    ### BEGIN SOLUTION
    of_tokens = counts.double()[tokens].masked_fill(~token_mask, math.inf)
    return torch.where(token_mask, of_tokens.argmin(1, keepdim=True), -1)
    ### END SOLUTION


def arc_baseline(target: Tensor, token_mask: Tensor) -> tuple[int, float]:
    """The offset (target − query) other than 0 that most counted queries have, and its
    share of *all* counted ones.

    Ties: the smaller distance, then the negative one.

    Raises:
        ValueError: if no counted query has a target other than itself.
    """
    ### BEGIN SOLUTION
    counted = (target >= 0) & token_mask
    offsets = (target - torch.arange(target.shape[1]))[counted].tolist()
    times = Counter(offset for offset in offsets if offset != 0)
    if not times:
        raise ValueError("no query has a target other than itself")
    best = min(times, key=lambda offset: (-times[offset], abs(offset), offset))
    return best, times[best] / len(offsets)
    ### END SOLUTION


# %%
check("8.3")

# %% [markdown]
# <details><summary>Hint 1: the largest among real keys</summary>Attention is not
# negative: give other keys −1 before <code>argmax</code>.</details>
# <details><summary>Hint 2: together</summary>Count right ones and counted ones over the
# whole batch, and divide once: a mean of the sentences' shares would weigh short
# sentences more.</details>
# <details><summary>Hint 3: the baseline</summary><code>collections.Counter</code> of
# target − query; <code>min</code> with a key of three parts settles ties.</details>

# %% [markdown]
# #### Experiment: do heads have jobs?
#
# The 18 encoder heads of each checkpoint against what the grammar knows: neighbours,
# dependencies in both directions (from a word to its head, and back), the rarest noun.
# 300 validation sentences.
#
# *Before you look:* which role will be found most clearly: the previous word, the
# subject of the verb, or the rarest noun?

# %%
### BEGIN SOLUTION
prediction_8_3 = "the previous word"
### END SOLUTION

# %%
roles = lab08.find_roles(0, points_to)
offsets = lab08.fixed_offsets(arc_baseline)
rules = lab08.clearest_rules(roles, offsets)
title = "% of queries whose largest attention is at a target (checkpoint 0)"
plots.heat_map(lab08.roles_by_head(roles, rules), title=title, colour_label="%", fmt="{:.0f}")

# %% [markdown]
# Below the first three rows stand the nine dependencies that stand out most in
# checkpoint 0: *aux* is an auxiliary, *advmod* an adverb, *case* a preposition, *det* an
# article or the like, *mark* a conjunction, *plural* the piece `-s`. Here are their
# baselines. The number after a name is the best fixed offset (for a neighbour, it is the
# rule itself).

# %%
say(you_wrote(prediction_8_3))
every = lab08.roles_beside_baselines(experiments.read("lab08_heads/roles"), offsets, rules)
title = "Is the best head better than a fixed offset?"
plots.heat_map(every, title=title, colour_label="% of queries", fmt="{:.0f}")

# %% [markdown]
# Some heads have jobs. The clearest is one that hardly any fixed offset could do: in
# all three checkpoints there is a head whose verb looks at the *conjunction* of its
# clause, wherever that stands (the German verb goes to the end behind *weil*). Others
# are what a baseline unmasks: from an auxiliary's verb to the auxiliary is one place to
# the left, always; a head that does it perfectly may know no grammar at all. And the
# rarest noun, which decides about *bank*, is looked at two to three times as often as
# chance would have it, and no more: one head in Voita's models did little else.
#
# **What differs.** Positional heads in Voita's sense, nine maxima of ten at one offset,
# are not there: the best reaches about half. Sentences here are short and their grammar
# is small; three layers of six heads seem to share that work. A share of maxima also
# says nothing about what the head *hands on*.
#
# ## Part C · Patterns
#
# ### 8.4 Classes, disabling, change
# **30 minutes · 3 points**
#
# Kovaleva et al. (2019) sorted BERT's maps into five classes by eye and a classifier.
# Ours are rules that can be checked. Two further ideas are theirs: to switch a head
# off, give every word the *same* attention instead of none (the head then hands on the
# mean of its values); and compare the maps before and after fine-tuning by their
# cosine.


# %%
def attention_pattern(
    attn: Tensor, special: Tensor, segment: Tensor | None, share: float = 0.5
) -> str:
    """The class of one map, (L, L) query by key, rows sum to 1; in float64, the first
    rule that holds.

    Write all three yourself: not with ``course_lib.pruning``.

    V: mean over rows of the attention on special keys. D: mean over rows of that on
    keys i − 1 and i + 1 that are not special.

    1. V ≥ share and D < share/2: "vertical". 2. D ≥ share and V < share/2: "diagonal". 3.
       V + D ≥ share: "vertical+diagonal".
    4. ``segment`` (L,) has at least two values, and S ≥ (1 + share)/2: "block"; S is
       the mean over rows of the attention on keys of the row's own segment.
    5. else "heterogeneous".
    """
    ### BEGIN SOLUTION
    attn, place = attn.double(), torch.arange(len(attn))
    beside = ((place[:, None] - place).abs() == 1) & ~special
    on_special, next_door = (
        float((attn * special).sum(1).mean()),
        float((attn * beside).sum(1).mean()),
    )
    if on_special >= share and next_door < share / 2:
        return "vertical"
    if next_door >= share and on_special < share / 2:
        return "diagonal"
    if on_special + next_door >= share:
        return "vertical+diagonal"
    if segment is not None and len(segment.unique()) >= 2:
        if float((attn * (segment[:, None] == segment)).sum(1).mean()) >= (1 + share) / 2:
            return "block"
    return "heterogeneous"
    ### END SOLUTION


def disable(context: Tensor, values: Tensor, token_mask: Tensor, off: Tensor) -> Tensor:
    """The contexts of all heads, those in ``off`` as if every query attended to all
    real tokens alike.

    Args:
        context, values: (B, L, M·d), heads side by side. token_mask: (B, L) bool. off:
            (M,) bool.

    Returns:
        (B, L, M·d): for a head in off, at *every* position, the mean of its own values
        over the sentence's real tokens, whatever stands in the padding, NaN too; other
        heads as they are.
    """
    ### BEGIN SOLUTION
    real = token_mask[..., None]  # (B, L, 1)
    # (B, 1, M·d)
    mean = values.masked_fill(~real, 0).sum(1, keepdim=True) / real.sum(1, keepdim=True)
    return torch.where(off.repeat_interleave(values.shape[-1] // len(off)), mean, context)
    ### END SOLUTION


def attention_change(before: Tensor, after: Tensor, token_mask: Tensor) -> Tensor:
    """(M,) float64: 1 − the mean over sentences of the cosine between a sentence's two
    maps, cut to its real tokens and flattened.

    Args:
        before, after: (M, B, L, L). token_mask: (B, L) bool.
    """
    ### BEGIN SOLUTION
    cosines = []
    for b, real in enumerate(token_mask):
        one, other = (
            maps[:, b][:, real][:, :, real].flatten(1).double() for maps in (before, after)
        )
        cosines.append(torch.cosine_similarity(one, other, dim=1))
    return 1 - torch.stack(cosines).mean(0)
    ### END SOLUTION


# %%
check("8.4")

# %% [markdown]
# <details><summary>Hint 1: V and D</summary>A mask over keys times the map, summed over
# keys, averaged over rows.</details>
# <details><summary>Hint 2: whose features?</summary>Head h has features h·d …
# (h+1)·d − 1: <code>off.repeat_interleave(d)</code>.</details>

# %% [markdown]
# #### Experiment: which classes, which heads are in the way, which layers change?
#
# *Before you look:* Kovaleva et al. found single heads whose disabling *improves* BERT
# on a GLUE task, by up to 1.2 points (MRPC). Will there be some here?

# %%
### BEGIN SOLUTION
prediction_8_4 = "hardly any"
### END SOLUTION

# %%
tables.plain(lab08.count_patterns(experiments.read("lab08_heads/patterns")))

# %%
off = experiments.read("lab08_heads/ablation")
title = "One head switched off: change of token accuracy (points)"
ylabel, xlabel = "by equal attention", "by no attention (context 0)"
plots.scatter(off, x="zero", y="mean", diagonal=True, title=title, xlabel=xlabel, ylabel=ylabel)

# %%
change = experiments.read("lab08_heads/change")
title, ylabel = "Which layers' maps does fine-tuning change?", "1 − cosine, before and after"
plots.curves(change, x="layer", y="change", by="model", control=None, title=title, ylabel=ylabel)

# %%
say(
    f"Disabling one of {len(off)} heads costs {-off['mean'].mean():.2f} points of token accuracy on"
    f" average by equal attention, {-off['zero'].mean():.2f} by zero; at best it gains"
    f" {off['mean'].max():.2f}. The last layer's maps change against the first's by"
    f" {minus(change, 'change', 3, 0, by='layer', unit='', digits=2)}. {you_wrote(prediction_8_4)}"
)

# %% [markdown]
# **Classes.** Nearly all maps are "heterogeneous", in both models. Kovaleva's vertical
# and diagonal maps come from BERT-base on sentences and pairs of GLUE, where much of the
# attention rests on [SEP]. Ours are small models, trained on a small language. Our
# thresholds are our own: hers were drawn by a classifier. This part of the paper does
# not carry over, and the table says so.
#
# **Disabling.** Equal attention and no attention cost much the same, head by head (the
# points lie near the line), and a few heads carry nearly all of it. No head is worth
# removing for its own sake: the best gain is about a tenth of a point, which is noise;
# the paper's gains, up to 1.2 points for a head (MRPC) and 3.2 for a whole layer (RTE),
# were on small tasks of GLUE.
#
# **Change.** The later the layer, the more fine-tuning changes its maps, and that is
# shown. It is the paper's observation: the last layers are for the task.
#
# ### 8.5 Does attention have to be learned?
# **25 minutes · 2 points**
#
# Raganato, Scherrer and Tiedemann (2020) replaced all but one head of each encoder
# layer by seven patterns that know the *places* of words alone.


# %%
def fixed_patterns(length: int) -> Tensor:
    """(7, L, L) float32, rows sum to 1. For query i:

    Write both yourself: not with ``course_lib.pruning``.

    0: itself. 1: i − 1. 2: i + 1. 3, larger left context: keys j ≤ i − 2 with weight
    (j + 1)³. 4, larger right context: keys j ≥ i + 2 with weight (L − j)³.
    5, end: all keys with weight (j + 1)³. 6, start: all keys with weight (L − j)³.
    Weights are divided by their sum; a row without a key attends to itself.
    """
    if length < 1:
        raise ValueError(f"a sentence has at least one word, got {length}")
    ### BEGIN SOLUTION
    i, j = torch.arange(length)[:, None], torch.arange(length)
    rising, falling = (
        ((j + 1) ** 3).double().expand(length, -1),
        ((length - j) ** 3).double().expand(length, -1),
    )
    maps = torch.stack(
        [
            (j == i).double(),
            (j == i - 1).double(),
            (j == i + 1).double(),
            rising * (j <= i - 2),
            falling * (j >= i + 2),
            rising,
            falling,
        ]
    )
    maps = torch.where(
        maps.sum(-1, keepdim=True) == 0, torch.eye(length, dtype=torch.float64), maps
    )
    return (maps / maps.sum(-1, keepdim=True)).float()
    ### END SOLUTION


def frozen_attention(learned: Tensor, lengths: Tensor) -> Tensor:
    """Maps in which only the last head is the learned one, as it is.

    Args:
        learned: (B, M, L, L). lengths: (B,) int64, words of each sentence; padding
            stands behind them.

    Returns:
        like learned: head h < M − 1 of a sentence has pattern h of
        ``fixed_patterns(its length)`` on its words, and 0 on padded rows and columns.
    """
    if learned.shape[1] - 1 > 7 or (lengths < 1).any() or (lengths > learned.shape[-1]).any():
        raise ValueError("there are seven patterns, and lengths are from 1 to L")
    ### BEGIN SOLUTION
    out = torch.zeros_like(learned)
    out[:, -1] = learned[:, -1]
    for b, n in enumerate(lengths.tolist()):
        out[b, :-1, :n, :n] = fixed_patterns(n)[: learned.shape[1] - 1].to(learned)
    return out
    ### END SOLUTION


# %%
check("8.5")

# %% [markdown]
# <details><summary>Hint</summary>Build weights for all seven, (7, L, L); rows whose sum
# is 0 become rows of the identity; then divide.</details>

# %% [markdown]
# #### Experiment: patterns that know nothing but places
#
# All but one head of every encoder layer replaced, then 300 steps of fine-tuning, for
# all alike; and two controls: *equal* attention in the same heads, and these heads
# removed (stored; at once on validation sentences, fine-tuned on test sentences).
#
# *Before you look:* in which order will they end: learned, fixed patterns, equal
# attention, removed?

# %%
### BEGIN SOLUTION
prediction_8_5 = "learned, fixed, equal, removed"
### END SOLUTION

# %%
fixed = experiments.read("lab08_heads/fixed")
title = "Five of six heads per layer, replaced or removed"
plots.bars(fixed, x="method", y="bleu", by="when", fmt="{:.1f}", title=title, ylabel="BLEU")

# %%
say(you_wrote(prediction_8_5))
tuned = fixed[fixed["when"] == "fine-tuned"]
tables.compare(tuned, {"bleu": "test BLEU, fine-tuned"}, against="fixed patterns")

# %% [markdown]
# At once, with nothing trained, the fixed patterns are the *worst* of the three: what
# stands behind them was learned for other maps. All ways lose something on average
# after 300 steps of fine-tuning, too; the paper trains from scratch, with the patterns
# in place from the first step, and loses little or nothing. Among the three the order
# is then as one would guess on average, but
# fixed patterns against *equal* attention is not shown: much of what five heads per
# layer give when they are not learned is a mean of the sentence, and a mean needs no
# pattern. Without that control, "places are enough" would have been the headline.
#
# ## Part D · Kinds of attention
#
# ### 8.6 Pruning by kind
# **20 minutes · 2 points**
#
# An encoder–decoder has three kinds of attention: the encoder's own, the decoder's own,
# and the decoder's to the encoder. Michel et al. (2019) pruned each kind alone.
# When encoder–decoder heads are removed, the score falls fastest, and beyond 60 % of
# them it collapses.


# %%
def prune_by_kind(scores: dict[str, Tensor], kind: str, fraction: float) -> dict[str, Tensor]:
    """Masks: of ``kind`` the round(fraction · n) lowest-scoring heads are gone, of all
    its layers together; the other kinds keep all.

    Write both yourself: not with ``course_lib.pruning``.

    Args:
        scores: for "encoder", "decoder", "cross": (layers, heads). NaN: there is no
            such head; it is not counted in n, and False in the result. +inf is a score
            like others.
        kind: one of these, or "all": all heads of all kinds together. Ties: in the
            dict's order, row by row.

    Returns:
        bool (layers, heads) for each kind, True = kept.
    """
    if kind not in (*scores, "all") or not 0 <= fraction <= 1:
        raise ValueError(
            f"kind is one of {list(scores)} or 'all', fraction from 0 to 1; got {kind!r},"
            f" {fraction}"
        )
    ### BEGIN SOLUTION
    keep = {name: ~s.isnan() for name, s in scores.items()}
    heads = [
        (float(s), place, name, i)
        for place, (name, grid) in enumerate(scores.items())
        for i, s in enumerate(grid.flatten().tolist())
        if kind in (name, "all") and not math.isnan(s)
    ]
    heads.sort(key=lambda head: head[0])  # stable: in the order above
    for _, _, name, i in heads[: round(fraction * len(heads))]:
        keep[name].view(-1)[i] = False
    return keep
    ### END SOLUTION


def prunable_share(curve: list[tuple[float, float]], tolerance: float = 0.1) -> float:
    """The largest fraction of the curve up to which *every* score is at least
    (1 − tolerance) · full.

    Args:
        curve: (fraction, score); the first is (0, full), fractions rise.
    """
    fractions = [fraction for fraction, _ in curve]
    if (
        not curve
        or fractions[0] != 0
        or any(b <= a for a, b in zip(fractions, fractions[1:], strict=False))
    ):
        raise ValueError(f"fractions rise and begin with 0, got {fractions}")
    ### BEGIN SOLUTION
    reached, least = 0.0, (1 - tolerance) * curve[0][1]
    for fraction, score in curve:
        if score < least:
            break
        reached = float(fraction)
    return reached
    ### END SOLUTION


# %%
check("8.6")

# %% [markdown]
# <details><summary>Hint</summary>A list of (score, kind, place) for all heads that may
# go, sorted by score alone: Python's sort keeps equal ones in order.</details>

# %% [markdown]
# #### Experiment: where do heads matter, and from when on?
#
# First heads of one kind are pruned by $I_h$ or at random; nothing is trained. Then a
# share of *all* heads is pruned at some steps of the training, by the $I_h$ of that step.
# Your `prunable_share` computes how much can be pruned before BLEU falls by more than a
# tenth.
#
# *Before you look:* Michel et al. found that in the first two epochs BLEU falls in
# proportion to the share of heads pruned, whatever their $I_h$, and that from the tenth
# epoch on up to 40 % can be pruned with 85 to 90 % of BLEU left. And here?

# %%
### BEGIN SOLUTION
prediction_8_6 = "the same"
### END SOLUTION

# %%
by_kind = kinds[kinds["kind"] != "all"]
title = "Which kind of attention can lose heads?"
plots.curves(by_kind, x="pruned", y="bleu", panels="kind", xaxis="sparsity", title=title)

# %% [markdown]
# The lines of $I_h$ as numbers:

# %%
tables.means(by_kind[by_kind["method"] == "I_h"], "bleu", rows="kind", columns="pruned")

# %%
over_training = experiments.read("lab08_heads/over_training")
title = "All kinds together, after 300 to 3,000 steps of training"
plots.curves(over_training, x="pruned", y="bleu", panels="step", xaxis="sparsity", title=title)

# %%
say(you_wrote(prediction_8_6))
shares = lab08.prunable_shares(over_training, prunable_share)
title = "How much can be pruned while nine tenths of BLEU are left?"
plots.heat_map(shares, title=title, colour_label="% of all heads", fmt="{:.0f}")

# %% [markdown]
# **By kind.** Without any attention to the source there is no translation: the last
# column of encoder–decoder is next to 0. It is also the kind that suffers first, as
# Michel et al. found. The encoder bears most: a quarter of its heads, by $I_h$, costs
# next to nothing. Importance beats chance by far at half of the encoder's heads and at
# three quarters; the decoder and the attention between them have six heads each here,
# and there three checkpoints show it at a quarter of the decoder's alone.
#
# **Over training** it is the other way round than in the paper. After 300 steps the
# model translates hardly anything, and what it does needs few heads: 40 to 60 % may go.
# As two of the three checkpoints learn, heads become necessary; in the third 40 % may
# go all along. In the paper BLEU falls in proportion at first, and up to 40 % can be
# pruned later; our end agrees. "A tenth of BLEU" of a model that has 26 is 2.6
# points, so the measure is kind to bad models. (The paper's models were bad in the first
# epochs, too: this alone does not explain the difference.)
#
# #### Real sentences
#
# The same network, half as wide again, on descriptions of photographs (Multi30k, German
# into English, 29,000 pairs), trained from scratch once: read it as an example, not as
# proof (`course remake lab08_multi30k`, some fifteen minutes; it needs the files of the
# data set). BLEU is that of 300 validation sentences; on the test sentences of 2016 the
# whole model reaches 34.8.

# %%
real = experiments.read("lab08_multi30k/kinds").drop(columns="seed")
title = "Multi30k: one checkpoint, nothing trained after pruning"
plots.curves(real, x="pruned", y="bleu", panels="kind", xaxis="sparsity", title=title)

# %% [markdown]
# Which heads of the encoder look beside the word? Of the best head, the share of queries
# whose largest attention is at an offset:

# %%
beside = experiments.read("lab08_multi30k/beside").groupby("offset", as_index=False)["share"].max()
tables.plain(beside, 2)

# %% [markdown]
# The order of the kinds is the same, from encoder–decoder, which nothing replaces, to
# the encoder: with *no* encoder head at all, this model keeps three quarters of its
# BLEU. Real sentences of this sort seem to need little context. And here are the
# positional heads that the generated grammar did not bring about: one head looks at the
# word before in four of five cases. Importance beats chance at five of nine places:
# with one checkpoint and one draw at random that says nothing.
#
# ## Part E · What was it worth?
#
# ### 8.7 The bill, and two short answers
# **10 minutes · 1 point**
#
# The heads that closed are really removed, and the dense model stands beside: what do
# they save?

# %%
costs = lab08.measure_costs(lab08.dense_and_few())
learned = tuned[tuned["method"] == "all learned"]
tested = [learned["bleu"], experiments.read("lab08_heads/test")["test"]]
for cost, bleu in zip(costs.to_dict("records"), tested, strict=True):
    ledger.add("marian-small", lab="08", accuracy=bleu, **cost)
ledger.table()

# %% [markdown]
# (In the last two rows ms are those of the encoder for 64 sentences, and "accuracy" is
# test BLEU. Size and ms are those of checkpoint 0, BLEU is the mean of the three, with
# six, three and four heads left. The size is that of the whole model: embeddings,
# feed-forward layers and the decoder lose nothing. The dense row was fine-tuned for 300
# further steps, as in 8.5, so that it has had training, too.)
#
# #### The two answers
#
# **a.** Look at the tables of 8.2: gates with their training, random heads with the same
# training, and both without. What do the rows say together?

# %%
choose(
    "8.7a",
    "The heads that closed had computed nothing.",
    "Much of what is saved is saved by training while heads are missing; which heads stay matters"
    " most where nothing is trained.",
    "Nothing but the choice of heads matters: training changes nothing.",
    "The encoder does not need attention.",
)

# %% [markdown]
# **b.** BLEU that is left when *all* self-attention heads of the encoder are gone and
# nothing is trained, on average over the three checkpoints (from the table of 8.6;
# within 1 point)?

# %%
### BEGIN SOLUTION
answer_8_7a = "B"
answer_8_7b = 47.4
### END SOLUTION

# %%
check("8.7")

# %% [markdown]
# ### 8.8 Bug hunt
# **20 minutes · 1 point**
#
# A version of `points_to`, and the test that it passes:


# %%
def suspicious_points_to(attn: Tensor, target: Tensor, token_mask: Tensor) -> Tensor:
    found = attn.masked_fill(~token_mask[:, None, None, :], -1.0).argmax(-1)
    counted = (target >= 0) & token_mask
    of_sentence = ((found == target[:, None]) & counted[:, None]).sum(2) / counted.sum(1).clamp(
        min=1
    )[:, None]
    return of_sentence[counted.any(1)].double().mean(0)


# %%
def naive_test(f: Callable) -> None:
    attn = torch.tensor([[[[0.1, 0.6, 0.3], [0.5, 0.2, 0.3], [0.2, 0.2, 0.6]]]]).double()
    target, mask = torch.tensor([[1, 0, 0]]), torch.ones(1, 3, dtype=torch.bool)
    assert torch.allclose(f(attn, target, mask), torch.tensor([2 / 3], dtype=torch.float64))


naive_test(suspicious_points_to)
print("suspicious_points_to passes the naive test.")

# %% [markdown]
# With one sentence the mean of sentences' shares is the share. Write `find_bug(f)`: it
# gets a function `f(attn, target, token_mask)`, called by position, and raises
# `AssertionError` if `f` breaks the contract of `points_to` (**8.3**), and returns if
# it does not. A point is earned only for verdicts on both right and wrong versions.
# They take float64 `attn` with positive rows and targets that are real, with at least
# one counted query. Try it on something small: the versions refuse more than eight
# million numbers in one call, and calls that take long.


# %%
def find_bug(f: Callable[[Tensor, Tensor, Tensor], Tensor]) -> None:
    """Raise AssertionError if ``f(attn, target, token_mask)`` breaks the contract of
    ``points_to`` (8.3); else return.
    """
    ### BEGIN SOLUTION
    generator = torch.Generator().manual_seed(8)
    for trial in range(12):
        B, M, L = 3, 2, 6
        attn = torch.randint(1, 5, (B, M, L, L), generator=generator).double()  # with ties
        attn = attn / attn.sum(-1, keepdim=True)
        mask = torch.rand(B, L, generator=generator) < 0.7
        mask[:, trial % L] = True
        target = torch.full((B, L), -1)
        for b in range(B):
            real = mask[b].nonzero().flatten()
            for i in range(L):
                if torch.rand((), generator=generator) < 0.3 + 0.3 * b:
                    target[b, i] = real[int(torch.randint(len(real), (), generator=generator))]
        target[0, trial % L] = trial % L
        right, counted = torch.zeros(M, dtype=torch.float64), 0
        for b in range(B):
            for i in range(L):
                if target[b, i] < 0 or not mask[b, i]:
                    continue
                counted += 1
                for m in range(M):
                    real = [j for j in range(L) if mask[b, j]]
                    right[m] += max(real, key=lambda j: (float(attn[b, m, i, j]), -j)) == int(
                        target[b, i]
                    )
        found = f(attn.clone(), target.clone(), mask.clone())
        assert found.shape == (M,) and torch.allclose(found.double(), right / counted), (
            f"{found} is not {right / counted}"
        )
    ### END SOLUTION


# %%
for f in (points_to, suspicious_points_to):
    try:
        find_bug(f)
        print("no bug found")
    except AssertionError as reason:
        print(f"caught ({reason})")

# %%
check("8.8")

# %% [markdown]
# <details><summary>Hint 1: several sentences</summary>With unequal numbers of queries
# that count.</details>
# <details><summary>Hint 2: what is not to be looked at</summary>Padding with large
# attention; queries that are padding but have a target; two equal maxima.</details>

# %% [markdown]
# ## Play
#
# ### What does this head look at?
#
# A sentence of the test data and a head of the first checkpoint: its map, and what it
# points to most. (Tab goes to a control, arrow keys move a slider.)

# %%
widgets.explorer(
    lab08.show_attention(roles, offsets),
    sentence=widgets.slider(0, 11, 1, 0, "sentence"),
    layer=widgets.slider(0, lab08.LAYERS - 1, 1, 0, "layer"),
    head=widgets.slider(0, lab08.HEADS - 1, 1, 0, "head"),
)

# %% [markdown]
# ## What you take with you
#
# - A gate that is exactly 0 or 1 most of the time and still has a gradient: stretch a
#   random number beyond the ends, and cut.
# - A role is a share of maxima *beside the best fixed offset*. Without the baseline
#   every head is an expert.
# - Patterns that know places alone need a control, too: equal attention.
# - What a head is worth depends on its kind, too: as large a share of the heads between
#   encoder and decoder costs several times what it costs in the encoder.
#
# ## Going further
#
# - **A model of your own.** `course_lib.pruning.heads` gates, scores, prunes and
#   replaces the heads of any encoder–decoder that the registry knows.
# - **Read.** E. Voita et al., [*Analyzing Multi-Head Self-Attention: Specialized Heads Do
#   the Heavy Lifting, the Rest Can Be Pruned*](https://arxiv.org/abs/1905.09418), 2019.
#   C. Louizos, M. Welling, D. Kingma, [*Learning Sparse Neural Networks through L0
#   Regularization*](https://arxiv.org/abs/1712.01312), 2018. O. Kovaleva et al.,
#   [*Revealing the Dark Secrets of BERT*](https://arxiv.org/abs/1908.08593), 2019. A.
#   Raganato, Y. Scherrer, J. Tiedemann, [*Fixed Encoder Self-Attention Patterns in
#   Transformer-Based Machine Translation*](https://arxiv.org/abs/2002.10260), 2020. P.
#   Michel, O. Levy, G. Neubig, [*Are Sixteen Heads Really Better than
#   One?*](https://arxiv.org/abs/1905.10650), 2019.
# - **Next.** Lab 09: whole layers.
