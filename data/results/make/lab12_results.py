"""Lab 12's stored results: a language model, pruned and rounded without training.

Of every arm a table ``windows`` has the mean −ln p of each test window, and ``tasks`` the
answers that are right, in %. ``seed`` draws the calibration windows, or the layers removed at
random; what needs neither has seed 0. Layers count from 1. Embeddings and head stay as they are.

Source: Sun et al. 2023 (Wanda); Frantar & Alistarh 2023 (SparseGPT); Frantar et al. 2022 (GPTQ);
Men et al. 2024 (ShortGPT); Gromov et al. 2024 (layers removed, then healed).
"""

from __future__ import annotations

import copy
import platform
import random
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Executor
from functools import cache, partial
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from torch import Tensor, nn

from course_lib.experiments import Result, lab12
from course_lib.experiments.once import once, tables
from course_lib.models.decoders import decoder_layers
from course_lib.pruning.layers import influence, take_layers
from course_lib.pruning.weights import (
    nm_mask,
    per_output_masks,
    prune_and_round,
    walk_layers_,
)
from course_lib.training import fit_batches, warm_up_then_decay

MODEL: str | None = None  # any decoder that from_pretrained finds; None: SmolLM2-135M-Instruct
SIZES: dict[str, Any] = {"test": 64, "calibration": 32, "length": 256, "questions": 100}
PATTERNS: dict[str, dict[str, Any]] = {
    "30 %": {"sparsity": 0.3},
    "50 %": {"sparsity": 0.5},
    "2:4": {"pattern": (2, 4)},
}
METHODS = ("magnitude", "Wanda", "SparseGPT")
EXCHANGED = ("SparseGPT's mask alone", "Wanda's mask, updated")  # at 50 %
SEEDS = 3
WEIGHTS = {"sizes": SIZES, "patterns": PATTERNS, "exchanged": EXCHANGED, "seeds": SEEDS}
WEIGHTS |= {"docstrings": "Python " + ".".join(platform.python_version_tuple()[:2])}
GROUP = 64  # weights that share a scale and a smallest value, 16 bits each
FORMATS: dict[str, dict[str, Any]] = {f"int{bits}": {"bits": bits} for bits in (8, 4, 3)}
FORMATS |= {f"{name} of int4": {"bits": 4, **PATTERNS[name]} for name in ("50 %", "2:4")}
BITS = {"sizes": SIZES, "formats": FORMATS, "group": GROUP, "seeds": 1}
DEPTH = {"sizes": SIZES, "removed": (2, 4), "random": {2: 20, 4: 3}, "alone": 8, "seeds": SEEDS}
HEALING = {"sizes": SIZES, "removed": 4, "steps": 40, "batch": 4, "lr": 1e-4, "seeds": 1}
RULES = ("influence", "single ablation", "last before the end", "last")
CLOCK = {"prompt": 128, "new": 16, "repeats": 7}
REMOVED = (0, 2, 4)  # layers, whose speed is measured

Found = dict[str, list[dict[str, Any]]]  # table -> rows


# ------------------------------------------------------------------- model, texts, measures
@cache
def dense() -> tuple[nn.Module, Any]:
    return lab12.load(MODEL)


@cache
def text(name: str) -> Tensor:
    """Tokens; of the test text only the first that are needed."""
    if name == "docstrings":
        return lab12.encode(dense()[1], lab12.docstrings())
    return lab12.encode(dense()[1], lab12.wikitext(name)[:400_000])


def calibration(seed: int, name: str = "calibration", count: int | None = None) -> Any:
    """Windows of a text, in batches of 4."""
    count = count or SIZES["calibration"]
    return lab12.draw_windows(text(name), count, seed, SIZES["length"]).split(4)


def measured(model: nn.Module, tasks: bool = True) -> Found:
    test = lab12.first_windows(text("test"), SIZES["test"], SIZES["length"])
    losses = enumerate(lab12.log_losses(model, test).tolist())
    found: Found = {"windows": [{"window": i, "nll": round(nll, 5)} for i, nll in losses]}
    asked = lab12.questions(SIZES["questions"]) if tasks else {}
    right = {task: lab12.answers(model, dense()[1], of_task) for task, of_task in asked.items()}
    found["tasks"] = [{"task": t, "right": 100 * float(r.float().mean())} for t, r in right.items()]
    return found


def changed(change: Callable[..., Tensor], batches: Any, squares: bool = False) -> nn.Module:
    """A copy of the model, its layers' matrices changed one layer after the other."""
    model = copy.deepcopy(dense()[0])
    walk_layers_(model, batches, change, squares=squares)
    return model


# ------------------------------------------------------------------------- weights and bits
def chosen(weight: Tensor, norms: Any, sparsity: float = 0.0, pattern: Any = ()) -> Tensor:
    """The mask by |w| · ‖x‖ within each output."""
    score = weight.abs() * norms
    return nm_mask(score, *pattern) if pattern else per_output_masks({"": score}, sparsity)[""]


