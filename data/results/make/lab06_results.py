"""Lab 06's stored results: models pruned before and while they are fine-tuned, by the
rules of four papers, and the same regimes with a real encoder on SST-2.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from torch import Tensor, nn

from course_lib.data import pieces
from course_lib.experiments import Result, by_seed, common, lab06
from course_lib.experiments.lab06 import FULL, Row, measured, pretrained
from course_lib.experiments.once import each
from course_lib.models import checkpoints
from course_lib.models.bert import small_bert
from course_lib.pruning import components, weights
from course_lib.pruning.weights import Masks, encoder_weights
from course_lib.pruning.weights.movement import TopV, soft_mask
from course_lib.training import accuracy

SEEDS = 3
RATES: Row = {"careful": {"steps": 400, "batch": 16, "lr": 5e-5}, "bold": FULL}
# the share that is kept, and soft movement's λ, by which about as many are kept
KEPT = {"careful": {0.1: 13.0, 0.03: 50.0}, "bold": {0.1: 32.0, 0.03: 75.0}}
STRENGTHS = {"loss": (1e-4, 3e-4, 1e-3), "proximal": (0.3, 1.0, 2.0), "reweighted": (1.0, 3.0, 5.0)}
Tables = dict[str, list[Row]]


def starts(seed: int) -> Tables:
    """What pre-training gives: fine-tuned from the checkpoint, and from scratch."""
    words = len(checkpoints.load(f"reviews-bert-{seed}").tokenizer)
    tuned, scratch = pretrained(seed), small_bert(words, seed=seed)
    for model in (tuned, scratch):
        lab06.finetune(model, seed=seed)
    share = torch.cat([b["labels"] for b in lab06.batches("validation")]).double().mean()
    dense, always = lab06.score(tuned), 100 * float(max(share, 1 - share))
    found = {
        "pre-trained": dense["accuracy"],
        "from scratch": measured(scratch),
        "majority": always,
    }
    return {
        "starts": [{"method": method, "accuracy": reached} for method, reached in found.items()],
        "regimes": [{"method": "dense", "sparsity": None, **dense}],
    }


def held_or_not(
    seed: int, sparsity: float, hold: bool, at_random: bool = False, how: Row = FULL
) -> Row:
    """Pruned, then fine-tuned; ``old``: the old task right after pruning."""
    old = pretrained(seed, head=False)
    chosen = lab06.choose(old, sparsity, seed if at_random else None)
    weights.apply(old, chosen)
    model = pretrained(seed)
    tune: Any = partial(lab06.finetune, seed=seed, how=how)
    weights.prune_then_finetune(model, chosen, tune, hold)
    return {**lab06.score(model), "old": measured(old, "sentiment")}


def regimes(seed: int) -> Tables:
    """Zeros held, zeros at the start alone, and (held) at random."""
    arms = {"zeros held": (True, False), "let go": (False, False), "random": (True, True)}
    each_one = itertools.product(arms.items(), lab06.SPARSITIES)
    rows = [{"method": m, "sparsity": s, **held_or_not(seed, s, *arm)} for (m, arm), s in each_one]
    return {"regimes": rows}


def on_the_way(seed: int, keep: float, how: Row, at_random: bool = False) -> Row:
    """Pruned on the way to ``keep``, one threshold for the whole encoder, by size or at random."""
    model, steps, done = pretrained(seed), how["steps"], itertools.count(1)
    before = {name: w.detach().clone() for name, w in encoder_weights(model).items()}
    chance = weights.random(before, torch.Generator().manual_seed(seed))
    masks: Masks = {}

    def prune_more() -> None:
        share = lab06.kept_at(step := next(done), steps, keep)
        if step % 10 == 0 or step == steps:
            score = chance if at_random else weights.magnitude(encoder_weights(model))
            masks.update(weights.global_masks(score, 1 - share))
        weights.apply(model, masks)

    lab06.finetune(model, prune_more, seed=seed, how=how)
    return lab06.describe(model, before, masks)


def by_movement(seed: int, keep: float, how: Row, lam: float = 0.0, soft: bool = False) -> Row:
    """Movement pruning to the share ``keep``, or ``soft``: the share that a penalty leaves."""
    penalty = lambda scores: weights.soft_penalty(scores, lam)  # noqa: E731
    mask = (lambda scores, _: soft_mask(scores, lab06.TAU)) if soft else TopV.apply
    return lab06.by_mask(seed, mask, 1.0 if soft else keep, how, penalty if lam else None)


def movement_or_size(seed: int) -> Tables:
    """Both rates and shares by four methods, and movement with soft movement's penalty."""
    rows: list[Row] = []
    for rate, how in RATES.items():
        for keep, lam in KEPT[rate].items():
            found = {
                "soft movement": by_movement(seed, keep, how, lam, soft=True),
                "movement": by_movement(seed, keep, how),
                "magnitude": on_the_way(seed, keep, how),
                "random": on_the_way(seed, keep, how, at_random=True),
            }
            if (rate, keep) == ("careful", 0.1):  # as many weights as soft movement keeps
                share = found["soft movement"]["share"]
                found["movement + penalty"] = by_movement(seed, share, how, lam)
            rows += [{"rate": rate, "method": m, "keep": keep, **row} for m, row in found.items()]
    return {"learned": rows}


