"""The labs' bold sentences, each a row of ``data/claims.csv`` and computed when a lab is
built.

A line ``{{claim 01.3}}`` of a lab's text becomes the sentence in bold, its difference with
the interval, and what real data say; ``{{difference 01.3}}`` the difference alone. The
page of real data and ``solutions/index`` come from the same rows. Where a table does not
show what its row states, nothing is built.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.special import nctdtrinc, stdtrit

from course_lib.authoring.errors import Problems, error
from course_lib.intervals import SAME, interval, per_seed

FILE, PAGE = Path("data") / "claims.csv", Path("docs") / "real_data.md"
MOST = 6  # claims of a lab
KINDS, OPTIONAL = ("greater", "no difference", "value"), ("where", "function", "real")
CALL = re.compile(r"^\{\{(claim|difference) (\S+)\}\}$")
DISAGREEMENTS = "{{disagreements}}"  # in solutions/index.md
# columns that count what an arm keeps or computes: equal between arms, within 5 %
COUNTS = ("remaining", "removed", "closed", "macs", "products", "share")
# how the name of a result ends, or begins -> its data
DATA = {"digits": "digits", "mnist": "MNIST", "cifar10": "CIFAR-10", "sst2": "SST-2"}
DATA |= {"glue": "GLUE", "multi30k": "Multi30k", "lab08": "sentence pairs", "lab11": "hidden draws"}
DATA |= {"lab12": "WikiText-2"}
_HEAD = "| claim | the lab says | measured | the course's data | real data |\n" + "|---" * 5 + "|"
AGREE = ("holds", "as stated, one run", "one run")
_BOLD = re.compile(r"\*\*(?=\S)((?:(?!\n\s*\n|\*\*).)+)\*\*", re.DOTALL)
# words by which a sentence compares
_COMPARES = re.compile(
    r"(?i)\b(better|best|worse|worst|than|beats?|outperforms?|exceeds?|ahead|differences?"
    r"|as (good|accurate|fast) as|faster|slower|fewer|higher|lower|helps?|matters?|hardly"
    r"|gains?|enough)\b"
)


class Claim(NamedTuple):
    """A row of ``data/claims.csv``.

    Attributes:
        kind: "greater" (``method`` is above ``against``), "no difference" (the interval of
            their difference contains 0) or "value" (the interval of ``method`` contains
            the number ``against``).
        by: the column that names the arms.
        where: only rows with these entries, "sparsity=0.9; step=pruned", and those without
            one (of the dense model).
        function: the one of :data:`FUNCTIONS` that first changes the table, or "".
        real: other results with this table, and where they differ: "lab07_sst2
            removed=0.58; lab03_tickets_mnist epochs=".
    """

    id: str
    kind: str
    sentence: str
    experiment: str
    table: str
    by: str
    measure: str
    method: str
    against: str
    where: str
    function: str
    unit: str
    real: str
    line: int = 0


class Finding(NamedTuple):
    """A difference: mean over runs and half of its 95 % interval (NaN for one run)."""

    data: str
    mean: float
    half: float
    runs: int
    verdict: str

    def text(self, claim: Claim, unit: bool = True) -> str:
        """+3.2 ± 1.1 points (digits, 5 runs)."""
        from course_lib.show.words import pm_text

        digits = 1 if np.isnan(self.half) or self.half >= 0.1 else 2
        number = pm_text(self.mean, self.half, digits, sign=claim.kind != "value")
        number += f" {claim.unit}" * unit
        what = "window" if claim.function == "by_window" else "run"
        return f"{number} ({self.data}, {self.runs} {what}{'s' * (self.runs > 1)})"


def log2_steps(table: pd.DataFrame) -> pd.DataFrame:
    """Lab 03: steps to 95 % (digits) or to the early stop (MNIST); 1 more is twice as many."""
    return table.assign(doublings=np.log2(table["steps" if "epochs" in table else "early_stop"]))


def best_ranks(table: pd.DataFrame) -> pd.DataFrame:
    """Lab 02: ρ of the signed forecast with the change, of all others with its size."""
    signed = table["method"] == "signed forecast"
    return table.assign(rho=table["signed"].where(signed, table["size"]))


def shared_heads(table: pd.DataFrame) -> pd.DataFrame:
    """Lab 09: by task, heads that the masks of two seeds share, and that random masks of
    the same sizes would share.
    """
    kept = table.pivot(index=["task", "seed"], columns=["layer", "head"], values="kept")
    rows = []
    for task, masks in kept.astype(float).groupby(level="task"):
        sizes, pairs = masks.sum(axis=1), ~np.eye(len(masks), dtype=bool)
        rows.append((task, "two seeds", (masks.to_numpy() @ masks.to_numpy().T)[pairs].mean()))
        expected = np.outer(sizes, sizes)[pairs].mean() / masks.shape[1]
        rows.append((task, "random masks", expected))
    return pd.DataFrame(rows, columns=["seed", "method", "shared"])


def by_window(table: pd.DataFrame) -> pd.DataFrame:
    """Lab 12: pairs are windows of one text, each the mean over seeds."""
    return table.assign(seed=table["window"])


FUNCTIONS = {f.__name__: f for f in (log2_steps, best_ranks, shared_heads, by_window)}


def read(root: Path) -> dict[str, Claim]:
    """The claims by their ids; raises AuthoringError for a row that is wrong by itself."""
    if not (root / FILE).is_file():
        return {}
    table = pd.read_csv(root / FILE, dtype=str, keep_default_na=False)
    problems, file = Problems(), FILE.as_posix()
    claims: dict[str, Claim] = {}
    if list(table) != list(Claim._fields[:-1]):
        raise error(file, 1, f"the columns are {list(table)}: write {list(Claim._fields[:-1])}")
    for line, row in enumerate(table.to_dict("records"), start=2):
        claim = Claim(**row, line=line)
        empty = [name for name in row if not row[name] and name not in OPTIONAL]
        if empty:
            what = "has no rival" if empty == ["against"] else f"lacks {', '.join(empty)}"
            problems.add(file, line, f"claim {claim.id} {what}: fill the row")
        for name, choices in (("kind", KINDS), ("function", ("", *FUNCTIONS))):
            if row[name] not in choices:
                message = f"{name} is {row[name]!r}: choose among {', '.join(choices)}"
                problems.add(file, line, message)
        if claim.id in claims or not re.fullmatch(r"\d\d\.\d+", claim.id):
            message = f"id is {claim.id!r}: write the lab and a new number, such as 01.3"
            problems.add(file, line, message)
        if sum(id[:2] == claim.id[:2] for id in claims) == MOST:
            problems.add(file, line, f"lab {claim.id[:2]} has more than {MOST} claims: drop some")
        claims[claim.id] = claim
    problems.stop()
    return claims


@functools.lru_cache(maxsize=32)
def _table(path: Path) -> pd.DataFrame:
    return pd.read_csv(path, float_precision="round_trip")


def find(claim: Claim, root: Path) -> list[Finding]:
    """What the claim's own table shows, and then each of real data.

    Raises AuthoringError if the own table does not show what the claim states, or a table
    has no such arm, other runs or counts for one arm, or differences that are all equal.
    """
    result, _, name = claim.table.partition("/")
    findings = []
    for source in [result, *(part for part in claim.real.split(";") if part.strip())]:
        result, _, entries = source.strip().partition(" ")
        where = dict(re.findall(r"(\w+)=([^;,]*)", f"{claim.where};{entries}"))
        file = Path("data", "results", result, f"{name}.csv")
        data = DATA.get(result.rpartition("_")[2]) or DATA.get(result[:5], "reviews")
        try:
            mean, half, runs = _pair(claim, _table(root / file), where)
            findings.append(Finding(data, mean, half, runs, _judge(claim, mean, half)))
        except (OSError, ValueError, KeyError) as caught:
            message = f"claim {claim.id}, {file.as_posix()}: {caught!r}"
            raise error(FILE.as_posix(), claim.line, message) from None
    own = findings[0]
    if own.verdict != "holds" or own.runs < 3:
        message = (
            f"claim {claim.id} states {claim.kind!r}, its table shows {own.text(claim)}:"
            f" {own.verdict}; three runs or more must show it: weaken the sentence and its kind"
        )
        raise error(FILE.as_posix(), claim.line, message)
    return findings


def _judge(claim: Claim, mean: float, half: float) -> str:
    level = claim.kind == "no difference"
    if claim.kind == "value":
        return "holds" if abs(mean - float(claim.against)) <= half else "does not hold"
    if np.isnan(half):
        return "one run" if level else f"{'' if mean > 0 else 'not '}as stated, one run"
    if abs(mean) <= half:
        return "holds" if level else "not shown"
    return "a difference" if level else "holds" if mean > 0 else "does not hold"


def _pair(claim: Claim, table: pd.DataFrame, where: dict[str, str]) -> tuple[float, float, int]:
    """Mean, half-width and number of runs, paired by seed."""
    rows = FUNCTIONS[claim.function](table) if claim.function else table
    for column, entry in where.items():
        if entry:  # real data may lack a setting
            numbers = pd.api.types.is_numeric_dtype(rows[column])
            same = np.isclose(rows[column], float(entry)) if numbers else rows[column] == entry
            rows = rows[rows[column].isna() | same]
    arms = [claim.method] if claim.kind == "value" else [claim.method, claim.against]
    means = per_seed(rows, claim.measure, [claim.by])
    wide = means.pivot(index="seed", columns=claim.by, values=claim.measure)
    if missing := [arm for arm in arms if arm not in wide]:
        raise ValueError(f"there is no {missing[0]!r}: choose among {', '.join(map(str, wide))}")
    wide = wide[arms].dropna(how="all")
    if wide.isna().any(axis=None):
        raise ValueError(f"runs differ ({wide.notna().sum().to_dict()}): compare the same seeds")
    for column in set(COUNTS) & set(rows) - {claim.measure, claim.by}:
        count = rows.groupby(claim.by)[column].mean().reindex(arms).dropna()
        if len(count) == 2 and not np.isclose(count.iloc[0], count.iloc[1], rtol=0.05):
            raise ValueError(f"{column} differs ({count.to_dict()}): compare equal counts")
    values = wide[arms[0]].to_numpy(float)
    values = values - wide[arms[1]].to_numpy(float) if len(arms) == 2 else values
    mean, half = map(float, interval(values))
    if half <= SAME:
        raise ValueError(f"{mean:+.3g} is equal in all seeds: a bold claim needs an interval")
    return mean, max(half, _one_image(rows[claim.measure])), len(values)


def _one_image(measured: pd.Series) -> float:
    """What one test image is worth, in points: accuracies are multiples of it. 0 for other
    measures.
    """
    values = np.unique(measured.dropna())
    if len(values) < 4 or values[0] < 0 or values[-1] > 100:
        return 0.0
    images = np.arange(50, 20_001)
    for value in values:
        counts = value * images / 100
        images = images[np.abs(counts - np.rint(counts)) < 2e-3]
    return 100 / float(images[0]) if len(images) else 0.0


def write_out(claim: Claim, root: Path, call: str = "claim") -> list[str]:
    """The lines that a call in a text becomes; raises AuthoringError as :func:`find`."""
    own, *real = find(claim, root)
    line = f"{claim.experiment} = {own.text(claim)}."
    if call == "difference":
        return [f"- {'; '.join([line.rstrip('.'), *(found.text(claim) for found in real)])}."]
    if claim.kind == "no difference":
        # a t-value beyond the limit of the 95 % interval in four of five repetitions
        limit = stdtrit(own.runs - 1, 0.975)
        smallest = own.half / limit * nctdtrinc(own.runs - 1, 0.2, limit)
        line += f" These runs would detect {smallest:.1f} {claim.unit} or more (power 80 %)."
    lines = [f"> **{claim.sentence}**", ">", f"> {line}"]
    for found in real:
        agrees = found.verdict in AGREE
        text = "Real data:" if agrees else f"**{found.data} does not confirm this:**"
        lines += [">", f"> {text} {found.text(claim)}: {found.verdict}."]
    return lines


def expand(text: str, root: Path, wrong: Callable[[int, str], None]) -> list[list[str]]:
    """For each line of a text, the lines that it becomes; ``wrong`` is told where a call
    names no claim.
    """
    lines, claims = [[line] for line in text.split("\n")], read(root)
    for number, (line,) in enumerate(lines, start=1):
        if call := CALL.match(line.strip()):
            if claim := claims.get(call[2]):
                lines[number - 1] = write_out(claim, root, call[1])
            else:
                wrong(number, f"there is no claim {call[2]}: write its row in {FILE.as_posix()}")
    return lines


def check_bold(text: str, wrong: Callable[[int, str], None]) -> None:
    """Tell of bold text that compares: an author's, not computed."""
    for bold in _BOLD.finditer(text):
        if (word := _COMPARES.search(bold[1])) and not bold[1].endswith("?"):
            message = f"bold text compares ({word[0]!r}): make it a row of {FILE.as_posix()}"
            wrong(text.count("\n", 0, bold.start()) + 1, f"{message}, or take the bold away")


