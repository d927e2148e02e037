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

import itertools
import random
import re
from dataclasses import dataclass, field
from functools import cache
from typing import NamedTuple

from course_lib.data.generated import draw, draw_by_rank, draw_by_weight, read_words

WORDS = read_words("translation_words.toml")
ROOT = -1
RELATIONS = tuple(WORDS["relations"].split())
NOMINATIVE, ACCUSATIVE, DATIVE = range(3)
GENDERS = "mfn"
LONGEST = 30  # words of a source sentence


class Share:
    """How sentences are mixed. All are probabilities."""

    CLAUSES = 0.4  # sentences with a second, subordinate clause
    FRONT = 0.2  # main clauses with a fronted adverb
    ADVERB = 0.25  # clauses with an adverb at the end
    INTRANSITIVE = 0.25
    YEAR = 0.15
    IT = 0.5  # second clauses with a pronoun for the first one's subject
    PLURAL = 0.35
    ADJECTIVE = 0.4  # for each of two
    PHRASE = 0.2  # nouns with a prepositional phrase
    RELATIVE = 0.12  # nouns with a relative clause


TENSES = {"perfect": 0.25, "modals": 0.2, "past": 0.55}
NOUNS = {"ambiguous": 0.35, "rare": 0.12, "compound": 0.08, "common": 0.45}

Words = tuple[str, ...]  # a line of the lists, or a part of one


class Noun(NamedTuple):
    """One noun and what it may become."""

    english: Words  # two words for a compound
    german: tuple[Words, Words]  # (gender, singular, plural) for each topic
    rank: int  # the higher, the rarer
    topic: int  # the translation that it calls for, where it is the rarest
    ambiguous: bool


class Verb(NamedTuple):
    english: Words  # infinitive, past, participle
    german: Words  # infinitive, past of one, past of many, participle


@dataclass
class Phrase:
    """A noun with all that belongs to it, or the pronoun "it" for it."""

    noun: Noun
    plural: bool = False
    determiner: str = "the"
    adjectives: tuple[Words, ...] = ()
    near: tuple[Words, Phrase] | None = None  # a preposition and its noun
    relative: tuple[Verb, Phrase] | None = None  # what it saw
    pronoun: bool = False


@dataclass
class Clause:
    subject: Phrase
    verb: Verb
    object: Phrase | None = None
    auxiliary: Words | None = None
    perfect: bool = False
    adverb: Words | None = None
    fronted: bool = False
    year: Words = ()


@dataclass
class Pair:
    """A sentence, its translation, and the truth about the source, an entry for each word."""

    words: list[str] = field(default_factory=list)
    target: list[str] = field(default_factory=list)
    head: list[int] = field(default_factory=list)  # what this one depends on; ROOT: nothing
    relation: list[str] = field(default_factory=list)  # one of RELATIONS
    rarest: int = ROOT  # the place of the noun that decides
    ambiguous: list[int] = field(default_factory=list)  # 1 where a noun has two translations

    @property
    def text(self) -> str:
        return " ".join(self.words)


def write(rng: random.Random) -> Pair:
    """One pair."""
    while True:
        main = _clause(rng, front=True)
        other = _clause(rng) if rng.random() < Share.CLAUSES else None
        conjunction = draw_by_rank(_lines("conjunctions"), rng)
        first = other is not None and rng.random() < 0.5  # the subordinate clause
        if other is not None and rng.random() < Share.IT:
            earlier, later = (other, main) if first else (main, other)
            if not earlier.subject.plural:
                pronoun = Phrase(earlier.subject.noun, pronoun=True)
                if later.object is not None and rng.random() < 0.6:
                    later.object = pronoun
                else:
                    later.subject = pronoun
        if first:
            main.fronted = False
        pair, phrases = Pair(), [p for clause in (main, other) if clause for p in _phrases(clause)]
        rarest = max((p.noun for p in phrases if not p.pronoun), key=lambda noun: noun.rank)
        _source(pair, main, other, conjunction[0], first, rarest)
        if len(pair.words) <= LONGEST:
            pair.target = _target(main, other, conjunction[1], first, rarest.topic)
            return pair


# ------------------------------------------------------------------------- what is said


def _clause(rng: random.Random, front: bool = False) -> Clause:
    intransitive = rng.random() < Share.INTRANSITIVE
    verb = draw(_verbs("intransitive" if intransitive else "transitive"), rng)
    clause = Clause(_phrase(rng), verb, None if intransitive else _phrase(rng))
    tense = draw_by_weight(TENSES, rng)
    if tense == "perfect":
        clause.auxiliary, clause.perfect = _lines("perfect")[0], True
    elif tense == "modals":
        clause.auxiliary = draw(_lines("modals"), rng)
    clause.fronted = front and rng.random() < Share.FRONT
    if clause.fronted or rng.random() < Share.ADVERB:
        clause.adverb = draw_by_rank(_lines("adverbs"), rng)
    if rng.random() < Share.YEAR:
        clause.year = ("1", *(str(int(rng.random() * 10)) for _ in range(3)))
    return clause


