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
# # Lab 01 · Magnitude pruning
#
# **How many weights of a trained network can you set to zero before it notices? And
# when it does notice, what exactly has broken?**
#
# The rule is the oldest and simplest there is: small weights go. You will write it in
# its usual forms, and then find out by experiment which of the things said about it
# hold on a network of your own:
#
# | part | you write | you find out |
# |---|---|---|
# | A · Which weights go? | 1.1 magnitude, 1.2 threshold, 1.3 groups, 1.4 all layers together | how far one-shot pruning gets, and what breaks |
# | B · Training what is left | 1.5 the masked gradient | why a masked gradient is not enough |
# | C · Where does it hurt? | 1.6 sensitivity | which layer can spare its weights |
# | D · A little at a time | 1.7 schedule and iterative pruning | fine-tuning, iteration, granularity: the classic picture |
# | E · What was it worth? | 1.8 two short answers, 1.9 a bug hunt | bits, MACs and milliseconds |
#
# 20 points; about three hours. After each exercise `check("1.1")` tells you at once
# what is right, for about half of the points; the grader also tries what else the
# docstring promises: ties, extreme inputs, arguments left unchanged. If you are stuck,
# write `skip("1.1")` in a cell: that question scores 0 and the rest of the lab goes on
# with the course's version.
#
# Three rules hold in the whole course:
#
# - **Guess first.** Before an experiment, write your prediction down. It is not marked
#   right or wrong; a surprise is worth more than a figure you nod at.
# - **Choose on validation data, look at the test data once**, at the end.
# - **No claim without a random control and three seeds.** A method has shown something
#   only where it beats choosing at random, by more than the seeds differ among
#   themselves. The bands are 95 % intervals over seeds. One that leaves the possible
#   range, such as 31 ± 56 %, says that three seeds disagree too much to tell.

# %%
from course_lib.grading import check, choose, skip  # noqa: F401  (skip is yours to use)

# isort: split
import copy
from collections.abc import Callable

import numpy as np
import torch
from IPython.display import display
from matplotlib.figure import Figure
from torch import Tensor, nn

from course_lib import experiments, ledger
from course_lib.cost import encodings, latency, model_cost, totals
from course_lib.data.images import load
from course_lib.experiments import lab01
from course_lib.models import build
from course_lib.parallel import side_by_side
from course_lib.pruning.channels import recalibrate
from course_lib.pruning.weights import apply, prunable
from course_lib.show import plots, real_data, widgets
from course_lib.show.words import ends, pm, say, versus, you_wrote
from course_lib.training import evaluate, fit

STUDENT = ""  # your name or number: your letters are yours alone

# %% [markdown]
# ## Settings
#
# The default data are scikit-learn's handwritten digits: 1,797 *real* 8×8 images,
# nothing to download. Change one word for the real MNIST (28×28); the lab then takes
# about seven minutes instead of one.

# %%
DATA = "digits"  # or "mnist"

SEEDS = 3
# images used for training; epochs of the dense networks; epochs of fine-tuning that
# every method gets in total
SETTINGS = lab01.SETTINGS[DATA]
BUDGET = SETTINGS["budget"]
plots.use_style()

data = load(DATA).subset(SETTINGS["train"], validation=lab01.VALIDATION)


def accuracy(model: nn.Module, split: str = "validation") -> float:
    """Accuracy in % on "train", "validation" or "test"."""
    return evaluate(model, getattr(data, split), batch_size=256)


say(
    f"**{data.name}**: {len(data.train.labels)} training, {len(data.validation.labels)} validation"
    f" and {len(data.test.labels)} test images of shape {tuple(data.shape)}. One validation image"
    f" is {100 / len(data.validation.labels):.2f} points of accuracy."
)

# %% [markdown]
# ### The patient
#
# Four 3×3 convolutions (32, 32, 64, 64 filters), each followed by **batch norm** and
# ReLU, then a global average and one linear layer. We train it three times, from three
# seeds: everything below is measured three times.


# %%
def train_dense(model: nn.Module, seed: int) -> nn.Module:
    # SGD with momentum, learning rate 0.2 that falls as a cosine, weight decay 5e-3
    how = lab01.DENSE
    fit(model, data.train, epochs=SETTINGS["dense_epochs"], seed=seed, progress=False, **how)
    return model


dense = side_by_side(
    train_dense, [(build("convnet", data, seed=seed), seed) for seed in range(SEEDS)]
)
dense_accuracy = [accuracy(model) for model in dense]

weights = prunable(dense[0])  # name -> parameter, those with two or more dimensions
total = sum(w.numel() for w in weights.values())
for name, w in weights.items():
    print(f"{name:13s} {str(tuple(w.shape)):17s} {w.numel():6d} weights  {w.numel() / total:6.1%}")
say(f"{total:,} weights. Validation accuracy of the dense networks: **{pm(dense_accuracy)} %**.")

# %% [markdown]
# ## Part A · Which weights go?
#
# Take a weight $w_i$ away and the layer's output changes by $w_i a_i$, where $a_i$ is
# the input it multiplies. If you know nothing about the inputs except that they are of
# similar size, the best you can do to keep the change small is to take the weights with
# the smallest $|w_i|$. That is all the theory magnitude pruning has. (Its blind spot is
# the $a_i$ it ignores: lab 02.)
#
# We write down what we keep as a **mask**: a tensor of booleans with the shape of the
# weight, `True` = kept. Masks live outside the model, in a dict keyed by parameter
# name. The *sparsity* $s$ is the fraction that is gone.

# %% [markdown]
# ### 1.1 The smallest go
# **12 minutes · 3 points**
#
# Write `magnitude_mask`. "Prune 30 % of 15 weights" is a promise about a *number*:
# `round(0.3 * 15)` of them, no more and no fewer, also where several weights have the
# same size.
#
# Write it yourself: not `torch.nn.utils.prune`, and nothing of `course_lib.pruning`.
#
# *Before you write anything:* prune the trained network layer by layer with this rule,
# all at once and with no training afterwards. Up to which sparsity, in %, does it stay
# within one point of its dense accuracy?

# %%
### BEGIN SOLUTION
prediction_1_1 = 50  # a guess; the experiment below says how good
### END SOLUTION


# %%
def magnitude_mask(weight: Tensor, sparsity: float) -> Tensor:
    """Keep the largest weights by absolute value.

    Args:
        weight: any shape. It is not changed.
        sparsity: the fraction s to prune, in [0, 1].

    Returns:
        A bool tensor like ``weight``, True = kept. With n weights exactly
        ``round(s * n)`` are False (Python's ``round``): those with the smallest |w|.
        Among equal sizes, the first in row-major order is pruned first.

    Raises:
        ValueError: if ``sparsity`` is outside [0, 1], or a weight is NaN.
    """
    ### BEGIN SOLUTION
    if not 0 <= sparsity <= 1:
        raise ValueError(f"sparsity is the fraction to prune, between 0 and 1, got {sparsity}")
    size = weight.detach().abs().flatten()  # (n,)
    if size.isnan().any():
        raise ValueError("a weight is NaN: it has no place in an order by size")
    # smallest first; stable, so equal sizes stay in row-major order
    order = size.argsort(stable=True)
    mask = torch.ones_like(size, dtype=torch.bool)
    mask[order[: round(sparsity * len(size))]] = False
    return mask.view(weight.shape)
    ### END SOLUTION


# %%
check("1.1")

# %% [markdown]
# <details><summary>Hint 1: ranks, not thresholds</summary>Comparing with a threshold
# decides about all equal weights at once, so it cannot keep the promise about the
# number. An <i>order</i> of the weights can: which positions come first?</details>
# <details><summary>Hint 2: which function</summary>Look up <code>argsort</code>, and
# read what its argument
# <code>stable</code> does. Without it, equal values may come in any order.</details>
# <details><summary>Hint 3: back to the shape</summary>Build the mask flat, switch
# positions off by index, and give it the shape of the weight at the end.</details>

# %% [markdown]
# #### Before and after
#
# Seventy per cent of the third convolution's weights, in one picture. What is missing
# afterwards is the middle: the zeros are counted in words, since their spike would
# flatten everything else.

# %%
w = weights["conv3.weight"].detach()
plots.show(
    plots.histogram_before_after(
        w,
        w.masked_fill(~magnitude_mask(w, 0.7), 0),
        title="Pruning 70 % of conv3 cuts out the middle",
        labels=("dense", "70 % pruned, not retrained"),
    ),
    alt=(
        "Two histograms of the weights of conv3. Dense: one bell around zero. Pruned: the middle of"
        " the bell is missing, the two flanks are unchanged."
    ),
)

# %% [markdown]
# #### Experiment: all at once, and nothing repaired
#
# This is *one-shot* (or post-training) pruning; some slides call it zero-shot. The
# control prunes the same number of weights in each layer, chosen at random. Both start
# from the same three dense networks.


# %%
def pruned(model: nn.Module, masks: dict[str, Tensor], repair: bool = False) -> nn.Module:
    """A copy of ``model`` with the pruned weights set to zero (``repair`` is for
    later).
    """
    model = copy.deepcopy(model)
    apply(model, masks)
    if repair:
        recalibrate(model, data.train.images[:512])
    return model


def noise(model: nn.Module, seed: int) -> dict[str, Tensor]:
    """Random numbers in the place of the weights: to prune the smallest of *these* is
    to prune at random.
    """
    generator = torch.Generator().manual_seed(seed)
    return {name: torch.rand(w.shape, generator=generator) for name, w in prunable(model).items()}


def sweep(choose: Callable, sparsities: list[float], repair: bool = False) -> np.ndarray:
    """Accuracies (seeds, sparsities) of the dense networks pruned by
    ``choose(model, seed, sparsity)``, not trained.
    """

    def measure(seed: int, sparsity: float) -> float:
        return accuracy(pruned(dense[seed], choose(dense[seed], seed, sparsity), repair))

    measured = side_by_side(measure, [(seed, s) for seed in range(SEEDS) for s in sparsities])
    return np.reshape(measured, (SEEDS, len(sparsities)))


