# loses 0.1 · message: "neither the stride nor the padding"
def conv_cost(M, C, R, S, H, W, stride=1, padding=0, bits=32):
    require(min(M, C, R, S, H, W, stride, bits) >= 1 and padding >= 0, "sizes are positive")
    E, F = H - R + 1, W - S + 1
    require(E > 0 and F > 0, "the kernel does not fit")
    weights = M * C * R * S
    return {
        "macs": weights * E * F,
        "weight_bits": bits * weights,
        "input_bits": bits * C * H * W,
        "output_bits": bits * M * E * F,
    }
