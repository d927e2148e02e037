"""A small model of every family of the table, with random weights and inputs. Nothing
is downloaded.
"""

from __future__ import annotations

import copy
import functools
import importlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

HEADS, SIZE, E, VOCABULARY, B, L = 4, 8, 32, 50, 3, 7


@dataclass(frozen=True)
class Small:
    """How to build a small model of one family."""

    model: str  # a class of transformers
    settings: Mapping[str, Any]  # of its configuration
    stacks: tuple[str, ...]  # the paths of its lists of layers
    takes: str = "text"  # or "image", "audio", "spectrogram"
    target: bool = False  # it also reads decoder inputs
    source: bool = False  # it also reads an encoder's hidden states
    generates: bool = False
    attention: tuple[str, ...] = ("sdpa", "eager")  # the implementations that the family has


_BASE = {"hidden_size": E, "num_hidden_layers": 3, "num_attention_heads": HEADS}
_BASE |= {"intermediate_size": 48}
_TEXT = {**_BASE, "vocab_size": VOCABULARY, "max_position_embeddings": 40, "pad_token_id": 0}
_MARKS = {"bos_token_id": 1, "eos_token_id": 1}
_IMAGE = {**_BASE, "image_size": 8, "patch_size": 4, "num_channels": 1}
_GROUPS = {"num_key_value_heads": 2, "head_dim": SIZE}
_KINDS = ["full_attention", "sliding_attention", "full_attention"]
_SLIDING: dict[str, Any] = {"layer_types": _KINDS, "sliding_window": 4}
_BOTH: dict[str, Any] = {"d_model": E, "encoder_layers": 2, "decoder_layers": 2}
_BOTH |= {"encoder_ffn_dim": 48, "decoder_ffn_dim": 48, "encoder_attention_heads": HEADS}
_BOTH |= {"decoder_attention_heads": HEADS, "vocab_size": VOCABULARY}
_BOTH |= {"max_position_embeddings": 40, "pad_token_id": 0, "eos_token_id": 1}
_BOTH |= {"decoder_start_token_id": 2, "bos_token_id": 3, "forced_eos_token_id": None}
_GPT2 = {"n_embd": E, "n_layer": 3, "n_head": HEADS, "vocab_size": VOCABULARY, "n_positions": 40}
_GPT2 |= {**_MARKS, "pad_token_id": 0}
_T5 = {"d_model": E, "d_kv": SIZE, "d_ff": 48, "num_layers": 3, "num_heads": HEADS}
_T5 |= {"vocab_size": VOCABULARY, "decoder_start_token_id": 2}
_T5 |= {"relative_attention_num_buckets": 8, "relative_attention_max_distance": 12}
_CONV = {"conv_dim": (16, 16), "conv_stride": (3, 2), "conv_kernel": (4, 3)}

_TWO = ("model.encoder.layers", "model.decoder.layers")


def _encoder(prefix: str, stack: str, **settings: Any) -> Small:
    return Small(f"{prefix}ForSequenceClassification", {**_TEXT, **settings}, (stack,))


def _decoder(prefix: str, stack: str = "model.layers", **settings: Any) -> Small:
    settings = {**_TEXT, **_MARKS, **settings}
    return Small(f"{prefix}ForCausalLM", settings, (stack,), generates=True)


def _llama(prefix: str, **settings: Any) -> Small:
    return _decoder(prefix, **_GROUPS | settings)


def _both(model: str, settings: Mapping[str, Any], stacks: tuple[str, ...] = _TWO) -> Small:
    return Small(model, settings, stacks, target=True, generates=True)


def _image(prefix: str, stack: str, **settings: Any) -> Small:
    return Small(f"{prefix}ForImageClassification", {**_IMAGE, **settings}, (stack,), takes="image")


