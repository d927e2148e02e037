"""What the labs say, as differences that are found in result files: those of the data
that come with the course, and those of real ones.

A claim is a difference whose mean over runs is above 0 where the lab is right; or one
of which the lab says that there is none. ``course results`` shows them side by side
(:mod:`course_lib.show.real_data`).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from course_lib import experiments
from course_lib.intervals import interval, per_seed

Result = dict[str, Any]
# the difference, one for each run, of a table or a nested result
Finder = Callable[[Any], ArrayLike]
Path = Sequence[Any]  # keys and indices on the way to a number, or to a list of draws


class Source(NamedTuple):
    """A result file, and how the difference is found in it."""

    file: str
    of: Finder


@dataclass(frozen=True)
class Claim:
    """A sentence of a lab, and the difference in which it shows.

    Attributes:
        says: the sentence.
        measured: the difference.
        default, real: where it is found.
        level: the sentence says that there is *no* difference.
        points: it is one of accuracy, BLEU or correlation, times 100.
        digits: behind the decimal point.
    """

    lab: str
    says: str
    measured: str
    default: Source
    real: tuple[Source, ...]
    level: bool = False
    points: bool = True
    digits: int = 1


class Difference(NamedTuple):
    """Mean over runs, half of its 95 % interval (NaN for one run), and how many."""

    mean: float
    half: float
    runs: int


def difference(source: Source) -> Difference:
    """What a result file says.

    Raises:
        FileNotFoundError: as ``experiments.read``.
    """
    values = np.atleast_1d(np.asarray(source.of(experiments.read(source.file)), dtype=float))
    mean, half = interval(values)
    return Difference(float(mean), float(half), len(values))


def verdict(found: Difference, level: bool = False) -> str:
    """What runs can say of a claim: whether their interval leaves 0 out, and on which
    side it lies then.

    Args:
        level: as in :class:`Claim`.
    """
    if math.isnan(found.half):
        return "one run" if level else "as said, one run" if found.mean > 0 else "not so, one run"
    shown = abs(found.mean) > found.half
    if level:
        return "does not hold" if shown else "no difference shown"
    return "not shown" if not shown else "holds" if found.mean > 0 else "does not hold"


# ------------------------------------------------------------------- finding differences
def _at(run: Any, path: Path) -> float:
    for step in path:
        run = run[step]
    return float(np.mean(run))


def minus(one: Path, other: Path, runs: str = "seeds") -> Finder:
    """In every run, what is at one path less what is at the other; of a list there, the
    mean.
    """
    return lambda result: [_at(run, one) - _at(run, other) for run in result[runs]]


def gap(measure: str, one: str, other: str, by: str = "method", **where: Any) -> Finder:
    """Of a table: the mean of ``measure`` of one method minus that of another, by seed.

    Args:
        where: only rows with these entries, such as ``sparsity=0.9``; a number is matched
            within rounding.
    """

    def difference(table: pd.DataFrame) -> ArrayLike:
        for column, entry in where.items():
            near = np.isclose(table[column], entry) if isinstance(entry, float) else None
            table = table[table[column] == entry if near is None else near]
        means = per_seed(table, measure, [by]).pivot(index="seed", columns=by, values=measure)
        return (means[one] - means[other]).to_numpy(float)

    return difference


def _differences(start: Path, runs: str = "seeds") -> Callable[..., Finder]:
    """:func:`minus` of two keys at ``start``, and what comes behind both."""

    def between(one: str, other: str, *behind: Any) -> Finder:
        return minus((*start, one, *behind), (*start, other, *behind), runs)

    return between


def _in_round(run: Result, arm: str, measure: str, at: int) -> np.ndarray:
    """Lab 03: by seed; NaN where it never came."""
    values = [row[at] for row in run[arm][measure]]
    return np.array([math.nan if value is None else value for value in values])


def _tickets(one: str, other: str, at: int) -> Finder:
    """Lab 03: test accuracy of two arms in round ``at``; "dense" is round 0."""

    def reached(run: Result, arm: str) -> np.ndarray:
        dense = arm == "dense"
        return _in_round(run, "ticket" if dense else arm, "accuracy", 0 if dense else at)

    return lambda run: reached(run, one) - reached(run, other)


def _longer(measure: str, at: int) -> Finder:
    """Lab 03: how often the ticket's steps must be doubled to be those of reinit."""
    return lambda run: np.log2(
        _in_round(run, "reinit", measure, at) / _in_round(run, "ticket", measure, at)
    )


