"""The marks in the table that a platform exports and takes back: Canvas's gradebook, Moodle's
grading worksheet in any language, Gradescope's export, or any table with a column that says
whose a row is.

Only cells of one column change; every other byte of the table stays. A row is a submission's if
the student's number at the platform, email address or student number, or the submission's id
stands in it. A row whose mark is not sure gets none, and a sentence says why.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from unicodedata import normalize

from course_lib.files import write_atomic
from course_lib.grading.batch.collect import Submission, printable
from course_lib.grading.batch.manual_marks import decode
from course_lib.grading.batch.result import Result, read_all, read_batch

# "No" in Moodle's column "Grade can be changed"
_NO = {
    *("no", "nein", "non", "nee", "nej", "nei", "não", "nao", "ne", "nie", "не", "нет", "ні"),
    *("nem", "ei", "hayır", "いいえ", "否", "아니요", "لا", "לא", "όχι", "nu", "ez"),
}
_GRADESCOPES = re.compile(r"(?i) - (max points|submission time|lateness\b.*)$")


def fill(
    report: Path,
    table: Path,
    column: str = "",
    pending_as_zero: bool = False,
    overwrite: bool = False,
    groups: Path | None = None,
) -> tuple[Path, list[str]]:
    """Write ``gradebook.csv`` into a report's folder: the table with the points in a column.

    Args:
        column: its heading; by default the one that names this lab, else "Grade".
        pending_as_zero: what a person has still to mark counts as 0, instead of holding the
            total back.
        overwrite: replace marks that are there already.
        groups: a table of the platform's with a column "group_name" or "group": members without
            a submission get the mark of the one that their group handed in.

    Returns:
        The file, and sentences on who got no points in it.

    Raises:
        ValueError: if the table or the column cannot be used, or its maximum is not the lab's.
            Nothing is written then.
    """
    text, separator, encoding = decode(table)
    bom = text[: text.startswith("\ufeff")]
    rows = _split(text[len(bom) :], separator, table)
    plain = [[_value(cell) for cell in row[:-1]] for row in rows]
    header, lab = (plain[0] if plain else []), read_batch(report)["lab"]
    at = _column(header, column, lab)
    results = [r.with_pending_as_zero() if pending_as_zero else r for r in read_all(report)]
    bodies = [i for i, row in enumerate(plain) if i and not _is_canvas_own(row, at)]
    worksheet = _is_worksheet(plain, bodies, at)
    _check_maximum(plain, bodies, at, worksheet, results, table)

    owners = _owners(results, groups)
    rows_of = _matched([who for _, who in owners], plain, bodies, at)
    times = Counter(i for found in rows_of for i in found)
    said, filled = [], set()
    for (result, who), found in zip(owners, rows_of, strict=True):
        points = "" if result.undecided else f" ({result.score:g} points)"
        name = f"{printable(result.id)}{points}"
        if who.get("group"):
            name += f", for the group member {printable(next(iter(who.values())))},"
        if result.undecided or result.pending:
            why = "it has no grade until a person has decided"
            filled |= set(found)
        elif len(found) != 1:
            why = f"{len(found)} rows fit it"
        elif times[found[0]] > 1:
            why = "another submission fits its row, too"
        else:
            filled.add(found[0])
            why = _put(rows[found[0]], plain[found[0]], at, result, worksheet, separator, overwrite)
        if why:
            said.append(f"{name} is not in it: {why}")
    left = [i for i in bodies if i not in filled and any(plain[i])]
    if left:
        names = [" ".join(c for c in plain[i][:2] if c) for i in left[:5]]
        more = ", …" if len(left) > 5 else ""
        said.append(
            f"rows without a submission, left as they are: {len(left)}"
            f" ({printable('; '.join(names))}{more})"
        )
    whole = bom + "".join("".join(part) for row in rows for part in row)
    write_atomic(report / "gradebook.csv", whole.encode(encoding))
    return report / "gradebook.csv", said


def names(table: Path, submissions: Sequence[Submission]) -> dict[str, str]:
    """The students' names by submission, as the platform's table has them."""
    text, separator, _ = decode(table)
    rows = _split(text.removeprefix("\ufeff"), separator, table)
    plain = [[_value(cell) for cell in row[:-1]] for row in rows]
    heads = [h.casefold() for h in plain[0]] if plain else []
    wanted = [{"student"}, {"full name"}, {"name"}, {"first name", "last name"}]
    wanted += [{"firstname", "lastname"}]
    at = next((sorted(map(heads.index, some)) for some in wanted if some <= set(heads)), None)
    if at is None:
        return {}
    owners = [(s.id, who) for s in submissions for who in _people(s.submitters, s.id)]
    matched = _matched([who for _, who in owners], plain, list(range(1, len(plain))), -1)
    found: dict[str, list[str]] = defaultdict(list)
    for (id, _), some in zip(owners, matched, strict=True):
        found[id] += [" ".join(plain[i][c] for c in at if c < len(plain[i])) for i in some[:1]]
    return {id: " and ".join(some) for id, some in found.items() if any(some)}


def _people(submitters: list[dict[str, str]], id: str) -> list[dict[str, str]]:
    people = [{k: w[k] for k in _KINDS if w.get(k)} for w in submitters]
    return [who or {"id": id} for who in people or [{}]]


Cell = tuple[str, str]  # as it stands there; the separator or the line's end behind it


def _split(text: str, separator: str, table: Path) -> list[list[Cell]]:
    """The rows; the last cell of each is empty and holds no value: it ends the line."""
    pattern = re.compile(
        rf'("(?:[^"]|"")*"|(?!")[^{separator}\r\n]*)({separator}|\r\n|\n|\r|\Z)', re.DOTALL
    )
    rows: list[list[Cell]] = []
    row: list[Cell] = []
    place = 0
    while place < len(text) or row:
        if (found := pattern.match(text, place)) is None:
            line = text.count("\n", 0, place) + 1
            raise ValueError(f"{table}, line {line}: a quote is not closed: export the table again")
        place = found.end()
        if found[2] == separator:
            row.append((found[1], separator))
        else:
            rows.append([*row, (found[1], ""), ("", found[2])])
            row = []
    return rows


def _value(cell: Cell) -> str:
    text = cell[0]
    return (text[1:-1].replace('""', '"') if text.startswith('"') else text).strip()


def _is_canvas_own(row: Sequence[str], at: int) -> bool:
    """Canvas's rows below the heading, "Manual Posting" and "Points Possible", are nobody's."""
    return "Points Possible" in row[:2] or (
        not any(row[:3]) and any(cell.startswith("Manual Posting") for cell in row)
    )


def _is_worksheet(plain: list[list[str]], bodies: list[int], at: int) -> bool:
    """Moodle's worksheet: "Participant 123" first, the maximum behind the grade."""
    return bool(bodies) and all(
        re.fullmatch(r"\D+\d+", plain[i][0])
        and len(plain[i]) > at + 1
        and _number(plain[i][at + 1])
        for i in bodies
        if any(plain[i])
    )


