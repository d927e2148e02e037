# loses 3.2 · message: "without a mask"
import torch


@torch.no_grad()
def rewind(model, state, masks):
    own = model.state_dict()
    for n, value in state.items():
        if not n.endswith("bias"):
            own[n].copy_(value)
        if n in masks:
            own[n][~masks[n]] = 0
