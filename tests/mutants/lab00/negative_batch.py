# loses 0.1 · message: "a negative batch"
def linear_cost(batch, d_in, d_out, bits=32):
    require(all([batch, d_in, d_out, bits]), "no size is zero")
    return {
        "macs": batch * d_in * d_out,
        "weight_bits": bits * d_in * d_out,
        "input_bits": bits * batch * d_in,
        "output_bits": bits * batch * d_out,
    }
