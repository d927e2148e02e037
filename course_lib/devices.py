"""The device on which the course's data and models are put."""

from __future__ import annotations

import torch

_current = torch.device("cpu")
_fixed = False


def current() -> torch.device:
    """Where what the course loads is put: the CPU, unless :func:`use` chose another device."""
    return _current


def best() -> torch.device:
    """CUDA if it works, else the CPU. Not Apple's MPS: it has no float64, in which many
    scores are summed.
    """
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def use(name: str | None = None) -> torch.device:
    """Put the course's data sets, batches and models on this device from now on. On the CPU
    torch computes with one thread from then on: models as small as the course's gain nothing
    from a second one, and lose much to other work (docs/own_models.md).

    Args:
        name: "cpu", "cuda", or for example "cuda:1"; None: :func:`best`.

    Raises:
        ValueError: if this machine has no such device, or it has no float64.
    """
    global _current
    if _fixed:
        return _current
    try:
        where = best() if name is None else torch.device(name)
        torch.zeros((), dtype=torch.float64, device=where)
    except (RuntimeError, AssertionError, TypeError) as error:
        reason = str(error).split("\n")[0]
        raise ValueError(
            f'the device {name!r} cannot be used here ({reason}): use("cpu") always works, and'
            " use() takes the best device of this machine"
        ) from None
    _current = where
    if where.type == "cpu":
        torch.set_num_threads(1)
    return where


def fix() -> None:
    """Ignore :func:`use` from now on: a submission does not choose where it is graded."""
    global _fixed
    _fixed = True
