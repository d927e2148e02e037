"""Where the course's data and models are put. No machine of the tests has a GPU: what
would mix devices, or copy without being told to, is found on a pretended one.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch.utils import backend_registration

from course_lib import devices, models, parallel
from course_lib.data import images, pieces

pytestmark = pytest.mark.usefixtures("as_it_was")


@pytest.fixture
def as_it_was(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(devices, "_current", devices.current())
    monkeypatch.setattr(devices, "_fixed", False)
    yield


def test_without_a_choice_everything_is_on_the_processor() -> None:
    data = images.load("digits")
    assert devices.current() == torch.device("cpu") == data.test.images.device
    assert devices.use() == devices.best()


@pytest.mark.parametrize("name", ["cuda:99", "meta-physics", "xla"])
def test_a_device_that_is_not_there_is_refused_and_nothing_changes(name: str) -> None:
    with pytest.raises(ValueError, match=name):
        devices.use(name)
    assert devices.current().type == "cpu"


def test_a_chosen_device_gets_data_batches_and_models() -> None:
    devices.use("meta")
    data = images.load("digits").subset(100)
    assert {part.device.type for split in (data.train, data.test) for part in split} == {"meta"}
    assert next(models.build("lenet300", data).parameters()).device.type == "meta"
    assert pieces.pad([[1], [2, 3]]).device.type == "meta"
    # what is queued on a device gains nothing from a second process
    with parallel.processes() as executor:
        assert isinstance(executor, ThreadPoolExecutor)


def test_where_submissions_run_their_choice_is_ignored() -> None:
    devices.fix()
    assert devices.use("cuda").type == "cpu"


@pytest.mark.long
@pytest.mark.skipif(
    not hasattr(backend_registration, "_setup_privateuseone_for_python_backend"),
    reason="this torch cannot pretend to have another device",
)
def test_a_lab_runs_where_no_tensor_may_be_on_two_devices() -> None:
    ran = subprocess.run(
        [sys.executable, "tests/pretended_device.py", "08"], capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr[-2000:]
    assert "lab 08: 0 cells failed" in ran.stdout
