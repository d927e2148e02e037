"""Attention heads that are removed for good: a smaller model, not one with gates at zero.

Head h is d rows of W_q, W_k and W_v, and the d columns of W_out that read it. All of
them go, and the biases of the rows; the bias of the output projection stays, whoever is
left. A layer that loses all its heads makes that bias and nothing else.

transformers 5 has no ``prune_heads``. So each module's own numbers are changed with its
weights (how many heads it has; for GPT-2 where its fused projection is split). Some
families need more:

- T5 computes its relative position bias in the first layer of a stack and hands it on,
  one number for each head and pair of positions. Layers with different heads cannot
  share it, so each gets its own slice of the table, and learns it by itself from then on.
- MPNet, BLOOM and BEiT compute one bias per head for all layers together. A layer that
  loses heads takes the entries of its own heads.
- A module with no heads cannot run its own code, which leaves a size to be inferred from
  a tensor without elements. It keeps its class and name, and gets another ``forward``.
- Where query heads share a key/value head, every key/value head that is kept must keep
  the same number of them, since the module repeats all of them equally often.

Source: Michel et al. 2019, "Are Sixteen Heads Really Better than One?", section 4.3.
"""

from __future__ import annotations

import copy
import functools
import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_lib.checks import check_mask
from course_lib.models.attention import Attention, find_attention
from course_lib.models.conv1d import cut, select_parameter, sizes
from course_lib.pruning.heads.explicit import explicit_attention
from course_lib.pruning.heads.gates import Gate, split_by_layer
from course_lib.pruning.heads.placement import refuse_uneven

Keep = Tensor | Sequence[Tensor]
Some = Sequence[Attention] | None


def remove_heads(model: nn.Module, keep: Keep, attention: Some = None) -> nn.Module:
    """A copy of ``model`` without the heads that are not kept: the same outputs as with
    their gates at 0, to rounding.

    It has the same class, modes and devices, and runs, trains and generates like the model it
    came from, with its key-value cache too; heads can be removed from it again.
    ``save_pruned`` and ``load_pruned`` store it; ``save_pretrained`` alone is not enough.

    Args:
        model: with attention that ``find_attention`` knows, or ``nn.MultiheadAttention``, which
            becomes ``ExplicitAttention``. It is not changed, and shares no tensor with the
            result. Not inside a ``gated`` block, whose gates would stay on the copy.
        keep: bool, True = kept: (layers, heads), or one (heads,) for each layer. Every head
            of a layer may go. Heads that share a key go in equal numbers.
        attention: the modules that ``keep`` is for; all of them unless given.
    """
    _refuse_gates(model)
    smaller = explicit_attention(model)
    remove_heads_(smaller, keep, attention)
    return smaller


def remove_heads_(model: nn.Module, keep: Keep, attention: Some = None) -> None:
    """As :func:`remove_heads`, in place. An optimizer made before holds parameters that
    the model no longer has.
    """
    _refuse_gates(model)
    every = find_attention(model)
    chosen = every if attention is None else list(attention)
    masks = {a.name: torch.ones(a.heads, dtype=torch.bool) for a in every}
    for a, mask in zip(chosen, split_by_layer(keep, chosen, "keep"), strict=True):
        masks[a.name] = check_mask(mask, f"keep for {a.name!r}", (a.heads,)).cpu()
        refuse_uneven(a, masks[a.name])
    table: Any = None
    lost = not all(bool(mask.all()) for mask in masks.values())
    with torch.no_grad():
        for a in every:
            module: Any = model.get_submodule(a.name)
            heads = masks[a.name].nonzero().flatten()
            if lost and a.layout.position_bias:  # T5: the first layer's table, sliced for each
                table = getattr(module, "relative_attention_bias", table)  # (buckets, heads)
                if a.kind != "cross":
                    module.relative_attention_bias = sliced = copy.deepcopy(table)
                    sliced.weight = select_parameter(table.weight, 1, heads)
                    sliced.embedding_dim = len(heads)
                    module.has_relative_attention_bias = True
            if len(heads) < a.heads or (lost and a.layout.position_bias):
                _cut(model, a, heads)


