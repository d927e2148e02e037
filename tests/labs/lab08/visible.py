"""Lab 08, specialised heads: what is claimed of each answer, and its likely mistakes,
each written once as a wrong function.

New inputs are drawn for every grading: noise beyond the limits of its clamp, models that
come with gradients, attention with ties, padding at the end and inside, sentences with
different numbers of queries that count, grids of more than 64 equal scores.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from course_lib.grading import (
    Draw,
    Submission,
    describe,
    expect_close,
    expect_equal,
    expect_keys,
    expect_length,
    expect_number,
    expect_tensor,
    fail,
    question,
    unchanged,
)
from course_lib.grading.claims.expect import ask
from course_lib.grading.claims.mistakes import Exercises, apply_each, draw_case, near, recognise
from course_lib.grading.claims.typed import expect_choice
from course_lib.labs import lab08 as reference
from course_lib.pruning.components import hard_concrete, open_probability
from course_lib.student_code import helpers

WRONG: dict[str, dict[str, Callable[..., Any]]] = {}
exercises = Exercises(reference, WRONG)
close = partial(near, tolerance=1e-5)


def expect_formula(
    submission: Submission, name: str, arguments: Callable[[], tuple[Any, ...]]
) -> None:
    """A function of tensors, like the library's, on drawn arguments; its usual mistakes
    are named.
    """
    given, right, mistakes = exercises.draw_case(name, arguments, close)
    value = submission.call(name, *given)
    if isinstance(value, Tensor):
        recognise(value, right, mistakes, equal=close)
    value = expect_tensor(value, shape=right.shape, dtype=right.dtype, what=f"{name}(…)")
    expect_close(value, right, f"{name}(…)", tolerance=1e-5)


# --- 8.1 train_with_gates -------------------------------------------------------------

LIMIT = 1e-6  # of the noise


def noise_of(shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    return torch.rand(shape, generator=generator).clamp(LIMIT, 1 - LIMIT)


def within(u: Tensor) -> bool:
    """Is the noise far from any clamp?"""
    return bool((u - 0.5).abs().max() < 0.48)


def beyond(u: Tensor) -> bool:
    """Is some of the noise below the limit of the clamp?"""
    return bool(0 < u.min() < LIMIT / 2)


def seed_of(draw: Draw, shape: tuple[int, ...], steps: int, fits: Callable[[Tensor], bool]) -> int:
    """A seed whose noise fits what a case is to show, in all steps."""
    while True:
        seed = draw.integer(0, 10**6)
        generator = torch.Generator().manual_seed(seed)
        if all(fits(torch.rand(shape, generator=generator)) for _ in range(steps)):
            return seed


# what the lab gives, and for each tanh(a·log_alpha + b·u) + c, which stands in for it. That
# of expected_l0 is positive, as numbers of gates are
GIVEN: dict[str, Callable[..., Tensor]] = {
    "sample_gate": hard_concrete,
    "expected_l0": open_probability,
    "gate_at_test": hard_concrete,
}
STAND_INS = {
    "sample_gate": (1.3, 0.7, 0.0),
    "expected_l0": (0.8, 0.0, 1.0),
    "gate_at_test": (0.4, 0.0, 0.2),
}


class GateCase:
    """A model, gates and batches; the result of the rule, with a part that may be
    wrong.
    """

    def __init__(
        self, draw: Draw, steps: int, shape: tuple[int, ...] = (2, 3), lam: float | None = None, fits: Callable[[Tensor], bool] = within
    ) -> None:  # fmt: skip
        self.model = nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 2))
        with torch.no_grad():
            for p in self.model.parameters():
                p.copy_(draw.normal(*p.shape, scale=0.7))
        self.log_alpha, self.weights = draw.normal(*shape), draw.normal(*shape, scale=0.5)
        self.batches = [{"x": draw.normal(5, 4), "y": draw.normal(5, 2)} for _ in range(steps)]
        self.lam = draw.number(0.1, 0.3) if lam is None else lam
        self.rates = [0.05, 0.5]
        self.seed = seed_of(draw, shape, steps, fits)
        self.stand_ins, self.rules = dict(STAND_INS), dict(GIVEN)

    def follow(
        self, once: bool = False, on_samples: bool = False, mean: bool = False, piling: bool = False, still: bool = False, stale: bool = False, late: bool = False
    ) -> dict[str, Any]:  # fmt: skip
        model, alpha = copy.deepcopy(self.model), self.log_alpha.clone().requires_grad_()
        if stale:  # gradients that were there before the call
            alpha.sum().backward()
            output = model(self.batches[0]["x"])
            output.backward(torch.ones_like(output))
        optimizer = helpers.optimizer(model, alpha, self.rates)
        losses = helpers.GateLosses(self.weights, alpha)
        generator = torch.Generator().manual_seed(self.seed)
        first = noise_of(alpha.shape, generator) if once else None
        for batch in self.batches:
            u = noise_of(alpha.shape, generator) if first is None else first
            sampled = self.rules["sample_gate"](alpha, u)
            gates = self.rules["gate_at_test"](alpha) if still else sampled
            total = self.rules["expected_l0"](alpha).sum()
            price = gates.sum() if on_samples else total / alpha.numel() if mean else total
            if not (piling or late):
                optimizer.zero_grad()
            (losses(model, batch, gates) + self.lam * price).backward()
            optimizer.step()
            if late:
                optimizer.zero_grad()
        state = {f"weight {name}": p.detach() for name, p in model.named_parameters()}
        seen = {f"gates {i}": entry["gates"] for i, entry in enumerate(losses.log)}
        return {"alpha": alpha.detach(), **seen, **state}


WRONG_TRAINING: dict[str, dict[str, bool]] = {
    "the noise was drawn once. Draw new noise for every batch": {"once": True},
    "the penalty uses the sampled gates, which have no gradient where they were clipped. Use expected_l0": {
        "on_samples": True
    },
    "the penalty is λ times the mean. It should be λ times the sum": {"mean": True},
    "the step contains gradients of earlier batches. Call optimizer.zero_grad() before backward()": {
        "piling": True
    },
    "the deterministic gate was used. During training, gates are sampled": {"still": True},
}
LATE = "the first step used gradients that the model and log_alpha had before the call. When must optimizer.zero_grad() be called?"


class GateRun:
    """A case in the student's hands.

    Formulas stand in for the functions that the lab gives. Where the training does not call
    one, it is checked with the right formula, which it may have written itself.
    """

    def __init__(
        self, submission: Submission, case: GateCase, stream: bool = False, training: bool = False, stale: bool = False
    ) -> None:  # fmt: skip
        self.stream, self.training, self.stale = stream, training, stale
        stand_ins = {
            name: submission.helper("formula", a=a, b=b, c=c)
            for name, (a, b, c) in case.stand_ins.items()
        }
        submission.replace(stand_ins)
        self.train(submission, case)
        submission.restore()
        for name, formula in stand_ins.items():
            if submission.get(formula, "count"):
                case.rules[name] = helpers.Formula(*case.stand_ins[name])

    def train(self, submission: Submission, case: GateCase) -> None:
        model = copy.deepcopy(case.model).train(self.training)
        self.model, self.alpha = (
            submission.put(model),
            submission.put(case.log_alpha, requires_grad=True),
        )
        if self.stale:
            submission.backward(submission.call("sum", on=self.alpha, keep=True))
            output = submission.call("", case.batches[0]["x"], on=self.model, keep=True)
            submission.backward(output, torch.ones(5, 2))
        self.losses = submission.helper("gate_losses", weights=case.weights, log_alpha=self.alpha)
        batches = submission.helper("stream", values=case.batches) if self.stream else case.batches
        value = ask(
            lambda: submission.call(
                "train_with_gates",
                self.model,
                self.alpha,
                batches,
                self.losses,
                case.lam,
                submission.helper(
                    "optimizer", model=self.model, tensor=self.alpha, rates=case.rates
                ),
                submission.helper("generator", seed=case.seed),
            ),
            "during training,",
            "loss_fn takes the model, the batch and the gates, and returns a scalar",
        )
        if not isinstance(value, list | tuple):
            fail(
                f"train_with_gates should return a list with one number for each batch, it returned {describe(value)}"
            )
        self.said = torch.tensor([expect_number(v, "an expected count") for v in value])
        self.log = submission.get(self.losses, "log")
        if len(self.log) != (steps := len(case.batches)):
            fail(
                f"loss_fn was called {len(self.log)} times for {steps} batches. Call it once for each batch"
            )
        state = submission.get(self.model).state
        self.found = {
            "alpha": submission.get(self.alpha),
            **{f"gates {i}": entry["gates"] for i, entry in enumerate(self.log)},
            **{f"weight {name}": state[name] for name, _ in case.model.named_parameters()},
        }


def expect_run(run: GateRun, case: GateCase) -> None:
    """The gates of every batch, the final log_alpha and the final weights are right."""
    right, wrong = case.follow(), {**WRONG_TRAINING, LATE: {"late": True}}
    mistakes = {said: case.follow(stale=run.stale, **how) for said, how in wrong.items()}
    recognise(run.found, right, mistakes, equal=close)
    expect_close(
        run.found["gates 0"], right["gates 0"], "the gates of the first batch", tolerance=1e-4
    )
    if near(run.found["alpha"], case.log_alpha):
        fail(
            "log_alpha did not change. The given optimizer holds this tensor: use it directly, without .detach() and without creating a new tensor"
        )
    weights = {f"weight {name}": p.detach() for name, p in case.model.named_parameters()}
    if near({name: run.found[name] for name in weights}, weights):
        fail("the model's weights did not change. The given optimizer holds them, too")
    for i in range(1, len(case.batches)):
        if not near(run.found[f"gates {i}"], right[f"gates {i}"], tolerance=1e-4):
            fail(
                f"after {i} step{'s' * (i > 1)} log_alpha or the noise is wrong. Take one step of the given optimizer per batch, with the "
                "gradient of the loss plus λ · Σ expected_l0, and do not clip log_alpha or the gradient"
            )
    expect_close(
        run.found["alpha"], right["alpha"], "log_alpha after the last step", tolerance=1e-4
    )
    for name in weights:
        expect_close(
            run.found[name], right[name], f"after the last step the {name}", tolerance=1e-4
        )


@question(
    "8.1",
    points=1,
    claim="fresh noise for every batch, the loss with sampled gates, and λ for each open one",
)
def test_training(submission: Submission, draw: Draw) -> None:
    wrong: dict[str, Callable[[GateCase], Any]] = {
        said: lambda case, how=how: case.follow(**how)  # type: ignore[misc]
        for said, how in WRONG_TRAINING.items()
    }
    (case,), _, _ = draw_case(lambda: (GateCase(draw, 3),), GateCase.follow, wrong, close)
    expect_run(GateRun(submission, case), case)


@question(
    "8.1", points=0.5, claim="for each batch the expected number of open gates before its step"
)
def test_counts(submission: Submission, draw: Draw) -> None:
    """Checked for the student's log_alpha; the other claims check the training."""
    case = GateCase(draw, 4)
    run = GateRun(submission, case)
    if len(run.said) != len(case.batches):
        fail(f"{len(run.said)} numbers were returned for {len(case.batches)} batches")
    there = [entry["log_alpha"] for entry in run.log] + [run.found["alpha"]]
    sums = torch.stack([case.rules["expected_l0"](alpha).sum() for alpha in there])
    right, after = sums[:-1], sums[1:]
    if near(right, after):
        fail("log_alpha did not change, so the recorded numbers cannot be checked")
    if near(run.said, after, tolerance=1e-5):
        fail("the sum was recorded after the step. Record it before the step")
    expect_close(run.said, right, "the expected number of open gates", tolerance=1e-4)


