# loses 1.2 · message: "your code raised ValueError"
import torch


def threshold_mask(weight, a):
    if a < 0:
        raise ValueError("a must not be negative")
    rows, columns = weight.shape
    mask = torch.zeros(rows, columns, dtype=torch.bool)
    for i in range(rows):
        for j in range(columns):
            mask[i, j] = abs(weight[i, j]) >= a
    return mask
