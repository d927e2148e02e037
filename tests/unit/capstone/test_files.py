"""A model is its file: what is written comes back exactly, and whatever else a file may
be is refused in a sentence.
"""

from __future__ import annotations

import json
import random
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load, save
from torch import Tensor

from course_lib.capstone import Refused, given, of_bytes, read, write
from course_lib.capstone.rebuilt import KINDS
from course_lib.pruning.channels import remove_filters, select_channels
from course_lib.pruning.heads import lowest_heads, remove_heads
from course_lib.pruning.layers import slice_ffn, take_layers

State = dict[str, Tensor]


@pytest.fixture(scope="module")
def states(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("files")
    found = {}
    for kind in KINDS:
        write(given(kind), folder / kind)
        found[kind] = (folder / kind).read_bytes()
    return found


def rebuilt(kind: str, data: bytes) -> torch.nn.Module:
    return KINDS[kind](of_bytes(data, "model.safetensors"))


@pytest.mark.parametrize("number", range(3))
@pytest.mark.parametrize("kind", KINDS)
def test_the_given_models_come_back_exactly(kind: str, number: int, tmp_path: Path) -> None:
    model = given(kind, number)
    write(model, tmp_path / "m.safetensors", {1: 0.5} if kind == "bert" else None)
    saved = read(tmp_path / "m.safetensors")
    assert saved.tokens == ({1: 0.5} if kind == "bert" else {})
    again = KINDS[kind](saved)
    assert not again.training
    for name, value in model.state_dict().items():
        if value.is_floating_point():
            assert torch.equal(again.state_dict()[name], value), name
    assert not list(tmp_path.glob("*.part"))


def test_a_narrower_net_and_a_smaller_bert_compute_what_they_did(tmp_path: Path) -> None:
    net = given("cnn")
    x = torch.randn(4, 1, 8, 8)
    smaller, _ = remove_filters(net, select_channels(net, 0.4), x)
    write(smaller, tmp_path / "cnn")
    assert torch.allclose(KINDS["cnn"](read(tmp_path / "cnn"))(x), smaller(x), atol=1e-6)
    bert = take_layers(given("bert"), "bert.encoder.layer", 3)
    bert = remove_heads(bert, lowest_heads(torch.rand(3, 8), 11, min_per_layer=1))
    keep = [torch.rand(256) < 0.4 for _ in range(3)]
    bert = slice_ffn(bert, keep)
    write(bert, tmp_path / "bert")
    inputs = {
        "input_ids": torch.randint(5, 500, (3, 20)),
        "attention_mask": torch.ones(3, 20, dtype=torch.int64),
    }
    again = KINDS["bert"](read(tmp_path / "bert"))
    with torch.no_grad():
        assert torch.allclose(again(**inputs).logits, bert.eval()(**inputs).logits, atol=1e-6)


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


def _wide_conv(state: State) -> None:
    state["conv4.weight"] = torch.zeros(70, 64, 3, 3)


CNN: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "empty": (lambda data: b"", "no safetensors file"),
    "text": (lambda data: b"not a model at all", "no safetensors file"),
    "a pickle": (
        lambda data: b"\x80\x04\x95\x1a\x00\x00\x00\x00\x00\x00\x00\x8c\x05posix\x94.",
        "no safetensors file",
    ),
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
    "no first layer": (_without("conv1.weight"), "conv1.weight is missing"),
    "no statistics": (_without("bn2.running_mean"), "'bn2.running_mean' first"),
    "something more": (_more("conv5.weight", torch.zeros(3, 3, 3, 3)), "'conv5.weight' first"),
    "a bias that no such net has": (_more("conv1.bias", torch.zeros(32)), "'conv1.bias' first"),
    "wider than given": (_changed(_wide_conv), "conv4 has 70 filters, and should have 1 to 64"),
    "no filters": (_with("conv1.weight", lambda x: x[:0]), "conv1 has 0 filters"),
    "larger kernels": (_more("conv1.weight", torch.zeros(32, 1, 5, 5)), "no weight of 3x3 filters"),
    "a vector for a kernel": (
        _with("conv1.weight", lambda x: x.flatten()),
        "no weight of 3x3 filters",
    ),
    "layers that do not fit": (
        _with("conv2.weight", lambda x: x[:, :7]),
        "beside the other tensors it should be",
    ),
    "more classes": (
        _with("fc.weight", lambda x: torch.cat([x, x])),
        "beside the other tensors it should be",
    ),
    "tokens": (_tokens('{"1": 0.5}'), "no tokens to drop"),
}
BERT: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "a convolutional net": (lambda data: save({"conv1.weight": torch.zeros(4, 1, 3, 3)}), "layers are numbered 0, 1"),
    "a gap in the numbers": (_changed(_renumbered), "without gaps"),
    "five layers": (_changed(_fifth_layer), "1 to 4 of them"),
    "a wider feed-forward part": (_changed(_wide_ffn), "300 wide, and should be 1 to 256"),
    "nine heads": (_changed(_nine_heads), "144 rows, and a head has 16: 1 to 8"),
    "half a head": (_with("bert.encoder.layer.1.attention.self.query.weight", lambda x: x[:24]), "24 rows, and a head has 16"),
    "query and key of unlike sizes": (_with("bert.encoder.layer.1.attention.self.key.weight", lambda x: x[:64]), "it should be"),
    "another vocabulary": (_with("bert.embeddings.word_embeddings.weight", lambda x: x[:50]), "it stays as it is given"),
    "no vocabulary": (_without("bert.embeddings.word_embeddings.weight"), "word_embeddings.weight is missing"),
    "tokens behind a layer that is not there": (_tokens('{"5": 0.5}'), "a layer that is not there"),
    "tokens that are no JSON": (_tokens("half of them"), "tokens are a JSON object"),
    "tokens as a list": (_tokens("[1, 2, 3]"), "tokens are a JSON object"),
    "more than all tokens": (_tokens('{"1": 1.5}'), "above 0 and at most 1"),
    "NaN tokens": (_tokens('{"1": NaN}'), "above 0 and at most 1"),
    "endless tokens": (_tokens('{"1": ' + "[" * 5000), "a thousand characters"),
}  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "how"), [*(("cnn", how) for how in CNN), *(("bert", how) for how in BERT)]
)
def test_a_hostile_file_is_refused_in_a_sentence(
    kind: str, how: str, states: dict[str, bytes]
) -> None:
    make, says = (CNN if kind == "cnn" else BERT)[how]
    with pytest.raises(Refused, match=says) as refused:
        rebuilt(kind, make(states[kind]))
    assert len(str(refused.value)) < 400 and "\n" not in str(refused.value)


