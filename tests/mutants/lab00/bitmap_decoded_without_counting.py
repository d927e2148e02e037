# loses 0.4 · message: "one value too few"
def bitmap_decode(bitmap, values):
    x = values.new_zeros(bitmap.shape)
    x.masked_scatter_(bitmap, values)
    return x
