# loses 10.3 · message: "all layers but the first"
import torch


def progressive(lengths, layers, final):
    if not 0 < final <= 1:
        raise ValueError("final")
    l = torch.arange(layers, dtype=torch.float64)[:, None]
    share = torch.where(l > 0, final, 1.0)
    return torch.ceil(lengths.double() * share - 1e-9).clamp(min=1).long()
