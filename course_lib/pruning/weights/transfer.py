"""Two ways in which pruning a pre-trained model can hurt a new task: what pre-training knew is
gone, or too little is left to fit with.

Source: Gordon, Duh & Andrews 2020, "Compressing BERT: Studying the Effects of Weight Pruning on
Transfer Learning", sections 4 and 5.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from torch import Tensor, nn

from course_lib.pruning.weights.masks import apply

Finetune = Callable[[nn.Module, Callable[[], None]], None]


def prune_then_finetune(
    model: nn.Module, masks: Mapping[str, Tensor], finetune: Finetune, hold: bool = True
) -> None:
    """Prune in place, then fine-tune, ``finetune(model, post_step)``, which calls ``post_step()``
    after every step; with ``hold`` zeros stay, without it they are zero only at the start.

    Without ``hold`` ("information deletion") what pre-training had put into these weights is gone,
    but all of them can be fitted again: what is lost then is information alone, and what is lost
    beyond that with ``hold`` is capacity.
    """
    apply(model, masks)
    finetune(model, (lambda: apply(model, masks)) if hold else lambda: None)
    if hold:
        apply(model, masks)


def regime(
    dense: float, held: Sequence[float], deleted: Sequence[float], tolerance: float
) -> list[str]:
    """For each sparsity "free", "information lost" or "cannot fit", from accuracies (higher is
    better): of the dense model, with zeros held, and with zeros at the start alone. ``tolerance``:
    how far below counts as equal.
    """
    if len(held) != len(deleted):
        raise ValueError(f"held has {len(held)} accuracies, deleted {len(deleted)}: one a sparsity")
    if not tolerance >= 0:
        raise ValueError(f"tolerance is how far below counts as equal, so ≥ 0; got {tolerance}")
    found = []
    for h, d in zip(held, deleted, strict=True):
        lost = "information lost" if h >= d - tolerance else "cannot fit"
        found.append("free" if h >= dense - tolerance else lost)
    return found
