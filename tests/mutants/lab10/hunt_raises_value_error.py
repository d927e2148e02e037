# loses 10.8 · message: "where it should say so by an AssertionError"
import torch


def find_bug(f):
    g = torch.Generator().manual_seed(0)
    for lengths, M in (((6, 4, 1), 3), ((5, 5), 2), ((3, 7), 1)):
        L = max(lengths)
        mask = torch.arange(L) < torch.tensor(lengths)[:, None]
        attn = (2 * torch.randn(len(lengths), M, L, L, generator=g, dtype=torch.float64)).softmax(-1)
        if not torch.allclose(f(attn.clone(), mask), attention_received(attn, mask)):
            raise ValueError("wrong")
