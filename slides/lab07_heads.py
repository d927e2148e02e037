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
import torch
from IPython.display import Markdown, display

from course_lib import experiments
from course_lib.cost import latency, pruned_transformer_macs
from course_lib.experiments import lab07
from course_lib.models.bert import small_bert
from course_lib.pruning.heads import choose_heads, remove_heads
from course_lib.show import drawings, plots
from course_lib.show.words import pm, versus

plots.use_style()
torch.set_num_threads(1)
long_run = experiments.read("lab07_heads")
real = experiments.read("lab07_sst2")
fractions = long_run["settings"]["fractions"]
curves = {
    rule: np.array(
        [np.array(run["curves"][rule], dtype=float).mean(0) for run in long_run["removal"]]
    )
    for rule in long_run["removal"][0]["curves"]
}  # rule -> (models, fractions)
dense = np.array([run["dense"] for run in long_run["removal"]])
# (models, layers, heads), in points
each = np.array([run["each"] for run in long_run["ablations"]])
importance = np.array([run["importance"] for run in long_run["removal"]])
SEEDS, LAYERS, HEADS = each.shape
HALF = fractions.index(0.5)
MOST = fractions.index(0.8)


def show_removal(rules, title, at, inches=None):
    """Accuracy against heads removed, by rule; the text alternative reads it off at one
    of the fractions.
    """
    fig = plots.method_curves(
        fractions,
        {rule: curves[rule] for rule in rules},
        dense=dense,
        xlabel="heads removed",
        ylabel="test accuracy (%)",
        title=title,
        xaxis="sparsity",
    )
    read = ", ".join(f"{rule} {curves[rule][:, at].mean():.0f}" for rule in rules)
    plots.show(
        fig,
        alt=f"Test accuracy against heads removed. {fractions[at]:.0%} gone: {read}.",
        inches=inches,
    )


# %% [markdown] slideshow={"slide_type": "slide"}
# # Are sixteen heads really better than one?
#
# Neural-network pruning · lecture to lab 07
#
# *Every layer of a transformer looks at its input several times over. Which of these
# looks could it do without, how do you find out, and what do you get for it?*

# %% [markdown] slideshow={"slide_type": "notes"}
# All figures: three small BERTs (4 layers of 8 heads) on generated reviews, scores on
# validation texts, accuracies on 2,000 test texts. SST-2 at the end: a real encoder of
# 6 layers of 12 heads.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## A new thing to remove
#
# | what goes | lab | what is left |
# |---|---|---|
# | single weights | 01 | a matrix with holes |
# | filters, channels | 04 | a smaller dense network |
# | **attention heads** | **07** | **smaller dense matrices** |
# | tokens | 10 | shorter texts, layer by layer |
#
# A head is the natural unit of attention: it has its own queries, keys, values, and its
# own pattern of looking.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Multi-head attention, in shapes
#
# $B$ texts of $L$ tokens, width $E$, $M$ heads of size $D = E/M$:
#
# | | shape |
# |---|---|
# | $Q = xW_Q$, $K$ and $V$ alike | $(B, L, E) \to (B, M, L, D)$ |
# | scores $QK^\top/\sqrt D$, softmax over keys | $(B, M, L, L)$ |
# | times $V$ | $(B, M, L, D)$ |
# | side by side again, times $W_O$ | $(B, L, E)$ |
#
# Everything between the first and the last line happens **for each head on its own**.

# %% [markdown] slideshow={"slide_type": "notes"}
# A common misprint scales by √d of the whole width. It is √(E / M), a head's own. And
# "heads do not change the cost" is true of MACs; the softmax and the memory traffic
# grow with M (lab 00).

# %% slideshow={"slide_type": "slide"}
display(Markdown("## Side by side, or a sum?"))
plots.show(drawings.heads_as_a_sum(4))

# %% [markdown]
# $$[A_1, \dots, A_M]\,W_O = \sum_{h=1}^{M} A_h\,W_O^{(h)}$$
#
# $W_O^{(h)}$: the $D$ rows of $W_O$ that meet head $h$. The bias $b_O$ belongs to
# nobody and is added once.

# %% slideshow={"slide_type": "slide"}
display(Markdown("## A gate on each head"))
plots.show(drawings.heads_as_a_sum(4, gated=(1,)))

# %% [markdown]
# $$\text{MHAtt}(x) = \sum_h \xi_h\, A_h\,W_O^{(h)} + b_O$$
#
# $\xi_h = 1$: as it was; $\xi_h = 0$: gone.

