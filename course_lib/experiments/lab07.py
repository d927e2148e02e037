"""Lab 07's experiments: what they run, and the tables that they return.

Functions of the notebook (``gated``, ``head_importance``, ``slice_heads``, …) are
arguments. In tables layers and heads count from 1. The long runs are
``data/results/make/lab07_results.py``.

Source: Michel et al. 2019, "Are Sixteen Heads Really Better than One?"; the places:
Budhraja et al. 2020, "On the Weak Link between Importance and Prunability of Attention
Heads".
"""

from __future__ import annotations

import copy
import itertools
import textwrap
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

import pandas as pd
import torch
import torch.nn.functional as F
from matplotlib.figure import Figure
from torch import Tensor, nn

from course_lib import devices, experiments
from course_lib.cost import latency, token_macs, transformer_macs
from course_lib.data import pieces, reviews
from course_lib.experiments import common
from course_lib.models import checkpoints
from course_lib.parallel import sweep
from course_lib.pruning import heads as library
from course_lib.show import plots
from course_lib.training import Batch, accuracy

Gated = Callable[[nn.Module, Tensor], AbstractContextManager[None]]
Importance = Callable[[nn.Module, Any, Callable[[nn.Module, Batch], Tensor]], Tensor]
PLACES = ("top", "bottom", "middle", "no consecutive")
RULES = ("random", "top", "bottom", "middle", "no_consecutive")  # as choose_heads names them
BY_SCORE = ("I_h", "I_h, by layer", "I_h, iterative", "single ablation")
# Michel et al. 2019, table 4: batch size -> % more examples per second, half of the heads
MICHEL = {1: 1.9, 4: 2.7, 16: 17.5, 64: 17.5}


# ------------------------------------------------------------------ models, texts, loss
class Reviews(NamedTuple):
    """Generated reviews: as texts, as token numbers, and as batches of 50 by part."""

    data: Any
    encoded: Any
    batches: dict[str, list[Batch]]

    def quote(self, row: int) -> str:
        """A validation review with its label, "the service was fine. (positive)"."""
        texts = self.data["validation"]
        label = texts.features["sentiment"].names[texts["sentiment"][row]]
        return f"{texts['text'][row]} ({label})"


def load(seeds: int, validation: int, test: int) -> tuple[list[nn.Module], Reviews]:
    """The shipped BERTs "reviews-bert-0", …, and reviews that none was trained on."""
    models = [checkpoints.load(f"reviews-bert-{seed}") for seed in range(seeds)]
    # one tokenizer for all of them
    texts = read_reviews(models[0].tokenizer, validation=validation, test=test)
    return [checkpoint.model for checkpoint in models], texts


def read_reviews(tokenizer: Any, validation: int, test: int) -> Reviews:
    """Generated reviews, in batches of texts of similar length."""
    data = reviews.load(0, validation, test)
    encoded = pieces.encode(data, tokenizer)
    parts = ("validation", "test")
    batches = {part: list(pieces.batches(encoded[part], "sentiment", 50)) for part in parts}
    return Reviews(data, encoded, batches)


def size(model: nn.Module) -> tuple[int, int]:
    """How many layers, and heads per layer."""
    found = library.find_attention(model)
    return len(found), found[0].heads


def logits(model: nn.Module, batch: Batch) -> Tensor:
    """(B, classes)."""
    out: Tensor = model(**{name: part for name, part in batch.items() if name != "labels"}).logits
    return out


def losses(model: nn.Module, batch: Batch) -> Tensor:
    """The cross-entropy of each text of a batch, (B,): the ``loss_fn`` of
    ``head_importance``.
    """
    return F.cross_entropy(logits(model, batch), batch["labels"], reduction="none")


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


def of_all(importance: Sequence[Tensor]) -> pd.DataFrame:
    """Columns ``seed``, ``layer``, ``head``, ``importance`` of a grid per model."""
    return pd.DataFrame(
        {"seed": seed, **row}
        for seed, values in enumerate(importance)
        for row in per_head(values, "importance")
    )


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
def attention_macs(heads: Sequence[int], L: int = 37, E: int = 128) -> pd.DataFrame:
    """Multiplications of one layer's attention, and the inputs of its softmax."""
    rows = []
    for H in heads:
        macs = transformer_macs(1, L, E, H)
        parts = {"projections": macs["projections"], "scores_and_averages": macs["attention"]}
        found = {"heads": H, **parts, "products_in_all": sum(parts.values())}
        rows.append(found | {"softmax_inputs": macs["scores"]})
    return pd.DataFrame(rows)


