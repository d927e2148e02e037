# loses 10.6 · message: "mean length"
def token_macs(lengths_per_layer, E):
    n = len(lengths_per_layer)
    l = sum(lengths_per_layer) / n
    return round(n * (12 * l * E**2 + 2 * l**2 * E))
