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
# | B · Is it a ticket? | 3.4 a fair control | what matters: the places, the initial weights, the budget, the step to rewind to |
# | C · Sparse from the first step | 3.5 drop and grow, 3.6 two short answers | whether a sparse network can find its places while it trains |
#
# 16 points; about 3 hours.
#
# **Prerequisites.** Lab 01 (masks, iterative pruning, random baselines, intervals);
# `state_dict` and optimizers in PyTorch.
#
# Symbols, terms and the meaning of ±: [one page for all labs](../docs/notation.md).
#
# **After this lab you can**
#
# - search for a ticket by iterative magnitude pruning with rewinding;
# - choose controls that differ from the ticket in one thing only;
# - say when to rewind to a later step than 0;
# - distinguish "learns faster" from "ends better", and say at which budget;
# - train a network that is sparse from the first step.
#
# `check("3.1")` and `skip("3.1")` work as in lab 01, and the three rules of lab 01
# hold: **guess first**; **choose on validation data**; **no claim without a random
# baseline and three seeds**.

# %%
from course_lib.grading import check, skip  # noqa: F401  (skip is yours to use)

# isort: split
import copy
from collections.abc import Callable

import numpy as np  # noqa: F401  (yours to use)
import torch
from torch import Tensor, nn

from course_lib import devices, experiments, models, parallel
from course_lib.data.images import load
from course_lib.experiments import lab03
from course_lib.pruning.weights import prune_lowest, reinitialise
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
# **8,000**: your search of 16 rounds then takes some minutes.

# %%
DATA = "digits"  # or "mnist"
DEVICE = devices.use("cpu")  # or "cuda"
SETTINGS = lab03.SETTINGS[DATA]
# a small network trains fastest on one core
torch.set_num_threads(1)
data = load(DATA)
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
# **8 minutes · 2 points**
#
# Each round prunes a share $r$ of the *survivors* (the weights that are still kept), in
# each layer separately. So layer $l$ with $n_l$ weights keeps, up to rounding,
#
# $$n_l\,(1 - r_l)^t \quad\text{after } t \text{ rounds.}$$
#
# To keep a share $s$, you therefore need $t = \log s / \log(1 - r)$ rounds. Frankle and
# Carbin prune the small output layer at half the rate. `prune_lowest` of lab 01 is yours to
# use.
#
# *With pen and paper:* about how many rounds at $r = 0.2$ leave 5 % of the weights?
#
# **What is tested**: exact numbers per layer; the output layer's rate, given (also 0)
# or by default; only survivors are ranked, also where their value is 0.


# %%
def shrink(
    weights: dict[str, Tensor],
    masks: dict[str, Tensor],
    rate: float,
    output_rate: float | None = None,
) -> dict[str, Tensor]:
    """Prune a share of the kept weights, layer by layer.

    Args:
        weights: name -> trained weight, any shapes.
        masks: name -> bool mask of the same shape, True = kept, with the same keys.
        rate: the share of each layer's kept weights to prune, in [0, 1].
        output_rate: the share for the last key, the output layer. None: half of
            ``rate``.

    Returns:
        New bool masks with the same keys, in the same order. In a layer with n kept
        weights ``round(rate * n)`` of these are pruned: those with the smallest |w|, of
        equal ones the first. Pruned weights remain pruned.

    >>> mask = torch.tensor([True, True, True, False, True])
    >>> shrink({"out": torch.tensor([4.0, 1.0, -2.0, 0.0, 3.0])}, {"out": mask}, 1.0)
    {'out': tensor([ True, False, False, False,  True])}
    """
    ### BEGIN SOLUTION
    if output_rate is None:
        output_rate = rate / 2
    *_, output = weights
    smaller = {}
    for name, w in weights.items():
        size = w.detach()[masks[name]].abs()  # (kept,): pruned weights are not ranked
        count = round((output_rate if name == output else rate) * len(size))
        smaller[name] = masks[name].clone()
        smaller[name][masks[name]] = prune_lowest(size, count)
    return smaller
    ### END SOLUTION


# %%
check("3.1")

