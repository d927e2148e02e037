"""Which submissions of a class share more code than others do: pairs to look at, with
no verdict.

Code is read as Python tokens, twice: as written, and with names and strings replaced,
so that renaming hides nothing. Lines that the handout has are left out. Of every run of
``GRAM`` tokens a hash is taken, and of every ``WINDOW`` neighbouring hashes
the smallest is kept as a fingerprint: any ``GRAM + WINDOW - 1`` equal tokens leave a
common one (Schleimer, Wilkerson & Aiken 2003, "Winnowing: Local Algorithms for Document
Fingerprinting", section 3).

Short functions have few honest forms. So fingerprints weigh as much as they are rare in
this class (log of class size over submissions that have it), and every figure stands
beside those of all other pairs.
"""

from __future__ import annotations

import builtins
import csv
import io
import keyword
import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from course_lib.grading.batch import origin, report
from course_lib.grading.batch.names import printable
from course_lib.grading.batch.submission import Submission

GRAM = 10  # tokens in a hash: shorter equal runs are noise
WINDOW = 6  # hashes of which one is kept
MAX_TOKENS = 200_000  # of one submission
PLACES = 8  # of one fingerprint in one text that are looked at for a passage
LONGEST = 5000  # tokens that a passage is followed to either side
PASSAGES = 12  # shown of a pair, the rarest first
LINES = 60  # shown of a passage
GAP = 3  # lines between two matching runs that are shown as one passage
CLUSTER = 0.8  # of rare code in common: so much alike that of several such pairs one is shown
LIBRARY = "course_lib"

_TOKEN = re.compile(
    r"""(?P<comment>\#[^\n]*)
    | (?P<string>(?i:\b[rbuft]{1,2}|)
        (?:\"\"\"(?:\\.|[^\\])*?(?:\"\"\"|\Z) | '''(?:\\.|[^\\])*?(?:'''|\Z)
        | "(?:\\.|[^"\\\n])*"? | '(?:\\.|[^'\\\n])*'?))
    | (?P<name>[^\W\d]\w*) | (?P<number>\.?\d[\w.]*)
    | (?P<operator>\*\*=? | //=? | >>=? | <<=? | -> | := | [-+*/%&|^@=<>!]=? | \S)""",
    re.VERBOSE | re.DOTALL,
)  # total, unlike tokenize: what does not parse is compared too
_KEPT = {*keyword.kwlist, *dir(builtins)}  # names that stay when the others are replaced


@dataclass(frozen=True)
class Tokens:
    """Some code as tokens: their hashes as written and with names replaced, each with
    its cell and line (from 1).

    Comments count as written, and are nothing in the other form.
    """

    exact: np.ndarray  # uint64
    plain: np.ndarray  # uint64
    cell: np.ndarray
    line: np.ndarray
    last: np.ndarray  # the line it ends on


@dataclass
class Text:
    """A submission, or the library, ready to be compared.

    Attributes:
        cells: its code, cell by cell. labels: how a page names the cells.
    """

    name: str
    cells: list[str]
    labels: list[str]
    tokens: Tokens

    @cached_property
    def code(self) -> np.ndarray:
        """Where its tokens without comments are."""
        return np.flatnonzero(self.tokens.plain)

    @cached_property
    def _prints(self) -> tuple[np.ndarray, np.ndarray]:
        return fingerprints(self.tokens.plain[self.code], self.tokens.cell[self.code])

    @cached_property
    def plain(self) -> np.ndarray:
        """The distinct fingerprints with names replaced, sorted."""
        return np.unique(self._prints[0])

    @cached_property
    def exact(self) -> np.ndarray:
        """Those of the code as written, comments included."""
        return np.unique(fingerprints(self.tokens.exact, self.tokens.cell)[0])

    @cached_property
    def places(self) -> dict[int, list[int]]:
        """At which of :attr:`code` each fingerprint begins."""
        found: dict[int, list[int]] = {}
        for value, at in zip(*(each.tolist() for each in self._prints), strict=True):
            found.setdefault(value, []).append(at)
        return found


