"""What the functions of this room refuse, and the argument that they name."""

import copy
import math

import pytest
import torch
from torch import nn

from course_lib.pruning import weights as w
from course_lib.pruning.weights import movement
from unit.pruning.weights.trainings import Log, small

NAN = torch.full((2, 3), math.nan)
ONES, BOOL = torch.ones(2, 3), torch.ones(2, 3, dtype=torch.bool)
FLIPPED = torch.ones(3, 2, dtype=torch.bool)
BOTH, MASKS = {"a": ONES, "b": ONES}, {"a": BOOL, "b": BOOL}
ODD = {"a": ONES, "b": NAN}
X, Y = torch.randn(3, 4), torch.tensor([0, 1, 2])
NET = nn.Linear(4, 3)
TOKEN = nn.Module()  # holds a parameter that nothing draws
TOKEN.token = nn.Parameter(torch.zeros(1, 2))
TIED = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
TIED[1].weight = TIED[0].weight
STATE = copy.deepcopy(small().state_dict())


def exchange(**change):
    given = {"weight": ONES, "dense_grad": ONES, "mask": torch.arange(3) < ONES, "fraction": 0.5}
    return w.drop_and_grow(**{**given, **change})


def sparse(**change):
    masks = {"weight": torch.ones(3, 4, dtype=torch.bool)}
    return w.DynamicSparse(**{"model": NET, "masks": masks, "method": "rigl", "steps": 9, **change})


def iterative(targets=(0.5,), score=w.magnitude, **options):
    return w.prune_iteratively(NET, targets, lambda model, post_step: None, score, **options)


def moving(model, names, **options):
    with movement.movement_pruning(model, names, **options):
        pytest.fail("the block was entered")


def masked(masks):
    with w.masked(nn.Linear(3, 2), masks):
        pytest.fail("the block was entered")


