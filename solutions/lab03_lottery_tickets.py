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
# **You can prune nine of ten weights of a trained network. So why train all ten? Did a
# small network exist inside the large one from the beginning, and could you have
# trained the small network alone?**
#
# [Frankle and Carbin (2019)](https://arxiv.org/abs/1803.03635) answered with a
# hypothesis: *a randomly initialised, dense network contains a subnetwork that is
# initialised such that, trained in isolation, it can match the accuracy of the dense
# network after at most as many steps.* They called it a **winning ticket**: its initial
# weights have won the lottery. You will search for tickets, and compare them with
# controls, which differ from the ticket in one thing.
#
# | part | you write | you find out |
# |---|---|---|
# | A · The search | 3.1 shrink, 3.2 rewind, 3.3 find a ticket | how small a network can be and still learn as well |
# | B · Is it a ticket? | 3.4 two controls, 3.5 early stopping | what matters: the places, the initial weights, or both |
# | C · Sparse from the first step | 3.6 drop and grow | whether a sparse network can find its places while it trains |
# | D · What was it worth? | 3.7 two short answers, 3.8 a bug hunt (optional) | bits, MACs, and the cost of the search |
#
# 19 points; about 3 hours without the optional exercise 3.8. Its 1 bonus point can
# replace points that you lose elsewhere in the lab. To leave it out, write
# `skip("3.8")` in a cell: the lab continues with the course's version.
#
# **Prerequisites.** Lab 01 (masks, iterative pruning, random baselines, intervals);
# `state_dict` and optimizers in PyTorch.
#
# Symbols, terms and the meaning of ±: [one page for all labs](../docs/notation.md).
#
# **After this lab you can**
#
# - search for a ticket by iterative magnitude pruning with rewinding;
# - build controls that differ from the ticket in one thing only;
# - distinguish "learns faster" from "ends better", and say at which budget;
# - train a network that is sparse from the first step.
#
# `check("3.1")` and `skip("3.1")` work as in lab 01, and the three rules of lab 01
# hold: **guess first**; **choose on validation data**; **no claim without a random
# baseline and three seeds**.

# %%
from functools import partial

from course_lib.grading import check, skip  # noqa: F401  (skip is yours to use)

# isort: split
import copy
import math
from collections.abc import Callable

import numpy as np  # noqa: F401  (yours to use)
import torch
from torch import Tensor, nn

from course_lib import devices, experiments, ledger, models, parallel, training
from course_lib.data.images import load
from course_lib.experiments import lab03
from course_lib.show import drawings, plots, tables
from course_lib.show.words import say

# %% [markdown]
# The picture shows the whole lab, drawn from a real search in a small layer. From left
# to right: train, prune the smallest weights, set the kept weights back to their
# initial values (**rewind**), and train again.

# %%
plots.show(drawings.pruning_rounds(3, 0.2))

# %% [markdown]
# ## Settings
#
# The default data are scikit-learn's handwritten digits: 1,797 *real* 8×8 images. The
# network and the training are those of the paper: LeNet-300-100 (two hidden layers of
# 300 and 100 units), Adam with learning rate 1.2e-3, batches of 60. Each round prunes a
# fifth of the kept weights, a tenth in the output layer.
#
# For MNIST change one word. The paper trains for 50,000 iterations on MNIST. We stop at
# **8,000**: 16 rounds of three arms (the ticket and two controls) with three seeds, 147
# trainings, then take half an hour on two cores. Finished trainings are stored, and an
# interrupted run continues where it stopped.

# %%
DATA = "digits"  # or "mnist"
DEVICE = devices.use("cpu")  # or "cuda"
SEEDS = 3
SETTINGS = lab03.SETTINGS[DATA]
# a small network trains fastest on one core; two trainings then run side by side
torch.set_num_threads(1)
data = load(DATA)
LAST = lab03.last_step(data, SETTINGS)  # of every training
say(lab03.describe(data, SETTINGS))


def lenet(seed: int) -> nn.Module:
    return models.build("lenet300", data, seed=seed)


# %% [markdown]
# ## Part A · The search
#
# *Iterative magnitude pruning* with rewinding:
#
# 1. Start from random weights $w_0$. Train.
# 2. Prune $p$ % of the kept weights, the smallest $|w|$ first.
# 3. Set the kept weights back to their values in $w_0$: **rewind**. Train again. Repeat
#    from 2.
#
# The search chooses weights by their *trained* values, and then discards these values.
# All that remains of the training is one bit per weight: is the weight kept?

# %% [markdown]
# ### 3.1 Prune a share of the kept weights
# **12 minutes · 3 points**
#
# Each round prunes a share $r$ of the *survivors* (the weights that are still kept), in
# each layer separately. So layer $l$ with $n_l$ weights keeps, up to rounding,
#
# $$n_l\,(1 - r_l)^t \quad\text{after } t \text{ rounds.}$$
#
# Frankle and Carbin prune the small output layer at half the rate.
#
# Write it yourself: not `torch.nn.utils.prune`, and nothing of `course_lib.pruning`.
#
# **What is tested**: exact numbers per layer; the output layer's rate, given (also 0)
# or by default; only survivors are ranked, whatever values pruned weights have; ties;
# rates 0 and 1; a layer without survivors; arguments are not changed.


# %%
def shrink(
    weights: dict[str, Tensor],
    masks: dict[str, Tensor],
    rate: float,
    output_rate: float | None = None,
) -> dict[str, Tensor]:
    """Prune a share of the kept weights, layer by layer.

    Args:
        weights: name -> trained weight, any shapes. Not changed. Pruned weights may
            hold any value here, also NaN.
        masks: name -> bool mask of the same shape, True = kept, with the same keys.
            Not changed.
        rate: the share of each layer's kept weights to prune, in [0, 1].
        output_rate: the share for the last key, the output layer. None: half of
            ``rate``.

    Returns:
        New bool masks with the same keys, in the same order. In a layer with n kept
        weights ``round(rate * n)`` of these are pruned: those with the smallest |w|.
        Among equal |w| the first in row-major order is pruned first. Pruned weights
        remain pruned.

    Raises:
        ValueError: if ``rate`` or ``output_rate`` is outside [0, 1].

    >>> mask = torch.tensor([True, True, True, False, True])
    >>> shrink({"out": torch.tensor([4.0, 1.0, -2.0, 0.0, 3.0])}, {"out": mask}, 1.0)
    {'out': tensor([ True, False, False, False,  True])}
    """
    if not 0 <= rate <= 1 or not (output_rate is None or 0 <= output_rate <= 1):
        raise ValueError(
            f"rate and output_rate are shares and must lie in [0, 1], got {rate}, {output_rate}"
        )
    ### BEGIN SOLUTION
    if output_rate is None:
        output_rate = rate / 2
    *_, output = weights
    smaller = {}
    for name, w in weights.items():
        alive = masks[name]
        size = w.detach()[alive].abs()  # (kept,), in row-major order; pruned weights are not ranked
        count = round((output_rate if name == output else rate) * len(size))
        keep = torch.ones_like(size, dtype=torch.bool)
        keep[size.argsort(stable=True)[:count]] = False  # stable: of equals the first is pruned
        smaller[name] = alive.clone()
        smaller[name][alive] = keep
    return smaller
    ### END SOLUTION


