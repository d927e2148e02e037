# loses 10.5 · message: "bool"
import torch


def cascade_step(token_scores, head_scores, alive_tokens, alive_heads, n_tokens, n_heads):
    if n_tokens < 1 or n_heads < 1:
        raise ValueError

    def best(scores, alive, n):
        order = scores.masked_fill(~alive, -torch.inf).argsort(descending=True, stable=True)
        keep = torch.zeros_like(alive)
        keep[order[:n]] = True
        return (keep & alive).nonzero().flatten()

    protected = token_scores.clone()
    protected[0] = torch.inf
    return best(protected, alive_tokens, n_tokens), best(head_scores, alive_heads, n_heads)
