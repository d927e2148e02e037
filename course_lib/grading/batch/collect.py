"""Finds the submissions in a folder, or in a class's zip. Reads text only; runs and
unpacks nothing.

What is handed in may be hostile: whatever is wrong with one student's files is that
student's problem, in a sentence.

Of several notebooks of one student one counts (:func:`_choose`). A notebook of this lab
that differs from the handout comes before one that does not, and both before notebooks
of other labs and unreadable ones. Among equals the latest counts, by the platform's own
time: nbgrader's, Gradescope's, a folder ``2024-05-01T10-11-12`` or "attempt 2", or the
number that Canvas gives each upload. A file's own time says when it was copied, and is
not used. Where several notebooks with answers are left, all of them are graded and the
best counts. :attr:`Submission.choice` says which and why. Files are one student's only where
a learning management system's name or the student's own folder says so
(:mod:`course_lib.grading.batch.names`).
"""

from __future__ import annotations

import hashlib
import re
import zlib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from course_lib.grading.batch import ipynb, layout, modules, names, origin
from course_lib.grading.batch.entries import Entry, File, of_a_student, on_disk
from course_lib.grading.batch.ipynb import Unreadable
from course_lib.grading.batch.origin import Origin
from course_lib.grading.marking.lab import Task

ATTEMPTS = 1e8  # a smaller stamp is an attempt's number, and no time
# of the files that are no submissions, how many are named one by one where there are
# more
SAID = 100
# notebooks with answers of one student that are all graded; more are several people's
MOST_VERSIONS = 4
# of a submission that the tests do not mark
PENDING = "pending"  # a person has to look at it
REFUSED = "refused"  # it is not sure whose it is
UNCHANGED = "unchanged"  # the handout as it was given out
_TAGGED = re.compile(r".*-(?:[0-9a-f]{8}|[0-9a-f]{64})", re.IGNORECASE)
# on Windows
_RESERVED = {"con", "prn", "aux", "nul", *(f"{p}{i}" for p in ("com", "lpt") for i in range(1, 10))}


@dataclass
class Submission:
    """One student's submission.

    Attributes:
        id: the name of the file or folder (of an LMS's: the student's part of it),
            unique in the batch.
        cells: the source of the code cells; empty where the notebook could not be read.
        problem: why it could not be read, in a sentence; "" where it could.
        status: what the submission is, if the tests give it no points: :data:`PENDING`,
            :data:`REFUSED`, :data:`UNCHANGED`; "" where they decide alone.
        versions: other notebooks of the student that hold answers and may be the
            latest: the best of all counts.
        notebook: which file was taken. digest: of its code, so that a changed
            submission is graded again.
        choice: of several notebooks, which one counts and why, in a sentence; "" where
            there was one.
        submitters: what the names say of the student (several for group work), by the
            columns of a roster.
        time: when it was handed in, as the system or a folder's name says (seconds
            since 1970), or None. late: does the system say that it came late, or in
            time? None where it says neither.
        start: by which Canvas takes a file back for it, "" elsewhere.
        origin: the lab and release that its metadata name. remark: what is odd about
            that, in a sentence, or "".
        tag: how many digits of a hash its file name must have, for without them it is
            another's, too.
        files: what else was handed in with this notebook, by name: what the lab asks for,
            and own modules, by the path in the notebook's folder.
        folder: the file or folder of the notebook, as it was found.
    """

    id: str
    cells: list[str] = field(default_factory=list)
    problem: str = ""
    status: str = ""
    versions: list[Submission] = field(default_factory=list)
    notebook: str = ""
    digest: str = ""
    choice: str = ""
    submitters: list[dict[str, str]] = field(default_factory=list)
    time: float | None = None
    late: bool | None = None
    start: str = ""
    origin: Origin = Origin()
    remark: str = ""
    tag: int = 0
    files: dict[str, File] = field(default_factory=dict)
    folder: str = ""

    def tasks(self) -> list[Task]:
        """What is to be marked: the notebook, and other versions that may count."""
        return [
            Task(self.id, tuple(h.cells), h.problem, h.beside(), version)
            for version, h in enumerate([self, *self.versions])
        ]

    def version(self, counted: int) -> Submission:
        """The version that counts, by its number among :meth:`tasks`."""
        return [self, *self.versions][counted]

    def beside(self) -> tuple[tuple[str, bytes | str], ...]:
        """The files by name: their bytes, or in a sentence why there are none."""
        return tuple(
            (name, _contents(file, modules.MOST_BYTES if name.endswith(".py") else MOST_BESIDE))
            for name, file in self.files.items()
        )

    @property
    def file_name(self) -> str:
        """The id as a safe file name, still unique, also where upper and lower case are
        one.
        """
        safe = re.sub(r"[^A-Za-z0-9._-]", "_", self.id).lstrip(".")[:80]
        odd = safe != self.id or safe.endswith(".") or safe.partition(".")[0].lower() in _RESERVED
        digits = self.tag or (8 if odd or _TAGGED.fullmatch(safe) else 0)
        if not digits:
            return safe
        tag = hashlib.sha256(self.id.encode("utf-8", "surrogatepass")).hexdigest()[:digits]
        return f"{safe or 'submission'}-{tag}"


