"""Lab 08, specialised heads: what is claimed of each answer, and its likely mistakes,
each written once as a wrong function.

New inputs are drawn for every grading: attention with ties, padding at the end and
inside, sentences with different numbers of queries that count, maps beyond every
threshold, gates of both signs.
"""

from __future__ import annotations

import copy
import math
from collections import Counter
from collections.abc import Callable
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
from course_lib.grading.claims.hunt import Version, expect_verdicts
from course_lib.grading.claims.mistakes import Exercises, apply_each, draw_case, near, recognise
from course_lib.grading.claims.typed import expect_choice
from course_lib.labs import lab08 as reference
from course_lib.student_code import helpers

WRONG: dict[str, dict[str, Callable[..., Any]]] = {}
exercises = Exercises(reference, WRONG)
close = partial(near, tolerance=1e-5)
BETA, GAMMA, ZETA = 2 / 3, -0.1, 1.1

# --- 8.1 gates ------------------------------------------------------------------------


def _s(log_alpha: Tensor, u: Tensor, beta: float) -> Tensor:
    return ((u.log() - (1 - u).log() + log_alpha) / beta).sigmoid()


WRONG["sample_gate"] = {
    "the gate is not stretched, so it is never 0 and never 1": lambda a, u, beta=BETA, gamma=GAMMA, zeta=ZETA: (
        _s(a, u, beta)
    ),
    "the gate was clipped before it was stretched. Stretch it first, then clip it to [0, 1]": lambda a, u, beta=BETA, gamma=GAMMA, zeta=ZETA: (
        _s(a, u, beta).clamp(0, 1) * (zeta - gamma) + gamma
    ),
    "the sum was multiplied by β. Divide it by β": lambda a, u, beta=BETA, gamma=GAMMA, zeta=ZETA: (
        ((u.log() - (1 - u).log() + a) * beta).sigmoid() * (zeta - gamma) + gamma
    ).clamp(0, 1),
    "log α is not divided by β. Divide the whole sum, including log α": lambda a, u, beta=BETA, gamma=GAMMA, zeta=ZETA: (
        (((u.log() - (1 - u).log()) / beta + a).sigmoid() * (zeta - gamma) + gamma).clamp(0, 1)
    ),
    "only log α is divided by β. Divide the whole sum": lambda a, u, beta=BETA, gamma=GAMMA, zeta=ZETA: (
        (((u.log() - (1 - u).log()) + a / beta).sigmoid() * (zeta - gamma) + gamma).clamp(0, 1)
    ),
    "the noise is ln u − ln(1 − u), not ln u + ln(1 − u)": lambda a, u, beta=BETA, gamma=GAMMA, zeta=ZETA: (
        (((u.log() + (1 - u).log() + a) / beta).sigmoid() * (zeta - gamma) + gamma).clamp(0, 1)
    ),
    "the sign of the noise is wrong. It is ln u − ln(1 − u)": lambda a, u, beta=BETA, gamma=GAMMA, zeta=ZETA: (
        ((((1 - u).log() - u.log() + a) / beta).sigmoid() * (zeta - gamma) + gamma).clamp(0, 1)
    ),
    "the gate was rounded to 0 or 1. Keep values between 0 and 1 unchanged": lambda a, u, beta=BETA, gamma=GAMMA, zeta=ZETA: (
        (_s(a, u, beta) * (zeta - gamma) + gamma).clamp(0, 1).round()
    ),
}
WRONG["expected_l0"] = {
    "the shift −β·ln(−γ/ζ) is missing": lambda a, beta=BETA, gamma=GAMMA, zeta=ZETA: a.sigmoid(),
    "the sign of the shift is wrong. −γ/ζ is below 1, so P is larger than σ(log α)": lambda a, beta=BETA, gamma=GAMMA, zeta=ZETA: (
        (a + beta * math.log(-gamma / zeta)).sigmoid()
    ),
    "β is missing from the shift": lambda a, beta=BETA, gamma=GAMMA, zeta=ZETA: (
        a - math.log(-gamma / zeta)
    ).sigmoid(),
    "log α was divided by β. Only the shift contains β": lambda a, beta=BETA, gamma=GAMMA, zeta=ZETA: (
        ((a - beta * math.log(-gamma / zeta)) / beta).sigmoid()
    ),
    "this is P(gate = 0). Return P(gate ≠ 0)": lambda a, beta=BETA, gamma=GAMMA, zeta=ZETA: (
        1 - (a - beta * math.log(-gamma / zeta)).sigmoid()
    ),
    "the probabilities were summed. Return one number for each gate": lambda a, beta=BETA, gamma=GAMMA, zeta=ZETA: (
        reference.expected_l0(a, beta, gamma, zeta).sum()
    ),
}
WRONG["gate_at_test"] = {
    "β was used. The gate at test has no temperature": lambda a, gamma=GAMMA, zeta=ZETA: (
        (a / BETA).sigmoid() * (zeta - gamma) + gamma
    ).clamp(0, 1),
    "the gate was rounded, or compared with a threshold. Stretch it, clip it to [0, 1] and keep values between 0 and 1 unchanged": lambda a, gamma=GAMMA, zeta=ZETA: (
        (a > 0).to(a.dtype)
    ),
    "the gate is not stretched": lambda a, gamma=GAMMA, zeta=ZETA: a.sigmoid(),
    "the gate is not clipped to [0, 1]": lambda a, gamma=GAMMA, zeta=ZETA: (
        a.sigmoid() * (zeta - gamma) + gamma
    ),
}


