"""Lab 10: tokens dropped from small BERTs on reviews, from vision transformers on digits,
and from a real encoder: what the lab and its lecture run.

Layers are counted from 0; a text for readers counts from 1. Columns: ``share`` of the
tokens that are kept, ``accuracy`` (validation) and ``test`` in %, ``fewer``: MACs of the
whole texts over those of the shortened ones. The stored results are made by
``data/results/make/lab10_results.py``.

Source: Goyal et al. 2020, "PoWER-BERT"; Kim et al. 2022, "Learned Token Pruning for
Transformers".
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
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from torch import Tensor, nn
from transformers.utils import logging

from course_lib import devices, experiments
from course_lib.cost import latency, storage, texts_macs
from course_lib.data import images, pieces, reviews
from course_lib.data.review_grammar import POLAR
from course_lib.models import checkpoints
from course_lib.models.bert import small_bert
from course_lib.modes import evaluating
from course_lib.parallel import side_by_side
from course_lib.pruning.heads import gated
from course_lib.pruning.tokens import (
    Cascading,
    cascading,
    dropping,
    kept_count,
    progressive_shares,
)
from course_lib.pruning.tokens.dropping import Score
from course_lib.show import plots
from course_lib.show.drawings import tokens_leaving
from course_lib.training import Batch

EVIDENCE = "piece_evidence"  # the column of a batch that says which pieces decide
LAYERS, SHARES = (0, 1, 2), (0.5, 0.3, 0.2, 0.1)  # of single drops
METHODS = ("informed", "all evidence", "polar words", "random")
SAMPLES = (3, 7, 12, 21, 30, 44)  # validation texts to look at

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
        list(pieces.batches(data[part], "sentiment", 100, extra=(EVIDENCE,)))
        for part in ("validation", "test")
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
    """Accuracy and cost of a classifier while tokens are dropped, and the recall of words.

    Args:
        model: a BERT-type classifier of transformers.
        batches: of ``pieces.batches``, with labels; where they have the column
            ``piece_evidence``, recall is measured.
        keep: the tokens to keep after each layer, see ``dropping``; None: all.
        score: as in ``dropping``.
        seed: of random scores.
        block: a ``cascading`` of this model to measure in place of ``dropping``.

    Returns:
        ``accuracy`` in %; ``macs`` of the encoder for one text, mean over texts, and
        ``dense_macs``, those of whole texts; ``recall``, the share of the polar words'
        pieces that are kept to the end, and ``chance``, the expected recall if as many
        tokens were kept at random. The last two are NaN without evidence.
    """
    generator = torch.Generator().manual_seed(seed)
    keep = {} if keep is None else keep
    opened = block or dropping(model, keep, score=score, generator=generator)
    config: Any = model.config
    right = texts = polar_kept = polar = expected = 0.0
    heads: list[Tensor] = []  # that work in a cascade, (layers, B)
    with evaluating(model), torch.inference_mode(), opened as drop:
        for batch in batches:
            logits = model(**model_inputs(batch)).logits
            right += (logits.argmax(1) == batch["labels"]).sum().item()
            texts += len(batch["labels"])
            if isinstance(drop, Cascading):
                heads.append(torch.stack([alive.sum(1) for alive in drop.working]))
            if EVIDENCE in batch:
                assert drop.last is not None
                words = batch[EVIDENCE] == POLAR  # (B, L)
                alive = drop.last.alive(-1)
                at_random = (alive.sum(1) - 1) / (drop.last.lengths - 1)  # [CLS] stays in any case
                polar_kept += (words & alive).sum().item()
                polar += words.sum().item()
                expected += (words.sum(1) * at_random).sum().item()
        attention, ffn = drop.lengths()
    size = config.hidden_size // config.num_attention_heads
    width = torch.cat(heads, 1) * size if heads else None
    return {
        "accuracy": 100 * right / texts,
        "macs": mean_macs(config, attention, ffn, width),
        "dense_macs": planned_macs(config, attention[0], {}),
        "recall": polar_kept / polar if polar else float("nan"),
        "chance": expected / polar if polar else float("nan"),
    }


def model_inputs(batch: Batch) -> Batch:
    """The columns of a batch that the model reads."""
    return {name: column for name, column in batch.items() if name not in ("labels", EVIDENCE)}


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


def times_fewer(measured: Mapping[str, float]) -> float:
    """How many times fewer MACs a run of :func:`measure` needed than whole texts."""
    return measured["dense_macs"] / measured["macs"]


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


def attention_by_word(received: Received, patients: Patients, number: int) -> pd.DataFrame:
    """n · score of each word of a validation text (1: the average piece), its pieces added
    up, in each layer of the first model; "• ": the word decides.
    """
    ids, named, decides = patients.pieces(number)
    everything = torch.ones_like(ids, dtype=torch.bool)
    layers = run_attention(patients.eager[0], ids)
    scores = len(named) * torch.stack([received(attn, everything)[0] for _, attn in layers])
    # a word is a piece with all its ##pieces
    starts = [i for i, name in enumerate(named) if not name.startswith("##")]
    words = [
        ("• " if max(decides[a:b]) else "") + "".join(named[a:b]).replace("##", "")
        for a, b in zip(starts, [*starts[1:], len(named)], strict=True)
    ]
    return pd.DataFrame(
        np.add.reduceat(scores.cpu().numpy(), starts, axis=1),
        index=pd.Index([f"layer {layer + 1}" for layer in range(len(layers))], name=""),
        columns=pd.Index(words, name="words (• decides)"),
    )


def kept_pieces(
    keep: Keep, received: Received, patients: Patients, number: int, layer: int, share: float
) -> tuple[str, str]:
    """The pieces of a validation text that go on from this layer of the first model, and
    its answer from them alone.
    """
    ids, named, _ = patients.pieces(number)
    rows, attn = run_attention(patients.eager[0], ids)[layer]
    there = torch.ones_like(ids, dtype=torch.bool)
    fewer, _, index = keep(rows, there, received(attn, there), math.ceil(share * ids.shape[1]))
    positive = finish_from(patients.eager[0], layer, fewer).softmax(1)[0, 1]
    return " ".join(named[i] for i in index[0]), f"positive with {positive:.0%}"


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
    is at most ``points`` below dense: ``seed``, ``layer``, ``share``, ``fewer``.
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
        rows.append({"seed": seed, "layer": layer, "share": share, "fewer": fewer})
    return pd.DataFrame(rows)


def on_test(patients: Patients, chosen: pd.DataFrame, seed: int) -> list[dict[str, Any]]:
    """``test`` accuracy on whole texts, with the chosen drop, and with as many tokens drawn;
    ``recall`` and ``chance`` of the chosen drop (see :func:`measure`).
    """
    (row,) = chosen[chosen.seed == seed].to_dict("records")
    plan = {row["layer"]: row["share"]}
    model, batches = patients.models[seed], patients.test
    informed = measure(model, batches, plan, score="received")
    test = {
        "dense": measure(model, batches)["accuracy"],
        "informed": informed["accuracy"],
        "random": measure(model, batches, plan, score="random", seed=seed)["accuracy"],
    }
    about = {
        "after layer": row["layer"] + 1,
        "share": row["share"],
        "fewer": times_fewer(informed),
        "recall": informed["recall"],
        "chance": informed["chance"],
    }
    return [{"method": method, **about, "test": accuracy} for method, accuracy in test.items()]


def by_checkpoint(tested: pd.DataFrame) -> pd.DataFrame:
    """Rows of :func:`on_test` with a column of test accuracy per method."""
    about = ["seed", "after layer", "share", "fewer", "recall", "chance"]
    return tested.pivot(index=about, columns="method", values="test").reset_index()


# ------------------------------------------------------------------- policies and thresholds
def lost_by_length(policy: Callable[..., Tensor], patients: Patients) -> pd.DataFrame:
    """Share of the tokens (%) that a threshold of the average score drops after layer 2 of
    the first model, in the shortest and the longest quarter of the texts: θ = 1/37 on s,
    and by ``policy(scores, 1.0, token_mask)`` on n·s.
    """
    found = []
    model = patients.models[0]
    with dropping(model, {1: 1.0}, score="received") as drop, torch.inference_mode():
        for batch in patients.validation:
            model(**model_inputs(batch))
            assert drop.last is not None
            scores, real = drop.last.scores[1], batch["attention_mask"].bool()
            n = real.sum(1)
            on_s = ((scores >= 1 / 37) & real).sum(1) / n
            on_ns = policy(scores, 1.0, real).sum(1) / n
            found.append(torch.stack([n.float(), 100 * (1 - on_s), 100 * (1 - on_ns)], 1))
    lost = torch.cat(found).cpu()
    lost = lost[torch.from_numpy(lost[:, 0].numpy().argsort())]
    quarter = len(lost) // 4
    parts = {"shortest quarter (%)": lost[:quarter], "longest quarter (%)": lost[-quarter:]}
    means = {name: [float(part[:, rule].mean()) for rule in (1, 2)] for name, part in parts.items()}
    return pd.DataFrame({"rule": ["θ = 1/37 on s", "θ = 1 on n·s"], **means})


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
    """Validation accuracy of a schedule, a threshold, and a random choice with the schedule's
    counts. Each needs ``budget`` times fewer MACs than whole texts; a ``budget`` of 1 is the
    whole text.
    """
    model, layers = patients.models[seed], patients.config.num_hidden_layers
    half, middle = patients.validation[::2], len(patients.validation) // 2

    def measure_threshold(theta: float, batches: list[Batch]) -> dict[str, float]:
        def keep(scores: Tensor, real: Tensor) -> Tensor:
            return policy(scores, theta, real)

        return measure(model, batches, dict.fromkeys(range(layers - 1), keep), score="received")

    def saved_by_threshold(theta: float) -> float:
        return times_fewer(measure_threshold(theta, patients.validation[middle : middle + 1]))

    def schedule(gone: float) -> Schedule:
        return schedule_of(progressive, layers, 1 - gone)

    def saved_by_schedule(gone: float) -> float:
        return ratio(patients.config, patients.lengths, schedule(gone))

    dense = {"budget": 1.0, "accuracy": patients.dense[seed], "fewer": 1.0}
    rows = [{"method": name, **dense} for name in ("progressive", "threshold", "random")]
    for budget in budgets:
        shares = schedule(solve(saved_by_schedule, budget, 0.0, 0.99))
        found = {
            "progressive": measure(model, half, shares, score="received"),
            "threshold": measure_threshold(solve(saved_by_threshold, budget, 0.0, 3.0), half),
            "random": measure(model, half, shares, score="random", seed=seed),
        }
        rows += [
            {"method": m, "budget": budget, "accuracy": x["accuracy"], "fewer": times_fewer(x)}
            for m, x in found.items()
        ]
    return rows


@torch.no_grad()
def gates(soft_threshold: Callable[[int, float], Any]) -> pd.DataFrame:
    """How much of a token ``goes on`` at θ = 1, by n times its score (``n·s``), with two
    temperatures and as a step.
    """
    line = torch.linspace(0, 2.5, 1001)
    # the middle one of three tokens, of which two are real, so n = 2
    scores = torch.stack([torch.full_like(line, 0.1), line / 2, torch.full_like(line, 0.1)], 1)
    real = torch.tensor([[True, True, False]]).expand(len(line), 3)
    found = {"n·s": line.numpy()}
    for temperature in (0.3, 0.1):
        soft = soft_threshold(1, temperature)
        soft.theta.fill_(1.0)
        found[f"T = {temperature}"] = soft(scores, 0, real)[:, 1].numpy()
    found["hard"] = soft.eval()(scores, 0, real)[:, 1].numpy()
    return pd.DataFrame(found).melt("n·s", var_name="method", value_name="goes on")


# ------------------------------------------------------------------------ tokens and heads
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
            rows.append(
                {
                    "after layer": layer + 1,
                    "tokens": f"{int(tokens.sum())} of {len(tokens)}",
                    "heads kept": ", ".join(map(str, heads.nonzero().flatten().tolist())),
                    "kept text": " ".join(itertools.compress(named, tokens)),
                }
            )
    return pd.DataFrame(rows)


def jointly(patients: Patients, heads: Mapping[int, int], seed: int) -> list[dict[str, Any]]:
    """Validation accuracy with tokens (by the stored schedule of this seed), ``heads`` (layer
    -> how many go on), or both dropped by the library's cascade, and with as many of both
    drawn at random.
    """
    stored = experiments.read("lab10_reviews/schedules").query("seed == @seed")
    shares: Schedule = stored.set_index("layer").share.to_dict()
    model, half = patients.models[seed], patients.validation[1::2]
    depth, count = model.config.num_hidden_layers, model.config.num_attention_heads
    generator = torch.Generator().manual_seed(seed)
    keep = torch.ones(depth, count, dtype=torch.bool)
    for layer in range(1, depth):
        left = heads.get(layer - 1, min(heads.values()))
        keep[layer] = torch.randperm(count, generator=generator) < left
    found = {
        "dense": measure(model, half),
        "tokens": measure(model, half, shares),
        "heads": measure(model, half, block=cascading(model, {}, heads)),
        "tokens and heads": measure(model, half, block=cascading(model, shares, heads)),
    }
    with gated(model, keep):
        found["random"] = measure(model, half, shares, score="random", seed=seed)
    # as many of both in each layer
    found["random"]["macs"] = found["tokens and heads"]["macs"]
    return [
        {"method": m, "accuracy": one["accuracy"], "fewer": found["dense"]["macs"] / one["macs"]}
        for m, one in found.items()
    ]


# ------------------------------------------------------------------------ what it saves
WAYS: dict[str, tuple[str, Score]] = {
    "SDPA,\n[CLS] row": ("SDPA", "cls"),
    "SDPA,\nreceived": ("SDPA", "received"),
    "eager,\n[CLS] row": ("eager", "cls"),
    "eager,\nreceived": ("eager", "received"),
    "SDPA,\nrandom": ("SDPA", "random"),
}


@cache
def timed_model() -> Any:
    """4 layers of width 256 with random weights: time does not depend on them."""
    return small_bert(600, layers=4, width=256, heads=8, ffn=1024, seed=0).eval()


def clock(
    plan: Schedule, repeats: Mapping[int, int], ways: Mapping[str, tuple[str, Score]] = WAYS
) -> pd.DataFrame:
    """Times ``faster`` than the dense model with SDPA, and ``ms``, of texts of 128 tokens on
    one thread, in each way but that one.

    Args:
        plan: the schedule. repeats: size of the batch -> turns of each way.
        ways: name -> attention kernel and score.
    """
    kernels = {name: copy.deepcopy(timed_model()) for name in ("SDPA", "eager")}
    kernels["eager"].set_attn_implementation("eager")
    rows = []
    for size, turns in repeats.items():
        ids = torch.randint(5, 600, (size, 128), generator=torch.Generator().manual_seed(size))
        passes = {f"{name},\ndense": latency.forward(model, ids) for name, model in kernels.items()}
        with ExitStack() as blocks:  # each way keeps its block open while the clock runs
            for way, (kernel, score) in ways.items():
                model = copy.deepcopy(kernels[kernel])
                generator = torch.Generator().manual_seed(0)
                blocks.enter_context(dropping(model, plan, score=score, generator=generator))
                passes[way] = latency.forward(model, ids)
            times = latency.compare(passes, warmup=1, repeats=turns, threads=1)
        dense = times.pop("SDPA,\ndense")
        rows += [
            {
                "batch": f"batch {size}",
                "way": way,
                "faster": dense.times_slower_than(time),
                "ms": 1e3 * time.median,
            }
            for way, time in times.items()
        ]
    return pd.DataFrame(rows)


def by_score(patients: Patients, plan: Schedule, seed: int) -> list[dict[str, Any]]:
    """Validation accuracy with the same shares by the row of [CLS] and by attention
    received.
    """
    scores: dict[str, Score] = {"[CLS] row": "cls", "received": "received"}
    model, half = patients.models[seed], patients.validation[1::2]
    return [
        {"method": name, "accuracy": measure(model, half, plan, score=score)["accuracy"]}
        for name, score in scores.items()
    ]


def costs(patients: Patients, chosen: pd.DataFrame, tested: pd.DataFrame) -> list[dict[str, Any]]:
    """Two ledger rows, whole texts and the chosen drops: size of the whole model in ``bits``,
    mean ``macs`` of a validation review in the encoder, ``ms`` per text of a batch of 100,
    and test ``accuracy`` per seed.
    """
    batch = patients.test[len(patients.test) // 2]
    inputs = {name: part.cpu() for name, part in model_inputs(batch).items()}
    rows = []
    for seed, layer, share in zip(chosen.seed, chosen.layer, chosen.share, strict=True):
        dense, shortened = (copy.deepcopy(patients.models[seed]).cpu() for _ in range(2))
        passes = {"dense": partial(dense, **inputs), "informed": partial(shortened, **inputs)}
        plans = {"dense": {}, "informed": {layer: share}}
        with dropping(shortened, plans["informed"]), torch.inference_mode():
            times = latency.compare(passes, repeats=10, threads=1)
        for method, plan in plans.items():
            macs = planned_macs(patients.config, patients.lengths, plan)
            ms = 1e3 * times[method].median / len(batch["labels"])
            rows.append({"method": method, "macs": macs, "ms": ms})
    table = pd.DataFrame(rows).set_index("method")
    names = {"dense": "dense, a text of lab 10", "informed": "tokens dropped, own layer"}
    return [
        {
            "method": name,
            "bits": storage.model_bits(dense.state_dict()),
            "macs": float(table.loc[method].macs.mean()),
            "ms": float(table.loc[method].ms.mean()),
            "accuracy": tested[tested.method == method].test.tolist(),
        }
        for method, name in names.items()
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
def measured() -> pd.DataFrame:
    """What was trained with tokens dropped, on test reviews, and the soft gates of learned
    thresholds on validation reviews: ``training`` ("as it came", "fine-tuned",
    "thresholds"), ``method``, ``arm`` (both), ``checkpoint``, ``test`` (accuracy in %),
    ``fewer``, ``recall``, ``chance``.
    """
    rows = experiments.read("lab10_reviews/measured")
    rows = rows[(rows.part == "test") | rows.macs.isna()]
    return rows.rename(columns={"accuracy": "test"}).assign(
        fewer=rows.dense_macs / rows.macs,
        arm=rows.method + ", " + rows.training,
        checkpoint=[f"checkpoint {seed}" for seed in rows.seed],
    )


def thresholds() -> pd.DataFrame:
    """Learned thresholds ``theta`` by ``seed``, ``step`` and ``layer`` ("layer 1" …), with a
    hard phase.
    """
    rows = experiments.read("lab10_reviews/thresholds")
    rows = rows[rows.method == "hard phase"]
    return rows.assign(layer=[f"layer {layer + 1}" for layer in rows.layer])


def goal(rows: pd.DataFrame, points: float = 1.0, fewer: float = 2.0) -> str:
    """On how many checkpoints fine-tuning reached the goal, as a sentence, by the rows of
    :func:`measured`.
    """
    by_arm = rows.pivot(index="seed", columns="arm", values=["test", "fewer"])
    lost = by_arm["test", "dense, as it came"] - by_arm["test", "informed, fine-tuned"]
    reached = (lost < points) & (by_arm["fewer", "informed, fine-tuned"] >= fewer)
    return f"The goal was reached on **{reached.sum()} of {len(reached)}** checkpoints."


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


def attention_sinks(patients: Patients) -> str:
    """The largest attention of [CLS], by layer, of the MiniLM of ``lab10_sst2`` and of the first
    checkpoint.
    """
    stored = experiments.read("lab10_sst2/sink").groupby("layer").share.mean()
    ours = favourite(patients.models[0], patients.validation[:5])
    return "  \n".join(
        f"{model}, largest attention of [CLS], by layer: {', '.join(f'{s:.0%}' for s in shares)}."
        for model, shares in (("MiniLM", stored), ("our small BERT", ours))
    )


def favourite(model: nn.Module, batches: Iterable[Batch]) -> list[float]:
    """For each layer the largest entry of [CLS]'s attention row (mean over heads), mean
    over texts.
    """
    config: Any = model.config
    everything = dict.fromkeys(range(config.num_hidden_layers), 1.0)
    found = []
    with evaluating(model), torch.inference_mode(), dropping(model, everything) as drop:
        for batch in batches:
            model(**model_inputs(batch))
            assert drop.last is not None
            found.append(torch.stack([drop.last.scores[layer].amax(1) for layer in everything]))
    return torch.cat(found, 1).mean(1).tolist()


# ------------------------------------------------------------------------ patches of digits
KINDS = {"patches left out": "digits-vit-dropout-p2", "plainly": "digits-vit-p2"}
SIDE = 4  # patches in a row: 16 of 2×2 pixels in a digit of 8×8


def vision_transformers(seeds: Sequence[int]) -> dict[str, list[Any]]:
    """How they were trained -> a model per seed."""
    return {
        kind: [checkpoints.load(f"{name}-{seed}").model for seed in seeds]
        for kind, name in KINDS.items()
    }


def ink_shares(pictures: Tensor) -> Tensor:
    """Share of each picture's ink in each patch: (N, 1, 8, 8) -> (N, 16), row by row."""
    in_patch = nn.functional.avg_pool2d(pictures, 2).flatten(1)
    return in_patch / in_patch.sum(1, keepdim=True)


