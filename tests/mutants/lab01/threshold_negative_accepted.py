# loses 1.2 · message: "a threshold of -0.5"
def threshold_mask(weight, a):
    return weight.abs() >= a
