# loses 1.2 · message: "every negative weight went"
def threshold_mask(weight, a):
    if a < 0:
        raise ValueError("a must not be negative")
    return weight > a
