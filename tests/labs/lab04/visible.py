"""Lab 04, structure: what is claimed of each answer, and what its likely mistakes look
like.

New inputs are drawn for every grading, such that the usual mistakes give other
results than the right answer: M, C, R and S all different (and all the same, where an
axis could be mistaken without an error), α, β and μ of both signs, σ² far from 1 and
one as small as ε, convolutions with and without bias, with groups, stride, padding and
dilation.
"""

from __future__ import annotations

import copy
import functools
import math
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from course_lib.grading import (
    Draw,
    StudentError,
    Submission,
    ask,
    describe,
    expect_close,
    expect_number,
    expect_raises,
    expect_tensor,
    fail,
    question,
    unchanged,
)
from course_lib.grading.claims import mistakes as known
from course_lib.grading.claims.mistakes import apply_each, near
from course_lib.grading.claims.typed import expect_choice
from course_lib.labs import lab04 as reference
from course_lib.student_code import plain_data

# --- recognising a mistake by its result ----------------------------------------------

recognise = functools.partial(known.recognise, equal=near)
draw_case = functools.partial(known.draw_case, equal=near)
draw_discriminating_case = functools.partial(known.draw_discriminating_case, equal=near)

# a sentence for the student -> a function that makes this mistake
Wrong = dict[str, Callable[..., Any]]
WRONG: dict[str, Wrong] = {}  # by graded name


def without(wrong: Wrong, *sentences: str) -> Wrong:
    """The table without some of its sentences."""
    return {said: function for said, function in wrong.items() if said not in sentences}


def asked(call: Callable[[], Any], when: str, thought: Callable[[str], str]) -> Any:
    """As ``ask``, with a next thought that depends on the error."""
    try:
        return call()
    except StudentError as error:
        caught = error

    def again() -> Any:
        raise caught

    return ask(again, when, thought(caught.message))


# --- modules, as they come back -------------------------------------------------------

CONV = (
    "in_channels",
    "out_channels",
    "kernel_size",
    "stride",
    "padding",
    "dilation",
    "groups",
    "padding_mode",
)
NORM = ("num_features", "eps", "momentum")
COUNTS = ("in_channels", "out_channels", "num_features")
VECTORS = ("weight", "bias", "running_mean", "running_var")
GREEK = {"weight": "α", "bias": "β", "running_mean": "μ", "running_var": "σ²"}
Chain = tuple[nn.Conv2d, nn.BatchNorm2d, nn.Conv2d]


def as_module(value: Any, kind: str, what: str) -> plain_data.Model:
    """The value, if it is a module of this class of torch.nn, with tensors of its
    own.
    """
    if not isinstance(value, plain_data.Model):
        hint = ": did the function forget to return?" if value is None else ""
        fail(f"{what} should be a {kind}, it is {describe(value)}{hint}")
    name = value.layer.type.rpartition(".")[2]
    if value.layer.type != kind:
        fail(
            f"{what} should be a {kind}, it is a {name}. Build a new layer of torch.nn, or copy the layer you were given"
        )
    if not isinstance(value.state.get("weight"), Tensor):
        fail(f"{what} has no weight in its state_dict(). Assign the weight as an nn.Parameter")
    return value


def expect_settings(value: plain_data.Model, wanted: Mapping[str, Any], what: str) -> None:
    """The module has these settings; a setting that is the default, but not that of
    the given module, is named.
    """
    for key, right in wanted.items():
        if key not in value.layer.settings:
            fail(
                f"{what} has no {key}. Build a new layer of torch.nn, or copy the layer you were given"
            )
        mine = value.layer.settings[key]
        if mine == right or (
            isinstance(right, float) and isinstance(mine, float) and math.isclose(mine, right)
        ):
            continue
        if key in COUNTS:
            fail(
                f"{key} of {what} is {mine}, but the layer has {right} now. Update {key}: printing, counting and copying use it"
            )
        fail(
            f"{key} of {what} is {mine}, but {key} of the given layer is {right}. Keep all other settings of the given layer"
        )


def settings(module: nn.Module, **changed: Any) -> dict[str, Any]:
    """The settings that a layer was built with, with some changed."""
    return {
        key: getattr(module, key) for key in (CONV if isinstance(module, nn.Conv2d) else NORM)
    } | changed


def untouched(before: nn.Module, after: Any, what: str) -> None:
    """The module that was given has the numbers, settings and mode that it had."""
    was = plain_data.describe(before)
    if not isinstance(after, plain_data.Model):
        fail(f"after the call {what} is {describe(after)}")
    was_seen, seen = (m.state.get("num_batches_tracked", torch.tensor(0)) for m in (was, after))
    if int(seen) > int(was_seen):
        fail(
            f"your function used the given {what.removeprefix('the ')} in training mode. There it normalises with the statistics of the batch and updates its own μ and σ²"
        )
    for name, value in was.state.items():
        mine = after.state.get(name)
        if (
            not isinstance(mine, Tensor)
            or mine.shape != value.shape
            or not bool((mine == value).all())
        ):
            fail(f"your function changed {name} of {what} that it was given. Work on a copy")
    if extra := [name for name in after.state if name not in was.state]:
        fail(f"your function added {extra[0]} to {what} that it was given. Work on a copy")
    if after.layer != was.layer:
        which = "mode" if after.layer.training != was.layer.training else "settings"
        fail(f"your function changed the {which} of {what} that it was given. Work on a copy")


# --- 4.1 fold_bn ----------------------------------------------------------------------

