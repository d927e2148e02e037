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
import copy
import math

import numpy as np
import pandas as pd
import torch

from course_lib import experiments
from course_lib.data.images import load
from course_lib.experiments import lab01
from course_lib.models import build
from course_lib.parallel import sweep
from course_lib.pruning.weights import (
    GRANULARITIES,
    apply,
    cubic,
    geometric,
    global_masks,
    local_masks,
    magnitude,
    masked,
    prunable,
    random,
    sensitivity,
    smallest,
)
from course_lib.show import plots, tables
from course_lib.show.words import minus, pm, say
from course_lib.training import evaluate, fit

torch.set_num_threads(1)
data = load("digits")
SEEDS, EPOCHS = range(5), 20
LAYERS = ("fc1", "fc2", "fc3")


def trained(seed, epochs=EPOCHS):
    net = build("lenet300", data, seed=seed)
    fit(net, data.train, epochs=epochs, lr=1.2e-3, optimizer="adam", seed=seed, progress=False)
    return net


def accuracy(net, split="validation"):
    return evaluate(net, getattr(data, split))


def measured(net):
    return {"accuracy": accuracy(net), "network": net}


def pruned(net, masks):
    net = copy.deepcopy(net)
    apply(net, masks)
    return net


def score_of(method, seed, weights):
    """Sizes; of the method "random", a number for each weight, drawn at random."""
    if method == "random":
        return random(weights, torch.Generator().manual_seed(seed))
    return magnitude(weights)


def prune_at_once(seed, method, sparsity):
    select = global_masks if method == "global" else local_masks
    return measured(pruned(nets[seed], select(score_of(method, seed, weights[seed]), sparsity)))


def share_gone(mask):
    return 100 * (1 - mask.float().mean().item())


def percent(share):
    return f"{100 * share:.0f}\u00a0%"


nets = [trained(seed) for seed in SEEDS]
weights = [prunable(net) for net in nets]
dense = pd.DataFrame([{"seed": seed, "method": "dense"} | measured(nets[seed]) for seed in SEEDS])
dense["sparsity"] = math.nan

# %% [markdown] slideshow={"slide_type": "slide"}
# # How many weights can a network lose?
#
# Neural-network pruning · lecture to lab 01
#
# *A trained network has more weights than it needs. Which ones can you prune, how do
# you train the others, and what do you gain?*

# %% [markdown] slideshow={"slide_type": "notes"}
# All figures: five LeNet-300-100 (64 inputs, 300 and 100 hidden units, ReLU, no batch
# norm) on scikit-learn's digits, 1,097 training, 300 validation, 400 test images. The
# lab uses another network, a convolutional one with batch norm, on purpose: its results
# cannot be read off these slides.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## One word, many methods
#
# | | you may choose | coming |
# |---|---|---|
# | what | **weights** · activations | tokens 10, activations 05 |
# | pieces | **single weights**, N:M, structured | filters 04, N:M 05, heads 07 |
# | score | **size** · loss · learned | loss, input 02, learned 06 |
# | when | **in one shot · iteratively** | tickets 03 |
# | time | **static**: once for all · dynamic: by input | dynamic 05, 10 |
# | what for | **cheap inference** · cheap training | sparse training 03 |
#
# **Bold**: today. N:M: of every M neighbours, N are kept. *One-shot*: *post-training*.

# %% [markdown] slideshow={"slide_type": "notes"}
# Numbers are labs. Single weights are called unstructured; a first look at groups of
# them is taken today, too. The rows are independent: "static, unstructured, iterative
# weight pruning by magnitude for inference" is one method, and today's. Dynamic pruning
# keeps every weight and skips, for each input, the parts that this input does not need.
# Some authors say "zero-shot" for one-shot; usually that word means a task that a model
# was not trained on. N:M (2:4) is in NVIDIA's hardware from compute capability 8.0 on
# (A100), not in the V100, as one often reads.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Why prune small weights?
#
# One output is $y = \sum_i w_i a_i$. Without $w_i$ it changes by $-w_i a_i$; over many
# inputs
#
# $$\mathbb E\,(\Delta y)^2 = w_i^2\;\mathbb E\,a_i^2$$
#
# For a set $P$ of weights and uncorrelated inputs of mean 0 and the **same size**
# $\sigma$, the cross terms vanish: $\mathbb E\,(\Delta y)^2 = \sigma^2 \sum_{i\in P} w_i^2$. So the
# smallest $|w_i|$ are the best choice. Inputs of unequal size break this: lab 02.

