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
from functools import partial
from math import comb

import numpy as np
import pandas as pd
import torch
from torch import nn
from torchvision.models import mobilenet_v2, resnet18

from course_lib.cost import conv_cost
from course_lib.data.images import load
from course_lib.experiments import lab04, lab04_lecture
from course_lib.pruning import channels
from course_lib.pruning.channels import slimming
from course_lib.pruning.weights import local_masks
from course_lib.show import plots, tables
from course_lib.show.words import minus, pm, say

plots.use_style()
torch.set_num_threads(1)
warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta state")
data = load("digits")
images, example = data.validation.images, data.train.images[:1]
SEEDS, EPOCHS, LAMBDA = 3, 8, 3e-2
dense = lab04.trained(data, SEEDS, EPOCHS)
sparse = lab04.trained(data, SEEDS, EPOCHS, partial(slimming.penalty, lam=LAMBDA))
stored = lab04.stored()

# %% [markdown] slideshow={"slide_type": "slide"}
# # What if the filter is not there at all?
#
# Neural-network pruning · lecture to lab 04
#
# *Zeros do not make a network faster; smaller layers do. Which filters can be removed,
# what is removed with them, and what do they leave behind?*

# %% [markdown] slideshow={"slide_type": "notes"}
# Seventy-five minutes: shapes of sparsity (15), the cascade (15), batch norm (20),
# slimming (20), what it was worth (5). Small figures: four 3 × 3 convolutions of 32,
# 32, 64, 64 filters on scikit-learn's 8 × 8 digits, three seeds, validation images. The
# slimming table is a stored result: six seeds of the same network, and three on MNIST.

# %% slideshow={"slide_type": "slide"}
say("## A zero takes as long as any other number")
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
rows = [
    {
        "3 × 3 on 64 channels, 28 × 28": name,
        "products left": f"{int((conv.weight != 0).sum()) / (64 * 576):.0%}",
        "times faster": f"**{times['64 filters'].times_slower_than(times[name]):.1f}**",
    }
    for name, conv in layers.items()
]
tables.plain(pd.DataFrame(rows))

# %% [markdown]
# A dense kernel does not skip zeros. Sparse storage cannot use the vector units well: a
# tenth of the products, but far from a tenth of the time. A **removed** filter saves
# time on every machine.

# %% [markdown] slideshow={"slide_type": "notes"}
# Processor time, one thread, all in turns. The unfolding for CSR is not timed.
# "Specialised hardware is required" means just this. Six filters save less time than
# products: small matrices use the vector units badly. The last table shows this again.

# %% slideshow={"slide_type": "slide"}
say("## Three shapes of sparsity")
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
    inches=(8, 2.9),
)
say(
    "Share of $\\sum\\lvert w\\rvert$ kept: "
    + ", ".join(f"{name} **{share:.0%}**" for name, share in kept_size.items())
    + ". **N:M** keeps N of every M neighbours: a known pattern, with a choice in each group."
)

# %% [markdown] slideshow={"slide_type": "notes"}
# A group's score is the sum of its members' scores: so any rule for single weights
# becomes a rule for filters, rows or heads. N:M has two conventions: some code counts
# the zeros; NVIDIA and we count the kept weights.

# %% slideshow={"slide_type": "slide"}
say("## Freedom to choose, and its cost")
ways = {"single weights": comb(16, 8), "2:4": comb(4, 2) ** 4, "filters": comb(4, 2)}
where = ["special hardware", "NVIDIA, **from compute capability 8.0 (A100) on**", "**any machine**"]
frame = pd.DataFrame({"half of 4 × 4 weights": ways.keys(), "patterns": ways.values()})
frame["bits to store it"] = np.log2(frame["patterns"])
frame["runs fast on"] = where
tables.plain(frame)

# %% [markdown]
# Fewer patterns need fewer bits, and leave a method less choice. *N:M is in between.*
#
# Another one is **column combining** (Kung et al. 2019): pack several sparse columns
# into one, and prune where two collide. The paper reports about **8 times** better use
# of a systolic array. Lab 05 has both.

