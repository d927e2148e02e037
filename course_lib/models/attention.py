"""Where the attention heads of a model are: the query, key, value and output
projections of each attention module.

::

    for a in find_attention(model):
        print(a.name, a.kind, a.heads, "heads of", a.head_size)

All multi-head attention is one sum over heads, Σ_h softmax(q_h k_hᵀ/√d) v_h · W_out[h]:
head h owns d rows of W_q, W_k and W_v, and the d columns of W_out that read it. So to
gate, score or remove heads it is enough to know four linear layers and two numbers.
What they are called differs from family to family, and is written down once, in the
table of :mod:`course_lib.models.families`. A model with attention that is
not in the table is refused, since a gate that is put in the wrong place changes
nothing, and then every head looks useless.

Source: Vaswani et al. 2017, "Attention Is All You Need", section 3.2.2; as a sum over
heads: Michel et al. 2019, "Are Sixteen Heads Really Better than One?", section 2.1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from course_lib.models.conv1d import sizes
from course_lib.models.families import Layout, full_name, known, refuse_bypass, rows_of
from course_lib.wrapped import refuse_wrapped

__all__ = ["KINDS", "Attention", "Layout", "find_attention", "output_projections"]

KINDS = ("encoder", "decoder", "cross")


@dataclass(frozen=True)
class Attention:
    """One attention module of a model. Paths are as in ``model.get_submodule``."""

    name: str
    # "cross" where the queries of a decoder attend to what the encoder made, "decoder" where a
    # sequence attends to its own past (causal), "encoder" where it attends to all of itself:
    # Michel's Enc-Dec, Dec-Dec and Enc-Enc
    kind: str
    heads: int  # query heads, of which kv_heads groups share a key/value head
    head_size: int
    q: str
    k: str
    v: str
    out: str
    layout: Layout
    kv_heads: int

    @property
    def fused(self) -> bool:
        """Whether one layer makes several of query, key and value."""
        return len({self.q, self.k, self.v}) < 3


def find_attention(model: nn.Module, kind: str | None = None) -> list[Attention]:
    """The attention modules of ``model``, in the order of its layers, also where no head is
    left: what "layer" means wherever heads are pruned.

    Args:
        model: an encoder, decoder or encoder-decoder of a registered family, or any
            module that contains one. An ``nn.MultiheadAttention`` must be replaced
            first (:func:`~course_lib.pruning.heads.explicit_attention`).
        kind: only "encoder" or "decoder" self-attention, or only "cross"-attention.

    Raises:
        ValueError: if there is attention that is not registered, or none at all (of
            this kind), saying what to do.
    """
    if kind not in (None, *KINDS):
        raise ValueError(f"kind is one of {', '.join(KINDS)}, or None for all; got {kind!r}")
    layouts = {
        name: layout for name, module in model.named_modules() if (layout := _layout(name, module))
    }
    _refuse_unknown(model, layouts)
    found = [_describe(model, name, layout) for name, layout in layouts.items()]
    if not found:
        refuse_wrapped(model, "parallel", "compile", "prune")
        raise ValueError(
            f"{type(model).__name__} has no attention that is known here; {_how_to_register()}"
        )
    chosen = [a for a in found if kind in (None, a.kind)]
    if not chosen:
        kinds = " and ".join(sorted({a.kind for a in found}))
        raise ValueError(
            f"{type(model).__name__} has no {kind} attention: what it has is {kinds} attention"
        )
    return chosen


def output_projections(model: nn.Module, kind: str | None = None) -> list[nn.Module]:
    """The output projection of every attention module, in the order of
    :func:`find_attention`, with its arguments and errors.

    What goes into one is (B, L, heads · head size), the heads side by side: the place
    to gate them.
    """
    return [model.get_submodule(a.out) for a in find_attention(model, kind)]


def _layout(name: str, module: nn.Module) -> Layout | None:
    places = {"", *name.split("."), type(getattr(module, "config", None)).__name__}
    layouts = (layout for row in rows_of(type(module)) for layout in row.attention)
    return next((layout for layout in layouts if layout.where in places), None)


def _describe(model: nn.Module, name: str, layout: Layout) -> Attention:
    module: Any = model.get_submodule(name)
    causal = layout.causal or bool(getattr(module, "is_causal", False))
    if not hasattr(module, "is_causal"):  # T5's attention in transformers 5.10
        causal = causal or bool(getattr(module, "is_decoder", False))
    kind = "cross" if layout.cross else "decoder" if causal else "encoder"
    refuse_bypass(name, module)
    parts = (layout.q, layout.k, layout.v, layout.out)
    q, k, v, out = (_path(model, name, part) for part in parts)
    head_size = _number(module, name, layout.head_size)
    said = _number(module, name, layout.heads) if layout.heads else None
    try:
        reads, made = sizes(model.get_submodule(out))[0], sizes(model.get_submodule(k))[1]
    except ValueError:  # a module of one's own in its place, which does not say its sizes
        if said is None:
            raise
        heads = kv_heads = said
    else:
        heads, made = reads // head_size, made // head_size  # made: by the keys' layer
        several = [q, k, v].count(k)
        kv_heads = made // several if q != k else (made - heads) // (several - 1)
    if said not in (None, heads):
        found = f"the output projection reads {heads} heads of {head_size}"
        raise _wrong(name, module, f"{said} heads, its {layout.heads!r}, but {found}")
    return Attention(name, kind, heads, head_size, q, k, v, out, layout, kv_heads)


def _path(model: nn.Module, name: str, part: str) -> str:
    """Of a projection, from the model."""
    inside = name.rpartition(".")[0] if part.startswith("../") else name
    path = f"{inside}.{part.removeprefix('../')}".removeprefix(".")
    try:
        model.get_submodule(path)
    except AttributeError:
        there = model.get_submodule(name)
        raise _wrong(name, there, f"a projection {path!r}, but there is none") from None
    return path


def _number(module: nn.Module, name: str, attribute: str) -> int:
    value = getattr(module, attribute, None)
    if not isinstance(value, int):
        raise _wrong(name, module, f"a number {attribute!r}, got {value!r}")
    return value


def _wrong(name: str, module: nn.Module, what: str) -> ValueError:
    return ValueError(
        f"the table says that {type(module).__name__} ({name!r}) has {what}: {_how_to_register()}"
    )


def _refuse_unknown(model: nn.Module, known: dict[str, Layout]) -> None:
    """Attention that is neither registered nor round a registered module nor inside
    one.
    """
    for name, module in model.named_modules():
        if isinstance(module, nn.MultiheadAttention):
            raise ValueError(
                f"{name or type(model).__name__!r} is an nn.MultiheadAttention, which never calls"
                " its output projection, so a gate there would do nothing: use model ="
                " explicit_attention(model), which computes the same"
            )
        if looks_like_attention(module) and not any(_nested(name, other) for other in known):
            weights = {part: getattr(m, "weight", None) for part, m in module.named_modules()}
            matrices = (
                f"{part} ({'x'.join(map(str, weight.shape))})"
                for part, weight in weights.items()
                if isinstance(weight, Tensor) and weight.ndim == 2
            )
            raise ValueError(
                f"{name!r} is a {full_name(type(module))}, which is not registered; its matrices"
                f" are {', '.join(matrices)}; {_how_to_register(type(module))}. If its heads are"
                " not to be touched, pass the part of the model that has the others"
            )


def _nested(one: str, other: str) -> bool:
    """Whether one of two modules is inside the other, or is the other."""
    short, long = sorted((one, other), key=len)
    return not short or f"{long}.".startswith(f"{short}.")


def looks_like_attention(module: nn.Module) -> bool:
    """Whether a module is called "...Attention" and holds projections."""
    matrices = sum(p.ndim == 2 for p in module.parameters())
    return type(module).__name__.endswith("Attention") and matrices >= 2


def _how_to_register(cls: type | None = None) -> str:
    name = full_name(cls) if cls else "package.module.ItsAttention"
    return (
        f'say what its parts are called: register("{name}", attention=Layout(q=..., k=...,'
        f" v=..., out=..., heads=..., head_size=...)). Known are {', '.join(known('attention'))}"
    )
