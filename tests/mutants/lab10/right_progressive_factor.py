# keeps 10.3
import torch


def progressive(lengths, layers, final):
    if not (final > 0 and final <= 1):
        raise ValueError("a share above 0")
    factor, share, rows = final ** (1 / (layers - 1)), 1.0, []
    for layer in range(layers):
        rows.append(torch.clamp(torch.ceil(lengths.to(torch.float64) * share - 1e-9), 1).to(torch.int64))
        share *= factor
    return torch.stack(rows)
