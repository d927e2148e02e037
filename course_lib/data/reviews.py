"""Reviews written by a grammar of our own: texts for which it is known what decides
them.

They are generated, not collected, and say so wherever they are used. For every word it is
known whether it is evidence for the verdict, and the same texts serve several tasks.
``review_grammar`` writes a review; ``pieces`` turns words into what a transformer reads.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from torch import Tensor

from course_lib.data import pieces
from course_lib.data import review_grammar as grammar
from course_lib.data.generated import cut, hold_back, write_new
from course_lib.data.review_grammar import DOMAINS, EVIDENCE, RECIPES, Review

if TYPE_CHECKING:
    from datasets import Dataset, DatasetDict

VALIDATION, TEST = 2000, 4000  # texts held back from every training set


def load(
    train: int = 8000,
    validation: int = VALIDATION,
    test: int = TEST,
    *,
    kind: str = "full",
    seed: int = 0,
) -> DatasetDict:
    """Generated reviews as a ``datasets.DatasetDict`` with train, validation and test;
    no text occurs twice in it.

    The columns of a row: ``text``; ``words`` (commas and full stops are words); for
    each word ``evidence`` (index into ``EVIDENCE``: 0 for most words; the polar word
    of the deciding clause, its negator, the contrast word); and the truth about the text,
    each a task of its own: ``sentiment`` (1 = positive; needs order, since negation and
    contrast decide), ``domain`` (a bag of words solves it), ``negated``, ``contrast``.

    Args:
        train, validation, test: how many texts. Fewer are the first of more: the same
            seed always gives the same texts.
        kind: "full" (0 to 5 fillers, about 37 pieces) or "long" (6 to 9 fillers, up to
            about 120 pieces).
        seed: of the texts. The shipped checkpoints were trained on seed 0.
    """
    from datasets import DatasetDict

    if kind not in ("full", "long"):
        raise ValueError(f'kind is "full" or "long", got {kind!r}')
    held_back = cut(train, _held_back(kind, seed), validation=validation, test=test)
    parts = {"train": texts(kind, train, seed)} | held_back
    return DatasetDict({name: _dataset(part) for name, part in parts.items()})


def texts(kind: str, n: int, seed: int = 0) -> list[Review]:
    """``n`` training reviews of a kind ("easy", "short", "full", "long"), none of them
    held back for validation or test.
    """
    # a long text has more sentences than any other
    held_back = _held_back("long" if kind == "long" else "full", seed)
    seen = {review.text for part in held_back.values() for review in part}
    return write_new(f"reviews {kind} train {seed}", _writer(kind), n, seen)


def batches(
    texts: Sequence[Review], tokenizer: Any, seed: int, size: int = 32
) -> Iterator[dict[str, Tensor]]:
    """The sentiment of reviews in batches of texts of about the same length, padded with
    0; ``seed`` decides their order, as :func:`course_lib.data.pieces.by_length` draws it.
    """
    from datasets import Dataset

    rows = tokenizer([review.text for review in texts])["input_ids"]
    labels = [review.sentiment for review in texts]
    encoded = Dataset.from_dict({"input_ids": rows, "label": labels})
    return pieces.batches(encoded, batch_size=size, seed=seed)


def _writer(kind: str) -> Callable[[random.Random], Review]:
    return lambda rng: grammar.write(RECIPES[kind], int(rng.random() * len(DOMAINS)), rng)


@lru_cache(maxsize=4)
def _held_back(kind: str, seed: int) -> dict[str, list[Review]]:
    return hold_back(f"reviews {kind} {{}} {seed}", _writer(kind), VALIDATION, TEST)


def _dataset(reviews: Sequence[Review]) -> Dataset:
    from datasets import ClassLabel, Dataset, Features, List, Value

    features = Features(
        text=Value("string"),
        words=List(Value("string")),
        evidence=List(ClassLabel(names=list(EVIDENCE))),
        sentiment=ClassLabel(names=["negative", "positive"]),
        domain=ClassLabel(names=list(DOMAINS)),
        negated=ClassLabel(names=["plain", "negated"]),
        contrast=ClassLabel(names=["single", "contrast"]),
    )
    columns: dict[str, list[Any]] = {
        name: [getattr(review, name) for review in reviews] for name in features
    }
    for name in ("negated", "contrast"):
        columns[name] = list(map(int, columns[name]))
    return Dataset.from_dict(columns, features=features)
