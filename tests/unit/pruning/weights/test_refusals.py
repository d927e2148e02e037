"""What the functions of this room refuse, and the argument that they name."""

import copy
import math

import pytest
import torch
from torch import nn

from course_lib.pruning import weights as w
from course_lib.pruning.weights import lottery, movement, sparse_training
from unit.pruning.weights.trainings import Log, small, state_of

NAN = torch.full((2, 3), math.nan)
ONES, BOOL = torch.ones(2, 3), torch.ones(2, 3, dtype=torch.bool)
FLIPPED = torch.ones(3, 2, dtype=torch.bool)
BOTH = {"a": ONES, "b": ONES}
X, Y = torch.randn(3, 4), torch.tensor([0, 1, 2])
NET = nn.Linear(4, 3)
ODD = nn.Module()  # holds a parameter that nothing draws
ODD.token = nn.Parameter(torch.zeros(1, 2))
TIED = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
TIED[1].weight = TIED[0].weight
SQUARE = torch.ones(2, 2, dtype=torch.bool)


def shrink(**change):
    masks = {"a": BOOL, "b": BOOL}
    return w.shrink(**{"weights": BOTH, "masks": masks, "rate": 0.2, **change})


def exchange(**change):
    given = {"weight": ONES, "dense_grad": ONES, "mask": torch.arange(3) < ONES, "fraction": 0.5}
    return w.drop_and_grow(**{**given, **change})


def sparse(**change):
    masks = {"weight": torch.ones(3, 4, dtype=torch.bool)}
    return sparse_training.DynamicSparse(**{"model": NET, "masks": masks, "steps": 9, **change})


def iterative(target=0.5, score=w.magnitude, **options):
    targets = target if isinstance(target, list) else [target]
    return w.prune_iteratively(NET, targets, lambda model, post_step: None, score, **options)


class Forgetful:
    """Scores of all weights when first asked, then of none."""

    asked = False

    def __call__(self, parameters):
        scores, self.asked = {} if self.asked else w.magnitude(parameters), True
        return scores


def movement_pruning(model, names, **options):
    with movement.movement_pruning(model, names, **options):
        pytest.fail("the block was entered")


def masked(masks):
    with w.masked(nn.Linear(3, 2), masks):
        pytest.fail("the block was entered")


