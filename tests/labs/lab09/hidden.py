"""Lab 09: the claims that only the grader sees."""

from __future__ import annotations

import copy
from functools import partial

import torch
from torch import Tensor, nn

from course_lib.grading import (
    Draw,
    Submission,
    expect_close,
    expect_equal,
    expect_int,
    fail,
    question,
)
from course_lib.grading.claims.expect import ask
from course_lib.grading.claims.mistakes import near, same
from course_lib.grading.claims.typed import expect_choice
from course_lib.labs import lab09 as reference

from .visible import (
    FURTHER,
    Dropped,
    Scripted,
    as_places,
    bert,
    drawn_calls,
    expect_gated,
    expect_joint,
    expect_rounds,
    expect_three,
    inputs,
    logits,
    on_output,
    sample_losses,
    search,
    searched,
    within,
)

# --- 9.1 layerdrop --------------------------------------------------------------------

STAYS = "a layer still has a hook or an own attribute `forward`"
FINALLY = "put try … finally around the yield"


@question(
    "9.1",
    points=0.5,
    claim="the same names inside, nothing left after the block, also after an exception",
)
def test_nothing_of_layerdrop_stays(submission: Submission, draw: Draw) -> None:
    run = Dropped(submission, draw, 0.5, [0, 1, 2, 0])
    if run.inside != run.names:
        fail(
            "inside the block the names in the state dict differ from those outside: do not wrap a layer in another module, because this changes its names"
        )
    if run.after != run.names:
        fail("after the block the names in the state dict differ from those before it")
    if submission.get(run.hooks, "count"):
        fail(f"after the block {STAYS}: remove it")
    for layer in ("0", "2"):
        if submission.call(f"{layer}.__dict__.__contains__", "forward", on=run.there):
            fail(
                "after the block a layer has an attribute `forward` of its own, which hides its class's method: delete it"
            )
    context = submission.call(
        "layerdrop", run.there, 1.0, submission.helper("generator", seed=1), keep=True
    )
    with submission.within(context, raising=True):
        pass
    if submission.get(run.hooks, "count"):
        fail(f"after an exception in the block {STAYS}: {FINALLY}")
    x = draw.normal(6, 4)
    if near(submission.call("0", x, on=run.there), x, tolerance=1e-6):
        fail(f"after an exception in the block a layer is still skipped: {FINALLY}")


@question(
    "9.1",
    points=0.5,
    claim="p = 0 and 1; layers in evaluation mode among others draw nothing; all chance is the generator's",
)
def test_chance_of_layerdrop(submission: Submission, draw: Draw) -> None:
    for p in (0.0, 1.0):
        Dropped(submission, draw, p, [0, 1, 0, 2]).expect(p)
    layers = nn.ModuleList(nn.Linear(3, 3) for _ in range(3)).train()
    for parameter in layers.parameters():
        parameter.data = draw.normal(*parameter.shape)
    calls = 4 * [0, 1, 2, 1, 0, 1, 2, 0, 2]
    seed, skips = drawn_calls(draw, 0.5, [i for i in calls if i != 1])
    numbers = iter(skips)
    there = submission.put(layers)
    chance = submission.helper("chance")
    was = submission.get(chance, "state")
    outputs = []
    with within(submission, "layerdrop", there, 0.5, submission.helper("generator", seed=seed)):
        submission.call("1.eval", on=there, keep=True)
        for i in calls:
            x = draw.normal(2, 3)
            outputs.append((i, x, submission.call(str(i), x, on=there)))
    if not torch.equal(submission.get(chance, "state"), was):
        fail("torch's global generator was used: draw every number from the argument `generator`")
    for call, (i, x, out) in enumerate(outputs):
        said = f"layers 0 and 2 are in training mode, and layer 1 was set to evaluation mode inside the block. Call {call}, of layer {i}, "
        skip = i != 1 and next(numbers)
        with torch.no_grad():
            ran = layers[i](x)
        if not near(out, x) and not near(out, ran):
            fail(
                f"{said}returned neither its input nor the layer's output: a call is skipped for the whole batch, and nothing is rescaled"
            )
        if not near(out, x if skip else ran):
            fail(
                f"{said}was {'not ' * skip}skipped: test the mode of *this layer* when it is called; each call of a layer in training mode "
                "draws a number, and a call in evaluation mode none"
            )


