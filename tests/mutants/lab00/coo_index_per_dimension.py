# loses 0.6 · message: "one position in the flattened tensor"
def coo_encode(x):
    index = (x != 0).nonzero()
    return index, x[x != 0], tuple(x.shape)
