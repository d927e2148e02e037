"""What all pages of these tests have: no motion, and a list of their errors."""

from __future__ import annotations

from typing import Any

# run in each page before its own scripts. Drawing what moves takes a third of a core
STILL = """addEventListener('DOMContentLoaded', () => {
    const style = document.createElement('style');
    style.textContent = '*, ::before, ::after { animation: none !important; transition: none !important; }';
    document.head.append(style);
});"""


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
