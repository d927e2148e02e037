"""Lab 07's experiments: what they run, and the tables that they return.

Functions of the notebook (``gated``, ``slice_heads``, …) are arguments. In tables layers
and heads count from 1. The long runs, and the papers: ``data/results/make/lab07_results.py``.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

import pandas as pd
import torch
import torch.nn.functional as F
from matplotlib.figure import Figure
from torch import Tensor, nn

from course_lib import experiments
from course_lib.cost import latency
from course_lib.data import pieces, reviews
from course_lib.experiments import common
from course_lib.models import checkpoints
from course_lib.pruning import heads as library
from course_lib.show import plots
from course_lib.training import Batch, accuracy

Gated = Callable[[nn.Module, Tensor], AbstractContextManager[None]]
ORDERS = ("dense", "I_h", "I_h, iterative", "single ablation", "random", "most important first")
# Michel et al. 2019, table 4: batch size -> % more examples per second, half of the heads
MICHEL = {1: 1.9, 4: 2.7, 16: 17.5, 64: 17.5}
_SPLIT = ("no consecutive", "no con-\nsecutive")


# ------------------------------------------------------------------ models, texts, loss
class Reviews(NamedTuple):
    """Generated reviews: as texts, and as batches of 50 by part."""

    data: Any
    batches: dict[str, list[Batch]]


def load(seeds: int, validation: int, test: int) -> tuple[list[nn.Module], Reviews]:
    """The shipped BERTs "reviews-bert-0", …, and reviews that none was trained on."""
    models = [checkpoints.load(f"reviews-bert-{seed}") for seed in range(seeds)]
    texts = read_reviews(models[0].tokenizer, validation=validation, test=test)
    return [checkpoint.model for checkpoint in models], texts


def read_reviews(tokenizer: Any, validation: int, test: int) -> Reviews:
    """Generated reviews, in batches of texts of similar length."""
    data = reviews.load(0, validation, test)
    encoded = pieces.encode(data, tokenizer)
    parts = ("validation", "test")
    batches = {part: list(pieces.batches(encoded[part], "sentiment", 50)) for part in parts}
    return Reviews(data, batches)


def size(model: nn.Module) -> tuple[int, int]:
    """How many layers, and heads per layer."""
    found = library.find_attention(model)
    return len(found), found[0].heads


def logits(model: nn.Module, batch: Batch) -> Tensor:
    """(B, classes)."""
    out: Tensor = model(**{name: part for name, part in batch.items() if name != "labels"}).logits
    return out


def losses(model: nn.Module, batch: Batch) -> Tensor:
    """The cross-entropy of each text, (B,): the ``loss_fn`` of ``head_importance``."""
    return F.cross_entropy(logits(model, batch), batch["labels"], reduction="none")


def evaluator(
    model: nn.Module, batches: Sequence[Batch], gated: Gated = library.gated
) -> Callable[[Tensor], float]:
    """Accuracy in % on ``batches`` as a function of gates (layers, heads)."""

    def evaluate(xi: Tensor) -> float:
        with gated(model, xi):
            return accuracy(model, batches)

    return evaluate


def mover(
    model: nn.Module, batches: Sequence[Batch], gated: Gated = library.gated
) -> Callable[[Tensor], float]:
    """How far gates (layers, heads) move the difference of the two logits of a text: mean
    |change| over the texts, 0 with all gates at 1.
    """

    @torch.no_grad()
    def margins(xi: Tensor) -> Tensor:
        with gated(model.eval(), xi):
            return torch.cat([logits(model, batch).diff(dim=1)[:, 0] for batch in batches])

    whole = margins(torch.ones(size(model)))
    return lambda xi: float((margins(xi) - whole).abs().mean())


# ------------------------------------------------------------------------------- tables
def per_head(values: Tensor, measure: str) -> list[dict[str, Any]]:
    """Rows ``layer``, ``head``, ``measure`` of a grid (layers, heads)."""
    return [
        {"layer": layer, "head": head, measure: value}
        for layer, row in enumerate(values.tolist(), start=1)
        for head, value in enumerate(row, start=1)
    ]


def by_layer(values: Sequence[Tensor]) -> pd.DataFrame:
    """Wide, for a heat map: a row per layer of each model, a column per head."""
    several = len(values) > 1
    layers = {
        f"model {seed}, layer {layer}" if several else f"layer {layer}": row.tolist()
        for seed, grid in enumerate(values, start=1)
        for layer, row in enumerate(grid, start=1)
    }
    heads = pd.RangeIndex(1, 1 + values[0].shape[1], name="head")
    return pd.DataFrame.from_dict(layers, orient="index", columns=heads).rename_axis(index="")


def stored_grids(table: str, value: str) -> list[Tensor]:
    """A column of a stored table as a grid (layers, heads) per model."""
    runs = experiments.read(f"lab07_heads/{table}").groupby("seed")
    wide = [run.pivot(index="layer", columns="head", values=value) for _, run in runs]
    return [torch.tensor(grid.to_numpy()) for grid in wide]


def by_model(table: pd.DataFrame, value: str, rows: str = "method") -> pd.DataFrame:
    """Wide: a column per model, the mean over draws."""
    table = table.assign(model="model " + (table["seed"] + 1).astype(str))
    wide = table.pivot_table(value, rows, "model", sort=False)
    return wide.rename_axis(columns=None).reset_index()


# ------------------------------------------------------------------------------- part A
def first_attention(model: Any, batch: Batch) -> tuple[Tensor, ...]:
    """The input of a BERT's first layer, (B, L, E), and its Wq, Wk, Wv, Wo."""
    attention = model.bert.encoder.layer[0].attention
    parts = (attention.self.query, attention.self.key, attention.self.value, attention.output.dense)
    with torch.no_grad():
        x = model.bert.embeddings(batch["input_ids"])
    return x, *(part.weight.detach() for part in parts)


