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
import numpy as np
import pandas as pd
import torch

from course_lib import experiments
from course_lib.cost import latency, token_macs
from course_lib.data.review_grammar import CONTRAST, NEGATOR, POLAR
from course_lib.experiments import lab10
from course_lib.models.bert import small_bert
from course_lib.pruning.tokens import (
    SoftThreshold,
    attention_received,
    dropping,
    progressive_shares,
    threshold_policy,
)
from course_lib.show import drawings, plots, tables
from course_lib.show.words import minus, pm, say

SEEDS, TEXTS = (0, 1, 2), 260
patients = lab10.load(SEEDS, TEXTS)
models, tokenizer, config = list(patients.models.values()), patients.tokenizer, patients.config
texts, batches, lengths = patients.texts["validation"], patients.validation, patients.lengths
LAYERS = config.num_hidden_layers
dense = pd.DataFrame({"seed": SEEDS, "method": "dense", "accuracy": patients.dense.values()})
trained = lab10.measured()
SCORES = {"received": "received", "[CLS] row": "cls", "random": "random"}
DEPTH, L, E = 12, 128, 768  # BERT-base and a text, where a slide counts
KEEP = 0.4  # the share that stays, where one is wanted


def measured(keep, score="received", **about):
    """Accuracy on validation reviews while tokens are dropped: a row per checkpoint."""
    return [
        {**about, "seed": seed}
        | {"accuracy": lab10.measure(model, batches, keep, score=score, seed=seed)["accuracy"]}
        for seed, model in patients.models.items()
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
# can be dropped before, after which layer, by which rule, and what is saved?*

# %% slideshow={"slide_type": "notes"}
say(
    f"All figures, unless stated otherwise: three small BERTs ({LAYERS} layers of"
    f" {config.num_attention_heads} heads, width {config.hidden_size}) on generated reviews,"
    f" {TEXTS} of validation; dense {pm(dense.accuracy)} %. Fine-tuning and SST-2 are stored results."
)

# %% slideshow={"slide_type": "slide"}
say("## A text is dropped, layer by layer")
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
    drawings.tokens_leaving(
        named, stages[2], title=f"Read from [CLS]: positive, {percent(sure[2], 1)}",
        marked=[i for i, value in enumerate(example["piece_evidence"]) if value],
    )
)  # fmt: skip

# %% [markdown] slideshow={"slide_type": "notes"}
# The model computed these rows, by the attention that tokens receive. (Such pictures, 15
# words, then 11, 4, 2, are often drawn by hand.)

# %% slideshow={"slide_type": "slide"}
say(
    f"## The same rule in three models\n\nA review, one of our models, **{fewer:.1f}× fewer"
    f" products**. With all words it says positive with {percent(whole[2], 1)}. The same text"
    f" and the same rule in our two other models: {percent(sure[0], 1)} and"
    f" **{percent(sure[1])}**. The latter has "
    + " ".join(f"`{named[i]}`" for i in stages[1][2])
    + " left after layer 3."
)

# %% [markdown] slideshow={"slide_type": "notes"}
# Same text, same rule, another training seed: another choice and a wrong answer.
# Therefore everything below has three models.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Static or dynamic?
#
# | pruned | lab | decided | cost at run time |
# |---|---|---|---|
# | weights, filters, heads | most | once for all: **static** | nothing |
# | single activations | 05 | by input: **dynamic** | a score, a comparison, an address *per number* |
# | channels, skipped | 05 | dynamic | a score per map; all weights are kept |
# | **tokens** | **10** | **dynamic** | **a score per row; a shorter dense tensor** |

