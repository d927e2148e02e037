"""Lab 08's runs: heads of a small translation model, gated, pruned by kind, replaced by
fixed patterns, and followed through training.

Importance and choices go by one half of the validation sentences, curves by the other;
test sentences are for the final rows. BLEU is in points, accuracies in %.
``course remake lab08_heads`` makes the shipped result again.

Source: Voita et al. 2019; Michel et al. 2019, sections 5 and 6; Kovaleva et al. 2019;
Raganato et al. 2020.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from course_lib.data import translation
from course_lib.experiments import lab09
from course_lib.experiments.once import once
from course_lib.models import checkpoints
from course_lib.models.attention import find_attention
from course_lib.pruning.heads import (
    arc_baseline,
    attention_change,
    attention_pattern,
    gated,
    head_importance,
    lowest_heads,
    neighbour,
    points_to,
    prune_by_kind,
    raganato,
    replaced_attention,
    train_with_gates,
    uniform,
)
from course_lib.recipes import translation as recipe
from course_lib.training import Batch, fit_batches, warm_up_then_decay

LAYERS, HEADS = 3, 6  # of the encoder
KINDS = ("encoder", "decoder", "cross")
FRACTIONS = (0.0, 0.25, 0.5, 0.75, 1.0)
LAMBDAS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2)
# steps for each lambda
GATES: dict[str, Any] = {"steps": 50, "start": 2.0, "gates_lr": 0.1, "lr": 3e-4, "until": 4}
DRAWS = 3  # random controls for each seed
FIXED: dict[str, Any] = {"steps": 300, "lr": 5e-4}
SENTENCES = {"train": 10_000, "validation": 600, "test": 1000}
RELATIONS = ("nsubj", "obj", "det", "amod", "plural", "case", "nmod", "aux", "mark", "advmod")


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
    """A shipped checkpoint."""
    model: nn.Module = checkpoints.load(recipe.name(seed), attention=attention).model
    return model


def batches(split: str, size: int = 50) -> list[Batch]:
    return list(translation.batches(data()[split], size))


def stream(seed: int) -> Iterator[Batch]:
    """Training batches without end."""
    yield from recipe.stream(data()["train"], 100 + seed)


def bleu(model: nn.Module, split: str = "curves") -> float:
    """Of greedy translations."""
    return recipe.bleu(recipe.translate(model, data()[split]), list(data()[split]["target"]))


def word_losses(model: nn.Module, batch: Batch) -> Tensor:
    """(B, T): the cross-entropy of each word, 0 behind the end."""
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


# ------------------------------------------------------------------------------ by kind


def importance_by_kind(
    model: nn.Module, scored: Iterable[Batch] | None = None
) -> dict[str, Tensor]:
    """I_h of the encoder, the decoder's own attention and its attention to the encoder:
    (layers, heads) each; of the texts for it.
    """
    found = find_attention(model)
    scores = head_importance(model, batches("scores") if scored is None else scored, losses)
    return {kind: scores[[i for i, a in enumerate(found) if a.kind == kind]] for kind in KINDS}


def masked(model: nn.Module, keep: Mapping[str, Tensor]) -> Any:
    """The block in which the heads of these masks are all that is left."""
    of_kind = {kind: iter(mask.float()) for kind, mask in keep.items()}
    return gated(model, torch.stack([next(of_kind[a.kind]) for a in find_attention(model)]))


def kinds(seed: int, fractions: Sequence[float] = FRACTIONS) -> dict[str, Any]:
    """BLEU without a share of the heads of one kind, the lowest by I_h, or at random
    (the mean of some draws); nothing trained.
    """
    model = trained(seed)
    scores = importance_by_kind(model)
    generator = torch.Generator().manual_seed(seed)
    found: dict[str, Any] = {"importance": {kind: s.tolist() for kind, s in scores.items()}}
    for kind in (*KINDS, "all"):
        rows: dict[str, list[float]] = {"I_h": [], "random": []}
        for fraction in fractions:
            with masked(model, prune_by_kind(scores, kind, fraction)):
                rows["I_h"].append(bleu(model))
            drawn = []
            for _ in range(DRAWS if 0 < fraction < 1 else 1):
                noise = {
                    name: torch.rand(s.shape, generator=generator) for name, s in scores.items()
                }
                with masked(model, prune_by_kind(noise, kind, fraction)):
                    drawn.append(bleu(model))
            rows["random"].append(sum(drawn) / len(drawn))
        found[kind] = rows
    return found


# ----------------------------------------------------------------------------- L0 gates


@contextmanager
def encoder_gates(model: nn.Module, xi: Tensor) -> Iterator[None]:
    """Gates (layers, heads) on the encoder alone."""
    with gated(model, xi, find_attention(model, "encoder")):
        yield


def gated_loss(model: nn.Module, batch: Batch, gates: Tensor) -> Tensor:
    """The loss with these gates on the encoder's heads."""
    with encoder_gates(model, gates):
        return loss(model, batch)


