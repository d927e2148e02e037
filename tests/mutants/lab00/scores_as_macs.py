# loses 0.2 · message: "scores are numbers, not MACs"
def transformer_macs(B, L, E, heads=1):
    require(min(B, L, E, heads) >= 1, "at least 1")
    require(E % heads == 0, "heads must divide E")
    D = E // heads
    projections, scores, ffn = 4 * B * L * E**2, B * heads * L * L * D, 8 * B * L * E**2
    return {
        "projections": projections,
        "attention": 2 * scores,
        "ffn": ffn,
        "total": projections + 2 * scores + ffn,
        "scores": scores,
    }
