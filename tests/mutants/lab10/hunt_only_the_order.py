# loses 10.8 · message: "find_bug let a wrong version pass"
import torch


def find_bug(f):
    g = torch.Generator().manual_seed(0)
    for lengths, M in (((6, 4, 1), 3), ((5, 5), 2), ((3, 7), 1)):
        L = max(lengths)
        mask = torch.arange(L) < torch.tensor(lengths)[:, None]
        attn = (2 * torch.randn(len(lengths), M, L, L, generator=g, dtype=torch.float64)).softmax(-1)
        scores, right = f(attn, mask), attention_received(attn, mask)
        for b, n in enumerate(lengths):
            assert torch.equal(scores[b, :n].argsort(), right[b, :n].argsort())
