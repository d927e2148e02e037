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
import copy

import datasets
import numpy as np
import torch
from IPython.display import Markdown, display
from transformers.utils import logging

from course_lib import experiments
from course_lib.cost import latency, token_macs
from course_lib.data import images, pieces, reviews
from course_lib.data.review_grammar import CONTRAST, NEGATOR, POLAR
from course_lib.experiments import lab10
from course_lib.models import checkpoints
from course_lib.models.bert import small_bert
from course_lib.pruning.tokens import (
    SoftThreshold,
    attention_received,
    dropping,
    progressive_shares,
    threshold_policy,
)
from course_lib.show import plots
from course_lib.show.drawings.tokens import tokens_leaving
from course_lib.show.words import ends, pm, versus

datasets.disable_progress_bars()
logging.disable_progress_bar()
plots.use_style()
torch.set_num_threads(1)
SEEDS, TEXTS = (0, 1, 2), 260
loaded = [checkpoints.load(f"reviews-bert-{seed}") for seed in SEEDS]
models, tokenizer = [one.model for one in loaded], loaded[0].tokenizer
config = models[0].config
LAYERS = config.num_hidden_layers
texts = pieces.encode(
    reviews.load(train=0, validation=TEXTS, test=0), tokenizer, aligned=("evidence",)
)["validation"]
batches = list(pieces.batches(texts, "sentiment", 52, extra=("piece_evidence",)))
lengths = torch.tensor([len(row) for row in texts["input_ids"]])
dense = [lab10.measure(model, batches)["accuracy"] for model in models]
long_run = experiments.read("lab10_reviews")["seeds"]
real = experiments.read("lab10_sst2")
SCORES = {"received": "received", "[CLS] row": "cls", "random": "random"}
DEPTH, L, E = 12, 128, 768  # BERT-base and a text, where a slide counts
KEEP = 0.4  # the share that stays, where one is wanted


def measured(keep, score="received"):
    """Accuracy on validation reviews while tokens are dropped, one number for each
    checkpoint.
    """
    return [
        lab10.measure(model, batches, keep, score=score, seed=seed)["accuracy"]
        for seed, model in zip(SEEDS, models, strict=True)
    ]


def find(start):
    """The first review that begins like this."""
    return next(row for row in texts if row["text"].startswith(start))


def solve(ratio_of, target):
    """The cut, between 0 and 1, at which a rising ratio of MACs meets the target."""
    low, high = 0.0, 0.999
    for _ in range(20):
        middle = (low + high) / 2
        low, high = (low, middle) if ratio_of(middle) > target else (middle, high)
    return (low + high) / 2


def percent(value, digits=0):
    return f"{100 * value:.{digits}f}\u00a0%"


# %% [markdown] slideshow={"slide_type": "slide"}
# # Must every word go all the way?
#
# Neural-network pruning · lecture to lab 10
#
# *A sentence goes through twelve layers, and in the end one number is read. Which words
# may get off before, after which layer, who decides it, and what is saved?*

# %% slideshow={"slide_type": "notes"}
display(
    Markdown(
        f"All figures, where nothing else is said: three small BERTs ({LAYERS} layers of"
        f" {config.num_attention_heads} heads, width {config.hidden_size}) on generated reviews,"
        f" {TEXTS} of validation; dense {pm(dense)} %. Fine-tuning and SST-2 are shipped results."
    )
)

# %% slideshow={"slide_type": "slide"}
display(Markdown("## A text gets off, layer by layer"))
example = find("although the kitchen was not excellent")
ids = torch.tensor([example["input_ids"]])
named = tokenizer.convert_ids_to_tokens(example["input_ids"])
# from the last layer only [CLS] is read
schedule = progressive_shares(LAYERS, 0.15) | {LAYERS - 1: 1e-6}
stages, sure, whole = [], [], []
for model in models:
    with torch.inference_mode():
        whole.append(model(ids).logits.softmax(1)[0, 1].item())
        with dropping(model, schedule, score="received") as drop:
            sure.append(model(ids).logits.softmax(1)[0, 1].item())
    stages.append(
        [drop.last.alive(layer)[0].nonzero().flatten().tolist() for layer in range(LAYERS)]
    )
attention, ffn = drop.last.attention[:, 0].tolist(), drop.last.ffn[:, 0].tolist()
width = {"E": config.hidden_size, "ffn_width": config.intermediate_size}
fewer = token_macs([len(named)] * LAYERS, **width) / token_macs(attention, ffn_lengths=ffn, **width)
plots.show(
    tokens_leaving(
        named, stages[2], answer=f"positive, {percent(sure[2], 1)}",
        marked=[i for i, value in enumerate(example["piece_evidence"]) if value],
    )
)  # fmt: skip

# %% [markdown] slideshow={"slide_type": "notes"}
# Nobody has typed in who leaves: the rows come out of the model, by the attention that
# tokens receive. (The usual slide, 15 words, then 11, 4, 2, is drawn by hand.)

# %% slideshow={"slide_type": "slide"}
display(
    Markdown(
        f"## The same rule in three models\n\nA review, one of our models, **{fewer:.1f}× fewer"
        f" products**. With all words it says positive with {percent(whole[2], 1)}. The same text"
        f" and the same rule in our two other models: {percent(sure[0], 1)} and"
        f" **{percent(sure[1])}**. The latter has "
        + " ".join(f"`{named[i]}`" for i in stages[1][2])
        + " left after layer 3."
    )
)

# %% [markdown] slideshow={"slide_type": "notes"}
# Same text, same rule, another seed of training: another choice and a wrong
# answer. That is why everything below has three models.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Static or dynamic?
#
# | what goes | lab | decided | what must happen at run time |
# |---|---|---|---|
# | weights, filters, heads | most | once for all: **static** | nothing |
# | single activations | 05 | by input: **dynamic** | a score, a comparison, an address *for each number* |
# | channels, skipped | 05 | dynamic | a score for each map; all weights stay |
# | **tokens** | **10** | **dynamic** | **a score for each row; a shorter dense tensor** |

