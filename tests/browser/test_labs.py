"""What a student does, in a real JupyterLab: answer, check, turn green; move an explorer, see number and figure follow."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# later labs add one line each: the lab, and the keys that move its explorer's first slider
EXPLORERS = [
    ("lab00_counting_cost", "ArrowRight"),
    ("lab01_magnitude_pruning", "ArrowRight"),
    ("lab03_lottery_tickets", "ArrowRight"),
    ("lab04_structure", "ArrowRight"),
    ("lab07_heads", "ArrowRight"),
    ("lab10_tokens", "ArrowRight"),
]
ANSWER = """def magnitude_mask(weight, sparsity):
    if not 0 <= sparsity <= 1 or weight.isnan().any():
        raise ValueError("sparsity is between 0 and 1, and no weight may be NaN")
    kept = torch.ones(weight.numel(), dtype=torch.bool)
    kept[weight.abs().flatten().argsort(stable=True)[: round(sparsity * weight.numel())]] = False
    return kept.view_as(weight)
"""


@pytest.mark.parametrize(("lab", "key"), EXPLORERS)
def test_the_explorer_follows(notebook, lab: str, key: str) -> None:
    notebook.open(f"explorers/{lab}.ipynb")  # the lab's other cells are run by nbval
    notebook.run_all(600)  # two pages at a time share two cores
    follow(notebook, key)


def test_a_whole_walkthrough(notebook) -> None:
    notebook.open("walkthroughs/lab00_counting_cost.ipynb")  # the shortest
    notebook.run_all(600)
    follow(notebook, "ArrowRight")


def follow(notebook, key: str) -> None:
    """Move the last explorer's first slider; number and figure must follow."""
    explorer = notebook.page.locator(".course-explorer").last
    explorer.scroll_into_view_if_needed()
    number, figure = explorer.locator(".course-number"), explorer.locator(".course-figure img")
    text, picture = number.inner_text(), figure.get_attribute("src")
    slider = explorer.locator(".noUi-handle").first
    slider.focus()
    for _ in range(3):
        notebook.page.keyboard.press(key)
    for _ in range(200):  # the page makes new elements for every update: look them up afresh
        if number.inner_text() != text and figure.get_attribute("src") != picture:
            break
        notebook.page.wait_for_timeout(100)
    assert number.inner_text() != text, "the number follows the slider"
    assert figure.get_attribute("src") != picture, "the figure follows the slider"
    assert figure.get_attribute("alt"), "the figure has a text alternative"
    assert not notebook.errors


def test_a_students_first_question(notebook) -> None:
    notebook.open("labs/lab01_magnitude_pruning.ipynb")
    notebook.run(notebook.cell("from course_lib.grading import check"), 90)
    check = notebook.cell('check("1.1")')
    answer = notebook.cell("def magnitude_mask(")
    notebook.run(answer)
    notebook.run(check)
    table = check.locator(".course-check")
    assert "not written yet" in table.inner_text()
    notebook.write(answer, ANSWER.replace("weight.abs().", "weight."))
    notebook.run(answer)
    notebook.run(check)
    assert "✗" in check.locator(".course-check").inner_text()
    notebook.write(answer, ANSWER)
    notebook.run(answer)
    notebook.run(check)
    text = check.locator(".course-check").inner_text()
    assert "✗" not in text
    assert "✓" in text
    assert check.locator("text=Traceback").count() == 0
    assert not notebook.errors
