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
import functools
import math

import numpy as np
import torch
from IPython.display import Markdown, display

from course_lib import experiments
from course_lib.data.images import load
from course_lib.experiments import lab03
from course_lib.models import build
from course_lib.pruning.weights.lottery import (
    early_stop,
    find_ticket,
    random_ticket,
    reinitialise,
    rewind,
    shrink,
)
from course_lib.pruning.weights.masks import dense_masks, prunable
from course_lib.pruning.weights.sparse_training import erdos_renyi_densities
from course_lib.show import plots
from course_lib.show.drawings.tickets import pruning_rounds
from course_lib.show.words import pm, versus
from course_lib.training import evaluate, fit, train_and_test

plots.use_style()
torch.set_num_threads(1)
ARMS = lab03.ARMS
mnist = experiments.read("lab03_tickets_mnist")
left = np.array(mnist["remaining"])  # of each round
reached = {arm: np.array(mnist[arm]["accuracy"]) for arm in ARMS}  # (seeds, rounds + 1)
stops = {arm: np.array(mnist[arm]["early_stop"], dtype=float) for arm in ARMS}
dense = reached["ticket"][:, 0]
by_budget = {int(epochs): run for epochs, run in experiments.read("lab03_tickets_digits").items()}
digits_left = np.array(next(iter(by_budget.values()))["remaining"])
LENET = {"fc1": (300, 784), "fc2": (100, 300), "fc3": (10, 100)}  # on MNIST


def at(fraction, lefts=left):
    """The round whose remaining weights are nearest to a fraction."""
    return int(np.argmin(np.abs(np.log(lefts / fraction))))


def per(share, digits=1):
    """A share in per cent."""
    return f"{100 * share:.{digits}f}\u00a0%"


# %% [markdown] slideshow={"slide_type": "slide"}
# # Could one have trained the small network from the start?
#
# Neural-network pruning · lecture to lab 03
#
# *Pruning finds a small network inside a large one that is trained. Was it there before
# the training? How would one know, and what would it be worth?*

# %% slideshow={"slide_type": "notes"}
display(
    Markdown(
        "Seventy-five minutes: hypothesis and search (20), controls and results (25), objections"
        " (15), price, and sparse training (15). All our figures: LeNet-300-100, digits with"
        f" {len(by_budget[30]['ticket']['accuracy'])} seeds and MNIST with {len(dense)} from result"
        " files, the smaller experiments computed when the deck was made, three seeds or more."
    )
)

# %% [markdown] slideshow={"slide_type": "slide"}
# ## What pruning a trained network leaves open
#
# | | weights start from | known since |
# |---|---|---|
# | train large, prune, **train on** | the trained values | lab 01: nine in ten can go |
# | train the pruned network **from fresh weights** | new random values | usually said to end worse |
# | train the pruned network **from its own first weights** | the values it had *before* it was trained | **today** |
#
# Whoever prunes a trained network has paid for the large one already. If the small one
# can be trained alone, the large one was never needed: not its memory, and not its
# products.

# %% [markdown] slideshow={"slide_type": "notes"}
# Han et al. (2015, Learning both weights and connections, NeurIPS) advise to keep the
# trained values rather than to draw the survivors afresh. The third row looks like a
# curiosity between the two. It is the one that hardly anybody had tried.

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
# least one whose connections *and* first weights happen to suit the task. Training the
# large one finds it, as buying all tickets finds the winner.
#
# Dense, $w_0$ reaches accuracy $a$ at step $j$. There is a mask $m$ with few ones such
# that $m \odot w_0$ reaches
#
# $$a' \ge a \quad\text{at a step}\quad j' \le j$$

# %% [markdown] slideshow={"slide_type": "notes"}
# Three claims in one: few weights, as accurate, as fast. Each wants its own
# measurement. "Contains" is a statement of existence: it does not say that anybody
# finds the mask cheaply. And it is a hypothesis: no theorem is behind it here.

# %% slideshow={"slide_type": "slide"}
display(Markdown("## Iterative magnitude pruning, with rewinding"))
plots.show(pruning_rounds(3, 0.2))

# %%
n = sum(math.prod(shape) for shape in LENET.values())
p = left[at(0.036)]
bits = -n * (p * math.log2(p) + (1 - p) * math.log2(1 - p))
display(
    Markdown(
        "Chosen by the *trained* values, which are then thrown away. What stays is **one bit a"
        f" weight**: for LeNet on MNIST, {per(p)} left, {bits / 8e3:.0f} kB out of"
        f" {n * 4 / 1e3:,.0f} kB."
    )
)

# %% [markdown] slideshow={"slide_type": "notes"}
# The drawing is a real search: a layer of 4 × 6 that learns to copy another one. Follow
# one cell: its colour in the upper row never changes, it is there or it is gone. The
# number of kB is the entropy of the mask, the least that places at random cost (lab
# 00).

