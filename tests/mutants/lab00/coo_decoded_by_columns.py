# loses 0.6 · message: "counted the positions column by column"
import math


def coo_decode(index, values, shape):
    require(len(index) == len(values), "one value per position")
    require(bool(((index >= 0) & (index < math.prod(shape))).all()), "outside")
    x = values.new_zeros(tuple(reversed(shape)))
    x.view(-1)[index] = values
    return x.permute(*reversed(range(x.ndim))).contiguous()
