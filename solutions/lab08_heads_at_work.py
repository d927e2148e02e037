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
# **Lab 07 removed heads and measured the loss. It did not examine what the remaining
# heads do. Does a head have a job?**
#
# Voita et al. (2019) put a gate on every head of a translation model, and examined the
# heads whose gates stayed open in training. Some attend to a neighbour, some from a
# verb to its subject, and one to the rarest word. In real English nobody knows for sure
# which other words a word *needs*. Our sentences come from a grammar, so we know for
# every word which word it depends on, and which word decides an ambiguous translation.
#
# **Prerequisites.** Lab 07 (gates on heads, $I_h$, removing heads), lab 02 (L1 makes no
# exact zeros), PyTorch training loops.
#
# Symbols, terms and the meaning of ±: [one page for all labs](../docs/notation.md).
#
# **After this lab you can**
#
# - write gates that are often exactly 0 but still have a gradient, and train them with
#   a price on open gates,
# - choose the baselines for this training,
# - compare a head's role with the best fixed offset,
# - replace attention by fixed patterns, and prune each kind of attention separately.
#
# | part | you write | question |
# |---|---|---|
# | A · Heads that may close | 8.1 hard concrete gates, 8.2 training with a price | how few heads are enough, and does it matter which? |
# | B · Roles | 8.3 what a head points to | do heads have jobs? |
# | C · Patterns | 8.4 classes, disabling, change (optional); 8.5 fixed attention | must attention be learned? |
# | D · Kinds of attention | 8.6 pruning by kind | where do heads matter? |
# | E · What was it worth? | 8.7 two short answers, 8.8 a bug hunt (optional) | what is saved? |
#
# 16 points; about 4½ hours without the optional exercises 8.4 and 8.8. Their
# 4 bonus points can replace points that you lose elsewhere in the lab. `check("8.1")`
# after each exercise shows which parts are right. If you are stuck, write `skip("8.1")`
# in a cell: that question scores 0, and the lab continues with the course's version.
# Write every function yourself, without `course_lib.pruning`.
#
# The rules of lab 01 apply. Guess first. Choose on validation data, and use the test
# data once. Make no claim without a random baseline and three seeds. A difference in
# bold is *statistically distinguishable*: its 95 % paired t-interval excludes 0.

# %%
from course_lib.grading import check, skip  # noqa: F401  (skip is yours to use)

# isort: split
import math
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np  # noqa: F401  (for your answers)
import pandas as pd
import torch
from torch import Tensor, nn

from course_lib import devices, experiments, ledger
from course_lib.experiments import lab08
from course_lib.show import drawings, plots, tables
from course_lib.show.words import minus, pm, say

# %% [markdown]
# ## Settings
#
# The three models (*checkpoints* 0 to 2) are small Marian transformers with three
# encoder layers of six heads and one decoder layer. They translate the grammar's
# English into simple German. BLEU (0 to 100) measures how many word sequences a
# translation shares with a reference. Results that take minutes are stored
# (`course remake lab08_heads`). The functions `lab08.…` run and summarise the
# experiments: [their code](../course_lib/experiments/lab08.py).

# %%
DEVICE = devices.use("cpu")  # or "cuda"
QUICK = {"steps": 25}  # steps at each price, in the live training
torch.set_num_threads(1)

for pair in lab08.data()["test"].select(range(3)):
    print(f"{pair['source']}\n    {pair['target']}")
kinds = experiments.read("lab08_heads/kinds")
full = kinds.query("kind == 'all' and method == 'I_h' and pruned == 0")["bleu"]
say(f"BLEU of the three checkpoints on validation sentences: {pm(full)}.")

# %% [markdown]
# Look at the examples. The article before a German noun depends on the noun's gender,
# on its number (the token `-s`), and on its position relative to the verb. The verb's
# ending depends on the subject, which may be far away. The rarest noun of the sentence
# decides whether *bank* becomes *Bank* (money) or *Ufer* (river).
#
# ## Part A · Heads that may close
#
# The picture shows the idea: draw a number, stretch it, cut it to [0, 1]. For some
# draws the gate is exactly 0 (the head is closed), for others exactly 1.

# %%
plots.show(drawings.stretched_and_cut(1.0))

# %% [markdown]
# ### 8.1 A gate that can be exactly 0, and has a gradient
# **35 minutes · 4 points**
#
# Every head gets a gate, and every gate that is not 0 (every *open* gate) adds a price
# to the loss. But the number of open gates is a count and has no gradient. Louizos,
# Welling and Kingma (2018) therefore make the gate random. For such a *hard concrete*
# gate, draw $u$ uniformly between 0 and 1 and let
#
# $$s = \sigma\!\left(\frac{\ln u - \ln(1-u) + \log\alpha}{\beta}\right),\qquad g = \min\bigl(1, \max(0,\; s\,(\zeta-\gamma)+\gamma)\bigr),$$
#
# with $\beta = \frac23$, $\gamma = -0.1$, $\zeta = 1.1$. Because $s$ is stretched
# beyond 0 and 1 and then cut, $g$ is *exactly* 0 with some probability and exactly 1
# with another. The probability of an open gate is a smooth function of $\log\alpha$:
#
# $$P(g \ne 0) = \sigma\!\left(\log\alpha - \beta \ln\frac{-\gamma}{\zeta}\right).$$
#
# (Why? $g > 0$ if $s > -\gamma/(\zeta-\gamma)$. Solve this for $\ln u - \ln(1-u)$,
# whose distribution function is $\sigma$.) The sum of these probabilities is the
# expected number of open gates. This sum has a gradient, so it can replace the count in
# the price.
#
# After training, the gate has no noise:
# $\hat g = \min(1, \max(0, \sigma(\log\alpha)(\zeta-\gamma)+\gamma))$, without $\beta$.
#
# **What is tested**: any shape, float32 and float64, other constants; gradients with
# respect to `log_alpha`; the share of zeros.