def log_alphas(draw: Draw, *shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return draw.normal(*shape, scale=2.5, dtype=dtype)


def noise(draw: Draw, *shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.rand(shape, generator=draw.generator, dtype=dtype).clamp(0.01, 0.99)


def expect_formula(
    submission: Submission,
    name: str,
    arguments: Callable[[], tuple[Any, ...]],
    name_mistakes: bool = True,
) -> None:
    """A function of tensors, like the library's, on drawn arguments."""
    wrong = WRONG[name] if name_mistakes else {}
    given, right, mistakes = draw_case(arguments, getattr(reference, name), wrong, close)
    value = submission.call(name, *given)
    if isinstance(value, Tensor):
        recognise(value, right, mistakes, equal=close)
    value = expect_tensor(value, shape=right.shape, dtype=right.dtype, what=f"{name}(…)")
    expect_close(value, right, f"{name}(…)", tolerance=1e-5)


@question("8.1", points=1, claim="sample_gate: noise, temperature, stretched, then cut to 0 … 1")
def test_sample(submission: Submission, draw: Draw) -> None:
    expect_formula(submission, "sample_gate", lambda: (log_alphas(draw, 40), noise(draw, 40)))


@question("8.1", points=0.5, claim="expected_l0: each gate's probability not to be 0")
def test_expected(submission: Submission, draw: Draw) -> None:
    expect_formula(submission, "expected_l0", lambda: (log_alphas(draw, 3, 4),))


@question("8.1", points=0.5, claim="gate_at_test: no noise, no temperature")
def test_at_test(submission: Submission, draw: Draw) -> None:
    expect_formula(submission, "gate_at_test", lambda: (log_alphas(draw, 30),))


# --- 8.2 train_with_gates -------------------------------------------------------------


class GateCase:
    """A model, gates and batches; the result of the rule, with a part that may be
    wrong.
    """

    def __init__(
        self, draw: Draw, steps: int, shape: tuple[int, ...] = (2, 3), lam: float | None = None
    ) -> None:
        self.model = nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 2))
        with torch.no_grad():
            for p in self.model.parameters():
                p.copy_(draw.normal(*p.shape, scale=0.7))
        self.log_alpha, self.weights = draw.normal(*shape), draw.normal(*shape, scale=0.5)
        self.batches = [{"x": draw.normal(5, 4), "y": draw.normal(5, 2)} for _ in range(steps)]
        self.lam = draw.number(0.1, 0.3) if lam is None else lam
        self.rates, self.seed = [0.05, 0.5], draw.integer(0, 10**6)
        self.sample: Callable[..., Tensor] = reference.sample_gate
        self.expected: Callable[..., Tensor] = reference.expected_l0

    def follow(
        self, once: bool = False, on_samples: bool = False, mean: bool = False, piling: bool = False, still: bool = False, after: bool = False
    ) -> dict[str, Any]:  # fmt: skip
        model, alpha = copy.deepcopy(self.model), self.log_alpha.clone().requires_grad_()
        optimizer = helpers.optimizer(model, alpha, self.rates)
        losses, generator, found = (
            helpers.GateLosses(self.weights, alpha),
            torch.Generator().manual_seed(self.seed),
            [],
        )
        u = torch.rand(alpha.shape, generator=generator).clamp(1e-6, 1 - 1e-6) if once else None
        for batch in self.batches:
            draw = (
                torch.rand(alpha.shape, generator=generator).clamp(1e-6, 1 - 1e-6)
                if u is None
                else u
            )
            gates = reference.gate_at_test(alpha) if still else self.sample(alpha, draw)
            expected = self.expected(alpha)
            total = expected.sum()
            price = gates.sum() if on_samples else expected.mean() if mean else total
            if not piling:
                optimizer.zero_grad()
            (losses(model, batch, gates) + self.lam * price).backward()
            optimizer.step()
            found.append(float((self.expected(alpha).sum() if after else total).detach()))
        state = {f"weight {name}": p.detach() for name, p in model.named_parameters()}
        seen = {f"gates {i}": entry["gates"] for i, entry in enumerate(losses.log)}
        return {"alpha": alpha.detach(), "said": torch.tensor(found), **seen, **state}


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
    "the sum was recorded after the step. Record it before the step": {"after": True},
}


# tanh(a·log_alpha + b·u) + c: the stand-in for expected_l0 is positive, as numbers of gates are
STAND_INS = {"sample_gate": (1.3, 0.7, 0.0), "expected_l0": (0.8, 0.0, 1.0)}


