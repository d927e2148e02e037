"""Lab 08: heads of a small translation model, gated, read for their roles, pruned by
kind, and removed.

Importance and choices go by one half of the validation sentences, curves by the other;
test sentences are for the final rows. BLEU is in points. The stored results
``lab08_heads`` and ``lab08_multi30k`` are made by ``data/results/make/lab08_results.py``.

Source: Voita et al. 2019; Michel et al. 2019, sections 5 and 6; Kovaleva et al. 2019;
Raganato et al. 2020.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import islice
from typing import Any

import pandas as pd
import torch
from matplotlib.figure import Figure
from torch import Tensor, nn
from torch.nn import functional as F

from course_lib import devices, experiments
from course_lib.data import translation
from course_lib.experiments import common
from course_lib.models import checkpoints
from course_lib.models.attention import find_attention
from course_lib.pruning.heads import gated, lowest_heads, neighbour, remove_heads
from course_lib.show import plots
from course_lib.training import Batch, endless

LAYERS, HEADS = 3, 6  # of the encoder
GATES = {"start": 2.0, "gates_lr": 0.1, "lr": 3e-4}
SENTENCES = {"train": 10_000, "validation": 600, "test": 1000}
RELATIONS = ("nsubj", "obj", "det", "amod", "plural", "case", "nmod", "aux", "mark", "advmod")
PATTERNS = ("vertical", "diagonal", "vertical+diagonal", "block", "heterogeneous")
#: Names of the state dict that share the numbers of another one.
TIED = dict.fromkeys(
    ("model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight", "lm_head.weight"),
    "model.shared.weight",
)


# ------------------------------------------------------------- sentences, models, losses
@cache
def data() -> Any:
    """Training, validation and test pairs; "scores" and "curves" are the two halves of
    validation.
    """
    found = dict(translation.load(**SENTENCES))
    half = SENTENCES["validation"] // 2
    found["scores"] = found["validation"].select(range(half))
    found["curves"] = found["validation"].select(range(half, 2 * half))
    return found


def trained(seed: int, attention: str = "sdpa") -> nn.Module:
    """A checkpoint that comes with the course."""
    model: nn.Module = checkpoints.load(f"translation-marian-{seed}", attention=attention).model
    return model


def batches(split: str, size: int = 50) -> list[Batch]:
    """The pairs of ``data()[split]``."""
    return list(translation.batches(data()[split], size))


def stream(seed: int) -> Iterator[Batch]:
    """Training batches without end."""
    return endless(lambda order: translation.batches(data()["train"], seed=order), 100 + seed)


def bleu(model: nn.Module, split: str = "curves") -> float:
    """BLEU of greedy translations, 0 to 100."""
    found = translation.translate(model, data()[split])
    return translation.bleu(found, list(data()[split]["target"]))


def word_losses(model: nn.Module, batch: Batch) -> Tensor:
    """(B, T): the cross-entropy of each word, 0 after the end."""
    inputs = {name: batch[name] for name in ("input_ids", "attention_mask", "labels")}
    return F.cross_entropy(
        model(**inputs).logits.transpose(1, 2), batch["labels"], reduction="none"
    )


def losses(model: nn.Module, batch: Batch) -> Tensor:
    """(B,): the mean over the words of each sentence."""
    return word_losses(model, batch).sum(1) / (batch["labels"] >= 0).sum(1)


def loss(model: nn.Module, batch: Batch) -> Tensor:
    """The mean over all words."""
    return word_losses(model, batch).sum() / (batch["labels"] >= 0).sum()


def ambiguous_example() -> tuple[str, pd.DataFrame]:
    """A noun with two translations, and the two shortest sentences for scores in which it
    is translated in either way: columns ``source``, ``translation``, ``rarest noun``.
    """
    seen: dict[str, Any] = {}
    for pair in sorted(data()["scores"], key=lambda pair: len(pair["words"])):
        if sum(pair["ambiguous"]) != 1 or pair["ambiguous"][pair["rarest"]]:
            continue
        word = pair["words"][pair["ambiguous"].index(True)]
        other = seen.setdefault(word, pair)
        nouns = {noun for noun in pair["target"].split() if noun[0].isupper()}
        if not nouns & set(other["target"].split()):
            rows = [
                {
                    "source": " ".join(f"**{w}**" if w == word else w for w in one["words"]),
                    "translation": one["target"],
                    "rarest noun": one["words"][one["rarest"]],
                }
                for one in (other, pair)
            ]
            return word, pd.DataFrame(rows)
    raise ValueError("no noun is translated in two ways: load more sentences")


# ----------------------------------------------------------------------- gates that close
@contextmanager
def encoder_gates(model: nn.Module, xi: Tensor) -> Iterator[None]:
    """Gates (layers, heads) on the encoder alone."""
    with gated(model, xi, find_attention(model, "encoder")):
        yield


def gated_loss(model: nn.Module, batch: Batch, gates: Tensor) -> Tensor:
    """The loss with these gates on the encoder's heads."""
    with encoder_gates(model, gates):
        return loss(model, batch)


