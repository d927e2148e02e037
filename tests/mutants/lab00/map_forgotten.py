# loses 0.4 · message: "the map was forgotten"
def bitmap_bits(x, n=32):
    return int((x != 0).sum()) * n
