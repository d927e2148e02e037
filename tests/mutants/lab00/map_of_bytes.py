# loses 0.4 · message: "a bool of PyTorch takes a byte"
def bitmap_bits(x, n=32):
    bitmap, values = bitmap_encode(x)
    return len(values) * n + bitmap.numel() * bitmap.element_size() * 8
