"""Reviews written by a grammar of our own: texts for which it is known what decides
them.

They are generated, not collected, and say so wherever they are used. What that buys:
for every word it is known whether it is evidence for the verdict, what it depends on
and how rare it is, and the same texts serve several tasks. ``review_grammar`` tells how
a review is made; ``pieces`` turns words into what a transformer reads.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from course_lib.checks import check_names
from course_lib.data import pieces
from course_lib.data import review_grammar as grammar
from course_lib.data.generated import check_sizes, measure_rarity, new_ones
from course_lib.data.review_grammar import EVIDENCE, RECIPES, Review
from course_lib.data.review_words import DOMAINS

if TYPE_CHECKING:
    from datasets import Dataset, DatasetDict

VALIDATION, TEST = 2000, 4000  # texts held back from every training set
COUNTED = 4000  # the first training texts, on which the rarity of words is measured

TASKS = {
    "sentiment": "is the verdict good? Needs order: negation and contrast decide",
    "domain": "restaurant, film or phone? A bag of words solves it",
    "negated": (
        "is the main clause negated? A quarter is; other clauses and fillers hold negators, too"
    ),
    "agreement": "do two reviews agree? Needs the verdict of both",
}
# columns with an entry for each word
WORDWISE = ("words", "head", "evidence", "rarity")


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
    each word ``head`` (the index of the word it depends on, -1 for the main word of a
    sentence), ``evidence`` (index into ``EVIDENCE``: 0 for most words; the polar word
    of the deciding clause, its negator, the contrast word) and ``rarity`` (in bits:
    -log2 of the word's share in training texts); and the truth
    about the text: ``sentiment`` (1 = positive), ``domain``, ``negated``, ``contrast``.

    Args:
        train, validation, test: how many texts. Fewer are the first of more: the same
            seed always gives the same texts.
        kind: "full" (0 to 5 fillers, about 37 pieces) or "long" (6 to 9 fillers, up to
            about 120 pieces).
        seed: of the texts. The shipped checkpoints were trained on seed 0.

    Raises:
        ValueError: if ``kind`` is another, or more validation or test texts are asked
            for than are held back (2000, 4000).
    """
    from datasets import DatasetDict

    if kind not in ("full", "long"):
        raise ValueError(f'kind is "full" or "long", got {kind!r}')
    check_sizes(train, validation, test, (VALIDATION, TEST))
    held_back = _held_back(kind, seed)
    training = texts(kind, max(train, COUNTED), seed)
    rarity = measure_rarity(review.words for review in training[:COUNTED])
    parts = {
        "train": training[:train],
        "validation": held_back["validation"][:validation],
        "test": held_back["test"][:test],
    }
    return DatasetDict({name: _dataset(part, rarity) for name, part in parts.items()})


def texts(kind: str, n: int, seed: int = 0) -> list[Review]:
    """``n`` training reviews of a kind ("easy", "short", "full", "long"), none of them
    held back for validation or test.
    """
    # a long text has more sentences than any other
    held_back = _held_back("long" if kind == "long" else "full", seed)
    seen = {review.text for part in held_back.values() for review in part}
    return list(itertools.islice(_new(kind, "train", seed, seen), n))


def batches(
    texts: Sequence[Review], tokenizer: Any, seed: int, size: int = 32
) -> Iterator[dict[str, Tensor]]:
    """The sentiment of reviews in batches of texts of about the same length, padded with
    0; ``seed`` decides their order, as :func:`course_lib.data.pieces.by_length` draws it.
    """
    rows = tokenizer([review.text for review in texts])["input_ids"]
    labels = torch.tensor([review.sentiment for review in texts])
    for index in pieces.by_length([len(row) for row in rows], size, seed):
        yield {
            "input_ids": pieces.pad([rows[i] for i in index]),
            "attention_mask": pieces.pad([[1] * len(rows[i]) for i in index]),
            "labels": labels[index],
        }