# %% [markdown]
# <details><summary>Hint 1: which weights are ranked?</summary>Only the survivors: the
# value of a pruned weight does not matter. How do you get a 1-D list of the survivors
# alone?</details>
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
#   round "rewinds" to trained weights. (`p.data = state[name].clone()` is safe.)
#
# Write it yourself: not `torch.nn.utils.prune`, and of `course_lib.pruning` only
# `prune_lowest`.
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
# Write it yourself: not `torch.nn.utils.prune`, and of `course_lib.pruning` only
# `prune_lowest`.
#
# **What is tested**: which calls of `train` are made, in which order; that `build` is called
# once; each round starts from $w_k$ and prunes by the last trained values; every key of the
# records;
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
        build: ``build()`` makes the untrained model. It is called once.
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
train = lab03.trainer(data, 0, SETTINGS)
mine = find_ticket(lambda: lenet(0), train, SETTINGS["rounds"], rate=0.2)
for record in mine[::3]:
    print(f"{record['remaining']:.1%} of the weights: {record['result']['accuracy']:.1f} %")

# %% [markdown]
# ## Part B · Is it a ticket?
#
# Half of the weights learn as well as all of them. This proves little: perhaps *any*
# half would. A ticket is a mask and the initial weights under it; each control changes one
# of the two. And two rivals are what you would do if you had never heard of tickets.
#
# | | mask | starts from |
# |---|---|---|
# | **ticket** | found by the search | $w_0$ |
# | **reinit** | found by the search | new random weights |
# | **random mask** | as many kept weights per layer, at random places | $w_0$ |
# | **no rewinding** | the same search | the trained weights of the last round |
# | **small dense** | none: narrower layers with as many weights | new random weights |

# %% [markdown]
# ### 3.4 A fair control
# **12 minutes · 2 points**
#
# **a.** `random_ticket` changes the places and nothing else. So it must keep the number of
# weights **in each layer**, and every choice of places within a layer is equally likely.
#
# **b.** You want to know whether the *places* matter at 9 % of the weights. Which control
# is fair?
#
# - **A.** Shuffle the kept places of all layers together; start from $w_0$.
# - **B.** As many kept weights in each layer, at random places; start from $w_0$.
# - **C.** As many kept weights in each layer, at random places; start from new random
#   weights.
# - **D.** Keep in each layer as many weights as the ticket does: those where $|w_0|$ is
#   largest.
#
# (Reinit needs the layers' own distributions, and *another seed than that of $w_0$*:
# otherwise the "control" is the ticket. It is given: `reinitialise`.)
#
# **What is tested**: the number per layer; places that are random, equally likely, drawn
# per layer and from the generator only; masks are not changed; the letter.
#
# *Before you look:* with 9 % of the weights kept, what test accuracy, in %, will the
# *random mask* have?

# %%
### BEGIN SOLUTION
prediction_3_4 = 93
answer_3_4 = "B"
### END SOLUTION


# %%
def random_ticket(masks: dict[str, Tensor], generator: torch.Generator) -> dict[str, Tensor]:
    """Draw masks with as many kept weights per layer as ``masks``, at random places.

    Args:
        masks: name -> bool mask, True = kept. Not changed.
        generator: the only source of randomness:
            ``torch.rand(shape, generator=generator)``, for example.

    Returns:
        New bool masks with the same keys, shapes and number of True in each.

    >>> ticket = random_ticket({"w": torch.tensor([True, False, True])}, torch.Generator())
    >>> int(ticket["w"].sum())
    2
    """
    ### BEGIN SOLUTION
    return {
        name: prune_lowest(torch.rand(mask.shape, generator=generator), int((~mask).sum()))
        for name, mask in masks.items()
    }
    ### END SOLUTION


# %%
check("3.4")

# %% [markdown]
# <details><summary>Hint: as many, elsewhere</summary>Give each place a random score. How
# many places must go in each layer?</details>

# %% [markdown]
# #### Experiment 1: the ticket, its controls and its rivals
#
# All arms have the same steps in each training, the same order of the images and, where
# they can, the same $w_0$: so differences are taken **in pairs**. The figure is drawn from
# stored runs; the diamond is your own search, and the star your guess.

# %%
rounds = lab03.stored("digits")
nine = next(record for record in mine if record["remaining"] < 0.1)
yours = {"your search": (nine["remaining"], nine["result"]["accuracy"])}
title = "Ticket, controls and rivals: which is most accurate?"
lab03.draw_rounds(rounds, title, guess=(0.09, prediction_3_4), paper=yours, ylim=(90, 99))

# %%
some = lab03.near(rounds, (0.51, 0.215, 0.09, 0.059))
tables.show(tables.compare(some, "test", against="ticket", columns="remaining", digits=2))

