# loses 7.1 · message: "should raise a ValueError"
import torch


def attention_as_sum(x, Wq, Wk, Wv, Wo, heads):
    d = x.shape[-1] // heads
    parts = []
    for h in range(heads):
        i = slice(h * d, (h + 1) * d)
        a = torch.softmax((x @ Wq[i].T) @ (x @ Wk[i].T).mT / d**0.5, -1)
        parts.append(a @ (x @ Wv[i].T) @ Wo[:, i].T)
    return torch.stack(parts)
