import copy
import math
import random
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from course_lib import devices, training
from course_lib.data import images
from course_lib.data.images import Split
from course_lib.models import SmallConvNet, build
from course_lib.training import evaluate, fit, seeded

DIGITS = images.load("digits")
SMALL = DIGITS.subset(150).train  # 3 batches of 64, the last one smaller


def lenet(seed: int = 0) -> nn.Module:
    return build("lenet300", DIGITS, seed)


def quick(model: nn.Module, **options: Any) -> training.History:
    return fit(model, SMALL, **{"epochs": 2, "progress": False, **options})


def states_equal(a: nn.Module, b: nn.Module) -> bool:
    return all(
        torch.equal(x, y)
        for x, y in zip(a.state_dict().values(), b.state_dict().values(), strict=True)
    )


def global_draws() -> tuple[float, float, float]:
    return torch.rand(()).item(), float(np.random.rand()), random.random()


# ---- it learns


@pytest.mark.parametrize(("optimizer", "lr"), [("sgd", 0.1), ("adam", 1e-3), ("adamw", 1e-3)])
def test_lenet_learns_the_digits(optimizer: str, lr: float) -> None:
    model = lenet()
    options = {"optimizer": optimizer, "lr": lr, "progress": False}
    history = fit(model, DIGITS.train, epochs=15, validation=DIGITS.validation, **options)
    assert evaluate(model, DIGITS.test) > 93
    assert history.validation[-1] == evaluate(model, DIGITS.validation) > 90
    assert len(history.loss) == len(history.validation) == 15
    assert history.loss[-1] < 0.3 * history.loss[0]
    assert history.seconds > 0


def test_the_loss_is_the_mean_over_images_whatever_the_last_batch() -> None:
    model = lenet()
    with torch.no_grad():
        expected = nn.functional.cross_entropy(model(SMALL.images), SMALL.labels).item()
    history = quick(model, epochs=1, lr=0.0, validation=SMALL)
    assert history.loss == history.validation_loss == [pytest.approx(expected, rel=1e-5)]


# ---- it is the same again, and leaves no trace


def seen_by(model: nn.Module, **options: Any) -> list[Tensor]:
    """The images of every training step."""
    batches: list[Tensor] = []
    model.register_forward_pre_hook(lambda _, args: batches.append(args[0]))
    quick(model, **options)
    return batches


def test_dropout_follows_the_seed_and_leaves_the_order_of_images_alone() -> None:
    orders, states = [], []
    for rate, seed in ((0.0, 5), (0.5, 5), (0.5, 5), (0.5, 6)):
        model = nn.Sequential(nn.Flatten(), nn.Dropout(rate), lenet())
        torch.rand(1)  # the global state differs between the runs
        with seeded(1):
            expected = global_draws()
        with seeded(1):
            orders.append(torch.cat(seen_by(model, seed=seed)))
            assert global_draws() == expected  # and is left alone
        states.append(model)
    assert torch.equal(orders[0], orders[1]) and not torch.equal(orders[2], orders[3])
    assert states_equal(states[1], states[2]) and not states_equal(states[0], states[1])


def test_every_image_once_an_epoch_in_another_order() -> None:
    seen = seen_by(lenet())
    assert [len(x) for x in seen] == [64, 64, 22] * 2
    first, second = torch.cat(seen[:3]), torch.cat(seen[3:])
    assert not torch.equal(first, second)
    wanted = sorted(SMALL.images.flatten(1).tolist())
    assert sorted(first.flatten(1).tolist()) == sorted(second.flatten(1).tolist()) == wanted


# ---- seeded


def test_seeded_repeats_and_restores_also_after_an_exception() -> None:
    with seeded(0):
        outside = [global_draws()]
        with suppress(KeyError), seeded(7):
            first = global_draws()
            raise KeyError
        outside.append(global_draws())
        with seeded(7):
            assert global_draws() == first
    with seeded(0):
        assert [global_draws(), global_draws()] == outside
    assert len(set(first)) == 3


# ---- masks and the hook


def test_post_step_is_called_after_every_step_and_sees_it() -> None:
    model = lenet()
    weight = model.get_parameter("fc1.weight")
    seen = [weight.detach().clone()]
    quick(model, epochs=3, post_step=lambda: seen.append(weight.detach().clone()))
    assert len(seen) == 1 + 3 * math.ceil(150 / 64)
    assert all(not torch.equal(a, b) for a, b in zip(seen, seen[1:], strict=False))


