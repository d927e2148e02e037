"""Lab 09, depth and subnetworks: what is claimed of each answer, and its likely
mistakes, each written once as a wrong function.

Inputs are drawn anew for every grading: layers that change when they run, feed-forward
parts with biases, importance that turns round on the way, scores that do not agree with
what survived.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from course_lib.grading import (
    Draw,
    Proxy,
    Submission,
    describe,
    expect_close,
    expect_equal,
    expect_int,
    expect_keys,
    expect_length,
    expect_number,
    expect_raises,
    expect_refused,
    expect_tensor,
    fail,
    question,
)
from course_lib.grading.claims.expect import ask
from course_lib.grading.claims.hunt import Version, expect_verdicts
from course_lib.grading.claims.mistakes import (
    Case,
    Exercises,
    draw_case,
    draw_discriminating_case,
    expect_form,
    near,
    recognise,
)
from course_lib.grading.claims.student import Ref
from course_lib.grading.claims.typed import expect_choice
from course_lib.labs import lab09 as reference
from course_lib.models.mlps import mlp_outputs
from course_lib.student_code import plain_data

Batch = dict[str, Tensor]
Masks = tuple[Tensor, Tensor]
close = partial(near, tolerance=1e-4)
WRONG: dict[str, dict[str, Callable[..., Any]]] = {}
exercises = Exercises(reference, WRONG)

# --- 9.1 layerdrop --------------------------------------------------------------------

WITH = "layerdrop must work in a `with` statement: keep @contextmanager above it, and yield exactly once"


@contextmanager
def within(submission: Submission, name: str, *arguments: Any) -> Iterator[None]:
    """Inside the student's ``with name(…):``."""
    context = submission.call(name, *arguments, keep=True)
    block = submission.within(context)
    ask(block.__enter__, f"at the beginning of `with {name}(…):`", WITH.replace("layerdrop", name))
    yield
    block.__exit__(None, None, None)


class Dropped:
    """Calls of layers inside the student's block, beside what should come of them.

    Each layer is a linear one and a batch norm behind it, whose statistics say whether
    it ran.
    """

    def __init__(
        self,
        submission: Submission,
        draw: Draw,
        p: float,
        order: Sequence[int],
        training: bool = True,
    ) -> None:
        width = 4
        layers = nn.ModuleList(
            nn.Sequential(nn.Linear(width, width), nn.BatchNorm1d(width, momentum=None))
            for _ in range(max(order) + 1)
        )
        with torch.no_grad():
            for q in layers.parameters():
                q.copy_(draw.normal(*q.shape))
        seed = draw.integer(0, 10**6)
        draws = torch.rand(len(order), generator=torch.Generator().manual_seed(seed)).tolist()
        self.there = submission.put(layers.train(training))
        self.hooks = submission.helper("hooks", model=self.there)
        self.names = list(layers.state_dict())
        self.skipped = [training and d < p for d in draws]
        self.inputs = [draw.normal(6, width) for _ in order]
        self.outputs: list[Tensor] = []
        self.inside: list[str] = []
        self.right: list[Tensor] = []
        self.last: list[Tensor] = []  # where every call runs the last layer
        last = copy.deepcopy(layers[-1])
        generator = submission.helper("generator", seed=seed)
        with within(submission, "layerdrop", self.there, p, generator):
            for i, x in zip(order, self.inputs, strict=True):
                value = ask(
                    partial(submission.call, str(i), x, on=self.there),
                    "inside the block, when a layer was called,",
                    "A layer can be called with further arguments (positional and by keyword): pass all of them to the layer",
                )
                self.outputs.append(
                    expect_tensor(value, shape=x.shape, what="what a layer returns")
                )
            state = submission.get(self.there)
            self.inside = list(state.state) if isinstance(state, plain_data.Model) else []
        untouched = torch.Generator().manual_seed(seed).get_state()
        self.drawn = not torch.equal(submission.call("get_state", on=generator), untouched)
        for i, x, skip in zip(order, self.inputs, self.skipped, strict=True):
            with torch.no_grad():
                self.right.append(x if skip else layers[i](x))
                self.last.append(x if skip else last(x))
        self.ran = [int(layer[1].num_batches_tracked) for layer in layers]  # type: ignore[index, arg-type]
        after = submission.get(self.there)
        self.did_run = [int(after.state[f"{i}.1.num_batches_tracked"]) for i in range(len(layers))]
        self.after = after

    def same(self, one: Sequence[Tensor], other: Sequence[Tensor]) -> bool:
        return all(near(a, b, tolerance=1e-4) for a, b in zip(one, other, strict=True))

    def expect(self, p: float) -> None:
        """Each call returned what it should."""
        if self.same(self.outputs, self.right):
            return
        self.expect_own_layers()
        if p < 1 and any(
            near(out, x / (1 - p), tolerance=1e-4) or near(out, r / (1 - p), tolerance=1e-4)
            for out, x, r in zip(self.outputs, self.inputs, self.right, strict=True)
            if not near(out, r, tolerance=1e-4)
        ):
            fail("a result was divided by 1 − p: LayerDrop rescales nothing")
        skipped = [
            near(out, x, tolerance=1e-6) for out, x in zip(self.outputs, self.inputs, strict=True)
        ]
        if any(
            bool((out == x).all(1).any()) and not bool((out == x).all())
            for out, x in zip(self.outputs, self.inputs, strict=True)
        ):
            fail(
                "some samples of a batch skipped the layer and others did not: draw one number per call, for the whole batch"
            )
        if 0 < p < 1 and (all(skipped) or not any(skipped)):
            fail(
                f"with p = {p:g}, {'all' if all(skipped) else 'none'} of {len(skipped)} calls skipped the layer: draw a new number for *each* call of each layer"
            )
        if skipped == [not s for s in self.skipped]:
            fail(
                "each layer runs with probability p, but p is the probability that it is *skipped*"
            )
        if skipped != self.skipped:
            fail(
                f"calls {[i for i, s in enumerate(skipped) if s]} were skipped, but the numbers of `generator` skip calls {[i for i, s in enumerate(self.skipped) if s]}: draw one "
                "torch.rand((), generator=generator) per call, in the order of the calls, and skip the call if it is < p"
            )
        for call, (out, right) in enumerate(zip(self.outputs, self.right, strict=True)):
            expect_close(out, right, f"what call {call} returns", tolerance=1e-4)

    def expect_own_layers(self) -> None:
        """Not every call ran the last layer."""
        if self.same(self.outputs, self.last) and not self.same(self.outputs, self.right):
            fail(
                "every call runs the last layer: a function defined in a loop reads the loop's variables when it is *called*, and then they are those of "
                "the last layer. Define it inside another function that gets the layer as an argument"
            )


