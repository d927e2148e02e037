"""Where the feed-forward parts of a transformer are: for each layer the linear layer
that widens and the one that makes MLP(x).

::

    for mlp in find_mlps(model):
        print(mlp.name, mlp.first, mlp.out)

What a layer adds to its residual stream is ``MLP(x) = W₂·act(W₁·x + b₁) + b₂``. To
gate, score or remove it is to know W₂'s layer: in front of it b₂ would stay, behind the
residual sum the layer's input would go, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from torch import nn

from course_lib.models.conv1d import sizes
from course_lib.models.families import FeedForward, known, refuse_bypass, rows_of
from course_lib.models.parts import ZeroLinear, put_in_place
from course_lib.wrapped import refuse_wrapped


@dataclass(frozen=True)
class MLP(FeedForward):
    """One feed-forward part: its row of the table, with paths as in ``model.get_submodule``."""

    name: str = ""


def find_mlps(model: nn.Module) -> list[MLP]:
    """The feed-forward parts of ``model``, in the order of its layers.

    Raises:
        ValueError: if there is none that is known, saying how to register it.
    """
    found = []
    for name, module in model.named_modules():
        row = next((row.mlp for row in rows_of(type(module)) if row.mlp), None)
        if row is not None:
            refuse_bypass(name, module)
            inside = f"{name}." if name else ""
            first = tuple(inside + part for part in row.first)
            out = inside + row.out if row.out else name
            found.append(MLP(first, out, row.neurons, row.flat, name))
    if not found:
        refuse_wrapped(model, "parallel", "compile", "prune")
        raise ValueError(
            f"{type(model).__name__} has no feed-forward part that is known here; known are"
            f" {', '.join(known('mlp'))}. For another:"
            ' register("package.module.ItsClass", mlp=FeedForward(("fc1",), "fc2"))'
        )
    return found


def mlp_outputs(model: nn.Module) -> list[nn.Module]:
    """For each layer the module whose output is MLP(x), its bias included: the place to gate."""
    return [model.get_submodule(mlp.out) for mlp in find_mlps(model)]


def remove_parts_(model: nn.Module, mlps: list[MLP]) -> None:
    """Put zeros in the place of these feed-forward parts of ``model``."""
    for mlp in mlps:
        layer = model.get_submodule(mlp.name)
        width = sizes(model.get_submodule(mlp.out))[1] if mlp.first else None
        like = next(layer.parameters())
        for path in mlp.first:
            put_in_place(model, path, ZeroLinear(0).to(like))
        put_in_place(model, mlp.out, ZeroLinear(width).to(like))
        if isinstance(layer, nn.TransformerEncoderLayer):
            # its fused function would read the weights that are gone; it is called for
            # ReLU and GELU alone
            layer.activation_relu_or_gelu = 0
    for encoder in _packing(model):
        encoder.use_nested_tensor = False


@contextmanager
def without_nested_tensors(model: nn.Module) -> Iterator[None]:
    """Inside the block torch's own encoders keep padded batches as they are. Otherwise
    they pack them for their fused function, and hooks get what is packed.
    """
    packing = _packing(model)
    for encoder in packing:
        encoder.use_nested_tensor = False
    try:
        yield
    finally:
        for encoder in packing:
            encoder.use_nested_tensor = True


def _packing(model: nn.Module) -> list[nn.TransformerEncoder]:
    encoders = [m for m in model.modules() if isinstance(m, nn.TransformerEncoder)]
    return [encoder for encoder in encoders if encoder.use_nested_tensor]
