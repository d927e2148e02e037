"""Lab 10: tokens dropped from small BERTs on reviews, and from a real encoder: what the lab and
its lecture run.

Layers are counted from 0; a text for readers counts from 1. Columns: ``share`` of the
tokens that are kept, ``accuracy`` in %, ``fewer``: MACs of the whole texts over those of the
shortened ones. The stored results are made by ``data/results/make/lab10_results.py``.

Source: Goyal et al. 2020, "PoWER-BERT"; Kim et al. 2022, "Learned Token Pruning for
Transformers"; Wang et al. 2021, "SpAtten".
"""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import datasets
import numpy as np
import pandas as pd
import torch
from matplotlib.figure import Figure
from torch import Tensor, nn
from transformers.utils import logging

from course_lib import devices, experiments
from course_lib.cost import latency, storage, texts_macs
from course_lib.data import pieces, reviews
from course_lib.data.review_grammar import POLAR
from course_lib.models import checkpoints
from course_lib.models.bert import small_bert
from course_lib.modes import evaluating
from course_lib.parallel import side_by_side
from course_lib.pruning.tokens import (
    Cascading,
    SoftThreshold,
    dropping,
    kept_count,
    progressive_shares,
)
from course_lib.pruning.tokens.dropping import Score
from course_lib.show.drawings import tokens_leaving
from course_lib.training import Batch

EVIDENCE = "piece_evidence"  # the column of the texts that says which pieces decide
LAYERS, SHARES = (0, 1, 2), (0.5, 0.3, 0.2, 0.1)  # of single drops
METHODS = ("informed", "all evidence", "polar words", "random")
SAMPLES = (42, 3, 12, 21, 30, 53)  # validation texts to look at

Schedule = dict[int, float]  # layer -> share of the text that goes on from it
# exercise 10.1: attention weights (B, H, L, L), token mask (B, L) -> scores (B, L)
Received = Callable[[Tensor, Tensor], Tensor]
# exercise 10.2: rows (B, L, E), token mask, scores, k -> rows, token mask, index
Keep = Callable[[Tensor, Tensor, Tensor, int], tuple[Tensor, Tensor, Tensor]]


@dataclass
class Patients:
    """Small BERTs that classify reviews, and held-back reviews.

    Attributes:
        models: by seed, with the fast attention kernel. eager: copies whose slower
            attention shows its weights.
        texts: "validation" and "test" -> rows with ``input_ids``, ``piece_evidence``,
            ``sentiment``, ``text``.
        validation, test: the same in batches of 100.
        lengths: int64, pieces of each validation text.
        dense: validation accuracy of each model on whole texts.
    """

    models: dict[int, Any]
    eager: dict[int, Any]
    tokenizer: Any
    texts: Any
    validation: list[Batch]
    test: list[Batch]
    lengths: Tensor
    dense: dict[int, float]

    @property
    def config(self) -> Any:
        return next(iter(self.models.values())).config

    def pieces(self, number: int) -> tuple[Tensor, list[str], list[int]]:
        """A validation text: ids (1, L), its pieces, and which of them decide (0: not)."""
        row = self.texts["validation"][number]
        ids = row["input_ids"]
        tokens = torch.tensor([ids], device=devices.current())
        return tokens, self.tokenizer.convert_ids_to_tokens(ids), row[EVIDENCE]

    def describe(self) -> str:
        """The reviews and the models, in a sentence each, and a review."""
        rows, n = self.texts["validation"], self.lengths
        decides = np.mean([np.mean(np.array(row) > 0) for row in rows[EVIDENCE]])
        return (
            f"A review has {n.double().mean():.0f} pieces on average ({n.min()} to {n.max()});"
            f" {decides:.0%} of them decide: the polar word of the deciding clause, its negator,"
            " the contrast word. Validation accuracy of the models: "
            + ", ".join(f"{value:.1f}" for value in self.dense.values())
            + f" %. One text in {len(n)} is {100 / len(n)} points.\n\n> {rows[3]['text']}"
        )


