"""What a page complains of."""

from __future__ import annotations

from typing import Any


def complaints(page: Any) -> list[str]:
    """A list that the page's errors are added to from now on: those of its scripts, and
    those its console shows.
    """
    said: list[str] = []
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on(
        "console", lambda message: said.append(message.text) if message.type == "error" else None
    )
    return said
