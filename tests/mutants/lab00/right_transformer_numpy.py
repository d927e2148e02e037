# keeps 0.2
import numpy as np


def transformer_macs(B, L, E, heads=1):
    sizes = np.array([B, L, E, heads], dtype=np.int64)
    if (sizes < 1).any() or E % heads:
        raise ValueError("bad sizes")
    parts = np.array([4, 2, 8]) * np.array([B * L * E**2, B * L**2 * E, B * L * E**2])
    return dict(zip(("projections", "attention", "ffn"), parts)) | {
        "total": parts.sum(),
        "scores": np.prod([B, heads, L, L]),
    }
