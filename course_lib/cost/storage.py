"""What a whole model takes to store: every tensor in the cheapest of a few formats, and
two bits that say which.
"""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

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

    Raises:
        ValueError: if a name in ``tied`` is unknown, or tied to one that is tied
            itself.
    """
    tied = dict(tied or {})
    for name, other in tied.items():
        if name not in state or other not in state:
            raise ValueError(
                f"{name!r} is said to share the numbers of {other!r}, and one of them is not in the"
                " model"
            )
        if other in tied:
            raise ValueError(
                f"{name!r} is tied to {other!r}, which is tied itself: name the one that is stored"
            )
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
