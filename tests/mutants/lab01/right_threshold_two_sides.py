# keeps 1.2
def threshold_mask(weight, a):
    if not a >= 0:
        raise ValueError("a threshold on a size is not negative")
    return (weight >= a) | (weight <= -a)
