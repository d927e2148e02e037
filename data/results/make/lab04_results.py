"""Lab 04's stored results: what a collapsed network needs, and its rivals at equal MACs.

``course remake lab04_slimming_digits`` (six seeds) and
``course remake lab04_slimming_mnist`` (four) make them again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from course_lib import devices
from course_lib.cost import model_cost, totals
from course_lib.data.images import ImageData, load
from course_lib.experiments import Result, lab04
from course_lib.experiments.once import each_seed
from course_lib.models import SmallConvNet, build
from course_lib.models.initial import weights_from
from course_lib.pruning.channels import cascade, select_channels, slice_pair, slimming
from course_lib.pruning.weights import local_masks
from course_lib.training import evaluate

Row = dict[str, Any]
FRACTIONS = (0.5, lab04.FRACTION, 0.8)  # of the channels, removed


def cut(model: nn.Module, keep: lab04.Keep, absorb: Sequence[int] = ()) -> nn.Module:
    """The library's surgery."""

    def useful_and_shift(kept: Tensor, weight: Tensor, beta: Tensor) -> tuple[Tensor, Tensor]:
        return cascade(kept, weight, beta.relu())

    return lab04.cut(model, keep, slice_pair, useful_and_shift, absorb)


def fresh(data: ImageData, widths: Sequence[int], seed: int) -> nn.Module:
    """An untrained network of these widths, from weights that it does not share with others."""
    with weights_from(1000 + seed):
        net = SmallConvNet(data.shape[0], data.classes, widths)
    return net.to(devices.current())


def penalties(
    networks: Mapping[str, nn.Module], data: ImageData
) -> tuple[list[Row], Mapping[str, Tensor]]:
    """Of the networks trained with each penalty: accuracy, the share of the scales near zero,
    and the accuracy without 70 % of the channels, both repairs made: of all layers ranked
    together, and of as many in each layer as with L1; the smallest number of channels that a
    layer keeps. And the channels kept by L1.
    """
    rows, of_l1 = [], select_channels(networks["L1"], lab04.FRACTION)
    shares = {name: 1 - float(kept.double().mean()) for name, kept in of_l1.items()}
    for name, model in networks.items():
        ranked = select_channels(model, lab04.FRACTION)
        same = local_masks(slimming.scales(model), shares)
        nets = [lab04.repair(model, keep, cut, data, "both repairs") for keep in (ranked, same)]
        rows.append(
            {
                "method": name,
                "accuracy": evaluate(model, data.validation),
                "near_zero": 100 * float((lab04.scales(model) < 0.02).float().mean()),
                "fewest": min(lab04.widths(ranked)),
                "repaired": evaluate(nets[0], data.validation),
                "same_widths": evaluate(nets[1], data.validation),
            }
        )
    return rows, of_l1


def collapse(model: nn.Module, keep: lab04.Keep, data: ImageData) -> list[Row]:
    """Accuracy of the sparse-trained network, with its channels silenced, and without them
    after each of :data:`lab04.REPAIRS`. No weight is trained.
    """
    networks = {
        "sparse-trained": model,
        "silenced": lab04.silence_channels(model, keep),
        **{how: lab04.repair(model, keep, cut, data, how) for how in lab04.REPAIRS},
    }
    return [
        {"repair": how, "accuracy": evaluate(net, data.validation)} for how, net in networks.items()
    ]


def uniform(filters: Sequence[int], budget: int, macs_of: Any) -> list[int]:
    """The same share of each layer's filters, so that the MACs come closest to ``budget``."""
    choices = [[max(1, round(share * f / 200)) for f in filters] for share in range(1, 201)]
    return min(choices, key=lambda widths: abs(macs_of(widths) - budget))


