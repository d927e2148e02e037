# loses 3.2 · message: "new nn.Parameter"
from torch import nn


def rewind(model, state, masks):
    model.load_state_dict(state)
    for n, p in list(model.named_parameters()):
        if n in masks:
            owner, _, last = n.rpartition(".")
            setattr(model.get_submodule(owner), last, nn.Parameter(p.detach() * masks[n]))