def load(seeds: Sequence[int], texts: int) -> Patients:
    """The models of these seeds, and ``texts`` validation and as many test reviews."""
    datasets.disable_progress_bars()
    logging.disable_progress_bar()
    loaded = {seed: checkpoints.load(f"reviews-bert-{seed}") for seed in seeds}
    models = {seed: one.model for seed, one in loaded.items()}
    eager = copy.deepcopy(models)
    for model in eager.values():
        model.set_attn_implementation("eager")
    tokenizer = loaded[seeds[0]].tokenizer
    rows = reviews.load(train=0, validation=texts, test=texts)
    data = pieces.encode(rows, tokenizer, aligned=("evidence",))
    validation, test = (
        list(pieces.batches(data[part], "sentiment", 100)) for part in ("validation", "test")
    )
    lengths = torch.tensor([len(row) for row in data["validation"]["input_ids"]])
    dense = side_by_side(lambda seed: measure(models[seed], validation), [(s,) for s in seeds])
    accuracy = {seed: found["accuracy"] for seed, found in zip(seeds, dense, strict=True)}
    return Patients(models, eager, tokenizer, data, validation, test, lengths, accuracy)


# ---------------------------------------------------------------------------- measuring
def measure(
    model: nn.Module,
    batches: Iterable[Batch],
    keep: Any = None,
    *,
    score: Score = "cls",
    seed: int = 0,
    block: Cascading | None = None,
) -> dict[str, float]:
    """Accuracy and cost of a classifier while tokens are dropped.

    Args:
        model: a BERT-type classifier of transformers.
        batches: of ``pieces.batches``, with labels.
        keep: the tokens to keep after each layer, see ``dropping``; None: all.
        score: as in ``dropping``.
        seed: of random scores.
        block: a ``cascading`` of this model to measure in place of ``dropping``.

    Returns:
        ``accuracy`` in %; ``macs`` of the encoder for one text, mean over texts,
        ``dense_macs``, those of whole texts, and how many times ``fewer`` that is.
    """
    generator = torch.Generator().manual_seed(seed)
    keep = {} if keep is None else keep
    opened = block or dropping(model, keep, score=score, generator=generator)
    config: Any = model.config
    right = texts = 0
    heads: list[Tensor] = []  # that work in a cascade, (layers, B)
    with evaluating(model), torch.inference_mode(), opened as drop:
        for batch in batches:
            logits = model(**model_inputs(batch)).logits
            right += int((logits.argmax(1) == batch["labels"]).sum())
            texts += len(batch["labels"])
            if isinstance(drop, Cascading):
                heads.append(torch.stack([alive.sum(1) for alive in drop.working]).cpu())
        attention, ffn = drop.lengths()
    size = config.hidden_size // config.num_attention_heads
    width = torch.cat(heads, 1) * size if heads else None
    macs, dense = mean_macs(config, attention, ffn, width), planned_macs(config, attention[0], {})
    accuracy = 100 * right / texts
    return {"accuracy": accuracy, "macs": macs, "dense_macs": dense, "fewer": dense / macs}


def model_inputs(batch: Batch) -> Batch:
    """The columns of a batch that the model reads."""
    return {name: column for name, column in batch.items() if name != "labels"}


def mean_macs(config: Any, attention: Tensor, ffn: Tensor, width: Tensor | None = None) -> float:
    """MACs of the encoder per text, mean over texts; the arguments are those of
    ``texts_macs``, each (layers, N).
    """
    E, F = config.hidden_size, config.intermediate_size
    macs = texts_macs(attention, ffn, E, ffn_width=F, attention_width=width)
    return macs.double().mean().item()


def planned_macs(config: Any, lengths: Tensor, shares: Mapping[int, float]) -> float:
    """MACs of the encoder per text, mean over texts of these lengths (N,), if a schedule
    keeps these shares.
    """
    attention, ffn, left = [], [], lengths
    for layer in range(config.num_hidden_layers):
        attention.append(left)
        left = torch.minimum(left, kept_count(lengths, shares.get(layer, 1.0)))
        ffn.append(left)
    return mean_macs(config, torch.stack(attention), torch.stack(ffn))