def gate_path(
    seed: int,
    prices: Sequence[float],
    steps: int,
    train: Callable[..., list[float]],
    at_test: Callable[[Tensor], Tensor],
) -> Iterator[tuple[nn.Module, Tensor, dict[str, float]]]:
    """Train a checkpoint with a gate on each head of the encoder, at a price that rises.

    Args:
        prices: the values of λ, one after the other. steps: at each price.
        train: ``train_with_gates`` of 8.2. at_test: ``gate_at_test`` of 8.1.

    Yields:
        After each price the model (the same one, which goes on), its gates at test
        (layers, heads), and a row: ``price``; ``expected`` open gates; gates that are
        ``open`` at test; those of them ``between`` 0 and 1; ``bleu`` (validation).
    """
    model = trained(seed)
    log_alpha = torch.full((LAYERS, HEADS), GATES["start"], requires_grad=True)
    optimizer = torch.optim.Adam(
        [
            {"params": list(model.parameters()), "lr": GATES["lr"]},
            {"params": [log_alpha], "lr": GATES["gates_lr"]},
        ]
    )
    generator, source = torch.Generator().manual_seed(seed), stream(seed)
    for price in prices:
        batches = islice(source, steps)
        expected = train(model, log_alpha, batches, gated_loss, price, optimizer, generator)
        gates = at_test(log_alpha.detach())
        with encoder_gates(model, gates):
            after = bleu(model)
        yield (
            model,
            gates,
            {
                "price": price,
                "expected": expected[-1],
                "open": int((gates > 0).sum()),
                "between": int(((gates > 0) & (gates < 1)).sum()),
                "bleu": after,
            },
        )


def survivors_and_importance() -> pd.DataFrame:
    """Which heads are left at the last price, beside those with the largest I_h.

    Returns:
        A row per checkpoint: how many are ``left``, and ``left, by layer`` (a text); how
        many of them are ``among the most important`` by I_h; and ``by chance``.
    """
    survivors = experiments.read("lab08_heads/survivors")
    importance = experiments.read("lab08_heads/importance").query("kind == 'encoder'")
    rows = []
    for seed, part in survivors[survivors["price"] == survivors["price"].max()].groupby("seed"):
        keep = torch.tensor(part["kept"].to_numpy()).view(LAYERS, HEADS).bool()
        scores = importance[importance["seed"] == seed]["importance"].to_numpy()
        left = int(keep.sum())
        top = lowest_heads(torch.tensor(scores).view(LAYERS, HEADS), keep.numel() - left)
        rows.append(
            {
                "checkpoint": seed,
                "left": left,
                "left, by layer": ", ".join(map(str, keep.sum(1).tolist())),
                "among the most important": int((keep & top).sum()),
                "by chance": left**2 / keep.numel(),
            }
        )
    return pd.DataFrame(rows)


def last_prices(closing: pd.DataFrame, kinds: pd.DataFrame) -> pd.DataFrame:
    """BLEU of each method with the heads that are left in the end.

    Args:
        closing, kinds: tables of ``lab08_heads``.

    Returns:
        Columns ``seed``, ``method`` and ``bleu``. "random, untrained" are four of
        the 18 heads, drawn for ``kinds``.
    """
    ends = closing[closing["closed"] == closing.groupby("seed")["closed"].transform("max")]
    drawn = kinds.query("kind == 'encoder' and method == 'random' and pruned == 0.75")
    both = [ends, drawn.assign(method="random, untrained")]
    return pd.concat(both)[["seed", "method", "bleu"]]


# --------------------------------------------------------------------------------- roles
@torch.no_grad()
def encoder_maps(model: nn.Module, batch: Batch) -> Tensor:
    """(B, layers · heads, L, L): the encoder's attention, of a model with eager
    attention.
    """
    out = model.get_encoder()(  # type: ignore[operator]
        input_ids=batch["input_ids"], attention_mask=batch["attention_mask"], output_attentions=True
    )
    return torch.cat(out.attentions, dim=1)


