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
from course_lib.cost import latency
from course_lib.experiments import lab09
from course_lib.pruning.heads import remove_heads
from course_lib.pruning.layers import (
    fleiss_kappa,
    layers_to_keep,
    overlap,
    remove_mlps,
    take_layers,
)
from course_lib.show import plots
from course_lib.show.words import ends, pm, versus

plots.use_style()
torch.set_num_threads(1)
depth_runs = experiments.read("lab09_depth")["seeds"]
stored = experiments.read("lab09_subnetworks")
TASKS, runs = stored["tasks"], stored["runs"]
SEEDS, LAYERS, HEADS = len(runs), lab09.LAYERS, lab09.HEADS
by_depth = {name: np.array([run[name]["test"] for run in depth_runs]) for name in depth_runs[0]}
KINDS = ("good", "random", "bad")
table = {
    (how, kind): np.array([[of_task[how][kind] for of_task in of_seed] for of_seed in runs])
    for how in ("pruned", "retrained")
    for kind in KINDS
}  # (seeds, tasks)
full = np.array([[of_task["full"] for of_task in of_seed] for of_seed in runs])
of_heads = [[torch.tensor(of_task["xi"]).bool() for of_task in of_seed] for of_seed in runs]


# %% [markdown] slideshow={"slide_type": "slide"}
# # How little of a transformer does it take?
#
# Neural-network pruning · lecture to lab 09
#
# *Whole layers, whole feed-forward parts: can they go? And is what may go the same for
# every task, and every seed?*

# %% slideshow={"slide_type": "notes"}
display(
    Markdown(
        f"All figures: three small BERTs ({LAYERS} layers of {HEADS} heads) on generated reviews;"
        " depth on reviews with at most one filler, subnetworks on four labels of the full ones"
        f" ({', '.join(TASKS)}). Importance and choices by validation texts, accuracies of test"
        " texts."
    )
)

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Larger things
#
# | what goes | lab | is it faster? |
# |---|---|---|
# | weights | 01, 06 | no |
# | heads | 07, 08 | a little |
# | **feed-forward parts, layers** | **09** | **in proportion** |
# | tokens | 10 | yes |
#
# A layer of a transformer *adds* something: $x + f(x)$. Leave it out, and $x$ goes on
# as it is. Nothing breaks but what was learned.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## LayerDrop
#
# Fan, Grave & Joulin (2020): in each training step every layer is skipped with
# probability $p$.
#
# $$x \;\to\; \begin{cases} x & \text{with probability } p \\ x + f(x) & \text{else} \end{cases}$$
#
# - Nothing is rescaled: there is no mean to be kept in a residual stream. (Dropout
#   divides by $1 - p$.)
# - One draw for the **whole batch**: that is what makes it faster, too.
# - Afterwards: take layers out, evenly spaced. **One training, any depth.**

# %% [markdown] slideshow={"slide_type": "notes"}
# With p = 1/2 and four layers all four run in 6 of 100 steps. The paper: 16 to 8
# layers, 246.9 to 146.2 million parameters.

# %% slideshow={"slide_type": "slide"}
display(Markdown("## Which layers stay?"))
rows = ["| of 12 layers | stay |", "|---|---|"]
rows += [
    f"| {depth} | {', '.join(map(str, layers_to_keep(12, depth)))} |" for depth in (9, 6, 4, 3, 1)
]
display(
    Markdown(
        "Evenly spaced, the first among them: number $\\lfloor i\\,n/d \\rfloor$ for $i = 0 \\dots"
        " d - 1$.\n\n"
        + "\n".join(rows)
        + "\n\nA training in which *every* layer was missing now and then is prepared for any of"
        " these rows."
    )
)

# %% [markdown] slideshow={"slide_type": "notes"}
# Why evenly? Neighbours do similar work, so of two neighbours one can stand in. With
# four layers that is hardly a choice: the table two slides on cannot tell it from the
# first two.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Two minutes: what is the right comparison?
#
# A model trained with LayerDrop, cut to half its depth, keeps 85 %. The same model
# trained without it, cut alike, keeps 75 %.
#
# **1.** Which claim do these two numbers support?
#
# **2.** Somebody wants a model of half the depth, and no other. Which third number
# would you show them?

