"""Attention maps are drawn as they are, and a model's attention as it is found."""

from __future__ import annotations

import pytest
import torch

from course_lib.models.attention import find_attention
from course_lib.models.marian import small_marian
from course_lib.pruning.heads import fixed_patterns
from course_lib.show.drawings.heads import attention_maps, kinds_of_attention
from course_lib.show.output import alt_of
from unit.show.drawings.figure_texts import written


def test_each_map_has_its_picture_and_its_name() -> None:
    maps = {f"pattern {i}": attn for i, attn in enumerate(fixed_patterns(9))}
    fig = attention_maps(maps)
    shown = [ax for ax in fig.axes if ax.get_visible()]
    assert [ax.get_xlabel() for ax in shown] == list(maps)
    for ax, attn in zip(shown, maps.values(), strict=True):
        assert torch.equal(torch.as_tensor(ax.images[0].get_array().data), attn)
    assert f"pattern 5 {float(maps['pattern 5'].max()):.2f}" in alt_of(fig)


@pytest.mark.parametrize(("layers", "below"), [(3, 1), (2, 2), (1, 2)])
def test_the_three_kinds_are_those_of_the_model(layers: int, below: int) -> None:
    model = small_marian(50, layers=layers, decoder_layers=below, width=24, heads=6, ffn=32)
    fig = kinds_of_attention(find_attention(model))
    texts = written(fig)
    assert texts.count("encoder: 6 heads") == layers
    assert texts.count("decoder: 6 heads") == texts.count("encoder–decoder: 6 heads") == below
    assert f"to the source: {6 * layers} heads in layers: {layers}." in alt_of(fig)
    assert f"to the encoder's output: {6 * below} heads." in alt_of(fig)
