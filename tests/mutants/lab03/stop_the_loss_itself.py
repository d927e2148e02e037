# loses 3.5 · message: "the loss itself"
import math


def early_stop(losses, every=1):
    usable = [loss for loss in losses if not math.isnan(loss)]
    if not usable:
        raise ValueError("nothing")
    return min(usable)
