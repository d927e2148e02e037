"""Scores that learn which weights stay: the mask, its gradient, and the block round a
model.
"""

import copy

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F

from course_lib.pruning.weights import encoder_weights, movement, sparsity
from course_lib.pruning.weights.movement import (
    TopV,
    movement_pruning,
    soft_mask,
    soft_penalty,
    top_mask,
)
from unit.small_transformers import inputs_of, model_of


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(-3, 3), min_size=0, max_size=12), st.floats(0, 1))
def test_the_largest_scores_stay(scores, keep):
    order = sorted(range(len(scores)), key=lambda i: (-scores[i], i))[: round(keep * len(scores))]
    mask = top_mask(torch.tensor(scores, dtype=torch.float32), keep)
    assert mask.tolist() == [i in order for i in range(len(scores))]


def test_the_gradient_is_unchanged():
    scores = torch.randn(4, 5, requires_grad=True)
    g = torch.randn(4, 5)
    for mask in (TopV.apply(scores, 0.3), soft_mask(scores, 0.5)):
        assert set(mask.unique().tolist()) <= {0.0, 1.0}
        (found,) = torch.autograd.grad(mask, scores, g)
        assert torch.equal(found, g)


def net():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))


NAMES = ["0.weight", "2.weight"]


def dense(model):
    """What each weight is without its mask, inside the block."""
    places = {name: model[int(name[0])].parametrizations.weight.original for name in NAMES}
    return {name: w.detach().clone() for name, w in places.items()}


@pytest.mark.parametrize("how", ["all", "each"])
def test_sgd_leaves_the_movement_in_the_scores(how):
    model = net()
    x, y = torch.randn(20, 6), torch.randint(3, (20,))
    history = {name: [] for name in NAMES}
    with movement_pruning(model, NAMES, keep=0.4, how=how) as scores:
        optimizer = torch.optim.SGD(scores.groups(model, lr=0.1, score_lr=0.5))
        for _ in range(5):
            used, before = {"0.weight": model[0].weight, "2.weight": model[2].weight}, dense(model)
            for name in NAMES:  # what is computed with is W ∘ M(S)
                assert torch.equal(used[name], before[name] * scores.masks()[name])
            hidden = F.linear(x, used["0.weight"], model[0].bias).relu()
            loss = F.cross_entropy(F.linear(hidden, used["2.weight"], model[2].bias), y)
            gradients = torch.autograd.grad(loss, list(used.values()), retain_graph=True)
            for name, g in zip(NAMES, gradients, strict=True):
                history[name].append((before[name], g))
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
        for name in NAMES:
            right = movement.movement(history[name], 0.5)
            assert torch.allclose(scores.scores[name].detach().double(), right, atol=1e-6)
        masks, trained = scores.masks(), dense(model)
    total = sum(int(m.sum()) for m in masks.values())
    assert total == (round(0.4 * 72) if how == "all" else round(0.4 * 48) + round(0.4 * 24))
    assert [n for n, _ in model.named_parameters()] == [n for n, _ in net().named_parameters()]
    for name in NAMES:
        assert torch.equal(model.get_parameter(name), trained[name] * masks[name])


def test_a_pruned_weight_comes_back():
    model = nn.Linear(2, 1, bias=False)
    with torch.no_grad():
        model.weight.copy_(torch.tensor([[1.0, 1.0]]))
    with movement_pruning(model, ["weight"], keep=0.5) as scores:
        assert scores.masks()["weight"].tolist() == [[True, False]]  # equal scores: the first stays
        optimizer = torch.optim.SGD(scores.groups(model, lr=0.0, score_lr=1.0))
        # the second input is what matters
        (model(torch.tensor([[0.0, 1.0]])) - 1).square().sum().backward()
        optimizer.step()
        assert scores.masks()["weight"].tolist() == [[False, True]]


def test_soft_thresholds_give_each_matrix_its_own_share_and_each_entry_weighs_the_same():
    model = net()
    with movement_pruning(model, NAMES, how="soft") as scores:
        assert all(mask.all() for mask in scores.masks().values())  # σ(0) = ½
        with torch.no_grad():
            scores.scores["0.weight"].fill_(-50)
        assert not scores.masks()["0.weight"].any() and scores.masks()["2.weight"].all()
        assert float(soft_penalty(list(scores.scores.values()), 2.0)) == pytest.approx(24 / 72)
    assert not model[0].weight.any()


def test_after_an_exception_nothing_is_lost():
    model = net()
    before = copy.deepcopy(model.state_dict())
    with pytest.raises(RuntimeError, match="mine"), movement_pruning(model, NAMES, keep=0.1):
        raise RuntimeError("mine")
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


@pytest.mark.parametrize("settings", [{}, {"foreach": True}, {"fused": True}])
@pytest.mark.parametrize("how", ["all", "each", "soft"])
def test_masks_follow_the_scores_whatever_the_optimizer(how, settings):
    model = net()
    with movement_pruning(model, ["0.weight"], keep=0.5, how=how) as scores:
        one = scores.scores["0.weight"]
        first = scores.masks()["0.weight"].clone()
        # fused kernels write into a tensor and leave its version as it was
        optimizer = torch.optim.SGD([one], lr=1.0, **settings)
        one.grad = torch.where(first, 9.0, -9.0)  # what stays is to go, and the other way round
        optimizer.step()
        assert torch.equal(scores.masks()["0.weight"], ~first)
    assert not model[0].weight[first].any()


