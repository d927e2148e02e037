# keeps 1.9
import torch


def find_bug(f):
    torch.manual_seed(1)
    for w in (
        torch.randn(13),
        torch.randn(3, 5),
        -torch.rand(2, 3, 2),
        torch.tensor([[2.0, -2.0, 2.0], [1.0, -1.0, 2.0]]),
    ):
        n = w.numel()
        for s in [i / 10 for i in range(11)]:
            mask = f(w.clone(), s)
            assert isinstance(mask, torch.Tensor) and mask.dtype == torch.bool, "not a mask"
            assert mask.shape == w.shape, "wrong shape"
            k = round(s * n)
            assert (~mask).sum().item() == k, f"{k} of {n} should go"
            if 0 < k < n:
                assert w.abs()[~mask].max() <= w.abs()[mask].min(), "not the smallest"
    assert f(torch.ones(4), 0.5).tolist() == [False, False, True, True], "ties"
