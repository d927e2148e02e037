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
# - train gates that are exactly 0, and reach a target size with a learned multiplier.
#
# | part | you write | question |
# |---|---|---|
# | A · Two ways to lose | 6.1 prune, then fine-tune | does pruning remove knowledge, or capacity? |
# | B · Movement | 6.2 a mask with a gradient, 6.3 movement, 6.4 soft | movement or size? |
# | C · After the step | 6.5 the proximal step after Adam | what do exact zeros cost under Adam? |
# | D · Components | 6.6 factors, 6.7 gates, 6.8 a target size | do gates find better components? |
# | E · What was it worth? | 6.9 two short answers | size, accuracy, milliseconds |
#
# 18 points; about 4 hours. After each exercise `check("6.1")` tells you what is right.
# `skip("6.1")` gives up a question: it scores 0, and the lab continues with the course's
# version.
#
# The rules are those of lab 01: guess first; choose on validation data and use the test
# data once, at the end; no claim without a random baseline and three seeds. A
# difference is *distinguishable* if its 95 % paired t-interval excludes 0.

# %%
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
from course_lib.show import drawings, plots, tables
from course_lib.show.words import pm, say

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
# Each layer has six matrices: query, key, value and output of *attention* (lab 07 has the
# details), and the two of the *feed-forward* block. They are the *encoder weights* that we
# prune. Embeddings, pooler and classifier remain dense. (Gordon et al. prune the word
# embeddings, too.)
#
# For a BERT-base on English texts the numbers would differ. One run in each of experiments 1
# to 4 is yours and live; the others are stored (`course remake lab06_weights`). The
# experiments are in [lab06.py](../course_lib/experiments/lab06.py).

# %%
DEVICE = devices.use("cpu")  # or "cuda"
SEEDS = 3
LIVE = {"steps": 200, "batch": 32, "lr": 3e-4}  # of your runs, as of the stored ones
torch.set_num_threads(1)

names = ("starts", "regimes", "learned", "l1", "ranks", "components", "open")
stored = {name: experiments.read(f"lab06_weights/{name}") for name in names}
matrices = encoder_weights(lab06.pretrained(0))
encoder = sum(w.numel() for w in matrices.values())
constant = stored["starts"].query("method == 'majority'")["accuracy"].mean()
say(f"{encoder:,} encoder weights in {len(matrices)} matrices. The new task, fine-tuned:")
tables.means(stored["starts"].query("method != 'majority'"), "accuracy")

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
        hold: True: the masked weights are 0 before fine-tuning, after every
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

# %% [markdown]
# ### Experiment 1: what was lost?
#
# Gordon et al. describe three regimes: pruning is free; then information is lost; then
# capacity. The given rule names what is lost, from three accuracies:


# %%
def regime(dense: float, held: float, let_go: float, tolerance: float) -> str:
    """Name what a pruned model has lost (accuracies and tolerance in %)."""
    if held >= dense - tolerance:
        return "nothing"
    if let_go >= dense - tolerance:
        return "capacity"
    return "information" if held >= let_go - tolerance else "both"


# %% [markdown]
# *With pen and paper:* checkpoint 1 at 80 % has 97.3 % (dense), 94.7 % (zeros held) and 96.0 %
# (let go); the tolerance is 2 points. Letting the zeros go wins only 1.3 points. What does the
# rule say, and why is that not "information"?
# <details><summary>Answer</summary>"capacity". With the zeros let go, the model is within 2
# points of the dense one, although the same information was deleted. So the information was not
# missing. What the other arm lacks is capacity.</details>
#
# Stored: the new task after fine-tuning, with zeros held, with zeros let go, and with zeros
# held at random places; also one run per arm of a real encoder (MiniLM, 6 layers of width
# 384) on 4,000 sentences from film reviews (SST-2). Live: the *old* task (sentiment), right
# after pruning; and your 6.1 at 90 %, both arms (crosses).
#
# *Before you look:* at 90 %, what accuracy on the new task, in %, will be left with the zeros
# held?