# (words of the message, the argument's name among them; what raises it)
REFUSED = [
    # fractions
    ("sparsity .*0 and 1", lambda: w.smallest(ONES, 1.0001)),
    ("sparsity .*0 and 1", lambda: w.smallest(ONES, math.inf)),
    ("sparsity .*0 and 1", lambda: w.local_masks(BOTH, -0.1)),
    ("sparsity .*0 and 1", lambda: w.local_masks(BOTH, 1.5, "filter")),
    ("sparsity .*0 and 1", lambda: w.global_masks(BOTH, math.nan)),
    (r"sparsity .*Did you mean 0\.9\?", lambda: w.global_masks(BOTH, 90)),
    ("sparsity .*0 and 1", lambda: w.global_group_masks(BOTH, 2, "filter")),
    ("sparsity .*0 and 1", lambda: w.per_output_masks(BOTH, 1.5)),
    ("sparsities", lambda: w.sensitivity(NET, lambda *_: pytest.fail("evaluated"), [0.5, 1.5])),
    ("final .*0 and 1", lambda: w.one_shot(90)),
    ("final .*0 and 1", lambda: w.geometric(math.nan, 3)),
    ("final .*below 1", lambda: w.geometric(1.0, 3)),
    ("final .*0 and 1", lambda: w.cubic(-0.1, 3)),
    ("keep .*0 and 1", lambda: movement.top_mask(ONES, 1.1)),
    ("tau", lambda: movement.soft_mask(ONES, 1.0)),
    (r"rate .*Did you mean 0\.2\?", lambda: shrink(rate=20)),
    ("rate .*0 and 1", lambda: shrink(rate=math.nan)),
    ("rate.'b'. .*0 and 1", lambda: shrink(rate={"a": 0.1, "b": 1.2})),
    ("output_rate", lambda: shrink(output_rate=2.0)),
    ("fraction .*0 and 1", lambda: exchange(fraction=1.1)),
    ("fraction .*0 and 1", lambda: w.cosine_fraction(0, math.nan, 5)),
    ("fraction .*0 and 1", lambda: sparse(fraction=2)),
    (r"density .*Did you mean 0\.1\?", lambda: w.uniform_densities({"a": (2, 2)}, 10)),
    ("density .*0 and 1", lambda: w.erdos_renyi_densities({"a": (2, 2)}, math.nan)),
    ("target .*0 and 1", lambda: iterative(20)),
    ("target 2", lambda: iterative([0.5, 0.3])),
    ("tolerance", lambda: w.regime(98, [1], [1], -1)),
    # whole numbers
    ("steps", lambda: w.cubic(0.9, 0)),
    ("steps", lambda: w.geometric(0.9, 2.5)),
    ("steps", lambda: w.cubic(0.9, math.nan)),
    ("steps", lambda: sparse(steps=0)),
    ("every", lambda: sparse(every=0)),
    ("end", lambda: sparse(end=0)),
    ("step ", lambda: w.cosine_fraction(-1, 0.3, 5)),
    ("every", lambda: w.early_stop([1.0], 1.5)),
    ("every", lambda: w.early_stop([1.0], True)),
    ("every", lambda: w.steps_to([1.0], 1, 0)),
    ("size", lambda: w.group_columns(ONES, 0, 1.0)),
    ("n = 0", lambda: w.nm_mask(ONES, 0, 3)),
    ("n = 4", lambda: w.nm_mask(ONES, 4, 3)),
    ("blocks of 4", lambda: w.nm_mask(torch.ones(2, 6), 2, 4)),
    ("blocks of 2", lambda: w.nm_masks({"a": ONES}, 1, 2, skip=False)),
    # numbers of other kinds
    ("gamma", lambda: w.group_columns(ONES, 1, -0.1)),
    ("gamma", lambda: w.group_columns(ONES, 1, math.nan)),
    ("threshold", lambda: w.threshold(ONES, math.nan)),
    ("threshold", lambda: w.soft_threshold(ONES, -0.1)),
    ("threshold", lambda: w.soft_threshold(torch.ones(2), torch.tensor([0.1, math.nan]))),
    ("eps", lambda: w.reweighted(ONES, 0.1, 0.0)),
    ("lam", lambda: w.Proximal([], -1.0)),
    ("level", lambda: w.steps_to([1.0], math.nan)),
    ("losses", lambda: w.early_stop([])),
    ("losses", lambda: w.early_stop([math.nan])),
    # NaN, and what has no order
    ("NaN", lambda: w.smallest(NAN, 0.5)),
    ("'b' is NaN", lambda: w.local_masks({"a": ONES, "b": NAN}, 0.5)),
    ("'b' is NaN", lambda: w.local_masks({"a": ONES, "b": NAN}, 0.5, "filter")),
    ("'b' is NaN", lambda: w.global_masks({"a": ONES, "b": NAN.half()}, 0.5)),
    ("'b' is NaN", lambda: w.global_group_masks({"a": ONES, "b": NAN.double()}, 0.5, "filter")),
    ("'b' is NaN", lambda: w.per_output_masks({"b": NAN}, 0.5)),
    ("NaN", lambda: w.threshold(NAN, 0.3)),
    ("NaN", lambda: w.nm_mask(NAN, 1, 3)),
    ("NaN", lambda: movement.top_mask(NAN, 0.5)),
    ("'a' is NaN", lambda: shrink(weights={"a": NAN, "b": ONES})),
    ("active weight", lambda: exchange(weight=NAN)),
    ("dense_grad", lambda: exchange(dense_grad=NAN)),
    ("'weight'. is -inf", lambda: iterative(score=lambda p: {"weight": torch.full((3, 4), -math.inf)})),
    ("complex", lambda: w.smallest(torch.ones(2, dtype=torch.complex64), 0.5)),
    # masks and shapes
    ("unknown name 'wieght'.*'weight'", lambda: masked({"wieght": BOOL})),
    ("masks.*'zzz'", lambda: masked({"zzz": BOOL})),
    (r"masks\['weight'\].*\(2, 3\).*\(3, 2\)", lambda: masked({"weight": FLIPPED})),
    (r"masks\['weight'\].*float32", lambda: w.check(nn.Linear(3, 2), {"weight": ONES})),
    (r"masks\['weight'\].*list", lambda: w.apply(nn.Linear(3, 2), {"weight": [[True] * 3] * 2})),
    ("0.weight.*1.weight", lambda: w.check(TIED, {"0.weight": SQUARE, "1.weight": SQUARE})),
    ("masks.*'b'", lambda: shrink(masks={"a": BOOL})),
    ("masks.*'b'", lambda: shrink(weights={"a": ONES})),
    ("masks.'b'", lambda: shrink(masks={"a": BOOL, "b": ONES})),
    ("masks.'b'", lambda: shrink(masks={"a": BOOL, "b": FLIPPED})),
    ("masks.'a'", lambda: w.random_ticket({"a": ONES}, torch.Generator())),
    ("masks.'a'", lambda: w.random_ticket({"a": [True]}, torch.Generator())),
    ("mask ", lambda: exchange(mask=ONES)),
    ("mask ", lambda: exchange(mask=FLIPPED)),
    ("masks.*'9.weight'", lambda: sparse(masks={"9.weight": BOOL})),
    ("masks.*'w'", lambda: w.prune_then_finetune(NET, {"w": BOOL}, pytest.fail)),
    ("w should be .*float32", lambda: w.PrunedLinear.apply(torch.ones(4, 3), ONES, ONES)),
    ("w should be", lambda: w.PrunedLinear.apply(torch.ones(4, 3), ONES, FLIPPED)),
    ("x should end in d_in = 3", lambda: w.PrunedLinear.apply(torch.ones(4, 2), ONES, BOOL)),
    ("matrix", lambda: w.group_columns(torch.ones(2, 2, 3, 3), 1, 0)),
    ("matrix", lambda: w.combine_columns(torch.ones(2), [[0]])),
    ("groups", lambda: w.combine_columns(ONES, [[0], [0]])),
    ("groups", lambda: w.combine_columns(ONES, [[3]])),
    ("groups", lambda: w.combine_columns(ONES, [[-1]])),
    ("gradient", lambda: w.loss_change(ONES, torch.ones(3))),
    ("curvature", lambda: w.loss_change(ONES, ONES, torch.ones(3))),
    ("accuracies", lambda: w.regime(98, [1], [1, 2], 2)),
    ("'bias'", lambda: w.erdos_renyi_densities({"bias": (3,)}, 0.1)),
    # names and choices
    ("granularity 'channel'.*element", lambda: w.group_scores(ONES, "channel")),
    ("granularity 'row'.*filter", lambda: w.group_scores(ONES, "row")),
    ("granularity 'kernel'.* b ", lambda: w.local_masks({"b": ONES}, 0.5, "kernel")),
    ("granularity 'filter'", lambda: w.group_scores(torch.ones(3), "filter")),
    ("sparsity .*'b'", lambda: w.local_masks(BOTH, {"a": 0.5})),
    ("sparsity .*'bb'", lambda: w.local_masks(BOTH, {"a": 0.5, "b": 0.5, "bb": 0.5})),
    ("granularity .*'a'", lambda: w.local_masks(BOTH, 0.5, {"b": "filter"})),
    ("rate .*'b'", lambda: shrink(rate={"a": 0.1})),
    ("method", lambda: sparse(method="prune")),
    ("scope", lambda: iterative(scope="layer")),
    ("granularity 'channel'", lambda: iterative(granularity="channel")),
    ("score.*'x'", lambda: iterative(score=lambda p: {"x": ONES})),
    ("score.*NoneType", lambda: iterative(score=lambda p: None)),
    ("score.*weight.*shape", lambda: iterative(score=lambda p: {"weight": ONES})),
    ("score.*'weight'", lambda: iterative([0.0, 0.2], Forgetful())),
    ("names.*'1.weight'", lambda: w.input_norms(TIED, [ONES], names=["1.weigth"])),
    ("saw no input", lambda: w.input_norms(TIED, [])),
    ("no attention", lambda: w.encoder_weights(NET)),
    ("lazy", lambda: w.prunable(nn.Sequential(nn.LazyLinear(3)))),
    ("how", lambda: movement_pruning(NET, ["weight"], how="other")),
    ("names", lambda: movement_pruning(NET, [])),
    ("'0.nothing'", lambda: movement_pruning(TIED, ["0.nothing"])),
    ("'7.weight'", lambda: movement_pruning(TIED, ["7.weight"])),
    ("tied", lambda: movement_pruning(TIED, ["0.weight"])),
    ("scores", lambda: w.soft_penalty([], 1.0)),
    ("history", lambda: movement.movement([], 0.1)),
    # samples and labels
    ("x holds no sample", lambda: w.empirical_fisher(NET, X[:0], Y[:0])),
    ("x holds no sample", lambda: w.curvature(NET, X[:0])),
    ("y must", lambda: w.gradients(NET, X, Y[:-1])),
    ("y must", lambda: w.gradients(NET, X, Y[:0])),
    ("y must", lambda: w.gradients(NET, X, Y + 1)),
    ("y must", lambda: w.taylor(NET, X, Y - 1)),
    ("y must", lambda: w.empirical_fisher(NET, X, Y.float())),
    ("y must", lambda: w.empirical_fisher(NET, X, Y[:, None])),
    ("logits", lambda: w.curvature(nn.Sequential(NET, nn.Flatten(0)), X)),
    ("logits", lambda: w.gradients(nn.Conv1d(1, 2, 3), X[:, None], Y)),
    # states
    ("state .*'4.bias'", lambda: w.rewind(small(), without(state_of(small()), "4.bias"), {})),
    ("state .*'extra'", lambda: w.rewind(small(), {**state_of(small()), "extra": ONES}, {})),
    ("state.'5.bias'.", lambda: w.rewind(small(), {**state_of(small()), "5.bias": ONES}, {})),
    ("own memory", lambda: w.rewind(NET, NET.state_dict(), {})),
    ("masks", lambda: w.rewind(small(), state_of(small()), {"fc9.weight": BOOL})),
    ("'token'.*reset_parameters", lambda: w.reinitialise(nn.Sequential(NET, ODD), {}, 0)),
]  # fmt: skip


