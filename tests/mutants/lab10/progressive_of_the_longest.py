# loses 10.3 · message: "of the longest text"
import torch


def progressive(lengths, layers, final):
    if not 0 < final <= 1:
        raise ValueError("final")
    l = torch.arange(layers, dtype=torch.float64)[:, None]
    share = final ** (l / (layers - 1))
    return torch.ceil(lengths.max() * share - 1e-9).clamp(min=1).long().expand(-1, len(lengths)).minimum(lengths)