# %%
prediction_held = 90  # replace it by yours


# %%
def old_task(seed: int, sparsity: float) -> float:
    """Sentiment, right after pruning."""
    model = lab06.pretrained(seed, head=False)
    prune_then_finetune(model, lab06.choose(model, sparsity), lambda *_: None, hold=True)
    return lab06.measured(model, "sentiment")


def new_task(hold: bool) -> float:
    """The new task at 90 %, fine-tuned with your 6.1."""
    model = lab06.pretrained(0)
    tune = lambda net, post_step: lab06.finetune(net, post_step, seed=0, how=LIVE)  # noqa: E731
    prune_then_finetune(model, lab06.choose(model, 0.9), tune, hold)
    return lab06.measured(model)


old = sweep(old_task, seed=range(SEEDS), sparsity=lab06.SPARSITIES)
live = sweep(new_task, hold=(True, False)).assign(sparsity=0.9)

# %%
real = experiments.read("lab06_sst2/regimes").assign(data="SST-2, one run each")
reviews = pd.concat([stored["regimes"], old.assign(method="old task, not trained")])
arms = pd.concat([real, reviews.fillna({"data": "reviews"}).assign(data="reviews, three models")])
look = {"xaxis": "sparsity", "panels": "data", "title": "Pruned by size: what was lost?"}
fig = plots.curves(arms, x="sparsity", y="accuracy", **look)
lab06.add_live(fig, 1, live.to_dict("records"), "sparsity", "accuracy", prediction_held)

# %% [markdown]
# {{claim 06.1}}
#
# {{claim 06.2}}
#
# {{claim 06.3}}
#
# On the reviews, up to 70 % we could not detect a loss (at 70 % a loss of three points is not
# excluded). At 90 % both kinds are lost, and most of the loss is *capacity*: letting the zeros go
# wins it back. At 80 % the rule gives a different answer for each model; with the zeros let go the
# accuracy is 1.6 ± 1.6 points below dense, and a difference between the two arms is not detected.
#
# The old task does not predict the new one. At 80 % the old task has lost more than 20
# points, the new one about three after 200 steps: it did not need most of the pruned weights,
# or it relearned their function.
#
# On SST-2 nothing is free: half of the weights pruned costs four points, and letting the zeros
# go leaves four to five points of loss from 70 % on. 4,000 sentences did not recover these points.
# On BERT-base, Gordon et al. found 30–40 % free, then a loss of information, then of capacity.

# %%
named = lab06.name_losses(stored["regimes"], regime, 2.0)
tables.plain(named)