def ratio(config: Any, lengths: Tensor, shares: Mapping[int, float]) -> float:
    """How many times fewer MACs a schedule needs: mean over texts of the whole ones
    over mean of the shortened ones.
    """
    return planned_macs(config, lengths, {}) / planned_macs(config, lengths, shares)


# ------------------------------------------------------------------- rows that are dropped
def sketch() -> Figure:
    """A sentence whose tokens leave, drawn by hand."""
    text = "although the service was slow , the food was superb ."
    words = ["[CLS]", *text.split(), "[SEP]"]
    kept = [range(13), [0, 1, 3, 5, 8, 10, 11], [0, 1, 10], [0]]
    title = "A review loses its tokens; [CLS] stays, and the model reads there: positive"
    return tokens_leaving(words, kept, marked=[1, 10], title=title)


@torch.inference_mode()
def run_attention(model: Any, ids: Tensor) -> list[tuple[Tensor, Tensor]]:
    """The attention output of each layer for texts of one length: rows (B, L, E) and
    attention weights (B, H, L, L).
    """
    found = []
    hidden = model.bert.embeddings(ids)  # (B, L, E)
    for layer in model.bert.encoder.layer:
        found.append(layer.attention(hidden))
        hidden = layer.feed_forward_chunk(found[-1][0])
    return found


@torch.inference_mode()
def finish_from(model: Any, layer: int, rows: Tensor) -> Tensor:
    """Run the rest of the model on rows (B, L, E) of this layer's attention output: logits
    (B, classes).
    """
    blocks = model.bert.encoder.layer
    hidden = blocks[layer].feed_forward_chunk(rows)
    for block in blocks[layer + 1 :]:
        hidden = block.attention(hidden)[0]
        if block is blocks[-1]:
            hidden = hidden[:, :1]  # from here on only [CLS] is read
        hidden = block.feed_forward_chunk(hidden)
    return model.classifier(model.bert.pooler(hidden))


def in_words(named: Sequence[str]) -> tuple[list[int], list[str]]:
    """Where each word starts in a list of pieces, and the words: a word is a piece with all its
    ##pieces.
    """
    starts = [i for i, name in enumerate(named) if not name.startswith("##")]
    ends = [*starts[1:], len(named)]
    joined = ["".join(named[a:b]).replace("##", "") for a, b in zip(starts, ends, strict=True)]
    return starts, joined


def attention_by_word(received: Received, patients: Patients, number: int) -> pd.DataFrame:
    """n · score of each word of a validation text (1: the average piece), its pieces added
    up, in each layer of the first model; "• ": the word decides.
    """
    ids, named, decides = patients.pieces(number)
    everything = torch.ones_like(ids, dtype=torch.bool)
    layers = run_attention(patients.eager[0], ids)
    scores = len(named) * torch.stack([received(attn, everything)[0] for _, attn in layers])
    starts, words = in_words(named)
    marked = ["• " * bool(decides[i]) + word for i, word in zip(starts, words, strict=True)]
    return pd.DataFrame(
        np.add.reduceat(scores.cpu().numpy(), starts, axis=1),
        index=pd.Index([f"layer {layer + 1}" for layer in range(len(layers))], name=""),
        columns=pd.Index(marked, name="words (• decides)"),
    )


