# keeps 10.6
import numpy as np


def token_macs(lengths_per_layer, E):
    l = np.asarray(lengths_per_layer, dtype=np.int64)
    return int((12 * l * E**2 + 2 * l**2 * E).sum())