AXIS = "p has one number per output channel, and filter m is weight[m]. Which of the four axes of the weight is the filter axis?"


def numbers(bn: nn.BatchNorm2d) -> tuple[Tensor, Tensor, Tensor, Tensor, float]:
    """α, β, μ, σ² in float64, and ε."""
    alpha, beta, mu, var = (bn.state_dict()[name].double() for name in VECTORS)
    return alpha, beta, mu, var, bn.eps


def line(bn: nn.BatchNorm2d) -> tuple[Tensor, Tensor]:
    """p and q, (C,), in float64."""
    alpha, beta, mu, var, eps = numbers(bn)
    p = alpha / (var + eps).sqrt()
    return p, beta - p * mu


SCALES: Wrong = {  # wrong p, from α, σ², ε
    "the weights are those of conv, unchanged. Multiply each filter by its p": lambda alpha, var, eps: (
        torch.ones_like(alpha)
    ),
    "ε is missing. It matters where σ² is small": lambda alpha, var, eps: alpha / var.sqrt(),
    "α was divided by the variance. Divide by the standard deviation, its square root": (
        lambda alpha, var, eps: alpha / (var + eps)
    ),
    "α was divided by the variance, and ε is missing": lambda alpha, var, eps: alpha / var,
    "running_var was squared. It already is the variance σ²": lambda alpha, var, eps: (
        alpha / (var**2 + eps).sqrt()
    ),
    "ε was added to the square root. Add it to σ², under the square root": (
        lambda alpha, var, eps: alpha / (var.sqrt() + eps)
    ),
    "1e-5 was used for ε, the usual default. Use the ε of the given batch norm": (
        lambda alpha, var, eps: alpha / (var + 1e-5).sqrt()
    ),
    "α is missing": lambda alpha, var, eps: 1 / (var + eps).sqrt(),
    "the sign of α was lost. α can be negative": lambda alpha, var, eps: (
        alpha.abs() / (var + eps).sqrt()
    ),
    "the filters were multiplied by α alone, without the division": lambda alpha, var, eps: alpha,
    "α was multiplied by the standard deviation. It must be divided": (
        lambda alpha, var, eps: alpha * (var + eps).sqrt()
    ),
}
BIASES: Wrong = {  # wrong biases, from b (0 where conv has none), the right p, and α, β, μ
    "q is missing from the bias": lambda b, p, alpha, beta, mu: p * b,
    "q is β alone. Where do you use the mean?": lambda b, p, alpha, beta, mu: p * b + beta,
    "μ was subtracted without scaling. The batch norm scales all of x − μ": (
        lambda b, p, alpha, beta, mu: p * b + beta - mu
    ),
    "μ was multiplied by α. It must be multiplied by p": (
        lambda b, p, alpha, beta, mu: p * b + beta - alpha * mu
    ),
    "μ was divided by the square root, but not multiplied by α. Multiply μ by all of p, which includes α": (
        lambda b, p, alpha, beta, mu: p * b + beta - p / alpha * mu
    ),
    "μ was added. The batch norm subtracts it: x − μ": (
        lambda b, p, alpha, beta, mu: p * b + beta + p * mu
    ),
    "β was multiplied by p. The batch norm adds β after the scaling": (
        lambda b, p, alpha, beta, mu: p * (b + beta - mu)
    ),
    "q is -p·μ alone. β is missing": lambda b, p, alpha, beta, mu: p * (b - mu),
    "q was subtracted. Check the sign: the line is p·x + q": (
        lambda b, p, alpha, beta, mu: p * b - (beta - p * mu)
    ),
    "q was multiplied by p. Only the old bias passes through the scaling": (
        lambda b, p, alpha, beta, mu: p * (b + beta - p * mu)
    ),
    "the bias of the convolution is missing. The input of the batch norm contains the bias of conv": (
        lambda b, p, alpha, beta, mu: beta - p * mu
    ),
    "q was added to the unchanged bias of the convolution. The batch norm is applied to this bias too": (
        lambda b, p, alpha, beta, mu: b + beta - p * mu
    ),
    "the bias is that of conv, unchanged. The batch norm is applied to this bias too, and q must be added": (
        lambda b, p, alpha, beta, mu: b
    ),
    "the bias of the convolution was multiplied by α. It must be multiplied by p": (
        lambda b, p, alpha, beta, mu: alpha * b + beta - p * mu
    ),
}
AXES = {
    f"the {what} were scaled, not the filters: {AXIS}": axis
    for axis, what in ((1, "input channels"), (2, "rows"), (3, "columns"))
}


def bias_of(conv: nn.Conv2d) -> Tensor:
    """b (M,) in float64; 0 where the convolution has none."""
    return (
        torch.zeros(conv.out_channels).double()
        if conv.bias is None
        else conv.bias.detach().double()
    )


def scaled(conv: nn.Conv2d, by: Tensor, axis: int = 0) -> Tensor:
    """The weight (M, C/groups, R, S) times numbers along an axis, or along the filters
    where they do not fit it.
    """
    weight = conv.weight.detach().double()
    fits = weight.shape[axis] == len(by)
    return weight * by.view([-1 if d == (axis if fits else 0) else 1 for d in range(4)])