@question("8.1", points=0.5, claim="a step uses the gradient of its batch alone, the first one too")
def test_old_gradients(submission: Submission, draw: Draw) -> None:
    """The model and log_alpha come with gradients, as after lab 07's I_h."""
    case = GateCase(draw, 3)
    expect_run(GateRun(submission, case, stale=True), case)


@question("8.1", points=0.5, claim="the noise is clamped to [1e-6, 1 − 1e-6]")
def test_clamp(submission: Submission, draw: Draw) -> None:
    """Of this noise at least one number is below 5e-7; the gates are steep there."""
    case = GateCase(draw, 1, shape=(40, 50), fits=beyond)
    case.log_alpha, case.weights = case.log_alpha / 10, case.weights / 100
    case.stand_ins["sample_gate"] = (1.0, 700.0, 0.0)
    raw = torch.rand(40, 50, generator=torch.Generator().manual_seed(case.seed))
    gates = GateRun(submission, case).found["gates 0"]
    right = case.rules["sample_gate"](case.log_alpha, raw.clamp(LIMIT, 1 - LIMIT))
    of_limits = {
        f"the noise was clamped to [{limit:g}, 1 − {limit:g}]. The docstring names other limits": limit
        for limit in (1e-5, 1e-4, 1e-3, 0.01, 0.05, 0.1)
    }
    of_limits["the noise was not clamped, or to limits wider than those of the docstring"] = 0
    mistakes = {
        said: case.rules["sample_gate"](case.log_alpha, raw.clamp(limit, 1 - limit))
        for said, limit in of_limits.items()
    }
    recognise(gates, right, mistakes, equal=close)
    what = "the gate where the noise is smallest"
    least = int(raw.argmin())
    expect_close(gates.flatten()[least], right.flatten()[least], what, tolerance=1e-5)
    expect_close(gates, right, "the gates of the first batch")


