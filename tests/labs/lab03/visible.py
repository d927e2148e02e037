"""Lab 03, lottery tickets: the claims about each answer, and its likely mistakes.

Every grading draws new inputs. The inputs are chosen so that the usual mistakes and the
right answer give different results: layers of unlike scales, counts that end in a half,
ties, kept weights that are 0 and pruned weights that are large. In 3.3 the training runs
next to the student's code and logs each call; the tests compute from this log which
weights each round should have pruned, and where it should have started.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from course_lib.grading import (
    Draw,
    Submission,
    expect_equal,
    expect_keys,
    expect_length,
    expect_tensor,
    fail,
    question,
    unchanged,
)
from course_lib.grading.claims.hunt import Version
from course_lib.grading.claims.mistakes import (
    Case,
    draw_case,
    draw_discriminating_case,
    recognise,
    same,
)
from course_lib.grading.claims.student import StudentError
from course_lib.grading.claims.typed import expect_choice
from course_lib.labs import lab03 as reference
from course_lib.pruning.weights import smallest
from course_lib.student_code import helpers

Masks = dict[str, Tensor]
# a sentence for the student -> a function that makes this mistake
Wrong = dict[str, Callable[..., Any]]
WRONG: dict[str, Wrong] = {}  # by graded name


# --- looking at masks -----------------------------------------------------------------

UPSIDE_DOWN = "the mask is upside down: True means kept"
ANY_ORDER = (
    "the number of pruned weights is right, and they are the smallest. But among equal weights the wrong ones were pruned: "
    "the first one is pruned first. A plain argsort or topk does not guarantee an order among equal values"
)


def as_mask(value: Any, like: Tensor, what: str) -> Tensor:
    """The value, if it has the form of a mask for ``like``: bool, and of the same
    shape.
    """
    if isinstance(value, Tensor) and value.dtype != torch.bool:
        fail(
            f"{what} holds numbers of dtype {str(value.dtype)[6:]}: a mask must have dtype bool, like the result of a comparison"
        )
    if isinstance(value, Tensor) and value.shape != like.shape:
        fail(
            f"{what} has shape {tuple(value.shape)}, but the weight has {tuple(like.shape)}: a mask has one entry per weight"
        )
    return expect_tensor(value, shape=like.shape, dtype=torch.bool, what=what)


def as_masks(value: Any, like: Mapping[str, Tensor], what: str = "the result") -> Masks:
    """The value, if it has the form of masks for ``like``: its keys in its order, and a
    mask for each.
    """
    expect_keys(value, like, what)
    if list(value) != list(like):
        fail(
            f"{what} has the keys {', '.join(value)}: return them in the same order as they were given, {', '.join(like)}. The last "
            "key marks the output layer, and later code relies on this order"
        )
    return {name: as_mask(value[name], like[name], f"the mask of {name!r}") for name in like}


def count(mask: Tensor) -> int:
    """How many are True."""
    return int(mask.count_nonzero())


def sixteens(draw: Draw, *shape: int, kept: float) -> Tensor:
    """A mask that keeps a multiple of 16: of a share in sixteenths, nothing is rounded."""
    n = math.prod(shape)
    return (draw.permutation(n) < 16 * round(kept * n / 16)).view(shape)


def layers(draw: Draw, kept: float = 0.6) -> tuple[dict[str, Tensor], Masks]:
    """Four layers of unlike sizes and scales, and masks that keep multiples of 16; the
    last one is neither first nor last in the alphabet.

    Weights that are pruned have values like the others.
    """
    shapes = {
        "conv.weight": (draw.integer(4, 6), 3, 5),
        "wide.weight": (draw.integer(9, 12), draw.integer(9, 13)),
        "deep.weight": (draw.integer(5, 7), 3, 2, 3),
        "head.weight": (draw.integer(7, 9), draw.integer(7, 9)),
    }
    weights = {
        name: draw.normal(*shape, scale=3.0**i / 3)
        for i, (name, shape) in enumerate(shapes.items())
    }
    return weights, {name: sixteens(draw, *w.shape, kept=kept) for name, w in weights.items()}


def without(mask: Tensor, goes: int, score: Tensor) -> Tensor:
    """``mask`` without the ``goes`` survivors that have the smallest scores. Of equal
    scores the first one is pruned first.
    """
    alive = score[mask]
    left = mask.clone()
    left[mask] = smallest(alive, min(goes, len(alive)) / max(1, len(alive)))
    return left


# --- 3.1 shrink -----------------------------------------------------------------------

OF_ALL = (
    "the rate was taken of all weights of the layer: it is a share of the layer's survivors. With 20 % of all weights per "
    "round, no weight would remain after five rounds. With 20 % of the survivors, a third of the weights remains"
)
GLOBAL = "the layers lost unequal shares, and the layer with the smallest weights lost most: rank the survivors of each layer separately"
STAYS = "the rate was used as the share to keep: it is the share to prune"
NO_ABS = "the most negative survivors were pruned: rank by absolute value, without the sign"
LARGEST = (
    "the largest survivors were pruned: small weights have little effect, so they are pruned first"
)
EACH_ROW = "each row lost the same share: rank all survivors of the layer in one list"
KEPT_FOR_GONE = "exactly the weights that should be pruned were kept, and all other weights were pruned: True means kept"
DEAD_COMPETE = (
    "pruned weights were ranked together with the survivors: your code pruned survivors that are among the smallest of *all* "
    "weights of the layer. The rate is a share of the survivors, and only the survivors are ranked"
)
OF_THE_REST = (
    "rate / (1 - rate) of the survivors were pruned: prune the share rate of the survivors"
)


def with_rates(
    weights: dict[str, Tensor],
    masks: Masks,
    rates: Mapping[str, float],
    score: Callable[[Tensor], Tensor] = Tensor.abs,
    number: Callable[[float, int, int], int] = lambda rate, alive, n: round(rate * alive),
) -> Masks:
    """The masks after a round in which each layer has a rate of its own; ``number``
    says how many go.
    """
    return {
        name: without(masks[name], number(rates[name], count(masks[name]), w.numel()), score(w))
        for name, w in weights.items()
    }


def version(
    number: Callable[[float, int, int], int] = lambda rate, alive, n: round(rate * alive),
    score: Callable[[Tensor], Tensor] = Tensor.abs,
    output: Callable[[float, float], float] = lambda rate, own: own,
) -> Version:
    """shrink, but for one thing: how many go, by which score, or at which rate in the
    output layer.
    """

    def shrink(
        weights: dict[str, Tensor], masks: Masks, rate: float, output_rate: float | None = None
    ) -> Masks:
        reference.shrink(weights, masks, rate, output_rate)  # raises where it should
        *hidden, last = weights
        own = rate / 2 if output_rate is None else output_rate
        return with_rates(
            weights, masks, dict.fromkeys(hidden, rate) | {last: output(rate, own)}, score, number
        )

    return shrink


def all_layers_together(
    weights: dict[str, Tensor], masks: Masks, rate: float, output_rate: float | None = None
) -> Masks:
    """A wrong version: the survivors of all layers compete in one list."""
    sizes = torch.cat([w[masks[name]].abs() for name, w in weights.items()])
    parts = smallest(sizes, rate).split([count(mask) for mask in masks.values()])
    result = {}
    for (name, mask), part in zip(masks.items(), parts, strict=True):
        result[name] = mask.clone()
        result[name][mask] = part
    return result


def layer_by_layer(one: Callable[[Tensor, Tensor, float], Tensor]) -> Version:
    """shrink by a function of each layer's weight, mask and rate."""

    def shrink(
        weights: dict[str, Tensor], masks: Masks, rate: float, output_rate: float | None = None
    ) -> Masks:
        *_, last = weights
        own = rate / 2 if output_rate is None else output_rate
        return {
            name: one(w, masks[name], own if name == last else rate) for name, w in weights.items()
        }

    return shrink


