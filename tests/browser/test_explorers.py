"""Every explorer of the labs that have one: driven by keyboard through the whole range of each
control, and pictures kept.

``build/browser/lab07-1-….png`` are the pages as a laptop of 1280 × 720 shows them: look
at them after a change.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from driving import Explorer

ROOT = Path(__file__).parents[2]
SOURCES = (ROOT / "solutions").glob("lab[0-9][0-9]_*.py")
# longest first
LABS = sorted((p.stem for p in SOURCES if "plots.explore(" in p.read_text("utf-8")), reverse=True)
NARROWEST = 480  # CSS pixels in which a figure's labels can be read


@pytest.mark.parametrize("lab", LABS)
def test_driven_through_the_whole_range(notebook, lab: str) -> None:
    notebook.open(f"explorers/{lab}.ipynb")  # the lab's other cells are run by nbval
    notebook.run_all(600)
    count = notebook.page.locator(".course-explorer").count()
    assert count, "this lab has an explorer"
    for index in range(count):
        drive(Explorer(notebook, index), f"{lab[:5]}-{index + 1}")
    assert not notebook.errors


def drive(explorer: Explorer, name: str) -> None:
    begin = explorer.settled()
    explorer.photograph(f"{name}-first")
    assert explorer.tabs() == len(explorer.controls()), "the Tab key comes by every control"
    seen = {begin}
    for number, control in enumerate(explorer.controls(), start=1):
        states = []
        for said, state in explorer.drive(control):
            assert state.alt, f"at {said} the figure has no text alternative"
            states.append(state)
            if len(states) == 1:
                explorer.photograph(f"{name}-control{number}-{said.strip()}")
        pressed = "mod-active" in (control.get_attribute("class") or "")
        assert len({*states, begin}) > 1 or pressed, f"control {number} moves nothing"
        assert explorer.settled() == begin, "back where it was, it shows what it showed"
        seen |= set(states)
    for part in ("picture", "alt"):
        assert len({getattr(state, part) for state in seen}) > 1, f"the {part} follows the controls"
    fits(explorer)


def fits(explorer: Explorer) -> None:
    """The figure is as wide as can be read, and nothing sticks out of the page."""
    width = explorer.page.viewport_size["width"]
    for part in explorer.box.locator("img.course-plot, .noUi-target, button, input").all():
        box = part.bounding_box()
        assert box is not None
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= width
    assert explorer.box.locator("img.course-plot").bounding_box()["width"] >= NARROWEST