SMALL: dict[str, Small] = {
    "bert": _encoder("Bert", "bert.encoder.layer"),
    "bert decoder": Small(
        "BertLMHeadModel",
        {**_TEXT, **_MARKS, "is_decoder": True, "add_cross_attention": True},
        ("bert.encoder.layer",), source=True,
    ),
    "roberta": _encoder("Roberta", "roberta.encoder.layer"),
    "xlm_roberta": _encoder("XLMRoberta", "roberta.encoder.layer"),
    "camembert": _encoder("Camembert", "roberta.encoder.layer"),
    "electra": _encoder("Electra", "electra.encoder.layer", embedding_size=16),
    "distilbert": Small(
        "DistilBertForSequenceClassification",
        {
            "dim": E, "n_layers": 3, "n_heads": HEADS, "hidden_dim": 48,
            "vocab_size": VOCABULARY, "max_position_embeddings": 40,
        },
        ("distilbert.transformer.layer",),
    ),
    "albert": _encoder("Albert", "albert.encoder.albert_layer_groups", embedding_size=16),
    "mpnet": _encoder("MPNet", "mpnet.encoder.layer"),
    "deberta_v2": _encoder(
        "DebertaV2", "deberta.encoder.layer", relative_attention=True, position_buckets=8,
        pos_att_type=["c2p", "p2c"], type_vocab_size=0,
    ),
    "modernbert": _encoder(
        "ModernBert", "model.layers", **_MARKS, cls_token_id=1, sep_token_id=1,
        local_attention=4, layer_types=_KINDS,
    ),
    "gpt2": Small("GPT2LMHeadModel", _GPT2, ("transformer.h",), generates=True),
    "gpt2 with cross-attention": Small(
        "GPT2LMHeadModel", {**_GPT2, "add_cross_attention": True},
        ("transformer.h",), source=True,
    ),
    "gpt_neo": Small(
        "GPTNeoForCausalLM",
        {
            **_MARKS, "vocab_size": VOCABULARY, "hidden_size": E, "num_layers": 4,
            "num_heads": HEADS, "intermediate_size": 48, "max_position_embeddings": 40,
            "attention_types": [[["global", "local"], 2]], "window_size": 4, "pad_token_id": 0,
        },
        ("transformer.h",), generates=True,
    ),
    "gpt_neox": _decoder("GPTNeoX", "gpt_neox.layers"),
    "bloom": _decoder("Bloom", "transformer.h"),
    "opt": _decoder("OPT", "model.decoder.layers", ffn_dim=48, word_embed_proj_dim=E),
    "llama": _llama("Llama"),
    "mistral": _llama("Mistral", sliding_window=4),
    "qwen2": _llama("Qwen2", use_sliding_window=True, **_SLIDING),
    "qwen3": _llama("Qwen3"),
    "gemma": _llama("Gemma", num_key_value_heads=1),
    "gemma2": replace(_llama("Gemma2", **_SLIDING), attention=("eager",)),  # it caps its scores
    "gemma3": _llama("Gemma3", **_SLIDING),
    "cohere2": _llama("Cohere2", **_SLIDING),
    "smollm3": _llama("SmolLM3", no_rope_layers=[1, 0, 1]),
    "phi": _decoder("Phi"),
    "phi3": _llama("Phi3"),
    "mixtral": _llama("Mixtral", num_local_experts=4, num_experts_per_tok=2),
    "t5": _both("T5ForConditionalGeneration", _T5, ("encoder.block", "decoder.block")),
    "mt5": _both("MT5ForConditionalGeneration", _T5, ("encoder.block", "decoder.block")),
    "bart": _both("BartForConditionalGeneration", _BOTH),
    "mbart": _both("MBartForConditionalGeneration", _BOTH),
    "pegasus": _both("PegasusForConditionalGeneration", _BOTH),
    "marian": _both("MarianMTModel", _BOTH),
    "m2m_100": _both(  # every layer trains in every step
        "M2M100ForConditionalGeneration",
        {**_BOTH, "encoder_layerdrop": 0.0, "decoder_layerdrop": 0.0},
    ),
    "whisper": Small(
        "WhisperForConditionalGeneration",
        {
            **_BOTH, "num_mel_bins": 4, "max_source_positions": 6, "max_target_positions": 40,
            "begin_suppress_tokens": None, "suppress_tokens": None,
        },
        _TWO, takes="spectrogram", target=True, generates=True,
    ),
    "vit": _image("ViT", "vit.layers"),
    "deit": _image("DeiT", "deit.layers"),
    "swin": Small(
        "SwinForImageClassification",
        {
            "image_size": 16, "patch_size": 2, "num_channels": 1, "embed_dim": E,
            "depths": [2, 1], "num_heads": [HEADS, HEADS], "window_size": 2, "mlp_ratio": 1.5,
        },
        ("swin.encoder.layers.0.blocks",), takes="image",
    ),
    "beit": _image("Beit", "beit.layers", drop_path_rate=0.1),
    "beit with relative positions": _image(
        "Beit", "beit.layers", use_relative_position_bias=True,
        use_shared_relative_position_bias=True,
    ),
    "dinov2": _image("Dinov2", "dinov2.encoder.layer", mlp_ratio=2),
    "clip": _image("CLIP", "vision_model.encoder.layers"),
    "clip text": Small(
        "CLIPTextModelWithProjection",
        {**_TEXT, "bos_token_id": 1, "eos_token_id": 2, "projection_dim": E},
        ("text_model.encoder.layers",),
    ),
    # its pooling head is torch's own attention, and this model does not use it
    "siglip": _image("Siglip", "vision_model.encoder.layers", vision_use_head=False),
    "wav2vec2": Small(
        "Wav2Vec2ForSequenceClassification",
        {
            **_BASE, **_CONV, "num_feat_extract_layers": 2, "num_conv_pos_embeddings": 4,
            "num_conv_pos_embedding_groups": 2, "classifier_proj_size": 16,
            "vocab_size": VOCABULARY, "mask_time_prob": 0.0, "layerdrop": 0.0,
        },
        ("wav2vec2.encoder.layers",), takes="audio",
    ),
}  # fmt: skip


