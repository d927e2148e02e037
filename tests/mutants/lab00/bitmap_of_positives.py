# loses 0.4 · message: "negative numbers are marked as zeros"
def bitmap_encode(x):
    bitmap = x > 0
    return bitmap, x[bitmap]
