# keeps 0.2
def transformer_macs(B, L, E, heads=1):
    for size in (B, L, E, heads):
        if size < 1:
            raise ValueError(f"{size} is below 1")
    if E % heads != 0:
        raise ValueError("heads must divide E")
    macs = {"projections": 0, "attention": 0, "ffn": 0, "total": 0}

    def product(part, a, b, c):
        macs[part] += a * b * c
        macs["total"] += a * b * c

    scores = 0
    for _ in range(B):
        for _ in range(4):
            product("projections", L, E, E)
        for _ in range(heads):
            product("attention", L, E // heads, L)
            product("attention", L, L, E // heads)
            scores += L * L
        product("ffn", L, E, 4 * E)
        product("ffn", L, 4 * E, E)
    return {**macs, "scores": scores}
