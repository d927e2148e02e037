"""Filters removed for good: the same outputs as with zeroed filters, the same models as
Torch-Pruning's, and clear refusals.

The zeroed model comes from ``filter_masks``; where it matters that this is not our own
idea of zeroed, it is made by hand. Everything is compared in float64.
"""

import copy

import pytest
import torch
import torch.fx
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.utils import parametrizations

import course_lib  # noqa: F401  before torchvision, which may need its operators declared
from course_lib.models import LeNet300, SmallConvNet
from course_lib.pruning.channels.groups import channel_groups
from course_lib.pruning.channels.removal import filter_masks, l1_filters, remove_filters, slice_pair
from course_lib.pruning.weights import apply, local_masks

EXACT = {"rtol": 1e-10, "atol": 1e-10}


def seeded(build, seed=0):
    """A model in float64 and evaluation mode whose batch norms have seen something, so
    that no constant is zero.
    """
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = build().double().eval()
        for module in model.modules():
            if isinstance(module, _BatchNorm | nn.InstanceNorm2d) and module.weight is not None:
                nn.init.uniform_(module.weight, 0.5, 1.5)
                nn.init.normal_(module.bias, 0.3, 0.3)
            if isinstance(module, _BatchNorm):
                module.running_mean.normal_(0, 0.3)
                module.running_var.uniform_(0.5, 2)
            if isinstance(module, nn.Conv2d | nn.Linear | nn.Conv1d) and module.bias is not None:
                nn.init.normal_(module.bias, 0.1, 0.3)
    return model


def torchvision_model(name):
    models = pytest.importorskip("torchvision.models")
    return seeded(lambda: getattr(models, name)(weights=None, num_classes=10))


def images(*shape, seed=1):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def random_keep(model, x, seed=0, only=lambda group: True):
    """A mask that keeps about half of the channels of every group that can be
    removed.
    """
    keep, generator = {}, torch.Generator().manual_seed(seed)
    for group in channel_groups(model, x):
        if group.pinned is None and only(group):
            kept = torch.rand(group.channels, generator=generator) < 0.5
            kept[torch.randint(group.channels, (1,), generator=generator)] = True
            keep.update(group.masks(kept))
    return keep


def silence(model, keep, x):
    """Set filters, biases, α and β of the channels that go to zero, by hand: then there
    is no constant.
    """
    model = copy.deepcopy(model)
    masks = filter_masks(model, keep, x)
    apply(model, masks)
    for name, mask in masks.items():
        layer = model.get_submodule(name.removesuffix(".weight"))
        mask = mask.transpose(0, 1) if isinstance(layer, nn.ConvTranspose2d) else mask
        if layer.bias is not None:
            layer.bias.data[~mask.reshape(len(mask), -1).any(1)] = 0
    return model


def outputs(model, x):
    with torch.no_grad():
        return model(x)


def seq(*layers):
    return seeded(lambda: nn.Sequential(*(layer() for layer in layers)))


# -------------------------------------------------------------- whole networks, exactly
@pytest.mark.parametrize("name", ["lenet", "mobilenet_v3_small", "shufflenet_v2_x0_5"])
def test_constants_are_absorbed_exactly_where_no_padded_layer_reads_them(name):
    """MobileNet and ShuffleNet pad in depthwise convolutions alone, and these go along."""
    model = seeded(LeNet300) if name == "lenet" else torchvision_model(name)
    x = images(2, 1, 8, 8) if name == "lenet" else images(2, 3, 32, 32)
    keep = random_keep(model, x, only=lambda g: g.producers[0] not in ("conv1.0", "features.0.0"))
    masked = copy.deepcopy(model)
    apply(masked, filter_masks(model, keep, x))
    smaller, report = remove_filters(model, keep, x)
    assert report.absorbed and not report.inexact
    torch.testing.assert_close(outputs(smaller, x), outputs(masked, x), **EXACT)
    dropped, report = remove_filters(model, keep, x, absorb=False)
    assert (outputs(dropped, x) - outputs(masked, x)).abs().max() > 1e-6
    assert report.inexact and not report.absorbed


