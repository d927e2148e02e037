"""Which of one student's notebooks counts, and what was handed in with it.

A notebook of this lab that differs from the handout comes before one that does not, and
both before notebooks of other labs and unreadable ones. Among equals the latest counts,
by the platform's own time: nbgrader's, Gradescope's, a folder ``2024-05-01T10-11-12`` or
"attempt 2", or the number that Canvas gives each upload. A file's own time says when it
was copied, and is not used. Where several notebooks with answers are left, all of them
are graded and the best counts. :attr:`Submission.choice` says which and why.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from course_lib.grading.batch import ipynb, modules, origin, platforms
from course_lib.grading.batch.entries import File, of_a_student
from course_lib.grading.batch.ipynb import Unreadable
from course_lib.grading.batch.layout import Placed, latest
from course_lib.grading.batch.names import (
    find_lab_numbers,
    parse_timestamp,
    printable,
    split_upload_suffix,
)
from course_lib.grading.batch.submission import PENDING, UNCHANGED, Submission

ATTEMPTS = 1e8  # a smaller stamp is an attempt's number, and no time
# notebooks with answers of one student that are all graded; more are several people's
MOST_VERSIONS = 4


def read(items: Sequence[Placed], id: str, lab: str, beside: Iterable[str] = ()) -> Submission:
    """One student's submission, out of everything that is theirs."""
    last = latest(items)
    name, entry, stamp = last.name, last.entry, None
    try:
        files, others, problem = _files(items)
        looks = [_look(file, lab) for file in files if file.file.form == "notebook"]
        if not looks:
            what = f" ({', '.join(printable(o)[:60] for o in others[:3])})" if others else ""
            kind = "folder" if any(p.entry.folder for p in items) else "submission"
            raise Unreadable(
                problem or f"the {kind} holds no notebook{what}: hand in the .ipynb file"
            )
        counting, why = _choose(looks)
        counts = counting[0].of
        name, entry, stamp = counts.placed.name, counts.placed.entry, counts.stamp
        versions = [_with_files(version, files, lab, beside) for version in counting]
        result = versions[0]
        result.id = id
        result.versions = versions[1:]
        result.choice = _choice(looks, counting, why)
        if result.versions:
            digests = "".join(version.digest for version in versions)
            result.digest = hashlib.sha256(digests.encode()).hexdigest()
        if len(counting) > MOST_VERSIONS:
            raise Unreadable(
                f"{result.choice} That many are graded of no student: if they are several people's,"
                " give this folder itself to `course grade`; else keep the notebook that counts"
            )
    except Unreadable as error:
        result = Submission(id, problem=str(error))
    result.status = PENDING if result.problem else result.status
    result.submitters = [dict(person) for person in name.who]
    result.time = stamp if stamp is not None and stamp > ATTEMPTS else name.stamp
    result.late, result.start, result.folder = name.late, name.start, entry.name
    return result


# --- a student's files ----------------------------------------------------------------


@dataclass(frozen=True)
class _File:
    """A file of a student, perhaps the notebook.

    Attributes:
        placed: what it came in, a file or a folder. file: it; ``path`` tells it from
            the student's others.
        stamp: when it was handed in, or its attempt's number, as its folder says or the
            system.
    """

    placed: Placed
    file: File
    stamp: float | None

    @property
    def path(self) -> str:
        return self.file.path

    @property
    def folder(self) -> str:
        """The folder that it lies in."""
        return self.path.rpartition("/")[0]

    @property
    def own(self) -> str:
        """The student's name for it."""
        entry, name = self.placed.entry, self.placed.name
        return (not entry.folder and self.path == entry.name and name.file) or self.file.own

    @property
    def labs(self) -> set[int]:
        """The labs that its name speaks of; where it speaks of none, those of its
        folders.
        """
        return find_lab_numbers(self.own) or find_lab_numbers(self.folder)


def _file(placed: Placed, file: File, stamp: float | None = None) -> _File:
    stamps = [s for part in file.folders if (s := parse_timestamp(part)) is not None]
    return _File(placed, file, stamps[-1] if stamps else stamp or placed.name.stamp)


def _files(items: Sequence[Placed]) -> tuple[list[_File], list[str], str]:
    """Every file of a student, those in zips among them; the names of the files that
    are no notebook; and why one of them could not be opened, in a sentence.
    """
    found: list[_File] = []
    others: list[str] = []
    problem = ""
    for placed in items:
        # of several folders, which of them a file lies in is what tells it from the others
        several = placed.entry.folder and len(items) > 1
        place = f"{placed.entry.name}/" if several else ""
        for inside in placed.entry.files():
            file = _file(placed, replace(inside, path=place + inside.path))
            form = file.file.form
            if form in ("notebook", ""):
                found.append(file)
                others += [file.own] if not form else []
                continue
            try:
                if form != "zip":
                    raise Unreadable(
                        f"{printable(file.own)[:80]} is packed as {form}, which is not read: hand"
                        " in the notebook itself, or a zip"
                    )
                packed = of_a_student(file.file)
                if not placed.name.known:
                    _refuse_a_class(packed)
                # paths in a zip are within the zip where that is all there is
                alone = len(items) == 1 and not placed.entry.folder
                below = "" if alone else f"{file.path}/"
                found += [
                    _file(placed, replace(f, path=below + f.path), file.stamp) for f in packed
                ]
            except Unreadable as error:
                problem = problem or str(error)
                others.append(file.own)
    return found, others, problem


