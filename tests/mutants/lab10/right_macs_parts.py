# keeps 10.6
def token_macs(lengths_per_layer, E):
    total = 0
    for l in lengths_per_layer:
        projections = 4 * l * E * E
        products = l * l * E + l * l * E
        ffn = l * E * (4 * E) + l * (4 * E) * E
        total += projections + products + ffn
    return total
