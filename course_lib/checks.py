"""Checks of arguments that many functions take. Each raises with the argument's name, what
was expected, and what came.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

import torch
from torch import Tensor


def check_fraction(value: float, name: str, what: str) -> float:
    """``value`` as a float.

    Args:
        what: the fraction of what it is, for the message.

    Raises:
        ValueError: if it is not a number in [0, 1].
    """
    number = float(value)
    if not 0 <= number <= 1:
        hint = f" Did you mean {number / 100:g}?" if 2 <= number <= 100 else ""
        raise ValueError(f"{name} is {what} and must lie between 0 and 1; got {number:g}.{hint}")
    return number


def check_count(value: float, name: str, least: int = 0) -> int:
    """``value`` as an int.

    Raises:
        ValueError: if it is not a whole number, or below ``least``.
    """
    if isinstance(value, bool) or not (value >= least and float(value).is_integer()):
        raise ValueError(f"{name} must be a whole number of at least {least}; got {value!r}")
    return int(value)


def check_mask(mask: object, name: str, shape: Iterable[int] | None = None) -> Tensor:
    """``mask`` itself.

    Raises:
        ValueError: if it is not a bool tensor, or has another shape than ``shape``.
    """
    if not isinstance(mask, Tensor) or mask.dtype != torch.bool:
        got = mask.dtype if isinstance(mask, Tensor) else type(mask).__name__
        raise ValueError(f"{name} must be a bool tensor, True = kept; got {got}. Try mask.bool()")
    if shape is not None and mask.shape != (shape := tuple(shape)):
        raise ValueError(f"{name} must have the shape {shape}; got {tuple(mask.shape)}")
    return mask


def check_numbers(score: Tensor, name: str = "a score") -> None:
    """Raises ValueError if an entry is NaN, which is neither large nor small."""
    if bool(score.isnan().any()):
        raise ValueError(f"{name} is NaN, neither large nor small: did training diverge?")


def check_names(given: Iterable[str], known: Iterable[str], name: str) -> None:
    """Raises ValueError, with the nearest name there is, if one of ``given`` is not among
    ``known``.
    """
    known = list(known)
    for odd in given:
        if odd not in known:
            inside = [name for name in known if _holds(str(name), str(odd))]
            near = sorted(inside, key=len)[:1] or difflib.get_close_matches(str(odd), known, n=1)
            hint = (
                f"did you mean {near[0]!r}?" if near else f"there are {', '.join(known) or 'none'}"
            )
            raise ValueError(f"{name} has the unknown name {odd!r}: {hint}")


def _holds(name: str, odd: str) -> bool:
    """Whether ``name`` is ``odd`` with more parts: q_proj.base_layer.weight, q_proj.weight."""
    parts = iter(name.split("."))
    return all(part in parts for part in odd.split("."))


def check_same_names(given: Iterable[str], wanted: Iterable[str], name: str) -> None:
    """Raises ValueError if ``given`` are not exactly the names ``wanted``, in any order."""
    wanted = list(wanted)
    check_names(given := list(given), wanted, name)
    if missing := [other for other in wanted if other not in given]:
        raise ValueError(f"{name} has no entry for {', '.join(map(repr, missing))}")
