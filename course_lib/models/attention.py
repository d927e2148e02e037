"""Where the attention heads of a model are: the query, key, value and output
projections of each attention module.

::

    for a in find_attention(model):
        print(a.name, a.kind, a.heads, "heads of", a.head_size)

All multi-head attention is one sum over heads, Σ_h softmax(q_h k_hᵀ/√d) v_h · W_out[h]:
head h owns d rows of W_q, W_k and W_v, and the d columns of W_out that read it. So to
gate, score or remove heads it is enough to know four linear layers and two numbers.
What they are called differs from family to family, and is written down here once, in a
registry of plain data; nothing is guessed from shapes. A model with attention that is
not in the registry is refused, since a gate that is put in the wrong place changes
nothing, and then every head looks useless.

transformers is not imported here: classes are known by their full names.

Source: Vaswani et al. 2017, "Attention Is All You Need", section 3.2.2; as a sum over
heads: Michel et al. 2019, "Are Sixteen Heads Really Better than One?", section 2.1.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from torch import nn

from course_lib.wrapped import refuse_wrapped

KINDS = ("encoder", "decoder", "cross")


@dataclass(frozen=True)
class Layout:
    """How one class of attention modules calls its parts.

    - ``q``, ``k``, ``v``: its three projections. The same name more than once: they are
      fused in one layer, in this order.
    - ``out``: its output projection. ``"../output.dense"`` is looked up in the module's
      parent.
    - ``heads``, ``head_size``: the attributes that hold the number of heads, and the
      width of one.
    - ``width``: an attribute that holds heads · head size, if there is one; it changes
      with the number of heads.
    - ``cross``: whether queries attend to another sequence.
    - ``where``: this layout is for modules with this name in their path; "" is for all.
      The first that fits counts.
    - ``dropout``: an attribute: the dropout that the module itself applies behind its
      output projection.
    - ``position_bias``: whether modules hand a position bias (1, heads, L, S) on to the
      next layer, as T5's do.
    - ``rows``: names of further parameters of the module that have one row for each
      head.
    - ``runs_empty``: whether the module's code runs when it has no heads. transformers'
      does not.
    """

    q: str
    k: str
    v: str
    out: str
    heads: str
    head_size: str
    width: str = ""
    cross: bool = False
    where: str = ""
    dropout: str = ""
    position_bias: bool = False
    rows: tuple[str, ...] = ()
    runs_empty: bool = False


@dataclass(frozen=True)
class Attention:
    """One attention module of a model. Paths are as in ``model.get_submodule``.

    ``kind`` is "cross" where the queries of a decoder attend to what the encoder made,
    "decoder" where a sequence attends to its own past (causal), and "encoder" where it
    attends to all of itself: Michel's Enc-Dec, Dec-Dec and Enc-Enc.
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

    @property
    def fused(self) -> bool:
        """Whether one layer makes several of query, key and value."""
        return len({self.q, self.k, self.v}) < 3


def _bert(cross: bool = False) -> tuple[Layout, ...]:
    return (
        Layout(
            *("query", "key", "value", "../output.dense"),
            heads="num_attention_heads",
            head_size="attention_head_size",
            width="all_head_size",
            cross=cross,
        ),
    )


def _vit() -> tuple[Layout, ...]:
    return (
        Layout(
            "q_proj",
            "k_proj",
            "v_proj",
            "o_proj",
            heads="num_attention_heads",
            head_size="head_dim",
        ),
    )


def _with_cross(layout: Layout, name: str) -> tuple[Layout, ...]:
    """One class for both kinds of attention: it is cross-attention where ``name`` is in
    its path.
    """
    return replace(layout, cross=True, where=name), layout


_BART = Layout("q_proj", "k_proj", "v_proj", "out_proj", heads="num_heads", head_size="head_dim")
_T5 = Layout(
    *("q", "k", "v", "o"),
    heads="n_heads",
    head_size="key_value_proj_dim",
    width="inner_dim",
    position_bias=True,
)
_GPT2 = Layout(
    *("c_attn", "c_attn", "c_attn", "c_proj"),
    heads="num_heads",
    head_size="head_dim",
    width="split_size",
    dropout="resid_dropout",
)

