"""What can be had without a network: a linear classifier on counted words and runs of
words.
"""

from __future__ import annotations

from collections.abc import Sequence

STRENGTHS = (0.03, 0.3)  # of the inverse regularisation, chosen on validation


def ngram_accuracy(
    n: int,
    train: tuple[Sequence[str], Sequence[int]],
    validation: tuple[Sequence[str], Sequence[int]],
    test: tuple[Sequence[str], Sequence[int]],
) -> float:
    """Test accuracy, in %, of logistic regression on the counts of all runs of 1 to
    ``n`` words.

    Args:
        n: 1 for single words, 2 with pairs, 3 with triples.
        train, validation, test: (texts, labels); validation chooses the strength of the
            regularisation.

    Raises:
        ValueError: if ``n`` is below 1.

    Source: Wang & Manning 2012, "Baselines and Bigrams: Simple, Good Sentiment and
    Topic Classification".
    """
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.multiclass import OneVsRestClassifier

    if n < 1:
        raise ValueError(f"n is the longest run of words that is counted, 1 or more, got {n}")
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
