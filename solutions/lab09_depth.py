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

import numpy as np  # noqa: F401  (yours to use)
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

# %% [markdown]
# ### 9.2 Which layers to keep
# **10 minutes · 1 point**
#
# To use half of the depth, keep every second layer. The paper's rule ("drop layer $d$
# where $d \equiv 0 \bmod \lfloor 1/p \rfloor$") is not defined for every depth. Our
# rule is: keep layer $\lfloor i \cdot n / \text{depth} \rfloor$ for
# $i = 0 \dots \text{depth}-1$, where code counts layers from 0. This rule always keeps the first
# layer, and the last one only at full depth.
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
# with it ($p$ = 0.2 and 0.5), on the sentiment of short reviews. Then they are cut to
# every depth, without training after the cut. The baseline is a network that was first
# cut and then *trained at that depth*. The real encoder was fine-tuned in the same ways
# on SST-2 (three fine-tunings; *trained at that depth* only at half of it). A constant
# answer has 51 % there, and 50 % on the reviews. Your `layerdrop` trains checkpoint 0
# with $p$ = 0.5 for a few steps, and the result is cut to half of the depth.
#
# *Before you look:* which accuracy, in %, will *plain* reviews have at half of the depth?

# %%
prediction_plain = 80  # replace it by yours


# %%
def train_and_cut(p: float) -> float:
    """A short training with *your* layerdrop, then half of the layers."""
    model = lab09.pretrained(0)
    with layerdrop(model.get_submodule(lab09.PATH), p, torch.Generator().manual_seed(0)):
        lab09.trained_on(model, 0, QUICK)
    half = layers_to_keep(LAYERS, LAYERS // 2)
    return lab09.on_short(take_layers(model, lab09.PATH, half), 0)


# %%
depths, real = (experiments.read(f"lab09_depth{name}/depths") for name in ("", "_sst2"))
both = {"reviews, 4 layers": depths, "SST-2, 6 layers": real}
plots.show(lab09.draw_depths(both, train_and_cut(0.5), prediction_plain))
for name, table in both.items():
    cut = table.query("depth == depth.max() // 2 and method == 'LayerDrop 0.5'")
    gain = words.minus(cut, "test", "evenly spaced", "first", by="kept")
    words.say(f"{name}, half of them, LayerDrop 0.5: evenly spaced minus first layers: {gain}.")

# %% [markdown]
# {{claim 09.1}}
#
# {{claim 09.2}}
#
# **Reviews.** At half of the depth the plain network loses 25 points, half of its lead
# over a constant answer. LayerDrop loses less. With $p$ = 0.5 the difference is
# distinguishable; with $p$ = 0.2 it is not (8.4 ± 9.7). At full depth LayerDrop costs at
# most 0.2 points.
#
# **SST-2.** After plain fine-tuning every cut fails. With the first five of six layers the
# encoder already gives every sentence the same label. (Our rule removes the last layer first;
# we did not remove any other single layer.) With LayerDrop, three to five layers are better
# than a constant answer. At half of the depth $p$ = 0.2 has the higher mean (75.3 against
# 66.3 %), but we could not detect the difference (9.0 ± 12.2). *Trained at that depth* is 5.5
# ± 2.8 points ahead of $p$ = 0.2. LayerDrop costs four ($p$ = 0.2) or eight points at full
# depth.
#
# So the paper's first claim holds on both: training with missing layers makes a network
# robust to their removal. Its second does not hold here at half of the depth. In the paper,
# with 12 to 16 layers and LayerDrop during the whole training, cut networks are about as good
# as networks trained at that depth, or better. Here, with 4 to 6 layers and LayerDrop only in
# the last training, they are far behind. (With three of four layers, on the reviews, we could
# not detect a difference.)
#
# Is keeping every second layer better than keeping the first half? On SST-2 yes, after
# LayerDrop: the first three layers give every sentence the same label. (After plain
# fine-tuning both cuts do so.) On the reviews we could not detect it.
#
# With LayerDrop, *one* training gives networks of several depths, but not of every depth.
# With one or two of six layers (SST-2) they give every sentence the same label, and with one
# of four (reviews) they have 50 to 55 %, where *trained at that depth* has 68 %.

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
# In the experiment all three are then *retrained*: the layers of the encoder are reset to the
# pre-trained weights, and the model is fine-tuned with only the subnetwork switched on. The
# embeddings, the pooler and the classifier keep their fine-tuned values.
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
# The first checkpoint is fine-tuned on full reviews with three seeds: to *sentiment*, and
# to *negated* (is the main clause negated?). The real encoder is fine-tuned to two tasks
# of GLUE with three seeds: SST-2 (sentiment), and STS-B (are two sentences similar? Its
# scores become two classes). Each model is pruned while at least 90 % of its score on
# validation texts is left. Each seed draws its own random subnetwork. Then the three
# subnetworks are measured on test texts, before and after retraining. (Stored.)
#
# The unit of the figure is the full model's lead over a constant answer: 0 % is the
# constant answer, 100 % (black line) the full model of the same fine-tuning. The scores
# are accuracies on reviews and Matthews correlations on GLUE.
#
# *Before you look:* on STS-B, which share of the lead, in %, will the *random* subnetwork
# have after retraining?

# %%
prediction_random = 80  # replace it by yours

# %%
lab09.draw_shares(lab09.shares_of_lead(), ("STS-B", prediction_random))

# %% [markdown]
# One short run uses *your* `prune_while`, `joint_importance`, `gated_mlps` and
# `subnetworks` on sentiment. It is too short for the stored accuracies (60 of 250
# steps, measured on validation texts), but the order of the three should be the same:

# %%
tools = lab09.Tools(gated, gated_mlps, joint_importance, prune_while, subnetworks)
mine = lab09.short_tickets("sentiment", QUICK, tools)
tables.plain(mine["scores"].pivot(index="subnetwork", columns="when", values="score").reset_index())

# %% [markdown]
# {{claim 09.3}}
#
# {{claim 09.4}}
#
# {{claim 09.5}}
#
# *Before* retraining the good subnetwork is far ahead of the random one on the reviews.
# On GLUE its mean is higher, too, but the random draws differ so much that we could not
# detect the difference.
#
# *After* retraining the good subnetwork nearly reaches the full model, on all four tasks.
# This sounds as if we had found winning tickets. But on three of the tasks the random
# subnetwork comes close to it, too. On STS-B the *draw* matters: two of the three random
# subnetworks are 30 points behind the good one, and the third 2.5 points. After the first two
# seeds we would have reported a difference of 30 points; with three we cannot detect one. So
# "the surviving subnetwork reaches the full model" is no evidence for *this* subnetwork, and
# one random draw is no baseline.
#
# Prasanna et al. report that most subnetworks can be fine-tuned to nearly the full model's
# score: "all tickets are winning". According to their abstract, subnetworks from the rest
# of the model "perform worse", but even the worst "remain highly trainable". Here the bad
# subnetworks are worse, too, on all four tasks. They keep 87 % of the lead on SST-2, half of
# it on sentiment and *negated* (on *negated* good minus bad is 12.4 ± 2.5 points), and 30 % on
# STS-B. On GLUE most heads survive (44 of 72 in five of six searches), so 16 of these 44 heads and
# two of four blocks of a bad subnetwork are survivors, too; on the reviews none is. So not all
# tickets are winning here.
#
# Two tasks of the stored run are no evidence here: on *contrast* and *domain* every
# subnetwork, also the bad one, has 99 to 100 % after retraining. (Embeddings,
# pooler and classifier are not reset before retraining, so the bad subnetwork, too, starts with
# embeddings that were trained on the task. *Domain* was hard to fine-tune and needed more than
# three times the steps.)

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
# Which heads survive the search of experiment 2, on all four tasks of the reviews
# (*contrast*: is there a second clause? *Domain*: a restaurant, a film or a phone?)? All
# twelve fine-tunings start from the same checkpoint. Two fine-tunings of one task differ
# only in the order of the texts and in the initial weights of the classifier.
#
# *Before you look:* how many of 32 heads will two masks of one task share, on average?

# %%
prediction_shared = 8  # replace it by yours

# %%
rounds, kept = (experiments.read(f"lab09_subnetworks/{name}") for name in ("rounds", "heads"))
of_heads = lab09.masks(kept)
shared = lab09.overlaps(of_heads, overlap)
title = "Number of heads that two masks share"
look = {"fmt": "{:.1f}", "guess": ("one task, two seeds", prediction_shared)}
plots.show(plots.bars(shared, x="pair", y="heads", by="method", title=title, **look))
words.say(f"Heads that survive, mean of all masks: {kept['kept'].mean() * LAYERS * HEADS:.1f}.")
words.say(f"Fleiss' κ of the three masks of a task: {lab09.kappas(of_heads)}.")

# %% [markdown]
# {{claim 09.6}}
#
# (Each *run* of this claim is a task: the mean of its pairs of seeds. The interval only just
# excludes 0, and GLUE has only two tasks here.)
#
# Fleiss' $\kappa$ compares more than two masks: it is 1 if all agree, and 0 if they agree
# as often as random masks. Here it lies between 0.13 (*domain*) and 0.70 (*negated*); on GLUE it is
# 0.47 (SST-2) and 0.57 (STS-B). Even with one task, two
# seeds share only 7.1 of about eleven heads.
#
# Two tasks with one seed share 1.4 more heads than random masks on the reviews, and 0.2 more
# on GLUE. Two seeds of one task share 3.2 and 9.0 more. Is the task more important than the
# seed? These runs suggest it, but pairs of the same three seeds are not independent, so the
# question remains open. Prasanna et al. report for BERT-base that 86 % of the heads and 57 %
# of the feed-forward blocks survive in fewer than seven of nine tasks. So do not claim that a
# head matters for the domain (κ = 0.13) before you have checked that independent fine-tunings
# agree (high $\kappa$).

# %% [markdown]
# ## Part E · What was it worth?
#
# ### Experiment 4: what is saved?
#
# We measure half of the depth and the good subnetwork of the first fine-tuning
# (sentiment), for 64 reviews of 37 tokens. Pruned elements are really removed:
# `take_layers`, `remove_heads`, `remove_mlps`.

# %%
whole = lab09.pretrained(0)
cut = take_layers(whole, lab09.PATH, LAYERS // 2)
costs = lab09.measure_costs({"dense": whole, "half": cut, "good": lab09.good_subnetwork()})
words.say("Milliseconds are for 64 texts.")
tables.plain(costs[["model", "parameters", "ms"]])

# %%
rows = [
    ("dense", "plain"),
    *(("half", m) for m in ("plain", "LayerDrop 0.5", "trained at that depth")),
]
for model, method in rows:
    at = LAYERS if model == "dense" else LAYERS // 2
    tested = depths.query("kept == 'evenly spaced' and depth == @at and method == @method")["test"]
    cost = costs.set_index("model").loc[model, ["bits", "macs", "ms"]].to_dict()
    name = (
        f"half the depth, {method.replace('at that depth', 'so')}" if model == "half" else "dense"
    )
    ledger.add("bert-small, short reviews", name, lab="09", accuracy=tested, **cost)
ledger.table()

# %% [markdown]
# On this machine, half of the layers take about half of the time: layers that are gone need
# no index and no stored zero. The good subnetwork takes about as long. The comparison that
# matters is again a smaller network *trained at that depth*: it costs the same as the cut network
# and is more accurate. (We did not compare it with the good subnetwork, which was measured on
# other reviews.)
#
# ### 9.7 Two short answers
# **10 minutes · 1 point**
#
# **a.** After the cut to half its depth, the LayerDrop model keeps more accuracy than
# the plain model. Why?
#
# - **A.** Its layers are smaller.
# - **B.** It was trained for longer.
# - **C.** The layers that were cut had been useless before its training.
# - **D.** Each layer has learned to work on the outputs of different earlier layers,
#   since some layers were missing in most of the steps.
#
# **b.** Differences after retraining, with their 95 % intervals:
#
# {{difference 09.4}}
# {{difference 09.5}}
#
# Which of these sentences do the intervals permit?
#
# - **A.** On the sentiment of reviews, it does not matter which heads and blocks are kept.
# - **B.** On SST-2, the surviving subnetwork is better than a random one.
# - **C.** On the sentiment of reviews, a random subnetwork is exactly as good as the
#   surviving one.
# - **D.** On all three tasks, the surviving subnetwork is better than the bad one; these
#   runs do not decide whether it is better than a random one.

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
# Choose a task and a seed. You see the surviving heads. (Tab moves to a control, arrow
# keys move a slider.)


# %%
plots.explore(lab09.show_survivors(rounds, kept), task=list(TASKS), seed=(0, 2))

# %% [markdown]
# ## What you take with you
#
# - A residual layer can be removed, and this costs less after training with missing
#   layers. A network trained at that depth is better still, but it has only one depth.
# - One backward pass scores heads and feed-forward blocks. A gate must scale the term
#   that a block adds.
# - *After* retraining, a good subnetwork nearly reaches the full model, but most random ones come
#   close to it, too. Each task needs its own random baseline, with several draws.
# - Two fine-tunings keep different heads, even for the same task. Compare with random
#   masks before you claim that certain heads matter.
#
# ### Four questions to recap
#
# 1. What does stochastic depth rescale that LayerDrop does not?
#    <details><summary>Answer</summary>The function f(x) of a layer, at test time, by the
#    probability that the layer runs.</details>
# 2. Cut to half depth, a LayerDrop model is better than a plain one. Which comparison is
#    missing?
#    <details><summary>Answer</summary>The comparison with a network trained at half
#    depth.</details>
# 3. Why is the gate ν not placed before the last linear layer of the block?
#    <details><summary>Answer</summary>The bias of this layer would still be added at
#    ν = 0.</details>
# 4. On *contrast*, the random subnetwork reaches 100 % after retraining, as the good one
#    does. What does this show about good subnetworks?
#    <details><summary>Answer</summary>Nothing: the bad one has 100 %, too. A task at the
#    ceiling cannot show a difference.</details>
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