# %%
def sample_gate(
    log_alpha: Tensor, u: Tensor, beta: float = 2 / 3, gamma: float = -0.1, zeta: float = 1.1
) -> Tensor:
    """Sample one gate g in [0, 1] per entry of ``log_alpha`` (any shape, same dtype), with
    a gradient with respect to ``log_alpha``.

    Args:
        u: uniform noise of the same shape, strictly between 0 and 1.

    >>> sample_gate(torch.tensor([-9.0, 0.0, 9.0]), torch.full((3,), 0.5))
    tensor([0.0000, 0.5000, 1.0000])
    """
    if beta <= 0 or gamma >= 0 or zeta <= 1:
        raise ValueError(f"need beta > 0, gamma < 0, zeta > 1, got {beta}, {gamma}, {zeta}")
    if (u <= 0).any() or (u >= 1).any():
        raise ValueError("u must lie strictly between 0 and 1")
    ### BEGIN SOLUTION
    s = ((u.log() - (1 - u).log() + log_alpha) / beta).sigmoid()
    return (s * (zeta - gamma) + gamma).clamp(0, 1)
    ### END SOLUTION


def expected_l0(
    log_alpha: Tensor, beta: float = 2 / 3, gamma: float = -0.1, zeta: float = 1.1
) -> Tensor:
    """Compute P(g ≠ 0) of each gate: same shape and dtype as ``log_alpha``.

    >>> expected_l0(torch.zeros(1), beta=1.0, gamma=-0.5, zeta=1.5)  # σ(log 3)
    tensor([0.7500])
    """
    if beta <= 0 or gamma >= 0 or zeta <= 1:
        raise ValueError(f"need beta > 0, gamma < 0, zeta > 1, got {beta}, {gamma}, {zeta}")
    ### BEGIN SOLUTION
    return (log_alpha - beta * math.log(-gamma / zeta)).sigmoid()
    ### END SOLUTION


def gate_at_test(log_alpha: Tensor, gamma: float = -0.1, zeta: float = 1.1) -> Tensor:
    """Compute the gates of the trained model: no noise, no β; like ``log_alpha``.

    >>> gate_at_test(torch.tensor([0.01, 1.0, 3.0]).log())  # σ is 0.01, 0.5, 0.75
    tensor([0.0000, 0.5000, 0.8000])
    """
    if gamma >= 0 or zeta <= 1:
        raise ValueError(f"need gamma < 0, zeta > 1, got {gamma}, {zeta}")
    ### BEGIN SOLUTION
    return (log_alpha.sigmoid() * (zeta - gamma) + gamma).clamp(0, 1)
    ### END SOLUTION


# %%
check("8.1")

# %% [markdown]
# <details><summary>Hint 1</summary>Write the formulas line by line;
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
columns = ["log α", "exactly 0", "exactly 1", "1 − P(g ≠ 0)", "gate at test"]
tables.plain(pd.DataFrame(rows, columns=columns).astype(float), dict.fromkeys(columns[1:], 3))

# %% [markdown]
# ### 8.2 Training with a price
# **25 minutes · 3 points**
#
# Start from the trained model. In every step, draw new noise, sample the gates,
# multiply each head by its gate, and reduce the translation loss plus $\lambda$ times
# the expected number of open gates.
#
# **What is tested**: gates, weights and returned sums; one call of `loss_fn` per batch;
# λ = 0 and large λ; batches that can be read only once; no batches; the model's mode.


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
    """Take one step per batch; return for each batch the sum of
    ``expected_l0(log_alpha)`` *before* its step, as a list of floats.

    Args:
        model: in training mode during the loop; afterwards, also after an exception,
            ``model.train(mode)`` restores its mode.
        log_alpha: a leaf tensor; only the optimizer changes it, in place.
        loss_fn: ``loss_fn(model, batch, gates)``, a scalar; called once per batch.
        lam: the price λ; λ times the *sum* of expected_l0 is added to the loss.
        optimizer: holds the model's parameters and log_alpha; its step uses the gradient
            of this batch alone. Do not clip gradients.
        generator: once per batch draw ``torch.rand(log_alpha.shape,
            generator=generator)`` and clamp it to [1e-6, 1 − 1e-6].

    >>> log_alpha, model = torch.zeros(2, requires_grad=True), nn.Linear(1, 1)
    >>> optimizer, loss_fn = torch.optim.SGD([log_alpha], lr=0.0), lambda model, batch, g: g.sum()
    >>> batches, generator = [None, None], torch.Generator()
    >>> sums = train_with_gates(model, log_alpha, batches, loss_fn, 1.0, optimizer, generator)
    >>> [round(each, 2) for each in sums]  # 2 gates, each 0.83
    [1.66, 1.66]
    """
    if lam < 0:
        raise ValueError(f"lam must be at least 0, got {lam}")
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
# <details><summary>Hint: the order in a step</summary>Draw noise, compute price and
# loss, clear old gradients, call <code>backward()</code>, take the step.</details>

