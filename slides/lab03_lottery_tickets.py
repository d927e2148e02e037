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

import numpy as np
import pandas as pd

from course_lib import experiments
from course_lib.experiments import lab03
from course_lib.pruning.weights.sparse_training import erdos_renyi_densities
from course_lib.show import plots
from course_lib.show.drawings import pruning_rounds
from course_lib.show.words import minus, say

plots.use_style()
BESIDE = (4.9, 4.05)  # inches of a figure beside text
mnist = lab03.stored("mnist")
by_budget = experiments.read("lab03_tickets_digits/rounds")
short = lab03.stored("digits")
few = short["remaining"].min()
fewest = short[short["remaining"] == few]
left = np.array([1.0, *mnist["remaining"].dropna().unique()])  # of each round on MNIST
LENET = {"fc1": (300, 784), "fc2": (100, 300), "fc3": (10, 100)}  # on MNIST


def at(fraction):
    """The round on MNIST whose remaining weights are nearest to a fraction."""
    return int(np.argmin(np.abs(np.log(left / fraction))))


def per(share, digits=1):
    """A share in per cent."""
    return f"{100 * share:.{digits}f}\u00a0%"


# %% [markdown] slideshow={"slide_type": "slide"}
# # Could one have trained the small network from the start?
#
# Neural-network pruning · lecture to lab 03
#
# *Pruning finds a small network inside a large trained one. Did it exist before the
# training? How can you test this, and what is it worth?*

# %% slideshow={"slide_type": "notes"}
say(
    "Seventy-five minutes: hypothesis and search (20), controls and results (25), objections (15),"
    " cost, and sparse training (15). Our figures: LeNet-300-100 (and once a small conv net), digits with"
    f" {short['seed'].nunique()} seeds and MNIST with {mnist['seed'].nunique()}, from stored results."
)

# %% [markdown] slideshow={"slide_type": "slide"}
# ## What pruning a trained network leaves open
#
# | | weights start from | known since |
# |---|---|---|
# | train large, prune, **train on** | the trained values | lab 01: prune nine in ten |
# | train the pruned network **from new weights** | new random values | usually said to end worse |
# | train the pruned network **from its own first weights** | the values it had *before* it was trained | **today** |
#
# Pruning a trained network comes after the cost of the large one. If the small one can
# be trained alone, the memory and the products of the large one were never needed.

# %% [markdown] slideshow={"slide_type": "notes"}
# Han et al. (2015, Learning both weights and connections, NeurIPS) advise to keep the
# trained values rather than to initialise the kept weights again. Hardly anybody had
# tried the third row.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## The lottery ticket hypothesis
#
# > "A randomly-initialized, dense neural network contains a subnetwork that is
# initialized such that – when trained in
# > isolation – it can match the test accuracy of the original network after training
# for at most the same number of
# > iterations." (Frankle & Carbin 2019)
#
# In our words: among the many small networks inside a large random one there is at
# least one whose connections *and* first weights suit the task. Training the large one
# finds it, as buying all tickets finds the winner.
#
# Dense, $w_0$ reaches accuracy $a$ at step $j$. There is a mask $m$ with few ones such
# that $m \odot w_0$ reaches
#
# $$a' \ge a \quad\text{at a step}\quad j' \le j$$

# %% [markdown] slideshow={"slide_type": "notes"}
# Three claims in one: few weights, as accurate, as fast. Each needs its own measurement.
# "Contains" is a statement of existence: the mask may be expensive to find. And it is a
# hypothesis, not a theorem.

# %% slideshow={"slide_type": "slide"}
say("## Iterative magnitude pruning, with rewinding")
plots.show(pruning_rounds(3, 0.2))

# %%
n = sum(math.prod(shape) for shape in LENET.values())
p = left[at(0.036)]
bits = -n * (p * math.log2(p) + (1 - p) * math.log2(1 - p))
say(
    "Chosen by the *trained* values, which are then discarded. The result is **one bit per"
    f" weight**: for LeNet on MNIST, {per(p)} left, {bits / 8e3:.0f} kB out of {n * 4 / 1e3:,.0f} kB."
)

# %% [markdown] slideshow={"slide_type": "notes"}
# The drawing is a real search: a layer of 4 × 6 that learns to copy another one. Follow
# one cell: its colour in the upper row never changes, until it is pruned. The number of
# kB is the entropy of the mask, the minimum for places at random (lab 00).