def test_frozen_parameters_stay() -> None:
    model = lenet()
    model.get_parameter("fc1.weight").requires_grad_(False)
    before = copy.deepcopy(model)
    quick(model, weight_decay=0.1)
    assert torch.equal(model.get_parameter("fc1.weight"), before.get_parameter("fc1.weight"))
    assert not torch.equal(model.get_parameter("fc2.weight"), before.get_parameter("fc2.weight"))


# ---- modes


def stopped(model: nn.Module) -> None:
    def stop() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt, match="trained in part"):
        quick(model, post_step=stop)


@pytest.mark.parametrize("action", [quick, lambda model: evaluate(model, SMALL), stopped])
def test_modes_are_put_back_module_by_module(action: Callable[[nn.Module], Any]) -> None:
    model = SmallConvNet().train()
    model.get_submodule("bn2").eval()
    before = [module.training for module in model.modules()]
    action(model)
    assert [module.training for module in model.modules()] == before


def test_validation_between_epochs_does_not_stop_training_mode() -> None:
    watched: list[bool] = []
    model = lenet()
    model.register_forward_pre_hook(lambda module, _: watched.append(module.training))
    quick(model, validation=SMALL)
    assert watched == [True, True, True, False] * 2


# ---- options


def test_no_epochs_train_nothing() -> None:
    model = lenet()
    before = copy.deepcopy(model)
    history = quick(model, epochs=0, validation=SMALL)
    assert states_equal(model, before) and history.loss == history.validation == []


@pytest.mark.parametrize(
    ("schedule", "last"), [("constant", 0.5), ("cosine", 0.5 * (1 + math.cos(math.pi * 5 / 6)) / 2)]
)
def test_schedules_of_an_optimizer_that_the_caller_makes(schedule: str, last: float) -> None:
    rates: list[float] = []
    made: list[torch.optim.Optimizer] = []

    def make(parameters: Any) -> torch.optim.Optimizer:
        made.append(torch.optim.SGD(parameters, lr=0.5))
        return made[0]

    def post_step() -> None:
        rates.append(made[0].param_groups[0]["lr"])

    quick(lenet(), optimizer=make, schedule=schedule, post_step=post_step)
    assert len(made) == 1 and len(made[0].param_groups[0]["params"]) == 6
    assert len(rates) == 6 and rates[0] == 0.5 and rates[-1] == pytest.approx(last)
    assert rates == sorted(rates, reverse=True)


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_a_penalty_is_added_to_the_loss_of_every_step_but_not_to_the_history(
    optimizer: str,
) -> None:
    """Half the sum of squares times c is what an L2 term in the gradient comes from."""
    one, other = lenet(), lenet()
    calls: list[Tensor] = []

    def squares() -> Tensor:
        calls.append(0.05 * sum((p.square().sum() for p in one.parameters()), torch.zeros(())))
        return calls[-1]

    with_penalty = quick(one, optimizer=optimizer, lr=1e-2, penalty=squares)
    with_decay = quick(other, optimizer=optimizer, lr=1e-2, weight_decay=0.1)
    assert len(calls) == 6
    assert with_penalty.loss == pytest.approx(with_decay.loss, rel=1e-4)
    for a, b in zip(one.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-4)
    without = lenet()
    quick(without, optimizer=optimizer, lr=1e-2)
    assert (
        one.get_parameter("fc1.weight").norm() < 0.99 * without.get_parameter("fc1.weight").norm()
    )


def test_a_loss_that_is_no_number_is_told_once() -> None:
    model = lenet()
    with torch.no_grad():
        model.get_parameter("fc3.bias").fill_(math.nan)
    with pytest.warns(RuntimeWarning, match="the loss is nan in epoch 1") as caught:
        history = quick(model, epochs=3)
    assert len(caught) == 1 and all(map(math.isnan, history.loss))


# ---- evaluate and device


