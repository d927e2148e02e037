"""Words to pieces: a WordPiece tokenizer of our own texts, and what is known of a word
carried over to its pieces.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

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

    The training is not deterministic: the same texts give other pieces, and other
    numbers for the same pieces. A model belongs to the tokenizer it was trained with,
    so save the two together (``course_lib.models.checkpoints`` does).

    Raises:
        ValueError: if ``vocabulary`` is too small for the letters of the texts.
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
    if core.get_vocab_size() > vocabulary:
        raise ValueError(
            f"the letters of these texts alone make {core.get_vocab_size()} pieces: vocabulary must"
            f" be at least that, got {vocabulary}"
        )
    first, second = (SPECIAL[name] for name in ("cls_token", "sep_token"))
    core.post_processor = processors.TemplateProcessing(
        single=f"{first} $A {second}",
        pair=f"{first} $A {second} $B:1 {second}:1",
        special_tokens=[(token, core.token_to_id(token)) for token in (first, second)],
    )
    return PreTrainedTokenizerFast(tokenizer_object=core, **SPECIAL)


def fingerprint(tokenizer: Any) -> str:
    """SHA-256 of all that a fast tokenizer does with a text; two with the same one give
    the same numbers.
    """
    core = tokenizer.backend_tokenizer
    state = core.to_str()
    if core.padding or core.truncation:  # left behind by a call, no part of what it is
        clean = type(core).from_str(state)
        clean.no_padding()
        clean.no_truncation()
        state = clean.to_str()
    return hashlib.sha256(state.encode()).hexdigest()


def encode(
    dataset: Any, tokenizer: Any, aligned: Sequence[str] = ("evidence", "head", "rarity")
) -> Any:
    """The pieces of a ``datasets.Dataset`` (or DatasetDict) with the column ``words``.

    Adds ``input_ids`` (with [CLS] in front and [SEP] at the end), ``word`` (the number
    of the word that each piece belongs to, -1 for [CLS] and [SEP]), and for each column
    in ``aligned`` its value for each piece as ``piece_<column>``: 0 at [CLS] and [SEP];
    ``piece_head`` is the first piece of the head word, -1 where there is none.

    Raises:
        ValueError: if the tokenizer is a slow one, which does not know which piece is
            of which word.
    """
    if not getattr(tokenizer, "is_fast", False):
        raise ValueError(
            "pieces can be traced back to words by a fast tokenizer only (tokenizer.is_fast)"
        )

    def batch(rows: dict[str, list[Any]]) -> dict[str, list[Any]]:
        seconds = rows.get("second")  # where the second text of a pair starts
        if seconds is None:
            encoded = tokenizer(rows["words"], is_split_into_words=True)
        else:
            pairs = list(zip(rows["words"], seconds, strict=True))
            firsts, others = [w[:n] for w, n in pairs], [w[n:] for w, n in pairs]
            encoded = tokenizer(
                firsts, others, is_split_into_words=True, return_token_type_ids=True
            )
        out: dict[str, list[Any]] = {"input_ids": encoded["input_ids"], "word": []}
        if seconds is not None:
            out["token_type_ids"] = encoded["token_type_ids"]
        out.update({f"piece_{name}": [] for name in aligned})
        for row in range(len(rows["words"])):
            of_word = [-1 if word is None else word for word in encoded.word_ids(row)]
            if seconds is not None:  # words are counted from 0 in each text
                texts = encoded.sequence_ids(row)
                of_word = [
                    word + seconds[row] if text == 1 else word
                    for word, text in zip(of_word, texts, strict=True)
                ]
            out["word"].append(of_word)
            first = {word: piece for piece, word in reversed(list(enumerate(of_word)))}
            for name in aligned:
                values = rows[name][row]
                if name == "head":
                    heads = [-1 if word < 0 else values[word] for word in of_word]
                    out["piece_head"].append([-1 if head < 0 else first[head] for head in heads])
                else:
                    out[f"piece_{name}"].append(
                        [0 if word < 0 else values[word] for word in of_word]
                    )
        return out

    return dataset.map(batch, batched=True, desc=None, load_from_cache_file=False)


def pad(
    rows: Sequence[Sequence[float]], value: float = 0, dtype: torch.dtype = torch.int64
) -> Tensor:
    """Lists of different lengths as one tensor (B, L), short ones filled up at the
    end.
    """
    longest = max(map(len, rows))
    return torch.tensor([[*row, *[value] * (longest - len(row))] for row in rows], dtype=dtype)


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
        seed: order of the texts, as ``by_length`` draws it; None: from short to long,
            which pads least.
        extra: further columns with an entry for each piece, (B, L) each: take them out
            before ``model(**batch)``.

    Yields:
        ``input_ids``, ``attention_mask`` (B, L) and ``labels`` (B,).

    Raises:
        ValueError: if there is no column ``label``.
    """
    if label not in encoded.column_names:
        raise ValueError(
            f"there is no label {label!r}: the texts have the columns"
            f" {', '.join(encoded.column_names)}"
        )
    pieces, labels = list(encoded["input_ids"]), torch.tensor(list(encoded[label]))
    lengths = [len(row) for row in pieces]
    kinds = list(encoded["token_type_ids"]) if "token_type_ids" in encoded.column_names else None
    others = {name: list(encoded[name]) for name in extra}
    for index in by_length(lengths, batch_size, seed):
        batch = {
            "input_ids": pad([pieces[i] for i in index]),
            "attention_mask": pad([[1] * lengths[i] for i in index]),
            "labels": labels[index],
        }
        if kinds is not None:
            batch["token_type_ids"] = pad([kinds[i] for i in index])
        for name, rows in others.items():
            real = isinstance(next((x for row in rows for x in row), 0), float)
            batch[name] = pad(
                [rows[i] for i in index], dtype=torch.float32 if real else torch.int64
            )
        yield batch
