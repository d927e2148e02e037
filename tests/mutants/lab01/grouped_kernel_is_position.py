# loses 1.3 · message: "went as a whole, but a kernel is"
def grouped_mask(weight, sparsity, granularity):
    dims = {
        (4, "element"): (),
        (4, "row"): (3,),
        (4, "kernel"): (0, 1),
        (4, "filter"): (1, 2, 3),
        (2, "element"): (),
        (2, "filter"): (1,),
    }
    if (weight.ndim, granularity) not in dims:
        raise ValueError("no such granularity")
    score = weight.abs().double()
    for d in dims[weight.ndim, granularity]:
        score = score.sum(d, keepdim=True)
    return magnitude_mask(score, sparsity).expand_as(weight)
