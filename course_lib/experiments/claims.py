"""The labs' findings, as differences that are computed from result files: of the data
that come with the course, and of real data.

A claim is a sentence of a lab and a difference. The difference is above 0 on average over
runs where the sentence is right; or the sentence states that there is none. ``course
results`` shows both data side by side (:mod:`course_lib.show.real_data`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from course_lib import experiments
from course_lib.intervals import interval, per_seed

Finder = Callable[[pd.DataFrame], ArrayLike]  # of a table, the difference per run


class Source(NamedTuple):
    """A table of a stored result, and how the difference is computed from it."""

    file: str
    of: Finder


@dataclass(frozen=True)
class Claim:
    """A sentence of a lab, and the difference that it states.

    Attributes:
        says: the sentence.
        measured: the difference.
        sources: the results that it is computed from: first those of the data that come
            with the course, then those of real data.
        level: the sentence states that there is *no* difference.
        points: the difference is one of accuracy, BLEU or correlation, times 100.
        digits: how many decimals are shown.
    """

    says: str
    measured: str
    sources: tuple[Source, ...]
    level: bool = False
    points: bool = True
    digits: int = 1

    @property
    def lab(self) -> str:
        """The lab's number, such as "03"."""
        return self.default.file[3:5]

    @property
    def default(self) -> Source:
        """The result of the data that come with the course."""
        return self.sources[0]

    @property
    def real(self) -> tuple[Source, ...]:
        """The results of real data."""
        return self.sources[1:]


class Difference(NamedTuple):
    """Mean over runs, half of its 95 % interval (NaN for one run), and how many."""

    mean: float
    half: float
    runs: int


def difference(source: Source) -> Difference:
    """The difference in a stored result.

    Raises:
        FileNotFoundError: as ``experiments.read``.
    """
    values = np.atleast_1d(np.asarray(source.of(experiments.read(source.file)), dtype=float))
    mean, half = interval(values)
    return Difference(float(mean), float(half), len(values))


def verdict(found: Difference, level: bool = False) -> str:
    """What the runs show of a claim: whether their interval excludes 0, and on which
    side of 0 it lies.

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
def gap(
    one: str, other: str, measure: str = "accuracy", by: str = "method", **where: Any
) -> Finder:
    """Of a table: the mean of ``measure`` of one method minus that of another, by seed.

    Args:
        where: only rows with these entries, such as ``sparsity=0.9``. A fraction is
            matched within rounding, and rows without one (of the model that is not
            pruned) are kept.
    """

    def difference(table: pd.DataFrame) -> ArrayLike:
        for column, entry in where.items():
            if isinstance(entry, float):
                table = table[table[column].isna() | np.isclose(table[column], entry)]
            else:
                table = table[table[column] == entry]
        means = per_seed(table, measure, [by]).pivot(index="seed", columns=by, values=measure)
        return (means[one] - means[other]).to_numpy(float)

    return difference


def _signed_less_size(forecasts: pd.DataFrame) -> ArrayLike:
    """Lab 02: ρ of the signed forecast with the signed change, less ρ of magnitude with
    the size of the change.
    """
    by_seed = forecasts.pivot(index="seed", columns="method")
    return (by_seed["signed", "signed forecast"] - by_seed["size", "magnitude"]).to_numpy(float)


def _longer(measure: str, **where: Any) -> Finder:
    """Lab 03: how often the ticket's steps must be doubled to be those of reinit."""
    doublings = gap("reinit", "ticket", measure, **where)
    return lambda table: doublings(table.assign(**{measure: np.log2(table[measure])}))


def _by_task(of: Finder) -> Finder:
    """Lab 09: with tasks in the place of seeds; of several seeds, the mean."""
    return lambda table: of(table.drop(columns="seed").rename(columns={"task": "seed"}))


def _shared_heads(table: pd.DataFrame) -> pd.DataFrame:
    """Lab 09: heads that two masks share beyond chance, for every ordered pair of masks:
    columns ``task``, ``seed``, ``other_task``, ``other_seed`` and ``beyond``.
    """
    kept = table.pivot(index=["task", "seed"], columns=["layer", "head"], values="kept")
    masks, sizes = kept.to_numpy(float), kept.sum(axis=1).to_numpy(float)
    beyond = masks @ masks.T - np.outer(sizes, sizes) / masks.shape[1]
    others = kept.index.set_names(["other_task", "other_seed"])
    wide = pd.DataFrame(beyond, kept.index, others)
    return wide.stack([0, 1], future_stack=True).rename("beyond").reset_index()


def _of_two_seeds(table: pd.DataFrame) -> ArrayLike:
    """Lab 09: of each task, the heads shared by two seeds, beyond chance."""
    pairs = _shared_heads(table).query("task == other_task and seed != other_seed")
    return pairs.groupby("task")["beyond"].mean().to_numpy()