def find_all(root: Path) -> dict[Claim, list[Finding]]:
    """What the tables show of every claim."""
    return {claim: find(claim, root) for claim in read(root).values()}


def disagreements(findings: dict[Claim, list[Finding]]) -> str:
    """What real data do not confirm, as a list."""
    return "\n".join(
        f"- {claim.id[:2]}: {claim.sentence} {found.text(claim)}: {found.verdict}."
        for claim, (_, *real) in findings.items()
        for found in real
        if found.verdict not in AGREE
    )


def page(root: Path) -> str:
    """``docs/real_data.md``: what stands there above its table, and the table, where what real
    data do not confirm is bold.
    """
    text = (root / PAGE).read_text(encoding="utf-8") if (root / PAGE).is_file() else ""
    rows = [text.partition(_HEAD)[0] + _HEAD]
    for claim, (own, *real) in find_all(root).items():
        verdicts = [r.verdict if r.verdict in AGREE else f"**{r.verdict}**" for r in real]
        found = (f"{r.text(claim, False)}: {v}" for r, v in zip(real, verdicts, strict=True))
        measured = f"{claim.experiment} ({claim.unit})".replace("|", "\\|")
        own_text, others = own.text(claim, False), "; ".join(found) or "–"
        rows.append(f"| {claim.id} | {claim.sentence} | {measured} | {own_text} | {others} |")
    return "\n".join(rows) + "\n"
