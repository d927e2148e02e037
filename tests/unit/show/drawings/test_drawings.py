"""Drawings show the data they are given: what stands in them is what the encodings
say.
"""

from __future__ import annotations

import pytest
import torch

from course_lib.cost.encodings import csr_encode, rle_encode
from course_lib.show import drawings
from course_lib.show.output import alt_of
from unit.show.drawings.figure_texts import written


@pytest.mark.parametrize("seed", range(3))
def test_a_stream_of_runs_is_the_code(seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randint(1, 9, (12,), generator=generator).float() * (
        torch.rand(12, generator=generator) < 0.3
    )
    fig = drawings.rle_stream(x)
    runs, values, _ = rle_encode(x, 2)
    for run, value in zip(runs.tolist(), values.tolist(), strict=True):
        assert f"({run}, {value:g})" in alt_of(fig)
    fillers = int((values == 0).sum())
    assert any(f"{fillers} filler" in text for text in written(fig))
    assert written(fig).count("0") >= int((x == 0).sum()), (
        "zeros of the row, and runs and fillers of 0"
    )


def test_csr_arrays_are_the_code() -> None:
    x = torch.tensor([[0, 5, 0], [7, 0, 9], [0, 0, 0.0]])
    v, columns, pointers = csr_encode(x)
    text = alt_of(drawings.csr_arrays(x))
    assert (
        str(columns.tolist()) in text and str(pointers.tolist()) in text and str(v.tolist()) in text
    )
    assert "row 1 is entries 1 to 2" in text


def test_a_convolution_has_the_outputs_it_has() -> None:
    assert "one of M outputs\n3 × 3" in written(drawings.convolution())


def test_heads_with_a_gate_of_zero_are_named() -> None:
    fig = drawings.heads_as_a_sum(4, gated=(1, 3))
    assert written(fig).count("ξ = 0") == 2 and written(fig).count("ξ = 1") == 2
    assert "heads 2, 4 are 0" in alt_of(fig)
    assert "heads 2, 3 own rows" in alt_of(drawings.head_rows())


def test_a_stored_row_is_what_the_formats_write() -> None:
    text = alt_of(drawings.stored_row(torch.tensor([0, 3.0, 0, 0, 0, 0, 0])))
    assert "Bitmap: 0100000 and the values 3." in text
    assert "Run lengths: 1, 3, 0 zeros before the values 3, 0, 0." in text


def test_layers_that_are_left_out_are_not_named() -> None:
    fig = drawings.layers_skipped()
    assert written(fig).count("layer 1") == 2 and written(fig).count("layer 0") == 2
    assert "half, for use: 0, 2" in alt_of(fig)
