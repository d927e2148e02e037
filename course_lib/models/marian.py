"""A small encoder-decoder for translation, built from transformers' own classes."""

from __future__ import annotations

from typing import Any

from course_lib.models.initial import weights_from


def small_marian(
    vocabulary: int,
    *,
    layers: int = 3,
    decoder_layers: int | None = None,
    width: int = 128,
    heads: int = 8,
    ffn: int = 256,
    positions: int = 128,
    pad: int = 0,
    start: int | None = None,
    end: int = 3,
    std: float = 0.05,
    dropout: float = 0.0,
    seed: int = 0,
) -> Any:
    """A fresh ``MarianMTModel``, initialised from ``seed``; the global random state
    stays as it was.

    Source and target share one vocabulary and one table of embeddings, which is also
    the output layer. Positions are sinusoids that are not learned.

    Args:
        vocabulary: number of pieces, padding and marks included.
        layers, width, heads, ffn: L of the encoder, E, H and the hidden width of the
            feed-forward layers.
        decoder_layers: None: as many as the encoder has.
        positions: the longest text, in pieces.
        pad, start, end: numbers of the pieces that fill up, with which the decoder
            starts (None: the one that fills up, as Marian does), and that ends a
            sentence. The defaults fit ``course_lib.data.pieces.train_tokenizer``.
        std: of the weights it starts from.
        dropout: probability, of features.

    Raises:
        ValueError: if ``width`` is no multiple of ``heads``, or a special piece is
            outside the vocabulary.

    Source: Vaswani et al. 2017, "Attention Is All You Need"; Junczys-Dowmunt et al.
    2018, "Marian".
    """
    from transformers import MarianConfig, MarianMTModel

    if width % heads:
        raise ValueError(f"width must be a multiple of heads, got width={width}, heads={heads}")
    start = pad if start is None else start
    for name, piece in (("pad", pad), ("start", start), ("end", end)):
        if not 0 <= piece < vocabulary:
            raise ValueError(
                f"{name} is a piece of the vocabulary, from 0 to {vocabulary - 1}, got {piece}"
            )
    config = MarianConfig(
        vocab_size=vocabulary,
        decoder_vocab_size=vocabulary,
        d_model=width,
        encoder_layers=layers,
        decoder_layers=layers if decoder_layers is None else decoder_layers,
        encoder_attention_heads=heads,
        decoder_attention_heads=heads,
        encoder_ffn_dim=ffn,
        decoder_ffn_dim=ffn,
        max_position_embeddings=positions,
        dropout=dropout,
        attention_dropout=0.0,
        activation_dropout=0.0,
        scale_embedding=True,
        pad_token_id=pad,
        decoder_start_token_id=start,
        eos_token_id=end,
        bos_token_id=None,
        forced_eos_token_id=end,
        init_std=std,
    )
    with weights_from(seed):
        return MarianMTModel(config).eval()
