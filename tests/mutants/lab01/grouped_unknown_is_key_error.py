# loses 1.3 · message: "it raised a KeyError"
def grouped_mask(weight, sparsity, granularity):
    n_dims = {"element": 0, "row": 1, "kernel": 2, "filter": weight.ndim - 1}[granularity]
    if weight.ndim not in (2, 4) or (weight.ndim == 2 and granularity in ("row", "kernel")):
        raise ValueError("no such groups in this weight")
    score = weight.abs().double()
    for d in range(weight.ndim - n_dims, weight.ndim):
        score = score.sum(d, keepdim=True)
    return magnitude_mask(score, sparsity).expand_as(weight)
