# loses 0.7 · message: "as PyTorch keeps them"
def csr_bits(x2d, n=32):
    v, column, row = csr_encode(x2d)
    return len(v) * n + (column.numel() + row.numel()) * 64
