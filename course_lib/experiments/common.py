"""What the runs of several labs share."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pandas as pd
import torch
from torch import Tensor, nn

from course_lib.cost import latency, model_cost, totals
from course_lib.cost.storage import model_bits
from course_lib.data import pieces
from course_lib.data.images import ImageData
from course_lib.experiments import read
from course_lib.models import build
from course_lib.parallel import side_by_side
from course_lib.pruning.channels import recalibrate
from course_lib.training import endless, evaluate, fit_batches, warm_up_then_decay


def read_all(results: Mapping[str, str], table: str, column: str) -> pd.DataFrame:
    """The rows of one table of several stored results, {entry: name of the result}; the
    entry is in ``column``.
    """
    tables = [read(f"{name}/{table}").assign(**{column: e}) for e, name in results.items()]
    return pd.concat(tables, ignore_index=True)


def trained(
    kind: str, data: ImageData, seeds: int, train: Callable[[nn.Module, int], nn.Module]
) -> list[nn.Module]:
    """``train(model, seed)`` of a fresh network per seed 0, 1, …"""
    # built before the threads, which share torch's random numbers
    fresh = [(build(kind, data, seed=seed), seed) for seed in range(seeds)]
    return side_by_side(train, fresh)


def recalibrated(model: nn.Module, data: ImageData, images: int = 512) -> nn.Module:
    """A copy whose batch norms have measured their statistics again, on training images."""
    model = copy.deepcopy(model)
    recalibrate(model, data.train.images[:images])
    return model


def layer_inputs(net: nn.Module, x: Tensor) -> dict[str, Tensor]:
    """The input of each convolution and linear layer for ``x``, by name; seen in a copy, since
    threads may share the network.
    """
    net, seen = copy.deepcopy(net).eval(), {}
    for name, module in net.named_modules():
        if isinstance(module, (nn.Conv2d, nn.Linear)):
            module.register_forward_pre_hook(
                lambda _, given, name=name: seen.update({name: given[0]})
            )
    with torch.no_grad():
        net(x)
    return seen


def fine_tune(
    model: nn.Module, texts: Any, task: str, seed: int, how: Mapping[str, Any], **options: Any
) -> list[float]:
    """Train a model in place on encoded texts, which are shuffled in every epoch; the
    training loss every 100 steps. The rate warms up for a tenth of the steps and decays.

    Args:
        how: ``steps``, ``batch`` (texts) and ``lr``.
        options: of :func:`course_lib.training.fit_batches`.
    """
    stream = endless(lambda order: pieces.batches(texts, task, how["batch"], seed=order), seed)
    options = {"rate": warm_up_then_decay(how["steps"] // 10), **options}
    found = fit_batches(
        model, stream, how["steps"], lr=how["lr"], seed=seed, progress=False, **options
    )
    return found.loss


def new_classifier(model: Any, classes: int, seed: int) -> Any:
    """The same model, whose last layer is a new one, drawn by ``seed``."""
    fresh = nn.utils.skip_init(nn.Linear, model.config.hidden_size, classes)
    nn.init.normal_(fresh.weight, std=0.05, generator=torch.Generator().manual_seed(seed))
    nn.init.zeros_(fresh.bias)
    model.classifier = fresh.to(model.device)
    model.num_labels = model.config.num_labels = classes
    return model


def forward_on_cpu(model: nn.Module, batch: Tensor) -> Callable[[], object]:
    """:func:`course_lib.cost.latency.forward` of copies on the CPU, wherever the network and
    the batch are.
    """
    return latency.forward(copy.deepcopy(model).cpu(), batch.cpu())


def costs(
    models: Mapping[str, nn.Module],
    example: Any,
    batch: Tensor,
    *,
    repeats: int,
    tied: Mapping[str, str] | None = None,
    timed: Callable[[Any], nn.Module] = lambda model: model,
) -> pd.DataFrame:
    """What networks cost, the first being the one that they are compared with.

    Args:
        example: an input of each model, for one image or text.
        batch: the input that is timed.
        tied: as for :func:`course_lib.cost.storage.model_bits`.
        timed: the part of a model that is timed.

    Returns:
        Columns ``method``, ``bits`` and ``kb`` (of the whole model), ``macs`` (whose weight
        is not zero), ``ms`` (processor time of one thread, all taking turns) and ``faster``
        (times, median over rounds). Copies on the CPU are timed, wherever the networks are.
    """
    jobs = {name: forward_on_cpu(timed(model), batch) for name, model in models.items()}
    times = latency.compare(jobs, repeats=repeats, threads=1)
    first = next(iter(times.values()))
    return pd.DataFrame(
        {
            "method": name,
            "bits": (bits := model_bits(model.state_dict(), tied=tied)),
            "kb": bits / 8e3,
            "macs": int(totals(model_cost(model, example))["nonzero_macs"]),
            "ms": 1e3 * times[name].median,
            "faster": first.times_slower_than(times[name]),
        }
        for name, model in models.items()
    )


def costs_and_tests(models: Mapping[str, Sequence[nn.Module]], data: ImageData) -> pd.DataFrame:
    """A row per method and seed: ``seed``, ``method``, ``test`` accuracy of each network, and
    the :func:`costs` of the method's first one, timed with 64 images.
    """
    images = data.validation.images
    first = {method: nets[0] for method, nets in models.items()}
    tests = [
        {"seed": seed, "method": method, "test": evaluate(net, data.test)}
        for method, nets in models.items()
        for seed, net in enumerate(nets)
    ]
    table = costs(first, images[:1], images[:64], repeats=40)
    return pd.DataFrame(tests).merge(table, on="method")
