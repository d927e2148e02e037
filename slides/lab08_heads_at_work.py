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
import datasets
import torch
from transformers.utils import logging

from course_lib import experiments
from course_lib.data import translation_grammar
from course_lib.experiments import lab08
from course_lib.pruning.heads import fixed_patterns
from course_lib.show import drawings, plots, tables
from course_lib.show.words import minus, pm, say

datasets.disable_progress_bars()
logging.disable_progress_bar()
torch.set_num_threads(1)
LAYERS, HEADS = lab08.LAYERS, lab08.HEADS
kinds, gates, closing, roles = (
    experiments.read(f"lab08_heads/{name}") for name in ("kinds", "gates", "closing", "roles")
)
best = lab08.best_heads(roles)
full = closing.query("method == 'dense'")["bleu"]
SEEDS = len(full)


# %% [markdown] slideshow={"slide_type": "slide"}
# # Which heads do the work, and what is their work?
#
# Neural-network pruning · lecture to lab 08
#
# *Lab 07 removed heads and measured the loss. What do the remaining heads do? And are the heads
# that we can name the ones that stay?*

# %% slideshow={"slide_type": "notes"}
say(
    f"Gates and roles: {SEEDS} small Marian transformers ({LAYERS} encoder"
    f" layers of {HEADS} heads, one decoder layer) that translate a generated English into simple"
    f" German; BLEU of validation sentences {pm(full)}. Disabling, fixed patterns and kinds of"
    " attention: the first three of them. Scores come from one half of the validation"
    " sentences, curves from the other. `course remake lab08_heads` makes the stored results"
    " again. What the lab asks students to predict is left open here, and marked."
)

# %% [markdown] slideshow={"slide_type": "slide"}
# ## From how many to which, and why
#
# | | lab 07 | today |
# |---|---|---|
# | heads are chosen by | a score, after training | training, by gates that close |
# | question | what is lost? | what do the remaining heads *do*? |
# | task | reviews, one answer each | translation: every word counts |
#
# Voita et al. (2019), *the rest can be pruned*: of 48 encoder heads **10 are kept at
# −0.15 BLEU** (WMT, English–Russian), 4 at −0.25 (subtitles). Positional, syntactic and
# rare-word heads close last.

# %% [markdown] slideshow={"slide_type": "notes"}
# BLEU: agreement of word sequences (one to four words) with a reference, 0 to 100. The
# two figures of Voita et al. are from two corpora, so they are not one curve. Their models
# have six encoder layers of eight heads.

# %% slideshow={"slide_type": "slide"}
word, examples = lab08.ambiguous_example()
count = len(translation_grammar.WORDS["ambiguous"].splitlines())
say("## A language in which the answers are known")
tables.show(tables.plain(examples))
say(
    f"{count} nouns such as *{word}* have two translations; the **rarest** noun of the sentence says"
    " which. Articles agree with a later noun, the verb with a distant subject.\n\nIn English"
    " nobody knows for sure what a word needs. Here it is known for *every* word."
)

# %% [markdown] slideshow={"slide_type": "notes"}
# For each word the grammar knows on which word it depends, and how rare it is. Multi30k comes at
# the end.

# %% slideshow={"slide_type": "slide"}
say("## Draw, stretch, cut")
plots.show(drawings.stretched_and_cut(1.0), inches=(8, 2.2))

# %% [markdown]
# $$s = \sigma\!\left(\frac{\ln u - \ln(1-u) + \log\alpha}{\beta}\right),\quad g = s\,(\zeta-\gamma)+\gamma \text{ cut to } [0, 1]$$
#
# As in lab 06: $u$ uniform, $\beta = \tfrac23$, $\gamma = -0.1$, $\zeta = 1.1$; in the picture
# $\log\alpha = 1$. The price is on $P(g \ne 0)$, which has a gradient.