def folding(
    scale: Callable[..., Tensor] | None = None,
    bias: Callable[..., Tensor] | None = None,
    axis: int = 0,
) -> Callable[[nn.Conv2d, nn.BatchNorm2d], nn.Conv2d]:
    """fold_bn with another p, another bias, or p along another axis."""

    def version(conv: nn.Conv2d, bn: nn.BatchNorm2d) -> nn.Conv2d:
        if conv.training or bn.training:
            raise RuntimeError("call .eval() first")
        alpha, beta, mu, var, eps = numbers(bn)
        p, b = line(bn)[0] if scale is None else scale(alpha, var, eps), bias_of(conv)
        shift = p * (b - mu) + beta if bias is None else bias(b, p, alpha, beta, mu)
        one, parts = copy.deepcopy(conv), (scaled(conv, p, axis), shift)
        one.weight, one.bias = (nn.Parameter(part.to(conv.weight.dtype)) for part in parts)
        return one

    return version


WRONG["fold_bn"] = {said: folding(scale=scale) for said, scale in SCALES.items()}
WRONG["fold_bn"] |= {said: folding(axis=axis) for said, axis in AXES.items()}
WRONG["fold_bn"] |= {said: folding(bias=bias) for said, bias in BIASES.items()}


def expect_folded(value: Any, conv: nn.Conv2d, bn: nn.BatchNorm2d, when: str) -> plain_data.Model:
    """The folded convolution is right; else the mistake that gives this result."""
    what = "the folded convolution"
    one = as_module(value, "Conv2d", f"{when}, the result")
    expect_settings(one, settings(conv), what)
    (p, q), (alpha, beta, mu, var, eps) = line(bn), numbers(bn)
    weight, b = scaled(conv, p), bias_of(conv)
    expect_tensor(one.state["weight"], shape=weight.shape, what=f"{when}, the weight of {what}")
    mistakes = {said: scaled(conv, s) for said, s in apply_each(SCALES, alpha, var, eps).items()}
    mistakes |= {said: scaled(conv, p, axis) for said, axis in AXES.items()}
    recognise(one.state["weight"], weight, mistakes, f"{when}, ")
    expect_close(one.state["weight"], weight, f"{when}, the weight of {what}")
    mine = one.state.get("bias")
    if mine is None:
        fail(
            f"{when}, {what} has no bias. q must be part of the result, whether or not conv has a bias"
        )
    expect_tensor(mine, shape=q.shape, what=f"{when}, the bias of {what}")
    recognise(mine, p * b + q, apply_each(BIASES, b, p, alpha, beta, mu), f"{when}, ")
    expect_close(mine, p * b + q, f"{when}, the bias of {what}")
    return one


def fold(
    submission: Submission, conv: nn.Conv2d, bn: nn.BatchNorm2d, when: str
) -> plain_data.Model:
    """The student's folded convolution, checked."""

    def thought(raised: str) -> str:
        return (
            "Which value does the bias have where conv.bias is None?"
            if conv.bias is None and "None" in raised
            else AXIS
        )

    return expect_folded(
        asked(lambda: submission.fold_bn(conv, bn), f"{when},", thought), conv, bn, when
    )


@question("4.1", points=1, claim="one convolution does the work of both, where conv has no bias")
def test_fold_without_bias(submission: Submission, draw: Draw) -> None:
    kernel = draw.choice([(2, 4), (4, 2)])
    conv = draw.conv(3, draw.integer(5, 7), kernel, bias=False)
    bn = draw.batch_norm(conv.out_channels)
    fold(submission, conv, bn, "for a convolution without bias")


@question("4.1", points=1, claim="and where it has one")
def test_fold_with_bias(submission: Submission, draw: Draw) -> None:
    m, kernel = draw.integer(5, 7), draw.choice([(2, 4), (4, 2)])
    conv, bn = draw.conv(3, m, kernel, stride=(1, 2), padding=(2, 1)), draw.batch_norm(m)
    fold(submission, conv, bn, "for a convolution with bias, stride and padding")


@question(
    "4.1", points=0.5, claim="training mode raises RuntimeError; conv and bn stay as they were"
)
def test_fold_refuses_and_leaves(submission: Submission, draw: Draw) -> None:
    for training, who in (
        ((False, True), "a batch norm in training mode (it uses the statistics of each batch)"),
        (
            (True, False),
            "a convolution in training mode (its batch norm still changes during training)",
        ),
        ((True, True), "a convolution and a batch norm in training mode"),
    ):
        conv, bn = draw.conv(3, 4, (2, 2)).train(training[0]), draw.batch_norm(4).train(training[1])
        expect_raises(RuntimeError, functools.partial(submission.fold_bn, conv, bn), who)
    for bias in (True, False):
        conv, bn = draw.conv(3, 4, (2, 2), bias=bias), draw.batch_norm(4)
        made, (conv_after, bn_after) = submission.call("fold_bn", conv, bn, returning=(0, 1))
        as_module(made, "Conv2d", "the result")
        untouched(conv, conv_after, "the convolution")
        untouched(bn, bn_after, "the batch norm")


# --- 4.2 remove_filters ---------------------------------------------------------------

NAMES = ("the first convolution", "the batch norm", "the next convolution")
LAYERS = ("the convolution", "the batch norm", "the next convolution")  # as the docstring has them


def chain(
    draw: Draw,
    bias: bool = True,
    first: dict[str, Any] | None = None,
    then: dict[str, Any] | None = None,
) -> Chain:
    """A convolution from 3 channels to 7 or more (10 at most), its batch norm, and the
    next one, to 12; no two sizes alike.
    """
    c = draw.integer(7, 10)
    return (
        draw.conv(3, c, (2, 4), bias=bias, **(first or {})),
        draw.batch_norm(c),
        draw.conv(c, 12, (4, 2), bias=bias, **(then or {})),
    )


