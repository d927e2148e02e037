"""A grammar that writes English sentences with their translation into simple German,
and knows what each word has to do with which.

What the German sentence needs is never in the same place of the English one. Articles
and adjectives agree with a noun some words on, in gender, number and case; the case is
decided by the noun's place beside its verb; the verb agrees in number with a subject
that the English past does not mark, across a phrase or a relative clause with another
noun. Perfect, modal and subordinate clauses put the verb last, a fronted adverb or
clause turns the order round. "It" takes the gender of the noun it stands for, two nouns
become one word, years are copied digit by digit. And which of two translations a common
noun has is decided by the *rarest* noun of the sentence.
"""

from __future__ import annotations

import random
from bisect import bisect
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import accumulate
from typing import TypeVar

from course_lib.data import translation_words as words

_T = TypeVar("_T")
ROOT = -1
RELATIONS = tuple(words.RELATIONS.split())
NOMINATIVE, ACCUSATIVE, DATIVE = range(3)
GENDERS = "mfn"
LONGEST = 30  # words of a source sentence


@dataclass(frozen=True)
class Recipe:
    """How sentences are mixed. All are probabilities."""

    clauses: float = 0.4  # sentences with a second, subordinate clause
    front: float = 0.2  # main clauses with a fronted adverb
    adverb: float = 0.25  # clauses with an adverb at the end
    perfect: float = 0.25
    modal: float = 0.2
    intransitive: float = 0.25
    year: float = 0.15
    it: float = 0.5  # second clauses with a pronoun for the first one's subject
    plural: float = 0.35
    adjective: float = 0.4  # for each of two
    phrase: float = 0.2  # nouns with a prepositional phrase
    relative: float = 0.12  # nouns with a relative clause
    ambiguous: float = 0.35  # nouns with two translations
    rare: float = 0.12
    compound: float = 0.08


@dataclass(frozen=True)
class Noun:
    """One noun and what it may become. ``german`` holds (gender, singular, plural) for
    each topic.
    """

    english: tuple[str, ...]  # two words for a compound
    german: tuple[tuple[str, str, str], tuple[str, str, str]]
    rank: int  # the higher, the rarer
    topic: int  # the translation that it calls for, where it is the rarest
    ambiguous: bool = False


@dataclass(frozen=True)
class Verb:
    english: tuple[str, str, str]  # infinitive, past, participle
    german: tuple[str, str, str, str]  # infinitive, past of one, past of many, participle


@dataclass
class Phrase:
    """A noun with all that belongs to it, or the pronoun "it" for it."""

    noun: Noun
    plural: bool = False
    determiner: str = "the"
    adjectives: tuple[tuple[str, str], ...] = ()
    near: tuple[tuple[str, str], Phrase] | None = None  # a preposition and its noun
    relative: tuple[Verb, Phrase] | None = None  # what it saw
    pronoun: bool = False


@dataclass
class Clause:
    subject: Phrase
    verb: Verb
    object: Phrase | None = None
    auxiliary: tuple[str, str, str] | None = None
    perfect: bool = False
    adverb: tuple[str, str] | None = None
    fronted: bool = False
    year: tuple[str, ...] = ()


@dataclass
class Pair:
    """A sentence, its translation, and the truth about the source; the lists have an
    entry for each source word.
    """

    words: list[str] = field(default_factory=list)
    target: list[str] = field(default_factory=list)
    # the word that this one depends on, ROOT for the main verb
    head: list[int] = field(default_factory=list)
    relation: list[str] = field(default_factory=list)  # one of RELATIONS
    rarest: int = ROOT  # the place of the noun that decides
    ambiguous: list[int] = field(default_factory=list)  # 1 where a noun has two translations


def write(recipe: Recipe, rng: random.Random) -> Pair:
    """One pair. Of ``rng`` only ``random()`` is used, whose stream Python promises not
    to change.
    """
    while True:
        main = _clause(recipe, rng, front=True)
        other = _clause(recipe, rng) if rng.random() < recipe.clauses else None
        conjunction = _zipf(_split(words.CONJUNCTIONS), rng)
        first = other is not None and rng.random() < 0.5  # the subordinate clause
        if other is not None and rng.random() < recipe.it:
            earlier, later = (other, main) if first else (main, other)
            if not earlier.subject.plural:
                pronoun = Phrase(earlier.subject.noun, pronoun=True)
                if later.object is not None and rng.random() < 0.6:
                    later.object = pronoun
                else:
                    later.subject = pronoun
        if other is not None and first:
            main.fronted = False
        pair = Pair()
        nouns = [
            p.noun for clause in (main, other) if clause for p in _phrases(clause) if not p.pronoun
        ]
        rarest = max(nouns, key=lambda noun: noun.rank)
        _source(pair, main, other, conjunction[0], first, rarest)
        if len(pair.words) <= LONGEST:
            _target(pair.target, main, other, conjunction[1], first, rarest.topic)
            return pair


