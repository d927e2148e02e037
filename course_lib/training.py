"""Train and evaluate: one loop over batches (``fit_batches``), and the same loop on the
indices of images (``fit``).

::

    from course_lib.models import LeNet300
    from course_lib.pruning.weights import dense_masks

    net, digits = LeNet300(64), images.load("digits")
    fit(net, digits.train, epochs=2, masks=dense_masks(net))  # images, cross entropy

    # dicts; what a transformer itself calls its loss
    fit_batches(model, batches, steps=2, rate=warm_up_then_decay(1))

    # a loss and an optimizer of your own
    sgd = torch.optim.SGD(model.parameters(), lr=0.1)
    own = lambda model, batch: model(**batch).loss
    fit_batches(model, batches, steps=2, loss=own, optimizer=sgd)

There is no DataLoader: the images are tensors already, so a batch is an index, and
thousands of small training runs stay cheap. Randomness comes from ``seed`` alone and
leaves the global state as it was. The model is trained in place, on the device it is on;
every module's mode is put back after.
"""

from __future__ import annotations

import functools
import itertools
import math
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, field
from itertools import islice
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim import Optimizer

from course_lib.checks import check_count
from course_lib.data import images
from course_lib.data.images import ImageData, Split
from course_lib.modes import evaluating, restoring_modes
from course_lib.progress import current_run, open_bar, raising_interrupted
from course_lib.seeding import seeded as seeded

OptimizerMaker = Callable[[Iterable[nn.Parameter]], Optimizer]
Rate = Callable[[int, int], float]  # (step from 0, steps in all) -> share of the full learning rate
Batch = dict[str, Tensor]
TRAINED_IN_PART = (
    "Interrupted: the model is trained in part. Build it again before you train it again."
)


@dataclass
class History:
    """What happened in a training."""

    loss: list[float] = field(default_factory=list)  # mean of an epoch, or of 100 steps
    # accuracy in % and mean cross entropy, if there was validation, after so many steps
    validation: list[float] = field(default_factory=list)
    validation_loss: list[float] = field(default_factory=list)
    steps: list[int] = field(default_factory=list)
    done: int = 0  # steps made
    seconds: float = 0.0  # wall time, validation included
    cpu_seconds: float = 0.0  # processor time of this process


# ---- the loop


def fit_batches(
    model: nn.Module,
    batches: Iterable[Any],
    steps: int,
    *,
    loss: Callable[[nn.Module, Any], Tensor] | None = None,
    lr: float = 5e-4,
    betas: tuple[float, float] = (0.9, 0.98),
    weight_decay: float = 0.01,
    groups: Sequence[Mapping[str, Any]] | None = None,
    optimizer: Optimizer | None = None,
    start: int = 0,
    stop: int | None = None,
    rate: Rate | Sequence[Rate] | None = None,
    clip: float | None = 1.0,
    masks: Mapping[str, Tensor] | None = None,
    seed: int = 0,
    post_step: Callable[[], None] | None = None,
    after: Callable[[History, Tensor], str | None] | None = None,
    progress: bool = True,
) -> History:
    """Train ``model`` on ``batches``, one for each step from ``start`` on; if there are
    fewer, training ends earlier.

    Args:
        batches: the tensors of a dict are put on the model's device.
        steps: of the whole run, by which the rate is computed.
        loss: ``loss(model, batch)`` is the scalar that is minimised; None: the model's own,
            ``model(**batch).loss``, as models of transformers have it.
        lr, betas, weight_decay: of AdamW.
        groups: AdamW's parameter groups as ``torch.optim`` takes them, with what they have of
            their own (``lr``, ``weight_decay``); None: all parameters of the model, in
            one. A group may hold parameters that are not the model's.
        optimizer: in place of AdamW.
        start, stop: make only these steps, from ``start`` (the first is 0) up to but
            without ``stop`` (None: ``steps``).
        rate: share of each group's learning rate at a step; one for all groups, or one
            for each. None: constant.
        clip: largest norm of the gradient of the model's parameters; None: any.
        masks: pruned weights (False) are zero before the first step and after every
            step.
        seed: of what is drawn meanwhile (dropout).
        post_step: called after every optimizer step, after ``masks`` are applied.
        after: called after that with the history and the loss, which it records; what it
            returns is shown beside the bar. None: the history has the mean of every 100
            losses.
        progress: show a bar, if it takes longer than a second.

    Raises:
        ValueError: if no parameter is to be trained, ``masks`` do not fit the model, or the
            mean of 100 losses is no longer a number.
        KeyboardInterrupt: at an interrupt, with one line of text.
    """
    trained = _trained(model)
    where = trained[0].device
    if optimizer is None:
        own = [dict(group) for group in groups] if groups is not None else [{"params": trained}]
        options: dict[str, Any] = {"betas": betas, "weight_decay": weight_decay}
        optimizer = torch.optim.AdamW(own, lr=lr, fused=True, **options)
    last = steps if stop is None else min(stop, steps)
    top = [group["lr"] for group in optimizer.param_groups]
    rates = list(rate) if isinstance(rate, Sequence) else [rate] * len(top)
    run, coming = current_run(), max(0, last - start)
    if run is not None:
        run.total += coming
    bar = open_bar(coming, "training", shown=progress and run is None, unit=" steps")
    kept: AbstractContextManager[object] = nullcontext()
    if masks is not None:
        # here, so that training without masks needs no part of pruning
        from course_lib.pruning.weights.masks import masked

        kept = masked(model, masks)
    history, losses = History(), list[Tensor]()
    after = after or functools.partial(_record_mean, losses)
    cpu, wall = time.process_time(), time.perf_counter()
    with seeded(seed), restoring_modes(model), kept, raising_interrupted(TRAINED_IN_PART), bar:
        model.train()
        for step, batch in zip(range(start, last), batches, strict=False):
            if run is not None:
                run.count_step()
            for group, full, share in zip(optimizer.param_groups, top, rates, strict=True):
                if share is not None:
                    group["lr"] = full * share(step, steps)
            if isinstance(batch, dict):
                batch = {name: part.to(where) for name, part in batch.items()}
            value = model(**batch).loss if loss is None else loss(model, batch)
            optimizer.zero_grad()
            value.backward()
            if clip is not None:
                nn.utils.clip_grad_norm_(model.parameters(), clip)
            optimizer.step()
            if post_step is not None:
                post_step()
            bar.update()
            history.done += 1
            if said := after(history, value.detach()):
                bar.set_postfix_str(said)
    if losses:
        _record_mean(losses, history)
    history.cpu_seconds, history.seconds = time.process_time() - cpu, time.perf_counter() - wall
    return history