def some_of(draw: Draw, n: int) -> list[int]:
    """Some of n channels, in order: neither the first ones nor as many as are
    removed.
    """
    for _ in range(500):
        keep = sorted(draw.distinct(draw.integer(3, n - 2), 0, n - 1))
        if keep != list(range(len(keep))) and 2 * len(keep) != n:
            return keep
    raise RuntimeError("no channels were drawn")


def others(keep: list[int], n: int) -> list[int]:
    """The channels to remove."""
    return [i for i in range(n) if i not in keep]


def as_chain(value: Any) -> tuple[plain_data.Model, plain_data.Model, plain_data.Model]:
    """The three modules, if they are that."""
    if not isinstance(value, list | tuple):
        fail(f"the result should be the tuple (conv, bn, next_conv), it is {describe(value)}")
    if len(value) != 3:
        fail(f"the result should hold three modules, conv, bn and next_conv; it holds {len(value)}")
    kinds = ("Conv2d", "BatchNorm2d", "Conv2d")
    conv, bn, next_conv = (
        as_module(v, kind, what) for v, kind, what in zip(value, kinds, NAMES, strict=True)
    )
    return conv, bn, next_conv


def remove(
    submission: Submission, layers: Chain, keep: list[int]
) -> tuple[plain_data.Model, plain_data.Model, plain_data.Model]:
    """The student's three modules."""
    when = f"with the {len(keep)} channels {keep} of {layers[1].num_features} kept,"
    thought = "Filter m is conv.weight[m]. The next convolution reads channel m with next_conv.weight[:, m]. "
    thought += "The bias of next_conv has one entry per filter of next_conv"
    return as_chain(ask(lambda: submission.remove_filters(*layers, keep), when, thought))


def expect_picked(
    value: Any, whole: Tensor, keep: list[int], dim: int, what: str, one: str
) -> None:
    """``value`` is ``whole`` at the places ``keep`` of ``dim``, in that order; else
    what it is instead.
    """
    n = whole.shape[dim]

    def pick(index: list[int]) -> Tensor:
        return whole.index_select(dim, torch.tensor(index))

    right = pick(keep)
    gone, many = others(keep, n), "entries" if one == "entry" else f"{one}s"
    if isinstance(value, Tensor) and value.shape == whole.shape:
        if near(pick_of(value, keep, dim), right) and not pick_of(value, gone, dim).any():
            fail(
                f"{what} still has all {n} {many}, with zeros in it. A zero takes as much time as any other number, so make the "
                "tensor smaller"
            )
        still = "still reads all" if one == "input" else "still has all"
        fail(f"{what} {still} {n} {many}. Only {len(keep)} should be kept")
    mistakes = {
        f"{what} has the {many} that should have been removed. keep lists the ones to keep": pick(
            gone
        ),
        f"{what} has the first {len(keep)} {many}. Use the indices in keep": pick(
            list(range(len(keep)))
        ),
        f"{what} has the right {many}, but in another order than keep": pick(keep[::-1]),
    }
    recognise(value, right, mistakes)
    if isinstance(value, Tensor) and dim == 1 and value.shape[0] != whole.shape[0]:
        fail(f"{what} lost filters (dimension 0) and now has {value.shape[0]} output channels instead of {len(whole)}. It should "
             "keep all its output channels and read fewer input channels")  # fmt: skip
    expect_tensor(
        value, shape=right.shape, what=f"the weight of {what}" if whole.ndim == 4 else what
    )
    if not near(value, right):
        fail(f"{what} does not hold the numbers of the kept channels {keep}, in this order")


def pick_of(value: Tensor, index: list[int], dim: int) -> Tensor:
    """The entries of a tensor of the old size."""
    return value.index_select(dim, torch.tensor(index))


@question("4.2", points=1, claim="filters of conv and inputs of next_conv are gone, not zero")
def test_smaller_convolutions(submission: Submission, draw: Draw) -> None:
    layers = chain(draw)
    keep = some_of(draw, layers[1].num_features)
    small, _, small_next = remove(submission, layers, keep)
    expect_picked(small.state["weight"], layers[0].weight.detach(), keep, 0, NAMES[0], "filter")
    expect_picked(small_next.state["weight"], layers[2].weight.detach(), keep, 1, NAMES[2], "input")


@question("4.2", points=1, claim="the batch norm keeps its four vectors, cut like the filters")
def test_smaller_batch_norm(submission: Submission, draw: Draw) -> None:
    layers = chain(draw, bias=False)
    bn = layers[1]
    keep = some_of(draw, bn.num_features)
    _, small, _ = remove(submission, layers, keep)
    for name in VECTORS:
        whole, value = bn.state_dict()[name], small.state.get(name)
        fresh = (
            torch.ones(len(keep)) if name in ("weight", "running_var") else torch.zeros(len(keep))
        )
        if name.startswith("running") and near(value, fresh):
            fail(
                f"{name} of the batch norm is {GREEK[name]} of a batch norm that has seen no data. Copy the running statistics of the kept channels"
            )
        expect_picked(value, whole, keep, 0, f"{name} ({GREEK[name]}) of the batch norm", "entry")