class GateRun:
    """A case in the student's hands.

    Formulas replace the functions of 8.1, so that a mistake there is none here;
    where the training does not call them, it is checked with its own functions.
    """

    def __init__(
        self, submission: Submission, case: GateCase, stream: bool = False, training: bool = False
    ) -> None:
        stand_ins = {
            name: submission.helper("formula", a=a, b=b, c=c)
            for name, (a, b, c) in STAND_INS.items()
        }
        submission.replace(stand_ins)
        case.sample, case.expected = (helpers.Formula(*STAND_INS[name]) for name in STAND_INS)
        self.train(submission, case, stream, training)
        submission.restore()
        if case.batches and not all(submission.get(f, "count") for f in stand_ins.values()):
            case.sample, case.expected = reference.sample_gate, reference.expected_l0
            self.train(submission, case, stream, training)

    def train(self, submission: Submission, case: GateCase, stream: bool, training: bool) -> None:
        model = copy.deepcopy(case.model).train(training)
        self.model, self.alpha = (
            submission.put(model),
            submission.put(case.log_alpha, requires_grad=True),
        )
        self.losses = submission.helper("gate_losses", weights=case.weights, log_alpha=self.alpha)
        batches = submission.helper("stream", values=case.batches) if stream else case.batches
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
        state = submission.get(self.model).state
        self.found = {
            "alpha": submission.get(self.alpha),
            "said": self.said,
            **{f"gates {i}": entry["gates"] for i, entry in enumerate(self.log)},
            **{f"weight {name}": state[name] for name, _ in case.model.named_parameters()},
        }


def expect_run(run: GateRun, case: GateCase, name_mistakes: bool = True) -> dict[str, Any]:
    """The gates of every batch and the final log_alpha are right; returns the result of
    the rule for the case.
    """
    right, steps = case.follow(), len(case.batches)
    calls = sum(name.startswith("gates") for name in run.found)
    if calls != steps:
        fail(f"loss_fn was called {calls} times for {steps} batches. Call it once for each batch")
    if name_mistakes:
        wrong = {said: case.follow(**how) for said, how in WRONG_TRAINING.items()}
        recognise(run.found, right, wrong, equal=close)
    if steps:
        expect_close(
            run.found["gates 0"], right["gates 0"], "the gates of the first batch", tolerance=1e-4
        )
        if near(run.found["alpha"], case.log_alpha):
            fail(
                "log_alpha did not change. The given optimizer holds this tensor: use it directly, without .detach() and without creating a new tensor"
            )
    for i in range(1, steps):
        if not near(run.found[f"gates {i}"], right[f"gates {i}"], tolerance=1e-4):
            fail(
                f"after {i} step{'s' * (i > 1)} log_alpha or the noise is wrong. Take one step of the given optimizer per batch, with the "
                "gradient of the loss plus λ · Σ expected_l0, and do not clip log_alpha or the gradient"
            )
    expect_close(
        run.found["alpha"], right["alpha"], "log_alpha after the last step", tolerance=1e-4
    )
    return right


@question(
    "8.2",
    points=1,
    claim="fresh noise for every batch, the loss with sampled gates, and λ for each open one",
)
def test_training(submission: Submission, draw: Draw) -> None:
    wrong = {said: partial(GateCase.follow, **how) for said, how in WRONG_TRAINING.items()}
    (case,), _, _ = draw_case(lambda: (GateCase(draw, 3),), GateCase.follow, wrong, close)
    expect_run(GateRun(submission, case), case)


@question(
    "8.2", points=0.5, claim="for each batch the expected number of open gates before its step"
)
def test_counts(submission: Submission, draw: Draw) -> None:
    """Checked for the student's log_alpha; the other claim checks the training."""
    case = GateCase(draw, 4)
    run = GateRun(submission, case)
    if len(run.said) != len(case.batches):
        fail(f"{len(run.said)} numbers were returned for {len(case.batches)} batches")
    if len(run.log) != len(case.batches):
        fail(
            f"loss_fn was called {len(run.log)} times for {len(case.batches)} batches. Call it once for each batch"
        )
    there = [entry["log_alpha"] for entry in run.log] + [run.found["alpha"]]
    sums = torch.stack([case.expected(alpha).sum() for alpha in there])
    right, after = sums[:-1], sums[1:]
    if near(right, after):
        fail("log_alpha did not change, so the recorded numbers cannot be checked")
    if near(run.said, after, tolerance=1e-5):
        fail("the sum was recorded after the step. Record it before the step")
    expect_close(
        run.said[:1],
        right[:1],
        "the expected number of open gates before the first step",
        tolerance=1e-4,
    )
    expect_close(run.said, right, "the expected number of open gates", tolerance=1e-4)


# --- 8.3 roles ------------------------------------------------------------------------


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


EVERY_KEY = "the maximum over all keys was used. Leave out padding and the end mark"
BY_SENTENCE = "the shares of the sentences were averaged. Give every query the same weight, also in a long sentence"
TRANSPOSED = (
    "rows and columns are exchanged. attn has shape (…, query, key), and the maximum is over keys"
)
LAST_OF_EQUAL = "of equal maxima the last was used. Use the lowest key"
PADDED_QUERIES = "queries that are no real tokens were counted. Count real tokens only"
MASS = "the attention to the target was averaged. Return the share of queries whose *largest* attention is to their target"
OVER_ALL = (
    "the count was divided by all queries. Divide by the number of queries that have a target"
)

WRONG["points_to"] = {
    EVERY_KEY: lambda attn, target, mask: _share(attn.argmax(-1), target, (target >= 0) & mask),
    BY_SENTENCE: _of_sentences,
    TRANSPOSED: lambda attn, target, mask: _share(
        _pointed(attn.transpose(2, 3), mask), target, (target >= 0) & mask
    ),
    LAST_OF_EQUAL: _last_maximum,
    PADDED_QUERIES: lambda attn, target, mask: _share(_pointed(attn, mask), target, target >= 0),
    MASS: _mass,
    OVER_ALL: lambda attn, target, mask: (
        _share(_pointed(attn, mask), target, (target >= 0) & mask)
        * ((target >= 0) & mask).sum()
        / target.numel()
    ),
}


