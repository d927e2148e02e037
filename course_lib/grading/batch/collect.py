"""Finds the submissions in a folder, or in the zip that a platform gives, and whose each is.
Reads text only; runs and unpacks nothing.

What lies at the top is one student's each: a notebook, a folder, a zip; or several files
and folders whose names say, in the platform's part of them, that they are one student's.
Whatever is wrong with one student's files is that student's problem, in a sentence. Of several
notebooks with answers the latest counts by the platform's own time or number; where nothing
says which is the latest, a person decides (the submission is pending).
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import stat
import unicodedata
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from course_lib.paths import course_root

if TYPE_CHECKING:
    from course_lib.grading.marking.lab import Task

# of a submission that the tests do not mark
PENDING = "pending"  # a person has to look at it
REFUSED = "refused"  # it is not sure whose it is
UNCHANGED = "unchanged"  # the handout as it was given out

MOST_NOTEBOOK = 100 << 20  # bytes, outputs included
MOST_VALUES = 5_000_000  # in it: each takes up to a hundred bytes once it is read
MOST_ZIP = 200 << 20
MOST_CODE = 1_000_000  # bytes of a notebook's code as JSON: one frame to the worker
MOST_BESIDE = {".py": 1 << 18, ".safetensors": 16 << 20}  # of a file beside the notebook
MOST_FILES = 50_000  # of one student, whose environment may be among them
MOST_MODULES = 50
METADATA = "submission_metadata.yml"  # of Gradescope's export
_OTHERS = {"course_lib", "site-packages", "slides", "solutions", "tests"}  # not a student's own


class Unreadable(Exception):
    """Why a file cannot be read, in a sentence for the one who handed it in."""


@dataclass(frozen=True)
class File:
    """A file of a submission: where it lies, a zip being a folder, and its bytes."""

    path: str
    read: Callable[[int], bytes]  # at most so many, else Unreadable
    disk: Path | None = None

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]


@dataclass
class Submission:
    """One student's submission.

    Attributes:
        id: unique in the batch. cells: the source of the code cells.
        problem: why it cannot be graded; "" where it can. status: what it is if the tests
            give it no points: :data:`PENDING`, :data:`REFUSED`, :data:`UNCHANGED`, "".
        notebook: which file was taken. digest: of all that is marked. choice: of several
            notebooks, which counts and why.
        submitters: what the names say of the student, by column ("canvas id", "email", …).
        time: when it was handed in, by the platform's word. start: by which Canvas takes a
            file back. remark: what is odd about the notebook. look: what a teacher should
            look at in its code. name: of the student in the gradebook.
            written: by name, the answers that no test judges.
        files: beside the notebook, what the lab asks for and own modules.
    """

    id: str
    cells: list[str] = field(default_factory=list)
    problem: str = ""
    status: str = ""
    notebook: str = ""
    digest: str = ""
    choice: str = ""
    submitters: list[dict[str, str]] = field(default_factory=list)
    time: float | None = None
    start: str = ""
    remark: str = ""
    look: str = ""
    name: str = ""
    written: dict[str, str] = field(default_factory=dict)
    files: dict[str, bytes | str] = field(default_factory=dict)

    def task(self) -> Task:
        """What is to be marked."""
        from course_lib.grading.marking.lab import Task  # which loads torch

        return Task(self.id, tuple(self.cells), self.problem, tuple(self.files.items()))

    @property
    def file_name(self) -> str:
        """The id as a safe file name, unique also where upper and lower case are one."""
        safe = re.sub(r"[^a-z0-9._-]", "_", self.id).strip(".")[:80]
        if safe == self.id and not re.fullmatch(r".*-[0-9a-f]{16}", safe):
            return safe
        return f"{safe}-{hashlib.sha256(self.id.encode('utf-8', 'surrogatepass')).hexdigest()[:16]}"


@dataclass(frozen=True)
class Collected:
    """The submissions, sorted by id; what else lies there: its name, and why not."""

    submissions: list[Submission]
    left: list[tuple[str, str]]

    @property
    def remarks(self) -> list[str]:
        return [
            f"{printable(name)[:80]} is not taken for a submission: {why}"
            for name, why in self.left
        ]


def collect(place: Path, lab: str, beside: Iterable[str] = ()) -> Collected:
    """All submissions in a folder or zip.

    Args:
        beside: names of files that the lab asks for beside the notebook.

    Raises:
        FileNotFoundError: if there is none. ValueError: if Gradescope's list is broken.
    """
    if not place.exists():
        raise FileNotFoundError(f"{place} does not exist: give the folder of the submissions")
    tops = _tops(place.resolve())
    metadata = _metadata(tops.pop(METADATA, []))
    groups: dict[tuple[str, str], list[tuple[Owner, list[File]]]] = {}
    left = []
    for name, files in sorted(tops.items()):
        owner = owner_of(name, metadata)
        if owner.platform or "/" in files[0].path or _may_be_one(files[0]):
            groups.setdefault(owner.key, []).append((owner, files))
        else:
            left.append((name, "no notebook (.ipynb), folder or zip"))
    found: dict[str, Submission] = {}
    for some in groups.values():
        for submission in _refused(some) or [_read(some, lab, tuple(beside))]:
            while submission.id in found:
                submission.id += "~"
            found[submission.id] = submission
    if not found:
        raise FileNotFoundError(
            f"{place} holds no notebook, folder or zip: one of these per student is expected"
        )
    return Collected([found[id] for id in sorted(found)], left)


def ids_in(place: Path) -> list[str]:
    """Every id that submissions may have: those that are refused have their files' names."""
    tops = _tops(place.resolve())
    metadata = _metadata(tops.pop(METADATA, []))
    people = {owner.key: owner.id for owner in (owner_of(name, metadata) for name in tops)}
    times = Counter(people.values())
    return [*(id + "~" * n for id in times for n in range(times[id])), *map(printable, tops)]


