"""A rule in front of chosen layers of any module, while a block is open."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn

from course_lib.checks import check_names
from course_lib.wrapped import hold_hooks


@contextmanager
def pruned_inputs(
    model: nn.Module, rule: Callable[[Tensor], Tensor], names: Iterable[str]
) -> Iterator[None]:
    """Inside the block every layer named sees ``rule(x)`` in place of its first input;
    also while training, since gradients flow through.

    By forward pre-hooks: the model's code stays as it is, and they are gone after the
    block, also after an exception.

    Raises:
        ValueError: if a name is no module of the model.
    """
    modules = dict(model.named_modules())
    names = list(names)
    check_names(names, modules, "names")

    def before(module: nn.Module, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        return (rule(inputs[0]), *inputs[1:])

    with hold_hooks() as hooks:
        for name in names:
            hooks.callback(modules[name].register_forward_pre_hook(before).remove)
        yield
