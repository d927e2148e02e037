"""Grouping and combining columns against the rule written out, and what holds of every
packing.
"""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from course_lib.pruning.weights import combine_columns, group_columns, utilisation


def written_out(weight, size, gamma):
    """The greedy rule, over and over from the columns themselves."""
    rows = (weight != 0).tolist()
    count = (weight != 0).sum(0).tolist()
    groups = []
    for c in sorted((c for c in range(len(count)) if count[c]), key=lambda c: -count[c]):
        fitting = []
        for g, group in enumerate(groups):
            occupied = sum(any(row[k] for k in [*group, c]) for row in rows)
            conflicts = sum(count[k] for k in [*group, c]) - occupied
            if len(group) < size and conflicts <= gamma * len(rows):
                fitting.append((-occupied, g))
        if fitting:
            groups[min(fitting)[1]].append(c)
        else:
            groups.append([c])
    return groups


@st.composite
def matrices(draw):
    generator = torch.Generator().manual_seed(draw(st.integers(0, 500)))
    shape = draw(st.integers(1, 7)), draw(st.integers(0, 9))
    there = torch.rand(shape, generator=generator) < draw(st.sampled_from([0.2, 0.5, 0.9]))
    return torch.randint(-3, 4, shape, generator=generator).float() * there


@settings(max_examples=200, deadline=None)
@given(matrices(), st.integers(1, 4), st.sampled_from([0, 0.1, 0.5, math.inf]))
def test_groups_are_those_of_the_rule_and_what_holds_of_every_packing(w, size, gamma):
    groups = group_columns(w, size, gamma)
    assert groups == written_out(w, size, gamma)
    packed, channel, mask = combine_columns(w, groups)
    assert packed.shape == channel.shape == (len(w), len(groups)) and mask.shape == w.shape
    assert torch.equal(packed != 0, channel >= 0) and int(mask.sum()) == int((packed != 0).sum())
    for r, g in (channel >= 0).nonzero().tolist():
        c = int(channel[r, g])
        rivals = [k for k in groups[g] if abs(float(w[r, k])) >= abs(float(w[r, c]))]
        # of equal ones the lower goes
        assert packed[r, g] == w[r, c] and mask[r, c] and max(rivals) == c
    assert int((w != 0).sum() - mask.sum()) <= (gamma * len(w) * len(groups) if groups else 0)
    # a multiplexer in front of each cell gives the pruned matrix's product
    x = torch.randn(w.shape[1], generator=torch.Generator().manual_seed(1))
    if groups:
        assert torch.allclose((packed * x[channel.clamp(min=0)]).sum(1), (w * mask) @ x, atol=1e-5)
        assert utilisation(mask, groups) == pytest.approx(float((packed != 0).float().mean()))
