"""What a room shows at its door runs as it stands there, and everything that it names
is there.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
import textwrap
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from course_lib import pruning
from course_lib.models import SmallConvNet
from unit.small_transformers import inputs_of, model_of

ROOMS = sorted(f"pruning.{found.name}" for found in pkgutil.iter_modules(pruning.__path__))


def run(room: str, **given: Any) -> dict[str, Any]:
    """The example of a room's docstring, run; what it names afterwards."""
    doc = importlib.import_module(f"course_lib.{room}").__doc__ or ""
    (example,) = re.findall(r"^::\n\n((?:    .*\n|\n)+)", doc, re.MULTILINE)
    exec(textwrap.dedent(example), given)
    return given


def bert() -> tuple[nn.Module, dict[str, torch.Tensor]]:
    torch.manual_seed(0)
    return model_of("bert").eval(), inputs_of("bert")


def test_weights() -> None:
    model = nn.Sequential(nn.Linear(20, 30), nn.ReLU(), nn.Linear(30, 10))

    def train(model: nn.Module) -> None:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        for _ in range(3):
            model(torch.randn(8, 20)).square().sum().backward()
            optimizer.step()

    run("pruning.weights", model=model, train=train)
    assert sum(int((p == 0).sum()) for p in model.parameters() if p.ndim > 1) == 810


def test_activations() -> None:
    seen = []
    model, images = SmallConvNet().eval(), torch.randn(4, 1, 8, 8)
    model.conv2.register_forward_hook(lambda module, inputs, output: seen.append(inputs[0]))
    names = run("pruning.activations", model=model, images=images)
    assert names["logits"].shape == (4, 10)
    assert ((seen[0] != 0).flatten(1).sum(1) <= seen[0][0].numel() // 2).all()


def test_channels() -> None:
    images = torch.randn(16, 1, 8, 8)
    names = run("pruning.channels", model=SmallConvNet(), images=images)
    assert names["smaller"](images).shape == (16, 10)
    assert names["report"].parameters[1] < names["report"].parameters[0]


def test_components() -> None:
    model = nn.Sequential(nn.Linear(20, 30), nn.ReLU(), nn.Linear(30, 10))

    def train(gated: nn.Module, penalty: Callable[[], torch.Tensor]) -> None:
        optimizer = torch.optim.Adam(gated.parameters(), lr=0.1)
        for _ in range(80):
            optimizer.zero_grad()
            (gated(torch.randn(8, 20)).square().sum() / 1000 + penalty()).backward()
            optimizer.step()

    names = run("pruning.components", model=model, names=["0.weight", "2.weight"], train=train)
    assert names["smaller"](torch.randn(3, 20)).shape == (3, 10)
    assert sum(p.numel() for p in names["smaller"].parameters()) < sum(
        p.numel() for p in model.parameters()
    )


def test_heads() -> None:
    model, inputs = bert()

    def losses(model: nn.Module, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        logits = model(**batch).logits
        return F.cross_entropy(logits, torch.zeros(len(logits), dtype=torch.long), reduction="none")

    evaluate: Callable[..., float] = lambda model: 0.0  # noqa: E731
    names = run("pruning.heads", model=model, batches=[inputs], losses=losses, evaluate=evaluate)
    assert names["importance"].numel() - int(names["keep"].sum()) == 6
    assert names["smaller"].num_parameters() < model.num_parameters()  # type: ignore[operator]


def test_layers() -> None:
    model, inputs = bert()

    def train(net: nn.Module) -> None:
        net.train()
        for _ in range(3):
            net(**inputs).logits.sum().backward()
        net.eval()

    def losses(net: nn.Module, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        return F.cross_entropy(
            net(**batch).logits, torch.zeros(3, dtype=torch.int64), reduction="none"
        )

    generator = torch.Generator().manual_seed(0)
    names = run(
        "pruning.layers",
        model=model,
        train=train,
        batches=[inputs],
        losses=losses,
        generator=generator,
    )
    assert len(names["half"].bert.encoder.layer) == 2
    assert names["smaller"].num_parameters() < model.num_parameters()  # type: ignore[operator]


def test_tokens() -> None:
    model, inputs = bert()
    names = run("pruning.tokens", model=model, batch=inputs)
    assert (names["ffn"][-1] < names["ffn"][0]).all()


def test_cost(capsys: pytest.CaptureFixture[str]) -> None:
    model, batch = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2)), torch.randn(5, 4)
    run("cost", model=model, batch=batch, weight=torch.eye(4))
    said = capsys.readouterr().out
    assert (
        f"{5 * (12 + 6)} multiply-accumulates" in said and f"{4 * 32 + 4 * 2 + 5 * 3} bits" in said
    )


@pytest.mark.parametrize("room", [*ROOMS, "cost"])
def test_what_it_names_is_there(room: str) -> None:
    module = importlib.import_module(f"course_lib.{room}")
    assert f"test_{room.rpartition('.')[2]}" in globals(), "its example is run here"
    files = {found.name for found in pkgutil.iter_modules(module.__path__)}
    assert set(re.findall(r":mod:`\.(\w+)`", module.__doc__)) == files
    assert [name for name in module.__all__ if not hasattr(module, name)] == []


def test_the_rooms_of_pruning_are_listed() -> None:
    assert re.findall(r":mod:`~course_lib\.(pruning\.\w+)`", pruning.__doc__ or "") == [
        "pruning.weights",
        *ROOMS[:-1],
    ]
