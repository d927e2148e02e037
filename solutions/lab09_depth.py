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
# # Lab 09 · Depth and subnetworks: how little of a transformer does it take, and is it always the same part?
#
# **A transformer is a stack of identically built layers, each with attention heads and
# a feed-forward block. Can we remove whole layers? And is the part that can be removed
# the same for every task, and every seed?**
#
# Lab 07 removed heads. In this lab we remove whole layers and feed-forward blocks, and
# ask two questions. Can *one* training give networks of *any* depth? After fine-tuning,
# we can find a good subnetwork of heads and feed-forward blocks. Is it special?
# Prasanna, Rogers and Rumshisky (2020) ask this in a paper whose title refers to the
# lottery ticket hypothesis (lab 03): *When BERT Plays the Lottery*.
#
# **Prerequisites.** Lab 03 (tickets, rewinding), lab 07 (gates on heads, $I_h$, the loop
# of 7.5), forward hooks and context managers in PyTorch.
#
# Symbols, terms and the meaning of ±: [one page for all labs](../docs/notation.md).
#
# **After this lab you can**
#
# - train with LayerDrop, cut a network to any depth, and choose the right comparison,
# - score heads and feed-forward blocks with one backward pass,
# - test with random and bad subnetworks whether a good subnetwork is special,
# - compare the agreement of two masks with that of random masks.
#
# | part | you write | question |
# |---|---|---|
# | A · Any depth from one training | 9.1 LayerDrop, 9.2 which layers to keep | what is gained by training with missing layers? |
# | B · Heads and blocks | 9.3 one backward pass for both | which parts does a task need? |
# | C · Good, random, bad | 9.4 the search, 9.5 three subnetworks | is the good one special? |
# | D · The same every time? | 9.6 agreement of two masks | does the task or the seed decide what survives? |
# | E · What was it worth? | 9.7 two short answers | what is saved? |
#
# 13 points; about 3½ hours. After each exercise `check("9.1")` tests about half of the
# points; the grader tests the rest of what the docstring says. `skip("9.1")` gives up a
# question: it scores 0, and the lab continues with the course's version. Write every
# function yourself, without `course_lib.pruning` (but `prune_lowest` is allowed).
#
# The rules of lab 01 apply. Guess first. Choose on validation data, and use the test
# data once. Make no claim without a random baseline and three seeds. A difference in
# bold is *statistically distinguishable*: its 95 % paired t-interval excludes 0.

# %%
from course_lib.grading import check, skip  # noqa: F401  (skip is yours to use)

# isort: split
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from course_lib import devices, experiments, ledger
from course_lib.experiments import lab09
from course_lib.models.attention import output_projections
from course_lib.models.mlps import mlp_outputs
from course_lib.pruning.layers import take_layers
from course_lib.pruning.weights import prune_lowest
from course_lib.show import plots, tables, words

# %% [markdown]
# ## Settings
#
# The three models (*checkpoints*) are small BERTs with four layers of eight heads,
# trained on the sentiment of reviews that our grammar generated. The real encoder is
# MiniLM (six layers of twelve heads) on tasks of GLUE, whose development sets are our
# test data. Results that take minutes are stored (`course remake lab09_depth`,
# `lab09_subnetworks`, and both names with `_sst2` or `_glue` for real sentences); shorter
# versions run live. The functions `lab09.…` run and summarise the experiments:
# [their code](../course_lib/experiments/lab09.py).

# %%
DEVICE = devices.use("cpu")  # or "cuda"
QUICK = {"steps": 60, "lr": 3e-4}  # of the live training
torch.set_num_threads(1)
LAYERS, HEADS, TASKS = lab09.LAYERS, lab09.HEADS, lab09.TASKS
words.say(
    f"{LAYERS} layers of {HEADS} heads and one block; tasks: {', '.join(TASKS)}; 3 seeds each."
)

# %% [markdown]
# ## Part A · Any depth from one training
#
# The picture shows the idea: a skipped layer passes its input on.

# %%
lab09.draw_layerdrop()

# %% [markdown]
# ### 9.1 LayerDrop
# **30 minutes · 3 points**
#
# Each layer of a transformer adds something to its input: $x + f(x)$. (In BERT a layer
# norm follows the sum.) If a layer is skipped, $x$ is passed on unchanged. The shapes
# still fit, and only the learned function is lost. Fan, Grave and Joulin (2020) train
# with skipped layers. In every step, each layer is skipped with probability $p$, so the
# remaining layers learn to work without the skipped ones.
#
# Dropout divides the kept values by $1-p$, so that their expectation is unchanged.
# Stochastic depth (Huang et al. 2016) skips layers, too, and scales $f(x)$ at test time
# by the probability that the layer runs. LayerDrop rescales nothing.
#
# To skip a call, replace `layer.forward` on the object inside the `with` block. A hook
# cannot skip a call (the layer would still run), and a wrapper module would change the
# names in the state dict.
#
# **What is tested**: the skipped calls and their results; that skipped layers do not
# run; draws only from `generator`; p = 0 and 1; single layers in evaluation mode;
# further arguments; layers restored, also after an exception.


