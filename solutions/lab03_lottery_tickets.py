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
# # Lab 03 · Lottery tickets, and pruning during training
#
# **A trained network can spare nine weights out of ten. So why train all ten? Was a
# small network hidden in the large one from the beginning, and could you have trained
# that one alone?**
#
# Frankle and Carbin (2019) answered with a hypothesis: *a randomly initialised, dense
# network contains a subnetwork that, trained in isolation, matches the accuracy of the
# whole after at most as many steps.* They called it a **winning ticket**, because its
# initial weights have won the lottery. You will look for tickets, and then do what the
# lottery's customers seldom do: compare with those who did not win.
#
# | part | you write | you find out |
# |---|---|---|
# | A · The search | 3.1 shrink, 3.2 rewind, 3.3 find a ticket | a tenth of a network that learns as well as all of it |
# | B · Is it a ticket? | 3.4 two controls, 3.5 early stopping | what wins: the places, the first weights, or both? |
# | C · Sparse from the first step | 3.6 drop and grow | can a sparse network find its places while it trains? |
# | D · What was it worth? | 3.7 two short answers, 3.8 a bug hunt | bits, products, and the price of the search |
#
# 20 points; two to three hours. After each exercise `check("3.1")` tells you at once
# what is right. If you are stuck, write `skip("3.1")` in a cell: that question scores 0
# and the rest of the lab goes on with the course's version.
#
# The three rules of the course hold here more than anywhere: **guess first**; **choose
# on validation data**, the test data are for the end; **no claim without a random
# control and three seeds**.

# %%
from course_lib.grading import check, choose, skip  # noqa: F401  (skip is yours to use)

# isort: split
import copy
import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import torch
from IPython.display import display
from matplotlib.figure import Figure
from torch import Tensor, nn
from torch.nn import functional as F

from course_lib import experiments, ledger, paths
from course_lib.cost import encodings, latency, model_cost, totals
from course_lib.data.images import load
from course_lib.experiments import lab03
from course_lib.models import build
from course_lib.parallel import processes
from course_lib.pruning.weights import prunable
from course_lib.show import plots, widgets
from course_lib.show.words import ends, pm, say, versus, you_wrote
from course_lib.training import evaluate, fit, train_and_test

STUDENT = ""  # your name or number: your letters are yours alone

# %% [markdown]
# ## Settings
#
# The default data are scikit-learn's handwritten digits: 1,797 *real* 8×8 images. The
# network is the one of the paper, LeNet-300-100: two hidden layers of 300 and 100
# units. So are the optimizer (Adam, learning rate 1.2e-3), the batches of 60, and the
# pruning: a fifth of the weights a round, a tenth in the output layer.
#
# Change one word for MNIST. The paper trains for 50,000 iterations there. We stop at
# **8,000**, so that 16 rounds of three arms with three seeds (147 trainings) take half
# an hour on two cores rather than three; what is done is on disk at once, and an
# interrupted run goes on where it was.

# %%
DATA = "digits"  # or "mnist"

SEEDS = 3
SETTINGS = {"digits": {"rounds": 13, "epochs": 30, "every": 4}, "mnist": lab03.MNIST}[DATA]
EVERY = SETTINGS["every"]  # steps between two looks at the validation images
# what is found is kept here
FOLDER = None if DATA == "digits" else paths.cache_dir() / f"lab03_{DATA}"
plots.use_style()
# a small network trains fastest on one core; two trainings then run side by side
torch.set_num_threads(1)

data = load(DATA)
PER_EPOCH = math.ceil(len(data.train.labels) / 60)  # steps
LAST = SETTINGS.get("iterations", SETTINGS["epochs"] * PER_EPOCH)  # the last step of every training


say(
    f"**{data.name}**: {len(data.train.labels)} training, {len(data.validation.labels)} validation"
    f" and {len(data.test.labels)} test images of shape {tuple(data.shape)}; {PER_EPOCH} steps an"
    f" epoch, {LAST} steps a training. One test image is {100 / len(data.test.labels):.2f} points"
    " of accuracy."
)

# %% [markdown]
# ## Part A · The search
#
# The lecture's recipe, *iterative magnitude pruning*:
#
# 1. Start from random weights $w_0$. Train.
# 2. Prune $p$ % of the weights that are left, the smallest $|w|$ first.
# 3. Put those that stay back to their values in $w_0$: **rewind**. Train again. Repeat
#    from 2.
#
# Look at what is strange here. Pruning chooses by the *trained* values, and then throws
# the trained values away. What remains of all the training is one bit for each weight:
# may it exist?

# %% [markdown]
# ### 3.1 A share of those that are left
# **12 minutes · 3 points**
#
# Each round takes a share $r$ of the *survivors*, in each layer for itself. So layer
# $l$ with $n_l$ weights keeps, up to rounding,
#
# $$n_l\,(1 - r_l)^t \quad\text{after } t \text{ rounds.}$$
#
# Frankle and Carbin prune the output layer at half the rate: it is small, and all that
# the network knows has to pass through it.
#
# Write it yourself: not `torch.nn.utils.prune`, and nothing of `course_lib.pruning`.
#
# *Before you write anything:* our network has 64·300 + 300·100 + 100·10 weights (on the
# digits). What percentage is left after 13 rounds with $r$ = 20 %?

# %%
### BEGIN SOLUTION
prediction_3_1 = 6  # 0.8 to the power of 13 is 0.055, and the output layer keeps more
### END SOLUTION


# %%
def shrink(
    weights: dict[str, Tensor],
    masks: dict[str, Tensor],
    rate: float,
    output_rate: float | None = None,
) -> dict[str, Tensor]:
    """Prune a share of the weights that are still alive, layer by layer.

    Args:
        weights: name -> trained weight, any shapes. Not changed. Pruned weights may
            hold any value here, also NaN.
        masks: name -> bool mask of the same shape, True = alive, with the same keys.
            Not changed.
        rate: the share of each layer's survivors to prune, in [0, 1].
        output_rate: the share for the last key, the output layer. None: half of
            ``rate``.

    Returns:
        New bool masks with the same keys, in the same order. In a layer with n
        survivors ``round(rate * n)`` more are
        pruned: those with the smallest |w| among the survivors; among equal |w| the
        first in row-major order goes first. What was pruned stays pruned.

    Raises:
        ValueError: if ``rate`` or ``output_rate`` is outside [0, 1].
    """
    if not 0 <= rate <= 1 or not (output_rate is None or 0 <= output_rate <= 1):
        raise ValueError(
            f"a rate is a share of the survivors, between 0 and 1, got {rate} and {output_rate}"
        )
    ### BEGIN SOLUTION
    if output_rate is None:
        output_rate = rate / 2
    *_, output = weights
    smaller = {}
    for name, w in weights.items():
        alive = masks[name]
        size = w.detach()[alive].abs()  # (survivors,), in row-major order; the dead do not compete
        goes = round((output_rate if name == output else rate) * len(size))
        stays = torch.ones_like(size, dtype=torch.bool)
        stays[size.argsort(stable=True)[:goes]] = False  # stable: among equals the first goes first
        smaller[name] = alive.clone()
        smaller[name][alive] = stays
    return smaller
    ### END SOLUTION


# %%
check("3.1")

# %% [markdown]
# <details><summary>Hint 1: who competes?</summary>Only the survivors: what a dead
# weight holds never comes into it. How do you get a 1-D list of the survivors alone?
# Lab 01's 1.1 has ranked such a list already.</details>
# <details><summary>Hint 2: back to the layer</summary>What a bool tensor has picked out
# it can also put back: indexing with it may stand on the left of
# <code>=</code>.</details>
# <details><summary>Hint 3: which layer is the last?</summary>A dict keeps its order:
# <code>list(weights)[-1]</code>. And <code>output_rate=0</code> is a rate, not a
# missing one: ask <code>is None</code>.</details>

# %%
example = {name: w.detach() for name, w in prunable(build("lenet300", data, seed=0)).items()}
alive = {name: torch.ones_like(w, dtype=torch.bool) for name, w in example.items()}
total = sum(w.numel() for w in example.values())
left = [1.0]
for _ in range(13):
    alive = shrink(example, alive, 0.2)
    left.append(sum(int(mask.sum()) for mask in alive.values()) / total)
for name, mask in alive.items():
    print(
        f"{name:11s} {mask.numel():7,d} weights, {int(mask.sum()):6,d} left"
        f" ({100 * mask.float().mean():.1f} %)"
    )
say(
    f"After 13 rounds **{100 * left[-1]:.1f} %** are left ($0.8^{{13}}$ is {100 * 0.8**13:.1f} %). "
    f"{you_wrote(prediction_3_1)}"
)

# %% [markdown]
# ### 3.2 Back to the beginning
# **8 minutes · 3 points**
#
# *Everything* goes back: weights, biases, and **buffers** as well (batch norm's running
# mean and variance are no parameters, but they have been trained, too; lab 01 showed
# what stale ones do). Only what is pruned does not go back to its old value but to
# zero.
#
# Two ways to do it wrong can cost you a week, because nothing crashes:
#
# - `state = model.state_dict()` is not a copy. It refers to the very tensors that are
#   trained next.
# - A model that gets *new* tensors (`load_state_dict(…, assign=True)`, or
#   `p.data = state[name]`) then trains the saved state itself, and the next round
#   "rewinds" to trained weights.
#
# Write it yourself: not `torch.nn.utils.prune`, and nothing of `course_lib.pruning`.
#
# *Before you write anything:* suppose you had made the second mistake. Would the
# tickets of the later rounds look better or worse than they are?

