"""What a student calls: measure a model as it will be measured, write its file, and show
which levels it meets.
"""

from __future__ import annotations

import secrets
import zlib
from collections.abc import Mapping
from pathlib import Path

from IPython.display import Markdown, display
from torch import nn

from course_lib import files, ledger
from course_lib.capstone import survey
from course_lib.capstone.files import of_bytes, to_bytes
from course_lib.capstone.measured import LEVELS, Measured, measure, unmet_requirements

NAMES = {"cnn": "capstone-cnn.safetensors", "bert": "capstone-bert.safetensors"}


def number_of(student: str) -> int:
    """Which of the three given models a student gets, by the name in ``STUDENT``."""
    return zlib.crc32(student.strip().encode("utf-8", "surrogatepass")) % 3


def submit(
    model: nn.Module,
    kind: str,
    component: str,
    student: str = "",
    *,
    tokens: Mapping[int, float] | None = None,
    seed: int | None = None,
) -> Measured:
    """Measure the model as its file will be, on *validation* images or newly drawn texts; write
    the file; show the levels and, of a BERT, the survey's row; add a row to the ledger.

    Args:
        model: compressed; only its tensors are written. kind: "cnn" or "bert".
        component: the pruned parts, for the table. student: as in the notebook's first cell.
        tokens: a schedule of token dropping, layer -> share kept (BERT). seed: of the data; by
            default another each time.

    Raises:
        TypeError: if ``model`` is no module.
        Refused: if no such model can be read from the file, which is not written then.
    """
    if not isinstance(model, nn.Module):
        thought = ": does the function that makes it end with `return`?" * (model is None)
        raise TypeError(
            f"submit takes the compressed model, an nn.Module; got {type(model).__name__}{thought}"
        )
    data = to_bytes(model, tokens)
    drawn = secrets.randbelow(1 << 30) if seed is None else seed
    found = measure(kind, of_bytes(data, NAMES[kind]), number_of(student), drawn, "validation")
    files.write_atomic(Path(NAMES[kind]), data)
    if kind == "bert":
        display(Markdown(survey.table(survey.row(found, component))))
    lines = ["| level | points | missing |", "|---|---|---|"]
    for number, level in enumerate(LEVELS[kind], start=1):
        lacking = "; ".join(unmet_requirements(level, found)) or "nothing: met"
        lines.append(f"| {number} | {level.points:g} | {lacking} |")
    text = (
        f"**{NAMES[kind]}**: storage {found.storage:.1%}, products {found.macs_share:.1%} of the"
        f" given model's, {found.faster:.2f} times faster, accuracy {found.accuracy:.1f} % against"
        f" {found.given_accuracy:.1f} % of the given one.\n\n" + "\n".join(lines)
    )
    display(Markdown(text))
    name = {"cnn": "convnet, distorted digits", "bert": "reviews-bert"}[kind]
    costs = {"bits": found.bits, "macs": round(found.macs), "ms": found.ms}
    ledger.add(name, f"capstone: {component}", lab="11", accuracy=[found.accuracy], **costs)
    return found
