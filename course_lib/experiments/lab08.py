"""Lab 08: heads of a small translation model, gated, read for their roles, pruned by
kind, and removed.

Importance and choices go by one half of the validation sentences, curves by the other;
test sentences are for the final rows. BLEU is in points. The stored results
``lab08_heads`` and ``lab08_multi30k`` are made by ``data/results/make/lab08_results.py``.

Source: Voita et al. 2019; Michel et al. 2019, section 6; Kovaleva et al. 2019; Raganato et
al. 2020.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import islice
from typing import Any

import numpy as np
import pandas as pd
import torch
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from scipy.stats import hypergeom
from torch import Tensor, nn
from torch.nn import functional as F

from course_lib import devices, experiments
from course_lib.data import translation
from course_lib.experiments import common
from course_lib.models import checkpoints
from course_lib.models.attention import find_attention
from course_lib.pruning.heads import gated, neighbour, remove_heads_
from course_lib.show import plots
from course_lib.training import Batch, endless

LAYERS, HEADS = 3, 6  # of the encoder
GATES = {"start": 2.0, "gates_lr": 0.1, "lr": 3e-4}
SENTENCES = {"train": 10_000, "validation": 600, "test": 1000}
RELATIONS = ("nsubj", "obj", "det", "amod", "plural", "case", "nmod", "aux", "mark", "advmod")
MARGIN = 0.1  # a role is found if a head is so much above the best offset (Voita et al., 5.2)
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
                (
                    " ".join(f"**{w}**" if w == word else w for w in one["words"]),
                    one["target"],
                    one["words"][one["rarest"]],
                )
                for one in (other, pair)
            ]
            return word, pd.DataFrame(rows, columns=["source", "translation", "rarest noun"])
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
    model: nn.Module,
    seed: int,
    prices: Sequence[float],
    steps: int,
    train: Callable[..., list[float]],
    at_test: Callable[[Tensor], Tensor],
) -> Iterator[tuple[nn.Module, Tensor, dict[str, float]]]:
    """Train a model with a gate on each head of the encoder, at a price that rises.

    Args:
        seed: of the noise and of the order of the sentences.
        prices: the values of λ, one after the other. steps: at each price.
        train: ``train_with_gates`` of 8.1. at_test: the gate without noise, of 6.7.

    Yields:
        After each price the model (the same one, which goes on), its gates at test
        (layers, heads), and a row: ``price``; ``expected`` open gates; gates that are
        ``open`` at test; those of them ``between`` 0 and 1; ``bleu`` (validation).
    """
    log_alpha = torch.full((LAYERS, HEADS), GATES["start"], requires_grad=True)
    weights = {"params": list(model.parameters()), "lr": GATES["lr"]}
    optimizer = torch.optim.Adam([weights, {"params": [log_alpha], "lr": GATES["gates_lr"]}])
    generator, source = torch.Generator().manual_seed(seed), stream(seed)
    for price in prices:
        batches = islice(source, steps)
        expected = train(model, log_alpha, batches, gated_loss, price, optimizer, generator)
        gates = at_test(log_alpha.detach())
        row = {"price": price, "expected": expected[-1], "open": int((gates > 0).sum())}
        row["between"] = int(((gates > 0) & (gates < 1)).sum())
        with encoder_gates(model, gates):
            row["bleu"] = bleu(model)
        yield model, gates, row


def last_prices(closing: pd.DataFrame) -> pd.DataFrame:
    """BLEU of each method with the heads that are left at the last price, the mean of its
    draws: columns ``seed``, ``method``, ``bleu``.

    Args:
        closing: the table of ``lab08_heads``.
    """
    last = closing["closed"] == closing.groupby("seed")["closed"].transform("max")
    ends = closing[last | (closing["method"] == "dense")]
    return ends.groupby(["seed", "method"], sort=False, as_index=False)["bleu"].mean()


def survivors(seed: int) -> Tensor:
    """(layers, heads), bool: the encoder's heads that are open at a checkpoint's last price."""
    kept = experiments.read("lab08_heads/survivors").query("seed == @seed")
    last = kept[kept["price"] == kept["price"].max()]
    return torch.tensor(last["kept"].to_numpy()).view(LAYERS, HEADS).bool()


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
    """The sentences for scores as one batch with what the grammar knows of them; of each rule
    the key that a query should look at, (B, L), −1 for none; and which tokens are words, (B, L)
    (padding and the end mark are not).
    """
    pairs = data()["scores"]
    (batch,) = translation.batches(pairs, len(pairs), truth=True)
    real = (batch["attention_mask"] > 0) & (batch["input_ids"] != translation.END)
    governor, relation = batch["head"], batch["relation"]
    found = {"previous": neighbour(real, -1), "next": neighbour(real, 1)}
    found["rarest"] = torch.where(real, batch["rarest"][:, None], -1)
    for name in RELATIONS:
        of_it = relation == translation.RELATIONS.index(name)
        found[f"{name} → governor"] = torch.where(of_it & (governor >= 0), governor, -1)
        back = torch.full_like(governor, -1)
        b, i = (of_it & (governor >= 0)).nonzero(as_tuple=True)
        back[b, governor[b, i]] = i
        found[f"governor → {name}"] = back
    return batch, found, real


def find_roles(
    model: nn.Module,
    points_to: Callable[[Tensor, Tensor, Tensor], Tensor],
    arc_baseline: Callable[[Tensor, Tensor], tuple[int, float]],
) -> pd.DataFrame:
    """How often the largest attention of each encoder head is at the target of a rule, and how
    often the best fixed offset is, on every second of the sentences for scores and on the others.

    Args:
        model: with eager attention. points_to, arc_baseline: of 8.2.

    Returns:
        Columns ``half`` ("choose", "report"), ``rule``, ``layer``, ``head``, ``share`` of the
        queries (0 to 1), ``offset`` and ``at_offset`` of the best fixed one.
    """
    batch, rules, real = known_words()
    maps = encoder_maps(model, batch)
    rows = []
    for name, part in (("choose", slice(0, None, 2)), ("report", slice(1, None, 2))):
        for rule, target in rules.items():
            offset, share = arc_baseline(target[part], real[part])
            at = {"half": name, "rule": rule, "offset": offset, "at_offset": share}
            found = points_to(maps[part], target[part], real[part]).view(LAYERS, HEADS)
            rows += [
                {**at, "layer": i, "head": h, "share": float(found[i, h])}
                for i, h in np.ndindex(LAYERS, HEADS)
            ]
    return pd.DataFrame(rows)


def best_heads(roles: pd.DataFrame) -> pd.DataFrame:
    """Of each checkpoint and rule the head with the largest share on the half for choosing.

    Returns:
        Columns ``seed``, ``rule``, ``head`` (as "layer.head", from 1); ``share``, ``offset``
        and ``at_offset`` of the *other* half; ``found``: on the first half the head is
        :data:`MARGIN` above the best offset; ``survives``: its gate stayed open.
    """
    keys = ["seed", "rule", "layer", "head"]
    choose, report = (roles[roles["half"] == half] for half in ("choose", "report"))
    order = choose.sort_values("share", ascending=False, kind="stable")
    best = order.drop_duplicates(["seed", "rule"])
    found = best["share"] - best["at_offset"] >= MARGIN
    best = best[keys].assign(found=found).merge(report.drop(columns="half"), on=keys)
    alive = [survivors(s)[i, h] for s, i, h in best[["seed", "layer", "head"]].to_numpy()]
    names = (best["layer"] + 1).astype(str) + "." + (best["head"] + 1).astype(str)
    return best.drop(columns="layer").assign(head=names, survives=list(map(bool, alive)))


def draw_roles(best: pd.DataFrame, title: str) -> Figure:
    """Heat map of the roles that are found: the best head's share, its name below; a frame
    where this head survives.
    """
    shown = best[best["found"]]
    order = shown.groupby("rule").size().sort_values(ascending=False, kind="stable").index
    wide = 100 * shown.pivot(index="rule", columns="seed", values="share").loc[order]
    fig = plots.grid(
        wide,
        title=title,
        fmt="{:.0f} %",
        xlabel="checkpoint (frame: the head survives the gates)",
        ylabel="",
        colour_label="% of the queries",
    )
    for row in shown.itertuples():
        x, y = wide.columns.get_loc(row.seed), wide.index.get_loc(row.rule)
        middle = (shown["share"].min() + shown["share"].max()) / 2
        colour = "white" if row.share < middle else "black"
        fig.axes[0].text(x, y + 0.33, row.head, ha="center", va="center", fontsize=8, color=colour)
        if row.survives:
            look: dict[str, Any] = {"fill": False, "edgecolor": "#d55e00", "linewidth": 3}
            fig.axes[0].add_patch(Rectangle((x - 0.47, y - 0.47), 0.94, 0.94, **look))
    return fig


def overlap(best: pd.DataFrame) -> dict[str, float]:
    """How many survivors are the best head of a role that is found, and how many of as many
    heads drawn from each checkpoint's encoder would be.

    Returns:
        ``survivors``, ``with a role``, ``by chance`` (expected) and ``probability`` of so many
        or more by chance (hypergeometric, of all checkpoints together).
    """
    left, hits, chance = 0, 0, np.ones(1)
    for seed, of in best[best["found"]].groupby("seed"):
        keep, heads = survivors(int(seed)), of["head"].unique()
        hits += of.loc[of["survives"], "head"].nunique()
        kept = int(keep.sum())
        left += kept
        chance = np.convolve(chance, hypergeom(keep.numel(), len(heads), kept).pmf(range(kept + 1)))
    expected = float(chance @ np.arange(len(chance)))
    more = float(chance[hits:].sum())
    return {"survivors": left, "with a role": hits, "by chance": expected, "probability": more}


def show_attention(roles: pd.DataFrame) -> Callable[..., Figure]:
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
        here = (roles["layer"] == layer - 1) & (roles["head"] == head - 1)
        mine = roles[here & (roles["half"] == "report")]
        mine = mine.assign(beyond=mine["share"] - mine["at_offset"]).query("beyond > 0")
        found = "; ".join(
            f"{row.rule} {100 * row.share:.0f} % ({100 * row.at_offset:.0f} %)"
            for row in mine.sort_values("beyond", ascending=False).head(2).itertuples()
        )
        title = f"Found more often than by the best fixed offset: {found or 'nothing'}"
        map_ = pd.DataFrame(attention, pd.Index(words, name="query"), pd.Index(words, name="key"))
        return plots.grid(map_, title=title, fmt="{:.1f}", colour_label="attention")

    return draw


# --------------------------------------------------------------------------------- costs
def dense_and_one() -> dict[str, nn.Module]:
    """Checkpoint 0, and the same with the last head alone in each layer of the encoder."""
    one, keep = trained(0), torch.arange(HEADS).expand(LAYERS, HEADS) == HEADS - 1
    remove_heads_(one, keep, find_attention(one, "encoder"))
    return {"dense": trained(0), "a head in each encoder layer": one}


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
