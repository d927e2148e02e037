# loses 0.5 · message: "bytes, it seems"
def rle_bits(x, n=32, run_bits=2):
    runs, _, _ = rle_encode(x, run_bits)
    return len(runs) * (n + run_bits) / 8
