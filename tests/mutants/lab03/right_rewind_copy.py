# keeps 3.2
import torch


@torch.no_grad()
def rewind(model, state, masks):
    for name, tensor in model.state_dict().items():
        tensor.copy_(state[name])
    for name, mask in masks.items():
        model.get_parameter(name).mul_(mask)
