"""What a model takes to store: each tensor in its cheapest format, and two bits for which."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from course_lib.checks import check_names
from course_lib.cost.encodings import bitmap_bits, coo_bits, csr_bits

CHOICE = 2  # bits that say which format a tensor has


def model_bits(
    state: Mapping[str, Tensor], tied: Mapping[str, str] | None = None, bits: int = 32
) -> int:
    """Bits of a model: of each floating tensor the cheapest of dense, bitmap, COO and,
    from two dimensions on, CSR of (first, rest).

    Biases, norms and running statistics count like all others; integer and bool tensors
    (counters) are not stored. −0.0 is a zero, NaN is a value.

    Args:
        state: name -> tensor, as of ``state_dict()``. tied: name -> the name whose
            numbers it shares: not stored again.
        bits: of a value.
    """
    tied = dict(tied or {})
    check_names([*tied, *tied.values()], state, "tied")
    if chained := tied.keys() & tied.values():
        raise ValueError(f"tied names what is stored, and {min(chained)!r} is tied itself")
    return sum(
        tensor_bits(value, bits) + CHOICE
        for name, value in state.items()
        if value.is_floating_point() and name not in tied
    )


def tensor_bits(x: Tensor, bits: int = 32) -> int:
    """Of the cheapest format."""
    found = [x.numel() * bits, bitmap_bits(x, bits), coo_bits(x, bits)]
    if x.ndim >= 2 and x.numel():
        found.append(csr_bits(x.flatten(1), bits))
    return min(found)
