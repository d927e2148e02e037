# keeps 1.3
import itertools

import torch


def grouped_mask(weight, sparsity, granularity):
    depth = {"filter": 1, "kernel": 2, "row": 3, "element": weight.ndim}
    if weight.ndim == 2 and granularity in ("kernel", "row"):
        raise ValueError("a matrix has elements and filters")
    if weight.ndim not in (2, 4) or granularity not in depth or not 0 <= sparsity <= 1:
        raise ValueError("bad arguments")
    places = list(itertools.product(*[range(n) for n in weight.shape[: depth[granularity]]]))
    norms = [weight[place].double().abs().sum().item() for place in places]
    if any(n != n for n in norms):
        raise ValueError("NaN")
    mask = torch.ones(weight.shape, dtype=torch.bool)
    for _, place in sorted(zip(norms, places, strict=True))[: round(sparsity * len(places))]:
        mask[place] = False
    return mask