# %% slideshow={"slide_type": "slide"}
display(
    Markdown(
        f"## What deciding costs\n\nDecisions in a layer of {L} tokens of width {E}: **{L * E:,}**"
        f" for single activations, **{L}** for tokens, and none for what was decided before.\n\nA"
        " dynamic rule can take from *this* text what only this text can spare. It removes nothing"
        " from memory: the network stays whole, and every text pays for being asked."
    )
)

# %% slideshow={"slide_type": "notes"}
stays = []
with dropping(models[0], {1: KEEP}, score="received") as drop, torch.inference_mode():
    for batch in batches:
        models[0](batch["input_ids"], attention_mask=batch["attention_mask"])
        long_enough = batch["attention_mask"].sum(1) >= 30
        if long_enough.any():
            stays.append(drop.last.alive(1)[long_enough, :30])
stays = torch.cat(stays)
shares = stays.double().mean(0)[1:]
display(
    Markdown(
        f"Is it really dynamic, or are the same places kept in every text? Model 0, {KEEP:.0%} stay"
        f" after layer 2, {len(stays)} texts of 30 pieces or more: places 2 to 30 stay in"
        f" {percent(shares.min())} to {percent(shares.max())} of the texts, none always. Why is"
        " pruning of single activations rare: their zeros lie elsewhere for every input, sorting"
        " costs, and they must be encoded on the way."
    )
)

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Self-attention, in shapes
#
# $B$ texts of $L$ tokens, width $E$. Heads change none of these sums (lab 07):
#
# | | shapes | MACs |
# |---|---|---|
# | $Q, K, V$, output | $(B, L, E) \times (E, E)$, four times | $4\,BLE^2$ |
# | scores $QK^\top/\sqrt D$ | $(B, L, E) \times (B, E, L) \to (B, L, L)$ | $BL^2E$ |
# | softmax, times $V$ | $(B, L, L) \times (B, L, E) \to (B, L, E)$ | $BL^2E$ |
# | feed-forward | each row by itself, $E \to 4E \to E$ | $8\,BLE^2$ |
#
# A layer: $12\,BLE^2 + 2\,BL^2E$. Only the two lines in the middle let one token hear
# of another.

# %% [markdown] slideshow={"slide_type": "notes"}
# Many slides scale by √d of the whole width: it is a head's own, √(E/M). Projections
# and feed-forward block treat rows one by one: a row that is gone changes nothing there
# for the others. That is why dropping works at all.

# %% slideshow={"slide_type": "slide"}
display(Markdown("## What does a shorter text cost?"))
share = np.arange(13, 129) / 128
by_length = {
    f"L = {L:,}": np.array([token_macs([L], E) / token_macs([round(L * s)], E) for s in share])
    for L in (128, 2048, 32768)
}
fig = plots.curves(
    100 * share,
    by_length,
    xlabel="tokens that stay (%)",
    ylabel="MACs of a layer, times fewer",
    log=True,
    title=f"Short: in proportion. Long: squared (E = {E})",
)
fig.axes[0].set_yticks([1, 2, 5, 10, 20, 50], ["1", "2", "5", "10", "20", "50"])
at_half = {name: values[np.abs(share - 0.5).argmin()] for name, values in by_length.items()}
plots.show(
    fig,
    alt="Times fewer MACs of a layer against the share of tokens that stay; at half of them: "
    + ", ".join(f"{name} {value:.2f}" for name, value in at_half.items())
    + ".",
    inches=(5.2, 4.05),
)

# %% [markdown]
# A share $p$ stays. Saved:
#
# $$12\,BLE^2\,(1 - p) \\ {}+ 2\,BL^2E\,(1 - p^2)$$
#
# The second term has the larger gain, but is the larger term only where $L > 6E$.

# %% slideshow={"slide_type": "slide"}
display(Markdown("## A token saves only what lies behind it"))


def once(d, p):
    """Times fewer MACs of BERT-base with one drop after the attention of layer d."""
    few = round(p * L)
    return token_macs([L] * DEPTH, E) / token_macs(
        [L] * d + [few] * (DEPTH - d), E, ffn_lengths=[L] * (d - 1) + [few] * (DEPTH - d + 1)
    )


after = np.arange(1, DEPTH + 1)
one_drop = {f"{percent(p)} stay": np.array([once(d, p) for d in after]) for p in (0.5, 0.25, 0.1)}
fig = plots.curves(
    after,
    one_drop,
    xlabel="dropped after attention of layer",
    ylabel="MACs of the encoder, times fewer",
    title=f"BERT-base, {DEPTH} layers, L = {L}, one drop",
)
plots.show(
    fig,
    alt="Times fewer MACs against the layer after which tokens are dropped. After layer 6: "
    + ", ".join(f"{name} {values[5]:.2f}" for name, values in one_drop.items())
    + ".",
    inches=(5, 4.05),
)

# %% [markdown]
# The drop comes **between attention and feed-forward block**: scores are known, and two
# thirds of the layer are still to come. After the last attention all but [CLS] may go:
# only its row is read, so that is exact.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Two minutes: early or late?
#
# BERT-base, 12 layers, texts of 128 tokens. You are to halve the products of the
# encoder with **one** drop.
#
# **1.** What share may stay if you drop after the attention of layer 1, of layer 4, of
# layer 6? From which layer on is it impossible?
#
# **2.** What must have happened in the model before a word may leave? Which of the four
# would you try first?

# %% slideshow={"slide_type": "notes"}
may_stay = {d: 1 - solve(lambda cut, d=d: once(d, max(1 - cut, 1 / L)), 2.0) for d in (1, 4, 6)}
latest = max(d for d in range(1, DEPTH + 1) if once(d, 1 / L) >= 2)
display(
    Markdown(
        "1: "
        + ", ".join(f"layer {d}: {percent(p)}" for d, p in may_stay.items())
        + f"; with nothing but [CLS] left, layer {latest} is the last. 2: what it says must have"
        " moved into rows that stay. Early: generous, but blind; late: well informed, and hardly"
        " any room."
    )
)

