"""MACs of whole models, as they run, against torch's own counter and by hand."""

import math
import random

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.utils import parametrize, prune
from torch.utils.flop_counter import FlopCounterMode

from course_lib.cost import (
    conv_cost,
    model_cost,
    nonzero_macs,
    peak_activation_bits,
    totals,
    transformer_macs,
)
from unit.cost.random_zeros import sparse

CONVOLUTIONS = [
    (lambda: nn.Conv1d(4, 6, 3, stride=2, padding=1), (2, 4, 9)),
    (lambda: nn.Conv1d(4, 6, 4, padding="same", dilation=3), (2, 4, 9)),
    (lambda: nn.Conv2d(3, 5, (3, 2), stride=(1, 2), padding=(2, 1)), (2, 3, 6, 7)),
    (lambda: nn.Conv2d(6, 4, 3, groups=2, dilation=2, padding=2), (2, 6, 7, 8)),
    (lambda: nn.Conv2d(6, 6, 3, groups=6, padding="same"), (1, 6, 5, 8)),
    (lambda: nn.Conv2d(3, 4, 3, padding=1, padding_mode="circular"), (2, 3, 6, 5)),
    (lambda: nn.Conv2d(3, 4, 3, padding="valid"), (3, 6, 5)),  # one image without a batch
    (lambda: nn.Conv3d(2, 4, (3, 1, 2), stride=2, padding=1, groups=2), (2, 2, 5, 4, 6)),
    (lambda: nn.ConvTranspose1d(4, 6, 3, stride=2, padding=1, output_padding=1), (2, 4, 5)),
    (
        lambda: nn.ConvTranspose2d(4, 6, (3, 2), stride=(2, 3), padding=(2, 1), groups=2),
        (2, 4, 5, 4),
    ),
    (lambda: nn.ConvTranspose2d(3, 2, 3, dilation=2, padding=3), (3, 4, 5)),
    (lambda: nn.ConvTranspose3d(2, 3, 2, stride=2, padding=1), (1, 2, 3, 2, 4)),
]


def count_by_running(layer, x):
    """With ones for all non-zeros and no bias the outputs of a layer add up to the
    number of its non-zero products.
    """
    layer.double()
    with torch.no_grad():
        weight = layer.weight.clone()
        layer.weight.copy_((weight != 0).double())
        bias = layer.bias.clone()
        layer.bias.zero_()
        total = layer((x != 0).double()).sum()
        layer.weight.copy_(weight)
        layer.bias.copy_(bias)
    layer.float()
    return round(total.item())


@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel")
@pytest.mark.parametrize(("build", "shape"), CONVOLUTIONS)
def test_convolutions_of_every_kind(build, shape):
    layer, x = build(), sparse(*shape, p=0.4)
    layer.weight.data *= sparse(*layer.weight.shape, p=0.5, seed=1) != 0
    plain, exact = model_cost(layer, x), model_cost(layer, x, inputs_too=True)
    with FlopCounterMode(display=False) as flops:
        y = layer(x)
    assert len(plain) == len(exact) == 1
    assert plain[0].macs == exact[0].macs == flops.get_total_flops() // 2
    assert plain[0].nonzero_macs * layer.weight.numel() == plain[0].macs * int(
        (layer.weight != 0).sum()
    )
    assert exact[0].nonzero_macs == count_by_running(layer, x)
    if layer.padding_mode == "zeros":  # otherwise torch makes a padded copy, and reads that
        assert plain[0].inputs == x.numel()
    assert plain[0].outputs == y.numel()
    assert (plain[0].weights, plain[0].nonzero_weights) == (
        layer.weight.numel(),
        int((layer.weight != 0).sum()),
    )


def test_a_convolution_is_what_the_formula_says():
    layer, x = nn.Conv2d(3, 5, (3, 2), stride=2, padding=1), sparse(1, 3, 6, 7)
    layer.weight.data *= sparse(5, 3, 3, 2, seed=2) != 0
    (row,) = model_cost(layer, x, bits=8)
    assert {
        key: getattr(row, key) for key in ("macs", "weight_bits", "input_bits", "output_bits")
    } == conv_cost(5, 3, 3, 2, 6, 7, stride=2, padding=1, bits=8)
    (row,) = model_cost(layer, x, inputs_too=True)
    assert row.nonzero_macs == nonzero_macs(layer.weight, x, stride=2, padding=1)


