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
from scipy.stats import t as student_t

from course_lib import experiments
from course_lib.capstone import LEVELS
from course_lib.cost.decisions import frontier
from course_lib.experiments import lab11
from course_lib.intervals import per_seed
from course_lib.show import course_table, plots, tables
from course_lib.show.words import minus, pm, say, versus

plots.use_style()
cnn, bert = lab11.pipelines("cnn"), lab11.pipelines("bert")
course = course_table.rows()
dense = {
    (row["lab"], row["model"]): row for row in course if str(row["method"]).startswith("dense")
}


def of(table, method, column):
    """A column of one pipeline, an entry per given model."""
    return table.loc[table["method"] == method, column].to_numpy()


def combined(table, names):
    """A table of pipelines, under shorter names."""
    columns = {"storage": "bits (%)", "products": "products (%)", "faster": "times faster"}
    some = table[table["method"].isin(names)].assign(method=table["method"].map(names))
    means = some.groupby("method", sort=False)[list(columns)].mean().rename(columns=columns)
    lost = some.groupby("method", sort=False)["lost"].apply(pm).rename("points lost")
    return tables.plain(means.join(lost).reset_index()).markdown()


def saved(row):
    """Bits left in %, times fewer MACs, times faster, points lost by seed."""
    whole = dense[row["lab"], row["model"]]
    lost = np.array(whole["accuracy"]) - np.array(row["accuracy"])
    bits = 100 * row["bits"] / whole["bits"]
    return bits, whole["macs"] / row["macs"], whole["ms"] / row["ms"], lost


# %% [markdown] slideshow={"slide_type": "slide"}
# # How small, how fast, and how do you know?
#
# Neural-network pruning · lecture to lab 11
#
# *Two trained networks, eleven labs, one page to convince a reader who was not there:
# what combines, in which order, and what can be claimed?*

# %% slideshow={"slide_type": "notes"}
say(
    "There are two sources. The *ledger*: every row that the walkthroughs of all labs wrote, in one"
    f" run on one machine (`course ledger`, {len(course)} rows). The *pipelines*: the course's own,"
    " for both models of the capstone, three given models each, measured on two draws of new hidden"
    " data (`course remake lab11_capstone`). Points lost are relative to the given model, on the"
    " same hidden data. ±: half of a 95 % interval over the three models. What lab 11 asks students"
    " to guess or to find (random heads and neurons, the survey's errors) is left open here."
)

# %% slideshow={"slide_type": "slide"}
say("## What was pruned, and what it saved")
shown = {
    ("01", "magnitude 90 %"): "single weights",
    ("05", "1:8"): "7 of every 8 weights",
    ("06", "low rank, sing"): "components of matrices",
    ("04", "slimming 70%, fine-tuned"): "channels",
    ("07", "I_h"): "heads, nothing trained",
    ("09", "half the depth, trained"): "layers, trained so",
    ("10", "tokens"): "tokens",
}
rows = []
for (lab, method), name in shown.items():
    row = next(r for r in course if r["lab"] == lab and str(r["method"]).startswith(method))
    bits, fewer, faster, lost = saved(row)
    rows.append([name, lab, f"{bits:.0f}", f"{fewer:.1f}×", f"{faster:.1f}×", pm(lost)])
header = ["pruned", "lab", "bits (%)", "fewer MACs", "faster", "points lost"]
say(tables.Table(header, rows).markdown())

# %% [markdown] slideshow={"slide_type": "notes"}
# Three kinds of rows: fewer products but no time saved (zeros), both (smaller matrices), and
# tokens, where the file keeps its size. Do not rank the rows: models and tasks differ.

# %% slideshow={"slide_type": "slide"}
say("## Fewer MACs, and measured speed-ups")
KINDS = {"slimming": "channels", "filters": "channels", "low": "low rank", "tokens": "tokens"}
KINDS |= {"filters 70": "zeros", "I_h": "heads", "random, half": "heads", "half the": "layers"}
points = []
for row in course:
    if row["lab"] not in ("08", "11", "12") and not str(row["method"]).startswith("dense"):
        fits = [kind for start, kind in KINDS.items() if str(row["method"]).startswith(start)]
        points.append({"kind": (fits or ["zeros"])[-1], "macs": saved(row)[1], "ms": saved(row)[2]})
