"""Sentence pairs written by a grammar of our own, English into simple German: a
translation task for which it is known what each word needs.

They are generated, not collected, and say so wherever they are used. For every word of the
source it is known which word it depends on, and for every sentence which word decides how
the ambiguous ones are translated. :mod:`.translation_grammar` writes a pair. Both languages
share one vocabulary of whole words, the grammar's: nothing is trained or unknown.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from course_lib import devices
from course_lib.data import pieces
from course_lib.data import translation_grammar as grammar
from course_lib.data.generated import cut, hold_back, write_new
from course_lib.data.translation_grammar import RELATIONS, Pair

if TYPE_CHECKING:
    from datasets import Dataset, DatasetDict

VALIDATION, TEST = 1000, 1000  # pairs held back from every training set
MOST = 45  # words of a translation
#: The number of [SEP], which ends a sentence.
END = 3


def load(
    train: int = 30_000, validation: int = VALIDATION, test: int = TEST, *, seed: int = 0
) -> DatasetDict:
    """Generated pairs as a ``datasets.DatasetDict`` with train, validation and test; no
    source occurs twice in it.

    The columns of a row: ``source`` and ``target``, words with blanks between;
    ``words``, those of the source (commas, full stops and the plural ``-s`` are words);
    for each of them ``head`` (the index of the word it depends on, -1 for the main
    verb), ``relation`` (index into ``RELATIONS``) and ``ambiguous`` (1 where a noun has
    two translations); and ``rarest``, the index of the noun that decides which.

    Args:
        train, validation, test: how many pairs. Fewer are the first of more: the same
            seed always gives the same pairs.
        seed: of the sentences. The shipped checkpoints were trained on seed 0.
    """
    from datasets import DatasetDict

    held_back = cut(train, _held_back(seed), validation=validation, test=test)
    seen = {pair.text for part in _held_back(seed).values() for pair in part}
    parts = {"train": write_new(f"translation train {seed}", grammar.write, train, seen)}
    parts |= held_back
    return DatasetDict({name: _dataset(part) for name, part in parts.items()})


@lru_cache(maxsize=1)
def tokenizer() -> Any:
    """A word is a piece: transformers' fast tokenizer of the grammar's words, for both
    languages. ``[SEP]`` ends a sentence.
    """
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    names = [*pieces.SPECIAL.values(), *grammar.vocabulary()]
    numbers = {word: i for i, word in enumerate(names)}
    core = Tokenizer(models.WordLevel(numbers, unk_token=pieces.SPECIAL["unk_token"]))
    core.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    end = pieces.SPECIAL["sep_token"]
    core.post_processor = processors.TemplateProcessing(
        single=f"$A {end}", special_tokens=[(end, END)]
    )
    return PreTrainedTokenizerFast(tokenizer_object=core, **pieces.SPECIAL)


def batches(
    data: Dataset, size: int = 48, *, seed: int | None = None, truth: bool = False
) -> Iterator[dict[str, Tensor]]:
    """Pairs in batches of about the same length, padded with 0: ``model(**batch)`` of
    an encoder-decoder.

    Args:
        seed: order of the pairs, as :func:`course_lib.data.pieces.by_length` draws it;
            None: from short to long.
        truth: with ``head`` and ``relation`` (B, L), -1 where there is none, and
            ``rarest`` (B,): take them out before ``model(**batch)``.

    Yields:
        ``input_ids``, ``attention_mask`` (B, L), and ``labels`` (B, T), -100 where a
        sentence has ended.
    """
    ours = tokenizer()
    sources, targets = (ours(list(data[name]))["input_ids"] for name in ("source", "target"))
    known = {name: list(data[name]) for name in ("head", "relation", "rarest")} if truth else {}
    for index in pieces.by_length([*map(len, sources)], size, seed):
        batch = pieces.pad_inputs([sources[i] for i in index])
        batch["labels"] = pieces.pad([targets[i] for i in index], value=-100)
        if truth:
            for name in ("head", "relation"):  # the end mark depends on nothing
                batch[name] = pieces.pad([[*known[name][i], -1] for i in index], value=-1)
            batch["rarest"] = torch.tensor(
                [known["rarest"][i] for i in index], device=devices.current()
            )
        yield batch


def text(ids: Tensor) -> list[str]:
    """Sentences of ids (B, T)."""
    return tokenizer().batch_decode(
        ids, skip_special_tokens=True, clean_up_tokenization_spaces=False
    )


@torch.no_grad()
def translate(model: nn.Module, data: Any, size: int = 100) -> list[str]:
    """Greedy translations of the sources, in their order."""
    ours, where = tokenizer(), next(model.parameters()).device
    sources = list(data["source"])
    order = sorted(range(len(sources)), key=lambda i: len(sources[i].split()))
    found = [""] * len(sources)
    for start in range(0, len(order), size):
        index = order[start : start + size]
        options = {"padding": True, "return_tensors": "pt", "return_token_type_ids": False}
        batch = ours([sources[i] for i in index], **options).to(where)
        out = model.generate(**batch, max_length=MOST, num_beams=1, do_sample=False)  # type: ignore[operator]
        # the first is the start
        for i, sentence in zip(index, text(out[:, 1:]), strict=True):
            found[i] = sentence
    return found


def bleu(found: list[str], right: list[str]) -> float:
    """Corpus BLEU, 0 to 100, of words that are split already (sacrebleu, Post 2018)."""
    import sacrebleu

    return float(sacrebleu.corpus_bleu(found, [right], tokenize="none", force=True).score)


@lru_cache(maxsize=2)
def _held_back(seed: int) -> dict[str, list[Pair]]:
    return hold_back(f"translation {{}} {seed}", grammar.write, VALIDATION, TEST)


def _dataset(pairs: Sequence[Pair]) -> Dataset:
    from datasets import ClassLabel, Dataset, Features, List, Value

    features = Features(
        source=Value("string"),
        target=Value("string"),
        words=List(Value("string")),
        head=List(Value("int16")),
        relation=List(ClassLabel(names=list(RELATIONS))),
        ambiguous=List(Value("int8")),
        rarest=Value("int16"),
    )
    columns: dict[str, list[Any]] = {
        "source": [pair.text for pair in pairs],
        "target": [" ".join(pair.target) for pair in pairs],
        "relation": [[RELATIONS.index(name) for name in pair.relation] for pair in pairs],
    }
    columns |= {
        name: [getattr(pair, name) for pair in pairs] for name in features if name not in columns
    }
    return Dataset.from_dict({name: columns[name] for name in features}, features=features)
