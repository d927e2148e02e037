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
# **A transformer is a pile of equal layers, each of heads and a feed-forward part. Can
# whole ones go? And are those that may go the same for every task, and every seed?**
#
# Lab 07 took heads. This lab takes larger things, whole layers and whole feed-forward
# parts, and asks two questions that look alike. First: *one* training, *any* depth: can
# a network be trained so that layers may be taken out afterwards? Second: after
# fine-tuning, a good subnetwork of heads and feed-forward parts can be found. Is it
# special? Prasanna, Rogers and Rumshisky (2020) ask this with a pun on lab 03's subject,
# the lottery ticket hypothesis: what happens *when BERT plays the lottery*?
#
# | part | you write | you find out |
# |---|---|---|
# | A · Any depth from one training | 9.1 LayerDrop, 9.2 which layers stay | what does training with missing layers buy? |
# | B · Heads and feed-forward parts alike | 9.3 one backward pass for both | which parts does a task need? |
# | C · Good, random, bad | 9.4 the search, 9.5 three subnetworks, retrained | are all tickets winning? |
# | D · The same every time? | 9.6 survival, 9.7 agreement beyond chance | tasks or seeds: what decides? |
# | E · What was it worth? | 9.8 two short answers, 9.9 a bug hunt | the bill |
#
# 20 points; about three hours. After each exercise `check("9.1")` tells you at once
# what is right. If you are stuck, write `skip("9.1")` in a cell: that question scores 0
# and the rest of the lab goes on with the course's version.
#
# The rules are those of lab 01: guess first; choose on validation data and look at the
# test data once; no claim without a random control and three seeds.

# %%
from course_lib.grading import check, choose, skip  # noqa: F401  (skip is yours to use)

# isort: split
import copy
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from course_lib import experiments, ledger
from course_lib.experiments import lab09
from course_lib.models.attention import output_projections
from course_lib.models.mlps import mlp_outputs
from course_lib.show import drawings, plots, real_data, tables, widgets, words

STUDENT = ""  # your name or number: the letters of your questions are yours alone

# %% [markdown]
# ## Settings
#
# The models are the three small BERTs that come with the course: four layers, eight
# heads in each, trained to tell the sentiment of reviews from our grammar. Results
# that take minutes are read from tables (`course remake lab09_depth`,
# `course remake lab09_subnetworks`); shorter versions run live. The functions `lab09.…`
# that run and summarise the experiments are short:
# [what they do](../course_lib/experiments/lab09.py).

# %%
QUICK = {"steps": 60, "lr": 3e-4}  # of the live training
torch.set_num_threads(1)
LAYERS, HEADS, TASKS = lab09.LAYERS, lab09.HEADS, lab09.TASKS
words.say(f"{LAYERS} layers of {HEADS} heads and one MLP; tasks: {', '.join(TASKS)}; 3 seeds each.")

# %% [markdown]
# ## Part A · Any depth from one training
#
# The idea of this part in one picture: a layer that is left out lets its input through.

# %%
plots.show(drawings.layers_skipped())

# %% [markdown]
# ### 9.1 LayerDrop
# **30 minutes · 4 points**
#
# Each block of a transformer adds something to its input: $x + f(x)$. (In BERT a layer
# norm follows the sum.) If a layer is left out, $x$ is passed on unchanged. Fan, Grave
# and Joulin (2020) train that way: in each step every layer is skipped with probability
# $p$. What remains learns to work without any one of them.
#
# Dropout divides the values that it keeps by $1-p$, so that their expectation is
# unchanged. Its relative for whole layers, stochastic depth (Huang et al. 2016), scales
# $f(x)$ at test time by the probability that the layer runs. LayerDrop rescales nothing:
# with a layer's expected output $x + (1-p)f(x)$ in training, and $x + f(x)$ afterwards.
#
# *Before you write anything:* with $p = \frac12$ and four layers, in how many of a
# hundred steps do all four run?

# %%
### BEGIN SOLUTION
prediction_9_1 = 6
### END SOLUTION


# %%
@contextmanager
def layerdrop(layers: nn.ModuleList, p: float, generator: torch.Generator) -> Iterator[None]:
    """Inside the block each *call* of a layer that is in training mode is skipped with
    probability p.

    Write it yourself: not with ``course_lib.pruning``.

    Args:
        layers: each called with the hidden states as its first positional argument.
        p: from 0 to 1.
        generator: one number a call, in calling order:
            ``torch.rand((), generator=generator) < p`` skips.

    A skipped layer does not run (nor anything in it), and its call returns its first
    positional argument as it is. Nothing is rescaled. In evaluation mode nothing is
    drawn or skipped. After the block, also after an exception, every layer is as
    before: the same objects in ``layers``, the same names in the state dict (inside,
    too), no hook, no ``forward`` of its own.
    """
    if not 0 <= p <= 1:
        raise ValueError(f"p is a probability, got {p}")
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
# <code>layer.forward</code>. A function put there under that name, on the object, is
# found before the class's.</details>
# <details><summary>Hint 2: one at a time</summary>A function made in a loop sees the
# loop's last layer. Make it in a function of its own.</details>
# <details><summary>Hint 3: afterwards</summary><code>try … finally</code> round the
# <code>yield</code>; <code>del layer.forward</code> brings the class's back.</details>