# %% [markdown] slideshow={"slide_type": "notes"}
# In code the gate multiplies the input of the output projection, D features a head. Not
# the attention weights after the softmax by a mask of keys: a head whose scores are all
# the same still writes the mean of its values.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## A warning about software
#
# Most published code on this subject passes `head_mask=` to a transformers model.
# **transformers 5 takes the argument and ignores it**, without a word; `prune_heads` is
# gone.
#
# An experiment that "finds" that heads do not matter may just not have switched any
# off. So:
#
# - gate by a hook on the output projection (`course_lib.pruning.heads.gated`);
# - check that *all* gates at 0 changes the output, and all at 1 does not.

# %% slideshow={"slide_type": "slide"}
display(Markdown("## First idea: switch off one, and look"))
plots.show(
    plots.heat_map(
        each[0],
        rows=[f"layer {i + 1}" for i in range(LAYERS)],
        columns=range(1, HEADS + 1),
        xlabel="head",
        ylabel="",
        title="Change of validation accuracy (points) with one head off, first model",
        centre=0.0,
    ),
    alt=(
        f"Change of accuracy for each of 32 heads switched off alone: from {each[0].min():.1f} to"
        f" {each[0].max():+.1f} points."
    ),
    inches=(8, 2.8),
)
small = (np.abs(each) < 0.5).mean()
display(
    Markdown(
        f"{small:.0%} of the heads of the three models change less than half a point;"
        f" {(each > 0).mean():.0%} make it *better* when they go. Michel et al.: of 96 encoder"
        " heads of a translation model 8 matter significantly, and 4 of those by raising BLEU."
    )
)

# %% slideshow={"slide_type": "slide"}
display(Markdown("## All but one"))
# (models, layers)
changes = np.array([[change for _, change in run["all_but_one"]] for run in long_run["ablations"]])
lines = [
    "| | " + " | ".join(f"layer {i + 1}" for i in range(LAYERS)) + " |",
    "|---" * (LAYERS + 1) + "|",
]
lines += [
    f"| model {s} | " + " | ".join(f"{value:+.1f}" for value in row) + " |"
    for s, row in enumerate(changes)
]
display(
    Markdown(
        "Points of test accuracy with **one** head left in a layer, the others untouched; which one"
        " is chosen on validation texts.\n\n" + "\n".join(lines)
    )
)

# %% [markdown]
# Michel et al.: for most layers one head is enough. BERT's worst layer loses 0.96
# points; but the last encoder–decoder layer of the translation model loses **13.56
# BLEU**. "One head is enough" is a statement about layers, not about models.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Two minutes: add it up
#
# You have switched off each of the 32 heads alone. Now you want to remove 16 of them,
# and take those that were missed least.
#
# **1.** The sixteen single changes add up to about nothing. What will the sixteen cost
# together: about nothing, or more?
#
# **2.** How many forward passes over the validation set did your list cost? How many
# would an exact answer cost?

# %% [markdown] slideshow={"slide_type": "notes"}
# 1: more, see two slides on. 2: 33 passes for the list; an exact answer means all
# subsets of 16 out of 32, 6 × 10⁸ of them.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Second idea: ask the gradient
#
# A gate of 1 that becomes 0 changes the loss of a text $x$ by
#
# $$\mathcal L(x; \xi_h = 0) - \mathcal L(x; \xi_h = 1) \approx -\frac{\partial \mathcal L(x)}{\partial \xi_h}$$
#
# How much a head matters, on average over texts:
#
# $$I_h = \mathbb E_x \left|\frac{\partial \mathcal L(x)}{\partial \xi_h}\right|$$
#
# All heads of all layers come out of **one backward pass** for each batch.

# %% [markdown] slideshow={"slide_type": "fragment"}
# > The absolute value stands **inside** the mean. A head that helps half of the texts
# and hurts the others has a mean gradient
# > near 0, and is far from useless.

# %% [markdown] slideshow={"slide_type": "notes"}
# Three different things are called I_h in public code: the absolute value for each
# sample (the paper, and the lab), for each token, and for each batch. The last one
# depends on the batch size. The lab has a test for that.

# %% slideshow={"slide_type": "slide"}
display(Markdown("## What the gradient says"))
plots.show(
    plots.heat_map(
        importance[0] / importance[0].max(),
        rows=[f"layer {i + 1}" for i in range(LAYERS)],
        columns=range(1, HEADS + 1),
        xlabel="head",
        ylabel="",
        title="Importance $I_h$ of each head, first model; largest = 1",
        fmt="{:.2f}",
    ),
    alt="Importance of 32 heads of the first model as colours: mean by layer "
    + ", ".join(f"{value:.2f}" for value in (importance[0] / importance[0].max()).mean(1))
    + ".",
    inches=(8, 2.8),
)
share = importance.sum(2) / importance.sum((1, 2))[:, None]
display(
    Markdown(
        "Share of all importance in layers 1 to 4: "
        + "; ".join(
            f"model {s}: " + ", ".join(f"{value:.0%}" for value in row)
            for s, row in enumerate(share)
        )
        + ". Remember the small numbers on the right."
    )
)

