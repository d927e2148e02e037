"""Lab 07, attention heads: the claims about each answer, and its likely mistakes, each
written once as a wrong function.

Every grading draws new inputs, in which the usual mistakes and the right answer give
different results: a small BERT with dropout whose heads all matter, and unequally; sizes
that differ (and some that are all equal, where an axis could be confused without an
error); evaluations and scores that do not add up head by head.
"""

from __future__ import annotations

import copy
import functools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
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
from course_lib.grading.claims.hunt import expect_verdicts
from course_lib.grading.claims.mistakes import apply_each
from course_lib.grading.claims.typed import expect_choice
from course_lib.labs import lab07 as reference
from course_lib.student_code import plain_data
from course_lib.student_code.helpers import sample_losses
from course_lib.student_code.plain_data import Ref

Batch = dict[str, Tensor]
Function = Callable[..., Any]
# a sentence for the student -> a function that makes this mistake
Wrong = dict[str, Function]
WRONG: dict[str, Wrong] = {}  # by graded name


# --- recognising a mistake by its result ----------------------------------------------

near = functools.partial(known.near, tolerance=1e-4, least=1e-3)
recognise = functools.partial(known.recognise, equal=near)


def expect_right(
    value: Tensor, right: Tensor, mistakes: Callable[[], known.Mistakes], what: str, when: str
) -> None:
    """The value is right; else the mistake whose result it is, or where it is wrong."""
    if not near(value, right):
        recognise(value, right, mistakes(), when)
        expect_close(value, right, f"{when}{what}", tolerance=1e-4)


# --- 7.1 attention_as_sum -------------------------------------------------------------

SHAPES = "A head has d = E / heads features. A weight has shape (out, in), so x @ W[rows].T computes the features of these rows"


def attention_case(
    draw: Draw, B: int, L: int, E: int, dtype: torch.dtype = torch.float32
) -> list[Tensor]:
    """x, Wq, Wk, Wv, Wo."""
    weights = (draw.normal(E, E, scale=E**-0.5 * 1.5, dtype=dtype) for _ in range(4))
    return [draw.normal(B, L, E, dtype=dtype), *weights]


def attention(
    split: Callable[[Tensor, int], Tensor] = lambda p, M: p.unflatten(2, (M, -1)).permute(2, 0, 1, 3),
    weights: Callable[[Tensor, Tensor], Tensor] = lambda q, k: softmax(q, k, q.shape[-1] ** 0.5),
    summed: Callable[[Tensor, Tensor, Tensor], Tensor] = lambda k, v, y: v,
    columns: Callable[[Tensor, int], Tensor] = lambda W, M: W.unflatten(1, (M, -1)).permute(1, 2, 0),
) -> Function:  # fmt: skip
    """A version of attention_as_sum of which one step may be wrong.

    Args:
        split: (B, L, E), heads -> (M, B, L, d). weights: q, k -> (M, B, L, L). summed:
            of k, v and x by head, what the weights add up. columns: Wo, heads -> (M, d, E).
    """

    def version(x: Tensor, Wq: Tensor, Wk: Tensor, Wv: Tensor, Wo: Tensor, heads: int) -> Tensor:
        q, k, v = (split(x @ W.T, heads) for W in (Wq, Wk, Wv))
        return weights(q, k) @ summed(k, v, split(x, heads)) @ columns(Wo, heads)[:, None]

    return version


def softmax(q: Tensor, k: Tensor, divisor: float, dim: int = -1) -> Tensor:
    return torch.softmax(q @ k.mT / divisor, dim)


def scaled(divisor: Callable[[int, int], float], dim: int = -1) -> Function:
    """With scores divided by another number, of how many heads there are and of d."""
    return attention(weights=lambda q, k: softmax(q, k, divisor(q.shape[0], q.shape[-1]), dim))


right_parts = attention()


def altered(change: Callable[[Tensor], Tensor]) -> Function:
    """The right version, with a change to its result."""
    return lambda *given: change(right_parts(*given))


BY_E = "the scores were divided by √E: each head multiplies vectors of d = E / heads numbers, so divide by √d"
OVER_QUERIES = (
    "the softmax was taken over the queries: for each query, take it over the keys, the last axis"
)
TIMES_W = (
    "the projections were computed as x @ W: torch stores a weight as (out, in), so use x @ W.T"
)
ROWS_OF_WO = "each head was multiplied by its rows of Wo: the heads are the input of Wo, so a head owns columns of Wo"
IN_TURN = (
    "each head got every heads-th feature: head h owns the adjacent rows h·d to (h+1)·d, so use view(B, L, heads, d), "
    "not view(B, L, d, heads)"
)
SWAPPED = "queries and keys were exchanged: row i of the scores belongs to query i"
ALL_ALIKE = "the parts are the same for all heads: entry h must be the part that head h alone adds"
MIXED = "alone mixes positions and heads: use view(B, L, heads, d), then move the axis of the heads to the front"
WRONG["attention_as_sum"] = {
    BY_E: scaled(lambda M, d: (M * d) ** 0.5),
    "the scores were divided by d: divide by √d": scaled(lambda M, d: d),
    "the scores were not divided by √d": scaled(lambda M, d: 1),
    OVER_QUERIES: scaled(lambda M, d: d**0.5, dim=-2),
    "the softmax is missing": attention(weights=lambda q, k: q @ k.mT / q.shape[-1] ** 0.5),
    TIMES_W: lambda x, Wq, Wk, Wv, Wo, heads: right_parts(x, Wq.T, Wk.T, Wv.T, Wo, heads),
    ROWS_OF_WO: attention(columns=lambda W, M: W.unflatten(0, (M, -1))),
    "each head got every heads-th column of Wo: head h owns the adjacent columns h·d to (h+1)·d": (
        attention(columns=lambda W, M: W.unflatten(1, (-1, M)).permute(2, 1, 0))
    ),
    IN_TURN: attention(split=lambda p, M: p.unflatten(2, (-1, M)).permute(3, 0, 1, 2)),
    f".view(B, heads, L, d) {MIXED}": (
        attention(split=lambda p, M: p.contiguous().view(len(p), M, p.shape[1], -1).transpose(0, 1))
    ),
    SWAPPED: attention(weights=lambda q, k: softmax(k, q, q.shape[-1] ** 0.5)),
    ALL_ALIKE: altered(lambda parts: parts.mean(0).expand_as(parts)),
    "every part is the whole output: entry h must be the part that head h alone adds": altered(lambda parts: parts.sum(0).expand_as(parts)),
    "the parts were divided by the number of heads: the output is the sum of the parts, not their mean": altered(lambda parts: parts / len(parts)),
    "Wo is missing: multiply each head's output by its columns of Wo": (
        lambda x, Wq, Wk, Wv, Wo, heads: right_parts(x, Wq, Wk, Wv, torch.eye(len(Wo), dtype=x.dtype), heads)
    ),
    "the keys were summed instead of the values: use Wv": attention(summed=lambda k, v, y: k),
}  # fmt: skip


