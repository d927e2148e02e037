# loses 1.9 · message: "returns numbers, 1.0 for kept"
import torch


def find_bug(f):
    generator = torch.Generator().manual_seed(7)
    for shape in ((1,), (6,), (3, 3), (2, 2, 3)):
        for w in (torch.randn(shape, generator=generator), torch.randint(-2, 3, shape, generator=generator).float()):
            for s in (0, 0.2, 0.45, 0.5, 0.6, 0.9, 1):
                assert torch.equal(f(w, s), magnitude_mask(w, s))  # 1.0 equals True
