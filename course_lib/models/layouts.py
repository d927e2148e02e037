"""Where a weight keeps its outputs and inputs: (outputs, inputs, …), but in transformers'
Conv1D (GPT-2), transposed convolutions and the fused experts of a mixture.

``prunable`` notes the layout of such weights, and the scores of this package carry it, so
that rows, filters and blocks of neighbours are those of the layer. A score of your own gets
it from ``like(weight, score)``; without it, it is taken as (outputs, inputs, …), and the
masks made of its rows are refused by the weight.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor, nn
from torch.nn.modules.conv import _ConvTransposeNd
from torch.utils.weak import WeakTensorKeyDictionary

from course_lib.models.conv1d import is_conv1d


@dataclass(frozen=True)
class Layout:
    """How matrices lie in a weight."""

    parts: int = 1  # in one tensor: groups of a convolution, experts of a mixture
    stacked: bool = False  # along a dimension of their own, or one after the other along the first
    flipped: bool = False  # (inputs, outputs, …)
    unknown: str = ""  # whose order of dimensions is not known

    def upright(self, tensor: Tensor) -> Tensor:
        """As (all outputs, inputs, …)."""
        if self == PLAIN:
            return tensor
        if self.unknown:
            raise ValueError(
                f"{self.unknown} are {tuple(tensor.shape)}, and which dimensions are outputs and"
                " inputs is not known: prune single weights, or leave them out"
            )
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
_noted: WeakTensorKeyDictionary = WeakTensorKeyDictionary()  # weight -> its layout
_made: WeakTensorKeyDictionary = WeakTensorKeyDictionary()  # mask -> the layout it was made by


def layouts(model: nn.Module) -> dict[str, Layout]:
    """The layout of every weight of ``model`` that is not (outputs, inputs, …), by
    name.
    """
    found = {
        f"{path}.{name}" if path else name: _layout(module, weight)
        for path, module in model.named_modules()
        for name, weight in module.named_parameters(recurse=False)
    }
    return {name: layout for name, layout in found.items() if layout != PLAIN}


def _layout(module: nn.Module, weight: Tensor) -> Layout:
    kind = type(module).__name__
    if is_conv1d(module) and weight.ndim == 2:
        return Layout(flipped=True)
    if isinstance(module, _ConvTransposeNd) and weight.ndim > 2:
        return Layout(module.groups, flipped=True)
    if weight.ndim == 3 and ("Experts" in kind or hasattr(module, "num_experts")):
        flipped = getattr(module, "is_transposed", None)
        unknown = f"the weights of {kind}" if flipped is None else ""
        return Layout(len(weight), True, bool(flipped), unknown)
    return PLAIN


def note_layouts(model: nn.Module) -> None:
    """Remember the layouts of the model's weights, for scores made from them."""
    for name, layout in layouts(model).items():
        _noted[model.get_parameter(name)] = layout


def layout_of(tensor: Tensor) -> Layout:
    """The layout that was noted for a weight, or for the weight that a score is of."""
    return _noted.get(tensor, PLAIN)


def like(weight: Tensor, score: Tensor) -> Tensor:
    """``score`` itself, with the layout of its ``weight``."""
    if (layout := layout_of(weight)) != PLAIN:
        _noted[score] = layout
    return score


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