# %% slideshow={"slide_type": "slide"}
say("## The arithmetic of rounds")
rates = {"fc1": 0.2, "fc2": 0.2, "fc3": 0.1}
sizes = {name: math.prod(shape) for name, shape in LENET.items()}
shares = pd.DataFrame({name: (1 - rates[name]) ** np.arange(17) for name in LENET})
shares["all layers"] = shares @ pd.Series(sizes) / n
shares = (100 * shares[["fc1", "fc3", "all layers"]]).rename_axis("round")
shares = shares.rename(columns={"fc1": "fc1: −20 %", "fc3": "fc3: −10 %"})
fig = plots.curves(
    shares.melt(var_name="layer", value_name="weights left (%)", ignore_index=False).reset_index(),
    x="round",
    y="weights left (%)",
    by="layer",
    control=None,
    log=True,
    title="LeNet on MNIST: half the rate in the output layer",
)
plots.show(fig, inches=(5, 4.05))

# %% [markdown]
# $$\text{left} = \frac1N\sum_l n_l\,(1-r_l)^t$$
#
# $$t \approx \frac{\log \text{left}}{\log(1-r)} \text{ rounds}$$

# %% [markdown] slideshow={"slide_type": "notes"}
# A share of the *survivors*, layer by layer; fc2 as fc1. With 20 % of all weights the
# network would be empty after five rounds. The output layer is small and every class
# depends on it: so half the rate, in the paper and here.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Two minutes: count the rounds
#
# You want to keep 10 % of the weights.
#
# **1.** How many rounds at 20 % per round? At 50 %? How many trainings does each search
# cost?
#
# **2.** The first round prunes the smallest 20 %. Will the weights pruned in the *tenth*
# round be as small?
#
# **3.** One layer has 1,000 weights, another 235,200. Suppose all layers share one
# threshold. Which layer may lose everything?

# %% slideshow={"slide_type": "notes"}
needed = {rate: math.ceil(math.log(0.1) / math.log(1 - rate)) for rate in (0.2, 0.5)}
say(
    "1: "
    + ", ".join(
        f"at {per(rate, 0)}: {t} rounds ({t + 1} trainings with the dense one)"
        for rate, t in needed.items()
    )
    + ". 2: No: each round prunes the smallest of a set without the small ones. So one ranks"
    " again after each training. 3: Whichever has the smaller weights, here the"
    " large one: its initial weights are within 1/√d_in. Frankle and Carbin prune layer by layer"
    " here, and globally only in deep networks."
)

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Rewinding means everything
#
# | must be rewound | if not |
# |---|---|
# | the kept weights | it is fine-tuning, and looks *better* |
# | biases | some training is inherited |
# | batch norm's running mean and variance | statistics are stale (lab 01) |
# | the optimizer's moments | the first steps follow the *last* round |
# | step counter, learning-rate schedule | it trains with the small final rate |
#
# None of these mistakes crashes. Most make the small network look *better*: it has been
# trained before.

# %% [markdown] slideshow={"slide_type": "notes"}
# In PyTorch, state_dict() is a dictionary of references: the next training changes it. The
# lab tests for a search that has trained its "initial weights". Use the same order of
# images in all arms: then comparisons are paired.

# %% slideshow={"slide_type": "slide"}
say("## A ticket, compared with what?")
end = 16

# %% [markdown]
# | | mask | weights | question |
# |---|---|---|---|
# | **ticket** | from the search | $w_0$ | |
# | **reinit** | from the search | drawn again | does it need *these* weights? |
# | **random mask** | as many per layer, at random | $w_0$ | does it need *these* places? |
# | **dense, trained again** | all | $w_0$ | would any second training do? |

# %%
say(
    "A control differs in **one** thing. Shuffle the mask over all layers at once and it differs in"
    f" two: after {end} rounds of the paper the output layer keeps {100 * 0.9**end:.0f} % of its"
    f" {sizes['fc3']:,} weights; shuffled globally, {shares['all layers'][end]:.1f} %, so"
    f" **{shares['all layers'][end]:.0f} inputs per class**."
)