def _record_mean(losses: list[Tensor], history: History, loss: Tensor | None = None) -> str | None:
    """At every hundredth loss, and without another one."""
    losses += [] if loss is None else [loss]
    if loss is None or len(losses) == 100:
        history.loss.append(torch.stack(losses).mean().item())
        losses.clear()
        if not math.isfinite(history.loss[-1]):
            raise ValueError(
                f"the loss is {history.loss[-1]} after {history.done} steps: is the learning rate"
                " too high?"
            )
    return f"loss {history.loss[-1]:.3f}" if history.loss else None


def warm_up_then_decay(warm_up: int = 100, decay_from: int = 0) -> Rate:
    """The rate rises over ``warm_up`` steps, stays, and from step ``decay_from`` on
    falls to zero in a straight line.
    """

    def rate(step: int, steps: int) -> float:
        rising = (step + 1) / warm_up if warm_up else 1.0
        falling = (steps - step) / (steps - decay_from) if steps > decay_from else 1.0
        return min(1.0, rising, falling)

    return rate


def endless(epoch: Callable[[int], Iterable[Batch]], seed: int) -> Iterator[Batch]:
    """Training batches without end, epoch after epoch: ``epoch(order)`` gives those of an
    epoch, ``order`` is the seed of their order, in epoch n ``1000 * seed + n``.
    """
    for number in itertools.count(1000 * seed):
        yield from epoch(number)


def cosine(step: int, steps: int) -> float:
    """The rate falls to zero over all steps, slowly at both ends."""
    return (1 + math.cos(math.pi * step / steps)) / 2


# ---- images