# %% [markdown] slideshow={"slide_type": "fragment"}
# $$m_i = \begin{cases}1 & \text{if } \lVert w_i\rVert_1 \ge a\\ 0 & \text{if } \lVert w_i\rVert_1 < a\end{cases}\qquad\quad \lVert w\rVert_1 = \sum_j |w_j|$$
#
# The L1 norm of *one* number is its absolute value. With the norm the same formula also
# holds for a *group* of weights.

# %% [markdown] slideshow={"slide_type": "notes"}
# For single weights |w| and w² give the same order. For groups the norms differ: (0.9, 0)
# against (0.5, 0.5) is 0.9 against 1.0 in L1, and 0.9 against 0.71 in L2.

# %% slideshow={"slide_type": "slide"}
say("## Prune where |w| < a")
LECTURE = torch.tensor(
    [[0.1, 3, 0.2, 1, 0.4, 0.2, -1, 3, 0.4, 0.6], [0.2, 1.2, 0.2, -1, 0.2, -3, 0.5, -3, 3, -1]]
)
kept = LECTURE.abs() >= 1
rows = [
    [f"**{w:g}**".replace("-", "−") if k else f"~~{w:g}~~" for w, k in zip(line, keep, strict=True)]
    for line, keep in zip(LECTURE.tolist(), kept.tolist(), strict=True)
]
say(f"An example, $a = 1$: {int(kept[0].sum())} and {int(kept[1].sum())} of 10 weights are kept.")
tables.show(tables.Table([""] * 10, rows))

# %% [markdown]
# A **threshold** fixes what is small, a **fraction** how much is pruned. Han et al.
# (2015) use a threshold per layer; to compare *at equal sparsity*, fix the number.

# %% [markdown] slideshow={"slide_type": "notes"}
# The threshold itself is kept: with > for ≥ all the ones would be pruned, too. The lab
# has a third row. Han et al.: a chosen factor times the standard deviation of the
# layer's weights.

# %% slideshow={"slide_type": "slide"}
say("## The same threshold is another sparsity in every layer")
below = pd.DataFrame(
    {"method": layer, "threshold a": a, "weights below it (%)": share_gone(w.abs() >= a)}
    for layer in LAYERS
    for w in [weights[0][f"{layer}.weight"]]
    for a in np.linspace(0, 0.3, 61)
)
plots.show(
    plots.curves(
        below, x="threshold a", y="weights below it (%)", control=None,
        title="The weights of a trained LeNet, layer by layer",
    )
)  # fmt: skip

# %% slideshow={"slide_type": "slide"}
say("## A fraction is a promise about a number")

# %% [markdown]
# "Prune a share $s$ of $n$ weights": exactly **round(s · n)** are pruned, those with the
# smallest $|w|$. For equal sizes we need a convention: the first one is pruned first.
#
# Ties are common: after a first round most weights of a layer are equal, namely 0.

# %% [markdown] slideshow={"slide_type": "notes"}
# Ties: quantised weights, shared weights, and zeros.
#
# round is Python's: half to even, round(2.5) is 2. A comparison treats all equal weights
# equally, so it cannot give an exact number; a ranking can. Random normal numbers
# have no ties, which is why tests with them miss this mistake.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Two minutes: be the rule
#
# $$w = (0.5,\ -2,\ 0.5,\ 0,\ -0.5,\ 3,\ -0.5)$$
#
# **1.** Prune half of them. How many are pruned, and which?
#
# **2.** Which threshold $a$ prunes the same ones?
#
# **3.** You prune half of them *again*. What do you mean: half of all, or half of those
# that are left?

# %% slideshow={"slide_type": "notes"}
example = torch.tensor([0.5, -2, 0.5, 0, -0.5, 3, -0.5])
gone = (~smallest(example.abs(), 0.5)).nonzero().flatten().tolist()
say(
    f"1: round({0.5 * len(example):g}) = {len(gone)}, at places"
    f" {', '.join(str(i + 1) for i in gone)}. 2: none; a = 0.5 prunes"
    f" {int((example.abs() < 0.5).sum())}, anything above it"
    f" {int((example.abs() < 0.51).sum())}. 3: half of all is done already and changes"
    " nothing, half of those left takes more. Labs say *sparsity*: the share of all weights,"
    " cumulative; lab 03 prunes a share of the survivors and says so."
)