# %%
ran = lab09.count_layers(layerdrop, 0.5)
words.say(
    f"Of 1,000 steps all {LAYERS} layers ran in {ran.count(LAYERS)}, none in {ran.count(0)}"
    f" (expected: 1000/2⁴ = 62.5 each); {np.mean(ran):.1f} of them on average."
    f" {words.you_wrote(prediction_9_1)}"
)

# %% [markdown]
# ### 9.2 Which layers stay
# **15 minutes · 2 points**
#
# To use half of the depth, take every other layer. The paper's rule ("drop layer $d$
# where $d \equiv 0 \bmod \lfloor 1/p \rfloor$") is not defined for every depth; this
# is: keep layer $\lfloor i \cdot n / \text{depth} \rfloor$ for
# $i = 0 \dots \text{depth}-1$.


# %%
def layers_to_keep(layers: int, depth: int) -> list[int]:
    """[⌊i · layers / depth⌋ for i = 0 … depth − 1].

    Write both yourself: not with ``course_lib.pruning``.
    """
    if not 1 <= depth <= layers:
        raise ValueError(f"of {layers} layers 1 to {layers} can stay, got {depth}")
    ### BEGIN SOLUTION
    return [i * layers // depth for i in range(depth)]
    ### END SOLUTION


def take_layers(model: nn.Module, path: str, depth: int) -> nn.Module:
    """A copy of the model whose ModuleList at ``path`` holds these layers only, in
    order.

    Args:
        path: for ``model.get_submodule``: "bert.encoder.layer"; one part or many.

    Returns:
        A copy: weights equal and not shared. Of ``config.num_hidden_layers``,
        ``encoder_layers`` and ``num_layers`` the first that the copy's ``config`` has
        (if it has one) and that equals the old number is set to ``depth``. The given
        model is unchanged.
    """
    ### BEGIN SOLUTION
    smaller = copy.deepcopy(model)
    layers = smaller.get_submodule(path)
    kept = nn.ModuleList([layers[i] for i in layers_to_keep(len(layers), depth)])
    parent, _, name = path.rpartition(".")
    setattr(smaller.get_submodule(parent), name, kept)
    config = getattr(smaller, "config", None)
    for field in ("num_hidden_layers", "encoder_layers", "num_layers"):
        if getattr(config, field, None) == len(layers):
            setattr(config, field, depth)
            break
    return smaller
    ### END SOLUTION


# %%
check("9.2")

# %% [markdown]
# <details><summary>Hint</summary><code>path.rpartition(".")</code> gives the parent's
# path and the name; <code>get_submodule("")</code> is the model itself.</details>

# %% [markdown]
# #### Experiment: any depth?
#
# The three checkpoints, trained further for 300 steps, plainly or with LayerDrop
# ($p$ = 0.2 and 0.5), then cut to every depth; nothing is trained after the cut. One
# more line shows a network that was *trained at that depth*. The task is sentiment on
# short reviews; always saying the same is right in 50 %.
#
# *Before you look:* at half the depth, which will be best: plain, LayerDrop, or trained
# at that depth?

# %%
### BEGIN SOLUTION
prediction_9_2 = "trained at that depth, LayerDrop close behind"
### END SOLUTION

# %%
depths = experiments.read("lab09_depth/depths")
evenly = depths[depths["kept"] == "evenly spaced"]
title = "Any depth from one training?"
plots.curves(evenly, x="depth", y="test", control=None, title=title, xlabel="layers left")

# %% [markdown]
# The same at half of the depth, in numbers, beside the *first* two layers:

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
    f" {by_mine(0, 0.5):.1f} %. {words.you_wrote(prediction_9_2)}"
)

# %% [markdown]
# Read the tables of half the depth. The plain network loses 25 points, half of its lead
# over chance. LayerDrop loses less at either $p$; shown is that for $p = \frac12$. At
# full depth (the right end of the figure) LayerDrop costs next to nothing, so the
# training was no worse for it. That is the paper's claim, and it holds here.
#
# Two things do not. A network *trained* at half the depth is better by far than one
# that was cut to it: in the paper, with 12 to 16 layers, cut networks are about as good
# as, or better than, those trained at their depth. Here half of the depth is two
# layers, each of which did something the other cannot take over without training. And
# "every other layer" is not shown to be better than "the first ones"; look at the two
# columns of the first table. With four layers there is not much to choose.
#
# So what does LayerDrop buy? *One* training, and a depth for each device. The price is
# the distance to the line *trained at that depth*; a short fine-tuning after the cut would close some of
# it.
#
# ## Part B · Heads and feed-forward parts alike
#
# ### 9.3 One backward pass for both
# **30 minutes · 3 points**
#
# Lab 07 put a gate $\xi$ on every head and asked for $|\partial L/\partial \xi|$. The
# feed-forward part of a layer gets a gate, too: $\nu \cdot \text{MLP}(x)$, on what the
# part *adds* to the residual stream, its last bias included. In front of the last layer
# the bias would stay; behind the sum, or behind the layer norm, the gate would kill
# what came in as well.
#
# `mlp_outputs(model)` lists for each layer the linear layer whose output is MLP(x);
# `gated(model, xi)`, for heads, is given.


