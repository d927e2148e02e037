# loses 3.2 · message: "requires_grad"
import torch


def rewind(model, state, masks):
    model.requires_grad_(False)
    model.load_state_dict(state)
    for n, p in model.named_parameters():
        if n in masks:
            p[~masks[n]] = 0
