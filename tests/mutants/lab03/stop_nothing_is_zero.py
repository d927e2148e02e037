# loses 3.5 · message: "should raise a ValueError"
import math


def early_stop(losses, every=1):
    usable = [i for i, loss in enumerate(losses) if not math.isnan(loss)]
    if not usable:
        return 0
    return every * (1 + min(usable, key=lambda i: losses[i]))
