# loses 0.6 · message: "one long row"
import math


def coo_decode(index, values, shape):
    require(len(index) == len(values), "one value per position")
    require(bool(((index >= 0) & (index < math.prod(shape))).all()), "outside")
    x = values.new_zeros(math.prod(shape))
    x[index] = values
    return x