# --- 8.2 roles ------------------------------------------------------------------------


def _pointed(attn: Tensor, token_mask: Tensor) -> Tensor:
    return attn.masked_fill(~token_mask[:, None, None, :], -1.0).argmax(-1)


def _share(found: Tensor, target: Tensor, counted: Tensor) -> Tensor:
    right = (found == target[:, None]) & counted[:, None]
    return right.sum((0, 2)).double() / counted.sum()


def _of_sentences(attn: Tensor, target: Tensor, token_mask: Tensor) -> Tensor:
    counted = (target >= 0) & token_mask
    right = ((_pointed(attn, token_mask) == target[:, None]) & counted[:, None]).sum(2).double()
    return (right / counted.sum(1).clamp(min=1)[:, None])[counted.any(1)].mean(0)


def _last_maximum(attn: Tensor, target: Tensor, token_mask: Tensor) -> Tensor:
    length = attn.shape[-1]
    found = length - 1 - attn.masked_fill(~token_mask[:, None, None, :], -1.0).flip(-1).argmax(-1)
    return _share(found, target, (target >= 0) & token_mask)


def _mass(attn: Tensor, target: Tensor, token_mask: Tensor) -> Tensor:
    counted = (target >= 0) & token_mask
    at = attn.gather(-1, target.clamp(min=0)[:, None, :, None].expand(-1, attn.shape[1], -1, 1))[
        ..., 0
    ]
    return (at * counted[:, None]).sum((0, 2)).double() / counted.sum()