def single_drops(keep: Keep, received: Received, patients: Patients, seed: int) -> pd.DataFrame:
    """Validation accuracy of a model with one drop after each of :data:`LAYERS`, at each of
    :data:`SHARES`, by each of :data:`METHODS`.

    "informed": by ``received``; "all evidence" and "polar words": an oracle keeps the
    words that decide, or those with polarity alone, and draws the others; "random".
    Texts of one length go together, so there is no padding.
    """
    generator = torch.Generator().manual_seed(seed)
    right = torch.zeros(
        len(LAYERS), len(SHARES), len(METHODS), dtype=torch.int64, device=devices.current()
    )
    texts = patients.texts["validation"].with_format("torch")
    for length in dict.fromkeys(patients.lengths.tolist()):
        batch = texts[(patients.lengths == length).nonzero().flatten().tolist()]
        ids, evidence, labels = (
            batch[name].to(devices.current()) for name in ("input_ids", EVIDENCE, "sentiment")
        )  # (B, n), (B, n), (B,)
        there = torch.ones_like(ids, dtype=torch.bool)
        layers = run_attention(patients.eager[seed], ids)
        for layer, (rows, attn) in zip(LAYERS, layers, strict=False):
            draws = torch.rand(2, *ids.shape, generator=generator).to(ids.device)
            oracles = [decides + 0.5 * draws[0] for decides in (evidence > 0, evidence == POLAR)]
            scores = torch.cat([received(attn, there), *oracles, draws[1]])  # (4 B, n)
            for i, share in enumerate(SHARES):
                k = max(1, math.ceil(ids.shape[1] * share - 1e-9))
                fewer, _, _ = keep(rows.repeat(4, 1, 1), there.repeat(4, 1), scores, k)
                # the fast kernel from here on
                answers = finish_from(patients.models[seed], layer, fewer).argmax(1)
                right[layer, i] += (answers.view(4, -1) == labels).sum(1)
    drops = pd.MultiIndex.from_product(
        [LAYERS, SHARES, METHODS], names=["layer", "share", "method"]
    )
    found = drops.to_frame(index=False).assign(
        accuracy=(100 * right.flatten().double() / len(texts)).tolist()
    )
    dense = pd.DataFrame({"layer": LAYERS, "share": math.nan, "method": "dense"})
    table = pd.concat([dense.assign(accuracy=patients.dense[seed]), found], ignore_index=True)
    return table.assign(
        where=[f"after layer {layer + 1}" for layer in table.layer],
        checkpoint=f"checkpoint {seed}",
        **{"tokens kept (%)": table.share},
    )


def cheapest(drops: pd.DataFrame, patients: Patients, points: float = 1.0) -> pd.DataFrame:
    """For each seed the single informed drop with the fewest MACs whose validation accuracy
    is at most ``points`` below dense, and what it does on test texts: ``seed``, ``layer``,
    ``share``, ``fewer``, ``dense`` and ``test`` (accuracy).
    """
    rows = []
    for seed, part in drops[drops.method == "informed"].groupby("seed", sort=False):
        near = part[part.accuracy >= patients.dense[int(seed)] - points]
        # at worst nothing is dropped
        plans = [(LAYERS[-1], 1.0), *zip(near.layer, near.share, strict=True)]
        fewer, layer, share = max(
            (ratio(patients.config, patients.lengths, {layer: share}), layer, share)
            for layer, share in plans
        )
        model, texts = patients.models[int(seed)], patients.test
        dense, test = (
            measure(model, texts, plan, score="received")["accuracy"]
            for plan in ({}, {layer: share})
        )
        found = {"layer": layer, "share": share, "fewer": fewer, "dense": dense, "test": test}
        rows.append({"seed": seed, **found})
    return pd.DataFrame(rows)


# ------------------------------------------------------------- policies, tokens and heads
def schedule_of(
    progressive: Callable[[Tensor, int, float], Tensor], layers: int, final: float
) -> Schedule:
    """The counts of exercise 10.3 as shares that go on from a layer, as ``dropping`` takes
    them.
    """
    counts = progressive(torch.tensor([100_000]), layers, final)[:, 0] / 100_000
    return {layer: float(counts[layer + 1]) for layer in range(layers - 1)}


def solve(ratio_of: Callable[[float], float], budget: float, low: float, high: float) -> float:
    """The argument between low and high at which a rising ratio meets the budget."""
    for _ in range(8):
        middle = (low + high) / 2
        low, high = (low, middle) if ratio_of(middle) > budget else (middle, high)
    return (low + high) / 2


