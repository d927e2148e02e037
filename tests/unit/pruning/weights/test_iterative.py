"""Iterative pruning: masks only shrink, zeros stay zero, the optimizer goes on with the
same parameters.
"""

import pytest
import torch
from torch import nn

from course_lib.pruning import weights


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

    def __init__(self, model, make=lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9), call=True):
        # made once: it must go on holding the model's parameters
        self.optimizer = make(model.parameters())
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


@pytest.mark.parametrize("call", [True, False], ids=["calls_post_step", "forgets_post_step"])
@pytest.mark.parametrize("scope", ["local", "global"])
@pytest.mark.parametrize(
    "make",
    [
        lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
        lambda p: torch.optim.Adam(p, lr=0.05),
        lambda p: torch.optim.AdamW(p, lr=0.05, weight_decay=0.1),
    ],
    ids=["sgd", "adam", "adamw"],
)
def test_masks_are_nested_and_zeros_hold(model, scope, call, make):
    parameters, storage = list(model.parameters()), [p.data_ptr() for p in model.parameters()]
    training = Training(model, make, call)
    masks = weights.prune_iteratively(model, weights.cubic(0.9, 4), training, scope=scope)
    for earlier, later in zip(training.zeros, training.zeros[1:], strict=False):
        assert all((earlier[k] <= later[k]).all() for k in earlier)
    assert all(torch.equal(training.zeros[-1][k], ~masks[k]) for k in masks)
    assert all(a is b for a, b in zip(parameters, model.parameters(), strict=True))
    assert storage == [p.data_ptr() for p in model.parameters()]
    n = sum(m.numel() for m in masks.values())
    if scope == "global":
        assert sum(count(masks).values()) == round(0.9 * n)
    else:
        assert count(masks) == {k: round(0.9 * m.numel()) for k, m in masks.items()}


@pytest.mark.parametrize("scope", ["local", "global"])
def test_groups_stay_whole_over_the_steps(model, scope):
    granularity = {"0.weight": "kernel", "3.weight": "filter", "4.weight": "element"}
    training = Training(model)
    masks = weights.prune_iteratively(
        model, [0.3, 0.5, 0.5], training, granularity=granularity, scope=scope
    )
    for name, dims in [("0.weight", 2), ("3.weight", 1)]:
        groups = masks[name].flatten(dims)
        assert (groups.all(-1) | ~groups.any(-1)).all()
    for earlier, later in zip(training.zeros, training.zeros[1:], strict=False):
        assert all((earlier[k] <= later[k]).all() for k in earlier)
    if scope == "local":
        assert count(masks) == {"0.weight": 2 * 9, "3.weight": 3 * 64, "4.weight": 9}


def test_a_living_zero_does_not_bring_a_pruned_weight_back():
    """Among zeros the lower index would be pruned first, and the pruned weight further
    on would be counted as kept.
    """
    model = nn.Linear(4, 1, bias=False)
    with torch.no_grad():
        model.weight.copy_(torch.tensor([[3.0, 2.0, 4.0, 1.0]]))
    seen = []

    def finetune(model, post_step):
        with torch.no_grad():
            model.weight[0, 0] = 0.0  # training happened to end there
        seen.append(model.weight.detach().clone())

    masks = weights.prune_iteratively(model, [0.25, 0.25], finetune)
    assert masks["weight"].tolist() == [[True, True, True, False]]
    masks = weights.prune_iteratively(model, [0.25, 0.5], finetune)
    assert masks["weight"].tolist() == [[False, True, True, False]]


def test_other_scores_may_leave_layers_out(model):
    generator = torch.Generator().manual_seed(0)
    output = model[4].weight.detach().clone()

    def score(given):
        return weights.random({k: w for k, w in given.items() if k != "4.weight"}, generator)

    training = Training(model, make=lambda p: torch.optim.SGD(p, lr=0.0))
    masks = weights.prune_iteratively(model, [0.5, 0.8], training, score=score)
    assert list(masks) == ["0.weight", "3.weight"] and weights.sparsity(masks) == pytest.approx(
        0.8, abs=0.01
    )
    assert torch.equal(model[4].weight, output)
    assert all((training.zeros[0][k] <= ~masks[k]).all() for k in masks)


def test_rescored_asks_the_model_as_it_is_and_what_is_pruned_stays_so(model):
    seen = []

    def score(now):
        seen.append({name: p.detach().clone() for name, p in weights.prunable(now).items()})
        generator = torch.Generator().manual_seed(len(seen))
        scores = {
            name: torch.randn(p.shape, generator=generator)
            for name, p in weights.prunable(now).items()
        }
        # NaN where pruned
        return {name: s.masked_fill(seen[-1][name] == 0, torch.nan) for name, s in scores.items()}

    before = {name: p.detach().clone() for name, p in weights.prunable(model).items()}
    masks = weights.prune_rescored(model, [0.3, 0.6, 0.9], score)
    assert len(seen) == 3 and all(torch.equal(seen[0][name], w) for name, w in before.items())
    zeros = [{name: w == 0 for name, w in state.items()} for state in seen] + [
        {name: ~m for name, m in masks.items()}
    ]
    total = sum(m.numel() for m in masks.values())
    for (earlier, later), target in zip(
        zip(zeros, zeros[1:], strict=False), [0.3, 0.6, 0.9], strict=True
    ):
        assert all((earlier[k] <= later[k]).all() for k in earlier)
        assert sum(int(z.sum()) for z in later.values()) == round(target * total)
    for name, p in weights.prunable(model).items():
        assert torch.equal(p.detach(), before[name].masked_fill(~masks[name], 0))
