"""What students get: a folder and a zip with the labs, the library and the visible tests."""

from __future__ import annotations

import hashlib
import io
import json
import re
import subprocess
import zipfile
from pathlib import Path, PurePosixPath

from course_lib.authoring import build, claims, source
from course_lib.authoring.errors import AuthoringError, error, listed, shown
from course_lib.files import put

MANIFEST = ".course-release.json"  # in the release: its files with their hashes, so that the next one knows its own
_WHOLE = ("course_lib", "data")  # folders that are handed out as they are
_NEEDED = ("course_lib/__init__.py", "pyproject.toml", "Makefile")
_NEVER = {"__pycache__", ".ipynb_checkpoints", ".DS_Store", "ledger.json", "Thumbs.db"}

_SOLUTION = re.compile(
    rf"[\s\"]*{source.BEGIN}(\\n)?[\s\",]*"
)  # a marker alone on its line, in Python or in a notebook's JSON


def release(root: Path, dest: Path) -> Path:
    """Write the folder ``dest`` for students, and ``dest.zip`` with the same files.

    In it: ``labs/``, ``course_lib/``, ``data/``, the visible tests, ``pyproject.toml``, ``Makefile``, licences and a README.
    Where a release is in ``dest`` already it is brought up to date, as long as nobody changed its files; files that are not
    its own (an environment, a student's notes) stay. The zip is the same, byte for byte, for the same course.

    Returns:
        The zip.

    Raises:
        AuthoringError: if notebooks in labs/ are not what their sources say, something needed is missing, or a file would
            be lost. Nothing has been written then.
    """
    root, dest = Path(root).resolve(), Path(dest).absolute()
    inside = [
        folder for folder in (*_WHOLE, "labs", "solutions", "tests") if dest.resolve().is_relative_to(root / folder)
    ]
    if inside or dest.resolve() == root:
        raise error(str(dest), 1, "this is a folder of the course itself: choose another one")
    files = contents(root)
    hashes = {name: hashlib.sha256(data).hexdigest() for name, (data, _) in files.items()}
    files[MANIFEST] = (
        json.dumps({"course": "pruning-course", "files": hashes}, indent=1, sort_keys=True).encode() + b"\n",
        False,
    )
    archive = dest.with_name(dest.name + ".zip")
    old = _previous(dest)
    _refuse_losses(dest, files, old)
    _refuse_foreign_zip(archive)
    # Interrupted, a first release is known as one; a later one still knows the files that it has not come to.
    for name in [*files] if old else [MANIFEST, *(files.keys() - {MANIFEST})]:
        data, executable = files[name]
        path = dest / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.is_file() or path.read_bytes() != data:
            path.write_bytes(data)
        path.chmod(0o755 if executable else 0o644)
    for name in old.keys() - files.keys():
        (dest / name).unlink(missing_ok=True)
        for folder in list(PurePosixPath(name).parents)[:-1]:
            if (dest / folder).is_dir() and not any((dest / folder).iterdir()):
                (dest / folder).rmdir()
    write_zip(archive, {f"{dest.name}/{name}": content for name, content in files.items()})
    return archive


def contents(root: Path) -> dict[str, tuple[bytes, bool]]:
    """The files of a release: name -> (bytes, executable?).

    Raises:
        AuthoringError: see :func:`release`.
    """
    problems = [f"{name}:1: a release needs this file: add it" for name in _NEEDED if not (root / name).is_file()]
    files: dict[str, tuple[bytes, bool]] = {}
    titles: list[tuple[str, str]] = []
    for path in source.sources(root):
        try:
            lab, cells = build.load(path, root)
        except AuthoringError as caught:
            problems += str(caught).splitlines()
            continue
        notebook = root / "labs" / f"{lab.slug}.ipynb"
        new = build.student_notebook(lab, cells)
        if wrong := build.out_of_step(notebook, new, executed=False):
            problems.append(f"{shown(notebook, root)}:1: {wrong}: run `course build {lab.name}` before a release")
        files[f"labs/{lab.slug}.ipynb"] = (build.as_bytes(new), False)
        titles.append((f"labs/{lab.slug}.ipynb", lab.title))
        tests = claims.tests_of(lab.name, root)
        if tests.is_file():
            text = claims.visible_only(tests.read_text(encoding="utf-8"), shown(tests, root))
            files[shown(tests, root)] = (text.encode(), False)
    if problems:
        raise AuthoringError("\n".join(problems))
    for path in [root / "pyproject.toml", root / "Makefile", *sorted(root.glob("LICENSE*"))]:
        files[path.name] = (path.read_bytes(), False)
    files["README.md"] = (_readme(titles).encode(), False)
    for path in _handed_out(root):
        files[shown(path, root)] = (path.read_bytes(), bool(path.stat().st_mode & 0o100))
    for name, (data, _) in files.items():
        if name.endswith((".py", ".ipynb", ".md", ".txt")):
            for number, line in enumerate(data.decode(errors="replace").splitlines(), start=1):
                if _SOLUTION.fullmatch(line):
                    raise error(
                        name, number, "this holds a solution and would be handed out: move it out of this folder"
                    )
    return files