# %%
@contextmanager
def layerdrop(layers: nn.ModuleList, p: float, generator: torch.Generator) -> Iterator[None]:
    """Skip, inside the block, each *call* of a layer in training mode with probability p.

    Args:
        layers: each takes the hidden states as its first positional argument, and returns
            them (a tensor).
        p: from 0 to 1.
        generator: once per call, in calling order, draw
            ``torch.rand((), generator=generator) < p``; True skips the call.

    A skipped call returns the first positional argument unchanged, and nothing inside the
    layer runs. A layer in evaluation mode draws nothing and is never skipped. The state
    dict has the same names inside the block. After it, also after an exception, each layer
    is restored: same object in ``layers``, no hook, no attribute ``forward`` of its own.

    >>> layers = nn.ModuleList([nn.Linear(1, 1)])
    >>> with layerdrop(layers, 1.0, torch.Generator()):
    ...     layers[0](torch.tensor([7.0]))
    tensor([7.])
    """
    if not 0 <= p <= 1:
        raise ValueError(f"p must lie in [0, 1], got {p}")
    ### BEGIN SOLUTION

    def skipping(layer: nn.Module, forward: Callable) -> Callable:
        def call(*args: Any, **kwargs: Any) -> Any:
            if layer.training and torch.rand((), generator=generator) < p:
                return args[0]
            return forward(*args, **kwargs)

        return call

    try:
        for layer in layers:
            layer.forward = skipping(layer, layer.forward)  # found before the class's own
        yield
    finally:
        for layer in layers:
            vars(layer).pop("forward", None)
    ### END SOLUTION


# %%
check("9.1")

# %% [markdown]
# <details><summary>Hint 1: where?</summary>A call of a module runs
# <code>layer.forward</code>. Python finds an attribute of that name on the object
# before the class's method.</details>
# <details><summary>Hint 2: one at a time</summary>A function defined in a loop uses the
# loop's last layer. Define it inside another function that gets the layer.</details>
# <details><summary>Hint 3: afterwards</summary>Put <code>try … finally</code> around
# the <code>yield</code>; <code>del layer.forward</code> restores the class's
# method.</details>

# %%
ran = lab09.count_layers(layerdrop, 0.5)
words.say(
    f"Of 1,000 steps all {LAYERS} layers ran in {ran.count(LAYERS)}, none in {ran.count(0)}"
    f" (expected: 1000/2⁴ = 62.5 each); {np.mean(ran):.1f} of them on average."
)

# %% [markdown]
# ### 9.2 Which layers to keep
# **10 minutes · 1 point**
#
# To use half of the depth, keep every second layer. The paper's rule ("drop layer $d$
# where $d \equiv 0 \bmod \lfloor 1/p \rfloor$") is not defined for every depth. Our
# rule is: keep layer $\lfloor i \cdot n / \text{depth} \rfloor$ for
# $i = 0 \dots \text{depth}-1$, where code counts layers from 0.
#
# **What is tested**: every depth; a list of ints.


