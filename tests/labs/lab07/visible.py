"""Lab 07, attention heads: what is claimed of each answer, and what its likely mistakes
look like.

Inputs are drawn anew for every grading, and so that the usual mistakes give other
results than the right answer: a small BERT with dropout whose heads all matter, and
unequally; numbers of samples, positions, layers and heads that differ (and some that
are all equal, where an axis could be mistaken without an error); gates of many sizes;
evaluations that do not add up head by head. What a mistake would have given is worked
out only where the answer is not right.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from course_lib.grading import (
    Draw,
    Proxy,
    Submission,
    ask,
    describe,
    expect_close,
    expect_int,
    expect_length,
    expect_number,
    expect_raises,
    expect_tensor,
    fail,
    question,
)
from course_lib.grading.claims import mistakes as known
from course_lib.grading.claims.hunt import Version, expect_verdicts
from course_lib.grading.claims.typed import expect_choice, expect_typed
from course_lib.labs import lab07 as reference
from course_lib.worker import wire
from course_lib.worker.helpers import sample_losses
from course_lib.worker.wire import Ref

# 7.7b: what half of the heads cost by I_h, in points of accuracy (mean of the three
# checkpoints), and how far an answer may be off
Batch = dict[str, Tensor]


# --- recognising a mistake by its result ----------------------------------------------

near = functools.partial(known.near, tolerance=1e-4, least=1e-3)
recognise = functools.partial(known.recognise, alike=near)


def expect_right(
    value: Tensor, right: Tensor, mistakes: Callable[[], Mapping[str, Any]], what: str, when: str
) -> None:
    """The value is right; else the mistake whose result it is, or where it is wrong."""
    if not near(value, right):
        recognise(value, right, mistakes(), when)
        expect_close(value, right, f"{when}{what}", tolerance=1e-4)


# --- 7.1 attention_as_sum -------------------------------------------------------------

SHAPES = "A head has d = E / heads features. A weight is (out, in), so that x @ W[rows].T makes the features of these rows"


def attention_case(
    draw: Draw, B: int, L: int, E: int, dtype: torch.dtype = torch.float32
) -> list[Tensor]:
    """x, Wq, Wk, Wv, Wo."""
    return [
        draw.normal(B, L, E, dtype=dtype),
        *(draw.normal(E, E, scale=E**-0.5 * 1.5, dtype=dtype) for _ in range(4)),
    ]


def attention(
    x: Tensor, Wq: Tensor, Wk: Tensor, Wv: Tensor, Wo: Tensor, heads: int,
    split: Callable[[Tensor], Tensor] | None = None,
    weights: Callable[[Tensor, Tensor], Tensor] | None = None,
    values: Callable[[Tensor, Tensor, Tensor], Tensor] | None = None,
    columns: Callable[[Tensor], Tensor] | None = None,
) -> Tensor:  # fmt: skip
    """The parts, with one step done otherwise.

    Args:
        split: (B, L, E) -> (M, B, L, d). weights: q, k -> (M, B, L, L). values: k, v, x
            by head -> what is summed up.
        columns: Wo -> (M, d, E).
    """
    d = x.shape[-1] // heads
    split = split or (lambda p: p.unflatten(2, (heads, d)).permute(2, 0, 1, 3))
    weights = weights or (lambda q, k: softmax(q, k, d**0.5))
    q, k, v = (split(x @ W.T) for W in (Wq, Wk, Wv))
    summed = v if values is None else values(k, v, split(x))
    out = Wo.unflatten(1, (heads, d)).permute(1, 2, 0) if columns is None else columns(Wo)
    return weights(q, k) @ summed @ out[:, None]


def softmax(q: Tensor, k: Tensor, divisor: float, dim: int = -1) -> Tensor:
    return torch.softmax(q @ k.mT / divisor, dim)


MIXED = ".view alone mixes positions and heads: after view(B, L, heads, d) the axis of the heads has to be moved to the front"


def wrong_parts(
    x: Tensor, Wq: Tensor, Wk: Tensor, Wv: Tensor, Wo: Tensor, heads: int
) -> dict[str, Tensor]:
    """What the parts are by mistake."""
    given = (x, Wq, Wk, Wv, Wo, heads)
    (B, L, E), d = x.shape, x.shape[-1] // heads
    right = attention(*given)
    causal = torch.ones(L, L, dtype=torch.bool).triu(1)
    context = attention(
        x, Wq, Wk, Wv, torch.eye(E, dtype=x.dtype), heads
    )  # each head's in its own place, zeros elsewhere

    def scaled(divisor: float, dim: int = -1) -> Tensor:
        return attention(*given, weights=lambda q, k: softmax(q, k, divisor, dim))

    return {
        "the scores were divided by √E: each head multiplies vectors of d = E / heads numbers, and √d is their scale": (
            scaled(E**0.5)
        ),
        "the scores were divided by d, not by its root": scaled(d),
        "the scores were divided by the root of the number of heads: it is the length of a head's vectors, d": scaled(
            heads**0.5
        ),
        "the scores were not divided by √d": scaled(1),
        "the scores were multiplied by √d where they are divided": scaled(d**-0.5),
        "the softmax went over the queries: each query shares its attention out among the keys, the last axis": scaled(
            d**0.5, dim=-2
        ),
        "the softmax went over the heads: each head shares out for itself, over the keys": scaled(d**0.5, dim=0),
        "the softmax is missing": attention(*given, weights=lambda q, k: q @ k.mT / d**0.5),
        "the projections are x @ W: torch stores a weight (out, in), so it is x @ W.T": attention(
            x, Wq.T, Wk.T, Wv.T, Wo, heads
        ),
        "the projections and the output are turned: torch stores a weight (out, in), so it is x @ W.T": attention(
            x, Wq.T, Wk.T, Wv.T, Wo.T, heads
        ),
        "a head went through its rows of Wo: Wo reads the heads, so a head owns columns of it": attention(
            *given, columns=lambda W: W.unflatten(0, (heads, d))
        ),
        "the columns of Wo were dealt out in turn: head h owns the columns h·d to (h+1)·d, side by side": attention(
            *given, columns=lambda W: W.unflatten(1, (d, heads)).permute(2, 1, 0)
        ),
        "the features were dealt out to the heads in turn: head h owns the rows h·d to (h+1)·d, so view(B, L, heads, d), "
        "not view(B, L, d, heads)": attention(*given, split=lambda p: p.unflatten(2, (d, heads)).permute(3, 0, 1, 2)),
        MIXED: attention(*given, split=lambda p: p.contiguous().view(heads, B, L, d)),
        MIXED + " ": attention(*given, split=lambda p: p.contiguous().view(B, heads, L, d).transpose(0, 1)),
        "queries and keys changed places: row i of the scores belongs to query i": attention(
            *given, weights=lambda q, k: softmax(k, q, d**0.5)
        ),
        "positions do not attend to those to come: no mask was asked for": attention(
            *given,
            weights=lambda q, k: torch.softmax((q @ k.mT / d**0.5).masked_fill(causal, -torch.inf), -1),
        ),
        "the parts are right, but the order of the heads is not": right.flip(0),
        "the parts are the same for all heads: entry h is what head h alone adds": right.mean(0).expand_as(right),
        "every part is the whole output: entry h is what head h alone adds": right.sum(0).expand_as(right),
        "the parts were divided by the number of heads: their sum, not their mean, is the output": right / heads,
        "Wo is missing: the heads' outputs lie side by side, and nothing has read them yet": context,
        "the keys were summed up where the values belong: Wv is not used": attention(*given, values=lambda k, v, y: k),
        "the values are missing: x itself was summed up, Wv is not used": attention(*given, values=lambda k, v, y: y),
    }  # fmt: skip


def as_parts(value: Any, x: Tensor, heads: int) -> Tensor:
    """The value, if it has the form of the parts."""
    B, L, E = x.shape
    if isinstance(value, Tensor) and value.shape != (heads, B, L, E):
        if value.shape == (B, L, E):
            fail(
                "the sum over heads came back, (B, L, E): return what each head adds, (heads, B, L, E)"
            )
        if value.shape == (heads, B, L, E // heads):
            fail(
                "what came back are the heads' outputs of d numbers: each still goes through its columns of Wo, to (B, L, E)"
            )
        if sorted(value.shape) == sorted((heads, B, L, E)):
            fail(
                f"the result has shape {tuple(value.shape)}: the heads come first, (heads, B, L, E) = {(heads, B, L, E)}"
            )
    return expect_tensor(value, shape=(heads, B, L, E), dtype=x.dtype)


def expect_parts(submission: Submission, given: list[Tensor], heads: int, when: str = "") -> None:
    """The student's parts are right."""
    B, L, E = given[0].shape
    called = f"for x {(B, L, E)} and {heads} heads,"
    thought = SHAPES
    parts = as_parts(
        ask(lambda: submission.attention_as_sum(*given, heads), called, thought), given[0], heads
    )
    right = reference.attention_as_sum(*given, heads)
    expect_right(parts, right, lambda: wrong_parts(*given, heads), "the result", when)