# %% [markdown]
# ## Part B · Movement
#
# ### 6.2 A mask with a gradient
# **25 minutes · 3 points**
#
# Size reflects pre-training. Sanh, Wolf and Rush (2020) let *fine-tuning* choose: each
# weight gets a score $S$, and the network computes with $W' = W \odot M$, where $M$ is
# 1 for a given share of the weights, those with the largest scores. The scores are
# learned by gradient descent. But $M$ is a step function of $S$, so its gradient is 0.
# Therefore the backward pass is **straight-through**: it treats $M$ as if it were $S$.
# With $W' = W\odot M$ the chain rule gives
#
# $$\frac{\partial L}{\partial S} = \frac{\partial L}{\partial W'} \odot W,$$
#
# at *every* entry, also where $M = 0$. Autograd finds the factor $W$ itself, as the
# derivative of the product $W\odot M$: `TopV` is only the step from $S$ to $M$, and its
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
# $-\eta\,\partial L/\partial S = -\eta\, g \odot w$, with $g = \partial L/\partial W'$
# and $w$ *of that step*. So in the end $S = -\eta\sum_t g_t \odot w_t$. Where
# $g\,w < 0$, SGD would move the weight **away from zero**, and the score rises. One term
# $-g\,w$ is lab 02's first-order change of the loss if the weight is set to 0; movement adds
# it up over fine-tuning.
#
# The *sign* of a term does not depend on the weight's size, but its size does: with the same
# gradient, the score of a weight of 0.001 rises a thousand times more slowly than that of a
# weight of 1. So movement is not independent of size.
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
# ### Experiment 2: movement or size?
#
# We prune to 10 % and to 3 % of the encoder's weights during fine-tuning. Nothing is pruned
# in the first tenth of the steps; then the sparsity follows Sanh's cubic schedule. There is
# one threshold for all matrices. For soft movement, a $\lambda$ is chosen that keeps about as
# many weights (8.7 and 2.4 % at the careful rate below, 9.3 and 3.1 % at the bold one; $\tau$
# = 0.45; $\sigma(S)$ starts at $\frac12$); it needs no schedule. Each method runs with a
# *careful* learning rate, usual for large models (5·10⁻⁵, 400 steps of 16 texts), and with a
# *bold* one (3·10⁻⁴, 200 steps of 32).
#
# Soft movement differs from hard movement in its share per matrix, its schedule and its
# penalty. The arm "movement + penalty" adds only the penalty, at the careful rate, and keeps
# as many weights as soft movement does there. Bars start at the constant answer; random
# places reach nothing more, in any setting. The crosses are your `TopV` and your soft
# movement.


# %%
def by_your_masks(method: str) -> dict:
    """The bold rate, 10 % kept: your TopV; or your soft_mask with your soft_penalty."""
    if method == "movement":
        return lab06.by_mask(0, TopV.apply, 0.1, LIVE)
    mask = lambda scores, share: soft_mask(scores, lab06.TAU)  # noqa: E731
    return lab06.by_mask(0, mask, 1.0, LIVE, penalty=lambda scores: soft_penalty(scores, 32.0))


yours = sweep(by_your_masks, method=("movement", "soft movement"))
learned = stored["learned"].query("method != 'random'").copy()
for table in (learned, yours):
    table["gain"] = table["accuracy"] - constant
learned["setting"] = learned["rate"] + (100 * learned["keep"]).map(", {:.0f} % kept".format)

# %%
look = {"fmt": "{:.0f}", "ylabel": "accuracy above the constant answer (points)"}
title = "Which 10 % or 3 % of the weights: by movement, or by size?"
fig = plots.bars(learned, x="setting", y="gain", by="method", title=title, **look)
lab06.add_live(fig, 0, yours.assign(at=[1.895, 1.685]).to_dict("records"), "at", "gain")

# %% [markdown]
# {{claim 06.4}}
#
# Which of these two is better depends on the training recipe, above all on the learning rate
# (steps and batch size differ, too). At the careful rate the weights hardly move, so their
# size still reflects pre-training, and movement is ahead at both shares (size is not
# distinguishable from random places). At the bold rate the sizes themselves can adapt: size
# is ahead at 10 %, and behind only at 3 %, where it reaches only the constant answer. Sanh et
# al. fine-tuned a BERT-base at a careful rate: movement 80.1, size 78.3 at 10 %; 76.5 and
# 69.4 at 3 % (MNLI, with distillation).
#
# Soft movement is far ahead everywhere. In the paper its lead is smaller: 81.2 at 10 %, 79.5
# at 3 %. At the careful rate with 10 % kept, the penalty alone makes most of this gain (the
# table below). And the winner is not "movement instead of size": the weights that soft
# movement keeps were, before training, 2.1 times as large as the median weight. (Hard
# movement: 1.0; size: 2.9.)
#
# The penalty lowers all scores. Can it still change which weights are kept? Under Adam, yes.
# Adam divides the mean gradient by its root-mean-square, so the update is about
# $-(m + p)/\sqrt v$ with the penalty's gradient $p$. Where a weight's gradients are small
# compared with $p$, its score falls at the full rate. This is a likely reason, not a
# measured one: we ran no arm with SGD.