# %% [markdown] slideshow={"slide_type": "notes"}
# "Dense, trained again" is trivially the dense network if the order of images is the
# same; it matters for methods that train longer (fine-tuning), and for the question
# whether sparse beats dense. Reinit: from the layers' own distributions, another seed.
# With w_0's own seed the "control" is the ticket.

# %% slideshow={"slide_type": "slide"}
say("## On the digits: controls and rivals")
fig = lab03.draw_rounds(short, title="30 epochs per training, 5 seeds", ylim=(90, 99))
plots.show(fig, inches=(5.4, 4.05))
say(
    f"At {per(few)}, ticket minus no rewinding **{minus(fewest, 'test', 'ticket', 'no rewinding')}**,"
    f" minus small dense **{minus(fewest, 'test', 'ticket', 'small dense')}**."
)

# %% [markdown] slideshow={"slide_type": "notes"}
# Two controls change one half of a ticket each. The rivals are what one would do without the
# hypothesis: prune and train on (as in lab 01; its values come from all rounds, so it proves
# nothing about the beginning), or train a narrow dense network. Down to half of the weights
# no difference is larger than half a point: much of the curve contains no information about tickets.
# Differences are taken in pairs: all arms of a seed see the same images in the same order.
# Zhou et al. (2019): with the signs of the first weights, their sizes hardly matter.

# %% slideshow={"slide_type": "slide"}
say("## MNIST, at the early stop")
fig = lab03.draw_rounds(
    mnist,
    y="stopped",
    ylabel="validation accuracy (%)",
    title="8,000 iterations, 3 seeds, at the stop",
    ylim=(94, 99),
)
plots.show(fig, inches=(5.4, 4.05))

# %% [markdown]
# The *early stop* is the step of the lowest validation loss; after it a network overfits.
# The paper (50,000 iterations) finds the ticket 0.3 points *above* dense at 13.5 %, back at
# 3.6 %.

# %% [markdown] slideshow={"slide_type": "notes"}
# {{claim 03.6}}
#
# Speed is the step of the stop. The paper: reinit needs 2.51 times the ticket's steps at
# 21.1 %. On small data the minimum is often near the last step, so count steps to a fixed accuracy.
# A run that never gets there counts as its last step at least.

# %% slideshow={"slide_type": "slide"}
say("## Longer training changes the order")
over = lab03.near(by_budget, [few])
fig = plots.curves(
    over,
    x="epochs",
    y="test",
    control="random mask",
    xlabel="epochs of every training",
    title=f"Digits, {per(few)} of the weights, 5 seeds",
)
fig.axes[0].set_xticks([30, 60, 90, 150])
plots.show(fig, inches=BESIDE)
first, last = (
    minus(over[over["epochs"] == epochs], "test", "ticket", "random mask") for epochs in (30, 150)
)
say(
    f"Ticket minus random mask: {first} with 30 epochs, {last} with 150. Most of the lead in"
    " accuracy was a lead in **time**."
)

# %% [markdown] slideshow={"slide_type": "notes"}
# The whole search was done again for each budget, so tickets of 150 epochs come from
# dense trainings of 150 epochs. The left end of this figure alone is accurate but
# misleading. Check every paper's budget.

# %% [markdown] slideshow={"slide_type": "notes"}
# {{claim 03.4}}

# %% [markdown] slideshow={"slide_type": "slide"}
# ## An objection: rethinking the value of pruning
#
# Liu et al. (2019): trained from *new* weights, with the full schedule, the pruned
# **architecture** is often as good as the fine-tuned one.
#
# | | Frankle & Carbin | Liu et al. |
# |---|---|---|
# | networks | LeNet; CIFAR-10: deep ones | deep ones; ImageNet, too |
# | pruned | single weights | mostly filters, channels |
# | learning rate | small, or with warm-up | large, the usual one |
# | control | equal steps | also: equal *products* |
# | result | mask **and** $w_0$ matter | the architecture matters |
#
# Both find cases in which trained values are not needed. Whether the *first* values are needed depends
# on learning rate, budget and pattern.

# %% [markdown] slideshow={"slide_type": "notes"}
# Removing filters leaves an ordinary narrower network, for which new weights are as good
# as any. For single weights on ImageNet Liu et al. find new weights worse than
# fine-tuning. Lab 04 repeats their comparison for filters. Our own budget figure supports
# them, too.

