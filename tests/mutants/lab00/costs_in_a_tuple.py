# loses 0.1 · message: "should be a dict"
def linear_cost(batch, d_in, d_out, bits=32):
    require(min(batch, d_in, d_out, bits) >= 1, "sizes are positive")
    return batch * d_in * d_out, bits * d_in * d_out, bits * batch * d_in, bits * batch * d_out
