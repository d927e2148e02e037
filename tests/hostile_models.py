"""Files that are no model of the capstone: what students hand in by mistake, and what
somebody might hand in on purpose. Each is made from the bytes of a good one, and stands
beside words of the sentence that refuses it.
"""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Callable

import torch
from safetensors.torch import load, save
from torch import Tensor

State = dict[str, Tensor]


def _changed(change: Callable[[State], None]) -> Callable[[bytes], bytes]:
    def make(data: bytes) -> bytes:
        state = load(data)
        change(state)
        return save(state)

    return make


def _with(name: str, value: Callable[[Tensor], Tensor]) -> Callable[[bytes], bytes]:
    return _changed(lambda state: state.update({name: value(state[name]).contiguous()}))


def _without(name: str) -> Callable[[bytes], bytes]:
    return _changed(lambda state: state.__delitem__(name))


def _more(name: str, value: Tensor) -> Callable[[bytes], bytes]:
    return _changed(lambda state: state.update({name: value}))


def _header(text: str | bytes, length: int | None = None) -> bytes:
    raw = text.encode() if isinstance(text, str) else text
    return struct.pack("<Q", len(raw) if length is None else length) + raw


def _tokens(text: str) -> Callable[[bytes], bytes]:
    return lambda data: save(load(data), {"tokens": text})


def _nan(x: Tensor) -> Tensor:
    x = x.clone()
    x.view(-1)[0] = torch.nan
    return x


def _renumbered(state: State) -> None:
    for name in [n for n in state if ".layer.2." in n]:
        state[name.replace(".layer.2.", ".layer.7.")] = state.pop(name)


def _fifth_layer(state: State) -> None:
    for name in [n for n in state if ".layer.3." in n]:
        state[name.replace(".layer.3.", ".layer.4.")] = state[name].clone()


def _wide_ffn(state: State) -> None:
    path = "bert.encoder.layer.0"
    for name, shape in (
        ("intermediate.dense.weight", (300, 128)),
        ("intermediate.dense.bias", (300,)),
        ("output.dense.weight", (128, 300)),
    ):
        state[f"{path}.{name}"] = torch.zeros(shape)


def _nine_heads(state: State) -> None:
    path = "bert.encoder.layer.0.attention"
    for name in ("query", "key", "value"):
        state[f"{path}.self.{name}.weight"] = torch.zeros(144, 128)
        state[f"{path}.self.{name}.bias"] = torch.zeros(144)
    state[f"{path}.output.dense.weight"] = torch.zeros(128, 144)


def _masks(state: State) -> None:
    state |= {f"{n}_mask": (v != 0).float() for n, v in state.items() if n.endswith(".weight")}


def _wrapped(state: State) -> None:
    for name in list(state):
        state[f"model.{name}"] = state.pop(name)


def _saved_by_torch(data: bytes) -> bytes:
    torch.save(load(data), file := io.BytesIO())
    return file.getvalue()


def _wide_conv(state: State) -> None:
    state["conv4.weight"] = torch.zeros(70, 64, 3, 3)


