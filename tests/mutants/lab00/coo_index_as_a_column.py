# loses 0.6 · message: "its numbers stand one after the other"
def coo_encode(x):
    flat = x.flatten()
    index = flat.nonzero()
    return index, flat[index].flatten(), tuple(x.shape)
