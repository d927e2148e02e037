"""A model is its file: what is written comes back exactly, and whatever else a file may
be is refused in a sentence.
"""

from __future__ import annotations

import random
import resource
import struct
import sys
import time

import pytest
import torch
from hostile_models import BERT, CNN
from safetensors.torch import load, save

from course_lib.capstone import Refused, given, of_bytes, to_bytes
from course_lib.capstone.rebuilt import KINDS
from course_lib.pruning.channels import remove_filters, select_channels
from course_lib.pruning.heads import lowest_heads, remove_heads
from course_lib.pruning.layers import slice_ffn, take_layers


@pytest.fixture(scope="module")
def states() -> dict[str, bytes]:
    return {kind: to_bytes(given(kind)) for kind in KINDS}


def rebuilt(kind: str, data: bytes) -> torch.nn.Module:
    return KINDS[kind](of_bytes(data, "model.safetensors"))


@pytest.mark.parametrize("number", range(3))
@pytest.mark.parametrize("kind", KINDS)
def test_the_given_models_come_back_exactly(kind: str, number: int) -> None:
    model = given(kind, number)
    saved = of_bytes(to_bytes(model, {1: 0.5} if kind == "bert" else None), "m")
    assert saved.tokens == ({1: 0.5} if kind == "bert" else {})
    again = KINDS[kind](saved)
    assert not again.training
    for name, value in model.state_dict().items():
        if value.is_floating_point():
            assert torch.equal(again.state_dict()[name], value), name


def test_a_narrower_net_and_a_smaller_bert_compute_the_same_after_reading() -> None:
    net = given("cnn")
    x = torch.randn(4, 1, 8, 8)
    smaller, _ = remove_filters(net, select_channels(net, 0.4), x)
    assert torch.allclose(rebuilt("cnn", to_bytes(smaller))(x), smaller(x), atol=1e-6)
    bert = take_layers(given("bert"), "bert.encoder.layer", 3)
    bert = remove_heads(bert, lowest_heads(torch.rand(3, 8), 11, min_per_layer=1))
    keep = [torch.rand(256) < 0.4 for _ in range(3)]
    bert = slice_ffn(bert, keep)
    inputs = {
        "input_ids": torch.randint(5, 500, (3, 20)),
        "attention_mask": torch.ones(3, 20, dtype=torch.int64),
    }
    again = rebuilt("bert", to_bytes(bert))
    with torch.no_grad():
        assert torch.allclose(again(**inputs).logits, bert.eval()(**inputs).logits, atol=1e-6)


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


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("count", [150, pytest.param(5000, marks=pytest.mark.long)])
def test_mutated_files_are_read_or_refused(kind: str, count: int, states: dict[str, bytes]) -> None:
    """10,000 of them in `make test-all`, some hundreds in `make test`: none may end, hang
    or fill the reader.
    """
    begin, slowest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, 0.0
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
        since = time.process_time()
        try:
            rebuilt(kind, bytes(data))
        except Refused:
            refused += 1
        slowest = max(slowest, time.process_time() - since)
    assert refused > count / 2
    assert slowest < 10  # seconds, of the first, which imports what makes a BERT
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - begin
    assert grown * (1 if sys.platform == "darwin" else 1024) < 500 << 20