WRONG["points_to"] = {
    "the maximum over all keys was used. Leave out padding and the end mark": lambda attn, target, mask: (
        _share(attn.argmax(-1), target, (target >= 0) & mask)
    ),
    "the shares of the sentences were averaged. Give every query the same weight, also in a long sentence": _of_sentences,
    "rows and columns are exchanged. attn has shape (…, query, key), and the maximum is over keys": lambda attn, target, mask: (
        _share(_pointed(attn.transpose(2, 3), mask), target, (target >= 0) & mask)
    ),
    "of equal maxima the last was used. Use the lowest key": _last_maximum,
    "queries that are no real tokens were counted. Count real tokens only": lambda attn, target, mask: (
        _share(_pointed(attn, mask), target, target >= 0)
    ),
    "the attention to the target was averaged. Return the share of queries whose *largest* attention is to their target": _mass,
    "the count was divided by all queries. Divide by the number of queries that have a target": lambda attn, target, mask: (
        _share(_pointed(attn, mask), target, (target >= 0) & mask)
        * ((target >= 0) & mask).sum()
        / target.numel()
    ),
}


def pointing(draw: Draw, B: int, M: int, L: int) -> tuple[Tensor, Tensor, Tensor]:
    """Attention with ties, targets, and tokens that are not real at the end and
    inside.
    """
    attn = (1 + torch.randint(0, 5, (B, M, L, L), generator=draw.generator)).double()
    attn[..., -1] += 3  # the end looks large
    mask = draw.mask(B, L, kept=0.8)
    mask[:, -1] = False
    mask[:, 0] = mask[:, 1] = True
    target = torch.full((B, L), -1)
    for b in range(B):
        real = mask[b].nonzero().flatten().tolist()
        for i in range(L):
            if draw.number(0, 1) < (0.3 if b % 2 else 0.9):
                target[b, i] = draw.choice(real)
    target[0, 0] = 1
    return attn / attn.sum(-1, keepdim=True), target, mask


@question(
    "8.2",
    points=1,
    claim="points_to: the share of queries whose largest attention among real keys is at their target",
)
def test_points_to(submission: Submission, draw: Draw) -> None:
    expect_formula(submission, "points_to", lambda: pointing(draw, 4, 3, 7))


def offsets_of(target: Tensor, counted: Tensor) -> list[int]:
    return (target - torch.arange(target.shape[1]))[counted].tolist()


def _most(offsets: list[int], total: int) -> tuple[int, float]:
    times = Counter(o for o in offsets if o)
    best = min(times, key=lambda o: (-times[o], abs(o), o))
    return best, times[best] / total


def _with_0(offsets: list[int]) -> tuple[int, float]:
    times = Counter(offsets)
    best = min(times, key=lambda o: (-times[o], abs(o), o))
    return best, times[best] / len(offsets)


def _distance(target: Tensor, mask: Tensor) -> tuple[int, float]:
    offsets = offsets_of(target, (target >= 0) & mask)
    return _most([abs(o) for o in offsets], len(offsets))


