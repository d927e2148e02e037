# loses 1.3 · message: "your code prunes too many"
import torch


def grouped_mask(weight, sparsity, granularity):
    dims = {
        (4, "element"): (),
        (4, "row"): (3,),
        (4, "kernel"): (2, 3),
        (4, "filter"): (1, 2, 3),
        (2, "element"): (),
        (2, "filter"): (1,),
    }
    if (weight.ndim, granularity) not in dims or not 0 <= sparsity <= 1:
        raise ValueError("bad arguments")
    score = weight.abs().double()
    for d in dims[weight.ndim, granularity]:
        score = score.sum(d, keepdim=True)
    k = round(sparsity * score.numel())
    if k == 0:
        return torch.ones_like(weight, dtype=torch.bool)
    return (score > score.flatten().kthvalue(k).values).expand_as(weight)
