# loses 10.3 · message: "rounded to the nearest"
import torch


def progressive(lengths, layers, final):
    if not 0 < final <= 1:
        raise ValueError("final")
    l = torch.arange(layers, dtype=torch.float64)[:, None]
    share = final ** (l / (layers - 1))
    return (lengths * share).round().clamp(min=1).long()