# %%
def layers_to_keep(layers: int, depth: int) -> list[int]:
    """List the layers to keep: [⌊i · layers / depth⌋ for i = 0 … depth − 1], ints.

    >>> layers_to_keep(6, 4)
    [0, 1, 3, 4]
    """
    if not 1 <= depth <= layers:
        raise ValueError(f"depth must lie in 1 … {layers}, got {depth}")
    ### BEGIN SOLUTION
    return [i * layers // depth for i in range(depth)]
    ### END SOLUTION


# %%
check("9.2")

# %% [markdown]
# <details><summary>Hint</summary><code>//</code> rounds down, and is exact for
# ints.</details>

# %% [markdown]
# ### Experiment 1: any depth?
#
# The three checkpoints are trained for 300 more steps without LayerDrop (*plain*) or
# with it ($p$ = 0.2 and 0.5). Then they are cut to every depth, without training after
# the cut. One more line shows networks that were cut first and then *trained at that
# depth*. The task is sentiment on short reviews; the accuracy of a constant answer is
# 50 %.
#
# *Before you look:* at half the depth, what accuracy, in %, will *plain* have?

# %%
### BEGIN SOLUTION
prediction_9_2 = 80
### END SOLUTION

# %%
depths = experiments.read("lab09_depth/depths")
evenly = depths[depths["kept"] == "evenly spaced"]
title = "Any depth from one training?"
look = {"xlabel": "layers kept", "constant": 50, "guess": (2, prediction_9_2)}
plots.curves(evenly, x="depth", y="test", control=None, title=title, **look)

# %% [markdown]
# The numbers at half the depth, also for networks that keep the *first* two layers:

# %%
half = depths[depths["depth"] == LAYERS // 2]
half_evenly = evenly[evenly["depth"] == LAYERS // 2]
tables.show(tables.means(half, "test", columns="kept"))
tables.show(tables.compare(half_evenly, "test", against="plain"))
words.say(
    "Trained at that depth minus LayerDrop 0.5:"
    f" {words.minus(half_evenly, 'test', 'trained at that depth', 'LayerDrop 0.5')}."
)


# %%
def by_mine(seed: int, p: float) -> float:
    """A short training with *your* layerdrop, cut to half by *your* take_layers."""
    model = lab09.pretrained(seed)
    with layerdrop(model.get_submodule(lab09.PATH), p, torch.Generator().manual_seed(seed)):
        lab09.trained_on(model, seed, how=QUICK)
    return lab09.on_short(take_layers(model, lab09.PATH, 2), seed)


words.say(
    f"Yours, {QUICK['steps']} steps, half the depth: plain {by_mine(0, 0.0):.1f} %, LayerDrop 0.5"
    f" {by_mine(0, 0.5):.1f} %."
)

# %% [markdown]
# {{claim 09.1}}
#
# {{claim 09.2}}
#
# {{claim 09.3}}
#
# At half the depth the plain network loses 25 points, half of its lead over a constant
# answer. LayerDrop loses less for both values of $p$, but the difference is
# distinguishable only for $p = \frac12$. At full depth (right end of the figure)
# LayerDrop costs almost nothing. This is the paper's claim, and the claim holds here.
#
# Two other claims do not hold here. In our models, a network *trained* at half the
# depth is far better than a network cut to it. In the paper, with 12 to 16 layers, cut
# networks are about as good or better. Here half of the depth is two layers, and each
# does something that the other cannot do without training. Also, keeping every second
# layer is not distinguishably better than keeping the first two: with four layers there
# are few choices.
#
# So with LayerDrop, *one* training gives a suitable depth for each device. The cost is
# the distance to the line *trained at that depth*.

# %% [markdown]
# ## Part B · Heads and feed-forward blocks
#
# ### 9.3 One backward pass for both
# **30 minutes · 3 points**
#
# Lab 07 put a gate $\xi$ on every head and computed $|\partial L/\partial \xi|$. Now
# the feed-forward block of a layer gets a gate, too: $\nu \cdot \text{MLP}(x)$. The gate
# multiplies the term that the block *adds* to the residual stream, including the last
# bias. A gate before the last linear layer would not scale this bias. A gate after the
# sum, or after the layer norm, would also scale the input $x$.
#
# `mlp_outputs(model)` lists for each layer the linear layer whose output is MLP(x), of
# shape (B, L, E). The function for heads, `gated(model, xi)`, is given.
#
# **What is tested**: gates per layer and per sample, gradients; no hook left after an
# exception; any batch size, a stream of batches; evaluation mode; unchanged mode and
# `.grad`.


# %%
@contextmanager
def gated(model: nn.Module, xi: Tensor) -> Iterator[None]:
    """Given: inside the block, every head is multiplied by its gate; xi is (layers, H) or
    (layers, B, H), with H heads per layer.
    """
    with ExitStack() as hooks:
        for out, gate in zip(output_projections(model), xi, strict=True):

            def scale(module: nn.Module, inputs: tuple[Tensor, ...], gate: Tensor = gate) -> Tensor:
                x = inputs[0]  # (B, L, H · D)
                wide = gate.to(x).repeat_interleave(x.shape[-1] // gate.shape[-1], -1)
                return x * (wide if wide.ndim == 1 else wide[:, None])

            hooks.callback(out.register_forward_pre_hook(scale).remove)
        yield


@contextmanager
def gated_mlps(model: nn.Module, nu: Tensor) -> Iterator[None]:
    """Multiply, inside the block, each output of ``mlp_outputs(model)`` by its gate.

    Args:
        nu: (layers,), or (layers, B) with one gate per sample. Gradients flow to nu;
            nu = 1 changes nothing.

    No hook is left after the block, also after an exception.

    >>> layer = nn.TransformerEncoderLayer(4, nhead=2)
    >>> with gated_mlps(layer, torch.zeros(1)):
    ...     mlp_outputs(layer)[0](torch.ones(1, 1, 2048)).any()  # its bias is multiplied, too
    tensor(False)
    """
    ### BEGIN SOLUTION
    with ExitStack() as hooks:
        for out, gate in zip(mlp_outputs(model), nu, strict=True):

            def scale(
                module: nn.Module, inputs: tuple[Tensor, ...], x: Tensor, gate: Tensor = gate
            ) -> Tensor:
                return x * gate.to(x).view(-1, 1, 1)  # (1 or B, 1, 1)

            hooks.callback(out.register_forward_hook(scale).remove)
        yield
    ### END SOLUTION


def joint_importance(
    model: nn.Module, batches: Iterable[Any], loss_fn: Callable[[nn.Module, Any], Tensor]
) -> tuple[Tensor, Tensor]:
    """Compute the mean over samples of |∂L(x)/∂ξ| and of |∂L(x)/∂ν|, at gates of 1.

    Args:
        model: any with ``len(mlp_outputs(model))`` layers of
            ``model.config.num_attention_heads`` heads. Evaluate it in evaluation mode;
            afterwards the mode of the model and every ``.grad`` are as before.
        batches: dicts with ``input_ids`` (B, L); may be a stream.
        loss_fn: ``loss_fn(model, batch)`` -> (B,), one loss per sample.

    Returns:
        (layers, H) and (layers,), float64, from *one* backward pass per batch;
        independent of the batch size.
    """
    ### BEGIN SOLUTION
    mode, layers = model.training, len(mlp_outputs(model))
    heads = model.config.num_attention_heads
    of_heads, of_mlps, samples = (
        torch.zeros(layers, heads, dtype=torch.float64),
        torch.zeros(layers, dtype=torch.float64),
        0,
    )
    model.eval()
    try:
        for batch in batches:
            size = len(batch["input_ids"])
            xi, nu = (
                torch.ones(layers, size, heads, requires_grad=True),
                torch.ones(layers, size, requires_grad=True),
            )
            with gated(model, xi), gated_mlps(model, nu):
                total = loss_fn(model, batch).sum()
            # a sample's gates affect only its own loss
            of_xi, of_nu = torch.autograd.grad(total, [xi, nu])
            of_heads += of_xi.abs().double().sum(1)
            of_mlps += of_nu.abs().double().sum(1)
            samples += size
    finally:
        model.train(mode)
    return of_heads / samples, of_mlps / samples
    ### END SOLUTION


# %%
check("9.3")

# %% [markdown]
# <details><summary>Hint 1: hooks</summary>Use <code>out.register_forward_hook(f)</code>
# with <code>f(module, inputs, output)</code>; the result of <code>f</code> replaces the
# output. An <code>ExitStack</code> removes all hooks.</details>
# <details><summary>Hint 2: per sample</summary>With gates of shape (layers, B), the
# gradient of the summed loss with respect to a sample's gate depends on that sample
# alone. Take absolute values first, then the sum.</details>
# <details><summary>Hint 3: unchanged
# gradients</summary><code>torch.autograd.grad</code> does not touch any
# <code>.grad</code>.</details>

# %% [markdown]
# ## Part C · Good, random, bad
#
# ### 9.4 The search
# **20 minutes · 2 points**
#
# This is lab 07's loop (7.5: score, prune, score again) with two kinds of parts and a
# rule to stop. In each round Prasanna et al. remove the least important 10 % of the heads
# and one feed-forward block, and continue while the score is at least 90 % of the full
# model's score. We have only four layers, so we remove the same *share* of the blocks as
# of the heads. `prune_lowest(scores, k)` returns a bool mask without the k lowest scores
# (True = kept; of equal scores the first is pruned first).
#
# Example: two layers of three heads, `step=0.3`. Then n = 6 and k = round(1.8) = 2.
# After rounds 1, 2 and 3, in total 2, 4 and 6 heads and 1, 1 and 2 blocks are pruned.
# Nothing is left, so the search ends.
#
# **What is tested**: masks and scores of all rounds; rounded counts; ties; scores of
# pruned parts of any size; copies of the masks; the numbers of calls.


# %%
def prune_while(
    evaluate: Callable[[Tensor, Tensor], float],
    importance: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]],
    layers: int,
    heads: int,
    share: float = 0.9,
    step: float = 0.1,
) -> list[tuple[Tensor, Tensor, float]]:
    """List the rounds (xi, nu, score): bool (layers, H), bool (layers,), a float.

    Entry 0 has nothing pruned; its score is full. With n = layers · heads and
    k = max(1, round(step · n)), while a head or a block is kept, in round r = 1, 2, …:

    1. ``importance(xi, nu)`` of the *current* masks gives (layers, H) and (layers,). The
       scores of pruned heads and blocks mean nothing.
    2. Prune the least important kept ones (ties: the lower index first), until in all
       min(n, r·k) heads and min(layers, round(r · step · layers)) blocks are pruned.
    3. ``evaluate(xi, nu)``: append the round if its score is at least share · full; else
       drop this round and return.

    Pass copies of the masks: both functions may write into them. Call ``evaluate`` once
    at the start and once per round, ``importance`` once per round.

    >>> evaluate = lambda xi, nu: float(nu.sum())
    >>> importance = lambda xi, nu: (torch.ones(2, 2), torch.tensor([0.5, 0.25]))
    >>> rounds = prune_while(evaluate, importance, layers=2, heads=2, share=0.5, step=0.5)
    >>> [(xi.tolist(), nu.tolist(), score) for xi, nu, score in rounds[1:]]
    [([[False, False], [True, True]], [True, False], 1.0)]
    """
    ### BEGIN SOLUTION
    xi, nu = torch.ones(layers, heads, dtype=torch.bool), torch.ones(layers, dtype=torch.bool)
    full = evaluate(xi.clone(), nu.clone())
    rounds = [(xi, nu, full)]
    k, r = max(1, round(step * layers * heads)), 0
    while xi.any() or nu.any():
        r += 1
        I_h, I_mlp = importance(xi.clone(), nu.clone())
        # pruned ones have the lowest score of all, so they stay pruned
        I_h, I_mlp = I_h.masked_fill(~xi, -torch.inf), I_mlp.masked_fill(~nu, -torch.inf)
        xi = prune_lowest(I_h, min(layers * heads, r * k))
        nu = prune_lowest(I_mlp, min(layers, round(r * step * layers)))
        score = evaluate(xi.clone(), nu.clone())
        if score < share * full:
            break
        rounds.append((xi, nu, score))
    return rounds
    ### END SOLUTION


# %%
check("9.4")

# %% [markdown]
# <details><summary>Hint 1: pruned elements stay pruned</summary>Give them the score −∞
# before you rank, and count the pruned elements of all rounds.</details>
# <details><summary>Hint 2: in all</summary>After round r, round(r · step · layers)
# blocks are pruned, not one per round.</details>

# %% [markdown]
# ### 9.5 Three subnetworks
# **20 minutes · 2 points**
#
# Is the surviving subnetwork (the *good* one) special? Compare it with a *random*
# subnetwork of the same size, and with a *bad* one, made of pruned elements. (If there
# are too few, we add the least important survivors; the paper adds random survivors.)
# In the experiment all three are then *retrained*: the weights are reset to the
# pre-trained ones, and fine-tuned with only the subnetwork switched on.
#
# **What is tested**: elements of all three, also if more than half survive; unchanged
# arguments.


# %%
def subnetworks(
    xi: Tensor, nu: Tensor, I_h: Tensor, I_mlp: Tensor, generator: torch.Generator
) -> dict[str, tuple[Tensor, Tensor]]:
    """Choose three subnetworks, each with as many heads and as many blocks as (xi, nu).

    Args:
        xi, nu: (layers, H) and (layers,), bool: the heads and blocks that survived.
        I_h, I_mlp: importance, of the same shapes.

    - "good": the survivors.
    - "random": keep the first xi.sum() heads of ``torch.randperm(layers · heads,
      generator=generator)``; then blocks likewise, with ``torch.randperm(layers, …)``.
    - "bad": the lowest scores among those that did *not* survive; if these are too few,
      all of them and the survivors with the lowest scores.

    >>> xi, I_h = torch.tensor([[True, True, False]]), torch.tensor([[3.0, 2.0, 1.0]])
    >>> nu, I_mlp = torch.tensor([True]), torch.ones(1)
    >>> subnetworks(xi, nu, I_h, I_mlp, torch.Generator())["bad"][0]
    tensor([[False,  True,  True]])
    """
    ### BEGIN SOLUTION

    def first(order: Tensor, mask: Tensor) -> Tensor:
        chosen = torch.zeros(mask.numel(), dtype=torch.bool)
        chosen[order[: int(mask.sum())]] = True
        return chosen.view(mask.shape)

    def drawn(mask: Tensor) -> Tensor:
        return first(torch.randperm(mask.numel(), generator=generator), mask)

    def worst(mask: Tensor, score: Tensor) -> Tensor:
        order = score.flatten().argsort(stable=True)
        survived = mask.flatten()[order]
        return first(torch.cat([order[~survived], order[survived]]), mask)

    return {
        "good": (xi.clone(), nu.clone()),
        "random": (drawn(xi), drawn(nu)),  # heads are drawn first
        "bad": (worst(xi, I_h), worst(nu, I_mlp)),
    }
    ### END SOLUTION


# %%
check("9.5")

# %% [markdown]
# <details><summary>Hint</summary>Sort once by score, with a stable sort; then move the
# pruned elements to the front, keeping the order.</details>

# %% [markdown]
# ### Experiment 2: is the good subnetwork special?
#
# The first checkpoint is fine-tuned to each task with three seeds. (*Negated*: is the
# main clause negated? *Contrast*: is there a second clause?) Each model is pruned while
# at least 90 % of its score on validation texts is left. Then the three subnetworks are
# measured on test texts, as they are and after retraining (stored).
#
# *Before you look:* after retraining, what accuracy on sentiment, in %, will the *bad*
# subnetwork have?

# %%
### BEGIN SOLUTION
prediction_9_5 = 80
### END SOLUTION

# %%
rounds, heads = (experiments.read(f"lab09_subnetworks/{name}") for name in ("rounds", "heads"))
four = lab09.with_full("lab09_subnetworks")
look = {"by": "subnetwork", "ylabel": "test accuracy (%)", "fmt": "{:.0f}"}
pruned, retrained = (four[four["when"] == when] for when in ("pruned", "retrained"))
plots.bars(pruned, x="task", y="score", title="Subnetworks as they are, after the search", **look)

# %%
guess = ("sentiment", prediction_9_5)
plots.bars(retrained, x="task", y="score", title="The same, retrained", guess=guess, **look)

# %%
words.say("Heads and parts that survived:")
tables.show(tables.plain(lab09.heads_and_parts(rounds)))
words.say("Points, paired by seed, as they are and then retrained:")
by = {"by": "subnetwork", "against": "good", "columns": "task"}
tables.show(tables.compare(pruned, "score", **by))
tables.compare(retrained, "score", **by)

# %% [markdown]
# One short run uses *your* `prune_while`, `joint_importance`, `gated_mlps`,
# `subnetworks` and `retrain` on sentiment. The scores are from validation texts:

# %%
tools = lab09.Tools(gated, gated_mlps, joint_importance, prune_while, subnetworks, retrain)
mine = lab09.short_tickets("sentiment", QUICK, tools)
tables.show(tables.plain(mine["rounds"]))
tables.plain(mine["scores"])

# %% [markdown]
# {{claim 09.4}}
#
# {{claim 09.5}}
#
# (Before retraining, on *contrast* the random ones vary so much that
# we could not detect the difference with three seeds.) *After* retraining, on two of the four tasks
# even the bad one reaches the full model. The paper reports the same on GLUE: most
# subnetworks can be fine-tuned to nearly the full model's score, hence "all tickets are
# winning". According to its abstract, subnetworks from the rest of the model "perform
# worse", but even the worst "remain highly trainable". Our bad subnetworks are
# distinguishably worse on sentiment and *negated*. Note that "no difference detected"
# does not mean "equal": the intervals are wide.
#
# "After retraining the surviving subnetwork reaches the full model" is nearly true: only
# on sentiment is the full model distinguishably better (+1.1 ± 0.9 points). It sounds as
# if we had found a winning ticket. But we could not distinguish random subnetworks of
# the same size from the surviving one. So the sentence is no evidence for *this*
# subnetwork.
#
# (The classifier is not reset in any of the three. *Domain* was hard to fine-tune and
# needed more than three times the steps.)

# %% [markdown]
# ## Part D · The same every time?
#
# ### 9.6 Agreement of two masks
# **10 minutes · 1 point**
#
# Two masks share some kept elements. Is this number large? Compare it with its mean for
# random masks that keep as many. *Pen and paper:* derive this mean. The first mask keeps
# $|a|$ of $n$ elements, and the second keeps $|b|$, drawn at random. Then insert
# $n = 32$, $|a| = 14$, $|b| = 11$.
# <details><summary>Answer</summary>Let $X_i = 1$ if the second mask keeps element $i$, else
# 0. All elements have the same probability: $P(X_i = 1) = |b|/n$. The number shared is the
# sum of $X_i$ over the $|a|$ elements of the first mask. The mean of a sum is the sum of
# the means, also if the $X_i$ depend on each other (as here):
# $\mathbb E \sum_{i \in a} X_i = |a| \cdot |b|/n$. Here this is 14 · 11/32 = 4.8.</details>
#
# **What is tested**: masks of any shape, that keep nothing or everything; an int and a
# float.


# %%
def overlap(a: Tensor, b: Tensor) -> tuple[int, float]:
    """Count the elements that both bool masks keep, and return this number and its mean for
    two random masks that keep as many.

    >>> overlap(torch.tensor([1, 1, 0, 0]).bool(), torch.tensor([1, 0, 1, 0]).bool())
    (1, 1.0)
    """
    ### BEGIN SOLUTION
    return int((a & b).sum()), int(a.sum()) * int(b.sum()) / a.numel()
    ### END SOLUTION


# %%
check("9.6")

# %% [markdown]
# ### Experiment 3: task or seed?
#
# *Before you look:* how many of 32 heads will two masks of one task share, on average?

# %%
### BEGIN SOLUTION
prediction_9_6 = 8
### END SOLUTION

# %%
of_heads = lab09.masks(heads)
mean, spread = survival(of_heads)
title = f"Tasks, of {len(TASKS)}, in which a head survives"
plots.grid(lab09.by_head(mean), title=title, colour_label="tasks, mean over 3 seeds")

# %%
shared = lab09.overlaps(of_heads, overlap)
title = "Number of heads that two masks share"
look = {"fmt": "{:.1f}", "guess": ("one task, two seeds", prediction_9_6)}
plots.bars(shared, x="pair", y="heads", by="method", title=title, **look)

# %%
lab09.say_agreement(shared, of_heads, fleiss_kappa, survivors_below)

# %% [markdown]
# {{claim 09.6}}
#
# One task with two seeds shares more heads beyond chance than one seed with two tasks,
# but this *difference* is not distinguishable over the four tasks. Also, pairs of the same
# three seeds are not independent. Whether the task matters more than the seed remains
# open.
#
# Even with one task, two seeds share clearly fewer heads than survive per seed, and κ
# differs much between tasks. Fine-tunings that differ only in the order of texts and in
# the initial weights of the classifier keep different heads. Prasanna et al. report for
# BERT-base that 86 % of the heads and 57 % of the feed-forward parts survive in fewer
# than seven of nine tasks. There and here, few heads are needed in every task. So do
# not claim that a head matters for negation before you have checked that independent
# fine-tunings agree (high κ).
#
# #### Real sentences
#
# We ask the same questions for a real encoder (MiniLM: 6 layers of 12 heads) on GLUE.
# The development sets of GLUE are our test data. Depth is measured on SST-2 with three
# fine-tunings (`course remake lab09_depth_sst2`), subnetworks on three tasks with two
# seeds each (`course remake lab09_subnetworks_glue`). Scores of subnetworks are
# Matthews correlations times 100; a constant answer has 0. We turn STS-B's similarity
# scores into two classes, above and below the midpoint.
#
# *Before you look:* will every second of six pre-trained layers do better than the
# first three? Write "yes" or "no".

# %%
real = experiments.read("lab09_depth_sst2/depths")
real_evenly = real[real["kept"] == "evenly spaced"]
title = "SST-2: any depth from one training?"
plots.curves(real_evenly, x="depth", y="test", control=None, title=title, xlabel="layers kept")

# %%
tables.means(real[real["depth"] == 3], "test", columns="kept")

# %%
glue = lab09.with_full("lab09_subnetworks_glue")
title = "GLUE: each fine-tuning's full model and its subnetworks"
one_by_one = lab09.scores_one_by_one(glue)
plots.grid(one_by_one, title=title, colour_label="Matthews × 100", fmt="{:.0f}", ylabel="")

# %% [markdown]
# **Depth.** After plain fine-tuning, this encoder cannot lose a single layer: with five
# of six layers it gives every sentence the same label. With LayerDrop it can lose
# layers, as in the paper, but this costs four to eight points at full depth. On the
# reviews, the cost was almost nothing. *Training* at half the depth is better still, as
# on the reviews. With LayerDrop, the choice of layers matters here: the first three of
# six give every sentence the same label, but keeping every second layer does not.
#
# **Subnetworks.** (*Again* means retrained.) Over three tasks, all intervals include 0.
# Look at single seeds. On STS-B, with both seeds, the retrained good subnetwork is as
# good as the full model, and a random one is far worse: on this task it matters *which*
# heads are kept. On QNLI the good subnetwork is also better, but two fine-tunings
# differ by more than their subnetworks. On SST-2 a random one is nearly as good, as on
# the reviews. Every task needs its own random baseline.
#
# ## Part E · What was it worth?
#
# ### 9.7 Costs, and two short answers
# **10 minutes · 1 point**
#
# We measure half of the depth, in three versions, and the good subnetwork of the first
# fine-tuning (sentiment), for 64 reviews of 37 tokens. Pruned elements are really
# removed: `take_layers`, `remove_heads`, `remove_mlps`.


# %%
whole = lab09.pretrained(0)
cut = take_layers(whole, lab09.PATH, LAYERS // 2)
costs = lab09.measure_costs({"dense": whole, "half": cut, "good": lab09.good_subnetwork()})
words.say("Milliseconds are for 64 texts.")
tables.plain(costs[["model", "parameters", "ms"]])

# %%
lab09.add_to_ledger(evenly, costs)
ledger.table()

# %% [markdown]
# Every machine is faster with fewer layers, because no index and no zero is stored.
# Engineers who deploy models therefore remove layers first. The comparison that matters
# is a smaller network *trained at that depth*.
#
# #### The two answers
#
# **a.** After the cut to half its depth, the LayerDrop model keeps more accuracy than
# the plain model. Why?
#
# - **A.** Its layers are smaller.
# - **B.** It was trained for longer.
# - **C.** The layers that were cut were useless in it.
# - **D.** Each layer has learned to work on the outputs of different earlier layers,
#   since some layers were missing in every step.
#
# **b.** Differences of this lab, with their 95 % intervals, on both kinds of data:
#
# {{difference 09.3}}
# {{difference 09.5}}
#
# Which of these sentences do the intervals permit?
#
# - **A.** On the reviews, it does not matter which half of the layers is kept.
# - **B.** On GLUE, the surviving subnetwork is better than a random one after
#   retraining.
# - **C.** After retraining, a random subnetwork is exactly as good as the surviving
#   one.
# - **D.** On SST-2, evenly spaced layers are better than the first ones; on the reviews
#   these runs do not decide.

# %%
### BEGIN SOLUTION
answer_9_7a = "D"
answer_9_7b = "D"
### END SOLUTION

# %%
check("9.7")

# %% [markdown]
# ## Play
#
# ### Which heads survive?
#
# Choose a task and a seed. You see the surviving heads, and how the score fell while
# the other heads were pruned. (Tab moves to a control, arrow keys move a slider.)


# %%
plots.explore(lab09.show_survivors(rounds, heads), task=list(TASKS), seed=(0, 2))

# %% [markdown]
# ## What you take with you
#
# - A residual layer can be removed, and this costs less after training with missing
#   layers. A network trained at that depth is better still, but it has only one depth.
# - One backward pass scores heads and feed-forward parts. A gate must scale the term
#   that a part adds.
# - *Before* retraining, a good subnetwork is far better than a random one. *After*
#   retraining, we could not detect a difference.
# - Two fine-tunings keep different heads, even for the same task. Compare with chance
#   before you claim that certain heads matter.
#
# ## Recap
#
# **1.** What does stochastic depth rescale that LayerDrop does not?
# <details><summary>Answer</summary>The function f(x) of a layer, at test time, by the
# probability that the layer runs.</details>
#
# **2.** Cut to half depth, a LayerDrop model is better than a plain one. Which
# comparison is missing?
# <details><summary>Answer</summary>The comparison with a network trained at half
# depth.</details>
#
# **3.** Why is the gate ν not placed before the last linear layer of the part?
# <details><summary>Answer</summary>The bias of this layer would still be added at
# ν = 0.</details>
#
# **4.** The good subnetwork reaches the full model after retraining. Is it special?
# <details><summary>Answer</summary>Only if a random one of the same size, retrained as
# long, does not reach it.</details>
#
# **5.** "Random minus good: −4.1 ± 8.1 points." Are they equal?
# <details><summary>Answer</summary>We do not know. We could not detect a difference,
# but the interval allows a large one.</details>
#
# ## Going further
#
# - **A model of your own.** `course_lib.pruning.layers` works on any transformer in the
#   registries.
# - **Read.** A. Fan, E. Grave, A. Joulin, [*Reducing Transformer Depth on Demand with
#   Structured Dropout*](https://arxiv.org/abs/1909.11556), 2020. G. Huang et al.,
#   [*Deep Networks with Stochastic Depth*](https://arxiv.org/abs/1603.09382), 2016. S.
#   Prasanna, A. Rogers, A. Rumshisky, [*When BERT Plays the Lottery, All Tickets Are
#   Winning*](https://arxiv.org/abs/2005.00561), 2020. J. Fleiss, [*Measuring Nominal
#   Scale Agreement among Many Raters*](https://doi.org/10.1037/h0031619), 1971.
# - **Next.** Lab 10: tokens.
