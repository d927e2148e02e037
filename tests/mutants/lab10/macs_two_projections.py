# loses 10.6 · message: "is the sum of what your code counts for each layer alone"
def token_macs(lengths_per_layer, E):
    return sum(2 * l * E**2 + 8 * l * E**2 + 2 * l**2 * E for l in lengths_per_layer)
