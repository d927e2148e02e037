# loses 10.3 · message: "[CLS] counts like the others"
import torch


def progressive(lengths, layers, final):
    if not 0 < final <= 1:
        raise ValueError("final")
    l = torch.arange(layers, dtype=torch.float64)[:, None]
    share = final ** (l / (layers - 1))
    return torch.ceil((lengths.double() - 1) * share - 1e-9).long() + 1