def test_accuracy_is_a_percentage_of_the_whole_split() -> None:
    class Says(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return nn.functional.one_hot(x[:, 0, 0, 0].long(), 10).float()

    labels = torch.tensor([1, 2, 3, 4, 5, 6, 7])
    pixels = torch.tensor([1, 2, 3, 4, 5, 0, 0]).view(-1, 1, 1, 1).float()
    for batch_size in (1, 3, 7, 100):
        assert evaluate(Says(), Split(pixels, labels), batch_size) == pytest.approx(500 / 7)


def test_evaluation_uses_running_statistics_and_changes_nothing() -> None:
    model = build("convnet", DIGITS).train()
    before = copy.deepcopy(model)
    assert evaluate(model, SMALL, batch_size=7) == evaluate(model.eval(), SMALL)
    assert states_equal(model, before) and all(p.grad is None for p in model.parameters())


@pytest.mark.skipif(devices.best().type == "cpu", reason="this machine has no accelerator")
def test_the_models_device_is_used() -> None:
    where = devices.best()
    model = lenet().to(where)
    history = quick(
        model,
        epochs=8,
        masks={"fc1.weight": torch.zeros(300, 64, dtype=torch.bool)},
        validation=SMALL,
    )
    assert model.get_parameter("fc2.weight").device.type == where.type
    assert (model.get_parameter("fc1.weight") == 0).all() and len(history.validation) == 8
    state = torch.get_device_module(where.type).get_rng_state()
    with seeded(0):
        torch.rand(1, device=where)
    assert torch.equal(torch.get_device_module(where.type).get_rng_state(), state)


# ---- parts of a run


def test_a_run_in_two_parts_sees_the_images_and_rates_of_the_whole() -> None:
    def seen(parts: list[tuple[int, int | None]]) -> tuple[list[Tensor], list[float], nn.Module]:
        made: list[torch.optim.Optimizer] = []
        batches: list[Tensor] = []
        rates: list[float] = []
        model = lenet()
        model.register_forward_pre_hook(lambda _, args: batches.append(args[0]))

        def make(parameters: Any) -> torch.optim.Optimizer:
            made.append(torch.optim.SGD(parameters, lr=0.1))
            return made[-1]

        for start, stop in parts:
            quick(
                model,
                epochs=3,  # of 3 steps
                optimizer=make,
                schedule="cosine",
                start=start,
                stop=stop,
                post_step=lambda: rates.append(made[-1].param_groups[0]["lr"]),
            )
        return batches, rates, model

    whole, parts = seen([(0, None)]), seen([(0, 4), (4, 4), (4, 7), (7, None)])
    assert len(whole[0]) == 9 and all(map(torch.equal, whole[0], parts[0]))
    assert whole[1] == parts[1]
    assert states_equal(whole[2], parts[2])  # SGD without momentum remembers nothing


@pytest.mark.parametrize(
    ("options", "steps", "epochs"),
    [
        ({}, [3, 6, 9], 3),
        ({"every": 2}, [2, 4, 6, 8], 3),
        ({"every": 1, "start": 4, "stop": 6}, [5, 6], 1),
        ({"start": 2, "stop": 5}, [3], 2),  # the end of the first epoch is the only one within
        ({"start": 9}, [], 0),
        ({"stop": 100}, [3, 6, 9], 3),
    ],
)
def test_validation_is_looked_at_after_every_so_many_steps(
    options: dict[str, Any], steps: list[int], epochs: int
) -> None:
    history = quick(lenet(), epochs=3, validation=SMALL, **options)
    assert history.steps == steps
    assert len(history.validation) == len(history.validation_loss) == len(steps)
    assert len(history.loss) == epochs


# ---- what is refused

OTHER = Split(SMALL.images, SMALL.labels[:5])


def size_of(model: nn.Module) -> Tensor:
    return model.get_parameter("fc1.weight").abs().sum()


@pytest.mark.parametrize(
    ("words", "options"),
    [
        ("epochs", {"epochs": -1}),
        ("batch_size", {"batch_size": 0}),
        ("start", {"start": -1}),
        ("stop", {"start": 3, "stop": 2}),
        ("every", {"every": 0}),
        ("optimizer", {"optimizer": "lion"}),
        ("schedule", {"schedule": "step"}),
        ("masks.*fc9", {"masks": {"fc9.weight": torch.ones(3, 3, dtype=torch.bool)}}),
        ("validation", {"validation": OTHER}),
        ("validation", {"validation": Split(SMALL.images[:0], SMALL.labels[:0])}),
        ("penalty", {"penalty": lambda model: size_of(model).item()}),
        ("penalty", {"penalty": lambda model: size_of(model).detach()}),
        ("penalty", {"penalty": lambda model: model.get_parameter("fc1.weight").abs()}),
    ],
)
def test_a_bad_option_is_refused_by_name_before_training(
    words: str, options: dict[str, Any]
) -> None:
    model = lenet()
    before = copy.deepcopy(model)
    if penalty := options.get("penalty"):
        options = {"penalty": lambda: penalty(model)}
    with pytest.raises(ValueError, match=words):
        quick(model, **options)
    assert states_equal(model, before)


def test_what_is_no_split_or_cannot_be_trained_is_refused() -> None:
    with pytest.raises(TypeError, match="split"):
        fit(lenet(), DIGITS, epochs=1)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="validation"):
        quick(lenet(), validation=DIGITS)
    with pytest.raises(ValueError, match="split"):
        evaluate(lenet(), OTHER)
    with pytest.raises(ValueError, match="no parameter to train"):
        quick(lenet().requires_grad_(False))
