"""Attention heads that are removed for good: a smaller model, not one with gates at zero.

Head h is d rows of W_q, W_k and W_v, and the d columns of W_out that read it. All of
them go, and the biases of the rows; the bias of the output projection stays, whoever is
left. A layer that loses all its heads makes that bias and nothing else: the sum over no
heads is zero.

transformers 5 has no ``prune_heads``. So each module's own numbers are changed with its
weights (how many heads it has; for GPT-2 where its fused projection is split). Some
families need more:

- T5 computes its relative position bias in the first layer of a stack and hands it on,
  one number for each head and pair of positions. Layers with different heads cannot
  share it, so each gets its own slice of the table, and learns it by itself from then on.
- A module with no heads cannot run its own code, which leaves a size to be inferred from
  a tensor without elements. It keeps its class and name, and gets another ``forward``.
- Where query heads share a key/value head, every key/value head that is kept must keep
  the same number of them, since the module repeats all of them equally often.
- MPNet, BLOOM and BEiT compute one bias per head for all layers together. A layer that
  loses heads takes the entries of its own heads.

Source: Michel et al. 2019, "Are Sixteen Heads Really Better than One?", section 4.3.
"""

from __future__ import annotations

import copy
import functools
import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from course_lib.checks import check_mask, check_names
from course_lib.models.attention import Attention, find_attention, refuse_unlocated
from course_lib.models.conv1d import cut, select_parameter, sizes
from course_lib.pruning.heads.explicit import explicit_attention
from course_lib.pruning.heads.gates import Gate, OwnConfig, split_by_layer
from course_lib.pruning.heads.placement import refuse_uneven

Keep = Tensor | Sequence[Tensor] | Mapping[str, Tensor]


def remove_heads(
    model: nn.Module, keep: Keep, attention: Sequence[Attention] | None = None
) -> nn.Module:
    """A copy of ``model`` without the heads that are not kept: the same outputs as with
    their gates at 0, to rounding.

    It runs, trains and generates like the model it came from, with its key-value cache
    too, and heads can be removed from it again. ``save_pruned`` and ``load_pruned``
    store it; ``save_pretrained`` alone is not enough.

    Args:
        model: with attention that :func:`~course_lib.pruning.heads.find_attention`
            knows, or ``nn.MultiheadAttention``, which becomes
            :class:`~course_lib.pruning.heads.ExplicitAttention`. It is not changed, and
            shares no tensor with the result.
        keep: bool, True = kept: (layers, heads), or one (heads,) for each layer, or for
            some of them by the name of the attention module. Every head of a layer may
            go.
        attention: the modules that ``keep`` is for; all of them unless given.

    Returns:
        A model of the same class, in the same modes and on the same devices.

    Raises:
        ValueError: if ``keep`` is no bool mask of this model's heads; if it leaves the
            groups of query heads that share a key unequal; or if the attention is
            unknown.
        RuntimeError: inside a :func:`~course_lib.pruning.heads.gated` block of this
            model, whose gates would stay on the copy.
    """
    _refuse_gates(model)
    smaller = explicit_attention(model)
    remove_heads_(smaller, keep, attention)
    return smaller


def remove_heads_(
    model: nn.Module, keep: Keep, attention: Sequence[Attention] | None = None
) -> None:
    """As :func:`remove_heads`, in place. An optimizer made before holds parameters that
    the model no longer has.
    """
    _refuse_gates(model)
    every = find_attention(model)
    refuse_unlocated(model, every)
    chosen = _masks(keep, every if attention is None else list(attention))
    with torch.no_grad():
        _slice_position_biases(model, every, chosen)
        for a in every:
            if a.name in chosen and not chosen[a.name].all():
                _cut(model, a, chosen[a.name])