def rivals(
    dense: nn.Module,
    sparse: nn.Module,
    data: ImageData,
    seed: int,
    removed: float,
    settings: Mapping[str, Any],
) -> tuple[list[Row], list[Row]]:
    """Networks of the same MACs as slimming's at this fraction of the channels, recalibrated and
    then fine-tuned as long; at :data:`lab04.FRACTION` also trained from scratch, for as many
    epochs as cost the MACs of the dense network's training.

    Returns:
        A row per method, and the weights that "single weights" leaves in each layer.
    """
    image = data.validation.images[:1]
    keep = select_channels(sparse, removed)
    slim = cut(sparse, keep)
    budget, widths = lab04.macs(slim, image), lab04.widths(keep)
    generator = torch.Generator().manual_seed(seed)
    some = {
        name: kept[torch.randperm(len(kept), generator=generator)] for name, kept in keep.items()
    }
    full = [len(kept) for kept in keep.values()]
    equal = uniform(full, budget, lambda w: lab04.macs(fresh(data, w, seed), image))
    shares = {name: 1 - w / f for name, w, f in zip(keep, equal, full, strict=True)}
    masks = lab04.weights_at_macs(dense, budget, image)
    starts: dict[str, tuple[nn.Module, Mapping[str, Tensor] | None]] = {
        "slimming": (slim, None),
        "uniform widths": (cut(sparse, local_masks(slimming.scales(sparse), shares)), None),
        "random channels": (cut(dense, some), None),
        "single weights": (dense, masks),
    }
    found = {
        name: [lab04.tune(net, data, seed, epochs, of) for epochs in (0, settings["finetune"])]
        for name, (net, of) in starts.items()
    }
    if removed == lab04.FRACTION:
        for name, of in (("slimming's widths", widths), ("uniform", equal)):
            net = fresh(data, of, seed)
            cost = lab04.macs(net, image) / lab04.macs(dense, image)
            lab04.train(net, data, seed, epochs=round(settings["epochs"] / cost))
            found[f"{name}, from scratch"] = [net]
    rows = []
    for name, nets in found.items():
        kind = "nonzero_macs" if name == "single weights" else "macs"
        used = totals(model_cost(nets[-1], image))[kind]
        rows.append(
            {
                "removed": removed,
                "method": name,
                "macs": 100 * used / lab04.macs(dense, image),
                "recalibrated": evaluate(nets[0], data.validation) if len(nets) > 1 else None,
                "accuracy": evaluate(nets[-1], data.validation),
                "test": evaluate(nets[-1], data.test) if removed == lab04.FRACTION else None,
            }
        )
    left = [
        {"removed": removed, "layer": i, "weights": int(masks[f"conv{i}.weight"].sum())}
        for i, _, _ in lab04.blocks(dense)
    ]
    return rows, left


def one_seed(name: str, seed: int, settings: Mapping[str, Any]) -> dict[str, list[Row]]:
    """The rows of one seed, by table.

    Args:
        name: of the data. seed: of the first weights, the order of the images and the
            random channels.
        settings: ``images`` used for training, ``epochs`` from scratch, ``finetune`` epochs,
            ``lam`` of the penalty.
    """
    data, lam = load(name).subset(settings["images"]), settings["lam"]
    train = partial(lab04.train, data=data, seed=seed, epochs=settings["epochs"])

    def start() -> nn.Module:
        return build("convnet", data, seed=seed)

    networks = {
        "none": train(start()),
        "L1": train(start(), penalty=partial(slimming.penalty, lam=lam)),
        "L2": train(start(), penalty=partial(lab04.l2_penalty, lam=lam)),
    }
    dense, sparse = networks["none"], networks["L1"]
    of_penalties, keep = penalties(networks, data)
    equal, left = [], []
    for removed in FRACTIONS:
        rows, weights = rivals(dense, sparse, data, seed, removed, settings)
        equal += rows
        left += weights
    tested = {"method": "dense", "removed": 0.0, "macs": 100.0}
    tested |= {"accuracy": evaluate(dense, data.validation), "test": evaluate(dense, data.test)}
    return {
        "penalties": of_penalties,
        "collapse": collapse(sparse, keep, data),
        "equal": [tested, *equal],
        "left": left,
        "widths": [{"layer": i, "filters": w} for i, w in enumerate(lab04.widths(keep), 1)],
    }


def remake(
    executor: Executor, folder: Path, seeds: int, name: str, settings: Mapping[str, Any]
) -> Result:
    """The tables of :func:`one_seed`, of all seeds."""
    return Result(each_seed(executor, folder, seeds, one_seed, name, settings=settings), settings)


def remake_digits(executor: Executor, folder: Path) -> Result:
    """The causes of the collapse and the rivals at equal MACs, on the digits: six seeds."""
    return remake(executor, folder, 6, "digits", lab04.DIGITS)


def remake_mnist(executor: Executor, folder: Path) -> Result:
    """The same on MNIST, 6,000 images: four seeds."""
    return remake(executor, folder, 4, "mnist", lab04.MNIST)


RESULTS = {"lab04_slimming_digits": remake_digits, "lab04_slimming_mnist": remake_mnist}
