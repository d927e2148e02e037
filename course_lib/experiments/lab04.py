"""Lab 04: network slimming, taken apart column by column: what the famous collapse is
made of, with more seeds, and more images, than a lab has time for.

``course remake lab04_slimming_digits`` (six seeds) and
``course remake lab04_slimming_mnist`` (three) make the shipped results again.

Source: Liu et al. 2017, "Learning Efficient Convolutional Networks through Network
Slimming"; the last column: Liu et al. 2019, "Rethinking the Value of Network Pruning".
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from concurrent.futures import Executor
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from course_lib.cost import model_cost, totals
from course_lib.data.images import ImageData, load
from course_lib.experiments.once import once
from course_lib.models import SmallConvNet, build
from course_lib.models.initial import weights_from
from course_lib.pruning.channels import recalibrate, remove_filters, select_channels
from course_lib.pruning.channels.slimming import filter_norms, penalty
from course_lib.training import evaluate, fit

COLUMNS = (
    "dense",
    "sparse-trained",
    "pruned",
    "pruned + absorbed",
    "BN recalibrated",
    "fine-tuned",
    "same architecture from scratch",
)
# of every training
RECIPE: dict[str, Any] = {"optimizer": "sgd", "weight_decay": 1e-4, "schedule": "cosine"}
DIGITS: dict[str, Any] = {"images": 1097, "epochs": 20, "finetune": 5, "lam": 2e-2, "fraction": 0.7}
MNIST: dict[str, Any] = {"images": 6000, "epochs": 8, "finetune": 3, "lam": 1e-2, "fraction": 0.7}


def train(
    model: nn.Module, data: ImageData, seed: int, *, epochs: int, lr: float = 0.2, lam: float = 0.0
) -> nn.Module:
    """Train in place on ``data.train``, with λΣ|α| in the loss where ``lam`` is not
    zero.
    """
    how = {**RECIPE, "penalty": (lambda: penalty(model, lam)) if lam else None, "progress": False}
    fit(model, data.train, epochs=epochs, lr=lr, seed=seed, **how)
    return model


def slimming_table(
    data: ImageData, seed: int, *, epochs: int, finetune: int, lam: float, fraction: float
) -> dict[str, Any]:
    """One seed of the slimming table, with its controls.

    Args:
        data: trained on ``data.train``, measured on ``data.validation``; the test
            images are looked at for the first, the last two and the controls, once.
        seed: of the first weights, the order of the images, and the random channels.
        epochs: of each training from scratch; finetune: of each fine-tuning.
        lam: weight of the L1 penalty on the scales.
        fraction: of all channels, to be removed.

    Returns:
        ``validation`` and ``test``: accuracies in % by :data:`COLUMNS`, and by "random,
        …" and "filter L1, …" where as many channels of each layer are taken at random,
        or by the L1 norm of their filters; ``widths`` that were left; MACs and
        parameters before and after.
    """
    validation: dict[str, float] = {}
    test: dict[str, float] = {}

    def note(name: str, model: nn.Module, final: bool = False) -> None:
        validation[name] = evaluate(model, data.validation)
        if final:
            test[name] = evaluate(model, data.test)

    def repaired(model: nn.Module, keep: Mapping[str, Tensor]) -> nn.Module:
        smaller, _ = remove_filters(model, keep, example)
        recalibrate(smaller, data.train.images[:1024])
        return smaller

    example = data.train.images[:1]
    dense = train(build("convnet", data, seed=seed), data, seed, epochs=epochs)
    note("dense", dense, final=True)
    sparse = train(build("convnet", data, seed=seed), data, seed, epochs=epochs, lam=lam)
    note("sparse-trained", sparse, final=True)

    keep = select_channels(sparse, fraction)
    pruned, _ = remove_filters(sparse, keep, example, absorb=False)
    note("pruned", pruned)
    absorbed, _ = remove_filters(sparse, keep, example)
    note("pruned + absorbed", absorbed)
    slim = repaired(sparse, keep)
    note("BN recalibrated", slim)
    note("fine-tuned", train(copy.deepcopy(slim), data, seed, epochs=finetune, lr=0.1), final=True)
    widths = [int(kept.sum()) for kept in keep.values()]
    with weights_from(1000 + seed):
        fresh = SmallConvNet(data.shape[0], data.classes, widths)
    note(COLUMNS[-1], train(fresh, data, seed, epochs=epochs), final=True)

    generator = torch.Generator().manual_seed(seed)
    controls = {
        "random": {
            name: kept[torch.randperm(len(kept), generator=generator)]
            for name, kept in keep.items()
        },
        "filter L1": {
            name: _largest(norm, int(keep[name].sum()))
            for name, norm in filter_norms(sparse).items()
        },
    }
    for how, other in controls.items():
        model, _ = remove_filters(sparse, other, example)
        note(f"{how}, pruned + absorbed", model)
        model = repaired(sparse, other)
        note(f"{how}, BN recalibrated", model)
        note(f"{how}, fine-tuned", train(model, data, seed, epochs=finetune, lr=0.1), final=True)
    counts = {
        name: {
            "macs": totals(model_cost(model, example))["macs"],
            "parameters": sum(p.numel() for p in model.parameters()),
        }
        for name, model in (("dense", dense), ("slim", slim))
    }
    return {"validation": validation, "test": test, "widths": widths, **counts}


def _largest(score: Tensor, count: int) -> Tensor:
    kept = torch.zeros(len(score), dtype=torch.bool)
    kept[score.argsort(descending=True, stable=True)[:count]] = True
    return kept


def one_seed(
    name: str, seed: int, folder: Path, images: int, settings: Mapping[str, Any]
) -> dict[str, Any]:
    """:func:`slimming_table` on ``images`` training images of the set ``name``; read
    from ``folder`` if it is there.
    """
    return once(
        folder / f"seed{seed}.json",
        lambda: slimming_table(load(name).subset(images), seed, **settings),
    )


def remake_digits(executor: Executor, folder: Path) -> dict[str, Any]:
    """The table on the digits, six seeds: ``settings``, and ``seeds``, one of
    :func:`slimming_table` each.
    """
    return _remake("digits", 6, DIGITS, executor, folder)


def remake_mnist(executor: Executor, folder: Path) -> dict[str, Any]:
    """The table on MNIST, three seeds: ``settings``, and ``seeds``, one of
    :func:`slimming_table` each.
    """
    return _remake("mnist", 3, MNIST, executor, folder)


def _remake(
    name: str, seeds: int, settings: dict[str, Any], executor: Executor, folder: Path
) -> dict[str, Any]:
    options = {key: value for key, value in settings.items() if key != "images"}
    running = [
        executor.submit(one_seed, name, seed, folder, settings["images"], options)
        for seed in range(seeds)
    ]
    return {"settings": settings, "seeds": [future.result() for future in running]}


RESULTS = {"lab04_slimming_digits": remake_digits, "lab04_slimming_mnist": remake_mnist}