# %%
### BEGIN SOLUTION
prediction_3_2 = "better: they would start from trained weights"
### END SOLUTION


# %%
def rewind(model: nn.Module, state: dict[str, Tensor], masks: dict[str, Tensor]) -> None:
    """Put a trained model back to an earlier state, in place, with the pruned weights
    at zero.

    Args:
        model: its parameters and buffers take the values of ``state``; they stay the
            same tensors.
        state: name -> value for all parameters and buffers:
            ``copy.deepcopy(model.state_dict())`` of an earlier step. It is copied from:
            whatever happens to the model afterwards, ``state`` keeps its values.
        masks: parameter name -> bool mask, True = kept. Where it is False the parameter
            is 0 afterwards. Parameters without a mask take all values of ``state``.
    """
    ### BEGIN SOLUTION
    model.load_state_dict(state)  # copies parameters and buffers into the tensors that are there
    with torch.no_grad():
        for name, p in model.named_parameters():
            if name in masks:
                p.masked_fill_(~masks[name], 0)
    ### END SOLUTION


# %%
check("3.2")

# %% [markdown]
# <details><summary>Hint 1: is there a method for it?</summary>Modules can load what
# <code>state_dict</code> gives. Does the method copy? Its documentation says so, in the
# line on <code>assign</code>.</details>
# <details><summary>Hint 2: then the zeros</summary>Parameters are changed in place,
# under <code>torch.no_grad()</code>; methods that do so end in
# <code>_</code>.</details>

# %%
model = build("lenet300", data, seed=0)
w_0 = copy.deepcopy(model.state_dict())
fit(model, data.train, epochs=2, lr=1.2e-3, optimizer="adam", batch_size=60, progress=False)
moved = (model.fc2.weight - w_0["fc2.weight"]).abs().mean().item()
rewind(model, w_0, alive)
kept = alive["fc2.weight"]
back = torch.equal(model.fc2.weight[kept], w_0["fc2.weight"][kept])
say(
    f"Two epochs had moved the weights of `fc2` by {moved:.4f} on average. Now those that stay are"
    f" back at $w_0$, bit for bit: **{back}**; and {int((model.fc2.weight == 0).sum()):,} of"
    f" {kept.numel():,} are zero.\n\nWith the second mistake, tickets would look *better* than they"
    " are: each round would start from trained weights and add its training to that of all rounds"
    f" before. {you_wrote(prediction_3_2)}"
)

# %% [markdown]
# ### 3.3 The search
# **25 minutes · 5 points · needs 3.1, 3.2**
#
# Now the whole of it. The training itself is given to you as a function
# `train(model, masks, start, stop)`, which trains from step `start` to step `stop` and
# **makes its own optimizer**. That is not a detail: Adam's moments from the last round
# know where the weights went then, and would push the rewound ones the same way.
#
# One parameter is new, `rewind_step` = $k$. "Later work has shown that rewind to $w_i$
# ($i$ is small) works better for larger networks," says the lecture. For ResNets and
# learning rates that are not tiny, no ticket is found at $w_0$, but one is found at
# $w_k$, after a few hundred steps of dense training (Frankle et al. 2020). So: train
# the dense network for $k$ steps, *once*; keep $w_k$; from then on $w_k$ plays the part
# of $w_0$, and every round trains from step $k$ to the end.
#
# Write it yourself: not `torch.nn.utils.prune`, and nothing of `course_lib.pruning`.
#
# *Before you write anything:* you search with your function for three rounds, which
# leaves about half of the weights. Will the ticket's test accuracy be `"higher"`,
# `"lower"` or the `"same"` (within half a point) as the dense network's?

# %%
### BEGIN SOLUTION
prediction_3_3 = "same"
### END SOLUTION


# %%
def find_ticket(
    build: Callable[[], nn.Module],
    train: Callable[[nn.Module, dict[str, Tensor], int, int | None], object],
    rounds: int,
    rate: float,
    rewind_step: int = 0,
) -> list[dict]:
    """Iterative magnitude pruning with rewinding to step k = ``rewind_step``.

    Args:
        build: ``build()`` makes the untrained model.
        train: ``train(model, masks, start, stop)`` trains the model in place from step
            ``start`` to step ``stop`` (None: to the end), makes its own optimizer,
            keeps pruned weights at zero and returns a result. It is called once as
            ``train(model, masks, 0, k)`` with the dense masks, only if k > 0; and once
            in every round as ``train(model, masks, k, None)``.
        rounds: how often to prune.
        rate: the share of the survivors that goes in each round; half of it in the
            output layer, which is the last parameter with two or more dimensions.
        rewind_step: k, the step whose weights w_k every round starts from. 0: the
            initial weights.

    Returns:
        ``rounds + 1`` records, dicts with the keys ``"round"`` (0, 1, …; 0 is the dense
        network), ``"masks"`` (bool masks for all parameters with two or more
        dimensions, those that were trained with in this round; all True in round 0),
        ``"remaining"`` (the fraction of all these weights that is kept, a float) and
        ``"result"`` (what ``train`` returned).
    """
    ### BEGIN SOLUTION
    model = build()
    weights = {name: p for name, p in model.named_parameters() if p.ndim >= 2}
    masks = {name: torch.ones_like(p, dtype=torch.bool) for name, p in weights.items()}
    if rewind_step > 0:
        train(model, masks, 0, rewind_step)
    w_k = copy.deepcopy(model.state_dict())  # a copy: state_dict() itself would be trained along
    records = []
    for number in range(rounds + 1):
        if number:
            masks = shrink(weights, masks, rate)  # by the values that the last round has trained
            rewind(model, w_k, masks)
        result = train(model, masks, rewind_step, None)
        kept = sum(int(mask.sum()) for mask in masks.values())
        total = sum(mask.numel() for mask in masks.values())
        records.append(
            {"round": number, "masks": masks, "remaining": kept / total, "result": result}
        )
    return records
    ### END SOLUTION


# %%
check("3.3")

# %% [markdown]
# <details><summary>Hint 1: write the recipe as comments first</summary>Before the loop:
# build, masks of all True, perhaps <code>train(model, masks, 0, k)</code>, keep a copy
# of the state. In the loop: (not in round 0) shrink and rewind; train; append a
# record.</details>
# <details><summary>Hint 2: in which order?</summary><code>shrink</code> needs the
# trained values of the last round. So it has to come before <code>rewind</code>, which
# destroys them.</details>
# <details><summary>Hint 3: a
# copy</summary><code>copy.deepcopy(model.state_dict())</code>: see 3.2.</details>
# <details><summary>Hint 4: remaining</summary>The number of True in all masks over the
# number of entries in all masks. It is not the mean over layers: they differ in
# size.</details>

# %%
recipe = lab03.RECIPE | {k: v for k, v in SETTINGS.items() if k != "rounds"}
mine = find_ticket(
    lambda: build("lenet300", data, seed=0),
    partial(train_and_test, data=data, seed=0, **recipe),
    rounds=3,
    rate=0.2,
)
lines = ["| round | weights left | test accuracy (%) |", "|---|---|---|"]
lines += [
    f"| {r['round']} | {100 * r['remaining']:.1f} % | {r['result']['accuracy']:.2f} |" for r in mine
]
say("\n".join(lines))
change = mine[3]["result"]["accuracy"] - mine[0]["result"]["accuracy"]
say(
    f"Half of the weights, trained from $w_0$: {change:+.2f} points against dense."
    f" {you_wrote(prediction_3_3)}"
)

# %% [markdown]
# ## Part B · Is it a ticket?
#
# That a network with half of its weights learns as well as the whole one proves little:
# perhaps *any* half would do. A ticket is two things, a mask and the initial weights
# under it. So there are two controls, and each changes one of them.
#
# | | mask | initial weights |
# |---|---|---|
# | **ticket** | found by the search | $w_0$ |
# | **reinit** | found by the search | drawn afresh |
# | **random mask** | as many in each layer, anywhere | $w_0$ |

# %% [markdown]
# ### 3.4 Two controls
# **12 minutes · 3 points**
#
# A control is worth something only if it differs in *one* thing.
#
# - `random_ticket` must keep the number of weights **in each layer**. The search leaves
#   more in the output layer than elsewhere; a control that shuffled all layers together
#   would also change the shape of the network.
# - `reinitialise` must draw from **the distributions of the layers**. `torch.randn` for
#   all of them would be another network: PyTorch draws the weights of a linear layer
#   between $\pm 1/\sqrt{d_{in}}$. Every layer can do it itself: `reset_parameters()`.
# - Neither may touch the caller's random numbers: a control that moves the global
#   generator changes what happens *after* it, the order of the images, say, and then
#   two things differ.
#
# No test can tell you about one trap: **with the seed from which $w_0$ was drawn,
# `reinitialise` gives $w_0$ again**, and your "control" is the ticket itself. Take
# another seed.
#
# Write it yourself: not `torch.nn.utils.prune`, and nothing of `course_lib.pruning`.
#
# *Before you write anything:* at 10 % of the weights, put the three arms in order of
# their test accuracy.

# %%
### BEGIN SOLUTION
prediction_3_4 = ["ticket", "reinit", "random mask"]
### END SOLUTION