# %% slideshow={"slide_type": "slide"}
display(Markdown("## The arithmetic of rounds"))
rounds_ = np.arange(17)
rates = {"fc1": 0.2, "fc2": 0.2, "fc3": 0.1}
sizes = {name: math.prod(shape) for name, shape in LENET.items()}
shares = {
    f"{name}: −{per(rates[name], 0)}": 100 * (1 - rates[name]) ** rounds_ for name in ("fc1", "fc3")
}
fc1_left, fc3_left = (values[-1] for values in shares.values())
total = np.sum([sizes[name] * (1 - rates[name]) ** rounds_ for name in LENET], axis=0) / n
fig = plots.curves(
    rounds_,
    {**shares, "all layers": 100 * total},
    points={"all layers": (rounds_, 100 * left)},
    xlabel="round",
    ylabel="weights left (%)",
    title="LeNet on MNIST: half the rate in the output layer",
    log=True,
    key=("formula", "counted"),
)
plots.show(
    fig,
    alt=(
        f"Share of weights left against rounds, log scale: after 16 rounds fc1 {fc1_left:.1f} per"
        f" cent, the output layer {fc3_left:.1f}, all layers {100 * total[-1]:.1f} by formula and"
        f" {100 * left[-1]:.1f} counted."
    ),
    inches=(5, 4.05),
)

# %% [markdown]
# $$\text{left} = \frac1N\sum_l n_l\,(1-r_l)^t$$
#
# $$t \approx \frac{\log \text{left}}{\log(1-r)} \text{ rounds}$$

# %% [markdown] slideshow={"slide_type": "notes"}
# A share of the *survivors*, layer by layer; fc2 as fc1. With 20 % of all weights the
# network would be empty after five rounds. The output layer is small and all that the
# network knows passes through it: so half the rate, in the paper and here.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Two minutes: count the rounds
#
# You want to keep 10 % of the weights.
#
# **1.** How many rounds at 20 % a round? At 50 %? How many trainings does each search
# cost?
#
# **2.** In the first round the smallest 20 % went. Will the weights pruned in the
# *tenth* round be as small as those?
#
# **3.** One layer has 1,000 weights, another 235,200. All layers compete for one
# threshold instead. Which layer may lose everything?

# %% slideshow={"slide_type": "notes"}
needed = {rate: math.ceil(math.log(0.1) / math.log(1 - rate)) for rate in (0.2, 0.5)}
display(
    Markdown(
        "1: "
        + ", ".join(
            f"at {per(rate, 0)}: {t} rounds ({t + 1} trainings with the dense one)"
            for rate, t in needed.items()
        )
        + ". 2: No: each round takes the smallest of a set from which the small ones are gone. That"
        " is why one measures again after each training. 3: Whichever has the smaller weights,"
        " here the large one: its initial weights are within 1/√d_in. Frankle and Carbin prune"
        " layer by layer here, and globally only in deep networks."
    )
)

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Rewinding means everything
#
# | what must go back | if it does not |
# |---|---|
# | the weights that stay | it is fine-tuning, and looks *better* |
# | biases | some training is inherited |
# | batch norm's running mean and variance | statistics are stale (lab 01) |
# | the optimizer's moments | the first steps go where the *last* round went |
# | step counter, learning-rate schedule | it trains with the small rate of the end |
#
# Not one of these mistakes crashes. Most of them make the small network look *better*:
# it has been trained before.

# %% [markdown] slideshow={"slide_type": "notes"}
# In PyTorch, state_dict() is a dictionary of references: what is trained next changes
# it. The lab has a test for a search whose "initial weights" were trained along. Which
# order the images come in is a matter of choice: the same order for all arms makes
# comparisons paired.

# %% slideshow={"slide_type": "slide"}
display(Markdown("## A ticket, compared with what?"))
end = at(0.029)
display(
    Markdown(
        "| | mask | weights | it tells apart |\n|---|---|---|---|\n| **ticket** | from the search"
        " | $w_0$ | |\n| **reinit** | from the search | drawn afresh | does it need *these*"
        " weights? |\n| **random mask** | as many in each layer, anywhere | $w_0$ | does it need"
        " *these* places? |\n| **dense, trained again** | all | $w_0$ | would any second training"
        " do? |\n\nA control differs in **one** thing. Shuffle the mask over all layers at once"
        f" and it differs in two: after {end} rounds on MNIST the output layer keeps"
        f" {100 * 0.9**end:.0f} % of its {sizes['fc3']:,} weights; shuffled globally,"
        f" {100 * left[end]:.1f} %, so **{10 * 10 * left[end]:.0f} inputs a class**."
    )
)

# %% [markdown] slideshow={"slide_type": "notes"}
# "Dense, trained again" is trivially the dense network if the order of images is the
# same; it matters for methods that train longer (fine-tuning), and for the question
# whether sparse beats dense. Reinit: from the layers' own distributions, another seed.
# With w_0's own seed the "control" is the ticket.

