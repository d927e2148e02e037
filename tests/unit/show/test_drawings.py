"""What slides and labs draw: each drawing says its numbers, in letters that can be read from
the last row, and nothing lies outside of it.
"""

import pytest
import torch
from matplotlib.patches import Rectangle
from matplotlib.text import Text

from course_lib.pruning.weights import group_columns
from course_lib.show import drawings
from course_lib.show.output import alt_of
from course_lib.show.style import ORANGE, SLIDE_TEXT

ROW = torch.tensor([0, 0, 5, 0, 0, 0, 0, 0, 7, 2, 0, 0.0])
WEIGHT = torch.tensor([[3, -1, 0, 2, 5, 1, -4, 2], [1, 2, 3, -4, 0, 6, 1, -2]], dtype=torch.float)
SPARSE = torch.tensor([[3.0, 0, 0, 2, 0], [0, 4, 0, -6, 0], [0, 0, 1, 0, 5], [7, 0, 0, 0, 0]])
WORDS = "[CLS] although the service was slow , the food was superb . [SEP]".split()  # noqa: SIM905
KEPT = [[0, 1, 3, 5, 8, 10], [0, 10]]
ALL = {
    "row": lambda: drawings.stored_row(ROW),
    "blocks": lambda: drawings.nm_blocks(WEIGHT, 1, 4),
    "columns": lambda: drawings.columns_packed(SPARSE, group_columns(SPARSE, 4, 0.5)),
    "sum": lambda: drawings.heads_as_a_sum(4, gated=(1,)),
    "gate": lambda: drawings.stretched_and_cut(1.0),
    "tokens": lambda: drawings.tokens_leaving(WORDS, KEPT, marked=[10], title="positive"),
    "rounds": lambda: drawings.pruning_rounds(3, 0.2),
    "rewind to 5": lambda: drawings.pruning_rounds(2, 0.2, rewind_to=5),
    "no rewinding": lambda: drawings.pruning_rounds(3, 0.2, rewind=False),
}


@pytest.mark.parametrize("name", ALL)
def test_it_can_be_read_from_the_last_row_and_lies_within_its_figure(name, monkeypatch, tmp_path):
    monkeypatch.setenv("COURSE_SLIDES", str(tmp_path))
    fig = ALL[name]()
    fig.draw_without_rendering()
    for text in fig.findobj(Text):
        if text.get_text().strip():
            assert text.get_fontsize() >= SLIDE_TEXT
            box = text.get_window_extent()
            assert box.x0 >= -3 and box.x1 <= fig.bbox.x1 + 3, text.get_text()


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("row", "stored in three ways. one row; 0; 0; 5;"),
        ("blocks", "dense 16 × 32 = 512 bits, stored 4 × (32 + 2) = 136"),
        ("sum", "ξ = 1; $W_O^{(1)}$; $A_2$ = softmax($QK^\\top$) $V$; ξ = 0"),
        (
            "gate",
            "log α = 1, stretched and cut. s; stretched to −0.1 … 1.1; cut: the gate g; 7 %; 35 %",
        ),
        ("tokens", "6 kept"),
        ("rounds", "80 %; rewind;"),
        ("no rewinding", "0.8³ = 51 %; keep"),
    ],
)
def test_its_alternative_is_its_title_and_all_that_is_written(name, said):
    assert said in alt_of(ALL[name]())


def test_a_token_is_faint_from_the_layer_on_that_drops_it():
    texts = [text for text in ALL["tokens"]().axes[0].texts if text.get_text() == "slow"]
    assert [text.get_alpha() for text in texts] == [1, 0.3]


def test_pruned_weights_stay_pruned_and_the_others_are_rewound():
    _, w_k, found = drawings._search(3, 0.2, True, 5)
    for (_, _, _, kept), (start, _, mask, _) in zip(found, found[1:], strict=False):
        assert torch.equal(mask, kept) and torch.equal(start, w_k * kept)
    assert [int(kept.sum()) for *_, kept in found] == [19, 15, 12]


def test_a_closed_gate_is_orange():
    boxes = [patch for patch in ALL["sum"]().axes[0].patches if isinstance(patch, Rectangle)]
    from matplotlib.colors import to_hex

    assert sum(to_hex(box.get_facecolor()).upper() == ORANGE for box in boxes) == 1