@question("7.1", points=1, claim="the sum over the heads is nn.MultiheadAttention")
def test_the_sum_is_attention(submission: Submission, draw: Draw) -> None:
    heads = draw.choice([3, 6])
    given = attention_case(draw, 2, 5, 12)
    x, *weights = given
    layer = nn.MultiheadAttention(12, heads, bias=False, batch_first=True, device="meta").to_empty(
        device="cpu"
    )
    layer.load_state_dict({"in_proj_weight": torch.cat(weights[:3]), "out_proj.weight": weights[3]})
    parts = as_parts(
        ask(
            lambda: submission.attention_as_sum(*given, heads),
            f"for x {tuple(x.shape)} and {heads} heads,",
            SHAPES,
        ),
        x,
        heads,
    )
    with torch.no_grad():
        whole, _ = layer(x, x, x)
    if not near(parts.sum(0), whole):
        wrong = {said: part.sum(0) for said, part in wrong_parts(*given, heads).items()}
        recognise(parts.sum(0), whole, wrong)
        expect_close(parts.sum(0), whole, "the sum over heads", tolerance=1e-4)


@question("7.1", points=1, claim="entry h is what head h alone adds, in the heads' order")
def test_each_heads_own_part(submission: Submission, draw: Draw) -> None:
    for heads, shape in ((4, (3, 5, 12)), (3, (2, 4, 6))):
        expect_parts(submission, attention_case(draw, *shape), heads)


@question("7.1", points=0.5, claim="arguments: heads that do not divide E raise ValueError")
def test_attention_arguments(submission: Submission, draw: Draw) -> None:
    given = attention_case(draw, 2, 3, 6)
    expect_parts(submission, given, 3)
    for heads in (4, 5, 12):
        expect_raises(
            ValueError,
            functools.partial(submission.attention_as_sum, *given, heads),
            f"{heads} heads of 6 features, which does not divide evenly,",
        )


# --- a model, here and there ----------------------------------------------------------


def inputs(batch: Batch) -> Batch:
    """What the model is called with."""
    return {name: batch[name] for name in ("input_ids", "attention_mask")}


def spread(gate: Tensor) -> Tensor:
    """(heads,) or (B, heads) -> what multiplies (B, L, heads, d)."""
    return gate[..., None] if gate.ndim == 1 else gate[:, None, :, None]


def by_head(x: Tensor, gate: Tensor) -> Tensor:
    """(B, L, heads · d) with every head multiplied by its gate."""
    return (x.unflatten(-1, (gate.shape[-1], -1)) * spread(gate)).flatten(-2)


Change = Callable[[Tensor, Tensor], Tensor]


def logits(
    model: Any, batch: Batch, xi: Tensor, before: Change | None = None, behind: Change | None = None, of: str = "output.dense"
) -> Tensor:  # fmt: skip
    """The model's logits, where in each layer a module's input or output is changed by
    (x, the layer's gate).

    Args:
        of: the module, from the layer's attention on.
    """
    with ExitStack() as hooks, torch.no_grad():
        for layer, gate in zip(model.bert.encoder.layer, xi, strict=True):
            module = layer.attention.get_submodule(of)
            if before is not None:

                def pre(
                    _: nn.Module, args: Any, change: Change = before, gate: Tensor = gate
                ) -> Any:
                    return change(args[0], gate), *args[1:]

                hooks.callback(module.register_forward_pre_hook(pre).remove)
            if behind is not None:

                def post(
                    _: nn.Module,
                    args: Any,
                    out: Tensor,
                    change: Change = behind,
                    gate: Tensor = gate,
                ) -> Tensor:
                    return change(out, gate)

                hooks.callback(module.register_forward_hook(post).remove)
        return model(**inputs(batch)).logits


# --- 7.2 gated ------------------------------------------------------------------------

WITH = "the head's number is model.config.num_attention_heads; what enters the output projection is (B, L, heads · d)"
NO_CHANGE = (
    "with gates that are not 1, nothing changed. Do the gates reach the model? A head_mask=… is ignored by transformers 5, "
    "without a word"
)


def gates(draw: Draw, *shape: int) -> Tensor:
    """Gates of many sizes, one of them 0."""
    xi = torch.rand(shape, generator=draw.generator) * 1.6 + 0.2
    xi.view(-1)[draw.integer(0, xi.numel() - 1)] = 0
    return xi


def wrong_logits(model: Any, batch: Batch, xi: Tensor) -> dict[str, Tensor]:
    """What the logits are by mistake."""
    run = functools.partial(logits, model, batch)
    heads, rest = xi.shape[-1], torch.ones_like(xi)
    first, last = rest.clone(), rest.clone()
    first[0], last[-1] = xi[0], xi[-1]

    def dealt_out(x: Tensor, gate: Tensor) -> Tensor:
        return (
            by_head(x.unflatten(-1, (-1, heads)).mT.flatten(-2), gate)
            .unflatten(-1, (heads, -1))
            .mT.flatten(-2)
        )

    wrong = {
        NO_CHANGE: run(rest),
        "the gates were put behind the projection: it adds the heads up, so behind it no feature belongs to one head. They "
        "act on what goes in": run(xi, behind=by_head),
        "the gates were put on what goes into the attention: there are no heads yet": run(
            xi, before=by_head, of="self"
        ),
        "the gates were put on queries or keys: they change where a head looks, not how much it says": run(
            xi, behind=by_head, of="self.query"
        ),
        "only the first layer is gated": run(first, before=by_head),
        "only the last layer is gated": run(last, before=by_head),
        "every layer has the first layer's gates": run(xi[:1].expand_as(xi), before=by_head),
        "every layer has the last layer's gates. If the hook is defined in a loop: it reads the loop's variable when it is "
        "called, and the loop is over then": run(xi[-1:].expand_as(xi), before=by_head),
        "the order of the layers is wrong: row l of ξ is for the l-th of output_projections(model)": run(
            xi.flip(0), before=by_head
        ),
        "the order of the heads is wrong": run(xi.flip(-1), before=by_head),
        "the gates were dealt out to the features in turn: the features of a head lie side by side, (heads, d) and not "
        "(d, heads)": run(xi, before=dealt_out),
        "the gates act twice: is a hook registered twice?": run(xi**2, before=by_head),
        "a head is multiplied by 1 - ξ: a gate of 1 is open": run(1 - xi, before=by_head),
        "a gate that is not 0 was taken for 1: heads are multiplied by the number": run(
            (xi != 0).float(), before=by_head
        ),
        "the gates were added: a head is multiplied by its gate": run(
            xi, before=lambda x, gate: (x.unflatten(-1, (heads, -1)) + spread(gate) - 1).flatten(-2)
        ),
    }
    if xi.ndim == 3:
        samples, length = xi.shape[1], batch["input_ids"].shape[1]
        wrong |= {
            "all samples were gated with the mean over the samples' gates": run(
                xi.mean(1), before=by_head
            ),
            "all samples were gated like the first sample": run(xi[:, 0], before=by_head),
        }
        if samples == length:
            wrong[
                "row b of (layers, B, heads) went to position b of every text: it is for sample b"
            ] = run(
                xi,
                before=lambda x, gate: (x.unflatten(-1, (heads, -1)) * gate[:, :, None]).flatten(
                    -2
                ),
            )
    return wrong