# ------------------------------------------------------------------------- what is said


def _clause(recipe: Recipe, rng: random.Random, front: bool = False) -> Clause:
    intransitive = rng.random() < recipe.intransitive
    verb = _any(_verbs(words.INTRANSITIVE if intransitive else words.TRANSITIVE), rng)
    clause = Clause(_phrase(recipe, rng), verb, None if intransitive else _phrase(recipe, rng))
    draw = rng.random()
    if draw < recipe.perfect:
        clause.auxiliary, clause.perfect = _lines(words.PERFECT)[0], True
    elif draw < recipe.perfect + recipe.modal:
        clause.auxiliary = _any(_lines(words.MODALS), rng)
    clause.fronted = front and rng.random() < recipe.front
    if clause.fronted or rng.random() < recipe.adverb:
        clause.adverb = _zipf(_split(words.ADVERBS), rng)
    if rng.random() < recipe.year:
        clause.year = ("1", *(str(int(rng.random() * 10)) for _ in range(3)))
    return clause


def _phrase(recipe: Recipe, rng: random.Random, inside: bool = False) -> Phrase:
    draw = rng.random()
    ambiguous, rare, compound = recipe.ambiguous, recipe.rare, recipe.compound
    if draw < ambiguous:
        noun = _zipf(_nouns()["ambiguous"], rng)
    elif draw < ambiguous + rare:
        noun = _any(_nouns()["rare"], rng)
    elif draw < ambiguous + rare + compound:
        noun = _any(_nouns()["compound"], rng)
    else:
        noun = _zipf(_nouns()["common"], rng)
    plural = rng.random() < recipe.plural
    determiner = _any(("the", "the", "a", "my", "this"), rng)
    if plural and determiner == "this":
        determiner = "the"
    phrase = Phrase(noun, plural, determiner)
    adjectives = _split(words.ADJECTIVES)
    phrase.adjectives = tuple(
        _zipf(adjectives, rng) for _ in range(2) if rng.random() < recipe.adjective / 2
    )
    if not inside:
        if rng.random() < recipe.phrase:
            preposition = _zipf(_split(words.PREPOSITIONS), rng)
            phrase.near = preposition, _phrase(recipe, rng, inside=True)
        elif rng.random() < recipe.relative:
            verb = _any(_verbs(words.TRANSITIVE), rng)
            phrase.relative = verb, _phrase(recipe, rng, inside=True)
    return phrase


def _phrases(clause: Clause) -> list[Phrase]:
    found = []
    for phrase in (clause.subject, clause.object):
        if phrase is not None:
            found.append(phrase)
            found += [part[1] for part in (phrase.near, phrase.relative) if part]
    return found


# --------------------------------------------------------------------------- in English


def _source(
    pair: Pair, main: Clause, other: Clause | None, conjunction: str, first: bool, rarest: Noun
) -> None:
    if other is None:
        root = _clause_source(pair, main, rarest)
    elif first:
        verb = _clause_source(pair, other, rarest, conjunction)
        _word(pair, ",", verb, "punct")
        root = _clause_source(pair, main, rarest)
        _attach(pair, verb, root, "advcl")
    else:
        root = _clause_source(pair, main, rarest)
        _attach(pair, _clause_source(pair, other, rarest, conjunction), root, "advcl")
    _word(pair, ".", root, "punct")


def _clause_source(pair: Pair, clause: Clause, rarest: Noun, conjunction: str = "") -> int:
    """Returns the place of its verb."""
    waiting: list[tuple[int, str]] = []  # words in front of the verb that depend on it
    if conjunction:
        waiting.append((_word(pair, conjunction), "mark"))
    if clause.fronted and clause.adverb:
        waiting.append((_word(pair, clause.adverb[0]), "advmod"))
    waiting.append((_phrase_source(pair, clause.subject, rarest), "nsubj"))
    form = 1
    if clause.auxiliary:
        waiting.append((_word(pair, clause.auxiliary[0]), "aux"))
        form = 2 if clause.perfect else 0
    verb = _word(pair, clause.verb.english[form])
    for place, relation in waiting:
        _attach(pair, place, verb, relation)
    if clause.object is not None:
        _attach(pair, _phrase_source(pair, clause.object, rarest), verb, "obj")
    if clause.year:
        year = _word(pair, "in", verb, "case")
        for digit in clause.year:
            _word(pair, digit, year, "year")
    if clause.adverb and not clause.fronted:
        _word(pair, clause.adverb[0], verb, "advmod")
    return verb


