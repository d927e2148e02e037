"""Lab 09: the claims that only the grader sees."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn

from course_lib.grading import (
    Draw,
    Submission,
    expect_close,
    expect_equal,
    expect_int,
    expect_length,
    fail,
    question,
)
from course_lib.grading.claims.expect import ask
from course_lib.grading.claims.hunt import expect_verdicts
from course_lib.grading.claims.mistakes import near
from course_lib.grading.claims.student import StudentError
from course_lib.grading.claims.typed import expect_choice
from course_lib.labs import lab09 as reference

from .visible import (
    BEST_OF_GONE,
    MOST_IMPORTANT,
    PROMISE,
    RANDOM_OF_GONE,
    RIGHT,
    Dropped,
    Retrained,
    Scripted,
    as_places,
    bert,
    drawn_masks,
    expect_gated,
    expect_joint,
    expect_search,
    expect_taken,
    expect_three,
    inputs,
    logits,
    of_table,
    on_output,
    sample_losses,
    search,
    taken,
    within,
)

# --- 9.1 layerdrop --------------------------------------------------------------------


@question(
    "9.1",
    points=1,
    claim="the same names inside, nothing left after the block, also after an exception",
)
def test_nothing_of_layerdrop_stays(submission: Submission, draw: Draw) -> None:
    run = Dropped(submission, draw, 0.5, [0, 1, 2, 1])
    if run.inside != run.names:
        fail(
            "inside the block the names in the state dict differ from those outside: do not wrap a layer in another module, because this changes its names"
        )
    if list(run.after.state) != run.names:
        fail("after the block the names in the state dict differ from those before it")
    if submission.get(run.hooks, "count"):
        fail("after the block a layer still has a hook or an own attribute `forward`: remove it")
    context = submission.call(
        "layerdrop", run.there, 1.0, submission.helper("generator", seed=1), keep=True
    )
    with submission.within(context, raising=True):
        pass
    if submission.get(run.hooks, "count"):
        fail(
            "after an exception in the block a layer still has a hook or an own attribute `forward`: put try … finally around the yield"
        )
    x = draw.normal(6, 4)
    if near(submission.call("0", x, on=run.there), x, tolerance=1e-6):
        fail(
            "after an exception in the block a layer is still skipped: put try … finally around the yield"
        )


@question(
    "9.1",
    points=0.5,
    claim="p = 0 and 1; layers in evaluation mode among others draw nothing; all chance is the generator's",
)
def test_chance_of_layerdrop(submission: Submission, draw: Draw) -> None:
    for p in (0.0, 1.0, draw.number(0.4, 0.6)):
        Dropped(submission, draw, p, [0, 1, 0, 2]).expect(p)
    layers = nn.ModuleList(nn.Linear(3, 3) for _ in range(3)).train()
    layers[1].eval()
    for module in layers.parameters():
        module.data = draw.normal(*module.shape)
    seed = draw.integer(0, 10**6)
    there = submission.put(layers)
    submission.call("1.eval", on=there, keep=True)
    numbers = torch.Generator().manual_seed(seed)
    chance = submission.helper("chance")
    was = submission.get(chance, "state")
    with within(submission, "layerdrop", there, 0.5, submission.helper("generator", seed=seed)):
        for i in (0, 1, 2, 1, 0, 1, 2, 0, 2):
            x = draw.normal(2, 3)
            out = submission.call(str(i), x, on=there)
            skipped = i != 1 and float(torch.rand((), generator=numbers)) < 0.5
            with torch.no_grad():
                right = x if skipped else layers[i](x)
            if not near(out, right):
                fail(
                    "one of three layers was in evaluation mode, and a call returned the wrong result: test the mode of *this layer*, not of all "
                    "layers; a layer in evaluation mode draws no number"
                )
    if not torch.equal(submission.get(chance, "state"), was):
        fail("torch's global generator was used: draw every number from the argument `generator`")


@question("9.1", points=0.5, claim="inside a BERT, whose layers take further arguments")
def test_layerdrop_in_a_model(submission: Submission, draw: Draw) -> None:
    model, batch = bert(draw, 4, 2), draw.texts(3, 5)
    for layer in model.get_submodule("bert.encoder.layer"):
        # it alone: what is in it, dropout above all, stays in evaluation mode
        layer.training = True
    there = submission.put(model)
    path = "bert.encoder.layer"
    seed = next(
        s
        for s in iter(lambda: draw.integer(0, 10**6), -1)
        if 1 <= int((torch.rand(4, generator=torch.Generator().manual_seed(s)) < 0.5).sum()) <= 3
    )
    layers = submission.call(f"{path}.requires_grad_", on=there, keep=True)
    with within(submission, "layerdrop", layers, 0.5, submission.helper("generator", seed=seed)):
        out = ask(
            lambda: submission.call("__call__", on=there, keep=True, **inputs(batch)),
            "when a BERT was called inside the block,",
            "Its layers are called with further arguments (positional and by keyword): pass all of them to the layer",
        )
        value = submission.get(out, "logits")
    with (
        torch.no_grad(),
        reference.layerdrop(
            model.get_submodule(path),
            0.5,
            torch.Generator().manual_seed(seed),  # type: ignore[arg-type]
        ),
    ):
        right = model(**inputs(batch)).logits
    expect_close(value, right, "the output of a BERT with some layers skipped", tolerance=1e-4)


# --- 9.2 layers_to_keep, take_layers --------------------------------------------------


@question("9.2", points=0.5, claim="layers_to_keep of every depth")
def test_every_depth(submission: Submission, draw: Draw) -> None:
    layers = draw.integer(5, 13)
    for depth in range(1, layers + 1):
        expect_equal(
            as_places(submission.layers_to_keep(layers, depth)),
            reference.layers_to_keep(layers, depth),
            f"layers_to_keep({layers}, {depth})",
        )


@question(
    "9.2",
    points=0.5,
    claim="take_layers of models without a configuration, at a path of one part; nothing is shared",
)
def test_take_layers_elsewhere(submission: Submission, draw: Draw) -> None:
    model = nn.Sequential()
    model.add_module("blocks", nn.ModuleList(nn.Linear(3, 3) for _ in range(7)))
    model.add_module("head", nn.Linear(3, 2))
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(draw.normal(*p.shape))
    for depth in (3, 7, 1):
        there, result, found = taken(submission, model, "blocks", depth)
        expect_taken(found, model, "blocks", depth)
        submission.call("blocks.0.weight.data.fill_", 7.0, on=result, keep=True)
        submission.call("head.weight.data.fill_", 7.0, on=result, keep=True)
        state = submission.get(there).state
        if any(not torch.equal(state[n], p) for n, p in model.state_dict().items()):
            fail(
                "the copy shares weights with the model that was given: a change of one is a change of the other"
            )
    whole = draw.bert(4, 2)
    there, result, found = taken(submission, whole, "bert.encoder.layer", 4)
    expect_taken(found, whole, "bert.encoder.layer", 4)


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
    value = submission.call(
        "joint_importance",
        there,
        submission.helper("stream", values=batches),
        submission.helper("losses"),
    )
    right = reference.joint_importance(copy.deepcopy(model), batches, sample_losses)
    for found, want, name in zip(value, right, ("heads", "parts"), strict=True):
        expect_close(
            found.double(),
            want,
            f"from batches as a stream, the importance of {name}",
            tolerance=1e-4,
        )
    if submission.get(there, "training") is not True:
        fail(
            "the model was in training mode before the call and is in evaluation mode after it: restore the mode"
        )
    if submission.get(there, "classifier.weight.grad") is not None:
        fail(
            "a parameter has a .grad after the call: .backward() fills the .grad of all parameters; torch.autograd.grad(…, [xi, nu]) fills none"
        )
    if submission.get(hooks, "count"):
        fail("after the call a hook is still registered in the model")


# --- 9.4 prune_while ------------------------------------------------------------------


@question(
    "9.4",
    points=0.5,
    claim="other numbers of layers and heads, small and large steps, until nothing is left",
)
def test_other_searches(submission: Submission, draw: Draw) -> None:
    for layers, heads, step in ((7, 2, 0.1), (2, 3, 0.1), (3, 4, 0.35)):
        expect_search(submission, draw, layers, heads, step, name_mistakes=False)
    script = Scripted(draw, 2, 3, turn=4)
    value = search(submission, script.evaluate, script.importance, 2, 3, 0.0, 0.3)
    if bool(value[-1][0].any()) or bool(value[-1][1].any()):
        fail(
            "with share = 0 the search goes on until no head and no part is left, and here it ended before"
        )
    gone = [int((~xi).sum()) for xi, _, _ in value]
    expect_equal(
        gone,
        [0, 2, 4, 6, 6][: len(gone)],
        "how many of 6 heads are gone after each round, at step 0.3",
    )
    expect_equal(
        [int((~nu).sum()) for _, nu, _ in value],
        [0, 1, 1, 2],
        "how many of 2 parts are gone, at step 0.3",
    )


@question(
    "9.4",
    points=0.5,
    claim="scores may be tensors; of equal ones the lower index goes; masks handed out are nobody else's",
)
def test_masks_of_the_search(submission: Submission, draw: Draw) -> None:
    # more than 16 equal numbers: fewer are sorted stably by any sort of torch
    layers, heads = 5, 4

    def evaluate(xi: Tensor, nu: Tensor) -> Tensor:
        return torch.tensor(40.0 + float(xi.sum()) + float(nu.sum()))

    for scores in (
        (torch.ones(layers, heads), torch.ones(layers)),
        (draw.tied(layers, heads, levels=2).abs(), torch.ones(layers)),
    ):

        def importance(xi: Tensor, nu: Tensor, scores: Any = scores) -> Any:
            return scores

        right = reference.prune_while(evaluate, importance, layers, heads, 0.8, 0.17)  # type: ignore[arg-type]
        value = search(submission, evaluate, importance, layers, heads, 0.8, 0.17)
        if len(value) != len(right):
            fail(
                f"where evaluate returns tensors the list has {len(value)} entries, and should have {len(right)}"
            )
        for r, ((xi, nu, _), (x, n, _)) in enumerate(zip(value, right, strict=True)):
            if not torch.equal(xi, x) or not torch.equal(nu, n):
                fail(
                    f"round {r}: with equal scores other elements are gone than should be: the lower index goes first, and what is gone stays gone"
                )
    drawn = [torch.rand(layers, heads, generator=draw.generator), draw.normal(layers).abs()]
    helpers = (
        submission.helper("writes_into_masks"),
        submission.helper("writes_into_masks", scores=drawn),
    )
    value = search(submission, *helpers, layers, heads, 0.4, 0.2)
    right = reference.prune_while(
        lambda xi, nu: float(xi.sum() + nu.sum()),
        lambda xi, nu: (drawn[0], drawn[1]),
        layers,
        heads,
        0.4,
        0.2,
    )
    if len(value) != len(right) or any(
        not torch.equal(xi, x) or not torch.equal(nu, n)
        for (xi, nu, _), (x, n, _) in zip(value, right, strict=True)
    ):
        fail(
            "evaluate and importance wrote into the masks they were given, and the rounds are others then: give each a copy, and keep your own"
        )


# --- 9.5 subnetworks, retrain ---------------------------------------------------------


@question(
    "9.5",
    points=0.5,
    claim="more survivors than not: bad takes the least important of them; nothing given is changed",
)
def test_three_of_many(submission: Submission, draw: Draw) -> None:
    expect_three(submission, draw, 0.75, False)
    expect_three(submission, draw, 0.6, False)
    expect_three(submission, draw, 0.2, False)


@question(
    "9.5",
    points=0.5,
    claim="what training made stays; `pretrained` is not touched; no gate is left, also after an exception",
)
def test_after_retraining(submission: Submission, draw: Draw) -> None:
    run = Retrained(submission, draw)
    if run.call(submission) is not None:
        fail("retrain works in place and returns None")
    state = submission.get(run.there).state
    for name, p in run.start.items():
        if not near(state[name], p + run.amount, tolerance=1e-4):
            fail(
                f"after retrain {name!r} is not what train made of it: work on the model that is given, and leave it to `train`"
            )
    given = submission.get(run.pretrained)
    if any(not torch.equal(given[name], p) for name, p in run.before.items()):
        fail(
            "`pretrained` was trained along: the model's parameters are the same tensors now. Copy the values"
        )
    if submission.get(run.hooks, "count"):
        fail("after retrain a hook stays in the model")
    run = Retrained(submission, draw, raising=True)
    try:
        run.call(submission)
    except StudentError:
        pass
    else:
        fail("train raised RuntimeError, and retrain kept it to itself")
    if submission.get(run.hooks, "count"):
        fail("after an exception in train a hook stays in the model")


# --- 9.6 survival ---------------------------------------------------------------------


@question(
    "9.6",
    points=0.5,
    claim="one seed, one task, one dimension; unlike shapes raise; exactly `tasks` is not below",
)
def test_survival_at_the_edges(submission: Submission, draw: Draw) -> None:
    for seeds, tasks, shape in ((1, 3, (4,)), (4, 1, (2, 3, 2)), (2, 5, (3, 3))):
        masks = drawn_masks(draw, seeds, tasks, *shape)
        found = submission.survival(masks)
        expect_length(found, 2, "survival(masks)")
        for i, name in enumerate(("mean", "std")):
            right = reference.survival(masks)[i]
            expect_close(found[i], right, f"for {seeds} seeds and {tasks} tasks, the {name}")
    kept = torch.tensor([True, True, False, False])
    masks = [[kept, ~kept], [kept, torch.zeros(4, dtype=torch.bool)]]
    for below in (0, 0.5, 1, 2):
        expect_close(
            submission.survivors_below(masks, below),
            reference.survivors_below(masks, below),
            f"the share whose mean count, of 1 and ½, is less than {below}",
        )


# --- 9.7 overlap, fleiss_kappa --------------------------------------------------------


@question(
    "9.7", points=0.5, claim="overlap of masks with nothing or everything kept; Python's numbers"
)
def test_overlap_at_the_edges(submission: Submission, draw: Draw) -> None:
    none, every, some = (
        torch.zeros(3, 4, dtype=torch.bool),
        torch.ones(3, 4, dtype=torch.bool),
        draw.mask(3, 4),
    )
    for a, b in ((none, some), (every, some), (none, none), (every, every)):
        value = submission.overlap(a, b)
        expect_close(
            value,
            reference.overlap(a, b),
            f"overlap of {int(a.sum())} and {int(b.sum())} kept of 12",
        )
        expect_int(value[0], "the number shared")


@question(
    "9.7",
    points=0.5,
    claim="kappa of two masks, of equal ones, of less agreement than chance; 1.0 where chance is 1",
)
def test_kappa_at_the_edges(submission: Submission, draw: Draw) -> None:
    a = draw.mask(9)
    a[0], a[1] = True, False
    for masks, said in (
        (torch.stack([a, a, a]), "three equal masks"),
        (torch.stack([a, ~a]), "two masks that disagree everywhere"),
        (torch.zeros(3, 5, dtype=torch.bool), "masks that keep nothing"),
        (torch.ones(2, 1, dtype=torch.bool), "masks that keep all"),
        (torch.stack([draw.mask(20, kept=0.8) for _ in range(5)]), "five masks"),
    ):
        right = reference.fleiss_kappa(masks)
        expect_close(submission.fleiss_kappa(masks), right, f"kappa of {said}")


# --- 9.8, 9.9 -------------------------------------------------------------------------


@question("9.8", points=0.5, claim="a: what training with missing layers teaches each of them")
def test_why(submission: Submission, draw: Draw) -> None:
    expect_choice(
        submission,
        "answer_9_8a",
        4,
        {
            0: "both models' layers have the same size; nothing but which calls are skipped differs",
            1: "both were trained for the same 300 steps",
            2: "the plain model, cut in the same places, falls by more than 20 points: they were not useless there",
        },
    )


@question("9.8", points=0.5, claim="b: what the intervals permit")
def test_what_intervals_permit(submission: Submission, draw: Draw) -> None:
    misread = {
        0: "the interval contains 0, but also a difference of 10 points. Does it show that there is none?",
        1: "the interval of GLUE contains 0, so the sign of the difference is open",
        2: "an interval that contains 0 also contains other differences. Does it show that they are equal?",
    }
    expect_choice(submission, "answer_9_8b", 4, misread)


@question(
    "9.9", points=0.5, claim="three more wrong versions are found, and nothing right is accused"
)
def test_hunt_more(submission: Submission, draw: Draw) -> None:
    expect_verdicts(
        submission,
        draw,
        "subnetworks",
        RIGHT,
        of_table(BEST_OF_GONE, MOST_IMPORTANT, RANDOM_OF_GONE),
        PROMISE,
    )