def first_attention(model: Any, batch: Batch) -> tuple[Tensor, ...]:
    """The input of a BERT's first layer, (B, L, E), and its Wq, Wk, Wv, Wo."""
    attention = model.bert.encoder.layer[0].attention
    parts = (attention.self.query, attention.self.key, attention.self.value, attention.output.dense)
    with torch.no_grad():
        x = model.bert.embeddings(batch["input_ids"])
    return x, *(part.weight.detach() for part in parts)


def lengths(parts: Tensor) -> pd.DataFrame:
    """Mean lengths of the heads' vectors, of their sum, and the sum of their lengths.

    Args:
        parts: (heads, B, L, E).
    """
    of_heads = parts.norm(dim=-1).mean((1, 2)).tolist()
    found = {f"head {h}": length for h, length in enumerate(of_heads, start=1)}
    found["their\nsum"] = float(parts.sum(0).norm(dim=-1).mean())
    found["lengths\nadded"] = sum(of_heads)
    return pd.DataFrame({"vector": found.keys(), "length": found.values()})


@torch.no_grad()
def logit_changes(model: nn.Module, gated: Gated, batch: Batch) -> pd.DataFrame:
    """The largest change of a logit by gates of 1, by gates of 0, and by transformers'
    ``head_mask`` of 0.
    """
    one = torch.ones(size(model))
    found = {}
    for gate in (1, 0):
        with gated(model, gate * one):
            found[f"all gates at {gate}"] = logits(model, batch)
    found["head_mask of zeros"] = logits(model, batch | {"head_mask": 0 * one})
    change = [float((after - logits(model, batch)).abs().max()) for after in found.values()]
    return pd.DataFrame({"how": found.keys(), "largest_change_of_a_logit": change})


def without_layers(
    models: Sequence[nn.Module], batches: Sequence[Batch], gated: Gated
) -> pd.DataFrame:
    """Accuracy in % with all heads, and with all heads of one layer off."""

    def of_model(model: int) -> list[dict[str, Any]]:
        evaluate = evaluator(models[model], batches, gated)
        layers, heads = size(models[model])
        gates = {"none": torch.ones(layers, heads)}
        for layer in range(layers):
            gates[f"layer {layer + 1}"] = torch.ones(layers, heads)
            gates[f"layer {layer + 1}"][layer] = 0
        return [{"off": off, "accuracy": evaluate(xi)} for off, xi in gates.items()]

    found = sweep(of_model, model=range(len(models)))
    return found.assign(model="model " + found["model"].astype(str))


