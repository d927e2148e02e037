"""Makes the stored results of lab 03: ``course remake lab03_tickets_digits``."""

from __future__ import annotations

from concurrent.futures import Executor
from pathlib import Path

import pandas as pd

from course_lib.experiments import Result, lab03, read
from course_lib.experiments.once import once

SEEDS = {"digits": 5, "mnist": 3, "rewinding": 3}
BUDGETS = (30, 60, 90, 150)  # epochs of every training on the digits
CONV = lab03.CONV
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


def remake_rivals(executor: Executor, folder: Path) -> Result:
    """The same search without rewinding, and small dense networks, on the digits; beside them
    the stored tickets and controls of as many epochs.
    """
    settings = SETTINGS["digits"]
    jobs = [
        executor.submit(once, folder, lab03.rival, method, "digits", seed, **settings)
        for method in lab03.RIVALS
        for seed in range(SEEDS["digits"])
    ]
    stored = read("lab03_tickets_digits/rounds")
    stored = stored[stored["epochs"] == 30].drop(columns="epochs")
    found = pd.DataFrame([row for job in jobs for row in job.result()])
    table = pd.concat([stored, found], ignore_index=True)
    return Result({"rounds": table}, {**settings, "seeds": SEEDS["digits"]})


def remake_rewinding(executor: Executor, folder: Path) -> Result:
    """Tickets of the small conv net on the digits, rewound to different steps."""
    settings = {**CONV}
    ks = settings.pop("ks")
    jobs = [
        executor.submit(once, folder, lab03.rewound_to, k, seed, **settings)
        for k in ks
        for seed in range(SEEDS["rewinding"])
    ]
    rows = [row for job in jobs for row in job.result()]
    settings |= {"ks": list(ks), "seeds": SEEDS["rewinding"]}
    return Result({"rounds": pd.DataFrame(rows)}, settings)


def _rounds(data: str, folder: Path, executor: Executor, **changed: int) -> pd.DataFrame:
    """All rounds, with the settings that were varied in the first columns."""
    settings = {**SETTINGS[data], **changed}
    found = lab03.search(
        data, range(SEEDS[data]), **settings, folder=folder, executor=executor, progress=True
    )
    table = lab03.rounds(found)
    return pd.concat([pd.DataFrame(changed, index=table.index), table], axis=1)


RESULTS = {
    "lab03_tickets_digits": remake_digits,
    "lab03_tickets_mnist": remake_mnist,
    "lab03_rivals_digits": remake_rivals,
    "lab03_rewinding_digits": remake_rewinding,
}
