"""What students get: a folder and a zip with the labs, the library and the visible
tests.
"""

from __future__ import annotations

import io
import posixpath
import re
import subprocess
import zipfile
from collections.abc import Iterable
from pathlib import Path, PurePosixPath
from urllib.parse import unquote, urlsplit

from course_lib.authoring import build, contract, online, source
from course_lib.authoring.errors import Problems, error, shown
from course_lib.authoring.source import Lab
from course_lib.files import write_atomic
from course_lib.grading.claims.question import FILES

_WHOLE = ("course_lib", "data")  # folders that are handed out as they are
_NEEDED = ("course_lib/__init__.py", "pyproject.toml", "Makefile")
# pages of docs that students need
_PAGES = ("docs/notation.md", "docs/own_models.md", "docs/families.md")
_NEVER = {"__pycache__", ".ipynb_checkpoints", ".DS_Store", "ledger.json", "Thumbs.db"}

_LINK = re.compile(r"(?<!\\)\[[^\]]*\]\(<?([^)>\s]+)[^)]*\)|(?:href|src)=\"([^\"]+)\"")
# and formulas: where brackets are no links
_CODE = re.compile(r"```.*?```|`[^`\n]*`|\$[^$\n]*\$", re.DOTALL)
_NOTEBOOK = re.compile(rb"labs/lab\w+\.ipynb")  # which an example of data/ may name
_SOLUTION = re.compile(
    rf"[\s\"]*{source.BEGIN}(\\n)?[\s\",]*"
)  # a marker alone on its line, in Python or in a notebook's JSON


def release(
    root: Path, dest: Path, labs: Iterable[str] | None = None, repository: str | None = None
) -> Path:
    """Write the folder ``dest`` for students, and ``dest.zip`` with the same files.

    In it: ``labs/``, ``course_lib/``, ``data/``, the visible tests, ``pyproject.toml``,
    ``Makefile``, licences, a README, ``AGENTS.md`` (what language models may do) and the
    library's how-tos. The zip is the same, byte for byte, for the same course.

    Args:
        dest: a folder that does not exist yet, or is empty.
        labs: ``"lab01"``, ``"1"`` or a whole slug; None: all. What is handed out then
            leads to no other lab.
        repository: "owner/name" on GitHub, where the release will lie: its labs get
            badges that open them on Colab and Binder.

    Returns:
        The zip.

    Raises:
        AuthoringError: if notebooks in labs/ differ from their sources, a needed file is
            missing, what is handed out leads to a file that is not, or ``dest`` or the
            zip exists. Nothing has been written then.
    """
    root, dest = Path(root).resolve(), Path(dest).absolute()
    inside = [
        folder
        for folder in (*_WHOLE, "labs", "solutions", "tests")
        if dest.resolve().is_relative_to(root / folder)
    ]
    if inside or dest.resolve() == root:
        raise error(str(dest), 1, "this is a folder of the course itself: choose another one")
    archive = dest.with_name(dest.name + ".zip")
    for path in (dest, archive):
        if path.is_file() or (path.is_dir() and any(path.iterdir())):
            raise error(
                str(path), 1, "this exists already: delete it, or release into a new folder"
            )
    files = contents(root, labs, repository)
    for name, (data, executable) in files.items():
        path = dest / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        path.chmod(0o755 if executable else 0o644)
    write_zip(archive, {f"{dest.name}/{name}": content for name, content in files.items()})
    return archive


def contents(
    root: Path, labs: Iterable[str] | None = None, repository: str | None = None
) -> dict[str, tuple[bytes, bool]]:
    """The files of a release: name -> (bytes, executable?).

    Raises:
        AuthoringError: see :func:`release`.
    """
    problems = Problems()
    for name in _NEEDED:
        if not (root / name).is_file():
            problems.add(name, 1, "a release needs this file: add it")
    files: dict[str, tuple[bytes, bool]] = {}
    read: list[Lab] = []
    for path in source.chosen(source.sources(root), labs):
        with problems.collecting():
            lab, cells = build.load(path, root)
            files |= _of_lab(lab, root)
            notebook, new = root / "labs" / f"{lab.slug}.ipynb", build.student_notebook(lab, cells)
            if not build.is_built(notebook, new):
                message = f"this is not what its source says: run `course build {lab.name}` first"
                problems.add(shown(notebook, root), 1, message)
            if repository is not None:
                new = build.student_notebook(
                    lab, online.add_badges(cells, notebook.stem, repository)
                )
            files[shown(notebook, root)] = (build.as_bytes(new), False)
            read.append(lab)
    problems.stop()
    for path in [root / "pyproject.toml", root / "Makefile", *sorted(root.glob("LICENSE*"))]:
        files[path.name] = (path.read_bytes(), False)
    if repository is not None:
        files |= {name: (data, False) for name, data in online.binder_files().items()}
    for name in filter(lambda name: (root / name).is_file(), _PAGES):
        files[name] = ((root / name).read_bytes(), False)
    files["README.md"] = (
        _readme([(f"labs/{lab.slug}.ipynb", lab.title) for lab in read]).encode(),
        False,
    )
    files["AGENTS.md"] = (Path(__file__).with_name("student_agents.md").read_bytes(), False)
    contracts = contract.contract_of("lab[0-9][0-9]", root)
    for path in _handed_out(root):
        data, example = path.read_bytes(), path.is_relative_to(root / "data" / "examples")
        if example and any(name.decode() not in files for name in _NOTEBOOK.findall(data)):
            continue
        if not path.match(str(contracts)):
            files[shown(path, root)] = (data, bool(path.stat().st_mode & 0o100))
    for name, (data, _) in files.items():
        if name.endswith((".py", ".ipynb", ".md", ".txt")):
            for number, line in enumerate(data.decode(errors="replace").splitlines(), start=1):
                if _SOLUTION.fullmatch(line):
                    raise error(
                        name,
                        number,
                        "this holds a solution and would be handed out: move it out of this folder",
                    )
    _lead_nowhere_else(read, files)
    return files


