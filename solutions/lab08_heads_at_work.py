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
# **Lab 07 removed heads and measured the loss. What do the remaining heads do? And are the heads
# that we can name the ones that stay?**
#
# Voita et al. (2019) put a gate on every head of a translation model, and examined the
# heads whose gates stayed open in training. Some attend to a neighbour, some from a
# verb to its subject, and one to the rarest word. They conclude that specialised heads "do the
# heavy lifting" and are pruned last. In real English nobody knows for sure which other words a
# word *needs*. Our sentences come from a grammar, so we know for every word which word it depends
# on. So we can test this conclusion.
#
# **Prerequisites.** Lab 06 (hard concrete gates, 6.7), lab 07 (gates on heads, $I_h$, removing
# heads), PyTorch training loops.
#
# Symbols, terms and the meaning of ±: [one page for all labs](../docs/notation.md).
#
# **After this lab you can**
#
# - train gates on heads with a price, and choose the baselines for this training,
# - compare a head's role with the best fixed offset, and test whether heads with a role stay,
# - replace attention by equal or fixed attention, and prune each kind of attention separately.
#
# | part | you write | question |
# |---|---|---|
# | A · Heads that may close | 8.1 training with a price | how few heads are enough, and does it matter which? |
# | B · Roles | 8.2 what a head points to | do the survivors have a role? |
# | C · Patterns | 8.3 disabling, 8.4 fixed attention | must attention be learned? |
# | D · Kinds of attention | 8.5 pruning by kind | where do heads matter? |
# | E · What was it worth? | 8.6 two short answers | what is saved? |
#
# 12 points; about 3 hours. After each exercise `check("8.1")` tests about half of the points;
# the grader tests the rest of what the docstring says. `skip("8.1")` gives up a question: it
# scores 0, and the lab continues with the course's version. Write every function yourself,
# without `course_lib.pruning`.
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
from course_lib.pruning.weights import prune_lowest
from course_lib.show import plots, tables, words

# %% [markdown]
# ## Settings
#
# The models (*checkpoints*) are small Marian transformers with three encoder layers of six heads
# and one decoder layer. They translate the grammar's English into simple German. Three come with
# the course; for the gates two more were trained by the same recipe. BLEU (0 to 100) measures how
# many word sequences a translation shares with a reference. Results that take minutes are stored
# (`course remake lab08_heads`). The functions `lab08.…` run and summarise the
# experiments: [their code](../course_lib/experiments/lab08.py).

# %%
DEVICE = devices.use("cpu")  # or "cuda"
QUICK = {"steps": 25}  # steps at each price, in the live training
torch.set_num_threads(1)

for pair in lab08.data()["test"].select(range(3)):
    print(f"{pair['source']}\n    {pair['target']}")
closing = experiments.read("lab08_heads/closing")
full = closing.query("method == 'dense'")["bleu"]
words.say(f"BLEU of the {len(full)} checkpoints on validation sentences: {words.pm(full)}.")

# %% [markdown]
# Look at the examples. The article before a German noun depends on the noun's gender,
# on its number (the token `-s`), and on its position relative to the verb. The verb's
# ending depends on the subject, which may be far away. The rarest noun of the sentence
# decides whether *bank* becomes *Bank* (money) or *Ufer* (river).
#
# ## Part A · Heads that may close
#
# ### 8.1 Training with a price
# **25 minutes · 3 points**
#
# Every head of the encoder gets a hard concrete gate $g$, as in lab 06: uniform noise $u$ and a
# learned number $\log\alpha$ give a gate between 0 and 1 that is often *exactly* 0 (the head is
# closed) or 1. `sample_gate` draws it, `expected_l0` is the probability $P(g \ne 0)$ that it is
# open, and `gate_at_test` is the gate without noise. These three functions of 6.7 are given.
#
# Start from the trained model. In every step, draw new noise, sample the gates,
# multiply each head by its gate, and reduce the translation loss plus $\lambda$ times
# the expected number of open gates.
#
# **What is tested**: gates, weights and returned sums; noise drawn and clamped as the docstring
# says; one call of `loss_fn` per batch; λ = 0 and large λ; batches that can be read only once; a
# model that comes with gradients; the model's mode.


# %%
def sample_gate(log_alpha: Tensor, u: Tensor, beta=2 / 3, gamma=-0.1, zeta=1.1) -> Tensor:
    s = ((u.log() - (1 - u).log() + log_alpha) / beta).sigmoid()
    return (s * (zeta - gamma) + gamma).clamp(0, 1)


