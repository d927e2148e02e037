"""Wrapped models: either they work as the model inside, or one sentence says what to pass."""

import pytest
import torch
from torch import nn
from torch.nn.utils import prune

from course_lib.cost import model_cost
from course_lib.models import SmallConvNet
from course_lib.pruning import channels, components, heads, layers, tokens, weights
from course_lib.wrapped import refuse_wrapped
from unit.small_transformers import model_of

X, Y = torch.randn(2, 1, 8, 8), torch.tensor([0, 1])


def pruned(model: nn.Module) -> nn.Module:
    for module in list(model.modules()):
        if isinstance(module, nn.Conv2d | nn.Linear):
            prune.l1_unstructured(module, "weight", 0.5)
    model.float()
    return model


def quantised(model: nn.Module) -> nn.Module:
    return torch.ao.quantization.quantize_dynamic(model, {nn.Linear}, dtype=torch.qint8)


def scripted(model: nn.Module) -> nn.Module:
    if not isinstance(model, SmallConvNet):
        return torch.jit.script(nn.Sequential(nn.Linear(2, 2)))
    return torch.jit.trace(model, X)


WRAP = {
    "parallel": (nn.DataParallel, r"\.module"),
    "compile": (lambda m: torch.compile(m, backend="eager"), "_orig_mod"),
    "script": (scripted, "made from"),
    "prune": (pruned, r"prune\.remove"),
    "quantised": (quantised, "quantised.*pass the model as it was"),
}
MASK = {"conv1": torch.arange(32) < 9}
EVERY = "parallel compile script prune quantised"
NETS = {
    "channel_groups": (lambda m: channels.channel_groups(m, X), EVERY),
    "remove_filters": (lambda m: channels.remove_filters(m, MASK, X), EVERY),
    "fold_model": (channels.fold_model, EVERY),
    "filter_norms": (channels.filter_norms, EVERY),
    "select_channels": (lambda m: channels.select_channels(m, 0.3), "script quantised"),
    "recalibrate": (lambda m: channels.recalibrate(m, X), "script quantised"),
    "l1_filters": (channels.l1_filters, "script quantised"),
    "model_cost": (lambda m: model_cost(m, X), "parallel script quantised"),
    "input_norms": (lambda m: weights.input_norms(m, [X]), "script prune quantised"),
    "taylor": (lambda m: weights.taylor(m, X, Y), "parallel script prune quantised"),
    "empirical_fisher": (lambda m: weights.empirical_fisher(m, X, Y), "parallel script quantised"),
    "prunable": (weights.prunable, "prune quantised"),
    "apply": (lambda m: weights.apply(m, {}), "prune quantised"),
}
ONES = torch.ones(3, 4)
BERT = {
    "find_attention": (heads.find_attention, "script"),
    "gated": (lambda m: heads.gated(m, ONES).__enter__(), "script"),
    "remove_heads": (lambda m: heads.remove_heads(m, ONES > 0), "script prune quantised"),
    "dropping": (lambda m: tokens.dropping(m, {0: 0.5}), "script"),
    "slice_ffn": (lambda m: layers.slice_ffn(m, []), "prune quantised"),
    "remove_mlps": (lambda m: layers.remove_mlps(m, ONES[:, 0] > 0), "script prune quantised"),
    "take_layers": (lambda m: layers.take_layers(m, "bert.encoder.layer", 2), "prune quantised"),
    "truncate": (lambda m: components.truncate(m, {}), "prune quantised"),
    "gate_components": (lambda m: components.gate_components(m, []), "prune quantised"),
}


@pytest.mark.parametrize(
    ("name", "kind"), [(n, k) for n, (_, ks) in {**NETS, **BERT}.items() for k in ks.split()]
)
def test_a_wrapped_model_is_refused_with_what_to_pass(name, kind):
    call = {**NETS, **BERT}[name][0]
    wrap, says = WRAP[kind]
    model = wrap(SmallConvNet().eval() if name in NETS else model_of("bert", dtype=torch.float32))
    with pytest.raises(ValueError, match=says):
        call(model)


@pytest.mark.parametrize(
    ("name", "kind"), [(n, k) for n, (_, ks) in NETS.items() for k in WRAP if k not in ks]
)
def test_elsewhere_a_wrapped_model_works(name, kind):
    if name == "channel_groups" or (name, kind) == ("remove_filters", "prune"):
        return  # the layers under prune are refused there by their names
    NETS[name][0](WRAP[kind][0](SmallConvNet().eval()))


def test_a_part_that_is_wrapped_is_named():
    with pytest.raises(ValueError, match="'1' of model.*DataParallel"):
        refuse_wrapped(nn.Sequential(nn.ReLU(), nn.DataParallel(nn.Linear(1, 1))))
    refuse_wrapped(nn.Sequential(nn.ReLU()))
