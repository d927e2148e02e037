# loses 0.4 · message: "a count is an int"
def bitmap_bits(x, n=32):
    p = (x == 0).double().mean().item()
    return (1 - p) * x.numel() * n + x.numel()