CNN: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "empty": (lambda data: b"", "no safetensors file that can be read .it is empty"),
    "text": (lambda data: b"not a model at all", "no safetensors file"),
    "a pickle": (
        lambda data: b"\x80\x04\x95\x1a\x00\x00\x00\x00\x00\x00\x00\x8c\x05posix\x94.",
        "no safetensors file that can be read",
    ),
    "a state dict of torch.save": (_saved_by_torch, "it is a zip archive, as torch.save writes"),
    "half of it": (lambda data: data[: len(data) // 2], "no safetensors file"),
    "one byte less": (lambda data: data[:-1], "no safetensors file"),
    "one byte more": (lambda data: data + b"\0", "no safetensors file"),
    "a header of 2^63 bytes": (lambda data: _header(b"{}", 1 << 63), "no safetensors file"),
    "a header longer than the file": (lambda data: _header(b"{}", 10**6), "no safetensors file"),
    "a header that is no JSON": (lambda data: _header("{nonsense"), "no safetensors file"),
    "a header of a million brackets": (lambda data: _header("[" * 10**6), "no safetensors file"),
    "a tensor with huge dimensions": (
        lambda data: (
            _header(
                json.dumps(
                    {"conv1.weight": {"dtype": "F32", "shape": [2**62, 4], "data_offsets": [0, 4]}}
                )
            )
            + b"\0" * 4
        ),
        "no safetensors file",
    ),
    "a tensor beyond the end": (
        lambda data: _header(
            json.dumps(
                {
                    "conv1.weight": {
                        "dtype": "F32",
                        "shape": [4],
                        "data_offsets": [10**9, 10**9 + 16],
                    }
                }
            )
        ),
        "no safetensors file",
    ),
    "an unknown dtype": (
        lambda data: (
            _header(
                json.dumps({"conv1.weight": {"dtype": "Q4", "shape": [4], "data_offsets": [0, 2]}})
            )
            + b"\0\0"
        ),
        "no safetensors file",
    ),
    "a name twice": (
        lambda data: (
            _header(
                '{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}'
            )
            + b"\0" * 4
        ),
        "missing|no safetensors",
    ),
    "nine megabytes": (lambda data: data + b"\0" * 9_000_000, "8,000,000 are enough"),
    "a thousand tensors": (
        lambda data: save({f"t{i}": torch.zeros(1) for i in range(1000)}),
        "400 are more than enough",
    ),
    "half precision": (_with("conv1.weight", Tensor.half), "F16, and numbers are float32"),
    "double precision": (_with("fc.weight", Tensor.double), "F64, and numbers are float32"),
    "whole numbers": (
        _with("fc.weight", lambda x: (100 * x).long()),
        "I64, and numbers are float32",
    ),
    "bytes for numbers": (
        _with("fc.bias", lambda x: x.to(torch.uint8)),
        "U8, and numbers are float32",
    ),
    "NaN": (_with("conv2.weight", _nan), "'conv2.weight' holds numbers that are not finite"),
    "infinity": (_with("fc.bias", lambda x: x + torch.inf), "not finite"),
    "a negative variance": (_with("bn1.running_var", lambda x: x - 9), "a variance below 0"),
    "no first layer": (
        _without("conv1.weight"),
        "'conv1.weight' is missing$",
    ),
    "no statistics": (_without("bn2.running_mean"), "'bn2.running_mean' is missing$"),
    "something more": (
        _more("conv5.weight", torch.zeros(3, 3, 3, 3)),
        "'conv5.weight' is of no such model$",
    ),
    "masks beside the weights": (
        _changed(_masks),
        "'bn1.weight_mask' is of no such model, and 8 more",
    ),
    "names of a wrapped model": (
        _changed(_wrapped),
        "'bn1.bias' is missing, and .. more",
    ),
    "wider than given": (
        _changed(_wide_conv),
        r"\(70, 64, 3, 3\), and should be at most \(64, 64, 3, 3\)",
    ),
    "no filters": (
        _with("conv1.weight", lambda x: x[:0]),
        r"\(0, 1, 3, 3\), and should be at most",
    ),
    "larger kernels": (_more("conv1.weight", torch.zeros(32, 1, 5, 5)), r"at most \(32, 1, 3, 3\)"),
    "a vector for a kernel": (
        _with("conv1.weight", lambda x: x.flatten()),
        r"should be at most \(32, 1, 3, 3\)",
    ),
    "layers that do not fit": (
        _with("conv2.weight", lambda x: x[:, :7]),
        "beside the other tensors it should be",
    ),
    "more classes": (
        _with("fc.weight", lambda x: torch.cat([x, x])),
        r"should be at most \(10, 64\)",
    ),
    "tokens": (_tokens('{"1": 0.5}'), "no tokens to drop"),
}
BERT: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "a convolutional net": (lambda data: save({"conv1.weight": torch.zeros(4, 1, 3, 3)}), "layers are numbered 0, 1, .*begins with 'conv1.weight'"),
    "a gap in the numbers": (_changed(_renumbered), "without gaps"),
    "five layers": (_changed(_fifth_layer), "1 to 4 of them"),
    "a wider feed-forward part": (_changed(_wide_ffn), r"should be at most \(256"),
    "nine heads": (_changed(_nine_heads), r"\(144, 128\), and should be at most \(128, 128\)"),
    "half a head": (_with("bert.encoder.layer.1.attention.self.query.weight", lambda x: x[:-8]), "rows, and a head has 16"),
    "query and key of unlike sizes": (_with("bert.encoder.layer.1.attention.self.key.weight", lambda x: x[:-16]), "it should be"),
    "another vocabulary": (_with("bert.embeddings.word_embeddings.weight", lambda x: x[:50]), "beside the other tensors it should be"),
    "no vocabulary": (_without("bert.embeddings.word_embeddings.weight"), "word_embeddings.weight' is missing"),
    "tokens behind a layer that is not there": (_tokens('{"5": 0.5}'), "a layer that is not there"),
    "tokens that are no JSON": (_tokens("half of them"), "tokens are a JSON object"),
    "tokens as a list": (_tokens("[1, 2, 3]"), "tokens are a JSON object"),
    "more than all tokens": (_tokens('{"1": 1.5}'), "above 0 and at most 1"),
    "NaN tokens": (_tokens('{"1": NaN}'), "above 0 and at most 1"),
    "endless tokens": (_tokens('{"1": ' + "[" * 5000), "a thousand characters"),
}  # fmt: skip
