# loses 10.6 · message: "only the last layer"
def token_macs(lengths_per_layer, E):
    l = lengths_per_layer[-1]
    return 12 * l * E**2 + 2 * l**2 * E
