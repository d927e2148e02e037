"""The training loop for texts, on a task that a network of one layer learns in a
second.
"""

from collections.abc import Iterator
from typing import Any

import pytest
import torch

from course_lib.models.bert import small_bert
from course_lib.training import accuracy, endless, fit_batches, warm_up_then_decay


def tiny(seed: int = 0, **options: Any) -> Any:
    return small_bert(
        20, 2, layers=1, width=16, heads=2, ffn=32, positions=10, seed=seed, **options
    )


def batches(n: int, seed: int = 0, size: int = 16) -> Iterator[dict[str, torch.Tensor]]:
    """Is piece 7 in the text?"""
    generator = torch.Generator().manual_seed(seed)
    for _ in range(n):
        ids = torch.randint(8, 20, (size, 9), generator=generator)
        labels = torch.randint(0, 2, (size,), generator=generator)
        place = torch.randint(0, 9, (size,), generator=generator)
        ids[torch.arange(size), place] = torch.where(labels == 1, 7, ids[torch.arange(size), place])
        yield {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": labels}


def test_it_learns_and_tells_what_happened() -> None:
    model = tiny().eval()
    history = fit_batches(model, batches(10_000), 250, lr=3e-3, progress=False)
    assert history.done == 250 and len(history.loss) == 3
    assert history.loss[-1] < 0.2 < history.loss[0]
    assert accuracy(model, batches(10, seed=2)) > 95
    assert history.seconds > 0 and history.cpu_seconds > 0
    assert not any(module.training for module in model.modules())


def test_the_same_seed_gives_the_same_weights_whatever_the_global_state() -> None:
    states = []
    for start in (1, 2):
        torch.manual_seed(start)
        model = tiny()
        model.config.hidden_dropout_prob = 0.5
        fit_batches(model, batches(5), 5, progress=False, seed=3)
        states.append(model.state_dict())
    assert all(torch.equal(states[0][key], states[1][key]) for key in states[0])


def test_the_rate_rises_stays_and_falls() -> None:
    rate = warm_up_then_decay(4, decay_from=10)
    assert [rate(step, 20) for step in (0, 1, 3, 4, 10, 15, 19)] == pytest.approx(
        [0.25, 0.5, 1, 1, 1, 0.5, 0.1]
    )
    assert warm_up_then_decay(0)(0, 10) == 1
    assert warm_up_then_decay(0, decay_from=10)(3, 10) == 1  # never falls


def test_mistakes_are_told() -> None:
    model = tiny()
    with pytest.raises(ValueError, match="is the learning rate too high"):
        fit_batches(model, batches(20), 20, lr=1e30, clip=1e30, progress=False)
    frozen = tiny().requires_grad_(False)
    with pytest.raises(ValueError, match="frozen"):
        fit_batches(frozen, batches(1), 1, progress=False)
    with pytest.raises(ValueError, match="at least one text"):
        accuracy(frozen, iter(()))


def test_accuracy_counts_every_text_once_in_batches_of_any_size() -> None:
    model = tiny(seed=5).train()
    parts = list(batches(3, seed=1)) + list(batches(1, seed=2, size=5))
    right = sum(int((model(**part).logits.argmax(1) == part["labels"]).sum()) for part in parts)
    assert accuracy(model, parts) == pytest.approx(100 * right / 53)
    assert model.training


def test_a_loss_and_parameter_groups_of_ones_own() -> None:
    """A second model's parameter is trained along, at a rate of its own; the head of
    the first is left alone.
    """
    model, threshold = tiny(), torch.nn.Parameter(torch.zeros(2))
    groups = [
        {"params": list(model.bert.parameters())},
        {"params": [threshold], "lr": 0.25, "weight_decay": 0.0},
    ]
    head, body = (
        model.classifier.weight.detach().clone(),
        model.bert.pooler.dense.weight.detach().clone(),
    )

    def loss(model: Any, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        return model(**batch).loss - threshold.sum()

    history = fit_batches(
        model, batches(4), 4, loss=loss, groups=groups, betas=(0.0, 0.0), progress=False
    )
    assert torch.equal(model.classifier.weight, head) and not torch.equal(
        model.bert.pooler.dense.weight, body
    )
    # Adam's steps are of the size of the rate
    assert threshold.tolist() == pytest.approx([1.0, 1.0])
    assert history.done == 4 and history.loss[0] < 0.5


def test_the_loop_is_that_of_torch() -> None:
    """Written out beside it: rates for each group, clipping, a run in two parts."""
    ours, theirs = tiny(), tiny()
    halves = [list(model.parameters()) for model in (ours, theirs)]
    rates = (warm_up_then_decay(2, 3), lambda step, steps: 1 - step / steps)
    updates = [
        torch.optim.SGD([{"params": h[:5]}, {"params": h[5:], "lr": 0.3}], lr=0.1, momentum=0.9)
        for h in halves
    ]
    seen = []
    for part in ((0, 4), (4, None)):
        fit_batches(
            ours,
            list(batches(6))[part[0] : part[1]],
            6,
            optimizer=updates[0],
            start=part[0],
            stop=part[1],
            rate=rates,
            clip=0.5,
            after=lambda history, loss: seen.append(history.done),
            progress=False,
        )
        for group, lr in zip(updates[0].param_groups, (0.1, 0.3), strict=True):
            group["lr"] = lr
    theirs.train()
    for step, batch in enumerate(batches(6)):
        for group, top, rate in zip(updates[1].param_groups, (0.1, 0.3), rates, strict=True):
            group["lr"] = top * rate(step, 6)
        updates[1].zero_grad()
        theirs(**batch).loss.backward()
        torch.nn.utils.clip_grad_norm_(halves[1], 0.5)
        updates[1].step()
    assert seen == [1, 2, 3, 4, 1, 2]
    assert all(torch.equal(a, b) for a, b in zip(*halves, strict=True))


def test_batches_without_end_come_in_another_order_in_every_epoch() -> None:
    batches = endless(lambda seed: iter([{"labels": torch.tensor([seed])}] * 2), seed=3)
    assert [int(next(batches)["labels"]) for _ in range(5)] == [3000, 3000, 3001, 3001, 3002]
