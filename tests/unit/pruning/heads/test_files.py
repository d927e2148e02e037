"""A pruned model comes back from disk."""

import itertools
import json
from functools import partial

import pytest
import torch
from torch import nn
from torch.nn.utils import prune

from course_lib.models.mlps import find_mlps
from course_lib.pruning.channels import fold_model, remove_filters
from course_lib.pruning.components import gate_components, truncate
from course_lib.pruning.heads import (
    explicit_attention,
    find_attention,
    load_pruned,
    remove_heads,
    save_pruned,
)
from course_lib.pruning.layers import remove_mlps, slice_ffn, take_layers
from unit.small_transformers import (
    close,
    full_model,
    inputs_of,
    model_of,
    outputs,
    some_heads,
)


def half_of_the_heads(model):
    return remove_heads(model, [torch.arange(a.heads) % 2 == 0 for a in find_attention(model)])


def third_of_the_neurons(model):
    widths = [model.get_submodule(mlp.out).in_features for mlp in find_mlps(model)]
    return slice_ffn(model, [torch.arange(width) % 3 == 0 for width in widths])


def without_a_part(model):
    return remove_mlps(model, torch.arange(len(find_mlps(model))) != 1)


def two_layers(model):
    return take_layers(model, "bert.encoder.layer", 2)


def low_rank(model):
    names = [f"bert.encoder.layer.0.{part}.weight" for part in PARTS]
    return truncate(model, {name: i for i, name in enumerate(names)})


PARTS = ("output.dense", "attention.self.key", "attention.output.dense", "intermediate.dense")
WAYS = [half_of_the_heads, third_of_the_neurons, without_a_part, two_layers, low_rank]


@pytest.mark.parametrize(
    "ways",
    [[way] for way in WAYS] + [*itertools.permutations(WAYS, 2)][::3] + [WAYS, WAYS[::-1]],
    ids=lambda ways: ", ".join(way.__name__ for way in ways),
)
def test_what_was_pruned_in_any_ways_and_order_comes_back(ways, tmp_path):
    smaller = model_of("bert")
    for way in ways:
        smaller = way(smaller)
    save_pruned(smaller, tmp_path)
    loaded = load_pruned(tmp_path)
    assert type(loaded) is type(smaller) and not loaded.training
    same(loaded, smaller, inputs_of("bert"))
    again = half_of_the_heads(loaded)
    save_pruned(again, tmp_path)  # pruned further, into the same place
    same(load_pruned(tmp_path), again, inputs_of("bert"))


def encoder():
    layer = nn.TransformerEncoderLayer(32, 4, 48, batch_first=True)
    return nn.TransformerEncoder(layer, 4)


def test_a_model_without_a_configuration_comes_back_from_what_builds_it(tmp_path):
    x = torch.randn(3, 6, 32)
    model = encoder().eval()
    keep = torch.tensor([[True, False, True, True]] * 4)
    keep[2] = False
    smaller = take_layers(remove_heads(model, keep), "layers", 2)
    smaller = remove_mlps(
        slice_ffn(smaller, [torch.arange(48) < 20] * 2), torch.tensor([True, False])
    )
    smaller = truncate(smaller, {"layers.0.linear2.weight": 3})
    save_pruned(smaller, tmp_path, encoder)
    loaded = load_pruned(tmp_path, encoder)
    torch.testing.assert_close(loaded.state_dict(), smaller.state_dict(), rtol=0, atol=0)
    torch.testing.assert_close(loaded(x), smaller(x))
    with pytest.raises(ValueError, match="'layers', and nothing is built"):
        load_pruned(tmp_path, lambda: nn.Linear(2, 3))


def two_linears():
    return nn.Sequential(nn.Linear(4, 6), nn.Linear(6, 3))


def test_tensors_of_different_precision_come_back_as_they_were(tmp_path):
    smaller = truncate(two_linears(), {"1.weight": 2})
    smaller[0].bfloat16()
    save_pruned(smaller, tmp_path, two_linears)
    loaded = load_pruned(tmp_path, two_linears)
    for name, value in smaller.state_dict().items():
        assert loaded.state_dict()[name].dtype == value.dtype
        assert torch.equal(loaded.state_dict()[name], value)


