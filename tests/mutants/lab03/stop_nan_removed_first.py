# loses 3.5 · message: "places"
import math


def early_stop(losses, every=1):
    losses = [loss for loss in losses if not math.isnan(loss)]
    if not losses:
        raise ValueError("nothing")
    return every * (1 + losses.index(min(losses)))
