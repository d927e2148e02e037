# loses 10.6 · message: "should be an int"
def token_macs(lengths_per_layer, E):
    import torch

    l = torch.tensor(lengths_per_layer)
    return (12 * l * E**2 + 2 * l**2 * E).sum()
