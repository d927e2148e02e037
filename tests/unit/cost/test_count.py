"""MACs of whole models, as they run, against torch's own counter and by hand."""

from contextlib import nullcontext

import pytest
import torch
import torch.nn.functional as F
import torchvision
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.utils import parametrize, prune
from torch.utils.flop_counter import FlopCounterMode

from course_lib.cost import model_cost, totals, transformer_macs
from unit.cost.random_zeros import sparse

LAYERS = [
    (lambda: nn.Conv1d(4, 6, 4, padding="same", dilation=3), (2, 4, 9)),
    (lambda: nn.Conv2d(6, 4, (3, 2), stride=(1, 2), groups=2, padding=(2, 1)), (2, 6, 7, 8)),
    (lambda: nn.Conv2d(6, 6, 3, groups=6, padding="same"), (1, 6, 5, 8)),
    (lambda: nn.Conv2d(3, 4, 3, padding=1, padding_mode="circular"), (2, 3, 6, 5)),
    (lambda: nn.Conv2d(3, 4, 3, padding="valid"), (3, 6, 5)),  # one image without a batch
    (lambda: nn.Conv3d(2, 4, (3, 1, 2), stride=2, padding=1, groups=2), (2, 2, 5, 4, 6)),
    (lambda: nn.ConvTranspose1d(4, 6, 3, stride=2, padding=1, output_padding=1), (2, 4, 5)),
    (lambda: nn.ConvTranspose2d(4, 6, (3, 2), (2, 3), padding=(2, 1), groups=2), (2, 4, 5, 4)),
    (lambda: nn.ConvTranspose3d(2, 3, 2, stride=2, padding=1), (1, 2, 3, 2, 4)),
    *((lambda: nn.Linear(4, 5), (*lead, 4)) for lead in [(), (3,), (2, 3)]),
    (lambda: nn.Linear(4, 5, bias=False), (2, 0, 3, 4)),
]


@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel")
@pytest.mark.parametrize(("build", "shape"), LAYERS)
def test_layers_of_every_kind(build, shape):
    layer, x = build(), torch.randn(*shape)
    layer.weight.data *= sparse(*layer.weight.shape, p=0.5, seed=1) != 0
    (row,) = model_cost(layer, x)
    with FlopCounterMode(display=False) as flops:
        layer(x)
    nonzero = int((layer.weight != 0).sum())
    assert row.macs == flops.get_total_flops() // 2 and (row.macs > 0) == (x.numel() > 0)
    assert row.nonzero_macs * layer.weight.numel() == row.macs * nonzero
    assert (row.weights, row.nonzero_weights) == (layer.weight.numel(), nonzero)


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
    image = torch.randn(2, 3, 32, 32)
    # not counted: the class token, the positions
    vit = torchvision.models.VisionTransformer(32, 8, 2, 4, 16, 64)
    for model, uncounted in (
        (torchvision.models.resnet18(num_classes=10), []),
        (vit, ["VisionTransformer", "encoder"]),
    ):
        total = totals(model_cost(model, image))
        assert total["macs"] == torch_counts(model, image)
        assert total["weights"] == sum(p.numel() for p in model.parameters() if p.ndim >= 2)
        assert total["uncounted"] == uncounted


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
        *(f"{name}.{part}" for part in ("q_proj", "k_proj", "v_proj", "out_proj")),
        name,
    ]
    assert sum(row.macs for row in rows) == torch_counts(attention, **inputs)
    S += bool(options.get("add_bias_kv")) + bool(options.get("add_zero_attn"))
    assert rows[-1].macs == 2 * B * L * S * 8
    assert all(row.nonzero_macs == row.macs for row in rows)


def test_the_parts_of_a_packed_projection_have_rows_of_their_own():
    attention, x = nn.MultiheadAttention(8, 2, bias=False, batch_first=True), torch.randn(1, 3, 8)
    with torch.no_grad():
        attention.in_proj_weight[8:12] = 0  # the keys of the first head
    rows = {row.name.rpartition(".")[2]: row for row in model_cost(attention, (x, x, x))}
    assert rows["k_proj"].nonzero_weights == 32 and rows["q_proj"].nonzero_weights == 64
    assert rows["k_proj"].nonzero_macs == rows["k_proj"].macs // 2 == 96
    assert not any(row.repeated for row in rows.values())
    assert totals(list(rows.values()))["weights"] == 4 * 64