@dataclass(frozen=True)
class Passage:
    """Matching lines of two texts: for each its place, and its lines with whether they
    match.

    Attributes:
        tokens: how many match. others: in how many further submissions it is found, at
            most.
    """

    left_at: str
    left: list[tuple[str, bool]]
    right_at: str
    right: list[tuple[str, bool]]
    tokens: int
    others: int


@dataclass(frozen=True)
class Pair:
    """Two texts. Shares are in [0, 1], of the one that has less.

    Attributes:
        rare: share of matching fingerprints, weighted by their rarity; pairs are sorted
            by it. alike: not weighted.
        exact: as written, names and comments included. matching: how many fingerprints
            match.
        rank: its place among all pairs (of its kind), 1 for the most alike. usual:
            median of ``rare`` of either with the whole class.
    """

    left: str
    right: str
    rare: float
    alike: float
    exact: float
    matching: int
    rank: int
    usual: tuple[float, float]
    passages: list[Passage]


@dataclass(frozen=True)
class Cluster:
    """Three or more submissions, each nearly the same as another of them: copies, and
    copies of copies.

    Attributes:
        names: theirs. least, most: ``rare`` of the least and the most alike pair of
            them.
    """

    names: list[str]
    least: float
    most: float


@dataclass(frozen=True)
class Similarity:
    """What :func:`compare` found: pairs of submissions, and submissions beside the
    library, the most alike first.

    Attributes:
        clusters: the largest first. pairs: of those inside a cluster, and of those
            between the same two, the first alone.
        earlier: submissions beside those of earlier terms, ``against`` how many.
            compared: how many submissions. shares: ``rare`` of every pair. left_out:
            submissions not compared, with the reason.
    """

    compared: int
    clusters: list[Cluster]
    pairs: list[Pair]
    library: list[Pair]
    shares: np.ndarray
    left_out: list[tuple[str, str]]
    earlier: list[Pair] = field(default_factory=list)
    against: int = 0


