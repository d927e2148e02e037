"""Sentence pairs: deterministic, no source twice, a tree over every source, and a
German that agrees.
"""

import hashlib
import random

import pytest
import torch

from course_lib.data import translation
from course_lib.data import translation_grammar as grammar
from course_lib.data.translation_grammar import WORDS

PAIRS = [grammar.write(random.Random(f"{i}")) for i in range(3000)]


def test_every_word_is_in_the_vocabulary_and_every_source_is_a_tree():
    known = set(grammar.vocabulary())
    for pair in PAIRS:
        assert {*pair.words, *pair.target} <= known
        lists = (pair.words, pair.head, pair.relation, pair.ambiguous)
        assert len({*map(len, lists)}) == 1 and len(pair.words) <= grammar.LONGEST
        assert set(pair.relation) <= set(grammar.RELATIONS)
        assert pair.head.count(grammar.ROOT) == 1 == pair.relation.count("root")
        for start in range(len(pair.words)):  # every way up ends at the root
            place, steps = start, 0
            while pair.head[place] != grammar.ROOT:
                place, steps = pair.head[place], steps + 1
                assert steps <= len(pair.words)
        assert pair.rarest >= 0


def test_the_relations_join_what_they_say():
    lines = (WORDS["transitive"] + WORDS["intransitive"]).splitlines()
    verbs = {word for line in lines for word in line.split()[:3]}
    joined: dict[str, int] = {}
    for pair in PAIRS:
        for word, head, relation in zip(pair.words, pair.head, pair.relation, strict=True):
            joined[relation] = joined.get(relation, 0) + 1
            other = pair.words[head] if head >= 0 else ""
            if relation in ("nsubj", "obj", "aux", "mark", "advmod"):
                assert other in verbs
            if relation == "plural":
                assert word == "-s" and other not in verbs
            if relation == "det":
                assert word in WORDS["determiners"]
    assert joined.keys() == set(grammar.RELATIONS) and min(joined.values()) > 100


def test_the_rarest_noun_decides_how_an_ambiguous_one_is_translated():
    both = 0
    for line in WORDS["ambiguous"].splitlines():
        first, second = (part.split() for part in line.split("|"))
        english, senses = first[0], ({first[2], first[3]}, {second[0 + 1], second[0 + 2]})
        for pair in PAIRS:
            if english not in pair.words:
                continue
            target = {w.removesuffix("n") for w in pair.target}
            found = [bool(target & {w.removesuffix("n") for w in sense}) for sense in senses]
            topics = [
                noun.topic
                for nouns in grammar._nouns().values()
                for noun in nouns
                if noun.english[-1] == pair.words[pair.rarest]
            ]
            assert found[0] != found[1] or senses[0] & senses[1], pair
            if len(set(topics)) == 1 and not senses[0] & senses[1]:
                assert found.index(True) == topics[0]
                both += 1
    assert both > 1500


def test_articles_adjectives_and_nouns_agree():
    texts = "\n".join(" ".join(pair.target) for pair in PAIRS)
    right = "der alte Hund|den alten Hund|ein alter Hund|ein altes Haus|eine alte Katze|meine alten Hunde"
    assert all(phrase in texts for phrase in right.split("|")), "they occur"
    wrong = "der altes|das alter|die altes|ein alte |eine alter|einen alter|den alter|dem alte "
    assert not any(phrase in texts for phrase in wrong.split("|"))


def test_splits_hold_no_source_twice_and_fewer_are_the_first_of_more():
    data = translation.load(500, 200, 100)
    sources = [source for part in data.values() for source in part["source"]]
    assert len(set(sources)) == len(sources) == 800
    again = translation.load(50, 20, 10)
    for split in data:
        assert list(again[split]["target"]) == list(data[split]["target"])[: len(again[split])]
    assert list(translation.load(5, seed=1)["test"]["source"]) != list(
        translation.load(5)["test"]["source"]
    )


@pytest.mark.parametrize(("seed", "digest"), [(0, "c64fa61b94d41dee"), (1, "5bd2f955f9523f91")])
def test_the_pairs_are_those_of_the_checkpoints(seed, digest):
    parts = translation.load(50, 50, 50, seed=seed)
    rows = [row for part in parts.values() for row in part]
    assert hashlib.sha256(repr(rows).encode()).hexdigest()[:16] == digest


def test_batches_and_back():
    data = translation.load(1, 60, 1)["validation"]
    found = {}
    for batch in translation.batches(data, 16, truth=True):
        sources = translation.text(batch["input_ids"])
        targets = translation.text(batch["labels"].clamp(min=0))
        for b, source in enumerate(sources):
            found[source] = targets[b]
            n = len(source.split())
            assert (
                batch["input_ids"][b, n] == translation.END
                and int(batch["attention_mask"][b].sum()) == n + 1
            )
            assert (batch["head"][b, n:] == -1).all() and 0 <= int(batch["rarest"][b]) < n
    assert found == dict(zip(data["source"], data["target"], strict=True))
    shuffled, same = ([b["input_ids"] for b in translation.batches(data, 16, seed=1)] for _ in "ab")
    assert all(map(torch.equal, shuffled, same))