@dataclass(frozen=True)
class Collected:
    """What was found where submissions are to lie.

    Attributes:
        submissions: one a student, sorted by id.
        left: whatever else lies there and was not taken for one: its name, and why in a
            sentence.
        sections: the folders that were read as holding several students' submissions.
    """

    submissions: list[Submission]
    left: list[tuple[str, str]] = field(default_factory=list)
    sections: list[str] = field(default_factory=list)

    @property
    def remarks(self) -> list[str]:
        """Sentences for the instructor on what was read how, and on what was not."""
        said = [
            f"{names.printable(name)[:80]} is read as a section: what lies in it is"
            " one student's each"
            for name in self.sections
        ]
        said += [
            f"{names.printable(name)[:80]} is not taken for a submission: {why}"
            for name, why in self.left[:SAID]
        ]
        if len(self.left) > SAID:
            said.append(f"{len(self.left) - SAID} others are not taken for submissions either")
        return said


def find(folder: Path, lab: str) -> list[Submission]:
    """All submissions, one a student, sorted by id: see :func:`collect`."""
    return collect(folder, lab).submissions


def collect(folder: Path, lab: str, beside: Iterable[str] = ()) -> Collected:
    """All submissions in a folder, or in a class's zip as a system gives it; and what
    else is there.

    Args:
        beside: names of files that the lab asks for beside the notebook.

    Raises:
        FileNotFoundError: if the folder does not exist or holds no submission.
        ValueError: if Gradescope's metadata cannot be read.
    """
    if not folder.exists():
        raise FileNotFoundError(
            f"{folder} does not exist: give the folder that holds the submissions"
        )
    folder = folder.resolve()
    there, sections, metadata = layout.students(layout.top(folder))
    if metadata is None and not sections:
        there, sections = _unwrapped(there, folder, lab)
    by_system = any(layout.name(entry, metadata).known for _, entry in there)
    left: list[tuple[str, str]] = []
    items = []
    for i, (place, entry) in enumerate(there):
        name = layout.name(entry, metadata)
        if name.known or layout.may_be_one(entry, named=not by_system):
            # names that look alike (one with composed accents, say) are still two
            items.append((entry, name if name.known else replace(name, key=("name", f"{i}"))))
        else:
            left.append((f"{place}/{entry.name}" if place else entry.name, layout.why_not(entry)))
    found = _read_all(items, there, lab, beside)
    if not found:
        listed = "".join(f"; {names.printable(name)[:80]}: {why}" for name, why in left[:3])
        raise FileNotFoundError(
            f"{folder} holds no notebook, folder or zip: one of these per student is"
            f" expected{listed}"
        )
    _mark_clashes(list(found.values()))
    return Collected([found[id] for id in sorted(found)], left, sections)


