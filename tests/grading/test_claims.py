"""What the claims say of a value that should have been another."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from course_lib.grading import Mistake, describe, expect_tensor
from course_lib.student_code import plain_data


class OwnNet(nn.Linear):
    """A class that is on nobody's list."""


@pytest.mark.parametrize(
    ("module", "name"), [(nn.Linear(30, 20), "Linear"), (OwnNet(3, 2), "OwnNet")]
)
def test_a_module_is_described_by_its_class_not_by_its_numbers(
    module: nn.Module, name: str
) -> None:
    assert describe(plain_data.describe(module)) == f"a module ({name})"
    with pytest.raises(
        Mistake, match=rf"^the mask should be a torch tensor, it is a module \({name}\)$"
    ):
        expect_tensor(plain_data.describe(module), what="the mask")


def test_what_holds_a_module_is_described_by_its_length() -> None:
    relu = plain_data.describe(nn.ReLU())
    assert describe([relu]) == "a list of 1 items"
    assert describe({"a": (relu, 1), "b": 2}) == "a dict of 2 items"
    assert describe((1, torch.ones(2))) == "a tuple of 2 items"
    assert describe((1, "b")) == "(1, 'b')"