def pointing(
    draw: Draw, B: int, M: int, L: int, inside: bool = True
) -> tuple[Tensor, Tensor, Tensor]:
    """Attention with ties, targets, and tokens that are not real at the end and
    inside.
    """
    attn = (1 + torch.randint(0, 5, (B, M, L, L), generator=draw.generator)).double()
    attn[..., -1] += 3  # the end looks large
    mask = draw.mask(B, L, kept=0.8) if inside else torch.ones(B, L, dtype=torch.bool)
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
    "8.3",
    points=0.5,
    claim="points_to: the share of queries whose largest attention among real keys is at their target",
)
def test_points_to(submission: Submission, draw: Draw) -> None:
    expect_formula(submission, "points_to", lambda: pointing(draw, 4, 3, 7))


WRONG["neighbour"] = {
    "the sign of the offset is wrong. The position is i + offset": lambda mask, offset: (
        reference.neighbour(mask, -offset)
    ),
    "the position i + offset wraps around at the end. Return −1 for a position outside the sentence": lambda mask, offset: (
        torch.where(
            mask & mask.roll(-offset, 1), (torch.arange(mask.shape[1]) + offset) % mask.shape[1], -1
        )
    ),
    "a word whose neighbour is no real token has a target. Return −1 for it": lambda mask, offset: (
        torch.where(
            mask
            & (
                (torch.arange(mask.shape[1]) + offset).clamp(0, mask.shape[1] - 1)
                == torch.arange(mask.shape[1]) + offset
            ),
            torch.arange(mask.shape[1]) + offset,
            -1,
        )
    ),
    "these are the offsets. Return the positions i + offset": lambda mask, offset: torch.where(
        reference.neighbour(mask, offset) >= 0, offset, -1
    ),
}


def as_places(value: Any, shape: Any) -> Tensor:
    return expect_tensor(value, shape=shape, dtype=torch.int64, what="the places")


@question("8.3", points=0.5, claim="neighbour: the place some words away, where both are real")
def test_neighbour(submission: Submission, draw: Draw) -> None:
    given, right, mistakes = exercises.draw_case(
        "neighbour", lambda: (draw.mask(4, 8, kept=0.7), draw.choice([-2, -1, 1, 2]))
    )
    value = as_places(submission.neighbour(*given), right.shape)
    recognise(value, right, mistakes)
    expect_equal(value, right, f"neighbour(…, {given[1]})")


def _extreme(tokens: Tensor, counts: Tensor, mask: Tensor, pick: Callable[..., int]) -> Tensor:
    out = torch.full(tokens.shape, -1)
    for b, real in enumerate(mask):
        places = real.nonzero().flatten().tolist()
        if places:
            out[b, real] = pick(places, key=lambda i, b=b: float(counts[tokens[b, i]]))
    return out


WRONG["rarest"] = {
    "the largest count was used. The rarest word has the smallest count": lambda tokens, counts, mask: (
        _extreme(tokens, counts, mask, max)
    ),
    "padding was searched, too. Only real tokens can be the rarest": lambda tokens, counts, mask: (
        torch.where(mask, counts.double()[tokens].argmin(1, keepdim=True), -1)
    ),
    "of equally rare words the last was used. Use the first": lambda tokens, counts, mask: _extreme(
        tokens, counts, mask, lambda places, key: min(reversed(places), key=key)
    ),
    "queries that are no real tokens got a target. Return −1 for them": lambda tokens, counts, mask: (
        counts.double()[tokens]
        .masked_fill(~mask, math.inf)
        .argmin(1, keepdim=True)
        .expand_as(tokens)
        .contiguous()
    ),
    "these are the tokens. Return their positions": lambda tokens, counts, mask: torch.where(
        mask, tokens.gather(1, reference.rarest(tokens, counts, mask).clamp(min=0)), -1
    ),
}


def rare_case(draw: Draw, B: int, L: int) -> tuple[Tensor, Tensor, Tensor]:
    counts = torch.tensor([draw.integer(1, 6) for _ in range(12)])
    mask = draw.mask(B, L, kept=0.7)
    mask[:, 0] = True
    return torch.randint(0, 12, (B, L), generator=draw.generator), counts, mask


@question(
    "8.3",
    points=0.5,
    claim="rarest: for every real query the place of the real token with the smallest count",
)
def test_rarest(submission: Submission, draw: Draw) -> None:
    read = partial(as_places, shape=(5, 8))
    exercises.expect_answer(submission, "rarest", lambda: rare_case(draw, 5, 8), read=read)


def _offsets(target: Tensor, counted: Tensor) -> list[int]:
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
    offsets = _offsets(target, (target >= 0) & mask)
    return _most([abs(o) for o in offsets], len(offsets))


