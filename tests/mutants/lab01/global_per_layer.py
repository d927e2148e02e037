# loses 1.4 · message: "each layer lost its own share"
def global_masks(weights, sparsity):
    return {name: magnitude_mask(w, sparsity) for name, w in weights.items() if w.ndim >= 2}
