"""Walkthroughs as a code host shows them, where no kernel runs: outputs there, pictures
light and described, no widget alone.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest

ROOT = Path(__file__).parents[2]
WALKTHROUGHS = sorted((ROOT / "solutions").glob("lab*.ipynb"))
HEAVIEST = 300_000  # bytes of a picture
WIDGET = "application/vnd.jupyter.widget-view+json"
PICTURES = {"image/png", "image/svg+xml", "image/jpeg"}


def outputs(path: Path) -> Iterator[tuple[int, str, list[Any]]]:
    """(cell number, source, outputs) of every code cell."""
    for number, cell in enumerate(nbformat.read(path, as_version=4).cells, start=1):
        if cell.cell_type == "code":
            yield number, cell.source, cell.outputs


@pytest.mark.parametrize("path", WALKTHROUGHS, ids=lambda path: path.stem[:5])
def test_outputs_are_there(path: Path) -> None:
    shown = [number for number, _, found in outputs(path) if found]
    assert len(shown) > 15
    for number, _, found in outputs(path):
        assert not any(output.output_type == "error" for output in found), f"cell {number}"


@pytest.mark.parametrize("path", WALKTHROUGHS, ids=lambda path: path.stem[:5])
def test_every_picture_is_light_and_described(path: Path) -> None:
    count = 0
    for number, _, found in outputs(path):
        for output in found:
            data = output.get("data", {})
            for kind in PICTURES & data.keys():
                count += 1
                size = (
                    len(base64.b64decode(data[kind]))
                    if kind != "image/svg+xml"
                    else len(data[kind])
                )
                assert size <= HEAVIEST, f"cell {number}: a picture of {size:,} bytes"
                alts = re.findall(r'<img[^>]*\balt="([^"]*)"', data.get("text/html", ""))
                assert alts and all(len(alt) > 15 for alt in alts), (
                    f"cell {number}: a picture without a text alternative"
                )
                assert data["text/plain"].strip() and "<Figure" not in data["text/plain"], (
                    f"cell {number}"
                )
    assert count >= 3


def test_every_explorer_stands_there_as_a_picture() -> None:
    explorers = 0
    for path in WALKTHROUGHS:
        for number, source, found in outputs(path):
            if re.search(r"^\w+\.explore", source, re.MULTILINE):
                explorers += 1
                pictures = [output for output in found if "image/png" in output.get("data", {})]
                assert pictures, f"{path.stem}, cell {number}"
    assert explorers >= 1


@pytest.mark.parametrize(
    "path", sorted((ROOT / "labs").glob("lab*.ipynb")), ids=lambda path: path.stem[:5]
)
def test_pictures_in_texts_are_described(path: Path) -> None:
    for number, cell in enumerate(nbformat.read(path, as_version=4).cells, start=1):
        if cell.cell_type == "markdown":
            assert "![](" not in cell.source, f"cell {number}"
            for tag in re.findall(r"<img[^>]*>", cell.source):
                assert 'alt="' in tag, f"cell {number}: {tag}"