# %%
careful = learned.query("setting == 'careful, 10 % kept'")
tables.show(tables.compare(careful, "accuracy", against="movement + penalty"))
careful = careful.eval("share = 100 * share")
heads = {"before": "size before training, median of all = 1", "share": "weights kept (%)"}
tables.means(careful, heads)

# %% [markdown]
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
# ### Experiment 3: what do exact zeros cost under Adam?
#
# We apply an L1 penalty in three ways, each at three strengths of its own: in the loss, as a
# proximal step, and as a proximal step that is reweighted every 20 steps. The rivals have
# as many zeros as the reweighted arm: pruning *by size* before fine-tuning (6.1, zeros held),
# and random places. Your `proximal_after` makes the cross: λ = 0.05. (The
# stored reweighted runs begin with a plain step that is 100 times as strong, for 20 steps. Yours
# does not, so the cross need not lie on the curve.)
#
# *Before you look:* with half of the weights at zero, what accuracy, in %, will your run
# reach?

# %%
prediction_zeros = 95  # replace it by yours


# %%
def reweighted(seed: int, lam: float) -> dict:
    """Your post_step after Adam, reweighted every 20 steps."""
    model = lab06.pretrained(seed)
    weights = list(encoder_weights(model).values())
    rate = lab06.rate_of(LIVE)  # a function without arguments, for the rate of each step
    post_step = proximal_after(weights, rate, lam, lab06.EPS, 20)
    lab06.finetune(model, post_step, seed=seed, how=LIVE)
    zeros = sum(int((w == 0).sum()) for w in weights)
    return {"zeros": zeros / encoder, "accuracy": lab06.measured(model)}


# %%
drawn = stored["regimes"].query("method == 'random'")
drawn = drawn.assign(zeros=drawn["sparsity"], strength=drawn["sparsity"])
both = pd.concat([stored["l1"], drawn])
title = "Zeros and accuracy: a penalty under Adam, and pruning by size"
fig = plots.curves(both, x="zeros", y="accuracy", along="strength", title=title, xaxis="sparsity")
lab06.add_live(fig, 0, [reweighted(0, 0.05)], "zeros", "accuracy", prediction_zeros)

# %% [markdown]
# {{claim 06.5}}
#
# The penalty in the loss makes no zero at all, at any strength: gradient steps cross zero and
# come back (lab 02). The proximal step after Adam makes as many zeros as you like. But the
# plain step subtracts the same amount from every weight, and at two thirds of zeros it is
# hardly better than random places. Reweighting spares the large weights and is more than ten
# points ahead of the plain step.
#
# At equal zeros, simple magnitude pruning is still better: by about two points at half of the
# weights, by about three at two thirds (at a quarter we could not detect a difference). Guo
# et al. prune during *pre-training*, then fine-tune with the zeros held, and report no loss
# with 59.3 % pruned. We prune during fine-tuning, so we did not repeat their experiment.

# %%
equal = stored["l1"].query("method in ['magnitude', 'reweighted']")
tables.compare(equal, "accuracy", against="reweighted", columns="strength")

# %% [markdown]
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
# $r^* = \frac{\mathrm{out}\cdot\mathrm{in}}{\mathrm{out}+\mathrm{in}}$: 64 for a 128×128
# matrix. With all 128 components it is twice as large as the dense matrix.
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

# %% [markdown]
# <details><summary>Hint</summary><code>torch.linalg.svd(weight,
# full_matrices=False)</code> gives U, σ and <em>Vᵀ</em>, with σ from large to
# small.</details>

