# loses 0.1 · message: "a negative number of filters"
def conv_cost(M, C, R, S, H, W, stride=1, padding=0, bits=32):
    require(all([M, C, R, S, H, W, stride, bits]) and padding >= 0, "no size is zero")
    E, F = (H + 2 * padding - R) // stride + 1, (W + 2 * padding - S) // stride + 1
    require(E > 0 and F > 0, "the kernel does not fit")
    return {
        "macs": M * C * R * S * E * F,
        "weight_bits": bits * M * C * R * S,
        "input_bits": bits * C * H * W,
        "output_bits": bits * M * E * F,
    }