@question(
    "9.1",
    points=1.5,
    claim="in training mode each call is skipped with probability p, by one number of the generator",
)
def test_layers_are_dropped(submission: Submission, draw: Draw) -> None:
    order = [0, 1, 2, 3, 0, 1, 2, 3, 2, 0, 3, 1]
    p = draw.choice([0.3, 0.6])
    run = Dropped(submission, draw, p, order)
    for _ in range(50):
        if 2 <= sum(run.skipped) <= len(order) - 2:
            break
        run = Dropped(submission, draw, p, order)
    run.expect(p)
    if run.did_run != run.ran:
        fail(
            "a skipped layer still ran (its batch norm statistics changed): decide before you call the layer, and do not call it if it is skipped"
        )


@question("9.1", points=0.5, claim="in evaluation mode nothing is drawn or skipped")
def test_nothing_is_dropped_in_evaluation(submission: Submission, draw: Draw) -> None:
    run = Dropped(submission, draw, 1.0, [0, 1, 0], training=False)
    run.expect_own_layers()
    if any(near(out, x) for out, x in zip(run.outputs, run.inputs, strict=True)):
        fail("a layer in evaluation mode was skipped: skip only layers in training mode")
    if not run.same(run.outputs, run.right):
        fail(
            "a layer in evaluation mode returned another result than outside the block: in evaluation mode draw nothing, skip nothing and rescale nothing"
        )
    if run.drawn:
        fail(
            "a number was drawn for a layer in evaluation mode: test `layer.training` first, and draw only if it is True"
        )


# --- 9.2 layers_to_keep, take_layers --------------------------------------------------

FIRST = "these are the first layers: they are to be evenly spaced"
STEPPED = "a fixed step of layers // depth was taken: the layers are ⌊i · layers / depth⌋"
ROUNDED = "i · layers / depth was rounded to the nearest: round it down, ⌊i · layers / depth⌋"
LAST_IN = "the last layer is always kept here: keep the layers ⌊i · layers / depth⌋, of which the first is always one"
FROM_ONE = "i runs from 1: let it run from 0, so that the first layer is kept"

