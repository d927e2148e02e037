"""Lab 06's runs: BERT's weights, pruned before and while it is fine-tuned to a task
that it was not trained for.

The pre-trained models are the shipped sentiment checkpoints; the task after pruning is
"negated" (is the main clause negated?) with few texts. Accuracies are % of validation
texts, except where "test" is said. ``course remake lab06_weights`` makes the shipped
result again.

Source: Gordon, Duh & Andrews 2020, "Compressing BERT"; Sanh, Wolf & Rush 2020,
"Movement Pruning"; Guo et al. 2019, "Reweighted Proximal Pruning for Large-Scale
Language Representation"; Wang, Wohlwend & Lei 2020, "Structured Pruning of Large
Language Models".
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from course_lib.data import pieces, reviews
from course_lib.experiments.once import once
from course_lib.models import checkpoints
from course_lib.models.bert import small_bert
from course_lib.pruning import components
from course_lib.pruning.weights import (
    Masks,
    apply,
    encoder_weights,
    global_masks,
    local_masks,
    magnitude,
    moving,
    prune_then_finetune,
    quadrants,
    random,
    remaining,
    soft_penalty,
)
from course_lib.pruning.weights.proximal import Proximal
from course_lib.recipes.reviews import name as checkpoint_name
from course_lib.training import Batch, accuracy, fit_batches, warm_up_then_decay

TASK = "negated"
TEXTS: dict[str, Any] = {"train": 1000, "validation": 600, "test": 2000}
# of fine-tuning: steps, texts in a batch, rate of the weights
FULL: dict[str, Any] = {"steps": 200, "batch": 32, "lr": 3e-4}
CAREFUL: dict[str, Any] = {"steps": 400, "batch": 16, "lr": 5e-5}  # as for a large model
SPARSITIES = (0.3, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
KEPT = (0.1, 0.03)  # of the encoder's weights, by movement
SCORES_LR = 1e-2
TAU = 0.45  # of soft movement: scores begin at σ(0) = ½, and 200 steps do not take them far
# of its penalty: so many that about KEPT stay. Nobody says the share, it comes out
SOFT = {"5e-5": (13.0, 50.0), "3e-4": (32.0, 75.0)}
RANK_SHARES = (0.65, 0.35, 0.15, 0.1, 0.05)  # of the encoder's weights
TARGET = 0.1
# of the L1 penalty. In the loss Adam divides λ by the size of the gradient; after the
# step nobody does
LAMBDAS = {"loss": (1e-4, 3e-4, 1e-3), "proximal": (0.3, 1.0, 2.0), "reweighted": (1.0, 3.0, 5.0)}
EPS = 0.01

Share = float | Mapping[str, float]  # that stays: of all together, or of each by name


@cache
def texts(tokenizer_of: str = "reviews-bert-0") -> dict[str, Any]:
    """The encoded texts, "train", "validation" and "test"; all checkpoints share one
    tokenizer.
    """
    tokenizer = checkpoints.load(tokenizer_of).tokenizer
    return dict(pieces.encode(reviews.load(**TEXTS), tokenizer, aligned=()))


def batches(split: str, task: str = TASK, size: int = 100) -> list[Batch]:
    """Validation or test texts, from short to long."""
    return list(pieces.batches(texts()[split], task, size))


def endless(task: str, size: int, seed: int) -> Iterator[Batch]:
    """Training batches, epoch after epoch, each in an order of its own."""
    for epoch in itertools.count():
        yield from pieces.batches(texts()["train"], task, size, seed=1000 * seed + epoch)


def pretrained(seed: int, head: bool = True) -> nn.Module:
    """A shipped checkpoint; ``head``: with a fresh classifier for the new task."""
    model: nn.Module = checkpoints.load(checkpoint_name(seed)).model
    if head:
        fresh = model.get_submodule("classifier")
        generator = torch.Generator().manual_seed(seed)
        nn.init.normal_(fresh.weight, std=0.05, generator=generator)  # type: ignore[arg-type]
        nn.init.zeros_(fresh.bias)  # type: ignore[arg-type]
    return model


def finetune(
    model: nn.Module,
    post_step: Callable[[], None] | None = None,
    *,
    seed: int,
    how: Mapping[str, Any] = FULL,
    task: str = TASK,
    groups: Callable[[nn.Module], list[dict[str, Any]]] | None = None,
    penalty: Callable[[], Tensor] | None = None,
) -> list[float]:
    """AdamW, warm-up and linear decay; the training loss every 100 steps. ``penalty``
    is added to the loss.
    """

    def loss(net: nn.Module, batch: Batch) -> Tensor:
        value: Tensor = net(**batch).loss
        return value if penalty is None else value + penalty()

    history = fit_batches(
        model,
        endless(task, how["batch"], seed),
        how["steps"],
        loss=loss,
        lr=how["lr"],
        groups=None if groups is None else groups(model),
        rate=warm_up_then_decay(how["steps"] // 10),
        seed=seed,
        post_step=post_step,
        progress=False,
    )
    return history.loss


def measured(model: nn.Module, task: str = TASK, test: bool = False) -> float:
    """Accuracy in % on validation (or test) texts, in evaluation mode."""
    model.eval()
    return accuracy(model, batches("test" if test else "validation", task))


def by_size(model: nn.Module, sparsity: float) -> Masks:
    """Each encoder matrix pruned by size to the same share."""
    return local_masks(magnitude(encoder_weights(model)), sparsity)


def at_random(model: nn.Module, sparsity: float, seed: int) -> Masks:
    """The control."""
    return local_masks(
        random(encoder_weights(model), torch.Generator().manual_seed(seed)), sparsity
    )


# --------------------------------------------------------------------- Gordon's regimes
def starts(seed: int) -> dict[str, float]:
    """What pre-training gives: fine-tuned from the checkpoint, and from scratch."""
    tuned, scratch = (
        pretrained(seed),
        small_bert(len(checkpoints.load(checkpoint_name(seed)).tokenizer), seed=seed),
    )
    for model in (tuned, scratch):
        finetune(model, seed=seed)
    majority = torch.cat([b["labels"] for b in batches("validation")]).double().mean()
    return {
        "pre-trained": measured(tuned),
        "from scratch": measured(scratch),
        "majority": 100 * float(max(majority, 1 - majority)),
        "pre-trained, test": measured(tuned, test=True),
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
        "old task": measured(old, "sentiment"),
        "accuracy": measured(model),
        "loss": losses[-1],
    }
    return found if not hold else {**found, "test": measured(model, test=True)}


def regimes(seed: int) -> dict[str, Any]:
    """For each of :data:`SPARSITIES`: zeros held, zeros at the start alone, and (held)
    at random.
    """
    return {
        "held": [transfer(seed, s, True) for s in SPARSITIES],
        "deleted": [transfer(seed, s, False) for s in SPARSITIES],
        "random": [transfer(seed, s, True, "random") for s in SPARSITIES],
    }


# ----------------------------------------------------------------------------- movement
def kept_at(step: int, steps: int, keep: float) -> float:
    """Sanh's cubic: all for the first tenth, ``keep`` from seven tenths on."""
    way = min(1.0, max(0.0, (step / steps - 0.1) / 0.6))
    return keep + (1 - keep) * (1 - way) ** 3


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

    with moving(model, before) as scores:
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
    with moving(model, names, how="soft", tau=TAU) as scores:
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