def row_by_row(w: Tensor, mask: Tensor, rate: float) -> Tensor:
    return torch.stack(
        [without(m, round(rate * count(m)), v.abs()) for v, m in zip(w, mask, strict=True)]
    )


def goes_alone(w: Tensor, mask: Tensor, rate: float) -> Tensor:
    """By mistake: the mask of the weights to prune, instead of the weights to keep."""
    return mask & ~without(mask, round(rate * count(mask)), w.abs())


WRONG["shrink"] = {
    OF_ALL: version(number=lambda rate, alive, n: round(rate * n)),
    GLOBAL: all_layers_together,
    STAYS: version(number=lambda rate, alive, n: alive - round(rate * alive)),
    NO_ABS: version(score=lambda w: w),
    LARGEST: version(score=lambda w: -w.abs()),
    EACH_ROW: layer_by_layer(row_by_row),
    OF_THE_REST: version(number=lambda rate, alive, n: round(rate / (1 - rate) * alive)),
    KEPT_FOR_GONE: layer_by_layer(goes_alone),
    DEAD_COMPETE: layer_by_layer(
        lambda w, mask, rate: mask & smallest(w.abs().flatten(), rate).view(mask.shape)
    ),
    UPSIDE_DOWN: lambda *arguments: {
        name: ~mask for name, mask in reference.shrink(*arguments).items()
    },
}


def expect_shrunk(left: Masks, weights: dict[str, Tensor], masks: Masks, right: Masks) -> None:
    """``left`` is ``right``; else say what is wrong: which pruned weights are kept again,
    how many weights were pruned, which ones, or the order among equals.
    """
    if same(left, {name: ~mask for name, mask in right.items()}):
        fail(UPSIDE_DOWN)
    for name, mask in masks.items():
        back = count(left[name] & ~mask)
        if back:
            fail(
                f"{back} weights of {name!r} that had been pruned before are kept again: a round prunes only survivors, and pruned "
                "weights must remain pruned, whatever their values are"
            )
        went, should = count(mask & ~left[name]), count(mask & ~right[name])
        if went != should:
            stay = (
                ": that is the number that should have been kept"
                if went == count(mask) - should
                else ""
            )
            fail(
                f"of the {count(mask)} survivors of {name!r}, {went} were pruned instead of {should}{stay}"
            )
        if not torch.equal(left[name], right[name]):
            size = weights[name].abs()
            gone, kept = size[mask & ~left[name]].max(), size[left[name]].min()
            if gone > kept:
                fail(
                    f"in {name!r} |w| = {gone:.4g} was pruned while |w| = {kept:.4g} was kept: the smallest survivors are pruned first"
                )
            fail(ANY_ORDER)


@question("3.1", points=0.5, claim="every layer loses the rate of its survivors, the smallest |w|")
def test_share_of_the_survivors(submission: Submission, draw: Draw) -> None:
    def pruned() -> tuple[Any, ...]:
        weights, masks = layers(draw)
        rate = draw.choice([0.1875, 0.25, 0.3125])
        return weights, masks, rate, rate

    (weights, masks, rate, _), right, mistakes = draw_case(
        pruned, reference.shrink, WRONG["shrink"]
    )
    left = as_masks(submission.shrink(weights, masks, rate, rate), weights)
    recognise(left, right, mistakes)
    *hidden, _ = weights
    # the output layer may have been treated in another way
    for sentence in (GLOBAL, OF_ALL, KEPT_FOR_GONE, DEAD_COMPETE):
        if all(torch.equal(left[name], mistakes[sentence][name]) for name in hidden):
            fail(sentence)
    *_, output = weights
    together = all_layers_together(
        {n: weights[n] for n in hidden}, {n: masks[n] for n in hidden}, rate
    )
    if not same(left, right) and all(torch.equal(left[name], together[name]) for name in hidden):
        fail(GLOBAL)
    if all(torch.equal(left[name], right[name]) for name in hidden) and not torch.equal(
        left[output], right[output]
    ):
        half = without(masks[output], round(rate / 2 * count(masks[output])), weights[output].abs())
        if torch.equal(left[output], half):
            fail(
                f"output_rate = {rate} was given, but the output layer lost half of the rate: half of the rate is only for output_rate = None"
            )
    expect_shrunk(left, weights, masks, right)