# %%
check("3.1")

# %% [markdown]
# <details><summary>Hint 1: which weights are ranked?</summary>Only the survivors: the
# value of a pruned weight does not matter. How do you get a 1-D list of the survivors
# alone? You ranked such a list in 1.1 of lab 01.</details>
# <details><summary>Hint 2: back to the layer</summary>Indexing with a bool tensor selects
# elements, and can also write them: it may stand on the left of
# <code>=</code>.</details>
# <details><summary>Hint 3: which layer is the last?</summary>A dict keeps its order:
# <code>list(weights)[-1]</code>. And <code>output_rate=0</code> is a rate, not a
# missing one: test <code>is None</code>.</details>

# %%
example = {name: p.detach() for name, p in lenet(0).named_parameters() if p.ndim >= 2}
alive = {name: torch.ones_like(w, dtype=torch.bool) for name, w in example.items()}
for _ in range(13):
    alive = shrink(example, alive, 0.2)
for name, mask in alive.items():
    print(f"{name}: {int(mask.sum()):,} of {mask.numel():,} kept ({mask.float().mean():.1%})")
kept = torch.cat([mask.flatten() for mask in alive.values()]).float().mean()
say(f"Of all weights **{100 * kept:.1f} %** are kept.")

# %% [markdown]
# ### 3.2 Back to the beginning
# **8 minutes · 3 points**
#
# Rewind *everything*: weights, biases, and **buffers** (batch norm's running mean and
# variance are no parameters, but training changes them, too; see lab 01). Only pruned
# weights become zero.
#
# Two mistakes are hard to find, because nothing crashes:
#
# - `state = model.state_dict()` is not a copy. It refers to the same tensors, and the
#   next training changes them.
# - If the model gets *new* tensors (`load_state_dict(…, assign=True)`, or
#   `p.data = state[name]`), training then changes the saved state itself, and the next
#   round "rewinds" to trained weights.
#
# Write it yourself: not `torch.nn.utils.prune`, and nothing of `course_lib.pruning`.
#
# **What is tested**: all parameters and buffers; zeros where a mask is False, whatever
# `state` contains; parameters without a mask; `state` keeps its values when the model
# is trained afterwards; tensors stay the same objects.


# %%
def rewind(model: nn.Module, state: dict[str, Tensor], masks: dict[str, Tensor]) -> None:
    """Reset a trained model to an earlier state, in place, with the pruned weights at 0.

    Args:
        model: its parameters and buffers take the values of ``state``; they stay the
            same tensors.
        state: name -> value for all parameters and buffers:
            ``copy.deepcopy(model.state_dict())`` of an earlier step. Copy from it: later
            changes of the model must not change ``state``.
        masks: parameter name -> bool mask, True = kept. Where it is False the parameter
            is 0 afterwards. Parameters without a mask take all values of ``state``.

    >>> model, state = nn.Linear(2, 1, bias=False), {"weight": torch.tensor([[5.0, 7.0]])}
    >>> rewind(model, state, {"weight": torch.tensor([[True, False]])})
    >>> model.weight.tolist(), state["weight"].tolist()
    ([[5.0, 0.0]], [[5.0, 7.0]])
    """
    ### BEGIN SOLUTION
    model.load_state_dict(state)  # copies the values into the model's own parameters and buffers
    with torch.no_grad():
        for name, p in model.named_parameters():
            if name in masks:
                p.masked_fill_(~masks[name], 0)
    ### END SOLUTION


# %%
check("3.2")

# %% [markdown]
# <details><summary>Hint 1: is there a method for it?</summary>Modules can load the
# result of <code>state_dict</code>. Does this method copy the values? See the line on
# <code>assign</code> in its documentation.</details>
# <details><summary>Hint 2: then the zeros</summary>Parameters are changed in place,
# under <code>torch.no_grad()</code>; methods that do so end in
# <code>_</code>.</details>

# %%
model = lenet(0)
w_0 = copy.deepcopy(model.state_dict())
lab03.trainer(data, 0, {"epochs": 2})(model, None, 0, None)
moved = (model.fc2.weight - w_0["fc2.weight"]).abs().mean()
rewind(model, w_0, alive)
back = torch.equal(model.fc2.weight, w_0["fc2.weight"] * alive["fc2.weight"])
print(f"Two epochs had moved the weights of fc2 by {moved:.4f} on average.")
say(f"Each is back at $w_0$, bit for bit, or 0: **{back}**.")

# %% [markdown]
# With the second mistake, tickets would look *better* than they are: each round would
# start from trained weights, so the trainings of all rounds would add up.

# %% [markdown]
# ### 3.3 The search
# **25 minutes · 5 points · needs 3.1, 3.2**
#
# Now write the whole search. You are given a function
# `train(model, masks, start, stop)`, which trains from step `start` to step `stop` and
# **makes its own optimizer**. This matters because Adam's moments from the last round
# would push the rewound weights in their old direction.
#
# A new parameter is `rewind_step` = $k$. For deep networks with the usual learning rate
# and no warm-up, the search finds no ticket at $w_0$. It finds one at $w_k$, the
# weights after a small part of the dense training ([Frankle et al.
# 2020](https://arxiv.org/abs/1912.05671)). So train the dense network for $k$ steps,
# *once*, and keep $w_k$. Then $w_k$ replaces $w_0$, and every round trains from step
# $k$ to the end.
#
# Write it yourself: not `torch.nn.utils.prune`, and nothing of `course_lib.pruning`.
#
# **What is tested**: which calls of `build` and `train` are made, in which order; each
# round starts from $w_k$ and prunes by the last trained values; every key of the records;
# $k = 0$ and $k > 0$; 0 rounds.