# %%
def random_ticket(masks: dict[str, Tensor], generator: torch.Generator) -> dict[str, Tensor]:
    """As many survivors in each layer as in ``masks``, but anywhere.

    Args:
        masks: name -> bool mask, True = kept. Not changed.
        generator: the only source of randomness:
            ``torch.randperm(n, generator=generator)``, for example.

    Returns:
        New bool masks with the same keys, shapes and number of True in each; which
        positions of a layer are True is random, each choice as likely as any other.
    """
    ### BEGIN SOLUTION
    elsewhere = {}
    for name, mask in masks.items():
        order = torch.randperm(mask.numel(), generator=generator)
        # the same Trues and Falses, shuffled within the layer
        elsewhere[name] = mask.flatten()[order].view(mask.shape)
    return elsewhere
    ### END SOLUTION


def reinitialise(model: nn.Module, masks: dict[str, Tensor], seed: int) -> None:
    """The same mask, but fresh initial weights, in place.

    ``torch.manual_seed(seed)`` once; then ``reset_parameters()`` of every module that
    has it, in the order of ``model.modules()``; then the masks. The state of torch's
    random generator is afterwards what it was before.

    Args:
        model: its parameters stay the same tensors.
        masks: parameter name -> bool mask, True = kept. Where it is False the parameter
            is 0 afterwards.
        seed: decides the fresh weights.
    """
    ### BEGIN SOLUTION
    with torch.random.fork_rng():  # puts the generator's state back at the end of the block
        torch.manual_seed(seed)
        for module in model.modules():
            if hasattr(module, "reset_parameters"):
                module.reset_parameters()
    with torch.no_grad():
        for name, p in model.named_parameters():
            if name in masks:
                p.masked_fill_(~masks[name], 0)
    ### END SOLUTION


# %%
check("3.4")

# %% [markdown]
# <details><summary>Hint 1: as many, elsewhere</summary>Shuffle the mask of each layer:
# all its True and False are still there, in another order. <code>torch.randperm</code>
# takes a <code>generator</code>.</details>
# <details><summary>Hint 2: leave no trace</summary><code>with
# torch.random.fork_rng():</code> puts the generator's state back at the end of the
# block. Seed inside it.</details>
# <details><summary>Hint 3: which modules?</summary><code>for module in
# model.modules()</code>: ask
# <code>hasattr(module, "reset_parameters")</code>. Seed once before the loop, not in
# it, or layers of one shape would become twins.</details>

# %%
model, masks = build("lenet300", data, seed=0), mine[3]["masks"]
reinitialise(model, masks, seed=0)
same_seed = torch.equal(model.fc1.weight, w_0["fc1.weight"] * masks["fc1.weight"])
reinitialise(model, masks, seed=1)
other_seed = torch.equal(model.fc1.weight, w_0["fc1.weight"] * masks["fc1.weight"])
overlap = (
    random_ticket(masks, torch.Generator().manual_seed(0))["fc1.weight"][masks["fc1.weight"]]
    .float()
    .mean()
)
say(
    "The network was built from seed 0. Reinitialised with seed 0, is it the ticket again?"
    f" **{same_seed}.** With seed 1? **{other_seed}.**\n\nA random mask shares {100 * overlap:.0f}"
    " % of its places in `fc1` with the ticket, whose density there is"
    f" {100 * masks['fc1.weight'].float().mean():.0f} %: what chance gives."
)

# %% [markdown]
# ### 3.5 How early does it stop?
# **6 minutes · 1 point**
#
# The hypothesis speaks of accuracy *and* of speed: "after training for at most the same
# number of iterations". Frankle and Carbin measure speed by the step at which the
# **validation loss** is lowest. After it the network only overfits; a network that gets
# there earlier has learnt faster.
#
# It is the *first* minimum, as it was measured. Smoothing the curve beforehand would
# move the minimum by as much as the window is wide, and by different amounts for steep
# and flat curves.
#
# Write it yourself: nothing of `course_lib.pruning`.


# %%
def early_stop(losses: list[float], every: int = 1) -> int:
    """The training step at which the validation loss was lowest; the first one, if it
    was reached several times.

    Args:
        losses: the validation loss after ``every``, 2 ``every``, 3 ``every``, … steps.
            NaN is passed over.
        every: training steps between two measurements.

    Returns:
        ``every * (1 + index of the first minimum)``.

    Raises:
        ValueError: if there is no loss, or all of them are NaN.
    """
    if all(math.isnan(loss) for loss in losses):
        raise ValueError(
            f"there is no minimum among {len(losses)} losses: none of them is a number"
        )
    ### BEGIN SOLUTION
    usable = [i for i, loss in enumerate(losses) if not math.isnan(loss)]
    return every * (1 + min(usable, key=lambda i: losses[i]))  # min returns the first of equals
    ### END SOLUTION


# %%
check("3.5")

# %% [markdown]
# <details><summary>Hint 1: counting</summary>The first loss was measured after
# <code>every</code> steps, not after 0: so one is added to its index.</details>
# <details><summary>Hint 2: NaN</summary>Every comparison with NaN is False, so
# <code>min(losses)</code> depends on where the NaN stands. Leave them out first, but
# remember the index that each loss had.</details>

# %% [markdown]
# #### Experiment: ticket, reinit, random
#
# Now the experiment of the paper: all rounds, three arms, three seeds. `lab03.search`
# is the search that you have written, with both controls trained in every round (from
# the library, since functions that are sent to other processes must be importable; open
# `course_lib/experiments/lab03.py`, it is short). For each seed all arms have the same
# $w_0$ or mask, and see the images in the same order, so they can be compared **in
# pairs**.
#
# Speed needs one remark. With so few digits to validate on, and a network that hardly
# overfits them, the validation loss mostly keeps falling until training ends: its
# minimum is where we stopped, not where the network did. So on the digits we count
# **steps to 95 % validation accuracy**; the early-stopping step is for MNIST, below.
# (Accuracy, the early-stopping step or steps to 95 %: which of the three you look at is
# a choice, too. Make it before you have seen which one is kindest to the ticket.)
#
# *Before you run it* (it takes the better part of a minute): the dense network needs
# some 140 steps to 95 %. At 21.5 % of the weights, how many will the ticket need, and
# how many the reinitialised network?

# %%
### BEGIN SOLUTION
prediction_3_5 = "ticket 100, reinit 150"
### END SOLUTION

# %%
pool = processes()  # one for each core; part C uses them, too
found = lab03.search(DATA, range(SEEDS), folder=FOLDER, executor=pool, progress=True, **SETTINGS)
measured = lab03.measured(found, EVERY)
remaining = measured["remaining"]  # of each round
ARMS = lab03.ARMS
# (seeds, rounds + 1), test, after training
accuracy = {arm: np.array(measured[arm]["accuracy"]) for arm in ARMS}
dense_accuracy = accuracy["ticket"][:, 0]


def round_with(fraction: float) -> int:
    """The round whose remaining weights are nearest to ``fraction``."""
    return int(np.argmin(np.abs(np.log(np.array(remaining) / fraction))))


same = all(
    torch.equal(a["masks"][name], b["masks"][name])
    for a, b in zip(mine, found[0], strict=False)
    for name in a["masks"]
)
say(
    "The masks of your own three rounds, and those of the library's first search: the same?"
    f" **{same}.**"
)

# %%
last = f"{100 * remaining[-1]:.1f} %"
plots.show(
    plots.method_curves(
        remaining,
        accuracy,
        control="random mask",
        dense=dense_accuracy,
        xlabel="weights remaining (%)",
        ylabel="test accuracy (%)",
        title="A ticket is more than its mask, and more than its weights",
        xaxis="remaining",
    ),
    alt="Test accuracy against weights remaining, three seeds with intervals. At "
    + last
    + ": "
    + ", ".join(f"{arm} {np.mean(values[:, -1]):.1f}" for arm, values in accuracy.items())
    + f"; dense {np.mean(dense_accuracy):.1f}.",
)
rows = [
    (
        "| weights left | ticket (%) | ticket against reinit | ticket against random mask | reinit"
        " against random mask |"
    ),
    "|---" * 5 + "|",
]
for i in (round_with(f) for f in (0.51, 0.215, 0.09, 0.059)):
    rows.append(
        f"| {100 * remaining[i]:.1f} % | {pm(accuracy['ticket'][:, i])} "
        f"| {versus(accuracy['ticket'][:, i], accuracy['reinit'][:, i], digits=2)} "
        f"| {versus(accuracy['ticket'][:, i], accuracy['random mask'][:, i], digits=2)} "
        f"| {versus(accuracy['reinit'][:, i], accuracy['random mask'][:, i], digits=2)} |"
    )
say("\n".join(rows))
order = sorted(ARMS, key=lambda arm: -np.mean(accuracy[arm][:, round_with(0.1)]))
say(
    f"At {100 * remaining[round_with(0.1)]:.1f} %, from best to worst: {', '.join(order)}."
    f" {you_wrote(prediction_3_4)}"
)

# %% [markdown]
# And speed. A run that never reaches 95 % is counted as if it had got there at its last
# step: such a point is a *lower* bound. (Leaving those runs out would be kind to the
# slow arms: only their best seeds would be averaged.)

