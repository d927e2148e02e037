# loses 0.5 · message: "positions and counts are int64"
_encode = rle_encode


def rle_encode(x, run_bits=2):
    runs, values, shape = _encode(x, run_bits)
    return runs.int(), values, shape
