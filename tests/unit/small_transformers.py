"""Small, randomly initialised models of every family whose attention the library knows,
with inputs. Nothing is downloaded.
"""

import copy
import functools
import logging

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from course_lib.pruning.heads import explicit_attention

HEADS, SIZE, E, VOCABULARY, B, L = 4, 8, 32, 50, 3, 7

logging.getLogger("transformers").setLevel(logging.ERROR)

_TEXT = {
    "hidden_size": E,
    "num_hidden_layers": 3,
    "num_attention_heads": HEADS,
    "intermediate_size": 48,
    "vocab_size": VOCABULARY,
    "max_position_embeddings": 40,
    "pad_token_id": 0,
}
_IMAGE = {
    "hidden_size": E,
    "num_hidden_layers": 3,
    "num_attention_heads": HEADS,
    "intermediate_size": 48,
}
_IMAGE |= {"image_size": 8, "patch_size": 4, "num_channels": 1}
_BOTH = {
    "d_model": E,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_ffn_dim": 48,
    "decoder_ffn_dim": 48,
}
_BOTH |= {
    "encoder_attention_heads": HEADS,
    "decoder_attention_heads": HEADS,
    "vocab_size": VOCABULARY,
}
_BOTH |= {
    "max_position_embeddings": 40,
    "pad_token_id": 0,
    "eos_token_id": 1,
    "decoder_start_token_id": 2,
}
_BOTH |= {"bos_token_id": 3, "forced_eos_token_id": None}
_GPT2 = {"n_embd": E, "n_layer": 3, "n_head": HEADS, "vocab_size": VOCABULARY, "n_positions": 40}
_GPT2 |= {"bos_token_id": 1, "eos_token_id": 1, "pad_token_id": 0}


def _builders():
    import transformers as t
    from torchvision.models.vision_transformer import VisionTransformer

    return {
        "bert": lambda: t.BertForSequenceClassification(t.BertConfig(**_TEXT)),
        "bert decoder": lambda: t.BertLMHeadModel(
            t.BertConfig(**_TEXT, is_decoder=True, add_cross_attention=True)
        ),
        "roberta": lambda: t.RobertaForSequenceClassification(t.RobertaConfig(**_TEXT)),
        "electra": lambda: t.ElectraForSequenceClassification(
            t.ElectraConfig(**_TEXT, embedding_size=16)
        ),
        "distilbert": lambda: t.DistilBertForSequenceClassification(
            t.DistilBertConfig(
                dim=E,
                n_layers=3,
                n_heads=HEADS,
                hidden_dim=48,
                vocab_size=VOCABULARY,
                max_position_embeddings=40,
            )
        ),
        "vit": lambda: t.ViTForImageClassification(t.ViTConfig(**_IMAGE)),
        "deit": lambda: t.DeiTForImageClassification(t.DeiTConfig(**_IMAGE)),
        "bart": lambda: t.BartForConditionalGeneration(t.BartConfig(**_BOTH)),
        "marian": lambda: t.MarianMTModel(t.MarianConfig(**_BOTH)),
        "t5": lambda: t.T5ForConditionalGeneration(
            t.T5Config(
                d_model=E,
                d_kv=SIZE,
                d_ff=48,
                num_layers=3,
                num_heads=HEADS,
                vocab_size=VOCABULARY,
                decoder_start_token_id=2,
                relative_attention_num_buckets=8,
                relative_attention_max_distance=12,
            )
        ),
        "gpt2": lambda: t.GPT2LMHeadModel(t.GPT2Config(**_GPT2)),
        "gpt2 with cross-attention": lambda: t.GPT2LMHeadModel(
            t.GPT2Config(**_GPT2, add_cross_attention=True)
        ),
        "torchvision vit": lambda: VisionTransformer(8, 4, 3, HEADS, E, 48, num_classes=5),
    }


TRANSFORMERS = [
    *(
        "bert",
        "bert decoder",
        "roberta",
        "electra",
        "distilbert",
        "vit",
        "deit",
        "bart",
        "marian",
        "t5",
        "gpt2",
    ),
    "gpt2 with cross-attention",
]
FAMILIES = [*TRANSFORMERS, "torchvision vit"]
BOTH = pytest.mark.parametrize("attention", ["sdpa", "eager"])
TEXT_CLASSIFIERS = ["bert", "roberta", "electra", "distilbert"]
GENERATING = ["bart", "marian", "t5", "gpt2"]
KINDS = {
    "bert decoder": ["decoder", "cross"] * 3,
    "bart": ["encoder"] * 2 + ["decoder", "cross"] * 2,
    "marian": ["encoder"] * 2 + ["decoder", "cross"] * 2,
    "t5": ["encoder"] * 3 + ["decoder", "cross"] * 3,
    "gpt2": ["decoder"] * 3,
    "gpt2 with cross-attention": ["decoder", "cross"] * 3,
}