# %% [markdown] slideshow={"slide_type": "notes"}
# All bars show the same draws. Orange: values beyond 0 and 1, which the cut moves to 0 and
# 1. The order matters: cutting before stretching would never give a 0. After training
# there is no noise and no β: the gate is σ(log α), stretched and cut.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Training with a price
#
# ```
# log_alpha = 2, for every encoder head
# for lam in 0.001, 0.002, …, 0.2:
#     for batch in 50 batches:
#         u = fresh noise, for every head
#         loss = L(model, batch, g(log_alpha, u))
#                + lam * sum(P(g != 0))
#         one step, weights and log_alpha
# ```
#
# Start from a **trained** model; the decoder keeps all its heads. At the end there is no
# noise, and heads with a gate of 0 are really removed (lab 07).

# %% slideshow={"slide_type": "slide"}
say("## They do close")
closed = gates.pivot(index="seed", columns="price", values="open")
title = f"How many of {LAYERS * HEADS} encoder heads are open?"
plots.show(plots.grid(closed, fmt="{:.0f}", title=title, ylabel="checkpoint"), inches=(8, 2.3))
between = gates.groupby("price")["between"].agg(lambda counts: ", ".join(map(str, counts)))
off = (gates["open"] - gates["expected"]).abs().mean()
say(
    f"Open at test and expected by the formula differ by {off:.1f} heads on average."
    f"\n\n**Count the gates between 0 and 1**: at the first price {between.iloc[0]}, at the last"
    f" {between.iloc[-1]}. Such a head is only scaled, not removed."
)

