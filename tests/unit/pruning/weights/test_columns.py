"""Grouping and combining columns against the rule written out, and what holds of every
packing.
"""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from course_lib.pruning.weights.columns import combine_columns, group_columns, utilisation


def written_out(weight, size, gamma):
    """The greedy rule, over and over from the columns themselves."""
    rows = [[float(v) != 0 for v in row] for row in weight]
    count = [sum(row[c] for row in rows) for c in range(weight.shape[1])]
    groups = []
    for c in sorted((c for c in range(len(count)) if count[c]), key=lambda c: -count[c]):
        fitting = []
        for g, group in enumerate(groups):
            occupied = sum(any(row[k] for k in [*group, c]) for row in rows)
            if len(group) < size and sum(count[k] for k in [*group, c]) - occupied <= gamma * len(
                rows
            ):
                fitting.append((-occupied, g))
        if fitting:
            groups[min(fitting)[1]].append(c)
        else:
            groups.append([c])
    return groups


matrices = st.tuples(
    st.integers(1, 7), st.integers(0, 9), st.integers(0, 500), st.sampled_from([0.2, 0.5, 0.9])
)


def drawn(rows, columns, seed, density):
    generator = torch.Generator().manual_seed(seed)
    w = torch.randint(-3, 4, (rows, columns), generator=generator).float()
    return w * (torch.rand(w.shape, generator=generator) < density)


@settings(max_examples=150, deadline=None)
@given(matrices, st.integers(1, 4), st.sampled_from([0, 0.1, 0.5, math.inf]))
def test_groups_are_those_of_the_rule(matrix, size, gamma):
    w = drawn(*matrix)
    groups = group_columns(w, size, gamma)
    assert groups == written_out(w, size, gamma)
    assert sorted(c for g in groups for c in g) == (w != 0).any(0).nonzero()[:, 0].tolist()


@settings(max_examples=150, deadline=None)
@given(matrices, st.integers(1, 4), st.sampled_from([0, 0.3, math.inf]))
def test_what_holds_of_every_packing(matrix, size, gamma):
    w = drawn(*matrix)
    groups = group_columns(w, size, gamma)
    packed, channel, mask = combine_columns(w, groups)
    assert packed.shape == channel.shape == (len(w), len(groups)) and mask.shape == w.shape
    assert torch.equal(packed != 0, channel >= 0) and int(mask.sum()) == int((packed != 0).sum())
    for r, g in (channel >= 0).nonzero().tolist():
        c = int(channel[r, g])
        rivals = [k for k in groups[g] if abs(float(w[r, k])) >= abs(float(w[r, c]))]
        assert (
            c in groups[g] and packed[r, g] == w[r, c] and mask[r, c] and max(rivals) == c
        )  # of equal ones the lower goes
    lost = int((w != 0).sum() - mask.sum())
    assert lost <= gamma * len(w) * len(groups) if groups else lost == 0
    # a multiplexer in front of each cell gives the pruned matrix's product
    x = torch.randn(w.shape[1], generator=torch.Generator().manual_seed(1))
    if w.shape[1]:
        assert torch.allclose((packed * x[channel.clamp(min=0)]).sum(1), (w * mask) @ x, atol=1e-5)
    if groups:
        assert utilisation(mask, groups) == pytest.approx(float((packed != 0).float().mean()))
