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
from collections import Counter

import datasets
import numpy as np
import torch
from IPython.display import Markdown, display
from transformers.utils import logging

from course_lib import experiments
from course_lib.data import translation, translation_words
from course_lib.experiments import lab08
from course_lib.models.attention import find_attention
from course_lib.pruning.components import hard_concrete, open_probability
from course_lib.pruning.heads import (
    arc_baseline,
    attention_pattern,
    fixed_patterns,
    lowest_heads,
    points_to,
    prunable_share,
)
from course_lib.show import drawings, plots
from course_lib.show.words import ends, pm, versus

datasets.disable_progress_bars()
logging.disable_progress_bar()
plots.use_style()
torch.set_num_threads(1)
stored = experiments.read("lab08_heads")["seeds"]
real = experiments.read("lab08_multi30k")
SEEDS, LAYERS, HEADS = len(stored), lab08.LAYERS, lab08.HEADS
full = [run["kinds"]["all"]["I_h"][0] for run in stored]
pairs = lab08.data()["scores"]
(batch,) = translation.batches(pairs, len(pairs), truth=True)
targets, words_of = lab08.targets(batch)  # (B, L) each; which tokens are words
names = translation.tokenizer()
model = lab08.trained(0, "eager")
maps = lab08.encoder_maps(model, batch).transpose(0, 1)  # (B, layers · heads, L, L)
KINDS = {"encoder": "encoder", "decoder": "decoder", "cross": "encoder–decoder"}


def role(name):
    """Of one rule the best head's share in each checkpoint, the fixed offset's, and
    chance; in %.
    """
    rules = [run["roles"]["rules"][name] for run in stored]
    return (
        [100 * max(rule["shares"]) for rule in rules],
        100 * rules[0]["offset"][1],
        100 * rules[0]["chance"],
    )


# %% [markdown] slideshow={"slide_type": "slide"}
# # Can a head have a job?
#
# Neural-network pruning · lecture to lab 08
#
# *Lab 07 took heads out and counted what was lost. What are those doing that stay? And
# how would you know that it is their job, and not a coincidence?*

# %% slideshow={"slide_type": "notes"}
display(
    Markdown(
        f"All figures, where nothing else is said: {SEEDS} small Marian transformers ({LAYERS}"
        f" encoder layers of {HEADS} heads, one decoder layer) that translate a generated English"
        f" into simple German; BLEU of validation sentences {pm(full)}. Scores by one half of the"
        " validation sentences, curves by the other. The result file is remade by `course remake"
        " lab08_heads`. What the lab asks to be predicted is left open here, and marked."
    )
)

# %% [markdown] slideshow={"slide_type": "slide"}
# ## From how many to which, and why
#
# | | lab 07 | today |
# |---|---|---|
# | who chooses? | a score, afterwards | the training, by gates that close |
# | what is asked? | what is lost | what the others *do* |
# | on what? | reviews, one answer each | translation: every word counts |
#
# Voita et al. (2019), *the rest can be pruned*: of 48 encoder heads **10 are left at
# −0.15 BLEU** (WMT, English–Russian), 4 at −0.25 (subtitles). Positional, syntactic and
# rare-word heads close last.

# %% [markdown] slideshow={"slide_type": "notes"}
# BLEU: agreement of runs of one to four words with a reference, 0 to 100. Two corpora,
# so the two figures of Voita et al. are not one curve. Their models have six encoder
# layers of eight heads.

# %% slideshow={"slide_type": "slide"}
seen: dict[str, tuple[str, dict]] = {}
example = None
for pair in sorted(pairs, key=lambda pair: len(pair["words"])):
    for place, ambiguous in enumerate(pair["ambiguous"]):
        if not ambiguous or sum(pair["ambiguous"]) > 1 or pair["rarest"] == place:
            continue
        word = pair["words"][place]
        if word in seen and not set(seen[word][1]["target"].split()) & {
            noun for noun in pair["target"].split() if noun[0].isupper()
        }:
            example = example or (word, seen[word][1], pair)
        seen.setdefault(word, (word, pair))
word, one, other = example
ambiguous_nouns = sum(bool(line.strip()) for line in translation_words.AMBIGUOUS.splitlines())
rows = ["| source | translation | the rarest noun |", "|---|---|---|"]
for pair in (one, other):
    shown = " ".join(f"**{w}**" if w == word else w for w in pair["words"])
    rows.append(f"| {shown} | {pair['target']} | {pair['words'][pair['rarest']]} |")
