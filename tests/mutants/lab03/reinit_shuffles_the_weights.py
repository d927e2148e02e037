# loses 3.4 · message: "reset_parameters"
import torch


@torch.no_grad()
def reinitialise(model, masks, seed):
    generator = torch.Generator().manual_seed(seed)
    for n, m in masks.items():
        p = model.get_parameter(n)
        kept = p[m]
        p[m] = kept[torch.randperm(len(kept), generator=generator)]
        p[~m] = 0
