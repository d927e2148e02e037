# loses 3.4 · message: "generator"
import torch


def reinitialise(model, masks, seed):
    torch.manual_seed(seed)
    for module in model.modules():
        if hasattr(module, "reset_parameters"):
            module.reset_parameters()
    with torch.no_grad():
        for n, m in masks.items():
            model.get_parameter(n).masked_fill_(~m, 0)