def optimizer_of(model: nn.Module, log_alpha: Tensor) -> torch.optim.Optimizer:
    """Adam, with a rate of its own for the gates."""
    return torch.optim.Adam(
        [
            {"params": list(model.parameters()), "lr": GATES["lr"]},
            {"params": [log_alpha], "lr": GATES["gates_lr"]},
        ]
    )


def some(source: Iterator[Batch], steps: int) -> Iterator[Batch]:
    """The next so many."""
    for _ in range(steps):
        yield next(source)


def gate_path(seed: int, lambdas: Sequence[float] = LAMBDAS) -> dict[str, Any]:
    """Gates closed by a price that rises, until few heads are left: after each λ
    ("steps") their number and BLEU; with controls for as many heads.

    "random": as many heads as at the end drawn, with the same training, some draws;
    "untrained": the survivors' mask on the checkpoint; "I_h": the most important ones
    on it.
    """
    model = trained(seed)
    scores = importance_by_kind(model)["encoder"]
    log_alpha = torch.full((LAYERS, HEADS), GATES["start"], requires_grad=True)
    optimizer, generator, source = (
        optimizer_of(model, log_alpha),
        torch.Generator().manual_seed(seed),
        stream(seed),
    )
    steps, alone = [], trained(seed)
    for done, lam in enumerate(lambdas, start=1):
        expected = train_with_gates(
            model, log_alpha, some(source, GATES["steps"]), gated_loss, lam, optimizer, generator
        )
        gates = at_test(log_alpha)
        keep = gates > 0
        with encoder_gates(model, gates):
            after = bleu(model)
        with encoder_gates(alone, keep.float()):
            untrained = bleu(alone)
        with encoder_gates(alone, lowest_heads(scores, int((~keep).sum())).float()):
            important = bleu(alone)
        steps.append(
            {
                "lambda": lam,
                "expected": expected[-1],
                "left": int(keep.sum()),
                "between": int(((gates > 0) & (gates < 1)).sum()),
                "keep": keep.int().tolist(),
                "gated": after,
                "untrained": untrained,
                "I_h": important,
                "steps": done * GATES["steps"],
            }
        )
        if len(steps) == len(lambdas) or steps[-1]["left"] <= GATES["until"]:
            with encoder_gates(model, gates):
                test = bleu(model, "test")
            break
    last = steps[-1]
    random = [
        random_with_training(seed, last["left"], last["steps"], draw) for draw in range(DRAWS)
    ]
    return {"steps": steps, "random": random, "test": test}


def at_test(log_alpha: Tensor) -> Tensor:
    """The deterministic gates."""
    from course_lib.pruning.components import hard_concrete

    return hard_concrete(log_alpha.detach())


def random_with_training(seed: int, left: int, steps: int, draw: int) -> float:
    """The control: so many heads drawn, all others off, and the same training."""
    model = trained(seed)
    generator = torch.Generator().manual_seed(1000 * draw + seed)
    keep = lowest_heads(
        torch.rand(LAYERS, HEADS, generator=generator), LAYERS * HEADS - left
    ).float()
    optimizer = torch.optim.Adam(model.parameters(), lr=GATES["lr"])
    model.train()
    for batch in some(stream(seed), steps):
        optimizer.zero_grad()
        gated_loss(model, batch, keep).backward()
        optimizer.step()
    model.eval()
    with encoder_gates(model, keep):
        return bleu(model)


# -------------------------------------------------------------------------------- roles


@torch.no_grad()
def encoder_maps(model: nn.Module, batch: Batch) -> Tensor:
    """(layers · heads, B, L, L), of a model with eager attention."""
    out = model.get_encoder()(  # type: ignore[operator]
        input_ids=batch["input_ids"], attention_mask=batch["attention_mask"], output_attentions=True
    )
    return torch.cat([a.transpose(0, 1) for a in out.attentions])