@question("9.1", points=0.5, claim="inside a BERT, whose layers take further arguments")
def test_layerdrop_in_a_model(submission: Submission, draw: Draw) -> None:
    model, batch = bert(draw, 4, 2), draw.texts(3, 5)
    path = "bert.encoder.layer"
    layers: nn.ModuleList = model.get_submodule(path)
    for layer in layers:
        # it alone: what is in it, dropout above all, stays in evaluation mode
        layer.training = True
    there = submission.put(model)
    theirs = submission.call(f"{path}.requires_grad_", on=there, keep=True)
    for p, which in ((0.0, "no"), (1.0, "every")):
        with within(submission, "layerdrop", theirs, p, submission.helper("generator", seed=1)):
            out = ask(
                lambda: submission.call("__call__", on=there, keep=True, **inputs(batch)),
                "when a BERT was called inside the block,",
                FURTHER,
            )
            value = submission.get(out, "logits")
        with torch.no_grad(), reference.layerdrop(layers, p, torch.Generator()):
            right = model(**inputs(batch)).logits
        expect_close(
            value, right, f"the output of a BERT with {which} layer skipped", tolerance=1e-4
        )


# --- 9.2 layers_to_keep ---------------------------------------------------------------


@question("9.2", points=0.5, claim="every depth")
def test_every_depth(submission: Submission, draw: Draw) -> None:
    layers = draw.integer(5, 13)
    for depth in range(1, layers + 1):
        expect_equal(
            as_places(submission.layers_to_keep(layers, depth)),
            reference.layers_to_keep(layers, depth),
            f"layers_to_keep({layers}, {depth})",
        )


# --- 9.3 gated_mlps, joint_importance -------------------------------------------------


@question(
    "9.3",
    points=0.5,
    claim="gates for each sample; gradients flow; nothing is left after an exception",
)
def test_gates_of_samples(submission: Submission, draw: Draw) -> None:
    expect_gated(submission, draw, 3, 3)
    model, batch = bert(draw, 2, 2), draw.texts(3, 4)
    there = submission.put(model)
    hooks = submission.helper("hooks", model=there)
    for shape in ((2,), (2, 3)):
        nu, weight = 0.3 + torch.rand(*shape, generator=draw.generator), draw.normal(3, 3)
        own = nu.clone().requires_grad_()
        with reference.gated_mlps(model, own):
            (right,) = torch.autograd.grad((model(**inputs(batch)).logits * weight).sum(), own)
        leaf = submission.put(nu, requires_grad=True)
        with within(submission, "gated_mlps", there, leaf):
            out = submission.call("__call__", on=there, keep=True, **inputs(batch))
            submission.backward(submission.call("logits.clone", on=out, keep=True), weight)
        gradient = submission.grad(leaf)
        if gradient is None:
            fail(
                "no gradient reaches ν: use the tensor itself in the hook, not .detach(), .item() or torch.no_grad()"
            )
        expect_close(gradient, right, f"the gradient of gates {shape}", tolerance=1e-4)
    context = submission.call("gated_mlps", there, torch.zeros(2), keep=True)
    with submission.within(context, raising=True):
        pass
    if submission.get(hooks, "count"):
        fail(
            "after an exception in the block a hook is still registered: remove hooks in a finally block or with an ExitStack"
        )
    value = submission.get(
        submission.call("__call__", on=there, keep=True, **inputs(batch)), "logits"
    )
    expect_close(
        value,
        logits(model, batch, on_output, torch.ones(2)),
        "the model's output after the blocks",
        tolerance=1e-4,
    )


@question(
    "9.3",
    points=0.5,
    claim="the same for any batch size; from a stream; mode and .grad stay as they were",
)
def test_joint_leaves_the_model(submission: Submission, draw: Draw) -> None:
    expect_joint(submission, draw, (1, 4), True)
    model = bert(draw, 2, 4).train()
    batches = [draw.texts(3, 5), draw.texts(2, 4)]
    there = submission.put(model)
    hooks = submission.helper("hooks", model=there)
    out = submission.call("__call__", on=there, keep=True, **inputs(batches[0]))
    submission.backward(submission.call("logits.sum", on=out, keep=True))
    before = submission.get(there, "classifier.weight.grad")
    value = submission.call(
        "joint_importance",
        there,
        submission.helper("stream", values=batches),
        submission.helper("losses"),
    )
    right = reference.joint_importance(copy.deepcopy(model), batches, sample_losses)
    for found, want, name in zip(value, right, ("heads", "blocks"), strict=True):
        expect_close(
            found.double(),
            want,
            f"from batches as a stream, the importance of {name}",
            tolerance=1e-4,
        )
    if not same(submission.get(there, "classifier.weight.grad"), before):
        fail(
            "the .grad of a parameter is another one after the call: .backward() adds to the .grad of all parameters, and zero_grad deletes it; torch.autograd.grad(…, [xi, nu]) changes none"
        )
    if submission.get(hooks, "count"):
        fail("after the call a hook is still registered in the model")