def assert_absorbed_exactly(model, x, keep):
    masked, before = copy.deepcopy(model), copy.deepcopy(model.state_dict())
    apply(masked, filter_masks(model, keep, x))
    smaller, report = remove_filters(model, keep, x)
    assert not report.inexact
    torch.testing.assert_close(outputs(smaller, x), outputs(masked, x), **EXACT)
    assert all(torch.equal(before[k], v) for k, v in model.state_dict().items()), (
        "the original changed"
    )
    return smaller, report


def test_a_batch_norm_behind_takes_the_shift_into_its_running_mean():
    def build(bias):
        return seq(
            lambda: nn.Conv2d(2, 5, 3),
            lambda: nn.BatchNorm2d(5),
            nn.ReLU,
            lambda: nn.Conv2d(5, 4, 3, bias=bias),
            lambda: nn.BatchNorm2d(4),
        )

    keep = {"0": torch.tensor([True, False, True, True, False])}
    x = images(2, 2, 8, 8)
    smaller, report = assert_absorbed_exactly(build(False), x, keep)
    assert report.absorbed == {"3": "the running mean of '4'"} and smaller[3].bias is None
    _, report = assert_absorbed_exactly(build(True), x, keep)
    assert report.absorbed == {"3": "its bias"}
    model = build(False)
    model[4] = nn.Identity()
    smaller, report = assert_absorbed_exactly(model, x, keep)
    assert "did not have" in report.absorbed["3"] and isinstance(smaller[3].bias, nn.Parameter)


# ------------------------------------------------------------------------ random chains
@st.composite
def chains(draw):
    """conv–(norm)–activation–(pool) chains with an MLP behind a flatten, without zero
    padding.
    """
    size, sizes, layers = 12, [draw(st.integers(1, 3))], []
    for _ in range(draw(st.integers(1, 3))):
        c, kernel, bias = sizes[-1], draw(st.sampled_from([1, 3])), draw(st.booleans())
        groups = c if len(sizes) > 1 and draw(st.booleans()) else 1
        m = c * draw(st.integers(1, 2)) if groups == c else draw(st.integers(1, 6))
        layers += [nn.Conv2d(c, m, kernel, bias=bias, groups=groups)]
        norms = [nn.BatchNorm2d(m), nn.BatchNorm2d(m, affine=False), nn.Identity()]
        size -= kernel - 1
        if size > 1:  # torch has no instance norm of a single position
            norms.append(nn.InstanceNorm2d(m, affine=True))
        layers += [draw(st.sampled_from(norms))]
        activations = [nn.ReLU(True), nn.SiLU(), nn.Sigmoid(), nn.PReLU(m), nn.PReLU()]
        layers += [draw(st.sampled_from(activations))]
        if size >= 6 and draw(st.booleans()):
            layers += [draw(st.sampled_from([nn.MaxPool2d(2), nn.AvgPool2d(2)]))]
            size //= 2
        sizes.append(m)
    hidden = draw(st.integers(1, 5))
    layers += [nn.Dropout(), nn.Flatten(), nn.Linear(sizes[-1] * size * size, hidden)]
    layers += [nn.BatchNorm1d(hidden), nn.Tanh(), nn.Linear(hidden, 3)]
    seed = draw(st.integers(0, 10_000))
    return seeded(lambda: nn.Sequential(*layers), seed), sizes[0], seed


@given(chains())
@settings(max_examples=50, deadline=None)
@pytest.mark.long
def test_random_chains_give_what_their_masked_twins_give(chain):
    model, c, seed = chain
    x = images(2, c, 12, 12, seed=seed)
    keep = random_keep(model, x, seed)
    smaller, _ = assert_absorbed_exactly(model, x, keep)
    assert all(len(smaller.get_submodule(n).weight) == int(k.sum()) for n, k in keep.items())


