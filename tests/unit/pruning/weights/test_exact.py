"""Exactly the smallest go, ties by position: against a stable sort, on vectors small
and large, of every kind.
"""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from course_lib.pruning.weights.exact import count_pruned, flat, prune_smallest


def by_sorting(parts, count):
    """The definition: a stable sort of all numbers together, and the first ``count``
    go.
    """
    values = torch.cat(parts)
    kept = torch.ones(len(values), dtype=torch.bool)
    kept[values.sort(stable=True).indices[:count]] = False
    return kept


def select(parts, count):
    return [k.tolist() for k in prune_smallest([flat(p) for p in parts], count)]


def agree(parts, count):
    kept = prune_smallest([flat(p) for p in parts], count)
    assert [len(k) for k in kept] == [len(p) for p in parts]
    assert all(k.dtype == bool for k in kept)
    assert np.array_equal(np.concatenate(kept), by_sorting(parts, count).numpy())


numbers = st.one_of(st.integers(-3, 3).map(float), st.floats(width=32, allow_nan=False))


@given(data=st.data())
@settings(max_examples=200, deadline=None)
def test_small_vectors_of_any_numbers(data):
    parts = [
        torch.tensor(v)
        for v in data.draw(st.lists(st.lists(numbers, max_size=20), min_size=1, max_size=4))
    ]
    parts = [p.float() for p in parts]
    agree(parts, data.draw(st.integers(0, sum(map(len, parts)))))


@pytest.mark.parametrize("count", [0, 1, 2, 70_000, 150_000, 299_999, 300_000])
@pytest.mark.parametrize(
    "kind", ["normal", "sorted", "falling", "periodic", "mostly_zero", "mostly_dead", "constant"]
)
def test_shapes_of_distribution(kind, count):
    n = 300_000
    x = torch.randn(n, generator=torch.Generator().manual_seed(1)).abs()
    x = {
        "normal": lambda: x,
        "sorted": lambda: x.sort().values,
        "falling": lambda: x.sort(descending=True).values,
        "periodic": lambda: torch.arange(n).remainder(7).float(),
        "mostly_zero": lambda: x * (torch.arange(n) % 5 == 0),
        "mostly_dead": lambda: x.masked_fill(torch.arange(n) % 5 > 0, -torch.inf),
        "constant": lambda: torch.full((n,), 0.5),
    }[kind]()
    agree(list(x.split([100_000, 1, 0, 199_999])), count)


@pytest.mark.parametrize(
    "dtype", [torch.float16, torch.bfloat16, torch.float64, torch.int8, torch.int64, torch.bool]
)
@pytest.mark.parametrize("n", [1000, 200_000])
def test_dtypes(dtype, n):
    x = (torch.randn(n, generator=torch.Generator().manual_seed(3)) * 50).to(dtype)
    agree(x.split(n // 3), round(0.37 * n))


def test_float64_differences_that_float32_does_not_see():
    x = 1 + torch.arange(10, dtype=torch.float64).flip(0) * 1e-12
    assert select([x], 5) == [[True] * 5 + [False] * 5]


def test_parts_of_different_dtypes_compare_by_value():
    # 0.1 rounds down in half, 0.3 up
    half, single = torch.tensor([0.1, 0.3]).half(), torch.tensor([0.1, 0.3])
    assert half[0] < single[0].double() and half[1].double() > single[1].double()
    assert select([single, half], 1) == [[True, True], [False, True]]
    assert select([half, single], 1) == [[False, True], [True, True]]
    assert select([half, single], 3) == [[False, True], [False, False]]
    # 0.1 in float32 is a little more than that
    double = torch.tensor([0.1, 0.3], dtype=torch.float64)
    assert select([single, double], 1) == [[True, True], [False, True]]
    assert select([torch.tensor([2, 0]), torch.tensor([1.5, 0.5])], 2) == [
        [True, False],
        [True, False],
    ]


def test_minus_zero_equals_zero_and_infinities_have_a_place():
    assert select([torch.tensor([0.0, -0.0, torch.inf, -torch.inf])], 2) == [
        [False, True, True, False]
    ]


def test_the_callers_numbers_and_randomness_are_untouched():
    x = torch.rand(200_000, generator=torch.Generator().manual_seed(4))
    before, torch_state, numpy_state = (
        x.clone(),
        torch.get_rng_state(),
        np.random.get_state()[1].copy(),
    )
    prune_smallest([flat(x)], 1000)
    assert torch.equal(x, before)
    assert (
        torch.equal(torch.get_rng_state(), torch_state)
        and (np.random.get_state()[1] == numpy_state).all()
    )


def test_results_do_not_share_memory():
    """Views of one long vector would each carry the masks of all layers into a file or
    a copy.
    """
    a, b = (
        torch.from_numpy(k) for k in prune_smallest([flat(torch.rand(10)), flat(torch.rand(10))], 5)
    )
    assert a.untyped_storage().nbytes() == b.untyped_storage().nbytes() == 10


@given(n=st.integers(0, 10**6), s=st.floats(0, 1))
def test_the_count_is_pythons_round(n, s):
    assert count_pruned(s, n) == round(s * n)


def test_half_goes_to_even():
    assert [count_pruned(0.5, n) for n in (1, 3, 5, 7)] == [0, 2, 2, 4]


@pytest.mark.parametrize("bad", [-0.1, 1.0001, float("nan"), float("inf")])
def test_a_sparsity_outside_0_1_raises(bad):
    with pytest.raises(ValueError, match="between 0 and 1"):
        count_pruned(bad, 10)


def test_a_sparsity_in_per_cent_is_recognised():
    with pytest.raises(ValueError, match=r"for 90 % write 0\.9"):
        count_pruned(90, 10)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("place", [0, 17, -1])
def test_nan_raises_by_name(dtype, place):
    x = torch.ones(5, 20, dtype=dtype)
    x.view(-1)[place] = torch.nan
    with pytest.raises(ValueError, match=r"'fc.weight' is NaN"):
        flat(x, "fc.weight")


def test_complex_numbers_raise():
    with pytest.raises(ValueError, match="absolute value"):
        flat(torch.ones(2, dtype=torch.complex64))