# %% slideshow={"slide_type": "slide"}
say("## All at once, with no repair")
GRID = [0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95]
METHODS = ["magnitude", "global", "random"]
one_shot = pd.concat(
    [dense, sweep(prune_at_once, seed=SEEDS, method=METHODS, sparsity=GRID)], ignore_index=True
)
plots.show(
    plots.curves(
        one_shot.query("method != 'global'"), x="sparsity", y="accuracy", xaxis="sparsity",
        title="Five networks (dots), their mean; nothing trained afterwards",
    ),
    inches=(5.2, 4),
)  # fmt: skip
by_method, whole = dict(list(one_shot.groupby("method"))), dense.accuracy.mean()
reach = {how: percent(lab01.within_a_point(by_method[how], whole)) for how in METHODS}
say(
    f"Within a point of dense up to **{reach['magnitude']}**; random: {reach['random']}."
    " Gordon et al. (2020), BERT: 30–40 % of the weights are free; more costs what was"
    " learnt in pre-training. The lab's network has batch norm, and its curve looks worse. Why?"
)

# %% [markdown] slideshow={"slide_type": "notes"}
# Leave the last question open: it is the lab's experiment to part A (batch norm's
# statistics are still those of the dense network; measured again, they remove most of
# the collapse up to about 80 %).

# %% slideshow={"slide_type": "slide"}
say("## A threshold for each layer, or one for all?")
count = sum(w.numel() for w in weights[0].values())
lost = pd.DataFrame(
    {
        "seed": seed,
        "layer": f"{name}\n{percent(of[name].numel() / count)}",
        "method": how,
        "pruned": x,
    }
    for seed, of in enumerate(weights)
    for name, mask in global_masks(magnitude(of), 0.9).items()
    for how, x in {"each layer 90 %": 90.0, "all together 90 %": share_gone(mask)}.items()
)
lost["layer"] = lost.layer.str.replace(".weight", "")
plots.show(
    plots.bars(
        lost, x="layer", y="pruned", by="method", xlabel="layer, and its share of all weights",
        title="Weights pruned (%): which layers lose most?", ylabel=" ", fmt="{:.0f}",
    ),
    inches=(4.9, 4),
)  # fmt: skip
at_90 = one_shot.query("sparsity == 0.9")
after = at_90.groupby("method").accuracy
say(
    "**Local**: each layer loses the same share. **Global**: the smallest weights *anywhere*,"
    " mostly of large layers with many small weights. Accuracy at 90 %, not retrained: global"
    f" {pm(after.get_group('global'))}, local {pm(after.get_group('magnitude'))}; global against"
    f" local {minus(at_90, 'accuracy', 'global', 'magnitude')}."
)

# %% [markdown] slideshow={"slide_type": "notes"}
# {{claim 01.2}}

# %% slideshow={"slide_type": "slide"}
say("## The same function, and an empty layer")

# %% [markdown]
# $\text{ReLU}(c\,x) = c\,\text{ReLU}(x)$ for $c > 0$, so this is **the same network**:
#
# $$\tfrac1c W_3\,\text{ReLU}(cW_2x + cb_2) = W_3\,\text{ReLU}(W_2x + b_2)$$

# %% [markdown]
# A layer without weights passes nothing on, and **no training restores it**. The global
# rule depends on each layer's scale: check the shares.

# %% [markdown] slideshow={"slide_type": "notes"}
# The local rule cannot tell the two networks apart: a factor for a whole layer changes
# no order in it. Batch norm makes this case common, since it divides the scale out: the
# lab has that version. Repairs: a minimum per layer, or scores divided by the layer's
# norm (as lab 07 does for heads).

# %% slideshow={"slide_type": "slide"}
say("## How large is a piece?")
with_conv = build("convnet", data, seed=0)
fit(with_conv, data.train, epochs=12, progress=False, **lab01.DENSE)
score = with_conv.conv2.weight.detach().abs()[:10, :10]  # (M, C, R, S), few enough to be seen
pieces = {g: local_masks({"": score}, 0.7, g)[""] for g in GRANULARITIES}
left = {g: (100 * (score * m).sum() / score.sum()).item() for g, m in pieces.items()}
plots.show(
    plots.grid(
        pieces, title="Ten filters with ten channels of a trained convolution, pruned four times"
    ),
    inches=(8, 2.75),
)
say(
    "A group's score is its L1 norm $\\sum|w|$; round(s · groups) are pruned. Kept of the sum over"
    f" all: {', '.join(f'{g} **{share:.0f} %**' for g, share in left.items())}. Rows are also"
    " choices of single weights: the finer rule **never keeps less**."
)

