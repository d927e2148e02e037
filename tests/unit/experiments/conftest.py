"""What the runs of several files are shortened by."""

import datasets
import pytest
import torch
from transformers.utils import logging

from course_lib.experiments import lab06


@pytest.fixture(scope="module")
def few_texts_of_lab06():
    torch.set_num_threads(1)
    all_of_them = lab06.TEXTS
    lab06.TEXTS = {"train": 500, "validation": 100, "test": 100}
    lab06.texts.cache_clear()
    yield
    lab06.TEXTS = all_of_them
    lab06.texts.cache_clear()


@pytest.fixture(autouse=True)
def bars_as_before():
    """A lab may switch off the bars of transformers and datasets."""
    yield
    logging.enable_progress_bar()
    datasets.enable_progress_bars()