def by_mask(
    seed: int,
    mask: Callable[[Tensor, float], Tensor],
    keep: float,
    how: Mapping[str, Any],
    penalty: Callable[[list[Tensor]], Tensor] | None = None,
) -> tuple[float, dict[str, float]]:
    """Every encoder matrix is computed with as W ∘ mask(S, share), on the way from all
    to ``keep``; S learns from what autograd makes of ``mask``.

    Args:
        penalty: of all scores, added to the loss.

    Returns:
        Accuracy, and for each matrix the share that its mask leaves in the end.
    """
    model, share, done = pretrained(seed), [1.0], itertools.count(1)
    by = {name: _By(w, lambda s: mask(s, share[0])) for name, w in encoder_weights(model).items()}
    for name, place in by.items():
        path, _, attribute = name.rpartition(".")
        parametrize.register_parametrization(
            model.get_submodule(path), attribute, place, unsafe=True
        )
    scores = [place.scores for place in by.values()]

    def fewer() -> None:
        share[0] = kept_at(next(done), how["steps"], keep)

    finetune(
        model,
        fewer,
        seed=seed,
        how=how,
        groups=lambda net: _apart(net, how["lr"], scores, SCORES_LR),
        penalty=None if penalty is None else lambda: penalty(list(scores)),
    )
    with torch.no_grad():
        left = {name: float(place.mask(place.scores).mean()) for name, place in by.items()}
    return measured(model), left