@question(
    "3.1",
    points=0.5,
    claim="the output layer, the last key, has a rate of its own: half, by default",
)
def test_output_rate(submission: Submission, draw: Draw) -> None:
    weights, masks = layers(draw, kept=0.8)
    *_, output = weights
    for rate, output_rate in ((0.375, None), (0.25, 0.5), (0.375, 0.0)):
        own = rate / 2 if output_rate is None else output_rate
        call = (
            f"shrink(weights, masks, {rate})"
            if output_rate is None
            else f"shrink(weights, masks, {rate}, {output_rate})"
        )
        left = as_masks(
            submission.shrink(
                weights, masks, rate, *([] if output_rate is None else [output_rate])
            ),
            weights,
        )
        right = reference.shrink(weights, masks, rate, output_rate)
        others = dict.fromkeys(weights, rate)
        half = "output_rate is None means half of the rate"
        mistakes = {
            f"the output rate {own} was used in every layer: it applies to the last key only": dict.fromkeys(
                weights, own
            ),
            f"the output layer {output!r} lost {rate} of its survivors, like the other layers; {half}": (
                others if output_rate is None else {}
            ),
            f"output_rate = {output_rate} had no effect: the output layer lost {rate}, like the other layers": (
                others if output_rate is not None else {}
            ),
            "output_rate = 0 was treated as if no output_rate had been given: 0 is false, as None is. Test for `output_rate is None`": (
                others | {output: rate / 2} if output_rate == 0 else {}
            ),
            f"output_rate = {output_rate} was given, but the output layer lost half of the rate: use the output_rate that was given": (
                others | {output: rate / 2} if output_rate is not None else {}
            ),
            f"output_rate = {output_rate} was given, but half of output_rate was used: use all of it. Half of the *rate* is for output_rate = None": (
                others | {output: own / 2} if output_rate is not None else {}
            ),
        }
        wrong = {
            said: with_rates(weights, masks, rates) for said, rates in mistakes.items() if rates
        }
        for name in list(weights)[:-1]:
            wrong[
                f"{name!r} was pruned at the output rate: the output layer is the last key of the dict, {output!r}. The alphabet "
                "does not matter"
            ] = with_rates(weights, masks, others | {name: own})
        recognise(left, right, wrong, f"{call}: ")
        expect_shrunk(left, weights, masks, right)


# --- 3.2 rewind -----------------------------------------------------------------------


class Rewound:
    """A call of the student's rewind: the net, its parameters as they were held before,
    the state, and the model after the call.
    """

    def __init__(
        self,
        submission: Submission,
        draw: Draw,
        unmasked: tuple[str, ...] = (),
    ) -> None:
        net, other = draw.convnet(), draw.convnet()
        for model in (net, other):
            for norm in (m for m in model.modules() if isinstance(m, nn.BatchNorm2d)):
                norm.running_mean.copy_(draw.normal(norm.num_features))
                norm.running_var.copy_(draw.normal(norm.num_features).abs())
                norm.num_batches_tracked.fill_(draw.integer(1, 1000) + 1000 * (model is net))
        self.submission = submission
        self.trained = {name: value.clone() for name, value in net.state_dict().items()}
        self.state = {name: value.clone() for name, value in other.state_dict().items()}
        self.parameters = dict(net.named_parameters())
        self.masks = {
            name: draw.mask(*p.shape, kept=0.6)
            for name, p in self.parameters.items()
            if p.ndim >= 2 and name not in unmasked
        }
        self.model = submission.put(net)
        self.held = {
            name: submission.call("get_parameter", name, on=self.model, keep=True)
            for name in self.parameters
        }
        self.given = submission.put(self.state)
        self.result = submission.rewind(self.model, self.given, self.masks)
        self.after = submission.get(self.model).state
        if self.after.keys() != self.trained.keys():
            fail("after rewind the model has other parameters or buffers than before")


def rewound(submission: Submission, draw: Draw, unmasked: tuple[str, ...] = ()) -> Rewound:
    """A call of the student's rewind; if it raises what is easily forgotten here, with
    the next thought.
    """
    try:
        return Rewound(submission, draw, unmasked)
    except StudentError as error:
        if error.kind == "raised" and "a leaf" in error.message:
            thought = "Parameters are changed in place under torch.no_grad()"
        elif error.kind == "raised" and error.type == "KeyError":
            thought = "Which parameters have a mask? Look into masks"
        else:
            raise
        when = (
            f"with masks for all weights but {unmasked[0]!r}"
            if unmasked
            else "with masks for all weights"
        )
        where = f" ({error.where})" if error.where else ""
        fail(f"{when} your code raised {error.type}: {error.message}{where}. {thought}")


@question("3.2", points=0.5, claim="all parameters and buffers are back at their values of then")
def test_everything_is_rewound(submission: Submission, draw: Draw) -> None:
    expect_parameters_rewound(submission, draw)
    expect_buffers_rewound(submission, draw)


def expect_parameters_rewound(submission: Submission, draw: Draw) -> None:
    run = rewound(submission, draw)
    if same(
        {name: value for name, value in run.after.items() if name not in run.masks},
        {name: value for name, value in run.trained.items() if name not in run.masks},
    ):
        for name, mask in run.masks.items():
            if torch.equal(run.after[name][mask], run.trained[name][mask]):
                fail(
                    "the model still has the trained weights: rewind sets the kept weights back to their values in state. "
                    "Did your code change a copy of the model?"
                )
    for name in run.parameters:
        kept = run.masks.get(name, torch.ones_like(run.trained[name], dtype=torch.bool))
        now, then = run.after[name], run.state[name]
        expect_tensor(now, shape=then.shape, what=f"{name!r} after rewind")
        if torch.equal(now[kept], then[kept]):
            continue
        if torch.equal(now[kept], run.trained[name][kept]):
            what = (
                "the weights that the mask keeps still have"
                if name in run.masks
                else "this parameter, which is without a mask, still has"
            )
            fail(f"{name!r}: {what} the trained values. Rewind all parameters, not only some")
        if not now[kept].any():
            if name in run.masks and torch.equal(now[~kept], then[~kept]):
                fail(f"{name!r}: {UPSIDE_DOWN}, and False means pruned")
            fail(f"{name!r} is 0 now: a parameter without a mask gets all its values from state")
        fail(
            f"{name!r} has neither its values in state nor the trained values. Did your code draw new random values? Copy the values in state"
        )


