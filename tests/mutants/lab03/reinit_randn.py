# loses 3.4 · message: "reset_parameters"
import torch


def reinitialise(model, masks, seed):
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        with torch.no_grad():
            for n, p in model.named_parameters():
                if n in masks:
                    p.copy_(torch.randn(p.shape) * masks[n])
