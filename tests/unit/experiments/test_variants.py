"""``DATA = "mnist"`` at the top of a lab: its own lines load the real images, and what
it reads in place of long runs is of these images.
"""

import ast
import re
from pathlib import Path

import pytest
import torch

from course_lib import experiments
from course_lib.data import images
from course_lib.models import build

ROOT = Path(__file__).parents[3]
VARIANTS = [
    ("lab00", "mnist", 55_000),
    ("lab00", "cifar10", 45_000),
    ("lab01", "mnist", 3000),
    ("lab02", "mnist", 6000),
    ("lab03", "mnist", 55_000),
    ("lab04", "mnist", 6000),
    ("lab05", "mnist", 2000),
]
LINES = {"DATA", "SEEDS", "EPOCHS", "SETTINGS", "data"}  # what is run of the settings


def source(lab: str) -> ast.Module:
    (path,) = (ROOT / "solutions").glob(f"{lab}_*.py")
    return ast.parse(path.read_text(encoding="utf-8"))


def bound(node: ast.stmt) -> set[str]:
    return {ast.unparse(t) for t in node.targets} if isinstance(node, ast.Assign) else set()


def with_data(lab: str, variant: str) -> dict[str, object]:
    """What a lab's imports and settings bind, with another word for its data."""
    names: dict[str, object] = {}
    for node in source(lab).body:
        if bound(node) == {"DATA"}:
            node.value = ast.Constant(variant)
        if isinstance(node, ast.Import | ast.ImportFrom) or (bound(node) and bound(node) <= LINES):
            module = ast.fix_missing_locations(ast.Module([node], []))
            exec(compile(module, lab, "exec"), names)
    return names


def test_the_variants_are_those_that_the_labs_have():
    labs = {lab for lab, _, _ in VARIANTS}
    there = {
        path.name[:5]
        for path in (ROOT / "solutions").glob("lab*.py")
        if any(bound(node) == {"DATA"} for node in source(path.name[:5]).body)
    }
    assert labs == there


@pytest.mark.parametrize(
    ("lab", "variant", "train"),
    [
        case if case[:2] == ("lab01", "mnist") else pytest.param(*case, marks=pytest.mark.long)
        for case in VARIANTS
    ],
)
def test_a_lab_loads_the_real_images(lab, variant, train):
    if not images.available()[variant]:
        pytest.skip(f"{variant} is in none of the places where data are looked for")
    names = with_data(lab, variant)
    data = names["data"]
    assert data.name == variant and len(data.train.labels) == train
    assert data.shape == {"mnist": (1, 28, 28), "cifar10": (3, 32, 32)}[variant]
    assert len(data.test.labels) == 10_000
    assert torch.isfinite(build("convnet", data, seed=0)(data.train.images[:2])).all()


def test_what_is_read_in_place_of_long_runs_is_of_these_images():
    """The same lines, whatever ``DATA`` says."""
    lines = [
        node
        for node in ast.walk(source("lab02"))
        if isinstance(node, ast.Call) and re.match(r"experiments\.read\(f", ast.unparse(node))
    ]
    assert lines
    for line in lines:
        code = compile(ast.Expression(line), "lab02", "eval")
        digits, mnist = (
            eval(code, {"experiments": experiments, "DATA": variant})
            for variant in ("digits", "mnist")
        )
        assert len(digits) > len(mnist) >= 3
        assert digits.columns.equals(mnist.columns)
