# loses 3.2 · message: "num_batches_tracked"
import torch


@torch.no_grad()
def rewind(model, state, masks):
    own = model.state_dict()
    for n, value in state.items():
        if value.is_floating_point():
            own[n].copy_(value)
        if n in masks:
            own[n][~masks[n]] = 0
