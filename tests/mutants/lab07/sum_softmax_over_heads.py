# loses 7.1 · message: "over the heads"
def attention_as_sum(x: Tensor, Wq: Tensor, Wk: Tensor, Wv: Tensor, Wo: Tensor, heads: int) -> Tensor:
    B, L, E = x.shape
    if heads < 1 or E % heads:
        raise ValueError(f"{E} features cannot be shared out among {heads} heads")
    d = E // heads
    q, k, v = ((x @ W.T).view(B, L, heads, d).permute(2, 0, 1, 3) for W in (Wq, Wk, Wv))  # each (M, B, L, d)
    attention = torch.softmax(q @ k.transpose(-1, -2) / d**0.5, dim=0)  # (M, B, L, L)
    context = attention @ v  # (M, B, L, d)
    columns = Wo.view(E, heads, d).permute(1, 2, 0)  # (M, d, E): head h's columns of Wo, transposed
    return context @ columns[:, None]  # (M, B, L, E)
