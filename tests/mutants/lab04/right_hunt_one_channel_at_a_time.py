# keeps 4.8
import torch


def find_bug(f):
    """Whole numbers, so that sums are exact: one removed channel at a time, and all of them together."""
    weight = (torch.arange(4 * 4 * 2 * 3) * 7 % 11 - 5).float().view(4, 4, 2, 3)
    constant = torch.tensor([3.0, 0.0, 5.0, 2.0])
    total = torch.zeros(4)
    for i in range(4):
        keep = torch.arange(4) != i
        mask, shift = f(keep, weight.clone(), constant.clone())
        assert type(mask) is torch.Tensor and mask.dtype is torch.bool
        assert list(mask.shape) == [4, 4, 2, 3]
        assert mask.sum() == 72 and not mask[:, i].any()
        assert shift.tolist() == (weight[:, i].sum((1, 2)) * constant[i]).tolist()
        total += shift
    mask, shift = f(torch.zeros(4, dtype=torch.bool), weight, constant)
    assert not mask.any() and shift.tolist() == total.tolist()
    mask, shift = f(torch.ones(4, dtype=torch.bool), weight, constant)
    assert mask.all() and not shift.any()
    assert not f(torch.zeros(4, dtype=torch.bool), weight, None)[1].any()
