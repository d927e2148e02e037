"""Every operation of the library, tried on a small model of one family.

Each function returns where the operation does what it says, raises ValueError where the
library refuses it, and AssertionError where the result is wrong: then the rows of
:mod:`course_lib.models.families` describe the family wrongly.
"""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from course_lib.models.attention import Attention, find_attention
from course_lib.models.conv1d import sizes, with_linears
from course_lib.models.mlps import find_mlps
from course_lib.pruning.components import truncate
from course_lib.pruning.heads import gated, head_importance, load_pruned, remove_heads, save_pruned
from course_lib.pruning.layers import (
    ffn_importance,
    gated_mlps,
    layers_to_keep,
    remove_mlps,
    slice_ffn,
    take_layers,
)
from course_lib.pruning.tokens import dropping, encoder_layers
from course_lib.pruning.weights import encoder_weights, movement_pruning, sparsity
from unit.conformance.models import SMALL, E, data_of, inputs_of, loss_of, outputs, small_model

NOT_A_DECODER = "it does not generate text"
NOT_AN_ENCODER = "it is a decoder, and what it generates next needs all tokens"
CLOSE = 1e-5  # of the largest number: some norms compute in single precision


def same(got: Tensor, expected: Tensor, what: str, tolerance: float = CLOSE) -> None:
    """Raises AssertionError if two tensors differ by more than rounding."""
    assert got.shape == expected.shape, f"{what}: shapes {got.shape} and {expected.shape}"
    difference = float((got - expected).abs().max() / expected.abs().max().clamp(min=1e-12))
    assert difference <= tolerance, f"{what}: differ by {difference:.0e} of the largest number"


def gates_act(
    model: nn.Module, inputs: Any, gates: Callable[[Any], Any], ones: Any, keep: Any
) -> Tensor:
    """What the model with gates at 0 gives: another thing, and with gates of 1 the same."""
    full = outputs(model, inputs)
    with gates(ones):
        assert torch.equal(outputs(model, inputs), full), "gates of 1 change the outputs"
    with gates(keep):
        off = outputs(model, inputs)
    assert (full - off).abs().max() > 1e-3 * full.abs().max(), "gates change nothing"
    return off