def slice_heads(
    q: nn.Linear, k: nn.Linear, v: nn.Linear, out: nn.Linear, keep: Sequence[int], head_dim: int
) -> tuple[nn.Linear, nn.Linear, nn.Linear, nn.Linear]:
    """The four projections of multi-head attention with the heads ``keep`` alone: new layers;
    the bias of ``out`` is kept whole.

    Args:
        q, k, v: make heads · head_dim features, head after head; ``out`` reads them.
        keep: head indices, strictly increasing; may be empty.
    """
    indices, heads = [int(i) for i in keep], q.out_features // head_dim
    widths = [q.out_features, k.out_features, v.out_features, out.in_features]
    if set(widths) != {heads * head_dim}:
        raise ValueError(
            f"q, k and v should make, and out should read, a whole number of heads of {head_dim}"
            f" features; got {widths}"
        )
    if indices != sorted(set(indices) & set(range(heads))):
        raise ValueError(
            f"keep lists head indices from 0 to {heads - 1}, strictly increasing; got {indices}"
        )
    features = _features(torch.tensor(indices, dtype=torch.long), head_dim)
    smaller = copy.deepcopy((q, k, v, out))
    with torch.no_grad():
        for layer in smaller[:3]:
            cut(layer, outputs=features)
        cut(smaller[3], inputs=features)
    return smaller


def _refuse_gates(model: nn.Module) -> None:
    hooks = (hook for module in model.modules() for hook in module._forward_pre_hooks.values())
    if any(isinstance(hook, Gate) for hook in hooks):
        raise RuntimeError(
            "this model is inside a gated block: leave the block, then remove the heads"
        )