def _read_all(
    items: list[tuple[Entry, names.Name]],
    there: list[layout.Placed],
    lab: str,
    beside: Iterable[str],
) -> dict[str, Submission]:
    """The submissions by id."""
    groups = _groups(items)
    common = Counter(group.last[1].id for group in groups)
    found: dict[str, Submission] = {}
    for group in groups:
        last, name = group.last
        place = next(place for place, entry in there if entry is last)
        id = name.id if common[name.id] == 1 or not place or name.known else f"{place}/{name.id}"
        handed = _read(id, group, lab, beside)
        if group.people:  # Gradescope's: called as the folder that counts, which is each member's
            handed.id = handed.folder or id
            if handed.id in found:
                same = found[handed.id]
                same.submitters += handed.submitters
                same.choice = " ".join(filter(None, dict.fromkeys([same.choice, handed.choice])))
                continue
        if handed.id in found:
            handed.id = last.name
        while handed.id in found:
            handed.id += "~"
        found[handed.id] = handed
    return found


def _unwrapped(
    there: list[layout.Placed], folder: Path, lab: str
) -> tuple[list[layout.Placed], list[str]]:
    """If all there is is one folder or zip, what lies in it where that is several
    people's; and the folder's name.

    Raises:
        ValueError: if it may be several people's, and it is not sure.
    """
    candidates = [entry for _, entry in there if layout.may_be_one(entry)]
    if len(candidates) != 1 or not (candidates[0].folder or candidates[0].form == "zip"):
        return there, []
    if layout.name(candidates[0], None).known:
        return there, []
    (only,) = candidates
    place = folder / only.name
    try:
        while only.folder and len(inside := [e for e in only.children() if not e.rubbish]) == 1:
            if not inside[0].folder:
                break
            (only,) = inside
            place /= only.name
        people, nameless = layout.people_in(only, lambda file: _answers(lab, file))
    except (Unreadable, OSError):
        return there, []  # its problem is said where it is read
    if len(people) < 2:
        return there, []
    if len(people) <= len(nameless):
        listed = ", ".join(names.printable(entry.name)[:60] for entry in [*people, *nameless][:6])
        remedy = f"give {place}" if only.folder else f"unzip {only.name}, and give that"
        raise ValueError(
            f"{names.printable(only.name)} holds {len(people) + len(nameless)} notebooks that"
            f" answer {lab} ({listed}): if they are several students', {remedy}; if they are one"
            " student's, keep one of them"
        )
    inside = only.children() if only.folder else layout.in_zip(only.file())
    return [(only.name, entry) for entry in inside if not entry.rubbish], [only.name]


def _answers(lab: str, file: File) -> bool:
    try:
        notebook = ipynb.read(file.data())
        return origin.of(notebook).lab == lab or origin.answers(lab, ipynb.code(notebook))
    except (Unreadable, OSError, zlib.error):
        return False


@dataclass(frozen=True)
class _Group:
    """The files and folders that are one student's by their names.

    Attributes:
        problem: why that cannot be relied on, in a sentence.
        people: of Gradescope's: whose they are, by what :func:`_person` says.
    """

    items: list[tuple[Entry, names.Name]]
    problem: str = ""
    people: frozenset[str] = frozenset()

    @property
    def last(self) -> tuple[Entry, names.Name]:
        return max(self.items, key=lambda item: (item[1].stamp or 0, item[1].number or 0))

    @property
    def first_name(self) -> str:
        return repr(names.printable(self.items[0][0].name)[:120])


def _groups(items: list[tuple[Entry, names.Name]]) -> list[_Group]:
    """Whose is what. Nobody's file stands in for another's: two that claim one person,
    and not alike, are both refused.
    """
    together: dict[tuple[object, ...], _Group] = {}
    listed = _of_gradescope([item for item in items if item[1].key[0] == "gradescope"])
    items = [item for item in items if item[1].key[0] != "gradescope"]
    for entry, name in items:
        group = together.setdefault((name.key, name.prefix), _Group([]))
        group.items.append((entry, name))
    groups: list[_Group] = []
    refused: list[_Group] = []
    for group in together.values():
        unsure = [item for item in group.items if item[1].unsure] if len(group.items) > 1 else []
        refused += [_Group([item], _UNSURE.format(claim=item[1].claims[0])) for item in unsure]
        if sure := [item for item in group.items if item not in unsure]:
            groups.append(_Group(sure))
    claimed: dict[str, list[_Group]] = {}
    for group in groups:
        for claim in dict.fromkeys(claim for _, name in group.items for claim in name.claims):
            claimed.setdefault(claim, []).append(group)
    problems = {
        id(group): _CLAIMED.format(mine=group.first_name, theirs=other.first_name, claim=claim)
        for claim, claiming in claimed.items()
        if len(claiming) > 1
        for group, other in zip(claiming, [*claiming[1:], claiming[0]], strict=True)
    }
    return [
        *(_Group(group.items, problems.get(id(group), "")) for group in groups),
        *refused,
        *listed,
    ]