WRONG["arc_baseline"] = {
    "distances were counted. An offset has a sign, so −1 and 1 are different": _distance,
    "an offset is target − query, not query − target": lambda target, mask: (
        -reference.arc_baseline(target, mask)[0],
        reference.arc_baseline(target, mask)[1],
    ),
    "offset 0 was counted as an offset. A word that targets itself is no neighbour; count it in the denominator only": lambda target, mask: (
        _with_0(offsets_of(target, (target >= 0) & mask))
    ),
    "queries that target themselves are missing in the denominator": lambda target, mask: _most(
        offsets_of(target, (target >= 0) & mask),
        sum(o != 0 for o in offsets_of(target, (target >= 0) & mask)),
    ),
    "queries that are no real tokens were counted in the baseline": lambda target, mask: _most(
        offsets_of(target, target >= 0), int((target >= 0).sum())
    ),
    "the count was divided by the number of all queries. Divide by the number of real queries that have a target": lambda target, mask: (
        _most(offsets_of(target, (target >= 0) & mask), target.numel())
    ),
}


def arcs(draw: Draw) -> tuple[Tensor, Tensor]:
    """Targets of which one offset other than 0 is the most frequent, without a tie."""
    while True:
        mask = draw.mask(4, 9, kept=0.8)
        mask[:, 0] = mask[:, 4] = True
        target = torch.full((4, 9), -1)
        for b in range(4):
            real = mask[b].nonzero().flatten().tolist()
            for i in range(9):
                if draw.number(0, 1) < 0.7:
                    near_by = [j for j in real if j - i in (0, -1, -1, 2, 1)]
                    target[b, i] = draw.choice(near_by or real)
        times = Counter(o for o in offsets_of(target, (target >= 0) & mask) if o)
        (_, most), (_, next_most), *_ = [*times.most_common(2), (0, 0), (0, 0)]
        if most > next_most:
            return target, mask


def expect_baseline(value: Any, right: tuple[int, float], of: str = "") -> None:
    expect_length(value, 2, "arc_baseline(…)")
    expect_equal(value[0], right[0], f"{of}the offset")
    expect_close(value[1], right[1], f"{of}the share")


@question(
    "8.2",
    points=0.5,
    claim="arc_baseline: the offset that most queries have, and its share of all that count",
)
def test_baseline(submission: Submission, draw: Draw) -> None:
    what = "arc_baseline(…), of which 0 is the offset and 1 the share,"
    exercises.expect_answer(submission, "arc_baseline", lambda: arcs(draw), close, what=what)


# --- 8.3 disable ----------------------------------------------------------------------


def _mean_of(x: Tensor, mask: Tensor) -> Tensor:
    real = mask[..., None].to(x.dtype)
    return (x * real).sum(1, keepdim=True) / real.sum(1, keepdim=True)


def _instead(context: Tensor, off: Tensor, what: Tensor, interleaved: bool = False) -> Tensor:
    d = context.shape[-1] // len(off)
    wide = off.repeat(d) if interleaved else off.repeat_interleave(d)
    return torch.where(wide, what.expand_as(context), context)


WRONG["disable"] = {
    "the disabled heads return 0. They should return the mean of their values": lambda c, v, m, off: (
        _instead(c, off, torch.zeros_like(c))
    ),
    "the mean includes padding. Average over the *real* tokens": lambda c, v, m, off: _instead(
        c, off, v.mean(1, keepdim=True)
    ),
    "the mean of the contexts was used. Use the mean of the values": lambda c, v, m, off: _instead(
        c, off, _mean_of(c, m)
    ),
    "the sum was divided by the padded length. Divide by the number of real tokens": lambda c, v, m, off: (
        _instead(c, off, (v * m[..., None]).sum(1, keepdim=True) / m.shape[1])
    ),
    "every H-th feature was assigned to a head. Head h has the features h·d … (h+1)·d − 1": lambda c, v, m, off: (
        _instead(c, off, _mean_of(v, m), True)
    ),
    "the mean was taken over the values of all heads. Each head returns the mean of its own values": lambda c, v, m, off: (
        _instead(
            c,
            off,
            _mean_of(v, m)
            .unflatten(-1, (len(off), -1))
            .mean(2, keepdim=True)
            .expand(-1, -1, len(off), -1)
            .flatten(2),
        )
    ),
    "padded positions kept their context. Write the mean to *every* position": lambda c, v, m, off: (
        torch.where(m[..., None], _instead(c, off, _mean_of(v, m)), c)
    ),
    "the wrong heads were disabled. off is True for the heads to disable": lambda c, v, m, off: (
        _instead(c, ~off, _mean_of(v, m))
    ),
    "the mean was taken over the whole batch. Take one mean per sentence": lambda c, v, m, off: (
        _instead(c, off, v[m].mean(0).expand(len(v), 1, -1))
    ),
}


