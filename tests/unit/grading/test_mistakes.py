"""When two results are the same for the grader, and which sentence a wrong one gets."""

import functools
import re

import pytest
import torch

from course_lib.grading.claims import mistakes
from course_lib.grading.claims.expect import Mistake, expect_close
from course_lib.grading.claims.mistakes import near


def test_near_goes_by_the_largest_number_unless_told_otherwise() -> None:
    one, other = torch.tensor([1000.0, 0.0]), torch.tensor([1000.0, 5e-3])
    assert near(one, other) and not near(one, other, relative=False)
    small = torch.tensor([1e-7])
    assert near(small, -small) and not near(small, -small, least=1e-9)
    assert not near(torch.tensor([1.0]), torch.tensor([1.0001])) and near(
        torch.tensor([1.0]), torch.tensor([1.0001]), tolerance=1e-3
    )


def test_near_is_about_shapes_masks_and_dicts_too() -> None:
    mask = torch.tensor([True, False])
    assert near(mask, mask.clone()) and not near(mask, ~mask) and not near(mask, mask.float())
    assert (
        not near(torch.zeros(2), torch.zeros(2, 1))
        and not near(torch.zeros(1), 0.0)
        and near(torch.zeros(0), torch.zeros(0))
    )
    assert near({"a": torch.ones(2)}, {"a": torch.ones(2) + 1e-7}) and not near(
        {"a": mask}, {"b": mask}
    )
    assert not near(torch.tensor([float("nan")]), torch.tensor([0.0]))


def test_a_mistake_is_recognised_by_its_result() -> None:
    right, wrong = torch.tensor([1.0, 2.0]), {"the sign is wrong": torch.tensor([-1.0, -2.0])}
    recognise = functools.partial(mistakes.recognise, equal=near)
    recognise(right + 1e-7, right, wrong)
    recognise(torch.zeros(2), right, wrong)  # wrong, but not so
    with pytest.raises(Mistake, match="here: the sign is wrong"):
        recognise(-right + 1e-7, right, wrong, "here: ")


def test_where_a_tensor_is_wrong() -> None:
    right = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    for value, said in (
        (right + torch.tensor([[0, 0], [0, 1]]), "f(x) is wrong at index (1, 1): 5 instead of 4"),
        (-right, "f(x) is wrong at 4 of 4 places, first at index (0, 0): -1 instead of 1"),
    ):
        with pytest.raises(Mistake, match=re.escape(said)):
            expect_close(value, right, "f(x)")
    with pytest.raises(Mistake, match=re.escape("f(x) is wrong: 0.5 instead of 1")):
        expect_close(torch.tensor(0.5), torch.tensor(1.0), "f(x)")
