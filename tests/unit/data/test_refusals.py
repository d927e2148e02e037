"""What the data sets refuse, and the argument that they name."""

import pytest

from course_lib.data import images, reviews, translation

REFUSED = [
    ("'imagenet'.*digits, mnist, fashion_mnist, cifar10", lambda: images.load("imagenet")),
    ("train .*1097", lambda: images.load("digits").subset(0)),
    ("kind", lambda: reviews.load(kind="easy")),
    ("train", lambda: reviews.load(train=-1)),
    ("test .*4000", lambda: reviews.load(test=4001)),
    ("validation .*1000", lambda: translation.load(1, validation=-5)),
]  # fmt: skip


@pytest.mark.parametrize(("words", "call"), REFUSED, ids=range(len(REFUSED)))
def test_it_is_refused_by_name(words, call):
    with pytest.raises(ValueError, match=words):
        call()