def _of_lab(lab: Lab, root: Path) -> dict[str, tuple[bytes, bool]]:
    """What a lab has beside its notebook: the claims that students may see, and the
    contract with the library's answers.

    Raises:
        AuthoringError: if an answer is written out in the contract, where the library
            has none.
    """
    if not lab.questions:
        return {}
    known = contract.read(lab.name, root)
    problems = Problems()
    for name, line in known.own.items():
        message = (
            f"`{name}` is written out here and calls nothing of the library, and this file is"
            f" handed out: move the answer into tests/labs/{lab.name}/hidden.py, or into the"
            " library, which students may read"
        )
        problems.add(known.file, line, message)
    problems.stop()
    path = contract.claims_of(lab.name, root) / FILES[0]
    visible = {shown(path, root): (path.read_bytes(), False)} if path.is_file() else {}
    return {**visible, known.file: (known.text.encode(), False)}


def _lead_nowhere_else(labs: list[Lab], files: dict[str, tuple[bytes, bool]]) -> None:
    """Stop where a link, or a question that another one needs, is not in the
    release.
    """
    problems = Problems()
    questions = {question.id for lab in labs for question in lab.questions}
    texts = [
        (lab.shown, "labs", cell.line(1), cell.source)
        for lab in labs
        for cell in lab.cells
        if cell.kind == "markdown"
    ]
    texts += [
        (name, str(PurePosixPath(name).parent), 1, files[name][0].decode())
        for name in files
        if name.endswith(".md")
    ]
    for file, folder, first, text in texts:
        for number, line in enumerate(
            _CODE.sub(lambda m: "\n" * m[0].count("\n"), text).split("\n")
        ):
            for found in _LINK.finditer(line):
                where = urlsplit(found[1] or found[2])
                target = posixpath.normpath(posixpath.join(folder, unquote(where.path)))
                if (
                    where.scheme
                    or not where.path
                    or any(f"{name}/".startswith(f"{target}/") for name in files)
                ):
                    continue
                message = (
                    f"this link leads to {target}, which is not handed out: name its lab in --labs,"
                    " or take the link away"
                )
                problems.add(file, first + number, message)
    for lab in labs:
        for question in lab.questions:
            for need in question.needs:
                if need not in questions:
                    message = (
                        f"{question.id} needs {need}, which is not handed out: name its lab in"
                        " --labs, too"
                    )
                    problems.add(lab.shown, question.line, message)
    problems.stop()


def _handed_out(root: Path) -> list[Path]:
    """The files of the folders that go out whole: what git tracks or would track, else
    everything but caches.
    """
    top = _git(root, "rev-parse", "--show-toplevel")
    if top and Path(top.strip()).resolve() == root:
        listing = _git(
            root, "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *_WHOLE
        )
        found = [root / name for name in (listing or "").split("\0") if name]
    else:
        found = [path for folder in _WHOLE for path in (root / folder).rglob("*")]
    return sorted(
        path
        for path in set(found)
        if path.is_file()
        and not any(
            part in _NEVER or part.startswith("ledger.broken-")
            for part in path.relative_to(root).parts
        )
        and path.suffix not in (".pyc", ".pyo")
    )


def _git(root: Path, *arguments: str) -> str | None:
    try:
        return subprocess.run(
            ["git", "-C", str(root), *arguments], capture_output=True, text=True, check=True
        ).stdout
    except (OSError, subprocess.CalledProcessError):
        return None


def _readme(titles: list[tuple[str, str]]) -> str:
    text = (Path(__file__).parent / "student_readme.md").read_text(encoding="utf-8")
    return text.replace("$LABS", "\n".join(f"- [{title}]({name})" for name, title in titles))


def write_zip(archive: Path, files: dict[str, tuple[bytes, bool]]) -> None:
    """Write a zip, whole or not at all: {name in it: (content, may it be run?)}. The
    same files give the same bytes.
    """
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as out:
        for name in sorted(files):
            data, executable = files[name]
            # the earliest a zip can say
            info = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))
            info.create_system = 3  # Unix, so that modes are kept
            info.external_attr = (0o100755 if executable else 0o100644) << 16
            out.writestr(info, data, zipfile.ZIP_DEFLATED, compresslevel=9)
    write_atomic(archive, made.getvalue())
