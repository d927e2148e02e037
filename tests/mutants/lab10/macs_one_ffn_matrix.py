# loses 10.6 · message: "two matrices"
def token_macs(lengths_per_layer, E):
    return sum(8 * l * E**2 + 2 * l**2 * E for l in lengths_per_layer)