@question("3.2", points=0.5, claim="where a mask is False, the weight is 0")
def test_pruned_weights_are_zero(submission: Submission, draw: Draw) -> None:
    expect_pruned_are_zero(submission, draw)


def expect_pruned_are_zero(
    submission: Submission, draw: Draw, unmasked: tuple[str, ...] = ()
) -> None:
    """Where a mask is False the weight is 0; parameters without a mask are rewound."""
    run = rewound(submission, draw, unmasked)
    for name, mask in run.masks.items():
        if (alive := count(run.after[name][~mask])) == 0:
            continue
        said = f"{alive} weights of {name!r} that the masks prune are not 0 after rewind"
        if not run.after[name][mask].any():
            fail(f"{said}, and the weights that the masks keep are 0: {UPSIDE_DOWN}")
        if torch.equal(run.after[name][~mask], run.state[name][~mask]):
            fail(
                f"{said}. They have their values in state: first copy state, then set the pruned weights to 0"
            )
        if torch.equal(run.after[name][~mask], run.trained[name][~mask]):
            fail(f"{said}. They still have their trained values")
        fail(said)
    for name in unmasked:
        if not torch.equal(run.after[name], run.state[name]):
            fail(
                f"{name!r}, a weight without a mask, does not have its values in state: copy all of them"
            )


def expect_buffers_rewound(submission: Submission, draw: Draw) -> None:
    run = rewound(submission, draw)
    for name in run.trained.keys() - run.parameters.keys():
        if torch.equal(run.after[name], run.trained[name]) and not torch.equal(
            run.after[name], run.state[name]
        ):
            fail(
                f"the buffer {name!r} still has its value after training: rewind batch norm's running statistics, too. "
                "They are in state_dict() and buffers(), not among the parameters"
            )
        expect_equal(run.after[name], run.state[name], f"the buffer {name!r} after rewind")


@question("3.2", points=0.5, claim="state keeps its values, also when the model is trained on")
def test_state_is_copied(submission: Submission, draw: Draw) -> None:
    run = rewound(submission, draw)
    if same(run.after, run.trained):
        fail(
            "the model still has its trained values, so this test cannot check how state is copied. Rewind the model first"
        )
    unchanged(run.state, submission.get(run.given), "the state")
    for name in run.parameters:
        submission.call(
            "data.fill_", 77.0, on=submission.call("get_parameter", name, on=run.model, keep=True)
        )
    for name in run.trained.keys() - run.parameters.keys():
        submission.call(
            "fill_", 77, on=submission.call("get_buffer", name, on=run.model, keep=True)
        )
    for name, value in submission.get(run.given).items():
        if not torch.equal(value, run.state[name]):
            fail(
                f"when the rewound model was changed, {name!r} in state changed, too: the model shares memory with state. The next "
                "training would change state, and you could not rewind to it again. Copy the values"
            )


# --- 3.3 find_ticket ------------------------------------------------------------------

STEPS = 6  # of a whole training
LR = 0.08


def _trained(entry: Any, net: nn.Module, x: Tensor, y: Tensor) -> bool:
    try:
        return helpers.repeated(entry, net, x, y, LR)
    except (KeyError, TypeError, ValueError, RuntimeError, AttributeError):
        return False


