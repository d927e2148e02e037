# loses 0.6 · message: "what could it tell apart"
import math


def coo_bits(x, n=32):
    width = max(1, math.ceil(math.log2(x.numel())))  # an address cannot have no bits
    return int((x != 0).sum()) * (n + width)
