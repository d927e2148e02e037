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
# # Lab 11 · Capstone: your compression table
#
# **You are given two trained models and everything you have learned. How small, and how
# fast, can they become before they lose what they can do? And how would you convince
# somebody who was not there?**
#
# A convolutional net for digits that are turned, shifted and scaled a little, and a
# small BERT for the sentiment of reviews. Compress each with anything from this course.
# What you hand in are **two files and this notebook**: `capstone-cnn.safetensors` and
# `capstone-bert.safetensors`, beside it.
#
# | part | you write | you find out |
# |---|---|---|
# | A · What does a model weigh? | 11.1 the bits of a whole model | where the bits are |
# | B · A table without a best row | 11.2 the frontier, 11.3 the choice | what a fair comparison looks like |
# | C · Compress | 11.4 the convolutional net, 11.5 the BERT | what combines, and what does not |
# | D · A published table | 11.6 two short answers | where your row stands |
# | E · The argument | 11.7 one page | what you can defend |
#
# 20 points; a weekend. 15 of them come from tests, 5 from your instructor, who reads
# 11.7. After each exercise `check("11.1")` tells you at once what is right. If you are
# stuck, write `skip("11.1")` in a cell: that question scores 0 and the rest of the lab
# goes on with the course's version.
#
# The rules are those of lab 01: guess first; choose on validation data and look at the
# test data once, at the end; no claim without a random control and three seeds.

# %%
from course_lib.grading import check, choose, skip  # noqa: F401  (skip is yours to use)

# isort: split
import numpy as np  # noqa: F401  (yours to use)
import torch
from torch import Tensor, nn

from course_lib import ledger
from course_lib.capstone import LEVELS, given
from course_lib.capstone.handing import number_of, submit
from course_lib.experiments import lab11
from course_lib.pruning import weights
from course_lib.pruning.channels import recalibrate
from course_lib.show import course_table, plots, tables, widgets
from course_lib.show.words import minus, say, you_wrote
from course_lib.training import evaluate

# your name or number: it decides which of three trainings you are given, and your
# letters in 11.6
STUDENT = ""

# %% [markdown]
# ## Settings
#
# There are three trainings of each model, and your name decides which you get. Nobody's
# row is your row.
#
# **A model is its file.** When it is graded nothing of your code runs: the tensors'
# shapes say what model it is. The convolutional net may have fewer filters than given;
# the BERT fewer layers, fewer heads in each, narrower feed-forward parts, and a
# schedule of tokens to drop. Everything is float32: shorter numbers are another axis
# (you will meet it in 11.6).
#
# **It is measured the same way for everyone**, against the model you were given:
#
# - *storage*: 11.1, every tensor in its cheapest format;
# - *products*: those with a weight that is not 0, for one image, or one text without
#   padding (with tokens dropped, if you drop any);
# - *speed*: the processor's time of one thread, the two models taking turns;
# - *accuracy on hidden data*: the 400 test images, five times each, distorted by a seed
#   that nobody knows yet; 1,500 reviews drawn by it.

# %%
LIVE = {
    "narrow": 48,
    "thin": (24, 24, 24, 24, 64),
    "steps": 250,
}  # epochs and steps of what the walkthrough trains while you wait
NUMBER = number_of(STUDENT)
plots.use_style()
torch.set_num_threads(1)

convnet, bert = given("cnn", NUMBER), given("bert", NUMBER)
say(f"Yours are the models number {NUMBER}.")
tables.plain(lab11.levels())

# %% [markdown]
# **Where you start from**: everything that the labs before measured, on one machine in
# one run (`course ledger` prints it as a table, with the papers' figures). Filled:
# faster than its dense model, too.

# %%
plots.show(course_table.picture([row for row in course_table.rows() if row["lab"] != "11"]))

