# loses 0.1 · message: "without the bits of each"
def linear_cost(batch, d_in, d_out, bits=32):
    require(min(batch, d_in, d_out, bits) >= 1, "sizes are positive")
    return dict(macs=batch * d_in * d_out, weight_bits=d_in * d_out, input_bits=batch * d_in, output_bits=batch * d_out)
