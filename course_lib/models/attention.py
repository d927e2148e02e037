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

transformers is not imported here: classes are known by their full names.

Source: Vaswani et al. 2017, "Attention Is All You Need", section 3.2.2; as a sum over
heads: Michel et al. 2019, "Are Sixteen Heads Really Better than One?", section 2.1.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from course_lib.models.conv1d import sizes
from course_lib.models.families import Layout, full_name, known, refuse_bypass, rows_of

__all__ = [
    "KINDS",
    "Attention",
    "Layout",
    "find_attention",
    "output_projections",
]

from course_lib.wrapped import refuse_wrapped

KINDS = ("encoder", "decoder", "cross")


@dataclass(frozen=True)
class Attention:
    """One attention module of a model. Paths are as in ``model.get_submodule``.

    ``kind`` is "cross" where the queries of a decoder attend to what the encoder made,
    "decoder" where a sequence attends to its own past (causal), and "encoder" where it
    attends to all of itself: Michel's Enc-Dec, Dec-Dec and Enc-Enc.

    ``heads`` counts query heads, of which ``kv_heads`` groups share a key/value head.
    Where a class is not in the table and its heads are reached through transformers'
    attention interface, the paths are "" and ``head_size`` is 0.
    """

    name: str
    kind: str
    heads: int
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
    """The attention modules of ``model``, in the order of its layers: what "layer"
    means wherever heads are pruned.

    Args:
        model: an encoder, decoder or encoder-decoder of a registered family, or any
            module that contains one. An ``nn.MultiheadAttention`` must be replaced
            first (:func:`~course_lib.pruning.heads.explicit_attention`): it hands its
            weights to one function and never calls its output projection.
        kind: only "encoder" or "decoder" self-attention, or only "cross"-attention.

    Returns:
        One :class:`Attention` for each module, also where no head is left (``heads`` is
        then 0).

    Raises:
        ValueError: if there is attention that is not registered, or none at all (of
            this kind), saying what to do.
    """
    if kind is not None and kind not in KINDS:
        raise ValueError(f"kind is one of {', '.join(KINDS)}, or None for all; got {kind!r}")
    known = {
        name: layout
        for name, module in model.named_modules()
        if (layout := _layout(name, module) or _interface(module))
    }
    _refuse_unknown(model, known)
    found = [_describe(model, name, layout) for name, layout in known.items()]
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
    :func:`find_attention`.

    What goes into one is (B, L, heads · head size), the heads side by side: the place
    to gate them.

    Args and raises as in :func:`find_attention`.
    """
    found = find_attention(model, kind)
    refuse_unlocated(model, found)
    return [model.get_submodule(a.out) for a in found]


def refuse_unlocated(model: nn.Module, attention: Sequence[Attention]) -> None:
    """Raises ValueError if one of these modules is known by its interface only, saying
    which row would describe it.
    """
    for a in attention:
        if not a.out:
            module = model.get_submodule(a.name)
            linear = {
                name: "x".join(map(str, part.weight.shape))
                for name, part in module.named_modules()
                if isinstance(getattr(part, "weight", None), Tensor) and part.weight.ndim == 2
            }
            raise ValueError(
                f"the heads of {a.name!r}, a {full_name(type(module))}, can be gated and scored,"
                " but it is not registered where its projections are. Its matrices are"
                f" {', '.join(f'{name} ({shape})' for name, shape in linear.items())};"
                f" {_how_to_register(type(module))}"
            )


_BY_INTERFACE = Layout("", "", "", "")


def _interface(module: nn.Module) -> Layout | None:
    """For a module of transformers that hands its queries, keys and values to the
    attention function that its configuration names: there its heads can be gated.
    """
    heads = getattr(getattr(module, "config", None), "num_attention_heads", None)
    if not isinstance(heads, int):
        return None
    code = getattr(inspect.unwrap(type(module).forward), "__code__", None)
    uses = code is not None and "ALL_ATTENTION_FUNCTIONS" in code.co_names
    return _BY_INTERFACE if uses else None


def _describe(model: nn.Module, name: str, layout: Layout) -> Attention:
    module: Any = model.get_submodule(name)
    causal = layout.causal or bool(getattr(module, "is_causal", False))
    if layout is _BY_INTERFACE:
        heads = module.config.num_attention_heads
        kv_heads = getattr(module.config, "num_key_value_heads", None) or heads
        beside = "decoder" in name.split(".")  # attention there that is not causal is to a source
        kind = "decoder" if causal else "cross" if beside else "encoder"
        return Attention(name, kind, heads, 0, "", "", "", "", layout, kv_heads)

    if not hasattr(module, "is_causal"):  # T5's attention in transformers 5.10
        causal = causal or bool(getattr(module, "is_decoder", False))

    def path(part: str) -> str:
        inside, part = (
            (name.rpartition(".")[0], part[3:]) if part.startswith("../") else (name, part)
        )
        return f"{inside}.{part}" if inside else part

    q, k, v, out = (path(part) for part in (layout.q, layout.k, layout.v, layout.out))
    for part in (q, k, v, out):
        try:
            model.get_submodule(part)
        except AttributeError as error:
            raise ValueError(
                f"the table says that {type(module).__name__} has a projection {part!r}, but"
                f" there is none: {_how_to_register()}"
            ) from error
    refuse_bypass(name, module)
    head_size = _number(module, name, layout.head_size)
    try:
        reads, made = sizes(model.get_submodule(out))[0], sizes(model.get_submodule(k))[1]
    except ValueError:  # a module of one's own in its place, which does not say its sizes
        if not layout.heads:
            raise
        heads = kv_heads = _number(module, name, layout.heads)
    else:
        heads, parts = reads // head_size, [q, k, v].count(k)
        made //= head_size  # heads that the keys' layer makes
        kv_heads = made // parts if q != k else (made - heads) // (parts - 1)
    if layout.heads and (said := _number(module, name, layout.heads)) != heads:
        raise ValueError(
            f"the table says that {layout.heads!r} of {type(module).__name__} ({name!r}) is its"
            f" number of heads, but it is {said}, and the output projection reads {heads} heads of"
            f" {head_size}: {_how_to_register()}"
        )
    return Attention(
        name=name,
        kind="cross" if layout.cross else "decoder" if causal else "encoder",
        heads=heads,
        head_size=head_size,
        q=q,
        k=k,
        v=v,
        out=out,
        layout=layout,
        kv_heads=kv_heads,
    )


def _number(module: nn.Module, name: str, attribute: str) -> int:
    value = getattr(module, attribute, None)
    if not isinstance(value, int):
        raise ValueError(
            f"the table says that {type(module).__name__} ({name!r}) has a number {attribute!r},"
            f" got {value!r}: {_how_to_register()}"
        )
    return value


def _layout(name: str, module: nn.Module) -> Layout | None:
    places = {"", *name.split("."), type(getattr(module, "config", None)).__name__}
    return next(
        (
            layout
            for row in rows_of(type(module))
            for layout in row.attention
            if layout.where in places
        ),
        None,
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
        if not looks_like_attention(module):
            continue
        if not any(_inside(other, name) or _inside(name, other) for other in known):
            raise ValueError(
                f"{name!r} is a {full_name(type(module))}, which is not registered;"
                f" {_how_to_register(type(module))}. If its heads are not to be touched, pass the"
                " part of the model that has the others"
            )


def looks_like_attention(module: nn.Module) -> bool:
    """Whether a module is called "...Attention" and holds projections."""
    matrices = sum(p.ndim == 2 for p in module.parameters())
    return type(module).__name__.endswith("Attention") and matrices >= 2


def _inside(inner: str, outer: str) -> bool:
    return inner == outer or outer == "" or inner.startswith(f"{outer}.")


def _how_to_register(cls: type | None = None) -> str:
    name = full_name(cls) if cls else "package.module.ItsAttention"
    return (
        f'say what its parts are called: register("{name}", attention=Layout(q=..., k=...,'
        f" v=..., out=..., heads=..., head_size=...)). Known are {', '.join(known('attention'))}"
    )
