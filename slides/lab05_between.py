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
import math

import pandas as pd
import torch

from course_lib.cost import encodings
from course_lib.cost.block_formats import nm_bits
from course_lib.experiments import lab05
from course_lib.pruning.activations import gated_macs
from course_lib.pruning.weights import combine_columns, group_columns, nm_mask
from course_lib.show import drawings, plots, tables
from course_lib.show.words import pm, say

plots.use_style()
dense, patterns, packed, joint = map(lab05.read_both, ("dense", "patterns", "packed", "joint"))
runs = dense.groupby("images", sort=False)["validation"]


def percent(value, digits=0):
    return f"{100 * value:.{digits}f} %"


# %% [markdown] slideshow={"slide_type": "slide"}
# # Between a weight and a filter
#
# Neural-network pruning · lecture to lab 05
#
# *Zeros anywhere cost little accuracy and save no time on most hardware. Removing whole
# filters saves time and costs accuracy. Is there something in between?*

# %% slideshow={"slide_type": "notes"}
say(
    "All figures, unless stated otherwise: the conv net of labs 01 and 04, conv2 to conv4 pruned"
    " along their inputs, validation accuracy. Dense:"
    f" {', '.join(f'{name} {pm(of)} % ({len(of)} seeds)' for name, of in runs)}. The result files"
    " are remade by `course remake lab05_between_digits` and `lab05_between_mnist`. 'Left open'"
    " marks what the lab asks students to predict: let them write their guesses down."
)

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Two ends
#
# | | single weights (lab 01) | whole filters (lab 04) |
# |---|---|---|
# | freedom | any zeros | a filter at a time |
# | what is left | the same tensor, with zeros | a smaller tensor |
# | faster without special hardware | rarely (lab 00) | yes |
#
# For a dense kernel a zero is a number like any other.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Four things in between
#
# | | fixed before | chosen | when |
# |---|---|---|---|
# | **N:M** | n of every m are kept | which n | once |
# | **columns combined** | a cell holds one weight | which columns share cells | once |
# | **activations** | how many are kept | which | at every input |
# | **gates** | nothing | whole channels | at every input |
#
# Two questions: what does it cost in accuracy? On *which* hardware does it save time?

# %% slideshow={"slide_type": "slide"}
say("## N of every M")
weight = torch.tensor(
    [[9, -2, 5, 1, 0, 3, -7, 7], [1, 2, -1, -3, 6, -8, 2, 5], [0, 0, 4, 0, -2, 6, -6, 1.0]]
)
plots.show(drawings.nm_blocks(weight, 1, 4))

# %% [markdown]
# In each block of $m$ neighbours along the inputs exactly the $n$ largest $|w|$ are
# kept. Of four large ones three are pruned; of four tiny ones one is kept.

# %% [markdown] slideshow={"slide_type": "notes"}
# Two common mistakes in code. One keeps m − n instead of n: 2:4 cannot reveal it, so
# test 1:4. (Wanda's `prune_n` counts zeros, NVIDIA's 2:4 kept weights.) The other
# flattens a convolution (M, C, R, S), so blocks run across the kernel: they belong
# along C. Source: Mishra et al. 2021. Kung, McDanel & Zhang 2019 is sometimes cited for
# N:M, but that paper is about columns (later today). Row 1's last block has two of size
# 7: of equal sizes the first is pruned.

# %% slideshow={"slide_type": "slide"}
gaussian = torch.randn(64, 4096, generator=torch.Generator().manual_seed(0))
rows = []
for n, m in ((1, 4), (2, 8), (4, 16)):
    kept = gaussian.abs() * nm_mask(gaussian, n, m, 1)
    rows.append({
        "pattern": f"{n}:{m}",
        "masks of 16 neighbours": f"{math.comb(m, n) ** (16 // m):,}",
        "bits per place": str(encodings.index_width(m)),
        "Σ|w| kept (%)": 100 * float(kept.sum() / gaussian.abs().sum()),
    })  # fmt: skip
say("## Freedom, counted in masks\n\nThree in four pruned, weights from a normal distribution:")
tables.show(tables.plain(pd.DataFrame(rows)))
say("A larger block leaves more choice, and needs more bits per place and a wider selector.")

