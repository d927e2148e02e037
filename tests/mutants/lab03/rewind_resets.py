# loses 3.2 · message: "drawn afresh"
import torch


def rewind(model, state, masks):
    for module in model.modules():
        if hasattr(module, "reset_parameters"):
            module.reset_parameters()
    with torch.no_grad():
        for n, p in model.named_parameters():
            if n in masks:
                p.masked_fill_(~masks[n], 0)
