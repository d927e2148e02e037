# loses 0.5 · message: "fillers were counted without their run"
def rle_bits(x, n=32, run_bits=2):
    runs, values, _ = rle_encode(x, run_bits)
    filler = (values == 0) & (runs == 2**run_bits - 1)
    return len(runs) * n + int((~filler).sum()) * run_bits
