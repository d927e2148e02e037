"""The model that a file is, by the shapes of its tensors: narrower or shallower than
the one given, never more.
"""

from __future__ import annotations

import re
from typing import Any

import torch
from torch import Tensor, nn

from course_lib.capstone.files import Refused, Saved
from course_lib.models.convnet import SmallConvNet

WIDTHS = (32, 32, 64, 64)  # of the convolutional net as it is given
LAYERS, HEADS, HEAD, FFN, WIDTH = 4, 8, 16, 256, 128  # of the BERT


def convnet(saved: Saved) -> nn.Module:
    """A :class:`SmallConvNet` of at most the given widths, in evaluation mode.

    Raises:
        Refused: if tensors are missing or too many, or a layer is wider than the one
            given.
    """
    if saved.tokens:
        raise Refused("a convolutional net has no tokens to drop")
    widths = []
    for i, most in enumerate(WIDTHS, start=1):
        weight = saved.state.get(f"conv{i}.weight")
        if weight is None:
            raise Refused(f"conv{i}.weight is missing{_begins(saved)}")
        if weight.ndim != 4 or weight.shape[2:] != (3, 3):
            raise Refused(f"conv{i}.weight is {tuple(weight.shape)}, no weight of 3x3 filters")
        if not 1 <= len(weight) <= most:
            raise Refused(f"conv{i} has {len(weight)} filters, and should have 1 to {most}")
        widths.append(len(weight))
    return _filled(SmallConvNet(1, 10, widths), saved.state)


def bert(saved: Saved) -> nn.Module:
    """A ``BertForSequenceClassification`` with at most the given layers, heads and
    feed-forward widths, in evaluation mode.

    Raises:
        Refused: if tensors are missing or too many, or there is more of something than
            the given model has.
    """
    numbers = sorted(
        {
            int(found[1])
            for name in saved.state
            if (found := re.match(r"bert\.encoder\.layer\.(\d{1,3})\.", name))
        }
    )
    if not numbers or numbers != list(range(len(numbers))) or len(numbers) > LAYERS:
        raise Refused(
            f"layers are numbered 0, 1, … without gaps, 1 to {LAYERS} of them; the file has"
            f" {numbers[:8]}{'' if numbers else _begins(saved)}"
        )
    if any(layer >= len(numbers) for layer in saved.tokens):
        raise Refused(
            f"tokens are dropped behind a layer that is not there: {sorted(saved.tokens)} of"
            f" {len(numbers)}"
        )
    words = _shape(saved, "bert.embeddings.word_embeddings.weight", 2)[0]
    model: Any = _fresh_bert(words, len(numbers))
    for number in numbers:
        path = f"bert.encoder.layer.{number}"
        rows = _shape(saved, f"{path}.attention.self.query.weight", 2)[0]
        wide = _shape(saved, f"{path}.intermediate.dense.weight", 2)[0]
        if rows % HEAD or not 1 <= rows // HEAD <= HEADS:
            raise Refused(
                f"layer {number}: query has {rows} rows, and a head has {HEAD}: 1 to {HEADS} heads"
            )
        if not 1 <= wide <= FFN:
            raise Refused(
                f"layer {number}: the feed-forward part is {wide} wide, and should be 1 to {FFN}"
            )
        _resize(model.get_submodule(path), rows // HEAD, wide)
    return _filled(model, saved.state)


def _fresh_bert(words: int, layers: int) -> Any:
    from course_lib.models.bert import small_bert

    given = given_vocabulary()
    if words != given:
        raise Refused(
            f"the word embeddings have {words} rows, and the vocabulary {given}: it stays as it is"
            " given"
        )
    return small_bert(given, layers=layers, positions=160)


def given_vocabulary() -> int:
    """Pieces of the given tokenizer."""
    from course_lib.models import checkpoints

    return len(checkpoints.load("reviews-bert-0").tokenizer)


def _resize(layer: nn.Module, heads: int, wide: int) -> None:
    """Linear layers of these sizes in place of a fresh layer's."""
    attention: Any = layer.get_submodule("attention.self")
    inner = heads * HEAD
    for name in ("query", "key", "value"):
        setattr(attention, name, nn.Linear(WIDTH, inner))
    attention.num_attention_heads, attention.all_head_size = heads, inner
    layer.get_submodule("attention.output").dense = nn.Linear(inner, WIDTH)
    layer.get_submodule("intermediate").dense = nn.Linear(WIDTH, wide)
    layer.get_submodule("output").dense = nn.Linear(wide, WIDTH)


def _shape(saved: Saved, name: str, dimensions: int) -> tuple[int, ...]:
    value = saved.state.get(name)
    if value is None or value.ndim != dimensions:
        raise Refused(f"{name} is missing, or has other dimensions than {dimensions}")
    return tuple(value.shape)


def _begins(saved: Saved) -> str:
    """Of which model the file may be: its first name, behind a comma."""
    return f", and the file begins with {min(saved.state)!r}" if saved.state else ", and all others"


def _some(names: list[str], what: str, one: str) -> str:
    """How many tensors, and the first."""
    if len(names) == 1:
        return f"one tensor {one}, {names[0]!r}"
    return f"{len(names)} tensors {what}, {names[0]!r} first"


@torch.no_grad()
def _filled(model: nn.Module, state: dict[str, Tensor]) -> nn.Module:
    own = {name: value for name, value in model.state_dict().items() if value.is_floating_point()}
    if missing := sorted(own.keys() - state.keys()):
        raise Refused(_some(missing, "are missing", "is missing"))
    if more := sorted(state.keys() - own.keys()):
        raise Refused(_some(more, "belong to no such model", "belongs to no such model"))
    for name, value in own.items():
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
