"""Lab 04, structure: the claims that only the grader sees. The claims in the
notebook, and the sentences for both, are in visible.py.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from course_lib.grading import (
    Draw,
    Submission,
    ask,
    describe,
    expect_close,
    expect_keys,
    expect_tensor,
    fail,
    question,
    unchanged,
)
from course_lib.grading.claims.hunt import expect_verdicts
from course_lib.grading.claims.mistakes import near
from course_lib.grading.claims.rounding import (
    ROUNDINGS,
    TOO_FEW,
    TOO_MANY,
    Rounding,
    expect_rounded,
)
from course_lib.grading.claims.typed import expect_choice
from course_lib.labs import lab04 as reference
from course_lib.student_code import plain_data

from .visible import (
    CUT_OFF,
    FILTERS,
    GIVES_SOMETHING,
    KERNEL_MEAN,
    MASK_UPSIDE_DOWN,
    NAMES,
    OPTIONS,
    PROMISE,
    Wrong,
    absorb_case,
    alphas,
    altered,
    as_selection,
    as_shift,
    by_maps,
    cascade_case,
    cascaded,
    chain,
    draw_discriminating_case,
    expect_absorbed,
    expect_cascade_shift,
    expect_penalty,
    expect_scale_and_shift,
    expect_selected,
    expect_selection,
    expect_settings,
    expect_useful,
    fold,
    going,
    gone,
    mask_of,
    network,
    norms,
    others,
    protected,
    ranked,
    remove,
    select,
    selected,
    settings,
    share,
    shift_of,
    sizes,
    sizes_of,
    some_of,
    split,
    together,
)
from .visible import WRONG as SEEN

# --- 4.1 bn_scale_shift ---------------------------------------------------------------


@question("4.1", points=0.5, claim="ε is the batch norm's own, and counts where σ² is small or 0")
def test_small_variances(submission: Submission, draw: Draw) -> None:
    for eps in (draw.number(0.1, 0.5), draw.number(1e-4, 1e-3)):
        bn = draw.batch_norm(draw.integer(3, 5), eps=eps)
        assert bn.running_var is not None
        bn.running_var[draw.integer(0, bn.num_features - 1)] = 0
        expect_scale_and_shift(
            submission.bn_scale_shift(bn), bn, f"with ε = {eps:.2g} and a channel of σ² = 0, "
        )


# --- 4.2 fold_bn ----------------------------------------------------------------------


@question(
    "4.2", points=1, claim="with groups, and where all sizes are equal, p goes to the filters"
)
def test_fold_groups(submission: Submission, draw: Draw) -> None:
    n = draw.integer(3, 5)
    conv = draw.conv(n, n, (n, n), bias=draw.choice([True, False]))
    fold(submission, conv, draw.batch_norm(n), "with M = C = R = S")
    for c, m, groups, what in (
        (6, 4, 2, "with 2 groups"),
        (n, n, n, "for a depthwise convolution"),
        (2, 6, 2, "with 2 groups"),
    ):
        conv = draw.conv(c, m, (3, 2), groups=groups, bias=draw.choice([True, False]))
        fold(submission, conv, draw.batch_norm(m), what)


@question("4.2", points=1, claim="stride, padding, dilation, mode and dtype are those of conv")
def test_fold_settings(submission: Submission, draw: Draw) -> None:
    odd = {"stride": (2, 1), "padding": (1, 2), "dilation": (2, 3)}
    conv, bn = draw.conv(3, 5, (2, 3), **odd), draw.batch_norm(5)
    made = fold(submission, conv, bn, "for a convolution with stride, padding and dilation")
    if made.layer.training:
        fail(
            "the folded convolution is in training mode. A new module begins in training mode, so call .eval()"
        )
    around = draw.conv(
        3, 5, (2, 3), padding=(1, 2), padding_mode=draw.choice(["reflect", "circular", "replicate"])
    )
    fold(submission, around, bn, f"for a convolution with padding_mode={around.padding_mode!r}")
    double = {"dtype": torch.float64}
    conv, bn = draw.conv(3, 4, (2, 3), bias=False, **double), draw.batch_norm(4, **double)
    made = fold(submission, conv, bn, "in float64")
    for name, value in made.state.items():
        if value.dtype != torch.float64:
            said = f"from a float64 convolution your function made one with a {str(value.dtype)[6:]} {name}"
            fail(
                f"{said}: an input for the given convolution no longer fits the new one. New layers are float32 unless you pass a dtype"
            )


# --- 4.3 remove_filters ---------------------------------------------------------------


@question(
    "4.3",
    points=1,
    claim="biases, settings and modes are kept; the numbers of channels are updated",
)
def test_the_rest_of_the_layers(submission: Submission, draw: Draw) -> None:
    first, then = (
        {"stride": (2, 1), "padding": (0, 2), "dilation": (1, 2)},
        {"padding": (2, 1), "dilation": (3, 1)},
    )
    for bias, training in ((True, False), (False, True)):
        layers = chain(draw, bias, first, then)
        conv, bn, next_conv = (layer.train(training) for layer in layers)
        keep = some_of(draw, bn.num_features)
        small = remove(submission, (conv, bn, next_conv), keep)
        expect_bias(
            small[0], None if conv.bias is None else conv.bias.detach()[keep], conv.bias, NAMES[0]
        )
        gain = torch.zeros(5) if next_conv.bias is None else next_conv.bias.detach()
        gain = gain + reference.absorb_removed(conv, bn, next_conv, keep)
        expect_bias(
            small[2],
            None if next_conv.bias is None else next_conv.bias.detach(),
            next_conv.bias,
            NAMES[2],
            gain,
        )
        k = len(keep)
        changed = ({"out_channels": k}, {"num_features": k}, {"in_channels": k})
        for made, layer, what, new in zip(small, layers, NAMES, changed, strict=True):
            expect_settings(made, settings(layer, **new), what)
            if made.layer.training != training:
                modes = ["evaluation", "training"]
                said = f"{what} is returned in {modes[made.layer.training]} mode, but was given in {modes[training]} mode"
                fail(f"{said}. A new module begins in training mode")


def expect_bias(
    made: plain_data.Model,
    right: Tensor | None,
    old: Tensor | None,
    what: str,
    absorbed: Tensor | None = None,
) -> None:
    """The bias is right; one of zeros is as good as none."""
    mine = made.state.get("bias")
    if right is None and (mine is None or not mine.any()):
        return
    if absorbed is not None and near(mine, absorbed) and not near(mine, right):
        fail(
            f"your function added something to the bias of {what}. Absorbing removed channels is question 4.4; keep the values unchanged here"
        )
    if right is None:
        fail(f"the bias of {what} is not zero, though the layer given has none")
    if mine is None:
        fail(f"the bias of {what} is missing")
    if mine.shape != right.shape:
        fail(
            f"the bias of {what} has {mine.numel()} entries, but the layer has {right.numel()} filters. The bias has one entry per filter"
        )
    if not near(mine, right):
        fail(f"the bias of {what} does not belong to its filters")


# --- 4.4 absorb_removed ---------------------------------------------------------------


@question("4.4", points=1, claim="padding, stride and dilation do not matter inside the map")
def test_absorbed_with_padding(submission: Submission, draw: Draw) -> None:
    for then, what in (
        ({"padding": (2, 1)}, "padding"),
        ({"padding": (1, 1), "stride": (2, 3), "dilation": (2, 1)}, "padding, stride and dilation"),
    ):
        drawn, right, mistakes = draw_discriminating_case(absorb_case(draw, then))
        expect_absorbed(submission, drawn, right, mistakes, f"where next_conv has {what},")


@question("4.4", points=0.5, claim="0 where no β is positive, and where all channels are kept")
def test_nothing_to_absorb(submission: Submission, draw: Draw) -> None:
    layers = chain(draw)
    conv, bn, next_conv = layers
    n = bn.num_features
    keep = some_of(draw, n)
    with torch.no_grad():
        gone = others(keep, n)
        bn.bias[gone] = -bn.bias[gone].abs()
        # α + β and q = β - p·μ are 1: who takes them for the constant finds something
        bn.weight[gone] = 1 - bn.bias[gone]
        deviation = (bn.running_var[gone] + bn.eps).sqrt()
        bn.running_mean[gone] = (bn.bias[gone] - 1) * deviation / bn.weight[gone]
    for chosen, when in (
        (keep, "where no removed channel has β > 0,"),
        (list(range(n)), "when asked to keep all channels,"),
    ):
        call = functools.partial(submission.absorb_removed, *layers, chosen)
        shift = as_shift(
            ask(call, when, "Then there is nothing to absorb: a shift of 0 for each output"),
            next_conv,
        )
        if not near(shift, torch.zeros(next_conv.out_channels)):
            fail(
                f"{when} the shift is not 0. There is nothing to absorb: relu(β) of every removed channel is 0, or no channel is removed"
            )


# --- 4.5 slimming_penalty, select_channels --------------------------------------------


@question(
    "4.5",
    points=0.5,
    claim="all batch norms in nested modules; no other norm; the model is not changed",
)
def test_penalty_finds_batch_norms(submission: Submission, draw: Draw) -> None:
    lam = draw.number(0.1, 0.9)
    model = network(draw, (3, 5), (1.0, 0.5), distracting=True)
    expect_penalty(
        submission, model, lam, "for a network with a GroupNorm and blocks within blocks,"
    )
    _, (after,) = submission.call("slimming_penalty", model, lam, returning=(0,))
    untouched_model(model, after)


def untouched_model(before: nn.Module, after: Any) -> None:
    """The model that was given has its numbers and modes."""
    was = plain_data.describe(before)
    if not isinstance(after, plain_data.Model):
        fail(f"after the call the model is {describe(after)}")
    expect_keys(after.state, was.state, "after the call the model")
    for name, value in was.state.items():
        if not torch.equal(after.state[name], value):
            fail(
                f"your function changed {name} of the model that it was given. Work on a copy (`.abs()` makes a copy, `.abs_()` does not)"
            )
    if after.layer != was.layer:
        fail("your function changed the mode (train or eval) of the model that it was given")


def counted(way: Rounding) -> Callable[[nn.Module, float], dict[str, Tensor]]:
    """select_channels with another number of channels."""
    return lambda model, fraction: selected(sizes_of(model), way(fraction, len(together(model))))


def threshold(model: nn.Module, fraction: float) -> Tensor:
    """The |α| of the last channel to prune."""
    return together(model).abs().sort().values[max(share(model, fraction) - 1, 0)]


def last_first(model: nn.Module, fraction: float) -> dict[str, Tensor]:
    """By mistake: of equal ones the last is pruned first."""
    kept = going(together(model).abs().flip(0), share(model, fraction)).flip(0)
    return protected(split(kept, alphas(model)), sizes_of(model))


def by_name(model: nn.Module, fraction: float) -> dict[str, Tensor]:
    """By mistake: layers in the order of their names."""
    keep = selected(dict(sorted(sizes_of(model).items())), share(model, fraction))
    return {name: keep[name] for name in norms(model)}


APART = "A threshold cannot distinguish equal values"
TIED: Wrong = {
    f"of equal |α| too many channels are pruned: all that equal the threshold. {APART}": (
        lambda model, fraction: protected(
            {name: size > threshold(model, fraction) for name, size in sizes_of(model).items()},
            sizes_of(model),
        )
    ),
    f"of equal |α| too few channels are pruned: all that equal the threshold are kept. {APART}": (
        lambda model, fraction: {
            name: size >= threshold(model, fraction) for name, size in sizes_of(model).items()
        }
    ),
    "of equal |α| the last channel is pruned. Prune the first of them": last_first,
    "of equal |α| the channel of the alphabetically first layer is pruned. Use the layer order of named_modules()": by_name,
}
WRONG: dict[str, Wrong] = {
    "select_channels": {
        said: counted(way)
        for said, way in ROUNDINGS.items()
        if said not in (TOO_FEW, TOO_MANY)  # the visible claims name these
    }
    | TIED,
    "cascade": {FILTERS: altered(mask=lambda keep, weight, constant: of_filters(keep, weight))},
}


def of_filters(keep: Tensor, weight: Tensor) -> Tensor:
    """By mistake: filters where inputs are meant, if there are as many of both."""
    return (
        keep.view(-1, 1, 1, 1).expand_as(weight).clone()
        if len(weight) == len(keep)
        else mask_of(keep, weight)
    )


@question(
    "4.5",
    points=0.5,
    claim="exactly round(fraction · n) compete; among equal |α| the first is pruned first",
)
def test_counts_and_ties(submission: Submission, draw: Draw) -> None:
    fraction = draw.choice([0.375, 0.5, 0.625])  # of 64, so that nothing is rounded

    def case() -> nn.Module:
        model = network(draw, (20, 25, 19), (1.0, 1.0, 1.0))
        with torch.no_grad():
            for bn in norms(model).values():
                bn.weight.copy_(draw.tied(bn.num_features))
                bn.weight[draw.integer(0, bn.num_features - 1)] = 9
        return model

    expect_selected(submission, case, fraction, TIED, "where some |α| are equal, ")

    cases = [
        (0.5, 9),
        (0.5, 11),
        (0.3, 4 + 10 * draw.integer(1, 2)),
        (0.3, 6 + 10 * draw.integer(1, 2)),
        (0.5, 13),
    ]
    counts = []
    for fraction, n in cases:
        model = network(draw, (3, n - 3), (3.0, 1.0))
        with torch.no_grad():  # no largest of a layer is among those to prune
            for bn in norms(model).values():
                bn.weight[0] = 100
        counts.append(gone(select(submission, model, fraction)))
    expect_rounded(counts, cases, "fraction", "channels are pruned")

    model = network(draw, (6, 5), (1.0, 1.0))
    with torch.no_grad():
        norms(model)["body.bn"].weight.copy_(torch.tensor([0.01, -0.02, 0.02, -0.02, 0.01]))
    mine, when = select(submission, model, 0.5), "where a layer's largest |α| are equal, "
    expect_selection(mine, ranked()(model, 0.5), sizes_of(model), when)


@question(
    "4.5", points=0.5, claim="none, all, and no more; only BatchNorm2d; the model is not changed"
)
def test_selection_ends(submission: Submission, draw: Draw) -> None:
    model = network(draw, (6, 3), (1.0, 0.3), distracting=True)
    result, (after,) = submission.call("select_channels", model, 0.5, returning=(0,))
    as_selection(result, model)
    untouched_model(model, after)
    for fraction, thought in (
        (0.0, "Then all channels are kept"),
        (1.0, "Then the largest |α| of each layer is kept"),
    ):
        when = f"with fraction {fraction:g},"
        mine = as_selection(
            ask(functools.partial(submission.select_channels, model, fraction), when, thought),
            model,
        )
        if fraction == 0 and gone(mine):
            fail(
                f"{when} {gone(mine)} channels are pruned, but none should be. With k = 0, index k - 1 is the last element and [-k:] selects all elements"
            )
        expect_selection(mine, ranked()(model, fraction), sizes_of(model), f"{when} ")


# --- 4.6 cascade ----------------------------------------------------------------------


@question(
    "4.6",
    points=0.5,
    claim="no constant, all or none kept, equal sizes, 1x1 kernels, float64; nothing given changes",
)
def test_cascade_of_odd_layers(submission: Submission, draw: Draw) -> None:
    n = draw.integer(3, 5)
    for shape, what in (
        ((n, n, n, n), f"for {n} filters of {n} channels, {n} by {n}, "),
        ((4, 6, 1, 1), "for 1x1 kernels, "),
    ):
        keep, weight, constant, gone = cascade_case(draw, *shape)
        mask, shift = cascaded(submission, keep, weight, constant, when=what)
        expect_useful(mask, keep, weight, constant, what)
        expect_cascade_shift(shift, weight, constant, gone, what)
    keep, weight, constant, gone = cascade_case(draw, *sizes(draw))
    given = [keep, weight, constant]
    _, after = submission.call("cascade", *given, returning=(0, 1, 2))
    for value, now, name in zip(given, after, ("keep", "next_weight", "the constant"), strict=True):
        unchanged(value, now, name)
    c = len(keep)
    for dtype, what in (
        (torch.float32, "without constant, "),
        (torch.float64, "without constant, in float64, "),
    ):
        mask, shift = cascaded(submission, keep, weight.to(dtype), when=what)
        expect_useful(mask, keep, weight, None, what)
        expect_tensor(shift, shape=(len(weight),), dtype=dtype, what=f"{what}the shift")
        if shift.any():
            fail(f"{what}the shift is not 0. None means that removed channels output 0")
    for kept, what in (
        (torch.ones(c).bool(), "where all channels are kept, "),
        (torch.zeros(c).bool(), "where none is kept, "),
    ):
        mask, shift = cascaded(submission, kept, weight, constant, when=what)
        expect_useful(mask, kept, weight, None, what)
        expect_close(
            shift,
            shift_of(weight, constant, (~kept).nonzero().flatten().tolist()),
            f"{what}the shift",
        )
    double = [weight.double(), constant.double()]
    _, shift = cascaded(submission, keep, *double, when="in float64, ")
    expect_tensor(shift, shape=(len(weight),), dtype=torch.float64, what="in float64, the shift")


# --- 4.7 two short answers ------------------------------------------------------------

MISREAD = {  # by the order in the lab's source
    1: "recalibration trains no weight, so nothing was learned in it. What did recalibration change?",
    2: "recalibration trains no weight. How many of the lost points came back without any training?",
    3: "compare the points lost by pruning with the intervals over seeds",
}


@question("4.7", points=0.5, claim="a: the part of the network that pruning had disturbed")
def test_what_was_broken(submission: Submission, draw: Draw) -> None:
    expect_choice(submission, "answer_4_7a", OPTIONS, MISREAD)


@question("4.7", points=0.5, claim="b: what the intervals permit")
def test_what_intervals_permit(submission: Submission, draw: Draw) -> None:
    misread = {
        0: "the interval of the digits contains 0, so the sign of the difference is open",
        1: "an interval that contains 0 also contains a difference of 1 point. Does it show that they are equal?",
        3: "a mean above 0 is not enough. What do the intervals contain?",
    }
    expect_choice(submission, "answer_4_7b", 4, misread)


# --- 4.8 find_bug ---------------------------------------------------------------------


def by_loops(
    keep: Tensor, next_weight: Tensor, constant: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """A right version that goes through the channels, and relies on its arguments."""
    useful, shift = (
        torch.zeros_like(next_weight, dtype=torch.bool),
        next_weight.new_zeros(len(next_weight)),
    )
    for i, kept in enumerate(keep.tolist()):
        useful[:, i] = kept
        if not kept and constant is not None:
            shift += next_weight[:, i].sum((1, 2)) * float(constant[i])
    return useful, shift


@question("4.8", points=0.5, claim="six subtle bugs are found, and no right version is accused")
def test_hunt_subtle_bugs(submission: Submission, draw: Draw) -> None:
    expect_verdicts(
        submission,
        draw,
        "cascade",
        right={
            "the library's": reference.cascade,
            "one that loops": by_loops,
            "one that convolves maps of constants": by_maps,
        },
        wrong={
            "returns the inverted mask": SEEN["cascade"][MASK_UPSIDE_DOWN],
            "takes the mean of the kernel where the sum is right": SEEN["cascade"][KERNEL_MEAN],
            "marks weights useful that read a removed channel with a nonzero constant": SEEN[
                "cascade"
            ][GIVES_SOMETHING],
            "marks filters instead of inputs where there are as many of both": WRONG["cascade"][
                FILTERS
            ],
            "sets negative shifts to 0": SEEN["cascade"][CUT_OFF],
            "returns one bool per channel instead of one per weight": altered(
                mask=lambda keep, *_: keep.clone()
            ),
        },
        promise=PROMISE,
    )
