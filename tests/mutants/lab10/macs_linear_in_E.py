# loses 10.6 · message: "E²"
def token_macs(lengths_per_layer, E):
    return sum(12 * l * E + 2 * l**2 * E for l in lengths_per_layer)
