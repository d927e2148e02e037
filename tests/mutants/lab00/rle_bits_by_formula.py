# loses 0.5 · message: "count the pairs"
def rle_bits(x, n=32, run_bits=2):
    p = float((x == 0).double().mean())
    return round(x.numel() * (1 - p) / (1 - p ** (2**run_bits)) * (n + run_bits)) if p < 1 else n + run_bits