def by_layer(weights: dict[str, Tensor], sparsity: float) -> dict[str, Tensor]:
    return {name: magnitude_mask(w, sparsity) for name, w in weights.items()}


grid = [0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9]
one_shot = sweep(lambda model, seed, s: by_layer(prunable(model), s), grid)
at_random = sweep(lambda model, seed, s: by_layer(noise(model, seed), s), grid)


def held(values) -> str:
    """The largest sparsity of ``grid`` up to which the mean stays within one point of
    the dense networks'.
    """
    good = np.mean(values, axis=0) >= np.mean(dense_accuracy) - 1
    count = len(good) if good.all() else int(good.argmin())
    return f"{100 * grid[count - 1]:.0f} %" if count else f"not even {100 * grid[0]:.0f} %"


plots.show(
    plots.method_curves(
        grid,
        {"one-shot": one_shot, "random": at_random},
        dense=dense_accuracy,
        xlabel="sparsity of every layer",
        ylabel="validation accuracy (%)",
        title="How far does one-shot pruning get?",
        xaxis="sparsity",
        ylim=(0, 102),
    ),
    alt=(
        "Validation accuracy against sparsity of every layer, three seeds with intervals. One-shot"
        f" magnitude pruning stays within a point of dense up to {held(one_shot)} and then falls;"
        f" random pruning: {held(at_random)}."
    ),
)
say(
    f"Within one point of dense up to **{held(one_shot)}** sparsity (random: {held(at_random)}). At"
    f" 50 %: {pm(one_shot[:, grid.index(0.5)])} % (random: {pm(at_random[:, grid.index(0.5)])} %),"
    f" at 70 %: {pm(one_shot[:, grid.index(0.7)])} %. {you_wrote(prediction_1_1)}"
)

# %% [markdown]
# **What the paper found.** Han et al. (2015) report two things on AlexNet: about half
# of the weights go for free even without retraining, and then accuracy falls much
# sooner than it does *with* retraining. How much went for free here, and did magnitude
# beat random? The printout says so. Either way, a network that breaks down before most
# of its weights are gone does not look like one with weights to spare. Keep that
# thought: it will turn out to be half wrong.

# %% [markdown]
# ### 1.2 The lecture's threshold
# **4 minutes · 1 point**
#
# The lecture writes the same idea with a threshold $a$ in place of a count:
#
# $$m_i = \begin{cases}1 & \text{if } |w_i| \ge a\\ 0 & \text{if } |w_i| < a\end{cases}$$
#
# and shows three rows of a weight matrix, pruned where $|w| < 1$. *Before you write
# anything:* the table has 30 weights, and several of them are exactly 1 or −1. How many
# of the 30 survive?
#
# Write it yourself: not `torch.nn.utils.prune` or `hardshrink`, and nothing of
# `course_lib.pruning`.

# %%
TABLE = torch.tensor(
    [
        [0.1, 3, 0.2, 1, 0.4, 0.2, -1, 3, 0.4, 0.6],
        [0.2, 1.2, 0.2, -1, 0.2, -3, 0.5, -3, 3, -1],
        [-8, -1, 0.6, 1.4, 0.1, 0.1, -2, 0.1, -7, -1],
    ]
)

### BEGIN SOLUTION
prediction_1_2 = 16
### END SOLUTION


# %%
def threshold_mask(weight: Tensor, a: float) -> Tensor:
    """Keep the weights with |w| >= a: a bool tensor like ``weight``, True = kept.

    Raises:
        ValueError: if ``a`` is negative.
    """
    if not a >= 0:
        raise ValueError(f"a is a threshold on |w|, so at least 0, got {a}")
    ### BEGIN SOLUTION
    return weight.detach().abs() >= a
    ### END SOLUTION


# %%
check("1.2")

# %%
kept = threshold_mask(TABLE, 1)
print(TABLE.where(kept, 0))
say(f"{int(kept.sum())} of {kept.numel()} survive. {you_wrote(prediction_1_2)}")

# %% [markdown]
# Note the −1 in the second row: it is kept, as in the lecture, because the threshold
# itself is *not* pruned. With `>` in place of `>=` all the ones would go too. A
# threshold says what is small; a sparsity says how much must go. Han et al. use a
# threshold for each layer (a chosen factor times the standard deviation of its
# weights); to compare methods *at equal sparsity*, as we do, counting is the way.

# %% [markdown]
# ### 1.3 Whole groups
# **20 minutes · 4 points · needs 1.1**
#
# Zeros strewn all over a tensor help neither a processor nor a memory that fetches
# whole lines. So prune in larger pieces. A convolution's weight has the shape
# $(M, C, R, S)$: $M$ filters, each of $C$ kernels, each of $R$ rows with $S$ weights.
#
# | granularity | one group is | how many groups | size of a group |
# |---|---|---|---|
# | `"element"` | one weight | $M C R S$ | 1 |
# | `"row"` | a row of a kernel | $M C R$ | $S$ |
# | `"kernel"` | a kernel | $M C$ | $R S$ |
# | `"filter"` | a filter | $M$ | $C R S$ |
#
# A matrix (out, in) has just two: `"element"`, and `"filter"`, which is one of its
# rows: the weights of one output unit.
#
# "We can apply the same method to groups," says the lecture: score a group by the *sum
# of the absolute values* in it (its L1 norm) and prune the groups with the smallest
# scores, `round(s · groups)` of them.
#
# Write it yourself: not `torch.nn.utils.prune`, and nothing of `course_lib.pruning`.
#
# *Before you write anything:* put the four granularities in order, from the one that
# survives one-shot pruning at 50 % best to the one that survives it worst.

# %%
### BEGIN SOLUTION
prediction_1_3 = ["element", "row", "kernel", "filter"]
### END SOLUTION


# %%
def grouped_mask(weight: Tensor, sparsity: float, granularity: str) -> Tensor:
    """Prune whole groups, those with the smallest L1 norm.

    Args:
        weight: a convolution's (M, C, R, S), or a matrix (out, in).
        sparsity: the fraction of *groups* to prune, in [0, 1].
        granularity: "element", "row" (over S), "kernel" (over R, S) or "filter" (over
            C, R, S); for a matrix "element" or "filter" (over in).

    Returns:
        A bool tensor like ``weight``, True = kept, the same within a group. Exactly
        ``round(sparsity * groups)`` groups are pruned; among equal norms the group that
        comes first goes first. Norms are summed in float64.

    Raises:
        ValueError: as 1.1 does; if ``weight`` has neither 4 nor 2 dimensions; if it has
            no such granularity.
    """
    known = {4: ["element", "row", "kernel", "filter"], 2: ["element", "filter"]}
    if weight.ndim not in known:
        raise ValueError(
            f"weight must have 4 dimensions (M, C, R, S) or 2 (out, in), got {weight.ndim}"
        )
    if granularity not in known[weight.ndim]:
        raise ValueError(
            f"for {weight.ndim} dimensions granularity is one of {known[weight.ndim]}, got"
            f" {granularity!r}"
        )
    ### BEGIN SOLUTION
    if weight.ndim == 4:
        dims = {"element": (), "row": (3,), "kernel": (2, 3), "filter": (1, 2, 3)}
    else:
        dims = {"element": (), "filter": (1,)}
    norm = weight.detach().abs().double()
    for dim in dims[granularity]:
        norm = norm.sum(dim, keepdim=True)  # in the end (M, C, R, S) with 1 where we summed
    return magnitude_mask(norm, sparsity).expand_as(weight).clone()
    ### END SOLUTION


# %%
check("1.3")

# %% [markdown]
# <details><summary>Hint 1: what changes against 1.1?</summary>Only what is ranked. Make
# a smaller tensor that holds one number per group, prune <i>that</i> with 1.1, and give
# each verdict to all members of the group.</details>
# <details><summary>Hint 2: keepdim</summary>A sum with <code>keepdim=True</code> leaves
# a dimension of length 1, which
# <code>expand_as</code> stretches again.</details>
# <details><summary>Hint 3: a trap</summary><code>x.sum(dim=())</code> sums over
# <i>all</i> dimensions, not over none.</details>

# %% [markdown]
# #### What the masks look like
#
# The second convolution at 70 %: each row of the picture is a filter, each column an
# input channel, each little square a 3×3 kernel. All four masks prune 70 % of the
# layer, as nearly as whole groups can; only the size of the pieces differs. You see 12
# of the 32 filters and channels, and the share above each picture is that of this
# corner.

# %%
GRANULARITIES = ["element", "row", "kernel", "filter"]
w = weights["conv2.weight"]
plots.show(
    plots.grid(
        {g: grouped_mask(w, 0.7, g)[:12, :12] for g in GRANULARITIES},
        title="Equal sparsity, four patterns (a corner of conv2)",
    ),
    alt=(
        "Four masks of a corner of conv2 at 70 per cent: element, scattered points; row, short"
        " horizontal strokes; kernel, whole 3 by 3 squares; filter, whole rows of squares."
    ),
)

# %% [markdown]
# #### Experiment: what broke?
#
# Look again at the collapse of 1.1. Every convolution here is followed by batch norm,
# which computes $\alpha\,\frac{x-\mu}{\sqrt{\sigma^2+\varepsilon}}+\beta$ for each
# channel with a $\mu$ and $\sigma$ that were **measured on the dense network** during
# training. Pruning a layer makes its sums smaller and moves their mean. The statistics
# do not know.
#
# `recalibrate` measures them anew: it sends 512 training images through the pruned
# network once, and every batch norm averages the means and variances it sees. There are
# no labels, no gradients, and no weight changes.
#
# *Before you run it:* look up in 1.1 what the one-shot networks score at 70 % sparsity.
# What will their accuracy be after recalibration alone, in %?

