"""2:4 beside torch's own: ``python tests/benchmarks/bench_nm.py``.

The mask of every convolution of torchvision's ResNet-50 (random weights) beside the
formula of torch's ``WeightNormSparsifier`` for blocks of (1, 4); the masks are compared
before any time is looked at. Compressing and decompressing beside
``torch.sparse.to_sparse_semi_structured``, where that runs on a CPU. Each ratio is
theirs / ours: above 1, ours is faster.
"""

from __future__ import annotations

import warnings

import torch
from contest import resnet50
from torch import Tensor, nn

from course_lib.cost.block_formats import nm_compress, nm_decompress, nm_linear
from course_lib.cost.latency import compare
from course_lib.pruning.weights import nm_mask


def theirs(weight: Tensor) -> Tensor:
    """As ``WeightNormSparsifier`` with sparse_block_shape (1, 4) and two zeros a block:
    the two smallest of each four by ``topk``.
    """
    blocks = weight.abs().flatten(1).view(-1, 4)
    smallest = blocks.topk(2, dim=1, largest=False).indices
    return (
        torch.ones_like(blocks, dtype=torch.bool).scatter_(1, smallest, False).view(len(weight), -1)
    )


def main() -> None:
    layers = [m.weight.detach() for m in resnet50().modules() if isinstance(m, nn.Conv2d)]
    matrices = [w.flatten(1) for w in layers if w[0].numel() % 4 == 0]
    for w in matrices:  # equal sizes may go either way: torch promises no order
        left = [
            (w.abs() * mask).view(-1, 4).sort(dim=1).values
            for mask in (nm_mask(w, 2, 4), theirs(w))
        ]
        assert torch.equal(*left), "masks differ"
    times = compare(
        {
            "ours": lambda: [nm_mask(w, 2, 4) for w in matrices],
            "theirs": lambda: [theirs(w) for w in matrices],
        },
        repeats=5,
        threads=1,
    )
    print(
        f"2:4 masks of {len(matrices)} convolutions: torch's formula / ours = {_ratio(times, 'theirs'):.2f}"
    )

    w = torch.randn(512, 512)
    w = w * nm_mask(w, 2, 4)
    values, index = nm_compress(w, 2, 4)
    assert torch.equal(nm_decompress(values, index, 2, 4), w)
    x = torch.randn(64, 512)
    assert torch.allclose(nm_linear(x, values, index, 2, 4), x @ w.T, atol=1e-3)
    contest = {"ours": lambda: nm_linear(x, values, index, 2, 4), "dense": lambda: x @ w.T}
    times = compare(contest, repeats=5, threads=1)
    print(f"product (64, 512)·(512, 512) at 2:4: dense / ours = {_ratio(times, 'dense'):.4f}")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            sparse = torch.sparse.to_sparse_semi_structured(w)
            assert torch.equal(sparse.to_dense(), w)
    except (RuntimeError, NotImplementedError, AssertionError, ValueError) as reason:
        print(
            f"torch.sparse.to_sparse_semi_structured does not run here: {str(reason).splitlines()[0][:120]}"
        )
        return
    times = compare(
        {
            "ours": lambda: nm_compress(w, 2, 4),
            "torch": lambda: torch.sparse.to_sparse_semi_structured(w),
        },
        threads=1,
    )
    print(f"compress (512, 512): torch / ours = {_ratio(times, 'torch'):.2f}")


def _ratio(times: dict, peer: str) -> float:
    return times[peer].median / times["ours"].median


if __name__ == "__main__":
    main()