def _task_first(table: pd.DataFrame) -> ArrayLike:
    """Lab 09: those, less the heads shared with the other tasks of one seed."""
    pairs = _shared_heads(table).query("task != other_task and seed == other_seed")
    return _of_two_seeds(table) - pairs.groupby("task")["beyond"].mean().to_numpy()


def _results(*names: str) -> Callable[..., tuple[Source, ...]]:
    """A function from a table's name and a finder (and another for real data, where it
    differs) to the sources in these results.
    """

    def sources(table: str, of: Finder, of_real: Finder | None = None) -> tuple[Source, ...]:
        default, *real = (f"{name}/{table}" for name in names)
        return Source(default, of), *(Source(file, of_real or of) for file in real)

    return sources


# --------------------------------------------------------------------------- the claims
_00 = _results("lab00_counting_digits", "lab00_counting_mnist", "lab00_counting_cifar10")
_01 = _results("lab01_pruning_digits", "lab01_pruning_mnist")
_02 = _results("lab02_criteria_digits", "lab02_criteria_mnist")
_03 = _results("lab03_tickets_digits", "lab03_tickets_mnist")
_04 = _results("lab04_slimming_digits", "lab04_slimming_mnist")
_05 = _results("lab05_between_digits", "lab05_between_mnist")
_06 = _results("lab06_weights", "lab06_sst2")
_07 = _results("lab07_heads", "lab07_sst2")
_08 = _results("lab08_heads", "lab08_multi30k")
_09_depth = _results("lab09_depth", "lab09_depth_sst2")
_09 = _results("lab09_subnetworks", "lab09_subnetworks_glue")
_10 = _results("lab10_scores_reviews", "lab10_sst2")

_at_70: Any = {"by": "batch_norm", "method": "magnitude", "sparsity": 0.7}
_repaired: Any = {"batch_norm": "recalibrated", "sparsity": 0.9}


def _heads(one: str, other: str) -> tuple[Source, ...]:
    """Lab 07: two orders of removal, half of the heads; on SST-2, 58 % of them."""
    half, more = (gap(one, other, "test", removed=removed) for removed in (0.5, 0.58))
    return _07("removal", half, more)


def _half_depth(one: str, other: str, by: str = "method", **where: Any) -> tuple[Source, ...]:
    """Lab 09: test accuracy of two ways to half of the depth, 2 of 4 and 3 of 6 layers."""
    two, three = (gap(one, other, "test", by, depth=depth, **where) for depth in (2, 3))
    return _09_depth("depths", two, three)


