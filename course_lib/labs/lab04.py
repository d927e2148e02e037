"""Lab 04, structure: its contracts answered by the library."""

from __future__ import annotations

from torch import Tensor, nn

from course_lib.labs.contract import Contract
from course_lib.pruning.channels import folding, removal, slimming

lab = Contract("lab04", imports=("torchvision.models",))  # by the handout's first cell
_FUSE = (
    "torch.nn.utils.fusion",
    "torch.ao.quantization",
    "torch.fx.experimental.optimization",
    "torch.jit.freeze",
    "torch.jit.optimize_for_inference",
)
_CUT = ("torch.nn.utils.prune", "torch.ao.pruning", "torch_pruning")


@lab.asks("4.1", forbidden=_FUSE, plain=False)
def fold_bn(conv: nn.Conv2d, bn: nn.BatchNorm2d) -> nn.Conv2d:
    """4.1: one convolution for both."""
    return folding.fold_bn(conv, bn)


@lab.asks("4.2", forbidden=_CUT, plain=False)
def remove_filters(
    conv: nn.Conv2d, bn: nn.BatchNorm2d, next_conv: nn.Conv2d, keep: list[int]
) -> tuple[nn.Module, nn.Module | None, nn.Module]:
    """4.2: three smaller modules."""
    return removal.slice_pair(conv, bn, next_conv, keep)


@lab.asks("4.3", forbidden=_CUT)
def cascade(keep: Tensor, next_weight: Tensor, beta: Tensor) -> tuple[Tensor, Tensor]:
    """4.3: which weights of the next layer are useful, and the constant sum of the
    others.
    """
    return slimming.cascade(keep, next_weight, beta.relu())


@lab.asks("4.4", forbidden=_CUT, plain=False)
def slimming_penalty(model: nn.Module, lam: float) -> Tensor:
    """4.4: λ·Σ|α|."""
    return slimming.penalty(model, lam)


lab.asks("4.5", "answer_4_5")
