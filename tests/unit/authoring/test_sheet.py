"""The cheat sheet: what it names is there, every lab is on it, and its formulas are
those the library computes by.
"""

from __future__ import annotations

import ast
import importlib
import math
import pkgutil
import re
from pathlib import Path

import pytest
import torch
from torch import nn

import course_lib.cost
import course_lib.pruning
from course_lib.authoring import sheet
from course_lib.authoring.errors import AuthoringError
from course_lib.cost import transformer_macs
from course_lib.cost.block_formats import nm_bits
from course_lib.cost.encodings import formula_bits
from course_lib.cost.storage import model_bits
from course_lib.pruning import activations, components, heads, layers, tokens, weights
from course_lib.pruning.channels import scale_shift

ROOT = Path(__file__).parents[3]
TEXT = (ROOT / sheet.SOURCE).read_text(encoding="utf-8")
NAMED = set(re.findall(r"`([A-Za-z_0-9]+)`", TEXT))
LABS = sorted((ROOT / "course_lib" / "labs").glob("lab[0-9][0-9].py"))


def names() -> set[str]:
    """All that the modules of pruning and cost define."""
    modules = [
        importlib.import_module(found.name)
        for package in (course_lib.pruning, course_lib.cost)
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
    ]
    return {name for module in modules for name in vars(module) if not name.startswith("_")}


def test_every_function_it_names_is_in_the_library() -> None:
    assert len(NAMED) > 70
    assert names() >= NAMED


