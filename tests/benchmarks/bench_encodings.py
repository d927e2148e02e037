"""Sparse encodings beside scipy.sparse, torch.sparse and numpy:
``python tests/benchmarks/bench_encodings.py``.

Every contestant does what its own documentation says, and every decoder begins with the
stored arrays and checks them, since that is what a file holds. Results are compared
before times are. All take turns in one run, and each ratio is the median over rounds of
(theirs / ours): above 1, ours is faster. Peers keep int32 indices where they like
(scipy does); ours are int64, as the course's contract says.
"""

import argparse
import platform
import warnings
from collections.abc import Callable
from functools import partial

import numpy as np
import scipy
import scipy.sparse
import torch

from course_lib.cost import encodings
from course_lib.cost.latency import compare

Contest = dict[str, Callable[[], object]]  # the first one is ours


def encoders(x: torch.Tensor) -> dict[str, Contest]:
    """For each format: name -> a function that encodes x."""
    X = x.numpy()
    return {
        "bitmap": {
            "ours": lambda: encodings.bitmap_encode(x),
            "numpy": lambda: (mask := X != 0, X[mask]),
            "torch": lambda: (mask := x != 0, x[mask]),
        },
        "COO": {
            "ours": lambda: encodings.coo_encode(x),
            "numpy": lambda: (index := np.flatnonzero(X), X.ravel()[index]),
            "scipy": lambda: scipy.sparse.coo_array(X),
            "torch": lambda: x.to_sparse_coo(),
        },
        "CSR": {
            "ours": lambda: encodings.csr_encode(x),
            "scipy": lambda: scipy.sparse.csr_array(X),
            "torch": lambda: x.to_sparse_csr(),
        },
        "CSC": {
            "ours": lambda: encodings.csc_encode(x),
            "scipy": lambda: scipy.sparse.csc_array(X),
            "torch": lambda: x.to_sparse_csc(),
        },
    }


def decoders(encoded: dict[str, dict[str, object]], x: torch.Tensor) -> dict[str, Contest]:
    """For each format: name -> a function that decodes what ``encoders`` made."""
    bitmap, coo, csr, csc = (encoded[format] for format in ("bitmap", "COO", "CSR", "CSC"))

    def fill(make, mask, values):
        out = make(tuple(x.shape))
        out[mask] = values
        return out

    def fill_flat(index, values):
        out = np.zeros(x.shape, np.float32)
        out.ravel()[index] = values
        return out

    shape = tuple(x.shape)
    stored = coo["scipy"].data, coo["scipy"].coords  # checked when it is made of them
    checked = {"size": shape, "check_invariants": True}
    coordinates = coo["torch"].coalesce()

    def from_arrays(kind, arrays):
        """From the stored arrays, with scipy's own check of them, to a row-major matrix."""
        data, indices, pointer = (part.numpy() for part in arrays)
        matrix = kind((data, indices, pointer), shape)
        matrix.check_format(full_check=True)
        return matrix.toarray(order="C")

    return {
        "bitmap": {
            "ours": lambda: encodings.bitmap_decode(*bitmap["ours"]),
            "numpy": lambda: fill(partial(np.zeros, dtype=np.float32), *bitmap["numpy"]),
            "torch": lambda: fill(torch.zeros, *bitmap["torch"]),
        },
        "COO": {
            "ours": lambda: encodings.coo_decode(*coo["ours"]),
            "numpy": lambda: fill_flat(*coo["numpy"]),
            "scipy": lambda: scipy.sparse.coo_array(stored, shape).toarray(),
            "torch": lambda: torch.sparse_coo_tensor(
                coordinates.indices(), coordinates.values(), is_coalesced=True, **checked
            ).to_dense(),
        },
        "CSR": {
            "ours": lambda: encodings.csr_decode(*csr["ours"], shape),
            "scipy": lambda: from_arrays(scipy.sparse.csr_array, csr["ours"]),
            "torch": lambda: torch.sparse_csr_tensor(
                *reversed(csr["ours"][1:]), csr["ours"][0], **checked
            ).to_dense(),
        },
        "CSC": {
            "ours": lambda: encodings.csc_decode(*csc["ours"], shape),
            "scipy": lambda: from_arrays(scipy.sparse.csc_array, csc["ours"]),
            "torch": lambda: torch.sparse_csc_tensor(
                *reversed(csc["ours"][1:]), csc["ours"][0], **checked
            ).to_dense(),
        },
    }