WRONG["arc_baseline"] = {
    "distances were counted. An offset has a sign, so −1 and 1 are different": _distance,
    "an offset is target − query, not query − target": lambda target, mask: (
        -reference.arc_baseline(target, mask)[0],
        reference.arc_baseline(target, mask)[1],
    ),
    "offset 0 was counted as an offset. A word that targets itself is no neighbour; count it in the denominator only": lambda target, mask: (
        _with_0(_offsets(target, (target >= 0) & mask))
    ),
    "queries that target themselves are missing in the denominator": lambda target, mask: _most(
        _offsets(target, (target >= 0) & mask),
        sum(o != 0 for o in _offsets(target, (target >= 0) & mask)),
    ),
    "queries that are no real tokens were counted in the baseline": lambda target, mask: _most(
        _offsets(target, target >= 0), int((target >= 0).sum())
    ),
    "the count was divided by the number of all queries. Divide by the number of real queries that have a target": lambda target, mask: (
        _most(_offsets(target, (target >= 0) & mask), target.numel())
    ),
}


def arcs(draw: Draw) -> tuple[Tensor, Tensor]:
    mask = draw.mask(4, 9, kept=0.8)
    mask[:, 0] = mask[:, 4] = True
    target = torch.full((4, 9), -1)
    for b in range(4):
        real = mask[b].nonzero().flatten().tolist()
        for i in range(9):
            if draw.number(0, 1) < 0.7:
                near_by = [j for j in real if j - i in (0, -1, -1, 2, 1)]
                target[b, i] = draw.choice(near_by or real)
    return target, mask


def expect_baseline(value: Any, right: tuple[int, float], of: str = "") -> None:
    expect_length(value, 2, "arc_baseline(…)")
    expect_equal(value[0], right[0], f"{of}the offset")
    expect_close(value[1], right[1], f"{of}the share")


@question(
    "8.3",
    points=0.5,
    claim="arc_baseline: the offset that most queries have, and its share of all that count",
)
def test_baseline(submission: Submission, draw: Draw) -> None:
    what = "arc_baseline(…), of which 0 is the offset and 1 the share,"
    exercises.expect_answer(submission, "arc_baseline", lambda: arcs(draw), close, what=what)


# --- 8.4 patterns ---------------------------------------------------------------------


def _parts(
    attn: Tensor,
    special: Tensor,
    rows: bool = True,
    self_too: bool = False,
    special_too: bool = False,
) -> tuple[float, float]:
    attn, place = attn.double(), torch.arange(len(attn))
    away = (place[:, None] - place).abs()
    beside = (away <= 1 if self_too else away == 1) & (
        torch.ones_like(special) if special_too else ~special
    )
    if not rows:
        return float((attn.T * special).sum(1).mean()), float((attn.T * beside).sum(1).mean())
    return float((attn * special).sum(1).mean()), float((attn * beside).sum(1).mean())


def _class(
    v: float,
    d: float,
    attn: Tensor,
    segment: Tensor | None,
    share: float,
    block: float | None = None,
) -> str:
    if v >= share and d < share / 2:
        return "vertical"
    if d >= share and v < share / 2:
        return "diagonal"
    if v + d >= share:
        return "vertical+diagonal"
    if segment is not None and len(segment.unique()) > 1:
        own = float((attn.double() * (segment[:, None] == segment)).sum(1).mean())
        if own >= ((1 + share) / 2 if block is None else block):
            return "block"
    return "heterogeneous"


WRONG["attention_pattern"] = {
    "the attention of a word to itself was used for D. D is the attention to i − 1 and i + 1": lambda a, s, g, share=0.5: (
        _class(*_parts(a, s, self_too=True), a, g, share)
    ),
    "neighbouring keys that are special tokens were counted for D. Count them for V only": lambda a, s, g, share=0.5: (
        _class(*_parts(a, s, special_too=True), a, g, share)
    ),
    "columns were averaged instead of rows. attn has shape (query, key)": lambda a, s, g, share=0.5: (
        _class(*_parts(a, s, rows=False), a, g, share)
    ),
    "block was tested with share. Test it with (1 + share)/2": lambda a, s, g, share=0.5: _class(
        *_parts(a, s), a, g, share, share
    ),
    "½ was used for share. Use the argument; ½ is only its default": lambda a, s, g, share=0.5: (
        _class(*_parts(a, s), a, g, 0.5)
    ),
    "block was tested before vertical+diagonal. Test vertical+diagonal first": lambda a, s, g, share=0.5: (
        "block"
        if g is not None
        and len(g.unique()) > 1
        and float((a.double() * (g[:, None] == g)).sum(1).mean()) >= (1 + share) / 2
        else _class(*_parts(a, s), a, g, share)
    ),
}
CLASSES = ("vertical", "diagonal", "vertical+diagonal", "block", "heterogeneous")