# %% [markdown] slideshow={"slide_type": "notes"}
# The lab measures the cost in accuracy; labs 04 and 05 the gain on hardware.
#
# White lines set the 3 × 3 kernels apart; a row of the picture is a filter.
# "Unstructured is more accurate than structured" is a statement at equal sparsity. It
# is not one at equal bits or equal milliseconds: scattered weights need an address
# each.

# %% slideshow={"slide_type": "slide"}
say("## The mask on the way forward")
W = torch.tensor([[2, 0.5, -1], [-2, 0.5, 1], [0.5, 1.5, 0.2]])
M, A = W.abs() >= 1, torch.tensor([[1.0], [2], [1]])
leaf = (W * M).requires_grad_()
Y = leaf @ A
loss = (Y.relu() - torch.tensor([[0.0], [1], [1]])).square().sum() / 2
to_pruned, to_y = torch.autograd.grad(loss, (leaf, Y))


def matrix(values, name):
    """In LaTeX, its name below; pruned places are orange."""
    lines = [[f"{value:g}" for value in line] for line in values.tolist()]
    if values.shape == M.shape:
        lines = [
            [
                text if kept else rf"\textcolor{{#D55E00}}{{{text}}}"
                for text, kept in zip(*pair, strict=True)
            ]
            for pair in zip(lines, M.tolist(), strict=True)
        ]
    inside = r" \\ ".join(" & ".join(line) for line in lines)
    return rf"\underbrace{{\begin{{bmatrix}} {inside} \end{{bmatrix}}}}_{{\textstyle {name}}}"


parts = {
    "weight": matrix(W, "W"),
    "mask": matrix(M.int(), "M"),
    "pruned": matrix(leaf, "W'"),
    "y": matrix(Y, "Y"),
    "z": matrix(Y.relu(), "Z"),
    "dy": matrix(to_y, r"\partial L/\partial Y"),
    "dp": matrix(to_pruned, r"\partial L/\partial W'"),
    "dw": matrix(to_pruned * M, r"\partial L/\partial W"),
}
say(r"$${weight} \odot {mask} = {pruned}$$ $${y}, \quad {z}$$".format(**parts))

# %% slideshow={"slide_type": "slide"}
say(
    r"## The mask on the way back"
    + "\n\n"
    + r"$${dy}, \quad {dp} \odot {mask} = {dw}$$".format(**parts)
)

# %% [markdown]
# $$\partial L/\partial W' = \partial L/\partial Y\, A^\top \quad
# \partial L/\partial W = \partial L/\partial W' \odot M$$
# $$\partial L/\partial A = W'^\top\, \partial L/\partial Y$$

# %% [markdown] slideshow={"slide_type": "notes"}
# The backward pass uses $W'$, not $W$, since the forward pass used $W'$. L is half the squared distance to a target. The grey zeros of the second row are
# ReLU's: that unit was off. The orange ones are the mask's. ∂W'/∂W is 1 where kept, 0
# where pruned. All numbers by autograd. With W instead of W' in the last formula there is no
# error message.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Two minutes: the gradient of pruned weights
#
# **1.** $\partial L/\partial W$ is 0 at a pruned place, $\partial L/\partial W'$ is
# not. What does that number tell you, and which method could use it?
#
# **2.** From now on the gradient of each pruned weight is exactly 0. Does the weight
# stay at 0 under plain SGD? With momentum? With Adam? With weight decay?

# %% [markdown] slideshow={"slide_type": "notes"}
# 1: how the loss would change if the weight came back. Methods that grow weights (lab 03)
# use it; they need the dense gradient. 2: the next slide. Weight decay alone is
# harmless: a share of 0 is 0, which is why AdamW follows Adam.

# %% slideshow={"slide_type": "slide"}
say("## Zero again, after every step")

# %% tags=["code"]
ADAM = {"optimizer": "adam", "progress": False}
net = trained(0, epochs=2)
# score: a number for each weight
scores = magnitude(prunable(net))
# select: bool tensors, True = kept
masks = global_masks(scores, 0.9)
# apply, and again after each step
with masked(net, masks):
    fit(net, data.train, epochs=1, **ADAM)

