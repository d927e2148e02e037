"""Where the feed-forward parts of a transformer are: for each layer the linear layer
that widens and the one that makes MLP(x).

::

    for mlp in find_mlps(model):
        print(mlp.name, mlp.first, mlp.out)

What a layer adds to its residual stream is ``MLP(x) = W₂·act(W₁·x + b₁) + b₂``. To
gate, score or remove it is to know W₂'s layer: in front of it b₂ would stay, behind the
residual sum the layer's input would go, too. As in :mod:`course_lib.models.attention`,
names are written down, not guessed.

transformers is not imported here: classes are known by their full names.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn

from course_lib.wrapped import refuse_wrapped


@dataclass(frozen=True)
class MLP:
    """One feed-forward part. Paths are as in ``model.get_submodule``.

    ``first``: the layers that widen (two where one gates the other, as in T5 1.1);
    ``out``: the one whose output is MLP(x).
    """

    name: str
    first: tuple[str, ...]
    out: str


_BERT = (("intermediate.dense",), "output.dense")
_FC = (("fc1",), "fc2")
_TORCH = (("linear1",), "linear2")
_REGISTRY: dict[str, tuple[tuple[str, ...], str]] = {
    "transformers.models.bert.modeling_bert.BertLayer": _BERT,
    "transformers.models.roberta.modeling_roberta.RobertaLayer": _BERT,
    "transformers.models.electra.modeling_electra.ElectraLayer": _BERT,
    "transformers.models.distilbert.modeling_distilbert.FFN": (("lin1",), "lin2"),
    "transformers.models.vit.modeling_vit.ViTMLP": _FC,
    "transformers.models.deit.modeling_deit.DeiTMLP": _FC,
    "transformers.models.bart.modeling_bart.BartEncoderLayer": _FC,
    "transformers.models.bart.modeling_bart.BartDecoderLayer": _FC,
    "transformers.models.marian.modeling_marian.MarianEncoderLayer": _FC,
    "transformers.models.marian.modeling_marian.MarianDecoderLayer": _FC,
    "transformers.models.t5.modeling_t5.T5DenseActDense": (("wi",), "wo"),
    "transformers.models.t5.modeling_t5.T5DenseGatedActDense": (("wi_0", "wi_1"), "wo"),
    "transformers.models.gpt2.modeling_gpt2.GPT2MLP": (("c_fc",), "c_proj"),
    "torchvision.models.vision_transformer.MLPBlock": (("0",), "3"),
    "torch.nn.modules.transformer.TransformerEncoderLayer": _TORCH,
    "torch.nn.modules.transformer.TransformerDecoderLayer": _TORCH,
}


def register_mlp(cls: str, first: tuple[str, ...], out: str) -> None:
    """Make a class known: its full name, the attributes of the layers that widen, and
    of the one that makes MLP(x).
    """
    _REGISTRY[cls] = (first, out)


def find_mlps(model: nn.Module) -> list[MLP]:
    """The feed-forward parts of ``model``, in the order of its layers.

    Raises:
        ValueError: if there is none that is known, saying how to register it.
    """
    found = []
    for name, module in model.named_modules():
        for cls in type(module).__mro__:
            parts = _REGISTRY.get(f"{cls.__module__}.{cls.__qualname__}")
            if parts:
                inside = f"{name}." if name else ""
                found.append(
                    MLP(name, tuple(inside + part for part in parts[0]), inside + parts[1])
                )
                break
    if not found:
        refuse_wrapped(model, "parallel", "compile", "prune")
        known = ", ".join(sorted({name.rpartition(".")[2] for name in _REGISTRY}))
        raise ValueError(
            f"{type(model).__name__} has no feed-forward part that is known here; known are"
            f' {known}. For another: register_mlp("package.module.ItsClass", first=("fc1",),'
            ' out="fc2")'
        )
    return found


def mlp_outputs(model: nn.Module) -> list[nn.Module]:
    """For each layer the linear layer whose output is MLP(x), its bias included: the
    place to gate it.
    """
    return [model.get_submodule(mlp.out) for mlp in find_mlps(model)]
