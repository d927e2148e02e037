# loses 0.4 · message: "the map was counted with n bits a place"
def bitmap_bits(x, n=32):
    return (int((x != 0).sum()) + x.numel()) * n
