"""Recalibration re-estimates batch norm's statistics, from scratch and nothing else."""

import copy

import pytest
import torch
from torch import nn

from course_lib.pruning.channels import recalibrate


@pytest.fixture
def model():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        net = nn.Sequential(
            nn.Conv2d(1, 4, 3),
            nn.BatchNorm2d(4),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(64, 5),
            nn.BatchNorm1d(5, momentum=0.3),
        )
        for _ in range(3):
            net(torch.randn(7, 1, 6, 6) * 3 + 2)  # statistics of other data
    return net.eval()


@pytest.fixture
def images():
    return torch.randn(50, 1, 6, 6, generator=torch.Generator().manual_seed(1))


def statistics(model):
    return {k: v.clone() for k, v in model.state_dict().items() if "running" in k}


def same(a, b, **kwargs):
    for k in a:
        torch.testing.assert_close(a[k], b[k], **kwargs)


def test_like_a_fresh_cumulative_average(model, images):
    twin = copy.deepcopy(model)
    recalibrate(model, images, batch_size=16)
    for m in (twin[1], twin[5]):
        m.reset_running_stats()
        m.momentum = None
    twin.train()
    with torch.no_grad():
        for batch in images.tensor_split(4):  # 13, 13, 12, 12: equal but for one
            twin(batch)
    same(statistics(model), statistics(twin), rtol=0, atol=0)


def test_no_batch_of_one_is_left_over(model, images):
    """49 + 1 would raise: a batch of one has no variance."""
    recalibrate(model, images, batch_size=49)


def test_only_the_statistics_change(model, images):
    model[1].train()  # a model in mixed modes, as after freezing
    modes, before = [m.training for m in model.modules()], copy.deepcopy(model.state_dict())
    recalibrate(model, images)
    assert [m.training for m in model.modules()] == modes
    assert model[1].momentum == 0.1 and model[5].momentum == 0.3
    after = model.state_dict()
    changed = {k for k in before if not torch.equal(before[k], after[k])}
    assert changed == {
        f"{i}.{n}" for i in (1, 5) for n in ("running_mean", "running_var", "num_batches_tracked")
    }
    assert all(p.grad is None for p in model.parameters())


def test_after_an_exception_the_old_statistics_are_back(model, images):
    before, modes = copy.deepcopy(model.state_dict()), [m.training for m in model.modules()]
    with pytest.raises(RuntimeError):
        recalibrate(model, images[:, :, :4])  # the linear layer does not fit
    assert all(torch.equal(before[k], v) for k, v in model.state_dict().items())
    assert [m.training for m in model.modules()] == modes and model[5].momentum == 0.3
