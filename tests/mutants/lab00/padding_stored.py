# loses 0.1 · message: "the padding was counted"
def conv_cost(M, C, R, S, H, W, stride=1, padding=0, bits=32):
    require(min(M, C, R, S, H, W, stride, bits) >= 1 and padding >= 0, "sizes are positive")
    H, W = H + 2 * padding, W + 2 * padding
    require(H >= R and W >= S, "the kernel does not fit")
    E, F = (H - R) // stride + 1, (W - S) // stride + 1
    weights = M * C * R * S
    return {
        "macs": weights * E * F,
        "weight_bits": bits * weights,
        "input_bits": bits * C * H * W,
        "output_bits": bits * M * E * F,
    }
