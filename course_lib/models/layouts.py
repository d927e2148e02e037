"""Where a weight keeps its outputs and inputs. Linear and convolutional layers keep them
as (outputs, inputs, …); transformers' Conv1D (GPT-2), transposed convolutions and the
fused experts of a mixture do not.

``prunable`` notes the layout of such weights, and the scores of this package carry it, so
that rows, filters and blocks of neighbours are those of the layer. What is computed from
such a score entry by entry carries it, too. A score of your own gets it from
``like(weight, score)``; without it, it is taken as (outputs, inputs, …), and the masks
made of its rows are refused by the weight.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.conv import _ConvTransposeNd
from torch.utils.weak import WeakTensorKeyDictionary

from course_lib.models.conv1d import is_conv1d


@dataclass(frozen=True)
class Layout:
    """``parts`` matrices in one tensor (groups of a convolution, experts of a mixture),
    ``stacked`` along a dimension of their own or one after the other along the first;
    ``flipped``: (inputs, outputs, …). ``unknown``: whose order of dimensions is not
    known.
    """

    parts: int = 1
    stacked: bool = False
    flipped: bool = False
    unknown: str = ""

    def upright(self, tensor: Tensor) -> Tensor:
        """As (all outputs, inputs, …).

        Raises:
            ValueError: if the layout is not known.
        """
        if self == PLAIN:
            return tensor
        if self.unknown:
            raise ValueError(
                f"{self.unknown} are {tuple(tensor.shape)}, and which dimensions are outputs and"
                " inputs is not known: prune single weights, leave them out, or pass"
                " score.as_subclass(torch.Tensor) where it is (outputs, inputs, …)"
            )
        tensor = tensor.as_subclass(Tensor)
        parts = tensor if self.stacked else tensor.unflatten(0, (self.parts, -1))
        return (parts.transpose(1, 2) if self.flipped else parts).flatten(0, 1)

    def back(self, upright: Tensor) -> Tensor:
        """A tensor (all outputs, inputs, …) in the order of the weight."""
        if self == PLAIN:
            return upright
        parts = upright.unflatten(0, (self.parts, -1))
        parts = parts.transpose(1, 2) if self.flipped else parts
        return (parts if self.stacked else parts.flatten(0, 1)).contiguous()


PLAIN = Layout()
_CHANGED = Layout(unknown="scores made of others by more than arithmetic with single entries")
_noted: WeakTensorKeyDictionary = WeakTensorKeyDictionary()  # weight -> its layout
_made: WeakTensorKeyDictionary = WeakTensorKeyDictionary()  # mask -> the layout it was made by


def layouts(model: nn.Module) -> dict[str, Layout]:
    """The layout of every weight of ``model`` that is not (outputs, inputs, …), by
    name.
    """
    found = {}
    for path, module in model.named_modules():
        for name, weight in module.named_parameters(recurse=False):
            kind = type(module).__name__
            if is_conv1d(module) and weight.ndim == 2:
                layout = Layout(flipped=True)
            elif isinstance(module, _ConvTransposeNd) and weight.ndim > 2:
                layout = Layout(module.groups, flipped=True)
            elif weight.ndim == 3 and ("Experts" in kind or hasattr(module, "num_experts")):
                flipped = getattr(module, "is_transposed", None)
                unknown = f"the weights of {kind}" if flipped is None else ""
                layout = Layout(len(weight), True, bool(flipped), unknown)
            else:
                continue
            found[f"{path}.{name}" if path else name] = layout
    return found


def note_layouts(model: nn.Module) -> None:
    """Remember the layouts of the model's weights, for scores made from them."""
    for name, layout in layouts(model).items():
        _noted[model.get_parameter(name)] = layout


class Score(Tensor):
    """A score of a weight that is not (outputs, inputs, …), with its layout in ``order``.

    What is computed from it entry by entry keeps the layout; of what else is made of it
    (transposed, sorted, a part) the layout is unknown.
    """

    order: Layout

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = [x for x in (*args, *(kwargs or {}).values()) if isinstance(x, Score)]
        with torch._C.DisableTorchFunctionSubclass():
            found = func(*args, **kwargs or {})
            orders = {(x.order, x.shape) for x in given}
            known = orders.pop() if len(orders) == 1 and _by_entry(func.__name__) else None

            def carry(x: Any) -> Any:
                if not isinstance(x, Tensor) or not x.is_floating_point() or not x.ndim:
                    return x
                return _ordered(x, known[0] if known and known[1] == x.shape else _CHANGED)

            if func is Tensor.as_subclass:
                return found
            several = isinstance(found, tuple | list) and any(isinstance(x, Tensor) for x in found)
            return type(found)([carry(x) for x in found]) if several else carry(found)

    def __deepcopy__(self, memo: Any) -> Score:
        return self.clone()  # type: ignore[return-value]


def _ordered(score: Tensor, order: Layout) -> Score:
    found = score.as_subclass(Score)
    found.order = order
    return found


# scores that were saved can be read, with torch.load's weights_only=True, too
torch.serialization.add_safe_globals([Score, Layout])
_COPIES = {"contiguous", "cpu", "cuda", "detach", "requires_grad", "to", "type"}
_COPIES |= {"bfloat16", "double", "float", "half"}


@functools.cache
def _by_entry(name: str) -> bool:
    """Whether torch's operation of this name (``mul``, ``__rsub__``, ``log_``) leaves every
    entry in its place.
    """
    name = name.strip("_")
    found = [getattr(torch.ops.aten, n, None) for n in (name, name.removeprefix("r"))]
    return name in _COPIES or any(
        torch.Tag.pointwise in getattr(operator, overload).tags
        for operator in found
        if operator
        for overload in operator.overloads()
    )


def layout_of(tensor: Tensor) -> Layout:
    """The layout that was noted for a weight, or for the weight that a score is of."""
    return tensor.order if isinstance(tensor, Score) else _noted.get(tensor, PLAIN)


def like(weight: Tensor, score: Tensor) -> Tensor:
    """``score`` itself, with the layout of its ``weight``."""
    layout = layout_of(weight)
    return score if layout == PLAIN else _ordered(score, layout)


def note_rule(mask: Tensor, layout: Layout) -> Tensor:
    """``mask`` itself; remember that it was made of rows of this layout."""
    _made[mask] = layout
    return mask


def check_rules(model: nn.Module, masks: Mapping[str, Tensor]) -> None:
    """Raises ValueError if a mask was made of the rows of another layout than its weight's."""
    made = {name: _made[mask] for name, mask in masks.items() if mask in _made}
    found = layouts(model) if made else {}
    for name, layout in made.items():
        if layout != found.get(name, PLAIN):
            raise ValueError(
                f"masks[{name!r}] was made of rows that are not this layer's outputs: its score had"
                " not the layout that course_lib.models.layouts.like(weight, score) gives it"
            )
