"""Makes the stored results of lab 03: ``course remake lab03_tickets_digits``."""

from __future__ import annotations

from concurrent.futures import Executor
from pathlib import Path

import pandas as pd

from course_lib.experiments import Result, lab03

SEEDS = {"digits": 5, "mnist": 3}
BUDGETS = (30, 60, 90, 150)  # epochs of every training on the digits
SETTINGS = lab03.SETTINGS


def remake_digits(executor: Executor, folder: Path) -> Result:
    """Tickets and controls on the digits, five seeds, from 30 to 150 epochs a training."""
    tables = [
        _rounds("digits", folder / f"{epochs}-epochs", executor, epochs=epochs)
        for epochs in BUDGETS
    ]
    settings = {**SETTINGS["digits"], "epochs": list(BUDGETS), "seeds": SEEDS["digits"]}
    return Result({"rounds": pd.concat(tables, ignore_index=True)}, settings)


def remake_mnist(executor: Executor, folder: Path) -> Result:
    """Tickets and controls on MNIST, three seeds, 8,000 iterations a training, down to
    2.9 % of the weights.
    """
    table = _rounds("mnist", folder, executor)
    return Result({"rounds": table}, {**SETTINGS["mnist"], "seeds": SEEDS["mnist"]})


def _rounds(data: str, folder: Path, executor: Executor, **changed: int) -> pd.DataFrame:
    """All rounds, with the settings that were varied in the first columns."""
    settings = {**SETTINGS[data], **changed}
    found = lab03.search(
        data, range(SEEDS[data]), **settings, folder=folder, executor=executor, progress=True
    )
    table = lab03.rounds(found)
    return pd.concat([pd.DataFrame(changed, index=table.index), table], axis=1)


RESULTS = {"lab03_tickets_digits": remake_digits, "lab03_tickets_mnist": remake_mnist}
