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
import numpy as np
import pandas as pd
import torch
from transformers.utils import logging

from course_lib import experiments
from course_lib.data import translation, translation_grammar
from course_lib.experiments import lab08
from course_lib.models.attention import find_attention
from course_lib.pruning.components import hard_concrete, open_probability
from course_lib.pruning.heads import (
    arc_baseline,
    attention_pattern,
    fixed_patterns,
    points_to,
    prunable_share,
)
from course_lib.show import drawings, plots, tables
from course_lib.show.words import minus, pm, say, versus

datasets.disable_progress_bars()
logging.disable_progress_bar()
torch.set_num_threads(1)
LAYERS, HEADS = lab08.LAYERS, lab08.HEADS
kinds, gates, closing, roles = (
    experiments.read(f"lab08_heads/{name}") for name in ("kinds", "gates", "closing", "roles")
)
offsets = experiments.read("lab08_heads/offsets").set_index("rule")
full = kinds.query("kind == 'all' and method == 'I_h' and pruned == 0")["bleu"].to_numpy()
SEEDS = len(full)
model = lab08.trained(0, "eager")
batch, targets, words_of = lab08.known_words()  # (B, L) each; which tokens are words
maps = lab08.encoder_maps(model, batch)  # (B, layers · heads, L, L)


def role(name):
    """Of one rule the best head's share in each checkpoint, the fixed offset's, and
    chance; in %.
    """
    best = roles[roles["rule"] == name].groupby("seed")["share"].max()
    return 100 * best, 100 * offsets["at_offset"][name], 100 * offsets["chance"][name]


# %% [markdown] slideshow={"slide_type": "slide"}
# # Can a head have a job?
#
# Neural-network pruning · lecture to lab 08
#
# *Lab 07 removed heads and measured the loss. What do the remaining heads do? And how
# would you know that this is their job, and not a coincidence?*