# %% slideshow={"slide_type": "slide"}
short = {arm: np.array(by_budget[30][arm]["accuracy"]) for arm in ARMS}
display(Markdown("## On the digits: three arms"))
fig = plots.method_curves(
    digits_left,
    short,
    control="random mask",
    dense=short["ticket"][:, 0],
    xlabel="weights remaining (%)",
    ylabel="test accuracy (%)",
    title=f"30 epochs a training, {len(short['ticket'])} seeds with intervals",
    xaxis="remaining",
)
few = len(digits_left) - 1
plots.show(
    fig,
    alt=f"Test accuracy against weights remaining on the digits. At {per(digits_left[few])}: "
    + ", ".join(f"{arm} {values[:, few].mean():.1f}" for arm, values in short.items())
    + f"; dense {short['ticket'][:, 0].mean():.1f}.",
    inches=(4.9, 4.05),
)
display(
    Markdown(
        f"At {per(digits_left[few])}: ticket against reinit"
        f" **{versus(short['ticket'][:, few], short['reinit'][:, few])}**, against a random mask"
        f" **{versus(short['ticket'][:, few], short['random mask'][:, few])}**. One test image is"
        " 0.25 points."
    )
)

# %% [markdown] slideshow={"slide_type": "notes"}
# Down to half of the weights nothing tells the three apart: much of the curve says
# nothing about tickets. Ask where a paper's curves part. All arms of a seed see the
# same images in the same order, so differences are taken in pairs.

# %% slideshow={"slide_type": "slide"}
data = load("digits")
EPOCHS, ROUNDS, RATE, SEEDS = 20, 4, 0.5, 3  # of the experiments computed here


def lenet(seed):
    """The untrained network of a seed."""
    return build("lenet300", data, seed=seed)


def train(model, masks, seed, epochs=EPOCHS, every=10_000):
    """Train in place; what was measured on the way and in the end."""
    return train_and_test(
        model, masks, 0, None, data=data, seed=seed, epochs=epochs, every=every, **lab03.RECIPE
    )


dense_states: dict = {}  # by seed, after the dense training


def one_round(model, masks, start, stop, seed):
    """What a search calls in every round; the first time the network is dense."""
    result = train(model, masks, seed)
    dense_states.setdefault(seed, copy.deepcopy(model.state_dict()))
    return result


searches = [
    find_ticket(
        functools.partial(lenet, seed), functools.partial(one_round, seed=seed), ROUNDS, RATE
    )
    for seed in range(SEEDS)
]
small = searches[0][-1]["remaining"]
watched, mask = {}, searches[0][-1]["masks"]
for name in ("dense", "ticket", "reinit"):
    net = lenet(0)
    if name == "reinit":
        reinitialise(net, mask, 1000)
    watched[name] = train(
        net, dense_masks(net) if name == "dense" else mask, 0, epochs=40, every=10
    )["validation_loss"]
steps = 10 * np.arange(1, len(watched["dense"]) + 1)
lowest = {name: early_stop(losses, 10) for name, losses in watched.items()}
fig = plots.curves(
    steps,
    watched,
    points={name: ([lowest[name]], [min(losses)]) for name, losses in watched.items()},
    xlabel="training step",
    ylabel="validation loss",
    title=f"Digits, one seed; ticket and reinit with {per(small)} of the weights",
    log=True,
    key=("validation loss", "its first minimum"),
)
display(Markdown("## How early does it stop?"))
plots.show(
    fig,
    alt="Validation loss against training steps, log scale, minimum marked: "
    + ", ".join(f"{name} at step {step}" for name, step in lowest.items())
    + f", of {steps[-1]}.",
    inches=(4.9, 4.05),
)
at_the_end = sum(step == steps[-1] for step in lowest.values())
display(
    Markdown(
        "Frankle and Carbin's measure of speed: **the step of the lowest validation loss**. It"
        f" wants a network that overfits. Here {at_the_end} of the {len(lowest)} minima are at the"
        " last step: they say when *we* stopped. So on small data count the **steps to a fixed"
        " accuracy**, and say so before you look."
    )
)

# %% [markdown] slideshow={"slide_type": "notes"}
# Three measures are in use: early-stopping step, steps to a given accuracy, accuracy
# after a given number of steps. They need not agree. A run that never gets to the given
# accuracy counts as the last step at least; leaving it out is kind to the slow arm.

