# loses 0.4 · message: "column by column"
def bitmap_encode(x):
    turned = x.permute(*reversed(range(x.ndim)))
    return x != 0, turned[turned != 0]


def bitmap_decode(bitmap, values):
    require(int(bitmap.sum()) == len(values), "as many values as True bits")
    x = values.new_zeros(bitmap.shape)
    order = tuple(reversed(range(x.ndim)))
    x.permute(*order)[bitmap.permute(*order)] = values
    return x
