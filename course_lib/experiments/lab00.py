"""Lab 00 on three sets of images: what the bill of the same network looks like on
larger pictures, and how far the zeros of a trained layer are from zeros that lie
anywhere.

``course remake lab00_counting_digits``, ``…_mnist`` and ``…_cifar10`` make the shipped
results again; they train as the lab does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from course_lib.cost import encodings, model_cost
from course_lib.cost.formulas import expected_nonzero_macs, nonzero_macs
from course_lib.data.images import load
from course_lib.experiments.once import each_seed
from course_lib.models import build
from course_lib.modes import evaluating
from course_lib.pruning.weights import local_masks
from course_lib.training import evaluate, fit

# images for training; as the lab's notebook trains
SETTINGS: dict[str, dict[str, int]] = {
    "digits": {"images": 1097, "epochs": 8},
    "mnist": {"images": 55_000, "epochs": 1},
    "cifar10": {"images": 45_000, "epochs": 3},
}
SEEDS = {"digits": 5, "mnist": 3, "cifar10": 3}
LAYER = "conv4"
SPARSITIES = (0.5, 0.7, 0.9, 0.95)
RUN_BITS = 4  # of the run-length code
COUNTED_ON = 64  # test images


def pruned(weight: Tensor, sparsity: float, random: int | None = None) -> Tensor:
    """The smallest weights set to zero; with ``random``, a seed, others anywhere."""
    score = (
        weight.abs()
        if random is None
        else torch.rand(weight.shape, generator=torch.Generator().manual_seed(random))
    )
    return weight * local_masks({"": score}, sparsity)[""]


def beyond(weight: Tensor, x: Tensor) -> float:
    """How many products with both factors other than 0 there are beyond the expected
    (1-p)(1-q), in % of it; ``x`` is the input of a convolution with padding 1.
    """
    expected = expected_nonzero_macs(weight, x, padding=1)
    return 100 * (nonzero_macs(weight, x, padding=1) / expected - 1)


def more_pairs(weight: Tensor) -> float:
    """Pairs that a run-length code needs beyond the formula for zeros anywhere, in % of
    it.
    """
    zeros = float((weight == 0).double().mean())
    formula = encodings.formula_bits("rle", weight.numel(), zeros, run_bits=RUN_BITS)
    return 100 * (encodings.rle_bits(weight, run_bits=RUN_BITS) / formula - 1)


def empty_kernels(weight: Tensor) -> float:
    """Share of the 3×3 kernels without a weight other than 0, in %."""
    return 100 * float((weight.flatten(2) == 0).all(2).double().mean())


def one_seed(name: str, seed: int, settings: Mapping[str, int]) -> dict[str, Any]:
    """Train the conv net as the lab does, and count.

    Returns:
        "test": accuracy in %; "macs" and "alive" (input and output together, in bits)
        by layer, for one image; "zeros in": the share of zeros that flow into
        :data:`LAYER`, in %; "beyond", "more pairs", "empty kernels": of that layer, by
        "magnitude" and "random" zeros, one for each of :data:`SPARSITIES`.
    """
    data = load(name).subset(settings["images"])
    model = build("convnet", data, seed=seed)
    fit(
        model,
        data.train,
        epochs=settings["epochs"],
        lr=3e-3,
        schedule="cosine",
        seed=seed,
        progress=False,
    )
    layer = model.get_submodule(LAYER)
    seen: list[Tensor] = []
    hook = layer.register_forward_pre_hook(lambda module, inputs: seen.append(inputs[0]))
    with evaluating(model), torch.no_grad():
        model(data.test.images[:COUNTED_ON])
    hook.remove()
    weight, (x,) = layer.get_parameter("weight").detach(), seen
    layers = {
        how: [pruned(weight, sparsity, chance) for sparsity in SPARSITIES]
        for how, chance in (("magnitude", None), ("random", seed))
    }
    measures: dict[str, Callable[[Tensor], float]] = {
        "beyond": partial(beyond, x=x),
        "more pairs": more_pairs,
        "empty kernels": empty_kernels,
    }
    costs = [row for row in model_cost(model, data.test.images[:1]) if row.weights]
    return {
        "test": evaluate(model, data.test),
        "macs": {row.name: row.macs for row in costs},
        "alive": {row.name: row.input_bits + row.output_bits for row in costs},
        "zeros in": 100 * float((x == 0).double().mean()),
        **{
            what: {how: [round(of(w), 3) for w in some] for how, some in layers.items()}
            for what, of in measures.items()
        },
    }


def remake_digits(executor: Executor, folder: Path) -> dict[str, Any]:
    """Counting on the digits, five seeds: ``settings``, and ``seeds``, one of
    :func:`one_seed` each.
    """
    return each_seed(executor, folder, SEEDS["digits"], one_seed, "digits", SETTINGS["digits"])


def remake_mnist(executor: Executor, folder: Path) -> dict[str, Any]:
    """The same on MNIST, three seeds, one epoch."""
    return each_seed(executor, folder, SEEDS["mnist"], one_seed, "mnist", SETTINGS["mnist"])


def remake_cifar10(executor: Executor, folder: Path) -> dict[str, Any]:
    """The same on CIFAR-10, three seeds, three epochs."""
    return each_seed(executor, folder, SEEDS["cifar10"], one_seed, "cifar10", SETTINGS["cifar10"])


RESULTS = {
    "lab00_counting_digits": remake_digits,
    "lab00_counting_mnist": remake_mnist,
    "lab00_counting_cifar10": remake_cifar10,
}
