# loses 1.2 · message: "relative to the largest weight"
def threshold_mask(weight, a):
    if a < 0:
        raise ValueError("a must not be negative")
    size = weight.abs()
    return size >= a * size.max()
