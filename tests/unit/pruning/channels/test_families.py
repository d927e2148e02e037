"""The recipe of removal's docstring on every family of torchvision's classifiers:
select, remove, and the outputs are those of the model with zeroed filters.
"""

import copy

import pytest
import torch

import course_lib  # noqa: F401  before torchvision, which may need its operators declared
from course_lib.models import SmallConvNet
from course_lib.pruning.channels import channel_groups, l1_filters, recalibrate, remove_filters
from course_lib.pruning.weights import local_masks
from unit.pruning.channels.test_removal import EXACT, images, outputs, seeded, silence

torchvision = pytest.importorskip("torchvision")
M = torchvision.models


def small_families():
    from torchvision.models.convnext import CNBlockConfig
    from torchvision.models.regnet import BlockParams
    from torchvision.models.resnet import Bottleneck

    regnet = BlockParams.from_init_params(4, 16, 8.0, 2.0, 8, se_ratio=0.25)
    maxvit = ((32, 32), 8, 4, [8, 16], [1, 1], 4, 0.0)
    return {
        "densenet": lambda: M.DenseNet(4, (2, 2), 8, num_classes=5),
        # groups of few channels, and few groups of many
        "resnext": lambda: M.ResNet(Bottleneck, [1, 1, 1, 1], 5, groups=8, width_per_group=4),
        "regnet_y": lambda: M.RegNet(regnet, 5),
        "shufflenet": lambda: M.shufflenet_v2_x0_5(num_classes=5),
        "small": lambda: SmallConvNet(3),
        "maxvit": lambda: M.MaxVit(*maxvit, num_classes=5),
        # no batch norm: feed-forward parts alone
        "convnext": lambda: M.ConvNeXt([CNBlockConfig(8, 16, 1), CNBlockConfig(16, None, 1)]),
        "swin": lambda: M.SwinTransformer([4, 4], 8, [1, 1], [2, 2], [2, 2]),
        "vit": lambda: M.VisionTransformer(32, 8, 1, 2, 16, 24),
    }


SMALL = small_families()
LARGE = [
    "alexnet",
    "densenet121",
    "efficientnet_b0",
    "efficientnet_v2_s",
    "googlenet",
    "inception_v3",
    "mnasnet0_5",
    "mobilenet_v2",
    "mobilenet_v3_small",
    "mobilenet_v3_large",
    "regnet_x_400mf",
    "regnet_y_400mf",
    "resnet18",
    "resnet50",
    "resnext50_32x4d",
    "shufflenet_v2_x1_0",
    "squeezenet1_1",
    "vgg11_bn",
    "wide_resnet50_2",
]


@pytest.mark.parametrize(
    "name", [*SMALL, *(pytest.param(name, marks=pytest.mark.long) for name in LARGE)]
)
def test_the_recipe_gives_the_model_with_zeroed_filters(name):
    options = {"num_classes": 5}
    if name in ("googlenet", "inception_v3"):
        options |= {"aux_logits": False, "init_weights": False}
    model = seeded(SMALL.get(name) or (lambda: getattr(M, name)(weights=None, **options)))
    side = {"inception_v3": 96, "alexnet": 64, "squeezenet1_1": 64}.get(name, 32)
    x = images(2, 3, side, side)
    groups = [group for group in channel_groups(model, x) if group.pinned is None]
    masks = local_masks(l1_filters(model, groups), 0.3)
    keep = {}
    for group in groups:
        keep |= group.masks(masks[group.producers[0]])
    silent = silence(model, keep, x)
    before = copy.deepcopy(silent.state_dict())
    smaller, report = remove_filters(silent, keep, x)
    assert not report.absorbed and not report.inexact, "nothing was constant but zero"
    assert all(torch.equal(before[k], v) for k, v in silent.state_dict().items())
    sizes = [sum(p.numel() for p in m.parameters()) for m in (silent, smaller)]
    assert list(report.parameters) == sizes and sizes[1] < sizes[0]
    torch.testing.assert_close(outputs(smaller, x), outputs(silent, x), **EXACT)
    recalibrate(smaller, x)
    removed = sum(a - b for a, b in report.outputs.values())
    assert removed > 0.1 * sum(group.channels for group in groups)