def read_single_submission(
    place: Path, lab: str, id: str = "submission", beside: Iterable[str] = ()
) -> Submission:
    """The submission of the one student whose files are in ``place``."""
    files = list(_on_disk(place, place.name))
    return _read([(Owner("", id, id), files)], lab, tuple(beside))


def printable(text: str) -> str:
    """The text with what cannot be printed spelt out."""
    odd = ("Cc", "Cf", "Cs", "Zl", "Zp", "Cn", "Co")
    kept = "\u200c\u200d"  # between letters of Persian or Hindi
    return "".join(
        c
        if unicodedata.category(c) not in odd or c in kept
        else c.encode("unicode-escape").decode()
        for c in text
    )


# --- whose is it ----------------------------------------------------------------------


@dataclass(frozen=True)
class Owner:
    """What a name at the top says, as far as a platform wrote it.

    Attributes:
        platform: "" where none did. who: the student's number or name there.
        name: by which two that claim one number must agree. file: the student's own name
            for the file. order: larger = later. time: seconds since 1970.
        unsure: could the student's part pose as the platform's?
    """

    platform: str
    who: str
    id: str
    name: str = ""
    file: str = ""
    order: float | None = None
    time: float | None = None
    people: tuple[dict[str, str], ...] = ()
    start: str = ""
    unsure: bool = False

    @property
    def key(self) -> tuple[str, str]:
        return self.platform, self.who


_NUMBERS = r"(?!(?:19|20)\d\d_)(?P<user>\d{2,})_(?P<number>\d{2,})_"
_CANVAS = re.compile(
    rf"(?i:(?P<name>[^_\d][^/]*?)_(?:late_)?(?:{_NUMBERS}(?P<file>.+)|(?P<typed>\d{{2,}})_(?:text|link)\.html)"
    r"|(?:late_)?(?P<anon>anon_[a-z0-9]{5})_(?P<upload>\d+)_(?P<own>.+))",
    re.DOTALL,
)
_MOODLE = re.compile(
    r"(?P<name>.+?)_(?P<id>\d+)_assignsubmission_(?:file|onlinetext)_?(?P<file>.*)", re.DOTALL
)
# a clone of GitHub Classroom's: the assignment's name, then the student's
_CLASSROOM = re.compile(r"(?i)(?:[a-z0-9_.]+-)*lab_?\d+-(?P<who>[^/]+)")
# what reaches for sockets, processes or files
_REACHES = re.compile(
    r"\b(?:socket|subprocess|multiprocessing|ctypes|urllib|requests|http\.client|os\.(?:system|popen"
    r"|fork|kill|exec\w*|spawn\w*)|shutil|open\(|__import__\(|/proc/\w+)"
)


