"""What tells one configuration of a search from another."""

import json
from functools import partial

import torch

from course_lib.pruning.weights import ticket_folder
from course_lib.training import train_and_test
from unit.pruning.weights.trainings import DIGITS, trained


def test_a_configuration_is_described_by_content():
    a, b = torch.ones(3), torch.ones(3)
    assert ticket_folder.described(partial(trained, a)) == ticket_folder.described(
        partial(trained, b)
    )
    assert ticket_folder.described(partial(trained, a)) != ticket_folder.described(
        partial(trained, 2 * a)
    )
    assert ticket_folder.described(partial(trained, DIGITS)) != ticket_folder.described(
        partial(trained, DIGITS.subset(100))
    )
    text = json.dumps(
        ticket_folder.described(
            partial(train_and_test, data=DIGITS, lr=1e-3, schedule=None, dims=(1, 2))
        )
    )
    assert "train_and_test" in text and "0.001" in text and len(text) < 1500