# %% slideshow={"slide_type": "slide"}
display(Markdown("## A score that is the same for everybody"))
short = find("i would not call the story impressive")
short_ids = torch.tensor([short["input_ids"]])
short_named = tokenizer.convert_ids_to_tokens(short["input_ids"])
eager = copy.deepcopy(models[0])
eager.set_attn_implementation("eager")  # the fast kernels never write the weights down
with torch.inference_mode():
    attn = eager(short_ids, output_attentions=True).attentions[1]  # (1, M, L, L)
n = attn.shape[-1]
average = attn[0].mean(0) * n  # (L, L), over heads; 1 = average
table = torch.full((n + 2, n + 2), torch.nan)
table[:n, :n] = average
table[:n, n + 1], table[n + 1, :n] = average.mean(1), average.mean(0)
fig = plots.heat_map(
    table, rows=[*(f"{word} {i}" for i, word in enumerate(short_named, 1)), "", "mean"],
    columns=[*range(1, n + 1), "", "mean"], xlabel="who is looked at", ylabel="who looks",
    title="Attention in layer 2, mean over heads (1 = average)", fmt="{:.1f}",
)  # fmt: skip
rows_, columns_ = average.mean(1), average.mean(0)
plots.show(
    fig,
    alt=(
        f"Attention weights of a review of {n} pieces. The means of all rows are {rows_.min():.2f}"
        f" to {rows_.max():.2f}; those of columns go from {columns_.min():.1f} to"
        f" {columns_.max():.1f}, highest at {short_named[int(columns_.argmax())]}."
    ),
)

# %% [markdown] slideshow={"slide_type": "notes"}
# The weights times n, so that 1 is average.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Is this a score?
#
# $$s(x_i) = \frac{1}{N_h}\,\frac1n \sum_h \sum_j A^{(h)}(x_i, x_j) \;\overset{?}{=}\; \frac1n$$
#
# For all: **each row of the softmax sums to 1.** (In the figure: the column on the
# right, 1.0 for everybody.) The row below, the means of the *columns*, tells tokens
# apart.

# %% [markdown] slideshow={"slide_type": "notes"}
# The formula is often printed like this, with x_i in the first place. Read as written,
# x_i is the one that looks, and the sum runs along its own row. The right-hand column
# of the figure is that score: 1.0 for everybody. The last row is what is meant.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## The attention a token *receives*
#
# $$s_i = \frac{1}{N_h}\,\frac{1}{n} \sum_{h}\ \sum_{j\ \text{real}} A^{(h)}_{j,i} \qquad\qquad s_i^{\text{[CLS]}} = \frac{1}{N_h}\sum_h A^{(h)}_{\text{[CLS]},\,i}$$
#
# The mean of a **column**, over heads and over all *real* tokens that look. Or one vote
# only: the row of [CLS], from which the answer will be read.

# %%
score_cost = {"[CLS] row": lambda L: L * E, "received": lambda L: L * L * E}
score_lines = ["| | needs | products | L\u00a0=\u00a0128 | L\u00a0=\u00a02,048 |", "|---" * 5 + "|"]
for name, formula in {"[CLS] row": "$LE$", "received": "$L^2E$"}.items():
    needs = "one query" if "CLS" in name else "the whole matrix again"
    score_lines.append(
        f"| {name} | {needs} | {formula} | "
        + " | ".join(percent(score_cost[name](L_) / token_macs([L_], E), 2) for L_ in (128, 2048))
        + " |"
    )
display(Markdown("\n".join(score_lines)))

# %% [markdown]
# Scores of a text sum to 1, so the average token has $1/n$. On $n \cdot s$ it has 1,
# whatever the length.

# %% [markdown] slideshow={"slide_type": "notes"}
# Percentages are of the layer's own products. Fast attention kernels never write the
# matrix down, so "received" must compute QKᵀ again, or run with slow attention. Real
# tokens: padding has queries, too, and they must not vote; see below.

# %% slideshow={"slide_type": "slide"}
display(Markdown("## Better than what?"))
controls = SCORES | {
    "first tokens": lambda moment: -moment.places.float(),
    "last tokens": lambda moment: moment.places.float(),
}
one_layer = {
    name: [measured({layer: KEEP}, score) for layer in range(3)] for name, score in controls.items()
}
lines = [
    f"| accuracy (%), {percent(KEEP)} stay | after layer 1 | after layer 2 | after layer 3 |",
    "|---" * 4 + "|",
]
lines += [
    f"| {name} | " + " | ".join(pm(value) for value in values) + " |"
    for name, values in one_layer.items()
]
lines.append(
    "| *received against random* | "
    + " | ".join(
        versus(a, b, cell=True)
        for a, b in zip(one_layer["received"], one_layer["random"], strict=True)
    )
    + " |"
)
display(
    Markdown(
        f"Three models, {pm(dense)} % with all tokens, not trained afterwards. **Bold**: shown.\n\n"
        + "\n".join(lines)
    )
)

# %% [markdown]
# *First*, *last*: **static**. After layer 1 attention does not know enough yet; after
# layer 3 most of the text has been read, and even a draw loses less.

# %% [markdown] slideshow={"slide_type": "notes"}
# Random is drawn anew for every text. Where texts say the main thing first, *first* may
# be hard to beat; here the deciding sentence stands anywhere. So: run these controls on
# your own data. Dropping 60 % at random after layer 3 is far from chance: there the
# information has moved already.

# %% slideshow={"slide_type": "slide"}
display(Markdown("## A mask is not a drop"))
net = small_bert(600, layers=4, width=256, heads=8, ffn=1024, seed=0).eval()
generator = torch.Generator().manual_seed(0)
full = torch.randint(5, 600, (8, 128), generator=generator)
stay = torch.cat(
    [
        torch.zeros(1, dtype=torch.int64),
        1 + torch.randperm(127, generator=generator)[:63].sort().values,
    ]
)
there = torch.zeros(128).index_fill(0, stay, 1)
layer = net.bert.encoder.layer[0]
with torch.inference_mode():
    hidden = net.bert.embeddings(full)
    minus_infinity = ((1 - there) * torch.finfo(torch.float32).min).expand(8, 1, 128, 128)
    both = [layer(hidden, minus_infinity), layer(hidden[:, stay])]
