# loses 10.5 · message: "came back"
import torch


def cascade_step(token_scores, head_scores, alive_tokens, alive_heads, n_tokens, n_heads):
    if n_tokens < 1 or n_heads < 1:
        raise ValueError

    def best(scores, alive, n):
        order = scores.masked_fill(~alive, -torch.inf).argsort(descending=True, stable=True)
        keep = torch.zeros_like(alive)
        keep[order[:n]] = True
        return keep & alive

    protected = token_scores.clone()
    protected[0] = torch.inf
    everyone, all = torch.ones_like(alive_tokens), torch.ones_like(alive_heads)
    return best(protected, everyone, n_tokens), best(head_scores, all, n_heads)
