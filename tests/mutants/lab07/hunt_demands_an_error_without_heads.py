# loses 7.8 · message: "accused a right version"
import torch


def find_bug(f):
    torch.manual_seed(0)
    for B, L, E, heads in ((2, 5, 12, 3), (3, 4, 8, 4), (1, 3, 6, 2)):
        x, W = torch.randn(B, L, E).double(), [torch.randn(E, E).double() for _ in range(4)]
        assert torch.allclose(f(x, *W, heads), attention_as_sum(x, *W, heads))
    try:
        f(torch.randn(5, 12).double(), *(torch.eye(12).double() for _ in range(4)), 3)
    except ValueError as error:
        assert "three dimensions" in str(error)
    else:
        raise AssertionError("x without a batch is taken")