@contextmanager
def within(submission: Submission, model: Ref, xi: Any) -> Iterator[None]:
    """Inside the student's ``with gated(model, xi):``."""
    context = submission.call("gated", model, xi, keep=True)
    thought = (
        "gated is to be used in a `with` statement (keep @contextmanager above it, and yield once), with gates (layers, heads) "
        "as well as (layers, B, heads)"
    )
    with ExitStack() as stack:
        ask(
            lambda: stack.enter_context(submission.within(context)),
            "at the beginning of `with gated(model, xi):`",
            thought,
        )
        yield


def forward(submission: Submission, model: Ref, batch: Batch, when: str) -> Ref:
    """The output of the student's model on a batch, kept there."""
    return ask(
        lambda: submission.call("__call__", on=model, keep=True, **inputs(batch)),
        when,
        f"The gates did not fit what they met: {WITH}",
    )


def expect_logits(
    submission: Submission, model: Any, there: Ref, batch: Batch, xi: Tensor, when: str
) -> None:
    """With these gates, the student's model says what it should."""
    shape = "(layers, heads)" if xi.ndim == 2 else "(layers, B, heads)"
    said = f"{when}with gates {shape} = {tuple(xi.shape)}, "
    with within(submission, there, xi):
        value = submission.get(
            forward(submission, there, batch, f"{said}when the model was called,"), "logits"
        )
    right = logits(model, batch, xi, before=by_head)
    value = expect_tensor(value, shape=right.shape, what=f"{said}the model's output (its logits)")
    expect_right(value, right, lambda: wrong_logits(model, batch, xi), "the model's output", said)


def expect_as_before(submission: Submission, model: Any, there: Ref, hooks: Ref, when: str) -> None:
    """The student's model is as it was given: weights, modes, and no hook; and it says
    what such a model says.
    """
    if submission.get(hooks, "count"):
        fail(
            f"{when} a hook (or a forward put in its place) stays in the model: keep what register_… returns, and .remove() it"
        )
    was, now = wire.describe(model), submission.get(there)
    if not isinstance(now, wire.Model) or now.state.keys() != was.state.keys():
        fail(f"{when} the model has other modules or parameters than before")
    for name, value in was.state.items():
        if not torch.equal(value, now.state[name]):
            fail(
                f"{when} the weight {name} is another than before: gate what flows through the model, not its weights"
            )
    modes(was.layer, now.layer, when)
    if not model.training:  # where it is, dropout makes it say something else each time
        words = {
            "input_ids": torch.arange(8).view(2, 4),
            "attention_mask": torch.ones(2, 4, dtype=torch.int64),
        }
        value = submission.get(
            forward(submission, there, words, f"{when}, when the model was called without gates,"),
            "logits",
        )
        with torch.no_grad():
            right = model(**words).logits
        expect_close(
            value,
            right,
            tolerance=1e-4,
            message=f"{when} the model says something else than before: are gates still at work in it?",
        )


def modes(was: wire.Layer, now: wire.Layer, when: str) -> None:
    """Every module is in the mode it was in."""
    if was.training != now.training:
        kind = was.type.rpartition(".")[2]
        word = {True: "training", False: "evaluation"}
        fail(f"{when} the model is in another mode than before: its {kind} was in {word[was.training]} mode, and is now in "
             f"{word[now.training]} mode")  # fmt: skip
    for name, child in was.children.items():
        if name in now.children:
            modes(child, now.children[name], when)


@question("7.2", points=1, claim="each head is multiplied by its gate, in every layer")
def test_gates(submission: Submission, draw: Draw) -> None:
    model, batch = draw.bert(3, 4), draw.texts(2, 6)
    expect_logits(submission, model, submission.put(model), batch, gates(draw, 3, 4), "")


@question(
    "7.2",
    points=0.5,
    claim="ξ = 1 changes nothing; the model is as before, after an exception, too",
)
def test_gates_of_one_and_afterwards(submission: Submission, draw: Draw) -> None:
    model, batch = draw.bert(2, 4), draw.texts(2, 5)
    there = submission.put(model)
    hooks = submission.helper("hooks", model=there)
    right = logits(model, batch, torch.ones(2, 4))
    with within(submission, there, torch.ones(2, 4)):
        value = submission.get(
            forward(submission, there, batch, "with gates of 1, when the model was called,"),
            "logits",
        )
    expect_close(value, right, "with all gates at 1, the model's output", tolerance=1e-4)
    expect_as_before(submission, model, there, hooks, "after the block")
    model.train()
    submission.train(there)
    with within(submission, there, gates(draw, 2, 4)):
        pass
    expect_as_before(submission, model, there, hooks, "after a block in training mode")
    model.eval()
    submission.train(there, False)
    context = submission.call("gated", there, gates(draw, 2, 4), keep=True)
    submission.call("__enter__", on=context, keep=True)
    if submission.leave(context, raising=True):
        fail(
            "an exception inside the block was swallowed: whoever uses the block would never hear of it. Use try and finally"
        )
    expect_as_before(submission, model, there, hooks, "after an exception inside the block")


@question("7.2", points=0.5, claim="(layers, B, heads): gates for each sample")
def test_gates_of_each_sample(submission: Submission, draw: Draw) -> None:
    model, batch = draw.bert(2, 4), draw.texts(3, 5)
    expect_logits(submission, model, submission.put(model), batch, gates(draw, 2, 3, 4), "")


# --- 7.3 head_importance --------------------------------------------------------------


def sample_gradients(
    model: Any, batches: Sequence[Batch], at: float = 1.0, power: int = 1
) -> list[Tensor]:
    """∂L(x)/∂ξ of every sample, signed: (B, layers, heads) for each batch."""
    layers, heads = len(model.bert.encoder.layer), model.config.num_attention_heads
    result = []
    for batch in batches:
        xi = torch.full((layers, len(batch["labels"]), heads), at, requires_grad=True)
        with reference.gated(model, xi):
            losses = sample_losses(model, batch)
        result.append(torch.autograd.grad((losses**power).sum(), xi)[0].transpose(0, 1).double())
    return result


def switched_off(model: Any, batches: Sequence[Batch]) -> Tensor:
    """The mean over samples of |L without the head - L|."""
    layers, heads = len(model.bert.encoder.layer), model.config.num_attention_heads
    change, samples = (
        torch.zeros(layers, heads, dtype=torch.float64),
        sum(len(b["labels"]) for b in batches),
    )
    with torch.no_grad():
        for batch, place in itertools.product(
            batches, itertools.product(range(layers), range(heads))
        ):
            xi = torch.ones(layers, heads)
            xi[place] = 0
            with reference.gated(model, xi):
                without = sample_losses(model, batch)
            change[place] += (without - sample_losses(model, batch)).abs().sum().double()
    return change / samples