# %% [markdown] slideshow={"slide_type": "notes"}
# 1: that a model trained with gaps suffers less from being cut. Not that it is a good
# model of half the depth. 2: a model *trained* at half the depth: the next slides. It is
# the comparison that many papers leave out, and the one that a buyer wants.

# %% slideshow={"slide_type": "slide"}
display(Markdown("## Any depth from one training?"))
fig = plots.new_figure(4.4)
ax = fig.subplots()
for (name, values), marker in zip(
    {n: v for n, v in by_depth.items() if "first" not in n}.items(),
    ("o", "s", "^", "D"),
    strict=True,
):
    ax.errorbar(
        range(1, LAYERS + 1),
        values.mean(0),
        yerr=plots.interval(values)[1],
        marker=marker,
        ms=8,
        capsize=4,
        label=name,
        ls="--" if "trained" in name else "-",
    )
ax.axhline(50, color="0.6", ls=":")
ax.set(
    xticks=range(1, LAYERS + 1),
    xlabel="layers left",
    title="accuracy (%); dotted: chance",
    ylim=(45, 102),
)
ax.legend(loc="lower right", bbox_to_anchor=(1, 0.1), labelspacing=0.2)
plots.show(
    fig,
    alt="Accuracy against layers left. "
    + " ".join(
        f"{name}: " + ", ".join(f"{v:.0f}" for v in values.mean(0)) + "."
        for name, values in by_depth.items()
    ),
    inches=(8, 4.0),
)