def _cut(model: nn.Module, a: Attention, heads: Tensor) -> None:
    """Keep these heads, (n,), of one attention module."""
    module: Any = model.get_submodule(a.name)
    shared = (heads // (a.heads // max(a.kv_heads, 1))).unique()  # key/value heads that are left
    made = ((a.q, heads, a.heads), (a.k, shared, a.kv_heads), (a.v, shared, a.kv_heads))
    for path in dict.fromkeys((a.q, a.k, a.v)):
        parts = [(kept, of) for name, kept, of in made if name == path]
        if a.layout.by_head:
            index = _features(heads, len(parts) * a.head_size)
        else:  # one part after the other
            starts = torch.tensor([0, *(of for _, of in parts)]).cumsum(0)
            places = [kept + start for (kept, _), start in zip(parts, starts, strict=False)]
            index = _features(torch.cat(places), a.head_size)
        cut(model.get_submodule(path), outputs=index)
    features = _features(heads, a.head_size)
    cut(model.get_submodule(a.out), inputs=features)
    for name in a.layout.also:
        if hasattr(module, name):
            cut(getattr(module, name), outputs=features)
    for name in a.layout.columns:
        inner, _, last = name.rpartition(".")
        owner = module.get_submodule(inner)
        setattr(owner, last, select_parameter(getattr(owner, last), 1, heads))
    numbers = {
        a.layout.heads: len(heads),
        a.layout.width: len(features),
        a.layout.groups: len(heads) // max(len(shared), 1),
        a.layout.kv_heads: len(shared),
    }
    for name, number in numbers.items():
        if name:
            setattr(module, name, number)
    module.full_heads = getattr(module, "full_heads", a.heads)
    before = getattr(module, "kept_heads", range(a.heads))
    module.kept_heads = tuple(before[int(h)] for h in heads)  # as the full model counts them
    _compute_as_pruned(module, a)


def compute_as_pruned_(model: nn.Module) -> None:
    """What attention with the shapes and numbers of pruned attention computes otherwise
    than its class: for a model that was brought into its form from a file.
    """
    if any(hasattr(module, "kept_heads") for module in model.modules()):
        for a in find_attention(model):
            if hasattr(module := model.get_submodule(a.name), "kept_heads"):
                _compute_as_pruned(module, a)


def _compute_as_pruned(module: Any, a: Attention) -> None:
    if a.layout.config:
        module.config = _OwnConfig(module.config, **{a.layout.config: len(module.kept_heads)})
    argument = "position_bias" if a.layout.position_bias else a.layout.bias
    if argument and not any(isinstance(h, _OwnBias) for h in module._forward_pre_hooks.values()):
        place = list(inspect.signature(type(module).forward).parameters).index(argument) - 1
        hook = _OwnBias(argument, place, a.layout.position_bias)
        module.register_forward_pre_hook(hook, with_kwargs=True)
    if not module.kept_heads and not a.layout.runs_empty:
        module.forward = WithoutHeads(_forward_without_heads, module, a)


class _OwnConfig:
    """A model's configuration with values of its own for one module. All else is read
    from, and written to, the configuration that it shares.
    """

    def __init__(self, shared: Any, **own: int) -> None:
        vars(self).update(shared=shared, own=own)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or "own" not in vars(self):  # while it is copied
            raise AttributeError(name)
        return self.own[name] if name in self.own else getattr(self.shared, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self.shared, name, value)


class WithoutHeads(functools.partial[tuple[Any, ...]]):
    """The ``forward`` of a module without heads. As a partial of a function it is copied
    and pickled with the module.
    """


@dataclass(frozen=True)
class _OwnBias:
    """A forward pre-hook: of a bias with one entry per head of the full model, (B or 1, heads,
    L, S) or (B · heads, 1, S), the module takes those of its own heads; none where it has
    ``computed`` it itself (T5): what the layer before hands on is for other heads.
    """

    argument: str
    place: int
    computed: bool

    def __call__(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        positional = self.place < len(args)
        bias = args[self.place] if positional else kwargs.get(self.argument)
        if self.computed:
            bias = None
        elif isinstance(bias, Tensor):
            kept = torch.tensor(module.kept_heads, dtype=torch.long, device=bias.device)
            if bias.ndim == 3:
                by_head = bias.unflatten(0, (-1, module.full_heads))
                bias = by_head.index_select(1, kept).flatten(0, 1)
            elif bias.shape[1] == module.full_heads:
                bias = bias.index_select(1, kept)
        if positional:
            return (*args[: self.place], bias, *args[self.place + 1 :]), kwargs
        return args, {**kwargs, self.argument: bias}


def _features(heads: Tensor, head_size: int) -> Tensor:
    """Indices of the features of these heads, (len(heads) · head size,)."""
    return (heads[:, None] * head_size + torch.arange(head_size)).flatten()


def _forward_without_heads(module: Any, a: Attention, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
    """What an attention module returns without heads, in place of its ``forward``:
    (output, weights), or T5's three.

    The module's class does not change, so code that looks for attention modules by class
    still finds it. transformers' own recording of attentions does so.
    """
    given = inspect.signature(type(module).forward).bind_partial(module, *args, **kwargs).arguments
    given |= given.pop("kwargs", {})

    def first(*names: str) -> Any:
        return next((given[n] for n in names if given.get(n) is not None), None)

    hidden = given["hidden_states"]  # (B, L, E)
    B, L = hidden.shape[:2]
    source = first("key_value_states", "encoder_hidden_states")
    keys = L if source is None or not a.layout.cross else source.shape[1]
    # its name since, and before, transformers 5.24, and in older model code
    cache = first("cache", "past_key_values", "layer_past")
    if cache is not None and not a.layout.cross:
        # The length of what was generated so far is read off the first layer's cache,
        # so a layer without heads must keep one too: a single number for each position.
        cached = getattr(cache, "self_attention_cache", cache)
        layer = module.layer_idx if hasattr(module, "layer_idx") else module.layer_id
        keys = cached.update(*[hidden.new_zeros(B, 1, L, 1)] * 2, layer)[0].shape[-2]
    eager = getattr(getattr(module, "config", None), "_attn_implementation", "eager") == "eager"
    weights = hidden.new_zeros(B, 0, L, keys) if eager else None
    if a.layout.out.startswith("../"):
        # the parent applies the output projection, which adds its bias
        return hidden.new_zeros(B, L, 0), weights
    out = getattr(module, a.layout.out)
    made = hidden.new_zeros(B, L, sizes(out)[1])
    if getattr(out, "bias", None) is not None:
        made = made + out.bias.to(made)
    for step in a.layout.after:  # BLOOM keeps its dropout as a number
        part: Any = given[step[1:]] if step[0] == "+" else getattr(module, step)
        if step[0] == "+":
            made = made + part
        else:
            made = part(made) if callable(part) else F.dropout(made, part, module.training)
    return (made, None, weights) if a.layout.position_bias else (made, weights)
