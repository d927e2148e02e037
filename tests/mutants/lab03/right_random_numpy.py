# keeps 3.4
import numpy as np
import torch


def random_ticket(masks, generator):
    rng = np.random.default_rng(int(torch.randint(2**62, (1,), generator=generator)))
    return {n: torch.from_numpy(rng.permutation(m.numpy().ravel()).reshape(m.shape)) for n, m in masks.items()}