# %% slideshow={"slide_type": "slide"}
display(Markdown("## Accuracy against heads removed"))
show_removal(
    ("I_h", "single ablation", "random", "most important first"),
    "Three models with intervals; nothing trained afterwards",
    HALF,
)

# %% [markdown] slideshow={"slide_type": "notes"}
# Most important first is the check that the order says something at all. Random: ten
# draws for each of three models.

# %% slideshow={"slide_type": "slide"}
display(Markdown("## What the single ablations did not see"))
joint = curves["single ablation"] - dense[:, None]
expected = np.array(
    [
        [np.sort(each[s].ravel())[::-1][: round(f * each[s].size)].sum() for f in fractions]
        for s in range(SEEDS)
    ]
)
plots.show(
    plots.curves(
        fractions,
        {"each cost, added up": expected.mean(0), "what they cost together": joint.mean(0)},
        xlabel="heads removed, least missed first",
        ylabel="change of accuracy (points)",
        title="Mean of three models",
        xaxis="sparsity",
    ),
    alt=(
        "Single costs added up against the joint cost. At 80 per cent"
        f" {expected[:, MOST].mean():+.0f} points against {joint[:, MOST].mean():+.0f}."
    ),
    inches=(5.2, 4.05),
)

# %% [markdown]
# **Heads stand in for each other.** Two heads read the same word; alone, neither is
# missed. $I_h$, taken once, has the same blind spot.

# %% slideshow={"slide_type": "slide"}
display(Markdown("## Two repairs"))
show_removal(
    ("I_h", "I_h, by layer", "I_h, iterative", "random"),
    "Measure again, or compare within layers",
    MOST,
    inches=(5.2, 4.05),
)

# %% [markdown]
# *Iterative*: score, remove a few, score those that are left. *By layer*: divide each
# layer's scores by their ℓ2 norm first (Michel et al., in a footnote).

# %% slideshow={"slide_type": "slide"}
display(Markdown("## Why: the empty layer"))
left = {
    rule: [
        row["left"] for run in long_run["fine-tuning"] for row in run["0.8"] if row["rule"] == rule
    ]
    for rule in ("I_h", "I_h, by layer")
}
lines = [
    "| 80 % of the heads removed | model | heads left in layers 1 to 4 | test accuracy (%) |",
    "|---" * 4 + "|",
]
for rule, models in left.items():
    for s, counts in enumerate(models):
        lines.append(
            f"| {rule} | {s} | {', '.join(f'**{n}**' if n == 0 else str(n) for n in counts)} |"
            f" {curves[rule][s, MOST]:.1f} |"
        )
display(Markdown("\n".join(lines)))

# %% [markdown]
# While the first layers' heads do most of the work, the last layers' derivatives are
# small. Taken at face value, they go first, and *all* of them. A layer without heads is
# a layer in which no token hears from any other.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Do rules about places help?
#
# Budhraja et al. (2020): from the top, the bottom, the middle; never two in a row.

# %% slideshow={"slide_type": "-"}
lines = ["| half of the heads, test accuracy (%) | model 0 | model 1 | model 2 |", "|---" * 4 + "|"]
for rule in ("random", *lab07.PLACES, "I_h"):
    lines.append(
        f"| {'$I_h$' if rule == 'I_h' else rule.replace('_', ' ')} | "
        + " | ".join(f"{value:.1f}" for value in curves[rule][:, HALF])
        + " |"
    )
display(Markdown("\n".join(lines)))

# %% [markdown]
# Ten random draws are better in the mean than any rule about places, and among the rules
# the order differs from model to model. That **is** the finding.

# %% [markdown] slideshow={"slide_type": "notes"}
# With one model anybody could have written a rule. Budhraja et al. find random as good
# as many informed rules, after fine-tuning, and advise against the middle.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Two minutes: read a paper's table
#
# > "We remove 50 % of the heads with method X and fine-tune for one epoch: 97.0 %.
# Random removal gives 95.0 %, the full model
# > 97.4 %. Method X finds the important heads."
#
# **1.** Which three numbers would you ask for? **2.** What would you expect at 80 %,
# and why does the paper stop at 50?