# ------------------------------------------------------------------------ Torch-Pruning
@pytest.mark.parametrize("name", ["mobilenet_v2", "resnet18"])
@pytest.mark.long
def test_the_same_model_as_torch_prunings(name):
    tp = pytest.importorskip("torch_pruning")
    model, x = torchvision_model(name), images(1, 3, 32, 32)
    groups = [g for g in channel_groups(model, x) if g.pinned is None]
    masks = local_masks(l1_filters(model, groups), 0.4)
    keep = {k: v for g in groups for k, v in g.masks(masks[g.producers[0]]).items()}
    ours, _ = remove_filters(model, keep, x, absorb=False)

    theirs = copy.deepcopy(model)
    graph = tp.DependencyGraph().build_dependency(theirs, example_inputs=x)
    for group in groups:
        layer = theirs.get_submodule(group.producers[0])
        gone = (~masks[group.producers[0]]).nonzero().flatten().tolist()
        pruning_group = graph.get_pruning_group(layer, tp.prune_conv_out_channels, gone)
        layers = {graph._module2name.get(item.dep.target.module) for item in pruning_group}
        assert set(group.producers) | set(group.followers) <= layers, "another group"
        pruning_group.prune()

    mine, other = ours.state_dict(), theirs.state_dict()
    assert {k: v.shape for k, v in mine.items()} == {k: v.shape for k, v in other.items()}
    assert all(torch.equal(v, other[k]) for k, v in mine.items())
    torch.testing.assert_close(outputs(ours, x), outputs(theirs, x), **EXACT)


# -------------------------------------------------------------------- residual networks
class Concatenated(nn.Module):
    """Dense connections, and an addition across a concatenation: c's channels are a's,
    then b's.
    """

    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = nn.Conv2d(2, 3, 1), nn.Conv2d(5, 4, 1), nn.Conv2d(2, 7, 1)
        self.bn, self.out = nn.BatchNorm2d(7), nn.Conv2d(7, 2, 3)

    def forward(self, x):
        a = F.relu(self.a(x))
        b = self.b(torch.cat([x, a], 1))
        y = torch.cat([a, b], dim=1) + self.c(x)
        return self.out(F.relu(self.bn(y)))


def test_concatenation_keeps_offsets_and_ties_what_is_added_across_it():
    model, x = seeded(Concatenated), images(2, 2, 5, 5)
    (group, logits) = channel_groups(model, x)
    assert group.producers == ("a", "b", "c") and group.channels == 7 and logits.pinned
    assert {k: v.tolist() for k, v in group.index.items()} == {
        "a": [0, 1, 2],
        "b": [3, 4, 5, 6],
        "c": [0, 1, 2, 3, 4, 5, 6],
    }
    keep = group.masks(torch.tensor([True, False, True, False, True, True, False]))
    smaller, report = assert_absorbed_exactly(model, x, keep)
    assert report.inputs == {"b": (5, 4), "out": (7, 4)} and smaller.bn.num_features == 4
    with pytest.raises(ValueError, match="each of 'b', 'c'"):
        remove_filters(model, {"b": keep["b"]}, x)


# --------------------------------------------------- grouped, shared, transposed layers
def test_grouped_convolutions_lose_whole_groups_or_equally_many_channels():
    def build():
        return nn.Sequential(
            nn.Conv2d(2, 6, 1),
            nn.ReLU(),
            nn.Conv2d(6, 9, 3, groups=3),
            nn.ReLU(),
            nn.Conv2d(9, 2, 1),
        )

    model, x = seeded(build), images(2, 2, 6, 6)
    whole = {
        "0": torch.tensor([1, 1, 0, 0, 1, 1]).bool(),
        "2": torch.tensor([1, 1, 1, 0, 0, 0, 1, 1, 1]).bool(),
    }
    smaller, _ = assert_absorbed_exactly(model, x, whole)
    assert (smaller[2].groups, smaller[2].in_channels, smaller[2].out_channels) == (2, 4, 6)
    equal = {
        "0": torch.tensor([1, 0, 0, 1, 1, 0]).bool(),
        "2": torch.tensor([1, 0, 1, 0, 1, 1, 1, 1, 0]).bool(),
    }
    smaller, _ = assert_absorbed_exactly(model, x, equal)
    assert (smaller[2].groups, smaller[2].in_channels, smaller[2].out_channels) == (3, 3, 6)
    with pytest.raises(ValueError, match=r"'2' has 3 groups.*read \[2, 1, 2\]"):
        remove_filters(model, {"0": torch.tensor([1, 1, 0, 1, 1, 1]).bool()}, x)


