"""What several benchmarks need: a network to prune, and ratios of times."""

from __future__ import annotations

import statistics

import torch
from torch import nn

import course_lib  # noqa: F401  before torchvision, which may need its operators declared
from course_lib.cost.latency import Latency

torch.set_num_threads(1)  # with other work on the machine, several would be waited for
WHERE = f"torch {torch.__version__}, {torch.get_num_threads()} thread"


def resnet50() -> nn.Module:
    """torchvision's, randomly initialised: nothing is downloaded."""
    from torchvision.models import resnet50 as build

    torch.manual_seed(0)
    return build(weights=None).eval()


def ratio(slow: Latency, fast: Latency) -> str:
    """The median of the ratios round by round, and between which quartiles they lie."""
    low, middle, high = statistics.quantiles(
        [s / f for s, f in zip(slow.samples, fast.samples, strict=True)], n=4
    )
    return f"{middle:.2f}x ({low:.2f} to {high:.2f})"
