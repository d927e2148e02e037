# keeps 1.1
import torch


def magnitude_mask(weight, sparsity):
    if sparsity < 0 or sparsity > 1:
        raise ValueError("sparsity must lie in [0, 1]")
    values = [abs(v) for v in weight.flatten().tolist()]
    if any(v != v for v in values):
        raise ValueError("NaN")
    by_size = sorted(range(len(values)), key=lambda i: values[i])
    gone = set(by_size[: round(sparsity * len(values))])
    return torch.tensor([i not in gone for i in range(len(values))], dtype=torch.bool).reshape(weight.shape)