def owner_of(name: str, metadata: dict[str, Any] | None = None) -> Owner:
    """Whose a file or folder is, read from the left: there the platform's part stands."""
    name = unicodedata.normalize("NFC", name)
    if (entry := (metadata or {}).get(name)) is not None:
        people = [p for p in entry.get(":submitters") or [] if isinstance(p, dict)]
        known = tuple(
            {c: str(p[f":{c}"]) for c in ("name", "email", "sid") if p.get(f":{c}")} for p in people
        )
        when = entry.get(":created_at")
        time = when.timestamp() if isinstance(when, datetime) else stamp(str(when))
        return Owner("gradescope", name, name, time=time, people=known)
    canvas, moodle = _CANVAS.fullmatch(name), _MOODLE.fullmatch(name)
    # a student's own part may look like another platform's: what stands further left counts
    if (m := moodle) and not (canvas and canvas["name"] and len(canvas["name"]) < len(m["name"])):
        who = {"moodle id": m["id"], "name": m["name"]}
        return Owner(
            "moodle", m["id"], f"{m['name']}_{m['id']}", m["name"], m["file"], people=(who,)
        )
    if m := canvas:
        if m["anon"]:
            return Owner(
                "canvas", m["anon"].lower(), m["anon"], "", m["own"], int(m["upload"][:15])
            )
        user, file = m["user"] or m["typed"], m["file"] or ""
        return Owner(
            "canvas", user, f"{m['name']}_{user}", m["name"], file,
            int(m["number"][:15]) if m["number"] else None,
            people=({"canvas id": user, "name": m["name"]},),
            start=name.removesuffix(file) if file else "",
            unsure=any(n[0] != user for n in re.findall(rf"_{_NUMBERS}", f"_{file}")),
        )  # fmt: skip
    id = re.sub(r"(?i)\.(ipynb|zip)(\.txt|\.json)?$", "", name)
    classroom = _CLASSROOM.fullmatch(id)
    return Owner("", name, classroom["who"] if classroom else id)


def stamp(text: str) -> float | None:
    """Seconds since 1970 of "2024-05-01T10-11-12", "2024-05-01 10:11:12 UTC", "attempt 2"."""
    if m := re.match(r"(20\d\d)-(\d\d)-(\d\d)(?:[T_ ](\d\d)[-:.](\d\d)(?:[-:.](\d\d))?)?", text):
        try:
            return datetime(*(int(n or 0) for n in m.groups()), tzinfo=UTC).timestamp()  # type: ignore[arg-type, misc]
        except ValueError:  # the 31st of February
            return None
    m = re.fullmatch(r"(?i)(?:attempt|try|version|v)[-_ ]*(\d{1,6})", text)
    return float(m[1]) if m else None


def _refused(some: list[tuple[Owner, list[File]]]) -> list[Submission]:
    """Those that claim one person and not alike, each refused; nothing where they agree."""
    names = {unicodedata.normalize("NFC", owner.name).casefold() for owner, _ in some}
    if len(some) < 2 or (len(names) == 1 and not any(owner.unsure for owner, _ in some)):
        return []
    shown = ", ".join(repr(printable(files[0].path.split("/")[0])[:120]) for _, files in some)
    why = (
        f"{shown} all claim to be of {some[0][0].platform}'s {some[0][0].who}, and the names"
        " differ: none is graded until only one person's are left"
    )
    return [
        Submission(printable(f[0].path.split("/")[0]), problem=why, status=REFUSED) for _, f in some
    ]


# --- one student's files --------------------------------------------------------------


