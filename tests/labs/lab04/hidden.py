"""Lab 04, structure: the claims that only the grader sees. The claims in the
notebook, and the sentences for both, are in visible.py.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from course_lib.grading import (
    Draw,
    Submission,
    describe,
    expect_keys,
    fail,
    question,
)
from course_lib.grading.claims.mistakes import near
from course_lib.grading.claims.typed import expect_choice
from course_lib.labs import lab04 as reference
from course_lib.student_code import plain_data

from .visible import (
    FILTERS,
    NAMES,
    OPTIONS,
    Wrong,
    altered,
    cascaded,
    chain,
    draw_layer,
    expect_penalty,
    expect_settings,
    expect_shift,
    expect_useful,
    fold,
    mask_of,
    network,
    remove,
    settings,
    some_of,
)

# --- 4.1 fold_bn ----------------------------------------------------------------------


@question("4.1", points=0.5, claim="ε is the batch norm's own, and counts where σ² is small or 0")
def test_small_variances(submission: Submission, draw: Draw) -> None:
    for eps in (draw.number(0.1, 0.5), draw.number(1e-4, 1e-3)):
        m = draw.integer(3, 5)
        conv, bn = draw.conv(2, m, (1, 2)), draw.batch_norm(m, eps=eps)
        assert bn.running_var is not None
        bn.running_var[draw.integer(0, m - 1)] = 0
        fold(submission, conv, bn, f"with ε = {eps:.2g} and a channel of σ² = 0")


@question(
    "4.1", points=1, claim="with groups, and where all sizes are equal, p goes to the filters"
)
def test_fold_groups(submission: Submission, draw: Draw) -> None:
    n = draw.integer(3, 5)
    fold(submission, draw.conv(n, n, (n, n)), draw.batch_norm(n), "with M = C = R = S")
    for c, m, groups, bias, what in (
        (6, 4, 2, True, "with 2 groups"),
        (n, n, n, False, "for a depthwise convolution"),
        (2, 6, 2, False, "with 2 groups"),
    ):
        conv = draw.conv(c, m, (3, 2), groups=groups, bias=bias)
        fold(submission, conv, draw.batch_norm(m), what)


@question("4.1", points=1, claim="stride, padding, dilation, mode and dtype are those of conv")
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


# --- 4.2 remove_filters ---------------------------------------------------------------


@question("4.2", points=0.5, claim="biases are cut with their filters, and only with these")
def test_biases(submission: Submission, draw: Draw) -> None:
    for bias in (True, False):
        conv, bn, next_conv = layers = chain(draw, bias)
        keep = some_of(draw, bn.num_features)
        small, _, small_next = remove(submission, layers, keep)
        first, then = (None if c.bias is None else c.bias.detach() for c in (conv, next_conv))
        expect_bias(small, None if first is None else first[keep], NAMES[0])
        kept = torch.zeros(bn.num_features, dtype=torch.bool)
        kept[keep] = True
        _, shift = reference.cascade(kept, next_conv.weight, bn.bias.detach())
        expect_bias(small_next, then, NAMES[2], shift if then is None else then + shift)


@question("4.2", points=1, claim="settings and modes are kept; the numbers of channels are updated")
def test_settings_and_modes(submission: Submission, draw: Draw) -> None:
    first, then = (
        {"stride": (2, 1), "padding": (0, 2), "dilation": (1, 2)},
        {"padding": (2, 1), "dilation": (3, 1)},
    )
    for training in (False, True):
        layers = chain(draw, True, first, then)
        for layer in layers:
            layer.train(training)
        keep = some_of(draw, layers[1].num_features)
        small, k = remove(submission, layers, keep), len(keep)
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
    what: str,
    absorbed: Tensor | None = None,
) -> None:
    """The bias is right; one of zeros is as good as none."""
    mine = made.state.get("bias")
    if right is None and (mine is None or not mine.any()):
        return
    if absorbed is not None and near(mine, absorbed) and not near(mine, right):
        fail(
            f"your function added something to the bias of {what}. Absorbing removed channels is question 4.3; keep the values unchanged here"
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


# --- 4.3 cascade ----------------------------------------------------------------------


def of_filters(keep: Tensor, weight: Tensor, beta: Tensor) -> Tensor:
    """By mistake: filters where inputs are meant, if there are as many of both."""
    if len(weight) != len(keep):
        return mask_of(keep, weight)
    return keep.view(-1, 1, 1, 1).expand_as(weight).clone()


WRONG: dict[str, Wrong] = {"cascade": {FILTERS: altered(mask=of_filters)}}


@question("4.3", points=1, claim="also where all sizes are equal, and for 1x1 kernels")
def test_cascade_of_other_layers(submission: Submission, draw: Draw) -> None:
    n = draw.integer(5, 6)
    for shape, what in (
        ((n, n, n, n), f"for {n} filters of {n} channels, {n} by {n}, "),
        ((4, 6, 1, 1), "for 1x1 kernels, "),
    ):
        layer = draw_layer(draw, *shape)
        useful, shift = cascaded(submission, layer, what)
        expect_useful(useful, layer, what)
        expect_shift(shift, layer, what)


@question("4.3", points=1, claim="with all or no channels kept, and where no β is positive")
def test_ends_of_the_cascade(submission: Submission, draw: Draw) -> None:
    keep, weight, beta, gone = draw_layer(draw)
    c = len(keep)
    for kept, betas, removed, what in (
        (torch.ones(c).bool(), beta, [], "where all channels are kept, "),
        (torch.zeros(c).bool(), beta, list(range(c)), "where no channel is kept, "),
        (keep, -beta.abs(), gone, "where no β is positive, "),
    ):
        layer = (kept, weight, betas, removed)
        useful, shift = cascaded(submission, layer, what)
        expect_useful(useful, layer, what)
        expect_shift(shift, layer, what)


# --- 4.4 slimming_penalty -------------------------------------------------------------


@question(
    "4.4",
    points=1,
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


# --- 4.5 a short answer ---------------------------------------------------------------


@question("4.5", points=1, claim="what the removal of channels had broken")
def test_what_was_broken(submission: Submission, draw: Draw) -> None:
    misread = {  # by the order in the lab's source
        0: "recalibration trains no weight, so nothing was learned in it. What did recalibration change?",
        1: "recalibration trains no weight. How many of the lost points came back without any training?",
        3: "absorbing the constants of layer 4 alone gave a gain that we could not detect. Which repair gave most of the accuracy back?",
    }
    expect_choice(submission, "answer_4_5", OPTIONS, misread)