def disabling(draw: Draw, B: int, L: int, M: int, d: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    mask = draw.mask(B, L, kept=0.7)
    mask[:, 0], mask[:, -1] = True, False
    off = draw.mask(M)
    off[draw.integer(0, M - 1)] = True
    off[(int(off.nonzero()[0]) + 1) % M] = False
    return draw.normal(B, L, M * d), draw.normal(B, L, M * d), mask, off


@question(
    "8.3",
    points=0.5,
    claim="heads that are off return the mean of their values over real tokens",
)
def test_disable(submission: Submission, draw: Draw) -> None:
    expect_formula(submission, "disable", lambda: disabling(draw, 3, 6, 4, 5))


# --- 8.4 fixed patterns ---------------------------------------------------------------


def _fixed(
    length: int,
    gap: int = 1,
    wrap: bool = False,
    empty: str = "itself",
    divided_by: int | None = -1,
) -> Tensor:
    i, j = torch.arange(length)[:, None], torch.arange(length)
    rising = ((j + 1) ** 3).double().expand(length, -1)
    falling = ((length - j) ** 3).double().expand(length, -1)
    previous, following = (j == i - gap), (j == i + gap)
    if wrap:
        previous, following = (j == (i - 1) % length), (j == (i + 1) % length)
    beside = [(j == i).double(), previous.double(), following.double()]
    contexts = [rising * (j <= i - 2), falling * (j >= i + 2), rising, falling]
    maps = torch.stack(beside + contexts)
    row_is_empty = maps.sum(-1, keepdim=True) == 0
    if empty == "itself":
        maps = torch.where(row_is_empty, torch.eye(length, dtype=torch.float64), maps)
    elif empty == "equal":
        maps = maps + row_is_empty
    elif empty == "start":
        maps = torch.where(row_is_empty, (j == 0).double(), maps)
    if divided_by is not None:
        maps = maps / maps.sum(divided_by, keepdim=True).clamp(min=1e-9)
    return maps.float()


WRONG["fixed_patterns"] = {
    "positions wrap around at the end. The first word has no previous word": lambda n: _fixed(
        n, wrap=True
    ),
    "a row without a key is 0. Such a word should attend to itself": lambda n: _fixed(n, empty="0"),
    "a row without a key attends to all keys equally. Such a word should attend to itself": lambda n: (
        _fixed(n, empty="equal")
    ),
    "a row without a key attends to the first word. Such a word should attend to itself": lambda n: (
        _fixed(n, empty="start")
    ),
    "the previous and the next word are exchanged": lambda n: _fixed(n, gap=-1),
    "rows are not divided by their sum": lambda n: _fixed(n, divided_by=None),
    "columns were divided by their sum. Rows are queries: divide each row": lambda n: _fixed(
        n, divided_by=1
    ),
}


def expect_patterns(submission: Submission, n: int) -> None:
    value = expect_tensor(
        submission.fixed_patterns(n), shape=(7, n, n), dtype=torch.float32, what="fixed_patterns(…)"
    )
    if value.isnan().any():
        fail(
            "a row without a key was divided by its sum, which is 0. Such a word should attend to itself"
        )
    right = reference.fixed_patterns(n)
    recognise(value, right, apply_each(WRONG["fixed_patterns"], n), equal=close)
    for h in range(7):
        expect_close(value[h], right[h], f"pattern {h} of {n} word{'s' * (n > 1)}")


@question("8.4", points=0.5, claim="fixed_patterns: seven maps by position alone, rows sum to 1")
def test_patterns(submission: Submission, draw: Draw) -> None:
    expect_patterns(submission, draw.integer(5, 9))


Patterned = Callable[[int], Tensor]


def _frozen(
    learned: Tensor,
    lengths: Tensor,
    patterns: Patterned,
    padded: bool = False,
    cut: bool = False,
    first: bool = False,
    everywhere: bool = False,
) -> Tensor:
    B, M, L, _ = learned.shape
    out = learned.clone() if everywhere else torch.zeros_like(learned)
    fixed, free = (slice(1, M), 0) if first else (slice(0, M - 1), M - 1)
    out[:, free] = learned[:, free]
    for b, n in enumerate(lengths.tolist()):
        size = L if padded else n
        maps = patterns(L if padded or cut else n)[: M - 1, :size, :size]
        out[b, fixed, :size, :size] = maps.to(learned)
    return out


def _learned_cut(learned: Tensor, lengths: Tensor, patterns: Patterned) -> Tensor:
    out = _frozen(learned, lengths, patterns)
    for b, n in enumerate(lengths.tolist()):
        out[b, -1, n:] = 0
        out[b, -1, :, n:] = 0
    return out


FROZEN: dict[str, Callable[[Tensor, Tensor, Patterned], Tensor]] = {
    "the patterns were computed for the padded length. Compute them for each sentence's own length": partial(
        _frozen, padded=True
    ),
    "the first rows and columns of the longest sentence's patterns were used. Compute the patterns for each sentence's own length": partial(
        _frozen, cut=True
    ),
    "head 0 is the learned head in your result. The last head should be": partial(
        _frozen, first=True
    ),
    "fixed heads kept the learned attention after the end of a sentence. They should be 0 there": partial(
        _frozen, everywhere=True
    ),
    "the learned head was set to 0 on padding. Return it unchanged, including padding": _learned_cut,
    "all heads are fixed in your result. The last head should be learned": lambda a, n, patterns: (
        _frozen(torch.cat([a, a[:, :1]], 1), n, patterns)[:, : a.shape[1]]
    ),
}
WRONG["frozen_attention"] = {
    said: lambda learned, lengths, f=f: f(learned, lengths, reference.fixed_patterns)
    for said, f in FROZEN.items()
}


class Others:
    """Replaces ``fixed_patterns``, so that a mistake there is none in its callers:
    maps by places alone, rows sum to 1, and none of the seven.
    """

    def __init__(self) -> None:
        self.asked = False

    def __call__(self, length: int) -> Tensor:
        self.asked, place = True, torch.arange(int(length))
        which = torch.arange(1, 8)[:, None, None]
        return torch.sin(which * (place[:, None] + 2.0 * place + len(place))).softmax(-1)


def expect_frozen(
    submission: Submission, given: tuple[Tensor, Tensor], what: str, name_mistakes: bool = False
) -> None:
    """Right with the replaced patterns, or, where they are not called, with the
    seven; ``learned`` is not changed.
    """
    others = Others()
    submission.replace({"fixed_patterns": others})
    value, (after,) = submission.call("frozen_attention", *given, returning=(0,))
    submission.restore()
    patterns = others if others.asked else reference.fixed_patterns
    right = _frozen(*given, patterns)
    value = expect_tensor(value, shape=right.shape, dtype=right.dtype, what="frozen_attention(…)")
    if name_mistakes:
        wrong = {said: f(*given, patterns) for said, f in FROZEN.items()}
        recognise(value, right, wrong, equal=close)
    expect_close(value, right, what, tolerance=1e-5)
    unchanged(given[0], after, "the learned maps")


def freezing(draw: Draw, B: int, M: int, L: int) -> tuple[Tensor, Tensor]:
    lengths = torch.tensor([draw.integer(2, L - 1) for _ in range(B)])
    return draw.normal(B, M, L, L).softmax(-1), lengths


@question(
    "8.4",
    points=0.5,
    claim="frozen_attention: the last head is learned, the others have their sentence's patterns",
)
def test_frozen(submission: Submission, draw: Draw) -> None:
    given, _, _ = exercises.draw_case("frozen_attention", lambda: freezing(draw, 3, 5, 7), close)
    expect_frozen(submission, given, "frozen_attention(…)", name_mistakes=True)


# --- 8.5 by kind ----------------------------------------------------------------------

Kinds = dict[str, Tensor]


def lowest(scores: Tensor, k: int) -> Tensor:
    """True = kept; of equal scores the first is pruned first."""
    kept = torch.ones(scores.numel(), dtype=torch.bool)
    kept[scores.flatten().argsort(stable=True)[:k]] = False
    return kept.view(scores.shape)


def _each_kind(scores: Kinds, kind: str, fraction: float) -> Kinds:
    """Every kind loses its own share."""
    return {
        name: lowest(s, round(fraction * s.numel()) if kind in (name, "all") else 0)
        for name, s in scores.items()
    }


def _each_layer(scores: Kinds, kind: str, fraction: float) -> Kinds:
    return {
        name: torch.stack(
            [lowest(row, round(fraction * len(row)) if kind in (name, "all") else 0) for row in s]
        )
        for name, s in scores.items()
    }


def _all_are_one_kind(scores: Kinds, kind: str, fraction: float, of_all: bool) -> Kinds:
    n = sum(s.numel() for s in scores.values())
    if of_all and kind != "all":  # the share of all heads, from one kind
        k = min(round(fraction * n), scores[kind].numel())
        return {name: lowest(s, k if name == kind else 0) for name, s in scores.items()}
    return reference.prune_by_kind(scores, "all", fraction)


def _negated(scores: Kinds, kind: str, fraction: float) -> Kinds:
    return reference.prune_by_kind({name: -s for name, s in scores.items()}, kind, fraction)


WRONG["prune_by_kind"] = {
    "the heads with the highest scores were removed. Remove those with the lowest": _negated,
    "each layer lost the same share. Rank the heads of a kind from all layers together": _each_layer,
    "the share of all heads was computed. Compute the share of this kind's heads": partial(
        _all_are_one_kind, of_all=True
    ),
    "the other kinds were pruned, too. Prune the given kind only": partial(
        _all_are_one_kind, of_all=False
    ),
    "the masks are upside down: True means kept": lambda s, kind, fraction: {
        name: ~mask for name, mask in reference.prune_by_kind(s, kind, fraction).items()
    },
}
OF_ALL = {
    'each kind lost the same share. For "all", rank the heads of all kinds together': _each_kind
}
ANY_ORDER = "the number of heads is right, and they have the lowest scores. But among equal scores the wrong ones were pruned: the first is pruned first, which prune_lowest does"


def kinds_of(draw: Draw, tied: bool = False) -> Kinds:
    """Numbers of heads that are multiples of 16, more than 64 of each kind. Tied: a quarter
    of each kind has each of four scores.
    """
    found = {}
    for name, layers, shift in (("encoder", 7, 0.0), ("decoder", 6, 0.7), ("cross", 5, -0.4)):
        scores = draw.normal(layers, 16) + shift
        if tied:
            scores = (draw.permutation(scores.numel()) % 4).float().view(scores.shape)
        found[name] = scores
    return found


def as_kinds(value: Any, scores: Kinds) -> Kinds:
    expect_keys(value, list(scores), "prune_by_kind(…)")
    return {
        n: expect_tensor(value[n], shape=s.shape, dtype=torch.bool, what=f"the mask of {n!r}")
        for n, s in scores.items()
    }


def expect_kinds(
    submission: Submission, given: tuple[Kinds, str, float], wrong: Mapping[str, Callable[..., Any]]
) -> None:
    scores, kind, fraction = given
    right, of = reference.prune_by_kind(*given), f"{kind!r} at {fraction:g}"
    value = as_kinds(submission.prune_by_kind(*given), scores)
    recognise(value, right, apply_each(wrong, *given))
    every = torch.cat([s.flatten() for s in scores.values()])
    mine, others = (torch.cat([m.flatten() for m in masks.values()]) for masks in (value, right))
    if not torch.equal(mine, others) and torch.equal(
        every[mine].sort()[0], every[others].sort()[0]
    ):
        fail(f"{of}: {ANY_ORDER}")
    for name, mask in right.items():
        if int(value[name].sum()) != int(mask.sum()):
            fail(
                f"{of}: {int(value[name].sum())} heads of {name!r} are kept instead of {int(mask.sum())}"
            )
    for name, mask in right.items():
        expect_equal(value[name], mask, message=f"{of}: the wrong heads of {name!r} are kept")


@question(
    "8.5", points=0.5, claim="the lowest of one kind, all its layers together; the others stay"
)
def test_by_kind(submission: Submission, draw: Draw) -> None:
    for kind in ("encoder", "decoder", "cross"):

        def scored(kind: str = kind) -> tuple[Kinds, str, float]:
            return kinds_of(draw), kind, draw.integer(3, 6) / 16

        given, _, _ = exercises.draw_case("prune_by_kind", scored)
        expect_kinds(submission, given, WRONG["prune_by_kind"])


@question("8.5", points=0.5, claim='"all": the lowest of all kinds together')
def test_all_kinds(submission: Submission, draw: Draw) -> None:
    given = kinds_of(draw), "all", draw.integer(3, 6) / 16
    expect_kinds(submission, given, OF_ALL)


@question("8.5", points=0.5, claim="of equal scores the first is pruned first")
def test_tied_kinds(submission: Submission, draw: Draw) -> None:
    for kind in ("encoder", "decoder", "cross", "all"):
        expect_kinds(submission, (kinds_of(draw, tied=True), kind, 7 / 16), OF_ALL)


# --- 8.6 two short answers ------------------------------------------------------------


@question(
    "8.6",
    points=0,
    claim="a and b are letters (which ones are right is looked at when they are handed in)",
)
def test_form_of_the_answers(submission: Submission, draw: Draw) -> None:
    expect_choice(submission, "answer_8_6a", 4, {})
    expect_choice(submission, "answer_8_6b", 4, {})
