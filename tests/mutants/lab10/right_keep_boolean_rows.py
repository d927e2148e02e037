# keeps 10.2
import torch


def keep_tokens(hidden, token_mask, scores, k):
    if k <= 0:
        raise ValueError("at least [CLS] stays")
    B, L, E = hidden.shape
    k = min(k, L)
    s = scores.double().clone()
    lowest, highest = s.min() - 2, s.max() + 1
    s[~token_mask] = lowest
    s[:, 0] = highest
    rank = torch.sort(-s, dim=1, stable=True).indices.argsort(1)  # place in the ranking
    stay = rank < k
    index = torch.arange(L).expand(B, L)[stay].view(B, k)
    return hidden[stay].view(B, k, E), token_mask[stay].view(B, k), index
