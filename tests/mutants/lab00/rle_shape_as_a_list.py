# loses 0.5 · message: "it is a tuple of ints"
_encode = rle_encode


def rle_encode(x, run_bits=2):
    runs, values, shape = _encode(x, run_bits)
    return runs, values, list(shape)
