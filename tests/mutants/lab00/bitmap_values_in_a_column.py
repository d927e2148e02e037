# loses 0.4 · message: "the values stand one after the other"
def bitmap_encode(x):
    return x != 0, x[x != 0].reshape(-1, 1)
