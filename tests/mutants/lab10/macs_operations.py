# loses 10.6 · message: "two operations"
def token_macs(lengths_per_layer, E):
    return sum(24 * l * E**2 + 4 * l**2 * E for l in lengths_per_layer)
