"""Makes the stored results of lab 03: ``course remake lab03_tickets_digits``."""

from __future__ import annotations

from concurrent.futures import Executor
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import pandas as pd
import torch

from course_lib.data.images import load
from course_lib.experiments import Result, lab03, read
from course_lib.experiments.once import each
from course_lib.models import build
from course_lib.pruning.weights import find_ticket, random_ticket, rewind
from course_lib.training import train_and_test

SEEDS = {"digits": 5, "mnist": 3, "rewinding": 3}
BUDGETS = (30, 60, 90, 150)  # epochs of every training on the digits
SETTINGS = lab03.SETTINGS
#: The small conv net with batch norm at a large learning rate, on the digits. Half of the
#: weights are pruned per round (a quarter in the output layer); ``ks``: the steps to rewind to.
CONV: dict[str, Any] = {"epochs": 6, "rounds": 6, "ks": (0, 18)}


def rewound_to(k: int, seed: int, *, epochs: int, rounds: int) -> list[dict[str, Any]]:
    """Tickets of the small conv net, trained by SGD and rewound to step ``k``, beside random
    masks with as many weights per layer from the same w_k.

    Returns:
        A row per ``round`` and ``method`` ("dense" in round 0, "ticket" and "random mask" in
        the others): ``k``, ``remaining``, ``test`` accuracy in %.
    """
    images, how = load("digits"), {"optimizer": "sgd", "weight_decay": 5e-4, "schedule": "cosine"}
    of_seed: Any = {**how, "lr": 0.2, "seed": seed, "epochs": epochs}
    learn: Any = partial(train_and_test, data=images, **of_seed)
    fresh = partial(build, "convnet", images, seed=seed)
    learn(start := fresh(), None, 0, k)
    w_k, rows = start.state_dict(), []
    for record in find_ticket(fresh, learn, rounds, 0.5, k):
        found = {"ticket" if record["round"] else "dense": record["result"]}
        if record["round"]:
            masks = random_ticket(record["masks"], torch.Generator().manual_seed(1000 + seed))
            rewind(model := fresh(), w_k, masks)
            found["random mask"] = learn(model, masks, k, None)
        place = {"seed": seed, "k": k, "round": record["round"]}
        place["remaining"] = round(record["remaining"], 5)
        rows += [{**place, "method": m, "test": one["accuracy"]} for m, one in found.items()]
    return rows


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
    settings, seeds = SETTINGS["digits"], SEEDS["digits"]
    jobs = product(lab03.RIVALS, ["digits"], range(seeds))
    found: Any = sum(each(executor, folder, lab03.rival, jobs, **settings), [])
    stored = read("lab03_tickets_digits/rounds")
    stored = stored[stored["epochs"] == 30].drop(columns="epochs")
    table = pd.concat([stored, pd.DataFrame(found)], ignore_index=True)
    return Result({"rounds": table}, {**settings, "seeds": seeds})


def remake_rewinding(executor: Executor, folder: Path) -> Result:
    """Tickets of the small conv net on the digits, rewound to different steps."""
    ks, seeds, settings = CONV["ks"], SEEDS["rewinding"], {**CONV}
    del settings["ks"]
    rows: Any = sum(each(executor, folder, rewound_to, product(ks, range(seeds)), **settings), [])
    return Result({"rounds": pd.DataFrame(rows)}, {**settings, "ks": list(ks), "seeds": seeds})


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
