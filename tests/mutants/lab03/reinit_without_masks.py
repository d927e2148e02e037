# loses 3.4 · message: "that the masks prune"
import torch


def reinitialise(model, masks, seed):
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        for module in model.modules():
            if hasattr(module, "reset_parameters"):
                module.reset_parameters()