@cache
def known_words() -> tuple[Batch, dict[str, Tensor], Tensor]:
    """The sentences for scores as one batch with what the grammar knows of them; of each
    rule the key that a query should look at, (B, L); and which tokens are words, (B, L).
    """
    pairs = data()["scores"]
    (batch,) = translation.batches(pairs, len(pairs), truth=True)
    return batch, *targets(batch)


def targets(batch: Batch) -> tuple[dict[str, Tensor], Tensor]:
    """Of each rule the key that a query should look at, (B, L), −1 for none, and which
    tokens are words (padding and the end mark are not).
    """
    real = (batch["attention_mask"] > 0) & (batch["input_ids"] != translation.END)
    head, relation = batch["head"], batch["relation"]
    found = {"previous": neighbour(real, -1), "next": neighbour(real, 1)}
    found["rarest"] = torch.where(real, batch["rarest"][:, None], -1)
    for name in RELATIONS:
        of_it = relation == translation.RELATIONS.index(name)
        found[f"{name}: to its head"] = torch.where(of_it & (head >= 0), head, -1)
        back = torch.full_like(head, -1)
        b, i = (of_it & (head >= 0)).nonzero(as_tuple=True)
        back[b, head[b, i]] = i
        found[f"{name}: from its head"] = back
    return found, real


