# loses 10.6 · message: "the feed-forward block"
def token_macs(lengths_per_layer, E):
    return sum(4 * l * E**2 + 2 * l**2 * E for l in lengths_per_layer)