def _handed_out(root: Path) -> list[Path]:
    """The files of the folders that go out whole: what git tracks or would track, else everything but caches."""
    top = _git(root, "rev-parse", "--show-toplevel")
    if top and Path(top.strip()).resolve() == root:
        listing = _git(root, "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *_WHOLE)
        found = [root / name for name in (listing or "").split("\0") if name]
    else:
        found = [path for folder in _WHOLE for path in (root / folder).rglob("*")]
    return sorted(
        path
        for path in set(found)
        if path.is_file()
        and not any(part in _NEVER or part.startswith("ledger.broken-") for part in path.relative_to(root).parts)
        and path.suffix not in (".pyc", ".pyo")
    )


def _git(root: Path, *arguments: str) -> str | None:
    try:
        return subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return None


def _readme(titles: list[tuple[str, str]]) -> str:
    text = (Path(__file__).parent / "student_readme.md").read_text(encoding="utf-8")
    return text.replace("$LABS", "\n".join(f"- [{title}]({name})" for name, title in titles))


def _previous(dest: Path) -> dict[str, str]:
    """The files of the release that is in ``dest``, with their hashes; {} if the folder is new or empty."""
    if not dest.exists() or (dest.is_dir() and not any(dest.iterdir())):
        return {}
    try:
        files = json.loads((dest / MANIFEST).read_text(encoding="utf-8"))["files"]
        if all(isinstance(n, str) and isinstance(h, str) and _stays_inside(n) for n, h in files.items()):
            return files
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        pass  # no manifest, or none of ours
    raise error(str(dest), 1, "this folder is not empty and is no release: choose a new or an empty one")


def _stays_inside(name: str) -> bool:
    path = PurePosixPath(name)
    return not path.is_absolute() and ".." not in path.parts and bool(path.parts)


def _refuse_losses(dest: Path, files: dict[str, tuple[bytes, bool]], old: dict[str, str]) -> None:
    """Stop where a file that is not as the last release left it would be overwritten or deleted."""
    changed = []
    for name in sorted({*files, *old} - {MANIFEST}):
        path = dest / name
        parents = [dest.joinpath(*PurePosixPath(name).parts[:i]) for i in range(1, len(PurePosixPath(name).parts))]
        if any(parent.is_symlink() or parent.is_file() for parent in parents) or path.is_symlink() or path.is_dir():
            changed.append(name)
        elif path.is_file():
            data = path.read_bytes()
            if hashlib.sha256(data).hexdigest() != old.get(name) and data != files.get(name, (None, False))[0]:
                changed.append(name)
    if changed:
        some = listed(changed[:5]) + (f" and {len(changed) - 5} more" if len(changed) > 5 else "")
        message = f"{some} changed since the last release and would be lost: move them away, or choose another folder"
        raise error(str(dest / changed[0]), 1, message)


def _refuse_foreign_zip(archive: Path) -> None:
    if not archive.exists():
        return
    try:
        with zipfile.ZipFile(archive) as old:
            ours = any(name.endswith("/" + MANIFEST) for name in old.namelist())
    except (OSError, zipfile.BadZipFile):
        ours = False
    if not ours:
        raise error(
            str(archive), 1, "this file is no release and would be lost: move it away, or choose another folder"
        )


def write_zip(archive: Path, files: dict[str, tuple[bytes, bool]]) -> None:
    """Write a zip, whole or not at all: {name in it: (content, may it be run?)}. The same files give the same bytes."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as out:
        for name in sorted(files):
            data, executable = files[name]
            info = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))  # the earliest a zip can say
            info.create_system = 3  # Unix, so that modes are kept
            info.external_attr = (0o100755 if executable else 0o100644) << 16
            out.writestr(info, data, zipfile.ZIP_DEFLATED, compresslevel=9)
    put(archive, made.getvalue())