# %% [markdown]
# #### Experiment: how few heads are enough?
#
# The price rises over up to eight values, until at most four of the encoder's 18 heads
# are open (the *survivors*). The decoder keeps its heads. Three baselines keep the same
# number of heads: *random* heads with the same training; the survivors *without*
# training; and the heads with the largest $I_h$ (lab 07), without training. (Stored;
# three seeds, three random draws per seed.)
#
# *Before you look:* the dense models have about 97 BLEU. Which BLEU will the models
# with *random* heads have, with 14 of 18 closed?

# %%
### BEGIN SOLUTION
prediction_8_2 = 88
### END SOLUTION

# %%
closing = experiments.read("lab08_heads/closing")
title, xlabel = "How few heads are enough?", "encoder heads closed, of 18"
look = {"along": "price", "control": None, "guess": (14, prediction_8_2)}
plots.curves(closing, x="closed", y="bleu", title=title, xlabel=xlabel, **look)

# %% [markdown]
# The tables show the right end of these lines, where the three checkpoints keep 6, 3
# and 4 heads. *Random, untrained* keeps four heads and comes from the runs of 8.6.

# %%
ends = lab08.last_prices(closing, kinds)
say(f"Dense: {pm(full)}.")
tables.show(tables.means(ends, "bleu"))
tables.show(tables.compare(ends, "bleu", against="gates"))
tables.compare(ends, "bleu", against="random, untrained")

# %% [markdown]
# Now *your* gates and training run on checkpoint 0, a few steps at each of three
# prices. *Expected* is the number of open gates by the formula, *open* is their number
# at test, and *between* is how many of these are below 1.

# %%
path = lab08.gate_path(0, (0.005, 0.02, 0.1), QUICK["steps"], train_with_gates, gate_at_test)
tables.plain(pd.DataFrame(row for *_, row in path), {"price": 3})

# %% [markdown]
# Keeping three to six of 18 heads costs us about seven points: most of the translation
# is still right. The paper reports the same at a lower cost: keeping 10 of 48 encoder
# heads lost 0.15 BLEU.
#
# **The baselines.** With the same training, *random* heads are worse on average, but
# not distinguishably. *Without* training random heads keep little more than half of
# BLEU. The survivors keep more, but the counts differ: 6, 3 and 4 survivors, and always
# four random heads. So this comparison shows nothing of the choice. The heads with
# the largest $I_h$ are better than random heads on all three checkpoints, but the
# interval just includes 0.
#
# **Does training move work?** On all three checkpoints, the survivors are worse without
# training than with it, but the interval just includes 0. So we could not detect that
# training with gates *moves* work into the remaining heads. We did detect that training
# compensates for missing heads: random heads are far better with training than without.
# (Voita et al. used another baseline, a small model trained *from scratch*.)
#
# A head whose gate is open but below 1 is only scaled, not removed.
#
# ## Part B · Roles
#
# ### 8.3 What does a head point to?
# **40 minutes · 4 points**
#
# Voita et al. determine a head's role by its *largest* attention weight. A *positional*
# head has this weight on, for example, the next word in at least nine of ten cases. A
# *syntactic* head has this weight on, for example, the subject of a verb more often
# than the best *fixed offset*, a rule such as "two words back". Subjects are close to
# their verbs, so this rule finds many subjects without any grammar.
#
# **What is tested**: ties; padding inside a sentence; one head, sentence or word;
# float32; unchanged attention; the errors; for `rarest`, float counts and sentences
# without a real token.


# %%
def points_to(attn: Tensor, target: Tensor, token_mask: Tensor) -> Tensor:
    """Compute for each head the share of counted queries with their largest attention on
    their target.

    Args:
        attn: (B, H, L, L), H heads, query by key, not negative, any floating dtype.
        target: (B, L) int64, the key that a query should attend to; −1: no target.
        token_mask: (B, L) bool; False for padding and the end mark.

    Returns:
        (H,) float64, over all counted queries of the batch together. Counted are real
        tokens that have a target. Only real tokens are considered as keys; among equal
        maxima the lowest key wins.

    Raises:
        ValueError: if no query is counted, or the target of a counted one is not real.

    >>> attn = torch.tensor([[[[0.5, 0.5], [0.25, 0.75]]]])
    >>> points_to(attn, torch.tensor([[0, -1]]), torch.ones(1, 2).bool())
    tensor([1.], dtype=torch.float64)
    """
    counted = (target >= 0) & token_mask
    inside = target.clamp(0, token_mask.shape[1] - 1)
    if (
        not counted.any()
        or (target != inside)[counted].any()
        or not token_mask.gather(1, inside)[counted].all()
    ):
        raise ValueError("target: some query must be counted, and counted targets must be real")
    ### BEGIN SOLUTION
    found = attn.masked_fill(~token_mask[:, None, None, :], -1.0).argmax(-1)  # (B, H, L)
    right = (found == target[:, None, :]) & counted[:, None, :]
    return right.sum((0, 2)).double() / counted.sum()
    ### END SOLUTION


