"""A grammar that writes reviews and knows, for each word, what a reader would have to
find out.

A review is one deciding sentence among sentences that decide nothing (fillers). The
deciding sentence judges an aspect of a restaurant, a film or a phone: "the food was
superb". The verdict can be negated ("nobody would call the food superb", where a
negator inside "the food that nobody mentions" has no say), and it can stand in contrast
to another ("although the service was slow, the food was superb"): then the main clause
decides, and the other one mostly says the opposite. Fillers can mislead: the weather
was awful, or somebody else had called the food awful.
"""

from __future__ import annotations

import random
import re
from bisect import bisect
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import accumulate
from typing import NamedTuple, TypeVar

from course_lib.data import review_words as words

_T = TypeVar("_T")
# what a word contributes to the verdict
EVIDENCE = ("none", "polar word", "negator", "contrast word")
NONE, POLAR, NEGATOR, CONTRAST = range(4)
ROOT = -1  # the head of a sentence's main word


@dataclass(frozen=True)
class Recipe:
    """How reviews are mixed. All shares are probabilities, independent of the
    verdict.
    """

    negated: float = 0.25  # main clauses with a negator
    contrast: float = 0.55  # deciding sentences with a second clause
    opposite: float = 0.75  # second clauses that say the opposite of the first
    fillers: tuple[int, int] = (0, 5)  # fewest and most, all numbers between equally often
    misleading: float = 0.35  # fillers with a polar adjective


RECIPES = {
    "easy": Recipe(contrast=0.0, fillers=(0, 0)),
    "short": Recipe(fillers=(0, 1)),
    "full": Recipe(),
    "long": Recipe(fillers=(6, 9)),
}


@dataclass
class Review:
    """One review with the truth about it; the lists have an entry for each word (commas
    and full stops count).
    """

    sentiment: int  # 1 = positive
    domain: int  # index into review_words.DOMAINS
    negated: bool  # whether the main clause is
    contrast: bool  # whether there is a second clause
    words: list[str] = field(default_factory=list)
    # index of the word that this one depends on, ROOT for a main word
    head: list[int] = field(default_factory=list)
    evidence: list[int] = field(default_factory=list)  # index into EVIDENCE

    @property
    def text(self) -> str:
        return re.sub(r" ([.,])", r"\1", " ".join(self.words))


class _Phrase(NamedTuple):
    """A head word, or the name of a slot where ``slot``, with the phrases that depend
    on it, in order.
    """

    head: str
    slot: bool
    before: tuple[_Phrase, ...]
    after: tuple[_Phrase, ...]


class _Bound(NamedTuple):
    """What a slot becomes: a phrase, the meaning of the slots inside it, and what its
    own words are evidence of.
    """

    phrase: _Phrase
    slots: dict[str, _Bound | None]
    evidence: int = NONE


def write(recipe: Recipe, domain: int, rng: random.Random) -> Review:
    """One review of a domain. Of ``rng`` only ``random()`` is used, whose stream Python
    promises not to change.
    """
    sentiment, negated = int(rng.random() < 0.5), rng.random() < recipe.negated
    contrast = rng.random() < recipe.contrast
    review = Review(sentiment, domain, negated, contrast)

    deciding = _clause(sentiment, negated, domain, rng, deciding=True)
    if contrast:
        opposite = rng.random() < recipe.opposite
        other = _clause(sentiment ^ opposite, rng.random() < recipe.negated, domain, rng)
        slots: dict[str, _Bound | None] = {"MAIN": deciding, "OTHER": other}
        for name in ("ALTHOUGH", "BUT"):
            slots[name] = _Bound(_weighted(name, rng), {}, CONTRAST)
        deciding = _Bound(_parse(_any(words.CONTRASTS, rng)), slots)

    fewest, most = recipe.fillers
    sentences = [
        _filler(recipe, domain, rng)
        for _ in range(fewest + int(rng.random() * (most - fewest + 1)))
    ]
    sentences.insert(int(rng.random() * (len(sentences) + 1)), deciding)
    for sentence in sentences:
        root = _emit(sentence.phrase, sentence.slots, NONE, review, rng)
        review.head[root] = ROOT
        _word(".", NONE, review)
        review.head[-1] = root
    return review


def _clause(
    sentiment: int, negated: bool, domain: int, rng: random.Random, deciding: bool = False
) -> _Bound:
    """A verdict on an aspect that comes out as ``sentiment``, its negator included."""
    pattern = _any(words.CLAUSES, rng)[negated]
    return _Bound(_parse(pattern), _slots(sentiment ^ negated, domain, rng, deciding))


