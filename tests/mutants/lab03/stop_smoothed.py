# loses 3.5 · message: "smooth"
import numpy as np


def early_stop(losses, every=1):
    losses = np.asarray(losses, dtype=float)
    if len(losses) == 0 or np.isnan(losses).all():
        raise ValueError("nothing")
    filled = np.where(np.isnan(losses), np.inf, losses)
    smooth = [filled[max(0, i - 1) : i + 2].mean() for i in range(len(filled))]
    return every * (1 + int(np.argmin(smooth)))
