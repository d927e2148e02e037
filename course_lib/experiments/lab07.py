"""Lab 07's experiments: what they run, and the tables that they return.

Functions of the notebook (``gated``, ``head_importance``, ``slice_heads``) are arguments.
In tables layers and heads count from 1. The long runs are
``data/results/make/lab07_results.py``.

Source: Michel et al. 2019, "Are Sixteen Heads Really Better than One?".
"""

from __future__ import annotations

import copy
import itertools
import textwrap
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

import pandas as pd
import torch
import torch.nn.functional as F
from matplotlib.figure import Figure
from torch import Tensor, nn

from course_lib.cost import latency
from course_lib.data import pieces, reviews
from course_lib.models import checkpoints
from course_lib.parallel import sweep
from course_lib.pruning import heads as library
from course_lib.recipes.reviews import name as checkpoint_name
from course_lib.show import plots
from course_lib.training import Batch, accuracy

Gated = Callable[[nn.Module, Tensor], AbstractContextManager[None]]
Importance = Callable[[nn.Module, Any, Callable[[nn.Module, Batch], Tensor]], Tensor]
# Michel et al. 2019, table 4: batch size -> % more examples per second, half of the heads
MICHEL = {1: 1.9, 4: 2.7, 16: 17.5, 64: 17.5}


# ------------------------------------------------------------------ models, texts, loss
class Reviews(NamedTuple):
    """Generated reviews: as texts, as token numbers, and as batches of 50 by part."""

    data: Any
    encoded: Any
    batches: dict[str, list[Batch]]

    def quote(self, row: int, part: str = "validation") -> str:
        """A review with its label, "the service was fine. (positive)"."""
        texts = self.data[part]
        label = texts.features["sentiment"].names[texts["sentiment"][row]]
        return f"{texts['text'][row]} ({label})"


def load(seeds: int, validation: int, test: int) -> tuple[list[nn.Module], Reviews]:
    """The shipped BERTs "reviews-bert-0", …, and reviews that none was trained on."""
    models = [checkpoints.load(checkpoint_name(seed)) for seed in range(seeds)]
    data = reviews.load(train=0, validation=validation, test=test)
    # one tokenizer for all of them
    encoded = pieces.encode(data, models[0].tokenizer, aligned=())
    batches = {
        part: list(pieces.batches(encoded[part], "sentiment", 50))
        for part in ("validation", "test")
    }
    return [checkpoint.model for checkpoint in models], Reviews(data, encoded, batches)


def review_batches(tokenizer: Any, **texts: int) -> dict[str, list[Batch]]:
    """Generated reviews as batches of texts of similar length:
    ``review_batches(tokenizer, validation=500, test=500)``.
    """
    data = reviews.load(texts.get("train", 0), texts.get("validation", 0), texts.get("test", 0))
    encoded = pieces.encode(data, tokenizer, aligned=())
    return {part: list(pieces.batches(encoded[part], "sentiment", 50)) for part in texts}


def size(model: nn.Module) -> tuple[int, int]:
    """How many layers, and heads per layer."""
    found = library.find_attention(model)
    return len(found), found[0].heads


def losses(model: nn.Module, batch: Batch) -> Tensor:
    """The cross-entropy of each text of a batch, (B,): the ``loss_fn`` of
    ``head_importance``.
    """
    return F.cross_entropy(model(**_inputs(batch)).logits, batch["labels"], reduction="none")


def evaluator(
    model: nn.Module, batches: Sequence[Batch], gated: Gated = library.gated
) -> Callable[[Tensor], float]:
    """Accuracy in % on ``batches`` as a function of gates (layers, heads)."""

    def evaluate(xi: Tensor) -> float:
        with gated(model, xi):
            return accuracy(model, batches)

    return evaluate


# ------------------------------------------------------------------------------- tables
def per_head(values: Tensor, measure: str) -> list[dict[str, Any]]:
    """Rows ``layer``, ``head``, ``measure`` of a grid (layers, heads)."""
    return [
        {"layer": layer, "head": head, measure: value}
        for layer, row in enumerate(values.tolist(), start=1)
        for head, value in enumerate(row, start=1)
    ]


def by_layer(table: pd.DataFrame, value: str) -> pd.DataFrame:
    """Wide, for a heat map: a row per layer of each model, a column per head."""
    model = "model " + table["seed"].astype(str) + ", " if table["seed"].nunique() > 1 else ""
    rows = table.assign(row=model + "layer " + table["layer"].astype(str))
    return rows.pivot_table(value, "row", "head", sort=False).rename_axis(index="")


def by_model(table: pd.DataFrame, value: str, rows: str = "method") -> pd.DataFrame:
    """Wide: a column per model, the mean over draws."""
    wide = table.pivot_table(value, rows, "seed", sort=False).rename(columns="model {}".format)
    return wide.reset_index()


