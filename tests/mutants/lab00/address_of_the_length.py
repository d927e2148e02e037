# loses 0.6 · message: "one bit too many"
def coo_bits(x, n=32):
    return int((x != 0).sum()) * (n + x.numel().bit_length())
