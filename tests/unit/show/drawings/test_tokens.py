"""The drawing of a text that gets shorter shows the lists that it is given."""

from __future__ import annotations

import pytest
from matplotlib.text import Text

from course_lib.show.drawings.tokens import tokens_leaving
from course_lib.show.output import alt_of
from course_lib.show.style import ORANGE, SKY
from unit.show.drawings.figure_texts import cells, written

WORDS = ["[CLS]", "the", "food", "was", "never", "bad", "[SEP]"]
KEPT = [[0, 2, 4, 5, 6], [0, 4, 5], [0]]


def leaving(words=WORDS, kept=KEPT):
    return tokens_leaving(words, kept, marked=(4, 5), answer="positive, 99 %")


def test_a_word_is_written_until_the_row_in_which_it_leaves() -> None:
    seen = written(leaving())
    times = {word: seen.count(word) for word in WORDS}
    assert times == {"[CLS]": 4, "the": 2, "food": 3, "was": 2, "never": 4, "bad": 4, "[SEP]": 3}
    assert [seen.count(name) for name in ("input", "layer 1", "layer 3", "layer 4")] == [1, 1, 1, 0]
    counts = [text for text in seen if text.endswith(" kept")]
    assert counts == ["7 kept", "5 kept", "3 kept", "1 kept"]


def test_a_long_text_has_two_lines_and_each_word_is_where_it_was() -> None:
    words = ["[CLS]", *(f"restaurant{i}" for i in range(5)), "[SEP]"]
    texts: dict[str, list] = {}
    for text in leaving(words, [[0, 1, 5], [0]]).findobj(Text):
        texts.setdefault(text.get_text(), []).append(text.get_position())
    assert len({texts[word][0][1] for word in words}) == 2
    (x, y), (x_next, y_next) = texts["restaurant4"][:2]
    assert x == x_next and texts["restaurant0"][0][1] < y < texts["restaurant0"][1][1] < y_next


def test_cls_stays_in_every_row_and_a_marked_word_while_it_is_there() -> None:
    fig = leaving()
    assert cells(fig, ORANGE) == 4 + 1, "in each row, and in the key"
    assert cells(fig, SKY) == 2 * 3 + 1, "two words in three rows, and in the key"


def test_the_alternative_says_who_is_left_and_the_answer() -> None:
    text = alt_of(leaving())
    assert (
        "7 tokens" in text
        and "after layer 2 3: [CLS] never bad;" in text
        and "after layer 3 1: [CLS]." in text
    )
    assert text.endswith("Read from [CLS]: positive, 99 %.")


def test_a_text_that_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="take a shorter text"):
        leaving(["[CLS]", *["restaurant"] * 20], [[0]])
