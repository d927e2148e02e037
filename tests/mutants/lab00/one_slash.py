# loses 0.1 · message: "a count is an int"
def conv_cost(M, C, R, S, H, W, stride=1, padding=0, bits=32):
    require(min(M, C, R, S, H, W, stride, bits) >= 1 and padding >= 0, "sizes are positive")
    E = (H + 2 * padding - R) / stride + 1
    F = (W + 2 * padding - S) / stride + 1
    require(E >= 1 and F >= 1, "the kernel does not fit")
    weights = M * C * R * S
    return {
        "macs": weights * E * F,
        "weight_bits": bits * weights,
        "input_bits": bits * C * H * W,
        "output_bits": bits * M * E * F,
    }