# %% [markdown]
# A masked gradient removes *new* gradients, not old ones: momentum still moves the weight,
# by $\eta\,\frac{\mu}{1-\mu}\,|v|$. So set zeros **after every step**, **in place**, and
# **fill** them in: 0 × NaN is NaN.

# %% [markdown] slideshow={"slide_type": "notes"}
# In place: the optimizer holds the parameter object and would not train a new one. Adam
# divides its old mean by the root of an old mean square, so it moves the weight, too.

# %% slideshow={"slide_type": "slide"}
say("## Which layers are sensitive?")
SCAN = [0.5, 0.7, 0.8, 0.9, 0.95, 0.98]
scan = pd.DataFrame(
    {"seed": seed, "layer": name.removesuffix(".weight"), "sparsity": s, "accuracy": a}
    for seed, net in enumerate(nets)
    for name, found in sensitivity(net, accuracy, SCAN).items()
    for s, a in zip(SCAN, found, strict=True)
)
plots.show(
    plots.grid(
        scan.pivot_table(index="layer", columns="sparsity", values="accuracy"),
        xlabel="sparsity of this layer alone", ylabel="",
        title="Validation accuracy (%), one layer pruned, the others dense; mean of five",
    ),
    inches=(8, 2.4),
)  # fmt: skip
cost = scan[scan.sparsity == 0.9].pivot(index="seed", columns="layer", values="accuracy")
cost = -cost.sub(dense.accuracy, axis=0)  # points lost, one layer at a time
together = (dense.accuracy - at_90[at_90.method == "magnitude"].accuracy.to_numpy()).to_numpy()
lost = pd.DataFrame({"seed": SEEDS, "together": together, "one by one": cost.sum(axis=1)})
lost = lost.melt("seed", var_name="method", value_name="points")
say(
    f"A **sensitivity scan** prunes one layer at a time. Here **{cost.mean().idxmax()}** is most"
    " sensitive; in Han et al. (2015), who set each layer's threshold from a scan, the first"
    f" convolution. And costs do not add up: at 90 % one by one {pm(cost.sum(axis=1))} points in"
    f" all, together {pm(together)}; the difference: {minus(lost, 'points', 'together', 'one by one')}."
)

# %% [markdown] slideshow={"slide_type": "notes"}
# Always on validation data: the scan is used to choose. Restore the layer after each
# measurement, or you measure several pruned layers. With batch norm the map also depends
# on whether the statistics are measured again (lab).

# %% slideshow={"slide_type": "slide"}
say("## Which images are for what?")

# %% [markdown]
# | | for | how often |
# |---|---|---|
# | **training** | weights, statistics of batch norm | always |
# | **validation** | every choice: sparsity, criterion, layer, epoch | often; each use weakens it |
# | **test** | the figure that you report | once, at the end |

# %% slideshow={"slide_type": "slide"}
say("## Prune, train; or prune, train, prune, train?")
both = lab01.read_both("trained")
look = {"x": "sparsity", "y": "accuracy", "xaxis": "sparsity"}
title = "The lab's network, five seeds; every arm the same epochs"
plots.show(plots.curves(both, title=title, panels="images", **look), inches=(8, 3.4))

# %% [markdown]
# **MNIST is on the right.** Each step restarts the learning rate.

# %% [markdown] slideshow={"slide_type": "notes"}
# {{claim 01.3}}
#
# {{claim 01.4}}

# %% slideshow={"slide_type": "slide"}
say("## Does it pay to iterate?")
long_run = experiments.read("lab01_long_run_digits/accuracy")
title = "98 % of the weights pruned, by epochs in all"
rivals = ["iterative, 3 steps", "fine-tuned", "fine-tuned, 3 restarts", "random"]
plots.show(
    plots.curves(
        long_run[long_run.method.isin(rivals)], x="epochs", y="accuracy", xaxis="log", title=title
    ),
    inches=(6, 4.05),
)

# %%
longest = long_run[long_run.epochs == long_run.epochs.max()]
say(
    "A fair rival has the same epochs **and** the same restarts. With 60 epochs, three steps minus"
    f" one: **{minus(longest, 'accuracy', 'iterative, 3 steps', 'fine-tuned, 3 restarts')}**."
)

# %% [markdown] slideshow={"slide_type": "notes"}
# {{claim 01.5}}
#
# Every step of *iterative* gets only its share of the epochs at the final sparsity.

