# loses 3.2 · message: "buffer"
import torch


@torch.no_grad()
def rewind(model, state, masks):
    for n, p in model.named_parameters():
        p.copy_(state[n])
        if n in masks:
            p.masked_fill_(~masks[n], 0)
