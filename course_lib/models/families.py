"""One table of the model families that the library knows: what the parts of their
modules are called.

A row says for one class of modules where its projections are (:class:`Layout`), or its
feed-forward part (:class:`FeedForward`), or where an encoder layer can lose tokens
(:class:`LayerLayout`); a sentence in a layout's place, why the operation makes no sense. Names
are written down and not guessed from shapes. Classes are known by their full names, so
transformers is not imported here.

To add a family, add its rows here and a small model of it to
``tests/unit/conformance/models.py``. The test beside it then tries every operation on it and says
what is wrong with the rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from torch import nn


@dataclass(frozen=True)
class Layout:
    """What one class of attention modules calls its parts; "" or () where it has none."""

    # its projections. The same name more than once: fused in one layer, in this order.
    # "../output.dense" is looked up in the module's parent
    q: str
    k: str
    v: str
    out: str
    heads: str = ""  # attributes: the number of query heads,
    head_size: str = "head_dim"  # the width of one head,
    width: str = ""  # heads · head size, which changes with the number of heads,
    groups: str = ""  # the number of query heads per key/value head,
    kv_heads: str = ""  # and the number of key/value heads
    config: str = ""  # the number in module.config that the module reads its heads from
    # a fused layer makes query, key and value of head 0, then those of head 1, and so on
    # (GPT-NeoX); otherwise all queries, then all keys, then all values (GPT-2)
    by_head: bool = False
    also: tuple[str, ...] = ()  # projections with a block of rows per head (DeBERTa's positions)
    columns: tuple[str, ...] = ()  # further parameters with one column per head
    # an argument of forward with one entry per head of the full model (dimension 1, or B · heads
    # in dimension 0); the module takes the entries of the heads that are left
    bias: str = ""
    cross: bool = False  # queries attend to another sequence
    causal: bool = False  # a sequence attends to its own past, where there is no is_causal
    # for modules with this name in their path, or whose config is of this class; "": for all.
    # The first layout that fits counts
    where: str = ""
    # what the module itself applies after its output projection: names of its dropouts and
    # norms, and "+name" for an argument that it adds
    after: tuple[str, ...] = ()
    windows: bool = False  # a sample is several rows of the module's input, one after the other
    position_bias: bool = False  # modules hand on a position bias (1, heads, L, S), as T5's do
    runs_empty: bool = False  # its code runs without heads; transformers' does not


@dataclass(frozen=True)
class FeedForward:
    """What one class calls its feed-forward part."""

    # the layers that widen, two where one gates the other; one that makes both halves
    # (Phi-3) is named once
    first: tuple[str, ...]
    out: str  # the layer whose output is MLP(x); "": the module itself (a mixture of experts)
    neurons: str = ""  # why single neurons cannot be scored or removed
    flat: bool = False  # the tokens of all samples are rows of one matrix (B · L, E)


@dataclass(frozen=True)
class LayerLayout:
    """What one class of encoder layers is made of; names are paths from the layer."""

    # post-norm: the module whose output both the FFN and its residual connection read, a tensor
    # or a tuple that begins with it; pre-norm: the FFN itself
    cut: str
    prenorm: bool = False
    protected: int = 1  # rows at the start that the model's answer is read from: 1 for [CLS]
    # an attribute that must be None: a bias for every pair of positions, not sliced with the tokens
    unless: str = ""


@dataclass(frozen=True)
class Row:
    """What is known of one class of modules; a sentence says why an operation makes no sense."""

    attention: tuple[Layout, ...] = ()
    mlp: FeedForward | None = None
    tokens: LayerLayout | str | None = None  # of a layer
    depth: str = ""  # of the module that holds the layers
    # an attribute: where it is true, the module reads the weights of its output layer and does
    # not call it, so that no gate would act
    bypass: str = ""


def _heads(layout: Layout, **more: object) -> Row:
    """The row of attention of one kind, which differs from ``layout`` in these fields."""
    return Row((replace(layout, **more),))  # type: ignore[arg-type]


def _with_cross(layout: Layout, name: str) -> tuple[Layout, ...]:
    """One class for both: it is cross-attention where ``name`` is in its path."""
    return replace(layout, cross=True, where=name), layout


# ------------------------------------------------------------------ what families share
_BERT = Layout(
    *("query", "key", "value", "../output.dense"),
    *("num_attention_heads", "attention_head_size", "all_head_size"),
)
_BART = Layout("q_proj", "k_proj", "v_proj", "out_proj", heads="num_heads")
_LLAMA = Layout("q_proj", "k_proj", "v_proj", "o_proj", groups="num_key_value_groups")
_VIT = Layout("q_proj", "k_proj", "v_proj", "o_proj", heads="num_attention_heads")
_T5 = Layout("q", "k", "v", "o", "n_heads", "key_value_proj_dim", "inner_dim", position_bias=True)
_GPT2 = Layout(
    *("c_attn", "c_attn", "c_attn", "c_proj", "num_heads"),
    width="split_size",
    after=("resid_dropout",),
)
_QKV = ("query_key_value", "query_key_value", "query_key_value", "dense")
_ALIBI = Layout(*_QKV, heads="num_heads", by_head=True, bias="alibi", causal=True)

_INTERMEDIATE = FeedForward(("intermediate.dense",), "output.dense")
_FC = FeedForward(("fc1",), "fc2")
_GATED = FeedForward(("gate_proj", "up_proj"), "down_proj")
_TORCH = FeedForward(("linear1",), "linear2")
_WI = FeedForward(("wi",), "wo")
_GATED_WI = FeedForward(("wi_0", "wi_1"), "wo")
_H_TO_4H = FeedForward(("dense_h_to_4h",), "dense_4h_to_h")

RELATIVE = (
    "its layers add a bias for every pair of positions, which is computed once for all tokens and"
    " not sliced with them"
)
_NO_CLS = "its answer is read from all tokens, and none of them is [CLS]"


def _bert(prefix: str) -> dict[str, Row]:
    return {
        f"{prefix}SelfAttention": _heads(_BERT),
        f"{prefix}CrossAttention": _heads(_BERT, cross=True),
        f"{prefix}Layer": Row(mlp=_INTERMEDIATE, tokens=LayerLayout("attention")),
    }


def _bart(prefix: str) -> dict[str, Row]:
    return {
        f"{prefix}Attention": Row(attention=_with_cross(_BART, "encoder_attn")),
        f"{prefix}EncoderLayer": Row(mlp=_FC),
        f"{prefix}DecoderLayer": Row(mlp=_FC),
    }


def _t5(prefix: str) -> dict[str, Row]:
    return {
        f"{prefix}Attention": Row(attention=_with_cross(_T5, "EncDecAttention")),
        f"{prefix}DenseActDense": Row(mlp=_WI),
        f"{prefix}DenseGatedActDense": Row(mlp=_GATED_WI),
    }


def _llama(prefix: str) -> dict[str, Row]:
    return {
        f"{prefix}Attention": _heads(_LLAMA),
        f"{prefix}MLP": Row(mlp=_GATED),
    }


def _vision(prefix: str, protected: int = 1) -> dict[str, Row]:
    return {
        f"{prefix}Attention": _heads(_VIT),
        f"{prefix}MLP": Row(mlp=_FC),
        f"{prefix}Layer": Row(tokens=LayerLayout("mlp", prenorm=True, protected=protected)),
    }


def _tower(prefix: str, attention: tuple[Layout, ...], tokens: LayerLayout | str) -> dict[str, Row]:
    return {
        f"{prefix}Attention": Row(attention=attention),
        f"{prefix}MLP": Row(mlp=_FC),
        f"{prefix}EncoderLayer": Row(tokens=tokens),
    }


# -------------------------------------------------------------------------- the families
FAMILIES: dict[str, dict[str, Row]] = {
    "bert": _bert("Bert"),
    "roberta": _bert("Roberta"),
    "xlm_roberta": _bert("XLMRoberta"),
    "camembert": _bert("Camembert"),
    "electra": _bert("Electra"),
    "distilbert": {
        "DistilBertSelfAttention": _heads(
            Layout("q_lin", "k_lin", "v_lin", "out_lin", "n_heads", "attention_head_size")
        ),
        "FFN": Row(mlp=FeedForward(("lin1",), "lin2")),
        "TransformerBlock": Row(tokens=LayerLayout("sa_layer_norm")),
    },
    "albert": {
        "AlbertAttention": _heads(
            _BERT, out="dense", after=("output_dropout", "+hidden_states", "LayerNorm")
        ),
        "AlbertLayer": Row(
            mlp=FeedForward(("ffn",), "ffn_output"),
            tokens="its layers share their weights, so one module is every layer",
        ),
        "AlbertTransformer": Row(
            depth="its layers share their weights; lower config.num_hidden_layers instead"
        ),
    },
    "mpnet": {
        "MPNetSelfAttention": _heads(_BERT, q="q", k="k", v="v", out="o", bias="position_bias"),
        "MPNetLayer": Row(mlp=_INTERMEDIATE, tokens=RELATIVE),
    },
    "deberta_v2": {
        "DisentangledSelfAttention": _heads(
            replace(_BERT, q="query_proj", k="key_proj", v="value_proj"),
            also=("pos_key_proj", "pos_query_proj"),
        ),
        "DebertaV2Layer": Row(mlp=_INTERMEDIATE, tokens=RELATIVE),
    },
    "modernbert": {
        "ModernBertAttention": _heads(Layout("Wqkv", "Wqkv", "Wqkv", "Wo", after=("out_drop",))),
        "ModernBertMLP": Row(mlp=FeedForward(("Wi",), "Wo")),
        "ModernBertEncoderLayer": Row(
            tokens="its layers look at windows of neighbours, and the neighbours would change"
        ),
    },
    "gpt2": {
        "GPT2Attention": Row(
            attention=(replace(_GPT2, q="q_attn", cross=True, where="crossattention"), _GPT2)
        ),
        "GPT2MLP": Row(mlp=FeedForward(("c_fc",), "c_proj")),
    },
    "gpt_neo": {
        "GPTNeoSelfAttention": _heads(_BART, after=("resid_dropout",)),
        "GPTNeoMLP": Row(mlp=FeedForward(("c_fc",), "c_proj")),
    },
    "gpt_neox": {
        "GPTNeoXAttention": _heads(Layout(*_QKV, head_size="head_size", by_head=True)),
        "GPTNeoXMLP": Row(mlp=_H_TO_4H),
    },
    "bloom": {
        "BloomAttention": Row(
            attention=(replace(_ALIBI, after=("hidden_dropout", "+residual")),),
            bypass="slow_but_exact",
        ),
        "BloomMLP": Row(mlp=_H_TO_4H, bypass="slow_but_exact"),
    },
    "opt": {
        "OPTAttention": _heads(_BART),
        "OPTDecoderLayer": Row(mlp=replace(_FC, flat=True)),
    },
    "llama": _llama("Llama"),
    "mistral": _llama("Mistral"),
    "qwen2": _llama("Qwen2"),
    "qwen3": _llama("Qwen3"),
    "gemma": _llama("Gemma"),
    "gemma2": _llama("Gemma2"),
    "gemma3": _llama("Gemma3"),
    "cohere2": _llama("Cohere2"),
    "smollm3": _llama("SmolLM3"),
    "phi": {
        "PhiAttention": _heads(_LLAMA, out="dense"),
        "PhiMLP": Row(mlp=_FC),
    },
    "phi3": {
        "Phi3Attention": _heads(
            replace(_LLAMA, q="qkv_proj", k="qkv_proj", v="qkv_proj"),
            kv_heads="num_key_value_heads",
            config="num_attention_heads",
        ),
        "Phi3MLP": Row(mlp=FeedForward(("gate_up_proj",), "down_proj")),
    },
    "mixtral": {
        "MixtralAttention": _heads(_LLAMA),
        "MixtralSparseMoeBlock": Row(
            mlp=FeedForward(
                (), "", neurons="the neurons of its experts lie in one tensor for all experts"
            )
        ),
    },
    "t5": _t5("T5"),
    "mt5": _t5("MT5"),
    "bart": _bart("Bart"),
    "mbart": _bart("MBart"),
    "pegasus": _bart("Pegasus"),
    "marian": _bart("Marian"),
    "m2m_100": _bart("M2M100"),
    "whisper": _bart("Whisper"),
    "vit": _vision("ViT"),
    # its second token is the distillation token, which one of the two classifiers reads
    "deit": _vision("DeiT", protected=2),
    "dinov2": {
        **_vision("Dinov2"),
        "Dinov2SwiGLUFFN": Row(mlp=_GATED),
    },
    "beit": {
        **_vision("Beit"),
        "BeitAttention": _heads(_VIT, bias="attention_mask"),
        "BeitLayer": Row(tokens=LayerLayout("mlp", prenorm=True, unless="relative_position_bias")),
    },
    "swin": {
        "SwinAttention": _heads(
            _VIT, columns=("relative_position_bias.relative_position_bias_table",), windows=True
        ),
        "SwinMLP": Row(mlp=_FC),
        "SwinEncoder": Row(
            depth="every second layer shifts its windows, and no configuration describes another"
            " order"
        ),
        "SwinLayer": Row(tokens="its windows are cut out of a full grid of tokens"),
    },
    "clip": _tower(
        "CLIP",
        (replace(_BART, where="CLIPTextConfig", causal=True), _BART),
        LayerLayout("mlp", prenorm=True),
    ),
    "siglip": _tower("Siglip", (_BART,), _NO_CLS),
    "wav2vec2": {
        "Wav2Vec2Attention": _heads(_BART),
        "Wav2Vec2FeedForward": Row(mlp=FeedForward(("intermediate_dense",), "output_dense")),
        "Wav2Vec2EncoderLayer": Row(tokens=_NO_CLS),
        "Wav2Vec2EncoderLayerStableLayerNorm": Row(tokens=_NO_CLS),
    },
    "torch": {
        "torch.nn.modules.transformer.TransformerEncoderLayer": Row(mlp=_TORCH),
        "torch.nn.modules.transformer.TransformerDecoderLayer": Row(mlp=_TORCH),
        "torchvision.models.vision_transformer.MLPBlock": Row(mlp=FeedForward(("0",), "3")),
        "course_lib.pruning.heads.explicit.ExplicitAttention": Row(
            attention=_with_cross(replace(_BART, runs_empty=True), "multihead_attn")
        ),
    },
}


def full_name(cls: type) -> str:
    """The name under which the table lists a class."""
    return f"{cls.__module__}.{cls.__qualname__}"


def _in_transformers(family: str, name: str) -> str:
    return name if "." in name else f"transformers.models.{family}.modeling_{family}.{name}"


TABLE: dict[str, Row] = {
    _in_transformers(family, name): row
    for family, rows in FAMILIES.items()
    for name, row in rows.items()
}


def register(
    cls: type[nn.Module] | str,
    *,
    attention: Layout | tuple[Layout, ...] = (),
    mlp: FeedForward | None = None,
    tokens: LayerLayout | None = None,
) -> None:
    """Add a class of modules to the table, or replace these columns of its row.

    A layout is right if a gate of 0 equals removal, and if dropping a token equals masking it.

    Args:
        cls: the class, or its full name ("package.module.Class"). Subclasses count, too, unless
            they are registered.
        tokens: of an encoder layer whose ``forward`` takes the rows (B, L, E) first and the mask
            second or as ``attention_mask=``, and returns the rows, by themselves or as the first
            of a tuple. Its attention must be known, too.

    Raises:
        ValueError: without a layout.
    """
    name = cls if isinstance(cls, str) else full_name(cls)
    layouts = attention if isinstance(attention, tuple) else (attention,)
    given = {"attention": layouts, "mlp": mlp, "tokens": tokens}
    if not any(given.values()):
        raise ValueError("pass what its parts are called: attention=, mlp= or tokens=")
    TABLE[name] = replace(TABLE.get(name, Row()), **{c: v for c, v in given.items() if v})  # type: ignore[arg-type]


def rows_of(cls: type) -> list[Row]:
    """The rows of a class and of what it is derived from, its own first."""
    return [TABLE[name] for base in cls.__mro__ if (name := full_name(base)) in TABLE]


def refuse_bypass(name: str, module: nn.Module) -> None:
    """Raises ValueError if this module would not call its output layer."""
    for row in rows_of(type(module)):
        if row.bypass and getattr(module, row.bypass, False):
            raise ValueError(
                f"{name!r} reads the weights of its output layer and does not call it, so a gate"
                f" there would do nothing: set {row.bypass} of the module to False"
            )


def known(column: str) -> list[str]:
    """The short names of the classes that have a layout in this column."""
    found = {name: getattr(row, column) for name, row in TABLE.items()}
    short = {n.split(".")[-1] for n, layout in found.items() if layout and type(layout) is not str}
    return sorted(short)
