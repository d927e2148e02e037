"""Finds the submissions in a folder, or in a class's zip, and whose each is. Reads text
only; runs and unpacks nothing.

What is handed in may be hostile: whatever is wrong with one student's files is that
student's problem, in a sentence. Files are one student's only where a learning
management system's name or the student's own folder says so (:mod:`.platforms`,
:mod:`.layout`). Which of a student's notebooks counts: :mod:`.choose`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from course_lib.grading.batch import choose, layout
from course_lib.grading.batch.entries import on_disk
from course_lib.grading.batch.layout import Placed, latest
from course_lib.grading.batch.names import printable
from course_lib.grading.batch.platforms import Name
from course_lib.grading.batch.submission import REFUSED, Submission, separate_file_names

# of the files that are no submissions, how many are named one by one where there are
# more
SAID = 100
_CLAIMED = (
    "{mine} and {theirs} both say by their names that they are of {claim}, and differ in the rest"
    " of what the system writes: neither is graded until one of them is taken away or renamed"
)
_UNSURE = (
    "its name can be read as {claim}'s or, further on, as another's, and {claim} has handed in"
    " something else, too: it is not graded until it is renamed"
)


@dataclass(frozen=True)
class Collected:
    """What was found where submissions are to lie.

    Attributes:
        submissions: one per student, sorted by id.
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
            f"{printable(name)[:80]} is read as a section: what lies in it is one student's each"
            for name in self.sections
        ]
        said += [
            f"{printable(name)[:80]} is not taken for a submission: {why}"
            for name, why in self.left[:SAID]
        ]
        if len(self.left) > SAID:
            said.append(f"{len(self.left) - SAID} others are not taken for submissions either")
        return said


def collect(folder: Path, lab: str, beside: Iterable[str] = ()) -> Collected:
    """All submissions in a folder, or in a class's zip as a system gives it; and what
    else is there.

    Args:
        beside: names of files that the lab asks for beside the notebook.

    Raises:
        FileNotFoundError: if the folder does not exist or holds no submission.
        ValueError: if Gradescope's metadata cannot be read, or a folder may be one
            student's or a class's.
    """
    if not folder.exists():
        raise FileNotFoundError(
            f"{folder} does not exist: give the folder that holds the submissions"
        )
    placed, sections = layout.open_class(folder.resolve(), lab)
    by_system = any(p.name.known for p in placed)
    left: list[tuple[str, str]] = []
    taken: list[Placed] = []
    for p in placed:
        if p.name.known or layout.may_be_one(p.entry, named=not by_system):
            taken.append(p)
        else:
            left.append((p.path, layout.why_not(p.entry)))
    found = _read_all(_group_by_person(taken), lab, beside)
    if not found:
        listed = "".join(f"; {printable(name)[:80]}: {why}" for name, why in left[:3])
        raise FileNotFoundError(
            f"{folder.resolve()} holds no notebook, folder or zip: one of these per student is"
            f" expected{listed}"
        )
    separate_file_names(found.values())
    return Collected([found[id] for id in sorted(found)], left, sections)


def read_single_submission(
    folder: Path, lab: str, id: str = "submission", beside: Iterable[str] = ()
) -> Submission:
    """The submission of the one student whose files are in ``folder`` (or who handed in
    that file).
    """
    alone = Placed("", on_disk(folder), Name(("name", id), id, folder.name))
    return choose.read([alone], id, lab, beside)


# --- whose is what --------------------------------------------------------------------


@dataclass
class _Group:
    """The files and folders that are one student's by their names.

    Attributes:
        problem: why that cannot be relied on, in a sentence.
        people: of Gradescope's: whose they are, by what :func:`_identify` says.
    """

    items: list[Placed]
    problem: str = ""
    people: frozenset[str] = frozenset()

    def read(self, id: str, lab: str, beside: Iterable[str]) -> Submission:
        """The submission, of those of its people who are this group's."""
        if self.problem:
            name = self.items[0].name
            who = [] if name.unsure else [dict(person) for person in name.who]
            return Submission(id, problem=self.problem, status=REFUSED, submitters=who)
        read = choose.read(self.items, id, lab, beside)
        if self.people:
            read.submitters = [who for who in read.submitters if _identify(who) in self.people]
        return read


def _read_all(groups: list[_Group], lab: str, beside: Iterable[str]) -> dict[str, Submission]:
    """The submissions by id."""
    ids = Counter(latest(group.items).name.id for group in groups)
    found: dict[str, Submission] = {}
    for group in groups:
        last = latest(group.items)
        id = last.name.id
        if ids[id] > 1 and last.section and not last.name.known:
            id = f"{last.section}/{id}"
        submission = group.read(id, lab, beside)
        if group.people:  # Gradescope's: called as the folder that counts, which is each member's
            submission.id = submission.folder or id
            if same := found.get(submission.id):
                same.submitters += submission.submitters
                both = dict.fromkeys([same.choice, submission.choice])
                same.choice = " ".join(filter(None, both))
                continue
        if submission.id in found:
            submission.id = last.entry.name
        while submission.id in found:
            submission.id += "~"
        found[submission.id] = submission
    return found


def _group_by_person(placed: list[Placed]) -> list[_Group]:
    """Whose is what. Nobody's file stands in for another's: two that claim one person,
    and not alike, are both refused.
    """
    listed: list[Placed] = []
    together: dict[tuple[object, ...], list[Placed]] = {}
    for i, p in enumerate(placed):
        if p.name.key[0] == "gradescope":
            listed.append(p)
        else:
            # names that look alike (one with composed accents, say) are still two
            together.setdefault((p.name.key, p.name.prefix if p.name.known else i), []).append(p)
    groups: list[_Group] = []
    refused: list[_Group] = []
    rivals: dict[tuple[str, str], list[_Group]] = {}
    for items in together.values():
        key = items[0].name.key
        unsure = [p for p in items if p.name.unsure] if len(items) > 1 else []
        refused += [_Group([p], _UNSURE.format(claim=_claim(key))) for p in unsure]
        if sure := [p for p in items if p not in unsure]:
            groups.append(_Group(sure))
            if sure[0].name.known:
                rivals.setdefault(key, []).append(groups[-1])
    for key, claiming in rivals.items():
        shown = [repr(printable(group.items[0].entry.name)[:120]) for group in claiming]
        for i, group in enumerate(claiming) if len(claiming) > 1 else ():
            theirs = shown[(i + 1) % len(shown)]
            group.problem = _CLAIMED.format(mine=shown[i], theirs=theirs, claim=_claim(key))
    return [*groups, *refused, *_group_gradescope(listed)]


def _claim(key: tuple[str, str]) -> str:
    """Whom a name says that it is of: "Canvas's 12345"."""
    return f"{key[0].capitalize()}'s {key[1]}"


def _group_gradescope(placed: list[Placed]) -> list[_Group]:
    """Each member of a group has handed in what the group has, and what they have handed
    in otherwise: of that the latest counts, for each of them.
    """
    theirs: dict[str, list[Placed]] = {}
    for p in placed:
        for who in p.name.who:
            theirs.setdefault(_identify(who), []).append(p)
    same: dict[tuple[int, ...], _Group] = {}
    for person, items in theirs.items():
        group = same.setdefault(tuple(map(id, items)), _Group(items))
        group.people |= {person}
    return list(same.values())


def _identify(who: dict[str, str]) -> str:
    """What tells a member of a group from others. A name does not: there may be two."""
    return (who.get("email") or who.get("sid") or "\n".join(sorted(who.values()))).casefold()
