"""One training as a function that can be cut at any step and sent to another process: what lottery tickets ask for."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from course_lib.data import images
from course_lib.data.images import ImageData
from course_lib.training import evaluate, fit


def train_and_test(
    model: nn.Module,
    masks: Mapping[str, Tensor] | None,
    start: int,
    stop: int | None,
    *,
    data: str | ImageData,
    seed: int = 0,
    every: int | None = None,
    iterations: int | None = None,
    **options: Any,
) -> dict[str, Any]:
    """Train ``model`` in place from step ``start`` up to step ``stop`` (None: the end) and measure; a fresh optimizer.

    ::

        train = functools.partial(train_and_test, data="digits", epochs=30, every=4, lr=1.2e-3, batch_size=60)
        find_ticket(build, train, rounds=13, rate=0.2)

    Args:
        model, masks: pruned weights stay zero.
        start, stop: step 0 is the first; images come in the order of the whole run.
        data: what ``course_lib.data.images.load`` gives, or its name, which is lighter to send and loaded once a process.
        seed: order of the images, dropout.
        every: validation after every so many steps; None: after every epoch.
        iterations: the end, where it comes before that of the last epoch; None: the end is that of the last epoch.
        **options: of :func:`course_lib.training.fit`: epochs (needed), lr, optimizer, batch_size, schedule, …

    Returns:
        Plain data: ``accuracy``, of the trained model on the test images in %, and what was seen on the way: ``steps``, and
        ``validation`` (accuracy in %) and ``validation_loss`` at these steps; ``loss``, one per epoch.

    Raises:
        ValueError, TypeError: as ``fit`` does; ``DataMissing`` if there is no such data.
    """
    parts = _loaded(data) if isinstance(data, str) else data
    options.setdefault("progress", False)
    history = fit(
        model,
        parts.train,
        masks=masks,
        start=start,
        stop=iterations if stop is None else stop,
        seed=seed,
        validation=parts.validation,
        every=every,
        **options,
    )
    return {
        "accuracy": evaluate(model, parts.test),
        "steps": history.steps,
        "validation": history.validation,
        "validation_loss": history.validation_loss,
        "loss": history.loss,
    }


_loaded = functools.lru_cache(maxsize=2)(images.load)
