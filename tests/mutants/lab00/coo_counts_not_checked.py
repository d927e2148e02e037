# loses 0.6 · message: "two positions with one value"
import math


def coo_decode(index, values, shape):
    require(bool(((index >= 0) & (index < math.prod(shape))).all()), "outside")
    x = values.new_zeros(math.prod(shape))
    x[index] = values
    return x.view(shape)
