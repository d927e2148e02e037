# keeps 3.4
import copy

import torch


def reinitialise(model, masks, seed):
    fresh = copy.deepcopy(model)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        for _, module in fresh.named_modules():
            if callable(getattr(module, "reset_parameters", None)):
                module.reset_parameters()
    state = fresh.state_dict()
    for name in masks:
        state[name] = state[name].where(masks[name], torch.tensor(0.0))
    model.load_state_dict(state)
