# keeps 3.2
from copy import deepcopy


def rewind(model, state, masks):
    state = deepcopy(state)
    for name, p in model.named_parameters():
        p.data = state[name] * masks[name] if name in masks else state[name]
    for name, b in model.named_buffers():
        b.data = state[name]
