# loses 0.5 · message: "the zeros in the pairs were counted as free"
def rle_bits(x, n=32, run_bits=2):
    runs, values, _ = rle_encode(x, run_bits)
    return len(runs) * run_bits + int((values != 0).sum()) * n