@torch.no_grad()
def logit_changes(model: nn.Module, gated: Gated, batch: Batch) -> dict[str, float]:
    """The largest change of a logit by gates of 1 or 0, and by transformers' ``head_mask``."""
    one, before, after = torch.ones(size(model)), logits(model, batch), {}
    for gate in (1, 0):
        with gated(model, gate * one):
            after[f"all gates at {gate}"] = logits(model, batch)
    after["head_mask of zeros"] = logits(model, batch | {"head_mask": 0 * one})
    return {how: float((found - before).abs().max()) for how, found in after.items()}


def without_layers(
    models: Sequence[nn.Module], batches: Sequence[Batch], gated: Gated
) -> pd.DataFrame:
    """Accuracy in % with all heads, and with all heads of one layer off."""
    rows = []
    for m, model in enumerate(models, start=1):
        evaluate = evaluator(model, batches, gated)
        for off in range(size(model)[0] + 1):
            xi = torch.ones(size(model))
            xi[off - 1 : off] = 0  # layer 0: none
            name = f"layer {off}" if off else "none"
            rows.append({"model": f"model {m}", "off": name, "accuracy": evaluate(xi)})
    return pd.DataFrame(rows)


# ------------------------------------------------------------------------------- part B
def batch_gradients(
    model: nn.Module, batches: Sequence[Batch], gated: Gated, sizes: Sequence[int]
) -> dict[int, float]:
    """Batch size -> the mean over heads and batches of |gradient of the batch's mean loss|."""
    found = {}
    for B in sizes:
        gradients: list[Tensor] = []
        for batch in batches:
            for i in range(0, len(batch["labels"]), B):
                part = {name: values[i : i + B] for name, values in batch.items()}
                xi = torch.ones(size(model), requires_grad=True)  # shared by all texts
                with gated(model, xi):
                    gradients += torch.autograd.grad(losses(model, part).mean(), xi)
        found[B] = float(torch.stack(gradients).abs().mean())
    return found


def rank_correlation(one: Tensor, other: Tensor) -> float:
    """Spearman's, over all heads."""
    a, b = (pd.Series(grid.double().flatten().numpy()) for grid in (one, other))
    return float(a.corr(b, method="spearman"))


def beside_stored(mine: Sequence[tuple[int, float]]) -> pd.DataFrame:
    """All heads of a layer off but one: points of test accuracy lost, by your ``all_but_one``
    on the first model, and in the stored run.
    """
    runs = experiments.read("lab07_heads/all_but_one")
    runs = runs.assign(run="model " + (runs["seed"] + 1).astype(str), lost=-runs["change"])
    yours = pd.DataFrame({"lost": [-change for _, change in mine], "run": "yours, model 1"})
    yours["layer"] = [f"layer {layer}" for layer in range(1, len(mine) + 1)]
    return pd.concat([yours, runs[["run", "layer", "lost"]]])


