# loses 0.5 · message: "What is special about it?"
_encode = rle_encode


def rle_encode(x, run_bits=2):
    last = (x.flatten() != 0).nonzero()[-1]  # the last value
    return _encode(x, run_bits)
