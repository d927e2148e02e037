"""Lab 00 on three sets of images: how far the zeros of a trained layer are from zeros at
random places.

``course remake lab00_counting_digits``, ``…_mnist`` and ``…_cifar10`` make the shipped
results again.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from course_lib.cost import encodings, nonzero_macs
from course_lib.data.images import load
from course_lib.experiments import by_seed, common, lab00

# images for training; as the lab's notebook trains
SETTINGS: dict[str, dict[str, int]] = {
    "digits": {"images": 1097, "epochs": 8},
    "mnist": {"images": 55_000, "epochs": 1},
    "cifar10": {"images": 45_000, "epochs": 3},
}
SEEDS = {"digits": 5, "mnist": 3, "cifar10": 3}
LAYER = "conv4"
SPARSITY = 0.9
COUNTED_ON = 64  # test images


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


def one_seed(seed: int, data: str, settings: dict[str, int]) -> dict[str, list[dict[str, Any]]]:
    """Train the conv net as the lab does, and count.

    Returns:
        "networks": ``zeros_in`` (zeros that flow into :data:`LAYER`, %). "conv4": by
        ``method`` and ``sparsity``, ``beyond`` and ``more_pairs``, both in %: see
        :func:`beyond` and :func:`pairs_beyond`.
    """
    images = load(data).subset(settings["images"])
    model = lab00.network(images, settings["epochs"], seed)
    x = common.layer_inputs(model, images.test.images[:COUNTED_ON])[LAYER]
    weight = model.get_submodule(LAYER).get_parameter("weight").detach()
    conv4 = []
    for method, random in (("magnitude", None), ("random", seed)):
        w = lab00.pruned(weight, SPARSITY, random)
        found = {"beyond": round(beyond(w, x), 3), "more_pairs": round(pairs_beyond(w), 3)}
        conv4.append({"method": method, "sparsity": SPARSITY, **found})
    zeros = 100 * float((x == 0).double().mean())
    return {"networks": [{"zeros_in": zeros}], "conv4": conv4}


ABOUT = {
    "digits": "Counting on the digits, five seeds.",
    "mnist": "The same on MNIST, three seeds, one epoch.",
    "cifar10": "The same on CIFAR-10, three seeds, three epochs.",
}
RESULTS = {
    f"lab00_counting_{name}": by_seed(about, SETTINGS[name], SEEDS[name], one_seed, data=name)
    for name, about in ABOUT.items()
}
