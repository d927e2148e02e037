# keeps 7.2
from contextlib import ExitStack, contextmanager

import torch


@contextmanager
def gated(model, xi):
    if xi.dim() == 2:
        xi = xi[:, None]
    with ExitStack() as stack:
        for gate, layer in zip(xi.unbind(0), output_projections(model)):
            size = layer.in_features // gate.shape[-1]
            wide = torch.repeat_interleave(gate, size, dim=-1)[:, None, :]
            handle = layer.register_forward_pre_hook(lambda module, args, wide=wide: (args[0] * wide,))
            stack.callback(handle.remove)
        yield
