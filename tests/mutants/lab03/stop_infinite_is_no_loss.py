# loses 3.5 · message: "inf"
import math


def early_stop(losses, every=1):
    best, step = math.inf, None
    for i, loss in enumerate(losses):
        if loss < best:
            best, step = loss, i
    if step is None:
        raise ValueError("nothing")
    return every * (1 + step)