# %% slideshow={"slide_type": "slide"}
display(Markdown("## Half the depth, in numbers"))
half = {name: by_depth[name][:, LAYERS // 2 - 1] for name in by_depth}
rows = ["| | evenly spaced (%) | the first two (%) | against plain |", "|---" * 4 + "|"]
for name in ("plain", "LayerDrop 0.2", "LayerDrop 0.5"):
    rows.append(
        f"| {name} | {pm(half[name])} | {pm(half[f'{name}, first'])} |"
        f" {'' if name == 'plain' else versus(half[name], half['plain'], cell=True)} |"
    )
rows.append(f"| **trained at that depth** | {pm(half['trained at that depth'])} | | |")
display(Markdown("\n".join(rows)))

# %% [markdown]
# LayerDrop keeps more than plain training. But a network *trained* at half the depth is
# better by far. (The paper, with 12 to 16 layers: about equal.) What LayerDrop buys is
# one training for many devices.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Heads and feed-forward parts alike
#
# $$\text{layer}(x) = x + \sum_h \xi_h\,\text{head}_h(x), \qquad x' = x + \nu\,\text{MLP}(x)$$
#
# Prasanna, Rogers & Rumshisky (2020): one backward pass scores both,
#
# $$I = \mathbb E_x \left|\frac{\partial L(x)}{\partial \xi}\right|,\qquad \mathbb E_x \left|\frac{\partial L(x)}{\partial \nu}\right|$$
#
# $\nu$ stands on what the part *adds*: before $W_2$ its bias would stay, behind the sum
# it would kill what came in.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Good, random, bad
#
# **Search**: a tenth of the heads and one feed-forward part a round, the least
# important first, while 90 % of the full accuracy are left. What survives is the *good*
# subnetwork.
#
# **Random**: as many heads and parts, drawn.
#
# **Bad**: as many, from those that did *not* survive, least important first.
#
# Then all three are **retrained**: weights back to pre-training, the same steps, with
# the others gone.

# %% [markdown] slideshow={"slide_type": "notes"}
# "When BERT plays the lottery, all tickets are winning": the pun is on lab 03's title.
# The good one is the ticket; the other two are the controls that make the sentence mean
# something.

# %% slideshow={"slide_type": "slide"}
display(Markdown("## How far does the search come?"))
fig = plots.new_figure(4.4)
ax = fig.subplots()
read = []
for t, (task, marker) in enumerate(zip(TASKS, "os^D", strict=True)):
    shared = min(len(of_seed[t]["rounds"]) for of_seed in runs)
    left = np.array([[r[2] for r in of_seed[t]["rounds"][:shared]] for of_seed in runs])
    heads = np.array([[r[0] for r in of_seed[t]["rounds"][:shared]] for of_seed in runs]).mean(0)
    ax.plot(heads, left.mean(0), marker=marker, ms=8, label=task, color=f"C{t}")
    read.append(f"{task} {heads[-1]:.0f} heads, {left[:, -1].mean():.0f} %")
ax.invert_xaxis()
ax.set(xlabel="heads left", title="validation accuracy (%)", ylim=(88, 100.5))
ax.legend(loc="lower left", ncols=2)
plots.show(
    fig,
    alt="Validation accuracy against heads left, round by round. At the last shared round: "
    + "; ".join(read)
    + ".",
    inches=(5.2, 4.05),
)

# %% [markdown]
# Rounds that all seeds made, mean of three. Each round asks again (lab 02). Nothing is
# trained meanwhile: what survives is what *this* fine-tuned model cannot do without.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Two minutes: place your bets
#
# The good subnetwork keeps 90 % as it is. After retraining it reaches the full model.
#
# **1.** How far behind will the *random* one be, retrained just as long?
#
# **2.** If it is not behind at all: what may one still say about the good one?

# %% [markdown] slideshow={"slide_type": "notes"}
# 1: let them write a number; two slides on are ours, task by task. 2: that it works *as it
# is*, without retraining, where the random one does not. Not that retraining needed these
# heads: for that the good one would have to be ahead afterwards.

# %% slideshow={"slide_type": "slide"}
display(Markdown("## Are all tickets winning?"))
plots.show(
    plots.bars(
        {
            kind: {
                task: float(table["retrained", kind][:, t].mean()) for t, task in enumerate(TASKS)
            }
            for kind in KINDS
        },
        errors={
            kind: {task: ends(table["retrained", kind][:, t]) for t, task in enumerate(TASKS)}
            for kind in KINDS
        },
        ylabel="accuracy (%)",
        title="Retrained",
        fmt="{:.0f}",
    ),
    alt="Bars of test accuracy after retraining. "
    + " ".join(
        f"{task}: "
        + ", ".join(f"{kind} {table['retrained', kind][:, t].mean():.0f}" for kind in KINDS)
        + "."
        for t, task in enumerate(TASKS)
    ),
    inches=(8, 3.6),
)

# %% slideshow={"slide_type": "slide"}
display(Markdown("## As they are, and retrained"))
rows = [
    "| points | good − random, pruned | good − random, retrained | good − bad, retrained |",
    "|---" * 4 + "|",
]
for t, task in enumerate(TASKS):
    cells = [
        versus(table[how, "good"][:, t], table[how, other][:, t], cell=True)
        for how, other in (("pruned", "random"), ("retrained", "random"), ("retrained", "bad"))
    ]
    rows.append(f"| {task} | " + " | ".join(cells) + " |")
display(Markdown("\n".join(rows)))

# %% [markdown]
# As they are, the good ones are far ahead (*contrast* scatters too much to show it).
# *Retrained*, nowhere is good shown to be better than random, and on two of four tasks
# even the bad one reaches the full model. "It reaches the full model" says nothing
# about *this* subnetwork: the trap of lab 03.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## The same every time?
#
# Two masks share some elements by chance: $|a|\,|b| / n$. For more than two, **Fleiss'
# κ**:
#
# $$P_i = \frac{k_i(k_i - 1) + (R - k_i)(R - k_i - 1)}{R(R - 1)},\qquad \bar P_e = q^2 + (1 - q)^2$$
#
# $$\kappa = \frac{\bar P - \bar P_e}{1 - \bar P_e}$$
#
# $R$ masks, $k_i$ of them keep element $i$, $q$: the share of all entries that are
# kept. 1: perfect. 0: chance.

# %% slideshow={"slide_type": "slide"}
display(Markdown("## Task or seed?"))
pairs = {
    "one task, two seeds": [
        overlap(of_heads[a][t], of_heads[b][t])
        for t in range(len(TASKS))
        for a in range(SEEDS)
        for b in range(a)
    ],
    "one seed, two tasks": [
        overlap(of_heads[s][t], of_heads[s][u])
        for s in range(SEEDS)
        for t in range(len(TASKS))
        for u in range(t)
    ],
}
rows = ["| heads shared by | measured | by chance |", "|---|---|---|"]
for name, found in pairs.items():
    rows.append(
        f"| {name} | {np.mean([f[0] for f in found]):.1f} | {np.mean([f[1] for f in found]):.1f} |"
    )
kappas = ", ".join(
    f"{task} {fleiss_kappa(torch.stack([of_heads[s][t].flatten() for s in range(SEEDS)])):.2f}"
    for t, task in enumerate(TASKS)
)
display(Markdown("\n".join(rows) + f"\n\nκ over seeds: {kappas}."))

# %% [markdown]
# What survives is a matter of the task first. But two fine-tunings that differ in
# nothing but the order of texts keep different heads. BERT-base: 86 % of the heads and
# 57 % of the feed-forward parts survive in fewer than seven of nine tasks.
#
# "This head matters for negation" is a sentence about **one** fine-tuning until κ says
# otherwise.

# %% slideshow={"slide_type": "slide"}
display(Markdown("## Which heads survive?"))
# (layers, heads)
counts = torch.stack([torch.stack(of_seed).double().sum(0) for of_seed in of_heads]).mean(0)
plots.show(
    plots.heat_map(
        counts.numpy(),
        rows=[f"layer {i}" for i in range(LAYERS)],
        columns=range(HEADS),
        xlabel="head",
        ylabel="",
        title=f"In how many of {len(TASKS)} tasks, mean of {SEEDS} seeds",
    ),
    alt=(
        f"In how many of {len(TASKS)} tasks each of {LAYERS * HEADS} heads survives: from"
        f" {counts.min():.1f} to {counts.max():.1f}."
    ),
    inches=(8, 2.8),
)
display(
    Markdown(
        f"**{float((counts < len(TASKS) - 1).double().mean()):.0%}** of the heads survive in fewer"
        f" than {len(TASKS) - 1} of {len(TASKS)} tasks. Few are needed for everything."
    )
)

# %% [markdown] slideshow={"slide_type": "notes"}
# All tasks of one seed start from the same checkpoint, so what they share is partly the
# checkpoint. The lab's overlap compares both ways.

# %% slideshow={"slide_type": "slide"}
display(Markdown("## What does the clock say?"))
whole = lab09.pretrained(0)
halved = take_layers(whole, lab09.PATH, LAYERS // 2)
first = runs[0][TASKS.index("sentiment")]
good = remove_mlps(
    remove_heads(whole, torch.tensor(first["xi"]).bool()), torch.tensor(first["nu"]).bool()
)
texts = lab09.batches("test", "sentiment")[-1]["input_ids"][:1, :37].repeat(64, 1)
nets = {
    "full": whole,
    "half of the layers": halved,
    f"{sum(map(sum, first['xi']))} of {LAYERS * HEADS} heads, {sum(first['nu'])} of {LAYERS} parts": (
        good
    ),
}
times = latency.compare(
    {name: latency.forward(net, texts) for name, net in nets.items()}, repeats=9, threads=1
)
rows = ["| 64 texts, one thread | parameters of the layers | times faster |", "|---|---|---|"]
for name, net in nets.items():
    count = sum(p.numel() for p in net.get_submodule(lab09.PATH).parameters())
    rows.append(f"| {name} | {count:,} | {times['full'].times_slower_than(times[name]):.2f} |")
display(Markdown("\n".join(rows)))

# %% [markdown]
# No index, no zero stored: whole things are what every machine is fast without.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## On a model of your own
#
# ```
# with layers.layerdrop(blocks, 0.5, generator):
#     train(model)      # your loop
# half = layers.take_layers(model, path, 6)
#
# heads, parts = layers.joint_importance(…)
# layers.remove_mlps(model, parts > 0.1)
# ```
#
# Any `nn.ModuleList` of residual layers; feed-forward parts of BERT, ViT, Marian, T5,
# GPT-2 and torch's own.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## What to take along
#
# - A residual layer can be **left out**; trained with gaps, a network can be cut to any
#   depth.
# - The comparison that matters: a network *trained* at that depth.
# - One backward pass scores heads and feed-forward parts alike.
# - Retrained, random subnetworks are as good: **without the control, every ticket
#   wins**.
# - What survives differs from seed to seed. Ask κ before you interpret.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Lab 09, and where to read on
#
# - Fan, Grave & Joulin (2020). Reducing transformer depth on demand with structured
#   dropout. *ICLR*.
# - Prasanna, Rogers & Rumshisky (2020). When BERT plays the lottery, all tickets are
#   winning. *EMNLP*.
# - Michel, Levy & Neubig (2019). Are sixteen heads really better than one? *NeurIPS*.
# - Fleiss (1971). Measuring nominal scale agreement among many raters. *Psychological
#   Bulletin*.
