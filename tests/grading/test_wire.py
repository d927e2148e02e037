"""Plain data survive the wire; anything else is refused, never executed."""

from __future__ import annotations

import json
import math
import socket
import struct
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from course_lib.grading import Draw
from course_lib.sandbox_child import frames
from course_lib.student_code import plain_data

plain = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=12,
)


def there_and_back(value, **options):
    packer = plain_data.Packer()
    data = json.loads(json.dumps(packer.pack(value), allow_nan=False))
    return plain_data.Unpacker(packer.blobs, **options).unpack(data)


def same(a, b) -> bool:
    if isinstance(a, float) and isinstance(b, float):
        return a == b or (math.isnan(a) and math.isnan(b))
    if isinstance(a, list | tuple):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return isinstance(b, dict) and a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    return type(a) is type(b) and a == b


@given(plain)
def test_plain_values_come_back_as_they_were(value) -> None:
    assert same(there_and_back(value), value)


TENSORS = [
    *(
        (torch.randn(shape) * 3).to(dtype)
        for dtype in plain_data.DTYPES.values()
        for shape in ((), (0,), (3,), (2, 0, 4), (2, 3, 4))
    ),
    torch.tensor([float("nan"), -0.0, float("inf"), float("-inf")]),
    torch.arange(12).reshape(3, 4).T[::2],  # a view sends what it shows
    torch.from_numpy(np.nonzero(np.eye(1))[1]),  # one element of a strided array
    torch.arange(4)[::2][:1],
]


@pytest.mark.parametrize("value", TENSORS, ids=lambda value: f"{value.dtype}-{value.shape}")
def test_tensors_come_back_bit_by_bit(value: torch.Tensor) -> None:
    back = there_and_back(value)
    assert (back.dtype, back.shape) == (value.dtype, value.shape)
    assert repr(back.tolist()) == repr(value.tolist())  # tells NaN and -0.0, too


@pytest.mark.parametrize("order", [(1, 0, 2), (2, 0, 1), (2, 1, 0), (0, 2, 1)])
def test_a_turned_tensor_arrives_turned(order: tuple[int, ...]) -> None:
    value = torch.arange(24).reshape(2, 3, 4).permute(order)
    back = there_and_back(value)
    assert torch.equal(back, value)
    assert back.stride() == value.stride()


def test_numpy_stays_numpy_so_that_a_test_can_say_so() -> None:
    assert isinstance(there_and_back(np.arange(3.0)), np.ndarray)
    assert isinstance(there_and_back(np.int64(3)), np.int64)
    assert isinstance(there_and_back(np.bool_(True)), np.bool_)


@pytest.mark.parametrize(
    "value",
    [iter([1]), object(), {1, 2}, b"bytes", lambda: 0, 1 << 5000, torch.zeros(2).to_sparse()],
    ids=lambda value: (
        type(value).__name__
    ),  # not where it lies in memory: each process of a parallel run collects the same
)
def test_what_is_no_plain_data_is_only_named(value) -> None:
    assert isinstance(there_and_back(value), plain_data.Unserializable)


def test_modules_come_back_with_their_settings_and_values() -> None:
    model = nn.Sequential(
        nn.Conv2d(4, 6, 3, stride=2, padding=1, groups=2, bias=False),
        nn.BatchNorm2d(6),
        nn.Flatten(),
        nn.Linear(24, 3),
    )
    model[1].eval()
    back = there_and_back(model, build=True)
    assert [type(m) for m in back.modules()] == [type(m) for m in model.modules()]
    assert [m.training for m in back.modules()] == [m.training for m in model.modules()]
    x = torch.randn(2, 4, 4, 4)
    assert torch.equal(back(x), model(x))


def test_a_bert_comes_back_with_its_modes_and_its_positions() -> None:
    model = Draw("bert").bert(2, 4).train()
    model.bert.encoder.layer[1].eval()
    back = there_and_back(model, build=True)
    assert [type(m) for m in back.modules()] == [type(m) for m in model.modules()]
    assert [m.training for m in back.modules()] == [m.training for m in model.modules()]
    assert [m.p for m in back.modules() if isinstance(m, nn.Dropout)] == [
        m.p for m in model.modules() if isinstance(m, nn.Dropout)
    ]
    assert dict(back.named_buffers()).keys() == dict(model.named_buffers()).keys()
    words = torch.randint(12, (3, 7))
    assert torch.equal(back.eval()(words).logits, model.eval()(words).logits)


def build_bert(key: str, value: object) -> None:
    """A BERT of other numbers than its weights."""
    said = plain_data.describe(Draw("bert").bert(2, 4))
    said.layer.settings[key] = value
    said.build()


