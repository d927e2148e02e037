# loses 7.6 · message: "asks you to write this yourself"
import torch
from transformers.pytorch_utils import prune_linear_layer


def slice_heads(q, k, v, out, keep, head_dim):
    heads = q.out_features // head_dim
    if list(keep) != sorted(set(keep)) or any(not 0 <= h < heads for h in keep):
        raise ValueError(keep)
    index = torch.tensor([h * head_dim + i for h in keep for i in range(head_dim)], dtype=torch.long)
    return *(prune_linear_layer(layer, index) for layer in (q, k, v)), prune_linear_layer(out, index, dim=1)
