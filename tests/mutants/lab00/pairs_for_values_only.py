# loses 0.5 · message: "fillers and the pair for the zeros at the end are missing"
def rle_bits(x, n=32, run_bits=2):
    return int((x != 0).sum()) * (n + run_bits)