def prune(method: str, how: Mapping[str, Any], _: str, weight: Tensor, sums: Tensor) -> Tensor:
    """One matrix; ``sums`` are Σ x² for Wanda, Σ xxᵀ for what updates."""
    if method == "magnitude":
        return weight * chosen(weight, 1.0, **how)
    if method == "Wanda":
        return weight * chosen(weight, sums.sqrt().to(weight.dtype), **how)
    if method == "Wanda's mask, updated":
        mask = chosen(weight, sums.diagonal().sqrt().to(weight.dtype), **how)
        return prune_and_round(weight, sums, mask=mask)
    new = prune_and_round(weight, sums, **how)
    return weight * (new != 0) if method == "SparseGPT's mask alone" else new


def measure_weights(method: str, pattern: str, name: str, seed: int) -> Found:
    """One method at one pattern; ``name``: of the text that calibrates."""
    start = time.process_time()
    batches = calibration(seed, name, 1 if method == "magnitude" else None)  # which sees none
    change = partial(prune, method, PATTERNS[pattern])
    model = changed(change, batches, squares=method == "Wanda")
    seconds = round(time.process_time() - start, 1)
    found = measured(model, tasks=seed == 0 and name == "calibration" and pattern != "30 %")
    return {**found, "seconds": [{"seconds": seconds}]}


def measure_bits(method: str, form: str, seed: int) -> Found:
    """Rounded by the column loop, or each weight to the nearest."""

    def change(_: str, weight: Tensor, sums: Tensor) -> Tensor:
        gram = 0 * sums if method == "nearest" else sums
        return prune_and_round(weight, gram, group=GROUP, **FORMATS[form])

    batches = calibration(seed, count=1 if method == "nearest" else None)
    return measured(changed(change, batches), tasks=seed == 0)


def bits_per_weight(bits: int, sparsity: float = 0.0, pattern: tuple[int, int] = (1, 1)) -> float:
    """Of a matrix: kept weights, a bit for each weight that may be 0 (in 2:4 two for each of
    the two kept of four, which is as many), and what a group shares.
    """
    kept = (1 - sparsity) * pattern[0] / pattern[1]
    return bits * kept + (kept < 1) + 32 / GROUP


def measure_dense() -> Found:
    return measured(dense()[0])


# ------------------------------------------------------------------------------------ depth
def without(removed: Iterable[int]) -> nn.Module:
    """The model without these layers, counted from 1."""
    path, layers = decoder_layers(dense()[0])
    gone = {*removed}
    return take_layers(dense()[0], path, [i for i in range(len(layers)) if i + 1 not in gone])


def measure_influence(seed: int) -> list[float]:
    return influence(dense()[0], calibration(seed)).tolist()


def measure_alone() -> list[float]:
    """How much the loss on a few calibration windows rises without each layer."""
    windows = torch.cat(calibration(0, count=DEPTH["alone"]))
    whole = lab12.log_losses(dense()[0], windows).mean()
    layers = range(1, 1 + len(decoder_layers(dense()[0])[1]))
    return [float(lab12.log_losses(without([i]), windows).mean() - whole) for i in layers]


def choose(rule: str, count: int, scores: Mapping[str, list[float]], seed: int = 0) -> list[int]:
    """The layers that go."""
    layers = range(1, 1 + len(scores["influence"]))
    if rule == "random":
        return sorted(random.Random(seed).sample(layers, count))
    if rule.startswith("last"):
        return [*layers][-count - 1 : -1] if "before" in rule else [*layers][-count:]
    return sorted(sorted(layers, key=lambda i: scores[rule][i - 1])[:count])


def measure_depth(removed: list[int], tasks: bool) -> Found:
    return measured(without(removed), tasks)


def measure_healing(removed: list[int], seed: int) -> Found:
    """After a full fine-tuning on the text that calibrates."""
    steps, batch = HEALING["steps"], HEALING["batch"]
    drawn = lab12.draw_windows(text("calibration"), steps * batch, seed, SIZES["length"])
    batches = ({"input_ids": x, "labels": x} for x in drawn.split(batch))
    how: dict[str, Any] = {"rate": warm_up_then_decay(5), "weight_decay": 0.0, "seed": seed}
    model = without(removed)
    fit_batches(model, batches, steps, lr=HEALING["lr"], progress=False, **how)
    return measured(model.eval())


def measure_speed(removed: list[int]) -> Found:
    model = without(removed)
    mb = sum(p.numel() for p in model.parameters()) * 4 / 1e6
    return {"speed": [{"layers removed": len(removed), "MB": mb, **lab12.clock(model, **CLOCK)}]}


# ------------------------------------------------------------------------------------- jobs
Job = tuple[dict[str, Any], Callable[..., Found], tuple[Any, ...]]
DENSE = {"seed": 0, "method": "dense"}


