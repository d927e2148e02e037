"""A small BERT that learns in minutes on one core, built from transformers' own classes."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from course_lib.models.initial import weights_from

SINUSOIDS = 0.07  # size of the positions at the start; the word embeddings start at 0.05


def small_bert(
    vocabulary: int = 600,
    labels: int = 2,
    *,
    layers: int = 4,
    width: int = 128,
    heads: int = 8,
    ffn: int = 256,
    positions: int = 160,
    dropout: float = 0.0,
    seed: int = 0,
) -> Any:
    """A fresh ``BertForSequenceClassification``, initialised from ``seed``; the global random
    state stays as it was.

    Its weights have a standard deviation of 0.05, and its learned table of positions starts
    from sinusoids: a network this small and this briefly trained does not find the order of
    words by itself.

    Args:
        vocabulary: pieces of the tokenizer. labels: classes; 1 for a regression.
        layers, width, heads, ffn: L, E (even), H and the feed-forward layers' width.
        positions: the longest text, in pieces.
        dropout: of features and of attention weights; the checkpoints were trained without.

    Source: Devlin et al. 2019, "BERT"; the sinusoids: Vaswani et al. 2017, section 3.5.
    """
    # not from transformers itself, which looks names up when asked, and fails two
    # threads that ask at once
    from transformers.models.bert.configuration_bert import BertConfig
    from transformers.models.bert.modeling_bert import BertForSequenceClassification

    config = BertConfig(
        vocab_size=vocabulary,
        num_hidden_layers=layers,
        hidden_size=width,
        num_attention_heads=heads,
        intermediate_size=ffn,
        max_position_embeddings=positions,
        hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=dropout,
        initializer_range=0.05,
    )
    config.num_labels = labels
    with weights_from(seed):
        model = BertForSequenceClassification(config)
    with torch.no_grad():
        model.bert.embeddings.position_embeddings.weight.copy_(
            SINUSOIDS * sinusoids(positions, width)
        )
    return model.eval()


def sinusoids(positions: int, width: int) -> Tensor:
    """(positions, width): sine in the even columns, cosine in the odd ones, wavelengths
    from 2π to 10000 · 2π.
    """
    rate = torch.exp(-math.log(10_000) * torch.arange(0, width, 2) / width)  # (width / 2,)
    angle = torch.arange(positions)[:, None] * rate  # (positions, width / 2)
    return torch.stack([angle.sin(), angle.cos()], dim=2).flatten(1)
