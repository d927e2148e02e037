"""What a loss says about heads: the gradient of their gates, and removal step by step
with scores taken anew.

A gate that changes the loss much where it is moved a little belongs to a head that
matters, to first order. One backward pass says so of all heads at once;
:mod:`course_lib.pruning.heads.ablation` tries them one by one.

Source: Michel et al. 2019, "Are Sixteen Heads Really Better than One?", section 4.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import Any, Protocol, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from course_lib.models.attention import Attention, find_attention
from course_lib.models.mlps import without_nested_tensors
from course_lib.modes import evaluating
from course_lib.pruning.heads.gates import Gate, attach, gated, refuse_head_mask
from course_lib.pruning.heads.placement import lowest_heads
from course_lib.wrapped import hold_hooks

Batch = TypeVar("Batch")


def head_importance(
    model: nn.Module,
    batches: Iterable[Batch],
    loss_fn: Callable[[nn.Module, Batch], Tensor],
    attention: Sequence[Attention] | None = None,
) -> Tensor:
    """I_h = E_x |∂L(x)/∂ξ_h|: how much the loss of a sample would change with the gate
    of a head, on average.

    The absolute value is taken for every sample, and then the mean. Taken of a batch's
    gradient instead, samples that pull in opposite directions would cancel, and the
    ranking would depend on the batch size. So it does not here, nor on the order of the
    data. One backward pass for each batch gives all heads: the gates get a row for each
    sample, and the gradient of the summed loss with respect to them is every sample's
    own.

    Args:
        model: runs in evaluation mode; afterwards each module is in the mode it was in,
            and no ``.grad`` has changed.
        batches: what ``loss_fn`` takes. Inside ``gated(model, keep)`` the importance is
            that of the heads left.
        loss_fn: ``loss_fn(model, batch)`` returns one loss for each sample, (B,):
            reduction="none". A sample is what has one row in the attention's input, and
            its loss must not depend on the other samples.
        attention: which modules; all of them unless given.

    Returns:
        (layers, heads), float64, on the CPU. The paper divides each layer's by its ℓ2 norm
        (:func:`normalise_by_layer`).

    Raises:
        ValueError: without batches, or samples in one; if ``loss_fn`` does not return
            one loss for each sample, or its result does not depend on the heads; if a
            gradient is NaN.

    Source: Michel et al. 2019, section 4.1, equation 3 and footnote 6.
    """
    return sample_importance(model, batches, loss_fn, attention).mean(0)


def sample_importance(
    model: nn.Module,
    batches: Iterable[Batch],
    loss_fn: Callable[[nn.Module, Batch], Tensor],
    attention: Sequence[Attention] | None = None,
) -> Tensor:
    """|∂L(x)/∂ξ_h| of every sample x, (N, layers, heads): what :func:`head_importance`
    averages.

    For intervals, and for what a second draw of the same data would have said: average
    over one half and the other.

    Args and raises as in :func:`head_importance`.
    """
    found = list(find_attention(model) if attention is None else attention)

    def put(hooks: ExitStack) -> list[SampleGate]:
        return gate_heads(model, found, hooks)

    rows = [heads_grid(found, sizes) for sizes in sample_gradients(model, batches, loss_fn, put)]
    return torch.cat(rows)


def gate_heads(model: nn.Module, found: Sequence[Attention], hooks: ExitStack) -> list[SampleGate]:
    """Put gates of 1 on the heads of every attention module that has some."""
    gates = [SampleGate(a) for a in found if a.heads]
    for gate in gates:
        hooks.callback(attach(model, gate.attention, gate))
    return gates


def heads_grid(found: Sequence[Attention], sizes: Sequence[Tensor]) -> Tensor:
    """(B, heads) of every module of :func:`gate_heads` -> (B, layers, most heads), NaN where a
    layer has no such head.
    """
    left, most = iter(sizes), max(a.heads for a in found)
    rows = [next(left) if a.heads else sizes[0][:, :0] for a in found]
    return torch.stack([pad(row, (0, most - row.shape[1]), value=torch.nan) for row in rows], 1)


class OnesGate(Protocol):
    """Gates of 1 for each sample, which a forward pass makes and multiplies with."""

    place: str  # the module that it is for
    flat: bool  # whether a sample may be several rows there
    gate: Tensor | None  # (rows, …)


def sample_gradients(
    model: nn.Module,
    batches: Iterable[Batch],
    loss_fn: Callable[[nn.Module, Batch], Tensor],
    put: Callable[[ExitStack], Sequence[OnesGate]],
) -> Iterator[list[Tensor]]:
    """For each batch |∂L(x)/∂gate| of every sample x by all gates that ``put`` hangs into
    the model: (B, …) for each of them, float64, on the CPU.

    Args and raises: as :func:`head_importance`.
    """
    batch: Any = None
    with evaluating(model), torch.inference_mode(False), torch.enable_grad():
        for batch in batches:
            refuse_empty(batch)
            with hold_hooks() as hooks:
                hooks.enter_context(refuse_head_mask(model))
                hooks.enter_context(without_nested_tensors(model))
                gates = put(hooks)
                losses = loss_fn(model, batch)
            made = _made(gates, losses)
            found = torch.autograd.grad(losses.sum(), made, materialize_grads=True)
            if any(bool(gradient.isnan().any()) for gradient in found):
                raise ValueError(
                    "the gradient of a gate is NaN: look at the losses, and at the weights with"
                    " torch.isnan"
                )
            # a sample has one row, or several (windows, tokens)
            by_sample = [g.unflatten(0, (len(losses), -1)).sum(1) for g in found]
            yield [gradient.abs().double().cpu() for gradient in by_sample]
    if batch is None:
        raise ValueError("batches holds no batch, at least one is needed: is the iterator used up?")


def refuse_empty(batch: Any) -> None:
    """Raises ValueError if a tensor of the batch (a mapping, a list or a tuple of such,
    or one itself) has no first entry: models fail on it in words of their own.
    """
    if isinstance(batch, Mapping):
        parts = list(batch.values())
    else:
        parts = list(batch) if isinstance(batch, list | tuple) else [batch]
    if any(isinstance(part, Tensor) and part.ndim and not len(part) for part in parts):
        raise ValueError("a batch holds no sample: leave it out")


class SampleGate(Gate):
    """Gates of 1 for each sample, made when the first batch shows how many samples
    there are.
    """

    def __init__(self, attention: Attention) -> None:
        super().__init__(attention, None)
        self.place, self.flat = attention.name, attention.layout.windows

    def for_batch(self, x: Tensor) -> Tensor:
        if self.gate is None:
            self.gate = torch.ones(
                len(x), self.attention.heads, dtype=x.dtype, device=x.device, requires_grad=True
            )
        return self.gate


def _made(gates: Sequence[OnesGate], losses: Tensor) -> list[Tensor]:
    """The gates that the forward pass has made.

    Raises:
        ValueError: if one was not made, or the losses are not one for each sample, do not
            depend on the gates, or are NaN.
    """
    made = []
    for g in gates:
        if g.gate is None:
            raise ValueError(
                f"{g.place!r} was not called: did loss_fn call the model it was given?"
                " If only a part of the model runs, pass attention=find_attention(model, kind=...)"
            )
        rows = len(g.gate)
        if (
            not isinstance(losses, Tensor)
            or losses.ndim != 1
            or (rows % max(len(losses), 1) if g.flat else rows != len(losses))
        ):
            got = tuple(losses.shape) if isinstance(losses, Tensor) else type(losses).__name__
            raise ValueError(
                f"loss_fn should return one loss for each of the {rows} samples, shape ({rows},),"
                f' got {got}: is the loss averaged over the batch? Use reduction="none"'
            )
        made.append(g.gate)
    if not losses.requires_grad:
        raise ValueError(
            "the losses do not depend on the heads: does loss_fn detach them, or run under"
            " torch.no_grad?"
        )
    if losses.isnan().any():
        raise ValueError(
            "a loss is NaN: look at the sample, or at the model's weights with torch.isnan"
        )
    return made


def normalise_by_layer(importance: Tensor) -> Tensor:
    """Divide each layer's row by its ℓ2 norm; (layers, heads) in and out. A row of
    zeros stays zero, NaN stays NaN.

    Without it, layers whose gradients are large keep all their heads.

    Source: Michel et al. 2019, section 4.1, after Molchanov et al. 2017.
    """
    norm = importance.nan_to_num().norm(dim=1, keepdim=True)  # (layers, 1)
    return importance / torch.where(norm > 0, norm, 1)


def prune_heads_iteratively(
    model: nn.Module,
    score: Callable[[nn.Module], Tensor],
    counts: Iterable[int],
    finetune: Callable[[nn.Module], object] | None = None,
    min_per_layer: int = 0,
) -> list[Tensor]:
    """Remove heads step by step, and score those that are left anew before each step.

    Heads stand in for each other: when one of two goes, the other starts to matter,
    which scores taken once cannot know. Heads are gated with 0 here, so the model keeps
    its size; :func:`~course_lib.pruning.heads.remove_heads` takes them out.

    Args:
        model: changed only by ``finetune``.
        score: ``score(model)`` gives (layers, heads), larger = more important, with the
            heads removed so far gated off:
            ``lambda model: head_importance(model, batches, loss_fn)``. On training or
            validation data, never test data.
        counts: how many heads are removed in all after each step; must not fall. One
            count is one-shot pruning.
        finetune: trains the model after each step, with the removed heads off.
        min_per_layer: heads that each layer keeps at least.

    Returns:
        For each count, the heads kept then: bool (layers, heads). They only shrink.

    Raises:
        ValueError: if counts fall, or more heads are to go than may.

    Source: Michel et al. 2019, section 4.2.
    """
    counts = list(counts)
    if any(a > b for a, b in zip(counts, counts[1:], strict=False)):
        raise ValueError(f"counts are the heads removed in all, and cannot fall; got {counts}")
    found = find_attention(model)
    full = [torch.ones(1, a.heads) for a in found if a.heads]
    keep = heads_grid(found, full)[0] == 1  # (layers, heads)
    kept = []
    for count in counts:
        with gated(model, keep, found):
            scores = score(model)
        if scores.shape != keep.shape:
            raise ValueError(
                f"score should return (layers, heads) = {tuple(keep.shape)}, got"
                f" {tuple(scores.shape)}"
            )
        keep = lowest_heads(
            scores.masked_fill(~keep & ~scores.isnan(), -torch.inf), count, min_per_layer, found
        )
        kept.append(keep)
        if finetune is not None:
            with gated(model, keep, found):
                finetune(model)
    return kept
