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
from course_lib.cost import model_cost, totals
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


def vgg():
    """torchvision's VGG-11 with batch norm; its two hidden layers have 48 units, not
    4096, and cost nothing.
    """

    def build():
        model = pytest.importorskip("torchvision.models").vgg11_bn(weights=None)
        model.classifier = nn.Sequential(
            *(nn.Linear(512 * 7 * 7, 48), nn.ReLU(True), nn.Dropout()),
            *(nn.Linear(48, 48), nn.ReLU(True), nn.Dropout(), nn.Linear(48, 10)),
        )
        return model

    return seeded(build)


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
    _, report = remove_filters(model, keep, x)
    masks = filter_masks(model, keep, x)
    apply(model, masks)
    for name in report.outputs:
        layer = model.get_submodule(name)
        if isinstance(getattr(layer, "bias", None), torch.Tensor):
            kept = (
                masks[f"{name}.weight"].flatten(1).any(1)
                if layer.weight.ndim > 1
                else masks[f"{name}.weight"]
            )
            layer.bias.data[~kept] = 0
    return model


def outputs(model, x):
    with torch.no_grad():
        return model(x)


def seq(*layers):
    return seeded(lambda: nn.Sequential(*(layer() for layer in layers)))


# -------------------------------------------------------------- whole networks, exactly
NETWORKS = {
    "small": (lambda: seeded(lambda: SmallConvNet(3)), (2, 3, 16, 16)),
    "lenet": (lambda: seeded(LeNet300), (2, 1, 8, 8)),
    "vgg11_bn": (vgg, (1, 3, 32, 32)),
    "resnet18": (lambda: torchvision_model("resnet18"), (2, 3, 32, 32)),
    "resnet50": (lambda: torchvision_model("resnet50"), (1, 3, 32, 32)),
    "mobilenet_v2": (lambda: torchvision_model("mobilenet_v2"), (2, 3, 32, 32)),
    # squeeze and excitation
    "mobilenet_v3_small": (lambda: torchvision_model("mobilenet_v3_small"), (2, 3, 32, 32)),
    "squeezenet1_1": (lambda: torchvision_model("squeezenet1_1"), (1, 3, 64, 64)),  # concatenation
    # chunks, shuffled
    "shufflenet_v2_x0_5": (lambda: torchvision_model("shufflenet_v2_x0_5"), (1, 3, 32, 32)),
}
LARGE = {"vgg11_bn", "resnet50", "mobilenet_v2"}  # whose kinds of layers the others have too


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.long) if n in LARGE else n for n in NETWORKS]
)
def test_removing_silent_channels_changes_no_output_and_saves_the_macs(name):
    build, shape = NETWORKS[name]
    x = images(*shape)
    model = build()
    keep = random_keep(model, x)
    model = silence(model, keep, x)
    before = copy.deepcopy(model.state_dict())
    smaller, report = remove_filters(model, keep, x)
    torch.testing.assert_close(outputs(smaller, x), outputs(model, x), **EXACT)
    assert not report.absorbed and not report.inexact, "nothing was constant but zero"
    assert all(torch.equal(before[k], v) for k, v in model.state_dict().items()), (
        "the original changed"
    )
    assert report.parameters == tuple(
        sum(p.numel() for p in m.parameters()) for m in (model, smaller)
    )
    # The MACs of each layer fall by the shares of its inputs and outputs that went.
    dense, cut = ({row.name: row for row in model_cost(m, x)} for m in (model, smaller))
    assert list(dense) == list(cut)
    for layer, row in dense.items():
        module = smaller.get_submodule(layer)
        made = report.outputs.get(layer, (1, 1))
        read = report.inputs.get(layer, (1, 1)) if getattr(module, "groups", 1) == 1 else (1, 1)
        assert cut[layer].macs * made[0] * read[0] == row.macs * made[1] * read[1]
    assert totals(list(cut.values()))["macs"] < 0.6 * totals(list(dense.values()))["macs"]