# %%
def find_ticket(
    build: Callable[[], nn.Module],
    train: Callable[[nn.Module, dict[str, Tensor], int, int | None], object],
    rounds: int,
    rate: float,
    rewind_step: int = 0,
) -> list[dict]:
    """Prune iteratively by magnitude, with rewinding to step k = ``rewind_step``.

    Args:
        build: ``build()`` makes the untrained model.
        train: ``train(model, masks, start, stop)`` trains the model in place from step
            ``start`` to step ``stop`` (None: to the end), makes its own optimizer,
            keeps pruned weights at zero and returns a result. It is called once as
            ``train(model, masks, 0, k)`` with the dense masks, only if k > 0; and once
            in every round as ``train(model, masks, k, None)``.
        rounds: how often to prune.
        rate: the share of the kept weights to prune per round; half of it in the
            output layer, which is the last parameter with two or more dimensions.
        rewind_step: k; every round starts from w_k, the weights of step k. 0: the
            initial weights.

    Returns:
        ``rounds + 1`` records, dicts with four keys.
        ``"round"``: 0, 1, …; 0 is the dense network.
        ``"masks"``: the bool masks that this round trained with, for all parameters with
        two or more dimensions; all True in round 0.
        ``"remaining"``: the fraction of all these weights that is kept, a float.
        ``"result"``: what ``train`` returned.

    >>> build, train = lambda: nn.Linear(4, 2), lambda model, masks, start, stop: (start, stop)
    >>> records = find_ticket(build, train, rounds=1, rate=0.5, rewind_step=3)
    >>> [(r["remaining"], r["result"]) for r in records]  # the only layer is the output layer
    [(1.0, (3, None)), (0.75, (3, None))]
    """
    ### BEGIN SOLUTION
    model = build()
    weights = {name: p for name, p in model.named_parameters() if p.ndim >= 2}
    masks = {name: torch.ones_like(p, dtype=torch.bool) for name, p in weights.items()}
    if rewind_step > 0:
        train(model, masks, 0, rewind_step)
    w_k = copy.deepcopy(model.state_dict())  # a copy: training changes the tensors of state_dict()
    records = []
    for number in range(rounds + 1):
        if number:
            masks = shrink(weights, masks, rate)  # by the weights that the last round has trained
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
# build, masks that are all True, perhaps <code>train(model, masks, 0, k)</code>, keep a
# copy of the state. In the loop: shrink and rewind (not in round 0); train; append a
# record.</details>
# <details><summary>Hint 2: in which order?</summary><code>shrink</code> needs the
# trained values of the last round. So call <code>shrink</code> before
# <code>rewind</code>, which overwrites these values.</details>
# <details><summary>Hint 3: a
# copy</summary><code>copy.deepcopy(model.state_dict())</code>: see 3.2.</details>
# <details><summary>Hint 4: remaining</summary>The number of True in all masks over the
# number of entries in all masks. It is not the mean over layers, because layers differ
# in size.</details>

# %%
mine = find_ticket(lambda: lenet(0), lab03.trainer(data, 0, SETTINGS), rounds=3, rate=0.2)
reached = [record["result"]["accuracy"] for record in mine]
say(f"Test accuracy by round, from dense to half: {reached} %.")

# %% [markdown]
# ## Part B · Is it a ticket?
#
# Half of the weights learn as well as all of them. This proves little: perhaps *any*
# half would. A ticket consists of a mask and the initial weights under it. So there are
# two controls, and each changes one of these two parts.
#
# | | mask | initial weights |
# |---|---|---|
# | **ticket** | found by the search | $w_0$ |
# | **reinit** | found by the search | drawn again |
# | **random mask** | as many kept weights per layer, at random places | $w_0$ |

# %% [markdown]
# ### 3.4 Two controls
# **12 minutes · 3 points**
#
# A control must differ in *one* thing only.
#
# - `random_ticket` must keep the number of weights **in each layer**. The search keeps
#   a larger share of the output layer. A control that shuffled all layers together
#   would also change the number per layer.
# - `reinitialise` must draw from **the distributions of the layers**. `torch.randn` for
#   all layers would give another network: PyTorch draws the weights of a linear layer
#   between $\pm 1/\sqrt{d_{in}}$. Every layer can draw them itself:
#   `reset_parameters()`.
# - Neither function may change the state of the global generator. This would also
#   change, for example, the order of the images in the next training.
#
# One mistake cannot be found by any test: **with the seed from which $w_0$ was drawn,
# `reinitialise` gives $w_0$ again**, and your "control" is the ticket. Use another
# seed.
#
# Write it yourself: not `torch.nn.utils.prune`, and nothing of `course_lib.pruning`.
#
# **What is tested**: the number per layer; places that are random, equally likely, drawn
# per layer and from the generator only; `reset_parameters` in order, with one seed; the
# global generator's state; parameters stay the same tensors; masks are not changed.
#
# *Before you look:* with 9 % of the weights kept, what test accuracy, in %, will the
# *random mask* have?

# %%
### BEGIN SOLUTION
prediction_3_4 = 93
### END SOLUTION


