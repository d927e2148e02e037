# loses 1.2 · message: "just below a stayed"
def threshold_mask(weight, a):
    if a < 0:
        raise ValueError("a must not be negative")
    return weight.abs() > a - 1e-6  # so that rounding does not prune a weight of exactly a
