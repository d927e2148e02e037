# loses 10.3 · message: "one more than"
import torch


def progressive(lengths, layers, final):
    if not 0 < final <= 1:
        raise ValueError("final")
    l = torch.arange(layers, dtype=torch.float64)[:, None]
    share = final ** (l / (layers - 1))
    return ((lengths.double() * share + 1e-9).floor().long() + 1).minimum(lengths.clamp(min=1)[None])
