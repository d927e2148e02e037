"""Good, random and bad subnetworks, and agreement."""

import pytest
import torch
from sklearn.metrics import cohen_kappa_score

from course_lib.models.mlps import mlp_outputs
from course_lib.pruning.layers import (
    fleiss_kappa,
    overlap,
    prune_while,
    retrain,
    subnetworks,
)
from unit.small_transformers import inputs_of, model_of


def test_rounds_by_the_importance_of_what_is_left():
    heads_score = torch.tensor([[5.0, 1.0, 4.0], [2.0, 3.0, 6.0]])
    asked = []

    def importance(xi, nu):
        asked.append((xi.clone(), nu.clone()))
        xi[:], nu[:] = False, False  # masks of their own
        return heads_score * asked[-1][0] * (-1 if len(asked) == 2 else 1), torch.tensor([2.0, 1.0])

    steps = prune_while(lambda xi, nu: float(xi.sum()), importance, 2, 3, share=0.5, step=0.2)
    assert [int(xi.sum()) for xi, _, _ in steps] == [s for *_, s in steps] == [6, 5, 4, 3]
    assert [int(nu.sum()) for _, nu, _ in steps] == [2, 2, 1, 1]
    assert len(asked) == 4  # the round that fails was asked for, too
    assert not steps[1][0][0, 1]
    # turned round in the second: now the 6 goes, and what is gone stays gone
    assert not steps[2][0][1, 2] and not steps[2][0][0, 1]
    assert not steps[2][1][1]


def test_until_nothing_is_left():
    steps = prune_while(
        lambda xi, nu: 1.0, lambda xi, nu: (torch.rand(2, 2), torch.rand(2)), 2, 2, step=0.5
    )
    assert not steps[-1][0].any() and not steps[-1][1].any() and len(steps) == 3


@pytest.mark.parametrize("seed", range(8))
def test_three_of_one_size(seed):
    g = torch.Generator().manual_seed(seed)
    shapes = ((3, 4), (3,))
    masks = [torch.rand(shape, generator=g) < 0.6 for shape in shapes]
    scores = [torch.rand(shape, generator=g) for shape in shapes]
    found = subnetworks(*masks, *scores, torch.Generator().manual_seed(7))
    again = torch.Generator().manual_seed(7)
    for i, (mask, score) in enumerate(zip(masks, scores, strict=True)):
        n, kept = mask.numel(), int(mask.sum())
        worst = sorted(range(n), key=lambda i: (bool(mask.flatten()[i]), float(score.flatten()[i])))
        chance = torch.randperm(n, generator=again).tolist()
        assert torch.equal(found["good"][i], mask)
        for name, order in (("random", chance), ("bad", worst)):
            assert found[name][i].flatten().nonzero().flatten().tolist() == sorted(order[:kept])


def test_retraining_starts_from_the_weights_given_with_only_the_subnetwork_on():
    model, inputs = model_of("bert"), inputs_of("bert")
    pretrained = {
        name: torch.randn_like(p) for name, p in model.named_parameters() if ".layer." in name
    }
    seen = []

    def train(net):
        assert all(torch.equal(net.get_parameter(n), value) for n, value in pretrained.items())
        # hooks run in the order in which they were made: this one sees the gated output
        out = mlp_outputs(net)[1]
        hook = out.register_forward_hook(lambda m, i, made: seen.append(bool(made.any())))
        net(**inputs).logits.sum().backward()
        hook.remove()
        assert not out.weight.grad.any()

    nu = torch.tensor([True, False, True])
    assert retrain(model, pretrained, torch.ones(3, 4, dtype=torch.bool), nu, train) is None
    assert seen == [False]


def test_agreement():
    g = torch.Generator().manual_seed(0)
    a, b = (torch.rand(60, generator=g) < 0.5 for _ in range(2))
    assert overlap(a, b) == (int((a & b).sum()), int(a.sum()) * int(b.sum()) / 60)
    assert fleiss_kappa(torch.stack([a, a, a])) == pytest.approx(1)
    assert abs(fleiss_kappa(torch.rand(4, 4000, generator=g) < 0.3)) < 0.03
    # of two raters with the same share it is Cohen's
    c = a[torch.randperm(60, generator=g)]
    cohen = cohen_kappa_score(a.numpy(), c.numpy())
    assert fleiss_kappa(torch.stack([a, c])) == pytest.approx(cohen)
    assert fleiss_kappa(torch.ones(3, 5, dtype=torch.bool)) == 1.0
