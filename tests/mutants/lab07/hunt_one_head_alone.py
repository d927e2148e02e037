# loses 7.8 · message: "let a wrong version pass"
def find_bug(f: Callable[..., Tensor]) -> None:
    generator = torch.Generator().manual_seed(1)
    for B, L, E, heads in ((1, 3, 6, 1), (2, 4, 8, 1)):
        x = torch.randn(B, L, E, generator=generator, dtype=torch.float64)
        Wq, Wk, Wv, Wo = (torch.randn(E, E, generator=generator, dtype=torch.float64) for _ in range(4))
        layer = nn.MultiheadAttention(E, heads, bias=False, batch_first=True, dtype=torch.float64)
        layer.in_proj_weight = nn.Parameter(torch.cat([Wq, Wk, Wv]))
        layer.out_proj.weight = nn.Parameter(Wo)
        parts = f(x, Wq, Wk, Wv, Wo, heads)
        case = f"B {B}, L {L}, E {E}, heads {heads}"
        assert parts.shape == (heads, B, L, E), f"shape {tuple(parts.shape)}: {case}"
        whole, _ = layer(x, x, x)
        assert torch.allclose(parts.sum(0), whole), f"the sum is not multi-head attention: {case}"
        # a head's part must be its own: with the other heads' columns of Wo at 0, it is all there is
        d = E // heads
        for h in range(heads):
            alone = torch.zeros_like(Wo)
            alone[:, h * d : (h + 1) * d] = Wo[:, h * d : (h + 1) * d]
            layer.out_proj.weight = nn.Parameter(alone)
            own, _ = layer(x, x, x)
            assert torch.allclose(parts[h], own), f"part {h} is not head {h}'s: {case}"
