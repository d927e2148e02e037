# loses 0.2 · message: "pairs are formed within a sentence"
def transformer_macs(B, L, E, heads=1):
    require(min(B, L, E, heads) >= 1, "at least 1")
    require(E % heads == 0, "heads must divide E")
    tokens = B * L
    projections, attention, ffn = 4 * tokens * E**2, 2 * tokens**2 * E, 8 * tokens * E**2
    return {
        "projections": projections,
        "attention": attention,
        "ffn": ffn,
        "total": projections + attention + ffn,
        "scores": B * heads * L**2,
    }