# %% [markdown]
# ## Part A · What does a model weigh?
#
# ### 11.1 The bits of a whole model
# **30 minutes · 2 points**
#
# In lab 00 you stored a matrix. A model is more: biases, the scales and statistics of
# norms, embeddings. All of them are numbers that somebody has to keep. And each tensor
# has a format of its own that suits it best: so every tensor is stored in the cheapest,
# and two more bits say which of the four it was.
#
# With $L$ entries, $z$ of them not zero, and $w(k) = \lceil\log_2 k\rceil$ (0 for
# $k \le 1$), at `bits` a value: **dense** $L\cdot\text{bits}$; a **bitmap**
# $z\cdot\text{bits} + L$; **COO** $z\,(\text{bits} + w(L))$; and, for a tensor with two
# or more dimensions, seen as a matrix of its first dimension $R$ by all others $C$,
# **CSR** $z\,(\text{bits} + w(C)) + (R+1)\,w(z+1)$.
#
# *Before you write anything:* which share of the given BERT's numbers lies outside its
# weight matrices and embeddings: in biases and norms?

# %%
### BEGIN SOLUTION
prediction_11_1 = "1 %"
### END SOLUTION


# %%
def model_bits(state: dict[str, Tensor], tied: dict[str, str] | None = None, bits: int = 32) -> int:
    """The bits of a model, each tensor in its cheapest format, and 2 bits a tensor that
    say which.

    Write it yourself: not with ``course_lib.cost``.

    Args:
        state: name -> tensor, as of ``state_dict()``. Integer and bool tensors
            (counters, masks) are not stored.
        tied: name -> the name whose numbers it shares: not stored again.
        bits: of a value.

    Returns:
        Of all floating tensors together. −0.0 is a zero, NaN is a value.

    Raises:
        ValueError: if a name in ``tied`` or the one that it points to is not in the
            state, or that one is tied itself.
    """
    tied = tied or {}
    for name, other in tied.items():
        if name not in state or other not in state or other in tied:
            raise ValueError(
                f"{name!r} is tied to {other!r}: both should be in the state, and the second not"
                " tied itself"
            )
    ### BEGIN SOLUTION

    def width(k: int) -> int:
        return max(k - 1, 0).bit_length()  # ⌈log₂ k⌉

    def cheapest(x: Tensor) -> int:
        entries, there = x.numel(), int((x != 0).sum())
        formats = [entries * bits, there * bits + entries, there * (bits + width(entries))]
        if x.ndim >= 2 and entries:
            rows, columns = x.shape[0], entries // x.shape[0]
            formats.append(there * (bits + width(columns)) + (rows + 1) * width(there + 1))
        return min(formats)

    return sum(
        cheapest(x) + 2 for name, x in state.items() if x.is_floating_point() and name not in tied
    )
    ### END SOLUTION


# %%
check("11.1")

# %% [markdown]
# <details><summary>Hint 1: ⌈log₂ k⌉ without rounding
# errors</summary><code>(k - 1).bit_length()</code> for k ≥ 1.</details>
# <details><summary>Hint 2: what counts</summary><code>x.is_floating_point()</code>; and
# <code>x != 0</code> is False for −0.0 and True for NaN.</details>
# <details><summary>Hint 3: one tensor at a time</summary>The minimum is taken for each
# tensor, not for the sum.</details>

# %%
print(f"All of the given BERT: {model_bits(bert.state_dict()) / 8e6:.2f} MB.")
say(you_wrote(prediction_11_1))
tables.plain(lab11.parts_of_bert(bert.state_dict(), model_bits))

# %% [markdown]
# Biases and norms weigh next to nothing *while the rest is large*. Prune the matrices
# to a tenth, and what nobody prunes is a tenth of what is left. That is why the levels
# speak of the whole model, and why papers that speak of "encoder weights" report
# smaller numbers.
#
# ## Part B · A table without a best row
#
# ### 11.2 The frontier
# **20 minutes · 2 points**
#
# A method is smaller, another faster, a third more accurate. Which is best? None, and
# that is no excuse to stop thinking: some rows are beaten by another in *everything*.
# What is left is the **frontier**.


# %%
def frontier(rows: list[dict]) -> list[int]:
    """The rows that no other dominates.

    Write it yourself: not with ``course_lib.cost``.

    Args:
        rows: with ``bits``, ``macs``, ``ms`` (less is better) and ``accuracy`` (more is
            better); other keys do not count.

    Returns:
        Indices, increasing. A row dominates another if it is no worse in all four and
        better in at least one; equal rows do not dominate each other.
    """
    ### BEGIN SOLUTION

    def dominates(a: dict, b: dict) -> bool:
        pairs = [(a[key], b[key]) for key in ("bits", "macs", "ms")] + [
            (-a["accuracy"], -b["accuracy"])
        ]
        return all(x <= y for x, y in pairs) and any(x < y for x, y in pairs)

    return [i for i, row in enumerate(rows) if not any(dominates(other, row) for other in rows)]
    ### END SOLUTION


