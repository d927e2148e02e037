"""Experts: against a loop over tokens, and without removed ones."""

from __future__ import annotations

import pytest
import torch

from course_lib.pruning.layers import expert_importance, route_to_kept


def test_importance_is_the_mean_over_an_experts_own_tokens() -> None:
    torch.manual_seed(0)
    logits, outputs = torch.randn(9, 5), torch.randn(5, 9, 4)
    logits[:, 3] = -100.0  # no token goes there
    gates = route_to_kept(logits, torch.ones(5).bool(), top=2)
    found = expert_importance(gates, outputs)
    for x in range(5):
        own = [float(gates[t, x] * outputs[x, t].norm()) for t in range(9) if gates[t, x] > 0]
        assert float(found[x]) == pytest.approx(sum(own) / len(own) if own else 0.0, abs=1e-6)
    assert found[3] == 0


def test_removed_experts_get_no_token() -> None:
    torch.manual_seed(0)
    logits, keep = torch.randn(20, 6), torch.tensor([True, False, True, True, False, True])
    gates = route_to_kept(logits, keep, top=2)
    torch.testing.assert_close(gates.sum(1), torch.ones(20))
    assert (gates[:, ~keep] == 0).all() and ((gates > 0).sum(1) == 2).all()
    few = route_to_kept(logits[:, keep], torch.ones(4).bool(), top=2)
    assert gates[:, keep].equal(few)
    with pytest.raises(ValueError, match="top is 5, but keep has 4 experts"):
        route_to_kept(logits, keep, top=5)
