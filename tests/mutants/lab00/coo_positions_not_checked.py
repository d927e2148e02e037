# loses 0.6 · message: "a position behind the end should raise a ValueError"
import math


def coo_decode(index, values, shape):
    require(len(index) == len(values), "one value per position")
    x = values.new_zeros(math.prod(shape))
    x[index] = values
    return x.view(shape)
