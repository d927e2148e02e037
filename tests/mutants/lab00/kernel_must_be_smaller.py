# loses 0.1 · message: "as large as its input"
def conv_cost(M, C, R, S, H, W, stride=1, padding=0, bits=32):
    require(min(M, C, R, S, H, W, stride, bits) >= 1 and padding >= 0, "sizes are positive")
    require(R < H + 2 * padding and S < W + 2 * padding, "the kernel must be smaller than the input")
    E = (H + 2 * padding - R) // stride + 1
    F = (W + 2 * padding - S) // stride + 1
    weights = M * C * R * S
    return {
        "macs": weights * E * F,
        "weight_bits": bits * weights,
        "input_bits": bits * C * H * W,
        "output_bits": bits * M * E * F,
    }
