# loses 0.5 · message: "one long row"
import math


def rle_decode(runs, values, shape):
    ends = (runs + 1).cumsum(0)
    require((int(ends[-1]) if len(ends) else 0) == math.prod(shape), "the pairs do not fill the shape")
    x = values.new_zeros(math.prod(shape))
    x[ends - 1] = values
    return x
