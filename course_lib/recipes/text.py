"""Train and evaluate a transformer that classifies texts: one loop for the small models and the real ones."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from tqdm.auto import tqdm

from course_lib.modes import evaluating, modes_kept
from course_lib.training import seeded

Batch = dict[str, Tensor]
Rate = Callable[[int, int], float]  # (step from 0, steps in all) -> share of the full learning rate


@dataclass
class TextHistory:
    """What happened in a call of ``fit``."""

    loss: list[float] = field(default_factory=list)  # mean loss of every 100 steps (and of the rest)
    validation: list[tuple[int, float]] = field(default_factory=list)  # (steps done, accuracy in %)
    steps: int = 0
    seconds: float = 0.0  # processor time of this process
    wall: float = 0.0


def fit(
    model: nn.Module,
    batches: Iterable[Batch],
    steps: int,
    *,
    lr: float = 5e-4,
    betas: tuple[float, float] = (0.9, 0.98),
    weight_decay: float = 0.01,
    clip: float = 1.0,
    rate: Rate | None = None,
    seed: int = 0,
    validate: Callable[[], float] | None = None,
    every: int | None = None,
    post_step: Callable[[], None] | None = None,
    progress: bool = True,
) -> TextHistory:
    """Train ``model`` in place with AdamW on ``batches``, on the device it is on; every module's mode is put back after.

    Args:
        model: a transformers model for classification: ``model(**batch).loss``.
        batches: at most ``steps`` of them are used.
        steps: for the learning rate and the bar; fewer batches end the training earlier.
        lr, betas, weight_decay: of AdamW.
        clip: largest norm of the gradient.
        rate: share of ``lr`` at a step; None: constant. See ``warm_up_then_decay``.
        seed: of what is drawn meanwhile (dropout).
        validate: returns an accuracy in %; called after every ``every`` steps.
        post_step: called after every optimizer step.
        progress: show a bar.

    Raises:
        ValueError: if no parameter is to be trained, or the loss is no longer a number.
    """
    trained = [p for p in model.parameters() if p.requires_grad]
    if not trained:
        raise ValueError("the model has no parameter to train: are all of them frozen (requires_grad=False)?")
    where = trained[0].device
    update = torch.optim.AdamW(trained, lr=lr, betas=betas, weight_decay=weight_decay, fused=True)
    history = TextHistory()
    losses: list[Tensor] = []
    cpu, wall = time.process_time(), time.perf_counter()
    with (
        seeded(seed),
        modes_kept(model),
        tqdm(total=steps, desc="training", unit="step", disable=not progress, leave=False) as bar,
    ):
        model.train()
        for step, batch in enumerate(batches):
            if step >= steps:
                break
            for group in update.param_groups:
                group["lr"] = lr * (1.0 if rate is None else rate(step, steps))
            loss = model(**{name: part.to(where) for name, part in batch.items()}).loss
            update.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(trained, clip)
            update.step()
            if post_step is not None:
                post_step()
            losses.append(loss.detach())
            history.steps += 1
            bar.update()
            if len(losses) == 100:
                _note(history, losses, bar)
            if validate is not None and every and history.steps % every == 0:
                history.validation.append((history.steps, validate()))
                bar.set_postfix_str(f"validation {history.validation[-1][1]:.1f} %")
        if losses:
            _note(history, losses, bar)
    history.seconds, history.wall = time.process_time() - cpu, time.perf_counter() - wall
    return history


def _note(history: TextHistory, losses: list[Tensor], bar: Any) -> None:
    history.loss.append(torch.stack(losses).mean().item())
    losses.clear()
    if not math.isfinite(history.loss[-1]):
        raise ValueError(f"the loss is {history.loss[-1]} after {history.steps} steps: is the learning rate too high?")
    if not history.validation:
        bar.set_postfix_str(f"loss {history.loss[-1]:.3f}")


def warm_up_then_decay(warm_up: int = 100, decay_from: int = 0) -> Rate:
    """The rate rises over ``warm_up`` steps, stays, and from step ``decay_from`` on falls to zero in a straight line."""

    def rate(step: int, steps: int) -> float:
        rising = (step + 1) / warm_up if warm_up else 1.0
        falling = (steps - step) / (steps - decay_from) if steps > decay_from else 1.0
        return min(1.0, rising, falling)

    return rate


@torch.no_grad()
def accuracy(model: nn.Module, batches: Iterable[Mapping[str, Tensor]]) -> float:
    """Share of texts classified right, in %, in evaluation mode; every module's mode is put back after.

    Raises:
        ValueError: if there are no texts.
    """
    where = next(model.parameters()).device
    right = n = 0
    with evaluating(model):
        for batch in batches:
            inputs = {name: part.to(where) for name, part in batch.items() if name != "labels"}
            right += int((model(**inputs).logits.argmax(dim=1).cpu() == batch["labels"]).sum())
            n += len(batch["labels"])
    if not n:
        raise ValueError("accuracy needs at least one text, got none: was an iterator used twice?")
    return 100 * right / n