@pytest.mark.parametrize("lead", [(), (3,), (2, 3), (2, 0, 3)])
def test_linear_on_any_leading_dimensions(lead):
    layer, x = nn.Linear(4, 5), sparse(*lead, 4)
    layer.weight.data *= sparse(5, 4, seed=1) != 0
    (row,) = model_cost(layer, x, inputs_too=True)
    assert row.macs == math.prod(lead) * 20
    assert row.nonzero_macs == nonzero_macs(layer.weight, x.reshape(-1, 4))
    assert model_cost(layer, x)[0].nonzero_macs == math.prod(lead) * int((layer.weight != 0).sum())
    assert row.name == "Linear" and row.kind == "linear"


def test_lenet_by_hand():
    model = nn.Sequential(
        nn.Flatten(),
        nn.Linear(64, 300),
        nn.ReLU(),
        nn.Linear(300, 100),
        nn.ReLU(),
        nn.Linear(100, 10),
    )
    rows = model_cost(model, torch.rand(2, 1, 8, 8))
    assert [row.name for row in rows] == ["1", "3", "5"]
    assert [row.macs for row in rows] == [2 * 64 * 300, 2 * 300 * 100, 2 * 100 * 10]
    total = totals(rows)
    assert (
        total["macs"]
        == total["nonzero_macs"]
        == 2 * total["weights"]
        == 2 * (64 * 300 + 300 * 100 + 100 * 10)
    )
    assert total["weight_bits"] == 32 * total["weights"]
    assert peak_activation_bits(rows) == total["peak_activation_bits"] == 32 * 2 * (300 + 100)
    assert total["uncounted"] == []
    assert peak_activation_bits([]) == 0


def torch_counts(model, *args, **kwargs):
    """torch's own count, on the paths that it can see."""
    model.eval()
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with FlopCounterMode(display=False) as flops, torch.no_grad(), sdpa_kernel(SDPBackend.MATH):
            model(*args, **kwargs)
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)
    return flops.get_total_flops() // 2


def test_whole_models_against_torchs_counter():
    from torchvision.models import VisionTransformer, resnet18

    resnet, image = resnet18(num_classes=10), torch.randn(2, 3, 64, 64)
    rows = model_cost(resnet, image)
    assert totals(rows)["macs"] == torch_counts(resnet, image)
    assert totals(rows)["weights"] == sum(p.numel() for p in resnet.parameters() if p.ndim >= 2)
    assert totals(rows)["uncounted"] == []

    vit, image = VisionTransformer(32, 8, 2, 4, 16, 64), torch.randn(2, 3, 32, 32)
    rows = model_cost(vit, image)
    assert totals(rows)["macs"] == torch_counts(vit, image)
    assert totals(rows)["weights"] == sum(p.numel() for p in vit.parameters() if p.ndim >= 2)
    # the class token, the positions
    assert totals(rows)["uncounted"] == ["VisionTransformer", "encoder"]


ATTENTION = [
    {},
    {"bias": False},
    {"add_bias_kv": True},
    {"add_zero_attn": True},
    {"kdim": 6, "vdim": 10},
]


@pytest.mark.parametrize("options", ATTENTION)
@pytest.mark.parametrize("need_weights", [True, False])
def test_attention_of_every_kind(options, need_weights):
    attention = nn.MultiheadAttention(8, 2, batch_first=True, **options)
    B, L, S = 3, 5, 4
    query = torch.randn(B, L, 8)
    key, value = (
        torch.randn(B, S, options.get("kdim", 8)),
        torch.randn(B, S, options.get("vdim", 8)),
    )
    inputs = {"query": query, "key": key, "value": value, "need_weights": need_weights}
    rows = [row for row in model_cost(attention, inputs) if row.counted]
    name = "MultiheadAttention"
    assert [row.name for row in rows] == [
        f"{name}.{part}" for part in ("q_proj", "k_proj", "v_proj", "scores", "context", "out_proj")
    ]
    assert sum(row.macs for row in rows) == torch_counts(attention, **inputs)
    S += bool(options.get("add_bias_kv")) + bool(options.get("add_zero_attn"))
    assert [row.macs for row in rows if row.kind == "attention"] == [B * L * S * 8] * 2
    assert rows[3].outputs == B * 2 * L * S
    assert all(row.nonzero_macs == row.macs for row in rows)
    exact = [row for row in model_cost(attention, inputs, inputs_too=True) if row.counted]
    zeros = B * L * 8 if options.get("add_zero_attn") else 0  # the added key and value are zero
    assert [row.macs - row.nonzero_macs for row in exact] == [0, 0, 0, zeros, zeros, 0]


