# loses 3.4 · message: "reset_parameters"
import torch


def reinitialise(model, masks, seed):
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        for n, p in model.named_parameters():
            if p.ndim >= 2:
                torch.nn.init.xavier_uniform_(p)
            else:
                torch.nn.init.zeros_(p)
            if n in masks:
                p.data.mul_(masks[n])
