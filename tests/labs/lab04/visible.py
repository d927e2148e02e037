"""Lab 04, structure: what is claimed of each answer, and what its likely mistakes look
like.

New inputs are drawn for every grading, such that the usual mistakes give other
results than the right answer: M, C, R and S all different (and all the same, where an
axis could be mistaken without an error), α, β and μ of both signs, σ² far from 1 and
one as small as ε, convolutions with and without bias, with groups, stride, padding and
dilation, ties, and layers whose α are all small.
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
from torch.nn import functional as F

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
)
from course_lib.grading.claims import mistakes as known
from course_lib.grading.claims.hunt import expect_verdicts
from course_lib.grading.claims.mistakes import Mistakes, apply_each, near
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


# --- 4.1 bn_scale_shift ---------------------------------------------------------------

UPSIDE_DOWN = "the mask is inverted: True means kept"


def numbers(bn: nn.BatchNorm2d) -> tuple[Tensor, Tensor, Tensor, Tensor, float]:
    """α, β, μ, σ² in float64, and ε."""
    alpha, beta, mu, var = (bn.state_dict()[name].double() for name in VECTORS)
    return alpha, beta, mu, var, bn.eps


Numbers = tuple[Tensor, Tensor, Tensor, Tensor, float]
SCALES: Wrong = {  # wrong p
    "α was divided by the variance. Divide by the standard deviation, its square root": (
        lambda alpha, beta, mu, var, eps: alpha / (var + eps)
    ),
    "α was divided by the variance, and ε is missing": lambda alpha, beta, mu, var, eps: (
        alpha / var
    ),
    "ε is missing. It matters where σ² is small": lambda alpha, beta, mu, var, eps: (
        alpha / var.sqrt()
    ),
    "ε was added to the square root. Add it to σ², under the square root": (
        lambda alpha, beta, mu, var, eps: alpha / (var.sqrt() + eps)
    ),
    "1e-5 was used for ε, the usual default. Use the ε of the given batch norm": (
        lambda alpha, beta, mu, var, eps: alpha / (var + 1e-5).sqrt()
    ),
    "α is missing": lambda alpha, beta, mu, var, eps: 1 / (var + eps).sqrt(),
    "the sign of α was lost. α can be negative": (
        lambda alpha, beta, mu, var, eps: alpha.abs() / (var + eps).sqrt()
    ),
    "p is α alone, without the division": lambda alpha, beta, mu, var, eps: alpha,
    "α was multiplied by the standard deviation. It must be divided": (
        lambda alpha, beta, mu, var, eps: alpha * (var + eps).sqrt()
    ),
}
SHIFTS: Wrong = {  # wrong q, where p is right
    "q is β alone. Where do you use the mean?": lambda p, alpha, beta, mu: beta,
    "μ was subtracted without scaling. The batch norm scales all of x − μ": lambda p, alpha, beta, mu: (
        beta - mu
    ),
    "μ was multiplied by α. It must be multiplied by p": lambda p, alpha, beta, mu: (
        beta - alpha * mu
    ),
    "μ was divided by the square root, but not multiplied by α. Multiply μ by all of p, which includes α": (
        lambda p, alpha, beta, mu: beta - p / alpha * mu
    ),
    "μ was added. The batch norm subtracts it: x − μ": lambda p, alpha, beta, mu: beta + p * mu,
    "β was multiplied by p. The batch norm adds β after the scaling": (
        lambda p, alpha, beta, mu: p * (beta - mu)
    ),
    "q is -p·μ alone. β is missing": lambda p, alpha, beta, mu: -p * mu,
}


def scaling(scale: Callable[..., Tensor]) -> Callable[[nn.BatchNorm2d], tuple[Tensor, Tensor]]:
    """bn_scale_shift with another p."""

    def version(bn: nn.BatchNorm2d) -> tuple[Tensor, Tensor]:
        alpha, beta, mu, var, eps = numbers(bn)
        p = scale(alpha, beta, mu, var, eps)
        return p, beta - p * mu

    return version


def shifting(shift: Callable[..., Tensor]) -> Callable[[nn.BatchNorm2d], tuple[Tensor, Tensor]]:
    """bn_scale_shift with another q."""

    def version(bn: nn.BatchNorm2d) -> tuple[Tensor, Tensor]:
        alpha, beta, mu, var, eps = numbers(bn)
        p = alpha / (var + eps).sqrt()
        return p, shift(p, alpha, beta, mu)

    return version


WRONG["bn_scale_shift"] = {said: scaling(scale) for said, scale in SCALES.items()}
WRONG["bn_scale_shift"] |= {said: shifting(shift) for said, shift in SHIFTS.items()}


def as_pair(value: Any, channels: int) -> tuple[Tensor, Tensor]:
    """p and q, if they have their form."""
    if not isinstance(value, list | tuple) or len(value) != 2:
        fail(f"the result should be the tuple (p, q), it is {describe(value)}")
    p, q = (
        expect_tensor(part, shape=(channels,), what=name)
        for part, name in zip(value, "pq", strict=True)
    )
    return p, q


def expect_scale_and_shift(value: Any, bn: nn.BatchNorm2d, when: str = "") -> None:
    """p and q are right; else the mistake whose result they are."""
    alpha, beta, mu, var, eps = numbers(bn)
    right = alpha / (var + eps).sqrt()
    p, q = as_pair(value, len(alpha))
    if near(p, beta - right * mu) and near(q, right):
        fail(f"{when}p and q are in the wrong order: p comes first")
    recognise(p, right, apply_each(SCALES, *numbers(bn)), when)
    expect_close(p, right, f"{when}p")
    recognise(q, beta - right * mu, apply_each(SHIFTS, right, alpha, beta, mu), when)
    expect_close(q, beta - right * mu, f"{when}q")


@question("4.1", points=1, claim="p·x + q is what bn(x) gives in evaluation mode")
def test_line(submission: Submission, draw: Draw) -> None:
    bn = draw.batch_norm(draw.integer(5, 8))
    result, (after,) = submission.call("bn_scale_shift", bn, returning=(0,))
    if isinstance(after, plain_data.Model) and not near(
        after.state["running_mean"], bn.state_dict()["running_mean"]
    ):
        untouched(bn, after, "the batch norm")
    expect_scale_and_shift(result, bn)


@question("4.1", points=0.5, claim="two vectors without gradient; the batch norm stays as it was")
def test_form_of_the_line(submission: Submission, draw: Draw) -> None:
    bn = draw.batch_norm(draw.integer(5, 8))
    both, (after,) = submission.call("bn_scale_shift", bn, returning=(0,))
    as_pair(both, bn.num_features)
    untouched(bn, after, "the batch norm")
    kept = submission.call("bn_scale_shift", bn, keep=True)
    for i, name in enumerate("pq"):
        part = submission.call("__getitem__", i, on=kept, keep=True)
        if submission.get(part, "requires_grad") is not False:
            fail(
                f"{name} still depends on α and β in autograd. Return it without gradient (use .detach() or torch.no_grad())"
            )


# --- 4.2 fold_bn ----------------------------------------------------------------------

AXIS = "p has one number per output channel, and filter m is weight[m]. Which of the four axes of the weight is the filter axis?"


def folded(conv: nn.Conv2d, bn: nn.BatchNorm2d) -> tuple[Tensor, Tensor]:
    """The weight and the bias of the folded convolution."""
    alpha, beta, mu, var, eps = numbers(bn)
    p = alpha / (var + eps).sqrt()
    return conv.weight.detach().double() * p.view(-1, 1, 1, 1), beta + p * (bias_of(conv) - mu)


def bias_of(conv: nn.Conv2d) -> Tensor:
    """b (M,) in float64; 0 where the convolution has none."""
    return (
        torch.zeros(conv.out_channels).double()
        if conv.bias is None
        else conv.bias.detach().double()
    )


def scaled(weight: Tensor, by: Tensor, axis: int = 0) -> Tensor:
    """The weight (M, C/groups, R, S) times numbers along an axis, or along the filters
    where they do not fit it.
    """
    fits = weight.shape[axis] == len(by)
    return weight * by.view([-1 if d == (axis if fits else 0) else 1 for d in range(4)])


FOLDED_WEIGHTS: Wrong = {  # from the weight and α, β, μ, σ², ε
    "the weights are those of conv, unchanged. They must be scaled by p": lambda w, alpha, beta, mu, var, eps: (
        w
    ),
    "the weights were multiplied by α. They must be multiplied by p": (
        lambda w, alpha, beta, mu, var, eps: scaled(w, alpha)
    ),
    "the weights were divided by σ² + ε. They must be divided by its square root": (
        lambda w, alpha, beta, mu, var, eps: scaled(w, alpha / (var + eps))
    ),
    "ε is missing in the weights. It matters where σ² is small": (
        lambda w, alpha, beta, mu, var, eps: scaled(w, alpha / var.sqrt())
    ),
} | {
    f"{what} were scaled, not the filters: {AXIS}": (
        lambda w, alpha, beta, mu, var, eps, axis=axis: scaled(w, alpha / (var + eps).sqrt(), axis)
    )
    for axis, what in ((1, "the input channels"), (2, "rows"), (3, "columns"))
}
FOLDED_BIASES: Wrong = {  # from b, 0 where there is none, and the same
    "q is missing from the bias": lambda b, alpha, beta, mu, var, eps: (
        alpha / (var + eps).sqrt() * b
    ),
    "q is β alone. Where do you use the mean?": (
        lambda b, alpha, beta, mu, var, eps: beta + alpha / (var + eps).sqrt() * b
    ),
    "ε is missing in the bias": (
        lambda b, alpha, beta, mu, var, eps: beta + alpha / var.sqrt() * (b - mu)
    ),
    "the bias of the convolution is missing. The input of the batch norm contains the bias of conv": (
        lambda b, alpha, beta, mu, var, eps: beta - alpha / (var + eps).sqrt() * mu
    ),
    "q was added to the unchanged bias of the convolution. The batch norm is applied to this bias too": (
        lambda b, alpha, beta, mu, var, eps: beta - alpha / (var + eps).sqrt() * mu + b
    ),
    "the bias is that of conv, unchanged. The batch norm is applied to this bias too, and q must be added": (
        lambda b, alpha, beta, mu, var, eps: b
    ),
    "the bias of the convolution was multiplied by α. It must be multiplied by p": (
        lambda b, alpha, beta, mu, var, eps: beta - alpha / (var + eps).sqrt() * mu + alpha * b
    ),
}


def folding(
    weight: Callable[..., Tensor] | None = None, bias: Callable[..., Tensor] | None = None
) -> Callable[[nn.Conv2d, nn.BatchNorm2d], nn.Conv2d]:
    """fold_bn with another weight or bias."""

    def version(conv: nn.Conv2d, bn: nn.BatchNorm2d) -> nn.Conv2d:
        if conv.training or bn.training:
            raise RuntimeError("call .eval() first")
        w, b = folded(conv, bn)
        if weight is not None:
            w = weight(conv.weight.detach().double(), *numbers(bn))
        if bias is not None:
            b = bias(bias_of(conv), *numbers(bn))
        one = copy.deepcopy(conv)
        one.weight, one.bias = (nn.Parameter(part.to(conv.weight.dtype)) for part in (w, b))
        return one

    return version


WRONG["fold_bn"] = {said: folding(weight=weight) for said, weight in FOLDED_WEIGHTS.items()}
WRONG["fold_bn"] |= {said: folding(bias=bias) for said, bias in FOLDED_BIASES.items()}


def expect_folded(value: Any, conv: nn.Conv2d, bn: nn.BatchNorm2d, when: str) -> plain_data.Model:
    """The folded convolution is right; else the mistake that gives this result."""
    what = "the folded convolution"
    one = as_module(value, "Conv2d", f"{when}, the result")
    expect_settings(one, settings(conv), f"{when}, {what}")
    weight, bias = folded(conv, bn)
    expect_tensor(one.state["weight"], shape=weight.shape, what=f"{when}, the weight of {what}")
    mistakes = apply_each(FOLDED_WEIGHTS, conv.weight.detach().double(), *numbers(bn))
    recognise(one.state["weight"], weight, mistakes, f"{when}, ")
    expect_close(one.state["weight"], weight, f"{when}, the weight of {what}")
    mine = one.state.get("bias")
    if mine is None:
        fail(
            f"{when}, {what} has no bias. q must be part of the result, whether or not conv has a bias"
        )
    expect_tensor(mine, shape=bias.shape, what=f"{when}, the bias of {what}")
    recognise(mine, bias, apply_each(FOLDED_BIASES, bias_of(conv), *numbers(bn)), f"{when}, ")
    expect_close(mine, bias, f"{when}, the bias of {what}")
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


@question("4.2", points=1, claim="one convolution does the work of both, where conv has no bias")
def test_fold_without_bias(submission: Submission, draw: Draw) -> None:
    kernel = draw.choice([(2, 4), (4, 2)])
    conv, bn = draw.conv(3, draw.integer(5, 7), kernel, bias=False), draw.batch_norm(8)
    bn = draw.batch_norm(conv.out_channels)
    fold(submission, conv, bn, "for a convolution without bias")


@question("4.2", points=0.5, claim="and where it has one")
def test_fold_with_bias(submission: Submission, draw: Draw) -> None:
    m, kernel = draw.integer(5, 7), draw.choice([(2, 4), (4, 2)])
    conv, bn = draw.conv(3, m, kernel, stride=(1, 2), padding=(2, 1)), draw.batch_norm(m)
    fold(submission, conv, bn, "for a convolution with bias, stride and padding")


@question(
    "4.2", points=0.5, claim="training mode raises RuntimeError; conv and bn stay as they were"
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


# --- 4.3 remove_filters ---------------------------------------------------------------

NAMES = ("the first convolution", "the batch norm", "the next convolution")
LAYERS = ("the convolution", "the batch norm", "the next convolution")  # as the docstring has them


def chain(
    draw: Draw,
    bias: bool = True,
    first: dict[str, Any] | None = None,
    then: dict[str, Any] | None = None,
) -> Chain:
    """A convolution from 3 channels to 7 or more, its batch norm, and the next one, to
    5; no two sizes alike.
    """
    c = draw.integer(7, 10)
    return (
        draw.conv(3, c, (2, 4), bias=bias, **(first or {})),
        draw.batch_norm(c),
        draw.conv(c, 5, (4, 2), bias=bias, **(then or {})),
    )


def some_of(draw: Draw, n: int) -> list[int]:
    """Some of n channels, in order: neither the first ones nor as many as are
    removed.
    """
    for _ in range(500):
        keep = sorted(draw.distinct(draw.integer(3, n - 2), 0, n - 1))
        # chain's last convolution has 5 outputs: not all of these are kept channels, too
        first_five = set(range(5)) <= set(keep)
        if (
            keep != list(range(len(keep)))
            and 2 * len(keep) != n
            and keep[0] < len(keep)
            and not first_five
        ):
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


@question("4.3", points=0.5, claim="filters of conv and inputs of next_conv are gone, not zero")
def test_smaller_convolutions(submission: Submission, draw: Draw) -> None:
    layers = chain(draw)
    keep = some_of(draw, layers[1].num_features)
    small, _, small_next = remove(submission, layers, keep)
    expect_picked(small.state["weight"], layers[0].weight.detach(), keep, 0, NAMES[0], "filter")
    expect_picked(small_next.state["weight"], layers[2].weight.detach(), keep, 1, NAMES[2], "input")


@question("4.3", points=0.5, claim="the batch norm keeps its four vectors, cut like the filters")
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
    "4.3",
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


@question(
    "4.3",
    points=0.5,
    claim="arguments: a keep that is empty, not increasing or out of range raises ValueError",
)
def test_keep_is_checked(submission: Submission, draw: Draw) -> None:
    layers = chain(draw)
    n = layers[1].num_features
    keep = some_of(draw, n)
    small, _, small_next = remove(submission, layers, keep)
    expect_picked(small.state["weight"], layers[0].weight.detach(), keep, 0, NAMES[0], "filter")
    expect_picked(small_next.state["weight"], layers[2].weight.detach(), keep, 1, NAMES[2], "input")
    for bad, when in (
        ([], "an empty keep"),
        ([2, 1, 4], "a keep that is not in order ([2, 1, 4])"),
        ([1, 3, 3], "a keep with an index twice ([1, 3, 3])"),
        ([0, 2, n], f"a keep with the index {n} (of {n} channels the last is {n - 1})"),
        ([-1, 0, 2], "a keep with the index -1 (channels are counted from 0)"),
    ):
        expect_raises(ValueError, functools.partial(submission.remove_filters, *layers, bad), when)


# --- 4.4 absorb_removed ---------------------------------------------------------------


def shift_of(weight: Tensor, constant: Tensor, which: list[int]) -> Tensor:
    """The sum that constant channels add to each output, (M,), in float64."""
    return weight.double().sum((2, 3))[:, which] @ constant.double()[which]


def one_weight(weight: Tensor) -> dict[str, Tensor]:
    """A single place of each kernel instead of the whole."""
    M, C, R, S = weight.shape
    return {
        f"{r}, {s}": weight[:, :, r : r + 1, s : s + 1]
        for r in range(R)
        for s in range(S)
        if R * S > 1
    }


KEPT_TOO = "the constants of kept channels were included. Sum over the removed channels only"
IGNORED = "the shift is 0 for every output. The output of a removed channel is relu(β), not 0"
CUT_OFF = (
    "negative shifts were set to 0. The ReLU is applied before the next layer, not after its sum"
)
KERNEL_MEAN = (
    "the mean of the kernel was used. Each of its R·S weights is multiplied by the constant"
)
# from the weight (M, C, R, S), the right constant of each channel, and which are gone
REMOVED: Wrong = {
    IGNORED: lambda w, constant, gone: torch.zeros(len(w), dtype=torch.float64),
    "the constants of the kept channels were summed. Kept channels still compute their own output; sum over the removed channels": (
        lambda w, constant, gone: shift_of(w, constant, others(gone, w.shape[1]))
    ),
    KEPT_TOO: lambda w, constant, gone: shift_of(w, constant, list(range(w.shape[1]))),
    "the sign of the shift is wrong. The shift replaces the contribution of the removed channels": (
        lambda w, constant, gone: -shift_of(w, constant, gone)
    ),
    CUT_OFF: lambda w, constant, gone: shift_of(w, constant, gone).relu(),
    "|w| was summed. Sum the weights with their signs": (
        lambda w, constant, gone: shift_of(w.abs(), constant, gone)
    ),
    "the ReLU was applied to the summed weights. It is applied before them, to the output of the batch norm": (
        lambda w, constant, gone: shift_of(w.double().sum((2, 3), True).relu(), constant, gone)
    ),
    KERNEL_MEAN: lambda w, constant, gone: shift_of(w, constant, gone) / w[0, 0].numel(),
}


def wrong_shifts(weight: Tensor, constant: Tensor, gone: list[int]) -> dict[str, Tensor]:
    """What the shift is by mistake, given the right constant of each channel."""
    w = weight.detach().double()
    kernel = w[0, 0].numel() > 1
    mistakes: dict[str, Tensor] = apply_each(
        REMOVED if kernel else without(REMOVED, KERNEL_MEAN), w, constant, gone
    )
    for place, part in one_weight(w).items():
        said = f"only one weight of each kernel was used ({place}). All of its R·S weights are multiplied by the constant"
        mistakes[said] = shift_of(part, constant, gone)
    return mistakes


CONSTANTS: Wrong = {  # the assumed output of a removed channel, from α, β, μ, p, q
    "relu(q) was used as the constant. With α = 0, p is 0 too: what is q then?": (
        lambda alpha, beta, mu, p, q: q.relu()
    ),
    "q was used as the constant. With α = 0, p is 0 too: what is q then? And which layer is between bn and next_conv?": (
        lambda alpha, beta, mu, p, q: q
    ),
    "β was used as the constant. Which layer is between bn and next_conv?": (
        lambda alpha, beta, mu, p, q: beta
    ),
    "|β| was used as the constant. The ReLU sets negative values to 0": (
        lambda alpha, beta, mu, p, q: beta.abs()
    ),
    "β was divided by the standard deviation, as α is. With α = 0 the batch norm outputs β": (
        lambda alpha, beta, mu, p, q: (p * beta).relu()
    ),
    "α was added to β. A removed channel has α = 0": (
        lambda alpha, beta, mu, p, q: (alpha + beta).relu()
    ),
    "μ was used as the constant. With α = 0 the output does not depend on the input or on μ, only on β": (
        lambda alpha, beta, mu, p, q: mu.relu()
    ),
}


def giving(constant: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """absorb_removed with another constant."""

    def version(
        conv: nn.Conv2d, bn: nn.BatchNorm2d, next_conv: nn.Conv2d, keep: list[int]
    ) -> Tensor:
        alpha, beta, mu, var, eps = numbers(bn)
        p = alpha / (var + eps).sqrt()
        gone = others(keep, len(p))
        return shift_of(
            next_conv.weight.detach(), constant(alpha, beta, mu, p, beta - p * mu), gone
        )

    return version


def summing(shift: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """absorb_removed with the right constants, added up in another way."""

    def version(
        conv: nn.Conv2d, bn: nn.BatchNorm2d, next_conv: nn.Conv2d, keep: list[int]
    ) -> Tensor:
        beta = numbers(bn)[1]
        return shift(next_conv.weight.detach().double(), beta.relu(), others(keep, len(beta)))

    return version


def of_zero(conv: nn.Conv2d, bn: nn.BatchNorm2d, next_conv: nn.Conv2d, keep: list[int]) -> Tensor:
    """By mistake: the output of a channel for an input of 0."""
    constant = folded(conv, bn)[1].relu()
    return shift_of(next_conv.weight.detach(), constant, others(keep, len(constant)))


def new_bias(conv: nn.Conv2d, bn: nn.BatchNorm2d, next_conv: nn.Conv2d, keep: list[int]) -> Tensor:
    """By mistake: the shift, and the bias that was there."""
    return reference.absorb_removed(conv, bn, next_conv, keep).double() + bias_of(next_conv)


def relu_last(conv: nn.Conv2d, bn: nn.BatchNorm2d, next_conv: nn.Conv2d, keep: list[int]) -> Tensor:
    """By mistake: the ReLU of the sum."""
    beta = numbers(bn)[1]
    return shift_of(next_conv.weight.detach(), beta, others(keep, len(beta))).relu()


def on_a_map(look: Callable[[Tensor], Tensor]) -> Callable[..., Tensor]:
    """absorb_removed by a map of the constants, which is read where the padding
    is.
    """

    def version(
        conv: nn.Conv2d, bn: nn.BatchNorm2d, next_conv: nn.Conv2d, keep: list[int]
    ) -> Tensor:
        maps = maps_of(numbers(bn)[1], others(keep, bn.num_features))
        w, how = (
            next_conv.weight.detach().double(),
            (next_conv.stride, next_conv.padding, next_conv.dilation),
        )
        return look(F.conv2d(maps, w, None, *how))

    return version


OF_ZERO = "the constant is the output of the channel for an input of 0. With α = 0 the batch norm outputs β, for every output of conv"
NEW_BIAS = (
    "your function returned the new bias. It should return the shift, the amount to add to the bias"
)
INSIDE = "where zeros of the padding enter. At the border a part of the kernel covers the padding; in the middle all of the kernel covers the map"
CORNER, MAP_MEAN = (
    f"a corner of the map was used, {INSIDE}",
    f"the mean of the map was used, {INSIDE}",
)
WRONG["absorb_removed"] = {
    **{said: giving(constant) for said, constant in CONSTANTS.items()},
    "the ReLU is applied before next_conv, not after its sum": relu_last,
    **{said: summing(shift) for said, shift in REMOVED.items()},
    OF_ZERO: of_zero,
    NEW_BIAS: new_bias,
    CORNER: on_a_map(lambda maps: maps[0, :, 0, 0]),
    MAP_MEAN: on_a_map(lambda maps: maps.mean((0, 2, 3))),
}


def absorb_case(
    draw: Draw, then: dict[str, Any] | None = None, bias: bool | None = None
) -> Callable[[], tuple[Any, Tensor, Mistakes]]:
    """A chain and what to keep; the right shift; the mistakes."""

    def case() -> tuple[Any, Tensor, Mistakes]:
        layers = chain(draw, draw.choice([True, False]) if bias is None else bias, None, then)
        conv, bn, next_conv = layers
        keep = some_of(draw, bn.num_features)
        gone = others(keep, bn.num_features)
        constant = numbers(bn)[1].relu()
        # as another, or as the right answer
        same = [] if conv.bias is not None else [OF_ZERO, NEW_BIAS]
        same += [] if next_conv.padding != (0, 0) else [CORNER, MAP_MEAN]
        mistakes = apply_each(without(WRONG["absorb_removed"], *same), *layers, keep)
        mistakes |= wrong_shifts(next_conv.weight, constant, gone)
        return (layers, keep), shift_of(next_conv.weight.detach(), constant, gone), mistakes

    return case


def maps_of(beta: Tensor, gone: list[int], size: int = 16) -> Tensor:
    """Maps of the constants, (1, C, size, size), zero where kept."""
    maps = torch.zeros(1, len(beta), size, size, dtype=torch.float64)
    maps[:, gone] = beta[gone].relu().view(1, -1, 1, 1)
    return maps


def as_shift(value: Any, next_conv: nn.Conv2d) -> Tensor:
    """The value, if it has the form of a shift of the next layer's bias."""
    return expect_tensor(value, shape=(next_conv.out_channels,), what="the shift")