def test_attention_without_a_batch_and_sequence_first():
    attention = nn.MultiheadAttention(8, 2)
    x = torch.randn(5, 8)
    assert [row.macs for row in model_cost(attention, (x, x, x))] == [320, 320, 320, 200, 200, 320]
    x = torch.randn(5, 3, 8)
    assert [row.macs for row in model_cost(attention, (x, x, x))] == [960, 960, 960, 600, 600, 960]


def test_what_attention_does_not_look_at_is_not_multiplied():
    L, B, E = 4, 2, 8
    attention, x = nn.MultiheadAttention(E, 2, batch_first=True), torch.randn(B, L, E)
    causal = nn.Transformer.generate_square_subsequent_mask(L)
    inputs = {"query": x, "key": x, "value": x, "attn_mask": causal}
    by_name = {
        row.name.split(".")[1]: row for row in model_cost(attention, inputs, inputs_too=True)
    }
    assert by_name["scores"].nonzero_macs == by_name["scores"].macs == B * L * L * E
    assert by_name["context"].nonzero_macs == B * E * L * (L + 1) // 2
    padded = torch.tensor([[False] * 4, [False, False, True, True]])
    inputs = {"query": x, "key": x, "value": x, "key_padding_mask": padded}
    by_name = {
        row.name.split(".")[1]: row for row in model_cost(attention, inputs, inputs_too=True)
    }
    assert by_name["context"].nonzero_macs == E * L * (4 + 2)
    empty = x.clone()
    empty[:, 1] = 0
    by_name = {
        row.name.split(".")[1]: row for row in model_cost(attention, (empty, x, x), inputs_too=True)
    }
    assert by_name["q_proj"].nonzero_macs == by_name["q_proj"].macs * 3 // 4


def test_a_pruned_head_saves_its_products():
    """Rows of the packed projection that are zero make zero keys: the scores of that
    head have nothing to multiply.
    """
    attention, x = nn.MultiheadAttention(8, 2, bias=False, batch_first=True), torch.randn(1, 3, 8)
    mask = torch.ones(24, 8, dtype=torch.bool)
    mask[8:12] = False  # the keys of the first head
    rows = {
        row.name.split(".")[1]: row
        for row in model_cost(attention, (x, x, x), {"in_proj_weight": mask}, inputs_too=True)
    }
    assert rows["k_proj"].nonzero_weights == 32 and rows["q_proj"].nonzero_weights == 64
    assert rows["scores"].nonzero_macs == rows["scores"].macs // 2
    assert not any(row.repeated for row in rows.values())
    assert totals(list(rows.values()))["weights"] == 4 * 64


class Functional(nn.Module):
    """Layers without modules, as many models have them."""

    def __init__(self):
        super().__init__()
        self.a = nn.Parameter(sparse(6, 4))
        self.b = nn.Parameter(sparse(6, 5))
        self.c = nn.Parameter(sparse(5, 7))

    def forward(self, x):  # (B, L, 4)
        x = F.linear(x, self.a)  # (B, L, 6)
        x = x @ self.b  # (B, L, 5)
        return torch.einsum("blc,cd->bld", x, self.c)


def test_layers_written_with_functions():
    model, x = Functional(), sparse(2, 3, 4)
    rows = model_cost(model, x, inputs_too=True)
    assert [row.kind for row in rows] == ["linear", "matmul", "einsum"]
    assert [row.macs for row in rows] == [6 * 24, 6 * 30, 6 * 35]
    assert [row.weights for row in rows] == [24, 30, 35]
    assert [row.inputs for row in rows] == [24, 36, 30] and [row.outputs for row in rows] == [
        36,
        30,
        42,
    ]
    after_a = F.linear(x, model.a)
    exact = [
        nonzero_macs(model.a, x.view(6, 4)),
        nonzero_macs(model.b.t(), after_a.view(6, 6)),
        nonzero_macs(model.c.t(), (after_a @ model.b).view(6, 5)),
    ]
    assert [row.nonzero_macs for row in rows] == exact
    assert [row.nonzero_macs for row in model_cost(model, x)] == [
        6 * int((w != 0).sum()) for w in model.parameters()
    ]


class Call(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *args):
        return self.function(*args)