# ------------------------------------------------------------------------------- part A
def first_attention(model: Any, batch: Batch) -> tuple[Tensor, ...]:
    """The input of a BERT's first layer for 8 texts, (8, L, E), and its Wq, Wk, Wv, Wo."""
    attention = model.bert.encoder.layer[0].attention
    parts = (attention.self.query, attention.self.key, attention.self.value, attention.output.dense)
    with torch.no_grad():
        x = model.bert.embeddings(batch["input_ids"][:8])
    return x, *(part.weight.detach() for part in parts)


@torch.no_grad()
def logit_changes(model: nn.Module, gated: Gated, batch: Batch) -> dict[str, float]:
    """The largest change of a logit by gates of 1, by gates of 0, and by transformers'
    ``head_mask`` of 0.
    """
    inputs = _inputs(batch)
    before = model(**inputs).logits
    one = torch.ones(size(model))
    with gated(model, one):
        at_one = model(**inputs).logits
    with gated(model, 0 * one):
        at_zero = model(**inputs).logits
    masked = model(**inputs, head_mask=0 * one).logits
    found = {"gates at 1": at_one, "gates at 0": at_zero, "head_mask of 0": masked}
    return {name: float((logits - before).abs().max()) for name, logits in found.items()}


# ------------------------------------------------------------------------------- part B
def by_batch_size(
    model: nn.Module, batches: Sequence[Batch], head_importance: Importance, gated: Gated
) -> pd.DataFrame:
    """I_h beside the absolute gradient of each *batch's* mean loss, in batches of 1, 10 and
    50: means over heads, and how many of the 16 lowest heads the two have in common.
    """
    lowest = library.lowest_heads(head_importance(model, batches, losses), 16)

    def of_batches(cut: Sequence[Batch]) -> Tensor:
        total = torch.zeros(lowest.shape)
        for batch in cut:
            xi = torch.ones(lowest.shape, requires_grad=True)  # shared by all texts
            with gated(model, xi):
                total += torch.autograd.grad(losses(model, batch).mean(), xi)[0].abs()
        return total / len(cut)

    def compare(batch_size: int) -> dict[str, float]:
        cut = [
            {name: part[i : i + batch_size] for name, part in batch.items()}
            for batch in batches
            for i in range(0, len(batch["labels"]), batch_size)
        ]
        gradient = of_batches(cut)
        common = (~library.lowest_heads(gradient, 16) & ~lowest).sum()
        return {
            "I_h": float(head_importance(model, cut, losses).mean()),
            "gradient of the batch": float(gradient.mean()),
            "common lowest heads": int(common),
        }

    return sweep(compare, batch_size=(1, 10, 50))


# ------------------------------------------------------------------------------- part C
def added_up(ablations: pd.DataFrame, removal: pd.DataFrame) -> pd.DataFrame:
    """Heads removed in the order of single ablations: their single costs added up, and
    what they cost together, in points.
    """
    dense = removal[removal["method"] == "dense"].set_index("seed")["test"]
    rows = []
    for found in removal[removal["method"] == "single ablation"].to_dict("records"):
        changes = ablations[ablations["seed"] == found["seed"]]["change"].sort_values(
            ascending=False
        )
        single = changes.head(round(found["removed"] * len(changes))).sum()
        place = {"seed": found["seed"], "removed": found["removed"]}
        together = found["test"] - dense[found["seed"]]
        rows.append(place | {"cost": "each cost, added up (validation)", "change": single})
        rows.append(place | {"cost": "what they cost together (test)", "change": together})
    return pd.DataFrame(rows).sort_values("cost", kind="stable")


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


def layer_of_bert_base() -> tuple[nn.Module, nn.Module]:
    """One layer as wide as BERT-base's, with random weights; and with 6 of its 12 heads."""
    from transformers import BertConfig, BertModel

    config = BertConfig(num_hidden_layers=1, vocab_size=1000)
    wide = BertModel(config, add_pooling_layer=False).eval()
    return wide, library.remove_heads(wide, torch.arange(12)[None] < 6)


def clock(
    pairs: dict[str, tuple[nn.Module, nn.Module]],
    length: int = 32,
    repeats: dict[int, int] | None = None,
) -> pd.DataFrame:
    """Processor time of models with all heads and with half, one thread, taking turns.

    Args:
        pairs: name -> (with all heads, with half of them).
        length: tokens per text. repeats: batch size -> how often it is timed.

    Returns:
        Columns ``batch``, ``model``, ``all`` and ``half`` (ms), and ``gain``: more texts per
        second, in %. With the gains that Michel et al. report for BERT on a GPU.
    """
    rows: list[dict[str, Any]] = []
    for batch, often in (repeats or {1: 20, 4: 12, 16: 6, 64: 3}).items():
        ids = torch.randint(5, 600, (batch, length), generator=torch.Generator().manual_seed(0))
        for name, (whole, smaller) in pairs.items():
            runs = {"all": latency.forward(whole, ids), "half": latency.forward(smaller, ids)}
            times = latency.compare(runs, warmup=1, repeats=often, threads=1)
            ms = {version: 1e3 * time.median for version, time in times.items()}
            gain = 100 * (times["all"].times_slower_than(times["half"]) - 1)
            rows.append({"batch": batch, "model": name, **ms, "gain": gain})
    paper = "Michel et al. 2019, BERT on a GPU"
    rows += [{"batch": batch, "model": paper, "gain": gain} for batch, gain in MICHEL.items()]
    return pd.DataFrame(rows)


