# loses 0.1 · message: "another width was asked for"
def conv_cost(M, C, R, S, H, W, stride=1, padding=0, bits=32):
    require(min(M, C, R, S, H, W, stride, bits) >= 1 and padding >= 0, "sizes are positive")
    E = (H + 2 * padding - R) // stride + 1
    F = (W + 2 * padding - S) // stride + 1
    require(E >= 1 and F >= 1, "the kernel does not fit")
    weights = M * C * R * S
    return {
        "macs": weights * E * F,
        "weight_bits": 32 * weights,
        "input_bits": 32 * C * H * W,
        "output_bits": 32 * M * E * F,
    }
