# loses 1.3 · message: "scored by a sum with signs"
def grouped_mask(weight, sparsity, granularity):
    dims = {
        (4, "element"): None,
        (4, "row"): (3,),
        (4, "kernel"): (2, 3),
        (4, "filter"): (1, 2, 3),
        (2, "element"): None,
        (2, "filter"): (1,),
    }
    if (weight.ndim, granularity) not in dims:
        raise ValueError("no such granularity")
    d = dims[weight.ndim, granularity]
    if d is None:
        return magnitude_mask(weight, sparsity)
    total = weight.double().sum(d, keepdim=True)
    lowest = total - total.min()  # magnitude_mask takes |.|, so make all of them positive
    return magnitude_mask(lowest, sparsity).expand(weight.shape)