def _filler(recipe: Recipe, domain: int, rng: random.Random) -> _Bound:
    if rng.random() < recipe.misleading:
        pattern = _any(words.MISLEADING, rng)
        of_domain = "{SUBJECT}" in pattern  # a coat is neither juicy nor laggy
        return _Bound(
            _parse(pattern), _slots(int(rng.random() < 0.5), domain, rng, of_domain=of_domain)
        )
    kind = "any" if rng.random() < 0.7 else words.DOMAINS[domain]
    return _Bound(_parse(_any(words.FILLERS[kind], rng)), {})


def _slots(
    polarity: int, domain: int, rng: random.Random, deciding: bool = False, of_domain: bool = True
) -> dict[str, _Bound | None]:
    """What the capital names stand for in one clause; ``polarity`` is that of the
    adjective alone.
    """
    polar, negator = (POLAR, NEGATOR) if deciding else (NONE, NONE)
    name = words.DOMAINS[domain]
    adjectives = words.POSITIVE if polarity else words.NEGATIVE
    if rng.random() < words.DOMAIN_SHARE and of_domain:
        adjectives = words.DOMAIN_POLAR[name][1 - polarity]
    aspect = _Bound(_zipf(words.ASPECTS[name], rng), {})
    slots: dict[str, _Bound | None] = {
        "ASPECT": aspect,
        "SUBJECT": _Bound(_parse(_any(words.SUBJECTS, rng)), {"ASPECT": aspect}),
        "POLAR": _Bound(_zipf(adjectives, rng), {}, polar),
        "HOW": _Bound(_zipf(words.DEGREES, rng), {}) if rng.random() < 0.3 else None,
    }
    for negation in ("NOT", "NEVER", "NOBODY"):
        slots[negation] = _Bound(_weighted(negation, rng), {}, negator)
    return slots


def _emit(
    phrase: _Phrase,
    slots: dict[str, _Bound | None],
    evidence: int,
    review: Review,
    rng: random.Random,
) -> int:
    """Append a phrase's words to the review, left to right; returns the place of its
    head, or ROOT if it is empty.
    """
    dependants = [_emit(part, slots, evidence, review, rng) for part in phrase.before]
    if not phrase.slot:
        place = _word(phrase.head, evidence, review)
    elif phrase.head.isupper():
        bound = slots[phrase.head]
        if bound is None:
            return ROOT
        place = _emit(bound.phrase, bound.slots, bound.evidence, review, rng)
    else:
        place = _emit(_zipf(words.PHRASES[phrase.head], rng), slots, evidence, review, rng)
    dependants += [_emit(part, slots, evidence, review, rng) for part in phrase.after]
    for dependant in dependants:
        if dependant != ROOT:
            review.head[dependant] = place
    return place


def _word(word: str, evidence: int, review: Review) -> int:
    review.words.append(word)
    review.head.append(ROOT)
    review.evidence.append(evidence)
    return len(review.words) - 1


def _any(options: Sequence[_T], rng: random.Random) -> _T:
    return options[int(rng.random() * len(options))]


def _zipf(options: str, rng: random.Random) -> _Phrase:
    """A phrase of a list (words, or phrases between bars), with a probability that
    falls as 1 over its rank.
    """
    phrases, cumulative = _ranked(options)
    return phrases[bisect(cumulative, rng.random() * cumulative[-1], hi=len(phrases) - 1)]


def _weighted(name: str, rng: random.Random) -> _Phrase:
    phrases, cumulative = _weights(name)
    return phrases[bisect(cumulative, rng.random() * cumulative[-1], hi=len(phrases) - 1)]


@cache
def _ranked(options: str) -> tuple[list[_Phrase], list[float]]:
    phrases = [
        _parse(option) for option in (options.split("|") if "|" in options else options.split())
    ]
    return phrases, list(accumulate(1 / rank for rank in range(1, len(phrases) + 1)))


@cache
def _weights(name: str) -> tuple[list[_Phrase], list[float]]:
    options = words.WORDS[name]
    return [_parse(option) for option, _ in options], list(
        accumulate(float(weight) for _, weight in options)
    )


@cache
def _parse(pattern: str) -> _Phrase:
    """A pattern as ``review_words`` explains it.

    Raises:
        ValueError: if brackets do not match, or a phrase has no head or more than one.
    """
    tokens = re.findall(r"[\[\]]|[^\s\[\]]+", pattern)

    def phrase(position: int, inside: bool) -> tuple[_Phrase, int]:
        heads: list[str] = []
        before: list[_Phrase] = []
        after: list[_Phrase] = []
        while position < len(tokens) and tokens[position] != "]":
            if tokens[position] == "[":
                part, position = phrase(position + 1, True)
                (after if heads else before).append(part)
            else:
                heads.append(tokens[position])
                position += 1
        if len(heads) != 1 or (position < len(tokens)) != inside:
            raise ValueError(
                f"a phrase has one word outside its brackets, found {heads} in the pattern"
                f" {pattern!r}"
            )
        head = heads[0].strip("{}")
        return _Phrase(head, head != heads[0], tuple(before), tuple(after)), position + inside

    return phrase(0, False)[0]
