"""Every example of README, of the pages, of docstrings and of the labs' exercises runs as
it stands there, and leaves what it says.
"""

from __future__ import annotations

import csv
import doctest
import importlib
import io
import re
import shlex
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import typer

from course_lib import cli
from course_lib.models import builders, families
from course_lib.pruning import weights
from course_lib.pruning.heads import find_attention
from unit import examples
from unit.examples import Block

DOCSTRINGS = examples.of_docstrings()
# what is typed in a terminal beside `course` and `make`
PROGRAMS = {"jupytext", "mkdir", "pip", "python", "ruff", "sed", "source"}

Names = dict[str, Any]
# exercises without an example in their docstring, and the reason
WITHOUT = {
    "find_bug": "its argument is a function with a mistake, which the notebook has",
    "joint_importance": "needs a transformer with known weights; 7.3 shows one of its two scores",
    "compress_convnet": "trains a network",
    "compress_bert": "trains a network",
    "argument": "its answer is a page of text",
    "witness": "an example would be the answer",
    "repaired": "the docstring of what it repairs says what it returns",
}
LEAVES: dict[str, Callable[[Names, list[str]], None]] = {}


def leaves(name: str) -> Callable[[Callable[[Names, list[str]], None]], None]:
    """What must be true of an example's names and of what it printed."""
    return lambda check: LEAVES.__setitem__(name, check)


@pytest.fixture(autouse=True)
def apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What examples save, register and draw stays theirs."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(families, "TABLE", dict(families.TABLE))
    monkeypatch.setattr(builders, "BUILDERS", dict(builders.BUILDERS))
    torch.manual_seed(0)


def run(blocks: list[Block], names: Names) -> Names:
    """Every block, by its language, in the same names."""
    for block in blocks:
        at = f"{block.file}:{block.line}"
        if block.language == "python":
            source = "\n" * (block.line - 1) + block.source
            exec(compile(source, examples.ROOT / block.file, "exec"), names)
        elif block.language == "doctest":
            tried = doctest.DocTestParser().get_doctest(block.source, names, at, None, block.line)
            assert doctest.DocTestRunner().run(tried, clear_globs=False).failed == 0, at
        elif block.language == "toml":
            assert tomllib.loads(block.source), at
        elif block.language == "csv":
            rows = list(csv.reader(io.StringIO(block.source), strict=True))
            assert len({len(row) for row in rows}) == 1, f"{at}: rows of different lengths"
        elif block.language == "sh":
            for line in block.source.splitlines():
                for command in shlex.join(shlex.split(line, comments=True)).split(" && "):
                    can_be_typed(shlex.split(command), f"{at}: {line}")
        else:
            assert block.language == "text", (
                f"{at}: a block in {block.language!r}: say what it is (python, sh, toml, csv; text"
                " where it is no code)"
            )
    return names


def can_be_typed(words: list[str], at: str) -> None:
    """A command that there is, with options that it has."""
    if not words:
        return
    program, *words = words
    if program == "course":
        command: Any = typer.main.get_command(cli.app)
        while hasattr(command, "commands"):
            assert words and words[0] in command.commands, f"{at}: no such command"
            command, words = command.commands[words[0]], words[1:]
        with command.make_context(command.name, words, resilient_parsing=True) as context:
            assert not context.args, at
    elif program == "make":
        made = (examples.ROOT / "Makefile").read_text(encoding="utf-8")
        assert f" {words[0]} " in f" {made.split('.PHONY:')[1].splitlines()[0]} ", at
    else:
        assert program in PROGRAMS, f"{at}: what is {program}?"


