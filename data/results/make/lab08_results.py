"""How ``lab08_heads`` and ``lab08_multi30k`` were made: ``course remake lab08_heads``."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import multi30k_translator as multi30k
import pandas as pd
import torch
import translation_checkpoints as recipe
from torch import Tensor, nn

from course_lib.data import translation
from course_lib.experiments import Result
from course_lib.experiments.lab08 import (
    GATES,
    HEADS,
    LAYERS,
    SENTENCES,
    batches,
    bleu,
    encoder_gates,
    encoder_maps,
    find_roles,
    gate_path,
    gated_loss,
    loss,
    losses,
    stream,
    trained,
)
from course_lib.experiments.once import once
from course_lib.experiments.once import tables as joined
from course_lib.models.attention import find_attention
from course_lib.pruning.components import hard_concrete
from course_lib.pruning.heads import (
    arc_baseline,
    frozen_attention,
    gated,
    head_importance,
    lowest_heads,
    neighbour,
    points_to,
    prune_by_kind,
    train_with_gates,
)
from course_lib.training import Batch, fit_batches, warm_up_then_decay
from course_lib.wrapped import hold_hooks

NAMES = {"cross": "encoder–decoder"}  # in the tables
WAYS = {"learned": "all learned", "fixed": "fixed patterns", "uniform": "equal attention"}
Rows = list[dict[str, Any]]
KINDS = ("encoder", "decoder", "cross")
SETTINGS: dict[str, Any] = {
    "fractions": (0.0, 0.25, 0.5, 0.75, 1.0),
    "prices": (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2),
    "gates": {"steps": 50, **GATES, "until": 4},  # steps at each price; until so many are left
    "seeds": (0, 1, 2, 3, 4),  # of the gates; the last two are trained here
    "draws": 3,  # random baselines per seed
    "fixed": {"steps": 300, "lr": 5e-4},
    "sentences": SENTENCES,
}


def importance_by_kind(
    model: nn.Module, scored: Iterable[Batch] | None = None
) -> dict[str, Tensor]:
    """I_h, (layers, heads), of the encoder, the decoder's own attention, and its attention to
    the encoder; by default of the sentences for scores.
    """
    found = find_attention(model)
    scores = head_importance(model, batches("scores") if scored is None else scored, losses)
    return {kind: scores[[i for i, a in enumerate(found) if a.kind == kind]] for kind in KINDS}


def on_grid(column: str, values: Sequence[Any], heads: int = HEADS) -> Rows:
    """A row per head, of values in the order of layers and heads."""
    return [{"layer": i // heads, "head": i % heads, column: v} for i, v in enumerate(values)]


# ------------------------------------------------------------------------------- by kind
def masked(model: nn.Module, keep: Mapping[str, Tensor]) -> Any:
    """The block in which the heads of these masks are all that is left."""
    of_kind = {kind: iter(mask.float()) for kind, mask in keep.items()}
    return gated(model, torch.stack([next(of_kind[a.kind]) for a in find_attention(model)]))


def random_scores(scores: Mapping[str, Tensor], generator: torch.Generator) -> dict[str, Tensor]:
    """Scores drawn for the same heads."""
    return {name: torch.rand(s.shape, generator=generator) for name, s in scores.items()}


def kinds(seed: int) -> dict[str, Rows]:
    """BLEU without a share of the heads of one kind, the lowest by I_h, or at random
    (the mean of some draws); nothing trained.
    """
    model = trained(seed)
    scores = importance_by_kind(model)
    generator = torch.Generator().manual_seed(seed)
    importance = [
        {"kind": NAMES.get(kind, kind), **row}
        for kind, s in scores.items()
        for row in on_grid("importance", s.flatten().tolist())
    ]
    rows: Rows = []
    for kind in KINDS:
        for fraction in SETTINGS["fractions"]:
            at: dict[str, Any] = {"kind": NAMES.get(kind, kind), "pruned": fraction}
            with masked(model, prune_by_kind(scores, kind, fraction)):
                rows.append({**at, "method": "I_h", "bleu": bleu(model)})
            drawn = []
            for _ in range(SETTINGS["draws"] if 0 < fraction < 1 else 1):
                noise = random_scores(scores, generator)
                with masked(model, prune_by_kind(noise, kind, fraction)):
                    drawn.append(bleu(model))
            rows.append({**at, "method": "random", "bleu": sum(drawn) / len(drawn)})
    return {"importance": importance, "kinds": rows}


# ------------------------------------------------------------------------------ L0 gates
def network(seed: int) -> nn.Module:
    """A checkpoint that comes with the course, or one more by the same recipe."""
    if seed in recipe.SEEDS:
        return trained(seed)
    model: nn.Module = recipe.train(seed, translation.load(recipe.PAIRS)["train"], progress=False)[
        0
    ]
    return model


def closing(seed: int) -> dict[str, Rows]:
    """Gates closed by a price that rises, until few heads are left, with baselines for
    as many heads: "survivors, untrained" and "I_h, untrained" on the checkpoint; and, for
    the last price, drawn heads, with the same training ("random") and without; and what the
    checkpoint's heads point to.
    """
    how, alone = SETTINGS["gates"], network(seed)
    scores = importance_by_kind(alone)["encoder"]
    found: dict[str, Rows] = {"gates": [], "survivors": [], "closing": [], "test": []}

    def add(method: str, price: float, left: int, reached: float, draw: int = 0) -> None:
        at = {"price": price, "closed": LAYERS * HEADS - left, "method": method, "draw": draw}
        found["closing"].append({**at, "bleu": reached})

    add("dense", 0.0, LAYERS * HEADS, bleu(alone))
    path = gate_path(
        copy.deepcopy(alone),
        seed,
        SETTINGS["prices"],
        how["steps"],
        train_with_gates,
        hard_concrete,
    )
    for done, (model, gates, row) in enumerate(path, start=1):
        keep, price, left = gates > 0, row["price"], int(row["open"])
        add("gates", price, left, row.pop("bleu"))
        important = lowest_heads(scores, keep.numel() - left)
        for method, mask in (("survivors, untrained", keep), ("I_h, untrained", important)):
            with encoder_gates(alone, mask.float()):
                add(method, price, left, bleu(alone))
        found["gates"].append({**row, "steps": done * how["steps"]})
        kept = keep.int().flatten().tolist()
        found["survivors"] += [{"price": price, **r} for r in on_grid("kept", kept)]
        if done == len(SETTINGS["prices"]) or left <= how["until"]:
            with encoder_gates(model, gates):
                found["test"].append({"method": "gates", "open": left, "test": bleu(model, "test")})
            for draw in range(SETTINGS["draws"]):
                keep = drawn_heads(seed, left, draw)
                with encoder_gates(alone, keep):
                    add("random, untrained", price, left, bleu(alone), draw)
                trained_on = train_without(copy.deepcopy(alone), keep, seed, done * how["steps"])
                with encoder_gates(trained_on, keep):
                    add("random", price, left, bleu(trained_on), draw)
            break
    alone.set_attn_implementation("eager")  # type: ignore[operator]
    roles = find_roles(alone, points_to, arc_baseline)
    return {**found, "roles": roles.to_dict("records")}


def drawn_heads(seed: int, left: int, draw: int) -> Tensor:
    """Gates that keep so many of the encoder's heads, drawn."""
    generator = torch.Generator().manual_seed(1000 * draw + seed)
    noise = torch.rand(LAYERS, HEADS, generator=generator)
    return lowest_heads(noise, LAYERS * HEADS - left).float()