def _of_gradescope(items: list[tuple[Entry, names.Name]]) -> list[_Group]:
    """Each member of a group has handed in what the group has, and what they have handed
    in otherwise: of that the latest counts, for each of them.
    """
    theirs: dict[str, list[int]] = {}
    for i, (_, name) in enumerate(items):
        for who in name.who:
            theirs.setdefault(_person(who), []).append(i)
    same: dict[tuple[int, ...], list[str]] = {}
    for person, places in theirs.items():
        same.setdefault(tuple(places), []).append(person)
    return [
        _Group([items[i] for i in places], people=frozenset(people))
        for places, people in same.items()
    ]


def _person(who: dict[str, str]) -> str:
    """What tells a member of a group from others. A name does not: there may be two."""
    return (who.get("email") or who.get("sid") or "\n".join(sorted(who.values()))).casefold()


_CLAIMED = (
    "{mine} and {theirs} both say by their names that they are of {claim}, and differ in the rest"
    " of what the system writes: neither is graded until one of them is taken away or renamed"
)
_UNSURE = (
    "its name can be read as {claim}'s or, further on, as another's, and {claim} has handed in"
    " something else, too: it is not graded until it is renamed"
)


def read_single_submission(
    folder: Path, lab: str, id: str = "submission", beside: Iterable[str] = ()
) -> Submission:
    """The submission of the one student whose files are in ``folder`` (or who handed in
    that file).
    """
    return _read(
        id, _Group([(on_disk(folder), names.Name(("name", id), id, folder.name))]), lab, beside
    )


def _mark_clashes(all: list[Submission]) -> None:
    """Make all file names differ: ``Ann.json`` and ``ann.json`` are one file on macOS
    and Windows.

    A name that needs no tag never looks like one that has one. So after the first round
    only tagged names can be alike, after the second, with the whole hash, none.
    """
    for digits in (8, 64):
        taken: dict[str, list[Submission]] = {}
        for h in all:
            taken.setdefault(h.file_name.lower(), []).append(h)
        for same in taken.values():
            if len(same) > 1:
                for h in same:
                    h.tag = digits


# --- which notebook counts ------------------------------------------------------------


@dataclass(frozen=True)
class _File:
    """A file of a student, perhaps the notebook.

    Attributes:
        name: of the entry that it came in, as read. file: it; ``path`` tells it from
            the student's others.
        stamp: when it was handed in, or its attempt's number, as its folder says or the
            system.
        entry: that it came in.
    """

    name: names.Name
    file: File
    stamp: float | None
    entry: Entry

    @property
    def path(self) -> str:
        return self.file.path

    @property
    def own(self) -> str:
        """The student's name for it."""
        return (
            not self.entry.folder and self.file.path == self.entry.name and self.name.file
        ) or self.file.own


