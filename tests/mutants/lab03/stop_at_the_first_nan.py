# loses 3.5 · message: "the losses after a NaN count as well"
import math


def early_stop(losses, every=1):
    best, step = math.inf, None
    for i, loss in enumerate(losses):
        if math.isnan(loss):
            if step is not None:
                break
            continue
        if step is None or loss < best:
            best, step = loss, i
    if step is None:
        raise ValueError("nothing")
    return every * (1 + step)