@question(
    "4.2",
    points=0.5,
    claim="new modules: those given stay as they were, and share no numbers with them",
)
def test_new_modules(submission: Submission, draw: Draw) -> None:
    layers = chain(draw)
    n = layers[1].num_features
    keep = some_of(draw, n)
    _, after = submission.call("remove_filters", *layers, keep, returning=(0, 1, 2, 3))
    for layer, now, what in zip(layers, after[:3], LAYERS, strict=True):
        untouched(layer, now, what)
    if after[3] != keep:
        fail("your function changed the list keep that it was given")
    for chosen in (keep, list(range(n))):
        expect_nothing_shared(submission, layers, chosen)


def expect_nothing_shared(submission: Submission, layers: Chain, keep: list[int]) -> None:
    """Changes to the new modules do not change the given ones."""
    refs = [submission.put(layer) for layer in layers]
    everything = len(keep) == layers[1].num_features
    what = f"when asked to keep {'all' if everything else 'some'} channels,"
    call = functools.partial(submission.call, "remove_filters", *refs, keep, keep=True)
    result = ask(call, what, "keep can be any strictly increasing list that is not empty")
    small = as_chain(submission.get(result))
    before = [submission.get(ref) for ref in refs]
    for i, (one, names) in enumerate(
        zip(small, (("weight", "bias"), VECTORS, ("weight", "bias")), strict=True)
    ):
        part = submission.call("__getitem__", i, on=result, keep=True)
        for name in names:
            if name in one.state:
                submission.call(f"{name}.data.add_", 1.0, on=part)
    for old, ref, which in zip(before, refs, NAMES, strict=True):
        now = submission.get(ref)
        for name, value in old.state.items():
            if not torch.equal(now.state[name], value):
                fail(
                    f"the new modules share {name} with {which} that was given: training the small network "
                    "then changes the large one. Make a new nn.Parameter from a copy"
                )


# --- 4.3 cascade ----------------------------------------------------------------------

Layer = tuple[Tensor, Tensor, Tensor, list[int]]  # keep, weight, β, the removed channels


def cascade_case(draw: Draw, m: int, c: int, r: int, s: int) -> Layer:
    """A layer: kept and removed channels both have β of both signs; those of kept
    channels are larger, and unused.
    """
    weight = draw.normal(m, c, r, s)
    order = draw.permutation(c)
    removed = draw.integer(3, c - 2)
    gone, kept = order[:removed], order[removed:]
    keep = torch.ones(c, dtype=torch.bool)
    keep[gone] = False
    beta = draw.sizes(c, 0.3, 3).float() * draw.signs(c)
    for some in (gone, kept):
        beta[some[0]], beta[some[-1]] = beta[some[0]].abs(), -beta[some[-1]].abs()
    beta[gone[1]] = beta[gone[1]].abs()  # one positive β alone could hide a mistake
    beta[kept] *= 3
    return keep, weight, beta, sorted(gone.tolist())


def shift_of(weight: Tensor, constant: Tensor, which: list[int]) -> Tensor:
    """The sum that constant channels add to each output, (M,), in float64."""
    return weight.double().sum((2, 3))[:, which] @ constant.double()[which]


def mask_of(keep: Tensor, weight: Tensor) -> Tensor:
    """(C,) for each weight, (M, C, R, S)."""
    return keep.view(1, -1, 1, 1).expand(weight.shape).clone()


FILTERS = "useful is True for whole filters (outputs, dimension 0). keep refers to the channels that next_weight reads, its dimension 1"
USEFUL: Wrong = {  # wrong masks
    "useful is inverted. It should be True where the weight reads a kept channel": (
        lambda keep, weight, beta: ~mask_of(keep, weight)
    ),
    "useful is True everywhere, also where the weight reads a removed channel": (
        lambda keep, weight, beta: torch.ones_like(weight, dtype=torch.bool)
    ),
    "weights that read a removed channel with a nonzero constant were marked useful. Their contribution is constant "
    "and belongs in the shift": lambda keep, weight, beta: mask_of(keep | (beta > 0), weight),
    "weights that read a kept channel with β ≤ 0 were marked useless. The output of a kept channel is not constant": (
        lambda keep, weight, beta: mask_of(keep & (beta > 0), weight)
    ),
    "a weight of 0 was marked useless. A weight that reads a kept channel is useful, also if its value is 0": (
        lambda keep, weight, beta: mask_of(keep, weight) & (weight != 0)
    ),
}
KERNEL_MEAN = (
    "the mean of the kernel was used. Each of its R·S weights is multiplied by the constant"
)
SHIFTS: Wrong = {  # from the weight (M, C, R, S) and β in float64, and which are removed
    "the shift is 0 for every output. The output of a removed channel is relu(β), not 0": (
        lambda w, beta, gone: torch.zeros(len(w), dtype=torch.float64)
    ),
    "the constants of the kept channels were summed. Kept channels still compute their own output; sum over the removed channels": (
        lambda w, beta, gone: shift_of(w, beta.relu(), others(gone, len(beta)))
    ),
    "the constants of kept channels were included. Sum over the removed channels only": (
        lambda w, beta, gone: shift_of(w, beta.relu(), list(range(len(beta))))
    ),
    "β was used as the constant. Which layer is between the batch norm and the next convolution?": (
        lambda w, beta, gone: shift_of(w, beta, gone)
    ),
    "|β| was used as the constant. The ReLU sets negative values to 0": (
        lambda w, beta, gone: shift_of(w, beta.abs(), gone)
    ),
    "the ReLU was applied to the sum. It comes before the next layer, so apply it to β": (
        lambda w, beta, gone: shift_of(w, beta, gone).relu()
    ),
    "the sign of the shift is wrong. The shift replaces the contribution of the removed channels": (
        lambda w, beta, gone: -shift_of(w, beta.relu(), gone)
    ),
    "negative shifts were set to 0. The ReLU is applied before the next layer, not after its sum": (
        lambda w, beta, gone: shift_of(w, beta.relu(), gone).relu()
    ),
    "|w| was summed. Sum the weights with their signs": (
        lambda w, beta, gone: shift_of(w.abs(), beta.relu(), gone)
    ),
    "the ReLU was applied to the summed weights. It is applied to β": (
        lambda w, beta, gone: shift_of(w.sum((2, 3), True).relu(), beta.relu(), gone)
    ),
    "the mean over the removed channels was used. Each output sums over its channels": (
        lambda w, beta, gone: shift_of(w, beta.relu(), gone) / len(gone)
    ),
    KERNEL_MEAN: lambda w, beta, gone: shift_of(w, beta.relu(), gone) / w[0, 0].numel(),
}