masked, dropped = (out[0] if isinstance(out, tuple) else out for out in both)
gap = (masked[:, stay] - dropped).abs().max().item()


def with_mask():
    with torch.inference_mode():
        return net(full, attention_mask=there.long().expand(8, 128))


times = latency.compare(
    {
        "dense": latency.forward(net, full),
        "mask": with_mask,
        "drop": latency.forward(net, full[:, stay].contiguous()),
    },
    warmup=1,
    repeats=7,
    threads=1,
)
display(
    Markdown(
        "Half of 128 tokens, 8 texts, 4 layers of width 256, one thread, processor time:\n\n"
        "| | products (million) | times faster |\n|---|---|---|\n"
        f"| all tokens | {token_macs([128] * 4, 256) / 1e6:.0f} | 1 |\n"
        f"| half of them **masked** ($-\\infty$) | {token_macs([128] * 4, 256) / 1e6:.0f} "
        f"| {times['dense'].times_slower_than(times['mask']):.2f} |\n"
        f"| half of the **rows gone** | {token_macs([64] * 4, 256) / 1e6:.0f} | "
        f"**{times['dense'].times_slower_than(times['drop']):.2f}** |\n\n"
        "For the tokens that stay both say the same: the largest difference after a layer is "
        f"{1e6 * gap:.1f}\u00a0·\u00a010⁻⁶. A mask is a "
        "fine way to *try* "
        "a rule, and no way to save anything."
    )
)

# %% [markdown]
# With the rows go their entries in the mask, and their places are remembered. Positions
# are *not* counted anew: they were added before layer 1, and are part of the row.

# %% slideshow={"slide_type": "slide"}
display(Markdown("## Padding must not vote"))


def everybody_votes(attn, real):
    """Attention received with the mistake: queries of padding count like any other."""
    column = attn.mean((1, 2)) * real
    return column / column.sum(1, keepdim=True)