def expect_absorbed(
    submission: Submission, drawn: Any, right: Tensor, mistakes: Mistakes, when: str = ""
) -> None:
    """The shift is right; else the mistake whose result it is."""
    (conv, bn, next_conv), keep = drawn
    thought = "What does next_conv compute from a map that has the same number everywhere? conv.weight has shape (C, C_in, R, S), next_conv.weight has shape (M, C, R', S')"
    call = functools.partial(submission.absorb_removed, conv, bn, next_conv, keep)
    shift = as_shift(ask(call, when or f"with the channels {keep} kept,", thought), next_conv)
    recognise(shift, right, mistakes, f"{when} " if when else "")
    expect_close(shift, right, f"{when} the shift".strip())


@question("4.4", points=1, claim="Σ over removed channels of relu(β) times the sum of the kernel")
def test_constants_absorbed(submission: Submission, draw: Draw) -> None:
    for bias, when in ((True, "where both convolutions have a bias,"), (False, "")):
        drawn, right, mistakes = draw_discriminating_case(absorb_case(draw, bias=bias))
        expect_absorbed(submission, drawn, right, mistakes, when)


@question("4.4", points=0.5, claim="a vector without gradient; the modules stay as they were")
def test_form_of_the_shift(submission: Submission, draw: Draw) -> None:
    for bias in (True, False):
        layers = chain(draw, bias)
        keep = some_of(draw, layers[1].num_features)
        result, after = submission.call("absorb_removed", *layers, keep, returning=(0, 1, 2, 3))
        for layer, now, what in zip(layers, after[:3], LAYERS, strict=True):
            untouched(layer, now, what)
        if after[3] != keep:
            fail("your function changed the list keep that it was given")
        as_shift(result, layers[2])
        ref = submission.call("absorb_removed", *layers, keep, keep=True)
        if submission.get(ref, "requires_grad") is not False:
            fail(
                "the shift still depends on β and the weights in autograd. Return it without gradient (use .detach() or torch.no_grad())"
            )