def _read(id: str, group: _Group, lab: str, beside: Iterable[str] = ()) -> Submission:
    """One student's submission, out of everything that is theirs."""
    (_, name), *_ = group.items
    if group.problem:  # whose it is, is not sure
        who = [] if name.unsure else [dict(person) for person in name.who]
        return Submission(id, problem=group.problem, status=REFUSED, submitters=who)
    name, stamp = group.last[1], None
    entry = group.last[0]
    try:
        files, others, problem = _files(group)
        read = [_look(file, lab) for file in files if file.file.form == "notebook"]
        if not read:
            what = f" ({', '.join(names.printable(o)[:60] for o in others[:3])})" if others else ""
            raise Unreadable(
                problem or f"the {_kind(group)} holds no notebook{what}: hand in the .ipynb file"
            )
        counting, why = _choose(read)
        name, stamp, entry = counting[0].of.name, counting[0].of.stamp, counting[0].of.entry
        versions = [_with_files(version, files, lab, beside) for version in counting]
        result = versions[0]
        result.id = id
        result.versions = versions[1:]
        result.choice = _choice(read, counting, why)
        if result.versions:
            digests = "".join(version.digest for version in versions)
            result.digest = hashlib.sha256(digests.encode()).hexdigest()
        if len(counting) > MOST_VERSIONS:
            raise Unreadable(
                f"{result.choice} That many are graded of no student: if they are several people's,"
                " give this folder itself to `course grade`; else keep the notebook that counts"
            )
    except (Unreadable, OSError, zlib.error) as error:
        result = Submission(id, problem=_why(error))
    result.status = PENDING if result.problem else result.status
    time = stamp if stamp is not None and stamp > ATTEMPTS else name.stamp
    who = [
        dict(person) for person in name.who if not group.people or _person(person) in group.people
    ]
    return replace(
        result, submitters=who, time=time, late=name.late, start=name.start, folder=entry.name
    )


def _why(error: Exception) -> str:
    if isinstance(error, Unreadable):
        return str(error)
    return f"the file cannot be read ({getattr(error, 'strerror', None) or error})"


def _kind(group: _Group) -> str:
    return "folder" if any(entry.folder for entry, _ in group.items) else "submission"


def _files(group: _Group) -> tuple[list[_File], list[str], str]:
    """Every file of a student, those in zips among them; the names of the files that
    are no notebook; and why one of them could not be opened, in a sentence.
    """
    found: list[_File] = []
    others: list[str] = []
    problem = ""
    for entry, name in group.items:
        for file in _of(group, entry, name):
            form = file.file.form
            if form in ("notebook", ""):
                found.append(file)
                others += [file.own] if not form else []
                continue
            try:
                if form != "zip":
                    raise Unreadable(
                        f"{names.printable(file.own)[:80]} is packed as {form}, which is not read:"
                        " hand in the notebook itself, or a zip"
                    )
                packed = of_a_student(file.file)
                if not name.known:
                    _refuse_a_class(packed)
                # names and numbers of the files in it are the zip's
                found += [
                    _file(file.name, replace(f, path=_below(file, f, group)), entry, file.stamp)
                    for f in packed
                ]
            except Unreadable as error:
                problem = problem or str(error)
                others.append(file.own)
    return found, others, problem


def _below(zip: _File, file: File, group: _Group) -> str:
    """The path of a file in a zip, within the zip where that is all there is."""
    alone = len(group.items) == 1 and not zip.entry.folder
    return file.path if alone else f"{zip.path}/{file.path}"


@dataclass(frozen=True)
class _Look:
    """A notebook, read. rank: how much it may be the one that counts, see
    :func:`_choose`; why: it is not, in a few words.
    """

    of: _File
    handed: Submission
    rank: int
    why: str


def _look(file: _File, lab: str) -> _Look:
    """Read a notebook, and what it is for the lab."""
    try:
        notebook = ipynb.read(file.file.data())
        cells = ipynb.code(notebook)
    except (Unreadable, OSError, zlib.error) as error:
        why = _why(error)
        return _Look(
            file, Submission("", problem=why, notebook=file.path), _UNREADABLE, "unreadable"
        )
    digest = hashlib.sha256("\0".join(cells).encode("utf-8", "surrogatepass")).hexdigest()
    said = origin.of(notebook)
    read = Submission("", cells, notebook=file.path, digest=digest, origin=said)
    named = _labs(file)
    answers = origin.answers(lab, cells)
    if problem := origin.another(lab, cells, said):
        return _Look(
            file,
            replace(read, cells=[], digest="", problem=problem),
            _OF_ANOTHER_LAB,
            "of another lab",
        )
    read.remark = origin.remark(lab, said, origin.released(lab))
    if not answers:
        read.status = PENDING
        read.remark = (
            f"this notebook defines nothing that {lab} asks for: hand in another one if you meant"
            " another"
        )
    if named and not named & names.find_lab_numbers(lab) and not answers:
        return _Look(file, read, _OF_ANOTHER_LAB, "named after another lab")
    if not (answers or said.lab == lab or named):
        return _Look(file, read, _OTHER, f"nothing that {lab} asks for")
    if origin.is_unchanged(lab, cells, origin.copy_in(notebook)):
        read.status = UNCHANGED
        read.remark = (
            f"this is the handout of {lab} as it was given out: it holds no answers. If you have"
            " answered, hand in the notebook that you saved"
        )
        return _Look(file, read, _UNCHANGED, "the unchanged handout")
    return _Look(file, read, _ANSWERED, "")


