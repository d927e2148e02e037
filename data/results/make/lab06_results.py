"""Lab 06's stored results: models pruned before and while they are fine-tuned, by the
rules of four papers, and the same regimes with a real encoder on SST-2.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from torch import Tensor, nn

from course_lib.data import pieces
from course_lib.experiments import Result
from course_lib.experiments.lab06 import (
    EPS,
    FULL,
    RANK_SHARES,
    SCORES_LR,
    SPARSITIES,
    TARGET,
    TAU,
    Row,
    apart,
    at_random,
    batches,
    by_size,
    finetune,
    kept_at,
    measured,
    pretrained,
)
from course_lib.experiments.once import once, tables
from course_lib.models import checkpoints
from course_lib.models.bert import small_bert
from course_lib.pruning import components
from course_lib.pruning.weights import (
    Masks,
    apply,
    encoder_weights,
    global_masks,
    magnitude,
    movement_pruning,
    prune_then_finetune,
    quadrants,
    random,
    remaining,
    soft_penalty,
)
from course_lib.pruning.weights.proximal import Proximal
from course_lib.training import accuracy, fit_batches, warm_up_then_decay

SEEDS = 3
CAREFUL: dict[str, Any] = {"steps": 400, "batch": 16, "lr": 5e-5}  # as for a large model
KEPT = (0.1, 0.03)  # of the encoder's weights, by movement
RATES = {"careful": CAREFUL, "bold": FULL}
# of soft movement's penalty: so many that about KEPT stay. Nobody says the share, it
# comes out
SOFT = {"careful": (13.0, 50.0), "bold": (32.0, 75.0)}
# of the L1 penalty. In the loss Adam divides λ by the size of the gradient; after the
# step nobody does
LAMBDAS = {"loss": (1e-4, 3e-4, 1e-3), "proximal": (0.3, 1.0, 2.0), "reweighted": (1.0, 3.0, 5.0)}

Share = float | Mapping[str, float]  # that stays: of all together, or of each by name
Tables = dict[str, list[Row]]


def place_of(name: str) -> tuple[int, str]:
    """The layer of an encoder's weight, and which of its matrices it is."""
    layer, _, matrix = name.removeprefix("bert.encoder.layer.").partition(".")
    return int(layer), matrix.removesuffix(".weight")


def ranks_for(model: nn.Module, share: float) -> dict[str, int]:
    """The same share of every encoder matrix's weights."""
    return {
        name: round(share * w.numel() / sum(w.shape)) for name, w in encoder_weights(model).items()
    }


def starts(seed: int) -> Tables:
    """What pre-training gives: fine-tuned from the checkpoint, and from scratch."""
    tuned, scratch = (
        pretrained(seed),
        small_bert(len(checkpoints.load(f"reviews-bert-{seed}").tokenizer), seed=seed),
    )
    for model in (tuned, scratch):
        finetune(model, seed=seed)
    majority = torch.cat([b["labels"] for b in batches("validation")]).double().mean()
    always = 100 * float(max(majority, 1 - majority))
    dense = {"accuracy": measured(tuned), "test": measured(tuned, test=True)}
    return {
        "starts": [
            {"method": "pre-trained", **dense},
            {"method": "from scratch", "accuracy": measured(scratch)},
            {"method": "majority", "accuracy": always},
        ],
        "regimes": [{"method": "dense", **dense}],
    }


def transfer(
    seed: int, sparsity: float, hold: bool, masks: str = "size", how: Mapping[str, Any] = FULL
) -> dict[str, float]:
    """Pruned, then fine-tuned: the old task right after pruning, the new one after, its
    last training loss, and the new one on test texts.
    """
    model = pretrained(seed, head=False)
    chosen = by_size(model, sparsity) if masks == "size" else at_random(model, sparsity, seed)
    old = copy.deepcopy(model)
    apply(old, chosen)
    model = pretrained(seed)
    losses: list[float] = []

    def run(net: nn.Module, post_step: Callable[[], None]) -> None:
        losses.extend(finetune(net, post_step, seed=seed, how=how))

    prune_then_finetune(model, chosen, run, hold)
    found = {
        "old": measured(old, "sentiment"),
        "accuracy": measured(model),
        "loss": losses[-1],
    }
    return found if not hold else {**found, "test": measured(model, test=True)}