def _read(some: list[tuple[Owner, list[File]]], lab: str, beside: tuple[str, ...]) -> Submission:
    """The submission, out of everything that is one student's."""
    last = max(some, key=lambda each: (each[0].time or 0, each[0].order or 0))[0]
    try:
        files = [(owner, f) for owner, listed in some for f in _expanded(listed)]
        if len(files) > MOST_FILES:
            raise Unreadable(f"there are more than {MOST_FILES} files: hand in the notebook alone")
        looks = [_look(owner, f, lab) for owner, f in files if _is_notebook(f)]
        if not looks:
            there = dict.fromkeys(printable(file.name)[:80] for _, file in files[:5])
            raise Unreadable(f"no notebook ({', '.join(there)}): hand in the .ipynb file")
        result, owner, file, why = _choose(looks)
        result.choice = why
        last = owner
        if not result.problem:
            _take_along(result, owner, file, files, beside)
            whole = repr((result.cells, sorted(result.files.items())))
            result.digest = hashlib.sha256(whole.encode("utf-8", "surrogatepass")).hexdigest()
    except Unreadable as error:
        result = Submission("", problem=str(error))
    result.id = last.id
    result.status = PENDING if result.problem else result.status
    result.submitters, result.time, result.start = [*map(dict, last.people)], last.time, last.start
    return result


Look = tuple[int, float | None, Submission, Owner, File]  # rank, when, what was read, of whom


def _look(owner: Owner, file: File, lab: str) -> Look:
    """A notebook, and what it is for the lab: 3 answered, 2 not sure, 1 unchanged, 0 none."""
    stamps = [s for part in file.path.split("/")[:-1] if (s := stamp(part)) is not None]
    when = stamps[-1] if stamps else owner.time if owner.time is not None else owner.order
    read = Submission("", notebook=file.path)
    try:
        notebook = parse(file.read(MOST_NOTEBOOK))
        read.cells = code(notebook)
    except Unreadable as error:
        read.problem = str(error)
        return 0, when, read, owner, file
    said = notebook.get("metadata", {}).get("course", {})
    given = handout(lab)
    asked = _graded().get(lab, set())
    read.cells = _without_pasted(read.cells, code(given) if given else [], asked)
    mine = defined(read.cells)
    elsewhere = sorted(defined(code(notebook, ("markdown", "raw"))) & asked - mine)
    if elsewhere:
        read.remark = (
            f"{', '.join(elsewhere)}: written in a markdown or raw cell, which is not run; change"
            " the cell's type to code"
        )
    own = _lines(read.cells) - _lines(code(given) if given else [])
    read.look = ", ".join(
        dict.fromkeys(m[0].rstrip("(") for line in own for m in _REACHES.finditer(line))
    )
    read.written = _written(read.cells, written_names(lab))
    if not mine & asked:
        other = max(_graded(), key=lambda other: len(mine & _graded()[other] - asked))
        stated = said.get("lab") == other if isinstance(said, dict) else False
        if not elsewhere and len(mine & _graded()[other]) > 1 - stated:
            read.problem = f"this is a notebook of {other} and defines nothing that {lab} asks for"
            return 0, when, read, owner, file
        read.status = PENDING
        read.remark = read.remark or f"this notebook defines nothing that {lab} asks for"
        return 2, when, read, owner, file
    if given and not own:
        read.status = UNCHANGED
        read.remark = read.remark or f"this is the handout of {lab}: it holds no answers"
        return 1, when, read, owner, file
    now = given.get("metadata", {}).get("course", {}).get("version")
    if isinstance(said, dict) and said.get("lab") == lab and now not in (None, said.get("version")):
        read.remark = read.remark or f"this notebook is of an earlier release of {lab}"
    return 3, when, read, owner, file


def _choose(looks: list[Look]) -> tuple[Submission, Owner, File, str]:
    """The notebook that counts, and why in a sentence."""
    best = max(rank for rank, *_ in looks)
    left = [look for look in looks if look[0] == best]
    times = [when for _, when, *_ in left]
    if len(set(times)) > 1 and None not in times:
        left = [look for look in left if look[1] == max(t for t in times if t is not None)]
    alike = {tuple(look[2].cells) for look in left}
    names = [printable(look[2].notebook)[:80] for look in left]
    if best > 1 and len(alike) > 1:
        raise Unreadable(
            f"{', '.join(names[:5])} hold answers, and nothing says which is the latest: keep the"
            " one that counts, and grade again"
        )
    _, _, read, owner, file = left[-1]
    why = f"{len(looks)} notebooks were handed in; {names[-1]} counts" if len(looks) > 1 else ""
    return read, owner, file, why