# %% slideshow={"slide_type": "slide"}
display(Markdown("## MNIST, beside the paper: accuracy"))
fig = plots.method_curves(
    left,
    reached,
    control="random mask",
    dense=dense,
    xlabel="weights remaining (%)",
    ylabel="test accuracy (%)",
    paper={"+0.3": (0.135, dense.mean() + 0.3), "as dense": (0.036, dense.mean())},
    title=f"{lab03.MNIST['iterations']:,} iterations, {len(dense)} seeds; stars: the paper",
    xaxis="remaining",
)
plots.show(
    fig,
    alt="MNIST, test accuracy against weights remaining. "
    + " ".join(
        f"{arm}: {v[:, at(0.211)].mean():.2f} at 21 per cent, {v[:, -1].mean():.2f} at"
        f" {per(left[-1])}."
        for arm, v in reached.items()
    ),
    inches=(5.4, 4.05),
)

# %% [markdown]
# Up, level, and only then down: Frankle and Carbin's curve, in shape and order of the
# arms. Their figures (stars) are as reported, with 50,000 iterations and accuracy at
# the early stop.

# %% slideshow={"slide_type": "slide"}
display(Markdown("## MNIST, beside the paper: speed"))
fig = plots.method_curves(
    left,
    {arm: values / stops["ticket"] for arm, values in stops.items() if arm != "ticket"},
    control="random mask",
    paper={"paper: 2.51": (0.211, 2.51)},
    xlabel="weights remaining (%)",
    ylabel="early-stopping step, times the ticket's",
    title="How many times longer do the controls learn?",
    xaxis="remaining",
)
ratio = stops["reinit"] / stops["ticket"]
plots.show(
    fig,
    alt=(
        "Early-stopping step of reinit and random mask divided by the ticket's, on MNIST. At 21 per"
        " cent: "
    )
    + ", ".join(
        f"{arm} {(values / stops['ticket'])[:, at(0.211)].mean():.1f}"
        for arm, values in stops.items()
        if arm != "ticket"
    )
    + "; the paper reports 2.51 for reinit.",
    inches=(4.9, 4.05),
)
late = float((stops["reinit"][:, at(0.1) :] >= 0.97 * lab03.MNIST["iterations"]).mean())
display(
    Markdown(
        f"At 21.1 %: **{pm(ratio[:, at(0.211)], 2)}** times, the paper has 2.51. Ours cannot grow"
        f" much: from {per(left[at(0.1)], 0)} on, {per(late, 0)} of the reinitialised networks stop"
        " within 3 % of the end of training. What is cut off counts as the last step, so the ratio"
        " is a **lower bound**."
    )
)

# %% slideshow={"slide_type": "slide"}
display(Markdown("## What is shown, and what is not"))
table = [
    "| left | ticket − dense | ticket − reinit | reinit − random mask |",
    "|---|---|---|---|",
]
for share in (0.51, 0.211, 0.135, 0.056, 0.036, 0.029):
    i = at(share)
    row = [
        versus(reached[a][:, i], b, digits=2, cell=True)
        for a, b in (
            ("ticket", dense),
            ("ticket", reached["reinit"][:, i]),
            ("reinit", reached["random mask"][:, i]),
        )
    ]
    table.append(f"| {per(left[i])} | " + " | ".join(row) + " |")
display(
    Markdown(
        f"MNIST, points of test accuracy, {len(dense)} seeds in pairs; **bold: shown**, without"
        " 0.\n\n" + "\n".join(table)
    )
)

# %% [markdown]
# The gap to reinit is firm where weights are scarce. "Better than dense" is mostly
# *seen*, not *shown*: of sixteen questions some pass by chance.

# %% [markdown] slideshow={"slide_type": "notes"}
# Three seeds have wide intervals: the t factor is 4.3. Sixteen rounds are sixteen
# questions; at 5 % each, nearly one false "shown" is to be expected in a column where
# nothing is. That neighbouring rounds agree is better evidence than any single cell.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Two minutes: what does this control control?
#
# > "Our method finds a subnetwork with 5 % of the weights that reaches 97.0 %. A random
# subnetwork of the same size, drawn
# > from all weights alike, reaches 88.9 % after the same 20 epochs. Our mask identifies
# the important connections."
#
# **1.** In how many things does this control differ from the ticket?
#
# **2.** Which further arm would tell whether it is the connections?
#
# **3.** What would you vary before you believe the eight points?

# %% [markdown] slideshow={"slide_type": "notes"}
# 1: places within layers, and the shares of the layers (the output layer may have lost
# nearly everything). The figures are made up. 2: the same mask with fresh weights; and
# a random mask with the ticket's own layer shares. 3: the budget, see the next slide;
# then the seeds, and the learning rate for each arm.

