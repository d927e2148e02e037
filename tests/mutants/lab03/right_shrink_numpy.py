# keeps 3.1
import numpy as np
import torch


def shrink(weights, masks, rate, output_rate=None):
    rates = [rate] * (len(weights) - 1) + [rate / 2 if output_rate is None else output_rate]
    if min(rate, *rates) < 0 or max(rate, *rates) > 1:
        raise ValueError("rates lie between 0 and 1")
    out = {}
    for (name, w), r in zip(weights.items(), rates):
        size, alive = np.abs(w.detach().numpy()), masks[name].numpy()
        where = np.flatnonzero(alive)
        order = np.argsort(size.reshape(-1)[where], kind="stable")
        new = alive.copy().reshape(-1)
        new[where[order[: round(r * len(where))]]] = False
        out[name] = torch.from_numpy(new.reshape(alive.shape))
    return out