@pytest.mark.parametrize(
    "name",
    [
        "lenet",
        pytest.param("mobilenet_v2", marks=pytest.mark.long),
        "mobilenet_v3_small",
        "shufflenet_v2_x0_5",
    ],
)
def test_constants_are_absorbed_exactly_where_no_padded_layer_reads_them(name):
    """MobileNets and ShuffleNet pad in depthwise convolutions alone, and these go
    along.
    """
    build, shape = NETWORKS[name]
    model, x = build(), images(*shape)
    keep = random_keep(model, x, only=lambda g: g.producers[0] not in ("conv1.0", "features.0.0"))
    masked = copy.deepcopy(model)
    apply(masked, filter_masks(model, keep, x))
    smaller, report = remove_filters(model, keep, x)
    assert report.absorbed and not report.inexact
    torch.testing.assert_close(outputs(smaller, x), outputs(masked, x), **EXACT)
    dropped, report = remove_filters(model, keep, x, absorb=False)
    assert (outputs(dropped, x) - outputs(masked, x)).abs().max() > 1e-6
    assert report.inexact and not report.absorbed


def test_a_padded_border_is_not_exact_and_the_report_says_so_while_the_interior_is():
    model = seq(
        lambda: nn.Conv2d(2, 6, 3, padding=1),
        lambda: nn.BatchNorm2d(6),
        nn.ReLU,
        lambda: nn.Conv2d(6, 3, 3, padding=1),
    )
    x = images(2, 2, 9, 9)
    keep = {"0": torch.tensor([True, False, True, False, True, True])}
    masked = copy.deepcopy(model)
    apply(masked, filter_masks(model, keep, x))
    smaller, report = remove_filters(model, keep, x)
    difference = (outputs(smaller, x) - outputs(masked, x)).abs()
    assert difference[..., 1:-1, 1:-1].max() < 1e-10 and difference[..., 0, :].min() > 1e-6
    assert (
        "3" in report.inexact
        and "border" in report.inexact["3"]
        and report.absorbed == {"3": "its bias"}
    )
    assert "borders differ" in str(report) and "6 -> 4" in str(report)


@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular"])
def test_other_paddings_than_zeros_are_exact(mode):
    model = seq(
        lambda: nn.Conv2d(2, 6, 3),
        lambda: nn.BatchNorm2d(6),
        lambda: nn.Conv2d(6, 3, 3, padding=1, padding_mode=mode),
    )
    assert_absorbed_exactly(model, images(2, 2, 9, 9), {"0": torch.arange(6) % 2 == 0})


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
    """conv–(BN)–activation–(pool) chains with an MLP behind a flatten, without zero
    padding; and where to cut.
    """
    size = 12
    layers, sizes = [], [draw(st.integers(1, 3))]
    for _ in range(draw(st.integers(1, 3))):
        c, m = sizes[-1], draw(st.integers(1, 6))
        kernel = draw(st.sampled_from([1, 3])) if size > 3 else 1
        depthwise = draw(st.booleans()) and len(sizes) > 1
        if depthwise:
            k = draw(st.sampled_from([1, 2]))
            layers.append(lambda c=c, k=k, s=kernel: nn.Conv2d(c, c * k, s, groups=c))
            m = c * k
        else:
            bias = draw(st.booleans())
            layers.append(lambda c=c, m=m, s=kernel, b=bias: nn.Conv2d(c, m, s, bias=b))
        size -= kernel - 1
        norm = draw(st.sampled_from(["bn", "bn without scale", "instance", None]))
        if norm:
            layers.append(
                {
                    "bn": lambda m=m: nn.BatchNorm2d(m),
                    "bn without scale": lambda m=m: nn.BatchNorm2d(m, affine=False),
                    "instance": lambda m=m: nn.InstanceNorm2d(m, affine=True),
                }[norm]
            )
        activations = [
            nn.ReLU,
            lambda: nn.ReLU(inplace=True),
            nn.SiLU,
            nn.Sigmoid,
            lambda m=m: nn.PReLU(m),
            nn.PReLU,
        ]
        layers.append(draw(st.sampled_from(activations)))
        if size >= 4 and draw(st.booleans()):
            layers.append(draw(st.sampled_from([lambda: nn.MaxPool2d(2), lambda: nn.AvgPool2d(2)])))
            size //= 2
        sizes.append(m)
    layers += [nn.Dropout, nn.Flatten]
    features = sizes[-1] * size * size
    hidden = draw(st.integers(1, 5))
    layers += [
        lambda: nn.Linear(features, hidden),
        lambda: nn.BatchNorm1d(hidden),
        nn.Tanh,
        lambda: nn.Linear(hidden, 3),
    ]
    seed = draw(st.integers(0, 10_000))
    return seeded(lambda: nn.Sequential(*(layer() for layer in layers)), seed), sizes[0], seed


