# loses 1.3 · message: "a bias (it has one dimension)"
def grouped_mask(weight, sparsity, granularity):
    score = weight.abs().double()
    if granularity in ("kernel", "row") and weight.ndim != 4:
        raise ValueError("only a convolution has kernels")
    if granularity == "filter":
        score = score.reshape(len(weight), -1).sum(1).view(-1, *[1] * (weight.ndim - 1))
    elif granularity == "kernel":
        score = score.sum((-2, -1), keepdim=True)
    elif granularity == "row":
        score = score.sum(-1, keepdim=True)
    elif granularity != "element":
        raise ValueError(f"unknown granularity {granularity}")
    return magnitude_mask(score, sparsity).expand_as(weight)