@pytest.mark.parametrize("lab", LABS, ids=lambda path: path.stem)
def test_every_lab_is_on_it(lab: Path) -> None:
    """Of what a lab's contract asks the library for, several things."""
    used = {
        node.attr if isinstance(node, ast.Attribute) else node.id
        for node in ast.walk(ast.parse(lab.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute | ast.Name)
    }
    assert len(used & NAMED) >= 2, f"of {lab.stem} the sheet names {sorted(used & NAMED)}"


def test_a_page_for_each_heading() -> None:
    front, back = sheet.pages(TEXT)
    assert front["title"].startswith("Pruning on one sheet") and front["title"] != back["title"]
    assert len(front["sections"]) + len(back["sections"]) == TEXT.count("\n## ")
    assert all(part.startswith("## ") for page in (front, back) for part in page["sections"])


def test_its_bits_are_the_librarys() -> None:
    rows, columns, p, n, k = 64, 96, 0.9, 8, 4
    L = rows * columns
    N = (1 - p) * L
    said = {
        "bitmap": N * n + L,
        "rle": L * (1 - p) / (1 - p ** (2**k)) * (n + k),
        "coo": N * (n + math.ceil(math.log2(L))),
        "csr": N * (n + math.ceil(math.log2(columns)))
        + (rows + 1) * math.ceil(math.log2(math.ceil(N) + 1)),
    }
    for format, bits in said.items():
        assert formula_bits(format, L, p, n, run_bits=k, shape=(rows, columns)) == pytest.approx(
            bits, rel=1e-3
        )
    assert nm_bits(rows, columns, 2, 4, n) == L * 2 / 4 * (n + math.ceil(math.log2(4)))
    assert transformer_macs(2, 128, 64)["total"] == 12 * 2 * 128 * 64**2 + 2 * 2 * 128**2 * 64


def test_its_share_of_both_is_what_a_file_takes() -> None:
    """v + (u − v)(1 − s + 1/32): narrower, then with zeros, and a bias that nobody
    prunes.
    """
    generator = torch.Generator().manual_seed(0)
    whole = {"w": torch.randn(200, 300, generator=generator), "b": torch.ones(200)}
    narrow = {"w": whole["w"][:100, :200].clone(), "b": whole["b"][:100]}
    thin = dict(narrow)
    thin["w"] = narrow["w"] * (torch.rand(100, 200, generator=generator) < 0.3)
    s = float((thin["w"] == 0).double().mean())
    total = model_bits(whole)
    u, v = model_bits(narrow) / total, model_bits({"b": narrow["b"]}) / total
    assert model_bits(thin) / total == pytest.approx(v + (u - v) * (1 - s + 1 / 32), rel=1e-3)


def test_its_criteria_are_the_librarys() -> None:
    w, g, h = torch.randn(3, 50, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(weights.loss_change(w, g, h.abs()), -g * w + h.abs() * w**2 / 2)
    torch.testing.assert_close(
        weights.soft_threshold(w, 0.3), w.sign() * (w.abs() - 0.3).clamp(min=0)
    )
    torch.testing.assert_close(weights.reweighted(w, 0.1, 0.01), 0.1 / (w.abs() + 0.01))
    assert weights.cubic(0.9, 5) == pytest.approx(
        [0.9 * (1 - (1 - t / 5) ** 3) for t in range(1, 6)]
    )
    assert weights.cosine_fraction(30, 0.4, 100) == pytest.approx(
        0.4 / 2 * (1 + math.cos(math.pi * 30 / 100))
    )
    mask = weights.nm_mask(w.view(5, 10), 2, 5, 1)
    assert (mask.view(5, 2, 5).sum(-1) == 2).all()


def test_its_fisher_and_curvature_are_the_librarys() -> None:
    torch.manual_seed(2)
    model, x, y = nn.Linear(3, 4), torch.randn(6, 3), torch.tensor([0, 1, 2, 3, 0, 1])
    fisher, curve = torch.zeros(4, 3), torch.zeros(4, 3)
    for one, label in zip(x, y, strict=True):
        p = model(one).softmax(0)
        for c in range(4):
            (grad,) = torch.autograd.grad(model(one).log_softmax(0)[c], model.weight)
            fisher += grad**2 / len(x) * (c == label)
            curve += p[c].detach() * grad**2 / len(x)
    found = weights.empirical_fisher(model, x, y)["weight"], weights.curvature(model, x)["weight"]
    for ours, librarys in zip((fisher, curve), found, strict=True):
        torch.testing.assert_close(librarys.double(), ours.double(), rtol=1e-4, atol=1e-6)


def test_its_gates_and_its_target_are_the_librarys() -> None:
    log_alpha = torch.linspace(-4, 4, 9, dtype=torch.float64)
    u = torch.full_like(log_alpha, 0.3)
    tau, gamma, zeta = 0.5, -0.1, 1.1
    s = torch.sigmoid((math.log(0.3 / 0.7) + log_alpha) / tau)
    torch.testing.assert_close(
        components.hard_concrete(log_alpha, u, tau, gamma, zeta),
        (s * (zeta - gamma) + gamma).clamp(0, 1),
    )
    torch.testing.assert_close(
        components.open_probability(log_alpha, tau, gamma, zeta),
        torch.sigmoid(log_alpha - tau * math.log(-gamma / zeta)),
    )
    size = torch.tensor(0.7)
    assert float(components.lagrangian(size, 0.3, 2.0, 5.0)) == pytest.approx(2 * 0.4 + 5 * 0.4**2)
    lam1, lam2 = components.dual_step(0.7, 0.3, 0.0, 0.0, 1.0)
    assert lam1 > 0 and lam2 > 0, "ascent: too large a model makes both climb"
    macs = torch.tensor([30.0, 50.0])
    assert float(activations.target_penalty(macs, 100.0, 0.5)) == pytest.approx(
        (0.4 / 0.5 - 1) ** 2
    )


def test_its_depth_and_agreement_are_the_librarys() -> None:
    assert layers.layers_to_keep(12, 5) == [i * 12 // 5 for i in range(5)]
    masks = torch.rand(4, 30, generator=torch.Generator().manual_seed(3)) < 0.6
    R, k, q = len(masks), masks.sum(0).double(), float(masks.double().mean())
    P = ((k * (k - 1) + (R - k) * (R - k - 1)) / (R * (R - 1))).mean()
    chance = q**2 + (1 - q) ** 2
    assert layers.fleiss_kappa(masks) == pytest.approx(float((P - chance) / (1 - chance)))
    a, b = masks[0], masks[1]
    assert layers.overlap(a, b)[1] == pytest.approx(int(a.sum()) * int(b.sum()) / 30)


def test_its_attention_and_its_norm_are_the_librarys() -> None:
    A = torch.randn(1, 2, 5, 5, generator=torch.Generator().manual_seed(4)).softmax(-1)
    real = torch.ones(1, 5, dtype=torch.bool)
    torch.testing.assert_close(
        tokens.attention_received(A, real)[0], A[0].sum((0, 1)) / (2 * 5), check_dtype=False
    )
    assert heads.fixed_patterns(6).shape == (7, 6, 6)
    bn = nn.BatchNorm2d(3).eval()
    nn.init.uniform_(bn.weight, 0.5, 2.0)
    p, q = scale_shift(bn)
    torch.testing.assert_close(p, bn.weight / (bn.running_var + bn.eps).sqrt())
    torch.testing.assert_close(q, bn.bias - p * bn.running_mean)


def test_without_its_source_it_says_so(tmp_path: Path) -> None:
    with pytest.raises(AuthoringError, match="no cheat sheet here"):
        sheet.build(tmp_path)
