# loses 3.5 · message: "NaN"
import math


def early_stop(losses, every=1):
    if not losses or all(math.isnan(loss) for loss in losses):
        raise ValueError("nothing")
    return every * (1 + losses.index(min(losses)))