# %%
kind, label = {
    "digits": ("steps", "Steps to 95 % validation accuracy"),
    "mnist": ("early_stop", "Early-stopping step"),
}[DATA]
# (seeds, rounds + 1)
steps = {arm: np.nan_to_num(lab03.numbers(measured[arm][kind]), nan=LAST) for arm in ARMS}
never = {arm: int(np.isnan(lab03.numbers(measured[arm]["steps"])).sum()) for arm in ARMS}
plots.show(
    plots.method_curves(
        remaining,
        steps,
        control="random mask",
        dense=steps["ticket"][:, 0],
        xlabel="weights remaining (%)",
        ylabel="training steps",
        title=f"{label}: tickets learn faster than the dense network",
        xaxis="remaining",
        ylim=(0, 1.05 * LAST),
    ),
    alt=f"{label} against weights remaining. At 21.5 per cent: "
    + ", ".join(
        f"{arm} {np.mean(values[:, round_with(0.215)]):.0f}" for arm, values in steps.items()
    )
    + f"; dense {np.mean(steps['ticket'][:, 0]):.0f}.",
)
i = round_with(0.215)
say(
    f"{label} at {100 * remaining[i]:.1f} % of the weights: dense network"
    f" {pm(steps['ticket'][:, 0], 0)} steps, ticket **{pm(steps['ticket'][:, i], 0)}**, reinit"
    f" {pm(steps['reinit'][:, i], 0)}, random mask {pm(steps['random mask'][:, i], 0)}."
    f" {you_wrote(prediction_3_5)}\n\nRuns that never got to 95 %, over all rounds: "
    + ", ".join(f"{arm} {count}" for arm, count in never.items())
    + ". And the step of the lowest validation loss, for comparison: "
    + ", ".join(f"{arm} {pm(np.array(measured[arm]['early_stop'])[:, i], 0)}" for arm in ARMS)
    + "."
)

# %% [markdown]
# Some of these tickets are there after ten or twenty steps: less than one pass over the
# data. Can a network learn digits in ten steps? Or did it know something before?
# Nothing is easier to ask: put the ticket on $w_0$, **train nothing**, and measure.
#
# *Before you run it:* ten classes, random initial weights, not one step of training.
# What validation accuracy, in %?

# %%
### BEGIN SOLUTION
prediction_3_5a = 10  # chance
### END SOLUTION


# %%
def untrained(seed: int, masks: dict[str, Tensor]) -> float:
    """Validation accuracy in % of w_0 under the masks, before the first step."""
    model = build("lenet300", data, seed=seed)
    rewind(model, copy.deepcopy(model.state_dict()), masks)
    return evaluate(model, data.validation)


before = {
    "ticket": [
        [untrained(seed, r["masks"]) for r in records[1:]] for seed, records in found.items()
    ],
    "random mask": [
        [untrained(seed, r["controls"]["random"]["masks"]) for r in records[1:]]
        for seed, records in found.items()
    ],
}
plots.show(
    plots.method_curves(
        remaining[1:],
        before,
        control="random mask",
        xlabel="weights remaining (%)",
        ylabel="validation accuracy before training (%)",
        title="The ticket knows the digits before its first step",
        xaxis="remaining",
        ylim=(0, 102),
    ),
    alt=(
        "Validation accuracy before any training against weights remaining. The ticket rises to"
        f" {np.mean(before['ticket'], 0).max():.0f} per cent and falls again; the random mask stays"
        " near 10."
    ),
)
best = int(np.argmax(np.mean(before["ticket"], axis=0)))
say(
    f"At {100 * remaining[best + 1]:.0f} % of the weights the untrained ticket is right in"
    f" **{pm(np.array(before['ticket'])[:, best], 0)} %** of the cases, the random mask on the same"
    f" weights in {pm(np.array(before['random mask'])[:, best], 0)} %. {you_wrote(prediction_3_5a)}"
)

# %% [markdown]
# **Choosing which weights may exist is a way of training.** A weight that training
# wanted smaller has been set to zero, which is a step in the direction it would have
# gone; the others stay where they were. Zhou et al. (2019, "Deconstructing lottery
# tickets") found this on MNIST and called such masks *supermasks*. So part of the
# ticket's speed is a head start: the dense trainings of all the rounds before have left
# their trace in the mask.
#
# Two things are in these figures that a tenth of the network could not show by itself.
#
# **Neither half of a ticket is the ticket.** The same places with other weights
# (reinit), and the same weights in other places (random mask), both learn more slowly,
# and end lower where few weights are left. (At which sizes do your three seeds show
# it?) Training has chosen places *for these initial weights*.
#
# **The mask carries something, too**, if reinit stays above the random mask where
# weights are scarce: see the last column of the table. Then which connections exist is
# knowledge about the data, whatever they start from. Where does it lie? Look at the
# first layer: how many of its connections does each pixel keep?

# %%
i = round_with(0.09)
shape = data.shape[1:]
ticket_mask, random_mask = (
    found[0][i]["masks"]["fc1.weight"],
    found[0][i]["controls"]["random"]["masks"]["fc1.weight"],
)
blank = data.train.images.flatten(1).mean(0) < 0.01  # (pixels,): hardly ever any ink
fig = Figure(figsize=(8, 3.6), layout="constrained")
panels = fig.subplots(1, 3)
top = max(ticket_mask.sum(0).max(), random_mask.sum(0).max()).item()
pictures = {
    "mean training image": data.train.images.mean(0)[0],
    "ticket: connections": ticket_mask.sum(0).view(shape),
    "random mask: connections": random_mask.sum(0).view(shape),
}
for ax, (title, picture) in zip(panels, pictures.items(), strict=True):
    ink = title.startswith("mean")
    image = ax.imshow(picture, cmap="Greys" if ink else "cividis", vmin=0, vmax=1 if ink else top)
    ax.set_title(title, fontsize=11.5)
    ax.set(xticks=[], yticks=[])
    ax.grid(visible=False)
    fig.colorbar(
        image,
        ax=ax,
        orientation="horizontal",
        label="ink" if ink else "connections per pixel",
        pad=0.04,
    )
per_pixel = {
    name: mask.sum(0).float()
    for name, mask in (("ticket", ticket_mask), ("random mask", random_mask))
}
on_blank = {name: count[blank].mean().item() for name, count in per_pixel.items()}
on_ink = {name: count[~blank].mean().item() for name, count in per_pixel.items()}
plots.show(
    fig,
    alt=(
        "Three pictures of the input pixels: the mean training image, the connections per pixel of"
        f" the ticket at {100 * remaining[i]:.0f} per cent of the weights, and of the random mask."
        " The random mask is even, the ticket is not."
    ),
)
say(
    f"{int(blank.sum())} of {len(blank)} pixels have hardly any ink (on average less than 1 % of"
    f" black). Connections per pixel, those and the others: ticket **{on_blank['ticket']:.0f} and"
    f" {on_ink['ticket']:.0f}**, random mask {on_blank['random mask']:.0f} and"
    f" {on_ink['random mask']:.0f}."
)

# %% [markdown]
# #### Experiment: longer training
#
# The arms all had the same budget, so the comparison was fair. But it was *one* budget.
# "Learns faster" and "gets further" are easily confused where training is stopped
# early. So give all arms more epochs: five seeds, the whole search again for each
# budget. That is too long for a lab; it is shipped as a result file.
# (`course remake lab03_tickets_digits` makes it again, in about twenty minutes on two
# cores.)
#
# *Before you look:* with five times as many epochs, what is left of the ticket's
# advantage over reinit at 9 % of the weights, in points?

# %%
### BEGIN SOLUTION
prediction_3_5b = 0.5  # points
### END SOLUTION

# %%
by_budget = {int(epochs): run for epochs, run in experiments.read("lab03_tickets_digits").items()}
BUDGETS = list(by_budget)
SHIPPED_LEFT = by_budget[BUDGETS[0]]["remaining"]
at_9 = int(np.argmin(np.abs(np.array(SHIPPED_LEFT) - 0.09)))
over_budgets = {
    arm: np.array([np.array(run[arm]["accuracy"])[:, at_9] for run in by_budget.values()]).T
    for arm in ARMS
}  # (seeds, budgets)
# (seeds, budgets)
dense_over = np.array([np.array(run["ticket"]["accuracy"])[:, 0] for run in by_budget.values()]).T
fig = plots.method_curves(
    BUDGETS,
    {**over_budgets, "dense": dense_over},
    control="random mask",
    xlabel="epochs of every training",
    ylabel="test accuracy (%)",
    title=(
        f"Longer training closes the gap (digits, {100 * SHIPPED_LEFT[at_9]:.1f} % of the weights,"
        " 5 seeds)"
    ),
)
fig.axes[0].set_xticks(BUDGETS)
plots.show(
    fig,
    alt="Test accuracy at 9 per cent of the weights against epochs, five seeds. "
    + " ".join(
        f"{arm}: "
        + ", ".join(f"{mean:.1f} with {b}" for b, mean in zip(BUDGETS, values.mean(0), strict=True))
        + "."
        for arm, values in over_budgets.items()
    ),
)
rows = ["| epochs | ticket against reinit | ticket against random mask |", "|---|---|---|"]
for j, b in enumerate(BUDGETS):
    rows.append(
        f"| {b} | {versus(over_budgets['ticket'][:, j], over_budgets['reinit'][:, j], digits=2)} "
        f"| {versus(over_budgets['ticket'][:, j], over_budgets['random mask'][:, j], digits=2)} |"
    )
say("\n".join(rows))
say(you_wrote(prediction_3_5b))

