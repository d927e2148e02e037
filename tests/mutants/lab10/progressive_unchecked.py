# loses 10.3 · message: "should raise a ValueError"
import torch


def progressive(lengths, layers, final):
    l = torch.arange(layers, dtype=torch.float64)[:, None]
    share = final ** (l / (layers - 1))
    return torch.ceil(lengths.double() * share - 1e-9).clamp(min=1).long()