clocks = pd.DataFrame(points)
fig = plots.new_figure(4.05)
ax = fig.subplots()
ax.plot([1, 20], [1, 20], color="0.6", ls="--")
for marker, (kind, part) in zip("^soDvP", clocks.groupby("kind"), strict=True):
    ax.plot(part["macs"], part["ms"], marker, ms=11, label=kind, alpha=0.8)
ax.set(xscale="log", yscale="log", xlabel="MACs, times fewer", title="times faster")
for axis in (ax.xaxis, ax.yaxis):
    axis.set_ticks([], minor=True)
    axis.set_ticks([1, 2, 5, 10, 20], ["1", "2", "5", "10", "20"])
ax.legend(loc="upper left", ncols=2, labelspacing=0.15, handletextpad=0.1)
plots.show(fig, inches=(5.2, 4.05))
zeros = clocks[clocks["kind"] == "zeros"]
say(
    "Rows of the ledger. Dashed: as many times faster as fewer.\n\nZeros: up to"
    f" **{zeros['macs'].max():.0f}×** fewer products, and {zeros['ms'].min():.1f} to"
    f" {zeros['ms'].max():.1f}× faster. Smaller matrices and shorter texts are faster; few reach"
    " the line."
)

# %% [markdown] slideshow={"slide_type": "notes"}
# One thread, processor time, the batch of each lab. With a tenth of the products of an 8 × 8
# convolution, overhead remains: calling a kernel, batch norm, reading the input. The filters of
# lab 01 are only set to zero; those of lab 05 are removed.

# %% slideshow={"slide_type": "slide"}
one, two = ("magnitude 90 %", "slimming 60 %")
say(
    "## Two minutes: multiply?\n\n"
    + combined(cnn, {one: "magnitude, 90 %", two: "slimming, 60 %"})
    + "\n\n**1.** Do both. If neither affects the other: how many bits, how fast?\n\n**2.** Which"
    " of them first, and why?\n\n**3.** What never becomes smaller?"
)

# %% slideshow={"slide_type": "notes"}
a, b = of(cnn, one, "storage").mean(), of(cnn, two, "storage").mean()
say(
    f"1: {a:.1f} % of {b:.1f} % are {a * b / 100:.1f} %, and still"
    f" {of(cnn, two, 'faster').mean():.1f} times as fast: zeros save no time. 2: measured on a later"
    " slide. Let students argue both ways: in a net with zeros the choice of channels may be better,"
    " or the zeros may be in channels that are removed. 3: unpruned tensors (biases, batch norm's"
    " four vectors), the overhead of calling a layer, and the input."
)

# %% slideshow={"slide_type": "slide"}
say(
    "## What combines: the convolutional net\n\n"
    + combined(
        cnn,
        {
            "magnitude 90 %": "magnitude 90 %",
            "slimming 60 %": "slimming 60 %",
            "slimming 70 %": "slimming 70 %",
            "slimming 70 % + magnitude 60 %": "… + magnitude 60 %",
            "slimming 70 % + magnitude 78 %": "… + magnitude 78 %",
        },
    )
    + "\n\nStructured pruning makes it fast, zeros make it small; neither replaces the other."
    " Training, on digits distorted again in every epoch, makes it good."
)

# %% slideshow={"slide_type": "slide"}
narrow = of(cnn, "slimming 70 %", "storage").mean()
rows = []
for s in (0.6, 0.78):
    left = (1 - s) + 1 / 32
    measured = of(cnn, f"slimming 70 % + magnitude {100 * s:.0f} %", "storage").mean()
    floor = (measured - narrow * left) / (1 - left)
    cells = (f"{narrow * left:.1f} %", f"{measured:.1f} %", f"{floor:.2f} %")
    rows.append([f"magnitude {100 * s:.0f} %", *cells])
header = ["after slimming 70 %", "product alone", "measured", "so v is"]
say(
    "## Sizes multiply, down to a floor\n\n$$u = v + (u_0 - v)\\left(1 - s + \\tfrac1{32}\\right)$$"
    "\n\n$u_0$: share left by structure; $s$: zeros in what is left; a bit for each position"
    " (lab 00); $v$: unpruned tensors.\n\n"
    + tables.Table(header, rows).markdown()
    + f"\n\nBoth rows give the same floor, biases and batch norm: **{100 * floor / measured:.0f} %**"
    " of the smallest net."
)

# %% [markdown] slideshow={"slide_type": "notes"}
# Derive it on the board, from the bits of one tensor in a bitmap: z · 32 + L. The lab uses it to
# predict the BERT's size before training. For the same reason "per cent of the encoder's weights"
# and "per cent of the model" differ more the more you prune. 11.1 counts all tensors.