def attention_map(draw: Draw, L: int) -> tuple[Tensor, Tensor, Tensor | None, float]:
    """One of any class, no nearer than 0.01 to a threshold."""
    share = draw.choice([0.5, 0.4, 0.6])
    while True:
        special, segment = torch.zeros(L, dtype=torch.bool), (torch.arange(L) >= L // 2).long()
        special[0] = special[draw.integer(2, L - 1)] = True
        place = torch.arange(L)
        away = (place[:, None] - place).abs()
        logits = (
            draw.normal(L, L)
            + draw.choice([0.0, 3.0]) * special
            + draw.choice([0.0, 0.0, 3.0]) * (away == 1)
        )
        logits = (
            logits
            + draw.choice([0.0, 2.5]) * (away == 0)
            + draw.choice([0.0, 3.0]) * (segment[:, None] == segment)
        )
        attn = logits.double().softmax(-1)
        v, d = _parts(attn, special)
        own = float((attn * (segment[:, None] == segment)).sum(1).mean())
        edges = [
            v - share,
            d - share,
            v - share / 2,
            d - share / 2,
            v + d - share,
            own - (1 + share) / 2,
        ]
        if min(map(abs, edges)) > 0.01:
            return attn.float(), special, draw.choice([segment, segment, None]), share


def expect_classes(submission: Submission, draw: Draw, count: int) -> None:
    def of_each(classify: Callable[..., str]) -> Callable[..., list[str]]:
        return lambda *maps: [classify(*one) for one in maps]

    given, right, mistakes = draw_case(
        lambda: tuple(attention_map(draw, 8) for _ in range(count)),
        of_each(reference.attention_pattern),
        {said: of_each(wrong) for said, wrong in WRONG["attention_pattern"].items()},
    )
    value = [submission.attention_pattern(*g) for g in given]
    for name in value:
        if name not in CLASSES:
            fail(f"a class is one of {', '.join(CLASSES)}; it is {describe(name)}")
    recognise(value, right, mistakes)
    for i, (mine, name) in enumerate(zip(value, right, strict=True)):
        if mine != name:
            v, d = _parts(*given[i][:2])
            fail(
                f"a map with V = {v:.2f} and D = {d:.2f} at share {given[i][3]:g} is {name!r}, not {mine!r}"
            )


@question("8.4", points=0.5, claim="attention_pattern: five classes, by the first rule that holds")
def test_classes(submission: Submission, draw: Draw) -> None:
    expect_classes(submission, draw, 24)


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
    "every M-th feature was assigned to a head. Head h has the features h·d … (h+1)·d − 1": lambda c, v, m, off: (
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
    "8.4",
    points=0.5,
    claim="disable: heads that are off hand on the mean of their values over real tokens",
)
def test_disable(submission: Submission, draw: Draw) -> None:
    expect_formula(submission, "disable", lambda: disabling(draw, 3, 6, 4, 3))


def _cosines(before: Tensor, after: Tensor, mask: Tensor) -> Tensor:
    return torch.stack(
        [
            torch.cosine_similarity(
                before[:, b][:, r][:, :, r].flatten(1).double(),
                after[:, b][:, r][:, :, r].flatten(1).double(),
                dim=1,
            )
            for b, r in enumerate(mask)
        ]
    )


def _all_together(before: Tensor, after: Tensor, mask: Tensor) -> Tensor:
    parts = [
        torch.cat([maps[:, b][:, r][:, :, r].flatten(1).double() for b, r in enumerate(mask)], 1)
        for maps in (before, after)
    ]
    return 1 - torch.cosine_similarity(*parts, dim=1)


def _padded(before: Tensor, after: Tensor, mask: Tensor) -> Tensor:
    return 1 - torch.cosine_similarity(
        before.flatten(2).double(), after.flatten(2).double(), dim=2
    ).mean(1)


def _by_rows(before: Tensor, after: Tensor, mask: Tensor) -> Tensor:
    return 1 - torch.stack(
        [
            torch.cosine_similarity(
                before[:, b][:, r][:, :, r].double(), after[:, b][:, r][:, :, r].double(), dim=-1
            ).mean(1)
            for b, r in enumerate(mask)
        ]
    ).mean(0)


WRONG["attention_change"] = {
    "the maps contain padding. Leave out the rows and columns of padding": _padded,
    "all sentences were flattened together. Compute a cosine for each sentence, then the mean": _all_together,
    "rows were compared one by one. Treat the map of a sentence as one vector": _by_rows,
    "this is the cosine. Return 1 minus the cosine": lambda before, after, mask: _cosines(
        before, after, mask
    ).mean(0),
    "the cosines were summed over sentences. Use their mean": lambda before, after, mask: (
        1 - _cosines(before, after, mask).sum(0)
    ),
}


def two_maps(draw: Draw, M: int, B: int, L: int) -> tuple[Tensor, Tensor, Tensor]:
    mask = draw.mask(B, L, kept=0.7)
    mask[:, :2] = True
    return draw.normal(M, B, L, L).softmax(-1), (2 * draw.normal(M, B, L, L)).softmax(-1), mask


@question(
    "8.4", points=0.5, claim="attention_change: one minus the mean cosine of the sentences' maps"
)
def test_change(submission: Submission, draw: Draw) -> None:
    expect_formula(submission, "attention_change", lambda: two_maps(draw, 3, 4, 6))


# --- 8.5 fixed patterns ---------------------------------------------------------------


def _fixed(
    length: int,
    start: int = 1,
    gap: int = 2,
    wrap: bool = False,
    zero: bool = False,
    power: int = 3,
) -> Tensor:
    i, j = torch.arange(length)[:, None], torch.arange(length)
    rising = ((j + start) ** power).double().expand(length, -1)
    falling = ((length - 1 + start - j) ** power).double().expand(length, -1)
    previous, following = (j == i - 1), (j == i + 1)
    if wrap:
        previous, following = (j == (i - 1) % length), (j == (i + 1) % length)
    maps = torch.stack(
        [
            (j == i).double(),
            previous.double(),
            following.double(),
            rising * (j <= i - gap),
            falling * (j >= i + gap),
            rising,
            falling,
        ]
    )
    total = maps.sum(-1, keepdim=True)
    if not zero:
        maps = torch.where(total == 0, torch.eye(length, dtype=torch.float64), maps)
    return (maps / maps.sum(-1, keepdim=True).clamp(min=1e-9)).float()


WRONG["fixed_patterns"] = {
    "the weights are j³, so the first key has weight 0. They should be (j + 1)³": lambda n: _fixed(
        n, start=0
    ),
    "the larger contexts include the neighbour. They should be j ≤ i − 2 and j ≥ i + 2": lambda n: (
        _fixed(n, gap=1)
    ),
    "positions wrap around at the end. The first word has no previous word": lambda n: _fixed(
        n, wrap=True
    ),
    "a row without a key is 0. Such a word should attend to itself": lambda n: _fixed(n, zero=True),
    "the weights are not cubes. Take the third power": lambda n: _fixed(n, power=1),
    "left and right are exchanged": lambda n: _fixed(n)[[0, 2, 1, 4, 3, 5, 6]],
    "the patterns of the start and the end are exchanged": lambda n: _fixed(n)[
        [0, 1, 2, 3, 4, 6, 5]
    ],
    "the rows do not sum to 1. Divide each row by its sum": lambda n: (
        _fixed(n) * (1 + torch.arange(n)[:, None])
    ),
}


@question("8.5", points=0.5, claim="fixed_patterns: seven maps by places alone, rows sum to 1")
def test_patterns(submission: Submission, draw: Draw) -> None:
    n = draw.integer(5, 9)
    value = expect_tensor(
        submission.fixed_patterns(n), shape=(7, n, n), dtype=torch.float32, what="fixed_patterns(…)"
    )
    right = reference.fixed_patterns(n)
    recognise(value, right, apply_each(WRONG["fixed_patterns"], n), equal=close)
    for h in range(7):
        expect_close(value[h], right[h], f"pattern {h} of {n} words")


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


Patterned = Callable[[int], Tensor]
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
    said: partial(wrong, patterns=reference.fixed_patterns) for said, wrong in FROZEN.items()
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
    "8.5",
    points=0.5,
    claim="frozen_attention: the last head is learned, the others have their sentence's patterns",
)
def test_frozen(submission: Submission, draw: Draw) -> None:
    given, _, _ = exercises.draw_case("frozen_attention", lambda: freezing(draw, 3, 5, 7), close)
    expect_frozen(submission, given, "frozen_attention(…)", name_mistakes=True)