# %% [markdown] slideshow={"slide_type": "notes"}
# The sum of sizes is not accuracy; it is all that magnitude measures.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Equal weights are not equal products
#
# Seven in eight **filters** of each layer are pruned. What is left of the next layer?
#
# | | filters kept | inputs kept | products |
# |---|---|---|---|
# | N:M, 1:8 | all, 1/8 of each | all | **1/8** |
# | filters, the first pruned layer | 1/8 | all | **1/8** |
# | filters, each layer after it | 1/8 | 1/8 | **1/64** |
#
# A table at equal sparsity compares filters at a fraction of the products. Fair: keep more
# filters, until the *products* are equal (lab 04: equal MACs).

# %% [markdown] slideshow={"slide_type": "notes"}
# "At 87.5 % sparsity" says nothing about cost if the patterns differ. Here the filters are
# really removed before training, and their number is chosen so that products agree within
# 3 %.

# %% slideshow={"slide_type": "slide"}
say("## One line is missing")
fig = plots.curves(
    patterns.query("method != 'N:M'"),
    x="target",
    y="finetuned",
    xaxis="remaining",
    xlabel="products left",
    ylabel="validation accuracy (%)",
    panels="images",
    control="N:M at random",
    title="At equal products, after training",
)
plots.show(fig, inches=(8, 3.5))

# %% [markdown]
# > **Left open.** Where does N:M run, chosen by size? The lab draws the line.

# %% slideshow={"slide_type": "slide"}
eighth = patterns.query("target == 0.125 and method != 'N:M'")
say("## And on MNIST?\n\nAn eighth of the products, points above or below single weights:")
tables.show(tables.compare(eighth, "finetuned", against="element", columns="images"))
say("**Bold**: distinguishable. Filters are behind on both; MNIST tells finer patterns apart, too.")

# %% [markdown] slideshow={"slide_type": "notes"}
# {{claim 05.1}}
#
# {{claim 05.2}}
#
# {{claim 05.3}}

# %% slideshow={"slide_type": "slide"}
say("## Storing it")
plots.show(drawings.nm_blocks(weight, 2, 4))

# %% [markdown]
# $$R\,C\;\frac{n}{m}\;\bigl(b + \lceil \log_2 m \rceil\bigr)\ \text{bits}$$
#
# A value's *block* follows from its position in the list; only its place *in the block*
# is stored. No row pointers, no search.

# %% [markdown] slideshow={"slide_type": "notes"}
# b: bits of a value. Row 3 has a block with one non-zero: it is filled up with the
# lowest free place and a zero, so that the next block begins at a known position. The
# common mistake is to omit such zeros: then all later values move.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Two minutes: a data sheet
#
# > "Our unit multiplies 2:4 with half of the products. 1:4 and 3:4 are planned."
#
# **1.** Values of 8 bits. How many bits is a block of four, stored as 1:4, 2:4, 3:4,
# and dense? And with values of 4 bits?
#
# **2.** Your network has as many zeros as 1:4, but *anywhere*. Why can the unit not use
# it?

# %% slideshow={"slide_type": "notes"}
sizes = {b: [nm_bits(1, 4, n, 4, b) for n in (1, 2, 3)] for b in (8, 4)}
say(
    f"1: {', '.join(map(str, sizes[8]))} and 32 bits; with 4-bit values"
    f" {', '.join(map(str, sizes[4]))} and 16: 3:4 is then *larger* than dense. 2: where zeros may"
    " be anywhere, some blocks hold two or more weights; a unit with one multiplier per block"
    " would have to drop some of them, or wait for the fullest block each time. Exactly n holds"
    " for every block, not on average."
)

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Multiplying it
#
# $$y_r = \sum_{k=0}^{K-1} v_{rk}\; x_{\,m\lfloor k/n \rfloor + i_{rk}}, \qquad K = C\,\frac{n}{m}$$
#
# $v$: values, $i$: places. $K$ products for **every** output, $n$ numbers from every block
# of $x$: the schedule is known before the weights.
#
# | who can use it | what is saved |
# |---|---|
# | any machine | memory, and memory traffic |
# | a unit made for it: 2:4 in NVIDIA's tensor cores from the A100 on (**not** V100) | up to half of the time of a product |
# | a dense kernel | nothing |

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Is 2:4 faster? One published timing
#
# **Not ours.** The promise: twice the math rate (Mishra et al. 2021). Measured by the authors
# of [torchao](https://github.com/pytorch/ao/blob/02446fa5b14a33dff8a344b19cc3bd229fc5ebf5/torchao/sparsity/training/README.md):
# an MLP of ViT-L, forward and backward, half precision, on an A100:
#
# | | time |
# |---|---|
# | dense | 11.5 ms |
# | weights 2:4 | 9.2 ms |
#
# Why is this not a factor of two?

