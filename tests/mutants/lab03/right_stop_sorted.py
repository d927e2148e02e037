# keeps 3.5
import math


def early_stop(losses, every=1):
    pairs = sorted((loss, i) for i, loss in enumerate(losses) if not math.isnan(loss))
    if len(pairs) == 0:
        raise ValueError("empty or all NaN")
    return (pairs[0][1] + 1) * every
