# loses 10.3 · message: "how many leave"
import torch


def progressive(lengths, layers, final):
    if not 0 < final <= 1:
        raise ValueError("final")
    l = torch.arange(layers, dtype=torch.float64)[:, None]
    share = final ** (l / (layers - 1))
    return lengths - torch.ceil(lengths.double() * share - 1e-9).clamp(min=1).long()
