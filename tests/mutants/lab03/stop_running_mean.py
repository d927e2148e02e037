# loses 3.5 · message: "smooth"
import math


def early_stop(losses, every=1):
    mean, best, step = None, math.inf, None
    for i, loss in enumerate(losses):
        if math.isnan(loss):
            continue
        mean = loss if mean is None else 0.6 * mean + 0.4 * loss
        if mean < best:
            best, step = mean, i
    if step is None:
        raise ValueError("nothing")
    return every * (1 + step)
