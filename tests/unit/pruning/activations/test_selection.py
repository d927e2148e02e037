"""Which activations stay, and what flows back."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from course_lib.pruning.activations import nm_activation, random_activation, topk_activation
from course_lib.pruning.weights import nm_mask


@settings(max_examples=100, deadline=None)
@given(
    st.integers(0, 3),
    st.lists(st.integers(1, 3), min_size=1, max_size=3),
    st.integers(0, 30),
    st.integers(0, 500),
)
def test_of_each_sample_the_k_largest(samples, shape, k, seed):
    x = torch.randint(
        -3, 4, (samples, *shape), generator=torch.Generator().manual_seed(seed)
    ).float()
    kept = topk_activation(x, k)
    for one, other in zip(x.flatten(1).tolist(), kept.flatten(1).tolist(), strict=True):
        goes = sorted(range(len(one)), key=lambda i: (abs(one[i]), i))[: max(0, len(one) - k)]
        assert other == [0 if i in goes else v for i, v in enumerate(one)]


@pytest.mark.parametrize(
    "rule",
    [
        lambda x: topk_activation(x, 7),
        lambda x: nm_activation(x, 1, 2),
        lambda x: nm_activation(x, 2, 3, -1),
    ],
)
def test_the_gradient_is_that_of_a_mask(rule):
    x = torch.randn(
        2, 4, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(0)
    ).requires_grad_()
    out = rule(x)
    out.backward(g := torch.randn(x.shape, dtype=torch.float64))
    assert torch.equal(x.grad, g * (out != 0))
    assert torch.autograd.gradcheck(rule, (x,))


def test_blocks_are_those_of_the_weights():
    x = torch.randn(2, 8, 3)
    assert torch.equal(nm_activation(x, 1, 4), x * nm_mask(x, 1, 4, 1))
    inf = torch.tensor([[torch.inf, 1.0, 2.0, 3.0]])
    assert nm_activation(inf, 1, 2).tolist() == [[torch.inf, 0, 0, 3]]  # no 0 · inf


def test_at_random_as_many_of_each_sample():
    x = torch.ones(5, 4, 5)
    kept = random_activation(x, 0.3, torch.Generator().manual_seed(0))
    assert ((kept != 0).flatten(1).sum(1) == 6).all() and len(
        {tuple(map(bool, row.flatten())) for row in kept}
    ) > 1