def _number(text: str) -> float | None:
    found = re.fullmatch(r"\d+(?:[.,]\d+)?", text)
    return float(text.replace(",", ".")) if found else None


def _check_maximum(
    plain: list[list[str]],
    bodies: list[int],
    at: int,
    worksheet: bool,
    results: list[Result],
    table: Path,
) -> None:
    """Raises ValueError where the platform's maximum is another than the lab's."""
    most = max((r.max_score for r in results), default=0.0)
    behind = plain[0][at + 1] if at + 1 < len(plain[0]) else ""
    stated = [row[at] for row in plain[1:] if "Points Possible" in row[:2] and at < len(row)]
    if worksheet or re.search(r"(?i) - max points$", behind):
        stated += [plain[i][at + 1] for i in bodies if at + 1 < len(plain[i])]
    for text in stated:
        given = _number(text)
        if most and given is not None and abs(given - most) > 1e-9:
            raise ValueError(
                f"{table}, column {plain[0][at]!r}: the platform's maximum is {given:g} points and"
                f" the lab's {most:g}: make the assignment's {most:g}, and export the table again"
            )


_KINDS = ("canvas id", "moodle id", "email", "sid")


def _owners(results: list[Result], groups: Path | None) -> list[tuple[Result, dict[str, str]]]:
    """Each submission with each of those whose mark it is."""
    owners: list[tuple[Result, dict[str, str]]] = []
    for result in results:
        owners += [(result, who) for who in _people(result.submitters, result.id)]
    if groups is None:
        return owners
    text, separator, _ = decode(groups)
    rows = [
        [_value(c) for c in row[:-1]]
        for row in _split(text.removeprefix("\ufeff"), separator, groups)
    ]
    heads = [h.casefold() for h in rows[0]] if rows else []
    at = next((heads.index(h) for h in ("group_name", "group") if h in heads), None)
    if at is None:
        raise ValueError(
            f"{groups}, line 1: no column group_name or group; export the groups, or write a table"
            " with one"
        )
    bodies = [i for i, row in enumerate(rows) if i and len(row) > at and row[at]]
    row_of = _matched([who for _, who in owners], rows, bodies, at)
    handed: dict[str, list[tuple[int, int]]] = defaultdict(list)  # by group: owner, row
    for k, found in enumerate(row_of):
        if len(found) == 1:
            handed[rows[found[0]][at]].append((k, found[0]))
    for i in bodies:
        some = handed.get(rows[i][at], [])
        if i in [row for _, row in some] or len({owners[k][0].id for k, _ in some}) != 1:
            continue
        k, row = some[0]
        known = {_folded(v) for v in owners[k][1].values()}
        where = next(c for c, cell in enumerate(rows[row]) if _folded(cell) in known)
        kind = next(
            kind for kind, v in owners[k][1].items() if _folded(v) in _folded(rows[row][where])
        )
        owners.append((owners[k][0], {kind: rows[i][where], "group": rows[i][at]}))
    return owners