def _refuse_a_class(files: list[File]) -> None:
    """Is this zip one student's? That of a class is read where it is given itself, for
    anybody can make one.
    """
    read = [platforms.read_name(f.path.split("/")[0], f.path) for f in files]
    if len({name.key for name in read if name.known}) > 1:
        raise Unreadable(
            "the zip holds the submissions of several students: unzip it, or give it in place of"
            " the folder"
        )


# --- which notebook counts ------------------------------------------------------------

# what a notebook may be for the lab, see _choose
_UNREADABLE, _OF_ANOTHER_LAB, _UNCHANGED, _OTHER, _ANSWERED = range(5)


@dataclass(frozen=True)
class _Look:
    """A notebook, read. rank: how much it may be the one that counts, see
    :func:`_choose`; why: it is not, in a few words.
    """

    of: _File
    submission: Submission
    rank: int
    why: str


def _look(file: _File, lab: str) -> _Look:
    """Read a notebook, and what it is for the lab."""
    try:
        notebook = ipynb.read(file.file.data())
        cells = ipynb.code(notebook)
    except Unreadable as error:
        torn = Submission("", problem=str(error), notebook=file.path)
        return _Look(file, torn, _UNREADABLE, "unreadable")
    digest = hashlib.sha256("\0".join(cells).encode("utf-8", "surrogatepass")).hexdigest()
    said = origin.of(notebook)
    read = Submission("", cells, notebook=file.path, digest=digest, origin=said)
    named = file.labs
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
    if named and not named & find_lab_numbers(lab) and not answers:
        return _Look(file, read, _OF_ANOTHER_LAB, "named after another lab")
    if not (answers or said.lab == lab or named):
        return _Look(file, read, _OTHER, f"nothing that {lab} asks for")
    if origin.is_unchanged(lab, cells):
        read.status = UNCHANGED
        read.remark = (
            f"this is the handout of {lab} as it was given out: it holds no answers. If you have"
            " answered, hand in the notebook that you saved"
        )
        return _Look(file, read, _UNCHANGED, "the unchanged handout")
    return _Look(file, read, _ANSWERED, "")


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
        (lambda f: f.placed.name.number, "the latest upload by the number in its name"),
    ):
        values = [key(look.of) for look in looks]
        if len(set(values)) > 1 and None not in values:
            latest = max(v for v in values if v is not None)
            looks = [look for look, value in zip(looks, values, strict=True) if value == latest]
            why = how
    # where nothing says which is later: the number of an upload, the file's own time, its path
    looks = sorted(
        looks,
        key=lambda look: (split_upload_suffix(look.of.own)[1], look.of.file.time, look.of.path),
    )
    return list({look.submission.digest: look for look in looks}.values())[::-1], why


def _choice(read: list[_Look], counting: list[_Look], why: str) -> str:
    """What there was to choose from, in sentences; "" where there was one notebook."""
    if len(read) < 2:
        return ""
    shown = [printable(look.of.path)[:80] for look in counting]
    rest = sorted(
        printable(look.of.path)[:80] + (f" ({look.why})" if look.why else "")
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


# --- what was handed in with it -------------------------------------------------------


def _with_files(look: _Look, files: list[_File], lab: str, beside: Iterable[str]) -> Submission:
    """The notebook with the files that the lab asks for, and own modules, beside it."""
    result = look.submission
    if result.problem:
        return result

    def asked(f: _File) -> tuple[str, int]:
        stem, number = split_upload_suffix(f.own)
        name = f"{stem.lower()}{f.file.suffix}"
        return (name, number) if name in beside else ("", 0)

    def imported(f: _File) -> tuple[str, int]:
        return modules.name_of(f.path, f.own, look.of.folder)

    with_it, own = (_nearest(files, look.of, name_of) for name_of in (asked, imported))
    used, more = modules.nearest(own)
    result.files = {name: with_it[name] for name in beside if name in with_it}
    result.files |= {path: own[path] for path in used}
    result.remark = " ".join(filter(None, [result.remark, more]))
    if result.files:
        result.digest = _with_contents(result.digest, result.beside())
    return result


def _nearest(
    files: list[_File], notebook: _File, name_of: Callable[[_File], tuple[str, int]]
) -> dict[str, File]:
    """By name, of several files the one that was handed in with the notebook: at the same
    time, in the same folder; else the newest.

    Args:
        name_of: a file's name, "" for one that is not meant, and the number that an upload
            of the same name added.
    """
    found: dict[str, tuple[tuple[object, ...], File]] = {}
    for f in files:
        name, number = name_of(f)
        near = (
            f.stamp == notebook.stamp,
            f.folder == notebook.folder,
            f.placed.name.number or 0,
            number,
            f.file.time,
            f.path,
        )
        if name and (name not in found or found[name][0] < near):
            found[name] = near, f.file
    return {name: file for name, (_, file) in found.items()}


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