# %% slideshow={"slide_type": "notes"}
say(
    f"All figures, unless stated otherwise: {SEEDS} small Marian transformers ({LAYERS} encoder"
    f" layers of {HEADS} heads, one decoder layer) that translate a generated English into simple"
    f" German; BLEU of validation sentences {pm(full)}. Scores come from one half of the validation"
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

# %% slideshow={"slide_type": "notes"}
say(
    f"The two shortest validation sentences in which *{word}* is translated in two ways. For each"
    " word we know which word it depends on, by which relation, and how rare it is. Our grammar"
    " generated the sentences, so every claim is about small models of a small language."
    " Multi30k comes at the end."
)

# %% [markdown] slideshow={"slide_type": "slide"}
# ## A switch that can be learned?
#
# $$\min_{\theta,\, g}\; L(\theta, g) + \lambda \sum_h [\,g_h \neq 0\,]$$
#
# The number of open gates is a count, and has no gradient.
#
# | gate | exactly 0? | gradient of the count |
# |---|---|---|
# | a factor, with L1 | hardly ever | of its *size*, not of the count |
# | a sigmoid | never | none |
# | a step, straight through (lab 05) | yes | a stand-in |
# | **hard concrete** | **often** | **exact, of the expected count** |

# %% [markdown] slideshow={"slide_type": "notes"}
# L1 also shrinks open gates, and a subgradient makes no zeros (lab 02). A sigmoid must be
# cut at some threshold afterwards, and the model was not trained with this cut.

# %% slideshow={"slide_type": "slide"}
say("## Draw, stretch, cut")
plots.show(drawings.stretched_and_cut(1.0), inches=(8, 2.2))

# %% [markdown]
# $$s = \sigma\!\left(\frac{\ln u - \ln(1-u) + \log\alpha}{\beta}\right),\quad g = s\,(\zeta-\gamma)+\gamma \text{ cut to } [0, 1]$$
#
# $u$ uniform; $\beta = \tfrac23$, $\gamma = -0.1$, $\zeta = 1.1$ (Louizos, Welling &
# Kingma 2018). In the picture $\log\alpha = 1$.

# %% [markdown] slideshow={"slide_type": "notes"}
# All bars show the same draws. Orange: values beyond 0 and 1, which the cut moves to 0 and
# 1. The order matters: cutting before stretching would never give a 0. After training
# there is no noise and no β: the gate is σ(log α), stretched and cut.

# %% slideshow={"slide_type": "slide"}
u = torch.rand(200_000, generator=torch.Generator().manual_seed(0)).clamp(1e-6, 1 - 1e-6)
rows = []
for value in torch.tensor([-2.0, -1.0, 1.0, 3.0]):
    drawn = hard_concrete(value.expand_as(u), u)
    zero, one = ((drawn == end).double().mean() for end in (0, 1))
    rows.append([value, 100 * zero, 100 * (1 - open_probability(value)), 100 * one])
columns = ["log α", "exactly 0, drawn (%)", "1 − P(g ≠ 0) (%)", "exactly 1, drawn (%)"]
say(
    "## The share of zeros is a formula\n\n"
    "$$P(g \\ne 0) = \\sigma\\!\\left(\\log\\alpha - \\beta \\ln\\frac{-\\gamma}{\\zeta}\\right)$$"
)
tables.show(tables.plain(pd.DataFrame(rows, columns=columns).astype(float)))
say("> **Left open.** At log α = 0, how are the gates distributed? Guess the share of zeros first.")

# %% [markdown] slideshow={"slide_type": "notes"}
# g > 0 where s > −γ/(ζ − γ). Solve for ln u − ln(1 − u), whose distribution function is
# σ: one line on the board. The sum over gates is the expected number of open gates; λ is
# its price.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Two minutes: change the constants
#
# **1.** Let $\beta$ go to 0. What happens to the gate, and to its gradient?
#
# **2.** Use the price $\lambda \sum_h g_h$, the *drawn* gates, instead of
# $\lambda \sum_h P(g_h \neq 0)$. What goes wrong?
#
# **3.** And with $\lambda$ times the *mean* of the $P$?

# %% slideshow={"slide_type": "notes"}
here = torch.full_like(u, 1.0, requires_grad=True)
(slopes,) = torch.autograd.grad(hard_concrete(here, u).sum(), here)
cold = hard_concrete(torch.tensor(1.0).expand_as(u), u, beta=0.05)
say(
    "1: the gate becomes a coin: with β = 0.05 and log α = 1"
    f" {100 * float(((cold == 0) | (cold == 1)).double().mean()):.0f} % of the draws are 0 or 1, and"
    " nearly no draw passes a gradient. A large β: hardly any exact zeros. 2: a drawn gate that was"
    f" cut has no gradient ({100 * float((slopes == 0).double().mean()):.0f} % of the draws at log α"
    " = 1), so the price acts only on gates between 0 and 1; and it depends on size, so gates"
    " shrink instead of closing. 3: nothing goes wrong, but the effect of λ depends on the number"
    " of heads: with 18 heads, it is an eighteenth."
)

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
plots.show(
    plots.grid(
        closed,
        fmt="{:.0f}",
        title=f"How many of {LAYERS * HEADS} encoder heads are open?",
        ylabel="checkpoint",
    ),
    inches=(8, 2.3),
)
between = gates.groupby("price")["between"].agg(lambda counts: ", ".join(map(str, counts)))
off = (gates["open"] - gates["expected"]).abs().mean()
say(
    f"Open at test and expected by the formula differ by {off:.1f} heads on average."
    f"\n\n**Count the gates between 0 and 1**: at the first price {between.iloc[0]}, at the last"
    f" {between.iloc[-1]}. Such a head is only scaled, not removed."
)

# %% slideshow={"slide_type": "slide"}
say("## The first half of the heads")
first_half = closing[closing["closed"] <= LAYERS * HEADS // 2]
plots.show(
    plots.curves(
        first_half,
        x="closed",
        y="bleu",
        control=None,
        along="price",
        title="Is anything gained so far?",
        xlabel=f"encoder heads closed, of {LAYERS * HEADS}",
        ylabel="BLEU",
    ),
    inches=(8, 2.5),
)
last = first_half[first_half["price"] == first_half["price"].max()]
say(
    f"Dense: {pm(full)}. Gates minus the same mask untrained, last point:"
    f" {minus(last, 'bleu', 'gates', 'survivors, untrained')}."
    "\n\n> **Left open.** At *four*: points lost by gates? By random heads, trained as long?"
)

# %% [markdown] slideshow={"slide_type": "notes"}
# While most gates are open, their noise costs about as much as training gains. Do not
# show the end of the curve: the lab does, with all baselines.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Which baseline tests what?
#
# | as many heads | trained? | if it is as good, then |
# |---|---|---|
# | the survivors, on the checkpoint | no | closed heads did nothing before |
# | the largest $I_h$ | no | training is not needed to find them |
# | **random, same steps** | yes | the choice of heads does not matter |
# | from scratch, at that size | yes | the large model was not needed |
#
# "Four heads are left, and the translation is nearly right" is a statement about
# *which* heads only if the third row is worse.

# %% [markdown] slideshow={"slide_type": "notes"}
# The last row is Voita et al.'s own baseline. The third is the random subnetwork of lab
# 09 and the random mask of lab 03. One of the lab's short answers asks what the rows show
# together: leave it open.

# %% slideshow={"slide_type": "slide"}
who = lab08.survivors_and_importance()
say("## Which heads are kept?")
tables.show(
    tables.plain(who[["checkpoint", "left, by layer", "among the most important", "by chance"]])
)
lowest = min(int(n) for text in who["left, by layer"] for n in text.split(", "))
shared = 100 * who["among the most important"] / who["left"]
say(
    f"At the last price. Each layer keeps at least {lowest}, although the loss does not require it"
    " (lab 07: in a layer without heads no information passes between words)."
    f"\n\nOf a hundred kept heads, {versus(shared, 100 * who['by chance'] / who['left'], cell=True, digits=0)}"
    " more are among the largest $I_h$ than at random. Gates and gradients agree in part: a gate is"
    " trained while other gates close."
)

# %% [markdown] slideshow={"slide_type": "notes"}
# I_h is computed once, with all gates open. A gate's gradient is computed with the noise
# of all other gates, in every step: like computing scores again in lab 02.

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
aux, aux_offset, aux_chance = role("aux: from its head")
say(
    "## Two minutes: has it learned syntax?\n\n"
    "> In every checkpoint one head's largest attention goes from a verb to its auxiliary, in"
    f" {', '.join(f'{share:.0f}' for share in aux)} % of the cases (chance {aux_chance:.0f} %)."
    " Transformers learn syntax.\n\n"
    "**1.** Which number is missing?\n\n"
    "**2.** Which sentences would you write to find out?\n\n"
    "**3.** The head was the best of 18, found on these very sentences. Does that matter?"
)

# %% slideshow={"slide_type": "notes"}
say(
    f"1: the best fixed offset, one to the left, has {aux_offset:.0f} %: in this grammar an auxiliary"
    " is always right before its verb. Looking one back needs no syntax. 2: sentences with an"
    " adverb between them (has *never* cleaned); or count only arcs of other lengths. 3: the best"
    " of 18 is a maximum, so it is biased upwards; this is negligible with shares near 100 % and"
    " hundreds of cases, but not for a rare relation. Choose on one half, count on the other."
)

# %% slideshow={"slide_type": "slide"}
say("## From a verb to its conjunction")
MARK = "mark: from its head"
first = roles[(roles["seed"] == 0) & (roles["rule"] == MARK)].reset_index()
best = int(first["share"].argmax())
offset, _ = arc_baseline(targets[MARK], words_of)
looks = {}
for b, i in (targets[MARK] >= 0).nonzero().tolist():
    length = int(words_of[b].sum())
    words = translation.tokenizer().convert_ids_to_tokens(batch["input_ids"][b, :length].tolist())
    target = int(targets[MARK][b, i])
    if i + offset >= 0 and len(" ".join(words)) <= 67:  # letters that fit into a line
        looks.setdefault(target - i, (words, maps[b, best, i, :length], i, target))
chosen = [distance for distance in sorted(looks, reverse=True) if distance <= -3][:3]
for words, attention, i, target in map(looks.get, chosen):
    found = int(attention.argmax())
    said = [*words]
    said[i], said[target] = f"**{words[i]}**", f"<u>{words[target]}</u>"
    say(
        f"{' '.join(said)}  \nlooks at *{words[found]}* ({100 * float(attention[found]):.0f} %);"
        f" offset {offset:+d}: *{words[i + offset]}*".replace("-", "−")
    )

# %% [markdown]
# Bold: the query, a verb. Underlined: the target.

# %% slideshow={"slide_type": "notes"}
shares, by_offset, chance = role(MARK)
say(
    f"Checkpoint 0, layer {best // HEADS + 1}, head {best % HEADS + 1}; the first validation sentences at"
    f" distances {', '.join(str(-distance) for distance in chosen)} that fit into a line,"
    f" so not chosen for being right. Over all sentences: head {shares[0]:.0f} % (other checkpoints"
    f" {', '.join(f'{share:.0f}' for share in shares[1:])}), offset {by_offset:.0f} %, chance"
    f" {chance:.0f} %. Why would a head do it? After a conjunction the German verb moves to the end"
    " of its clause."
)

# %% slideshow={"slide_type": "slide"}
say("## A role, or an offset?")
RULES = {
    "aux: from its head": "verb to\nauxiliary",
    "plural: from its head": "noun to\nplural -s",
    "det: to its head": "article\nto noun",
    "case: from its head": "noun to\npreposition",
    MARK: "verb to\nconjunction",
}
found = pd.DataFrame(
    {"seed": seed, "rule": label, "who": who, "found": share}
    for name, label in RULES.items()
    for seed in range(SEEDS)
    for who, share in (("best head", role(name)[0][seed]), ("best fixed offset", role(name)[1]))
)
chances = [role(name)[2] for name in RULES]
title = f"Three checkpoints; by chance {min(chances):.0f} to {max(chances):.0f} %"
plots.show(
    plots.bars(
        found,
        x="rule",
        y="found",
        by="who",
        fmt="{:.0f}",
        title=title,
        ylabel="found (%)",
        ylim=(0, 210),
    ),
    inches=(8, 3.1),
)
say(
    "> **Left open.** The previous word, the subject of a verb, the rarest noun: which role is found"
    " most clearly?"
)

# %% [markdown] slideshow={"slide_type": "notes"}
# From left to right: two that an offset explains completely; two in which head and offset
# are close; one that no fixed offset explains. The offset is not *how* the head works; it
# is the result of a head without any grammar.

# %% slideshow={"slide_type": "slide"}
NOUN = "det: to its head"
rows = []
for seed in range(SEEDS):
    of_noun = roles[(roles["seed"] == seed) & (roles["rule"] == NOUN)]["share"].to_numpy()
    one = lab08.encoder_maps(lab08.trained(seed, "eager"), batch)[:, [of_noun.argmax()]]
    counted = ((targets[NOUN] >= 0) & words_of).any(1).nonzero()[:, 0].tolist()
    of_each = [points_to(one[[b]], targets[NOUN][[b]], words_of[[b]]).item() for b in counted]
    everything = batch["attention_mask"] > 0  # the end mark counts as a key, too
    ways = points_to(one, targets[NOUN], words_of), points_to(one, targets[NOUN], everything)
    rows.append([f"checkpoint {seed}", *(100 * float(w) for w in ways), 100 * np.mean(of_each)])
columns = ["article to noun", "all queries together (%)", "the end mark, too", "mean of sentences"]
counts = pd.DataFrame(rows, columns=columns)
apart = (counts["mean of sentences"] - counts["all queries together (%)"]).abs().max()
say("## How to count")
tables.show(tables.plain(counts))
say(
    f"The same maps of the best head, up to **{apart:.0f} points** apart: in a mean of means a"
    " sentence with one article weighs as much as one with five.\n\nThe end mark as a key makes no"
    " difference *here*. Voita et al. leave it out, with reason: in many models attention rests"
    " there when a head has nothing to do."
)

# %% [markdown] slideshow={"slide_type": "notes"}
# State the rule of counting with every number for a role. The lab's bug hunt begins with
# the mean of means.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## What maps look like
#
# Kovaleva et al. (2019) sort BERT's maps into five classes:

# %% slideshow={"slide_type": "-"}
length = 12
special = torch.zeros(length, dtype=torch.bool)
special[[0, 6, 11]] = True  # [CLS], [SEP], [SEP]
segment = torch.tensor([0] * 7 + [1] * 5)
place = torch.arange(length)
on_marks = (special / special.sum()).expand(length, -1)
beside = ((place[:, None] - place).abs() == 1).float() * ~special + 1e-3
beside = beside / beside.sum(1, keepdim=True)
own = (segment[:, None] == segment).float() / (segment[:, None] == segment).sum(1, keepdim=True)
ideal = [on_marks, beside, 0.5 * on_marks + 0.5 * beside, own]
classes = {attention_pattern(attn, special, segment): attn for attn in ideal}
plots.show(plots.grid(classes, title="A query per row, a key per column"), inches=(8, 2.4))

# %% [markdown]
# … and *heterogeneous*, all others. Our rule: the attention on marks, $V$, and on
# neighbours, $D$, with a threshold of ½. (Theirs: a classifier, trained on maps labelled by hand.)

# %% slideshow={"slide_type": "slide"}
say("## And here?\n\nHeads of three checkpoints each, by the class of most of their maps:")
tables.show(tables.plain(lab08.count_patterns(experiments.read("lab08_heads/patterns"))))
say(
    "**This part of the paper does not carry over.** BERT-base puts much of its attention on [SEP];"
    " our small models, trained on a small language, do not."
)

# %% [markdown] slideshow={"slide_type": "notes"}
# A negative result with a reservation: other thresholds give other counts. We do not know
# how a classifier trained on BERT's maps would sort ours.

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

# %% slideshow={"slide_type": "slide"}
say("## Which layers does fine-tuning change?")
change = experiments.read("lab08_heads/change")
plots.show(
    plots.curves(
        change.assign(layer=change["layer"] + 1, model="BERTs"),
        x="layer",
        y="change",
        by="model",
        control=None,
        title="Maps, before and after",
        ylabel="1 − cosine",
    ),
    inches=(5.4, 4.05),
)
say(
    "Fine-tuned from sentiment to another label.\n\nThe later the layer, the more its maps change:"
    f" last − first **{minus(change, 'change', 3, 0, by='layer', unit='', digits=2)}**.\n\nKovaleva"
    " et al.: BERT's last two layers change most. The last layers adapt to the task."
)

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
# In the paper, trained from scratch, **BLEU is kept**.

# %% [markdown] slideshow={"slide_type": "notes"}
# Larger contexts: cubes of the distance from the far end, divided by their sum, so a
# long sentence has the same rule. A row without a key (the first word's previous one) attends to itself: our convention.
# The usual slip is the end of the *batch* instead of the sentence's.

# %% slideshow={"slide_type": "slide"}
at_once = experiments.read("lab08_heads/fixed").query("when == 'at once'")
say("## At once")
tables.show(tables.means(at_once, {"bleu": "BLEU, five of six heads of each layer replaced"}))
say(
    "Nothing trained. Fixed patterns against no heads at all:"
    f" {minus(at_once, 'bleu', 'fixed patterns', 'removed', unit='BLEU')}. A head"
    " with a wrong output may be worse than one without output.\n\n> **Left open.** 300"
    " steps of fine-tuning for all four: in which order do they end?"
)

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
# may do everything that needs content. Our results are left to the lab.

# %% slideshow={"slide_type": "slide"}
say("## Three kinds of attention")
ends = {
    "encoder": ("source", "source"),
    "decoder": ("target so far", "target so far"),
    "cross": ("target so far", "encoder's output"),
}
heads = {kind: [a.heads for a in find_attention(model) if a.kind == kind] for kind in ends}
rows = [[kind, *of, " + ".join(map(str, heads[kind]))] for kind, of in ends.items()]
tables.show(
    tables.Table(["attention", "queries from", "keys and values from", "heads, by layer"], rows)
)

# %% [markdown]
# Michel et al. (2019) prune each kind alone: with heads **between** encoder and decoder
# the score falls fastest; beyond 60 % of them the translation gets much worse.

# %% [markdown] slideshow={"slide_type": "notes"}
# Why one decoder layer? With three, the decoder does the work, and the encoder's heads
# hardly matter. (All but one head removed in the last encoder–decoder layer of their
# model: −13.56 BLEU, lab 07.)

# %% slideshow={"slide_type": "slide"}
say("## Where do heads matter?")
by_kind = kinds[(kinds["kind"] != "all") & (kinds["pruned"] < 1)]
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
# {{claim 08.1}}
#
# {{claim 08.2}}

# %% slideshow={"slide_type": "slide"}
curve = [(0.0, 40.0), (0.2, 38.0), (0.4, 35.0), (0.6, 37.0)]
say(
    "## From when on is a head important?\n\n"
    "Michel et al., by each epoch's own $I_h$: early BLEU falls in proportion to the heads"
    " pruned; from epoch ten, 40 % can be pruned at 85 to 90 % of BLEU.\n\n"
    "*Prunable share*: the largest share up to which **every** score is at least nine tenths."
)
tables.show(
    tables.plain(
        pd.DataFrame([["BLEU", *(b for _, b in curve)]], columns=["pruned (%)", 0, 20, 40, 60])
    )
)
say(
    f"Here {100 * prunable_share(curve):.0f} %: the first fall counts, not the last point above the"
    " line.\n\n> **Left open.** Our models at steps 300 to 3,000: as in the paper, or not?"
)

# %% slideshow={"slide_type": "notes"}
early = experiments.read("lab08_heads/over_training").query("step == 300 and pruned == 0")["bleu"]
say(
    "The table is made up. Warn the students: nine tenths is a *relative* measure. Our"
    f" checkpoints have {early.mean():.0f} BLEU at step 300, so a tenth is {early.mean() / 10:.1f}"
    f" points there and {np.mean(full) / 10:.1f} at the end: it favours bad models."
)

# %% [markdown] slideshow={"slide_type": "slide"}
# ## What to take along
#
# - Draw, stretch, cut: a gate that is **exactly** 0 and has a gradient. Its price is
#   the expected *count*.
# - Gates close **while** the model trains. As many random heads with the *same
#   training* are the baseline.
# - A role needs a baseline: what would the best **fixed offset** find?
# - Count over words, all queries together; leave out marks and padding.
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
