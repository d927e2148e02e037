"""Gates that learn to close, and heads by kind."""

import math

import pytest
import torch
from torch import nn

from course_lib.pruning.components import hard_concrete
from course_lib.pruning.heads import prunable_share, prune_by_kind, train_with_gates


def test_a_gate_that_helps_stays_open_and_others_close():
    torch.manual_seed(0)
    model, log_alpha = nn.Linear(1, 1), torch.full((3,), 1.0, requires_grad=True)
    optimizer = torch.optim.Adam(
        [{"params": model.parameters(), "lr": 0.0}, {"params": [log_alpha], "lr": 0.1}]
    )

    def loss(net, batch, gates):
        assert net.training
        return 4 * (1 - gates[0]).square()

    model.eval()
    counts = train_with_gates(
        model, log_alpha, range(150), loss, 0.1, optimizer, torch.Generator().manual_seed(0)
    )
    assert not model.training and len(counts) == 150 and counts[-1] < 1.3 < counts[0]
    gates = hard_concrete(log_alpha.detach())
    assert gates[0] > 0.9 and (gates[1:] == 0).all()
    with pytest.raises(ValueError, match="lam"):
        train_with_gates(model, log_alpha, [], loss, -1.0, optimizer, torch.Generator())


def test_by_kind():
    scores = {
        "encoder": torch.tensor([[1.0, 5], [2, 6]]),
        "decoder": torch.tensor([[3.0, math.nan]]),
        "cross": torch.tensor([[4.0, math.inf]]),
    }
    found = prune_by_kind(scores, "encoder", 0.5)
    assert found["encoder"].tolist() == [[False, True], [False, True]]
    assert found["decoder"].tolist() == [[True, False]] and found["cross"].all()
    every = prune_by_kind(scores, "all", 1.0)
    assert not any(mask.any() for mask in every.values())
    assert int(sum(m.sum() for m in prune_by_kind(scores, "all", 0.5).values())) == 7 - round(
        0.5 * 7
    )
    for kind, fraction, names in (("both", 0.5, "kind"), ("all", 1.5, "fraction")):
        with pytest.raises(ValueError, match=names):
            prune_by_kind(scores, kind, fraction)


def test_prunable_share():
    assert prunable_share([(0, 80.0), (0.2, 75.0), (0.4, 60.0), (0.6, 79.0)]) == 0.2
    assert prunable_share([(0, 80.0), (0.2, 10.0)]) == 0.0
    for bad in ([], [(0.1, 5.0)], [(0, 5.0), (0, 4.0)]):
        with pytest.raises(ValueError, match="rise strictly"):
            prunable_share(bad)