# %% slideshow={"slide_type": "slide"}
say("## Larger networks: go back to $w_k$, not to $w_0$")
plots.show(pruning_rounds(2, 0.2, rewind_to=5))

# %% [markdown]
# With the usual learning rate VGG and ResNet on CIFAR-10 give **no ticket from $w_0$**.
# Train $k$ steps *once*, rewind to $w_k$, and they do (Frankle et al. 2020).

# %% [markdown] slideshow={"slide_type": "notes"}
# The usual rate is 0.1; with warm-up from small rates they do, too (Frankle & Carbin
# 2019).
#
# A w_k ticket is no longer a ticket of the *initialisation*. It shows that a sparse
# network suffices from step k on. Some call it "matching subnetwork". k
# is a small part of the training. Random controls start from the same w_k.

# %% slideshow={"slide_type": "slide"}
say("## Back to $w_k$, measured")
fig = lab03.draw_rewinding(lab03.stored_rewinding(), "Small conv net, digits, 3 seeds")
plots.show(fig, inches=(5.2, 3.8))

# %% [markdown]
# SGD, learning rate 0.2: **here three seeds show no difference between the steps.** In deep
# networks they do: two trainings from one $w_k$ end in **one valley** only if the rate is
# small or $k$ large enough.

# %% [markdown] slideshow={"slide_type": "notes"}
# Frankle et al. (2020) call it linear mode connectivity, and find that tickets exist
# exactly where runs end in one valley. LeNet on MNIST is stable from the start; our small
# conv net was not tested for it. The deep networks of the papers are not stable.

# %% slideshow={"slide_type": "slide"}
say(
    f"## Two minutes: the cost\n\n{len(left)} trainings (dense, and {len(left) - 1} rounds at 20 %)"
    f" found a ticket with {per(left[-1])} of the weights."
)

# %% [markdown]
# **1.** On hardware that skips every zero: how many *dense* trainings does the search
# cost? Estimate $\sum_t 0.8^t$.
#
# **2.** And on the hardware you have?
#
# **3.** You train the ticket once more, for real. How often must it be trained again
# until the search has paid?

# %% slideshow={"slide_type": "notes"}
say(
    f"1: the geometric series is at most 1/0.2 = 5; counted, {left.sum():.1f}. 2: {len(left)}. 3: each"
    f" use saves 1 − {left[-1]:.3f} of a dense training on perfect hardware, so"
    f" {math.ceil((left.sum() - 1) / (1 - left[-1]))} more uses on top of the dense one that was"
    " wanted anyway; on yours it saves nothing in training, only storage."
)

# %% [markdown] slideshow={"slide_type": "slide"}
# ## What a ticket is worth
#
# It does not *save training*: the search has spent it. It is worth its cost
#
# - if the ticket is **used again**: other data, optimizers, similar tasks;
# - as an **upper bound** for cheaper methods: pruning at initialisation, early-bird
#   tickets, sparse training;
# - as **knowledge**: how few weights suffice to represent the solution.

# %% [markdown] slideshow={"slide_type": "notes"}
# Products: three times the forward pass, as is usual; ideal hardware skips zeros. Cheaper
# searches are named, not taught here.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Pruning for training: sparse from the first step
#
# No dense training at all: a random mask, and every $\Delta T$ steps some connections
# **move**. Their number does not change.
#
# | | drops | grows |
# |---|---|---|
# | static | – | – |
# | SET (Mocanu et al. 2018) | the smallest $\lvert w\rvert$ | anywhere |
# | RigL (Evci et al. 2020) | the smallest $\lvert w\rvert$ | where $\lvert\partial\mathcal L/\partial w\rvert$ is largest |
#
# A missing connection has a gradient $g$, too. One small step from 0:
#
# $$\Delta\mathcal L \approx g\cdot(-\eta g) = -\eta\,g^2$$
#
# The largest *dense* $\lvert g\rvert$ predicts the largest gain (a masked one is 0).

# %% [markdown] slideshow={"slide_type": "notes"}
# Small weights are dropped, since removing them changes least. New ones start at 0, so
# that the network's output does not jump. Whether moving pays is an experiment of the
# lab.

