# loses 0.6 · message: "an address of one number per dimension"
def coo_bits(x, n=32):
    return int((x != 0).sum()) * (n + sum((size - 1).bit_length() for size in x.shape))
