"""What more than one file of these tests uses."""

from __future__ import annotations

from typing import Any

import IPython.display
import pytest


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, Any]]:
    """What a notebook would receive: a list of (data, metadata)."""
    received: list[tuple[Any, Any]] = []
    monkeypatch.setattr(IPython, "get_ipython", lambda: object())
    monkeypatch.setattr(
        IPython.display, "display", lambda data, metadata, raw: received.append((data, metadata))
    )
    return received