# %% [markdown]
# {{claim 03.1}}
#
# But compare the ticket with its rivals in the table, too. Is it better than a small dense
# network with as many weights? Than the search without rewinding?
#
# Rewinding is what makes it a *ticket*, that is, an experiment about the beginning of
# training. Whether it also makes a better network is another question: the search without
# rewinding costs the same number of trainings.
#
# #### The paper's own experiment: MNIST
#
# Frankle and Carbin measure accuracy **at the early stop**, the step with the lowest
# validation loss, because after it a network only overfits. They find the ticket more than
# 0.3 points *above* the dense network at 13.5 % of the weights, back at its accuracy at
# 3.6 %, and below it at 2.9 %; reinit needs 2.51 times the ticket's steps to its early stop
# at 21.1 %. Here are three seeds with 8,000 iterations instead of 50,000, and the accuracy at
# the stop on the validation images. (The rivals were not trained on MNIST.)

# %%
on_mnist = lab03.stored("mnist")
title = "MNIST: validation accuracy at the early stop"
look = {"ylabel": "validation accuracy at the early stop (%)", "ylim": (94, 99)}
lab03.draw_rounds(on_mnist, title, y="stopped", **look)

# %% [markdown]
# {{claim 03.6}}
#
# With 2.9 % of the weights the ticket is below the dense network, as in the paper. (At the
# *end* of training the picture differs: 40 % of the dense training comes after its stop.)

# %% [markdown]
# <details><summary>Steps to the early stop, all arms</summary>
#
# The controls with few weights stop near the end of training (8,000 steps): with a longer
# training their stop may come later. See the dense network's row, too.
#
# </details>

# %%
tables.means(
    lab03.near(on_mnist, (0.211, 0.135, 0.036)), "early_stop", columns="remaining", digits=0
)

# %% [markdown]
# #### Experiment 2: before any training
#
# Some tickets need ten or twenty steps: less than one pass over the data. Apply the
# ticket's mask to $w_0$, **train nothing**, and measure the accuracy.
#
# *Before you run it:* ten classes, random initial weights, not one step of training.
# What will the validation accuracy be, in %?

# %%
### BEGIN SOLUTION
prediction_3_4a = 10  # one class of ten, guessed
### END SOLUTION

# %%
before = lab03.untrained({0: mine}, data, rewind, random_ticket, reinitialise)
look = {"ylim": (0, 102), "constant": 10, "guess": (None, prediction_3_4a)}
lab03.draw_untrained(before, "Accuracy before any training (your search)", **look)

# %% [markdown]
# **Choosing which weights are kept is a way of training.** Training made the pruned weights
# smaller. Setting them to zero moves them further in the same direction. So the mask contains
# training. Zhou et al. ([2019, "Deconstructing lottery
# tickets"](https://arxiv.org/abs/1905.01067)) found this on MNIST and called such masks
# *supermasks*.

# %% [markdown]
# #### Experiment 3: longer training
#
# All arms had the same budget (training steps), so the comparison was fair. But it was
# *one* budget. Now all arms get more epochs, and the search is repeated for each budget.
#
# *Before you look:* with three times as many epochs, will the order of the arms be the same?

# %%
by_budget = experiments.read("lab03_tickets_digits/rounds")
nine_per_cent = lab03.near(by_budget, [0.09])
title = "Does longer training close the gap? (digits, 9.0 % of the weights)"
plots.curves(nine_per_cent, x="epochs", y="test", control="random mask", title=title)

# %%
tables.compare(nine_per_cent, "test", against="ticket", columns="epochs", digits=2)

# %% [markdown]
# {{claim 03.2}}
#
# {{claim 03.4}}
#
# With 30 epochs the mask seems to contain information about the task; with 90 the same
# comparison has the opposite sign. So neither sentence holds without its budget. And by
# definition, a ticket must be as good as the dense network:
#
# {{claim 03.5}}
#
# {{claim 03.3}}
#
# What stays is the advantage in *steps*, and a small one over reinit. (A run that never reaches 95 % counts with its last
# step: its true number is larger.)

# %%
tables.means(lab03.with_last_step(nine_per_cent), "steps", columns="epochs", digits=0)

# %% [markdown]
# #### Experiment 4: back to $w_k$
#
# Liu et al. ([2019, "Rethinking the value of network
# pruning"](https://arxiv.org/abs/1810.05270)) objected: in deep networks with a **large
# learning rate** and a full schedule, new random weights did as well as the winning ticket.
# (For unstructured pruning on ImageNet they, too, found new random weights worse than
# fine-tuning.) The answer of [Frankle et al. (2020)](https://arxiv.org/abs/1912.05671): with
# that learning rate there is no ticket at $w_0$, but there is one at $w_k$, after a small
# part of the training. So the objection led to `rewind_step`.
#
# Here is your `rewind_step` on a deeper network: four convolutions with batch norm, SGD with
# a learning rate of 0.2, half of the weights pruned per round. Each control has as many
# weights per layer and starts from the same $w_k$.
#
# *Before you look:* with 2 % of the weights, by how many points is the ticket from $w_k$
# better than the ticket from $w_0$?

