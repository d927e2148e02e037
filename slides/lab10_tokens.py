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

from course_lib import experiments
from course_lib.cost import token_macs
from course_lib.experiments import lab10
from course_lib.show import plots, tables
from course_lib.show.words import minus, pm, say

equal = {
    name: experiments.read(f"lab10_equal_cost/{name}")
    for name in ("drops", "policies", "cascade", "sink")
}
trained = experiments.read("lab10_reviews/measured").query("part == 'test'")
bars = lab10.trained_bars()
dense = equal["cascade"].query("method == 'dense'").accuracy
DEPTH, L, E = 12, 128, 768  # BERT-base and a text, where a slide counts


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
    "All figures, unless stated otherwise: three small BERTs (4 layers of 8 heads, width 128) on"
    f" generated reviews; dense {pm(dense)} % of 1,000 test reviews. All results are stored; `course"
    " remake lab10_equal_cost` and `lab10_reviews` make them again. What the lab asks students to"
    " predict is left open here, and marked."
)

# %% slideshow={"slide_type": "slide"}
say("## A text is dropped, layer by layer")
plots.show(lab10.sketch(), inches=(8, 2.9))

# %% [markdown]
# Chosen by hand. How can a *model* choose? Only [CLS] must remain to the end.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Static or dynamic?
#
# | pruned | lab | decided | cost at run time |
# |---|---|---|---|
# | weights, filters, heads | most | once for all: **static** | nothing |
# | single activations | 05 | by input: **dynamic** | a score, a comparison, an address *per number* |
# | channels, skipped | 05 | dynamic | a score per map; all weights are kept |
# | **tokens** | **10** | **dynamic** | **a score per row; a shorter dense tensor** |

# %% [markdown]
# A dynamic rule drops what only *this* text does not need. The network keeps its size, and every
# text pays for the scores.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Self-attention, in shapes
#
# $B$ texts of $L$ tokens, width $E$. Heads change none of these sums (lab 07):
#
# | | shapes |
# |---|---|
# | $Q, K, V$, output | $(B, L, E) \times (E, E)$, four times |
# | scores $QK^\top/\sqrt D$ | $(B, L, E) \times (B, E, L) \to (B, L, L)$ |
# | softmax, times $V$ | $(B, L, L) \times (B, L, E) \to (B, L, E)$ |
# | feed-forward | each row by itself, $E \to 4E \to E$ |
#
# Only the two lines in the middle pass information between tokens.
#
# > **Left open.** How many products is this? You count them in exercise 10.6.

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
plots.show(fig, inches=(5.2, 4.0))

# %% [markdown]
# A part of the products falls with $L$, another with $L^2$. For 128 tokens the first part is
# nearly all. Long texts gain more than in proportion.

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
shares = np.arange(L, 0, -1) / L
may_keep = {d: next((p for p in shares if once(d, p) >= 2), None) for d in range(1, DEPTH + 1)}
say(
    "1: "
    + ", ".join(f"layer {d}: {percent(may_keep[d])}" for d in (1, 4, 6))
    + f"; with only [CLS] left, layer {max(d for d, p in may_keep.items() if p)} is the last. 2: its"
    " information must have moved into rows that are kept. An early drop can keep many tokens,"
    " but chooses without knowledge; a late drop chooses well, but must keep few."
)

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Is this a score?
#
# $$s(x_i) = \frac{1}{H}\,\frac1n \sum_h \sum_j A^{(h)}(x_i, x_j) \;\overset{?}{=}\; \frac1n$$
#
# The same for all tokens: **each row of the softmax sums to 1.**
#
# The formula is often printed like this, with $x_i$ in the first place. Read as written, $x_i$
# is the query, and the sum runs along its own row.

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
# matrix, so "received" must compute QKᵀ again, or run with slow attention.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Padding must not count
#
# | | kept tokens of a text |
# |---|---|
# | alone | by its own queries |
# | in a batch, padding queries counted | depend on the **longest text of the batch** |
# | in a batch, real queries only | the same as alone |
#
# Queries of padding are computed like any other, and their rows contain attention to real tokens.
# **The same decision, padded or not**: $n$ is the *real* length, and [CLS] is always kept.
#
# And **a mask is not a drop**: a masked row is still computed. Only rows that leave the tensor save
# products. Positions are not computed again: they were added before layer 1.

# %% [markdown] slideshow={"slide_type": "notes"}
# The lab's bug hunt (10.8) counts how many reviews keep other
# tokens. Why protect [CLS]? The classifier reads its row, but other tokens need not attend to it:
# the score alone would often drop the answer.

# %% slideshow={"slide_type": "slide"}
say("## Where in the depth is dropping free?")
drops = equal["drops"].assign(where=lambda t: "after layer " + (t.layer + 1).astype(str))
shown = drops[drops.method != "polar words"]
fig = plots.curves(
    shown,
    x="share",
    y="accuracy",
    along="share",
    panels="where",
    xlabel="tokens kept",
    xaxis="remaining",
    constant=50,
    title="One drop, not trained: three checkpoints (dots)",
)
plots.show(fig, inches=(8, 3.0))

