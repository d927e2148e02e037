# loses 0.6 · message: "as PyTorch keeps them"
def coo_bits(x, n=32):
    index, values, _ = coo_encode(x)
    return len(values) * n + index.numel() * index.element_size() * 8