# %% [markdown]
# ### 6.7 A gate that can be exactly 0, and has a gradient
# **30 minutes · 3 points**
#
# Every component gets a gate, and a penalty on the number of *open* gates (gates that are not
# 0) removes components. But this number is a count and has no gradient. Louizos, Welling and
# Kingma (2018) therefore make the gate random. For such a *hard concrete* gate, draw $u$
# uniformly between 0 and 1 and let
#
# $$s = \sigma\!\left(\frac{\ln u - \ln(1-u) + \log\alpha}{\beta}\right),\qquad g = \min\bigl(1, \max(0,\; s\,(\zeta-\gamma)+\gamma)\bigr),$$
#
# with $\beta = \frac23$, $\gamma = -0.1$, $\zeta = 1.1$. Because $s$ is stretched beyond 0
# and 1 and then cut, $g$ is *exactly* 0 with some probability and exactly 1 with another.

# %%
plots.show(drawings.stretched_and_cut(1.0))

# %% [markdown]
# **The probability of an open gate, with pen and paper.**
#
# 1. $g \ne 0$ exactly if $s\,(\zeta-\gamma)+\gamma > 0$, that is, if
#    $s > \frac{-\gamma}{\zeta-\gamma}$.
# 2. The inverse of σ is $\sigma^{-1}(x) = \ln x - \ln(1-x)$. It increases, so the inequality
#    holds for both sides:
#    $\ln u - \ln(1-u) + \log\alpha > \beta\,\sigma^{-1}\!\left(\frac{-\gamma}{\zeta-\gamma}\right)$.
# 3. The noise $\ln u - \ln(1-u)$ is at most $x$ if $u \le \sigma(x)$. So it has the
#    distribution function σ, and $P(\ldots > x) = 1 - \sigma(x) = \sigma(-x)$.
# 4. Simplify the right-hand side of step 2, and apply step 3: this is your $P(g \ne 0)$.
#
# *Check it:* what is $P(g \ne 0)$ for $\beta = 1$, $\log\alpha = 0$, $\gamma = -\frac12$,
# $\zeta = \frac32$? Find it without your formula, too.
# <details><summary>Answer</summary>Then s = σ(ln u − ln(1−u)) = u is uniform, and s must exceed
# ½ / 2 = ¼. So P = ¾.</details>
#
# The sum of these probabilities is the expected number of open gates. It has a gradient, so
# it can replace the count. After training, the gate has no noise:
# $\hat g = \min(1, \max(0, \sigma(\log\alpha)(\zeta-\gamma)+\gamma))$, without $\beta$.
#
# **What is tested**: any shape, float32 and float64, other constants; gradients with
# respect to `log_alpha`.


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
# <details><summary>Hint 1</summary>Write the formulas line by line;
# <code>Tensor.sigmoid()</code> and <code>Tensor.clamp(0, 1)</code> keep the
# gradient.</details>
# <details><summary>Hint 2: step 4</summary>In σ⁻¹(−γ/(ζ−γ)) the denominators cancel: it is
# ln(−γ/ζ). With the default constants this logarithm is negative, so P is larger than
# σ(log α).</details>
# <details><summary>Hint 3: the formula</summary>P(g ≠ 0) = σ(log α − β ln(−γ/ζ)).</details>

# %%
draws = torch.rand(100_000, generator=torch.Generator().manual_seed(0)).clamp(1e-6, 1 - 1e-6)
rows = []
for log_alpha in torch.tensor([-3.0, 0.0, 2.0]):
    gates = sample_gate(log_alpha.expand_as(draws), draws)
    zero, one = (gates == 0).double().mean(), (gates == 1).double().mean()
    rows.append([log_alpha, zero, one, 1 - expected_l0(log_alpha), gate_at_test(log_alpha)])
columns = ["log α", "exactly 0", "exactly 1", "1 − P(g ≠ 0)", "gate at test"]
tables.plain(pd.DataFrame(rows, columns=columns).astype(float), dict.fromkeys(columns[1:], 3))