def neighbour(token_mask: Tensor, offset: int) -> Tensor:
    """Find for query i the key i + offset if both are real tokens, else −1: (B, L) int64.

    >>> neighbour(torch.tensor([[True, True, False]]), 1)
    tensor([[ 1, -1, -1]])
    """
    if offset == 0:
        raise ValueError("offset must not be 0, which is the word itself")
    ### BEGIN SOLUTION
    out = torch.full_like(token_mask, -1, dtype=torch.int64)
    for b, i in token_mask.nonzero().tolist():
        if 0 <= i + offset < token_mask.shape[1] and token_mask[b, i + offset]:
            out[b, i] = i + offset
    return out
    ### END SOLUTION


def rarest(tokens: Tensor, counts: Tensor, token_mask: Tensor) -> Tensor:
    """Find for every real query the rarest real token of its sentence (ties: the first): its
    position; −1 for all other queries. (B, L) int64.

    Args:
        tokens: (B, L) int64. counts: (V,), ints or floats: how often each token occurs.

    >>> counts, real = torch.tensor([9, 4, 7]), torch.tensor([[True, True, False]])
    >>> rarest(torch.tensor([[2, 0, 1]]), counts, real)
    tensor([[ 0,  0, -1]])
    """
    ### BEGIN SOLUTION
    of_tokens = counts.double()[tokens].masked_fill(~token_mask, math.inf)
    return torch.where(token_mask, of_tokens.argmin(1, keepdim=True), -1)
    ### END SOLUTION


def arc_baseline(target: Tensor, token_mask: Tensor) -> tuple[int, float]:
    """Find the offset (target − query) other than 0 that most counted queries have (as in
    ``points_to``), and its share of *all* counted queries.

    Ties: the smaller distance, then the negative offset.

    >>> arc_baseline(torch.tensor([[-1, 0, 1, 0]]), torch.ones(1, 4, dtype=torch.bool))
    (-1, 0.6666666666666666)

    Raises:
        ValueError: if no counted query has a target other than itself.
    """
    ### BEGIN SOLUTION
    counted = (target >= 0) & token_mask
    query = torch.arange(target.shape[1], device=target.device)
    offsets = (target - query)[counted].tolist()
    times = Counter(offset for offset in offsets if offset != 0)
    if not times:
        raise ValueError("target: no counted query has a target other than itself")
    best = min(times, key=lambda offset: (-times[offset], abs(offset), offset))
    return best, times[best] / len(offsets)
    ### END SOLUTION


# %%
check("8.3")

# %% [markdown]
# <details><summary>Hint 1: the largest among real keys</summary>Attention is never
# negative, so give −1 to all other keys before <code>argmax</code>.</details>
# <details><summary>Hint 2: one division</summary>Divide once, for the whole batch. A
# mean of the sentences' shares would give short sentences more weight.</details>
# <details><summary>Hint 3: the baseline</summary>Count target − query with
# <code>collections.Counter</code>. <code>min</code> with a key of three parts breaks
# ties.</details>

# %% [markdown]
# #### Experiment: do heads have jobs?
#
# On 300 validation sentences, we compare the 18 encoder heads of each checkpoint with
# the grammar: neighbours, dependencies in both directions, and the rarest noun. (In the
# figures, "its head" is the word on which a word depends, not an attention head.)


# %%
roles = lab08.find_roles(0, points_to)
offsets = lab08.fixed_offsets(arc_baseline)
rules = lab08.clearest_rules(roles, offsets)
title = "% of queries whose largest attention is at a target (checkpoint 0)"
plots.grid(lab08.roles_by_head(roles, rules), title=title, colour_label="%", fmt="{:.0f}")

# %% [markdown]
# Rows 4 to 12 are the dependencies for which the best head of checkpoint 0 exceeds the
# best fixed offset most. In the names, *aux* is an auxiliary, *advmod* an adverb,
# *case* a preposition, *det* an article or a similar word, *mark* a conjunction,
# *plural* the token `-s`. The next figure adds their baselines. The number after a name
# is the best fixed offset. (Neighbours are fixed offsets themselves.)

# %%
every = lab08.roles_beside_baselines(experiments.read("lab08_heads/roles"), offsets, rules)
title = "Is the best head better than a fixed offset?"
plots.grid(every, title=title, colour_label="% of queries", fmt="{:.0f}")

# %% [markdown]
# Some heads have jobs. The clearest example cannot be explained by a fixed offset. In
# all three checkpoints, one head attends from the verb to the *conjunction* of the
# verb's clause, wherever the conjunction is. (After *weil*, the German verb moves to
# the end.) Other roles are no better than the baseline. An auxiliary is always one
# place left of its verb, so a head that always finds it may contain no grammar. The
# rarest noun decides how *bank* is translated, but the best heads find it only two to
# three times as often as a random choice. In Voita's models, one head did almost
# nothing else.
#
# **What differs.** No head is positional in Voita's sense (nine of ten maxima at one
# offset). The best head reaches about half. Also, a share of maxima does not describe
# which values the head *passes on*.
#
# ## Part C · Patterns
#
# ### 8.4 Classes, disabling, change
# **30 minutes · 3 points · optional**
#
# Kovaleva et al. (2019) sorted BERT's attention maps into five classes, by eye and with
# a classifier. Our classes are rules that a program can check. *Vertical* maps attend
# to special tokens, *diagonal* maps to both neighbours, *block* maps to the query's own
# sentence. We use two more of their ideas. First, to disable a head, give every word
# the *same* attention instead of none. The head then passes on the mean of its values.
# Second, compare the maps before and after fine-tuning by their cosine.
#
# **What is tested**: all classes, other `share`, no or one segment, maps of one and two
# words; NaN at padding, no head or all heads off, float64, unchanged arguments; one
# sentence, one head, equal maps.