# %%
def random_ticket(masks: dict[str, Tensor], generator: torch.Generator) -> dict[str, Tensor]:
    """Draw masks with as many kept weights per layer as ``masks``, at random places.

    Args:
        masks: name -> bool mask, True = kept. Not changed.
        generator: the only source of randomness:
            ``torch.randperm(n, generator=generator)``, for example.

    Returns:
        New bool masks with the same keys, shapes and number of True in each. Within a
        layer every choice of positions is equally likely.

    >>> ticket = random_ticket({"w": torch.tensor([True, False, True])}, torch.Generator())
    >>> int(ticket["w"].sum())
    2
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
    """Give the model new initial weights under the same masks, in place.

    Call ``torch.manual_seed(seed)`` once, then ``reset_parameters()`` of every module
    that has it, in the order of ``model.modules()``; then apply the masks. Restore the
    state of torch's random generator at the end.

    Args:
        model: its parameters stay the same tensors.
        masks: parameter name -> bool mask, True = kept. Where it is False the parameter
            is 0 afterwards.
        seed: of the new weights.

    >>> model, before = nn.Linear(2, 1), torch.get_rng_state()
    >>> reinitialise(model, {}, seed=0)
    >>> torch.equal(torch.get_rng_state(), before)
    True
    """
    ### BEGIN SOLUTION
    with torch.random.fork_rng():  # restores the generator's state at the end of the block
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
# <details><summary>Hint 2: restore the generator</summary><code>with
# torch.random.fork_rng():</code> restores the generator's state at the end of the
# block. Seed inside it.</details>
# <details><summary>Hint 3: which
# modules?</summary><code>for module in model.modules()</code>: test
# <code>hasattr(module, "reset_parameters")</code>. Seed once before the loop. If you
# seed inside it, layers of the same shape get equal weights.</details>

# %%
model, masks = lenet(0), mine[3]["masks"]
places = masks["fc1.weight"]
for seed in (0, 1):
    reinitialise(model, masks, seed=seed)
    same = torch.equal(model.fc1.weight, w_0["fc1.weight"] * places)
    print(f"Built from seed 0, reinitialised with seed {seed}: is it the ticket? {same}")
elsewhere = random_ticket(masks, torch.Generator().manual_seed(0))["fc1.weight"]
shared, density = elsewhere[places].float().mean(), places.float().mean()
print(
    f"A random mask shares {shared:.0%} of the ticket's places in fc1, of which {density:.0%} are kept."
)

# %% [markdown]
# ### 3.5 How early does it stop?
# **6 minutes · 1 point**
#
# The hypothesis is about accuracy *and* speed: "after training for at most the same
# number of iterations". Frankle and Carbin measure speed by the step at which the
# **validation loss** is lowest. After this step the network only overfits; a network
# that reaches it earlier has learned faster.
#
# Use the *first* minimum of the measured values. Smoothing the curve would move the
# minimum, by different amounts for steep and flat curves.
#
# Write it yourself: nothing of `course_lib.pruning`.
#
# **What is tested**: equal minima; NaN is ignored but keeps its place; infinity is a loss;
# `every` is 1 by default.


# %%
def early_stop(losses: list[float], every: int = 1) -> int:
    """Find the training step at which the validation loss was lowest; the first one, if
    there are several.

    Args:
        losses: the validation loss after ``every``, 2 ``every``, 3 ``every``, … steps.
            NaN is ignored.
        every: training steps between two measurements.

    Returns:
        ``every * (1 + index of the first minimum)``.

    Raises:
        ValueError: if there is no loss, or all of them are NaN.

    >>> early_stop([0.9, 0.4, 0.6], every=50)
    100
    """
    if all(math.isnan(loss) for loss in losses):
        raise ValueError(f"losses must have an entry that is not NaN, got {len(losses)} entries")
    ### BEGIN SOLUTION
    usable = [i for i, loss in enumerate(losses) if not math.isnan(loss)]
    return every * (1 + min(usable, key=lambda i: losses[i]))  # min returns the first of equals
    ### END SOLUTION


# %%
check("3.5")

# %% [markdown]
# <details><summary>Hint 1: counting</summary>The first loss was measured after
# <code>every</code> steps, not after 0: so add 1 to its index.</details>
# <details><summary>Hint 2: NaN</summary>Every comparison with NaN is False, so
# <code>min(losses)</code> depends on the place of the NaN. Remove NaN first, but
# keep the index of each loss.</details>

# %% [markdown]
# #### Experiment: ticket, reinit, random
#
# Now the experiment of the paper: all rounds, three arms, three seeds. `lab03.search`
# is the same search as yours, and trains both controls in every round. (It is in the
# library, since other processes must import it:
# [code](../course_lib/experiments/lab03.py).) For each seed each control shares $w_0$
# or the mask with the ticket, and all arms share the order of the images. So they can
# be compared **in pairs**.
#
# On the digits the validation loss mostly falls until training ends, so its minimum
# depends on where we stopped. So here we measure speed as **steps to 95 % validation
# accuracy**; the early-stopping step is for MNIST, below. (Choose your measure before
# you know which measure is best for the ticket.)
#
# *Before you look:* the dense network needs about 140 steps to 95 %. At 21.5 % of the
# weights, how many steps will the ticket need? (It takes about a minute.)

# %%
### BEGIN SOLUTION
prediction_3_5 = 100
### END SOLUTION

# %%
pool = parallel.processes()  # one for each core; part C uses them, too
options = {"folder": lab03.folder(DATA), "executor": pool, "progress": True}
found = lab03.search(DATA, range(SEEDS), **SETTINGS, **options)
results = lab03.rounds(found)
same = lab03.equal_masks(mine, found[0])
say(f"The masks of your three rounds are those of the library's first search: **{same}**.")

# %%
title = "Ticket, reinit or random mask: which is most accurate?"
lab03.draw_rounds(results, title, guess=(0.09, prediction_3_4))

# %%
some = lab03.near(results, (0.51, 0.215, 0.09, 0.059))
for arm in ("ticket", "random mask"):
    tables.show(tables.compare(some, "test", against=arm, columns="remaining", digits=2))

# %% [markdown]
# Now speed. A run that never reaches 95 % counts as if it had reached it at its last step:
# such a point is a *lower* bound. (Without those runs only the best seeds of the slow arms
# would be averaged.)

# %%
speed = results.fillna({"steps": LAST})
measure, label = lab03.SPEED[DATA]
lab03.draw_rounds(
    speed, "How fast does each arm learn?", y=measure, ylabel=label, guess=(0.215, prediction_3_5)
)

# %%
never = results[results["steps"].isna()].value_counts("method").to_dict()
say(f"Runs that never reached 95 %: {never}. At 21.5 % of the weights:")
tables.means(lab03.near(speed, [0.215]), lab03.MEASURES, digits=0)

# %% [markdown]
# Some tickets need ten or twenty steps: less than one pass over the data. Apply the
# ticket's mask to $w_0$, **train nothing**, and measure the accuracy.
#
# *Before you run it:* ten classes, random initial weights, not one step of training.
# What will the validation accuracy be, in %?

# %%
### BEGIN SOLUTION
prediction_3_5a = 10  # one class of ten, guessed
### END SOLUTION

# %%
before = lab03.untrained(found, data, rewind)
look = {"ylim": (0, 102), "constant": 10, "guess": (None, prediction_3_5a)}
lab03.draw_rounds(before, "Accuracy before any training", y="accuracy", **look)

# %%
best = before.groupby(["method", "remaining"])["accuracy"].mean()["ticket"].idxmax()
say(f"Untrained, with {100 * best:.0f} % of the weights.")
tables.means(before[before["remaining"] == best], "accuracy", digits=0)

# %% [markdown]
# {{claim 03.1}}
#
# {{claim 03.2}}
#
# {{claim 03.3}}
#
# **Choosing which weights are kept is a way of training.** The search sets weights to
# zero that training made smaller, which is a step in the same direction. The other
# weights have their initial values. Zhou et al. ([2019, "Deconstructing lottery
# tickets"](https://arxiv.org/abs/1905.01067)) found this on MNIST and called such masks
# *supermasks*. So a part of the ticket's speed comes from the trainings of all rounds
# before.
#
# Neither half of a ticket is enough. The same places with other weights (reinit),
# and the same weights in other places (random mask), both learn more slowly, and end at
# a lower accuracy where few weights are kept. (At which sizes can your three seeds
# detect this?) Training has chosen places *for these initial weights*.
#
# If reinit stays above the random mask where few weights are kept (see the second
# table), the places depend on the data, not only on $w_0$. This holds for the budget of
# this experiment; the next one changes the budget. Look at the first layer: how many of its connections does each pixel
# keep?

# %%
nine = next(record for record in found[0] if record["remaining"] < 0.1)  # 9 %
masks = {"ticket": nine, "random mask": nine["controls"]["random"]}
masks = {name: record["masks"]["fc1.weight"] for name, record in masks.items()}
lab03.pixels(masks, data, "Where are the connections at 9 % of the weights?")

# %% [markdown]
# Here a pixel is *blank* if its average over the training images is less than 1 % of
# black. (The numbers below the pictures are means over pixels.)

# %% [markdown]
# #### Experiment: longer training
#
# All arms had the same budget (training steps), so the comparison was fair. But it was
# *one* budget. Now all arms get more epochs, with five seeds, and the search is
# repeated for each budget. This takes too long for a lab, so the results are stored.
# (`course remake lab03_tickets_digits` repeats them in about twenty minutes on two
# cores.)


# %%
by_budget = experiments.read("lab03_tickets_digits/rounds")
nine_per_cent = lab03.near(by_budget, [0.09])
title = "Does longer training close the gap? (digits, 9.0 % of the weights)"
plots.curves(nine_per_cent, x="epochs", y="test", control="random mask", title=title)

# %%
tables.compare(nine_per_cent, "test", against="ticket", columns="epochs", digits=2)

# %% [markdown]
# On the digits most of the ticket's advantage in accuracy is an advantage in time. With
# 30 epochs the controls have not finished learning. With more epochs, reinit comes
# closer to the ticket, but the difference stays distinguishable. Between the random mask
# and the ticket we can no longer detect a difference. The advantage in *steps* remains.
#
# {{claim 03.4}}
#
# So the order of reinit and random mask depends on the budget. And by definition, a
# ticket must be as good as the dense network:
#
# {{claim 03.5}}
#
# Reporting only the shortest training budget would be accurate but misleading.
#
# Liu et al. ([2019, "Rethinking the value of network
# pruning"](https://arxiv.org/abs/1810.05270)) made this point for large networks: with
# a full training schedule and a large learning rate, a pruned architecture trained from
# new random weights did as well as the winning ticket. They conclude that the
# *architecture* matters. (For unstructured pruning on ImageNet they, too, found new
# random weights worse than fine-tuning.) The answer depends on budget, learning rate
# and size.

# %% [markdown]
# #### The paper's own experiment: MNIST
#
# The setting is that of Frankle and Carbin (16 rounds), but they train for 50,000
# iterations, and we for **8,000**. Their findings: at 21.1 % of the weights the
# reinitialised network needs 2.51 times the ticket's steps to its early stop. At 13.5 %
# the ticket is more than 0.3 points *above* the dense network; at 3.6 % it is back at
# the dense accuracy; at 2.9 % it is below. The reinitialised network is below already
# at 21.1 %. (Their accuracies are those at the early-stopping step, ours those at the
# end of training: with 8,000 iterations there is little time to overfit.)
#
# Our three seeds are stored results. (`course remake lab03_tickets_mnist` repeats them in
# half an hour; so does `DATA = "mnist"` above, with your own functions.)
#
# *Before you look:* with a sixth of the iterations, will the ticket stay above the dense
# network down to `"fewer"` or only to `"more"` weights than in the paper?

# %%
on_mnist = results if DATA == "mnist" else experiments.read("lab03_tickets_mnist/rounds")
dense = on_mnist.loc[on_mnist["method"] == "dense", "test"].mean()
paper = {"Frankle & Carbin: 0.3 above dense": (0.135, dense + 0.3), "back at dense": (0.036, dense)}
title = "MNIST: test accuracy by share of weights kept"
lab03.draw_rounds(on_mnist, title, paper=paper)

# %%
title = "MNIST: training steps, as multiples of the ticket's"
paper = {"Frankle & Carbin, reinit: 2.51": (0.211, 2.51)}
lab03.draw_rounds(lab03.times_the_ticket(on_mnist), title, y=lab03.TIMES, paper=paper)

# %%
tables.plain(lab03.beside_the_paper(on_mnist))

# %% [markdown]
# At the end of training, the ticket has the highest mean of all arms, and reinit and the
# random mask fall further. But the paper measures accuracy at the early stop:
#
# {{claim 03.6}}
#
# - At the early stop, our ticket does not rise above the dense network. At 2.9 % of the
#   weights it is below the dense network, as in the paper.
# - With three seeds we could not detect that reinit falls below the dense network at
#   41.1 % of the weights, the first share where its mean is lower.
# - Our early-stopping ratio has a wide interval, which contains their 2.51. With few
#   weights the controls still improve when training ends, and count as 8,000 steps. So
#   the true ratio is larger than the ratio in the figure.
#
# The ticket and reinit are statistically distinguishable.

# %% [markdown]
# ## Part C · Sparse from the first step
#
# A ticket is found by training a dense network many times. If even one dense training
# is too large for your machine, you must train a sparse network from the start, and
# choose the places *before* you have any information. The random mask above was chosen
# in this way, and it was the worst of the three arms.
#
# **Dynamic sparse training** moves the connections (the kept weights). Every $\Delta T$
# steps a share of them is dropped, and as many are grown elsewhere. Their number never
# changes, so each step costs as much as a sparse step.
#
# - **SET** ([Mocanu et al. 2018](https://arxiv.org/abs/1707.04780)): drop the smallest,
#   grow at *random* places.
# - **RigL** ([Evci et al. 2020](https://arxiv.org/abs/1911.11134)): drop the smallest,
#   grow where the **gradient** is largest.
#
# Why the gradient? A missing connection has weight 0, but the loss still has a derivative
# with respect to it, $g_i = \partial L/\partial w_i$. A first small step of gradient
# descent from $w_i = 0$ changes the loss by about $-\eta\,g_i^2$. So the connections with
# the largest $|g_i|$ have the largest predicted gain.

# %% [markdown]
# ### 3.6 Drop and grow
# **15 minutes · 3 points**
#
# Use the **dense** gradient. A masked gradient is 0 at exactly the places where
# connections can grow. (So RigL needs the dense gradient once every $\Delta T$ steps.)
#
# Write it yourself: not `torch.nn.utils.prune`, and nothing of `course_lib.pruning`.
#
# **What is tested**: which connections are dropped and grown, and how many; ties; new
# weights are 0, all other kept weights keep their values; fractions 0 and 1; arguments
# are not changed.


# %%
def drop_and_grow(
    weight: Tensor, dense_grad: Tensor, mask: Tensor, fraction: float
) -> tuple[Tensor, Tensor]:
    """Exchange a share of a layer's connections: drop small |w|, grow large |dense_grad|.

    Args:
        weight: any shape. Not changed.
        dense_grad: the gradient of the loss at *all* positions, also at inactive ones;
            the same shape.
        mask: bool, the same shape, True = active. Not changed.
        fraction: the share f of the active weights to exchange, in [0, 1].

    Returns:
        ``(new weight, new mask)``. With k = min(round(fraction * active), inactive):
        1. The k active positions with the smallest |weight| are dropped.
        2. Of those inactive *before* step 1, the k with the largest |dense_grad| grow.
        3. The new weight is 0 where it has just grown and where the new mask is False;
        elsewhere it keeps its value.
        Among equal values the first in row-major order is dropped, or grown, first.

    Raises:
        ValueError: if ``fraction`` is outside [0, 1].

    >>> weight, mask = torch.tensor([1.0, 3.0, 0.0, 0.0]), torch.tensor([True, True, False, False])
    >>> drop_and_grow(weight, torch.tensor([9.0, 0.0, 2.0, 5.0]), mask, 0.5)
    (tensor([0., 3., 0., 0.]), tensor([False,  True, False,  True]))
    """
    if not 0 <= fraction <= 1:
        raise ValueError(
            f"fraction is a share of the active weights and must lie in [0, 1], got {fraction}"
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
# positions in row-major order; with <code>~mask</code> the inactive ones. Make both lists
# first, then drop from one and grow from the other: so a dropped connection cannot grow
# again at once.</details>
# <details><summary>Hint 2: ties</summary><code>argsort(stable=True)</code> for the
# smallest; <code>argsort(stable=True, descending=True)</code> for the largest.
# <code>topk</code> is not stable.</details>
# <details><summary>Hint 3: the new weight</summary>It keeps its value where there is a
# connection before <i>and</i> after; it is 0 everywhere else. A new connection starts
# from 0, so that the network's output does not jump.</details>

# %% [markdown]
# #### Your own RigL, on one layer
#
# The library's version works with every optimizer and is long. Here is the idea with
# your function. The first layer of LeNet gets 5 % of its connections at random. Every
# 10 steps a share of them may move: half at first, then fewer (a cosine,
# `share_to_move`). After three quarters of the training the places are final. For SET,
# random numbers replace the gradient. (`batch_loss` and `share_to_move`: [a few lines
# each](../course_lib/experiments/lab03.py).)


# %%
def train_moving(steps: int, by_gradient: bool = True) -> Tensor:
    model, generator = lenet(0), torch.Generator().manual_seed(0)
    w, optimizer = model.fc1.weight, torch.optim.Adam(model.parameters(), lr=1.2e-3)
    mask = torch.rand(w.shape, generator=generator).to(w.device) < 0.05
    for step in range(steps):
        w.data.masked_fill_(~mask, 0)
        optimizer.zero_grad()
        lab03.batch_loss(model, data.train, generator).backward()
        if share := lab03.share_to_move(step, steps):  # this batch chooses places only
            gains = w.grad if by_gradient else torch.rand(w.shape, generator=generator).to(w.device)
            w.data, mask = drop_and_grow(w.detach(), gains, mask, share)
        else:
            optimizer.step()
    return mask


# %%
masks = {"at the start": train_moving(0), "RigL, at the end": train_moving(380)}
masks["SET, at the end"] = train_moving(380, by_gradient=False)
lab03.pixels(masks, data, "Which pixels have connections?")

# %% [markdown]
# RigL moves connections from blank pixels to others; the numbers below the pictures
# show how far this goes. SET loses a few of the useless connections, too: a weight
# without a gradient does not become larger, so it is among the smallest and is dropped
# sooner or later. But SET draws new connections at blank pixels again.
#
# This code has a flaw that no test finds: Adam's moments at a dropped or new place come
# from a connection that no longer exists. The library sets these moments to zero.
#
# #### Experiment: does it pay?
#
# We compare a fixed random mask (the control), SET and RigL at **equal steps**: an
# exchange of connections replaces a step. All three start from the same weights and the
# same random mask. We use four seeds, since such sparse networks differ more. There are
# two ways to divide the weights among the layers:
#
# - **uniform**: the same density in each layer;
# - **Erdős–Rényi**: a density in proportion to $(d_{in} + d_{out})/(d_{in}\,d_{out})$,
#   so small layers, such as the output layer, are denser.


# %%
cases = [("uniform", 0.05), ("Erdős–Rényi", 0.05), ("Erdős–Rényi", 0.02)]
with pool:
    moving = lab03.static_and_moving(DATA, cases, executor=pool, **lab03.SPARSE[DATA])
title = "Test accuracy with fixed and with moving connections"
plots.bars(moving, x="case", y="test", by="method", title=title, fmt="{:.0f}")

# %%
for method in ("random mask", "SET"):
    tables.show(tables.compare(moving, "test", against=method, columns="case"))

# %% [markdown]
# Read all rows of these tables before you conclude:
#
# - Where the places are bad, moving them can help. With uniform densities the
#   output layer gets 50 of its 1,000 weights, and most units of the second hidden layer
#   have no outgoing connection. At 2 % of the weights any layout has too few
#   connections. Are your gains largest in these two columns, and which of these gains
#   can four seeds detect?
# - Where the places are good enough, moving them hardly helps. At 5 % of the
#   weights with Erdős–Rényi densities, a fixed random mask is within a point or two of
#   a moving one. A paper with uniform densities alone reports one number for two gains:
#   moving connections *and* repairing a bad layout.
# - **RigL against SET**: are places chosen by the gradient better than random places?
#   See what four seeds can detect. Most of the difference comes from moving connections
#   at all.
#
# **What the paper found.** Evci et al. (2020), ResNet-50 on ImageNet, dense 76.8 %: at
# 80 % sparsity RigL reached with Erdős–Rényi-kernel densities 75.1 % in the same number
# of steps, and 77.2 % with five times as many ([authors'
# repository](https://github.com/google-research/rigl)). So the budget matters there as
# well.
#
# At about the same density (the last points of part B's first figure) the ticket is
# better than all three. But its search trained a dense network and then one network per
# round. At equal *steps* you compare only the masks of this part.

# %% [markdown]
# ## Part D · What was it worth?
#
# ### 3.7 Two short answers
# **10 minutes · 1 point**
#
# **What is tested**: the letters of **a** and **b**.
#
# #### Experiment: the ledger's network
#
# The course's ledger records the small conv net with batch norm. So we run your
# `find_ticket` on this network, where rewinding the *buffers* matters. Each round
# prunes half of the weights (a quarter in the output layer) and rewinds to the end of
# the first epoch, $w_k$. The control has as many weights in each layer, at random
# places, and starts from the same $w_k$. ([Code](../course_lib/experiments/lab03.py),
# for three seeds.)
#
# We choose the sparsest round whose *mean validation accuracy* is within one point of
# that of the dense networks. Then we evaluate the chosen networks on the **test images,
# once**. The size in the ledger is that of the whole model, with biases and batch norm.

# %%
conv = lab03.conv_tickets(find_ticket, random_ticket, rewind, data, range(SEEDS))
lab03.draw_rounds(conv, "Convolutional network: accuracy by share of weights kept", y="accuracy")

# %%
means = conv.groupby(["method", "round"])["accuracy"].mean()
good = means["ticket"].index[means["ticket"] >= means["dense"][0] - 1]
chosen = conv[conv["round"].isin([0, max(good, default=1)])].copy()
# the only use of the test images
chosen["test"] = [training.evaluate(network, data.test) for network in chosen["network"]]
lab03.add_to_ledger(chosen, data)
tables.show(tables.compare(chosen, "test", against="random mask"))
ledger.table()

# %% [markdown]
# As in lab 01, zeros save bits, but no milliseconds. Compare the ticket with the
# control, too: with batch norm and a network this much larger than its task requires, a
# random mask from the same $w_k$ is not far below the ticket.
#
# The table does not contain **the cost of the search**. The ticket took as many
# trainings as there were rounds, one after the other; the random mask took one. A
# ticket is worth its cost if it is used again: on other data, with other optimizers, or
# to learn what a network needs. It does not save training time, since the search has
# used it. (Cheaper searches are
# ["early-bird tickets"](https://arxiv.org/abs/1909.11957), pruning at initialisation and
# part C.)
#
# #### The two answers
#
# **a.** In the main experiment the ticket was better than both controls at less than
# 10 % of the weights. What follows from this result, at this budget?
#
# - **A.** A network with so few weights learns faster because there is less to learn;
#   any tenth of the weights does as well.
# - **B.** Places and initial weights belong together: the ticket loses its lead when
#   either of them is replaced.
# - **C.** The mask is the ticket: with its places, any initial weights do as well.
# - **D.** The initial weights are the ticket: with them, any places do as well.
#
# **b.** Differences of this lab, with their 95 % intervals, on both kinds of data:
#
# {{difference 03.2}}
# {{difference 03.4}}
# {{difference 03.6}}
#
# Which of these sentences do the intervals permit?
#
# - **A.** Which is better at 9 % of the weights, reinit or a random mask, depends on
#   the budget.
# - **B.** The mask of a ticket contains no information.
# - **C.** After 90 epochs a random mask is better than the ticket.
# - **D.** At the early stop, the ticket and the dense network are equally accurate.

# %%
# "A", "B", "C" or "D"
### BEGIN SOLUTION
answer_3_7a = "B"
answer_3_7b = "A"
### END SOLUTION

# %%
check("3.7")

# %% [markdown]
# ### 3.8 Bug hunt
# **20 minutes · 1 point · optional**
#
# Here is a version of `shrink` that looks correct. It sets pruned weights to zero, so
# that they are the smallest, and ranks the whole layer. It prunes as many weights as
# are pruned already, plus the share of the survivors. The test runs this version
# through three rounds.


# %%
def naive_test(f: Callable) -> None:
    w = {name: torch.randn(40, 25) for name in ("fc1", "fc2")}
    masks = {name: torch.ones(40, 25, dtype=torch.bool) for name in w}
    for left in ((800, 900), (640, 810), (512, 729)):
        before, masks = masks, f(w, masks, 0.2)
        assert [int(mask.sum()) for mask in masks.values()] == list(left)
        assert not any((masks[name] & ~before[name]).any() for name in w)  # still pruned


# %%
def suspicious_shrink(weights: dict, masks: dict, rate: float, output_rate=None) -> dict:
    rates = dict.fromkeys(weights, rate)
    rates[list(weights)[-1]] = rate / 2 if output_rate is None else output_rate
    left = {}
    for name, w in weights.items():
        alive = int(masks[name].sum())
        count = w.numel() - alive + round(rates[name] * alive)  # pruned before, plus the share
        size = (w.abs() * masks[name]).flatten()  # pruned weights have size 0 and come first
        mask = torch.ones_like(size, dtype=torch.bool)
        mask[size.argsort(stable=True)[:count]] = False
        left[name] = mask.view(w.shape)
    return left


naive_test(suspicious_shrink)  # raises nothing

# %% [markdown]
# It passes: the counts are right and the masks nested in all three rounds. Now take a
# layer after training with an L1 penalty, or after quantisation: some of its *kept*
# weights are exactly 0.

# %%
w = (2 * example["fc1.weight"] / example["fc1.weight"].std()).round()
half = torch.rand(w.shape, generator=torch.Generator().manual_seed(0)).to(w.device) < 0.5
print(
    f"{(w[half] == 0).float().mean():.0%} of the kept weights are 0. Pruned weights that come back:"
)
for f in (shrink, suspicious_shrink):
    after = f({"fc1": w, "out": w}, {"fc1": half, "out": half}, 0.1)["fc1"]
    print(f"{f.__name__}: {int((after & ~half).sum()):,}")

# %% [markdown]
# A sort cannot tell a kept zero from a pruned zero. The count is right, but some pruned
# weights came back.
#
# Write `find_bug(f)`. It gets a function `f(weights, masks, rate, output_rate=None)`,
# raises `AssertionError` if `f` breaks the contract of **3.1**, and returns otherwise. The
# contract in short:
#
# - the same keys in the same order; bool masks with the weights' shapes;
# - pruned weights stay pruned;
# - of a layer's n survivors exactly `round(rate * n)` are pruned; the last layer has
#   the rate `output_rate`, by default `rate / 2`;
# - the smallest $|w|$ are pruned; among equal $|w|$ the first in row-major order first.
#
# **What is tested**: versions of `shrink` with two plain mistakes (half a point) and
# with six subtle mistakes (the other half). For each half, all correct versions must
# pass, however they are written. All versions accept finite weights of any shapes, any
# masks and rates in [0, 1]; other arguments do not count. Use small inputs: a call with
# more than eight million numbers is refused, and `find_bug` has ten seconds per
# version.
#
# Try not to compare with your own `shrink`. Instead, write down which properties the
# new masks must have.


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
    # many zeros, kept and pruned
    ties = {"1": (2 * layer(9, 7)).round(), "out": (2 * layer(6, 5)).round()}
    cases = [
        (smooth, dense(smooth)),
        # pruned weights are as large as kept ones
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
            assert list(after) == list(weights), "not the layers of weights"
            for name, w in weights.items():
                share = rate
                if name == list(weights)[-1]:
                    share = rate / 2 if output_rate is None else output_rate
                alive, left = masks[name], after[name]
                case = f"layer {name} with {int(alive.sum())} of {alive.numel()} kept, rate {share}"
                assert left.dtype == torch.bool and left.shape == w.shape, (
                    f"not a bool mask of the weight's shape: {case}"
                )
                assert not (left & ~alive).any(), f"a pruned weight is kept again: {case}"
                keep = left[alive]  # (kept,), in row-major order
                assert int((~keep).sum()) == round(share * len(keep)), f"wrong number: {case}"
                if keep.any() and not keep.all():
                    size = w[alive].abs()
                    largest = size[~keep].max()
                    assert largest <= size[keep].min(), f"a larger weight was pruned: {case}"
                    # ties: all that are pruned come before all that are kept
                    tied = keep[size == largest]
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
# <details><summary>Hint 1: choose inputs that tell versions apart</summary>Layers of
# different scales (is each pruned separately?), masks that are not all True, pruned
# weights that are <i>large</i>, many equal weights, odd counts, an output rate that is
# given and one that is not, a rate of 0.</details>
# <details><summary>Hint 2: the order among equals</summary>Among the survivors that are
# as large as the largest pruned one, everything pruned must come before everything
# kept.</details>

# %% [markdown]
# ## Play
#
# The same three curves, for every budget from 30 to 150 epochs (digits, five seeds,
# stored results). How does the gap change?

# %%
play = partial(lab03.draw_budget, by_budget)
plots.explore(play, epochs=[30, 60, 90, 150], number=(1, 13))

# %% [markdown]
# ## What you take with you
#
# - A ticket is a mask *and* the initial weights under it. Each control changes one of the
#   two; you need both controls to know which part matters.
# - "Faster" and "better" are two claims. Here the first holds; the second mostly
#   disappears with longer training. Check the training budget of every paper.
# - Rewind *everything*: weights and buffers, and use a new optimizer. `state_dict()` is
#   not a copy.
# - A control needs the same counts per layer, the same distributions, another seed, and
#   must not change the global generator.
# - The search is expensive: it trains the large network again and again. Dynamic sparse
#   training searches while it trains; its gain depends on how bad the initial places
#   were.
#
# ### Five questions to recap
#
# 1. Why does each round make a new optimizer?
#    <details><summary>Answer</summary>Old moments would push the rewound weights in their
#    old direction.</details>
# 2. In what part do reinit and the random mask each differ from the ticket?
#    <details><summary>Answer</summary>Reinit in the initial weights, the random mask in the
#    places.</details>
# 3. Why can an untrained ticket be far better than random guessing?
#    <details><summary>Answer</summary>Its mask was chosen by trained values.</details>
# 4. Why rewind to $w_k$ in deep networks?
#    <details><summary>Answer</summary>With the usual learning rate and no warm-up, the
#    search finds no ticket at w_0.</details>
# 5. Why does RigL need the dense gradient?
#    <details><summary>Answer</summary>A masked gradient is 0 at all places where a
#    connection can grow.</details>
#
# ## Going further
#
# - **Real data.** `DATA = "mnist"`: the paper's experiment on your machine; you can stop it
#   and continue later.
# - **Rewind later.** Give `find_ticket` a `rewind_step` of 19, 95, 285 on the digits.
#   When do tickets become worse, and why?
# - **Only signs.** Keep the ticket's mask and only the *signs* of $w_0$ (all weights of the
#   same size). Zhou et al. (2019) found that signs matter most.
# - **On a cluster.** `find_tickets` takes any `concurrent.futures` executor, also that
#   of a Dask client.
# - **Read** the papers linked above.
# - **Next.** These zeros are at scattered places and make no machine faster. In lab 04
#   you remove whole filters.