def test_there_are_forty_of_them() -> None:
    assert len(CNN) + len(BERT) >= 40


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="cannot be read"):
        read(tmp_path / "nothing.safetensors")
    with pytest.raises(Refused, match="is no file"):
        read(tmp_path)
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with pytest.raises(Refused, match="cannot be read"):
        read(tmp_path / "loop")
    zipfile.ZipFile(tmp_path / "m.safetensors", "w").close()
    with pytest.raises(Refused, match="no safetensors file"):
        read(tmp_path / "m.safetensors")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("count", [150, pytest.param(5000, marks=pytest.mark.long)])
def test_mutated_files_are_read_or_refused(kind: str, count: int, states: dict[str, bytes]) -> None:
    """10,000 of them in `make prove`, some hundreds in `make test`: none may end, hang
    or fill the reader.
    """
    chance = random.Random(f"{kind} files")
    whole = states[kind]
    if kind == "bert":  # the header is what is read first, and as likely wrong as all the numbers
        whole = save({n: v for n, v in load(whole).items() if "layer.0" in n or "layer" not in n})
    header = 8 + struct.unpack("<Q", whole[:8])[0]
    refused = 0
    for _ in range(count):
        data = bytearray(whole)
        for _ in range(chance.randint(1, 6)):
            at = chance.randrange(header if chance.random() < 0.8 else len(data))
            what = chance.random()
            if what < 0.6:
                data[at] = chance.choice(
                    (0, 9, 34, 44, 45, 48, 57, 91, 123, 125, 255, chance.randrange(256))
                )
            elif what < 0.8:
                del data[at : at + chance.randint(1, 40)]
            else:
                data[at:at] = bytes(chance.randrange(256) for _ in range(chance.randint(1, 40)))
        try:
            rebuilt(kind, bytes(data))
        except Refused:
            refused += 1
    assert refused > count / 2
