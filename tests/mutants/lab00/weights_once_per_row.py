# loses 0.1 · message: "once per row of the batch"
def linear_cost(batch, d_in, d_out, bits=32):
    require(min(batch, d_in, d_out, bits) >= 1, "sizes are positive")
    macs = batch * d_in * d_out
    return {
        "macs": macs,
        "weight_bits": bits * macs,
        "input_bits": bits * batch * d_in,
        "output_bits": bits * batch * d_out,
    }
