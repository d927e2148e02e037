# earns all
# Returns right masks as views of memory that is used again and changed later: strided, with an offset, one byte away from others.
import torch

_right = magnitude_mask


class Kept:
    memory = torch.zeros(1 << 20, dtype=torch.bool)


def magnitude_mask(weight, sparsity):
    right = _right(weight, sparsity)
    Kept.memory.logical_not_()  # what an earlier call returned
    view = Kept.memory[7 : 7 + 3 * right.numel() : 3].view(right.shape)
    view.copy_(right)
    return view