def _with_files(look: _Look, files: list[_File], lab: str, beside: Iterable[str]) -> Submission:
    """The notebook with the files that the lab asks for, and own modules, beside it."""
    result = look.handed
    if not result.problem:
        result.files = {
            wanted: file for wanted in beside if (file := _nearest(files, look.of, wanted))
        }
        own, more = _own_modules(files, look.of)
        result.files |= own
        result.remark = " ".join(filter(None, [result.remark, more]))
        if result.files:
            result.digest = _with_contents(result.digest, result.beside())
    return result


def _of(group: _Group, entry: Entry, name: names.Name) -> list[_File]:
    """The files of one entry."""
    if entry.folder:
        name = replace(name, file="")  # the files in it have their own
    # of several folders, which of them a file lies in is what tells it from the others
    place = f"{entry.name}/" if entry.folder and len(group.items) > 1 else ""
    return [_file(name, replace(f, path=place + f.path), entry) for f in entry.files()]


def _nearest(files: list[_File], notebook: _File, wanted: str) -> File | None:
    """Of the files of that name the one that was handed in with the notebook: of the
    same time, in the same folder; else the newest.
    """
    stem, _, suffix = wanted.rpartition(".")
    same = [
        f
        for f in files
        if f.file.suffix == f".{suffix}" and names.split_upload_suffix(f.own)[0].lower() == stem
    ]

    if not same:
        return None
    return max(same, key=lambda f: _nearness(f, notebook, names.split_upload_suffix(f.own)[1])).file


def _nearness(f: _File, notebook: _File, again: int) -> tuple[object, ...]:
    own = f.file.path.rpartition("/")[0] == notebook.file.path.rpartition("/")[0]
    return (
        f.stamp == notebook.stamp,
        own,
        f.name.number or 0,
        again,
        f.file.time,
        f.file.path,
    )


def _own_modules(files: list[_File], notebook: _File) -> tuple[dict[str, File], str]:
    """The student's own ``.py`` files by the paths that the notebook imports, and a sentence if
    there are too many. Of several by one path the nearest, as in :func:`_nearest`.
    """
    folder = notebook.file.path.rpartition("/")[0]
    found: dict[str, tuple[tuple[object, ...], File]] = {}
    for f in files:
        path, number = modules.name_of(f.file.path, f.own, folder)
        near = _nearness(f, notebook, number)
        if path and (path not in found or found[path][0] < near):
            found[path] = near, f.file
    used, more = modules.nearest(found)
    return {path: found[path][1] for path in used}, more


MOST_BESIDE = 16 << 20  # bytes, of a file beside the notebook


def _contents(file: File, most: int) -> bytes | str:
    try:
        data = file.data()
    except (Unreadable, OSError, zlib.error) as error:
        return (
            f"{file.own[:80]} cannot be read"
            f" ({str(getattr(error, 'strerror', None) or error)[:200]})"
        )
    if len(data) > most:
        return (
            f"{file.own[:80]} has {len(data):,} bytes, of which at most {most:,} are read: no such"
            " file of this lab is nearly as large"
        )
    return data


def _with_contents(digest: str, files: Iterable[tuple[str, bytes | str]]) -> str:
    """Of the code and of what is beside it."""
    whole = hashlib.sha256(digest.encode())
    for name, data in files:
        whole.update(name.encode())
        whole.update(
            hashlib.sha256(
                data if isinstance(data, bytes) else data.encode("utf-8", "surrogatepass")
            ).digest()
        )
    return whole.hexdigest()


