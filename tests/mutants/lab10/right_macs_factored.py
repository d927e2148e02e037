# keeps 10.6
def token_macs(lengths_per_layer, E):
    return 2 * E * sum(l * (6 * E + l) for l in lengths_per_layer)