# %%
### BEGIN SOLUTION
prediction_1_3b = 60
### END SOLUTION


# %%
def layer_masks(
    weights: dict[str, Tensor], sparsity: float, granularity: str = "element"
) -> dict[str, Tensor]:
    """``grouped_mask`` for every layer. In the last one, whose rows are the classes,
    single weights go.
    """
    return {
        name: grouped_mask(w, sparsity, granularity if w.ndim == 4 else "element")
        for name, w in weights.items()
    }


recalibrated = sweep(lambda model, seed, s: layer_masks(prunable(model), s), grid, repair=True)
random_recalibrated = sweep(
    lambda model, seed, s: layer_masks(noise(model, seed), s), grid, repair=True
)
plots.show(
    plots.method_curves(
        grid,
        {"recalibrated": recalibrated, "one-shot": one_shot, "random": random_recalibrated},
        dense=dense_accuracy,
        xlabel="sparsity of every layer (single weights; random is recalibrated too)",
        ylabel="validation accuracy (%)",
        title="How much of the collapse is stale batch-norm statistics?",
        xaxis="sparsity",
        ylim=(0, 102),
    ),
    alt=(
        "Validation accuracy against sparsity. Within one point of dense: one-shot pruning up to"
        f" {held(one_shot)}, the same networks recalibrated up to {held(recalibrated)}, random"
        f" masks recalibrated {held(random_recalibrated)}."
    ),
)

before = pruned(dense[0], layer_masks(prunable(dense[0]), 0.7))
after = pruned(dense[0], layer_masks(prunable(dense[0]), 0.7), repair=True)
same = all(torch.equal(a, b) for a, b in zip(before.parameters(), after.parameters(), strict=True))
say(
    f"At 70 %: one-shot {pm(one_shot[:, grid.index(0.7)])} %, "
    f"recalibrated **{pm(recalibrated[:, grid.index(0.7)])} %**. "
    f"{you_wrote(prediction_1_3b)}\n\n"
    f"Are all parameters of the two networks the same, bit for bit? **{same}.**"
)

# %% [markdown]
# The same switch for each granularity, at a sparsity where there is something to see. A
# bar that recovers was broken by its statistics; a bar that does not has lost something
# that no statistic brings back.

# %%
BREAK_AT = 0.5
broken = {"as pruned": {}, "recalibrated": {}, "random, recalibrated": {}}
for g in GRANULARITIES:
    smallest = [layer_masks(prunable(model), BREAK_AT, g) for model in dense]
    chance = [layer_masks(noise(model, seed), BREAK_AT, g) for seed, model in enumerate(dense)]
    for how, masks, repair in (
        ("as pruned", smallest, False),
        ("recalibrated", smallest, True),
        ("random, recalibrated", chance, True),
    ):
        broken[how][g] = [
            accuracy(pruned(dense[seed], masks[seed], repair)) for seed in range(SEEDS)
        ]


plots.show(
    plots.bars(
        {how: {g: float(np.mean(a)) for g, a in by.items()} for how, by in broken.items()},
        errors={how: {g: ends(a) for g, a in by.items()} for how, by in broken.items()},
        ylabel="validation accuracy (%)",
        title=f"One-shot at {100 * BREAK_AT:.0f} %: what is broken, and what is lost?",
        fmt="{:.0f}",
    ),
    alt=(
        f"Bars of validation accuracy for four granularities at {100 * BREAK_AT:.0f} %, means of"
        " three seeds. "
    )
    + " ".join(
        f"{g}: " + ", ".join(f"{how} {np.mean(broken[how][g]):.0f}" for how in broken) + "."
        for g in GRANULARITIES
    ),
)
say(
    "As pruned, by their means from best to worst: "
    + ", ".join(
        f"{g} {pm(a)} %"
        for g, a in sorted(broken["as pruned"].items(), key=lambda item: -np.mean(item[1]))
    )
    + ". Where two of these intervals overlap, three seeds need not show which is better. "
    + you_wrote(prediction_1_3)
)

# %% [markdown]
# So *a pruned network that guesses is not an empty network.* When someone reports that
# one-shot pruning destroyed a network with batch norm, ask whether the statistics were
# measured again. Li et al. (2020, "EagleEye") found that candidates for pruning can be
# ranked properly only after that. Fine-tuning repairs the statistics too, silently:
# part of why it looks so powerful in its first epoch.
#
# And look at the control across granularities. Do random *kernels* do less harm in your
# figure than random *weights*? A filter that loses whole kernels still sees intact
# pictures of the channels it keeps, one that loses single weights sees damaged pictures
# of all of them. The size of the pieces is not the whole story; what a piece *does*
# counts as well.

# %% [markdown]
# ### 1.4 One threshold for all layers
# **10 minutes · 2 points · needs 1.1**
#
# So far each layer lost the same share. But layers are not equally full of weights that
# do nothing. Let the weights of *all* layers compete: the smallest $|w|$ anywhere go
# first.
#
# Write it yourself: not `torch.nn.utils.prune`, and nothing of `course_lib.pruning`.
#
# *Before you write anything:* `conv1` has under one per cent of the weights. At a
# sparsity of 90 % over all layers together, will `conv1` lose `"more"` or `"less"` than
# 90 % of its own?

# %%
### BEGIN SOLUTION
prediction_1_4 = "less"
### END SOLUTION


# %%
def global_masks(weights: dict[str, Tensor], sparsity: float) -> dict[str, Tensor]:
    """Prune the smallest weights of all layers together.

    Args:
        weights: name -> tensor, such as ``dict(model.named_parameters())``. Tensors
            with fewer than two dimensions (biases, norms) take no part.
        sparsity: fraction of the n weights that take part, in [0, 1].

    Returns:
        name -> bool mask (True = kept), for the names with two or more dimensions and
        in their order. Together exactly ``round(sparsity * n)`` are False; where |w| is
        equal, what comes first goes first (tensors in the dict's order, then
        row-major).

    Raises:
        ValueError: as 1.1 does.
    """
    ### BEGIN SOLUTION
    layers = {name: w for name, w in weights.items() if w.ndim >= 2}
    together = torch.cat([w.detach().flatten() for w in layers.values()])  # (n,)
    pieces = magnitude_mask(together, sparsity).split([w.numel() for w in layers.values()])
    return {
        name: piece.view(w.shape) for (name, w), piece in zip(layers.items(), pieces, strict=True)
    }
    ### END SOLUTION


# %%
check("1.4")

# %% [markdown]
# <details><summary>Hint 1: where to start</summary>In one long vector "the smallest
# anywhere" is a single question, and you have answered it in 1.1.</details>
# <details><summary>Hint 2: back to layers</summary><code>torch.split</code> undoes
# <code>torch.cat</code>.</details>

# %% [markdown]
# #### Experiment: who pays?

# %%
shares = {name: [] for name in weights}
for m in dense:
    for name, mask in global_masks(dict(m.named_parameters()), 0.9).items():
        shares[name].append(100 * (1 - mask.float().mean().item()))
names = [name.removesuffix(".weight") for name in shares]
plots.show(
    plots.bars(
        {
            "each layer 90 %": dict.fromkeys(names, 90.0),
            "global 90 %": dict(zip(names, map(np.mean, shares.values()), strict=True)),
        },
        errors={"global 90 %": dict(zip(names, map(ends, shares.values()), strict=True))},
        ylabel="weights pruned (%)",
        title="Who pays when all layers share one threshold?",
        fmt="{:.0f}",
    ),
    alt="Bars: share of weights pruned per layer with one global threshold at 90 per cent. "
    + ", ".join(
        f"{name} {np.mean(share):.0f}" for name, share in zip(names, shares.values(), strict=True)
    )
    + ".",
)
say(f"`conv1` loses **{pm(shares['conv1.weight'])} %** of its weights. {you_wrote(prediction_1_4)}")

# %% [markdown]
# And is it better? Both recalibrated, no training:

# %%
high = [0.6, 0.7, 0.8, 0.9, 0.95]
by_scope = {
    "each layer": sweep(lambda model, seed, s: layer_masks(prunable(model), s), high, repair=True),
    "global": sweep(lambda model, seed, s: global_masks(prunable(model), s), high, repair=True),
    "random": sweep(lambda model, seed, s: global_masks(noise(model, seed), s), high, repair=True),
}
plots.show(
    plots.method_curves(
        high,
        by_scope,
        dense=dense_accuracy,
        xlabel="sparsity over all layers together (all recalibrated, none retrained)",
        ylabel="validation accuracy (%)",
        title="One threshold for all layers, or one for each?",
        xaxis="sparsity",
        ylim=(0, 102),
    ),
    alt="Validation accuracy against sparsity, all recalibrated. At 90 per cent: "
    + ", ".join(f"{how} {pm(values[:, high.index(0.9)])}" for how, values in by_scope.items())
    + ".",
)
local_90, global_90 = (by_scope[how][:, high.index(0.9)] for how in ("each layer", "global"))
say(
    f"At 90 %: one threshold for each layer {pm(local_90)} %, one for all **{pm(global_90)} %**; "
    f"global against each layer: {versus(global_90, local_90)}."
)

# %% [markdown]
# The global rule takes weights where there are most of them and spares the small first
# and last layers. Where that pays, does it always? The rule compares sizes across
# layers, so it trusts each layer's *scale*. But batch norm divides the scale out:
# shrink all weights of `conv3` to a tenth, recalibrate, and you have the same function.
# Watch what the global rule does to it:

# %%
scaled = copy.deepcopy(dense[0])
with torch.no_grad():
    scaled.conv3.weight.mul_(0.1)