@given(chains())
@settings(max_examples=50, deadline=None)
@pytest.mark.long
def test_random_chains_give_what_their_masked_twins_give(chain):
    model, c, seed = chain
    x = images(2, c, 12, 12, seed=seed)
    keep = random_keep(model, x, seed)
    masked = copy.deepcopy(model)
    apply(masked, filter_masks(model, keep, x))
    smaller, report = remove_filters(model, keep, x)
    assert not report.inexact
    torch.testing.assert_close(outputs(smaller, x), outputs(masked, x), **EXACT)
    for name, kept in keep.items():
        layer = smaller.get_submodule(name)
        assert (layer.out_features if isinstance(layer, nn.Linear) else layer.out_channels) == int(
            kept.sum()
        )


# ------------------------------------------------------------------------ Torch-Pruning
@pytest.mark.parametrize("name", ["vgg11_bn", "resnet18"])
@pytest.mark.long
def test_the_same_model_as_torch_prunings(name):
    tp = pytest.importorskip("torch_pruning")
    model, x = NETWORKS[name][0](), images(1, 3, 32, 32)
    groups = [g for g in channel_groups(model, x) if g.pinned is None]
    masks = local_masks(l1_filters(model, groups), 0.4)
    keep = {k: v for g in groups for k, v in g.masks(masks[g.producers[0]]).items()}
    ours, _ = remove_filters(model, keep, x, absorb=False)

    theirs = copy.deepcopy(model)
    graph = tp.DependencyGraph().build_dependency(theirs, example_inputs=x)
    for group in groups:
        layer = theirs.get_submodule(group.producers[0])
        cut = (
            tp.prune_linear_out_channels
            if isinstance(layer, nn.Linear)
            else tp.prune_conv_out_channels
        )
        gone = (~masks[group.producers[0]]).nonzero().flatten().tolist()
        pruning_group = graph.get_pruning_group(layer, cut, gone)
        layers = {graph._module2name.get(item.dep.target.module) for item in pruning_group}
        assert set(group.producers) | set(group.followers) <= layers, (
            "another group than Torch-Pruning's"
        )
        pruning_group.prune()

    mine, other = ours.state_dict(), theirs.state_dict()
    assert {k: v.shape for k, v in mine.items()} == {k: v.shape for k, v in other.items()}
    assert all(torch.equal(v, other[k]) for k, v in mine.items())
    torch.testing.assert_close(outputs(ours, x), outputs(theirs, x), **EXACT)