# --- 8.6 by kind ----------------------------------------------------------------------

Kinds = dict[str, Tensor]


def _pruned(scores: Kinds, kind: str, fraction: float, lowest: bool = True, by_layer: bool = False, of_all: bool = False, others: bool = False) -> Kinds:  # fmt: skip
    found = {name: ~s.isnan() for name, s in scores.items()}
    chosen = list(scores) if kind == "all" or others else [kind]
    heads = [
        ((s if lowest else -s), name, i)
        for name in chosen
        for i, s in enumerate(scores[name].flatten().tolist())
        if not math.isnan(s)
    ]
    if by_layer:
        for name in chosen:
            for layer, row in enumerate(scores[name]):
                real = [i for i, s in enumerate(row.tolist()) if not math.isnan(s)]
                for i in sorted(real, key=lambda i, row=row: float(row[i]))[
                    : round(fraction * len(real))
                ]:
                    found[name][layer, i] = False
        return found
    n = sum(int((~s.isnan()).sum()) for s in scores.values()) if of_all else len(heads)
    for _, name, i in sorted(heads, key=lambda head: head[0])[: round(fraction * n)]:
        found[name].view(-1)[i] = False
    return found


WRONG["prune_by_kind"] = {
    "the heads with the highest scores were removed. Remove those with the lowest": lambda s, kind, fraction: (
        _pruned(s, kind, fraction, lowest=False)
    ),
    "each layer lost the same share. Rank the heads of a kind from all layers together": lambda s, kind, fraction: (
        _pruned(s, kind, fraction, by_layer=True)
    ),
    "the share of all heads was computed. Compute the share of this kind's heads": lambda s, kind, fraction: (
        _pruned(s, kind, fraction, of_all=True)
    ),
    "the other kinds were pruned, too. Prune the given kind only": lambda s, kind, fraction: (
        _pruned(s, kind, fraction, others=True)
    ),
    "heads that do not exist (NaN) were counted or kept. Do not count them, and return False for them": lambda s, kind, fraction: {
        name: mask | s[name].isnan() for name, mask in _pruned(s, kind, fraction).items()
    },
}


def kinds_of(draw: Draw) -> Kinds:
    found = {
        "encoder": draw.tied(3, 4, levels=4),
        "decoder": draw.tied(2, 4, levels=4) + 0.5,
        "cross": draw.tied(2, 4, levels=4) - 0.5,
    }
    for scores in found.values():
        scores[draw.integer(0, 1), draw.integer(0, 3)] = math.nan
    return found


def as_kinds(value: Any, scores: Kinds) -> Kinds:
    expect_keys(value, list(scores), "prune_by_kind(…)")
    return {
        n: expect_tensor(value[n], shape=s.shape, dtype=torch.bool, what=f"the mask of {n!r}")
        for n, s in scores.items()
    }


