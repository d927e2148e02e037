"""What this room refuses, and the argument that it names."""

import pytest
import torch

from course_lib.cost import (
    conv_cost,
    latency,
    linear_cost,
    nonzero_macs,
    texts_macs,
    token_macs,
    transformer_macs,
)
from course_lib.cost import encodings as e
from course_lib.cost.block_formats import nm_bits, nm_compress
from course_lib.cost.storage import model_bits

ONE, TWO = torch.ones(1), torch.ones(2)
WHOLE = torch.ones(2, 3, dtype=torch.int64)
IMAGE = torch.ones(1, 3, 5, 5)


def csr(values, index, pointer, decode=e.csr_decode):
    return decode(values, torch.tensor(index), torch.as_tensor(pointer), (2, 3))


def bits(format, p=0.5, **options):
    return e.formula_bits(format, 10, p, **options)


REFUSED = [
    ("M must be", lambda: conv_cost(0, 1, 1, 1, 1, 1)),
    ("larger than the padded input", lambda: conv_cost(1, 1, 3, 3, 2, 5)),
    ("stride", lambda: conv_cost(1, 1, 3, 3, 5, 5, stride=0)),
    ("padding", lambda: conv_cost(1, 1, 3, 3, 5, 5, padding=-1)),
    ("d_in", lambda: linear_cost(1, 0, 1)),
    ("heads must divide", lambda: transformer_macs(1, 4, 10, heads=3)),
    ("x", lambda: nonzero_macs(torch.ones(2, 3), torch.ones(4, 5))),
    ("larger than", lambda: nonzero_macs(torch.ones(2, 3, 7, 7), IMAGE)),
    # lengths
    ("attention", lambda: token_macs([3, -1], 8)),
    ("E must", lambda: token_macs([3], 0)),
    ("attention and ffn", lambda: token_macs([3, 2], 8, ffn_lengths=[3])),
    ("attention_width", lambda: token_macs([3, 2], 8, attention_width=[8])),
    ("attention and ffn", lambda: texts_macs(torch.ones(2, 3), torch.ones(2, 3), 8)),
    # storage
    ("x is complex", lambda: e.bitmap_encode(torch.ones(2, dtype=torch.complex64))),
    ("bitmap", lambda: e.bitmap_decode(torch.tensor([1, 0]), ONE)),
    ("marked elements", lambda: e.bitmap_decode(torch.tensor([True, True]), ONE)),
    ("run_bits", lambda: e.rle_encode(torch.ones(3), run_bits=0)),
    ("cover 2", lambda: e.rle_decode(torch.tensor([1]), ONE, (3,))),
    ("run of zeros", lambda: e.rle_decode(torch.tensor([-1, 2]), TWO, (3,))),
    ("runs must have one entry", lambda: e.rle_decode(torch.tensor([1, 0]), ONE, (3,))),
    ("index", lambda: e.coo_decode(torch.tensor([3]), ONE, (3,))),
    ("index must be an integer", lambda: e.coo_decode(torch.tensor([0.0]), ONE, (3,))),
    ("matrices", lambda: e.csr_encode(torch.ones(3))),
    ("COL_INDEX .*0..2", lambda: csr(ONE, [3], [0, 1, 1])),
    ("COL_INDEX .*0..2", lambda: csr(ONE, [-1], [0, 0, 1])),
    ("pointer must have 3", lambda: csr(ONE, [0], [0, 1])),
    ("pointer .*grow", lambda: csr(TWO, [0, 1], [0, 3, 2])),
    ("pointer .*grow", lambda: csr(TWO, [0, 1], torch.tensor([0, 3, 2], dtype=torch.uint8))),
    ("ROW_INDEX .*0..1", lambda: csr(ONE, [2], [0, 1, 1, 1], e.csc_decode)),
    ("format", lambda: bits("zip")),
    ("p is", lambda: bits("coo", 90)),
    ("shape", lambda: bits("csr")),
    ("tied .*'c'", lambda: model_bits({"a": ONE, "b": ONE, "c": ONE}, {"b": "c", "c": "a"})),
    ("tied", lambda: model_bits({"a": ONE}, {"a": "b"})),
    # n of m
    ("row 0 has 4", lambda: nm_compress(torch.ones(1, 4), 2, 4)),
    ("row 1 has 3 .*columns 4 to 7", lambda: nm_compress(torch.tensor([[0.0] * 8, [0] * 5 + [1, torch.nan, 3]]), 2, 4)),
    ("fit 6", lambda: nm_compress(torch.zeros(1, 6), 2, 4)),
    ("at least 1 and at most m", lambda: nm_compress(torch.zeros(1, 4), 0, 4)),
    ("at most m", lambda: nm_bits(1, 4, 5, 4)),
    # time
    ("repeats", lambda: latency.measure(int, repeats=0)),
    ("warmup", lambda: latency.measure(int, warmup=-1)),
    ("threads", lambda: latency.measure(int, threads=0)),
    ("2 threads pass wall=True", lambda: latency.measure(int, threads=2)),
]  # fmt: skip


@pytest.mark.parametrize(("words", "call"), REFUSED, ids=range(len(REFUSED)))
def test_it_is_refused_by_name(words, call):
    with pytest.raises(ValueError, match=words):
        call()
