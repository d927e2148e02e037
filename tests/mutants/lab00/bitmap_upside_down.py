# loses 0.4 · message: "the map is upside down"
def bitmap_encode(x):
    bitmap = x == 0
    return bitmap, x[~bitmap]
