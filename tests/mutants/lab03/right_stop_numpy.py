# keeps 3.5
import numpy as np


def early_stop(losses, every=1):
    losses = np.array(losses, dtype=np.float64)
    if losses.size == 0 or np.all(np.isnan(losses)):
        raise ValueError("no losses")
    return every * (1 + np.nanargmin(losses))