# %% [markdown] slideshow={"slide_type": "notes"}
# Before fine-tuning; how many seeds and draws; the full model with the same
# fine-tuning. The next slide has them all.

# %% slideshow={"slide_type": "slide"}
display(Markdown("## And if they may learn?"))
found = {
    (rule, share): np.array(
        [
            [
                np.mean([row[when] for row in run[share] if row["rule"] == rule])
                for when in ("before", "after")
            ]
            for run in long_run["fine-tuning"]
        ]
    )
    for share in ("0.5", "0.8")
    for rule in ("I_h", "I_h, by layer", "random")
}
bar = {
    f"{100 * float(share):.0f} % gone" if not i else f"{100 * float(share):.0f} %, tuned": {
        rule: float(found[rule, share][:, i].mean()) for rule in ("I_h", "I_h, by layer", "random")
    }
    for share in ("0.5", "0.8")
    for i in (0, 1)
}
plots.show(
    plots.bars(
        bar,
        ylabel="",
        title="Test accuracy (%): training repairs what is left, not what is gone",
        fmt="{:.0f}",
    ),
    alt="Test accuracy before and after 200 steps: "
    + "; ".join(
        f"{rule} {float(share):.0%} gone {v[:, 0].mean():.0f} and {v[:, 1].mean():.0f}"
        for (rule, share), v in found.items()
    )
    + ".",
    inches=(8, 3.3),
)
full_after = [run["0.0"][0]["after"] for run in long_run["fine-tuning"]]
display(
    Markdown(
        f"Tuned: 200 steps. The full model after them: {pm(full_after)}. At 80 %, by layer against"
        f" random, tuned: {versus(found['I_h, by layer', '0.8'][:, 1], found['random', '0.8'][:, 1])}."
    )
)

# %% slideshow={"slide_type": "slide"}
display(Markdown("## Is a head important everywhere?"))
relations = [lab07.pearson(run) for run in long_run["domains"]]
display(
    Markdown(
        "Importance from reviews of films, of phones, of restaurants: does the ranking carry over?"
        " Pearson's $r$ over heads, mean over pairs of domains, and its **ceiling**, two samples of"
        " the *same* domain:\n\n| | model 0 | model 1 | model 2 |\n|---|---|---|---|\n"
        + "| across domains | "
        + " | ".join(f"{np.mean(r['across']):.2f}" for r in relations)
        + " |\n"
        + "| same domain, two samples | "
        + " | ".join(f"{np.mean(r['same']):.2f}" for r in relations)
        + " |\n"
    )
)

# %% [markdown]
# Michel et al. report 0.56 (translation) and 0.68 (BERT) across domains. Without a
# ceiling one cannot say how much of the distance to 1 is the domain, and how much the
# sample.

# %% slideshow={"slide_type": "slide"}
display(Markdown("## Out with them"))
plots.show(drawings.head_rows())

# %% [markdown]
# Head $h$ owns $D$ **rows** of $W_Q$, $W_K$, $W_V$ (with biases) and $D$ **columns** of
# $W_O$ as it is stored. A gate of 0 saves nothing; smaller matrices do, on any
# hardware.

# %% slideshow={"slide_type": "slide"}
display(Markdown("## What is there to save?"))
whole = pruned_transformer_macs(1, 128, 768, [12] * 12, 64)
half = pruned_transformer_macs(1, 128, 768, [6] * 12, 64)
one_layer = 4 * 768 * 768
display(
    Markdown(
        "BERT-base, 12 layers of 12 heads, L = 128, half of the heads removed:\n\n| | full | half"
        f" the heads | |\n|---|---|---|---|\n| MACs (billion) | {whole['total'] / 1e9:.2f} |"
        f" {half['total'] / 1e9:.2f} | {whole['total'] / half['total']:.2f}× fewer |\n| weights of"
        f" the encoder (million) | {whole['weights'] / 1e6:.1f} | {half['weights'] / 1e6:.1f} |"
        f" {1 - half['weights'] / whole['weights']:.0%} less |\n\nOne head is 1/12 = {1 / 12:.1%}"
        f" of **one attention layer**, and {4 * 768 * 64 / 110e6:.2%} of the model's 110 million"
        " parameters. (A common summary calls the former its share of all parameters.) Two thirds"
        " of the encoder are feed-forward: heads cannot save those."
    )
)

