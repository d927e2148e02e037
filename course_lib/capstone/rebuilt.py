"""The model of a file, by the shapes of its tensors: at most as wide and deep as the given
model.
"""

from __future__ import annotations

import re
from typing import Any

import torch
from torch import Tensor, nn

from course_lib.capstone.files import Refused, Saved
from course_lib.models.convnet import SmallConvNet
from course_lib.pruning.heads import remove_heads
from course_lib.pruning.layers import slice_ffn

WIDTHS = (32, 32, 64, 64)  # of the given convolutional net
LAYERS, HEADS, HEAD, FFN = 4, 8, 16, 256  # of the given BERT; a head has 16 entries


def convnet(saved: Saved) -> nn.Module:
    """A :class:`SmallConvNet` of at most the given widths, in evaluation mode.

    Raises:
        Refused: if a tensor is missing, superfluous, or larger than in the given net.
    """
    if saved.tokens:
        raise Refused("a convolutional net has no tokens to drop")
    _check_sizes(saved.state, SmallConvNet(1, 10, WIDTHS))
    widths = [len(saved.state[f"conv{i}.weight"]) for i in range(1, len(WIDTHS) + 1)]
    return _filled(SmallConvNet(1, 10, widths), saved.state)


def bert(saved: Saved) -> nn.Module:
    """A ``BertForSequenceClassification`` with at most the given layers, heads and
    feed-forward widths, in evaluation mode.

    Raises:
        Refused: if a tensor is missing, superfluous, or larger than in the given model.
    """
    from course_lib.models import checkpoints
    from course_lib.models.bert import small_bert

    found = (re.match(r"bert\.encoder\.layer\.(\d{1,3})\.", name) for name in saved.state)
    layers = len(numbers := {int(match[1]) for match in found if match})
    if not 1 <= layers <= LAYERS or numbers != set(range(layers)):
        raise Refused(
            f"layers are numbered 0, 1, … without gaps, 1 to {LAYERS} of them; the file has"
            f" {sorted(numbers)[:8]}, and begins with {min(saved.state, default='nothing')!r}"
        )
    if any(layer >= layers for layer in saved.tokens):
        raise Refused(
            f"tokens are dropped after a layer that is not there: {sorted(saved.tokens)} of"
            f" {layers}"
        )
    vocabulary = len(checkpoints.load("reviews-bert-0").tokenizer)
    model: Any = small_bert(vocabulary, layers=layers, positions=160)
    _check_sizes(saved.state, model)
    heads = torch.zeros(layers, HEADS, dtype=torch.bool)
    neurons = []
    for number in range(layers):
        path = f"bert.encoder.layer.{number}"
        inner = len(saved.state[f"{path}.attention.self.query.weight"])
        if inner % HEAD:
            raise Refused(f"layer {number}: query has {inner} rows, and a head has {HEAD}")
        heads[number, : inner // HEAD] = True
        neurons.append(torch.arange(FFN) < len(saved.state[f"{path}.intermediate.dense.weight"]))
    return _filled(slice_ffn(remove_heads(model, heads), neurons), saved.state)


def _floats(model: nn.Module) -> dict[str, Tensor]:
    return {name: value for name, value in model.state_dict().items() if value.is_floating_point()}


def _check_sizes(state: dict[str, Tensor], largest: nn.Module) -> None:
    """Refuse other names than those of the largest model, other numbers of dimensions, and
    dimensions that are 0 or larger.
    """
    most = _floats(largest)
    for names, what in (
        (most.keys() - state.keys(), "missing"),
        (state.keys() - most.keys(), "of no such model"),
    ):
        if names:
            first = f"{min(names)!r} is {what}"
            raise Refused(f"{first}, and {len(names) - 1} more" if len(names) > 1 else first)
    for name, value in most.items():
        found, limit = tuple(state[name].shape), tuple(value.shape)
        if len(found) != len(limit) or not all(
            1 <= n <= m for n, m in zip(found, limit, strict=True)
        ):
            raise Refused(f"{name!r} is {found}, and should be at most {limit}")


def _filled(model: nn.Module, state: dict[str, Tensor]) -> nn.Module:
    for name, value in _floats(model).items():
        if state[name].shape != value.shape:
            raise Refused(
                f"{name!r} is {tuple(state[name].shape)}, and beside the other tensors it should be"
                f" {tuple(value.shape)}"
            )
        if name.endswith("running_var") and bool((state[name] < 0).any()):
            raise Refused(f"{name!r} holds a variance below 0")
    model.load_state_dict(state, strict=False)
    return model.eval()


KINDS = {"cnn": convnet, "bert": bert}
