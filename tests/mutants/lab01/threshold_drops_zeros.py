# loses 1.2 · message: "at a = 0 the zeros went"
def threshold_mask(weight, a):
    if a < 0:
        raise ValueError("a must not be negative")
    return (weight.abs() >= a) & (weight != 0)