def expect_kinds(
    submission: Submission, given: Any, right: Kinds, mistakes: dict[str, Any]
) -> None:
    value = as_kinds(submission.prune_by_kind(*given), given[0])
    recognise(value, right, mistakes)
    for name, mask in right.items():
        if int(value[name].sum()) != int(mask.sum()):
            fail(
                f"{given[1]!r} at {given[2]:g}: {int(value[name].sum())} heads of {name!r} are kept instead of {int(mask.sum())}"
            )
        expect_equal(
            value[name],
            mask,
            message=f"{given[1]!r} at {given[2]:g}: the wrong heads of {name!r} are kept",
        )


@question(
    "8.6",
    points=0.5,
    claim="prune_by_kind: the lowest of one kind, all its layers together; the others stay",
)
def test_by_kind(submission: Submission, draw: Draw) -> None:
    def scored() -> tuple[Kinds, str, float]:
        kind = draw.choice(["encoder", "decoder", "cross"])
        return kinds_of(draw), kind, draw.choice([0.3, 0.5, 0.4])

    expect_kinds(submission, *exercises.draw_case("prune_by_kind", scored))


WRONG["prunable_share"] = {
    "the last point above the line was used. All points before it must be above the line, too": lambda curve, tolerance=0.1: (
        max((float(f) for f, s in curve if s >= (1 - tolerance) * curve[0][1]), default=0.0)
    ),
    "the tolerance was subtracted as points. It is a share of the full score": lambda curve, tolerance=0.1: (
        reference.prunable_share(curve, tolerance / curve[0][1])
    ),
    "this is the first fraction below the line. Return the last fraction before it": lambda curve, tolerance=0.1: (
        next((float(f) for f, s in curve if s < (1 - tolerance) * curve[0][1]), float(curve[-1][0]))
    ),
    "each score was compared with the previous score. Compare it with the full score": lambda curve, tolerance=0.1: (
        next(
            (
                float(curve[i][0])
                for i in range(len(curve) - 1)
                if curve[i + 1][1] < (1 - tolerance) * curve[i][1]
            ),
            float(curve[-1][0]),
        )
    ),
    "this is the score. Return the fraction": lambda curve, tolerance=0.1: float(
        dict(curve)[reference.prunable_share(curve, tolerance)]
    ),
}


def curve_of(draw: Draw) -> tuple[list[tuple[float, float]], float]:
    full, tolerance = draw.number(40, 90), draw.number(0.2, 0.25)
    levels = [0.95, 0.85, 0.72, 0.6, 0.93, 0.4, 0.9]
    fractions = sorted(draw.distinct(len(levels), 1, 19))
    return [
        (0.0, full),
        *(
            (f / 20, full * (s + draw.number(-0.01, 0.01)))
            for f, s in zip(fractions, levels, strict=True)
        ),
    ], tolerance


@question(
    "8.6",
    points=0.5,
    claim="prunable_share: the largest fraction up to which every score is good enough",
)
def test_share(submission: Submission, draw: Draw) -> None:
    exercises.expect_answer(submission, "prunable_share", lambda: curve_of(draw), close)


# --- 8.7, 8.8 -------------------------------------------------------------------------


@question(
    "8.7",
    points=0,
    claim="a and b are letters (which ones are right is looked at when they are handed in)",
)
def test_form_of_the_answers(submission: Submission, draw: Draw) -> None:
    expect_choice(submission, "answer_8_7a", 4, {})
    expect_choice(submission, "answer_8_7b", 4, {})


def by_loops(attn: Tensor, target: Tensor, mask: Tensor) -> Tensor:
    """Right, another way."""
    B, M, L, _ = attn.shape
    right, counted = torch.zeros(M, dtype=torch.float64), 0
    for b in range(B):
        real = [j for j in range(L) if mask[b, j]]
        for i in range(L):
            if target[b, i] >= 0 and mask[b, i]:
                counted += 1
                for m in range(M):
                    best = max(real, key=lambda j, b=b, m=m, i=i: (float(attn[b, m, i, j]), -j))
                    right[m] += best == int(target[b, i])
    return right / counted


def by_adding(attn: Tensor, target: Tensor, mask: Tensor) -> Tensor:
    """Right: real keys get more than any other has."""
    found = (attn + (1 + attn.max()) * mask[:, None, None, :]).argmax(-1)
    return _share(found, target, (target >= 0) & mask)


RIGHT: dict[str, Version] = {
    "the library's": reference.points_to,
    "one with loops": by_loops,
    "one that adds to real keys": by_adding,
}
PROMISE = "8.3 requires for positive attention in float64 and targets that are real tokens"
NAMES = {
    EVERY_KEY: "uses all keys",
    BY_SENTENCE: "averages the shares of the sentences",
    TRANSPOSED: "exchanges rows and columns",
    LAST_OF_EQUAL: "takes the last of equal maxima",
    PADDED_QUERIES: "counts queries that are no real tokens",
    MASS: "averages the attention on the target",
}


def of_table(*sentences: str) -> dict[str, Version]:
    return {NAMES[s]: WRONG["points_to"][s] for s in sentences}


@question("8.8", points=0.5, claim="right versions pass, and two plain mistakes are found")
def test_hunt(submission: Submission, draw: Draw) -> None:
    expect_verdicts(submission, draw, "points_to", RIGHT, of_table(BY_SENTENCE, MASS), PROMISE)
