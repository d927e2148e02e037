"""Images by name: "digits" is embedded, "mnist", "fashion_mnist" and "cifar10" are found on disk or downloaded."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from course_lib import paths


class Split(NamedTuple):
    """One part of a data set."""

    images: Tensor  # (N, C, H, W) float32 in [0, 1], not standardised: a zero pixel stays a zero
    labels: Tensor  # (N,) int64


class DataMissing(FileNotFoundError):
    """A data set is not there, or cannot be read. The message says where it was looked for and how to get it."""


@dataclass(frozen=True)
class ImageData:
    """A data set in three parts: train, choose on validation, report on test."""

    name: str
    train: Split
    validation: Split
    test: Split
    classes: int

    @property
    def shape(self) -> tuple[int, int, int]:
        """(C, H, W) of one image."""
        return tuple(self.train.images.shape[1:])

    def subset(self, train: int, seed: int = 0) -> ImageData:
        """The same data with only ``train`` training images, drawn by ``seed``."""
        keep = torch.from_numpy(np.random.RandomState(seed).permutation(len(self.train.labels))[:train])
        return replace(self, train=Split(self.train.images[keep], self.train.labels[keep]))


def load(name: str, *, download: bool = True) -> ImageData:
    if name == "digits":
        from sklearn.datasets import load_digits

        raw = load_digits()
        images = torch.from_numpy(raw.images.astype(np.float32) / 16).unsqueeze(1)
        labels = torch.from_numpy(raw.target.astype(np.int64))
        order = torch.from_numpy(np.random.RandomState(0).permutation(len(labels)))
        a, b, c = (Split(images[i], labels[i]) for i in order.split([1097, 300, 400]))
        return ImageData(name, a, b, c, 10)
    from torchvision import datasets

    kind = {"mnist": datasets.MNIST, "fashion_mnist": datasets.FashionMNIST, "cifar10": datasets.CIFAR10}[name]
    root = str(paths.data_places()[0])
    parts = []
    for train in (True, False):
        raw = kind(root, train=train)
        x = torch.as_tensor(raw.data)
        x = x.unsqueeze(1) if x.ndim == 3 else x.permute(0, 3, 1, 2)
        parts.append((x.float() / 255, torch.as_tensor(raw.targets)))
    (x, y), test = parts
    order = torch.from_numpy(np.random.RandomState(0).permutation(len(y)))
    a, b = (Split(x[i], y[i]) for i in (order[5000:], order[:5000]))
    return ImageData(name, a, b, Split(*test), 10)