def wrong_importance(model: Any, batches: Sequence[Batch], right: Tensor) -> dict[str, Tensor]:
    """What the importance is by mistake."""
    g = sample_gradients(model, batches)
    every, first, last = torch.cat(g), g[0], g[-1]
    samples, count = len(every), len(g)
    batch_sums = torch.stack([b.sum(0).abs() for b in g]).sum(0)
    of_batch = (
        "the absolute value was taken of the gradient of a whole batch: samples that pull in opposite directions cancel in "
        "it. Each sample needs gates of its own"
    )
    return {
        of_batch: batch_sums / samples,
        of_batch + " ": batch_sums / count,
        of_batch + "  ": torch.stack([b.mean(0).abs() for b in g]).mean(0),
        of_batch + "   ": torch.stack([b.mean(0).abs() for b in g]).sum(0) / samples,
        "the gradient is that of the mean of the losses, which is 1/B of a sample's own: differentiate their sum": (
            torch.cat([b.abs() / len(b) for b in g]).mean(0)
        ),
        "the sign is still there: I_h is the mean of absolute values, and samples of both signs cancel": every.mean(0),
        "the absolute value was taken at the end, of the mean: take it sample by sample, before anything is added up": (
            every.mean(0).abs()
        ),
        "each batch's mean counts as much as any other's: a smaller last batch then weighs too much. Divide by the number "
        "of samples, once, at the end": torch.stack([b.abs().mean(0) for b in g]).mean(0),
        "the sum was divided by the number of batches, not of samples": every.abs().sum(0) / count,
        "the samples were summed up, and not divided by their number": every.abs().sum(0),
        "the importance was normalised within each layer: the raw mean is asked for": right / right.norm(dim=1, keepdim=True),
        "the importance was normalised: the raw mean is asked for": right / right.sum(),
        "the squares were averaged, not the absolute values": every.square().mean(0),
        "the root of the mean of the squares came out: average the absolute values": every.square().mean(0).sqrt(),
        "the largest over the samples came out, not the mean": every.abs().amax(0),
        "only the first batch was counted": first.abs().mean(0),
        "only the last batch was counted": last.abs().mean(0),
        "only the first batch was counted, and divided by all samples": first.abs().sum(0) / samples,
        "only the last batch was counted, and divided by all samples": last.abs().sum(0) / samples,
        "the gradient was taken at ξ = 0, of a model without heads: it is taken at ξ = 1, of the model as it is": (
            torch.cat(sample_gradients(model, batches, at=0.0)).abs().mean(0)
        ),
        "the gradient is that of another loss, its square: differentiate what loss_fn returns": (
            torch.cat(sample_gradients(model, batches, power=2)).abs().mean(0)
        ),
        "the heads were switched off, one by one: I_h is a gradient, from one backward pass for all heads": switched_off(
            model, batches
        ),
    }  # fmt: skip


def as_importance(value: Any, model: Any, when: str = "") -> Tensor:
    """The value, if it has the form of importance."""
    return expect_tensor(
        value,
        shape=(len(model.bert.encoder.layer), model.config.num_attention_heads),
        what=f"{when}the result",
    )


def importance(
    submission: Submission, model: Ref, batches: Any, when: str, **how: Any
) -> tuple[Any, list[dict[str, Any]]]:
    """The student's importance, and the notes of the loss."""
    losses = submission.helper("losses")
    thought = (
        "Batches may have other batch sizes, from one to the next: each needs gates for as many samples as it has. And does "
        "your gated (7.2) take (layers, B, heads), and let the gradient through?"
    )
    value = ask(
        lambda: submission.call("head_importance", model, batches, losses, **how), when, thought
    )
    log = submission.get(losses, "log")
    if not log:
        fail(f"{when.rstrip(',')}, your code did not call loss_fn")
    if any(entry["dropout"] for entry in log):
        fail(
            f"{when.rstrip(',')}, loss_fn ran with dropout on, and every run then has another result: evaluate the model in evaluation mode"
        )
    return value, log


def expect_importance(
    submission: Submission, model: Any, batches: Sequence[Batch], when: str, training: bool = False
) -> None:
    """The student's importance is right."""
    model.train(training)  # then dropout is on until the student's code turns it off
    there = submission.put(model)
    model.eval()
    value, _ = importance(submission, there, list(batches), when or "for two batches")
    right = reference.head_importance(model, batches, sample_losses)
    found = as_importance(value, model, f"{when} " if when else "")
    expect_right(
        found,
        right,
        lambda: wrong_importance(model, batches, right),
        "the importance",
        f"{when}, " if when else "",
    )


@question("7.3", points=1, claim="the mean over samples of |∂L/∂ξ| at ξ = 1")
def test_importance(submission: Submission, draw: Draw) -> None:
    expect_importance(submission, draw.bert(2, 4), [draw.texts(4, 5), draw.texts(4, 5)], "")


@question("7.3", points=1, claim="neither the batch size nor the order of the data matters")
def test_importance_by_batch_size(submission: Submission, draw: Draw) -> None:
    model, whole = draw.bert(2, 4), draw.texts(7, 5)

    def batches(order: Tensor, sizes: list[int]) -> list[Batch]:
        parts = {name: value[order].split(sizes) for name, value in whole.items()}
        return [{name: part[i] for name, part in parts.items()} for i in range(len(sizes))]

    for sizes in ([5, 2], [2, 2, 3]):
        mine = batches(draw.permutation(7), sizes)
        expect_importance(
            submission,
            model,
            mine,
            f"for 7 samples in batches of {' and '.join(map(str, sizes))}",
            True,
        )


@question("7.3", points=0.5, claim="without dropout, and afterwards in the mode it was in")
def test_importance_and_modes(submission: Submission, draw: Draw) -> None:
    model, batches = draw.bert(2, 4), [draw.texts(3, 5)]
    right = reference.head_importance(model, batches, sample_losses)
    for training in (True, False):
        model.train(training)
        there = submission.put(model)
        when = f"for a model in {'training' if training else 'evaluation'} mode"
        value, _ = importance(submission, there, batches, when)
        expect_close(as_importance(value, model), right, f"{when}, the importance", tolerance=1e-4)
        now = submission.get(there)
        modes(wire.describe(model).layer, now.layer, f"{when}, afterwards")


# --- 7.4 ablate_each, all_but_one -----------------------------------------------------


class Evaluate:
    """An evaluation of gates that does not add up head by head; notes what it was
    asked.
    """

    def __init__(
        self, draw: Draw, layers: int, heads: int, base: float = 0.0, name: str = "evaluate"
    ) -> None:
        n = layers * heads
        self.shape, self.base, self.name = (layers, heads), base, name
        self.single = draw.normal(n, dtype=torch.float64)
        self.pairs = draw.normal(n, n, dtype=torch.float64)
        self.asked: list[Tensor] = []

    def score(self, xi: Tensor) -> float:
        x = xi.double().flatten()
        return self.base + float(x @ self.single + x @ self.pairs @ x)

    def __call__(self, xi: Any) -> float:
        if not isinstance(xi, Tensor) or xi.shape != self.shape:
            got = tuple(xi.shape) if isinstance(xi, Tensor) else describe(xi)
            raise ValueError(
                f"{self.name}(xi) takes gates (layers, heads) = {self.shape}, got {got}"
            )
        if not bool(((xi == 0) | (xi == 1)).all()):
            raise ValueError(f"{self.name}(xi) takes gates of zeros and ones, got {describe(xi)}")
        self.asked.append(xi)
        return self.score(xi)

    def table(self, gate: Callable[[int, int], Tensor]) -> Tensor:
        """(layers, heads): the score with the gates that ``gate(layer, head)``
        gives.
        """
        layers, heads = self.shape
        scores = [
            [self.score(gate(layer, head)) for head in range(heads)] for layer in range(layers)
        ]
        return torch.tensor(scores, dtype=torch.float64)


