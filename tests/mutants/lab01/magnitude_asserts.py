# loses 1.1 · message: "should raise a ValueError, it raised a AssertionError"
import torch


def magnitude_mask(weight, sparsity):
    assert 0 <= sparsity <= 1, "sparsity out of range"
    assert not weight.isnan().any()
    flat = weight.abs().flatten()
    mask = torch.ones_like(flat, dtype=torch.bool)
    mask[flat.argsort(stable=True)[: round(sparsity * len(flat))]] = False
    return mask.view_as(weight)
