# loses 10.3 · message: "float32"
import torch


def progressive(lengths, layers, final):
    if not 0 < final <= 1:
        raise ValueError("final")
    l = torch.arange(layers)[:, None]
    share = torch.tensor(final, dtype=torch.float32) ** (l / (layers - 1))
    return torch.ceil(lengths * share - 1e-9).clamp(min=1).long()
