# loses 0.4 · message: "does your code keep something between two calls"
BUFFERS = {}


def bitmap_decode(bitmap, values):
    require(int(bitmap.sum()) == len(values), "the values do not fit the map")
    x = BUFFERS.setdefault((bitmap.shape, values.dtype), values.new_zeros(bitmap.shape))
    x[bitmap] = values
    return x