def test_layers_written_with_functions():
    class Functional(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b, self.c = (nn.Parameter(sparse(*s)) for s in ((6, 4), (6, 5), (5, 7)))

        def forward(self, x):  # (B, L, 4)
            return torch.einsum("blc,cd->bld", F.linear(x, self.a) @ self.b, self.c)

    model = Functional()
    rows = model_cost(model, sparse(2, 3, 4))
    assert [row.kind for row in rows] == ["linear", "matmul", "einsum"]
    for row, weight in zip(rows, model.parameters(), strict=True):
        assert (row.macs, row.weights) == (6 * weight.numel(), weight.numel())
        assert row.nonzero_macs == 6 * int((weight != 0).sum())


class Call(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *args):
        return self.function(*args)


A, B_ = torch.randn(2, 3, 4), torch.randn(2, 4, 5)


@pytest.mark.parametrize(
    "function",
    [
        lambda a, b: torch.matmul(input=a, other=b),
        lambda a, b: torch.zeros(2, 3, 5).baddbmm(a, b, beta=0.5),
        lambda a, b: torch.addbmm(torch.zeros(3, 5), a, b),
        lambda a, b: torch.einsum("...ij,...jk->...ik", a, b),
        lambda a, b: [m.mv(c) for m, n in zip(a, b, strict=True) for c in n.t()],
        lambda a, b: [torch.zeros(3).addmv(m, c) for m, n in zip(a, b, strict=True) for c in n.t()],
        lambda a, b: [r @ c for m, n in zip(a, b, strict=True) for r in m for c in n.t()],
    ],
)
def test_products_of_two_activations(function):
    rows = model_cost(Call(function), (A, B_))
    assert sum(row.macs for row in rows) == 2 * 3 * 4 * 5
    assert all(row.nonzero_macs == row.macs and row.weights == 0 and row.counted for row in rows)


@pytest.mark.parametrize("options", [{}, {"is_causal": True}, {"enable_gqa": True}])
def test_scaled_dot_product_attention(options):
    shared = 2 if "enable_gqa" in options else 4  # every query head multiplies all the same
    q, k, v = torch.randn(2, 4, 5, 8), torch.randn(2, shared, 5, 8), torch.randn(2, shared, 5, 3)
    model = Call(lambda *x: F.scaled_dot_product_attention(*x, **options))
    (row,) = model_cost(model, (q, k, v))
    assert row.macs == row.nonzero_macs == 8 * 25 * 8 + 8 * 25 * 3


@pytest.mark.parametrize("around", [torch.no_grad, torch.inference_mode, torch.enable_grad])
def test_the_mode_outside_does_not_matter(around):
    class Expands(nn.Linear):
        def forward(self, x):  # a view of a parameter goes into a module
            return F.linear(nn.Identity()(self.bias.expand(2, -1)), self.weight)

    with around():
        (row,) = model_cost(Expands(3, 3), torch.ones(2, 3))
    assert row.macs == 18


def test_a_product_of_two_parameters_is_listed_as_not_counted():
    class Factors(nn.Module):
        def __init__(self):
            super().__init__()
            self.p, self.q = nn.Parameter(torch.ones(3, 2)), nn.Parameter(torch.ones(2, 4))

        def forward(self, x):
            return x * (self.p @ self.q).sum()

    (row,) = model_cost(Factors(), torch.ones(1, 4))
    assert (row.macs, row.weights, row.counted) == (0, 14, False)


def test_weights_that_are_used_twice_are_stored_once():
    tied = nn.Sequential(nn.Embedding(5, 4), nn.Linear(4, 5, bias=False))
    tied[1].weight = tied[0].weight
    tied[0].weight.data *= sparse(5, 4) != 0
    layer = nn.Linear(4, 4)
    twice = nn.Sequential(layer, nn.ReLU(), layer)
    for model, x, macs in (
        (tied, torch.tensor([[1, 2]]), [0, 40]),
        (twice, torch.ones(3, 4), [48, 48]),
    ):
        rows = model_cost(model, x)
        assert [(row.macs, row.repeated) for row in rows] == list(
            zip(macs, (False, True), strict=True)
        )
        total = totals(rows)
        assert (total["macs"], total["weights"]) == (sum(macs), model[0].weight.numel())
        assert total["nonzero_weights"] == int((model[0].weight != 0).sum())


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


def test_what_cannot_be_counted_is_listed():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.position = nn.Parameter(torch.zeros(1, 3, 4))
            self.norm = nn.LayerNorm((3, 4))
            self.recurrent = nn.LSTM(4, 5, batch_first=True)
            self.head = nn.Linear(5, 2)
            self.spare = nn.Linear(5, 3)  # never called
            self.scale = nn.Parameter(torch.zeros(2))  # a vector

        def forward(self, x):
            return self.head(self.recurrent(self.norm(x + self.position))[0]) * self.scale

    *counted, position, recurrent, spare = model_cost(Model(), torch.ones(2, 3, 4))
    assert [row.name for row in counted] == ["head"] and counted[0].counted
    for row, kind, weights in (
        (position, "Model", 12),
        (recurrent, "LSTM", 180),
        (spare, "Linear", 15),
    ):
        assert (row.kind, row.macs, row.weights, row.counted) == (kind, 0, weights, False)
    assert totals([*counted, spare])["uncounted"] == ["spare"]


class Raises(nn.Module):
    def forward(self, x):
        raise RuntimeError("in the middle")


@pytest.mark.parametrize("fails", [False, True])
def test_the_model_is_left_as_it_was(fails):
    end = Raises() if fails else nn.Identity()
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Dropout(), end)
    model.train()
    model[1].eval()  # a mixture of modes must come back too
    model[0].register_forward_hook(lambda *_: None)

    def state():
        hooks = [(len(m._forward_hooks), len(m._forward_pre_hooks)) for m in model.modules()]
        return (hooks, [m.training for m in model.modules()], torch.is_grad_enabled(),
            [(id(p), p.requires_grad) for p in model.parameters()], model[1].running_mean.tolist(),
            torch.get_rng_state().tolist())  # fmt: skip

    before = state()
    with pytest.raises(RuntimeError, match="in the middle") if fails else nullcontext():
        assert [row.name for row in model_cost(model, torch.ones(2, 3, 8, 8))] == ["0"]
    assert state() == before
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