def _take_along(
    result: Submission,
    owner: Owner,
    notebook: File,
    files: list[tuple[Owner, File]],
    beside: tuple[str, ...],
) -> None:
    """The files that the lab asks for, and own modules by the path in the notebook's folder."""
    folder = notebook.path.rpartition("/")[0]
    found: dict[str, tuple[tuple[float, ...], File]] = {}
    for of, file in files:
        own = of.file if of.file and "/" not in file.path else file.name
        stem, _, suffix = own.rpartition(".")
        own = f"{re.sub(r'(-| ?[(])[0-9]{1,4}[)]?$', '', stem)}.{suffix.lower()}"
        place, inside = file.path.rpartition("/")[0], f"{folder}/" if folder else ""
        if suffix.lower() == "py":
            deeper = (
                place[len(inside) :] if f"{place}/".startswith(inside) and place != folder else ""
            )
            name = f"{deeper}/{own}" if deeper and of is owner else own
            if _OTHERS & set(place.split("/")) or not re.fullmatch(
                r"([^\W\d]\w*/){0,4}[^\W\d]\w*\.py", name
            ):
                continue
        elif (name := own.lower()) not in beside:
            continue
        near = (of is owner, place == folder, of.order or 0.0)
        if name not in found or found[name][0] <= near:
            found[name] = near, file
    modules = sorted((n for n in found if n.endswith(".py")), key=lambda n: (n.count("/"), n))
    if len(modules) > MOST_MODULES:
        result.remark += f" Of {len(modules)} .py files {MOST_MODULES} are used."
    for name in [*beside, *modules[:MOST_MODULES]]:
        if name in found:
            try:
                result.files[name] = found[name][1].read(MOST_BESIDE[f".{name.rpartition('.')[2]}"])
            except Unreadable as error:
                result.files[name] = f"{name} cannot be read ({error})"


# --- notebooks ------------------------------------------------------------------------


def parse(data: bytes) -> dict[str, Any]:
    """The notebook as JSON has it."""
    if data.count(b",") + data.count(b"[") + data.count(b"{") > MOST_VALUES:
        raise Unreadable("the notebook's outputs are too many: clear them, and hand it in again")
    try:
        raw = json.loads(data)  # in UTF-8, 16 or 32
    except (ValueError, RecursionError) as error:
        what = f"no readable notebook ({str(error)[:80]})" if data.strip() else "empty"
        raise Unreadable(
            f"the file is {what}: save it in JupyterLab, and hand in the .ipynb"
        ) from None
    if not isinstance(raw, dict) or not isinstance(raw.get("cells"), list):
        raise Unreadable("the file is JSON but no notebook: hand in the .ipynb file")
    return raw


def code(notebook: dict[str, Any], types: tuple[str, ...] = ("code",)) -> list[str]:
    """The source of its code cells, or of those of other types."""
    cells = []
    for cell in notebook["cells"]:
        if isinstance(cell, dict) and cell.get("cell_type") in types:
            source = cell.get("source", "")
            text = "".join(map(str, source)) if isinstance(source, list) else str(source)
            cells.append(text.encode("utf-8", "replace").decode())
    if sum(map(len, cells)) > MOST_CODE or len(json.dumps(cells)) > MOST_CODE:
        raise Unreadable("the notebook holds more than 1 MB of code: take pasted data out")
    return cells


def defined(cells: Iterable[str]) -> set[str]:
    """The names that lines of code define, as text: it is parsed where it may be ended."""
    pattern = r"(?m)^[ \t]{0,40}(?:(?:async )?def |class )(\w{1,99})|^(\w{1,99}) ?[:=](?!=)"
    return {name for cell in cells for both in re.findall(pattern, cell) for name in both if name}


def _without_pasted(cells: list[str], given: list[str], asked: set[str]) -> list[str]:
    """The cells without those of the handout that would undo an answer above them."""
    kept, answered = [], set()
    unchanged = set(map(str.strip, given))
    for cell in cells:
        names = defined([cell]) & asked
        if cell.strip() not in unchanged:
            answered |= names
        elif names & answered:
            continue
        kept.append(cell)
    return kept