# --- 4.5 slimming_penalty, select_channels --------------------------------------------


def block(draw: Draw, c: int, m: int, scale: float = 1.0) -> nn.Sequential:
    """Convolution, batch norm with α of about this scale, ReLU."""
    bn = draw.batch_norm(m)
    with torch.no_grad():
        bn.weight *= scale
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
        lambda model: [reference.bn_scale_shift(bn)[0].abs() for bn in norms(model).values()]
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


@question("4.5", points=0.5, claim="λ times the sum of |α| over all batch norms")
def test_penalty(submission: Submission, draw: Draw) -> None:
    lam = draw.choice([0.25, 0.03125, 2.0])
    given, _, _ = draw_case(
        lambda: (network(draw, (5, 3), (1.0, 0.5)), lam),
        lambda model, lam: lam * float(together(model).abs().sum()),
        without(WRONG["slimming_penalty"], OTHER_NORMS),
    )
    expect_penalty(submission, *given)


@question(
    "4.5",
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


def going(score: Tensor, count: int) -> Tensor:
    """True for all but the ``count`` smallest; of equal ones the first are pruned."""
    kept = torch.ones(len(score), dtype=torch.bool)
    kept[score.argsort(stable=True)[:count]] = False
    return kept


def split(kept: Tensor, like: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """One vector of bools cut into layers."""
    return dict(zip(like, kept.split([len(part) for part in like.values()]), strict=True))


def protected(keep: Mapping[str, Tensor], score: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """With the largest channel of each layer kept."""
    out = {}
    for name, mask in keep.items():
        out[name] = mask.clone()
        out[name][score[name].argsort(stable=True)[-1]] = True
    return out


def selected(score: Mapping[str, Tensor], count: int, protect: bool = True) -> dict[str, Tensor]:
    """The channels kept if ``count`` are pruned, with or without protection of each layer's
    last.
    """
    keep = split(going(torch.cat(list(score.values())), count), score)
    return protected(keep, score) if protect else keep


def as_selection(value: Any, model: nn.Module) -> dict[str, Tensor]:
    """The value, if it has the form of a selection; in the order of the model's
    layers.
    """
    names = norms(model)
    if not isinstance(value, dict):
        fail(
            f"the selection should be a dict from the name of each batch norm to its mask, it is {describe(value)}"
        )
    for key in value:
        if key not in names:
            if isinstance(key, str) and (key.removesuffix(".weight") in names):
                fail(
                    f"the key {key!r} is the name of a parameter. The key should be the name of the module, as in named_modules()"
                )
            if isinstance(key, str) and "norm" in key:
                fail(
                    f"the selection includes {key!r}, which is a GroupNorm. Select only from nn.BatchNorm2d"
                )
            fail(
                f"the key {key!r} is not the name of a batch norm. The key should be the name of the module, as in named_modules()"
            )
    if missing := [name for name in names if name not in value]:
        fail(
            f"the selection lacks {missing[0]!r}. Include every batch norm of the model, also inside other modules"
        )
    for name, bn in names.items():
        mask = value[name]
        if isinstance(mask, Tensor) and mask.dtype != torch.bool:
            fail(
                f"the mask of {name!r} holds {str(mask.dtype)[6:]} numbers. It should hold True or False for each channel"
            )
        expect_tensor(
            mask, shape=(bn.num_features,), dtype=torch.bool, what=f"the mask of {name!r}"
        )
    return {name: value[name] for name in names}


def select(submission: Submission, model: nn.Module, fraction: float) -> dict[str, Tensor]:
    """The student's selection, if it has its form."""
    call = functools.partial(submission.select_channels, model, fraction)
    thought = "Batch norms can be inside modules that are inside other modules. named_modules() lists all of them"
    return as_selection(
        ask(call, f"for a network of blocks and fraction {fraction},", thought), model
    )


def gone(keep: Mapping[str, Tensor]) -> int:
    """How many channels are not kept."""
    return sum(int((~mask).sum()) for mask in keep.values())


def expect_selection(
    mine: dict[str, Tensor], right: dict[str, Tensor], score: Mapping[str, Tensor], when: str = ""
) -> None:
    """The selection is the right one; else how it differs."""
    if near(mine, right):
        return
    for name, mask in mine.items():
        if not mask.any():
            fail(
                f"{when}all channels of {name!r} are pruned, so the layer passes no information on. Keep the largest |α| of each layer"
            )
        if not mask[score[name].argsort(stable=True)[-1]] and bool(right[name].sum() == 1):
            tied = bool((score[name][mask] == score[name].max()).any())
            if tied:
                fail(
                    f"{when}several |α| of {name!r} are equal and largest, and the wrong one is kept. Keep the one that would be pruned last"
                )
            fail(
                f"{when}all |α| of {name!r} are small. A channel of this layer is kept, but not the one with the largest |α|"
            )
        if mask.all() and bool(right[name].sum() == 1):
            fail(
                f"{when}all channels of {name!r} are kept, though all rank among those to prune. Keep only its largest |α|"
            )
        if bool(right[name].sum() == 1) and int(mask.sum()) > 1:
            fail(
                f"{when}all |α| of {name!r} are small enough to be pruned, but more than one channel is kept. Keep only its largest |α|"
            )
    if gone(mine) != gone(right):
        fail(f"{when}{gone(mine)} channels are pruned instead of {gone(right)}")
    together, flat = torch.cat(list(score.values())), torch.cat(list(mine.values()))
    largest, smallest = (
        together[~flat].max(),
        together[flat & torch.cat(list(right.values())).logical_not()].min(),
    )
    if largest > smallest:
        fail(
            f"{when}|α| = {largest:.4g} is pruned and |α| = {smallest:.4g} is kept. Prune the smallest first"
        )
    fail(f"{when}the number of pruned channels is right, but of equal |α| the wrong channels are pruned. Prune the first of them first, "
         "with layers in the order of named_modules(). argsort (without stable=True) and topk guarantee no order among equal values")  # fmt: skip


Scores = dict[str, Tensor]


def sizes_of(model: nn.Module) -> Scores:
    """|α| of each layer."""
    return {name: a.abs() for name, a in alphas(model).items()}


def filter_norms(model: nn.Module) -> Scores:
    """The L1 norm of each filter before a batch norm of :func:`network`."""
    convs = {name: model.get_submodule(f"{name.removesuffix('bn')}conv") for name in alphas(model)}
    return {name: conv.weight.detach().abs().sum((1, 2, 3)) for name, conv in convs.items()}


def share(model: nn.Module, fraction: float) -> int:
    """How many channels are to be pruned, apart from protection."""
    return round(fraction * len(together(model)))


def ranked(
    score: Callable[[nn.Module], Scores] = sizes_of, protect: bool = True, more: int = 0
) -> Callable[[nn.Module, float], dict[str, Tensor]]:
    """select_channels by another score, or with more or fewer channels."""
    return lambda model, fraction: selected(score(model), share(model, fraction) + more, protect)


def flattened(change: Callable[[Tensor], Tensor]) -> Callable[[nn.Module], Scores]:
    """|α|, changed layer by layer."""
    return lambda model: {name: change(size) for name, size in sizes_of(model).items()}


def vanishing(kept: Callable[[Tensor], int]) -> Callable[[nn.Module, float], dict[str, Tensor]]:
    """select_channels that keeps another channel of a layer that would vanish: one
    chosen from its α.
    """

    def version(model: nn.Module, fraction: float) -> dict[str, Tensor]:
        keep = selected(sizes_of(model), share(model, fraction), protect=False)
        for name, a in alphas(model).items():
            if not keep[name].any():
                keep[name][kept(a)] = True
        return keep

    return version


def endless(model: nn.Module) -> Scores:
    """|α|, without each layer's largest, which does not compete."""
    found = {name: size.clone() for name, size in sizes_of(model).items()}
    for size in found.values():
        size[size.argsort(stable=True)[-1]] = torch.inf
    return found


ONE_FEW = "one channel too few is pruned. Does the last channel to prune equal your threshold, so that it is kept?"
FEWER_COUNTED = "too few channels compete. n includes the largest channel of each layer"
COMPETING: Wrong = {
    "each layer lost the same fraction. The channels of all layers compete in one list": (
        lambda model, fraction: {
            name: going(size, round(fraction * len(size))) for name, size in sizes_of(model).items()
        }
    ),
    "channels were ranked by signed α, but α = -2 is a large scale. Rank by |α|": ranked(alphas),
    "channels were ranked by p = α/√(σ² + ε). Rank by |α|: the penalty shrinks α, and p also depends on σ²": ranked(
        lambda model: {
            name: reference.bn_scale_shift(bn)[0].abs() for name, bn in norms(model).items()
        }
    ),
    "channels were ranked by β. Rank by |α|": ranked(
        lambda model: {name: bn.bias.detach().abs() for name, bn in norms(model).items()}
    ),
    "channels were ranked by the L1 norms of their filters. This is another method; rank by |α| here": ranked(
        filter_norms
    ),
    "|α| was rescaled per layer before the comparison. Compare |α| without rescaling": ranked(
        flattened(lambda size: size / size.max())
    ),
    "the channels with the largest |α| are pruned. A channel with a small scale contributes little: prune these first": ranked(
        flattened(lambda size: -size), protect=False
    ),
    "the channels with the largest |α| are pruned, except one per layer. A channel with a small scale contributes little: prune these first": (
        lambda model, fraction: protected(
            selected(flattened(torch.neg)(model), share(model, fraction), protect=False),
            sizes_of(model),
        )
    ),
    UPSIDE_DOWN: lambda model, fraction: {
        name: ~mask for name, mask in ranked()(model, fraction).items()
    },
    "the number of kept channels should be the number of pruned channels. fraction is the fraction to prune": (
        lambda model, fraction: selected(
            sizes_of(model), round((1 - fraction) * len(together(model)))
        )
    ),
    ONE_FEW: ranked(more=-1),
    "one channel too many is pruned": ranked(more=1),
}
VANISHING: Wrong = {
    "all channels of a layer are pruned, so the layer passes no information on. Keep the largest |α| of each layer": ranked(
        protect=False
    ),
    "other channels are pruned instead of the protected ones. Do not replace protected channels: fewer channels than round(fraction · n) may be pruned": ranked(
        endless
    ),
    FEWER_COUNTED: (
        lambda model, fraction: selected(
            sizes_of(model), round(fraction * (len(together(model)) - len(norms(model))))
        )
    ),
    "in a layer where all |α| are small, the first channel is kept instead of the largest": vanishing(
        lambda a: 0
    ),
    "in a layer where all |α| are small, the last channel is kept instead of the largest": vanishing(
        lambda a: -1
    ),
    "in a layer where all |α| are small, the most positive α is kept instead of the largest |α|": vanishing(
        lambda a: int(a.argmax())
    ),
}
WRONG["select_channels"] = COMPETING | VANISHING


def expect_selected(
    submission: Submission,
    case: Callable[[], nn.Module],
    fraction: float,
    wrong: Wrong,
    when: str = "",
) -> None:
    """The kept channels are the right ones, in a network that distinguishes the table's
    mistakes from the right answer.
    """
    (model, _), right, mistakes = draw_case(lambda: (case(), fraction), ranked(), wrong)
    mine = select(submission, model, fraction)
    recognise(mine, right, mistakes)
    expect_selection(mine, right, sizes_of(model), when)


@question("4.5", points=1, claim="channels of all layers compete by |α|; the smallest go")
def test_channels_compete(submission: Submission, draw: Draw) -> None:
    fraction = draw.choice([0.4, 0.6])

    def case() -> nn.Module:
        model = network(
            draw, (6, 9, 5), draw.choice([(1.0, 0.4, 0.7), (0.5, 1.0, 0.4), (0.7, 0.4, 1.0)])
        )
        vanishes = not near(ranked()(model, fraction), ranked(protect=False)(model, fraction))
        return case() if vanishes else model  # that has a test of its own

    expect_selected(submission, case, fraction, COMPETING)


@question(
    "4.5", points=0.5, claim="each layer's largest stays, and no other channel goes in its place"
)
def test_no_layer_vanishes(submission: Submission, draw: Draw) -> None:
    def case() -> nn.Module:
        model = network(draw, (7, 5, 8), (1.0, 1e-3, 0.8))
        small = alphas(model)["body.bn"]
        largest = int(small.abs().argsort(stable=True)[-1])
        plain = largest in (0, len(small) - 1) or small[largest] > 0
        # its largest is negative, and neither the first nor the last
        return case() if plain else model

    expect_selected(submission, case, draw.choice([0.6, 0.7]), VANISHING)


# --- 4.6 cascade ----------------------------------------------------------------------


def cascade_case(
    draw: Draw, m: int, c: int, r: int, s: int
) -> tuple[Tensor, Tensor, Tensor, list[int]]:
    """keep, weights, constants (those of kept channels are large and unused), and the
    removed channels.
    """
    weight = draw.normal(m, c, r, s)
    gone = sorted(draw.distinct(draw.integer(2, c - 1), 0, c - 1))
    keep = torch.ones(c, dtype=torch.bool)
    keep[gone] = False
    constant = draw.sizes(c, 0.3, 3).float()
    constant[keep] *= 3
    constant[gone[0]] = 0  # as where β is negative
    return keep, weight, constant, gone


def as_cascade(value: Any, weight: Tensor) -> tuple[Any, Any]:
    """The mask and the shift."""
    if not isinstance(value, list | tuple) or len(value) != 2:
        fail(f"the result should be the tuple (mask, shift), it is {describe(value)}")
    mask, shift = value
    swapped = isinstance(shift, Tensor) and shift.dtype == torch.bool
    if swapped and isinstance(mask, Tensor) and mask.dtype != torch.bool:
        fail("mask and shift are in the wrong order: the mask comes first")
    return mask, shift


FILTERS = "whole filters (outputs, dimension 0) were marked useless. keep refers to the channels that next_weight reads, its dimension 1"
MASK_UPSIDE_DOWN = "the mask is inverted: True means useful"
GIVES_SOMETHING = (
    "weights that read a removed channel with a nonzero constant were marked useful. Their contribution is constant "
    "and belongs in the bias"
)
USEFUL: Wrong = {  # wrong masks
    MASK_UPSIDE_DOWN: lambda keep, weight, constant: ~mask_of(keep, weight),
    "every weight was marked useful, also weights that read a removed channel": (
        lambda keep, weight, constant: torch.ones_like(weight, dtype=torch.bool)
    ),
    GIVES_SOMETHING: lambda keep, weight, constant: mask_of(keep | (constant != 0), weight),
    "a weight of 0 was marked useless. A weight that reads a kept channel is useful, also if its value is 0": (
        lambda keep, weight, constant: mask_of(keep, weight) & (weight != 0)
    ),
}


def mask_of(keep: Tensor, weight: Tensor) -> Tensor:
    """(C,) for each weight, (M, C, R, S)."""
    return keep.view(1, -1, 1, 1).expand(weight.shape).clone()


def altered(
    mask: Callable[..., Tensor] | None = None, shift: Callable[..., Tensor] | None = None
) -> Callable[..., tuple[Tensor, Tensor]]:
    """cascade with another mask, from (keep, weight, constant), or another shift, from
    (weight, constant, gone).
    """

    def version(
        keep: Tensor, next_weight: Tensor, constant: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        useful, total = reference.cascade(keep, next_weight, constant)
        given = torch.zeros(len(keep)) if constant is None else constant
        if mask:
            useful = mask(keep, next_weight, given)
        if shift:
            total = shift(next_weight, given.double(), (~keep).nonzero().flatten().tolist())
        return useful, total.to(next_weight.dtype)

    return version


WRONG["cascade"] = {said: altered(mask=mask) for said, mask in USEFUL.items()}
WRONG["cascade"] |= {said: altered(shift=shift) for said, shift in REMOVED.items()}


def expect_useful(
    value: Any, keep: Tensor, weight: Tensor, constant: Tensor | None, when: str = ""
) -> None:
    """The mask is right; else the mistake whose result it is."""
    right = mask_of(keep, weight)
    if isinstance(value, Tensor) and value.dtype != torch.bool and value.shape == weight.shape:
        if near(value, weight * right):
            fail(
                f"{when}the mask holds weights. It should hold True for each useful weight and False for the others"
            )
        fail(
            f"{when}the mask holds numbers of dtype {str(value.dtype)[6:]}. It should be a bool tensor"
        )
    if isinstance(value, Tensor) and value.shape != weight.shape:
        said = f"{when}the mask has shape {tuple(value.shape)}, next_weight {tuple(weight.shape)}"
        fail(f"{said}: it has one entry for each weight")
    expect_tensor(value, shape=weight.shape, dtype=torch.bool, what=f"{when}the mask")
    given = torch.zeros(len(keep)) if constant is None else constant
    mistakes = apply_each(USEFUL, keep, weight, given)
    recognise(value, right, mistakes, when)
    if not torch.equal(value, right):
        if torch.equal(value.amin((1, 2, 3)), value.amax((1, 2, 3))):
            fail(f"{when}{FILTERS}")
        fail(
            f"{when}the mask is wrong. keep refers to the channels that next_weight (M, C, R, S) reads, its dimension 1"
        )


def expect_cascade_shift(
    value: Any, weight: Tensor, constant: Tensor, gone: list[int], when: str = ""
) -> None:
    """The shift is right; else the mistake whose result it is."""
    shift = expect_tensor(value, shape=(len(weight),), what=f"{when}the shift")
    right = shift_of(weight, constant, gone)
    recognise(shift, right, wrong_shifts(weight, constant, gone), when)
    expect_close(shift, right, f"{when}the shift")


def cascaded(submission: Submission, *arguments: Any, when: str = "") -> tuple[Any, Any]:
    """The student's mask and shift."""
    weight = arguments[1]
    thought = "keep and constant refer to the channels that next_weight (M, C, R, S) reads, its dimension 1"
    called = when or f"for a weight of shape {tuple(weight.shape)}, "
    return as_cascade(ask(lambda: submission.cascade(*arguments), called.strip(), thought), weight)


def sizes(draw: Draw) -> tuple[int, int, int, int]:
    """M, C, R, S, all different."""
    return draw.choice([(4, 6, 2, 3), (5, 7, 3, 2), (3, 8, 4, 2)])


@question("4.6", points=0.5, claim="useful = reads a kept channel, whatever the constants")
def test_useful_weights(submission: Submission, draw: Draw) -> None:
    keep, weight, constant, _ = cascade_case(draw, *sizes(draw))
    weight[0, int(keep.nonzero()[0])] = 0
    mask, _ = cascaded(submission, keep, weight, constant)
    expect_useful(mask, keep, weight, constant)


@question("4.6", points=0.5, claim="the rest add one number per filter: the shift")
def test_shift_of_the_useless(submission: Submission, draw: Draw) -> None:
    def case() -> known.Case:
        given = cascade_case(draw, *sizes(draw))
        return given, shift_of(*given[1:]), wrong_shifts(*given[1:])

    (keep, weight, constant, gone), _, _ = draw_discriminating_case(case)
    _, shift = cascaded(submission, keep, weight, constant)
    expect_cascade_shift(shift, weight, constant, gone)
    when = "where the constants of kept channels are NaN, "
    without = constant.masked_fill(keep, torch.nan)
    _, shift = cascaded(submission, keep, weight, without, when=when)
    if isinstance(shift, Tensor) and shift.is_floating_point() and shift.isnan().any():
        fail(
            f"{when}the shift is NaN, too. Do not use the constants of kept channels: 0 · NaN is NaN"
        )
    expect_cascade_shift(shift, weight, constant, gone, when)


@question(
    "4.6", points=0.5, claim="arguments: a keep or a constant of another form raises ValueError"
)
def test_cascade_arguments(submission: Submission, draw: Draw) -> None:
    keep, weight, constant, gone = cascade_case(draw, *sizes(draw))
    mask, shift = cascaded(submission, keep, weight, constant)
    expect_useful(mask, keep, weight, constant)
    expect_cascade_shift(shift, weight, constant, gone)
    for bad, when in (
        (
            (keep.nonzero().flatten(), weight, constant),
            "a keep of indices (it is a bool for each channel)",
        ),
        ((keep.long(), weight, constant), "a keep of the numbers 0 and 1 (it is bool)"),
        ((keep[:-1], weight, constant), "a keep of one channel too few"),
        ((keep, weight, constant[:-1]), "a constant of one channel too few"),
        ((keep, weight, constant[:1]), "one constant for all channels (it has one for each)"),
    ):
        expect_raises(ValueError, functools.partial(submission.cascade, *bad), when)


# --- 4.7 two short answers ------------------------------------------------------------


OPTIONS = 4  # of 4.7a


@question(
    "4.7",
    points=0,
    claim="a and b are letters (which ones are right is looked at when they are handed in)",
)
def test_form_of_the_answers(submission: Submission, draw: Draw) -> None:
    expect_choice(submission, "answer_4_7a", OPTIONS, {})
    expect_choice(submission, "answer_4_7b", 4, {})


# --- 4.8 find_bug ---------------------------------------------------------------------

PROMISE = "4.6 requires for a bool keep (C,), weights (M, C, R, S) and a constant (C,) or None"


def by_maps(
    keep: Tensor, next_weight: Tensor, constant: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """A right version that convolves maps of the constants, and relies on its
    arguments.
    """
    useful = keep.view(1, -1, 1, 1) & torch.ones_like(next_weight, dtype=torch.bool)
    if constant is None:
        return useful, next_weight.new_zeros(len(next_weight))
    maps = (
        constant.to(next_weight.dtype)
        .masked_fill(keep, 0)
        .view(1, -1, 1, 1)
        .expand(1, -1, *next_weight.shape[2:])
    )
    return useful, F.conv2d(maps, next_weight).flatten()


@question("4.8", points=0.5, claim="two plain bugs are found, and nothing right is accused")
def test_hunt_plain_bugs(submission: Submission, draw: Draw) -> None:
    expect_verdicts(
        submission,
        draw,
        "cascade",
        right={"the library's": reference.cascade, "one that convolves maps of constants": by_maps},
        wrong={
            "includes the constants of kept channels, too": WRONG["cascade"][KEPT_TOO],
            "ignores the constants": WRONG["cascade"][IGNORED],
        },
        promise=PROMISE,
    )
