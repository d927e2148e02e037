# loses 10.6 · message: "only the first layer"
def token_macs(lengths_per_layer, E):
    for l in lengths_per_layer:
        return 12 * l * E**2 + 2 * l**2 * E
