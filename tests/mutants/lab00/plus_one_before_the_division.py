# loses 0.1 · message: "the + 1 comes after the division"
def conv_cost(M, C, R, S, H, W, stride=1, padding=0, bits=32):
    require(min(M, C, R, S, H, W, stride, bits) >= 1 and padding >= 0, "sizes are positive")
    E, F = (H + 2 * padding - R + 1) // stride, (W + 2 * padding - S + 1) // stride
    require(H + 2 * padding >= R and W + 2 * padding >= S, "the kernel does not fit")
    weights = M * C * R * S
    return {
        "macs": weights * E * F,
        "weight_bits": bits * weights,
        "input_bits": bits * C * H * W,
        "output_bits": bits * M * E * F,
    }
