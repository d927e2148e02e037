# loses 0.2 · message: "cannot share"
def transformer_macs(B, L, E, heads=1):
    require(min(B, L, E, heads) >= 1, "at least 1")
    D = E // heads
    projections, attention, ffn = 4 * B * L * E**2, 2 * heads * B * L**2 * D, 8 * B * L * E**2
    return {
        "projections": projections,
        "attention": attention,
        "ffn": ffn,
        "total": projections + attention + ffn,
        "scores": B * heads * L**2,
    }
