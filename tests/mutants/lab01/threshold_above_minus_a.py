# loses 1.2 · message: "the threshold is for |w|, not for w"
def threshold_mask(weight, a):
    if a < 0:
        raise ValueError("a must not be negative")
    return weight >= -a
