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


def mixtral():
    torch.manual_seed(0)
    config = T.MixtralConfig(
        vocab_size=20,
        hidden_size=8,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=2,
        intermediate_size=12,
        num_local_experts=3,
        num_experts_per_tok=2,
    )
    return T.MixtralForCausalLM(config).eval()


RULES = {
    "2:4": lambda scores: weights.nm_masks(scores, 2, 4),
    "outputs": lambda scores: weights.per_output_masks(scores, 0.5),
    "filters": lambda scores: weights.local_masks(scores, 0.4, "filter"),
    "filters of all": lambda scores: weights.global_group_masks(scores, 0.4, "filter"),
}


@pytest.mark.parametrize("rule", RULES)
def test_gpt2_is_pruned_as_with_upright_linear_layers(rule):
    model = model_of("gpt2")
    linear = with_linears(model)
    scores = weights.magnitude(weights.prunable(model))
    some = {n: s for n, s in scores.items() if n in layouts(model)}
    assert len(some) == 4 * len(model.transformer.h)
    expected = RULES[rule](weights.magnitude({n: linear.get_parameter(n) for n in some}))
    for name, mask in RULES[rule](some).items():
        assert torch.equal(mask, expected[name].T), name
        assert mask.is_contiguous() and not mask.all()


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("flipped", [False, True])
def test_every_expert_of_a_mixture_is_a_matrix(rule, flipped):
    experts = nn.Module()
    experts.num_experts, experts.is_transposed = 3, flipped
    experts.w = nn.Parameter(torch.randn(3, 8, 12))
    (score,) = weights.magnitude(weights.prunable(experts)).values()
    rows = score.transpose(1, 2) if flipped else score  # (experts, outputs, inputs)
    (expected,) = RULES[rule]({"w": rows.flatten(0, 1)}).values()
    expected = expected.view(rows.shape)
    (mask,) = RULES[rule]({"w": score}).values()
    assert torch.equal(mask, expected.transpose(1, 2) if flipped else expected)


def test_the_fused_experts_of_a_mixture_are_not_left_out():
    model = mixtral()
    names = [f"model.layers.0.mlp.experts.{part}_proj" for part in ("gate_up", "down")]
    assert layouts(model) == dict.fromkeys(names, Layout(3, stacked=True))
    with pytest.raises(ValueError, match="gate_up_proj.*fused experts.*names"):
        weights.input_norms(model, [torch.ones(1, 3, dtype=torch.long)])
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
    x, y = torch.randn(4, 2, 3), torch.tensor([0, 1, 0, 1])
    for score in (
        weights.taylor(net, x, y)["0.weight"],
        weights.empirical_fisher(net, x, y)["0.weight"],
        weights.random(weights.prunable(net), torch.Generator().manual_seed(0))["0.weight"],
    ):
        assert weights.group_scores(score, "filter").shape == (3,)
    unknown = type("MyExperts", (nn.Module,), {})()
    unknown.w = nn.Parameter(torch.randn(3, 4, 4))
    scores = weights.magnitude(weights.prunable(unknown))
    assert weights.global_masks(scores, 0.5)["w"].shape == (3, 4, 4)
    for rule in RULES.values():
        with pytest.raises(ValueError, match="MyExperts.*not known"):
            rule(scores)
    with pytest.raises(ValueError, match="weight_ih_l0.*recurrent"):
        weights.input_norms(nn.Sequential(nn.LSTM(2, 3)), [torch.ones(1, 2)])


def gpt2_scores():
    """Of the layers' weights, on their sides; and those weights."""
    model = model_of("gpt2")
    scores = weights.magnitude(weights.prunable(model))
    return model, {name: scores[name] for name in layouts(model)}


def test_a_score_of_ones_own_is_given_its_layout():
    model, scores = gpt2_scores()
    own = {name: like(w := model.get_parameter(name), w.detach() ** 2) for name in scores}
    masks = weights.per_output_masks(own, 0.5)
    for name, mask in masks.items():  # (inputs, outputs)
        assert (mask.sum(0) == len(mask) // 2).all(), name
    weights.check(model, masks)


@pytest.mark.parametrize("rule", RULES)
def test_masks_by_the_rows_of_scores_without_a_layout_are_refused_by_the_weight(rule):
    model, scores = gpt2_scores()
    name = "transformer.h.0.attn.c_proj.weight"  # as many inputs as outputs
    masks = RULES[rule]({name: 2 * scores[name]})
    with pytest.raises(ValueError, match=r"c_proj.*outputs.*like\(weight, score\)"):
        weights.apply(model, masks)
    weights.apply(copy.deepcopy(model), RULES[rule]({name: scores[name]}))
    weights.apply(with_linears(model), masks)


def test_pruning_in_steps_goes_by_the_rows_of_the_layer():
    """What prune_rescored computes from a score keeps the layout, too."""
    model, scores = gpt2_scores()
    masks = weights.prune_rescored(model, [0.2, 0.5], lambda now: scores, granularity="filter")
    for name, mask in masks.items():
        assert name not in scores or ((~mask).any(0) == (~mask).all(0)).all(), name