def _thirty(of: Finder) -> Finder:
    """Lab 03 on the digits: the trainings of 30 epochs."""
    return lambda result: of(result["30"])


def _alone(one: Path, other: Path) -> Finder:
    """:func:`minus` in a result that is a single run."""
    return lambda result: _at(result, one) - _at(result, other)


def _of_rows(at: int, curves: str, runs: str) -> Callable[[str, str], Finder]:
    """Lab 07: mean over draws of two rules at a share of the heads; "dense", none."""

    def value(run: Any, rule: str) -> float:
        if rule == "dense":
            return float(run["dense"])
        return float(np.mean([row[at] for row in run[curves][rule]]))

    return lambda one, other: (
        lambda result: [value(run, one) - value(run, other) for run in result[runs]]
    )


def _half_depth(one: str, other: str) -> Finder:
    """Lab 09 on SST-2: two ways to half of the depth; of a list by depth, that depth."""

    def of(result: Result) -> list[float]:
        at = result["settings"]["depth"] - 1
        first, second = (
            [run[way][at] if isinstance(run[way], list) else run[way] for run in result["seeds"]]
            for way in (one, other)
        )
        return [a - b for a, b in zip(first, second, strict=True)]

    return of


def _subnetworks(how: str, one: str, other: str) -> Finder:
    """Lab 09: two subnetworks of every task, mean over seeds."""
    return lambda result: [
        float(np.mean([task[how][one] - task[how][other] for task in seeds]))
        for seeds in zip(*result["runs"], strict=True)
    ]


def _beyond_chance(a: Any, b: Any) -> float:
    """Heads that two masks share, less those that chance would let them share."""
    first, second = np.array(a["xi"]), np.array(b["xi"])
    return float((first * second).sum() - first.sum() * second.sum() / first.size)


def _of_two_seeds(result: Result) -> list[float]:
    """Lab 09: of each task, the heads shared by two seeds, beyond chance."""
    return [
        float(np.mean([_beyond_chance(a, b) for a, b in itertools.combinations(seeds, 2)]))
        for seeds in zip(*result["runs"], strict=True)
    ]


def _task_first(result: Result) -> list[float]:
    """Lab 09: those, less the heads shared with the other tasks of one seed."""
    tasks = range(len(result["tasks"]))
    of_two_tasks = [
        np.mean([_beyond_chance(run[t], run[u]) for run in result["runs"] for u in tasks if u != t])
        for t in tasks
    ]
    return [float(d) for d in np.subtract(_of_two_seeds(result), of_two_tasks)]


def _alike(default: str, *real: str) -> Callable[[Finder], dict[str, Any]]:
    """Sources of files of one shape."""

    def sources(of: Finder) -> dict[str, Any]:
        return {"default": Source(default, of), "real": tuple(Source(name, of) for name in real)}

    return sources


def _two(default: str, of: Finder, real: str, of_real: Finder) -> dict[str, Any]:
    return {"default": Source(default, of), "real": (Source(real, of_real),)}


# --------------------------------------------------------------------------- the claims
_00 = _alike("lab00_counting_digits", "lab00_counting_mnist", "lab00_counting_cifar10")
_01 = _alike("lab01_pruning_digits", "lab01_pruning_mnist")
_02 = _alike("lab02_criteria_digits", "lab02_criteria_mnist")
_04 = _alike("lab04_slimming_digits", "lab04_slimming_mnist")
_06 = _alike("lab06_weights/regimes", "lab06_sst2/regimes")
_09 = _alike("lab09_subnetworks", "lab09_subnetworks_glue")
_10 = _alike("lab10_scores_reviews", "lab10_sst2")
_untrained, _trained = _differences(("untrained",)), _differences(("trained",))
_structured = _differences(("structured",))
_slimming = _differences(("validation",))
_half = _differences(())
_heads = _of_rows(2, "curves", "removal")  # half of the heads
_heads_sst2 = _of_rows(-1, "test", "seeds")  # 58 %


def _below_dense(sparsity: float) -> Finder:
    """Lab 06: zeros held at ``sparsity``, minus the model that was not pruned."""

    def difference(table: pd.DataFrame) -> ArrayLike:
        there = table["sparsity"].isna() | np.isclose(table["sparsity"], sparsity)
        return gap("accuracy", "zeros held", "dense")(table[there])

    return difference


