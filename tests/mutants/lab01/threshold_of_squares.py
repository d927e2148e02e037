# loses 1.2 · message: "w² was compared with a"
def threshold_mask(weight, a):
    if a < 0:
        raise ValueError("a must not be negative")
    return weight**2 >= a