# %%
check("11.2")

# %% [markdown]
# <details><summary>Hint</summary>Write <code>dominates(a, b)</code> first. With the
# sign of accuracy turned, less is better in all four.</details>

# %% [markdown]
# ### 11.3 The choice
# **20 minutes · 2 points**
#
# Somebody gives you a budget. Then there is a best row: of those that fit, the most
# accurate, *on the validation data, over all seeds*. Test data say afterwards how good
# it is; whoever chooses by them has used them up.


# %%
def pick(candidates: list[dict], budget: dict) -> int | None:
    """Which candidate to take for a budget.

    Write it yourself: not with ``course_lib.cost``.

    Args:
        candidates: ``bits``, ``macs``, ``faster``, and ``validation``, a list with an
            accuracy for each seed; perhaps others, such as ``test``.
        budget: any of ``bits`` and ``macs`` (at most) and ``faster`` (at least); a
            limit that is None or missing is none. Exactly at a limit fits.

    Returns:
        The index of the one that fits with the largest mean validation accuracy; equal:
        with fewer macs, then the first. None if nothing fits.
    """
    ### BEGIN SOLUTION

    def fits(candidate: dict) -> bool:
        limits = {key: limit for key, limit in budget.items() if limit is not None}
        return all(
            candidate[key] >= limits[key] if key == "faster" else candidate[key] <= limits[key]
            for key in limits
        )

    fitting = [i for i in range(len(candidates)) if fits(candidates[i])]
    if not fitting:
        return None
    return min(
        fitting,
        key=lambda i: (-sum(v := candidates[i]["validation"]) / len(v), candidates[i]["macs"]),
    )
    ### END SOLUTION


# %%
check("11.3")

# %% [markdown]
# <details><summary>Hint</summary><code>min</code> with a key of two parts takes the
# first of equal ones by itself.</details>

# %% [markdown]
# #### Experiment: everything that the course tried, in one picture
#
# The course's own pipelines for both models, three trainings of each, measured as yours
# will be, on two draws of hidden data (stored; `course remake lab11_capstone`, a quarter
# of an hour; [how the tables are read](../course_lib/experiments/lab11.py)). Circles: chosen by what you have learned. Crosses: as many heads,
# neurons or channels *at random*, with the same training behind it.
#
# *Before you look:* BERT, 60 % of its heads and neurons gone, trained on: how many
# points are between the important ones and random ones?

# %%
### BEGIN SOLUTION
prediction_11_3 = 3
### END SOLUTION


# %%
pipelines = {model: lab11.pipelines(model) for model in ("cnn", "bert")}
rows = {model: lab11.candidates(pipelines[model]) for model in pipelines}
print("Frontier:", {model: frontier(rows[model].to_dict("records")) for model in rows})
plots.show(lab11.picture(rows, frontier))

# %% [markdown]
# Bars reach from the best to the worst of the three given models. Filled points are on
# the frontier of all four measures. Grey lines are the levels' storage and accuracy. The
# rows of the tables have the numbers of the picture. "Levels met" is how many of the
# three levels are met for all three given models, on both draws of hidden data.

# %%
SHOWN = ["number", "method", "storage", "products", "faster", "lost", "lost_least", "lost_most"]
tables.plain(rows["cnn"][[*SHOWN, "levels_met"]], {"faster": 2})

# %%
tables.plain(rows["bert"][[*SHOWN, "levels_met"]], {"faster": 2})

# %% [markdown]
# How many points more does a random choice lose, with the same training?

# %%
pairs = lab11.chosen_or_random(pipelines)
tables.show(tables.compare(pairs, "lost", against="chosen", columns="pipeline"))
teacher = minus(
    pipelines["bert"], "lost", "heads and neurons 60 %", "heads and neurons 60 %, taught"
)
say(f"Without a teacher 60 % of BERT's heads and neurons cost {teacher} more than with one.")
say(you_wrote(prediction_11_3))

