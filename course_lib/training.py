"""Train and evaluate a classifier on tensors that fit into memory: one short loop, the same for every lab.

There is no DataLoader: the images are tensors already, so a batch is an index, and thousands of small training runs
stay cheap. Randomness comes from ``seed`` alone and leaves the global state as it was.
"""

from __future__ import annotations

import math
import random
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim import Optimizer
from tqdm.auto import tqdm

from course_lib.data.images import Split
from course_lib.modes import evaluating, modes_kept

OptimizerMaker = Callable[[Iterable[nn.Parameter]], Optimizer]


@dataclass
class History:
    """What happened in a call of ``fit``."""

    loss: list[float] = field(default_factory=list)  # one per epoch: mean cross entropy of its batches, as trained
    validation: list[float] = field(default_factory=list)  # accuracy in %, empty if no validation split was given
    validation_loss: list[float] = field(default_factory=list)  # mean cross entropy, measured at the same moments
    steps: list[int] = field(default_factory=list)  # and these are the moments: steps done since the run's start
    seconds: float = 0.0  # wall time, validation included


def device() -> torch.device:
    """The best device of this machine: CUDA, Apple's MPS, else the CPU."""
    if torch.cuda.is_available():
        return torch.device("cuda")
    if torch.backends.mps.is_available():
        return torch.device("mps")
    return torch.device("cpu")


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Inside the block random numbers follow from ``seed``; after it the global state is what it was before.

    Covers torch (CPU, the current CUDA device, MPS), numpy's and Python's global generators. They are one per process:
    threads that draw from them at the same time share one stream, in whatever order they come.
    """
    cuda = [torch.cuda.current_device()] if torch.cuda.is_available() else []
    mps = torch.mps.get_rng_state() if torch.backends.mps.is_available() else None
    python_state, numpy_state = random.getstate(), np.random.get_state()
    try:
        with torch.random.fork_rng(devices=cuda):
            # not torch.manual_seed: it would also reseed devices whose state is not put back
            torch.default_generator.manual_seed(seed)
            if cuda:
                torch.cuda.manual_seed(seed)
            if mps is not None:
                torch.mps.manual_seed(seed)
            random.seed(seed)
            np.random.seed(seed % 2**32)
            yield
    finally:
        random.setstate(python_state)
        np.random.set_state(numpy_state)
        if mps is not None:
            torch.mps.set_rng_state(mps)


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
    masks: Mapping[str, Tensor] | None = None,
    post_step: Callable[[], None] | None = None,
    validation: Split | None = None,
    progress: bool = True,
    augment: Callable[[Tensor], Tensor] | None = None,
    schedule: str = "constant",
    penalty: Callable[[], Tensor] | None = None,
    start: int = 0,
    stop: int | None = None,
    every: int | None = None,
) -> History:
    """Train ``model`` in place with cross entropy, on the device it is on; every module's mode is put back after.

    Args:
        model: maps images (B, C, H, W) to logits (B, classes).
        split: the training images and labels, for example ``data.train``.
        epochs: passes over the data; 0 trains nothing.
        lr: learning rate at the start.
        optimizer: "sgd" (momentum 0.9), "adam", "adamw" (both fused where the device has it), or a function that
            makes one from the parameters; then ``lr`` and ``weight_decay`` are its own affair.
        batch_size: images per step; the last batch of an epoch may be smaller.
        weight_decay: for "sgd" and "adam" an L2 term in the gradient, for "adamw" decoupled from it.
        seed: decides the order of the images and whatever is drawn meanwhile (dropout, ``augment``). The same seed on
            the same CPU with the same number of threads gives the same weights.
        masks: pruned weights (False) are zero before the first step and after every step.
        post_step: called after every optimizer step, after ``masks`` are applied.
        validation: evaluated after every epoch, or as ``every`` says.
        progress: show a bar, if it takes longer than a second.
        augment: applied to each batch of training images (B, C, H, W); may draw from torch's global generator.
        schedule: "constant", or "cosine" (falls to zero over all steps).
        penalty: called at every step; the scalar it returns is added to the loss that is minimised, for example
            ``lambda: slimming.penalty(model, 1e-2)``. The losses of the history stay the cross entropy alone.
        start, stop: make only these steps, from ``start`` (the first step is 0) up to but without ``stop`` (None: to
            the end), of the run that the other arguments describe: they get the images and the learning rate that they
            would get in the whole run. The optimizer is fresh, and dropout and ``augment`` start with ``seed``.
        every: evaluate ``validation`` after every so many steps of the run rather than after every epoch.

    Raises:
        ValueError: on a bad argument, if ``masks`` do not fit the model, or if the penalty is no scalar with a gradient.
        TypeError: if ``split`` or ``validation`` is not a Split.
    """
    _check(split, "split")
    if validation is not None:
        _check(validation, "validation")
    if epochs < 0 or batch_size < 1:
        raise ValueError(f"epochs is 0 or more and batch_size 1 or more, got epochs={epochs}, batch_size={batch_size}")
    if schedule not in ("constant", "cosine"):
        raise ValueError(f'schedule is "constant" or "cosine", got {schedule!r}')
    if start < 0 or (stop is not None and stop < start):
        raise ValueError(f"start is 0 or more, and stop not before it (or None: to the end), got {start=}, {stop=}")
    if every is not None and every < 1:
        raise ValueError(f"every is how many steps lie between two looks at validation, 1 or more, got {every}")
    trained = [p for p in model.parameters() if p.requires_grad]
    if not trained:
        raise ValueError("the model has no parameter to train: are all of them frozen (requires_grad=False)?")

    where = trained[0].device
    images, labels = split.images.to(where), split.labels.to(where)
    update = _optimizer(optimizer, trained, lr, weight_decay)
    start_lr = [group["lr"] for group in update.param_groups]
    shuffle = torch.Generator().manual_seed(seed)  # its own, so that dropout does not change the order of the images
    per_epoch = math.ceil(len(labels) / batch_size)
    step, steps = 0, epochs * per_epoch
    last = steps if stop is None else min(stop, steps)
    history = History()
    started = time.perf_counter()
    with seeded(seed), modes_kept(model), _zeros_kept(model, masks):
        bar = tqdm(range(epochs), desc="training", unit="epoch", disable=not progress, leave=False, delay=1)
        for _ in bar:
            if step >= last:
                break
            model.train()
            total = torch.zeros((), device=where)  # summed on the device: reading it at every step would make us wait
            seen = 0
            for index in torch.randperm(len(labels), generator=shuffle).to(where).split(batch_size):
                if not start <= step < last:
                    step += 1  # another part of the run
                    continue
                if schedule == "cosine":
                    for group, top in zip(update.param_groups, start_lr, strict=True):
                        group["lr"] = top * (1 + math.cos(math.pi * step / steps)) / 2
                batch = images[index]  # (B, C, H, W)
                loss = F.cross_entropy(model(augment(batch) if augment else batch), labels[index])
                update.zero_grad()
                (loss if penalty is None else loss + _scalar(penalty())).backward()
                update.step()
                if post_step is not None:
                    post_step()
                total += loss.detach() * len(index)
                seen += len(index)
                step += 1
                if validation is not None and step % (every or per_epoch) == 0:
                    _look(model, validation, step, history)
            if not seen:
                continue  # an epoch before the start
            history.loss.append(total.item() / seen)
            if not math.isfinite(history.loss[-1]) and all(map(math.isfinite, history.loss[:-1])):
                warnings.warn(
                    f"the loss is {history.loss[-1]} in epoch {len(history.loss)}: is the learning rate too high, or "
                    "does a weight hold a NaN?",
                    RuntimeWarning,
                    stacklevel=2,
                )
            if history.validation:
                bar.set_postfix_str(f"validation {history.validation[-1]:.1f} %")
    history.seconds = time.perf_counter() - started
    return history


def evaluate(model: nn.Module, split: Split, batch_size: int = 1024) -> float:
    """Accuracy on ``split`` in %, in evaluation mode; every module's mode is put back after.

    Raises:
        TypeError: if ``split`` is not a Split.
        ValueError: if it is empty.
    """
    return _measure(model, split, batch_size)[0]


def _look(model: nn.Module, validation: Split, step: int, history: History) -> None:
    accuracy, loss = _measure(model, validation)
    history.validation.append(accuracy)
    history.validation_loss.append(loss)
    history.steps.append(step)


@torch.no_grad()
def _measure(model: nn.Module, split: Split, batch_size: int = 1024) -> tuple[float, float]:
    """Accuracy in % and mean cross entropy, in evaluation mode."""
    _check(split, "split")
    parameter = next(model.parameters(), None)
    where = split.images.device if parameter is None else parameter.device
    right = torch.zeros((), dtype=torch.int64, device=where)
    total = torch.zeros((), device=where)
    with evaluating(model):
        for x, y in zip(split.images.split(batch_size), split.labels.split(batch_size), strict=True):
            logits, y = model(x.to(where)), y.to(where)  # (B, classes), (B,)
            right += (logits.argmax(dim=1) == y).sum()
            total += F.cross_entropy(logits, y, reduction="sum")
    return 100 * right.item() / len(split.labels), total.item() / len(split.labels)


def _optimizer(kind: str | OptimizerMaker, parameters: list[nn.Parameter], lr: float, weight_decay: float) -> Optimizer:
    if callable(kind):
        return kind(parameters)
    if kind == "sgd":
        return torch.optim.SGD(parameters, lr=lr, momentum=0.9, weight_decay=weight_decay)
    if kind not in ("adam", "adamw"):
        raise ValueError(f'optimizer is "sgd", "adam", "adamw" or a function of the parameters, got {kind!r}')
    # half the time of a step on a CPU; torch says whether it can only at the first step, so we ask here
    fused = all(p.is_floating_point() and p.device.type in ("cpu", "cuda", "mps") for p in parameters)
    maker = torch.optim.Adam if kind == "adam" else torch.optim.AdamW
    return maker(parameters, lr=lr, weight_decay=weight_decay, fused=fused)


def _scalar(penalty: Tensor) -> Tensor:
    if not isinstance(penalty, Tensor) or penalty.numel() != 1 or not penalty.requires_grad:
        raise ValueError(
            "penalty returns one number to which autograd knows the way from the parameters (a sum, without .item(), "
            f".detach() or no_grad; not all of its parameters frozen), got {penalty!r}"
        )
    return penalty.squeeze()


def _zeros_kept(model: nn.Module, masks: Mapping[str, Tensor] | None) -> AbstractContextManager[object]:
    if masks is None:
        return nullcontext()
    from course_lib.pruning.weights.masks import masked  # here, so that training without masks needs no part of pruning

    return masked(model, masks)


def _check(split: Split, name: str) -> None:
    if not hasattr(split, "images") or not hasattr(split, "labels"):
        raise TypeError(
            f"{name} is one part of a data set, images and labels, for example data.train; got {type(split).__name__}"
        )
    if len(split.images) != len(split.labels) or len(split.labels) == 0:
        raise ValueError(f"{name} has {len(split.images)} images for {len(split.labels)} labels, expected one for each")