# ------------------------------------------------------------------------------- part C
def draw_orders(live: tuple[float, float] | None = None) -> Figure:
    """Test accuracy against heads removed: a panel per small model, and one of SST-2 (mean of
    three fine-tunings). ``live``: a run on the first model, (share removed, accuracy).
    """
    stored = experiments.read("lab07_heads/removal").query("method in @ORDERS")
    parts = {f"model {seed + 1}": run for seed, run in stored.groupby("seed")}
    parts["SST-2, mean of three runs"] = experiments.read("lab07_sst2/removal")
    fig, axes = plots.subplots(2, 2, 7.0)
    for ax, (name, run) in zip(axes.flat, parts.items(), strict=True):
        groups = run.groupby(["method", "removed"], sort=False, dropna=False)
        table = groups["test"].mean().reset_index()
        look: dict[str, Any] = {"xaxis": "sparsity", "xlabel": "heads pruned", "constant": 50}
        plots.curves(table, x="removed", y="test", title=name, ax=ax, **look)
        ax.set_ylim(45, 101)
        ax.set_xticks(table["removed"].dropna().unique())
    if live:
        star = axes[0, 0].plot(*live, "*", color="k", ms=13, zorder=7, label="your loop")
        axes[0, 0].legend(handles=star, loc="lower left")
    fig.suptitle("Which order of removal keeps the accuracy?")
    return fig


def rank_changes(scored: Sequence[tuple[Tensor, Tensor]]) -> dict[int, float]:
    """Of (heads kept, scores) of each scoring, the first with all heads: how many are kept ->
    rank correlation of their scores now and at first.
    """
    first = scored[0][1]
    return {int(k.sum()): rank_correlation(first[k], now[k]) for k, now in scored[1:]}


def fine_tuning() -> pd.DataFrame:
    """The stored run: test accuracy with heads removed, and after 200 steps of training;
    ``setting`` is share and time.
    """
    table = experiments.read("lab07_heads/fine_tuning")
    return table.assign(setting=table["removed"].map("{:.0%}".format) + " " + table["when"])


def draw_fine_tuning(guess: tuple[str, Any] | None = None) -> Figure:
    """Bars after the fine-tuning, a mark per method before it; a panel per share removed.
    ``guess``: (method, accuracy at 80 %).
    """
    stored = fine_tuning()
    fig, axes = plots.subplots(2, 1, 7.0)
    dense = stored[(stored["method"] == "dense") & (stored["when"] == "fine-tuned")]
    for ax, share in zip(axes, (0.5, 0.8), strict=True):
        table = stored[stored["removed"] == share]
        table = table.assign(method=table["method"].str.replace(", ", ",\n").replace(*_SPLIT))
        after = pd.concat([dense, table[table["when"] == "fine-tuned"]])
        before = table[table["when"] == "removed"].groupby("method", sort=False)["test"].mean()
        title = f"{share:.0%} of the heads removed".replace("%", " %")
        options: dict[str, Any] = {"constant": 50, "ylim": (40, 116), "fmt": "{:.0f}", "ax": ax}
        options["guess"] = guess if share == 0.8 else None
        plots.bars(after, x="method", y="test", title=title, **options)
        ax.plot(before.to_numpy(), "D", color="k", mfc="w", ms=7, zorder=6, label="before training")
        ax.legend(loc="upper right", ncols=2, borderaxespad=0)
    fig.suptitle("What does a short training repair?")
    return fig


# ------------------------------------------------------------------------------- part D
def sliced(model: Any, kept: Tensor, slice_heads: Callable[..., Any]) -> nn.Module:
    """A copy of a BERT that has only the heads kept, bool (layers, heads)."""
    smaller = copy.deepcopy(model)
    for layer, of_layer in zip(smaller.bert.encoder.layer, kept, strict=True):
        part, output = layer.attention.self, layer.attention.output
        keep, width = of_layer.nonzero().flatten().tolist(), part.attention_head_size
        part.query, part.key, part.value, output.dense = slice_heads(
            part.query, part.key, part.value, output.dense, keep, width
        )
        part.num_attention_heads, part.all_head_size = len(keep), len(keep) * width
    return smaller


def wide_layer() -> tuple[nn.Module, nn.Module]:
    """One layer as wide as BERT-base's, with random weights; and with 6 of its 12 heads."""
    from transformers import BertConfig, BertModel

    config = BertConfig(num_hidden_layers=1, vocab_size=1000)
    wide = BertModel(config, add_pooling_layer=False).eval()
    return wide, library.remove_heads(wide, torch.arange(12)[None] < 6)


