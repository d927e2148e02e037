"""Words to pieces: a WordPiece tokenizer, and what is known of a word for its pieces."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from course_lib import devices
from course_lib.progress import without_bars

SPECIAL = {
    "pad_token": "[PAD]",
    "unk_token": "[UNK]",
    "cls_token": "[CLS]",
    "sep_token": "[SEP]",
    "mask_token": "[MASK]",
}


def train_tokenizer(texts: Iterable[str], vocabulary: int = 600) -> Any:
    """A WordPiece tokenizer for lower-case English with ``vocabulary`` pieces, as
    transformers' fast tokenizer.

    The training is not deterministic: save a model together with the tokenizer that it was
    trained with (``course_lib.models.checkpoints`` does).
    """
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers
    from transformers import PreTrainedTokenizerFast

    core = Tokenizer(models.WordPiece(unk_token=SPECIAL["unk_token"]))
    core.normalizer = normalizers.BertNormalizer()
    core.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    trainer = trainers.WordPieceTrainer(
        vocab_size=vocabulary, special_tokens=list(SPECIAL.values()), show_progress=False
    )
    core.train_from_iterator(texts, trainer)
    first, second = (SPECIAL[name] for name in ("cls_token", "sep_token"))
    core.post_processor = processors.TemplateProcessing(
        single=f"{first} $A {second}",
        pair=f"{first} $A {second} $B:1 {second}:1",
        special_tokens=[(token, core.token_to_id(token)) for token in (first, second)],
    )
    return PreTrainedTokenizerFast(tokenizer_object=core, **SPECIAL)


def encode(dataset: Any, tokenizer: Any, aligned: Sequence[str] = ()) -> Any:
    """The pieces of a ``datasets.Dataset`` (or DatasetDict) with the column ``words``.

    Adds ``input_ids`` (with [CLS] in front and [SEP] at the end), and for each column in
    ``aligned`` its value for each piece as ``piece_<column>``: 0 at [CLS] and [SEP].
    """

    def batch(rows: dict[str, list[Any]]) -> dict[str, list[Any]]:
        encoded = tokenizer(rows["words"], is_split_into_words=True)
        out = {"input_ids": encoded["input_ids"]}
        for name in aligned:
            out[f"piece_{name}"] = [
                [0 if word is None else values[word] for word in encoded.word_ids(i)]
                for i, values in enumerate(rows[name])
            ]
        return out

    with without_bars():
        return dataset.map(batch, batched=True, desc=None, load_from_cache_file=False)


def pad(rows: Sequence[Sequence[int]], value: int = 0) -> Tensor:
    """Lists of different lengths as one int64 tensor (B, L) on the course's device, short
    ones filled up at the end.
    """
    longest = max(map(len, rows))
    padded = [[*row, *[value] * (longest - len(row))] for row in rows]
    return torch.tensor(padded, device=devices.current())


def pad_inputs(rows: Sequence[Sequence[int]]) -> dict[str, Tensor]:
    """Lists of pieces as ``input_ids`` and ``attention_mask``, (B, L) each, padded with 0."""
    return {"input_ids": pad(rows), "attention_mask": pad([[1] * len(row) for row in rows])}


def by_length(
    lengths: Sequence[int], batch_size: int, seed: int | None, pool: int = 50
) -> Iterator[list[int]]:
    """Indices in batches of texts of about the same length, in random order: little
    padding, and still a shuffle.

    ``pool`` batches at a time are drawn at random, sorted by length, cut, and their
    order shuffled. Without a seed: all from short to long, which pads least.
    """
    if seed is None:
        order = sorted(range(len(lengths)), key=lengths.__getitem__)
        yield from (order[i : i + batch_size] for i in range(0, len(order), batch_size))
        return
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(len(lengths), generator=generator).tolist()
    for start in range(0, len(order), pool * batch_size):
        drawn = sorted(order[start : start + pool * batch_size], key=lengths.__getitem__)
        batches = [drawn[i : i + batch_size] for i in range(0, len(drawn), batch_size)]
        for i in torch.randperm(len(batches), generator=generator).tolist():
            yield batches[i]


def batches(
    encoded: Any,
    label: str = "label",
    batch_size: int = 32,
    *,
    seed: int | None = None,
    extra: Sequence[str] = (),
) -> Iterator[dict[str, Tensor]]:
    """A dataset from ``encode`` as batches of texts of about the same length, padded
    with 0: ``model(**batch)``.

    Args:
        encoded: with the column ``input_ids`` (and ``token_type_ids``, where there are
            pairs of texts).
        label: the column that becomes ``labels``.
        seed: order of the texts, as ``by_length`` draws it.
        extra: further columns with an entry for each piece, (B, L) each: take them out
            before ``model(**batch)``.

    Yields:
        ``input_ids``, ``attention_mask`` (B, L) and ``labels`` (B,).
    """
    pieces = list(encoded["input_ids"])
    labels = torch.tensor(list(encoded[label]), device=devices.current())
    kinds = list(encoded["token_type_ids"]) if "token_type_ids" in encoded.column_names else None
    others = {name: list(encoded[name]) for name in extra}
    for index in by_length([*map(len, pieces)], batch_size, seed):
        batch = pad_inputs([pieces[i] for i in index]) | {"labels": labels[index]}
        if kinds is not None:
            batch["token_type_ids"] = pad([kinds[i] for i in index])
        for name, rows in others.items():
            batch[name] = pad([rows[i] for i in index])
        yield batch