def find_roles(seed: int, points_to: Callable[[Tensor, Tensor, Tensor], Tensor]) -> pd.DataFrame:
    """How often the largest attention of each encoder head is at the target of a rule.

    Args:
        points_to: of 8.3.

    Returns:
        Columns ``rule``, ``layer``, ``head`` and ``share`` (of the queries, 0 to 1).
    """
    batch, rules, real = known_words()
    maps = encoder_maps(trained(seed, "eager"), batch)
    rows = [
        {"rule": rule, "layer": i // HEADS, "head": i % HEADS, "share": share}
        for rule, target in rules.items()
        for i, share in enumerate(points_to(maps, target, real).tolist())
    ]
    return pd.DataFrame(rows)


def fixed_offsets(
    arc_baseline: Callable[[Tensor, Tensor], tuple[int, float]],
) -> pd.DataFrame:
    """What heads without any grammar would find.

    Args:
        arc_baseline: of 8.3.

    Returns:
        Columns ``rule``; the best fixed ``offset`` in words; the share of targets
        ``at_offset``; and that by ``chance``, one word drawn from the sentence.
    """
    _, rules, real = known_words()
    rows = []
    for rule, target in rules.items():
        offset, share = arc_baseline(target, real)
        lengths = real.sum(1, keepdim=True).expand_as(real)[(target >= 0) & real]
        chance = float((1 / lengths).mean())
        rows.append({"rule": rule, "offset": offset, "at_offset": share, "chance": chance})
    return pd.DataFrame(rows)


def clearest_rules(roles: pd.DataFrame, offsets: pd.DataFrame, count: int = 9) -> list[str]:
    """Neighbours, the rarest noun, and the ``count`` dependencies that some head finds
    most clearly, by its share beyond that of the best fixed offset.
    """
    best = roles.groupby("rule", sort=False)["share"].max()
    beyond = best - offsets.set_index("rule")["at_offset"]
    order = beyond.sort_values(ascending=False, kind="stable").index
    return ["previous", "next", "rarest", *[name for name in order if ":" in name][:count]]


def roles_by_head(roles: pd.DataFrame, rules: Sequence[str]) -> pd.DataFrame:
    """A row per rule, a column per head, in % of the queries: for a heat map."""
    heads = (roles["layer"] + 1).astype(str) + "." + (roles["head"] + 1).astype(str)
    wide = roles.assign(**{"layer.head": heads}).pivot(
        index="rule", columns="layer.head", values="share"
    )
    return 100 * wide.loc[list(rules)]


def roles_beside_baselines(
    roles: pd.DataFrame, offsets: pd.DataFrame, rules: Sequence[str]
) -> pd.DataFrame:
    """A row per rule, in % of the queries: the best head of each checkpoint, the best
    fixed offset (which stands behind the rule's name), and a random word: for a heat map.
    """
    best = roles.groupby(["rule", "seed"])["share"].max().unstack("seed")
    best.columns = [f"best head,\nno. {seed}" for seed in best.columns]
    by_rule = offsets.set_index("rule")
    other = ~by_rule.index.isin(["previous", "next"])  # there the offset is the rule itself
    best["best\noffset"] = by_rule["at_offset"].where(other)
    best["random\nword"] = by_rule["chance"]
    names = {r: f"{r} ({by_rule['offset'][r]:+d})" for r in by_rule.index[other]}
    return 100 * best.loc[list(rules)].rename(index=names).rename_axis(
        columns="checkpoint no. 0 to 2, and two baselines"
    )


def count_patterns(patterns: pd.DataFrame) -> pd.DataFrame:
    """How many heads have each pattern, by the class of most of their maps: a row per
    pattern, a column per model.

    Args:
        patterns: the table of ``lab08_heads``.
    """
    counts = patterns.groupby(["pattern", "model"]).size().unstack(fill_value=0)
    return counts.reindex(list(PATTERNS), fill_value=0).reset_index()


def show_attention(roles: pd.DataFrame, offsets: pd.DataFrame) -> Callable[..., Figure]:
    """For an explorer: what a head of checkpoint 0 looks at in one of twelve test sentences,
    and the rules for which it beats the best fixed offset. All three count from 1.
    """
    batch = next(translation.batches(data()["test"].select(range(12)), 12, truth=True))
    maps = encoder_maps(trained(0, "eager"), batch)
    names = translation.tokenizer()

    def draw(sentence: int = 1, layer: int = 1, head: int = 1) -> Figure:
        row = sentence - 1
        n = int(batch["attention_mask"][row].sum())
        words = names.convert_ids_to_tokens(batch["input_ids"][row, :n].tolist())
        attention = maps[row, (layer - 1) * HEADS + head - 1, :n, :n].cpu().numpy()
        mine = roles[(roles["layer"] == layer - 1) & (roles["head"] == head - 1)]
        mine = mine.merge(offsets, on="rule")
        mine = mine.assign(beyond=mine["share"] - mine["at_offset"]).query("beyond > 0")
        found = "; ".join(
            f"{row.rule} {100 * row.share:.0f} % ({100 * row.at_offset:.0f} %)"
            for row in mine.sort_values("beyond", ascending=False).head(2).itertuples()
        )
        title = f"Found more often than by the best fixed offset: {found or 'nothing'}"
        map_ = pd.DataFrame(attention, pd.Index(words, name="query"), pd.Index(words, name="key"))
        return plots.grid(map_, title=title, fmt="{:.1f}", colour_label="attention")

    return draw


# ------------------------------------------------------------------- over training, costs
def prunable_shares(
    over_training: pd.DataFrame, prunable_share: Callable[[list[tuple[float, float]]], float]
) -> pd.DataFrame:
    """The share of all heads, by I_h, that a checkpoint can lose at each step.

    Args:
        over_training: the table of ``lab08_heads``. prunable_share: of 8.6.

    Returns:
        In %: a row per checkpoint, a column per step.
    """
    curves = over_training[over_training["method"] == "I_h"].groupby(["seed", "step"], sort=False)
    rows = [
        {
            "checkpoint": seed,
            "step": step,
            "prunable": 100 * prunable_share(list(zip(part["pruned"], part["bleu"], strict=True))),
        }
        for (seed, step), part in curves
    ]
    return pd.DataFrame(rows).pivot(index="checkpoint", columns="step", values="prunable")


def dense_and_few() -> dict[str, nn.Module]:
    """Checkpoint 0, and the same with the heads whose gates closed removed for good."""
    dense = trained(0)
    survivors = experiments.read("lab08_heads/survivors").query("seed == 0")
    last = survivors[survivors["price"] == survivors["price"].max()]
    keep = torch.tensor(last["kept"].to_numpy()).view(LAYERS, HEADS).bool()
    few = remove_heads(dense, keep, find_attention(dense, "encoder"))
    return {"dense": dense, f"{int(keep.sum())} of {LAYERS * HEADS} encoder heads": few}


def measure_costs(nets: Mapping[str, nn.Module]) -> pd.DataFrame:
    """What models cost, by the longest test sentence: ``method``, ``bits``, ``macs`` of one
    sentence, ``ms`` of the encoder for 64 such sentences, as the ledger takes them.
    """
    pair = max(data()["test"], key=lambda pair: len(pair["words"]))
    texts = translation.tokenizer()
    one = texts(pair["source"], return_tensors="pt", return_token_type_ids=False)
    inputs = {**one, "labels": texts(pair["target"], return_tensors="pt")["input_ids"]}
    inputs = {name: part.to(devices.current()) for name, part in inputs.items()}
    many = one["input_ids"].repeat(64, 1)
    table = common.costs(
        nets, inputs, many, repeats=9, tied=TIED, timed=lambda net: net.get_encoder()
    )
    return table[["method", "bits", "macs", "ms"]]