# %% slideshow={"slide_type": "slide"}
say(
    "## What combines: the BERT\n\n"
    + combined(
        bert,
        {
            "magnitude 50 %": "magnitude 50 %",
            "layers 1 and 3": "two of four layers",
            "heads and neurons 60 %": "heads, neurons 60 %",
            "heads and neurons 60 %, taught": "the same, taught",
            "heads and neurons 60 % + magnitude 50 %, taught": "… + magnitude 50 %",
            "heads 70 %, neurons 80 %, taught": "70 and 80 %, taught",
            "heads 70 %, neurons 80 % + magnitude 60 %, taught": "… + magnitude 60 %",
        },
    )
)

# %% [markdown] slideshow={"slide_type": "notes"}
# Half of the weights as zeros (250 steps) cost 0.9 ± 0.8 points, 60 % of heads and neurons (400
# steps) 0.9 ± 1.1: training was not equal, so do not rank them. Only the second saves time. Whole
# layers lose most here, after 250 steps. Lab 09's
# half depth loses less; its texts are shorter and its training is longer, which was not
# separated. "Taught": next slide. The random baselines belong to the lab.

# %% slideshow={"slide_type": "slide"}
taught, alone = "heads and neurons 60 %, taught", "heads and neurons 60 %"
say(
    "## A teacher\n\nThe given model's answers contain more than the labels. Let the small one match"
    " its softened answers (Hinton et al. 2015) and its states after every layer (Jiao et al. 2020):"
    "\n\n$$T^2\\,\\mathrm{KL}\\bigl(p^T_\\text{given} \\,\\|\\, p^T\\bigr) +"
    " \\tfrac12\\,\\mathrm{CE} + \\sum_l \\tfrac1E\\, \\lVert h_l - h_l^\\text{given} \\rVert^2$$"
    f"\n\nHeads and neurons 60 %, 400 steps: lost {pm(of(bert, alone, 'lost'))} without,"
    f" {pm(of(bert, taught, 'lost'))} with; difference {minus(bert, 'lost', alone, taught)}. No"
    " label is needed for two of the three terms."
)

# %% [markdown] slideshow={"slide_type": "notes"}
# T = 2. States can be compared because width E and the number of layers do not change: heads and
# neurons are removed, the residual stream keeps its size. With fewer layers the sum would need a
# mapping between layers (as in TinyBERT).
#
# {{claim 11.2}}

# %% [markdown] slideshow={"slide_type": "slide"}
# ## In which order?
#
# | first | then | because | lab |
# |---|---|---|---|
# | structure | zeros | zeros in removed parts are wasted | today |
# | a score | a cut, then new scores | scores are valid only locally | 02,&nbsp;07 |
# | cut | batch norm's statistics | the old ones describe the wide net | 01,&nbsp;04 |
# | all cuts | most of the training | it repairs what is left | 07,&nbsp;10 |
# | training | fold, encode, measure | the file is measured | 00,&nbsp;04 |
#
# Each line is a **claim** that needs an experiment.

# %% slideshow={"slide_type": "slide"}
ORDERS = ("narrow, then thin", "thin, then narrow")
LINES = {"left": "weights not zero (%)", "storage": "bits (%)", "products": "products (%)"}
LINES |= {"faster": "times faster", "lost": "points lost"}
weights = experiments.read("lab11_order/weights")
both = experiments.read("lab11_order/measured").merge(weights)
rows = []
for column, name in LINES.items():
    by_net = per_seed(both, column, ["method"]).pivot(index="seed", columns="method", values=column)
    first, second = (by_net[order] for order in ORDERS)
    rows.append([name, pm(first), pm(second), versus(second, first, cell=True)])
thin = weights.groupby("method")["left"].mean()
say(
    "## Both orders, measured\n\n"
    + tables.Table(["", *ORDERS, "difference"], rows).markdown()
    + f"\n\n70 % of the channels, 78 % zeros, as many epochs. Thin first, {thin['thin']:.0f} % of the"
    f" weights are left; in the *kept* channels {thin[ORDERS[1]]:.0f} %: many zeros were in removed"
    " channels. (**Bold**: distinguishable.)"
)

# %% slideshow={"slide_type": "notes"}
say(
    "Three given nets, two trainings of each, averaged (`course remake lab11_order`). The net that"
    " was thin first has more weights and loses more. Its scales were learned under a penalty with"
    " four fifths of the weights held at 0, and its last training follows the wide cut. These causes"
    " are not separated here. For 11.6 students need a measurement of their own."
)