def targets(batch: Batch) -> tuple[dict[str, Tensor], Tensor]:
    """Of each rule the key that a query should look at, (B, L), and which tokens are
    real (the end mark is not).
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


def roles(seed: int) -> dict[str, Any]:
    """Of each rule how often each encoder head's largest attention is at its target
    ("shares", layers · heads), the best fixed offset's share, and each head's ablation.
    """
    model = trained(seed, "eager")
    every = list(translation.batches(data()["scores"], 300, truth=True))
    (batch,) = every
    maps = encoder_maps(model, batch).transpose(0, 1)  # (B, layers · heads, L, L)
    found, real = targets(batch)
    shares: dict[str, Any] = {}
    for name, target in found.items():
        counted = (target >= 0) & real
        lengths = real.sum(1, keepdim=True).expand_as(real)[counted]
        shares[name] = {
            "shares": points_to(maps, target, real).tolist(),
            "offset": arc_baseline(target, real),
            "chance": float((1 / lengths).mean()),
        }
    return {"rules": shares, "ablation": ablations(trained(seed))}


def ablations(model: nn.Module) -> dict[str, list[float]]:
    """Change of token accuracy, in points, without one encoder head: its context 0, or
    that of equal attention to all words.
    """
    every = batches("scores", 100)
    full = recipe.token_accuracy(model, every)
    zero, mean = [], []
    for head in range(LAYERS * HEADS):
        off = torch.zeros(LAYERS * HEADS, dtype=torch.bool)
        off[head] = True
        off = off.view(LAYERS, HEADS)
        with encoder_gates(model, (~off).float()):
            zero.append(recipe.token_accuracy(model, every) - full)
        with off_by_mean(model, off):
            mean.append(recipe.token_accuracy(model, every) - full)
    return {"zero": zero, "mean": mean}


@contextmanager
def off_by_mean(model: nn.Module, off: Tensor) -> Iterator[None]:
    """Kovaleva's way to switch heads off."""
    with running_mask(model) as mask, replaced_attention(model, off, uniform, mask):
        yield