# --- 9.4 prune_while ------------------------------------------------------------------


@question(
    "9.4",
    points=0.5,
    claim="counts that are rounded, at least one head per round, until nothing is left",
)
def test_to_the_end(submission: Submission, draw: Draw) -> None:
    for layers, heads, step in ((7, 2, 0.12), (4, 5, 0.3), (2, 2, 0.1)):
        script, how = Scripted(draw, layers, heads), (layers, heads, 0.0, step)
        said = f"for {layers} layers of {heads} heads, share = 0, step = {step}: "
        right = searched(copy.deepcopy(script), *how)
        value = ask(
            partial(search, submission, script.evaluate, script.importance, *how),
            said[:-2],
            "Near the end, fewer heads or blocks are kept than a round prunes",
        )
        expect_rounds(value, right, said)


TIES = ". Of equal scores, the lower index is pruned first: prune_lowest does so, a plain argsort or topk need not"


@question(
    "9.4",
    points=0.5,
    claim="of equal scores the lower index is pruned first; masks handed out are copies; exactly the share is enough",
)
def test_masks_of_the_search(submission: Submission, draw: Draw) -> None:
    # more than 64 equal scores, so that a sort that is not stable shows
    layers, heads = 72, 2

    calls = []

    def evaluate(xi: Tensor, nu: Tensor) -> float:
        calls.append(xi)
        return float(xi.sum() + nu.sum()) if len(calls) < 80 else -1.0  # a search ends here

    # after four rounds, exactly half is kept
    how = (layers, heads, 0.5, 1 / 8)
    tied = draw.tied(layers, heads, levels=2).abs().float(), torch.ones(layers)
    for scores in (tied, (torch.ones(layers, heads), tied[0][:, 0].clone())):
        right = reference.prune_while(evaluate, lambda xi, nu, s=scores: s, *how)  # type: ignore[misc]
        value = search(submission, evaluate, lambda xi, nu, s=scores: s, *how)
        expect_rounds(value, right, "with many equal scores, ", hint=TIES)
    helpers = (submission.helper("writes_into_masks", **s) for s in ({}, {"scores": list(tied)}))
    value = search(submission, *helpers, *how)
    right = reference.prune_while(evaluate, lambda xi, nu: tied, *how)
    if len(value) != len(right) or any(
        not torch.equal(mask, want)
        for one, other in zip(value, right, strict=True)
        for mask, want in zip(one[:2], other[:2], strict=True)
    ):
        fail(
            "evaluate and importance wrote into the masks they were given, and the rounds are others then: give each a copy, and keep your own"
        )


# --- 9.5 subnetworks ------------------------------------------------------------------


@question(
    "9.5",
    points=1,
    claim="more survivors than not: bad takes the least important of them; nothing given is changed",
)
def test_three_of_many(submission: Submission, draw: Draw) -> None:
    expect_three(submission, draw, 20, 5)
    expect_three(submission, draw, 17, 2)


# --- 9.6 overlap ----------------------------------------------------------------------


@question("9.6", points=0.5, claim="masks with nothing or everything kept; an int and a float")
def test_overlap_at_the_edges(submission: Submission, draw: Draw) -> None:
    none = torch.zeros(12, dtype=torch.bool)
    some = draw.mask(12)
    for a, b in ((none, some), (~none, some), (none, none), (~none, ~none)):
        value = submission.overlap(a, b)
        expect_close(
            value,
            reference.overlap(a, b),
            f"overlap of {int(a.sum())} and {int(b.sum())} kept of 12",
        )
        expect_int(value[0], "the number shared")


# --- 9.7 two short answers ------------------------------------------------------------


@question("9.7", points=0.5, claim="a: what training with missing layers teaches each of them")
def test_why(submission: Submission, draw: Draw) -> None:
    misread = {
        0: "both models' layers have the same size; nothing but which calls are skipped differs",
        1: "both were trained for the same 300 steps",
        2: "the plain model starts from the same network and, cut in the same places, loses 25 points. Would it lose so many if these layers were useless?",
    }
    expect_choice(submission, "answer_9_7a", 4, misread)


@question("9.7", points=0.5, claim="b: what the intervals permit")
def test_what_intervals_permit(submission: Submission, draw: Draw) -> None:
    misread = {
        0: "look at good minus bad on the same task: does its interval contain 0?",
        1: "look at good minus random on that task: does its interval contain 0?",
        2: "an interval that contains 0 also contains other differences. Does it show that they are equal?",
    }
    expect_choice(submission, "answer_9_7b", 4, misread)
