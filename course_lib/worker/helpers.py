"""Functions a question hands to the student's code that must run beside it, because they change the student's model.

They hold no answer: they do what they are told and note what they saw; the grader recomputes every mark from the notes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

OPTIMIZERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "sgd": torch.optim.SGD,
    "adam": torch.optim.Adam,
    "adamw": torch.optim.AdamW,
}


class FineTune:
    """``finetune(model, post_step)``: a few optimizer steps, ``post_step()`` after each.

    The optimizer is made once, before the student's code runs, over the parameters that the model has then: a student who
    binds a new ``nn.Parameter`` leaves the optimizer with the old one, as in real training.

    Args:
        model: the module the optimizer belongs to.
        x, y: one batch, inputs and labels.
        poison: a parameter whose pruned entries' gradients become NaN (as they do when a loss blows up), or None.

    The log has one entry a call: the parameters before, and after every ``post_step()``.
    """

    def __init__(
        self,
        model: nn.Module,
        x: Tensor,
        y: Tensor,
        steps: int = 3,
        optimizer: str = "sgd",
        settings: dict[str, Any] | None = None,
        poison: str | None = None,
    ) -> None:
        self.optimizer = OPTIMIZERS[optimizer](model.parameters(), **(settings or {"lr": 0.1}))
        self.x, self.y, self.steps, self.poison = x, y, steps, poison
        self.log: list[dict[str, Any]] = []

    def __call__(self, model: nn.Module, post_step: Callable[[], Any] | None = None) -> None:
        entry: dict[str, Any] = {"before": _copy(model), "after": [], "post_step": callable(post_step)}
        self.log.append(entry)
        for _ in range(self.steps):
            self.optimizer.zero_grad()
            F.cross_entropy(model(self.x), self.y).backward()
            if self.poison is not None:
                weight = model.get_parameter(self.poison)
                if weight.grad is not None:
                    weight.grad[weight == 0] = torch.nan
            self.optimizer.step()
            if post_step is not None:
                post_step()
            entry["after"].append(_copy(model))


def _copy(model: nn.Module) -> dict[str, Tensor]:
    return {name: value.detach().clone() for name, value in model.named_parameters()}


HELPERS: dict[str, Callable[..., Any]] = {"finetune": FineTune}