# %% [markdown] slideshow={"slide_type": "notes"}
# A common mistake: 2:4 on V100. Volta has compute capability 7.0 and no sparse tensor
# cores; they came with Ampere, 8.0.

# %% slideshow={"slide_type": "slide"}
say("## At the same sparsity, single weights win")
by_shape = lab04_lecture.prune_by_shape(dense, data, [0.2, 0.4, 0.6, 0.8])
dense_accuracy = lab04.accuracies({"dense": dense}, data)
fig = plots.curves(
    lab04.joined(by_shape, dense_accuracy),
    x="sparsity",
    y="accuracy",
    title="Nothing trained afterwards; random: random filters",
    xlabel="weights of each layer set to zero",
    xaxis="sparsity",
)
plots.show(fig, inches=(5.2, 4.05))
at_60 = by_shape[by_shape["sparsity"] == 0.6]
say(
    "At 60 %, single weights against filters:"
    f" {minus(at_60, 'accuracy', 'unstructured', 'structured')}. Equal *sparsity* is one way to"
    " compare; equal MACs and equal time are two others."
)

# %% [markdown] slideshow={"slide_type": "notes"}
# "Unstructured pruning is more accurate than structured pruning" is about equal
# sparsity. All networks are recalibrated. We could not detect that small L1 norms are
# better than random filters: see the slides on scores.

# %% slideshow={"slide_type": "slide"}
say("## What belongs to a filter")
plots.show(lab04.cascade(5, 3, 4, removed=(1,)), inches=(8, 3.1))

# %% [markdown]
# Row $m$ of this layer, entry $m$ of **four** vectors, map $m$, and column $m$ of the
# next layer: the **cascade**. The next layer keeps its filters, each with fewer inputs.

# %% [markdown] slideshow={"slide_type": "notes"}
# A cell is a kernel of 3 × 3. α and β are parameters, μ and σ² are buffers and easily
# forgotten. The column is often called "weight sparsity in layer i + 1". Once removed,
# it is not sparsity but a smaller layer.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## The savings of a removed filter
#
# A layer has $M$ filters on $C$ channels and $E\times F$ maps; the next has $M'$
# filters. Removing one filter saves
#
# $$\underbrace{C\,RS}_{\textstyle\text{its row}} + \underbrace{2}_{\textstyle\alpha,\,\beta} +
# \underbrace{M'\,R'S'}_{\textstyle\text{the next column}}\ \text{parameters}$$
#
# $$C\,RS\cdot EF + M'R'S'\cdot E'F'\ \text{MACs}$$

# %% [markdown] slideshow={"slide_type": "slide"}
# ## A share of filters is not a share of weights
#
# If a share $p_i$ of the filters of every layer $i$ is removed, of a layer's MACs
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
sizes, sides = [3, 64, 64, 128, 64], [32, 32, 16, 16]


