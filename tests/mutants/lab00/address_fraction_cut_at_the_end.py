# loses 0.6 · message: "a fraction of a bit"
import math


def coo_bits(x, n=32):
    L = x.numel()
    return int(int((x != 0).sum()) * (n + math.log2(L)))
