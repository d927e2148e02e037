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

import copy
from collections.abc import Callable

import torch
from contest import WHERE, ratio, resnet50
from torch import Tensor, nn
from torch.fx.experimental.optimization import fuse
from torch.nn.utils import fuse_conv_bn_eval

from course_lib.cost.latency import compare
from course_lib.pruning.channels.folding import TOLERANCE, fold_model

RUNS, SIZE = 7, 128


def trained() -> nn.Module:
    """Statistics and scales as if it had been trained."""
    model = resnet50()
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
    model = trained()
    x = torch.randn(1, 3, SIZE, SIZE)
    folded, report = fold_model(model)
    assert len(report.folded) == 53 and not report.left
    ways: dict[str, Callable[[], nn.Module]] = {
        "course_lib": lambda: fold_model(model)[0],
        "torch.fx fuse": lambda: fuse(model),
        "fuse_conv_bn_eval": lambda: pairwise(model, report.folded),
    }
    check(ways, model, x)

    seconds = compare(ways, warmup=1, repeats=RUNS, wall=True)
    medians = "   ".join(f"{name} {taken.median:.3f} s" for name, taken in seconds.items())
    print(f"folding ResNet-50 (53 batch norms), {RUNS} runs, median   {medians}")
    for name in list(ways)[1:]:
        print(f"    {ratio(seconds[name], seconds['course_lib'])} faster than {name} ({WHERE})")

    fused = fuse(model)
    with torch.no_grad():
        seconds = compare(
            {
                "unfolded": lambda: model(x),
                "folded": lambda: folded(x),
                "torch.fx fuse": lambda: fused(x),
            },
            warmup=2,
            repeats=2 * RUNS,
            wall=True,
        )
    medians = "   ".join(f"{name} {1000 * taken.median:.0f} ms" for name, taken in seconds.items())
    print(f"running it, an image of {SIZE}x{SIZE}, median   {medians}")
    print(
        f"    folded is {ratio(seconds['unfolded'], seconds['folded'])} faster than unfolded ({WHERE})"
    )


if __name__ == "__main__":
    main()