# %% slideshow={"slide_type": "slide"}
display(Markdown("## Longer training closes the gap"))
budgets = list(by_budget)
over = {
    arm: np.array([np.array(run[arm]["accuracy"])[:, few] for run in by_budget.values()]).T
    for arm in ARMS
}
dense_over = np.array([np.array(run["ticket"]["accuracy"])[:, 0] for run in by_budget.values()]).T
fig = plots.method_curves(
    budgets,
    {**over, "dense": dense_over},
    control="random mask",
    xlabel="epochs of every training",
    ylabel="test accuracy (%)",
    title=f"Digits, {per(digits_left[few])} of the weights, {len(dense_over)} seeds",
)
fig.axes[0].set_xticks(budgets)
plots.show(
    fig,
    alt=f"Test accuracy at {per(digits_left[few])} of the weights against epochs. "
    + " ".join(
        f"{arm}: {v[:, 0].mean():.1f} with {budgets[0]}, {v[:, -1].mean():.1f} with {budgets[-1]}."
        for arm, v in over.items()
    ),
    inches=(4.9, 4.05),
)
display(
    Markdown(
        f"Ticket against random mask: {versus(over['ticket'][:, 0], over['random mask'][:, 0])}"
        f" with {budgets[0]} epochs, {versus(over['ticket'][:, -1], over['random mask'][:, -1])}"
        f" with {budgets[-1]}. Most of the lead in accuracy was a lead in **time**."
    )
)

# %% [markdown] slideshow={"slide_type": "notes"}
# The whole search was done again for each budget, so tickets of 150 epochs come from
# dense trainings of 150 epochs. The left end of this figure alone is true, and
# misleads. Ask every paper for its budget.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## An objection: rethinking the value of pruning
#
# Liu et al. (2019): train the pruned **architecture** from *fresh* weights, with the
# full schedule, and it is often as good as the fine-tuned one.
#
# | | Frankle & Carbin | Liu et al. |
# |---|---|---|
# | networks | LeNet; CIFAR-10: deep ones | deep ones; ImageNet, too |
# | what goes | single weights | mostly filters, channels |
# | learning rate | small, or with warm-up | large, the usual one |
# | control | equal steps | also: equal *products* |
# | so | mask **and** $w_0$ matter | the architecture matters |
#
# They agree: trained values are not needed. Whether the *first* ones are depends on
# learning rate, budget, and how fine the pattern is.

# %% [markdown] slideshow={"slide_type": "notes"}
# Removing filters leaves an ordinary narrower network: fresh weights suit it as well as
# any. A pattern of single weights is tied to single values. Lab 04 repeats Liu et al.'s
# comparison for filters, and finds "from scratch" level. Our own budget figure is on
# their side, too.

# %% slideshow={"slide_type": "slide"}
ways = {
    "$w_0$ as it was": lambda own, other: own,
    "its signs, all of one size": lambda own, other: own.sign() * own.std(),
    "its signs, another draw's sizes": lambda own, other: own.sign() * other.abs(),
    "its sizes, another draw's signs": lambda own, other: own.abs() * other.sign(),
    "another draw": lambda own, other: other,
}
started: dict = {way: [] for way in ways}
for seed, records in enumerate(searches):
    masks, other = records[-1]["masks"], prunable(lenet(1000 + seed))
    for way, value in ways.items():
        net = lenet(seed)
        rewind(net, copy.deepcopy(net.state_dict()), masks)
        with torch.no_grad():
            for layer, w in prunable(net).items():
                kept = masks[layer]
                w[kept] = value(w[kept], other[layer][kept])
        started[way].append(train(net, masks, seed)["accuracy"])
lines = ["| started from | test accuracy (%) | against $w_0$ |", "|---|---|---|"]
whole = started["$w_0$ as it was"]
lines += [
    f"| {way} | {pm(got)} | {versus(got, whole, cell=True) if got is not whole else ''} |"
    for way, got in started.items()
]
display(
    Markdown(
        f"## Places, signs or sizes?\n\nDigits, {per(small)} of the weights, {SEEDS} seeds; **bold:"
        " shown**, without 0.\n\n" + "\n".join(lines)
    )
)

# %% [markdown]
# Zhou et al. (2019), MNIST: keep the **signs** of the first weights, and their sizes
# hardly matter. A sign is one more bit a weight.

# %% [markdown] slideshow={"slide_type": "notes"}
# One reading: a weight that has to cross zero first loses time, and where few are left
# nobody else can do its part. Biases are those of w_0 in all five rows, so the last row
# is not quite the lab's reinit. Zhou et al. also ask what the mask alone knows before
# any training: students will measure that in the lab; do not give it away.

# %% slideshow={"slide_type": "slide"}
display(Markdown("## Larger networks: go back to $w_k$, not to $w_0$"))
plots.show(pruning_rounds(2, 0.2, rewind_to=5))

# %% [markdown]
# With the usual learning rate VGG and ResNet on CIFAR-10 give **no ticket from $w_0$**.
# Train $k$ steps *once*, rewind to $w_k$, and they do (Frankle et al. 2020).

# %% [markdown] slideshow={"slide_type": "notes"}
# The usual rate is 0.1; with warm-up from small rates they do, too (Frankle & Carbin
# 2019).
#
# Honest wording: a w_k ticket is no longer a ticket of the *initialisation*. It says
# that a sparse network suffices from step k on. Some call it "matching subnetwork". k
# is a small part of the training. Random controls start from the same w_k.