# %% [markdown]
# ### 6.8 A target size
# **10 minutes · 1 point**
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
# A toy shows it: 64 components of one 128×128 matrix, where closing gate $k$ adds
# $0.001 \cdot k$ to the loss ($k$ = 0 to 63). The target is a quarter of the matrix. Which
# gates should be open in the end?

# %%
worth, lam1, lam2 = 0.001 * torch.arange(64.0), 0.0, 0.0
log_alpha = torch.full((64,), 2.0, requires_grad=True)
optimizer = torch.optim.Adam([log_alpha], lr=0.03)
for _ in range(1000):
    p = expected_l0(log_alpha)
    size = size_left([p], [(128, 128)])
    ((worth * (1 - p)).sum() + lagrangian(size, 0.25, lam1, lam2)).backward()
    optimizer.step()
    optimizer.zero_grad()
    lam1, lam2 = dual_step(size.item(), 0.25, lam1, lam2, lr=0.03)
left = (gate_at_test(log_alpha) > 0).nonzero().flatten().tolist()
say(f"Expected size {100 * size:.1f} % with λ₁ = {lam1:.2f}. Open at test: {left}.")

# %% [markdown]
# ### Experiment 4: gates, or singular values?
#
# A matrix may already be low-rank. So two things are measured. Left, live and with *your*
# factors: nothing is trained; each matrix is cut to its largest singular values; the old
# task. Right, stored: the new task with 10 % of the encoder's weights. The *gates* learn which
# components are kept, with a multiplier for the target. The rival is the *largest* singular
# values: every matrix keeps the same share, in total about as much as the gates (9.4 to 10.7 %,
# against 9.9 to 10.8 %), trained just as long. In both panels, random
# components are the baseline.
#
# *Before you run it:* the accuracy on the old task is 98 % with all weights. What is it with
# 35 % of the encoder's weights left, nothing trained? (A number, in %.)

# %%
prediction_cut = 80  # replace it by yours


# %%
def cut(seed: int, share: float) -> float:
    """Sentiment with each encoder matrix cut to this share of its weights."""
    model = lab06.pretrained(seed, head=False)
    for w in encoder_weights(model).values():
        P, Q = factorise(w.detach(), round(share * w.numel() / sum(w.shape)))
        w.data.copy_(P @ Q)
    return lab06.measured(model, "sentiment")


cuts = sweep(cut, seed=range(SEEDS), share=lab06.RANK_SHARES).assign(method="largest")
cuts["sparsity"] = 1 - cuts["share"]

# %%
ranks = pd.concat([cuts, stored["ranks"].query("method == 'random'")])
trained = stored["components"].assign(sparsity=0.9, task="new task, trained with 10 %")
both = pd.concat([ranks.assign(task="old task, not trained"), trained])
look = {"xaxis": "sparsity", "panels": "task", "title": "Components: learned, largest, random"}
fig = plots.curves(both, x="sparsity", y="accuracy", **look)
star = plots.draw_guess(fig.axes[0], (0.65, prediction_cut))
fig.axes[0].legend(handles=star, loc="center left")
plots.show(fig)
ends = stored["components"].query("method == 'gates'")["share"]
say(f"Gates: the models end at {', '.join(f'{100 * share:.1f}' for share in ends)} %.")

# %% [markdown]
# {{claim 06.6}}
#
# On the old task two thirds of the encoder's weights can be removed without any training, at
# a cost of about a point: it needs only few of their components. So a method that "removes 35
# %" (the number of Wang et al., for other models) would prove nothing here. At 10 % random
# components are no better than the constant answer. The means of gates and singular values
# are one or two points below the dense model, which is not distinguishable with three models.
# Without the baseline of singular values, the gates would have had all the credit.
#
# The multiplier works: without any search for λ, the three models end near the target.

