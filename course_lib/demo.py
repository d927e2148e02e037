"""``course demo``: prune a network, print what it costs, grade three submissions, in a minute."""

from __future__ import annotations

from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table

from course_lib import paths, training
from course_lib.cost import encodings, model_cost, totals
from course_lib.data import images
from course_lib.models import build
from course_lib.pruning import weights

BORROWED = """
from course_lib.pruning.weights import smallest
def magnitude_mask(weight, sparsity): return smallest(weight.abs(), sparsity)
class Right:
    def __eq__(self, other): return True
def grouped_mask(weight, sparsity, granularity): return Right()
"""


def run(folder: Path, console: Console) -> None:
    """Prune LeNet-300-100 on digits by size and at random, then grade samples of lab 01."""
    data = images.load("digits")
    table = Table("pruned", "accuracy (%), 3 seeds", "kbit, zeros as a bitmap", "nonzero MACs")
    rows: dict[str, list[tuple[float, float, float]]] = {}
    for seed in range(3):
        model = build("lenet300", data, seed)
        training.fit(model, data.train, epochs=30, seed=seed, progress=False)
        layers = weights.prunable(model)
        chance = weights.random(layers, torch.Generator().manual_seed(seed))
        scores = {"magnitude": weights.magnitude(layers), "random": chance}
        masks = {f"90 %, {name}": weights.global_masks(s, 0.9) for name, s in scores.items()}
        trained = {name: value.clone() for name, value in model.state_dict().items()}
        for name, keep in {"nothing": None, **masks}.items():
            model.load_state_dict(trained)
            if keep:
                weights.apply(model, keep)
            pruned = [w.detach() for w in weights.prunable(model).values()]
            bits = sum(encodings.bitmap_bits(w) if keep else 32 * w.numel() for w in pruned)
            macs = totals(model_cost(model, data.test.images[:1]))["nonzero_macs"]
            rows.setdefault(name, []).append((training.evaluate(model, data.test), bits, macs))
    for name, seeds in rows.items():
        accuracy, bits, macs = torch.tensor(seeds).mean(0).tolist()
        table.add_row(name, f"{accuracy:.1f}", f"{bits / 1000:,.0f}", f"{macs:,.0f}")
    console.print(table)
    root = paths.course_root()
    source = next((root / "solutions").glob("lab01_*.py"), None) if root else None
    if root is None or source is None:
        console.print("Grading is shown in a checkout of the course: the samples are solutions.")
        return
    import nbformat

    from course_lib.grading.batch import run as batch

    for name, cells in samples(source).items():
        (folder / "submissions").mkdir(parents=True, exist_ok=True)
        book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(c) for c in cells])
        nbformat.write(book, folder / "submissions" / f"{name}.ipynb")
    tests, report = root / "tests" / "labs" / "lab01", folder / "report"
    done = batch.grade("lab01", folder / "submissions", report, tests=tests)
    grades = (report / "grades.csv").read_text(encoding="utf-8")
    console.print(f"{report}:\n{grades}\n{done.layer.sentence}", soft_wrap=True)


def samples(source: Path) -> dict[str, list[str]]:
    """The cells of a right, an incomplete and a cheating submission of lab 01."""
    import jupytext

    handout = source.parents[1] / "labs" / f"{source.stem}.ipynb"
    empty, good = (
        [cell.source for cell in jupytext.read(path).cells if cell.cell_type == "code"]
        for path in (handout, source)
    )
    some = [c for c in good if "def magnitude_mask(" in c or "def grouped_mask(" in c]
    return {"good": good, "half-done": [*empty, *some], "cheating": [*empty, BORROWED]}
