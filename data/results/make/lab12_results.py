"""Lab 12's stored results: a language model's weights, pruned and rounded without training.

Of every arm ``windows`` has the mean −ln p of each test window, and ``tasks`` the answers that
are right, in %. ``seed`` draws the windows that calibrate (0 where none do). Embeddings and
head stay as they are. Layers removed: ``lab12_depth_results.py``.

Source: Sun et al. 2023 (Wanda); Frantar & Alistarh 2023 (SparseGPT); Frantar et al. 2022 (GPTQ).
"""

from __future__ import annotations

import ast
import copy
import platform
import random
import sysconfig
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from course_lib import paths
from course_lib.experiments import Result, lab12
from course_lib.experiments.once import once, tables
from course_lib.modes import evaluating
from course_lib.perplexity import cut_windows
from course_lib.pruning.weights import nm_mask, per_output_masks, prune_and_round, walk_layers_
from course_lib.pruning.weights.column_loop import bits_per_weight

MODEL: str | None = None  # any decoder that from_pretrained finds; None: SmolLM2-135M-Instruct
COMMON: dict[str, Any] = {"model": MODEL or lab12.FILE, "length": 256}
COMMON |= {"test": 64, "calibration": 32, "questions": 100}  # windows, windows, of a task
METHODS = ("magnitude", "Wanda", "SparseGPT")
EXCHANGED = ("SparseGPT's mask alone", "Wanda's mask, updated")  # at 50 %
PATTERNS: dict[str, dict[str, Any]] = {
    "30 %": {"sparsity": 0.3},
    "50 %": {"sparsity": 0.5},
    "2:4": {"pattern": (2, 4)},
}
WEIGHTS: dict[str, Any] = {**COMMON, "patterns": PATTERNS, "seeds": 3}
WEIGHTS |= {"texts": ("calibration", "docstrings")}  # the second at 50 % alone
GROUP = 64  # weights that share a scale and a smallest value, 16 bits each
FORMATS: dict[str, dict[str, Any]] = {f"int{bits}": {"bits": bits} for bits in (8, 4, 3)}
FORMATS |= {f"{name} of int4": {"bits": 4, **PATTERNS[name]} for name in ("50 %", "2:4")}
NEAREST = ("int4", "int3")  # of 8 bits either is the dense model
BITS: dict[str, Any] = {**COMMON, "formats": FORMATS, "group": GROUP, "seeds": 3}

VALIDATION, CHARACTERS = "valid.txt", 400_000  # of a text, at most

PAIRS = {"(": ")", "[": "]", "{": "}"}
FIRST = ("Anna", "Peter", "Maria", "Thomas", "Samuel", "Clara", "Viktor", "Elena", "Hugo")
LAST = ("Kowalski", "Okafor", "Lindqvist", "Marchetti", "Delgado", "Novak", "Petrov", "Yilmaz")
TOWNS = ("Paris", "Rome", "London", "Berlin", "Madrid", "Vienna")

Found = dict[str, list[dict[str, Any]]]  # table -> rows
Job = tuple[dict[str, Any], Callable[..., Found], tuple[Any, ...]]  # what rows begin with


# ----------------------------------------------------------------- tasks, answers known
class Question(NamedTuple):
    """What the model reads, and what alone is right after it."""

    prompt: str
    answer: str


def questions(count: int, seed: int = 0) -> dict[str, list[Question]]:
    """ "brackets": close two or three, after six examples that each question draws; "names": who
    lives in this town, of three people named before? The first name is given.
    """
    draw = random.Random(seed)

    def brackets(depth: int) -> tuple[str, str]:
        opened = draw.choices([*PAIRS], k=depth)
        return " ".join(opened), "".join(f" {PAIRS[one]}" for one in reversed(opened))

    tasks: dict[str, list[Question]] = {"brackets": [], "names": []}
    for _ in range(count):
        shots = [brackets(depth) for depth in (1, 2, 3, 2, 3, 1)]
        examples = "".join(f"{opened} ->{closed}\n" for opened, closed in shots)
        opened, closed = brackets(draw.choice((2, 3)))
        tasks["brackets"].append(Question(f"{examples}{opened} ->", closed))
        people = [*zip(draw.sample(FIRST, 3), draw.sample(LAST, 3), strict=True)]
        towns = draw.sample(TOWNS, 3)
        told = [f"{a} {b} lives in {c}." for (a, b), c in zip(people, towns, strict=True)]
        (first, last), town = draw.choice([*zip(people, towns, strict=True)])
        prompt = f"{' '.join(told)} Who lives in {town}? {first}"
        tasks["names"].append(Question(prompt, f" {last}"))
    return tasks