def keep_patches(
    model: Any, pictures: Tensor, kept: int, score: Score = "received", draw: int = 0
) -> tuple[Tensor, Tensor, Tensor]:
    """Keep ``kept`` patches after layer 1: answers (N,), n · score of each patch (N, 16),
    and which patches are kept, bool (N, 16).
    """
    generator = torch.Generator().manual_seed(draw)
    block = dropping(model, {0: 1 + kept}, score=score, generator=generator)
    with block as drop, torch.inference_mode():
        answers = model(pixel_values=pictures).logits.argmax(1)
        assert drop.last is not None
        return answers, drop.last.scores[0][:, 1:] * (SIDE**2 + 1), drop.last.alive(0)[:, 1:]


def on_patches(models: Mapping[str, Sequence[Any]], kept: Iterable[int] = (8, 4)) -> pd.DataFrame:
    """``test`` accuracy, and share of the ``ink`` that is kept, with all 16 patches, with
    those that receive most attention ("informed"), and with three draws ("random").
    """
    test = images.load("digits").test
    arms: list[tuple[int, str, Score, int]] = [(SIDE**2, "dense", "received", 0)]
    for count in kept:
        arms.append((count, "informed", "received", 0))
        arms += [(count, "random", "random", draw) for draw in range(3)]
    rows = []
    for training, nets in models.items():
        for (seed, model), (count, method, score, draw) in itertools.product(enumerate(nets), arms):
            answers, _, alive = keep_patches(model, test.images, count, score, draw)
            rows.append(
                {
                    "seed": seed,
                    "setting": f"{training}, {count} of {SIDE**2}",
                    "method": method,
                    "test": 100 * (answers == test.labels).float().mean().item(),
                    "ink": (ink_shares(test.images) * alive).sum(1).mean().item(),
                }
            )
    return pd.DataFrame(rows)