def compare(
    submissions: Iterable[Submission],
    handout: Sequence[str],
    library: dict[str, str],
    most: int = 40,
    against: Iterable[Submission] = (),
) -> Similarity:
    """Compare every submission with every other, with the library, and with those of
    earlier terms.

    Args:
        handout: the code cells that everybody got.
        library: source by file name.
        most: how many pairs to list.
        against: what was handed in for the same lab in earlier terms; it is not
            compared with itself.
    """
    known = {line.strip() for cell in handout for line in cell.split("\n")}
    left_out: list[tuple[str, str]] = []
    texts, earlier = _texts(submissions, known, left_out), _texts(against, known, left_out)
    ours = Text(LIBRARY, list(library.values()), list(library), tokens([*library.values()], set()))
    counts = _matrix([*texts, *earlier, ours], lambda text: text.plain)
    students = counts[: len(texts)]
    having = np.asarray(students.sum(axis=0)).ravel()  # submissions that have each fingerprint
    weight = np.log((len(texts) + 1) / np.maximum(having, 1))
    common = Counter(int(value) for text in texts for value in text.plain)

    def beside(others: Sequence[Text], theirs: sparse.csr_matrix) -> _Comparison:
        rare, matching = _shares(students, theirs, weight)
        alike, _ = _shares(students, theirs, np.ones_like(weight))
        return _Comparison(texts, others, rare, alike, matching, common)

    each = beside(texts, students)
    written = _matrix(texts, lambda text: text.exact)
    exact, _ = _shares(written, written, np.ones(written.shape[1]))
    np.fill_diagonal(each.rare, np.nan)
    upper = np.triu_indices(len(texts), 1)
    shares = each.rare[upper]
    usual = np.nanmedian(each.rare, axis=1) if len(texts) > 1 else np.zeros(len(texts))
    cluster, clusters = _clusters(texts, each.rare)
    order = np.lexsort((-each.matching[upper], -shares))
    # (2, pairs)
    between = np.sort(np.stack([cluster[upper[0]], cluster[upper[1]]]), axis=0)[:, order]
    order = order[np.sort(np.unique(between, axis=1, return_index=True)[1])][:most]
    pairs = [
        each.pair(i, j, exact[i, j], shares, (usual[i], usual[j]))
        for i, j in ((upper[0][k], upper[1][k]) for k in order if shares[k] > 0)
    ]
    taken = beside([ours], counts[-1:])
    median = np.median(taken.rare) if texts else 0.0
    from_library = [
        taken.pair(
            i, 0, _written_alike(texts[i], ours) / len(texts[i].exact), taken.rare, (median,)
        )
        for i in taken.most_alike()[: max(1, most // 4)]
    ]
    again: list[Pair] = []
    if earlier:
        before = beside(earlier, counts[len(texts) : -1])
        for i in before.most_alike()[:most]:
            j = int(before.rare[i].argmax())
            of = max(1, min(len(texts[i].exact), len(earlier[j].exact)))
            alike = _written_alike(texts[i], earlier[j]) / of
            again.append(before.pair(i, j, alike, before.rare, (np.median(before.rare[i]),)))
    return Similarity(
        len(texts), clusters, pairs, from_library, np.sort(shares), left_out, again, len(earlier)
    )


@dataclass(frozen=True)
class _Comparison:
    """Every submission beside each of some other texts, or beside every other submission.

    Attributes:
        rare, alike, matching: (texts, others), see :class:`Pair`.
        having: in how many submissions each fingerprint is.
    """

    texts: Sequence[Text]
    others: Sequence[Text]
    rare: np.ndarray
    alike: np.ndarray
    matching: np.ndarray
    having: Counter[int]

    def most_alike(self) -> list[int]:
        """The submissions that have something in common with one of the others, the most
        alike first.
        """
        shares = self.rare.max(1) if len(self.texts) else np.empty(0)
        return [i for i in np.argsort(-shares, kind="stable").tolist() if shares[i] > 0]

    def pair(
        self, i: int, j: int, exact: float, shares: np.ndarray, usual: tuple[float, ...]
    ) -> Pair:
        """Submission i beside text j.

        Args:
            exact: see :class:`Pair`. shares: of all pairs of this kind. usual: of both;
                one number counts for both.
        """
        own = 2 if self.others is self.texts else 1
        return Pair(
            self.texts[i].name,
            self.others[j].name,
            float(self.rare[i, j]),
            float(self.alike[i, j]),
            float(exact),
            int(self.matching[i, j]),
            1 + int((shares > self.rare[i, j]).sum()),
            (float(usual[0]), float(usual[-1])),
            passages(self.texts[i], self.others[j], self.having, own),
        )


def _written_alike(left: Text, right: Text) -> int:
    """How many fingerprints of the code as written two texts have in common."""
    return int(np.isin(left.exact, right.exact).sum())


def _texts(
    submissions: Iterable[Submission], known: set[str], left_out: list[tuple[str, str]]
) -> list[Text]:
    """The submissions that can be compared; the others go to ``left_out``."""
    texts = []
    for submission in submissions:
        own = {
            name: data.decode("utf-8", "replace")
            for name, data in submission.beside()
            if name.endswith(".py") and isinstance(data, bytes)
        }
        labels = [f"cell {i}" for i in range(1, len(submission.cells) + 1)]
        cells = [*submission.cells, *own.values()]
        text = Text(submission.id, cells, [*labels, *own], tokens(cells, known))
        if submission.problem:
            left_out.append((submission.id, submission.problem))
        elif not len(text.plain):
            left_out.append((submission.id, f"fewer than {GRAM} tokens of its own in any cell"))
        else:
            texts.append(text)
    return texts


def _clusters(texts: Sequence[Text], rare: np.ndarray) -> tuple[np.ndarray, list[Cluster]]:
    """For each text the number of its cluster (most are alone in one), and those of
    three and more.
    """
    number = connected_components(
        sparse.csr_matrix(np.nan_to_num(rare) >= CLUSTER), directed=False
    )[1]
    found = []
    for members in (np.flatnonzero(number == n) for n in range(number.max(initial=-1) + 1)):
        if len(members) > 2:
            inside = rare[np.ix_(members, members)]
            them = sorted(texts[i].name for i in members.tolist())
            found.append(Cluster(them, float(np.nanmin(inside)), float(np.nanmax(inside))))
    return number, sorted(found, key=lambda c: (-len(c.names), c.names))


def tokens(cells: Sequence[str], known: set[str]) -> Tokens:
    """The tokens of some code, but those on lines (stripped) that are ``known``."""
    exact: list[int] = []
    plain: list[int] = []
    places: list[tuple[int, int, int]] = []
    for number, source in enumerate(cells):
        lines = source.split("\n")
        ours = [line.strip() not in known for line in lines]
        if not any(ours):
            continue
        line, done, before = 1, 0, ""
        for found in _TOKEN.finditer(source):
            text, kind = found[0], found.lastgroup
            line += source.count("\n", done, found.start())
            done = found.start()
            last = line + text.count("\n")
            if any(ours[line - 1 : last]):
                exact.append(zlib.crc32(text.encode("utf-8", "backslashreplace")) + 1)
                if kind == "comment":
                    plain.append(0)
                elif kind == "string" or (kind == "name" and text not in _KEPT and before != "."):
                    plain.append(1 if kind == "string" else 2)
                else:
                    plain.append(exact[-1] + 2)
                places.append((number, line, last))
                if len(exact) == MAX_TOKENS:
                    break
            before = text
        if len(exact) == MAX_TOKENS:
            break
    cell, first, end = np.array(places, dtype=np.int64).reshape(-1, 3).T
    return Tokens(
        np.array(exact, dtype=np.uint64), np.array(plain, dtype=np.uint64), cell, first, end
    )


def fingerprints(codes: np.ndarray, cell: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Winnowing: the fingerprints of a row of tokens, and where each begins.

    Args:
        codes: (n,) uint64, a number per token.
        cell: (n,) the cell of each; no fingerprint reaches from one cell into the next.
    """
    if len(codes) < GRAM:
        return np.empty(0, np.uint64), np.empty(0, np.int64)
    grams = np.lib.stride_tricks.sliding_window_view(codes, GRAM)  # (n - GRAM + 1, GRAM)
    hashes = np.zeros(len(grams), np.uint64)
    # a polynomial modulo 2^64, mixed so that the smallest is any of them (splitmix64)
    for column in grams.T:
        hashes = hashes * np.uint64(0x100000001B3) + column
    hashes = (hashes ^ (hashes >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    hashes = (hashes ^ (hashes >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    hashes ^= hashes >> np.uint64(31)
    inside = np.flatnonzero(cell[: len(grams)] == cell[GRAM - 1 :])
    chosen = []
    for run in np.split(inside, np.flatnonzero(np.diff(inside) > 1) + 1):  # one cell each
        if len(run):
            windows = np.lib.stride_tricks.sliding_window_view(hashes[run], min(WINDOW, len(run)))
            chosen.append(
                run[
                    np.unique(
                        np.arange(len(windows)) + windows.shape[1] - 1 - windows[:, ::-1].argmin(1)
                    )
                ]
            )
    where = np.concatenate(chosen) if chosen else np.empty(0, np.int64)
    return hashes[where], where


def _matrix(texts: Sequence[Text], prints: Callable[[Text], np.ndarray]) -> sparse.csr_matrix:
    """(texts, distinct fingerprints), 1 where a text has the fingerprint."""
    rows = [prints(text) for text in texts]
    values, column = np.unique(np.concatenate([*rows, np.empty(0, np.uint64)]), return_inverse=True)
    starts = np.cumsum([0, *map(len, rows)])
    return sparse.csr_matrix((np.ones(len(column)), column, starts), shape=(len(rows), len(values)))


def _shares(
    a: sparse.csr_matrix, b: sparse.csr_matrix, weight: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Weight in common of every row of ``a`` with every row of ``b``, as a share; and
    how many fingerprints are in common.

    The share is of the row that has less, but of no less than half of a usual row of
    ``a``: who has handed in one short function is not alike to everybody.
    """
    own, other = a @ weight, b @ weight
    usual = float(np.median(own)) / 2 if len(own) else 0.0
    whole = np.maximum(np.minimum(own[:, None], other[None, :]), usual)
    both = (a.multiply(weight) @ b.T).toarray()
    return np.divide(both, whole, out=np.zeros_like(both), where=whole > 0), (a @ b.T).toarray()


def passages(left: Text, right: Text, having: dict[int, int], own: int) -> list[Passage]:
    """What two texts have in common, the rarest and longest first.

    Args:
        having: in how many submissions each fingerprint is. own: how many of them are
            these two.
    """
    a, b = left.tokens.plain[left.code], right.tokens.plain[right.code]
    cell_a, cell_b = left.tokens.cell[left.code], right.tokens.cell[right.code]
    # where a run begins in both -> its tokens, its rarity
    runs: dict[tuple[int, int], tuple[int, int]] = {}
    # by how far the places are apart: the last such run, and where it ends
    found: dict[int, tuple[int, int]] = {}
    seeds = [
        (x, y, max(0, having.get(value, own) - own))
        for value in np.intersect1d(left.plain, right.plain, assume_unique=True).tolist()
        for x, y in product(left.places[value][:PLACES], right.places[value][:PLACES])
    ]
    for x, y, others in sorted(seeds):
        begin, end = found.get(y - x, (0, 0))
        if x >= end:
            (start, stop), (start_b, stop_b) = _cell(cell_a, x), _cell(cell_b, y)
            end = x + max(GRAM, _count_alike(a[x:stop], b[y:stop_b]))
            begin = x - _count_alike(a[start:x][::-1], b[start_b:y][::-1])
            found[y - x] = (begin, end)
        spot = (begin, begin + y - x)
        runs[spot] = (end - begin, min(others, runs.get(spot, (0, others))[1]))
    merged = _merged(left, right, _tiles(runs, len(a), len(b)))
    return sorted(merged, key=lambda passage: (passage.others, -passage.tokens))[:PASSAGES]


def _tiles(
    runs: dict[tuple[int, int], tuple[int, int]], n: int, m: int
) -> dict[tuple[int, int], tuple[int, int]]:
    """The runs without those that lie, by half or more, in longer ones: the same code
    is shown once.
    """
    kept: dict[tuple[int, int], tuple[int, int]] = {}
    covered, covered_too = np.zeros(n, bool), np.zeros(m, bool)
    for (x, y), (length, others) in sorted(runs.items(), key=lambda item: (-item[1][0], item[0])):
        mine, theirs = covered[x : x + length], covered_too[y : y + length]
        if max(mine.mean(), theirs.mean()) < 0.5:
            kept[x, y] = (length, others)
            mine[:] = theirs[:] = True
    return kept


def _cell(cells: np.ndarray, at: int) -> tuple[int, int]:
    """Where the cell of a token begins and ends; cells are in order."""
    begin, end = np.searchsorted(cells, [cells[at], cells[at] + 1])
    return int(begin), int(end)


def _count_alike(a: np.ndarray, b: np.ndarray) -> int:
    """With how many equal tokens two rows begin, of at most :data:`LONGEST`."""
    n = min(len(a), len(b), LONGEST)
    return int(np.argmin(np.append(a[:n] == b[:n], False)))


def _merged(left: Text, right: Text, runs: dict[tuple[int, int], tuple[int, int]]) -> list[Passage]:
    """Runs as passages; runs that follow each other closely in both texts become
    one.
    """
    found: list[dict[str, Any]] = []
    for (x, y), (length, others) in sorted(runs.items()):
        mine, theirs = left.code[x : x + length], right.code[y : y + length]
        here = {
            "cells": (left.tokens.cell[mine[0]], right.tokens.cell[theirs[0]]),
            "left": _lines(left, mine),
            "right": _lines(right, theirs),
            "tokens": length,
            "others": others,
        }
        near = next(
            (p for p in reversed(found[-8:]) if p["cells"] == here["cells"] and _follows(p, here)),
            None,
        )
        if near is None:
            found.append(here)
        else:
            near["left"] |= here["left"]
            near["right"] |= here["right"]
            near["tokens"] += length
            near["others"] = min(near["others"], others)
    return [
        Passage(
            *_shown(left, p["cells"][0], p["left"]),
            *_shown(right, p["cells"][1], p["right"]),
            p["tokens"],
            p["others"],
        )
        for p in found
    ]


def _lines(text: Text, where: np.ndarray) -> set[int]:
    """The lines that some of its tokens are on."""
    return {
        line
        for i in where
        for line in range(int(text.tokens.line[i]), int(text.tokens.last[i]) + 1)
    }  # fmt: skip


def _follows(before: dict[str, Any], after: dict[str, Any]) -> bool:
    return all(
        max(before[side]) - 1 <= min(after[side]) <= max(before[side]) + GAP
        for side in ("left", "right")
    )


def _shown(text: Text, cell: int, matching: set[int]) -> tuple[str, list[tuple[str, bool]]]:
    """Where a passage is, and its lines."""
    lines = text.cells[cell].split("\n")
    first, last = min(matching), min(max(matching), min(matching) + LINES - 1)
    body = [(lines[n - 1], n in matching) for n in range(first, last + 1)]
    return f"{text.labels[cell]}, line {first}", body


# The page and the table

_HEADER = [
    "first",
    "second",
    "rare",
    "alike",
    "exact",
    "matching",
    "rank",
    "usual_first",
    "usual_second",
    "cluster",
]


def write(found: Similarity, lab: str, out: Path) -> tuple[Path, Path]:
    """The page ``out`` and a table beside it (``.csv``), both whole or not at all."""
    counts, edges = np.histogram(found.shares, bins=40, range=(0, 1))
    page = report.pages.get_template("similarity.html").render(
        lab=lab,
        found=found,
        counts=counts.tolist(),
        highest=max(1, int(counts.max())),
        edges=edges.tolist(),
        middle=float(np.median(found.shares)) if len(found.shares) else 0.0,
        high=float(np.quantile(found.shares, 0.99)) if len(found.shares) else 0.0,
        library=LIBRARY,
    )
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\r\n")
    rows.writerow(_HEADER)
    for pair in [*found.pairs, *found.earlier, *found.library]:
        figures = (pair.rare, pair.alike, pair.exact, pair.matching, pair.rank, *pair.usual)
        both = next(
            (c.names for c in found.clusters if pair.left in c.names and pair.right in c.names), []
        )
        rows.writerow(
            [
                report.cell(printable(pair.left)),
                report.cell(printable(pair.right)),
                *(f"{figure:.4g}" for figure in figures),
                report.cell(printable("; ".join(both))),
            ]
        )
    table = out.with_suffix(".csv")
    report.write_text(table, text.getvalue())
    report.write_text(out, page)
    return out, table


def course_texts(lab: str) -> tuple[list[str], dict[str, str]]:
    """The code cells of a lab's handout, and the library's source by file name.

    Raises:
        FileNotFoundError: if the course has no such lab.
    """
    handout = origin.read_handout(lab)
    if not handout:
        raise FileNotFoundError(
            f"the course has no {lab}: name a lab as lab01, inside the course's folder, and run"
            " `course build` first"
        )
    package = Path(__file__).parents[2]
    sources = {
        str(path.relative_to(package.parent)): path.read_text(encoding="utf-8")
        for path in sorted(package.rglob("*.py"))
    }
    return origin.sources(handout), sources
