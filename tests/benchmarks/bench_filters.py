"""Filter removal beside Torch-Pruning: ``python tests/benchmarks/bench_filters.py``.

Both remove the same filters, those with the smallest L1 norms, from every group of
torchvision's ResNet-50 (random weights), each as its own docs say: ours is one call of
``remove_filters``; theirs builds the dependency graph and prunes one group after the
other. Theirs works in place, so it gets a copy, made before the clock starts; ours
makes its own, and its time is counted. The two results are compared, weight by weight,
before any time is looked at. Then their latency is measured beside that of the dense
model, all three taking turns.

Both get one thread.
"""

import copy
import statistics
import time

import torch
import torch_pruning as tp
from contest import WHERE, resnet50
from torch import Tensor, nn

from course_lib.cost import latency, model_cost, totals
from course_lib.pruning.channels.groups import Group, channel_groups
from course_lib.pruning.channels.removal import l1_filters, remove_filters
from course_lib.pruning.weights import local_masks

SPARSITY, SIZE, RUNS = 0.5, 224, 5


def ours(model: nn.Module, keep: dict[str, Tensor], images: Tensor, absorb: bool) -> nn.Module:
    return remove_filters(model, keep, images, absorb=absorb)[0]


def theirs(
    model: nn.Module, groups: list[Group], masks: dict[str, Tensor], images: Tensor
) -> nn.Module:
    graph = tp.DependencyGraph().build_dependency(model, example_inputs=images)
    for group in groups:
        name = group.producers[0]
        gone = (~masks[name]).nonzero().flatten().tolist()
        graph.get_pruning_group(model.get_submodule(name), tp.prune_conv_out_channels, gone).prune()
    return model


def compare(
    model: nn.Module, sparsity: float, images: Tensor, runs: int
) -> tuple[dict[str, list[float]], nn.Module, nn.Module]:
    """Seconds per run of both, in turns, and the two smaller models, which are
    equal.
    """
    groups = [group for group in channel_groups(model, images) if group.pinned is None]
    masks = local_masks(l1_filters(model, groups), sparsity)
    keep = {
        name: mask
        for group in groups
        for name, mask in group.masks(masks[group.producers[0]]).items()
    }
    mine, other = (
        ours(model, keep, images, False),
        theirs(copy.deepcopy(model), groups, masks, images),
    )
    check_equal(mine, other)  # and both are warm now
    seconds: dict[str, list[float]] = {"ours": [], "ours, absorbing": [], "theirs": []}
    for i in range(runs):
        for who in list(seconds) if i % 2 == 0 else list(seconds)[::-1]:
            target = copy.deepcopy(model) if who == "theirs" else model
            begin = time.perf_counter()
            if who == "theirs":
                theirs(target, groups, masks, images)
            else:
                ours(target, keep, images, who != "ours")
            seconds[who].append(time.perf_counter() - begin)
    return seconds, mine, other


def check_equal(a: nn.Module, b: nn.Module) -> None:
    one, other = a.state_dict(), b.state_dict()
    assert {k: v.shape for k, v in one.items()} == {k: v.shape for k, v in other.items()}, (
        "shapes differ"
    )
    assert all(torch.equal(v, other[k]) for k, v in one.items()), "weights differ"


def main() -> None:
    model, images = resnet50(), torch.randn(1, 3, SIZE, SIZE)
    seconds, mine, other = compare(model, SPARSITY, images, RUNS)
    middle = {who: statistics.median(times) for who, times in seconds.items()}
    ratios = sorted(t / o for o, t in zip(seconds["ours"], seconds["theirs"], strict=True))
    print(
        f"remove {SPARSITY:.0%} of the filters of each group, ResNet-50, {RUNS} runs, median   "
        f"course_lib {middle['ours']:.3f} s ({middle['ours, absorbing']:.3f} s with the constants absorbed)   "
        f"Torch-Pruning {middle['theirs']:.3f} s   {statistics.median(ratios):.1f}x faster "
        f"({ratios[0]:.1f} to {ratios[-1]:.1f}; Torch-Pruning {tp.__version__}, {WHERE})"
    )
    with torch.inference_mode():
        times = latency.compare(
            {
                "dense": lambda: model(images),
                "ours": lambda: mine(images),
                "theirs": lambda: other(images),
            },
            repeats=2 * RUNS,
            wall=True,
        )
    macs = [totals(model_cost(m, images))["macs"] for m in (model, mine)]
    print(
        f"latency, {SIZE}x{SIZE}: dense {times['dense']}   course_lib {times['ours']}   Torch-Pruning "
        f"{times['theirs']}   {times['dense'].times_slower_than(times['ours']):.2f}x and "
        f"{times['dense'].times_slower_than(times['theirs']):.2f}x faster than dense, at {macs[0] / macs[1]:.2f}x fewer MACs"
    )


if __name__ == "__main__":
    main()
