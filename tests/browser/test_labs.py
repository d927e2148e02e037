"""What a student does, in a real JupyterLab: answer a question, check, turn green."""

from __future__ import annotations

ANSWER = """def magnitude_mask(weight, sparsity):
    if not 0 <= sparsity <= 1 or weight.isnan().any():
        raise ValueError("sparsity is between 0 and 1, and no weight may be NaN")
    kept = torch.ones(weight.numel(), dtype=torch.bool)
    kept[weight.abs().flatten().argsort(stable=True)[: round(sparsity * weight.numel())]] = False
    return kept.view_as(weight)
"""


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


def test_a_cell_that_needs_an_unwritten_function_says_so(notebook) -> None:
    notebook.open("labs/lab01_magnitude_pruning.ipynb")
    notebook.run(notebook.cell("from course_lib.grading import check"), 90)
    experiment = notebook.cell("def layer_masks(")
    notebook.write(experiment, "grouped_mask(torch.ones(2, 2), 0.5, 'filter')")
    notebook.run(notebook.cell("def grouped_mask("))
    experiment = notebook.cell("grouped_mask(torch.ones(2, 2), 0.5, 'filter')")
    notebook.run(experiment)
    said = experiment.locator(".jp-OutputArea-output").inner_text()
    assert said.startswith("This cell stopped: grouped_mask is not written yet.")
    assert "question 1.2" in said and len(said.splitlines()) <= 3
