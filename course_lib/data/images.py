"""Images by name, always as train, validation and test.

"digits" (1,797 real handwritten digits of 8x8 pixels) comes with scikit-learn and needs
no network. "mnist", "fashion_mnist" and "cifar10" are read by torchvision from
``$COURSE_DATA``, the course's ``data/`` or the cache, and downloaded by torchvision
when they are in none of them.
"""

from __future__ import annotations

import math
import os
import socket
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from course_lib import devices, paths

SPLIT_SEED = 0  # one split for everyone, so that results can be compared
DIGITS_SIZES = (1097, 300, 400)  # train, validation, test
# images cut from the training part of the real sets (of a tenth, where that is less)
VALIDATION = 5000
NETWORK_TIMEOUT = 15.0  # seconds; a classroom's firewall otherwise hangs a notebook for minutes


class DataMissing(FileNotFoundError):
    """A data set is not there or cannot be read."""


class Split(NamedTuple):
    """One part of a data set."""

    images: Tensor  # (N, C, H, W) float32 in [0, 1], not standardised: a zero pixel stays a zero
    labels: Tensor  # (N,) int64

    def __repr__(self) -> str:
        return f"Split({len(self.labels):,} images of {tuple(self.images.shape[1:])})"


@dataclass(frozen=True)
class ImageData:
    """A data set in three parts: train on the first, choose on ``validation``, report
    once on ``test``.
    """

    name: str
    train: Split
    validation: Split
    test: Split
    classes: int

    @property
    def shape(self) -> tuple[int, int, int]:
        """(C, H, W) of one image."""
        channels, height, width = self.train.images.shape[1:]
        return channels, height, width

    def to(self, device: torch.device | str) -> ImageData:
        """The same data on a device."""
        parts = ("train", "validation", "test")
        moved: dict[str, Any] = {
            name: Split(*(part.to(device) for part in getattr(self, name))) for name in parts
        }
        return replace(self, **moved)

    def subset(self, train: int, seed: int = 0, validation: int | None = None) -> ImageData:
        """The same data with ``train`` training images, drawn by ``seed``: for a
        laptop. The other parts stay whole, or, of validation, at most the first
        ``validation`` images, which lie in random order.
        """
        have = len(self.train.labels)
        if not 1 <= train <= have:
            raise ValueError(f"train must lie between 1 and {have} images; got {train}")
        keep = torch.from_numpy(np.random.RandomState(seed).permutation(have)[:train])
        fewer = Split(*(part[:validation] for part in self.validation))
        return replace(
            self,
            train=Split(*(part[keep] for part in self.train)),
            validation=self.validation if validation is None else fewer,
        )


# of each set: its class in torchvision, and its files below a data folder
_IDX = [
    f"{part}-{kind}-ubyte" for part in ("train", "t10k") for kind in ("images-idx3", "labels-idx1")
]
_CIFAR = [*(f"data_batch_{i}" for i in range(1, 6)), "test_batch", "batches.meta"]
SOURCES = {
    "mnist": ("MNIST", [f"MNIST/raw/{name}" for name in _IDX]),
    "fashion_mnist": ("FashionMNIST", [f"FashionMNIST/raw/{name}" for name in _IDX]),
    "cifar10": ("CIFAR10", [f"cifar-10-batches-py/{name}" for name in _CIFAR]),
}
NAMES = ("digits", *SOURCES)


def load(name: str) -> ImageData:
    """A data set by name on the course's device, with the same split for everyone; one
    that is not on this machine is downloaded.

    Args:
        name: "digits" (1097/300/400 images), "mnist", "fashion_mnist"
            (55,000/5,000/10,000) or "cifar10" (45,000/5,000/10,000). Validation images
            are cut from the training part by a fixed seed.
    """
    key = name.lower().replace("-", "_")
    if key not in NAMES:
        raise ValueError(f"there is no image data set {name!r}: choose one of {', '.join(NAMES)}")
    return (_digits() if key == "digits" else _read(key)).to(devices.current())


