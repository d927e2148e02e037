# loses 10.6 · message: "four projections"
def token_macs(lengths_per_layer, E):
    return sum(8 * l * E**2 for l in lengths_per_layer)