# %% slideshow={"slide_type": "slide"}
LRS, KS = (0.05, 0.2, 0.35), (0, 95)


def barrier(k, lr, seed, epochs=10):
    """Two trainings from one w_k that see the images in different orders: how far the
    error rises between their ends, in points.
    """

    def go(model, order, start, stop):
        fit(
            model,
            data.train,
            epochs=epochs,
            lr=lr,
            optimizer="sgd",
            batch_size=60,
            schedule="cosine",
            seed=order,
            start=start,
            stop=stop,
            progress=False,
        )

    base, ends = lenet(seed), []
    if k:
        go(base, seed, 0, k)
    for order in (100 + seed, 200 + seed):
        model = copy.deepcopy(base)
        go(model, order, k, None)
        ends.append(model.state_dict())
    errors = []
    for a in np.linspace(0, 1, 7).tolist():
        base.load_state_dict(
            {name: (1 - a) * ends[0][name] + a * ends[1][name] for name in ends[0]}
        )
        errors.append(100 - evaluate(base, data.train))
    return max(errors) - (errors[0] + errors[-1]) / 2


rises = {
    f"runs part at step {k}": {
        f"{lr:g}": [barrier(k, lr, seed) for seed in range(SEEDS)] for lr in LRS
    }
    for k in KS
}
display(Markdown("## Why: two runs, one valley or two"))
fig = plots.bars(
    {name: {lr: float(np.mean(v)) for lr, v in by.items()} for name, by in rises.items()},
    errors={name: {lr: (min(v), max(v)) for lr, v in by.items()} for name, by in rises.items()},
    ylabel="",
    title=f"Rise of training error (points) on the way; mean and range of {SEEDS} seeds",
    fmt="{:.1f}",
)
fig.axes[0].set_xlabel("learning rate")
plots.show(
    fig,
    alt=(
        "Highest rise of the training error on the straight line between two results, mean of three"
        " seeds. "
    )
    + " ".join(
        f"{name}: " + ", ".join(f"rate {lr} {np.mean(v):.1f}" for lr, v in by.items()) + "."
        for name, by in rises.items()
    ),
    inches=(5.2, 4.05),
)

# %% [markdown]
# Train twice from one $w_k$, with the images in another order, and walk straight from
# one result to the other. A ridge between them: two valleys, and a mask made for one of
# them is of little use in the other. Small rate, or late parting: one valley.

# %% [markdown] slideshow={"slide_type": "notes"}
# Frankle et al. (2020) call it linear mode connectivity, and find that tickets exist
# just where runs end in one valley. LeNet on MNIST is stable from the start; so is ours
# on the digits with small rates. Digits, LeNet, SGD with momentum, cosine, 10 epochs.
# We have *not* seen the search itself fail on a net this small, with any of these
# rates: the figure shows the mechanism, not the failure.

# %% slideshow={"slide_type": "slide"}
display(Markdown("## Conventional: prune, and train on"))
plots.show(pruning_rounds(3, 0.2, rewind=False))

# %% [markdown]
# As in lab 01: train, prune, *train on*. The result may be as good a network. But it
# says nothing about the beginning: these values have been through every round.

# %% slideshow={"slide_type": "slide"}
final = {
    layer: 1 - (1 - rate) ** ROUNDS for layer, rate in (("hidden", RATE), ("output", RATE / 2))
}
got: dict = {
    name: []
    for name in (
        "rewound, in rounds",
        "kept, in rounds",
        "rewound, at once",
        "kept, at once",
        "kept, at once, long",
    )
}
chance = []
for seed, records in enumerate(searches):
    got["rewound, in rounds"].append(records[-1]["result"]["accuracy"])
    net = lenet(seed)
    w_0, masks, trained, result = (
        copy.deepcopy(net.state_dict()),
        dense_masks(net),
        dense_states[seed],
        {},
    )
    rewind(net, trained, masks)
    at_once = shrink(prunable(net), masks, final["hidden"], final["output"])
    for _ in range(ROUNDS):
        masks = shrink(prunable(net), masks, RATE)
        result = train(net, masks, seed)
    got["kept, in rounds"].append(result["accuracy"])
    for name, state, times in (
        ("rewound, at once", w_0, 1),
        ("kept, at once", trained, 1),
        ("kept, at once, long", trained, ROUNDS),
    ):
        rewind(net, state, at_once)
        got[name].append(train(net, at_once, seed, epochs=times * EPOCHS)["accuracy"])
    elsewhere = random_ticket(records[-1]["masks"], torch.Generator().manual_seed(seed))
    rewind(net, w_0, elsewhere)
    chance.append(train(net, elsewhere, seed)["accuracy"])