# %% [markdown]
# **What combines.** Structure makes both models fast, zeros make both small, and
# neither does the other's work: magnitude alone wins no time at all, narrowing alone
# stops at a tenth (of the net) or 40 % (of the BERT). Together they reach 3 % and 18 %,
# with less than a point lost. A teacher helps, and that is shown: with the given
# model's answers and states beside the labels, 60 % of the heads and neurons cost about
# half of what they cost without. Whole layers are the worst bargain here: the first and
# third keep 59 % and lose up to 15 points. (In lab 09 half the depth was nearly free,
# *for a model that was trained for it*.)
#
# **What the random control says.** On the convolutional net: nothing is shown, neither
# at 60 % nor at 3 % of the bits. Trained as long on as many distorted digits, random
# channels lose what those lose that slimming chose, within the intervals. That is Liu
# et al.'s finding (2019), and it means that the *levels* are no proof of a good
# *choice*. On the BERT the choice is worth a point at the smallest size, shown; at 60 %
# three trainings do not show it, though on each of them chance was worse. Which is the
# reason why 11.7 asks for your control, with the *same* training.
#
# How these levels came about: they were drawn round pipelines like these, and proved on
# draws of hidden data that nobody had seen. Every level is met by one of them for all
# three trainings.
#
# ## Part C · Compress
#
# ### 11.4 The convolutional net
# **120 minutes · 4 points**
#
# Write your pipeline below. `submit` writes the file, reads it back, measures it on
# *validation* images and shows where it stands. Call it as often as you like; the last
# file counts.
#
# Train with the distortions, as the net that you were given was:
# `lab11.tuned(model, seed, epochs)` does (a second for ten epochs). On plain digits a
# compressed net keeps 98 % of the plain test images and loses the distorted ones.
#
# What you may train on: the training images. The test images are public, and nobody can
# keep you from them; a net that was trained on them is told by its losses, and somebody
# will ask you.
#
# **Points**: level 1 one, level 2 one and a half, level 3 one and a half, each for all
# four measures at once.


# %%
def compress_convnet(model: nn.Module) -> nn.Module:
    """Your pipeline: from the net as it was given to the one that you hand in."""
    ### BEGIN SOLUTION
    narrow = lab11.slimmed(model, (0.6, 0.7, 0.7, 0.7), seed=0, epochs=LIVE["narrow"])
    return lab11.thinned(narrow, (0.4, 0.6, 0.7, 0.75, 0.78), LIVE["thin"], seed=0)
    ### END SOLUTION


# %%
my_convnet = compress_convnet(convnet)
of_convnet = submit(my_convnet, "cnn", "filters, weights", STUDENT)

# %%
check("11.4")

# %% [markdown]
# <details><summary>Hint 1: no time is won by zeros</summary>Zeros make a file smaller,
# and save products; faster is what has fewer filters.</details>
# <details><summary>Hint 2: an order</summary>First what makes it narrow, then what
# makes it sparse: magnitude on a wide net prunes weights of filters that go
# anyway.</details>
# <details><summary>Hint 3: level 3</summary>Small steps, with training behind each, and
# the most training at the end.</details>

# %% [markdown]
# ### 11.5 The BERT
# **120 minutes · 4 points**
#
# The same with `reviews-bert`; `lab11.trained(model, steps, seed)` trains it on (some
# ten seconds for a hundred steps of 32 texts). Here there is nothing to be had by
# looking at the test data: they do not exist yet. You may draw as many training texts
# as you like (`lab11.texts()` has 8,000).
#
# A schedule of dropped tokens (lab 10) goes along:
# `submit(model, "bert", …, tokens={1: 0.5})`, layer → share kept.


# %%
def compress_bert(model: nn.Module) -> nn.Module:
    """Your pipeline: from the BERT as it was given to the one that you hand in."""
    ### BEGIN SOLUTION
    narrow = lab11.narrowed(model, heads=0.6, neurons=0.6)
    return lab11.trained(narrow, LIVE["steps"], seed=0, loss=lab11.taught(model))
    ### END SOLUTION


# %%
my_bert = compress_bert(bert)
of_bert = submit(my_bert, "bert", "attention heads, feed-forward neurons", STUDENT)

# %%
check("11.5")