# %% [markdown]
# *Informed*: attention received. *All evidence*: an oracle keeps the words that decide.

# %% slideshow={"slide_type": "slide"}
tenth = drops.query("layer == 2 and share == 0.1")
half = drops.query("layer == 0 and share == 0.3")
say(
    "## The information moves\n\nAfter layer 1, 30 % kept: informed minus random"
    f" {minus(half, 'accuracy', 'informed', 'random')}.\n\nAfter layer 3, 10 % kept: informed minus"
    f" random {minus(tenth, 'accuracy', 'informed', 'random')}; minus the oracle"
    f" **{minus(tenth, 'accuracy', 'informed', 'all evidence')}**.\n\nLate in the network the deciding"
    " words are needed less: much of their information has **moved** into other rows. (A tenth is"
    " too few for all deciding words in 40 % of the reviews, so this oracle is no upper bound.)\n\n**So choose layer"
    " and share on validation data, for each model.**"
)

# %% [markdown] slideshow={"slide_type": "notes"}
# {{claim 10.6}}

# %% [markdown] slideshow={"slide_type": "slide"}
# ## How many? Two policies
#
# | | tokens in layer $l$ | cost |
# |---|---|---|
# | **schedule** | $n \cdot f^{\,l/(N-1)}$ | the same share for every text: time can be planned |
# | **threshold** | those with $n\,s_i \ge \theta$ | more for texts whose attention is spread out |
#
# PoWER-BERT (Goyal et al. 2020) learns the counts; ours fall by one factor. Kim et al. (2022) use a
# threshold.
#
# Why $n\,s$? The scores of a text sum to 1, so the average is $1/n$. On $s$ alone the threshold
# would be a rule about **lengths**.

# %% slideshow={"slide_type": "slide"}
say("## Which policy, at equal cost?")
policies = equal["policies"]
fig = plots.curves(
    policies[policies.method != "random"],
    x="fewer",
    y="accuracy",
    along="budget",
    control=None,
    ylabel="test accuracy (%)",
    title="Test accuracy by cost, not trained",
)
plots.show(fig, inches=(5.2, 3.6))

# %% [markdown]
# $f$ and $\theta$ are found on validation reviews; then one measurement on test.
#
# > **Left open.** With half of the products: what accuracy has a *random* drop?

# %% [markdown] slideshow={"slide_type": "notes"}
# {{claim 10.5}}
#
# One reason may be that one θ serves all layers, although their scores are spread differently.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## A threshold that learns
#
# A step has no slope to learn from. So for training
#
# $$m_i = \sigma\!\left(\frac{n s_i - \theta_l}{T}\right), \qquad \mathcal L + \lambda \cdot \text{mean}(m)$$
#
# Kim et al. (2022): first **soft**: a token with $m_i = 0.2$ counts 0.2 times among the
# keys; weights and thresholds learn together. Then **hard**: thresholds are fixed, rows
# are dropped, and the weights learn on.

# %% [markdown] slideshow={"slide_type": "notes"}
# The price per token pushes θ up, the error made without it pushes θ down. The gradient of
# a step is 0 nearly everywhere. Kim et al. compare θ with s itself; for texts of one length
# that is the same.

# %% slideshow={"slide_type": "slide"}
say("## Train soft, use hard")
gates = bars[bars.training == "thresholds"]
fig = plots.bars(
    gates,
    x="bar",
    y="accuracy",
    fmt="{:.1f}",
    ylabel=" ",
    constant=50,
    ylim=(0, 112),
    title="Accuracy (%); below: products, times fewer",
)
plots.show(fig, inches=(7, 3.3))

# %% [markdown]
# **A relaxation is a way to train, not a result.**

# %% [markdown] slideshow={"slide_type": "notes"}
# Hard phase minus none: we could not detect a difference (17.7 ± 43.3 points). The first two bars are the same models: soft gates on validation reviews, hard gates on test. With
# one λ the models end at different costs, so compare accuracies only together with products. Kim et
# al.: up to 2.1× fewer FLOPs at less than 1 % of accuracy, with λ chosen for each budget.

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
# dropped on the same schedule (any model adapts to missing tokens). 2: validation; the best of
# a grid is a little lucky on the data it was chosen on. See the next slide.

# %% slideshow={"slide_type": "slide"}
tuned = trained[trained.training == "fine-tuned"]
came = dense.to_numpy()
informed = tuned[tuned.method == "informed"].accuracy.to_numpy()
say(
    "## Trained on with dropped tokens\n\n1,500 steps, half of the products, tokens chosen by the row"
    f" of [CLS]: {pm(informed)} %. The checkpoints as they came: {pm(came)} %. Difference"
    f" {pm(informed - came)}.\n\nThe other half: *dense*, trained for as long, improves by 1.4 ± 1.1"
    f" points. Against that: **{minus(tuned, 'accuracy', 'informed', 'dense')}**.\n\nBoth sentences are true. A paper"
    " that reports the first should report the second.\n\n> **Left open.** And *random* tokens, trained"
    " as long?"
)