# %% [markdown] slideshow={"slide_type": "notes"}
# Only some of the products in a training step use the sparse weights; selection and
# compression in every step take time; the traffic of activations is the same. A math rate
# is an upper bound, a timing is an answer.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Columns on top of each other
#
# A systolic array has a cell per weight: with sparse columns most cells hold a 0.
#
# Kung, McDanel & Zhang (2019): pack several sparse columns **into one**, if they seldom
# have a weight in the same row. Each cell then holds one weight, and a multiplexer
# selects its channel.
#
# - Where two weights need one cell, a **conflict**, the smaller is pruned.
# - A convolution is the matrix (M, C·R·S): a column is one place of the kernel in one
#   channel.
# - Afterwards the network is trained on.

# %% slideshow={"slide_type": "slide"}
say("## Eight columns in three")
sparse = torch.zeros(6, 8)
for r, c, value in (
    (0, 0, 5), (0, 3, -2), (0, 6, 7), (1, 1, 4), (1, 4, -6), (2, 0, -3), (2, 5, 8), (3, 2, 9),
    (3, 4, 1), (3, 7, -5), (4, 1, -4), (4, 3, 6), (5, 2, 2), (5, 5, -7), (5, 0, 3),
):  # fmt: skip
    sparse[r, c] = value
GAMMA = 1 / 6
grouped = group_columns(sparse, 3, GAMMA)
_, _, stays = combine_columns(sparse, grouped)
plots.show(drawings.columns_packed(sparse, grouped))
gone = int((sparse != 0).sum() - stays.sum())
say(
    f"At most 3 columns and {round(GAMMA * 6)} conflict per group: {gone} weight{'s' * (gone != 1)}"
    f" lost, and **{percent(float(stays.sum()) / (6 * len(grouped)))}** of the cells in use instead"
    f" of {percent(float((sparse != 0).double().mean()))}."
)

# %% [markdown] slideshow={"slide_type": "notes"}
# Crossed out: a weight that loses its cell. The packed array stores the channel of each
# cell, as N:M stores a place in the block: the same idea, with chosen blocks.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## The rule, and its two limits
#
# $$\text{conflicts}(G) = \underbrace{\textstyle\sum_{c \in G} \operatorname{nnz}(c)}_{\text{weights}} - \underbrace{\bigl|\{r : \text{some } w_{rc} \ne 0\}\bigr|}_{\text{rows in use}}$$
#
# 1. Take the columns in order, the fullest first.
# 2. Each joins, among the groups that may take it, the one whose combined column
#    becomes **fullest**.
# 3. A group may take it if it has fewer than *size* columns and, *with it*, at most
#    $\gamma R$ conflicts in all.
# 4. If there is none, it opens a group.

# %% [markdown] slideshow={"slide_type": "notes"}
# Three weights in one row are two conflicts. The paper calls the first limit α. γ = 0: nothing
# is lost at all.

# %% slideshow={"slide_type": "slide"}
say("## What does utilisation cost?")
fig = plots.curves(
    packed.query("limit != 'none'"),
    x="utilisation",
    y="lost",
    along="limit",
    panels="images",
    control="random order",
    ylabel="weights lost (%)",
    title="Groups of at most 8 columns",
)
plots.show(fig, inches=(8, 2.7))
free = packed.query("limit == 'γ 0' and method == 'greedy'").groupby("images", sort=False)
use = free["utilisation"].mean()
say(
    f"γ = 0, 0.05, 0.25, 0.5. γ = 0 loses no weight and fills {use['digits']:.0f} % of the cells"
    f" (MNIST {use['MNIST']:.0f} %) instead of 15 %.\n\n"
    "> **Left open.** *Without* a limit: is the greedy order better than random groups?"
)

