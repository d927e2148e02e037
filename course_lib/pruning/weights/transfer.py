"""Two ways in which pruning a pre-trained model can hurt a new task: what pre-training knew is
gone, or too little is left to fit with.

Source: Gordon, Duh & Andrews 2020, "Compressing BERT: Studying the Effects of Weight Pruning on
Transfer Learning", sections 4 and 5.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

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
