"""Lab 04, structure: its contracts answered by the library.

Where the grader answers a call of the student's code, modules come as plain data
(:class:`course_lib.student_code.plain_data.Model`).
"""

from __future__ import annotations

from typing import cast

from torch import Tensor, nn

from course_lib.labs.contract import Contract
from course_lib.pruning.channels import folding, removal, slimming
from course_lib.student_code.plain_data import Model, built

lab = Contract("lab04", imports=("torchvision.models",))  # by the handout's first cell
_FUSE = (
    "torch.nn.utils.fusion",
    "torch.ao.quantization",
    "torch.fx.experimental.optimization",
    "torch.jit.freeze",
    "torch.jit.optimize_for_inference",
)
_CUT = ("torch.nn.utils.prune", "torch.ao.pruning", "torch_pruning")


@lab.asks("4.1", forbidden=_FUSE)
def bn_scale_shift(bn: nn.BatchNorm2d | Model) -> tuple[Tensor, Tensor]:
    """4.1: p = α/√(σ² + ε), q = β − p·μ."""
    return folding.scale_shift(cast(nn.BatchNorm2d, built(bn)))


@lab.asks("4.2", forbidden=_FUSE, plain=False)
def fold_bn(conv: nn.Conv2d, bn: nn.BatchNorm2d) -> nn.Conv2d:
    """4.2: one convolution for both."""
    return folding.fold_bn(conv, bn)


@lab.asks("4.3", forbidden=_CUT, plain=False)
def remove_filters(
    conv: nn.Conv2d, bn: nn.BatchNorm2d, next_conv: nn.Conv2d, keep: list[int]
) -> tuple[nn.Module, nn.Module | None, nn.Module]:
    """4.3: three smaller modules."""
    return removal.slice_pair(conv, bn, next_conv, keep)


@lab.asks("4.4", forbidden=_CUT, plain=False)
def absorb_removed(
    conv: nn.Conv2d, bn: nn.BatchNorm2d, next_conv: nn.Conv2d, keep: list[int]
) -> Tensor:
    """4.4: what the next bias gains."""
    if len(keep) == 0:
        raise ValueError("keep names no channel: at least one has to stay")
    return slimming.absorb_removed(conv, bn, next_conv, keep)


@lab.asks("4.5", forbidden=_CUT, plain=False)
def slimming_penalty(model: nn.Module, lam: float) -> Tensor:
    """4.5: λ·Σ|α|."""
    return slimming.penalty(model, lam)


@lab.asks("4.5", forbidden=_CUT, plain=False)
def select_channels(model: nn.Module, fraction: float) -> dict[str, Tensor]:
    """4.5: the smallest |α| of all layers go, but for each layer's largest."""
    return slimming.select_channels(model, fraction)


@lab.asks("4.6", forbidden=_CUT)
def cascade(
    keep: Tensor, next_weight: Tensor, constant: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """4.6: which weights of the next layer are of use, and what the others give
    together.
    """
    return slimming.cascade(keep, next_weight, constant)


lab.asks("4.7", "answer_4_7a", "answer_4_7b")
lab.asks("4.8", "find_bug")