def train_without(model: nn.Module, keep: Tensor, seed: int, steps: int) -> nn.Module:
    """The model, trained on in place with the other heads off."""
    optimizer = torch.optim.Adam(model.parameters(), lr=GATES["lr"])
    model.train()
    for batch in islice(stream(seed), steps):
        optimizer.zero_grad()
        gated_loss(model, batch, keep).backward()
        optimizer.step()
    return model.eval()


# ------------------------------------------------------------------- disabling, patterns
def ablations(model: nn.Module) -> Rows:
    """Change of token accuracy, in points, without one encoder head: its context 0, or
    that of equal attention to all words ("mean").
    """
    every = batches("scores", 100)
    full = recipe.token_accuracy(model, every)
    rows = on_grid("zero", [0.0] * (LAYERS * HEADS))
    for row in rows:
        off = torch.zeros(LAYERS, HEADS, dtype=torch.bool)
        off[row["layer"], row["head"]] = True
        with encoder_gates(model, (~off).float()):
            row["zero"] = recipe.token_accuracy(model, every) - full
        with encoder_attends(model, off, uniform):
            row["mean"] = recipe.token_accuracy(model, every) - full
    return rows


@contextmanager
def encoder_attends(
    model: nn.Module, off: Tensor, maps: Callable[[Tensor], Tensor]
) -> Iterator[None]:
    """Inside the block the encoder's heads in ``off``, (layers, heads) bool, attend as ``maps``
    of the sources' mask (B, L) say, (B, heads or 1, L, L), whatever their queries and keys are:
    Σ_j map[i, j] v_j is written into the place of a head's context, in front of the output
    projection. Gradients flow to values and outputs.
    """
    now: dict[str, Tensor] = {}

    def note_maps(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        ids = kwargs.get("input_ids", args[0] if args else None)
        mask = kwargs.get("attention_mask", args[1] if len(args) > 1 else None)
        now["maps"] = maps((torch.ones_like(ids) if mask is None else mask) > 0)

    def note_values(module: nn.Module, args: Any, out: Tensor) -> None:
        now["values"] = out.unflatten(-1, (HEADS, -1)).transpose(1, 2)  # (B, heads, L, d)

    def write_context(heads: Tensor, module: nn.Module, args: tuple[Any, ...]) -> Any:
        values = now["values"]
        fixed = (now["maps"].to(values) @ values).transpose(1, 2).flatten(2)  # (B, L, heads · d)
        return (torch.where(heads.repeat_interleave(values.shape[-1]), fixed, args[0]),)

    with hold_hooks() as hooks:
        noted = model.get_encoder().register_forward_pre_hook(note_maps, with_kwargs=True)
        hooks.callback(noted.remove)
        for a, heads in zip(find_attention(model, "encoder"), off, strict=True):
            value, out = model.get_submodule(a.v), model.get_submodule(a.out)
            hooks.callback(value.register_forward_hook(note_values).remove)
            hooks.callback(out.register_forward_pre_hook(partial(write_context, heads)).remove)
        yield


def uniform(token_mask: Tensor) -> Tensor:
    """(B, 1, L, L): every query attends to all real tokens alike."""
    real = token_mask.double()
    return (real / real.sum(1, keepdim=True))[:, None, None].expand(-1, 1, token_mask.shape[1], -1)


def raganato(token_mask: Tensor) -> Tensor:
    """(B, heads, L, L): pattern h for head h, of sentences whose padding stands at the end; the
    last head's map is 0.
    """
    empty = torch.zeros(len(token_mask), HEADS, *[token_mask.shape[1]] * 2)
    return frozen_attention(empty, token_mask.sum(1))


def fixed(seed: int) -> dict[str, Rows]:
    """All but one head of each encoder layer replaced by fixed patterns, by equal
    attention, or removed; and nothing replaced: validation BLEU at once, and test BLEU
    after the same fine-tuning.
    """
    off = torch.ones(LAYERS, HEADS, dtype=torch.bool)
    off[:, -1] = False
    rows: Rows = []
    for name in ("learned", "fixed", "uniform", "removed"):
        model = trained(seed)
        ways: dict[str, Any] = {
            "learned": encoder_gates(model, torch.ones(LAYERS, HEADS)),
            "fixed": encoder_attends(model, off, raganato),
            "uniform": encoder_attends(model, off, uniform),
            "removed": encoder_gates(model, (~off).float()),
        }
        with ways[name]:
            before = bleu(model)
            steps = SETTINGS["fixed"]["steps"]
            fit_batches(
                model,
                stream(seed),
                steps,
                loss=loss,
                lr=SETTINGS["fixed"]["lr"],
                rate=warm_up_then_decay(steps // 10),
                seed=seed,
                progress=False,
            )
            tuned = bleu(model.eval(), "test")
        at = {"method": WAYS.get(name, name)}
        rows.append({**at, "when": "at once", "bleu": before})
        rows.append({**at, "when": "fine-tuned", "bleu": tuned})
    return {"fixed": rows}


COLUMNS = {  # where the rows' own order is another one
    "kinds": ["seed", "kind", "method", "pruned", "bleu"],
    "gates": ["seed", "price", "steps", "expected", "open", "between"],
}


def one_checkpoint(seed: int) -> dict[str, Rows]:
    """By kind, disabled, and with fixed patterns."""
    return {**kinds(seed), "ablation": ablations(trained(seed)), **fixed(seed)}


def tables(found: Mapping[int, Sequence[Mapping[str, Rows]]]) -> dict[str, pd.DataFrame]:
    """Seed -> what its parts found, as long tables of all seeds."""
    made = joined(({"seed": seed}, one) for seed, parts in found.items() for one in parts)
    return {name: table[COLUMNS.get(name, list(table))] for name, table in made.items()}


def remake_heads(executor: Executor, folder: Path) -> Result:
    """Gates of five seeds, all else of three; about fifteen minutes on two cores."""
    parts = [(closing, s) for s in SETTINGS["seeds"]] + [(one_checkpoint, s) for s in recipe.SEEDS]
    running = [(seed, executor.submit(once, folder, part, seed)) for part, seed in parts]
    found = {seed: [f.result() for s, f in running if s == seed] for seed in SETTINGS["seeds"]}
    return Result(tables(found), SETTINGS)


def real() -> dict[str, Any]:
    """Multi30k, German into English, one model: BLEU, by kind without heads, and how
    often the encoder's heads look beside the query.
    """
    model = multi30k.train(progress=False)
    pairs = multi30k.data()
    scored = pairs["validation"].select(range(400))
    curves = pairs["validation"].select(range(400, 700))
    scores = importance_by_kind(model, multi30k.batches(scored, 50))
    generator = torch.Generator().manual_seed(0)
    rows: Rows = []
    for kind in KINDS:
        for fraction in SETTINGS["fractions"]:
            noise = random_scores(scores, generator)
            for method, by in (("I_h", scores), ("random", noise)):
                with masked(model, prune_by_kind(by, kind, fraction)):
                    at = {"kind": NAMES.get(kind, kind), "method": method, "pruned": fraction}
                    rows.append({**at, "bleu": multi30k.bleu(model, curves)})
    model.set_attn_implementation("eager")
    batch = next(multi30k.batches(scored, 200))
    maps = encoder_maps(model, batch)
    words = (batch["attention_mask"] > 0) & (batch["input_ids"] != translation.END)
    beside = [
        {"offset": offset, **row}
        for offset in (-2, -1, 1, 2)
        for row in on_grid("share", points_to(maps, neighbour(words, offset), words).tolist())
    ]
    test = [{"method": "dense", "test": multi30k.bleu(model, pairs["test"])}]
    return {"kinds": rows, "beside": beside, "test": test}


def remake_multi30k(executor: Executor, folder: Path) -> Result:
    """Multi30k, one model trained from scratch; some fifteen minutes on one core."""
    found = executor.submit(once, folder, real).result()
    return Result(tables({0: [found]}), multi30k.SETTINGS)


RESULTS: dict[str, Callable[[Executor, Path], Result]] = {
    "lab08_heads": remake_heads,
    "lab08_multi30k": remake_multi30k,
}