def fit(
    model: nn.Module,
    split: Split,
    *,
    epochs: int,
    lr: float = 1e-3,
    optimizer: str | OptimizerMaker = "adam",
    batch_size: int = 64,
    weight_decay: float = 0.0,
    seed: int = 0,
    validation: Split | None = None,
    every: int | None = None,
    schedule: str = "constant",
    penalty: Callable[[], Tensor] | None = None,
    start: int = 0,
    stop: int | None = None,
    **options: Any,
) -> History:
    """Train ``model`` with cross entropy.

    Args:
        model: maps images (B, C, H, W) to logits (B, classes).
        split: the training images and labels, for example ``data.train``.
        epochs: passes over the data; 0 trains nothing.
        lr: learning rate at the start.
        optimizer: "sgd" (momentum 0.9), "adam", "adamw" (both fused), or a function that
            makes one from the parameters; then ``lr`` and ``weight_decay`` are not used.
        batch_size: images per step; the last batch of an epoch may be smaller.
        weight_decay: for "sgd" and "adam" an L2 term in the gradient, for "adamw"
            decoupled from it.
        seed: decides the order of the images and whatever is drawn meanwhile (dropout).
            The same seed on the same CPU with the same number of threads
            gives the same weights.
        validation: evaluated after every epoch, or after ``every`` so many steps.
        schedule: "constant", or "cosine" (falls to zero over all steps).
        penalty: called at every step; the scalar it returns is added to the loss that
            is minimised, for example ``lambda: slimming.penalty(model, 1e-2)``. The
            losses of the history stay the cross entropy alone.
        start, stop: make only these steps of the run that the other arguments describe
            (None: to the end): they get the images and the learning rate that they would
            get in the whole run. The optimizer is fresh, and dropout starts with
            ``seed``.
        **options: of :func:`fit_batches`: masks, post_step, progress.
    """
    _check(split, "split")
    if validation is not None:
        _check(validation, "validation")
    for name, value, least in (
        *(("epochs", epochs, 0), ("batch_size", batch_size, 1), ("start", start, 0)),
        *(("stop", stop, start), ("every", every, 1)),
    ):
        if value is not None:
            check_count(value, name, least)
    if schedule not in ("constant", "cosine"):
        raise ValueError(f'schedule is "constant" or "cosine", got {schedule!r}')
    trained = _trained(model)
    where = trained[0].device
    pixels, labels = split.images.to(where), split.labels.to(where)
    per_epoch = math.ceil(len(labels) / batch_size)
    steps = epochs * per_epoch
    last = steps if stop is None else min(stop, steps)
    # summed on the device: reading it at every step would make us wait
    total = torch.zeros((), device=where)
    seen = 0

    def indices() -> Iterator[Tensor]:
        # a generator of its own, so that dropout does not change the order of the
        # images
        shuffle = torch.Generator().manual_seed(seed)
        for _ in range(epochs):
            yield from torch.randperm(len(labels), generator=shuffle).to(where).split(batch_size)

    def loss(model: nn.Module, index: Tensor) -> Tensor:
        nonlocal total, seen
        entropy = F.cross_entropy(model(pixels[index]), labels[index])  # of (B, C, H, W)
        total, seen = total + entropy.detach() * len(index), seen + len(index)
        return entropy if penalty is None else entropy + _scalar(penalty())

    def after(history: History, _: Tensor) -> str | None:
        nonlocal total, seen
        step = start + history.done
        if validation is not None and step % (every or per_epoch) == 0:
            accuracy, entropy = _measure(model, validation)
            history.validation.append(accuracy)
            history.validation_loss.append(entropy)
            history.steps.append(step)
        if step % per_epoch and step < last:
            return None
        history.loss.append(total.item() / seen)  # an epoch, or what was made of it
        total, seen = torch.zeros((), device=where), 0
        if not math.isfinite(history.loss[-1]) and all(map(math.isfinite, history.loss[:-1])):
            warnings.warn(
                f"the loss is {history.loss[-1]} in epoch {len(history.loss)}: is the learning rate"
                " too high, or does a weight hold a NaN?",
                RuntimeWarning,
                stacklevel=4,  # whoever called fit
            )
        return f"validation {history.validation[-1]:.1f} %" if history.validation else None

    return fit_batches(
        model,
        islice(indices(), start, None),
        steps,
        loss=loss,
        optimizer=_optimizer(optimizer, trained, lr, weight_decay),
        start=start,
        stop=stop,
        rate=cosine if schedule == "cosine" else None,
        clip=None,
        seed=seed,
        after=after,
        **options,
    )


def evaluate(model: nn.Module, split: Split, batch_size: int = 1024) -> float:
    """Accuracy on ``split``, which is not empty, in %, in evaluation mode."""
    return _measure(model, split, batch_size)[0]


@torch.no_grad()
def _measure(model: nn.Module, split: Split, batch_size: int = 1024) -> tuple[float, float]:
    """Accuracy in % and mean cross entropy, in evaluation mode."""
    _check(split, "split")
    parameter = next(model.parameters(), None)
    where = split.images.device if parameter is None else parameter.device
    right = torch.zeros((), dtype=torch.int64, device=where)
    total = torch.zeros((), device=where)
    with evaluating(model):
        for x, y in zip(
            split.images.split(batch_size), split.labels.split(batch_size), strict=True
        ):
            logits, y = model(x.to(where)), y.to(where)  # (B, classes), (B,)
            right += (logits.argmax(dim=1) == y).sum()
            total += F.cross_entropy(logits, y, reduction="sum")
    return 100 * right.item() / len(split.labels), total.item() / len(split.labels)


