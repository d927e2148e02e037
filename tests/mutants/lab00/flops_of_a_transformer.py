# loses 0.2 · message: "a MAC is one multiplication together with its addition"
def transformer_macs(B, L, E, heads=1):
    require(min(B, L, E, heads) >= 1, "at least 1")
    require(E % heads == 0, "heads must divide E")
    projections, attention, ffn = 8 * B * L * E**2, 4 * B * L**2 * E, 16 * B * L * E**2
    return {
        "projections": projections,
        "attention": attention,
        "ffn": ffn,
        "total": projections + attention + ffn,
        "scores": B * heads * L**2,
    }