def _05(table: str, of: Finder) -> dict[str, Any]:
    return _alike(f"lab05_between_digits/{table}", f"lab05_between_mnist/{table}")(of)


def _scores(schedule: str, one: str, other: str) -> Finder:
    """Lab 10: two scores at equal products, nothing trained."""

    def reached(run: Any, score: str) -> float:
        found = run["schedules"][schedule][score]
        return float(np.mean([f["accuracy"] for f in ([found] if score != "random" else found)]))

    return lambda result: [reached(run, one) - reached(run, other) for run in result["seeds"]]


CLAIMS: tuple[Claim, ...] = (
    Claim(
        "00",
        "The weights that survive meet fewer inputs other than 0 than the formula expects.",
        "products of conv4 at 90 %, random zeros less zeros by magnitude, % of the expected",
        **_00(minus(("beyond", "random", 2), ("beyond", "magnitude", 2))),
        points=False,
    ),
    Claim(
        "00",
        "Trained zeros clump, and a run-length code pays for it.",
        "pairs at 90 %, by magnitude less random, % of the formula",
        **_00(minus(("more pairs", "magnitude", 2), ("more pairs", "random", 2))),
        points=False,
    ),
    Claim(
        "01",
        "What a cut breaks first is batch norm's statistics.",
        "70 % in every layer, not trained: recalibrated less as pruned",
        **_01(_untrained("magnitude, recalibrated", "magnitude", 1)),
    ),
    Claim(
        "01",
        "One threshold for all layers keeps more than one for each.",
        "90 %, recalibrated: global less layer by layer",
        **_01(_untrained("global, recalibrated", "magnitude, recalibrated", 3)),
    ),
    Claim(
        "01",
        "Trained, a random mask is nearly as good, as long as enough is left.",
        "90 %, fine-tuned: magnitude less random",
        **_01(_trained("fine-tuned", "random", 1)),
        level=True,
    ),
    Claim(
        "01",
        "Where little is left, it matters which.",
        "98 %, fine-tuned: magnitude less random",
        **_01(_trained("fine-tuned", "random", 3)),
    ),
    Claim(
        "01",
        "Iterative pruning need not win: its last cut gets a third of the training.",
        "98 %: three cuts less one, equal epochs",
        **_01(_trained("iterative", "fine-tuned", 3)),
        level=True,
    ),
    Claim(
        "01",
        "Larger pieces cost more.",
        "90 %, fine-tuned: single weights less filters",
        **_01(_structured("element", "filter", 1)),
    ),
    Claim(
        "01",
        "Which filters go matters little once the rest is trained.",
        "90 %, fine-tuned: smallest filters less random ones",
        **_01(_structured("filter", "random filter", 1)),
        level=True,
    ),
    Claim(
        "02",
        "The forecast of a single weight's removal is almost the truth.",
        "Spearman's ρ with the true change: forecast (signed) less magnitude (its size)",
        **_02(
            minus(("rank correlation", "signed forecast", 0), ("rank correlation", "magnitude", 1))
        ),
        digits=2,
        points=False,
    ),
    Claim(
        "02",
        "The best forecast is the worst order.",
        "50 %, all at once: random less the signed forecast",
        **_02(_differences(("at once",))("random", "signed forecast", 0)),
    ),
    Claim(
        "02",
        "Asked a dozen times, the loss is a better judge than size.",
        "90 %, twelve rounds, not trained: Fisher less magnitude",
        **_02(_differences(("in rounds",))("Fisher", "magnitude", 2)),
    ),
    Claim(
        "02",
        "With training in between magnitude is a little ahead up to 90 %.",
        "90 %, trained after each of three targets: magnitude less Fisher",
        **_02(_differences(("with training",))("magnitude", "Fisher", "validation", 2)),
    ),
    Claim(
        "02",
        "Where little is left, asking the loss pays.",
        "98 %, trained after each of six targets: Fisher less magnitude",
        **_02(_differences(("with training",))("Fisher", "magnitude", "validation", -1)),
    ),
    Claim(
        "02",
        "The proximal step makes zeros, a subgradient none.",
        "exact zeros at λ = 0.0003, % of the weights: proximal less subgradient",
        **_02(_differences(("l1",))("proximal", "subgradient", 1, "zeros")),
        points=False,
    ),
    Claim(
        "03",
        "The ticket beats the same mask with fresh weights.",
        "5.5 % of the weights, test accuracy: ticket less reinit",
        **_two(
            "lab03_tickets_digits",
            _thirty(_tickets("ticket", "reinit", 13)),
            "lab03_tickets_mnist",
            _tickets("ticket", "reinit", 13),
        ),
    ),
    Claim(
        "03",
        "The mask itself knows something.",
        "5.5 % of the weights, test accuracy: reinit less random mask",
        **_two(
            "lab03_tickets_digits",
            _thirty(_tickets("reinit", "random mask", 13)),
            "lab03_tickets_mnist",
            _tickets("reinit", "random mask", 13),
        ),
    ),
    Claim(
        "03",
        "The ticket learns faster.",
        "21 % of the weights: log₂ of reinit's steps over the ticket's"
        " (digits: to 95 % validation accuracy; MNIST: to the early stop)",
        **_two(
            "lab03_tickets_digits",
            _thirty(_longer("steps", 7)),
            "lab03_tickets_mnist",
            _longer("early_stop", 7),
        ),
        points=False,
    ),
    Claim(
        "04",
        "Removed channels leave constants behind; absorbed, they bring much back.",
        "70 % of the channels, not trained: absorbed less plainly pruned",
        **_04(_slimming("pruned + absorbed", "pruned")),
    ),
    Claim(
        "04",
        "Recalibrated, the slim network is where the large one was.",
        "not trained: recalibrated less sparse-trained",
        **_04(_slimming("BN recalibrated", "sparse-trained")),
        level=True,
    ),
    Claim(
        "04",
        "The same architecture from scratch does as well.",
        "fine-tuned less from scratch",
        **_04(_slimming("fine-tuned", "same architecture from scratch")),
        level=True,
    ),
    Claim(
        "04",
        "Which channels slimming takes matters.",
        "fine-tuned: slimming less random channels",
        **_04(_slimming("fine-tuned", "random, fine-tuned")),
    ),
    Claim(
        "05",
        "Before training the pattern costs: N:M keeps more than whole filters.",
        "87.5 %, recalibrated: N:M less filters",
        **_05("patterns", gap("recalibrated", "N:M", "filter", sparsity=0.875)),
    ),
    Claim(
        "05",
        "Which weights survive in a block matters before training.",
        "87.5 %, recalibrated: N:M by size less N:M at random",
        **_05("patterns", gap("recalibrated", "N:M", "N:M at random", sparsity=0.875)),
    ),
    Claim(
        "05",
        "After training no cost of the pattern is left, filters aside.",
        "87.5 %, fine-tuned: single weights less N:M",
        **_05("patterns", gap("finetuned", "element", "N:M", sparsity=0.875)),
        level=True,
    ),
    Claim(
        "05",
        "Not even N:M at random is behind then.",
        "87.5 %, fine-tuned: N:M by size less N:M at random",
        **_05("patterns", gap("finetuned", "N:M", "N:M at random", sparsity=0.875)),
        level=True,
    ),
    Claim(
        "05",
        "With a limit on conflicts packed columns lose far less than random groups.",
        "share of the weights lost, in groups of 8: random less γ = 0.25",
        **_05("packed", gap("lost", "random, size 8", "size 8, γ 0.25", by="packing")),
        digits=2,
        points=False,
    ),
    Claim(
        "05",
        "Noise cannot be trained away, what is always missing can.",
        "weights and activations 1:4 at random, trained: drawn once less drawn anew",
        **_05("joint", gap("accuracy", "drawn once", "random", pattern="W 1:4 × A 1:4")),
    ),
    Claim(
        "05",
        "Gates look at their image.",
        "frozen network, 30 % of the products: own gates less another image's",
        **_05(
            "gates",
            gap("accuracy", "dynamic", "another image's gates", network="frozen", share=0.3),
        ),
    ),
    Claim(
        "05",
        "Repaired, static channels make up for the lead.",
        "frozen network, 30 %: gates by image less largest |α|, recalibrated",
        **_05(
            "gates",
            gap("accuracy", "dynamic", "largest |α|, recalibrated", network="frozen", share=0.3),
        ),
        level=True,
    ),
    Claim(
        "05",
        "Trained as long, static channels are not behind, not even random ones.",
        "network trained too, 30 %: gates by image less random channels",
        **_05("gates", gap("accuracy", "dynamic", "random", network="trained", share=0.3)),
        level=True,
    ),
    Claim(
        "06",
        "Up to 70 % nothing is lost.",
        "70 % removed and held at 0, fine-tuned: pruned less dense",
        **_06(_below_dense(0.7)),
        level=True,
    ),
    Claim(
        "06",
        "Size is a good guess.",
        "70 %, held: by size less at random",
        **_06(gap("accuracy", "zeros held", "random", sparsity=0.7)),
    ),
    Claim(
        "06",
        "At 90 % it is room that is missing: letting the zeros go helps.",
        "90 %: zeros let go less zeros held",
        **_06(gap("accuracy", "let go", "zeros held", sparsity=0.9)),
    ),
    Claim(
        "07",
        "Heads removed by importance cost less than heads at random.",
        "half of the heads (SST-2: 58 %), not trained: I_h less random",
        **_two("lab07_heads", _heads("I_h", "random"), "lab07_sst2", _heads_sst2("I_h", "random")),
    ),
    Claim(
        "07",
        "The important ones first is worse than chance.",
        "the same: random less most important first",
        **_two(
            "lab07_heads",
            _heads("random", "most important first"),
            "lab07_sst2",
            _heads_sst2("random", "most important first"),
        ),
    ),
    Claim(
        "08",
        "Attention to the source is what a translator misses first.",
        "BLEU without half of the heads of one kind, by I_h: encoder less encoder–decoder",
        **_two(
            "lab08_heads",
            lambda result: [
                _at(run["kinds"], ("encoder", "I_h", 2)) - _at(run["kinds"], ("cross", "I_h", 2))
                for run in result["seeds"]
            ],
            "lab08_multi30k",
            _alone(("kinds", "encoder", "I_h", 2), ("kinds", "cross", "I_h", 2)),
        ),
    ),
    Claim(
        "08",
        "At half of the encoder's heads importance beats chance.",
        "BLEU: I_h less random",
        **_two(
            "lab08_heads",
            minus(("kinds", "encoder", "I_h", 2), ("kinds", "encoder", "random", 2)),
            "lab08_multi30k",
            _alone(("kinds", "encoder", "I_h", 2), ("kinds", "encoder", "random", 2)),
        ),
    ),
    Claim(
        "09",
        "Cut to half of its depth, a network trained with LayerDrop keeps more.",
        "half of the layers, test accuracy: LayerDrop 0.5 less plain",
        **_two(
            "lab09_depth",
            _half("LayerDrop 0.5", "plain", "test", 1),
            "lab09_depth_sst2",
            _half_depth("LayerDrop 0.5", "plain"),
        ),
    ),
    Claim(
        "09",
        "A network trained at that depth is better still.",
        "half of the layers: trained so less LayerDrop 0.5",
        **_two(
            "lab09_depth",
            _half("trained at that depth", "LayerDrop 0.5", "test", 1),
            "lab09_depth_sst2",
            _half_depth("trained at that depth", "LayerDrop 0.5"),
        ),
    ),
    Claim(
        "09",
        "Evenly spaced layers are no better than the first ones.",
        "half of the layers, LayerDrop 0.5: evenly less first",
        **_two(
            "lab09_depth",
            _half("LayerDrop 0.5", "LayerDrop 0.5, first", "test", 1),
            "lab09_depth_sst2",
            _half_depth("LayerDrop 0.5", "LayerDrop 0.5, first"),
        ),
        level=True,
    ),
    Claim(
        "09",
        "As it is, the subnetwork that survived is far better than a random one.",
        "pruned, mean by task: good less random (reviews: accuracy; GLUE: Matthews × 100)",
        **_09(_subnetworks("pruned", "good", "random")),
    ),
    Claim(
        "09",
        "Retrained, the random one is as good.",
        "retrained, mean by task: good less random",
        **_09(_subnetworks("retrained", "good", "random")),
        level=True,
    ),
    Claim(
        "09",
        "Two seeds of a task keep more of the same heads than chance.",
        "heads shared by two seeds beyond chance, by task (reviews: of 32; GLUE: of 72)",
        **_09(_of_two_seeds),
        points=False,
    ),
    Claim(
        "09",
        "What survives is a matter of the task first.",
        "the same, less what is shared with the other tasks of one seed",
        **_09(_task_first),
        points=False,
    ),
    Claim(
        "10",
        "At equal products, tokens that are chosen keep more than tokens drawn.",
        "steep schedule, not trained: attention received less random",
        **_10(_scores("steep", "received", "random")),
    ),
    Claim(
        "10",
        "The cheap row of [CLS] chooses as well as attention received.",
        "steep schedule: [CLS] row less received",
        **_10(_scores("steep", "cls", "received")),
        level=True,
    ),
)
