# loses 3.2 · message: "trained"
import copy

import torch


def rewind(model, state, masks):
    model = copy.deepcopy(model)
    model.load_state_dict(state)
    with torch.no_grad():
        for n, p in model.named_parameters():
            if n in masks:
                p.masked_fill_(~masks[n], 0)
    return model