def all_but(layers: int, heads: int, *places: tuple[int, int]) -> Tensor:
    """Gates of 1, but for these places."""
    xi = torch.ones(layers, heads)
    for place in places:
        xi[place] = 0
    return xi


def only(layers: int, heads: int, layer: int, head: int) -> Tensor:
    """Gates of 1, but for the other heads of this layer."""
    xi = torch.ones(layers, heads)
    xi[layer] = 0
    xi[layer, head] = 1
    return xi


def wrong_changes(f: Evaluate, right: Tensor) -> dict[str, Tensor]:
    """What the changes are by mistake."""
    layers, heads = f.shape
    full, none = f.score(torch.ones(layers, heads)), f.score(torch.zeros(layers, heads))
    off = right + full
    places = list(itertools.product(range(layers), range(heads)))
    cumulative = f.table(lambda a, b: all_but(layers, heads, *places[: a * heads + b + 1]))
    within_layer = f.table(lambda a, b: all_but(layers, heads, *((a, h) for h in range(b + 1))))
    before = torch.cat([torch.tensor([full], dtype=torch.float64), off.flatten()[:-1]]).view(
        layers, heads
    )
    alone = f.table(lambda a, b: 1 - all_but(layers, heads, (a, b)))
    stay = "heads that were switched off stay off: each is switched off by itself, with all the others on"
    last = right.clone()
    last[:, -1] = 0
    return {
        stay: cumulative - full,
        stay + " ": within_layer - full,
        "the sign is wrong: the change is what comes out without the head, minus what comes out with all": -right,
        "the changes lost their sign: a head may do harm, too": right.abs(),
        "what came back is the evaluation without the head: subtract the one with all gates at 1": off,
        "each head alone is left on, all others are off: it is the head that is switched off": alone
        - full,
        "each head alone is left on in its layer: it is the head that is switched off": (
            f.table(lambda a, b: only(layers, heads, a, b)) - full
        ),
        "the whole layer was switched off, not the head alone": (
            f.table(lambda a, b: all_but(layers, heads, *((a, h) for h in range(heads)))) - full
        ),
        "the head was switched off in every layer": (
            f.table(lambda a, b: all_but(layers, heads, *((layer, b) for layer in range(layers))))
            - full
        ),
        "it was compared with all gates at 0: all at 1 is the whole model": off - none,
        "the change is a ratio: a difference is asked for": off / full - 1,
        "the change is a ratio: a difference is asked for, without minus with all": off / full,
        "each was compared with the one before, not with all gates at 1": off - before,
        "the last head of each layer was left out": last,
    }


@question("7.4", points=1, claim="each head alone off, minus all on")
def test_ablations(submission: Submission, draw: Draw) -> None:
    expect_changes(submission, draw, *draw.choice([(3, 4), (4, 3)]))


def expect_changes(
    submission: Submission, draw: Draw, layers: int, heads: int, base: float = 5.0, when: str = ""
) -> None:
    f = Evaluate(draw, layers, heads, base)
    thought = "evaluate takes gates (layers, heads), and gives a number"
    value = ask(
        lambda: submission.ablate_each(Proxy(f, "evaluate"), layers, heads),
        f"{when}ablate_each:",
        thought,
    )
    value = expect_tensor(value, shape=(layers, heads), what=f"{when}the changes")
    if not value.is_floating_point():
        fail(
            f"{when}the changes are whole numbers (dtype {str(value.dtype)[6:]}): differences of accuracies have fractions"
        )
    right = f.table(lambda a, b: all_but(layers, heads, (a, b))) - f.score(
        torch.ones(layers, heads)
    )
    expect_right(value, right, lambda: wrong_changes(f, right), "the table of changes", when)


def wrong_pairs(val: Evaluate, test: Evaluate) -> dict[str, list[tuple[int, float]]]:
    """What the pairs are by mistake."""
    layers, heads = val.shape
    ones = torch.ones(layers, heads)
    by_val, by_test = (f.table(lambda a, b: only(layers, heads, a, b)) for f in (val, test))
    out_val, out_test = (f.table(lambda a, b: all_but(layers, heads, (a, b))) for f in (val, test))
    off_val, off_test = (
        f.table(lambda a, b: 1 - all_but(layers, heads, (a, b))) for f in (val, test)
    )
    full_val, full_test = val.score(ones), test.score(ones)

    def pairs(chosen: Tensor, told: Tensor, full: float, sign: int = 1) -> list[tuple[int, float]]:
        return [
            (int(row.argmax()), sign * (float(other[row.argmax()]) - full))
            for row, other in zip(chosen, told, strict=True)
        ]

    kept, stay = ones, []
    for layer in range(layers):
        gates_ = [only(1, heads, 0, head) for head in range(heads)]
        cut = [torch.cat([kept[:layer], row, kept[layer + 1 :]]) for row in gates_]
        best = max(range(heads), key=lambda head, cut=cut: val.score(cut[head]))
        kept = cut[best]
        stay.append((best, test.score(kept) - full_test))
    below = [
        (
            int(row.argmax()) if row.max() > 0 else 0,
            float(other[int(row.argmax()) if row.max() > 0 else 0]) - full_test,
        )
        for row, other in zip(by_val, by_test, strict=True)
    ]
    right = pairs(by_val, by_test, full_test)
    return {
        "the head was chosen on the test data: the best of many on the same data looks better than it is": pairs(
            by_test, by_test, full_test
        ),
        "the change is that on the validation data, on which the head was chosen: report eval_test": pairs(
            by_val, by_val, full_val
        ),
        "eval_test was compared with eval_val of all heads, the validation data: compare like with like": pairs(
            by_val, by_test, full_val
        ),
        "eval_val, of the validation data, was compared with eval_test of all heads: report eval_test": pairs(
            by_val, by_val, full_test
        ),
        "the splits changed places: chosen on test and reported on validation": pairs(
            by_test, by_val, full_val
        ),
        "the sign is wrong: the change is with one head, minus with all heads": pairs(
            by_val, by_test, full_test, -1
        ),
        "what came back is eval_test itself: subtract that with all heads": pairs(
            by_val, by_test, 0.0
        ),
        "the head with the lowest score stays: higher is better": [
            (int(row.argmin()), float(other[row.argmin()]) - full_test)
            for row, other in zip(by_val, by_test, strict=True)
        ],
        "the other layers were switched off, too: they stay whole": pairs(
            off_val, off_test, full_test
        ),
        "the earlier layers stay cut to one head: each layer is tried by itself, the others whole": stay,
        "one head was taken out of the layer: all are, but one": pairs(
            out_val, out_test, full_test
        ),
        "where all scores are below 0, the wrong head was chosen: does your search begin with a best of 0?": below,
        "the heads are counted over all layers: give each its number within its layer": [
            (layer * heads + head, change) for layer, (head, change) in enumerate(right)
        ],
        "the heads are counted from 1: the first is 0, and they count from 0": [
            (head + 1, c) for head, c in right
        ],
        "of equal heads, not the first was chosen": [
            (last, float(other[last]) - full_test)
            for row, other in zip(by_val, by_test, strict=True)
            for last in [int((row == row.max()).nonzero()[-1])]
        ],
    }


