"""Masks and scores of weights beside torch's own, BackPACK where it is installed, and
plain loops.
"""

from __future__ import annotations

import copy
import importlib.util
from collections.abc import Callable
from typing import Any

import torch
from run import Row
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils import prune

from course_lib.models import LeNet300, SmallConvNet
from course_lib.pruning.weights import (
    apply,
    curvature,
    empirical_fisher,
    global_masks,
    input_aware,
    magnitude,
    nm_mask,
    prunable,
)

Scores = dict[str, Tensor]


def resnet50() -> nn.Module:
    """torchvision's, randomly initialised: nothing is downloaded."""
    from torchvision.models import resnet50 as build

    return build(weights=None).eval()


def masks(name: str) -> Row:
    """From the weights to a model whose pruned weights are zero, as both docs say."""
    dense, sparsity = resnet50(), 0.9

    def ours(model: nn.Module) -> nn.Module:
        apply(model, global_masks(magnitude(prunable(model)), sparsity))
        return model

    def theirs(model: nn.Module) -> nn.Module:
        layers = [m for m in model.modules() if isinstance(m, nn.Conv2d | nn.Linear)]
        parts = [(layer, "weight") for layer in layers]
        prune.global_unstructured(parts, pruning_method=prune.L1Unstructured, amount=sparsity)
        for layer in layers:
            prune.remove(layer, "weight")
        return model

    def same(one: nn.Module, other: nn.Module) -> None:
        """But for ties: torch leaves open which of two equal weights is pruned."""
        values = [torch.cat([p.flatten() for p in prunable(m).values()]) for m in (one, other)]
        assert int((values[0] == 0).sum()) == int((values[1] == 0).sum())
        assert torch.equal(*(v.abs().sort().values for v in values))

    peers = {"torch.nn.utils.prune": theirs}
    return Row(name, ours, peers, same, lambda: (copy.deepcopy(dense),), rounds=5)


def patterns(name: str) -> Row:
    layers = [m.weight.detach() for m in resnet50().modules() if isinstance(m, nn.Conv2d)]
    matrices = [w.flatten(1) for w in layers if w[0].numel() % 4 == 0]

    def formula(w: Tensor) -> Tensor:
        """As ``WeightNormSparsifier`` with blocks of (1, 4) and two zeros a block."""
        blocks = w.abs().view(-1, 4)
        smallest = blocks.topk(2, dim=1, largest=False).indices
        kept = torch.ones_like(blocks, dtype=torch.bool)
        return kept.scatter_(1, smallest, False).view(len(w), -1)

    def same(ours: list[Tensor], theirs: list[Tensor]) -> None:
        for w, one, other in zip(matrices, ours, theirs, strict=True):  # but for ties
            left = [(w.abs() * mask).view(-1, 4).sort(dim=1).values for mask in (one, other)]
            assert torch.equal(*left)

    def ours() -> list[Tensor]:
        return [nm_mask(w, 2, 4) for w in matrices]

    return Row(name, ours, {"torch's formula": lambda: [formula(w) for w in matrices]}, same)


def backpack_diagonal(model: nn.Module, x: Tensor, y: Tensor, fisher: bool) -> Scores:
    """As BackPACK's documentation does it, one batch."""
    from backpack import backpack, extend
    from backpack.extensions import DiagGGNExact, SumGradSquared

    model, loss = extend(model), extend(nn.CrossEntropyLoss(reduction="sum" if fisher else "mean"))
    model.zero_grad()
    with backpack(SumGradSquared() if fisher else DiagGGNExact()):
        loss(model(x), y).backward()
    parameters = dict(model.named_parameters())
    if fisher:
        return {n: p.sum_grad_squared / len(x) for n, p in parameters.items()}
    return {n: p.diag_ggn_exact for n, p in parameters.items()}


def loop(model: nn.Module, x: Tensor, y: Tensor, fisher: bool) -> Scores:
    """A backward pass per sample, or one for each of its logits."""
    total = {name: torch.zeros_like(p) for name, p in model.named_parameters()}
    for sample, label in zip(x, y, strict=True):
        logits = model(sample[None])
        terms = [(1.0, F.cross_entropy(logits, label[None]))]
        if not fisher:
            shares = logits.detach().softmax(1)[0].tolist()
            terms = [*zip(shares, logits.log_softmax(1)[0], strict=True)]
        for weight, term in terms:
            gradients = torch.autograd.grad(term, list(model.parameters()), retain_graph=True)
            for (name, _), g in zip(model.named_parameters(), gradients, strict=True):
                total[name] += weight * g.square() / len(x)
    return total


def close(ours: Scores, theirs: Scores) -> None:
    for one, other in zip(ours.values(), theirs.values(), strict=True):
        torch.testing.assert_close(one, other.double(), rtol=1e-3, atol=1e-7)


def diagonal(name: str) -> Row:
    fisher, lenet = name.startswith("Fisher"), "LeNet" in name
    model = (LeNet300(64) if lenet else SmallConvNet()).eval()
    x, y = torch.randn(64, 1, 8, 8), torch.randint(10, (64,))
    x, y = (x, y) if lenet else (x[:16], y[:16])
    peers: dict[str, Callable[[], Any]] = {"loop": lambda: loop(model, x, y, fisher)}
    if lenet and importlib.util.find_spec("backpack"):  # extends modules in a row
        one, two, three = (copy.deepcopy(m) for m in model.modules() if isinstance(m, nn.Linear))
        row = nn.Sequential(nn.Flatten(), one, nn.ReLU(), two, nn.ReLU(), three)
        peers["BackPACK"] = lambda: backpack_diagonal(row, x, y, fisher)
    ours = (lambda: empirical_fisher(model, x, y)) if fisher else (lambda: curvature(model, x))
    return Row(name, ours, peers, close)


def wanda(name: str) -> Row:
    """Beside its formula, with float64 sums and scores as ours has them."""
    from transformers import BertConfig, BertModel

    model, ids = BertModel(BertConfig()).eval(), torch.randint(1000, (8, 128))
    names = [name for name in prunable(model) if "encoder" in name]

    def formula() -> Scores:
        scores: Scores = {}

        def hook(name: str, layer: nn.Module) -> Callable[..., None]:
            def note(_: nn.Module, inputs: tuple[Tensor, ...]) -> None:
                norms = inputs[0].flatten(0, -2).double().square().sum(0).sqrt()
                scores[name] = layer.weight.detach().double().abs() * norms

            return note

        layers = {name: model.get_submodule(name.removesuffix(".weight")) for name in names}
        hooks = [m.register_forward_pre_hook(hook(name, m)) for name, m in layers.items()]
        with torch.no_grad():
            model(input_ids=ids)
        for h in hooks:
            h.remove()
        return scores

    def same(ours: Scores, theirs: Scores) -> None:
        for name, score in ours.items():
            torch.testing.assert_close(score, theirs[name], rtol=1e-9, atol=1e-12)

    def ours() -> Scores:
        return input_aware(model, [{"input_ids": ids}], names)

    return Row(name, ours, {"plain formula": formula}, same, rounds=3)


ROWS = {
    "global 90 % mask, ResNet-50": masks,
    "2:4 masks, ResNet-50": patterns,
    "Fisher diagonal, LeNet-300-100, 64 samples": diagonal,
    "Gauss-Newton, LeNet-300-100, 64 samples": diagonal,
    "Fisher diagonal, conv net, 16 samples": diagonal,
    "Gauss-Newton, conv net, 16 samples": diagonal,
    "Wanda, BERT-base, 8 texts of 128": wanda,
}
