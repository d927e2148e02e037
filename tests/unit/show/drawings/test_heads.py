"""Heads, their gates and their maps are drawn as the library has them; where a head looks
is read off its attention.
"""

from __future__ import annotations

import pytest
import torch
from matplotlib.patches import FancyArrowPatch
from translation_checkpoints import SHAPE, small_marian

from course_lib.models.attention import find_attention
from course_lib.pruning.components import hard_concrete, open_probability
from course_lib.pruning.heads import fixed_patterns
from course_lib.show import drawings
from course_lib.show.drawings import Look, where_it_looks
from course_lib.show.output import alt_of
from unit.show.drawings.figure_texts import written

WORDS = ("because", "my", "dog", "slept")


def test_heads_with_a_gate_of_zero_are_named() -> None:
    fig = drawings.heads_as_a_sum(4, gated=(1,))
    assert written(fig).count("ξ = 0") == 1 and written(fig).count("ξ = 1") == 3
    assert "The gate of head 2 is 0." in alt_of(fig)
    assert "heads 2, 3 own rows" in alt_of(drawings.head_rows())


@pytest.mark.parametrize("log_alpha", [-3.0, 0.0, 1.0, 2.5])
def test_the_gates_mass_at_the_ends_is_exact_and_none_is_lost(log_alpha: float) -> None:
    fig = drawings.stretched_and_cut(log_alpha)
    bars = [
        {round(bar.get_x() + bar.get_width() / 2, 6): bar.get_height() for bar in ax.patches}
        for ax in fig.axes
    ]
    assert [sum(of_panel.values()) for of_panel in bars] == pytest.approx([1, 1, 1])
    _, stretched, cut = bars
    closed = 1 - float(open_probability(torch.tensor(log_alpha, dtype=torch.float64)))
    assert cut[0.0] == pytest.approx(closed, abs=1e-9)
    assert sum(height for at, height in stretched.items() if at < 0) == pytest.approx(cut[0.0])
    u = torch.rand(100_000, generator=torch.Generator().manual_seed(0)).clamp(1e-6, 1 - 1e-6)
    drawn = hard_concrete(torch.full_like(u, log_alpha), u)
    assert cut[1.0] == pytest.approx(float((drawn == 1).double().mean()), abs=0.01)
    assert f"{100 * closed:.0f} % of the draws are exactly 0" in alt_of(fig)
    assert f"{100 * closed:.0f} %" in written(fig)


@pytest.mark.long
def test_each_map_has_its_picture_and_its_name() -> None:
    maps = {f"pattern {i}": attn for i, attn in enumerate(fixed_patterns(9))}
    fig = drawings.attention_maps(maps)
    shown = [ax for ax in fig.axes if ax.get_visible()]
    assert [ax.get_xlabel() for ax in shown] == list(maps)
    for ax, attn in zip(shown, maps.values(), strict=True):
        assert torch.equal(torch.as_tensor(ax.images[0].get_array().data), attn)
    assert f"pattern 5 {float(maps['pattern 5'].max()):.2f}" in alt_of(fig)


@pytest.mark.parametrize(("layers", "below"), [(3, 1), (2, 2), (1, 2)])
def test_the_three_kinds_are_those_of_the_model(layers: int, below: int) -> None:
    model = small_marian(50, **SHAPE | {"layers": layers, "decoder_layers": below})
    fig = drawings.kinds_of_attention(find_attention(model))
    texts = written(fig)
    assert texts.count("encoder: 6 heads") == layers
    assert texts.count("decoder: 6 heads") == texts.count("encoder–decoder: 6 heads") == below
    assert f"to the source: {6 * layers} heads in layers: {layers}." in alt_of(fig)
    assert f"to the encoder's output: {6 * below} heads." in alt_of(fig)


def look(attention: list[float]) -> Look:
    return Look(WORDS, torch.tensor(attention), query=3, target=0)


RIGHT, WRONG = look([0.6, 0.2, 0.1, 0.1]), look([0.1, 0.2, 0.6, 0.1])


@pytest.mark.parametrize(
    ("looks", "offset", "said", "arrows"),
    [
        ([RIGHT], -1, ["'because' (right, attention 0.6)", "offset names 'dog' (wrong)"], 2),
        ([WRONG], -3, ["looks at 'dog' (wrong", "offset names 'because' (right)"], 2),
        ([RIGHT, WRONG], -4, ["the offset names no word (wrong)"], 2),  # no dashed arrow
    ],
)
def test_the_largest_attention_and_the_offset_are_followed(looks, offset, said, arrows) -> None:
    fig = where_it_looks(looks, offset)
    assert all(alt_of(fig).count(words) >= 1 for words in said)
    assert len(fig.findobj(FancyArrowPatch)) == arrows
    assert all(written(fig).count(word) == len(looks) for word in WORDS)


def test_a_sentence_that_does_not_fit_is_refused() -> None:
    long = ("although",) * 12
    with pytest.raises(ValueError, match="shorter sentence"):
        where_it_looks([Look(long, torch.ones(12) / 12, 0, 1)], -1)