A, B_ = sparse(2, 3, 4), sparse(2, 4, 5, seed=1)
BOTH = int(((A != 0).double() @ (B_ != 0).double()).sum())


@pytest.mark.parametrize(
    "function",
    [
        torch.matmul,
        torch.bmm,
        lambda a, b: a @ b,
        lambda a, b: a.matmul(b),
        lambda a, b: torch.matmul(input=a, other=b),
        lambda a, b: torch.baddbmm(torch.zeros(2, 3, 5), a, b),
        lambda a, b: torch.zeros(2, 3, 5).baddbmm(a, b, beta=0.5),
        lambda a, b: torch.addbmm(torch.zeros(3, 5), a, b),
        lambda a, b: torch.einsum("bij,bjk->bik", a, b),
        lambda a, b: torch.einsum("bij, bjk", [a, b]),
        lambda a, b: torch.stack([torch.mm(*pair) for pair in zip(a, b, strict=True)]),
        lambda a, b: torch.stack(
            [torch.addmm(torch.zeros(5), *pair) for pair in zip(a, b, strict=True)]
        ),
        lambda a, b: torch.stack(
            [m.mv(column) for m, n in zip(a, b, strict=True) for column in n.t()]
        ),
        lambda a, b: torch.stack([row @ n for m, n in zip(a, b, strict=True) for row in m]),
    ],
)
def test_products_of_two_activations(function):
    rows = model_cost(Call(function), (A, B_), inputs_too=True)
    assert sum(row.macs for row in rows) == 2 * 3 * 4 * 5
    assert sum(row.nonzero_macs for row in rows) == BOTH
    assert sum(row.nonzero_macs for row in model_cost(Call(function), (A, B_))) == 2 * 3 * 4 * 5
    assert all(row.weights == 0 and row.counted for row in rows)


def test_broadcast_products():
    rows = model_cost(Call(torch.matmul), (sparse(2, 1, 3, 4), sparse(5, 4, 6)), inputs_too=True)
    assert rows[0].macs == 2 * 5 * 3 * 4 * 6
    by_hand = (sparse(2, 1, 3, 4) != 0).double() @ (sparse(5, 4, 6) != 0).double()
    assert rows[0].nonzero_macs == int(by_hand.sum())


@pytest.mark.parametrize("options", [{}, {"is_causal": True}])
def test_scaled_dot_product_attention(options):
    q, k, v = torch.randn(2, 4, 5, 8), torch.randn(2, 4, 5, 8), torch.randn(2, 4, 5, 3)
    rows = model_cost(
        Call(lambda *x: F.scaled_dot_product_attention(*x, **options)), (q, k, v), inputs_too=True
    )
    assert [row.macs for row in rows] == [8 * 25 * 8, 8 * 25 * 3]
    pairs = 15 if options else 25
    assert [row.nonzero_macs for row in rows] == [8 * 25 * 8, 8 * pairs * 3]


def test_grouped_query_attention_multiplies_for_every_query_head():
    q, k, v = torch.randn(2, 6, 5, 8), torch.randn(2, 2, 7, 8), torch.randn(2, 2, 7, 8)
    rows = model_cost(
        Call(lambda *x: F.scaled_dot_product_attention(*x, enable_gqa=True)),
        (q, k, v),
        inputs_too=True,
    )
    assert (
        [row.macs for row in rows] == [row.nonzero_macs for row in rows] == [2 * 6 * 5 * 7 * 8] * 2
    )


def test_products_that_cannot_be_counted_are_listed():
    rows = model_cost(Call(lambda a, b: torch.einsum("...ij,...jk->...ik", a, b)), (A, B_))
    assert [(row.kind, row.counted) for row in rows] == [("einsum", False)]
    assert model_cost(Call(lambda a: torch.einsum("bij->bji", a)), A) == []


def test_masks_count_like_zeros():
    model = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(64, 5))
    x = sparse(2, 3, 4, 4)
    masks = {"0.weight": sparse(4, 3, 3, 3, seed=1) != 0, "3.weight": sparse(5, 64, seed=2) != 0}
    before = {name: value.clone() for name, value in model.state_dict().items()}
    parameters = list(map(id, model.parameters()))
    masked = [model_cost(model, x, masks, inputs_too=exact) for exact in (False, True)]
    assert parameters == list(map(id, model.parameters()))
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    with torch.no_grad():
        for name, mask in masks.items():
            model.get_parameter(name).mul_(mask)
    assert masked == [model_cost(model, x, inputs_too=exact) for exact in (False, True)]
    assert masked[0][0].nonzero_macs == 2 * 16 * int(masks["0.weight"].sum())


