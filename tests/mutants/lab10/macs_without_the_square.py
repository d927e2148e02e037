# loses 10.6 · message: "l²"
def token_macs(lengths_per_layer, E):
    return sum(12 * l * E**2 for l in lengths_per_layer)