recalibrate(scaled, data.train.images[:512])
masks = global_masks(prunable(scaled), 0.9)
say(
    f"`conv3` × 0.1, recalibrated, not pruned: {accuracy(scaled):.1f} % (before:"
    f" {dense_accuracy[0]:.1f} %). Global pruning at 90 % now takes"
    f" **{100 * (1 - masks['conv3.weight'].float().mean()):.1f} %** of `conv3`, and the network"
    f" scores **{accuracy(pruned(scaled, masks, repair=True)):.1f} %** after recalibration."
)

# %% [markdown]
# One threshold for all is a fine rule for layers whose weights were trained under the
# same weight decay, and a trap for anything that has been rescaled. Look at the shares
# before you trust it.

# %% [markdown]
# ## Part B · Training what is left
#
# One-shot pruning only cuts. Han's recipe is *train, prune, train again*: the weights
# that are left take over the work of those that went. For that we need gradients
# through a pruned layer.

# %% [markdown]
# ### 1.5 The backward pass of a pruned layer
# **25 minutes · 3 points**
#
# Let $W' = W \circ m$ (elementwise) and, for one input row $a$, $y = W' a$. The layer
# computes with $W'$, so the chain rule goes through $W'$:
#
# $$\frac{\partial L}{\partial a} = W'^{\top}\frac{\partial L}{\partial y},\qquad
# \frac{\partial L}{\partial W} = \frac{\partial L}{\partial W'}\circ\frac{\partial W'}{\partial W}
# = \Big(\frac{\partial L}{\partial y}\,a^{\top}\Big)\circ m .$$
#
# The last factor is the lecture's "0 if $W$ is pruned, otherwise 1". Autograd would find both by itself from a product
# with `w * m`; here you write them by hand, because two things that are easy to get wrong are easy to see here: which
# $W$ the first formula uses, and that the second one is masked.
#
# A function with a backward pass of its own looks like this in PyTorch, here $y = x^2$, called as `Square.apply(x)`:
#
# ```python
# class Square(torch.autograd.Function):
#     @staticmethod
#     def forward(ctx, x):
#         ctx.save_for_backward(x)  # ctx is new for every call; backward gets the same one
#         return x**2
#
#     @staticmethod
#     def backward(ctx, grad_y):  # dL/dy comes from the loss, in the shape of y
#         (x,) = ctx.saved_tensors
#         return grad_y * 2 * x  # dL/dx
# ```
#
# `backward` returns one value for each argument of `forward` after `ctx`, in their order: a gradient in the shape of
# the argument, or `None` where there is none.
#
# (One more trap, for 1.7: a layer that *multiplies* by the mask lets a pruned weight through if it has become NaN,
# since 0 × NaN is NaN. Filling in zeros does not. Here either is right.)
#
# *Before you write anything:* someone uses the dense $W$ in the first formula. Take the angle between their gradient
# for $a$ and the right one: at 90 % sparsity *by magnitude*, is its cosine nearer to 1, 0.7, or 0? And for a random
# mask?

# %%
### BEGIN SOLUTION
prediction_1_5 = 0.7
### END SOLUTION


# %%
class PrunedLinear(torch.autograd.Function):
    """``PrunedLinear.apply(x, w, m)``: the linear layer y = x (w ∘ m)ᵀ.

    x: (..., d_in), any number of leading dimensions, also none. w: (d_out, d_in). m:
    bool like w, True = kept. Returns (..., d_out). Gradients: for x through the pruned
    weight; for w masked, so exactly 0 where m is False; none for m.
    """

    @staticmethod
    def forward(ctx, x: Tensor, w: Tensor, m: Tensor) -> Tensor:
        """Compute y and save for ``backward`` what it will need.

        Raises:
            ValueError: if ``m`` is not a bool tensor of the shape of ``w``.
        """
        if m.dtype != torch.bool or m.shape != w.shape:
            raise ValueError(
                f"m must be bool with w's shape {tuple(w.shape)}, got {m.dtype} {tuple(m.shape)}"
            )
        ### BEGIN SOLUTION
        w_pruned = w.masked_fill(~m, 0)  # filled, not multiplied: 0 * NaN would be NaN
        ctx.save_for_backward(x, w_pruned, m)
        return x @ w_pruned.T
        ### END SOLUTION

    @staticmethod
    def backward(ctx, grad_y: Tensor):
        """``grad_y``: (..., d_out), dL/dy. Returns dL/dx, dL/dw and None (a mask has no
        gradient).
        """
        ### BEGIN SOLUTION
        x, w_pruned, m = ctx.saved_tensors
        grad_x = grad_y @ w_pruned  # (..., d_in)
        # (rows, d_out): every leading index is one more row
        rows_y = grad_y.reshape(-1, grad_y.shape[-1])
        rows_x = x.reshape(-1, x.shape[-1])  # (rows, d_in)
        return grad_x, (rows_y.T @ rows_x).masked_fill(~m, 0), None
        ### END SOLUTION


# %%
check("1.5")

# %% [markdown]
# <details><summary>Hint 1: shapes decide</summary>dL/dx must have the shape of x: only
# one product of dL/dy (…, d_out) and a (d_out, d_in) matrix gives that. No transpose is
# needed for row vectors.</details>
# <details><summary>Hint 2: leading dimensions</summary>The gradient of w sums over
# everything that is not d_in or d_out. Flatten all leading dimensions to one before the
# product.</details>
# <details><summary>Hint 3: three arguments</summary><code>forward</code> takes x, w and
# m, so <code>backward</code> returns three values. Which of its formulas needs which of
# the tensors that you can save?</details>

# %% [markdown]
# #### How wrong is the gradient through the dense $W$?

# %%
rows = []
for s in (0.5, 0.9, 0.95):
    cosines = {"magnitude": [], "random": []}
    for seed, m in enumerate(dense):
        w = m.get_parameter("conv4.weight").detach().flatten(1)  # (64, 576)
        grad_y = torch.randn(256, len(w), generator=torch.Generator().manual_seed(seed))
        for how, scores in (
            ("magnitude", w),
            ("random", noise(m, seed)["conv4.weight"].flatten(1)),
        ):
            x = torch.zeros(256, w.shape[1], requires_grad=True)
            PrunedLinear.apply(x, w, magnitude_mask(scores, s)).backward(grad_y)
            cosines[how].append(
                torch.cosine_similarity(x.grad.flatten(), (grad_y @ w).flatten(), dim=0).item()
            )
    rows.append(
        f"| {100 * s:.0f} % | {np.mean(cosines['magnitude']):.2f} |"
        f" {np.mean(cosines['random']):.2f} |"
    )
say(
    "Cosine between the right ∂L/∂a and the one through the dense W (conv4 as a matrix, three"
    " seeds):\n\n| sparsity | smallest pruned | random pruned |\n|---|---|---|\n"
    + "\n".join(rows)
    + f"\n\n{you_wrote(prediction_1_5)}"
)

# %% [markdown]
# The direction is not even absurdly wrong: training would go on, only worse, and no
# error would tell you. (For random masks the cosine is about $\sqrt{1-s}$, the root of
# the energy that is left. Magnitude pruning keeps more of it: that is what "smallest
# first" buys.)

# %% [markdown]
# ## Part C · Where does it hurt?

# %% [markdown]
# ### 1.6 Sensitivity, one layer at a time
# **10 minutes · 2 points · needs 1.1**
#
# Before cutting everywhere, a careful surgeon presses each place once. Prune *one*
# layer to each sparsity, leave all the others dense, measure, put the layer back, go
# on. On **validation** data: this scan is used to make choices, so the test data must
# not take part.
#
# Write it yourself: not `torch.nn.utils.prune`, and nothing of `course_lib.pruning`.
#
# *Before you write anything:* which of `conv1`, `conv2`, `conv3`, `conv4`, `fc` will be
# the most sensitive?

# %%
### BEGIN SOLUTION
prediction_1_6 = "conv1"
### END SOLUTION


# %%
def sensitivity(
    model: nn.Module, evaluate: Callable, sparsities: list[float]
) -> dict[str, list[float]]:
    """Prune one layer at a time by magnitude, and measure.

    Args:
        model: it is the same after the call as before.
        evaluate: called as ``evaluate(model, "validation")``, once for each layer and
            sparsity.
        sparsities: fractions to prune, each from the *unpruned* layer.

    Returns:
        For the name of each parameter with two or more dimensions what ``evaluate``
        returned: one value per sparsity, unchanged.

    Raises:
        ValueError: as 1.1 does.
    """
    ### BEGIN SOLUTION
    measured = {}
    for name, parameter in model.named_parameters():
        if parameter.ndim < 2:
            continue
        original = parameter.detach().clone()
        measured[name] = []
        try:
            for sparsity in sparsities:
                mask = magnitude_mask(original, sparsity)
                with torch.no_grad():
                    parameter.copy_(original.masked_fill(~mask, 0))
                measured[name].append(evaluate(model, "validation"))
        finally:  # also if evaluate raises, or the reader interrupts
            with torch.no_grad():
                parameter.copy_(original)
    return measured
    ### END SOLUTION


# %%
check("1.6")

# %% [markdown]
# <details><summary>Hint 1: two loops and a copy</summary>Outer loop over layers, inner
# loop over sparsities; keep a clone of the layer's weights and start from it each
# time.</details>
# <details><summary>Hint 2: in place</summary><code>parameter.copy_(…)</code> under
# <code>torch.no_grad()</code> changes the numbers and leaves the parameter the same
# object.</details>

# %% [markdown]
# #### Experiment: two maps
#
# `sensitivity` only asks for *some* function `evaluate`. So we can hand it two: one
# that measures the pruned network as it is, and one that recalibrates a copy first.
# Left to right the one layer gets sparser; all other layers stay dense. (Mind the
# numbers: the two maps have different colour scales.)

# %%
scan_at = [0.5, 0.8, 0.9, 0.95]