# %% [markdown] slideshow={"slide_type": "slide"}
# ## What a baseline removes
#
# | baseline | removes | the remaining causes | lab |
# |---|---|---|---|
# | as many at random | the choice | counts and training | all |
# | fresh weights, same shape | what was inherited | the architecture | 03,&nbsp;04,&nbsp;09 |
# | dense, trained as long | the pruning | the extra training | 10 |
# | the reversed order | the order | is there one at all? | 07 |
# | another sample, same kind | the difference | variation by chance | 07,&nbsp;09 |
#
# A baseline differs in **one** thing, and gets the **same training**.

# %% [markdown] slideshow={"slide_type": "notes"}
# Ask for an example of each before you show the lab's number. Random: several draws; fix the
# counts of each layer if only the choice within a layer is asked for (channels here; heads and neurons
# are drawn over all layers). The resample: a correlation across domains needs its ceiling.
#
# {{claim 11.4}}


# %% slideshow={"slide_type": "slide"}
def lead(table, value, ours, theirs="random"):
    """Chosen minus random, as a cell."""
    wide = table.pivot_table(index="seed", columns="method", values=value)
    return versus(wide[ours], wide[theirs], cell=True)


rows = []
for data, name in (("digits", "digits"), ("mnist", "MNIST")):
    pruned = experiments.read(f"lab02_criteria_{data}/pruned").query("sparsity == 0.9")
    procedures = (pruned[pruned["procedure"] == when] for when in ("at once", "with training"))
    cells = [lead(part, "accuracy", "magnitude") for part in procedures]
    rows.append([f"weights, 90 %, {name} (02)", *cells])
    removed = experiments.read(f"lab04_slimming_{data}/equal").query("removed == 0.7")
    cells = [lead(removed, v, "slimming", "random channels") for v in ("recalibrated", "accuracy")]
    rows.append([f"channels, 70 %, {name} (04)", *cells])
heads = experiments.read("lab07_heads/fine_tuning").query("removed == 0.5")
cells = [lead(heads[heads["when"] == when], "test", "I_h") for when in ("removed", "fine-tuned")]
rows.append(["heads, half, reviews (07)", *cells])
size = "heads 70 %, neurons 80 % + magnitude 60 %, taught"
rows.append(["heads, neurons, weights (11)", "", lead(bert, "accuracy", size, f"random {size}")])
say(
    "## What was the choice worth?\n\n"
    + tables.Table(["chosen − random, points", "not trained", "trained"], rows).markdown()
    + "\n\n(**Bold**: distinguishable.) Papers often show only one of the columns: ask which."
)

# %% [markdown] slideshow={"slide_type": "notes"}
# Not trained: lab 04 uses recalibrated batch norm statistics; otherwise we would measure their
# effect. Trained on: five epochs (02, 04), 200 steps (07), 1,400 steps with a teacher (11). In
# every row with both columns the choice is worth less after training than before it; only for
# channels could we not detect it any more. We did not vary the length of the training. MNIST is the real data set.
#
# {{claim 11.1}}
#
# {{claim 11.3}}
#
# {{claim 11.5}}

# %% slideshow={"slide_type": "slide"}
ours, theirs = "slimming 60 %", "random channels 60 %"
say(
    "## Two minutes: what may be claimed?\n\n"
    '> "We removed 60 % of the channels by network slimming, trained on for 24 epochs, and lost'
    f' {of(cnn, ours, "lost").mean():.1f} points. Slimming finds the channels that matter."\n\n'
    "Random channels, as many in each layer, as many epochs after the cut:"
    f" {of(cnn, theirs, 'lost').mean():.1f} points lost. Difference:"
    f" {minus(cnn, 'lost', theirs, ours)}.\n\n"
    "**1.** Which sentence of the claim is still supported?\n\n"
    "**2.** Rewrite the second one, so that it is true.\n\n"
    "**3.** Did the baseline show that the choice does *not* matter?"
)

# %% [markdown] slideshow={"slide_type": "notes"}
# 1: the first: a net of these widths, trained in this way, loses so little. 2: for example "at
# these widths and with this training, we could not detect a difference between slimming's channels
# and random ones in three trainings". 3: no: "not detected" is not "equal". The interval shows how
# large a difference is still possible. The *shares* by layer are the same for random channels. Slimming also had
# 16 epochs with the penalty before the cut; this favours slimming.

