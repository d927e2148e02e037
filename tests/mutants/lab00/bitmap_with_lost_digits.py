# loses 0.4 · message: "did they become float32"
def bitmap_encode(x):
    small = x.float()
    return x != 0, small[small != 0].to(x.dtype)
