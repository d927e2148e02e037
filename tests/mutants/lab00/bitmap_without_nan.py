# loses 0.4 · message: "NaN was lost"
def bitmap_encode(x):
    bitmap = x.abs() > 0 if x.is_floating_point() else x != 0
    return bitmap, x[bitmap]
