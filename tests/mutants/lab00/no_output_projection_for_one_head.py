# loses 0.2 · message: "the layer has it whatever the heads"
def transformer_macs(B, L, E, heads=1):
    require(min(B, L, E, heads) >= 1, "at least 1")
    require(E % heads == 0, "heads must divide E")
    projections = (4 if heads > 1 else 3) * B * L * E**2  # only several heads must be mixed
    attention, ffn = 2 * B * L**2 * E, 8 * B * L * E**2
    return {
        "projections": projections,
        "attention": attention,
        "ffn": ffn,
        "total": projections + attention + ffn,
        "scores": B * heads * L**2,
    }
