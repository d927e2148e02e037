"""A published table of weight pruning for BERT, as corrected, and a row of one's own
beside it.

Source: Yichu Zhou, "BERT Compression: Weight Pruning", blog post of 3 September 2020
(https://github.com/flyaway1217/ResearchBlog, content/Bert-Compression-Weight-Pruning.md),
the table at its end, here called the survey. Two rows are corrected after the papers:
Gordon et al. (memory is what *remains*: 60 to 70 %) and Sanh et al. (single encoder
weights are removed, not layers and heads). Guo et al. lose nothing at 41 %, as the
post's text says, so that "worse" can be meant for smaller sizes only.
"""

from __future__ import annotations

from collections.abc import Sequence

from course_lib.capstone.measured import Measured
from course_lib.intervals import interval

HEADER = ("Paper", "Memory (BERT: 100%)", "Inference", "Component", "Pretrain", "Performance")
NOTHING = ("N/A",) * 5
ROWS: tuple[tuple[str, ...], ...] = (
    ("Zafrir et al., 2019 (Q8BERT)", *NOTHING),
    ("Fan et al., 2020 (Quant-Noise)", *NOTHING),
    ("Shen et al., 2020 (Q-BERT)", *NOTHING),
    ("Gordon et al., 2020", "60–70 %", "N/A", "all weights", "True", "same"),
    ("Guo et al., 2019", "12–41 %", "N/A", "all weights", "True", "worse"),
    ("Sanh et al., 2020", "3–10 %", "N/A", "single encoder weights", "False", "worse"),
    ("Raganato et al., 2020", "N/A", "N/A", "attention heads", "False", "similar"),
    ("Fan et al., 2019", "25–50 %", "N/A", "transformer layers", "True", "same"),
    ("Wang et al., 2019", "65 %", "N/A", "matrix multiplication", "False", "slightly worse"),
)


def performance(right: Sequence[bool], given: Sequence[bool]) -> str:
    """The survey has no rule for its last column; this is ours, for two models' answers
    to the same inputs.

    Returns:
        "same" if the 95 % interval of the difference (paired) holds 0; else "better",
        or by the points lost "similar" (up to 1), "slightly worse" (up to 3) and
        "worse".
    """
    differences = [100.0 * (a - b) for a, b in zip(map(int, right), map(int, given), strict=True)]
    mean, half = interval(differences)
    if abs(mean) <= half:
        return "same"
    if mean > 0:
        return "better"
    return "similar" if mean >= -1 else "slightly worse" if mean >= -3 else "worse"


def row(found: Measured, component: str, name: str = "You") -> tuple[str, ...]:
    """Your row: memory and speed as measured (the survey has no speed for anybody: that
    is why we measure).
    """
    inference = f"{found.faster:.1f} times faster (CPU)"
    return (
        name,
        f"{100 * found.storage:.0f} %",
        inference,
        component,
        "False",
        performance(found.right, found.given_right),
    )


def table(*own: tuple[str, ...]) -> str:
    """The survey's rows and your own, as Markdown."""
    lines = ["| " + " | ".join(HEADER) + " |", "|---" * len(HEADER) + "|"]
    lines += ["| " + " | ".join(cells) + " |" for cells in ROWS]
    lines += ["| " + " | ".join(f"**{cell}**" for cell in cells) + " |" for cells in own]
    return "\n".join(lines)