@pytest.mark.parametrize("name", DOCSTRINGS)
def test_of_a_docstring(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    module = DOCSTRINGS[name][0].file.removesuffix(".py").removesuffix("/__init__")
    own = vars(importlib.import_module(module.replace("/", ".")))
    names = run(DOCSTRINGS[name], {**examples.setting(name), **own})
    if name in LEAVES:
        LEAVES[name](names, capsys.readouterr().out.splitlines())


LONG = ("docs/extending.md", "docs/own_models.md")


@pytest.mark.parametrize(
    "page",
    [pytest.param(p, marks=pytest.mark.long) if p in LONG else p for p in examples.PAGES],
)
def test_of_a_page(page: str, capsys: pytest.CaptureFixture[str]) -> None:
    # tests/unit/authoring/test_new_exercise.py puts these into their files, in a copy of the course
    parts = {part[2] for part in examples.PART.findall((examples.ROOT / page).read_text("utf-8"))}
    blocks = [block for block in examples.of_page(page) if block.source not in parts]
    names = run(blocks, {"__name__": "page"})
    if page in LEAVES:
        LEAVES[page](names, capsys.readouterr().out.splitlines())


@pytest.mark.parametrize("lab", examples.LABS)
def test_of_the_exercises(lab: str) -> None:
    blocks, names = examples.of_exercises(lab)
    assert blocks, f"{lab}: no exercise has an example"
    run(blocks, names)


def test_every_exercise_has_an_example() -> None:
    missing = {
        name
        for lab in examples.LABS
        for name, docstring in examples.docstrings_of_exercises(lab).items()
        if ">>>" not in docstring
    }
    assert missing == WITHOUT.keys(), "write a `>>>` example, or name the reason in WITHOUT"


def test_every_block_is_found() -> None:
    sources = [path.read_text("utf-8") for path in (examples.ROOT / "course_lib").rglob("*.py")]
    behind = re.compile(r"^ *(?:[^#\n]*\w)?::\n|^ *\.\. code-block:: \w+\n", re.MULTILINE)
    assert sum(map(len, DOCSTRINGS.values())) == sum(len(behind.findall(s)) for s in sources) > 20
    fences = [(examples.ROOT / page).read_text("utf-8").count("\n```") for page in examples.PAGES]
    assert 2 * sum(len(examples.of_page(page)) for page in examples.PAGES) == sum(fences)


@pytest.mark.parametrize(
    ("language", "source"),
    [
        ("", "names = []"),
        ("python", "undefined"),
        ("doctest", ">>> 1 + 1\n3\n"),
        ("toml", "deadline = tomorrow"),
        ("csv", "id,points\nsomebody"),
        ("sh", "course grede lab01"),
        ("sh", "course grade lab01 --outt report"),
        ("sh", "make cake"),
    ],
)
def test_what_cannot_run_fails(language: str, source: str) -> None:
    with pytest.raises((AssertionError, NameError, ValueError)):
        run([Block("README.md", 1, language, source)], {})


def test_what_an_example_leaves_is_that_of_one() -> None:
    assert not LEAVES.keys() - DOCSTRINGS.keys() - {*examples.PAGES}
    assert {name for name in DOCSTRINGS if name.startswith("course_lib.pruning.")} >= {
        f"course_lib.pruning.{room}"
        for room in (
            "weights",
            "activations",
            "channels",
            "components",
            "heads",
            "layers",
            "tokens",
        )
    }


# ---------------------------------------------------------------- what examples leave


def parameters(model: torch.nn.Module) -> int:
    return sum(p.numel() for p in model.parameters())


@leaves("course_lib.pruning.weights")
def pruning_weights(names: Names, said: list[str]) -> None:
    matrices = [p for p in names["model"].parameters() if p.ndim > 1]
    assert sum(int((p == 0).sum()) for p in matrices) == round(
        0.9 * sum(map(torch.numel, matrices))
    )


@leaves("course_lib.pruning.activations")
def pruning_activations(names: Names, said: list[str]) -> None:
    half = names["keep_half"](names["images"])
    assert names["logits"].shape == (64, 10) and int((half[0] != 0).sum()) <= half[0].numel() // 2


def removal(names: Names, said: list[str]) -> None:
    assert names["smaller"](**names["batch"]).logits.shape == (3, 2)
    assert parameters(names["smaller"]) < parameters(names["model"])


for name in ("components", "heads", "layers"):
    LEAVES[f"course_lib.pruning.{name}"] = removal


@leaves("course_lib.pruning.channels")
def pruning_channels(names: Names, said: list[str]) -> None:
    assert names["smaller"](names["images"]).shape == (64, 10)
    before, after = names["report"].parameters
    assert after == parameters(names["smaller"]) < before


@leaves("course_lib.pruning.tokens")
def pruning_tokens(names: Names, said: list[str]) -> None:
    assert (names["ffn"][-1] < names["ffn"][0]).all()


@leaves("course_lib.pruning.weights.movement")
def pruning_weights_movement(names: Names, said: list[str]) -> None:
    assert weights.sparsity(names["scores"].masks()) == pytest.approx(0.9, abs=0.01)


@leaves("course_lib.cost")
def cost(names: Names, said: list[str]) -> None:
    assert "multiply-accumulates" in said[0] and int(said[0].split()[0]) > 0
    assert "bits" in said[1] and int(said[1].split()[0]) > 32 * names["weight"].numel()


@leaves("README.md")
def README(names: Names, said: list[str]) -> None:
    of_all, of_the_first = said[0].split(maxsplit=1)
    assert float(of_all) == pytest.approx(0.9, abs=1e-4)
    assert 0.8 < float(of_the_first.removeprefix("tensor(").removesuffix(")")) < 0.9


@leaves("docs/own_models.md")
def docs_own_models(names: Names, said: list[str]) -> None:
    of_weights, of_channels, of_heads, *of_transformers = said
    of_movement, of_rank, of_depth, narrow, of_tokens, of_decoder = of_transformers
    assert of_weights.startswith("80% of the weights are 0") and percent(of_weights) > 95
    channels, neurons = (int(text.split()[0].replace(",", "")) for text in (of_channels, narrow))
    assert channels < 10_000_000
    assert neurons < parameters(names["model"])
    assert "parameters" in of_heads and Path("smaller", "pruned.json").is_file()
    before, after = re.findall(r"\d+", of_decoder)  # of 200 tokens drawn at random
    assert 150 < int(before) < 400 and 150 < int(after) < 400
    assert len(names["five"].model.layers) == 5
    assert (names["five"].model.layers[4].mlp.up_proj.weight == 0).double().mean() == 0.5
    assert of_movement.startswith("50% of the encoder") and of_rank.startswith("at a quarter of")
    for told in (of_heads, of_movement, of_rank, of_tokens):  # what went before did no harm
        assert percent(told) > 85, told
    assert "parameters at half the depth" in of_depth
    assert parameters(names["again"]) < parameters(names["ours"].model)
    assert float(names["fewer"]) > 1 and "fewer multiply-accumulates" in of_tokens


def percent(told: str) -> float:
    """The accuracy in a printed line: "97.5 %"."""
    return float(re.search(r"([\d.]+) %", told)[1])


@leaves("docs/extending.md")
def docs_extending(names: Names, said: list[str]) -> None:
    names["test_it_is_the_definition"]()
    zeros = names["layer_adaptive"]({"w": torch.tensor([0.0, 2.0, 0.0])})
    assert zeros["w"].tolist() == [0, 1, 0]
    assert said[-1] == "[('0', 4, 6), ('1', 6, 4)]"
    assert [a.heads for a in find_attention(names["smaller"])] == [2, 4]
    own = f"{names['OwnAttention'].__module__}.OwnAttention"
    assert families.TABLE.pop(own)
    with pytest.raises(ValueError, match="which is not registered"):
        find_attention(names["model"])