widths = np.array([48, 64, 80, 96, 128])
some = [row["input_ids"] for row in texts if len(row["input_ids"]) <= 48][:30]
changed = {"padding votes": np.zeros(len(widths)), "real queries only": np.zeros(len(widths))}
with torch.inference_mode():
    for row in some:
        m = len(row)
        k = -(-2 * m // 5)
        alone = eager(torch.tensor([row]), output_attentions=True).attentions[1]
        everything = torch.ones(1, m, dtype=torch.bool)
        for i, columns in enumerate(widths):
            present = torch.arange(int(columns))[None] < m
            padded = torch.zeros(1, int(columns), dtype=torch.int64)
            padded[0, :m] = torch.tensor(row)
            weights = eager(
                padded, attention_mask=present.long(), output_attentions=True
            ).attentions[1]
            for name, rule in {
                "padding votes": everybody_votes,
                "real queries only": attention_received,
            }.items():
                first, second = rule(alone, everything)[0], rule(weights, present)[0, :m]
                changed[name][i] += set(first.topk(k).indices.tolist()) != set(
                    second.topk(k).indices.tolist()
                )
fig = plots.curves(
    widths,
    {name: 100 * counts / len(some) for name, counts in changed.items()},
    xlabel="padded to so many columns",
    ylabel="texts that keep other tokens (%)",
    title=f"The same {len(some)} texts, alone and padded; 40 % stay after layer 2",
)
plots.show(
    fig,
    alt="Share of texts that keep other tokens when padded: "
    + "; ".join(
        f"{name} {100 * counts[-1] / len(some):.0f} per cent at 128 columns"
        for name, counts in changed.items()
    )
    + ".",
    inches=(5.2, 4.05),
)

# %% [markdown]
# Queries of padding are computed like any other. If they vote, a text's fate depends on
# its neighbours in the batch. **The same decision, padded or not**: $n$ is the *real*
# length, and [CLS] never goes, whatever its score.

# %% [markdown] slideshow={"slide_type": "notes"}
# Why protect [CLS]? The classifier reads its row. Nobody else need look at it: in the
# figure of the attention weights its column is below average. A score that forgets this
# drops the answer.

# %% slideshow={"slide_type": "slide"}
display(Markdown("## One drop, or a cascade?"))


def two_times(plan):
    """A plan with its parameter set so that the encoder needs half of the MACs."""
    return plan(1 - solve(lambda cut: lab10.ratio(config, lengths, plan(1 - cut)), 2.0))


plans = {
    "once, after layer 1": two_times(lambda p: {0: p}),
    "once, after layer 2": two_times(lambda p: {1: p}),
    "layers 2 and 3": two_times(lambda p: {1: p, 2: p / 2}),
    "all along": two_times(lambda p: progressive_shares(LAYERS, p)),
}
found = {name: measured(plan) for name, plan in plans.items()}
lines = [
    "| half the products | stay (%) | model 0 | 1 | 2 | accuracy (%) |",
    "|---" * 6 + "|",
]
for name, plan in plans.items():
    left = [100 * min([plan[i] for i in plan if i <= at], default=1.0) for at in range(3)]
    lines.append(
        f"| {name} | {', '.join(f'{value:.0f}' for value in left)} | "
        + " | ".join(f"{value:.1f}" for value in found[name])
        + f" | {pm(found[name])} |"
    )
display(Markdown("\n".join(lines)))
display(
    Markdown(
        "Cascade (layers 2 and 3) against one drop after layer 2: "
        f"{versus(found['layers 2 and 3'], found['once, after layer 2'])}; "
        f"against all along: {versus(found['layers 2 and 3'], found['all along'])}."
    )
)

# %% [markdown]
# A cascade leaves a word more time to be read. How many, and where, must be found for
# each model, on **validation** data.

# %% slideshow={"slide_type": "notes"}
display(
    Markdown(
        f"After layer 3 alone no more than {lab10.ratio(config, lengths, {2: 1e-6}):.2f}× can be"
        " had. What has left is gone for all layers behind, so shares only fall."
    )
)

# %% [markdown] slideshow={"slide_type": "notes"}
# PoWER-BERT learns a number of tokens for each layer. The "same factor" schedule of the
# last line is l ↦ n · f^(l/(D−1)). All rows cost the same: without that, two policies
# cannot be compared.

# %% slideshow={"slide_type": "slide"}
display(Markdown("## A fixed share, or a threshold?"))
kept_share = {at: [] for at in range(3)}
with (
    dropping(models[0], {0: 1.0, 1: 1.0, 2: 1.0}, score="received") as drop,
    torch.inference_mode(),
):
    for batch in batches:
        models[0](batch["input_ids"], attention_mask=batch["attention_mask"])
        present = batch["attention_mask"].bool()
        for at in range(3):
            keep = threshold_policy(drop.last.scores[at], 1.0, present)
            kept_share[at] += (keep.sum(1) / present.sum(1)).tolist()
rank = np.linspace(0, 100, 41)
spread = {f"layer {at + 1}": 100 * np.percentile(values, rank) for at, values in kept_share.items()}
fig = plots.curves(
    rank,
    {**spread, "fixed share": np.full(len(rank), 40.0)},
    xlabel="texts, those that lose most first (%)",
    ylabel="tokens that stay (%)",
    title="θ = 1: average score or better stays",
)
fig.axes[0].set_ylim(0, 80)
plots.show(
    fig,
    alt="Share of tokens that a threshold of 1 keeps, over texts: "
    + "; ".join(
        f"{name} from {values[2]:.0f} to {values[-3]:.0f} per cent"
        for name, values in spread.items()
    )
    + ".",
    inches=(5, 4.05),
)

# %% [markdown]
# $$\text{keep } i \iff n\,s_i \ge \theta_l$$
#
# A share is the same for every text: memory and time can be planned. A predefined
# threshold spends more on texts whose attention is spread out. Put it on $n\cdot s$: on
# $s$ alone it would be a rule about **lengths** (lab 10 asks which way).

# %% slideshow={"slide_type": "slide"}
display(Markdown("## A threshold that learns"))
line = torch.linspace(0, 2.5, 101)  # n · s
gates = {}
# the middle one of n = 2 real tokens
real_three = torch.tensor([[True, True, False]]).expand(len(line), 3)
points = torch.stack([torch.full_like(line, 0.1), line / 2, torch.full_like(line, 0.1)], 1)
for temperature in (0.3, 0.1):
    soft = SoftThreshold(1, temperature)
    with torch.no_grad():
        soft.theta.fill_(1.0)
    gates[f"T = {temperature}"] = soft(points, 0, real_three)[:, 1].detach()
    gates["hard"] = soft.eval()(points, 0, real_three)[:, 1].detach()
fig = plots.curves(
    line,
    gates,
    xlabel="n · score",
    ylabel="how much of it goes on",
    title="θ = 1: a step has no slope to learn from",
)
half = {name: float(values[20]) for name, values in gates.items()}
plots.show(
    fig,
    alt="How much of a token goes on against n times its score, at half the average: "
    + ", ".join(f"{name} {value:.2f}" for name, value in half.items())
    + ".",
    inches=(4.9, 4.05),
)

# %% [markdown]
# $$m_i = \sigma\!\left(\frac{n s_i - \theta_l}{T}\right)$$
#
# $$\mathcal L + \lambda \cdot \text{mean}(m)$$
#
# Kim et al. (2022): first **soft**, a token that is 0.2 there counts 0.2 times among
# the keys, weights and thresholds learn together; then **hard**, thresholds stand
# still, rows are dropped, and the weights learn on.

# %% [markdown] slideshow={"slide_type": "notes"}
# What raises θ is the price of a token, what lowers it the error made without it. In a
# step's place the gradient is 0 nearly everywhere. Kim et al. put θ on s itself; with
# texts of one length that is the same.

# %% slideshow={"slide_type": "slide"}
display(Markdown("## Soft is the way, not the place"))
arms = {
    arm: [one["thresholds"][arm] for one in long_run] for arm in ("soft to the end", "hard phase")
}


def fewer_of(result):
    return result["test"]["dense_macs"] / result["test"]["macs"]


lines = [
    "| accuracy (%) | soft to the end | **used hard** | MACs | with a hard phase | MACs |",
    "|---" * 6 + "|",
]
for seed, (soft_end, hard_end) in enumerate(zip(*arms.values(), strict=True)):
    lines.append(
        f"| model\u00a0{seed} | {soft_end['as trained']:.1f} |"
        f" **{soft_end['test']['accuracy']:.1f}** | ÷\u00a0{fewer_of(soft_end):.2f} |"
        f" {hard_end['test']['accuracy']:.1f} | ÷\u00a0{fewer_of(hard_end):.2f} |"
    )
display(Markdown("\n".join(lines)))

# %% [markdown]
# Without a hard phase the outcome, accuracy and price, is a gamble: a model that has
# only seen tokens that are 30 % there has learned to read them.

# %% [markdown] slideshow={"slide_type": "notes"}
# "As it was trained" is on validation reviews with soft gates; "used hard" on test. The
# models do not cost the same: λ is one price for all, and each buys what it likes.
# Compare accuracies only beside the products.

# %% slideshow={"slide_type": "slide"}
display(Markdown("## What the thresholds have learned"))
used = {arm: [one["test"]["accuracy"] for one in results] for arm, results in arms.items()}
theta = np.array([one["theta"][-1] for one in arms["hard phase"]])
display(
    Markdown(
        f"Hard phase against none: {versus(used['hard phase'], used['soft to the end'])}, and not"
        " at equal cost.\n\nThresholds learned, layers 1 to 3, mean: "
        + ", ".join(f"{value:.2f}" for value in theta.mean(0))
        + ". Layer 1 lets nearly everything pass."
    )
)

# %% [markdown]
# Kim et al.: **up to 2.1× fewer FLOPs at less than 1 % of accuracy**, with $\lambda$
# chosen for each budget.

# %% slideshow={"slide_type": "slide"}
display(Markdown("## Accuracy against products"))
finals = (0.6, 0.4, 0.25, 0.15)
on_budget = {
    name: np.array([measured(progressive_shares(LAYERS, final), score) for final in finals]).T
    for name, score in SCORES.items()
}
budget = [lab10.ratio(config, lengths, progressive_shares(LAYERS, final)) for final in finals]
fig = plots.method_curves(
    budget, on_budget, dense=dense, xlabel="MACs, times fewer", ylabel="accuracy (%)",
    title="Three models; nothing trained afterwards",
)  # fmt: skip
plots.show(
    fig,
    alt=f"Accuracy against times fewer MACs. At {budget[2]:.1f} times: "
    + ", ".join(f"{name} {values[:, 2].mean():.0f}" for name, values in on_budget.items())
    + f"; dense {np.mean(dense):.0f}.",
    inches=(4.9, 4.05),
)
display(
    Markdown(
        f"At {budget[2]:.1f}×: received against random"
        f" {versus(on_budget['received'][:, 2], on_budget['random'][:, 2])}; against the row of"
        f" [CLS] {versus(on_budget['received'][:, 2], on_budget['[CLS] row'][:, 2])}. The cheap"
        " score does as well *here*. Received loses"
        f" {np.mean(dense) - on_budget['received'][:, 2].mean():.0f} points."
    )
)

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Two minutes: no loss
#
# > "Our method needs half of the products. After fine-tuning with tokens dropped it
# reaches 97.9 %, the model that we
# > started from had 97.9 %. Tokens can be removed without any loss."
#
# **1.** Which two other models would you have fine-tuned, for just as long?
#
# **2.** On which data was the schedule chosen, and which number is then no longer to be
# believed?

# %% [markdown] slideshow={"slide_type": "notes"}
# 1: the dense one (more training may help by itself), and one with random tokens
# dropped on the same schedule (any model gets used to holes). 2: validation; the best
# of a grid is a little lucky on the data it was chosen on. The next slide has all of
# it.

# %% slideshow={"slide_type": "slide"}
display(Markdown("## With holes in the text from now on"))
as_it_came = [one["before"]["test"]["dense"]["accuracy"] for one in long_run]
untrained = [one["before"]["test"]["informed"]["accuracy"] for one in long_run]
tuned = {
    arm: [one["fine-tuned"][arm]["test"]["accuracy"] for one in long_run]
    for arm in ("dense", "informed", "random")
}
saved = [fewer_of(one["fine-tuned"]["informed"]) for one in long_run]
names = {
    "as it came": as_it_came,
    "trained on": tuned["dense"],
    "[CLS] row": tuned["informed"],
    "random": tuned["random"],
}
errors = {
    name: {f"model {s}": 100 - value for s, value in enumerate(values)}
    for name, values in names.items()
}
steps = experiments.read("lab10_reviews")["settings"]["fine-tuned"]["steps"]
fig = plots.bars(
    errors,
    ylabel="",
    title=(
        f"Errors (%): as it came; trained on with all tokens; trained on with {min(saved):.2f}×"
        " fewer products"
    ),
    fmt="{:.1f}",
)
plots.show(
    fig,
    alt="Errors in per cent on test reviews, mean of three models: "
    + ", ".join(f"{name} {100 - np.mean(values):.1f}" for name, values in names.items())
    + ".",
    inches=(8, 4.05),
)
reached = sum(
    before - value < 1 and ratio >= 2
    for before, value, ratio in zip(as_it_came, tuned["informed"], saved, strict=True)
)
# %% slideshow={"slide_type": "slide"}
display(
    Markdown(
        "## The goal, and the other half\n\nThe goal, **≥ 2× fewer products for < 1 point**:"
        f" reached by {reached} of {len(SEEDS)}, against the model as it came"
        f" {versus(tuned['informed'], as_it_came)}.\n\nThe uncomfortable half: dense, trained on"
        " just as long, gains, too. Against *that*:"
        f" **{versus(tuned['informed'], tuned['dense'])}**. Against random holes:"
        f" {versus(tuned['informed'], tuned['random'])}."
    )
)

# %% slideshow={"slide_type": "notes"}
display(
    Markdown(
        f"Before any training the same schedules had {pm(untrained)} %. Both sentences are true:"
        " less than a point of what you had is lost; and you pay a point or two of what you could"
        " have had. A paper that reports the first should report the second. The schedules: "
        + "; ".join(
            ", ".join(f"{100 * one['schedule'].get(str(at), 1):.0f}" for at in range(3)) + " %"
            for one in long_run
        )
        + " after layers 1, 2, 3."
    )
)

# %% slideshow={"slide_type": "slide"}
display(Markdown("## Which words stay?"))
marks = torch.tensor(tokenizer.convert_tokens_to_ids([".", ","]))
kinds = ("polar word", "negator", "contrast", "[SEP]", ". and ,", "the rest")
survival = np.zeros((len(SEEDS), 3, len(kinds)))
for seed, model in enumerate(models):
    for at in range(3):
        counts = np.zeros((len(kinds), 2))
        with dropping(model, {at: KEEP}, score="received") as drop, torch.inference_mode():
            for batch in batches:
                piece, decides = batch["input_ids"], batch["piece_evidence"]
                model(piece, attention_mask=batch["attention_mask"])
                alive = drop.last.alive(at)
                which = [decides == kind for kind in (POLAR, NEGATOR, CONTRAST)]
                which += [piece == tokenizer.sep_token_id, torch.isin(piece, marks)]
                other = (
                    batch["attention_mask"].bool()
                    & (piece != tokenizer.cls_token_id)
                    & ~torch.stack(which).any(0)
                )
                counts += [
                    [(alive & chosen).sum().item(), chosen.sum().item()]
                    for chosen in (*which, other)
                ]
        survival[seed, at] = 100 * counts[:, 0] / counts[:, 1]
bar = {
    f"after layer {at + 1}": dict(zip(kinds, survival[:, at].mean(0).tolist(), strict=True))
    for at in range(3)
}
spans = {
    f"after layer {at + 1}": {kind: ends(survival[:, at, k]) for k, kind in enumerate(kinds)}
    for at in range(3)
}
fig = plots.bars(
    bar,
    errors=spans,
    ylabel="stay (%)",
    title="Kept by attention received, three models with intervals",
    fmt="{:.0f}",
)
fig.axes[0].axhline(100 * KEEP, color=plots.COLOURS["random"], linestyle="--", linewidth=1.4)
fig.axes[0].set_ylim(0, 122)
plots.show(
    fig,
    alt=f"Share of words that stay where {KEEP:.0%} of all do, after layers 1, 2 and 3: "
    + "; ".join(f"{kind} " + ", ".join(f"{bar[name][kind]:.0f}" for name in bar) for kind in kinds)
    + ".",
    inches=(8, 4.05),
)

# %% slideshow={"slide_type": "slide"}
display(
    Markdown(
        "## Must they stay?\n\nThe score finds the words that decide mostly more often than chance"
        " (dashed), and not always. Must it? After layer 3,"
        f" {100 - survival[:, 2, 0].mean():.0f}\u00a0% of the polar words are gone, and"
        f" {pm(one_layer['received'][2])} % of the answers right: their message has **moved** into"
        " other rows. A word that is gone has been read."
    )
)

# %% [markdown] slideshow={"slide_type": "notes"}
# We know which words decide, since a grammar wrote the reviews: the polar word of the
# deciding clause, its negator, the contrast word. For real texts nobody knows. A word
# that is kept is no proof that it is used, either.

# %% slideshow={"slide_type": "slide"}
display(Markdown("## Tokens and heads together"))
joint_lines = [
    "| half of them gone, BERT-base, MACs × fewer | L = 128 | L = 2,048 |",
    "|---|---|---|",
]
for name, part, heads in (
    ("heads", 1.0, 0.5),
    ("tokens", 0.5, 1.0),
    ("both", 0.5, 0.5),
):
    ratios = [
        token_macs([L_] * DEPTH, E)
        / token_macs([round(part * L_)] * DEPTH, E, attention_width=round(heads * E))
        for L_ in (128, 2048)
    ]
    joint_lines.append(f"| {name} | " + " | ".join(f"{value:.2f}" for value in ratios) + " |")
display(
    Markdown(
        "SpAtten (Wang et al. 2021) lets both go while the model runs, in a **cascade** of summed"
        " scores:\n\n$$S_i^{(l)} = S_i^{(l-1)} + s_i^{(l)} \\qquad H_h^{(l)} = H_h^{(l-1)} +"
        " \\textstyle\\sum |\\text{output of head } h|$$\n\n" + "\n".join(joint_lines)
    )
)

# %% [markdown]
# Token 7 is the same word in every layer; head 3 of one layer and of the next share
# nothing but a number. SpAtten cascades both, since its hardware can then skip them
# early: **DRAM access ÷ 10**.

# %% [markdown] slideshow={"slide_type": "notes"}
# Shuffle a layer's heads, and the network computes the same. The tenth of DRAM access
# is their own figure, for hardware of their own design.
#
# Heads that go for all texts are lab 07. Heads chosen anew for each text can be gated,
# which shows the accuracy; no ordinary kernel skips them. The table takes half from
# layer 1 on: the upper end of what is to be had.

# %% slideshow={"slide_type": "slide"}
display(Markdown("## Does the clock agree?"))
plan = progressive_shares(4, 0.2)
promised = lab10.ratio(net.config, torch.tensor([128]), plan)
speed = {}
for size, repeats in ((1, 15), (4, 7), (16, 4)):
    ids_128 = torch.randint(5, 600, (size, 128), generator=torch.Generator().manual_seed(size))
    ways, open_blocks = {"dense": latency.forward(net, ids_128)}, []
    for name, score in SCORES.items():
        twin = copy.deepcopy(net)  # each way keeps its block open while the clock runs
        open_blocks.append(
            dropping(twin, plan, score=score, generator=torch.Generator().manual_seed(0))
        )
        open_blocks[-1].__enter__()
        ways[name] = latency.forward(twin, ids_128)
    taken = latency.compare(ways, warmup=1, repeats=repeats, threads=1)
    speed[size] = {name: taken["dense"].times_slower_than(taken[name]) for name in SCORES}
    for block in open_blocks:
        block.__exit__(None, None, None)
lines = [
    f"| times faster, {promised:.2f}× fewer MACs | "
    + " | ".join(f"batch {size}" for size in speed)
    + " |"
]
lines += ["|---" * (1 + len(speed)) + "|"]
for name in SCORES:
    what = {"random": "random: no score at all", "received": "received: the matrix again"}.get(
        name, "the row of [CLS]"
    )
    lines.append(f"| {what} | " + " | ".join(f"{speed[size][name]:.2f}" for size in speed) + " |")
display(
    Markdown(
        "4 layers of width 256, 128 tokens, one thread, processor time, fast attention kernel:\n\n"
        + "\n".join(lines)
    )
)

# %% [markdown]
# For one text much of the time is that of calling kernels, of which fewer rows save
# nothing. Where the machine is busy with MACs, the clock comes near the count. The
# distance from *random* is the price of the score, where it is larger than the noise.
# Kim et al.: 1.9× on a CPU for up to 2.1× fewer FLOPs.
#
# **Give the batch size, or say nothing about speed.**

# %% [markdown] slideshow={"slide_type": "notes"}
# Ratios of this run, on this machine; another run differs in the second digit. Weights
# are random here: time does not depend on them. Texts of one length; in practice a
# batch keeps as many rows as its longest text.

# %% slideshow={"slide_type": "slide"}
display(Markdown("## On real sentences"))
folds = real["seeds"]
sst_dense = [fold["dense"]["accuracy"] for fold in folds]
lost, cheap = {"random": {}, "[CLS] row": {}, "received": {}}, {}
for name in real["settings"]["schedules"]:
    runs = [fold["schedules"][name] for fold in folds]
    values = {
        "random": [float(np.mean([draw["accuracy"] for draw in run["random"]])) for run in runs],
        "[CLS] row": [run["cls"]["accuracy"] for run in runs],
        "received": [run["received"]["accuracy"] for run in runs],
    }
    ratio = np.mean(
        [fold["dense"]["macs"] / run["cls"]["macs"] for fold, run in zip(folds, runs, strict=True)]
    )
    label = f"{name}: {ratio:.2f}×"
    cheap[name] = (ratio, versus(values["received"], values["[CLS] row"]))
    for score, accuracies in values.items():
        lost[score][label] = np.array(sst_dense) - accuracies
mean_lost = {
    score: {label: float(v.mean()) for label, v in by.items()} for score, by in lost.items()
}
halves = {
    score: {label: plots.interval(v) for label, v in by.items()} for score, by in lost.items()
}
bounds = {
    score: {label: (float(m - h), float(m + h)) for label, (m, h) in by.items()}
    for score, by in halves.items()
}
fig = plots.bars(
    mean_lost,
    errors=bounds,
    ylabel="",
    title=f"Points lost on SST-2, dense {pm(sst_dense)} %; nothing trained afterwards",
    fmt="{:.1f}",
)
fig.axes[0].set_xlabel("two schedules: MACs, times fewer")
plots.show(
    fig,
    alt="Points lost on SST-2, mean of three fine-tunings: "
    + "; ".join(
        f"{score} " + ", ".join(f"{value:.1f}" for value in by.values())
        for score, by in mean_lost.items()
    )
    + ".",
    inches=(5.2, 4.05),
)
sink = np.mean([fold["sink"] for fold in folds], 0)
ours = np.mean([lab10.favourite(model, batches[1:3]) for model in models], 0)
display(
    Markdown(
        f"Steep, received against the row of [CLS]: **{cheap['steep'][1]}**. Why? In this model"
        " [CLS] gives its favourite token "
        + ", ".join(percent(value) for value in sink)
        + " of its attention, layer by layer: a **sink** (Clark et al. 2019). The others are ranked"
        " by what is left."
    )
)

# %% slideshow={"slide_type": "notes"}
display(
    Markdown(
        f"The favourite's share in ours, on reviews: {', '.join(percent(value) for value in ours)}."
        f" MiniLM: 6 layers of 12 heads, width 384, fine-tuned on {real['settings']['sentences']:,}"
        f" sentences, {len(folds)} times; random is the mean of {real['settings']['draws']} draws."
        " Heads with nothing to say park their attention on one token, often [SEP] or a full stop."
        " A score that was as good on small models must not be taken over unseen."
    )
)

# %% slideshow={"slide_type": "slide"}
display(Markdown("## Elsewhere: patches"))
digits = images.load("digits")
pictures, labels = digits.test.images, digits.test.labels
kept_patches = (8, 4)
results = {}


def with_patches(model, patches, score, draw=0):
    """Accuracy in %, when so many of 16 patches go on from layer 1 to layer 2."""
    luck = torch.Generator().manual_seed(draw)
    with (
        dropping(model, {0: 1 + patches}, score=score, where="layer", generator=luck),
        torch.inference_mode(),
    ):
        return 100 * (model(pixel_values=pictures).logits.argmax(1) == labels).float().mean().item()


lines = [
    "| accuracy (%) | stay | attention | random | difference |",
    "|---" * 5 + "|",
]
all_there = {}
for kind, name in {
    "trained with gaps": "digits-vit-dropout-p2",
    "trained plainly": "digits-vit-p2",
}.items():
    vits = [checkpoints.load(f"{name}-{seed}").model for seed in SEEDS]
    all_there[kind] = pm([with_patches(model, 16, "random") for model in vits])
    for patches in kept_patches:
        chosen = [with_patches(model, patches, "received") for model in vits]
        luck = [
            np.mean([with_patches(model, patches, "random", draw) for draw in range(3)])
            for model in vits
        ]
        results[kind, patches] = np.array(chosen), np.array(luck)
        lines.append(
            f"| {kind} | {patches} | {pm(chosen)} | {pm(luck)} |"
            f" {versus(chosen, luck, cell=True)} |"
        )
display(
    Markdown(
        "A vision transformer reads an 8×8 digit as 16 patches; some go after layer 1. All 16: "
        + ", ".join(f"{kind} {value} %" for kind, value in all_there.items())
        + ".\n\n"
        + "\n".join(lines)
    )
)
better = sum(plots.interval(a - b)[0] > plots.interval(a - b)[1] for a, b in results.values())
plainly = "*Here a random drop costs no more than an informed one.* " if not better else ""
display(
    Markdown(
        f"In **{better} of {len(results)}** comparisons attention is shown to be better than a"
        f" draw. {plainly}Patches of a small digit say much the same: where nothing is lost,"
        " nothing can be gained by choosing."
    )
)

# %% [markdown] slideshow={"slide_type": "notes"}
# With gaps: patches were left out at random while it was trained.
#
# Liang et al. (2022) find on photographs that the row of [CLS] follows the object, and
# that choosing pays. The control decides, not a picture of the three best examples. The
# lab asks how much of the ink is in the patches that stay.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## What to take along
#
# - A layer costs $12\,BLE^2 + 2\,BL^2E$; a token that leaves saves both terms, in **all
#   layers behind**.
# - A row of attention sums to 1 and says nothing. Score by what is **received**, over
#   real queries; or by the row of [CLS], if there is no sink.
# - **Drop rows**, do not mask them. The same decision padded or not. [CLS] stays.
# - Where dropping is free differs from model to model. Choose layer and share on
#   validation data; compare at **equal cost**.
# - Learned soft, used hard: train on with it as it will be used.
# - Controls: random, first, last; random *with* fine-tuning; **dense, trained on just
#   as long**; the clock.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Lab 10, and where to read on
#
# *Lab 10*: a score, rows that leave, two policies, a threshold that learns, a cascade;
# reviews, patches, real sentences.
#
# - Goyal et al. (2020). PoWER-BERT: accelerating BERT inference via progressive
#   word-vector elimination. *ICML*.
# - Kim et al. (2022). Learned token pruning for transformers. *KDD*.
# - Wang, Zhang & Han (2021). SpAtten: efficient sparse attention architecture with
#   cascade token and head pruning. *HPCA*.
# - Liang et al. (2022). Not all patches are what you need. *ICLR*.
# - Clark, Khandelwal, Levy & Manning (2019). What does BERT look at? *BlackboxNLP*.
# - Bolya et al. (2023). Token merging: your ViT but faster. *ICLR*.
