"""Lab 00, counting cost: its contracts answered by the library, which has them under
the same names.
"""

from __future__ import annotations

from course_lib.cost import conv_cost, linear_cost, nonzero_macs, transformer_macs  # noqa: F401
from course_lib.cost.encodings import (  # noqa: F401
    bitmap_bits,
    bitmap_decode,
    bitmap_encode,
    coo_bits,
    coo_decode,
    coo_encode,
    csc_decode,
    csc_encode,
    csr_bits,
    csr_decode,
    csr_encode,
    rle_bits,
    rle_decode,
    rle_encode,
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
for question, answers, forbidden in (
    ("0.1", (conv_cost, linear_cost), ()),
    ("0.2", (transformer_macs,), ()),
    ("0.3", (nonzero_macs,), ()),
    ("0.4", (bitmap_encode, bitmap_decode, bitmap_bits), _SPARSE),
    ("0.5", (rle_encode, rle_decode, rle_bits), _SPARSE),
    ("0.6", (coo_encode, coo_decode, coo_bits), _SPARSE),
    ("0.7", (csr_encode, csr_decode, csr_bits), _SPARSE),
):
    for answer in answers:
        lab.asks(question, forbidden=forbidden)(answer)
lab.asks("0.8", "answer_0_8a", "answer_0_8b")
lab.asks("0.9", "answer_0_9a", "answer_0_9b")
lab.asks("0.10", forbidden=_SPARSE, optional=True)(csc_encode)
lab.asks("0.10", forbidden=_SPARSE, optional=True)(csc_decode)
