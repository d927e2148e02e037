# loses 1.2 · message: "your function changed the weight"
def threshold_mask(weight, a):
    if a < 0:
        raise ValueError("a must not be negative")
    return weight.abs_() >= a
