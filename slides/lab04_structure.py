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
from course_lib.cost import latency

# isort: split
import copy
import warnings
from math import comb

import numpy as np
import torch
from IPython.display import Markdown, display
from torch import nn
from torchvision.models import mobilenet_v2, resnet18

from course_lib import experiments
from course_lib.cost import conv_cost, model_cost, totals
from course_lib.data.images import load
from course_lib.experiments import lab04
from course_lib.models import build
from course_lib.pruning.channels import (
    absorb_removed,
    channel_groups,
    fold_model,
    l1_filters,
    recalibrate,
    remove_filters,
    scale_shift,
    select_channels,
    slice_pair,
    slimming,
)
from course_lib.pruning.weights import apply, local_masks, magnitude, prunable, random
from course_lib.show import plots
from course_lib.show.drawings.filters import filter_cascade, residual_agreement
from course_lib.show.words import pm, versus
from course_lib.training import evaluate

plots.use_style()
torch.set_num_threads(1)
warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta state")
digits_run = experiments.read("lab04_slimming_digits")
mnist_run = experiments.read("lab04_slimming_mnist")
data = load("digits")
example = data.train.images[:1]
SEEDS, EPOCHS, LAMBDA = 3, 8, 3e-2


def train(model, seed, epochs=EPOCHS, **how):
    """Train in place, with λΣ|α| in the loss where lam is given."""
    return lab04.train(model, data, seed, epochs=epochs, **how).eval()


def accuracy(model):
    """Validation accuracy in %."""
    return evaluate(model, data.validation)


def repaired(model):
    recalibrate(model, data.train.images[:512])
    return model


def of(run, column, part="validation"):
    """One column of a shipped slimming table, by seed."""
    return np.array([seed[part][column] for seed in run["seeds"]])


dense = [train(build("convnet", data, seed=seed), seed) for seed in range(SEEDS)]
sparse = [train(build("convnet", data, seed=seed), seed, lam=LAMBDA) for seed in range(SEEDS)]
dense_accuracy, sparse_accuracy = [accuracy(m) for m in dense], [accuracy(m) for m in sparse]
whole = totals(model_cost(dense[0], example))

# %% [markdown] slideshow={"slide_type": "slide"}
# # What if the filter is not there at all?
#
# Neural-network pruning · lecture to lab 04
#
# *Zeros do not make a network faster. Smaller layers do. Which filters can go, what
# goes with them, what do they leave behind, and who decides?*

# %% [markdown] slideshow={"slide_type": "notes"}
# Seventy-five minutes: shapes of sparsity (15), the cascade (15), batch norm (20),
# slimming (20), what it was worth (5). Small figures: four 3 × 3 convolutions of 32,
# 32, 64, 64 filters on scikit-learn's 8 × 8 digits, three seeds, validation images. The
# slimming table: six seeds of the same network, and three on MNIST, shipped with the
# course.

# %% slideshow={"slide_type": "slide"}
display(Markdown("## A zero takes as long as any other number"))
generator = torch.Generator().manual_seed(0)
maps = torch.rand(1, 64, 28, 28, generator=generator)


def layer(filters, zeros=0.0):
    """A 3 × 3 convolution of 64 channels; ``zeros``: share of its weights set to 0."""
    conv = nn.Conv2d(64, filters, 3, padding=1, bias=False).eval()
    with torch.no_grad():
        conv.weight[torch.rand(conv.weight.shape, generator=generator) < zeros] = 0
    return conv


holes = layer(64, 0.9)
# (C·R·S, B·E·F)
patches = nn.functional.unfold(maps, 3, padding=1).transpose(0, 1).reshape(576, -1).contiguous()
csr = holes.weight.detach().reshape(64, -1).to_sparse_csr()
layers = {
    "64 filters": layer(64),
    "90 % of the weights zero": holes,
    "the same, stored as CSR": holes,
    "32 filters": layer(32),
    "6 filters": layer(6),
}
jobs = {name: latency.forward(conv, maps) for name, conv in layers.items()}
jobs["the same, stored as CSR"] = lambda: csr @ patches
times = latency.compare(jobs, repeats=61, threads=1)
lines = ["| 3 × 3 on 64 channels, 28 × 28 | products left | times faster |", "|---|---|---|"]
for name, conv in layers.items():
    share = float((conv.weight != 0).sum()) / (64 * 576)
    lines.append(
        f"| {name} | {share:.0%} | **{times['64 filters'].times_slower_than(times[name]):.1f}** |"
    )
display(Markdown("\n".join(lines)))

# %% [markdown]
# Nobody skips a zero that stands in a dense array. Walking along a list of places gives
# up the vector units: a tenth of the products, and far from a tenth of the time. A
# filter that is **not there** is skipped by every machine.

# %% [markdown] slideshow={"slide_type": "notes"}
# Measured here by the processor's clock, on one thread, all in turns. CSR is given its
# patches for free: the unfolding is not timed. "Specialised hardware is required" is
# the usual sentence; it means just this. The last step, six filters, falls short of
# what is promised: small matrices fill the units badly. That will come back in the last
# table.

# %% slideshow={"slide_type": "slide"}
display(Markdown("## Three shapes of a hole"))
scores = torch.randn(16, 16, generator=torch.Generator().manual_seed(1)).abs()
two_of_four = scores.view(16, 4, 4).argsort(2).argsort(2).view(16, 16) >= 2
shapes = {
    "single weights": local_masks({"w": scores}, 0.5)["w"],
    "2 of every 4": two_of_four,
    "filters (rows)": local_masks({"w": scores}, 0.5, "filter")["w"],
}
kept_size = {name: float(scores[mask].sum() / scores.sum()) for name, mask in shapes.items()}
plots.show(
    plots.grid(shapes, title="The same 256 weights, half of them kept, by magnitude"),
    alt=(
        "Three masks of a 16 × 16 matrix, half kept: single weights anywhere, two of every four in"
        " a row, whole rows. Share of Σ|w| kept: "
    )
    + ", ".join(f"{name} {share:.0%}" for name, share in kept_size.items())
    + ".",
    inches=(8, 2.9),
)
display(
    Markdown(
        "Share of $\\sum\\lvert w\\rvert$ that stays: "
        + ", ".join(f"{name} **{share:.0%}**" for name, share in kept_size.items())
        + ". **N:M** keeps N of every M neighbours: holes in a known place, yet a choice in each"
        " group."
    )
)

