"""How ``lab08_heads`` and ``lab08_multi30k`` were made: ``course remake lab08_heads``."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Iterable
from contextlib import contextmanager
from functools import partial
from typing import Any

import multi30k_translator as multi30k
import torch
import translation_checkpoints as recipe
from torch import Tensor, nn

from course_lib.data import translation
from course_lib.experiments import by_seed, lab08
from course_lib.experiments.lab08 import GATES, HEADS, LAYERS, bleu, encoder_gates, trained
from course_lib.models.attention import find_attention
from course_lib.pruning import heads as pruning
from course_lib.pruning.components import hard_concrete
from course_lib.training import Batch, fit_batches, warm_up_then_decay
from course_lib.wrapped import hold_hooks

NAMES = {"cross": "encoder–decoder"}  # in the tables
Rows = list[dict[str, Any]]
KINDS = ("encoder", "decoder", "cross")
SETTINGS: dict[str, Any] = {
    "fractions": (0.0, 0.25, 0.5, 0.75, 1.0),
    "prices": (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2),
    "gates": {"steps": 50, **GATES, "until": 4},  # steps at each price; until so many are left
    "seeds": (0, 1, 2, 3, 4),  # of the gates; the last two are trained here
    "draws": 3,  # random baselines per seed
    "fixed": {"steps": 300, "lr": 5e-4},
    "sentences": lab08.SENTENCES,
}


def importance_by_kind(model: nn.Module, scored: Iterable[Batch]) -> dict[str, Tensor]:
    """I_h, (layers, heads), of each kind of attention."""
    found = find_attention(model)
    scores = pruning.head_importance(model, scored, lab08.losses)
    return {kind: scores[[i for i, a in enumerate(found) if a.kind == kind]] for kind in KINDS}


def on_grid(column: str, values: Tensor) -> Rows:
    """A row per head, of values (layers, heads)."""
    return [
        {"layer": i // HEADS, "head": i % HEADS, column: v}
        for i, v in enumerate(values.flatten().tolist())
    ]


def by_kind(model: nn.Module, scores: Any, seed: int, draws: int, reached: Any) -> Rows:
    """What is ``reached()`` without a share of the heads of one kind, the lowest by I_h, or at
    random (the mean of some draws); nothing trained.
    """
    generator, rows = torch.Generator().manual_seed(seed), []
    for kind, fraction in itertools.product(KINDS, SETTINGS["fractions"]):
        drawn = [
            {k: torch.rand(s.shape, generator=generator) for k, s in scores.items()}
            for _ in range(draws if 0 < fraction < 1 else 1)
        ]
        for method, ways in (("I_h", [scores]), ("random", drawn)):
            found = []
            for by in ways:
                keep = pruning.prune_by_kind(by, kind, fraction)[kind].float()
                with pruning.gated(model, keep, find_attention(model, kind)):
                    found.append(reached())
            at = {"kind": NAMES.get(kind, kind), "method": method, "pruned": fraction}
            rows.append({**at, "bleu": sum(found) / len(found)})
    return rows


def network(seed: int) -> nn.Module:
    """A checkpoint that comes with the course, or one more by the same recipe."""
    if seed in recipe.SEEDS:
        return trained(seed)
    return recipe.train(seed, translation.load(recipe.PAIRS)["train"], progress=False)[0]


def closing(seed: int) -> dict[str, Rows]:
    """Gates closed by a price that rises, until few heads are left, with baselines for
    as many heads: "survivors, untrained" and "I_h, untrained" on the checkpoint; and, for
    the last price, drawn heads, with the same training ("random") and without; and what the
    checkpoint's heads point to.
    """
    how, alone = SETTINGS["gates"], network(seed)
    scores = importance_by_kind(alone, lab08.batches("scores"))["encoder"]
    found: dict[str, Rows] = {"gates": [], "survivors": [], "closing": []}

    def add(method: str, price: float, left: int, reached: float, draw: int = 0) -> None:
        at = {"price": price, "closed": LAYERS * HEADS - left, "method": method, "draw": draw}
        found["closing"].append({**at, "bleu": reached})

    add("dense", 0.0, LAYERS * HEADS, bleu(alone))
    ways = (SETTINGS["prices"], how["steps"], pruning.train_with_gates, hard_concrete)
    path = lab08.gate_path(copy.deepcopy(alone), seed, *ways)
    for done, (_, gates, row) in enumerate(path, start=1):
        keep, price, left = gates > 0, row["price"], int(row["open"])
        add("gates", price, left, row.pop("bleu"))
        important = pruning.lowest_heads(scores, keep.numel() - left)
        for method, mask in (("survivors, untrained", keep), ("I_h, untrained", important)):
            with encoder_gates(alone, mask.float()):
                add(method, price, left, bleu(alone))
        found["gates"].append(row)
        found["survivors"] += [{"price": price, **r} for r in on_grid("kept", keep.int())]
        if done == len(SETTINGS["prices"]) or left <= how["until"]:
            break
    for draw in range(SETTINGS["draws"]):
        noise = torch.Generator().manual_seed(1000 * draw + seed)
        drawn = torch.rand(LAYERS, HEADS, generator=noise)
        chosen = pruning.lowest_heads(drawn, LAYERS * HEADS - left).float()
        model = copy.deepcopy(alone)
        with encoder_gates(model, chosen):
            add("random, untrained", price, left, bleu(model), draw)
            adam = torch.optim.Adam(model.parameters(), lr=GATES["lr"])
            tune(model, seed, done * how["steps"], optimizer=adam, clip=None)
            add("random", price, left, bleu(model), draw)
    alone.set_attn_implementation("eager")  # type: ignore[operator]
    roles = lab08.find_roles(alone, pruning.points_to, pruning.arc_baseline)
    return {**found, "roles": roles.to_dict("records")}


def tune(model: nn.Module, seed: int, steps: int, **how: Any) -> None:
    """Train on in place."""
    fit_batches(model, lab08.stream(seed), steps, loss=lab08.loss, progress=False, **how)


def ablations(model: nn.Module) -> Rows:
    """Change of token accuracy, in points, without one encoder head: its context 0, or
    that of equal attention to all words ("mean").
    """
    every = lab08.batches("scores", 100)
    full = recipe.token_accuracy(model, every)
    rows, each = on_grid("zero", torch.zeros(LAYERS, HEADS)), torch.eye(LAYERS * HEADS).bool()
    for row, off in zip(rows, each.view(-1, LAYERS, HEADS), strict=True):
        with encoder_gates(model, (~off).float()):
            row["zero"] = recipe.token_accuracy(model, every) - full
        with encoder_attends(model, off, uniform):
            row["mean"] = recipe.token_accuracy(model, every) - full
    return rows


@contextmanager
def encoder_attends(model: nn.Module, off: Tensor, maps: Callable[[Tensor], Tensor]) -> Any:
    """Inside the block the encoder's heads in ``off``, (layers, heads) bool, attend as ``maps``
    of the sources' mask (B, L) say, (B, heads or 1, L, L). Gradients flow to values and outputs.
    """
    now: dict[str, Tensor] = {}

    def note_maps(module: nn.Module, args: Any, kwargs: dict[str, Any]) -> None:
        now["maps"] = maps(kwargs["attention_mask"] > 0)

    def note_values(module: nn.Module, args: Any, out: Tensor) -> None:
        now["values"] = out.unflatten(-1, (HEADS, -1)).transpose(1, 2)  # (B, heads, L, d)

    def write_context(heads: Tensor, module: nn.Module, args: tuple[Any, ...]) -> Any:
        values = now["values"]
        fixed = (now["maps"].to(values) @ values).transpose(1, 2).flatten(2)  # (B, L, heads · d)
        return (torch.where(heads.repeat_interleave(values.shape[-1]), fixed, args[0]),)

    with hold_hooks() as hooks:
        noted = model.get_encoder().register_forward_pre_hook(note_maps, with_kwargs=True)  # type: ignore[operator]
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
    return pruning.frozen_attention(empty, token_mask.sum(1))


def fixed(seed: int) -> Rows:
    """All but one head of each encoder layer replaced by fixed patterns, by equal
    attention, or removed; and nothing replaced: validation BLEU at once, and test BLEU
    after the same fine-tuning.
    """
    off = torch.ones(LAYERS, HEADS, dtype=torch.bool)
    off[:, -1] = False
    steps, lr = SETTINGS["fixed"].values()
    ways: dict[str, tuple[Any, ...]] = {
        "all learned": (encoder_gates, torch.ones(LAYERS, HEADS)),
        "fixed patterns": (encoder_attends, off, raganato),
        "equal attention": (encoder_attends, off, uniform),
        "removed": (encoder_gates, (~off).float()),
    }
    rows: Rows = []
    for method, (way, *how) in ways.items():
        model = trained(seed)
        with way(model, *how):
            before = bleu(model)
            tune(model, seed, steps, lr=lr, rate=warm_up_then_decay(steps // 10))
            tuned = bleu(model.eval(), "test")
        rows.append({"method": method, "when": "before fine-tuning", "bleu": before})
        rows.append({"method": method, "when": "fine-tuned", "bleu": tuned})
    return rows


def one_checkpoint(seed: int) -> dict[str, Rows]:
    """By kind, disabled, and with fixed patterns; nothing for the seeds that are trained here."""
    if seed not in recipe.SEEDS:
        return {}
    model = trained(seed)
    scores = importance_by_kind(model, lab08.batches("scores"))
    rows = by_kind(model, scores, seed, SETTINGS["draws"], lambda: bleu(model))
    return {"kinds": rows, "ablation": ablations(model), "fixed": fixed(seed)}


def real(seed: int) -> dict[str, Rows]:
    """Multi30k, German into English, one model: BLEU, and by kind without heads."""
    model, pairs = multi30k.train(seed, progress=False), multi30k.data()
    scored = pairs["validation"].select(range(400))
    curves = pairs["validation"].select(range(400, 700))
    scores = importance_by_kind(model, multi30k.batches(scored, 50))
    rows = by_kind(model, scores, seed, 1, lambda: multi30k.bleu(model, curves))
    return {"kinds": rows, "test": [{"test": multi30k.bleu(model, pairs["test"])}]}


RESULTS = {
    "lab08_heads": by_seed(
        "Gates of five seeds, all else of three; about fifteen minutes on two cores.",
        SETTINGS, len(SETTINGS["seeds"]), closing, one_checkpoint,
    ),
    "lab08_multi30k": by_seed(
        "One model trained from scratch; some fifteen minutes on one core.",
        multi30k.SETTINGS, 1, real,
    ),
}  # fmt: skip