def expect_pairs(submission: Submission, val: Evaluate, test: Evaluate, when: str = "") -> None:
    """The student's pairs are right."""
    layers, heads = val.shape
    value = ask(
        lambda: submission.all_but_one(
            Proxy(val, "eval_val"), Proxy(test, "eval_test"), layers, heads
        ),
        f"{when}all_but_one:",
        "Both take gates (layers, heads), and give a number",
    )
    expect_length(value, layers, f"{when}the result", list)
    found = []
    for layer, pair in enumerate(value):
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            fail(f"{when}entry {layer} should be a pair (head, change), it is {describe(pair)}")
        head, change = pair
        if isinstance(head, float) and not isinstance(change, float):
            fail(f"{when}entry {layer} is {describe(pair)}: first the head, then the change")
        found.append(
            (
                expect_int(head, f"{when}the head of layer {layer}"),
                expect_number(change, f"{when}the change of layer {layer}"),
            )
        )
    by_val = val.table(lambda a, b: only(layers, heads, a, b))
    full = test.score(torch.ones(layers, heads))
    right = [
        (best, test.score(only(layers, heads, layer, best)) - full)
        for layer, row in enumerate(by_val)
        for best in [int((row == row.max()).nonzero()[0])]
    ]
    if not same_pairs(found, right):
        for sentence, wrong in wrong_pairs(val, test).items():
            if same_pairs(found, wrong):
                fail(when + sentence)
        for layer, ((head, change), (best, cost)) in enumerate(zip(found, right, strict=True)):
            if head != best:
                fail(
                    f"{when}in layer {layer} head {head} stays: the one with the highest eval_val is {best}"
                )
            expect_close(change, cost, f"{when}the change of layer {layer}", tolerance=1e-4)


def same_pairs(one: list[tuple[int, float]], other: list[tuple[int, float]]) -> bool:
    return all(
        a == b and math.isclose(x, y, rel_tol=1e-4, abs_tol=1e-4)
        for (a, x), (b, y) in zip(one, other, strict=True)
    )


def splits(draw: Draw, layers: int, heads: int, base: float) -> tuple[Evaluate, Evaluate]:
    """Two evaluations that choose different heads in every layer."""
    while True:
        val, test = (
            Evaluate(draw, layers, heads, base, name) for name in ("eval_val", "eval_test")
        )
        tables = [f.table(lambda a, b: only(layers, heads, a, b)) for f in (val, test)]
        best = [table.argmax(1) for table in tables]
        if (
            bool((best[0] != best[1]).all())
            and bool((best[0] != 0).any())
            and len(set(best[0].tolist())) > 1
        ):
            return val, test


@question(
    "7.4",
    points=1,
    claim="in each layer the best single head, chosen on validation, reported on test",
)
def test_all_but_one(submission: Submission, draw: Draw) -> None:
    expect_pairs(submission, *splits(draw, 3, 4, 50.0))


# --- 7.5 choose_heads -----------------------------------------------------------------


def chosen(
    submission: Submission,
    layers: int,
    heads: int,
    count: int,
    rule: str,
    generator: Any,
    least: int | None = None,
) -> Tensor:
    """The student's mask, if it has the form of one, and ``count`` heads went."""
    call = f"choose_heads({layers}, {heads}, {count}, {rule!r}{'' if least is None else f', min_per_layer={least}'}): "
    rest = [] if least is None else [least]
    thought = f"{count} of these heads can be removed so"
    value = ask(
        lambda: submission.choose_heads(layers, heads, count, rule, generator, *rest),
        call[:-2],
        thought,
    )
    if isinstance(value, Tensor) and value.dtype != torch.bool:
        fail(f"{call}the mask holds numbers of dtype {str(value.dtype)[6:]}: kept or not is a bool")
    keep = expect_tensor(value, shape=(layers, heads), dtype=torch.bool, what=f"{call}the mask")
    gone = int((~keep).sum())
    if gone != count and gone == layers * heads - count:
        fail(
            f"{call}{gone} heads went, and {count} stay: is the mask upside down? True means kept, and count is how many are removed"
        )
    if gone != count:
        fail(f"{call}{gone} heads went instead of {count}")
    left = keep.sum(1)
    if least is not None and int(left.min()) < least:
        fail(
            f"{call}layer {int(left.argmin())} is left with {int(left.min())} heads, fewer than min_per_layer"
        )
    return keep


def lost(keep: Tensor) -> list[int]:
    """How many heads each layer lost."""
    return (~keep).sum(1).tolist()


def layers_in_order(layers: int, rule: str) -> list[int]:
    """Which layer loses its heads first, second, …"""
    middle = (layers - 1) / 2
    ways = {
        "top": list(range(layers))[::-1],
        "bottom": list(range(layers)),
        "middle": sorted(range(layers), key=lambda layer: (abs(layer - middle), layer)),
    }
    return ways[rule]


def filled(order: list[int], count: int, most: int) -> list[int]:
    """How many heads each layer loses, if layers lose ``most`` in this order until
    ``count`` are gone.
    """
    result = [0] * len(order)
    for layer in order:
        result[layer] = min(most, count)
        count -= result[layer]
    return result


def expect_by_layers(
    submission: Submission,
    layers: int,
    heads: int,
    count: int,
    rule: str,
    generator: Any,
    least: int | None = None,
) -> Tensor:
    """The rule takes whole layers, in its order."""
    keep = chosen(submission, layers, heads, count, rule, generator, least)
    call = f"choose_heads({layers}, {heads}, {count}, {rule!r}{'' if least is None else f', min_per_layer={least}'}): "
    most = heads - (least or 0)
    got, order = lost(keep), layers_in_order(layers, rule)
    right = filled(order, count, most)
    if got == right:
        return keep
    said = f"the layers lost {got} heads, from the first to the last"
    first = order[0]
    if rule in ("top", "bottom") and got == filled(order[::-1], count, most):
        which = (
            "the last layer, the one next to the output," if rule == "top" else "the first layer"
        )
        fail(f"{call}{said}: that is the wrong end. {rule!r} begins with {which} layer {first}")
    if rule == "middle":
        later = sorted(range(layers), key=lambda layer: (abs(layer - (layers - 1) / 2), -layer))
        if got == filled(later, count, most):
            fail(f"{call}{said}: of two layers equally near the middle, the earlier one goes first")
        if sorted(got) == sorted(right):
            fail(f"{call}{said}: from the middle outwards, the middle of layers 0 to {layers - 1} is {(layers - 1) / 2:g}, and the "
                 f"order is {order}")  # fmt: skip
    fail(
        f"{call}{said}: a layer loses all it may lose ({most}) before the next one loses any, in the order {order}"
    )


@question(
    "7.5", points=0.5, claim='"random": exactly count heads go, anywhere, and min_per_layer stay'
)
def test_random_heads(submission: Submission, draw: Draw) -> None:
    generator = submission.helper("generator", seed=draw.seed)
    layers, heads, count = 4, 5, draw.integer(6, 9)
    masks = torch.stack(
        [chosen(submission, layers, heads, count, "random", generator) for _ in range(40)]
    )
    first = masks[0]
    if bool((masks == first).all()):
        fail(
            "40 calls with the same generator removed the same heads: draw from the generator as it is, and do not seed one anew"
        )
    if bool(masks.all(0).any()) or bool((~masks).all(0).any()):
        fail(
            "in 40 random choices some heads went never, or always: any head may go, anywhere in the model"
        )
    of_layers = torch.stack([torch.tensor(lost(m)) for m in masks])
    if int((of_layers.amax(1) - of_layers.amin(1)).max()) <= 1:
        fail(
            "each layer always lost its share, the same number: at random, one layer may lose more than another, anywhere"
        )
    whole = [sorted(n for n in row if n not in (0, heads)) for row in of_layers.tolist()]
    if all(len(part) <= 1 for part in whole):
        fail("whole layers went: at random any head may go, anywhere")
    for _ in range(8):
        chosen(submission, layers, heads, layers * (heads - 2) - 1, "random", generator, 2)


