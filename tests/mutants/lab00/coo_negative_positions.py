# loses 0.6 · message: "a position of -1"
import math


def coo_decode(index, values, shape):
    require(len(index) == len(values), "one value per position")
    require(bool((index < math.prod(shape)).all()), "outside")
    x = values.new_zeros(math.prod(shape))
    x[index] = values
    return x.view(shape)
