"""What a student does, in a real JupyterLab: run a walkthrough, answer a question, check, turn green."""

from __future__ import annotations

from driving import Explorer

ANSWER = """def magnitude_mask(weight, sparsity):
    if not 0 <= sparsity <= 1 or weight.isnan().any():
        raise ValueError("sparsity is between 0 and 1, and no weight may be NaN")
    kept = torch.ones(weight.numel(), dtype=torch.bool)
    kept[weight.abs().flatten().argsort(stable=True)[: round(sparsity * weight.numel())]] = False
    return kept.view_as(weight)
"""


def test_a_whole_walkthrough(notebook) -> None:
    """As it stands, with its experiments; the other labs' explorers are driven through in test_explorers.py."""
    notebook.open("walkthroughs/lab00_counting_cost.ipynb")  # the shortest
    notebook.run_all(600)
    explorer = Explorer(notebook, 0)
    before = explorer.state()
    explorer.focus(explorer.controls()[0])
    notebook.page.keyboard.press("ArrowRight")
    after = explorer.settled()
    assert after.number != before.number, "the number follows the slider"
    assert after.picture != before.picture, "the figure follows the slider"
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