class Own(nn.Module):
    """A model of one's own round one of transformers, whose configuration lists layers."""

    def __init__(self):
        from transformers import Gemma3TextConfig, Gemma3TextModel

        super().__init__()
        kinds = ["full_attention", "sliding_attention"] * 2
        sizes = {"vocab_size": 50, "hidden_size": 32, "num_hidden_layers": 4, "head_dim": 8}
        sizes |= {"num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 48}
        self.body = Gemma3TextModel(
            Gemma3TextConfig(**sizes, layer_types=kinds, sliding_window=3, pad_token_id=0)
        )
        self.head = nn.Linear(32, 2)

    def forward(self, ids):
        return self.head(self.body(ids)[0][:, -1])


def test_a_model_of_ones_own_round_one_of_transformers_comes_back(tmp_path):
    ids = torch.randint(3, 50, (2, 9))
    smaller = half_of_the_heads(take_layers(Own().eval(), "body.layers", 2))
    save_pruned(smaller, tmp_path, Own)
    loaded = load_pruned(tmp_path, Own)
    assert torch.equal(loaded(ids), smaller(ids))
    assert loaded.body.config.layer_types == ["full_attention"] * 2  # layers 0 and 2


def test_what_cannot_be_built_again_is_refused_and_not_written(tmp_path):
    other, own = model_of("bert"), model_of("bert")
    other.bert.encoder.layer[1].intermediate.dense = nn.Sequential(nn.Linear(32, 48).double())
    own.bert.pooler.forward = lambda x: x[:, 0]
    names = ["bert.encoder.layer.0.output.dense.weight"]
    for model, what in (
        (other, "Sequential, and .*Linear is built"),
        (own, "'bert.pooler' .* its own forward"),
        (gate_components(model_of("bert"), names), "GatedLinear, and .*Linear is built"),
    ):
        with pytest.raises(ValueError, match=what):
            save_pruned(model, tmp_path / "it")
    with pytest.raises(ValueError, match="'1' is nothing, and .*Linear is built"):
        save_pruned(nn.Sequential(nn.Linear(4, 6)), tmp_path / "it", two_linears)
    masked = model_of("bert")
    prune.random_unstructured(masked.bert.pooler.dense, "weight", 0.5)
    with pytest.raises(ValueError, match=r"'bert.pooler.dense'.*call prune\.remove"):
        save_pruned(masked, tmp_path / "it")
    assert not (tmp_path / "it").exists()


def convolutions():
    return nn.Sequential(
        *(nn.Conv2d(1, 6, 3), nn.BatchNorm2d(6), nn.ReLU(), nn.Conv2d(6, 5, 3)),
        *(nn.Flatten(), nn.Linear(80, 3)),
    )


def test_fewer_channels_and_folded_norms_come_back(tmp_path):
    torch.manual_seed(0)
    x, model = torch.randn(2, 1, 8, 8), convolutions().eval()
    masks = {"0": torch.arange(6) % 2 == 0, "3": torch.arange(5) != 1}
    smaller, _ = remove_filters(model, masks, x)
    with pytest.raises(ValueError, match="build is needed, since .* a Sequential"):
        save_pruned(smaller, tmp_path / "it")
    assert not (tmp_path / "it").exists()
    for network in (smaller, fold_model(smaller)[0]):
        save_pruned(network, tmp_path, convolutions)
        loaded = load_pruned(tmp_path, convolutions)
        assert [(m.in_channels, m.out_channels) for m in loaded if hasattr(m, "kernel_size")] == [
            (1, 3),
            (3, 4),
        ]
        assert torch.equal(loaded(x), network(x))


class Halves(nn.Module):
    """What it computes stands in attributes: a word, and the sizes of two halves."""

    def __init__(self):
        super().__init__()
        self.first, self.mode, self.sizes = nn.Linear(3, 8), "sum", [4, 4]

    def forward(self, x):
        one, other = self.first(x).split(self.sizes, 1)
        return one.sum(1) + (1 if self.mode == "sum" else -1) * other.sum(1)


def test_what_a_module_keeps_in_plain_attributes_comes_back(tmp_path):
    model, x = Halves(), torch.randn(2, 3)
    model.mode, model.sizes = "difference", [3, 5]
    save_pruned(model, tmp_path, Halves)
    loaded = load_pruned(tmp_path, Halves)
    assert torch.equal(loaded(x), model(x)) and isinstance(loaded.sizes, list)


def test_a_shared_matrix_is_still_one_after_loading(tmp_path):
    """GPT-2's embeddings are its output layer, also where a cut made them smaller."""

    def build():
        net = nn.Sequential(nn.Linear(4, 6), nn.Linear(4, 6))
        net[1].weight = net[0].weight
        return net

    apart = build()
    apart[1].weight = nn.Parameter(torch.randn(6, 4))
    with pytest.raises(ValueError, match="0.weight and 1.weight' is nothing, and one tensor"):
        save_pruned(apart, tmp_path, build)
    smaller = build()
    smaller[0].weight.data = smaller[0].weight.data[:5].clone()
    smaller[0].bias.data, smaller[1].bias.data = torch.randn(5), torch.randn(5)
    smaller[0].out_features = smaller[1].out_features = 5
    save_pruned(smaller, tmp_path, build)
    loaded = load_pruned(tmp_path, build)
    assert loaded[0].weight is loaded[1].weight
    x = torch.randn(2, 4)
    assert all(torch.equal(mine(x), its(x)) for mine, its in zip(loaded, smaller, strict=True))


def test_a_model_of_a_gguf_file_comes_back_after_pruning(tmp_path):
    """transformers marks it as quantised, though its weights are plain by now."""
    quantizer = pytest.importorskip("transformers.quantizers.quantizer_gguf")
    from transformers.utils.quantization_config import GgufConfig

    model = model_of("llama")
    model.config.quantization_config = GgufConfig(gguf_file="m.gguf", dequantize=True)
    model.hf_quantizer = quantizer.GgufHfQuantizer(model.config.quantization_config)
    model.is_quantized = True
    smaller = take_layers(half_of_the_heads(model), "model.layers", 2)
    save_pruned(smaller, tmp_path)
    loaded = load_pruned(tmp_path)
    same(loaded, smaller, inputs_of("llama"))
    assert smaller.is_quantized and not hasattr(loaded, "is_quantized")
    assert not hasattr(loaded.config, "quantization_config")


def test_layers_that_were_taken_are_read_by_from_pretrained(tmp_path):
    from transformers import BertForSequenceClassification

    smaller = take_layers(model_of("bert"), "bert.encoder.layer", [0, 2])
    save_pruned(smaller, tmp_path)
    loaded, found = BertForSequenceClassification.from_pretrained(
        tmp_path, output_loading_info=True
    )
    assert not any(found.values())
    same(loaded.eval(), smaller, inputs_of("bert"))


def test_torchvisions_transformer_comes_back(tmp_path):
    model = explicit_attention(model_of("torchvision vit"))
    smaller = remove_heads(model, some_heads(len(find_attention(model))))
    save_pruned(smaller, tmp_path, partial(full_model, "torchvision vit"))
    loaded = load_pruned(tmp_path, partial(full_model, "torchvision vit"))
    same(loaded, smaller, inputs_of("torchvision vit"))


def same(one, other, inputs):
    """Every weight bit by bit; of outputs the last bit depends on where a tensor lies
    in memory.
    """
    assert one.state_dict().keys() == other.state_dict().keys()
    assert all(
        torch.equal(value, other.state_dict()[name]) for name, value in one.state_dict().items()
    )
    close(outputs(one, inputs), outputs(other, inputs), atol=1e-12)


def test_a_model_with_all_heads_is_stored_as_well_and_may_be_loaded_by_its_class(tmp_path):
    from transformers import BertForSequenceClassification

    model, inputs = model_of("bert", "eager"), inputs_of("bert")
    save_pruned(model, tmp_path)
    loaded = load_pruned(
        tmp_path, BertForSequenceClassification, attn_implementation="eager", dtype=torch.float32
    )
    assert loaded.config._attn_implementation == "eager" and loaded.dtype == torch.float32
    close(outputs(loaded, inputs), outputs(model, inputs).float(), atol=1e-4)


def test_files_that_do_not_fit_are_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="no pruned.json in .*save_pruned"):
        load_pruned(tmp_path)
    save_pruned(two_linears(), tmp_path, two_linears)
    with pytest.raises(ValueError, match="build is needed, since"):
        load_pruned(tmp_path)
    with pytest.raises(ValueError, match=r"'0.weight' is .*\(6, 4\) in it, and .*\(6, 5\)"):
        load_pruned(tmp_path, lambda: nn.Sequential(nn.Linear(5, 6), nn.Linear(6, 3)))
    with pytest.raises(ValueError, match=r"'2.bias' is missing in it"):
        load_pruned(tmp_path, lambda: two_linears().append(nn.Linear(3, 1)))
    with pytest.raises(ValueError, match=r"'1.bias' is .* in it, and nothing"):
        load_pruned(tmp_path, lambda: two_linears()[:1])
    save_pruned(model_of("bert"), tmp_path)
    note = json.loads((tmp_path / "pruned.json").read_text())
    (tmp_path / "pruned.json").write_text(json.dumps(note | {"class": "MyOwnModel"}))
    with pytest.raises(ValueError, match="transformers has no MyOwnModel"):
        load_pruned(tmp_path)
