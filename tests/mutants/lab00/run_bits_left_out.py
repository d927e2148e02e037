# loses 0.5 · message: "the bits of the runs are missing"
def rle_bits(x, n=32, run_bits=2):
    return len(rle_encode(x, run_bits)[0]) * n