def with_l1(seed: int, way: str, lam: float, how: Row = FULL) -> Row:
    """An L1 penalty of λ on the encoder under Adam: "loss" (in the loss), "proximal"
    (after each step) or "reweighted" every 20 steps.
    """
    model, done = pretrained(seed), itertools.count(1)
    matrices = list(encoder_weights(model).values())
    l1, rate = weights.Proximal(matrices, lam), lab06.rate_of(how)

    def penalty() -> Tensor:
        return lam * torch.stack([w.abs().sum() for w in matrices]).sum()

    def post_step() -> None:
        l1.step(rate())
        if next(done) % 20 == 0 and way == "reweighted":
            l1.reweight(lab06.EPS, lam * lab06.EPS)

    added = {"penalty": penalty} if way == "loss" else {"post_step": post_step}
    lab06.finetune(model, seed=seed, how=how, **added)
    every = torch.cat([w.detach().flatten() for w in matrices])
    return {"zeros": float((every == 0).double().mean()), **lab06.score(model)}


def penalties(seed: int) -> Tables:
    """Each way at its strengths, and pruning by size to as many zeros as the reweighted step."""
    arms = [(way, lam) for way, strengths in STRENGTHS.items() for lam in strengths]
    rows = [{"method": way, "strength": lam, **with_l1(seed, way, lam)} for way, lam in arms]
    for row in rows[-len(STRENGTHS["reweighted"]) :]:
        found = held_or_not(seed, row["zeros"], True)
        del found["old"]
        rows.append({**row, "method": "magnitude", **found})
    return {"l1": rows}


def random_components(model: nn.Module, ranks: Mapping[str, int], seed: int) -> nn.Module:
    """The baseline: as many of the singular components of each matrix, drawn."""
    generator = torch.Generator().manual_seed(seed)
    whole = {name: min(w.shape) for name, w in encoder_weights(model).items()}
    full = components.truncate(model, whole)
    for name, rank in ranks.items():
        pair: Any = full.get_submodule(name.removesuffix(".weight"))
        kept = torch.randperm(len(pair[0].weight), generator=generator)[:rank].sort().values
        pair[0].weight = nn.Parameter(pair[0].weight[kept])
        pair[1].weight = nn.Parameter(pair[1].weight[:, kept])
    return full


def size_of(model: nn.Module) -> int:
    """The weights in the encoder's matrices."""
    return sum(w.numel() for w in encoder_weights(model).values())


def untrained_ranks(seed: int) -> Tables:
    """The old task with nothing trained: the largest singular values, or random ones."""
    model, rows = pretrained(seed, head=False), []
    ways: dict[str, Any] = {
        "largest": components.truncate,
        "random": partial(random_components, seed=seed),
    }
    for (method, cut), share in itertools.product(ways.items(), lab06.RANK_SHARES):
        accuracy = measured(cut(model, lab06.ranks_for(model, share)), "sentiment")
        rows.append({"method": method, "sparsity": 1 - share, "accuracy": accuracy})
    return {"ranks": rows}