# -------------------------------------------------------------------- residual networks
def test_what_meets_in_an_addition_agrees_or_is_refused_by_name():
    model, x = torchvision_model("resnet18"), images(1, 3, 32, 32)
    half = torch.arange(128) % 2 == 0
    with pytest.raises(
        ValueError,
        match=r"'layer2.1.conv2'.*'layer2.0.conv2' and 'layer2.0.downsample.0' keep.*add in",
    ):
        remove_filters(model, {"layer2.1.conv2": half}, x)
    three = ["layer2.0.conv2", "layer2.0.downsample.0", "layer2.1.conv2"]
    with pytest.raises(
        ValueError, match="same mask to each of 'layer2.0.conv2', 'layer2.0.downsample.0' and"
    ):
        remove_filters(model, {three[0]: half, three[1]: half, three[2]: ~half}, x)
    smaller, report = remove_filters(model, dict.fromkeys(three, half), x)
    assert [smaller.get_submodule(n).out_channels for n in three] == [64] * 3
    assert (
        report.inputs["layer3.0.downsample.0"] == (128, 64)
        and smaller.layer2[0].bn2.num_features == 64
    )
    # nothing goes: nothing to agree on
    remove_filters(model, {"layer2.1.conv2": torch.ones(128, dtype=torch.bool)}, x)


def test_a_batch_norm_stands_for_the_layer_before_it():
    model, x = torchvision_model("resnet18"), images(1, 3, 32, 32)
    half = torch.arange(64) % 3 > 0
    a, b = (
        remove_filters(model, {f"layer1.0.{n}1": half}, x)[0].state_dict() for n in ("bn", "conv")
    )
    assert all(torch.equal(a[k], b[k]) for k in a)
    with pytest.raises(ValueError, match="keep .*'layer1.0.conv1'"):
        remove_filters(model, {"layer1.0.conv1": half, "layer1.0.bn1": ~half}, x)


def test_the_groups_of_a_residual_network():
    model, x = torchvision_model("resnet18"), images(1, 3, 32, 32)
    groups = {g.producers[0]: g for g in channel_groups(model, x)}
    stream = groups["conv1"]
    assert (
        stream.producers == ("conv1", "layer1.0.conv2", "layer1.1.conv2") and stream.channels == 64
    )
    assert set(stream.followers) == {"bn1", "layer1.0.bn2", "layer1.1.bn2"}
    assert set(stream.consumers) == {
        "layer1.0.conv1",
        "layer1.1.conv1",
        "layer2.0.conv1",
        "layer2.0.downsample.0",
    }
    assert groups["fc"].pinned is not None and "output" in groups["fc"].pinned
    assert sum(g.pinned is None for g in groups.values()) == len(groups) - 1 == 12


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
    with pytest.raises(ValueError, match="'b' and 'c'"):
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


def test_a_prelu_is_cut_along_down_to_one_slope():
    model = seq(lambda: nn.Conv2d(2, 3, 1), lambda: nn.PReLU(3), lambda: nn.Conv2d(3, 2, 3))
    model[1].weight.data = torch.tensor([0.1, -0.5, 2.0], dtype=torch.float64)
    model[0].bias.data = torch.tensor([-1.0, -1.0, -1.0], dtype=torch.float64)
    for kept in ([1, 0, 1], [0, 1, 0]):
        smaller, _ = assert_absorbed_exactly(
            model, images(2, 2, 6, 6), {"0": torch.tensor(kept).bool()}
        )
        assert smaller[1].num_parameters == sum(kept)


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


def test_layers_that_share_weights_are_refused():
    model = seq(
        lambda: nn.Linear(3, 3), nn.Tanh, lambda: nn.Linear(3, 3), nn.Tanh, lambda: nn.Linear(3, 2)
    )
    model[2].weight = model[0].weight
    with pytest.raises(ValueError, match="'0' and '2' share weights"):
        remove_filters(model, {"0": torch.tensor([True, False, True])}, images(4, 3))