def domain_correlations(domains: pd.DataFrame) -> pd.DataFrame:
    """Pearson's r of importance over heads, for each pair of samples: of two domains, or of
    one, which is the most that two domains can be expected to reach.
    """
    rows = []
    for seed, run in domains.groupby("seed"):
        wide = run.pivot(index=["layer", "head"], columns=["domain", "sample"], values="importance")
        r = wide.corr()
        for one, other in itertools.combinations(wide.columns, 2):
            texts = "two samples of one domain" if one[0] == other[0] else "two domains"
            rows.append({"seed": seed, "texts": texts, "r": r.loc[one, other]})
    return pd.DataFrame(rows).sort_values("texts", ascending=False, kind="stable")


def domain_pairs(domains: pd.DataFrame) -> pd.DataFrame:
    """The first model's importances × 100, head by head: of two domains, and of two samples
    of one domain.
    """
    run = domains[domains["seed"] == 0]
    wide = 100 * run.pivot(
        index=["layer", "head"], columns=["domain", "sample"], values="importance"
    )
    first, second = run["domain"].unique()[:2]
    pairs = {f"{first} and {second}": (second, 0), f"two samples of {first}": (first, 1)}
    return pd.concat(
        pd.DataFrame({"one": wide[first, 0], "other": wide[other], "texts": name})
        for name, other in pairs.items()
    )


# -------------------------------------------------------------------------------- play
def switchboard(
    model: nn.Module, gated: Gated, texts: Reviews
) -> Callable[[tuple], tuple[str, Figure]]:
    """For an explorer: which heads are on -> accuracy on 100 reviews, and how sure the model
    is of two of them, one with a negated main clause.
    """
    rows = texts.encoded["validation"]
    chosen = [
        min(
            (
                i
                for i, (n, clause) in enumerate(zip(rows["negated"], rows["contrast"], strict=True))
                if bool(n) == negated and clause
            ),
            key=lambda i: len(rows["input_ids"][i]),
        )
        for negated in (False, True)
    ]
    evaluate = evaluator(model, _panel(texts), gated)

    def update(on: tuple) -> tuple[str, Figure]:
        xi = torch.tensor(on, dtype=torch.float32)
        bars = [{"of": "100 reviews: % right", "%": evaluate(xi)}]
        for i in chosen:
            with gated(model, xi), torch.no_grad():
                logits = model(input_ids=torch.tensor([rows["input_ids"][i]])).logits
            name = textwrap.fill(texts.quote(i), 30)
            bars.append({"of": name, "%": 100 * logits.softmax(-1)[0, 1].item()})
        words = f"{int((xi == 0).sum())} of {xi.numel()} heads off: {bars[0]['%']:.0f} % right"
        title = "Accuracy, and the probability of “positive” for two reviews (%)"
        figure = plots.bars(
            pd.DataFrame(bars), x="of", y="%", title=title, fmt="{:.0f}", ylim=(0, 115), note=words
        )
        return words, figure

    return update


def rule_board(
    model: nn.Module, gated: Gated, texts: Reviews, keep: Callable[[int, str], Tensor]
) -> Callable[[int, str], tuple[str, Figure]]:
    """For an explorer: how many heads are removed and by which rule -> which are kept, and
    the accuracy on 100 reviews. ``keep(removed, rule)`` is the mask.
    """
    evaluate = evaluator(model, _panel(texts), gated)

    def update(removed: int, rule: str) -> tuple[str, Figure]:
        kept = keep(removed, rule)
        words = (
            f"{rule}: {removed} of {kept.numel()} heads off, {evaluate(kept.float()):.0f} % right"
        )
        left = ", ".join(str(count) for count in kept.sum(1).tolist())
        figure = plots.grid({"layer by head": kept}, title=f"{words} (dark = kept)", columns=2)
        return words, plots.alt(figure, f"{words}. Heads kept in each layer: {left}.")

    return update


def _panel(texts: Reviews) -> list[Batch]:
    """100 validation reviews of all lengths, when there are 800."""
    few = texts.batches["validation"][1::4]
    return [{name: part[::2] for name, part in batch.items()} for batch in few]


def _inputs(batch: Batch) -> Batch:
    return {name: part for name, part in batch.items() if name != "labels"}
