"""Short trainings of a small network on the digits, for searches of tickets:
importable, so that they can be sent to processes.
"""

import copy

import torch
from torch import nn

from course_lib.data import images
from course_lib.training import fit

DIGITS = images.load("digits")


def small(seed=0):
    """Conv, batch norm (buffers): whatever a state can hold."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return nn.Sequential(
            nn.Conv2d(1, 4, 3),
            nn.BatchNorm2d(4),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(4 * 36, 12),
            nn.Linear(12, 10),
        )


def trained(model, masks, start, stop, seed=0, lr=0.05, steps=6):
    history = fit(
        model,
        DIGITS.train,
        epochs=1,
        start=start,
        stop=steps if stop is None else stop,
        masks=masks,
        lr=lr,
        seed=seed,
        progress=False,
    )
    return {"loss": history.loss[-1], "start": torch.tensor([start])}


class Log:
    """:func:`trained`, which remembers its calls and the states at their beginning and end."""

    def __init__(self, stop_at=None):
        self.stop_at = stop_at
        self.calls, self.before, self.after = [], [], []

    def __getstate__(self):
        """What tells one training from another: not what was logged."""
        return {"nothing": True}

    def __call__(self, model, masks, start, stop, seed=0):
        if len(self.calls) == self.stop_at:
            raise KeyboardInterrupt
        self.calls.append((start, stop))
        self.before.append(copy.deepcopy(model.state_dict()))
        result = trained(model, masks, start, stop)
        self.after.append(copy.deepcopy(model.state_dict()))
        return result


def same(a, b):
    """Equal to the bit, whatever the nesting."""
    if isinstance(a, torch.Tensor):
        return isinstance(b, torch.Tensor) and a.dtype == b.dtype and torch.equal(a, b)
    if isinstance(a, dict):
        return isinstance(b, dict) and a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    if isinstance(a, list | tuple):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    return type(a) is type(b) and a == b


def counts(masks):
    return {name: int(mask.sum()) for name, mask in masks.items()}
