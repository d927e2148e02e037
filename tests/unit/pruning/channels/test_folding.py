import copy
import math

import pytest
import torch
import torch.fx
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F
from torch.nn.utils import parametrizations

import course_lib  # noqa: F401  before torchvision, which may need its operators declared
from course_lib.pruning.channels.folding import TOLERANCE, fold_bn, fold_model, scale_shift

NORMS = {1: nn.BatchNorm1d, 2: nn.BatchNorm2d, 3: nn.BatchNorm3d}
CONVS = {1: nn.Conv1d, 2: nn.Conv2d, 3: nn.Conv3d}
TRANSPOSED = {1: nn.ConvTranspose1d, 2: nn.ConvTranspose2d, 3: nn.ConvTranspose3d}


def used(model, seed=0):
    """In evaluation mode, with statistics and scales that are neither 0 nor 1, and some
    of them negative.
    """
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for bn in model.modules():
            if isinstance(bn, nn.modules.batchnorm._BatchNorm) and bn.running_mean is not None:
                bn.running_mean.normal_(0, 0.5, generator=generator)
                bn.running_var.uniform_(0.2, 2, generator=generator)
                if bn.weight is not None:
                    bn.weight.uniform_(-0.5, 1.5, generator=generator)
                    bn.bias.normal_(0, 0.5, generator=generator)
    return model.eval()


def norm(channels=4, dims=2, dtype=torch.float64, **options):
    return used(NORMS[dims](channels, **options).to(dtype))


def largest_difference(a, b):
    return ((a - b).abs().max() / b.abs().max()).item()


def tensors(module):
    return {k: v.clone() for k, v in module.state_dict().items()}


def unchanged(module, before):
    after = module.state_dict()
    return after.keys() == before.keys() and all(torch.equal(after[k], before[k]) for k in before)


# ---- p and q


def test_scale_and_shift_are_batch_norm_in_two_numbers():
    bn = norm(5, eps=0.1)
    p, q = scale_shift(bn)
    for c in range(5):
        sigma = math.sqrt(bn.running_var[c].item() + 0.1)
        assert p[c].item() == pytest.approx(bn.weight[c].item() / sigma)
        assert q[c].item() == pytest.approx(
            bn.bias[c].item() - p[c].item() * bn.running_mean[c].item()
        )
    x = torch.randn(3, 5, 2, 4, dtype=torch.float64)
    torch.testing.assert_close(p.view(-1, 1, 1) * x + q.view(-1, 1, 1), bn(x))
    assert p.shape == q.shape == (5,) and not p.requires_grad and not q.requires_grad


# ---- one layer


@settings(deadline=None, max_examples=120)
@given(
    dims=st.sampled_from([1, 2, 3]),
    transposed=st.booleans(),
    groups=st.integers(1, 3),
    ins=st.integers(1, 2),
    outs=st.integers(1, 3),
    bias=st.booleans(),
    affine=st.booleans(),
    stride=st.integers(1, 2),
    padding=st.integers(0, 1),
    padding_mode=st.sampled_from(["zeros", "reflect", "circular"]),
    dtype=st.sampled_from([torch.float64, torch.float32]),
    seed=st.integers(0, 1000),
)
def test_folded_is_layer_and_batch_norm(
    dims, transposed, groups, ins, outs, bias, affine, stride, padding, padding_mode, dtype, seed
):
    torch.manual_seed(seed)
    kind = (TRANSPOSED if transposed else CONVS)[dims]
    layer = kind(
        groups * ins,
        groups * outs,
        3,
        stride,
        padding,
        groups=groups,
        bias=bias,
        padding_mode="zeros" if transposed else padding_mode,
    ).to(dtype)
    pair = used(nn.Sequential(layer, NORMS[dims](groups * outs, affine=affine).to(dtype)), seed)
    before = tensors(pair)
    new = fold_bn(layer, pair[1])
    x = torch.randn(2, groups * ins, *[6] * dims).to(dtype)
    assert largest_difference(new(x), pair(x)) < TOLERANCE[dtype]
    assert unchanged(pair, before) and new is not layer and new.weight is not layer.weight
    assert type(new) is kind and new.weight.dtype == new.bias.dtype == dtype and not new.training


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_rounded_once(dtype):
    """Also beside a batch norm in float32, as mixed precision leaves it."""
    layer, bn = nn.Conv2d(3, 8, 3).to(dtype).eval(), norm(8, dtype=torch.float32)
    new, exact = (
        fold_bn(layer, bn),
        fold_bn(copy.deepcopy(layer).double(), copy.deepcopy(bn).double()),
    )
    assert new.weight.dtype == new.bias.dtype == dtype
    half_a_step = torch.finfo(dtype).eps / 2
    assert (
        (new.weight - exact.weight).abs() <= 1.01 * half_a_step * exact.weight.abs() + 1e-7
    ).all()
    assert ((new.bias - exact.bias).abs() <= 1.01 * half_a_step * exact.bias.abs() + 1e-7).all()