# %% [markdown]
# **Said plainly: longer training closes the gap. On the digits most of the ticket's
# advantage in accuracy is an advantage in time.** With 30 epochs the controls have not
# finished learning; give them more, and reinit catches up most of the way, the random
# mask altogether: with the longest budget it is level with the ticket, and the order of
# the two controls has changed as well. What remains is what the figures above showed
# about *steps*. Whoever reports the left end of this figure alone has not lied, and has
# misled. Liu et al. (2019, "Rethinking the value of network pruning") made the point on
# large networks: with a full training schedule and a large learning rate, a pruned
# architecture trained from fresh weights did as well as the winning ticket. The lecture
# has its sentence from there: the *architecture* is what counts. It is a matter of
# budget, learning rate and size, not of belief.

# %% [markdown]
# #### The paper's own experiment: MNIST
#
# LeNet-300-100 on MNIST, Adam 1.2e-3, batches of 60, 16 rounds: Frankle and Carbin's
# setting, but for one thing: they train for 50,000 iterations, we for **8,000**. Their
# finding, in five figures: at 21.1 % of the weights the reinitialised network needs
# 2.51 times the ticket's steps to its early stop; at 13.5 % the ticket is more than 0.3
# points *above* the dense network; at 3.6 % it is back at the dense accuracy; it falls
# below at 2.9 %, and the reinitialised network already at 21.1 %. (Their accuracies are
# those at the early-stopping step, ours those at the end of training: with 8,000
# iterations there is little time to overfit in between.)
#
# Half an hour is too long for a lab, so our three seeds are shipped as a result file.
# (`course remake lab03_tickets_mnist` makes it again and keeps what is done; so does
# `DATA = "mnist"` above, with your own functions.)
#
# *Before you look:* with a sixth of the iterations, will the ticket stay above the
# dense network for longer or for less long than in the paper?


# %%
def falls(values: np.ndarray, left: list[float], dense: np.ndarray) -> str:
    """The largest fraction of weights from which on the mean stays below the dense
    networks'.
    """
    below = values.mean(axis=0) < dense.mean()
    first = len(below) - int(np.argmin(below[::-1])) if not below.all() else 0
    return f"{100 * left[first]:.1f} %" if first < len(below) else f"not by {100 * left[-1]:.1f} %"


def beside_the_paper(run: dict) -> None:
    """Both figures of the paper, and its five numbers beside ours."""
    left = run["remaining"]
    reached = {arm: np.array(run[arm]["accuracy"]) for arm in ARMS}  # (seeds, rounds + 1)
    stop = {arm: np.array(run[arm]["early_stop"], dtype=float) for arm in ARMS}
    dense = reached["ticket"][:, 0]
    at_21, at_13, at_4 = (int(np.argmin(np.abs(np.array(left) - f))) for f in (0.211, 0.135, 0.036))
    plots.show(
        plots.method_curves(
            left,
            reached,
            control="random mask",
            dense=dense,
            paper={
                "Frankle & Carbin: 0.3 above dense": (0.135, dense.mean() + 0.3),
                "back at dense": (0.036, dense.mean()),
            },
            xlabel="weights remaining (%)",
            ylabel="test accuracy (%)",
            title="MNIST: how long does the ticket keep up with the dense network?",
            xaxis="remaining",
        ),
        alt="MNIST, test accuracy against weights remaining. "
        + " ".join(
            f"{arm}: {values[:, at_21].mean():.2f} at 21 per cent, {values[:, -1].mean():.2f} at"
            " the end."
            for arm, values in reached.items()
        ),
    )
    slower = {arm: stop[arm] / stop["ticket"] for arm in ("reinit", "random mask")}
    plots.show(
        plots.method_curves(
            left,
            slower,
            control="random mask",
            paper={"Frankle & Carbin, reinit: 2.51": (0.211, 2.51)},
            xlabel="weights remaining (%)",
            ylabel="early-stopping step, times that of the ticket",
            title="MNIST: how many times longer do the controls learn?",
            xaxis="remaining",
        ),
        alt=(
            "MNIST, early-stopping step of reinit and random mask divided by that of the ticket. At"
            " 21 per cent: "
        )
        + ", ".join(f"{name} {values[:, at_21].mean():.1f}" for name, values in slower.items())
        + ".",
    )
    say(
        "| LeNet-300-100 on MNIST | Frankle & Carbin, 50,000 iterations | here, 8,000 iterations"
        " |\n|---|---|---|\n| at 21.1 %: reinit stops early after … times the ticket's steps |"
        f" 2.51 | {pm(slower['reinit'][:, at_21])} |\n| at 13.5 %: ticket against dense, points |"
        f" more than +0.3 | {versus(reached['ticket'][:, at_13], dense, digits=2)} |\n| at 3.6 %:"
        " ticket against dense, points | back at the dense accuracy |"
        f" {versus(reached['ticket'][:, at_4], dense, digits=2)} |\n| the ticket falls below dense"
        f" from | 2.9 % | {falls(reached['ticket'], left, dense)} |\n| reinit falls below dense"
        f" from | 21.1 % | {falls(reached['reinit'], left, dense)} |"
    )


beside_the_paper(measured if DATA == "mnist" else experiments.read("lab03_tickets_mnist"))

# %% [markdown]
# **The paper's curve, drawn again.** The ticket rises above the dense network before it
# comes back to it, reinit falls early and the random mask deeper: the order and the
# shape are those of Frankle and Carbin. Three things differ, and training that ends at
# 8,000 iterations, where theirs goes on to 50,000, may explain them all. Our ticket is
# still level with the dense network at 2.9 % of the weights, where theirs has fallen
# below: a dense network that has had a sixth of the training leaves less to fall from.
# Our reinit falls below it earlier, at 41.1 % instead of 21.1 %: whoever learns more
# slowly loses more by an early end. And our early-stopping ratio is smaller than their
# 2.51, because it *cannot* grow: where few weights are left the controls are still
# improving when the training ends, and count as 8,000, so the true ratio is larger than
# the one drawn.
#
# Read the intervals, too. With three seeds, 0.4 points above the dense network is what
# we measured and not yet what we have shown; the gap to reinit is.

# %% [markdown]
# ## Part C · Sparse from the first step
#
# A ticket is found by training a dense network many times over. Suppose you cannot
# afford even one dense training: the model does not fit. Then you train a sparse one
# from the start, and have to choose the places *before* you know anything. In the
# experiment above, that was the random mask, and it was the worst of the three.
#
# **Dynamic sparse training** lets the places move. Every $\Delta T$ steps a share of
# the connections is dropped and as many are grown elsewhere. The number never changes,
# so each step costs what a sparse step costs.
#
# - **SET** (Mocanu et al. 2018): drop the smallest, grow *anywhere*.
# - **RigL** (Evci et al. 2020): drop the smallest, grow where the **gradient** is
#   largest.
#
# Why the gradient? A connection that does not exist has weight 0, but the loss has a
# derivative with respect to it all the same, $g_i = \partial L/\partial w_i$. A first
# small step of gradient descent from $w_i = 0$ changes the loss by about
# $-\eta\,g_i^2$. So the connections with the largest $|g_i|$ promise most.

# %% [markdown]
# ### 3.6 Drop and grow
# **15 minutes · 3 points**
#
# The gradient must be the **dense** one. In an implementation that masks gradients,
# $g_i$ is 0 at exactly the places among which you have to choose. (So RigL does need
# the dense gradient, but only once every $\Delta T$ steps.)
#
# Write it yourself: not `torch.nn.utils.prune`, and nothing of `course_lib.pruning`.
#
# *Before you write anything:* the pixels along the left and right edge are blank in
# nearly every image. A random mask spends connections on them all the same. Will RigL
# have more or fewer of them there in the end than at the start? And SET?

# %%
### BEGIN SOLUTION
prediction_3_6 = "RigL fewer: blank pixels have no gradient; SET as many"
### END SOLUTION


# %%
def drop_and_grow(
    weight: Tensor, dense_grad: Tensor, mask: Tensor, fraction: float
) -> tuple[Tensor, Tensor]:
    """Exchange a share of a layer's connections: drop where |w| is small, grow where
    |dense_grad| is large.

    Args:
        weight: any shape. Not changed.
        dense_grad: the loss's gradient at *all* positions, those without a weight
            included; the same shape.
        mask: bool, the same shape, True = active. Not changed.
        fraction: the share f of the active weights to exchange, in [0, 1].

    Returns:
        ``(new weight, new mask)``. With k = min(round(fraction * active), inactive):
        the k active positions with the smallest |weight| become inactive, and the k
        positions with the largest |dense_grad| among those that were inactive *before*
        the drop become active. Equal values: the first in row-major order is dropped,
        or grown, first. The new weight is 0 where it has just grown and wherever the
        new mask is False; elsewhere it keeps its value. The number of True in the mask
        stays the same.

    Raises:
        ValueError: if ``fraction`` is outside [0, 1].
    """
    if not 0 <= fraction <= 1:
        raise ValueError(
            "fraction is the share of the active weights to exchange, between 0 and 1, got"
            f" {fraction}"
        )
    ### BEGIN SOLUTION
    active = mask.flatten().nonzero().flatten()  # (active,), positions in row-major order
    inactive = (~mask).flatten().nonzero().flatten()
    k = min(round(fraction * len(active)), len(inactive))
    sizes, gains = weight.detach().flatten().abs(), dense_grad.detach().flatten().abs()
    dropped = active[sizes[active].argsort(stable=True)[:k]]
    grown = inactive[gains[inactive].argsort(stable=True, descending=True)[:k]]
    after = mask.flatten().clone()
    after[dropped] = False
    after[grown] = True
    stayed = mask.flatten() & after
    return weight.detach().masked_fill(~stayed.view(mask.shape), 0), after.view(mask.shape)
    ### END SOLUTION