trainings = {"in rounds": ROUNDS + 1, "at once": 2, "at once, long": ROUNDS + 1}
lines = ["| pruned | rewound to $w_0$ | trained values kept | trainings |", "|---|---|---|---|"]
lines += [
    f"| {how} | {pm(got[f'rewound, {how}']) if f'rewound, {how}' in got else '–'} |"
    f" {pm(got[f'kept, {how}'])} | {count} |"
    for how, count in trainings.items()
]
display(
    Markdown(
        f"## Rewound or kept, in rounds or at once?\n\nDigits, all with {per(small)} of the"
        f" weights, {EPOCHS} epochs a training, test accuracy (%), {SEEDS} seeds; a random mask"
        f" from $w_0$ has {pm(chance)}.\n\n" + "\n".join(lines)
    )
)
pairs = {
    "Rewound at once against the random mask": (got["rewound, at once"], chance),
    "Rewound against kept, in rounds": (got["rewound, in rounds"], got["kept, in rounds"]),
    "In rounds against at once, rewound": (got["rewound, in rounds"], got["rewound, at once"]),
    "In rounds against at once and long, kept": (
        got["kept, in rounds"],
        got["kept, at once, long"],
    ),
    "At once, long against short": (got["kept, at once, long"], got["kept, at once"]),
}
verdicts = {
    what: versus(*pair).replace(": the interval contains 0", "") for what, pair in pairs.items()
}

# %% [markdown]
# *Long*: after one cut, as many steps as all rounds together.

# %% slideshow={"slide_type": "slide"}
display(Markdown("## Compare at equal training, or you compare budgets"))
display(Markdown("\n".join(f"- {what}: **{verdict}**" for what, verdict in verdicts.items())))

# %% [markdown] slideshow={"slide_type": "notes"}
# Rewinding makes it a ticket; whether it makes a better network is another question.
#
# One cut chooses all weights by one training; a weight that is small beside others may
# be needed when they are gone. That is why rounds are usually said to be best. The last
# row is the fair one for "at once": it spends on the small network what the rounds
# spend on the larger ones. An interval of ± 0.0 would be three equal differences among
# 400 images: a coincidence, no certainty. The learning rate is constant in all cells;
# with a schedule, "kept" depends on whether the rate goes back up.

