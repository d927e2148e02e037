"""What this room refuses, and the argument or the layer that it names."""

import math

import pytest
import torch
from torch import nn
from torch.nn.utils import prune

from course_lib.models import SmallConvNet
from course_lib.pruning import channels as c
from course_lib.pruning.channels import slimming
from unit.small_transformers import inputs_of, model_of

CONV, BN, NEXT = nn.Conv2d(2, 6, 3).eval(), nn.BatchNorm2d(6).eval(), nn.Conv2d(6, 4, 3)
KEEP = torch.tensor([True, False, True, True, False, False])
FREE = nn.BatchNorm2d(6, track_running_stats=False).eval()
NET, IMAGES, HALF = SmallConvNet(3), torch.randn(1, 3, 16, 16), torch.arange(32) < 16
WEIGHT = torch.ones(2, 6, 2, 2)
PICTURE = torch.randn(1, 2)
SPOILT = SmallConvNet(3)
SPOILT.bn1.weight.data[1] = math.nan
LINEAR = nn.Linear(2, 3)
POSITIONS = nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(3), nn.Linear(5, 2)).eval()  # (B, L, C)
PRUNED = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 2))
prune.random_unstructured(PRUNED[0], "weight", 0.5)
OWN = SmallConvNet().eval()
OWN.forward = lambda x: x  # type: ignore[method-assign]


class Activated(nn.BatchNorm2d):
    def forward(self, x):
        return super().forward(x).relu()


class Unread(nn.Module):
    """A layer that is never called, and one that reads an image without a batch."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.unused = nn.Linear(3, 4), nn.Conv1d(2, 4, 1), nn.Linear(3, 3)

    def forward(self, x):
        return self.b(self.a(x))


def remove(keep, model=NET, example=IMAGES):
    return c.remove_filters(model, keep, example)


def absorb(keep=KEEP, layer=CONV, next_layer=NEXT):
    return c.absorb_removed(layer, BN, next_layer, keep)


def pair(keep=(0,), bn=BN, next_conv=NEXT):
    return c.slice_pair(CONV, bn, next_conv, list(keep))


REFUSED = [
    *((ValueError, "lam", lambda lam=lam: slimming.penalty(NET, lam)) for lam in (-1, math.nan)),
    (ValueError, "batch norm", lambda: slimming.penalty(LINEAR, 0.1)),
    (ValueError, "fraction", lambda: c.select_channels(NET, -0.1)),
    (ValueError, "batch norm", lambda: c.select_channels(LINEAR, 0.5)),
    (ValueError, "'bn1'", lambda: c.select_channels(SPOILT, 0.5)),
    (ValueError, "names .*'bn9'", lambda: c.select_channels(NET, 0.5, names=["bn1", "bn9"])),
    *((ValueError, "keep", lambda keep=keep: absorb(keep)) for keep in (
        [2, 0], [0, 0], [-1, 2], [0, 6], [0.0, 1.0], KEEP[:5], KEEP[None],
    )),
    (ValueError, "next_layer .* 12", lambda: absorb(next_layer=nn.Conv2d(12, 2, 1))),
    (TypeError, "next_layer .*ConvTranspose2d", lambda: absorb(next_layer=nn.ConvTranspose2d(6, 2, 3))),
    (ValueError, "keep", lambda: c.cascade(KEEP[:2], WEIGHT)),
    (ValueError, "constant", lambda: c.cascade(KEEP, WEIGHT, torch.ones(2))),
    (ValueError, "running statistics", lambda: c.scale_shift(FREE)),
    (TypeError, "GroupNorm", lambda: c.scale_shift(nn.GroupNorm(1, 3))),
    (RuntimeError, r"model\.eval", lambda: c.fold_bn(nn.Conv2d(2, 6, 3), BN)),
    (ValueError, "6 output.* 5", lambda: c.fold_bn(CONV, nn.BatchNorm2d(5).eval())),
    (ValueError, "2 output.* 6", lambda: c.fold_bn(nn.ConvTranspose2d(6, 2, 3).eval(), BN)),
    (TypeError, "ReLU", lambda: c.fold_bn(nn.ReLU().eval(), BN)),
    (TypeError, "Activated", lambda: c.fold_bn(CONV, Activated(6).eval())),
    (ValueError, "its own forward", lambda: c.fold_model(OWN)),
    *((ValueError, "keep", lambda keep=keep: pair(keep)) for keep in ([], [1, 1], [2, 1], [-1, 2], [0, 6])),
    (ValueError, "5 channels", lambda: pair(bn=nn.BatchNorm2d(5))),
    (ValueError, "5 channels", lambda: pair(next_conv=nn.Conv2d(5, 3, 3))),
    *((ValueError, "keep.*'conv1'", lambda mask=mask: remove({"conv1": mask})) for mask in (
        HALF[:31], HALF.int(), [0, 1],
    )),
    (ValueError, "'conv1' none of 32", lambda: remove({"conv1": HALF & False})),
    (ValueError, "'conv11'.*'conv1'", lambda: remove({"conv11": HALF})),
    (ValueError, "'fc'.* 5 .*model's output", lambda: remove({"fc": torch.arange(10) < 5})),
    (ValueError, "conv1", lambda: c.channel_groups(NET, IMAGES)[0].masks(HALF[:3])),
    (ValueError, "ReLU", lambda: remove({"1": HALF[:3]}, nn.Sequential(LINEAR, nn.ReLU()), PICTURE)),
    (ValueError, "example", lambda: remove({"conv1": HALF}, example=(IMAGES,))),
    (ValueError, "SmallConvNet", lambda: remove({"conv1": HALF}, example=IMAGES.repeat(1, 2, 1, 1))),
    (ValueError, "'unused'.*calls", lambda: remove({"unused": KEEP[:3]}, Unread(), torch.ones(2, 3))),
    (ValueError, "'1'.*batch norm that reads", lambda: remove({"1": KEEP[:3]}, POSITIONS, torch.ones(2, 3, 4))),
    (ValueError, r"'0' of model .*prune\.remove", lambda: c.channel_groups(PRUNED, PICTURE)),
    (ValueError, "'b'.*on a batch", lambda: remove({"b": KEEP[:4]}, Unread(), torch.ones(2, 3))),
    (ValueError, r"Roberta.*pruning\.heads", lambda: c.channel_groups(model_of("roberta"), inputs_of("roberta")["input_ids"])),
    (ValueError, "images", lambda: c.recalibrate(NET, IMAGES[:0])),
]  # fmt: skip


@pytest.mark.parametrize(("error", "words", "call"), REFUSED, ids=range(len(REFUSED)))
def test_it_is_refused_by_name(error, words, call):
    with pytest.raises(error, match=words):
        call()
