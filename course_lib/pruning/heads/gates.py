"""Gates on attention heads: ξ_h = 1 changes nothing, ξ_h = 0 is what removal leaves.

With a gate ξ_h on each head, multi-head attention is Σ_h ξ_h · softmax(q_h k_hᵀ/√d)
v_h · W_out[h]. The sum happens inside the output projection, so the place for ξ is that
projection's *input*, where the heads still lie side by side. A gate behind it would
scale all heads at once. The projection's bias stays, whatever ξ is.

Source: Michel et al. 2019, "Are Sixteen Heads Really Better than One?", section 2.1.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from torch import Tensor, nn

from course_lib.models.attention import Attention, find_attention
from course_lib.wrapped import hold_hooks

HEAD_MASKS = ("head_mask", "decoder_head_mask", "cross_attn_head_mask")


@contextmanager
def gated(
    model: nn.Module, xi: Tensor | Sequence[Tensor], attention: Sequence[Attention] | None = None
) -> Iterator[None]:
    """Inside the ``with`` block, every head's context vectors are multiplied by its gate.

    With eager and with SDPA attention, while training and while generating. Gradients flow
    to ``xi`` if it wants them. Gates of nested blocks multiply. The hooks are gone after the
    block, also after an exception.

    Args:
        xi: (layers, heads), or (layers, B, heads) with gates for each sample of the batch; any
            dtype, a bool mask (True = kept) too. Or one tensor for each layer, (heads,) or
            (B, heads), where layers differ in their heads.
        attention: the modules that the rows of ``xi`` are for; all of them unless given.

    Raises:
        ValueError: if ``xi`` does not fit the model or, when the model runs, the batch.
        TypeError: if the model is called with a ``head_mask`` (:func:`refuse_head_mask`).

    Source: Michel et al. 2019, section 2.1, equation 2.
    """
    found = list(find_attention(model) if attention is None else attention)
    gates = split_by_layer(xi, found, "xi")
    with hold_hooks() as hooks:
        hooks.enter_context(refuse_head_mask(model))
        for a, gate in zip(found, gates, strict=True):
            if a.heads:
                hooks.callback(of_heads(a, gate).attach(model))
        yield


class Gate:
    """One number for each of ``groups`` equal parts of what goes into a module, or of what
    comes out of it.

    Args:
        place: the module. gate: (groups,), or (B, groups) with a row for each sample; None:
            ones for each sample, made by the forward pass. argument: what a message calls it.
        flat: whether a sample is several rows there, one after the other (windows, tokens).
        where: "input", "output" or "interface": the attention function that transformers
            lets a configuration name, whose result is (B, L, heads, head size).
    """

    def __init__(
        self,
        place: str,
        groups: int,
        gate: Tensor | None = None,
        argument: str = "xi",
        flat: bool = False,
        where: str = "input",
    ) -> None:
        self.place, self.groups, self.gate = place, groups, gate
        self.argument, self.flat, self.where = argument, flat, where

    def attach(self, model: nn.Module) -> Callable[[], None]:
        """Put it into the model; returns what takes it out."""
        module: Any = model.get_submodule(self.place)
        if self.where == "input":
            return module.register_forward_pre_hook(self).remove
        if self.where == "output":
            return module.register_forward_hook(lambda module, args, x: self.scale(x)).remove
        from transformers import AttentionInterface

        AttentionInterface.register(GATED, _gated_attention)
        before = module.config
        module.config = OwnConfig(before, {"_attn_implementation": GATED, "gate": self})
        return lambda: setattr(module, "config", before)

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
    """A gate on the heads of one attention module: in front of the output projection, which
    every family of the table has, else in the attention function.
    """
    if a.out:
        return Gate(a.out, a.heads, gate, flat=a.layout.windows)
    return Gate(a.name, a.heads, gate, where="interface")


GATED = "course_lib_gated"


def _gated_attention(module: nn.Module, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
    """The attention function that the module would call, and gates on its result."""
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    config: Any = module.config
    gates = []
    while getattr(config, "_attn_implementation", None) == GATED:  # of nested blocks
        gates.append(config.gate)
        config = config.__dict__["shared"]
    name = config._attn_implementation
    if name == "eager":
        files = [sys.modules[cls.__module__] for cls in type(module).__mro__]
        attend = next(
            f.eager_attention_forward for f in files if hasattr(f, "eager_attention_forward")
        )
    else:
        attend = ALL_ATTENTION_FUNCTIONS[name]
    out, *rest = attend(module, *args, **kwargs)  # (B, L, heads, head size)
    for gate in gates:
        if out.shape[2] != gate.groups:
            raise ValueError(
                f"{gate.place!r} has {out.shape[2]} heads, its configuration says {gate.groups}"
            )
        out = gate.scale(out.flatten(2)).view(out.shape)
    return out, *rest


class OwnConfig:
    """A model's configuration with values of its own for one module. All else is read
    from, and written to, the configuration that it shares.
    """

    def __init__(self, shared: Any, own: dict[str, Any]) -> None:
        self.__dict__.update(shared=shared, own=own)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or "own" not in self.__dict__:  # while it is copied
            raise AttributeError(name)
        own = self.__dict__["own"]
        return own[name] if name in own else getattr(self.__dict__["shared"], name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self.__dict__["shared"], name, value)


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


def refuse_head_mask(model: nn.Module) -> ExitStack:
    """From now on, raise a TypeError where a transformers model is called with a
    ``head_mask``.

    Until the ``with`` block ends, or ``close()`` is called. transformers 5 takes
    ``head_mask``, ``decoder_head_mask`` and ``cross_attn_head_mask`` like any other keyword,
    and ignores them: code written for transformers 4 then runs, and finds that pruning heads
    costs nothing.
    """
    hooks = ExitStack()
    for m in model.modules():
        if any(c.__name__ == "PreTrainedModel" for c in type(m).__mro__):
            hook = m.register_forward_pre_hook(_refuse, with_kwargs=True, prepend=True)
            hooks.callback(hook.remove)
    return hooks


def _refuse(model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    for name in HEAD_MASKS:
        if kwargs.get(name) is not None:
            raise TypeError(
                f"{type(model).__name__} was called with {name}, which transformers 5 ignores:"
                " every head would seem useless. Use `with gated(model, xi): ...` instead"
            )
