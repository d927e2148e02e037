# loses 0.6 · message: "one bit too few"
import math


def coo_bits(x, n=32):
    return int((x != 0).sum()) * (n + round(math.log2(x.numel())))