def without(state, name):
    return {other: value for other, value in state.items() if other != name}


@pytest.mark.parametrize(("words", "call"), REFUSED, ids=range(len(REFUSED)))
def test_it_is_refused_by_name_and_nothing_changes(words, call):
    before = copy.deepcopy([NET.state_dict(), TIED.state_dict()])
    with pytest.raises(ValueError, match=words):
        call()
    for model, state in zip((NET, TIED), before, strict=True):
        assert all(torch.equal(value, state[name]) for name, value in model.state_dict().items())


@pytest.mark.parametrize(
    "call",
    [
        lambda: w.random(BOTH, None),
        lambda: w.random_ticket({"a": BOOL}, 0),
        lambda: sparse(method="set"),
    ],
)
def test_chance_needs_a_generator(call):
    with pytest.raises(TypeError, match="torch.Generator"):
        call()


@pytest.mark.parametrize(
    ("words", "change"),
    [
        ("rounds", {"rounds": -1}),
        ("rounds", {"rounds": 1.5}),
        ("rewind_step", {"rewind_step": -1}),
        ("rate", {"rate": 20}),
        ("rate .*'x'", {"rate": {"x": 0.2}}),
        ("output_rate", {"output_rate": -1}),
        ("nothing to prune", {"build": lambda seed=0: nn.BatchNorm1d(3)}),
        ("controls .*'lucky'", {"controls": ("reinit", "lucky")}),
        ("seeds", {"seeds": [-1]}),
        ("seeds", {"seeds": [0, 0]}),
    ],
)
def test_a_search_is_refused_before_any_training(words, change):
    log = Log()
    given = {"build": small, "train": log, "rounds": 2, "rate": 0.2, **change}
    with pytest.raises(ValueError, match=words):
        w.find_tickets(**{"seeds": [0], **given})
    if not change.keys() & {"seeds", "controls"}:
        with pytest.raises(ValueError, match=words):
            lottery.find_ticket(**given)
    assert not log.calls