@contextmanager
def running_mask(model: nn.Module) -> Iterator[Callable[[], Tensor]]:
    """Gives the (B, L) mask of the sources that the encoder is running on."""
    now: dict[str, Tensor] = {}

    def note(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        ids = kwargs.get("input_ids", args[0] if args else None)
        mask = kwargs.get("attention_mask", args[1] if len(args) > 1 else None)
        now["mask"] = torch.ones_like(ids) if mask is None else mask  # type: ignore[arg-type]

    handle = model.get_encoder().register_forward_pre_hook(note, with_kwargs=True)  # type: ignore[operator]
    try:
        yield lambda: now["mask"] > 0
    finally:
        handle.remove()


# ----------------------------------------------------------------------------- patterns


def fixed(seed: int) -> dict[str, Any]:
    """Test BLEU with all but one head of each encoder layer replaced by fixed patterns,
    by equal attention, or removed; each fine-tuned alike; and nothing replaced.
    """
    off = torch.ones(LAYERS, HEADS, dtype=torch.bool)
    off[:, -1] = False
    found = {}
    for name in ("learned", "fixed", "uniform", "removed"):
        model = trained(seed)
        with running_mask(model) as mask:
            ways: dict[str, Any] = {
                "learned": encoder_gates(model, torch.ones(LAYERS, HEADS)),
                "fixed": replaced_attention(model, off, lambda real: raganato(real, HEADS), mask),
                "uniform": replaced_attention(model, off, uniform, mask),
                "removed": encoder_gates(model, (~off).float()),
            }
            with ways[name]:
                before = bleu(model)
                fit_batches(
                    model,
                    stream(seed),
                    FIXED["steps"],
                    loss=loss,
                    lr=FIXED["lr"],
                    rate=warm_up_then_decay(FIXED["steps"] // 10),
                    seed=seed,
                    progress=False,
                )
                found[name] = {"before": before, "after": bleu(model.eval(), "test")}
    return found


def sentiment_maps(model: nn.Module, batch: Batch) -> Tensor:
    """(layers, heads, B, L, L), of a BERT with eager attention."""
    with torch.no_grad():
        out = model(
            input_ids=batch["input_ids"],
            attention_mask=batch["attention_mask"],
            output_attentions=True,
        )
    return torch.stack(out.attentions).transpose(1, 2)


def fine_tuning(seed: int) -> dict[str, Any]:
    """A sentiment BERT of the course: classes of its maps, and how much each head's
    maps change when it is fine-tuned to another task.
    """
    model = checkpoints.load(f"reviews-bert-{seed}", attention="eager").model
    batch = lab09.batches("validation", "negated", 100)[0]
    before = sentiment_maps(model, batch)
    real = batch["attention_mask"] > 0
    marks = torch.isin(batch["input_ids"], torch.tensor([2, 3]))  # [CLS], [SEP]
    classes = []
    for layer in before:
        for head in layer:
            names = [
                attention_pattern(m[r][:, r], s[r])
                for m, r, s in zip(head[:20], real, marks, strict=False)
            ]
            classes.append(max(set(names), key=names.count))
    tuned = copy.deepcopy(model)
    lab09.tune(tuned, "negated", seed)
    after = sentiment_maps(tuned, batch)
    change = [attention_change(b, a, real).tolist() for b, a in zip(before, after, strict=True)]
    return {"classes": classes, "change": change}


def translation_classes(seed: int) -> list[str]:
    """The class that most maps of each encoder head of the translation model have."""
    model = trained(seed, "eager")
    batch = next(translation.batches(data()["scores"], 40))
    real = batch["attention_mask"] > 0
    marks = batch["input_ids"] == translation.END
    found = []
    for head in encoder_maps(model, batch):
        names = [
            attention_pattern(m[r][:, r], s[r]) for m, r, s in zip(head, real, marks, strict=True)
        ]
        found.append(max(set(names), key=names.count))
    return found


# ------------------------------------------------------------------------ over training


def over_training(seed: int) -> dict[str, Any]:
    """At some steps of the training: BLEU, and BLEU with a share of *all* heads gone,
    by that step's own I_h and at random.
    """
    found: dict[str, Any] = {}
    for step in (*recipe.KEPT, recipe.STEPS):
        model = recipe.at_step(seed, step) if step in recipe.KEPT else trained(seed)
        scores = importance_by_kind(model)
        generator = torch.Generator().manual_seed(seed)
        rows: dict[str, list[float]] = {"I_h": [], "random": []}
        for fraction in (0.0, 0.2, 0.4, 0.6):
            with masked(model, prune_by_kind(scores, "all", fraction)):
                rows["I_h"].append(bleu(model))
            noise = {name: torch.rand(s.shape, generator=generator) for name, s in scores.items()}
            with masked(model, prune_by_kind(noise, "all", fraction)):
                rows["random"].append(bleu(model))
        found[str(step)] = rows
    return found


PARTS: dict[str, Callable[[int], Any]] = {
    "kinds": kinds,
    "gates": gate_path,
    "roles": roles,
    "fixed": fixed,
    "fine_tuning": fine_tuning,
    "classes": translation_classes,
    "over_training": over_training,
}


def part(name: str, seed: int) -> Any:
    """One of PARTS."""
    return PARTS[name](seed)


def remake_heads(executor: Executor, folder: Path) -> dict[str, Any]:
    """Three seeds, each one of PARTS; about fifteen minutes on two cores."""
    running = [
        {
            name: executor.submit(once, folder / f"{name}{seed}.json", part, name, seed)
            for name in PARTS
        }
        for seed in recipe.SEEDS
    ]
    return {"seeds": [{name: future.result() for name, future in row.items()} for row in running]}


def real() -> dict[str, Any]:
    """Multi30k, German into English, one model: BLEU, by kind without heads, and how
    much the encoder's heads look beside themselves.
    """
    from course_lib.recipes import multi30k

    model = multi30k.train(progress=False)
    data = multi30k.data()
    scored, curves = (
        data["validation"].select(range(400)),
        data["validation"].select(range(400, 700)),
    )
    scores = importance_by_kind(model, multi30k.batches(scored, 50))
    generator = torch.Generator().manual_seed(0)
    rows: dict[str, dict[str, list[float]]] = {}
    for kind in KINDS:
        rows[kind] = {"I_h": [], "random": []}
        for fraction in FRACTIONS:
            noise = {name: torch.rand(s.shape, generator=generator) for name, s in scores.items()}
            for how, by in (("I_h", scores), ("random", noise)):
                with masked(model, prune_by_kind(by, kind, fraction)):
                    rows[kind][how].append(multi30k.bleu(model, curves))
    model.set_attn_implementation("eager")  # type: ignore[operator]
    batch = next(multi30k.batches(scored, 200))
    maps = encoder_maps(model, batch).transpose(0, 1)
    real_words = (batch["attention_mask"] > 0) & (batch["input_ids"] != translation.END)
    beside = {
        str(o): points_to(maps, neighbour(real_words, o), real_words).tolist()
        for o in (-2, -1, 1, 2)
    }
    return {
        "settings": multi30k.SETTINGS,
        "test": multi30k.bleu(model, data["test"]),
        "kinds": rows,
        "beside": beside,
    }


def remake_multi30k(executor: Executor, folder: Path) -> dict[str, Any]:
    """Multi30k, one model trained from scratch; some fifteen minutes on one core."""
    return dict(executor.submit(once, folder / "real.json", real).result())


RESULTS: dict[str, Callable[[Executor, Path], dict[str, Any]]] = {
    "lab08_heads": remake_heads,
    "lab08_multi30k": remake_multi30k,
}
