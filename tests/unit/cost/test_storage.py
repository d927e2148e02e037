"""The bits of a whole model, beside the formulas written out."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from course_lib.cost.encodings import storage_bits
from course_lib.cost.storage import model_bits, tensor_bits


@given(
    st.lists(st.integers(1, 9), max_size=4),
    st.floats(0, 1),
    st.sampled_from([1, 8, 32]),
    st.integers(0, 99),
)
@settings(deadline=None)
def test_a_tensor_has_the_cheapest_of_its_formats(shape, sparsity, bits, seed):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(shape, generator=generator) * (
        torch.rand(shape, generator=generator) >= sparsity
    )
    formats = storage_bits(x.reshape(len(x), -1) if shape else x, bits)
    cheapest = min(
        n for name, n in formats.items() if name != "rle" and (shape[1:] or name != "csr")
    )
    assert tensor_bits(x, bits) == cheapest
    assert model_bits({"x": x}, bits=bits) == cheapest + 2


def test_what_counts_and_what_does_not():
    state = {
        "w": torch.ones(3),
        "counter": torch.tensor(7),
        "mask": torch.ones(9, dtype=torch.bool),
        "same": torch.ones(3),
    }
    assert model_bits(state) == 2 * (3 * 32 + 2)
    assert model_bits(state, {"same": "w"}) == 3 * 32 + 2
    assert model_bits({"w": torch.tensor([-0.0, 0.0])}) == 2
    assert model_bits({"w": torch.tensor([torch.nan, 1.0])}) == 66
