"""The small experiments of the lecture to lab 04: scores and shapes on ordinary networks,
and mistakes when filters are removed.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
import torch
from torch import Tensor, nn

from course_lib.data.images import ImageData
from course_lib.experiments import common, lab04
from course_lib.parallel import sweep
from course_lib.pruning.channels import remove_filters, slice_pair, slimming
from course_lib.pruning.weights import apply, local_masks, magnitude, prunable, random
from course_lib.training import evaluate


def prune_by_shape(
    models: Sequence[nn.Module], data: ImageData, sparsities: Sequence[float]
) -> pd.DataFrame:
    """The same share of the weights of each convolution set to zero: the smallest single
    weights ("unstructured"), the filters with the smallest norms ("structured"), and random
    filters. Batch norm is measured again, no weight is trained.

    Returns:
        Columns ``method``, ``seed``, ``sparsity``, ``accuracy``.
    """

    def run(method: str, seed: int, sparsity: float) -> float:
        model = copy.deepcopy(models[seed])
        weights = {name: w for name, w in prunable(model).items() if name.startswith("conv")}
        generator = torch.Generator().manual_seed(seed)
        score = random(weights, generator) if method == "random" else magnitude(weights)
        granularity = "element" if method == "unstructured" else "filter"
        apply(model, local_masks(score, sparsity, granularity))
        return evaluate(common.recalibrated(model, data), data.validation)

    methods = ("unstructured", "structured", "random")
    return sweep(run, method=methods, seed=range(len(models)), sparsity=sparsities)


def compare_scores(
    models: Sequence[nn.Module], data: ImageData, fractions: Sequence[float]
) -> pd.DataFrame:
    """The same share of each layer's filters removed by four scores, constants absorbed,
    batch norm measured again, no weight trained; three random draws per network.

    Returns:
        Columns ``method``, ``seed``, ``removed``, ``accuracy`` (one row per draw).
    """
    image = data.train.images[:1]
    rows = []
    for seed, model in enumerate(models):
        norms, alphas = slimming.filter_norms(model), slimming.scales(model)
        scores = [("filter L1", norms), ("α, dense", alphas)]
        scores += [("random", _random_scores(alphas, 3 * seed + draw)) for draw in range(3)]
        scores += [("most important first", {name: -norm for name, norm in norms.items()})]
        for method, score in scores:
            for removed in fractions:
                smaller, _ = remove_filters(model, local_masks(score, removed), image)
                accuracy = evaluate(common.recalibrated(smaller, data), data.validation)
                rows.append(
                    {"method": method, "seed": seed, "removed": removed, "accuracy": accuracy}
                )
    return pd.DataFrame(rows)


def _random_scores(like: Mapping[str, Tensor], seed: int) -> dict[str, Tensor]:
    return {
        name: torch.rand(len(x), generator=torch.Generator().manual_seed(10 * seed + int(name[2:])))
        for name, x in like.items()
    }


@torch.no_grad()
def cut_with_mistakes(model: Any, data: ImageData) -> pd.DataFrame:
    """Half of conv2's filters removed (the smaller |α|), with one mistake at a time.

    Returns:
        Columns ``what went wrong``, ``shapes`` ("fit" or "error"), ``difference`` (largest,
        of the outputs, from maps set to 0) and ``accuracy`` (both NaN on an error).
    """
    conv2, bn2, conv3 = model.conv2, model.bn2, model.conv3
    keep = lab04.larger_half(bn2)
    first = torch.arange(int(keep.sum()))
    conv, bn, after = slice_pair(conv2, bn2, conv3, keep)
    changed: list[Any] = [copy.deepcopy(layer) for layer in (bn, bn, after)]
    uncut, mixed, columns = changed
    uncut.running_mean, uncut.running_var = bn2.running_mean, bn2.running_var
    mixed.running_mean, mixed.running_var = bn2.running_mean[first], bn2.running_var[first]
    columns.weight.data = conv3.weight.detach()[:, first].clone()
    versions: dict[str, tuple[Any, Any, Any]] = {
        "nothing: all six right": (conv, bn, after),
        "next layer not cut": (conv, bn, conv3),
        "μ and σ² not cut": (conv, uncut, after),
        "μ, σ² of the *first* channels": (conv, mixed, after),
        "next layer's *first* columns": (conv, bn, columns),
    }
    images = data.validation.images
    hook = bn2.register_forward_hook(lambda module, inputs, out: out * keep[:, None, None])
    expected = model.eval()(images)
    hook.remove()
    rows = []
    for mistake, layers in versions.items():
        smaller = copy.deepcopy(model)
        smaller.conv2, smaller.bn2, smaller.conv3 = (layer.eval() for layer in layers)
        try:
            apart = float((smaller(images) - expected).abs().max())
            row = {"difference": apart, "accuracy": evaluate(smaller, data.validation)}
            rows.append({"what went wrong": mistake, "shapes": "fit", **row})
        except RuntimeError:
            rows.append({"what went wrong": mistake, "shapes": "**error**"})
    return pd.DataFrame(rows)
