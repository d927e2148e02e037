# loses 1.2 · message: "a weight with |w| exactly a went"
def threshold_mask(weight, a):
    if a < 0:
        raise ValueError("a must not be negative")
    return weight.abs() > a