# %%
check("3.6")

# %% [markdown]
# <details><summary>Hint 1: two lists of
# places</summary><code>mask.flatten().nonzero().flatten()</code> are the active
# positions in row-major order; with <code>~mask</code> the inactive ones. Drop from the
# first list, grow from the second. As both are made before anything is dropped, nothing
# that is dropped can grow again at once.</details>
# <details><summary>Hint 2: ties</summary><code>argsort(stable=True)</code> for the
# smallest; <code>argsort(stable=True, descending=True)</code> for the largest.
# <code>topk</code> is not stable.</details>
# <details><summary>Hint 3: the new weight</summary>It keeps its value where a
# connection was before <i>and</i> is after; it is 0 everywhere else. What has just
# grown starts from 0, so that the network's output does not jump.</details>

# %% [markdown]
# #### Your own RigL, on one layer
#
# The library's version is long, since it works with every optimizer; the idea is short.
# Here it is with your function: the first layer of LeNet gets 5 % of its connections at
# random. Every 10 steps a share of them may move, half at first and then less and less
# (a cosine); at three quarters of the training the places are final. And the same with
# random numbers in the place of the gradient.


# %%
def train_moving(
    grow_by: str, steps: int = 380, every: int = 10, density: float = 0.05
) -> list[Tensor]:
    """LeNet with a sparse first layer whose connections move; returns that layer's mask
    at the start and at the end.
    """
    model, generator = build("lenet300", data, seed=0), torch.Generator().manual_seed(0)
    w = model.fc1.weight
    mask = first = torch.rand(w.shape, generator=generator) < density
    optimizer = torch.optim.Adam(model.parameters(), lr=1.2e-3)
    for step in range(steps):
        index = torch.randint(len(data.train.labels), (60,), generator=generator)
        with torch.no_grad():
            w.masked_fill_(~mask, 0)
        optimizer.zero_grad()
        F.cross_entropy(model(data.train.images[index]), data.train.labels[index]).backward()
        if step and step % every == 0 and step < 0.75 * steps:
            dense_grad = (
                w.grad if grow_by == "gradient" else torch.rand(w.shape, generator=generator)
            )
            share = 0.5 / 2 * (1 + math.cos(math.pi * step / (0.75 * steps)))
            new, mask = drop_and_grow(w.detach(), dense_grad, mask, share)
            with torch.no_grad():
                w.copy_(new)
            continue  # this batch has chosen the places; it does not also make a step
        optimizer.step()
    return [first, mask]


start, by_gradient = train_moving("gradient")
_, by_chance = train_moving("chance")  # starts from the same mask
places = {"at the start": start, "RigL, at the end": by_gradient, "SET, at the end": by_chance}
fig = Figure(figsize=(8, 3.6), layout="constrained")
top = max(mask.sum(0).max() for mask in places.values()).item()
for ax, (name, mask) in zip(fig.subplots(1, 3), places.items(), strict=True):
    image = ax.imshow(mask.sum(0).view(shape), cmap="cividis", vmin=0, vmax=top)
    ax.set_title(name, fontsize=11.5)
    ax.set(xticks=[], yticks=[])
    ax.grid(visible=False)
    fig.colorbar(image, ax=ax, orientation="horizontal", label="connections per pixel", pad=0.04)
on_blank = {name: mask[:, blank].sum(0).float().mean().item() for name, mask in places.items()}
plots.show(
    fig,
    alt=(
        "Connections from each input pixel, at the start, and after training with RigL and with"
        " SET. From a pixel with hardly any ink, on average: "
    )
    + ", ".join(f"{name} {count:.1f}" for name, count in on_blank.items())
    + ".",
)
say(
    "Connections from a pixel with hardly any ink: "
    + ", ".join(f"{name} **{count:.1f}**" for name, count in on_blank.items())
    + f". {you_wrote(prediction_3_6)}"
)

# %% [markdown]
# RigL moves connections from the pixels that say nothing to those that say much; the
# printout says how far it gets. SET loses a few of the useless connections, too: a
# weight without a gradient does not grow, so it is among the smallest and goes sooner
# or later; but chance puts new ones in the same places.
#
# A caution that no test could give you: Adam remembers. When a connection is dropped
# and another grown, the moments at both places belong to connections that are gone or
# were never there. The library sets them to zero; these lines do not.
#
# #### Experiment: does it pay?
#
# Static against SET against RigL, at **equal steps**: an exchange takes the place of a
# step, so nobody trains longer. All three start from the same weights and the same
# random mask, which is the control: it stays where it is. Four seeds, since networks as
# sparse as these differ more. Two ways of sharing the weights out over the layers:
#
# - **uniform**: the same density in each layer;
# - **Erdős–Rényi**: a density in proportion to $(d_{in} + d_{out})/(d_{in}\,d_{out})$,
#   so small layers, such as the output layer, are kept denser.
#
# *Before you run it:* will moving connections help more where the layers are shared out
# `"uniform"`, or `"Erdős–Rényi"`?

# %%
### BEGIN SOLUTION
prediction_3_6b = "uniform"
### END SOLUTION

# %%
CASES = [("uniform", 0.05), ("Erdős–Rényi", 0.05), ("Erdős–Rényi", 0.02)]
NAMES = {"random mask": "static", "SET": "set", "RigL": "rigl"}
budget = {
    "digits": {"epochs": 30, "steps": LAST},
    "mnist": {"epochs": 3, "iterations": 2000, "steps": 2000},
}[DATA]
runs = [(method, *case, seed) for method in NAMES.values() for case in CASES for seed in range(4)]
train = partial(lab03.train_sparse, data=DATA, every=20, **budget)
scores = [result["accuracy"] for result in pool.map(train, *zip(*runs, strict=True))]
pool.shutdown()
moving = {
    name: {
        f"{layers}, {100 * density:.0f} %": [
            score
            for run, score in zip(runs, scores, strict=True)
            if run[:3] == (method, layers, density)
        ]
        for layers, density in CASES
    }
    for name, method in NAMES.items()
}  # accuracies of four seeds


plots.show(
    plots.bars(
        {
            name: {case: float(np.mean(values)) for case, values in by.items()}
            for name, by in moving.items()
        },
        errors={
            name: {case: ends(values) for case, values in by.items()} for name, by in moving.items()
        },
        ylabel="test accuracy (%)",
        title="Does it pay to move? That depends on how bad the places were",
        fmt="{:.0f}",
    ),
    alt="Bars of test accuracy, four seeds with intervals. "
    + " ".join(
        f"{case}: "
        + ", ".join(f"{name} {np.mean(by[case]):.0f}" for name, by in moving.items())
        + "."
        for case in moving["SET"]
    ),
)
rows = [
    "| layers, weights | RigL against random mask | SET against random mask | RigL against SET |",
    "|---" * 4 + "|",
]
for case in moving["SET"]:
    static, sets, rigl = (by[case] for by in moving.values())
    rows.append(
        f"| {case} | {versus(rigl, static)} | {versus(sets, static)} | {versus(rigl, sets)} |"
    )
say("\n".join(rows))
say(
    f"For comparison, the ticket of part B with {100 * remaining[-1]:.1f} % of the weights:"
    f" {pm(accuracy['ticket'][:, -1])} %. {you_wrote(prediction_3_6b)}"
)

# %% [markdown]
# Read this table with care, for it is easy to tell a better story with half of it.
#
# - **Where the places are bad, moving them can pay.** With uniform densities the output
#   layer gets 50 of its 1,000 weights, and most hidden units have nobody to talk to. At
#   2 % of the weights no way of sharing out can help that. Are your gains largest in
#   these two rows, and which of them do four seeds show?
# - **Where they are good enough, it hardly does.** At 5 % of the weights, shared out
#   Erdős–Rényi, a random mask that stays is within a point or two of one that moves. A
#   paper that shows uniform densities alone shows the gain of moving *and* of repairing
#   a bad layout, in one number.
# - **RigL against SET**: is the gradient better than chance? See what four seeds can
#   show. What makes most of the difference here is that connections move at all.
#
# **What the paper found.** Evci et al. (2020), ResNet-50 on ImageNet, dense 76.8 %:
# RigL at 80 % sparsity with Erdős–Rényi-kernel densities 75.1 % in the same number of
# steps, 77.2 % with five times as many. So the budget counts there as well.
#
# And the ticket? At about the same density it is better than all of these. But its
# search trained a dense network and one more in every round before; the comparison at
# equal *steps* is the one between the masks of this part.

# %% [markdown]
# ## Part D · What was it worth?
#
# ### 3.7 Two short answers
# **10 minutes · 1 point**
#
# #### Experiment: the ledger's network
#
# The course's ledger follows the small conv net. So: your own `find_ticket`, on a
# network with batch norm, which is where rewinding the *buffers* matters. Half of the
# weights go each round (a quarter in the output layer); we rewind to the end of the
# first epoch, $w_k$. The control has the same number of weights in each layer,
# anywhere, and starts from the same $w_k$.
#
# The sparsest round whose *mean validation accuracy* is within one point of the dense
# networks' is chosen; then the chosen networks see the **test images, once**. Bits and
# milliseconds as in lab 01.

