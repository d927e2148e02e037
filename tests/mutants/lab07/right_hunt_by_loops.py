# keeps 7.8
import torch


def find_bug(f):
    torch.manual_seed(3)
    E, heads, d = 6, 2, 3
    x, (Wq, Wk, Wv, Wo) = torch.randn(2, 4, E), [torch.randn(E, E) for _ in range(4)]
    parts = f(x, Wq, Wk, Wv, Wo, heads)
    assert tuple(parts.shape) == (heads, 2, 4, E), "shape"
    for h in range(heads):
        i = list(range(h * d, (h + 1) * d))
        for b in range(2):
            scores = (x[b] @ Wq[i].T) @ (x[b] @ Wk[i].T).T / d**0.5
            right = torch.softmax(scores, 1) @ (x[b] @ Wv[i].T) @ Wo[:, i].T
            assert torch.allclose(parts[h, b], right, atol=1e-4), (h, b)
