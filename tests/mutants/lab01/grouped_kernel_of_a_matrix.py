# loses 1.3 · message: "for a matrix (it has no kernels)"
def grouped_mask(weight, sparsity, granularity):
    if weight.ndim not in (2, 4):
        raise ValueError("weight must be a convolution's or a matrix")
    score = weight.abs().double()
    if granularity == "filter":
        score = score.flatten(1).sum(1).view(-1, *[1] * (weight.ndim - 1))
    elif granularity == "kernel":
        score = score.sum((-2, -1), keepdim=True)
    elif granularity == "row":
        score = score.sum(-1, keepdim=True)
    elif granularity != "element":
        raise ValueError(f"unknown granularity {granularity}")
    return magnitude_mask(score, sparsity).expand_as(weight)