def test_transposed_convolutions_are_cut_on_the_right_side():
    first, second = [1, 0, 1, 1], [0, 1, 1, 1, 0, 1]
    model = seq(
        lambda: nn.Conv2d(2, 4, 1),
        lambda: nn.ConvTranspose2d(4, 6, 2, stride=2),
        lambda: nn.Conv2d(6, 2, 1),
    )
    x = images(2, 2, 5, 5)
    keep = {"0": torch.tensor(first).bool(), "1": torch.tensor(second).bool()}
    silent = silence(model, {"0": keep["0"]}, x)
    apply(silent, filter_masks(model, keep, x))
    silent[1].bias.data[~keep["1"]] = 0
    smaller, report = remove_filters(silent, keep, x)
    assert smaller[1].weight.shape == (3, 4, 2, 2)
    assert report.inputs == {"1": (4, 3), "2": (6, 4)} and not report.inexact
    torch.testing.assert_close(outputs(smaller, x), outputs(silent, x), **EXACT)


# ----------------------------------------------------------------------------- refusals
class Fixed(nn.Module):
    """Hard-coded sizes, in one of several ways."""

    def __init__(self, way):
        super().__init__()
        self.way = way
        self.conv, self.fc = nn.Conv2d(1, 4, 3), nn.Linear(64, 2)
        self.norm = nn.GroupNorm(2, 4)

    def forward(self, x):
        x = F.relu(self.conv(x))  # (B, 4, 4, 4)
        if self.way == "view":
            x = x.view(-1, 64)
        elif self.way == "view by batch":
            x = x.view(x.size(0), 64)
        elif self.way == "group norm":
            x = self.norm(x).flatten(1)
        elif self.way == "functional":
            x = F.conv2d(x, self.fc.weight.view(2, 4, 4, 4)).flatten(1)
            return x
        elif self.way == "swapped":
            x = x.transpose(1, 2).flatten(1)
        elif self.way == "softmax":
            x = x.softmax(1).flatten(1)
        return self.fc(x)


@pytest.mark.parametrize(
    ("way", "says"),
    [
        ("view", "number of channels"),
        ("view by batch", "number of channels"),
        ("group norm", r"'norm' \(GroupNorm\)"),
        ("functional", "conv2d in the model's forward"),
        ("softmax", "softmax in the model's forward"),
    ],
)
def test_what_reads_channels_in_an_unknown_way_is_refused_by_name(way, says):
    model = seeded(lambda: Fixed(way))
    for batch in (1, 2):
        with pytest.raises(ValueError, match=says) as error:
            remove_filters(
                model, {"conv": torch.tensor([True, False, True, False])}, images(batch, 1, 6, 6)
            )
        assert "cannot be removed" in str(error.value)


def test_other_orders_of_dimensions_are_followed():
    model = seeded(lambda: Fixed("swapped"))
    assert_absorbed_exactly(
        model, images(2, 1, 6, 6), {"conv": torch.tensor([True, False, True, False])}
    )


def test_a_weight_that_is_computed_from_another_is_refused_and_others_are_not():
    model = seq(
        lambda: nn.Linear(4, 6), nn.ReLU, lambda: nn.Linear(6, 5), nn.ReLU, lambda: nn.Linear(5, 2)
    )
    parametrizations.weight_norm(model[0])
    x = images(3, 4)
    with pytest.raises(ValueError, match="'0'.*parametrize"):
        remove_filters(model, {"0": torch.arange(6) < 3}, x)
    silent, _ = remove_filters(model, {"2": torch.arange(5) < 3}, x)
    assert silent[2].out_features == 3 and outputs(silent, x).shape == (3, 2)


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


@pytest.mark.parametrize("features", ["out", "in"])
def test_features_of_a_linear_layer_that_scale_its_output_are_refused(features):
    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.z = nn.Linear(4, 6), nn.Linear(6, 3)

        def forward(self, x):
            layer = self.a if features == "out" else self.z
            return self.z(self.a(x).tanh() / getattr(layer, f"{features}_features") ** 0.5)

    with pytest.raises(ValueError, match="'z'"):
        remove_filters(seeded(Attention), {"a": torch.arange(6) < 3}, images(2, 4))


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