# %% [markdown] slideshow={"slide_type": "notes"}
# A group's score is the sum of its members' scores: that is how any rule for single
# weights becomes one for filters, rows or heads. N:M is written in two ways: some code
# counts the zeros, NVIDIA and we count what is kept.

# %% slideshow={"slide_type": "slide"}
display(Markdown("## Freedom to choose, and its price"))
ways = {"single weights": comb(16, 8), "2:4": comb(4, 2) ** 4, "filters": comb(4, 2)}
where = {
    "single weights": "special hardware",
    "2:4": "NVIDIA, **from compute capability 8.0 (A100) on**",
    "filters": "**any machine**",
}
lines = [
    "| half of 4 × 4 weights | patterns | bits to say which | runs fast on |",
    "|---|---|---|---|",
]
lines += [f"| {name} | {n:,} | {np.log2(n):.1f} | {where[name]} |" for name, n in ways.items()]
display(Markdown("\n".join(lines)))

# %% [markdown]
# The fewer patterns, the less a machine must be told, and the less a method can spare
# what matters. *N:M is the middle ground.*
#
# Another one, **column combining** (Kung et al. 2019): pack several sparse columns into
# one, and prune where two would collide. It fills a systolic array about **8 times**
# better. Lab 05 has both.

# %% [markdown] slideshow={"slide_type": "notes"}
# Common misprint: 2:4 on V100. Volta has compute capability 7.0 and no sparse tensor
# cores; they came with Ampere, 8.0.

# %% slideshow={"slide_type": "slide"}
display(Markdown("## At the same sparsity, single weights win"))
AT = [0.2, 0.4, 0.6, 0.8]
granular = {"unstructured": "element", "structured": "filter", "random": "filter"}
by_shape = {how: np.zeros((SEEDS, len(AT))) for how in granular}
for how, granularity in granular.items():
    for seed, model in enumerate(dense):
        weights = {name: w for name, w in prunable(model).items() if name.startswith("conv")}
        score = (
            random(weights, torch.Generator().manual_seed(seed))
            if how == "random"
            else magnitude(weights)
        )
        for k, sparsity in enumerate(AT):
            pruned = copy.deepcopy(model)
            apply(pruned, local_masks(score, sparsity, granularity))
            by_shape[how][seed, k] = accuracy(repaired(pruned))
fig = plots.method_curves(
    AT,
    by_shape,
    dense=dense_accuracy,
    xlabel="weights of each layer set to zero",
    ylabel="validation accuracy (%)",
    title="Nothing trained afterwards; random: random filters",
    xaxis="sparsity",
)
plots.show(
    fig,
    alt="Validation accuracy against sparsity of each layer, three seeds. At 60 per cent: "
    + ", ".join(f"{how} {v[:, AT.index(0.6)].mean():.0f}" for how, v in by_shape.items())
    + ".",
    inches=(5.2, 4.05),
)
display(
    Markdown(
        "At 60 %, single weights against filters:"
        f" {versus(by_shape['unstructured'][:, 2], by_shape['structured'][:, 2])}. Equal *sparsity*"
        " is one way to compare; equal MACs and equal time are two others."
    )
)

# %% [markdown] slideshow={"slide_type": "notes"}
# "Unstructured pruning has a better accuracy than structured pruning" is a sentence
# about equal sparsity. Batch norm was measured again for all. Small L1 norms are not
# shown to be better than random filters here: the slides on scores come back to that.

# %% slideshow={"slide_type": "slide"}
display(Markdown("## What hangs on a filter"))
plots.show(filter_cascade(5, 3, 4, removed=(1,)))

# %% [markdown]
# Row $m$ of this layer, entry $m$ of **four** vectors, map $m$, and column $m$ of the
# next layer: the **cascade**. The next layer's filters stay, each a little thinner.

# %% [markdown] slideshow={"slide_type": "notes"}
# A cell is a kernel of 3 × 3. α and β are parameters, μ and σ² are buffers and easily
# forgotten. "Weight sparsity in layer i + 1" is the lecture notes' word for the column;
# as a removal it is not sparsity but a smaller layer.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## The bill of a removed filter
#
# A layer has $M$ filters on $C$ channels, makes $E\times F$ maps, and the next has $M'$
# filters. One filter out saves
#
# $$\underbrace{C\,RS}_{\textstyle\text{its row}} + \underbrace{2}_{\textstyle\alpha,\,\beta} +
# \underbrace{M'\,R'S'}_{\textstyle\text{the next column}}\ \text{parameters}$$
#
# $$C\,RS\cdot EF + M'R'S'\cdot E'F'\ \text{MACs}$$

# %% [markdown] slideshow={"slide_type": "slide"}
# ## A share of filters is not a share of weights
#
# A share $p_i$ of the filters of every layer $i$ out, and of a layer's MACs
#
# $$(1-p_{i-1})(1-p_i)$$
#
# are left: one factor for its inputs, one for its outputs.