# %% [markdown] slideshow={"slide_type": "notes"}
# {{claim 05.4}}
#
# Write the votes on the board: the lab has the answer, and it depends on what "fullest"
# rewards.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Two minutes: pack by hand
#
# $$\begin{array}{c|rrrrr} & \text{A} & \text{B} & \text{C} & \text{D} & \text{E} \\ \hline
# \text{row 0} & 3 & & 1 & & \\ \text{row 1} & -2 & & & 4 & \\
# \text{row 2} & & 5 & & & 6 \\ \text{row 3} & 1 & -7 & & & \end{array}$$
#
# At most three columns per group.
#
# **1.** Follow the rule with $\gamma = 0$. **2.** And with $\gamma = \tfrac14$? Which
# weights are lost?

# %% slideshow={"slide_type": "notes"}
small = torch.tensor([[3, 0, 1, 0, 0], [-2, 0, 0, 4, 0], [0, 5, 0, 0, 6], [1, -7, 0, 0, 0.0]])
answers = []
for gamma in (0.0, 0.25):
    groups = group_columns(small, 3, gamma)
    stays = combine_columns(small, groups)[2]
    gone = small[(small != 0) & ~stays].int().tolist()
    answers.append(
        f"γ = {gamma:g}: groups "
        + " and ".join("".join("ABCDE"[column] for column in group) for group in groups)
        + (f", lost {', '.join(map(str, gone))}" if gone else ", nothing is lost")
        + f", {int(stays.sum())} of {4 * len(groups)} cells in use"
    )
say(
    "; ".join(answers)
    + ". The stricter limit loses nothing, and here it even fills more cells: the rule looks"
    " only one column ahead."
)

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Zeros in the activations
#
# A product is 0 if **either** factor is.
#
# | | weights | activations |
# |---|---|---|
# | selected | once | at **every** input |
# | zeros without a selection | none | ReLU's; few after max pooling |
#
# *Top-k*: the largest of all entries of an **image**. *N:M*: the largest of every block.
# Select by a mask; the gradient is then like ReLU's: 1 where kept, 0 elsewhere.

# %% [markdown] slideshow={"slide_type": "notes"}
# Per image, not per batch: otherwise one image's large activations remove another's. After
# pooling there are few zeros, since a maximum is 0 only if all are. Our PyTorch code for
# the selection is slower than the convolution; that says nothing about a selector in
# hardware.

# %% slideshow={"slide_type": "slide"}
say("## Both at once")
one_input = torch.tensor([3, 0, 7, 1, 0, 6, 2, 0, 2, 5, 4, 1.0])
one_row = torch.tensor([-1, 6, 4, 2, 5, 8, -3, 2, 7, -2, 1, 3.0])
kept = [row * nm_mask(row, 2, 4, 0) for row in (one_input, one_row)]
rows = {"input": one_input, "2:4": kept[0], "weights": one_row, "2:4 ": kept[1]}
rows["products"] = kept[0] * kept[1]
texts = [[name, *(f"{v:g}" if v else "·" for v in row.tolist())] for name, row in rows.items()]
tables.show(tables.Table([""] * 13, texts))

# %% [markdown]
# A share $p$ of zero weights and $q$ of zero inputs leave $(1-p)(1-q)$ of the products
# **on average**. Blocks give bounds for *every* input:
#
# $$\max(0,\; n_x + n_w - m)\;\le\;\text{products of a block}\;\le\;\min(n_x, n_w)$$

# %% [markdown] slideshow={"slide_type": "notes"}
# The lower bound holds where no kept number is 0. A form often seen has ≥ before
# (1−p)(1−q), but that is an expectation over random places; a linear layer as a whole
# lies anywhere from max(0, 1−p−q) to min(1−p, 1−q). Hardware is built for bounds. Zhang
# et al. 2024 (JointNF) prune both with an *adaptive* N:M; the lab's is fixed.