# %% slideshow={"slide_type": "slide"}
say("## How much at a time?")
T, FINAL = 10, 0.9
schedules = {
    "cubic": [0.0, *cubic(FINAL, T)],
    "equal share of survivors": [0.0, *geometric(FINAL, T)],
    "equal steps": [FINAL * t / T for t in range(T + 1)],
}
steps = pd.DataFrame(
    {"method": name, "step": t, "pruned": 100 * s}
    for name, targets in schedules.items()
    for t, s in enumerate(targets)
)
plots.show(
    plots.curves(
        steps, x="step", y="pruned", control=None, title=f"Three ways to {percent(FINAL)}",
        xlabel=f"step t of {T}", ylabel="weights pruned (%)",
    ),
    inches=(4.6, 4.05),
)  # fmt: skip
last = [f"**{100 * (s[-1] - s[-2]) / (1 - s[-2]):.0f} %** ({how})" for how, s in schedules.items()]
say(
    "Zhu & Gupta (2017): $s_t = s_f\\,\\bigl(1-(1-t/T)^3\\bigr)$, fast at first,"
    f" slowly at the end. The last step prunes {', '.join(last)} of the kept weights. Targets are"
    f" **cumulative**: five times 20 % of the survivors is {100 * (1 - 0.8**5):.0f} %, not 100 %."
)

# %% slideshow={"slide_type": "slide"}
say("## What does structure cost?")
filters = lab01.read_both("structured").query("granularity == 'filter'")
title = "Filters: the smallest, or as many at random? (fine-tuned)"
plots.show(plots.curves(filters, title=title, panels="images", **look), inches=(8, 4))

# %% [markdown] slideshow={"slide_type": "notes"}
# {{claim 01.6}}

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Bits, products, milliseconds
#
# Zeros save **bits** at once and **MACs** by count, but not **milliseconds**: a dense
# kernel multiplies by 0 as fast as by anything else, on CPU and GPU. A sparse kernel
# skips zeros, but must read addresses. Shapes (lab 04) and patterns (lab 05) save time.
# %% [markdown] slideshow={"slide_type": "slide"}
# ## Two minutes: read the claim
#
# > "We prune 90 % of the weights by magnitude and fine-tune for 30 epochs. On the test
# set the best of our 20 settings is
# > even 0.3 points better than the original. The model is 10× smaller and 10× faster."
#
# Find **five** things to ask.

# %% [markdown] slideshow={"slide_type": "notes"}
# A random mask with the same fine-tuning? The dense model with the same 30 epochs?
# Chosen on the test set, out of 20? One seed? Smaller with which encoding (at 90 % and
# 32 bits a bitmap alone is 1/32 of the dense size: 7.6×, not 10×)? Faster in measured
# latency, or in MACs? Which layers: are embeddings and tied weights in the 90 %?

# %% [markdown] slideshow={"slide_type": "slide"}
# ## What to take along
#
# - **Prune small weights**, since $\Delta y = -w_i a_i$. This ignores the input $a_i$;
#   lab 02 uses the loss.
# - **A fraction is a number**: round(s·n), ties by order. A threshold is another
#   sparsity in each layer.
# - **Global or local**: global can be better (90 %, 95 %), or empty a layer: check the
#   shares.
# - **Masks** act on the weight and on its gradient. Optimizers keep old gradients:
#   **zero again after every step**.
# - **Iterating** pays only with enough budget. Give random masks the same budget, and
#   use three seeds or more.
# - **Choose on validation images, test once.** Sparsity is bits at once; time only with
#   the right kernel.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Lab 01, and where to read on
#
# *Lab 01*: all of this as code, on a network with batch norm. What breaks there?
#
# - Han, Pool, Tran & Dally (2015). [Learning both weights and
#   connections](https://arxiv.org/abs/1506.02626). *NeurIPS*.
# - Zhu & Gupta (2017). [To prune, or not to prune](https://arxiv.org/abs/1710.01878).
# - Mao et al. (2017). [Exploring the granularity of
#   sparsity](https://arxiv.org/abs/1705.08922). *CVPR workshops*.
# - Gordon, Duh & Andrews (2020). [Compressing BERT](https://arxiv.org/abs/2002.08307).
#   *RepL4NLP*.
# - Sanh, Wolf & Rush (2020). [Movement pruning](https://arxiv.org/abs/2005.07683).
#   *NeurIPS*.
# - Blalock et al. (2020). [What is the state of neural network
#   pruning?](https://arxiv.org/abs/2003.03033) *MLSys*.
