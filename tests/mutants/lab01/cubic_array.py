# loses 1.7 · message: "it is a numpy array"
import numpy as np


def cubic_schedule(final, steps):
    if not (0 <= final <= 1 and steps >= 1):
        raise ValueError(f"{final}, {steps}")
    t = np.arange(1, steps + 1)
    return final * (1 - (1 - t / steps) ** 3)