def written_names(lab: str) -> list[str]:
    """The names whose answers no test judges: those that the handout leaves open."""
    from course_lib import labs  # which loads torch

    cells = code(given) if (given := handout(lab)) else []
    names = re.findall(r"(?m)^(\w+) = \.\.\.", "\n".join(cells))
    return [name for name in names if name not in labs.load(lab).graded]


def _written(cells: Iterable[str], names: Iterable[str]) -> dict[str, str]:
    """What stands behind each name, as text: the last that is not left open."""
    found = {}
    for name in names:
        for cell in cells:
            if m := re.search(rf"(?ms)^{name} ?=(?!=)(.*?)(?=^[A-Za-z_]|\Z)", cell):
                text = m[1].partition("\n\n")[0] if '"""' not in m[1] else m[1]
                if (text := text.strip()) not in ("", "..."):
                    found[name] = text[:2000]
    return found


def _lines(cells: Iterable[str]) -> Counter[str]:
    """The lines of code; comments, settings, and calls that answer nothing do not count."""
    lines = (line.partition("#")[0].strip() for cell in cells for line in cell.splitlines())
    idle = re.compile(r"[A-Z][A-Z_]* *=|(?:check|skip|print|display)\(")
    return Counter(line for line in lines if line and not idle.match(line))


def handout(lab: str) -> dict[str, Any]:
    """A lab's present handout; {} outside a course."""
    root = course_root()
    paths = sorted((root / "labs").glob(f"{lab}_*.ipynb")) if root else []
    return _parsed(paths[0], paths[0].stat().st_mtime_ns) if paths else {}


@lru_cache(maxsize=16)
def _parsed(path: Path, changed: int) -> dict[str, Any]:
    return parse(path.read_bytes())


@lru_cache(maxsize=1)
def _graded() -> dict[str, set[str]]:
    """By lab, the names that it alone asks for."""
    from course_lib import labs  # which loads torch

    asked = {lab: set(labs.load(lab).graded) for lab in labs.available()}
    times = Counter(name for names in asked.values() for name in names)
    return {lab: {name for name in names if times[name] == 1} for lab, names in asked.items()}


# --- files ----------------------------------------------------------------------------


def _tops(place: Path) -> dict[str, list[File]]:
    """What lies at the top, each with its files. An only folder or zip is entered, however many
    lie in each other, if several students' files or a platform's are in it.
    """
    files = list(_on_disk(place, "")) if place.is_dir() else [*_on_disk(place, place.name)]
    outer = inner = _by_top(files)
    while len(inner) == 1 and not owner_of(only := next(iter(inner))).platform:
        inside = _expanded(inner[only], nested=3)
        inner = _by_top(
            [replace(f, path=f.path.partition("/")[2]) for f in inside if "/" in f.path]
        )
        if METADATA in inner or _is_class(inner):
            return inner
    return outer if len(outer) == 1 else inner


def _by_top(files: Iterable[File]) -> dict[str, list[File]]:
    tops: dict[str, list[File]] = {}
    for file in files:
        tops.setdefault(file.path.split("/")[0], []).append(file)
    return tops


def _is_class(tops: dict[str, list[File]]) -> bool:
    """Are these several students', and not the attempts, labs or drafts of one?"""
    people = set()
    for name, files in tops.items():
        owner = owner_of(name)
        if owner.platform:
            return True
        if stamp(owner.id) is None and not re.fullmatch(r"(?i)lab[-_ ]?\d+", owner.id):
            holds = any(re.search(r"(?i)\.(ipynb|zip)(/|$)", file.path) for file in files)
            people |= {owner.id} if holds else set()
    return len(people) > 1


def _on_disk(path: Path, name: str) -> Iterator[File]:
    """The files below a path; links are not followed, hidden files left out."""
    if path.is_dir() and not path.is_symlink():
        for child in sorted(path.iterdir()):
            if not child.name.startswith((".", "__MACOSX")):
                below = os.fsencode(child.name).decode("utf-8", "backslashreplace")
                yield from _on_disk(
                    child, unicodedata.normalize("NFC", f"{name}/{below}".lstrip("/"))
                )
        if name and not any(path.iterdir()):
            yield File(f"{name}/", lambda most: b"")  # an empty folder is a student's, too
    else:
        yield File(name, partial(_bytes, path), path)


