"""PrunedLinear's backward pass by hand, against autograd's of x (w∘m)ᵀ."""

import pytest
import torch

from course_lib.pruning.weights import PrunedLinear

SHAPES = [(4,), (3, 4), (2, 3, 4), (0, 4)]


def draw(x_shape, dtype=torch.float64):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(x_shape, generator=generator, dtype=dtype).requires_grad_()
    w = torch.randn(5, 4, generator=generator, dtype=dtype).requires_grad_()
    return x, w, torch.rand(5, 4, generator=generator) < 0.5


@pytest.mark.parametrize("shape", SHAPES)
def test_like_autograd(shape):
    x, w, m = draw(shape)
    y, want = PrunedLinear.apply(x, w, m), x @ (w * m).T
    torch.testing.assert_close(y, want)
    g = torch.randn(y.shape, dtype=y.dtype, generator=torch.Generator().manual_seed(1))
    for ours, theirs in zip(
        torch.autograd.grad(y, (x, w), g), torch.autograd.grad(want, (x, w), g), strict=True
    ):
        torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("shape", SHAPES[:3])
def test_gradcheck_to_second_order(shape):
    x, w, m = draw(shape)
    assert torch.autograd.gradcheck(lambda x, w: PrunedLinear.apply(x, w, m), (x, w))
    assert torch.autograd.gradgradcheck(lambda x, w: PrunedLinear.apply(x, w, m), (x, w))


def test_pruned_weights_neither_pass_nor_get_a_gradient():
    x, w, m = draw((3, 4))
    PrunedLinear.apply(x, w, m).square().sum().backward()
    assert (w.grad[~m] == 0).all() and (w.grad[m] != 0).all()
    dense = torch.autograd.grad((x @ w.T).square().sum(), x)[0]
    assert not torch.allclose(x.grad, dense)


def test_nan_in_a_pruned_weight_does_no_harm():
    x, w, m = draw((3, 4))
    with torch.no_grad():
        w[~m] = torch.nan
    y = PrunedLinear.apply(x, w, m)
    y.sum().backward()
    assert all(t.isfinite().all() for t in (y, x.grad, w.grad))


def test_gradients_per_sample_by_vmap():
    x, w, m = draw((6, 4))
    x, w = x.detach(), w.detach()
    per_sample = torch.func.vmap(
        torch.func.grad(lambda w, x: PrunedLinear.apply(x, w, m).square().sum()), in_dims=(None, 0)
    )(w, x)
    want = torch.stack([2 * torch.outer(x_i @ (w * m).T, x_i) * m for x_i in x])
    torch.testing.assert_close(per_sample, want)
