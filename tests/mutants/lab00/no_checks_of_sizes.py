# loses 0.2 · message: "a sentence of 0 tokens"
def transformer_macs(B, L, E, heads=1):
    if heads < 1 or E % heads:
        raise ValueError("heads must divide E")
    projections, attention, ffn = 4 * B * L * E**2, 2 * B * L**2 * E, 8 * B * L * E**2
    return {
        "projections": projections,
        "attention": attention,
        "ffn": ffn,
        "total": projections + attention + ffn,
        "scores": B * heads * L**2,
    }