def slice_heads(
    q: nn.Linear, k: nn.Linear, v: nn.Linear, out: nn.Linear, keep: Sequence[int], head_dim: int
) -> tuple[nn.Linear, nn.Linear, nn.Linear, nn.Linear]:
    """The four projections of multi-head attention with the heads ``keep`` alone: new layers;
    the bias of ``out`` is kept whole.

    Args:
        q, k, v: make heads · head_dim features, head after head; ``out`` reads them.
        keep: head indices, strictly increasing; may be empty.

    Raises:
        ValueError: if ``keep`` is no such list, or the layers do not fit ``head_dim``.
    """
    heads, rest = divmod(q.out_features, head_dim)
    indices = [int(i) for i in keep]
    if rest or {k.out_features, v.out_features, out.in_features} != {q.out_features}:
        widths = (
            f"{q.out_features}, {k.out_features} and {v.out_features} made, {out.in_features} read"
        )
        raise ValueError(
            f"the four layers should share a whole number of heads of {head_dim} features, got"
            f" {widths}"
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


def kept_heads(model: nn.Module) -> dict[str, tuple[int, ...]]:
    """Which heads of the full model are left, by the name of the attention module;
    modules that lost none are not listed.
    """
    return {
        a.name: tuple(kept)
        for a in find_attention(model)
        if (kept := getattr(model.get_submodule(a.name), "kept_heads", None)) is not None
    }


# ------------------------------------------------------------------------ the arguments
def _refuse_gates(model: nn.Module) -> None:
    if any(
        isinstance(hook, Gate)
        for module in model.modules()
        for hook in module._forward_pre_hooks.values()
    ):
        raise RuntimeError(
            "this model is inside a gated block: leave the block, then remove the heads"
        )


def _masks(keep: Keep, attention: Sequence[Attention]) -> dict[str, Tensor]:
    """Bool (heads,) on the CPU by the module's name."""
    heads = {a.name: a.heads for a in attention}
    if not isinstance(keep, Mapping):
        keep = dict(zip(heads, split_by_layer(keep, attention, "keep"), strict=True))
    check_names(keep, heads, "keep")
    masks = {
        name: check_mask(mask, f"keep[{name!r}]", (heads[name],)).cpu()
        for name, mask in keep.items()
    }
    for a in attention:
        if a.name in masks:
            refuse_uneven(a, masks[a.name])
    return masks


# --------------------------------------------------------------------------- one module
def _cut(model: nn.Module, a: Attention, mask: Tensor) -> None:
    module: Any = model.get_submodule(a.name)
    heads = mask.nonzero().flatten()
    shared = (heads // (a.heads // max(a.kv_heads, 1))).unique()  # key/value heads that are left
    if len(heads) * a.kv_heads not in (0, len(shared) * a.heads) and not a.layout.groups:
        raise ValueError(
            f"{a.name!r} would have fewer query heads per key/value head, and its layout does not"
            " say where the module keeps that number: register with Layout(...,"
            " groups=...)"
        )
    made = ((a.q, heads, a.heads), (a.k, shared, a.kv_heads), (a.v, shared, a.kv_heads))
    for path in dict.fromkeys((a.q, a.k, a.v)):
        parts = [(kept, of) for name, kept, of in made if name == path]
        if a.layout.by_head:
            index = _features(heads, len(parts) * a.head_size)
        else:  # one part after the other
            starts = torch.tensor([0, *(of * a.head_size for _, of in parts)]).cumsum(0)
            index = torch.cat(
                [
                    start + _features(kept, a.head_size)
                    for (kept, _), start in zip(parts, starts, strict=False)
                ]
            )
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
    if not hasattr(module, "kept_heads"):
        module.full_heads, module.kept_heads = a.heads, tuple(range(a.heads))
    # as the full model counts them
    module.kept_heads = tuple(module.kept_heads[int(h)] for h in heads)
    _compute_as_pruned(module, a)


def compute_as_pruned_(model: nn.Module) -> None:
    """What attention with the shapes and numbers of pruned attention computes otherwise
    than its class: for a model that was brought into its form from a file.
    """
    if any(hasattr(module, "kept_heads") for module in model.modules()):
        for a in find_attention(model):
            _compute_as_pruned(model.get_submodule(a.name), a)


def _compute_as_pruned(module: Any, a: Attention) -> None:
    if getattr(module, "own_position_bias", False):
        _compute_own_bias(module)
    if not hasattr(module, "kept_heads"):
        return
    if a.layout.config:
        module.config = OwnConfig(module.config, {a.layout.config: len(module.kept_heads)})
    if a.layout.bias and not any(
        isinstance(hook, functools.partial) and hook.func is _take_own_bias
        for hook in module._forward_pre_hooks.values()
    ):
        take = functools.partial(_take_own_bias, a.layout.bias)
        module.register_forward_pre_hook(take, with_kwargs=True)
    if not module.kept_heads and not a.layout.runs_empty:
        module.forward = WithoutHeads(_forward_without_heads, module, a)


class WithoutHeads(functools.partial[tuple[Any, ...]]):
    """The ``forward`` of a module without heads. As a partial of a function it is copied
    and pickled with the module.
    """


def _take_own_bias(
    argument: str, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """A forward pre-hook: of a bias with one entry per head of the full model, (B or 1,
    heads, L, S) or (B · heads, 1, S), the entries of this module's heads.
    """
    full: Any = module.full_heads
    place = list(inspect.signature(type(module).forward).parameters).index(argument) - 1
    bias = args[place] if place < len(args) else kwargs.get(argument)
    if not isinstance(bias, Tensor):
        return args, kwargs
    kept = torch.tensor(module.kept_heads, dtype=torch.long, device=bias.device)
    if bias.ndim == 3:
        bias = bias.unflatten(0, (-1, full)).index_select(1, kept).flatten(0, 1)
    elif bias.shape[1] == full:
        bias = bias.index_select(1, kept)
    if place < len(args):
        return (*args[:place], bias, *args[place + 1 :]), kwargs
    return args, {**kwargs, argument: bias}


def _features(heads: Tensor, head_size: int) -> Tensor:
    """Indices of the features of these heads, (len(heads) · head size,)."""
    return (heads[:, None] * head_size + torch.arange(head_size)).flatten()


# ----------------------------------------------------------------------------- no heads
def _forward_without_heads(module: Any, a: Attention, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
    """What an attention module returns without heads, in place of its ``forward``:
    (output, weights), or T5's three.

    The module's class does not change, so code that looks for attention modules by class
    still finds it. transformers' own recording of attentions does so.
    """
    given = inspect.signature(type(module).forward).bind_partial(module, *args, **kwargs).arguments
    given = given | given.pop("kwargs", {})
    hidden = given["hidden_states"]  # (B, L, E)
    B, L = hidden.shape[:2]
    other = next(
        (
            given[n]
            for n in ("key_value_states", "encoder_hidden_states")
            if given.get(n) is not None
        ),
        None,
    )
    keys = L if other is None or not a.layout.cross else other.shape[1]
    # its name since, and before, transformers 5.24, and in older model code
    caches = ("cache", "past_key_values", "layer_past")
    cache = next((given[n] for n in caches if given.get(n) is not None), None)
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
    bias = getattr(out, "bias", None)
    width = sizes(out)[1]
    made = hidden.new_zeros(B, L, width) if bias is None else bias.expand(B, L, -1).to(hidden.dtype)
    for step in a.layout.after:
        made = made + given[step[1:]] if step[0] == "+" else _applied(module, step, made)
    return (made, None, weights) if a.layout.position_bias else (made, weights)


def _applied(module: Any, step: str, x: Tensor) -> Tensor:
    """A dropout or norm of this module; BLOOM keeps its dropout as a number."""
    layer = getattr(module, step)
    return layer(x) if callable(layer) else nn.functional.dropout(x, layer, module.training)


# ------------------------------------------------------------------------ position bias
def _slice_position_biases(
    model: nn.Module, attention: Sequence[Attention], masks: Mapping[str, Tensor]
) -> None:
    """Give every layer of a stack that loses heads a position bias of its own, for the
    heads that it keeps (T5).
    """
    shared = [a for a in attention if a.layout.position_bias]
    for stack in _stacks(model, [a for a in shared if a.kind != "cross"]):
        if all(masks[a.name].all() for a in stack if a.name in masks):
            continue
        table = model.get_submodule(stack[0].name).relative_attention_bias
        assert isinstance(table, nn.Embedding)  # (buckets, heads)
        for a in stack:
            module: Any = model.get_submodule(a.name)
            heads = masks.get(a.name, torch.ones(a.heads, dtype=torch.bool)).nonzero().flatten()
            sliced = copy.deepcopy(table)
            sliced.weight, sliced.embedding_dim = (
                select_parameter(table.weight, 1, heads),
                len(heads),
            )
            module.relative_attention_bias = sliced
            module.has_relative_attention_bias = True
            _compute_own_bias(module)
    # cross-attention has no table, but the first layer's zeros, as many as it has
    # heads, are handed on
    cross = [a for a in shared if a.kind == "cross"]
    if any(not masks[a.name].all() for a in cross if a.name in masks):
        for a in cross:
            _compute_own_bias(model.get_submodule(a.name))


def _stacks(model: nn.Module, attention: Sequence[Attention]) -> list[list[Attention]]:
    """Layers that share a position bias: one that has a table, and those behind it that
    have none.
    """
    stacks: list[list[Attention]] = []
    for a in attention:
        if model.get_submodule(a.name).has_relative_attention_bias:
            stacks.append([])
        stacks[-1].append(a)
    return stacks


def _compute_own_bias(module: Any) -> None:
    module.own_position_bias = True
    if _no_shared_bias not in module._forward_pre_hooks.values():
        module.register_forward_pre_hook(_no_shared_bias, with_kwargs=True)


def _no_shared_bias(
    module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Any, dict[str, Any]]:
    """A forward pre-hook: what the layer before hands on is for other heads."""
    return args, {**kwargs, "position_bias": None}
