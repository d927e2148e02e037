"""How much each head matters: by the gradient of its gate, by its removal alone, and again
after every step of pruning.

A gate that changes the loss much where it is moved a little belongs to a head that
matters, to first order. One backward pass says so of all heads at once. Ablation tries
them one by one.

Source: Michel et al. 2019, "Are Sixteen Heads Really Better than One?", sections 3 and 4.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from course_lib.models.attention import Attention, find_attention
from course_lib.models.mlps import without_nested_tensors
from course_lib.modes import evaluating
from course_lib.pruning.heads.gates import Gate, gated, of_heads
from course_lib.pruning.heads.placement import lowest_heads
from course_lib.wrapped import hold_hooks

Batch = TypeVar("Batch")
Evaluate = Callable[[Tensor], float]  # of gates (layers, heads); higher is better


def head_importance(
    model: nn.Module,
    batches: Iterable[Batch],
    loss_fn: Callable[[nn.Module, Batch], Tensor],
    attention: Sequence[Attention] | None = None,
) -> Tensor:
    """I_h = E_x |∂L(x)/∂ξ_h|: how much the loss of a sample would change with the gate of a
    head, on average; (layers, heads), float64, on the CPU. The paper divides each layer's by its
    ℓ2 norm (:func:`normalise_by_layer`).

    The absolute value is taken for every sample, and then the mean. Taken of a batch's
    gradient instead, samples that pull in opposite directions would cancel, and the ranking
    would depend on the batch size. One backward pass for each batch gives all heads: the gates
    get a row for each sample, and the gradient of the summed loss is every sample's own.

    Args:
        model: runs in evaluation mode; its modes and ``.grad`` are as before afterwards.
        batches: what ``loss_fn`` takes. Inside ``gated(model, keep)`` the importance is that
            of the heads left.
        loss_fn: ``loss_fn(model, batch)`` returns one loss for each sample, (B,):
            reduction="none". A sample is what has one row in the attention's input, and its
            loss must not depend on the other samples.
        attention: which modules; all of them unless given.

    Source: Michel et al. 2019, section 4.1, equation 3 and footnote 6.
    """
    found = list(find_attention(model) if attention is None else attention)
    gates = [of_heads(a) for a in found if a.heads]
    return heads_grid(found, mean_gradients(model, batches, loss_fn, gates))


def heads_grid(found: Sequence[Attention], sizes: Iterable[Tensor]) -> Tensor:
    """(heads,) of every module that has some -> (layers, most heads), NaN for no such head."""
    left = iter(sizes)
    rows = [next(left).double() if a.heads else torch.empty(0).double() for a in found]
    return pad_sequence(rows, batch_first=True, padding_value=torch.nan)


def mean_gradients(
    model: nn.Module,
    batches: Iterable[Batch],
    loss_fn: Callable[[nn.Module, Batch], Tensor],
    gates: Sequence[Gate],
) -> list[Tensor]:
    """E_x |∂L(x)/∂gate| of all these gates, at 1: (groups,) for each of them, float64, on
    the CPU. Args as :func:`head_importance`.
    """
    samples = 0
    with evaluating(model), torch.inference_mode(False), torch.enable_grad():
        total = [torch.zeros(gate.groups, dtype=torch.float64) for gate in gates]
        for batch in batches:
            with hold_hooks() as hooks:
                hooks.enter_context(without_nested_tensors(model))
                for gate in gates:
                    gate.gate = None
                    hooks.callback(gate.attach(model))
                losses = loss_fn(model, batch)
            ones = [_made(gate, losses) for gate in gates]
            if not losses.requires_grad:
                raise ValueError(
                    "the losses do not depend on the heads: does loss_fn detach them, or run"
                    " under torch.no_grad?"
                )
            found = torch.autograd.grad(losses.sum(), ones, materialize_grads=True)
            if any(bool(gradient.isnan().any()) for gradient in found):
                raise ValueError(
                    "the gradient of a gate is NaN: look at the losses of this batch, and at the"
                    " weights with torch.isnan"
                )
            for sizes, gradient in zip(total, found, strict=True):
                # a sample has one row, or several (windows, tokens)
                of_samples = gradient.unflatten(0, (len(losses), -1)).sum(1)
                sizes += of_samples.abs().double().sum(0).cpu()
            samples += len(losses)
    if not samples:
        raise ValueError("batches holds no batch, at least one is needed: is the iterator used up?")
    return [sizes / samples for sizes in total]


def _made(gate: Gate, losses: Tensor) -> Tensor:
    """The ones that the forward pass has made, with a row, or several, for each loss."""
    if gate.gate is None:
        raise ValueError(
            f"{gate.place!r} was not called: did loss_fn call the model it was given?"
            " If only a part of the model runs, pass attention=find_attention(model, kind=...)"
        )
    rows, shape = len(gate.gate), getattr(losses, "shape", None)
    if shape is None or len(shape) != 1 or (rows % shape[0] if gate.flat else rows != shape[0]):
        raise ValueError(
            f"loss_fn should return one loss for each of the {rows} samples, shape ({rows},),"
            f" got {type(losses).__name__ if shape is None else tuple(shape)}: is the loss averaged"
            ' over the batch? Use reduction="none"'
        )
    return gate.gate


def normalise_by_layer(importance: Tensor) -> Tensor:
    """Divide each layer's row by its ℓ2 norm; (layers, heads) in and out. A row of
    zeros stays zero, NaN stays NaN. Without it, layers whose gradients are large keep all
    their heads.

    Source: Michel et al. 2019, section 4.1, after Molchanov et al. 2017.
    """
    norm = importance.nan_to_num().norm(dim=1, keepdim=True)  # (layers, 1)
    return importance / torch.where(norm > 0, norm, 1)


def ablate_each(evaluate: Evaluate, layers: int, heads: int) -> Tensor:
    """What each head's removal alone changes: ``evaluate`` with this one gate at 0, minus with
    all at 1; (layers, heads) float64, negative where the model gets worse without the head.

    The slow way to see which heads matter, layers · heads + 1 evaluations, and no oracle: a
    head that another stands in for changes nothing alone, and much when both go. Evaluate it on
    validation data.
    Source: Michel et al. 2019, section 3.2, table 1.
    """
    full = evaluate(torch.ones(layers, heads))
    without = 1 - torch.eye(layers * heads).view(-1, layers, heads)  # each head in turn
    changes = [evaluate(xi) - full for xi in without]
    return torch.tensor(changes, dtype=torch.float64).view(layers, heads)


def all_but_one(
    eval_val: Evaluate, eval_test: Evaluate, layers: int, heads: int
) -> list[tuple[int, float]]:
    """For each layer alone: its best single head, all others of that layer off, and what that
    changes, (head, ``eval_test`` with it minus with all heads).

    The head is chosen on validation data and its change reported on test data: the best of
    several on the same data would look better than it is. Of equally good heads the first is
    chosen.

    Source: Michel et al. 2019, section 3.3, tables 2 and 3.
    """
    full = eval_test(torch.ones(layers, heads))
    result = []
    for layer in range(layers):
        alone = torch.ones(heads, layers, heads)  # of each head
        alone[:, layer] = torch.eye(heads)
        scores = [eval_val(xi) for xi in alone]
        best = scores.index(max(scores))
        result.append((best, eval_test(alone[best]) - full))
    return result


def prune_heads_iteratively(
    model: nn.Module,
    score: Callable[[nn.Module], Tensor],
    counts: Iterable[int],
    finetune: Callable[[nn.Module], object] | None = None,
    min_per_layer: int = 0,
) -> list[Tensor]:
    """Remove heads step by step, and score those that are left again before each step. For each
    count the heads kept then, bool (layers, heads), which only shrink.

    Heads stand in for each other: when one of two goes, the other starts to matter, which
    scores taken once cannot know. Heads are gated with 0 here, so the model keeps its size;
    :func:`~course_lib.pruning.heads.remove_heads` takes them out.

    Args:
        model: changed only by ``finetune``.
        score: ``score(model)`` gives (layers, heads), larger = more important, with the heads
            removed so far gated off: ``lambda model: head_importance(model, batches,
            loss_fn)``. On training or validation data, never test data.
        counts: how many heads are removed in all after each step; must not fall.
        finetune: trains the model after each step, with the removed heads off.

    Source: Michel et al. 2019, section 4.2.
    """
    counts = list(counts)
    if counts != sorted(counts):
        raise ValueError(f"counts are the heads removed in all, and cannot fall; got {counts}")
    found = find_attention(model)
    keep = heads_grid(found, [torch.ones(a.heads) for a in found if a.heads]) == 1
    kept = []
    for count in counts:
        with gated(model, keep, found):
            scores = score(model)
        if scores.shape != keep.shape:
            raise ValueError(f"score should return {tuple(keep.shape)}, got {tuple(scores.shape)}")
        gone = ~keep & ~scores.isnan()
        keep = lowest_heads(scores.masked_fill(gone, -torch.inf), count, min_per_layer, found)
        kept.append(keep)
        if finetune is not None:
            with gated(model, keep, found):
                finetune(model)
    return kept