# %% [markdown] slideshow={"slide_type": "fragment"}
# > A paper that removes "50 % of the channels" has removed more than half of
# > the network, and one that removes "50 % of the parameters" fewer than half of the
# channels.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Two minutes: one layer only
#
# A chain of 3 × 3 convolutions with padding, on a 32 × 32 picture:
#
# | | conv 1 | conv 2 | conv 3 | conv 4 |
# |---|---|---|---|---|
# | channels | 3 → 64 | 64 → 64 | 64 → 128 | 128 → 64 |
# | maps | 32 × 32 | 32 × 32 | 16 × 16 | 16 × 16 |
#
# You may halve the filters of **one** of the first three layers.
#
# **1.** Which one saves the most MACs? **2.** Which one the most parameters? **3.**
# Which numbers of conv 4 change if you choose conv 2?

# %% slideshow={"slide_type": "notes"}
channels, sides = [3, 64, 64, 128, 64], [32, 32, 16, 16]


def chain(widths):
    """MACs and weights of the chain of these widths."""
    costs = [
        conv_cost(m, c, 3, 3, s, s, padding=1)
        for c, m, s in zip(widths[:-1], widths[1:], sides, strict=True)
    ]
    return np.array([sum(c["macs"] for c in costs), sum(c["weight_bits"] // 32 for c in costs)])


saved = []
for i in (1, 2, 3):
    widths = list(channels)
    widths[i] //= 2
    saved.append(1 - chain(widths) / chain(channels))
display(
    Markdown(
        "MACs saved by halving conv 1, 2, 3: "
        + ", ".join(f"{macs:.0%}" for macs, _ in saved)
        + "; parameters: "
        + ", ".join(f"{weights:.0%}" for _, weights in saved)
        + ". Conv 4: none of them; the cascade goes one layer far, since conv 3 keeps its filters."
    )
)

# %% slideshow={"slide_type": "slide"}
display(Markdown("## Six places to cut, and who notices a slip"))
model = dense[0]
parts = [model.get_submodule(name) for name in ("conv2", "bn2", "conv3")]
keep = parts[1].weight.detach().abs() > parts[1].weight.detach().abs().median()
stay, first = keep.nonzero().flatten(), torch.arange(int(keep.sum()))
conv, bn, behind = slice_pair(*parts, stay)
wrong_statistics, wrong_columns, uncut = copy.deepcopy(bn), copy.deepcopy(behind), copy.deepcopy(bn)
wrong_statistics.running_mean, wrong_statistics.running_var = (
    parts[1].running_mean[first],
    parts[1].running_var[first],
)
wrong_columns.weight.data = parts[2].weight.detach()[:, first].clone()
uncut.running_mean, uncut.running_var = parts[1].running_mean, parts[1].running_var
slips = {
    "nothing: all six right": (conv, bn, behind),
    "next layer not cut": (conv, bn, parts[2]),
    "μ and σ² not cut": (conv, uncut, behind),
    "μ, σ² of the *first* channels": (conv, wrong_statistics, behind),
    "next layer's *first* columns": (conv, bn, wrong_columns),
}
# maps at 0
hook = parts[1].register_forward_hook(lambda module, inputs, output: output * keep[:, None, None])
with torch.no_grad():
    gated = model(data.validation.images)
hook.remove()
lines = ["| what went wrong | shapes | difference | accuracy (%) |", "|---" * 4 + "|"]
for what, modules in slips.items():
    smaller = copy.deepcopy(model)
    smaller.conv2, smaller.bn2, smaller.conv3 = (m.eval() for m in modules)
    try:
        with torch.no_grad():
            apart = float((smaller(data.validation.images) - gated).abs().max())
        lines.append(
            f"| {what} | fit | {f'{apart:.1f}' if apart > 1e-3 else f'{apart:.0e}'} |"
            f" {accuracy(smaller):.1f} |"
        )
    except RuntimeError:
        lines.append(f"| {what} | **error** | | |")
display(
    Markdown(
        f"{len(stay)} of {len(keep)} filters of conv 2 kept, by |α|; largest difference from maps"
        " at 0:\n\n" + "\n".join(lines)
    )
)

# %% [markdown]
# **Shapes find what was forgotten, only values find what was mixed up**: multiply the
# maps by 0 in the large network, and compare.

# %% [markdown] slideshow={"slide_type": "notes"}
# The six: filter (and bias, where there is one), α, β, μ, σ², the next layer's inputs.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Which filter?
#
# | score of channel $m$ | | looks at |
# |---|---|---|
# | L1 norm of the filter | $\sum_{c,r,s}\lvert w_{mcrs}\rvert$ | weights (Li et al. 2017) |
# | scale | $\lvert\alpha_m\rvert$ | batch norm (Liu et al. 2017) |
# | random | | nothing: the control |

# %% slideshow={"slide_type": "-"}
louder = copy.deepcopy(dense[0])
norm = louder.conv2.weight.detach().abs().sum((1, 2, 3))
weakest = int(norm.argmin())
with torch.no_grad():
    louder.conv2.weight[weakest] *= 10
    louder.bn2.running_mean[weakest] *= 10
    louder.bn2.running_var[weakest] *= 100
    apart = (louder(data.validation.images) - dense[0](data.validation.images)).abs().max()
after = louder.conv2.weight.detach().abs().sum((1, 2, 3))
ranked = [int((values > values[weakest]).sum()) + 1 for values in (norm, after)]
display(
    Markdown(
        f"**A norm that batch norm takes back.** Multiply the weakest of {len(norm)} filters by 10;"
        f" μ and σ follow, as they would in training. The outputs differ by {float(apart):.0e}, and"
        f" the filter is no longer number {ranked[0]} but **number {ranked[1]}**.\n\nSo filter"
        " norms are compared *within* a layer, where the filters at least read the same inputs;"
        " |α| is what the next layer hears, and may be compared across layers."
    )
)

# %% slideshow={"slide_type": "slide"}
display(Markdown("## Does the score help?"))
SHARES = [0.2, 0.4, 0.5, 0.6]
rules = {
    "filter L1": lambda m, seed: slimming.filter_norms(m),
    "α, dense": lambda m, seed: slimming.scales(m),
    "random": lambda m, seed: {
        name: torch.rand(len(a), generator=torch.Generator().manual_seed(10 * seed + int(name[2:])))
        for name, a in slimming.scales(m).items()
    },
    "most important first": lambda m, seed: {
        name: -norm for name, norm in slimming.filter_norms(m).items()
    },
}
by_score = {how: np.zeros((SEEDS, len(SHARES))) for how in rules}
for how, rule in rules.items():
    for seed, model in enumerate(dense):
        for k, share in enumerate(SHARES):
            found = []
            for draw in range(3 if how == "random" else 1):
                smaller, _ = remove_filters(
                    model, local_masks(rule(model, 3 * seed + draw), share), example
                )
                found.append(accuracy(repaired(smaller)))
            by_score[how][seed, k] = np.mean(found)
fig = plots.method_curves(
    SHARES,
    by_score,
    dense=dense_accuracy,
    xlabel="filters of each layer removed",
    ylabel="validation accuracy (%)",
    title="Ordinary networks; removed, nothing trained afterwards",
    xaxis="sparsity",
    ylim=(0, 102),
)
plots.show(
    fig,
    alt="Validation accuracy against filters removed from each layer, three seeds. At 50 per cent: "
    + ", ".join(f"{how} {v[:, SHARES.index(0.5)].mean():.0f}" for how, v in by_score.items())
    + ".",
    inches=(5.2, 4.05),
)
half_way = {how: v[:, SHARES.index(0.5)] for how, v in by_score.items()}
display(
    Markdown(
        f"At 50 %: L1 against random {versus(half_way['filter L1'], half_way['random'])}; α against"
        f" L1 {versus(half_way['α, dense'], half_way['filter L1'])}. A network trained as usual"
        " uses all its channels."
    )
)

# %% [markdown] slideshow={"slide_type": "notes"}
# Most important first, the largest L1 norm, is the check that an order says something
# at all. Random: three draws for each network. Li et al. fine-tune after every removal
# and find L1 norms good enough; fine-tuning covers differences up (lab 01).

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Batch norm at inference is a line
#
# For each channel $c$, with $\mu_c$ and $\sigma_c$ **fixed** after training:
#
# $$Y_c = \alpha_c\,\frac{X_c-\mu_c}{\sigma_c}+\beta_c \;=\; \underbrace{\frac{\alpha_c}{\sigma_c}}_{\textstyle p_c}\,X_c \;+\;
# \underbrace{\beta_c-\frac{\alpha_c\,\mu_c}{\sigma_c}}_{\textstyle q_c}$$

# %% slideshow={"slide_type": "-"}
p, _ = scale_shift(dense[0].bn3)
alpha = dense[0].bn3.weight.detach()
correlation = np.corrcoef(alpha.abs().numpy(), p.abs().numpy())[0, 1]
display(
    Markdown(
        "| | here | torch | elsewhere |\n|---|---|---|---|\n| scale | $\\alpha$ | `weight` |"
        " $\\gamma$ |\n| shift | $\\beta$ | `bias` | $\\beta$ |\n| statistics | $\\mu$, $\\sigma$"
        " | `running_mean`, `running_var` = variance | |\n\nα and p are two things: in bn3 α is"
        f" {alpha.min():.2f} to {alpha.max():.2f}, p {p.min():.2f} to {p.max():.2f}; r ="
        f" {correlation:.2f}."
    )
)

# %% [markdown] slideshow={"slide_type": "notes"}
# σ stands for √(σ² + ε). μ and σ are running averages collected in training; for
# inference all four are constants. While it trains, a batch norm uses those of the
# batch at hand: another function. The usual slips: dividing by the variance, no ε, an ε
# outside the root.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Folding: the convolution takes the line in
#
# A convolution is linear. Channel $m$ is $\langle w_m, x\rangle + b_m$ at every place,
# so
#
# $$p_m\bigl(\langle w_m, x\rangle + b_m\bigr) + q_m \;=\; \langle\, \underbrace{p_m w_m}_{\textstyle\text{new filter}},\, x\rangle \;+\;
# \underbrace{p_m b_m + q_m}_{\textstyle\text{new bias}}$$
#
# The batch norm is gone, and nothing was approximated.

# %% slideshow={"slide_type": "fragment"}
refusal = ""
try:
    fold_model_in_training = fold_model(copy.deepcopy(dense[0]).train())[1]
    refusal = next(iter(fold_model_in_training.left.values()))
except RuntimeError as error:
    refusal = str(error)
display(
    Markdown(
        f"- **Not in training mode.** The library refuses: *“{refusal}”*\n- **Only behind.** In"
        " front of a convolution the shift $q$ would have to pass through it; at a border padded"
        " with zeros a part of the kernel sees no $q$."
    )
)

# %% [markdown] slideshow={"slide_type": "notes"}
# Convolutions in front of a batch norm usually have no bias, since β does its job; the
# folded one needs one. Jacob et al. (2018) fold because 8-bit arithmetic needs it: the
# weights that are quantised must be those that are used.

# %% slideshow={"slide_type": "slide"}
display(Markdown("## The same outputs, and faster?"))
torch.manual_seed(0)
picture = torch.rand(1, 3, 64, 64)
lines = [
    "| one image | folded | float32 | float64 | times faster (quartiles) |",
    "|---" * 5 + "|",
]
small = data.validation.images[:1]
timed = {
    "ours, 8 × 8": (dense[0], small),
    "ResNet-18, 32 × 32": (resnet18(weights=None), picture[:, :, ::2, ::2]),
    "MobileNetV2, 32 × 32": (mobilenet_v2(weights=None), picture[:, :, ::2, ::2]),
}
for name, (net, image) in timed.items():
    # scales, shifts and statistics that differ from channel to channel, as after
    # training
    if net is not dense[0]:
        for m in net.modules():
            if isinstance(m, nn.BatchNorm2d):
                nn.init.uniform_(m.weight, 0.5, 1.5)
                nn.init.normal_(m.bias, 0.0, 0.2)
        recalibrate(net.eval(), torch.rand(8, 3, 64, 64))
    folded, report = fold_model(net)
    pair = {"as it is": latency.forward(net, image), "folded": latency.forward(folded, image)}
    times = latency.compare(pair, repeats=200 if net is dense[0] else 41, threads=1)
    apart = []
    for dtype in (torch.float32, torch.float64):
        exact = copy.deepcopy(net).to(dtype)
        with torch.no_grad():
            y, z = exact(image.to(dtype)), fold_model(exact)[0](image.to(dtype))
        apart.append(f"{float((y - z).abs().max() / y.abs().max()):.0e}")
    ratios = np.divide(times["as it is"].samples, times["folded"].samples)
    low, faster, high = np.quantile(ratios, (0.25, 0.5, 0.75))
    count = f"{len(report.folded)} of {len(report.folded) + len(report.left)}"
    lines.append(
        f"| {name} | {count} | {apart[0]} | {apart[1]} | **{faster:.2f}** ({low:.2f} to"
        f" {high:.2f}) |"
    )
display(Markdown("\n".join(lines)))

# %% [markdown]
# Outputs differ by so much, relative to the largest. **A difference that shrinks with
# the precision is rounding; a mistake does not care how many digits it has.** A good
# test wherever two formulas should be the same.
#
# Folding saves no products to speak of. It saves *passes over the data*: a batch norm
# reads every activation and writes it back, to do two operations with it. The smaller
# the convolutions, the more one sees of that.

# %% slideshow={"slide_type": "slide"}
display(Markdown("## A removed channel is not nothing"))

# %% [markdown]
# What does a channel give that "does not matter", with $\alpha = 0$?
#
# $$Y = 0\cdot\frac{X-\mu}{\sigma}+\beta = \beta$$
#
# After ReLU $\max(\beta, 0)$, everywhere, for every image.

# %%
halves = [select_channels(model, 0.5) for model in sparse]
lines = [
    "| half of all channels, smallest |α| | layer 1 | layer 2 | layer 3 | layer 4 |",
    "|---" * 5 + "|",
]
lines[0] = lines[0].replace("|α|", "\\|α\\|")
counts = {"removed": [], "of these β > 0": [], "mean of max(β, 0)": []}
for i in range(1, 5):
    beta = torch.cat(
        [
            m.get_submodule(f"bn{i}").bias.detach()[~k[f"bn{i}"]]
            for m, k in zip(sparse, halves, strict=True)
        ]
    )
    counts["removed"].append(f"{len(beta)}")
    counts["of these β > 0"].append(f"**{int((beta > 0).sum())}**")
    counts["mean of max(β, 0)"].append(f"{beta.relu().mean():.2f}")
lines += [f"| {what} | " + " | ".join(values) + " |" for what, values in counts.items()]
display(Markdown("\n".join(lines)))

# %% [markdown]
# No information, but the next layer was trained with it. "*Assume that batch norm's
# bias is zero*" is the usual introduction. It is not.

# %% [markdown] slideshow={"slide_type": "notes"}
# Three networks trained for slimming. It is β and not q: q = β − pμ is what batch norm
# adds while α is still there. With α = 0 they are the same. A channel with β ≤ 0 leaves
# nothing behind, so with a zero or negative β the simple picture is right.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Absorb it: exact, but where?
#
# $$\Delta_m = \sum_{c\ \text{removed}}\max(\beta_c, 0)\sum_{r,s}w_{mcrs}$$
#
# is what the removed channels gave to output $m$ of the next layer: add it to its bias.
# Where the map is padded with zeros, the channel had given less than $\Delta$.
#
# A batch norm behind takes $-\Delta$ in its running mean instead, and in *training*
# mode subtracts any $\Delta$ again.

# %% slideshow={"slide_type": "slide"}
display(Markdown("## Exact inside, not at the border"))


def upper_half(model):
    """The channels of layer 1 with the larger scales."""
    alpha = model.bn1.weight.detach().abs()
    return alpha > alpha.median()


# of the three networks the one in which the channels that go leave the most
model = max(sparse, key=lambda m: m.bn1.bias.detach()[~upper_half(m)].relu().sum())
parts = [copy.deepcopy(model.get_submodule(name)).eval() for name in ("conv1", "bn1", "conv2")]
keep = upper_half(model)
shift = absorb_removed(*parts, keep)
larger = nn.functional.interpolate(data.validation.images[:64], size=(14, 14), mode="bilinear")
errors = {}
with torch.no_grad():
    for padding in ("zeros", "replicate"):
        parts[2].padding_mode = padding
        silenced = copy.deepcopy(parts)
        silenced[1].weight[~keep] = 0
        smaller = slice_pair(*parts, keep.nonzero().flatten())

        def output(conv, bn, behind):
            return behind(torch.relu(bn(conv(larger))))  # (B, M, E, F)

        should = output(*silenced)
        errors[padding, "removed"] = output(*smaller) - should
        errors[padding, "absorbed"] = errors[padding, "removed"] + shift[:, None, None]
# by column, (F,)
profile = {name: error[:, :, 1:-1].abs().mean((0, 1, 2)).numpy() for name, error in errors.items()}
exact = {
    name: float((error.abs().amax((0, 1)) < 1e-4).float().mean()) for name, error in errors.items()
}
fig = plots.curves(
    np.arange(1, 15),
    {
        "removed": profile["zeros", "removed"],
        "absorbed": profile["zeros", "absorbed"],
        "with borders repeated": profile["replicate", "absorbed"],
    },
    xlabel="column of a 14 × 14 map",
    ylabel="mean |error| of the next layer",
    title=f"Half of layer 1 out; sums are {should.abs().mean():.2f} in the mean",
)
plots.show(
    fig,
    alt=(
        f"Mean error by column of the map. Removed: {profile['zeros', 'removed'].mean():.2f} nearly"
        f" everywhere. Absorbed: {profile['zeros', 'absorbed'][1:-1].mean():.2f} inside and"
        f" {profile['zeros', 'absorbed'][[0, -1]].mean():.2f} in the first and last column. With"
        " borders repeated zero everywhere."
    ),
    inches=(5.2, 4.05),
)
display(
    Markdown(
        f"Absorbed: exact at {exact['zeros', 'absorbed']:.0%} of the places with zeros around the"
        f" map, at {exact['replicate', 'absorbed']:.0%} where the border is repeated."
    )
)

# %% [markdown] slideshow={"slide_type": "notes"}
# The middle rows, without the first and the last. The smaller the map, the larger its
# border. Absorbing is a repair for a network that is not trained any further: (x + Δ)
# minus its mean is x minus its mean.

# %% slideshow={"slide_type": "slide"}
display(Markdown("## Where layers add up, they must agree"))
plots.show(residual_agreement(4, 3, removed=(1,), inner_removed=(2,)))

# %% [markdown]
# Channel 2 of one is added to channel 2 of the other: it goes in **both**, and in all
# that read the sum, or in none. Channels *inside* the block are its own.

# %% [markdown] slideshow={"slide_type": "notes"}
# In a long residual stage all blocks write into one stream, so its group holds every
# second convolution of the stage, and the shortcut's. A common half-measure is to prune
# inside the blocks only. Fang et al. (2023) find such groups in any network; a
# depthwise convolution is a follower, too: one kernel a channel, nothing to choose.

# %% slideshow={"slide_type": "slide"}
display(Markdown("## Half of a ResNet-18"))
net = resnet18(weights=None).eval()
groups = [group for group in channel_groups(net, picture) if group.pinned is None]
stream = [group for group in groups if len(group.producers) > 1]
alone = [group for group in groups if len(group.producers) == 1]
masks = local_masks(l1_filters(net, groups), 0.5)
cut = {"as it is": (net, 0)}
for name, which in (("inside the blocks", alone), ("everywhere", groups)):
    kept = {k: v for group in which for k, v in group.masks(masks[group.producers[0]]).items()}
    cut[name] = (remove_filters(net, kept, picture)[0].eval(), len(which))
times = latency.compare(
    {name: latency.forward(m, picture) for name, (m, _) in cut.items()}, repeats=15, threads=1
)
costs = {name: totals(model_cost(m, picture)) for name, (m, _) in cut.items()}
lines = [
    "| half of the channels | groups | parameters (million) | times fewer MACs | times faster |",
    "|---" * 5 + "|",
]
for name, (_, n) in cut.items():
    fewer = costs["as it is"]["macs"] / costs[name]["macs"]
    clock = times["as it is"].times_slower_than(times[name])
    lines.append(
        f"| {name} | {n or ''} | {costs[name]['weights'] / 1e6:.1f} | {fewer:.1f} |"
        f" **{clock:.1f}** |"
    )
display(
    Markdown(
        f"{len(groups)} groups: {len(alone)} of one layer, {len(stream)} streams that"
        f" {len(stream[0].producers)} layers each write into. A stream's score is the sum over its"
        " layers. One image of 64 × 64:\n\n" + "\n".join(lines)
    )
)
try:
    remove_filters(net, {"layer1.0.conv2": torch.arange(64) != 7}, picture)
except ValueError as error:
    message = str(error).split(". ")[0]
    display(Markdown(f"Channel 7 of one layer alone? The library: *“{message}.”*"))

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Network slimming: let training choose
#
# Liu et al. (2017) add the scales of all batch norms to the loss, and remove the
# channels whose $\alpha$ has come down:
#
# $$L = \sum_{(x,y)} l\bigl(f(x, W), y\bigr) + \lambda \sum_c \lvert\alpha_c\rvert$$

# %% [markdown]
# Each batch norm then says how loud each channel is to be, and the loss pays for every
# one that is not silent.

# %% slideshow={"slide_type": "slide"}
louder = copy.deepcopy(dense[0])
with torch.no_grad():
    for i in range(1, 5):
        louder.get_submodule(f"conv{i}").weight *= 4
        louder.get_submodule(f"bn{i}").running_mean *= 4
        louder.get_submodule(f"bn{i}").running_var *= 16
    apart = float((louder(data.validation.images) - dense[0](data.validation.images)).abs().max())


def size(model, which):
    """Σ|α| or Σ|p| over all batch norms."""
    bns = [m for m in model.modules() if isinstance(m, nn.BatchNorm2d)]
    return float(
        sum((bn.weight.detach() if which == "α" else scale_shift(bn)[0]).abs().sum() for bn in bns)
    )


display(
    Markdown(
        "## α, and not p\n\nSome slides penalise p = α/σ. Multiply all filters by 4: σ follows,"
        f" and the outputs stay but for the ε under the root (they differ by {apart:.0e}).\n\n| |"
        " $\\sum\\lvert\\alpha\\rvert$ | $\\sum\\lvert p\\rvert$ |\n|---|---|---|\n| as trained |"
        f" {size(dense[0], 'α'):.1f} | {size(dense[0], 'p'):.1f} |\n| filters × 4 |"
        f" {size(louder, 'α'):.1f} | {size(louder, 'p'):.1f} |\n\nA penalty on p is lowered by"
        " *growing weights*, without silencing anybody. From α there is no such way out."
    )
)

# %% [markdown] slideshow={"slide_type": "notes"}
# One threshold for all layers, on |α|; each layer keeps at least its largest, or the
# network is cut in two. Liu et al. use λ of 1e-4 to 1e-5 over 160 epochs; a few epochs
# on small data need more. Weight decay is no substitute: it is L2, and on all weights.

# %% slideshow={"slide_type": "slide"}
display(Markdown("## Why the absolute value?"))
a = np.linspace(-2, 2, 81)
lam = 0.6
soft = np.sign(a) * np.maximum(np.abs(a) - lam, 0)
fig = plots.curves(
    a,
    {"no penalty": a, "½λα²": a / (1 + lam), "λ|α|": soft},
    xlabel="scale a without a penalty",
    ylabel="scale α with it",
    title=f"Where ½(α − a)² + penalty is smallest, λ = {lam}",
)
plots.show(
    fig,
    alt=(
        "Chosen scale against the scale without penalty. The square shrinks all by the same factor"
        f" {1 / (1 + lam):.2f}; the absolute value subtracts {lam} and gives exactly zero between"
        f" −{lam} and {lam}."
    ),
    inches=(5.2, 4.05),
)

# %% [markdown]
# $$0 \in \alpha - a + \lambda\,\partial\lvert\alpha\rvert$$
#
# $\partial\lvert\alpha\rvert$ is the sign, or, at 0, all of $[-1, 1]$. So $\alpha = 0$
# wherever $\lvert a\rvert\le\lambda$.
#
# The pull of $\lambda|\alpha|$ is as strong at 0.01 as at 1; that of
# $\tfrac12\lambda\alpha^2$ fades on the way.

# %% [markdown] slideshow={"slide_type": "notes"}
# A subgradient step of fixed length jumps over 0 and back, so SGD gives small numbers,
# not zeros; one therefore needs a threshold. For exact zeros take the proximal step,
# which is the rule of the line λ|α|: subtract ηλ, and stop at 0 (lab 02).

# %% slideshow={"slide_type": "slide"}
display(Markdown("## What becomes of the scales"))
scales = {
    how: [torch.cat(list(slimming.scales(model).values())) for model in models]
    for how, models in (("dense", dense), ("sparse", sparse))
}
near = {
    how: [100 * float((s < 0.02).float().mean()) for s in by_seed]
    for how, by_seed in scales.items()
}
fig = plots.histogram_before_after(
    torch.cat(scales["dense"]),
    torch.cat(scales["sparse"]),
    title="With the L1 term, most scales end in one spike beside zero",
    xlabel="|α|, all channels of three networks (γ in the paper)",
    ylabel="channels",
    labels=("no penalty", f"λΣ|α|, λ = {LAMBDA}"),
    bins=120,
)
for ax in fig.axes:
    ax.set_xlim(left=0)
    ax.texts[0].set_x(0.3)
plots.show(
    fig,
    alt=(
        f"Two histograms of |α|. Without penalty {np.mean(near['dense']):.0f} per cent lie below"
        f" 0.02. With the L1 penalty {np.mean(near['sparse']):.0f} per cent do, in a tall spike,"
        f" and the rest reach to {max(float(s.max()) for s in scales['sparse']):.1f}."
    ),
    inches=(8, 3.0),
)
display(
    Markdown(
        f"Below 0.02: **{pm(near['sparse'])} %** with the penalty, {pm(near['dense'])} % without."
        f" Accuracy: {pm(sparse_accuracy)} against {pm(dense_accuracy)} %,"
        f" {versus(sparse_accuracy, dense_accuracy)}."
    )
)

# %% slideshow={"slide_type": "slide"}
display(Markdown("## A famous sequence"))
STEPS = {
    "dense": "dense",
    "with λΣ\\|α\\|": "sparse-trained",
    "**70 % removed**": "pruned",
    "fine-tuned": "fine-tuned",
}
LIU = dict(zip(STEPS, (93.77, 93.30, 32.54, 93.78), strict=True))
lines = [
    "| accuracy (%) | Liu et al. 2017 | ours, digits | ours, MNIST |",
    "|---|---|---|---|",
]
for step, column in STEPS.items():
    lines.append(
        f"| {step} | {LIU[step]:.2f} | {pm(of(digits_run, column))} | {pm(of(mnist_run, column))} |"
    )


def parameters(run):
    before, after = (
        np.mean([seed[which]["parameters"] for seed in run["seeds"]]) for which in ("dense", "slim")
    )
    return f"{before / after:.1f}× fewer"


lines.append(
    f"| parameters | {20.04 / 2.25:.1f}× fewer | {parameters(digits_run)} |"
    f" {parameters(mnist_run)} |"
)
display(Markdown("\n".join(lines)))

# %%
fallen = of(digits_run, "sparse-trained") - of(digits_run, "pruned")
display(
    Markdown(
        "Liu et al.: VGG, CIFAR-10. Ours: six seeds and three. On the digits the fall is anything"
        f" from {fallen.min():.0f} to {fallen.max():.0f} points: **at a cliff, one seed is an"
        " anecdote**.\n\nIt is usually told so: *pruning destroys the network, fine-tuning repairs"
        " it.*"
    )
)

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Two minutes: what was destroyed?
#
# The channels that went had $\alpha\approx 0$. They carried *nothing*. And yet the
# network fell from 93.30 to 32.54.
#
# **1.** What did the channels hand on that is missing now?
#
# **2.** Design an experiment that tells apart: (a) features are lost, (b) the weights
# that stay do not fit any more, (c) something that needs no training to put right. You
# may change the network in any way, but use no label.
#
# **3.** Fine-tuning brought everything back. Which of the three has it shown?

# %% [markdown] slideshow={"slide_type": "notes"}
# 1: see the slide "A removed channel is not nothing". 2: set the scales to 0 and remove
# nothing; absorb the constants; measure batch norm's statistics again. Leave the answer
# open, the lab takes the fall apart in just these steps, with predictions first. 3:
# none of them. Fine-tuning repairs all three, so that it worked says nothing about
# which it was.

# %% slideshow={"slide_type": "slide"}
display(Markdown("## Controls: was it the choice? Was it the weights?"))
ROWS = {
    "dense": "dense",
    "slimming": "fine-tuned",
    "smallest filters": "filter L1, fine-tuned",
    "random channels": "random, fine-tuned",
    "**from scratch**": "same architecture from scratch",
}
lines = ["| test accuracy (%) | digits | slimming − it | MNIST | slimming − it |", "|---" * 5 + "|"]
for name, column in ROWS.items():
    cells = []
    for run in (digits_run, mnist_run):
        slimmed, other = of(run, "fine-tuned", "test"), of(run, column, "test")
        cells += [
            pm(other),
            "" if name in ("dense", "slimming") else versus(slimmed, other, cell=True),
        ]
    lines.append(f"| {name} | " + " | ".join(cells) + " |")
display(
    Markdown(
        "70 % of the channels removed, as many from each layer in all rows, fine-tuned. **Bold:"
        " shown**, without 0.\n\n" + "\n".join(lines)
    )
)

# %% [markdown]
# Liu et al. (2019; other authors) on ImageNet: *the architecture matters, not the
# inherited weights*. Slimming finds widths.

# %% [markdown] slideshow={"slide_type": "notes"}
# Digits with six seeds, MNIST with three. The random control is unkind: most channels
# of a slimmed network are silent, so chance keeps silent ones. The next slide has the
# kinder one, random channels of the ordinary networks. From scratch is not free: all
# epochs again, against a few.

# %% slideshow={"slide_type": "slide"}
display(Markdown("## The ledger"))


def slim(model, kept, seed):
    """Removed for good, then three epochs."""
    smaller, _ = remove_filters(model, kept, example)
    return train(smaller, 100 + seed, epochs=3, lr=0.1)


slimmed = [
    slim(model, kept, seed) for seed, (model, kept) in enumerate(zip(sparse, halves, strict=True))
]
chance = []
for seed, (model, kept) in enumerate(zip(dense, halves, strict=True)):
    generator = torch.Generator().manual_seed(seed)
    drawn = {name: k[torch.randperm(len(k), generator=generator)] for name, k in kept.items()}
    chance.append(slim(model, drawn, seed))
ledger = {
    "dense": dense,
    "slimming": slimmed,
    "folded, too": [fold_model(model)[0] for model in slimmed],
    "random": chance,
}
batch = data.validation.images[:8]
# of the same shapes
timed = {row: latency.forward(m[0], batch) for row, m in ledger.items() if m is not chance}
times = latency.compare(timed, repeats=200, threads=1)
lines = ["| | weights | MACs (k) | fewer | ms | faster | accuracy |", "|---" * 7 + "|"]
scored = {row: [accuracy(model) for model in models] for row, models in ledger.items()}
for row, models in ledger.items():
    products = totals(model_cost(models[0], example))["macs"]
    size_of = sum(p.numel() for p in models[0].parameters())
    clock = " | "
    if row in times:
        clock = (
            f"{1e3 * times[row].median:.2f} |"
            f" **{times['dense'].times_slower_than(times[row]):.1f}**"
        )
    fewer = whole["macs"] / products
    lines.append(
        f"| {row} | {size_of:,} | {products / 1e3:.0f} | {fewer:.1f} | {clock} |"
        f" {pm(scored[row])} |"
    )
display(Markdown("\n".join(lines)))
display(
    Markdown(
        "Half of all channels out, three epochs of fine-tuning; processor time of one thread."
        f" Slimming against random channels: {versus(scored['slimming'], scored['random'])}."
        " **Report both ratios**: the counted one says what could be saved, the measured one what"
        " was."
    )
)

# %% [markdown] slideshow={"slide_type": "notes"}
# 8 images, one thread, all in turns; costs of the first network, validation accuracy
# (%) of three. Random channels leave the same shapes, so the same time. Fewer MACs are
# not the same factor in time: small layers fill the vector units badly, and what is no
# product (ReLU, pooling, calls) hardly shrinks. The lab puts unstructured networks of
# equal MACs into the same ledger, at three sizes.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## What to take along
#
# - Zeros take time, missing filters do not. Single weights are more accurate, filters
#   are faster; **N:M** lies between.
# - A filter takes with it four entries of batch norm, a map, and a **column of the next
#   layer**; where layers add, its whole group.
# - Batch norm at inference is a line, $pX+q$; a convolution in front takes it in, with
#   fixed statistics only.
# - What is removed leaves a **constant**, $\max(\beta,0)$. Absorb it: exact inside, not
#   at zero-padded borders.
# - Before you praise fine-tuning, ask what was broken. Controls: random channels, **and
#   the same widths from scratch**.
# - L1 on α makes channels that can go; not L2, and not on p. Count MACs *and* measure
#   time.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Lab 04, and where to read on
#
# - Liu, Li, Shen, Huang, Yan & Zhang (2017). Learning efficient convolutional networks
#   through network slimming. *ICCV*.
# - Li, Kadav, Durdanovic, Samet & Graf (2017). Pruning filters. *ICLR*.
# - Ye, Lu, Lin & Wang (2018). Rethinking the smaller-norm-less-informative assumption
#   in channel pruning. *ICLR*.
# - Liu, Sun, Zhou, Huang & Darrell (2019). Rethinking the value of network pruning.
#   *ICLR*.
# - Jacob et al. (2018). Quantization and training of neural networks. *CVPR*.
# - Fang, Ma, Song, Mi & Wang (2023). DepGraph. *CVPR*.
# - Kung, McDanel & Zhang (2019). Packing sparse convolutional networks. *ASPLOS*.