def _file(name: names.Name, file: File, entry: Entry, stamp: float | None = None) -> _File:
    stamps = [s for part in file.folders if (s := names.parse_timestamp(part)) is not None]
    return _File(name, file, stamps[-1] if stamps else stamp or name.stamp, entry)


def _refuse_a_class(files: list[File]) -> None:
    """Is this zip one student's? That of a class is read where it is given itself, for
    anybody can make one.
    """
    read = [names.read(f.path.split("/")[0], f.path) for f in files]
    if len({name.key for name in read if name.known}) > 1:
        raise Unreadable(
            "the zip holds the submissions of several students: unzip it, or give it in place of"
            " the folder"
        )


# what a notebook may be for the lab, see _choose
_UNREADABLE, _OF_ANOTHER_LAB, _UNCHANGED, _OTHER, _ANSWERED = range(5)


def _choose(read: list[_Look]) -> tuple[list[_Look], str]:
    """Those of a student's notebooks that may be the one that counts, the likeliest
    first, and why not the others.
    """
    best = max(look.rank for look in read)
    left, why = _latest([look for look in read if look.rank >= min(best, _OTHER)])
    answered = [look for look in read if look.rank == _ANSWERED]
    if best == _ANSWERED:
        # a later notebook that defines nothing of the lab may import it, or be a slip
        latest = [look for look in left if look.rank == best]
        left = latest or [*left, *_latest(answered)[0]]
    elif best != _OTHER:
        left = left[:1]  # of several that answer nothing it does not matter which
    if not why and len(left) < len(read):
        only = {_ANSWERED: "the only one with answers", _UNCHANGED: "the only one of this lab"}
        why = only.get(best, "the likeliest") if len(left) == 1 else ""
    return left, why


def _latest(looks: list[_Look]) -> tuple[list[_Look], str]:
    """The latest by the platform's own time, and how that is known; all of them, the
    likeliest first, where it is not. Of notebooks with the same code one is taken.
    """
    why = ""
    for key, how in (
        (lambda f: f.stamp, "the latest submission by its folder's name or its recorded time"),
        (lambda f: f.name.number, "the latest upload by the number in its name"),
    ):
        values = [key(look.of) for look in looks]
        if len(set(values)) > 1 and None not in values:
            latest = max(v for v in values if v is not None)
            looks = [look for look, value in zip(looks, values, strict=True) if value == latest]
            why = how
    unlike = {look.handed.digest: look for look in sorted(looks, key=lambda look: _likely(look.of))}
    return list(unlike.values())[::-1], why


def _likely(file: _File) -> tuple[object, ...]:
    """An order among notebooks of which nothing says which is later."""
    return (names.split_upload_suffix(file.own)[1], file.file.time, file.path)


def _choice(read: list[_Look], counting: list[_Look], why: str) -> str:
    """What there was to choose from, in sentences; "" where there was one notebook."""
    if len(read) < 2:
        return ""
    shown = [names.printable(look.of.path)[:80] for look in counting]
    rest = sorted(
        names.printable(look.of.path)[:80] + (f" ({look.why})" if look.why else "")
        for look in read
        if look not in counting
    )
    listed = ", ".join(rest[:5]) + (f" and {len(rest) - 5} more" if len(rest) > 5 else "")
    left_out = f" Not counted: {listed}." if rest else ""
    if len(counting) > 1:
        return (
            f"{len(read)} notebooks were handed in; {', '.join(shown[:-1])} and {shown[-1]} hold"
            " answers, and nothing says which is the latest: all of them are graded, and the best"
            f" counts. Please look which one is meant.{left_out}"
        )
    reason = f" ({why})" if why else ""
    return f"{len(read)} notebooks were handed in; {shown[0]} counts{reason}.{left_out}"


def _labs(file: _File) -> set[int]:
    """The labs that a file's name speaks of; where it speaks of none, those of its
    folders.
    """
    return names.find_lab_numbers(file.own) or names.find_lab_numbers(file.path.rpartition("/")[0])
