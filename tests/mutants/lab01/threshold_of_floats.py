# loses 1.2 · message: "kept or not is a bool"
def threshold_mask(weight, a):
    if a < 0:
        raise ValueError("a must not be negative")
    return (weight.abs() >= a).float()
