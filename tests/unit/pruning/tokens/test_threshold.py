"""Thresholds that are learned while they are soft, and end hard."""

import math

import torch

from course_lib.pruning.tokens import (
    SoftThreshold,
    share_kept,
    threshold_policy,
)
from unit.pruning.tokens.texts import mask_of, scores_of


def test_soft_threshold_is_a_sigmoid_of_its_distance(rng):
    mask = mask_of([5, 3], 5)
    s = scores_of(rng, mask)
    threshold = SoftThreshold(3, temperature=0.4).double()
    with torch.no_grad():
        threshold.theta[1] = 0.8
    got = threshold(s, 1, mask).detach()
    for b, n in enumerate((5, 3)):
        for i in range(5):
            expected = (
                1
                if i == 0
                else 0
                if i >= n
                else 1 / (1 + math.exp(-(n * float(s[b, i]) - 0.8) / 0.4))
            )
            assert abs(float(got[b, i]) - expected) < 1e-6


def test_soft_threshold_gets_a_gradient_and_the_sparsity_term_raises_it(rng):
    mask = mask_of([6, 4], 6)
    s = scores_of(rng, mask).requires_grad_()
    threshold = SoftThreshold(2, temperature=0.3)
    share_kept(threshold(s, 1, mask), mask).backward()
    assert threshold.theta.grad[0] == 0 and threshold.theta.grad[1] < 0  # descent raises theta
    assert s.grad.abs().sum() > 0


def test_threshold_ends_hard(rng):
    mask = mask_of([8, 5], 8)
    s = scores_of(rng, mask)
    threshold = SoftThreshold(1, temperature=0.2)
    with torch.no_grad():
        threshold.theta[0] = 0.9
    hard = threshold.eval()(s, 0, mask)
    assert hard.dtype == s.dtype and set(hard.unique().tolist()) == {0.0, 1.0}
    assert torch.equal(hard.bool(), threshold_policy(s, float(threshold.theta[0]), mask))
    threshold.train().temperature = 1e-4
    assert (threshold(s, 0, mask) - hard).abs().max() < 1e-3  # the step is the limit


def test_threshold_counts_what_is_left_of_tokens(rng):
    """With weights in place of a mask n is their sum, so tokens at 0 are as good as not
    there.
    """
    mask = mask_of([4], 6)
    s = scores_of(rng, mask)
    threshold = SoftThreshold(1, temperature=0.3)
    torch.testing.assert_close(threshold(s, 0, mask.double()), threshold(s, 0, mask))
