# loses 3.2 · message: "without a mask"
import torch


@torch.no_grad()
def rewind(model, state, masks):
    for n, p in model.named_parameters():
        p.copy_(state[n] * masks[n] if n in masks else torch.zeros_like(p))
    for n, b in model.named_buffers():
        b.copy_(state[n])