def regimes(seed: int) -> Tables:
    """Zeros held, zeros at the start alone, and (held) at random."""
    arms = {"zeros held": (True, "size"), "let go": (False, "size"), "random": (True, "random")}
    return {
        "regimes": [
            {"method": method, "sparsity": sparsity, **transfer(seed, sparsity, hold, masks)}
            for method, (hold, masks) in arms.items()
            for sparsity in SPARSITIES
        ]
    }


def learned(
    seed: int,
    keep: float,
    method: str,
    how: Mapping[str, Any] = CAREFUL,
) -> dict[str, Any]:
    """Pruned on the way to ``keep``, one threshold for the whole encoder, by
    "movement", "magnitude" or "random".
    """
    steps, done = how["steps"], itertools.count(1)
    if method == "movement":
        return by_movement(seed, lambda step: kept_at(step, steps, keep), how=how)[0]
    model = pretrained(seed)
    before = {name: w.detach().clone() for name, w in encoder_weights(model).items()}
    chance = random(encoder_weights(model), torch.Generator().manual_seed(seed))
    masks: Masks = {}

    def fewer() -> None:
        share = kept_at(step := next(done), steps, keep)
        if step % 10 == 0 or step == steps:
            score = chance if method == "random" else magnitude(encoder_weights(model))
            masks.update(global_masks(score, 1 - share))
        if masks:
            apply(model, masks)

    finetune(model, fewer, seed=seed, how=how)
    return noted(model, before, masks)


def by_movement(
    seed: int,
    share: Callable[[int], Share],
    *,
    lam: float = 0.0,
    draw_signs: bool = False,
    how: Mapping[str, Any] = CAREFUL,
) -> tuple[dict[str, Any], Masks]:
    """Movement with shares that are said: what is noted, and what stayed.

    Args:
        share: from the number of a step, 1 …, the share that is left after it.
        lam: of a penalty on σ(S), as soft movement has it.
        draw_signs: of every step's ∂L/∂W' ∘ W the size stays, and the sign is drawn.
            Then the scores know how much a weight matters to the loss, and not which
            way it moves.
    """
    model, done = pretrained(seed), itertools.count(1)
    before = {name: w.detach().clone() for name, w in encoder_weights(model).items()}
    entries = sum(w.numel() for w in before.values())
    generator = torch.Generator().manual_seed(seed)

    def learns(score: Tensor) -> Callable[[Tensor], Tensor]:
        def changed(gradient: Tensor) -> Tensor:
            if draw_signs:
                drawn = torch.randint(0, 2, gradient.shape, generator=generator)
                gradient = gradient * (2 * drawn - 1)
            # the gradient of soft_penalty, added here: its sign is not drawn
            open_ = score.detach().sigmoid()
            return gradient + lam / entries * open_ * (1 - open_)

        return changed

    with movement_pruning(model, before) as scores:
        for score in scores.scores.values() if lam or draw_signs else ():
            score.register_hook(learns(score))

        def fewer() -> None:
            scores.keep = share(next(done))

        finetune(
            model,
            fewer,
            seed=seed,
            how=how,
            groups=lambda net: scores.groups(net, how["lr"], SCORES_LR),
        )
        masks = scores.masks()
    return noted(model, before, masks), masks


