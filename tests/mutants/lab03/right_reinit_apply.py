# keeps 3.4
import torch


def _reset(module):
    if hasattr(module, "reset_parameters"):
        module.reset_parameters()


def reinitialise(model, masks, seed):
    state = torch.get_rng_state()
    try:
        torch.manual_seed(seed)
        model.apply(_reset)
    finally:
        torch.set_rng_state(state)
    for name, mask in masks.items():
        model.get_parameter(name).data *= mask
