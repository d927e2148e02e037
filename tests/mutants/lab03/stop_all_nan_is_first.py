# loses 3.5 · message: "should raise a ValueError"
import math


def early_stop(losses, every=1):
    if not losses:
        raise ValueError("nothing")
    best = 0
    for i, loss in enumerate(losses):
        if loss < losses[best] or math.isnan(losses[best]):
            best = i
    return every * (1 + best)
