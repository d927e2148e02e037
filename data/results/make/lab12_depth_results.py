"""Lab 12's stored results: a language model without some of its layers.

``windows`` and ``tasks`` as in ``lab12_results.py``; ``seed`` draws the layers removed at random,
the windows that influence is measured on, the texts that heal. Layers count from 1.

Source: Men et al. 2024 (ShortGPT); Gromov et al. 2024 (layers removed, then healed).
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable, Mapping
from concurrent.futures import Executor
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from lab12_results import (
    COMMON,
    Found,
    Job,
    calibrated,
    dense,
    every,
    measure_dense,
    measured,
    windows,
)
from torch import nn

from course_lib.cost import latency
from course_lib.experiments import Result, lab12
from course_lib.experiments.once import each
from course_lib.models.decoders import decoder_layers
from course_lib.pruning.layers import influence, take_layers
from course_lib.training import fit_batches, warm_up_then_decay

DEPTH: dict[str, Any] = {**COMMON, "random": {2: 20, 4: 3}, "alone": 8, "seeds": 3}
RULES = ("influence", "single ablation", "last before the end", "last")
HEALING: dict[str, Any] = {**COMMON, "removed": 4, "steps": 40, "lr": 1e-4, "seeds": 3}
HEALING["measured"] = (0, 10, 20, 40)  # steps
Scores = Mapping[str, list[list[float]]]  # rule -> of each seed, of each layer
CLOCK = {"prompt": 128, "new": 16, "repeats": 7}


def without(removed: Iterable[int]) -> nn.Module:
    """The model without these layers, counted from 1."""
    path, layers = decoder_layers(dense()[0])
    kept = {*range(len(layers))} - {layer - 1 for layer in removed}
    return take_layers(dense()[0], path, sorted(kept))


def choose(rule: str, count: int, scores: Scores, seed: int = 0) -> list[int]:
    """The layers that go."""
    layers = [*range(1, 1 + len(scores["influence"][0]))]
    if rule == "random":
        return sorted(random.Random(seed).sample(layers, count))
    if rule.startswith("last"):
        return layers[-count - 1 : -1] if rule == "last before the end" else layers[-count:]
    return sorted(sorted(layers, key=lambda layer: scores[rule][seed][layer - 1])[:count])


def measure_influence(seed: int) -> list[float]:
    return influence(dense()[0], windows(seed)).tolist()


def measure_alone() -> list[float]:
    """How much the loss on a few calibration windows rises without each layer."""
    few, layers = windows(0, DEPTH["alone"]), range(len(decoder_layers(dense()[0])[1]) + 1)
    whole, *alone = (lab12.log_losses(without([i]), few).mean() for i in layers)
    return [float(loss - whole) for loss in alone]


def measure_depth(removed: list[int], tasks: bool) -> Found:
    return measured(without(removed), tasks)


def measure_healing(removed: list[int], seed: int) -> Found:
    """Before, during and after a full fine-tuning on the text that calibrates."""
    steps, model, found = HEALING["steps"], without(removed), Found()

    def note(step: int) -> None:
        if step in HEALING["measured"]:
            for table, rows in measured(model, tasks=step == steps).items():
                found.setdefault(table, []).extend({"steps": step, **row} for row in rows)

    note(0)
    batches = ({"input_ids": x, "labels": x} for x in windows(seed, 4 * steps))
    how: dict[str, Any] = {"rate": warm_up_then_decay(5), "weight_decay": 0.0, "seed": seed}
    made = itertools.count(1)
    how["post_step"] = lambda: note(next(made))
    fit_batches(model, batches, steps, lr=HEALING["lr"], progress=False, **how)
    return found


def clock(model: Any, prompt: int = 128, new: int = 16, repeats: int = 7) -> dict[str, float]:
    """Milliseconds of processor time a token, one thread: ``prompt (ms)`` for each of a prompt's,
    which are read at once, ``generation (ms)`` for each of ``new`` that follow, with a cache.
    """
    ids = torch.arange(1, 1 + prompt)[None]
    how = {"do_sample": False, "pad_token_id": 0, "attention_mask": torch.ones_like(ids)}

    def generate(tokens: int) -> Any:
        return model.generate(ids, min_new_tokens=tokens, max_new_tokens=tokens, **how)

    runs = {"one": partial(generate, 1), "more": partial(generate, 1 + new)}
    times = latency.compare(runs, warmup=1, repeats=repeats, threads=1)
    one, more = (1e3 * times[name].median for name in runs)
    return {"prompt (ms)": one / prompt, "generation (ms)": (more - one) / new}


def measure_speed(removed: list[int]) -> Found:
    model = without(removed)
    mb = 4e-6 * sum(p.numel() for p in model.parameters())
    return {"speed": [{"removed": len(removed), "MB": mb, **clock(model, **CLOCK)}]}


def scored(executor: Executor, folder: Path) -> Scores:
    """The scores by which layers are chosen."""
    alone = each(executor, folder, measure_alone, [()])
    seeds = [(seed,) for seed in range(DEPTH["seeds"])]
    return {"influence": each(executor, folder, measure_influence, seeds), "single ablation": alone}


def remake_depth(executor: Executor, folder: Path) -> Result:
    """Two and four of its layers removed, by rules and at random."""
    scores = scored(executor, folder)
    rows = [
        {"seed": seed, "method": rule, "layer": layer, "score": score}
        for rule, of_seeds in scores.items()
        for seed, of_layers in enumerate(of_seeds)
        for layer, score in enumerate(of_layers, start=1)
    ]
    jobs: list[Job] = [
        ({"seed": 0, "method": "dense", "count": 0, "layers": ""}, measure_dense, ())
    ]
    for count, draws in DEPTH["random"].items():
        seeds = dict.fromkeys(RULES, 1) | {"influence": DEPTH["seeds"], "random": draws}
        for rule, seed in [(rule, seed) for rule, n in seeds.items() for seed in range(n)]:
            gone = choose(rule, count, scores, seed)
            about = {"seed": seed, "method": rule, "count": count}
            about["layers"] = " ".join(map(str, gone))
            jobs.append((about, measure_depth, (gone, seed == 0)))
    table = pd.DataFrame(rows).round(5)
    return Result({**every(executor, folder, jobs), "scores": table}, DEPTH | calibrated())


def remake_healing(executor: Executor, folder: Path) -> Result:
    """Four layers removed, and then a short fine-tuning; the whole model gets it, too."""
    scores, jobs = scored(executor, folder), list[Job]()
    for seed in range(HEALING["seeds"]):
        for rule in ("dense", "influence", "last before the end", "last", "random"):
            draw = seed if rule == "random" else 0  # the other layers are the same in all
            gone = [] if rule == "dense" else choose(rule, HEALING["removed"], scores, draw)
            about = {"seed": seed, "method": rule, "layers": " ".join(map(str, gone))}
            jobs.append((about, measure_healing, (gone, seed)))
    return Result(every(executor, folder, jobs), HEALING | calibrated())


def remake_speed(executor: Executor, folder: Path) -> Result:
    """Milliseconds a token, and MB, with layers removed; on a quiet machine."""
    jobs: list[Job] = [({"seed": 0}, measure_speed, ([*range(2, 2 + k)],)) for k in (0, 2, 4)]
    return Result(every(executor, folder, jobs), CLOCK)


RESULTS = {
    "lab12_depth": remake_depth,
    "lab12_healing": remake_healing,
    "lab12_speed": remake_speed,
}
