"""Filters removed beside Torch-Pruning, batch norms folded beside torch's own."""

from __future__ import annotations

import copy

import torch
import torch_pruning as tp
from of_weights import resnet50
from run import Row
from torch import Tensor, nn
from torch.fx.experimental.optimization import fuse
from torch.nn.utils import fuse_conv_bn_eval

from course_lib.pruning.channels import channel_groups, fold_model, l1_filters, remove_filters
from course_lib.pruning.weights import local_masks


def filters(name: str) -> Row:
    """Half of the filters of each group, those with the smallest L1 norms. Ours is one
    call, which copies; theirs prunes in place and gets a copy, one group after the other.
    """
    model, images = resnet50(), torch.randn(1, 3, 224, 224)
    groups = [group for group in channel_groups(model, images) if group.pinned is None]
    masks = local_masks(l1_filters(model, groups), 0.5)
    keep: dict[str, Tensor] = {}
    for group in groups:
        keep |= group.masks(masks[group.producers[0]])

    def ours(_: nn.Module) -> nn.Module:
        return remove_filters(model, keep, images, absorb=False)[0]

    def theirs(copied: nn.Module) -> nn.Module:
        graph = tp.DependencyGraph().build_dependency(copied, example_inputs=images)
        for group in groups:
            first = group.producers[0]
            gone = (~masks[first]).nonzero().flatten().tolist()
            layer = copied.get_submodule(first)
            graph.get_pruning_group(layer, tp.prune_conv_out_channels, gone).prune()
        return copied

    def same(one: nn.Module, other: nn.Module) -> None:
        a, b = one.state_dict(), other.state_dict()
        assert a.keys() == b.keys() and all(torch.equal(v, b[k]) for k, v in a.items())

    peers = {"Torch-Pruning": theirs}
    return Row(name, ours, peers, same, lambda: (copy.deepcopy(model),), rounds=5)


def folding(name: str) -> Row:
    """Ours and torch.fx find the pairs; fuse_conv_bn_eval gets them."""
    model, x = resnet50(), torch.randn(1, 3, 128, 128)
    for bn in model.modules():
        if isinstance(bn, nn.BatchNorm2d):  # as if it had been trained
            nn.init.normal_(bn.running_mean, 0, 0.3)
            nn.init.uniform_(bn.running_var, 0.2, 2)
            nn.init.uniform_(bn.weight, 0.3, 1.2)
            nn.init.normal_(bn.bias, 0, 0.2)
    pairs = fold_model(model)[1].folded
    assert len(pairs) == 53

    def pairwise() -> nn.Module:
        copied = copy.deepcopy(model)
        for bn, conv in pairs.items():
            fused = fuse_conv_bn_eval(copied.get_submodule(conv), copied.get_submodule(bn))
            copied.set_submodule(conv, fused)
            copied.set_submodule(bn, nn.Identity())
        return copied

    @torch.no_grad()
    def same(one: nn.Module, other: nn.Module) -> None:
        for folded in (one, other):
            torch.testing.assert_close(folded(x), model(x), rtol=1e-3, atol=1e-3)

    peers = {"torch.fx fuse": lambda: fuse(model), "fuse_conv_bn_eval": pairwise}
    return Row(name, lambda: fold_model(model)[0], peers, same)


ROWS = {
    "remove half of the filters, ResNet-50": filters,
    "fold 53 batch norms, ResNet-50": folding,
}
