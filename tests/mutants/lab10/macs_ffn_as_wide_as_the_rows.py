# loses 10.6 · message: "4·E wide"
def token_macs(lengths_per_layer, E):
    return sum(6 * l * E**2 + 2 * l**2 * E for l in lengths_per_layer)