# %%
### BEGIN SOLUTION
prediction_3_4b = 3
### END SOLUTION

# %%
rewound = lab03.stored_rewinding()
title = "Does it help to rewind to a later step?"
lab03.draw_rewinding(rewound, title)

# %%
tables.show(lab03.compare_steps(rewound))

# %% [markdown]
# With 1.7 % of the weights the ticket from $w_0$ is 13 points better than a random mask, but
# about 4 below the dense network, and three seeds cannot tell the two steps apart. So the
# answer to the objection does not show here (and the objection itself, new random weights,
# was not tested). The papers' networks are deeper (ResNet-20, VGG-16 and ResNet-50) and train
# for many more epochs. A small experiment cannot refute them: try $k > 0$ on *your* network
# before you say that it has no ticket.

# %% [markdown]
# ## Part C · Sparse from the first step
#
# A ticket is found by training a dense network many times. If even one dense training
# is too large for your machine, you must train a sparse network from the start, and
# choose the places *before* you have any information. The random mask above was chosen
# in this way, and with 30 epochs it was the worst of the three arms.
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
# ### 3.5 Drop and grow
# **15 minutes · 3 points**
#
# Use the **dense** gradient. A masked gradient is 0 at exactly the places where
# connections can grow. (So RigL needs the dense gradient once every $\Delta T$ steps.)
#
# A connection that has just been dropped competes, too: it may grow again. Then nothing
# happens to it, and it keeps its weight (as in the authors' code).
#
# **What is tested**: which connections are dropped and grown, and how many; of equal values
# the first; new weights are 0, all other kept weights keep their values; arguments are not
# changed.


# %%
def drop_and_grow(
    weight: Tensor, dense_grad: Tensor, mask: Tensor, fraction: float
) -> tuple[Tensor, Tensor]:
    """Exchange a share of a layer's connections: drop small |w|, grow large |dense_grad|.

    Args:
        weight: any shape. Not changed.
        dense_grad: the gradient of the loss at *all* positions, the same shape.
        mask: bool, the same shape, True = active. Not changed.
        fraction: the share f of the active weights to exchange, in [0, 1].

    Returns:
        ``(new weight, new mask)``. With k = round(fraction * active):
        1. The k active positions with the smallest |weight| are dropped.
        2. Of all positions that are now inactive, the k with the largest |dense_grad| grow.
        3. The new weight keeps its value where a position is active before and after, and
        is 0 elsewhere.
        Of equal values the first is dropped, or grown, first.

    >>> weight, mask = torch.tensor([1.0, 3.0, 0.0, 0.0]), torch.tensor([True, True, False, False])
    >>> drop_and_grow(weight, torch.tensor([1.0, 0.0, 2.0, 5.0]), mask, 0.5)
    (tensor([0., 3., 0., 0.]), tensor([False,  True, False,  True]))
    """
    ### BEGIN SOLUTION
    k = round(fraction * int(mask.sum()))
    after = mask.clone()
    after[mask] = prune_lowest(weight.detach()[mask].abs(), k)
    free = (~after).flatten().nonzero().flatten()  # positions, in row-major order
    gains = dense_grad.detach().flatten()[free].abs()
    # stable: of equals the first grows
    after.view(-1)[free[gains.argsort(stable=True, descending=True)[:k]]] = True
    return weight.detach().masked_fill(~(mask & after), 0), after
    ### END SOLUTION


# %%
check("3.5")

# %% [markdown]
# <details><summary>Hint 1: two
# steps</summary><code>prune_lowest(weight[mask].abs(), k)</code> says which active positions
# stay. What is inactive after that, is free to grow.</details>
# <details><summary>Hint 2: the largest</summary><code>argsort(stable=True,
# descending=True)</code>; <code>topk</code> may take any of equal values.</details>
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
# each](../course_lib/experiments/lab03.py). The optimizer holds the parameter `w`, so the
# new values are copied into it.)


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
            values, mask = drop_and_grow(w.detach(), gains, mask, share)
            w.data.copy_(values)
        else:
            optimizer.step()
    return mask