# %% [markdown]
# <details><summary>Hint 1: level 1</summary>Heads by lab 07's score, feed-forward
# neurons by the same idea (a gate on each:
# <code>course_lib.pruning.layers.ffn_importance</code>), both cut out, and some hundred
# steps. <code>lab11.losses</code> is the loss of each text, and
# <code>lab11.stream(seed)</code> yields batches without end.</details>
# <details><summary>Hint 2: a teacher</summary>The model that you were given knows more
# than the labels: let the small one match its answers and its states
# (<code>lab11.taught</code>).</details>
# <details><summary>Hint 3: level 3</summary>More heads and neurons, then magnitude on a
# slow schedule, both with the teacher (<code>lab11.faded</code>).</details>

# %% [markdown]
# (The walkthrough's BERT stops at level 1, since it is made while you wait. The
# pipelines of the result file go on to level 3.)
#
# ## Part D · A published table
#
# ### 11.6 Two short answers
# **10 minutes · 1 point**
#
# With the BERT, `submit` showed the table of Yichu Zhou's blog post [*BERT Compression:
# Weight Pruning*](https://github.com/flyaway1217/ResearchBlog/blob/faa0fdab919780b0df577390ac7cf1f0da7ca869/content/Bert-Compression-Weight-Pruning.md)
# (3 September 2020), here called *the survey*. Two rows are corrected after the papers: Gordon et
# al. keep 60 to 70 % of the memory (30 to 40 % is what they remove), and Sanh et al. remove
# single weights of the encoder, not layers and heads. In Guo's row "worse" can be meant for
# smaller sizes only: at 41 % (59.3 % removed) the post's own text reports no loss. No row
# has a time: that is why you measured it.
#
# **a.** Q8BERT, Quant-Noise and Q-BERT have N/A in every column. Why?

# %%
choose(
    "11.6a",
    "Their authors give no figures.",
    "They make numbers shorter, not fewer: another axis, to be multiplied with these rows and not"
    " ranked among them.",
    "They need special hardware.",
    "They were published after the survey.",
)

# %% [markdown]
# **b.** Your row says "memory x %", the survey's rows say "BERT: 100 %". Which share of
# the given BERT's own numbers are its embeddings (words, positions, types), which
# hardly any row of the survey touches? (Between 0 and 1; within 0.01.)

# %%
### BEGIN SOLUTION
answer_11_6a = "B"
answer_11_6b = 0.151
### END SOLUTION

# %%
check("11.6")

# %% [markdown]
# ## Part E · The argument
#
# ### 11.7 One page
# **120 minutes · 5 points**
#
# (From your instructor, who reads it.)
#
# Write a page (Markdown, returned by the function below; figures in cells of your own
# behind it) that somebody can check who has not taken this course:
#
# 1. **The frontier**: your candidates in one table or figure, and the choice made on
#    validation data. *1 point*
# 2. **Evidence**: a random control with the same training, at least three seeds, an
#    interval. *1 point*
# 3. **What broke**: the largest loss on the way, and its cause, *shown* by an
#    experiment that separates it from others. *1 point*
# 4. **The order**: why these steps in this order, argued from a measurement. *1 point*
# 5. **The row**: your line in the survey's table, and which of its rows it may be
#    compared with and which not. *1 point*


