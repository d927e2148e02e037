"""``summary.html``: how a class did, on one page without a network. Made from the
results on disk, and made again at will.

It answers, in this order: how many points did they get; which questions cost them; what
was wrong, in the words they read; which submissions need a look (broken, slow, several
handed in); and where each one's page is.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean, median

from course_lib import labs
from course_lib.grading.batch import report as reports
from course_lib.grading.batch.collect import PENDING, REFUSED, UNCHANGED
from course_lib.grading.batch.result import Result, read_all, read_batch, to_look_at
from course_lib.labs.contract import order

CLAIMS = 15  # commonest failed claims shown
_VARYING = re.compile(
    r"[-+]?\d[\d.,]*(?:e[-+]?\d+)?|'[^']{0,200}'"
)  # numbers and quoted values: the same mistake in other words


_UNDEFINED = re.compile(r"(\w{1,99}) is not defined(?:, but (\w{1,99}) is)?")
_PACKAGE = re.compile(r"imports `([\w.]{1,99})`: no installed package")


def oddities(result: Result) -> list[str]:
    """What else a person should look at: names that are not there, packages that are
    missing here, another lab or release.
    """
    if result.status != "graded":
        said: dict[str, None] = {}
    else:
        said = dict.fromkeys([result.remark] if result.remark else [])
        missing = [found for e in result.entries if (found := _UNDEFINED.match(e.output))]
        if renamed := {found[1]: found[2] for found in missing}:
            listed = ", ".join(
                f"{name} (but {near} is)" if near else name for name, near in renamed.items()
            )
            said[f"not defined: {listed}"] = None
    texts = ["\n".join(result.notes), *(e.output for e in result.entries)]
    packages = {name for text in texts for name in _PACKAGE.findall(text)}
    if packages:
        said[f"neither installed nor handed in: {', '.join(sorted(packages))}"] = None
    return [*to_look_at(result), *said]


@dataclass
class Claim:
    """A claim that did not hold for ``count`` submissions, and what most of those were
    told.
    """

    question: str
    text: str
    hidden: bool
    count: int = 0
    wordings: Counter[str] = field(default_factory=Counter)
    example: dict[str, str] = field(default_factory=dict)

    def add(self, message: str) -> None:
        kind = _VARYING.sub("…", message)
        self.count += 1
        self.wordings[kind] += 1
        self.example.setdefault(kind, message)

    @property
    def messages(self) -> list[tuple[str, int]]:
        """The commonest messages (an example of each wording) with how many read it."""
        return [
            (self.example[kind], n)
            for kind, n in sorted(self.wordings.items(), key=lambda item: (-item[1], item[0]))[:3]
        ]

    @property
    def others(self) -> int:
        """How many read another message than the commonest three."""
        return self.count - sum(n for _, n in self.messages)


@dataclass
class Question:
    """How a question went: the points of each submission."""

    id: str
    names: str
    most: float
    earned: list[float]
    pending: int = 0  # submissions whose mark is a person's to give

    @property
    def counts(self) -> tuple[int, int, int]:
        """Submissions with all points, with some, with none."""
        full = sum(e >= self.most for e in self.earned)
        none = sum(e <= 0 < self.most for e in self.earned)
        return full, len(self.earned) - full - none, none

    @property
    def share(self) -> float:
        """Mean share of its points that was earned, 0 to 1."""
        return mean(self.earned) / self.most if self.earned and self.most else 0.0


def write(report: Path) -> Path:
    """Write ``summary.html`` into a report's folder.

    Args:
        report: what ``course grade --out`` made.

    Returns:
        The page.

    Raises:
        FileNotFoundError: if the folder holds no report.
    """
    batch = read_batch(report)
    results = list(read_all(report))
    decided = [r for r in results if not r.undecided]
    questions = _questions(decided, batch["lab"])
    full = {q.id: q.counts[0] for q in questions}
    claims = _claims(results)
    text = reports.pages.get_template("summary.html").render(
        lab=batch["lab"],
        seed=batch.get("seed"),
        results=results,
        questions=questions,
        isolation=list(dict.fromkeys(r.isolation for r in results)),
        middle=median(r.score for r in decided) if decided else 0,
        average=mean(r.score for r in decided) if decided else 0,
        most=max((r.max_score for r in results), default=0),
        statuses=Counter(r.status for r in results).most_common(),
        tried=sum(r.status == "graded" for r in results),
        undecided=len(results) - len(decided),
        claims=claims[:CLAIMS],
        more_claims=max(0, len(claims) - CLAIMS),
        broken=[r for r in results if r.status != "graded"],
        choices=[r for r in results if r.choice],
        odd=_odd(results),
        left=batch.get("left", []),
        changes=batch.get("changes", []),
        unsolved=[q for q in questions if q.earned and not full[q.id]],
        waiting=[q for q in questions if q.pending],
    )
    reports.write_text(report / "summary.html", text)
    return report / "summary.html"


def status_sentences(report: Path) -> list[str]:
    """Sentences on how many submissions were graded, are pending, refused, unchanged or
    otherwise not plainly graded, on each that is not, on what a teacher should look at, and on
    what changed since the run before.

    Raises:
        FileNotFoundError: if the folder holds no report.
    """
    counts = Counter({"graded": 0, "pending": 0, "refused": 0, "unchanged": 0})
    said = []
    undecided = 0
    for result in read_all(report):
        by_person = result.status in (PENDING, REFUSED, UNCHANGED) and not result.undecided
        status = "decided by a person" if by_person else result.status
        counts[status] += 1
        undecided += result.undecided
        if status != "graded":
            why = result.problem or result.remark or "; ".join(result.notes)
            decided = "" if result.undecided else f" ({result.score:g} points)"
            said.append(f"{status}: {result.id}{decided}: {why[:300]}")
        said += [f"look at {result.id}: {what}" for what in to_look_at(result)]
    total = sum(counts.values())
    each = ", ".join(f"{count} {status}" for status, count in counts.items())
    first = f"{total} submission{'s' * (total != 1)}: {each}"
    remedy = (
        f"{undecided} of them get no grade before a person has decided: replace the file and give"
        " the same command again, or write a row ID,all,0 into marks.csv for a 0"
    )
    changes = read_batch(report).get("changes", [])
    return [first, *said, *([remedy] if undecided else []), *changes]


def _odd(results: list[Result]) -> list[tuple[str, list[Result]]]:
    """What is odd, and of whom: what a whole class has is said once."""
    found: dict[str, list[Result]] = {}
    for result in results:
        for sentence in oddities(result):
            found.setdefault(sentence, []).append(result)
    return sorted(found.items(), key=lambda item: -len(item[1]))


def _questions(results: list[Result], lab: str) -> list[Question]:
    try:
        asked = {id: ", ".join(a.names) for id, a in labs.load(lab).questions.items()}
    except ValueError:
        asked = {}
    found = []
    for id in sorted({id for r in results for id in r.points if id[0].isdigit()}, key=order):
        of = [r.points.get(id, (0.0, 0.0)) for r in results]
        marked = [earned for r, (earned, _) in zip(results, of, strict=True) if id not in r.pending]
        most = max(most for _, most in of)
        found.append(Question(id, asked.get(id, ""), most, marked, len(results) - len(marked)))
    return found


def _claims(results: list[Result]) -> list[Claim]:
    """What did not hold, the commonest first; submissions that were not tried at all
    are listed elsewhere.
    """
    found: dict[tuple[str, str], Claim] = {}
    for result in results:
        for entry in result.entries if result.status == "graded" else ():
            if entry.status != "passed" and not entry.by_hand:
                text = entry.name.removeprefix(entry.number).strip()
                claim = found.setdefault(
                    (entry.number, entry.name),
                    Claim(entry.number, text, entry.visibility != "visible"),
                )
                claim.add(entry.output or "(no message)")
    return sorted(found.values(), key=lambda c: (-c.count, order(c.question), c.text))
