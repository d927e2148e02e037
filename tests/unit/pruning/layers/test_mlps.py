"""Feed-forward parts: found, gated, scored, removed."""

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from course_lib.models import families
from course_lib.models.families import FeedForward, register
from course_lib.models.mlps import find_mlps
from course_lib.pruning.heads import explicit_attention, gated, head_importance
from course_lib.pruning.layers import gated_mlps, joint_importance, remove_mlps
from unit.small_transformers import gateable, inputs_of, model_of, outputs


def test_what_is_gated_off_in_torchvisions_transformer_is_as_if_it_were_not_there():
    """The conformance suite has the families of transformers."""
    model, inputs = gateable("torchvision vit"), inputs_of("torchvision vit")
    before, keep = outputs(model, inputs), torch.tensor([True, False, True])
    with gated_mlps(model, keep):
        off = outputs(model, inputs)
    assert not torch.allclose(off, before)
    assert torch.allclose(outputs(remove_mlps(model, keep), inputs), off, atol=1e-10)
    assert torch.equal(outputs(model, inputs), before)


def test_each_sample_has_its_own_gate_and_gradient():
    model, inputs = model_of("bert"), inputs_of("bert")
    count, size = len(find_mlps(model)), len(inputs["input_ids"])
    nu = torch.ones(count, size, dtype=torch.float64, requires_grad=True)
    with gated_mlps(model, nu):
        model(**inputs).logits[0].sum().backward()
    assert nu.grad[:, 0].abs().min() > 0 and not nu.grad[:, 1:].any()


def losses(model, batch):
    return F.cross_entropy(
        model(**batch).logits,
        torch.zeros(len(batch["input_ids"]), dtype=torch.int64),
        reduction="none",
    )


def test_importance_of_both_from_one_pass():
    model, inputs = model_of("bert").train(), inputs_of("bert")
    one = [
        {name: part[i : i + 1] for name, part in inputs.items()}
        for i in range(len(inputs["input_ids"]))
    ]
    heads, mlps = joint_importance(model, [inputs], losses)
    assert model.training and all(p.grad is None for p in model.parameters())
    assert torch.allclose(heads, head_importance(model, [inputs], losses))
    again = joint_importance(model, one, losses)
    assert torch.allclose(again[0], heads) and torch.allclose(again[1], mlps)
    # by finite differences, sample by sample
    model.eval()
    h = 1e-5
    for layer in range(len(mlps)):
        slopes = []
        for batch in one:
            values = []
            for sign in (1, -1):
                nu = torch.ones(len(mlps), dtype=torch.float64)
                nu[layer] += sign * h
                with gated_mlps(model, nu), torch.no_grad():
                    values.append(float(losses(model, batch)[0]))
            slopes.append(abs(values[0] - values[1]) / (2 * h))
        assert sum(slopes) / len(slopes) == pytest.approx(float(mlps[layer]), rel=1e-4)


def test_importance_of_what_is_left():
    model, inputs = model_of("bert"), inputs_of("bert")
    nu = torch.tensor([1.0, 0.0, 1.0], dtype=torch.float64)
    with gated(model, torch.ones(3, 4)), gated_mlps(model, nu):
        _, mlps = joint_importance(model, [inputs], losses)
    assert mlps[1] == 0 and mlps[0] > 0


def test_unknown_parts_can_be_registered(monkeypatch):
    class Mine(nn.Module):
        def __init__(self):
            super().__init__()
            self.up, self.down = nn.Linear(3, 5), nn.Linear(5, 3)

    model = nn.Sequential(Mine(), Mine())
    with pytest.raises(ValueError, match=r"register\("):
        find_mlps(model)
    monkeypatch.setattr(families, "TABLE", dict(families.TABLE))
    register(f"{Mine.__module__}.{Mine.__qualname__}", mlp=FeedForward(("up",), "down"))
    assert [mlp.out for mlp in find_mlps(model)] == ["0.down", "1.down"]
    assert [mlp.name for mlp in find_mlps(model_of("bert"))] == [
        f"bert.encoder.layer.{i}" for i in range(3)
    ]


@pytest.mark.parametrize("options", [{}, {"norm_first": True}, {"activation": "gelu"}], ids=str)
@pytest.mark.parametrize("explicit", [False, True])
def test_parts_of_torchs_own_encoder(options, explicit):
    """In evaluation torch calls one fused function there, which reads the weights."""
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(32, 4, 48, batch_first=True, **options)
    model = nn.TransformerEncoder(layer, 3).eval()
    for parameter in model.parameters():
        if parameter.ndim == 1:
            nn.init.normal_(parameter, 0, 0.3)
    model = explicit_attention(model) if explicit else model
    x = torch.randn(3, 6, 32)
    padding = torch.zeros(3, 6, dtype=torch.bool)
    padding[0, 4:] = True
    for keep in ([True, False, True], [False, True, True], [False] * 3):
        keep = torch.tensor(keep)
        zeroed = copy.deepcopy(model)
        for layer, kept in zip(zeroed.layers, keep.tolist(), strict=True):
            for parameter in layer.linear2.parameters():
                parameter.data.mul_(float(kept))
        smaller = remove_mlps(model, keep)
        for given in ({}, {"src_key_padding_mask": padding}):
            with torch.no_grad():
                expected, got = zeroed(x, **given), smaller(x, **given)
                with gated_mlps(model, keep):
                    off = model(x, **given)
            real = ~padding if given else torch.ones_like(padding)
            torch.testing.assert_close(got[real], expected[real], atol=1e-5, rtol=0)
            torch.testing.assert_close(off[real], expected[real], atol=1e-5, rtol=0)
        smaller.train()(x).sum().backward()


def test_a_part_that_is_removed_is_not_made_again_by_transformers(tmp_path):
    remove_mlps(model_of("bert"), torch.tensor([True, False, True])).save_pretrained(tmp_path)
    with pytest.raises(RuntimeError, match="(?i)size"):
        type(model_of("bert")).from_pretrained(tmp_path)