def with_gates(
    seed: int, target: float = lab06.TARGET, how: Row = FULL, gates_lr: float = 0.1
) -> tuple[nn.Module, dict[str, int]]:
    """Gated components, a target met by its multipliers: the compacted model, and the open
    components by name.
    """
    model = components.gate_components(pretrained(seed), encoder_weights(pretrained(seed)))
    to_target, done = components.Lagrangian(1.0), itertools.count(1)
    layers = components.gated_layers(model)

    def penalty() -> Tensor:
        to_target.target = lab06.kept_at(next(done), how["steps"], target)
        return to_target(components.expected_size(model))

    alphas = [layer.gates.log_alpha for layer in layers.values()]
    groups = partial(lab06.apart, lr=how["lr"], those=alphas, their_lr=gates_lr)
    lab06.finetune(model, seed=seed, how=how, groups=groups, penalty=penalty)
    small = components.compact_components(model)
    gates = {f"{path}.weight": layer.gates.eval()() for path, layer in layers.items()}
    return small, {name: int((g != 0).sum()) for name, g in gates.items()}


def gates_or_singular_values(seed: int) -> Tables:
    """Gates that learn; the same share of each matrix by singular values or at random,
    trained as long.
    """
    dense, (small, left) = pretrained(seed), with_gates(seed)
    ranks = lab06.ranks_for(dense, size_of(small) / size_of(dense))
    nets = {"gates": small, "largest": components.truncate(dense, ranks)}
    nets["random"] = random_components(dense, ranks, seed)
    rows = []
    for method, net in nets.items():
        if method != "gates":
            lab06.finetune(net, seed=seed)
        share = size_of(net) / size_of(dense)
        rows.append({"method": method, **lab06.score(net), "share": share})
    opened = [{"name": name, "components": count} for name, count in left.items()]
    return {"components": rows, "open": opened}


PARTS = (starts, regimes, movement_or_size, penalties, untrained_ranks, gates_or_singular_values)


# ----------------------------------------------------------------------- real sentences
SST2: Row = {"sentences": 4000, "batch": 32, "lr": 1e-4}
HELD, LET_GO = (0.5, 0.7, 0.8, 0.9), (0.7, 0.8, 0.9)


def sst2(sparsity: float, hold: bool, at_random: bool = False) -> float:
    """A real encoder, pruned and then fine-tuned on sentences of SST-2: accuracy in %
    on GLUE's development set, which serves as test.
    """
    import glue_classifier as recipe

    model, tokenizer = recipe.load_classifier()
    data = recipe.prepared(SST2["sentences"], tokenizer=tokenizer)
    how = SST2 | {"steps": -(-len(data["train"]) // SST2["batch"])}  # one epoch

    def run(net: nn.Module, post_step: Callable[[], None]) -> None:
        common.fine_tune(net, data["train"], "label", 0, how, post_step=post_step)

    masks = lab06.choose(model, sparsity, 0 if at_random else None)
    weights.prune_then_finetune(model, masks, run, hold)
    return accuracy(model, pieces.batches(data["test"], batch_size=50))


def remake_sst2(executor: Executor, folder: Path) -> Result:
    """SST-2 with a real encoder, one seed: dense, zeros held, let go, and held at random."""
    arms: list[tuple[Any, ...]] = [("dense", 0.0, True), ("random", 0.7, True, True)]
    arms += [("zeros held", s, True) for s in HELD] + [("let go", s, False) for s in LET_GO]
    found = each(executor, folder, sst2, [arm[1:] for arm in arms])
    rows = [
        (0, arm[0], arm[1] or None, accuracy) for arm, accuracy in zip(arms, found, strict=True)
    ]
    columns = ["seed", "method", "sparsity", "accuracy"]
    return Result({"regimes": pd.DataFrame(rows, columns=columns)}, SST2)


ABOUT = "The three checkpoints, before and while they are fine-tuned to another task."
RESULTS = {"lab06_weights": by_seed(ABOUT, {}, SEEDS, *PARTS), "lab06_sst2": remake_sst2}
