"""The column loop against Optimal Brain Surgeon and least squares, solved anew for every column."""

import pytest
import torch
from torch import Tensor

from course_lib.pruning.weights import prune_and_round


def drawn(rows=9, columns=12, tokens=40, seed=0) -> tuple[Tensor, Tensor, Tensor]:
    """A matrix, correlated inputs (columns, tokens), and their Gram matrix; float64."""
    g = torch.Generator().manual_seed(seed)
    mixed = torch.randn(columns, columns, generator=g) + torch.eye(columns)
    x = (mixed @ torch.randn(columns, tokens, generator=g)).double()
    return torch.randn(rows, columns, generator=g).double(), x, x @ x.T


def damped(gram: Tensor, damping: float = 0.01) -> Tensor:
    return gram + damping * gram.diagonal().mean() * torch.eye(len(gram), dtype=gram.dtype)


def brain_surgeon(weight, gram, sparsity):
    """One column after another: the inverse of what is left of H, the weights of the column with the
    smallest w² / [H⁻¹]_jj pruned, and all weights after them moved to the minimum.
    """
    w, h = weight.clone(), damped(gram)
    rows, columns = w.shape
    for j in range(columns):
        inverse = torch.linalg.inv(h[j:, j:])
        k = round(sparsity * (rows * (j + 1))) - round(sparsity * (rows * j))
        for r in (w[:, j].square() / inverse[0, 0]).argsort()[:k].tolist():
            w[r, j:] -= w[r, j] / inverse[0, 0] * inverse[:, 0]
            w[r, j] = 0
    return w


@pytest.mark.parametrize("sparsity", [0.3, 0.5, 0.9])
def test_blocks_of_one_column_are_optimal_brain_surgeon(sparsity):
    weight, _, gram = drawn()
    found = prune_and_round(weight, gram, sparsity, block=1)
    torch.testing.assert_close(found, brain_surgeon(weight, gram, sparsity))
    assert int((found == 0).sum()) == round(sparsity * weight.numel())


def test_all_that_one_row_loses_is_made_up_for_by_least_squares_on_what_is_kept():
    weight, _, gram = drawn(rows=1)
    h = damped(gram)
    root = torch.linalg.cholesky(h)  # h = root rootᵀ: inputs with this Gram matrix
    mask = torch.arange(12)[None] >= 7  # pruned first, kept after
    kept = torch.linalg.lstsq(root[7:].T, (weight @ root).T).solution.T
    torch.testing.assert_close(prune_and_round(weight, gram, mask=mask)[:, 7:], kept)
    for seed in range(5):  # any mask: the weights after the last pruned one are at their minimum
        mask = torch.rand(1, 12, generator=torch.Generator().manual_seed(seed)) > 0.5
        last = int((~mask[0]).nonzero().max())
        slope = ((prune_and_round(weight, gram, mask=mask) - weight) @ h)[0, last + 1 :]
        torch.testing.assert_close(slope, torch.zeros_like(slope), atol=1e-9, rtol=0)


def test_every_column_gets_what_the_columns_before_it_owe():
    """Any mask, several blocks: what a column is before its own step is the least-squares
    solution given the final columns before it.
    """
    weight, _, gram = drawn(rows=6, columns=10)
    h = damped(gram)
    mask = torch.rand(6, 10, generator=torch.Generator().manual_seed(3)) > 0.4
    found = prune_and_round(weight, gram, mask=mask, block=4)
    for j in range(1, 10):
        owed = (found - weight)[:, :j] @ h[:j, j:]  # H_SS (w − w₀)_S = −H_SP (w − w₀)_P
        best = weight[:, j:] - torch.linalg.solve(h[j:, j:], owed.T).T
        torch.testing.assert_close(found[:, j], best[:, 0] * mask[:, j])


@pytest.mark.parametrize("block", [1, 5, 128])
def test_with_a_mask_the_block_size_changes_nothing(block):
    weight, _, gram = drawn()
    mask = torch.rand(9, 12, generator=torch.Generator().manual_seed(0)) > 0.5
    for bits in (None, 3):
        found, other = (
            prune_and_round(weight, gram, mask=mask, bits=bits, group=4, block=b)
            for b in (block, 3)
        )
        torch.testing.assert_close(found, other)


def test_the_error_on_the_inputs_is_below_that_of_the_mask_alone():
    weight, x, gram = drawn(rows=30, columns=64, tokens=200)
    for given in ({"sparsity": 0.5}, {"pattern": (2, 4)}, {"bits": 3}):
        ours = prune_and_round(weight, gram, block=16, **given)
        nearest = prune_and_round(weight, torch.eye(64), block=16, **given)
        errors = [float(((w - weight) @ x).norm()) for w in (ours, weight * (ours != 0), nearest)]
        assert errors[0] < 0.8 * errors[2]
        assert "bits" in given or errors[0] < 0.8 * errors[1]


def test_n_of_every_m_inputs_are_kept_in_every_row():
    weight, _, gram = drawn(rows=7, columns=24)
    for n, m, block in ((2, 4, 128), (1, 4, 6), (4, 8, 5), (2, 3, 1)):
        found = prune_and_round(weight, gram, pattern=(n, m), block=block)
        assert ((found != 0).view(7, -1, m).sum(2) == n).all()
    both = prune_and_round(weight, gram, pattern=(2, 4), bits=4, group=8)
    assert ((both != 0).view(7, -1, 4).sum(2) <= 2).all()


