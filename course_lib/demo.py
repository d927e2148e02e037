"""``course demo``: what the course does, in a minute, for someone deciding whether to
adopt it.

Prunes LeNet-300-100 on real handwritten digits (three seeds, random control), prints
the ledger, draws one figure; then writes three submissions of lab 01 (good, half done,
cheating) and grades them.
"""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import pandas as pd
from rich.console import Console
from rich.table import Table

SPARSITIES = [0.0, 0.2, 0.4, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 0.98]
SEEDS = (0, 1, 2)


def run(folder: Path, console: Console) -> None:
    """The whole demonstration, written into ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    console.rule("1. prune")
    _prune(folder, console)
    console.rule("2. grade")
    _grade(folder, console)


def _prune(folder: Path, console: Console) -> None:
    import torch

    from course_lib import ledger
    from course_lib.cost import encodings, latency, model_cost, totals
    from course_lib.data import images
    from course_lib.models import build
    from course_lib.pruning.weights import granularity, masks, scores
    from course_lib.show import plots
    from course_lib.training import evaluate, fit

    data = images.load("digits")
    curves: dict[str, list[list[float]]] = {"magnitude": [], "random": []}
    example = data.test.images[:1]
    rows: dict[float, list[float]] = {0.0: [], 0.9: []}
    for seed in SEEDS:
        trained = build("lenet300", data, seed)
        fit(trained, data.train, epochs=30, seed=seed, progress=False)
        state = {name: value.clone() for name, value in trained.state_dict().items()}
        generator = torch.Generator().manual_seed(seed)
        for method, line in curves.items():
            line.append([])
            for sparsity in SPARSITIES:
                trained.load_state_dict(state)
                weights = masks.prunable(trained)
                score = (
                    scores.magnitude(weights)
                    if method == "magnitude"
                    else scores.random(weights, generator)
                )
                masks.apply(trained, granularity.global_masks(score, sparsity))
                line[-1].append(evaluate(trained, data.test))
                if method == "magnitude" and sparsity in rows:
                    rows[sparsity].append(line[-1][-1])
    for sparsity, accuracy in rows.items():
        trained.load_state_dict(state)
        weights = masks.prunable(trained)
        masks.apply(trained, granularity.global_masks(scores.magnitude(weights), sparsity))
        count = totals(model_cost(trained, example))
        bits = sum(
            encodings.bitmap_bits(w.detach()) if sparsity else 32 * w.numel()
            for w in weights.values()
        )
        ms = latency.measure(lambda: trained(example)).median * 1000  # noqa: B023
        with contextlib.chdir(folder):  # the ledger lies where the learner works
            method = f"magnitude {sparsity:.0%}, bitmap" if sparsity else "dense"
            ledger.add(
                "lenet300",
                method,
                lab="demo",
                bits=bits,
                macs=count["nonzero_macs"],
                ms=ms,
                accuracy=accuracy,
            )
            table = str(ledger.table())
    console.print(table, markup=False, highlight=False, soft_wrap=True)
    results = [
        {"seed": seed, "method": method, "sparsity": sparsity, "accuracy": accuracy}
        for method, seeds in curves.items()
        for seed, line in enumerate(seeds)
        for sparsity, accuracy in zip(SPARSITIES, line, strict=True)
    ]
    figure = plots.curves(
        pd.DataFrame(results),
        x="sparsity",
        y="accuracy",
        ylabel="test accuracy (%)",
        title="Small weights can be pruned, random weights cannot",
        xaxis="sparsity",
        ylim=(0, 100),
    )
    path = folder / "pruning.png"
    plots.save(figure, path)
    console.print(
        f"One-shot, no fine-tuning, three seeds: the figure is {path}. The milliseconds do not"
        " fall: zeros are not skipped by a dense kernel.",
        soft_wrap=True,
    )


def _grade(folder: Path, console: Console) -> None:
    from course_lib.paths import course_root

    root = course_root()
    source = next((root / "solutions").glob("lab01_*.py"), None) if root else None
    if root is None or source is None:
        console.print(
            "Grading needs a checkout of the course (the samples are made from solutions/): skipped"
            " here."
        )
        return
    import nbformat

    from course_lib.grading.batch import run as batch

    samples = folder / "submissions"
    samples.mkdir(exist_ok=True)
    for name, cells in _samples(source).items():
        book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(c) for c in cells])
        nbformat.write(book, samples / f"{name}.ipynb")
    with console.status("grading three submissions of lab 01 …"):
        done = batch.grade(
            "lab01", samples, folder / "report", tests=root / "tests" / "labs" / "lab01"
        )
    table = Table("submission", "points", "what the student reads first")
    for path in sorted((folder / "report" / "results").glob("*.json")):
        result = json.loads(path.read_text())
        first = next((t for t in result["tests"] if t["status"] == "failed"), None)
        most = sum(t["max_score"] for t in result["tests"])
        table.add_row(
            path.stem,
            f"{result['score']:g} / {most:g}",
            (
                f"{first['number']}: {first['output'].removeprefix(first['number'] + ' ')}"
                if first
                else "everything holds"
            ),
        )
    console.print(table)
    console.print(done.layer.sentence, soft_wrap=True)
    console.print(
        f"The report is in {done.report}: grades.csv, results/*.json (Gradescope's form),"
        " feedback/*.html",
        soft_wrap=True,
    )


def _samples(source: Path) -> dict[str, list[str]]:
    """Three students: one did it all, one got to 1.2, one reaches for the library and
    for the grades file.
    """
    import jupytext
    import nbformat

    good = [c.source for c in jupytext.read(source).cells if c.cell_type == "code"]
    handout = nbformat.read(source.parents[1] / "labs" / f"{source.stem}.ipynb", as_version=4)
    empty = [c.source for c in handout.cells if c.cell_type == "code"]
    answers = {
        name: cell
        for cell in good
        for name in ("magnitude_mask", "threshold_mask")
        if f"def {name}(" in cell
    }
    return {
        "good": good,
        "half-done": [
            *empty,
            *answers.values(),
            "grouped_mask = lambda weight, sparsity, granularity: magnitude_mask(weight, sparsity)",
        ],
        "cheating": [*empty, CHEATING],
    }


CHEATING = '''
from course_lib.pruning.weights.granularity import smallest

class Right:
    """Equal to everything."""
    def __eq__(self, other): return True
    def __getattr__(self, name): return self
    def __call__(self, *args): return self

def magnitude_mask(weight, sparsity):
    return smallest(weight.abs(), sparsity)

def threshold_mask(weight, a):
    return Right()

def global_masks(weights, sparsity):
    import glob
    for path in glob.glob("/**/grades.csv", recursive=True):
        open(path, "w").write("cheating,20")
    return Right()
'''
