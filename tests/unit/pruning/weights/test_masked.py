"""Where ``with masked(...)`` meets nesting, threads, copies and errors; that zeros hold is
in ``test_zeros.py``.
"""

import copy
import io
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch import nn
from torch.optim import SGD, Adam

from course_lib.pruning import weights


@pytest.fixture
def model():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return nn.Sequential(
            nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 16, 3)
        )


@pytest.fixture
def masks(model):
    return weights.local_masks(weights.magnitude(weights.prunable(model)), 0.7)


def step(model, *optimizers):
    x = torch.randn(8, 1, 6, 6, dtype=next(model.parameters()).dtype)
    model.zero_grad()
    model(x).square().mean().backward()
    for optimizer in optimizers or [SGD(model.parameters(), lr=0.1)]:
        optimizer.step()


def zeros_hold(model, masks):
    return all((p[~masks[n]] == 0).all() for n, p in weights.prunable(model).items() if n in masks)


def test_several_optimizers_and_parameter_groups_a_grad_scaler_and_a_closure(model, masks):
    groups = [{"params": [model[0].weight]}, {"params": model[1].parameters(), "lr": 0.01}]
    first = SGD(groups, lr=0.1, momentum=0.9)
    second = Adam(model[4].parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu")
    x = torch.ones(4, 1, 6, 6)

    def closure():
        second.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        return loss

    with weights.masked(model, masks):
        for _ in range(3):
            step(model, first, second)
            assert zeros_hold(model, masks)
        scaler.scale(model(x).square().mean()).backward()
        scaler.step(second)
        scaler.update()
        assert zeros_hold(model, masks)
        second.step(closure)
        assert zeros_hold(model, masks)


def test_an_exception_passes_through_with_zeros_and_no_hook(model, masks):
    with pytest.raises(KeyError), weights.masked(model, masks):
        with torch.no_grad():
            model[0].weight.fill_(1.0)
        raise KeyError("from the training loop")
    assert zeros_hold(model, masks)
    step(model)
    assert not zeros_hold(model, masks)  # nothing holds them any more


@pytest.mark.parametrize("then", [step, lambda model, held: held.apply(), lambda *_: None])
def test_parameters_that_are_replaced_are_noticed(model, masks, then):
    before = copy.deepcopy(model.state_dict())
    with (
        pytest.raises(RuntimeError, match=r"'0.weight' is another parameter.*assign=True"),
        weights.masked(model, masks) as held,
    ):
        model.load_state_dict(before)  # into the parameters that are there
        held.apply()
        model.load_state_dict(before, assign=True)
        then(model, *([SGD(model.parameters(), lr=0.1)] if then is step else [held]))
    with weights.masked(model, masks):  # the block is closed, and another holds the new ones
        assert zeros_hold(model, masks)


def test_nan_in_pruned_places_becomes_zero_and_elsewhere_stays_visible(model, masks):
    def poison(optimizer, args, kwargs):  # as a diverged update would
        with torch.no_grad():
            model[0].weight.fill_(torch.nan)

    optimizer = SGD(model.parameters(), lr=0.1)
    optimizer.register_step_post_hook(poison)  # an optimizer's own hooks run before the global ones
    with weights.masked(model, masks):
        step(model, optimizer)
        assert torch.equal(model[0].weight.isnan(), masks["0.weight"])
        assert (model[0].weight[~masks["0.weight"]] == 0).all()


def test_blocks_nest_and_the_outer_one_goes_on(model):
    outer = {"0.weight": torch.ones(4, 1, 3, 3, dtype=torch.bool)}
    outer["0.weight"][0] = False
    inner = {"0.weight": ~outer["0.weight"], "4.weight": torch.zeros(3, 64, dtype=torch.bool)}
    with weights.masked(model, outer):
        with weights.masked(model, inner):
            step(model)
            assert (model[0].weight == 0).all() and (model[4].weight == 0).all()
        model[4].reset_parameters()  # otherwise no gradient reaches the convolution
        step(model)
        assert zeros_hold(model, outer) and not zeros_hold(model, inner)


def test_a_block_may_be_entered_again_but_not_twice_at_once_nor_applied_outside(model, masks):
    held = weights.masked(model, masks)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="weights.apply"):
            held.apply()
        with held as same:
            with pytest.raises(RuntimeError, match="make a second one"):
                held.__enter__()
            step(model)
            assert same is held and zeros_hold(model, masks)
            with torch.no_grad():
                model[0].weight.sub_(1.0)
            held.apply()
            assert zeros_hold(model, masks)


def test_another_models_optimizer_does_not_touch_this_one_and_gradients_stay_dense(model, masks):
    """Two networks trained in turn: a step of one between forward and backward of the
    other must not write to it. Growth criteria read the gradient of pruned weights.
    """
    other = nn.Linear(2, 2)
    other(torch.ones(1, 2)).sum().backward()
    with weights.masked(model, masks):
        loss = model(torch.randn(2, 1, 6, 6, requires_grad=True)).sum()
        SGD(other.parameters(), lr=0.1).step()
        loss.backward()  # raises if a weight it needs was modified in place
        assert (model[4].weight.grad[~masks["4.weight"]] != 0).any()


def test_a_masked_model_is_copied_saved_and_converted_like_any_other(model, masks):
    with weights.masked(model, masks):
        file = io.BytesIO()
        torch.save(model, file)
        file.seek(0)
        for other in (copy.deepcopy(model), torch.load(file, weights_only=False)):
            assert list(other.state_dict()) == list(model.state_dict())
            assert zeros_hold(other, masks)
            step(other)  # a copy is another model: it can be trained, and is not held
            assert not zeros_hold(other, masks)
        for dtype in (torch.bfloat16, torch.float64):
            model.to(dtype)
            step(model, SGD(model.parameters(), lr=0.1, momentum=0.9))
            assert model[0].weight.dtype == dtype and zeros_hold(model, masks)


def test_threads_open_and_close_blocks_while_others_step(model, masks):
    """One lab fine-tunes two models at a time: an optimizer's step must survive that
    another block opens meanwhile.
    """

    def job(_: int) -> bool:
        mine = copy.deepcopy(model)
        optimizer = SGD(mine.parameters(), lr=0.01)
        for parameter in mine.parameters():
            parameter.grad = torch.ones_like(parameter)
        for _ in range(100):
            with weights.masked(mine, masks):
                optimizer.step()
                if not zeros_hold(mine, masks):
                    return False
        return True

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)  # the threads change places as often as they can
    try:
        with ThreadPoolExecutor(4) as pool:
            assert all(pool.map(job, range(8)))
    finally:
        sys.setswitchinterval(interval)
