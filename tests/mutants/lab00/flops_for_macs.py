# loses 0.1 · message: "a MAC is one multiplication together with its addition"
def linear_cost(batch, d_in, d_out, bits=32):
    require(min(batch, d_in, d_out, bits) >= 1, "sizes are positive")
    return {
        "macs": 2 * batch * d_in * d_out,
        "weight_bits": bits * d_in * d_out,
        "input_bits": bits * batch * d_in,
        "output_bits": bits * batch * d_out,
    }