# %% slideshow={"slide_type": "slide"}
by_size = joint.query("method == 'by size'").copy()
by_size["expected (%)"] = (100 / by_size["m"] ** 2).round(2)
by_size["at most (%)"] = 100 / by_size["m"]
by_size["left"] = 100 * by_size["products"]
heads = {"left": "left (%)", "accuracy": "accuracy (%)"}
say("## Measured\n\nProducts of conv2 to conv4, weights × inputs, by size, trained on:")
columns = ["images", "pattern", "expected (%)", "at most (%)"]
tables.show(tables.means(by_size, heads, rows=columns))
say("Why are **fewer** left than expected?")

# %% [markdown] slideshow={"slide_type": "notes"}
# On the digits mostly because of padding: a quarter of the products meet it. The rest are blocks
# that contain only zeros (on MNIST about half).

# %% [markdown] slideshow={"slide_type": "slide"}
# ## The right ones, or always the same ones?
#
# Weights 1:4 and inputs 1:4, three ways to select them (random weights are fixed):
#
# | | follows from the image | the same for every image |
# |---|---|---|
# | by size | yes | no |
# | at random, drawn again in every pass | no | no |
# | at random, **drawn once** | no | yes |
#
# If only the second arm fails, what would you conclude? And if the last two fail?
#
# > **Left open.** On the digits, with five epochs of training: write down two accuracies.

# %% [markdown] slideshow={"slide_type": "notes"}
# With two arms only, by size and drawn again, one cannot tell: these differ in two properties,
# so they cannot show which one matters. If only the second fails: the noise matters. If
# the last two fail: the choice matters. Do not tell which.

# %% [markdown] slideshow={"slide_type": "notes"}
# {{claim 05.6}}

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Let the network decide
#
# **Static**: selected once, removed. **Dynamic**: the whole network is kept; each image
# uses a part.
#
# A small layer reads the mean of each incoming map and scores each outgoing channel:
#
# $$g_c(x) = \begin{cases} 1 & \text{if } s_c(x) > 0 \\ 0 & \text{else}\end{cases}
# \qquad s(x) = W \begin{pmatrix} \text{mean of map } 1 \\ \vdots \\ \text{mean of map } C \end{pmatrix} + b$$
#
# A closed channel is not computed, nor read by the next layer: one image at a time,
# this can save time without special hardware (not measured).

# %% [markdown] slideshow={"slide_type": "notes"}
# In a batch every image needs other channels, and a dense kernel computes them all. No
# memory is saved: the whole network is kept.

# %% slideshow={"slide_type": "slide"}
say("## Hard forward, soft backward")
score = torch.linspace(-5, 5, 401, requires_grad=True)
soft = score.sigmoid()
gate = (score > 0).float() + (soft - soft.detach())
(slope,) = torch.autograd.grad(gate.sum(), score)
fig = plots.new_figure(4.05)
upper, lower = fig.subplots(2, 1, sharex=True)
upper.plot(score.detach(), gate.detach(), color="C0")
upper.plot(score.detach(), soft.detach(), color="0.6", ls="--")
upper.set_title("the gate (dashed: σ)")
lower.plot(score.detach(), slope, color="C1")
lower.set_title("its gradient, as autograd has it")
lower.set(xlabel="score s", yticks=[0, 0.25], ylim=(-0.02, 0.3))
upper.set(yticks=[0, 1])
plots.show(
    fig,
    inches=(4.4, 4.05),
)

# %% [markdown]
# A step has no gradient. **Straight-through** (Bengio et al. 2013), here with σ':
#
# ```
# soft = s.sigmoid()
# hard = (s > 0).float()
# gate = hard + (soft -
#        soft.detach())
# ```
#
# The bracket is 0, but has a derivative.

