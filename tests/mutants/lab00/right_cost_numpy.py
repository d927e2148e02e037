# keeps 0.1
import numpy as np


def conv_cost(M, C, R, S, H, W, stride=1, padding=0, bits=32):
    if min(M, C, R, S, H, W, stride, bits) < 1 or padding < 0:
        raise ValueError("bad size")
    E, F = (np.array([H, W]) + 2 * padding - np.array([R, S])) // stride + 1
    if E < 1 or F < 1:
        raise ValueError("the kernel does not fit")
    weights = np.prod([M, C, R, S])
    return {
        "macs": weights * E * F,
        "weight_bits": bits * weights,
        "input_bits": bits * np.prod([C, H, W]),
        "output_bits": M * E * F * bits,
    }