# ------------------------------------------------------------------------------- part B
def by_batch_size(
    model: nn.Module, batches: Sequence[Batch], head_importance: Importance, gated: Gated
) -> pd.DataFrame:
    """I_h beside the absolute gradient of each *batch's* mean loss, in batches of 1, 10 and
    50: means over heads, their ratio, and how many of the 16 lowest heads by the gradient
    are among the 16 lowest by I_h.
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
        mine, other = head_importance(model, cut, losses), of_batches(cut)
        means = {"importance": float(mine.mean()), "batch_gradient": float(other.mean())}
        common = int((~library.lowest_heads(other, 16) & ~lowest).sum())
        ratio = means["importance"] / means["batch_gradient"]
        return {**means, "ratio": ratio, "common_lowest_heads": common}

    # one after the other: the gates are hooks of one model
    return sweep(compare, workers=1, batch_size=(1, 10, 50))


def count_costs(each: pd.DataFrame, scores: pd.DataFrame, mine: Tensor) -> pd.DataFrame:
    """Per model: how many heads cost more than half a point alone, what the worst one costs,
    and the correlation with I_h and, for the first model, with your own ablations.
    """
    rows = []
    for seed, of_model in each.merge(scores).groupby("seed"):
        cost = -of_model["change"]
        found = {
            "model": f"model {seed}",
            "cost_above_0.5": int((cost > 0.5).sum()),
            "within_0.5": int((cost.abs() <= 0.5).sum()),
            "largest_cost": cost.max(),
            "largest_gain": -cost.min(),
            "r_with_importance": cost.corr(of_model["importance"]),
        }
        yours = pd.Series(-mine.flatten().numpy(), of_model.index)
        rows.append(found | {"r_with_yours": cost.corr(yours) if seed == 0 else None})
    return pd.DataFrame(rows)


def beside_stored(mine: Sequence[tuple[int, float]]) -> pd.DataFrame:
    """All heads of a layer off but one: points of test accuracy lost, by ``all_but_one`` of
    the notebook on the first model, and in the stored run.
    """
    stored = experiments.read("lab07_heads/all_but_one")
    yours = [
        {"run": "yours, model 0", "layer": layer, "lost": -change}
        for layer, (_, change) in enumerate(mine, start=1)
    ]
    runs = stored.assign(run="model " + stored["seed"].astype(str), lost=-stored["change"])
    return pd.concat([pd.DataFrame(yours), runs[["run", "layer", "lost"]]])


# ------------------------------------------------------------------------------- part C
def draw_rules(choose_heads: Callable[..., Tensor]) -> Figure:
    """12 of 32 heads removed by place: a grid (layers, heads) per rule."""
    masks = {
        rule.replace("_", " "): choose_heads(4, 8, 12, rule, torch.Generator().manual_seed(7))
        for rule in RULES
    }
    return plots.grid(masks, title="12 of 32 heads pruned by place (dark = kept)", columns=5)


def removal(*methods: str) -> pd.DataFrame:
    """Of the stored run: test accuracy against heads removed, for these methods."""
    table = experiments.read("lab07_heads/removal")
    return table[table["method"].isin(methods)]


def added_up(ablations: pd.DataFrame) -> pd.DataFrame:
    """Heads removed in the order of single ablations: their single costs added up, and
    what they cost together, in points (stored run).
    """
    dense = removal("dense").set_index("seed")["test"]
    rows = []
    for found in removal("single ablation").to_dict("records"):
        seed, removed = found["seed"], found["removed"]
        changes = ablations[ablations["seed"] == seed]["change"].sort_values(ascending=False)
        single = changes.head(round(removed * len(changes))).sum()
        for cost, change in (
            ("each cost, added up (validation)", single),
            ("what they cost together (test)", found["test"] - dense[seed]),
        ):
            rows.append({"seed": seed, "removed": removed, "cost": cost, "change": change})
    return pd.DataFrame(rows).sort_values("cost", kind="stable")


def importance_without(
    models: Sequence[nn.Module],
    batches: Sequence[Batch],
    keep: Sequence[Tensor],
    head_importance: Importance,
    gated: Gated,
) -> pd.DataFrame:
    """The mean importance of the heads kept, bool (layers, heads), while all heads are on and
    while the others are off.
    """

    def of_model(model: int) -> dict[str, float]:
        net, kept = models[model], keep[model]
        on = float(head_importance(net, batches, losses)[kept].mean())
        with gated(net, kept.float()):  # gates in gates: they multiply
            off = float(head_importance(net, batches, losses)[kept].mean())
        return {"all_on": on, "others_off": off, "times": off / on}

    found = sweep(of_model, model=range(len(models)))
    return found.assign(model="model " + found["model"].astype(str))


def measure(
    models: Sequence[nn.Module],
    batches: Sequence[Batch],
    gated: Gated,
    masks: Mapping[str, Sequence[Tensor]],
) -> pd.DataFrame:
    """Accuracy in % with all heads ("dense") and with the heads of ``masks``: for each
    method a mask (layers, heads) per model.
    """

    def of_model(seed: int) -> list[dict[str, Any]]:
        evaluate = evaluator(models[seed], batches, gated)
        gates = {"dense": torch.ones(size(models[seed]))}
        gates |= {method: keep[seed].float() for method, keep in masks.items()}
        return [{"method": method, "test": evaluate(xi)} for method, xi in gates.items()]

    return sweep(of_model, seed=range(len(models)))


def fine_tuning() -> pd.DataFrame:
    """The stored run: test accuracy with heads removed, and after 200 steps of training.
    ``arm`` names method and share, ``setting`` share and time.
    """
    table = experiments.read("lab07_heads/fine_tuning")
    share = table["removed"].map("{:.0%}".format)
    return table.assign(arm=table["method"] + "\n" + share, setting=share + " " + table["when"])


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


@torch.no_grad()
def difference(
    smaller: nn.Module, model: nn.Module, xi: Tensor, gated: Gated, batch: Batch
) -> float:
    """The largest difference of a logit: heads cut out, against gates of 0."""
    with gated(model, xi.float()):
        off = logits(model, batch)
    return float((logits(smaller, batch) - off).abs().max())


def savings(model: nn.Module, smaller: nn.Module) -> pd.DataFrame:
    """Parameters, and products of a layer for 37 tokens, with all heads and with half."""
    small = [token_macs([37], 128, ffn_width=256, attention_width=16 * n) for n in (8, 4)]
    base = [token_macs([37], 768, attention_width=64 * n) for n in (12, 6)]
    parameters = [sum(p.numel() for p in net.parameters()) for net in (model, smaller)]
    rows = {"parameters": parameters, "products of a layer": small, "… of BERT-base": base}
    return pd.DataFrame(
        {"": name, "all_heads": whole, "half": half, "saved (%)": 100 * (1 - half / whole)}
        for name, (whole, half) in rows.items()
    )


def wide_layer() -> tuple[nn.Module, nn.Module]:
    """One layer as wide as BERT-base's, with random weights; and with 6 of its 12 heads."""
    from transformers import BertConfig, BertModel

    config = BertConfig(num_hidden_layers=1, vocab_size=1000)
    wide = BertModel(config, add_pooling_layer=False).eval()
    return wide, library.remove_heads(wide, torch.arange(12)[None] < 6)


