# loses 1.3 · message: "the largest went"
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
    mask = torch.ones(score.numel(), dtype=torch.bool)
    mask[score.flatten().topk(k).indices] = False
    return mask.view_as(score).expand_as(weight)
