# loses 0.4 · message: "one bit a place is a bool"
def bitmap_encode(x):
    bitmap = (x != 0).int()
    return bitmap, x[x != 0]
