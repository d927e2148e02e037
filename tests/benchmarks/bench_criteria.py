"""What the loss and the input say of weights, beside BackPACK and plain loops:
``python tests/benchmarks/bench_criteria.py``.

Diagonals of the empirical Fisher and of the Gauss–Newton matrix for LeNet-300-100 and
the small conv net, beside BackPACK's ``SumGradSquared`` and ``DiagGGNExact``
(``pip install backpack-for-pytorch``; without it beside a backward pass a sample), and
Wanda's score of a BERT-base beside its formula, with float64 sums and scores as ours
has them. The same numbers first. Each ratio is
theirs / ours: above 1, ours is faster.
"""

from __future__ import annotations

import copy
import importlib.util
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from course_lib.cost.latency import compare
from course_lib.models import LeNet300, SmallConvNet
from course_lib.pruning.weights import curvature, empirical_fisher, input_aware, prunable

Scores = dict[str, Tensor]


def backpack_diagonal(model: nn.Module, x: Tensor, y: Tensor, fisher: bool) -> Scores:
    """As BackPACK's documentation does it, one batch."""
    from backpack import backpack, extend
    from backpack.extensions import DiagGGNExact, SumGradSquared

    model, loss = extend(model), extend(nn.CrossEntropyLoss(reduction="sum" if fisher else "mean"))
    model.zero_grad()
    with backpack(SumGradSquared() if fisher else DiagGGNExact()):
        loss(model(x), y).backward()
    found = {
        n: (p.sum_grad_squared / len(x)) if fisher else p.diag_ggn_exact
        for n, p in model.named_parameters()
    }
    return {name: value.detach().clone() for name, value in found.items()}


def loop(model: nn.Module, x: Tensor, y: Tensor, fisher: bool) -> Scores:
    """A backward pass a sample, or one for each of its logits."""
    total = {name: torch.zeros_like(p) for name, p in model.named_parameters()}
    for sample, label in zip(x, y, strict=True):
        logits = model(sample[None])
        if fisher:
            terms = [(1.0, F.cross_entropy(logits, label[None]))]
        else:
            terms = [
                (float(p), log)
                for p, log in zip(
                    logits.detach().softmax(1)[0], logits.log_softmax(1)[0], strict=True
                )
            ]
        for weight, term in terms:
            gradients = torch.autograd.grad(term, list(model.parameters()), retain_graph=True)
            for (name, _), g in zip(model.named_parameters(), gradients, strict=True):
                total[name] += weight * g.square() / len(x)
    return total


def sequential(model: nn.Module) -> nn.Module:
    """What BackPACK can extend: modules in a row. LeNet-300-100 is that; the conv net's
    form is kept in ours alone.
    """
    layers = [m for m in model.modules() if isinstance(m, nn.Linear)]
    return nn.Sequential(nn.Flatten(), layers[0], nn.ReLU(), layers[1], nn.ReLU(), layers[2])


def diagonals(name: str, model: nn.Module, x: Tensor, y: Tensor, peer: str) -> None:
    model = model.eval()
    theirs = sequential(copy.deepcopy(model)) if peer == "BackPACK" else model
    of = backpack_diagonal if peer == "BackPACK" else loop
    for what, ours in (
        ("Fisher", lambda: empirical_fisher(model, x, y)),
        ("Gauss-Newton", lambda: curvature(model, x)),
    ):
        fisher = what == "Fisher"

        def them(fisher: bool = fisher) -> Scores:
            return of(theirs, x, y, fisher)

        for one, other in zip(ours().values(), them().values(), strict=True):
            torch.testing.assert_close(one, other.double(), rtol=1e-3, atol=1e-7)
        ratio = _ratio(ours, them)
        print(f"{name}, {len(x)} samples, {what} diagonal: {peer} / ours = {ratio:.2f}")


def wanda() -> None:
    from transformers import BertConfig, BertModel

    torch.manual_seed(0)
    model = BertModel(BertConfig()).eval()
    ids = torch.randint(1000, (8, 128))
    names = [name for name in prunable(model) if "encoder" in name]
    linear = [name.removesuffix(".weight") for name in names]

    def formula() -> Scores:
        squares: Scores = {}

        def hook(name: str) -> Callable[..., None]:
            def note(module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
                x = inputs[0].reshape(-1, inputs[0].shape[-1]).double()
                squares[name] = x.square().sum(0)

            return note

        hooks = [model.get_submodule(name).register_forward_hook(hook(name)) for name in linear]
        with torch.no_grad():
            model(input_ids=ids)
        for h in hooks:
            h.remove()
        return {
            f"{n}.weight": model.get_submodule(n).weight.detach().double().abs() * squares[n].sqrt()
            for n in linear
        }

    def ours() -> Scores:
        return input_aware(model, [{"input_ids": ids}], names)

    theirs = formula()
    for name, score in ours().items():
        torch.testing.assert_close(score, theirs[name], rtol=1e-9, atol=1e-12)
    print(
        f"BERT-base, 8 texts of 128, Wanda's score: plain formula / ours = {_ratio(ours, formula, 2):.2f}"
    )


def _ratio(ours: Callable[[], object], theirs: Callable[[], object], repeats: int = 5) -> float:
    times = compare({"ours": ours, "theirs": theirs}, warmup=1, repeats=repeats, threads=1)
    return times["theirs"].median / times["ours"].median


def main() -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    x, y = torch.randn(64, 1, 8, 8), torch.randint(10, (64,))
    lenet = LeNet300(64)
    diagonals("LeNet-300-100", lenet, x, y, "loop")
    if importlib.util.find_spec("backpack"):
        diagonals("LeNet-300-100", lenet, x, y, "BackPACK")
    diagonals("conv net", SmallConvNet(), x[:16], y[:16], "loop")
    wanda()


if __name__ == "__main__":
    main()