def chain(widths):
    """MACs and weights of the chain of these widths."""
    costs = [
        conv_cost(m, c, 3, 3, s, s, padding=1)
        for c, m, s in zip(widths[:-1], widths[1:], sides, strict=True)
    ]
    return np.array([sum(c["macs"] for c in costs), sum(c["weight_bits"] // 32 for c in costs)])


saved = []
for i in (1, 2, 3):
    widths = list(sizes)
    widths[i] //= 2
    saved.append(1 - chain(widths) / chain(sizes))
say(
    "MACs saved by halving conv 1, 2, 3: "
    + ", ".join(f"{macs:.0%}" for macs, _ in saved)
    + "; parameters: "
    + ", ".join(f"{weights:.0%}" for _, weights in saved)
    + ". Conv 4: none of them; the cascade goes one layer far, since conv 3 keeps its filters."
)

# %% slideshow={"slide_type": "slide"}
say("## Six places to cut, and how to detect a mistake")
mistakes = lab04_lecture.cut_with_mistakes(dense[0], data)
tables.plain(mistakes, {"difference": ".1g", "accuracy": 1})

# %% [markdown]
# **Shapes reveal what was forgotten, only values what was mixed up**: multiply the maps
# by 0 in the large network, and compare.

# %% [markdown] slideshow={"slide_type": "notes"}
# The six: filter (and bias, where there is one), α, β, μ, σ², the next layer's inputs.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Which filter?
#
# | score of channel $m$ | | looks at |
# |---|---|---|
# | L1 norm of the filter | $\sum_{c,r,s}\lvert w_{mcrs}\rvert$ | weights (Li et al. 2017) |
# | scale | $\lvert\alpha_m\rvert$ | batch norm (Liu et al. 2017) |
# | random | | nothing: the baseline |

# %% slideshow={"slide_type": "-"}
louder = copy.deepcopy(dense[0])
norm = louder.conv2.weight.detach().abs().sum((1, 2, 3))
weakest = int(norm.argmin())
with torch.no_grad():
    louder.conv2.weight[weakest] *= 10
    louder.bn2.running_mean[weakest] *= 10
    louder.bn2.running_var[weakest] *= 100
    apart = (louder.eval()(images) - dense[0].eval()(images)).abs().max()
after = louder.conv2.weight.detach().abs().sum((1, 2, 3))
ranked = [int((values > values[weakest]).sum()) + 1 for values in (norm, after)]
say(
    f"**Batch norm cancels a filter's norm.** Multiply the weakest of {len(norm)} filters by 10;"
    f" μ and σ follow, as they would in training. The outputs differ by {float(apart):.0e}, and"
    f" the filter is no longer number {ranked[0]} but **number {ranked[1]}**.\n\nSo filter"
    " norms are compared *within* a layer, where the filters at least read the same inputs;"
    " |α| is the amplitude after batch norm, and may be compared across layers."
)

# %% slideshow={"slide_type": "slide"}
say("## Does the score help?")
by_score = lab04_lecture.compare_scores(dense, data, [0.2, 0.4, 0.5, 0.6])
fig = plots.curves(
    lab04.joined(by_score, dense_accuracy),
    x="removed",
    y="accuracy",
    title="Ordinary networks; removed, nothing trained afterwards",
    xlabel="filters of each layer removed",
    xaxis="sparsity",
)
plots.show(fig, inches=(5.2, 4.05))
half_way = by_score[by_score["removed"] == 0.5]
say(
    f"At 50 %: L1 against random {minus(half_way, 'accuracy', 'filter L1', 'random')}; α against"
    f" L1 {minus(half_way, 'accuracy', 'α, dense', 'filter L1')}. A network trained as usual uses"
    " all its channels."
)

# %% [markdown] slideshow={"slide_type": "notes"}
# "Most important first" removes the largest L1 norms first, to test whether the order
# has any information. Random: three draws per network. Li et al. fine-tune after every
# removal and find L1 norms good enough; fine-tuning hides differences (lab 01).

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Batch norm at inference is a line
#
# For each channel $c$, with $\mu_c$ and $\sigma_c$ **fixed** after training:
#
# $$Y_c = \alpha_c\,\frac{X_c-\mu_c}{\sigma_c}+\beta_c \;=\; \underbrace{\frac{\alpha_c}{\sigma_c}}_{\textstyle p_c}\,X_c \;+\;
# \underbrace{\beta_c-\frac{\alpha_c\,\mu_c}{\sigma_c}}_{\textstyle q_c}$$

# %% slideshow={"slide_type": "-"}
p, _ = channels.scale_shift(dense[0].bn3)
alpha = dense[0].bn3.weight.detach()
correlation = np.corrcoef(alpha.abs().numpy(), p.abs().numpy())[0, 1]
say(
    "| | here | torch | elsewhere |\n|---|---|---|---|\n| scale | $\\alpha$ | `weight` |"
    " $\\gamma$ |\n| shift | $\\beta$ | `bias` | $\\beta$ |\n| statistics | $\\mu$, $\\sigma$"
    " | `running_mean`, `running_var` = variance | |\n\nα and p are two things: in bn3 α is"
    f" {alpha.min():.2f} to {alpha.max():.2f}, p {p.min():.2f} to {p.max():.2f}; r ="
    f" {correlation:.2f}."
)

# %% [markdown] slideshow={"slide_type": "notes"}
# σ stands for √(σ² + ε). μ and σ are running averages collected in training; for
# inference all four are constants. In training, a batch norm uses those of the current
# batch: another function. Common mistakes: dividing by the variance, no ε, an ε outside
# the root.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Folding: the convolution absorbs the line
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
    _, report = channels.fold_model(copy.deepcopy(dense[0]).train())
    refusal = next(iter(report.left.values()))
except RuntimeError as error:
    refusal = str(error)
say(
    f"- **Not in training mode.** The library refuses: *“{refusal}”*\n- **Only after a"
    " convolution.** Before it, the shift $q$ would have to pass through; at a border padded"
    " with zeros a part of the kernel receives no $q$."
)

# %% [markdown] slideshow={"slide_type": "notes"}
# Convolutions before a batch norm usually have no bias, since β does its job; the
# folded one needs one. Jacob et al. (2018, section 3.2) fold in quantised training, so
# that the weights rounded in training are those that inference uses.

# %% slideshow={"slide_type": "slide"}
say("## The same outputs, and faster?")
torch.manual_seed(0)
picture = torch.rand(1, 3, 64, 64)
nets = {
    "ours, 8 × 8": (dense[0].eval(), images[:1]),
    "ResNet-18, 32 × 32": (resnet18(weights=None), picture[:, :, ::2, ::2]),
    "MobileNetV2, 32 × 32": (mobilenet_v2(weights=None), picture[:, :, ::2, ::2]),
}
for net, _ in list(nets.values())[1:]:  # scales that differ by channel, as after training
    for m in net.modules():
        if isinstance(m, nn.BatchNorm2d):
            nn.init.uniform_(m.weight, 0.5, 1.5)
            nn.init.normal_(m.bias, 0.0, 0.2)
    channels.recalibrate(net.eval(), torch.rand(8, 3, 64, 64))
rows = []
for name, (net, image) in nets.items():
    folded, report = channels.fold_model(net)
    time = lab04.folding_times({name: (net, folded, image)}).iloc[0]
    errors = lab04.folding_errors(net, lambda net: channels.fold_model(net)[0], image)["relative"]
    rows.append(
        {
            "one image": name,
            "folded": f"{len(report.folded)} of {len(report.folded) + len(report.left)}",
            "float32": errors[0],
            "float64": errors[1],
            "times faster (quartiles)": f"**{time['times faster']:.2f}** ({time['quartiles']})",
        }
    )
tables.plain(pd.DataFrame(rows), ".0e")

# %% [markdown]
# Differences of outputs, relative to the largest. **A difference that shrinks with
# higher precision is rounding; a mistake does not shrink.** A good test wherever two
# formulas should be equal.
#
# Folding saves no products to speak of. It saves *passes over the data*: a batch norm
# reads every activation and writes it back, to do two operations with it. This matters
# most for small convolutions.

# %% slideshow={"slide_type": "slide"}
say("## A removed channel is not nothing")

# %% [markdown]
# A channel "does not matter" if $\alpha = 0$. What is its output?
#
# $$Y = 0\cdot\frac{X-\mu}{\sigma}+\beta = \beta$$
#
# After ReLU $\max(\beta, 0)$, everywhere, for every image.

# %%
halves = [channels.select_channels(model, 0.5) for model in sparse]
tables.plain(lab04.constants_left(sparse, halves), 2)

# %% [markdown]
# The next layer was trained with it. It is not 0, as is often assumed.

# %% [markdown] slideshow={"slide_type": "notes"}
# Three networks trained for slimming. It is β and not q: q = β − pμ is the shift while
# α is not 0. With α = 0 they are equal. A channel with β ≤ 0 leaves nothing behind, so
# with a zero or negative β the simple picture is right.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Absorb it: exact, but where?
#
# $$\Delta_m = \sum_{c\ \text{removed}}\max(\beta_c, 0)\sum_{r,s}w_{mcrs}$$
#
# is the sum that output $m$ of the next layer received from the removed channels: add
# it to its bias. Near a zero-padded border it had received less than $\Delta$.
#
# A following batch norm takes $-\Delta$ in its running mean instead; in *training* mode
# it subtracts any $\Delta$ again.

# %% slideshow={"slide_type": "slide"}
say("## Exact inside, not at the border")
larger = nn.functional.interpolate(images[:64], size=(14, 14), mode="bilinear")


def leaves(model):
    """The constants of the channels of layer 1 that are removed, added up."""
    return model.bn1.bias.detach()[~lab04.larger_half(model.bn1)].relu().sum()


model = max(sparse, key=leaves)
cuts = channels.slice_pair, channels.absorb_removed
zeros = lab04.border_errors(model, *cuts, larger)
repeated = lab04.border_errors(model, *cuts, larger, "replicate")
short = {"removed, constant absorbed": "absorbed"}
repeated = repeated[repeated["method"] != "removed"].assign(method="with borders repeated")
errors = lab04.joined(zeros.replace({"method": short}), repeated)
inside = errors[errors["row"].between(2, 13)]
fig = plots.curves(
    inside.groupby(["method", "column"], sort=False)["error"].mean().reset_index(),
    x="column",
    y="error",
    control=None,
    title=f"Half of layer 1 out; sums are {errors['size'].mean():.2f} in the mean",
    xlabel="column of a 14 × 14 map",
    ylabel="mean |error| of the next layer",
)
plots.show(fig, inches=(5.2, 4.05))
exact = (errors["error"] < 1e-5).groupby(errors["method"]).mean()
say(
    f"Absorbed: exact at {exact['absorbed']:.0%} of the places with zeros around the map, at"
    f" {exact['with borders repeated']:.0%} where the border is repeated."
)

# %% [markdown] slideshow={"slide_type": "notes"}
# The middle rows, without the first and the last. The smaller the map, the larger its
# border. Absorbing is a repair for a network that is not trained any further: (x + Δ)
# minus its mean is x minus its mean.

# %% slideshow={"slide_type": "slide"}
say("## Where layers add up, they must agree")
outer, inner = torch.tensor([True, False, True, True]), torch.tensor([True, True, False])
masks = {
    "conv 0: 4 × 2": outer[:, None].expand(-1, 2),
    "conv 1: 3 × 4": inner[:, None] & outer,
    "conv 2: 4 × 3": outer[:, None] & inner,
    "conv 3: 3 × 4": outer.expand(3, -1),
}
title = "conv 2 adds to what conv 0 made: channel 2 of the sum, and channel 3 inside, are out"
plots.show(plots.grid(masks, title=title), inches=(8, 2.6))

# %% [markdown]
# Channel 2 of one is added to channel 2 of the other: remove it from **both**, and from
# all that read the sum, or from none. Channels *inside* the block are free.

# %% [markdown] slideshow={"slide_type": "notes"}
# In a long residual stage all blocks write into one stream, so its group contains every
# second convolution of the stage, and the shortcut's. A common compromise is to prune
# inside the blocks only. Fang et al. (2023) find such groups in any network. A
# depthwise convolution follows, too: one kernel per channel, nothing to choose.

# %% slideshow={"slide_type": "slide"}
say("## Half of a ResNet-18")
net = resnet18(weights=None).eval()
groups = [group for group in channels.channel_groups(net, picture) if group.pinned is None]
stream = [group for group in groups if len(group.producers) > 1]
alone = [group for group in groups if len(group.producers) == 1]
cut = {"as it is": net}
for name, which in (("inside the blocks", alone), ("everywhere", groups)):
    cut[name], _ = lab04.halved(net, which, picture)
costs = lab04.costs(cut, picture, repeats=15)
costs["parameters (million)"] = [lab04.parameters(net) / 1e6 for net in cut.values()]
costs = costs.rename(columns={"fewer": "times fewer MACs", "faster": "times faster"})
say(
    f"{len(groups)} groups: {len(alone)} of one layer, {len(stream)} streams that"
    f" {len(stream[0].producers)} layers each write into. A stream's score is the sum over its"
    " layers. One image of 64 × 64:"
)
tables.show(
    tables.plain(costs[["method", "parameters (million)", "times fewer MACs", "times faster"]])
)
try:
    channels.remove_filters(net, {"layer1.0.conv2": torch.arange(64) != 7}, picture)
except ValueError as error:
    say(f"Channel 7 of one layer alone? The library: *“{str(error).split('. ')[0]}.”*")

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Network slimming: let training choose
#
# Liu et al. (2017) add the scales of all batch norms to the loss, and remove the
# channels whose $\alpha$ has become small:
#
# $$L = \sum_{(x,y)} l\bigl(f(x, W), y\bigr) + \lambda \sum_c \lvert\alpha_c\rvert$$

# %% [markdown]
# Each $\alpha$ sets the amplitude of a channel, and the loss pays for every $\alpha$
# that is not 0.

# %% slideshow={"slide_type": "slide"}
say(
    "## α, and not p\n\nA form often seen penalises p = α/σ. Multiply all filters by 4: σ grows by the"
    " same factor, and the outputs do not change (except for the ε under the root)."
)
table = lab04.penalties(dense[0], channels.scale_shift, images, factor=4)
tables.show(tables.plain(table, {"difference": ".0e"}))
say(
    "*Growing weights* lower a penalty on p, without switching off any channel. They do not lower a"
    " penalty on α."
)

# %% [markdown] slideshow={"slide_type": "notes"}
# One threshold for all layers, on |α|; each layer keeps at least its largest, or the
# network is cut in two. Liu et al. use λ of 1e-4 to 1e-5 over 160 epochs; a few epochs
# on small data need more. Weight decay is no substitute: it is L2, on all weights.

# %% slideshow={"slide_type": "slide"}
say("## Why the absolute value?")
a = np.linspace(-2, 2, 81)
lam = 0.6
soft = np.sign(a) * np.maximum(np.abs(a) - lam, 0)
lines = pd.DataFrame({"a": a, "no penalty": a, "½λα²": a / (1 + lam), "λ|α|": soft})
fig = plots.curves(
    lines.melt("a", var_name="method", value_name="α"),
    x="a",
    y="α",
    control=None,
    xlabel="scale a without a penalty",
    ylabel="scale α with it",
    title=f"Where ½(α − a)² + penalty is smallest, λ = {lam}",
)
plots.show(fig, inches=(5.2, 4.05))

# %% [markdown]
# $$0 \in \alpha - a + \lambda\,\partial\lvert\alpha\rvert$$
#
# $\partial\lvert\alpha\rvert$ is the sign, or, at 0, all of $[-1, 1]$. So $\alpha = 0$
# wherever $\lvert a\rvert\le\lambda$.
#
# The gradient of $\lambda|\alpha|$ is as strong at 0.01 as at 1; that of
# $\tfrac12\lambda\alpha^2$ becomes weak.

# %% [markdown] slideshow={"slide_type": "notes"}
# A subgradient step of fixed length jumps over 0, so SGD gives small numbers, not
# zeros, and a threshold is needed. Exact zeros need the proximal step, the rule of the
# line λ|α|: subtract ηλ, and stop at 0 (lab 02).

# %% slideshow={"slide_type": "slide"}
say("## The scales after training")
title = "With the L1 term, most scales end in one peak near zero"
both = {"no penalty": dense, f"λΣ|α|, λ = {LAMBDA}": sparse}
plots.show(lab04.draw_scales(both, title), inches=(8, 3.0))
found = lab04.scale_table({"dense": dense, "sparse": sparse}, data)
near = {how: pm(rows["near zero (%)"]) for how, rows in found.groupby("method")}
scored = {how: pm(rows["accuracy"]) for how, rows in found.groupby("method")}
say(
    f"Below 0.02: **{near['sparse']} %** with the penalty, {near['dense']} % without. Accuracy:"
    f" {scored['sparse']} against {scored['dense']} %,"
    f" {minus(found, 'accuracy', 'sparse', 'dense')}."
)

# %% slideshow={"slide_type": "slide"}
say("## A famous sequence")
steps = ["dense", "sparse-trained", "pruned", "fine-tuned"]
slim = stored[(stored["method"] == "slimming") & stored["step"].isin(steps)]
table = tables.means(slim, "accuracy", rows="step", columns="data")
table.header[1:1] = ["Liu et al. 2017"]
for row, accuracy in zip(table.rows, ("93.77", "93.30", "**32.54**", "93.78"), strict=True):
    row[1:1] = [accuracy]
sizes = lab04.stored("costs").groupby(["data", "network"])["parameters"].mean().unstack()
ratios = [20.04 / 2.25, *(sizes["dense"] / sizes["slim"])[["digits", "MNIST"]]]
table.rows.append(["parameters", *(f"{ratio:.1f}× fewer" for ratio in ratios)])
tables.show(table)

# %%
by_step = slim[slim["data"] == "digits"].pivot(index="seed", columns="step", values="accuracy")
fallen = by_step["sparse-trained"] - by_step["pruned"]
say(
    "Liu et al.: VGG, CIFAR-10. Ours: six seeds and three; 70 % of the channels are removed. On"
    f" the digits the fall is anything from {fallen.min():.0f} to {fallen.max():.0f} points: **at a"
    " cliff, one seed is an anecdote**.\n\nThe usual explanation: *pruning destroys the network,"
    " fine-tuning repairs it.*"
)

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Two minutes: what was destroyed?
#
# The removed channels had $\alpha\approx 0$. They carried *no signal*. But the accuracy
# fell from 93.30 to 32.54.
#
# **1.** Which output of these channels is missing now?
#
# **2.** Design an experiment that separates: (a) features are lost, (b) the kept
# weights no longer fit, (c) a fault that can be repaired without training. You may
# change the network in any way, but use no label.
#
# **3.** Fine-tuning restored everything. Which of the three does that prove?

# %% slideshow={"slide_type": "slide"}
say("## Baselines: was it the choice? Was it the weights?")
names = {"filter L1": "smallest filters"}
end = stored[stored["step"].isin(["dense", "fine-tuned", "from scratch"])].replace(
    {"method": names}
)
end["method"] = end["method"].where(end["step"] == "fine-tuned", end["step"])
table = tables.means(end, {"test": "test accuracy (%)"}, columns="data")
others = end[end["method"] != "dense"]
gaps = tables.compare(others, "test", against="slimming", columns="data")
differences = {row[0]: row[1:] for row in gaps.rows}
table.header += ["minus slimming, digits", "minus slimming, MNIST"]
table.rows = [row + differences.get(row[0], ["", ""]) for row in table.rows]
tables.show(table)
say("Test accuracy (%), 70 % of the channels removed. **Bold**: distinguishable.")

# %% [markdown]
# Liu et al. (2019), CIFAR and ImageNet: *the architecture matters more than inherited
# weights*. Slimming may be read as a search for widths.

# %% [markdown] slideshow={"slide_type": "notes"}
# Digits with six seeds, MNIST with three; as many channels removed from each layer in
# all rows, and fine-tuned. The random baseline is weak: most channels of a slimmed
# network are silent, so a random choice keeps silent ones. The next slide has a fairer
# one, random channels of the dense networks. From scratch costs all epochs again. Both
# papers by Liu et al. have the same first author.

# %% [markdown] slideshow={"slide_type": "notes"}
# {{claim 04.3}}
#
# {{claim 04.4}}

# %% slideshow={"slide_type": "slide"}
say("## The ledger")


def slim_network(model, kept, seed):
    """Channels removed, then three epochs of training."""
    smaller, _ = channels.remove_filters(model, kept, example)
    return lab04.train(smaller, data, 100 + seed, epochs=3, lr=0.1)


slimmed = [slim_network(sparse[seed], kept, seed) for seed, kept in enumerate(halves)]
ledger = {
    "dense": dense,
    "slimming": slimmed,
    "folded, too": [channels.fold_model(model.eval())[0] for model in slimmed],
    "random": [
        slim_network(dense[seed], lab04.random_channels(kept, seed), seed)
        for seed, kept in enumerate(halves)
    ],
}
scored = lab04.accuracies(ledger, data)
costs = lab04.costs({row: models[0] for row, models in ledger.items()}, images[:8], repeats=200)
costs["accuracy"] = [pm(rows["accuracy"]) for _, rows in scored.groupby("method", sort=False)]
short = {"kb": "kB", "fewer": "× fewer", "faster": "× faster", "accuracy": "accuracy (%)"}
tables.show(tables.plain(costs.drop(columns="bits").rename(columns=short), {"ms": 2}))
say(
    "Half of all channels out, three epochs of fine-tuning; processor time of one thread. Slimming"
    f" against random channels: {minus(scored, 'accuracy', 'slimming', 'random')}. **Report both"
    " ratios**: the counted one says what could be saved, the measured one what was."
)

# %% [markdown] slideshow={"slide_type": "notes"}
# 8 images, one thread, all in turns; costs of the first network, validation accuracy
# (%) of three. Random channels leave the same shapes, so the same time. Fewer MACs are
# not the same factor in time: small layers use the vector units badly, and everything
# except products (ReLU, pooling, calls) hardly shrinks. The lab puts unstructured
# networks of equal MACs into the same ledger, at three sizes.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## What to take along
#
# - Zeros take time, removed filters do not. Single weights are more accurate, filters
#   are faster; **N:M** is in between.
# - Removing a filter removes four entries of batch norm, a map, and a **column of the
#   next layer**; where layers add, its whole group.
# - Batch norm at inference is a line, $pX+q$; the convolution before it absorbs it,
#   with fixed statistics only.
# - A removed channel was a **constant**, $\max(\beta,0)$. Absorb it: exact inside, not
#   at zero-padded borders.
# - Before you praise fine-tuning, ask what was broken. Baselines: random channels,
#   **and the same widths from scratch**.
# - L1 on α gives removable channels; L2, or L1 on p, does not. Count MACs *and* measure
#   time.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Lab 04, and where to read on
#
# - Liu, Li, Shen, Huang, Yan & Zhang (2017). [Learning efficient convolutional networks
#   through network slimming](https://arxiv.org/abs/1708.06519). *ICCV*.
# - Li, Kadav, Durdanovic, Samet & Graf (2017). [Pruning
#   filters](https://arxiv.org/abs/1608.08710). *ICLR*.
# - Ye, Lu, Lin & Wang (2018). [Rethinking the smaller-norm-less-informative assumption
#   in channel pruning](https://arxiv.org/abs/1802.00124). *ICLR*.
# - Liu, Sun, Zhou, Huang & Darrell (2019). [Rethinking the value of network
#   pruning](https://arxiv.org/abs/1810.05270). *ICLR*.
# - Jacob et al. (2018). [Quantization and training of neural
#   networks](https://arxiv.org/abs/1712.05877). *CVPR*.
# - Fang, Ma, Song, Mi & Wang (2023). [DepGraph](https://arxiv.org/abs/2301.12900).
#   *CVPR*.
# - Kung, McDanel & Zhang (2019). [Packing sparse convolutional
#   networks](https://doi.org/10.1145/3297858.3304028). *ASPLOS*.
