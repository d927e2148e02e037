# keeps 7.2
from contextlib import contextmanager


@contextmanager
def gated(model, xi):
    heads, layers = model.config.num_attention_heads, output_projections(model)
    own = [layer.forward for layer in layers]
    try:
        for layer, gate, forward in zip(layers, xi, own):
            gate = gate if gate.ndim == 1 else gate[:, None]
            layer.forward = lambda x, g=gate, f=forward: f((x.unflatten(-1, (heads, -1)) * g[..., None]).flatten(-2))
        yield
    finally:
        for layer, forward in zip(layers, own):
            layer.forward = forward
