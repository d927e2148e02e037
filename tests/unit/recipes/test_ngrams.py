"""What can be had without a network."""

from reviews_checkpoints import ngram_accuracy


def test_ngrams_find_what_lies_side_by_side() -> None:
    """'not good' is bad: two words together solve it, single words cannot."""
    texts = ["it was good .", "it was not bad .", "it was bad .", "it was not good ."] * 20
    labels = [1, 1, 0, 0] * 20
    parts = (texts, labels)
    assert ngram_accuracy(1, parts, parts, parts) <= 75
    assert ngram_accuracy(2, parts, parts, parts) == 100
