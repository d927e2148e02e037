from types import SimpleNamespace

import pytest
import torch
import torch.fx
from torch import nn

from course_lib.models import LeNet300, SmallConvNet, build

DIGITS = SimpleNamespace(shape=(1, 8, 8), classes=10)
CIFAR = SimpleNamespace(shape=(3, 32, 32), classes=7)


def test_lenet_is_the_one_of_the_papers() -> None:
    model = LeNet300(784)
    assert [name for name, _ in model.named_children()] == ["fc1", "fc2", "fc3"]
    assert sum(p.numel() for p in model.parameters()) == 266_610
    assert model(torch.rand(5, 1, 28, 28)).shape == (5, 10)


def test_lenet_has_no_hidden_relu_on_its_logits() -> None:
    assert (build("lenet300", DIGITS)(torch.rand(64, 1, 8, 8)) < 0).any()


@pytest.mark.parametrize("hidden", [(300,), (300, 100, 50)])
def test_lenet_has_two_hidden_layers(hidden: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="two hidden layers"):
        LeNet300(hidden=hidden)  # type: ignore[arg-type]


@pytest.mark.parametrize("size", [(8, 8), (12, 9), (16, 16), (28, 28), (32, 32), (32, 20)])
@pytest.mark.parametrize("widths", [(32, 32, 64, 64), (4,), (4, 5, 6, 7, 8, 9)])
def test_convnet_suits_any_size_from_8_to_32(
    size: tuple[int, int], widths: tuple[int, ...]
) -> None:
    model = SmallConvNet(3, 7, widths)
    assert model(torch.rand(2, 3, *size)).shape == (2, 7)


@pytest.mark.parametrize(
    ("size", "maps"),
    [(8, [8, 8, 4, 4]), (16, [16, 16, 8, 8]), (28, [28, 14, 7, 7]), (32, [32, 16, 8, 8])],
)
def test_convnet_keeps_its_maps_small_but_not_too_small(size: int, maps: list[int]) -> None:
    model, seen = SmallConvNet(), []
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            module.register_forward_hook(lambda _, __, out: seen.append(out.shape[-1]))
    model(torch.rand(1, 1, size, size))
    assert seen == maps


def test_convnet_names_and_biases() -> None:
    model = SmallConvNet()
    names = [name for name, _ in model.named_children()]
    assert names == ["conv1", "bn1", "conv2", "bn2", "conv3", "bn3", "conv4", "bn4", "fc"]
    # batch norm has the shift
    assert all(m.bias is None for m in model.modules() if isinstance(m, nn.Conv2d))


@pytest.mark.parametrize("widths", [(), (32, 0)])
def test_convnet_refuses_empty_layers(widths: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="widths"):
        SmallConvNet(widths=widths)


@pytest.mark.parametrize("name", ["lenet300", "convnet"])
@pytest.mark.parametrize("data", [DIGITS, CIFAR])
def test_build_fits_the_data_and_follows_the_seed(name: str, data: SimpleNamespace) -> None:
    before = torch.random.get_rng_state()
    first = build(name, data, 3).state_dict()
    assert torch.equal(torch.random.get_rng_state(), before)
    torch.rand(1)  # whatever the global state
    again, other = (build(name, data, seed).state_dict() for seed in (3, 4))
    assert all(torch.equal(first[key], again[key]) for key in first)
    assert not all(torch.equal(first[key], other[key]) for key in first)
    assert build(name, data)(torch.rand(2, *data.shape)).shape == (2, data.classes)


def test_build_names_what_there_is() -> None:
    with pytest.raises(ValueError, match='"lenet300" or "convnet"'):
        build("resnet50", DIGITS)