# %% slideshow={"slide_type": "slide"}
runs = (2, 3, 5, 10)
t = [float(student_t.ppf(0.975, n - 1)) for n in runs]
rows = [
    ["$t$", *(f"{value:.2f}" for value in t)],
    ["half-width, in $s$", *(f"{value / n**0.5:.2f}" for value, n in zip(t, runs, strict=True))],
]
right = [of(bert, name, "accuracy") for name in (taught, alone)]
say(
    "## Three seeds, in pairs\n\n$$\\bar x \\pm t_{n-1,\\,0.975}\\, \\frac{s}{\\sqrt n}$$\n\n"
    + tables.Table(["runs $n$", *map(str, runs)], rows).markdown()
    + f"\n\nThe BERT, heads and neurons 60 %: right in {pm(right[0])} % with a teacher,"
    f" {pm(right[1])} % without. In pairs, model by model: {versus(*right)}. The given model and the"
    " hidden texts are the same for both, so their effect cancels."
)

# %% [markdown] slideshow={"slide_type": "notes"}
# The third run narrows the interval more than any other. The interval is for *these* trainings on
# *this* test set. Many comparisons: of twenty intervals without any effect, one excludes 0 on
# average. The best of twenty candidates, *chosen on the test set*, is lucky for the same reason.

# %% slideshow={"slide_type": "slide"}
say("## Four measures, no best row")
rows = lab11.candidates("cnn")
best = frontier(rows.to_dict("records"))
at_random = rows["method"].str.contains("random")
fig = plots.new_figure(4.05)
ax = fig.subplots()
for i, row in rows.iterrows():
    marker, colour = ("X", "0.5") if at_random[i] else ("o", "C0")
    fill = colour if i in best else "white"
    ax.plot(row["bits"], np.mean(row["lost"]), marker, ms=13, color=colour, mfc=fill, mew=2)
for label, marker, colour, fill in (
    ("on the frontier", "o", "C0", "C0"),
    ("dominated", "o", "C0", "white"),
    ("random", "X", "0.5", "white"),
):
    ax.plot([], [], marker, ms=13, color=colour, mfc=fill, mew=2, label=label)
ax.set(xscale="log", xlabel="bits (% of the given net's)", title="points lost", ylim=(-0.05, 1.05))
ax.set_xticks([], minor=True)
ax.set_xticks([3, 5, 10, 30, 100], ["3", "5", "10", "30", "100"])
ax.legend(loc="upper right", handletextpad=0.1, labelspacing=0.2)
plots.show(fig, inches=(5.2, 4.05))
say(
    "Bits, products, time, accuracy. A row **dominates** another: no worse in all four, better in"
    f" one. {len(best)} of {len(rows)} pipelines are on the **frontier**,"
    f" {at_random[best].sum()} of them random.\n\nA *budget* makes a best row: of those that fit,"
    " the highest mean on **validation** data."
)

# %% [markdown] slideshow={"slide_type": "notes"}
# The picture has two of four axes, so a filled mark may be above an open one. Measured time decides
# dominance among rows of equal widths, and it differs by noise. The lab gives the frontier; 11.2
# has students write `pick`. 11.3 has them find the errors of a published table: leave its cells
# open until they have.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## What an honest row says
#
# | column | write | not |
# |---|---|---|
# | memory | bits of **all** numbers, with the zeros' places | "of the weights" |
# | inference | times faster; type of time, batch, threads | MACs |
# | component | everything that was changed | what sounds best |
# | pretrain | pruned before or after training on the task | |
# | performance | difference, with its interval | "same" |
#
# The lab's rule: *same* if the paired 95 % interval contains 0; *similar* down to −1 point,
# *slightly worse* to −3, then *worse*.

# %% [markdown] slideshow={"slide_type": "notes"}
# The survey of 11.3 has no rule for its last column; `survey.performance` is the course's. "Same"
# by an interval is a weak statement: with few texts everything is "same". So give their number.

# %% slideshow={"slide_type": "slide"}
say("## What broke? One cause at a time")
STAGES = {"sparse-trained": "with L1", "only removed": "70 % out", "all absorbed": "absorbed"}
STAGES |= {"recalibrated": "new BN", "both repairs": "both"}
collapse = experiments.read("lab04_slimming_digits/collapse").query("repair in @STAGES")
stages = collapse.replace({"repair": STAGES})
title = f"Network slimming on digits, {stages['seed'].nunique()} seeds"
plots.show(plots.bars(stages, x="repair", y="accuracy", title=title, fmt="{:.0f}"), inches=(8, 3.0))
reached = stages.groupby("repair")["accuracy"].mean()
say(
    f"70 % out: {reached['with L1'] - reached['70 % out']:.0f} points lost. Absorbing the constants"
    " and recomputing the statistics, without labels:"
    f" **{reached['both'] - reached['70 % out']:.0f}** back. So nearly all the information was still there. Test"
    " each repair alone, and both together."
)

