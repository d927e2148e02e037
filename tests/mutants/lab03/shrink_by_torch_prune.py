# loses 3.1 · message: "asks you to write this yourself"
import torch
from torch.nn.utils import prune


def shrink(weights, masks, rate, output_rate=None):
    if output_rate is None:
        output_rate = rate / 2
    if not (0 <= rate <= 1 and 0 <= output_rate <= 1):
        raise ValueError("rate")
    last = list(weights)[-1]
    out = {}
    for n, w in weights.items():
        k = round((output_rate if n == last else rate) * int(masks[n].sum()))
        out[n] = prune.L1Unstructured(k).compute_mask(w, masks[n].float()).bool()
    return out