def full_model(family: str) -> Any:
    """As its class builds it, in float64."""
    small = SMALL[family]
    cls: Any = getattr(importlib.import_module("transformers"), small.model)
    settings = copy.deepcopy(dict(small.settings))
    if cls.config_class.__name__ in ("CLIPConfig", "SiglipConfig"):
        settings = {"vision_config": settings}
    model = cls(cls.config_class(**settings)).double()
    if hasattr(model.config, "num_local_experts"):
        model.set_experts_implementation("eager")  # others multiply in 32 bits at most
    return model


@functools.cache
def _built(family: str, seed: int) -> Any:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = full_model(family)
        for name, parameter in model.named_parameters():
            if not parameter.requires_grad or "embed_positions" in name and family == "marian":
                continue  # sinusoids, which may not be saved
            # large enough that attention is far from uniform, and no bias is zero
            nn.init.normal_(parameter, 1 if "norm" in name.lower() or ".ln_" in name else 0, 0.3)
    return model.eval()


def small_model(
    family: str, attention: str = "", dtype: torch.dtype = torch.float64, seed: int = 0
) -> Any:
    """A model of this family in evaluation mode, a copy of its own; with the first
    implementation of attention that the family has, unless said.
    """
    model = copy.deepcopy(_built(family, seed)).to(dtype)
    model.set_attn_implementation(attention or SMALL[family].attention[0])
    return model


def inputs_of(
    family: str, batch: int = B, dtype: torch.dtype = torch.float64, seed: int = 0
) -> dict[str, Tensor]:
    """Keyword arguments for a model of this family. Samples differ, also in length."""
    g = torch.Generator().manual_seed(seed)
    small = SMALL[family]
    if small.takes == "image":
        size = small.settings["image_size"]
        return {"pixel_values": torch.randn(batch, 1, size, size, generator=g, dtype=dtype)}
    if small.takes == "audio":
        return {"input_values": torch.randn(batch, 40, generator=g, dtype=dtype)}
    if small.takes == "spectrogram":
        inputs = {"input_features": torch.randn(batch, 4, 12, generator=g, dtype=dtype)}
    else:
        inputs = {"input_ids": torch.randint(5, VOCABULARY, (batch, L), generator=g)}
        inputs["attention_mask"] = (
            torch.arange(L) < torch.randint(4, L + 1, (batch, 1), generator=g)
        ).long()
    if small.target:
        inputs["decoder_input_ids"] = torch.randint(5, VOCABULARY, (batch, 5), generator=g)
    if small.source:
        inputs["encoder_hidden_states"] = torch.randn(batch, 6, E, generator=g, dtype=dtype)
    return inputs


def outputs(model: nn.Module, inputs: Mapping[str, Tensor]) -> Tensor:
    """(B, classes), or (B, L, vocabulary), without gradients."""
    with torch.no_grad():
        return answer(model, inputs)


def answer(model: nn.Module, inputs: Mapping[str, Tensor]) -> Tensor:
    """As :func:`outputs`, with gradients."""
    made: Any = model(**inputs)
    return made if isinstance(made, Tensor) else made[0]


def loss_of(model: nn.Module, batch: Mapping[str, Tensor]) -> Tensor:
    """One loss a sample: cross-entropy over classes or over the tokens of each text, against
    fixed labels.
    """
    logits = answer(model, {name: x for name, x in batch.items() if name != "labels"})
    if logits.ndim == 2:
        return F.cross_entropy(logits, batch["labels"] % logits.shape[1], reduction="none")
    labels = batch["labels"][:, None].expand(logits.shape[:2]) % logits.shape[2]
    return F.cross_entropy(logits.transpose(1, 2), labels, reduction="none").mean(1)


def data_of(family: str, n: int = 3) -> dict[str, Tensor]:
    """Inputs and labels of ``n`` samples."""
    return inputs_of(family, batch=n) | {"labels": torch.arange(n) * 7}
