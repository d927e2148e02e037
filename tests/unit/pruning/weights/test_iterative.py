"""Schedules rise to exactly the final sparsity; in steps masks only shrink, zeros stay zero,
and the optimizer goes on with the same parameters.
"""

import copy

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from course_lib.pruning import weights


@given(final=st.floats(0, 0.999), steps=st.integers(1, 50))
def test_schedules_are_their_equations_and_never_fall(final, steps):
    for schedule in (weights.geometric, weights.cubic):
        targets = schedule(final, steps)
        assert len(targets) == steps and targets[-1] == final
        assert all(0 <= a <= b <= 1 for a, b in zip(targets, targets[1:], strict=False))
        assert schedule(final, 1) == weights.one_shot(final)
    for t, target in enumerate(weights.cubic(final, steps), start=1):  # Zhu & Gupta's
        assert target == pytest.approx(final + (0 - final) * (1 - t / steps) ** 3, abs=1e-12)
    # the same share of the survivors: Frankle & Carbin's 20 per cent a round
    alive = [1.0] + [1 - t for t in weights.geometric(final, steps)]
    shares = [1 - b / a for a, b in zip(alive, alive[1:], strict=False)]
    assert max(shares) - min(shares) < 1e-9
    assert weights.geometric(1 - 0.8**10, 10)[:3] == pytest.approx([0.2, 0.36, 0.488])


@pytest.fixture
def model():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return nn.Sequential(
            nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 16, 6), nn.Linear(6, 3)
        )


class Training:
    """A fine-tuning with momentum that moves weights far, and remembers the zeros it
    saw at the end of each call.
    """

    def __init__(self, model, call=True):
        # made once: it must go on holding the model's parameters
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        self.call, self.zeros = call, []

    def __call__(self, model, post_step):
        generator = torch.Generator().manual_seed(len(self.zeros))
        for _ in range(3):
            self.optimizer.zero_grad()
            model(torch.randn(8, 1, 6, 6, generator=generator)).square().mean().backward()
            self.optimizer.step()
            if self.call:
                post_step()
        self.zeros.append({name: p.detach() == 0 for name, p in weights.prunable(model).items()})


def count(masks):
    return {name: int((~m).sum()) for name, m in masks.items()}


GROUPS = {"0.weight": "kernel", "3.weight": "filter", "4.weight": "element"}


@pytest.mark.parametrize("call", [True, False], ids=["calls_post_step", "forgets_post_step"])
@pytest.mark.parametrize("scope", ["local", "global"])
@pytest.mark.parametrize("granularity", ["element", GROUPS], ids=["weights", "groups"])
def test_masks_are_nested_and_zeros_hold(model, scope, call, granularity):
    parameters = [(id(p), p.data_ptr()) for p in model.parameters()]
    training = Training(model, call)
    masks = weights.prune_iteratively(
        model, [0.3, 0.5, 0.5, 0.9], training, granularity=granularity, scope=scope
    )
    for earlier, later in zip(training.zeros, training.zeros[1:], strict=False):
        assert all((earlier[k] <= later[k]).all() for k in earlier)
    assert all(torch.equal(training.zeros[-1][k], ~masks[k]) for k in masks)
    assert parameters == [(id(p), p.data_ptr()) for p in model.parameters()]
    if granularity != "element":
        for name, dims in [("0.weight", 2), ("3.weight", 1)]:
            groups = masks[name].flatten(dims)
            assert (groups.all(-1) | ~groups.any(-1)).all()
    if (scope, granularity) == ("global", "element"):
        assert sum(count(masks).values()) == round(0.9 * sum(m.numel() for m in masks.values()))
    if scope == "local":
        sizes = {k: (m.numel(), 1) for k, m in masks.items()}
        if granularity != "element":
            sizes |= {"0.weight": (4, 9), "3.weight": (6, 64)}
        assert count(masks) == {k: round(0.9 * n) * size for k, (n, size) in sizes.items()}


def test_a_living_zero_does_not_bring_a_pruned_weight_back():
    """Among zeros the lower index would be pruned first, and the pruned weight further
    on would be counted as kept.
    """
    model = nn.Linear(4, 1, bias=False)
    with torch.no_grad():
        model.weight.copy_(torch.tensor([[3.0, 2.0, 4.0, 1.0]]))

    def finetune(model, post_step):
        with torch.no_grad():
            model.weight[0, 0] = 0.0  # training happened to end there

    masks = weights.prune_iteratively(model, [0.25, 0.25], finetune)
    assert masks["weight"].tolist() == [[True, True, True, False]]
    masks = weights.prune_iteratively(model, [0.25, 0.5], finetune)
    assert masks["weight"].tolist() == [[False, True, True, False]]


def test_rescored_asks_the_model_as_it_is_and_what_is_pruned_or_left_out_stays_so(model):
    seen, output = [], model[4].weight.detach().clone()

    def score(now):
        found = {n: p.detach().clone() for n, p in weights.prunable(now).items() if n[0] != "4"}
        seen.append(found)
        chance = weights.random(found, torch.Generator().manual_seed(len(seen)))
        # NaN where pruned
        return {name: s.masked_fill(found[name] == 0, torch.nan) for name, s in chance.items()}

    before = {name: p.detach().clone() for name, p in weights.prunable(model).items()}
    masks = weights.prune_rescored(model, [0.3, 0.6, 0.9], score)
    assert list(masks) == ["0.weight", "3.weight"] and torch.equal(model[4].weight, output)
    assert len(seen) == 3 and all(torch.equal(w, before[name]) for name, w in seen[0].items())
    zeros = [{name: w == 0 for name, w in state.items()} for state in seen]
    zeros.append({name: ~m for name, m in masks.items()})
    for earlier, later, target in zip(zeros, zeros[1:], [0.3, 0.6, 0.9], strict=False):
        assert all((earlier[k] <= later[k]).all() for k in earlier)
        assert sum(int(z.sum()) for z in later.values()) == round(target * (36 + 384))
    for name, m in masks.items():
        assert torch.equal(model.get_parameter(name), before[name].masked_fill(~m, 0))


# ---- sensitivity


@pytest.mark.parametrize("fails", [False, True])
def test_one_layer_at_a_time_on_validation_data_and_the_model_comes_back(model, fails):
    seen, before = [], copy.deepcopy(model.state_dict())
    parameters = list(model.parameters())

    def evaluate(model, split):
        assert split == "validation"
        model(torch.ones(2, 1, 6, 6)).sum().backward()  # a scan by loss change may
        seen.append({n: int((w == 0).sum()) for n, w in weights.prunable(model).items()})
        if fails:
            raise OSError("the data are gone")
        return float(sum(seen[-1].values()))

    if fails:
        with pytest.raises(OSError):
            weights.sensitivity(model, evaluate, [0.9])
    else:
        # any order: each starts from the dense layer
        result = weights.sensitivity(model, evaluate, [0.5, 0.25, 1.0])
        assert result == {
            "0.weight": [18, 9, 36],
            "3.weight": [192, 96, 384],
            "4.weight": [9, 4, 18],
        }
        assert [z["3.weight"] for z in seen[:3]] == [0] * 3
        assert weights.sensitivity(model, evaluate, [])["4.weight"] == []
    assert all(torch.equal(before[k], v) for k, v in model.state_dict().items())
    assert all(a is b for a, b in zip(parameters, model.parameters(), strict=True))
