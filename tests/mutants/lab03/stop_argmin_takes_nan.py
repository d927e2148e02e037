# loses 3.5 · message: "NaN"
import numpy as np


def early_stop(losses, every=1):
    if len(losses) == 0 or np.isnan(losses).all():
        raise ValueError("nothing")
    return every * (1 + int(np.argmin(losses)))
