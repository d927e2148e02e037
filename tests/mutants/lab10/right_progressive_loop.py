# keeps 10.3
import math

import torch


def progressive(lengths, layers, final):
    if final <= 0 or final > 1:
        raise ValueError(f"final = {final}")
    table = []
    for layer in range(layers):
        share = final ** (layer / (layers - 1))
        table.append([max(1, math.ceil(n * share - 1e-9)) for n in lengths.tolist()])
    return torch.tensor(table)