# %%
def argument() -> str:
    """Your page, as Markdown. Figures go into cells of your own, behind it; numbers are
    computed here, or above.
    """
    ### BEGIN SOLUTION
    narrow = lab11.slimmed(convnet, (0.6, 0.7, 0.7, 0.7), seed=0, epochs=LIVE["narrow"])
    images = lab11.digits()
    steps = {"narrow": evaluate(narrow, images.validation)}
    weights.apply(narrow, weights.global_masks(weights.magnitude(weights.prunable(narrow)), 0.78))
    steps["78 % of the weights gone"] = evaluate(narrow, images.validation)
    recalibrate(narrow, images.train.images)
    steps["batch norm's statistics taken anew"] = evaluate(narrow, images.validation)
    steps["trained on"] = evaluate(my_convnet, images.validation)
    cnn, candidates = pipelines["cnn"], rows["cnn"].to_dict("records")
    best = frontier(candidates)
    dense, level = candidates[0], LEVELS["cnn"][2]
    chosen = pick(
        candidates,
        {
            "bits": level.storage * dense["bits"],
            "macs": level.macs * dense["macs"],
            "faster": level.faster,
        },
    )
    thin = "slimming 70 % + magnitude 78 %"
    chance = minus(cnn, "lost", "random channels 70 % + magnitude 78 %", thin)
    one_step = minus(cnn, "lost", f"{thin}, in one step", thin)
    return f"""
**What was done.** The net was narrowed by network slimming (60 to 70 % of the channels of each layer), then thinned by magnitude in five steps to 78 %, with training on distorted digits behind each. It keeps
{of_convnet.storage:.1%} of the bits and {of_convnet.macs_share:.1%} of the products, is {of_convnet.faster:.1f} times as fast, and has {of_convnet.accuracy:.1f} % on distorted validation images against {of_convnet.given_accuracy:.1f} %.

**The frontier.** Of the pipelines in the table of part B, numbers {", ".join(map(str, best))} are on it. For level 3's budget `pick` takes number {chosen}, {"" if chosen is None else candidates[chosen]["method"]}, by the *validation* images of three trainings. (Several fit, and lie within their intervals.)

**Evidence.** Random channels, trained as long, lose {chance} more than slimming's. I cannot claim that slimming's choice is what made it work: the training did.

**What broke.** Accuracy on plain validation images: {", ".join(f"{what} {value:.1f} %" for what, value in steps.items())}. What the statistics alone bring back was not lost with the weights; the rest was, and training brought it back.

**The order.** Narrow first: magnitude 90 % alone is no faster ({candidates[1]["faster"]:.2f} times), since zeros save no time here. That the five steps matter I believed, and it is not so: 78 % in one step with as many epochs loses
{one_step} more.

**The row.** Comparable with the survey's rows that count *all* weights (Gordon, Guo); not with Sanh's, who counts the encoder alone, nor with Q8BERT, which is another axis. And none of them measured time.
"""
    ### END SOLUTION


# %%
say(argument())

# %%
ledger.table()

# %% [markdown]
# ## Play
#
# ### A budget, and what to take
#
# Move the limits: the picture shows what fits, and your `pick` says which pipeline it
# takes. (Tab goes to a slider, arrow keys move it.)


# %%
widgets.explorer(
    lambda kind, storage, faster: lab11.explore(rows[kind], pick, kind, storage, faster),
    kind=widgets.choice({"convolutional net": "cnn", "BERT": "bert"}, "bert", "model"),
    storage=widgets.slider(2, 100, 1, 30, "storage ≤ (%)"),
    faster=widgets.slider(0.5, 3.0, 0.1, 1.5, "times faster ≥"),
)

# %% [markdown]
# ## What you take with you
#
# - A model is its file, and its size is all of it, with the places of its zeros.
# - Four measures, no best row: a frontier, and a choice for a budget, made before test
#   data are seen.
# - Structure makes it fast, zeros make it small, training makes it good; and a random
#   control says which of the three you owe your result to.
# - What can be argued is what was measured: with a control, an interval, and a cause.
#
# ## Going further
#
# - **A model of your own.** Everything here is in `course_lib`; `docs/own_models.md`
#   has a how-to for each method.
# - **The other axis.** Quantise what you have pruned, and multiply.
# - **Read.** G. Hinton, O. Vinyals, J. Dean, [*Distilling the Knowledge in a Neural
#   Network*](https://arxiv.org/abs/1503.02531), 2015. X. Jiao et al.,
#   [*TinyBERT*](https://arxiv.org/abs/1909.10351), 2020. D. Blalock et al., [*What is the
#   State of Neural Network Pruning?*](https://arxiv.org/abs/2003.03033), 2020. Z. Liu et
#   al., [*Rethinking the Value of Network Pruning*](https://arxiv.org/abs/1810.05270),
#   2019. The survey's rows: [Q8BERT](https://arxiv.org/abs/1910.06188),
#   [Quant-Noise](https://arxiv.org/abs/2004.07320), [Q-BERT](https://arxiv.org/abs/1909.05840),
#   [Gordon](https://arxiv.org/abs/2002.08307), [Guo](https://arxiv.org/abs/1909.12486),
#   [Sanh](https://arxiv.org/abs/2005.07683), [Raganato](https://arxiv.org/abs/2002.10260),
#   [Fan](https://arxiv.org/abs/1909.11556), [Wang](https://arxiv.org/abs/1910.04732).
