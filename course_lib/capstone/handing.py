"""What a student calls: write a model's file, measure it as it will be measured, and
say where it stands.
"""

from __future__ import annotations

import secrets
import zlib
from collections import OrderedDict
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
    """Which of the three given models of each kind is this student's: 0, 1 or 2, by the
    name in ``STUDENT``.
    """
    return zlib.crc32(student.strip().encode("utf-8", "surrogatepass")) % 3


def submit(
    model: nn.Module,
    kind: str,
    component: str,
    student: str = "",
    *,
    tokens: Mapping[int, float] | None = None,
    folder: Path = Path(),
    seed: int | None = None,
) -> Measured:
    """Measure the model as its file will be, write the file, and show the levels and,
    of a BERT, the survey's row; the ledger gets one, too.

    The accuracy is that on *validation* images, or on texts drawn anew; graded are test
    images and other texts.

    Args:
        model: compressed; its tensors alone are written. kind: "cnn" or "bert".
        component: what went, for the table: "filters, weights". student: as in the
            notebook's first cell.
        tokens: a schedule of token dropping, layer -> share kept (BERT). folder: beside
            the notebook.
        seed: of what it is measured on; by default another each time.

    Raises:
        TypeError: if ``model`` is no module, or ``tokens`` no mapping.
        ValueError: if the kind is another.
        Refused: if no such model can be read from the file, which is not written then.
    """
    if kind not in NAMES:
        raise ValueError(f'kind is "cnn" or "bert", got {kind!r}')
    if not isinstance(model, nn.Module):
        thought = {
            type(None): ": does the function that makes it end with `return`?",
            OrderedDict: ", as of state_dict(): the model itself is asked for",
        }.get(type(model), "")
        raise TypeError(
            f"submit takes the compressed model, an nn.Module; got {type(model).__name__}{thought}"
        )
    if not isinstance(tokens, Mapping | None):
        raise TypeError(
            f"tokens is a dict, layer -> share kept, such as {{1: 0.5}}; got {tokens!r}"
        )
    data = to_bytes(model, tokens)
    drawn = secrets.randbelow(1 << 30) if seed is None else seed
    found = measure(kind, of_bytes(data, NAMES[kind]), number_of(student), drawn, "validation")
    files.write_atomic(folder / NAMES[kind], data)
    if kind == "bert":
        display(Markdown(survey.table(survey.row(found, component))))
    lines = ["| level | points | what it lacks |", "|---|---|---|"]
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
    ledger.add(
        name,
        f"capstone: {component}",
        lab="11",
        bits=found.bits,
        macs=round(found.macs),
        ms=found.ms,
        accuracy=[found.accuracy],
    )
    return found
