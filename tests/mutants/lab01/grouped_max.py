# loses 1.3 · message: "scored by their largest weight alone"
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
    score = weight.double().abs()
    for d in dims[weight.ndim, granularity]:
        score = score.amax(d, keepdim=True)
    return magnitude_mask(score, sparsity).expand_as(weight)
