# loses 1.2 · message: "whose squares are 0 in float32"
def threshold_mask(weight, a):
    if a < 0:
        raise ValueError("a must not be negative")
    return weight**2 >= a**2
