"""The labs: what each asks for, answered by the library. One module a lab; see
:mod:`course_lib.labs.contract`.
"""

from __future__ import annotations

import importlib
from pkgutil import iter_modules

from course_lib.labs.contract import Contract, Exercise

__all__ = ["Contract", "Exercise", "available", "load"]


def load(lab: str) -> Contract:
    """The contract of "lab01".

    Raises:
        ValueError: if there is no such lab.
    """
    if lab not in available():
        raise ValueError(f"no lab {lab!r}: the labs are {', '.join(available())}")
    contract: Contract = importlib.import_module(f"{__name__}.{lab}").lab
    return contract


def available() -> list[str]:
    """The labs there are, in order."""
    return sorted(m.name for m in iter_modules(__path__) if m.name.startswith("lab"))