# %%
CONV = {
    "digits": {"train": 1097, "epochs": 6, "rounds": 3},
    "mnist": {"train": 3000, "epochs": 4, "rounds": 3},
}[DATA]
few = data.subset(CONV["train"])
FIRST_EPOCH = math.ceil(CONV["train"] / 64)  # steps


def conv_train(
    model: nn.Module, masks: dict[str, Tensor], start: int, stop: int | None, seed: int
) -> dict:
    """``train`` for the conv net; the result is its validation accuracy, and the
    trained network itself.
    """
    fit(
        model,
        few.train,
        epochs=CONV["epochs"],
        lr=0.2,
        optimizer="sgd",
        weight_decay=5e-4,
        schedule="cosine",
        seed=seed,
        masks=masks,
        start=start,
        stop=stop,
        progress=False,
    )
    return {"validation": evaluate(model, data.validation), "network": copy.deepcopy(model)}


def conv_search(seed: int) -> tuple[list[dict], dict]:
    """Ticket by ticket; and w_k, from which all of them start."""
    fresh, w_k = build("convnet", data, seed=seed), {}

    def train(model: nn.Module, masks: dict[str, Tensor], start: int, stop: int | None) -> dict:
        if start and not w_k:  # round 0: the model comes here as it is at step k
            w_k.update(copy.deepcopy(model.state_dict()))
        return conv_train(model, masks, start, stop, seed)

    return find_ticket(lambda: fresh, train, CONV["rounds"], rate=0.5, rewind_step=FIRST_EPOCH), w_k


def conv_control(seed: int, masks: dict[str, Tensor], w_k: dict[str, Tensor]) -> dict:
    """As many weights in each layer anywhere, from the same w_k."""
    model, elsewhere = (
        build("convnet", data),
        random_ticket(masks, torch.Generator().manual_seed(seed)),
    )
    rewind(model, w_k, elsewhere)
    return conv_train(model, elsewhere, FIRST_EPOCH, None, seed)


with ThreadPoolExecutor(2) as pool:
    # for each seed rounds + 1 records, and w_k
    conv, starts = zip(*pool.map(conv_search, range(SEEDS)), strict=True)
    validation = np.array([[r["result"]["validation"] for r in records] for records in conv])
    good = [
        i
        for i, mean in enumerate(validation.mean(axis=0))
        if i and mean >= validation[:, 0].mean() - 1
    ]
    chosen = max(good, default=1)
    controls = list(
        pool.map(conv_control, range(SEEDS), [records[chosen]["masks"] for records in conv], starts)
    )
left = f"{100 * conv[0][chosen]['remaining']:.0f} %"
bill = {
    f"dense, {CONV['epochs']} epochs": [records[0]["result"]["network"] for records in conv],
    f"ticket {left}": [records[chosen]["result"]["network"] for records in conv],
    f"random mask {left}": [control["network"] for control in controls],
}


times = latency.compare(
    {
        row: latency.forward(networks[0], data.validation.images[:64])
        for row, networks in bill.items()
    },
    repeats=40,
    threads=1,
)
lines = ["| | kB | MACs (k) | ms for 64 images | test accuracy (%) |", "|---" * 5 + "|"]
tested = {}
for row, networks in bill.items():
    bits = sum(encodings.cheapest_bits(w.detach()) for w in prunable(networks[0]).values())
    products = totals(model_cost(networks[0], data.test.images[:1]))["nonzero_macs"]
    # the only look at the test images
    test = tested[row] = [evaluate(network, data.test) for network in networks]
    milliseconds = 1e3 * times[row].median
    ledger.add("convnet", row, lab="03", bits=bits, macs=products, ms=milliseconds, accuracy=test)
    lines.append(
        f"| {row} | {bits / 8e3:.1f} | {products / 1e3:.0f} | {milliseconds:.2f} | {pm(test)} |"
    )
say(
    "Validation accuracy by round, from dense on:"
    f" {', '.join(f'{v:.1f}' for v in validation.mean(axis=0))} %."
)
say("\n".join(lines))
say(
    "Ticket against random mask, test accuracy:"
    f" {versus(tested[f'ticket {left}'], tested[f'random mask {left}'])}."
)
display(ledger.table())

# %% [markdown]
# As in lab 01, zeros save bits at once and no milliseconds. And as there, look at the
# control before you praise the ticket: with batch norm and a network this much larger
# than its task, a random mask from the same $w_k$ is not far off.
#
# One column is missing in this table: **what it cost to find**. The ticket's row stands
# for as many trainings as there were rounds, one after the other; the random mask's row
# for one. A ticket pays if it is used again: on other data, with other optimizers, or
# as an insight into what a network needs. As a way to save training time it has spent
# the time already. (Searching for cheaper ways is what "early-bird tickets", pruning at
# initialisation and part C are about.)
#
# #### The two answers
#
# **a.** In the main experiment the ticket beat both controls at less than 10 % of the
# weights. What follows from that, at this budget?

# %%
choose(
    "3.7a",
    "A network with so few weights learns faster because there is less to learn; any tenth would"
    " have done.",
    "Places and initial weights belong together: the ticket loses its lead when either of them is"
    " replaced.",
    "The mask is the ticket: with its places, any initial weights do as well.",
    "The initial weights are the ticket: with them, any places do as well.",
)

# %% [markdown]
# **b.** Look again at the untrained networks behind 3.5, on the digits: which
# validation accuracy, in %, does the best **untrained ticket** reach, in the mean over
# your seeds? Type in what your run says. (Within 4 of what these networks give counts.)

# %%
# a: "A", "B", "C" or "D"; b: a number, in %
### BEGIN SOLUTION
answer_3_7a = "B"
answer_3_7b = 84
### END SOLUTION

# %%
check("3.7")

# %% [markdown]
# ### 3.8 Bug hunt
# **20 minutes · 1 point**
#
# Here is a version of `shrink` that reads well: set the dead weights to zero, so that
# they are the smallest; rank the whole layer; as many as are dead already, and the
# share of the survivors, go. And a test that runs it through three rounds.


# %%
def naive_test(f: Callable) -> None:
    generator = torch.Generator().manual_seed(0)
    weights = {
        "fc1": torch.randn(40, 25, generator=generator),
        "fc2": torch.randn(10, 40, generator=generator),
    }
    masks = {name: torch.ones_like(w, dtype=torch.bool) for name, w in weights.items()}
    for _ in range(3):
        after = f(weights, masks, 0.2)
        for name, mask in masks.items():
            assert not (after[name] & ~mask).any()  # what is pruned stays pruned
            assert int(after[name].sum()) == mask.sum() - round(
                (0.2 if name == "fc1" else 0.1) * int(mask.sum())
            )
        masks = after


def suspicious_shrink(
    weights: dict, masks: dict, rate: float, output_rate: float | None = None
) -> dict:
    if output_rate is None:
        output_rate = rate / 2
    left = {}
    for name, w in weights.items():
        share = output_rate if name == list(weights)[-1] else rate
        alive = int(masks[name].sum())
        # those that are dead already, and the share
        goes = w.numel() - alive + round(share * alive)
        size = (w.abs() * masks[name]).flatten()  # the dead have size 0: they go first
        mask = torch.ones_like(size, dtype=torch.bool)
        mask[size.argsort(stable=True)[:goes]] = False
        left[name] = mask.view(w.shape)
    return left


naive_test(suspicious_shrink)
print("suspicious_shrink passes the naive test.")

# %% [markdown]
# Right counts, nested masks, three rounds. Now a layer as you meet it after training
# with an L1 penalty, or after quantisation: some of the weights that are *alive* are
# exactly 0.

# %%
layer = {
    "fc1": (2 * example["fc1.weight"] / example["fc1.weight"].std()).round(),
    "out": torch.zeros(1, 1),
}
half = {
    "fc1": torch.rand(layer["fc1"].shape, generator=torch.Generator().manual_seed(0)) < 0.5,
    "out": torch.ones(1, 1, dtype=torch.bool),
}
revived = {
    f.__name__: int((f(layer, half, 0.1)["fc1"] & ~half["fc1"]).sum())
    for f in (shrink, suspicious_shrink)
}
say(
    f"{100 * (layer['fc1'][half['fc1']] == 0).float().mean():.0f} % of the living weights are 0."
    " Dead weights that came back to life: "
    + ", ".join(f"`{name}` **{count:,}**" for name, count in revived.items())
    + "."
)

# %% [markdown]
# A living zero and a dead zero look alike to a sort. The count is right, and the wrong
# ones are dead.
#
# Write `find_bug(f)`: it gets a function `f(weights, masks, rate, output_rate=None)`
# and raises `AssertionError` if `f` breaks the contract of **3.1**, and returns if it
# does not. The grader calls it with several versions of `shrink`, some right (written
# in other ways than yours), some wrong, each with a mistake that people make. A test
# that fails right versions is worth nothing either, so a point is earned only for
# verdicts on both kinds. All versions take finite weights of any shapes, any masks and
# rates in [0, 1] without an error; what they do with other arguments does not count.
# Try it on something small: the versions refuse more than eight million numbers in one
# call, and calls that take long.
#
# As in lab 01: try to do without your own `shrink`. Write down what must be *true* of
# the new masks.


