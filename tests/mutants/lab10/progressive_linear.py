# loses 10.3 · message: "by the same amount"
import torch


def progressive(lengths, layers, final):
    if not 0 < final <= 1:
        raise ValueError("final")
    l = torch.arange(layers, dtype=torch.float64)[:, None]
    share = 1 - (1 - final) * l / (layers - 1)
    return torch.ceil(lengths.double() * share - 1e-9).clamp(min=1).long()
