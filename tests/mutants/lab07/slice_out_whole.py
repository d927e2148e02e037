# loses 7.6 · message: "when the new out was given"
def slice_heads(
    q: nn.Linear, k: nn.Linear, v: nn.Linear, out: nn.Linear, keep: list[int], head_dim: int
) -> tuple[nn.Linear, nn.Linear, nn.Linear, nn.Linear]:
    heads = q.out_features // head_dim
    rising = all(a < b for a, b in zip(keep, keep[1:], strict=False))
    if not rising or (len(keep) and not 0 <= keep[0] <= keep[-1] < heads):
        raise ValueError(f"keep: strictly increasing heads from 0 to {heads - 1}, got {keep}")
    features = torch.arange(heads * head_dim).view(heads, head_dim)[torch.tensor(keep, dtype=torch.int64)].flatten()

    def rows(layer: nn.Linear) -> nn.Linear:
        smaller = copy.deepcopy(layer)
        smaller.weight = nn.Parameter(layer.weight.detach()[features])  # (kept · d, E)
        if layer.bias is not None:
            smaller.bias = nn.Parameter(layer.bias.detach()[features])
        smaller.out_features = len(features)
        return smaller

    columns = copy.deepcopy(out)
    return rows(q), rows(k), rows(v), columns
