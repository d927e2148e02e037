"""Gates on attention heads, given or learned: 1 changes nothing, 0 is what removal leaves.

With a gate ξ_h on each head, multi-head attention is Σ_h ξ_h · softmax(q_h k_hᵀ/√d)
v_h · W_out[h]. The sum happens inside the output projection, so the place for ξ is that
projection's *input*, where the heads still lie side by side. A gate behind it would
scale all heads at once. The projection's bias stays, whatever ξ is.

Source: Michel et al. 2019, "Are Sixteen Heads Really Better than One?", section 2.1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from course_lib.models.attention import Attention, find_attention
from course_lib.modes import restoring_modes
from course_lib.pruning.components.low_rank import hard_concrete, open_probability
from course_lib.wrapped import hold_hooks

Batch = TypeVar("Batch")


@contextmanager
def gated(
    model: nn.Module, xi: Tensor | Sequence[Tensor], attention: Sequence[Attention] | None = None
) -> Iterator[None]:
    """Inside the ``with`` block, every head's context vectors are multiplied by its gate.

    With eager and with SDPA attention, while training and while generating. Gradients flow
    to ``xi`` if it wants them. Gates of nested blocks multiply. (transformers 5 takes a
    ``head_mask`` like any other keyword, and ignores it.)

    Args:
        xi: (layers, heads), or (layers, B, heads) with gates for each sample of the batch; any
            dtype, a bool mask (True = kept) too. Or one tensor for each layer, (heads,) or
            (B, heads), where layers differ in their heads.
        attention: the modules that the rows of ``xi`` are for; all of them unless given.

    Source: Michel et al. 2019, section 2.1, equation 2.
    """
    found = list(find_attention(model) if attention is None else attention)
    gates = split_by_layer(xi, found, "xi")
    with hold_hooks() as hooks:
        for a, gate in zip(found, gates, strict=True):
            if a.heads:
                hooks.callback(of_heads(a, gate).attach(model))
        yield


def train_with_gates(
    model: nn.Module,
    log_alpha: Tensor,
    batches: Iterable[Batch],
    loss_fn: Callable[[nn.Module, Batch, Tensor], Tensor],
    lam: float,
    optimizer: torch.optim.Optimizer,
    generator: torch.Generator,
) -> list[float]:
    """One step for each batch, on its loss with sampled hard concrete gates plus λ times the
    expected number of open ones. Returns for each batch that number before its step.

    Args:
        model: in training mode meanwhile. log_alpha: a leaf of any shape, changed by the
            optimizer.
        loss_fn: ``loss_fn(model, batch, gates)``, a scalar; it puts the gates on
            (:func:`~course_lib.pruning.heads.gated`).
        lam: 0 or more. optimizer: holds the model's parameters and ``log_alpha``, each with
            its own rate.
        generator: fresh noise for every batch.

    Source: Voita et al. 2019, "Analyzing Multi-Head Self-Attention: Specialized Heads Do the
    Heavy Lifting, the Rest Can Be Pruned", section 4; gates: Louizos et al. 2018.
    """
    if lam < 0:
        raise ValueError(f"lam is the price of an open gate, 0 or more; got {lam}")
    found = []
    with restoring_modes(model):
        model.train()
        for batch in batches:
            u = torch.rand(log_alpha.shape, generator=generator).clamp(1e-6, 1 - 1e-6)
            expected = open_probability(log_alpha).sum()
            found.append(expected.item())
            optimizer.zero_grad()
            loss = loss_fn(model, batch, hard_concrete(log_alpha, u)) + lam * expected
            loss.backward()
            optimizer.step()
    return found


@dataclass(eq=False)
class Gate:
    """One number for each of ``groups`` equal parts of what goes into the module at ``place``,
    or of what comes out of it.

    Args:
        gate: (groups,), or (B, groups) with a row for each sample; None: ones for each sample,
            made by the forward pass. argument: what a message calls it.
        flat: whether a sample is several rows there, one after the other (windows, tokens).
    """

    place: str
    groups: int
    gate: Tensor | None = None
    argument: str = "xi"
    flat: bool = False
    output: bool = False

    def attach(self, model: nn.Module) -> Callable[[], None]:
        """Put it into the model; returns what takes it out."""
        module = model.get_submodule(self.place)
        if self.output:
            return module.register_forward_hook(lambda module, args, x: self.scale(x)).remove
        return module.register_forward_pre_hook(self).remove

    def __call__(self, module: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...]:
        return (self.scale(args[0]), *args[1:])

    def scale(self, x: Tensor) -> Tensor:
        """(rows, …, features) in and out."""
        if self.gate is None:
            self.gate = x.new_ones(len(x), self.groups, requires_grad=True)
        gate = self.gate.to(x)
        if gate.ndim == 2:
            rows = len(x) // len(gate) if self.flat else 1
            if rows * len(gate) != len(x):
                raise ValueError(
                    f"{self.argument} has gates for {len(gate)} samples, but {self.place!r} was"
                    f" called with {len(x)}"
                )
            # (rows, 1, …, groups)
            gate = gate.repeat_interleave(rows, 0).view(len(x), *[1] * (x.ndim - 2), self.groups)
        return x * gate.repeat_interleave(x.shape[-1] // max(self.groups, 1), -1)


def of_heads(a: Attention, gate: Tensor | None = None) -> Gate:
    """A gate on the heads of one attention module."""
    return Gate(a.out, a.heads, gate, flat=a.layout.windows)


def split_by_layer(
    values: Tensor | Sequence[Tensor], attention: Sequence[Attention], name: str
) -> list[Tensor]:
    """One tensor (heads,) or (B, heads) for each of these modules, from a grid that is as wide
    as the largest, or from a list. Raises ValueError, naming the argument ``name``, if it does
    not fit the modules.
    """
    if len(values) != len(attention):
        raise ValueError(
            f"{name} has {len(values)} rows, and there are {len(attention)} layers with attention"
        )
    most = max(a.heads for a in attention)
    rows = list(values)
    if isinstance(values, Tensor) and values.ndim > 1 and values.shape[-1] == most:
        rows = [row[..., : a.heads] for row, a in zip(rows, attention, strict=True)]
    for row, a in zip(rows, attention, strict=True):
        if row.ndim not in (1, 2) or row.shape[-1] != a.heads:
            raise ValueError(
                f"{name} should have the shape ({a.heads},), or (B, {a.heads}) with one gate per"
                f" sample, for {a.name!r}; got {tuple(row.shape)}"
            )
    return rows