@torch.no_grad()
def answers(model: nn.Module, tokenizer: Any, asked: Sequence[Question], batch: int = 20) -> Tensor:
    """Whether the model writes the right answer if it takes its likeliest token each time:
    bool (questions,).

    Of an answer that is right all tokens are likeliest after those before, so one pass over
    prompt and answer says it; what stands after them is not seen by what comes before.
    """
    right: list[bool] = []
    with evaluating(model):
        for at in range(0, len(asked), batch):
            part = asked[at : at + batch]
            known = [
                (lab12.encode(tokenizer, q.prompt), lab12.encode(tokenizer, q.answer)) for q in part
            ]
            longest = max(len(prompt) + len(answer) for prompt, answer in known)
            rows = [F.pad(both := torch.cat(k), (0, longest - len(both))) for k in known]
            likeliest = model(torch.stack(rows), use_cache=False).logits.argmax(-1)  # (B, L)
            for (prompt, answer), row in zip(known, likeliest, strict=True):
                end = len(prompt) + len(answer) - 1
                right.append(bool((row[len(prompt) - 1 : end] == answer).all()))
    return torch.tensor(right)


# ---------------------------------------------------------------- model, texts, what is lost
@cache
def dense() -> tuple[nn.Module, Any]:
    return lab12.load(MODEL)


def calibration() -> str:
    """WikiText-2's validation part, if the data set is here; else the course's excerpt of it."""
    folder, _ = paths.data_folder("wikitext-2", [VALIDATION])
    whole = folder and (folder / VALIDATION).read_text(encoding="utf-8")
    return (whole or lab12.excerpt("calibration"))[:CHARACTERS]


@cache
def docstrings(characters: int = CHARACTERS) -> str:
    """Docstrings of Python's own standard library, file after file by name, of so many or more."""
    parts: list[str] = []
    for file in sorted(Path(sysconfig.get_path("stdlib")).glob("*.py")):
        tree = ast.parse(file.read_text(encoding="utf-8", errors="replace"))
        documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
        nodes = (node for node in ast.walk(tree) if isinstance(node, documented))
        parts += [text for node in nodes if (text := ast.get_docstring(node))]
        if sum(map(len, parts)) > characters:
            break
    return "\n\n".join(parts)


@cache
def tokens(of: str) -> Tensor:
    """Of "test", "calibration" or "docstrings": (n,)."""
    texts = {"calibration": calibration, "docstrings": lambda: docstrings()[:CHARACTERS]}
    return lab12.encode(dense()[1], texts.get(of, partial(lab12.excerpt, of))())


def draw_windows(tokens: Tensor, count: int, seed: int, length: int = lab12.LENGTH) -> list[Tensor]:
    """Windows that begin anywhere, drawn, in batches (4, length); they may overlap."""
    generator = torch.Generator().manual_seed(seed)
    starts = torch.randint(0, len(tokens) - length, (count,), generator=generator)
    return [*torch.stack([tokens[start : start + length] for start in starts]).split(4)]


def windows(seed: int, count: int | None = None, of: str = "calibration") -> list[Tensor]:
    """To calibrate on; ``count``: other than that of ``COMMON``."""
    count = count or COMMON["calibration"]
    return draw_windows(tokens(of), count, seed, COMMON["length"])


def measured(model: nn.Module, tasks: bool = True) -> Found:
    test = cut_windows(tokens("test")[: COMMON["test"] * COMMON["length"]], COMMON["length"], 4)
    losses = enumerate(lab12.log_losses(model, test).tolist())
    found: Found = {"windows": [{"window": i, "nll": nll} for i, nll in losses]}
    for task, asked in questions(COMMON["questions"]).items() if tasks else ():
        right = 100 * float(answers(model, dense()[1], asked).double().mean())
        found.setdefault("tasks", []).append({"task": task, "right": right})
    return found