CLAIMS: tuple[Claim, ...] = (
    Claim(
        "The kept weights meet fewer non-zero inputs than the formula expects.",
        "products of conv4 at 90 %, random zeros minus zeros by magnitude, % of the expected",
        _00("conv4", gap("random", "magnitude", "beyond", sparsity=0.9)),
        points=False,
    ),
    Claim(
        "Zeros of trained layers cluster, so a run-length code needs more pairs.",
        "pairs at 90 %, by magnitude minus random, % of the formula",
        _00("conv4", gap("magnitude", "random", "more_pairs", sparsity=0.9)),
        points=False,
    ),
    Claim(
        "Pruning first breaks batch norm's statistics.",
        "70 % in every layer, not trained: recalibrated minus as pruned",
        _01("untrained", gap("recalibrated", "as pruned", **_at_70)),
    ),
    Claim(
        "One threshold for all layers keeps more accuracy than one per layer.",
        "90 %, recalibrated: global minus layer by layer",
        _01("untrained", gap("global", "magnitude", **_repaired)),
    ),
    Claim(
        "After training a random mask is nearly as good, if enough weights are kept.",
        "90 %, fine-tuned: magnitude minus random",
        _01("trained", gap("fine-tuned", "random", sparsity=0.9)),
        level=True,
    ),
    Claim(
        "If few weights are kept, their choice matters.",
        "98 %, fine-tuned: magnitude minus random",
        _01("trained", gap("fine-tuned", "random", sparsity=0.98)),
    ),
    Claim(
        "Iterative pruning is not better: its last step gets a third of the training.",
        "98 %: three steps minus one, equal epochs",
        _01("trained", gap("iterative", "fine-tuned", sparsity=0.98)),
        level=True,
    ),
    Claim(
        "Larger groups cost more accuracy.",
        "90 %, fine-tuned: single weights minus filters",
        _01("structured", gap("element", "filter", sparsity=0.9)),
    ),
    Claim(
        "After training the choice of pruned filters matters little.",
        "90 %, fine-tuned: smallest filters minus random filters",
        _01("structured", gap("filter", "random filter", sparsity=0.9)),
        level=True,
    ),
    Claim(
        "The forecast for one weight's removal almost equals the measured change.",
        "Spearman's ρ with the measured change: forecast (signed) minus magnitude (its size)",
        _02("forecasts", _signed_less_size),
        digits=2,
        points=False,
    ),
    Claim(
        "The best forecast gives the worst order.",
        "50 %, all at once: random minus the signed forecast",
        _02("pruned", gap("random", "signed forecast", procedure="at once", sparsity=0.5)),
    ),
    Claim(
        "Scores from the loss, computed in twelve rounds, are better than size.",
        "90 %, twelve rounds, not trained: Fisher minus magnitude",
        _02("pruned", gap("Fisher", "magnitude", procedure="in rounds", sparsity=0.9)),
    ),
    Claim(
        "With training in between, magnitude is a little better up to 90 %.",
        "90 %, trained after each of three targets: magnitude minus Fisher",
        _02("pruned", gap("magnitude", "Fisher", procedure="with training", sparsity=0.9)),
    ),
    Claim(
        "If few weights are kept, scores from the loss are better.",
        "98 %, trained after each of six targets: Fisher minus magnitude",
        _02("pruned", gap("Fisher", "magnitude", procedure="with training", sparsity=0.98)),
    ),
    Claim(
        "The proximal step makes exact zeros, a subgradient makes none.",
        "exact zeros at λ = 0.0003, % of the weights: proximal minus subgradient",
        _02("penalties", gap("proximal", "subgradient", "zeros", strength=3e-4)),
        points=False,
    ),
    Claim(
        "The ticket is better than its mask with new initial weights.",
        "5.5 % of the weights, test accuracy: ticket minus reinit",
        _03(
            "rounds",
            gap("ticket", "reinit", "test", epochs=30, round=13),
            gap("ticket", "reinit", "test", round=13),
        ),
    ),
    Claim(
        "The mask alone is better than a random mask.",
        "5.5 % of the weights, test accuracy: reinit minus random mask",
        _03(
            "rounds",
            gap("reinit", "random mask", "test", epochs=30, round=13),
            gap("reinit", "random mask", "test", round=13),
        ),
    ),
    Claim(
        "The ticket learns faster.",
        "21 % of the weights: log₂ of reinit's steps divided by the ticket's"
        " (digits: to 95 % validation accuracy; MNIST: to the early stop)",
        _03(
            "rounds",
            _longer("steps", epochs=30, round=7),
            _longer("early_stop", round=7),
        ),
        points=False,
    ),
    Claim(
        "Absorbing the constants of removed channels restores much accuracy.",
        "70 % of the channels, not trained: absorbed minus only removed",
        _04("accuracy", gap("+ absorbed", "pruned", by="step", method="slimming")),
    ),
    Claim(
        "After recalibration the pruned network is as good as the sparse-trained one.",
        "not trained: recalibrated minus sparse-trained",
        _04("accuracy", gap("BN recalibrated", "sparse-trained", by="step", method="slimming")),
        level=True,
    ),
    Claim(
        "The same architecture, trained from scratch, is as good.",
        "fine-tuned minus from scratch",
        _04("accuracy", gap("fine-tuned", "from scratch", by="step", method="slimming")),
        level=True,
    ),
    Claim(
        "Slimming's choice of channels matters.",
        "fine-tuned: slimming minus random channels",
        _04("accuracy", gap("slimming", "random", step="fine-tuned")),
    ),
    Claim(
        "Before training the pattern matters: N:M is better than whole filters.",
        "87.5 %, recalibrated: N:M minus filters",
        _05("patterns", gap("N:M", "filter", "recalibrated", sparsity=0.875)),
    ),
    Claim(
        "Before training the choice of weights within a block matters.",
        "87.5 %, recalibrated: N:M by size minus N:M at random",
        _05("patterns", gap("N:M", "N:M at random", "recalibrated", sparsity=0.875)),
    ),
    Claim(
        "After training the pattern costs nothing, except for whole filters.",
        "87.5 %, fine-tuned: single weights minus N:M",
        _05("patterns", gap("element", "N:M", "finetuned", sparsity=0.875)),
        level=True,
    ),
    Claim(
        "After training even random N:M is as good.",
        "87.5 %, fine-tuned: N:M by size minus N:M at random",
        _05("patterns", gap("N:M", "N:M at random", "finetuned", sparsity=0.875)),
        level=True,
    ),
    Claim(
        "With a limit on conflicts, packed columns lose far fewer weights than random groups.",
        "share of the weights lost, in groups of 8: random minus γ = 0.25",
        _05("packed", gap("random, size 8", "size 8, γ 0.25", "lost", by="packing")),
        digits=2,
        points=False,
    ),
    Claim(
        "Training compensates for places that are always missing, not for noise.",
        "weights and activations 1:4 at random, trained: drawn once minus drawn in every pass",
        _05("joint", gap("drawn once", "random", pattern="W 1:4 × A 1:4")),
    ),
    Claim(
        "Gates depend on their image.",
        "frozen network, 30 % of the products: own gates minus another image's",
        _05("gates", gap("dynamic", "another image's gates", network="frozen", share=0.3)),
    ),
    Claim(
        "Recalibrated static channels are as good as gates per image.",
        "frozen network, 30 %: gates per image minus largest |α|, recalibrated",
        _05("gates", gap("dynamic", "largest |α|, recalibrated", network="frozen", share=0.3)),
        level=True,
    ),
    Claim(
        "Static channels that are trained as long are as good, even random ones.",
        "network trained, too, 30 %: gates per image minus random channels",
        _05("gates", gap("dynamic", "random", network="trained", share=0.3)),
        level=True,
    ),
    Claim(
        "Pruning up to 70 % loses no accuracy.",
        "70 % pruned and held at 0, fine-tuned: pruned minus dense",
        _06("regimes", gap("zeros held", "dense", sparsity=0.7)),
        level=True,
    ),
    Claim(
        "Size is a good criterion.",
        "70 %, held: by size minus at random",
        _06("regimes", gap("zeros held", "random", sparsity=0.7)),
    ),
    Claim(
        "At 90 % capacity is missing: letting the zeros go helps.",
        "90 %: zeros let go minus zeros held",
        _06("regimes", gap("let go", "zeros held", sparsity=0.9)),
    ),
    Claim(
        "Pruning heads by importance costs less than pruning random heads.",
        "half of the heads (SST-2: 58 %), not trained: I_h minus random",
        _heads("I_h", "random"),
    ),
    Claim(
        "Pruning the most important heads first is worse than random pruning.",
        "the same: random minus most important first",
        _heads("random", "most important first"),
    ),
    Claim(
        "Translation needs encoder–decoder attention most.",
        "BLEU without half of the heads of one kind, by I_h: encoder minus encoder–decoder",
        _08(
            "kinds", gap("encoder", "encoder–decoder", "bleu", by="kind", method="I_h", pruned=0.5)
        ),
    ),
    Claim(
        "At half of the encoder's heads, importance is better than random pruning.",
        "BLEU: I_h minus random",
        _08("kinds", gap("I_h", "random", "bleu", kind="encoder", pruned=0.5)),
    ),
    Claim(
        "Cut to half of its depth, a network trained with LayerDrop keeps more accuracy.",
        "half of the layers, test accuracy: LayerDrop 0.5 minus plain",
        _half_depth("LayerDrop 0.5", "plain", kept="evenly spaced"),
    ),
    Claim(
        "A network trained at that depth is better still.",
        "half of the layers: trained at that depth minus LayerDrop 0.5",
        _half_depth("trained at that depth", "LayerDrop 0.5", kept="evenly spaced"),
    ),
    Claim(
        "Evenly spaced layers are no better than the first ones.",
        "half of the layers, LayerDrop 0.5: evenly spaced minus first",
        _half_depth("evenly spaced", "first", by="kept", method="LayerDrop 0.5"),
        level=True,
    ),
    Claim(
        "Before retraining the surviving subnetwork is far better than a random one.",
        "pruned, mean by task: good minus random (reviews: accuracy; GLUE: Matthews × 100)",
        _09("scores", _by_task(gap("good", "random", "score", by="subnetwork", when="pruned"))),
    ),
    Claim(
        "After retraining the random subnetwork is as good.",
        "retrained, mean by task: good minus random",
        _09("scores", _by_task(gap("good", "random", "score", by="subnetwork", when="retrained"))),
        level=True,
    ),
    Claim(
        "Two seeds of a task share more kept heads than random masks.",
        "heads shared by two seeds beyond chance, by task (reviews: of 32; GLUE: of 72)",
        _09("heads", _of_two_seeds),
        points=False,
    ),
    Claim(
        "Two seeds of a task share more heads than two tasks of a seed.",
        "the same, minus the heads shared with the other tasks of one seed",
        _09("heads", _task_first),
        points=False,
    ),
    Claim(
        "At equal products, chosen tokens keep more accuracy than random tokens.",
        "steep schedule, not trained: attention received minus random",
        _10("scores", gap("received", "random", schedule="steep")),
    ),
    Claim(
        "The cheap row of [CLS] is as good a score as attention received.",
        "steep schedule: [CLS] row minus received",
        _10("scores", gap("[CLS] row", "received", schedule="steep")),
        level=True,
    ),
)
