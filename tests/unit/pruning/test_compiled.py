"""Blocks that add hooks have the same effect on a model that torch.compile has run."""

import pytest
import torch
from torch import nn

from course_lib import wrapped
from course_lib.cost import model_cost
from course_lib.models import SmallConvNet
from course_lib.pruning import activations, heads, layers, tokens, weights
from unit.small_transformers import model_of

IDS = torch.arange(3, 19).reshape(2, 8)
XI = torch.tensor([[0.0, 0, 0, 1]] * 3)


def bert() -> nn.Module:
    return model_of("bert", "eager", torch.float32)


def of(model: nn.Module, name: str) -> str:
    return f"_orig_mod.{name}" if hasattr(model, "_orig_mod") else name


BLOCKS = {
    "gated": lambda m: heads.gated(m, XI),
    "gated_mlps": lambda m: layers.gated_mlps(m, torch.tensor([1.0, 0, 0])),
    "dropping": lambda m: tokens.dropping(m, {0: 0.4}),
    "cascading": lambda m: tokens.cascading(m, {0: 0.6}, {0: 2}),
    "pruned_inputs": lambda m: activations.pruned_inputs(
        m, lambda x: x * 0, [of(m, "bert.encoder.layer.1.output.dense")]
    ),
    "moving": lambda m: weights.movement_pruning(
        m, [of(m, "bert.encoder.layer.0.output.dense.weight")], keep=0.1
    ),
}


def whole(model: nn.Module) -> nn.Module:
    return torch.compile(model, backend="eager")  # type: ignore[return-value]


def in_place(model: nn.Module) -> nn.Module:
    model.compile(backend="eager")
    return model


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@pytest.mark.parametrize("compiled, blocks", [(in_place, BLOCKS), (whole, ["gated"])])
@torch.no_grad()
def test_a_block_on_a_compiled_model_does_what_it_does_on_the_plain_one(compiled, blocks):
    """One model for all blocks: compiling it takes a second."""
    plain, model = bert(), compiled(bert())
    before = model(IDS).logits
    for block in blocks:  # moving comes last: its weights are pruned after the block
        with BLOCKS[block](plain):
            expected = plain(IDS).logits
        with BLOCKS[block](model):
            assert torch.allclose(model(IDS).logits, expected, atol=1e-6), block
        assert not torch.allclose(before, expected, atol=1e-4), block
        if block != "moving":
            assert torch.equal(model(IDS).logits, before), block


@torch.no_grad()
def test_a_model_compiled_inside_the_block_keeps_no_hook_after_it():
    plain, model = bert(), bert()
    with heads.gated(model, XI):
        model = whole(model)
        gated = model(IDS).logits
    assert not torch.allclose(gated, plain(IDS).logits, atol=1e-4)
    assert torch.equal(model(IDS).logits, plain(IDS).logits)


@pytest.mark.long
def test_statistics_and_costs_of_a_compiled_model_are_those_of_the_plain_one():
    plain, model = bert(), in_place(bert())
    model(IDS)

    def loss(m, batch):
        return m(**batch).logits.square().mean(1)

    batches = [{"input_ids": IDS}]
    ours = (
        lambda m: heads.head_importance(m, batches, loss),
        lambda m: layers.joint_importance(m, batches, loss)[1],
        lambda m: layers.ffn_importance(m, batches, loss)[0],
        lambda m: weights.input_norms(m, [IDS])["classifier.weight"],
        lambda m: torch.tensor([row.nonzero_macs for row in model_cost(m, IDS)]).double(),
    )
    for measure in ours:
        assert torch.allclose(measure(model), measure(plain))


def test_channel_gates_on_a_compiled_model():
    image, net = torch.randn(2, 1, 8, 8), in_place(SmallConvNet().eval())
    before = net(image)
    gate = activations.ChannelGate(32, net.bn2.num_features)
    nn.init.constant_(gate.score.bias, -9.0)
    with activations.gating(net, {"conv2->bn2": gate}):
        assert not torch.allclose(net(image), before, atol=1e-4)


def test_nested_blocks_set_the_compiler_back_with_the_last_one():
    import torch._dynamo.eval_frame as frame

    first, second = wrapped.hold_hooks(), wrapped.hold_hooks()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)  # two threads need not leave in order
    assert frame._stance.stance == "force_eager"
    second.__exit__(None, None, None)
    assert frame._stance.stance == "default"
