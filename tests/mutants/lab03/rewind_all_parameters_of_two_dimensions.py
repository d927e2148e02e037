# loses 3.2 · message: "your code raised KeyError"
import torch


def rewind(model, state, masks):
    model.load_state_dict(state)
    with torch.no_grad():
        for n, p in model.named_parameters():
            if p.ndim >= 2:
                p *= masks[n]
