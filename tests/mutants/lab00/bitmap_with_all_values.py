# loses 0.4 · message: "values holds all elements"
def bitmap_encode(x):
    return x != 0, x.flatten()