display(
    Markdown(
        "## A language whose truth is known\n\n"
        + "\n".join(rows)
        + f"\n\n{ambiguous_nouns} nouns such as *{word}* have two translations; the **rarest** noun of the sentence"
        " says which. Articles agree with nouns some words on, the verb with a far subject.\n\nIn"
        " English nobody knows for sure what a word needs. Here it is known for *every* word."
    )
)

# %% slideshow={"slide_type": "notes"}
display(
    Markdown(
        f"The two shortest validation sentences in which *{word}* is translated in two ways. Known"
        " of each word: which word it depends on, by which relation, and how rare it is. The"
        " sentences are generated by a grammar of ours, and a claim about them is one about small"
        " models of a small language: Multi30k comes at the end."
    )
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
# L1 shrinks what is open, too, and a subgradient makes no zeros (lab 02). A sigmoid has
# to be cut at some threshold afterwards, and nobody has trained with the cut.

# %% slideshow={"slide_type": "slide"}
display(Markdown("## Draw, stretch, cut"))
plots.show(drawings.stretched_and_cut(1.0), inches=(8, 2.2))

# %% [markdown]
# $$s = \sigma\!\left(\frac{\ln u - \ln(1-u) + \log\alpha}{\beta}\right),\quad g = s\,(\zeta-\gamma)+\gamma \text{ cut to } [0, 1]$$
#
# $u$ uniform; $\beta = \tfrac23$, $\gamma = -0.1$, $\zeta = 1.1$ (Louizos, Welling &
# Kingma 2018). In the picture $\log\alpha = 1$.

# %% [markdown] slideshow={"slide_type": "notes"}
# All bars stand for the same draws: orange is what lies beyond 0 and 1, and is gathered
# there by the cut. The order matters: cut before stretching would never give a 0. When
# training is over, noise and β go: the gate is σ(log α), stretched and cut.

# %% slideshow={"slide_type": "slide"}
u = torch.rand(200_000, generator=torch.Generator().manual_seed(0)).clamp(1e-6, 1 - 1e-6)
rows = [
    "| log α | exactly 0, drawn | 1 − P(g ≠ 0) | exactly 1, drawn | at test |",
    "|---" * 5 + "|",
]
for value in (-2.0, -1.0, 1.0, 3.0):
    here = torch.tensor(value)
    drawn = hard_concrete(here.expand_as(u), u)
    rows.append(
        f"| {value:g} | {100 * (drawn == 0).double().mean():.1f} % |"
        f" **{100 * (1 - float(open_probability(here))):.1f} %** |"
        f" {100 * (drawn == 1).double().mean():.1f} % | {float(hard_concrete(here)):.2f} |".replace(
            "-", "−"
        )
    )
display(
    Markdown(
        "## The share of zeros is a formula\n\n"
        "$$P(g \\ne 0) = \\sigma\\!\\left(\\log\\alpha - \\beta \\ln\\frac{-\\gamma}{\\zeta}\\right)$$\n\n"
        + "\n".join(rows)
        + "\n\n> **Left open.** At log α = 0, where does a gate stand? Guess the share of zeros"
        " first."
    )
)

# %% [markdown] slideshow={"slide_type": "notes"}
# g > 0 where s > −γ/(ζ − γ). Solve for ln u − ln(1 − u), whose distribution function is
# σ: one line on the board. The sum over gates is the expected number of open ones, and
# is what λ is paid for.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Two minutes: turn the screws
#
# **1.** Let $\beta$ go to 0. What becomes of the gate, and of its gradient?
#
# **2.** Somebody charges $\lambda \sum_h g_h$, the *drawn* gates, instead of
# $\lambda \sum_h P(g_h \neq 0)$. What goes wrong?
#
# **3.** And $\lambda$ times the *mean* of the $P$?

# %% slideshow={"slide_type": "notes"}
here = torch.full_like(u, 1.0, requires_grad=True)
(slopes,) = torch.autograd.grad(hard_concrete(here, u).sum(), here)
cold = hard_concrete(torch.tensor(1.0).expand_as(u), u, beta=0.05)
display(
    Markdown(
        "1: a coin: with β = 0.05 and log α = 1"
        f" {100 * float(((cold == 0) | (cold == 1)).double().mean()):.0f} % of the draws are 0 or 1,"
        " and nearly no draw passes a gradient. A large β: hardly any exact zeros. 2: a drawn gate"
        f" that was cut has no gradient ({100 * float((slopes == 0).double().mean()):.0f} % of the"
        " draws at log α = 1), so the price pulls only at gates that stand between; and it pays for"
        " size, so that gates shrink instead of closing. 3: nothing goes wrong, but λ means"
        " something else in every model: with 18 heads an eighteenth."
    )
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
# From a model that is **trained already**; the decoder keeps all its heads. At the end
# the noise goes, and heads with a gate of 0 are removed for good (lab 07).

# %% slideshow={"slide_type": "slide"}
display(Markdown("## They do close"))
fig = plots.new_figure(4.05)
ax = fig.subplots()
read = []
for k, run in enumerate(stored):
    steps = run["gates"]["steps"]
    ax.plot(
        [t["lambda"] for t in steps],
        [t["left"] for t in steps],
        marker="os^"[k],
        color=f"C{k}",
        label=f"checkpoint {k}",
    )
    read.append(f"checkpoint {k} " + ", ".join(str(t["left"]) for t in steps))
ax.set_xscale("log")
ax.set(xlabel="price λ", ylim=(0, 19), xticks=[0.001, 0.01, 0.1], xticklabels=[0.001, 0.01, 0.1])
ax.set_title(f"encoder heads open, of {LAYERS * HEADS}")
ax.legend(loc="lower left")
plots.show(
    fig,
    alt="Open heads against the price: " + "; ".join(read) + ".",
    inches=(5.4, 4.05),
)
between = [[t["between"] for t in run["gates"]["steps"]] for run in stored]
gap = [abs(t["left"] - t["expected"]) for run in stored for t in run["gates"]["steps"]]
display(
    Markdown(
        "Open at test and expected by the formula differ by"
        f" {np.mean(gap):.1f} heads on average.\n\n**Count the gates between 0 and 1**: at the first"
        f" price {', '.join(str(row[0]) for row in between)}, at the last"
        f" {', '.join(str(row[-1]) for row in between)}. Such a head is neither removed nor whole."
    )
)

# %% slideshow={"slide_type": "slide"}
display(Markdown("## The first half of the way"))
HALF = LAYERS * HEADS // 2
fig = plots.new_figure(4.05)
ax = fig.subplots()
ARMS = {
    "gated": ("gates, trained", "o", "C0"),
    "untrained": ("their mask, untrained", "s", "C1"),
    "I_h": ("largest $I_h$, untrained", "^", "C2"),
}
halfway = {name: [] for name in ARMS}
for k, run in enumerate(stored):
    steps = [t for t in run["gates"]["steps"] if t["left"] >= HALF]
    for name, (label, marker, colour) in ARMS.items():
        ax.plot(
            [t["left"] for t in steps],
            [t[name] for t in steps],
            marker=marker,
            color=colour,
            ls="",
            alpha=0.8,
            label=label if not k else None,
        )
        halfway[name].append(steps[-1][name])
ax.axhline(np.mean(full), color="0.3", lw=1.6)
ax.invert_xaxis()
ax.set(xlabel=f"encoder heads left, of {LAYERS * HEADS}", ylim=(86, 100))
ax.set_title("BLEU (line: dense)")
ax.legend(loc="lower left")
plots.show(
    fig,
    alt="BLEU against heads left, down to half, three checkpoints. At the last points: "
    + ", ".join(f"{name} {np.mean(values):.1f}" for name, values in halfway.items())
    + ".",
    inches=(5.6, 4.05),
)
display(
    Markdown(
        "Gates with their training, against the same mask untrained, last point:"
        f" {versus(halfway['gated'], halfway['untrained'], cell=True)}. Nothing is shown to be won.\n\n"
        "> **Left open.** At *four*: points lost by gates? By random heads, trained as long?"
    )
)

# %% [markdown] slideshow={"slide_type": "notes"}
# While most gates are open, noise in them costs about what training wins: nothing is
# gained yet. Do not show the end of the curve: the lab does, with all controls.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Which control says what?
#
# | as many heads | trained? | if it is as good, then |
# |---|---|---|
# | the survivors, on the checkpoint | no | closed heads did nothing before |
# | the largest $I_h$ | no | one need not train to find them |
# | **random, same steps** | yes | which ones stay does not matter |
# | from scratch, at that size | yes | the large model was not needed |
#
# "Four heads are left, and the translation is nearly right" is a statement about
# *which* heads only where the third row is worse.

# %% [markdown] slideshow={"slide_type": "notes"}
# The last row is Voita et al.'s own control. The third is lab 09's "are all tickets
# winning?" and lab 03's random mask. One of the lab's short answers asks what the rows
# say together: leave it there.

# %% slideshow={"slide_type": "slide"}
rows = [
    "| checkpoint | left, by layer | of these among the largest $I_h$ | by chance |",
    "|---" * 4 + "|",
]
shared, chances = [], []  # in % of those that stay
for k, run in enumerate(stored):
    keep = torch.tensor(run["gates"]["steps"][-1]["keep"]).bool()
    count = int(keep.sum())
    top = lowest_heads(torch.tensor(run["kinds"]["importance"]["encoder"]), keep.numel() - count)
    shared.append(100 * int((keep & top).sum()) / count)
    chances.append(100 * count / keep.numel())
    rows.append(
        f"| {k} | {', '.join(map(str, keep.sum(1).tolist()))} |"
        f" **{int((keep & top).sum())}** of {count} | {count**2 / keep.numel():.1f} |"
    )
lowest = min(min(torch.tensor(run["gates"]["steps"][-1]["keep"]).sum(1).tolist()) for run in stored)
display(
    Markdown(
        "## Who stays?\n\n"
        + "\n".join(rows)
        + f"\n\nAt the end of the price. Each layer keeps at least {lowest}, and nobody had told the"
        " gates (lab 07: a layer without heads is one in which no word hears of another)."
        f"\n\nOf a hundred that stay, {versus(shared, chances, cell=True, digits=0)} more are among"
        " the largest $I_h$ than by chance. Gates and gradients agree, but not wholly: a gate is asked"
        " while the others close."
    )
)

# %% [markdown] slideshow={"slide_type": "notes"}
# I_h is taken once, with everything open; a gate's gradient comes with the noise of all
# other gates, step after step. That is lab 02's "ask again on the way", by training.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## What would be a job?
#
# Read a head's role off its **largest** attention (Voita et al. 2019):
#
# $$\text{share} = \frac{\#\{\text{queries } i : \arg\max_j A_{ij} = \text{target}(i)\}}{\#\{\text{queries with a target}\}}$$
#
# - **Positional**: the same neighbour in at least nine of ten cases.
# - **Syntactic**: the word that a relation names, and by a tenth *more often than the
#   best fixed offset*.
# - **Rare words**: the rarest word of the sentence.
#
# Padding and the end mark are no words: neither queries nor keys.

# %% [markdown] slideshow={"slide_type": "notes"}
# The largest attention is a crude reading: it does not say how much attention that is,
# nor what the head hands on from there.

# %% slideshow={"slide_type": "slide"}
aux, *_ = role("aux: from its head")
display(
    Markdown(
        "## Two minutes: it has learned syntax\n\n"
        f"> In every checkpoint one head's largest attention goes from a verb to its auxiliary, in"
        f" {', '.join(f'{share:.0f}' for share in aux)} % of the cases (chance"
        f" {role('aux: from its head')[2]:.0f} %). Transformers learn syntax.\n\n"
        "**1.** Which number is missing?\n\n"
        "**2.** Which sentences would you write to find out?\n\n"
        "**3.** The head was the best of 18, found on these very sentences. Does that matter?"
    )
)

# %% slideshow={"slide_type": "notes"}
display(
    Markdown(
        f"1: the best fixed offset, one to the left, has {role('aux: from its head')[1]:.0f} %: in"
        " this grammar an auxiliary stands right before its verb, always. A head that looks one"
        " back knows no syntax. 2: sentences in which an adverb stands between (has *never*"
        " cleaned); or count only arcs of other lengths. 3: the best of 18 is a maximum, so it is"
        " biased upwards; with shares near 100 % and hundreds of cases that is nothing, with a rare"
        " relation it is. Choose on one half, count on the other."
    )
)

# %% slideshow={"slide_type": "slide"}
display(Markdown("## From a verb to its conjunction"))
MARK = "mark: from its head"
best = int(np.argmax(stored[0]["roles"]["rules"][MARK]["shares"]))
offset, _ = arc_baseline(targets[MARK], words_of)
looks = {}
for b, i in (targets[MARK] >= 0).nonzero().tolist():
    length = int(words_of[b].sum())
    words = names.convert_ids_to_tokens(batch["input_ids"][b, :length].tolist())
    target = int(targets[MARK][b, i])
    if i + offset >= 0 and len(" ".join(words)) <= 67:  # letters that fit into a line
        looks.setdefault(target - i, drawings.Look(words, maps[b, best, i, :length], i, target))
chosen = [looks[distance] for distance in sorted(looks, reverse=True) if distance <= -3][:3]
plots.show(drawings.where_it_looks(chosen, offset))

# %% [markdown]
# Arrow: its largest attention. Dashed: the best fixed offset. Thick: the truth.

# %% slideshow={"slide_type": "notes"}
shares, by_offset, chance = role(MARK)
display(
    Markdown(
        f"Checkpoint 0, layer {best // HEADS}, head {best % HEADS}; the first validation sentences"
        f" at distances {', '.join(str(look.query - look.target) for look in chosen)} that fit into"
        " a line, so not chosen for being right. Orange: the verb that asks; a word's shade is the"
        f" attention that it gets. Over all sentences: head {shares[0]:.0f} %"
        f" (other checkpoints {', '.join(f'{share:.0f}' for share in shares[1:])}), offset"
        f" {by_offset:.0f} %, chance {chance:.0f} %. Why would a head do it? Behind a conjunction"
        " the German verb goes to the end of its clause."
    )
)

# %% slideshow={"slide_type": "slide"}
display(Markdown("## A job, or a place?"))
RULES = {
    "aux: from its head": "verb to\nauxiliary",
    "plural: from its head": "noun to\nplural -s",
    "det: to its head": "article\nto noun",
    "case: from its head": "noun to\npreposition",
    MARK: "verb to\nconjunction",
}
found = {label: role(name) for name, label in RULES.items()}
plots.show(
    plots.bars(
        {
            "best head": {label: float(np.mean(head)) for label, (head, _, _) in found.items()},
            "best fixed offset": {label: place for label, (_, place, _) in found.items()},
        },
        errors={"best head": {label: ends(head) for label, (head, _, _) in found.items()}},
        ylabel="found (%)",
        title="Three checkpoints; by chance "
        + f"{min(c for *_, c in found.values()):.0f} to {max(c for *_, c in found.values()):.0f} %",
        fmt="{:.0f}",
    ),
    alt="Bars of how often the target is found. "
    + " ".join(
        f"{label.replace(chr(10), ' ')}: best head {np.mean(head):.0f}, offset {place:.0f}."
        for label, (head, place, _) in found.items()
    ),
    inches=(8, 3.1),
)
display(
    Markdown(
        "> **Left open.** The previous word, the subject of a verb, the rarest noun: which role is"
        " found most clearly?"
    )
)

# %% [markdown] slideshow={"slide_type": "notes"}
# From left to right: two that a place explains wholly; two in which head and place are
# close; one that hardly any fixed offset could do. An offset is not *how* the head does
# it; it is what a head without any grammar would reach.

# %% slideshow={"slide_type": "slide"}
NOUN = "det: to its head"
everything = batch["attention_mask"] > 0  # the end mark counts as a key, too
rows = [
    "| article to noun, best head | all queries together | mean of sentences | the end mark, too |",
    "|---" * 4 + "|",
]
apart = []
for seed in range(SEEDS):
    of_seed = (
        lab08.encoder_maps(lab08.trained(seed, "eager"), batch).transpose(0, 1) if seed else maps
    )
    head = int(np.argmax(stored[seed]["roles"]["rules"][NOUN]["shares"]))
    together = 100 * float(points_to(of_seed, targets[NOUN], words_of)[head])
    with_end = 100 * float(points_to(of_seed, targets[NOUN], everything)[head])
    each = [
        100 * float(points_to(of_seed[b, None], targets[NOUN][b, None], words_of[b, None])[head])
        for b in ((targets[NOUN] >= 0) & words_of).any(1).nonzero()[:, 0].tolist()
    ]
    apart.append(abs(np.mean(each) - together))
    rows.append(
        f"| checkpoint {seed} | **{together:.1f} %** | {np.mean(each):.1f} % | {with_end:.1f} % |"
    )
display(
    Markdown(
        "## How one counts\n\n"
        + "\n".join(rows)
        + f"\n\nThe same maps, up to **{max(apart):.0f} points** apart: in a mean of means a sentence"
        " with one article weighs as much as one with five.\n\nThe end mark as a key makes no"
        " difference *here*. Voita et al. leave it out, with reason: in many models attention rests"
        " there when it has nothing to do."
    )
)

# %% [markdown] slideshow={"slide_type": "notes"}
# A number for a role is worth little without its rule of counting. The lab's bug hunt
# begins with the mean of means.

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
plots.show(drawings.attention_maps(classes))

# %% [markdown]
# … and *heterogeneous*, all others. Our rule: the attention on marks, $V$, and next
# door, $D$; a half decides. (Theirs: a classifier, trained on maps labelled by hand.)

# %% slideshow={"slide_type": "slide"}
counted = {
    "translation": Counter(c for run in stored for c in run["classes"]),
    "sentiment": Counter(c for run in stored for c in run["fine_tuning"]["classes"]),
}
rows = ["| class | translation encoders | sentiment BERTs |", "|---|---|---|"]
rows += [
    f"| {name} | {counted['translation'][name]} | {counted['sentiment'][name]} |"
    for name in ("vertical", "diagonal", "vertical+diagonal", "block", "heterogeneous")
]
display(
    Markdown(
        "## And here?\n\nHeads of three checkpoints each, by the class of most of their maps:\n\n"
        + "\n".join(rows)
        + "\n\n**This part of the paper does not carry over.** BERT-base rests much of its attention"
        " on [SEP]; small models on short texts have less need of such a place."
    )
)

# %% [markdown] slideshow={"slide_type": "notes"}
# A negative result with an honest reservation: other thresholds, other counts. What a
# classifier trained on BERT's maps would say of ours nobody knows.

# %% slideshow={"slide_type": "slide"}
by_zero, by_mean = (
    np.array([run["roles"]["ablation"][how] for run in stored]) for how in ("zero", "mean")
)  # (seeds, heads), points of token accuracy
costs = np.sort(-by_mean.clip(max=0).flatten())[::-1]
few = 6
apart = float(np.corrcoef(by_zero.flatten(), by_mean.flatten())[0, 1])
display(
    Markdown(
        "## Two ways to switch a head off\n\n"
        "$$\\text{nothing:}\\quad o_i = 0 \\qquad\\qquad \\text{no opinion:}\\quad o_i ="
        " \\frac1L \\sum_{j=1}^{L} v_j$$\n\n"
        "Pruning does the first. Kovaleva et al. the second: every word gets the *same* attention,"
        " $1/L$, and the head hands on a mean.\n\n"
        f"Here, one of {by_zero.size} heads at a time: {-by_zero.mean():.2f} and"
        f" {-by_mean.mean():.2f} points of token accuracy on average, head by head much alike ($r ="
        f" {apart:.2f}$). {few} heads carry **{100 * costs[:few].sum() / costs.sum():.0f} %** of the"
        " loss.\n\n"
        "> **Left open.** They report heads, and a whole layer, whose disabling *helps*"
        " (RTE: up to +3.2 points). Are there any here?"
    )
)

# %% [markdown] slideshow={"slide_type": "notes"}
# L is the number of *real* words; a mean over padding too is the usual slip. +3.2: one
# layer, on one of GLUE's smallest tasks, as reported.

# %% slideshow={"slide_type": "slide"}
display(Markdown("## Which layers does fine-tuning change?"))
change = np.array([[np.mean(layer) for layer in run["fine_tuning"]["change"]] for run in stored])
fig = plots.new_figure(4.05)
ax = fig.subplots()
ax.errorbar(
    range(1, change.shape[1] + 1),
    change.mean(0),
    yerr=plots.interval(change)[1],
    marker="o",
    ms=10,
    capsize=5,
    color="C1",
)
ax.set(xlabel="layer of a sentiment BERT", xticks=range(1, change.shape[1] + 1))
ax.set_title("1 − cosine of maps, before and after")
plots.show(
    fig,
    alt="Change of attention maps by fine-tuning, layer by layer: "
    + ", ".join(f"{c:.2f}" for c in change.mean(0))
    + ".",
    inches=(5.2, 4.05),
)
display(
    Markdown(
        "Fine-tuned from sentiment to another label.\n\nThe later the layer, the more its maps"
        f" change: last − first **{versus(change[:, -1], change[:, 0], unit='', digits=2)}**.\n\n"
        "Kovaleva et al.: BERT's last two layers change most. The last layers are for the task."
    )
)

# %% slideshow={"slide_type": "slide"}
display(Markdown("## Does attention have to be learned?"))
SEVEN = ("itself", "previous", "next", "left of it", "right of it", "the end", "the start")
plots.show(
    drawings.attention_maps(dict(zip(SEVEN, fixed_patterns(10), strict=True))), inches=(5.2, 4.0)
)

# %% [markdown]
# Raganato et al. (2020): seven patterns that know the *places* of words alone, for all
# but one head of each encoder layer.
#
# No query, no key.
#
# In the paper, trained from scratch, **BLEU stays**.

# %% [markdown] slideshow={"slide_type": "notes"}
# Larger contexts: cubes of the distance from the far end, divided by their sum, so a
# long sentence has the same rule. A row without a key (the first word's previous one) attends to itself: our convention.
# The usual slip is the end of the *batch* instead of the sentence's.

# %% slideshow={"slide_type": "slide"}
WAYS = {
    "learned": "all learned",
    "uniform": "equal attention",
    "removed": "removed",
    "fixed": "fixed patterns",
}
rows = ["| five of six heads of each layer | BLEU at once |", "|---|---|"]
rows += [
    f"| {label} | {pm([run['fixed'][name]['before'] for run in stored])} |"
    for name, label in WAYS.items()
]
at_once = {name: [run["fixed"][name]["before"] for run in stored] for name in WAYS}
display(
    Markdown(
        "## At once\n\n"
        + "\n".join(rows)
        + "\n\nNothing trained. Fixed patterns against no heads at all:"
        f" {versus(at_once['fixed'], at_once['removed'], unit='BLEU').replace('-', '−')}. A head that"
        " says the wrong thing may be worse than one that says nothing.\n\n> **Left open.** 300 steps"
        " of fine-tuning for all four: in which order do they end?"
    )
)

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Two minutes: places are enough
#
# > "We replaced all but one head of each encoder layer by fixed positional patterns.
# > BLEU stays. So an encoder needs to know *places*, and nothing else."
#
# **1.** Two controls are missing. Which?
#
# **2.** What would you conclude if *equal* attention, $1/L$ everywhere, did as well?
#
# **3.** One head of each layer stays learned. Why does that matter?

# %% [markdown] slideshow={"slide_type": "notes"}
# 1: the same heads with equal attention, and without them at all; all trained as long.
# 2: that it is not places: a mean of the sentence does the same, and a mean has no
# order. (Values and outputs of these heads are still learned.) 3: the learned head may
# do all that needs content; so the sentence should be "all but one". What the rows say
# here is left to the lab.

# %% slideshow={"slide_type": "slide"}
display(Markdown("## Three kinds of attention"))
plots.show(drawings.kinds_of_attention(find_attention(model)))

# %% [markdown]
# Michel et al. (2019) prune each kind alone: the attention **between** encoder and
# decoder bears it least; beyond 60 % of its heads the translation gets much worse.

# %% [markdown] slideshow={"slide_type": "notes"}
# One decoder layer: with three of them the decoder does the work, and there is nothing
# to be learned of the encoder's heads. (All but one head in the last encoder–decoder
# layer of their model: −13.56 BLEU, lab 07.)

# %% slideshow={"slide_type": "slide"}
display(Markdown("## Where do heads matter?"))
fractions = [f for f in lab08.FRACTIONS if f < 1]
fig = plots.new_figure(4.05)
ax = fig.subplots()
for k, (kind, label) in enumerate(KINDS.items()):
    by = np.array([run["kinds"][kind]["I_h"] for run in stored])[:, : len(fractions)]
    drawn = np.array([run["kinds"][kind]["random"] for run in stored])[:, : len(fractions)]
    at = 100 * np.array(fractions) + 1.2 * (k - 1)
    ax.errorbar(
        at,
        by.mean(0),
        yerr=plots.interval(by)[1],
        marker="os^"[k],
        ms=9,
        capsize=4,
        color=f"C{k}",
        label=label,
    )
    ax.plot(at, drawn.mean(0), ls=":", color=f"C{k}")
ax.set(xlabel="heads of this kind pruned (%)", ylim=(0, 103), xticks=[0, 25, 50, 75])
ax.set_title("BLEU, nothing trained")
ax.legend(loc="lower left")
three = {
    label: np.array([run["kinds"][kind]["I_h"][3] for run in stored])
    for kind, label in KINDS.items()
}
plots.show(
    fig,
    alt="BLEU against heads pruned by kind; at 75 per cent: "
    + ", ".join(f"{label} {values.mean():.0f}" for label, values in three.items())
    + ".",
    inches=(5.4, 4.05),
)
display(
    Markdown(
        "By $I_h$; dotted: at random.\n\nAt 75 %, encoder against encoder–decoder:"
        f" {versus(three['encoder'], three['encoder–decoder'], cell=True)} BLEU.\n\nA quarter of"
        " the encoder's heads costs"
        f" {pm(np.array(full) - [run['kinds']['encoder']['I_h'][1] for run in stored])},"
        " *if* $I_h$ chooses."
    )
)

# %% [markdown] slideshow={"slide_type": "notes"}
# As in the paper: between encoder and decoder it hurts first. Decoder and
# encoder–decoder have six heads each here, so the dotted lines lie close to the solid
# ones. The right end, all heads of a kind gone, is asked for in the lab.

# %% slideshow={"slide_type": "slide"}
rows = [
    "| $I_h$ / random | whole | "
    + " | ".join(f"{100 * f:.0f} % gone" for f in fractions[1:])
    + " |",
    "|---" * (len(fractions) + 1) + "|",
]
for kind, label in KINDS.items():
    cells = [
        f"{a:.1f} / {b:.1f}"
        for a, b in zip(real["kinds"][kind]["I_h"], real["kinds"][kind]["random"], strict=True)
    ][: len(fractions)]
    rows.append(f"| {label} | {cells[0].split(' / ')[0]} | " + " | ".join(cells[1:]) + " |")
ahead = sum(
    a > b
    for kind in KINDS
    for a, b in list(zip(real["kinds"][kind]["I_h"], real["kinds"][kind]["random"], strict=True))[
        1 : len(fractions)
    ]
)
display(
    Markdown(
        "## On real sentences\n\nMulti30k, German into English, the same network half as wide again,"
        " **one** run (an example, no proof). BLEU:\n\n"
        + "\n".join(rows)
        + f"\n\nThe order of the kinds is the same. $I_h$ is ahead of chance in {ahead} of"
        f" {len(KINDS) * (len(fractions) - 1)} cells: few heads, drawn once. (Whole, on the test"
        f" sentences of 2016: {real['test']:.1f}.)"
    )
)

# %% slideshow={"slide_type": "slide"}
curve = [(0.0, 40.0), (0.2, 38.0), (0.4, 35.0), (0.6, 37.0)]
display(
    Markdown(
        "## From when on is a head important?\n\n"
        "Michel et al., by each epoch's own $I_h$: in the first two epochs all heads are alike; from"
        " the tenth on 40 % may go and 85 to 90 % of BLEU stay.\n\n"
        "*Prunable share*: the largest share up to which **every** score keeps nine tenths.\n\n"
        "| pruned | "
        + " | ".join(f"{100 * f:.0f} %" for f, _ in curve)
        + " |\n"
        + "|---" * (len(curve) + 1)
        + "|\n| BLEU | "
        + " | ".join(f"{score:g}" for _, score in curve)
        + f" |\n\nHere {100 * prunable_share(curve):.0f} %: the first fall counts, not the last point above"
        " the line.\n\n> **Left open.** Our models at steps 300 to 3,000: as in the paper, or not?"
    )
)

# %% slideshow={"slide_type": "notes"}
early = [run["over_training"]["300"]["I_h"][0] for run in stored]
display(
    Markdown(
        "The table is made up. A warning to give on the way: nine tenths is a *relative* measure."
        f" Our checkpoints have {np.mean(early):.0f} BLEU at step 300, so a tenth is"
        f" {np.mean(early) / 10:.1f} points there and {np.mean(full) / 10:.1f} at the end: it is kind"
        " to bad models."
    )
)

# %% [markdown] slideshow={"slide_type": "slide"}
# ## What to take along
#
# - Draw, stretch, cut: a gate that is **exactly** 0 and has a gradient. Its price is
#   the expected *count*.
# - Gates close **while** the model trains. As many random heads with the *same
#   training* are the control.
# - A role needs a baseline: what would the best **fixed offset** find?
# - Count over words, all queries together; leave marks and padding out.
# - Fixed attention needs a control without any opinion: $1/L$.
# - Heads between encoder and decoder are the last to spare.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Lab 08, and where to read on
#
# - Voita, Talbot, Moiseev, Sennrich & Titov (2019). Analyzing multi-head
#   self-attention: specialized heads do the heavy lifting. *ACL*.
# - Louizos, Welling & Kingma (2018). Learning sparse neural networks through L0
#   regularization. *ICLR*.
# - Kovaleva, Romanov, Rogers & Rumshisky (2019). Revealing the dark secrets of BERT.
#   *EMNLP*.
# - Raganato, Scherrer & Tiedemann (2020). Fixed encoder self-attention patterns in
#   transformer-based machine translation. *Findings of EMNLP*.
# - Michel, Levy & Neubig (2019). Are sixteen heads really better than one? *NeurIPS*.