def as_parts(value: Any, x: Tensor, heads: int) -> Tensor:
    """The value, if it has the form of the parts."""
    B, L, E = x.shape
    shape = (heads, B, L, E)
    if isinstance(value, Tensor) and value.shape != shape:
        if value.shape == (B, L, E):
            fail(f"the result is the sum over heads, (B, L, E): return each head's part, {shape}")
        if value.shape == (heads, B, L, E // heads):
            fail("the parts have d features: multiply each head by its columns of Wo, to get E")
        if sorted(value.shape) == sorted(shape):
            fail(f"the result is {tuple(value.shape)}: the heads must be the first axis, {shape}")
    return expect_tensor(value, shape=shape, dtype=x.dtype)


def parts_of(submission: Submission, given: list[Tensor], heads: int) -> Tensor:
    """The student's parts, if they have the form."""
    called = f"for x {tuple(given[0].shape)} and {heads} heads,"
    value = ask(lambda: submission.attention_as_sum(*given, heads), called, SHAPES)
    return as_parts(value, given[0], heads)


def expect_parts(submission: Submission, given: list[Tensor], heads: int, when: str = "") -> None:
    """The student's parts are right."""
    parts = parts_of(submission, given, heads)
    right = reference.attention_as_sum(*given, heads)
    mistakes = functools.partial(apply_each, WRONG["attention_as_sum"], *given, heads)
    expect_right(parts, right, mistakes, "the result", when)


@question("7.1", points=1, claim="the sum over the heads is nn.MultiheadAttention")
def test_the_sum_is_attention(submission: Submission, draw: Draw) -> None:
    heads = draw.choice([3, 6])
    given = attention_case(draw, 2, 5, 12)
    x, *weights = given
    layer = nn.MultiheadAttention(12, heads, bias=False, batch_first=True)
    layer.load_state_dict({"in_proj_weight": torch.cat(weights[:3]), "out_proj.weight": weights[3]})
    parts = parts_of(submission, given, heads)
    with torch.no_grad():
        whole, _ = layer(x, x, x)
    if not near(parts.sum(0), whole):
        mistakes = apply_each(WRONG["attention_as_sum"], *given, heads)
        recognise(parts.sum(0), whole, {said: part.sum(0) for said, part in mistakes.items()})
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
        call = functools.partial(submission.attention_as_sum, *given, heads)
        expect_raises(ValueError, call, f"{heads} heads of 6 features, which cannot be divided so,")


# --- a model, here and there ----------------------------------------------------------


def inputs(batch: Batch) -> Batch:
    """The arguments of a call of the model."""
    return {name: batch[name] for name in ("input_ids", "attention_mask")}


def spread(gate: Tensor) -> Tensor:
    """(heads,) or (B, heads) -> a factor that broadcasts to (B, L, heads, d)."""
    return gate[..., None] if gate.ndim == 1 else gate[:, None, :, None]


def by_head(x: Tensor, gate: Tensor) -> Tensor:
    """(B, L, heads · d) with every head multiplied by its gate."""
    return (x.unflatten(-1, (gate.shape[-1], -1)) * spread(gate)).flatten(-2)


Change = Callable[[Tensor, Tensor], Tensor]  # (x, the layer's gate) -> the changed x


def gating(
    gates: Callable[[Tensor], Any] = lambda xi: xi,
    change: Change = by_head,
    behind: bool = False,
) -> Function:
    """A version of gated.

    Args:
        gates: of each layer, of ξ. change: of what goes into the output projection, or comes
            from ``behind`` it.
    """

    @contextmanager
    def version(model: Any, xi: Tensor) -> Iterator[None]:
        with ExitStack() as hooks:
            for layer, gate in zip(model.bert.encoder.layer, gates(xi), strict=True):
                module = layer.attention.output.dense
                if behind:
                    hook = module.register_forward_hook(lambda _, x, y, gate=gate: change(y, gate))
                else:
                    hook = module.register_forward_pre_hook(
                        lambda _, x, gate=gate: (change(x[0], gate), *x[1:])
                    )
                hooks.callback(hook.remove)
            yield

    return version


def logits(model: Any, batch: Batch, xi: Tensor, version: Function | None = None) -> Tensor:
    """The model's logits with these gates."""
    with (version or gating())(model, xi), torch.no_grad():
        return model(**inputs(batch)).logits


# --- 7.2 gated ------------------------------------------------------------------------

WITH = "the number of heads is model.config.num_attention_heads; the input of the output projection is (B, L, heads · d)"


def gates(draw: Draw, *shape: int) -> Tensor:
    """Gates of many sizes, one of them 0."""
    xi = torch.rand(shape, generator=draw.generator) * 1.6 + 0.2
    xi.view(-1)[draw.integer(0, xi.numel() - 1)] = 0
    return xi


def dealt_out(x: Tensor, gate: Tensor) -> Tensor:
    """By mistake: gates for every heads-th feature."""
    heads = gate.shape[-1]
    turned = x.unflatten(-1, (-1, heads)).mT.flatten(-2)
    return by_head(turned, gate).unflatten(-1, (heads, -1)).mT.flatten(-2)


def by_position(x: Tensor, gate: Tensor) -> Tensor:
    """By mistake: the gates of sample b act on position b, if there are as many."""
    each = gate[..., None] if gate.ndim == 1 else gate[:, :, None]
    return (x.unflatten(-1, (gate.shape[-1], -1)) * each).flatten(-2)


OF_GATES: Wrong = {
    "gates that are not 1 changed nothing (transformers 5 ignores head_mask=… without a warning)": gating(torch.ones_like),
    "the gates were applied after the projection, where the heads are added: apply them to its input": gating(behind=True),
    "only the first layer is gated": gating(lambda xi: torch.cat([xi[:1], torch.ones_like(xi[1:])])),
    "every layer has the first layer's gates": gating(lambda xi: xi[:1].expand_as(xi)),
    "every layer has the last layer's gates. A hook defined in a loop reads the loop's variable when it is called": gating(lambda xi: xi[-1:].expand_as(xi)),
    "the order of the layers is wrong: row l of ξ belongs to entry l of output_projections(model)": gating(lambda xi: xi.flip(0)),
    "each gate was applied to every heads-th feature: a head's features are adjacent, (heads, d), not (d, heads)": gating(change=dealt_out),
    "every gate that is not 0 was treated as 1: multiply each head by the value of its gate": gating(lambda xi: (xi != 0).to(xi.dtype)),
}  # fmt: skip
OF_SAMPLES: Wrong = {said: gating(lambda xi, gate=gate: gate(xi) if xi.ndim == 3 else xi) for said, gate in {
    "all samples were gated with the mean of the samples' gates: gate each sample with its own": lambda xi: xi.mean(1),
    "all samples were gated like the first sample: gate each sample with its own": lambda xi: xi[:, 0],
}.items()}  # fmt: skip
OF_POSITIONS: Wrong = {
    "row b of (layers, B, heads) was applied to position b of every text: apply it to sample b": gating(change=by_position)
}  # fmt: skip
WRONG["gated"] = OF_GATES | OF_SAMPLES | OF_POSITIONS


def wrong_logits(model: Any, batch: Batch, xi: Tensor) -> dict[str, Tensor]:
    """The logits that each mistake gives."""
    as_many = xi.ndim == 3 and xi.shape[1] == batch["input_ids"].shape[1]
    wrong = OF_GATES | (OF_SAMPLES if xi.ndim == 3 else {}) | (OF_POSITIONS if as_many else {})
    return {said: logits(model, batch, xi, version) for said, version in wrong.items()}


@contextmanager
def within(submission: Submission, model: Ref, xi: Any) -> Iterator[None]:
    """Inside the student's ``with gated(model, xi):``."""
    context = submission.call("gated", model, xi, keep=True)
    thought = "Keep @contextmanager above gated, and yield once; xi is (layers, heads) or (layers, B, heads)"
    with ExitStack() as stack:
        begin = functools.partial(stack.enter_context, submission.within(context))
        ask(begin, "at the beginning of `with gated(model, xi):`", thought)
        yield


def forward(submission: Submission, model: Ref, batch: Batch, when: str) -> Ref:
    """The output of the student's model on a batch, kept there."""
    call = functools.partial(submission.call, "__call__", on=model, keep=True, **inputs(batch))
    return ask(call, when, f"The gates did not fit the tensor that they multiply: {WITH}")


def expect_logits(
    submission: Submission, model: Any, there: Ref, batch: Batch, xi: Tensor, when: str
) -> None:
    """With these gates, the student's model gives the right output."""
    shape = "(layers, heads)" if xi.ndim == 2 else "(layers, B, heads)"
    said = f"{when}with gates {shape} = {tuple(xi.shape)}, "
    with within(submission, there, xi):
        out = forward(submission, there, batch, f"{said}when the model was called,")
        value = submission.get(out, "logits")
    right = logits(model, batch, xi)
    value = expect_tensor(value, shape=right.shape, what=f"{said}the model's output (its logits)")
    expect_right(value, right, lambda: wrong_logits(model, batch, xi), "the model's output", said)


def expect_as_before(submission: Submission, model: Any, there: Ref, hooks: Ref, when: str) -> None:
    """The student's model is as it was given: weights, modes, no hook, the same output."""
    if submission.get(hooks, "count"):
        fail(f"{when} a hook (or a replaced forward) stays in the model: remove each handle")
    was, now = plain_data.describe(model), submission.get(there)
    if not isinstance(now, plain_data.Model) or now.state.keys() != was.state.keys():
        fail(f"{when} the model has other modules or parameters than before")
    for name, value in was.state.items():
        if not torch.equal(value, now.state[name]):
            fail(f"{when} the weight {name} has changed: multiply activations by the gates")
    modes(was.layer, now.layer, when)
    if model.training:  # dropout makes every output different
        return
    words = {"input_ids": torch.arange(8).view(2, 4), "attention_mask": torch.ones(2, 4).long()}
    out = forward(submission, there, words, f"{when}, when the model was called without gates,")
    said = f"{when} the output of the model is not as before: does the model still apply gates?"
    with torch.no_grad():
        right = model(**words).logits
    expect_close(submission.get(out, "logits"), right, tolerance=1e-4, message=said)


def modes(was: plain_data.Layer, now: plain_data.Layer, when: str) -> None:
    """Every module is in the mode it was in."""
    if was.training != now.training:
        word = {True: "training", False: "evaluation"}
        said = f"was in {word[was.training]} mode, and is now in {word[now.training]} mode"
        fail(f"{when} the mode has changed: the model's {was.type.rpartition('.')[2]} {said}")
    for name, child in was.children.items():
        if name in now.children:
            modes(child, now.children[name], when)


@question("7.2", points=1, claim="each head is multiplied by its gate, in every layer")
def test_gates(submission: Submission, draw: Draw) -> None:
    model, batch = draw.bert(3, 4), draw.texts(2, 6)
    expect_logits(submission, model, submission.put(model), batch, gates(draw, 3, 4), "")


@question("7.2", points=0.5, claim="ξ = 1 changes nothing; afterwards the model is as before")
def test_gates_of_one_and_afterwards(submission: Submission, draw: Draw) -> None:
    model, batch = draw.bert(2, 4), draw.texts(2, 5)
    there = submission.put(model)
    hooks = submission.helper("hooks", model=there)
    expect_logits(submission, model, there, batch, torch.ones(2, 4), "with all gates at 1, ")
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
        fail("your code swallowed an exception raised inside the block: use try and finally")
    expect_as_before(submission, model, there, hooks, "after an exception inside the block")


@question("7.2", points=0.5, claim="(layers, B, heads): gates for each sample")
def test_gates_of_each_sample(submission: Submission, draw: Draw) -> None:
    model, batch = draw.bert(2, 4), draw.texts(3, 5)
    expect_logits(submission, model, submission.put(model), batch, gates(draw, 2, 3, 4), "")


# --- 7.3 head_importance --------------------------------------------------------------


Loss = Callable[[Any, Batch], Tensor]
By = Callable[[Tensor], Tensor]


def sample_gradients(
    model: Any, batches: Iterable[Batch], loss_fn: Loss, at: float = 1.0
) -> list[Tensor]:
    """∂L(x)/∂ξ of every sample, signed: (B, layers, heads) for each batch."""
    layers, heads = len(model.bert.encoder.layer), model.config.num_attention_heads
    result, training = [], model.training
    model.eval()
    for batch in batches:
        xi = torch.full((layers, len(batch["labels"]), heads), at, requires_grad=True)
        with reference.gated(model, xi):
            losses = loss_fn(model, batch)
        result.append(torch.autograd.grad(losses.sum(), xi)[0].transpose(0, 1).double())
    model.train(training)
    return result


def importance_by(change: Callable[[list[Tensor]], Tensor], **gradient: Any) -> Function:
    """A version of head_importance, made of the samples' gradients, batch by batch."""
    return lambda *given: change(sample_gradients(*given, **gradient))


def of_samples(change: By, **gradient: Any) -> Function:
    """The same, of all samples together, (samples, layers, heads)."""
    return importance_by(lambda g: change(torch.cat(g)), **gradient)


def of_each_batch(batch: By, all_batches: Callable[[Tensor, int], Tensor]) -> Function:
    """The same, of a tensor of each batch, stacked, and the number of samples."""
    return importance_by(
        lambda g: all_batches(torch.stack([batch(b) for b in g]), sum(map(len, g)))
    )


OF_BATCH = (
    "the absolute value was taken of the gradient of a whole batch: gradients of opposite signs cancel in it. Use separate "
    "gates for each sample"
)
WRONG["head_importance"] = {
    OF_BATCH: of_each_batch(lambda b: b.sum(0).abs(), lambda sizes, samples: sizes.sum(0) / samples),
    f"{OF_BATCH}. Also, the mean was taken over batches": of_each_batch(lambda b: b.sum(0).abs(), lambda sizes, samples: sizes.mean(0)),
    f"{OF_BATCH}. Also, the loss was a mean over the batch": of_each_batch(lambda b: b.mean(0).abs(), lambda sizes, samples: sizes.mean(0)),
    "the gradient was taken of the mean of the losses, so it is 1/B of each sample's gradient: differentiate the sum of the losses": (
        importance_by(lambda g: torch.cat([b.abs() / len(b) for b in g]).mean(0))
    ),
    "the absolute value is missing: I_h is the mean of absolute values. Without them, gradients of opposite signs cancel": of_samples(lambda g: g.mean(0)),
    "the absolute value was taken of the mean, at the end: take it for each sample, before you sum over samples": (
        of_samples(lambda g: g.mean(0).abs())
    ),
    "the means of all batches have equal weight, so samples of a smaller batch count too much. Divide by the number "
    "of samples once, at the end": of_each_batch(lambda b: b.abs().mean(0), lambda means, samples: means.mean(0)),
    "the sum was divided by the number of batches: divide by the number of samples": (
        of_each_batch(lambda b: b.abs().sum(0), lambda sums, samples: sums.mean(0))
    ),
    "the sum over samples was not divided by the number of samples": of_samples(lambda g: g.abs().sum(0)),
    "the importance was normalised within each layer: return the mean without normalisation": (
        of_samples(lambda g: g.abs().mean(0) / g.abs().mean(0).norm(dim=1, keepdim=True))
    ),
    "the squares were averaged: average the absolute values": of_samples(lambda g: g.square().mean(0)),
    "only the last batch was used: use all batches": importance_by(lambda g: g[-1].abs().mean(0)),
    "the gradient was taken at ξ = 0, where all heads are off: take it at ξ = 1, where the model is unchanged": (
        of_samples(lambda g: g.abs().mean(0), at=0.0)
    ),
}  # fmt: skip


def as_importance(value: Any, model: Any, when: str = "") -> Tensor:
    """The value, if it has the form of importance."""
    shape = (len(model.bert.encoder.layer), model.config.num_attention_heads)
    return expect_tensor(value, shape=shape, what=f"{when}the result")


def importance(submission: Submission, model: Ref, batches: Any, when: str, **how: Any) -> Any:
    """The student's importance."""
    losses = submission.helper("losses")
    thought = "Make the gates of each batch for its own number of samples: batch sizes may differ"
    call = functools.partial(submission.call, "head_importance", model, batches, losses, **how)
    value = ask(call, when, thought)
    log = submission.get(losses, "log")
    if not log:
        fail(f"{when.rstrip(',')}, your code did not call loss_fn")
    if any(entry["dropout"] for entry in log):
        fail(f"{when.rstrip(',')}, loss_fn ran with dropout on: put the model into evaluation mode")
    return value


def expect_importance(
    submission: Submission, model: Any, batches: Sequence[Batch], when: str, training: bool = False
) -> None:
    """The student's importance is right."""
    model.train(training)  # then dropout is on until the student's code turns it off
    there = submission.put(model)
    model.eval()
    value = importance(submission, there, list(batches), when or "for two batches")
    right = reference.head_importance(model, batches, sample_losses)
    found = as_importance(value, model, f"{when} " if when else "")
    wrong = functools.partial(apply_each, WRONG["head_importance"], model, batches, sample_losses)
    expect_right(found, right, wrong, "the importance", f"{when}, " if when else "")


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
        when = f"for 7 samples in batches of {' and '.join(map(str, sizes))}"
        expect_importance(submission, model, batches(draw.permutation(7), sizes), when, True)


@question("7.3", points=0.5, claim="without dropout, and afterwards in the mode it was in")
def test_importance_and_modes(submission: Submission, draw: Draw) -> None:
    model, batches = draw.bert(2, 4), [draw.texts(3, 5)]
    right = reference.head_importance(model, batches, sample_losses)
    for training in (True, False):
        model.train(training)
        there = submission.put(model)
        when = f"for a model in {'training' if training else 'evaluation'} mode"
        value = importance(submission, there, batches, when)
        expect_close(as_importance(value, model), right, f"{when}, the importance", tolerance=1e-4)
        now = submission.get(there)
        modes(plain_data.describe(model).layer, now.layer, f"{when}, afterwards")


# --- 7.4 ablate_each, all_but_one -----------------------------------------------------


class Evaluate:
    """An evaluation of gates that does not add up head by head; logs the gates it got."""

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
            raise ValueError(f"{self.name}(xi) takes gates (layers, heads) {self.shape}, got {got}")
        if not bool(((xi == 0) | (xi == 1)).all()):
            raise ValueError(f"{self.name}(xi) takes gates of zeros and ones, got {describe(xi)}")
        self.asked.append(xi)
        return self.score(xi)


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


Gate = Callable[[int, int], Tensor]  # layer, head -> gates


def table(f: Callable[[Tensor], float], layers: int, heads: int, gate: Gate) -> Tensor:
    """(layers, heads): the score with the gates that ``gate`` gives."""
    scores = [[f(gate(layer, head)) for head in range(heads)] for layer in range(layers)]
    return torch.tensor(scores, dtype=torch.float64)


def off(f: Callable[[Tensor], float], layers: int, heads: int) -> Tensor:
    """Each head off, alone."""
    return table(f, layers, heads, lambda a, b: all_but(layers, heads, (a, b)))


def whole(f: Callable[[Tensor], float], layers: int, heads: int) -> float:
    return f(torch.ones(layers, heads))


def right_changes(f: Callable[[Tensor], float], layers: int, heads: int) -> Tensor:
    return off(f, layers, heads) - whole(f, layers, heads)


def gone(places: Callable[[int, int, int, int], Iterable[tuple[int, int]]]) -> Function:
    """A version of ablate_each that switches other heads off: of layers, heads, the place."""
    return lambda f, layers, heads: (
        table(f, layers, heads, lambda a, b: all_but(layers, heads, *places(layers, heads, a, b)))
        - whole(f, layers, heads)
    )


STAY = (
    "heads that were switched off stay off: switch off one head at a time, with all other heads on"
)
WRONG["ablate_each"] = {
    STAY: gone(lambda layers, heads, a, b: [divmod(i, heads) for i in range(a * heads + b + 1)]),
    "the sign is wrong: the change is the score without the head, minus the score with all heads": (
        lambda *given: -right_changes(*given)
    ),
    "the changes have no sign: keep the sign, since removing a head may also improve the score": lambda *given: right_changes(*given).abs(),
    "this is the score without the head: subtract the score with all gates at 1": off,
    "only the head is on, and all other heads are off: switch off the head, and keep all others on": (
        lambda f, layers, heads: table(f, layers, heads, lambda a, b: 1 - all_but(layers, heads, (a, b))) - whole(f, layers, heads)
    ),
    "only the head is on in its layer: switch off the head, and keep all others on": (
        gone(lambda layers, heads, a, b: [(a, h) for h in range(heads) if h != b])
    ),
    "the head was switched off in every layer: switch it off in its own layer only": gone(lambda layers, heads, a, b: [(layer, b) for layer in range(layers)]),
    "the change is a ratio: return the difference, the score without the head minus the score with all heads": lambda *given: off(*given) / whole(*given),
}  # fmt: skip


@question("7.4", points=1, claim="each head alone off, minus all on")
def test_ablations(submission: Submission, draw: Draw) -> None:
    expect_changes(submission, draw, *draw.choice([(3, 4), (4, 3)]))


def expect_changes(
    submission: Submission, draw: Draw, layers: int, heads: int, base: float = 5.0, when: str = ""
) -> None:
    f = Evaluate(draw, layers, heads, base)
    thought = "evaluate takes gates (layers, heads) and returns a number"
    call = functools.partial(submission.ablate_each, Proxy(f, "evaluate"), layers, heads)
    value = ask(call, f"{when}ablate_each:", thought)
    value = expect_tensor(value, shape=(layers, heads), what=f"{when}the changes")
    if not value.is_floating_point():
        fail(f"{when}the changes are whole numbers ({str(value.dtype)[6:]}): use a float dtype")
    right = right_changes(f.score, layers, heads)
    mistakes = functools.partial(apply_each, WRONG["ablate_each"], f.score, layers, heads)
    expect_right(value, right, mistakes, "the table of changes", when)


Pairs = list[tuple[int, float]]


def pairing(
    by: int = 0,
    reported: int = 1,
    compared: int | None = 1,
    gate: Callable[..., Tensor] = lambda layers, heads, a, b: only(layers, heads, a, b),
    best: Callable[[Tensor], int] = lambda row: int((row == row.max()).nonzero()[0]),
) -> Function:
    """A version of all_but_one.

    Args:
        by, reported, compared: which of the two evaluations chooses, is reported, and gives the
            score of all heads (None: nothing is subtracted). gate: layers, heads and a place
            -> gates. best: of a layer's scores -> head.
    """

    def version(eval_val: Any, eval_test: Any, layers: int, heads: int) -> Pairs:
        both = eval_val, eval_test
        full = 0.0 if compared is None else whole(both[compared], layers, heads)
        scores = table(both[by], layers, heads, functools.partial(gate, layers, heads))
        heads_left = [(layer, best(row)) for layer, row in enumerate(scores)]
        return [(b, both[reported](gate(layers, heads, a, b)) - full) for a, b in heads_left]

    return version


def stays_cut(eval_val: Any, eval_test: Any, layers: int, heads: int) -> Pairs:
    """By mistake: earlier layers keep their one head."""
    kept, result = torch.ones(layers, heads), []
    for layer in range(layers):
        cut = [kept * only(layers, heads, layer, head) for head in range(heads)]
        best = max(range(heads), key=lambda head, cut=cut: eval_val(cut[head]))
        kept = cut[best]
        result.append((best, eval_test(kept) - whole(eval_test, layers, heads)))
    return result


right_pairs = pairing()
WRONG["all_but_one"] = {
    "the head was chosen on the test data, so its test score is too optimistic: choose it by eval_val": pairing(by=1),
    "the change was computed on the validation data, where the head was chosen: compute it by eval_test": pairing(reported=0, compared=0),
    "eval_val of one head was compared with eval_test of all heads: use eval_test for both": pairing(reported=0),
    "the sign is wrong: the change is the score with one head, minus the score with all heads": lambda *given: [(b, -c) for b, c in right_pairs(*given)],
    "this is eval_test itself: subtract eval_test with all heads": pairing(compared=None),
    "the head with the lowest score was kept: keep the head with the highest score": pairing(best=lambda row: int(row.argmin())),
    "the heads of the other layers were switched off, too: keep all of them on": pairing(gate=lambda M, h, a, b: 1 - all_but(M, h, (a, b))),
    "the earlier layers still have only one head: change one layer at a time, with all heads of the other layers on": stays_cut,
    "where all scores are below 0, the wrong head was chosen: does your search start with a best score of 0?": (
        pairing(best=lambda row: int(row.argmax()) if row.max() > 0 else 0)
    ),
    "the heads are numbered from 1: number them from 0": lambda *given: [(b + 1, c) for b, c in right_pairs(*given)],
    "among equally good heads, the first was not chosen: choose the first": pairing(best=lambda row: int((row == row.max()).nonzero()[-1])),
}  # fmt: skip


def expect_pairs(submission: Submission, val: Evaluate, test: Evaluate, when: str = "") -> None:
    """The student's pairs are right."""
    layers, heads = val.shape
    both = Proxy(val, "eval_val"), Proxy(test, "eval_test")
    thought = "eval_val and eval_test take gates (layers, heads) and return a number"
    call = functools.partial(submission.all_but_one, *both, layers, heads)
    value = ask(call, f"{when}all_but_one:", thought)
    expect_length(value, layers, f"{when}the result", list)
    found = []
    for layer, pair in enumerate(value):
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            fail(f"{when}entry {layer} should be a pair (head, change), it is {describe(pair)}")
        head, change = pair
        if isinstance(head, float) and not isinstance(change, float):
            fail(f"{when}entry {layer} is {describe(pair)}: return the head first, then the change")
        head = expect_int(head, f"{when}the head of layer {layer}")
        found.append((head, expect_number(change, f"{when}the change of layer {layer}")))
    right = right_pairs(val.score, test.score, layers, heads)
    if not same_pairs(found, right):
        mistakes = apply_each(WRONG["all_but_one"], val.score, test.score, layers, heads)
        known.recognise(found, right, mistakes, when, equal=same_pairs)
        for layer, ((head, change), (best, cost)) in enumerate(zip(found, right, strict=True)):
            if head != best:
                fail(f"{when}layer {layer} kept head {head}, but head {best} has the best eval_val")
            expect_close(change, cost, f"{when}the change of layer {layer}", tolerance=1e-4)


def same_pairs(one: Pairs, other: Pairs) -> bool:
    return all(
        a == b and math.isclose(x, y, rel_tol=1e-4, abs_tol=1e-4)
        for (a, x), (b, y) in zip(one, other, strict=True)
    )


def splits(draw: Draw, layers: int, heads: int, base: float) -> tuple[Evaluate, Evaluate]:
    """Two evaluations that choose different heads in every layer."""
    gate = functools.partial(only, layers, heads)
    while True:
        val, test = (
            Evaluate(draw, layers, heads, base, f"eval_{name}") for name in ("val", "test")
        )
        scores, others = (table(f.score, layers, heads, gate) for f in (val, test))
        best, lowest, other = scores.argmax(1), scores.argmin(1), others.argmax(1)
        apart = bool((best != other).all()) and len(best.unique()) > 1
        if apart and all(bool(places.any()) for places in (best, lowest, other)):
            return val, test


@question("7.4", points=1, claim="the best head of a layer: chosen on validation, reported on test")
def test_all_but_one(submission: Submission, draw: Draw) -> None:
    expect_pairs(submission, *splits(draw, 3, 4, 50.0))


# --- 7.5 prune_by_importance ----------------------------------------------------------


class Scores:
    """Scores of heads that depend on the heads kept; a pruned head's is far above or far
    below all others. Logs the masks that it was called with.

    Args:
        levels: round the scores to so many values on either side of 0, so that many are
            equal.
    """

    def __init__(self, draw: Draw, layers: int, heads: int, levels: int = 0) -> None:
        n = layers * heads
        self.shape, self.levels = (layers, heads), levels
        self.single, self.pairs = draw.normal(n), draw.normal(n, n)
        self.of_pruned = 1000 * draw.signs(n)
        self.asked: list[Tensor] = []

    def score(self, keep: Tensor) -> Tensor:
        gone = ~keep.flatten()
        scores = self.single + self.pairs @ gone.float()
        if self.levels:
            scores = scores.round().clamp(-self.levels, self.levels)
        return torch.where(gone, self.of_pruned, scores).view(self.shape)

    def __call__(self, keep: Any) -> Tensor:
        if not isinstance(keep, Tensor) or keep.shape != self.shape or keep.dtype != torch.bool:
            raise ValueError(f"importance takes a bool mask {self.shape}, got {describe(keep)}")
        self.asked.append(keep)
        if len(self.asked) > 2 * keep.numel():
            raise ValueError(f"importance was called {len(self.asked)} times: does the loop end?")
        return self.score(keep)


def in_order(scores: Tensor) -> Tensor:
    """The flat positions, lowest score first, of equals the first."""
    return scores.flatten().argsort(stable=True)


def pruning(
    seen: Callable[[Tensor], Tensor] = lambda keep: keep,
    order: Callable[[Tensor, Tensor, int], Tensor] = lambda scores, keep, goes: in_order(scores),
    number: Callable[[int, int], int] = min,
    may: Callable[[Tensor, Tensor, int, int], Any] = lambda now, before, head, least: (
        now[head] and now.sum() > least
    ),
    revived: bool = False,
) -> Function:
    """A version of prune_by_importance of which one thing may be wrong.

    Args:
        seen: the mask that importance gets, of the mask. order: of the scores, the mask and how
            many go -> positions. number: how many go, of step and how many are left to prune.
            may: may a head go? Of its layer's mask now and before the step, the head and
            min_per_layer. revived: every step begins with all heads.
    """

    def version(
        importance: Function, layers: int, heads: int, count: int, step: int, least: int = 0
    ) -> Tensor:
        keep = torch.ones(layers, heads, dtype=torch.bool)
        for done in range(0, count, step):
            scores, goes = importance(seen(keep).clone()), number(step, count - done)
            if revived:
                keep, goes = torch.ones_like(keep), done + goes
            before = keep.clone()
            for i in order(scores, keep, goes).tolist():
                layer, head = divmod(i, heads)
                if goes > 0 and may(keep[layer], before[layer], head, least):
                    keep[layer, head] = False
                    goes -= 1
        return keep

    return version


right_mask = reference.prune_by_importance
OF_STEPS: Wrong = {
    "all steps used the scores of the whole model: in every step, compute the scores with the heads that are left": (
        pruning(seen=torch.ones_like)
    ),
    "the heads with the highest scores were pruned: prune the lowest": pruning(order=lambda scores, keep, goes: in_order(-scores)),
    "heads that were pruned before were pruned again, and counted: the scores of pruned heads mean nothing, so leave them out": (
        pruning(may=lambda now, before, head, least: now.sum() > least)
    ),
    "heads that an earlier step pruned are kept again: a pruned head stays pruned, whatever its score": pruning(revived=True),
    "the scores were computed again after every single head: prune `step` heads before you score again": (
        lambda f, layers, heads, count, step, least=0: right_mask(f, layers, heads, count, 1, least)
    ),
    "each layer lost as many heads as the others, or one more: rank the heads of all layers in one list": (
        pruning(order=lambda scores, keep, goes: in_order(scores.masked_fill(~keep, -torch.inf).argsort(1).argsort(1)))
    ),
    "the mask is upside down: True means kept": lambda *given: ~right_mask(*given),
}  # fmt: skip
OF_THE_LAST: Wrong = {  # where step does not divide count
    "too many heads were pruned: the last step prunes only as many heads as are left to reach count": (
        pruning(number=lambda step, left: step)
    ),
    "too few heads were pruned: where step does not divide count, a last, smaller step is needed": (
        pruning(number=lambda step, left: step if step <= left else 0)
    ),
}
OF_LEAST: Wrong = {  # where layers keep some
    "min_per_layer was ignored: a layer lost more heads than it may": pruning(may=lambda now, before, head, least: now[head]),
    "a layer keeps one head less than min_per_layer: a layer that has only min_per_layer heads loses none": (
        pruning(may=lambda now, before, head, least: now[head] and now.sum() >= least)
    ),
    "min_per_layer was checked before the step, but a step may prune several heads of one layer: check it before each head": (
        pruning(may=lambda now, before, head, least: now[head] and before.sum() > least)
    ),
    "too few heads were pruned: for every head that its layer must keep, the next lowest head is pruned": (
        pruning(order=lambda scores, keep, goes: in_order(scores.masked_fill(~keep, torch.inf))[:goes])
    ),
}  # fmt: skip
OF_TIES: Wrong = {
    "among equal scores, the last head was pruned first: prune the first one in row-major order": (
        pruning(order=lambda scores, keep, goes: scores.numel() - 1 - in_order(scores.flip(0, 1)))
    )
}
WRONG["prune_by_importance"] = OF_STEPS | OF_THE_LAST | OF_LEAST | OF_TIES


def expect_pruned(
    submission: Submission, draw: Draw, layers: int, heads: int, count: int, step: int, least: int = 0, levels: int = 0,
    wrong: Wrong | None = None,
) -> None:  # fmt: skip
    """The student's mask is right, and so are the calls of importance.

    Args:
        wrong: mistakes that give other masks than the right one, and than each other.
    """
    sizes = (layers, heads, count, step, least)

    def case() -> known.Case:
        f = Scores(draw, layers, heads, levels)
        return f, right_mask(f.score, *sizes), apply_each(wrong or {}, f.score, *sizes)

    f, right, mistakes = known.draw_discriminating_case(case)
    right_mask(f, *sizes)
    masks, f.asked = f.asked, []
    when = f"for {layers} layers of {heads} heads, count = {count}, step = {step}"
    when += f", min_per_layer = {least}, " if least else ", "
    value = ask(
        lambda: submission.prune_by_importance(
            Proxy(f, "importance"), layers, heads, count, step, *([least] if least else [])
        ),
        when[:-2],
        "importance takes the mask of the heads that are left, and returns one score per head",
    )
    if isinstance(value, Tensor) and value.dtype != torch.bool:
        fail(f"{when}the mask has dtype {str(value.dtype)[6:]}: it must have dtype bool")
    keep = expect_tensor(value, shape=(layers, heads), what=f"{when}the mask")
    if f.asked and not f.asked[0].any():
        fail(f"{when}the first mask that importance got is all False: True means kept")
    known.recognise(keep, right, mistakes, when)
    if not torch.equal(keep, right):
        gone, fewest = int((~keep).sum()), int(keep.sum(1).min())
        if gone != count:
            fail(f"{when}{gone} heads were pruned instead of {count}")
        if fewest < least:
            fail(f"{when}a layer keeps {fewest} heads, which is fewer than min_per_layer")
        if levels:
            fail(f"{when}where many scores are equal, other heads were pruned: of equal scores, the first in row-major order "
                 "is pruned first. A plain argsort, sort or topk does not guarantee an order among equal values")  # fmt: skip
        fail(f"{when}other heads were pruned: each step prunes the lowest of all that are left")
    if len(f.asked) != len(masks):
        fail(f"{when}importance was called {len(f.asked)} times instead of {len(masks)}: call it once "
             "before each step, not after the last")  # fmt: skip
    for i, (mask, expected) in enumerate(zip(f.asked, masks, strict=True), start=1):
        if not torch.equal(mask, expected):
            fail(f"{when}call {i} of importance got a mask in which {int((~mask).sum())} heads are pruned; before step {i}, "
                 f"{int((~expected).sum())} heads are")  # fmt: skip


@question("7.5", points=1, claim="each step prunes the lowest of the heads that are left")
def test_pruning_in_steps(submission: Submission, draw: Draw) -> None:
    for layers, heads, count, step in ((4, 5, 12, 3), (5, 3, 8, 2)):
        expect_pruned(submission, draw, layers, heads, count, step, wrong=OF_STEPS)


@question("7.5", points=0.5, claim="the last step is smaller; importance is called once per step")
def test_last_step(submission: Submission, draw: Draw) -> None:
    expect_pruned(submission, draw, 5, 4, 11, 4, wrong=OF_STEPS | OF_THE_LAST)
    for count, step in ((5, 7), (6, 6), (3, 1), (0, 2), (12, 5)):
        expect_pruned(submission, draw, 3, 4, count, step)


@question("7.5", points=0.5, claim="min_per_layer: the next lowest head is pruned instead")
def test_heads_that_layers_keep(submission: Submission, draw: Draw) -> None:
    expect_pruned(submission, draw, 4, 5, 12, 4, 2, wrong=OF_STEPS | OF_LEAST)
    expect_pruned(submission, draw, 3, 6, 12, 3, 1)


# --- 7.6 slice_heads ------------------------------------------------------------------

NAMES = ("q", "k", "v", "out")


def linears(
    draw: Draw, heads: int, d: int, widths: tuple[int, int, int, int], biases: tuple[bool, ...] = (True,) * 4,
    dtype: torch.dtype = torch.float32,
) -> list[nn.Linear]:  # fmt: skip
    """q, k, v of these input widths, and out of this output width."""
    layers = []
    for i, (width, bias) in enumerate(zip(widths, biases, strict=True)):
        sizes = (heads * d, width) if i == 3 else (width, heads * d)
        layer = torch.nn.utils.skip_init(nn.Linear, *sizes, bias=bias, dtype=dtype)
        with torch.no_grad():
            for p in layer.parameters():
                p.copy_(draw.normal(*p.shape, dtype=dtype))
        layers.append(layer)
    return layers


def of_heads(keep: Sequence[int], d: int) -> Tensor:
    """The features of these heads."""
    return torch.tensor([h * d + i for h in keep for i in range(d)], dtype=torch.int64)


def slicing(
    features: Callable[[list[int], int, int], Tensor] = lambda keep, heads, d: of_heads(keep, d),
    weight: Callable[[Tensor, Tensor, bool], Tensor] = lambda w, i, out: w[:, i] if out else w[i],
    bias: Callable[[Tensor, Tensor], Tensor] = lambda b, i: b[i],
) -> Function:
    """A version of slice_heads of which one step may be wrong.

    Args:
        features: which stay, of keep, the number of heads and head_dim. weight: what is
            made of a weight and these features, for out or for another. bias: of q, k
            or v, and these features.
    """

    def version(
        q: nn.Linear, k: nn.Linear, v: nn.Linear, out: nn.Linear, keep: list[int], head_dim: int
    ) -> tuple[nn.Linear, ...]:
        some = features(keep, q.out_features // head_dim, head_dim)
        result = []
        for layer in (q, k, v, out):
            smaller = copy.deepcopy(layer)
            smaller.weight = nn.Parameter(weight(layer.weight.detach(), some, layer is out).clone())
            if layer.bias is not None and layer is not out:
                smaller.bias = nn.Parameter(bias(layer.bias.detach(), some).clone())
            smaller.out_features, smaller.in_features = smaller.weight.shape
            result.append(smaller)
        return tuple(result)

    return version


def zeroed(w: Tensor, some: Tensor, out: bool) -> Tensor:
    """By mistake: as large as it was, with zeros for the other features."""
    kept = torch.zeros(w.shape[1 if out else 0], dtype=w.dtype)
    kept[some] = 1
    return w * (kept if out else kept[:, None])


OF_FEATURES: Wrong = {said: slicing(features) for said, features in {
    "the heads in keep were removed: keep them, and remove the other heads": lambda keep, heads, d: of_heads(sorted({*range(heads)} - {*keep}), d),
    "the first len(keep) heads were kept: keep exactly the heads in keep": lambda keep, heads, d: of_heads(range(len(keep)), d),
    "the kept heads are in another order than in keep": lambda keep, heads, d: of_heads(keep[::-1], d),
    "each head got every heads-th feature: the features of a head are adjacent, h·d to (h+1)·d": lambda keep, heads, d: (
        torch.arange(heads * d).view(d, heads).T[torch.tensor(keep, dtype=torch.int64)].flatten()
    ),
    "the numbers in keep were used as features: keep contains heads, and head h has head_dim features, h·d to (h+1)·d": lambda keep, heads, d: (
        torch.tensor(keep, dtype=torch.int64)
    ),
}.items()}  # fmt: skip
OF_WEIGHTS: Wrong = OF_FEATURES | {
    "this is the weight of all heads: remove the features of the heads that are not in keep": slicing(weight=lambda w, i, out: w, bias=lambda b, i: b),
    "the other heads' weights were set to 0: remove them, so that the layer becomes smaller": slicing(
        weight=zeroed, bias=lambda b, i: zeroed(b[:, None], i, False)[:, 0]
    ),
}  # fmt: skip
TURNED: Wrong = {  # where all widths are those of the heads
    "rows were selected: the heads are the input of out, so a head owns columns of its weight (out, in)": slicing(weight=lambda w, i, out: w[i]),
    "columns were selected: the heads are the output of q, k and v, so a head owns rows of their weight (out, in)": slicing(weight=lambda w, i, out: w[:, i]),
}  # fmt: skip
OF_BIASES: Wrong = {
    "this is the bias of all heads: it must have one number for each row that is kept": slicing(
        bias=lambda b, i: b
    ),
    "this is the bias of the first heads: select the bias of the heads in keep": slicing(
        bias=lambda b, i: b[: len(i)]
    ),
}
WRONG["slice_heads"] = OF_WEIGHTS | TURNED | OF_BIASES


def as_linear(value: Any, what: str) -> plain_data.Model:
    """The value, if it is a linear layer with a weight."""
    if not isinstance(value, plain_data.Model) or value.layer.type != "Linear":
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
    thought = thought if keep else "keep may be empty: then the layers have 0 features"
    value = ask(lambda: submission.slice_heads(*given, keep, d), when[:-2], thought)
    expect_length(value, 4, f"{when}the result (a tuple of four layers)")
    parts = [
        as_linear(part, f"{when}the new {name}") for part, name in zip(value, NAMES, strict=True)
    ]
    features = of_heads(keep, d)
    right = [
        layer.weight.detach()[:, features] if name == "out" else layer.weight.detach()[features]
        for layer, name in zip(given, NAMES, strict=True)
    ]
    mine = [part.state["weight"] for part in parts]
    if keep and not near(mine, right) and near([*mine[1:], mine[0]], right):
        fail(f"{when}the layers are right, but their order is out, q, k, v: return q, k, v, out")
    square = all(layer.in_features == layer.out_features for layer in given)
    wrong = apply_each(OF_WEIGHTS | (TURNED if square else {}) | OF_BIASES, *given, keep, d)
    for i, (part, layer, weight) in enumerate(zip(parts, given, right, strict=True)):
        mistakes = {said: layers[i] for said, layers in wrong.items()}
        expect_linear(part, layer, NAMES[i], weight, features, mistakes, when)


def expect_linear(
    part: plain_data.Model, layer: nn.Linear, name: str, right: Tensor, features: Tensor,
    mistakes: dict[str, nn.Linear], when: str,
) -> None:  # fmt: skip
    """One new layer is right; else name the mistake."""
    weight, mine = layer.weight.detach(), part.state["weight"]
    weights = {said: m.weight.detach() for said, m in mistakes.items() if said not in OF_BIASES}
    recognise(mine, right, weights, f"{when}the new {name}: ")
    if not near(mine, right):
        expect_close(mine, right, f"{when}the weight of the new {name}")
    bias = part.state.get("bias")
    if layer.bias is None:
        if bias is not None:
            fail(f"{when}the new {name} has a bias, but {name} has none")
    elif bias is None:
        fail(f"{when}the new {name} has no bias, but {name} has one: keep it")
    else:
        b = layer.bias.detach()
        expected = b if name == "out" else b[features]
        if name == "out" and not near(bias, expected):
            fail(f"{when}the bias of out has changed: it belongs to no head, so keep all of it")
        if not near(bias, expected):
            biases = {said: mistakes[said].bias.detach() for said in OF_BIASES}
            recognise(bias, expected, biases, f"{when}the bias of the new {name}: ")
            expect_close(bias, expected, f"{when}the bias of the new {name}")
    if mine.dtype != weight.dtype:
        fail(f"{when}the new {name} has dtype {mine.dtype}, but {name} has dtype {weight.dtype}")
    for key, n in (("out_features", mine.shape[0]), ("in_features", mine.shape[1])):
        if part.layer.settings.get(key) != n:
            fail(f"{when}{key} of the new {name} is {part.layer.settings.get(key)}: set it to {n}")


def some_heads(draw: Draw, heads: int) -> list[int]:
    """Two or more heads of at least four, not the first ones, rising."""
    return sorted({*draw.distinct(2, 1, heads - 1), heads - 1})[-2:]


@question("7.6", points=1, claim="the rows of q, k and v and the columns of out of the heads kept")
def test_slices(submission: Submission, draw: Draw) -> None:
    for heads, d in ((4, 3), (5, 2)):
        given = linears(draw, heads, d, (heads * d,) * 4)
        expect_sliced(submission, given, some_heads(draw, heads), d)


@question("7.6", points=0.5, claim="biases: of the kept rows in q, k, v; whole in out; or none")
def test_slices_of_biases(submission: Submission, draw: Draw) -> None:
    heads, d = 4, 2
    keep = some_heads(draw, heads)
    for biases in ((False,) * 4, (True, False, True, False), (False, False, False, True)):
        given = linears(draw, heads, d, (8, 8, 8, 5), biases)
        expect_sliced(submission, given, keep, d, "where not all have a bias, ")


@question("7.6", points=0.5, claim="attention equals gates at 0; the given layers do not change")
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
        of_all = attend(*(layer(x) for layer in given[:3]), heads)
        right = given[3]((of_all * gate[:, None]).flatten(2))

        def output(part: Ref, given: Tensor, name: str) -> Any:
            when = f"when the new {name} was given {tuple(given.shape)} (keep = {keep} of {heads} heads of {d} features),"
            thought = "q, k and v take x and return the features of the kept heads; out takes these features and returns E numbers"
            return ask(lambda: submission.call("__call__", given, on=part), when, thought)

        heads_of, shape = [], (2, 5, len(keep) * d)
        for part, name in zip(parts[:3], NAMES, strict=False):
            what = f"the output of the new {name} for x {tuple(x.shape)}"
            heads_of.append(expect_tensor(output(part, x, name), shape=shape, what=what))
        value = output(parts[3], attend(*heads_of, len(keep)).flatten(2), "out")
    expect_close(value, right, "the output of attention with the new layers", tolerance=1e-4)
    for layer, ref, name in zip(given, there, NAMES, strict=True):
        untouched(layer, submission.get(ref), f"your function changed its argument {name}: copy it")
    for part in parts:
        for tensor in ("weight", "bias"):
            submission.call(f"{tensor}.data.fill_", 7.0, on=part)
    for layer, ref, name in zip(given, there, NAMES, strict=True):
        said = f"the new {name} shares memory with the old one: copy the kept weights and biases"
        untouched(layer, submission.get(ref), said)


def untouched(layer: nn.Linear, now: Any, said: str) -> None:
    """The layer is as it was given."""
    was = plain_data.describe(layer)
    same = isinstance(now, plain_data.Model) and now.layer == was.layer
    if not same or not known.same(dict(now.state), dict(was.state)):
        fail(said)


@question("7.6", points=0.5, claim="a keep that does not rise, or names no head: ValueError")
def test_slices_of_bad_heads(submission: Submission, draw: Draw) -> None:
    given = linears(draw, 4, 2, (8,) * 4)
    expect_sliced(submission, given, [1, 3], 2)
    for keep, why in (
        ([2, 1], "is not in rising order"),
        ([1, 1], "contains a head twice"),
        ([3, 4], "contains a head that does not exist"),
        ([-1, 2], "contains a negative number"),
    ):
        call = functools.partial(submission.slice_heads, *given, keep, 2)
        expect_raises(ValueError, call, f"keep = {keep}, which {why},")


# --- 7.7 two short answers ------------------------------------------------------------


@question("7.7", points=0, claim="a and b are letters (judged when they are handed in)")
def test_form_of_the_answers(submission: Submission, draw: Draw) -> None:
    expect_choice(submission, "answer_7_7a", 4, {})
    expect_choice(submission, "answer_7_7b", 4, {})


# --- 7.8 find_bug ---------------------------------------------------------------------

PROMISE = "7.1 promises of x (B, L, E), weights (E, E) and a number of heads that divides E"


def by_loops(x: Tensor, Wq: Tensor, Wk: Tensor, Wv: Tensor, Wo: Tensor, heads: int) -> Tensor:
    """A right version that goes through heads and samples."""
    d, parts = x.shape[-1] // heads, x.new_zeros(heads, *x.shape)
    for h in range(heads):
        mine = slice(h * d, (h + 1) * d)
        for b, y in enumerate(x):
            scores = (y @ Wq[mine].T) @ (y @ Wk[mine].T).T / math.sqrt(d)
            parts[h, b] = torch.softmax(scores, 1) @ (y @ Wv[mine].T) @ Wo[:, mine].T
    return parts


@question("7.8", points=0.5, claim="two plain bugs are found, and nothing right is accused")
def test_hunt_plain_bugs(submission: Submission, draw: Draw) -> None:
    expect_verdicts(
        submission,
        draw,
        "attention_as_sum",
        right={"the library's": reference.attention_as_sum, "one that loops": by_loops},
        wrong={
            "divides the scores by √E": WRONG["attention_as_sum"][BY_E],
            "multiplies a head by its rows of Wo": WRONG["attention_as_sum"][ROWS_OF_WO],
        },
        promise=PROMISE,
    )
