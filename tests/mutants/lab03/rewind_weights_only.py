# loses 3.2 · message: "without a mask"
import torch


@torch.no_grad()
def rewind(model, state, masks):
    for n, p in model.named_parameters():
        if n in masks:
            p.copy_(state[n] * masks[n])
