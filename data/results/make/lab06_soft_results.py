"""What makes soft movement strong? Beside movement with a share that is said it differs in
three ways: each matrix finds a share of its own, weights leave by another schedule, and
a penalty pulls at every score. One at a time, at the careful rate, each to as many
weights as soft movement has left of the same checkpoint.

``course remake lab06_soft`` makes the shipped result again.

Source: Sanh, Wolf & Rush 2020, "Movement Pruning", section 4.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from pathlib import Path
from typing import Any

from lab06_results import CAREFUL, SEEDS, SOFT, Share, Tables, by_matrix, by_movement, softly
from torch import nn

from course_lib.experiments import Result
from course_lib.experiments.lab06 import Row, finetune, kept_at, measured, pretrained
from course_lib.experiments.once import each_seed
from course_lib.pruning.weights import (
    Masks,
    prune_then_finetune,
    remaining,
)

LAM = SOFT["careful"][0]  # of the penalty; chosen for the share that it leaves, not for accuracy
MORE = 4 * LAM


def held(seed: int, masks: Masks, how: Mapping[str, Any] = CAREFUL) -> dict[str, float]:
    """These masks from the first step on: is it what stays, or how it came about?"""
    model = pretrained(seed)

    def run(net: nn.Module, post_step: Callable[[], None]) -> None:
        finetune(net, post_step, seed=seed, how=how)

    prune_then_finetune(model, masks, run, hold=True)
    return {"accuracy": measured(model), "test": measured(model, test=True)}


def differences(seed: int, how: Mapping[str, Any] = CAREFUL) -> Tables:
    """Every arm from one checkpoint, and ``shared``: the fraction of what soft movement
    keeps that it keeps, too.
    """
    path, in_all = list[dict[str, float]](), list[float]()  # its schedule, by matrix; in all

    def watch(masks: Masks) -> None:
        path.append({name: float(mask.double().mean()) for name, mask in masks.items()})
        in_all.append(remaining(masks))

    arms: list[Row] = []
    by_name: list[Row] = []

    def note(method: str, found: Mapping[str, Any], **more: Any) -> None:
        row, of_matrices = by_matrix(found, method=method)
        arms.append({**row, **more})
        by_name.extend(of_matrices)

    found, soft = softly(seed, LAM, how, watch)
    note("soft", found)
    steps, share, of_each = how["steps"], in_all[-1], path[-1]

    def cubic(step: int) -> float:
        return kept_at(step, steps, share)

    def cubic_by_matrix(step: int) -> Share:
        return {name: kept_at(step, steps, s) for name, s in of_each.items()}

    tried: dict[str, tuple[Callable[[int], Share], float, bool]] = {
        "said": (cubic, 0.0, False),
        "matrices": (cubic_by_matrix, 0.0, False),
        "schedule": (lambda step: in_all[step - 1], 0.0, False),
        "matrices and schedule": (lambda step: path[step - 1], 0.0, False),
        "penalty": (cubic, LAM, False),
        "more penalty": (cubic, MORE, False),
        "equal shares, penalty": (
            lambda step: dict.fromkeys(of_each, cubic(step)),
            LAM,
            False,
        ),
        "penalty, signs drawn": (cubic, LAM, True),
        "more penalty, signs drawn": (cubic, MORE, True),
    }
    kept: dict[str, Masks] = {}
    for name, (schedule, lam, draw_signs) in tried.items():
        found, kept[name] = by_movement(seed, schedule, lam=lam, draw_signs=draw_signs, how=how)
        both = sum(int((soft[n] & kept[name][n]).sum()) for n in soft)
        note(name, found, shared=both / sum(int(m.sum()) for m in soft.values()))
    arms.append({"method": "soft, held", **held(seed, soft, how)})
    arms.append({"method": "said, held", **held(seed, kept["said"], how)})
    path_in_all = list(enumerate(in_all, start=1))[:: max(1, steps // 40)]
    return {
        "arms": arms,
        "kept": by_name,
        "path": [{"step": step, "share": left} for step, left in path_in_all],
    }


def remake_soft(executor: Executor, folder: Path) -> Result:
    """The three checkpoints, all of :func:`differences`."""
    found = each_seed(executor, folder, SEEDS, differences)
    return Result(found, {"lam": LAM, "more": MORE})


RESULTS = {"lab06_soft": remake_soft}