class Texts(torch.utils.data.Dataset):
    """Words and labels, each drawn by its number."""

    def __len__(self) -> int:
        return 32

    def __getitem__(self, i: int) -> dict[str, torch.Tensor]:
        words = torch.randint(5, 90, (8,), generator=torch.Generator().manual_seed(i))
        return {"input_ids": words, "labels": torch.tensor(i % 2)}


@pytest.mark.parametrize("own_optimizer", [True, False])
@pytest.mark.long
def test_a_trainer_of_transformers_goes_round_it_unchanged(own_optimizer, tmp_path):
    from transformers import Trainer, TrainingArguments

    from course_lib.models.bert import small_bert

    model = small_bert(100, labels=2, layers=2, width=32, heads=4, ffn=64)
    before = {name: w.detach().clone() for name, w in encoder_weights(model).items()}
    options = {"report_to": [], "save_strategy": "no", "disable_tqdm": True, "use_cpu": True}
    args = TrainingArguments(str(tmp_path), max_steps=6, learning_rate=1e-2, **options)
    with movement_pruning(model, before, keep=0.3) as scores:
        optimizer = torch.optim.AdamW(scores.groups(model, 1e-3, 1e-2)) if own_optimizer else None
        Trainer(model, args, train_dataset=Texts(), optimizers=(optimizer, None)).train()
        masks = scores.masks()
        # of a layer that is all zeros at first nothing can move yet
        assert sum(bool(s.any()) for s in scores.scores.values()) > len(masks) / 3
    assert 1 - sparsity(masks) == pytest.approx(0.3, abs=0.001)
    after = encoder_weights(model)
    assert not any(w[~masks[name]].any() for name, w in after.items())
    assert any(not torch.equal(w, before[name] * masks[name]) for name, w in after.items())


def test_a_share_for_each_matrix():
    model = net()
    shares = {"0.weight": 0.25, "2.weight": 0.5}
    with movement_pruning(model, shares, keep=shares) as scores:
        masks = scores.masks()
        assert {name: float(m.double().mean()) for name, m in masks.items()} == shares
        shares["0.weight"] = 0.75  # said on the way, in the same mapping
        assert float(scores.masks()["0.weight"].double().mean()) == 0.75
        scores.keep = {"0.weight": 0.5}
        with pytest.raises(ValueError, match=r"keep .*'2\.weight'"):
            scores.masks()
        scores.keep = 1.0
    assert all(bool(model.get_parameter(name).all()) for name in shares)


def test_a_checkpoint_from_inside_the_block_is_the_masked_model(tmp_path):
    """huggingface/nn_pruning#5: it was written under other names, and loaded as random."""
    model, fresh = model_of("bert"), model_of("bert", seed=1)
    inputs = inputs_of("bert")
    names = [name for name, p in model.named_parameters() if name.endswith("dense.weight")]
    with movement_pruning(model, names, keep=0.4) as scores:
        for score in scores.scores.values():
            nn.init.normal_(score)
        expected = model(**inputs)[0]
        model.save_pretrained(tmp_path)
        saved = copy.deepcopy(model.state_dict())
        nn.init.zeros_(scores.scores[names[0]])
        model.load_state_dict(saved)  # on the way: scores and pruned weights come back
        assert torch.equal(model(**inputs)[0], expected)
    loaded = type(model).from_pretrained(tmp_path).eval()
    assert torch.equal(loaded(**inputs)[0], expected)
    with movement_pruning(fresh, names, keep=0.4) as scores:
        fresh.load_state_dict(saved)
        assert torch.equal(fresh(**inputs)[0], expected)
        masks = scores.masks()
        kept = {n: p for n, p in saved.items() if "scores" in n}
        fresh.load_state_dict({**model.state_dict(), **kept})  # a plain model's weights
    assert all(bool((p[~masks[n]] == 0).all()) for n, p in fresh.named_parameters() if n in masks)
    assert fresh.state_dict().keys() == model.state_dict().keys()
    assert not any(m._state_dict_hooks or m._load_state_dict_pre_hooks for m in fresh.modules())


@pytest.mark.parametrize("held", ["weights", "both", "one each"])
def test_an_optimizer_without_the_scores_is_refused(held):
    model = nn.Linear(4, 3, bias=False)
    before = torch.optim.SGD(model.parameters(), 0.1)

    def run():
        with movement_pruning(model, ["weight"], keep=0.5) as scores:
            optimizers = {
                "weights": [before],
                "both": [torch.optim.SGD(model.parameters(), 0.1)],
                "one each": [before, torch.optim.SGD(scores.scores.values(), 0.1)],
            }[held]
            model(torch.randn(5, 4)).square().sum().backward()
            for optimizer in optimizers:
                optimizer.step()

    if held == "weights":
        with pytest.raises(ValueError, match="make it inside the block"):
            run()
        assert bool((model.weight != 0).all())  # as it was trained, without zeros
    else:
        run()
        assert int((model.weight == 0).sum()) == 6