def softly(
    seed: int,
    lam: float,
    how: Mapping[str, Any] = CAREFUL,
    watch: Callable[[Masks], None] | None = None,
) -> tuple[dict[str, Any], Masks]:
    """Soft movement: what stays is what holds out against a penalty of ``lam``.

    Args:
        watch: told after each step what stays.

    Returns:
        What is noted, and what stayed.
    """
    model = pretrained(seed)
    names = list(encoder_weights(model))
    before = {name: w.detach().clone() for name, w in encoder_weights(model).items()}
    with movement_pruning(model, names, how="soft", tau=TAU) as scores:
        finetune(
            model,
            None if watch is None else lambda: watch(scores.masks()),
            seed=seed,
            how=how,
            groups=lambda net: scores.groups(net, how["lr"], SCORES_LR),
            penalty=lambda: soft_penalty(list(scores.scores.values()), lam),
        )
        masks = scores.masks()
    return {**noted(model, before, masks), "share": remaining(masks)}, masks


def noted(model: nn.Module, before: Mapping[str, Tensor], masks: Masks) -> dict[str, Any]:
    """What is noted of a model whose weights were chosen on the way; ``kept`` by layer and
    matrix.
    """
    moved = [quadrants(before[n], w, masks[n]) for n, w in encoder_weights(model).items()]
    return {
        "accuracy": measured(model),
        "test": measured(model, test=True),
        "kept": {place_of(n): float(masks[n].double().mean()) for n in before},
        "moved": {way: sum(m[way] for m in moved) for way in ("toward", "away", "flipped")},
        "before": _spread(before, masks),
    }


def _spread(weights: Mapping[str, Tensor], masks: Masks) -> float:
    """The median size of the kept weights before training, in parts of the median of
    all.
    """
    kept = torch.cat([w[masks[n]].abs() for n, w in weights.items()])
    return float(kept.median() / torch.cat([w.abs().flatten() for w in weights.values()]).median())


def by_matrix(found: Mapping[str, Any], **where: Any) -> tuple[Row, list[Row]]:
    """What was noted of a model as a row, and the fraction that is kept of each matrix."""
    row: Row = dict(where)
    for key, value in found.items():
        row |= value if key == "moved" else {key: value} if key != "kept" else {}
    kept = [
        {**where, "layer": layer, "matrix": matrix, "kept": share}
        for (layer, matrix), share in zip(found["kept"], found["kept"].values(), strict=True)
    ]
    return row, kept


def soft_and_hard(seed: int) -> Tables:
    """Both rates; soft movement with the penalties of :data:`SOFT`, and both shares by
    three methods.
    """
    tables: Tables = {"learned": [], "kept": []}

    def note(rate: str, method: str, keep: float, found: Mapping[str, Any]) -> None:
        row, kept = by_matrix(found, rate=rate, method=method, keep=keep)
        tables["learned"].append(row)
        tables["kept"] += kept

    for rate, how in RATES.items():
        for keep, lam in zip(KEPT, SOFT[rate], strict=True):
            note(rate, "soft movement", keep, softly(seed, lam, how)[0])
        for method in ("movement", "magnitude", "random"):
            for keep in KEPT:
                note(rate, method, keep, learned(seed, keep, method, how))
    return tables