def task(data: DatasetDict, name: str, seed: int = 0) -> DatasetDict:
    """The same texts with the column ``label`` for a task of ``TASKS``.

    For "agreement" each row holds two reviews of the same split, drawn by ``seed``, one
    after the other: the columns with an entry for each word run on, and ``second`` is
    the index of the second review's first word.

    Raises:
        ValueError: if there is no such task.
    """
    check_names([name], TASKS, "reviews.TASKS")
    if name == "agreement":
        return type(data)({split: _pairs(part, seed) for split, part in data.items()})
    return type(data)(
        {split: part.add_column("label", list(part[name])) for split, part in data.items()}
    )


def by_domain(data: DatasetDict) -> dict[str, DatasetDict]:
    """One DatasetDict for each domain, with the reviews of that domain in each
    split.
    """
    index = {split: list(part["domain"]) for split, part in data.items()}
    return {
        domain: type(data)(
            {
                split: part.select([i for i, of in enumerate(index[split]) if of == d])
                for split, part in data.items()
            }
        )
        for d, domain in enumerate(DOMAINS)
    }


def _new(kind: str, split: str, seed: int, seen: set[str]) -> Iterator[Review]:
    rng = random.Random(f"reviews {kind} {split} {seed}")

    def write() -> Review:
        return grammar.write(RECIPES[kind], int(rng.random() * len(DOMAINS)), rng)

    return new_ones(write, lambda review: review.text, seen)


@lru_cache(maxsize=4)
def _held_back(kind: str, seed: int) -> dict[str, list[Review]]:
    seen: set[str] = set()
    return {
        split: list(itertools.islice(_new(kind, split, seed, seen), n))
        for split, n in (("validation", VALIDATION), ("test", TEST))
    }


def _dataset(reviews: Sequence[Review], rarity: dict[str, float]) -> Dataset:
    from datasets import ClassLabel, Dataset, Features, List, Value

    features = Features(
        text=Value("string"),
        words=List(Value("string")),
        head=List(Value("int16")),
        evidence=List(ClassLabel(names=list(EVIDENCE))),
        rarity=List(Value("float32")),
        sentiment=ClassLabel(names=["negative", "positive"]),
        domain=ClassLabel(names=list(DOMAINS)),
        negated=ClassLabel(names=["plain", "negated"]),
        contrast=ClassLabel(names=["single", "contrast"]),
    )
    columns: dict[str, list[Any]] = {
        name: [getattr(review, name) for review in reviews] for name in features if name != "rarity"
    }
    for name in ("negated", "contrast"):
        columns[name] = list(map(int, columns[name]))
    columns["rarity"] = [
        [rarity.get(word, rarity[""]) for word in review.words] for review in reviews
    ]
    return Dataset.from_dict(columns, features=features)


def _pairs(part: Dataset, seed: int) -> Dataset:
    from datasets import ClassLabel, Dataset, Features, Value

    order = list(range(len(part)))
    rng = random.Random(f"pairs {seed}")
    order.sort(key=lambda _: rng.random())
    first, second = (part.select(order[start::2][: len(order) // 2]) for start in (0, 1))
    rows: dict[str, list[Any]] = {
        name: [[*a, *b] for a, b in zip(first[name], second[name], strict=True)]
        for name in WORDWISE
    }
    rows["second"] = [len(words) for words in first["words"]]
    rows["head"] = [
        [head + (n if place >= n and head >= 0 else 0) for place, head in enumerate(heads)]
        for heads, n in zip(rows["head"], rows["second"], strict=True)
    ]
    rows["text"] = [f"{a} {b}" for a, b in zip(first["text"], second["text"], strict=True)]
    rows["label"] = [
        int(a == b) for a, b in zip(first["sentiment"], second["sentiment"], strict=True)
    ]
    features = Features({name: part.features[name] for name in ("text", *WORDWISE)})
    features["second"] = Value("int16")
    features["label"] = ClassLabel(names=["disagree", "agree"])
    return Dataset.from_dict(rows, features=features)
