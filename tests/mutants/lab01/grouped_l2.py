# loses 1.3 · message: "the L2 norm"
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
    score = weight.double().abs() if not d else (weight.double() ** 2).sum(d, keepdim=True).sqrt()
    return magnitude_mask(score, sparsity).expand_as(weight)