# %% [markdown] slideshow={"slide_type": "notes"}
# Lab 04's collapse; no weight is trained. "Absorbed": the constant output of a removed channel is
# added to the next bias. Fine-tuning alone gives back everything, too, and one would conclude that
# it brought the knowledge back. 11.6 asks for an experiment that could have had another result.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Suspects
#
# | symptom | cause | test | lab |
# |---|---|---|---|
# | a collapse after a cut | stale statistics | recalibrate | 01,&nbsp;04 |
# | pruned weights are back | momentum, Adam | count zeros | 01 |
# | good forecast, bad order | true of one weight | score again | 02 |
# | no head matters | a switch without effect | switch off all | 07 |
# | a layer without heads | scores across layers | count by layer | 07 |
# | answers change in a batch | padding counted | pad, compare | 10 |
# | too good on test images | trained on them | compare losses | 11 |

# %% [markdown] slideshow={"slide_type": "notes"}
# Each of these happened in this course or in published code. The last: a net trained on the test
# images has a much lower cross-entropy there than on validation images (a reason to ask).

# %% slideshow={"slide_type": "slide"}
names = {"cnn": "net", "bert": "BERT"}
rows = [
    [f"{names[kind]} {n}", f"{level.points:g}", f"≤ {100 * level.storage:.0f} %"]
    + [f"≤ {100 * level.macs:.0f} %", f"≥ {level.faster:g}×", f"≤ {level.drop:g}"]
    for kind in ("bert", "cnn")
    for n, level in enumerate(LEVELS[kind], start=1)
]
header = ["all at once, level", "points", "bits", "products", "faster", "lost"]
say(
    "## The capstone: a model is its file\n\n"
    + tables.Table(header, rows).markdown()
    + "\n\nYour code does not run during grading: the tensors' shapes determine the model. Hidden"
    " images and reviews are drawn after you have handed in. The net is optional."
)

# %% [markdown] slideshow={"slide_type": "notes"}
# Students get one of three trainings of each model, by their name. Some random baselines meet some
# levels, too: the levels reward compression, the page rewards explanation.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Your page
#
# | a point for | half of it |
# |---|---|
# | a frontier, and a choice on validation data | a table without a choice |
# | a random baseline, three seeds, an interval | one of the three is missing |
# | the largest loss, its cause **separated** from others | a plausible cause |
# | the order of steps, **measured** | argued |
# | the row, and what it can be compared with | the row |
#
# An unfavourable baseline earns as much as a favourable one.

# %% [markdown] slideshow={"slide_type": "notes"}
# The rubric of 11.6; `docs/capstone.md` has three arguments and their marks. The usual
# half point: "importance works very well" without a random baseline. The usual full one:
# "I believed that steps matter, tried one step with as many epochs, and could not detect a
# difference (0.2 ± 0.6 points)".

# %% [markdown] slideshow={"slide_type": "slide"}
# ## What to take along
#
# - **Structured pruning makes it fast, zeros make it small, training makes it good.**
#   Sizes multiply, down to the unpruned tensors.
# - Narrow first, then thin. And measure it: an order is a claim.
# - A baseline removes **one** cause. After training, random can be a strong baseline (channels) or a
#   weak one (lab 07's heads): measure it.
# - Three seeds, in pairs, with an interval; choose on validation data, use test data
#   once.
# - Fewer MACs need not be faster. Measure processor time, in turns, with the batch.
# - State per cent **of what**.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Lab 11, and where to read on
#
# - Blalock, Gonzalez Ortiz, Frankle & Guttag (2020). What is the state of neural network
#   pruning? *MLSys*.
# - Liu, Sun, Zhou, Huang & Darrell (2019). Rethinking the value of network pruning.
#   *ICLR*.
# - Hinton, Vinyals & Dean (2015). Distilling the knowledge in a neural network.
# - Jiao et al. (2020). TinyBERT: distilling BERT for natural language understanding.
#   *Findings of EMNLP*.
# - Hoefler & Belli (2015). Scientific benchmarking of parallel computing systems. *SC*.
