"""What the generated reviews promise: the truth that is told about a text can be read
off it.
"""

import hashlib
import random
from collections import Counter
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from reviews_checkpoints import ngram_accuracy

from course_lib.data import review_grammar as grammar
from course_lib.data import reviews
from course_lib.data.review_grammar import (
    CONTRAST,
    NEGATOR,
    POLAR,
    RECIPES,
    WORDS,
    Recipe,
    Review,
)


def adjectives(kind: str) -> list[str]:
    lists = [WORDS[kind], *WORDS[f"domain_{kind}"].values()]
    return [word for words in lists for word in words.split()]


POSITIVE, NEGATIVE = {*adjectives("positive")}, {*adjectives("negative")}
NEGATORS = {"not", "never", "hardly", "nobody", "few"}
LINKS = {"although", "though", "even", "while", "but", "yet"}


@pytest.fixture(scope="module")
def data() -> Any:
    return reviews.load(train=3000, validation=1000, test=1000)


def written(recipe: Recipe, n: int = 2000, seed: int = 1) -> list[Review]:
    rng = random.Random(seed)
    return [grammar.write(recipe, i % 3, rng) for i in range(n)]


def sentences(review: Review) -> list[list[int]]:
    """The places of the words of each sentence, full stop included."""
    ends = [-1, *(i for i, word in enumerate(review.words) if word == ".")]
    return [list(range(a + 1, b + 1)) for a, b in pairwise(ends)]


def test_no_word_is_both_good_and_bad() -> None:
    lists = adjectives("positive") + adjectives("negative")
    assert [word for word, n in Counter(lists).items() if n > 1] == []


@pytest.mark.parametrize("kind", RECIPES)
def test_the_evidence_decides(kind: str) -> None:
    """One polar word counts; its negator, if there is one, turns it; and the flags say
    which of them are there.
    """
    for review in written(RECIPES[kind], 500):
        pairs = [*zip(review.words, review.evidence, strict=True)]
        by_kind = {e: [w for w, of in pairs if of == e] for e in (POLAR, NEGATOR, CONTRAST)}
        (polar,) = by_kind[POLAR]
        assert polar in POSITIVE | NEGATIVE
        assert len(by_kind[NEGATOR]) == review.negated and set(by_kind[NEGATOR]) <= NEGATORS
        assert bool(by_kind[CONTRAST]) == review.contrast and set(by_kind[CONTRAST]) <= LINKS
        assert review.sentiment == (polar in POSITIVE) ^ review.negated


def test_shares_are_those_of_the_recipe() -> None:
    texts = written(RECIPES["full"], 4000)
    shares = {"sentiment": 0.5, "negated": 0.25, "contrast": 0.55}
    for name, share in shares.items():
        assert np.mean([getattr(r, name) for r in texts]) == pytest.approx(share, abs=0.03)
    said = [(r, s) for r in texts for s in sentences(r)]
    fillers = [[r.words[i] for i in s] for r, s in said if not any(r.evidence[i] for i in s)]
    assert len(fillers) / len(texts) == pytest.approx(2.5, abs=0.1)
    misleading = [any(w in POSITIVE | NEGATIVE for w in s) for s in fillers]
    assert np.mean(misleading) == pytest.approx(0.35, abs=0.03)
    counts = Counter(len(sentences(r)) - 1 for r in texts)
    assert set(counts) == set(range(6)) and min(counts.values()) > 500


@pytest.mark.parametrize("opposite", [0.0, 1.0])
def test_the_main_clause_decides_and_the_other_one_says_what_was_asked(opposite: float) -> None:
    """The main clause is the one without "although", or with "but"."""
    places: Counter[str] = Counter()
    recipe = Recipe(negated=0.0, contrast=1.0, opposite=opposite, fillers=(0, 0))
    for review in written(recipe, 600):
        link, polar = review.evidence.index(CONTRAST), review.evidence.index(POLAR)
        polars = [i for i, w in enumerate(review.words) if w in POSITIVE | NEGATIVE]
        first, second = (review.words[i] in POSITIVE for i in polars)
        assert (first ^ second) == bool(opposite)
        link_word = review.words[link] if review.words[link] in ("but", "yet") else "although"
        later = link_word != "although" or link == 0
        assert polar == polars[later] and (polar > link) == later
        places[f"{link_word} {later}"] += 1
    assert len(places) == 4 and min(places.values()) > 20


def test_adjectives_have_a_zipf_tail() -> None:
    counts = Counter(w for r in written(RECIPES["full"], 6000) for w in r.words if w in POSITIVE)
    common = [counts[w] for w in WORDS["positive"].split()]
    slope = np.polyfit(np.log(np.arange(1, len(common) + 1)), np.log(common), 1)[0]
    assert slope == pytest.approx(-1, abs=0.15)


def test_the_same_seed_gives_the_same_texts_and_fewer_are_the_first_of_more(data: Any) -> None:
    fewer = reviews.load(train=100, validation=50, test=60)
    for split, n in (("train", 100), ("validation", 50), ("test", 60)):
        assert fewer[split].to_dict() == data[split].select(range(n)).to_dict()
    other = reviews.load(train=0, validation=0, test=100, seed=1)
    assert not set(other["test"]["text"]) & set(data["test"]["text"][:20])


@pytest.mark.parametrize(
    ("kind", "seed", "digest"),
    [
        ("full", 0, "4492ead6aa00f898"),
        ("full", 1, "c502acfeaff9dd47"),
        ("long", 0, "b59b4834bd6be0ba"),
    ],
)
def test_the_texts_are_those_of_the_checkpoints(kind: str, seed: int, digest: str) -> None:
    """Python's own promise keeps the stream of random numbers; a change of the grammar
    asks for new checkpoints.
    """
    parts = reviews.load(50, 50, 50, kind=kind, seed=seed)
    rows = [row for part in parts.values() for row in part]
    assert hashlib.sha256(repr(rows).encode()).hexdigest()[:16] == digest


def test_training_texts_of_any_kind_are_none_of_those_held_back() -> None:
    parts = [reviews.load(train=0, kind=kind) for kind in ("full", "long")]
    held_back = {t for part in parts for s in ("validation", "test") for t in part[s]["text"]}
    assert len(held_back) == 12_000
    for kind in ("easy", "short", "full", "long"):
        texts = {review.text for review in reviews.texts(kind, 3000)}
        assert len(texts) == 3000 and not held_back & texts


def test_a_bag_of_words_solves_the_domain(data: Any) -> None:
    parts = [
        (list(data[split]["text"]), list(data[split]["domain"]))
        for split in ("train", "validation", "test")
    ]
    assert ngram_accuracy(1, *parts) > 97
