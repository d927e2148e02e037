"""What activations, components and layers refuse, and the argument that they name."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from course_lib.models import SmallConvNet
from course_lib.models.mlps import find_mlps
from course_lib.pruning import activations, components, layers
from unit.small_transformers import inputs_of, model_of

ONES = torch.ones(2, 3)
NET, LINEAR = SmallConvNet(), nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 5))
BERT, INPUTS = model_of("bert").eval(), inputs_of("bert")
PARTS = len(find_mlps(BERT))


def losses(model, batch, reduction="none"):
    labels = torch.zeros(len(batch["input_ids"]), dtype=torch.int64)
    return F.cross_entropy(model(**batch).logits, labels, reduction=reduction)


def mean_loss(model, batch):
    return losses(model, batch, "mean")


def enter(block):
    with block:
        pytest.fail("the block was entered")


def gating(name):
    return enter(activations.gating(NET, {name: activations.ChannelGate(2, 2)}))


def prune_while(share, step):
    return layers.prune_while(lambda xi, nu: 1.0, lambda xi, nu: (xi, nu), 2, 2, share, step)


def subnetworks(scores, mask=ONES > 0):
    return layers.subnetworks(mask, ONES[0] > 0, scores, ONES[0], torch.Generator())


def run_gated(nu):
    with layers.gated_mlps(BERT, nu):
        BERT(**INPUTS)


REFUSED = [
    ("k must", lambda: activations.topk_activation(ONES, -1)),
    ("gates", lambda: activations.gated_macs([ONES], [])),
    ("names.*'conv9'", lambda: enter(activations.pruned_inputs(NET, torch.relu, ["conv9"]))),
    ("gates", lambda: gating("conv2")),
    ("gates.*'conv9'", lambda: gating("conv9->bn2")),
    ("gates.*'bn9'", lambda: gating("conv2->bn9")),
    ("rank 3", lambda: components.factorise(ONES, 3)),
    ("'1.weight'.*ranks 0 … 3", lambda: components.truncate(LINEAR, {"1.weight": 4})),
    ("'0.bias'", lambda: components.truncate(LINEAR, {"0.bias": 1})),
    ("gates.*shapes", lambda: components.size_left([], [])),
    ("target", lambda: components.Lagrangian(-0.1)),
    ("beta", lambda: components.open_probability(ONES, beta=0)),
    ("zeta", lambda: components.hard_concrete(ONES, zeta=1)),
    ("u is", lambda: components.hard_concrete(ONES, ONES)),
    ("p .*0 and 1", lambda: enter(layers.layerdrop(nn.ModuleList([NET]), 1.1, torch.Generator()))),
    ("depth 5", lambda: layers.layers_to_keep(4, 5)),
    (r"'bert.encoder'.*bert\.encoder\.layer", lambda: layers.take_layers(BERT, "bert.encoder", 1)),
    ("nu should be", lambda: run_gated(torch.ones(PARTS + 1))),
    ("nu has gates", lambda: run_gated(torch.ones(PARTS, len(INPUTS["input_ids"]) + 1))),
    ("keep", lambda: layers.remove_mlps(BERT, torch.ones(PARTS + 1, dtype=torch.bool))),
    ("keep", lambda: layers.slice_ffn(BERT, [ONES > 0])),
    ("keep", lambda: layers.slice_ffn(BERT, [torch.ones(7, dtype=torch.bool)] * PARTS)),
    ("batches", lambda: layers.joint_importance(BERT, [], losses)),
    ("one loss for each", lambda: layers.joint_importance(BERT, [INPUTS], mean_loss)),
    ("one loss for each", lambda: layers.ffn_importance(BERT, [INPUTS], lambda *of: losses(*of)[:1])),
    ("share .*0 and 1", lambda: prune_while(1.1, 0.1)),
    ("step", lambda: prune_while(0.5, 0.0)),
    ("NaN", lambda: subnetworks(ONES * torch.nan)),
    ("mask", lambda: subnetworks(ONES[:1])),
    ("nothing", lambda: layers.retrain(BERT, {"nothing": ONES}, ONES, ONES, pytest.fail)),
    ("two masks", lambda: layers.fleiss_kappa(ONES[:1])),
]  # fmt: skip


@pytest.mark.parametrize(("words", "call"), REFUSED, ids=range(len(REFUSED)))
def test_it_is_refused_by_name(words, call):
    with pytest.raises(ValueError, match=words):
        call()


def test_a_part_without_neurons_or_a_model_that_is_no_list_is_refused():
    widths = [BERT.get_submodule(mlp.out).in_features for mlp in find_mlps(BERT)]
    with pytest.raises(ValueError, match="remove_mlps"):
        layers.slice_ffn(BERT, [torch.zeros(width, dtype=torch.bool) for width in widths])
    with pytest.raises(TypeError, match=r"not a BertEncoder; in it there are layer$"):
        enter(layers.layerdrop(BERT.get_submodule("bert.encoder"), 0.5, torch.Generator()))
