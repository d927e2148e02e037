"""Which attention heads matter: gates ξ on heads, and what a model's outputs and losses say about them.

::

    importance = head_importance(model, batches, loss_fn)             # (layers, heads): scores
    keep = lowest_heads(importance, count=36, min_per_layer=1)        # select
    with gated(model, keep):                                          # apply, for a look
        accuracy = evaluate(model)
    smaller = remove_heads(model, keep)                               # apply, for good

With a gate ξ_h on each head, multi-head attention is Σ_h ξ_h · softmax(q_h k_hᵀ/√d) v_h · W_out[h]. The sum happens inside the
output projection, so the place for ξ is that projection's *input*, where the heads still lie side by side. A gate behind it
would scale all heads at once. With ξ = 1 nothing changes, and ξ_h = 0 is what removal leaves; the projection's bias stays.

transformers 5 has no head masks and no head pruning any more, and swallows ``head_mask=...`` without a word. Whoever passes
it sees that "no head matters". :func:`refuse_head_mask` raises there, and so does everything inside :func:`gated`.

"layers" are the attention modules in the order of :func:`~course_lib.pruning.find_attention`, cross-attention included. Where
layers have unequally many heads, a grid (layers, heads) is as wide as the largest; what lies beyond a layer's heads is
ignored as a gate and NaN as a score.

Source: Michel et al. 2019, "Are Sixteen Heads Really Better than One?"
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from course_lib.modes import evaluating
from course_lib.pruning.attention import Attention, find_attention
from course_lib.pruning.head_rules import lowest_heads

Batch = TypeVar("Batch")
HEAD_MASKS = ("head_mask", "decoder_head_mask", "cross_attn_head_mask")


# ------------------------------------------------------------------------------------------------------------------ gates
@contextmanager
def gated(
    model: nn.Module, xi: Tensor | Sequence[Tensor], attention: Sequence[Attention] | None = None
) -> Iterator[None]:
    """Inside the ``with`` block, every head's context vectors are multiplied by its gate.

    By a forward pre-hook on each output projection: so it works with eager and with SDPA attention, while training and
    while generating. Gradients flow to ``xi`` if it wants them. Blocks may be nested: gates then multiply. The hooks are
    gone after the block, also after an exception.

    Args:
        model: with attention that :func:`~course_lib.pruning.find_attention` knows.
        xi: (layers, heads), or (layers, B, heads) with gates for each sample of the batch; any dtype, a bool mask (True =
            kept) too. Or one tensor for each layer, (heads,) or (B, heads), where layers differ in their heads.
        attention: the modules that the rows of ``xi`` are for; all of them unless given.

    Raises:
        ValueError: if ``xi`` does not fit the model or, when the model runs, the batch.
        TypeError: if the model is called with a ``head_mask``, which transformers 5 ignores.

    Source: Michel et al. 2019, section 2.1, equation 2.
    """
    found = list(find_attention(model) if attention is None else attention)
    gates = _per_layer(xi, found)
    with ExitStack() as hooks:
        hooks.enter_context(refuse_head_mask(model))
        for a, gate in zip(found, gates, strict=True):
            if a.heads:
                out = model.get_submodule(a.out)
                hooks.callback(out.register_forward_pre_hook(Gate(a, gate)).remove)
        yield


class Gate:
    """A forward pre-hook that scales heads."""

    def __init__(self, attention: Attention, gate: Tensor | None) -> None:
        self.attention = attention
        self.gate = gate  # (heads,) or (B, heads)

    def __call__(self, module: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...]:
        x = args[0]  # (B, L, heads · head size)
        gate = self.for_batch(x)
        if gate.ndim == 2:
            if len(gate) != len(x):
                raise ValueError(
                    f"xi has gates for {len(gate)} samples, but {self.attention.name!r} was called with {len(x)}"
                )
            gate = gate[:, None]  # (B, 1, heads)
        return (x * gate.repeat_interleave(self.attention.head_size, -1), *args[1:])

    def for_batch(self, x: Tensor) -> Tensor:
        assert self.gate is not None
        return self.gate.to(device=x.device, dtype=x.dtype)


def _per_layer(xi: Tensor | Sequence[Tensor], attention: Sequence[Attention]) -> list[Tensor]:
    """One tensor (heads,) or (B, heads) for each layer."""
    layers, most = len(attention), max(a.heads for a in attention)
    if isinstance(xi, Tensor):
        if xi.ndim not in (2, 3) or xi.shape[0] != layers or xi.shape[-1] != most:
            raise ValueError(
                f"xi should be (layers, heads) = ({layers}, {most}), or ({layers}, B, {most}) with gates for each sample; "
                f"got {tuple(xi.shape)}"
            )
        return [gate[..., : a.heads] for gate, a in zip(xi, attention, strict=True)]
    gates = list(xi)
    if len(gates) != layers:
        raise ValueError(f"xi has gates for {len(gates)} layers, the model has {layers}")
    for gate, a in zip(gates, attention, strict=True):
        if gate.ndim not in (1, 2) or gate.shape[-1] != a.heads:
            raise ValueError(
                f"the gates of {a.name!r} should be ({a.heads},) or (B, {a.heads}), got {tuple(gate.shape)}"
            )
    return gates


class HeadMaskRefused:
    """What :func:`refuse_head_mask` returns: ``remove()`` it, or use it in a ``with`` statement."""

    def __init__(self, model: nn.Module) -> None:
        models = [m for m in model.modules() if any(c.__name__ == "PreTrainedModel" for c in type(m).__mro__)]
        self._hooks = [m.register_forward_pre_hook(_refuse, with_kwargs=True, prepend=True) for m in models]

    def remove(self) -> None:
        for hook in self._hooks:
            hook.remove()

    def __enter__(self) -> HeadMaskRefused:
        return self

    def __exit__(self, *exception: object) -> None:
        self.remove()


def refuse_head_mask(model: nn.Module) -> HeadMaskRefused:
    """From now on, raise a TypeError where a transformers model is called with a ``head_mask``.

    transformers 5 takes ``head_mask``, ``decoder_head_mask`` and ``cross_attn_head_mask`` like any other keyword, and
    ignores them. Code written for transformers 4 then runs, and finds that pruning heads costs nothing.

    ::

        refuse_head_mask(model)            # until .remove() of what it returns
        with refuse_head_mask(model): ...  # for a while

    Args:
        model: its transformers models, however deep inside, are guarded; others refuse unknown arguments by themselves.
    """
    return HeadMaskRefused(model)


def _refuse(model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    for name in HEAD_MASKS:
        if kwargs.get(name) is not None:
            raise TypeError(
                f"{type(model).__name__} was called with {name}, which transformers 5 ignores: every head would seem "
                "useless. Use `with gated(model, xi): ...` instead"
            )


# ------------------------------------------------------------------------------------------------------------- importance
def head_importance(
    model: nn.Module,
    batches: Iterable[Batch],
    loss_fn: Callable[[nn.Module, Batch], Tensor],
    attention: Sequence[Attention] | None = None,
    normalise: bool = False,
) -> Tensor:
    """I_h = E_x |∂L(x)/∂ξ_h|: how much the loss of a sample would change with the gate of a head, on average.

    The absolute value is taken for every sample, and then the mean. Taken of a batch's gradient instead, samples that pull
    in opposite directions would cancel, and the ranking would depend on the batch size. So it does not here, nor on the
    order of the data. One backward pass for each batch gives all heads: the gates get a row for each sample, and the
    gradient of the summed loss with respect to them is every sample's own.

    Args:
        model: runs in evaluation mode; afterwards each module is in the mode it was in, and no ``.grad`` has changed.
        batches: what ``loss_fn`` takes. Inside ``gated(model, keep)`` the importance is that of the heads left.
        loss_fn: ``loss_fn(model, batch)`` returns one loss for each sample, (B,): reduction="none". A sample is what has
            one row in the attention's input, and its loss must not depend on the other samples.
        attention: which modules; all of them unless given.
        normalise: divide each layer's importance by its ℓ2 norm (:func:`normalise_by_layer`), as the paper does.

    Returns:
        (layers, heads), float64, on the CPU.

    Raises:
        ValueError: without batches; if ``loss_fn`` does not return one loss for each sample, or its result does not depend
            on the heads; if a gradient is NaN.

    Source: Michel et al. 2019, section 4.1, equation 3 and footnote 6.
    """
    importance = sample_importance(model, batches, loss_fn, attention).mean(0)
    return normalise_by_layer(importance) if normalise else importance


def sample_importance(
    model: nn.Module,
    batches: Iterable[Batch],
    loss_fn: Callable[[nn.Module, Batch], Tensor],
    attention: Sequence[Attention] | None = None,
) -> Tensor:
    """|∂L(x)/∂ξ_h| of every sample x, (N, layers, heads): what :func:`head_importance` averages.

    For intervals, and for what a second draw of the same data would have said: average over one half and the other.

    Args and raises as in :func:`head_importance`.
    """
    found = list(find_attention(model) if attention is None else attention)
    living = [a for a in found if a.heads]
    rows = []
    with evaluating(model), torch.inference_mode(False), torch.enable_grad():
        for batch in batches:
            gates = [_SampleGate(a) for a in living]
            with ExitStack() as hooks:
                hooks.enter_context(refuse_head_mask(model))
                for a, gate in zip(living, gates, strict=True):
                    hooks.callback(model.get_submodule(a.out).register_forward_pre_hook(gate).remove)
                losses = loss_fn(model, batch)
            _check_losses(losses, gates)
            xi = [gate.gate for gate in gates if gate.gate is not None]
            of_living = torch.autograd.grad(losses.sum(), xi, materialize_grads=True)  # (B, heads) of each layer
            if any(g.isnan().any() for g in of_living):
                raise ValueError(
                    "the gradient of a gate is NaN: look at the losses, and at the weights with torch.isnan"
                )
            size = {a.name: g.abs().double().cpu() for a, g in zip(living, of_living, strict=True)}
            rows.append(_grid([size.get(a.name, torch.zeros(len(losses), 0)) for a in found]))  # (B, layers, heads)
    if not rows:
        raise ValueError("head_importance needs at least one batch, got none: is the iterator used up?")
    return torch.cat(rows)


class _SampleGate(Gate):
    """Gates of 1 for each sample, made when the first batch shows how many samples there are."""

    def __init__(self, attention: Attention) -> None:
        super().__init__(attention, None)

    def for_batch(self, x: Tensor) -> Tensor:
        if self.gate is None:
            self.gate = torch.ones(len(x), self.attention.heads, dtype=x.dtype, device=x.device, requires_grad=True)
        return self.gate


def _check_losses(losses: Tensor, gates: Sequence[_SampleGate]) -> None:
    for gate in gates:
        if gate.gate is None:
            raise ValueError(
                f"{gate.attention.name!r} was not called: did loss_fn call the model it was given? If only a part of the "
                "model runs, pass attention=find_attention(model, kind=...)"
            )
        if not isinstance(losses, Tensor) or losses.ndim != 1 or len(losses) != len(gate.gate):
            got = tuple(losses.shape) if isinstance(losses, Tensor) else type(losses).__name__
            raise ValueError(
                f"loss_fn should return one loss for each of the {len(gate.gate)} samples, shape ({len(gate.gate)},), got "
                f'{got}: is the loss averaged over the batch? Use reduction="none"'
            )
    if not losses.requires_grad:
        raise ValueError("the losses do not depend on the heads: does loss_fn detach them, or run under torch.no_grad?")
    if losses.isnan().any():
        raise ValueError("a loss is NaN: look at the sample, or at the model's weights with torch.isnan")


def normalise_by_layer(importance: Tensor) -> Tensor:
    """Divide each layer's row by its ℓ2 norm; (layers, heads) in and out. A row of zeros stays zero, NaN stays NaN.

    Without it, layers whose gradients are large keep all their heads.

    Source: Michel et al. 2019, section 4.1, after Molchanov et al. 2017.
    """
    norm = importance.nan_to_num().norm(dim=1, keepdim=True)  # (layers, 1)
    return importance / torch.where(norm > 0, norm, 1)


def _grid(rows: Sequence[Tensor]) -> Tensor:
    """(B, heads of the layer) of every layer -> (B, layers, most heads), NaN where a layer has no such head."""
    most = max(row.shape[1] for row in rows)
    return torch.stack([nn.functional.pad(row, (0, most - row.shape[1]), value=torch.nan) for row in rows], 1)


# --------------------------------------------------------------------------------------------------------------- ablation
def ablate_each(evaluate: Callable[[Tensor], float], layers: int, heads: int) -> Tensor:
    """What each head's removal alone changes: ``evaluate`` with this one gate at 0, minus with all at 1.

    The slow way to see which heads matter, layers · heads + 1 evaluations, and no oracle: a head that another stands in for
    changes nothing alone, and much when both go.

    Args:
        evaluate: of gates (layers, heads), on validation data; higher is better. ``gate_evaluator`` makes one.
        layers, heads: of the model.

    Returns:
        (layers, heads), float64; negative where the model gets worse without the head.

    Source: Michel et al. 2019, section 3.2, table 1.
    """
    full = evaluate(torch.ones(layers, heads))
    changes = torch.zeros(layers, heads, dtype=torch.float64)
    for layer in range(layers):
        for head in range(heads):
            xi = torch.ones(layers, heads)
            xi[layer, head] = 0
            changes[layer, head] = evaluate(xi) - full
    return changes


def all_but_one(
    eval_val: Callable[[Tensor], float], eval_test: Callable[[Tensor], float], layers: int, heads: int
) -> list[tuple[int, float]]:
    """For each layer alone: its best single head, all others of that layer off, and what that changes.

    The head is chosen on validation data and its change reported on test data: the best of several on the same data would
    look better than it is. Of equally good heads the first is chosen.

    Args:
        eval_val, eval_test: of gates (layers, heads), on the two splits; higher is better.
        layers, heads: of the model.

    Returns:
        ``(head, change)`` for each layer: the head that is left, and ``eval_test`` with it minus with all heads.

    Source: Michel et al. 2019, section 3.3, tables 2 and 3.
    """
    full = eval_test(torch.ones(layers, heads))
    result = []
    for layer in range(layers):

        def alone(head: int, layer: int = layer) -> Tensor:
            xi = torch.ones(layers, heads)
            xi[layer] = 0
            xi[layer, head] = 1
            return xi

        best = max(range(heads), key=lambda head: eval_val(alone(head)))
        result.append((best, eval_test(alone(best)) - full))
    return result


def gate_evaluator(
    model: nn.Module, evaluate: Callable[[nn.Module], float], attention: Sequence[Attention] | None = None
) -> Callable[[Tensor], float]:
    """``evaluate(model)`` as a function of gates, for :func:`ablate_each` and :func:`all_but_one`."""
    found = find_attention(model) if attention is None else attention

    def with_gates(xi: Tensor) -> float:
        with gated(model, xi, found):
            return evaluate(model)

    return with_gates


# -------------------------------------------------------------------------------------------------------------- iterative
def prune_heads_iteratively(
    model: nn.Module,
    score: Callable[[nn.Module], Tensor],
    counts: Iterable[int],
    finetune: Callable[[nn.Module], object] | None = None,
    min_per_layer: int = 0,
    attention: Sequence[Attention] | None = None,
) -> list[Tensor]:
    """Remove heads step by step, and score those that are left anew before each step.

    Heads stand in for each other: when one of two goes, the other starts to matter, which scores taken once cannot know.
    Heads are gated with 0 here, so the model keeps its size; :func:`~course_lib.pruning.remove_heads` takes them out.

    Args:
        model: changed only by ``finetune``.
        score: ``score(model)`` gives (layers, heads), larger = more important, with the heads removed so far gated off:
            ``lambda model: head_importance(model, batches, loss_fn)``. On training or validation data, never test data.
        counts: how many heads are removed in all after each step; must not fall. One count is one-shot pruning.
        finetune: trains the model after each step, with the removed heads off.
        min_per_layer: heads that each layer keeps at least.
        attention: which modules; all of them unless given.

    Returns:
        For each count, the heads kept then: bool (layers, heads). They only shrink.

    Raises:
        ValueError: if counts fall, or more heads are to go than may.

    Source: Michel et al. 2019, section 4.2.
    """
    counts = list(counts)
    if any(a > b for a, b in zip(counts, counts[1:], strict=False)):
        raise ValueError(f"counts are the heads removed in all, and cannot fall; got {counts}")
    found = list(find_attention(model) if attention is None else attention)
    keep = _grid([torch.ones(1, a.heads) for a in found])[0] == 1  # (layers, heads)
    kept = []
    for count in counts:
        with gated(model, keep, found):
            scores = score(model)
        if scores.shape != keep.shape:
            raise ValueError(f"score should return (layers, heads) = {tuple(keep.shape)}, got {tuple(scores.shape)}")
        keep = lowest_heads(scores.masked_fill(~keep & ~scores.isnan(), -torch.inf), count, min_per_layer)
        kept.append(keep)
        if finetune is not None:
            with gated(model, keep, found):
                finetune(model)
    return kept