def clock(whole: nn.Module, half: nn.Module, repeats: Mapping[int, int]) -> list[dict[str, float]]:
    """Processor time of two models on texts of 32 tokens, one thread, taking turns.

    Args:
        repeats: texts in a batch -> how often it is timed.

    Returns:
        Rows ``batch``, ``all heads (ms)``, ``half (ms)``, and ``gain``: more texts per
        second, in %.
    """
    rows = []
    for batch, often in repeats.items():
        ids = torch.randint(5, 600, (batch, 32), generator=torch.Generator().manual_seed(0))
        models = {"all heads": whole, "half": half}
        runs = {name: common.forward_on_cpu(model, ids) for name, model in models.items()}
        times = latency.compare(runs, warmup=1, repeats=often, threads=1)
        ms = {f"{name} (ms)": 1e3 * time.median for name, time in times.items()}
        gain = 100 * (times["all heads"].times_slower_than(times["half"]) - 1)
        rows.append({"batch": batch, **ms, "gain": gain})
    return rows


def seconds() -> pd.DataFrame:
    """``gain`` by ``batch`` of the stored run, and what Michel et al. report for a GPU."""
    stored = experiments.read("lab07_heads/seconds")
    paper = pd.DataFrame({"batch": MICHEL.keys(), "gain": MICHEL.values()})
    return pd.concat([stored, paper.assign(model="Michel et al., GPU", seed=0)])


def domain_correlations(domains: pd.DataFrame) -> pd.DataFrame:
    """Pearson's r of importance over heads, for each pair of samples: of two domains, or of
    one, which is the most that two domains can be expected to reach.
    """
    rows = []
    for seed, run in domains.groupby("seed"):
        wide = run.pivot(index=["layer", "head"], columns=["domain", "sample"], values="importance")
        r = wide.corr()
        for one, other in itertools.combinations(wide.columns, 2):
            texts = "one domain" if one[0] == other[0] else "two domains"
            rows.append({"seed": seed, "texts": texts, "r": r.loc[one, other]})
    return pd.DataFrame(rows).sort_values("texts", ascending=False, kind="stable")


def draw_domains(domains: pd.DataFrame) -> Figure:
    """The first model's importances × 100, head by head: of two domains, and of two samples
    of one domain; with Pearson's r.
    """
    run = domains[domains["seed"] == 0]
    wide = 100 * run.pivot(
        index=["layer", "head"], columns=["domain", "sample"], values="importance"
    )
    first, second = run["domain"].unique()[:2]
    fig, axes = plots.subplots(1, 2, 4.6, sharex=True, sharey=True)
    words = []
    for ax, other in zip(axes, ((second, 0), (first, 1)), strict=True):
        x, y = wide[first, 0], wide[other]
        title = "two domains" if other[0] == second else "one domain"
        words.append(f"{title}: {len(x)} heads, Pearson's r = {x.corr(y):.2f}")
        labels: dict[str, Any] = {
            "xlabel": f"{first}, sample 1",
            "ylabel": f"{other[0]}, sample {other[1] + 1}",
        }
        pair = pd.DataFrame({"x": x, "y": y})
        title = f"{title}: r = {x.corr(y):.2f}"
        plots.scatter(pair, x="x", y="y", title=title, diagonal=True, ax=ax, **labels)
    fig.suptitle("$I_h$ × 100 of the first model's heads, measured twice")
    fig.course_table = ". ".join(words) + "."  # type: ignore[attr-defined]
    return fig


def naive_test(f: Callable[..., Tensor]) -> None:
    """AssertionError unless the parts add up to PyTorch's multi-head attention."""
    generator = torch.Generator().manual_seed(0)
    for B, L, E, heads in ((2, 5, 12, 3), (3, 4, 8, 1), (1, 7, 16, 8)):
        x = torch.randn(B, L, E, generator=generator)
        Wq, Wk, Wv, Wo = (torch.randn(E, E, generator=generator) for _ in range(4))
        layer = nn.MultiheadAttention(E, heads, bias=False, batch_first=True)
        layer.in_proj_weight = nn.Parameter(torch.cat([Wq, Wk, Wv]))
        layer.out_proj.weight = nn.Parameter(Wo)
        parts = f(x, Wq, Wk, Wv, Wo, heads)
        assert parts.shape == (heads, B, L, E)
        assert torch.allclose(parts.sum(0), layer(x, x, x)[0], rtol=1e-3, atol=1e-3)