def measure_dense(tasks: bool = True) -> Found:
    return measured(dense()[0], tasks)


def calibrated() -> dict[str, int]:
    """A setting: how much of WikiText-2 the windows that calibrate are drawn from."""
    return {"characters": len(calibration())}


def every(executor: Executor, folder: Path, jobs: Iterable[Job]) -> dict[str, pd.DataFrame]:
    """The tables of all jobs, each done once, in this order."""
    futures = [(about, executor.submit(once, folder, run, *args)) for about, run, args in jobs]
    found = tables((about, future.result()) for about, future in futures)
    return {name: table.round(5) for name, table in found.items()}


# ------------------------------------------------------------------------- weights and bits
def changed(change: Callable[..., Tensor], batches: Any, squares: bool = False) -> nn.Module:
    model = copy.deepcopy(dense()[0])
    walk_layers_(model, batches, change, squares=squares)
    return model


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


def measure_weights(method: str, pattern: str, text: str, seed: int) -> Found:
    """One method, one pattern; ``text`` calibrates."""
    start = time.process_time()
    batches = windows(seed, 1 if method == "magnitude" else None, text)  # which sees none
    change = partial(prune, method, PATTERNS[pattern])
    model = changed(change, batches, squares=method in METHODS[:2])
    seconds = round(time.process_time() - start, 1)
    found = measured(model, tasks=(pattern, text, seed) == ("50 %", "calibration", 0))
    return {**found, "seconds": [{"seconds": seconds}]}


def measure_bits(method: str, form: str, seed: int) -> Found:
    """Rounded by the column loop, or each weight to the nearest."""

    def change(_: str, weight: Tensor, sums: Tensor) -> Tensor:
        gram = 0 * sums if method == "nearest" else sums
        return prune_and_round(weight, gram, group=GROUP, **FORMATS[form])

    batches = windows(seed, 1 if method == "nearest" else None)
    return measured(changed(change, batches), tasks=False)


def bits(form: str) -> float:
    """Stored per weight: kept weights, a bit for each that may be 0, what a group shares."""
    how = FORMATS[form]
    kept, of = how.get("pattern", (1, 1))
    return bits_per_weight(how["bits"], kept / of - how.get("sparsity", 0.0), GROUP)


def remake_weights(executor: Executor, folder: Path) -> Result:
    """Weights removed from a language model by three methods; masks and updates exchanged."""
    patterns, (text, *others) = WEIGHTS["patterns"], WEIGHTS["texts"]
    arms = [(method, pattern, text) for method in METHODS for pattern in patterns]
    arms += [(method, "50 %", text) for method in EXCHANGED]
    arms += [(method, "50 %", other) for other in others for method in METHODS[1:]]
    names = ("method", "pattern", "text")
    jobs: list[Job] = [
        ({"seed": 0, "method": "dense", "pattern": "", "text": ""}, measure_dense, ())
    ]
    for seed in range(WEIGHTS["seeds"]):
        for arm in arms[len(patterns) * (seed > 0) :]:  # magnitude draws nothing
            about = {"seed": seed, **dict(zip(names, arm, strict=True))}
            jobs.append((about, measure_weights, (*arm, seed)))
    python = {"python": platform.python_version()}  # whose docstrings calibrate
    return Result(every(executor, folder, jobs), WEIGHTS | python | calibrated())


def remake_bits(executor: Executor, folder: Path) -> Result:
    """The same model in fewer bits, and half of its weights of 4 bits."""
    jobs: list[Job] = [
        ({"seed": 0, "method": "dense", "format": "", "bits": 5.0}, measure_dense, (False,))
    ]
    for seed in range(BITS["seeds"]):
        for form in FORMATS:
            for method in ("the loop", "nearest")[: 1 + (seed == 0 and form in NEAREST)]:
                about = {"seed": seed, "method": method, "format": form}
                about["bits"] = bits(form)
                jobs.append((about, measure_bits, (method, form, seed)))
    return Result(every(executor, folder, jobs), BITS | calibrated())


RESULTS = {"lab12_weights": remake_weights, "lab12_bits": remake_bits}