@torch.fx.wrap
def each_alone(x):
    return F.relu(x) if x.shape[-1] < 9 else x


@torch.fx.wrap
def all_together(x):
    return x / x.sum(1, keepdim=True)


class Wrapped(nn.Module):
    def __init__(self, alone):
        super().__init__()
        self.alone, self.a, self.b = alone, nn.Conv2d(1, 6, 1), nn.Conv2d(6, 2, 1)

    def forward(self, x):
        return self.b(each_alone(self.a(x)) if self.alone else all_together(self.a(x)))


@pytest.mark.parametrize("alone", [True, False])
def test_a_function_of_the_users_own_is_tried_on_half_of_the_channels(alone):
    model, x = seeded(lambda: Wrapped(alone)), images(2, 1, 5, 5)
    group, _ = channel_groups(model, x)
    if alone:
        assert_absorbed_exactly(model, x, group.masks(torch.arange(6) > 2))
    else:
        assert "all_together" in group.pinned


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


def test_zeros_that_are_padded_before_a_layer_are_named():
    model = seq(
        lambda: nn.Conv2d(2, 6, 3), lambda: nn.ZeroPad2d(1), lambda: nn.Conv2d(6, 3, 3, bias=False)
    )
    _, report = remove_filters(model, {"0": torch.arange(6) > 1}, images(1, 2, 9, 9))
    assert "border" in report.inexact["2"] and "2" in report.absorbed


def test_a_model_that_mixes_types_is_compared_in_its_own():
    class Mixed(nn.Sequential):
        def forward(self, x):
            return self[1](self[0](x).relu().float())

    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = Mixed(nn.Conv2d(2, 6, 3), nn.Conv2d(6, 3, 1)).eval()
    keep = {"0": torch.arange(6) % 2 == 0}
    smaller, report = remove_filters(model, keep, torch.randn(1, 2, 8, 8))
    assert smaller[1].in_channels == 3 and not report.inexact


# ------------------------------------------------------------------------- what is kept
def test_types_modes_flags_and_layouts_are_kept():
    model = SmallConvNet(3).to(memory_format=torch.channels_last).half()
    model.conv2.weight.requires_grad_(False)
    model.bn2.eval()
    x = torch.zeros(1, 3, 16, 16, dtype=torch.float16)
    state = torch.get_rng_state()
    smaller, _ = remove_filters(
        model, {"conv1": torch.arange(32) < 9, "bn2": torch.arange(32) < 7}, x
    )
    assert torch.equal(torch.get_rng_state(), state)
    assert (
        smaller.training
        and smaller.bn1.training
        and not smaller.bn2.training
        and model.conv1.training
    )
    assert not smaller.conv2.weight.requires_grad and smaller.conv1.weight.requires_grad
    assert smaller.conv2.weight.dtype == torch.float16 and smaller.conv2.weight.shape == (
        7,
        9,
        3,
        3,
    )
    assert smaller.conv2.weight.is_contiguous(memory_format=torch.channels_last)
    assert type(smaller) is SmallConvNet and isinstance(smaller.conv2.weight, nn.Parameter)
    theirs = {t.data_ptr() for t in model.state_dict().values()}
    assert not theirs & {t.data_ptr() for t in smaller.state_dict().values()}, (
        "shares memory with the original"
    )


def test_removing_twice_is_removing_once():
    model, x = NETWORKS["small"][0](), images(1, 3, 16, 16)
    first, second = torch.arange(64) % 2 == 0, torch.arange(32) < 20
    twice, _ = remove_filters(remove_filters(model, {"conv3": first}, x)[0], {"conv3": second}, x)
    once, _ = remove_filters(model, {"conv3": first & (torch.arange(64) < 40)}, x)
    torch.testing.assert_close(dict(twice.state_dict()), dict(once.state_dict()), **EXACT)


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


# ------------------------------------------------------------- one pair of layers (4.3)
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
