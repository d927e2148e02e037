# loses 0.4 · message: "bytes, it seems"
def bitmap_bits(x, n=32):
    return (int((x != 0).sum()) * n + x.numel()) // 8
