# loses 7.2, also 7.3 · message: "(layers, B, heads)"
from contextlib import contextmanager

import torch


@contextmanager
def gated(model, xi):
    heads = model.config.num_attention_heads
    layers = output_projections(model)
    before = [layer.weight.data.clone() for layer in layers]
    try:
        for layer, gate in zip(layers, xi):
            layer.weight.data *= gate.detach().repeat_interleave(layer.in_features // heads)
        yield
    finally:
        for layer, weight in zip(layers, before):
            layer.weight.data.copy_(weight)
