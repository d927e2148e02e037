# loses 10.3 · message: "from the rounded number of the layer before"
import torch


def progressive(lengths, layers, final):
    if not 0 < final <= 1:
        raise ValueError("final")
    rows = [lengths.double()]
    for _ in range(layers - 1):
        rows.append(torch.ceil(rows[-1] * final ** (1 / (layers - 1)) - 1e-9).clamp(min=1))
    return torch.stack(rows).long()
