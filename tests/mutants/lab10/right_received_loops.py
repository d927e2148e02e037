# keeps 10.1
import torch


def attention_received(attn, token_mask):
    B, M, L, _ = attn.shape
    out = torch.zeros(B, L)
    for b in range(B):
        queries = [j for j in range(L) if token_mask[b, j]]
        for i in queries:
            total = 0.0
            for m in range(M):
                for j in queries:
                    total += float(attn[b, m, j, i])
            out[b, i] = total / (M * len(queries))
        out[b] /= out[b].sum()
    return out
