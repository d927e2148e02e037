# loses 0.5 · message: "larger than what the pairs describe"
import math


def rle_decode(runs, values, shape):
    x = values.new_zeros(math.prod(shape))
    x[(runs + 1).cumsum(0) - 1] = values
    return x.view(shape)