# %%
masks = {"ticket, 9 %": nine["masks"]["fc1.weight"], "random, 5 %": train_moving(0)}
masks["RigL, 5 %"] = train_moving(380)
masks["SET, 5 %"] = train_moving(380, by_gradient=False)
lab03.pixels(masks, data, "Which pixels have connections?")

# %% [markdown]
# A pixel is *blank* if its average over the training images is less than 1 % of black. The
# ticket keeps few connections of blank pixels, and RigL moves connections from blank pixels to
# others; the numbers above the pictures show how far this goes. SET loses a few of the useless
# connections, too: a weight without a gradient does not become larger, so it is among the
# smallest and is dropped sooner or later. But SET draws new connections at blank pixels again.
#
# This code has a flaw that no test finds: Adam's moments at a dropped or new place come
# from a connection that no longer exists. The library sets these moments to zero.
#
# #### Experiment 5: does it pay?
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
with parallel.processes() as pool:
    moving = lab03.static_and_moving(DATA, cases, executor=pool, **lab03.SPARSE[DATA])
title = "Test accuracy with fixed and with moving connections"
plots.bars(moving, x="case", y="test", by="method", title=title, fmt="{:.0f}")

# %%
tables.compare(moving, "test", against="random mask", columns="case")

# %% [markdown]
# - Where the places are bad, moving them can help. With uniform densities the output layer
#   gets 50 of its 1,000 weights, and most units of the second hidden layer have no outgoing
#   connection. At 2 % even Erdős–Rényi leaves too few. Which of these gains can four
#   seeds detect?
# - Where the places are good enough, moving them hardly helps: at 5 % with Erdős–Rényi
#   densities, a fixed random mask is within a point or two of a moving one. With uniform
#   densities, moving connections also repairs a bad layout. One number cannot separate the
#   two effects. (RigL's own uniform layout keeps the first layer dense.)
#
# **What the paper found.** Evci et al. (2020), ResNet-50 on ImageNet, dense 76.8 %: at
# 80 % sparsity RigL reached with Erdős–Rényi-kernel densities 75.1 % in the same number
# of steps, and 77.2 % with five times as many ([authors'
# repository](https://github.com/google-research/rigl)). So the budget matters there as
# well.
#
# Compare the ticket at about the same density (the last points of experiment 1). But its
# search trained a dense network and then one network per round. At equal *steps* you compare
# only the masks of this part.

# %% [markdown]
# ### 3.6 Two short answers
# **10 minutes · 1 point**
#
# A ticket is found by as many trainings as there were rounds, one after the other; a random
# mask takes one. A ticket is worth its cost if it is used again: on other data, with other
# optimizers, or to learn what a network needs. It does not save training time. (Cheaper
# searches are ["early-bird tickets"](https://arxiv.org/abs/1909.11957), pruning at
# initialisation and this part's methods.)
#
# **What is tested**: the letters of **a** and **b**.
#
# **a.** In experiment 1 the ticket was better than both controls at 9 % of the weights. What
# follows from this result, at this budget?
#
# - **A.** A network with so few weights learns faster because there is less to learn;
#   any tenth of the weights does as well.
# - **B.** Places and initial weights belong together: the ticket loses its lead when
#   either of them is replaced.
# - **C.** The mask is the ticket: with its places, any initial weights do as well.
# - **D.** The initial weights are the ticket: with them, any places do as well.
#
# **b.** Differences of this lab, with their 95 % intervals:
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
answer_3_6a = "B"
answer_3_6b = "A"
### END SOLUTION

# %%
check("3.6")

# %% [markdown]
# ## What you take with you
#
# - A ticket is a mask *and* the initial weights under it. Each control changes one of the
#   two; you need both controls to know which part matters.
# - "Faster" and "better" are two claims. Here the first holds; the second mostly
#   disappears with longer training. Check the training budget of every paper.
# - Rewind *everything*: weights and buffers, and use a new optimizer. `state_dict()` is
#   not a copy.
# - A control needs the same counts per layer, the same distributions and another seed. A
#   rival needs the same training: a small dense network, a search without rewinding.
# - Rewinding to $w_k$ answers the objection that large learning rates leave no ticket at
#   $w_0$. On our small network three seeds show no difference;
#   measure it on yours.
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
# - **Only signs.** Keep the ticket's mask and only the *signs* of $w_0$ (all weights of the
#   same size). Zhou et al. (2019) found that signs matter most.
# - **On a cluster.** `find_tickets` takes any `concurrent.futures` executor, also that
#   of a Dask client.
# - **Read** the papers linked above.
# - **Next.** These zeros are at scattered places and make no machine faster. In lab 04
#   you remove whole filters.
