# loses 1.3 · message: "single weights went"
def grouped_mask(weight, sparsity, granularity):
    if granularity not in ("element", "row", "kernel", "filter"):
        raise ValueError(granularity)
    if weight.ndim not in (2, 4) or (weight.ndim == 2 and granularity in ("row", "kernel")):
        raise ValueError("no such groups")
    return magnitude_mask(weight, sparsity)
