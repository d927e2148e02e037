"""Folding batch norm beside torch's own: ``python tests/benchmarks/bench_folding.py``.

Both fold every batch norm of torchvision's ResNet-50 (random weights and statistics)
into the convolution before it, in a copy, in evaluation mode. Ours is one call of
``fold_model``, which finds the pairs by itself. For torch there are two: ``fuse``, its
pass over a torch.fx graph, which finds them too; and
``torch.nn.utils.fuse_conv_bn_eval`` on a deepcopy, by a list of pairs that is made
beforehand. They take turns. The outputs of the three and of the unfolded model are
compared before any time is looked at, and so is how far each is from the same model in
float64.

Then the folded and the unfolded model run a batch of images: what folding saves in the
end.
"""

import argparse
import copy
import statistics
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.fx.experimental.optimization import fuse
from torch.nn.utils import fuse_conv_bn_eval

import course_lib  # noqa: F401  before torchvision, which may need its operators declared
from course_lib.cost.latency import Latency, compare
from course_lib.pruning.channels.folding import TOLERANCE, fold_model


def resnet50() -> nn.Module:
    """Random weights, and statistics and scales as if it had been trained: nothing is
    downloaded.
    """
    from torchvision.models import resnet50 as build

    torch.manual_seed(0)
    model = build(weights=None).eval()
    with torch.no_grad():
        for bn in model.modules():
            if isinstance(bn, nn.BatchNorm2d):
                bn.running_mean.normal_(0, 0.3)
                bn.running_var.uniform_(0.2, 2)
                bn.weight.uniform_(0.3, 1.2)
                bn.bias.normal_(0, 0.2)
    return model


def pairwise(model: nn.Module, pairs: dict[str, str]) -> nn.Module:
    """As torch's docs show it for one pair, for all of them."""
    model = copy.deepcopy(model)
    for bn, conv in pairs.items():
        fused = fuse_conv_bn_eval(model.get_submodule(conv), model.get_submodule(bn))
        model.set_submodule(conv, fused)
        model.set_submodule(bn, nn.Identity())
    return model


@torch.no_grad()
def check(ways: dict[str, Callable[[], nn.Module]], model: nn.Module, x: Tensor) -> None:
    """All give the output of the unfolded model; prints the distance to float64 of
    each.
    """
    exact = copy.deepcopy(model).double()(x.double())  # (B, 1000)
    errors = {}
    outputs = {"unfolded": model(x), **{name: way()(x) for name, way in ways.items()}}
    for name, y in outputs.items():
        errors[name] = ((y - exact).abs().max() / exact.abs().max()).item()
        assert errors[name] < TOLERANCE[torch.float32], f"{name} gives something else"
    print(
        "largest error beside float64   "
        + "   ".join(f"{name} {error:.1e}" for name, error in errors.items())
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--size", type=int, default=128, help="height and width of the images")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1, help="of torch, for all")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    model = resnet50()
    x = torch.randn(arguments.batch, 3, arguments.size, arguments.size)
    folded, report = fold_model(model)
    assert len(report.folded) == 53 and not report.left
    ways: dict[str, Callable[[], nn.Module]] = {
        "course_lib": lambda: fold_model(model)[0],
        "torch.fx fuse": lambda: fuse(model),
        "fuse_conv_bn_eval": lambda: pairwise(model, report.folded),
    }
    check(ways, model, x)

    where = f"torch {torch.__version__}, {torch.get_num_threads()} threads"
    seconds = compare(ways, warmup=1, repeats=arguments.runs, wall=True)
    medians = "   ".join(f"{name} {taken.median:.3f} s" for name, taken in seconds.items())
    print(f"folding ResNet-50 (53 batch norms), {arguments.runs} runs, median   {medians}")
    for name in list(ways)[1:]:
        print(f"    {ratio(seconds[name], seconds['course_lib'])} faster than {name} ({where})")

    fused = fuse(model)
    with torch.no_grad():
        seconds = compare(
            {
                "unfolded": lambda: model(x),
                "folded": lambda: folded(x),
                "torch.fx fuse": lambda: fused(x),
            },
            warmup=2,
            repeats=2 * arguments.runs,
            wall=True,
        )
    medians = "   ".join(f"{name} {1000 * taken.median:.0f} ms" for name, taken in seconds.items())
    print(
        f"running it, {arguments.batch} images of {arguments.size}x{arguments.size}, median   {medians}"
    )
    print(
        f"    folded is {ratio(seconds['unfolded'], seconds['folded'])} faster than unfolded ({where})"
    )


def ratio(slow: Latency, fast: Latency) -> str:
    """The median of the ratios round by round, and between which quartiles they lie."""
    low, middle, high = statistics.quantiles(
        [s / f for s, f in zip(slow.samples, fast.samples, strict=True)], n=4
    )
    return f"{middle:.2f}x ({low:.2f} to {high:.2f})"


if __name__ == "__main__":
    main()
