"""Finds the submissions in a folder: notebooks, or one folder or zip per student. Reads text only; runs and unpacks nothing."""

from __future__ import annotations

import hashlib
import json
import re
import zipfile
import zlib
from dataclasses import dataclass, field
from pathlib import Path

import nbformat

MAX_BYTES = 200 << 20  # of one notebook, outputs included


@dataclass
class Handed:
    """One student's submission.

    Attributes:
        id: the name of the file or folder, unique in the batch.
        cells: the source of the code cells; empty where the notebook could not be read.
        problem: why it could not be read, in a sentence; "" where it could.
        notebook: which file was taken. digest: of its code, so that a changed submission is graded again.
    """

    id: str
    cells: list[str] = field(default_factory=list)
    problem: str = ""
    notebook: str = ""
    digest: str = ""

    @property
    def file_name(self) -> str:
        """The id as a safe file name, still unique."""
        safe = re.sub(r"[^A-Za-z0-9._-]", "_", self.id).lstrip(".")[:80]
        return safe if safe == self.id else f"{safe}-{hashlib.sha256(self.id.encode()).hexdigest()[:8]}"

    @property
    def skipped(self) -> set[str]:
        """The questions given up by ``skip("1.3")``."""
        return {
            q for cell in self.cells for q in re.findall(r"""^\s*skip\(\s*["']([\d.]+)["']\s*\)""", cell, re.MULTILINE)
        }


def find(folder: Path, lab: str) -> list[Handed]:
    """All submissions in ``folder``, sorted by id.

    Raises:
        FileNotFoundError: if the folder does not exist or holds no submission.
    """
    if not folder.exists():
        raise FileNotFoundError(f"{folder} does not exist: give the folder that holds the submissions")
    entries = [folder] if folder.is_file() else sorted(folder.iterdir())
    found: dict[str, Handed] = {}
    for entry in entries:
        if entry.name.startswith((".", "__")):
            continue
        if entry.is_dir() or entry.suffix in (".ipynb", ".zip"):
            id = entry.name if entry.is_dir() else entry.stem
            if id in found:
                id = entry.name
            found[id] = _read(id, entry, lab)
    if not found:
        raise FileNotFoundError(f"{folder} holds no notebook, folder or zip: one of these per student is expected")
    return [found[id] for id in sorted(found)]


def _read(id: str, entry: Path, lab: str) -> Handed:
    try:
        if entry.is_dir():
            inside = {
                str(p.relative_to(entry)): p
                for p in sorted(entry.rglob("*.ipynb"))
                if ".ipynb_checkpoints" not in p.parts
            }
            name = _choose(list(inside), lab)
            return (
                handed(id, name, _limited(inside[name])) if name else Handed(id, problem="the folder holds no notebook")
            )
        if entry.suffix == ".zip":
            return _from_zip(id, entry, lab)
        return handed(id, entry.name, _limited(entry))
    except _Unreadable as error:
        return Handed(id, problem=str(error))
    except OSError as error:
        return Handed(id, problem=f"the file cannot be read ({error.strerror or error})")


class _Unreadable(Exception):
    pass


def _limited(path: Path) -> bytes:
    if path.is_symlink():
        raise _Unreadable("the notebook is a link to another file")
    if path.stat().st_size > MAX_BYTES:
        raise _Unreadable(f"the notebook is larger than {MAX_BYTES >> 20} MB: clear its outputs and hand it in again")
    return path.read_bytes()


def _from_zip(id: str, path: Path, lab: str) -> Handed:
    try:
        with zipfile.ZipFile(path) as archive:
            names = [
                i.filename for i in archive.infolist() if i.filename.endswith(".ipynb") and "__MACOSX" not in i.filename
            ]
            name = _choose([n for n in names if ".ipynb_checkpoints" not in n], lab)
            if not name:
                return Handed(id, problem="the zip holds no notebook")
            with archive.open(name) as file:  # read in memory: nothing is unpacked, whatever its path says
                data = file.read(MAX_BYTES + 1)
    except (zipfile.BadZipFile, RuntimeError, NotImplementedError, EOFError, ValueError, zlib.error) as error:
        raise _Unreadable(f"the zip cannot be read ({error})") from None
    if len(data) > MAX_BYTES:
        raise _Unreadable(f"the notebook is larger than {MAX_BYTES >> 20} MB: clear its outputs and hand it in again")
    return handed(id, name, data)


def _choose(names: list[str], lab: str) -> str:
    """The notebook of this lab: by its name, else the only one, else the first."""
    return next((n for n in names if lab in Path(n).name.lower()), names[0] if names else "")


def handed(id: str, name: str, data: bytes) -> Handed:
    """A submission from the bytes of a notebook."""
    try:
        raw = json.loads(data.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        return Handed(
            id, problem=f"the notebook is no readable JSON ({str(error)[:120]}): was the upload cut off?", notebook=name
        )
    try:
        for cell in raw.get("cells", []):
            cell.pop("outputs", None)  # never looked at, and may be huge
            if cell.get("cell_type") == "code":
                cell["outputs"] = []
        book = nbformat.convert(nbformat.from_dict(raw), 4) if raw.get("nbformat", 4) != 4 else nbformat.from_dict(raw)
        cells = [_text(c.get("source", "")) for c in book["cells"] if c.get("cell_type") == "code"]
    except Exception as error:  # whatever shape it has, it is one student's problem
        return Handed(id, problem=f"the file is JSON but no notebook ({type(error).__name__})", notebook=name)
    return Handed(id, cells, "", name, hashlib.sha256("\0".join(cells).encode("utf-8", "surrogatepass")).hexdigest())


def _text(source: object) -> str:
    text = "".join(map(str, source)) if isinstance(source, list) else str(source)
    return text.encode("utf-8", "replace").decode()