def distorted(split: Split, generator: torch.Generator, copies: int = 1) -> Split:
    """Images turned (up to 8 degrees), shifted (up to a tenth of half the width) and
    scaled (up to 5 %) a little, each another way.

    Args:
        split: images (N, C, H, W). generator: draws. copies: of each image, one after
            the other.

    Returns:
        (copies · N, C, H, W) and their labels. What comes in from outside is 0.
    """
    count = copies * len(split.labels)
    # each from -1 to 1
    turn, right, down, larger = (2 * torch.rand(4, count, generator=generator) - 1).unbind()
    angle, scale = turn * math.radians(8), 1 + 0.05 * larger
    cos, sin = angle.cos() / scale, angle.sin() / scale
    rows = torch.stack([cos, -sin, 0.1 * right, sin, cos, 0.1 * down], 1).view(count, 2, 3)
    rows = rows.to(split.images.device)
    images = split.images.repeat(copies, 1, 1, 1)
    grid = F.affine_grid(rows, list(images.shape), align_corners=False)  # (copies · N, H, W, 2)
    return Split(F.grid_sample(images, grid, align_corners=False), split.labels.repeat(copies))


def available() -> dict[str, str]:
    """Where each set lies on this machine: name -> folder, or "" if it would have to be
    downloaded.
    """
    found = {key: paths.data_folder("", files)[0] for key, (_, files) in SOURCES.items()}
    return {"digits": "scikit-learn", **{key: str(place or "") for key, place in found.items()}}


def _digits() -> ImageData:
    from sklearn.datasets import load_digits

    # (1797, 64) from 0 to 16, (1797,)
    pixels, target = (np.asarray(part) for part in load_digits(return_X_y=True))
    images = torch.from_numpy(pixels).float().view(-1, 1, 8, 8) / 16
    labels = torch.from_numpy(target).long()
    parts = [Split(images[i], labels[i]) for i in _order(len(labels)).split(DIGITS_SIZES)]
    return ImageData("digits", parts[0], parts[1], parts[2], classes=10)


def _order(n: int) -> Tensor:
    """A fixed shuffle of n images, by the one stream that is promised never to change."""
    return torch.from_numpy(np.random.RandomState(SPLIT_SEED).permutation(n))


def _read(key: str) -> ImageData:
    """The set as torchvision reads it, cut into three."""
    from torchvision import datasets

    kind, files = SOURCES[key]
    reader = getattr(datasets, kind)
    place, looked = paths.data_folder("", files)
    place = place or _download(key, reader, files, looked)
    try:
        (images, labels), (test_images, test_labels) = (
            _tensors(reader(str(place), train=train)) for train in (True, False)
        )
    except Exception as error:  # whatever a damaged file makes of torchvision, numpy or pickle
        raise DataMissing(
            f"{key} is in {(place / files[0]).parent}, but its files are damaged"
            f" ({type(error).__name__}: {error}): delete that folder and load {key} again"
        ) from None
    order = _order(len(labels))
    cut = len(labels) - min(VALIDATION, max(1, len(labels) // 10))
    train, validation = (Split(images[i], labels[i]) for i in (order[:cut], order[cut:]))
    return ImageData(key, train, validation, Split(test_images, test_labels), classes=10)


def _tensors(raw: Any) -> tuple[Tensor, Tensor]:
    """One part of a torchvision set: images (N, C, H, W), labels (N,)."""
    images, labels = torch.as_tensor(raw.data), torch.as_tensor(raw.targets, dtype=torch.int64)
    # grey (N,H,W); colour (N,H,W,C)
    images = images.unsqueeze(1) if images.ndim == 3 else images.permute(0, 3, 1, 2)
    if len(images) != len(labels) or len(labels) < 2:
        raise ValueError(f"{len(images)} images for {len(labels)} labels")
    return images.to(torch.float32, memory_format=torch.contiguous_format).div_(255), labels


def _download(key: str, reader: Any, files: list[str], looked: list[str]) -> Path:
    """Let torchvision download the set, whose checksums it knows, to ``$COURSE_DATA`` if it
    is a folder that can be written, else to the cache; returns the folder.
    """
    place = paths.data_places()[0]
    # a folder that is not there is not made: its name may be mistyped
    if not os.environ.get("COURSE_DATA") or not os.access(place, os.W_OK):
        place = paths.cache_dir()
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(NETWORK_TIMEOUT)
    try:
        reader(str(place), download=True)
    except Exception as error:
        folder, listed = Path(files[0]).parent, "\n".join(looked)
        raise DataMissing(
            f"The data set {key} is not on this machine, and its download to {place} failed"
            f" ({type(error).__name__}: {error}).\n"
            f"Looked for the folder {folder} in:\n{listed}\n"
            "Run this once with a network, or set COURSE_DATA to a folder that holds a copy of"
            f' {folder.parts[0]}, or work with "digits", which needs no download.'
        ) from None
    finally:
        socket.setdefaulttimeout(before)
    return place
