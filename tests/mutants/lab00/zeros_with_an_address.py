# loses 0.6 · message: "the zeros got an address"
def coo_bits(x, n=32):
    return x.numel() * (n + (x.numel() - 1).bit_length())