# %%
@contextmanager
def gated(model: nn.Module, xi: Tensor) -> Iterator[None]:
    """Given: inside the block every head is multiplied by its gate, (layers, heads) or
    (layers, B, heads).
    """
    with ExitStack() as hooks:
        for out, gate in zip(output_projections(model), xi, strict=True):

            def scale(module: nn.Module, inputs: tuple[Tensor, ...], gate: Tensor = gate) -> Tensor:
                x = inputs[0]  # (B, L, heads · head size)
                wide = gate.to(x.dtype).repeat_interleave(x.shape[-1] // gate.shape[-1], -1)
                return x * (wide if wide.ndim == 1 else wide[:, None])

            hooks.callback(out.register_forward_pre_hook(scale).remove)
        yield


@contextmanager
def gated_mlps(model: nn.Module, nu: Tensor) -> Iterator[None]:
    """Inside the block the output of every layer of ``mlp_outputs(model)`` is
    multiplied by its gate.

    Write both yourself: not with ``course_lib.pruning``.

    Args:
        nu: (layers,), or (layers, B) with a gate for each sample. Gradients flow to it;
            ν = 1 changes nothing.

    No hook is left after the block, also after an exception.
    """
    ### BEGIN SOLUTION
    with ExitStack() as hooks:
        for out, gate in zip(mlp_outputs(model), nu, strict=True):

            def scale(
                module: nn.Module, inputs: tuple[Tensor, ...], x: Tensor, gate: Tensor = gate
            ) -> Tensor:
                return x * gate.to(x.dtype).view(-1, 1, 1)  # (1 or B, 1, 1)

            hooks.callback(out.register_forward_hook(scale).remove)
        yield
    ### END SOLUTION


def joint_importance(
    model: nn.Module, batches: Iterable[Any], loss_fn: Callable[[nn.Module, Any], Tensor]
) -> tuple[Tensor, Tensor]:
    """The mean over samples of |∂L(x)/∂ξ| and of |∂L(x)/∂ν|, at gates of 1.

    Args:
        model: in evaluation mode meanwhile; its mode and every ``.grad`` are as before
            afterwards. It need not be the notebook's: ``len(mlp_outputs(model))`` layers
            of ``model.config.num_attention_heads`` heads.
        batches: dicts with ``input_ids`` (B, L). loss_fn:
            ``loss_fn(model, batch)`` -> (B,), a loss for each sample.

    Returns:
        (layers, heads) and (layers,), float64; both from *one* backward pass a batch,
        and independent of the batch size.
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
            # a sample's gate meets that sample's loss alone
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
# <details><summary>Hint 1: hooks</summary><code>out.register_forward_hook(f)</code>
# with <code>f(module, inputs, output)</code>; what it returns takes the output's place.
# An <code>ExitStack</code> removes them all.</details>
# <details><summary>Hint 2: per sample</summary>Gates of shape (layers, B): the gradient
# of the summed loss by a sample's gate is that sample's own. Absolute value first, then
# the sum.</details>
# <details><summary>Hint 3: nothing left
# behind</summary><code>torch.autograd.grad</code> leaves every <code>.grad</code>
# alone.</details>

# %% [markdown]
# ## Part C · Good, random, bad
#
# ### 9.4 The search
# **25 minutes · 2 points**
#
# Prasanna et al. prune round by round: each time the least important tenth of all heads
# and one feed-forward part, by an importance that is computed again in every round, as
# long as at least 90 % of the full score is left. We remove the same share of the
# feed-forward parts as of the heads: with four layers, one part per round would be too
# fast.


# %%
def prune_while(
    evaluate: Callable[[Tensor, Tensor], float],
    importance: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]],
    layers: int,
    heads: int,
    share: float = 0.9,
    step: float = 0.1,
) -> list[tuple[Tensor, Tensor, float]]:
    """The rounds of the search: (xi, nu, score), xi (layers, heads) and nu (layers,)
    bool, True = kept.

    Write it yourself: not with ``course_lib.pruning``.

    Entry 0: nothing pruned, its score is the full one. Round r = 1, 2, …:
    ``importance(xi, nu)`` of the *current* masks gives (layers, heads) and (layers,);
    the lowest of what is left go (the lower index first among equals), so that in all
    min(n, r·k) heads are gone, k = max(1, round(step · layers · heads)), and
    min(layers, round(r · step · layers)) feed-forward parts. Evaluate; if the score is
    at least share · full, append the round; else drop it and return. Also return when
    nothing is left to prune. Both functions get masks of their own, and are called no
    more often than this says.
    """
    if not 0 <= share <= 1 or not 0 < step < 1:
        raise ValueError(f"share is from 0 to 1 and step between 0 and 1, got {share} and {step}")
    ### BEGIN SOLUTION

    def lowest_gone(kept: Tensor, scores: Tensor, gone: int) -> Tensor:
        order = (
            torch.as_tensor(scores)
            .double()
            .masked_fill(~kept, -torch.inf)
            .flatten()
            .argsort(stable=True)
        )
        mask = torch.ones(kept.numel(), dtype=torch.bool)
        mask[order[:gone]] = False  # what is gone already sorts first
        return mask.view(kept.shape)

    xi, nu = torch.ones(layers, heads, dtype=torch.bool), torch.ones(layers, dtype=torch.bool)
    full = float(evaluate(xi.clone(), nu.clone()))
    found = [(xi, nu, full)]
    k, r = max(1, round(step * layers * heads)), 0
    while xi.any() or nu.any():
        r += 1
        of_heads, of_mlps = importance(xi.clone(), nu.clone())
        xi = lowest_gone(xi, of_heads, min(layers * heads, r * k))
        nu = lowest_gone(nu, of_mlps, min(layers, round(r * step * layers)))
        score = float(evaluate(xi.clone(), nu.clone()))
        if score < share * full:
            break
        found.append((xi, nu, score))
    return found
    ### END SOLUTION


# %%
check("9.4")

# %% [markdown]
# <details><summary>Hint 1: what is gone stays gone</summary>Give it the score −∞ before
# you sort, and count what is gone in all.</details>
# <details><summary>Hint 2: in all</summary>round(r · step · layers) parts after round
# r, not one in every round: of four layers none is left after four rounds
# otherwise.</details>

# %% [markdown]
# ### 9.5 Three subnetworks, and another try
# **30 minutes · 3 points**
#
# Is the subnetwork that survives special? Compare it with a *random* one of the same
# size, and with a *bad* one: made of what did not survive. (If that is too little, the
# paper fills up with a random sample of the survivors, we with the least important.) And then give all three
# another chance: back to the pre-trained weights, and fine-tune with only the
# subnetwork switched on.


# %%
def subnetworks(
    xi: Tensor, nu: Tensor, I_h: Tensor, I_mlp: Tensor, generator: torch.Generator
) -> dict[str, tuple[Tensor, Tensor]]:
    """ "good", "random" and "bad": each (bool (layers, heads), bool (layers,)), all
    with as many heads and as many parts as (xi, nu).

    Write both yourself: not with ``course_lib.pruning``.

    Args:
        xi, nu: what survived: good. I_h, I_mlp: importance, of their shapes.

    random: ``torch.randperm(layers · heads, generator=generator)``, its first n heads
    are kept; then the same with ``torch.randperm(layers, generator=generator)`` for the
    parts. bad: of what did *not* survive the lowest scores first; if these are too few,
    all of them, and the survivors of lowest score.
    """
    if xi.shape != I_h.shape or nu.shape != I_mlp.shape or I_h.isnan().any() or I_mlp.isnan().any():
        raise ValueError("masks and scores have the same shapes, and scores are numbers")
    ### BEGIN SOLUTION

    def drawn(mask: Tensor) -> Tensor:
        chosen = torch.zeros(mask.numel(), dtype=torch.bool)
        chosen[torch.randperm(mask.numel(), generator=generator)[: int(mask.sum())]] = True
        return chosen.view(mask.shape)

    def worst(mask: Tensor, score: Tensor) -> Tensor:
        survived, order = mask.flatten(), score.flatten().argsort(stable=True).tolist()
        order = [i for i in order if not survived[i]] + [i for i in order if survived[i]]
        chosen = torch.zeros(mask.numel(), dtype=torch.bool)
        chosen[order[: int(mask.sum())]] = True
        return chosen.view(mask.shape)

    by_chance = (drawn(xi), drawn(nu))  # heads are drawn first
    return {
        "good": (xi.clone(), nu.clone()),
        "random": by_chance,
        "bad": (worst(xi, I_h), worst(nu, I_mlp)),
    }
    ### END SOLUTION


def retrain(
    model: nn.Module,
    pretrained: dict[str, Tensor],
    xi: Tensor,
    nu: Tensor,
    train: Callable[[nn.Module], Any],
) -> None:
    """Copy the weights named in ``pretrained`` back into the model, in place; then
    ``train(model)`` once, inside ``gated`` and ``gated_mlps`` with these masks as 0 and 1.

    Args:
        pretrained: a part of the model's parameters (no classifier), by name. Not
            changed, not aliased.

    Raises:
        ValueError: if the model lacks a name; before anything changes.
    """
    ### BEGIN SOLUTION
    parameters = dict(model.named_parameters())
    if not pretrained.keys() <= parameters.keys():
        raise ValueError(f"the model has no {sorted(pretrained.keys() - parameters.keys())}")
    with torch.no_grad():
        for name, value in pretrained.items():
            parameters[name].copy_(value)
    with gated(model, xi.float()), gated_mlps(model, nu.float()):
        train(model)
    ### END SOLUTION


# %%
check("9.5")

# %% [markdown]
# <details><summary>Hint</summary>Sort once by score, stably; then put what did not
# survive in front, keeping the order.</details>

# %% [markdown]
# #### Experiment: are all tickets winning?
#
# One start (the first checkpoint), fine-tuned to each task with three seeds; pruned
# while 90 % are left on validation texts; then the three subnetworks on test texts, as
# they are, and after retraining (result file).
#
# *Before you look:* after retraining, how far will the random subnetwork be behind the
# good one? And the bad one?

# %%
### BEGIN SOLUTION
prediction_9_5 = "random 2 points, bad 20"
### END SOLUTION

# %%
rounds, heads = (experiments.read(f"lab09_subnetworks/{name}") for name in ("rounds", "heads"))
four = lab09.with_full("lab09_subnetworks")
look = {"by": "subnetwork", "ylabel": "test accuracy (%)", "fmt": "{:.0f}"}
pruned, retrained = (four[four["when"] == when] for when in ("pruned", "retrained"))
plots.bars(pruned, x="task", y="score", title="Subnetworks as they are, after the search", **look)

# %%
plots.bars(retrained, x="task", y="score", title="The same, retrained", **look)

# %%
words.say(f"What survived: {words.you_wrote(prediction_9_5)}")
tables.show(tables.plain(lab09.heads_and_parts(rounds)))
words.say("Points, paired by seed, as they are and then retrained:")
by = {"by": "subnetwork", "against": "good", "columns": "task"}
tables.show(tables.compare(pruned, "score", **by))
tables.compare(retrained, "score", **by)

# %% [markdown]
# And one short run with *your* `prune_while`, `joint_importance`, `gated_mlps`,
# `subnetworks` and `retrain`, on sentiment, measured on validation texts:

# %%
tools = lab09.Tools(gated, gated_mlps, joint_importance, prune_while, subnetworks, retrain)
mine = lab09.short_tickets("sentiment", QUICK, tools)
tables.show(tables.plain(mine["rounds"]))
tables.plain(mine["scores"])

# %% [markdown]
# As they are, the good subnetworks are far ahead of the random ones: see the row
# *random* of the first differences. (On *contrast* the random ones scatter so much that
# three seeds do not show it.) *Retrained*, the picture changes. Nowhere is the good one
# shown to be better than the random one, and on two of the four tasks even the bad one
# reaches the full model. That is what the paper reports on GLUE: most subnetworks can
# be fine-tuned to nearly the full model's score, hence "all tickets are winning". In
# its abstract similarly sized subnetworks of the rest "perform worse", and yet even the
# worst "remain highly trainable". Ours lag behind on two tasks (sentiment, and whether the
# main clause is negated): there good against bad *is* shown. That good and random could
# not be told apart does not prove that they are equal: with three seeds the intervals are
# wide.
#
# Mind what the random control says. "The subnetwork that survived reaches the full
# model after retraining" is true, sounds like a winning ticket, and says nothing about
# *this* subnetwork. It is the same trap as in lab 03.
#
# Two details. The classifier is not among the weights that go back; it starts
# retraining as fine-tuning left it, for all three alike. And *domain* was the hard one
# to fine-tune, with more than three times the steps of the others: at a higher rate one
# of three seeds ended at chance. Its subnetworks retrain more easily than the full
# model did.
#
# ## Part D · The same every time?
#
# ### 9.6 Survival
# **15 minutes · 2 points**
#
# Prasanna et al. count for each head in how many *tasks* it survives, and how that
# count moves from seed to seed.


# %%
def survival(masks: list[list[Tensor]]) -> tuple[Tensor, Tensor]:
    """Over seeds, the mean and the (population) standard deviation of the number of
    tasks in which each element survives; float64.

    Write both yourself: not with ``course_lib.pruning``.

    Args:
        masks: for each seed a list over tasks of bool tensors, all of one shape.

    Raises:
        ValueError: if there is none, seeds have unlike numbers of tasks, or shapes
            differ.
    """
    if (
        not masks
        or not masks[0]
        or len({len(m) for m in masks}) > 1
        or len({m.shape for s in masks for m in s}) > 1
    ):
        raise ValueError("as many tasks for each seed, at least one, all masks of one shape")
    ### BEGIN SOLUTION
    # (seeds, *shape)
    counts = torch.stack([torch.stack(of_seed).double().sum(0) for of_seed in masks])
    return counts.mean(0), counts.std(0, correction=0)
    ### END SOLUTION


def survivors_below(masks: list[list[Tensor]], tasks: float) -> float:
    """The share of elements whose mean count is less than ``tasks``."""
    ### BEGIN SOLUTION
    return float((survival(masks)[0] < tasks).double().mean())
    ### END SOLUTION


# %%
check("9.6")

# %% [markdown]
# <details><summary>Hint</summary>First a count for each seed (a sum over tasks), then
# mean and spread over seeds.</details>

# %% [markdown]
# ### 9.7 Agreement beyond chance
# **20 minutes · 2 points**
#
# Two masks that keep half of the heads share some by chance: $|a|\,|b|/n$ on average.
# For more than two, Fleiss' $\kappa$: let $R$ masks be raters of $n$ elements, and
# $k_i$ the number of masks that keep element $i$. The share of pairs of masks that
# agree about it is $P_i = \frac{k_i(k_i-1) + (R-k_i)(R-k_i-1)}{R(R-1)}$; by chance it
# would be $\bar P_e = q^2 + (1-q)^2$ with $q$ the share of all entries that are kept.
# Then $\kappa = \frac{\bar P - \bar P_e}{1 - \bar P_e}$: 1 is perfect, 0 is chance.


# %%
def overlap(a: Tensor, b: Tensor) -> tuple[int, float]:
    """How many elements both bool masks keep, and how many two random masks of these
    sizes share on average.

    Write both yourself: not with ``course_lib.pruning`` or ``statsmodels``.
    """
    ### BEGIN SOLUTION
    return int((a & b).sum()), int(a.sum()) * int(b.sum()) / a.numel()
    ### END SOLUTION


def fleiss_kappa(masks: Tensor) -> float:
    """κ of bool masks (R, n), R raters and n elements; 1.0 where chance agreement is 1."""
    if masks.ndim != 2 or masks.shape[0] < 2 or masks.shape[1] == 0:
        raise ValueError(
            f"at least two masks of at least one element, (R, n), got {tuple(masks.shape)}"
        )
    ### BEGIN SOLUTION
    raters, kept = len(masks), masks.double().sum(0)  # (n,)
    agreed = (kept * (kept - 1) + (raters - kept) * (raters - kept - 1)) / (raters * (raters - 1))
    share = float(masks.double().mean())
    chance = share**2 + (1 - share) ** 2
    return 1.0 if chance == 1 else (float(agreed.mean()) - chance) / (1 - chance)
    ### END SOLUTION


# %%
check("9.7")

# %% [markdown]
# <details><summary>Hint</summary>The formulas line by line. Agreement of a mask with
# itself does not count: k(k − 1), not k².</details>

# %% [markdown]
# #### Experiment: task or seed?
#
# *Before you look:* which two masks of heads share more: one task with two seeds, or
# one seed with two tasks?

# %%
### BEGIN SOLUTION
prediction_9_7 = "one task, two seeds"
### END SOLUTION

# %%
of_heads = lab09.masks(heads)
mean, spread = survival(of_heads)
title = f"In how many of {len(TASKS)} tasks does a head survive?"
plots.heat_map(lab09.by_head(mean), title=title, colour_label="tasks, mean over 3 seeds")

# %%
shared = lab09.overlaps(of_heads, overlap)
title = "How many heads do two masks share?"
plots.bars(shared, x="pair", y="heads", by="method", fmt="{:.1f}", title=title)

# %%
lab09.say_agreement(shared, of_heads, fleiss_kappa, survivors_below)
words.say(words.you_wrote(prediction_9_7))

# %% [markdown]
# Both numbers are above chance. One task with two seeds shares more beyond chance than one
# seed with two tasks, but this *difference* is not shown: over the four tasks its interval
# contains 0 (last row of the table below; pairs that share a seed are not independent). So
# whether the task decides more than the seed remains open.
# And look at how far even the first number is from all of the heads that are left, and at κ,
# which differs much between tasks: two fine-tunings that differ in nothing but the
# order of texts and a fresh classifier keep different heads. Prasanna et al. report the
# same of BERT-base: 86 % of the heads and 57 % of the feed-forward parts survive in
# fewer than seven of nine tasks, and seeds agree less than one would like. Few heads,
# here or there, are needed for everything.
#
# "This head matters for negation" is a sentence about one fine-tuning until κ says
# otherwise.
#
# #### Real sentences
#
# The same questions put to a real encoder (MiniLM: 6 layers of 12 heads) on GLUE, whose
# development sets serve as test: depth on SST-2, three fine-tunings
# (`course remake lab09_depth_sst2`); subnetworks on three tasks, two seeds each
# (`course remake lab09_subnetworks_glue`). Scores of the subnetworks are Matthews
# correlations times 100: a model that says the same of all texts has 0. STS-B's scores
# are made two classes, above and below the middle.
#
# *Before you look:* will every other of six pre-trained layers do better than the first
# three?

# %%
real = experiments.read("lab09_depth_sst2/depths")
real_evenly = real[real["kept"] == "evenly spaced"]
title = "SST-2: any depth from one training?"
plots.curves(real_evenly, x="depth", y="test", control=None, title=title, xlabel="layers left")

# %%
tables.means(real[real["depth"] == 3], "test", columns="kept")

# %%
glue = lab09.with_full("lab09_subnetworks_glue")
title = "GLUE: each fine-tuning's full model and its subnetworks"
one_by_one = lab09.scores_one_by_one(glue)
plots.heat_map(one_by_one, title=title, colour_label="Matthews × 100", fmt="{:.0f}", ylabel="")

# %%
words.say(real_data.table("09"))

# %% [markdown]
# **Depth.** Plainly fine-tuned, this encoder cannot lose a single layer: with five of six
# it says the same of every sentence. With LayerDrop it can, as the paper says; here it
# has a price, four to eight points at full depth, where on the reviews it was next to
# nothing. Half of the depth *trained as such* is better still, as on the reviews. And
# which layers stay matters: the first three of six say the same of all sentences, every
# other layer does not. Six pre-trained layers have divided the work among them; our four
# were trained on one small grammar.
#
# **Subnetworks.** (*Again* is retrained.) Three tasks are few: no interval of theirs
# leaves 0 out. The rows of single seeds say more. On STS-B the good part, retrained, is as good as the whole, and
# a random part of its size far behind, with both seeds: there it counts *which* heads
# stay. On QNLI the good part is ahead, too, but 1,500 pairs hardly teach it, and two
# fine-tunings differ by more than their parts. On SST-2 a random part does nearly as
# well, as on the reviews. How good chance is depends on the task, so a control belongs
# to every one.
#
# ## Part E · What was it worth?
#
# ### 9.8 The bill, and two short answers
# **10 minutes · 1 point**
#
# Half of the depth, three ways, and the good subnetwork of the first fine-tuning
# (sentiment), for 64 reviews of 37 pieces. What is switched off is really removed:
# `take_layers`, `remove_heads`, `remove_mlps`.
#
# *Before you look:* a layer is a layer: what will half of the depth do to the
# milliseconds? And 14 of 32 heads with two of four feed-forward parts?

# %%
### BEGIN SOLUTION
prediction_bill = "both halve them"
### END SOLUTION

# %%
whole = lab09.pretrained(0)
cut = take_layers(whole, lab09.PATH, LAYERS // 2)
costs = lab09.measure_costs({"dense": whole, "half": cut, "good": lab09.good_subnetwork()})
words.say(f"Milliseconds are for 64 texts. {words.you_wrote(prediction_bill)}")
tables.plain(costs[["model", "parameters", "ms"]])

# %%
lab09.add_to_ledger(evenly, costs)
ledger.table()

# %% [markdown]
# Removing whole things is what every machine is fast at: no index, no zero stored, half
# of the layers is about half of the time of the layers. That is why depth is the first
# thing that people cut who ship a model, and why the comparison that matters is with a
# smaller network *trained as such*.
#
# #### The two answers
#
# **a.** Cut to half its depth, the LayerDrop model keeps more than the plain one. Why?

# %%
choose(
    "9.8a",
    "Its layers are smaller.",
    "It was trained for longer.",
    "The layers that were cut were useless in it.",
    "Each layer has learned to work on what different earlier layers put out, since some were"
    " missing in every step.",
)

# %% [markdown]
# **b.** The test accuracy of the LayerDrop ($p = 0.5$) models at half their depth,
# evenly spaced, on average over the three checkpoints (in %, from the first table of 9.2;
# within 1 point)?

# %%
### BEGIN SOLUTION
answer_9_8a = "D"
answer_9_8b = 84.7
### END SOLUTION

# %%
check("9.8")

# %% [markdown]
# ### 9.9 Bug hunt
# **20 minutes · 1 point**
#
# A version of `subnetworks` (the seed of a fresh generator as an int in place of the
# generator), and the test that it passes:


# %%
def suspicious_subnetworks(
    xi: Tensor, nu: Tensor, I_h: Tensor, I_mlp: Tensor, seed: int
) -> dict[str, tuple[Tensor, Tensor]]:
    def lowest(mask: Tensor, score: Tensor) -> Tensor:
        chosen = torch.zeros(mask.numel(), dtype=torch.bool)
        chosen[score.flatten().argsort(stable=True)[: int(mask.sum())]] = True
        return chosen.view(mask.shape)

    right = subnetworks(xi, nu, I_h, I_mlp, torch.Generator().manual_seed(seed))
    return {**right, "bad": (lowest(xi, I_h), lowest(nu, I_mlp))}


# %%
def naive_test(f: Callable) -> None:
    I_h = torch.rand(4, 8, generator=torch.Generator().manual_seed(0))
    I_mlp = torch.tensor([0.4, 0.1, 0.3, 0.2])
    xi, nu = I_h > I_h.median(), I_mlp > 0.25  # what survived has the highest scores
    found = f(xi, nu, I_h, I_mlp, 1)
    assert all(int(x.sum()) == int(xi.sum()) and int(n.sum()) == 2 for x, n in found.values())
    assert not (found["bad"][0] & xi).any() and not (found["bad"][1] & nu).any()


naive_test(suspicious_subnetworks)
print("suspicious_subnetworks passes the naive test.")

# %% [markdown]
# It takes the lowest scores, wherever they are; that is right as long as what survived
# has the highest, which it need not after rounds in which importance changed. Write
# `find_bug(f)`: it gets a function `f(xi, nu, I_h, I_mlp, seed)`, called by position,
# and raises `AssertionError` if `f` breaks the contract of `subnetworks` (**9.5**, with
# `torch.Generator().manual_seed(seed)`), and returns if it does not. A point is earned
# only for verdicts on both right and wrong versions. All take masks with at least one
# True and one False in each, and finite scores. Try it on something small: the versions
# refuse more than eight million numbers in one call, and calls that take long.


# %%
def find_bug(f: Callable[..., dict[str, tuple[Tensor, Tensor]]]) -> None:
    """Raise AssertionError if ``f(xi, nu, I_h, I_mlp, seed)`` breaks the contract of
    ``subnetworks`` (9.5); else return.
    """
    ### BEGIN SOLUTION
    generator = torch.Generator().manual_seed(4)
    for seed, share in enumerate((0.25, 0.5, 0.75, 0.6)):
        xi, nu = (
            torch.rand(3, 5, generator=generator) < share,
            torch.rand(4, generator=generator) < share,
        )
        for mask in (xi, nu):
            mask.view(-1)[0], mask.view(-1)[1] = True, False
        I_h, I_mlp = torch.rand(3, 5, generator=generator), torch.rand(4, generator=generator)
        found = f(xi.clone(), nu.clone(), I_h.clone(), I_mlp.clone(), seed)
        drawn = torch.Generator().manual_seed(seed)
        for place, (mask, score) in enumerate(((xi, I_h), (nu, I_mlp))):
            n = int(mask.sum())
            places = list(
                zip(mask.flatten().tolist(), score.flatten().tolist(), strict=True)
            )  # survivors last, then by score
            order = sorted(range(len(places)), key=lambda i, places=places: (*places[i], i))
            by_chance = torch.randperm(mask.numel(), generator=drawn)[:n].tolist()
            for name, right in (
                ("good", mask.flatten().nonzero()[:, 0].tolist()),
                ("random", by_chance),
                ("bad", order[:n]),
            ):
                kept = found[name][place]
                assert kept.shape == mask.shape and kept.dtype == torch.bool, (
                    f"{name}: no mask of that shape"
                )
                assert sorted(right) == kept.flatten().nonzero()[:, 0].tolist(), (
                    f"{name}: other elements"
                )
    ### END SOLUTION


# %%
for f in (
    lambda *a: subnetworks(*a[:4], torch.Generator().manual_seed(a[4])),
    suspicious_subnetworks,
):
    try:
        find_bug(f)
        print("no bug found")
    except AssertionError as reason:
        print(f"caught ({reason})")

# %%
check("9.9")

# %% [markdown]
# <details><summary>Hint 1: scores</summary>Scores that do not agree with what
# survived.</details>
# <details><summary>Hint 2: sizes</summary>More survivors than not, so that the bad one
# needs some of them; heads and parts with different sizes.</details>

# %% [markdown]
# ## Play
#
# ### Which heads survive?
#
# A task and a seed: the heads that survive, and how the score fell while the others
# went. (Tab goes to a control, arrow keys move a slider.)


# %%
widgets.explorer(
    lab09.show_survivors(rounds, heads),
    task=widgets.choice(list(TASKS), label="task"),
    seed=widgets.slider(0, 2, 1, 0, "seed"),
)

# %% [markdown]
# ## What you take with you
#
# - A residual layer can be left out. Train with layers missing, and it can be left out
#   *afterwards*; a network trained at that depth is better still, but is one network
#   for one depth.
# - One backward pass scores heads and feed-forward parts alike. A gate belongs on what
#   a part adds.
# - A good subnetwork is far better than a random one *as it is*. Retrained, we could not
#   detect a difference.
# - Two fine-tunings share more heads than chance, of one task and of two, and still differ
#   much: also with the seed. Compare with chance before you say "these heads".
#
# ## Going further
#
# - **A model of your own.** `course_lib.pruning.layers` goes round any transformer that
#   the registries know.
# - **Read.** A. Fan, E. Grave, A. Joulin, [*Reducing Transformer Depth on Demand with
#   Structured Dropout*](https://arxiv.org/abs/1909.11556), 2020. G. Huang et al., [*Deep
#   Networks with Stochastic Depth*](https://arxiv.org/abs/1603.09382), 2016. S. Prasanna,
#   A. Rogers, A. Rumshisky, [*When BERT Plays the Lottery, All Tickets Are
#   Winning*](https://arxiv.org/abs/2005.00561), 2020. J. Fleiss, [*Measuring Nominal Scale
#   Agreement among Many Raters*](https://doi.org/10.1037/h0031619), 1971.
# - **Next.** Lab 10: tokens.