# %% slideshow={"slide_type": "slide"}
display(
    Markdown(
        f"## Two minutes: the price\n\n{len(left)} trainings (dense, and {len(left) - 1} rounds at"
        f" 20 %) found a ticket with {per(left[-1])} of the weights."
    )
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
display(
    Markdown(
        f"1: the geometric series is at most 1/0.2 = 5; counted, {left.sum():.1f}. 2: {len(left)}."
        f" 3: each use saves 1 − {left[-1]:.3f} of a dense training on perfect hardware, so"
        f" {math.ceil((left.sum() - 1) / (1 - left[-1]))} more uses on top of the dense one that"
        " was wanted anyway; on yours it saves nothing in training, only storage."
    )
)

# %% slideshow={"slide_type": "slide"}
display(Markdown("## What a ticket costs, and who pays"))
steps_each = lab03.MNIST["iterations"]
products = 3 * n * 60 * steps_each  # forward, and backward for inputs and weights
lines = ["| MNIST, LeNet-300-100 | steps | products | zeros skipped |", "|---|---|---|---|"]
trained_with: dict = {
    "dense": [1.0],
    f"ticket of {per(left[at(0.036)])}, and its search": left[: at(0.036) + 1],
    f"dense, one cut, {per(left[at(0.036)])} trained again": [1.0, left[at(0.036)]],
    f"random mask of {per(left[at(0.036)])}": [left[at(0.036)]],
}
for what, parts in trained_with.items():
    lines.append(
        f"| {what} | {steps_each * len(parts):,} | {products * len(parts) / 1e12:.2f} × 10¹² |"
        f" {products * np.sum(parts) / 1e12:.2f} × 10¹² |"
    )
display(Markdown("\n".join(lines)))

# %% [markdown] slideshow={"slide_type": "slide"}
# ## What a ticket is worth
#
# As a way to *save training* it has spent the training already. It is worth its price
#
# - if the ticket is **used again**: other data, other optimizers, other tasks of one
#   kind;
# - as an **upper mark** for cheaper ways: pruning at initialisation, early-bird
#   tickets, sparse training;
# - as **knowledge**: so many weights are needed to *find* the solution, so few to hold
#   it.

# %% [markdown] slideshow={"slide_type": "notes"}
# Products: three times the forward pass, as is usual. With zeros skipped by ideal
# hardware. Cheaper searches are named, not taught here.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Pruning for training: sparse from the first step
#
# No dense training at all: a random mask, and every $\Delta T$ steps some connections
# **move**. Their number stays.
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
# The largest $\lvert g\rvert$ promises most; of the *dense* gradient: a masked one is 0
# there.

# %% [markdown] slideshow={"slide_type": "notes"}
# Dropped where small, since a weight that is zero anyway is missed least. What grows
# starts at 0, so that the network's output does not jump. Whether moving pays depends
# on how bad the first places were: an experiment of the lab.

# %% slideshow={"slide_type": "slide"}
every, share = 100, 0.2
mean_cost = (3 * share * every + 2 * share + 1) / (3 * (every + 1))
density = erdos_renyi_densities(LENET, 0.2)
display(
    Markdown(
        "## What sparse training costs\n\nForward pass: dense $f_D$, sparse $f_S$. A step is three"
        " of them; an exchange needs the dense gradient of the weights once:\n\n$$\\frac{3"
        " f_S\\,\\Delta T + 2 f_S + f_D}{3 f_D\\,(\\Delta T+1)}$$\n\nWith a fifth of all"
        f" products and $\\Delta T$ = {every}: **{mean_cost:.3f}** of a dense training. The dense"
        f" gradients are {per(mean_cost / share - 1)} on top."
    )
)

# %% slideshow={"slide_type": "slide"}
display(
    Markdown(
        "## What sparse training reaches\n\n| RigL, ResNet-50 on ImageNet, dense 76.8 % | the same"
        " steps | five times the steps |\n|---|---|---|\n| 80 % pruned | 75.1 | **77.2** |\n| 90 %"
        " pruned | 73.1 | 76.4 |\n\nEvci et al. 2020, Erdős–Rényi-kernel. The 77.2 cost **2.09"
        f" times** the dense training: at 80 % a step costs 2.09 / 5 = {2.09 / 5:.2f}, not {share}."
        " The sharing keeps small layers dense (LeNet: "
        + ", ".join(f"{layer} {100 * d:.0f} %" for layer, d in density.items())
        + "), and in a convolutional net few weights may do many products."
    )
)

# %% [markdown] slideshow={"slide_type": "notes"}
# Two bills again (lab 00): 80 % fewer weights are not 80 % fewer products when the
# early layers are kept dense. Beware of comparing 77.2 with 76.8: sparse is better than
# dense *with five times the steps and twice the products*. Lab 03 compares static, SET
# and RigL at equal steps, with two ways of sharing out.

# %% slideshow={"slide_type": "slide"}
display(
    Markdown(
        "## Honest limits\n\n"
        f"- **Small data.** {len(data.test.labels)} test images of digits: one is"
        f" {100 / len(data.test.labels):.2f} points. "
        "A few tenths are a picture or two.\n"
        f'- **Few seeds.** {len(dense)} on MNIST, {len(dense_over)} on the digits. "Not shown" is'
        ' not "shown to be nothing".\n'
        "- **Tested round by round.** Masks and steps are chosen on training and validation images;"
        " but all rounds are *reported* on "
        "the test images, and picking the best of them afterwards would be choosing on them.\n"
        f"- **One budget at a time.** {lab03.MNIST['iterations']:,} iterations are not 50,000. What"
        " more would do to our curves, dense ones too, is not measured.\n"
        "- **One kind of network.** Two hidden layers. On larger ones the search from $w_0$ is"
        " reported to fail with the usual learning rate.\n"
        "- **No faster.** Zeros at any places save bits; on most machines no time (lab 00)."
    )
)

# %% [markdown] slideshow={"slide_type": "slide"}
# ## What to take along
#
# - **A ticket is a mask and the first weights under it.** Each control takes one of
#   them away.
# - **A share of the survivors each round**: $(1-r)^t$, layer by layer; each round costs
#   a training. Compare at equal steps.
# - **Rewind everything**: weights, buffers, optimizer. In larger networks to $w_k$.
# - **Faster and better are two claims.** The second fades with a longer training: ask
#   for the budget.
# - **Signs carry much of $w_0$; architecture carries much of the mask.** How much
#   depends on learning rate and budget.
# - **The search costs more than it saves.** Sparse training pays no dense training, and
#   needs more steps.

# %% [markdown] slideshow={"slide_type": "slide"}
# ## Lab 03, and where to read on
#
# *Lab 03*: the search, both controls, what a ticket knows before its first step, RigL.
#
# - Frankle & Carbin (2019). The lottery ticket hypothesis. *ICLR*.
# - Frankle, Dziugaite, Roy & Carbin (2020). Linear mode connectivity and the lottery
#   ticket hypothesis. *ICML*.
# - Liu, Sun, Zhou, Huang & Darrell (2019). Rethinking the value of network pruning.
#   *ICLR*.
# - Zhou, Lan, Liu & Yosinski (2019). Deconstructing lottery tickets. *NeurIPS*.
# - Mocanu et al. (2018). Scalable training … with adaptive sparse connectivity. *Nature
#   Comm.* 9.
# - Evci, Gale, Menick, Castro & Elsen (2020). Rigging the lottery. *ICML*.
