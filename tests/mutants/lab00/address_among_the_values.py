# loses 0.6 · message: "they go over all L places"
def coo_bits(x, n=32):
    kept = int((x != 0).sum())
    return kept * (n + (kept - 1).bit_length())
