# loses 1.3 · message: "how many numbers did your code rank?"
def grouped_mask(weight, sparsity, granularity):
    dims = {4: {"element": (), "row": (3,), "kernel": (2, 3), "filter": (1, 2, 3)}, 2: {"element": (), "filter": (1,)}}
    if weight.ndim not in dims or granularity not in dims[weight.ndim]:
        raise ValueError(granularity)
    norm = weight.abs().double().sum(dim=dims[weight.ndim][granularity], keepdim=True)  # dim=() sums over all
    return magnitude_mask(norm, sparsity).expand_as(weight).clone()
