# keeps 10.5
import torch


def cascade_step(token_scores, head_scores, alive_tokens, alive_heads, n_tokens, n_heads):
    if min(n_tokens, n_heads) < 1:
        raise ValueError("at least one")

    def choose(scores, alive, n, first):
        places = [i for i in range(len(scores)) if alive[i]]
        places.sort(key=lambda i: (not (first and i == 0), -float(scores[i]), i))
        return torch.tensor([i in places[:n] for i in range(len(scores))])

    return choose(token_scores, alive_tokens, n_tokens, True), choose(head_scores, alive_heads, n_heads, False)