class Search:
    """A call of the student's find_ticket: its records, and the log of train."""

    def __init__(
        self, submission: Submission, draw: Draw, rounds: int, rate: float, k: int
    ) -> None:
        net = nn.Sequential(
            nn.Conv1d(2, 8, 3, padding=1),
            nn.BatchNorm1d(8),
            nn.ReLU(),
            nn.Flatten(),
            draw.mlp((40, 8, 4)),
        )
        with torch.no_grad():
            net[0].weight.copy_(draw.normal(8, 2, 3, scale=0.3))
            net[4][0].weight.copy_(draw.normal(8, 40, scale=0.1))
            net[4][0].weight[:, :5] = 0.0  # and stays 0: see x
            net[4][3].weight.copy_(draw.normal(4, 8, scale=0.3))
            net[0].weight[0], net[0].bias[0], net[1].bias[0] = (
                0.0,
                0.0,
                -1.0,
            )  # a dead unit: its outputs have no gradient
        self.rounds, self.rate, self.k = rounds, rate, k
        self.start = {name: value.clone() for name, value in net.state_dict().items()}
        self.names = [name for name, p in net.named_parameters() if p.ndim >= 2]
        self.size = sum(self.start[name].numel() for name in self.names)
        self.build = submission.helper("build", model=net)
        x, y = draw.normal(STEPS, 12, 2, 5), draw.labels(STEPS * 12, 4).view(STEPS, 12)
        train = submission.helper("train", x=x, y=y, lr=LR)
        self.records = submission.find_ticket(self.build, train, rounds, rate, *([k] if k else []))
        self.log = submission.get(train, "log")
        if not self.log:
            fail(
                "your code never called train: call train(model, masks, start, stop) in every round"
            )
        for number, entry in enumerate(
            self.log, start=1
        ):  # notes that the code could write itself are believed no further
            if not _trained(entry, net, x, y):
                fail(
                    f"call {number} of train did not lead from the weights before it to the weights after it: when we repeat this "
                    "training, we get other weights. Train only by train(model, masks, start, stop), on the model that you pass to it"
                )

    @property
    def call(self) -> str:
        return f"find_ticket(build, train, {self.rounds}, {self.rate}{f', {self.k}' if self.k else ''})"

    @property
    def trainings(self) -> list[dict[str, Any]]:
        """The log of train in each round, if train was called as often as it should be:
        without the call to step k.
        """
        self.expect_calls()
        return self.log[1:] if self.k else self.log

    @property
    def w_k(self) -> dict[str, Tensor]:
        return self.log[0]["after"] if self.k else self.start

    def expect_calls(self) -> None:
        """train was called to step k, if k > 0, and once a round from there."""
        wanted = ([(0, self.k)] if self.k else []) + [(self.k, None)] * (self.rounds + 1)
        calls = [(entry["start"], entry["stop"]) for entry in self.log]
        dense = sum(all(bool(m.all()) for m in entry["masks"].values()) for entry in self.log)
        if calls == wanted and dense <= 1 + bool(self.k):
            return
        said = ", ".join(f"{start}–{'end' if stop is None else stop}" for start, stop in calls)
        here = f"In {self.call} train was called for these steps: {said}."
        if self.k == 0 and (0, 0) in calls:
            fail(
                f"{here} For rewind_step = 0, w_0 needs no training: call train(model, masks, 0, k) only if k > 0"
            )
        if calls.count((0, self.k)) > 1 and self.k:
            fail(
                f"{here} Train the first {self.k} steps once, with the dense network: the result is w_k, and every round starts from w_k"
            )
        if dense > 1 + bool(self.k):
            fail(
                f"{here} {dense} of these trainings were dense (all masks True): train the dense network once, in round 0. "
                "Each later round prunes some survivors of the round before, and trains the others"
            )
        if self.k and (0, self.k) not in calls:
            fail(
                f"{here} With rewind_step = {self.k}, call train(model, masks, 0, {self.k}) first: its result is w_k"
            )
        if self.k and (0, None) in calls:
            fail(
                f"{here} A round starts from w_k, the weights at step {self.k}, so train from step {self.k}, not from step 0"
            )
        if any(stop is not None for start, stop in calls[bool(self.k) :]):
            fail(f"{here} A round trains to the end: train(model, masks, {self.k}, None)")
        to_k = f", and the first {self.k} steps" if self.k else ""
        fail(
            f"{here} There should be {len(wanted)} calls, not {len(calls)}: {self.rounds} rounds of pruning, the dense round 0{to_k}"
        )

    def expect_records(self) -> list[dict[str, Any]]:
        """The records, if they have the form of records."""
        if isinstance(self.records, list) and len(self.records) in (self.rounds, self.rounds + 2):
            fail(
                f"{self.call} returned {len(self.records)} records: return one record for the dense round 0, and one for "
                "each round of pruning, so rounds + 1 in total"
            )
        expect_length(self.records, self.rounds + 1, f"the result of {self.call}", list)
        for i, record in enumerate(self.records):
            expect_keys(record, ("round", "masks", "remaining", "result"), f"record {i}")
        return self.records

    def expect_masks(self) -> list[Masks]:
        """The masks of each record, if they have the form of masks for the weights with
        two or more dimensions.
        """
        like = {name: self.start[name] for name in self.names}
        for record in self.expect_records():
            extra = (
                [name for name in record["masks"] if name not in like]
                if isinstance(record["masks"], dict)
                else []
            )
            if extra:
                fail(
                    f"there is a mask for {extra[0]!r}: only parameters with two or more dimensions are pruned"
                )
        every = [
            as_masks(record["masks"], like, f"the masks of round {i}")
            for i, record in enumerate(self.records)
        ]
        for name, mask in every[0].items():
            if not mask.all():
                if self.rounds and all(same(masks, every[0]) for masks in every):
                    fail(
                        "the records of all rounds hold the masks of the last round: the same dict was changed in every "
                        "round, and each record refers to it. Make a new dict of masks for each round"
                    )
                fail(
                    f"round 0 is the dense network, but {count(~mask)} weights of {name!r} are pruned in its masks: record "
                    "the masks that the round was trained with, and prune after the training"
                )
        return every


@question(
    "3.3",
    points=1,
    claim="the dense network is trained once, then every round once, from step k to the end",
)
def test_trainings(submission: Submission, draw: Draw) -> None:
    for rounds, k in ((3, 2), (2, 0)):
        search = Search(submission, draw, rounds, draw.choice([0.2, 0.3, 0.4]), k)
        search.expect_calls()
        if (calls := submission.get(search.build, "calls")) != 1:
            fail(
                f"In {search.call} build was called {calls} times: call it once. Every later round trains this model again, after "
                "it was rewound"
            )
        for entry, which in zip(
            search.log, [f"the training to step {k}", "round 0"] if k else ["round 0"], strict=False
        ):
            if not all(bool(mask.all()) for mask in entry["masks"].values()):
                fail(f"{which} was run with pruned weights: train the dense network there")


@question("3.3", points=1.5, claim="every round starts from w_k, whatever was trained since")
def test_rewinding(submission: Submission, draw: Draw) -> None:
    for rounds, k in ((2, 3), (2, 0)):
        search = Search(submission, draw, rounds, 0.4, k)
        w_k = search.w_k
        for i, entry in enumerate(search.trainings):
            for name, then in w_k.items():
                if name.endswith("num_batches_tracked"):
                    continue  # a counter: no weight depends on it
                now = entry["before"].get(name)
                expect_tensor(now, shape=then.shape, what=f"{name!r} at the start of round {i}")
                kept = entry["masks"].get(name, torch.ones_like(then, dtype=torch.bool))
                if not torch.equal(now[kept], then[kept]):
                    fail(_not_rewound(search, i, name, now[kept], kept))


def _not_rewound(search: Search, i: int, name: str, now: Tensor, kept: Tensor) -> str:
    """Where round i started instead of w_k."""
    step = f"In {search.call}, round {i} did not start from w_k (k = {search.k}): {name!r}"
    if i and torch.equal(now, search.trainings[i - 1]["after"][name][kept]):
        if name not in dict.fromkeys(search.names) and not name.endswith(("weight", "bias")):
            return f"{step}, a buffer, still has its value from the round before: w_k is all of state_dict(), parameters and buffers"
        return (
            f"{step} started from the trained weights of the round before. Rewind to a copy: state_dict() shares memory with the "
            "model, so training changes it. dict() and .copy() do not copy the tensors, either"
        )
    if search.k and torch.equal(now, search.start[name][kept]):
        return f"{step} had the values that build() gave it, at step 0: w_k are the weights after the first {search.k} steps"
    return (
        f"{step} has neither the values of w_k nor the trained values of the round before. Do not change the weights between "
        "rewinding and train: no new random start, and no step of an old optimizer"
    )


