"""Rows, filters and neighbours are those of the layer, wherever its weight keeps its
outputs and inputs.
"""

import copy

import pytest
import torch
import transformers as T
from torch import nn

from course_lib.models.conv1d import with_linears
from course_lib.models.layouts import Layout, layouts, like
from course_lib.pruning import weights
from unit.small_transformers import model_of

RULES = {
    "2:4": lambda scores: weights.nm_masks(scores, 2, 4),
    "outputs": lambda scores: weights.per_output_masks(scores, 0.5),
    "filters": lambda scores: weights.local_masks(scores, 0.4, "filter"),
    "filters of all": lambda scores: weights.global_masks(scores, 0.4, "filter"),
}


def gpt2_scores():
    """Of the layers' weights, on their sides; and the model."""
    model = model_of("gpt2")
    scores = weights.magnitude(weights.prunable(model))
    return model, {name: scores[name] for name in layouts(model)}


@pytest.mark.parametrize("rule", RULES)
def test_gpt2_is_pruned_as_with_upright_linear_layers(rule):
    model, scores = gpt2_scores()
    linear = with_linears(model)
    assert len(scores) == 4 * len(model.transformer.h)
    expected = RULES[rule](weights.magnitude({n: linear.get_parameter(n) for n in scores}))
    for name, mask in RULES[rule](scores).items():
        assert torch.equal(mask, expected[name].T), name
        assert mask.is_contiguous() and not mask.all()


@pytest.mark.parametrize("rule", RULES)
def test_every_expert_of_a_mixture_is_a_matrix(rule):
    experts = nn.Module()
    experts.w = nn.Parameter(torch.randn(3, 8, 12))
    for experts.num_experts, experts.is_transposed in ((3, False), (3, True)):
        (score,) = weights.magnitude(weights.prunable(experts)).values()
        rows = score.transpose(1, 2) if experts.is_transposed else score
        (expected,) = RULES[rule]({"w": rows.flatten(0, 1)}).values()
        expected = expected.view(rows.shape)  # (experts, outputs, inputs)
        (mask,) = RULES[rule]({"w": score}).values()
        assert torch.equal(mask, expected.transpose(1, 2) if experts.is_transposed else expected)


def test_what_has_no_inputs_seen_is_not_left_out_silently():
    sizes = {"hidden_size": 8, "num_attention_heads": 2, "intermediate_size": 12}
    config = T.MixtralConfig(vocab_size=20, num_hidden_layers=1, num_local_experts=3, **sizes)
    model = T.MixtralForCausalLM(config)
    names = [f"model.layers.0.mlp.experts.{part}_proj" for part in ("gate_up", "down")]
    assert layouts(model) == dict.fromkeys(names, Layout(3, stacked=True))
    with pytest.raises(ValueError, match="names .*gate_up_proj"):
        weights.input_norms(model, [torch.ones(1, 3, dtype=torch.long)])
    with pytest.raises(ValueError, match="names .*'0'"):
        weights.input_norms(nn.Sequential(nn.LSTM(2, 3)), [torch.ones(1, 2)])
    bert = model_of("bert")
    bert.bert.encoder.layer[0].experts = model.model.layers[0].mlp.experts
    assert "bert.encoder.layer.0.experts.down_proj" in weights.encoder_weights(bert)


@pytest.mark.parametrize("groups", [1, 2])
def test_a_filter_of_a_transposed_convolution_makes_one_output(groups):
    layer = nn.ConvTranspose2d(4, 6, 3, groups=groups, bias=False)
    (score,) = weights.magnitude(weights.prunable(layer)).values()
    (mask,) = weights.local_masks({"weight": score}, 1 / 6, "filter").values()
    weights.apply(layer, {"weight": mask})
    silent = (layer(torch.ones(1, 4, 5, 5)) == 0).flatten(2).all(2)
    per_output = score.unflatten(0, (groups, -1)).sum((1, 3, 4)).flatten()
    assert silent[0].nonzero().flatten().tolist() == [int(per_output.argmin())]
    assert weights.group_scores(score, "kernel").shape == (6, 4 // groups)


def test_criteria_carry_the_layout_and_an_unknown_one_is_refused():
    net = nn.Sequential(nn.ConvTranspose1d(2, 3, 2), nn.Flatten(), nn.Linear(12, 2))
    given = net, torch.randn(4, 2, 3), torch.tensor([0, 1, 0, 1])
    chance = weights.random(weights.prunable(net), torch.Generator().manual_seed(0))
    for scores in (weights.taylor(*given), weights.empirical_fisher(*given), chance):
        assert weights.group_scores(scores["0.weight"], "filter").shape == (3,)
    unknown = type("MyExperts", (nn.Module,), {})()
    unknown.w = nn.Parameter(torch.randn(3, 4, 4))
    scores = weights.magnitude(weights.prunable(unknown))
    assert weights.global_masks(scores, 0.5)["w"].shape == (3, 4, 4)
    for rule in RULES.values():
        with pytest.raises(ValueError, match="MyExperts.*not known"):
            rule(scores)


@pytest.mark.parametrize("rule", RULES)
def test_a_score_of_ones_own_is_given_its_layout_or_its_rows_are_refused_by_the_weight(rule):
    model, scores = gpt2_scores()
    name = "transformer.h.0.attn.c_proj.weight"  # as many inputs as outputs
    masks = RULES[rule]({name: 2 * scores[name]})
    with pytest.raises(ValueError, match=r"c_proj.*outputs.*like\(weight, score\)"):
        weights.apply(model, masks)
    weights.apply(with_linears(model), masks)
    weights.apply(copy.deepcopy(model), RULES[rule]({name: scores[name]}))
    own = like(model.get_parameter(name), 2 * scores[name])
    weights.apply(copy.deepcopy(model), RULES[rule]({name: own}))


def test_pruning_in_steps_goes_by_the_rows_of_the_layer():
    """What prune_rescored computes from a score keeps the layout, too."""
    model, scores = gpt2_scores()
    masks = weights.prune_rescored(model, [0.2, 0.5], lambda now: scores, granularity="filter")
    for name, mask in masks.items():
        assert ((~mask).any(0) == (~mask).all(0)).all(), name
