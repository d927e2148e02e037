"""Lab 04, structure: its contracts answered by the library.

Where the grader answers a call of the student's code, modules come as plain data (:class:`course_lib.worker.wire.Model`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import torch
from torch import Tensor, nn

from course_lib.grading.reference import Asked
from course_lib.pruning.channels import folding, removal, slimming
from course_lib.worker.wire import Model

IMPORTS = ("torchvision.models",)  # by the handout's first cell
_FUSE = (
    "torch.nn.utils.fusion",
    "torch.ao.quantization",
    "torch.fx.experimental.optimization",
    "torch.jit.freeze",
    "torch.jit.optimize_for_inference",
)
_CUT = ("torch.nn.utils.prune", "torch.ao.pruning", "torch_pruning")
QUESTIONS = {
    "4.1": Asked(("bn_scale_shift",), _FUSE),
    "4.2": Asked(("fold_bn",), _FUSE, plain=False),
    "4.3": Asked(("remove_filters",), _CUT, plain=False),
    "4.4": Asked(("absorb_removed",), _CUT, plain=False),
    "4.5": Asked(("slimming_penalty", "select_channels"), _CUT, plain=False),
    "4.6": Asked(("cascade",), _CUT),
    "4.7": Asked(("answer_4_7a", "answer_4_7b"), plain=False),
    "4.8": Asked(("find_bug",), plain=False),
}


def bn_scale_shift(bn: nn.BatchNorm2d | Model) -> tuple[Tensor, Tensor]:
    """4.1: p = α/√(σ² + ε), q = β − p·μ."""
    return folding.scale_shift(cast(nn.BatchNorm2d, bn.build() if isinstance(bn, Model) else bn))


def fold_bn(conv: nn.Conv2d, bn: nn.BatchNorm2d) -> nn.Conv2d:
    """4.2: one convolution for both."""
    return folding.fold_bn(conv, bn)


def remove_filters(
    conv: nn.Conv2d, bn: nn.BatchNorm2d, next_conv: nn.Conv2d, keep: list[int]
) -> tuple[nn.Module, nn.Module | None, nn.Module]:
    """4.3: three smaller modules."""
    return removal.slice_pair(conv, bn, next_conv, keep)


def absorb_removed(conv: nn.Conv2d, bn: nn.BatchNorm2d, next_conv: nn.Conv2d, keep: list[int]) -> Tensor:
    """4.4: what the next bias gains."""
    if len(keep) == 0:
        raise ValueError("keep names no channel: at least one has to stay")
    return slimming.absorb_removed(conv, bn, next_conv, keep)


def slimming_penalty(model: nn.Module, lam: float) -> Tensor:
    """4.5: λ·Σ|α|."""
    return slimming.penalty(model, lam)


def select_channels(model: nn.Module, fraction: float) -> dict[str, Tensor]:
    """4.5: the smallest |α| of all layers go, but for each layer's largest."""
    return slimming.select_channels(model, fraction)


def cascade(keep: Tensor, next_weight: Tensor, constant: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """4.6: which weights of the next layer are of use, and what the others give together."""
    return slimming.cascade(keep, next_weight, constant)


def find_bug(f: Callable[..., Any]) -> None:
    """4.8: raises AssertionError for a wrong version of ``cascade``."""
    generator = torch.Generator().manual_seed(0)
    for m, c, r, s in ((5, 3, 2, 4), (4, 4, 4, 4), (2, 6, 1, 1)):
        weight = torch.randn(m, c, r, s, generator=generator, dtype=torch.float64)
        some = torch.arange(c) % 2 == 0
        for keep in (some, ~some, torch.ones_like(some), torch.zeros_like(some)):
            for constant in (None, torch.rand(c, generator=generator, dtype=torch.float64) + 0.5):
                case = f"weight {(m, c, r, s)}, keep {keep.tolist()}, constant {constant}"
                useful, shift = f(keep, weight, constant)
                right_mask, right_shift = cascade(keep, weight, constant)
                assert useful.dtype == torch.bool and torch.equal(useful, right_mask), f"wrong mask: {case}"
                assert shift.shape == (m,) and torch.allclose(shift, right_shift), f"wrong shift: {case}"