def full_model(family: str) -> nn.Module:
    """As its class builds it, in float64: to load weights into."""
    return _builders()[family]().double()


@functools.cache
def _built(family: str, seed: int) -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = full_model(family)
        for name, parameter in model.named_parameters():
            if "embed_positions" in name and family == "marian":
                continue  # sinusoids, which are not saved
            # large enough that attention is far from uniform, and no bias is zero
            nn.init.normal_(parameter, 1 if "norm" in name.lower() or ".ln_" in name else 0, 0.3)
    return model.eval()


def model_of(
    family: str, attention: str = "sdpa", dtype: torch.dtype = torch.float64, seed: int = 0
) -> nn.Module:
    """A model of this family in evaluation mode, its own copy."""
    model = copy.deepcopy(_built(family, seed)).to(dtype)
    if hasattr(model, "set_attn_implementation"):
        model.set_attn_implementation(attention)
    return model


def gateable(family: str, attention: str = "sdpa", dtype: torch.dtype = torch.float64) -> nn.Module:
    """The same, with every attention of torch's own replaced by one whose heads can be
    gated.
    """
    return explicit_attention(model_of(family, attention, dtype))


def inputs_of(
    family: str, batch: int = B, dtype: torch.dtype = torch.float64, seed: int = 0
) -> dict[str, torch.Tensor]:
    """Keyword arguments for a model of this family; samples differ, also in how long
    they are.
    """
    g = torch.Generator().manual_seed(seed)
    if family in ("vit", "deit"):
        return {"pixel_values": torch.randn(batch, 1, 8, 8, generator=g, dtype=dtype)}
    if family == "torchvision vit":
        return {"x": torch.randn(batch, 3, 8, 8, generator=g, dtype=dtype)}
    inputs = {"input_ids": torch.randint(5, VOCABULARY, (batch, L), generator=g)}
    inputs["attention_mask"] = (
        torch.arange(L) < torch.randint(4, L + 1, (batch, 1), generator=g)
    ).long()
    if family in ("bart", "marian", "t5"):
        inputs["decoder_input_ids"] = torch.randint(5, VOCABULARY, (batch, 5), generator=g)
    if family in ("bert decoder", "gpt2 with cross-attention"):
        inputs["encoder_hidden_states"] = torch.randn(batch, 6, E, generator=g, dtype=dtype)
    return inputs


def outputs(model: nn.Module, inputs: dict[str, torch.Tensor]) -> torch.Tensor:
    """(B, classes), or (B, L, vocabulary)."""
    with torch.no_grad():
        made = model(**inputs)
    return made if isinstance(made, torch.Tensor) else made.logits


def some_heads(layers: int, seed: int = 1) -> torch.Tensor:
    """Bool (layers, heads): the first layer loses all its heads, the last all but one,
    the others some.
    """
    keep = torch.rand(layers, HEADS, generator=torch.Generator().manual_seed(seed)) > 0.4
    keep[0] = False
    keep[-1] = torch.arange(HEADS) == 2
    return keep


def close(got: torch.Tensor, expected: torch.Tensor, atol: float = 1e-12) -> None:
    torch.testing.assert_close(got, expected, rtol=0, atol=atol)


def hooks_of(model: nn.Module) -> int:
    return sum(len(m._forward_pre_hooks) + len(m._forward_hooks) for m in model.modules())


def loss_of(family):
    """One loss a sample: cross-entropy over classes or over the tokens of each text,
    against fixed labels.
    """

    def loss(model, batch):
        made = model(**{name: x for name, x in batch.items() if name != "labels"})
        logits = made if isinstance(made, torch.Tensor) else made.logits
        if logits.ndim == 2:
            return F.cross_entropy(logits, batch["labels"] % logits.shape[1], reduction="none")
        labels = batch["labels"][:, None].expand(logits.shape[:2]) % logits.shape[2]
        return F.cross_entropy(logits.transpose(1, 2), labels, reduction="none").mean(1)

    return loss


def data_of(family, n=8):
    return inputs_of(family, batch=n) | {"labels": torch.arange(n) * 7}
