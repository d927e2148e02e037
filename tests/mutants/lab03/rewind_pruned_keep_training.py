# loses 3.2 · message: "that the masks prune"
import torch


@torch.no_grad()
def rewind(model, state, masks):
    trained = {n: p.clone() for n, p in model.named_parameters()}
    model.load_state_dict(state)
    for n, p in model.named_parameters():
        if n in masks:
            p.copy_(torch.where(masks[n], p, trained[n]))
