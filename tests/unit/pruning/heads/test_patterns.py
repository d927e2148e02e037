"""Maps: their classes, their change, and fixed ones in a head's place."""

import pytest
import torch

from course_lib.models.attention import find_attention
from course_lib.pruning.heads import (
    attention_change,
    attention_pattern,
    disable,
    fixed_patterns,
    frozen_attention,
    raganato,
    replaced_attention,
    uniform,
)
from unit.small_transformers import inputs_of, model_of, outputs


def test_classes():
    special = torch.tensor([True, False, False, False])
    assert attention_pattern(torch.tensor([[0.9, 0.1, 0, 0]] * 4), special) == "vertical"
    beside = torch.tensor([[0.0, 1, 0, 0], [0, 0, 1, 0], [0, 1, 0, 0], [0, 0, 1, 0]])
    assert attention_pattern(beside, special) == "diagonal"
    assert attention_pattern(0.5 * beside + 0.5 * special.float(), special) == "vertical+diagonal"
    blocks = torch.block_diag(torch.eye(2), torch.eye(2))
    none = torch.zeros(4, dtype=torch.bool)
    assert attention_pattern(blocks, none, torch.tensor([0, 0, 1, 1])) == "block"
    assert (
        attention_pattern(blocks, none)
        == attention_pattern(blocks, none, torch.zeros(4))
        == "heterogeneous"
    )


def test_change():
    mask = torch.tensor([[True, True, False]])
    one = torch.tensor([[[[1.0, 0, 9], [0, 1, 9], [9, 9, 9]]]])
    other = torch.tensor([[[[0.0, 1, 5], [1, 0, 5], [5, 5, 5]]]])
    assert attention_change(one, one, mask).item() == pytest.approx(0, abs=1e-12)
    assert attention_change(one, other, mask).item() == pytest.approx(1)


@pytest.mark.parametrize("n", [1, 2, 5, 12])
def test_fixed_patterns_are_distributions_by_place(n):
    maps = fixed_patterns(n)
    assert maps.shape == (7, n, n) and torch.allclose(maps.sum(-1), torch.ones(7, n))
    assert torch.equal(maps[0], torch.eye(n))
    mirrored = maps.flip(1, 2)
    for one, other in ((1, 2), (3, 4), (5, 6)):
        assert torch.allclose(maps[one], mirrored[other])
    if n > 3:
        assert maps[3, 3, :3].tolist() == pytest.approx([1 / 9, 8 / 9, 0])


def test_frozen_attention_is_each_sentences_own():
    learned, lengths = torch.rand(2, 4, 5, 5), torch.tensor([5, 3])
    out = frozen_attention(learned, lengths)
    assert torch.equal(out[:, -1], learned[:, -1])
    assert (
        torch.equal(out[1, 1, :3, :3], fixed_patterns(3)[1])
        and not out[1, :3, 3:].any()
        and not out[1, :3, :, 3:].any()
    )


@pytest.mark.parametrize("family", ["bert", "marian"])
def test_equal_attention_is_what_disable_computes(family):
    model, inputs = model_of(family), inputs_of(family)
    first, *rest = find_attention(model, "encoder")
    off = torch.zeros(1 + len(rest), first.heads, dtype=torch.bool)
    off[0, 1] = off[1, 2] = True
    mask = inputs["attention_mask"] > 0
    seen, value, out = {}, model.get_submodule(first.v), model.get_submodule(first.out)
    value.register_forward_hook(lambda m, args, made: seen.update(values=made))
    noted = out.register_forward_pre_hook(lambda m, args: seen.update(context=args[0]))
    plain = outputs(model, inputs)
    right = disable(seen["context"], seen["values"], mask, off[0])
    noted.remove()
    with replaced_attention(model, off, uniform, lambda: mask):
        out.register_forward_pre_hook(lambda m, args: seen.update(after=args[0]))
        outputs(model, inputs)
    torch.testing.assert_close(seen["after"], right)
    assert torch.equal(outputs(model, inputs), plain), "nothing stays behind"


def test_gradients_flow_to_the_values_and_not_to_queries():
    torch.manual_seed(0)
    model, inputs = model_of("bert").train(), inputs_of("bert")
    a = find_attention(model)[0]
    off = torch.ones(len(find_attention(model)), a.heads, dtype=torch.bool)
    mask = torch.ones_like(inputs["input_ids"]) > 0
    with replaced_attention(model, off, lambda real: raganato(real, a.heads), lambda: mask):
        model(**inputs).logits.sum().backward()
    assert model.get_submodule(a.v).weight.grad.abs().sum() > 0
    query = model.get_submodule(a.q).weight.grad
    assert query is None or query.abs().sum() == 0