def which_patches(models: Mapping[str, Sequence[Any]], kept: int = 8) -> Figure:
    """Six test digits, and the patches that the first model of each kind keeps."""
    pictures = images.load("digits").test.images[:6]
    fig, rows = plots.subplots(1 + len(models), len(pictures), 5.2)
    for ax, picture in zip(rows[0], pictures, strict=True):
        _draw_patches(ax, picture, torch.ones(SIDE**2, dtype=torch.bool))
    for axes, nets in zip(rows[1:], models.values(), strict=True):
        alive = keep_patches(nets[0], pictures, kept)[2]
        for ax, picture, there in zip(axes, pictures, alive, strict=True):
            _draw_patches(ax, picture, there)
    for ax, name in zip(rows[:, 0], ["test digit", *models], strict=True):
        ax.set_ylabel(name)
    fig.suptitle(f"Which {kept} of {SIDE**2} patches are kept? (hatched: dropped)")
    return fig


def _draw_patches(ax: Axes, picture: Tensor, alive: Tensor) -> None:
    """The digit, with the patches that are dropped covered."""
    ax.imshow(picture[0].cpu(), cmap="Greys", vmin=0, vmax=1)
    for place in (~alive).nonzero().flatten().tolist():
        i, j = divmod(place, SIDE)
        ax.add_patch(
            Rectangle(
                (2 * j - 0.5, 2 * i - 0.5), 2, 2, facecolor="#9DB8D2", edgecolor="white",
                hatch="//", linewidth=0,
            )
        )  # fmt: skip
    ax.set(xticks=[], yticks=[])
    ax.grid(visible=False)


# ----------------------------------------------------------------------------- to play
def fading(
    patients: Patients, review: int = 1, last_share: float = 0.2, checkpoint: int = 0
) -> Figure:
    """For the explorer: one of :data:`SAMPLES` as it leaves each layer; the share kept falls
    by the same factor to ``last_share`` in the last layer.
    """
    number = SAMPLES[review - 1]
    ids, named, decides = patients.pieces(number)
    model, layers = patients.models[checkpoint], patients.config.num_hidden_layers
    plan = progressive_shares(layers, last_share) | {layers - 1: 1e-6}  # only [CLS] is read there
    with dropping(model, plan) as drop, torch.inference_mode():
        positive = model(ids).logits.softmax(1)[0, 1].item()
    assert drop.last is not None
    kept = [drop.last.alive(i)[0].nonzero().flatten().tolist() for i in range(layers)]
    truth = "positive" if patients.texts["validation"][number]["sentiment"] else "negative"
    title = f"The model says positive with {positive:.0%}; the label is {truth}"
    marked = [i for i, value in enumerate(decides) if value]
    return tokens_leaving(named, kept, marked=marked, title=title)
