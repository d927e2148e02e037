# loses 1.3 · message: "a weight with three dimensions"
def grouped_mask(weight, sparsity, granularity):
    if weight.ndim < 2 or (weight.ndim < 4 and granularity in ("row", "kernel")):
        raise ValueError("weight must be a convolution's or a matrix")
    score = weight.abs().double()
    if granularity == "filter":
        score = score.flatten(1).sum(1).view(-1, *[1] * (weight.ndim - 1))
    elif granularity == "kernel":
        score = score.sum((-2, -1), keepdim=True)
    elif granularity == "row":
        score = score.sum(-1, keepdim=True)
    elif granularity != "element":
        raise ValueError(f"no {granularity}")
    return magnitude_mask(score, sparsity).expand_as(weight)