def wrong_shifts(weight: Tensor, beta: Tensor, gone: list[int]) -> dict[str, Tensor]:
    """What the shift is by mistake."""
    w, beta = weight.double(), beta.double()
    if w[0, 0].numel() == 1:
        return apply_each(without(SHIFTS, KERNEL_MEAN), w, beta, gone)
    mistakes: dict[str, Tensor] = apply_each(SHIFTS, w, beta, gone)
    for r in range(w.shape[2]):
        for s in range(w.shape[3]):
            said = f"only one weight of each kernel was used ({r}, {s}). All of its R·S weights are multiplied by the constant"
            mistakes[said] = shift_of(w[:, :, r : r + 1, s : s + 1], beta.relu(), gone)
    return mistakes


def altered(
    mask: Callable[..., Tensor] | None = None, shift: Callable[..., Tensor] | None = None
) -> Callable[..., tuple[Tensor, Tensor]]:
    """cascade with another mask, from its arguments, or another shift, from (weight, β,
    removed channels).
    """

    def version(keep: Tensor, next_weight: Tensor, beta: Tensor) -> tuple[Tensor, Tensor]:
        w, b = next_weight.detach(), beta.detach()
        useful, total = reference.cascade(keep, w, b)
        if mask:
            useful = mask(keep, w, b)
        gone = (~keep).nonzero().flatten().tolist()
        if shift and gone:
            total = shift(w.double(), b.double(), gone).to(w.dtype)
        return useful, total

    return version


WRONG["cascade"] = {said: altered(mask=mask) for said, mask in USEFUL.items()}
WRONG["cascade"] |= {said: altered(shift=shift) for said, shift in SHIFTS.items()}


def cascaded(submission: Submission, layer: Layer, when: str = "") -> tuple[Any, Any]:
    """The student's mask and shift."""
    weight = layer[1]
    thought = (
        "keep and beta refer to the channels that next_weight (M, C, R, S) reads, its dimension 1"
    )
    called = when or f"for a weight of shape {tuple(weight.shape)}, "
    return as_cascade(ask(lambda: submission.cascade(*layer[:3]), called.strip(), thought))


def as_cascade(value: Any) -> tuple[Any, Any]:
    """The mask and the shift, if they are that."""
    if not isinstance(value, list | tuple) or len(value) != 2:
        fail(f"the result should be the tuple (useful, shift), it is {describe(value)}")
    useful, shift = value
    swapped = isinstance(shift, Tensor) and shift.dtype == torch.bool
    if swapped and isinstance(useful, Tensor) and useful.dtype != torch.bool:
        fail("useful and shift are in the wrong order: useful comes first")
    return useful, shift


def expect_useful(value: Any, layer: Layer, when: str = "") -> None:
    """The mask is right; else the mistake whose result it is."""
    keep, weight, beta, _ = layer
    right = mask_of(keep, weight)
    if isinstance(value, Tensor) and value.shape != weight.shape:
        said = f"{when}useful has shape {tuple(value.shape)}, next_weight {tuple(weight.shape)}"
        fail(f"{said}: useful has one entry for each weight")
    if isinstance(value, Tensor) and value.dtype != torch.bool:
        held = "weights" if near(value, weight * right) else f"{str(value.dtype)[6:]} numbers"
        fail(
            f"{when}useful holds {held}. It should hold True for each useful weight and False for the others"
        )
    expect_tensor(value, shape=weight.shape, dtype=torch.bool, what=f"{when}useful")
    recognise(value, right, apply_each(USEFUL, keep, weight, beta), when)
    if not torch.equal(value, right):
        if torch.equal(value.amin((1, 2, 3)), value.amax((1, 2, 3))):
            fail(f"{when}{FILTERS}")
        fail(
            f"{when}useful is wrong. keep refers to the channels that next_weight (M, C, R, S) reads, its dimension 1"
        )


def expect_shift(value: Any, layer: Layer, when: str = "") -> None:
    """The shift is right; else the mistake whose result it is."""
    _, weight, beta, gone = layer
    shift = expect_tensor(value, shape=(len(weight),), what=f"{when}the shift")
    right = shift_of(weight, beta.relu(), gone)
    if not right.any() and not near(shift, right):
        fail(
            f"{when}the shift is not 0. There is nothing to absorb: no channel is removed, or relu(β) of every removed channel is 0"
        )
    recognise(shift, right, wrong_shifts(weight, beta, gone) if gone else {}, when)
    expect_close(shift, right, f"{when}the shift")


