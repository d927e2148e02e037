"""How the checkpoints "reviews-bert-0", "-1" and "-2" were trained: a small BERT on the
sentiment of generated reviews.

Two things decide whether it learns at all. Its positions start from sinusoids, and
texts come in four phases: single clauses, then negation and contrast with at most one
filler, then full texts, and in the last phase long ones among them while the learning
rate falls. Without them it stays near the n-grams.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

from course_lib.data import pieces, reviews
from course_lib.data.review_grammar import Review
from course_lib.models import checkpoints
from course_lib.models.bert import small_bert
from course_lib.training import accuracy, fit_batches, warm_up_then_decay

SEEDS = (0, 1, 2)
VOCABULARY = 600
Labelled = tuple[Sequence[str], Sequence[int]]  # texts and labels
STRENGTHS = (0.03, 0.3)  # of the n-grams' inverse regularisation, chosen on validation
BATCH = 32
# (kind, number of texts) of each phase
PHASES = (
    (("easy", 8000),),
    (("short", 20_000),),
    (("full", 30_000),),
    (("full", 50_000), ("long", 12_000)),
)


def name(seed: int) -> str:
    return f"reviews-bert-{seed}"


def phases() -> list[list[Review]]:
    """The training texts of the four phases; all seeds see the same, in an order of
    their own.
    """
    wanted = Counter[str]()
    for kind, n in itertools.chain(*PHASES):
        wanted[kind] += n
    streams = {kind: iter(reviews.texts(kind, n)) for kind, n in wanted.items()}
    return [
        [review for kind, n in phase for review in itertools.islice(streams[kind], n)]
        for phase in PHASES
    ]


def tokenizer() -> Any:
    """The tokenizer of the shipped checkpoints; where there is none yet, a new one
    trained on full texts.
    """
    if shipped := sorted({*map(name, SEEDS)} & {*checkpoints.names()}):
        return checkpoints.load(shipped[0]).tokenizer
    texts = [review.text for review in reviews.texts("full", 20_000)]
    return pieces.train_tokenizer(texts, VOCABULARY)


def train(
    seed: int, tokenizer: Any, texts: Sequence[Sequence[Review]], progress: bool = True
) -> tuple[Any, Any]:
    """A trained model, in evaluation mode, and its history; ``seed`` decides initial
    weights and order of the texts.
    """
    model = small_bert(len(tokenizer), seed=seed)
    lengths = [math.ceil(len(phase) / BATCH) for phase in texts]
    each_phase = (
        reviews.batches(phase, tokenizer, 10 * seed + number, BATCH)
        for number, phase in enumerate(texts)
    )
    history = fit_batches(
        model,
        itertools.chain.from_iterable(each_phase),
        sum(lengths),
        lr=5e-4,
        betas=(0.9, 0.98),
        weight_decay=0.01,
        clip=1.0,
        rate=warm_up_then_decay(100, decay_from=sum(lengths[:-1])),
        seed=seed,
        progress=progress,
    )
    return model.eval(), history


def remake(seed: int, progress: bool = True) -> dict[str, Any]:
    """Train the checkpoint of a seed, measure it, save it in the course's ``data/``;
    returns its record.

    About 7 minutes on one core. On another machine, or with another number of threads,
    sums are rounded in another order: the weights will differ, the accuracy by some
    tenths of a percent.
    """
    ours, texts = tokenizer(), phases()
    model, history = train(seed, ours, texts, progress)
    measured = {}
    for kind, suffix in (("full", ""), ("long", " on long texts")):
        data = pieces.encode(reviews.load(train=0, kind=kind), ours)
        for split in ("validation", "test"):
            batches = pieces.batches(data[split], "sentiment", 100)
            measured[split + suffix] = accuracy(model, batches)
    about = {
        "task": "sentiment of generated reviews (course_lib.data.reviews, seed 0)",
        "seed": seed,
        "accuracy": {split: round(value, 3) for split, value in measured.items()},
        "steps": history.done,
        "cpu_seconds": round(history.cpu_seconds),
        "command": f"python data/checkpoints/make reviews --seed {seed}",
    }
    checkpoints.save(name(seed), model, ours, about)
    return about


def ngrams(train: int = 64_000, seed: int = 0) -> dict[int, float]:
    """Test accuracy, in %, of uni-, bi- and trigram classifiers on the same reviews,
    trained on ``train`` full texts.
    """
    data = reviews.load(train, seed=seed)
    parts = [
        (list(data[split]["text"]), list(data[split]["sentiment"]))
        for split in ("train", "validation", "test")
    ]
    return {n: ngram_accuracy(n, *parts) for n in (1, 2, 3)}


def ngram_accuracy(n: int, train: Labelled, validation: Labelled, test: Labelled) -> float:
    """Test accuracy, in %, of logistic regression on the counts of all runs of 1 to
    ``n`` words.

    Args:
        n: 1 for single words, 2 with pairs, 3 with triples.
        train, validation, test: (texts, labels); validation chooses the strength of the
            regularisation.

    Source: Wang & Manning 2012, "Baselines and Bigrams: Simple, Good Sentiment and
    Topic Classification".
    """
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.multiclass import OneVsRestClassifier

    # punctuation tells where clauses end
    count = CountVectorizer(ngram_range=(1, n), token_pattern=r"[^\W_]+|[.,]")
    counted = count.fit_transform(train[0])
    held_out = count.transform(validation[0])
    fitted = [
        OneVsRestClassifier(LogisticRegression(C=strength, solver="liblinear", random_state=0)).fit(
            counted, train[1]
        )
        for strength in STRENGTHS
    ]
    best = max(fitted, key=lambda model: model.score(held_out, validation[1]))
    return 100 * float(best.score(count.transform(test[0]), test[1]))
