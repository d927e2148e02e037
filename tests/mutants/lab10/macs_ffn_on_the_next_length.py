# loses 10.6 · message: "next layer"
def token_macs(lengths_per_layer, E):
    total = 0
    for l, after in zip(lengths_per_layer, lengths_per_layer[1:] + lengths_per_layer[-1:]):
        total += 4 * l * E**2 + 2 * l**2 * E + 8 * after * E**2
    return total