def _phrase_source(pair: Pair, phrase: Phrase, rarest: Noun) -> int:
    """Returns the place of its noun."""
    if phrase.pronoun:
        return _word(pair, "it")
    waiting = []
    if phrase.determiner != "a" or not phrase.plural:
        waiting.append((_word(pair, phrase.determiner), "det"))
    waiting += [(_word(pair, adjective), "amod") for adjective, _ in phrase.adjectives]
    *before, last = phrase.noun.english
    waiting += [(_word(pair, part), "compound") for part in before]
    noun = _word(pair, last)
    pair.ambiguous[noun] = int(phrase.noun.ambiguous)
    if phrase.noun is rarest and pair.rarest == ROOT:
        pair.rarest = noun
    for place, relation in waiting:
        _attach(pair, place, noun, relation)
    if phrase.plural:
        _word(pair, "-s", noun, "plural")
    if phrase.near:
        preposition = _word(pair, phrase.near[0][0])
        inner = _phrase_source(pair, phrase.near[1], rarest)
        _attach(pair, preposition, inner, "case")
        _attach(pair, inner, noun, "nmod")
    if phrase.relative:
        that = _word(pair, "that")
        verb = _word(pair, phrase.relative[0].english[1], noun, "acl")
        _attach(pair, that, verb, "nsubj")
        _attach(pair, _phrase_source(pair, phrase.relative[1], rarest), verb, "obj")
    return noun


def _word(pair: Pair, word: str, head: int = ROOT, relation: str = "root") -> int:
    pair.words.append(word)
    pair.head.append(head)
    pair.relation.append(relation)
    pair.ambiguous.append(0)
    return len(pair.words) - 1


def _attach(pair: Pair, place: int, head: int, relation: str) -> None:
    pair.head[place], pair.relation[place] = head, relation


# ---------------------------------------------------------------------------- in German


def _target(
    out: list[str], main: Clause, other: Clause | None, conjunction: str, first: bool, topic: int
) -> None:
    subordinate = [conjunction, *_clause_target(other, topic, "last")] if other else []
    if other and first:
        out += [*subordinate, ",", *_clause_target(main, topic, "first"), "."]
    else:
        out += [
            *_clause_target(main, topic, "second"),
            *([","] if other else []),
            *subordinate,
            ".",
        ]


def _clause_target(clause: Clause, topic: int, place: str) -> list[str]:
    """With the finite verb "first", "second" or "last"."""
    many = clause.subject.plural
    infinitive, one, more, participle = clause.verb.german
    rest = []
    if clause.auxiliary:
        finite = clause.auxiliary[1 + many]
        rest = [participle if clause.perfect else infinitive]
    else:
        finite = more if many else one
    subject = _phrase_target(clause.subject, NOMINATIVE, topic)
    adverb = [clause.adverb[1]] if clause.adverb else []
    middle = adverb if not clause.fronted else []
    if clause.object is not None:
        thing = _phrase_target(clause.object, ACCUSATIVE, topic)
        middle = [*thing, *middle] if clause.object.pronoun else [*middle, *thing]
    if clause.year:
        middle = [*middle, "im", "Jahr", *clause.year]
    if place == "last":
        return [*subject, *middle, *rest, finite]
    if place == "first":
        return [finite, *subject, *middle, *rest]
    if clause.fronted:
        return [*adverb, finite, *subject, *middle, *rest]
    return [*subject, finite, *middle, *rest]


def _phrase_target(phrase: Phrase, case: int, topic: int) -> list[str]:
    gender, singular, plural = phrase.noun.german[topic]
    if phrase.pronoun:
        return [words.PERSONAL[case].split()[GENDERS.index(gender)]]
    column = 3 if phrase.plural else GENDERS.index(gender)
    article = words.DETERMINERS[phrase.determiner][case].split()[column]
    definite = phrase.determiner in ("the", "this")
    kind = "definite" if definite else "none" if article == "-" else "indefinite"
    ending = words.ENDINGS[kind][case].split()[column]
    out = [] if article == "-" else [article]
    out += [adjective + ending for _, adjective in phrase.adjectives]
    noun = plural if phrase.plural else singular
    if phrase.plural and case == DATIVE and noun[-1] not in "ns":
        noun += "n"
    out.append(noun)
    if phrase.near:
        out += [phrase.near[0][1], *_phrase_target(phrase.near[1], DATIVE, topic)]
    if phrase.relative:
        verb, thing = phrase.relative
        seen = _phrase_target(thing, ACCUSATIVE, topic)
        out += [",", words.RELATIVE.split()[column], *seen, verb.german[1 + phrase.plural], ","]
    return out


