"""Random inputs for the tests, drawn so that the usual mistakes show: odd sizes, ties,
different scales, zeros, NaN.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from course_lib.models.bert import small_bert

WORDS, CLASSES = 12, 3  # of a text classifier and its texts


class Draw:
    """Draws from a seed; the same seed draws the same.

    Attributes:
        seed: this draw's own. common: the same for all draws whose seed begins alike:
            of all claims of one grading.
    """

    def __init__(self, *seed: Any) -> None:
        self.common = (
            int.from_bytes(hashlib.sha256(repr(seed[:1]).encode()).digest()[:4], "big") >> 1
        )
        digest = hashlib.sha256(repr(seed).encode()).digest()
        self.seed = int.from_bytes(digest[:4], "big") >> 1
        self.rng = np.random.default_rng(self.seed)
        self.generator = torch.Generator().manual_seed(self.seed)

    def integer(self, low: int, high: int) -> int:
        """A whole number, both ends included."""
        return int(self.rng.integers(low, high + 1))

    def number(self, low: float, high: float) -> float:
        """A number between the two."""
        return float(self.rng.uniform(low, high))

    def choice(self, items: Sequence[Any]) -> Any:
        """One of the items."""
        return items[int(self.rng.integers(len(items)))]

    def distinct(self, count: int, low: int, high: int) -> list[int]:
        """Whole numbers that all differ, both ends included."""
        return [int(n) + low for n in self.rng.choice(high - low + 1, size=count, replace=False)]

    def normal(self, *shape: int, scale: float = 1.0, dtype: torch.dtype = torch.float32) -> Tensor:
        """Gaussian numbers; no two have the same size (but for chance)."""
        return (torch.randn(shape, generator=self.generator, dtype=torch.float64) * scale).to(dtype)

    def sparse(
        self, *shape: int, sparsity: float = 0.7, dtype: torch.dtype = torch.float32
    ) -> Tensor:
        """Gaussian numbers with exactly round(sparsity · n) zeros at random places."""
        values = self.normal(*shape, dtype=dtype)
        values[values == 0] = 1
        zeros = self.permutation(values.numel())[: round(sparsity * values.numel())]
        values.view(-1)[zeros] = 0
        return values

    def tied(self, *shape: int, levels: int = 3) -> Tensor:
        """Whole numbers of few sizes and both signs: many ties."""
        sizes = torch.randint(1, levels + 1, shape, generator=self.generator)
        signs = torch.randint(0, 2, shape, generator=self.generator) * 2 - 1
        return (sizes * signs).float()

    def mask(self, *shape: int, kept: float = 0.5) -> Tensor:
        """Random booleans."""
        return torch.rand(shape, generator=self.generator) < kept

    def permutation(self, n: int) -> Tensor:
        """The numbers 0 … n − 1 in random order."""
        return torch.randperm(n, generator=self.generator)

    def labels(self, n: int, classes: int) -> Tensor:
        """Class labels."""
        return torch.randint(0, classes, (n,), generator=self.generator)

    def signs(self, n: int) -> Tensor:
        """n numbers, half of them 1 and half -1 (or one more), in random order."""
        return 1.0 - 2 * (self.permutation(n) % 2)

    def sizes(self, n: int, low: float, high: float) -> Tensor:
        """n numbers between the two, uniform in their logarithm."""
        share = torch.rand(n, generator=self.generator, dtype=torch.float64)
        return (math.log(low) + share * math.log(high / low)).exp()

    def conv(self, c: int, m: int, kernel: tuple[int, int], **settings: Any) -> nn.Conv2d:
        """A convolution in evaluation mode, from c channels to m; ``settings`` as of
        nn.Conv2d.
        """
        layer = torch.nn.utils.skip_init(nn.Conv2d, c, m, kernel, **settings)
        with torch.no_grad():
            for p in layer.parameters():
                p.copy_(self.normal(*p.shape, dtype=p.dtype))
        return layer.eval()

    def batch_norm(self, channels: int, **settings: Any) -> nn.BatchNorm2d:
        """A batch norm in evaluation mode that has seen data: α, β and μ of both signs,
        σ² from far below 1 to far above it, and one as small as ε, which is not the
        usual one; ``settings`` as of nn.BatchNorm2d.
        """
        settings = {"eps": self.number(1e-3, 5e-3), "momentum": self.number(0.2, 0.4), **settings}
        bn = torch.nn.utils.skip_init(nn.BatchNorm2d, channels, **settings)
        assert (
            bn.running_mean is not None
            and bn.running_var is not None
            and bn.num_batches_tracked is not None
        )
        with torch.no_grad():
            bn.weight.copy_(self.sizes(channels, 0.3, 2) * self.signs(channels))
            bn.bias.copy_(self.sizes(channels, 0.3, 2) * self.signs(channels))
            bn.running_mean.copy_(self.sizes(channels, 0.5, 3) * self.signs(channels))
            bn.running_var.copy_(self.sizes(channels, 0.05, 20))
            bn.running_var[self.integer(0, channels - 1)] = bn.eps / 2
            bn.num_batches_tracked.fill_(self.integer(10, 99))
        return bn.eval()

    def bert(self, layers: int, heads: int, head_size: int = 3) -> Any:
        """A BERT text classifier in evaluation mode, whose heads all matter, and matter
        unequally, and which has dropout.
        """
        model = small_bert(
            WORDS,
            CLASSES,
            layers=layers,
            width=heads * head_size,
            heads=heads,
            ffn=2 * head_size,
            positions=9,
            dropout=0.2,
        )
        with torch.no_grad():
            for name, p in model.named_parameters():
                p.copy_(
                    self.normal(*p.shape, scale=0.2 if p.ndim < 2 else 1.5 / p.shape[-1] ** 0.5)
                )
                if "LayerNorm.weight" in name:
                    p.add_(1)
        return model

    def texts(self, count: int, length: int) -> dict[str, Tensor]:
        """A batch of random texts with labels, all but the first with some padding at
        the end.
        """
        lengths = torch.tensor([length, *(self.integer(2, length) for _ in range(count - 1))])
        return {
            "input_ids": torch.randint(WORDS, (count, length), generator=self.generator),
            "attention_mask": (torch.arange(length) < lengths[:, None]).long(),
            "labels": self.labels(count, CLASSES),
        }

    def mlp(self, sizes: Sequence[int] = (6, 9, 7, 4)) -> nn.Sequential:
        """A small net of linear layers, ReLU and one batch norm, with layers of
        different scale.
        """
        layers: list[nn.Module] = []
        for i, (d_in, d_out) in enumerate(zip(sizes, sizes[1:], strict=False)):
            layers.append(nn.Linear(d_in, d_out))
            if i == 0:
                layers.append(nn.BatchNorm1d(d_out))
            if i < len(sizes) - 2:
                layers.append(nn.ReLU())
        return self._fill(nn.Sequential(*layers))

    def convnet(self) -> nn.Sequential:
        """A small net of convolutions with batch norm, and a linear layer, for images
        of any size.
        """
        layers: list[nn.Module] = []
        for c, m in ((2, 5), (5, 3)):
            layers += [nn.Conv2d(c, m, 3, padding=1, bias=False), nn.BatchNorm2d(m), nn.ReLU()]
        layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(3, 4)]
        return self._fill(nn.Sequential(*layers))

    def _fill(self, model: nn.Sequential) -> nn.Sequential:
        with torch.no_grad():
            weights = [p for p in model.parameters() if p.ndim >= 2]
            for i, weight in enumerate(weights):
                weight.copy_(self.normal(*weight.shape, scale=0.1 * 3.0**i))
            for name, p in model.named_parameters():
                if p.ndim < 2:
                    p.copy_(
                        self.normal(*p.shape, scale=0.01)
                        + (1.0 if name.endswith("weight") else 0.0)
                    )
        return model.train()
