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
from course_lib import experiments

# isort: split
import copy

import numpy as np
import pandas as pd
import torch
from torchvision.models import resnet18

from course_lib.data.images import load
from course_lib.experiments import lab04
from course_lib.pruning import channels
from course_lib.pruning.channels import slimming
from course_lib.show import plots, tables
from course_lib.show.words import say

plots.use_style()
torch.set_num_threads(1)
data = load("digits")
images, example = data.validation.images, data.train.images[:1]
EPOCHS, LAMBDA = 20, 2e-2
(dense,) = lab04.trained(data, 1, EPOCHS)
(sparse,) = lab04.trained(data, 1, EPOCHS, lambda model: slimming.penalty(model, LAMBDA))
collapse, equal = lab04.stored("collapse"), lab04.stored("equal")

# %% [markdown] slideshow={"slide_type": "slide"}
# # What if the filter is not there at all?
#
# Neural-network pruning · lecture to lab 04
#
# *Zeros do not make a network faster; smaller layers do. Which filters can be removed,
# what is removed with them, and what do they leave behind?*

# %% [markdown] slideshow={"slide_type": "notes"}
# Sixty-five minutes: shapes of sparsity (5), the cascade (15), batch norm (20),
# slimming (15), equal MACs (10). Small figures: four 3 × 3 convolutions of 32, 32, 64, 64
# filters on scikit-learn's 8 × 8 digits, one seed, validation images. The tables of slimming
# are stored results: six seeds of the same network, and four on MNIST.

# %% slideshow={"slide_type": "slide"}
say("## At 90 % sparsity, single weights win")
both = experiments.read("lab01_pruning_digits/structured")
shapes = both[(both["method"] == "magnitude") & both["granularity"].isin(["element", "filter"])]
fig = plots.curves(
    shapes.assign(
        method=shapes["granularity"].map({"element": "single weights", "filter": "filters"})
    ),
    x="sparsity",
    y="accuracy",
    control=None,
    title="By magnitude, recalibrated, not trained (lab 01)",
    xaxis="sparsity",
)
plots.show(fig, inches=(5.2, 4.05))

# %% [markdown]
# Equal *sparsity* is one way to compare. Equal MACs and equal time are two others, and they
# answer another question.

# %% [markdown] slideshow={"slide_type": "notes"}
# "Unstructured pruning is more accurate than structured pruning" is about equal sparsity, and
# shows here from 90 % on.
# The end of the lecture compares at equal MACs.

# %% slideshow={"slide_type": "slide"}
say("## What belongs to a filter")
plots.show(lab04.removed_filters(5, 3, 4, removed=(1,)), inches=(8, 3.1))

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
# If every layer $i$ keeps a share $k_i$ of its filters, of a layer's MACs
#
# $$k_{i-1}\,k_i$$
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
    layers = list(zip(widths[:-1], widths[1:], sides, strict=True))
    return np.array(
        [sum(9 * c * m * s * s for c, m, s in layers), sum(9 * c * m for c, m, _ in layers)]
    )


