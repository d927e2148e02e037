"""Where a head looks is read off its attention; right and wrong are said, of the head
and of the offset.
"""

from __future__ import annotations

import pytest
import torch
from matplotlib.patches import FancyArrowPatch

from course_lib.show.drawings.heads import Look, where_it_looks
from course_lib.show.output import alt_of
from unit.show.drawings.figure_texts import written

WORDS = ("because", "my", "dog", "slept")


def look(attention: list[float], query: int = 3, target: int = 0) -> Look:
    return Look(WORDS, torch.tensor(attention), query, target)


def test_the_largest_attention_and_the_offset_are_followed() -> None:
    fig = where_it_looks([look([0.6, 0.2, 0.1, 0.1])], -1)
    said = alt_of(fig)
    assert "'slept' looks at 'because' (right, attention 0.6)" in said
    assert "the offset names 'dog' (wrong)" in said
    assert "60 %" in written(fig) and "−1" in written(fig)
    assert len(fig.findobj(FancyArrowPatch)) == 2


def test_the_head_may_be_wrong_where_the_offset_is_right() -> None:
    said = alt_of(where_it_looks([look([0.1, 0.2, 0.6, 0.1])], -3))
    assert "looks at 'dog' (wrong" in said and "the offset names 'because' (right)" in said


def test_an_offset_that_leaves_the_sentence_names_no_word() -> None:
    fig = where_it_looks([look([0.6, 0.2, 0.1, 0.1]), look([0.1, 0.2, 0.6, 0.1])], -4)
    assert alt_of(fig).count("the offset names no word (wrong)") == 2
    assert len(fig.findobj(FancyArrowPatch)) == 2, "no dashed arrow"
    for word in WORDS:
        assert written(fig).count(word) == 2


def test_a_sentence_that_does_not_fit_is_refused() -> None:
    long = ("although",) * 12
    with pytest.raises(ValueError, match="take a shorter sentence"):
        where_it_looks([Look(long, torch.ones(12) / 12, 0, 1)], -1)
