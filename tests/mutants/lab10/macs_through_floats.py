# loses 10.6 · message: "whole numbers"
def token_macs(lengths_per_layer, E):
    return int(sum(12 * l * float(E) ** 2 + 2 * l**2 * E for l in lengths_per_layer))
