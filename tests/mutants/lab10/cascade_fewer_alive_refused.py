# loses 10.5 · message: "fewer are alive"
import torch


def cascade_step(token_scores, head_scores, alive_tokens, alive_heads, n_tokens, n_heads):
    if not (1 <= n_tokens <= alive_tokens.sum() and 1 <= n_heads <= alive_heads.sum()):
        raise ValueError

    def best(scores, alive, n):
        order = scores.masked_fill(~alive, -torch.inf).argsort(descending=True, stable=True)
        keep = torch.zeros_like(alive)
        keep[order[:n]] = True
        return keep & alive

    protected = token_scores.clone()
    protected[0] = torch.inf
    return best(protected, alive_tokens, n_tokens), best(head_scores, alive_heads, n_heads)