# %% slideshow={"slide_type": "slide"}
# two images and two layers: one opens everything, the other half of each layer
two = [torch.tensor([[1.0, 1, 1, 1], [1, 1, 0, 0]]), torch.tensor([[1.0, 1, 1, 1], [1, 0, 1, 0]])]
macs = [100.0, 400.0]
each = gated_macs(two, macs)
shares = [float(layer.mean()) for layer in two]
wrong = macs[0] * shares[0] + macs[1] * shares[1] * shares[0]
say(
    "## The cost of an image\n\n"
    "$$\\text{MACs}(x) = \\sum_l \\text{dense}_l \\cdot o_l(x) \\cdot o_{l-1}(x)$$\n\n"
    f"$o_l$: the open share of layer $l$. Two layers of {macs[0]:.0f} and {macs[1]:.0f} MACs; image A"
    f" opens everything, image B half of each layer: {each[0]:.0f} and {each[1]:.0f}, on average"
    f" **{each.mean():.0f}**. From the *mean* shares, {percent(shares[0])}, one would get {wrong:.0f}.\n\n"
    "Penalty towards a target $t$:\n\n"
    "$$\\lambda \\left(\\frac{\\text{mean MACs}}{t \\cdot \\text{dense MACs}} - 1\\right)^2$$"
)

# %% [markdown] slideshow={"slide_type": "notes"}
# The mean of products is not the product of means; code that uses the latter reports
# fewer MACs than it uses. In training the target falls from 100 % to t over the first
# 70 % of the steps: a strong penalty from the start closes whole layers.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Which rival does a gate need?
#
# | rival | what it separates |
# |---|---|
# | the gates of *another image* | does the decision depend on the image? |
# | static channels by a score, trained as long | is a decision per image better than one for all? |
# | static channels at random, trained as long | does the choice of channels matter? |
#
# All at the same mean products. At 30 % all are within about a point.
#
# > **Left open.** What accuracy do the gates reach at 5 %, and which rival is best?

# %% [markdown] slideshow={"slide_type": "notes"}
# {{claim 05.5}}

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Two minutes: read a claim
#
# > "We freeze the network and train gates for ten epochs. At 30 % of the products it
# > keeps 95 %; the same network with its least important channels removed, as many
# > products, keeps 40 %. Deciding by image is worth 55 points."
#
# **1.** Name three baselines that you would ask for.
#
# **2.** The network is trained together with its gates. Which training does the static
# one need?

# %% [markdown] slideshow={"slide_type": "notes"}
# (The numbers are made up.) 1: the gates with *another image's* decisions: do they
# depend on the image? Static channels *learned* in the same way: same loss, same steps,
# weights of the score held at 0. The static net with recalibrated batch norm (labs 01,
# 04). Also: random channels; MACs as a mean over images; the cost of the decision. 2:
# as many epochs. The lab has the result and asks for a guess: does a decision per image
# help at equal MACs?

# %% [markdown] slideshow={"slide_type": "slide"}
# ## What to take along
#
# - Compare patterns at equal **products**. With an eighth of them N:M is ahead of whole
#   filters, and single weights are not detectably ahead of N:M.
# - N:M: no search, $\lceil\log_2 m\rceil$ bits per place. It saves time only on a unit made
#   for it.
# - Columns can be packed without losing a weight. The *limit* on conflicts counts more than
#   the greedy order.
# - Inputs that are always missing cost little after training; inputs lost at other places in
#   every pass cost most of the accuracy.
# - Gates per image: compare with static channels **trained as long**.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Lab 05, and where to read on
#
# - Mishra et al. (2021). [Accelerating sparse deep neural
#   networks](https://arxiv.org/abs/2104.08378).
# - Kung, McDanel & Zhang (2019). [Packing sparse convolutional neural networks for
#   efficient systolic array implementations](https://doi.org/10.1145/3297858.3304028).
#   *ASPLOS*.
# - Zhang et al. (2024). [JointNF: enhancing DNN performance through adaptive N:M
#   pruning across both weight and activation](https://doi.org/10.1145/3665314.3670813).
#   *ISLPED*.
# - Bengio, Léonard & Courville (2013). [Estimating or propagating gradients through
#   stochastic neurons for conditional computation](https://arxiv.org/abs/1308.3432).
# - Gao et al. (2019). [Dynamic channel pruning: feature boosting and
#   suppression](https://arxiv.org/abs/1810.05331). *ICLR*.