def _matched(
    people: list[dict[str, str]], plain: list[list[str]], bodies: list[int], but: int
) -> list[list[int]]:
    """The rows of each. What is looked for stands in one column, the one where most are found:
    a mark of 20 is not the student number 20.
    """
    width = max((len(row) for row in plain), default=0)
    index: list[dict[str, list[int]]] = [defaultdict(list) for _ in range(width)]
    for i in bodies:
        for c, cell in enumerate(plain[i]):
            if cell and c != but:
                index[c][_folded(cell)].append(i)
                if c == 0 and (number := re.fullmatch(r"\D+(\d+)", cell)):
                    index[c][number[1]].append(i)
    best: dict[str, int | None] = {}
    for kind in (*_KINDS, "id"):
        wanted = {_folded(who[kind]) for who in people if kind in who}
        hits = [len(wanted & known.keys()) for known in index]
        best[kind] = hits.index(max(hits)) if any(hits) else None
    return [
        sorted(
            {
                i
                for kind, value in who.items()
                if (at := best.get(kind)) is not None
                for i in index[at].get(_folded(value), ())
            }
        )
        for who in people
    ]


def _put(
    row: list[Cell],
    plain: list[str],
    at: int,
    result: Result,
    worksheet: bool,
    separator: str,
    overwrite: bool,
) -> str:
    """Write the points into a row's cell; why not, where they are not written."""
    there = plain[at] if at < len(plain) else ""
    if worksheet and len(plain) > at + 2 and plain[at + 2].casefold() in _NO:
        return "its row is locked on the platform"
    if there.upper() in ("EX", "EXCUSED"):
        return "the student is excused (EX) on the platform"
    if there not in ("", "-") and _number(there) == result.score:
        return ""
    if there not in ("", "-") and not overwrite:
        return f"its row has {printable(there)} already, which is kept (--overwrite replaces it)"
    while len(row) < at + 2:  # a row that ends before the column
        row.insert(-1, ("", ""))
        row[-3] = (row[-3][0], separator)
    text = f"{result.score:g}"
    row[at] = (f'"{text}"' if row[at][0].startswith('"') else text, row[at][1])
    return ""


def _column(header: Sequence[str], asked: str, lab: str) -> int:
    number = re.compile(rf"(?i)\blab[-_ ]*0*{int(lab[3:])}(?!\d)")
    for fits in (
        lambda h: asked and h.casefold() == asked.strip().casefold(),
        lambda h: asked and h.casefold().startswith(asked.strip().casefold()),
        lambda h: not asked and number.search(h) and not _GRADESCOPES.search(h),
        lambda h: not asked and h.casefold() == "grade",
    ):
        if len(found := [i for i, heading in enumerate(header) if fits(heading)]) == 1:
            return found[0]
    raise ValueError(f"which column takes the points? Name it with --column: {', '.join(header)}")


def _folded(text: str) -> str:
    return normalize("NFC", normalize("NFC", text.strip()).casefold())
