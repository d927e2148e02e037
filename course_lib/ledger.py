"""The running table of the course: one row per lab and method, for the same models all term."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path

FILE = "ledger.json"


def rows() -> list[dict]:
    path = Path(FILE)
    return json.loads(path.read_text()) if path.exists() else []


def add(model: str, method: str, *, lab: str, bits: float, macs: float, ms: float, accuracy: list[float]) -> None:
    row = {"model": model, "method": method, "lab": lab, "bits": bits, "macs": macs, "ms": ms}
    row["accuracy"] = list(accuracy)
    kept = rows()
    key = ("lab", "model", "method")
    at = next((i for i, r in enumerate(kept) if all(r[k] == row[k] for k in key)), None)
    if at is None:
        kept.append(row)
    else:
        kept[at] = row
    handle, name = tempfile.mkstemp(dir=".", prefix=".ledger-")
    with os.fdopen(handle, "w") as file:
        json.dump(kept, file, indent=1)
    os.replace(name, FILE)


class Table:
    def __init__(self, rows: list[dict]) -> None:
        self.rows = rows

    def __str__(self) -> str:
        return "\n".join(str(r) for r in self.rows)

    def _repr_html_(self) -> str:
        return "<pre>" + str(self) + "</pre>"


def table() -> Table:
    return Table(rows())