@question(
    "3.3",
    points=1,
    claim="each round prunes the survivors that are smallest after the last training",
)
def test_masks_of_the_rounds(submission: Submission, draw: Draw) -> None:
    search = Search(submission, draw, 3, draw.choice([0.3, 0.4]), 2)
    masks = search.expect_masks()
    for i in range(1, search.rounds + 1):
        expect_nested(search, i, masks[i - 1], masks[i])
    *hidden, output = search.names
    for i in range(1, search.rounds + 1):
        before, now = masks[i - 1], masks[i]
        expect_counts_of_round(search, i, before, now)
        trained = {name: search.trainings[i - 1]["after"][name] for name in search.names}
        right = reference.shrink(trained, before, search.rate)
        if same(now, right):
            continue
        rates = dict.fromkeys(hidden, search.rate) | {output: search.rate / 2}
        first = {name: search.trainings[0]["after"][name] for name in search.names}
        moved = {name: w - search.w_k[name] for name, w in trained.items()}
        mistakes = {
            "the weights were ranked by their values at w_k: rank by the trained weights, so prune before you rewind": search.w_k,
            "the weights were ranked by the dense network's trained values: in each round, rank by the weights of the last training": first,
            "the weights with the largest change were kept: keep the weights with the largest trained |w|": moved,
        }
        wrong = {
            said: with_rates({n: w[n] for n in search.names}, before, rates)
            for said, w in mistakes.items()
        }
        recognise(now, right, wrong, f"Round {i}: ")
        fail(
            f"Round {i}: shrink gives other masks for the trained weights of round {i - 1}. Does your code "
            "change the weights between train and shrink?"
        )


def expect_nested(search: Search, i: int, before: Masks, now: Masks) -> None:
    """No pruned weight is kept again, and some weight was pruned."""
    for name in search.names:
        if back := count(now[name] & ~before[name]):
            fail(
                f"the masks are not nested: {back} weights of {name!r} that were pruned in round {i - 1} are kept in round {i}. "
                "Each round shrinks the masks of the round before"
            )
    if same(before, now):
        fail(
            f"no weight was pruned from round {i - 1} to round {i}: each round shrinks the masks of the round before. The weights "
            "that those masks prune are 0 already"
        )


def expect_counts_of_round(search: Search, i: int, before: Masks, now: Masks) -> None:
    """Each layer lost the rate of its survivors, and the output layer half of the rate."""
    rate = search.rate
    *hidden, output = search.names
    went = {name: (count(before[name] & ~now[name]), count(before[name])) for name in search.names}
    rates = dict.fromkeys(hidden, rate) | {output: rate / 2}
    right = {name: round(rates[name] * n) for name, (_, n) in went.items()}
    numbers = {name: k for name, (k, _) in went.items()}
    mistakes = {
        f"the output layer {output!r} lost {rate} of its survivors, like the other layers: it should lose half of the rate": {
            name: round(rate * n) for name, (_, n) in went.items()
        },
        f"every layer lost half of the rate: only the output layer {output!r} should. Do you pass all layers to shrink in one call?": {
            name: round(rate / 2 * n) for name, (_, n) in went.items()
        },
        "the rate was taken of all weights, not of the survivors": {
            name: min(n, round(rates[name] * before[name].numel())) for name, (_, n) in went.items()
        },
    }
    recognise(numbers, right, mistakes, f"Round {i}: ")
    for name, (k, n) in went.items():
        if k != right[name]:
            fail(
                f"Round {i}: {k} of the {n} survivors of {name!r} were pruned instead of round({rates[name]:g} · {n}) = {right[name]}"
            )


# --- 3.4 random_ticket, reinitialise --------------------------------------------------