# %%
def find_bug(f: Callable[..., dict[str, Tensor]]) -> None:
    """Raise AssertionError if ``f(weights, masks, rate, output_rate=None)`` breaks the
    contract of ``shrink`` (3.1); else return."""
    ### BEGIN SOLUTION
    generator = torch.Generator().manual_seed(1)

    def layer(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator)

    def coin(*shape: int) -> Tensor:
        return torch.rand(*shape, generator=generator) < 0.5

    def dense(weights: dict[str, Tensor]) -> dict[str, Tensor]:
        return {name: torch.ones_like(w, dtype=torch.bool) for name, w in weights.items()}

    # scales far apart, odd counts
    smooth = {"1": 10 * layer(7, 5), "2": 0.1 * layer(3, 4, 2), "out": layer(5, 6)}
    # many zeros, alive and dead
    ties = {"1": (2 * layer(9, 7)).round(), "out": (2 * layer(6, 5)).round()}
    cases = [
        (smooth, dense(smooth)),
        # the dead are as large as the living
        (smooth, {name: coin(*w.shape) for name, w in smooth.items()}),
        (ties, {name: coin(*w.shape) for name, w in ties.items()}),
        ({"only": layer(11)}, {"only": coin(11)}),  # the last layer is the first
    ]
    for weights, masks in cases:
        for rate, output_rate in (
            (0.0, None),
            (0.2, None),
            (0.3, 0.3),
            (0.5, 0.1),
            (0.77, None),
            (1.0, 1.0),
        ):
            after = f(weights, masks, rate, output_rate)
            assert list(after) == list(weights), "other layers came back"
            for name, w in weights.items():
                share = rate
                if name == list(weights)[-1]:
                    share = rate / 2 if output_rate is None else output_rate
                alive, left = masks[name], after[name]
                case = (
                    f"layer {name} with {int(alive.sum())} of {alive.numel()} alive, rate {share}"
                )
                assert left.dtype == torch.bool and left.shape == w.shape, (
                    f"no mask like the weight: {case}"
                )
                assert not (left & ~alive).any(), f"a pruned weight came back: {case}"
                stays = left[alive]  # (survivors,), in row-major order
                assert int((~stays).sum()) == round(share * len(stays)), f"wrong number: {case}"
                if stays.any() and not stays.all():
                    size = w[alive].abs()
                    largest_gone = size[~stays].max()
                    assert largest_gone <= size[stays].min(), f"a larger one went: {case}"
                    # in order: all that went stand before all that stayed
                    tied = stays[size == largest_gone]
                    assert not (tied[:-1] & ~tied[1:]).any(), f"ties out of order: {case}"
    ### END SOLUTION


# %%
for f in (shrink, suspicious_shrink):
    try:
        find_bug(f)
        print(f"{f.__name__}: no bug found")
    except AssertionError as reason:
        print(f"{f.__name__}: caught ({reason})")

# %%
check("3.8")

# %% [markdown]
# <details><summary>Hint 1: read the contract as a list</summary>Keys and their order;
# type and shape; what is pruned stays pruned; how many, in the output layer and in the
# others; which; in which order among equals.</details>
# <details><summary>Hint 2: choose inputs that tell versions apart</summary>Layers of
# different scales (is each pruned for itself?), masks that are not all True, dead
# weights that are <i>large</i>, many equal weights, odd counts, an output rate that is
# given and one that is not, a rate of 0.</details>
# <details><summary>Hint 3: the order among equals</summary>Among the survivors of the
# borderline size, everything pruned must stand before everything kept.</details>

# %% [markdown]
# ## Play
#
# ### Through the rounds
#
# The live search, round by round: the mask of the second layer (a corner of 60 × 60
# weights), the pixels that the first layer still looks at, and the three arms. From
# which round on does the ticket lead the random mask by two points? And what has become
# of the pixels by then? (Tab goes to a control, arrow keys move a slider, the space bar
# presses a button.)


# %%
def explore_round(number: int) -> tuple[str, Figure]:
    record = found[0][number]
    fig = Figure(figsize=(8, 4.6), layout="constrained")
    cells = fig.add_gridspec(2, 2, width_ratios=[1, 2.4])
    top_left, bottom_left, right = (
        fig.add_subplot(cells[0, 0]),
        fig.add_subplot(cells[1, 0]),
        fig.add_subplot(cells[:, 1]),
    )
    top_left.imshow(
        record["masks"]["fc2.weight"][:60, :60],
        cmap="Blues",
        vmin=-0.15,
        vmax=1.2,
        interpolation="nearest",
    )
    top_left.set_title("fc2: kept (dark)", fontsize=11)
    per_pixel = record["masks"]["fc1.weight"].sum(0).view(shape)
    image = bottom_left.imshow(per_pixel, cmap="cividis", vmin=0)
    bottom_left.set_title("fc1, by pixel", fontsize=11)
    fig.colorbar(image, ax=bottom_left, orientation="horizontal", pad=0.05, label="connections")
    for ax in (top_left, bottom_left):
        ax.set(xticks=[], yticks=[])
        ax.grid(visible=False)
    plots.method_curves(
        remaining,
        accuracy,
        control="random mask",
        xlabel="weights remaining (%)",
        ylabel="test accuracy (%)",
        title="",
        xaxis="remaining",
        ax=right,
    )
    plots.remaining_axis(right)
    right.axvline(remaining[number], color=plots.COLOURS["dense"], linewidth=1)
    now = ", ".join(f"{arm} {accuracy[arm][:, number].mean():.1f} %" for arm in ARMS)
    plots.alt(
        fig,
        f"Round {number}: masks of the first two layers at {100 * record['remaining']:.1f} % of all"
        f" weights; {now}.",
    )
    return f"Round {number}, {100 * record['remaining']:.1f} % of the weights: {now}", fig


widgets.explorer(
    explore_round, number=widgets.slider(0, len(remaining) - 1, 1, round_with(0.09), "round")
)

# %% [markdown]
# ### The budget
#
# The same three curves, for every budget from 30 to 150 epochs (digits, five seeds,
# from the result file). Watch the gap.


# %%
def explore_budget(epochs: int, fraction: int) -> tuple[str, Figure]:
    run = by_budget[epochs]
    values = {arm: np.array(run[arm]["accuracy"]) for arm in ARMS}
    fig = plots.method_curves(
        SHIPPED_LEFT,
        values,
        control="random mask",
        dense=values["ticket"][:, 0],
        xlabel="weights remaining (%)",
        ylabel="test accuracy (%)",
        title=f"{epochs} epochs a training",
        xaxis="remaining",
        ylim=(90, 99),
    )
    fig.axes[0].axvline(SHIPPED_LEFT[fraction], color=plots.COLOURS["dense"], linewidth=1)
    gap = versus(values["ticket"][:, fraction], values["reinit"][:, fraction], digits=2)
    text = (
        f"{epochs} epochs, {100 * SHIPPED_LEFT[fraction]:.1f} % of the weights: ticket against"
        f" reinit {gap}"
    )
    plots.alt(fig, f"Test accuracy against weights remaining. {text}.")
    return text, fig


widgets.explorer(
    explore_budget,
    epochs=widgets.choice(BUDGETS, label="epochs"),
    fraction=widgets.slider(1, len(SHIPPED_LEFT) - 1, 1, at_9, "round"),
)

# %% [markdown]
# ## What you take with you
#
# - A ticket is a mask *and* the initial weights under it. Each control takes one of the
#   two away, and only together they say which part does the work.
# - "Faster" and "better" are two claims. Here the first holds; the second mostly fades
#   with a longer training. Ask every paper for its budget.
# - Rewinding means *everything*: weights, buffers, and a fresh optimizer.
#   `state_dict()` is not a copy.
# - A control that is easy to get wrong: same counts per layer, same distributions,
#   another seed, and no trace in the global generator.
# - The lottery is expensive: the small network was found by training the large one
#   again and again. Dynamic sparse training looks for places while it trains; how much
#   it gains depends on how bad the places were.
#
# ## Going further
#
# - **Real data.** `DATA = "mnist"` above: the paper's experiment on your machine, with
#   a progress bar; stop it and go on whenever you like.
# - **Rewind later.** Give `find_ticket` a `rewind_step` of 19, 95, 285 on the digits.
#   Where do tickets become worse, and why must they, in the end?
# - **Where is the information?** Keep the ticket's mask and only the *signs* of $w_0$
#   (all weights of the same size). Zhou et al. (2019, "Deconstructing lottery tickets")
#   found that signs are most of it.
# - **On a GPU, or a cluster.** `find_tickets` takes any `concurrent.futures` executor,
#   a Dask client's as well.
# - **Read.** J. Frankle, M. Carbin, *The Lottery Ticket Hypothesis*, 2019. J. Frankle
#   et al., *Linear Mode Connectivity and the Lottery Ticket Hypothesis*, 2020
#   (rewinding). Z. Liu et al., *Rethinking the Value of Network Pruning*, 2019 (the
#   objection). D. Mocanu et al., *Scalable Training of Artificial Neural Networks with
#   Adaptive Sparse Connectivity*, 2018 (SET). U. Evci et al., *Rigging the Lottery*,
#   2020 (RigL).
# - **Next.** All these zeros are strewn about, and no machine runs faster for them. Lab
#   04 takes whole filters *out*.
