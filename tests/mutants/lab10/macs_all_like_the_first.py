# loses 10.6 · message: "length of the first layer"
def token_macs(lengths_per_layer, E):
    l = lengths_per_layer[0]
    return len(lengths_per_layer) * (12 * l * E**2 + 2 * l**2 * E)
