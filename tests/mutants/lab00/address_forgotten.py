# loses 0.6 · message: "the addresses are missing"
def coo_bits(x, n=32):
    return int((x != 0).sum()) * n
