# loses 0.1 · message: "the batch is missing"
def linear_cost(batch, d_in, d_out, bits=32):
    require(min(batch, d_in, d_out, bits) >= 1, "sizes are positive")
    return {
        "macs": batch * d_in * d_out,
        "weight_bits": bits * d_in * d_out,
        "input_bits": bits * d_in,
        "output_bits": bits * d_out,
    }