def test_a_nan_under_a_mask_is_pruned():
    layer = nn.Linear(3, 1)
    layer.weight.data = torch.tensor([[math.nan, 1.0, 0.0]])
    (row,) = model_cost(layer, torch.ones(1, 3), {"weight": torch.tensor([[False, True, True]])})
    assert row.nonzero_weights == row.nonzero_macs == 1


@pytest.mark.parametrize(
    ("masks", "message"),
    [
        ({"nothing": torch.ones(2, 3, dtype=torch.bool)}, "no parameter 'nothing'"),
        ({"weight": torch.ones(3, 2, dtype=torch.bool)}, r"\(3, 2\), its parameter \(2, 3\)"),
        ({"weight": torch.ones(2, 3)}, "must be bool"),
    ],
)
def test_masks_that_do_not_fit(masks, message):
    with pytest.raises(ValueError, match=message):
        model_cost(nn.Linear(3, 2), torch.ones(1, 3), masks)


def test_a_module_called_twice_works_twice_and_is_stored_once():
    layer = nn.Linear(4, 4)
    rows = model_cost(nn.Sequential(layer, nn.ReLU(), layer), torch.ones(3, 4))
    assert [(row.name, row.repeated) for row in rows] == [("0", False), ("0", True)]
    total = totals(rows)
    assert (total["macs"], total["weights"]) == (2 * 3 * 16, 16)


def test_tied_weights_are_stored_once_and_masked_together():
    model = nn.Sequential(nn.Embedding(5, 4), nn.Linear(4, 5, bias=False))
    model[1].weight = model[0].weight
    mask = torch.rand(5, 4) > 0.5
    for name in ("0.weight", "1.weight"):
        rows = model_cost(model, torch.tensor([[1, 2]]), {name: mask})
        assert [(row.kind, row.macs, row.repeated) for row in rows] == [
            ("embedding", 0, False),
            ("linear", 40, True),
        ]
        assert {row.nonzero_weights for row in rows} == {int(mask.sum())}
        assert totals(rows)["weights"] == 20
    both = model_cost(model, torch.tensor([[1, 2]]), {"0.weight": mask, "1.weight": ~mask})
    assert totals(both)["nonzero_weights"] == 0


def test_weights_that_are_computed():
    pruned = prune.random_unstructured(nn.Linear(10, 10), "weight", amount=0.3)
    (row,) = model_cost(nn.Sequential(pruned), torch.ones(2, 10))
    assert (row.weights, row.nonzero_weights, row.nonzero_macs) == (100, 70, 140)

    class Keep(nn.Module):
        def forward(self, weight):
            return weight * (torch.arange(10) < 4)

    layer = nn.Linear(10, 10)
    parametrize.register_parametrization(layer, "weight", Keep())
    (row,) = model_cost(nn.Sequential(layer), torch.ones(2, 10))
    assert (row.weights, row.nonzero_weights) == (100, 40)


class Unknown(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(4))

    def forward(self, x):
        return x * self.scale


def test_what_cannot_be_counted_is_listed():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.position = nn.Parameter(torch.zeros(1, 3, 4))
            self.norm = nn.LayerNorm(4)
            self.scale = Unknown()
            self.recurrent = nn.LSTM(4, 5, batch_first=True)
            self.head = nn.Linear(5, 2)
            self.spare = nn.Linear(5, 3)  # never called
            self.tail = nn.Sequential(nn.ReLU())
            # of a module with children: a bias like any other
            self.tail.bias = nn.Parameter(torch.zeros(2))

        def forward(self, x):
            return (
                self.tail(self.head(self.recurrent(self.scale(self.norm(x + self.position)))[0]))
                + self.tail.bias
            )

    rows = model_cost(Model(), torch.ones(2, 3, 4))
    assert [(row.name, row.kind, row.weights) for row in rows if not row.counted] == [
        ("Model", "Model", 12),
        ("scale", "Unknown", 0),
        ("recurrent", "LSTM", 20 * 4 + 20 * 5),
        ("spare", "Linear", 15),
    ]
    assert [row.name for row in rows if row.counted] == ["head"]
    assert totals(rows)["uncounted"] == ["Model", "scale", "recurrent", "spare"]
    assert all(row.macs == row.nonzero_macs == 0 for row in rows if not row.counted)