def build_layer(kind: str, **settings: object) -> None:
    plain_data.Model(plain_data.Layer(kind, settings), {}).build()


HOLDS_ITSELF: list = []
HOLDS_ITSELF.append(HOLDS_ITSELF)
REFUSED: list[tuple] = [
    (plain_data.Packer().pack, HOLDS_ITSELF),
    (plain_data.Packer().pack, torch.zeros(1).expand(10**12)),  # measured before it is copied
    (build_bert, "num_labels", 10**9),
    (build_bert, "num_hidden_layers", 10**9),
    (build_bert, "vocab_size", 10**12),
    (build_bert, "hidden_size", 0),
    (build_bert, "hidden_size", "12"),
    (build_bert, "num_attention_heads", 0),
    (build_bert, "num_attention_heads", 5),
    (build_bert, "attention_probs_dropout_prob", 3.0),
    (partial(build_layer, in_features=10**9, out_features=10**9), "Linear"),  # allocates nothing
    # not on the list of classes
    (build_layer, "os.system"),
    (build_layer, "course_lib.models.build"),
    (build_layer, "torch.nn.Linear"),
    (build_layer, "course_lib.models.os"),
]
BROKEN = [
    [],
    {},
    {"what": 1},
    {"tensor": "float32", "shape": [3], "blob": 0},
    {"tensor": "float32", "shape": [-1], "blob": 0},
    {"tensor": "float32", "shape": "x", "blob": 0},
    {"tensor": "object", "shape": [2], "blob": 0},
    {"tensor": "float32", "shape": [2], "blob": 7},
    {"tensor": "bool", "shape": [8], "blob": 0},
    {"tensor": "int32", "shape": [1, 2], "blob": 0, "order": [0, 0]},
    {"tensor": "int32", "shape": [1, 2], "blob": 0, "order": [0]},
    {"tensor": "int32", "shape": [1, 2], "blob": 0, "order": "ab"},
    {"float": "1"},
    {"dict": [[1]]},
    {"dict": [[{"list": []}, 1]]},
    {"model": 3, "state": {"dict": []}},
    {"model": {}, "state": {"dict": [["a", 1]]}},
    {"ref": "x"},
    # one block of bytes, two tensors
    {"list": [{"tensor": "uint8", "shape": [8], "blob": 0}] * 2},
    {"tensor": ["float32"], "shape": [2], "blob": 0},
    {"tensor": "float32", "shape": [0, 1 << 39, 1 << 39], "blob": 1},
    {"scalar": "int64", "value": 1 << 70},
    {"scalar": "int64"},
    {"model": {"children": [[1, 2, 3]]}, "state": {"dict": []}},
]


@pytest.mark.parametrize(
    ("call", "arguments"),
    [
        *((call, arguments) for call, *arguments in REFUSED),
        *((plain_data.Unpacker([b"\xff" * 8, b""]).unpack, [data]) for data in BROKEN),
    ],
    ids=range(len(REFUSED) + len(BROKEN)),
)
def test_what_breaks_the_rules_is_refused(call: Callable[..., object], arguments: list) -> None:
    with pytest.raises(plain_data.WireError):
        call(*arguments)


def frame(text: bytes, body: bytes = b"") -> bytes:
    return struct.pack("!II", len(text), len(body)) + text + body


@pytest.mark.parametrize(
    "bytes_",
    [
        frame(b"no json"),
        frame(b"[1]"),
        frame(b'{"lengths": [9999999999]}', b"x"),
        frame(b'{"lengths": [2, -1]}', b"x"),
        frame(b'{"lengths": 3}', b"x"),
        frame(b"{}", b"x"),
        frame(b"[" * 100_000),
        frame(b'{"a": ' + b"9" * 10_000 + b"}"),
        struct.pack("!II", 1 << 30, 0),
        struct.pack("!II", 10, 1 << 30),
        b"",
        frame(b"{}")[:-1],
    ],
    ids=range(12),
)
def test_frames_that_break_the_rules_are_refused(bytes_: bytes) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(bytes_)
        theirs.shutdown(socket.SHUT_WR)
        with pytest.raises(plain_data.WireError):
            frames.receive(ours, frames.until(5))


def test_a_closed_conversation_is_said_to_be() -> None:
    ours, theirs = socket.socketpair()
    theirs.close()
    ours.close()
    with pytest.raises(frames.Closed):
        frames.send(ours, {}, remaining=frames.until(1))
    with pytest.raises(frames.Closed):
        frames.receive(ours, frames.until(1))


def test_a_slow_sender_does_not_hold_the_grader() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(frame(b"{}")[:-1])
        with pytest.raises(frames.TooLate):
            frames.receive(ours, frames.until(0.2))