# %% [markdown]
# ## Part E · What was it worth?
#
# ### Experiment 5: what does each method cost?
#
# The table compares the methods, each at one size, on the **test texts, once** (the constant
# answer is right for 74.1 % of them) ([details](../course_lib/experiments/lab06.py)). The
# size is that of the *whole model*, with each tensor in the cheapest format of lab 00; the
# embeddings are dense. The size of sparse matrices is an estimate, from as many zeros at
# random places. Latency is for 64 texts of 37 tokens. Costs are measured once, accuracies on
# three models.

# %%
found = lab06.costs(stored)
for method, rows in found.groupby("method", sort=False):
    cost = rows.iloc[0][["bits", "macs", "ms"]]
    ledger.add("bert-small, negated", method, lab="06", **cost, accuracy=rows["test"])
by_method = found.groupby("method", sort=False)
once = by_method[["kept", "kb", "ms"]].first().reset_index()
once["test"] = by_method["test"].apply(pm).to_numpy()
heads = {"kept": "encoder weights kept (%)", "kb": "whole model (kB)", "ms": "latency (ms)"}
tables.plain(once.rename(columns={**heads, "test": "test accuracy (%)"}))

# %% [markdown]
# Zeros save no time. Low rank does, with either choice of the components.
#
# For comparison, the papers' results. Their models are larger (BERT, and for Wang et al.
# mostly language models) and were pre-trained without labels, and their texts are English. So
# compare the order of the methods, not the numbers.
#
# | paper | what they removed | what they report |
# |---|---|---|
# | Gordon et al. 2020 | 30–40 % of the weights, by size, before fine-tuning | no loss on any task; with more pruning, first information is lost, then capacity |
# | Sanh et al. 2020 | 90 % / 97 % of the encoder's weights, MNLI, with distillation | soft movement 81.2 / 79.5, hard 80.1 / 76.5, size 78.3 / 69.4 (dense 84.5) |
# | Guo et al. 2019 | 59.3 % of the weights, reweighted proximal, while pre-training | no loss, in pre-training and fine-tuning |
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
# - **C.** The new task needed little of the lost knowledge, or a few hundred steps
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
#
# **What is tested**: the letters.

# %%
### BEGIN SOLUTION
answer_6_9a = "C"
answer_6_9b = "D"
### END SOLUTION


# %%
check("6.9")

# %% [markdown]
# ## What you take with you
#
# - Pruning a pre-trained model can lose information or capacity. To find out which one
#   is lost, let the zeros go and compare with the *dense* model, too.
# - The accuracy right after pruning does not predict the accuracy after fine-tuning.
# - Movement reflects fine-tuning; size reflects pre-training. Which one is ahead depends on
#   the recipe. Here the penalty on the scores gained more than either criterion.
# - Under Adam, apply a penalty after the step, not in the loss. And compare it with magnitude
#   at equal zeros: with half and two thirds of the weights at zero magnitude is better.
# - Low rank saves time without special kernels. Compare learned gates with plain singular
#   values *trained as long*: here we could not detect a difference.
#
# ### Five questions to recap
#
# 1. Accuracy falls after pruning and fine-tuning. How do you find out whether information or
#    capacity is missing?
#    <details><summary>Answer</summary>Set the same weights to zero, but let them change. What
#    this wins back is capacity; what is still missing against the dense model is
#    information.</details>
# 2. Why must the mask of movement pruning have a straight-through gradient?
#    <details><summary>Answer</summary>The mask is a step function of the scores. Its true
#    gradient is 0, and pruned weights could not be restored.</details>
# 3. Why does an L1 penalty in the loss leave no exact zeros?
#    <details><summary>Answer</summary>A gradient step crosses zero; only the proximal step
#    stops at zero.</details>
# 4. Which two properties has a hard concrete gate that a sigmoid lacks?
#    <details><summary>Answer</summary>It is exactly 0 or 1 with some probability, and the
#    probability of an open gate is known, with a gradient.</details>
# 5. From which rank on does factorising a 128×128 matrix save nothing?
#    <details><summary>Answer</summary>From 64 on: 64 · (128 + 128) = 128².</details>
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