WRONG["layers_to_keep"] = {
    FIRST: lambda layers, depth: list(range(depth)),
    STEPPED: lambda layers, depth: list(range(0, layers, layers // depth)),
    ROUNDED: lambda layers, depth: [math.floor(i * layers / depth + 0.5) for i in range(depth)],
    LAST_IN: lambda layers, depth: [
        math.floor(i * (layers - 1) / max(1, depth - 1)) for i in range(depth)
    ],
    FROM_ONE: lambda layers, depth: [
        min(layers - 1, i * layers // depth) for i in range(1, depth + 1)
    ],
}


def as_places(value: Any) -> list[int]:
    if not isinstance(value, list | tuple):
        fail(f"the layers to keep are a list of ints, it is {describe(value)}")
    return [expect_int(i, "a layer") for i in value]


@question("9.2", points=0.5, claim="layers_to_keep: ⌊i · layers / depth⌋ for i = 0 … depth − 1")
def test_layers_to_keep(submission: Submission, draw: Draw) -> None:
    def depths() -> tuple[int, int]:
        layers = draw.integer(9, 20)
        return layers, draw.integer(4, layers - 2)

    given, right, mistakes = exercises.draw_case("layers_to_keep", depths)
    value = as_places(submission.layers_to_keep(*given))
    recognise(value, right, mistakes)
    expect_equal(value, right, f"layers_to_keep{given}")


def taken(
    submission: Submission, model: Any, path: str, depth: int
) -> tuple[Ref, Ref, plain_data.Model]:
    """What was put, what came back, and its description."""
    there = submission.put(model)
    result = submission.call("take_layers", there, path, depth, keep=True)
    found = submission.get(result)
    if not isinstance(found, plain_data.Model):
        fail(f"take_layers returns a model, it returned {describe(found)}")
    return there, result, found


def expect_taken(found: plain_data.Model, model: Any, path: str, depth: int) -> None:
    right = plain_data.describe(reference.take_layers(model, path, depth)).state
    count = len(model.get_submodule(path))
    if found.state.keys() != right.keys():
        left = {
            name[len(path) + 1 :].split(".")[0]
            for name in found.state
            if name.startswith(f"{path}.")
        }
        fail(
            f"{len(left)} of {count} layers are left at {path!r}, and {depth} should be; all else stays"
        )
    for name, value in right.items():
        if not torch.equal(found.state[name], value):
            fail(
                f"{name!r} is not the weight of the layer that should stand there: layers {reference.layers_to_keep(count, depth)} are kept, in order"
            )


@question(
    "9.2",
    points=0.5,
    claim="take_layers: a copy with these layers only, and its configuration says so",
)
def test_take_layers(submission: Submission, draw: Draw) -> None:
    model = draw.bert(5, 2)
    depth = draw.choice([2, 3])
    there, result, found = taken(submission, model, "bert.encoder.layer", depth)
    expect_taken(found, model, "bert.encoder.layer", depth)
    said = submission.get(result, "config.num_hidden_layers")
    if said != depth:
        fail(f"the copy's config.num_hidden_layers is {said}, it has {depth} layers")
    if (
        submission.get(there, "config.num_hidden_layers") != 5
        or submission.get(there).state.keys() != plain_data.describe(model).state.keys()
    ):
        fail("the model that was given is cut, too: work on a copy")


# --- 9.3 gated_mlps, joint_importance -------------------------------------------------


def bert(draw: Draw, layers: int, heads: int) -> Any:
    """One whose feed-forward parts have biases: a gate on the wrong side does not
    pass.
    """
    model = draw.bert(layers, heads)
    with torch.no_grad():
        for out in mlp_outputs(model):
            out.bias.copy_(draw.normal(len(out.bias)))  # type: ignore[arg-type, operator]
    return model


def inputs(batch: Batch) -> Batch:
    return {name: part for name, part in batch.items() if name != "labels"}


@torch.no_grad()
def logits(
    model: Any, batch: Batch, place: Callable[[Any, int, Tensor], Any], nu: Tensor
) -> Tensor:
    """With a gate in some place of each layer: ``place(model, layer, gate)`` gives a
    hook's handle.
    """
    hooks = [place(model, i, gate) for i, gate in enumerate(nu)]
    try:
        return model(**inputs(batch)).logits
    finally:
        for hook in hooks:
            hook.remove()


def wide(gate: Tensor) -> Tensor:
    return gate.view(-1, 1, 1)


def on_output(model: Any, i: int, gate: Tensor) -> Any:
    return mlp_outputs(model)[i].register_forward_hook(lambda m, args, out: out * wide(gate))


def on_input(model: Any, i: int, gate: Tensor) -> Any:
    return mlp_outputs(model)[i].register_forward_pre_hook(lambda m, args: (args[0] * wide(gate),))


def on_layer(model: Any, i: int, gate: Tensor) -> Any:
    return model.bert.encoder.layer[i].output.register_forward_hook(
        lambda m, args, out: out * wide(gate)
    )


def on_first(model: Any, i: int, gate: Tensor) -> Any:
    return model.bert.encoder.layer[i].intermediate.dense.register_forward_hook(
        lambda m, args, out: out * wide(gate)
    )


def wrong_gates(model: Any, batch: Batch, nu: Tensor) -> dict[str, Tensor]:
    run = partial(logits, model, batch)
    wrong = {
        "the gate multiplies the input of each part's last linear layer, so the layer's bias is not gated: multiply the output, MLP(x)": run(
            on_input, nu
        ),
        "the gate is after the residual sum, so it also scales the input x: multiply the outputs of the layers that mlp_outputs lists": run(
            on_layer, nu
        ),
        "the gate multiplies the first linear layer of each part: multiply MLP(x), the output of the last one": run(
            on_first, nu
        ),
        "every layer uses the gate of the first layer: layer i needs nu[i]": run(
            on_output, nu[:1].expand_as(nu)
        ),
        "every layer uses the gate of the last layer. A hook that is defined in a loop reads the loop's variables when it is *called*: give it the gate as an argument": run(
            on_output, nu[-1:].expand_as(nu)
        ),
        "each part is multiplied by 1 − ν: multiply it by ν (1 is open, 0 is closed)": run(
            on_output, 1 - nu
        ),
        "the gates have no effect: does your hook return the product, on the model that is given?": run(
            on_output, torch.ones_like(nu)
        ),
    }
    if nu.ndim == 2:
        wrong["every sample uses the mean of all samples' gates: sample b needs nu[:, b]"] = run(
            on_output, nu.mean(1, keepdim=True)
        )
        wrong["every sample uses the gates of the first sample: sample b needs nu[:, b]"] = run(
            on_output, nu[:, :1]
        )
    return wrong


def expect_gated(submission: Submission, draw: Draw, *shape: int) -> None:
    layers = shape[0]
    batch = draw.texts(3, 5)
    model = bert(draw, layers, 2)
    nu = 0.2 + torch.rand(*shape, generator=draw.generator)
    there = submission.put(model)
    hooks = submission.helper("hooks", model=there)
    with within(submission, "gated_mlps", there, nu):
        out = ask(
            lambda: submission.call("__call__", on=there, keep=True, **inputs(batch)),
            "when the model was called inside the block,",
            "The gate of a layer has shape () or (B,), one number per sample: view(-1, 1, 1) broadcasts it over (B, L, E)",
        )
        value = expect_tensor(submission.get(out, "logits"), what="the model's output")
    right = logits(model, batch, on_output, nu)
    recognise(value, right, wrong_gates(model, batch, nu), equal=close)
    expect_close(value, right, "the model's output", tolerance=1e-4)
    if submission.get(hooks, "count"):
        fail(
            "after the block a hook is still registered: keep the handle that register_forward_hook returns, and call its remove()"
        )


@question(
    "9.3",
    points=1,
    claim="gated_mlps: what each part adds is multiplied by its gate, its bias included",
)
def test_gated(submission: Submission, draw: Draw) -> None:
    expect_gated(submission, draw, 3)


def sample_losses(model: Any, batch: Batch) -> Tensor:
    return nn.functional.cross_entropy(
        model(**inputs(batch)).logits, batch["labels"], reduction="none"
    )


def sample_gradients(
    model: Any, batches: Sequence[Batch], place: Any = on_output
) -> tuple[Tensor, Tensor]:
    """∂L(x)/∂ξ and ∂L(x)/∂ν of every sample, signed: (N, layers, heads) and (N,
    layers).
    """
    from course_lib.pruning.heads import gated

    layers, heads = len(model.bert.encoder.layer), model.config.num_attention_heads
    found_heads, found_mlps = [], []
    for batch in batches:
        size = len(batch["labels"])
        xi, nu = (
            torch.ones(layers, size, heads, requires_grad=True),
            torch.ones(layers, size, requires_grad=True),
        )
        hooks = [place(model, i, gate) for i, gate in enumerate(nu)]
        with gated(model, xi):
            losses = sample_losses(model, batch)
        for hook in hooks:
            hook.remove()
        of_xi, of_nu = torch.autograd.grad(losses.sum(), [xi, nu])
        found_heads.append(of_xi.transpose(0, 1).double())
        found_mlps.append(of_nu.T.double())
    return torch.cat(found_heads), torch.cat(found_mlps)


def both(heads: Tensor, mlps: Tensor) -> dict[str, Tensor]:
    return {"heads": heads, "parts": mlps}


def wrong_importance(model: Any, batches: Sequence[Batch]) -> dict[str, dict[str, Tensor]]:
    h, m = sample_gradients(model, batches)
    _, before_bias = sample_gradients(model, batches, on_input)
    _, behind_sum = sample_gradients(model, batches, on_layer)
    sizes = [len(batch["labels"]) for batch in batches]
    by_batch = [
        both(a.abs().sum(0), b.abs().sum(0))
        for a, b in zip(h.split(sizes), m.split(sizes), strict=True)
    ]

    def mean(parts: list[dict[str, Tensor]], weights: Sequence[float]) -> dict[str, Tensor]:
        return {
            k: torch.stack([p[k] * w for p, w in zip(parts, weights, strict=True)]).sum(0)
            for k in ("heads", "parts")
        }

    summed = [
        both(a.sum(0).abs(), b.sum(0).abs())
        for a, b in zip(h.split(sizes), m.split(sizes), strict=True)
    ]
    n, batches_ = sum(sizes), len(sizes)
    return {
        "the gate multiplies the input of a part's last linear layer: it must multiply MLP(x), bias included": both(
            h.abs().mean(0), before_bias.abs().mean(0)
        ),
        "the gate of a part is after the residual sum: it must multiply only MLP(x)": both(
            h.abs().mean(0), behind_sum.abs().mean(0)
        ),
        "you took the absolute value of a batch's sum: take the absolute value of each sample's gradient first, then the sum": mean(
            summed, [1 / n] * batches_
        ),
        "the gradients still have their signs: take |∂L/∂ξ| and |∂L/∂ν|": both(
            h.mean(0), m.mean(0)
        ),
        "this is the sum over samples: divide by their number to return the mean": both(
            h.abs().sum(0), m.abs().sum(0)
        ),
        "you took the gradient of a batch's *mean* loss, so each batch is divided by its size twice: sum the losses": mean(
            by_batch, [1 / (n * s) for s in sizes]
        ),
        "you averaged the means of batches: every *sample* has the same weight, so add over all samples and divide once": mean(
            by_batch, [1 / (batches_ * s) for s in sizes]
        ),
        "you squared the gradients: take absolute values": both(
            h.square().mean(0), m.square().mean(0)
        ),
    }


def expect_joint(submission: Submission, draw: Draw, sizes: Sequence[int], training: bool) -> None:
    model = bert(draw, 2, 4)
    batches = [draw.texts(size, 5) for size in sizes]
    model.train(training)
    there = submission.put(model)
    model.eval()
    losses = submission.helper("losses")
    value = ask(
        partial(submission.call, "joint_importance", there, batches, losses),
        "for batches of " + " and ".join(map(str, sizes)) + " samples",
        f"Make gates for the samples of *this* batch and for the layers and heads of *this* model, which has {len(model.bert.encoder.layer)} "
        f"layers of {model.config.num_attention_heads} heads",
    )
    log = submission.get(losses, "log")
    if len(log) != len(batches):
        fail(
            f"loss_fn was called {len(log)} times for {len(batches)} batches: call it once per batch, with the gates of heads and parts together"
        )
    if any(entry["dropout"] for entry in log):
        fail("loss_fn ran with dropout: set the model to evaluation mode first")
    expect_length(value, 2, "joint_importance(…)")
    h, m = sample_gradients(model, batches)
    right = both(h.abs().mean(0), m.abs().mean(0))
    found = both(
        expect_tensor(value[0], shape=right["heads"].shape, what="the heads' importance").double(),
        expect_tensor(value[1], shape=right["parts"].shape, what="the parts' importance").double(),
    )
    relative = partial(near, tolerance=1e-4, least=0.0)
    recognise(found, right, wrong_importance(model, batches), equal=relative)
    for name in ("heads", "parts"):
        expect_close(found[name], right[name], f"the importance of {name}", tolerance=1e-4)


@question(
    "9.3",
    points=1,
    claim="joint_importance: the mean over samples of |∂L/∂ξ| and |∂L/∂ν|, from one pass a batch",
)
def test_joint(submission: Submission, draw: Draw) -> None:
    expect_joint(submission, draw, (3, 2), False)


# --- 9.4 prune_while ------------------------------------------------------------------


class Scripted:
    """``evaluate`` and ``importance`` as the grader plays them: fixed values for heads
    and parts, turned round from some round on.
    """

    def __init__(self, draw: Draw, layers: int, heads: int, turn: int) -> None:
        self.values = [
            (
                torch.rand(layers, heads, generator=draw.generator),
                torch.rand(layers, generator=draw.generator),
            )
            for _ in range(30)
        ]
        self.worth = (
            torch.rand(layers, heads, generator=draw.generator),
            torch.rand(layers, generator=draw.generator),
        )
        self.turn, self.asked, self.evaluated = turn, [], []  # type: ignore[var-annotated]

    def importance(self, xi: Tensor, nu: Tensor) -> tuple[Tensor, Tensor]:
        self.asked.append((xi.clone(), nu.clone()))
        at = 0 if int(xi.sum()) > self.turn else 1
        of_heads, of_mlps = self.values[at]
        return of_heads * xi, of_mlps * nu  # what is gone has no gradient

    def evaluate(self, xi: Tensor, nu: Tensor) -> float:
        self.evaluated.append((xi.clone(), nu.clone()))
        kept = float((self.worth[0] * xi).sum() + (self.worth[1] * nu).sum())
        kept /= float(self.worth[0].sum() + self.worth[1].sum())
        # the end is steep: there one round loses much of the score of the round before
        return min(50 + 50 * kept, 250 * kept)


Steps = list[tuple[Tensor, Tensor, float]]


def searched(
    script: Scripted, layers: int, heads: int, share: float, step: float, *,
    recompute: bool = True, keep_failing: bool = False, of_left: bool = False, previous: bool = False, bare: bool = False,
    one_a_round: bool = False, forget: bool = False,
) -> Steps:  # fmt: skip
    """The rule, with a part that may be wrong."""
    xi, nu = torch.ones(layers, heads, dtype=torch.bool), torch.ones(layers, dtype=torch.bool)
    full = script.evaluate(xi, nu)
    found: Steps = [(xi, nu, full)]
    k, r, first = max(1, round(step * layers * heads)), 0, None

    def without(kept: Tensor, score: Tensor, gone: int) -> Tensor:
        base = score.double() if forget else score.double().masked_fill(~kept, -torch.inf)
        mask = torch.ones(kept.numel(), dtype=torch.bool)
        mask[base.flatten().argsort(stable=True)[:gone]] = False
        return mask.view(kept.shape)

    while xi.any() or nu.any():
        r += 1
        scores = script.importance(xi, nu) if recompute or first is None else first
        first = scores
        left = int(xi.sum())
        gone = layers * heads - left + max(1, round(step * left)) if of_left else r * k
        xi = without(xi, scores[0], min(layers * heads, gone))
        nu = without(nu, scores[1], min(layers, r if one_a_round else round(r * step * layers)))
        score = script.evaluate(xi, nu)
        if score < share * (found[-1][2] if previous else 1 if bare else full):
            if keep_failing:
                found.append((xi, nu, score))
            break
        found.append((xi, nu, score))
    return found


FULL_ALWAYS = "the importance of the full model was used throughout: ask for that of the current masks in every round"
FAILING_KEPT = "the round that fell below the share is in the list: it is dropped"
OF_LEFT = (
    "each round takes a share of the heads that are *left*: after round r in all r · k are gone"
)
BARE = "the score was compared with share itself: compare it with share times the full score"
OF_PREVIOUS = "the score was compared with the round before: compare it with the full score"
ONE_A_ROUND = "a part goes in every round: in all round(r · step · layers), so that few layers last as long as the heads do"

WRONG_SEARCH: dict[str, dict[str, bool]] = {
    FULL_ALWAYS: {"recompute": False},
    FAILING_KEPT: {"keep_failing": True},
    OF_LEFT: {"of_left": True},
    OF_PREVIOUS: {"previous": True},
    BARE: {"bare": True},
    ONE_A_ROUND: {"one_a_round": True},
}


def as_steps(value: Any, layers: int, heads: int) -> Steps:
    if not isinstance(value, list | tuple) or not value:
        fail(
            f"prune_while returns a list of (xi, nu, score), at least one; it returned {describe(value)}"
        )
    found = []
    for step in value:
        expect_length(step, 3, "an entry (xi, nu, score)")
        xi = expect_tensor(step[0], shape=(layers, heads), dtype=torch.bool, what="xi")
        found.append(
            (
                xi,
                expect_tensor(step[1], shape=(layers,), dtype=torch.bool, what="nu"),
                expect_number(step[2], "a score"),
            )
        )
    return found


def search(
    submission: Submission,
    evaluate: Callable[..., Any] | Ref,
    importance: Callable[..., Any] | Ref,
    layers: int,
    heads: int,
    share: float,
    step: float,
) -> Steps:
    """What the student's prune_while returns."""
    functions = (
        function if isinstance(function, Ref) else Proxy(function, name)
        for function, name in ((evaluate, "evaluate"), (importance, "importance"))
    )
    value = submission.prune_while(*functions, layers, heads, share, step)
    return as_steps(value, layers, heads)


def flat(steps: Steps) -> dict[str, Tensor]:
    found = {"rounds": torch.tensor(len(steps))}
    for r, (xi, nu, score) in enumerate(steps):
        found |= {f"xi {r}": xi, f"nu {r}": nu, f"score {r}": torch.tensor(score)}
    return found


def expect_search(
    submission: Submission,
    draw: Draw,
    layers: int,
    heads: int,
    step: float,
    name_mistakes: bool = True,
) -> None:
    share = draw.number(0.72, 0.8)

    def run(script: Scripted, **how: bool) -> Steps:
        return searched(copy.deepcopy(script), layers, heads, share, step, **how)

    wrong = (
        {said: partial(run, **how) for said, how in WRONG_SEARCH.items()} if name_mistakes else {}
    )
    (script,), right, mistakes = draw_case(
        lambda: (Scripted(draw, layers, heads, turn=round(0.8 * layers * heads)),),
        run,
        wrong,
        close,
        flat,
    )
    value = search(submission, script.evaluate, script.importance, layers, heads, share, step)
    found = flat(value)
    recognise(found, right, mistakes, equal=close)
    rounds = int(right["rounds"])
    for r, (xi, nu, score) in enumerate(value[:rounds]):
        for name, mask, what in (("xi", xi, "heads"), ("nu", nu, "parts")):
            want = right[f"{name} {r}"]
            if int(mask.sum()) != int(want.sum()):
                fail(
                    f"after round {r} {int((~mask).sum())} {what} are gone, and in all {int((~want).sum())} should be"
                )
            if not torch.equal(mask, want):
                fail(
                    f"in round {r} as many {what} are gone as should, but not those of lowest importance among what was left"
                )
        expect_close(score, float(right[f"score {r}"]), f"the score of round {r}", tolerance=1e-4)
    if len(value) != rounds:
        fail(
            f"the list has {len(value)} entries and should have {rounds}: the full model, and every round with at least share · full"
        )
    if len(script.evaluated) > rounds + 1 or len(script.asked) > rounds:
        fail(
            f"evaluate was called {len(script.evaluated)} times and importance {len(script.asked)}: once for each round, and evaluate once for the full model"
        )


@question(
    "9.4",
    points=1,
    claim="round by round the least important of what is left, while the share of the full score is left",
)
def test_search(submission: Submission, draw: Draw) -> None:
    expect_search(submission, draw, 4, 5, 0.15)


# --- 9.5 subnetworks, retrain ---------------------------------------------------------

KINDS = ("good", "random", "bad")


def worst(mask: Tensor, score: Tensor) -> list[int]:
    """Survivors last, then by score."""
    places = list(zip(mask.flatten().tolist(), score.flatten().tolist(), strict=True))
    return sorted(range(len(places)), key=lambda i: (*places[i], i))


def of_places(mask: Tensor, places: Sequence[int]) -> Tensor:
    chosen = torch.zeros(mask.numel(), dtype=torch.bool)
    chosen[list(places)] = True
    return chosen.view(mask.shape)


def _bad(rule: Callable[[Tensor, Tensor], Tensor]) -> Callable[..., dict[str, Masks]]:
    def make(xi: Tensor, nu: Tensor, I_h: Tensor, I_mlp: Tensor, seed: int) -> dict[str, Masks]:
        return {**right_three(xi, nu, I_h, I_mlp, seed), "bad": (rule(xi, I_h), rule(nu, I_mlp))}

    return make


def _random(rule: Callable[[Tensor, torch.Generator], Tensor]) -> Callable[..., dict[str, Masks]]:
    def make(xi: Tensor, nu: Tensor, I_h: Tensor, I_mlp: Tensor, seed: int) -> dict[str, Masks]:
        generator = torch.Generator().manual_seed(seed)
        drawn = rule(xi, generator), rule(nu, generator)
        return {**right_three(xi, nu, I_h, I_mlp, seed), "random": drawn}

    return make


def right_three(xi: Tensor, nu: Tensor, I_h: Tensor, I_mlp: Tensor, seed: int) -> dict[str, Masks]:
    return reference.subnetworks(xi, nu, I_h, I_mlp, torch.Generator().manual_seed(seed))


def _from_complement(mask: Tensor, generator: torch.Generator) -> Tensor:
    gone = (~mask.flatten()).nonzero()[:, 0]
    order = (
        gone[torch.randperm(len(gone), generator=generator)].tolist()
        + mask.flatten().nonzero()[:, 0].tolist()
    )
    return of_places(mask, order[: int(mask.sum())])


LOWEST = "bad holds the lowest scores wherever they are: first what did *not* survive, and survivors only if that is too little"
COMPLEMENT = "bad is all that did not survive, whatever its size: take as many as survived"
BEST_OF_GONE = "bad takes the highest scores of what did not survive: take the lowest"
MOST_IMPORTANT = "bad are the most important: take the least important of what did not survive"
RANDOM_OF_GONE = "random was drawn from what did not survive: draw it from all elements"

FILLED_UP = "all that did not survive is in it, and too few; but the survivors that fill it up are not those of lowest score"

WRONG_THREE: dict[str, Callable[..., dict[str, Masks]]] = {
    LOWEST: _bad(
        lambda mask, score: of_places(
            mask, score.flatten().argsort(stable=True)[: int(mask.sum())].tolist()
        )
    ),
    COMPLEMENT: _bad(lambda mask, score: ~mask),
    BEST_OF_GONE: _bad(lambda mask, score: of_places(mask, worst(mask, -score)[: int(mask.sum())])),
    MOST_IMPORTANT: _bad(
        lambda mask, score: of_places(
            mask, score.flatten().argsort(descending=True, stable=True)[: int(mask.sum())].tolist()
        )
    ),
    RANDOM_OF_GONE: _random(_from_complement),
}


def three(value: Any) -> dict[str, Tensor]:
    return {
        f"{name} {what}": value[name][i]
        for name in KINDS
        for i, what in enumerate(("heads", "parts"))
    }


def as_three(value: Any, xi: Tensor, nu: Tensor) -> dict[str, Tensor]:
    expect_keys(value, KINDS, "subnetworks(…)")
    found: dict[str, Masks] = {}
    for name in KINDS:
        expect_length(value[name], 2, f"{name!r}")
        heads = expect_tensor(
            value[name][0], shape=xi.shape, dtype=torch.bool, what=f"the heads of {name!r}"
        )
        found[name] = (
            heads,
            expect_tensor(
                value[name][1], shape=nu.shape, dtype=torch.bool, what=f"the parts of {name!r}"
            ),
        )
    return three(found)


def survivors(draw: Draw, layers: int, heads: int, share: float) -> Masks:
    """Some of each, and some not."""
    xi, nu = draw.mask(layers, heads, kept=share), draw.mask(layers, kept=share)
    for mask in (xi, nu):
        a, b = draw.distinct(2, 0, mask.numel() - 1)
        mask.view(-1)[a], mask.view(-1)[b] = True, False
    return xi, nu


def expect_three(submission: Submission, draw: Draw, share: float, name_mistakes: bool) -> None:
    seed = draw.integer(0, 10**6)

    def scored() -> tuple[Tensor, Tensor, Tensor, Tensor, int]:
        xi, nu = survivors(draw, 4, 5, share)
        scores = (torch.rand(shape, generator=draw.generator) for shape in (xi.shape, nu.shape))
        return xi, nu, *scores, seed

    (*given, _), right, mistakes = draw_case(
        scored, right_three, WRONG_THREE if name_mistakes else {}, view=three
    )
    value = as_three(
        submission.subnetworks(*given, submission.helper("generator", seed=seed)), *given[:2]
    )
    recognise(value, right, mistakes)
    for name, mask in right.items():
        if int(value[name].sum()) != int(mask.sum()):
            fail(
                f"{name}: {int(value[name].sum())} are kept, and as many as survived should be, {int(mask.sum())}"
            )
        if name.startswith("bad"):
            survived = given[0] if "heads" in name else given[1]
            if torch.equal(value[name] & ~survived, mask & ~survived):
                expect_equal(value[name], mask, message=f"{name}: {FILLED_UP}")
        expect_equal(value[name], mask, message=f"{name}: as many as should be, but other ones")


@question(
    "9.5",
    points=1,
    claim="good, random and bad have the same two sizes; bad is made of what did not survive",
)
def test_three(submission: Submission, draw: Draw) -> None:
    expect_three(submission, draw, 0.4, True)


# what `retrain` starts from -> what the mistake is
FINE_TUNED = "training starts from the fine-tuned weights: copy those of `pretrained` back first"
MASK_OFF = (
    "the subnetwork is not switched on while it trains: train(model) belongs inside both blocks"
)
ONLY_PARTS = "heads are not gated while it trains: gated(model, xi), too"
ONLY_HEADS = "feed-forward parts are not gated while it trains: gated_mlps(model, nu), too"


class Retrained:
    """A model fine-tuned, as it were, and retrained by the student's function.

    Attributes:
        there, pretrained, hooks, train: in the student's process. model: the fine-tuned
            one, here. start: its weights with the pre-trained ones back.
    """

    def __init__(self, submission: Submission, draw: Draw, raising: bool = False) -> None:
        self.model, self.batch = bert(draw, 3, 2), inputs(draw.texts(3, 5))
        self.amount = draw.number(0.1, 0.5)
        own = dict(self.model.named_parameters())
        self.before = {
            name: draw.normal(*p.shape) * 0.3
            for name, p in own.items()
            if name.startswith("bert.encoder")
        }
        self.masks = survivors(draw, 3, 2, 0.5)
        self.start = {name: self.before.get(name, p.detach().clone()) for name, p in own.items()}
        self.there, self.pretrained = submission.put(self.model), submission.put(self.before)
        self.hooks = submission.helper("hooks", model=self.there)
        self.train = submission.helper(
            "retrain", batch=self.batch, amount=self.amount, raising=raising
        )

    def call(self, submission: Submission) -> Any:
        return submission.call("retrain", self.there, self.pretrained, *self.masks, self.train)

    def logits(self, state: dict[str, Tensor], xi: Tensor, nu: Tensor) -> Tensor:
        from course_lib.pruning.heads import gated

        net = copy.deepcopy(self.model).eval()
        net.load_state_dict(state, strict=False)
        with gated(net, xi.float()):
            return logits(net, self.batch, on_output, nu.float())

    def right(self) -> Tensor:
        """What the model says where training starts."""
        return self.logits(self.start, *self.masks)

    def wrong(self) -> dict[str, Tensor]:
        (xi, nu), tuned = self.masks, {n: p.detach() for n, p in self.model.named_parameters()}
        return {
            FINE_TUNED: self.logits(tuned, xi, nu),
            MASK_OFF: self.logits(self.start, torch.ones_like(xi), torch.ones_like(nu)),
            ONLY_PARTS: self.logits(self.start, torch.ones_like(xi), nu),
            ONLY_HEADS: self.logits(self.start, xi, torch.ones_like(nu)),
            "what survived is switched off: a mask is True where something is kept": self.logits(
                self.start, ~xi, ~nu
            ),
            "neither are the weights the pre-trained ones, nor is the subnetwork on": self.logits(
                tuned, torch.ones_like(xi), torch.ones_like(nu)
            ),
        }


@question(
    "9.5",
    points=0.5,
    claim="retrain: once, from the pre-trained weights, with only the subnetwork switched on",
)
def test_retrain(submission: Submission, draw: Draw) -> None:
    def case() -> Case:
        run = Retrained(submission, draw)
        return run, run.right(), run.wrong()

    run, right, mistakes = draw_discriminating_case(case, close)
    run.call(submission)
    log = submission.get(run.train, "log")
    if len(log) != 1:
        fail(f"train was called {len(log)} times: once")
    recognise(log[0]["logits"], right, mistakes, equal=close)
    moved = [n for n, p in run.start.items() if not near(log[0]["before"][n], p)]
    if moved:
        fail(
            f"when training starts {moved[0]!r} is neither the pre-trained one nor, where `pretrained` does not name it, the model's own"
        )
    expect_close(
        log[0]["logits"], right, "what the model says when training starts", tolerance=1e-4
    )


@question(
    "9.5",
    points=0.5,
    claim="arguments: a name that the model lacks raises ValueError before anything changes",
)
def test_retrain_refuses(submission: Submission, draw: Draw) -> None:
    run = Retrained(submission, draw)
    run.call(submission)
    if len(submission.get(run.train, "log")) != 1:
        fail("train is called once where all names are the model's")
    run = Retrained(submission, draw)
    foreign = submission.put(
        {**run.before, "bert.encoder.layer.7.output.dense.bias": torch.zeros(4)}
    )
    expect_raises(
        ValueError,
        lambda: submission.call("retrain", run.there, foreign, *run.masks, run.train),
        "pretrained names a parameter that the model does not have",
    )
    state = submission.get(run.there).state
    if submission.get(run.train, "log") or not all(
        torch.equal(state[n], p) for n, p in run.model.named_parameters()
    ):
        fail(
            "the name that is not there was refused, but only after weights were copied: look at all names first"
        )


# --- 9.6 survival ---------------------------------------------------------------------

SHARE = "this is the share of tasks: return the number of tasks"
OVER_TASKS = "the spread was taken over tasks: take it over seeds, of each seed's count"
SAMPLE_STD = "this is the sample standard deviation: return the population's, which divides by the number of seeds"
OF_ALL = "the spread of all masks was taken: take the spread of the counts over seeds"

MaskLists = list[list[Tensor]]


def counts(masks: MaskLists) -> Tensor:
    return torch.stack([torch.stack(of_seed).double().sum(0) for of_seed in masks])


WRONG["survival"] = {
    SHARE: lambda masks: tuple(part / len(masks[0]) for part in reference.survival(masks)),
    OVER_TASKS: lambda masks: (
        counts(masks).mean(0),
        torch.stack([torch.stack(s).double() for s in masks]).sum(0).std(0, correction=0),
    ),
    SAMPLE_STD: lambda masks: (counts(masks).mean(0), counts(masks).std(0, correction=1)),
    OF_ALL: lambda masks: (
        counts(masks).mean(0),
        torch.stack([torch.stack(s).double() for s in masks]).flatten(0, 1).std(0, correction=0),
    ),
}
AT_MOST = "≤ was used: count elements that survive in fewer than `tasks`"
OF_PAIRS = (
    "masks were counted one by one: return the share of *elements* whose mean count is smaller"
)
WRONG["survivors_below"] = {
    AT_MOST: lambda masks, tasks: float((counts(masks).mean(0) <= tasks).double().mean()),
    OF_PAIRS: lambda masks, tasks: float((counts(masks) < tasks).double().mean()),
    "this is the number of elements: return their share": lambda masks, tasks: float(
        (counts(masks).mean(0) < tasks).sum()
    ),
    "this is the share of elements that survive in `tasks` tasks or more: return the share that survives in fewer": lambda masks, tasks: (
        float((counts(masks).mean(0) >= tasks).double().mean())
    ),
}


def drawn_masks(draw: Draw, seeds: int, tasks: int, *shape: int) -> MaskLists:
    return [[draw.mask(*shape) for _ in range(tasks)] for _ in range(seeds)]


@question("9.6", points=0.5, claim="survival: the count of tasks, its mean and spread over seeds")
def test_survival(submission: Submission, draw: Draw) -> None:
    what = "survival(masks), of which 0 is the mean and 1 the spread,"
    masks = partial(drawn_masks, draw, 3, 4, 2, 5)
    exercises.expect_answer(submission, "survival", lambda: (masks(),), close, what=what)


@question(
    "9.6", points=0.5, claim="survivors_below: the share of elements whose mean count is smaller"
)
def test_survivors_below(submission: Submission, draw: Draw) -> None:
    exercises.expect_answer(
        submission,
        "survivors_below",
        lambda: (drawn_masks(draw, 2, 4, 3, 7), draw.choice([2.0, 1.5, 2])),
        close,
        what="survivors_below(masks, tasks)",
    )


@question(
    "9.6",
    points=0.5,
    claim="arguments: nothing, or seeds with unlike numbers of tasks, raise ValueError",
)
def test_survival_refuses(submission: Submission, draw: Draw) -> None:
    masks = drawn_masks(draw, 2, 2, 3)
    bad = {"no seed": ([],), "another number of tasks for one seed": ([masks[0], masks[1][:1]],)}
    expect_refused(
        lambda m: submission.survival(m)[0].double(), (masks,), reference.survival(masks)[0], bad
    )


# --- 9.7 overlap, fleiss_kappa --------------------------------------------------------

WRONG["overlap"] = {
    "the share of the union was returned (Jaccard): return the number shared": lambda a, b: (
        int((a & b).sum()) / int((a | b).sum()),
        int(a.sum()) * int(b.sum()) / a.numel(),
    ),
    "the expectation is not divided by n: it is |a| · |b| / n": lambda a, b: (
        int((a & b).sum()),
        float(int(a.sum()) * int(b.sum())),
    ),
    "the smaller of the two sizes was returned: that is the largest possible number, not the expected number": lambda a, b: (
        int((a & b).sum()),
        float(min(int(a.sum()), int(b.sum()))),
    ),
    "the expectation was divided by the number of rows: n is that of all elements": lambda a, b: (
        int((a & b).sum()),
        int(a.sum()) * int(b.sum()) / len(a),
    ),
    "elements that neither mask keeps were counted, too": lambda a, b: (
        int((a == b).sum()),
        int(a.sum()) * int(b.sum()) / a.numel(),
    ),
}


def _kappa(
    masks: Tensor, chance: Callable[[float], float] | None = None, with_itself: bool = False
) -> float:
    raters, kept = len(masks), masks.double().sum(0)
    gone = raters - kept
    agreed = (
        (kept**2 + gone**2) / raters**2
        if with_itself
        else (kept * (kept - 1) + gone * (gone - 1)) / (raters * (raters - 1))
    )
    q = float(masks.double().mean())
    expected = (chance or (lambda q: q**2 + (1 - q) ** 2))(q)
    return 1.0 if expected == 1 else (float(agreed.mean()) - expected) / (1 - expected)


WRONG["fleiss_kappa"] = {
    "chance agreement was taken as ½: it is q² + (1 − q)²": lambda m: _kappa(m, lambda q: 0.5),
    "each mask's agreement with itself was counted: k(k − 1), not k²": lambda m: _kappa(
        m, with_itself=True
    ),
    "chance was not subtracted: this is the raw agreement": lambda m: _kappa(m, lambda q: 0.0),
    "chance agreement was computed for kept elements only: it is q² + (1 − q)²": lambda m: _kappa(
        m, lambda q: q**2
    ),
}


@question("9.7", points=0.5, claim="overlap: how many both keep, and how many chance would share")
def test_overlap(submission: Submission, draw: Draw) -> None:
    exercises.expect_answer(
        submission,
        "overlap",
        lambda: (draw.mask(4, 6, kept=0.6), draw.mask(4, 6, kept=0.3)),
        close,
        read=partial(expect_form, right=(0.0, 0.0), what="overlap(a, b)"),
        what="overlap(a, b)",
    )


@question("9.7", points=0.5, claim="fleiss_kappa: agreement of masks beyond chance")
def test_kappa(submission: Submission, draw: Draw) -> None:
    def masks() -> tuple[Tensor]:
        """That agree more than chance: less is asked elsewhere."""
        for _ in range(100):
            base = draw.mask(12, kept=0.3)
            drawn = torch.stack([base ^ draw.mask(12, kept=0.2) for _ in range(4)])
            if reference.fleiss_kappa(drawn) > 0.05:
                break
        return (drawn,)

    what = "fleiss_kappa(masks)"
    exercises.expect_answer(submission, "fleiss_kappa", masks, close, what=what)


# --- 9.8, 9.9 -------------------------------------------------------------------------


@question(
    "9.8",
    points=0,
    claim="a and b are letters (which ones are right is looked at when they are handed in)",
)
def test_form_of_the_answers(submission: Submission, draw: Draw) -> None:
    expect_choice(submission, "answer_9_8a", 4, {})
    expect_choice(submission, "answer_9_8b", 4, {})


def by_loops(xi: Tensor, nu: Tensor, I_h: Tensor, I_mlp: Tensor, seed: int) -> dict[str, Masks]:
    """Right, another way."""
    generator = torch.Generator().manual_seed(seed)
    drawn = tuple(
        of_places(m, torch.randperm(m.numel(), generator=generator)[: int(m.sum())].tolist())
        for m in (xi, nu)
    )
    bad = tuple(of_places(m, worst(m, s)[: int(m.sum())]) for m, s in ((xi, I_h), (nu, I_mlp)))
    return {"good": (xi, nu), "random": (drawn[0], drawn[1]), "bad": (bad[0], bad[1])}


def by_large_scores(
    xi: Tensor, nu: Tensor, I_h: Tensor, I_mlp: Tensor, seed: int
) -> dict[str, Masks]:
    """Right: survivors get a score that no other has."""
    bad = tuple(
        of_places(m, (s.double() + 1e6 * m).flatten().argsort(stable=True)[: int(m.sum())].tolist())
        for m, s in ((xi, I_h), (nu, I_mlp))
    )
    return {**right_three(xi, nu, I_h, I_mlp, seed), "bad": (bad[0], bad[1])}


RIGHT: dict[str, Version] = {
    "the library's": right_three,
    "one with loops": by_loops,
    "one with large scores": by_large_scores,
}
PROMISE = "9.5 promises of masks with some kept and some not, and of finite scores"


def of_table(*sentences: str) -> dict[str, Version]:
    names = {
        LOWEST: "takes the lowest scores wherever they are",
        COMPLEMENT: "takes all that did not survive",
        BEST_OF_GONE: "takes the best of what did not survive",
        MOST_IMPORTANT: "takes the most important",
        RANDOM_OF_GONE: "draws from what did not survive",
    }
    return {names[s]: WRONG_THREE[s] for s in sentences}


@question("9.9", points=0.5, claim="right versions pass, and two plain mistakes are found")
def test_hunt(submission: Submission, draw: Draw) -> None:
    expect_verdicts(submission, draw, "subnetworks", RIGHT, of_table(LOWEST, COMPLEMENT), PROMISE)
