# loses 3.2 · message: "that the masks prune"
import torch


def rewind(model, state, masks):
    with torch.no_grad():
        for n, p in model.named_parameters():
            if n in masks:
                p.masked_fill_(~masks[n], 0)
    model.load_state_dict(state)
