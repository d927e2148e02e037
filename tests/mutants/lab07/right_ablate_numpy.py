# keeps 7.4
import numpy as np
import torch


def ablate_each(evaluate, layers, heads):
    full = evaluate(torch.ones(layers, heads, dtype=torch.float64))
    change = np.empty((layers, heads))
    for place in np.ndindex(layers, heads):
        xi = torch.ones(layers, heads, dtype=torch.float64)
        xi[place] = 0
        change[place] = evaluate(xi) - full
    return torch.from_numpy(change)


def all_but_one(eval_val, eval_test, layers, heads):
    result = []
    for layer in range(layers):
        best, most = None, -float("inf")
        for head in range(heads):
            xi = torch.ones(layers, heads)
            xi[layer, torch.arange(heads) != head] = 0
            score = eval_val(xi)
            if score > most:
                best, most, gates = head, score, xi
        result.append((best, eval_test(gates) - eval_test(torch.ones(layers, heads))))
    return result