def some_heads(attention: list[Attention], seed: int = 1) -> list[Tensor]:
    """A set for every layer that can be removed: the first layer loses all its heads,
    the last keeps one per key/value group or fewer, the others lose some.
    """
    generator = torch.Generator().manual_seed(seed)
    kept = []
    for i, a in enumerate(attention):
        by_group = torch.ones(a.kv_heads, a.heads // max(a.kv_heads, 1), dtype=torch.bool)
        if a.kv_heads > 1:  # a whole group, or a plain head
            by_group[int(torch.randint(a.kv_heads, (1,), generator=generator))] = False
        if by_group.shape[1] > 1 and i % 2:  # and one query head of every group that is left
            for group in by_group:
                group[int(torch.randint(len(group), (1,), generator=generator))] = False
        kept.append(by_group.flatten() & (i > 0))
    return kept


def slope(losses: Callable[[float], Tensor], said: Tensor) -> None:
    """Raises AssertionError if an importance is not the mean size of the samples' slopes."""
    with torch.no_grad():
        found = float(((losses(1.001) - losses(0.999)) / 2e-3).abs().mean())
    assert abs(float(said) - found) <= 0.02 * found + 1e-3, f"{float(said):.4f}, slope {found:.4f}"


# ------------------------------------------------------------------------- the operations
def heads(family: str) -> None:
    """Gates of 1 change nothing, gates of 0 are removal, per sample too."""
    inputs = inputs_of(family)
    for attention in SMALL[family].attention:
        model = small_model(family, attention)
        found = find_attention(model)
        ones = [torch.ones(a.heads) for a in found]
        for keep in (some_heads(found), [one == 0 for one in ones]):
            expected = gates_act(model, inputs, partial(gated, model), ones, keep)
            smaller = remove_heads(model, keep)
            same(outputs(smaller, inputs), expected, f"gates of 0 and removal ({attention})")
            assert [a.heads for a in find_attention(smaller)] == [int(k.sum()) for k in keep]
            further = some_heads(find_attention(smaller), seed=2)
            both = [one == 0 for one in ones]
            for mask, first, then in zip(both, keep, further, strict=True):
                mask[first.nonzero().flatten()[then]] = True
            same(
                outputs(remove_heads(smaller, further), inputs),
                outputs(remove_heads(model, both), inputs),
                "removal in two steps and in one",
            )
            again = copy.deepcopy(smaller)
            for parameter in smaller.parameters():
                parameter.data.zero_()
            same(outputs(again, inputs), expected, "a copy of the smaller model")
        smaller = remove_heads(model, some_heads(found)).train()
        loss_of(smaller, data_of(family)).mean().backward()
        for a in (a for a in find_attention(smaller) if a.heads):
            gradient = next(smaller.get_submodule(a.out).parameters()).grad
            assert gradient is not None and bool(gradient.any()), f"{a.name!r} does not train"
        g = torch.Generator().manual_seed(0)
        xi = [torch.rand(3, a.heads, generator=g) for a in found]
        with gated(model, xi):
            together = outputs(model, inputs)
        with gated(model, [gates[2] for gates in xi]):
            alone = outputs(model, {name: x[2:] for name, x in inputs.items()})
        same(together[2:], alone, "gates per sample")


def importance(family: str) -> None:
    """The importance of a head is the slope of the loss along its gate."""
    model, data = small_model(family), data_of(family)
    found = find_attention(model)
    got = head_importance(model, [data], loss_of)
    for layer, a in enumerate(found):
        xi = [torch.ones(b.heads, dtype=torch.float64) for b in found]

        def losses(gate: float, xi: Any = xi, layer: int = layer) -> Tensor:
            xi[layer][-1] = gate
            with gated(model, xi):
                return loss_of(model, data)

        slope(losses, got[layer, a.heads - 1])
    each = [{name: x[i : i + 1] for name, x in data.items()} for i in range(3)]
    same(got, head_importance(model, each, loss_of), "importance, batch by batch", 1e-4)


def saving(family: str) -> None:
    """A model pruned in several ways comes back from disk, bit by bit."""
    inputs = inputs_of(family)
    for model in _pruned(family):
        with tempfile.TemporaryDirectory() as folder:
            save_pruned(model, folder)
            loaded = load_pruned(folder, attn_implementation=model.config._attn_implementation)
        state = loaded.state_dict()
        assert state.keys() == model.state_dict().keys(), "other tensors come back"
        for name, value in model.state_dict().items():
            assert torch.equal(value, state[name]), f"{name} comes back changed"
        _as_experts_were(loaded)
        same(outputs(loaded, inputs), outputs(model, inputs), "outputs after loading")


def _pruned(family: str) -> Iterator[Any]:
    """Heads, then all that goes besides, in two orders."""
    model = small_model(family)
    yield remove_heads(model, some_heads(find_attention(model)))
    parts = len(find_mlps(model))
    keep = torch.arange(parts) != 1 if parts > 1 else torch.zeros(1, dtype=torch.bool)
    for heads_first in (True, False):
        smaller = model
        if heads_first:
            smaller = remove_heads(smaller, some_heads(find_attention(smaller)))
        if not any(mlp.neurons for mlp in find_mlps(smaller)):
            smaller = slice_ffn(smaller, _some_neurons(smaller))
        smaller = with_linears(smaller)
        matrices = {
            name: p
            for name, p in encoder_weights(smaller).items()
            if isinstance(smaller.get_submodule(name.rpartition(".")[0]), nn.Linear)
        }
        smaller = truncate(
            smaller, {name: min(2, *p.shape) for name, p in list(matrices.items())[-3:]}
        )
        for path in SMALL[family].stacks:
            count = len(list(smaller.get_submodule(path).children()))
            with suppress(ValueError):  # "depth" tells which are refused
                smaller = take_layers(smaller, path, count - 1)
        left = len(find_mlps(smaller))
        smaller = remove_mlps(smaller, keep[:left] if left > 1 else keep[:1])
        if not heads_first:
            smaller = remove_heads(smaller, some_heads(find_attention(smaller)))
        yield smaller


def _as_experts_were(model: Any) -> None:
    if hasattr(model.config, "num_local_experts"):
        model.set_experts_implementation("eager")


def _some_neurons(model: nn.Module) -> list[Tensor]:
    return [
        torch.arange(sizes(model.get_submodule(mlp.out))[0]) % 3 != 0 for mlp in find_mlps(model)
    ]


def generation(family: str) -> None:
    """The smaller model writes what the gated one writes, with and without a cache."""
    if not SMALL[family].generates:
        raise ValueError(NOT_A_DECODER)
    inputs = inputs_of(family)
    inputs.pop("decoder_input_ids", None)
    for attention in SMALL[family].attention:
        model = small_model(family, attention)
        found = find_attention(model)
        keep = some_heads(found)
        # the first layer of the decoder, whose cache is asked for the length, has none
        keep[next(i for i, a in enumerate(found) if a.kind == "decoder")][:] = False
        smaller: Any = remove_heads(model, keep)
        how: dict[str, Any] = {"max_new_tokens": 9, "min_new_tokens": 9, "do_sample": False}
        how |= {"return_dict_in_generate": True, "output_logits": True, "no_repeat_ngram_size": 1}
        with gated(model, keep):
            expected = model.generate(**inputs, **how)
        for cache in (True, False):
            got = smaller.generate(**inputs, **how, use_cache=cache)
            assert torch.equal(got.sequences, expected.sequences), f"another text, cache: {cache}"
            same(torch.stack(got.logits), torch.stack(expected.logits), f"logits, cache: {cache}")

    # a layer finds its place in the cache by its index
    path = SMALL[family].stacks[-1]
    fewer: Any = take_layers(model, path, len(list(model.get_submodule(path).children())) - 1)
    with_cache, without = (fewer.generate(**inputs, **how, use_cache=use) for use in (True, False))
    assert torch.equal(with_cache.sequences, without.sequences), f"{path}: the cache matters"


def movement(family: str) -> None:
    """Movement pruning trains every matrix of the layers, and leaves half of it."""
    model, data = small_model(family), data_of(family)
    names = list(encoder_weights(model))
    assert names and all(model.get_parameter(name).ndim >= 2 for name in names)
    with movement_pruning(model, names, keep=0.5) as scores:
        optimizer = torch.optim.Adam(scores.groups(model, lr=1e-3, score_lr=1e-2))
        for _ in range(2):
            optimizer.zero_grad()
            loss_of(model, data).mean().backward()
            optimizer.step()
        inside = outputs(model, inputs_of(family))
        assert abs(sparsity(scores.masks()) - 0.5) < 0.01
    pruned = torch.cat([model.get_parameter(name).flatten() == 0 for name in names])
    assert abs(float(pruned.float().mean()) - 0.5) < 0.01, "after the block"
    same(outputs(model, inputs_of(family)), inside, "after the block")


def depth(family: str) -> None:
    """A model without some layers computes what the full one computes when these hand
    on their input, and comes back from disk.
    """
    inputs = inputs_of(family)
    for path in SMALL[family].stacks:
        model = small_model(family)
        count = len(list(model.get_submodule(path).children()))
        kept = layers_to_keep(count, max(count - 1, 1))
        smaller: Any = take_layers(model, path, len(kept))
        with _handing_on(model, path, kept):
            expected = outputs(model, inputs)
        same(outputs(smaller, inputs), expected, f"{path} with {len(kept)} of {count} layers")
        with tempfile.TemporaryDirectory() as folder:
            smaller.save_pretrained(folder)
            loaded = type(smaller).from_pretrained(
                folder, attn_implementation=model.config._attn_implementation
            )
        _as_experts_were(loaded)
        same(outputs(loaded.eval(), inputs), outputs(smaller, inputs), f"{path}, after loading")


@contextmanager
def _handing_on(model: nn.Module, path: str, kept: list[int]) -> Iterator[None]:
    layers: Any = model.get_submodule(path)

    def hand_on(layer: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> Any:
        hidden = args[0] if args else kwargs["hidden_states"]
        return (hidden, *out[1:]) if isinstance(out, tuple) else hidden

    hooks = [
        layer.register_forward_hook(hand_on, with_kwargs=True)
        for i, layer in enumerate(layers)
        if i not in kept
    ]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def feed_forward(family: str) -> None:
    """A part with a gate of 0 is a part that is removed."""
    model, inputs = small_model(family), inputs_of(family)
    parts = len(find_mlps(model))
    keep = torch.arange(parts) != parts - 1
    expected = gates_act(model, inputs, partial(gated_mlps, model), torch.ones(parts), keep)
    same(outputs(remove_mlps(model, keep), inputs), expected, "gates of 0 and removal")
    with gated_mlps(model, keep[:, None].expand(-1, 3)):
        same(outputs(model, inputs), expected, "gates per sample")


def neurons(family: str) -> None:
    """Narrower parts are those whose other neurons are 0, and importance is a slope."""
    model, inputs, data = small_model(family), inputs_of(family), data_of(family)
    got = ffn_importance(model, [data], loss_of)
    keep = _some_neurons(model)
    smaller = slice_ffn(model, keep)

    def read(part: int) -> Tensor:  # (outputs, neurons)
        out: Any = model.get_submodule(find_mlps(model)[part].out)
        return out.weight.data if isinstance(out, nn.Linear) else out.weight.data.t()

    column = read(0)[:, 0].clone()

    def losses(gate: float) -> Tensor:
        read(0)[:, 0] = column * gate
        return loss_of(model, data)

    slope(losses, got[0][0])
    losses(1.0)
    for part, kept in enumerate(keep):
        read(part)[:, ~kept] = 0
    same(outputs(smaller, inputs), outputs(model, inputs), "narrower parts")


def tokens(family: str) -> None:
    """A layer that drops tokens gives those that stay what they had, and the next layer
    sees no others.
    """
    model = small_model(family)
    if any(a.kind != "encoder" for a in find_attention(model)):
        raise ValueError(NOT_AN_ENCODER)
    inputs = {name: x for name, x in inputs_of(family).items() if name != "attention_mask"}
    layers = encoder_layers(model)
    states: list[Tensor] = []

    def note(module: nn.Module, args: Any, out: Any) -> None:
        states.append(out[0] if isinstance(out, tuple) else out)

    hooks = [layer.module.register_forward_hook(note) for layer in layers]
    outputs(model, inputs)
    full = list(states)
    states.clear()
    with dropping(model, {1: 3}) as drop:
        outputs(model, inputs)
    for hook in hooks:
        hook.remove()
    index = drop.last.kept[1][:, :, None].expand(-1, -1, E)  # type: ignore[union-attr]
    assert index.shape[1] == 3 < full[1].shape[1]
    same(states[1], full[1].gather(1, index), "the layer that drops")
    last: Any = layers[2].module
    with torch.no_grad():
        made = last(states[1], None)
    same(states[2], made[0] if isinstance(made, tuple) else made, "the next layer")


OPERATIONS: dict[str, Callable[[str], None]] = {
    "heads": heads,
    "importance": importance,
    "saved": saving,
    "generation": generation,
    "movement": movement,
    "depth": depth,
    "feed-forward": feed_forward,
    "neurons": neurons,
    "tokens": tokens,
}


def try_operation(family: str, operation: str) -> str:
    """ "works", or the sentence with which the operation is refused.

    Raises:
        AssertionError: if the result is wrong.
    """
    try:
        OPERATIONS[operation](family)
    except ValueError as refusal:
        return str(refusal)
    return "works"
