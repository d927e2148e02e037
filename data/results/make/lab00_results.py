"""Lab 00 on three sets of images: the cost of the same network on larger pictures, and
how far the zeros of a trained layer are from zeros at random places.

``course remake lab00_counting_digits``, ``…_mnist`` and ``…_cifar10`` make the shipped
results again.
"""

from __future__ import annotations

from concurrent.futures import Executor
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from course_lib.cost import conv_cost, encodings, linear_cost, nonzero_macs
from course_lib.data.images import load
from course_lib.experiments import Result, common, lab00
from course_lib.experiments.once import each_seed
from course_lib.training import evaluate

# images for training; as the lab's notebook trains
SETTINGS: dict[str, dict[str, int]] = {
    "digits": {"images": 1097, "epochs": 8},
    "mnist": {"images": 55_000, "epochs": 1},
    "cifar10": {"images": 45_000, "epochs": 3},
}
SEEDS = {"digits": 5, "mnist": 3, "cifar10": 3}
LAYER = "conv4"
SPARSITIES = (0.5, 0.7, 0.9, 0.95)
COUNTED_ON = 64  # test images

Rows = list[dict[str, Any]]


def beyond(weight: Tensor, x: Tensor) -> float:
    """Products with two non-zero factors beyond (1-p)(1-q), in % of it; ``x`` is the
    input of a convolution with padding 1, and products with padding do not count.
    """
    p, q = (weight == 0).double().mean(), (x == 0).double().mean()
    possible = nonzero_macs(torch.ones_like(weight), torch.ones_like(x), padding=1)
    expected = float((1 - p) * (1 - q) * possible)
    return 100 * (nonzero_macs(weight, x, padding=1) / expected - 1)


def pairs_beyond(weight: Tensor, k: int = 4) -> float:
    """Run-length pairs beyond their number for zeros at random places, in % of it."""
    p, L = float((weight == 0).double().mean()), weight.numel()
    expected = lab00.formula_bits(f"RLE k={k}", p, L) / (32 + k)
    return 100 * (len(encodings.rle_encode(weight, k)[0]) / expected - 1)


def one_seed(name: str, seed: int, settings: dict[str, int]) -> dict[str, Rows]:
    """Train the conv net as the lab does, and count.

    Returns:
        Rows of the tables of :func:`result`.
    """
    data = load(name).subset(settings["images"])
    model = lab00.network(data, settings["epochs"], seed)
    costs = lab00.layer_costs(model, data.test.images[:1], conv_cost, linear_cost)
    x = common.layer_inputs(model, data.test.images[:COUNTED_ON])[LAYER]
    weight = model.get_submodule(LAYER).get_parameter("weight").detach()
    layers: Rows = [
        {"layer": row.layer, "macs": row.macs, "alive": row.input_bits + row.output_bits}
        for row in costs.itertuples()
    ]
    conv4: Rows = []
    for method, random in (("magnitude", None), ("random", seed)):
        for sparsity in SPARSITIES:
            w = lab00.pruned(weight, sparsity, random)
            measured = {
                "beyond": beyond(w, x),
                "more_pairs": pairs_beyond(w),
            }
            rounded = {column: round(value, 3) for column, value in measured.items()}
            conv4.append({"method": method, "sparsity": sparsity, **rounded})
    zeros = 100 * float((x == 0).double().mean())
    networks: Rows = [{"test": evaluate(model, data.test), "zeros_in": zeros}]
    tables = {"networks": networks, "layers": layers, "conv4": conv4}
    return {table: [{"seed": seed, **row} for row in rows] for table, rows in tables.items()}


def result(executor: Executor, folder: Path, name: str) -> Result:
    """All seeds on one set of images.

    Returns:
        "networks": ``test`` (accuracy, %) and ``zeros_in`` (zeros that flow into
        :data:`LAYER`, %). "layers": ``macs`` and ``alive`` (input and output together,
        bits) for one image. "conv4": by ``method`` and ``sparsity``, ``beyond`` and
        ``more_pairs``, both in %: see ``beyond`` and ``pairs_beyond``.
    """
    settings = SETTINGS[name]
    return Result(
        each_seed(executor, folder, SEEDS[name], one_seed, name, settings=settings), settings
    )


def remake_digits(executor: Executor, folder: Path) -> Result:
    """Counting on the digits, five seeds."""
    return result(executor, folder, "digits")


def remake_mnist(executor: Executor, folder: Path) -> Result:
    """The same on MNIST, three seeds, one epoch."""
    return result(executor, folder, "mnist")


def remake_cifar10(executor: Executor, folder: Path) -> Result:
    """The same on CIFAR-10, three seeds, three epochs."""
    return result(executor, folder, "cifar10")


RESULTS = {
    "lab00_counting_digits": remake_digits,
    "lab00_counting_mnist": remake_mnist,
    "lab00_counting_cifar10": remake_cifar10,
}