def expected_l0(log_alpha: Tensor, beta=2 / 3, gamma=-0.1, zeta=1.1) -> Tensor:
    return (log_alpha - beta * math.log(-gamma / zeta)).sigmoid()


def gate_at_test(log_alpha: Tensor, gamma=-0.1, zeta=1.1) -> Tensor:
    return (log_alpha.sigmoid() * (zeta - gamma) + gamma).clamp(0, 1)


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
check("8.1")

# %% [markdown]
# <details><summary>Hint: the order in a step</summary>Draw noise, compute price and
# loss, clear old gradients, call <code>backward()</code>, take the step.</details>

# %% [markdown]
# ### Experiment 1: how few heads are enough, and which?
#
# The price rises over up to eight values; training stops earlier if at most four of the
# encoder's 18 heads are open. Three to six remained (the *survivors*). The decoder keeps its
# heads. Each rival keeps as many heads of the same checkpoint:
#
# - *random*: heads drawn at random, trained for as many steps on the same sentences, the others
#   off from the start (no gates, no price);
# - without any training: the *survivors*, the heads with the largest $I_h$ (lab 07), and the
#   same *random* heads.
#
# (Stored: five seeds, three draws of random heads per seed.)
#
# *Before you look:* the dense models have about 98 BLEU. Which BLEU will *random* heads have,
# trained as long?

# %%
prediction_random = 60  # replace it by yours

# %%
ends = lab08.last_prices(closing)
names = {"random": "random, trained", "gates": "survivors, trained (gates)"}
shown = ends.assign(method=ends["method"].replace(names).str.replace(", ", ",\n"))
title = "At most six of 18 encoder heads: which, and trained or not?"
look = {"ylabel": "BLEU (validation)", "guess": ("random,\ntrained", prediction_random)}
plots.bars(shown, x="method", y="bleu", title=title, fmt="{:.0f}", **look)

# %% [markdown]
# {{claim 08.1}}
#
# {{claim 08.2}}
#
# {{claim 08.3}}
#
# <details><summary>All differences</summary>The next cell prints them.</details>

# %%
tables.show(tables.compare(ends, "bleu", against="gates"))
tables.compare(ends, "bleu", against="random, untrained")

# %% [markdown]
# Now *your* training runs on checkpoint 0, a few steps at each of three
# prices. *Expected* is the number of open gates by the formula, *open* is their number
# at test, and *between* is how many of these are below 1.

# %%
prices, net = (0.005, 0.02, 0.1), lab08.trained(0)
path = lab08.gate_path(net, 0, prices, QUICK["steps"], train_with_gates, gate_at_test)
tables.plain(pd.DataFrame(row for *_, row in path), {"price": 3})

# %% [markdown]
# Keeping three to six of 18 heads costs 8.1 ± 5.2 BLEU, five to fifteen in single checkpoints. The
# paper's loss is smaller: Voita et
# al. keep 10 of 48 encoder heads and lose 0.15 BLEU.
#
# **Choice or training?** Without any training the choice matters: the survivors are more than
# twenty points ahead of random heads. The heads with the largest $I_h$ are, too; we could not
# detect a difference to the survivors, so gates are not needed to find good heads. With as
# much training we could not detect a difference to random heads (0.8 ± 3.6): the choice
# matters much less.
#
# **Does training move work?** On the checkpoint from which they come, the same survivors are worse
# than after training with gates. So work did move into the remaining heads, or their weights
# compensate for the missing ones: this comparison cannot tell the two apart. (Voita et al. used
# another baseline, a small model trained *from scratch*.)
#
# The checkpoints keep 6, 3, 4, 5 and 3 heads; in the figure their BLEU also differs for this
# reason. All differences compare as many heads of the same checkpoint. A head whose gate is open
# but below 1 is only scaled, not removed.
#
# ## Part B · Roles
#
# ### 8.2 What does a head point to?
# **25 minutes · 3 points**
#
# Voita et al. determine a head's role by its *largest* attention weight. A *positional*
# head has this weight on, for example, the next word in at least nine of ten cases. A
# *syntactic* head has this weight on, for example, the subject of a verb at least ten points more
# often than the best *fixed offset*, a rule such as "two words back". Subjects are close to
# their verbs, so this rule finds many subjects without any grammar.
#
# **What is tested**: ties; padding inside a sentence; one head, sentence or word;
# float32; unchanged attention.


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