def at_equal_cost(
    progressive: Callable[[Tensor, int, float], Tensor],
    policy: Callable[..., Tensor],
    patients: Patients,
    budgets: Iterable[float],
    seed: int,
) -> list[dict[str, Any]]:
    """Test accuracy of a schedule, a threshold, and a random choice with the schedule's
    counts. The numbers with which each needs ``budget`` times fewer MACs than whole texts are
    found on validation texts.
    """
    model, layers = patients.models[seed], patients.config.num_hidden_layers
    some = patients.validation[::3]

    def measure_threshold(theta: float, batches: list[Batch]) -> dict[str, float]:
        def keep(scores: Tensor, real: Tensor) -> Tensor:
            return policy(scores, theta, real)

        return measure(model, batches, dict.fromkeys(range(layers - 1), keep), score="received")

    def schedule(gone: float) -> Schedule:
        return schedule_of(progressive, layers, 1 - gone)

    def saved_by_schedule(gone: float) -> float:
        return ratio(patients.config, patients.lengths, schedule(gone))

    rows = []
    for budget in budgets:
        shares = schedule(solve(saved_by_schedule, budget, 0.0, 0.99))
        theta = solve(lambda t: measure_threshold(t, some)["fewer"], budget, 0.0, 3.0)
        found = {
            "progressive": measure(model, patients.test, shares, score="received"),
            "threshold": measure_threshold(theta, patients.test),
            "random": measure(model, patients.test, shares, score="random", seed=seed),
        }
        rows += [
            {"method": m, "budget": budget, "accuracy": x["accuracy"], "fewer": x["fewer"]}
            for m, x in found.items()
        ]
    return rows


class _Wrapped(SoftThreshold):
    """A student's thresholds as the library's, which ``dropping`` takes."""

    def __init__(self, gate: Any) -> None:
        super().__init__(len(gate.theta), gate.temperature)
        self.theta, self.gate = gate.theta, gate

    def forward(self, scores: Tensor, layer: int, token_mask: Tensor) -> Tensor:
        return self.gate(scores, layer, token_mask)


def soft_and_hard(gates: Callable[[int, float], Any], patients: Patients) -> str:
    """Validation accuracy of checkpoint 0, not trained for it, with θ = 1 after layers 1 to 3:
    gates of temperature 0.3, soft and hard.
    """
    threshold = _Wrapped(gates(len(LAYERS), 0.3))
    with torch.no_grad():
        threshold.theta.fill_(1.0)
    found = [
        measure(patients.models[0], patients.validation, threshold.train(soft))["accuracy"]
        for soft in (True, False)
    ]
    return f"Soft gates {found[0]:.1f} %, the same gates hard {found[1]:.1f} %."


@torch.inference_mode()
def cascade(
    step: Callable[..., tuple[Tensor, Tensor]],
    received: Received,
    patients: Patients,
    number: int,
    plan: Mapping[int, tuple[float, int]],
) -> pd.DataFrame:
    """One text through the first model, layer by layer: after the layers of ``plan`` a
    share of the tokens and a number of heads go on (exercise 10.5).

    Scores are summed over the layers so far: attention received by a token, size of what
    a head puts out. What has been dropped adds to no score.
    """
    model = patients.eager[0]
    ids, named, _ = patients.pieces(number)
    tokens = torch.ones_like(ids[0], dtype=torch.bool)
    heads = tokens.new_ones(model.config.num_attention_heads)
    token_sum, head_sum = torch.zeros_like(tokens).float(), torch.zeros_like(heads).float()
    outputs: list[Tensor] = []

    def silence_dropped(module: nn.Module, args: tuple[Tensor, ...]) -> tuple[Tensor]:
        outputs.append(args[0].unflatten(-1, (len(heads), -1)) * heads[:, None])  # (B, L, H, d)
        return (outputs[-1].flatten(-2),)

    rows = []
    hidden = model.bert.embeddings(ids)
    for layer, block in enumerate(model.bert.encoder.layer):
        mask = hidden.new_zeros(1, 1, 1, len(tokens)).masked_fill(~tokens, torch.finfo().min)
        hook = block.attention.output.dense.register_forward_pre_hook(silence_dropped)
        out, attn = block.attention(hidden, mask)
        hook.remove()
        hidden = block.feed_forward_chunk(out)
        token_sum += received(attn[:, heads], tokens[None])[0]
        head_sum += outputs[-1].abs()[0, tokens].sum(-1).mean(0)  # (H,)
        if layer in plan:
            share, n_heads = plan[layer]
            n_tokens = max(1, math.ceil(share * len(tokens) - 1e-9))
            tokens, heads = step(token_sum, head_sum, tokens, heads, n_tokens, n_heads)
            row = {"after layer": layer + 1, "tokens": f"{int(tokens.sum())} of {len(tokens)}"}
            # heads counted from 1
            row["heads kept"] = ", ".join(str(h + 1) for h in heads.nonzero().flatten().tolist())
            rows.append(row | {"kept text": " ".join(itertools.compress(named, tokens))})
    return pd.DataFrame(rows)


