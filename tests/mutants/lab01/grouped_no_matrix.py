# loses 1.3 · message: "granularity "filter", your code raised IndexError"
def grouped_mask(weight, sparsity, granularity):
    if granularity == "element":
        return magnitude_mask(weight, sparsity)
    dims = {"row": (3,), "kernel": (2, 3), "filter": (1, 2, 3)}[granularity]
    norm = weight.abs().double().sum(dim=dims, keepdim=True)
    return magnitude_mask(norm, sparsity).expand_as(weight).clone()