_REGISTRY: dict[str, tuple[Layout, ...]] = {
    "transformers.models.bert.modeling_bert.BertSelfAttention": _bert(),
    "transformers.models.bert.modeling_bert.BertCrossAttention": _bert(cross=True),
    "transformers.models.roberta.modeling_roberta.RobertaSelfAttention": _bert(),
    "transformers.models.roberta.modeling_roberta.RobertaCrossAttention": _bert(cross=True),
    "transformers.models.electra.modeling_electra.ElectraSelfAttention": _bert(),
    "transformers.models.electra.modeling_electra.ElectraCrossAttention": _bert(cross=True),
    "transformers.models.distilbert.modeling_distilbert.DistilBertSelfAttention": (
        Layout(
            "q_lin", "k_lin", "v_lin", "out_lin", heads="n_heads", head_size="attention_head_size"
        ),
    ),
    "transformers.models.vit.modeling_vit.ViTAttention": _vit(),
    "transformers.models.deit.modeling_deit.DeiTAttention": _vit(),
    "transformers.models.bart.modeling_bart.BartAttention": _with_cross(_BART, "encoder_attn"),
    "transformers.models.marian.modeling_marian.MarianAttention": _with_cross(
        _BART, "encoder_attn"
    ),
    "transformers.models.t5.modeling_t5.T5Attention": _with_cross(_T5, "EncDecAttention"),
    "transformers.models.gpt2.modeling_gpt2.GPT2Attention": (
        replace(_GPT2, q="q_attn", cross=True, where="crossattention"),
        _GPT2,
    ),
    "course_lib.pruning.heads.explicit.ExplicitAttention": _with_cross(
        replace(_BART, rows=("bias_k", "bias_v"), runs_empty=True), "multihead_attn"
    ),
}


def register_attention(attention: type[nn.Module] | str, *layouts: Layout) -> None:
    """Teach the registry one more class of attention modules; a class that is known
    already is described anew.

    The layout is right if a gate of 0 equals removal: compare ``gated(model, xi)`` with
    ``remove_heads(model, xi > 0)``.

    Args:
        attention: the class, or its full name ("package.module.Class"). Subclasses
            count too, unless they are registered.
        layouts: what its parts are called; of several, the first whose ``where`` is in
            the module's path.

    Raises:
        ValueError: without a layout.
    """
    if not layouts:
        raise ValueError(
            "how are its parts called? register_attention(MyAttention, Layout(q=..., k=..., v=...,"
            " out=...))"
        )
    _REGISTRY[attention if isinstance(attention, str) else _full_name(attention)] = layouts


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
        name: layout for name, module in model.named_modules() if (layout := _layout(name, module))
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
    return [model.get_submodule(a.out) for a in find_attention(model, kind)]


def _describe(model: nn.Module, name: str, layout: Layout) -> Attention:
    module = model.get_submodule(name)
    causal = bool(getattr(module, "is_causal", False))

    def path(part: str) -> str:
        inside, part = (
            (name.rpartition(".")[0], part[3:]) if part.startswith("../") else (name, part)
        )
        return f"{inside}.{part}" if inside else part

    described = Attention(
        name=name,
        kind="cross" if layout.cross else "decoder" if causal else "encoder",
        heads=_number(module, name, layout.heads),
        head_size=_number(module, name, layout.head_size),
        q=path(layout.q),
        k=path(layout.k),
        v=path(layout.v),
        out=path(layout.out),
        layout=layout,
    )
    for part in (described.q, described.k, described.v, described.out):
        try:
            model.get_submodule(part)
        except AttributeError as error:
            raise ValueError(
                f"the registry says that {type(module).__name__} has a projection {part!r}, but"
                f" there is none: {_how_to_register()}"
            ) from error
    return described


def _number(module: nn.Module, name: str, attribute: str) -> int:
    value = getattr(module, attribute, None)
    if not isinstance(value, int):
        raise ValueError(
            f"the registry says that {type(module).__name__} ({name!r}) has a number {attribute!r},"
            f" got {value!r}: {_how_to_register()}"
        )
    return value


def _layout(name: str, module: nn.Module) -> Layout | None:
    for cls in type(module).__mro__:
        for layout in _REGISTRY.get(_full_name(cls), ()):
            if not layout.where or layout.where in name.split("."):
                return layout
    return None


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
        if not type(module).__name__.endswith("Attention") or not _has_projections(module):
            continue
        if not any(_inside(other, name) or _inside(name, other) for other in known):
            raise ValueError(
                f"{name!r} is a {_full_name(type(module))}, which is not registered;"
                f" {_how_to_register(type(module))}. If its heads are not to be touched, pass the"
                " part of the model that has the others"
            )


def _has_projections(module: nn.Module) -> bool:
    return sum(p.ndim == 2 for p in module.parameters()) >= 2


def _inside(inner: str, outer: str) -> bool:
    return inner == outer or outer == "" or inner.startswith(f"{outer}.")


def _how_to_register(cls: type | None = None) -> str:
    families = sorted({name.split(".")[-1] for name in _REGISTRY})
    name = _full_name(cls) if cls else "package.module.ItsAttention"
    return (
        f"known are {', '.join(families)}. For another, say what its parts are called: "
        f'register_attention("{name}", Layout(q=..., k=..., v=..., out=..., heads=...,'
        " head_size=...))"
    )


def _full_name(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"
