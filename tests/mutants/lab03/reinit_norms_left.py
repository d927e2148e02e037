# loses 3.4 · message: "every module"
import torch


def reinitialise(model, masks, seed):
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        for n, module in model.named_modules():
            if f"{n}.weight" in masks:
                module.reset_parameters()
    with torch.no_grad():
        for n, m in masks.items():
            model.get_parameter(n).masked_fill_(~m, 0)