def test_a_depthwise_convolution_goes_with_what_it_reads_down_to_one_channel():
    model = seq(
        lambda: nn.Conv2d(2, 4, 1), lambda: nn.Conv2d(4, 8, 3, groups=4), lambda: nn.Conv2d(8, 2, 1)
    )
    x = images(2, 2, 6, 6)
    for kept in ([1, 0, 1, 1], [0, 0, 1, 0]):
        mask = torch.tensor(kept).bool()
        smaller, _ = assert_absorbed_exactly(model, x, {"0": mask})
        n = int(mask.sum())
        assert (smaller[1].groups, smaller[1].in_channels, smaller[1].out_channels) == (n, n, 2 * n)
        assert_absorbed_exactly(model, x, {"1": mask.repeat_interleave(2)})  # its own name will do
    with pytest.raises(ValueError, match="keep .*'0'"):
        remove_filters(model, {"1": torch.tensor([1, 0, 1, 1, 1, 1, 1, 1]).bool()}, x)


class Twice(nn.Module):
    """One convolution called twice: what it makes, it also reads."""

    def __init__(self):
        super().__init__()
        self.first, self.again, self.out = (
            nn.Conv2d(2, 4, 1),
            nn.Conv2d(4, 4, 1),
            nn.Conv2d(4, 2, 1),
        )

    def forward(self, x):
        return self.out(torch.tanh(self.again(torch.tanh(self.again(self.first(x))))))


def test_a_layer_that_is_called_twice_is_cut_once():
    model, x = seeded(Twice), images(2, 2, 3, 3)
    mask = torch.tensor([True, False, True, True])
    with pytest.raises(ValueError, match="'first'.*'again'"):
        remove_filters(model, {"again": mask}, x)
    smaller, report = remove_filters(model, {"first": mask, "again": mask}, x)
    assert smaller.again.weight.shape == (3, 3, 1, 1) and outputs(smaller, x).shape == (2, 2, 3, 3)
    assert "dropped" in report.inexact["again"]


# ----------------------------------------------------------------------------- refusals


# --------------------------------------------------- what the labels do not show, and a run
class Counting(nn.Module):
    """Computes with the number of its channels, in one of several ways, or reads a weight."""

    WAYS = {  # noqa: RUF012
        "shape": lambda m, y: m.last(y * y.shape[1] ** 0.5),
        "size": lambda m, y: m.last(y) / y.size(1),
        "numel": lambda m, y: m.last(y / y.numel()),
        "tiny outputs": lambda m, y: m.last(y) * 1e-9 / y.size(1),
        "out_channels": lambda m, y: m.last(y / m.first.out_channels),
        "in_channels": lambda m, y: m.last(y) * m.last.in_channels**0.5,
        "weight": lambda m, y: m.last(y) + m.first.weight.mean(),
        "functional": lambda m, y: m.last(y) + F.conv2d(m.x, m.first.weight).mean(1, keepdim=True),
    }

    def __init__(self, way):
        super().__init__()
        self.way = way
        self.first, self.last = nn.Conv2d(3, 8, 3), nn.Conv2d(8, 4, 1)

    def forward(self, x):
        self.x = x
        return self.WAYS[self.way](self, self.first(x).relu())