class Standardised(nn.Conv2d):
    def forward(self, x):
        return F.conv2d(x, self.weight / self.weight.norm(), self.bias)


def patched():
    layer = nn.Conv2d(2, 4, 3)
    layer.forward = lambda x: F.conv2d(x, layer.weight) * 2  # type: ignore[method-assign]
    return layer


def hooked():
    layer = nn.Conv2d(2, 4, 3)
    layer.register_forward_hook(lambda *_: None)
    return layer


OBSTRUCTED = [
    (lambda: Standardised(2, 4, 3), TypeError, "layer .*Standardised"),
    (patched, TypeError, "layer"),
    (lambda: parametrizations.weight_norm(nn.Conv2d(2, 4, 3)), ValueError, "layer"),
    (hooked, ValueError, "layer"),
]


@pytest.mark.parametrize(("make", "error", "words"), OBSTRUCTED)
def test_layers_that_compute_something_else_are_refused(make, error, words):
    layer = make().eval()
    with pytest.raises(error, match=words):
        fold_bn(layer, nn.BatchNorm2d(4).eval())
    folded, report = fold_model(nn.Sequential(layer, nn.BatchNorm2d(4)).eval())
    assert not report.folded and isinstance(folded[1], nn.BatchNorm2d)


# ---- a whole model


def torchvision_models():
    pytest.importorskip("torchvision")
    return __import__("torchvision").models


def torchvision_model(name):
    models = torchvision_models()
    with torch.random.fork_rng():
        torch.manual_seed(0)
        if name != "vgg11_bn":
            return used(getattr(models, name)(weights=None))
        # its classifier has no batch norm
        layers = models.vgg.make_layers(models.vgg.cfgs["A"], batch_norm=True)
        return used(
            nn.Sequential(layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10))
        )


@pytest.mark.parametrize(("dtype", "tolerance"), TOLERANCE.items())
@pytest.mark.parametrize(
    ("name", "norms"),
    [
        ("resnet18", 20),
        ("mobilenet_v2", 52),
        pytest.param("resnet50", 53, marks=pytest.mark.long),
        pytest.param("vgg11_bn", 8, marks=pytest.mark.long),
    ],
)
@torch.no_grad()
def test_torchvisions_models(name, norms, dtype, tolerance):
    model = torchvision_model(name).to(dtype)
    folded, report = fold_model(model)
    assert len(report.folded) == norms and not report.left
    assert not any(isinstance(m, nn.BatchNorm2d) for m in folded.modules()) and type(
        folded
    ) is type(model)
    x = torch.randn(2, 3, 40, 40, generator=torch.Generator().manual_seed(1)).to(dtype)
    assert largest_difference(folded(x), model(x)) < tolerance <= 1e-5
    assert sum(p.numel() for p in folded.parameters()) < sum(p.numel() for p in model.parameters())


