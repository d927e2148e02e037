# loses 1.3 · message: "an unknown granularity"
def grouped_mask(weight, sparsity, granularity):
    if weight.ndim not in (2, 4):
        raise ValueError("weight must be a convolution's or a matrix")
    score = weight.abs().double()
    if granularity == "filter":
        score = score.flatten(1).sum(1).view(-1, *[1] * (weight.ndim - 1))
    elif granularity in ("kernel", "row"):
        if weight.ndim == 2:
            raise ValueError("a matrix has no kernels")
        score = score.sum(3, keepdim=True)
        if granularity == "kernel":
            score = score.sum(2, keepdim=True)
    return magnitude_mask(score, sparsity).expand_as(weight)