@pytest.mark.parametrize("way", Counting.WAYS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_forward_that_computes_with_the_number_of_channels_is_refused(way, dtype):
    model = seeded(lambda: Counting(way)).to(dtype)
    with pytest.raises(ValueError, match=r"cannot be removed.*('last'|first\.weight)"):
        remove_filters(model, {"first": torch.arange(8) % 3 > 0}, images(2, 3, 9, 9).to(dtype))


@pytest.mark.parametrize("affine", [True, False])
def test_an_instance_norm_with_running_statistics_makes_another_constant(affine):
    model = seq(
        lambda: nn.Conv2d(2, 6, 3),
        lambda: nn.InstanceNorm2d(6, affine=affine, track_running_stats=True),
        nn.ReLU,
        lambda: nn.Conv2d(6, 3, 3),
    )
    model[1].running_mean.normal_(generator=torch.Generator().manual_seed(3))
    model[1].running_var.uniform_(0.3, 3, generator=torch.Generator().manual_seed(4))
    _, report = assert_absorbed_exactly(model, images(2, 2, 9, 9), {"0": torch.arange(6) % 2 == 0})
    assert report.absorbed


def test_one_sample_and_one_place_do_not_make_a_constant():
    """A gate of one number per image is no constant, though one image shows one number."""

    class Gate(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.gate, self.b = nn.Linear(3, 4), nn.Linear(3, 1), nn.Linear(4, 2)

        def forward(self, x):
            return self.b(self.a(x) * self.gate(x))

    model, x = seeded(Gate), images(1, 3)
    _, report = remove_filters(model, {"a": torch.arange(4) > 1}, x)
    assert "not constant" in report.inexact["b"] and not report.absorbed


# ------------------------------------------------------------------------- what is kept
def test_types_modes_flags_and_layouts_are_kept():
    model = SmallConvNet(3).to(memory_format=torch.channels_last).half()
    model.conv2.weight.requires_grad_(False)
    model.bn2.eval()
    state, keep = (
        torch.get_rng_state(),
        {"conv1": torch.arange(32) < 9, "bn2": torch.arange(32) < 7},
    )
    smaller, _ = remove_filters(model, keep, torch.zeros(1, 3, 16, 16, dtype=torch.float16))
    assert torch.equal(torch.get_rng_state(), state) and type(smaller) is SmallConvNet
    for net in (model, smaller):
        assert net.training and net.bn1.training and not net.bn2.training
    weight = smaller.conv2.weight
    assert isinstance(weight, nn.Parameter) and not weight.requires_grad
    assert smaller.conv1.weight.requires_grad
    assert weight.dtype == torch.float16 and weight.shape == (7, 9, 3, 3)
    assert weight.is_contiguous(memory_format=torch.channels_last)
    theirs = {t.data_ptr() for t in model.state_dict().values()}
    assert not theirs & {t.data_ptr() for t in smaller.state_dict().values()}, "memory is shared"


# ----------------------------------------------------------------------------- l1 norms
def test_l1_norms_of_filters_and_of_groups():
    model, x = torchvision_model("resnet18"), images(1, 3, 32, 32)
    norms = l1_filters(model)
    torch.testing.assert_close(norms["conv1"], model.conv1.weight.detach().abs().sum((1, 2, 3)))
    assert norms["fc"].shape == (10,) and norms["conv1"].dtype == torch.float64
    scores = l1_filters(model, channel_groups(model, x))
    assert "fc" not in scores and len(scores) == 12
    torch.testing.assert_close(
        scores["conv1"], norms["conv1"] + norms["layer1.0.conv2"] + norms["layer1.1.conv2"]
    )
    transposed = nn.ConvTranspose2d(4, 6, 3, groups=2)
    want = torch.cat(
        [part.detach().abs().double().sum((0, 2, 3)) for part in transposed.weight.chunk(2)]
    )
    torch.testing.assert_close(l1_filters(nn.Sequential(transposed))["0"], want)


# ------------------------------------------------------------- one pair of layers (4.2)
@given(
    st.integers(1, 6).flatmap(
        lambda m: st.tuples(st.just(m), st.sets(st.integers(0, m - 1), min_size=1))
    )
)
@settings(max_examples=30, deadline=None)
def test_slice_pair_is_remove_filters_on_two_layers(case):
    m, kept = case
    keep = sorted(kept)
    conv, bn, after = seq(
        lambda: nn.Conv2d(2, m, 3),
        lambda: nn.BatchNorm2d(m),
        lambda: nn.Conv2d(m, 3, 3, bias=False),
    )
    mask = torch.zeros(m, dtype=torch.bool)
    mask[keep] = True
    before = copy.deepcopy([layer.state_dict() for layer in (conv, bn, after)])
    pair = slice_pair(conv, bn, after, keep)
    whole, _ = remove_filters(
        nn.Sequential(conv, bn, after), {"0": mask}, images(1, 2, 6, 6), absorb=False
    )
    for mine, layer, new in zip((conv, bn, after), pair, whole, strict=True):
        assert new is not mine and repr(layer) == repr(new)
        assert all(torch.equal(v, new.state_dict()[k]) for k, v in layer.state_dict().items())
    assert all(
        torch.equal(v, now.state_dict()[k])
        for old, now in zip(before, (conv, bn, after), strict=True)
        for k, v in old.items()
    )
    (_, none, linear) = slice_pair(conv, None, nn.Linear(m * 4, 5), keep)
    assert none is None and linear.in_features == 4 * len(keep)


# ------------------------------------------------------- small networks of every kind
@torch.fx.wrap
def each_alone(x):
    return F.relu(x) if x.shape[-1] < 9 else x


@torch.fx.wrap
def all_together(x):
    return x / x.sum(1, keepdim=True)


class Between(nn.Module):
    """Two layers, and something between them."""

    def __init__(self, between, after=lambda: nn.Conv2d(6, 2, 3)):
        super().__init__()
        self.a, self.norm, self.b = nn.Conv2d(1, 6, 1), nn.GroupNorm(2, 6), after()
        self.between = between

    def forward(self, x):
        return self.b(self.between(self, self.a(x)))


FLAT = {"after": lambda: nn.Linear(6 * 25, 2)}
FOLLOWED = {
    "own function": (lambda m, y: each_alone(y), {}),
    "padding": (
        lambda m, y: y,
        {"after": lambda: nn.Conv2d(6, 2, 3, padding=1, padding_mode="circular")},
    ),
    "swapped": (lambda m, y: y.transpose(1, 2).flatten(1), FLAT),
    "slopes": (lambda m, y: y, {"after": lambda: nn.Sequential(nn.PReLU(6), nn.Conv2d(6, 2, 3))}),
}


@pytest.mark.parametrize("way", FOLLOWED)
def test_what_works_on_each_channel_alone_is_followed(way):
    between, options = FOLLOWED[way]
    model = seeded(lambda: Between(between, **options))
    assert_absorbed_exactly(model, images(2, 1, 5, 5), {"a": torch.arange(6) > 2})


def tied():
    first, second = nn.Linear(5, 5), nn.Linear(5, 5)
    second.weight = first.weight
    return nn.Sequential(first, nn.Tanh(), second)


REFUSED = {
    "view": (lambda m, y: y.view(-1, 150), FLAT, "number of channels"),
    "group norm": (lambda m, y: m.norm(y), {}, r"'norm' \(GroupNorm\)"),
    "functional": (
        lambda m, y: F.conv2d(y, m.b.weight.repeat(3, 1, 1, 1), padding=1),
        {},
        "conv2d in the model's forward",
    ),
    "softmax": (lambda m, y: y.softmax(1), {}, "softmax in the model's forward"),
    "one number": (lambda m, y: y / y.std(), {}, "std in the model's forward"),
    "own function": (lambda m, y: all_together(y), {}, "all_together"),
    "computed": (
        lambda m, y: y,
        {"after": lambda: parametrizations.weight_norm(nn.Conv2d(6, 2, 3))},
        r"'b' \(ParametrizedConv2d\)",
    ),
    "tied": (lambda m, y: y[..., 0], {"after": lambda: tied()}, "'a': channel|cannot be removed"),
}


@pytest.mark.parametrize("way", REFUSED)
def test_what_reads_channels_in_an_unknown_way_is_refused_by_name(way):
    between, options, says = REFUSED[way]
    model = seeded(lambda: Between(between, **options))
    name = "b.0" if way == "tied" else "a"
    for batch in (1, 2):
        with pytest.raises(ValueError, match=says) as error:
            mask = torch.arange(5 if way == "tied" else 6) > 2
            remove_filters(model, {name: mask}, images(batch, 1, 5, 5))
        assert "cannot be removed" in str(error.value)


def test_what_meets_in_an_addition_agrees_or_is_refused_by_name():
    model, x = torchvision_model("resnet18"), images(1, 3, 32, 32)
    half = torch.arange(128) % 2 == 0
    three = ["layer2.0.conv2", "layer2.0.downsample.0", "layer2.1.conv2"]
    with pytest.raises(ValueError, match=r"0.conv2' and .*0.downsample.0' .*add in.* each of"):
        remove_filters(model, {three[2]: half}, x)
    with pytest.raises(ValueError, match="each of 'layer2.0.conv2', 'layer2.0.downsample.0', "):
        remove_filters(model, {three[0]: half, three[1]: half, three[2]: ~half}, x)
    with pytest.raises(ValueError, match="keep .*'layer1.0.conv1'"):
        remove_filters(model, {"layer1.0.conv1": half[:64], "layer1.0.bn1": ~half[:64]}, x)
    smaller, report = remove_filters(model, dict.fromkeys(three, half), x)
    assert [smaller.get_submodule(n).out_channels for n in three] == [64] * 3
    assert report.inputs["layer3.0.downsample.0"] == (128, 64)
    # nothing goes: nothing to agree on
    remove_filters(model, {"layer2.1.conv2": half | True}, x)


def test_transposed_convolutions_are_cut_on_the_right_side():
    model = seq(
        lambda: nn.Conv2d(2, 4, 1),
        lambda: nn.ConvTranspose2d(4, 6, 2, stride=2),
        lambda: nn.Conv2d(6, 2, 1),
    )
    keep, x = {"0": torch.arange(4) != 1, "1": torch.arange(6) % 3 > 0}, images(2, 2, 5, 5)
    silent = silence(model, keep, x)
    smaller, report = remove_filters(silent, keep, x)
    assert smaller[1].weight.shape == (3, 4, 2, 2)
    assert report.inputs == {"1": (4, 3), "2": (6, 4)} and not report.inexact
    torch.testing.assert_close(outputs(smaller, x), outputs(silent, x), **EXACT)


@pytest.mark.parametrize("pad", [lambda: nn.ZeroPad2d(1), lambda: nn.AvgPool2d(3, 1, 1)])
def test_borders_of_zeros_are_named_and_the_interior_is_exact(pad):
    model = seq(
        lambda: nn.Conv2d(2, 6, 3), lambda: nn.BatchNorm2d(6), nn.ReLU, pad,
        lambda: nn.Conv2d(6, 3, 3),
    )  # fmt: skip
    keep, x, masked = {"0": torch.arange(6) % 3 > 0}, images(2, 2, 11, 11), copy.deepcopy(model)
    apply(masked, filter_masks(model, keep, x))
    smaller, report = remove_filters(model, keep, x)
    difference = (outputs(smaller, x) - outputs(masked, x)).abs()
    assert difference[..., 1:-1, 1:-1].max() < 1e-10 and difference[..., 0, :].min() > 1e-6
    assert "border" in report.inexact["4"] and report.absorbed == {"4": "its bias"}
    assert "borders differ" in str(report) and "6 -> 4" in str(report)
