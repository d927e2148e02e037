# keeps 3.2
import torch


def rewind(model, state, masks):
    masked = {}
    for name, value in state.items():
        masked[name] = torch.where(masks[name], value, torch.zeros_like(value)) if name in masks else value
    model.load_state_dict(masked, strict=True)
