# loses 1.3 · message: "rank by size, without the sign"
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
    d = dims[weight.ndim, granularity]
    score = weight.abs().double().sum(d, keepdim=True) if d else weight
    mask = torch.ones(score.numel(), dtype=torch.bool)
    mask[score.flatten().argsort(stable=True)[: round(sparsity * score.numel())]] = False
    return mask.view_as(score).expand_as(weight)