def arc_baseline(target: Tensor, token_mask: Tensor) -> tuple[int, float]:
    """Find the offset (target − query) other than 0 that most counted queries have (as in
    ``points_to``), and its share of *all* counted queries.

    Ties: the smaller distance, then the negative offset.

    >>> arc_baseline(torch.tensor([[-1, 0, 1, 0]]), torch.ones(1, 4, dtype=torch.bool))
    (-1, 0.6666666666666666)
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
check("8.2")

# %% [markdown]
# <details><summary>Hint 1: the largest among real keys</summary>Attention is never
# negative, so give −1 to all other keys before <code>argmax</code>.</details>
# <details><summary>Hint 2: one division</summary>Divide once, for the whole batch. A
# mean of the sentences' shares would give short sentences more weight.</details>
# <details><summary>Hint 3: the baseline</summary>Count target − query with
# <code>collections.Counter</code>. <code>min</code> with a key of three parts breaks
# ties.</details>

# %% [markdown]
# ### Experiment 2: do the survivors have a role?
#
# On 300 validation sentences, we compare the 18 encoder heads of each checkpoint with the grammar:
# neighbours, the rarest noun, and ten dependencies, from a word to its syntactic *governor* (the
# word on which it depends) and back. The best of 18 heads on some sentences looks better than it
# is. So the best head is chosen on every second sentence, and its share is reported on the others.
# A role counts as *found* if this head, where it was chosen, is ten points above the best fixed
# offset, as in the paper. On the other sentences it can be less.
#
# If the survivors were chosen without regard to roles, how many of them would be the best head of
# some role? With $k$ such heads among a checkpoint's 18, a random head is one of them with
# probability $k/18$. So of $s$ random survivors $s\,k/18$ are expected, and their number has a
# hypergeometric distribution.
#
# *Pen and paper:* 4 of 18 heads have a role, and 3 heads survive. How many survivors with a role
# are expected, and how likely is at least one?
# <details><summary>Answer</summary>3 · 4/18 = 0.67. None with probability
# (14 · 13 · 12)/(18 · 17 · 16) = 0.45, so at least one with 0.55.</details>
#
# *Before you look:* 21 heads survive in the five checkpoints together. How many of them are the
# best head of some role?

# %%
prediction_roles = 10  # replace it by yours

# %%
mine = lab08.find_roles(lab08.trained(0, "eager"), points_to, arc_baseline).assign(seed=0)
stored = experiments.read("lab08_heads/roles")
best = lab08.best_heads(pd.concat([mine, stored.query("seed > 0")]))
plots.show(lab08.draw_roles(best, "Best head of each role: does it survive?"))
found = lab08.overlap(best)
words.say(
    f"Of {found['survivors']} survivors, **{found['with a role']}** are the best head of a role (your"
    f" guess: {prediction_roles}). By chance: {found['by chance']:.1f}, and so many or more with"
    f" probability {found['probability']:.3f}."
)

# %% [markdown]
# A cell shows a role that is found, with the share and the head (as layer.head); a frame marks a
# head that survives. For the other rules (among them both neighbours and the subject of a verb) no
# head is ten points above the best fixed offset in any checkpoint.
#
# The survivors have a role more often than random heads: about half of them are the best head
# of some role, and by chance it would be a quarter. This agrees with Voita et al. But one result
# contradicts "specialised heads are pruned last": the clearest role that no fixed offset explains
# is from a verb to the *conjunction* of its clause (*governor → mark*; after *weil*, the German
# verb moves to the end). Its best head is closed in all five checkpoints. And 11 of the 21
# survivors are not the best head of any role.
#
# **What differs.** No head is positional in Voita's sense (nine of ten maxima at one offset): the
# best reach about six in ten. (In the Multi30k model of experiment 5 one head attends to the
# previous word in four of five cases.) An auxiliary is always one place left of its verb, so a
# head that finds nearly all auxiliaries may contain no grammar. The rarest noun decides how *bank*
# is translated, but the best heads find it two or three times as often as a random choice. One
# head of Voita et al. attended to the rarest word in 66 % of the cases, and to one of the two
# rarest in 83 % (section 5.3). A share of maxima does not say which values a head *passes on*.
#
# ## Part C · Patterns
#
# ### 8.3 Equal attention
# **10 minutes · 1 point**
#
# To switch a head off you can set its output to 0 (lab 07). Kovaleva et al. (2019) instead give
# every word the *same* attention. The head then passes on the mean of its values: what it *reads*
# stays, and what it *selects* is lost.
#
# **What is tested**: NaN at padding, no head or all heads off, float64, unchanged arguments.


# %%
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


# %%
check("8.3")

# %% [markdown]
# <details><summary>Hint: whose features?</summary>Head h has features h·d …
# (h+1)·d − 1: <code>off.repeat_interleave(d)</code>.</details>

# %% [markdown]
# ### Experiment 3: does it matter how a head is switched off?
#
# Each encoder head of the three checkpoints is switched off alone, in both ways. (Stored.)

# %%
off = experiments.read("lab08_heads/ablation")
title = "One head switched off: change of token accuracy (points)"
ylabel, xlabel = "by equal attention", "by no attention (context 0)"
plots.show(
    plots.scatter(off, x="zero", y="mean", diagonal=True, title=title, xlabel=xlabel, ylabel=ylabel)
)
words.say(
    f"On average over {len(off)} heads equal attention costs {-off['mean'].mean():.2f} points, and"
    f" no attention {-off['zero'].mean():.2f}. The largest gain by equal attention is"
    f" {off['mean'].max():.2f} points."
)

# %% [markdown]
# For most heads both ways cost about the same; for the two most expensive ones equal
# attention costs about a quarter less. Six of the 54 heads carry about four fifths of the
# cost. The largest gain is 0.14 points, found among 54 heads on the same sentences: we do not
# count it. Kovaleva et al. report gains for BERT-base on small tasks of GLUE: up to 1.2
# points for a head (MRPC), and 3.2 for a whole layer (RTE).
#
# **Costs of single heads do not add up.** Let $L(a, b)$ be the loss with the gates $a$ and $b$ on
# two heads. Closing both changes it by
#
# $$L(0,0) - L(1,1) = \underbrace{[L(0,1) - L(1,1)]}_{\text{first head alone}} + \underbrace{[L(1,0) - L(1,1)]}_{\text{second head alone}} + \underbrace{[L(0,0) - L(0,1) - L(1,0) + L(1,1)]}_{\text{mixed term}} .$$
#
# The mixed term is 0 only if the effect of one head does not depend on the other. It is large
# where two heads do the same work.
#
# *Pen and paper:* a layer needs $y = 1$ and computes $y = \min(1, a + b)$ from two equal heads;
# $L = 1 - y$. What does each head cost alone, and what do both together?
# <details><summary>Answer</summary>Alone 0 each: the other head suffices. Both together 1. The
# mixed term is 1: all of the cost.</details>
#
# ### 8.4 Does attention have to be learned?
# **20 minutes · 2 points**
#
# In each encoder layer, Raganato, Scherrer and Tiedemann (2020) kept one learned head
# and replaced all others by seven patterns that depend only on the *positions* of
# words. The weights of patterns 3 to 6 are given, as `contexts`. (With six heads in our layers, the
# experiment below uses patterns 0 to 4.)
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
    i, j = torch.arange(length)[:, None], torch.arange(length)
    rising = ((j + 1) ** 3).double().expand(length, -1)
    falling = ((length - j) ** 3).double().expand(length, -1)
    contexts = [rising * (j <= i - 2), falling * (j >= i + 2), rising, falling]  # noqa: F841
    ### BEGIN SOLUTION
    beside = [(j == i).double(), (j == i - 1).double(), (j == i + 1).double()]
    maps = torch.stack(beside + contexts)
    total = maps.sum(-1, keepdim=True)
    maps = torch.where(total == 0, torch.eye(length, dtype=torch.float64), maps)
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
check("8.4")

# %% [markdown]
# <details><summary>Hint</summary>Stack the weights of all seven patterns, (7, L, L).
# Replace rows whose sum is 0 by rows of the identity. Then divide.</details>

# %% [markdown]
# ### Experiment 4: are positions enough?
#
# In every encoder layer, we replace all heads except one, then fine-tune every variant
# for 300 steps. There are two baselines: *equal* attention in the same heads, and these
# heads removed. (Stored: before fine-tuning on validation sentences, after it on test
# sentences.)
#
# *Before you look:* the learned heads reach about 98 BLEU. Which BLEU will *fixed
# patterns* reach after fine-tuning?

# %%
prediction_fixed = 80  # replace it by yours

# %%
fixed = experiments.read("lab08_heads/fixed")
title = "Five of six heads per layer, replaced or removed"
look = {"fmt": "{:.0f}", "ylabel": "BLEU", "guess": ("fixed patterns", prediction_fixed)}
plots.bars(fixed, x="method", y="bleu", by="when", title=title, **look)

# %% [markdown]
# {{claim 08.4}}
#
# Before fine-tuning the mean of the fixed patterns is the lowest of the three, because the
# weights after them were learned for other maps. After 300 steps fixed patterns are better
# than no heads. But they are not distinguishable from *equal* attention, nor from all heads
# learned, whose mean is seven points higher. All learned is better than equal attention (7.7
# ± 5.0). Without the baseline of equal attention one would credit the positions for the gain
# over no heads. The paper trains from scratch with the patterns, and loses little or nothing.
#
# ## Part D · Kinds of attention
#
# ### 8.5 Pruning by kind
# **15 minutes · 2 points**
#
# An encoder–decoder has three kinds of attention: within the encoder, within the
# decoder, and from the decoder to the encoder (*encoder–decoder*). Michel et al. (2019)
# pruned each kind alone. The score fell fastest when encoder–decoder heads were pruned,
# and it collapsed when more than 60 % of them were pruned. `prune_lowest(scores, k)` of lab 01
# may be used.
#
# **What is tested**: ties, different shapes, "all", fractions 0 and 1, unchanged scores.


# %%
def prune_by_kind(scores: dict[str, Tensor], kind: str, fraction: float) -> dict[str, Tensor]:
    """Prune the round(fraction · n) heads of ``kind`` with the lowest scores, of n heads
    in all its layers together; the other kinds keep all their heads.

    Args:
        scores: for "encoder", "decoder", "cross": (layers, H).
        kind: one of these names, or "all": the heads of all kinds together.

    Returns:
        bool (layers, H) for each kind, True = kept.

    Ties: the first in the dict's order, row by row, is pruned first.

    >>> scores = {"encoder": torch.tensor([[1.0, 2.0]]), "cross": torch.tensor([[0.0, 3.0]])}
    >>> prune_by_kind(scores, "encoder", 0.5)
    {'encoder': tensor([[False,  True]]), 'cross': tensor([[True, True]])}
    """
    ### BEGIN SOLUTION
    chosen = list(scores) if kind == "all" else [kind]
    together = torch.cat([scores[name].flatten() for name in chosen])
    kept = prune_lowest(together, round(fraction * len(together)))
    keep = {name: torch.ones_like(s, dtype=torch.bool) for name, s in scores.items()}
    for name, part in zip(chosen, kept.split([scores[n].numel() for n in chosen]), strict=True):
        keep[name] = part.view(scores[name].shape)
    return keep
    ### END SOLUTION


# %%
check("8.5")

# %% [markdown]
# <details><summary>Hint</summary><code>torch.cat</code> makes one long vector of all heads that
# may be pruned, and <code>split</code> undoes it.</details>

# %% [markdown]
# ### Experiment 5: where do heads matter?
#
# Heads of one kind are pruned, by $I_h$ or at random, without training: in the three checkpoints,
# and in one network 1.5 times as wide, trained from scratch on descriptions of photographs
# (Multi30k, German into English, 29,000 pairs; one run, an example). (`course remake
# lab08_multi30k` takes about fifteen minutes and requires the files of the data set.)

# %%
kinds = experiments.read("lab08_heads/kinds")
real = experiments.read("lab08_multi30k/kinds").drop(columns="seed")
look = {"x": "pruned", "y": "bleu", "panels": "kind", "xaxis": "sparsity"}
plots.show(plots.curves(kinds, title="BLEU without heads of one kind: the grammar", **look))
plots.curves(real, title="The same on Multi30k, one checkpoint", **look)

# %% [markdown]
# {{claim 08.5}}
#
# {{claim 08.6}}
#
# Without any encoder–decoder attention there is no translation: BLEU is close to 0, on both
# kinds of data. Here this is true by construction. The decoder has *one* layer, so these six
# heads are its only way to the source. In the paper's models each decoder layer has such
# heads. By $I_h$ the encoder loses least: pruning 4 of its 18 heads costs one point. With
# *no* encoder head the models of the grammar keep half of their BLEU, the one of Multi30k
# three quarters: such sentences seem to require little context. (On the test sentences of
# 2016 the dense model reaches 34.8.)
#
# Is $I_h$ better than a random choice? On the grammar, in
# the encoder yes, from half of the heads on; on Multi30k (one run, one draw) both are equal
# at half. The other kinds have only six heads each (a quarter is two of them); there the
# difference is distinguishable only at two of the decoder's. Michel et al. also pruned all
# kinds together during training, and found that more can be pruned early.
#
# ## Part E · What was it worth?
#
# ### 8.6 Costs, and two short answers
# **10 minutes · 1 point**
#
# In Experiment 4 one arm kept a single head in each encoder layer. The other heads are now really
# removed. How much is saved, compared with the dense model?

# %%
costs = lab08.measure_costs(lab08.dense_and_one())
tuned = fixed[fixed["when"] == "fine-tuned"].groupby("method")["bleu"]
for cost, arm in zip(costs.to_dict("records"), ("all learned", "removed"), strict=True):
    ledger.add("marian-small", lab="08", accuracy=tuned.get_group(arm), **cost)
ledger.table()

# %% [markdown]
# In the last two rows
#
# - *ms* is the time of the encoder for 64 sentences, and *accuracy* is test BLEU of the three
#   checkpoints that come with the course, both fine-tuned for 300 further steps;
# - the size includes embeddings, feed-forward layers and decoder.
#
# #### The two answers
#
# **a.** Experiment 1 compares gates with their training, random heads trained as
# long, and both without training. What follows from these rows together?
#
# - **A.** The heads that closed had computed nothing.
# - **B.** Training while heads are missing recovers much of the loss; which heads are
#   kept matters most where nothing is trained.
# - **C.** Nothing but the choice of heads matters: training changes nothing.
# - **D.** The encoder does not need attention.
#
# **b.** Differences of this lab, with their 95 % intervals, on both kinds of data:
#
# {{difference 08.5}}
# {{difference 08.6}}
#
# Which of these sentences do the intervals permit?
#
# - **A.** On Multi30k, $I_h$ is no better than a random choice.
# - **B.** On the grammar's sentences, $I_h$ is better than a random choice of half of the
#   encoder's heads.
# - **C.** In the encoder, $I_h$ gains more BLEU than the kind of attention makes.
# - **D.** Every translator needs the heads of its encoder least.

# %%
### BEGIN SOLUTION
answer_8_6a = "B"
answer_8_6b = "B"
### END SOLUTION

# %%
check("8.6")

# %% [markdown]
# ## Play
#
# ### What does this head look at?
#
# Choose a test sentence and a head of checkpoint 0. You see the head's map, and the
# targets that it finds more often than the best fixed offset. (Tab moves to a control,
# arrow keys move a slider.)

# %%
play = lab08.show_attention(mine)
plots.explore(play, sentence=(1, 12), layer=(1, lab08.LAYERS), head=(1, lab08.HEADS))

# %% [markdown]
# ## What you take with you
#
# - Without training, the choice of heads decides; with training it matters much less. Always
#   compare with as many random heads, trained as long.
# - A role is a share of maxima *compared with the best fixed offset*; choose the head on some
#   sentences, and report on others.
# - Survivors have a role more often than random heads, but the best head of the role that is
#   clearest on average is closed in every checkpoint.
# - Costs of single heads do not add up where heads do the same work.
# - Fixed patterns need a baseline, too: equal attention.
# - Half of the heads, by $I_h$, cost about five times as much between encoder and decoder as in
#   the encoder.
#
# ### Five questions to recap
#
# 1. Why is the price on $P(g \ne 0)$, not on the sampled gates?
#    <details><summary>Answer</summary>A gate that was cut has no gradient, and the size of
#    a gate is no count.</details>
# 2. Which baseline tests the *choice* of heads, and which the *training*?
#    <details><summary>Answer</summary>Random heads with the same training; the same heads
#    without training.</details>
# 3. A head nearly always finds a verb's auxiliary. What else must you know?
#    <details><summary>Answer</summary>How often the best fixed offset finds it: in this
#    grammar, always.</details>
# 4. Ten of 21 survivors have a role. What must you compare this with?
#    <details><summary>Answer</summary>With as many random heads: how many of these would be the
#    best head of some role?</details>
# 5. Why replace attention by *equal* attention?
#    <details><summary>Answer</summary>Equal attention does not depend on positions. If it
#    is as good as fixed patterns, positions are not the reason.</details>
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
