"""What the runs of several labs share."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

import pandas as pd
import torch
from torch import Tensor, nn

from course_lib.cost import latency, model_cost, totals
from course_lib.cost.storage import model_bits
from course_lib.data.images import ImageData
from course_lib.models import build
from course_lib.parallel import side_by_side
from course_lib.pruning.channels import recalibrate


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


def new_classifier(model: Any, classes: int, seed: int) -> Any:
    """The same model, whose last layer is a new one, drawn by ``seed``."""
    fresh = nn.utils.skip_init(nn.Linear, model.config.hidden_size, classes)
    nn.init.normal_(fresh.weight, std=0.05, generator=torch.Generator().manual_seed(seed))
    nn.init.zeros_(fresh.bias)
    model.classifier = fresh
    model.num_labels = model.config.num_labels = classes
    return model


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
        (times, median over rounds).
    """
    jobs = {name: latency.forward(timed(model), batch) for name, model in models.items()}
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