@question(
    "7.5",
    points=0.5,
    claim='"top", "bottom", "middle": layer by layer, from there; ValueError if too many',
)
def test_heads_by_place(submission: Submission, draw: Draw) -> None:
    generator = submission.helper("generator", seed=draw.seed)
    heads = draw.integer(4, 5)
    for rule in ("top", "bottom", "middle"):
        for layers, full in ((5, 2), (6, 3), (4, 1)):
            expect_by_layers(submission, layers, heads, full * heads + 2, rule, generator)
    for rule in ("top", "bottom", "middle"):
        expect_by_layers(submission, 4, heads, 0, rule, generator)
        expect_by_layers(submission, 4, heads, 4 * heads, rule, generator)
    for rule, count, why in (
        ("top", 4 * heads + 1, f"{4 * heads + 1} heads of {4 * heads}"),
        ("left", 2, 'the rule "left"'),
    ):
        expect_raises(
            ValueError,
            functools.partial(submission.choose_heads, 4, heads, count, rule, generator),
            f"{rule}: {why}",
        )


# --- 7.6 slice_heads ------------------------------------------------------------------

NAMES = ("q", "k", "v", "out")


def linears(
    draw: Draw, heads: int, d: int, widths: tuple[int, int, int, int], biases: tuple[bool, ...] = (True,) * 4,
    dtype: torch.dtype = torch.float32,
) -> list[nn.Linear]:  # fmt: skip
    """q, k, v of these input widths, and out of this output width."""
    made = []
    for i, (width, bias) in enumerate(zip(widths, biases, strict=True)):
        sizes = (heads * d, width) if i == 3 else (width, heads * d)
        layer = torch.nn.utils.skip_init(nn.Linear, *sizes, bias=bias, dtype=dtype)
        with torch.no_grad():
            for p in layer.parameters():
                p.copy_(draw.normal(*p.shape, dtype=dtype))
        made.append(layer)
    return made


def of_heads(keep: Sequence[int], d: int) -> Tensor:
    """The features of these heads."""
    return torch.tensor([h * d + i for h in keep for i in range(d)], dtype=torch.int64)


def wrong_features(name: str, keep: list[int], heads: int, d: int) -> dict[str, Tensor]:
    """Which features are taken by mistake."""
    gone = [h for h in range(heads) if h not in keep]
    return {
        "the heads that keep names were removed: they are those that stay": of_heads(gone, d),
        "the first heads stayed, as many as keep names: keep says which": of_heads(
            range(len(keep)), d
        ),
        "the heads that stay are in another order than in keep": of_heads(keep[::-1], d),
        "the features were dealt out to the heads in turn: those of a head lie side by side, h·d to (h+1)·d": (
            torch.arange(heads * d)
            .view(d, heads)
            .T[torch.tensor(keep, dtype=torch.int64)]
            .flatten()
        ),
        "the numbers in keep were taken for features: a head has head_dim features, h·d to (h+1)·d": torch.tensor(
            keep, dtype=torch.int64
        ),
    }


def as_linear(value: Any, what: str) -> wire.Model:
    """The value, if it is a linear layer with a weight."""
    if not isinstance(value, wire.Model) or value.layer.type != "Linear":
        fail(f"{what} should be an nn.Linear, it is {describe(value)}")
    if not isinstance(value.state.get("weight"), Tensor):
        fail(f"{what} has no weight in its state_dict(): set it as an nn.Parameter")
    return value


def expect_sliced(
    submission: Submission, given: list[nn.Linear], keep: list[int], d: int, when: str = ""
) -> None:
    """The student's four layers are right; else the mistake that they show."""
    heads = given[0].out_features // d
    when = f"{when}for {heads} heads of head_dim {d} and keep = {keep}, "
    thought = "Head h owns features h·d to (h+1)·d: rows of q, k and v, columns of out"
    none = "None of the heads may stay: the layers then have 0 features. " if not keep else ""
    value = ask(lambda: submission.slice_heads(*given, keep, d), when[:-2], none + thought)
    expect_length(value, 4, f"{when}the result (a tuple of four layers)")
    made = [
        as_linear(part, f"{when}the new {name}") for part, name in zip(value, NAMES, strict=True)
    ]
    features = of_heads(keep, d)
    right = [
        layer.weight.detach()[:, features] if name == "out" else layer.weight.detach()[features]
        for layer, name in zip(given, NAMES, strict=True)
    ]
    mine = [part.state["weight"] for part in made]
    if keep and any(not near(a, b) for a, b in zip(mine, right, strict=True)):
        ways = [
            p
            for p in itertools.permutations(range(4))
            if all(near(mine[i], right[j]) for i, j in enumerate(p))
        ]
        if ways:
            fail(
                f"{when}the layers are right, but the order is {', '.join(NAMES[j] for j in ways[0])}: it should be q, k, v, out"
            )
    for part, layer, name, weight in zip(made, given, NAMES, right, strict=True):
        expect_linear(part, layer, name, weight, keep, d, when)


def expect_linear(
    part: wire.Model, layer: nn.Linear, name: str, right: Tensor, keep: list[int], d: int, when: str
) -> None:
    """One new layer is right."""
    heads = (layer.in_features if name == "out" else layer.out_features) // d
    weight, mine = layer.weight.detach(), part.state["weight"]
    features = of_heads(keep, d)
    if not near(mine, right):
        width = weight.shape[0 if name == "out" else 1]
        wrong: dict[str, Tensor] = {}
        if near(mine, weight) or mine.shape == weight.shape:
            wrong["the weight is that of all heads: nothing was taken out"] = weight
            zeroed = weight.clone()
            gone = of_heads([h for h in range(heads) if h not in keep], d)
            zeroed[(slice(None), gone) if name == "out" else gone] = 0
            wrong[
                "the other heads' weights were set to 0: they are to be removed for good, and the layer smaller"
            ] = zeroed
        if width == heads * d:
            turned = weight[features] if name == "out" else weight[:, features]
            wrong[
                "rows were taken: out reads the heads, so a head owns columns of its weight (out, in)"
                if name == "out"
                else "columns were taken: q, k and v make the heads, so a head owns rows of their weight (out, in)"
            ] = turned
        for sentence, taken in wrong_features(name, keep, heads, d).items():
            wrong[sentence] = weight[:, taken] if name == "out" else weight[taken]
        recognise(mine, right, wrong, f"{when}the new {name}: ")
        expect_close(mine, right, f"{when}the weight of the new {name}")
    bias = part.state.get("bias")
    if layer.bias is None:
        if bias is not None:
            fail(f"{when}the new {name} has a bias, where {name} has none")
    elif bias is None:
        whose = (
            "the bias of out belongs to no head, and stays" if name == "out" else f"{name} has one"
        )
        fail(f"{when}the new {name} has no bias: {whose}")
    else:
        b = layer.bias.detach()
        expected = b if name == "out" else b[features]
        if name == "out" and not near(bias, expected):
            fail(
                f"{when}the bias of out is not what it was: it belongs to no head, and stays whole, as it is"
            )
        if not near(bias, expected):
            wrong = {
                "it is the whole one: it has a number for each row": b,
                "it is that of the first heads": b[: len(features)],
            }
            recognise(bias, expected, wrong, f"{when}the bias of the new {name}: ")
            expect_close(bias, expected, f"{when}the bias of the new {name}")
    if mine.dtype != weight.dtype:
        fail(
            f"{when}the weight of the new {name} is of dtype {str(mine.dtype)[6:]}, that of {name} {str(weight.dtype)[6:]}"
        )
    for key, n in (("out_features", mine.shape[0]), ("in_features", mine.shape[1])):
        if part.layer.settings.get(key) != n:
            fail(
                f"{when}{key} of the new {name} says {part.layer.settings.get(key)}, but it has {n} now: printing, counting and "
                "copying go by that number"
            )


