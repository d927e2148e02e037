"""Which activations stay: by size, in all of a sample or in every block. And such a rule
in front of chosen layers of any module.

A product with a mask, so the gradient is 1 where kept and 0 elsewhere, as that of ReLU.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from course_lib.checks import check_count, check_names
from course_lib.pruning.weights.nm import nm_mask
from course_lib.wrapped import hold_hooks


def topk_activation(x: Tensor, k: int) -> Tensor:
    """Of each sample of x (B, …) the k largest |x|, all its entries together; the others become
    0. Of equal |x| that with the lower index goes first.
    """
    check_count(k, "k")
    flat = x.detach().abs().flatten(1)  # (B, entries)
    goes = flat.argsort(dim=1, stable=True)[:, : max(0, flat.shape[1] - k)]
    kept = torch.ones_like(flat, dtype=torch.bool).scatter_(1, goes, False)
    return x.masked_fill(~kept.view(x.shape), 0)


def nm_activation(x: Tensor, n: int, m: int, dim: int = 1) -> Tensor:
    """Of every m neighbours along ``dim`` the n largest |x|; see
    :func:`course_lib.pruning.weights.nm.nm_mask` for order and errors.

    Source: Zhang et al. 2024, "JointNF".
    """
    return x.masked_fill(~nm_mask(x, n, m, dim), 0)


@contextmanager
def pruned_inputs(
    model: nn.Module, rule: Callable[[Tensor], Tensor], names: Iterable[str]
) -> Iterator[None]:
    """Inside the block every module named sees ``rule(x)`` in place of its first input;
    also while training, since gradients flow through.
    """
    modules, names = dict(model.named_modules()), list(names)
    check_names(names, modules, "names")

    def before(module: nn.Module, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        return (rule(inputs[0]), *inputs[1:])

    with hold_hooks() as hooks:
        for name in names:
            hooks.callback(modules[name].register_forward_pre_hook(before).remove)
        yield
