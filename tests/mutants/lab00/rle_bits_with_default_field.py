# loses 0.5 · message: "although another width was asked for"
def rle_bits(x, n=32, run_bits=2):
    runs, _, _ = rle_encode(x)
    return len(runs) * (n + run_bits)