@pytest.mark.parametrize("shape", [(9, 12), (5, 7), (3, 130)])
@pytest.mark.parametrize("sparsity", [0.0, 0.33, 0.5, 1.0])
def test_exactly_that_many_are_pruned_in_all_blocks_together(shape, sparsity):
    weight, _, gram = drawn(*shape, tokens=200)
    for block in (3, 128):
        found = prune_and_round(weight, gram, sparsity, block=block)
        assert int((found == 0).sum()) == round(sparsity * weight.numel())


@pytest.mark.parametrize("bits", [2, 3, 4, 8])
def test_a_group_has_at_most_2_to_the_b_values_which_are_evenly_spaced(bits):
    weight, _, gram = drawn(rows=5, columns=48, tokens=100)
    found = prune_and_round(weight, gram, bits=bits, group=24)
    for row in found.view(-1, 24):
        values = row.unique()
        assert len(values) <= 2**bits
        steps = values.diff()
        least = steps.min()
        # ratios of differences are whole numbers of the grid's step, which divides them all
        if bits == 2:
            torch.testing.assert_close(steps / least, (steps / least).round())


@pytest.mark.parametrize("bits", [2, 3, 4, 8])
def test_rounding_to_its_own_grid_changes_nothing(bits):
    weight, _, gram = drawn(rows=20, columns=128, tokens=300)
    for low in (-1.0, 0.3):  # on either side of 0, and all above it
        # nearest rounding: every group keeps its smallest and largest weight
        once = prune_and_round(weight.abs() + low, torch.eye(128), bits=bits, group=32)
        again = prune_and_round(once, gram, bits=bits, group=32)
        torch.testing.assert_close(again, once, atol=1e-12, rtol=0)


def test_rounding_never_brings_pruned_zeros_back_on_a_grid_without_0():
    weight, _, gram = drawn(rows=20, columns=64, tokens=200)
    low, step = weight.amin(1), (weight.amax(1) - weight.amin(1)) / 7
    assert ((low / step - (low / step).round()).abs() > 1e-3).all()  # 0 is on no grid
    kept = prune_and_round(weight, gram, 0.5) != 0
    for given in ({"sparsity": 0.5}, {"mask": kept}, {"pattern": (2, 4)}):
        both = prune_and_round(weight, gram, bits=3, **given)
        assert int((both == 0).sum()) >= weight.numel() // 2
    pruned = prune_and_round(weight, gram, 0.5)
    rounded = prune_and_round(pruned, gram, bits=3)
    assert (rounded[pruned == 0] == 0).all() and (rounded != pruned)[kept].float().mean() > 0.9


def test_fewer_tokens_than_inputs_and_inputs_that_were_always_0():
    weight, x, _ = drawn(rows=8, columns=40, tokens=6)
    x[3] = x[20] = 0
    gram = x @ x.T
    found = prune_and_round(weight, gram, 0.5)
    assert found.isfinite().all() and int((found == 0).sum()) == 160
    dead = found[:, [3, 20]]
    assert (dead == 0).float().mean() > 0.5  # the first to be pruned; those kept are not changed
    torch.testing.assert_close(dead, weight[:, [3, 20]] * (dead != 0))
    by_size = prune_and_round(weight, torch.zeros(40, 40), 0.5)
    torch.testing.assert_close(by_size, weight * (weight.abs() > weight.abs().median()))
    assert prune_and_round(weight, drawn(columns=40, tokens=99)[2], 0.5, damping=0).isfinite().all()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_the_dtype_stays_and_the_work_is_in_single_precision(dtype):
    weight, _, gram = drawn(rows=16, columns=64, tokens=200)
    low = weight.to(dtype)
    found = prune_and_round(low, gram, 0.5)
    assert found.dtype == dtype and int((found == 0).sum()) == weight.numel() // 2
    expected = prune_and_round(low.double(), gram, 0.5)
    torch.testing.assert_close(found.double(), expected, atol=0.02, rtol=0.02)
    torch.testing.assert_close(low, weight.to(dtype))  # the argument is as it was


def test_the_scale_of_the_inputs_does_not_matter():
    weight, _, gram = drawn()
    for scale in (1e-12, 1e12):
        found = prune_and_round(weight, gram * scale, 0.5, bits=4)
        torch.testing.assert_close(found, prune_and_round(weight, gram, 0.5, bits=4))


def test_arguments_that_do_not_fit_are_refused():
    weight, _, gram = drawn()
    for given, said in (
        ({"gram": gram[:3]}, "gram must be .inputs, inputs., 12 each; got .3, 12."),
        ({"sparsity": 50}, "Did you mean 0.5"),
        ({"pattern": (2, 5)}, "m must divide the 12 inputs"),
        ({"mask": torch.ones(9, 12)}, "mask must be a bool tensor"),
        ({"bits": 0}, "bits must be a whole number of at least 1"),
        ({"gram": gram * torch.inf}, "gram is not finite"),
        ({"gram": drawn(tokens=3)[2], "damping": 0}, "needs more damping than 0"),
    ):
        with pytest.raises(ValueError, match=said):
            prune_and_round(**{"weight": weight, "gram": gram} | given)