# %% [markdown] slideshow={"slide_type": "notes"}
# {{claim 10.3}}

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
# a number. SpAtten cascades both, so that its hardware can skip them early. With
# quantization as well: **DRAM access ÷ 10**.

# %% [markdown] slideshow={"slide_type": "notes"}
# Shuffle a layer's heads, and the network computes the same. The factor for DRAM access is
# their own figure, for hardware of their own design. Heads chosen for each text can be gated, which
# shows the accuracy; ordinary kernels do not skip them. The table drops half from layer 1 on: an
# upper bound.

# %% slideshow={"slide_type": "slide"}
say("## Joint, or tokens alone?")
values = {"accuracy": "test accuracy (%)", "fewer": "MACs, times fewer"}
tables.show(tables.means(equal["cascade"], values))

# %% [markdown]
# Heads alone save little. The decisive rival of the cascade is *tokens, equal products*: as many
# products, and no head dropped. *Random* drops as many tokens and heads.

# %% [markdown] slideshow={"slide_type": "notes"}
# {{claim 10.4}}

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Two minutes: is it faster?
#
# 4 layers of width 256, 128 tokens, one thread; the last layer gets 20 % of the tokens. Half of the
# products and more are saved.
#
# **1.** With which batch size is the speed-up nearer to the count: 1 or 32?
#
# **2.** Which score needs a second $QK^\top$ with a fast attention kernel?
#
# > **Left open.** *How many* times faster? You measure it in lab 10.
#
# Kim et al.: 1.9× on a CPU for up to 2.1× fewer FLOPs. **State the batch size with every speed-up.**

# %% [markdown] slideshow={"slide_type": "notes"}
# 1: 32. For one text much of the time is kernel overhead, which fewer rows do not reduce. 2:
# attention received; the row of [CLS] needs one query only. The reference must be the dense model
# with the same fast kernel.

# %% slideshow={"slide_type": "slide"}
say("## On real sentences")
lost = lab10.points_lost("lab10_sst2")
sst2 = experiments.read("lab10_sst2/scores")
hidden = (lost.method == "[CLS] row") & lost.schedule.str.startswith("steep")
fig = plots.bars(
    lost[~hidden],
    x="schedule",
    y="lost",
    by="method",
    ylabel="points lost",
    title=f"SST-2, dense {pm(sst2[sst2.method == 'dense'].accuracy)} %; not trained",
    fmt="{:.1f}",
)
plots.show(fig, inches=(7, 3.0))

# %% [markdown]
# **Left open**: the row of [CLS] with the steep schedule.

# %% [markdown] slideshow={"slide_type": "notes"}
# MiniLM has 6 layers of 12 heads and width 384, and was fine-tuned on SST-2 three times.
#
# {{claim 10.1}}
#
# {{claim 10.2}}

# %% slideshow={"slide_type": "slide"}
sinks = {
    "MiniLM": experiments.read("lab10_sst2/sink"),
    "our small BERTs": equal["sink"],
}
say("## Attention sinks")
rows = [
    {"largest attention of [CLS]": name}
    | {
        f"layer {layer + 1}": percent(share)
        for layer, share in t.groupby("layer").share.mean().items()
    }
    for name, t in sinks.items()
]
tables.show(tables.plain(pd.DataFrame(rows)))

# %% [markdown]
# In large pre-trained models **one** token often receives most of the attention, although it says
# little: a *sink* (Clark et al. 2019; Xiao et al. 2023). The row of [CLS] then ranks the others by
# tiny remaining weights.
#
# A language model that drops its first tokens breaks. **StreamingLLM** always keeps the keys and
# values of the first tokens.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## What to take along
#
# - A dropped token saves in **all later layers**. **Drop rows**, do not mask them. Keep [CLS].
# - A row of attention sums to 1 for every token. Score by attention **received**, over
#   real queries. The row of [CLS] is cheaper; test it on your model first.
# - Where dropping is free differs from model to model. Choose layer and share on
#   validation data; compare at **equal cost**.
# - Learned soft, used hard: measure with the gates as they will be used.
# - Baselines: random *with* fine-tuning; **dense, trained on for as long**; tokens alone at equal
#   products. And measure the time.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Lab 10, and where to read on
#
# - Goyal et al. (2020). PoWER-BERT: accelerating BERT inference via progressive
#   word-vector elimination. *ICML*.
# - Kim et al. (2022). Learned token pruning for transformers. *KDD*.
# - Wang, Zhang & Han (2021). SpAtten: efficient sparse attention architecture with
#   cascade token and head pruning. *HPCA*.
# - Clark et al. (2019). What does BERT look at? *BlackboxNLP*. Xiao et al. (2023).
#   Efficient streaming language models with attention sinks. *ICLR 2024*.
# - Bolya et al. (2023). Token merging: your ViT but faster. *ICLR*.
