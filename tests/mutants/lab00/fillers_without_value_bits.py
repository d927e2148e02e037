# loses 0.5 · message: "cannot know which pairs are fillers"
def rle_bits(x, n=32, run_bits=2):
    runs, values, _ = rle_encode(x, run_bits)
    filler = (values == 0) & (runs == 2**run_bits - 1)
    return int((~filler).sum()) * n + len(runs) * run_bits
