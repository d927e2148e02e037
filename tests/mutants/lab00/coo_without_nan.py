# loses 0.6 · message: "NaN was lost"
def coo_encode(x):
    flat = x.flatten()
    index = ((flat < 0) | (flat > 0)).nonzero().flatten()
    return index, flat[index], tuple(x.shape)
