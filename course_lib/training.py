"""Train and evaluate on tensors."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from tqdm.auto import tqdm

from course_lib.data.images import Split


@dataclass
class History:
    loss: list[float] = field(default_factory=list)
    validation: list[float] = field(default_factory=list)
    seconds: float = 0.0


def device() -> torch.device:
    """The best device here: cuda, mps, else cpu."""
    if torch.cuda.is_available():
        return torch.device("cuda")
    if torch.backends.mps.is_available():
        return torch.device("mps")
    return torch.device("cpu")


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Random numbers from ``seed`` inside; outside, the global state goes on as if nothing had happened."""
    python, numpy = random.getstate(), np.random.get_state()
    try:
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            random.seed(seed)
            np.random.seed(seed % 2**32)
            yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)


def _optimizer(kind, params, lr, weight_decay):
    if callable(kind):
        return kind(params)
    if kind == "sgd":
        return torch.optim.SGD(params, lr=lr, momentum=0.9, weight_decay=weight_decay)
    return {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[kind](
        params, lr=lr, weight_decay=weight_decay, fused=True
    )


def fit(
    model: nn.Module,
    split: Split,
    *,
    epochs: int,
    lr: float = 1e-3,
    optimizer="adam",
    batch_size: int = 64,
    weight_decay: float = 0.0,
    seed: int = 0,
    masks: dict[str, Tensor] | None = None,
    post_step: Callable[[], None] | None = None,
    validation: Split | None = None,
    progress: bool = True,
    augment: Callable[[Tensor], Tensor] | None = None,
    schedule: str = "constant",
) -> History:
    where = next(model.parameters()).device
    images, labels = split.images.to(where), split.labels.to(where)
    opt = _optimizer(optimizer, [p for p in model.parameters() if p.requires_grad], lr, weight_decay)
    generator = torch.Generator().manual_seed(seed)
    params = dict(model.named_parameters())
    pruned = [(params[k], ~m.to(where)) for k, m in (masks or {}).items()]
    history = History()
    start = time.perf_counter()
    steps, step = epochs * math.ceil(len(labels) / batch_size), 0
    base = [g["lr"] for g in opt.param_groups]
    with torch.no_grad():
        for p, m in pruned:
            p.masked_fill_(m, 0)
    was = model.training
    for _ in tqdm(range(epochs), disable=not progress, leave=False, delay=1):
        model.train()
        total = torch.zeros((), device=where)
        for index in torch.randperm(len(labels), generator=generator).to(where).split(batch_size):
            if schedule == "cosine":
                for g, b in zip(opt.param_groups, base, strict=True):
                    g["lr"] = b * 0.5 * (1 + math.cos(math.pi * step / steps))
            x = images[index]
            loss = F.cross_entropy(model(augment(x) if augment else x), labels[index])
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
            with torch.no_grad():
                for p, m in pruned:
                    p.masked_fill_(m, 0)
            if post_step:
                post_step()
            total += loss.detach() * len(index)
            step += 1
        history.loss.append(total.item() / len(labels))
        if validation is not None:
            history.validation.append(evaluate(model, validation))
    model.train(was)
    history.seconds = time.perf_counter() - start
    return history


def evaluate(model: nn.Module, split: Split, batch_size: int = 1024) -> float:
    """Accuracy in %."""
    where = next(model.parameters()).device
    was = model.training
    model.eval()
    try:
        with torch.no_grad():
            right = sum(
                (model(x.to(where)).argmax(1) == y.to(where)).sum().item()
                for x, y in zip(split.images.split(batch_size), split.labels.split(batch_size), strict=True)
            )
    finally:
        model.train(was)
    return 100 * right / len(split.labels)
