# loses 0.6 · message: "a bit too short"
import math


def coo_bits(x, n=32):
    return int((x != 0).sum()) * (n + int(math.log2(x.numel())))