def tickets(draw: Draw) -> Masks:
    """Three masks that keep half of their weights: the upper rows, the right columns,
    the upper rows again.
    """
    rows, columns = 2 * draw.integer(9, 11), 2 * draw.integer(7, 8)
    upper = (torch.arange(rows)[:, None] < rows // 2).expand(rows, columns).clone()
    right = (torch.arange(columns) >= columns // 2).expand(rows, columns).clone()
    return {"a.weight": upper, "b.weight": right, "c.weight": upper.clone()}


def shuffled(submission: Submission, masks: Masks, seed: int) -> Masks:
    """The result of the student's random_ticket for the masks, with a generator of this
    seed.
    """
    return as_masks(
        submission.random_ticket(masks, submission.helper("generator", seed=seed)), masks
    )


@question("3.4", points=0.5, claim="a random ticket keeps as many weights in each layer")
def test_same_counts(submission: Submission, draw: Draw) -> None:
    shapes = {"a.weight": (draw.integer(9, 12), 11), "b.weight": (5, 3, 3, draw.integer(2, 3)), "c.weight": (7, 13), "d.weight": (4, 5), "e.weight": (4, 5)}  # fmt: skip
    masks = {name: draw.mask(*shape, kept=kept) for (name, shape), kept in zip(shapes.items(), (0.2, 0.4, 0.75, 0, 1), strict=True)}  # fmt: skip
    after = shuffled(submission, masks, draw.integer(0, 10**6))
    counts = {name: (count(after[name]), count(mask), mask.numel()) for name, mask in masks.items()}
    if all(k == right for k, right, _ in counts.values()):
        if same(after, masks):
            fail(
                "your code returned the ticket itself: keep as many weights, but at random positions"
            )
        return
    if all(k == n - right for k, right, n in counts.values()):
        fail("your code keeps as many weights as the given masks prune: True means kept")
    in_all, right_in_all = (sum(numbers[i] for numbers in counts.values()) for i in (0, 1))
    name, (k, right, n) = next((name, c) for name, c in counts.items() if c[0] != c[1])
    said = f"in {name!r} {k} of {n} weights are kept, but the ticket keeps {right}: keep as many"
    if in_all == right_in_all:
        fail(
            f"{said}. The total over all layers is right, so the layers were shuffled together. Shuffle layer by layer"
        )
    fail(
        f"{said}. The number must be exact. It is not if each position is drawn independently, or if a position can be drawn twice"
    )


@question("3.4", points=0.5, claim="where they are is random, and the generator decides")
def test_places_are_random(submission: Submission, draw: Draw) -> None:
    masks = tickets(draw)
    one, two = draw.distinct(2, 0, 10**6)
    first = shuffled(submission, masks, one)
    if any(same(first[name], masks[name]) for name in masks) and not structured(masks, first):
        fail(
            "a layer has the same mask as before: a random ticket keeps weights at random positions"
        )
    if not same(first, shuffled(submission, masks, one)):
        fail(
            "two generators with the same seed gave different tickets: do all your random numbers come from the given generator?"
        )
    if same(first, shuffled(submission, masks, two)):
        fail(
            "two generators with different seeds gave the same ticket: the positions should be random, and depend on the given "
            "generator. Do you use it, without seeding it again?"
        )
    generator = submission.helper("generator", seed=two)
    again = [as_masks(submission.random_ticket(masks, generator), masks) for _ in range(2)]
    if same(*again):
        fail(
            "a second call with the same generator gave the first ticket again: draw from the generator itself, so that its state changes with every call"
        )


def structured(masks: Masks, after: Masks) -> str:
    """A sentence about the positions of ``after`` that are not random, or "". A right
    answer gets such a sentence less than once in 10¹⁰ tickets.
    """
    upper, right = after["a.weight"], after["b.weight"]
    as_it_was = {name: torch.equal(after[name], mask) for name, mask in masks.items()}
    if all(as_it_was.values()):
        return ""
    if (upper.all(1) | ~upper.any(1)).all() and as_it_was["b.weight"]:
        return "whole rows were moved: each kept row is kept at another position. Shuffle single weights"
    if (right.all(0) | ~right.any(0)).all() and as_it_was["a.weight"]:
        return "whole columns were moved: each kept column is kept at another position. Shuffle single weights"
    if all(as_it_was[name] or _shifted(mask, after[name]) for name, mask in masks.items()):
        return "the mask was only shifted, so weights that were neighbours are still neighbours. Shuffle single weights"
    if torch.equal(right.sum(1), masks["b.weight"].sum(1)):
        return "the weights were shuffled within each row, so each row keeps the same number of weights: shuffle all weights of the layer together"
    if torch.equal(upper.sum(0), masks["a.weight"].sum(0)):
        return "the weights were shuffled within each column, so each column keeps the same number of weights: shuffle all weights of the layer together"
    return ""


def _shifted(mask: Tensor, after: Tensor) -> bool:
    flat = mask.flatten()
    return any(torch.equal(flat.roll(by), after.flatten()) for by in range(1, len(flat)))


OTHERWISE = {  # by the order in the lab's source
    0: "the search keeps a larger share of the output layer, and shuffling over all layers changes that, too: two things differ from the ticket",
    2: "two things differ from the ticket, the places and the initial weights. If this control is worse, which of them was it?",
    3: "these places are not random, they are chosen by |w_0|. Is it a control for any places, or another method?",
}


@question(
    "3.4", points=0, claim="b is a letter (which one is right is looked at when it is handed in)"
)
def test_form_of_the_control(submission: Submission, draw: Draw) -> None:
    expect_choice(submission, "answer_3_4", 4, {})


# --- 3.5 drop_and_grow ----------------------------------------------------------------


class Exchange:
    """A layer to exchange connections in: weights of both signs, gradients at all
    positions, a mask.
    """

    def __init__(self, draw: Draw, fraction: float, kept: float = 0.4, ties: bool = False) -> None:
        shape = (draw.integer(6, 8), draw.integer(3, 5), 5)
        self.mask = sixteens(draw, *shape, kept=kept)
        values = draw.tied if ties else draw.normal
        self.weight, self.grad = values(*shape).masked_fill(~self.mask, 0), values(*shape)
        self.fraction = fraction
        self.active = count(self.mask)
        self.k = round(fraction * self.active)

    @property
    def right(self) -> tuple[Tensor, Tensor]:
        return reference.drop_and_grow(self.weight, self.grad, self.mask, self.fraction)

    @property
    def wrong(self) -> dict[str, Tensor]:
        """The masks of the wrong versions."""
        given = (self.weight, self.grad, self.mask, self.fraction)
        return {said: f(*given)[1] for said, f in WRONG["drop_and_grow"].items()}

    def with_mask(self, drop: Tensor | None = None, grow: Tensor | None = None) -> Tensor:
        """The mask where the k active positions of the smallest ``drop`` are dropped and
        those of the largest ``grow`` are grown.
        """
        stays = without(self.mask, self.k, self.weight.abs() if drop is None else drop)
        gains = self.grad.abs() if grow is None else grow
        return stays | (~stays & ~without(~stays, self.k, -gains))


def exchanged(submission: Submission, layer: Exchange) -> tuple[Tensor, Tensor]:
    """What the student's drop_and_grow returns, if it has the form of a weight and a
    mask.
    """
    return as_weight_and_mask(
        submission.drop_and_grow(layer.weight, layer.grad, layer.mask, layer.fraction), layer
    )


def as_weight_and_mask(value: Any, layer: Exchange) -> tuple[Tensor, Tensor]:
    expect_length(value, 2, "the result (a tuple of two, the new weight and the new mask)")
    weight, mask = value
    if (
        isinstance(weight, Tensor)
        and weight.dtype == torch.bool
        and isinstance(mask, Tensor)
        and mask.is_floating_point()
    ):
        fail("your code returned the mask first: return the weight first, then the mask")
    expect_tensor(weight, shape=layer.weight.shape, dtype=layer.weight.dtype, what="the new weight")
    return weight, as_mask(mask, layer.weight, "the new mask")


def exchanging(
    drop: Callable[[Tensor, Tensor], Tensor] = lambda weight, grad: weight.abs(),
    grow: Callable[[Tensor, Tensor, Tensor], Tensor] = lambda weight, grad, mask: grad.abs(),
    number: Callable[[float, int, int], int] = lambda fraction, active, inactive: round(
        fraction * active
    ),
    among: Callable[[Tensor, Tensor], Tensor] = lambda mask, stays: ~stays,
) -> Callable[..., tuple[Tensor, Tensor]]:
    """drop_and_grow with one change: which weights are dropped, which ones grow, how many,
    or among which positions.
    """

    def version(
        weight: Tensor, dense_grad: Tensor, mask: Tensor, fraction: float
    ) -> tuple[Tensor, Tensor]:
        active, inactive = count(mask), count(~mask)
        k = min(number(fraction, active, inactive), active)
        stays = without(mask, k, drop(weight, dense_grad))
        free = among(mask, stays)
        after = stays | (free & ~without(free, k, -grow(weight, dense_grad, mask)))
        return weight.masked_fill(~(mask & stays), 0), after

    return version


OF_ALL_POSITIONS = "the fraction was taken of all positions: it is a share of the active positions"
NEVER_AGAIN = "no position that was just dropped was allowed to grow again: all positions that are inactive after the drop compete"
UNSIGNED = "weights were grown where the gradient is most positive: rank by |gradient|, since a large negative gradient is as useful"
GROWN_MASKED = (
    "the first inactive positions were grown, not the positions with the largest gradient. Did your code use a masked gradient? "
    "It is 0 at all inactive positions, so use the dense gradient"
)


WRONG["drop_and_grow"] = {
    GROWN_MASKED: exchanging(grow=lambda weight, grad, mask: grad * mask),
    NEVER_AGAIN: exchanging(among=lambda mask, stays: ~mask),
    "positions that were active were grown: grow at positions that are inactive after the drop": exchanging(
        among=lambda mask, stays: torch.ones_like(mask)
    ),
    UNSIGNED: exchanging(grow=lambda weight, grad, mask: grad),
    "weights were grown where |gradient| is smallest: grow them where |gradient| is largest, since a weight helps most there": exchanging(
        grow=lambda weight, grad, mask: -grad.abs()
    ),
    "the largest active weights were dropped: drop the smallest, since they have the least effect": exchanging(
        drop=lambda weight, grad: -weight.abs()
    ),
    "the most negative weights were dropped: rank by absolute value, without the sign": exchanging(
        drop=lambda weight, grad: weight
    ),
    "the active weights with the smallest gradient were dropped: drop those with the smallest |weight|": exchanging(
        drop=lambda weight, grad: grad.abs()
    ),
    OF_ALL_POSITIONS: exchanging(
        number=lambda fraction, active, inactive: round(fraction * (active + inactive))
    ),
    UPSIDE_DOWN: lambda *arguments: (
        reference.drop_and_grow(*arguments)[0],
        ~reference.drop_and_grow(*arguments)[1],
    ),
}


@question(
    "3.5",
    points=1,
    claim="the smallest weights go; others grow where the dense gradient is largest",
)
def test_where_it_drops_and_grows(submission: Submission, draw: Draw) -> None:
    def case() -> Case:
        layer = Exchange(draw, draw.choice([0.3125, 0.375]))
        return layer, layer.right[1], layer.wrong

    expect_exchange_of(submission, case)


def expect_exchange_of(submission: Submission, case: Callable[[], Case]) -> None:
    """The student's mask is right in a case that tells its mistakes apart."""
    layer, right, mistakes = draw_discriminating_case(case)
    _, mask = exchanged(submission, layer)
    recognise(mask, right, mistakes)
    expect_exchange(layer, mask, right)


def expect_exchange(layer: Exchange, mask: Tensor, right: Tensor) -> None:
    """The mask is right; else say what is wrong about the positions dropped or grown."""
    if torch.equal(mask, right):
        return
    old, size, gains = layer.mask, layer.weight.abs(), layer.grad.abs()
    if count(mask) != layer.active:
        fail(
            f"{layer.active} positions were active before, and {count(mask)} are active now: grow as many positions as you drop, "
            "and drop only active ones"
        )
    stays = without(old, layer.k, size)
    never = without(~old, min(layer.k, count(~old)), -gains)
    recognise(mask, right, {
        NEVER_AGAIN: stays | (~old & ~never),
        UNSIGNED: layer.with_mask(grow=layer.grad),
    })  # fmt: skip
    rows = [count(row) for row in old & ~mask]
    if bool((stays & ~mask).any()):
        even = (
            " Did each row lose the same share? Rank all positions of the layer together."
            if max(rows) - min(rows) <= 2
            else ""
        )
        fail(
            f"a position was dropped that is not among the {layer.k} active positions with the smallest |weight|, k = "
            f"round({layer.fraction:.3g} · {layer.active} active).{even} Of equal weights the first one is dropped first"
        )
    missed, grown = ~stays & ~mask, mask & ~stays
    if layer.k and count(missed) and gains[grown].min() < gains[missed].max():
        fail(
            f"a weight was grown where |gradient| is {gains[grown].min():.4g}, and none where |gradient| is {gains[missed].max():.4g}: grow "
            "where the dense |gradient| is largest, among all positions that are inactive after the drop"
        )
    fail(
        "among equal gradients the wrong position was grown: the first one is grown first. topk and a plain argsort do not "
        "guarantee an order among equal values"
    )


@question(
    "3.5",
    points=0.5,
    claim="new weights start at 0, dropped ones are 0, the others keep their values",
)
def test_values_after_the_exchange(submission: Submission, draw: Draw) -> None:
    for dead in (False, True):
        layer = Exchange(draw, 0.375)
        if dead:  # pruned weights that were not set to 0
            layer.weight = layer.weight.where(layer.mask, draw.normal(*layer.mask.shape))
        weight, mask = exchanged(submission, layer)
        expect_exchange(layer, mask, layer.right[1])
        grown, stayed = mask & ~layer.mask, mask & layer.mask
        if bool((weight[grown] != 0).any()):
            took = (
                "the old values at these positions"
                if dead and torch.equal(weight[grown], layer.weight[grown])
                else "values other than 0"
            )
            fail(
                f"new weights start with {took}: they must start at 0, so that growing does not change the output of the network"
            )
        if not torch.equal(weight[stayed], layer.weight[stayed]):
            fail(
                "weights that were active before and after have other values now: they must keep their values"
            )
        if bool((weight[~mask] != 0).any()):
            which = (
                "dropped weights"
                if bool((weight[layer.mask & ~mask] != 0).any())
                else "weights that are not active"
            )
            fail(
                f"{which} still have a value: the new weight must be 0 wherever the new mask is False"
            )


# --- 3.6 two short answers ------------------------------------------------------------

OPTIONS = 4  # of 3.6a


@question(
    "3.6",
    points=0,
    claim="a and b are letters (which ones are right is looked at when they are handed in)",
)
def test_form_of_the_answers(submission: Submission, draw: Draw) -> None:
    expect_choice(submission, "answer_3_6a", OPTIONS, {})
    expect_choice(submission, "answer_3_6b", 4, {})
