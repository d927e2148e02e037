"""Lab 00, counting cost: its contracts answered by the library, which has them under
the same names.
"""

from __future__ import annotations

from torch import Tensor

from course_lib.cost import (
    conv_cost,
    least_seconds,
    linear_cost,
    nonzero_macs,
    product_work,
    transformer_macs,
)
from course_lib.cost.encodings import (
    bitmap_bits,
    bitmap_decode,
    bitmap_encode,
    coo_bits,
    coo_decode,
    coo_encode,
    csr_bits,
    rle_bits,
)
from course_lib.labs.contract import Contract

lab = Contract("lab00")
_SPARSE = (
    "scipy.sparse",
    "torch.Tensor.to_sparse",
    "torch.Tensor.to_sparse_coo",
    "torch.Tensor.to_sparse_csr",
    "torch.Tensor.to_sparse_csc",
    "torch.Tensor.to_sparse_bsr",
    "torch.Tensor.to_sparse_bsc",
    "torch.Tensor._to_sparse",
    "torch.Tensor._to_sparse_csr",
    "torch.Tensor._to_sparse_csc",
    "torch.Tensor._to_sparse_bsr",
    "torch.Tensor._to_sparse_bsc",
    "torch.Tensor.to_dense",
    "torch.sparse_coo_tensor",
    "torch.sparse_csr_tensor",
    "torch.sparse_csc_tensor",
    "torch.sparse_bsr_tensor",
    "torch.sparse_bsc_tensor",
    "torch.sparse_compressed_tensor",
    "torch._convert_indices_from_coo_to_csr",
    "torch._convert_indices_from_csr_to_coo",
)


def csc_bits(x2d: Tensor, n: int = 32) -> int:
    """0.8: CSC of a matrix is CSR of its transpose."""
    return csr_bits(x2d.T, n)


for question, answers, forbidden in (
    ("0.1", (conv_cost, linear_cost), ()),
    ("0.2", (transformer_macs,), ()),
    ("0.3", (nonzero_macs,), ()),
    ("0.4", (bitmap_encode, bitmap_decode, bitmap_bits), _SPARSE),
    ("0.5", (coo_encode, coo_decode, coo_bits), _SPARSE),
    ("0.6", (product_work, least_seconds), ()),
):
    for answer in answers:
        lab.asks(question, forbidden=forbidden)(answer)
lab.asks("0.7", "answer_0_7a", "answer_0_7b", "answer_0_7c")
for optional in (rle_bits, csr_bits, csc_bits):
    lab.asks("0.8", forbidden=_SPARSE, optional=True)(optional)
