# keeps 10.5
import numpy as np
import torch


def cascade_step(token_scores, head_scores, alive_tokens, alive_heads, n_tokens, n_heads):
    if n_tokens < 1 or n_heads < 1:
        raise ValueError(f"{n_tokens}, {n_heads}")
    result = []
    for scores, alive, n, cls in ((token_scores, alive_tokens, n_tokens, 1), (head_scores, alive_heads, n_heads, 0)):
        s, a = scores.double().numpy(), alive.numpy()
        place = np.arange(len(s))
        order = np.lexsort((place, -s, ~((place == 0) & bool(cls)), ~a))
        mask = np.zeros(len(s), dtype=bool)
        mask[order[: min(n, a.sum())]] = True
        result.append(torch.from_numpy(mask))
    return tuple(result)
