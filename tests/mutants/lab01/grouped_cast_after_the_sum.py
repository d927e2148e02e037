# loses 1.3 · message: "Sum in float64"
def grouped_mask(weight, sparsity, granularity):
    dims = {
        (4, "element"): (),
        (4, "row"): (3,),
        (4, "kernel"): (2, 3),
        (4, "filter"): (1, 2, 3),
        (2, "element"): (),
        (2, "filter"): (1,),
    }
    if (weight.ndim, granularity) not in dims:
        raise ValueError("no such granularity")
    d = dims[weight.ndim, granularity]
    score = weight.abs().sum(d, keepdim=True).double() if d else weight.abs().double()
    return magnitude_mask(score, sparsity).expand_as(weight)
