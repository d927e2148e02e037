"""A published table of weight pruning for BERT, as printed and as corrected, and a row of
one's own below it.

Source: Yichu Zhou, "BERT Compression: Weight Pruning", blog post of 3 September 2020
(https://github.com/flyaway1217/ResearchBlog, content/Bert-Compression-Weight-Pruning.md),
the table at its end, here called the survey.
"""

from __future__ import annotations

from collections.abc import Sequence

from course_lib.capstone.measured import Measured
from course_lib.intervals import interval

HEADER = ("Paper", "Memory (BERT:100%)", "Inference", "Component", "Pretrain", "Performance")
NOTHING = ("N/A",) * 5
ROWS: tuple[tuple[str, ...], ...] = (  # as printed
    ("Zafrir et al., 2019 (Q8BERT)", *NOTHING),
    ("Fan et al., 2020 (Quant-Noise)", *NOTHING),
    ("Shen et al., 2020 (Q-BERT)", *NOTHING),
    ("Gordon et al., 2020", "30–40%", "N/A", "all weights", "True", "Same"),
    ("Guo et al., 2019", "12%–41%", "N/A", "all weights", "True", "worse"),
    ("Sanh et al., 2020", "3%–10%", "N/A", "layers and heads.", "False", "worse"),
    ("Raganato et al., 2020", "N/A", "N/A", "attention heads", "False", "similar"),
    ("Fan et al., 2019", "25%–50%", "N/A", "transformer layers", "True", "same"),
    ("Wang et al., 2019", "65%", "N/A", "matrix multiplication", "False", "slightly worse"),
)
# row, column -> the cell by the papers, and for Guo by the survey's own text
CORRECTED = {
    (3, 1): "60–70%",
    (4, 5): "same at 41%, worse below",
    (5, 3): "single encoder weights",
}


def performance(right: Sequence[bool], given: Sequence[bool]) -> str:
    """Our rule for the survey's last column, which has none: "same" if the paired 95 % interval
    of the difference contains 0; else "better", or by the points lost "similar" (up to 1),
    "slightly worse" (up to 3) and "worse".
    """
    differences = [100.0 * (a - b) for a, b in zip(map(int, right), map(int, given), strict=True)]
    mean, half = interval(differences)
    if abs(mean) <= half:
        return "same"
    if mean > 0:
        return "better"
    return "similar" if mean >= -1 else "slightly worse" if mean >= -3 else "worse"


def row(found: Measured, component: str) -> tuple[str, ...]:
    """Your row: memory and speed as measured (the survey has no speed in any row)."""
    memory, inference = f"{100 * found.storage:.0f}%", f"{found.faster:.1f} times faster (CPU)"
    right = performance(found.right, found.given_right)
    return ("You", memory, inference, component, "False", right)


def table(*own: tuple[str, ...]) -> str:
    """The survey's rows as Markdown: as printed, or, above rows of one's own, as corrected."""
    lines = [" | ".join(HEADER), "|".join(["---"] * len(HEADER))]
    for i, cells in enumerate(ROWS):
        right = [CORRECTED.get((i, j), cell) if own else cell for j, cell in enumerate(cells)]
        lines.append(" | ".join(right))
    lines += [" | ".join(f"**{cell}**" for cell in cells) for cells in own]
    return "\n".join(f"| {line} |" for line in lines)