def hooks_of(model):
    return [
        (
            len(m._forward_hooks),
            len(m._forward_pre_hooks),
            len(m._forward_hooks_always_called),
            m.training,
        )
        for m in model.modules()
    ]


class Raises(nn.Module):
    def forward(self, x):
        raise RuntimeError("in the middle")


@pytest.mark.parametrize("fails", [False, True])
def test_the_model_is_left_as_it_was(fails):
    model = nn.Sequential(
        nn.Conv2d(3, 4, 3),
        nn.BatchNorm2d(4),
        nn.Dropout(),
        nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), Raises() if fails else nn.Identity()),
        nn.Linear(4, 2),
    )
    model.train()
    model[1].eval()  # a mixture of modes must come back too
    model[0].register_forward_hook(lambda *_: None)
    before, parameters = hooks_of(model), [(id(p), p.requires_grad) for p in model.parameters()]
    state = {name: value.clone() for name, value in model.state_dict().items()}
    random_state, fused = torch.get_rng_state(), torch.backends.mha.get_fastpath_enabled()
    masks = {"0.weight": sparse(4, 3, 3, 3) != 0}
    if fails:
        with pytest.raises(RuntimeError, match="in the middle"):
            model_cost(model, torch.ones(2, 3, 8, 8), masks)
    else:
        assert [row.name for row in model_cost(model, torch.ones(2, 3, 8, 8), masks)] == ["0", "4"]
    assert hooks_of(model) == before
    assert [(id(p), p.requires_grad) for p in model.parameters()] == parameters
    assert all(torch.equal(value, state[name]) for name, value in model.state_dict().items())
    assert torch.equal(torch.get_rng_state(), random_state)
    assert torch.backends.mha.get_fastpath_enabled() == fused
    assert torch.is_grad_enabled()
    # and the next count starts afresh
    assert model_cost(nn.Linear(2, 2), torch.ones(1, 2))[0].name == "Linear"


def test_a_failure_that_the_model_catches_does_not_shift_the_names():
    class Tries(nn.Module):
        def __init__(self):
            super().__init__()
            self.bad, self.good = Raises(), nn.Linear(2, 2)
            self.own = nn.Parameter(torch.ones(2, 2))

        def forward(self, x):
            try:
                self.bad(x)
            except RuntimeError:
                return F.linear(self.good(x), self.own)

    assert [row.name for row in model_cost(Tries(), torch.ones(1, 2))] == ["good", "Tries"]


def test_the_fused_encoder_is_counted_too():
    """In eval mode torch runs an encoder layer as one function, with padding masks even
    on nested tensors.
    """
    encoder = nn.TransformerEncoder(
        nn.TransformerEncoderLayer(8, 2, 32, batch_first=True), 2
    ).eval()
    x, padding = torch.randn(3, 5, 8), torch.zeros(3, 5, dtype=torch.bool)
    padding[0, 3:] = True
    rows = model_cost(encoder, {"src": x, "src_key_padding_mask": padding})
    assert totals(rows)["macs"] == 2 * transformer_macs(3, 5, 8, 2)["total"]
    assert totals(rows)["weights"] == sum(p.numel() for p in encoder.parameters() if p.ndim >= 2)


def test_random_models_count_every_matrix_once():
    """Whatever is stacked: the weights of all rows together are the model's parameters
    of two or more dimensions.
    """
    rng = random.Random(0)
    for _ in range(20):
        width, layers = 4, []
        for _ in range(rng.randint(1, 5)):
            kind = rng.choice(["conv", "norm", "depthwise", "again", "transposed"])
            if kind == "again" and layers:
                layers.append(layers[0])
            elif kind == "norm":
                layers.append(nn.BatchNorm2d(width))
            elif kind == "transposed":
                layers.append(nn.ConvTranspose2d(width, width, 3, padding=1))
            else:
                layers.append(
                    nn.Conv2d(
                        width, width, 3, padding=1, groups=width if kind == "depthwise" else 1
                    )
                )
        model = nn.Sequential(*layers)
        rows = model_cost(model, torch.randn(1, width, 4, 4))
        assert totals(rows)["weights"] == sum(p.numel() for p in model.parameters() if p.ndim >= 2)
        assert totals(rows)["macs"] == torch_counts(model, torch.randn(1, width, 4, 4))