def some_heads(draw: Draw, heads: int) -> list[int]:
    """Two or more heads of at least four, not the first ones, rising."""
    return sorted({*draw.distinct(2, 1, heads - 1), heads - 1})[-2:]


@question("7.6", points=1, claim="the rows of q, k and v and the columns of out of the heads kept")
def test_slices(submission: Submission, draw: Draw) -> None:
    for heads, d in ((4, 3), (5, 2)):
        given = linears(draw, heads, d, (heads * d,) * 4)
        expect_sliced(submission, given, some_heads(draw, heads), d)


@question(
    "7.6", points=0.5, claim="biases: sliced in q, k and v, whole in out; none where there was none"
)
def test_slices_of_biases(submission: Submission, draw: Draw) -> None:
    heads, d = 4, 2
    keep = some_heads(draw, heads)
    for biases in ((False,) * 4, (True, False, True, False), (False, False, False, True)):
        expect_sliced(
            submission,
            linears(draw, heads, d, (8, 8, 8, 5), biases),
            keep,
            d,
            "where not all have a bias, ",
        )


@question(
    "7.6", points=0.5, claim="attention with them equals gates at 0; what was given stays as it was"
)
def test_slices_compute_the_same(submission: Submission, draw: Draw) -> None:
    heads, d, E = 4, 3, 12
    given, keep = linears(draw, heads, d, (E,) * 4), some_heads(draw, heads)
    there = [submission.put(layer) for layer in given]
    kept = submission.call("slice_heads", *there, keep, d, keep=True)
    parts = [submission.call("__getitem__", i, on=kept, keep=True) for i in range(4)]
    x = draw.normal(2, 5, E)

    def attend(q: Tensor, k: Tensor, v: Tensor, count: int) -> Tensor:
        q, k, v = (t.unflatten(2, (count, d)).transpose(1, 2) for t in (q, k, v))
        return F.scaled_dot_product_attention(q, k, v).transpose(1, 2)  # (B, L, count, d)

    with torch.no_grad():
        gate = torch.zeros(heads)
        gate[keep] = 1
        right = given[3](
            (attend(*(layer(x) for layer in given[:3]), heads) * gate[:, None]).flatten(2)
        )

        def output(part: Ref, given: Tensor, name: str) -> Any:
            when = f"when the new {name} was given {tuple(given.shape)} (keep = {keep} of {heads} heads of {d} features),"
            thought = "q, k and v read x and give the features of the heads kept; out reads those and gives E"
            return ask(lambda: submission.call("__call__", given, on=part), when, thought)

        made = [
            expect_tensor(
                output(part, x, name),
                shape=(2, 5, len(keep) * d),
                what=f"what the new {name} makes of x {tuple(x.shape)}",
            )
            for part, name in zip(parts[:3], NAMES, strict=False)
        ]
        value = output(parts[3], attend(*made, len(keep)).flatten(2), "out")
    expect_close(value, right, "the output of attention with the new layers", tolerance=1e-4)
    for layer, ref, name in zip(given, there, NAMES, strict=True):
        untouched(
            layer,
            submission.get(ref),
            f"your function changed {name}, which it was given: work on a copy",
        )
    for part in parts:
        for tensor in ("weight", "bias"):
            submission.call(f"{tensor}.data.fill_", 7.0, on=part)
    for layer, ref, name in zip(given, there, NAMES, strict=True):
        untouched(layer, submission.get(ref), f"the new {name} shares memory with the old one: what one learns, the other "
                  "would. Copy what stays")  # fmt: skip


def untouched(layer: nn.Linear, now: Any, said: str) -> None:
    """The layer is as it was given."""
    was = wire.describe(layer)
    if (
        not isinstance(now, wire.Model)
        or now.layer != was.layer
        or now.state.keys() != was.state.keys()
    ):
        fail(said)
    if any(
        now.state[name].shape != value.shape or bool((now.state[name] != value).any())
        for name, value in was.state.items()
    ):
        fail(said)


@question(
    "7.6",
    points=0.5,
    claim="arguments: a keep that does not rise, or names no head, raises ValueError",
)
def test_slices_of_bad_heads(submission: Submission, draw: Draw) -> None:
    given = linears(draw, 4, 2, (8,) * 4)
    expect_sliced(submission, given, [1, 3], 2)
    for keep, why in (
        ([2, 1], "falls"),
        ([1, 1], "names a head twice"),
        ([0, 2, 2, 3], "names a head twice"),
        ([3, 4], "names a head that is not there"),
        ([-1, 2], "counts from behind"),
        ([9], "names a head that is not there"),
    ):
        expect_raises(
            ValueError,
            functools.partial(submission.slice_heads, *given, keep, 2),
            f"keep = {keep}, which {why},",
        )


# --- 7.7 two short answers ------------------------------------------------------------


@question(
    "7.7",
    points=0,
    claim="a is one of the letters, b an accuracy in % (which ones are right is looked at when they are handed in)",
)
def test_form_of_the_answers(submission: Submission, draw: Draw) -> None:
    expect_choice(submission, "answer_7_7a", 4, {})
    expect_typed(submission, "answer_7_7b", (1, 100), "no accuracy in %: between 1 and 100")


# --- 7.8 find_bug ---------------------------------------------------------------------

PROMISE = "7.1 promises of x (B, L, E), weights (E, E) and a number of heads that divides E"


def by_loops(x: Tensor, Wq: Tensor, Wk: Tensor, Wv: Tensor, Wo: Tensor, heads: int) -> Tensor:
    """A right version that goes through heads and samples, and relies on its
    arguments.
    """
    d, parts = x.shape[-1] // heads, x.new_zeros(heads, *x.shape)
    for h in range(heads):
        mine = slice(h * d, (h + 1) * d)
        for b, y in enumerate(x):
            scores = (y @ Wq[mine].T) @ (y @ Wk[mine].T).T / math.sqrt(d)
            parts[h, b] = torch.softmax(scores, 1) @ (y @ Wv[mine].T) @ Wo[:, mine].T
    return parts


def wrong_version(said: str) -> Version:
    """The version that makes the mistake which :func:`wrong_parts` tells by these
    words.
    """

    def version(x: Tensor, Wq: Tensor, Wk: Tensor, Wv: Tensor, Wo: Tensor, heads: int) -> Tensor:
        if heads < 1 or x.shape[-1] % heads:
            raise ValueError(f"{x.shape[-1]} features cannot be shared out among {heads} heads")
        return next(
            part
            for sentence, part in wrong_parts(x, Wq, Wk, Wv, Wo, heads).items()
            if said in sentence
        )

    return version


@question("7.8", points=0.5, claim="two plain bugs are found, and nothing right is accused")
def test_hunt_plain_bugs(submission: Submission, draw: Draw) -> None:
    expect_verdicts(
        submission,
        draw,
        "attention_as_sum",
        right={"the library's": reference.attention_as_sum, "one that loops": by_loops},
        wrong={
            "divides the scores by √E": wrong_version("divided by √E"),
            "sends a head through its rows of Wo": wrong_version("its rows of Wo"),
        },
        promise=PROMISE,
    )