def pieces(format: str, name: str, encoded) -> list[np.ndarray]:
    """What was encoded, as arrays in one order, so that contestants can be compared."""
    if name == "scipy":
        if format == "COO":
            row, column = encoded.coords
            return [row.astype(np.int64) * encoded.shape[1] + column, encoded.data]
        return [encoded.data, encoded.indices, encoded.indptr]
    if name == "torch" and format == "COO":
        row, column = encoded.coalesce().indices()
        return [(row * encoded.shape[1] + column).numpy(), encoded.coalesce().values().numpy()]
    if name == "torch" and format in ("CSR", "CSC"):
        indices, pointer = (
            ("col_indices", "crow_indices") if format == "CSR" else ("row_indices", "ccol_indices")
        )
        return [
            t.numpy()
            for t in (encoded.values(), getattr(encoded, indices)(), getattr(encoded, pointer)())
        ]
    return [np.asarray(part) for part in encoded[:3] if not isinstance(part, tuple)]


def rle_by_loop(flat: list[float], run_bits: int) -> tuple[list[int], list[float]]:
    """The plain loop over elements that RLE is usually written as."""
    runs, values, run, longest = [], [], 0, 2**run_bits - 1
    for i, value in enumerate(flat):
        if value == 0 and run < longest and i + 1 < len(flat):
            run += 1
        else:
            runs.append(run)
            values.append(value)
            run = 0
    return runs, values


def report(what: str, contest: Contest, rounds: int, threads: int) -> None:
    times = compare(contest, repeats=rounds, threads=threads, wall=True)
    ours = times.pop("ours")
    line = "   ".join(
        f"{name} {1e3 * time.median:6.2f} ms ({time.times_slower_than(ours):5.2f}x)"
        for name, time in times.items()
    )
    print(f"{what:14s} ours {1e3 * ours.median:6.2f} ms   {line}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, default=2048)
    parser.add_argument("--sparsity", type=float, default=0.9)
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, torch.get_num_threads()])
    options = parser.parse_args()
    warnings.filterwarnings("ignore", "Sparse CSR tensor support is in beta")
    warnings.filterwarnings("ignore", "Sparse CSC tensor support is in beta")

    generator = torch.Generator().manual_seed(0)
    x = torch.randn(options.size, options.size, generator=generator)
    x[torch.rand(x.shape, generator=generator) < options.sparsity] = 0
    X = x.numpy()

    encode = encoders(x)
    encoded = {
        format: {name: fn() for name, fn in contest.items()} for format, contest in encode.items()
    }
    for format, results in encoded.items():
        ours = pieces(format, "ours", results["ours"])
        for name, result in results.items():
            theirs = pieces(format, name, result)
            assert all(np.array_equal(a, b) for a, b in zip(ours, theirs, strict=True)), (
                f"{name} encodes {format} differently"
            )
    decode = decoders(encoded, x)
    for format, contest in decode.items():
        for name, fn in contest.items():
            assert np.array_equal(np.asarray(fn()), X), f"{name} decodes {format} wrongly"
    small = x[:128, :128].contiguous()
    runs, values, _ = encodings.rle_encode(small)
    assert (runs.tolist(), values.tolist()) == rle_by_loop(small.flatten().tolist(), 2), (
        "the two RLE differ"
    )

    print(
        f"{options.size}x{options.size} float32, {options.sparsity:.0%} zeros; median of {options.rounds} rounds in turns"
    )
    print(
        f"python {platform.python_version()}, numpy {np.__version__}, scipy {scipy.__version__}, torch {torch.__version__}"
    )
    print("in brackets: theirs / ours, median of the ratios of each round; above 1, ours is faster")
    full = encodings.rle_encode(x)
    loop = {
        "ours": lambda: encodings.rle_encode(small),
        "loop over elements": lambda: rle_by_loop(small.flatten().tolist(), 2),
    }
    for threads in dict.fromkeys(options.threads):
        print(f"\n{threads} thread{'s' * (threads > 1)}")
        for format in encode:
            report(f"{format} encode", encode[format], options.rounds, threads)
            report(f"{format} decode", decode[format], options.rounds, threads)
        report("RLE encode", {"ours": lambda: encodings.rle_encode(x)}, options.rounds, threads)
        report("RLE decode", {"ours": lambda: encodings.rle_decode(*full)}, options.rounds, threads)
        report("RLE, 128x128", loop, options.rounds, threads)


if __name__ == "__main__":
    main()