def draw_layer(draw: Draw, *sizes: int) -> Layer:
    """A layer of these sizes, M, C, R, S, by default all different, for which all
    mistakes give other results; one weight that reads a kept channel is 0.
    """

    def case() -> known.Case:
        shape = sizes or draw.choice([(4, 6, 2, 3), (5, 7, 3, 2), (3, 8, 4, 2)])
        layer = cascade_case(draw, *shape)
        keep, weight, beta, gone = layer
        weight[0, int(keep.nonzero()[0])] = 0
        return layer, shift_of(weight, beta.relu(), gone), wrong_shifts(weight, beta, gone)

    layer: Layer = draw_discriminating_case(case)[0]
    return layer


@question("4.3", points=0.5, claim="useful: True where the weight reads a kept channel")
def test_useful_weights(submission: Submission, draw: Draw) -> None:
    layer = draw_layer(draw)
    useful, _ = cascaded(submission, layer)
    expect_useful(useful, layer)


@question("4.3", points=1, claim="shift: Σ over removed channels of relu(β) · sum of the kernel")
def test_shift_of_the_removed(submission: Submission, draw: Draw) -> None:
    layer = draw_layer(draw)
    _, shift = cascaded(submission, layer)
    expect_shift(shift, layer)


@question("4.3", points=0.5, claim="no gradient; the arguments are not changed")
def test_cascade_leaves_its_arguments(submission: Submission, draw: Draw) -> None:
    keep, weight, beta, _ = draw_layer(draw)
    given = [keep, weight, beta]
    both, after = submission.call("cascade", *given, returning=(0, 1, 2))
    as_cascade(both)
    for value, now, name in zip(given, after, ("keep", "next_weight", "beta"), strict=True):
        unchanged(value, now, name)
    refs = [submission.put(keep), *(submission.put(v, requires_grad=True) for v in given[1:])]
    thought = "Use .detach() before you change values in place or make a numpy array"
    ref = ask(
        lambda: submission.call("cascade", *refs, keep=True),
        "where next_weight and beta are parameters,",
        thought,
    )
    shift = submission.call("__getitem__", 1, on=ref, keep=True)
    if submission.get(shift, "requires_grad") is not False:
        fail(
            "the shift still depends on β and the weights in autograd. Return it without gradient (use .detach() or torch.no_grad())"
        )


# --- 4.4 slimming_penalty -------------------------------------------------------------


def block(draw: Draw, c: int, m: int, scale: float = 1.0) -> nn.Sequential:
    """Convolution, batch norm with α of about this scale, ReLU."""
    bn = draw.batch_norm(m)
    with torch.no_grad():
        bn.weight.mul_(scale)
    return nn.Sequential(OrderedDict(conv=draw.conv(c, m, (2, 3)), bn=bn, relu=nn.ReLU()))


def network(
    draw: Draw, widths: Iterable[int], scales: Iterable[float], distracting: bool = False
) -> nn.Sequential:
    """Blocks in a row, under names whose order is not the alphabet's; with other layers
    that have a weight (C,), or without.
    """
    names, parts, c = ["stem", "body", "late", "end"], OrderedDict[str, nn.Module](), 2
    for name, m, scale in zip(names, widths, scales, strict=False):
        parts[name] = block(draw, c, m, scale)
        c = m
    if distracting:
        norm = nn.GroupNorm(1, c)
        with torch.no_grad():
            norm.weight.copy_(draw.normal(c, scale=0.5))
        inner = OrderedDict(norm=norm, inner=nn.Sequential(block(draw, c, 4)))
        parts["deep"] = nn.Sequential(inner)
        c = 4
    head = nn.Linear(c, 3)
    with torch.no_grad():
        for p in head.parameters():
            p.copy_(draw.normal(*p.shape))
    parts["head"] = head
    return nn.Sequential(parts).eval()


def norms(model: nn.Module) -> dict[str, nn.BatchNorm2d]:
    """The batch norms, by name."""
    return {name: m for name, m in model.named_modules() if isinstance(m, nn.BatchNorm2d)}


def alphas(model: nn.Module) -> dict[str, Tensor]:
    """Their α in float64."""
    return {name: bn.weight.detach().double() for name, bn in norms(model).items()}


def summed(part: Callable[[nn.Module], Iterable[Tensor]]) -> Callable[[nn.Module, float], float]:
    """slimming_penalty as λ times the sum of other tensors."""
    return lambda model, lam: (
        lam * sum(float(tensor.detach().double().sum()) for tensor in part(model))
    )


def together(model: nn.Module) -> Tensor:
    """α of all layers, (n,)."""
    return torch.cat(list(alphas(model).values()))


