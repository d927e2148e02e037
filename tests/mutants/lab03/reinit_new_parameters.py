# loses 3.4 · message: "new nn.Parameter"
import torch
from torch import nn


def reinitialise(model, masks, seed):
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        for module in model.modules():
            if hasattr(module, "reset_parameters"):
                module.reset_parameters()
    for n, m in masks.items():
        owner, _, last = n.rpartition(".")
        setattr(model.get_submodule(owner), last, nn.Parameter(model.get_parameter(n).detach() * m))
