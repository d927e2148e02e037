# loses 3.5 · message: "highest"
import math


def early_stop(losses, every=1):
    usable = [i for i, loss in enumerate(losses) if not math.isnan(loss)]
    if not usable:
        raise ValueError("nothing")
    return every * (1 + max(usable, key=lambda i: losses[i]))
