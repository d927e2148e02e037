# loses 10.6 · message: "should be an int"
def token_macs(lengths_per_layer, E):
    return sum(12.0 * l * E**2 + 2 * l**2 * E for l in lengths_per_layer)
