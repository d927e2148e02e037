# loses 3.5 · message: "counted from 0"
import math


def early_stop(losses, every=1):
    usable = [i for i, loss in enumerate(losses) if not math.isnan(loss)]
    if not usable:
        raise ValueError("nothing")
    return every * min(usable, key=lambda i: losses[i])