def clock(
    pairs: Mapping[str, tuple[nn.Module, nn.Module]],
    length: int = 32,
    repeats: Mapping[int, int] | None = None,
) -> pd.DataFrame:
    """Processor time of models with all heads and with half, one thread, taking turns.

    Args:
        pairs: name -> (with all heads, with half of them).
        length: tokens per text. repeats: batch size -> how often it is timed.

    Returns:
        Columns ``batch``, ``model``, ``all heads (ms)``, ``half (ms)``, and ``gain``: more
        texts per second, in %. With the gains that Michel et al. report for BERT on a GPU.
    """
    rows: list[dict[str, Any]] = []
    for batch, often in (repeats or {1: 20, 4: 12, 16: 6, 64: 3}).items():
        ids = torch.randint(5, 600, (batch, length), generator=torch.Generator().manual_seed(0))
        for name, (whole, smaller) in pairs.items():
            runs = {
                "all heads": common.forward_on_cpu(whole, ids),
                "half": common.forward_on_cpu(smaller, ids),
            }
            times = latency.compare(runs, warmup=1, repeats=often, threads=1)
            ms = {f"{version} (ms)": 1e3 * time.median for version, time in times.items()}
            gain = 100 * (times["all heads"].times_slower_than(times["half"]) - 1)
            rows.append({"batch": batch, "model": name, **ms, "gain": gain})
    paper = "Michel et al., GPU"
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
            texts = "one domain" if one[0] == other[0] else "two domains"
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
        pd.DataFrame({"one_sample": wide[first, 0], "another": wide[other], "texts": name})
        for name, other in pairs.items()
    )


def costs(models: Mapping[str, nn.Module], batches: Sequence[Batch]) -> dict[str, dict[str, float]]:
    """Of each model: ``bits`` as stored, ``macs`` for a review of 37 tokens, ``ms`` for 64
    of these.
    """
    ids = next(b["input_ids"] for b in batches if b["input_ids"].shape[1] >= 37)[:1, :37]
    table = common.costs(models, ids, ids.repeat(64, 1), repeats=9).set_index("method")
    return table[["bits", "macs", "ms"]].to_dict("index")


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


def verdict(find_bug: Callable[..., None], f: Callable[..., Tensor]) -> str:
    """What ``find_bug`` says of a version of ``attention_as_sum``."""
    try:
        find_bug(f)
    except AssertionError as reason:
        return f"caught ({reason})"
    return "no bug found"


# -------------------------------------------------------------------------------- play
def switchboard(model: nn.Module, gated: Gated, texts: Reviews) -> Callable[..., Figure]:
    """For an explorer: which heads are off, such as "1.3 2.7" (layer.head) -> accuracy on 100
    reviews, and how sure the model is of two of them, the second with a negated main clause.
    """
    rows = texts.encoded["validation"].to_pandas()
    long = rows[rows["contrast"].astype(bool)].sort_values(
        "input_ids", key=lambda ids: ids.map(len), kind="stable"
    )
    chosen = [long.index[long["negated"].astype(bool) == negated][0] for negated in (False, True)]
    evaluate = evaluator(model, _panel(texts), gated)

    def update(off: str = "") -> Figure:
        xi = torch.ones(size(model))
        for name in off.replace(",", " ").split():
            layer, _, head = name.partition(".")
            if (
                not (layer + head).isdecimal()
                or not 0 < int(layer) <= len(xi)
                or not 0 < int(head) <= len(xi[0])
            ):
                raise ValueError(
                    f"off: heads as layer.head, 1.1 to {len(xi)}.{len(xi[0])}, got {name!r}"
                )
            xi[int(layer) - 1, int(head) - 1] = 0
        right = evaluate(xi)
        bars = {"accuracy on\n100 reviews": right}
        for i in chosen:
            with gated(model, xi), torch.no_grad():
                ids = torch.tensor(rows["input_ids"][i], device=devices.current())
                found = model(input_ids=ids[None]).logits
            bars[textwrap.fill(texts.quote(i), 30)] = 100 * found.softmax(-1)[0, 1].item()
        return plots.bars(
            pd.DataFrame({"of": bars.keys(), "%": bars.values()}),
            x="of",
            y="%",
            title=f"{int((xi == 0).sum())} of {xi.numel()} heads off: {right:.0f} % right, and how"
            " probable “positive” is for two reviews",
            fmt="{:.0f}",
            ylim=(0, 112),
        )

    return update


def _panel(texts: Reviews) -> list[Batch]:
    """Every eighth validation review: 100 of 800, of all lengths."""
    few = texts.batches["validation"][1::4]
    return [{name: part[::2] for name, part in batch.items()} for batch in few]