def _bytes(path: Path, most: int) -> bytes:
    try:
        mode = path.lstat().st_mode
        if not stat.S_ISREG(mode):
            raise Unreadable("it is a link, a pipe or a device, and no regular file")
        with open(os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0)), "rb") as file:
            return _limited(file, most)
    except OSError as error:
        raise Unreadable(f"the file cannot be read ({error.strerror})") from None


def _limited(file: Any, most: int) -> bytes:
    data = bytearray()
    while piece := file.read(min(1 << 16, most + 1 - len(data))):  # whatever a header says
        data += piece
        if len(data) > most:
            raise Unreadable(f"the file is larger than {most / 2**20:g} MB")
    return bytes(data)


def _expanded(files: Iterable[File], nested: int = 0) -> list[File]:
    """The files, with those in zips in the place of the zips."""
    found = []
    for file in files:
        if file.name.lower().endswith(".zip") and nested < 4:
            try:
                # a class's is read where it lies
                inside = list(_in_zip(file, file.disk if nested >= 3 else None))
            except Unreadable as error:
                inside = [File(f"{file.path}/lab.ipynb", partial(_raise, str(error)))]
            found += _expanded(inside, nested + 1)
        else:
            found.append(file)
        if len(found) > MOST_FILES * (10 if nested >= 3 else 1):
            raise Unreadable(f"there are more than {MOST_FILES} files: hand in the notebook alone")
    return found


def _raise(why: str, most: int) -> bytes:
    raise Unreadable(why)


def _in_zip(file: File, disk: Path | None = None) -> Iterator[File]:
    try:
        archive = zipfile.ZipFile(disk or io.BytesIO(file.read(MOST_ZIP)))
    except (zipfile.BadZipFile, ValueError, OverflowError, OSError) as error:
        raise Unreadable(f"the zip cannot be read ({str(error)[:80]}): pack it again") from None
    for info in archive.infolist():
        parts = [p for p in info.filename.split("/") if p not in ("", ".", "..")]
        if parts and not info.is_dir() and not any(p.startswith((".", "__MACOSX")) for p in parts):
            yield File(f"{file.path}/{'/'.join(parts)}", partial(_member, archive, info))


def _member(archive: zipfile.ZipFile, info: zipfile.ZipInfo, most: int) -> bytes:
    odd = info.flag_bits & 1 or info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
    if odd or stat.S_ISLNK(info.external_attr >> 16):
        raise Unreadable("the zip is locked, packed in an unusual way, or holds a link")
    try:
        with archive.open(info) as file:
            return _limited(file, most)
    except (zipfile.BadZipFile, RuntimeError, EOFError, ValueError, zlib.error, OSError) as error:
        raise Unreadable(f"the zip cannot be read ({str(error)[:80]}): pack it again") from None


def _is_notebook(file: File) -> bool:
    """By its name, or by what it holds."""
    return ".ipynb" in file.name.lower() or ("." not in file.name and _may_be_one(file))


def _may_be_one(file: File) -> bool:
    linked = file.disk is not None and file.disk.is_symlink()  # is a student's, and not followed
    if linked or re.search(r"(?i)\.(ipynb|zip|7z|rar)\b", file.name):
        return True
    try:
        return b'"cells"' in (data := file.read(MOST_NOTEBOOK)) and data.lstrip()[:1] == b"{"
    except Unreadable:
        return False


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """YAML as Gradescope writes it: Ruby's objects are what they hold."""


_Loader.add_multi_constructor(
    "!ruby/",
    lambda loader, _, node: (
        loader.construct_mapping(node)
        if isinstance(node, yaml.MappingNode)
        else getattr(node, "value", None)
    ),
)


def _metadata(files: list[File]) -> dict[str, Any] | None:
    """Gradescope's list of who handed in what."""
    if not files:
        return None
    try:
        read = yaml.load(files[0].read(MOST_NOTEBOOK), Loader=_Loader)
    except (yaml.YAMLError, Unreadable, ValueError, RecursionError) as error:
        raise ValueError(
            f"{METADATA} cannot be read ({error}): download the export again"
        ) from None
    return {k: v for k, v in read.items() if isinstance(v, dict)} if isinstance(read, dict) else {}