# ------------------------------------------------------------------------ what it saves
@cache
def timed_model() -> Any:
    """4 layers of width 256 with random weights: time does not depend on them."""
    return small_bert(600, layers=4, width=256, heads=8, ffn=1024, seed=0).eval()


def clock(plan: Schedule, repeats: Mapping[int, int]) -> pd.DataFrame:
    """Times ``faster`` than the dense model of texts of 128 tokens on one thread, with the fast
    attention kernel (SDPA), by the score that chooses (``way``).

    Args:
        plan: the schedule. repeats: size of the batch -> turns of each way.
    """
    rows = []
    ways: dict[str, Score] = {"[CLS] row": "cls", "received": "received", "random": "random"}
    for size, turns in repeats.items():
        ids = torch.randint(5, 600, (size, 128), generator=torch.Generator().manual_seed(size))
        passes = {"dense": latency.forward(timed_model(), ids)}
        with ExitStack() as blocks:  # each way keeps its block open while the clock runs
            for way, score in ways.items():
                model = copy.deepcopy(timed_model())
                generator = torch.Generator().manual_seed(0)
                blocks.enter_context(dropping(model, plan, score=score, generator=generator))
                passes[way] = latency.forward(model, ids)
            times = latency.compare(passes, warmup=1, repeats=turns, threads=1)
        dense = times.pop("dense")
        rows += [
            {"batch": f"batch {size}", "way": way, "faster": dense.times_slower_than(time)}
            for way, time in times.items()
        ]
    return pd.DataFrame(rows)