def with_l1(seed: int, how: str, lam: float, recipe: Mapping[str, Any] = FULL) -> dict[str, float]:
    """An L1 penalty of λ on the encoder under Adam: "loss" (in the loss), "proximal"
    (after each step) or "reweighted" every 20 steps.
    """
    model = pretrained(seed)
    weights = list(encoder_weights(model).values())
    penalty: Callable[[], Tensor] | None = None
    post_step: Callable[[], None] | None = None
    if how == "loss":
        penalty = lambda: lam * torch.stack([w.abs().sum() for w in weights]).sum()  # noqa: E731
    else:
        l1, done = Proximal(weights, lam), itertools.count(1)
        rate = warm_up_then_decay(recipe["steps"] // 10)

        def post_step() -> None:
            step = next(done)
            l1.step(recipe["lr"] * rate(step - 1, recipe["steps"]))
            if how == "reweighted" and step % 20 == 0:
                l1.reweight(EPS, lam * EPS)

    finetune(model, post_step, seed=seed, how=recipe, penalty=penalty)
    every = torch.cat([w.detach().abs().flatten() for w in weights])
    return {
        "zeros": float((every == 0).double().mean()),
        "small": float((every < 1e-3).double().mean()),
        "accuracy": measured(model),
        "test": measured(model, test=True),
    }


def penalties(seed: int) -> Tables:
    """Each way at each λ of :data:`LAMBDAS`."""
    return {
        "l1": [
            {"method": how, "strength": lam, **with_l1(seed, how, lam)}
            for how, lambdas in LAMBDAS.items()
            for lam in lambdas
        ]
    }


def random_components(model: nn.Module, ranks: Mapping[str, int], seed: int) -> nn.Module:
    """The control: as many of the singular components of each matrix, drawn."""
    generator = torch.Generator().manual_seed(seed)
    full = components.truncate(
        model, {name: min(w.shape) for name, w in encoder_weights(model).items()}
    )
    for name, rank in ranks.items():
        layer: Any = full.get_submodule(name.removesuffix(".weight"))
        kept = torch.randperm(layer[0].out_features, generator=generator)[:rank].sort().values
        plain = components.LowRank(layer[1].weight[:, kept], layer[0].weight[kept], layer[1].bias)
        parent, _, attribute = name.removesuffix(".weight").rpartition(".")
        setattr(full.get_submodule(parent), attribute, plain)
    return full


def untrained_ranks(seed: int) -> Tables:
    """The old task with nothing trained: the largest singular values, or random ones,
    at :data:`RANK_SHARES`.
    """
    model = pretrained(seed, head=False)

    def cut(method: str, share: float) -> nn.Module:
        ranks = ranks_for(model, share)
        if method == "random":
            return random_components(model, ranks, seed)
        return components.truncate(model, ranks)

    return {
        "ranks": [
            {
                "method": method,
                "sparsity": 1 - share,
                "accuracy": measured(cut(method, share), "sentiment"),
            }
            for method in ("largest", "random")
            for share in RANK_SHARES
        ]
    }


def flop(
    seed: int, target: float = TARGET, how: Mapping[str, Any] = FULL, gates_lr: float = 0.1
) -> tuple[nn.Module, dict[str, Any]]:
    """Gated components, a target met by its multipliers; compacted, and its expected
    size on the way.
    """
    model = components.gate_components(pretrained(seed), encoder_weights(pretrained(seed)))
    to_target, done, sizes = components.Lagrangian(1.0), itertools.count(1), list[float]()

    def penalty() -> Tensor:
        to_target.target = kept_at(next(done), how["steps"], target)
        size = components.expected_size(model)
        sizes.append(float(size.detach()))
        return to_target(size)

    def groups(net: nn.Module) -> list[dict[str, Any]]:
        gates = [layer.gates.log_alpha for layer in components.gated_layers(net).values()]
        return apart(net, how["lr"], gates, gates_lr)

    finetune(model, seed=seed, how=how, groups=groups, penalty=penalty)
    small = components.compact_components(model)
    ranks = {
        path: int((layer.gates.eval()() != 0).sum())
        for path, layer in components.gated_layers(model).items()
    }
    return small, {"sizes": sizes, "ranks": ranks}


def encoder_size(model: nn.Module, dense: int) -> float:
    """Weights left in the encoder's matrices, in parts of the dense."""
    return sum(w.numel() for w in encoder_weights(model).values()) / dense


def components_by_gates(seed: int) -> Tables:
    """To :data:`TARGET`: gates that learn, against the same share of each matrix by
    singular values, or at random, trained as long.
    """
    dense = pretrained(seed)
    total = sum(w.numel() for w in encoder_weights(dense).values())
    small, about = flop(seed)
    share = encoder_size(small, total)
    ranks = ranks_for(dense, share)
    nets = {
        "gates": small,
        "largest": components.truncate(dense, ranks),
        "random": random_components(dense, ranks, seed),
    }
    rows: list[Row] = []
    for name, net in nets.items():
        if name != "gates":
            finetune(net, seed=seed)
        row = {"accuracy": measured(net), "test": measured(net, test=True)}
        rows.append({"method": name, **row, "share": encoder_size(net, total)})
    places = {place_of(path): rank for path, rank in about["ranks"].items()}
    return {
        "components": rows,
        "sizes": [{"step": i, "size": size} for i, size in list(enumerate(about["sizes"]))[::5]],
        "open": [
            {"layer": layer, "matrix": matrix, "components": rank}
            for (layer, matrix), rank in places.items()
        ],
    }


PARTS: dict[str, Callable[[int], Tables]] = {
    "starts": starts,
    "regimes": regimes,
    "movement": soft_and_hard,
    "l1": penalties,
    "ranks": untrained_ranks,
    "components": components_by_gates,
}


def remake_weights(executor: Executor, folder: Path) -> Result:
    """The three checkpoints, all of :data:`PARTS`."""
    jobs = [(seed, name) for seed in range(SEEDS) for name in PARTS]
    running = [(seed, executor.submit(once, folder, PARTS[name], seed)) for seed, name in jobs]
    found = tables(({"seed": seed}, future.result()) for seed, future in running)
    columns = ["seed", "method", "sparsity", "old", "accuracy", "loss", "test"]
    found["regimes"] = found["regimes"][columns]  # the dense model has no sparsity
    return Result(found, {})


# ----------------------------------------------------------------------- real sentences
SST2: dict[str, Any] = {
    "sentences": 4000,
    "batch": 32,
    "lr": 1e-4,
    "held": (0.0, 0.5, 0.7, 0.8, 0.9),
    "deleted": (0.7, 0.8, 0.9),
}


def sst2(sparsity: float, hold: bool, masks: str = "size") -> float:
    """A real encoder, pruned and then fine-tuned on sentences of SST-2: accuracy in %
    on GLUE's development set, which serves as test.
    """
    import glue_classifier as recipe

    model, tokenizer = recipe.load_classifier()
    data = recipe.prepared(SST2["sentences"], tokenizer=tokenizer)
    steps = -(-len(data["train"]) // SST2["batch"])

    def run(net: nn.Module, post_step: Callable[[], None]) -> None:
        stream = pieces.batches(data["train"], batch_size=SST2["batch"], seed=0)
        rate = warm_up_then_decay(steps // 10)
        fit_batches(
            net, stream, steps, lr=SST2["lr"], rate=rate, post_step=post_step, progress=False
        )

    chosen = by_size(model, sparsity) if masks == "size" else at_random(model, sparsity, 0)
    prune_then_finetune(model, chosen, run, hold)
    model.eval()
    return accuracy(model, pieces.batches(data["test"], batch_size=50))


def remake_sst2(executor: Executor, folder: Path) -> Result:
    """SST-2 with a real encoder, one seed: dense, zeros held, let go, and held at random."""
    jobs = [("dense" if s == 0 else "zeros held", s, True, "size") for s in SST2["held"]]
    jobs += [("let go", s, False, "size") for s in SST2["deleted"]]
    jobs.append(("random", 0.7, True, "random"))
    running = [
        executor.submit(once, folder, sst2, s, hold, masks) for method, s, hold, masks in jobs
    ]
    rows = [
        {"seed": 0, "method": method, "sparsity": s or float("nan"), "accuracy": future.result()}
        for (method, s, _, _), future in zip(jobs, running, strict=True)
    ]
    return Result({"regimes": pd.DataFrame(rows)}, SST2)


RESULTS = {"lab06_weights": remake_weights, "lab06_sst2": remake_sst2}
