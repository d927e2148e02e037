# keeps 1.9
import torch


def find_bug(f):
    generator = torch.Generator().manual_seed(7)
    for shape in ((1,), (6,), (3, 3), (2, 2, 3)):
        for w in (torch.randn(shape, generator=generator), torch.randint(-2, 3, shape, generator=generator).float()):
            for s in (0, 0.2, 0.45, 0.5, 0.6, 0.9, 1):
                mask = f(w, s)
                if mask.dtype != torch.bool or not torch.equal(mask, magnitude_mask(w, s)):
                    raise AssertionError(f"differs from mine at sparsity {s} for {w}")
