"""A grammar that writes reviews and knows, for each word, whether it decides the verdict.

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
from dataclasses import dataclass, field
from functools import cache
from typing import NamedTuple

from course_lib.data.generated import draw, draw_by_rank, draw_by_weight, read_words

WORDS = read_words("review_words.toml")
DOMAINS = tuple(WORDS["aspects"])
DOMAIN_SHARE = 0.3  # of the polar adjectives, how many are from the list of the domain
# what a word contributes to the verdict
EVIDENCE = ("none", "polar word", "negator", "contrast word")
NONE, POLAR, NEGATOR, CONTRAST = range(4)


@dataclass(frozen=True)
class Recipe:
    """How reviews are mixed. All shares are probabilities, independent of the verdict."""

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
    domain: int  # index into DOMAINS
    negated: bool  # whether the main clause is
    contrast: bool  # whether there is a second clause
    words: list[str] = field(default_factory=list)
    evidence: list[int] = field(default_factory=list)  # index into EVIDENCE

    @property
    def text(self) -> str:
        return re.sub(r" ([.,])", r"\1", " ".join(self.words))


class _Bound(NamedTuple):
    """What a slot becomes: a pattern of the word lists, the meaning of the slots inside
    it, and what its own words are evidence of.
    """

    phrase: str
    slots: dict[str, _Bound | None]
    evidence: int = NONE


def write(recipe: Recipe, domain: int, rng: random.Random) -> Review:
    """One review of a domain."""
    sentiment, negated = int(rng.random() < 0.5), rng.random() < recipe.negated
    contrast = rng.random() < recipe.contrast
    review = Review(sentiment, domain, negated, contrast)

    deciding = _clause(sentiment, negated, domain, rng, deciding=True)
    if contrast:
        opposite = rng.random() < recipe.opposite
        other = _clause(sentiment ^ opposite, rng.random() < recipe.negated, domain, rng)
        slots: dict[str, _Bound | None] = {"MAIN": deciding, "OTHER": other}
        for name in ("ALTHOUGH", "BUT"):
            slots[name] = _Bound(draw_by_weight(WORDS["slots"][name], rng), {}, CONTRAST)
        deciding = _Bound(draw(_phrases("contrasts"), rng), slots)

    fewest, most = recipe.fillers
    count = fewest + int(rng.random() * (most - fewest + 1))
    sentences = [_filler(recipe, domain, rng) for _ in range(count)]
    sentences.insert(int(rng.random() * (len(sentences) + 1)), deciding)
    for sentence in sentences:
        _emit(sentence, review, rng)
        _emit(_Bound(".", {}), review, rng)
    return review


def _clause(
    sentiment: int, negated: bool, domain: int, rng: random.Random, deciding: bool = False
) -> _Bound:
    """A verdict on an aspect that comes out as ``sentiment``, its negator included."""
    patterns = draw(_phrases("clauses"), rng).split("->")
    return _Bound(patterns[negated], _slots(sentiment ^ negated, domain, rng, deciding))


def _filler(recipe: Recipe, domain: int, rng: random.Random) -> _Bound:
    if rng.random() < recipe.misleading:
        pattern = draw(_phrases("misleading"), rng)
        of_domain = "{SUBJECT}" in pattern  # a coat is neither juicy nor laggy
        slots = _slots(int(rng.random() < 0.5), domain, rng, of_domain=of_domain)
        return _Bound(pattern, slots)
    kind = "any" if rng.random() < 0.7 else DOMAINS[domain]
    return _Bound(draw(_phrases("fillers", kind), rng), {})


def _slots(
    polarity: int, domain: int, rng: random.Random, deciding: bool = False, of_domain: bool = True
) -> dict[str, _Bound | None]:
    """What the capital names stand for in one clause; ``polarity`` is that of the
    adjective alone.
    """
    polar, negator = (POLAR, NEGATOR) if deciding else (NONE, NONE)
    name, kind = DOMAINS[domain], "positive" if polarity else "negative"
    adjectives = _words(kind)
    if rng.random() < DOMAIN_SHARE and of_domain:
        adjectives = _words(f"domain_{kind}", name)
    aspect = _Bound(draw_by_rank(_words("aspects", name), rng), {})
    slots: dict[str, _Bound | None] = {
        "ASPECT": aspect,
        "SUBJECT": _Bound(draw(_phrases("subjects"), rng), {"ASPECT": aspect}),
        "POLAR": _Bound(draw_by_rank(adjectives, rng), {}, polar),
        "HOW": _Bound(draw_by_rank(_words("degrees"), rng), {}) if rng.random() < 0.3 else None,
    }
    for negation in ("NOT", "NEVER", "NOBODY"):
        slots[negation] = _Bound(draw_by_weight(WORDS["slots"][negation], rng), {}, negator)
    return slots


def _emit(bound: _Bound, review: Review, rng: random.Random) -> None:
    """Append the words of a pattern to the review, its slots filled."""
    for token in bound.phrase.split():
        name = token.strip("{}")
        if name == token:
            review.words.append(token)
            review.evidence.append(bound.evidence)
        elif not name.isupper():
            _emit(bound._replace(phrase=draw_by_rank(_phrases("phrases", name), rng)), review, rng)
        elif (inside := bound.slots[name]) is not None:
            _emit(inside, review, rng)


@cache
def _words(key: str, name: str = "") -> list[str]:
    """A list of single words."""
    return (WORDS[key][name] if name else WORDS[key]).split()


@cache
def _phrases(key: str, name: str = "") -> list[str]:
    """A list of phrases or patterns."""
    text = WORDS[key][name] if name else WORDS[key]
    return [part.strip() for part in re.split(r"[|\n]", text) if part.strip()]
