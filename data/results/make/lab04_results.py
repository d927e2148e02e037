"""Lab 04's stored results: what a collapsed network needs, and its rivals at equal MACs.

``course remake lab04_slimming_digits`` (six seeds) and
``course remake lab04_slimming_mnist`` (four) make them again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from course_lib import devices
from course_lib.cost import model_cost, totals
from course_lib.data.images import ImageData, load
from course_lib.experiments import by_seed, lab04
from course_lib.models import SmallConvNet, build
from course_lib.models.initial import weights_from
from course_lib.pruning.channels import cascade, select_channels, slice_pair, slimming
from course_lib.pruning.weights import local_masks
from course_lib.training import evaluate

Row = dict[str, Any]
FRACTIONS = (0.5, lab04.FRACTION, 0.8)  # of the channels, removed


def cut(model: nn.Module, keep: lab04.Keep, absorb: Sequence[int] = ()) -> nn.Module:
    """The library's surgery."""
    of_relu = lambda kept, weight, beta: cascade(kept, weight, beta.relu())  # noqa: E731
    return lab04.cut(model, keep, slice_pair, of_relu, absorb)


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
) -> tuple[list[Row], Row]:
    """Networks of the same MACs as slimming's at this fraction of the channels, recalibrated and
    then fine-tuned as long; at :data:`lab04.FRACTION` also trained from scratch, for as many
    epochs as cost the MACs of the dense network's training.

    Returns:
        A row per method, and the weights that "single weights" leaves in the last convolution.
    """
    image = data.validation.images[:1]
    keep = select_channels(sparse, removed)
    slim = cut(sparse, keep)
    budget = lab04.macs(slim, image)
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
        for name, of in (("slimming's widths", lab04.widths(keep)), ("uniform", equal)):
            net = fresh(data, of, seed)
            cost = lab04.macs(net, image) / lab04.macs(dense, image)
            lab04.train(net, data, seed, epochs=round(settings["epochs"] / cost))
            found[f"{name}, from scratch"] = [net]
    rows = []
    for name, nets in found.items():
        used = totals(model_cost(nets[-1], image))
        kind = "nonzero_macs" if name == "single weights" else "macs"
        row = {"method": name, "macs": 100 * used[kind] / lab04.macs(dense, image)}
        reached = [evaluate(net, data.validation) for net in nets]
        row |= {"accuracy": reached[-1], "recalibrated": reached[0] if reached[1:] else None}
        rows.append({"removed": removed, **row})
    return rows, {"removed": removed, "layer": 4, "weights": int(masks["conv4.weight"].sum())}


def one_seed(seed: int, data: str, settings: Mapping[str, Any]) -> dict[str, list[Row]]:
    """The rows of one seed, by table.

    Args:
        seed: of the first weights, the order of the images and the random channels.
        settings: ``images`` used for training, ``epochs`` from scratch, ``finetune`` epochs,
            ``lam`` of the penalty.
    """
    images, lam = load(data).subset(settings["images"]), settings["lam"]
    train = partial(lab04.train, data=images, seed=seed, epochs=settings["epochs"])

    def start() -> nn.Module:
        return build("convnet", images, seed=seed)

    networks = {
        "none": train(start()),
        "L1": train(start(), penalty=partial(slimming.penalty, lam=lam)),
        "L2": train(start(), penalty=partial(lab04.l2_penalty, lam=lam)),
    }
    dense, sparse = networks["none"], networks["L1"]
    of_penalties, keep = penalties(networks, images)
    of_dense = {"method": "dense", "removed": 0.0, "macs": 100.0}
    equal, left = [of_dense | {"accuracy": evaluate(dense, images.validation)}], []
    for removed in FRACTIONS:
        rows, weights = rivals(dense, sparse, images, seed, removed, settings)
        equal += rows
        left.append(weights)
    found = collapse(sparse, keep, images)
    return {"penalties": of_penalties, "collapse": found, "equal": equal, "left": left}


RESULTS = {
    "lab04_slimming_digits": by_seed(
        "The causes of the collapse and the rivals at equal MACs, on the digits: six seeds.",
        lab04.DIGITS, 6, one_seed, data="digits",
    ),
    "lab04_slimming_mnist": by_seed(
        "The same on MNIST, 6,000 images: four seeds.",
        lab04.MNIST, 4, one_seed, data="mnist",
    ),
}  # fmt: skip
