"""Norms of inputs against an explicit unfolding; masks row by row."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from course_lib.pruning import weights
from unit.small_transformers import VOCABULARY, L, inputs_of, model_of


def test_a_linear_layers_rows_have_the_norm_of_their_inputs_over_samples_and_positions():
    model = nn.Sequential(nn.Linear(5, 3), nn.ReLU(), nn.Linear(3, 2))
    batches = [torch.randn(4, 7, 5), torch.randn(2, 7, 5)]
    found = weights.input_norms(model, batches)
    x = torch.cat([b.reshape(-1, 5) for b in batches])
    torch.testing.assert_close(found["0.weight"], x.double().norm(dim=0).expand(3, 5))
    hidden = model[0](x).relu().double()
    torch.testing.assert_close(found["2.weight"], hidden.norm(dim=0).expand(2, 3))


CIRCULAR = {"padding": 1, "padding_mode": "circular"}
SETTINGS = [{}, {"stride": 2}, {"padding": 1}, {"dilation": 2}, {"groups": 2}, CIRCULAR]


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_a_convolutions_norms_by_unfolding(settings):
    conv = nn.Conv2d(4, 6, 3, **settings)
    x = torch.randn(3, 4, 9, 9)
    found = weights.input_norms(conv, [x])["weight"]
    mode = settings.get("padding_mode", "constant")
    padded = F.pad(x.double(), [settings.get("padding", 0)] * 4, mode=mode)
    how = {name: settings[name] for name in ("dilation", "stride") if name in settings}
    norm = F.unfold(padded, 3, **how).square().sum((0, 2)).sqrt().view(4, 3, 3)
    for m, ours in enumerate(found):  # (channels of the group, kernel)
        group = norm.chunk(conv.groups)[m * conv.groups // 6]
        torch.testing.assert_close(ours, group)


class Named(nn.Sequential):
    def forward(self, *, x, twice=False):
        return super().forward(x)


def test_the_score_is_the_weights_size_times_that_norm_and_dicts_are_unpacked():
    model, x = Named(nn.Linear(3, 2)).train(), torch.randn(5, 3)
    score = weights.input_aware(model, [{"x": x, "twice": True}])["0.weight"]
    size = model[0].weight.detach().double().abs()
    torch.testing.assert_close(score, size * x.double().norm(dim=0))
    assert model.training and not model[0]._forward_pre_hooks


def test_in_every_output_as_many_go():
    fc = torch.tensor([[3.0, 1.0, 2.0, 1.0], [9.0, 9.0, 9.0, 8.0]])
    masks = weights.per_output_masks({"fc": fc, "conv": torch.randn(3, 2, 2, 2).abs()}, 0.5)
    assert masks["fc"].tolist() == [[True, False, True, False], [False, True, True, False]]
    assert (masks["conv"].flatten(1).sum(1) == 4).all()


@pytest.mark.parametrize("family", ["bert", "llama", "t5", "bart"])
def test_padding_is_no_input(family):
    """The norms over texts in one padded batch are those over the texts one by one."""
    model, lengths, longest = model_of(family), (3, 5, 7), 9
    texts = [torch.randint(5, VOCABULARY, (1, n)) for n in lengths]
    padded = torch.cat([F.pad(text, (0, longest - text.shape[1]), value=1) for text in texts])
    mask = (torch.arange(longest) < torch.tensor(lengths)[:, None]).long()
    batch = {"input_ids": padded, "attention_mask": mask}
    alone = [{"input_ids": text} for text in texts]
    if model.config.is_encoder_decoder:  # texts and answers of other lengths, padded to one
        batch |= {"decoder_input_ids": padded.flip(0), "decoder_attention_mask": mask.flip(0)}
        for one, answer in zip(alone, reversed(texts), strict=True):
            one["decoder_input_ids"] = answer
    names = [n for n in weights.encoder_weights(model) if "relative" not in n]
    expected = weights.input_norms(model, alone, names)
    for name, found in weights.input_norms(model, [batch], names).items():
        torch.testing.assert_close(found, expected[name], msg=name)


def test_a_mask_that_is_not_of_texts_and_tokens_is_refused():
    batch = {**inputs_of("bert"), "attention_mask": torch.ones(2, 1, L, L)}
    with pytest.raises(ValueError, match=r"attention_mask must be \(texts, tokens\)"):
        weights.input_aware(model_of("bert"), [batch], ["bert.pooler.dense.weight"])


@pytest.mark.parametrize("worst", [torch.inf, torch.nan])
def test_inputs_that_are_no_numbers_are_refused_with_the_first_layer(worst):
    model = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 3), nn.Linear(3, 1))
    with torch.no_grad():
        model[0].bias[1] = worst
    with pytest.raises(ValueError, match="'2.weight' saw an input that is infinite or NaN"):
        weights.input_aware(model, [torch.ones(4, 2), torch.zeros(1, 2)])
