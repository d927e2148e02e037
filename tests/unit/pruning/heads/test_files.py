"""A pruned model comes back from disk."""

import itertools
import json

import pytest
import torch
from torch import nn

from course_lib.models.mlps import find_mlps
from course_lib.pruning.components import LowRank, gate_components, truncate
from course_lib.pruning.heads import (
    explicit_attention,
    find_attention,
    kept_heads,
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
    [
        *([way] for way in WAYS),
        *itertools.combinations(WAYS, 2),
        *(
            pytest.param(pair, marks=pytest.mark.long)
            for pair in itertools.combinations(WAYS[::-1], 2)
        ),
        WAYS,
        WAYS[::-1],
    ],
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
    assert kept_heads(loaded) == kept_heads(smaller)
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
    with pytest.raises(ValueError, match="the model has not these"):
        load_pruned(tmp_path, lambda: take_layers(encoder(), "layers", 2))


def test_tensors_of_different_precision_come_back_as_they_were(tmp_path):
    smaller = truncate(nn.Sequential(nn.Linear(4, 6), nn.Linear(6, 3)), {"1.weight": 2})
    smaller[0].bfloat16()
    save_pruned(smaller, tmp_path)
    loaded = load_pruned(tmp_path, lambda: nn.Sequential(nn.Linear(4, 6), nn.Linear(6, 3)))
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


def test_torchs_attention_inside_a_model_of_transformers_comes_back(tmp_path):
    from transformers import SiglipVisionConfig, SiglipVisionModel

    sizes = {"image_size": 8, "patch_size": 4, "num_channels": 1, "hidden_size": 32}
    sizes |= {"num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48}
    model = SiglipVisionModel(SiglipVisionConfig(**sizes)).double().eval()
    smaller = remove_heads(model, [torch.tensor([True, False, True, True])] * 3)
    save_pruned(smaller, tmp_path)
    loaded, x = load_pruned(tmp_path), torch.randn(2, 1, 8, 8, dtype=torch.float64)
    assert torch.equal(loaded(x).pooler_output, smaller(x).pooler_output)


@pytest.mark.parametrize("wrap", [nn.DataParallel, torch.compile], ids=["parallel", "compiled"])
def test_of_a_wrapped_model_the_model_inside_is_written(wrap, tmp_path):
    smaller = half_of_the_heads(model_of("bert"))
    save_pruned(wrap(smaller), tmp_path)
    same(load_pruned(tmp_path), smaller, inputs_of("bert"))


def test_what_cannot_be_built_again_is_refused_and_not_written(tmp_path):
    other = model_of("bert")
    other.bert.encoder.layer[1].intermediate.dense = nn.Sequential(nn.Linear(32, 48).double())
    wider = model_of("bert")
    wider.classifier = nn.Linear(32, 7).double()
    names = ["bert.encoder.layer.0.output.dense.weight"]
    for model, what in (
        (other, "is a Sequential, and Linear is built"),
        (wider, r"\(7, 32\), and \(2, 32\) is built"),
        (gate_components(model_of("bert"), names), "is a GatedLinear, and Linear is built"),
    ):
        with pytest.raises(ValueError, match=what):
            save_pruned(model, tmp_path / "it")
    with pytest.raises(ValueError, match="cannot be saved"):
        save_pruned(nn.Sequential(nn.Linear(2, 3)), tmp_path / "it", lambda: nn.Sequential())
    assert not (tmp_path / "it").exists()


def test_the_older_formats_are_read(tmp_path):
    heads = half_of_the_heads(model_of("bert"))
    heads.save_pretrained(tmp_path / "heads")
    kept = {name: list(kept) for name, kept in kept_heads(heads).items()}
    (tmp_path / "heads" / "kept_heads.json").write_text(
        json.dumps({"kept": kept, "explicit": False})
    )
    same(load_pruned(tmp_path / "heads"), heads, inputs_of("bert"))
    ranks = low_rank(model_of("bert"))
    ranks.save_pretrained(tmp_path / "ranks")
    note = {name: m[0].out_features for name, m in ranks.named_modules() if isinstance(m, LowRank)}
    (tmp_path / "ranks" / "ranks.json").write_text(json.dumps({"dtype": "float64", "ranks": note}))
    same(load_pruned(tmp_path / "ranks"), ranks, inputs_of("bert"))


def test_torchvisions_transformer_comes_back(tmp_path):
    model = explicit_attention(model_of("torchvision vit"))
    smaller = remove_heads(model, some_heads(len(find_attention(model))))
    save_pruned(smaller, tmp_path)
    loaded = load_pruned(tmp_path, lambda: full_model("torchvision vit"))
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


def test_from_pretrained_alone_fails_on_the_sizes(tmp_path):
    """If this passes one day, transformers knows removed heads again, and the file
    beside the weights is not needed.
    """
    from transformers import BertForSequenceClassification

    save_pruned(remove_heads(model_of("bert"), some_heads(3)), tmp_path)
    with pytest.raises(RuntimeError, match="(?i)size"):
        BertForSequenceClassification.from_pretrained(tmp_path)


def test_files_that_do_not_fit_are_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="no pruned.json in .*save_pruned"):
        load_pruned(tmp_path)
    smaller = remove_heads(model_of("bert"), some_heads(3))
    save_pruned(smaller, tmp_path)
    note = json.loads((tmp_path / "pruned.json").read_text())
    name = next(iter(note["kept"]))
    for kept in ([4], [1, 0], [0, 0]):
        changed = {"kept": note["kept"] | {name: kept}, "explicit": False}
        (tmp_path / "pruned.json").write_text(json.dumps(changed))
        with pytest.raises(ValueError, match=r"keeps heads .* the model has 4 heads there"):
            load_pruned(tmp_path)
    (tmp_path / "pruned.json").write_text(json.dumps({"kept": {"nowhere": [0]}, "explicit": False}))
    with pytest.raises(ValueError, match="'nowhere', but the model has no attention there"):
        load_pruned(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | {"architectures": ["MyOwnModel"]}))
    with pytest.raises(ValueError, match="transformers has no MyOwnModel"):
        load_pruned(tmp_path)
    save_pruned(explicit_attention(model_of("torchvision vit")), tmp_path / "vit")
    with pytest.raises(ValueError, match="holds no transformers model: pass build="):
        load_pruned(tmp_path / "vit")


def test_a_network_without_some_channels_is_not_what_build_makes(tmp_path):
    narrow, wide = nn.Sequential(nn.Linear(3, 2)), nn.Sequential(nn.Linear(3, 4))
    save_pruned(narrow, tmp_path)
    with pytest.raises(ValueError, match="What is saved: heads"):
        load_pruned(tmp_path, build=lambda: wide)
