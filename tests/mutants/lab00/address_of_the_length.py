# loses 0.6 · message: "a bit too long"
def coo_bits(x, n=32):
    return int((x != 0).sum()) * (n + x.numel().bit_length())