# -------------------------------------------------------------------------------- words


@cache
def _nouns() -> dict[str, list[Noun]]:
    """By kind; ranks run on from ambiguous over compounds and common to rare ones, so
    that an ambiguous noun decides only beside others of its kind.
    """
    found: dict[str, list[Noun]] = {"ambiguous": [], "compound": [], "common": [], "rare": []}
    for rank, line in enumerate(_text(words.AMBIGUOUS)):
        first, second = (part.split() for part in line.split("|"))
        german = (first[1], first[2], first[3]), (second[0], second[1], second[2])
        found["ambiguous"].append(Noun((first[0],), german, rank, rank % 2, True))
    for rank, line in enumerate(_text(words.COMPOUNDS)):
        one, two, *rest = line.split()
        found["compound"].append(Noun((one, two), _both(rest), 100 + rank, rank % 2))
    for rank, line in enumerate(_text(words.COMMON)):
        english, *rest = line.split()
        found["common"].append(Noun((english,), _both(rest), 200 + rank, rank % 2))
    for topic, lines in enumerate(words.RARE):
        for rank, line in enumerate(_text(lines)):
            english, *rest = line.split()
            found["rare"].append(Noun((english,), _both(rest), 300 + 2 * rank + topic, topic))
    return found


def _both(german: Sequence[str]) -> tuple[tuple[str, str, str], tuple[str, str, str]]:
    one = german[0], german[1], german[2]
    return one, one


@cache
def _verbs(lines: str) -> list[Verb]:
    found = []
    for line in _text(lines):
        a, b, c, *german = line.split()
        found.append(Verb((a, b, c), (german[0], german[1], german[2], german[3])))
    return found


@cache
def _lines(lines: str) -> list[tuple[str, str, str]]:
    found = [line.split() for line in lines.splitlines()]
    return [(a, b, c) for a, b, c in found]


@cache
def _split(options: str) -> list[tuple[str, str]]:
    found = [option.split() for option in options.split("|")]
    return [(a, b) for a, b in found]


def _text(lines: str) -> list[str]:
    return [line for line in lines.splitlines() if line.strip()]


def _any(options: Sequence[_T], rng: random.Random) -> _T:
    return options[int(rng.random() * len(options))]


def _zipf(options: Sequence[_T], rng: random.Random) -> _T:
    """With a probability that falls as 1 over its rank."""
    cumulative = _cumulative(len(options))
    return options[bisect(cumulative, rng.random() * cumulative[-1], hi=len(options) - 1)]


@cache
def _cumulative(n: int) -> list[float]:
    return list(accumulate(1 / rank for rank in range(1, n + 1)))


@cache
def vocabulary() -> tuple[str, ...]:
    """Every word that a source or a target may hold, in alphabetical order."""
    found = {"-s", ",", ".", "in", "im", "Jahr", "that", "it", *map(str, range(10))}
    for nouns in _nouns().values():
        for noun in nouns:
            found |= {*noun.english}
            for _, singular, plural in noun.german:
                found |= {singular, plural, plural + ("" if plural[-1] in "ns" else "n")}
    for verb in (*_verbs(words.TRANSITIVE), *_verbs(words.INTRANSITIVE)):
        found |= {*verb.english, *verb.german}
    for line in (*_lines(words.MODALS), *_lines(words.PERFECT)):
        found |= {*line}
    for options in (words.ADVERBS, words.PREPOSITIONS, words.CONJUNCTIONS):
        found |= {word for pair in _split(options) for word in pair}
    endings = {
        ending for cases in words.ENDINGS.values() for case in cases for ending in case.split()
    } - {"-"}
    for english, german in _split(words.ADJECTIVES):
        found |= {english, *(german + ending for ending in endings)}
    for english, cases in words.DETERMINERS.items():
        found |= {english, *(form for case in cases for form in case.split())} - {"-"}
    found |= {form for case in (words.RELATIVE, *words.PERSONAL) for form in case.split()}
    return tuple(sorted(found))