def train_and_test(
    model: nn.Module,
    masks: Mapping[str, Tensor] | None,
    start: int,
    stop: int | None,
    *,
    data: str | ImageData,
    iterations: int | None = None,
    **options: Any,
) -> dict[str, Any]:
    """Train ``model`` from step ``start`` up to step ``stop`` (None: the end) with a fresh
    optimizer, and measure: a training of a search for tickets.

    ::

        from course_lib.models import build
        from course_lib.pruning.weights import find_ticket

        train = functools.partial(
            train_and_test, data="digits", epochs=1, every=4, lr=1.2e-3, batch_size=60
        )
        make = functools.partial(build, "lenet300", images.load("digits"))
        find_ticket(make, train, rounds=1, rate=0.2)

    Args:
        data: what ``course_lib.data.images.load`` gives, or its name, which is lighter
            to send and loaded once a process.
        iterations: the end, where it comes before that of the last epoch.
        **options: of :func:`fit`: epochs (needed), masks, seed, every, lr, …

    Returns:
        Plain data: ``accuracy``, of the trained model on the test images in %, and
        ``steps``, ``validation``, ``validation_loss`` and ``loss`` of the history.
    """
    parts = _loaded(data) if isinstance(data, str) else data
    history = fit(
        model,
        parts.train,
        masks=masks,
        start=start,
        stop=iterations if stop is None else stop,
        validation=parts.validation,
        **{"progress": False, **options},
    )
    found = asdict(history)
    kept = ("steps", "validation", "validation_loss", "loss")
    return {"accuracy": evaluate(model, parts.test)} | {name: found[name] for name in kept}


_loaded = functools.lru_cache(maxsize=2)(images.load)


@torch.no_grad()
def accuracy(model: nn.Module, batches: Iterable[Mapping[str, Tensor]]) -> float:
    """Share of texts, one at least, classified right, in %, in evaluation mode."""
    where = next(model.parameters()).device
    right, n = torch.zeros((), dtype=torch.int64, device=where), 0
    with evaluating(model):
        for batch in batches:
            inputs = {name: part.to(where) for name, part in batch.items()}
            labels = inputs.pop("labels")
            right += (model(**inputs).logits.argmax(dim=1) == labels).sum()
            n += len(labels)
    if not n:
        raise ValueError("accuracy needs at least one text, got none: was an iterator used twice?")
    return 100 * right.item() / n


# ---- helpers


def _trained(model: nn.Module) -> list[nn.Parameter]:
    if trained := [p for p in model.parameters() if p.requires_grad]:
        return trained
    raise ValueError("the model has no parameter to train: are all frozen (requires_grad=False)?")


def _optimizer(
    kind: str | OptimizerMaker, parameters: list[nn.Parameter], lr: float, weight_decay: float
) -> Optimizer:
    if callable(kind):
        return kind(parameters)
    if kind == "sgd":
        return torch.optim.SGD(parameters, lr=lr, momentum=0.9, weight_decay=weight_decay)
    if kind not in ("adam", "adamw"):
        raise ValueError(
            f'optimizer is "sgd", "adam", "adamw" or a function of the parameters, got {kind!r}'
        )
    maker = torch.optim.Adam if kind == "adam" else torch.optim.AdamW
    # fused: half the time of a step on a CPU
    return maker(parameters, lr=lr, weight_decay=weight_decay, fused=True)


def _scalar(penalty: Tensor) -> Tensor:
    if isinstance(penalty, Tensor) and penalty.numel() == 1 and penalty.requires_grad:
        return penalty.squeeze()
    raise ValueError(
        "penalty returns one number that depends on the parameters (a sum, without .item(),"
        f" .detach() or no_grad; not all of its parameters frozen), got {penalty!r}"
    )


def _check(split: Split, name: str) -> None:
    if not isinstance(split, Split):
        raise TypeError(
            f"{name} is one part of a data set, images and labels, for example data.train; got"
            f" {type(split).__name__}"
        )
    if not len(split.images) == len(split.labels) > 0:
        raise ValueError(
            f"{name} must have one label per image, and one image at least; got"
            f" {len(split.images)} images and {len(split.labels)} labels"
        )
