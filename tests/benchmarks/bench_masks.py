"""Global magnitude masks beside torch's own:
``python tests/benchmarks/bench_masks.py``.

Both prune the convolutions and the linear layer of torchvision's ResNet-50 (random
weights) to one global sparsity, each as its own docs say: from the weights to a model
whose pruned weights are zero. Ours is scores, masks and apply; torch's is one call of
``prune.global_unstructured``. In every round both start from the same dense weights and
take turns in going first. Their masks are compared before any time is looked at.

Both get one thread.
"""

import statistics
import time

import torch
from contest import WHERE, resnet50
from torch import nn
from torch.nn.utils import prune

from course_lib.pruning.weights import Masks, apply, global_masks, magnitude, prunable

SPARSITY, RUNS = 0.9, 5
Layers = list[tuple[nn.Module, str]]


def ours(model: nn.Module, sparsity: float) -> Masks:
    masks = global_masks(magnitude(prunable(model)), sparsity)
    apply(model, masks)
    return masks


def theirs(layers: Layers, sparsity: float) -> None:
    prune.global_unstructured(layers, pruning_method=prune.L1Unstructured, amount=sparsity)


def compare(model: nn.Module, sparsity: float, runs: int) -> dict[str, list[float]]:
    """Seconds per run of both, in turns, the results compared in the first round."""
    layers = [(m, "weight") for m in model.modules() if isinstance(m, (nn.Conv2d, nn.Linear))]
    names = list(prunable(model))
    dense = [m.weight.detach().clone() for m, _ in layers]

    def restore() -> None:
        with torch.no_grad():
            for (m, _), w in zip(layers, dense, strict=True):
                m.weight.copy_(w)

    def run_ours() -> tuple[float, list[torch.Tensor]]:
        begin = time.perf_counter()
        masks = ours(model, sparsity)
        seconds = time.perf_counter() - begin
        restore()
        return seconds, [masks[name] for name in names]

    def run_theirs() -> tuple[float, list[torch.Tensor]]:
        begin = time.perf_counter()
        theirs(layers, sparsity)
        seconds = time.perf_counter() - begin
        masks = [m.weight_mask.bool() for m, _ in layers]
        for m, name in layers:
            prune.remove(m, name)
        restore()
        return seconds, masks

    check_equal(run_ours()[1], run_theirs()[1], dense, sparsity)  # and both are warm now
    seconds: dict[str, list[float]] = {"ours": [], "theirs": []}
    for i in range(runs):
        for who in ("ours", "theirs") if i % 2 == 0 else ("theirs", "ours"):
            seconds[who].append((run_ours if who == "ours" else run_theirs)()[0])
    return seconds


def check_equal(
    a: list[torch.Tensor], b: list[torch.Tensor], weights: list[torch.Tensor], sparsity: float
) -> None:
    """The same counts, and the same masks but for ties: torch leaves open which of two
    equal weights goes.
    """
    n = sum(w.numel() for w in weights)
    for masks in (a, b):
        assert sum(int((~m).sum()) for m in masks) == round(sparsity * n), "a count is not exact"
    size_of_last_pruned = max(
        w[~m].abs().max() for w, m in zip(weights, a, strict=True) if not m.all()
    )
    for w, ours, other in zip(weights, a, b, strict=True):
        assert (w[ours != other].abs() == size_of_last_pruned).all(), (
            "masks differ by more than ties"
        )


def main() -> None:
    model = resnet50()
    millions = sum(p.numel() for p in prunable(model).values()) / 1e6
    seconds = compare(model, SPARSITY, RUNS)
    one, other = (statistics.median(seconds[who]) for who in ("ours", "theirs"))
    ratios = sorted(t / o for o, t in zip(seconds["ours"], seconds["theirs"], strict=True))
    print(
        f"global {SPARSITY:.0%} mask, ResNet-50 ({millions:.1f} M weights), {RUNS} runs, median   "
        f"course_lib {one:.3f} s   torch.nn.utils.prune {other:.2f} s   {statistics.median(ratios):.0f}x faster "
        f"({ratios[0]:.0f} to {ratios[-1]:.0f}; {WHERE})"
    )


if __name__ == "__main__":
    main()