def costs(patients: Patients, chosen: pd.DataFrame) -> list[dict[str, Any]]:
    """Two ledger rows, whole texts and the drops of :func:`cheapest`: size of the whole model in
    ``bits``, mean ``macs`` of a validation review in the encoder, ``ms`` per text of a batch of
    100 (first checkpoint), and test ``accuracy`` per seed.
    """
    inputs = {k: v.cpu() for k, v in model_inputs(patients.test[len(patients.test) // 2]).items()}
    plans = [{int(c.layer): float(c.share)} for c in chosen.itertuples()]
    whole, shortened = (copy.deepcopy(patients.models[0]).cpu() for _ in range(2))
    with dropping(shortened, plans[0]), torch.inference_mode():
        passes = {"dense": partial(whole, **inputs), "test": partial(shortened, **inputs)}
        times = latency.compare(passes, repeats=10, threads=1)
    names = {"dense": "dense, a text of lab 10", "test": "tokens dropped, own share"}
    fewer = {"dense": 1.0, "test": chosen.fewer}
    macs = planned_macs(patients.config, patients.lengths, {})
    return [
        {
            "method": name,
            "bits": storage.model_bits(whole.state_dict()),
            "macs": float(np.mean(macs / fewer[column])),
            "ms": 1e3 * times[column].median / len(inputs["input_ids"]),
            "accuracy": chosen[column].tolist(),
        }
        for column, name in names.items()
    ]


def changed_by_padding(received: Received, patients: Patients, texts: int = 60) -> int:
    """How many texts keep another third of their tokens after layer 2 of the first model
    when they are padded to 120 pieces.
    """
    model, changed = patients.eager[0], 0
    for number in range(texts):
        alone, _, _ = patients.pieces(number)
        n = alone.shape[1]
        kept = []
        for ids in (alone, nn.functional.pad(alone, (0, 120 - n))):
            real = torch.arange(ids.shape[1], device=ids.device)[None] < n
            with torch.inference_mode():
                out = model(ids, attention_mask=real.long(), output_attentions=True)
                scores = received(out.attentions[1], real)[0, :n]
            kept.append(set(scores.topk(math.ceil(n / 3)).indices.tolist()))
        changed += kept[0] != kept[1]
    return changed


# ------------------------------------------------------------------------ stored results
BARS = {  # training and method of the stored table -> the label of a bar
    ("fine-tuned", "dense"): "dense,\ntrained on",
    ("fine-tuned", "informed"): "[CLS] row,\ntrained on",
    ("fine-tuned", "random"): "random,\ntrained on",
    ("thresholds", "soft to the end, as trained"): "soft gates,\nvalidation",
    ("thresholds", "soft to the end"): "the same,\nhard, test",
    ("thresholds", "hard phase"): "hard phase,\nhard, test",
}


def trained_bars() -> pd.DataFrame:
    """What was trained with tokens dropped, a ``bar`` each, named with how many times fewer MACs
    it needs (mean): ``accuracy`` on test reviews, of soft gates on validation reviews.
    """
    rows = experiments.read("lab10_reviews/measured")
    rows = rows[(rows.part == "test") | rows.macs.isna()]
    rows = rows.assign(bar=[BARS.get(key) for key in zip(rows.training, rows.method, strict=True)])
    rows = rows.dropna(subset="bar")
    fewer = rows.groupby("bar").fewer.mean().fillna(1.0)  # with soft gates nothing is dropped
    order = [name for name in BARS.values() if name in set(rows.bar)]
    rows = rows.sort_values("bar", key=lambda names: names.map(order.index), kind="stable")
    return rows.assign(bar=[f"{name}\n{fewer[name]:.1f}×" for name in rows.bar])


def points_lost(name: str) -> pd.DataFrame:
    """A stored table of scores without its dense rows: points ``lost`` against them, by
    seed and draw, and in ``schedule`` how many times fewer MACs it needs.
    """
    scores = experiments.read(f"{name}/scores")
    dense = scores[scores.method == "dense"].set_index("seed")
    scores = scores[scores.method != "dense"]
    fewer = scores.seed.map(dense.macs) / scores.macs
    fewer = fewer.groupby(scores.schedule).transform("mean")
    return scores.assign(
        lost=scores.seed.map(dense.accuracy) - scores.accuracy,
        schedule=[f"{s}, {f:.2f} times fewer" for s, f in zip(scores.schedule, fewer, strict=True)],
    )


# ----------------------------------------------------------------------------- to play
def fading(
    patients: Patients, review: int = 1, last_share: float = 0.2, checkpoint: int = 0
) -> Figure:
    """For the explorer: one of :data:`SAMPLES` as it leaves each layer, in words (a word is there
    as long as one of its pieces is); the share kept falls by the same factor to ``last_share``
    in the last layer.
    """
    number = SAMPLES[review - 1]
    ids, named, decides = patients.pieces(number)
    model, layers = patients.models[checkpoint], patients.config.num_hidden_layers
    plan = progressive_shares(layers, last_share) | {layers - 1: 1e-6}  # only [CLS] is read there
    with dropping(model, plan, score="received") as drop, torch.inference_mode():
        positive = model(ids).logits.softmax(1)[0, 1].item()
    assert drop.last is not None
    starts, words = in_words(named)
    alive = torch.stack([drop.last.alive(i)[0] for i in range(layers)]).cpu().numpy()
    kept = [np.flatnonzero(np.logical_or.reduceat(row, starts)).tolist() for row in alive]
    truth = "positive" if patients.texts["validation"][number]["sentiment"] else "negative"
    title = f"The model says positive with {positive:.0%}; the label is {truth}"
    marked = [k for k, start in enumerate(starts) if decides[start]]
    return tokens_leaving(words, kept, marked=marked, title=title)
