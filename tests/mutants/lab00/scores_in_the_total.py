# loses 0.2 · message: "the scores were added in"
def transformer_macs(B, L, E, heads=1):
    require(min(B, L, E, heads) >= 1, "at least 1")
    require(E % heads == 0, "heads must divide E")
    cost = {
        "projections": 4 * B * L * E**2,
        "attention": 2 * B * L**2 * E,
        "ffn": 8 * B * L * E**2,
        "scores": B * heads * L**2,
    }
    cost["total"] = sum(cost.values())
    return cost
