# keeps 4.1
import torch


@torch.no_grad()
def bn_scale_shift(bn):
    state = {name: value.double() for name, value in bn.state_dict().items()}
    inverse = (state["running_var"] + bn.eps).rsqrt()
    p = inverse * state["weight"]
    return [p, torch.addcmul(state["bias"], p, state["running_mean"], value=-1)]