# %% slideshow={"slide_type": "slide"}
every, share = 100, 0.2
mean_cost = (3 * share * every + 2 * share + 1) / (3 * (every + 1))
density = erdos_renyi_densities(LENET, 0.2)
say(
    "## What sparse training costs\n\nForward pass: dense $f_D$, sparse $f_S$. A step is three of"
    " them; an exchange needs the dense gradient of the weights once:\n\n$$\\frac{3 f_S\\,\\Delta T"
    " + 2 f_S + f_D}{3 f_D\\,(\\Delta T+1)}$$\n\nWith a fifth of all products and $\\Delta T$ ="
    f" {every}: **{mean_cost:.3f}** of a dense training. The dense gradients are"
    f" {per(mean_cost / share - 1)} on top."
)

# %% slideshow={"slide_type": "slide"}
say("## What sparse training reaches")

# %% [markdown]
# | RigL, ResNet-50 on ImageNet, dense 76.8 % | the same steps | five times the steps |
# |---|---|---|
# | 80 % pruned | 75.1 | **77.2** |
# | 90 % pruned | 73.1 | 76.4 |

# %%
layers = ", ".join(f"{layer} {100 * d:.0f} %" for layer, d in density.items())
say(
    "Evci et al. 2020 (their repository), Erdős–Rényi-kernel. The 77.2 cost **2.09 times** the dense training: at 80 %"
    f" a step costs 2.09 / 5 = {2.09 / 5:.2f}, not {share}. The densities keep small layers dense"
    f" (LeNet: {layers}), and in a convolutional net few weights may do many products."
)

# %% [markdown] slideshow={"slide_type": "notes"}
# Two costs again (lab 00): 80 % fewer weights are not 80 % fewer products when the
# early layers are kept dense. Beware of comparing 77.2 with 76.8: sparse is better than
# dense *with five times the steps and twice the products*. Lab 03 compares static, SET
# and RigL at equal steps, with two layouts.

# %% slideshow={"slide_type": "slide"}
say("## Limits")

# %% [markdown]
# - **Small data.** 400 test images of digits: one is 0.25 points.
# - **Few seeds.** 3 on MNIST and for the conv net, 5 on the digits. "Not detected" does not mean "equal".
# - **Tested round by round.** Masks and steps are chosen on training and validation
#   images; but all rounds are *reported* on the test images, and picking the best of them
#   afterwards would be choosing on them.
# - **One budget at a time.** 8,000 iterations are not 50,000. We have not measured more,
#   also not for dense networks.
# - **Two small networks.** On larger ones the search from $w_0$ is
#   reported to fail with the usual learning rate.
# - **No faster.** Scattered zeros save bits; on most machines no time (lab 00).

# %% [markdown] slideshow={"slide_type": "slide"}
# ## What to take along
#
# - **A ticket is a mask and the first weights under it.** Each control changes one of
#   them.
# - **A share of the survivors each round**: $(1-r)^t$, layer by layer; each round costs
#   a training. Compare at equal steps.
# - **Rewind everything**: weights, buffers, optimizer. In larger networks to $w_k$.
# - **Faster and better are two claims.** The second fades with longer training: check
#   the budget.
# - **Signs carry much of $w_0$; architecture carries much of the mask.** How much
#   depends on learning rate and budget.
# - **The search costs more than it saves.** Sparse training needs no dense training, but
#   more steps.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Lab 03, and where to read on
#
# *Lab 03*: the search, both controls, tickets before their first step, RigL.
#
# - Frankle & Carbin (2019). [The lottery ticket
#   hypothesis](https://arxiv.org/abs/1803.03635). *ICLR*.
# - Frankle, Dziugaite, Roy & Carbin (2020). [Linear mode connectivity and the lottery
#   ticket hypothesis](https://arxiv.org/abs/1912.05671). *ICML*.
# - Liu, Sun, Zhou, Huang & Darrell (2019). [Rethinking the value of network
#   pruning](https://arxiv.org/abs/1810.05270). *ICLR*.
# - Zhou, Lan, Liu & Yosinski (2019). [Deconstructing lottery
#   tickets](https://arxiv.org/abs/1905.01067). *NeurIPS*.
# - Mocanu et al. (2018). [Scalable training … with adaptive sparse
#   connectivity](https://arxiv.org/abs/1707.04780). *Nature Comm.* 9.
# - Evci, Gale, Menick, Castro & Elsen (2020). [Rigging the
#   lottery](https://arxiv.org/abs/1911.11134). *ICML*.