def _phrase(rng: random.Random, inside: bool = False) -> Phrase:
    kind = draw_by_weight(NOUNS, rng)
    draw_noun = draw if kind in ("rare", "compound") else draw_by_rank
    noun = draw_noun(_nouns()[kind], rng)
    plural = rng.random() < Share.PLURAL
    determiner = draw(("the", "the", "a", "my", "this"), rng)
    if plural and determiner == "this":
        determiner = "the"
    phrase = Phrase(noun, plural, determiner)
    phrase.adjectives = tuple(
        draw_by_rank(_lines("adjectives"), rng)
        for _ in range(2)
        if rng.random() < Share.ADJECTIVE / 2
    )
    if not inside:
        if rng.random() < Share.PHRASE:
            preposition = draw_by_rank(_lines("prepositions"), rng)
            phrase.near = preposition, _phrase(rng, inside=True)
        elif rng.random() < Share.RELATIVE:
            verb = draw(_verbs("transitive"), rng)
            phrase.relative = verb, _phrase(rng, inside=True)
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
    main: Clause, other: Clause | None, conjunction: str, first: bool, topic: int
) -> list[str]:
    if other is None:
        return [*_clause_target(main, topic, "second"), "."]
    subordinate = [conjunction, *_clause_target(other, topic, "last")]
    if first:
        return [*subordinate, ",", *_clause_target(main, topic, "first"), "."]
    return [*_clause_target(main, topic, "second"), ",", *subordinate, "."]


def _clause_target(clause: Clause, topic: int, place: str) -> list[str]:
    """With the finite verb "first", "second" or "last"."""
    many = clause.subject.plural
    infinitive, *finites, participle = clause.verb.german
    rest = []
    if clause.auxiliary:
        finites, rest = [*clause.auxiliary[1:]], [participle if clause.perfect else infinitive]
    finite = finites[many]
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
        return [WORDS["personal"][case].split()[GENDERS.index(gender)]]
    column = 3 if phrase.plural else GENDERS.index(gender)
    article = WORDS["determiners"][phrase.determiner][case].split()[column]
    definite = phrase.determiner in ("the", "this")
    kind = "definite" if definite else "none" if article == "-" else "indefinite"
    ending = WORDS["endings"][kind][case].split()[column]
    out = [] if article == "-" else [article]
    out += [adjective + ending for _, adjective in phrase.adjectives]
    many = _dative(plural) if case == DATIVE else plural
    out.append(many if phrase.plural else singular)
    if phrase.near:
        out += [phrase.near[0][1], *_phrase_target(phrase.near[1], DATIVE, topic)]
    if phrase.relative:
        verb, thing = phrase.relative
        seen = _phrase_target(thing, ACCUSATIVE, topic)
        out += [",", WORDS["relative"].split()[column], *seen, verb.german[1 + phrase.plural], ","]
    return out


def _dative(plural: str) -> str:
    return plural if plural[-1] in "ns" else plural + "n"


# -------------------------------------------------------------------------------- words


@cache
def _nouns() -> dict[str, list[Noun]]:
    """By kind; ranks run on from ambiguous over compounds and common to rare ones, so
    that an ambiguous noun decides only beside others of its kind.
    """
    found = {
        kind: [_noun(line, start + i, i % 2) for i, line in enumerate(WORDS[kind].splitlines())]
        for kind, start in (("ambiguous", 0), ("compound", 100), ("common", 200))
    }
    found["rare"] = [
        _noun(line, 300 + 2 * i + topic, topic)
        for topic, lines in enumerate(WORDS["rare"])
        for i, line in enumerate(lines.splitlines())
    ]
    return found


def _noun(line: str, rank: int, topic: int) -> Noun:
    *english, gender, one, many = line.partition("|")[0].split()
    german = gender, one, many
    other = tuple(line.partition("|")[2].split())
    return Noun(tuple(english), (german, other or german), rank, topic, bool(other))


@cache
def _verbs(kind: str) -> list[Verb]:
    return [Verb(line[:3], line[3:]) for line in _lines(kind)]


@cache
def _lines(name: str) -> list[Words]:
    """A list's lines, or parts between bars, as words."""
    return [tuple(part.split()) for part in re.split(r"[|\n]", WORDS[name]) if part.strip()]


@cache
def vocabulary() -> Words:
    """Every word that a source or a target may hold, in alphabetical order."""
    found = {"-s", ",", ".", "in", "im", "Jahr", "that", "it", *map(str, range(10))}
    for noun in itertools.chain.from_iterable(_nouns().values()):
        found |= {*noun.english}
        for _, singular, plural in noun.german:
            found |= {singular, plural, _dative(plural)}
    verbs = ("transitive", "intransitive", "modals", "perfect")
    for name in (*verbs, "adverbs", "prepositions", "conjunctions"):
        found |= {word for line in _lines(name) for word in line}
    endings = {e for cases in WORDS["endings"].values() for case in cases for e in case.split()}
    for english, german in _lines("adjectives"):
        found |= {english, *(german + ending for ending in endings - {"-"})}
    cases = [WORDS["relative"], *WORDS["personal"]]
    for english, articles in WORDS["determiners"].items():
        found.add(english)
        cases += articles
    return tuple(sorted(found | {form for case in cases for form in case.split()} - {"-"}))
