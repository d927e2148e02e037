# keeps 7.2
from contextlib import contextmanager


@contextmanager
def gated(model, xi):
    heads = model.config.num_attention_heads
    layers = output_projections(model)

    def scaled(layer, gate):
        own = layer.forward

        def forward(x):
            B, L, E = x.shape
            g = gate.expand(B, heads).unsqueeze(1)
            return own(x * g.repeat_interleave(E // heads, dim=2))

        return forward

    try:
        for layer, gate in zip(layers, xi):
            layer.forward = scaled(layer, gate)
        yield model
    finally:
        for layer in layers:
            layer.__dict__.pop("forward", None)
