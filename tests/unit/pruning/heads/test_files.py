"""A model with removed heads comes back from disk."""

import json

import pytest
import torch

from course_lib.pruning.heads import (
    explicit_attention,
    find_attention,
    kept_heads,
    load_pruned,
    remove_heads,
    save_pruned,
)
from unit.small_transformers import (
    FAMILIES,
    close,
    full_model,
    inputs_of,
    model_of,
    outputs,
    some_heads,
)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_smaller_model_comes_back_from_disk(family, tmp_path):
    model, inputs = model_of(family), inputs_of(family)
    layers = len(find_attention(explicit_attention(model)))
    smaller = remove_heads(model, some_heads(layers))
    save_pruned(smaller, tmp_path)
    assert (tmp_path / "model.safetensors").is_file()
    build = (lambda: full_model(family)) if family == "torchvision vit" else None
    loaded = load_pruned(tmp_path, build)
    assert type(loaded) is type(model) and not loaded.training
    same(loaded, smaller, inputs)
    assert kept_heads(loaded) == kept_heads(smaller)
    again = remove_heads(loaded, [torch.arange(a.heads) > 0 for a in find_attention(loaded)])
    save_pruned(again, tmp_path)  # pruned further, into the same place
    same(load_pruned(tmp_path, build), again, inputs)


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


def test_a_loaded_translator_generates_the_same(tmp_path):
    model, inputs = model_of("marian"), inputs_of("marian")
    del inputs["decoder_input_ids"]
    model.generation_config.max_new_tokens = 9
    smaller = remove_heads(model, some_heads(6))
    save_pruned(smaller, tmp_path)
    assert torch.equal(load_pruned(tmp_path).generate(**inputs), smaller.generate(**inputs))


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
