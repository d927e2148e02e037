"""Sparse encodings beside scipy.sparse, torch.sparse and numpy.

Decoders begin with the stored arrays and check them, since that is what a file holds: of
scipy and torch this is their own full check.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np
import torch
from run import Row
from scipy import sparse

from course_lib.cost import encodings as e

SIZE, SPARSITY = 2048, 0.9
SHAPE = (SIZE, SIZE)
ALL = [1, torch.get_num_threads()]
KINDS = {  # scipy's, torch's, and the names of torch's two lists
    "CSR": (sparse.csr_array, torch.sparse_csr_tensor, "col_indices", "crow_indices"),
    "CSC": (sparse.csc_array, torch.sparse_csc_tensor, "row_indices", "ccol_indices"),
}


@cache
def matrix() -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(SHAPE, generator=generator)
    return x.masked_fill(torch.rand(SHAPE, generator=generator) < SPARSITY, 0)


def arrays(result: Any) -> list[np.ndarray]:
    """The stored arrays of any contestant, in our order."""
    if isinstance(result, sparse.sparray):
        if result.format == "coo":
            return [result.coords[0].astype(np.int64) * SIZE + result.coords[1], result.data]
        return [result.data, result.indices, result.indptr]
    if isinstance(result, torch.Tensor):
        if result.layout == torch.sparse_coo:
            row, column = (result := result.coalesce()).indices()
            return [(row * SIZE + column).numpy(), result.values().numpy()]
        _, _, *lists = KINDS["CSR" if result.layout == torch.sparse_csr else "CSC"]
        return [result.values().numpy(), *(getattr(result, part)().numpy() for part in lists)]
    return [np.asarray(part) for part in result if not isinstance(part, tuple)]


def same_arrays(ours: Any, theirs: Any) -> None:
    assert all(map(np.array_equal, arrays(ours), arrays(theirs)))


def same_matrix(ours: torch.Tensor, theirs: Any) -> None:
    assert torch.equal(ours, matrix()) and np.array_equal(np.asarray(theirs), matrix().numpy())


def encode(name: str) -> Row:
    x, X, format = matrix(), matrix().numpy(), name.split()[0]
    peers: dict[str, Callable[[], object]]
    if format == "bitmap":
        ours = e.bitmap_encode
        peers = {
            "numpy": lambda: (mask := X != 0, X[mask]),
            "torch": lambda: (mask := x != 0, x[mask]),
        }
    elif format == "COO":
        ours = e.coo_encode
        peers = {
            "numpy": lambda: (index := np.flatnonzero(X), X.ravel()[index]),
            "scipy": lambda: sparse.coo_array(X),
            "torch": x.to_sparse_coo,
        }
    else:
        ours = e.csr_encode if format == "CSR" else e.csc_encode
        peers = {
            "scipy": partial(KINDS[format][0], X),
            "torch": x.to_sparse_csr if format == "CSR" else x.to_sparse_csc,
        }
    return Row(name, partial(ours, x), peers, same_arrays, rounds=25, threads=ALL)


def decode(name: str) -> Row:
    x, X, format = matrix(), matrix().numpy(), name.split()[0]
    checked = {"size": SHAPE, "check_invariants": True}
    peers: dict[str, Callable[[], object]]

    def fill(out: Any, place: Any, values: Any) -> Any:
        out[place] = values
        return out.reshape(SHAPE)

    if format == "bitmap":
        mask, values = X != 0, X[X != 0]
        ours = partial(e.bitmap_decode, *e.bitmap_encode(x))
        peers = {
            "numpy": lambda: fill(np.zeros(SHAPE, np.float32), mask, values),
            "torch": lambda: fill(torch.zeros(SHAPE), x != 0, torch.from_numpy(values)),
        }
    elif format == "COO":
        index, values = np.flatnonzero(X), X[X != 0]
        coordinates, held = sparse.coo_array(X), x.to_sparse_coo().coalesce()
        ours = partial(e.coo_decode, *e.coo_encode(x))
        stored = (coordinates.data, coordinates.coords)
        torchs = (held.indices(), held.values())
        peers = {
            "numpy": lambda: fill(np.zeros(X.size, np.float32), index, values),
            "scipy": lambda: sparse.coo_array(stored, SHAPE).toarray(),
            "torch": lambda: torch.sparse_coo_tensor(
                *torchs, is_coalesced=True, **checked
            ).to_dense(),
        }
    else:
        of_scipy, of_torch, *_ = KINDS[format]
        code = e.csr_encode if format == "CSR" else e.csc_encode
        ours = partial(e.csr_decode if format == "CSR" else e.csc_decode, *code(x), SHAPE)
        values, index, pointer = code(x)

        def scipys() -> np.ndarray:
            found = of_scipy((values.numpy(), index.numpy(), pointer.numpy()), SHAPE)
            found.check_format(full_check=True)
            return found.toarray(order="C")

        peers = {
            "scipy": scipys,
            "torch": lambda: of_torch(pointer, index, values, **checked).to_dense(),
        }
    return Row(name, ours, peers, same_matrix, rounds=25, threads=ALL)


def run_lengths(name: str) -> Row:
    small = matrix()[:128, :128].contiguous()

    def loop() -> tuple[list[int], list[float]]:
        """Over elements, as it is usually written."""
        flat, runs, values, run = small.flatten().tolist(), [], [], 0
        for i, value in enumerate(flat):
            if value == 0 and run < 3 and i + 1 < len(flat):
                run += 1
            else:
                runs.append(run)
                values.append(value)
                run = 0
        return runs, values

    def same(ours: Any, theirs: Any) -> None:
        assert [part.tolist() for part in ours[:2]] == [*theirs]

    return Row(name, partial(e.rle_encode, small), {"loop over elements": loop}, same, rounds=25)


ROWS = {
    **{f"{format} encode": encode for format in ("bitmap", "COO", "CSR", "CSC")},
    **{f"{format} decode": decode for format in ("bitmap", "COO", "CSR", "CSC")},
    "run lengths of 128 x 128": run_lengths,
}