class Tangle(nn.Module):
    """Every way not to be foldable, one pair each, and two that are."""

    def __init__(self):
        super().__init__()
        names = "plain added active joined first tapped twice reused read tied late"
        for name in names.split():
            self.add_module(f"{name}_conv", nn.Conv2d(4, 4, 3, padding=1))
            self.add_module(f"{name}_bn", nn.BatchNorm2d(8 if name == "joined" else 4))
        self.joined_out = nn.Conv2d(8, 4, 1)
        self.first_bn.weight.data.fill_(2.0)
        self.twice_bn2, self.batch_bn, self.unused_bn = (
            nn.BatchNorm2d(4),
            nn.BatchNorm2d(4, track_running_stats=False),
            nn.BatchNorm2d(4),
        )
        self.batch_conv = nn.Conv2d(4, 4, 1)
        self.reused_conv2 = nn.Conv2d(4, 4, 1)
        self.tied_conv2 = nn.Conv2d(4, 4, 3, padding=1)
        self.tied_conv2.weight = self.tied_conv.weight
        self.late_conv.register_forward_pre_hook(lambda *_: None)
        self.last = nn.ModuleDict({"conv": nn.Conv2d(4, 2, 3), "bn": nn.BatchNorm2d(2)})

    def forward(self, x):
        x = F.relu(self.plain_bn(self.plain_conv(x)))
        x = self.added_bn(self.added_conv(x) + x)
        x = self.active_bn(F.relu(self.active_conv(x)))
        x = self.joined_out(self.joined_bn(torch.cat([self.joined_conv(x), x], 1)))
        x = self.first_conv(self.first_bn(x.sin()))
        y = self.tapped_conv(x)
        x = self.tapped_bn(y) + y.mean()
        x = self.twice_bn(self.twice_conv(x)) + self.twice_bn2(self.twice_conv(x.cos()))
        x = self.reused_bn(self.reused_conv(x)) + self.reused_bn(self.reused_conv2(x))
        x = self.read_bn(self.read_conv(x)) + self.read_conv.weight.mean()
        x = self.tied_bn(self.tied_conv(x)) + self.tied_conv2(x)
        x = self.late_bn(self.late_conv(x))
        x = self.batch_bn(self.batch_conv(x))
        return self.last["bn"](self.last["conv"](x))


REASONS = {
    "added_bn": "add()",
    "active_bn": "relu()",
    "joined_bn": "cat()",
    "first_bn": "sin()",
    "tapped_bn": "tapped_conv goes to mean()",
    "twice_bn": "twice_conv goes to twice_bn2",
    "twice_bn2": "twice_conv goes to twice_bn",
    "reused_bn": "reused_conv and reused_conv2",
    "read_bn": "read_conv",
    "tied_bn": "tied_conv2",
    "late_bn": "hooks",
    "batch_bn": "track_running_stats=False",
    "unused_bn": "does not call it",
}


def test_what_is_not_folded_is_named_with_the_reason():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = used(Tangle().double())
    before = tensors(model)
    folded, report = fold_model(model)
    assert report.folded == {"plain_bn": "plain_conv", "last.bn": "last.conv"}
    assert report.left.keys() == REASONS.keys()
    for name, reason in REASONS.items():
        assert reason in report.left[name], name
        assert isinstance(folded.get_submodule(name), nn.BatchNorm2d)
    x = torch.randn(3, 4, 9, 9, dtype=torch.float64)
    torch.testing.assert_close(folded(x), model(x), rtol=0, atol=1e-5)
    assert unchanged(model, before) and type(folded) is Tangle
    text = str(report)
    assert text.startswith("2 of 15 batch norms folded\n  plain_bn -> plain_conv\n")
    assert "  unused_bn stays: the traced forward pass does not call it" in text


class SharedBlock(nn.Module):
    """Called twice, but always as a pair: that can be folded."""

    def __init__(self):
        super().__init__()
        self.conv, self.bn = nn.Conv2d(2, 2, 3, padding=1), nn.BatchNorm2d(2)
        self.alias, self.layers = self.conv, [self.conv, self.bn]

    def forward(self, x):
        for _ in range(2):
            x = torch.tanh(self.layers[1](self.alias(x)))
        return x


def test_a_pair_that_is_called_twice_is_folded_under_all_its_names():
    model = used(SharedBlock().double())
    folded, report = fold_model(model)
    assert report.folded == {"bn": "conv"}
    assert folded.alias is folded.conv is folded.layers[0] and isinstance(
        folded.layers[1], nn.Identity
    )
    x = torch.randn(2, 2, 5, 5, dtype=torch.float64)
    torch.testing.assert_close(folded(x), model(x))


class Branches(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), Picky())

    def forward(self, x):
        return self.inner(x)


class Picky(nn.Module):
    def forward(self, x):
        self.seen = x
        return x if x.sum() > 0 else -x


def test_what_cannot_be_traced_is_told_with_place_and_remedy():
    model = used(Branches())
    with pytest.raises(
        ValueError, match=r"(?s)cannot follow Branches, .*'inner\.2': .*torch\.fx\.wrap.*fold"
    ):
        fold_model(model)
    assert not hasattr(model.inner[2], "seen")  # the trace was done on a copy