SQUARES = "squares of α were summed, as in weight decay. Its gradient shrinks together with α, so no α reaches 0. Sum |α|"
NONE_FOUND = (
    "the penalty is 0. Batch norms can also be inside other modules; model.modules() finds them"
)
OTHER_NORMS = "the weight of a GroupNorm was included. Other layers also have a weight of shape (C,); include batch norms only"
WRONG["slimming_penalty"] = {
    SQUARES: summed(lambda model: [together(model) ** 2]),
    f"half the {SQUARES}": summed(lambda model: [together(model) ** 2 / 2]),
    "p = α/√(σ² + ε) was penalised. Penalise α: p also decreases when σ² grows, and then no channel is removed": summed(
        lambda model: [line(bn)[0].abs() for bn in norms(model).values()]
    ),
    "α was summed with its sign, so -2 and 2 cancel. Take |α| first, then sum": summed(
        lambda model: [together(model)]
    ),
    "α was summed with its sign, and |…| was taken of the sum. Take |α| first, then sum": summed(
        lambda model: [together(model).sum().abs()]
    ),
    "|…| was taken of the sum of each layer. Take |α| of each channel first, then sum": summed(
        lambda model: [a.sum().abs() for a in alphas(model).values()]
    ),
    "the penalty uses the mean of |α|. It should use the sum": summed(
        lambda model: [together(model).abs().mean()]
    ),
    "the penalty uses the mean of |α| of each layer. It should use the sum": summed(
        lambda model: [a.abs().mean() for a in alphas(model).values()]
    ),
    "β was included. Penalise the scales α, not the shifts β": summed(
        lambda model: [p.abs() for bn in norms(model).values() for p in (bn.weight, bn.bias)]
    ),
    "all parameters of the model were included. Penalise only α of the batch norms": summed(
        lambda model: [p.abs() for p in model.parameters()]
    ),
    "the weights of all layers were included. Penalise only α of the batch norms": summed(
        lambda model: [p.abs() for name, p in model.named_parameters() if name.endswith("weight")]
    ),
    OTHER_NORMS: summed(
        lambda model: [
            p.abs()
            for name, p in model.named_parameters()
            if name.endswith("weight") and p.ndim == 1
        ]
    ),
    "the penalty is the square root of the summed squares (the L2 norm). Sum |α|": summed(
        lambda model: [a.norm() for a in alphas(model).values()]
    ),
    "the penalty is the square root of the summed squares (an L2 norm). Sum |α|": summed(
        lambda model: [together(model).norm()]
    ),
    "λ is missing": lambda model, lam: float(together(model).abs().sum()),
    NONE_FOUND: lambda model, lam: 0.0,
}


def as_penalty(value: Any) -> float:
    """The value as a number."""
    if value is None:
        fail(
            "the function returned None. It should return the penalty, which is added to the loss: is the return statement missing?"
        )
    return expect_number(value, "the penalty")


def expect_penalty(submission: Submission, model: nn.Module, lam: float, when: str = "") -> None:
    """λΣ|α|; else the mistake whose result it is."""
    call = functools.partial(submission.slimming_penalty, model, lam)
    value = as_penalty(ask(call, when or "for a network of blocks,", "Which modules have an α?"))
    right = lam * float(together(model).abs().sum())
    if math.isclose(value, right, rel_tol=1e-5):
        return
    for sentence, wrong in apply_each(WRONG["slimming_penalty"], model, lam).items():
        if math.isclose(value, wrong, rel_tol=1e-5, abs_tol=1e-9):
            fail(f"{when} {sentence}".strip())
    expect_close(value, right, f"{when} the penalty".strip())


@question("4.4", points=0.5, claim="λ times the sum of |α| over all batch norms")
def test_penalty(submission: Submission, draw: Draw) -> None:
    lam = draw.choice([0.25, 0.03125, 2.0])
    given, _, _ = draw_case(
        lambda: (network(draw, (5, 3), (1.0, 0.5)), lam),
        lambda model, lam: lam * float(together(model).abs().sum()),
        without(WRONG["slimming_penalty"], OTHER_NORMS),
    )
    expect_penalty(submission, *given)


@question(
    "4.4",
    points=0.5,
    claim="it can be differentiated: each α gets λ·sign(α), nothing else anything",
)
def test_penalty_gradient(submission: Submission, draw: Draw) -> None:
    lam = draw.number(0.1, 0.9)
    model = network(draw, (4, 6), (1.0, 0.2))
    there = submission.put(model)
    penalty = submission.call("slimming_penalty", there, lam, keep=True)
    value = submission.get(penalty)
    as_penalty(value)
    said = "autograd cannot differentiate it, so it would not affect training"
    if not isinstance(value, Tensor):
        fail(
            f"the function returned {describe(value)}: {said}. Return a tensor computed from the parameters α"
        )
    if submission.get(penalty, "requires_grad") is not True:
        if not float(value):
            fail(NONE_FOUND)
        fail(
            f"the penalty has no gradient with respect to α: {said}. Where does your code use .detach(), .data or .item()?"
        )
    submission.backward(penalty)
    for name, p in model.named_parameters():
        grad = submission.get(there, f"{name}.grad")
        owner, _, kind = name.rpartition(".")
        if owner in norms(model) and kind == "weight":
            if not isinstance(grad, Tensor):
                fail(f"{name} got no gradient from the penalty, but it is an α of a batch norm")
            recognise(
                grad,
                lam * p.detach().sign(),
                {
                    "the gradient of the penalty is proportional to α, as in weight decay, so it shrinks together with α": lam
                    * p.detach(),
                    "the gradient of the penalty is 2λα, proportional to α as in weight decay": 2
                    * lam
                    * p.detach(),
                    "the gradient of the penalty is λ for every α. It should decrease |α| for negative α, too": torch.full_like(
                        p, lam
                    ),
                },
            )
            expect_close(grad, lam * p.detach().sign(), f"the gradient of the penalty at {name}")
        elif isinstance(grad, Tensor) and bool(grad.any()):
            fail(f"{name} gets a gradient from the penalty. Only α of batch norms should get one")


# --- 4.5 a short answer ---------------------------------------------------------------


OPTIONS = 4


@question(
    "4.5",
    points=0,
    claim="the answer is a letter (which one is right is looked at when it is handed in)",
)
def test_form_of_the_answer(submission: Submission, draw: Draw) -> None:
    expect_choice(submission, "answer_4_5", OPTIONS, {})