# %% slideshow={"slide_type": "slide"}
display(Markdown("## Does the clock agree?"))
net = small_bert(600, layers=4, width=256, heads=8, ffn=1024, seed=0).eval()
halved = remove_heads(
    net, choose_heads(4, 8, 16, "random", torch.Generator().manual_seed(0), min_per_layer=4)
)
speed = {}
with torch.inference_mode():
    for size in (1, 4, 16):
        ids = torch.randint(5, 600, (size, 128), generator=torch.Generator().manual_seed(size))
        pair = {"full": latency.forward(net, ids), "half": latency.forward(halved, ids)}
        times = latency.compare(pair, warmup=2, repeats=11, threads=1)
        speed[size] = times["full"].times_slower_than(times["half"])
macs = (
    pruned_transformer_macs(1, 128, 256, [8] * 4, 32)["total"]
    / pruned_transformer_macs(1, 128, 256, [4] * 4, 32)["total"]
)
michel = {1: 1.9, 4: 2.7, 16: 17.5, 64: 17.5}
lines = [
    (
        "| batch | here, 4 layers of width 256, one thread, processor time | Michel et al., BERT,"
        " GTX 1080 Ti |"
    ),
    "|---|---|---|",
]
lines += [
    f"| {size} | {f'{100 * (speed[size] - 1):+.0f} %' if size in speed else ''} | +{gain} % |"
    for size, gain in michel.items()
]
display(
    Markdown(
        f"Half of the heads removed, {macs:.2f}× fewer MACs. More texts per second:\n\n"
        + "\n".join(lines)
    )
)

# %% [markdown]
# On a GPU with one text, starting kernels costs more than computing. What MACs promise
# comes only where the machine is busy with MACs.

# %% slideshow={"slide_type": "slide"}
display(Markdown("## On real sentences"))
runs, shares = real["seeds"], real["settings"]["removed"]
on_real = {
    rule: np.array([np.mean(run["test"][rule], 0) for run in runs]) for rule in runs[0]["test"]
}
lines = ["| SST-2, accuracy (%) | I_h | random | upside down | I_h − random |", "|---" * 5 + "|"]
for i, share_ in enumerate(shares):
    a, b, c = (on_real[rule][:, i] for rule in ("I_h", "random", "most important first"))
    lines.append(
        f"| {share_:.0%} removed | {pm(a)} | {pm(b)} | {pm(c)} | {versus(a, b, cell=True)} |"
    )
display(
    Markdown(
        f"A real encoder of 6 layers of 12 heads, {len(runs)} fine-tunings on"
        f" {real['settings']['sentences']:,} sentences: {pm([run['dense'] for run in runs])} %"
        " dense. *Upside down*: most important first. **Bold**: shown, without 0.\n\n"
        + "\n".join(lines)
    )
)

# %% [markdown]
# The order of the small models, smaller leads. Michel et al. prune about 60 % of BERT's
# heads on SST-2 and 40 % on MNLI without noticeable loss.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## What do the heads that stay do?
#
# - Voita et al. (2019) let training choose: a gate drawn from a distribution that can
#   be exactly 0, and an L0 penalty. Of 48 encoder heads **10 are left at −0.15 BLEU**,
#   4 at −0.25 (another corpus). Those left have jobs: the next word, a syntactic arc,
#   rare words.
# - Kovaleva et al. (2019): five patterns of attention recur; making a head uniform can
#   *raise* accuracy.
# - Raganato et al. (2020): all but one head of each encoder layer replaced by fixed
#   positions, and BLEU stays.
#
# Lab 08 lets you train such gates.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## What to take along
#
# - Attention is a **sum over heads**; a gate on each makes removal a question with a
#   derivative.
# - $I_h$: absolute value for each text, then the mean. One backward pass; good for half
#   of the heads.
# - **Costs do not add up**: heads stand in for each other. Measure again, or at least
#   compare within layers.
# - **Never empty a layer**; no training brings it back.
# - Controls: random draws, the order upside down, the full model with the same
#   training, a resample ceiling.
# - Heads are a third of the encoder: half of them is 1.2× fewer MACs, not 2×.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Lab 07, and where to read on
#
# - Michel, Levy & Neubig (2019). Are sixteen heads really better than one? *NeurIPS*.
# - Voita, Talbot, Moiseev, Sennrich & Titov (2019). Analyzing multi-head
#   self-attention. *ACL*.
# - Budhraja, Pande, Nema, Kumar & Khapra (2020). On the weak link between importance
#   and prunability of attention heads. *EMNLP*.
# - Kovaleva, Romanov, Rogers & Rumshisky (2019). Revealing the dark secrets of BERT.
#   *EMNLP*.
# - Raganato, Scherrer & Tiedemann (2020). Fixed encoder self-attention patterns in
#   transformer-based machine translation. *Findings of EMNLP*.
# - Prasanna, Rogers & Rumshisky (2020). When BERT plays the lottery, all tickets are
#   winning. *EMNLP*.
