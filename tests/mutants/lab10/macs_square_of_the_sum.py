# loses 10.6 · message: "all layers together"
def token_macs(lengths_per_layer, E):
    l = sum(lengths_per_layer)
    return 12 * l * E**2 + 2 * l**2 * E
