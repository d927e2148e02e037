"""The small models: the shapes that papers and checkpoints say, and weights that follow from a
seed.
"""

from types import SimpleNamespace

import pytest
import torch
from torch import nn

from course_lib.models import LeNet300, SmallConvNet, build
from course_lib.models.bert import SINUSOIDS, sinusoids, small_bert

DIGITS = SimpleNamespace(shape=(1, 8, 8), classes=10)
CIFAR = SimpleNamespace(shape=(3, 32, 32), classes=7)
BUILDERS = {
    "lenet300": lambda seed: build("lenet300", DIGITS, seed),
    "convnet": lambda seed: build("convnet", CIFAR, seed),
    "bert": lambda seed: small_bert(50, 3, layers=2, width=16, heads=4, ffn=24, seed=seed),
}


@pytest.mark.parametrize("name", BUILDERS)
def test_the_weights_follow_the_seed_and_the_global_state_stays(name: str) -> None:
    before = torch.random.get_rng_state()
    first, again, other = (BUILDERS[name](seed).state_dict() for seed in (3, 3, 4))
    assert torch.equal(torch.random.get_rng_state(), before)
    assert all(torch.equal(first[key], again[key]) for key in first)
    assert not all(torch.equal(first[key], other[key]) for key in first)


def test_lenet_is_the_one_of_the_papers() -> None:
    model = LeNet300(784)
    assert [name for name, _ in model.named_children()] == ["fc1", "fc2", "fc3"]
    assert sum(p.numel() for p in model.parameters()) == 266_610
    logits = model(torch.rand(64, 1, 28, 28))
    assert logits.shape == (64, 10) and (logits < 0).any()  # no ReLU on them


@pytest.mark.parametrize("widths", [(32, 32, 64, 64), (4,), (4, 5, 6, 7, 8, 9)])
@pytest.mark.parametrize("size", [(8, 8), (12, 9), (16, 16), (28, 28), (32, 20)])
def test_convnet_suits_any_size_from_8_to_32(size: tuple[int, int], widths: list[int]) -> None:
    assert SmallConvNet(3, 7, widths)(torch.rand(2, 3, *size)).shape == (2, 7)


@pytest.mark.parametrize(
    ("size", "maps"),
    [(8, [8, 8, 4, 4]), (16, [16, 16, 8, 8]), (28, [28, 14, 7, 7]), (32, [32, 16, 8, 8])],
)
def test_convnet_keeps_its_maps_small_but_not_too_small(size: int, maps: list[int]) -> None:
    model, seen = build("convnet", DIGITS), []
    convolutions = [m for m in model.modules() if isinstance(m, nn.Conv2d)]
    assert all(conv.bias is None for conv in convolutions)  # batch norm has the shift
    for conv in convolutions:
        conv.register_forward_hook(lambda _, __, out: seen.append(out.shape[-1]))
    model(torch.rand(1, 1, size, size))
    assert seen == maps


def test_what_cannot_be_built_is_refused() -> None:
    with pytest.raises(ValueError, match="^widths"):
        SmallConvNet(widths=(32, 0))
    with pytest.raises(ValueError, match='"lenet300" or "convnet"'):
        build("resnet50", DIGITS)


def test_the_small_bert_is_the_one_of_the_checkpoints() -> None:
    model = small_bert(positions=40)
    config = model.config
    assert (config.num_hidden_layers, config.num_attention_heads) == (4, 8)
    assert sum(p.numel() for p in model.parameters()) * 4 < 2.7e6  # bytes
    assert config.hidden_dropout_prob == config.attention_probs_dropout_prob == 0
    assert not model.training
    query = model.bert.encoder.layer[0].attention.self.query.weight
    assert query.std().item() == pytest.approx(0.05, rel=0.03)
    table = model.bert.embeddings.position_embeddings.weight
    assert table.requires_grad
    torch.testing.assert_close(table.detach(), SINUSOIDS * sinusoids(40, 128))


def test_positions_are_sinusoids() -> None:
    waves = sinusoids(40, 128)
    for column, rate in ((0, 1), (126, 10_000 ** (-126 / 128))):
        expected = torch.tensor([7 * rate, 7 * rate + torch.pi / 2]).sin()
        torch.testing.assert_close(waves[7, column : column + 2], expected)
    # a shift is the same rotation everywhere, which is what makes them good for relative positions
    torch.testing.assert_close(waves[3] @ waves[8], waves[20] @ waves[25])