def after_recalibration(model: nn.Module, split: str) -> float:
    return accuracy(pruned(model, {}, repair=True), split)


for title, measure in (("as pruned", accuracy), ("recalibrated", after_recalibration)):
    scans = side_by_side(sensitivity, [(model, measure, scan_at) for model in dense])
    # (layers, sparsities)
    table = np.mean([[scan[name] for name in weights] for scan in scans], axis=0)
    lowest_two = np.sort(table, axis=0)[:2]
    # the sparsity at which one layer stands out most
    apart = int(np.diff(lowest_two, axis=0).argmax())
    at = dict(sorted(zip(names, table[:, apart], strict=True), key=lambda item: item[1]))
    (worst, lowest), (second, next_) = list(at.items())[:2]
    plots.show(
        plots.heat_map(
            table,
            rows=names,
            columns=[f"{100 * s:.0f} %" for s in scan_at],
            xlabel="sparsity of this layer alone",
            ylabel="layer",
            title=f"Which layer feels it? ({title}, mean of {SEEDS} seeds)",
            colour_label="accuracy (%)",
        ),
        alt=(
            f"Heat map of validation accuracy, {title}, for five layers against the sparsity of"
            f" that layer alone. At {100 * scan_at[apart]:.0f} per cent: "
        )
        + ", ".join(f"{name} {a:.1f}" for name, a in at.items())
        + ".",
    )
    say(
        f"One layer stands out most at {100 * scan_at[apart]:.0f} %. Lowest there, {title}:"
        f" **`{worst}`** ({lowest:.1f} %), then `{second}` ({next_:.1f} %)."
    )
say(you_wrote(prediction_1_6))

# %% [markdown]
# **What the paper found.** Han et al. report that convolutions are more sensitive than
# the (huge) fully connected layers of AlexNet, and the first convolution, which sees
# the image itself, most of all. Compare with your first map, at a sparsity where not
# several are at chance, since these have no order; then look at the second. How
# sensitive a layer *seems* depends on whether you let batch norm catch up, and the
# ranking of the layers can change with it. Our last layer is small and comes after an
# average, so "fully connected" here does not mean what it meant for AlexNet.

# %% [markdown]
# ## Part D · A little at a time
#
# *Prune a little, train, prune a little more*: at each step the network loses what it
# can spare *then*, after it has adapted to the last cut.

# %% [markdown]
# ### 1.7 Iterative pruning
# **30 minutes · 3 points · needs 1.1**
#
# Two functions. **The schedule** (Zhu & Gupta 2017): cut fast while there is much to
# cut, slowly at the end. After step $t$ of $T$ the sparsity is to be
#
# $$s_t = s_{\text{final}}\,\Big(1-\big(1-\tfrac{t}{T}\big)^3\Big),\qquad t = 1,\dots,T .$$
#
# These targets are *cumulative*: a target of 0.8 after one of 0.5 means that 80 % of
# **all** weights are gone then, not 80 % of those that are left (that would be 90 %),
# and not 130 % either.
#
# **The loop**: for each target prune every layer to it by magnitude, then fine-tune.
# Two things must hold: *zeros stay zero* and *masks only shrink*. The first one is not
# as easy as it sounds.
#
# Write it yourself: not `torch.nn.utils.prune`, and nothing of `course_lib.pruning`.
#
# *Before you write anything:* you train a dense network for some steps, prune half of a
# layer, and go on with the same optimizer and **masked gradients**, as 1.5 gives them.
# With which of these do pruned weights move away from 0: plain SGD, SGD with momentum,
# Adam, AdamW? Write a list.

# %%
### BEGIN SOLUTION
prediction_1_7 = ["SGD with momentum", "Adam", "AdamW"]
### END SOLUTION