# (words of the message, the argument's name among them; what raises it)
REFUSED = [
    ("sparsity .*0 and 1", lambda: w.smallest(ONES, math.inf)),
    (r"sparsity .*Did you mean 0\.9\?", lambda: w.global_masks(BOTH, 90)),
    ("sparsity .*0 and 1", lambda: w.per_output_masks(BOTH, 1.5)),
    ("sparsities", lambda: w.sensitivity(NET, lambda *_: pytest.fail("evaluated"), [0.5, 1.5])),
    ("final .*0 and 1", lambda: w.one_shot(math.nan)),
    ("final .*below 1", lambda: w.geometric(1.0, 3)),
    ("keep .*0 and 1", lambda: movement.top_mask(ONES, 1.1)),
    ("tau", lambda: movement.soft_mask(ONES, 1.0)),
    (r"rate .*Did you mean 0\.2\?", lambda: w.shrink(BOTH, MASKS, 20)),
    ("output_rate", lambda: w.shrink(BOTH, MASKS, 0.1, 2.0)),
    ("fraction .*0 and 1", lambda: exchange(fraction=1.1)),
    ("density .*0 and 1", lambda: w.erdos_renyi_densities({"a": (2, 2)}, math.nan)),
    ("targets .*0 and 1", lambda: iterative([20])),
    ("targets .*must not fall", lambda: iterative([0.5, 0.3])),
    ("steps", lambda: w.cubic(0.9, 0)),
    ("steps", lambda: sparse(steps=0)),
    ("step ", lambda: w.cosine_fraction(-1, 0.3, 5)),
    ("every", lambda: w.early_stop([1.0], True)),
    ("losses", lambda: w.early_stop([math.nan])),
    ("size", lambda: w.group_columns(ONES, 0, 1.0)),
    ("gamma", lambda: w.group_columns(ONES, 1, math.nan)),
    ("n = 0", lambda: w.nm_mask(ONES, 0, 3)),
    ("m must divide", lambda: w.nm_mask(torch.ones(2, 6), 2, 4)),
    ("t is a threshold", lambda: w.soft_threshold(torch.ones(2), torch.tensor([0.1, math.nan]))),
    ("eps", lambda: w.reweighted(ONES, 0.1, 0.0)),
    ("lam", lambda: w.Proximal([], -1.0)),
    ("'b' is NaN", lambda: w.global_masks({"a": ONES, "b": NAN.half()}, 0.5)),
    ("'b' is NaN", lambda: w.per_output_masks(ODD, 0.5)),
    ("NaN", lambda: w.nm_mask(NAN, 1, 3)),
    ("'b' is NaN", lambda: w.shrink(ODD, MASKS, 0.1)),
    ("active weight", lambda: exchange(weight=NAN)),
    ("dense_grad", lambda: exchange(dense_grad=NAN)),
    ("'weight'. is -inf", lambda: iterative(score=lambda p: {"weight": torch.full((3, 4), -math.inf)})),
    ("complex", lambda: w.smallest(torch.ones(2, dtype=torch.complex64), 0.5)),
    ("unknown name 'wieght'.*'weight'", lambda: masked({"wieght": BOOL})),
    (r"masks\['weight'\].*\(2, 3\).*\(3, 2\)", lambda: masked({"weight": FLIPPED})),
    (r"masks\['weight'\].*list", lambda: w.apply(nn.Linear(3, 2), {"weight": [[True] * 3] * 2})),
    ("masks.'b'", lambda: w.shrink(BOTH, {"a": BOOL, "b": FLIPPED}, 0.1)),
    ("masks.'a'", lambda: w.random_ticket({"a": ONES}, torch.Generator())),
    ("masks.*'9.weight'", lambda: sparse(masks={"9.weight": BOOL})),
    ("m must .*shape", lambda: w.PrunedLinear.apply(torch.ones(4, 3), ONES, BOOL[:1])),
    ("weight must be a matrix", lambda: w.combine_columns(torch.ones(2), [[0]])),
    ("groups", lambda: w.combine_columns(ONES, [[-1]])),
    ("curvature", lambda: w.loss_change(ONES, ONES, torch.ones(3))),
    ("'bias'", lambda: w.erdos_renyi_densities({"bias": (3,)}, 0.1)),
    ("granularity .*'channel'", lambda: w.group_scores(ONES, "channel")),
    ("granularity 'row'.*filter", lambda: w.group_scores(ONES, "row")),
    ("granularity 'kernel'.* b ", lambda: w.global_masks({"b": ONES}, 0.5, "kernel")),
    ("granularity .*'a'", lambda: w.local_masks(BOTH, 0.5, {"b": "filter"})),
    ("method", lambda: sparse(method="prune")),
    ("scope", lambda: iterative(scope="layer")),
    ("score.*'x'", lambda: iterative(score=lambda p: {"x": ONES})),
    ("score.*'weight'", lambda: iterative([0, 0.2], lambda p, first=[w.magnitude]: first.pop()(p) if first else {})),
    ("score.*'weight'. must be", lambda: iterative(score=lambda p: {"weight": ONES})),
    ("names.*'1.weight'", lambda: w.input_norms(TIED, [ONES], names=["1.weigth"])),
    ("saw no input", lambda: w.input_norms(TIED, [])),
    ("no attention", lambda: w.encoder_weights(NET)),
    ("how", lambda: moving(NET, ["weight"], how="other")),
    ("names", lambda: moving(NET, [])),
    ("tied", lambda: moving(TIED, ["0.weight"])),
    ("scores", lambda: w.soft_penalty([], 1.0)),
    ("history", lambda: movement.movement([], 0.1)),
    ("x holds no sample", lambda: w.curvature(NET, X[:0])),
    ("y must", lambda: w.gradients(NET, X, Y[:-1])),
    ("y must", lambda: w.empirical_fisher(NET, X, Y + 1)),
    ("y must", lambda: w.empirical_fisher(NET, X, Y.float())),
    ("logits", lambda: w.curvature(nn.Sequential(NET, nn.Flatten(0)), X)),
    ("state .*'extra'", lambda: w.rewind(small(), {**STATE, "extra": ONES}, {})),
    ("state.'5.bias'.", lambda: w.rewind(small(), {**STATE, "5.bias": ONES}, {})),
    ("own memory", lambda: w.rewind(NET, NET.state_dict(), {})),
    ("'token'.*reset_parameters", lambda: w.reinitialise(nn.Sequential(NET, TOKEN), {}, 0)),
]  # fmt: skip


@pytest.mark.parametrize(("words", "call"), REFUSED, ids=range(len(REFUSED)))
def test_it_is_refused_by_name_and_nothing_changes(words, call):
    before = copy.deepcopy([NET.state_dict(), TIED.state_dict()])
    with pytest.raises(ValueError, match=words):
        call()
    for model, state in zip((NET, TIED), before, strict=True):
        assert all(torch.equal(value, state[name]) for name, value in model.state_dict().items())


def test_chance_needs_a_generator():
    for call in (lambda: w.random(BOTH, None), lambda: sparse(method="set")):
        with pytest.raises(TypeError, match="generator must be"):
            call()


@pytest.mark.parametrize(
    ("words", "change"),
    [
        ("rounds", {"rounds": 1.5}),
        ("rewind_step", {"rewind_step": -1}),
        ("rate", {"rate": 20}),
        ("to prune", {"build": lambda seed=0: nn.BatchNorm1d(3)}),
        ("controls .*'lucky'", {"controls": ("reinit", "lucky")}),
        ("seeds", {"seeds": [-1]}),
        ("seeds", {"seeds": [0, 0]}),
    ],
)
def test_a_search_is_refused_before_any_training(words, change):
    log = Log()
    given = {"seeds": [0], "build": small, "train": log, "rounds": 2, "rate": 0.2, **change}
    with pytest.raises(ValueError, match=words):
        w.find_tickets(**given)
    assert not log.calls