# %%
def attention_pattern(
    attn: Tensor, special: Tensor, segment: Tensor | None, share: float = 0.5
) -> str:
    """Classify one map by the first rule below that holds, computed in float64.

    Args:
        attn: (L, L), query by key, rows sum to 1. special: (L,) bool, True at [CLS], [SEP].
        segment: (L,) int64, the sentence that each token belongs to, or None.

    V is the mean over *all* rows of the attention on special keys, D that on keys i − 1
    and i + 1 that are not special, S that on keys of the row's own segment.

    1. "vertical": V ≥ share and D < share/2.
    2. "diagonal": D ≥ share and V < share/2.
    3. "vertical+diagonal": V + D ≥ share.
    4. "block": ``segment`` has at least two values, and S ≥ (1 + share)/2.
    5. "heterogeneous": all other maps.

    >>> ends = torch.tensor([True, False, False, True])
    >>> attention_pattern(torch.tensor([[0.4, 0.1, 0.1, 0.4]] * 4), ends, None)  # V .8, D .1
    'vertical'
    """
    ### BEGIN SOLUTION
    attn, place = attn.double(), torch.arange(len(attn), device=attn.device)
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
    """Compute all contexts, where heads in ``off`` attend equally to all real tokens.

    Args:
        context: (B, L, H·d), attention times values (the input of W_O), heads side by side.
        values: like context. token_mask: (B, L) bool. off: (H,) bool.

    Returns:
        (B, L, H·d): for a head in off, at *every* position, the mean of its values over
        the sentence's real tokens (padded values may be NaN); other heads unchanged.

    >>> values, real = torch.tensor([[[2.0], [4.0], [9.0]]]), torch.tensor([[True, True, False]])
    >>> disable(torch.zeros(1, 3, 1), values, real, torch.tensor([True])).tolist()
    [[[3.0], [3.0], [3.0]]]
    """
    ### BEGIN SOLUTION
    real = token_mask[..., None]  # (B, L, 1)
    # (B, 1, H·d)
    mean = values.masked_fill(~real, 0).sum(1, keepdim=True) / real.sum(1, keepdim=True)
    return torch.where(off.repeat_interleave(values.shape[-1] // len(off)), mean, context)
    ### END SOLUTION


def attention_change(before: Tensor, after: Tensor, token_mask: Tensor) -> Tensor:
    """Compute 1 − the mean over sentences of the cosine between a sentence's two maps, cut
    to its real tokens and flattened: (H,) float64.

    Args:
        before, after: (H, B, L, L). token_mask: (B, L) bool.

    >>> before = torch.eye(2).view(1, 1, 2, 2)
    >>> attention_change(before, before.flip(-1), torch.ones(1, 2).bool())
    tensor([1.], dtype=torch.float64)
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
# <details><summary>Hint 1: V and D</summary>Multiply the map by a mask over keys, sum
# over keys, and average over rows.</details>
# <details><summary>Hint 2: whose features?</summary>Head h has features h·d …
# (h+1)·d − 1: <code>off.repeat_interleave(d)</code>.</details>

# %% [markdown]
# #### Experiment: which classes, which heads are in the way, which layers change?


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
change["layer"] += 1
plots.curves(change, x="layer", y="change", by="model", control=None, title=title, ylabel=ylabel)

# %%
say(
    f"Disabling one of {len(off)} heads costs {-off['mean'].mean():.2f} points of token accuracy on"
    f" average by equal attention, {-off['zero'].mean():.2f} by zero; at best it gains"
    f" {off['mean'].max():.2f}. The last layer's maps change against the first's by"
    f" {minus(change, 'change', 4, 1, by='layer', unit='', digits=2)}."
)

# %% [markdown]
# **Classes.** Nearly all maps are "heterogeneous", in both models. Kovaleva's vertical
# and diagonal maps come from BERT-base on the sentences and sentence pairs of GLUE,
# where much of the attention is on [SEP]. Our models, their language and our thresholds
# differ. This result of the paper does not hold here.
#
# **Disabling.** For each head, equal attention and no attention cost about the same,
# and a few heads account for nearly all of the cost. Disabling a head gains nothing:
# the largest gain is about a tenth of a point, which is noise. The paper's gains, up to
# 1.2 points for a head (MRPC) and 3.2 for a whole layer (RTE), were on small tasks of
# GLUE.
#
# **Change.** With each later layer, fine-tuning changes the maps more. The difference
# between the last layer and the first is distinguishable. The paper observes the same:
# the last layers adapt to the task.
#
# ### 8.5 Does attention have to be learned?
# **25 minutes · 2 points**
#
# In each encoder layer, Raganato, Scherrer and Tiedemann (2020) kept one learned head
# and replaced all others by seven patterns that depend only on the *positions* of
# words.
#
# **What is tested**: sentences of one, two and many words; one to eight heads; zeros at
# padding; float64; the unchanged learned map.


# %%
def fixed_patterns(length: int) -> Tensor:
    """Build seven maps, (7, L, L) float32, rows sum to 1. Query i attends to:

    0: itself. 1: key i − 1. 2: key i + 1.
    3, larger left context: keys j ≤ i − 2 with weight (j + 1)³.
    4, larger right context: keys j ≥ i + 2 with weight (L − j)³.
    5, end: all keys with weight (j + 1)³. 6, start: all keys with weight (L − j)³.
    Each row is divided by its sum; a row without a key attends to itself.

    >>> fixed_patterns(2)[6]
    tensor([[0.8889, 0.1111],
            [0.8889, 0.1111]])
    """
    if length < 1:
        raise ValueError(f"length must be at least 1, got {length}")
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
    """Build maps in which only the last head is learned, and unchanged.

    Args:
        learned: (B, H, L, L), H ≤ 8. lengths: (B,) int64, words per sentence; padding
            comes after them.

    Returns:
        like learned: head h < H − 1 of a sentence has pattern h of
        ``fixed_patterns(its length)`` on its words, and 0 on padded rows and columns.

    >>> frozen_attention(torch.full((1, 2, 2, 2), 0.5), torch.tensor([1])).tolist()  # one word
    [[[[1.0, 0.0], [0.0, 0.0]], [[0.5, 0.5], [0.5, 0.5]]]]
    """
    if learned.shape[1] - 1 > 7 or (lengths < 1).any() or (lengths > learned.shape[-1]).any():
        raise ValueError("learned has at most 8 heads, and lengths must lie in 1 … L")
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
# <details><summary>Hint</summary>Build the weights of all seven patterns, (7, L, L).
# Replace rows whose sum is 0 by rows of the identity. Then divide.</details>

# %% [markdown]
# #### Experiment: patterns that depend on positions alone
#
# In every encoder layer, we replace all heads except one, then fine-tune every variant
# for 300 steps. There are two baselines: *equal* attention in the same heads, and these
# heads removed. (Stored; "at once" on validation sentences, "fine-tuned" on test
# sentences.)
#
# *Before you look:* the learned heads reach about 97 BLEU. Which BLEU will *fixed
# patterns* reach after fine-tuning?

# %%
### BEGIN SOLUTION
prediction_8_5 = 96
### END SOLUTION

# %%
fixed = experiments.read("lab08_heads/fixed")
title = "Five of six heads per layer, replaced or removed"
look = {"fmt": "{:.1f}", "ylabel": "BLEU", "guess": ("fixed patterns", prediction_8_5)}
plots.bars(fixed, x="method", y="bleu", by="when", title=title, **look)

# %%
tuned = fixed[fixed["when"] == "fine-tuned"]
tables.compare(tuned, {"bleu": "test BLEU, fine-tuned"}, against="fixed patterns")

# %% [markdown]
# At once, without training, the fixed patterns are the *worst* of the three, because
# the weights after them were learned for other maps. After 300 steps all three still
# lose something on average. The paper trains from scratch with the patterns and loses
# little or nothing. The average order of our three is the expected one, but we could
# not distinguish fixed patterns from *equal* attention. Without this baseline, our
# conclusion would have been "positions are enough".
#
# ## Part D · Kinds of attention
#
# ### 8.6 Pruning by kind
# **20 minutes · 2 points**
#
# An encoder–decoder has three kinds of attention: within the encoder, within the
# decoder, and from the decoder to the encoder (*encoder–decoder*). Michel et al. (2019)
# pruned each kind alone. The score fell fastest when encoder–decoder heads were pruned,
# and it collapsed when more than 60 % of them were pruned.
#
# **What is tested**: ties, NaN, +inf, different shapes, "all", fractions 0 and 1,
# unchanged scores; one point, a score exactly at the limit, a rise after a fall.


# %%
def prune_by_kind(scores: dict[str, Tensor], kind: str, fraction: float) -> dict[str, Tensor]:
    """Prune the round(fraction · n) heads of ``kind`` with the lowest scores, of n heads
    in all its layers together; the other kinds keep all their heads.

    Args:
        scores: for "encoder", "decoder", "cross": (layers, H).
        kind: one of these names, or "all": the heads of all kinds together.

    Returns:
        bool (layers, H) for each kind, True = kept.

    Ties: the first in the dict's order, row by row, is pruned first. +inf is a score.
    Missing heads: NaN means that there is no such head. It is not counted in n, and False.

    >>> scores = {"encoder": torch.tensor([[1.0, 2.0]]), "cross": torch.tensor([[0.0, torch.nan]])}
    >>> prune_by_kind(scores, "encoder", 0.5)
    {'encoder': tensor([[False,  True]]), 'cross': tensor([[ True, False]])}
    """
    if kind not in (*scores, "all") or not 0 <= fraction <= 1:
        raise ValueError(
            f"kind must be in {list(scores)} or 'all', fraction in [0, 1]; got {kind!r}, {fraction}"
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
    """Find the largest fraction of the curve up to which *every* score is at least
    (1 − tolerance) · full.

    Args:
        curve: pairs (fraction, score); the first is (0, full), fractions increase.

    >>> prunable_share([(0.0, 80.0), (0.25, 73.0), (0.5, 60.0), (0.75, 75.0)])  # 72 is the limit
    0.25
    """
    fractions = [fraction for fraction, _ in curve]
    if (
        not curve
        or fractions[0] != 0
        or any(b <= a for a, b in zip(fractions, fractions[1:], strict=False))
    ):
        raise ValueError(f"curve: fractions must rise from 0, got {fractions}")
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
# <details><summary>Hint</summary>Make a list of (score, kind, place) for all heads that
# may be pruned. Sort it by score alone: Python's sort keeps the order of equal
# scores.</details>

# %% [markdown]
# #### Experiment: where do heads matter, and from when on?
#
# First, we prune heads of one kind, by $I_h$ or at random, without training. Then we
# prune a share of *all* heads at several steps of training, by the $I_h$ of that step.
# `prunable_share` computes how much can be pruned before BLEU falls by more than a
# tenth.


# %%
by_kind = kinds[kinds["kind"] != "all"]
title = "BLEU by share of heads pruned, for each kind of attention"
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
shares = lab08.prunable_shares(over_training, prunable_share)
title = "Largest share of heads pruned at 90 % of the BLEU"
plots.grid(shares, title=title, colour_label="% of all heads", fmt="{:.0f}")

# %% [markdown]
# {{claim 08.1}}
#
# {{claim 08.2}}
#
# **By kind.** Without any encoder–decoder attention there is no translation: BLEU in
# the last column of its row is close to 0. As in the paper, this kind also loses BLEU
# first. The encoder loses least: pruning a quarter of its heads by $I_h$ costs almost
# nothing. The other kinds have only six heads each. For them, the difference
# is distinguishable only at a quarter of the decoder's heads.
#
# **Over training** our models do the opposite of the paper's. After 300 steps the
# models translate hardly anything, and this requires few heads: 40 to 60 % can be
# pruned. In two of the three checkpoints, heads become necessary as training continues.
# In the third, 40 % can be pruned at every step. At the end, paper and lab agree. One
# caution: a tenth of 26 BLEU is only 2.6 points, so the measure favours bad models.
# (The paper's models were bad in the first epochs, too, so this alone does not explain
# the difference.)
#
# #### Real sentences
#
# The same network, 1.5 times as wide, was trained from scratch once on descriptions of
# photographs (Multi30k, German into English, 29,000 pairs). This is an example, not
# evidence. (`course remake lab08_multi30k` takes about fifteen minutes and requires the
# files of the data set.) BLEU is measured on 300 validation sentences. On the test
# sentences of 2016, the dense model reaches 34.8.

# %%
real = experiments.read("lab08_multi30k/kinds").drop(columns="seed")
title = "Multi30k: one checkpoint, nothing trained after pruning"
plots.curves(real, x="pruned", y="bleu", panels="kind", xaxis="sparsity", title=title)

# %% [markdown]
# Which encoder heads attend to a neighbouring word? For each offset, the best head's
# share of queries whose largest attention is there:

# %%
beside = experiments.read("lab08_multi30k/beside").groupby("offset", as_index=False)["share"].max()
tables.plain(beside, 2)

# %% [markdown]
# The order of the kinds is the same. With *no* encoder head at all, this model keeps
# three quarters of its BLEU. Such sentences seem to require little context. Here one
# head attends to the previous word in four of five cases. That is near to a positional
# head (nine of ten in 8.3); no head did this with the generated grammar. (Importance is
# better than random pruning at five of nine points. With one checkpoint, this is no
# evidence.)
#
# ## Part E · What was it worth?
#
# ### 8.7 Costs, and two short answers
# **10 minutes · 1 point**
#
# The closed heads are now really removed. How much is saved, compared with the dense
# model?

# %%
costs = lab08.measure_costs(lab08.dense_and_few())
learned = tuned[tuned["method"] == "all learned"]
tested = [learned["bleu"], experiments.read("lab08_heads/test")["test"]]
for cost, bleu in zip(costs.to_dict("records"), tested, strict=True):
    ledger.add("marian-small", lab="08", accuracy=bleu, **cost)
ledger.table()

# %% [markdown]
# (In the last two rows, ms is the time of the encoder for 64 sentences. "Accuracy" is
# the mean test BLEU of the three checkpoints; after pruning, they have six, three and
# four heads left. Size and ms are those of checkpoint 0. The size includes embeddings,
# feed-forward layers and decoder. The dense model was fine-tuned for 300 further steps,
# as in 8.5.)
#
# #### The two answers
#
# **a.** The tables of 8.2 compare gates with their training, random heads with the same
# training, and both without training. What follows from these rows together?
#
# - **A.** The heads that closed had computed nothing.
# - **B.** Training while heads are missing recovers much of the loss; which heads are
#   kept matters most where nothing is trained.
# - **C.** Nothing but the choice of heads matters: training changes nothing.
# - **D.** The encoder does not need attention.
#
# **b.** Differences of this lab, with their 95 % intervals, on both kinds of data:
#
# {{difference 08.1}}
# {{difference 08.2}}
#
# Which of these sentences do the intervals permit?
#
# - **A.** On Multi30k, $I_h$ is no better than a random choice.
# - **B.** On the sentence pairs, $I_h$ is better than a random choice of half of the
#   encoder's heads.
# - **C.** In the encoder, $I_h$ gains more BLEU than the kind of attention makes.
# - **D.** Every translator needs the heads of its encoder least.

# %%
### BEGIN SOLUTION
answer_8_7a = "B"
answer_8_7b = "B"
### END SOLUTION

# %%
check("8.7")

# %% [markdown]
# ### 8.8 Bug hunt
# **20 minutes · 1 point · optional**
#
# Here is a version of `points_to`, and a test that it passes:


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
# With one sentence, the mean of the sentences' shares equals the share of all queries.
# Write `find_bug(f)`, which calls `f(attn, target, token_mask)` by position. It raises
# `AssertionError` if `f` breaks the contract of `points_to` (**8.3**), and returns
# otherwise.
#
# **What is tested**: right versions must pass, *and* six wrong versions must be found.
# Call `f` with float64 `attn` that has positive entries, targets that are real tokens,
# and at least one counted query. Use small inputs: a call with more than eight million
# numbers is refused, and `find_bug` has ten seconds per version.


# %%
def find_bug(f: Callable[[Tensor, Tensor, Tensor], Tensor]) -> None:
    """Raise AssertionError if ``f(attn, target, token_mask)`` breaks the contract of
    ``points_to`` (8.3); else return.
    """
    ### BEGIN SOLUTION
    generator = torch.Generator().manual_seed(8)
    for trial in range(12):
        B, H, L = 3, 2, 6
        attn = torch.randint(1, 5, (B, H, L, L), generator=generator).double()  # with ties
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
        right, counted = torch.zeros(H, dtype=torch.float64), 0
        for b in range(B):
            for i in range(L):
                if target[b, i] < 0 or not mask[b, i]:
                    continue
                counted += 1
                for h in range(H):
                    real = [j for j in range(L) if mask[b, j]]
                    right[h] += max(real, key=lambda j: (float(attn[b, h, i, j]), -j)) == int(
                        target[b, i]
                    )
        found = f(attn.clone(), target.clone(), mask.clone())
        assert found.shape == (H,) and torch.allclose(found.double(), right / counted), (
            f"expected {right / counted}, got {found}"
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
# <details><summary>Hint 1: several sentences</summary>Give them different numbers of
# counted queries.</details>
# <details><summary>Hint 2: difficult inputs</summary>Padded keys with large attention;
# padded queries that have a target; two equal maxima.</details>

# %% [markdown]
# ## Play
#
# ### What does this head look at?
#
# Choose a test sentence and a head of checkpoint 0. You see the head's map, and the
# targets that it finds more often than the best fixed offset. (Tab moves to a control,
# arrow keys move a slider.)

# %%
play = lab08.show_attention(roles, offsets)
plots.explore(play, sentence=(1, 12), layer=(1, lab08.LAYERS), head=(1, lab08.HEADS))

# %% [markdown]
# ## What you take with you
#
# - A random number that is stretched beyond 0 and 1 and then cut gives a gate that is
#   often exactly 0 or 1 and still has a gradient.
# - A role is a share of maxima *compared with the best fixed offset*.
# - Fixed patterns need a baseline, too: equal attention.
# - Pruning the same share of heads costs several times more between encoder and decoder
#   than in the encoder.
#
# ## Recap
#
# **1.** Why is the price on $P(g \ne 0)$, not on the sampled gates?
# <details><summary>Answer</summary>A gate that was cut has no gradient, and the size of
# a gate is no count.</details>
#
# **2.** Which baseline tests the *choice* of heads, and which the *training*?
# <details><summary>Answer</summary>Random heads with the same training; the same heads
# without training.</details>
#
# **3.** A head nearly always finds a verb's auxiliary. What else must you know?
# <details><summary>Answer</summary>How often the best fixed offset finds it: in this
# grammar, always.</details>
#
# **4.** What is wrong with the mean of the sentences' shares?
# <details><summary>Answer</summary>A sentence with one counted query weighs as much as
# one with five.</details>
#
# **5.** Why replace attention by *equal* attention?
# <details><summary>Answer</summary>Equal attention does not depend on positions. If it
# is as good as fixed patterns, positions are not the reason.</details>
#
# ## Going further
#
# - **A model of your own.** `course_lib.pruning.heads` gates, scores, prunes and
#   replaces the heads of any encoder–decoder in the registry.
# - **Read.** E. Voita et al., [*Analyzing Multi-Head Self-Attention: Specialized Heads
#   Do the Heavy Lifting, the Rest Can Be Pruned*](https://arxiv.org/abs/1905.09418),
#   2019. C. Louizos, M. Welling, D. Kingma, [*Learning Sparse Neural Networks through
#   L0 Regularization*](https://arxiv.org/abs/1712.01312), 2018. O. Kovaleva et al.,
#   [*Revealing the Dark Secrets of BERT*](https://arxiv.org/abs/1908.08593), 2019. A.
#   Raganato, Y. Scherrer, J. Tiedemann, [*Fixed Encoder Self-Attention Patterns in
#   Transformer-Based Machine Translation*](https://arxiv.org/abs/2002.10260), 2020. P.
#   Michel, O. Levy, G. Neubig, [*Are Sixteen Heads Really Better than
#   One?*](https://arxiv.org/abs/1905.10650), 2019.
# - **Next.** Lab 09: whole layers.