# %%
def revived(make_optimizer: Callable) -> float:
    """Share of pruned weights (in %) that are not 0 any more after three steps with a
    masked gradient.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        layer, x, y = nn.Linear(64, 10), torch.randn(128, 64), torch.randint(10, (128,))
    optimizer = make_optimizer(layer.parameters())

    def step(gradient_mask=None) -> None:
        optimizer.zero_grad()
        nn.functional.cross_entropy(layer(x), y).backward()
        if gradient_mask is not None:
            layer.weight.grad[~gradient_mask] = 0
        optimizer.step()

    for _ in range(3):
        step()
    mask = magnitude_mask(layer.weight, 0.5)
    layer.weight.data[~mask] = 0
    for _ in range(3):
        step(mask)
    return 100 * (layer.weight[~mask] != 0).float().mean().item()


for name, make in {
    "plain SGD": lambda p: torch.optim.SGD(p, lr=0.1),
    "SGD with momentum": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
    "Adam": lambda p: torch.optim.Adam(p, lr=0.01),
    "AdamW": lambda p: torch.optim.AdamW(p, lr=0.01),
}.items():
    print(f"{name:18s} {revived(make):5.1f} % of the pruned weights are back")

# %% [markdown]
# Whoever remembers old gradients acts on them: a masked gradient keeps the *new* ones
# out, not the old ones. The remedy that works for every optimizer is to set the pruned
# weights to zero again **after every optimizer step**. `finetune(model, post_step)`
# gives you the chance: it promises to call your function `post_step()` after each one.
#
# The optimizer inside `finetune` holds on to the parameter *objects*. So change the
# numbers in a parameter, never replace it by a new `nn.Parameter`: the optimizer would
# go on training the old one, which no one uses any more.


# %%
def cubic_schedule(final: float, steps: int) -> list[float]:
    """The ``steps`` cumulative targets final · (1 − (1 − t/steps)³), t = 1 … steps.

    Raises:
        ValueError: if ``final`` is outside [0, 1] or ``steps`` is below 1.
    """
    if not 0 <= final <= 1:
        raise ValueError(f"final is a sparsity between 0 and 1, got {final}")
    if steps < 1:
        raise ValueError(f"steps must be at least 1, got {steps}")
    ### BEGIN SOLUTION
    return [final * (1 - (1 - t / steps) ** 3) for t in range(1, steps + 1)]
    ### END SOLUTION


def iterative_prune(
    model: nn.Module, targets: list[float], finetune: Callable
) -> dict[str, Tensor]:
    """Prune to each target in turn, by magnitude and layer by layer, and fine-tune
    after each.

    Args:
        model: changed in place. Every parameter with two or more dimensions is pruned;
            all stay the same objects.
        targets: cumulative sparsities in [0, 1], none smaller than the one before. A
            single target is one-shot pruning.
        finetune: called as ``finetune(model, post_step)`` after every target; it calls
            ``post_step()`` after each optimizer step.

    Returns:
        name -> bool mask (True = kept). After the last target exactly
        ``round(target * n)`` of the n weights of each layer are pruned; at each target
        the smallest |w| among the survivors go. Masks only shrink. Pruned weights are
        0, also if an optimizer step has made them NaN.

    Raises:
        ValueError: if a target is outside [0, 1] or smaller than the one before; the
            model is then unchanged.
    """
    ### BEGIN SOLUTION
    for previous, target in zip([0, *targets], targets, strict=False):
        if not previous <= target <= 1:
            raise ValueError(
                f"targets are cumulative: within [0, 1] and never falling, got {targets}"
            )
    layers = {name: p for name, p in model.named_parameters() if p.ndim >= 2}
    masks = {name: torch.ones_like(p, dtype=torch.bool) for name, p in layers.items()}

    @torch.no_grad()
    def post_step() -> None:
        for name, p in layers.items():
            p.masked_fill_(~masks[name], 0)  # in place; and filled, since NaN * 0 is NaN

    for target in targets:
        for name, p in layers.items():
            alive = masks[name]
            # (still alive,): only these compete, so nothing comes back
            survivors = p.detach()[alive]
            to_go = round(target * p.numel()) - (p.numel() - len(survivors))
            shrunk = alive.clone()
            shrunk[alive] = magnitude_mask(survivors, to_go / max(len(survivors), 1))
            masks[name] = shrunk
        post_step()
        finetune(model, post_step)
    return masks
    ### END SOLUTION


# %%
check("1.7")

# %% [markdown]
# <details><summary>Hint 1: who competes?</summary>Rank only the weights that are still
# alive. If the zeros compete too, an alive weight that happens to be 0 may be pruned in
# place of a dead one, and the dead one comes back.</details>
# <details><summary>Hint 2: how many go now?</summary>The target says how many are gone
# <i>in total</i>. Take away those that are gone already.</details>
# <details><summary>Hint 3: post_step</summary>A function defined inside
# <code>iterative_prune</code> sees its variables: let it read the masks and write zeros
# into the parameters, in place and without gradients.</details>
# <details><summary>Hint 4: selecting and writing back</summary><code>p[alive]</code> is
# the 1-D list of survivors in row-major order; <code>shrunk[alive] = verdicts</code>
# puts one verdict at the place of each.</details>

# %% [markdown]
# #### Experiment: the classic picture
#
# Four ways to get to a sparsity $s$, and the control:
#
# - **one-shot**: prune, nothing else;
# - **recalibrated**: prune, then measure batch norm's statistics anew;
# - **fine-tuned**: prune once, then train what is left;
# - **iterative**: three cubic steps, training after each;
# - **random**: like fine-tuned, but the weights that go are chosen at random.
#
# Such a comparison is fair only at an **equal budget**: *fine-tuned*, *iterative* and
# *random* each get the same number of epochs in total, so *iterative* trains only a
# third of them at the final sparsity.
#
# *Before you run it:* at 98 % sparsity, which of the three will be the best? And by how
# many points will it beat random?

# %%
### BEGIN SOLUTION
prediction_1_7b = "iterative, by 30 points"
### END SOLUTION

# %%
plots.show(
    plots.curves(
        range(11),
        {
            "cubic": [0, *(100 * s for s in cubic_schedule(0.9, 10))],
            "equal steps": [9 * t for t in range(11)],
        },
        xlabel="step t of 10",
        ylabel="weights pruned (%)",
        title="The cubic schedule cuts early and ends gently",
    ),
    alt=(
        "Sparsity against step. The cubic schedule rises steeply at first and flattens towards 90"
        " per cent; equal steps rise in a straight line."
    ),
)


# %%
def finetune_for(epochs: int, seed: int) -> Callable:
    """A ``finetune(model, post_step)`` that trains for so many epochs."""

    def finetune(
        model: nn.Module, post_step: Callable | None = None, masks: dict[str, Tensor] | None = None
    ) -> None:
        # half the learning rate
        how = lab01.FINETUNE | {"masks": masks, "post_step": post_step, "progress": False}
        fit(model, data.train, epochs=epochs, seed=100 + seed, **how)

    return finetune


def train_iterative(seed: int, sparsity: float, steps: int, budget: int) -> nn.Module:
    """Prune in ``steps`` steps and train for ``budget`` epochs in total. One step:
    prune, then fine-tune.
    """
    model = copy.deepcopy(dense[seed])
    iterative_prune(model, cubic_schedule(sparsity, steps), finetune_for(budget // steps, seed))
    return model


def train_masked(seed: int, masks: dict[str, Tensor], budget: int) -> nn.Module:
    """Prune by masks that are given, then fine-tune."""
    model = pruned(dense[seed], masks)
    finetune_for(budget, seed)(model, masks=masks)
    return model


def random_masks(seed: int, sparsity: float, granularity: str = "element") -> dict[str, Tensor]:
    return layer_masks(noise(dense[seed], seed), sparsity, granularity)


SPARSITIES = [0.8, 0.9, 0.95, 0.98]
runs = [(seed, s) for seed in range(SEEDS) for s in SPARSITIES]
models = {
    "fine-tuned": side_by_side(train_iterative, [(seed, s, 1, BUDGET) for seed, s in runs]),
    "iterative": side_by_side(train_iterative, [(seed, s, 3, BUDGET) for seed, s in runs]),
    "random": side_by_side(
        train_masked, [(seed, random_masks(seed, s), BUDGET) for seed, s in runs]
    ),
}

# %%
results = {
    how: np.reshape([accuracy(m) for m in trained], (SEEDS, -1)) for how, trained in models.items()
}
results["recalibrated"] = sweep(
    lambda model, seed, s: layer_masks(prunable(model), s), SPARSITIES, repair=True
)
results["one-shot"] = sweep(lambda model, seed, s: layer_masks(prunable(model), s), SPARSITIES)

plots.show(
    plots.method_curves(
        [1 - s for s in SPARSITIES],
        results,
        dense=dense_accuracy,
        paper={"Han 2015, MNIST": (22 / 267, 98.41)},
        xlabel="weights remaining in every layer (%)",
        ylabel="validation accuracy (%)",
        title=f"Prune and retrain: {BUDGET} epochs each, spent differently",
        xaxis="remaining",
        ylim=(0, 102),
    ),
    alt=(
        "Validation accuracy against weights remaining, from 20 to 2 per cent, means of three"
        " seeds. At 5 per cent: "
    )
    + ", ".join(f"{how} {np.mean(values[:, 2]):.0f}" for how, values in results.items())
    + ".",
)


def as_table(columns: list[float], rows: dict[str, np.ndarray]) -> str:
    head = (
        "| validation accuracy (%) at | " + " | ".join(f"{100 * s:.0f} %" for s in columns) + " |"
    )
    body = [
        f"| {how} | " + " | ".join(pm(column) for column in values.T) + " |"
        for how, values in rows.items()
    ]
    return "\n".join([head, "|---" * (len(columns) + 1) + "|", *body])


say(as_table(SPARSITIES, results))
at_98 = {how: values[:, SPARSITIES.index(0.98)] for how, values in results.items()}
say(
    f"{you_wrote(prediction_1_7b)} This run, at 98 %:\n\n"
    f"- iterative against fine-tuned: {versus(at_98['iterative'], at_98['fine-tuned'])};\n"
    f"- fine-tuned against random: {versus(at_98['fine-tuned'], at_98['random'])}."
)

# %% [markdown]
# Two things in this figure are worth a second look, because they are not what the
# slides promise.
#
# **Random masks are good too, once they are trained.** Until very few weights are left,
# the control stays within a few points of magnitude. The network is much larger than
# these digits need: after some epochs of training almost *any* tenth of it can do the
# job. What magnitude buys shows where training cannot cover it up: before any training
# (compare *recalibrated* with the random curve of 1.3), and perhaps where weights are
# really scarce: can three seeds show it at 98 %? Without the control you would have
# credited all of it to magnitude.
#
# **Iterative pruning need not win.** Its last cut gets only a third of the training.
# Han et al. report that iterating took AlexNet from 5× to 9× fewer weights without loss
# of accuracy, but with *long* retraining after each cut. So is it the budget? Trying
# that takes longer than a lab should. Here is a longer run of the same experiment, on
# the digits with five seeds (`course remake lab01_long_run_digits` makes it again, in
# about ten minutes). *Before you look:* from how many epochs in total do you expect six
# steps to pay?

# %%
# validation accuracy in %, five seeds, by method and by epochs
long_run = {
    how: {int(epochs): values for epochs, values in by.items()}
    for how, by in experiments.read("lab01_long_run_digits").items()
}

budgets = list(long_run["random"])
fig = plots.method_curves(
    budgets,
    {how: np.array(list(by_budget.values())).T for how, by_budget in long_run.items()},
    xlabel="epochs of fine-tuning in total",
    ylabel="validation accuracy (%)",
    title="98 % pruned: does iterating pay? (5 seeds)",
    ylim=(0, 102),
)
fig.axes[0].set_xscale("log")
fig.axes[0].set_xticks(budgets, budgets)
fig.axes[0].minorticks_off()
plots.show(
    fig,
    alt="Validation accuracy at 98 per cent sparsity against the fine-tuning budget, five seeds. "
    + " ".join(
        f"{how}: "
        + ", ".join(f"{np.mean(values):.0f} with {budget} epochs" for budget, values in by.items())
        + "."
        for how, by in long_run.items()
    ),
)
rows = [
    f"| {budget} | {versus(long_run['iterative, 3 steps'][budget], long_run['fine-tuned'][budget])}"
    f" | {versus(long_run['iterative, 6 steps'][budget], long_run['fine-tuned'][budget])} |"
    for budget in budgets
]
say(
    "| epochs | 3 steps against fine-tuned | 6 steps against fine-tuned |\n|---|---|---|\n"
    + "\n".join(rows)
)

# %% [markdown]
# Iterating is not better or worse than cutting once: it is *slower*. Six steps with one
# epoch each are a disaster; with five epochs each they keep what one cut loses. A
# figure in a paper that compares the two at one budget shows you one row of this table;
# at two different ones, not even that.
#
# **What the papers found.** Han et al. (2015): 9× fewer weights on AlexNet, 13× on
# VGG-16 and 12× on LeNet-300-100 (the star above: 267k → 22k weights, error 1.64 → 1.59
# %) without loss of accuracy. Zhu & Gupta (2017), gradually with the cubic schedule:
# InceptionV3 on ImageNet 78.1 % top-1 dense, 78.0 at 50 %, 76.1 at 75 %, 74.6 at 87.5
# %. An ImageNet network has fewer weights to spare than ours has for digits, so its
# curve falls earlier; the *shape*, a plateau and then a fall, is the same.

# %% [markdown]
# #### After fine-tuning: the two humps
#
# Where do the surviving weights go? `conv3` at 90 %, before and after its fine-tuning.

# %%
just_pruned = pruned(dense[0], layer_masks(prunable(dense[0]), 0.9)).conv3.weight.detach()
fine_tuned = models["fine-tuned"][SPARSITIES.index(0.9)].conv3.weight.detach()
first, then = just_pruned[just_pruned != 0], fine_tuned[fine_tuned != 0]
plots.show(
    plots.histogram_before_after(
        first,
        then,
        title="The survivors of conv3 at 90 %, before and after training",
        labels=("survivors, just pruned", "survivors, fine-tuned"),
    ),
    alt=(
        "Two histograms of the surviving weights of conv3. Just pruned: two humps with a gap"
        f" around zero. Fine-tuned: the mean size has gone from {first.abs().mean():.3f} to"
        f" {then.abs().mean():.3f}, and weights have moved into the gap."
    ),
)
say(
    f"Mean |w| of the survivors: {first.abs().mean():.3f} just pruned, **{then.abs().mean():.3f}**"
    f" fine-tuned. {int((fine_tuned == 0).sum()):,} of {fine_tuned.numel():,} weights are"
    " exactly 0."
)

# %% [markdown]
# Han et al. show the same picture for AlexNet: two humps after pruning, and after
# retraining the survivors spread. Some of them have moved back towards zero: they would
# be the first to go in a next step. That is the argument *for* iterating.

# %% [markdown]
# #### Experiment: what does structure cost?
#
# Now the granularities, with fine-tuning (half the budget of above for each, to keep
# the run short). The control prunes random *filters*.
#
# *Before you run it:* filter pruning at 90 %, fine-tuned: what accuracy, in %?

# %%
### BEGIN SOLUTION
prediction_1_7c = 90
### END SOLUTION

# %%
STRUCTURED = [0.7, 0.9, 0.95]
runs = [(seed, s) for seed in range(SEEDS) for s in STRUCTURED]
for g in GRANULARITIES:
    jobs = [(seed, layer_masks(prunable(dense[seed]), s, g), BUDGET // 2) for seed, s in runs]
    models[g] = side_by_side(train_masked, jobs)
models["random filter"] = side_by_side(
    train_masked, [(seed, random_masks(seed, s, "filter"), BUDGET // 2) for seed, s in runs]
)

structured = {
    how: np.reshape([accuracy(m) for m in models[how]], (SEEDS, -1))
    for how in (*GRANULARITIES, "random filter")
}
fig = plots.method_curves(
    STRUCTURED,
    {"random" if how == "random filter" else how: values for how, values in structured.items()},
    dense=dense_accuracy,
    xlabel="sparsity of every convolution (random: whole filters)",
    ylabel="validation accuracy (%)",
    title="What do larger pieces cost, after fine-tuning?",
    xaxis="sparsity",
    ylim=(0, 102),
)
fig.axes[0].set_xticks(STRUCTURED)
plots.show(
    fig,
    alt=(
        "Validation accuracy against sparsity for four granularities, fine-tuned, three seeds. "
        f"At {100 * STRUCTURED[-1]:.0f} %: "
    )
    + ", ".join(f"{how} {np.mean(values[:, -1]):.0f}" for how, values in structured.items())
    + ".",
)
say(as_table(STRUCTURED, structured))
say(
    f"{you_wrote(prediction_1_7c)} Smallest filters against random filters:\n\n"
    + "\n".join(
        f"- at {100 * s:.0f} %:"
        f" {versus(structured['filter'][:, i], structured['random filter'][:, i])}"
        for i, s in enumerate(STRUCTURED)
    )
)

# %% [markdown]
# The lecture's sentence "unstructured pruning has a better accuracy than structured
# pruning" is this figure, at *equal sparsity*. Two remarks, though. Does it matter
# *which* filters go? The lines above say what your seeds can show. (Mittal et al. 2018
# found on ImageNet that fine-tuning recovers from random filter pruning.) And equal
# sparsity is not an equal bill. Scattered weights need an address each, filters hardly
# any. And when 90 % of a layer's 32 filters are gone, three are left, and the next
# layer's filters see three inputs each: of *its* products about 1 % are still useful,
# not 10 %. Lab 04 compares at equal MACs.

# %% [markdown]
# #### Real data: MNIST
#
# The experiments of this lab by the library, on 3,000 images of MNIST with five seeds
# (`course remake lab01_pruning_mnist`), beside the same on the digits. Before you look:
# on the digits a random mask was embarrassingly good. Will it be here?

# %%
mnist = experiments.read("lab01_pruning_mnist")["seeds"]
on_mnist = {
    how: np.array([run["trained"][how] for run in mnist])
    for how in ("fine-tuned", "iterative", "random")
}
repaired_at = [lab01.UNTRAINED.index(s) for s in lab01.TRAINED]
for how in ("recalibrated", "as pruned"):
    key = "magnitude, recalibrated" if how == "recalibrated" else "magnitude"
    on_mnist[how] = np.array([run["untrained"][key] for run in mnist])[:, repaired_at]
say(f"MNIST, dense {pm([run['dense'] for run in mnist])} %:\n\n{as_table(lab01.TRAINED, on_mnist)}")
say(real_data.table("01"))

# %% [markdown]
# What breaks first, one threshold for all, the price of larger pieces: all that holds.
# Two sentences do not. On MNIST a random mask *is* behind at 90 %, and random filters
# are behind the smallest ones: digits of 28×28 pixels leave fewer weights to spare, and
# five seeds can show it. So the embarrassingly good control of the figures above says
# something about a task that is easy for its network, not about random masks; a control
# is run on the data that a claim is about. That iterating pays, or does not, these
# budgets show on neither set.
#
# ## Part E · What was it worth?

# %% [markdown]
# ### 1.8 Two short answers
# **10 minutes · 1 point**
#
# #### Experiment: three bills, and the test images once
#
# For each way of pruning we take the sparsest setting whose *mean validation accuracy*
# is within one point of the dense networks'. That is a choice, so it is made on
# validation data. Then, and only now, the chosen networks see the **test images,
# once**.
#
# Three bills for each (lab 00):
#
# - **bits**: 32 for each weight that is left, and a bitmap: one bit for each group that
#   could have been pruned. For single weights the cheapest of bitmap, 4-bit run lengths
#   and coordinates, layer by layer.
# - **MACs**: products with a non-zero weight, for one image.
# - **milliseconds**: measured, 64 images on one core, all networks taking turns; the
#   column is a median over the rounds. They are the processor's: while it works for
#   other programs, the clock stands still. *times faster* is not a quotient of two
#   medians: it divides round by round, so that a slow spell of the machine hits both,
#   and takes the median of these ratios.
#
# *Before you run it:* the sparsest element-wise network does a small fraction of the
# dense network's MACs. How many times faster will this machine run it?

# %%
### BEGIN SOLUTION
prediction_1_8 = 2  # times faster; 1 would mean: no faster
### END SOLUTION


# %%
def sparsest(values: np.ndarray, sparsities: list[float]) -> float:
    """The largest sparsity with a mean within one point of dense; if there is none, the
    smallest measured.
    """
    good = [
        s
        for s, a in zip(sparsities, values.mean(axis=0), strict=True)
        if a >= np.mean(dense_accuracy) - 1
    ]
    return max(good, default=sparsities[0])


def trained_to(how: str, sparsity: float, sparsities: list[float]) -> list[nn.Module]:
    """The networks of one method at one sparsity, by seed."""
    return [
        models[how][seed * len(sparsities) + sparsities.index(sparsity)] for seed in range(SEEDS)
    ]


bill = {"dense": ("element", dense)}  # row -> (granularity, networks by seed)
s = sparsest(by_scope["global"], high)
repaired = [pruned(model, global_masks(prunable(model), s), repair=True) for model in dense]
bill[f"global {100 * s:.0f} %, recalibrated"] = ("element", repaired)
s = sparsest(results["fine-tuned"], SPARSITIES)
bill[f"magnitude {100 * s:.0f} %, fine-tuned"] = (
    "element",
    trained_to("fine-tuned", s, SPARSITIES),
)
# control, same sparsity
bill[f"random {100 * s:.0f} %, fine-tuned"] = ("element", trained_to("random", s, SPARSITIES))
s = sparsest(results["iterative"], SPARSITIES)
bill[f"iterative {100 * s:.0f} %"] = ("element", trained_to("iterative", s, SPARSITIES))
for g in ("row", "kernel", "filter"):
    s = sparsest(structured[g], STRUCTURED)
    bill[f"{g}s {100 * s:.0f} %, fine-tuned"] = (g, trained_to(g, s, STRUCTURED))


def stored_bits(model: nn.Module, granularity: str) -> int:
    """Bits of all prunable weights, with what it takes to say where they are."""
    bits = 0
    for w in prunable(model).values():
        w = w.detach()
        if granularity == "element" or w.ndim == 2:
            bits += encodings.cheapest_bits(w)
        else:
            # True: group is there
            groups = (w != 0).flatten({"row": 3, "kernel": 2, "filter": 1}[granularity]).any(-1)
            bits += groups.numel() + 32 * int(groups.sum()) * (w.numel() // groups.numel())
    return bits


batch = data.validation.images[:64]


times = latency.compare(
    {row: latency.forward(networks[0], batch) for row, (_, networks) in bill.items()},
    repeats=40,
    threads=1,
)
lines = [
    "| | kB | MACs (k) | ms for 64 images | times faster | test accuracy (%) |",
    "|---" * 6 + "|",
]
for row, (granularity, networks) in bill.items():
    bits = stored_bits(networks[0], granularity)
    products = totals(model_cost(networks[0], data.test.images[:1]))["nonzero_macs"]
    milliseconds = 1e3 * times[row].median
    faster = times["dense"].times_slower_than(times[row])
    # the only time that the test images are used
    test = [accuracy(model, "test") for model in networks]
    ledger.add("convnet", row, lab="01", bits=bits, macs=products, ms=milliseconds, accuracy=test)
    costs = f"{bits / 8e3:.1f} | {products / 1e3:.0f} | {milliseconds:.2f} | {faster:.2f}"
    lines.append(f"| {row} | {costs} | {pm(test)} |")
say("\n".join(lines))
say(you_wrote(prediction_1_8))

# %% [markdown]
# **A fraction of the products, and hardly any gain in time.** A dense kernel multiplies
# by zero as fast as by anything else; it does not look. Whole filters of zeros change
# little about that while the zeros are still there: someone has to take them *out* (lab
# 04), or choose a pattern that the hardware knows (lab 05), or write a kernel that
# skips zeros and pays for finding its way (lab 00: that pays only at very high
# sparsity). What unstructured pruning does buy at once is the first column: bits.
#
# Two rows deserve a second look. *global …, recalibrated* has not seen a single step of
# training. And compare *magnitude …, fine-tuned* with *random …, fine-tuned*, at the
# same sparsity: what would you have concluded without that row?
#
# The ledger so far (beside this notebook, in `ledger.json`):

# %%
display(ledger.table())

# %% [markdown]
# #### The two answers
#
# **a.** In 1.3 the one-shot networks at 70 % were far down on average, and after
# recalibration they were back near the dense accuracy, with the same weights, the same
# mask and the same zeros. What had been broken?

# %%
choose(
    "1.8a",
    "The pruned weights held what the network knew; recalibration brought them back.",
    "The surviving weights had to adapt; the pass over the training images was a short"
    " fine-tuning.",
    "Nothing: at 70 % sparsity the seeds differ so much that the two accuracies agree.",
    "Each channel's sums had another mean and size than in the dense network, and batch norm still"
    " shifted and scaled them by the old ones.",
)

# %% [markdown]
# **b.** Look at the experiment of 1.4 again, *who pays?*: when all layers share one
# threshold, at 90 %, which share of its weights does **conv1** lose, in %, on *your*
# machine? Type the number in (within 3 of what these networks give on the digits
# counts).

# %%
# a: "A", "B", "C" or "D"; b: a number, in %
### BEGIN SOLUTION
answer_1_8a = "D"
answer_1_8b = 21.4
### END SOLUTION

# %%
check("1.8")

# %% [markdown]
# <details><summary>Hint for a</summary>Which of the four can be true, if all parameters
# of the two networks are the same, bit for bit?</details>
# <details><summary>Hint for b</summary>Two bars stand over conv1, with their numbers:
# one for a threshold of its own, one for a threshold that all layers share.</details>

# %% [markdown]
# ### 1.9 Bug hunt
# **20 minutes · 1 point**
#
# You have trusted `check` all along. How good is a test? Here is one that looks
# reasonable, and a version of `magnitude_mask` that someone really wrote: find the
# threshold, keep what is larger.


# %%
def naive_test(f: Callable) -> None:
    weight = torch.randn(40, 25, generator=torch.Generator().manual_seed(0))
    mask = f(weight, 0.5)
    assert mask.sum() == 500
    assert weight[mask].abs().min() >= weight[~mask].abs().max()


def suspicious_mask(weight: Tensor, sparsity: float) -> Tensor:
    goes = round(sparsity * weight.numel())
    if goes == 0:
        return torch.ones_like(weight, dtype=torch.bool)
    sizes, _ = weight.abs().reshape(-1).sort()
    threshold = sizes[goes - 1]  # the largest that must go
    return weight.abs() > threshold


naive_test(suspicious_mask)
print("suspicious_mask passes the naive test.")

# %% [markdown]
# It would pass for a thousand other random matrices too. Now give it a layer that is
# *already* pruned to 80 %, as happens at every step but the first of an iterative
# scheme, and ask for 50 %:

# %%
layer = weights["conv3.weight"].detach()
layer = layer.masked_fill(~magnitude_mask(layer, 0.8), 0)
say(
    "Asked for 50 %: `magnitude_mask` prunes"
    f" {100 * (1 - magnitude_mask(layer, 0.5).float().mean()):.0f} %, `suspicious_mask` prunes"
    f" **{100 * (1 - suspicious_mask(layer, 0.5).float().mean()):.0f} %**."
)

# %% [markdown]
# Real weights have ties: zeros, quantised values, weights that share an initial value.
# Random normal numbers have none.
#
# Write `find_bug(f)`: it gets a function `f(weight, sparsity)` and raises
# `AssertionError` if `f` breaks the contract of **1.1**, and returns if it does not.
# The grader calls it with several versions of `magnitude_mask`, some right (written in
# other ways than yours), some wrong, each with a mistake that people make. A test that
# fails right versions is worth nothing either, so a point is earned only for verdicts
# on both kinds. All versions take finite weights of any shape and any sparsity in [0,
# 1] without an error; what they do with other arguments does not count. Try it on
# something small: the versions refuse more than eight million numbers in one call, and
# calls that take long.
#
# You could compare `f` with your own `magnitude_mask`. Try to do without: write down
# what must be *true* of a mask. Such a test also finds the mistake that you have made
# yourself.


# %%
def find_bug(f: Callable[[Tensor, float], Tensor]) -> None:
    """Raise AssertionError if ``f(weight, sparsity)`` breaks the contract of
    ``magnitude_mask`` (1.1); else return.
    """
    ### BEGIN SOLUTION
    generator = torch.Generator().manual_seed(1)
    examples = [
        torch.randn(5, generator=generator),  # half of 5 is 2.5, and round(2.5) is 2
        torch.randn(7, generator=generator),
        torch.randn(4, 3, 3, 2, generator=generator) - 0.5,  # more negative than positive
        torch.randint(-2, 3, (6, 9), generator=generator).float(),  # nothing but ties
        torch.tensor([[0.0, 0.0, 0.0], [0.0, -3.0, 0.0]]),
        torch.ones(100),
    ]
    for weight in examples:
        for sparsity in (0.0, 0.1, 0.25, 0.3, 0.5, 0.77, 0.9, 1.0):
            mask = f(weight, sparsity)
            case = f"shape {tuple(weight.shape)}, sparsity {sparsity}"
            assert mask.dtype == torch.bool and mask.shape == weight.shape, (
                f"no mask like the weight: {case}"
            )
            gone, size = ~mask.flatten(), weight.abs().flatten()
            assert int(gone.sum()) == round(sparsity * len(size)), f"wrong number: {case}"
            if gone.any() and mask.any():
                largest_gone = size[gone].max()
                assert largest_gone <= size[~gone].min(), f"a larger one went: {case}"
                # in order: all that went must come before all that stayed
                ties = gone[size == largest_gone]
                assert not (ties[1:] & ~ties[:-1]).any(), f"ties out of order: {case}"
    ### END SOLUTION


# %%
for f in (magnitude_mask, suspicious_mask):
    try:
        find_bug(f)
        print(f"{f.__name__}: no bug found")
    except AssertionError as reason:
        print(f"{f.__name__}: caught ({reason})")

# %%
check("1.9")

# %% [markdown]
# <details><summary>Hint 1: read the contract as a list</summary>Type and shape; how
# many; which; in which order among equals. Four sentences, four assertions.</details>
# <details><summary>Hint 2: choose inputs that tell versions apart</summary>For each
# sentence: which weight and which sparsity would show that it is broken? Think of odd
# counts, of sparsity 0 and 1, of more than two dimensions, of negative weights, of
# equal sizes.</details>
# <details><summary>Hint 3: the order among equals</summary>Among the weights of the
# borderline size, everything pruned must stand before everything kept.</details>

# %% [markdown]
# ## Play
#
# Sparsity, granularity, and the switch that this lab is about: is batch norm
# recalibrated? The number is the validation accuracy of the first network, pruned in
# one shot. Find a setting at which the switch moves the accuracy by more than 80
# points; then one at which it does nothing at all. (By keyboard: Tab goes from control
# to control, the arrow keys move a slider, the space bar presses a button.)


# %%
def explore(sparsity: float, granularity: str, repair: bool) -> tuple[str, Figure]:
    masks = layer_masks(prunable(dense[0]), sparsity, granularity)
    score = accuracy(pruned(dense[0], masks, repair))
    w, mask = dense[0].conv2.weight.detach(), masks["conv2.weight"]
    fig = Figure(figsize=(8, 4.2), layout="constrained")
    left, right = fig.subplots(1, 2, width_ratios=[1, 1.15])
    # 16 filters down, 16 channels across
    picture = mask[:16, :16].permute(0, 2, 1, 3).reshape(48, 48)
    left.imshow(picture, cmap="Blues", vmin=-0.15, vmax=1.2, interpolation="nearest")
    left.set_xticks(np.arange(1, 48, 15), range(0, 16, 5))
    left.set_yticks(np.arange(1, 48, 15), range(0, 16, 5))
    left.set(xlabel="input channel", ylabel="filter", title="conv2: what is kept (dark)")
    left.grid(visible=False)
    bins = np.linspace(-w.abs().max().item(), w.abs().max().item(), 61)
    right.hist(w.flatten().numpy(), bins, color=plots.COLOURS["random"], alpha=0.45, label="dense")
    right.hist(w[mask].numpy(), bins, color=plots.COLOURS["magnitude"], label="kept")
    right.set(xlabel="weight", ylabel="weights per bin", title="conv2: sizes of what is kept")
    right.legend(frameon=False)
    state = "recalibrated" if repair else "as pruned"
    plots.alt(
        fig,
        f"Mask and weight histogram of conv2 at {100 * sparsity:.0f} %, granularity {granularity};"
        f" {state} the network scores {score:.1f} per cent.",
    )
    return f"Validation accuracy: {score:.1f} % (dense: {dense_accuracy[0]:.1f} %)", fig


widgets.explorer(
    explore,
    sparsity=widgets.slider(0.0, 0.98, 0.02, 0.7, "sparsity"),
    granularity=widgets.choice(GRANULARITIES, label="granularity"),
    repair=widgets.choice({"no": False, "yes": True}, label="recalibrate batch norm"),
)

# %% [markdown]
# ## What you take with you
#
# - Masks are data: boolean tensors beside the model. *Score → select → mask → apply* is
#   all of static pruning.
# - A collapse has causes, and they can be taken apart. Here stale batch-norm statistics
#   came first, lost weights a long way behind.
# - Zeros stay zero only if you set them to zero after every step; a masked gradient is
#   not enough.
# - Compare at equal budget, with a random control: after training, the control is
#   embarrassingly good.
# - Sparsity is not speed. Bits fall at once, MACs on paper, milliseconds not at all
#   until the hardware or the shape plays along.
#
# ## Going further
#
# - **Real data.** Set `DATA = "mnist"` above and run everything again with your own
#   functions (some minutes). Are your figures those of the result file?
# - **A longer run.** In `course_lib/experiments/lab01.py` put equal steps in the place
#   of cubic ones, and make the result again. How much of "iterative" is the schedule?
# - **The budget of the sensitivity map.** Use the second map of 1.6 to give each layer
#   its own sparsity at the same total, and compare with `global_masks`, recalibrated
#   and fine-tuned.
# - **On a GPU.** Move a model with `model.to("cuda")` before `fit`; train on all 55,000
#   MNIST images. Does *ms* change now?
# - **Read.** S. Han, J. Pool, J. Tran, W. Dally, *Learning both Weights and Connections
#   for Efficient Neural Networks*,
#   2015. M. Zhu, S. Gupta, *To prune, or not to prune*, 2017. H. Mao et al., *Exploring
#         the Regularity of Sparse Structure in Convolutional Neural Networks*, 2017
#         (granularity). B. Li et al., *EagleEye*, 2020 (batch norm after pruning). D.
#         Mittal et al., *Recovering from Random Pruning*, 2018 (the control that is
#         good too).
# - **Next.** Magnitude ignores the input that a weight multiplies and the loss that it
#   serves. Lab 02 asks the loss.
