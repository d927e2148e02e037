# loses 3.4 · message: "a second call"
import numpy as np
import torch


def random_ticket(masks, generator):
    rng = np.random.default_rng(generator.initial_seed())
    return {n: torch.from_numpy(rng.permutation(m.flatten().numpy())).view(m.shape) for n, m in masks.items()}