# %% slideshow={"slide_type": "slide"}
say(
    f"## What deciding costs\n\nDecisions in a layer of {L} tokens of width {E}: **{L * E:,}**"
    f" for single activations, **{L}** for tokens, and none for what was decided before.\n\nA"
    " dynamic rule can drop from *this* text what only this text does not need. But the network"
    " keeps its size in memory, and every text pays for the scores."
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
say(
    f"Is it really dynamic, or are the same places kept in every text? Model 0, {KEEP:.0%} kept"
    f" after layer 2, {len(stays)} texts of 30 pieces or more: places 2 to 30 are kept in"
    f" {percent(shares.min())} to {percent(shares.max())} of the texts, none always. Pruning of"
    " single activations is rare because their zeros differ for every input, sorting costs"
    " time, and the zeros must be encoded at run time."
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
# A layer: $12\,BLE^2 + 2\,BL^2E$. Only the two lines in the middle pass information
# between tokens.

# %% [markdown] slideshow={"slide_type": "notes"}
# A common mistake is to scale by the square root of the whole width: it is that of a
# head's width, √(E/H). Projections and feed-forward block treat rows one by one, so a
# dropped row changes nothing for the others there. Therefore dropping works at all.

# %% slideshow={"slide_type": "slide"}
say("## What does a shorter text cost?")
share = np.arange(13, 129) / 128
by_length = pd.DataFrame(
    [
        {
            "length": f"L = {n:,}",
            "share": 100 * s,
            "fewer": token_macs([n], E) / token_macs([round(n * s)], E),
        }
        for n in (128, 2048, 32768)
        for s in share
    ]
)
fig = plots.curves(
    by_length,
    x="share",
    y="fewer",
    by="length",
    xlabel="tokens kept (%)",
    ylabel="MACs of a layer, times fewer",
    log=True,
    control=None,
    title=f"Short: in proportion. Long: squared (E = {E})",
)
fig.axes[0].set_yticks([1, 2, 5, 10, 20, 50], ["1", "2", "5", "10", "20", "50"])
plots.show(fig, inches=(5.2, 4.05))

# %% [markdown]
# A share $p$ is kept. Saved:
#
# $$12\,BLE^2\,(1 - p) \\ {}+ 2\,BL^2E\,(1 - p^2)$$
#
# The second term has the larger gain, but is the larger term only where $L > 6E$.

# %% slideshow={"slide_type": "slide"}
say("## A dropped token saves only in later layers")


def once(d, p):
    """Times fewer MACs of BERT-base with one drop after the attention of layer d."""
    few = round(p * L)
    return token_macs([L] * DEPTH, E) / token_macs(
        [L] * d + [few] * (DEPTH - d), E, ffn_lengths=[L] * (d - 1) + [few] * (DEPTH - d + 1)
    )


one_drop = pd.DataFrame(
    [
        {"stay": f"{percent(p)} kept", "layer": d, "fewer": once(d, p)}
        for p in (0.5, 0.25, 0.1)
        for d in range(1, DEPTH + 1)
    ]
)
fig = plots.curves(
    one_drop,
    x="layer",
    y="fewer",
    by="stay",
    xlabel="dropped after attention of layer",
    ylabel="MACs of the encoder, times fewer",
    control=None,
    title=f"BERT-base, {DEPTH} layers, L = {L}, one drop",
)
plots.show(fig, inches=(5, 4.05))

# %% [markdown]
# The drop comes **between attention and feed-forward block**: scores are known, and two
# thirds of the layer still follow. After the last attention all but [CLS] can be
# dropped: only its row is read, so this is exact.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Two minutes: early or late?
#
# BERT-base, 12 layers, texts of 128 tokens. Halve the products of the encoder with
# **one** drop.
#
# **1.** Which share can you keep if you drop after the attention of layer 1, of layer 4,
# of layer 6? From which layer on is it impossible?
#
# **2.** What must have happened in the model before a word can be dropped? Which of the
# layers would you try first?

# %% slideshow={"slide_type": "notes"}
may_stay = {d: 1 - solve(lambda cut, d=d: once(d, max(1 - cut, 1 / L)), 2.0) for d in (1, 4, 6)}
latest = max(d for d in range(1, DEPTH + 1) if once(d, 1 / L) >= 2)
say(
    "1: "
    + ", ".join(f"layer {d}: {percent(p)}" for d, p in may_stay.items())
    + f"; with only [CLS] left, layer {latest} is the last. 2: its information must have moved"
    " into rows that are kept. An early drop can keep many tokens, but chooses without"
    " knowledge; a late drop chooses well, but must keep few."
)

# %% slideshow={"slide_type": "slide"}
say("## A score that is the same for all tokens")
short = find("i would not call the story impressive")
short_ids = torch.tensor([short["input_ids"]])
short_named = tokenizer.convert_ids_to_tokens(short["input_ids"])
eager = patients.eager[0]
with torch.inference_mode():
    attn = eager(short_ids, output_attentions=True).attentions[1]  # (1, H, L, L)
n = attn.shape[-1]
average = attn[0].mean(0) * n  # (L, L), over heads; 1 = average
rows = [*(f"{word} {i}" for i, word in enumerate(short_named, 1)), "", "mean"]
rows = pd.Index(rows, name="query")
table = torch.full((n + 2, n + 2), torch.nan)
table[:n, :n] = average
table[:n, n + 1], table[n + 1, :n] = average.mean(1), average.mean(0)
fig = plots.grid(
    pd.DataFrame(table.numpy(), rows, pd.Index([*range(1, n + 1), "", "mean"], name="key")),
    title="Attention in layer 2, mean over heads (1 = average)",
)
rows_, columns_ = average.mean(1), average.mean(0)
plots.show(fig)

# %% [markdown] slideshow={"slide_type": "notes"}
# The weights times n, so that 1 is average.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Is this a score?
#
# $$s(x_i) = \frac{1}{H}\,\frac1n \sum_h \sum_j A^{(h)}(x_i, x_j) \;\overset{?}{=}\; \frac1n$$
#
# For all: **each row of the softmax sums to 1.** (In the figure: the column on the
# right, 1.0 everywhere.) The last row, the means of the *columns*, differs between
# tokens.

# %% [markdown] slideshow={"slide_type": "notes"}
# The formula is often printed like this, with x_i in the first place. Read as written, x_i
# is the query, and the sum runs along its own row. This score is the right-hand column of
# the figure: 1.0 everywhere. The intended score is the last row.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## The attention a token *receives*
#
# $$s_i = \frac{1}{H}\,\frac{1}{n} \sum_{h}\ \sum_{j\ \text{real}} A^{(h)}_{j,i} \qquad\qquad s_i^{\text{[CLS]}} = \frac{1}{H}\sum_h A^{(h)}_{\text{[CLS]},\,i}$$
#
# The mean of a **column**, over heads and over all *real* queries. Or one query only:
# the row of [CLS], from which the answer will be read.

# %%
rows = []
for name, needs, formula, cost in (
    ("[CLS] row", "one query", "$LE$", lambda n: n * E),
    ("received", "the whole matrix again", "$L^2E$", lambda n: n * n * E),
):
    shares = {f"L = {n:,}": percent(cost(n) / token_macs([n], E), 2) for n in (128, 2048)}
    rows.append({"score": name, "needs": needs, "products": formula, **shares})
tables.plain(pd.DataFrame(rows))

# %% [markdown]
# Scores of a text sum to 1, so the average token has $1/n$. On $n \cdot s$ it has 1,
# whatever the length.

# %% [markdown] slideshow={"slide_type": "notes"}
# Percentages are of the layer's own products. Fast attention kernels never store the
# matrix, so "received" must compute QKᵀ again, or run with slow attention. Real tokens:
# padding has queries, too, and they must not count; see below.

# %% slideshow={"slide_type": "slide"}
say("## Better than which baseline?")
controls = SCORES | {
    "first tokens": lambda rows, places, real: -places.float(),
    "last tokens": lambda rows, places, real: places.float(),
}
one_layer = pd.DataFrame(
    [
        row
        for name, score in controls.items()
        for layer in range(3)
        for row in measured({layer: KEEP}, score, method=name, where=f"after layer {layer + 1}")
    ]
)
say(
    f"Three models, {pm(dense.accuracy)} % with all tokens, not trained afterwards; {percent(KEEP)} kept."
)
table = tables.means(one_layer, "accuracy", columns="where")
pair = one_layer[one_layer.method.isin(["received", "random"])]
(lead,) = tables.compare(pair, "accuracy", columns="where").rows
table.rows.append(["received − random", *lead[1:]])
tables.show(table)

# %% [markdown]
# *First*, *last*: **static**. Bold: distinguishable. After layer 3 much information has
# moved, and even a random draw loses less.

# %% [markdown] slideshow={"slide_type": "notes"}
# After layer 1 attention depends little on the deciding words. Random is drawn again for
# every text. Where texts begin with the main point, *first* may be hard to beat; here the
# deciding sentence can be anywhere. So run these baselines on your own data. After layer 3,
# dropping 60 % at random is far better than chance: the information has moved already.

# %% slideshow={"slide_type": "slide"}
say("## A mask is not a drop")
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
faster = {name: times["dense"].times_slower_than(taken) for name, taken in times.items()}
say("Half of 128 tokens, 8 texts, 4 layers of width 256, one thread, processor time:")
rows = [
    ("all tokens", token_macs([128] * 4, 256) / 1e6, 1.0),
    ("half of them **masked** ($-\\infty$)", token_macs([128] * 4, 256) / 1e6, faster["mask"]),
    ("half of the **rows dropped**", token_macs([64] * 4, 256) / 1e6, faster["drop"]),
]
columns = ["method", "products (million)", "times faster"]
tables.show(
    tables.plain(pd.DataFrame(rows, columns=columns), {"products (million)": 0, "times faster": 2})
)
say(
    "For the kept tokens both give the same result: the largest difference after a layer is"
    f" {1e6 * gap:.1f}\u00a0·\u00a010⁻⁶. A mask is useful to *try* a rule, but it saves"
    " nothing."
)

# %% [markdown]
# The rows' entries in the mask are dropped, too, and their places are stored. Positions
# are *not* computed again: they were added before layer 1 and are part of the row.

# %% slideshow={"slide_type": "slide"}
say("## Padding must not count")


def everybody_votes(attn, real):
    """Attention received with the mistake: queries of padding count like any other."""
    column = attn.mean((1, 2)) * real
    return column / column.sum(1, keepdim=True)


some = [row["input_ids"] for row in texts if len(row["input_ids"]) <= 48][:30]
rules = {"padding counts": everybody_votes, "real queries only": attention_received}
rows = []
with torch.inference_mode():
    for ids_ in some:
        m = len(ids_)
        k = -(-2 * m // 5)
        alone = eager(torch.tensor([ids_]), output_attentions=True).attentions[1]
        everything = torch.ones(1, m, dtype=torch.bool)
        for columns in (48, 64, 80, 96, 128):
            present = torch.arange(columns)[None] < m
            padded = torch.zeros(1, columns, dtype=torch.int64)
            padded[0, :m] = torch.tensor(ids_)
            weights = eager(
                padded, attention_mask=present.long(), output_attentions=True
            ).attentions[1]
            for name, rule in rules.items():
                kept = [
                    set(scores.topk(k).indices.tolist())
                    for scores in (rule(alone, everything)[0], rule(weights, present)[0, :m])
                ]
                rows.append(
                    {"rule": name, "columns": columns, "changed": 100 * (kept[0] != kept[1])}
                )
changed = pd.DataFrame(rows).groupby(["rule", "columns"], as_index=False).changed.mean()
fig = plots.curves(
    changed,
    x="columns",
    y="changed",
    by="rule",
    xlabel="padded to so many columns",
    ylabel="texts that keep other tokens (%)",
    control=None,
    title=f"The same {len(some)} texts, alone and padded; 40 % kept after layer 2",
)
plots.show(fig, inches=(5.2, 4.05))

# %% [markdown]
# Queries of padding are computed like any other. If they count, the kept tokens depend
# on the other texts of the batch. **The same decision, padded or not**: $n$ is the
# *real* length, and [CLS] is always kept.

# %% [markdown] slideshow={"slide_type": "notes"}
# Why protect [CLS]? The classifier reads its row. Other tokens need not attend to it: in
# the figure of the attention weights its column is below average, so the score alone would
# drop the answer.

# %% slideshow={"slide_type": "slide"}
say("## One drop, or a cascade?")


def two_times(plan):
    """A plan with its parameter set so that the encoder needs half of the MACs."""
    return plan(1 - solve(lambda cut: lab10.ratio(config, lengths, plan(1 - cut)), 2.0))


plans = {
    "once, after layer 1": two_times(lambda p: {0: p}),
    "once, after layer 2": two_times(lambda p: {1: p}),
    "layers 2 and 3": two_times(lambda p: {1: p, 2: p / 2}),
    "all along": two_times(lambda p: progressive_shares(LAYERS, p)),
}
found = pd.DataFrame([row for name, plan in plans.items() for row in measured(plan, method=name)])
rows = []
for name, plan in plans.items():
    left = [100 * min([plan[i] for i in plan if i <= at], default=1.0) for at in range(3)]
    accuracy = found[found.method == name].accuracy
    by_model = {f"model {seed}": value for seed, value in zip(SEEDS, accuracy, strict=True)}
    stay = ", ".join(f"{value:.0f}" for value in left)
    rows.append({"method": name, "kept (%)": stay, **by_model, "accuracy (%)": pm(accuracy)})
say("Half of the products:")
tables.show(tables.plain(pd.DataFrame(rows)))
say(
    "Layers 2 and 3 against one drop after layer 2:"
    f" {minus(found, 'accuracy', 'layers 2 and 3', 'once, after layer 2')}; against all along:"
    f" {minus(found, 'accuracy', 'layers 2 and 3', 'all along')}."
)

# %% [markdown]
# Find the numbers and layers for each model, on **validation** data.

# %% slideshow={"slide_type": "notes"}
say(
    f"A drop after layer 3 alone saves at most {lab10.ratio(config, lengths, {2: 1e-6}):.2f}×."
    " Dropped tokens are missing in all later layers, so shares only fall."
)

# %% [markdown] slideshow={"slide_type": "notes"}
# PoWER-BERT learns a number of tokens for each layer. The "same factor" schedule of the
# last line is l ↦ n · f^(l/(N−1)) with N layers. All rows cost the same; otherwise two policies cannot
# be compared.

# %% slideshow={"slide_type": "slide"}
say("## A fixed share, or a threshold?")
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
spread = pd.concat(
    pd.DataFrame({"layer": name, "texts": rank, "stay": values})
    for name, values in [
        *((f"layer {at + 1}", 100 * np.percentile(kept, rank)) for at, kept in kept_share.items()),
        ("fixed share", 40.0),
    ]
)
fig = plots.curves(
    spread,
    x="texts",
    y="stay",
    by="layer",
    xlabel="texts (%), sorted by tokens kept",
    ylabel="tokens kept (%)",
    ylim=(0, 80),
    control=None,
    title="θ = 1: average score or better is kept",
)
plots.show(fig, inches=(5, 4.05))

# %% [markdown]
# $$\text{keep } i \iff n\,s_i \ge \theta_l$$
#
# A share is the same for every text: memory and time can be planned. A threshold keeps
# more of texts whose attention is spread out. Compare it with $n\cdot s$: on $s$ alone
# it would be a rule about **lengths** (lab 10 asks which way).

# %% slideshow={"slide_type": "slide"}
say("## A threshold that learns")
fig = plots.curves(
    lab10.gates(SoftThreshold),
    x="n·s",
    y="goes on",
    xlabel="n · score",
    ylabel="gate",
    control=None,
    title="θ = 1: a step has no slope to learn from",
)
plots.show(fig, inches=(4.9, 4.05))

# %% [markdown]
# $$m_i = \sigma\!\left(\frac{n s_i - \theta_l}{T}\right)$$
#
# $$\mathcal L + \lambda \cdot \text{mean}(m)$$
#
# Kim et al. (2022): first **soft**: a token with $m_i = 0.2$ counts 0.2 times among the
# keys, weights and thresholds learn together. Then **hard**: thresholds are fixed, rows
# are dropped, and the weights learn on.

# %% [markdown] slideshow={"slide_type": "notes"}
# The price per token pushes θ up, the error made without it pushes θ down. The gradient of
# a step is 0 nearly everywhere. Kim et al. compare θ with s itself; for texts of one length
# that is the same.

# %% slideshow={"slide_type": "slide"}
say("## Train soft, use hard")
learned = trained[trained.training == "thresholds"]
used = learned[learned.part == "test"]
names = ["soft to the end, as trained", "soft to the end", "hard phase"]
tables.show(
    tables.plain(
        learned.pivot(index="checkpoint", columns="method", values="test")[names].reset_index()
    )
)
say("Accuracy (%); as trained: with soft gates. MACs, times fewer:")
tables.plain(used.pivot(index="checkpoint", columns="method", values="fewer").reset_index(), 2)

# %% [markdown]
# Without a hard phase, accuracy and cost vary widely between checkpoints.

# %% [markdown] slideshow={"slide_type": "notes"}
# A model that has only seen tokens that are 30 % there has learned to read them. "As
# trained" is on validation reviews with soft gates; "used hard" on test. With one λ the
# models end at different costs, so compare accuracies only together with products.

# %% slideshow={"slide_type": "slide"}
say("## What the thresholds have learned")
theta = lab10.thresholds()
final = theta[theta.step == theta.step.max()].groupby("layer").theta.mean()
say(
    f"Hard phase against none: {minus(used, 'test', 'hard phase', 'soft to the end')}, and not"
    " at equal cost.\n\nThresholds learned, layers 1 to 3, mean: "
    + ", ".join(f"{value:.2f}" for value in final)
    + ". Layer 1 keeps nearly everything."
)

# %% [markdown]
# Kim et al.: **up to 2.1× fewer FLOPs at less than 1 % of accuracy**, with $\lambda$
# chosen for each budget.

# %% slideshow={"slide_type": "slide"}
say("## Accuracy against products")
finals = (0.6, 0.4, 0.25, 0.15)
on_budget = pd.DataFrame(
    [
        row | {"fewer": lab10.ratio(config, lengths, progressive_shares(LAYERS, final))}
        for name, score in SCORES.items()
        for final in finals
        for row in measured(progressive_shares(LAYERS, final), score, method=name)
    ]
)
fig = plots.curves(
    pd.concat([dense, on_budget]),
    x="fewer",
    y="accuracy",
    ylabel="accuracy (%)",
    title="Three models; nothing trained afterwards",
)
plots.show(fig, inches=(4.9, 4.05))
third = sorted(set(on_budget.fewer))[2]
here = on_budget[on_budget.fewer == third]
gone = dense.accuracy.mean() - here[here.method == "received"].accuracy.mean()
say(
    f"At {third:.1f}×: received against random {minus(here, 'accuracy', 'received', 'random')};"
    f" against the row of [CLS] {minus(here, 'accuracy', 'received', '[CLS] row')}. No difference"
    f" to the cheap score is seen *here*. Received loses {gone:.0f} points."
)

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Two minutes: without any loss?
#
# > "Our method needs half of the products. After fine-tuning with tokens dropped it
# > reaches 97.9 %, the model that we started from had 97.9 %. Tokens can be removed
# > without any loss."
#
# **1.** Which two other models would you have fine-tuned for just as long?
#
# **2.** On which data was the schedule chosen, and which number can then not be
# trusted?

# %% [markdown] slideshow={"slide_type": "notes"}
# 1: the dense one (more training may help by itself), and one with random tokens
# dropped on the same schedule (any model adapts to holes). 2: validation; the best of a
# grid is a little lucky on the data it was chosen on. See the next slide.

# %% slideshow={"slide_type": "slide"}
say("## Fine-tuned with holes in the text")
arms = trained[trained.training != "thresholds"]
names = {
    "dense, as it came": "as it came",
    "dense, fine-tuned": "trained on",
    "informed, fine-tuned": "[CLS] row",
    "random, fine-tuned": "random",
}
errors = arms[arms.arm.isin(names)]
errors = errors.assign(
    error=100 - errors.test,
    model="model " + errors.seed.astype(str),
    arm=errors.arm.map(names),
)
saved = arms[arms.arm == "informed, fine-tuned"].fewer
steps = experiments.settings("lab10_reviews")["fine-tuned"]["steps"]
fig = plots.bars(
    errors.drop(columns="seed"),
    x="model",
    y="error",
    by="arm",
    ylabel="errors (%)",
    title=f"As it came; trained on with all tokens; trained on with {min(saved):.2f}× fewer products",
    fmt="{:.1f}",
)
plots.show(fig, inches=(8, 4.05))

# %% slideshow={"slide_type": "slide"}
against = {
    name: minus(arms, "test", "informed, fine-tuned", name, by="arm")
    for name in ("dense, as it came", "dense, fine-tuned", "random, fine-tuned")
}
say(
    "## The goal, and the other half\n\nThe goal: **≥ 2× fewer products for < 1 point**."
    f" {lab10.goal(trained)} Against the model as it came {against['dense, as it came']}.\n\nThe"
    " other half: dense, trained on for as long, improves, too. Against *that*:"
    f" **{against['dense, fine-tuned']}**. Against random holes: {against['random, fine-tuned']}."
)

# %% slideshow={"slide_type": "notes"}
schedules = experiments.read("lab10_reviews/schedules")
schedules = schedules.pivot(index="seed", columns="layer", values="share").reindex(columns=range(3))
untrained = arms[arms.arm == "informed, as it came"].test
say(
    f"Before any training the same schedules had {pm(untrained)} %. Both sentences are true: less"
    " than a point of what you had is lost, and a point or two of what you could have had. A"
    " paper that reports the first should report the second. The schedules: "
    + "; ".join(
        ", ".join(f"{100 * share:.0f}" for share in plan) + " %"
        for plan in schedules.fillna(1).to_numpy()
    )
    + " after layers 1, 2, 3."
)

# %% slideshow={"slide_type": "slide"}
say("## Which words are kept?")
marks = torch.tensor(tokenizer.convert_tokens_to_ids([".", ","]))
kinds = ("polar word", "negator", "contrast", "[SEP]", ". and ,", "the rest")
rows = []
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
        rows += [
            {"seed": seed, "where": f"after layer {at + 1}", "kind": kind, "stay": 100 * share}
            for kind, share in zip(kinds, counts[:, 0] / counts[:, 1], strict=True)
        ]
survival = pd.DataFrame(rows)
fig = plots.bars(
    survival,
    x="kind",
    y="stay",
    by="where",
    ylabel="kept (%)",
    title="Kept by attention received, three models",
    fmt="{:.0f}",
)
fig.axes[0].axhline(100 * KEEP, color=plots.COLOURS["random"], linestyle="--", linewidth=1.4)
fig.axes[0].set_ylim(0, 122)
plots.show(fig, inches=(8, 4.05))

# %% slideshow={"slide_type": "slide"}
late = survival[
    (survival["where"] == "after layer 3") & (survival.kind == "polar word")
].stay.mean()
right = one_layer[
    (one_layer["where"] == "after layer 3") & (one_layer.method == "received")
].accuracy
say(
    "## Must they be kept?\n\nThe score keeps the deciding words mostly more often than chance"
    f" (dashed), but not always. Must it? After layer 3, {100 - late:.0f}\u00a0% of the polar words"
    f" are dropped, and {pm(right)} % of the answers right: their information has **moved** into"
    " other rows before."
)

# %% [markdown] slideshow={"slide_type": "notes"}
# We know which words decide, since a grammar generated the reviews: the polar word of the
# deciding clause, its negator, the contrast word. For real texts this is unknown. A kept
# word need not be used, either.

# %% slideshow={"slide_type": "slide"}
say("## Tokens and heads together")
rows = []
for name, part, heads in (("heads", 1.0, 0.5), ("tokens", 0.5, 1.0), ("both", 0.5, 0.5)):
    fewer = {
        f"L = {n:,}": token_macs([n] * DEPTH, E)
        / token_macs([round(part * n)] * DEPTH, E, attention_width=round(heads * E))
        for n in (128, 2048)
    }
    rows.append({"half of them dropped, BERT-base, MACs × fewer": name, **fewer})
say(
    "SpAtten (Wang et al. 2021) drops both while the model runs, in a **cascade** of summed"
    " scores:\n\n$$S_i^{(l)} = S_i^{(l-1)} + s_i^{(l)} \\qquad H_h^{(l)} = H_h^{(l-1)} +"
    " \\textstyle\\sum |\\text{output of head } h|$$"
)
tables.show(tables.plain(pd.DataFrame(rows), 2))

# %% [markdown]
# Token 7 is the same word in every layer; head 3 of one layer and of the next share only
# a number. SpAtten cascades both, so that its hardware can skip them early: **DRAM
# access ÷ 10**.

# %% [markdown] slideshow={"slide_type": "notes"}
# Shuffle a layer's heads, and the network computes the same. The factor for DRAM access is
# their own figure, for hardware of their own design.
#
# Lab 07 removes heads for all texts. Heads chosen for each text can be gated, which shows
# the accuracy; ordinary kernels do not skip them. The table drops half from layer 1 on:
# an upper bound.

# %% slideshow={"slide_type": "slide"}
say("## Is it faster?")
plan = progressive_shares(4, 0.2)
promised = lab10.ratio(net.config, torch.tensor([128]), plan)
ways = {f"SDPA, {name}": ("SDPA", score) for name, score in SCORES.items()}
speed = lab10.clock(plan, {1: 15, 4: 7, 16: 4}, ways)
speed = speed[speed.way.isin(ways)]
say(
    "4 layers of width 256, 128 tokens, one thread, processor time, fast attention kernel. Times"
    f" faster, {promised:.2f}× fewer MACs:"
)
wide = speed.pivot(index="way", columns="batch", values="faster")
tables.show(tables.plain(wide[["batch 1", "batch 4", "batch 16"]].loc[list(ways)].reset_index(), 2))

# %% [markdown]
# For one text much of the time is kernel overhead, which fewer rows do not reduce. For
# large batches the speed-up comes close to the count. The difference from *random* is
# the cost of the score, where it is larger than the noise. Kim et al.: 1.9× on a CPU for
# up to 2.1× fewer FLOPs.
#
# **State the batch size with every speed-up.**

# %% [markdown] slideshow={"slide_type": "notes"}
# Ratios of this run, on this machine; another run differs in the second digit. Weights
# are random here: time does not depend on them. Texts of one length; in practice a
# batch keeps as many rows as its longest text.

# %% slideshow={"slide_type": "slide"}
say("## On real sentences")
lost = lab10.points_lost("lab10_sst2")
scores = experiments.read("lab10_sst2/scores")
fig = plots.bars(
    lost,
    x="schedule",
    y="lost",
    by="method",
    xlabel="two schedules: MACs, times fewer",
    ylabel=" ",  # the title says it, and its line is needed for the key
    title=f"Points lost on SST-2, dense {pm(scores[scores.method == 'dense'].accuracy)} %; not trained",
    fmt="{:.1f}",
)
plots.show(fig, inches=(5.2, 4.05))
sink = experiments.read("lab10_sst2/sink").groupby("layer").share.mean()
ours = np.mean([lab10.favourite(model, batches[1:3]) for model in models], 0)
steep = lost[lost.schedule.str.startswith("steep")]
say(
    "Steep, received against the row of [CLS]:"
    f" **{minus(steep, 'accuracy', 'received', '[CLS] row')}**. Why? In this model [CLS] gives its"
    f" favourite token {', '.join(percent(value) for value in sink)} of its attention, layer by"
    " layer: a **sink** (Xiao et al. 2023). The others are ranked by what is left."
)

# %% slideshow={"slide_type": "notes"}
real = experiments.settings("lab10_sst2")
say(
    f"The favourite's share in ours, on reviews: {', '.join(percent(value) for value in ours)}."
    f" MiniLM: 6 layers of 12 heads, width 384, fine-tuned on {real['sentences']:,}"
    f" sentences, three times; random is the mean of {real['draws']} draws."
    " Clark et al. (2019) saw it in BERT, often at [SEP] or a full stop."
    " Test a score on each model: good on small models does not mean good here."
)

# %% [markdown] slideshow={"slide_type": "notes"}
# {{claim 10.1}}
#
# {{claim 10.2}}

# %% slideshow={"slide_type": "slide"}
say("## Elsewhere: patches")
patches = lab10.on_patches(lab10.vision_transformers(SEEDS))
whole = patches[patches.method == "dense"].groupby("setting").test
say(
    "A vision transformer reads an 8×8 digit as 16 patches; some go after layer 1. All 16: "
    + ", ".join(f"{setting.split(',')[0]} {pm(test)} %" for setting, test in whole)
    + "."
)
some = patches[patches.method != "dense"].assign(
    setting=lambda t: t.setting.str.replace(" of 16", "")
)
tables.show(tables.means(some, "test", columns="setting"))
tables.show(tables.compare(some, "test", columns="setting"))
say(
    "Patches of a small digit repeat each other: where a random draw loses nothing, choosing can"
    " gain nothing."
)

# %% [markdown] slideshow={"slide_type": "notes"}
# With gaps: patches were left out at random while it was trained.
#
# Liang et al. (2022) find on photographs that the row of [CLS] follows the object, and
# that choosing pays. Trust the baseline, not a picture of the three best examples. The lab
# asks how much of the ink is in the kept patches.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## What to take along
#
# - A layer costs $12\,BLE^2 + 2\,BL^2E$; a dropped token saves both terms, in **all
#   later layers**.
# - A row of attention sums to 1 for every token. Score by attention **received**, over
#   real queries; or by the row of [CLS], if there is no sink.
# - **Drop rows**, do not mask them. The same decision padded or not. Keep [CLS].
# - Where dropping is free differs from model to model. Choose layer and share on
#   validation data; compare at **equal cost**.
# - Learned soft, used hard: train on with the gates as they will be used.
# - Baselines: random, first, last; random *with* fine-tuning; **dense, trained on for as
#   long**. And measure the time.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Lab 10, and where to read on
#
# - Goyal et al. (2020). PoWER-BERT: accelerating BERT inference via progressive
#   word-vector elimination. *ICML*.
# - Kim et al. (2022). Learned token pruning for transformers. *KDD*.
# - Wang, Zhang & Han (2021). SpAtten: efficient sparse attention architecture with
#   cascade token and head pruning. *HPCA*.
# - Liang et al. (2022). Not all patches are what you need. *ICLR*.
# - Clark et al. (2019). What does BERT look at? *BlackboxNLP*. Xiao et al. (2023).
#   Efficient streaming language models with attention sinks. *ICLR 2024*.
# - Bolya et al. (2023). Token merging: your ViT but faster. *ICLR*.
