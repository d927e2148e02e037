# loses 10.6 · message: "your function changed"
def token_macs(lengths_per_layer, E):
    total = 0
    while lengths_per_layer:
        l = lengths_per_layer.pop()
        total += 12 * l * E**2 + 2 * l**2 * E
    return total
