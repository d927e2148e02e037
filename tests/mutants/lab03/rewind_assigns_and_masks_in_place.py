# loses 3.2 · message: "your function changed the state"
import torch


@torch.no_grad()
def rewind(model, state, masks):
    model.load_state_dict(state, assign=True)
    for n, p in model.named_parameters():
        if n in masks:
            p.masked_fill_(~masks[n], 0)
