# loses 7.2, also 7.3 · message: "weight"
from contextlib import contextmanager

import torch


@contextmanager
def gated(model, xi):
    heads = model.config.num_attention_heads
    for layer, gate in zip(output_projections(model), xi):
        layer.weight.data *= gate.detach().repeat_interleave(layer.in_features // heads)
    yield