def _apart(
    net: nn.Module, lr: float, those: Sequence[Tensor], their_lr: float
) -> list[dict[str, Any]]:
    """Parameter groups: ``those`` at a rate of their own, without weight decay."""
    mine = {id(p) for p in those}
    own = [p for p in net.parameters() if id(p) not in mine]
    return [
        {"params": own, "lr": lr},
        {"params": list(those), "lr": their_lr, "weight_decay": 0.0},
    ]


class _By(nn.Module):
    """The parametrization W -> W ∘ mask(S)."""

    def __init__(self, weight: Tensor, mask: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.scores, self.mask = nn.Parameter(torch.zeros_like(weight)), mask

    def forward(self, weight: Tensor) -> Tensor:
        return weight * self.mask(self.scores)


def noted(model: nn.Module, before: Mapping[str, Tensor], masks: Masks) -> dict[str, Any]:
    """What is noted of a model whose weights were chosen on the way."""
    moved = [quadrants(before[n], w, masks[n]) for n, w in encoder_weights(model).items()]
    return {
        "accuracy": measured(model),
        "test": measured(model, test=True),
        "kept": [float(masks[n].double().mean()) for n in before],
        "moved": {way: sum(m[way] for m in moved) for way in ("toward", "away", "flipped")},
        "before": _spread(before, masks),
    }


def _spread(weights: Mapping[str, Tensor], masks: Masks) -> float:
    """The median size of the kept weights before training, in parts of the median of
    all.
    """
    kept = torch.cat([w[masks[n]].abs() for n, w in weights.items()])
    return float(kept.median() / torch.cat([w.abs().flatten() for w in weights.values()]).median())


def soft(seed: int) -> dict[str, Any]:
    """Soft movement at both rates, with the penalties of :data:`SOFT`."""
    return {
        rate: [softly(seed, lam, how)[0] for lam in SOFT[rate]]
        for rate, how in (("5e-5", CAREFUL), ("3e-4", FULL))
    }


def movements(seed: int) -> dict[str, Any]:
    """Both rates, both shares, three methods."""
    return {
        rate: {
            method: [learned(seed, keep, method, how) for keep in KEPT]
            for method in ("movement", "magnitude", "random")
        }
        for rate, how in (("5e-5", CAREFUL), ("3e-4", FULL))
    }


# ----------------------------------------------------------------------------------- L1
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


def penalties(seed: int) -> dict[str, Any]:
    """Each way at each λ of :data:`LAMBDAS`."""
    return {how: [with_l1(seed, how, lam) for lam in lambdas] for how, lambdas in LAMBDAS.items()}


# ----------------------------------------------------------------------------- low rank
def ranks_for(model: nn.Module, share: float) -> dict[str, int]:
    """The same share of every encoder matrix's weights."""
    return {
        name: round(share * w.numel() / sum(w.shape)) for name, w in encoder_weights(model).items()
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


def untrained_ranks(seed: int) -> dict[str, list[float]]:
    """The old task with nothing trained: the largest singular values, or random ones,
    at :data:`RANK_SHARES`.
    """
    model = pretrained(seed, head=False)
    return {
        "largest": [
            measured(components.truncate(model, ranks_for(model, s)), "sentiment")
            for s in RANK_SHARES
        ],
        "random": [
            measured(random_components(model, ranks_for(model, s), seed), "sentiment")
            for s in RANK_SHARES
        ],
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
        return _apart(net, how["lr"], gates, gates_lr)

    finetune(model, seed=seed, how=how, groups=groups, penalty=penalty)
    small = components.compact_components(model)
    ranks = {
        path: int((layer.gates.eval()() != 0).sum())
        for path, layer in components.gated_layers(model).items()
    }
    return small, {"sizes": sizes[::5], "ranks": ranks}


def encoder_size(model: nn.Module, dense: int) -> float:
    """Weights left in the encoder's matrices, in parts of the dense."""
    return sum(w.numel() for w in encoder_weights(model).values()) / dense


def components_by_gates(seed: int) -> dict[str, Any]:
    """To :data:`TARGET`: gates that learn, against the same share of each matrix by
    singular values, or at random, trained as long.
    """
    dense = pretrained(seed)
    total = sum(w.numel() for w in encoder_weights(dense).values())
    small, about = flop(seed)
    share = encoder_size(small, total)
    found: dict[str, Any] = {
        "gates": {
            "accuracy": measured(small),
            "test": measured(small, test=True),
            "share": share,
            **about,
        }
    }
    ranks = ranks_for(dense, share)
    for name, net in (
        ("largest", components.truncate(dense, ranks)),
        ("random", random_components(dense, ranks, seed)),
    ):
        finetune(net, seed=seed)
        found[name] = {
            "accuracy": measured(net),
            "test": measured(net, test=True),
            "share": encoder_size(net, total),
        }
    return found


PARTS: dict[str, Callable[[int], Any]] = {
    "starts": starts,
    "regimes": regimes,
    "movement": movements,
    "soft": soft,
    "l1": penalties,
    "untrained ranks": untrained_ranks,
    "components": components_by_gates,
}


def _part(name: str, seed: int, folder: Path) -> Any:
    return once(folder / f"{name.replace(' ', '_')}{seed}.json", PARTS[name], seed)


def remake_weights(executor: Executor, folder: Path) -> dict[str, Any]:
    """The three checkpoints: ``seeds``, each with the parts of :data:`PARTS`."""
    running = {
        (name, seed): executor.submit(_part, name, seed, folder)
        for name in PARTS
        for seed in range(3)
    }
    return {"seeds": [{name: running[name, seed].result() for name in PARTS} for seed in range(3)]}


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
    from course_lib.models.pretrained import load_classifier
    from course_lib.recipes import sst2 as recipe

    model, tokenizer = load_classifier(download=False)
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


def remake_sst2(executor: Executor, folder: Path) -> dict[str, Any]:
    """SST-2 with a real encoder, one seed: zeros "held", "deleted", and held at
    "random", and the settings.
    """
    arms = {
        "held": (SST2["held"], True, "size"),
        "deleted": (SST2["deleted"], False, "size"),
        "random": ((0.7,), True, "random"),
    }
    running = {
        arm: [
            executor.submit(once, folder / f"{arm}{s}.json", sst2, s, hold, masks)
            for s in sparsities
        ]
        for arm, (sparsities, hold, masks) in arms.items()
    }
    return {
        "settings": SST2,
        **{arm: [future.result() for future in row] for arm, row in running.items()},
    }


RESULTS = {"lab06_weights": remake_weights, "lab06_sst2": remake_sst2}
