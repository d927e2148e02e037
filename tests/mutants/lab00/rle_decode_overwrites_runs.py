# loses 0.5 · message: "argument 1 of rle_decode"
def rle_decode(runs, values, shape):
    runs += 1  # elements a pair
    require(len(runs) == len(values) and int(runs.sum()) == math.prod(shape), "the pairs do not fit the shape")
    x = values.new_zeros(math.prod(shape))
    x[runs.cumsum(0) - 1] = values
    return x.view(shape)
