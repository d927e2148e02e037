# loses 4.8 · message: "returns the mask upside down"
import torch


def find_bug(f):
    torch.manual_seed(1)
    weight, keep, constant = torch.randn(4, 6, 3, 2), torch.rand(6) > 0.5, torch.rand(6) + 1
    _, shift = f(keep, weight, constant)
    assert torch.allclose(shift, weight.sum((2, 3)) @ (constant * ~keep), atol=1e-4)