def every(executor: Executor, folder: Path, jobs: list[Job]) -> dict[str, Any]:
    """The tables of all jobs, each done once, in this order."""
    futures = [(about, executor.submit(once, folder, run, *args)) for about, run, args in jobs]
    return tables((about, future.result()) for about, future in futures)


def weights_jobs() -> list[Job]:
    arms = [(method, pattern, "calibration") for method in METHODS for pattern in PATTERNS]
    arms += [(method, "50 %", "calibration") for method in EXCHANGED]
    arms += [(method, "50 %", "docstrings") for method in METHODS[1:]]
    jobs: list[Job] = [({**DENSE, "pattern": "", "text": ""}, measure_dense, ())]
    for seed in range(SEEDS):
        for method, pattern, name in arms:
            if seed == 0 or method != "magnitude":
                about = {"seed": seed, "method": method, "pattern": pattern, "text": name}
                jobs.append((about, measure_weights, (method, pattern, name, seed)))
    return jobs


def bits_jobs() -> list[Job]:
    jobs: list[Job] = [({**DENSE, "format": "", "bits": 32.0}, measure_dense, ())]
    for seed in range(BITS["seeds"]):
        for form, how in FORMATS.items():
            for method in ("the loop", "nearest")[: 1 if seed or len(how) > 1 else 2]:
                about = {"seed": seed, "method": method, "format": form}
                about["bits"] = bits_per_weight(**how)
                jobs.append((about, measure_bits, (method, form, seed)))
    return jobs


def depth_jobs(scores: Mapping[str, list[float]]) -> list[Job]:
    jobs: list[Job] = [({**DENSE, "count": 0, "removed": ""}, measure_dense, ())]
    for count in DEPTH["removed"]:
        for rule in (*RULES, *["random"] * DEPTH["random"][count]):
            seed = sum(about["method"] == rule and about["count"] == count for about, *_ in jobs)
            gone = choose(rule, count, scores, seed)
            about = {"seed": seed, "method": rule, "count": count}
            about["removed"] = " ".join(map(str, gone))
            jobs.append((about, measure_depth, (gone, seed < 3)))
    return jobs


def scores_of(executor: Executor, folder: Path) -> tuple[dict[str, list[float]], list[Any]]:
    """The scores by which layers are chosen, and rows of them and of other samples."""
    runs = [executor.submit(once, folder, measure_influence, s) for s in range(DEPTH["seeds"])]
    alone = executor.submit(once, folder, measure_alone).result()
    found = [(seed, "influence", run.result()) for seed, run in enumerate(runs)]
    found.append((0, "single ablation", alone))
    rows = [
        {"seed": seed, "method": method, "layer": layer, "score": round(score, 6)}
        for seed, method, of_layers in found
        for layer, score in enumerate(of_layers, start=1)
    ]
    return {"influence": found[0][2], "single ablation": alone}, rows


def remake_weights(executor: Executor, folder: Path) -> Result:
    """Weights removed from a language model: three methods, masks and updates exchanged."""
    return Result(every(executor, folder, weights_jobs()), WEIGHTS)


def remake_bits(executor: Executor, folder: Path) -> Result:
    """The same model in fewer bits, and half of its weights of 4 bits."""
    return Result(every(executor, folder, bits_jobs()), BITS)


def remake_depth(executor: Executor, folder: Path) -> Result:
    """Two and four of its layers removed, by rules and at random."""
    scores, rows = scores_of(executor, folder)
    found = every(executor, folder, depth_jobs(scores))
    return Result({**found, "scores": pd.DataFrame(rows)}, DEPTH)


def remake_healing(executor: Executor, folder: Path) -> Result:
    """Four layers removed, and then a short fine-tuning; the whole model gets it, too."""
    scores, jobs = scores_of(executor, folder)[0], list[Job]()
    for seed in range(HEALING["seeds"]):
        for rule in ("dense", "influence", "last before the end", "last", "random"):
            gone = [] if rule == "dense" else choose(rule, HEALING["removed"], scores, seed)
            about = {"seed": seed, "method": rule, "removed": " ".join(map(str, gone))}
            jobs.append((about, measure_healing, (gone, seed)))
    return Result(every(executor, folder, jobs), HEALING)


def remake_speed(executor: Executor, folder: Path) -> Result:
    """Milliseconds a token, and bytes, with layers removed; on a quiet machine."""
    jobs: list[Job] = [({"seed": 0}, measure_speed, ([*range(2, 2 + k)],)) for k in REMOVED]
    return Result(every(executor, folder, jobs), CLOCK)


RESULTS = {
    "lab12_weights": remake_weights,
    "lab12_bits": remake_bits,
    "lab12_depth": remake_depth,
    "lab12_healing": remake_healing,
    "lab12_speed": remake_speed,
}
