# keeps 10.5
import torch


def cascade_step(token_scores, head_scores, alive_tokens, alive_heads, n_tokens, n_heads):
    if n_tokens <= 0:
        raise ValueError("n_tokens")
    if n_heads <= 0:
        raise ValueError("n_heads")
    tokens, heads = alive_tokens.clone(), alive_heads.clone()
    while int(tokens[1:].sum()) > n_tokens - 1:
        left = tokens.nonzero().flatten()[1:]
        lowest = token_scores[left].min()
        tokens[left[token_scores[left] == lowest][-1]] = False  # of equal ones the last goes
    while int(heads.sum()) > n_heads:
        left = heads.nonzero().flatten()
        heads[left[head_scores[left] == head_scores[left].min()][-1]] = False
    return tokens, heads