# %% slideshow={"slide_type": "slide"}
say("## The first half of the heads")
first_half = closing[(closing["closed"] <= LAYERS * HEADS // 2) & (closing["method"] != "dense")]
look = {"along": "price", "control": None, "ylabel": "BLEU", "title": "Is anything gained so far?"}
xlabel = f"encoder heads closed, of {LAYERS * HEADS}"
plots.show(plots.curves(first_half, x="closed", y="bleu", xlabel=xlabel, **look), inches=(8, 2.5))
last = first_half[first_half["price"] == first_half["price"].max()]
say(
    f"Dense: {pm(full)}. Gates minus the same mask untrained, last point:"
    f" {minus(last, 'bleu', 'gates', 'survivors, untrained')}."
    "\n\n> **Left open.** With three to six heads: BLEU of random heads, trained as long?"
)

# %% [markdown] slideshow={"slide_type": "notes"}
# While most gates are open, their noise costs about as much as training gains. Do not
# show the end of the curve: the lab does, with all baselines.
#
# {{claim 08.1}}
#
# {{claim 08.2}}
#
# {{claim 08.3}}

# %% slideshow={"slide_type": "slide"}
ends = lab08.last_prices(closing).groupby("method")["bleu"].mean()
say(
    "## Which baseline tests what?\n\n| three to six heads left | BLEU | if it is as good, then |\n"
    "|---|---|---|\n"
    f"| gates, trained | {ends['gates']:.1f} | |\n"
    f"| the survivors, untrained | {ends['survivors, untrained']:.1f} | training added nothing |\n"
    f"| the largest $I_h$, untrained | {ends['I_h, untrained']:.1f} | gates are not needed to find them |\n"
    f"| random, untrained | {ends['random, untrained']:.1f} | any heads will do |\n"
    "| **random, same steps** | ? | the choice of heads does not matter |\n"
    "| from scratch, at that size | – | the large model was not needed |\n\n"
    '"Few heads are left, and the translation is nearly right" is a statement about *which* heads'
    " only if the row in bold is worse."
)

# %% [markdown] slideshow={"slide_type": "notes"}
# The last row is Voita et al.'s own baseline (not run here). The row in bold is the random
# subnetwork of lab 09 and the random mask of lab 03. One of the lab's short answers asks what the rows show
# together: leave it open.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## What is a role?
#
# Read a head's role from its **largest** attention (Voita et al. 2019):
#
# $$\text{share} = \frac{\#\{\text{queries } i : \arg\max_j A_{ij} = \text{target}(i)\}}{\#\{\text{queries with a target}\}}$$
#
# - **Positional**: the same neighbour in at least nine of ten cases.
# - **Syntactic**: the word in a given relation, and at least a tenth *more often than
#   the best fixed offset*.
# - **Rare words**: the rarest word of the sentence.
#
# Padding and the end mark are not words: neither queries nor keys.

# %% [markdown] slideshow={"slide_type": "notes"}
# The largest attention is a crude measure: it ignores how much attention that is, and
# what the head passes on from there.

# %% slideshow={"slide_type": "slide"}
aux = 100 * best.query("rule == 'governor → aux'")["share"]
say(
    "## Two minutes: has it learned syntax?\n\n"
    "> In every checkpoint one head's largest attention goes from a verb to its auxiliary, in"
    f" {', '.join(f'{share:.0f}' for share in aux)} % of the cases. Transformers learn syntax.\n\n"
    "**1.** Which number is missing?\n\n"
    "**2.** Which sentences would you write to find out?\n\n"
    "**3.** The head is the best of 18. On which sentences was it chosen?"
)

# %% [markdown] slideshow={"slide_type": "notes"}
# 1: the best fixed offset, one to the left, has 100 %: in this grammar an auxiliary is always right
# before its verb. 2: sentences with an adverb between them (has *never* cleaned). 3: the best of 18
# is a maximum, so it is biased upwards where it was chosen. Here: chosen on every second sentence,
# reported on the others.

# %% slideshow={"slide_type": "slide"}
say("## A role, or an offset?")
LABELS = {
    "governor → aux": "verb to\nauxiliary",
    "governor → plural": "noun to\nplural -s",
    "det → governor": "article\nto noun",
    "governor → case": "noun to\npreposition",
    "governor → mark": "verb to\nconjunction",
}
named = best[best["rule"].isin(LABELS)].assign(rule=lambda table: table["rule"].map(LABELS))
named = named.melt(["seed", "rule"], ["share", "at_offset"], "who", "%")
named["who"] = named["who"].map({"share": "best head", "at_offset": "best fixed offset"})
named["%"] *= 100
title = f"{SEEDS} checkpoints; head chosen on other sentences"
look = {"by": "who", "fmt": "{:.0f}", "ylabel": "found (%)", "ylim": (0, 160)}
plots.show(plots.bars(named, x="rule", y="%", title=title, **look), inches=(8, 3.1))
say("A role is *found* if the head is ten points above the best fixed offset.")

# %% [markdown] slideshow={"slide_type": "notes"}
# Two of these an offset explains completely; two are found in three of five checkpoints; verb to
# conjunction is found in all, and no fixed offset explains it. The offset is not *how* the head works; it is the result of a head without
# any grammar. After a conjunction the German verb moves to the end of its clause.

# %% slideshow={"slide_type": "slide"}
found = lab08.overlap(best)
say(
    "## Two minutes: are specialised heads pruned last?\n\n"
    f"In {SEEDS} checkpoints {found['survivors']} heads survive the gates. A role is *found* if its best"
    " head is ten points above the best fixed offset.\n\n"
    "**1.** How many survivors with a role would convince you? What do you compare with?\n\n"
    "**2.** A checkpoint has 4 heads with a role among 18, and 3 survivors. How many survivors with"
    " a role are expected by chance?\n\n"
    "**3.** The head of one clear role is closed in all checkpoints. What does that show?"
)

# %% slideshow={"slide_type": "notes"}
say(
    f"1 and 2: as many random heads: 3 · 4/18 = 0.67; their number is hypergeometric. Found:"
    f" {found['with a role']:.0f} of {found['survivors']:.0f}, by chance {found['by chance']:.1f} (so"
    f" many or more with probability {found['probability']:.3f}). Show this after the guess. 3: a role"
    " that is found need not be needed, and *pruned last* is a tendency. In the lab the survivors are"
    " marked in the map of roles: verb to conjunction is closed in all checkpoints."
)

# %% slideshow={"slide_type": "slide"}
ablation = experiments.read("lab08_heads/ablation")  # points of token accuracy
costs = -ablation["mean"].clip(upper=0)
few = 6
say(
    "## Two ways to switch a head off\n\n"
    "$$\\text{nothing:}\\quad o_i = 0 \\qquad\\qquad \\text{no opinion:}\\quad o_i ="
    " \\frac1L \\sum_{j=1}^{L} v_j$$\n\n"
    "Pruning does the first, Kovaleva et al. the second: every word gets the *same* attention,"
    " $1/L$, and the head passes on a mean.\n\n"
    f"Here, one of {len(ablation)} heads at a time: {-ablation['zero'].mean():.2f} and"
    f" {-ablation['mean'].mean():.2f} points of token accuracy on average, similar for each head"
    f" ($r = {ablation['zero'].corr(ablation['mean']):.2f}$). {few} heads carry"
    f" **{100 * costs.nlargest(few).sum() / costs.sum():.0f} %** of the loss.\n\n"
    "> **Left open.** They report heads, and a whole layer, whose disabling *helps*"
    " (RTE: up to +3.2 points). Are there any here?"
)

# %% [markdown] slideshow={"slide_type": "notes"}
# L is the number of *real* words; a mean over padding too is the usual slip. +3.2: one
# layer, on one of GLUE's smallest tasks, as reported.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Costs do not add up
#
# With the gates $a$, $b$ of two heads:
#
# $$L(0,0) - L(1,1) = \Delta_a + \Delta_b + M$$
#
# $\Delta_a$, $\Delta_b$: each head closed alone. The *mixed term*
# $M = L(0,0) - L(0,1) - L(1,0) + L(1,1)$ is 0 only if one head's effect does not depend on the
# other.
#
# **Pen and paper:** $y = a\,b$ is to be 1, and $L = 1 - y$. What does each head cost alone, and
# what do both?

# %% [markdown] slideshow={"slide_type": "notes"}
# Alone 1 each, both together 1, so the mixed term is −1: heads that need each other look twice as
# costly. The lab asks for the opposite case, heads that replace each other.

# %% slideshow={"slide_type": "slide"}
say("## Does attention have to be learned?")
SEVEN = ("itself", "previous", "next", "left of it", "right of it", "the end", "the start")
seven = dict(zip(SEVEN, fixed_patterns(10), strict=True))
plots.show(plots.grid(seven, title="Seven patterns, ten words"), inches=(5.2, 4.0))

# %% [markdown]
# Raganato et al. (2020): seven patterns that depend on *positions* alone, for all but
# one head of each encoder layer.
#
# No query, no key.
#
# In the paper, trained from scratch, **BLEU falls little or not at all**.

# %% [markdown] slideshow={"slide_type": "notes"}
# Larger contexts: cubes of the distance from the far end, divided by their sum, so a
# long sentence has the same rule. A row without a key (the first word's previous one) attends to itself: our convention.
# The usual slip is the end of the *batch* instead of the sentence's.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Two minutes: are positions enough?
#
# > "We replaced all but one head of each encoder layer by fixed positional patterns.
# > BLEU is unchanged. So an encoder needs *positions*, and nothing else."
#
# **1.** Two baselines are missing. Which?
#
# **2.** What would you conclude if *equal* attention, $1/L$ everywhere, did as well?
#
# **3.** One head of each layer is still learned. Why does that matter?

# %% [markdown] slideshow={"slide_type": "notes"}
# 1: the same heads with equal attention, and the model without them; all trained as long.
# 2: that positions are not the reason: a mean of the sentence does the same, and a mean
# has no order. (Values and outputs of these heads are still learned.) 3: the learned head
# may do everything that needs content. Our results are left to the lab:
#
# {{claim 08.4}}

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Three kinds of attention
#
# | attention | queries from | keys and values from | heads, by layer |
# |---|---|---|---|
# | encoder | source | source | 6 + 6 + 6 |
# | decoder | target so far | target so far | 6 |
# | encoder–decoder | target so far | encoder's output | 6 |
#
# Michel et al. (2019) prune each kind alone: with heads **between** encoder and decoder
# the score falls fastest; beyond 60 % of them the translation gets much worse.

# %% [markdown] slideshow={"slide_type": "notes"}
# Why one decoder layer? With three, the decoder does the work, and the encoder's heads
# hardly matter. But then the six heads between encoder and decoder are the only way to the
# source: that they matter most is true by construction here. (All but one head removed in the last encoder–decoder layer of their
# model: −13.56 BLEU, lab 07.)

# %% slideshow={"slide_type": "slide"}
say("## Where do heads matter?")
by_kind = kinds[kinds["pruned"] < 1]
HOW = {"x": "pruned", "y": "bleu", "panels": "kind", "xaxis": "sparsity", "ylabel": "BLEU"}
plots.show(plots.curves(by_kind, title="Nothing trained", **HOW), inches=(8, 2.8))
important = by_kind[by_kind["method"] == "I_h"]
at_75 = important[important["pruned"] == 0.75]
encoder = important[important["kind"] == "encoder"]
say(
    "At 75 %, encoder minus encoder–decoder:"
    f" {minus(at_75, 'bleu', 'encoder', 'encoder–decoder', by='kind', unit='BLEU')}. A quarter of the"
    f" encoder's heads costs {minus(encoder, 'bleu', 0.0, 0.25, by='pruned', unit='BLEU')}, *if*"
    " $I_h$ chooses."
)

# %% [markdown] slideshow={"slide_type": "notes"}
# As in the paper, the score falls first between encoder and decoder. Decoder and
# encoder–decoder have six heads each here, so the dotted lines are close to the solid
# ones. The lab asks for the right end, where all heads of a kind are removed.

# %% slideshow={"slide_type": "slide"}
real = experiments.read("lab08_multi30k/kinds").drop(columns="seed").query("pruned < 1")
say("## On real sentences")
plots.show(plots.curves(real, title="Multi30k, one model", **HOW), inches=(8, 2.6))
cells = real[real["pruned"] > 0].pivot(index=["kind", "pruned"], columns="method", values="bleu")
test = experiments.read("lab08_multi30k/test")["test"].item()
say(
    "German into English, the same network 1.5 times as wide, **one** run (an example, no proof)."
    f" The order of the kinds is the same. $I_h$ is ahead of random in"
    f" {(cells['I_h'] > cells['random']).sum()} of {len(cells)} places: few heads, drawn once."
    f" (Whole, on the test sentences of 2016: {test:.1f}.)"
)

# %% [markdown] slideshow={"slide_type": "notes"}
# {{claim 08.5}}
#
# {{claim 08.6}}

# %% [markdown] slideshow={"slide_type": "slide"}
# ## What to take along
#
# - Gates close **while** the model trains. As many random heads with the *same
#   training* are the baseline.
# - A role needs a baseline: what would the best **fixed offset** find?
# - Survivors with a role: compare with as many **random heads**.
# - Costs of single heads do not add up.
# - Fixed attention needs a baseline, too: equal attention, $1/L$.
# - Prune heads between encoder and decoder last.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Lab 08, and where to read on
#
# - Voita, Talbot, Moiseev, Sennrich & Titov (2019). Analyzing multi-head
#   self-attention: specialized heads do the heavy lifting, the rest can be pruned. *ACL*.
# - Louizos, Welling & Kingma (2018). Learning sparse neural networks through L0
#   regularization. *ICLR*.
# - Kovaleva, Romanov, Rogers & Rumshisky (2019). Revealing the dark secrets of BERT.
#   *EMNLP*.
# - Raganato, Scherrer & Tiedemann (2020). Fixed encoder self-attention patterns in
#   transformer-based machine translation. *Findings of EMNLP*.
# - Michel, Levy & Neubig (2019). Are sixteen heads really better than one? *NeurIPS*.