halved = [[w // 2 if k == i else w for k, w in enumerate(sizes)] for i in (1, 2, 3)]
saved = [1 - chain(widths) / chain(sizes) for widths in halved]
say(
    "MACs saved by halving conv 1, 2, 3: "
    + ", ".join(f"{macs:.0%}" for macs, _ in saved)
    + "; parameters: "
    + ", ".join(f"{weights:.0%}" for _, weights in saved)
    + ". Conv 4: none of them; the cascade goes one layer far, since conv 3 keeps its filters."
)

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Six places to cut, and how to detect a mistake
#
# | mistake | shapes | outputs |
# |---|---|---|
# | the next layer is not cut | **error** | |
# | $\mu$ and $\sigma^2$ are not cut | **error** | |
# | $\mu$, $\sigma^2$ of the *first* channels | fit | **wrong** |
# | the next layer's *first* columns | fit | **wrong** |
#
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
#
# **Batch norm cancels a filter's norm.** Multiply a filter by 10: $\mu$ and $\sigma$ follow,
# and the output is the same. So filter norms are compared *within* a layer. $\lvert\alpha\rvert$
# is the amplitude after batch norm; slimming compares it across layers, after training for it.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Batch norm at inference is a line
#
# For each channel $c$, with $\mu_c$ and $\sigma_c$ **fixed** after training:
#
# $$Y_c = \alpha_c\,\frac{X_c-\mu_c}{\sigma_c}+\beta_c \;=\; \underbrace{\frac{\alpha_c}{\sigma_c}}_{\textstyle p_c}\,X_c \;+\;
# \underbrace{\beta_c-\frac{\alpha_c\,\mu_c}{\sigma_c}}_{\textstyle q_c}$$

# %% [markdown]
# | | here | torch | elsewhere |
# |---|---|---|---|
# | scale | $\alpha$ | `weight` | $\gamma$ |
# | shift | $\beta$ | `bias` | $\beta$ |
# | statistics | $\mu$, $\sigma$ | `running_mean`, `running_var` = variance | |

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
    _, report = channels.fold_model(copy.deepcopy(dense).train())
    refusal = next(iter(report.left.values()))
except RuntimeError as error:
    refusal = str(error)
say(
    f"- **Not in training mode.** The library refuses: *“{refusal}”*\n- **Before a convolution**"
    " only without padding: at a border padded with zeros a part of the kernel receives no $q$."
)

# %% [markdown] slideshow={"slide_type": "notes"}
# Convolutions before a batch norm usually have no bias, since β does its job; the
# folded one needs one. Jacob et al. (2018, section 3.2) fold in quantised training, so
# that the weights rounded in training are those that inference uses.

# %% slideshow={"slide_type": "slide"}
say("## The same outputs, and faster?")
picture = torch.rand(1, 3, 64, 64)
net = resnet18(weights=None).eval()
pairs = {
    "ours, one 8 × 8 image": (dense.eval(), channels.fold_model(dense.eval())[0], images[:1]),
    "ours, 64 images": (dense, channels.fold_model(dense)[0], images[:64]),
    "ResNet-18, one 64 × 64": (net, channels.fold_model(net)[0], picture),
}
tables.plain(lab04.folding_times(pairs), 2)

# %% [markdown]
# **A difference that shrinks with higher precision is rounding; a mistake does not shrink.**
# Folding saves *calls and passes over the data*, most where the calls are small.

# %% [markdown] slideshow={"slide_type": "notes"}
# In lab 04 the outputs differ by about 10⁻⁷ of the largest in float32 and 10⁻¹⁶ in float64.

# %% slideshow={"slide_type": "slide"}
say("## A removed channel is not nothing")

# %% [markdown]
# $\alpha = 0$ gives $Y = 0\cdot\frac{X-\mu}{\sigma}+\beta = \beta$: after ReLU $\max(\beta, 0)$,
# everywhere, for every image.


# %%
def cascade(kept, weight, beta):
    """What lab 04's exercise 4.3 returns."""
    return channels.cascade(kept, weight, beta.relu())


keep = channels.select_channels(sparse, lab04.FRACTION)
tables.plain(lab04.constants_left(sparse, keep, cascade), 2)

# %% [markdown]
# The next layer was trained with it. The few constants before layer 4 shift small sums: the
# last column is in standard deviations of the sum.

# %% [markdown] slideshow={"slide_type": "notes"}
# One network trained for slimming, 70 % of the channels removed. It is β and not q: q = β − pμ
# is the shift while α is not 0. With α = 0 they are equal. A channel with β ≤ 0 leaves nothing.

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
border = lab04.border_errors(dense, channels.slice_pair, cascade, images[:64])
rows = border[border["row"].between(2, 7)].groupby(["method", "column"], sort=False)
fig = plots.curves(
    rows["error"].mean().reset_index(),
    x="column",
    y="error",
    control=None,
    title="Half of layer 1 removed: what is wrong in the next layer",
    xlabel="column of an 8 × 8 map",
    ylabel="mean |error|",
)
plots.show(fig, inches=(8, 4.0))

# %% [markdown] slideshow={"slide_type": "notes"}
# The smaller |α| are removed; rows 2 to 7, means over 64 images. The smaller the map, the
# larger its border. Absorbing is a repair for a network that is not trained any further: (x + Δ)
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
    cut[name], _ = lab04.halved(net, picture, which)
costs = lab04.costs(cut, picture, repeats=15)
costs = costs.rename(columns={"fewer": "times fewer MACs", "faster": "times faster"})
say(
    f"{len(groups)} groups: {len(alone)} of one layer, {len(stream)} streams that"
    f" {len(stream[0].producers)} layers each write into. A stream's score is the sum over its"
    " layers. One image of 64 × 64:"
)
tables.show(tables.plain(costs[["method", "times fewer MACs", "times faster"]]))
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

# %% [markdown] slideshow={"slide_type": "slide"}
# ## α, and not p
#
# One could also penalise $p = \alpha/\sigma$. Multiply all filters by 4: $\mu$ and
# $\sigma$ grow by the same factor, and the outputs do not change (except for the ε under the
# root).
#
# $$\sum\lvert p\rvert \to \tfrac14\sum\lvert p\rvert,\qquad \sum\lvert\alpha\rvert \to
# \sum\lvert\alpha\rvert$$
#
# *Growing weights* lower a penalty on p, without switching off any channel. They do not lower
# a penalty on α.

# %% [markdown] slideshow={"slide_type": "notes"}
# One threshold for all layers, on |α|; each layer keeps at least its largest, or the
# network is cut in two. Liu et al. use λ of 1e-4 to 1e-5 over 160 epochs; a few epochs
# on small data need more. Weight decay is no substitute: it is L2, on all weights.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Why the absolute value?
#
# Where is $\tfrac12(\alpha - a)^2 + \text{penalty}$ smallest?
#
# | penalty | $\alpha$ | gradient at 0.01 |
# |---|---|---|
# | $\tfrac12\lambda\alpha^2$ | $a/(1+\lambda)$, never 0 | $0.01\,\lambda$ |
# | $\lambda\lvert\alpha\rvert$ | 0 wherever $\lvert a\rvert\le\lambda$ | $\lambda$ |
#
# The gradient of $\lambda|\alpha|$ is as strong at 0.01 as at 1; that of
# $\tfrac12\lambda\alpha^2$ becomes weak.

# %% [markdown] slideshow={"slide_type": "notes"}
# A subgradient step of fixed length jumps over 0, so SGD gives small numbers, not
# zeros, and a threshold is needed. Exact zeros need the proximal step (lab 02).

# %% slideshow={"slide_type": "slide"}
say("## The scales after training")
title = "With the L1 term, most scales end in one peak near zero"
both = {"no penalty": [dense], f"λΣ|α|, λ = {LAMBDA}": [sparse]}
plots.show(lab04.draw_scales(both, title), inches=(8, 3.1))
mean = lab04.stored("penalties").groupby(["data", "method"])["same_widths"].mean()
say(
    "70 % of the channels removed, as many in each layer, repaired without training:"
    f" **{mean['digits', 'L1']:.0f} %** with L1, {mean['digits', 'L2']:.0f} % with L2 (MNIST:"
    f" {mean['MNIST', 'L1']:.0f} and {mean['MNIST', 'L2']:.0f} %)."
)

# %% [markdown] slideshow={"slide_type": "notes"}
# {{claim 04.1}}
#
# The largest |α| of each layer; constants absorbed, batch norm recalibrated. L2 has the same λ,
# ½λΣα². Ranked over all layers, L2 leaves a single channel in some layer, which cuts the
# network.

# %% slideshow={"slide_type": "slide"}
say("## A famous sequence")
tuned = equal[(equal["removed"] == lab04.FRACTION) & (equal["method"] == "slimming")]
steps = {"sparse-trained": "sparse-trained", "only removed": "pruned"}
before = collapse[collapse["repair"].isin(steps)].assign(step=lambda t: t["repair"].map(steps))
first = equal[equal["method"] == "dense"].assign(step="dense")
sequence = pd.concat([first, before, tuned.assign(step="fine-tuned")])
table = tables.means(sequence, "accuracy", rows="step", columns="data")
table.header[1:1] = ["code of Liu et al."]
for row, accuracy in zip(table.rows, ("93.77", "93.30", "**32.54**", "93.78"), strict=True):
    row[1:1] = [accuracy]
tables.show(table)
fallen = collapse[(collapse["data"] == "digits") & (collapse["repair"] == "only removed")][
    "accuracy"
]
say(
    "Theirs: VGG, CIFAR-10. Ours: six seeds and four; 70 % of the channels are removed. On the"
    f" digits one seed is left with {fallen.min():.0f} %, another with {fallen.max():.0f} %: **one"
    " seed is an anecdote**.\n\nThe usual explanation: *pruning destroys the network, fine-tuning"
    " repairs it.*"
)

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Two minutes: what was destroyed?
#
# If the removed channels had $\alpha\approx 0$, they carried *no signal*. But the accuracy
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
say("## Removed constants, and old statistics")
labels = {"sparse-trained": "before", "only removed": "only\nremoved"}
labels |= {"layer 4 absorbed": "absorbed\n(layer 4)", "layers 1–3 absorbed": "absorbed\n(1–3)"}
labels |= {"recalibrated": "recali-\nbrated", "both repairs": "both\nrepairs"}
shown = collapse[collapse["repair"].isin(labels)].replace({"repair": labels})
title = "70 % of the channels removed, no weight trained"
fig = plots.bars(shown, x="repair", y="accuracy", by="data", title=title, fmt="{:.0f}")
plots.show(fig, inches=(8, 3.0))

# %% [markdown]
# Most constants are in layer 4. Yet the few others break the network: batch norm subtracts
# means that contain them.

# %% [markdown] slideshow={"slide_type": "notes"}
# {{claim 04.2}}
#
# {{claim 04.3}}
#
# {{claim 04.4}}
#
# Question 3: none of them. Fine-tuning also updates the statistics. With the channels
# silenced (α = 0, nothing removed) we could not detect a loss.

# %% slideshow={"slide_type": "slide"}
say("## At equal MACs: slimming and its rivals")
plots.show(lab04.draw_rivals(equal), inches=(8, 3.1))

# %% [markdown]
# A tenth of the MACs (MNIST: an eighth). Liu et al. (2019): *the architecture matters more than
# inherited weights*. Here not even the architecture is shown to matter.

# %% [markdown] slideshow={"slide_type": "notes"}
# {{claim 04.5}}
#
# {{claim 04.6}}
#
# All are fine-tuned equally long; from scratch: as many products as the dense training.
# Uniform widths: the largest |α| of each layer. Random: channels of the dense network in
# slimming's widths. Single weights: all layers together; at 80 % of the channels
# they leave conv4 about five weights, and the network fails.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Two minutes: which rival did the paper need?
#
# A paper prunes 70 % of the channels with a new score, fine-tunes, and is half a point better
# than random channels *of the same layers*, three seeds.
#
# **1.** Who chose how many channels each layer keeps? **2.** Which two rivals separate the
# score, the widths and the inherited weights? **3.** At equal what?

# %% [markdown] slideshow={"slide_type": "notes"}
# 1: the score, also for its rival. 2: uniform widths, and the same widths from scratch. 3: MACs
# of the network, and products of the training.

# %% slideshow={"slide_type": "slide"}
say("## Counted and measured")


def cut(model, keep):
    """The library's surgery."""
    return channels.remove_filters(model, keep, example)[0]


jobs = lab04.at_three_sizes(dense, sparse, cut, example)
times = lab04.costs(jobs, images[:64])
plots.show(lab04.draw_times(times, "64 images, one thread"), inches=(5.6, 4.05))

# %% [markdown]
# **Report both ratios**: the counted one says what could be saved, the measured one what was.

# %% [markdown] slideshow={"slide_type": "notes"}
# All in turns. Fewer MACs are not the same factor in time: small layers use the vector units
# badly (a possible reason), and the number of calls does not shrink.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## What to take along
#
# - Zeros take time, removed filters do not. At equal MACs single weights are half a point
#   better at 50 % of the channels, not distinguishable at 70 %, and fail at 80 %.
# - Removing a filter removes four entries of batch norm, a map, and a **column of the
#   next layer**; where layers add, its whole group.
# - Batch norm at inference is a line, $pX+q$; the convolution before it absorbs it,
#   with fixed statistics only.
# - A removed channel was a **constant**, $\max(\beta,0)$. Absorb it: exact inside, not
#   at zero-padded borders.
# - Before you praise fine-tuning, ask what was broken. Baselines: random channels, uniform
#   widths, **and both from scratch, at equal products**.
# - L1 on α gives removable channels; L2 with the same λ does not.

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
